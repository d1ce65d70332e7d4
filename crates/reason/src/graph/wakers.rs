//! Who ended a wait, as far as the wake-up says: a task, whoever sent a packet, or the clock.
//!
//! A task that wakes in its own context is believed. What runs in an interrupt is a bystander, unless it carried a packet: then
//! only somebody at the other end is to be believed. A kernel thread acts for others. Must not: follow anybody.

use super::index::Index;
use crate::facts::{Ns, Place, ThreadRef, Wake, WakeContext};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// A thread that is to die by a signal is gone by then.
pub(super) static DIES_WITHIN: Threshold = Threshold::new(
    100.0,
    "ms",
    "from the end of a wait to the end of its thread: a signal that ends both needs one turn on a CPU",
    "chosen: long beside a turn on a crowded CPU",
);

/// Between two samples of a thread whose wake-ups nobody sees: so far its times may be off.
pub(super) static SAMPLES_APART: Threshold = Threshold::new(
    25.0,
    "ms",
    "between two readings of a thread without kernel events: what happened in between is only known to be between them",
    "chosen: readings are taken every few hundredths of a second at most",
);

/// A signal and the wake-up by it are one call.
const ONE_CALL_NS: Ns = 1_000_000;

/// The task that woke it, if that did what was waited for: who kills it, or asks it to end, has not.
pub(super) fn waker(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let wake = wait.wake.as_ref()?;
    task_that_woke(index, wait).filter(|_| !is_asked_to_end(index, &wait.thread, wake))
}

/// The task that woke it, unless it was an interrupt or the idle task, or it was killed. Nor is it holdup, whatever it did.
pub(super) fn task_that_woke(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let wake = wait.wake.as_ref()?;
    let own_pid = index.model.look.host.own_pid;
    let is_somebody = wake.by.tid != 0 && (own_pid == 0 || wake.by.pid != own_pid);
    let is_itself = || index.model.threads.is_same(&wake.by, &wait.thread);
    let is_task = wake.context == WakeContext::Task && is_somebody && !is_itself();
    (is_task && !is_killed(index, wait))
        .then(|| as_process(index, wait.class, &wake.by, wake.at_ns))
}

/// Whether a wake-up came with a signal that asks to end: whoever waits in vain for something else is sent one at last (timeout(1), ^C).
pub(super) fn is_asked_to_end(index: &Index<'_>, who: &ThreadRef, wake: &Wake) -> bool {
    let (since_ns, until_ns) =
        (wake.at_ns.saturating_sub(ONE_CALL_NS), wake.at_ns.saturating_add(ONE_CALL_NS));
    let signals = &index.model.threads.signals;
    let later = &signals[signals.partition_point(|(at_ns, _)| *at_ns < since_ns)..];
    let near = later.iter().take_while(|(at_ns, _)| *at_ns <= until_ns);
    near.map(|(_, signal)| signal).any(|signal| {
        signal.asks_to_end() && signal.from.pid == wake.by.pid && signal.to.pid == who.pid
    })
}

/// Whether a signal ended a wait, and with it the thread.
pub(super) fn is_killed(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let died_ns = index.families.killed_ns(index.model.threads.key(&wait.thread));
    died_ns.is_some_and(|at_ns| {
        (wait.end_ns..=wait.end_ns.saturating_add(DIES_WITHIN.ns())).contains(&at_ns)
    })
}

/// The thread that a wake-up is believed of. A process that ends, by a signal or by itself, wakes its parent by whichever of
/// its threads is the last to go: what was waited for is what its main thread did.
fn as_process(index: &Index<'_>, class: WaitClass, by: &ThreadRef, at_ns: Ns) -> ThreadRef {
    if by.tid == by.pid {
        return by.clone();
    }
    let dies =
        |died_ns: Option<Ns>| died_ns.is_some_and(|it| it.abs_diff(at_ns) <= DIES_WITHIN.ns());
    let key = |who: &ThreadRef| index.model.threads.key_at(who, at_ns);
    let main = index.model.threads.thread_ref_at(by.pid, at_ns);
    let ended = |who: &ThreadRef| dies(index.families.died_ns(key(who)));
    let ends = || class == WaitClass::Child && ended(by) && ended(&main);
    if dies(index.families.killed_ns(key(by))) || ends() { main } else { by.clone() }
}

/// Whether a kernel thread ended a wait, for somebody who was not seen.
pub fn by_kernel_thread(wait: &WaitSpan) -> bool {
    wait.wake.as_ref().is_some_and(|wake| wake.by_kernel_thread)
}

