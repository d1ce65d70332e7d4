//! Who asks for most of what a disk does while others wait for it: the journal, the weights and plain saturation each have
//! such a one, and differ in the way in which he is before the others.
//!
//! Use is no fault: whoever is mainly held up by himself is no neighbour, nor is who works for the victims. Where no process alone asks for
//! most, a job does: what measure/cpu_users.rs calls one (the equals of one process group, a shell with what it begins one after the other), or
//! the children of one process that have one name (fio gives each of its jobs a session of its own). Rejected: the group of processes (a
//! container has victims and neighbours).

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_users::Competitor;
use crate::measure::disk_view::{Asked, DiskView};
use crate::model::Model;
use crate::model::lifetimes::is_there_at_end;
use crate::rules::action::PROCESSES_MAX;
use crate::rules::engine::Loss;
use crate::threshold::Threshold;
use std::collections::BTreeMap;

/// His share of the work.
pub(super) static SHARE: Threshold = Threshold::new(
    0.6,
    "1",
    "one process, or one job, asks for at least this part of the disk's work before it is to blame",
    "chosen: clearly more than all others together",
);
/// What another one loses.
pub(super) static SUFFERS: Threshold = Threshold::new(
    0.1,
    "1",
    "somebody else waits for at least this part of the time, else the main user only waits for himself",
    "chosen: less is not noticed",
);

/// How much of that the kernel does for him.
pub(super) static WRITTEN_BACK: Threshold = Threshold::new(
    0.5,
    "1",
    "of what the main user asks for, the part that the kernel writes back for it, from which on it is the kernel's priority that counts",
    "chosen: most",
);

/// It begins everybody's services.
const INIT: u32 = 1;

/// Somebody who is not (mainly) a victim and asks for most.
pub(super) struct Neighbour<'m> {
    /// Who. Of a job the one that asks for most, or, where they come and go, who begins them.
    pub who: &'m ThreadRef,
    /// His share of the work.
    pub share: f64,
    /// Most of it is what the kernel writes back for him: his own I/O priority counts for nothing then.
    pub is_written_back: bool,
    /// The job, where no process that is there asks for so much alone.
    job: Option<Job<'m>>,
}

/// Processes that together ask for most.
struct Job<'m> {
    kind: Kind<'m>,
    /// Those that ask, most first.
    asks: Vec<Asked<'m>>,
}

/// What makes them one.
enum Kind<'m> {
    /// They compete for CPUs as one.
    Competitor(&'m Competitor),
    /// They are children of one process, which is part of it: it waits for them.
    ChildrenOf(u32),
}

impl Neighbour<'_> {
    /// Whether a process is part of it.
    pub(super) fn is_one(&self, pid: u32) -> bool {
        match &self.job {
            Some(job) => job.has(pid),
            None => pid == self.who.pid,
        }
    }

    /// Whether it is several processes.
    pub(super) fn is_several(&self) -> bool {
        self.job.is_some()
    }

    /// What it is called.
    pub(super) fn name(&self, model: &Model) -> String {
        let who = model.who(self.who);
        let Some(job) = &self.job else { return who };
        let name = |asks: &Asked<'_>| model.threads.process_name(asks.process.pid);
        let (first, many) = (name(&job.asks[0]), job.asks.len());
        let begins_them = job.asks.iter().all(|asks| asks.process.pid != self.who.pid);
        match (job.asks.iter().all(|asks| name(asks) == first), begins_them) {
            (true, true) => format!("{many} x {first} of {who}"),
            (true, false) => format!("{many} x {first}"),
            (false, true) => format!("{many} processes of {who}"),
            (false, false) => format!("{who} and {} more of its job", many - 1),
        }
    }

    /// Whom a way out acts on: those that are there as the look ends, of a job a limited number, and no shell at whose terminal somebody
    /// types. Of those that come and go whoever begins them: each is gone before a person has typed its number.
    pub(super) fn acted_on(&self, model: &Model) -> Vec<ThreadRef> {
        let all = || self.job.iter().flat_map(|job| &job.asks).map(|asks| asks.process);
        let stay = all().all(|it| is_there_at_end(model, it));
        let others = all().filter(|it| stay && it.pid != self.who.pid);
        let leads_terminal = self.is_several()
            && model.threads.identity(self.who).is_some_and(|known| {
                known.session == self.who.pid && known.foreground_group.is_some()
            });
        let who = (!leads_terminal).then_some(self.who);
        who.into_iter().chain(others).take(PROCESSES_MAX).cloned().collect()
    }
}

