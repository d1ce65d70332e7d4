//! A keyboard that is read by who hands on what is typed to another terminal, which it shows itself (sudo, su -P, script): who is in the foreground there.
//!
//! If that one reads its terminal, a person is to type. Must not: choose among several terminals, or be asked of who reads no keyboard: there the ways
//! to its child go on.

use super::person::reads_a_keyboard;
use crate::graph::next::Next;
use crate::graph::taken::{is_of_another, is_older};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "shown terminal",
    because: "it is in the foreground of the terminal that the thread shows",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let job = || at.index.families.in_shown_terminal(at.wait.thread.pid, at.within);
    let job = reads_a_keyboard(at).then(job).flatten()?;
    (!is_older(at, &job) && !is_of_another(at, &job)).then_some(Next::Thread(job))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::graph::ways::scenes::{NO_ARGS, led, place, stands};
    use crate::rules::scenes::{host, identity, of_process, thread};

    fn polls(pid: u32, name: &str, terminal: &str) -> Fact {
        let tty =
            ObjectRef::Tty { name: terminal.into(), dev: DeviceNumber { major: 136, minor: 3 } };
        stands(thread(pid, name), place("ppoll", NO_ARGS, Some(tty)))
    }

    fn known(pid: u32, name: &str, parent_pid: u32, session: u32, foreground: u32) -> Fact {
        let foreground_group = Some(foreground);
        let thread = thread(pid, name);
        identity(Thread { thread, parent_pid, session, foreground_group, ..Thread::default() })
    }

    /// Process 10 polls its terminal and shows that of 20, in whose foreground 21 does this; 20 is in this session.
    fn sudo(session: u32, does: Fact) -> Vec<Fact> {
        vec![
            known(10, "sudo", 5, 10, 10),
            known(20, "sudo", 10, session, 21),
            known(21, "job", 20, session, 21),
            polls(10, "sudo", "pts/3"),
            does,
        ]
    }

    fn waits() -> Fact {
        let flock = ObjectRef::File(FileRef { ino: 9, ..FileRef::default() });
        stands(thread(21, "job"), place("flock", NO_ARGS, Some(flock)))
    }

    #[test]
    fn who_shows_a_terminal_waits_for_who_is_in_its_foreground() {
        assert_eq!(led(sudo(20, waits())), ("shown terminal", Some(21)));
        assert_eq!(led(sudo(10, waits())), ("person", None), "a job of the same terminal");
        let another = known(30, "other", 10, 30, 30);
        assert_eq!(led([sudo(20, waits()), vec![another]].concat()), ("person", None), "which?");
    }

    #[test]
    fn a_shell_that_reads_the_shown_terminal_waits_for_a_person() {
        let ends = |does: Fact| {
            let facts = [host(), vec![of_process(10, "sudo")], sudo(20, does)].concat();
            explain(facts).answer.ends.iter().map(|end| end.end).collect::<Vec<_>>()
        };
        assert!(ends(waits()).contains(&EndKind::Lock));
        let at_a_prompt = ends(polls(21, "job", "pts/4"));
        assert!(!at_a_prompt.contains(&EndKind::Lock) && !at_a_prompt.contains(&EndKind::Open));
    }
}
