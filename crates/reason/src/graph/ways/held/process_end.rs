//! A process whose end is waited for by asking again and again whether it lives: that process.
//!
//! Must not: say of a process that has ended long ago that it is waited for. Edit together: waits/retries.rs (who asks).

use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::model::object::Object;
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "process asked after",
    because: "it was asked again and again whether that process lives, and it did",
    of: &[WaitClass::ProcessEnd],
    thresholds: &[],
    follow: |at| {
        let Object::Process(pid) = at.wait.object else { return None };
        let process = at.index.model.threads.thread_ref_at(pid, at.wait.begin_ns);
        (process.pid != at.wait.thread.pid).then_some(Next::Thread(process))
    },
};

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{child, led};
    use crate::rules::scenes::{refusal, slept};

    #[test]
    fn who_asks_whether_a_process_lives_is_led_to_it() {
        const SECOND: Ns = 1_000_000_000;
        let asks = |at_ns| {
            let args = [20, 0, 0, 0, 0, 0];
            let body = Body::Denied(Denied { errno: 0, args, ..refusal(10, "app", "kill") });
            Fact { at_ns, body }
        };
        let rest = slept(10, "app", SECOND + 1, 2 * SECOND - 1);
        let facts = vec![child(20, 1), asks(SECOND), rest, asks(2 * SECOND)];
        assert_eq!(led(facts), ("process asked after", Some(20)));
    }
}
