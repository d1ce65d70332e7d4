//! Loops that wait without a timeout and have a timer among what they poll: which of their waits that timer ended.
//!
//! What a loop polls is read while it stands, so of most waits nobody knows it. But it polls the same in the next call: one that an interrupt ended,
//! and no object says of what, was ended by the timer that another wait there is known to have. Must not: take an interrupt for a timer where no timer was
//! seen (a keyboard, a sound card and a GPU wake their readers from one too), or a wait for another set of descriptors. Edit together: timeline.rs;
//! probe/src/readers/waiter_memory.rs, which reads the timer.

use super::span::WaitSpan;
use crate::facts::{Wake, WakeContext};
use std::collections::HashSet;

/// What a call waits for: its name, and where its descriptors stand.
type Set = (String, [u64; 2]);

/// Gives the waits of one thread that a timer ended the length that it gave them.
pub(super) fn pass_on(waits: &mut [WaitSpan]) {
    let has_timer =
        |wait: &&WaitSpan| wait.place.timeout_ns.is_some() && wait.place.is_for_several();
    let timed: HashSet<Set> = waits.iter().filter(has_timer).map(set).collect();
    if timed.is_empty() {
        return;
    }
    let by_interrupt =
        |wake: &Wake| wake.context == WakeContext::HardInterrupt && wake.disk.is_none();
    for wait in waits.iter_mut() {
        let is_unnamed = wait.place.timeout_ns.is_none() && wait.place.object.is_none();
        if is_unnamed && wait.wake.as_ref().is_some_and(by_interrupt) && timed.contains(&set(wait))
        {
            wait.place.timeout_ns = Some(wait.end_ns.saturating_sub(wait.begin_ns));
        }
    }
}

fn set(wait: &WaitSpan) -> Set {
    let [first, second, ..] = wait.place.args;
    let is_epoll = wait.place.syscall.starts_with("epoll");
    // The second argument of the one is where the answer goes.
    (wait.place.syscall.clone(), [first, if is_epoll { 0 } else { second }])
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    const MS: Ns = 1_000_000;

    /// A command that polls this twice without a timeout, until these end it; in the second a timer was seen among what it polls.
    fn ends(first: (u64, WakeContext), second: WakeContext, is_timer: bool) -> Vec<(EndKind, f64)> {
        let place = |polled: u64| Place {
            state: WaitState::Sleep,
            syscall: "epoll_wait".into(),
            args: [polled, 7, 64, u64::from(u32::MAX), 0, 8],
            ..Place::default()
        };
        let half = LOOK_NS / 2;
        let wait = |polled, begin_ns: Ns, context| {
            let end_ns = begin_ns + half;
            let wake = Some(Wake { at_ns: end_ns, context, ..Wake::default() });
            let (thread, place) = (thread(10, "loop"), place(polled));
            let body =
                Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() });
            Fact { at_ns: end_ns, body }
        };
        let timeout_ns = is_timer.then_some(half);
        let seen = Blocked {
            thread: thread(10, "loop"),
            since_ns: half,
            place: Place { timeout_ns, ..place(5) },
            ..Blocked::default()
        };
        let (kind, name) = (TargetKind::Command, "loop".to_string());
        let (cgroups, words) = (Vec::new(), Vec::new());
        let facts = vec![
            fact(Body::Target(Target { kind, name, pid: 10, cgroups, words })),
            Fact { at_ns: half + MS, body: Body::Blocked(seen) },
            wait(first.0, 0, first.1),
            wait(5, half, second),
        ];
        let ends = explain([host(), facts].concat()).answer.ends;
        ends.iter().map(|end| (end.end, (end.share * 10.0).round() / 10.0)).collect()
    }

    #[test]
    fn what_an_interrupt_ends_is_the_timer_of_a_loop_that_has_one() {
        use WakeContext::{HardInterrupt, SoftInterrupt};
        let sleeps = [(EndKind::Sleep, 1.0)];
        assert_eq!(ends((5, HardInterrupt), HardInterrupt, true), sleeps);
        let open = (EndKind::Open, 1.0);
        assert_eq!(ends((5, HardInterrupt), HardInterrupt, false), [open], "no timer was seen");
        assert_eq!(ends((5, SoftInterrupt), SoftInterrupt, true), [open], "a packet came");
        let half = |ends: Vec<(EndKind, f64)>| ends.contains(&(EndKind::Sleep, 0.5));
        assert!(half(ends((6, HardInterrupt), HardInterrupt, true)), "it polls something else");
        assert!(half(ends((5, SoftInterrupt), HardInterrupt, true)), "a packet came first");
    }
}
