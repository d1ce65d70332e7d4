//! Children of the bench: started in a group of their own, noted in the journal, waited for with their
//! own account (wait4), and ended by the guard on whatever way out.
//!
//! Waiting happens in a thread, because the end must be timed to the microsecond while the main thread
//! ends at Ctrl-C and a time limit. Output goes to files of the scratch folder: a full pipe would stop the
//! child, and reading it would be work beside the load.

use anyhow::{Context, Result, bail};
use holdup_lab::procfs;
use holdup_lab::undo::{Guard, Guards, Journal, Undo};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// Where a run keeps its things, and whether it is to end.
pub struct Ctx {
    /// The journal of what was made.
    pub journal: Arc<Journal>,
    /// A tmpfs of its own: no disk is written to.
    pub scratch: PathBuf,
    /// The shipped binary.
    pub holdup: PathBuf,
    /// The folder of the bench's own programs.
    pub programs: PathBuf,
    /// Seconds that one load is to take.
    pub load_seconds: f64,
    /// Seconds of a slice of one.
    pub slice_seconds: f64,
    interrupted: Arc<AtomicBool>,
    numbers: AtomicU64,
}

impl Ctx {
    /// Catches signals, opens the journal and mounts the scratch folder; the guards take it back.
    pub fn open(holdup: PathBuf, seconds: (f64, f64)) -> Result<(Self, Guards)> {
        let (load_seconds, slice_seconds) = seconds;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in signal_hook::consts::TERM_SIGNALS {
            signal_hook::flag::register(*signal, Arc::clone(&interrupted))?;
        }
        let journal = Journal::open(Path::new(holdup_lab::undo::JOURNAL_DIR))?;
        let scratch = std::env::temp_dir().join(format!("holdup-bench-{}", std::process::id()));
        let mut guards = Guards::new();
        guards.push(journal.guard(Undo::Remove { path: scratch.clone() })?);
        fs::create_dir_all(&scratch)?;
        guards.push(journal.guard(Undo::Mount { path: scratch.clone() })?);
        let megabytes = (available_bytes() >> 21).min(6144);
        let size = format!("size={megabytes}m,mode=755");
        let place = scratch.to_string_lossy().into_owned();
        run(&["mount", "-t", "tmpfs", "-o", &size, "holdup-bench", &place])?;
        let programs = std::env::current_exe()?.parent().context("a folder")?.to_path_buf();
        let numbers = AtomicU64::new(0);
        let ctx = Self {
            journal,
            scratch,
            holdup,
            programs,
            load_seconds,
            slice_seconds,
            interrupted,
            numbers,
        };
        Ok((ctx, guards))
    }

    /// A path in the scratch folder that was not given out before.
    pub fn path(&self, name: &str) -> PathBuf {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.scratch.join(format!("{number}-{name}"))
    }

    /// The program that makes the bench's own loads.
    pub fn own_load(&self) -> String {
        self.programs.join("bench-load").to_string_lossy().into_owned()
    }

