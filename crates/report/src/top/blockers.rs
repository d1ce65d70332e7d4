//! Who holds what, and who waits for it: the ends of the answer seen from whoever would have to act, and the hops on the way there.
//!
//! A holder that waits itself stands there once for each of its objects, behind those who would have to act. Holders that wait for each other
//! are a ring. Pure. Must not: find a holder that the answer does not name.

use super::row::{Row, rate};
use crate::text::escape;
use crate::text::finding::{chain_of, object, tone, victim, who};
use crate::text::page::{Page, Tone};
use holdup_reason::answer::picture::words;
use holdup_reason::answer::{
    AnswerEnd, CulpritKind, EndKind, Finding, Link, ObjectName, Report, Who,
};
use holdup_reason::model::figures;

/// Columns of somebody's name, and of an object's.
const NAME: usize = 40;

/// Seconds a second below which a row would say 0.00.
const SHOWN_MIN: f64 = 0.005;

/// Who holds something that others wait for.
#[derive(Debug, Clone)]
pub(super) struct Blocker {
    holder: Who,
    holds: ObjectName,
    /// Who waits, as written, and how long, seconds; of a hop only the links of the longest chains are known.
    waiters: Vec<(String, f64)>,
    /// Waiters that the answer has left out.
    left_out: usize,
    seconds: f64,
    longest_seconds: f64,
    /// The end that it is of.
    end: usize,
    /// Others wait through him for somebody else.
    is_hop: bool,
}

/// A row each: who would have to act, whoever costs most first, then who only stands between.
pub(super) fn rows(report: &Report) -> Vec<Row<Blocker>> {
    let mut all: Vec<Blocker> = Vec::new();
    for (at, end) in report.answer.ends.iter().enumerate() {
        of_end(report, at, end, &mut all);
    }
    // Who ends one chain may stand within another: what costs more is said.
    let known = all.clone();
    all.retain(|it| {
        let is_same = |other: &&Blocker| {
            other.is_hop != it.is_hop
                && is_same(&other.holder, &it.holder)
                && other.holds == it.holds
        };
        known.iter().find(is_same).is_none_or(|other| match it.is_hop {
            true => it.seconds > other.seconds,
            false => it.seconds >= other.seconds,
        })
    });
    all.retain(|it| rate(it.seconds, report) >= SHOWN_MIN);
    all.sort_by(|one, other| {
        one.is_hop.cmp(&other.is_hop).then_with(|| other.seconds.total_cmp(&one.seconds))
    });
    all.into_iter().map(|it| row(it, report)).collect()
}

fn of_end(report: &Report, at: usize, end: &AnswerEnd, all: &mut Vec<Blocker>) {
    if end.end == EndKind::Idle {
        return;
    }
    for pair in end.chain.windows(2) {
        let [link, next] = pair else { continue };
        if is_same(&link.who, &next.who)
            || end.who.as_ref().is_some_and(|it| is_same(it, &next.who))
        {
            continue;
        }
        let waiter = (who(&link.who, NAME), link.seconds);
        let known = all
            .iter_mut()
            .find(|it| it.is_hop && is_same(&it.holder, &next.who) && it.holds == link.waits_on);
        match known {
            Some(known) => known.also(waiter),
            None => all.push(Blocker {
                holder: next.who.clone(),
                holds: link.waits_on.clone(),
                seconds: waiter.1,
                // A link says how long within the window, and not since when.
                longest_seconds: 0.0,
                waiters: vec![waiter],
                left_out: 0,
                end: at,
                is_hop: true,
            }),
        }
    }
    let holder = actor(report, end);
    let is_itself = |pid: u32| holder.pid == Some(pid) && holder.tid.is_none();
    // In a ring each loses to itself in the end: who waits is the one before it.
    let ring = finding_of(report, end).and_then(|it| ring(report, &it.chain));
    let before = ring.into_iter().flatten().filter(|link| link.waits_on == end.object);
    let before = before.map(|link| {
        (format!("{} ({})", who(&link.who, NAME), figures::seconds(link.seconds)), link.seconds)
    });
    // Who only does its own work holds up nobody; a thread may hold what others of its process wait for.
    let is_other = |pid: u32| !is_itself(pid) || end.end == EndKind::Lock;
    let others = end.victims.iter().filter(|it| ring.is_none() && is_other(it.pid));
    let others = others.map(|it| (victim(it), it.wait_seconds));
    let waiters: Vec<(String, f64)> = before.chain(others).collect();
    if waiters.is_empty() {
        return;
    }
    let left_out = report.left_out_of(&format!("/answer/ends/{at}/victims"));
    all.push(Blocker {
        holds: held(end, &holder),
        holder,
        waiters,
        left_out: left_out.map_or(0, |it| it.count),
        seconds: end.seconds,
        longest_seconds: end.longest_seconds,
        end: at,
        is_hop: false,
    });
}

/// Who would have to act: as the end says it, else as its finding does, else the object itself.
fn actor(report: &Report, end: &AnswerEnd) -> Who {
    if let Some(who) = &end.who {
        return who.clone();
    }
    let culprit =
        finding_of(report, end).map(|it| &it.culprit).filter(|it| it.kind != CulpritKind::None);
    let name = match (culprit, end.end) {
        (Some(culprit), _) => culprit.name.clone(),
        (None, EndKind::Lock) => "a holder who was not seen".into(),
        (None, EndKind::Open) => "somebody who was not seen".into(),
        (None, _) => words::named(&end.object),
    };
    let (pid, tid) = culprit.map_or((None, None), |it| (it.pid, it.tid));
    let kind = if pid.is_some() { "process" } else { "object" };
    Who { kind: kind.into(), name, pid, tid, ..Who::default() }
}

