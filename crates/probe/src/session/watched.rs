//! The command of a look, if there is one: let go, waited for, and ended early.
//!
//! Must not: fork it (command.rs), or decide which signals end the look (stopping.rs).

use super::command::{Ended, Held};
use super::stopping::{Stopper, Stopping};
use crate::SourceError;
use crate::source::system;
use holdup_reason::facts::{Body, CommandEnd, Fact, Ns};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Watched {
    held: Option<Held>,
    ended: Option<Ended>,
    stopping: Stopping,
}

impl Watched {
    /// A command that was forked, or none.
    pub(super) fn new(held: Option<Held>) -> Self {
        Self { held, ..Self::default() }
    }

    /// Whether a command is looked at.
    pub(super) fn is_command(&self) -> bool {
        self.held.is_some()
    }

    /// Its process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.held.as_ref().map(|held| held.pid)
    }

    /// Lets it go.
    pub(super) fn release(&mut self) -> Result<(), SourceError> {
        match self.held.as_mut() {
            Some(held) => held.release().map_err(system("release the command")),
            None => Ok(()),
        }
    }

    /// Becomes readable when it has ended; none of none.
    pub(super) fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        self.held.as_ref().map(Held::end_fd)
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, SourceError> {
        match self.held.as_ref().and_then(Held::ended) {
            None => Ok(self.ended.is_some()),
            Some(Ok(ended)) => {
                self.ended = Some(ended);
                Ok(true)
            }
            Some(Err(error)) => Err(system("execute the command")(error)),
        }
    }

    /// Whether a signal ends the look at it.
    pub(super) fn is_stopped(&mut self, now_ns: Ns) -> bool {
        self.stopping.is_due(now_ns, self.held.as_ref())
    }

    /// The look is over: another signal ends holdup.
    pub(super) fn is_over(&self) {
        self.stopping.stopper.is_over.store(true, Ordering::Relaxed);
    }

    /// What signal handlers write to.
    pub(super) fn stopper(&self) -> Stopper {
        self.stopping.stopper.clone()
    }

    /// Its exit status as a shell reports it; if a signal ended the look before, that of one whom the signal killed.
    pub(super) fn exit_status(&self) -> Option<i32> {
        let killed = || self.stopping.signal().map(|signal| 128 + signal);
        self.ended.map(|ended| ended.exit_status).or_else(killed)
    }

    /// Its end, if it has ended.
    pub(super) fn end(&self) -> Option<Fact> {
        let (ended, held) = (self.ended?, self.held.as_ref()?);
        let body = Body::CommandEnd(CommandEnd {
            pid: held.pid,
            exit_status: ended.exit_status,
            signal: ended.signal,
        });
        Some(Fact { at_ns: ended.at_ns, body })
    }
}
