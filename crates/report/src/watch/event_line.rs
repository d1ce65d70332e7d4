//! A line of `findings-DAY.jsonl`: what happened to a trouble, or to an output that is to reach somebody with it.
//!
//! The contract of docs/watch.md: fields are only added. The finding is the text that it is, because nobody here looks into it. Must not:
//! write. Edit together: docs/watch.md, store.rs (which reads lines again after a crash).

use holdup_engine::over_time::{Event, Happened, Said};
use holdup_reason::answer::{ObjectName, ReportHost, SCHEMA, Severity};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A line about a trouble.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Line {
    /// Version of the JSON contract.
    pub schema: u32,
    /// Number of the event: one more for each.
    pub sequence: u64,
    /// What happened.
    pub event: Happened,
    /// The finding's key.
    pub key: String,
    /// Of a change, the key before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// When this was said, the end of a window; nanoseconds since 1970, as all of them.
    pub at_unix_ns: u64,
    /// When the trouble was first found.
    pub since_unix_ns: u64,
    /// When it was last found.
    pub until_unix_ns: u64,
    /// In how many windows it was found.
    pub windows: u64,
    /// Where it happened.
    pub host: ReportHost,
    /// The recording of the window that showed it, in the ring; absent if it could not be held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The finding, as docs/json.md has it.
    pub finding: Box<RawValue>,
}

impl Line {
    /// Of an event.
    pub(super) fn of(
        sequence: u64,
        event: &Event,
        host: ReportHost,
        recording: Option<String>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            sequence,
            event: event.event,
            key: event.key.clone(),
            was: event.was.clone(),
            at_unix_ns: event.at_unix_ns,
            since_unix_ns: event.since_unix_ns,
            until_unix_ns: event.until_unix_ns,
            windows: event.windows,
            host,
            recording,
            finding: event.said.finding.clone(),
        }
    }

    /// The event that it says; none if its finding is not one.
    pub(super) fn event(self) -> Option<Event> {
        /// What of a finding is asked for again.
        #[derive(Deserialize)]
        struct Brief {
            code: String,
            title: String,
            object: ObjectName,
            severity: Severity,
            impact: BriefImpact,
        }
        #[derive(Deserialize)]
        struct BriefImpact {
            wait_seconds_per_second: f64,
        }
        let Brief { code, title, object, severity, impact } =
            serde_json::from_slice(self.finding.get().as_bytes()).ok()?;
        let lost_per_second = impact.wait_seconds_per_second;
        let said = Said { code, title, object, severity, lost_per_second, finding: self.finding };
        Some(Event {
            event: self.event,
            key: self.key,
            at_unix_ns: self.at_unix_ns,
            since_unix_ns: self.since_unix_ns,
            until_unix_ns: self.until_unix_ns,
            windows: self.windows,
            was: self.was,
            said,
        })
    }
}

/// The number of any line, whatever else it says.
#[derive(Deserialize)]
pub(super) struct Numbered {
    /// As in [`Line`].
    pub sequence: u64,
}

/// A line about an output.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OutputLine<'a> {
    /// As in [`Line`].
    pub schema: u32,
    /// As in [`Line`].
    pub sequence: u64,
    /// `output_failed` or `output_restored`.
    pub event: &'static str,
    /// `hook`, `mail`, ...
    pub output: &'static str,
    /// Why, or how much was lost meanwhile.
    pub text: &'a str,
    /// When this was said.
    pub at_unix_ns: u64,
    /// Where.
    pub host: &'a ReportHost,
}
