//! A look that goes on: one window after another, each with its answer and, in memory, its recording.
//!
//! The next window is opened before the one that has ended is explained, so that what files say of it is as old as may be. What
//! happens meanwhile waits in the ring. Must not: write to a disk, or decide what is worth keeping.
//!
//! Rejected: a thread that explains (the answer of a window takes a hundredth of it; two CPUs at once is what a host in trouble has
//! least).

use crate::collect::{Collected, collect_with};
use crate::foresight::Foresight;
use holdup_probe::plan::Target;
use holdup_probe::recording::{Level, Writer};
use holdup_probe::session::Session;
use holdup_probe::{Source, SourceError};
use holdup_reason::answer::Report;
use holdup_reason::facts::{Body, Fact};
use holdup_reason::model::Model;
use std::io::{Error, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A recording of one window that would be larger is not held: a flood is not to take the memory of the windows before it.
const RECORDING_BYTES_MAX: usize = 8 << 20;

/// A window that was looked at.
pub struct Looked {
    /// Its answer.
    pub report: Report,
    /// Its facts.
    pub recording: Recorded,
    /// What the wall clock is ahead of CLOCK_BOOTTIME as it begins, nanoseconds: another one than before if somebody has set it.
    pub unix_offset_ns: i64,
}

/// The facts of a window, as a recording.
pub enum Recorded {
    /// Whole, in memory: replayed, it gives the window's answer.
    Whole(Vec<u8>),
    /// Not held, and why.
    Not(String),
}

/// See the head of the file.
pub struct Windows {
    /// None once it has ended.
    session: Option<Session>,
    target: Target,
    seconds: f64,
    least_wait_ns: u64,
    stop: Arc<AtomicBool>,
}

impl Windows {
    /// Begins the first window. Once `stop` is set the window that goes on is the last, and ends at once.
    pub fn start(target: Target, seconds: f64, stop: Arc<AtomicBool>) -> Result<Self, SourceError> {
        let session = Session::start_going_on(&target, seconds, Arc::clone(&stop))?;
        Ok(Self { session: Some(session), target, seconds, least_wait_ns: 0, stop })
    }

    /// The length of windows from now on, of the one that goes on too.
    pub fn set_seconds(&mut self, seconds: f64) {
        self.seconds = seconds;
        if let Some(session) = &mut self.session {
            session.set_seconds(seconds);
        }
    }

    /// The length of the window that goes on if somebody waits for CPUs, disks or memory in it.
    pub fn set_seconds_of_stalls(&mut self, seconds: f64) {
        if let Some(session) = &mut self.session {
            session.set_seconds_of_stalls(seconds);
        }
    }

    /// From now on waits shorter than this are only counted, where looking is to take less; 0: as few as there must be.
    pub fn set_least_wait(&mut self, least_ns: u64) {
        self.least_wait_ns = least_ns;
        if let Some(session) = &mut self.session {
            session.set_least_wait(least_ns);
        }
    }

    /// The window that ends next; none if the look has ended. `on_batch` is called about each tick.
    pub fn next_window(
        &mut self,
        foresight: &mut Foresight,
        on_batch: &mut dyn FnMut(),
    ) -> Result<Option<Looked>, SourceError> {
        let Some(mut session) = self.session.take() else { return Ok(None) };
        let bounded = Bounded::default();
        let writer = Writer::new(bounded, "a window in memory".into(), Level::Quick)?;
        let mut known = |model: &Model| {
            let at_ns = model.look.end_ns();
            let trends = foresight.take(model).into_iter();
            trends.map(|usage| Fact { at_ns, body: Body::Usage(usage) }).collect()
        };
        let Collected { mut model, recorded } =
            collect_with(&mut session as &mut dyn Source, Some(writer), on_batch, &mut known)?;
        if !self.stop.load(Ordering::Relaxed) {
            self.session = Some(session.next(&self.target, self.seconds)?);
        }
        let report = holdup_reason::explain_model(&mut model);
        let recording = match recorded {
            Some(Ok(Bounded(bytes))) => Recorded::Whole(bytes),
            Some(Err(error)) => Recorded::Not(error.to_string()),
            None => Recorded::Not("nothing was written".into()),
        };
        Ok(Some(Looked { report, recording, unix_offset_ns: model.look.unix_offset_ns() }))
    }
}

/// Bytes in memory, up to [`RECORDING_BYTES_MAX`].
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > RECORDING_BYTES_MAX {
            let why = format!("it takes more than {} MiB", RECORDING_BYTES_MAX >> 20);
            return Err(Error::new(ErrorKind::FileTooLarge, why));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_held_up_to_its_limit() {
        let mut bounded = Bounded::default();
        let half = vec![7; RECORDING_BYTES_MAX / 2 + 1];
        assert!(bounded.write_all(&half).is_ok());
        let refused = bounded.write_all(&half).expect_err("too large");
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
        assert_eq!(bounded.0.len(), half.len());
    }
}
