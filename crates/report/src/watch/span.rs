//! The answer of a span of the ring (`--from ring:21:10..21:14`): what was found in its windows, each once, with when it was first and last
//! found and the window in which it was worst.
//!
//! Windows stand beside their answer in short, so only the worst window of each finding is replayed, for its words. Must not: make one answer
//! of several windows (their seconds are not one another's), or read the disk beyond the ring. Rejected: all windows' answers one after
//! another (an hour has 360); a merged report (its ends would be those of no window).

use super::local_time::shown;
use super::ring::{self, Entry, EntryFinding, FOLDER};
use crate::failure::Failure;
use crate::text::escape;
use holdup_engine::over_time::is_same_trouble;
use holdup_reason::answer::{Finding, Severity};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Findings that are said, the worst of all.
const FOUND_MAX: usize = 30;

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
/// A time of day is the last one that has passed; but of a span that goes on, its end is the next one, if that is not so long after its begin that
/// the two were exchanged.
const AHEAD_NS_MAX: u64 = DAY_NS / 2;

/// What was found in some windows of a span.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    /// The finding's key.
    key: String,
    /// When the first window with it began, nanoseconds since 1970.
    first_unix_ns: u64,
    /// When the last one ended.
    last_unix_ns: u64,
    /// In how many windows it was found.
    windows: usize,
    /// The recording of the window in which it was worst.
    recording: String,
    /// When that began.
    worst_unix_ns: u64,
    /// The finding as it was there; none if that window does not give it any more, or cannot be read.
    finding: Option<Finding>,
    #[serde(skip)]
    badness: (Severity, f64),
}

/// The answer of a span.
#[derive(Debug, Serialize)]
pub(crate) struct Span {
    /// Nanoseconds since 1970.
    begin_unix_ns: u64,
    /// The same.
    end_unix_ns: u64,
    /// Windows of it that were saved.
    windows: usize,
    /// In order of time.
    findings: Vec<Found>,
    /// Findings that are not said, none of them worse than those that are.
    left_out: usize,
}

/// The two times of `ring:21:10..21:14`.
pub(crate) fn times(file: &Path) -> Option<(&str, &str)> {
    file.to_str()?.strip_prefix("ring:")?.split_once("..")
}

/// Answers for a span; `replay` gives what was found in a recording.
pub(crate) fn answer(
    state: &Path,
    (from, to): (&str, &str),
    mut replay: impl FnMut(&Path) -> Result<Vec<Finding>, Failure>,
) -> Result<Span, Failure> {
    let all = ring::list(state)?;
    let mut span = of(&all, (from, to), &TimeZone::system(), Timestamp::now()).map_err(|why| {
        let what = format!("cannot answer from ring:{from}..{to}: {why}");
        Failure::look(what, "`holdup ring` lists what was saved.")
    })?;
    let mut replayed: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for found in &mut span.findings {
        // It may be gone since the list was read: whoever watches makes room.
        let findings = replayed.entry(found.recording.clone()).or_insert_with(|| {
            replay(&state.join(FOLDER).join(&found.recording)).unwrap_or_default()
        });
        let is_it = |it: &&Finding| it.key == found.key || is_same_trouble(&it.key, &found.key);
        found.finding = findings.iter().find(is_it).cloned();
    }
    Ok(span)
}

