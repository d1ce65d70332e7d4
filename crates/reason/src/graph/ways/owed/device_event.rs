//! Who waits until the manager of devices has nothing more to do: the program that one of its workers has run and waits for.
//!
//! Must not: be asked of a worker itself, which waits for its child (only_child.rs), or choose (waits/device_event.rs).

use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::waits::{WaitClass, device_event};

/// The way.
pub(super) static WAY: Way = Way {
    name: "device event",
    because: device_event::BECAUSE,
    of: &[WaitClass::Idle],
    thresholds: &[],
    follow: |at| {
        let model = at.index.model;
        let is_it = device_event::settles(model, at.wait);
        let event = is_it.then(|| device_event::awaited(model, at.within)).flatten();
        event.map(|event| Next::Thread(event.program.clone()))
    },
};

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, identity, thread};

    fn waits(command: &str, program: ThreadRef) -> (&'static str, Option<u32>) {
        let (thread, command) = (of_ten(10), command.to_string());
        let event = DeviceEvent { worker_pid: 5, program, ..DeviceEvent::default() };
        led(vec![
            identity(Thread { thread, command, ..Thread::default() }),
            Fact { at_ns: LOOK_NS + 1, body: Body::DeviceEvent(event) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn the_program_of_a_rule_is_waited_for_by_who_waits_for_all_events() {
        let program = || thread(30, "mdadm");
        assert_eq!(waits("udevadm settle --timeout=60", program()), ("device event", Some(30)));
        assert_ne!(waits("udevadm monitor", program()).0, "device event");
        let late = ThreadRef { start_ns: LOOK_NS / 5 * 4, ..program() };
        assert_ne!(waits("udevadm settle", late).0, "device event");
    }
}
