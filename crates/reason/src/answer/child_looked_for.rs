//! What a process does whose work is to look for the end of its one child again and again, without a pause: that is a wait for the child.
//!
//! The call (wait4, waitid) returns at once where it does not wait, so no wait of it is seen; but samples of the CPU meet it. Of a process that had
//! one child all the while, which lives as the look ends, it can be for nothing else. Must not: speak of one that begins others, as a shell
//! does, or say why the child goes on.

use super::report::AnswerEnd;
use crate::graph::end::EndKind;
use crate::measure::Measures;
use crate::model::lifetimes;
use crate::threshold::Threshold;
use std::collections::BTreeSet;

/// Samples within the call.
static LOOKS_MIN: Threshold = Threshold::new(
    5.0,
    "1",
    "samples of a process in a look for a child's end: such a call takes a microsecond, so fewer may be a look now and then",
    "chosen: fifty times a second at least, by a sampler of 100 Hz and calls of 2 us",
);

/// A clause, if somebody works so.
pub(super) fn clause(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let pid = end.who.as_ref().filter(|_| end.end == EndKind::Works)?.pid?;
    let is_look = |syscall: &str| matches!(syscall, "wait4" | "waitid");
    let calls = measures.profile.work(pid).iter().filter(|work| is_look(&work.syscall));
    if calls.map(|work| work.count).sum::<u64>() < LOOKS_MIN.whole() {
        return None;
    }
    let model = measures.model;
    if model.threads.forks.iter().any(|(_, fork)| fork.parent.pid == pid && fork.child.pid != pid) {
        return None;
    }
    let known = model.threads.by_id.values().map(|known| known.thread.pid);
    let known = known.chain(model.threads.times.iter().map(|time| time.thread.pid));
    let children: BTreeSet<u32> =
        known.filter(|it| measures.graph.parent_of(*it) == Some(pid)).collect();
    let child = model.threads.thread_ref(children.first().copied()?);
    let is_it = children.len() == 1 && lifetimes::is_there_at_end(model, &child);
    is_it.then(|| {
        let who = model.threads.who(&child);
        format!("it looks again and again, without a pause, whether its only child {who} has ended, which has not")
    })
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// What is said of process 10, which works all the time and was met so often in a call, with these children.
    fn text(syscall: &str, count: u64, more: Vec<Fact>) -> String {
        let process = || thread(10, "keeper");
        let times = ThreadTime {
            thread: process(),
            until_ns: LOOK_NS,
            run_ns: LOOK_NS / 10 * 9,
            ..ThreadTime::default()
        };
        let samples = Samples { process: process(), count: 400, frequency_hz: 100, stack: 0 };
        let work = Work { process: process(), syscall: syscall.into(), count, ..Work::default() };
        let facts = vec![
            of_process(10, "keeper"),
            fact(Body::ThreadTime(times)),
            Fact { at_ns: LOOK_NS, body: Body::Samples(samples) },
            Fact { at_ns: LOOK_NS, body: Body::Work(work) },
        ];
        explain([host(), facts, more].concat()).answer.text
    }

    fn child(pid: u32) -> Vec<Fact> {
        let thread = thread(pid, "job");
        let known = Thread { thread: thread.clone(), parent_pid: 10, ..Thread::default() };
        vec![identity(known), blocked(pid, "job", WaitState::Sleep, "clock_nanosleep")]
    }

    #[test]
    fn who_works_by_looking_for_the_end_of_its_one_child_is_said_to() {
        let said = "whether its only child job 20 has ended";
        assert!(text("wait4", 15, child(20)).contains(said), "{}", text("wait4", 15, child(20)));
        assert!(!text("wait4", 2, child(20)).contains(said), "now and then");
        assert!(!text("poll", 15, child(20)).contains(said), "it polls something else");
        assert!(!text("wait4", 15, vec![]).contains("only child"));
        let two = [child(20), child(21)].concat();
        assert!(!text("wait4", 15, two).contains("only child"), "which of them?");
        let fork = Fork { parent: thread(10, "keeper"), child: thread(30, "job"), flags: 0 };
        let begins =
            [child(20), vec![Fact { at_ns: LOOK_NS / 2, body: Body::Fork(fork) }]].concat();
        assert!(!text("wait4", 15, begins).contains("only child"), "it begins others");
    }
}
