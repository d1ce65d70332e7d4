//! An event loop that has one child for most of the time: it waits for that.
//!
//! Who asks about a process gets that child also where nobody else waits (awaited.rs). Must not: choose among several, or lead a client to a child that
//! was there before its question, or was begun for another's.

use crate::graph::next::Next;
use crate::graph::taken;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;

/// Why it is whoever is found.
pub(in crate::graph) const BECAUSE: &str = "it is the only child that there was meanwhile";

/// The way.
pub(super) static WAY: Way = Way {
    name: "only child",
    because: BECAUSE,
    of: &[WaitClass::Idle, WaitClass::PipeRead],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (from, to) = at.within;
    // A loop that polls a pipe of which nobody else is known: its own, by which it hears of signals. Whoever reads one reads what another writes.
    if at.wait.class == WaitClass::PipeRead && !at.wait.place.is_for_several() {
        return None;
    }
    let child = at.index.families.only_child(at.wait.thread.pid, from, to)?;
    let is_for_it = !taken::is_older(at, &child) && !taken::is_of_another(at, &child);
    is_for_it.then_some(Next::Thread(child))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, blocked, endpoint, host, of_process, thread};

    /// What somebody is shown who asks about the loop 10, whose child 20 does this.
    fn shown(does: Fact, more: Vec<Fact>) -> Vec<(EndKind, Option<u32>)> {
        let loops = stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        let asked = vec![of_process(10, "app"), loops, child(20, 10), does];
        let ends = explain([host(), asked, more].concat()).answer.ends;
        ends.iter().map(|end| (end.end, end.who.as_ref().and_then(|by| by.pid))).collect()
    }

    #[test]
    fn a_child_that_rests_or_waits_by_a_time_of_its_own_is_no_reason() {
        let sleeps = || blocked(20, "job", WaitState::Sleep, "clock_nanosleep");
        assert_eq!(shown(sleeps(), Vec::new()), [(EndKind::Sleep, Some(20))]);
        let rests = |timeout| {
            stands(thread(20, "job"), place("epoll_wait", [3, 0, 64, timeout, 0, 0], None))
        };
        let is_of_child =
            |does: Fact| shown(does, Vec::new()).iter().any(|(_, who)| *who == Some(20));
        assert!(!is_of_child(rests(9_000)), "a timer of its own");
        assert!(!is_of_child(rests(u64::MAX)));
        let listens = inet("tcp", 5, "0.0.0.0:80", "0.0.0.0:0", 10);
        let listens = vec![endpoint(10, "app", listens)];
        assert!(!shown(sleeps(), listens).contains(&(EndKind::Sleep, Some(20))), "it may be asked");
    }

    #[test]
    fn of_many_that_came_one_after_another_the_one_that_stayed_is_waited_for() {
        let tenth = LOOK_NS / 10;
        let lived = |pid: u32, start_ns: Ns, end_ns: Ns| {
            let who = ThreadRef { start_ns, ..thread(pid, "cc") };
            let fork = Fork { parent: of_ten(10), child: who.clone(), flags: 0 };
            let exit = Exit { thread: who, last: true, code: None };
            let (begins, ends) = (Body::Fork(fork), Body::Exit(exit));
            [Fact { at_ns: start_ns, body: begins }, Fact { at_ns: end_ns, body: ends }]
        };
        let with =
            |long: Ns| {
                let mut facts = vec![stands(of_ten(10), place("epoll_wait", NO_ARGS, None))];
                facts.push(child(20, 10));
                facts.extend((1..9).flat_map(|at| {
                    lived(30 + at, u64::from(at) * tenth, u64::from(at + 1) * tenth)
                }));
                facts.extend(lived(50, tenth, tenth + long));
                facts.sort_by_key(|fact| fact.at_ns);
                led(facts)
            };
        assert_eq!(with(3 * tenth), ("only child", Some(20)));
        assert_ne!(with(7 * tenth), ("only child", Some(20)), "which of them?");
    }

    #[test]
    fn a_loop_that_polls_its_own_pipe_waits_for_its_child_and_who_reads_one_for_its_writer() {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let waits = |call: &str, more: Vec<Fact>| {
            let waits = stands(of_ten(10), place(call, NO_ARGS, Some(pipe())));
            led([vec![waits, child(20, 10)], more].concat())
        };
        assert_eq!(waits("poll", vec![]), ("only child", Some(20)), "sudo");
        assert_eq!(waits("read", vec![]), ("", None));
        let writer = vec![endpoint(30, "tar", pipe())];
        assert_eq!(waits("poll", writer), ("end of a pipe", Some(30)));
    }

    #[test]
    fn the_only_child_is_waited_for_and_of_two_none() {
        let waits = || stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        assert_eq!(led(vec![waits(), child(20, 10)]), ("only child", Some(20)));
        assert_eq!(led(vec![waits(), child(20, 10), child(21, 10)]), ("", None));
    }
}
