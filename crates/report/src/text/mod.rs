//! The report as text, written from the report object alone.
//!
//! Owns order and wording: the verdict first, one short paragraph a finding, then who waits for whom,
//! the way out, and at the end where the time went, what limits the answer, what it cost. It must
//! not see facts: what is not in the report (and so not in `--json`) cannot be said here either.
//! Every string of the report is foreign until it has passed `escape`.
//!
//! Edit together: `reason/src/findings.rs`, docs/json.md.

mod accounting;
pub(crate) mod card;
pub(crate) mod comparison;
mod container_start;
pub(crate) mod escape;
pub(crate) mod finding;
pub(crate) mod network;
pub(crate) mod own_fault;
pub(crate) mod page;
mod verdict;

pub(crate) use accounting::threads;
pub(crate) use verdict::{hides, sees_less, target};

use holdup_reason::answer::{Caveat, Finding, Report, ReportCost, Severity};
use holdup_reason::facts::OwnScheduling;
use holdup_reason::model::figures;
use page::{Page, Tone};

/// Caveats are one sentence each; this bounds one that is not.
const CAVEAT_WIDTH_MAX: usize = 320;

/// Lines of the kernel's log that belong to no finding, shown without -v.
const LOG_LINES_OF_NOTHING: usize = 4;

/// Whether the report found something that somebody waits for: above a note.
pub(crate) fn found(report: &Report) -> bool {
    report.findings.iter().any(is_found)
}

fn is_found(finding: &Finding) -> bool {
    finding.severity > Severity::Note
}

/// Writes the answer alone: the verdict and the findings.
pub(crate) fn answer(report: &Report, verbose: bool, page: &mut Page) {
    let all = report.findings.iter().enumerate();
    let (found, notes): (Vec<_>, Vec<_>) = all.partition(|(_, it)| is_found(it));
    let left_out = |at: usize| report.left_out_of(&format!("/findings/{at}/victims"));
    if found.is_empty() {
        verdict::unnamed(report, verbose, page);
    }
    for (at, finding) in found {
        page.gap();
        finding::render(finding, left_out(at), verbose, page);
    }
    if !notes.is_empty() {
        page.gap();
        page.verdict("Worth knowing, though nobody is known to wait for it now", Tone::Heading);
        for (at, note) in notes {
            finding::note(note, left_out(at), verbose, page);
        }
    }
    if let Some(cut) = report.left_out_of("/findings") {
        page.item(&format!("and {} more findings, less severe than these", cut.count));
    }
}

/// Writes one finding for a screen: what one acts on first.
pub(crate) fn finding_on_a_screen(report: &Report, at: usize, whole: bool, page: &mut Page) {
    let left_out = report.left_out_of(&format!("/findings/{at}/victims"));
    if let Some(finding) = report.findings.get(at) {
        finding::on_a_screen(finding, left_out, whole, page);
    }
}

/// Writes one end that no rule has named.
pub(crate) fn end_on_a_screen(report: &Report, at: usize, page: &mut Page) {
    if let Some(end) = report.answer.ends.get(at) {
        verdict::end(end, page);
    }
}

/// Writes the whole report.
pub(crate) fn report(report: &Report, verbose: bool, page: &mut Page) {
    if let Some(fault) = &report.own_fault {
        own_fault::render(fault, page);
    }
    answer(report, verbose, page);
    page.gap();
    if let Some(container) = &report.container {
        card::render(container, report.window.seconds, page);
        page.gap();
    }
    if let Some(start) = &report.container_start {
        container_start::render(start, report.window.seconds, verbose, page);
    }
    accounting::render(report, verbose, page);
    if !report.kernel_log.is_empty() {
        page.gap();
        page.verdict("What else the kernel logged meanwhile", Tone::Heading);
        let shown = if verbose { finding::LOG_LINES_VERBOSE } else { LOG_LINES_OF_NOTHING };
        finding::log(&report.kernel_log, shown, page);
    }
    if !report.caveats.is_empty() {
        page.gap();
        caveats(&report.caveats, page);
    }
    page.gap();
    page.verdict(&cost(&report.cost, report.window.seconds), Tone::Faint);
}

/// Writes what limits an answer.
pub(crate) fn caveats(caveats: &[Caveat], page: &mut Page) {
    page.verdict("What limits this answer", Tone::Heading);
    for (at, caveat) in caveats.iter().enumerate() {
        // Both ends of a look meet the same blindness, with other counts.
        let is_reported = |earlier: &Caveat| earlier.code == caveat.code;
        if caveat.code.starts_with("blind.") && caveats[..at].iter().any(is_reported) {
            continue;
        }
        page.item(&escape::prose(&caveat.text, CAVEAT_WIDTH_MAX));
    }
}

/// The shortest window of which a share of a CPU is said.
const SHARE_WINDOW_SECONDS_MIN: f64 = 1.0;

/// One line on what it cost to look.
fn cost(cost: &ReportCost, window_seconds: f64) -> String {
    let mut parts = Vec::new();
    let cpu = figures::seconds(cost.cpu_seconds);
    let spent_seconds = cost.cpu_seconds + cost.bpf_seconds.unwrap_or(0.0);
    // To begin and to end a look takes CPU outside of its window: beside a short one a share says nothing.
    let share = match window_seconds < SHARE_WINDOW_SECONDS_MIN {
        true => String::new(),
        false => figures::share(spent_seconds, window_seconds),
    };
    let share = if share.is_empty() { share } else { format!(" ({share} of one CPU)") };
    parts.push(match cost.bpf_seconds {
        Some(bpf) => {
            format!("{cpu} of CPU and {} in its kernel programs{share}", figures::seconds(bpf))
        }
        None => format!("{cpu} of CPU{share}"),
    });
    parts.push(figures::bytes(cost.rss_bytes as f64));
    parts.push(match (cost.events, cost.events_lost) {
        (0, 0) => "no kernel events".into(),
        (events, 0) => format!("{} events, none lost", figures::count(events)),
        (events, lost) => {
            format!("{} events, {} lost", figures::count(events), figures::count(lost))
        }
    });
    if let Some(stacks) = cost.user_stacks.as_ref().filter(|it| it.left_out > 0) {
        parts.push(format!(
            "{} user stacks in {}, {} left out for want of time",
            figures::count(stacks.read),
            figures::seconds(stacks.cpu_seconds),
            figures::count(stacks.left_out),
        ));
    }
    let how = match cost.scheduling {
        Some(OwnScheduling::RoundRobin) => {
            " The CPUs were all taken: it ran at real-time priority."
        }
        Some(OwnScheduling::Deadline) => " The CPUs were all taken: it ran with a deadline.",
        Some(OwnScheduling::Nice) => " The CPUs were all taken: it ran at nice -20.",
        Some(OwnScheduling::GivenBack) => {
            " The CPUs were all taken: it had priority, and gave it back when it took too long."
        }
        Some(OwnScheduling::Ordinary) | None => "",
    };
    format!("Looking cost {}.{how}", parts.join(", "))
}
#[cfg(test)]
mod tests;
