//! `holdup diff` as it is typed: on recordings of the lab, on what is none, and with its exit status.
//!
//! What a comparison says is tested in the core; here only that it comes out, in text and JSON, and fails well; each recording
//! is compared with itself in src/recorded_tests/comparisons_tests.rs. Needs no root.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use holdup_reason::answer::compare::{Change, Comparison, Outcome};
use in_time::CommandInTime;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings").join(name)
}

fn diff(words: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.arg("diff").args(words).args(files).output_in_time().expect("holdup runs")
}

fn comparison(words: &[&str], files: &[&Path]) -> Comparison {
    let output = diff(words, files);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("a comparison")
}

#[test]
fn a_recording_is_as_it_was() {
    let file = recording("lock-file-run-4402.rec");
    let reported = comparison(&["--json"], &[&file, &file]);
    assert_eq!((reported.verdict, reported.is_worse, reported.first), (Outcome::Same, false, None));
    assert!(reported.ends.iter().all(|it| it.changed.change == Change::Same), "{reported:?}");
}

#[test]
fn a_healthy_and_a_held_host_differ_by_what_holds() {
    let (well, held) =
        (recording("healthy-memory-stream-53.rec"), recording("lock-file-convoy-4403.rec"));
    let reported = comparison(&["--json"], &[&well, &held]);
    assert_eq!((reported.verdict, reported.is_worse), (Outcome::Worse, true), "{}", reported.title);
    let first = &reported.ends[reported.first.expect("one")];
    assert_eq!(first.code_after.as_deref(), Some("lock.file"), "{}", reported.title);
    let worse = diff(&["--check"], &[&well, &held]);
    assert_eq!(worse.status.code(), Some(1));
    let better = diff(&["--check"], &[&held, &well]);
    assert_eq!(better.status.code(), Some(0), "{better:?}");
}

#[test]
fn another_kind_of_look_is_refused_and_nothing_is_written() {
    let (run, host) = (recording("lock-file-run-4402.rec"), recording("lock-file-convoy-4403.rec"));
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.txt");
    let output = diff(&["-o", out.to_str().expect("UTF-8")], &[&run, &host]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("of a command and") && error.contains("Record both in the same way"),
        "{error}"
    );
    assert!(!out.exists());
}

#[test]
fn a_comparison_never_overwrites_a_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.hup");
    std::fs::copy(recording("lock-file-run-4402.rec"), &copy).expect("copied");
    let length = std::fs::metadata(&copy).expect("there").len();
    let output = diff(&["-o", copy.to_str().expect("UTF-8")], &[&copy, &copy]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(std::fs::metadata(&copy).expect("there").len(), length);
}