/// What is waited for: the end's object, or where that is the holder himself what the last who waits for him waits on.
fn held(end: &AnswerEnd, holder: &Who) -> ObjectName {
    let waiting = end.chain.iter().rev().find(|link| !is_same(&link.who, holder));
    match (end.object.kind.as_str(), waiting) {
        ("process", Some(link)) => link.waits_on.clone(),
        _ => end.object.clone(),
    }
}

fn finding_of<'r>(report: &'r Report, end: &AnswerEnd) -> Option<&'r Finding> {
    report.findings.get(end.finding?)
}

fn is_same(one: &Who, other: &Who) -> bool {
    (&one.kind, one.pid, one.tid) == (&other.kind, other.pid, other.tid)
        && (one.pid.is_some() || one.name == other.name)
}

/// Holders that wait for each other: whoever holds what the last one waits for is the first.
fn ring<'r>(report: &'r Report, links: &'r [Link]) -> Option<&'r [Link]> {
    let (first, last) = (links.first()?, links.last()?);
    let mut ends = report.answer.ends.iter().filter(|it| it.end == EndKind::Lock);
    let closes = ends.any(|end| {
        end.object == last.waits_on && end.who.as_ref().is_some_and(|it| is_same(it, &first.who))
    });
    (links.len() > 1 && closes).then_some(links)
}

fn row(blocker: Blocker, report: &Report) -> Row<Blocker> {
    let finding = report.answer.ends.get(blocker.end).and_then(|end| finding_of(report, end));
    let many = blocker.waiters.len() + blocker.left_out;
    let is_ring = blocker.ring(report).is_some();
    let what = object(&blocker.holds, NAME);
    let sentence = match (is_ring, many) {
        (true, _) => format!("a deadlock over {what}"),
        (false, 1) => format!("{} waits for {what}", blocker.waiters[0].0),
        (false, many) => format!("{} wait for {what}", figures::count(many as u64)),
    };
    Row {
        key: format!("{} {} {}", blocker.holder.name, blocker.holds.kind, blocker.holds.name),
        lost_per_second: rate(blocker.seconds, report),
        longest_seconds: blocker.longest_seconds,
        tone: finding.filter(|_| !blocker.is_hop).map_or(Tone::Plain, |it| tone(it.severity)),
        short: who(&blocker.holder, NAME),
        sentence,
        about: blocker,
    }
}

impl Blocker {
    /// Another who waits; one who waits in two chains is one.
    fn also(&mut self, (who, seconds): (String, f64)) {
        match self.waiters.iter_mut().find(|(known, _)| *known == who) {
            Some((_, known)) => *known = known.max(seconds),
            None => self.waiters.push((who, seconds)),
        }
        self.seconds = self.waiters.iter().map(|(_, seconds)| seconds).sum();
    }

    /// Who waits, as written.
    #[cfg(test)]
    pub(super) fn waiters(&self) -> impl Iterator<Item = &str> {
        self.waiters.iter().map(|(who, _)| who.as_str())
    }

    fn ring<'r>(&self, report: &'r Report) -> Option<&'r [Link]> {
        let links = ring(report, &finding_of(report, report.answer.ends.get(self.end)?)?.chain)?;
        // Who waits behind a ring is not of it.
        links.iter().any(|link| link.waits_on == self.holds).then_some(links)
    }

    /// Who he is, what he holds, who waits, and what he waits for himself.
    pub(super) fn render(&self, report: &Report, page: &mut Page) {
        page.verdict(&who(&self.holder, NAME), Tone::Heading);
        let Some(end) = report.answer.ends.get(self.end) else { return };
        let label = if end.end == EndKind::Lock && !self.is_hop { "holds" } else { "over" };
        page.labelled(label, &object(&self.holds, page.columns_labelled()));
        if !self.is_hop {
            let longest = figures::seconds(self.longest_seconds);
            page.labelled("since", &format!("{longest}: the longest wait for it"));
        }
        page.labelled("costs", &format!("{} in this window", figures::seconds(self.seconds)));
        let waiter = |(who, seconds): &(String, f64)| match self.is_hop {
            true => format!("{who} ({})", figures::seconds(*seconds)),
            // A victim has its time already.
            false => who.clone(),
        };
        let waiters: Vec<String> = self.waiters.iter().map(waiter).collect();
        let mut waiters = waiters.join(", ");
        if self.left_out > 0 {
            waiters.push_str(&format!(", and {} more", figures::count(self.left_out as u64)));
        }
        page.labelled("waits", &waiters);
        if let Some(ring) = self.ring(report) {
            page.gap();
            page.verdict("They wait for each other:", Tone::Heading);
            draw_ring(ring, page);
        } else if end.chain.len() > 1 {
            page.joined("chain", &chain_of(&end.chain, page.columns_labelled()), " <- ");
        }
        if self.is_hop && self.ring(report).is_none() {
            page.labelled("", "It waits itself: the last of the chain would have to act.");
        }
        match finding_of(report, end) {
            Some(finding) => page.labelled("why", &escape::prose(&finding.title, 2 * NAME)),
            None => page.labelled("why", "no rule names this one; view 1 has what is known of it"),
        }
    }
}

/// From each to whom he waits for, and from the last back to the first.
fn draw_ring(links: &[Link], page: &mut Page) {
    let width = page.columns_labelled();
    for (at, link) in links.iter().enumerate() {
        let corner = if at == 0 { ".->" } else { "|  " };
        page.drawn(&format!("  {corner} {}", who(&link.who, width)));
        page.drawn(&format!(
            "  |     waits for {}",
            object(&link.waits_on, width.saturating_sub(10))
        ));
        let last = at + 1 == links.len();
        page.drawn(if last {
            "  '--'  which the first one has"
        } else {
            "  |  v  which is had by"
        });
    }
}
