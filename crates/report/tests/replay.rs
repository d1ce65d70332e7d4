//! The binary on recordings, as an ordinary user has them: whole, cut short, damaged, from the future.
//!
//! What the answer says is the reasoning's to test; here it only has to be one, or to fail well.
//! Recordings are made here, not kept: a kept one could not be cut at every byte.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use holdup_probe::recording::Writer;
use holdup_reason::answer::Report;
use holdup_reason::facts::{Body, Cost, Fact, Host, Target, TargetKind, WindowBegin, WindowEnd};
use in_time::CommandInTime;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn holdup(arguments: &[&str]) -> Output {
    command(arguments).output_in_time().expect("holdup runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.args(arguments);
    command
}

fn facts() -> Vec<Fact> {
    let target = Target {
        kind: TargetKind::Host,
        name: "we\x1b[31mb".into(),
        pid: 0,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    [
        (1_000, Body::Host(Host { hostname: "we\x1b[31mb".into(), cpus: 2, ..Host::default() })),
        (1_000, Body::Target(target)),
        (1_000, Body::WindowBegin(WindowBegin { unix_ns: 1_795_232_580_000_000_000 })),
        (5_000_001_000, Body::WindowEnd(WindowEnd::default())),
        (5_000_001_000, Body::Cost(Cost { cpu_seconds: 0.5, ..Cost::default() })),
    ]
    .map(|(at_ns, body)| Fact { at_ns, body })
    .into()
}

fn recording(folder: &Path) -> PathBuf {
    let path = folder.join("whole.rec");
    let mut writer = Writer::create(&path).expect("created");
    writer.write(&facts()).expect("written");
    writer.finish().expect("finished");
    path
}

fn words(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn facts_are_printed_one_a_line_and_harmless() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recording(folder.path());
    let printed = holdup(&["facts", words(&path)]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let text = String::from_utf8(printed.stdout).expect("UTF-8");
    let read: Vec<Fact> =
        text.lines().map(|line| serde_json::from_str(line).expect("a fact")).collect();
    assert_eq!(read, facts());
    assert!(!text.chars().any(|it| it.is_control() && it != '\n'));
}

#[test]
fn text_and_json_answer_from_a_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recording(folder.path());
    let json = holdup(&["--from", words(&path), "--json"]);
    assert_eq!(json.status.code(), Some(0), "{json:?}");
    let report: Report = serde_json::from_slice(&json.stdout).expect("a report");
    assert_eq!(report.target.name, "we\x1b[31mb");
    assert_eq!(report.window.seconds, 5.0);
    let text = holdup(&["--from", words(&path)]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains(r"we\x1b[31mb") && !text.contains('\x1b'), "{text}");
    assert!(text.contains("Looking cost 500 ms of CPU"), "{text}");
}

#[test]
fn the_report_goes_where_it_should() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (recording(folder.path()), folder.path().join("report.txt"));
    std::fs::write(&out, "x".repeat(100_000)).expect("written");
    let answer = holdup(&["--from", words(&path), "-o", words(&out)]);
    assert!(answer.stdout.is_empty() && answer.stderr.is_empty(), "{answer:?}");
    let reported = std::fs::read(&out).expect("a report");
    assert_eq!(reported, holdup(&["--from", words(&path)]).stdout);
}

#[test]
fn a_failed_answer_leaves_the_last_report_and_no_empty_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old.txt"), folder.path().join("new.txt"));
    std::fs::write(&old, "the last report").expect("written");
    for out in [&old, &new] {
        let answer = holdup(&["--from", "/dev/null/none", "-o", words(out)]);
        assert_eq!(answer.status.code(), Some(3));
    }
    assert_eq!(std::fs::read_to_string(&old).expect("kept"), "the last report");
    assert!(!new.exists());
}

