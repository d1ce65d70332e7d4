//! What a rule is, what it is given, and what it says: the shapes that rules and the engine share.
//!
//! Apart from mod.rs, which lists the rules, and from engine.rs, which asks them: a rule names neither. Must not: know a rule,
//! or decide how bad a loss is.
//!
//! Edit together: docs/writing-a-rule.md.

use super::proof::Proof;
use super::wording::{Culprit, Impact, Severity, Wording};
use crate::facts::{Ns, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{Model, lifetimes};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// One rule and everything a person should know of it.
pub struct Rule {
    /// `area.cause`, stable for ever.
    pub code: &'static str,
    /// What it says, one line without names.
    pub title: &'static str,
    /// What happens in the kernel, and why that makes things slow.
    pub theory: &'static str,
    /// What must be seen before it is said.
    pub needs: &'static [&'static str],
    /// What would refute it, each with the test that shows it.
    pub refuted_by: &'static [Refutation],
    /// The ways out.
    pub remedies: &'static [&'static str],
    /// Stories of the field that it answers.
    pub stories: &'static [&'static str],
    /// The numbers that decide.
    pub thresholds: &'static [&'static Threshold],
    /// The rule itself.
    pub finds: Finds,
}

/// Something that would refute a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refutation {
    /// A clause: what is seen where the rule must stay silent.
    pub by: &'static str,
    /// The test, in the rule's own file, that has it and finds nothing of this rule.
    pub test: &'static str,
}

impl Refutation {
    /// A clause with its test.
    pub const fn new(by: &'static str, test: &'static str) -> Self {
        Self { by, test }
    }
}

/// How a rule is asked.
pub enum Finds {
    /// Once for each end that nobody has claimed yet, greatest first.
    End(for<'m> fn(&'m Measures<'m>, &'m End) -> Option<Match<'m>>),
    /// Once a look, with all ends that nobody has claimed yet: for what no single end shows (a group's memory, a hog that
    /// many wait beside, the names that one server was asked). A match says itself which ends it claims.
    Look(for<'m> fn(&'m Measures<'m>, &'m [End]) -> Vec<Match<'m>>),
}

/// Seconds that processes lose, by process id.
pub type Losses = BTreeMap<u32, (ThreadRef, f64)>;

/// A rule's claim on an end: who is to blame, by what proof, and how to say it.
pub struct Match<'a> {
    /// Who holds it up.
    pub culprit: Culprit,
    /// How that is known.
    pub proof: Proof,
    /// The object, where it is another than the end's.
    pub object: Option<Object>,
    /// Of [`Finds::End`]: whose part of the end it claims; none: everybody's.
    pub victims: Option<BTreeSet<u32>>,
    /// Of [`Finds::Look`]: the ends that it claims.
    pub claims: Vec<Claim>,
    /// What is lost to it, where a measure knows better than the ends' waits (CPU time, sums of short waits).
    pub losses: Option<Losses>,
    /// Of a command: seconds of its path, where `losses` are given.
    pub path_seconds: Option<f64>,
    /// Time of those who lose that was not idle, seconds, where a measure knows of more than the waits that were seen.
    pub demand_seconds: Option<f64>,
    /// Not more than this, however much is lost: use is no fault, a stop may be on purpose.
    pub severity_max: Severity,
    /// Not less than this: somebody was killed for it.
    pub severity_min: Severity,
    /// The chain, where it is another than the ends' longest.
    pub chain: Option<Vec<Step>>,
    /// The finding in words, with what is lost.
    pub explain: Box<dyn Fn(&Loss<'_>) -> Wording + 'a>,
}

/// A part of an end.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Index into the ends that the rule was given.
    pub end: usize,
    /// Whose part of it; none: everybody's.
    pub victims: Option<BTreeSet<u32>>,
}

