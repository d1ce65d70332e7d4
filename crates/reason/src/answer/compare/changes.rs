//! What changed between two sides: ends, parts and findings paired by identity, each with its figure on both sides.
//!
//! A thing that is on one side only is looked for in what the other side could have missed before it is called new or gone.
//! Changes that are called stand first, the greatest first. Must not: word a sentence, or decide which looks may be compared.

use super::comparable::Named;
use super::contract::*;
use super::identity::EndIdentity;
use super::look::{FindingIdentity, Look, PartIdentity};
use super::spread::{Known, changed};
use super::wording;
use crate::answer::report::{AnswerEnd, EndKind, Impact, Part, Severity};
use std::collections::BTreeSet;

/// What two sides are compared with.
pub(super) struct Sides<'a> {
    /// The looks before.
    pub before: &'a [Named],
    /// The looks after.
    pub after: &'a [Named],
    /// Something is blind before that was not after.
    pub blind_before: bool,
    /// Something is blind after that was not before.
    pub blind_after: bool,
    /// What is below this is no change.
    pub floor: f64,
}

impl Sides<'_> {
    /// A figure of each look on both sides, and whether it changed.
    fn changed(&self, figure: impl Fn(&Look) -> Option<f64>, of: impl Fn(&Look) -> f64) -> Changed {
        let side = |side: &[Named], blind: bool| -> Vec<Known> {
            let known = |named: &Named| {
                let (look, scale) = (&named.look, named.look.scale_seconds());
                match figure(look) {
                    Some(seconds) => Known::Seen(seconds / scale, of(look) / scale),
                    None => Known::Absent(look.hidden_seconds(blind).map(|it| it / scale)),
                }
            };
            side.iter().map(known).collect()
        };
        let (before, after) =
            (side(self.before, self.blind_before), side(self.after, self.blind_after));
        changed(&before, &after, self.floor)
    }

    /// Of the whole.
    pub(super) fn total(&self) -> Changed {
        let side = |side: &[Named]| -> Vec<Known> {
            let known = |named: &Named| {
                let total = named.look.total_seconds() / named.look.scale_seconds();
                match named.look.is_cut() {
                    true => Known::AtLeast(total),
                    false => Known::Seen(total, total),
                }
            };
            side.iter().map(known).collect()
        };
        changed(&side(self.before), &side(self.after), self.floor)
    }

    /// Of every end.
    pub(super) fn ends(&self) -> Vec<EndChange> {
        let all = self.before.iter().chain(self.after).flat_map(|it| it.look.ends.keys());
        let identities: BTreeSet<&EndIdentity> = all.collect();
        let mut ends: Vec<EndChange> =
            identities.into_iter().filter_map(|identity| self.end(identity)).collect();
        sort(&mut ends, |end| &end.changed);
        ends
    }

    fn end(&self, identity: &EndIdentity) -> Option<EndChange> {
        let seconds = |look: &Look| look.ends.get(identity).map(|end| end.seconds);
        let demand = |look: &Look| look.ends.values().map(|end| end.seconds).sum();
        let changed = self.changed(seconds, demand);
        let (before, after) = (longest(self.before, identity), longest(self.after, identity));
        let (look, shown) = after.or(before)?;
        let finding = |of: Option<(&Look, &AnswerEnd)>| {
            let (look, end) = of?;
            look.report.findings.get(end.finding?).map(|it| (it.code.clone(), it.severity))
        };
        let (named_before, named_after) = (finding(before), finding(after));
        let mut severity = self.severity(look, shown.end, &changed);
        if let (true, Some((_, named))) = (changed.change.grows(), &named_after) {
            severity = severity.max(*named);
        }
        let why_unknown = (changed.change == Change::Unknown).then(|| self.why_unknown(&changed));
        Some(EndChange {
            words: wording::noun(shown, &identity.object),
            end: shown.end,
            object: shown.object.clone(),
            severity,
            who_before: before.and_then(|(_, end)| end.who.clone()),
            who_after: after.and_then(|(_, end)| end.who.clone()),
            code_before: named_before.map(|it| it.0),
            code_after: named_after.map(|it| it.0),
            why_unknown,
            changed,
        })
    }

    /// How bad it is that there is more of something, by the measure of findings. Of what is no command own work is no loss.
    fn severity(&self, look: &Look, kind: EndKind, changed: &Changed) -> Severity {
        let more = changed.difference.unwrap_or_default();
        if !changed.change.grows() || (kind == EndKind::Works && !look.is_command()) {
            return Severity::Note;
        }
        let demand: f64 = look.ends.values().map(|end| end.seconds).sum();
        let share = more / (demand / look.scale_seconds()).max(1e-9);
        let wait_seconds_per_second = match look.is_command() {
            true => more / look.report.accounting.wall_seconds.max(1e-9),
            false => more,
        };
        Severity::of(&Impact { wait_seconds_per_second, share: share.min(1.0), moment: None })
    }

    fn why_unknown(&self, changed: &Changed) -> String {
        let (side, blind, word) = match changed.before {
            None => (self.before, self.blind_before, "before"),
            Some(_) => (self.after, self.blind_after, "after"),
        };
        let hides =
            |named: &&Named| named.look.hidden_seconds(blind).is_none_or(|it| it > self.floor);
        let why = match side.iter().find(hides) {
            Some(named) if named.look.report.cost.events_lost > 0 => "events were lost",
            Some(named) if !named.look.host.kernel_events => "kernel events were not seen",
            Some(named) if named.look.is_command() => {
                "part of the time was not followed to its end"
            }
            _ => "something could not be seen",
        };
        format!("{why} {word}")
    }

    /// Of every part of the accounting.
    pub(super) fn parts(&self) -> Vec<PartChange> {
        let all = self.before.iter().chain(self.after).flat_map(|it| it.look.parts.keys());
        let identities: BTreeSet<&PartIdentity> = all.collect();
        let part = |identity: &PartIdentity| -> Option<PartChange> {
            let seconds = |look: &Look| look.parts.get(identity).map(|part| part.seconds);
            let changed = self.changed(seconds, |look| look.report.accounting.wall_seconds);
            let of = |side: &[Named]| -> Option<Part> {
                side.iter().rev().find_map(|it| it.look.parts.get(identity)).cloned()
            };
            let Part { class, object, .. } = of(self.after).or_else(|| of(self.before))?;
            Some(PartChange { class, object, changed })
        };
        let mut parts: Vec<PartChange> = identities.into_iter().filter_map(part).collect();
        sort(&mut parts, |part| &part.changed);
        parts
    }

    /// Of every finding.
    pub(super) fn findings(&self) -> Vec<FindingChange> {
        let all = self.before.iter().chain(self.after).flat_map(|it| &it.look.findings);
        let identities: BTreeSet<&FindingIdentity> = all.collect();
        let mut findings: Vec<FindingChange> =
            identities.into_iter().filter_map(|identity| self.finding(identity)).collect();
        findings.sort_by_key(|it| {
            let grows = it.change.grows();
            (!grows, std::cmp::Reverse(it.severity_after), std::cmp::Reverse(it.severity_before))
        });
        findings
    }

    fn finding(&self, identity: &FindingIdentity) -> Option<FindingChange> {
        let found = |named: &'_ Named| {
            let at = named.look.findings.iter().position(|known| known == identity)?;
            named.look.report.findings.get(at).cloned()
        };
        let before: Vec<_> = self.before.iter().filter_map(found).collect();
        let after: Vec<_> = self.after.iter().filter_map(found).collect();
        let shown = after.last().or(before.last())?;
        let worst =
            |side: &[crate::answer::report::Finding]| side.iter().map(|it| it.severity).max();
        let (was, is) = (worst(&before), worst(&after));
        let misses = |side: &[Named], blind: bool| {
            side.iter().any(|it| it.look.hidden_seconds(blind).is_none_or(|most| most > self.floor))
        };
        let change = match (was, is) {
            (None, _) if misses(self.before, self.blind_before) => Change::Unknown,
            (_, None) if misses(self.after, self.blind_after) => Change::Unknown,
            (None, _) if after.len() == self.after.len() => Change::New,
            (_, None) if before.len() == self.before.len() => Change::Gone,
            (Some(was), Some(is)) if is > was => Change::More,
            (Some(was), Some(is)) if is < was => Change::Less,
            _ => Change::Same,
        };
        Some(FindingChange {
            code: shown.code.clone(),
            title: shown.title.clone(),
            object: shown.object.clone(),
            change,
            severity_before: was,
            severity_after: is,
            looks_before: before.len(),
            looks_after: after.len(),
        })
    }
}

/// The look of a side that has most of an end.
fn longest<'s>(side: &'s [Named], identity: &EndIdentity) -> Option<(&'s Look, &'s AnswerEnd)> {
    let all = side.iter().filter_map(|it| Some((&it.look, it.look.ends.get(identity)?)));
    all.max_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds))
}

/// What is called first, then what is not known, then what stayed; the greatest first.
fn sort<T>(all: &mut [T], of: impl Fn(&T) -> &Changed) {
    let rank = |changed: &Changed| match changed.change {
        Change::Unknown => 1,
        Change::Same => 2,
        _ => 0,
    };
    let size = |changed: &Changed| {
        let mean = |figure: Option<Figure>| figure.map_or(0.0, |it| it.mean);
        let greater = mean(changed.before).max(mean(changed.after));
        let moved = changed.difference.filter(|_| changed.change.is_called());
        moved.map_or(greater, f64::abs)
    };
    all.sort_by(|a, b| {
        let (a, b) = (of(a), of(b));
        rank(a).cmp(&rank(b)).then_with(|| size(b).total_cmp(&size(a)))
    });
}
