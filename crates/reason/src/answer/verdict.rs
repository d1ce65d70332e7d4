//! The verdict and the ends: who loses how much to what, named or not, in one sentence and a table that adds up.
//!
//! Every look gets one, whatever the rules say: `held` by a named cause, `waits` for somebody else's making, `works`, or `idle`
//! because nobody is owed anything. Of a command the ends add up to its wall time, of everything else to the demand. Must not:
//! decide what an end is (graph/) or name a cause (rules/); it says what is there.
//!
//! Edit together: report.rs (the contract), docs/json.md, the report crate's text/verdict.rs.

use super::datagram;
use super::looked_at;
use super::naming::{self, link, process_name, victim};
use super::only_server;
use super::owing;
use super::own::Own;
use super::paced;
use super::pipe_end;
use super::places;
use super::report::*;
use super::saved::Saved;
use super::sentences::{idle_but_for_short_waits, idle_title, unnamed};
use super::sockets;
use super::standing;
use super::unwoken;
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::cpu_users::Program;
use crate::measure::own_functions::works_in;
use crate::model::object::Object;
use crate::model::{Model, lifetimes};
use crate::programs::go;
use crate::rules::lasting::lasting;
use crate::rules::wait_words::list;
use crate::rules::{Claim, ask, engine};
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::span::WaitSpan;
use crate::waits::{WaitClass, goroutines};
use std::collections::{BTreeMap, BTreeSet};

/// Ends shown one by one; the rest are summed by kind.
const ENDS_MAX: usize = 40;
/// Below this part of a look nobody is owed anything that matters: what a process does to stay alive.
const DEMAND_MIN: f64 = 0.01;

/// On a host less waiting than this, seconds a second, is nobody's trouble.
const HOST_DEMAND_MIN: f64 = 0.25;
/// A host whose CPUs are in use for less than this part of the time has nothing to do,
const HOST_BUSY_MIN: f64 = 0.05;
/// unless as many CPUs are in use for all of it: of a big host one program is a small part.
const HOST_CPUS_BUSY_MIN: f64 = 0.5;
/// Who ran for less than this part of what ran on the CPUs that are waited for is one of many that had them.
const HAD_MIN: f64 = 0.5;
/// Work that takes less is done before a profiler has a picture of it.
const PROFILE_SECONDS: f64 = 1.0;

/// What an end of the answer is of: one of the graph's ends, as far as these processes lose it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Index into the graph's ends.
    pub end: usize,
    /// The processes.
    pub victims: BTreeSet<u32>,
}

/// A part of one of the graph's ends that is an end of the answer.
pub(super) struct Share {
    /// Index into the graph's ends.
    at: usize,
    /// The part of it.
    pub end: End,
    /// Index of the finding that claims it.
    pub finding: Option<usize>,
}

