//! The sentences of an answer where no rule named a cause: the title, and the paragraph with the numbers.
//!
//! One sentence a kind of end, in the words of the ends alone. Must not: decide the verdict or order the ends (verdict.rs).

use super::naming::by_name;
use super::own::Own;
use super::report::*;
use super::resting::{self, is_at_an_event};
use super::whole::{Rest, Said, Whole};
use super::{looked_at, one_by_one, pipe_end, places, received, semaphores, sockets, unwoken};
use crate::facts::{Ns, TargetKind, ThreadTime, WaitState};
use crate::graph::end::EndKind;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::measure::own_functions::also_works_in;
use crate::model::terminal::Terminal;
use crate::model::words;
use crate::rules::cpu::victims::is_polite;
use std::collections::BTreeSet;

/// From this part on it is most of something.
const MOST: f64 = 0.5;

/// What is looked at, as a subject.
pub(super) fn subject(measures: &Measures<'_>) -> String {
    let model = measures.model;
    match &model.look.target {
        None => "this host".into(),
        Some(target) => match target.kind {
            TargetKind::Host if target.name.is_empty() => "this host".into(),
            TargetKind::Host => target.name.clone(),
            TargetKind::Container => {
                let known = target.cgroups.first().map(|path| model.containers.group_called(path));
                match known {
                    Some(("pod", name)) => format!("pod {name}"),
                    Some(("container", name)) => format!("container {name}"),
                    _ => format!("container {}", target.name),
                }
            }
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

pub(super) fn idle_title(measures: &Measures<'_>) -> String {
    let name = subject(measures);
    let target = measures.model.look.target.as_ref();
    if target.is_none_or(|target| target.kind == TargetKind::Host) {
        return format!("{name} is idle: nobody here is owed anything.");
    }
    match Rest::of(measures) {
        rest @ (Rest::User | Rest::Line) => format!("{name} {}.", rest.words()),
        Rest::Sleep => {
            format!("{name} is idle: it sleeps on purpose, and nobody is known to wait for it.")
        }
        _ => {
            let what = unwoken::awaited_by_main(measures).unwrap_or("work");
            format!("{name} is idle: it waits for {what}, and nobody is known to wait for it.")
        }
    }
}

/// Title and paragraph of a host on which nobody waits for long, and somebody for much of the time.
pub(super) fn idle_but_for_short_waits(measures: &Measures<'_>) -> Option<(String, String)> {
    let target = measures.model.look.target.as_ref();
    let hidden = hidden_waits(measures)
        .filter(|_| target.is_none_or(|target| target.kind == TargetKind::Host))?;
    let title =
        format!("{} has no long wait, and nobody is known to be owed anything.", subject(measures));
    Some((title, hidden.trim_start().to_string()))
}

/// Title and paragraph where no rule named a cause: the largest end first.
pub(super) fn unnamed(
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
    let whole = Whole::of(measures, ends);
    let of_kind: f64 = match verdict {
        Verdict::Works => ends.iter().filter(|end| own.works(end)).map(|end| end.seconds).sum(),
        _ => first.seconds,
    };
    let waits = || {
        places::does_in_go(measures, first)
            .or_else(|| looked_at::does(measures, first))
            .or_else(|| semaphores::does(measures, first))
            .or_else(|| super::nobodys_lock::does(measures, first))
            .or_else(|| resting::within_itself(measures, first))
            .unwrap_or_else(|| waits_title(first))
    };
    let said = match works {
        true => works_title(&name, first, of_kind),
        false => Said { does: waits(), is_own: false, more: String::new() },
    };
    let title = whole.title(&name, &said, of_kind);
    let mut text = format!("{}{}.", whole.amount(of_kind), detail(measures, first));
    text.push_str(&resting::pool_or_threads(measures, first));
    text.push_str(&received::sentence(measures, first));
    let others = ends
        .iter()
        .filter(|end| !std::ptr::eq(*end, first))
        .filter(|end| end.seconds >= 0.02 * whole.total())
        .filter(|end| !works || !own.works(end));
    text.extend(the_rest(others, whole.beside()));
    text.extend(one_by_one::sentence(measures, works, first));
    let kind = measures.model.look.target.as_ref().map(|target| target.kind);
    let hidden = hidden_waits(measures).filter(|_| kind == Some(TargetKind::Container));
    text.push_str(&hidden.unwrap_or_default());
    (title, text)
}

/// Time in which user programs were ready and had no CPU, seconds, but for those that asked to come last.
fn ready_seconds(measures: &Measures<'_>) -> f64 {
    let all = measures.cpu.competitors.iter().filter(|one| !one.kernel);
    let all = all.flat_map(|one| one.processes.values());
    all.filter(|used| !is_polite(measures.model, &used.process)).map(|used| used.ready).sum()
}

/// A host that is busy and on which nobody loses anything: who uses its CPUs.
fn host_works(measures: &Measures<'_>, name: &str) -> (String, String) {
    let window = measures.cpu.counted_seconds.max(1e-9);
    let everybody = measures.cpu.instead_of(&BTreeSet::new()).others;
    let cpus = measures.cpu.busy.len().max(1);
    // The kernel counts a tick for whoever it meets there: of many short turns it meets few.
    let ran = everybody.iter().map(|program| program.run).sum::<f64>() / window;
    let used = measures.cpu.busy.values().sum::<f64>().max(ran).min(cpus as f64);
    let own_pid = measures.model.look.host.own_pid;
    let shown = everybody.iter().filter(|program| program.example != own_pid).take(3);
    let shown: Vec<String> = shown
        .map(|program| (program.run / window, program))
        .filter(|(share, _)| *share >= 0.01)
        .map(|(share, program)| format!("{} {share:.2}", measures.program_shown(program)))
        .collect();
    let ready = ready_seconds(measures) / window;
    let title = match measures.cpu.lack(ready) {
        false => {
            format!("{name} works, and nobody waits for long: {used:.1} of {cpus} CPUs in use.")
        }
        true => format!(
            "{name} works, and has more to do than it can: {used:.1} of {cpus} CPUs in use, {ready:.1} threads at a time ready \
             without one."
        ),
    };
    let mut text = match shown.is_empty() {
        true => String::new(),
        false => format!("Most CPUs are used by {}.", shown.join(", ")),
    };
    if let Some(hidden) = hidden_waits(measures) {
        text.push_str(&hidden);
    }
    (title, text)
}

/// Part of a thread's time in waits that were only counted, from which on it is said who has them.
const HIDDEN_MIN: f64 = 0.25;

/// Who spends much of the time in uninterruptible waits too short to be reported one by one; of a host nothing more is known of
/// them, of a process that is asked about it is.
fn hidden_waits(measures: &Measures<'_>) -> Option<String> {
    let model = measures.model;
    let share = |time: &ThreadTime| {
        let waits = measures.timelines.of(model.threads.key_at(&time.thread, time.until_ns)).iter();
        let uninterruptible = waits.filter(|wait| wait.place.state == WaitState::DiskSleep);
        let reported = uninterruptible.map(|wait| wait.within_ns(time.since_ns, time.until_ns));
        let hidden_ns = time.disk_sleep_ns.saturating_sub(reported.sum::<Ns>());
        hidden_ns as f64 / time.until_ns.saturating_sub(time.since_ns).max(1) as f64
    };
    let lives = |time: &&ThreadTime| {
        let ns = time.until_ns.saturating_sub(time.since_ns);
        !time.kernel && time.disk_sleep_ns > 0 && 2.0 * ns as f64 >= 1e9 * model.look.seconds()
    };
    let own = |time: &&ThreadTime| model.in_target(&time.thread);
    let all = model.threads.times.iter().filter(own).filter(lives).map(|time| (time, share(time)));
    let (time, share) = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share >= HIDDEN_MIN).then(|| {
        format!(
            " {} spends {} of its time in uninterruptible waits, as for a disk, each too short to be reported here: holdup -p {} \
             follows them.",
            model.threads.who(&time.thread),
            words::percent(share),
            time.thread.pid
        )
    })
}

/// An actor by name and process: `node 812`.
fn actor(end: &AnswerEnd) -> Option<String> {
    end.who.as_ref().map(by_name)
}

/// Whoever waits directly for the actor; none if the actor is the victim itself.
fn waiter(end: &AnswerEnd) -> Option<&Link> {
    let at = end.chain.len().checked_sub(2)?;
    end.chain.get(at)
}

/// What somebody does whose time goes to an end.
fn waits_title(end: &AnswerEnd) -> String {
    let by = actor(end);
    let behind = waiter(end).is_some();
    let object = object(end);
    match (end.end, by) {
        (EndKind::Works, Some(by)) => format!("waits for {by}, which works"),
        (EndKind::Cpu, Some(_)) => {
            let by = end.who.as_ref().map_or("", |by| &by.name);
            format!("waits for a CPU, which {by} had instead")
        }
        (EndKind::Cpu, None) => "waits for a CPU".into(),
        (EndKind::Sleep, Some(by)) if behind => format!("waits for {by}, which {}", end.sleeps()),
        (EndKind::Sleep, _) if end.by_timeout => end.sleeps().into(),
        (EndKind::Sleep, _) => "sleeps on purpose".into(),
        (EndKind::Lock, None) if end.lock_kind.is_none() => match by_last(end) {
            _ if is_named_lock(end) => format!("waits for {object}, whose holder was not seen"),
            Some(by) if behind && is_at_an_event(end) => {
                format!("waits for {by}, which waits for its next event and has not answered")
            }
            Some(by) if behind => {
                format!("waits for {by}, which waits for something that was not seen")
            }
            _ if is_at_an_event(end) => "owes an answer, and waits for its next event".into(),
            _ => "waits for something that was not seen".into(),
        },
        (EndKind::Lock, by) => match by_last(end).filter(|_| behind && by.is_none()) {
            Some(last) => format!("waits for {last}, which waits for {}", lock(end, None)),
            None => format!("waits for {}", lock(end, by)),
        },
        (EndKind::Remote, _) if end.unasked => format!("waits for what {object} sends next"),
        (EndKind::Remote, Some(by)) => places::leave(end, &by)
            .unwrap_or_else(|| format!("waits for {by}, which owes it an answer")),
        (EndKind::Remote, None) => format!("waits for {}", sockets::owes(end, &object)),
        (EndKind::Person, _) if is_line(end) => format!("waits for what comes over {object}"),
        (EndKind::Person, _) if is_frozen(end) => format!("waits for {object} to be thawed"),
        (EndKind::Person, _) => "waits for a person".into(),
        (EndKind::Open, _) => open_title(end),
        // What is on its way needs room too, however quickly it is read.
        (EndKind::Link, Some(by)) if end.object.kind == "socket" => {
            format!("waits for room in {object}, at whose other end {by} is")
        }
        (EndKind::Link, Some(by)) => {
            format!("waits for room in {object}, which {by} does not empty")
        }
        (EndKind::Link, None) if end.object.kind == "socket" => {
            format!("waits for room in {object}")
        }
        _ => format!("waits for {object}"),
    }
}

/// What somebody waits for where nobody is known who would have to act.
fn open_title(end: &AnswerEnd) -> String {
    let any = end.object.is_any_child().then(|| "whichever of its children ends first".into());
    let rests = || (waiter(end).is_some() && is_at_an_event(end)).then(|| "its next event".into());
    let Some(what) = any.or_else(|| pipe_end::awaited(end)).or_else(rests) else {
        return "waits, and the reason was not seen to its end".into();
    };
    match by_last(end) {
        Some(by) if waiter(end).is_some() => format!("waits for {by}, which waits for {what}"),
        _ => format!("waits for {what}"),
    }
}

/// An object as a noun.
fn object(end: &AnswerEnd) -> String {
    match (end.object.kind.as_str(), end.object.name.as_str()) {
        ("", "") => "nothing that was seen".to_string(),
        // The file is not waited for, but the lock on it.
        ("file", path) if end.end == EndKind::Lock => format!("the lock on {path}"),
        (kind, "") => kind.to_string(),
        (kind, object) if kind == object => kind.to_string(),
        (kind, object) => format!("{kind} {object}"),
    }
}

/// Whether a person knows a lock by its object: an address of a program's memory, or that it is inside of it, says nothing.
fn is_named_lock(end: &AnswerEnd) -> bool {
    let ObjectName { kind, name, .. } = &end.object;
    !name.is_empty() && name != "not known" && !matches!(kind.as_str(), "" | "futex" | "lock")
}

/// Whether an end is a serial line, with a person or a device at its other end.
pub(super) fn is_line(end: &AnswerEnd) -> bool {
    let name = end.object.name.strip_prefix("/dev/");
    end.object.kind == "terminal" && name.is_some_and(|name| Terminal::of(name).is_line())
}

/// Whether an end is a frozen cgroup. Whoever froze it thaws it, be that a program or a person.
pub(super) fn is_frozen(end: &AnswerEnd) -> bool {
    end.end == EndKind::Person && !matches!(end.object.kind.as_str(), "terminal" | "process")
}

/// Whoever stands at the end of its chain.
fn by_last(end: &AnswerEnd) -> Option<String> {
    end.chain.last().map(|link| by_name(&link.who))
}

/// A lock with its holder, by its kind where that is known; or what somebody else has to bring about.
fn lock(end: &AnswerEnd, by: Option<String>) -> String {
    let what = end.lock_kind.map_or("a lock", LockKind::phrase);
    match (end.lock_kind.is_none_or(LockKind::is_held), by) {
        (true, Some(by)) => format!("{what} that {by} holds"),
        (true, None) => format!("{what} that somebody holds who cannot be seen from outside"),
        (false, Some(by)) => format!("{what}, which {by} would have to bring about"),
        (false, None) => format!("{what}, and who would have to act cannot be seen from outside"),
    }
}

/// Own work: of a command mostly that of a program that it runs; `seconds` of it in all.
fn works_title(name: &str, end: &AnswerEnd, seconds: f64) -> Said {
    let does = "works".to_string();
    let part = |by: &Who| match end.seconds / seconds.max(1e-9) {
        most if most >= MOST => format!(", most of it in {}", by.called()),
        part => format!(", the greatest part, {}, in {}", words::percent(part), by.called()),
    };
    match &end.who {
        // What it runs: its own is only what it does itself.
        Some(by) if end.chain.first().is_some_and(|link| link.who.pid != by.pid) => {
            Said { does, is_own: false, more: part(by) }
        }
        Some(by) if !name.starts_with(&by.name) => Said { does, is_own: true, more: part(by) },
        _ => Said { does, is_own: true, more: String::new() },
    }
}

/// What more is known of the largest end.
fn detail(measures: &Measures<'_>, end: &AnswerEnd) -> String {
    let mut clauses = Vec::new();
    if let Some(function) = end.who.as_ref().and_then(|who| who.function.as_ref()) {
        // More often than anywhere else: of a hundred functions the first has a small part.
        clauses.push(format!("most often in {function}"));
        let pid = end.who.as_ref().and_then(|who| who.pid).filter(|_| end.end == EndKind::Works);
        let also = pid.map_or_else(Vec::new, |pid| also_works_in(measures, pid, function));
        if !also.is_empty() {
            clauses.push(format!("then in {}", also.join(", ")));
        }
    }
    clauses.extend(places::of_end(measures, end));
    clauses.extend(looked_at::of_end(measures, end));
    clauses.extend(resting::may_be_due_later(measures, end));
    clauses.extend(places::own_timeout(measures, end));
    clauses.extend(places::own_limit(measures.model, end));
    let cpus = measures.model.look.host.cpus;
    if end.end == EndKind::Works && cpus > 1 {
        clauses.push(match several_cpus(measures, end) {
            Some(used) => format!("on {used:.1} of {cpus} CPUs"),
            None => format!("on one of {cpus} CPUs at a time"),
        });
    }
    clauses.extend(end.why_open.clone());
    if clauses.is_empty() { String::new() } else { format!(": {}", clauses.join("; ")) }
}

/// How many CPUs the threads of who works used together, if that is more than one; the path of a command is on one at a time.
fn several_cpus(measures: &Measures<'_>, end: &AnswerEnd) -> Option<f64> {
    const ONE: f64 = 1.05;
    let pid = end.who.as_ref().and_then(|who| who.pid).filter(|_| !measures.is_command())?;
    let own = measures.model.threads.times.iter().filter(|time| time.thread.pid == pid);
    let ran_ns: Ns = own.map(|time| time.run_ns).sum();
    let used = ran_ns as f64 / 1e9 / measures.wall_seconds().max(1e-9);
    (used > ONE).then_some(used)
}

/// Other ends, a few, and what belongs to none; ends that are said alike are one.
fn the_rest<'a>(ends: impl Iterator<Item = &'a AnswerEnd>, beside: Vec<String>) -> Option<String> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for end in ends {
        let said = short(end);
        match all.iter_mut().find(|(known, _)| *known == said) {
            Some((_, seconds)) => *seconds += end.seconds,
            None => all.push((said, end.seconds)),
        }
    }
    all.truncate(3);
    let ends = all.iter().map(|(said, seconds)| format!("{said} {}", words::seconds(*seconds)));
    let rest: Vec<String> = ends.chain(beside).collect();
    (!rest.is_empty()).then(|| format!(" The rest: {}.", rest.join(", ")))
}

