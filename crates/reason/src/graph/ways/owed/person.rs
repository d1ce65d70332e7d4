//! A terminal that is read: a person is to type, and nobody else can act.
//!
//! It stands above all that may be found in what the thread does besides. Must not: be asked of the other side of a terminal, which a
//! program reads.

use crate::facts::ObjectRef;
use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::model::terminal::Terminal;

/// The way.
pub(super) static WAY: Way =
    Way { name: "person", because: "a person is to type", of: FOR_EVENTS, thresholds: &[], follow };

fn follow(at: &Waiter<'_>) -> Option<Next> {
    reads_a_keyboard(at).then_some(Next::Nobody)
}

/// Whether a wait is for what is typed.
pub(super) fn reads_a_keyboard(at: &Waiter<'_>) -> bool {
    let is_keyboard = |it: &ObjectRef| matches!(it, ObjectRef::Tty { name, .. } if !Terminal::of(name).is_shown());
    at.wait.place.object.as_ref().is_some_and(is_keyboard)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};

    #[test]
    fn a_keyboard_ends_the_ladder_and_the_other_side_of_a_terminal_does_not() {
        let reads = |name: &str| {
            let dev = DeviceNumber { major: 136, minor: 3 };
            let tty = ObjectRef::Tty { name: name.into(), dev };
            let waits = place("epoll_wait", NO_ARGS, Some(tty));
            led(vec![child(20, 10), stands(of_ten(10), waits)])
        };
        assert_eq!(reads("pts/3"), ("person", None));
        assert_eq!(reads("ptm/3"), ("only child", Some(20)));
    }
}