/// The answer, and what each of its ends is made of; `claims` are those of the findings, in their order.
pub(super) fn answer(
    measures: &Measures<'_>,
    claims: &[Vec<Claim>],
    findings: &[Finding],
    saved: &Saved,
) -> (Answer, Vec<Vec<Origin>>) {
    let mut shares = divided(measures, claims);
    // What stands still on a host and nobody waits for is a note, and nobody's loss.
    let is_loss =
        |finding: &Finding| finding.severity > Severity::Note || !finding.victims.is_empty();
    let finding = |share: &Share| findings.get(share.finding?);
    shares.retain(|share| !is_host(measures) || finding(share).is_none_or(is_loss));
    let mut ends: Vec<AnswerEnd> =
        shares.iter().map(|share| said(measures, &share.end, share.finding)).collect();
    for (end, share) in ends.iter_mut().zip(&shares) {
        end.without_it = saved.end(measures, &share.end);
        looked_at::lead_on(measures, end);
    }
    let origins = shares.iter().map(Share::origin).collect();
    let demand: f64 = ends.iter().map(|end| end.seconds).sum();
    for end in &mut ends {
        end.share = end.seconds / demand.max(1e-9);
    }
    let own = Own::of(measures);
    let verdict = verdict(&own, &ends, demand, findings);
    let first = match verdict {
        Verdict::Held => ends.iter().position(|end| end.finding == Some(0)),
        Verdict::Works => ends.iter().position(|end| own.works(end)),
        Verdict::Idle => None,
        Verdict::Waits => ends.iter().position(|end| !own.works(end)),
    };
    let held = findings.first().filter(|finding| finding.severity > Severity::Note);
    let (title, text) = match (verdict, held) {
        (Verdict::Held, Some(finding)) => (finding.title.clone(), finding.text.clone()),
        (Verdict::Idle, _) => paced::said(measures)
            .or_else(|| standing::said(measures))
            .or_else(|| owing::said(measures))
            .or_else(|| Some((datagram::awaited(measures)?, idle_text(measures))))
            .or_else(|| idle_but_for_short_waits(measures))
            .unwrap_or_else(|| (idle_title(measures), idle_text(measures))),
        _ => {
            let unnamed = unnamed(&own, &ends, verdict, first);
            owing::beside(measures, &ends, paced::beside(measures, &ends, unnamed))
        }
    };
    let first = first.filter(|_| paced::said(measures).is_none_or(|said| said.0 != title));
    let (ends, origins, first) = folded(ends, origins, first);
    (Answer { verdict, title, text, first, demand_seconds: demand, ends }, origins)
}

fn verdict(own: &Own<'_>, ends: &[AnswerEnd], demand: f64, findings: &[Finding]) -> Verdict {
    let measures = own.measures;
    if findings.iter().any(|finding| finding.severity > Severity::Note) {
        return Verdict::Held;
    }
    let is_host = is_host(measures);
    let demand_min = if is_host { HOST_DEMAND_MIN } else { DEMAND_MIN };
    // Whoever shares full CPUs with his equals works, at a part of his pace.
    let shared: f64 = ends
        .iter()
        .filter(|end| is_host && end.end == EndKind::Cpu && end.finding.is_some())
        .map(|end| end.seconds)
        .sum();
    let demand = demand - shared;
    if !measures.is_command() && demand < demand_min * measures.wall_seconds() {
        let busy = measures.cpu.mean_busy(&[]).unwrap_or(0.0);
        let works = is_host && is_busy(busy, measures.model.look.host.cpus);
        return if works { Verdict::Works } else { Verdict::Idle };
    }
    let works: f64 = ends.iter().filter(|end| own.works(end)).map(|e| e.seconds).sum();
    if works * 2.0 >= demand { Verdict::Works } else { Verdict::Waits }
}

fn is_host(measures: &Measures<'_>) -> bool {
    measures.model.look.target.as_ref().is_none_or(|it| it.kind == TargetKind::Host)
}

/// Whether so many CPUs, in use for a part of the time, have something to do.
fn is_busy(part: f64, cpus: u32) -> bool {
    let cpus = f64::from(cpus.max(1));
    part * cpus >= (HOST_BUSY_MIN * cpus).min(HOST_CPUS_BUSY_MIN)
}

/// Every end with its part of the time, greatest first.
pub(super) fn divided(measures: &Measures<'_>, claims: &[Vec<Claim>]) -> Vec<Share> {
    let is_host = is_host(measures);
    let mut of_end: BTreeMap<usize, Vec<(usize, &Claim)>> = BTreeMap::new();
    for (finding, own) in claims.iter().enumerate() {
        own.iter().for_each(|claim| of_end.entry(claim.end).or_default().push((finding, claim)));
    }
    let mut all = Vec::new();
    for (at, end) in measures.graph.ends.iter().enumerate() {
        let mut left: BTreeSet<u32> = end.victims.keys().copied().collect();
        for (finding, claim) in of_end.get(&at).into_iter().flatten().copied() {
            let whole = claim.victims.is_none() && left.len() == end.victims.len();
            let part = match (&claim.victims, whole) {
                (_, true) => end.clone(),
                (Some(own), _) => end.counted_of(|pid| own.contains(&pid) && left.contains(&pid)),
                (None, _) => end.counted_of(|pid| left.contains(&pid)),
            };
            part.victims.keys().for_each(|pid| {
                left.remove(pid);
            });
            all.push(Share { at, end: part, finding: Some(finding) });
        }
        let rest = if left.len() == end.victims.len() {
            end.clone()
        } else {
            end.counted_of(|pid| left.contains(&pid))
        };
        // On a host neither a debt nor work that nobody waits for is anybody's loss.
        let counts = !(is_host && (end.owed || end.kind == EndKind::Works));
        if !left.is_empty() && counts && end.kind != EndKind::Idle {
            all.push(Share { at, end: rest, finding: None });
        }
    }
    all.retain(|share: &Share| share.end.seconds > 0.0);
    all.sort_by(|a, b| b.end.seconds.total_cmp(&a.end.seconds));
    all
}

