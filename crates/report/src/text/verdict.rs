//! The verdict where no rule named a cause above a note: what the largest end is, and how it is reached.
//!
//! A look that saw no time says that instead. Must not: word what the report does not say (the title is the answer's), or
//! call a long idle time a wait.

use super::escape;
use super::finding::{chain_of, command, list_of, stacks, ways, without};
use super::page::{Page, Tone};
use holdup_reason::answer::picture::words;
use holdup_reason::answer::{Accounting, AnswerEnd, Caveat, EndKind, Report, Verdict};
use holdup_reason::facts::TargetKind;

/// Columns of a target's name; a command's words may be many.
const NAME_WIDTH_MAX: usize = 50;
/// Three lines of verdict.
const TITLE_WIDTH_MAX: usize = 236;
/// Ten lines of paragraph.
const TEXT_WIDTH_MAX: usize = 760;

/// Verdict, paragraph, the chain of the largest end, and what to ask the program itself.
pub(super) fn unnamed(report: &Report, verbose: bool, page: &mut Page) {
    let Accounting { wall_seconds, .. } = report.accounting;
    if wall_seconds <= 0.0 {
        let name = target(report);
        page.verdict(&format!("Nothing is known of {name}: no time was seen."), Tone::Warning);
        return;
    }
    let answer = &report.answer;
    let tone = match answer.verdict {
        Verdict::Works | Verdict::Idle => Tone::Good,
        Verdict::Held | Verdict::Waits => Tone::Warning,
    };
    let title = escape::prose(&answer.title, TITLE_WIDTH_MAX);
    match sees_less(report) && answer.verdict == Verdict::Idle {
        true => {
            let title = title.trim_end_matches('.');
            page.verdict(&format!("{title}, as far as holdup could see."), Tone::Warning);
        }
        false => page.verdict(&title, tone),
    }
    if !answer.text.is_empty() {
        page.paragraph(&escape::prose(&answer.text, TEXT_WIDTH_MAX));
    }
    if let Some(end) = answer.largest() {
        if end.chain.len() > 1 {
            page.joined("chain", &chain_of(&end.chain, page.columns_labelled()), " <- ");
        }
        if verbose {
            ways(&end.chain, page);
            stacks(&end.chain, page);
        }
        if answer.verdict == Verdict::Waits {
            without(&end.without_it, page);
        }
        if !end.ask.is_empty() && answer.verdict != Verdict::Idle {
            command(&end.ask, "ask", page);
        }
    }
}

/// One end alone: what it is, who waits, how it was reached, and what to ask.
pub(super) fn end(end: &AnswerEnd, page: &mut Page) {
    let words = escape::prose(&words::end(end, None), TITLE_WIDTH_MAX);
    page.verdict(&words, Tone::Heading);
    let victims = list_of(&end.victims);
    if !victims.is_empty() {
        // Who works may do so for itself.
        let label = if end.end == EndKind::Works { "for" } else { "waits" };
        page.labelled(label, &victims.join(", "));
    }
    if end.chain.len() > 1 {
        page.joined("chain", &chain_of(&end.chain, page.columns_labelled()), " <- ");
    }
    if let Some(why) = &end.why_open {
        page.labelled("open", &escape::prose(why, TEXT_WIDTH_MAX));
    }
    without(&end.without_it, page);
    if !end.ask.is_empty() {
        command(&end.ask, "ask", page);
    }
    ways(&end.chain, page);
    stacks(&end.chain, page);
}

/// Whether a caveat says that a cause may have been missed.
pub(crate) fn sees_less(report: &Report) -> bool {
    report.caveats.iter().any(hides)
}

/// Whether a cause may have been missed for it: all but what is about when, how much, what looking costs,
/// single processes of another namespace, who has no CPU because many have work, and who is waited for beside what is said.
pub(crate) fn hides(caveat: &Caveat) -> bool {
    let harmless = [
        "ended_early",
        "residual",
        "blind.netns",
        "blind.task_storage",
        "disk_starved",
        "cpu_full",
        "blind.user_stacks",
        "awaited",
    ];
    !harmless.contains(&caveat.code.as_str())
}

/// The target as a subject.
pub(crate) fn target(report: &Report) -> String {
    let name = escape::name(&report.target.name, NAME_WIDTH_MAX);
    match (report.target.kind, report.target.pid) {
        (TargetKind::Host, _) if name.is_empty() => "this host".into(),
        (TargetKind::Host, _) => name,
        (TargetKind::Container, _) => format!("container {name}"),
        (TargetKind::Process, Some(pid)) => format!("{name} {pid}"),
        (TargetKind::Process, None) => name,
        (TargetKind::Command, _) => format!("`{name}`"),
    }
}
