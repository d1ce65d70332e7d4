//! A process that stands still (stopped, traced, frozen), and those who wait for it.
//!
//! Standing still is no fault by itself: shells stop jobs, debuggers hold programs, containers are paused on purpose. It
//! becomes one when others wait for it, or when it is what was asked about. So its own standing time is held apart from
//! the waiting of others, and only the latter weighs. Must not: name codes; each rule does.

use crate::facts::{TargetKind, ThreadRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::longest_wait::LongestWait;
use crate::model::words;
use crate::rules::Match;
use crate::rules::wait_words::{main_thread, wait_evidence};
use crate::rules::wording::{Evidence, Severity};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// From here on somebody is held up by it, whatever else he does.
pub(crate) static NOTICED: Threshold = Threshold::new(
    0.05,
    "s/s",
    "waiting for what stands still, from which on it is more than a note however busy the one who waits",
    "chosen: a twentieth of one thread's time, as for every warning",
);

/// Something that stands still, with those who wait for it.
pub(crate) struct Standstill<'m> {
    /// Its own waits and those of others together.
    pub end: &'m End,
    /// The waits of others alone.
    pub others: End,
    /// The processes that stand still.
    pub own: BTreeSet<u32>,
    /// How long.
    pub longest: LongestWait,
    /// It is what was asked about.
    targeted: bool,
    /// Over which it was looked at.
    wall_seconds: f64,
}

impl<'m> Standstill<'m> {
    /// Of an end of a class.
    pub(crate) fn of(measures: &Measures<'_>, end: &'m End, class: WaitClass) -> Option<Self> {
        if end.class != class {
            return None;
        }
        let its = || measures.waits().filter(|w| w.class == class && w.object == end.object);
        let own: BTreeSet<u32> = its().map(|w| w.thread.pid).collect();
        let targeted = measures.is_command() || is_whole_target(measures, &own);
        let longest = LongestWait::of(measures.model, its());
        let others = end.of_victims(|pid| !own.contains(&pid));
        Some(Self { end, others, own, longest, targeted, wall_seconds: measures.wall_seconds() })
    }

    /// Leaves a process out of those who wait for it: what that one waits for is its own doing.
    pub(crate) fn without(mut self, pid: u32) -> Self {
        self.others = self.others.of_victims(|victim| victim != pid);
        self
    }

    /// Somebody else is held up by it. Who met it for a moment (a shell that begins to wait for its job as the look ends) is not: it
    /// would be a victim of milliseconds, and what stands still, which is worth a note, would go with him.
    pub(crate) fn has_victims(&self) -> bool {
        self.others.seconds / self.wall_seconds.max(1e-9) >= NOTICED.value
    }

    /// It is what was asked about, or somebody else waits for it.
    pub(crate) fn matters(&self) -> bool {
        self.targeted || self.has_victims()
    }

    /// The one that stands still and is waited for, else the first that stands still.
    pub(crate) fn process(&self, measures: &Measures<'_>) -> Option<ThreadRef> {
        let root = self.end.links.last().map(|link| link.who.pid);
        let pid = root.filter(|pid| self.own.contains(pid)).or(self.own.first().copied())?;
        Some(main_thread(measures, pid))
    }

    /// The name of who waits for it: the first of the chain, or where that stands still itself, whoever waits longest.
    pub(crate) fn victim(&self, measures: &Measures<'_>) -> String {
        let first = self.end.first_victim();
        let others = self.others.victims.values();
        let most = others.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(who, _)| who);
        let is_other = self.others.victims.contains_key(&first.pid);
        measures.subject(most.filter(|_| !is_other).unwrap_or(first))
    }

    /// How many others waited for it, and how long, as a sentence.
    pub(crate) fn who_waited(&self, measures: &Measures<'_>) -> String {
        match self.others.victims.len() {
            0 => "Nobody was seen to wait for it.".into(),
            n => format!(
                "{} waited {} for it.",
                words::count(n, "process", "processes"),
                words::of_window(self.others.seconds, measures.wall_seconds())
            ),
        }
    }

    /// The figures of their waits.
    pub(crate) fn others_evidence(&self, what: &str) -> Vec<Evidence> {
        if !self.has_victims() {
            return Vec::new();
        }
        let waits = self.others.count as usize;
        wait_evidence(self.others.seconds, waits, &self.longest, what)
    }

    /// Weighs it by those who wait: none, a note; somebody, or the target, a warning or worse.
    pub(crate) fn weigh(&self, measures: &Measures<'_>, mut matched: Match<'m>) -> Match<'m> {
        if !self.matters() {
            matched.losses = Some(BTreeMap::new());
            matched.chain = Some(Vec::new());
            matched.severity_max = Severity::Note;
            return matched;
        }
        let weighed = if self.has_victims() { &self.others } else { self.end };
        matched.losses = Some(weighed.victims.clone());
        matched.path_seconds = Some(weighed.seconds);
        if !self.has_victims() && !measures.is_command() {
            // It was asked about, and stands still, but nobody is kept waiting by it.
            matched.severity_max = Severity::Warning;
        }
        if weighed.seconds / self.wall_seconds.max(1e-9) >= NOTICED.value {
            matched.severity_min = Severity::Warning;
        }
        matched
    }
}

/// All of the process or container that was asked about stands still.
fn is_whole_target(measures: &Measures<'_>, own: &BTreeSet<u32>) -> bool {
    let model = measures.model;
    let Some(target) = &model.look.target else { return false };
    match target.kind {
        TargetKind::Process => own.contains(&target.pid),
        TargetKind::Container => {
            let times = model.threads.times.iter().filter(|time| model.in_target(&time.thread));
            let inside: BTreeSet<u32> = times.map(|time| time.thread.pid).collect();
            !inside.is_empty() && inside.is_subset(own)
        }
        TargetKind::Host | TargetKind::Command => false,
    }
}
