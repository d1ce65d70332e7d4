//! Loads that compute, sleep or idle.
//!
//! Owns the loads whose figure depends on the CPU alone, and the idle ones that must never become a
//! finding. Nothing here touches a disk or a socket.

use crate::load::{Figure, Load, Options, burn};
use anyhow::Result;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("compute", Load::Pairs(compute)),
    ("daemon", Load::Pairs(daemon)),
    ("pool", Load::Pairs(pool)),
];

/// `--threads N --work-us U --rest-us R --count C`: each thread computes, then rests.
fn compute(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let work = Duration::from_micros(options.whole("work-us", 1000)?);
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    let count = options.whole("count", u64::MAX)?;
    let threads: Vec<_> = (0..options.whole("threads", 1)?.max(1))
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..count {
                    // CPU time, not wall time, so that being held off costs operations.
                    burn_cpu(work);
                    figure.count();
                    if !rest.is_zero() {
                        std::thread::sleep(rest);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().ok();
    }
    Ok(())
}

/// Spends CPU time of this thread, however long that takes.
pub fn burn_cpu(time: Duration) {
    let begin = thread_cpu_time();
    while thread_cpu_time().saturating_sub(begin) < time {
        burn(Duration::from_micros(20));
    }
}

fn thread_cpu_time() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// `--period-ms P --threads N`: wakes up, does next to nothing, sleeps.
fn daemon(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let period = Duration::from_millis(options.whole("period-ms", 200)?);
    for _ in 1..options.whole("threads", 1)? {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(period * 3);
            }
        });
    }
    loop {
        figure.count();
        burn(Duration::from_micros(50));
        std::thread::sleep(period);
    }
}

/// `--threads N --jobs-per-second J --work-us U`: a pool whose threads mostly wait for work.
fn pool(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let work = Duration::from_micros(options.whole("work-us", 300)?);
    let gap = Duration::from_secs_f64(1.0 / options.number("jobs-per-second", 100.0)?.max(0.1));
    let queue = Arc::new((Mutex::new(0_u64), Condvar::new()));
    for _ in 0..options.whole("threads", 8)? {
        let queue = Arc::clone(&queue);
        std::thread::spawn(move || {
            loop {
                let held = queue.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let waited = queue.1.wait_while(held, |jobs| *jobs == 0);
                *waited.unwrap_or_else(std::sync::PoisonError::into_inner) -= 1;
                burn(work);
                figure.count();
            }
        });
    }
    loop {
        *queue.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
        queue.1.notify_one();
        std::thread::sleep(gap);
    }
}
