//! A comparison as text: the verdict, both sides in a line each, every change with its seconds and share, what stayed.
//!
//! Written from the comparison object alone, as the report is. Must not: decide what is a change.
//!
//! Edit together: `reason/src/answer/compare/contract.rs`, docs/diff.md.

use super::escape;
use super::page::{Page, Tone};
use holdup_reason::answer::compare::{
    Change, Changed, Comparison, EndChange, Figure, Outcome, Side, Unit, floor_share,
};
use holdup_reason::answer::{ObjectName, Severity};
use holdup_reason::model::figures;

/// Three lines of verdict.
const TITLE_WIDTH_MAX: usize = 236;
/// Two lines of a side's own title.
const SIDE_WIDTH_MAX: usize = 140;
/// Columns of a recording's name.
const FILE_WIDTH_MAX: usize = 40;
/// Columns of an end's words.
const WORDS_WIDTH_MAX: usize = 120;
/// Rows of changes without -v.
const ROWS: usize = 12;
/// Ends that stayed, said by name.
const STAYED: usize = 3;
/// Caveats are one sentence each; this bounds one that is not.
const CAVEAT_WIDTH_MAX: usize = 320;

/// Writes the whole comparison.
pub(crate) fn render(comparison: &Comparison, verbose: bool, page: &mut Page) {
    let tone = match (comparison.verdict, comparison.is_worse) {
        (Outcome::Worse, true) => Tone::Critical,
        (Outcome::Worse, false) | (Outcome::Unknown | Outcome::Shifted, _) => Tone::Warning,
        (Outcome::Better | Outcome::Same, _) => Tone::Good,
    };
    page.verdict(&escape::prose(&comparison.title, TITLE_WIDTH_MAX), tone);
    sides("before", &comparison.before, verbose, page);
    sides("after", &comparison.after, verbose, page);
    findings(comparison, page);
    // A name that cannot be shown as it is must not be copied either.
    let last = comparison.after.last().map(|last| last.recording.as_str());
    if let Some(file) = last.filter(|file| escape::name(file, FILE_WIDTH_MAX) == **file) {
        page.command("more", &format!("holdup --from {}", escape::shell_word(file)));
    }
    changes(comparison, verbose, page);
    if verbose {
        parts(comparison, page);
    }
    page.gap();
    page.verdict("What limits this comparison", Tone::Heading);
    for caveat in &comparison.caveats {
        page.item(&escape::prose(&caveat.text, CAVEAT_WIDTH_MAX));
    }
    page.item(&noise(comparison));
}