impl Share {
    fn origin(&self) -> Origin {
        Origin { end: self.at, victims: self.end.victims.keys().copied().collect() }
    }
}

/// An end in the words of the contract, without its share.
pub(super) fn said(measures: &Measures<'_>, end: &End, finding: Option<usize>) -> AnswerEnd {
    let model = measures.model;
    let mut victims: Vec<Victim> =
        end.victims.values().map(|(thread, seconds)| victim(model, thread, *seconds)).collect();
    victims.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    let (kind, who) = acts(end);
    let who = who.map(|thread| Who {
        runs: naming::runs(model, &process_name(model, thread), thread),
        name: process_name(model, thread),
        program: None,
        of_its_name: (end.of_its_name > 1).then_some(end.of_its_name),
        function: (kind == EndKind::Works).then(|| works_in(measures, thread.pid)).flatten(),
        ..naming::who(model, thread)
    });
    let who = match (kind, end.class) {
        // The group itself is over its quota: nobody has the CPU instead, which may be idle.
        (EndKind::Cpu, WaitClass::CpuQuota) => None,
        (EndKind::Cpu, _) => has_the_cpu(measures, end),
        _ => who,
    };
    let asks = ask(measures, end, finding.is_some());
    AnswerEnd {
        end: kind,
        object: model.name_of(&end.object),
        lock_kind: end.lock_kind(model).filter(|_| kind == EndKind::Lock),
        who,
        seconds: end.seconds,
        share: 0.0,
        longest_seconds: end.longest_seconds,
        without_it: WithoutIt::default(),
        victims,
        chain: end
            .links
            .iter()
            .filter_map(|it| engine::step(it))
            .map(|s| link(model, &s))
            .collect(),
        finding,
        ask: asks.as_ref().map_or_else(String::new, |way| way.command.clone()),
        ask_action: asks.and_then(|way| way.action),
        why_open: (kind == EndKind::Open).then(|| why_open(measures, end)),
        by_timeout: end.is_timed(),
        unconnected: kind == EndKind::Remote && sockets::is_unconnected(model, &end.object),
        connecting: kind == EndKind::Remote && end.class == WaitClass::SocketConnect,
        unasked: kind == EndKind::Remote && measures.graph.is_for_what_comes(end),
    }
}

