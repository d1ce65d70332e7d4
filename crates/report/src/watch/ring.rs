//! The ring on the disk: recordings of windows that are worth keeping, each beside its answer in short.
//!
//! A window is two files, `20261126T211410.250Z.hup` and the same with `.json`; the first is whole before the second is there, and
//! both are written aside and renamed, so that nothing torn is ever read. Which have to go when room is short is decided purely: first
//! the healthy, then of a finding that came again all but the first, the worst and the latest, then the oldest. Must not: look, or
//! wait for a disk in the thread that looks (store.rs writes).

use super::local_time::shown;
use super::settings::RingSettings;
use crate::failure::Failure;
use crate::flags::groups::{AnswerFlags, PrintFlags, StateFlag};
use crate::output::Output;
use crate::surface::{Surface, Typed};
use clap::Args;
use holdup_reason::answer::{Report, Severity, Verdict};
use holdup_reason::model::figures;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder in the state folder.
pub(crate) const FOLDER: &str = "ring";
const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Which ring to list.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holdup ring\n  holdup --from ring:21:14\n  holdup --from ring:2026-11-26T21:14:05 -v\n  holdup --from ring:21:10..21:14"
)]
pub(crate) struct Flags {
    #[command(flatten)]
    state: StateFlag,
    #[command(flatten)]
    print: PrintFlags,
}

impl Surface for Flags {
    fn answer(&mut self) -> AnswerFlags {
        std::mem::take(&mut self.print).into()
    }

    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        let state = self.state.folder()?;
        let all = list(&state)?;
        let out = Output::open(&typed.answer, false, None)?;
        if typed.answer.json {
            out.deliver(&all, |_| ())?;
        } else {
            out.raw(render(&all, &state).as_bytes())?;
        }
        Ok(0)
    }
}

/// A window that was saved, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Name of its recording.
    pub file: String,
    /// When it began, nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// Its length.
    pub seconds: f64,
    /// What its answer comes down to.
    pub verdict: Verdict,
    /// Its answer in a sentence.
    pub title: String,
    /// What was found above a note.
    pub findings: Vec<EntryFinding>,
    /// Size of the recording.
    pub bytes: u64,
}

/// What was found, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EntryFinding {
    /// The finding's key.
    pub key: String,
    /// How bad.
    pub severity: Severity,
    /// How much is lost a second, in seconds.
    pub lost_per_second: f64,
}

impl Entry {
    /// Of a window's answer.
    pub(crate) fn of(report: &Report, bytes: u64) -> Self {
        let pressing = report.findings.iter().filter(|it| it.severity > Severity::Note);
        let findings = pressing.map(|it| EntryFinding {
            key: it.key.clone(),
            severity: it.severity,
            lost_per_second: it.impact.wait_seconds_per_second,
        });
        Self {
            file: file_name(report.window.begin_unix_ns),
            begin_unix_ns: report.window.begin_unix_ns,
            seconds: report.window.seconds,
            verdict: report.answer.verdict,
            title: report.answer.title.clone(),
            findings: findings.collect(),
            bytes,
        }
    }

    /// When it ended.
    pub(crate) fn end_unix_ns(&self) -> u64 {
        self.begin_unix_ns + (self.seconds * 1e9) as u64
    }

    fn worst(&self) -> Option<(Severity, f64)> {
        let of = |it: &EntryFinding| (it.severity, it.lost_per_second);
        self.findings
            .iter()
            .map(of)
            .max_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.total_cmp(&other.1)))
    }
}

/// `20261126T211410.250Z.hup`: sorted by name is sorted by time.
fn file_name(unix_ns: u64) -> String {
    let at = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or_default();
    format!("{}.hup", at.strftime("%Y%m%dT%H%M%S%.3fZ"))
}

/// All windows that were saved, the oldest first. A file that cannot be read is left out.
pub(crate) fn list(state: &Path) -> Result<Vec<Entry>, Failure> {
    let folder = state.join(FOLDER);
    let read = match std::fs::read_dir(&folder) {
        Ok(read) => read,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && state.is_dir() => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Failure::file("read the ring", &folder, &error)),
    };
    let sidecars = read
        .flatten()
        .map(|it| it.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"));
    let entry = |path: PathBuf| -> Option<Entry> {
        let entry: Entry = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        // Its name is used as a path: of a sidecar that somebody else wrote nothing is believed.
        (path.with_extension("hup").file_name()?.to_str()? == entry.file).then_some(entry)
    };
    let mut all: Vec<Entry> = sidecars.filter_map(entry).collect();
    all.sort_by_key(|entry| entry.begin_unix_ns);
    Ok(all)
}

