//! The verdict and the ends: who loses how much to what, named or not, in one sentence and a table that adds up.
//!
//! Every look gets one, whatever the rules say: `held` by a named cause, `waits` for somebody else's making, `works`, or `idle`
//! because nobody is owed anything. Of a command the ends add up to its wall time, of everything else to the demand. Must not:
//! decide what an end is (graph/) or name a cause (rules/); it says what is there.
//!
//! Edit together: report.rs (the contract), docs/json.md, the report crate's text/verdict.rs.

use super::ask;
use super::naming::{link, process_name};
use super::report::*;
use crate::facts::{ObjectRef, TargetKind, ThreadRef};
use crate::graph::end::{End, EndKind};
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::{Claim, engine};
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// Ends shown one by one; the rest are summed by kind.
const ENDS_MAX: usize = 40;
/// Below this part of a look nobody is owed anything that matters: what a process does to stay alive.
const DEMAND_MIN: f64 = 0.01;

/// On a host less waiting than this, seconds a second, is nobody's trouble.
const HOST_DEMAND_MIN: f64 = 0.25;
/// A host whose CPUs are in use for less than this part of the time has nothing to do.
const HOST_BUSY_MIN: f64 = 0.05;

/// The answer; `claims` are those of the findings, in their order.
pub fn answer(measures: &Measures<'_>, claims: &[Vec<Claim>], findings: &[Finding]) -> Answer {
    let mut ends = ends(measures, claims);
    let demand: f64 = ends.iter().map(|end| end.seconds).sum();
    for end in &mut ends {
        end.share = end.seconds / demand.max(1e-9);
    }
    let own = Own::of(measures);
    let verdict = verdict(&own, &ends, demand, findings);
    let first = match verdict {
        Verdict::Held => ends.iter().position(|end| end.finding == Some(0)),
        Verdict::Works => ends.iter().position(|end| own.works(end)),
        _ => ends.iter().position(|end| !own.works(end)),
    };
    let held = findings.first().filter(|finding| finding.severity > Severity::Note);
    let (title, text) = match (verdict, held) {
        (Verdict::Held, Some(finding)) => (finding.title.clone(), finding.text.clone()),
        (Verdict::Idle, _) => (idle_title(measures), String::new()),
        _ => unnamed(&own, &ends, verdict, first),
    };
    Answer { verdict, title, text, first, demand_seconds: demand, ends: folded(ends) }
}

fn verdict(own: &Own<'_>, ends: &[AnswerEnd], demand: f64, findings: &[Finding]) -> Verdict {
    let measures = own.measures;
    if findings.iter().any(|finding| finding.severity > Severity::Note) {
        return Verdict::Held;
    }
    let is_host = measures.model.target.as_ref().is_none_or(|it| it.kind == TargetKind::Host);
    let demand_min = if is_host { HOST_DEMAND_MIN } else { DEMAND_MIN };
    if !measures.is_command() && demand < demand_min * measures.wall_seconds() {
        let busy = measures.cpu.mean_busy(&[]).unwrap_or(0.0);
        return if is_host && busy >= HOST_BUSY_MIN { Verdict::Works } else { Verdict::Idle };
    }
    let works: f64 = ends.iter().filter(|end| own.works(end)).map(|e| e.seconds).sum();
    if works * 2.0 >= demand { Verdict::Works } else { Verdict::Waits }
}

/// The processes whose work is the target's own: of a command, itself and all that began inside the look.
struct Own<'m> {
    measures: &'m Measures<'m>,
    root: Option<u32>,
    begun: BTreeSet<u32>,
}

impl<'m> Own<'m> {
    fn of(measures: &'m Measures<'m>) -> Self {
        let begun = measures.model.forks.iter().map(|(_, fork)| fork.child.pid).collect();
        let root = command_root(measures.model).map(|root| root.pid);
        Self { measures, root, begun }
    }