/// An end in two words.
fn short(end: &AnswerEnd) -> String {
    let by = actor(end);
    match (end.end, by) {
        (EndKind::Works, Some(by)) => format!("work of {by}"),
        (EndKind::Sleep, Some(by)) if end.by_timeout => format!("a timeout of {by}'s own"),
        (EndKind::Sleep, Some(by)) => format!("sleep of {by}"),
        (EndKind::Cpu, _) => "no CPU".into(),
        (EndKind::Open, _) => "not followed further".into(),
        (EndKind::Lock, None) if end.lock_kind.is_none() && end.object.kind == "lock" => {
            let what = if is_at_an_event(end) { "next event" } else { "wait inside" };
            by_last(end).map_or_else(|| what.into(), |by| format!("{what} of {by}"))
        }
        _ => match (end.object.kind.as_str(), end.object.name.as_str()) {
            (kind, object) if kind == object || object.is_empty() => kind.to_string(),
            (kind, object) => format!("{kind} {object}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{waits_title, works_title};
    use crate::answer::explain;
    use crate::answer::report::{Answer, ObjectName};
    use crate::facts::*;
    use crate::rules::scenes::*;

    #[test]
    fn what_a_job_uses_is_no_more_where_others_wait_for_it() {
        let mut facts = host();
        let waits_for = |child: u32| {
            let args = [child.into(), 0, 0, 0, 0, 0];
            Place { state: WaitState::Sleep, syscall: "wait4".into(), args, ..Place::default() }
        };
        let works = ThreadTime {
            thread: thread(30, "job"),
            until_ns: LOOK_NS,
            run_ns: LOOK_NS * 9 / 10,
            ..ThreadTime::default()
        };
        let stack = Samples { process: thread(30, "job"), count: 440, frequency_hz: 100, stack: 0 };
        for (pid, parent_pid) in [(30, 20), (20, 10)] {
            let thread = thread(pid, "job");
            facts.push(identity(Thread { thread, parent_pid, ..Thread::default() }));
        }
        facts.extend([
            at_place(10, "sh", waits_for(20)),
            at_place(20, "make", waits_for(30)),
            fact(Body::ThreadTime(works)),
            fact(Body::Samples(stack)),
        ]);
        for at_ns in [0, LOOK_NS] {
            let (user_ns, idle_ns) = (at_ns / 2, at_ns / 2);
            let sample = CpuSample { cpu: 0, user_ns, idle_ns, ..CpuSample::default() };
            facts.push(Fact { at_ns, body: Body::CpuSample(sample) });
        }
        let answer = explain(facts).answer;
        assert!(answer.title.contains("works"), "{}", answer.title);
        assert!(answer.text.contains("Most CPUs are used by job 30 0.90."), "{}", answer.text);
    }

    /// A shell in a wait for a child, of which it says the number or not.
    fn awaits(args: [u64; 6]) -> Place {
        Place { state: WaitState::Sleep, syscall: "wait4".into(), args, ..Place::default() }
    }

    #[test]
    fn a_loop_that_sleeps_by_its_children_waits_for_all_of_them() {
        const EACH_NS: Ns = LOOK_NS / 10;
        let mut facts = [host(), vec![of_process(10, "bash")]].concat();
        for at in 0..10 {
            let (begin_ns, end_ns) = (at * EACH_NS, (at + 1) * EACH_NS - 1_000);
            let child = ThreadRef { start_ns: begin_ns + 1, ..thread(30 + at as u32, "sleep") };
            let fork = Fork { parent: thread(10, "bash"), child: child.clone(), flags: 0 };
            facts.push(Fact { at_ns: begin_ns + 1, body: Body::Fork(fork) });
            let Fact { at_ns, body } = slept(0, "", begin_ns + 2, end_ns);
            if let Body::Wait(wait) = body {
                facts
                    .push(Fact { at_ns, body: Body::Wait(Wait { thread: child.clone(), ..wait }) });
            }
            let by = child.clone();
            let wake =
                Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
            let place = awaits([30 + at, 0, 0, 0, 0, 0]);
            let thread = thread(10, "bash");
            let wait =
                Wait { thread, begin_ns: begin_ns + 2, end_ns, place, wake, ..Wait::default() };
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
            let exit = Exit { thread: child, last: true, code: Some(0) };
            facts.push(Fact { at_ns: end_ns, body: Body::Exit(exit) });
        }
        let answer = explain(facts).answer;
        let end = &answer.ends[0];
        assert!(end.seconds > 4.9, "{} of {:?}", end.seconds, end.object);
        assert!(answer.title.contains("sleeps: over 99 % of the look"), "{}", answer.title);
    }

    #[test]
    fn who_waits_for_any_child_reads_which_there_are() {
        let mut facts = [host(), vec![of_process(10, "bash")]].concat();
        facts.push(at_place(10, "bash", awaits([u64::from(u32::MAX), 0, 0, 0, 0, 0])));
        for pid in [31, 32] {
            let thread = thread(pid, "sleep");
            facts.push(identity(Thread { thread, parent_pid: 10, ..Thread::default() }));
            facts.push(blocked(pid, "sleep", WaitState::Sleep, "clock_nanosleep"));
        }
        let answer = explain(facts).answer;
        let title = "waits for whichever of its children ends first";
        assert!(answer.title.contains(title), "{}", answer.title);
        assert!(answer.text.contains("sleep 31, sleep 32"), "{}", answer.text);
    }

    /// A thread of process 10 that ran, and slept uninterruptibly, for so many tenths of the look.
    fn time(tid: u32, ran: u64, slept: u64) -> Fact {
        fact(Body::ThreadTime(ThreadTime {
            thread: ThreadRef { tid, ..thread(10, "job") },
            until_ns: LOOK_NS,
            run_ns: LOOK_NS / 10 * ran,
            disk_sleep_ns: LOOK_NS / 10 * slept,
            ..ThreadTime::default()
        }))
    }

    fn of_four(more: Vec<Fact>) -> Answer {
        let four = fact(Body::Host(Host { cpus: 4, ..Host::default() }));
        explain([host(), vec![four], more].concat()).answer
    }

    /// What is said of an end of this kind at an object.
    fn waits(end: &str, kind: &str, name: &str) -> String {
        let object = ObjectName::new(kind, name);
        let end = serde_json::json!({"end": end, "object": object, "seconds": 1.0, "share": 1.0,
            "longest_seconds": 1.0, "victims": [], "chain": []});
        waits_title(&serde_json::from_value(end).unwrap())
    }

    #[test]
    fn whoever_has_had_the_last_word_or_is_not_connected_yet_owes_no_answer() {
        let said = |what: &str| {
            let end = serde_json::json!({"end": "remote", "object": ObjectName::new("socket", "tcp x:7"),
                "seconds": 1.0, "share": 1.0, "longest_seconds": 1.0, "victims": [], "chain": [],
                what: true});
            waits_title(&serde_json::from_value(end).unwrap())
        };
        assert_eq!(said("unasked"), "waits for what socket tcp x:7 sends next");
        assert_eq!(said("connecting"), "waits for a connection to x:7");
        assert_eq!(said("by_timeout"), "waits for socket tcp x:7, which owes it an answer");
    }

    #[test]
    fn a_lock_without_a_holder_is_said_by_its_name_if_it_has_one() {
        let unseen = ", whose holder was not seen";
        assert_eq!(waits("lock", "file", "/x"), format!("waits for the lock on /x{unseen}"));
        let inode = waits("lock", "inode lock", "/x");
        assert_eq!(inode, format!("waits for inode lock /x{unseen}"));
        for (kind, name) in
            [("lock", "inside app"), ("futex", "0x7f of app"), ("file", "not known")]
        {
            let said = waits("lock", kind, name);
            assert_eq!(said, "waits for something that was not seen", "{kind} {name}");
        }
    }

    #[test]
    fn what_comes_over_a_serial_line_may_come_from_a_device() {
        let line = waits("person", "terminal", "/dev/ttyS1");
        assert_eq!(line, "waits for what comes over terminal /dev/ttyS1");
        assert_eq!(waits("person", "terminal", "/dev/pts/3"), "waits for a person");
    }

    #[test]
    fn a_frozen_group_is_no_person() {
        assert_eq!(waits("person", "cgroup", "/jobs"), "waits for cgroup /jobs to be thawed");
        assert_eq!(waits("person", "process", "vim"), "waits for a person");
    }

    #[test]
    fn the_greatest_part_of_the_work_need_not_be_most_of_it() {
        let end = serde_json::json!({"end": "works", "object": ObjectName::new("process", "cc1"), "seconds": 3.0,
            "share": 0.3, "longest_seconds": 1.0, "victims": [], "chain": [],
            "who": {"kind": "process", "name": "cc1", "pid": 20}});
        let end = serde_json::from_value(end).unwrap();
        assert_eq!(works_title("configure", &end, 5.0).more, ", most of it in cc1");
        let part = works_title("configure", &end, 10.0).more;
        assert_eq!(part, ", the greatest part, 30 %, in cc1");
    }

    #[test]
    fn work_of_several_threads_is_on_several_cpus() {
        let asked = || of_process(10, "job");
        let one = of_four(vec![asked(), time(10, 9, 0)]).text;
        let two = of_four(vec![asked(), time(10, 9, 0), time(11, 7, 0)]).text;
        assert!(one.contains("on one of 4 CPUs at a time"), "{one}");
        assert!(two.contains("on 1.6 of 4 CPUs"), "{two}");
    }

    #[test]
    fn a_host_with_many_short_waits_is_not_said_to_be_idle() {
        let of = |slept| of_four(vec![time(10, 0, slept)]);
        assert!(of(1).title.contains(" is idle: "), "{}", of(1).title);
        assert!(of(8).title.contains(" has no long wait, "), "{}", of(8).title);
        assert!(of(8).text.starts_with("job 10 spends 80 % of its time"), "{}", of(8).text);
    }
}