/// Which windows have to go so that the others are within the limits: their files, in the order of their going.
pub(crate) fn surplus(
    all: &[Entry],
    limits: &RingSettings,
    room: u64,
    now_unix_ns: u64,
) -> Vec<String> {
    let oldest_ns = now_unix_ns.saturating_sub(limits.days.saturating_mul(DAY_NS));
    let (old, mut rest): (Vec<&Entry>, Vec<&Entry>) =
        all.iter().partition(|entry| entry.end_unix_ns() < oldest_ns);
    let mut gone: Vec<String> = old.into_iter().map(|entry| entry.file.clone()).collect();
    let most = room.min(limits.mebibytes.saturating_mul(1 << 20));
    let mut bytes: u64 = rest.iter().map(|entry| entry.bytes).sum();
    if bytes <= most {
        return gone;
    }
    let worth = worth(&rest);
    // Stable: of the same worth the oldest first.
    let mut order: Vec<usize> = (0..rest.len()).collect();
    order.sort_by_key(|at| worth[*at]);
    for at in order {
        if bytes <= most {
            break;
        }
        bytes -= rest[at].bytes;
        gone.push(rest[at].file.clone());
    }
    rest.clear();
    gone
}

/// 0: nothing was found. 1: what was found was found before and after, and worse. 2: the first, the worst or the latest of something.
fn worth(all: &[&Entry]) -> Vec<u8> {
    let mut of_key: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    for (at, entry) in all.iter().enumerate() {
        for finding in &entry.findings {
            let known = of_key.entry(&finding.key).or_insert((at, at, at));
            if entry.worst() > all[known.1].worst() {
                known.1 = at;
            }
            known.2 = at;
        }
    }
    let mut worth: Vec<u8> = all.iter().map(|entry| u8::from(!entry.findings.is_empty())).collect();
    for (first, worst, latest) in of_key.into_values() {
        [first, worst, latest].into_iter().for_each(|at| worth[at] = 2);
    }
    worth
}

/// The window of a time such as `21:14`, `21:14:05`, `2026-11-26T21:14` or one with `Z`: of those of that minute or second the worst.
pub(crate) fn at<'a>(
    all: &'a [Entry],
    time: &str,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<&'a Entry, String> {
    if time.contains("..") {
        return Err(
            "a span is a list of what was found, of `holdup --from` alone; this takes one time"
                .into(),
        );
    }
    let (begin, end) = span(time, zone, now).ok_or("not a time; try 21:14, or 2026-11-26T21:14")?;
    let is_in = |entry: &&Entry| entry.begin_unix_ns < end && entry.end_unix_ns() > begin;
    let found = all.iter().filter(is_in).max_by(|one, other| {
        let of = |it: &Entry| (it.worst(), it.verdict == Verdict::Held);
        of(one).partial_cmp(&of(other)).unwrap_or(std::cmp::Ordering::Equal)
    });
    found.ok_or_else(|| nothing_of(all, begin, end, zone))
}

/// That there is no window of a time, and which are near.
pub(super) fn nothing_of(all: &[Entry], begin: u64, end: u64, zone: &TimeZone) -> String {
    let before = all.iter().rev().find(|entry| entry.end_unix_ns() <= begin);
    let after = all.iter().find(|entry| entry.begin_unix_ns >= end);
    let near = [("before it", before), ("after it", after)];
    let near = near
        .map(|(word, entry)| entry.map(|it| format!("{} {word}", shown(it.begin_unix_ns, zone))));
    match near.into_iter().flatten().collect::<Vec<_>>().join(" and ") {
        near if near.is_empty() => "no window was saved".to_string(),
        near => format!("no window of that time was saved; there is {near}"),
    }
}

/// Nanoseconds since 1970, from and to.
pub(super) fn span(time: &str, zone: &TimeZone, now: Timestamp) -> Option<(u64, u64)> {
    let of = |at: Timestamp| u64::try_from(at.as_nanosecond()).ok();
    // A minute, or a second if those are said.
    let has_seconds = time.matches(':').count() > 1;
    let length_ns = if has_seconds { 1_000_000_000 } else { 60_000_000_000 };
    let begin = if let Ok(at) = time.parse::<Timestamp>() {
        at
    } else if let Ok(civil) = time.parse::<DateTime>() {
        zone.to_timestamp(civil).ok()?
    } else {
        let clock: Time = time.parse().ok()?;
        let today = zone.to_datetime(now).date();
        let of_day = |day: jiff::civil::Date| zone.to_timestamp(day.to_datetime(clock)).ok();
        // A time of day that is still to come was yesterday.
        of_day(today)
            .filter(|at| *at <= now)
            .or_else(|| of_day(today.checked_sub(1.day()).ok()?))?
    };
    let begin = of(begin)?;
    Some((begin, begin + length_ns))
}