/// A link of a chain that a rule builds.
#[derive(Debug, Clone)]
pub struct Step {
    /// Who.
    pub who: ThreadRef,
    /// Waits on what.
    pub on: Object,
    /// In words, where an object has none (what it does instead).
    pub doing: Option<(&'static str, String)>,
    /// How long, seconds.
    pub seconds: f64,
    /// From when to when, if it is one wait: what was read of its thread then belongs to it.
    pub when: Option<(Ns, Ns)>,
    /// Why the chain goes on from here to who is next: what the way of the graph says.
    pub because: Option<&'static str>,
}

impl<'a> Match<'a> {
    /// A claim on the end that was asked about.
    pub fn new(
        culprit: Culprit,
        proof: Proof,
        explain: impl Fn(&Loss<'_>) -> Wording + 'a,
    ) -> Self {
        Self {
            culprit,
            proof,
            object: None,
            victims: None,
            claims: Vec::new(),
            losses: None,
            path_seconds: None,
            demand_seconds: None,
            severity_max: Severity::Critical,
            severity_min: Severity::Note,
            chain: None,
            explain: Box::new(explain),
        }
    }

    /// The object is another than the end's.
    pub fn on(mut self, object: Object) -> Self {
        self.object = Some(object);
        self
    }

    /// Claims an end, or some victims' part of it.
    pub fn claiming(mut self, end: usize, victims: Option<BTreeSet<u32>>) -> Self {
        self.claims.push(Claim { end, victims });
        self
    }
}

/// What is lost to a claimed end: what a rule's words are made with.
pub struct Loss<'m> {
    /// The claimed part of the ends, as one; none if a rule claims none.
    pub end: Option<&'m End>,
    /// How much it matters.
    pub impact: Impact,
    /// Seconds lost within the window; of a command, of its path.
    pub seconds: f64,
    /// Seconds that are explained: the window, or the command's life.
    pub wall_seconds: f64,
    /// Who loses, longest first.
    pub victims: Vec<(ThreadRef, f64)>,
    /// The process that loses most as the subject of a sentence, with its container.
    pub victim: String,
    /// Its name alone.
    pub name: String,
}

/// A link of the graph as a step of the chain that is shown; none where nothing was seen.
pub fn step(link: &ChainLink) -> Option<Step> {
    let doing = match link.class {
        WaitClass::Unseen => return None,
        WaitClass::Running => Some(("CPU", "running".to_string())),
        WaitClass::Idle => Some(("event", "event".to_string())),
        _ => None,
    };
    let seconds = link.ns() as f64 / 1e9;
    Some(Step {
        who: link.who.clone(),
        on: link.object.clone(),
        doing,
        seconds,
        when: Some((link.since_ns, link.end_ns)),
        because: link.because,
    })
}

/// A process with its container, as a culprit.
pub fn culprit(model: &Model, thread: &ThreadRef) -> Culprit {
    let mut culprit = Culprit::process(thread);
    culprit.program = model.threads.program_of(thread).map(String::from);
    culprit.container = model.container_of(thread).map(|c| c.name.clone());
    culprit
}

/// A file by a path that leads to it from outside.
pub struct FileSeen {
    /// The path.
    pub path: String,
    /// Through whose view of the file system it leads, if that may be another.
    pub through: Option<ThreadRef>,
}

/// A file as a process sees it: in another network namespace or a container it may have an /etc of its own. Of a process that
/// is gone, through another of its container, or of its unit, that is in the same network namespace: those see the same. None if nobody is
/// known to: who shares a network namespace alone may see the host's files (`ip netns exec` gives each process a view of its own), and who
/// shares a plain group need share nothing.
pub fn file_of(model: &Model, thread: &ThreadRef, path: &str) -> Option<FileSeen> {
    let netns_of = |of: &ThreadRef| model.threads.identity(of).map_or(0, |known| known.netns);
    let netns = netns_of(thread);
    let links = || model.net.links.iter();
    let elsewhere = links().any(|link| link.netns == netns && !link.netns_name.is_empty());
    let container = model.container_of(thread);
    let own_view = container.filter(|it| it.is_real() || it.is_unit());
    let is_there = lifetimes::is_there_at_end(model, thread);
    // A namespace that went with it has no interface left, and it may have had files of its own.
    let is_known = links().next().is_none() || links().any(|link| link.netns == netns);
    let elsewhere = elsewhere || !is_there && netns != 0 && !is_known;
    if !elsewhere && (container.is_none() || own_view.is_none() && !is_there) {
        return Some(FileSeen { path: path.to_string(), through: None });
    }
    let through = match own_view {
        Some(own) => there_or_beside(model, thread, |other| {
            netns_of(other) == netns
                && model.container_of(other).is_some_and(|it| it.cgroups == own.cgroups)
        }),
        None => thread.clone(),
    };
    lifetimes::is_there_at_end(model, &through).then(|| FileSeen {
        path: format!("/proc/{}/root{path}", through.pid),
        through: Some(through),
    })
}

/// A process, or if it is gone another like it that is there at the window's end; if none is, the process.
pub fn there_or_beside(
    model: &Model,
    process: &ThreadRef,
    is_like: impl Fn(&ThreadRef) -> bool,
) -> ThreadRef {
    let beside = || {
        let all = model.threads.by_id.values().map(|known| &known.thread);
        let mut all = all.filter(|other| other.tid == other.pid && is_like(other));
        all.find(|other| lifetimes::is_there_at_end(model, other)).cloned()
    };
    match lifetimes::is_there_at_end(model, process) {
        true => process.clone(),
        false => beside().unwrap_or_else(|| process.clone()),
    }
}
