//! A thread that its tracer has stopped, while the tracer itself cannot go on: whoever holds the tracer up.
//!
//! A tracer lets go of what it has stopped once it has written down the call, or has run what it was asked to; until then it waits like any other
//! program. Must not: lead to a tracer that waits for a person, for its own tracees, or works: it holds what it traces, and that is the end
//! (rules/process/traced.rs).

use super::child;
use crate::facts::{Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass::{Child, CpuQuota, FrozenCgroup, RunQueue, Stopped, Traced};
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "tracer",
    because: "it traces it, and is held up itself",
    of: &[Traced],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, threads) = (at.index, &at.index.model.threads);
    let tracer_of = |it: &ThreadRef| {
        let known = threads.identity(it).map(|known| known.tracer_pid);
        known.filter(|pid| *pid != 0)
    };
    let tracer = threads.thread_ref(tracer_of(&at.wait.thread)?);
    let own = stands_in(index, &tracer, at.within)?;
    let child = (own.class == Child)
        .then(|| (child::WAY.follow)(&Waiter { within: at.within, ..Waiter::of(index, own) }));
    let child = match child.flatten() {
        Some(Next::Thread(child)) if tracer_of(&child).is_none() => Some(child),
        _ => None,
    };
    let of_child = child.and_then(|child| stands_in(index, &child, at.within));
    [Some(own), of_child].into_iter().flatten().any(is_held_up).then_some(Next::Thread(tracer))
}

/// The wait in which a thread is for most of a time.
fn stands_in<'w>(
    index: &Index<'w>,
    thread: &ThreadRef,
    (from, to): (Ns, Ns),
) -> Option<&'w WaitSpan> {
    let wait = index.waits.at(thread, from.midpoint(to))?;
    (wait.within_ns(from, to) * 2 >= to.saturating_sub(from)).then_some(wait)
}

/// Whether a wait is for something that somebody or something else has. A turn on a CPU comes by itself.
fn is_held_up(wait: &WaitSpan) -> bool {
    let is_for_a_turn = matches!(wait.class, RunQueue | CpuQuota);
    wait.class.is_demand() && !is_for_a_turn || matches!(wait.class, Stopped | FrozenCgroup)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{fact, identity, thread};

    /// Thread 10 is stopped by its tracer 20, which stands so.
    fn held_by(tracer: Place, more: Vec<Fact>) -> (&'static str, Option<u32>) {
        let traced = Thread { thread: of_ten(10), tracer_pid: 20, ..Thread::default() };
        let stopped = Place { state: WaitState::Traced, ..place("openat", NO_ARGS, None) };
        let facts = vec![
            identity(traced),
            stands(of_ten(10), stopped),
            stands(thread(20, "strace"), tracer),
        ];
        led([facts, more].concat())
    }

    fn child_of_tracer(pid: u32, tracer_pid: u32, does: Place) -> Vec<Fact> {
        let child = Thread {
            thread: thread(pid, "flock"),
            parent_pid: 20,
            tracer_pid,
            ..Thread::default()
        };
        vec![fact(Body::Thread(child)), stands(thread(pid, "flock"), does)]
    }

    #[test]
    fn a_tracer_that_cannot_write_down_the_call_is_led_on() {
        let pipe = Some(ObjectRef::Pipe { ino: 7 });
        assert_eq!(held_by(place("write", NO_ARGS, pipe), vec![]), ("tracer", Some(20)));
        let stopped = Place { state: WaitState::Stopped, ..place("write", NO_ARGS, None) };
        assert_eq!(held_by(stopped, vec![]), ("tracer", Some(20)), "it is stopped itself");
    }

    #[test]
    fn a_tracer_that_waits_for_a_person_or_for_its_tracees_is_the_end() {
        let tty = ObjectRef::Tty { name: "pts/3".into(), dev: DeviceNumber::default() };
        for at in [place("poll", NO_ARGS, Some(tty)), place("poll", NO_ARGS, None)] {
            assert_eq!(held_by(at, vec![]), ("", None));
        }
        let any = [u64::from(u32::MAX), 0, 0, 0, 0, 0];
        let flock = || {
            place("flock", NO_ARGS, Some(ObjectRef::File(FileRef { ino: 9, ..FileRef::default() })))
        };
        assert_eq!(
            held_by(place("wait4", any, None), child_of_tracer(30, 20, flock())),
            ("", None)
        );
    }

    #[test]
    fn a_tracer_that_runs_a_command_is_led_on_if_that_is_held_up() {
        let waits = || place("wait4", [30, 0, 0, 0, 0, 0], None);
        let flock = place(
            "flock",
            NO_ARGS,
            Some(ObjectRef::File(FileRef { ino: 9, ..FileRef::default() })),
        );
        assert_eq!(held_by(waits(), child_of_tracer(30, 0, flock)), ("tracer", Some(20)));
        let sleeps = place("clock_nanosleep", NO_ARGS, None);
        assert_eq!(held_by(waits(), child_of_tracer(30, 0, sleeps)), ("", None), "by design");
    }
}
