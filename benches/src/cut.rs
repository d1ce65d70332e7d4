//! A load in slices, so short that the machine's own moods (another guest, a cache, a clock) are the same in the
//! slices that are compared.
//!
//! A load that can run without end is started once; how far it has come is read before and after a slice, from the
//! kernel or from its server, so that neither its start nor its end is in the figure. One that cannot is run
//! again and again with little work, and its own figure taken, which leaves its start out. Edit together: slices.rs.

use crate::child::{Ctx, Running};
use crate::loads::Load;
use crate::slices::Slices;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// What an attached or ended looker leaves running in the kernel is over after it.
const SETTLE: Duration = Duration::from_millis(60);
/// Until an endless load has come to its pace.
const WARM: Duration = Duration::from_millis(400);

/// A load that is being cut; what runs ends when this is dropped.
pub struct Cut<'a> {
    load: &'a Load,
    running: Option<Running>,
}

impl<'a> Cut<'a> {
    /// Starts it, and lets it come to its pace: caches, CPU frequency, lazily started threads.
    pub fn begin(ctx: &Ctx, load: &'a Load) -> Result<Self> {
        let running = match &load.slices {
            Slices::Endless { words, .. } => Some(ctx.start(words)?),
            Slices::Runs(_) => None,
        };
        let cut = Self { load, running };
        ctx.sleep(WARM)?;
        cut.seconds(ctx, 2)?;
        Ok(cut)
    }

    /// Seconds for a unit of work, over some slices at once.
    pub fn seconds(&self, ctx: &Ctx, slices: u32) -> Result<f64> {
        ctx.sleep(SETTLE)?;
        match &self.load.slices {
            Slices::Runs(words) => {
                let runs = (0..slices).map(|_| self.load.run_words(ctx, words));
                Ok(runs.sum::<Result<f64>>()? / f64::from(slices))
            }
            Slices::Endless { done, .. } => {
                let pid = self.running.as_ref().map_or(0, |running| running.pid);
                let (before, since) = (done(pid)?, Instant::now());
                ctx.sleep(Duration::from_secs_f64(ctx.slice_seconds * f64::from(slices)))?;
                let (after, length) = (done(pid)?, since.elapsed());
                match after.checked_sub(before) {
                    Some(units) if units > 0 => Ok(length.as_secs_f64() / units as f64),
                    _ => bail!("{} came to a standstill", self.load.name),
                }
            }
        }
    }
}
