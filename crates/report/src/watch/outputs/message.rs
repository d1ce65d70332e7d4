//! An event on its way to outputs: what all of them say of it, in the words of each protocol.
//!
//! Made once an event, and shared. Names in it are anybody's: what goes into a line for people has passed escape.rs, what is a field is as
//! it is. Must not: send.

use super::super::event_line::Line;
use crate::text::escape;
use holdup_engine::over_time::{Event, Happened};
use holdup_reason::answer::{ReportHost, Severity};
use holdup_reason::model::figures;
use serde_json::Value;

/// Longer titles are cut where they have to be a line.
const TITLE_WIDTH: usize = 300;

/// See the head of the file.
#[derive(Debug, Clone)]
pub(in super::super) struct Message {
    /// What happened.
    pub event: Event,
    /// Its number.
    pub sequence: u64,
    /// Where.
    pub host: ReportHost,
    /// The recording of the window that showed it, in the ring.
    pub recording: Option<String>,
    /// The finding, to be looked into.
    pub finding: Value,
    /// The line of the day's findings.
    pub line: String,
}

impl Message {
    /// Of an event, and the line about it.
    pub(in super::super) fn of(event: &Event, line: &Line) -> Self {
        Self {
            event: event.clone(),
            sequence: line.sequence,
            host: line.host.clone(),
            recording: line.recording.clone(),
            finding: serde_json::from_str(event.said.finding.get()).unwrap_or_default(),
            line: serde_json::to_string(line).unwrap_or_default(),
        }
    }

    /// `began`, as in the day's findings.
    pub(super) fn word(&self) -> &'static str {
        word(self.event.event)
    }

    /// `critical`, as in the JSON.
    pub(super) fn severity(&self) -> &'static str {
        severity(self.event.said.severity)
    }

    /// Severity of syslog(3): what has ended is information.
    pub(super) fn priority(&self) -> u8 {
        match (self.event.event, self.event.said.severity) {
            (Happened::Ended, _) => 6,
            (_, Severity::Critical) => 2,
            (_, Severity::Warning) => 4,
            (_, Severity::Note) => 5,
        }
    }

    /// A line for people.
    pub(super) fn title(&self) -> String {
        let title = escape::prose(&self.event.said.title, TITLE_WIDTH);
        match self.event.event {
            Happened::Began => title,
            Happened::Changed => format!("changed: {title}"),
            Happened::Ended => format!("ended after {}: {title}", self.lasted()),
            Happened::Flapping => format!("comes and goes: {title}"),
        }
    }

    /// For how long it was there.
    pub(super) fn lasted(&self) -> String {
        let ns = self.event.until_unix_ns.saturating_sub(self.event.since_unix_ns);
        figures::seconds(ns as f64 / 1e9)
    }

    /// A text of the finding, by its JSON Pointer; empty if it has none.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.finding.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// As in the day's findings.
pub(super) fn word(event: Happened) -> &'static str {
    match event {
        Happened::Began => "began",
        Happened::Changed => "changed",
        Happened::Ended => "ended",
        Happened::Flapping => "flapping",
    }
}

/// As in the JSON.
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// For tests: an event with these names.
#[cfg(test)]
pub(super) fn example(event: Happened, title: &str, object: &str) -> Message {
    use holdup_engine::over_time::Said;
    use holdup_reason::answer::Report;
    let text = include_str!("../../../tests/reports/file_lock.json");
    let mut report: Report = serde_json::from_str(text).expect("a report");
    let mut finding = report.findings.remove(0);
    (finding.title, finding.object.name) = (title.into(), object.into());
    finding.key = format!("lock.file on file {object} by sleep");
    report.host.name = "web-1".into();
    report.host.machine_id_hash = "0123".into();
    let event = Event {
        event,
        key: finding.key.clone(),
        at_unix_ns: 1_795_232_590_000_000_000,
        since_unix_ns: 1_795_232_580_000_000_000,
        until_unix_ns: 1_795_232_590_000_000_000,
        windows: 2,
        was: None,
        said: Said::of(&finding),
    };
    let recording = Some("20261121T034300.000Z.hup".to_string());
    Message::of(&event, &Line::of(7, &event, report.host, recording))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_says_what_happened_and_holds_no_control_character() {
        let ended = example(Happened::Ended, "a\n\u{1b}[31mb waits", "/x");
        assert_eq!(ended.title(), "ended after 10 s: a\\n\\x1b[31mb waits");
        assert_eq!((ended.word(), ended.severity(), ended.priority()), ("ended", "critical", 6));
        assert_eq!(example(Happened::Began, "a waits", "/x").priority(), 2);
        assert_eq!(ended.text("/culprit/name"), "sleep");
        assert_eq!(ended.text("/no/such"), "");
    }
}
