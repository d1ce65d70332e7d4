//! The kernel programs as a source: attached as the last thing of the opening, or left attached by the window before, drained at
//! each tick, added up at the end.
//!
//! The session empties their ring (also in the midst of a tick, when it fills up) and moves the thresholds; what was decoded is
//! handed over here. Must not: load them (kernel/load.rs), or report sums of what is not over.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::decode::ThreadRecord;
use crate::kernel::After;
use crate::kernel::load::{Begin, begin, go_on};
use crate::system::clock::{ClockId, clock_ns, now};
use holdup_reason::facts::*;
use std::collections::BTreeMap;

/// Threads of one process that rest and are still looked at one by one.
const RESTING_MAX: u32 = 16;

/// See the head of the file.
pub(super) struct Events;

impl Reader for Events {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        look.window.begin_ns = opening.boundary_ns.unwrap_or_else(now);
        let Some(programs) = look.programs.as_mut() else { return Ok(Self) };
        if let Some(boundary_ns) = opening.boundary_ns {
            go_on(programs, opening.settings.mounts.clone(), boundary_ns);
        } else {
            let parameters = Begin {
                mounts: opening.settings.mounts.clone(),
                hz: opening.hz,
                asked_about: look.scope.process,
                command: opening.command,
                thresholds: opening.thresholds,
            };
            let names = std::mem::take(&mut opening.programs);
            begin(programs, &names, parameters)?;
        }
        programs.refused().iter().cloned().map(Body::Blind).for_each(|body| opening.put(body));
        Ok(Self)
    }

    fn drain(&mut self, look: &mut Look, facts: &mut Vec<Fact>) {
        if let Some(programs) = &look.programs {
            // With its room: a burst does not come with each tick.
            facts.append(&mut std::mem::take(&mut programs.inbox.borrow_mut().facts));
        }
    }

    /// Every thread once more.
    fn end(&mut self, look: &mut Look) -> Result<(), SourceError> {
        let Look { programs: Some(programs), last, identities, window, goes_on, .. } = look else {
            return Ok(());
        };
        let goes_on = *goes_on;
        let mut resting = Resting { begin_ns: window.begin_ns, by_process: BTreeMap::new() };
        let walk_begin_ns = clock_ns(ClockId::ThreadCPUTime);
        let of_thread = |at_ns, record: ThreadRecord| {
            if record.time.run_ns > 0 || record.blocked.is_none() {
                identities.want(record.time.thread.pid);
            }
            if let Some(blocked) = record.blocked {
                if !blocked.kernel {
                    identities.want(resting.identity(&blocked));
                }
                last.waits.push(Fact { at_ns, body: Body::Blocked(blocked) });
            }
            last.stretches.extend(record.ran.map(|ran| (at_ns, ran)));
            last.reported.insert((record.time.thread.tid, record.time.thread.start_ns), at_ns);
            last.times.push(Fact { at_ns, body: Body::ThreadTime(record.time) });
        };
        match goes_on {
            true => programs.boundary(of_thread)?,
            false => programs.threads(false, of_thread)?,
        }
        last.walk_ns = clock_ns(ClockId::ThreadCPUTime).saturating_sub(walk_begin_ns);
        // What they add up goes on.
        let after = if goes_on { After::IsCleared } else { After::Stays };
        (last.points, last.sums) = programs.added_up(after);
        last.lost = programs.lost();
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        for body in std::mem::take(&mut look.last.sums) {
            users(&body).into_iter().for_each(|pid| look.identities.want(pid));
            facts.push(Fact { at_ns, body });
        }
        let lost = std::mem::take(&mut look.last.lost);
        facts.extend(lost.into_iter().map(|lost| Fact { at_ns, body: Body::Lost(lost) }));
        Ok(())
    }
}

/// Whom a sum names, and so has to be known.
fn users(body: &Body) -> Vec<u32> {
    match body {
        Body::DiskUse(used) => vec![used.process.pid],
        Body::Dirtied(dirtied) => vec![dirtied.process.pid],
        Body::CacheFill(fill) if fill.evicted_by != 0 => vec![fill.process.pid, fill.evicted_by],
        _ => Vec::new(),
    }
}

/// Pools of hundreds of threads that sleep all the time: for most of them their process speaks.
struct Resting {
    begin_ns: Ns,
    by_process: BTreeMap<u32, u32>,
}

impl Resting {
    /// Whose identity to read for a standing wait.
    fn identity(&mut self, blocked: &Blocked) -> u32 {
        if blocked.since_ns > self.begin_ns || blocked.place.state != WaitState::Sleep {
            return blocked.thread.tid;
        }
        let count = self.by_process.entry(blocked.thread.pid).or_default();
        *count += 1;
        if *count > RESTING_MAX { blocked.thread.pid } else { blocked.thread.tid }
    }
}
