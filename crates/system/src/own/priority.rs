//! The priority of holdup's own threads on a host whose CPUs are all taken.
//!
//! Among a hundred threads that compute on two CPUs an ordinary thread has a fiftieth of one: what a look computes in 0.4 s
//! would take 20 s. So where more threads are ready than there are CPUs, or a sleep ended late, the look's own
//! threads ask for SCHED_RR at the lowest priority; where that is refused (a group without a real-time budget), for
//! SCHED_DEADLINE; else for nice -20. On a host with a CPU to spare nothing is asked for, and nobody is disturbed. Whoever
//! starts holdup under another policy, or with `nice`, has it as he wants it.
//!
//! It is bounded three times: a thread that computes for [`BURST_MAX`] without a sleep is brought down by the kernel
//! (RLIMIT_RTTIME and its signal), one that takes more CPU than a look needs by the watchdog, and threads that are themselves held back
//! from the CPUs by real-time threads above them get a part of a CPU instead: SCHED_DEADLINE, half of one for the thread that looks (less where others have set too much aside)
//! and a twentieth for each that reads for it. The watchdog comes first, with such a part of its own, and nobody is raised before it has
//! made its first round. The command of `run` is forked before (command.rs), so that it inherits neither policy nor limit.
//!
//! Must not: raise who computes for long, or change anybody else. Rejected: always (on a host with few CPUs whoever has one
//! stands still for as long as the kernel checks programs); a higher real-time priority (it would preempt who needs it);
//! writing to the autogroup (it lifts the whole session); a watchdog that is started after (both were raised and starved: an answer 15 s late
//! beside two threads of timers). Edit together: policy.rs, watchdog.rs.

use super::policy;
use super::state::*;
pub use super::state::{come_back, own_tid, raise_helpers, sleeps_until};
use super::{capabilities, watchdog};
use crate::text;
use holdup_reason::facts::{Ns, OwnScheduling};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// What a real-time thread may compute without a sleep before the kernel brings it down.
pub const BURST_MAX: Duration = Duration::from_secs(1);
/// A sleep that ends so much too late was kept from a CPU. A tick of the slowest kernels is 10 ms.
const LATE_NS: Ns = 15_000_000;
/// CAP_SYS_NICE, bit 23.
const CAP_SYS_NICE: u64 = 1 << 23;

/// What the thread that looks had run, and waited for a CPU, when the look began: of the first look of a process nothing, as its start belongs
/// to it.
static BEFORE_NS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Another look begins, by the calling thread.
pub fn begin() {
    let is_first = super::state::begin();
    let before_ns = if is_first { [0; 2] } else { ran_and_waited_ns().unwrap_or_default() };
    for (known, before_ns) in BEFORE_NS.iter().zip(before_ns) {
        known.store(before_ns, Ordering::Relaxed);
    }
}

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

/// A window ends and the next begins, by the calling thread: asked for again, but where it has a part of a CPU: that it would have
/// to wait for once more.
pub fn next_window() {
    if has_part() {
        LEAVES.store(false, Ordering::Relaxed);
        return;
    }
    come_back();
    begin();
    raise_if_crowded();
}

/// Raises the own threads if more threads are ready than there are CPUs. To be called by the thread that looks.
pub fn raise_if_crowded() {
    if HAD.load(Ordering::Relaxed) == ORDINARY && is_crowded() {
        raise();
    }
}

/// The same if the calling thread, which began the look, has since waited for a CPU longer than it ran: few threads need be ready for that
/// where one of them is a real-time thread. Short waits among equals add up as well, and are no reason.
pub fn raise_if_delayed() {
    let Some(now_ns) = ran_and_waited_ns() else { return };
    let since = |at: usize| now_ns[at].saturating_sub(BEFORE_NS[at].load(Ordering::Relaxed));
    let (ran_ns, waited_ns) = (since(0), since(1));
    if HAD.load(Ordering::Relaxed) == ORDINARY && waited_ns > LATE_NS.max(ran_ns) {
        raise();
    }
}

/// The same after a sleep that ended so much later than it was to.
pub fn raise_if_late(late_ns: Ns) {
    if HAD.load(Ordering::Relaxed) == ORDINARY && late_ns > LATE_NS {
        raise();
    }
}

/// The look is over: a watchdog without a part of a CPU too has what the others have, so that the end of the process is not left to an
/// ordinary thread.
pub fn leave() {
    LEAVES.store(true, Ordering::Relaxed);
    watchdog::raise(&of_helper(HAD.load(Ordering::Relaxed)));
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
    // Refused where the first was granted: it goes on as it is.
    give(0, &of_helper(HAD.load(Ordering::Relaxed)));
}

/// Lets the calling thread choose its CPUs, which no thread with a deadline may.
pub fn follow_no_more() {
    if policy::get(0).is_ok_and(|own| policy::is_deadline(&own)) {
        let _ = policy::set(0, &policy::nice());
    }
}

fn raise() {
    let Ok(before) = policy::get(0) else { return };
    if policy::is_chosen(&before) || !may_ask() {
        return;
    }
    BEFORE.get_or_init(|| before);
    if !watchdog::stands_by() {
        return;
    }
    let is_bounded = bound_bursts();
    let parts = policy::deadlines().map(|part| (DEADLINE, part));
    let first = [(ROUND_ROBIN, policy::round_robin())].into_iter().chain(parts);
    let ways = first.chain([(NICE, policy::nice())]);
    let mut may = ways.filter(|(had, _)| *had != ROUND_ROBIN || is_bounded);
    LOOKS.store(own_tid(), Ordering::Relaxed);
    let granted = may.find(|(_, wanted)| policy::set(0, wanted).is_ok()).map(|(had, _)| had);
    HAD.store(granted.unwrap_or(REFUSED), Ordering::Relaxed);
    raise_helpers();
}

/// Whether anything would be granted: else there is nothing to watch either.
fn may_ask() -> bool {
    let has = |limit| getrlimit(limit).current.is_none_or(|most| most > 0);
    capabilities::effective() & CAP_SYS_NICE != 0 || has(Resource::Rtprio) || has(Resource::Nice)
}

/// What the calling thread has run and waited for a CPU in its life: the first words of its schedstat; none if the kernel does not count it.
fn ran_and_waited_ns() -> Option<[Ns; 2]> {
    let bytes = text::read(Path::new("/proc/thread-self/schedstat")).ok()?;
    let mut words = text::words(&bytes).map(text::number);
    Some([words.next()??, words.next()??])
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
    fn what_a_thread_waited_before_a_look_is_not_the_look_s() {
        let [ran_ns, waited_ns] = ran_and_waited_ns().unwrap_or_default();
        begin();
        begin();
        assert!(BEFORE_NS[0].load(Ordering::Relaxed) >= ran_ns);
        assert!(BEFORE_NS[1].load(Ordering::Relaxed) >= waited_ns);
    }
}
