//! Pages that take the whole width: nothing holds anybody up, nothing is here yet, the keys.
//!
//! "Nothing holds anybody up" is trusted by people who want to sleep: it says what was looked at, since when, and what could not be seen,
//! and never says more than that. Pure.
//!
//! Edit together: docs/top.md.

use super::keys::HELP;
use super::row::rate;
use super::rows::{self, View};
use super::state::{From, State};
use super::window::{Content, Mark, Window};
use crate::text;
use crate::text::escape;
use crate::text::page::{Page, Piece, Tone};
use crate::watch::local_time;
use holdup_reason::answer::picture::words;
use holdup_reason::answer::{EndKind, Report};
use holdup_reason::model::figures;

/// Columns of a sentence.
const SENTENCE: usize = 300;
/// Columns of a file's name.
const FILE: usize = 60;

/// Nothing holds anybody up.
pub(super) fn nothing(state: &State, report: &Report, width: usize) -> Vec<Vec<Piece>> {
    let mut page = Page::new(width, false);
    match text::sees_less(report) {
        true => {
            page.verdict("Nothing holds anybody up, as far as holdup could see.", Tone::Warning)
        }
        false => page.verdict("Nothing holds anybody up.", Tone::Good),
    }
    page.gap();
    looked_at(state, report, &mut page);
    lost(report, &mut page);
    let limits: Vec<_> = report.caveats.iter().filter(|it| text::hides(it)).collect();
    match limits.is_empty() {
        true => page.labelled("unseen", "nothing that is known to be hidden from holdup here"),
        false => {
            for limit in limits {
                page.labelled("unseen", &escape::prose(&limit.text, SENTENCE));
            }
        }
    }
    page.gap();
    let small = rows::rows(View::Answers, report).len();
    if small > 0 {
        let many = figures::count(small as u64);
        let rows = if small == 1 { "row" } else { "rows" };
        page.paragraph(&format!("Enter lists what lost or worked a little: {many} {rows}."));
    }
    page.lines()
}

/// Who, how many threads, which windows.
fn looked_at(state: &State, report: &Report, page: &mut Page) {
    let whom = text::target(report);
    let threads = text::threads(report).map_or_else(String::new, |it| format!(", {it} on average"));
    let cpus = match report.host.cpus {
        0 => String::new(),
        1 => ", 1 CPU".into(),
        cpus => format!(", {} CPUs", figures::count(cpus.into())),
    };
    page.labelled("looked", &format!("at {whom}{threads}{cpus}"));
    let Some(shown) = state.window() else { return };
    let mut first = state.at();
    while first > 0 && state.windows[first].follows(&state.windows[first - 1]) {
        first -= 1;
    }
    let windows = state.windows.range(first..=state.at());
    let many = windows.len();
    let since = local_time::shown(state.windows[first].begin_unix_ns, &state.zone);
    let seconds =
        shown.end_unix_ns().saturating_sub(state.windows[first].begin_unix_ns) as f64 / 1e9;
    let span = match many {
        1 => format!("in one window of {} from {since}", figures::seconds(shown.seconds)),
        many => format!(
            "in this window of {}, the last of {} without a gap since {since} ({})",
            figures::seconds(shown.seconds),
            figures::count(many as u64),
            figures::seconds(seconds)
        ),
    };
    page.labelled("when", &span);
    let found: Vec<&Window> = windows.filter(|it| it.mark.is_found()).collect();
    let text = match found.last() {
        None if many == 1 => return,
        None => "in none of those windows was anything found".to_string(),
        Some(last) => format!(
            "in {} of those windows something was found, the last at {}: N goes there",
            figures::count(found.len() as u64),
            clock(last.begin_unix_ns, state)
        ),
    };
    page.labelled("before", &text);
}

