//! Time in each format is time in the answer, on every recording; and names that want to break a format are data in it.
//!
//! Files are read back here with the same messages that wrote them, and added up beside the accounting. Must not: stand for the real
//! readers, which may see a file otherwise (tests/exports/ opens each in its own).

use super::*;
use crate::job::Aim;
use crate::main_loop;
use crate::recorded_tests::{self as recorded, Recorded};
use holdup_reason::Beside;
use holdup_reason::answer::export::{Frame, FrameKind, WeightedStack};
use holdup_reason::answer::report::EndKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const EXPORTED: Beside = Beside { picture: false, export: true, look: false };

/// What rounding to nanoseconds may leave, seconds.
const ROUNDING: f64 = 1e-4;

/// Work, waits and idle time of the answer, seconds.
fn of_answer(report: &Report) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for part in &report.accounting.parts {
        let at = match part.class.as_str() {
            "running" => 0,
            "idle" => 2,
            _ => 1,
        };
        sums[at] += part.seconds;
    }
    sums
}

fn of_folded(bytes: &[u8]) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for line in std::str::from_utf8(bytes).expect("UTF-8").lines() {
        let (stack, ns) = line.rsplit_once(' ').expect("a weight");
        let at =
            ["on-CPU", "off-CPU", "idle"].iter().position(|it| stack.split(';').next() == Some(it));
        sums[at.expect("a sort")] += ns.parse::<u64>().expect("a number") as f64 / 1e9;
    }
    sums
}

fn of_speedscope(bytes: &[u8]) -> [f64; 3] {
    let file: Value = serde_json::from_slice(bytes).expect("JSON");
    let frames = file["shared"]["frames"].as_array().expect("frames").len() as u64;
    ["on-CPU", "off-CPU", "idle"].map(|wanted| {
        let profiles = file["profiles"].as_array().expect("profiles");
        let of_it = profiles.iter().filter(|profile| profile["name"] == wanted);
        let weights = of_it.flat_map(|profile| {
            let samples = profile["samples"].as_array().expect("samples");
            assert!(
                samples
                    .iter()
                    .flat_map(|it| it.as_array().expect("a stack"))
                    .all(|at| { at.as_u64().is_some_and(|at| at < frames) })
            );
            profile["weights"].as_array().expect("weights").iter().filter_map(Value::as_u64)
        });
        weights.sum::<u64>() as f64 / 1e9
    })
}

fn close(name: &str, path: &Path, made: [f64; 3], wanted: [f64; 3]) {
    for (made, wanted) in made.into_iter().zip(wanted) {
        let within = ROUNDING + wanted * 1e-6;
        assert!(
            (made - wanted).abs() <= within,
            "{name} of {}: {made} for {wanted}",
            path.display()
        );
    }
}

#[test]
fn the_time_in_every_format_is_the_time_in_the_answer() {
    for Recorded { path, explained, .. } in recorded::all() {
        let (report, export) = (&explained.report, explained.export.as_ref().expect("wanted"));
        let wanted = of_answer(report);
        let file = |format| render(format, report, export, None).expect("a file");
        close("folded", path, of_folded(&file(Format::Folded)), wanted);
        close("speedscope", path, of_speedscope(&file(Format::Speedscope)), wanted);
        close("pprof", path, pprof::sums(&file(Format::Pprof)), wanted);
        let lines = String::from_utf8(file(Format::Jsonl)).expect("UTF-8");
        let parsed: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let ends = parsed.iter().filter(|line| line["type"] == "end");
        let seconds: f64 = ends.filter_map(|line| line["seconds"].as_f64()).sum();
        assert!(
            (seconds - report.answer.demand_seconds).abs() < 1e-6 * (1.0 + seconds),
            "{}",
            path.display()
        );
        let tracks = perfetto::seconds_by_track(&file(Format::Perfetto));
        if export.spans.is_empty() {
            assert!(
                render(Format::Otlp, report, export, None).is_err(),
                "only a command has spans"
            );
            // Nobody does more than one thing at a time.
            let most = tracks.values().fold(0.0, |most: f64, seconds| most.max(*seconds));
            assert!(most <= report.window.seconds + ROUNDING, "{}: {most}", path.display());
            continue;
        }
        let wall = report.accounting.wall_seconds;
        assert!(
            (tracks[&1] - wall).abs() < ROUNDING,
            "{}: {} of {wall}",
            path.display(),
            tracks[&1]
        );
        spans_are_whole(path, &file(Format::Otlp), wall);
    }
}

