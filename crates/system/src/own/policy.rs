//! Scheduling policies of single threads, by sched_setattr(2): the calls, and the policies that holdup asks for.
//!
//! All of them reset on fork (SCHED_FLAG_RESET_ON_FORK), so that nothing that holdup starts inherits one.
//! Must not: decide when (priority.rs) or for how long (watchdog.rs).

use std::io;

/// The lowest real-time priority: no other real-time thread is ever preempted.
const ROUND_ROBIN_PRIORITY: u32 = 1;
/// Half of one CPU, in pieces that a reading of a thread's counters fits into; where others have set too much aside (another look, at the
/// same moment, does), less: a tenth is more than what is left for ordinary threads.
const DEADLINE_RUNTIMES_NS: [u64; 3] = [10_000_000, 5_000_000, 2_000_000];
const DEADLINE_PERIOD_NS: u64 = 20_000_000;
/// A twentieth of one CPU for a thread that only reads for another.
const HELPER_RUNTIME_NS: u64 = 1_000_000;
/// A hundredth for the thread that watches the others.
const WATCHDOG_RUNTIME_NS: u64 = 1_000_000;
const WATCHDOG_PERIOD_NS: u64 = 100_000_000;
/// The greatest weight of an ordinary thread.
const NICE: i32 = -20;
const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK as u64;

/// What sched_getattr(2) and sched_setattr(2) tell and take.
pub type Attributes = libc::sched_attr;

fn attributes(policy: libc::c_int) -> Attributes {
    Attributes {
        size: size_of::<Attributes>() as u32,
        sched_policy: policy as u32,
        sched_flags: RESET_ON_FORK,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

/// SCHED_RR at the lowest priority.
pub fn round_robin() -> Attributes {
    Attributes { sched_priority: ROUND_ROBIN_PRIORITY, ..attributes(libc::SCHED_RR) }
}

/// SCHED_DEADLINE, the largest part of a CPU first: the kernel grants one only if the CPUs can keep it, and ends each turn itself.
pub fn deadlines() -> [Attributes; 3] {
    DEADLINE_RUNTIMES_NS.map(|runtime_ns| part_of_cpu(runtime_ns, DEADLINE_PERIOD_NS))
}

/// The same for a thread that only reads for another.
pub fn helper_deadline() -> Attributes {
    part_of_cpu(HELPER_RUNTIME_NS, DEADLINE_PERIOD_NS)
}

/// The same for the thread that watches the others.
pub fn watchdog_deadline() -> Attributes {
    part_of_cpu(WATCHDOG_RUNTIME_NS, WATCHDOG_PERIOD_NS)
}

fn part_of_cpu(runtime_ns: u64, period_ns: u64) -> Attributes {
    Attributes {
        sched_runtime: runtime_ns,
        sched_deadline: period_ns,
        sched_period: period_ns,
        ..attributes(libc::SCHED_DEADLINE)
    }
}

/// SCHED_OTHER with the greatest weight.
pub fn nice() -> Attributes {
    Attributes { sched_nice: NICE, ..attributes(libc::SCHED_OTHER) }
}

/// What a thread had before, except that it resets on fork: to take that flag off again needs a privilege.
pub fn back_to(before: &Attributes) -> Attributes {
    Attributes { sched_flags: before.sched_flags | RESET_ON_FORK, ..*before }
}

/// Whether somebody gave it another policy or less weight than a thread has by default: that is respected.
pub fn is_chosen(of: &Attributes) -> bool {
    of.sched_policy != libc::SCHED_OTHER as u32 || of.sched_nice > 0
}

/// Whether a thread with these has a part of a CPU that no other thread can take.
pub fn is_deadline(of: &Attributes) -> bool {
    of.sched_policy == libc::SCHED_DEADLINE as u32
}

/// The attributes of a thread; 0 stands for the calling one.
pub fn get(tid: u32) -> io::Result<Attributes> {
    let mut found = attributes(libc::SCHED_OTHER);
    let size = size_of::<Attributes>() as libc::c_uint;
    // SAFETY: room for the struct of the size passed, which outlives the call.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut found, size, 0) };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(found) }
}

/// Gives a thread other attributes; 0 stands for the calling one. May be called in a signal handler.
pub fn set(tid: u32, wanted: &Attributes) -> io::Result<()> {
    // SAFETY: a valid sched_attr of the size that it tells, which outlives the call.
    let failed =
        unsafe { libc::syscall(libc::SYS_sched_setattr, tid, wanted as *const Attributes, 0) };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asked_to_come_last_or_first_is_left_alone() {
        let of = |policy, sched_nice| Attributes { sched_nice, ..attributes(policy) };
        assert!(!is_chosen(&of(libc::SCHED_OTHER, 0)));
        assert!(!is_chosen(&of(libc::SCHED_OTHER, -5)));
        for chosen in [
            of(libc::SCHED_OTHER, 1),
            of(libc::SCHED_BATCH, 0),
            of(libc::SCHED_IDLE, 0),
            of(libc::SCHED_FIFO, 0),
        ] {
            assert!(is_chosen(&chosen));
        }
    }

    #[test]
    fn a_thread_is_what_it_was_granted_and_what_it_starts_is_not() {
        std::thread::spawn(|| {
            let before = get(0).expect("the kernel answers");
            let parts = deadlines().into_iter().chain([helper_deadline(), watchdog_deadline()]);
            for wanted in parts.chain([round_robin(), nice()]) {
                // An ordinary user, or a group without a real-time budget, is refused.
                if set(0, &wanted).is_err() {
                    assert_eq!(
                        get(0).expect("the kernel answers").sched_policy,
                        before.sched_policy
                    );
                    continue;
                }
                let had = get(0).expect("the kernel answers");
                assert_eq!(
                    (had.sched_policy, had.sched_nice, had.sched_priority),
                    (wanted.sched_policy, wanted.sched_nice, wanted.sched_priority)
                );
                let child = std::thread::spawn(|| get(0).expect("the kernel answers"))
                    .join()
                    .expect("it ends");
                assert_eq!((child.sched_policy, child.sched_nice), (libc::SCHED_OTHER as u32, 0));
                set(0, &back_to(&before)).expect("it may always come down");
            }
        })
        .join()
        .expect("it ends");
    }
}