    /// Whether an end is work of what was asked about, and not of a server that it waits for.
    fn works(&self, end: &AnswerEnd) -> bool {
        let Some(pid) = end.who.as_ref().and_then(|who| who.who.pid) else { return false };
        let own = match self.root {
            Some(root) => pid == root || self.begun.contains(&pid),
            None => self.measures.model.in_target(&self.measures.model.thread_ref(pid)),
        };
        end.end == EndKind::Works && own
    }
}

/// Every end with its part of the time, greatest first; what a rule claimed points to its finding.
fn ends(measures: &Measures<'_>, claims: &[Vec<Claim>]) -> Vec<AnswerEnd> {
    let is_host = measures.model.target.as_ref().is_none_or(|it| it.kind == TargetKind::Host);
    let mut all = Vec::new();
    for (at, end) in measures.graph.ends.iter().enumerate() {
        let mut left: BTreeSet<u32> = end.victims.keys().copied().collect();
        for (finding, own) in claims.iter().enumerate() {
            for claim in own.iter().filter(|claim| claim.end == at) {
                let whole = claim.victims.is_none() && left.len() == end.victims.len();
                let part = match (&claim.victims, whole) {
                    (_, true) => end.clone(),
                    (Some(own), _) => {
                        end.counted_of(|pid| own.contains(&pid) && left.contains(&pid))
                    }
                    (None, _) => end.counted_of(|pid| left.contains(&pid)),
                };
                part.victims.keys().for_each(|pid| {
                    left.remove(pid);
                });
                all.push(said(measures, &part, Some(finding)));
            }
        }
        let rest = if left.len() == end.victims.len() {
            end.clone()
        } else {
            end.counted_of(|pid| left.contains(&pid))
        };
        // On a host neither a debt nor work that nobody waits for is anybody's loss.
        let counts = !(is_host && (end.owed || end.kind == EndKind::Works));
        if !left.is_empty() && counts && end.kind != EndKind::Idle {
            all.push(said(measures, &rest, None));
        }
    }
    all.retain(|end| end.seconds > 0.0);
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all
}

fn said(measures: &Measures<'_>, end: &End, finding: Option<usize>) -> AnswerEnd {
    let model = measures.model;
    let mut victims: Vec<Victim> = end
        .victims
        .values()
        .map(|(thread, seconds)| Victim {
            pid: thread.pid,
            inner_pid: None,
            comm: process_name(model, thread),
            container: model.container_of(thread).map(|container| container.name.clone()),
            wait_seconds: *seconds,
        })
        .collect();
    victims.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    let (kind, who) = acts(end);
    let who = who.map(|thread| Actor {
        who: Who { name: process_name(model, thread), ..Who::thread(thread) },
        function: (kind == EndKind::Works).then(|| works_in(measures, thread.pid)).flatten(),
    });
    let who = if kind == EndKind::Cpu { has_the_cpu(measures, end) } else { who };
    AnswerEnd {
        end: kind,
        object: model.name_of(&end.object),
        who,
        seconds: end.seconds,
        share: 0.0,
        longest_seconds: end.longest_seconds,
        victims,
        chain: end
            .links
            .iter()
            .filter_map(|it| engine::step(it))
            .map(|s| link(model, &s))
            .collect(),
        finding,
        ask: ask(measures, end),
        why_open: (kind == EndKind::Open).then(|| why_open(measures, end)),
    }
}

