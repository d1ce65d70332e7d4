//! A thread's sums beside what the kernel counts of it in /proc/PID/task/TID/schedstat.
//!
//! Short sleeps are not dated at their wake-up, so what of them was a wait for the CPU is the scheduler's own figure, added
//! later (bpf/sched.bpf.c). Whether it is added once, and to the right sum, is seen here and not in a recording. Holds for
//! any load: the look lies within two readings of /proc, so it may tell at most what they tell, and at least that less the
//! time around it. Without root there are no sums of this kind, and the test says so.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Clocks are slewed, and a sum is read while its thread goes on.
const TOLERANCE_NS: f64 = 2e7;

/// A thread on the first CPU that it may use, which spins and sleeps by turns; its id.
fn at_work(ended: &Arc<AtomicBool>, spin: Duration, sleep: Duration) -> u32 {
    let ended = ended.clone();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let own = std::fs::read_link("/proc/thread-self").expect("procfs");
        let tid = own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        sender.send(tid).expect("heard");
        while !ended.load(Ordering::Relaxed) {
            let since = Instant::now();
            while since.elapsed() < spin {}
            std::thread::sleep(sleep);
        }
    });
    let tid: u32 = receiver.recv().expect("it begins");
    let pinned = Command::new("taskset").args(["-cp", "0", &tid.to_string()]).output();
    assert!(pinned.expect("util-linux").status.success());
    tid
}

/// Nanoseconds that it ran and waited for a CPU.
fn schedstat(tid: u32) -> [f64; 2] {
    let text =
        std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).expect("schedstat");
    let mut words = text.split_whitespace().map(|word| word.parse().expect("a number"));
    [words.next().expect("two"), words.next().expect("two")]
}

#[test]
fn sums_are_what_the_scheduler_counts() {
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root || !std::path::Path::new("/proc/self/schedstat").exists() {
        println!("NOT tested: the sums of threads need root and a kernel with schedstat");
        return;
    }
    let ended = Arc::new(AtomicBool::new(false));
    // More than one CPU can do: each waits for it after each sleep.
    let all =
        [(); 6].map(|()| at_work(&ended, Duration::from_micros(300), Duration::from_micros(700)));
    let tid = all[0];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sums.hup");
    let (since, before) = (Instant::now(), schedstat(tid));
    let mut look = Command::new(env!("CARGO_BIN_EXE_holdup"));
    look.args(["record", "--for", "2s"]).arg(&file);
    let told = look.output().expect("holdup runs");
    let (span_ns, after) = (since.elapsed().as_secs_f64() * 1e9, schedstat(tid));
    ended.store(true, Ordering::Relaxed);
    assert!(told.status.success(), "{told:?}");

    let facts = Command::new(env!("CARGO_BIN_EXE_holdup")).arg("facts").arg(&file).output();
    let facts = String::from_utf8(facts.expect("holdup runs").stdout).expect("UTF-8");
    let sums = facts
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .rfind(|fact| fact["f"] == "thread_time" && fact["v"]["thread"]["tid"] == tid)
        .expect("the sums of the thread")["v"]
        .clone();
    let number = |name: &str| sums[name].as_f64().expect("a number");
    let window_ns = number("until_ns") - number("since_ns");
    let around_ns = span_ns - window_ns + TOLERANCE_NS;
    for (name, told_ns, counted_ns) in [
        ("run", number("run_ns"), after[0] - before[0]),
        ("runnable", number("runnable_ns"), after[1] - before[1]),
    ] {
        let context = format!(
            "{name}: told {told_ns}, the scheduler {counted_ns}, around {around_ns}: {sums}"
        );
        assert!(told_ns <= counted_ns + TOLERANCE_NS, "{context}");
        assert!(told_ns >= counted_ns - around_ns, "{context}");
    }
    let known_ns =
        number("run_ns") + number("runnable_ns") + number("sleep_ns") + number("disk_sleep_ns");
    assert!(known_ns <= window_ns + TOLERANCE_NS, "{known_ns} of {window_ns}: {sums}");
    assert!(number("runnable_ns") > 0.0, "{sums}");
}
