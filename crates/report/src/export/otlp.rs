//! Spans of a command for OpenTelemetry: OTLP over HTTP as JSON (trace.proto 1.x), a body to be posted to /v1/traces.
//!
//! The command is the span below TRACEPARENT (W3C Trace Context), or the root of a trace of its own. Processes are spans below the one
//! that began them, waits below their process, and each wait is linked to the span of whoever had to act. Identities are computed
//! from the look, so that a recording gives the same spans again. Must not: send anything. Edit together: ../watch/outputs/otlp.rs.

use crate::failure::Failure;
use holdup_reason::answer::Report;
use holdup_reason::answer::export::{Export, Span, SpanKind};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The file.
pub(super) fn render(
    report: &Report,
    export: &Export,
    parent: Option<&str>,
) -> Result<Vec<u8>, Failure> {
    let Some(command) = export.spans.first() else {
        let why = "only a command has spans: this is a look at something else";
        let advice = "`holdup run --export otlp:FILE -- CMD`, or a recording of a command.";
        return Err(Failure::look(why, advice));
    };
    let parent = parent.and_then(Parent::read);
    let trace = parent.as_ref().map_or_else(|| own_trace(export), |parent| parent.trace.clone());
    let spans: Vec<Value> = export
        .spans
        .iter()
        .enumerate()
        .map(|(at, span)| {
            let above = match span.parent {
                Some(above) => id(export, above),
                None => parent.as_ref().map_or_else(String::new, |parent| parent.span.clone()),
            };
            let mut said = one(export, &trace, at, span);
            if !above.is_empty() {
                said["parentSpanId"] = json!(above);
            }
            if at == 0 {
                said["attributes"] = json!(of_command(report));
                said["status"] = json!({"code": status(report)});
            }
            said
        })
        .collect();
    let resource = vec![
        text("service.name", program(&command.name)),
        text("host.name", &export.host),
        number("process.pid", command.pid),
        text("process.command_line", &command.name),
    ];
    let file = json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": "holdup", "version": report.tool.version},
            "spans": spans,
        }],
    }]});
    super::json(&file).map(String::into_bytes)
}

/// What TRACEPARENT says: `00-TRACE-SPAN-FLAGS`.
struct Parent {
    trace: String,
    span: String,
}

impl Parent {
    fn read(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.trim().split('-').collect();
        let [version, trace, span, ..] = parts.as_slice() else { return None };
        let is_hex = |text: &str, length: usize| {
            text.len() == length
                && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
                && text.bytes().any(|b| b != b'0')
        };
        let known = version.len() == 2 && *version != "ff" && parts.len() >= 4;
        (known && is_hex(trace, 32) && is_hex(span, 16))
            .then(|| Self { trace: (*trace).into(), span: (*span).into() })
    }
}

fn hashed(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    // Zero is no identity.
    hasher.finish().max(1)
}

fn own_trace(export: &Export) -> String {
    let of = |half: u8| hashed((&export.host, export.begin_unix_ns, export.ns, half));
    format!("{:016x}{:016x}", of(0), of(1))
}

fn id(export: &Export, at: usize) -> String {
    format!("{:016x}", hashed((&export.host, export.begin_unix_ns, at)))
}

fn one(export: &Export, trace: &str, at: usize, span: &Span) -> Value {
    let time = |ns: u64| (export.begin_unix_ns + ns).to_string();
    let mut attributes = vec![number("process.pid", span.pid), number("thread.id", span.tid)];
    if span.kind == SpanKind::Wait {
        attributes.push(text("holdup.wait.class", span.class));
        attributes.push(text("holdup.wait.object", &span.object));
    }
    let mut said = json!({
        "traceId": trace,
        "spanId": id(export, at),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": time(span.begin_ns),
        "endTimeUnixNano": time(span.end_ns),
        "attributes": attributes,
    });
    if let Some(on) = span.waits_for {
        let relation = vec![text("holdup.relation", "waits for")];
        said["links"] =
            json!([{"traceId": trace, "spanId": id(export, on), "attributes": relation}]);
    }
    said
}

/// The answer, on the command's own span.
fn of_command(report: &Report) -> Vec<Value> {
    let mut all = vec![text("holdup.answer", &report.answer.title)];
    if let Some(finding) = report.findings.first() {
        all.push(text("holdup.code", &finding.code));
    }
    if let Some(status) = report.target.exit_status {
        all.push(json!({"key": "process.exit.code", "value": {"intValue": status.to_string()}}));
    }
    all
}

/// STATUS_CODE_ERROR of a command that failed.
fn status(report: &Report) -> u8 {
    if report.target.exit_status.unwrap_or(0) == 0 { 0 } else { 2 }
}

/// An attribute that is a string.
pub(crate) fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// An attribute that is a number with a fraction.
pub(crate) fn fraction(key: &str, value: f64) -> Value {
    json!({"key": key, "value": {"doubleValue": value}})
}

fn number(key: &str, value: u32) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// The command's program, without its folder.
fn program(words: &str) -> &str {
    let first = words.split(' ').next().unwrap_or(words);
    first.rsplit('/').next().unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_taken_as_it_is_or_not_at_all() {
        let right = Parent::read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let right = right.expect("W3C's own example");
        assert_eq!(right.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(right.span, "00f067aa0ba902b7");
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ] {
            assert!(Parent::read(wrong).is_none(), "{wrong}");
        }
        assert_eq!(program("/usr/bin/make -j4"), "make");
    }
}
