//! Loads that start processes: a forking server, a job runner.
//!
//! The start of a process is the operation, and each is waited for: a child left behind would be a process
//! that the lab does not know.

use crate::load::{Figure, Load, Options};
use anyhow::{Result, bail};
use std::ffi::{CStr, CString};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] =
    &[("forker", Load::Pairs(forker)), ("job-runner", Load::Pairs(job_runner))];

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

/// `--program FILE --switch FILE --rest-ms R --count C`: starts a program by vfork and exec, and waits for its end.
/// While the switch is there, each child closes as many descriptors first as it holds, open or not: what a program does
/// that wants none to be left to its children, and whose limit has grown since.
fn job_runner(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let program = CString::new(options.text("program")?)?;
    let switch = options.text("switch")?;
    let rest = Duration::from_millis(options.whole("rest-ms", 2)?);
    let count = options.whole("count", u64::MAX)?;
    let mut actions = Actions::new()?;
    while figure.done() < count {
        let closes = std::fs::read_to_string(switch).unwrap_or_default();
        actions.closing(closes.trim().parse().unwrap_or(0))?;
        if actions.run(&program)? {
            figure.count();
        }
        std::thread::sleep(rest);
    }
    Ok(())
}

/// What posix_spawn's child does before it executes its program; glibc starts it as vfork does.
struct Actions {
    closes: usize,
    actions: libc::posix_spawn_file_actions_t,
}

impl Actions {
    fn new() -> Result<Self> {
        let mut actions = std::mem::MaybeUninit::uninit();
        // SAFETY: initialises what it is given, which is read only if it did.
        match unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) } {
            // SAFETY: initialised by the call.
            0 => Ok(Self { closes: 0, actions: unsafe { actions.assume_init() } }),
            error => bail!("posix_spawn: {}", std::io::Error::from_raw_os_error(error)),
        }
    }

    /// As many descriptors are closed. The numbers repeat, so that they stay below the limit; one that is not open
    /// costs the call all the same.
    fn closing(&mut self, closes: usize) -> Result<()> {
        if closes < self.closes {
            *self = Self::new()?;
        }
        for at in self.closes..closes {
            let fd = 3 + (at % 1000) as libc::c_int;
            // SAFETY: initialised in `new`, and nobody else has it.
            match unsafe { libc::posix_spawn_file_actions_addclose(&raw mut self.actions, fd) } {
                0 => self.closes = at + 1,
                error => bail!("addclose {fd}: {}", std::io::Error::from_raw_os_error(error)),
            }
        }
        Ok(())
    }

    /// Starts a program without arguments, and waits for it; whether it went well.
    fn run(&self, program: &CStr) -> Result<bool> {
        let (mut child, mut status) = (0, 0);
        let arguments = [program.as_ptr().cast_mut(), std::ptr::null_mut()];
        let environment = [std::ptr::null_mut()];
        // SAFETY: all pointers are to what outlives the call, and both lists end in a null.
        let error = unsafe {
            let (actions, attributes) = (&raw const self.actions, std::ptr::null());
            let (words, variables) = (arguments.as_ptr(), environment.as_ptr());
            libc::posix_spawn(
                &raw mut child,
                program.as_ptr(),
                actions,
                attributes,
                words,
                variables,
            )
        };
        if error != 0 {
            bail!("posix_spawn: {}", std::io::Error::from_raw_os_error(error));
        }
        // SAFETY: waits for the child made above.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        Ok(ended == child && status == 0)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, and not used again. An error would only leave memory behind.
        let _: libc::c_int =
            unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.actions) };
    }
}
