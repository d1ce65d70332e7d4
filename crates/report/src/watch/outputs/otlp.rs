//! Events as log records of OpenTelemetry: OTLP over HTTP as JSON (logs.proto 1.x), posted to /v1/logs.
//!
//! Where to is said by collector.rs. What the collector says it may take later is tried again (429, 502, 503, 504); what it refuses for good is lost, and said. Edit together:
//! ../../export/otlp.rs (the same attributes of spans).

use super::message::Message;
use super::place::Url;
use super::post::{Answer, post};
use super::{Failed, Output, Taken, Work};
use crate::export::otlp::{fraction, text};
use holdup_engine::over_time::Happened;
use holdup_reason::answer::Severity;
use serde_json::{Value, json};

/// Statuses after which the same may be sent again (OTLP 1.x, "Failures").
const AGAIN: [u16; 4] = [429, 502, 503, 504];

/// See the head of the file.
pub(super) struct Otlp(pub(super) Url);

impl Output for Otlp {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        let Work::Event(message) = work else { return Ok(Taken::Sent) };
        let body = crate::text::escape::json(&body(message).to_string());
        let said = post(&self.0, &body);
        let answer =
            said.map_err(|why| Failed::Again(format!("{} takes nothing: {why}", self.0)))?;
        judge(&answer).map_err(|(why, is_for_good)| {
            let why = format!("{} {why}", self.0);
            if is_for_good { Failed::Never(why) } else { Failed::Again(why) }
        })
    }
}

/// Whether it was taken; else why not, and whether for good.
fn judge(answer: &Answer) -> Result<Taken, (String, bool)> {
    let status = answer.status;
    if !(200..300).contains(&status) {
        return Err((format!("answers with status {status}"), !AGAIN.contains(&status)));
    }
    // A body may be chunked: what lies around the braces is no JSON.
    let text = String::from_utf8_lossy(&answer.body);
    let inside = text.find('{').zip(text.rfind('}')).and_then(|(begin, end)| text.get(begin..=end));
    let said: Value = inside.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let rejected = said.pointer("/partialSuccess/rejectedLogRecords");
    // An int64 is a string in OTLP's JSON.
    let is_rejected = rejected.is_some_and(|it| {
        it.as_str().is_some_and(|it| it != "0") || it.as_u64().is_some_and(|it| it > 0)
    });
    match is_rejected {
        true => Err(("took the request and rejected the record".into(), true)),
        false => Ok(Taken::Sent),
    }
}

fn body(message: &Message) -> Value {
    let event = &message.event;
    let host = &message.host;
    let (severity, number) = match (event.event, event.said.severity) {
        (Happened::Ended, _) => ("INFO", 9),
        (_, Severity::Note) => ("INFO", 9),
        (_, Severity::Warning) => ("WARN", 13),
        (_, Severity::Critical) => ("ERROR", 17),
    };
    let mut attributes = vec![
        text("holdup.event", message.word()),
        text("holdup.code", &event.said.code),
        text("holdup.key", &event.key),
        text("holdup.severity", message.severity()),
        text("holdup.object.kind", &event.said.object.kind),
        text("holdup.object.name", &event.said.object.name),
        text("holdup.culprit.kind", message.text("/culprit/kind")),
        text("holdup.culprit.name", message.text("/culprit/name")),
        text("holdup.text", message.text("/text")),
        fraction("holdup.lost_seconds_per_second", event.said.lost_per_second),
    ];
    for (name, value) in [("holdup.was", &event.was), ("holdup.recording", &message.recording)] {
        attributes.extend(value.as_deref().map(|value| text(name, value)));
    }
    let at = event.at_unix_ns.to_string();
    json!({"resourceLogs": [{
        "resource": {"attributes": [
            text("service.name", "holdup"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("host.name", &host.name),
            text("host.id", &host.machine_id_hash),
            text("os.type", "linux"),
        ]},
        "scopeLogs": [{
            "scope": {"name": "holdup", "version": env!("CARGO_PKG_VERSION")},
            "logRecords": [{
                "timeUnixNano": at,
                "observedTimeUnixNano": at,
                "severityNumber": number,
                "severityText": severity,
                "eventName": format!("holdup.{}", message.word()),
                "body": {"stringValue": message.title()},
                "attributes": attributes,
            }],
        }],
    }]})
}

#[cfg(test)]
mod tests {
    use super::super::message::example;
    use super::*;

    #[test]
    fn an_event_is_a_log_record() {
        let body = body(&example(Happened::Began, "a waits", "/x\u{1b}"));
        let record = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(record["severityNumber"], 17);
        assert_eq!(record["timeUnixNano"], "1795232590000000000");
        let has =
            |value: Value| record["attributes"].as_array().is_some_and(|all| all.contains(&value));
        assert!(has(text("holdup.object.name", "/x\u{1b}")));
        assert!(has(text("holdup.culprit.name", "sleep")));
    }

    #[test]
    fn what_is_refused_for_good_is_not_sent_again() {
        let judged = |status: u16, body: &str| {
            judge(&Answer { status, body: body.as_bytes().to_vec() }).map(|_| ()).map_err(|it| it.1)
        };
        assert_eq!(judged(200, "{\"partialSuccess\":{}}"), Ok(()));
        assert_eq!(judged(200, "15\r\n{}\r\n0\r\n"), Ok(()));
        assert_eq!(judged(200, ""), Ok(()));
        assert_eq!(judged(200, "{\"partialSuccess\":{\"rejectedLogRecords\":\"1\"}}"), Err(true));
        assert_eq!((judged(503, ""), judged(404, "")), (Err(false), Err(true)));
    }
}
