//! Reads that might hang, done on a thread that may be left behind.
//!
//! /proc/PID/cmdline, maps, smaps, map_files, stack and syscall, and the memory itself, take a lock that
//! the process itself holds while it sleeps: the memory lock in a page fault on a dead file system, the
//! exec lock in an execve that closes a file of one. The state in /proc/PID/stat is looked at first, but
//! can change in between. So the items of a batch are worked off on a helper thread; when one does not
//! come back in time, that thread is given up (it ends when the kernel lets it go) and another one goes
//! on behind the item.
//!
//! Of items that say what they wait for, none is tried at which a helper hangs: who looks once a second, or window after window,
//! would leave a thread behind each time.
//!
//! A helper that is ready and has no CPU does not hang: on an overloaded host that takes longer than any read. It is waited for
//! longer, and by its state it is known.
//!
//! Rejected: a signal to interrupt the read (it does not reach an uninterruptible sleep), and one
//! thread per read (30 us each).

use super::stat::Stat;
use crate::own::priority;
use holdup_reason::facts::DeviceNumber;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A read that takes longer than this hangs.
pub const TIMEOUT: Duration = Duration::from_millis(250);

/// How often the same is waited for again if the helper is ready and has no CPU.
const READY_MAX: usize = 8;

/// Helpers given up in one batch before the rest of it is not tried.
const GIVEN_UP_MAX: usize = 8;

/// Helpers of [`map_behind`] that hang at one time, in all batches: two that go wrong as a whole. Each is a thread of the own process
/// that nothing ends.
const HANGING_MAX: usize = 2 * GIVEN_UP_MAX;

/// For so long nothing is tried again that took too long and came back in the end: longer than most looks, each of which would wait
/// for it anew.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The lock on cgroups is one for the host, and a reading that is given up takes those of all threads with it: it is waited for
/// longer. Where groups are made and removed it is held for tenths of a second, and let go.
const CGROUPS_TIMEOUT: Duration = Duration::from_millis(500);

/// The same lock is tried again sooner. Each time costs [`CGROUPS_TIMEOUT`] at most where its helper has a CPU, so no more than a third of
/// the time is waited.
const CGROUPS_TRIED_AGAIN_AFTER: Duration = Duration::from_millis(1000);

/// Why an item was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Undone {
    /// It hung, or would hang where another one does, or so many others did that no more was tried.
    Hung,
    /// No thread could be begun for it: a limit on threads was met, or memory is short.
    NoThread,
}

/// What a read may hang at. While one does, no other that needs the same is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    /// The memory lock or the exec lock of a process, or one of its pages.
    Process(u32),
    /// The kernel's cgroup_mutex, which a reading of /proc/PID/cgroup takes up to Linux 6.7.
    Cgroups,
    /// The way to the mount point of a file system.
    Mount(DeviceNumber),
}

impl Behind {
    fn timeout(self) -> Duration {
        match self {
            Self::Cgroups => CGROUPS_TIMEOUT,
            Self::Process(_) | Self::Mount(_) => TIMEOUT,
        }
    }

    fn tried_again_after(self) -> Duration {
        match self {
            Self::Cgroups => CGROUPS_TRIED_AGAIN_AFTER,
            Self::Process(_) | Self::Mount(_) => TRIED_AGAIN_AFTER,
        }
    }
}

/// A helper that was given up.
struct Hanging {
    at: Behind,
    since: Instant,
    /// Lives as long as the helper.
    helper: Weak<()>,
}

/// Of the whole process, for as long as its threads: a look that follows another finds them.
static HANGING: Mutex<Vec<Hanging>> = Mutex::new(Vec::new());

/// Applies `work` to every item, in order; `None` where it hung, or was not tried because too many
/// others had hung.
pub fn map<I, T, F>(items: Vec<I>, work: F) -> Vec<Option<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    attempt(items, work).into_iter().map(Result::ok).collect()
}

/// The same, with the reason of what was not done.
pub fn attempt<I, T, F>(items: Vec<I>, work: F) -> Vec<Result<T, Undone>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    attempt_within(TIMEOUT, items, work)
}

fn attempt_within<I, T, F>(timeout: Duration, items: Vec<I>, work: F) -> Vec<Result<T, Undone>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    let items = items.into_iter().map(|item| (None, item)).collect();
    work_off(timeout, GIVEN_UP_MAX, items, work)
}

/// The same of items that say what they may hang at. `None` also of those that were not tried because a helper hangs there, of this
/// batch or of one before.
pub fn map_behind<I, T, F>(items: Vec<(Behind, I)>, work: F) -> Vec<Option<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    attempt_behind(items, work).into_iter().map(Result::ok).collect()
}

/// The same, with the reason of what was not done.
pub fn attempt_behind<I, T, F>(items: Vec<(Behind, I)>, work: F) -> Vec<Result<T, Undone>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    let given_up_max = GIVEN_UP_MAX.min(HANGING_MAX.saturating_sub(hanging().1));
    let items = items.into_iter().map(|(behind, item)| (Some(behind), item)).collect();
    work_off(TIMEOUT, given_up_max, items, work)
}

