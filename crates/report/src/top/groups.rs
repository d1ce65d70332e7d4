//! Containers, pods, units and other groups: what their members lose, what others lose to them, and what they work.
//!
//! Made from who waits and who would have to act in the ends of the answer, so a group in which nobody did either is not there. Lists of
//! the answer are bounded: what was left out is said. Pure.

use super::row::{Row, rate};
use crate::text::page::{Page, Tone};
use crate::text::{card, escape};
use holdup_reason::answer::picture::words;
use holdup_reason::answer::{AnswerEnd, EndKind, Report, Workload};
use holdup_reason::model::figures;

/// Columns of a group's name.
const NAME: usize = 50;
/// Columns of what an end is.
const SENTENCE: usize = 120;

/// A group.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    name: String,
    kind: &'static str,
    /// What its members lose, by end of the answer, seconds.
    lost: Vec<(usize, f64)>,
    /// What others lose to its members.
    cost: Vec<(usize, f64)>,
    /// What its members work.
    works_seconds: f64,
}

/// A row each, whoever loses most first.
pub(super) fn rows(report: &Report) -> Vec<Row<Group>> {
    let mut all: Vec<Group> = Vec::new();
    for (at, end) in report.answer.ends.iter().enumerate() {
        if end.end != EndKind::Idle {
            of_end(at, end, &mut all);
        }
    }
    all.sort_by(|one, other| {
        let of = |it: &Group| it.lost_seconds() + it.cost_seconds();
        of(other)
            .total_cmp(&of(one))
            .then_with(|| other.works_seconds.total_cmp(&one.works_seconds))
    });
    all.into_iter().map(|it| row(it, report)).collect()
}

fn of_end(at: usize, end: &AnswerEnd, all: &mut Vec<Group>) {
    let own = end.who.as_ref().and_then(|it| named(&it.workload, it.container.as_deref()));
    for victim in &end.victims {
        let Some((name, kind)) = named(&victim.workload, victim.container.as_deref()) else {
            continue;
        };
        // What somebody works himself is no loss.
        let works = end.end == EndKind::Works
            && end.who.as_ref().is_none_or(|it| it.pid == Some(victim.pid));
        if works {
            group(all, name, kind).works_seconds += victim.wait_seconds;
            continue;
        }
        add(&mut group(all, name, kind).lost, at, victim.wait_seconds);
        if let Some((holder, kind)) = own.filter(|(holder, _)| *holder != name) {
            add(&mut group(all, holder, kind).cost, at, victim.wait_seconds);
        }
    }
}

fn add(to: &mut Vec<(usize, f64)>, at: usize, seconds: f64) {
    match to.last_mut().filter(|(known, _)| *known == at) {
        Some((_, sum)) => *sum += seconds,
        None => to.push((at, seconds)),
    }
}

/// Of none it is 0, where `sum` would be -0.
fn sum(of: &[(usize, f64)]) -> f64 {
    of.iter().fold(0.0, |sum, (_, seconds)| sum + seconds)
}

fn group<'g>(all: &'g mut Vec<Group>, name: &str, kind: &'static str) -> &'g mut Group {
    let at = all.iter().position(|it| it.name == name).unwrap_or_else(|| {
        all.push(Group { name: name.into(), kind, ..Group::default() });
        all.len() - 1
    });
    &mut all[at]
}

/// A group's name, and what kind of group it is.
fn named<'w>(
    workload: &'w Workload,
    container: Option<&'w str>,
) -> Option<(&'w str, &'static str)> {
    let name = workload.name.as_deref().or(container)?;
    let kind = match workload {
        Workload { pod: Some(_), .. } => "pod",
        Workload { runtime: Some(_), .. } => "container",
        Workload { unit: Some(_), .. } => "unit",
        _ => "group",
    };
    Some((name, kind))
}

fn row(group: Group, report: &Report) -> Row<Group> {
    let per_second = |seconds: f64| format!("{} s/s", figures::rate(rate(seconds, report)));
    let sentence = format!(
        "{} costs others {}, works {}",
        escape::name(&group.name, NAME),
        per_second(group.cost_seconds()),
        per_second(group.works_seconds),
    );
    let ends = group.lost.iter().filter_map(|(at, _)| report.answer.ends.get(*at));
    Row {
        key: group.name.clone(),
        lost_per_second: rate(group.lost_seconds(), report),
        longest_seconds: ends.map(|end| end.longest_seconds).fold(0.0, f64::max),
        tone: Tone::Plain,
        short: group.kind.into(),
        sentence,
        about: group,
    }
}

impl Group {
    fn lost_seconds(&self) -> f64 {
        sum(&self.lost)
    }

    fn cost_seconds(&self) -> f64 {
        sum(&self.cost)
    }

    /// What it loses to whom, what others lose to it, what it works; what it used beside its limits, if it is what was looked at.
    pub(super) fn render(&self, report: &Report, page: &mut Page) {
        page.verdict(&format!("{} {}", self.kind, escape::name(&self.name, NAME)), Tone::Heading);
        for (label, ends) in [("loses", &self.lost), ("costs", &self.cost)] {
            let mut ends = ends.clone();
            ends.sort_by(|one, other| other.1.total_cmp(&one.1));
            for (at, seconds) in ends {
                let Some(end) = report.answer.ends.get(at) else { continue };
                let culprit =
                    end.finding.and_then(|at| report.findings.get(at)).map(|it| &it.culprit);
                let words = escape::prose(&words::end(end, culprit), SENTENCE);
                page.labelled(label, &format!("{}: {words}", figures::seconds(seconds)));
            }
        }
        page.labelled("works", &format!("{} of its own", figures::seconds(self.works_seconds)));
        // A finding's victims are those of its ends.
        let of_ends = report.left_out.iter().filter(|it| it.list.starts_with("/answer/ends/"));
        let left_out: f64 = of_ends.filter_map(|it| it.wait_seconds).sum();
        if left_out > 0.0 {
            let text = format!(
                "{} of waits are in no group here: lists are bounded",
                figures::seconds(left_out)
            );
            page.labelled("beside", &text);
        }
        if let Some(own) = report.container.as_ref().filter(|own| {
            let last = self.name.rsplit(['/', ' ']).next();
            self.name == own.name || last == Some(own.name.as_str())
        }) {
            page.gap();
            card::render(own, report.window.seconds, page);
        }
    }
}