/// Of whom the program must be asked: whoever waits for something inside itself.
fn ask(measures: &Measures<'_>, end: &End) -> String {
    let inside = match (end.kind, &end.object) {
        (EndKind::Lock, Object::Inside(pid)) => Some(*pid),
        (EndKind::Lock, Object::Futex { pid, .. }) if end.who.is_none() => Some(*pid),
        (EndKind::Open, _) if matches!(end.class, WaitClass::Idle | WaitClass::FutexWait) => {
            end.links.last().map(|root| root.who.pid)
        }
        _ => None,
    };
    inside.map_or_else(String::new, |pid| ask::question(&measures.model.process_name(pid), pid))
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

/// Who had the CPUs while an end's victims waited for them: the program that used most, with how many there are of it.
fn has_the_cpu(measures: &Measures<'_>, end: &End) -> Option<Actor> {
    let mut waiters: BTreeSet<u32> = end.victims.keys().copied().collect();
    for pid in end.victims.keys() {
        let family = measures.cpu.job(*pid).into_iter().flat_map(|job| job.processes.keys());
        waiters.extend(family);
    }
    let instead = measures.cpu.instead_of(&waiters);
    let all = instead.others.iter().chain(&instead.themselves).filter(|program| !program.kernel);
    let most = all.max_by(|a, b| a.run.total_cmp(&b.run))?;
    let name = match most.count {
        0 | 1 => most.name.clone(),
        count => format!("{count} x {}", most.name),
    };
    let who = Who { kind: "process".into(), name, pid: Some(most.example), ..Who::default() };
    Some(Actor { who, function: None })
}

/// Where a process spends its CPU time: the system call or the file of its code that most samples hit.
fn works_in(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let of_it = || measures.model.work.iter().filter(|work| work.process.pid == pid);
    let all: u64 = of_it().map(|work| work.count).sum();
    let most = of_it().max_by_key(|work| work.count)?;
    let place = match (most.syscall.as_str(), most.code.as_str()) {
        ("", "") => return None,
        ("", code) => code.to_string(),
        (call, _) => format!("{call}()"),
    };
    (all >= 20).then(|| format!("{place} {}", words::percent(most.count as f64 / all as f64)))
}

/// Why an end goes no further, one clause.
fn why_open(measures: &Measures<'_>, end: &End) -> String {
    let root = &end.links[end.links.len() - 1];
    match (end.class, &root.object) {
        (WaitClass::Child, _) => "it waits for whichever of its children ends first".into(),
        (WaitClass::PipeRead, _) => "nobody was seen at the writing end".into(),
        (WaitClass::Unseen, _) => {
            "it had many waits too short to be seen one by one, or none of its events were seen"
                .into()
        }
        (WaitClass::Kernel, Object::Kernel(at)) => {
            format!("it waits inside the kernel, at {at}, and what for could not be read")
        }
        (WaitClass::Idle, _) => match far_address(measures, root) {
            Some(address) => format!("it waits for the next word of {address}"),
            None => "it waits for an event, and who would have to send it was not seen".into(),
        },
        _ => "who would have to act was not seen".into(),
    }
}

/// The far address of a connection that a link waits on.
fn far_address(measures: &Measures<'_>, link: &crate::graph::chains::ChainLink) -> Option<String> {
    let Object::Inet(ino) = link.object else { return None };
    let socket = measures.model.socket(ino).filter(|socket| socket.remote.port() != 0)?;
    Some(socket.remote.to_string())
}

/// The ends beyond the first, as one row a kind.
fn folded(mut ends: Vec<AnswerEnd>) -> Vec<AnswerEnd> {
    if ends.len() <= ENDS_MAX {
        return ends;
    }
    let mut rest: Vec<AnswerEnd> = Vec::new();
    for end in ends.split_off(ENDS_MAX) {
        match rest.iter_mut().find(|known| known.end == end.end) {
            Some(known) => {
                known.seconds += end.seconds;
                known.share += end.share;
            }
            None => rest.push(AnswerEnd {
                object: ObjectName::new("", "others"),
                who: None,
                victims: Vec::new(),
                chain: Vec::new(),
                finding: None,
                ask: String::new(),
                ..end
            }),
        }
    }
    ends.extend(rest);
    ends.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    ends
}

/// What is looked at, as a subject.
fn subject(measures: &Measures<'_>) -> String {
    let model = measures.model;
    match &model.target {
        None => "this host".into(),
        Some(target) => match target.kind {
            TargetKind::Host if target.name.is_empty() => "this host".into(),
            TargetKind::Host => target.name.clone(),
            TargetKind::Container => format!("container {}", target.name),
            TargetKind::Process => format!("{} {}", target.name, target.pid),
            TargetKind::Command => {
                let root = command_root(model);
                root.map(|root| root.comm).filter(|comm| !comm.is_empty()).unwrap_or_else(|| {
                    target.name.split(' ').next().unwrap_or_default().to_string()
                })
            }
        },
    }
}

fn idle_title(measures: &Measures<'_>) -> String {
    let name = subject(measures);
    let is_asked = |thread: &ThreadRef| measures.model.in_target(thread);
    let (mut sleeps, mut events, mut person) = (0, 0, false);
    for wait in measures.waits().filter(|wait| is_asked(&wait.thread) && !wait.kernel) {
        let ns = wait.within_ns(measures.model.begin_ns, measures.model.end_ns);
        match wait.class {
            WaitClass::Timer => sleeps += ns,
            _ => events += ns,
        }
        person |= matches!(wait.place.object, Some(ObjectRef::Tty { .. }));
    }
    match measures.model.target.as_ref().map_or(TargetKind::Host, |target| target.kind) {
        TargetKind::Host => format!("{name} is idle: nobody here is owed anything."),
        _ if person && sleeps == 0 => format!("{name} waits for its user's input."),
        _ if sleeps > events => {
            format!("{name} is idle: it sleeps on purpose, and nobody waits for it.")
        }
        _ => format!("{name} is idle: it waits for work, and nobody waits for it."),
    }
}

/// Title and paragraph where no rule named a cause: the largest end first.
fn unnamed(
    own: &Own<'_>,
    ends: &[AnswerEnd],
    verdict: Verdict,
    first: Option<usize>,
) -> (String, String) {
    let measures = own.measures;
    let name = subject(measures);
    let works = verdict == Verdict::Works;
    let Some(first) = first.and_then(|first| ends.get(first)) else {
        return match works {
            true => host_works(measures, &name),
            false => (format!("{name}: no time was seen."), String::new()),
        };
    };
    let total: f64 = ends.iter().map(|end| end.seconds).sum();
    let of_kind: f64 = match verdict {
        Verdict::Works => ends.iter().filter(|end| own.works(end)).map(|end| end.seconds).sum(),
        _ => first.seconds,
    };
    let share = of_kind / total.max(1e-9);
    let title = match works {
        true => works_title(&name, first, share),
        false => title(&name, first, share),
    };
    let mut text = format!(
        "{} of {}{}.",
        words::seconds(of_kind),
        words::seconds(total),
        detail(measures, first),
    );
    let rest: Vec<String> = ends
        .iter()
        .filter(|end| !std::ptr::eq(*end, first))
        .filter(|end| end.seconds >= 0.02 * total)
        .filter(|end| !works || !own.works(end))
        .take(3)
        .map(|end| format!("{} {}", short(end), words::seconds(end.seconds)))
        .collect();
    if !rest.is_empty() {
        text.push_str(&format!(" The rest: {}.", rest.join(", ")));
    }
    (title, text)
}

/// A host that is busy and on which nobody loses anything: who uses its CPUs.
fn host_works(measures: &Measures<'_>, name: &str) -> (String, String) {
    let cpus = &measures.cpu.busy;
    let used: f64 = cpus.values().sum();
    let mut users: Vec<(f64, &End)> = measures
        .graph
        .ends
        .iter()
        .filter(|end| end.kind == EndKind::Works)
        .map(|end| (end.seconds / measures.wall_seconds().max(1e-9), end))
        .collect();
    users.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown = users.iter().take(3).filter(|(share, _)| *share >= 0.01);
    let shown: Vec<String> = shown
        .filter_map(|(share, end)| Some(format!("{} {share:.2}", words::who(end.who.as_ref()?))))
        .collect();
    let title = format!(
        "{name} works, and nobody waits for long: {used:.1} of {} CPUs in use.",
        cpus.len().max(1)
    );
    let text = match shown.is_empty() {
        true => String::new(),
        false => format!("Most CPUs are used by {}.", shown.join(", ")),
    };
    (title, text)
}

/// An actor by name and process: `node 812`.
fn actor(end: &AnswerEnd) -> Option<String> {
    let who = &end.who.as_ref()?.who;
    Some(match who.pid {
        Some(pid) => format!("{} {pid}", who.name),
        None => who.name.clone(),
    })
}

/// Whoever waits directly for the actor; none if the actor is the victim itself.
fn waiter(end: &AnswerEnd) -> Option<&Link> {
    let at = end.chain.len().checked_sub(2)?;
    end.chain.get(at)
}

fn title(name: &str, end: &AnswerEnd, share: f64) -> String {
    let share = words::percent(share);
    let by = actor(end);
    let behind = waiter(end).is_some();
    let object = match (end.object.kind.as_str(), end.object.name.as_str()) {
        ("", "") => "nothing that was seen".to_string(),
        (kind, "") => kind.to_string(),
        (kind, object) if kind == object => kind.to_string(),
        (kind, object) => format!("{kind} {object}"),
    };
    match (end.end, by) {
        (EndKind::Works, Some(by)) => {
            format!("{name} waits for {by}, which works: {share} of the time.")
        }
        (EndKind::Cpu, Some(_)) => {
            let by = end.who.as_ref().map_or("", |by| &by.who.name);
            format!("{name} waits for a CPU, which {by} had instead: {share} of the time.")
        }
        (EndKind::Cpu, None) => format!("{name} waits for a CPU: {share} of the time."),
        (EndKind::Sleep, Some(by)) if behind => {
            format!("{name} waits for {by}, which sleeps: {share} of the time.")
        }
        (EndKind::Sleep, _) => format!("{name} sleeps on purpose: {share} of the time."),
        (EndKind::Lock, Some(by)) => {
            format!("{name} waits for a lock that {by} holds: {share} of the time.")
        }
        (EndKind::Lock, None) => format!(
            "{name} waits for a lock that somebody holds who cannot be seen from outside: {share} of the time."
        ),
        (EndKind::Remote, Some(by)) => {
            format!("{name} waits for {by}, which owes it an answer: {share} of the time.")
        }
        (EndKind::Remote, None) => {
            format!("{name} waits for {object}, which owes it an answer: {share} of the time.")
        }
        (EndKind::Person, _) => format!("{name} waits for a person: {share} of the time."),
        (EndKind::Open, _) => {
            format!("{name} waits, and the reason was not seen to its end: {share} of the time.")
        }
        (EndKind::Link, Some(by)) => {
            format!(
                "{name} waits for room in {object}, which {by} does not empty: {share} of the time."
            )
        }
        _ => format!("{name} waits for {object}: {share} of the time."),
    }
}

/// Own work: of a command mostly that of a program that it runs.
fn works_title(name: &str, end: &AnswerEnd, share: f64) -> String {
    let share = words::percent(share);
    let by = end.who.as_ref().map(|who| who.who.name.as_str()).filter(|by| *by != name);
    match by {
        Some(by) if !name.starts_with(by) => {
            format!("{name} works: {share} of the time is its own work, most of it in {by}.")
        }
        _ => format!("{name} works: {share} of the time is its own work."),
    }
}

/// What more is known of the largest end.
fn detail(measures: &Measures<'_>, end: &AnswerEnd) -> String {
    let mut clauses = Vec::new();
    if let Some(function) = end.who.as_ref().and_then(|who| who.function.as_ref()) {
        clauses.push(format!("most of it in {function}"));
    }
    if end.end == EndKind::Works && measures.model.host.cpus > 1 {
        clauses.push(format!("on one of {} CPUs at a time", measures.model.host.cpus));
    }
    if let Some(why) = &end.why_open {
        clauses.push(why.clone());
    }
    if clauses.is_empty() { String::new() } else { format!(": {}", clauses.join("; ")) }
}

/// An end in two words.
fn short(end: &AnswerEnd) -> String {
    let by = actor(end);
    match (end.end, by) {
        (EndKind::Works, Some(by)) => format!("work of {by}"),
        (EndKind::Sleep, Some(by)) => format!("sleep of {by}"),
        (EndKind::Cpu, _) => "no CPU".into(),
        (EndKind::Open, _) => "not followed further".into(),
        _ => match (end.object.kind.as_str(), end.object.name.as_str()) {
            (kind, object) if kind == object || object.is_empty() => kind.to_string(),
            (kind, object) => format!("{kind} {object}"),
        },
    }
}
