//! A look as it is compared: its report, the machine, and every end, part and finding under an identity that lasts.
//!
//! Made from the measures of a look and not from its report: a report names things for people, and folds what is small. It
//! also knows what was not seen, because what is absent in a look is zero only if the look would have seen it. Must not:
//! know of a second look.

use super::identity::{EndIdentity, ObjectIdentity};
use crate::answer::accounting::{self, PartObject};
use crate::answer::report::{AnswerEnd, EndKind, Part, Report};
use crate::answer::verdict;
use crate::facts::{Blind, Host, Ns, TargetKind};
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::Claim;
use std::collections::BTreeMap;

/// What makes time of two looks the same part: the word of its class, and the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartIdentity {
    /// On an object.
    Of(&'static str, ObjectIdentity),
    /// Idle time, by what for.
    Words(&'static str, &'static str),
}

/// What makes two findings the same: the code, and the object.
pub(super) type FindingIdentity = (String, ObjectIdentity);

/// A look, ready to be compared with another.
pub struct Look {
    /// Its answer.
    pub report: Report,
    /// The machine.
    pub host: Host,
    /// The name of the program: of a process or of a command's first process.
    pub program: String,
    /// Ends by identity, all of them; of several of one identity the greatest, with the seconds of all.
    pub ends: BTreeMap<EndIdentity, AnswerEnd>,
    /// Parts of the accounting by identity, all of them.
    pub parts: BTreeMap<PartIdentity, Part>,
    /// What the findings of the report are, in their order.
    pub findings: Vec<FindingIdentity>,
    /// What could not be seen.
    pub blind: Vec<Blind>,
    /// Waits below this were not seen one by one.
    pub threshold_ns: Ns,
}

impl Look {
    /// Of the measures of a look, its report, and what its findings claim and are about.
    pub fn of(
        measures: &Measures<'_>,
        report: Report,
        claims: &[Vec<Claim>],
        objects: &[Object],
    ) -> Self {
        let model = measures.model;
        let codes = report.findings.iter().map(|finding| finding.code.clone());
        let objects = objects.iter().map(|object| ObjectIdentity::of(measures, object));
        let program = match &model.look.target {
            Some(target) if target.kind == TargetKind::Process => target.name.clone(),
            _ => command_root(model).map_or_else(String::new, |root| root.comm),
        };
        Self {
            host: model.look.host.clone(),
            program,
            ends: ends(measures, claims),
            parts: parts(measures),
            findings: codes.zip(objects).collect(),
            blind: model.look.blind.clone(),
            threshold_ns: model.look.window_end.threshold_ns,
            report,
        }
    }

    /// It is a command that was looked at.
    pub fn is_command(&self) -> bool {
        self.report.target.kind == TargetKind::Command
    }

    /// What a second of the look's figures is divided by: nothing for a command, whose whole is its wall time.
    pub fn scale_seconds(&self) -> f64 {
        if self.is_command() { 1.0 } else { self.report.window.seconds.max(1e-9) }
    }

    /// The whole, seconds: of a command its wall time, else what its threads lost to others.
    pub fn total_seconds(&self) -> f64 {
        match self.is_command() {
            true => self.report.accounting.wall_seconds,
            false => {
                let lost = self.ends.values().filter(|end| end.end != EndKind::Works);
                lost.map(|end| end.seconds).sum::<f64>() + 0.0
            }
        }
    }

    /// The look ended before the command did: its wall time is not known, only that it is longer.
    pub fn is_cut(&self) -> bool {
        let ended_early = self.report.caveats.iter().any(|it| it.code == "ended_early");
        self.is_command() && (ended_early || self.report.target.exit_status.is_none())
    }

    /// How much of something that is absent here may have been there all the same, seconds; none if nothing bounds it.
    /// Of a command every nanosecond has an end, so it is what was not followed to one.
    pub fn hidden_seconds(&self, blind_here: bool) -> Option<f64> {
        if self.is_command() {
            let open = self.ends.values().filter(|end| end.end == EndKind::Open);
            let open: f64 = open.map(|end| end.seconds).sum();
            return Some(open + self.report.accounting.residual_seconds.abs());
        }
        let whole = self.host.kernel_events && self.report.cost.events_lost == 0 && !blind_here;
        whole.then_some(0.0)
    }
}

fn ends(measures: &Measures<'_>, claims: &[Vec<Claim>]) -> BTreeMap<EndIdentity, AnswerEnd> {
    let mut ends: BTreeMap<EndIdentity, AnswerEnd> = BTreeMap::new();
    // Greatest first: that of several which is shown.
    for share in verdict::divided(measures, claims) {
        let said = verdict::said(measures, &share.end, share.finding);
        let identity = EndIdentity::of(measures, &share.end, &said);
        match ends.get_mut(&identity) {
            Some(known) => {
                known.seconds += said.seconds;
                known.longest_seconds = known.longest_seconds.max(said.longest_seconds);
                known.victims.extend(said.victims);
                known.finding = known.finding.or(said.finding);
            }
            None => {
                ends.insert(identity, said);
            }
        }
    }
    let demand: f64 = ends.values().map(|end| end.seconds).sum();
    for end in ends.values_mut() {
        end.share = end.seconds / demand.max(1e-9);
    }
    ends
}

fn parts(measures: &Measures<'_>) -> BTreeMap<PartIdentity, Part> {
    let mut parts: BTreeMap<PartIdentity, Part> = BTreeMap::new();
    for ((class, object), seconds) in accounting::divided(measures).1 {
        let identity = match &object {
            PartObject::Of(object) => PartIdentity::Of(class, ObjectIdentity::of(measures, object)),
            PartObject::Words(_, words) => PartIdentity::Words(class, words),
        };
        let object = object.name(measures.model);
        let part = Part { class: class.into(), object, seconds: 0.0 };
        parts.entry(identity).or_insert(part).seconds += seconds;
    }
    parts
}
