//! A pipe that a process polls beside its client, and that only one has open for writing which it did not begin: the sentence of a look that would else
//! call it idle.
//!
//! What ended has left its output to whoever it began in the background, and the session lasts until that one closes it (`ssh host 'server &'`).
//! Must not: say that anybody is late: the one that has it may rest for good.

use crate::facts::{TargetKind, ThreadRef};
use crate::measure::Measures;
use crate::model::words;

/// PID of the first process: whose parent it is was begun by nobody who is still there.
const INIT: u32 = 1;

/// Title and paragraph, if the main thread of the process that was asked about stood there all the look.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let target = measures.model.look.target.as_ref();
    let asked = target.filter(|it| it.kind == TargetKind::Process)?;
    let (stands, far) = stands_at(measures, asked.pid)?;
    let why = match measures.graph.parent_of(far.pid) {
        Some(INIT) => {
            "Who began that has ended, and left it the pipe, which ends when it closes it"
        }
        _ => "Nobody there is known to be late",
    };
    Some((format!("{stands}."), format!("{why}: holdup -p {} follows it.", far.pid)))
}

/// What is said of another process whose main thread stood there all the look.
pub(super) fn of(measures: &Measures<'_>, pid: u32) -> Option<String> {
    Some(stands_at(measures, pid)?.0)
}

/// Who stood there, as a clause, and who has the pipe.
fn stands_at(measures: &Measures<'_>, pid: u32) -> Option<(String, ThreadRef)> {
    let model = measures.model;
    let main = model.threads.thread_ref(pid);
    let last = measures.graph.waits_of(&main).last()?;
    let stands = last.standing && model.look.began_before(last.begin_ns);
    let far = measures.graph.chains.left_behind(last).filter(|_| stands)?;
    let (who, far_who) = (words::who(&main), words::who(&far));
    let clause =
        format!("{who} has waited all the time for a pipe that {far_who} has open for writing");
    Some((clause, far))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::Measures;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    /// Process 10, which is asked about, polls its client and a pipe that 30 has open for writing, whose parent this is.
    fn scene(parent_pid: u32) -> Vec<Fact> {
        let pipe = |pid: u32, fd: u32, writes: bool| {
            let mut end = descriptor(pid, fd, "job", ObjectRef::Pipe { ino: 7 });
            if let Body::Endpoint(end) = &mut end.body {
                (end.readable, end.writable) = (!writes, writes);
            }
            end
        };
        let client = || inet("tcp", 100, "127.0.0.1:22", "127.0.0.1:4000", 1);
        let polls = Place {
            state: WaitState::Sleep,
            syscall: "ppoll".into(),
            object: Some(client()),
            polled: vec![3, 4],
            ..Place::default()
        };
        let job = Thread { thread: thread(30, "job"), parent_pid, ..Thread::default() };
        let facts = vec![
            of_process(10, "app"),
            at_place(10, "app", polls),
            descriptor(9, 3, "server", inet("tcp", 99, "127.0.0.1:22", "0.0.0.0:0", 10)),
            descriptor(10, 3, "app", client()),
            pipe(10, 4, false),
            pipe(30, 1, true),
            identity(job),
            blocked(30, "job", WaitState::Sleep, "epoll_wait"),
        ];
        [host(), facts].concat()
    }

    fn said(parent_pid: u32) -> (String, String) {
        let answer = explain(scene(parent_pid)).answer;
        (answer.title, answer.text)
    }

    #[test]
    fn who_was_left_behind_with_the_pipe_is_said_and_a_child_that_rests_is_not() {
        let expected =
            "app 10 has waited all the time for a pipe that job 30 has open for writing.";
        let (left, supervised) = (said(1), said(9));
        assert_eq!((left.0.as_str(), supervised.0.as_str()), (expected, expected));
        assert!(left.1.starts_with("Who began that has ended"), "{}", left.1);
        assert!(supervised.1.starts_with("Nobody there is known to be late"), "{}", supervised.1);
        assert!(said(10).0.starts_with("app 10 is idle"), "{}", said(10).0);
    }

    #[test]
    fn whoever_waits_for_it_hears_the_same() {
        let observed = Observed::new(scene(1));
        let measures = Measures::of_observed(&observed);
        let expected = "app 10 has waited all the time for a pipe that job 30 has open for writing";
        assert_eq!(super::of(&measures, 10).as_deref(), Some(expected));
        assert_eq!(super::of(&measures, 30), None);
    }
}
