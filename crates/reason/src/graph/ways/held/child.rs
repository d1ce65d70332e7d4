//! A child that is waited for: whoever ended the wait, the one that was asked for, the only one, or all of them if they are held up
//! together.
//!
//! Any child's end would do: only if there is but one, or all are held up, is it known for whom. Must not: take whoever sends a signal
//! for a child.

use crate::facts::*;
use crate::graph::channels::pipe_end;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::wakers::{SAMPLES_APART, is_killed, is_stalled, waker};
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;
use crate::waits::timeline::{self, WaitSpan};

/// What waitid(2) takes for whom it waits (include/uapi/linux/wait.h).
const P_PID: u64 = 1;
const P_PIDFD: u64 = 3;

/// The way.
pub(crate) static WAY: Way = Way {
    name: "child",
    because: "it is the child whose end is waited for",
    of: &[WaitClass::Child],
    thresholds: &[&SAMPLES_APART],
    follow: |at| child(at.index, at.wait).map(Next::Thread),
};

pub(super) fn child(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    // A signal ends it too.
    let is_child = |by: &ThreadRef| index.families.descends(by.pid, wait.thread.pid);
    if let Some(waker) = waker(index, wait).filter(is_child) {
        return Some(waker);
    }
    let asked = match wait.place.syscall.as_str() {
        "wait4" => u32::try_from(wait.place.args[0] as i32).ok().filter(|pid| *pid > 0),
        "waitid" if wait.place.args[0] == P_PID => u32::try_from(wait.place.args[1]).ok(),
        _ => None,
    };
    if let Some(number) = asked {
        return child_of_number(index, wait, number);
    }
    if let Some(ended) = child_that_ended_with(index, wait) {
        return Some(ended);
    }
    if is_killed(index, wait) {
        // Its children were mostly killed with it.
        let there = index.families.children_within(wait.thread.pid, wait.begin_ns, wait.end_ns);
        return first_of_pipeline(index, &there, wait);
    }
    let alive = index.families.living_children(wait.thread.pid);
    // By its own functions it waits for the one that it has just begun.
    if wait.place.syscall.starts_with("epoll") {
        return alive.into_iter().max_by_key(|child| child.start_ns);
    }
    // Any child's end would do: only if there is but one, or all are held up, or the others wait for it, is it known for whom.
    if alive.len() > 1 && !hold_up_together(index, &alive, wait) {
        return first_of_pipeline(index, &alive, wait);
    }
    chosen(index, wait, alive)
}

/// The one of some processes for which all others stood at a pipe: a shell waits for all programs of a pipeline.
fn first_of_pipeline(
    index: &Index<'_>,
    processes: &[ThreadRef],
    wait: &WaitSpan,
) -> Option<ThreadRef> {
    let within =
        (wait.begin_ns.max(index.model.look.begin_ns), wait.end_ns.min(index.model.look.end_ns));
    let waits_for_another =
        |process: &&ThreadRef| stands_at_pipe_of(index, process, processes, within);
    let mut first = processes.iter().filter(|process| !waits_for_another(process));
    let only = first.next()?;
    first.next().is_none().then(|| only.clone())
}

/// Whether a process stood for most of a time at pipes whose other end one of some others has.
fn stands_at_pipe_of(
    index: &Index<'_>,
    process: &ThreadRef,
    others: &[ThreadRef],
    (from, to): (Ns, Ns),
) -> bool {
    let (since, until) = index.families.there(process, (from, to));
    let is_others = |wait: &&WaitSpan| {
        let end = pipe_end(index, wait, wait.class == WaitClass::PipeWrite);
        end.is_some_and(|end| {
            end.pid != process.pid && others.iter().any(|other| other.pid == end.pid)
        })
    };
    let waits = index.waits.of(process).iter();
    let at_pipes = waits
        .filter(|wait| matches!(wait.class, WaitClass::PipeRead | WaitClass::PipeWrite))
        .filter(|wait| wait.within_ns(since, until) > 0)
        .filter(is_others);
    let all_ns: Ns = at_pipes.map(|wait| wait.within_ns(since, until)).sum();
    all_ns > 0 && all_ns * 2 >= until.saturating_sub(since)
}