fn work_off<I, T, F>(
    timeout: Duration,
    given_up_max: usize,
    items: Vec<(Option<Behind>, I)>,
    work: F,
) -> Vec<Result<T, Undone>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    let items = Arc::new(items);
    let work = Arc::new(work);
    let mut results: Vec<Result<T, Undone>> = Vec::with_capacity(items.len());
    let (mut given_up, mut rest) = (0, Undone::Hung);
    while results.len() < items.len() && given_up < given_up_max {
        let first = results.len();
        let (send, receive) = sync_channel(256);
        let (items_there, work_there) = (Arc::clone(&items), Arc::clone(&work));
        let tid = Arc::new(AtomicU32::new(0));
        let tid_there = Arc::clone(&tid);
        let lives = Arc::new(());
        let alive = Arc::downgrade(&lives);
        let (hanging, _) = hanging();
        let helper = priority::spawn("holdup-read", move || {
            let _lives = lives;
            tid_there.store(priority::own_tid(), Ordering::Relaxed);
            for (behind, item) in &items_there[first..] {
                let is_tried = behind.is_none_or(|behind| !hanging.contains(&behind));
                let done = if is_tried { Ok(work_there(item)) } else { Err(Undone::Hung) };
                if send.send(done).is_err() {
                    break;
                }
            }
        });
        if helper.is_err() {
            rest = Undone::NoThread;
            break;
        }
        let mut waited = 0;
        while results.len() < items.len() {
            let (behind, _) = &items[results.len()];
            match receive.recv_timeout(behind.map_or(timeout, Behind::timeout)) {
                Ok(result) => results.push(result),
                Err(RecvTimeoutError::Timeout)
                    if waited < READY_MAX && is_ready(tid.load(Ordering::Relaxed)) =>
                {
                    waited += 1;
                }
                // A helper that died of a panic loses its item like one that hangs.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    behind.iter().for_each(|at| give_up(*at, alive.clone()));
                    results.push(Err(Undone::Hung));
                    given_up += 1;
                    break;
                }
            }
        }
    }
    results.resize_with(items.len(), || Err(rest));
    results
}

/// What is not tried, and how many helpers hang at it at this moment.
fn hanging() -> (BTreeSet<Behind>, usize) {
    let mut all = HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let hangs = |it: &Hanging| it.helper.strong_count() > 0;
    all.retain(|it| hangs(it) || it.since.elapsed() < it.at.tried_again_after());
    (all.iter().map(|it| it.at).collect(), all.iter().filter(|it| hangs(it)).count())
}

fn give_up(at: Behind, helper: Weak<()>) {
    let since = Instant::now();
    let mut all = HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(Hanging { at, since, helper });
}

/// Whether one of the own threads could run: also one that has not yet come so far as to say its number.
fn is_ready(tid: u32) -> bool {
    let stat = |tid| Stat::read(&Path::new("/proc/self/task").join(format!("{tid}/stat")));
    tid == 0 || stat(tid).is_some_and(|stat| stat.state == 'R')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_come_back_in_order() {
        let out = map((0..1000).collect(), |n: &u32| n * 2);
        assert_eq!(out.len(), 1000);
        assert!(out.iter().enumerate().all(|(i, n)| *n == Some(i as u32 * 2)));
    }

    #[test]
    fn one_that_hangs_costs_only_itself() {
        let timeout = Duration::from_millis(100);
        let out = attempt_within(timeout, vec![1, 2, 3, 4], |n: &u32| {
            if *n == 2 {
                std::thread::sleep(Duration::from_secs(5));
            }
            *n
        });
        assert_eq!(out, [Ok(1), Err(Undone::Hung), Ok(3), Ok(4)]);
    }

    #[test]
    fn many_that_hang_end_the_batch() {
        let timeout = Duration::from_millis(5);
        let begin = std::time::Instant::now();
        let out = attempt_within(timeout, vec![0; 500], |_: &u32| {
            std::thread::sleep(Duration::from_secs(5));
        });
        assert_eq!(out.len(), 500);
        assert!(out.iter().all(|it| *it == Err(Undone::Hung)));
        assert!(begin.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn where_one_hangs_nothing_else_is_tried() {
        // Process numbers that the kernel does not give.
        let (hangs, other) = (Behind::Process(u32::MAX), Behind::Process(u32::MAX - 1));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let out = map_behind(vec![(other, 1), (hangs, 2), (hangs, 3), (other, 4)], move |n| {
            if *n == 2 {
                let _ = held.lock().expect("one at a time").recv();
            }
            *n
        });
        assert_eq!(out, [Some(1), None, None, Some(4)]);
        let again = map_behind(vec![(hangs, 5), (other, 6)], |n: &u32| *n);
        assert_eq!(again, [None, Some(6)], "not in the next batch either");
        drop(release);
    }

    #[test]
    fn a_lock_of_the_whole_host_is_waited_for_longer_and_tried_again_sooner() {
        let late = |ms: u64| {
            let items = vec![(Behind::Cgroups, ms), (Behind::Cgroups, 0)];
            map_behind(items, |ms: &u64| std::thread::sleep(Duration::from_millis(*ms)))
        };
        assert_eq!(late(350), [Some(()), Some(())], "the first is late, and none is lost");
        assert_eq!(late(900), [None, None]);
        let begun = Instant::now();
        while late(0) != [Some(()), Some(())] {
            assert!(begun.elapsed() < TRIED_AGAIN_AFTER / 2, "tried again");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
