//! The waits on one connection or pipe, and whose they are.
//!
//! Who was at which end of a pipe is kept with it, each process once: of a command both ends are closed by the end of the look, and two that hand a byte
//! to and fro make tens of thousands of waits, each of which asks for the other end. Must not: choose among them. Rejected: to look through the
//! waits for each of them (an answer that came seconds late).

use super::waits::process_of;
use crate::facts::ThreadRef;
use crate::model::Model;
use crate::waits::WaitClass;
use crate::waits::classify::is_write_call;
use crate::waits::timeline::WaitSpan;
use std::collections::HashSet;

/// Who is asked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::graph) enum WaitedEnd {
    /// Whoever waited there.
    Any,
    /// Of a pipe: who was at the end that is read.
    Read,
    /// Who was at the end that is written.
    Write,
}

/// Waits on one thing, in order of begin, and whose they are: of thousands on one connection each process once.
#[derive(Default)]
pub(super) struct Waited<'a> {
    /// They.
    pub waits: Vec<&'a WaitSpan>,
    /// Processes, in the order in which they came.
    all: Vec<ThreadRef>,
    pids: HashSet<u32>,
    readers: Vec<ThreadRef>,
    writers: Vec<ThreadRef>,
    at_ends: HashSet<(u32, bool)>,
}

impl<'a> Waited<'a> {
    /// Takes in a wait.
    pub(super) fn add(&mut self, model: &Model, wait: &'a WaitSpan) {
        if self.pids.insert(wait.thread.pid) {
            self.all.push(process_of(model, wait));
        }
        // Who had no CPU within such a call was there too: a writer whose reader always has room for it never waits there.
        let writes = match wait.class {
            WaitClass::PipeRead => Some(false),
            WaitClass::PipeWrite => Some(true),
            WaitClass::RunQueue => Some(is_write_call(&wait.place.syscall)),
            _ => None,
        };
        if let Some(writes) = writes.filter(|it| self.at_ends.insert((wait.thread.pid, *it))) {
            let end = if writes { &mut self.writers } else { &mut self.readers };
            end.push(process_of(model, wait));
        }
        self.waits.push(wait);
    }

    /// The processes at an end, in the order in which they came.
    pub(super) fn by(&self, end: WaitedEnd) -> &[ThreadRef] {
        match end {
            WaitedEnd::Any => &self.all,
            WaitedEnd::Read => &self.readers,
            WaitedEnd::Write => &self.writers,
        }
    }
}
