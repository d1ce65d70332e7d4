//! Reads that might hang, done on a thread that may be left behind.
//!
//! /proc/PID/cmdline, maps, smaps, map_files, stack and syscall take a lock that the process itself
//! holds while it sleeps: the memory lock in a page fault on a dead file system, the exec lock in an
//! execve that closes a file of one. The state in /proc/PID/stat is looked at first, but can change
//! in between. So the items of a batch are worked off on a helper thread; when one does not come
//! back in time, that thread is given up (it ends when the kernel lets it go) and another one goes
//! on behind the item.
//!
//! A helper that is ready and has no CPU does not hang: on an overloaded host that takes longer than any read. It is waited for
//! longer, and by its state it is known.
//!
//! Rejected: a signal to interrupt the read (it does not reach an uninterruptible sleep), and one
//! thread per read (30 us each).

use super::stat::Stat;
use crate::own::priority;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// A read that takes longer than this hangs.
pub const TIMEOUT: Duration = Duration::from_millis(250);

/// How often the same is waited for again if the helper is ready and has no CPU.
const READY_MAX: usize = 8;

/// Helpers given up in one batch before the rest of it is not tried.
pub const GIVEN_UP_MAX: usize = 8;

/// Applies `work` to every item, in order; `None` where it hung, or was not tried because too many
/// others had hung.
pub fn map<I, T, F>(items: Vec<I>, work: F) -> Vec<Option<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    map_within(TIMEOUT, items, work)
}

fn map_within<I, T, F>(timeout: Duration, items: Vec<I>, work: F) -> Vec<Option<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    let items = Arc::new(items);
    let work = Arc::new(work);
    let mut results: Vec<Option<T>> = Vec::with_capacity(items.len());
    let mut given_up = 0;
    while results.len() < items.len() && given_up < GIVEN_UP_MAX {
        let first = results.len();
        let (send, receive) = sync_channel(256);
        let (items_there, work_there) = (Arc::clone(&items), Arc::clone(&work));
        let tid = Arc::new(AtomicU32::new(0));
        let tid_there = Arc::clone(&tid);
        let helper = priority::spawn("holdup-read", move || {
            tid_there.store(priority::own_tid(), Ordering::Relaxed);
            for item in &items_there[first..] {
                if send.send(work_there(item)).is_err() {
                    break;
                }
            }
        });
        if helper.is_err() {
            break;
        }
        let mut waited = 0;
        while results.len() < items.len() {
            match receive.recv_timeout(timeout) {
                Ok(result) => results.push(Some(result)),
                Err(RecvTimeoutError::Timeout)
                    if waited < READY_MAX && is_ready(tid.load(Ordering::Relaxed)) =>
                {
                    waited += 1;
                }
                // A helper that died of a panic loses its item like one that hangs.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    results.push(None);
                    given_up += 1;
                    break;
                }
            }
        }
    }
    results.resize_with(items.len(), || None);
    results
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
        let out = map_within(timeout, vec![1, 2, 3, 4], |n: &u32| {
            if *n == 2 {
                std::thread::sleep(Duration::from_secs(5));
            }
            *n
        });
        assert_eq!(out, [Some(1), None, Some(3), Some(4)]);
    }

    #[test]
    fn many_that_hang_end_the_batch() {
        let timeout = Duration::from_millis(5);
        let begin = std::time::Instant::now();
        let out = map_within(timeout, vec![0; 500], |_: &u32| {
            std::thread::sleep(Duration::from_secs(5));
        });
        assert_eq!(out.len(), 500);
        assert!(out.iter().all(Option::is_none));
        assert!(begin.elapsed() < Duration::from_secs(2));
    }
}
