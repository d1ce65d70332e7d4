//! The priority of holdup's own threads on a host whose CPUs are all taken.
//!
//! Among a hundred threads that compute on two CPUs an ordinary thread has a fiftieth of one: what a look computes in 0.4 s
//! would take 20 s. So where more threads are ready than there are CPUs, or a sleep ended late, the look's own
//! threads ask for SCHED_RR at the lowest priority; where that is refused (a group without a real-time budget), for
//! SCHED_DEADLINE; else for nice -20. On a host with a CPU to spare nothing is asked for, and nobody is disturbed. Whoever
//! starts holdup under another policy, or with `nice`, has it as he wants it.
//!
//! It is bounded three times: a thread that computes for [`BURST_MAX`] without a sleep is brought down by the kernel
//! (RLIMIT_RTTIME and its signal), one that takes more CPU than a look needs by the watchdog, and one that is itself kept from
//! the CPUs by real-time threads above it gets another policy there. The command of `run` is forked before (command.rs), so
//! that it inherits neither policy nor limit.
//!
//! Must not: raise who computes for long, or change anybody else. Rejected: always (on a host with few CPUs whoever has one
//! stands still for as long as the kernel checks programs); a higher real-time priority (it would preempt who needs it);
//! writing to the autogroup (it lifts the whole session). Edit together: policy.rs, watchdog.rs.

use super::policy;
use super::state::*;
pub use super::state::{begin, come_back, own_tid, raise_helpers, sleeps_until};
use super::watchdog;
use crate::cpus::online_cpus;
use crate::text;
use holdup_reason::facts::{Ns, OwnScheduling};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// What a real-time thread may compute without a sleep before the kernel brings it down.
pub const BURST_MAX: Duration = Duration::from_secs(1);
/// A sleep that ends so much too late was kept from a CPU. A tick of the slowest kernels is 10 ms.
const LATE_NS: Ns = 15_000_000;

/// What the scheduler grants the own threads at this moment.
pub fn had() -> OwnScheduling {
    match HAD.load(Ordering::Relaxed) {
        ROUND_ROBIN => OwnScheduling::RoundRobin,
        DEADLINE => OwnScheduling::Deadline,
        NICE => OwnScheduling::Nice,
        GIVEN_BACK => OwnScheduling::GivenBack,
        _ => OwnScheduling::Ordinary,
    }
}

/// Raises the own threads if more threads are ready than there are CPUs. To be called by the thread that looks.
pub fn raise_if_crowded() {
    if HAD.load(Ordering::Relaxed) == ORDINARY && is_crowded(Path::new("/proc/loadavg")) {
        raise();
    }
}

/// The same after a sleep that ended so much later than it was to.
pub fn raise_if_late(late_ns: Ns) {
    if HAD.load(Ordering::Relaxed) == ORDINARY && late_ns > LATE_NS {
        raise();
    }
}

/// The look is over: the watchdog too has what the others have, so that the end of the process is not left to an ordinary
/// thread.
pub fn leave() {
    LEAVES.store(true, Ordering::Relaxed);
    if let Some(wanted) = of_helper(HAD.load(Ordering::Relaxed)) {
        watchdog::raise(&wanted);
    }
}

/// Starts a thread of the look's own, which has what the others have.
pub fn spawn<T, F>(name: &str, work: F) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let thread = Builder::new().name(name.into()).spawn(work)?;
    // It begins as an ordinary thread, and would have to wait for a CPU to ask for more itself.
    raise_helpers();
    Ok(thread)
}

/// Gives the calling thread what the others have.
pub fn follow() {
    if let Some(wanted) = of_helper(HAD.load(Ordering::Relaxed)) {
        // Refused where the first was granted: it goes on as it is.
        let _ = policy::set(0, &wanted);
    }
}

fn raise() {
    let Ok(before) = policy::get(0) else { return };
    if policy::is_chosen(&before) {
        return;
    }
    BEFORE.get_or_init(|| before);
    let is_bounded = bound_bursts();
    let ways = [
        (ROUND_ROBIN, policy::round_robin()),
        (DEADLINE, policy::deadline()),
        (NICE, policy::nice()),
    ];
    let mut may = ways.iter().filter(|(had, _)| *had != ROUND_ROBIN || is_bounded);
    let Some((granted, _)) = may.find(|(_, wanted)| policy::set(0, wanted).is_ok()) else { return };
    LOOKS.store(own_tid(), Ordering::Relaxed);
    HAD.store(*granted, Ordering::Relaxed);
    match watchdog::start(own_tid()) {
        true => raise_helpers(),
        false => come_down(),
    }
}

/// The fourth word of /proc/loadavg: threads that run or are ready now, of all there are; this one is among them.
fn is_crowded(loadavg: &Path) -> bool {
    let bytes = text::read(loadavg).unwrap_or_default();
    let ready = ready_threads(&bytes);
    ready.is_some_and(|ready| ready > online_cpus().len() as u64)
}

fn ready_threads(loadavg: &[u8]) -> Option<u64> {
    let word = text::words(loadavg).nth(3)?;
    text::number(word.split(|byte| *byte == b'/').next()?)
}

/// Has the kernel send a signal to a real-time thread that computes for too long without a sleep, and obeys it.
/// `false` if that is not to be had, and there may be no such thread.
fn bound_bursts() -> bool {
    let mut limit = getrlimit(Resource::Rttime);
    let longest_us = BURST_MAX.as_micros() as u64;
    limit.current = Some(limit.maximum.map_or(longest_us, |most| longest_us.min(most)));
    let handler = obey_limit as extern "C" fn(libc::c_int);
    // SAFETY: all zeroes are a value of sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: it points to a live value; the handler makes one system call and stores to an atomic.
    let is_handled =
        unsafe { libc::sigaction(libc::SIGXCPU, &raw const action, std::ptr::null_mut()) == 0 };
    is_handled && setrlimit(Resource::Rttime, limit).is_ok()
}

/// Runs in the thread that was too long at it: the kernel picks the current one first. The watchdog brings the others down.
extern "C" fn obey_limit(_signal: libc::c_int) {
    give_back();
    if let Some(before) = BEFORE.get() {
        let _ = policy::set(0, &policy::back_to(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_ready_are_the_fourth_word() {
        assert_eq!(ready_threads(b"0.58 0.94 1.02 34/812 99\n"), Some(34));
        for other in [&b""[..], b"1 2 3", b"1 2 3 x/4 5", b"0.1 0.1 0.1 /7 1"] {
            assert_eq!(ready_threads(other), None);
        }
    }
}
