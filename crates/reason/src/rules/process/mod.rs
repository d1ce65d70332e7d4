//! What the process cases share: who stands still, who waits for him, and what a holder does meanwhile.
//!
//! A process that stands still (stopped, traced, frozen) is no fault by itself: shells stop jobs, debuggers hold
//! programs, containers are paused on purpose. It becomes one when others wait for it, or when it is what was
//! asked about. So its own standing time is kept apart from the waiting of others, and only the latter weighs.
//!
//! Must not: name codes; each case does.

pub(crate) mod crypto_bound;
pub(crate) mod fork_cost;
pub(crate) mod frozen;
pub(crate) mod pipe_peer;
pub(crate) mod small_io;
pub(crate) mod socket_peer;
pub(crate) mod stopped;
pub(crate) mod timezone_stat;
pub(crate) mod traced;
pub(crate) mod tty_blocked;
pub(crate) mod vfork_exec;

use crate::answer::report::{Evidence, Finding, Impact, Severity};
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::rules::old::words;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// Something that stands still, with those who wait for it.
pub struct Stalled<'a> {
    /// Its own waits and those of others together.
    pub end: &'a End,
    /// The waits of others alone.
    pub others: End,
    /// The processes that stand still.
    pub own: BTreeSet<u32>,
    /// It is what was asked about.
    pub targeted: bool,
}

impl Stalled<'_> {
    /// Somebody else waits for it, or it is the target.
    pub fn matters(&self) -> bool {
        self.targeted || !self.others.victims.is_empty()
    }

    /// The one that stands still and is waited for, else the first that stands still.
    pub fn process(&self, measures: &Measures<'_>) -> Option<ThreadRef> {
        let root = self.end.links.last().map(|link| link.who.pid);
        let pid = root.filter(|pid| self.own.contains(pid)).or(self.own.first().copied())?;
        Some(main_thread(measures, pid))
    }

    /// How long it has stood still itself, whatever the others' waits say.
    pub fn seconds(&self, measures: &Measures<'_>) -> f64 {
        let waits = measures.waits();
        waits
            .filter(|w| w.class == self.end.class && w.object == self.end.object)
            .map(|w| w.end_ns.saturating_sub(w.begin_ns) as f64 / 1e9)
            .fold(0.0, f64::max)
    }

    /// How many others waited for it, and how long, as a sentence.
    pub fn who_waited(&self, measures: &Measures<'_>) -> String {
        match self.others.victims.len() {
            0 => "Nobody was seen to wait for it.".into(),
            n => format!(
                "{} waited {} for it.",
                words::count(n, "process", "processes"),
                words::of_window(self.others.seconds, measures.wall_seconds())
            ),
        }
    }

    /// Weighs a finding by those who wait: none, a note; somebody, or the target, a warning or worse.
    pub fn weigh(&self, measures: &Measures<'_>, finding: &mut Finding) {
        if !self.matters() {
            finding.severity = Severity::Note;
            finding.impact = Impact::default();
            finding.victims.clear();
            finding.chain.clear();
            return;
        }
        let weighed = if self.others.victims.is_empty() { self.end } else { &self.others };
        let rate = measures.impact(weighed).wait_seconds_per_second;
        let mut severity = measures.severity(weighed);
        if self.others.victims.is_empty()
            && severity == Severity::Critical
            && !measures.is_command()
        {
            // It was asked about, and stands still, but nobody is kept waiting by it.
            severity = Severity::Warning;
        }
        finding.severity = if rate >= 0.05 { severity.max(Severity::Warning) } else { severity };
    }

    /// What the impact, victims and chain are taken from.
    pub fn weighed(&self) -> &End {
        if self.others.victims.is_empty() { self.end } else { &self.others }
    }
}

/// A process by the name of its main thread.
pub fn main_thread(measures: &Measures<'_>, pid: u32) -> ThreadRef {
    measures.model.thread_ref(pid)
}

/// Everything that stands still for one reason.
pub fn stalled<'a>(measures: &'a Measures<'a>, class: WaitClass) -> Vec<Stalled<'a>> {
    measures.class(class).map(|end| one(measures, end)).collect()
}

fn one<'a>(measures: &'a Measures<'a>, end: &'a End) -> Stalled<'a> {
    let own: BTreeSet<u32> = measures
        .waits()
        .filter(|w| w.class == end.class && w.object == end.object)
        .map(|w| w.thread.pid)
        .collect();
    let targeted = measures.is_command() || is_whole_target(measures, &own);
    Stalled { others: end.of_victims(|pid| !own.contains(&pid)), end, own, targeted }
}