    /// Fails once somebody wants the bench to end.
    pub fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Sleeps, and fails as soon as somebody wants the bench to end.
    pub fn sleep(&self, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        loop {
            self.check_interrupted()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// The part of a load's work that takes as long as a slice.
    pub fn slice_of(&self, count: u64) -> u64 {
        (count as f64 * self.slice_seconds / self.load_seconds).round().max(1.0) as u64
    }

    /// Starts a child.
    pub fn start(&self, words: &[String]) -> Result<Running> {
        let (program, arguments) = words.split_first().context("no command")?;
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let (out, err) = (self.path(&format!("{name}.out")), self.path(&format!("{name}.err")));
        let child = Command::new(program)
            .args(arguments)
            .process_group(0)
            .current_dir(&self.scratch)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let pid = child.id().cast_signed();
        let guard = self.journal.guard(Undo::process(pid))?;
        Ok(Running { child, pid, guard, out, err, name: name.into_owned() })
    }

    /// Runs a child to its end.
    pub fn complete(&self, words: &[String], timeout: Duration) -> Result<Ended> {
        self.start(words)?.wait(self, timeout)
    }
}

/// A child that runs.
pub struct Running {
    child: Child,
    /// Its process id.
    pub pid: i32,
    guard: Guard,
    out: PathBuf,
    err: PathBuf,
    name: String,
}

/// What is known of a child that has ended.
pub struct Ended {
    /// Exit status, if it was not killed.
    pub status: Option<i32>,
    /// Its own CPU time and that of the children that it waited for.
    pub cpu_seconds: f64,
    /// Its own largest resident set. The kernel's account of it (ru_maxrss) begins with what the bench
    /// held when it started the child, so that where it says no more, a reading from /proc stands.
    pub rss_bytes: u64,
    /// The last such reading: its children are not in it.
    pub rss_read_bytes: u64,
    /// When it ended.
    pub at: Instant,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Running {
    /// Sends a signal to it alone.
    pub fn signal(&self, signal: Signal) {
        procfs::signal(self.pid, signal);
    }

    /// Waits until its own kernel objects (programs, perf events) stand, it has calmed down and catches the
    /// signal that will end it: the tool is attached and looks. There is no sign that all tools give; this
    /// needs none of their help.
    pub fn ready(&self, ctx: &Ctx) -> Result<()> {
        self.ready_after(ctx, Duration::from_millis(300))
    }

    /// The same, quiet for so long: shorter for a tool that attaches all at once.
    pub fn ready_after(&self, ctx: &Ctx, quiet_for: Duration) -> Result<()> {
        let began = Instant::now();
        let (mut seen, mut since) = (0, Instant::now());
        let mut ticks = procfs::cpu_ticks(self.pid);
        loop {
            ctx.sleep(Duration::from_millis(60))?;
            let now = kernel_objects(self.pid);
            let used = procfs::cpu_ticks(self.pid);
            let quiet = matches!((ticks, used), (Some(a), Some(b)) if b <= a + 2);
            if now != seen || !quiet {
                (seen, since) = (now, Instant::now());
            }
            ticks = used;
            let looks = seen > 0 && catches_interrupt(self.pid);
            if looks && since.elapsed() > quiet_for {
                return Ok(());
            }
            if matches!(procfs::state(self.pid), None | Some('Z')) {
                bail!("it ended at once: {}", first_words(&self.printed()));
            }
            // A flood starves whoever starts in it.
            if began.elapsed() > Duration::from_secs(30) {
                bail!("it was not ready after 30 s");
            }
        }
    }

    /// What it has written to standard output so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    fn printed(&self) -> String {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        format!("{} {}", read(&self.err), read(&self.out))
    }

    /// Asks it to end and waits.
    pub fn interrupt(self, ctx: &Ctx, timeout: Duration) -> Result<Ended> {
        self.signal(Signal::SIGINT);
        self.wait_watching(ctx, timeout, Duration::from_millis(10))
    }

    /// Waits for its end.
    pub fn wait(self, ctx: &Ctx, timeout: Duration) -> Result<Ended> {
        self.wait_watching(ctx, timeout, Duration::from_millis(50))
    }

    fn wait_watching(self, ctx: &Ctx, timeout: Duration, every: Duration) -> Result<Ended> {
        let pid = self.pid;
        // The guard ends it on every early way out of here.
        let Self { child, guard, out, err, name, .. } = self;
        let (reported, ended) = channel();
        std::thread::spawn(move || {
            let used = child.wait4();
            let _ = reported.send((used, Instant::now()));
        });
        let until = Instant::now() + timeout;
        let mut rss_read_bytes = 0;
        let (used, at) = loop {
            rss_read_bytes = rss_read_bytes.max(peak_bytes(pid));
            match ended.recv_timeout(every) {
                Ok(answer) => break answer,
                Err(RecvTimeoutError::Disconnected) => bail!("{name} was lost"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            ctx.check_interrupted()?;
            if Instant::now() > until {
                bail!("{name} had not ended after {} s", timeout.as_secs());
            }
        };
        let used = used.with_context(|| format!("wait for {name}"))?;
        guard.undo_now()?;
        let read = |path: &Path| -> String {
            let bytes = fs::read(path).unwrap_or_default();
            fs::remove_file(path).ok();
            String::from_utf8_lossy(&bytes[..bytes.len().min(4 << 20)]).into_owned()
        };
        let rss_bytes = match used.rusage.maxrss {
            reported if reported > peak_bytes(std::process::id().cast_signed()) => reported,
            _ => rss_read_bytes,
        };
        Ok(Ended {
            status: used.status.code(),
            rss_read_bytes,
            cpu_seconds: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
            rss_bytes,
            at,
            out: read(&out),
            err: read(&err),
        })
    }
}

impl Ended {
    /// Fails with its last words unless it ended well.
    pub fn well(self, what: &str) -> Result<Self> {
        if self.status == Some(0) {
            return Ok(self);
        }
        bail!("{what}: {}", first_words(&format!("{} {}", self.err, self.out)))
    }
}

/// A number of /proc/PID/status.
fn status_word(pid: i32, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next().map(String::from)
}

/// VmHWM; 0 once it is gone.
fn peak_bytes(pid: i32) -> u64 {
    status_word(pid, "VmHWM:").and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Has set a handler for SIGINT.
fn catches_interrupt(pid: i32) -> bool {
    let mask = status_word(pid, "SigCgt:").and_then(|word| u64::from_str_radix(&word, 16).ok());
    mask.is_some_and(|mask| mask & (1 << (Signal::SIGINT as i32 - 1)) != 0)
}

/// Descriptors that stand for something attached in the kernel.
fn kernel_objects(pid: i32) -> usize {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let attached = |path: PathBuf| {
        fs::read_link(path).is_ok_and(|target| {
            let target = target.to_string_lossy();
            ["bpf_link", "bpf-link", "raw-tracepoint", "raw_tracepoint", "[perf_event]"]
                .iter()
                .any(|kind| target.contains(kind))
        })
    };
    entries.filter_map(Result::ok).filter(|entry| attached(entry.path())).count()
}

/// The beginning of what a program said, on one line.
pub fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(160).collect()
}

/// Runs a short command that must succeed.
pub fn run(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", words[0]))?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), first_words(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

/// Words of a command.
pub fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_string()).collect()
}

/// MemAvailable.
pub fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_failure_are_short_and_harmless() {
        assert_eq!(first_words("a\x1b[31m\n  b\tc"), "a[31m b c");
        assert!(first_words(&"x".repeat(5000)).len() <= 160);
    }

    #[test]
    fn a_process_without_anything_attached_is_not_ready() {
        let own = std::process::id().cast_signed();
        assert_eq!(kernel_objects(own), 0);
        assert!(peak_bytes(own) > 0 && peak_bytes(i32::MAX) == 0);
        assert!(!catches_interrupt(i32::MAX));
    }
}
