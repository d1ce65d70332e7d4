//! A hog of the CPU, and the burning that other loads do while they hold something.
//!
//! It owns no CPU settings: affinity, class and cgroup are given from outside, and it counts
//! nothing, for it is never a victim. The loads that compute for a figure are in `cpu.rs`.

use crate::load::now;
use crate::load::{Load, read};
use clap::Args;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[("hog", Load::Words(|words| read::<Hog>(words)?.run()))];

/// Burns CPU.
#[derive(Debug, Args)]
pub struct Hog {
    /// Threads that burn.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Every thread rests that long after each slice of `busy_us`.
    #[arg(long, default_value_t = 0)]
    rest_us: u64,
    /// Length of a slice.
    #[arg(long, default_value_t = 100_000)]
    busy_us: u64,
}

/// Computes until `until`; the result keeps the compiler from dropping the work.
pub fn burn(until: f64) -> u64 {
    let mut value = 0x9e37_79b9_7f4a_7c15_u64;
    while now() < until {
        for _ in 0..2_000 {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
    }
    std::hint::black_box(value)
}

impl Hog {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let threads: Vec<_> = (0..self.threads.max(1))
            .map(|_| {
                std::thread::spawn(move || {
                    loop {
                        burn(now() + self.busy_us as f64 / 1e6);
                        if self.rest_us > 0 {
                            std::thread::sleep(Duration::from_micros(self.rest_us));
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            let _: Result<(), _> = thread.join();
        }
        Ok(())
    }
}
