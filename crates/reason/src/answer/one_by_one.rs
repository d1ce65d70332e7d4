//! Children of one process that ran one after another where several could have run at once, and what the host has room for.
//!
//! A make that may not run jobs at a time, a loop in a shell, xargs with one process: each child computes alone while other CPUs have
//! nothing to do. Whether one needs what another made is not seen from outside, so the gain is said with that condition.
//! Must not: speak of children of different programs (one is likely to follow from the other), of a host whose CPUs are in use, or of
//! a group that may use no more CPU.

use super::naming::runs;
use super::report::AnswerEnd;
use crate::facts::{Ns, TargetKind, ThreadRef};
use crate::graph::end::EndKind;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::model::words;
use crate::model::{Model, membership};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, HashMap};

/// Fewer are likely steps of one thing.
const CHILDREN_MIN: usize = 3;
/// A shorter one costs as much to begin as to run.
const MEAN_NS_MIN: Ns = 50_000_000;
/// What is gained is at least this part of the command's time.
const GAIN_PART_MIN: f64 = 0.1;
/// A CPU has room if it had nothing to do for this part of the time.
const FREE_MIN: f64 = 0.5;
/// The end of a child may be reported a little after the next was begun.
const OVERLAP_NS_MAX: Ns = 5_000_000;
/// Generations that are gone through.
const GENERATIONS: usize = 16;

/// A child: when it was there, and what it, or its own, computed.
struct Run {
    begin_ns: Ns,
    end_ns: Ns,
    worked_ns: Ns,
}

/// What is said of it, after the sentences on a command that works, or on a process that waits for the work of its children.
pub(super) fn sentence(measures: &Measures<'_>, works: bool, end: &AnswerEnd) -> Option<String> {
    let model = measures.model;
    let is_command = measures.is_command();
    let of_children = !is_command && end.end == EndKind::Works;
    let root = asked(model).filter(|_| works || of_children)?;
    let idle = idle_cpus(measures, &root)?;
    let places = 1 + (idle + 1.0 - FREE_MIN) as usize;
    let ((_, name), mut runs) = siblings(measures, root.pid)
        .into_iter()
        .filter(|(_, runs)| runs.len() >= CHILDREN_MIN)
        .max_by_key(|(_, runs)| runs.iter().map(|run| run.worked_ns).sum::<Ns>())?;
    runs.sort_by_key(|run| run.begin_ns);
    let one_by_one =
        runs.windows(2).all(|pair| pair[1].begin_ns + OVERLAP_NS_MAX >= pair[0].end_ns);
    let whole_ns: Ns = runs.iter().map(|run| run.worked_ns).sum();
    if !one_by_one || whole_ns < MEAN_NS_MIN * runs.len() as Ns {
        return None;
    }
    let at_once = places.min(runs.len());
    // In their order, each where there is room first.
    let mut busy_until = vec![0; at_once];
    for run in &runs {
        let first = busy_until.iter_mut().min()?;
        *first += run.worked_ns;
    }
    let gain = (whole_ns - busy_until.into_iter().max()?) as f64 / 1e9;
    // No more than is left of the other CPUs.
    let gain = gain.min(whole_ns as f64 / 1e9 * idle / (1.0 + idle));
    if places < 2 || gain < GAIN_PART_MIN * measures.wall_seconds() {
        return None;
    }
    let (within, of_it) = if is_command { ("", "") } else { (" in the look", " of it") };
    Some(format!(
        " {name} ran {} times{within}, one after another, while other CPUs had room: {at_once} at a time would take up to {} \
         less{of_it}, if none needs what another makes.",
        runs.len(),
        words::seconds(gain),
    ))
}

/// The main thread of the command, or of the process that was asked about.
fn asked(model: &Model) -> Option<ThreadRef> {
    let target = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process);
    command_root(model).or_else(|| Some(model.threads.thread_ref(target?.pid)))
}

/// How many of the CPUs that a command may use had nothing to do, on average; nothing if a group of it has a quota.
fn idle_cpus(measures: &Measures<'_>, root: &ThreadRef) -> Option<f64> {
    let model = measures.model;
    let known = model.threads.identity(root);
    let allowed = known.map_or(&[][..], |known| &known.cpus_allowed);
    let cpus = if allowed.is_empty() { measures.cpu.busy.len() } else { allowed.len() };
    let has_quota = |known| {
        let mut groups = model.containers.cgroups.iter();
        groups.any(|it| it.cpu_quota_us.is_some() && membership::belongs(known, it, &["cpu"]))
    };
    let busy = measures.cpu.mean_busy(allowed).filter(|_| !known.is_some_and(has_quota))?;
    Some(cpus as f64 * (1.0 - busy))
}

/// A process, who began it, and so on.
fn line(measures: &Measures<'_>, pid: u32) -> impl Iterator<Item = u32> {
    let parent = move |pid: &u32| measures.graph.parent_of(*pid).filter(|parent| parent != pid);
    std::iter::successors(Some(pid), parent).take(GENERATIONS)
}

/// What each process computed, with those that it began: on a command's path, or in a look.
fn worked(measures: &Measures<'_>) -> HashMap<u32, Ns> {
    let computes = |class| matches!(class, WaitClass::Running | WaitClass::Unseen);
    let path = measures.graph.path.iter().filter(|leaf| computes(leaf.root().class));
    let on_path = path.map(|leaf| (leaf.root().who.pid, leaf.ns()));
    let times = measures.model.threads.times.iter().filter(|_| !measures.is_command());
    let in_look = times.map(|time| (time.thread.pid, time.run_ns));
    let mut worked: HashMap<u32, Ns> = HashMap::new();
    for (pid, ns) in on_path.chain(in_look) {
        line(measures, pid).for_each(|pid| *worked.entry(pid).or_default() += ns);
    }
    worked
}