/// The child that a process calls by a number: that of its own PID namespace, as a container counts.
fn child_of_number(index: &Index<'_>, wait: &WaitSpan, number: u32) -> Option<ThreadRef> {
    let threads = &index.model.threads;
    let inner_of = |of: &ThreadRef| threads.identity(of).and_then(|known| known.inner_pid);
    if inner_of(&wait.thread).is_none() {
        return Some(threads.thread_ref_at(number, wait.begin_ns));
    }
    let children = index.families.children_ever(wait.thread.pid);
    let known = children.into_iter().find(|child| inner_of(child) == Some(number));
    // One in a namespace of its own is not known by the number that its parent gives it.
    known.or_else(|| index.families.only_child(wait.thread.pid, wait.begin_ns, wait.end_ns))
}

/// Where no wake-up was seen: the child whose end was seen as the wait ended, within what sampling leaves open.
fn child_that_ended_with(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let is_seen = |wake: &Wake| wake.context != WakeContext::Unknown;
    if wait.standing || wait.wake.as_ref().is_some_and(is_seen) {
        return None;
    }
    let children = index.families.children_ever(wait.thread.pid);
    let ended = index.model.threads.exits.iter().filter(|(at_ns, exit)| {
        at_ns.abs_diff(wait.end_ns) <= SAMPLES_APART.ns()
            && children.iter().any(|child| index.model.threads.is_same(child, &exit.thread))
    });
    // Of several that sampling cannot tell apart a shell waits for the one that it began last.
    let last = ended.max_by_key(|(_, exit)| exit.thread.start_ns)?;
    Some(last.1.thread.clone())
}

/// For a wait of which no way finds who is next: it is for whichever child ends first, and nobody can say
/// which that will be. By a descriptor (P_PIDFD) it is for one of them, and only that is not known.
pub(in crate::graph) fn waits_for_any_child(index: &Index<'_>, wait: &WaitSpan) -> bool {
    wait.class == WaitClass::Child
        && !is_by_descriptor(wait)
        && index.families.living_children(wait.thread.pid).len() > 1
}

/// Whether it is for the process that a descriptor stands for.
fn is_by_descriptor(wait: &WaitSpan) -> bool {
    wait.place.syscall == "waitid" && wait.place.args[0] == P_PIDFD
}

/// Whether all of some processes were held up at once for most of a wait, as far as the look has seen it. One that
/// runs, or waits for input, may end at any time.
fn hold_up_together(index: &Index<'_>, processes: &[ThreadRef], wait: &WaitSpan) -> bool {
    let (from, to) =
        (wait.begin_ns.max(index.model.look.begin_ns), wait.end_ns.min(index.model.look.end_ns));
    let mut together = vec![(from, to)];
    for process in processes {
        let held = stretches(index, process.pid, from, to);
        together = timeline::common(&together, &held);
    }
    let all: Ns = together.iter().map(|(begin, end)| end - begin).sum();
    all > 0 && all >= to.saturating_sub(from) / 2
}