/// The question that leads on from an end: to the program where it waits for something inside itself, and where no rule has a way
/// out, to whoever would have to act. Of who is gone, what can be asked the next time.
fn ask(measures: &Measures<'_>, end: &End, is_named: bool) -> Option<Remedy> {
    let model = measures.model;
    let program = |who: &ThreadRef| {
        let question = match goroutines::are_known(model, who.pid) {
            true => ask::question_of(model, &go::GO, who.pid),
            false => ask::question_about(model, who.pid, end.lock_kind(model)),
        };
        Remedy::default().ask(Question::Program, who, question)
    };
    let way = match (end.kind, &end.object) {
        (
            EndKind::Lock,
            Object::Inside(pid) | Object::Parked(pid) | Object::InterpreterLock(pid),
        ) => Some(program(&model.threads.thread_ref(*pid))),
        (EndKind::Lock, Object::Mutex { pid, .. }) => {
            let question = ask::question_of(model, &go::GO, *pid);
            Some(Remedy::default().ask(
                Question::Program,
                &model.threads.thread_ref(*pid),
                question,
            ))
        }
        (EndKind::Lock, Object::Futex { pid, .. }) if end.who.is_none() => {
            Some(program(&model.threads.thread_ref(*pid)))
        }
        // Of a peer on another host this side of the connection is all that can be asked.
        (EndKind::Remote, Object::Inet(ino)) if end.who.is_none() => {
            let socket = model.called.socket(*ino).filter(|it| it.remote.port() != 0);
            socket.map(|it| ask::of_socket(model, it, ""))
        }
        (EndKind::Open, _) if matches!(end.class, WaitClass::Idle | WaitClass::FutexWait) => {
            end.links.last().map(|root| program(&root.who))
        }
        _ if is_named => None,
        (EndKind::Remote | EndKind::Sleep, _) => end.who.as_ref().map(program),
        (EndKind::Person, _) => end.who.as_ref().map(|who| {
            let command = format!("ps -o user,tty,lstart,args -p {}", who.pid);
            Remedy::default().ask(Question::State, who, command)
        }),
        (EndKind::Works, _) if end.seconds >= PROFILE_SECONDS => {
            end.who.as_ref().map(|who| Remedy::default().profile(who))
        }
        _ => None,
    };
    lasting(model, way.into_iter().collect()).pop()
}

/// Kind and actor as they are said: a full buffer whose reader sleeps is the reader's sleep, and who waits for a vfork's
/// child that runs waits for its work.
fn acts(end: &End) -> (EndKind, Option<&ThreadRef>) {
    if end.class == WaitClass::Vfork && end.holder_mostly() == Some(WaitClass::Running) {
        return (EndKind::Works, end.who.as_ref());
    }
    let root =
        end.links.last().filter(|root| end.kind == EndKind::Link && root.class == WaitClass::Timer);
    match root {
        Some(root) if end.holder_mostly() == Some(WaitClass::Timer) => {
            (EndKind::Sleep, Some(&root.who))
        }
        _ => (end.kind, end.who.as_ref()),
    }
}

/// Who had the CPUs while an end's victims waited for them: the program that used most of them, with how many there are of it.
fn has_the_cpu(measures: &Measures<'_>, end: &End) -> Option<Who> {
    let mut waiters: BTreeSet<u32> = end.victims.keys().copied().collect();
    for pid in end.victims.keys() {
        let family = measures.cpu.job(*pid).into_iter().flat_map(|job| job.processes.keys());
        waiters.extend(family);
    }
    let instead = measures.cpu.instead_of(&waiters);
    let model = measures.model;
    let all = instead.others.iter().chain(&instead.themselves).filter(|program| !program.kernel);
    let there = |program: &Program| program.run * part_there(model, program, &waiters);
    let whole: f64 = all.clone().map(there).sum();
    let most = all.max_by(|a, b| there(a).total_cmp(&there(b)))?;
    if whole <= 0.0 || there(most) < HAD_MIN * whole {
        return None;
    }
    let name = match most.count {
        0 | 1 => most.name.clone(),
        count => format!("{count} x {}", most.name),
    };
    let example = model.threads.thread_ref(most.example);
    // Of several the group of one says nothing of the others.
    let of = if most.count > 1 { Who::default() } else { naming::who(model, &example) };
    Some(Who { kind: "process".into(), name, pid: Some(most.example), tid: None, ..of })
}

