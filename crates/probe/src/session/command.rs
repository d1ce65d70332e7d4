//! The command of `run`: forked and held before its exec until the look has begun.
//!
//! Its input, output and environment are the caller's, untouched. A thread of its own spawns it and
//! waits for it, because std's spawn returns only after the exec. Rejected: ptrace (it changes what is
//! looked at), and starting first and attaching later (the begin would be missing).

use crate::system::own::priority;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

/// A program by the last part of its path, as a thread may be called.
fn called(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program);
    name.to_string_lossy().replace('\0', "")
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// As a shell tells it: 128 + signal if it was killed.
    pub exit_status: i32,
    /// The signal that killed it, or 0.
    pub signal: i32,
    /// CLOCK_MONOTONIC, when its end was noticed.
    pub at_ns: u64,
}

/// A command that waits for its release, or runs, or has ended.
pub(super) struct Held {
    /// Its process.
    pub pid: u32,
    release: Option<std::fs::File>,
    ended: Arc<Mutex<Option<Result<Ended, std::io::Error>>>>,
    end_notice: std::fs::File,
}

fn pipe() -> std::io::Result<(std::fs::File, std::fs::File)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((reader.into(), writer.into()))
}

impl Held {
    /// Forks; the child waits before its exec.
    pub(super) fn fork(words: &[OsString]) -> std::io::Result<Self> {
        let (mut pid_reader, pid_writer) = pipe()?;
        let (release_reader, release) = pipe()?;
        let (end_notice, end_writer) = pipe()?;
        let ended = Arc::new(Mutex::new(None));
        let result = Arc::clone(&ended);
        let mut command = std::process::Command::new(&words[0]);
        command.args(&words[1..]);
        // SAFETY: between fork and exec only async-signal-safe calls are made: getpid, write, read.
        unsafe {
            command.pre_exec(move || {
                let pid = rustix::process::getpid().as_raw_pid().to_ne_bytes();
                rustix::io::write(&pid_writer, &pid)?;
                // The end of the pipe without a byte means that the look failed: do not run.
                match rustix::io::read(&release_reader, &mut [0_u8])? {
                    1 => Ok(()),
                    _ => Err(Errno::CANCELED.into()),
                }
            });
        }
        // What is forked has this name until it executes: a reading of /proc may see no other.
        std::thread::Builder::new().name(called(&words[0])).spawn(move || {
            let spawned = command.spawn();
            // And with it our ends of its pipes.
            drop(command);
            // From here on nothing is started by it any more, and it is to notice the end at once.
            priority::follow();
            let ending = spawned.and_then(|mut child| child.wait());
            let ending = ending.map(|status| ended_as(status, crate::system::clock::now()));
            if let Ok(mut slot) = result.lock() {
                *slot = Some(ending);
            }
            drop(end_writer);
        })?;
        let mut pid = [0u8; 4];
        if pid_reader.read_exact(&mut pid).is_err() {
            let error = ended.lock().ok().and_then(|mut slot| slot.take());
            return Err(match error {
                Some(Err(error)) => error,
                _ => std::io::Error::other("the command could not be forked"),
            });
        }
        let pid = u32::from_ne_bytes(pid);
        Ok(Self { pid, release: Some(release), ended, end_notice })
    }

    /// Lets it exec.
    pub(super) fn release(&mut self) -> std::io::Result<()> {
        match self.release.take() {
            Some(mut release) => release.write_all(&[1]),
            None => Ok(()),
        }
    }

    /// How it ended, or why it could not be executed; none while it runs.
    pub(super) fn ended(&self) -> Option<Result<Ended, std::io::Error>> {
        let mut slot = self.ended.lock().ok()?;
        match slot.as_mut() {
            Some(Ok(ended)) => Some(Ok(*ended)),
            Some(Err(_)) => slot.take(),
            None => None,
        }
    }

    /// Sends it a signal, if it has not ended.
    pub(super) fn send(&self, signal: i32) {
        let has_ended = self.ended.lock().is_ok_and(|slot| slot.is_some());
        let whom = Pid::from_raw(self.pid.cast_signed()).filter(|_| !has_ended);
        if let (Some(pid), Some(signal)) = (whom, Signal::from_named_raw(signal)) {
            // The number is the command's: it is given anew only after all others were.
            let _ = kill_process(pid, signal);
        }
    }

    /// Becomes readable (end of file) when it has ended.
    pub(super) fn end_fd(&self) -> BorrowedFd<'_> {
        self.end_notice.as_fd()
    }
}

fn ended_as(status: ExitStatus, at_ns: u64) -> Ended {
    let signal = status.signal().unwrap_or(0);
    Ended { exit_status: status.code().unwrap_or(128 + signal), signal, at_ns }
}
