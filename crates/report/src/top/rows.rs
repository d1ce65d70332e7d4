//! The rows of a list, and what is said of the chosen one: findings and ends without a name here, blockers and groups beside it.
//!
//! A row is two lines: figures and a short name, then a sentence. Every text of it has passed `escape`. Pure. Must not: know the
//! screen's size beyond the width that it writes for.

use super::blockers::{self, Blocker};
use super::groups::{self, Group};
use super::row::rate;
use crate::text;
use crate::text::escape;
use crate::text::page::{Page, Piece, Tone};
use holdup_reason::answer::picture::words;
use holdup_reason::answer::{AnswerEnd, EndKind, Report, Severity, Verdict};

/// Columns of a sentence: what is longer is in the detail.
const SENTENCE: usize = 200;
/// Columns of a code or a kind.
const SHORT: usize = 40;
/// Smaller losses of ends without a name are below what a look can tell from nothing.
const LOST_MIN: f64 = 0.000_5;

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Findings, and ends that no rule names.
    Answers,
    /// Who holds what, and who waits for it.
    Blockers,
    /// Containers, pods, units and other groups.
    Groups,
}

impl View {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 3] = [Self::Answers, Self::Blockers, Self::Groups];

    /// Its word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Blockers => "blockers",
            Self::Groups => "groups",
        }
    }
}

/// A row of any list.
pub(super) type Row = super::row::Row<About>;

/// What a row is about.
#[derive(Debug)]
pub(super) enum About {
    /// A finding of the report, by its place.
    Finding(usize),
    /// An end of the report, by its place.
    End(usize),
    /// Who holds something.
    Blocker(Box<Blocker>),
    /// A group.
    Group(Group),
}

/// The rows of a view, worst first.
pub(super) fn rows(view: View, report: &Report) -> Vec<Row> {
    match view {
        View::Answers => answers(report),
        View::Blockers => {
            let about = |blocker| About::Blocker(Box::new(blocker));
            blockers::rows(report).into_iter().map(|row| row.with(about)).collect()
        }
        View::Groups => {
            groups::rows(report).into_iter().map(|row| row.with(About::Group)).collect()
        }
    }
}

/// Whether nobody loses so much that a person who asks what is wrong wants to know.
pub(super) fn is_quiet(report: &Report) -> bool {
    let found = report.findings.iter().any(|it| it.severity > Severity::Note);
    !found && report.answer.verdict == Verdict::Idle && !is_unknown(report)
}

/// Whether no time was seen at all, so that nothing can be said.
pub(super) fn is_unknown(report: &Report) -> bool {
    report.accounting.wall_seconds <= 0.0
}

fn answers(report: &Report) -> Vec<Row> {
    let ends = &report.answer.ends;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for (at, finding) in report.findings.iter().enumerate() {
        let own = ends.iter().filter(|end| end.finding == Some(at));
        let row = Row {
            key: finding.key.clone(),
            lost_per_second: finding.impact.wait_seconds_per_second,
            longest_seconds: own.map(|end| end.longest_seconds).fold(0.0, f64::max),
            tone: text::finding::tone(finding.severity),
            short: escape::name(&finding.code, SHORT),
            sentence: escape::prose(&finding.title, SENTENCE),
            about: About::Finding(at),
        };
        let list = if finding.severity > Severity::Note { &mut rows } else { &mut notes };
        list.push(row);
    }
    for (at, end) in ends.iter().enumerate() {
        let lost_per_second = rate(end.seconds, report);
        if end.finding.is_some() || end.end == EndKind::Idle || lost_per_second < LOST_MIN {
            continue;
        }
        rows.push(Row {
            key: end_key(end),
            lost_per_second,
            longest_seconds: end.longest_seconds,
            tone: Tone::Plain,
            short: words::kind(end.end).into(),
            sentence: escape::prose(&words::end(end, None), SENTENCE),
            about: About::End(at),
        });
    }
    rows.append(&mut notes);
    rows
}

/// What an end is known by in the next window: kind, object and who, without the numbers of one look.
pub(super) fn end_key(end: &AnswerEnd) -> String {
    let who = end.who.as_ref().map_or("", |who| who.name.as_str());
    format!("{:?} {} {} by {who}", end.end, end.object.kind, end.object.name)
}

/// All that is known of a row; all of it if it has the screen for itself.
pub(super) fn detail(row: &Row, report: &Report, whole: bool, width: usize) -> Vec<Vec<Piece>> {
    let mut page = Page::new(width, false);
    match &row.about {
        About::Finding(at) => text::finding_on_a_screen(report, *at, whole, &mut page),
        About::End(at) => text::end_on_a_screen(report, *at, &mut page),
        About::Blocker(blocker) => blocker.render(report, &mut page),
        About::Group(group) => group.render(report, &mut page),
    }
    page.lines()
}