/// Where whoever was asked about rests, for which message, and what it leaves undone.
fn idle_text(measures: &Measures<'_>) -> String {
    let place = places::of_idle(measures.model) + &only_server::sentence(measures);
    let target = measures.model.look.target.as_ref();
    let pid = target.filter(|it| it.kind == TargetKind::Process).map(|it| it.pid);
    let message = pid.map_or_else(String::new, |pid| unwoken::awaited_message(measures, pid));
    let zombies = match pid.map_or(0, |pid| measures.zombies_of(pid)) {
        0 => String::new(),
        1 => " A child of it has ended, and it has not collected it (wait(2)): a zombie.".into(),
        some => format!(
            " {some} of its children have ended, and it has not collected them (wait(2)): zombies, of each of which a PID is left."
        ),
    };
    let pace = pid.map_or_else(String::new, |pid| places::pace(measures, pid));
    format!("{place}{message}{pace}{zombies}").trim_start().into()
}

/// The part of what a program ran that is likely to have been on the CPUs that the waiters may use: of the CPUs that it may use itself,
/// those that are theirs too.
fn part_there(model: &Model, program: &Program, waiters: &BTreeSet<u32>) -> f64 {
    let allowed = |pid: u32| model.threads.by_id.get(&pid).map_or(&[][..], |it| &it.cpus_allowed);
    let mut theirs: BTreeSet<u32> = BTreeSet::new();
    for pid in waiters {
        match allowed(*pid) {
            [] => return 1.0,
            cpus => theirs.extend(cpus),
        }
    }
    match allowed(program.example) {
        [] => theirs.len() as f64 / f64::from(model.look.host.cpus).max(theirs.len() as f64),
        // A main thread that is kept off says nothing of the others, which were seen there (a virtual machine's, pinned each to its CPU).
        own => match own.iter().filter(|cpu| theirs.contains(cpu)).count() {
            0 => 1.0,
            both => both as f64 / own.len() as f64,
        },
    }
}

/// Why an end goes no further, one clause.
fn why_open(measures: &Measures<'_>, end: &End) -> String {
    let root = &end.links[end.links.len() - 1];
    if is_hidden(measures, root) {
        return format!(
            "where {} waits may not be read: it runs as another user, or with rights of its own (setuid), and root sees it",
            measures.model.threads.who(&root.who)
        );
    }
    match (end.class, &root.object) {
        (WaitClass::Child, object) => {
            let whom = match object {
                Object::AnyChild => "whichever of its children ends first",
                _ => "a child",
            };
            format!("it waits for {whom}{}", children(measures, root.who.pid))
        }
        (WaitClass::PipeRead, _) if end.circle => {
            "the chain comes back to one who waits in it: each waits for the next".into()
        }
        (WaitClass::PipeRead, _) => pipe_end::why_open(measures, root),
        (WaitClass::Zombie, _) => "it has ended, and its parent has not waited for it".into(),
        (WaitClass::Unseen, _) if measures.model.in_target(&root.who) => {
            "it had many waits too short to be seen one by one, or none of its events were seen"
                .into()
        }
        (WaitClass::Unseen, _) if !lifetimes::is_there_at_end(measures.model, &root.who) => {
            format!(
                "{} had many waits too short to be seen one by one, or none of its events were seen",
                measures.model.threads.who(&root.who)
            )
        }
        (WaitClass::Unseen, _) => format!(
            "{} had many waits too short to be seen one by one, or none of its events were seen (holdup -p {} follows them)",
            measures.model.threads.who(&root.who),
            root.who.pid
        ),
        (WaitClass::Kernel, Object::Kernel(at)) => {
            format!("it waits inside the kernel, at {at}, and what for could not be read")
        }
        (WaitClass::Idle, _) => whose_word(measures, root).unwrap_or_else(|| {
            "it waits for an event, and who would have to send it was not seen".into()
        }),
        _ => "who would have to act was not seen".into(),
    }
}

/// The children that a process has at the end, by their names: `: sleep 12, sleep 13 and 2 more`.
fn children(measures: &Measures<'_>, pid: u32) -> String {
    let model = measures.model;
    let known = model.threads.by_id.values().filter(|it| it.parent_pid == pid);
    let are_there = known
        .map(|it| &it.thread)
        .filter(|it| it.tid == it.pid && lifetimes::is_there_at_end(model, it));
    let pids: BTreeSet<u32> = are_there.map(|it| it.pid).collect();
    if pids.is_empty() { String::new() } else { format!(": {}", list(measures, &pids)) }
}

