//! `holdup run` on a host whose CPUs are all taken: what holdup asks of the scheduler for itself is not the command's.
//!
//! What is granted depends on the user and the host; what the command inherits does not. How fast an answer comes is
//! not tested: no test here looks at a clock.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use holdup_reason::answer::Report;
use holdup_reason::facts::OwnScheduling;
use in_time::CommandInTime;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// More threads that compute than there are CPUs, until it is dropped.
struct Crowd(Arc<AtomicBool>);

impl Crowd {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cpus + 2 {
            let there = Arc::clone(&over);
            std::thread::spawn(move || while !there.load(Ordering::Relaxed) {});
        }
        Self(over)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a command that holdup runs says of itself: nice value, policy, limit on real time, locked memory.
const SAYS: &str = "cut -d' ' -f19,41 /proc/self/stat; grep realtime.timeout /proc/self/limits; \
                    grep VmLck /proc/self/status";

fn said_by(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output_in_time().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn said_under_holdup(before: &[&str]) -> (String, Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let file = path.to_str().expect("UTF-8");
    let holdup = [env!("CARGO_BIN_EXE_holdup"), "run", "--json", "-o", file, "--"];
    let words = [before, &holdup, &["sh", "-c", SAYS]].concat();
    let said = said_by(&words);
    let report = std::fs::read(path).expect("a report");
    (said, serde_json::from_slice(&report).expect("one JSON object"))
}

#[test]
fn a_command_inherits_nothing_of_it() {
    let _crowd = Crowd::start();
    let (said, report) = said_under_holdup(&[]);
    assert_eq!(said, said_by(&["sh", "-c", SAYS]));
    assert!(said.contains("0 kB"), "{said}");
    assert!(report.cost.scheduling.is_some() && report.cost.memory_locked.is_some());
}

#[test]
fn whoever_gives_holdup_less_weight_has_it_so_and_the_command_too() {
    let _crowd = Crowd::start();
    let (said, report) = said_under_holdup(&["nice", "-n", "5"]);
    assert_eq!(said, said_by(&["nice", "-n", "5", "sh", "-c", SAYS]));
    assert!(said.starts_with("5 0"), "{said}");
    assert_eq!(report.cost.scheduling, Some(OwnScheduling::Ordinary));
}
