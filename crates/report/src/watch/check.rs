//! `holdup check`: one line and an exit status, as Nagios and Icinga ask their plugins.
//!
//! Whoever watches has the answer already, if its state is fresh; else a short look is taken. The line is that of the Monitoring Plugins
//! Development Guidelines: status, text, and behind a bar the figures; status 0 is well, 1 a warning, 2 critical, 3 not known. Must not: fail
//! in another way than by 3; say well of a host that it could not see.

use super::store::{self, State};
use crate::failure::Failure;
use crate::flags::groups::StateFlag;
use crate::job::Aim;
use crate::main_loop;
use crate::output::Output;
use crate::surface::{Surface, Typed};
use crate::text::escape;
use clap::Args;
use holdup_engine::over_time::Said;
use holdup_reason::Beside;
use holdup_reason::answer::{Report, Severity};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds after which the state of whoever watches says nothing about now: some windows of the longest.
const FRESH_SECONDS: f64 = 180.0;
/// Of a look that is taken because nobody watches.
const LOOK_SECONDS: f64 = 2.0;
/// Longer lines are cut by who shows them.
const TITLE_CHARACTERS: usize = 200;

/// Whose state is asked for.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 well, 1 warning, 2 critical, 3 not known. Asks whoever watches, if its state\nis fresh, else looks for 2 s.\n\nExample:\n  holdup check"
)]
pub(crate) struct Flags {
    #[command(flatten)]
    state: StateFlag,
}

impl Surface for Flags {
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        let state = self.state.folder();
        let checked = state.map_or_else(|failure| unknown(&failure.message()), |it| check(&it));
        Output::open(&typed.answer, false, None)?.raw(checked.line.as_bytes())?;
        Ok(checked.status)
    }
}

/// How the host is: as whoever watches knows it, else by a short look.
fn check(state: &Path) -> Checked {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = since_1970.map_or(0, |it| it.as_nanos() as u64);
    if let Some(checked) = of_watch(state, now_ns) {
        return checked;
    }
    match main_loop::look(Aim::Host, Some(LOOK_SECONDS), None, Beside::default()) {
        Ok(looked) => of_look(&looked.answered.report),
        Err(failure) => unknown(&failure.message()),
    }
}

/// What is reported, and how.
#[derive(Debug, PartialEq)]
struct Checked {
    /// One line.
    line: String,
    /// 0 to 3.
    status: u8,
}

/// What whoever watches has open; none if nobody does, or its state is old.
fn of_watch(folder: &Path, now_unix_ns: u64) -> Option<Checked> {
    store::watcher(folder).ok().flatten()?;
    let state = store::read_state(folder)?;
    is_fresh(&state, now_unix_ns).then(|| of(state.over_time.open().map(|(_, said)| said.clone())))
}

fn is_fresh(state: &State, now_unix_ns: u64) -> bool {
    (state.age_ns(now_unix_ns) as f64) < FRESH_SECONDS * 1e9
}

/// Of a look. One that could not see who waits knows of no trouble, and not that there is none.
fn of_look(report: &Report) -> Checked {
    let checked = of(report.findings.iter().map(Said::of));
    let blind = report.caveats.iter().find(|caveat| caveat.code == "blind.kernel_events");
    match blind {
        Some(blind) if checked.status == 0 => unknown(&format!(
            "nobody watches whose state this user may read, and a look does not see all who wait: {}",
            escape::prose(&blind.text, TITLE_CHARACTERS).replace('|', "/"),
        )),
        _ => checked,
    }
}

/// Of findings.
fn of(findings: impl Iterator<Item = Said>) -> Checked {
    let mut found: Vec<Said> = findings.filter(|it| it.severity > Severity::Note).collect();
    found.sort_by(|one, other| {
        let worse = other.severity.cmp(&one.severity);
        worse.then_with(|| other.lost_per_second.total_cmp(&one.lost_per_second))
    });
    // The sum of nothing is -0.
    let lost = found.iter().fold(0.0, |sum, it| sum + it.lost_per_second);
    let (word, status) = match found.first().map(|it| it.severity) {
        None => ("OK", 0),
        Some(Severity::Critical) => ("CRITICAL", 2),
        Some(_) => ("WARNING", 1),
    };
    // A bar begins the figures.
    let title = |it: &Said| escape::prose(&it.title, TITLE_CHARACTERS).replace('|', "/");
    let what = match found.as_slice() {
        [] => "nothing holds anybody up".to_string(),
        [only] => title(only),
        [first, rest @ ..] => format!("{} (and {} more)", title(first), rest.len()),
    };
    let count = found.len();
    Checked { line: format!("HOLDUP {word} - {what} | findings={count} lost={lost:.3}s\n"), status }
}

/// Why it is not known.
fn unknown(why: &str) -> Checked {
    // A message may have a line of advice; this has one line in all.
    let words: Vec<&str> = why.trim_start_matches("holdup: ").split_whitespace().collect();
    let why = escape::line(&words.join(" ")).replace('|', "/");
    Checked { line: format!("HOLDUP UNKNOWN - {why}\n"), status: 3 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::answer::Caveat;

    fn finding(severity: Severity, title: &str) -> Said {
        let text = include_str!("../../tests/reports/file_lock.json");
        let mut report: Report = serde_json::from_str(text).expect("a report");
        let mut finding = report.findings.remove(0);
        (finding.severity, finding.title) = (severity, title.into());
        finding.impact.wait_seconds_per_second = 0.5;
        Said::of(&finding)
    }

    #[test]
    fn the_worst_gives_the_status_and_figures_stand_behind_one_bar() {
        assert_eq!(
            of(std::iter::empty()).line,
            "HOLDUP OK - nothing holds anybody up | findings=0 lost=0.000s\n"
        );
        let all = [
            finding(Severity::Note, "n"),
            finding(Severity::Warning, "a waits"),
            finding(Severity::Critical, "b|c waits\n\u{1b}[31m"),
        ];
        let checked = of(all.into_iter());
        assert_eq!(checked.status, 2);
        assert_eq!(checked.line.matches('|').count(), 1);
        assert_eq!(checked.line.lines().count(), 1);
        assert!(checked.line.starts_with("HOLDUP CRITICAL - b/c waits"), "{}", checked.line);
        assert!(
            checked.line.ends_with("(and 1 more) | findings=2 lost=1.000s\n"),
            "{}",
            checked.line
        );
        assert!(!checked.line.contains('\u{1b}'));
        assert_eq!(unknown("holdup: cannot look: a|b").line, "HOLDUP UNKNOWN - cannot look: a/b\n");
        assert_eq!(unknown("holdup: no\n  Do it.\n").line, "HOLDUP UNKNOWN - no Do it.\n");
    }

    #[test]
    fn whoever_sees_no_waits_does_not_say_that_all_is_well() {
        let text = include_str!("../../tests/reports/file_lock.json");
        let mut report: Report = serde_json::from_str(text).expect("a report");
        report.caveats = vec![Caveat { code: "blind.kernel_events".into(), text: String::new() }];
        assert_eq!(of_look(&report).status, 2, "what it has found is so");
        report.findings.clear();
        assert_eq!(of_look(&report).status, 3);
        report.caveats.clear();
        assert_eq!(of_look(&report).status, 0);
    }

    #[test]
    fn an_old_state_says_nothing_about_now() {
        let state = State { looked_unix_ns: 1_000_000_000_000, ..State::default() };
        assert!(is_fresh(&state, 1_010_000_000_000));
        assert!(!is_fresh(&state, 1_200_000_000_000));
        // The clock was set back, and nobody has looked since.
        assert!(!is_fresh(&state, 500_000_000_000));
    }
}
