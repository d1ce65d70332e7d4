//! Workloads that start processes: a forking server, a job runner.
//!
//! The start of a process is the operation, and each is waited for: a child left behind would be a process
//! that the lab does not know.

use super::{Figure, Load, Options, disk};
use anyhow::{Result, bail};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[("forker", forker), ("job-runner", job_runner)];

/// `--image-mib M --rest-ms R --count C`: a server with an image of M MiB that forks a child per
/// request; the child ends at once.
fn forker(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let mut image = vec![0_u8; (options.whole("image-mib", 16)? << 20) as usize];
    // Small pages: a huge page has one entry to copy, and most real heaps have few of them.
    // SAFETY: advice on memory that this function owns; it changes no data.
    unsafe { libc::madvise(image.as_mut_ptr().cast(), image.len(), libc::MADV_NOHUGEPAGE) };
    for at in (0..image.len()).step_by(4096) {
        image[at] = 1;
    }
    let rest = Duration::from_millis(options.whole("rest-ms", 1)?);
    let count = options.whole("count", u64::MAX)?;
    while figure.done() < count {
        // SAFETY: the child does nothing but leave.
        let child = unsafe { libc::fork() };
        match child {
            -1 => bail!("fork: {}", std::io::Error::last_os_error()),
            // SAFETY: leaves without running destructors or flushing the parent's buffers.
            0 => unsafe { libc::_exit(0) },
            // SAFETY: waits for the child made above; no status is asked for.
            _ => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
        };
        figure.count();
        std::thread::sleep(rest);
    }
    std::hint::black_box(&image);
    Ok(())
}

/// `--program FILE --rest-ms R --count C`: starts a program by vfork and exec, and waits for its end;
/// the program's pages are dropped from the cache before each start, as on a host short of memory.
fn job_runner(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let program = options.text("program")?;
    let rest = Duration::from_millis(options.whole("rest-ms", 2)?);
    let count = options.whole("count", u64::MAX)?;
    while figure.done() < count {
        disk::forget(&File::open(program)?, 0, 0);
        let status = Command::new(program).stdin(Stdio::null()).status()?;
        if status.success() {
            figure.count();
        }
        std::thread::sleep(rest);
    }
    Ok(())
}
