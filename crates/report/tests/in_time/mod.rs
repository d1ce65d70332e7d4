//! Children of tests, waited for up to a deadline: a disk that hangs fails a test with words, and does not hold up all others.
//!
//! What stands in an uninterruptible sleep cannot be killed: it is sent a signal, left behind with the thread that waits for it, and the
//! test goes on to fail. Must not: change what a command inherits or has for input and output (so std's own calls wait, in a thread).
//!
//! Rejected: a limit of the runner (it ends the whole run, and says of nobody what it waited for).

#![allow(dead_code, reason = "each file of tests uses a part of it")]

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// No child of a test takes a tenth of it, on a machine that is busy with others either.
const DEADLINE: Duration = Duration::from_secs(240);
/// Between two looks at whether a child has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// What std does with a command, with a deadline. The command is used up.
pub(crate) trait CommandInTime {
    /// [`Command::output`].
    fn output_in_time(&mut self) -> Result<Output>;
    /// [`Command::status`].
    fn status_in_time(&mut self) -> Result<ExitStatus>;
}

impl CommandInTime for Command {
    fn output_in_time(&mut self) -> Result<Output> {
        within(DEADLINE, self, Command::output)
    }

    fn status_in_time(&mut self) -> Result<ExitStatus> {
        within(DEADLINE, self, Command::status)
    }
}

/// What std does with a child, with a deadline.
pub(crate) trait ChildInTime: Sized {
    /// [`Child::wait`].
    fn wait_in_time(&mut self) -> Result<ExitStatus>;
    /// [`Child::wait_with_output`].
    fn wait_with_output_in_time(self) -> Result<Output>;
}

impl ChildInTime for Child {
    fn wait_in_time(&mut self) -> Result<ExitStatus> {
        let until = Instant::now() + DEADLINE;
        // As std does: a child that reads would never see the end of its input.
        drop(self.stdin.take());
        loop {
            match self.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() < until => std::thread::sleep(PAUSE),
                None => {
                    let late = late(DEADLINE, &[self.id()]);
                    let _ = self.kill();
                    return Err(late);
                }
            }
        }
    }

    fn wait_with_output_in_time(self) -> Result<Output> {
        let pid = self.id();
        let (done, answer) = channel();
        std::thread::spawn(move || done.send(self.wait_with_output()));
        answer.recv_timeout(DEADLINE).unwrap_or_else(|_| Err(given_up(DEADLINE, &[pid])))
    }
}

/// Does something with a command in a thread of its own, which is left behind if it takes too long.
fn within<T: Send + 'static>(
    most: Duration,
    command: &mut Command,
    work: fn(&mut Command) -> Result<T>,
) -> Result<T> {
    let mut command = std::mem::replace(command, Command::new("false"));
    let ((said, tid), (done, answer)) = (channel(), channel());
    std::thread::spawn(move || {
        let own = std::fs::read_link("/proc/thread-self").ok();
        let _ = said.send(own);
        let _ = done.send(work(&mut command));
    });
    match answer.recv_timeout(most) {
        Ok(done) => done,
        Err(RecvTimeoutError::Disconnected) => Err(Error::other("its thread has died")),
        Err(RecvTimeoutError::Timeout) => {
            let thread = tid.try_recv().ok().flatten().unwrap_or_default();
            let children = Path::new("/proc").join(thread).join("children");
            let children = std::fs::read_to_string(children).unwrap_or_default();
            let pids: Vec<u32> = children.split_whitespace().flat_map(str::parse).collect();
            Err(given_up(most, &pids))
        }
    }
}

/// Kills children that took too long, and says where they stood.
fn given_up(most: Duration, pids: &[u32]) -> Error {
    let late = late(most, pids);
    for pid in pids {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
    late
}

/// Where children stand that have not ended.
fn late(most: Duration, pids: &[u32]) -> Error {
    let of = |pid: &u32, file: &str| {
        let path = format!("/proc/{pid}/{file}");
        std::fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
    };
    let stand = |pid: &u32| {
        let stat = of(pid, "stat");
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start().get(..1);
        let state = state.unwrap_or("?").to_owned();
        format!("{} ({pid}) in state {state} at {}", of(pid, "comm"), of(pid, "wchan"))
    };
    let stand: Vec<String> = pids.iter().map(stand).collect();
    let why = format!("not ended within {} s: {}", most.as_secs(), stand.join(", "));
    Error::new(ErrorKind::TimedOut, why)
}

#[test]
fn a_child_that_never_ends_is_given_up_with_words() {
    let most = Duration::from_millis(200);
    let late = within(most, Command::new("sleep").arg("600"), Command::status);
    let late = late.map(|_| ()).map_err(|error| (error.kind(), error.to_string()));
    let Err((ErrorKind::TimedOut, why)) = late else { panic!("{late:?}") };
    assert!(why.contains("sleep (") && why.contains("in state S"), "{why}");
}
