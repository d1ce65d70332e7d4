//! Which job of a manager whoever asks it waits for, which job that waits for in turn, and for which process.
//!
//! A manager is read some times a second at most, and each reading says since when a unit is in its state: so it stands for the time from then on, and
//! a little beyond the last one. A command says in its words of which units it awaits the jobs, and any other client waits for whatever it likes. A
//! job that waits for others is led to one of those that is being done: of several the one that has stood longest. Must not: say that a client waits
//! for what came after its wait, or ask whether a process is there (graph/ways/owed/unit_job.rs).

use super::WaitClass;
use super::span::WaitSpan;
use crate::facts::{Ns, ThreadRef, UnitJob, UnitJobs};
use crate::model::Model;
use crate::programs::systemd::{self, AsksFor};
use crate::threshold::Threshold;

/// Why it is the process of a unit that is next.
pub const BECAUSE: &str = "a job waits for it, as its manager says";

/// What the last reading says is so for a while.
pub static READ_AGAIN_MAX: Threshold = Threshold::new(
    3000.0,
    "ms",
    "from the last reading of a manager's jobs to a wait for them: later nobody knows that they are the same",
    "the readings of a look are two seconds apart at most",
);

/// The host's own manager.
const FIRST_PID: u32 = 1;

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
        self.running.processes.iter().find(|it| it.pid != self.all.manager_pid)
    }
}

/// Whether a wait is that of who waits until the manager of devices has nothing more to do. It watches a file that is there while there are events, so
/// nothing leads from it to the worker that has one.
pub fn settles(model: &Model, wait: &WaitSpan) -> bool {
    !model.stacks.unit_jobs.is_empty()
        && wait.class == WaitClass::Idle
        && systemd::settles(&model.threads.words(&wait.thread))
}

/// The job that a client waits for within a time while a manager, or the bus before it, waits for events; without a client whichever job of the manager
/// has stood longest. Of who waits for all events of devices the one that has.
pub fn awaited<'m>(
    model: &'m Model,
    server: &ThreadRef,
    client: Option<&ThreadRef>,
    (from, to): (Ns, Ns),
) -> Option<Awaited<'m>> {
    let readings = &model.stacks.unit_jobs;
    if readings.is_empty() {
        return None;
    }
    let is_of = |all: &UnitJobs| all.manager_pid == server.pid;
    let is_then = |awaited: &Awaited<'_>| awaited.running.since_ns.is_none_or(|ns| ns < to);
    let found = |asks: &AsksFor<'_>, is_of: &dyn Fn(&UnitJobs) -> bool| {
        let of = |(_, all): &'m (Ns, UnitJobs)| chosen(all, asks).filter(is_then);
        let own = || readings.iter().filter(|(_, all)| is_of(all));
        let is_fresh =
            |last: &&(Ns, UnitJobs)| last.0 < from && from - last.0 <= READ_AGAIN_MAX.ns();
        let last = || own().next_back().filter(is_fresh).and_then(of);
        own().filter(|(at_ns, _)| *at_ns >= from).find_map(of).or_else(last)
    };
    if !readings.iter().any(|(_, all)| is_of(all)) && systemd::settles(&model.threads.words(server))
    {
        let is_event = |all: &UnitJobs| all.jobs.iter().any(|job| job.kind == systemd::EVENT);
        return found(&AsksFor::Any, &is_event);
    }
    let words = client.map(|client| model.threads.words(client));
    let asks = words.as_ref().map_or(Some(AsksFor::Any), |words| systemd::asks_for(words))?;
    if readings.iter().any(|(_, all)| is_of(all)) {
        return found(&asks, &is_of);
    }
    // What goes over a bus may be for anybody.
    let is_named = matches!(asks, AsksFor::Units(_)) && systemd::is_bus(&server.comm);
    found(&asks, &|all| is_named && all.manager_pid == FIRST_PID)
}

/// Of the jobs of one reading.
fn chosen<'m>(all: &'m UnitJobs, asks: &AsksFor<'_>) -> Option<Awaited<'m>> {
    let done = || all.jobs.iter().filter(|job| job.is_running);
    // A unit without a name is given one of these.
    let unnamed = || done().filter(|job| job.unit().starts_with("run-"));
    let only = || unnamed().next().filter(|_| unnamed().nth(1).is_none());
    let itself = |job| Awaited { all, asked: job, running: job };
    match asks {
        AsksFor::Any => oldest(done().map(itself)),
        AsksFor::Unnamed => only().map(itself),
        AsksFor::Units(units) => {
            let is_asked = |job: &&UnitJob| units.iter().any(|unit| job.is_of(unit));
            let awaited = |asked: &'m UnitJob| {
                let running = oldest(behind(all, asked).into_iter().map(itself));
                Some(Awaited { all, asked, running: running?.running })
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
            names: vec![unit.into()],
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
        UnitJobs { manager_pid: 1, jobs }
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
    fn a_circle_of_jobs_ends_and_one_that_happens_to_run_is_not_what_is_waited_for() {
        let mut all = all();
        all.jobs.pop();
        all.jobs[1].after = vec![3];
        all.jobs[2].after = vec![2];
        assert!(chosen(&all, &AsksFor::Units(vec!["b"])).is_none());
        all.jobs[2].after = vec![2, 1];
        let running = chosen(&all, &AsksFor::Units(vec!["b"])).map(|it| it.running.id);
        assert_eq!(running, Some(1));
    }
}
