//! Of several children that are waited for at a time: the last that ends.
//!
//! How it is found is in graph/parallel.rs. Must not: be asked of a wait that somebody else than a child ended.

use crate::graph::next::Next;
use crate::graph::parallel::{PARTS_MISSED, PAUSE_MAX, last_of_several};
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "last of several children",
    because: "of the children that it waited for one after the other this one lasted longest",
    of: &[WaitClass::PipeRead, WaitClass::Child],
    thresholds: &[&PAUSE_MAX, &PARTS_MISSED],
    follow: |at| last_of_several(at.index, at.wait).map(Next::Thread),
};

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{child, led, of_ten, place};
    use crate::rules::scenes::{LOOK_NS, thread};

    #[test]
    fn of_two_that_were_there_the_one_that_ends_last_counts() {
        let waits = |begin_ns, end_ns, by: u32| {
            let (context, by) = (WakeContext::Task, thread(by, "job"));
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let place = place("wait4", [u64::MAX, 0, 0, 0, 0, 0], None);
            let thread = of_ten(10);
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let half = LOOK_NS / 2;
        let two = |second| {
            vec![child(20, 10), child(21, 10), waits(0, half, 20), waits(half, LOOK_NS, second)]
        };
        assert_eq!(led(two(21)), ("last of several children", Some(21)));
        assert_eq!(led(two(20)).0, "child", "there is no other");
    }
}