/// All of the process or container that was asked about stands still.
fn is_whole_target(measures: &Measures<'_>, own: &BTreeSet<u32>) -> bool {
    let model = measures.model;
    let Some(target) = &model.target else { return false };
    match target.kind {
        TargetKind::Process => own.contains(&target.pid),
        TargetKind::Container => {
            let times = model.times.iter().filter(|time| model.in_target(&time.thread));
            let inside: BTreeSet<u32> = times.map(|time| time.thread.pid).collect();
            !inside.is_empty() && inside.is_subset(own)
        }
        TargetKind::Host | TargetKind::Command => false,
    }
}

/// A process that stands still is told already as the holder of what others wait for (a pipe, a lock).
pub fn is_told_as_holder(measures: &Measures<'_>, pid: u32) -> bool {
    measures.graph.ends.iter().any(|end| {
        end.class.is_held()
            && end.holders.contains_key(&pid)
            && matches!(end.holder_mostly(), Some(WaitClass::Stopped | WaitClass::Traced))
    })
}

/// What a holder does while others wait for it.
pub struct Meanwhile {
    /// As a verb: `is stopped`, `sleeps`.
    pub does: &'static str,
    /// It is at work (on a CPU, ready for one, or in waits too short to be told) more than half of the time.
    pub at_work: bool,
    /// Share of the time that it does what `does` says.
    pub share: f64,
}

/// The command that ends some processes. One that is number 1 of its own PID namespace hears no signal that it
/// does not ask for, but SIGKILL (pid_namespaces(7)).
pub fn end(model: &Model, pids: &[u32]) -> String {
    let is_init = |pid: &u32| {
        *pid != 1 && model.threads.get(pid).is_some_and(|thread| thread.inner_pid == Some(1))
    };
    let how = if pids.iter().any(is_init) { "kill -KILL" } else { "kill" };
    let words: Vec<String> = pids.iter().map(u32::to_string).collect();
    format!("{how} {}", words.join(" "))
}

/// What the holders of a cause mostly do.
pub fn meanwhile(end: &End) -> Meanwhile {
    let total: f64 = end.holder_doing.values().sum();
    let mostly = end.holder_mostly().unwrap_or(WaitClass::Unseen);
    let of = |class: WaitClass| end.holder_doing.get(&class).copied().unwrap_or(0.0);
    let work: f64 =
        [WaitClass::Running, WaitClass::Unseen, WaitClass::RunQueue, WaitClass::CpuQuota]
            .into_iter()
            .map(of)
            .sum();
    let at_work = total > 0.0 && work >= 0.5 * total;
    let does = match mostly {
        _ if at_work => "is at work",
        WaitClass::Stopped => "is stopped by a signal",
        WaitClass::Traced => "is held by a tracer",
        WaitClass::FrozenCgroup => "is frozen",
        WaitClass::Timer => "sleeps",
        WaitClass::Idle => "waits for other events",
        WaitClass::Child => "waits for a child",
        WaitClass::FutexWait | WaitClass::FutexLock => "waits for another thread",
        WaitClass::Disk | WaitClass::PageFault => "waits for a disk",
        _ => "waits itself",
    };
    let share = if total <= 0.0 {
        0.0
    } else if at_work {
        work / total
    } else {
        of(mostly) / total
    };
    Meanwhile { does, at_work, share }
}

/// The three figures that every wait has.
pub fn wait_evidence(end: &End, what: &str) -> Vec<Evidence> {
    let source = "sched_switch and the task iterator";
    vec![
        Evidence::new(format!("time waited for {what}"), end.seconds, "s", source),
        Evidence::new("waits", end.count as f64, "1", source),
        Evidence::new(
            "longest wait, its time before the look included",
            end.longest_seconds,
            "s",
            source,
        ),
    ]
}

/// Names of processes: `a 1, b 2 and 3 more`.
pub fn list(measures: &Measures<'_>, pids: &BTreeSet<u32>) -> String {
    let shown: Vec<String> =
        pids.iter().take(3).map(|pid| words::who(&main_thread(measures, *pid))).collect();
    match pids.len().saturating_sub(3) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] = &[
    &crypto_bound::RULE,
    &fork_cost::RULE,
    &frozen::RULE,
    &pipe_peer::RULE,
    &small_io::RULE,
    &socket_peer::RULE,
    &stopped::RULE,
    &timezone_stat::RULE,
    &traced::RULE,
    &tty_blocked::RULE,
    &vfork_exec::RULE,
];
