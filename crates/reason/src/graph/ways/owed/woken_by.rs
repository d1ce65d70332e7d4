//! Who ended a wait for events: whoever woke it, or of several children the one that counts.
//!
//! Must not: believe a kernel thread, who came in late, or who only asked for something else (interrupts.rs).

use super::interrupts::only_interrupts;
use crate::graph::next::Next;
use crate::graph::parallel::last_of_several;
use crate::graph::wakers::{by_kernel_thread, waker};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way =
    Way { name: "woken by", because: "it ended the wait", of: FOR_EVENTS, thresholds: &[], follow };

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, wait) = (at.index, at.wait);
    let by = last_of_several(index, wait).or_else(|| waker(index, wait));
    let by = by.filter(|by| !by_kernel_thread(wait) && at.was_there(by))?;
    (!only_interrupts(index, wait, &by, at.asker)).then_some(Next::Thread(by))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place};
    use crate::rules::scenes::{LOOK_NS, thread};

    #[test]
    fn who_woke_it_was_waited_for_if_he_was_there_and_no_kernel_thread_is() {
        let by = |by: ThreadRef| {
            led(vec![ended(of_ten(10), place("epoll_wait", NO_ARGS, None), by, WakeContext::Task)])
        };
        assert_eq!(by(thread(20, "job")), ("woken by", Some(20)));
        let asked = |signal| {
            let (from, to) = (thread(20, "timeout"), of_ten(10));
            let body = Body::Signal(Signal { from, to, signal, ignored: false, inner_pid: None });
            let at = place("epoll_wait", NO_ARGS, None);
            let woken = ended(of_ten(10), at, thread(20, "timeout"), WakeContext::Task);
            led(vec![Fact { at_ns: woken.at_ns, body }, woken])
        };
        assert_eq!(asked(15), ("", None), "it waited for something else until it was asked to end");
        assert_eq!(asked(18), ("woken by", Some(20)));
        let late = ThreadRef { start_ns: LOOK_NS / 5 * 3, ..thread(20, "job") };
        assert_eq!(by(late), ("", None), "he came in the middle");
    }
}