/// When a process was held up, in any of its threads: in order, without overlap.
fn stretches(index: &Index<'_>, pid: u32, from: Ns, to: Ns) -> Vec<(Ns, Ns)> {
    let threads = index.families.threads_of(&[pid]);
    let waits = threads.iter().flat_map(|thread| index.waits.of(thread));
    let held = waits.filter(|w| w.class.is_demand() || is_stalled(w.class));
    let within = held.map(|w| (w.begin_ns.max(from), w.end_ns.min(to)));
    timeline::joined(within.filter(|(begin, end)| begin < end).collect())
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn shell(second: Fact) -> Vec<Fact> {
        let mut facts = host();
        for pid in [20, 30] {
            let child = thread(pid, "job");
            facts.push(identity(Thread { thread: child, parent_pid: 10, ..Thread::default() }));
        }
        let mut place =
            Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
        place.args[0] = u64::MAX;
        facts.push(at_place(10, "sh", place));
        facts.push(blocked(20, "job", WaitState::Stopped, ""));
        facts.push(second);
        facts
    }

    #[test]
    fn who_waits_for_any_child_does_not_wait_for_the_stopped_one() {
        let report = explain(shell(blocked(30, "job", WaitState::Sleep, "nanosleep")));
        assert!(report.findings.iter().all(|finding| finding.victims.is_empty()));
    }

    /// Two children in turn on one CPU: each is held up for half of the time, and one always runs.
    #[test]
    fn who_waits_for_any_child_is_not_held_up_by_one_while_another_runs() {
        let waits = |pid: u32, second: u64| {
            let (begin_ns, end_ns) = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
            let place = Place { state: WaitState::Runnable, ..Place::default() };
            let thread = thread(pid, "job");
            let wait = Wait { thread, begin_ns, end_ns, place, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let mut facts = shell(waits(30, 1));
        facts.retain(|fact| !matches!(&fact.body, Body::Blocked(at) if at.thread.pid == 20));
        facts.extend([waits(20, 0), waits(20, 2), waits(30, 3), waits(20, 4)]);
        let command = Target {
            kind: TargetKind::Command,
            name: "sh".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        facts.push(fact(Body::Target(command)));
        let parts = explain(facts).accounting.parts;
        let reported: Vec<(&str, &str)> =
            parts.iter().map(|part| (&*part.class, &*part.object.name)).collect();
        assert_eq!(reported, [("open", "any of its children")]);
    }

    /// A shell's pipeline: 20 computes, 30 reads what it writes; `reader` is what 30 does.
    fn pipeline(reader: Fact) -> Vec<(String, String)> {
        let mut facts = shell(reader);
        facts.retain(|fact| !matches!(&fact.body, Body::Blocked(at) if at.thread.pid == 20));
        let pipe = ObjectRef::Pipe { ino: 7 };
        for pid in [20, 30] {
            facts.push(endpoint(pid, "job", pipe.clone()));
        }
        let times = ThreadTime {
            thread: thread(20, "job"),
            until_ns: LOOK_NS,
            run_ns: LOOK_NS,
            ..ThreadTime::default()
        };
        facts.push(fact(Body::ThreadTime(times)));
        facts.push(of_process(10, "sh"));
        let answer = explain(facts).answer;
        let ends = answer.ends.iter();
        ends.map(|end| (format!("{:?}", end.end), end.object.name.clone())).collect()
    }

    #[test]
    fn of_a_pipeline_the_one_counts_for_which_the_others_stand_at_pipes() {
        let read = Place {
            state: WaitState::Sleep,
            syscall: "read".into(),
            object: Some(ObjectRef::Pipe { ino: 7 }),
            ..Place::default()
        };
        let ends = pipeline(at_place(30, "job", read));
        assert_eq!(ends.first().map(|(end, _)| end.as_str()), Some("Works"), "{ends:?}");
        let apart = pipeline(blocked(30, "job", WaitState::Sleep, "nanosleep"));
        assert!(apart.iter().all(|(end, _)| end != "Works"), "{apart:?}");
    }

    #[test]
    fn who_waits_for_any_child_waits_for_the_stopped_ones_if_all_are() {
        let report = explain(shell(blocked(30, "job", WaitState::Stopped, "")));
        assert!(report.findings.iter().any(|finding| !finding.victims.is_empty()));
    }

    /// Process 10, which has this number in its PID namespace if it has one, waits for number 8; its children are 20 and 30, whose numbers
    /// there are 7 and 8. A process of the host's has number 8.
    fn waits_for_eight(inner_pid: Option<u32>) -> (&'static str, Option<u32>) {
        use crate::graph::ways::scenes::{led, place, stands};
        let own = |pid: u32, parent_pid: u32, inner_pid: Option<u32>| {
            identity(Thread {
                thread: thread(pid, "job"),
                parent_pid,
                inner_pid,
                ..Thread::default()
            })
        };
        let inner = |number: u32| inner_pid.map(|_| number);
        let waits = place("wait4", [8, 0, 0, 0, 0, 0], None);
        led(vec![
            own(10, 9, inner_pid),
            own(20, 10, inner(7)),
            own(30, 10, inner(8)),
            own(8, 2, None),
            stands(thread(10, "job"), waits),
        ])
    }

    #[test]
    fn a_container_calls_its_children_by_numbers_of_its_own() {
        assert_eq!(waits_for_eight(Some(5)), ("child", Some(30)));
        assert_eq!(waits_for_eight(None), ("child", Some(8)));
    }
}