/// The neighbour of those who wait for a disk.
pub(super) fn neighbour<'m>(
    measures: &'m Measures<'m>,
    end: &End,
    view: &'m DiskView<'m>,
) -> Option<Neighbour<'m>> {
    let asked = view.asked();
    let most = asked.first()?;
    let is_most = |asked: f64| view.share(asked) >= SHARE.value && view.is_above_journal(asked);
    let is_written_back = |back: f64, all: f64| back / all.max(1.0) > WRITTEN_BACK.value;
    let alone = is_most(most.work()).then(|| Neighbour {
        who: most.process,
        share: view.share(most.work()),
        is_written_back: is_written_back(most.written_back, most.work()),
        job: None,
    });
    let of_job = |job: Job<'m>| {
        let (work, back) = job.sums();
        let who = job.who(measures).filter(|_| is_most(work))?;
        let (share, is_written_back) = (view.share(work), is_written_back(back, work));
        Some(Neighbour { who, share, is_written_back, job: Some(job) })
    };
    let together = || {
        let jobs = [greatest(jobs(measures, &asked)), greatest(siblings(measures.model, &asked))];
        jobs.into_iter().flatten().find_map(of_job)
    };
    let by = match alone {
        Some(alone) if is_there_at_end(measures.model, alone.who) => alone,
        // One that is gone may be one of many that a loop begins.
        gone => together().or(gone)?,
    };
    let suffers = SUFFERS.value * measures.wall_seconds();
    let others_suffer =
        end.victims.iter().any(|(other, (_, seconds))| !by.is_one(*other) && *seconds >= suffers);
    let serves = !by.is_one(end.links[0].who.pid)
        && end.links[1..].iter().any(|link| by.is_one(link.who.pid));
    (others_suffer && !serves).then_some(by)
}

fn greatest(jobs: Vec<Job<'_>>) -> Option<Job<'_>> {
    jobs.into_iter().max_by(|a, b| a.sums().0.total_cmp(&b.sums().0))
}

/// Those who ask, by the job of several processes that each is part of.
fn jobs<'m>(measures: &'m Measures<'m>, asked: &[Asked<'m>]) -> Vec<Job<'m>> {
    let mut jobs: Vec<Job<'m>> = Vec::new();
    for asks in asked {
        let pid = asks.process.pid;
        match jobs.iter_mut().find(|job| job.has(pid)) {
            Some(job) => job.asks.push(*asks),
            None => {
                let all = measures.cpu.job(pid).filter(|all| all.processes.len() > 1);
                jobs.extend(all.map(|all| Job { kind: Kind::Competitor(all), asks: vec![*asks] }));
            }
        }
    }
    jobs
}

/// The same by who began them, and by name.
fn siblings<'m>(model: &Model, asked: &[Asked<'m>]) -> Vec<Job<'m>> {
    let mut siblings: BTreeMap<(u32, String), Vec<Asked<'m>>> = BTreeMap::new();
    for asks in asked {
        let parent = model.threads.identity(asks.process).map(|known| known.parent_pid);
        if let Some(parent) = parent.filter(|parent| *parent > INIT) {
            let name = model.threads.process_name(asks.process.pid);
            siblings.entry((parent, name)).or_default().push(*asks);
        }
    }
    let several = siblings.into_iter().filter(|(_, asks)| asks.len() > 1);
    several.map(|((parent, _), asks)| Job { kind: Kind::ChildrenOf(parent), asks }).collect()
}

impl<'m> Job<'m> {
    fn has(&self, pid: u32) -> bool {
        match self.kind {
            Kind::Competitor(all) => all.processes.contains_key(&pid),
            Kind::ChildrenOf(parent) => {
                pid == parent || self.asks.iter().any(|asks| asks.process.pid == pid)
            }
        }
    }

    /// What they ask for, and what of it is written back for them.
    fn sums(&self) -> (f64, f64) {
        let work = self.asks.iter().map(Asked::work).sum();
        (work, self.asks.iter().map(|asks| asks.written_back).sum())
    }

    /// Whoever stands for them, and is there as the look ends: of those that were begun in the look who began them, if he is of their
    /// session. Who begins services and sessions makes no job of them.
    fn who(&self, measures: &'m Measures<'m>) -> Option<&'m ThreadRef> {
        let model = measures.model;
        let eldest = measures.ancestry.eldest(self.asks[0].process.pid);
        let begins = match self.kind {
            Kind::Competitor(all) => all.processes.get(&eldest).map(|used| &used.process),
            Kind::ChildrenOf(_) => None,
        };
        let asks = || self.asks.iter().map(|asks| asks.process);
        let session = |of: &ThreadRef| {
            model.threads.identity(of).map(|known| known.session).filter(|session| *session != 0)
        };
        let own = begins.and_then(session);
        let is_elsewhere = own.is_some_and(|own| asks().filter_map(session).any(|it| it != own));
        if eldest == INIT || is_elsewhere {
            return None;
        }
        begins.into_iter().chain(asks()).find(|it| is_there_at_end(model, it))
    }
}

/// The name of whoever else loses most.
pub(super) fn victim_beside(
    measures: &Measures<'_>,
    loss: &Loss<'_>,
    by: &Neighbour<'_>,
) -> String {
    let other = loss.victims.iter().find(|(victim, _)| !by.is_one(victim.pid));
    other.map_or_else(|| loss.victim.clone(), |(victim, _)| measures.subject(victim))
}
