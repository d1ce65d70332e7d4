//! A look that is ended from outside, or has no room for what it found: nothing is left behind, nothing is lost that can be
//! printed.
//!
//! What needs kernel programs is tested where they can be had, and the test says so elsewhere.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn holdup(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    holdup(arguments).output_in_time().expect("holdup runs")
}

/// Open files of a process that are kernel programs, by their numbers in the kernel.
fn programs(pid: u32) -> BTreeSet<u32> {
    let folder = format!("/proc/{pid}/fdinfo");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let number =
        |text: String| text.lines().find_map(|it| it.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(number).collect()
}

/// Whether a process has a handler for SIGTERM, by `SigCgt` of /proc/PID/status.
fn catches_signals(pid: u32) -> bool {
    const SIGTERM: u32 = 15;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGTERM - 1) & 1 == 1)
}

/// Waits until that holds, as long as a slow machine may take.
fn until(holds: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Whether the kernel still has one of these programs.
fn are_loaded(ids: &BTreeSet<u32>) -> bool {
    libbpf_rs::query::ProgInfoIter::default().any(|program| ids.contains(&program.id))
}

fn killed(mut child: Child) -> BTreeSet<u32> {
    let loaded = programs(child.id());
    child.kill().expect("it was there");
    child.wait_in_time().expect("it ended");
    loaded
}

#[test]
fn one_that_is_killed_leaves_no_program_and_no_half_of_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.txt");
    std::fs::write(&report, "the last report").expect("written");
    let path = report.to_str().expect("UTF-8");
    let child = holdup(&["--for", "60s", "-o", path]).spawn().expect("holdup runs");
    let pid = child.id();
    let looks = until(|| programs(pid).len() > 4);
    if !looks {
        eprintln!("no kernel programs can be had here: only the report is tested");
    }
    let loaded = killed(child);
    assert_eq!(std::fs::read_to_string(&report).expect("a file"), "the last report");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    assert!(until(|| !are_loaded(&loaded)), "{loaded:?} are still loaded");
}

#[test]
fn a_signal_to_end_prints_what_was_seen_so_far() {
    let child = holdup(&["--for", "60s"]).spawn().expect("holdup runs");
    until(|| catches_signals(child.id()));
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status_in_time();
    assert!(sent.expect("kill").success());
    let answer = child.wait_with_output_in_time().expect("it ends");
    let text = String::from_utf8_lossy(&answer.stdout);
    assert!(answer.status.success() && text.contains("What limits this answer"), "{answer:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = holdup(&["--for", "0.2s"]).spawn().expect("holdup runs");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("read");
    assert!(child.wait_in_time().expect("it ends").success() && said.is_empty(), "{said}");
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_answer() {
    if !Path::new("/dev/full").exists() {
        eprintln!("there is no /dev/full here: not tested");
        return;
    }
    let report = output(&["-o", "/dev/full", "--for", "0.2s"]);
    let said = String::from_utf8_lossy(&report.stderr);
    assert_eq!(report.status.code(), Some(3), "{said}");
    assert!(
        said.contains("Looking cost ") && said.contains("cannot write the report to /dev/full"),
        "{said}"
    );

    let recording = output(&["record", "/dev/full", "--for", "0.2s"]);
    let said = String::from_utf8_lossy(&recording.stderr);
    assert_eq!(recording.status.code(), Some(3), "{said}");
    assert!(String::from_utf8_lossy(&recording.stdout).contains("Looking cost "), "{recording:?}");
    assert!(said.contains("write /dev/full"), "{said}");

    let command = output(&["record", "/dev/full", "--", "sh", "-c", "echo mine; exit 7"]);
    assert_eq!(command.status.code(), Some(7), "{command:?}");
    assert_eq!(String::from_utf8_lossy(&command.stdout), "mine\n");
}