/// What each look of a side said by itself; of several the last, or all.
fn sides(label: &str, sides: &[Side], verbose: bool, page: &mut Page) {
    let skipped = if verbose { 0 } else { sides.len().saturating_sub(1) };
    for (at, side) in sides.iter().enumerate().skip(skipped) {
        let title = escape::prose(&side.title, SIDE_WIDTH_MAX);
        let file = escape::name(&side.recording, FILE_WIDTH_MAX);
        let more = match skipped {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let label = if at == skipped { label } else { "" };
        page.labelled(label, &format!("{title} ({file}{more})"));
    }
}

/// Causes that came and went, by code.
fn findings(comparison: &Comparison, page: &mut Page) {
    let reported = [
        (Change::New, "new"),
        (Change::More, "worse"),
        (Change::Less, "better"),
        (Change::Gone, "gone"),
    ];
    for (change, label) in reported {
        let all = comparison.findings.iter().filter(|it| it.change == change);
        let words = all.map(|it| {
            let severity = match it.severity_after.or(it.severity_before) {
                Some(Severity::Critical) => "critical",
                Some(Severity::Warning) => "warning",
                Some(Severity::Note) | None => "note",
            };
            format!("{} ({severity})", escape::name(&it.code, FILE_WIDTH_MAX))
        });
        let words: Vec<String> = words.collect();
        if !words.is_empty() {
            page.labelled(label, &words.join(", "));
        }
    }
}

fn changes(comparison: &Comparison, verbose: bool, page: &mut Page) {
    let unit = comparison.unit;
    let (called, rest): (Vec<&EndChange>, Vec<&EndChange>) =
        comparison.ends.iter().partition(|it| it.changed.change.is_called());
    let (unknown, same): (Vec<&EndChange>, Vec<&EndChange>) =
        rest.into_iter().partition(|it| it.changed.change == Change::Unknown);
    page.gap();
    let heading = match unit {
        Unit::Seconds => "What changed, in seconds of the run and its share",
        Unit::SecondsPerSecond => "What changed, in seconds a second of the look and their share",
    };
    page.verdict(heading, Tone::Heading);
    let shown = if verbose { called.len() } else { ROWS };
    for end in called.iter().take(shown) {
        page.row(&figures(&end.changed, unit), &words(end, unit, verbose), Tone::Plain);
    }
    if let Some(more) = called.len().checked_sub(shown).filter(|more| *more > 0) {
        page.row(&" ".repeat(29), &format!("{more} smaller changes (-v)"), Tone::Faint);
    }
    page.row(&difference(&comparison.total, unit), &whole(comparison), Tone::Plain);
    let large = |end: &&EndChange| greatest(&end.changed) > comparison.floor;
    let hidden =
        unknown.iter().copied().filter(large).take(if verbose { usize::MAX } else { ROWS });
    for (at, end) in hidden.enumerate() {
        if at == 0 {
            page.gap();
            page.verdict("Not known whether it changed", Tone::Heading);
        }
        let why = escape::prose(end.why_unknown.as_deref().unwrap_or_default(), WORDS_WIDTH_MAX);
        page.item(&format!("{}: {why}", spoken(end, unit)));
    }
    stayed(&same, unit, verbose, page);
}

/// One line on all that stayed.
fn stayed(same: &[&EndChange], unit: Unit, verbose: bool, page: &mut Page) {
    let seen: Vec<&&EndChange> = same.iter().filter(|it| greatest(&it.changed) > 0.0).collect();
    if seen.is_empty() {
        return;
    }
    let count = if verbose { seen.len() } else { STAYED.min(seen.len()) };
    let mut words: Vec<String> = seen[..count].iter().map(|end| spoken(end, unit)).collect();
    let rest = &seen[count..];
    if !rest.is_empty() {
        let seconds: f64 = rest.iter().map(|it| greatest(&it.changed)).sum();
        words.push(format!("{} more ({})", rest.len(), amount(seconds, unit)));
    }
    page.gap();
    page.verdict(&format!("Did not change: {}.", words.join(", ")), Tone::Faint);
}

fn parts(comparison: &Comparison, page: &mut Page) {
    let called = comparison.parts.iter().filter(|it| it.changed.change.is_called());
    for (at, part) in called.enumerate() {
        if at == 0 {
            page.gap();
            page.verdict("Where the time went otherwise", Tone::Heading);
        }
        let name = object(&part.object);
        let words = match name.is_empty() || name == part.class {
            true => escape::name(&part.class, WORDS_WIDTH_MAX),
            false => format!("{}: {name}", escape::name(&part.class, WORDS_WIDTH_MAX)),
        };
        page.row(&figures(&part.changed, comparison.unit), &words, Tone::Plain);
    }
}

fn object(object: &ObjectName) -> String {
    escape::name(&object.name, WORDS_WIDTH_MAX)
}

/// The last row: the whole, which the changes add up to but for what is below the floor.
fn whole(comparison: &Comparison) -> String {
    let Changed { before, after, .. } = &comparison.total;
    let side = |figure: &Option<Figure>| match figure {
        Some(figure) => mean_and_range(figure, comparison.unit),
        None => "not known".into(),
    };
    let what = match comparison.unit {
        Unit::Seconds => "the wall time",
        Unit::SecondsPerSecond => "all that is lost to others",
    };
    format!("{what}: {} before, {} after", side(before), side(after))
}

fn words(end: &EndChange, unit: Unit, verbose: bool) -> String {
    let mut words = escape::prose(&end.words, WORDS_WIDTH_MAX);
    let seen = if end.changed.difference_is_least { "not seen before" } else { "new" };
    match end.changed.change {
        Change::New => words.push_str(&format!(" ({seen})")),
        Change::Gone => words.push_str(" (gone)"),
        _ => {}
    }
    if let (Some(before), Some(after)) = (&end.who_before, &end.who_after)
        && before.name != after.name
    {
        words.push_str(&format!(" (before: {})", escape::name(&before.name, FILE_WIDTH_MAX)));
    }
    if let Some(function) = end.who_after.as_ref().and_then(|after| after.function.as_ref()) {
        words.push_str(&format!(", most in {}", escape::name(function, FILE_WIDTH_MAX)));
    }
    if verbose {
        let side = |figure: &Option<Figure>| {
            figure.as_ref().map_or_else(|| "not known".into(), |it| mean_and_range(it, unit))
        };
        let Changed { before, after, .. } = &end.changed;
        words.push_str(&format!("; {} before, {} after", side(before), side(after)));
    }
    words
}

/// `work of sqlite3 (1.94 s)`.
fn spoken(end: &EndChange, unit: Unit) -> String {
    let words = escape::prose(&end.words, WORDS_WIDTH_MAX);
    format!("{words} ({})", amount(greatest(&end.changed), unit))
}

fn greatest(changed: &Changed) -> f64 {
    let mean = |figure: &Option<Figure>| figure.as_ref().map_or(0.0, |it| it.mean);
    mean(&changed.after).max(mean(&changed.before))
}

fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => figures::seconds(value),
        Unit::SecondsPerSecond => format!("{} a second", figures::seconds(value)),
    }
}