/// Whether the clock ended a wait for events: an interrupt did that is no packet's, in a call that may time out (packets come in
/// soft interrupts). Where no wake-up is seen: it took as long as the call was to wait at most.
pub fn is_by_clock(wait: &WaitSpan) -> bool {
    let interrupts =
        |wake: &Wake| wake.context == WakeContext::HardInterrupt && wake.disk.is_none();
    wait.wake.as_ref().is_some_and(interrupts) && may_time_out(&wait.place) || has_timed_out(wait)
}

/// Whether a call that waits for events has a timeout: its argument is no pointer to none, and no -1, or a timer is among what it polls. What
/// ends a wait for a signal in a hard interrupt is the signal of a timer.
fn may_time_out(place: &Place) -> bool {
    let pointer = |at: usize| place.args[at] != 0;
    let timed = timeout_ns(place).is_some();
    match place.syscall.as_str() {
        "epoll_wait" | "epoll_pwait" | "poll" => timed,
        "ppoll" => timed || pointer(2),
        "select" | "pselect6" => timed || pointer(4),
        "epoll_pwait2" => timed || pointer(3),
        "io_getevents" | "io_pgetevents" | "futex_wait" => pointer(4),
        "futex" | "futex_waitv" => pointer(3),
        _ => true,
    }
}

/// How long a call waits at most, where that is known; none: for ever, or not known.
pub fn timeout_ns(place: &Place) -> Option<Ns> {
    const NS_PER_MS: Ns = 1_000_000;
    let argument = match place.syscall.as_str() {
        "epoll_wait" | "epoll_pwait" => place.args[3],
        "poll" => place.args[2],
        _ => return place.timeout_ns,
    };
    // An int of the caller's.
    let own_ns = u32::try_from(argument as i32).ok().map(|ms| Ns::from(ms) * NS_PER_MS);
    [own_ns, place.timeout_ns].into_iter().flatten().min()
}

/// Whether nobody saw what ended a wait.
pub(super) fn is_unseen(wait: &WaitSpan) -> bool {
    wait.wake.as_ref().is_some_and(|wake| wake.context == WakeContext::Unknown)
}

/// Whether a wait whose wake-up nobody saw took as long as its call was to wait at most, as far as sampling shows.
pub(super) fn has_timed_out(wait: &WaitSpan) -> bool {
    // A shorter one is lost in what sampling leaves open.
    let timeout_ns_min = 2 * SAMPLES_APART.ns();
    let timeout_ns = timeout_ns(&wait.place).filter(|ns| is_unseen(wait) && *ns >= timeout_ns_min);
    let lasted_ns = wait.end_ns.saturating_sub(wait.begin_ns);
    timeout_ns.is_some_and(|ns| lasted_ns.abs_diff(ns) <= SAMPLES_APART.ns())
}

/// Whose thread carried the packet that ended a wait: on one host the sender's own, in a soft interrupt. It may
/// be a bystander: only somebody at the other end is to be believed.
pub fn carrier(wait: &WaitSpan) -> Option<&ThreadRef> {
    let wake = wait.wake.as_ref()?;
    let carries = matches!(wake.context, WakeContext::Task | WakeContext::SoftInterrupt);
    (carries && wake.by.tid != 0 && !wake.by_kernel_thread).then_some(&wake.by)
}

/// It stands still, whoever made it.
pub fn is_stalled(class: WaitClass) -> bool {
    matches!(class, WaitClass::Stopped | WaitClass::Traced | WaitClass::FrozenCgroup)
}

#[cfg(test)]
mod tests {
    use super::{is_by_clock, may_time_out};
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::model::object::Object;
    use crate::rules::scenes::*;
    use crate::waits::WaitClass;
    use crate::waits::timeline::WaitSpan;

    /// Process 10 waits for its child 20, which sleeps, until 99 sends it a signal; and how it ends.
    fn ended_by_a_signal(code: u32) -> EndKind {
        let mut facts = host();
        let child = thread(20, "sleep");
        facts.push(identity(Thread { thread: child, parent_pid: 10, ..Thread::default() }));
        facts.push(blocked(20, "sleep", WaitState::Sleep, "nanosleep"));
        facts.push(blocked(99, "timeout", WaitState::Sleep, "rt_sigsuspend"));
        let place = Place { state: WaitState::Sleep, syscall: "poll".into(), ..Place::default() };
        let by = thread(99, "timeout");
        let wake = Wake { at_ns: LOOK_NS, context: WakeContext::Task, by, ..Wake::default() };
        let thread = thread(10, "make");
        let exit = Exit { thread: thread.clone(), last: true, code: Some(code) };
        let wait = Wait { thread, end_ns: LOOK_NS, place, wake: Some(wake), ..Wait::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Wait(wait) });
        facts.push(Fact { at_ns: LOOK_NS + 1, body: Body::Exit(exit) });
        let (kind, name) = (TargetKind::Command, "make".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        explain(facts).answer.ends[0].end
    }

