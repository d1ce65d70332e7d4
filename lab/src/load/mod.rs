//! Workloads: what a server, a job or a daemon does, in miniature, counting what it gets done.
//!
//! One program of many kinds, so that it is built once; it is run under names that the seed draws.
//! A kind must know nothing of faults: the same words are run with and without one.
//! A new kind is a function in a file of its own and a line in [`all`].

pub mod cpu;
pub mod disk;
pub mod kernel;
pub mod links;
pub mod memory;
pub mod service;
pub mod slow;
pub mod spawn;

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A kind of workload.
pub type Load = fn(&Options) -> Result<()>;

/// The kinds of each file.
fn all() -> impl Iterator<Item = &'static (&'static str, Load)> {
    [
        cpu::LOADS,
        disk::LOADS,
        kernel::LOADS,
        links::LOADS,
        memory::LOADS,
        service::LOADS,
        slow::LOADS,
        spawn::LOADS,
    ]
    .into_iter()
    .flatten()
}

/// The kind of that name.
pub fn find(kind: &str) -> Option<Load> {
    all().find(|(name, _)| *name == kind).map(|(_, load)| *load)
}

/// All names.
pub fn names() -> Vec<&'static str> {
    all().map(|(name, _)| *name).collect()
}

/// There is a kind of that name, here or among [`crate::loads`].
pub fn knows(kind: &str) -> bool {
    find(kind).is_some() || crate::loads::knows(kind)
}

/// Runs `KIND [--key value]...`, or a kind of [`crate::loads`] with its own arguments.
pub fn run(words: &[String]) -> Result<()> {
    let (kind, rest) = words.split_first().context("which kind?")?;
    match find(kind) {
        Some(load) => load(&Options::read(rest)?),
        None => crate::loads::run(words),
    }
}

/// `--key value` pairs.
pub struct Options(BTreeMap<String, String>);

impl Options {
    fn read(words: &[String]) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for pair in words.chunks(2) {
            match pair {
                [key, value] if key.starts_with("--") => {
                    pairs.insert(key.trim_start_matches("--").into(), value.clone());
                }
                _ => bail!("{} is not --key value", pair.join(" ")),
            }
        }
        Ok(Self(pairs))
    }

    /// A word that must be given.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.0.get(key).map(String::as_str).with_context(|| format!("--{key} is missing"))
    }

    /// A number, or another if it is not given.
    pub fn number(&self, key: &str, otherwise: f64) -> Result<f64> {
        match self.0.get(key) {
            Some(text) => text.parse().with_context(|| format!("--{key} {text} is not a number")),
            None => Ok(otherwise),
        }
    }

    /// A whole number, or another if it is not given.
    pub fn whole(&self, key: &str, otherwise: u64) -> Result<u64> {
        Ok(self.number(key, otherwise as f64)?.max(0.0) as u64)
    }
}

/// The counter that the lab reads; see `workload.rs` for the file.
#[derive(Clone, Copy)]
pub struct Figure(&'static AtomicU64);

impl Figure {
    /// Maps the file that the environment names; without one it counts for nobody.
    pub fn open() -> Result<Self> {
        let Some(path) = std::env::var_os("FIGURE") else {
            return Ok(Self(Box::leak(Box::new(AtomicU64::new(0)))));
        };
        let mut head = crate::workload::MAGIC.to_vec();
        head.extend([0; 8]);
        std::fs::write(&path, &head)?;
        let file = std::fs::File::options().read(true).write(true).open(&path)?;
        // SAFETY: a new shared mapping of the 16 bytes just written, never unmapped; the counter
        // is at offset 8 and so aligned, and every process that maps it uses it atomically.
        let counter = unsafe {
            use std::os::fd::AsRawFd;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let map = libc::mmap(
                std::ptr::null_mut(),
                16,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            if map == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error()).context("map the figure");
            }
            &*map.cast::<u8>().add(8).cast::<AtomicU64>()
        };
        Ok(Self(counter))
    }

    /// One more operation done.
    pub fn count(self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Operations done.
    pub fn done(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Spends CPU time in user mode.
pub fn burn(time: Duration) {
    let begin = Instant::now();
    let mut value = 1_u64;
    while begin.elapsed() < time {
        for _ in 0..500 {
            value =
                std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