fn spans_are_whole(path: &Path, bytes: &[u8], wall: f64) {
    let file: Value = serde_json::from_slice(bytes).expect("JSON");
    let spans =
        file["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    let time = |span: &Value, name: &str| -> u64 {
        span[name].as_str().and_then(|text| text.parse().ok()).expect("nanoseconds")
    };
    let ids: BTreeMap<&str, &Value> =
        spans.iter().map(|span| (span["spanId"].as_str().expect("an id"), span)).collect();
    assert_eq!(ids.len(), spans.len(), "{}: an id is there twice", path.display());
    let root = &spans[0];
    let length = time(root, "endTimeUnixNano") - time(root, "startTimeUnixNano");
    assert!((length as f64 / 1e9 - wall).abs() < ROUNDING, "{}", path.display());
    for span in &spans[1..] {
        assert!(ids.contains_key(span["parentSpanId"].as_str().expect("a parent")), "{span}");
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"));
        for link in span["links"].as_array().into_iter().flatten() {
            assert!(ids.contains_key(link["spanId"].as_str().expect("a span")), "{span}");
        }
    }
}

#[test]
fn the_waiter_s_span_is_linked_to_the_holder_s_below_the_parent_that_was_given() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings/lock-file-run-4402.rec");
    let answered = main_loop::replay(&path, &Aim::Host, EXPORTED).expect("an answer");
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let export = answered.exported().expect("wanted");
    let bytes = render(Format::Otlp, &answered.report, export, Some(parent)).expect("a file");
    let file: Value = serde_json::from_slice(&bytes).expect("JSON");
    let spans =
        file["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    assert_eq!(spans[0]["parentSpanId"], "00f067aa0ba902b7");
    assert!(spans.iter().all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let wait = spans.iter().find(|span| {
        span["attributes"].to_string().contains("file lock") && span["links"].is_array()
    });
    let linked = &wait.expect("a wait for the lock")["links"][0]["spanId"];
    let holder = spans.iter().find(|span| span["spanId"] == *linked).expect("the holder's");
    let finding = &answered.report.findings[0];
    let pid = format!("\"intValue\":\"{}\"", finding.culprit.pid.expect("a holder"));
    assert!(holder["attributes"].to_string().contains(&pid), "{holder}");
}

#[test]
fn hostile_names_are_data() {
    let names = ["a;b", "c\nd 5", "\u{1b}[31m", "</script>", "\u{202e}"];
    let stack = |name: &str| WeightedStack {
        frames: vec![Frame::new(FrameKind::Who, name), Frame::new(FrameKind::Wait, "waits")],
        class: "file lock",
        kind: EndKind::Lock,
        object: name.into(),
        culprit: Some(name.into()),
        pid: 1,
        ns: 7,
    };
    let export = Export {
        host: names[0].into(),
        begin_unix_ns: 0,
        ns: 35,
        stacks: names.map(stack).to_vec(),
        tracks: Vec::new(),
        spans: Vec::new(),
        left_out: Vec::new(),
    };
    let folded = String::from_utf8(folded::render(&export)).expect("UTF-8");
    assert_eq!(folded.lines().count(), names.len());
    for line in folded.lines() {
        assert_eq!(line.split(';').count(), 3, "{line}");
        assert!(line.ends_with(" 7") && !line.contains('\u{1b}'), "{line}");
    }
    let delay = pprof::sums(&pprof::render(&export).expect("a file"))[1];
    assert!((delay - 35e-9).abs() < 1e-15, "{delay}");
}