    #[test]
    fn who_kills_has_not_done_what_was_waited_for() {
        assert_eq!(ended_by_a_signal(15), EndKind::Sleep);
        assert_eq!(
            ended_by_a_signal(256),
            EndKind::Open,
            "it may have been reported so by that one"
        );
    }

    #[test]
    fn a_process_of_threads_that_is_killed_is_waited_for_by_its_main_thread() {
        let mut facts = host();
        let (main, helper) = (thread(20, "npm"), ThreadRef { tid: 21, ..thread(20, "worker") });
        facts.push(identity(Thread { thread: main, parent_pid: 10, ..Thread::default() }));
        facts.push(blocked(20, "npm", WaitState::Sleep, "nanosleep"));
        let idle = Place { state: WaitState::Sleep, syscall: "futex".into(), ..Place::default() };
        let of_helper = Blocked { thread: helper.clone(), place: idle, ..Blocked::default() };
        facts.push(Fact { at_ns: LOOK_NS - 1, body: Body::Blocked(of_helper) });
        let wake =
            Wake { at_ns: LOOK_NS, context: WakeContext::Task, by: helper, ..Wake::default() };
        let place =
            Place { state: WaitState::Sleep, syscall: "rt_sigsuspend".into(), ..Place::default() };
        let wait = Wait {
            thread: thread(10, "timeout"),
            end_ns: LOOK_NS,
            place,
            wake: Some(wake.clone()),
            ..Wait::default()
        };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Wait(wait) });
        let exit = Exit { thread: wake.by, last: true, code: Some(15) };
        facts.push(Fact { at_ns: LOOK_NS - 1, body: Body::Exit(exit) });
        let (kind, name) = (TargetKind::Command, "timeout".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let end = explain(facts).answer.ends.remove(0);
        assert_eq!((end.end, end.who.and_then(|who| who.pid)), (EndKind::Sleep, Some(20)));
    }

    #[test]
    fn a_call_may_time_out_by_its_own_argument_alone() {
        for (syscall, at) in [("futex_wait", 4), ("futex_waitv", 3), ("io_pgetevents", 4)] {
            let mut args = [7, 7, 7, 7, 7, 7];
            let may =
                |args| may_time_out(&Place { syscall: syscall.into(), args, ..Place::default() });
            assert!(may(args), "{syscall}");
            args[at] = 0;
            assert!(!may(args), "{syscall}");
        }
    }

    #[test]
    fn a_loop_without_a_timeout_is_ended_by_the_clock_if_it_polls_a_timer() {
        let forever = u64::from(u32::MAX);
        for (syscall, args) in [
            ("epoll_wait", [5, 7, 64, forever, 0, 8]),
            ("poll", [7, 1, forever, 0, 0, 0]),
            ("ppoll", [7, 1, 0, 0, 0, 0]),
            ("pselect6", [7, 7, 0, 0, 0, 0]),
            ("epoll_pwait2", [5, 7, 64, 0, 0, 0]),
        ] {
            let at = |timeout_ns| {
                let syscall = syscall.into();
                may_time_out(&Place { syscall, args, timeout_ns, ..Place::default() })
            };
            assert!(at(Some(900)), "{syscall}");
            assert!(!at(None), "{syscall}: what interrupts it may be a device");
        }
        let args = [7, 0, 0, 8, 0, 0];
        let waits = Place { syscall: "rt_sigtimedwait".into(), args, ..Place::default() };
        assert!(may_time_out(&waits), "only a timer sends a signal from an interrupt");
    }

    #[test]
    fn a_wait_whose_end_nobody_saw_timed_out_if_it_took_that_long() {
        let lasted = |ms: u64, timeout: u64, context: WakeContext| {
            let place = Place {
                syscall: "epoll_wait".into(),
                args: [5, 0, 64, timeout, 0, 0],
                ..Place::default()
            };
            is_by_clock(&WaitSpan {
                thread: ThreadRef::default(),
                class: WaitClass::Idle,
                object: Object::Nothing,
                kernel: false,
                begin_ns: 0,
                end_ns: ms * 1_000_000,
                standing: false,
                place,
                wake: Some(Wake { context, ..Wake::default() }),
                ran_before: None,
                throttled: false,
                begin_estimated: false,
                dns_query: None,
            })
        };
        let none = u64::from(u32::MAX);
        assert!(lasted(2008, 2000, WakeContext::Unknown));
        assert!(!lasted(900, 2000, WakeContext::Unknown));
        assert!(!lasted(2008, none, WakeContext::Unknown));
        assert!(!lasted(2008, 2000, WakeContext::Task), "somebody was seen to end it");
        assert!(lasted(900, 2000, WakeContext::HardInterrupt));
    }
}
