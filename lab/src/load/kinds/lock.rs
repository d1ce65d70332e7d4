//! Loads that hold and wait for locks, in Rust: file locks of every kind, and a mutex convoy.
//!
//! The mutex is std's: a futex word without an owner in it, so that only the waker tells who held
//! it. Its counterpart with an owner word is `lab/load/mutex.c`. Nothing here detects a deadlock.

use super::hog::burn;
use crate::load::{Figure, Switch, now};
use crate::load::{Load, read};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("convoy", Load::Words(|words| read::<Convoy>(words)?.run())),
    ("file-lock", Load::Words(|words| read::<FileLock>(words)?.run())),
];

/// What a keeper does while it holds a lock.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum While {
    /// Sleeps.
    Sleep,
    /// Computes.
    Compute,
    /// Writes a block and fsyncs it, again and again.
    Io,
}

impl While {
    /// Does so for `seconds`; `file` is needed for [`While::Io`].
    pub fn pass(self, seconds: f64, file: Option<&Path>) -> anyhow::Result<()> {
        match self {
            Self::Sleep => std::thread::sleep(Duration::from_secs_f64(seconds)),
            Self::Compute => {
                burn(now() + seconds);
            }
            Self::Io => {
                let path = file.context("--file is needed for I/O")?;
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                let until = now() + seconds;
                while now() < until {
                    file.write_all(&[b'x'; 4096])?;
                    file.sync_data()?;
                }
            }
        }
        Ok(())
    }
}

/// Threads that share one Rust mutex with a keeper which holds it for long.
#[derive(Debug, Args)]
pub struct Convoy {
    /// Workers, beside the keeper.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Holds the milliseconds that the keeper keeps the mutex each time; a tenth of one without it.
    #[arg(long)]
    switch: Option<PathBuf>,
    /// How long it leaves it alone between.
    #[arg(long, default_value_t = 10_000)]
    gap_us: u64,
    /// What it does meanwhile.
    #[arg(long, value_enum, default_value = "sleep")]
    meanwhile: While,
    /// File for I/O.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Name of the keeper's thread.
    #[arg(long, default_value = "keeper")]
    keeper: String,
    /// Workers pause that long between two turns.
    #[arg(long, default_value_t = 2_000)]
    pause_us: u64,
}

impl Convoy {
    /// Never returns, unless a thread fails.
    pub fn run(self) -> anyhow::Result<()> {
        let shared = Arc::new(Mutex::new(0_u64));
        for index in 0..self.threads.max(1) {
            let (shared, figure) = (Arc::clone(&shared), Figure::open()?);
            let pause = Duration::from_micros(self.pause_us);
            std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
                loop {
                    match shared.lock() {
                        Ok(mut value) => *value += 1,
                        Err(_) => return,
                    }
                    figure.count();
                    std::thread::sleep(pause);
                }
            })?;
        }
        let switch = Switch::from(self.switch.clone());
        let keeper = std::thread::Builder::new().name(self.keeper.clone()).spawn(
            move || -> anyhow::Result<()> {
                loop {
                    {
                        let _held = shared.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
                        match switch.milliseconds() {
                            Some(hold) => {
                                self.meanwhile.pass(hold.as_secs_f64(), self.file.as_deref())?;
                            }
                            None => std::thread::sleep(Duration::from_micros(100)),
                        }
                    }
                    std::thread::sleep(Duration::from_micros(self.gap_us));
                }
            },
        )?;
        match keeper.join() {
            Ok(ended) => ended,
            Err(_) => bail!("the keeper panicked"),
        }
    }
}

/// Kinds of file locks.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kind {
    /// flock(2).
    Flock,
    /// fcntl(2), owned by the process.
    Posix,
    /// fcntl(2), owned by the open file description.
    Ofd,
    /// fcntl(2) F_SETLEASE, a write lease.
    Lease,
}

/// Takes file locks and holds or waits for them.
#[derive(Debug, Args)]
pub struct FileLock {
    /// The file; it is created.
    path: PathBuf,
    /// A second file, locked while the first is held: for a deadlock of two processes.
    #[arg(long)]
    then: Option<PathBuf>,
    /// Wait that long between the two.
    #[arg(long, default_value_t = 300)]
    then_after_ms: u64,
    /// Kind of lock.
    #[arg(long, value_enum, default_value = "flock")]
    kind: Kind,
    /// Shared rather than exclusive.
    #[arg(long)]
    shared: bool,
    /// First byte and length of the range (fcntl kinds); length 0 reaches to the end.
    #[arg(long, default_value_t = 0)]
    start: i64,
    /// See `start`.
    #[arg(long, default_value_t = 0)]
    length: i64,
    /// How long each lock is held.
    #[arg(long, default_value_t = 3_600_000)]
    hold_ms: u64,
    /// Take it again, after that pause, for ever.
    #[arg(long)]
    again_ms: Option<u64>,
    /// What it does meanwhile.
    #[arg(long, value_enum, default_value = "sleep")]
    meanwhile: While,
}

impl FileLock {
    /// Returns when the lock was held and released, unless `again_ms` is given.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        loop {
            let first = self.lock(&self.path)?;
            let second = match &self.then {
                Some(path) => {
                    std::thread::sleep(Duration::from_millis(self.then_after_ms));
                    Some(self.lock(path)?)
                }
                None => None,
            };
            figure.count();
            self.meanwhile.pass(self.hold_ms as f64 / 1e3, None)?;
            drop((first, second));
            let Some(pause) = self.again_ms else { return Ok(()) };
            std::thread::sleep(Duration::from_millis(pause));
        }
    }

    fn lock(&self, path: &Path) -> anyhow::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| path.display().to_string())?;
        let fd = file.as_raw_fd();
        let access = if self.shared { libc::F_RDLCK } else { libc::F_WRLCK };
        // SAFETY: flock is plain data, for which all zeroes is a valid value.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = access as i16;
        range.l_whence = libc::SEEK_SET as i16;
        range.l_start = self.start;
        range.l_len = self.length;
        // SAFETY: `fd` is open and `range` outlives the call.
        let rc = unsafe {
            match self.kind {
                Kind::Flock => {
                    libc::flock(fd, if self.shared { libc::LOCK_SH } else { libc::LOCK_EX })
                }
                Kind::Posix => libc::fcntl(fd, libc::F_SETLKW, &range),
                Kind::Ofd => libc::fcntl(fd, libc::F_OFD_SETLKW, &range),
                Kind::Lease => {
                    // A lease that is broken sends SIGIO, which would end a process that ignores
                    // its duty; this one means to.
                    libc::signal(libc::SIGIO, libc::SIG_IGN);
                    // A write lease is refused while anybody else has the file open.
                    loop {
                        let rc = libc::fcntl(fd, libc::F_SETLEASE, access);
                        let error = std::io::Error::last_os_error().raw_os_error();
                        if rc == 0 || error != Some(libc::EAGAIN) {
                            break rc;
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        };
        if rc != 0 {
            bail!("lock {}: {}", path.display(), std::io::Error::last_os_error());
        }
        Ok(file)
    }
}
