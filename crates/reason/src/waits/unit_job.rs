//! Which job of a service manager whoever asks it waits for, which job that waits for in turn, and for which process.
//!
//! A manager is read some times a second at most, and each reading says since when a unit is in its state: so it stands for the time from then on, and
//! a little beyond the last one. A command says in its words of which units it awaits the jobs, and any other client waits for whatever it likes. A
//! job that waits for others is led to one of those that is being done: of several the one that has stood longest. Must not: say that a client waits
//! for what came after its wait, or ask whether a process is there (graph/ways/owed/unit_job.rs).

use crate::facts::{Ns, ThreadRef, UnitJob, UnitJobs};
use crate::model::Model;
use crate::programs::systemd::{self, AsksFor};
use crate::threshold::Threshold;

/// Why it is the process of a unit that is next.
pub const BECAUSE: &str = "the job of its unit waits for it, as the manager of units says";

/// What the last reading says is so for a while.
pub static READ_AGAIN_MAX: Threshold = Threshold::new(
    3000.0,
    "ms",
    "from the last reading of a manager's jobs to a wait for them: later nobody knows that they are the same",
    "the readings of a look are two seconds apart at most",
);

/// A job that somebody waits for.
#[derive(Debug, Clone, Copy)]
pub struct Awaited<'m> {
    /// All jobs of its manager at that time.
    pub all: &'m UnitJobs,
    /// The job that was asked for.
    pub asked: &'m UnitJob,
    /// The job that is being done: the same, or the one that it waits for.
    pub running: &'m UnitJob,
}

impl<'m> Awaited<'m> {
    /// The process that the job waits for, if it is one.
    pub fn process(&self) -> Option<&'m ThreadRef> {
        self.running.processes().find(|it| it.pid != self.all.manager_pid)
    }
}

/// The job that a client waits for within a time while a manager, or the bus before it, waits for events; without a client whichever job of the manager
/// has stood longest.
pub fn awaited<'m>(
    model: &'m Model,
    server: &ThreadRef,
    client: Option<&ThreadRef>,
    within: (Ns, Ns),
) -> Option<Awaited<'m>> {
    let managers = &model.stacks.unit_jobs;
    if managers.is_empty() {
        return None;
    }
    let words = client.map(|client| model.threads.words(client));
    let asks = words.as_ref().map_or(Some(AsksFor::Any), |words| systemd::asks_for(words))?;
    if managers.contains_key(&server.pid) {
        return of_manager(model, server.pid, &asks, within);
    }
    // What goes over a bus may be for anybody.
    let is_named = matches!(asks, AsksFor::Units(_)) && systemd::is_bus(&server.comm);
    let mut all = managers.keys().filter(|_| is_named);
    all.find_map(|manager| of_manager(model, *manager, &asks, within))
}

fn of_manager<'m>(
    model: &'m Model,
    manager: u32,
    asks: &AsksFor<'_>,
    (from, to): (Ns, Ns),
) -> Option<Awaited<'m>> {
    let readings = model.stacks.unit_jobs.get(&manager)?;
    let is_then = |awaited: &Awaited<'_>| awaited.running.since_ns.is_none_or(|ns| ns < to);
    let of = |(_, all): &'m (Ns, UnitJobs)| chosen(all, asks).filter(is_then);
    let later = readings.iter().filter(|(at_ns, _)| *at_ns >= from).find_map(of);
    let last = || {
        let last = readings.last()?;
        let is_fresh = last.0 < from && from - last.0 <= READ_AGAIN_MAX.ns();
        of(last).filter(|_| is_fresh)
    };
    later.or_else(last)
}

/// Of the jobs of one reading.
fn chosen<'m>(all: &'m UnitJobs, asks: &AsksFor<'_>) -> Option<Awaited<'m>> {
    let done = || all.jobs.iter().filter(|job| job.is_running);
    let only = || done().next().filter(|_| done().nth(1).is_none());
    let itself = |job| Awaited { all, asked: job, running: job };
    match asks {
        AsksFor::Any => oldest(done().map(itself)),
        AsksFor::Unnamed => only().map(itself),
        AsksFor::Units(units) => {
            let is_asked = |job: &&UnitJob| units.iter().any(|unit| job.is_of(unit));
            let awaited = |asked: &'m UnitJob| {
                // Where the manager does not say which job is in the way, it is the only one that is being done.
                let running = oldest(behind(all, asked).into_iter().map(itself));
                let running = running.map(|it| it.running);
                Some(Awaited { all, asked, running: running.or_else(only)? })
            };
            oldest(all.jobs.iter().filter(is_asked).filter_map(awaited))
        }
    }
}

fn oldest<'m>(all: impl Iterator<Item = Awaited<'m>>) -> Option<Awaited<'m>> {
    all.min_by_key(|it| (it.running.since_ns.unwrap_or(Ns::MAX), it.running.id))
}

/// The jobs that are being done and that a job waits for, by others in between as well; itself, if it is being done.
fn behind<'m>(all: &'m UnitJobs, job: &'m UnitJob) -> Vec<&'m UnitJob> {
    let mut reached = vec![job];
    let mut at = 0;
    while let Some(one) = reached.get(at).copied() {
        at += 1;
        for next in all.jobs.iter().filter(|it| !one.is_running && one.after.contains(&it.id)) {
            if !reached.iter().any(|known| known.id == next.id) {
                reached.push(next);
            }
        }
    }
    reached.retain(|job| job.is_running);
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, unit: &str, since_ns: Ns, after: &[u32]) -> UnitJob {
        UnitJob {
            id,
            unit: unit.into(),
            kind: "start".into(),
            is_running: after.is_empty(),
            after: after.to_vec(),
            since_ns: after.is_empty().then_some(since_ns),
            ..UnitJob::default()
        }
    }

    /// A waits for nothing, B for A, C for B, and D for nothing.
    fn all() -> UnitJobs {
        let jobs = vec![
            job(1, "a.service", 50, &[]),
            job(2, "b.service", 0, &[1]),
            job(3, "c.target", 0, &[2, 3, 9]),
            job(4, "d.service", 40, &[]),
        ];
        UnitJobs { manager_pid: 1, jobs, ..UnitJobs::default() }
    }

    fn found(asks: &AsksFor<'_>) -> Option<(u32, u32)> {
        let all = all();
        chosen(&all, asks).map(|it| (it.asked.id, it.running.id))
    }

    #[test]
    fn a_job_that_waits_is_led_to_the_one_that_is_being_done() {
        let of = |units: &[&'static str]| found(&AsksFor::Units(units.to_vec()));
        assert_eq!(of(&["a"]), Some((1, 1)));
        assert_eq!(of(&["b.service"]), Some((2, 1)));
        assert_eq!(of(&["c.target"]), Some((3, 1)));
        assert_eq!(of(&["a", "d"]), Some((4, 4)), "the one that has stood longest");
        assert_eq!(of(&["e"]), None, "it has no job");
        assert_eq!(found(&AsksFor::Any), Some((4, 4)));
        assert_eq!(found(&AsksFor::Unnamed), None, "of two nobody knows which");
    }

    #[test]
    fn a_circle_of_jobs_and_one_without_a_word_of_what_is_before_it_lead_to_the_only_one() {
        let mut all = all();
        all.jobs.pop();
        all.jobs[1].after = vec![3];
        all.jobs[2].after = vec![2];
        let asks = AsksFor::Units(vec!["b"]);
        let running = chosen(&all, &asks).map(|it| it.running.id);
        assert_eq!(running, Some(1));
        all.jobs[0].is_running = false;
        assert!(chosen(&all, &asks).is_none());
    }
}
