//! The other end of a pipe: who reads what is written, or writes what is read.
//!
//! Must not: choose between the threads of that process (serving.rs does).

use crate::graph::channels::pipe_end;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "end of a pipe",
    because: "it has the other end of the pipe",
    of: &[WaitClass::PipeWrite, WaitClass::PipeRead],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let is_for_a_reader = at.wait.class == WaitClass::PipeWrite;
    pipe_end(at.index, at.wait, is_for_a_reader).map(Next::Thread)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, endpoint, thread};

    #[test]
    fn who_has_the_other_end_is_next_and_of_a_pipe_without_one_nobody() {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let writes = || stands(of_ten(10), place("write", NO_ARGS, Some(pipe())));
        let reader = endpoint(20, "less", pipe());
        assert_eq!(led(vec![writes(), reader]), ("end of a pipe", Some(20)));
        assert_eq!(led(vec![writes()]), ("", None));
    }

    #[test]
    fn who_had_no_cpu_within_a_write_to_it_was_at_the_other_end() {
        let reads = || stands(of_ten(10), place("read", NO_ARGS, Some(ObjectRef::Pipe { ino: 7 })));
        let ready_in = |syscall: &str, ino: u64| {
            let object = Some(ObjectRef::Pipe { ino });
            let place = Place { state: WaitState::Runnable, ..place(syscall, NO_ARGS, object) };
            let (thread, end_ns) = (thread(20, "grep"), LOOK_NS / 2);
            let wait = Wait { thread, begin_ns: LOOK_NS / 4, end_ns, place, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        assert_eq!(led(vec![reads(), ready_in("write", 7)]), ("end of a pipe", Some(20)));
        assert_eq!(led(vec![reads(), ready_in("read", 7)]), ("", None), "another reader");
        assert_eq!(led(vec![reads(), ready_in("write", 8)]), ("", None), "another pipe");
    }
}