fn of(
    all: &[Entry],
    (from, to): (&str, &str),
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Span, String> {
    let time = |word: &str| {
        let why = || {
            format!(
                "{word:?} is not a time; try 21:10..21:14, or 2026-11-26T21:10..2026-11-26T21:14"
            )
        };
        ring::span(word, zone, now).ok_or_else(why)
    };
    let (begin_unix_ns, mut end_unix_ns) = (time(from)?.0, time(to)?.1);
    let next_unix_ns = end_unix_ns + DAY_NS;
    let is_ahead = next_unix_ns > begin_unix_ns && next_unix_ns - begin_unix_ns <= AHEAD_NS_MAX;
    if end_unix_ns <= begin_unix_ns && is_ahead && !to.contains('T') {
        end_unix_ns = next_unix_ns;
    }
    if end_unix_ns <= begin_unix_ns {
        return Err(format!(
            "it ends ({}) before it begins ({}); a time of day is the last one that has passed",
            shown(end_unix_ns, zone),
            shown(begin_unix_ns, zone)
        ));
    }
    let is_in =
        |entry: &&Entry| entry.begin_unix_ns < end_unix_ns && entry.end_unix_ns() > begin_unix_ns;
    let windows: Vec<&Entry> = all.iter().filter(is_in).collect();
    if windows.is_empty() {
        return Err(ring::nothing_of(all, begin_unix_ns, end_unix_ns, zone));
    }
    // In order of time.
    let mut findings: Vec<Found> = Vec::new();
    for entry in &windows {
        for finding in &entry.findings {
            // Whoever did it may not have been seen in each of them.
            let is_it = |it: &Found| it.key == finding.key;
            let alike = |it: &Found| is_same_trouble(&it.key, &finding.key);
            let known = findings.iter().position(is_it).or_else(|| findings.iter().position(alike));
            match known {
                Some(known) => findings[known].also(entry, finding),
                None => findings.push(Found::of(entry, finding)),
            }
        }
    }
    let left_out = findings.len().saturating_sub(FOUND_MAX);
    let worse = |one: &Found, other: &Found| {
        let (one, other) = (one.badness, other.badness);
        other.0.cmp(&one.0).then_with(|| other.1.total_cmp(&one.1))
    };
    findings.sort_by(worse);
    findings.truncate(FOUND_MAX);
    findings.sort_by_key(|it| it.first_unix_ns);
    Ok(Span { begin_unix_ns, end_unix_ns, windows: windows.len(), findings, left_out })
}

impl Found {
    fn of(entry: &Entry, finding: &EntryFinding) -> Self {
        Self {
            key: finding.key.clone(),
            first_unix_ns: entry.begin_unix_ns,
            last_unix_ns: entry.end_unix_ns(),
            windows: 1,
            recording: entry.file.clone(),
            worst_unix_ns: entry.begin_unix_ns,
            finding: None,
            badness: (finding.severity, finding.lost_per_second),
        }
    }

    fn also(&mut self, entry: &Entry, finding: &EntryFinding) {
        self.windows += 1;
        self.last_unix_ns = entry.end_unix_ns();
        if finding.key.len() > self.key.len() {
            self.key.clone_from(&finding.key);
        }
        let badness = (finding.severity, finding.lost_per_second);
        // Of what costs no time yet the latest counts: it says how much is left.
        if badness > self.badness || (badness.1 <= 0.0 && badness >= self.badness) {
            self.badness = badness;
            self.recording.clone_from(&entry.file);
            self.worst_unix_ns = entry.begin_unix_ns;
        }
    }
}

impl Span {
    /// Whether something was found.
    pub(crate) fn has_found(&self) -> bool {
        !self.findings.is_empty()
    }

    /// Two lines a finding.
    pub(crate) fn render(&self) -> String {
        self.rendered(&TimeZone::system())
    }

    fn rendered(&self, zone: &TimeZone) -> String {
        let windows = |many| if many == 1 { "1 window".into() } else { format!("{many} windows") };
        let of = format!(
            "{} from {} to {}",
            windows(self.windows),
            shown(self.begin_unix_ns, zone),
            shown(self.end_unix_ns, zone)
        );
        if self.findings.is_empty() {
            return format!("Nothing above a note was found in {of}.\n");
        }
        let mut text = format!("Found in {of}:\n");
        for found in &self.findings {
            let title = found.finding.as_ref().map_or(&found.key, |it| &it.title);
            let code = found.key.split(' ').next().unwrap_or_default();
            text.push_str(&format!(
                "{} to {}  {}  ({})\n    in {}, worst: holdup --from ring:{}\n",
                shown(found.first_unix_ns, zone),
                shown(found.last_unix_ns, zone),
                escape::line(title),
                escape::line(code),
                windows(found.windows),
                shown(found.worst_unix_ns, zone).replace(' ', "T"),
            ));
        }
        if self.left_out > 0 {
            text.push_str(&format!(
                "Left out here, and none of them worse: {}. A shorter span has them.\n",
                self.left_out
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::answer::Verdict;

    /// A window of ten seconds that begins at a second after 01:00.
    fn entry(second: u64, findings: &[(&str, Severity, f64)]) -> Entry {
        let of = |(key, severity, lost_per_second): &(&str, Severity, f64)| EntryFinding {
            key: (*key).into(),
            severity: *severity,
            lost_per_second: *lost_per_second,
        };
        Entry {
            file: format!("{second}.hup"),
            begin_unix_ns: (3_600 + second) * 1_000_000_000,
            seconds: 10.0,
            verdict: Verdict::Held,
            title: "x".into(),
            findings: findings.iter().map(of).collect(),
            bytes: 1,
        }
    }

    fn asked(from: &str, to: &str) -> Result<Span, String> {
        use Severity::{Critical, Warning};
        let all = [
            entry(0, &[("lock.file on file /x", Warning, 0.5)]),
            entry(
                60,
                &[
                    ("disk.saturated on disk vda", Warning, 0.1),
                    ("lock.file on file /x", Critical, 0.4),
                ],
            ),
            entry(120, &[("lock.file on file /x by job", Warning, 0.9)]),
            entry(600, &[]),
        ];
        let now = Timestamp::from_second(12 * 3_600).expect("a time");
        of(&all, (from, to), &TimeZone::UTC, now)
    }

    #[test]
    fn each_finding_is_said_once_with_its_first_its_worst_and_its_last_window() {
        let span = asked("01:00", "01:02").expect("a span");
        let text = span.rendered(&TimeZone::UTC);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "Found in 3 windows from 1970-01-01 01:00:00 to 1970-01-01 01:03:00:",
                "1970-01-01 01:00:00 to 1970-01-01 01:02:10  lock.file on file /x by job  (lock.file)",
                "    in 3 windows, worst: holdup --from ring:1970-01-01T01:01:00",
                "1970-01-01 01:01:00 to 1970-01-01 01:01:10  disk.saturated on disk vda  (disk.saturated)",
                "    in 1 window, worst: holdup --from ring:1970-01-01T01:01:00",
            ]
        );
        assert!(span.has_found());
    }

    #[test]
    fn of_too_many_the_worst_are_said_in_order_of_time() {
        let names: Vec<String> =
            (0..=FOUND_MAX).map(|at| format!("lock.file on file /{at}")).collect();
        let windows = (0_u64..).zip(&names).map(|(at, name)| {
            let severity =
                if at == FOUND_MAX as u64 { Severity::Critical } else { Severity::Warning };
            entry(at * 10, &[(name, severity, if at == 7 { 0.1 } else { 0.5 })])
        });
        let all: Vec<Entry> = windows.collect();
        let now = Timestamp::from_second(12 * 3_600).expect("a time");
        let span = of(&all, ("01:00", "01:59"), &TimeZone::UTC, now).expect("a span");
        let keys: Vec<&str> = span.findings.iter().map(|it| &*it.key).collect();
        let expected: Vec<&str> =
            names.iter().map(|it| &**it).filter(|it| !it.ends_with("/7")).collect();
        assert_eq!((keys, span.left_out), (expected, 1));
        assert!(
            span.rendered(&TimeZone::UTC)
                .ends_with("none of them worse: 1. A shorter span has them.\n")
        );
    }

    #[test]
    fn what_costs_no_time_yet_is_said_as_it_was_last() {
        let all = [0, 60].map(|at| entry(at, &[("fs.space_trend on /x", Severity::Warning, 0.0)]));
        let now = Timestamp::from_second(12 * 3_600).expect("a time");
        let span = of(&all, ("01:00", "01:02"), &TimeZone::UTC, now).expect("a span");
        assert_eq!(span.findings[0].recording, "60.hup");
    }

    #[test]
    fn a_span_of_healthy_windows_has_found_nothing() {
        let span = asked("01:10", "01:20").expect("a span");
        assert!(!span.has_found());
        assert!(
            span.rendered(&TimeZone::UTC)
                .starts_with("Nothing above a note was found in 1 window from")
        );
    }

    #[test]
    fn a_span_that_is_none_says_why() {
        let why = |from, to| asked(from, to).expect_err("refused");
        assert!(
            why("01:02", "01:00").starts_with("it ends (1970-01-01 01:01:00) before it begins")
        );
        assert!(why("noon", "01:00").starts_with("\"noon\" is not a time"));
        assert!(why("01:05", "01:06").contains("there is 1970-01-01 01:02:00 before it"));
        assert!(why("01:05", "").starts_with("\"\" is not a time"));
    }

    #[test]
    fn a_span_may_end_ahead() {
        // At 01:01 of the second day, on which it is 01:02, or noon.
        const DAY: u64 = 24 * 3_600;
        let all = [entry(DAY + 60, &[])];
        let of = |from, to, second_of_day: i64| {
            let now = Timestamp::from_second(DAY as i64 + second_of_day).expect("a time");
            of(&all, (from, to), &TimeZone::UTC, now).map(|span| span.windows)
        };
        assert_eq!(of("01:00", "01:10", 3_720), Ok(1));
        assert_eq!(of("23:30", "02:00", 3_720), Ok(1), "since the evening before");
        assert!(of("01:02", "01:00", 12 * 3_600).is_err(), "the other way round");
    }

    #[test]
    fn times_are_those_of_a_span_alone() {
        assert_eq!(times(Path::new("ring:21:10..21:14")), Some(("21:10", "21:14")));
        assert_eq!(times(Path::new("ring:21:10")), None);
        assert_eq!(times(Path::new("a..b")), None);
    }
}
