//! What the rules of trends share: which of them there are, how bad, and what is said of each.
//!
//! Nobody waits yet, so such a finding claims no end and has no victim: it is a warning, and critical once minutes are left. A trend is
//! there only where a look goes on (engine/src/foresight.rs); a single look has none. Must not: decide whether there is one
//! (measure/exhaustion.rs), or know a code.

use crate::facts::{Resource, Usage};
use crate::measure::Measures;
use crate::measure::exhaustion::{Exhaustion, exhaustion};
use crate::model::figures;
use crate::model::object::Object;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Losses, Match};
use crate::threshold::Threshold;

pub(crate) use crate::measure::exhaustion::{
    FULL_ROOM, LEFT_MAX, SEEN_LONG_MIN, SEEN_MIN, SEEN_SHARE, STEADY_MIN,
};

/// The time that is left.
pub(crate) static PRESSING: Threshold = Threshold::new(
    600.0,
    "s",
    "the time that is left, at the latest: below it somebody must act now",
    "chosen: less than it takes to log in, look and decide",
);

/// Something that comes to its end.
pub(crate) struct Trend<'m> {
    /// What.
    pub usage: &'m Usage,
    /// How.
    pub end: Exhaustion,
}

/// Those of some kinds.
pub(crate) fn trends<'m>(measures: &'m Measures<'m>, of: &'static [Resource]) -> Vec<Trend<'m>> {
    let all = measures.model.limits.trends.iter().filter(|usage| of.contains(&usage.of));
    let trend = |usage: &'m Usage| {
        Some(Trend { usage, end: exhaustion(usage.of, &usage.readings(), usage.limit)? })
    };
    all.filter_map(trend).collect()
}

/// What is said of one, but for who uses it and what to do.
pub(crate) struct Words {
    /// What comes to its end: `/var fills up`.
    pub ends: String,
    /// The same once it has: `/var is full`.
    pub is_over: String,
    /// What is counted: `descriptors`; empty for bytes.
    pub unit: &'static str,
    /// Where it was read.
    pub source: &'static str,
    /// Who uses it, a sentence; empty if that is not known.
    pub by: String,
    /// The ways out.
    pub remedy: Vec<Remedy>,
}

impl Trend<'_> {
    /// A finding of it.
    pub(crate) fn found<'m>(self, by: Culprit, object: Object, words: Words) -> Match<'m> {
        let end = self.end;
        let severity = match end.latest_seconds <= PRESSING.value {
            true => Severity::Critical,
            false => Severity::Warning,
        };
        let wording = wording(&end, words);
        Match {
            object: Some(object),
            losses: Some(Losses::new()),
            severity_min: severity,
            severity_max: severity,
            chain: Some(Vec::new()),
            ..Match::new(by, Proof::Inferred, move |_| wording.clone())
        }
    }

    /// A limit twice as high, as somebody would set it.
    pub(crate) fn twice(&self) -> u64 {
        self.end.limit.saturating_mul(2)
    }
}

fn wording(end: &Exhaustion, words: Words) -> Wording {
    let is_bytes = words.unit.is_empty();
    let unit = if is_bytes { "bytes" } else { "1" };
    let plain = |count: u64| figures::measured(count as f64, unit);
    let rate = figures::measured(end.per_second, if is_bytes { "bytes/s" } else { "1/s" });
    let of = |count: u64| match is_bytes {
        true => plain(count),
        false => format!("{} {}", plain(count), words.unit),
    };
    let left = end.limit.saturating_sub(end.used);
    let is_over = end.latest_seconds <= 0.0 || left as f64 <= FULL_ROOM.value * end.limit as f64;
    let (earliest, latest) =
        (figures::seconds(end.earliest_seconds), figures::seconds(end.latest_seconds));
    let title = match is_over {
        true => format!("{}: {} of {} are used", words.is_over, plain(end.used), of(end.limit)),
        false => format!(
            "{} in {earliest} to {latest}: {} of {} are left",
            words.ends,
            plain(left),
            of(end.limit)
        ),
    };
    let seen = figures::seconds(end.seen_seconds);
    let text = match is_over {
        true => {
            format!("It grew by {rate}, steadily for {seen}, until there was no more. {}", words.by)
        }
        false => format!("It has grown by {rate}, steadily for the last {seen}. {}", words.by),
    };
    let evidence =
        |fact: &str, value: f64, unit: &str| Evidence::new(fact, value, unit, words.source);
    Wording {
        title,
        text: text.trim_end().into(),
        evidence: vec![
            evidence("used", end.used as f64, unit),
            evidence("as much as there may be", end.limit as f64, unit),
            evidence("growth", end.per_second, if is_bytes { "bytes/s" } else { "1/s" }),
            evidence("time in which it grew steadily", end.seen_seconds, "s"),
            evidence("time left at the earliest", end.earliest_seconds, "s"),
            evidence("time left at the latest", end.latest_seconds, "s"),
        ],
        remedy: words.remedy,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// What is found of something of which 1,000 a second are used up, seen each 10 s so often, and of which there are 200,000 (of bytes
    /// so many KiB).
    pub(crate) fn found(usage: Usage, readings: u64, beside: Vec<Fact>) -> Vec<Finding> {
        of(usage, beside, (0..readings).map(|at| at * 10_000))
    }

    /// The same of what rises, and falls again and again.
    pub(crate) fn of_sawtooth(usage: Usage, beside: Vec<Fact>) -> Vec<Finding> {
        of(usage, beside, (0..70).map(|at| at % 30 * 5_000))
    }

    fn of(usage: Usage, beside: Vec<Fact>, used: impl Iterator<Item = u64>) -> Vec<Finding> {
        let is_bytes = matches!(usage.of, Resource::Space | Resource::Memory);
        let unit = if is_bytes { 1_024 } else { 1 };
        let at = |(at, used): (u64, u64)| {
            let used = used * unit;
            Reading { at_ns: at * 10_000_000_000, used, peak: used }
        };
        let readings: Vec<Reading> = (1..).zip(used).map(at).collect();
        let (used, limit) = (readings.last().map_or(0, |it| it.used), 200_000 * unit);
        let usage = Fact {
            at_ns: LOOK_NS,
            body: Body::Usage(Usage { used, limit, ..usage }.with(&readings)),
        };
        explain([host(), beside, vec![usage]].concat()).findings
    }
}