/// The recording of a time, as `--from ring:TIME` names it.
pub(crate) fn recording(state: &Path, time: &str) -> Result<PathBuf, Failure> {
    let all = list(state)?;
    let found = at(&all, time, &TimeZone::system(), Timestamp::now());
    let entry = found.map_err(|why| {
        Failure::look(
            format!("cannot answer from ring:{time}: {why}"),
            "`holdup ring` lists what was saved.",
        )
    })?;
    Ok(state.join(FOLDER).join(&entry.file))
}

/// A line a window.
fn render(all: &[Entry], state: &Path) -> String {
    if all.is_empty() {
        return format!("Nothing was saved in {}.\n", state.join(FOLDER).display());
    }
    let zone = TimeZone::system();
    let bytes: u64 = all.iter().map(|entry| entry.bytes).sum();
    let mut text = String::new();
    for entry in all {
        let title = crate::text::escape::line(&entry.title);
        let length = figures::seconds(entry.seconds);
        text.push_str(&format!("{}  {length:>7}  {title}\n", shown(entry.begin_unix_ns, &zone)));
    }
    let windows = figures::count(all.len() as u64);
    text.push_str(&format!("{windows} windows, {}\n", figures::bytes(bytes as f64)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(minute: u64, finding: Option<(&str, f64)>) -> Entry {
        let begin_unix_ns = minute * 60_000_000_000;
        let findings = finding.map(|(key, lost_per_second)| EntryFinding {
            key: key.into(),
            severity: Severity::Warning,
            lost_per_second,
        });
        Entry {
            file: file_name(begin_unix_ns),
            begin_unix_ns,
            seconds: 10.0,
            verdict: if findings.is_some() { Verdict::Held } else { Verdict::Idle },
            title: "x".into(),
            findings: findings.into_iter().collect(),
            bytes: 1 << 20,
        }
    }

    fn minutes(gone: &[String]) -> Vec<u64> {
        let of = |file: &String| {
            let at: Timestamp = DateTime::strptime("%Y%m%dT%H%M%S%.fZ.hup", file)
                .ok()
                .and_then(|it| TimeZone::UTC.to_timestamp(it).ok())
                .expect("a name");
            u64::try_from(at.as_second()).expect("after 1970") / 60
        };
        gone.iter().map(of).collect()
    }

    #[test]
    fn the_healthy_go_first_then_repeats_then_the_oldest() {
        let all = [
            entry(1, Some(("a", 0.5))),
            entry(2, None),
            entry(3, Some(("a", 0.9))),
            entry(4, Some(("a", 0.1))),
            entry(5, Some(("b", 0.1))),
            entry(6, Some(("a", 0.2))),
        ];
        let limits = RingSettings::default();
        let gone = |mebibytes: u64| {
            let limits = RingSettings { mebibytes, ..limits.clone() };
            minutes(&surplus(&all, &limits, u64::MAX, 0))
        };
        assert!(gone(6).is_empty());
        assert_eq!(gone(5), [2]);
        assert_eq!(gone(4), [2, 4]);
        assert_eq!(gone(3), [2, 4, 1]);
        assert_eq!(
            minutes(&surplus(&all, &limits, 5 << 20, 0)),
            [2],
            "room on the disk counts too"
        );
    }

    #[test]
    fn what_is_older_than_its_days_goes_whatever_it_is() {
        let all = [entry(1, Some(("a", 1.0))), entry(3_000, None)];
        let limits = RingSettings { days: 1, ..RingSettings::default() };
        let gone = surplus(&all, &limits, u64::MAX, 2 * DAY_NS);
        assert_eq!(minutes(&gone), [1]);
    }

    #[test]
    fn a_time_is_the_worst_window_of_its_minute_and_of_the_past() {
        let day = 1_700_000_000 / 86_400 * 1_440;
        let (mut first, worst) = (entry(day + 74, None), entry(day + 74, Some(("a", 0.5))));
        first.begin_unix_ns += 20_000_000_000;
        let all = [worst, first, entry(day + 100, None)];
        let now = Timestamp::from_second(((day + 200) * 60) as i64).expect("a time");
        let found = |time: &str| {
            at(&all, time, &TimeZone::UTC, now).map(|it| it.begin_unix_ns / 1_000_000_000)
        };
        assert_eq!(found("01:14"), Ok((day + 74) * 60));
        assert_eq!(found("01:14:25"), Ok((day + 74) * 60 + 20));
        assert_eq!(found("2023-11-14T01:40:05Z"), Ok((day + 100) * 60));
        let missing = found("01:20").expect_err("none");
        assert!(missing.contains("2023-11-14 01:14:20 before it"), "{missing}");
        assert!(missing.contains("2023-11-14 01:40:00 after it"), "{missing}");
        let tomorrow = found("23:00").expect_err("yesterday there was none");
        assert!(tomorrow.contains("after it"), "{tomorrow}");
        assert!(found("noon").is_err());
        assert!(found("01:14..01:20").expect_err("a span").contains("takes one time"));
    }
}
