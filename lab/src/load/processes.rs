//! One load as several processes: all alike and at a time, or one that begins another whenever one has ended.
//!
//! Must be called while the load has one thread. The processes share the figure, and end with the first of them. Must not: know what they do.

use super::Options;
use anyhow::{Result, bail};
use std::io::Error;

/// Goes on as `--processes N` processes (1); with `--life-ms L` as the children of this one, which live so long each and are followed by
/// others.
pub fn several(options: &Options) -> Result<()> {
    let (processes, life_ms) = (options.whole("processes", 1)?, options.whole("life-ms", 0)?);
    let begun = if life_ms == 0 { processes.saturating_sub(1) } else { processes };
    for _ in 0..begun {
        if begin(life_ms)? {
            return Ok(());
        }
    }
    if life_ms == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: waits for whichever of the children begun here; no status is asked for.
        if unsafe { libc::wait(std::ptr::null_mut()) } < 0 {
            bail!("wait: {}", Error::last_os_error());
        }
        if begin(life_ms)? {
            return Ok(());
        }
    }
}

/// Begins one; whether this is it.
fn begin(life_ms: u64) -> Result<bool> {
    // SAFETY: one thread so far; the child goes on as its parent does.
    match unsafe { libc::fork() } {
        -1 => bail!("fork: {}", Error::last_os_error()),
        0 => {
            // SAFETY: asks for a signal when the parent ends; no memory is passed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            end_after(life_ms);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Has the clock end this process after so long, if not for ever.
fn end_after(life_ms: u64) {
    let (seconds, micros) = (life_ms / 1000, life_ms % 1000 * 1000);
    let life = libc::timeval { tv_sec: seconds.cast_signed(), tv_usec: micros.cast_signed() };
    let once =
        libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: life };
    // SAFETY: reads one timer from this stack; what the old one was is not asked for. A life of 0 sets none.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) };
}