/// Whether a thread was seen to wait by its state alone, because whoever looks may read no more of it.
fn is_hidden(measures: &Measures<'_>, root: &ChainLink) -> bool {
    let model = measures.model;
    let is_unread = |wait: &WaitSpan| {
        let place = &wait.place;
        place.syscall.is_empty() && place.stack == 0 && place.object.is_none() && !wait.kernel
    };
    let of_it = |wait: &&WaitSpan| {
        model.threads.is_same(&wait.thread, &root.who)
            && wait.within_ns(root.begin_ns, root.end_ns) > 0
    };
    model.look.blind.iter().any(|blind| blind.what == "proc.stack")
        && measures.waits().filter(of_it).any(is_unread)
}

/// Whose word a link waits for on a socket of its own. A client that was accepted waits itself, whatever ended the wait of a loop there.
fn whose_word(measures: &Measures<'_>, link: &ChainLink) -> Option<String> {
    let Object::Inet(ino) = link.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    match socket.remote.port() {
        0 if socket.state == TCP_LISTEN => {
            Some(format!("it waits for somebody to connect to {}", socket.local))
        }
        0 => None,
        _ if measures.graph.is_accepted(socket) => None,
        _ => Some(format!("it waits for the next word of {}", socket.remote)),
    }
}

/// The ends beyond the greatest, as one row a kind. That of the title stands for itself however small it is: of a moment there may be
/// many greater ones.
fn folded(
    mut ends: Vec<AnswerEnd>,
    mut origins: Vec<Origin>,
    first: Option<usize>,
) -> (Vec<AnswerEnd>, Vec<Vec<Origin>>, Option<usize>) {
    if let Some(at) = first.filter(|at| *at >= ENDS_MAX) {
        ends[ENDS_MAX - 1..=at].rotate_right(1);
        origins[ENDS_MAX - 1..=at].rotate_right(1);
    }
    let first = first.map(|at| at.min(ENDS_MAX - 1));
    let rest = ends.split_off(ends.len().min(ENDS_MAX));
    let of_rest = origins.split_off(ends.len());
    let single = origins.into_iter().map(|origin| vec![origin]);
    let mut all: Vec<(AnswerEnd, Vec<Origin>)> = ends.into_iter().zip(single).collect();
    for (end, origin) in rest.into_iter().zip(of_rest) {
        match all[ENDS_MAX..].iter_mut().find(|(known, _)| known.end == end.end) {
            Some((known, origins)) => {
                known.seconds += end.seconds;
                known.share += end.share;
                origins.push(origin);
            }
            None => {
                let others = AnswerEnd {
                    object: ObjectName::new("", "others"),
                    who: None,
                    victims: Vec::new(),
                    chain: Vec::new(),
                    finding: None,
                    ask: String::new(),
                    ask_action: None,
                    without_it: WithoutIt::default(),
                    ..end
                };
                all.push((others, vec![origin]));
            }
        }
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*b].0.seconds.total_cmp(&all[*a].0.seconds));
    let first = first.and_then(|first| order.iter().position(|at| *at == first));
    let mut all: Vec<Option<(AnswerEnd, Vec<Origin>)>> = all.into_iter().map(Some).collect();
    let (ends, origins) = order.into_iter().filter_map(|at| all[at].take()).unzip();
    (ends, origins, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, Host, Thread, ThreadTime, Wait, WaitState};
    use crate::rules::scenes::{LOOK_NS, blocked, host, identity, of_process, thread};

    /// So many ends, each smaller than the one before it.
    fn ends(many: usize) -> (Vec<AnswerEnd>, Vec<Origin>) {
        let waits = blocked(10, "job", WaitState::Sleep, "flock");
        let ended = Wait {
            thread: thread(10, "job"),
            begin_ns: 1_000,
            end_ns: 2_000_000_000,
            ..Wait::default()
        };
        let mut facts = host();
        facts.extend([waits, Fact { at_ns: 2_000_000_000, body: Body::Wait(ended) }]);
        let one = crate::answer::explain(facts).answer.ends.remove(0);
        let end = |at| AnswerEnd { seconds: (many - at) as f64, ..one.clone() };
        let origin = |end| Origin { end, victims: BTreeSet::new() };
        ((0..many).map(end).collect(), (0..many).map(origin).collect())
    }

    #[test]
    fn one_program_that_computes_is_work_on_a_host_of_any_size() {
        assert!(is_busy(1.0 / 32.0, 32), "one of 32");
        assert!(!is_busy(0.2 / 32.0, 32), "a fifth of one");
        assert!(is_busy(0.06, 2) && !is_busy(0.04, 2));
    }

    /// A thread of process 10 on CPU 3 is ready for half of the look; these used CPUs, where they may, for so many tenths of it.
    fn had_the_cpu(users: &[(u32, &str, &[u32], u64)]) -> Option<String> {
        let mut facts = host();
        facts.push(Fact { at_ns: 0, body: Body::Host(Host { cpus: 8, ..Host::default() }) });
        facts.push(of_process(10, "app"));
        let ready_ns = LOOK_NS / 2;
        let app: (u32, &str, &[u32], u64) = (10, "app", &[3], 0);
        for (pid, name, cpus, tenths) in [app].iter().chain(users) {
            let (who, cpus_allowed) = (thread(*pid, name), cpus.to_vec());
            facts.push(identity(Thread { thread: who.clone(), cpus_allowed, ..Thread::default() }));
            let run_ns = LOOK_NS / 10 * tenths;
            let runnable_ns = if *pid == 10 { ready_ns } else { 0 };
            let (thread, until_ns) = (who, LOOK_NS);
            let time =
                ThreadTime { thread, until_ns, run_ns, runnable_ns, ..ThreadTime::default() };
            facts.push(Fact { at_ns: 0, body: Body::ThreadTime(time) });
        }
        let place = crate::facts::Place { state: WaitState::Runnable, ..Default::default() };
        let (thread, end_ns) = (thread(10, "app"), ready_ns);
        let wait = Wait { thread, begin_ns: 0, end_ns, place, ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        let ends = crate::answer::explain(facts).answer.ends;
        let end = ends.into_iter().find(|end| end.end == EndKind::Cpu).expect("no CPU");
        end.who.map(|who| who.name)
    }

    #[test]
    fn who_had_the_cpu_is_whoever_used_that_one_and_not_most_of_the_host() {
        let beside: (u32, &str, &[u32], u64) = (20, "beside", &[3], 9);
        let all: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 7];
        let large = |cpus| (30, "java", cpus, 60);
        assert_eq!(had_the_cpu(&[beside, large(all)]).as_deref(), Some("beside"));
        assert_eq!(had_the_cpu(&[beside, large(&[])]).as_deref(), Some("beside"));
        let few: Vec<(u32, &str, &[u32], u64)> =
            vec![(20, "a", &[3], 4), (21, "b", &[3], 3), (22, "c", &[3], 3)];
        assert_eq!(had_the_cpu(&few), None, "one of many");
    }

    #[test]
    fn the_end_of_the_title_stands_for_itself_however_small_it_is() {
        for first in [0, 3, ENDS_MAX - 1, ENDS_MAX, 338] {
            let (all, origins) = ends(400);
            let seconds = all[first].seconds;
            let (ends, origins, at) = folded(all, origins, Some(first));
            let at = at.expect("it is there");
            assert_eq!((ends[at].seconds, origins[at].len()), (seconds, 1), "{first}");
            assert_eq!(origins[at][0].end, first);
            let whole: f64 = ends.iter().map(|end| end.seconds).sum();
            assert_eq!(whole, (1..=400).sum::<usize>() as f64);
            assert_eq!(origins.iter().map(Vec::len).sum::<usize>(), 400);
        }
        let (all, origins) = ends(400);
        assert_eq!(folded(all, origins, None).2, None);
    }
}