#[test]
fn a_recording_cut_short_is_answered_or_refused_but_never_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(recording(folder.path())).expect("bytes");
    let path = folder.path().join("cut.rec");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).expect("written");
        let answer = holdup(&["--from", words(&path)]);
        assert!(matches!(answer.status.code(), Some(0 | 3)), "{length}: {answer:?}");
        let error = String::from_utf8_lossy(&answer.stderr);
        assert!(!error.contains("panicked"), "{length}: {error}");
        // Within its first block, but not within zstd's own first words.
        if (16..whole.len() / 2).contains(&length) {
            assert!(error.contains("it is cut off before its first facts"), "{length}: {error}");
            assert!(error.contains("copy it again"), "{length}: {error}");
        }
    }
}

#[test]
fn damage_is_reported_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let header = r#"{"holdup_recording":1,"tool":"holdup 0.1.0"}"#;
    let newer = r#"{"holdup_recording":99,"tool":"holdup 9.0.0"}"#;
    let fact = r#"{"t":1,"f":"window_begin","v":{"unix_ns":1}}"#;
    for (lines, status, reported) in [
        (vec![header, fact], 0, ""),
        (vec![newer, fact], 3, "format 99 was written by a newer holdup 9.0.0"),
        (vec![header, fact, "{\x1b]0;pwned}"], 3, "line 3 is not a fact"),
        (vec![fact, header], 3, "no header line"),
    ] {
        let path = folder.path().join("x.rec");
        let text = lines.join("\n") + "\n";
        std::fs::write(&path, zstd::encode_all(text.as_bytes(), 1).expect("packed"))
            .expect("written");
        let answer = holdup(&["--from", words(&path)]);
        let error = String::from_utf8_lossy(&answer.stderr);
        assert_eq!(answer.status.code(), Some(status), "{lines:?}: {error}");
        assert!(error.contains(reported) && !error.contains('\x1b'), "{error:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let answer =
        command(&["completions", "bash"]).stdout(writer).output_in_time().expect("holdup runs");
    assert_eq!(answer.status.code(), Some(0));
    assert!(answer.stderr.is_empty(), "{answer:?}");
}

#[test]
fn a_full_disk_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recording(folder.path());
    let answer = holdup(&["--from", words(&path), "-o", "/dev/full"]);
    assert_eq!(answer.status.code(), Some(3));
    let error = String::from_utf8_lossy(&answer.stderr);
    assert!(error.contains("cannot write the report to /dev/full: no space left"), "{error}");
}

#[test]
fn a_page_stands_beside_the_answer_and_is_the_same_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recording(folder.path());
    let (beside, alone) = (folder.path().join("beside.html"), folder.path().join("alone.html"));
    let answer = holdup(&["--from", words(&path), "--page", words(&beside)]);
    assert_eq!(answer.stdout, holdup(&["--from", words(&path)]).stdout);
    let page = holdup(&["page", words(&path), "-o", words(&alone)]);
    assert!(page.status.success() && page.stdout.is_empty() && page.stderr.is_empty(), "{page:?}");
    let text = std::fs::read_to_string(&alone).expect("a page");
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    assert_eq!(text, std::fs::read_to_string(&beside).expect("a page"));
    assert_eq!(text.as_bytes(), holdup(&["page", words(&path)]).stdout);
}

#[test]
fn a_page_overwrites_neither_the_recording_nor_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recording(folder.path());
    let before = std::fs::read(&path).expect("bytes");
    let report = folder.path().join("report.txt");
    std::fs::write(&report, "the last report").expect("written");
    for arguments in [
        &["--from", words(&path), "--page", words(&path)][..],
        &["page", words(&path), "-o", words(&path)],
        &["--from", words(&path), "--page", words(&report), "-o", words(&report)],
        &["--from", words(&path), "--page", "-"],
    ] {
        let answer = holdup(arguments);
        assert_eq!(answer.status.code(), Some(2), "{arguments:?}: {answer:?}");
    }
    assert_eq!(std::fs::read(&path).expect("bytes"), before);
    assert_eq!(std::fs::read_to_string(&report).expect("kept"), "the last report");
}