/// The children of each process that was asked about, or that it began, by the program that they ran, with what each computed.
fn siblings(measures: &Measures<'_>, root_pid: u32) -> BTreeMap<(u32, String), Vec<Run>> {
    let model = measures.model;
    let worked = worked(measures);
    let is_asked = |pid| measures.is_command() || line(measures, pid).any(|it| it == root_pid);
    let ends = model.threads.exits.iter().filter(|(_, exit)| exit.thread.tid == exit.thread.pid);
    let ends: HashMap<u32, Ns> = ends.map(|(at_ns, exit)| (exit.thread.pid, *at_ns)).collect();
    let mut all: BTreeMap<(u32, String), Vec<Run>> = BTreeMap::new();
    for (begin_ns, fork) in model.threads.forks.iter() {
        let (parent, child) = (fork.parent.pid, fork.child.pid);
        let (Some(end_ns), Some(worked_ns)) = (ends.get(&child), worked.get(&child)) else {
            continue;
        };
        if parent != child && is_asked(parent) {
            let run = Run { begin_ns: *begin_ns, end_ns: *end_ns, worked_ns: *worked_ns };
            let executed = model.threads.executed(child).map(|exec| &exec.thread);
            let who = executed.unwrap_or(&fork.child);
            let name = match runs(model, &who.comm, who) {
                Some(what) => format!("{} {what}", who.comm),
                None => who.comm.clone(),
            };
            all.entry((parent, name)).or_default().push(run);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::cpu_users::tests::cpus;
    use crate::rules::scenes::thread;

    const SECOND: Ns = 1_000_000_000;

    /// A shell runs these programs for a second each, one after another, or all from the begin, while the other CPU is used so much.
    fn said(programs: &[&str], apart: bool, used: f64) -> String {
        said_of(TargetKind::Command, programs, apart, used)
    }

    /// The same, as a command or with `-p`.
    fn said_of(kind: TargetKind, programs: &[&str], apart: bool, used: f64) -> String {
        let mut facts = cpus([1.0, used]);
        let at = |at_ns, body| Fact { at_ns, body };
        let name = "sh".to_string();
        let target = Target { kind, name, pid: 10, cgroups: Vec::new(), words: Vec::new() };
        facts.push(at(0, Body::Target(target)));
        for (n, program) in (0..).zip(programs) {
            let (begin_ns, end_ns) = (n * SECOND, (n + 1) * SECOND - 1_000_000);
            let begin_ns = if apart { begin_ns } else { 1_000 };
            let child = ThreadRef { start_ns: begin_ns, ..thread(20 + n as u32, program) };
            let (parent, mut place) = (thread(10, "sh"), Place::default());
            (place.state, place.syscall) = (WaitState::Sleep, "wait4".into());
            place.args[0] = u64::MAX;
            let (context, by) = (WakeContext::Task, child.clone());
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let from_ns = n * SECOND + 2_000;
            let wait = Wait {
                thread: parent.clone(),
                begin_ns: from_ns,
                end_ns,
                place,
                wake,
                ..Wait::default()
            };
            let ran = Ran { thread: child.clone(), begin_ns: from_ns, end_ns, cpu: 0 };
            let exit = Exit { thread: child.clone(), last: true, code: Some(0) };
            let run_ns = end_ns - from_ns;
            let thread = child.clone();
            let time = ThreadTime {
                thread,
                since_ns: from_ns,
                until_ns: end_ns,
                run_ns,
                ..ThreadTime::default()
            };
            if kind == TargetKind::Process {
                facts.push(at(end_ns, Body::ThreadTime(time)));
            }
            facts.extend([
                at(begin_ns, Body::Fork(Fork { parent, child, flags: 0 })),
                at(end_ns, Body::Ran(ran)),
                at(end_ns, Body::Exit(exit)),
                at(end_ns, Body::Wait(wait)),
            ]);
        }
        explain(facts).answer.text
    }

    #[test]
    fn children_one_after_another_beside_an_idle_cpu_are_said_with_what_room_there_is() {
        let text = said(&["cc"; 4], true, 0.05);
        let expected = "cc ran 4 times, one after another, while other CPUs had room: 2 at a time would take up to 1.95 s less";
        assert!(text.contains(expected), "{text}");
        for (programs, apart, used) in [
            (&["cc"; 4][..], true, 0.9),
            (&["cc"; 4], false, 0.05),
            (&["cc"; 2], true, 0.05),
            (&["cc", "as", "ld", "strip"], true, 0.05),
        ] {
            let text = said(programs, apart, used);
            assert!(!text.contains("at a time would"), "{programs:?} {apart} {used}: {text}");
        }
    }

    #[test]
    fn with_p_the_children_of_a_loop_are_said_of_the_look() {
        let of =
            |programs: &[&str], apart, used| said_of(TargetKind::Process, programs, apart, used);
        let text = of(&["cc"; 4], true, 0.05);
        let expected = "cc ran 4 times in the look, one after another, while other CPUs had room: 2 at a time would take up to 1.95 s \
                        less of it";
        assert!(text.contains(expected), "{text}");
        for text in [of(&["cc"; 4], true, 0.9), of(&["cc", "as", "ld", "strip"], true, 0.05)] {
            assert!(!text.contains("at a time would"), "{text}");
        }
    }
}