/// The largest loss, and where all of the time went.
fn lost(report: &Report, page: &mut Page) {
    let waits =
        |it: &&holdup_reason::answer::AnswerEnd| !matches!(it.end, EndKind::Idle | EndKind::Works);
    let text = match report
        .answer
        .ends
        .iter()
        .filter(waits)
        .max_by(|one, other| one.seconds.total_cmp(&other.seconds))
    {
        Some(end) => format!(
            "{} a second at most: {}",
            figures::seconds(rate(end.seconds, report)),
            escape::prose(&words::end(end, None), SENTENCE)
        ),
        None => "no time that was seen".into(),
    };
    page.labelled("lost", &text);
    let accounting = &report.accounting;
    let idle = accounting.parts.iter().filter(|it| it.class == "idle").map(|it| it.seconds);
    let idle: f64 = idle.sum();
    if accounting.wall_seconds > 0.0 {
        let text = format!(
            "{} of all threads: {} had no work, {} is not accounted for",
            figures::seconds(accounting.wall_seconds),
            figures::share(idle, accounting.wall_seconds),
            figures::seconds(accounting.residual_seconds.abs())
        );
        page.labelled("time", &text);
    }
}

/// What there is to say where no answer can be shown.
pub(super) fn no_answer(state: &State, width: usize) -> Vec<Vec<Piece>> {
    let mut page = Page::new(width, false);
    match state.window() {
        None => {
            let seconds = match state.from {
                From::Live(seconds) => seconds,
                From::Past => 0.0,
            };
            page.verdict(&format!("Looking at {} ...", state.whom), Tone::Heading);
            page.gap();
            let first = figures::seconds(super::first_seconds(seconds));
            page.paragraph(&format!(
                "The first answer comes after {first}, then one each {}.",
                figures::seconds(seconds)
            ));
        }
        Some(window) => {
            let file = window.file.as_ref().map(|it| it.display().to_string()).unwrap_or_default();
            let file = escape::name(&file, FILE);
            match &window.content {
                Content::Failed(why) => {
                    page.verdict("This window cannot be answered from.", Tone::Warning);
                    page.paragraph(&escape::prose(why, SENTENCE));
                    page.labelled("file", &file);
                }
                _ => page.verdict(&format!("Reading {file} ..."), Tone::Heading),
            }
        }
    }
    page.lines()
}

/// A view without a row.
pub(super) fn empty(state: &State, report: &Report, width: usize) -> Vec<Vec<Piece>> {
    let mut page = Page::new(width, false);
    if rows::is_unknown(report) {
        let whom = text::target(report);
        page.verdict(&format!("Nothing is known of {whom}: no time was seen."), Tone::Warning);
        return page.lines();
    }
    let what = match state.chosen.view {
        View::Answers => "Nobody lost or worked anything that was seen in this window.",
        View::Blockers => "Nobody waited for anybody in this window.",
        View::Groups => {
            "No container, pod, unit or other group lost time in this window, or cost others any."
        }
    };
    page.verdict(what, Tone::Good);
    page.gap();
    looked_at(state, report, &mut page);
    page.lines()
}

/// All keys, the letters of the strip, and what holdup is doing.
pub(super) fn help(state: &State, width: usize) -> Vec<Vec<Piece>> {
    let mut page = Page::new(width, false);
    page.verdict("Keys", Tone::Heading);
    for (keys, what) in HELP {
        page.row(&format!("{keys:<18}"), what, Tone::Plain);
    }
    page.gap();
    page.verdict("A column of the strip is a window", Tone::Heading);
    for (mark, what) in [
        (Mark::Unknown, "no time was seen"),
        (Mark::Idle, "nobody was owed anything"),
        (Mark::Works, "the time was somebody's own work"),
        (Mark::Waits, "somebody waited, for what no rule names"),
        (Mark::Warning, "somebody was slower for a named cause"),
        (Mark::Critical, "somebody made no progress for it, or lost most of the time"),
    ] {
        page.row(&mark.drawn().0.to_string(), what, Tone::Plain);
    }
    page.row("|", "windows are missing here: not looked, not saved, or not shown", Tone::Plain);
    page.gap();
    page.paragraph(
        "s/s: seconds that all who wait lost in a second. A time is that of the windows in which it was found, one after another, or its longest wait if \
         that is more; with a + it was there in the first window that is known, and may be older. holdup looks only: no key of this screen changes anything on the host.",
    );
    if let Some(report) = state.report() {
        page.gap();
        if !report.caveats.is_empty() {
            text::caveats(&report.caveats, &mut page);
        }
    }
    page.lines()
}

/// `21:14:05`, by the zone of the screen.
pub(super) fn clock(unix_ns: u64, state: &State) -> String {
    let shown = local_time::shown(unix_ns, &state.zone);
    shown.split_once(' ').map_or(shown.clone(), |(_, clock)| clock.to_owned())
}