fn mean_and_range(figure: &Figure, unit: Unit) -> String {
    let mean = amount(figure.mean, unit);
    match figure.max - figure.min > 1e-9 {
        true => {
            format!("{mean} ({} to {})", figures::seconds(figure.min), figures::seconds(figure.max))
        }
        false => mean,
    }
}

/// The change, and the shares of both sides.
fn figures(changed: &Changed, unit: Unit) -> String {
    let share = |figure: &Option<Figure>| match figure {
        Some(figure) => format!("{:.0} %", 100.0 * figure.share),
        None => "?".into(),
    };
    let (was, is) = (share(&changed.before), share(&changed.after));
    format!("{}  {was:>5} -> {is:>5}", difference(changed, unit))
}

/// The change in one unit and as many decimals in every row, so that a reader can add them up.
fn difference(changed: &Changed, unit: Unit) -> String {
    let unit = if unit == Unit::Seconds { "s" } else { "s/s" };
    let difference = match changed.difference {
        None => "?".into(),
        Some(more) if changed.difference_is_least => {
            let sign = if more < 0.0 { "<" } else { ">" };
            format!("{sign}{more:+.3} {unit}")
        }
        Some(more) => format!("{more:+.3} {unit}"),
    };
    format!("{difference:>13}")
}

/// How much is called a change.
pub(crate) fn noise(comparison: &Comparison) -> String {
    let floor = amount(comparison.floor, comparison.unit);
    let (before, after) = (comparison.before.len(), comparison.after.len());
    let share = 100.0 * floor_share(before.min(after)).value;
    let Some(chance) = comparison.chance.filter(|_| before.min(after) > 1) else {
        return format!(
            "one recording on a side: what differs by less than {floor} ({share:.0} % of the whole) is called no \
             change, and what varies by more from run to run is not told from one; several tell (--before A B C \
             --after D E F)"
        );
    };
    format!(
        "{before} and {after} recordings: a change is what is larger in each of the one side than in any of the other, \
         by more than {floor}; {} of what did not change looks like that by chance",
        figures::share(chance, 1.0)
    )
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
