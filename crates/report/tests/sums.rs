//! A thread's sums beside what the kernel counts of it in /proc/PID/task/TID/schedstat.
//!
//! Short sleeps are not dated at their wake-up, so what of them was a wait for the CPU is the scheduler's own figure,
//! added later (bpf/sched.bpf.c). Whether it is added once, and to the right sum, is seen here and not in a recording.
//! Holds for any load: the look lies within two readings of /proc, so it may tell at most what they tell, and at least
//! that less the time around it. Without root there are no sums of this kind, and the test says so.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Clocks are slewed, and a sum is read while its thread goes on.
const TOLERANCE_NS: f64 = 2e7;

/// A thread on one CPU, which spins and sleeps by turns; its id.
fn at_work(ended: &Arc<AtomicBool>, cpu: &str, spin: Duration, sleep: Duration) -> u32 {
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
    let pinned = Command::new("taskset").args(["-cp", cpu, &tid.to_string()]).output();
    assert!(pinned.expect("util-linux").status.success());
    tid
}

/// The first CPU that the test may use.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let digits = |text: &str| text.trim().chars().take_while(char::is_ascii_digit).collect();
    list.map(digits).expect("a CPU")
}

/// Nanoseconds that a CPU was taken by interrupts and by the hypervisor: a thread's stretch on it has them, but the
/// scheduler does not count them as the thread's. /proc/stat, in ticks of 10 ms (USER_HZ).
fn taken(cpu: &str) -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("procfs");
    let words = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    let words: Vec<f64> = words
        .expect("a CPU")
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    words[5..8].iter().sum::<f64>() * 1e7
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
    let own = std::fs::metadata("/proc/self").expect("procfs");
    let root = std::os::unix::fs::MetadataExt::uid(&own) == 0;
    // The host's own: its number is fixed (PROC_PID_INIT_INO). Elsewhere threads have other ids than holdup tells.
    let outermost = std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|link| link.as_os_str() == "pid:[4026531836]");
    if !root || !outermost || !std::path::Path::new("/proc/self/schedstat").exists() {
        println!("NOT tested: the sums of threads need root on a host with schedstat");
        return;
    }
    let (ended, cpu) = (Arc::new(AtomicBool::new(false)), first_cpu());
    // More than one CPU can do: each waits for it after each sleep, and never long enough to be told.
    let turn = |()| at_work(&ended, &cpu, Duration::from_micros(60), Duration::from_micros(100));
    let all = [(); 6].map(turn);
    let tid = all[0];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sums.hup");
    let (since, taken_before, before) = (Instant::now(), taken(&cpu), schedstat(tid));
    let mut look = Command::new(env!("CARGO_BIN_EXE_holdup"));
    look.args(["record", "--for", "5s"]).arg(&file);
    let told = look.output().expect("holdup runs");
    let (span_ns, after) = (since.elapsed().as_secs_f64() * 1e9, schedstat(tid));
    let taken_ns = taken(&cpu) - taken_before;
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
    for (name, told_ns, counted_ns, more_ns) in [
        ("run", number("run_ns"), after[0] - before[0], taken_ns + TOLERANCE_NS),
        ("runnable", number("runnable_ns"), after[1] - before[1], TOLERANCE_NS),
    ] {
        let context = format!(
            "{name}: told {told_ns}, the scheduler {counted_ns}, around {around_ns}: {sums}"
        );
        assert!(told_ns <= counted_ns + more_ns, "{context}");
        assert!(told_ns >= counted_ns - around_ns, "{context}");
    }
    let known_ns =
        number("run_ns") + number("runnable_ns") + number("sleep_ns") + number("disk_sleep_ns");
    assert!((known_ns - window_ns).abs() <= TOLERANCE_NS, "{known_ns} of {window_ns}: {sums}");
    assert!(number("runnable_ns") > 0.0, "{sums}");
}
