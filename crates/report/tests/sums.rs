//! A thread's sums beside what the kernel counts of it in /proc/PID/task/TID/schedstat.
//!
//! Short waits are not dated at their wake-up, so what of them was for the CPU is the scheduler's own figure, added later
//! (bpf/sched.bpf.c). Whether it is added once, and to the right sum, is seen here and not in a recording.
//! Holds for any load: the look lies within two readings of /proc, so it may tell at most what they tell, and at least
//! that less the time around it. Without root there are no sums of this kind, and the test says so.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::CommandInTime;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;

/// Clocks are slewed, and a sum is read while its thread goes on.
const TOLERANCE_NS: f64 = 2e7;

/// A thread on one CPU, which spins and waits by turns; its id.
fn at_work(ended: &Arc<AtomicBool>, cpu: &str, spin: Duration, wait: impl Wait) -> u32 {
    let ended = ended.clone();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let own = std::fs::read_link("/proc/thread-self").expect("procfs");
        let tid = own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        sender.send(tid).expect("heard");
        while !ended.load(Ordering::Relaxed) {
            let since = Instant::now();
            while since.elapsed() < spin {}
            wait();
        }
    });
    let tid: u32 = receiver.recv().expect("it begins");
    let pinned = Command::new("taskset").args(["-cp", cpu, &tid.to_string()]).output_in_time();
    assert!(pinned.expect("util-linux").status.success());
    tid
}

trait Wait: Fn() + Send + 'static {}
impl<F: Fn() + Send + 'static> Wait for F {}

/// Past the cache: an uninterruptible wait for the disk.
fn read_block(file: &File) -> std::io::Result<()> {
    let mut room = vec![0; 2 * BLOCK_BYTES];
    let at = room.as_ptr().align_offset(BLOCK_BYTES);
    file.read_exact_at(&mut room[at..at + BLOCK_BYTES], 0)
}

/// A file of one block that is read past the cache, if its file system can do that.
fn uncached() -> Option<Arc<File>> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("block");
    std::fs::write(&path, vec![0x5a; BLOCK_BYTES]).expect("a file");
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path).ok()?;
    read_block(&direct).ok()?;
    Some(Arc::new(direct))
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

/// Whether there are sums, and something to hold them against.
fn is_seen() -> bool {
    let own = std::fs::metadata("/proc/self").expect("procfs");
    let root = std::os::unix::fs::MetadataExt::uid(&own) == 0;
    // The host's own: its number is fixed (PROC_PID_INIT_INO). Elsewhere threads have other ids than holdup tells.
    let outermost = std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|link| link.as_os_str() == "pid:[4026531836]");
    root && outermost && std::path::Path::new("/proc/self/schedstat").exists()
}

#[test]
fn sums_are_what_the_scheduler_counts() {
    if !is_seen() {
        println!("NOT tested: the sums of threads need root on a host with schedstat");
        return;
    }
    let sums = sums_of(|| || std::thread::sleep(Duration::from_micros(100)));
    assert!(ns(&sums, "disk_sleep") < ns(&sums, "sleep"), "{sums}");
    let Some(file) = uncached() else {
        println!("NOT tested: waits for a disk need a file system with O_DIRECT");
        return;
    };
    let sums = sums_of(|| {
        let file = file.clone();
        move || read_block(&file).expect("a block")
    });
    assert!(ns(&sums, "disk_sleep") > ns(&sums, "sleep"), "{sums}");
    // Which of its blocked time is for I/O is reported beside, not added.
    let blocked_ns = ns(&sums, "disk_sleep") + ns(&sums, "sleep");
    assert!(ns(&sums, "iowait") > 0.0 && ns(&sums, "iowait") <= blocked_ns, "{sums}");
    // What of both kinds was for a CPU is found in one figure of the scheduler's.
    let sums = sums_of(|| {
        let file = file.clone();
        move || {
            read_block(&file).expect("a block");
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    assert!(ns(&sums, "disk_sleep") > 0.0 && ns(&sums, "sleep") > 0.0, "{sums}");
}

fn ns(sums: &Value, name: &str) -> f64 {
    sums[format!("{name}_ns")].as_f64().expect("a number")
}

/// What a look tells of a thread that waits so, after it was held against the scheduler's figures.
fn sums_of<W: Wait>(wait: impl Fn() -> W) -> Value {
    let (ended, cpu) = (Arc::new(AtomicBool::new(false)), first_cpu());
    // More than one CPU can do: each waits for it after each wait, mostly too short to be reported.
    let turn = |()| at_work(&ended, &cpu, Duration::from_micros(60), wait());
    let all = [(); 6].map(turn);
    let tid = all[0];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sums.hup");
    let (since, taken_before, before) = (Instant::now(), taken(&cpu), schedstat(tid));
    let mut look = Command::new(env!("CARGO_BIN_EXE_holdup"));
    look.args(["record", "--for", "5s"]).arg(&file);
    let reported = look.output_in_time().expect("holdup runs");
    let (span_ns, after) = (since.elapsed().as_secs_f64() * 1e9, schedstat(tid));
    let taken_ns = taken(&cpu) - taken_before;
    ended.store(true, Ordering::Relaxed);
    assert!(reported.status.success(), "{reported:?}");

    let facts = Command::new(env!("CARGO_BIN_EXE_holdup")).arg("facts").arg(&file).output_in_time();
    let facts = String::from_utf8(facts.expect("holdup runs").stdout).expect("UTF-8");
    let sums = facts
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .rfind(|fact| fact["f"] == "thread_time" && fact["v"]["thread"]["tid"] == tid)
        .expect("the sums of the thread")["v"]
        .clone();
    let window_ns = ns(&sums, "until") - ns(&sums, "since");
    let around_ns = span_ns - window_ns + TOLERANCE_NS;
    for (name, reported_ns, counted_ns, more_ns) in [
        ("run", ns(&sums, "run"), after[0] - before[0], taken_ns + TOLERANCE_NS),
        ("runnable", ns(&sums, "runnable"), after[1] - before[1], TOLERANCE_NS),
    ] {
        let context = format!(
            "{name}: reported {reported_ns}, the scheduler {counted_ns}, around {around_ns}: {sums}"
        );
        assert!(reported_ns <= counted_ns + more_ns, "{context}");
        assert!(reported_ns >= counted_ns - around_ns, "{context}");
    }
    let known_ns =
        ns(&sums, "run") + ns(&sums, "runnable") + ns(&sums, "sleep") + ns(&sums, "disk_sleep");
    assert!((known_ns - window_ns).abs() <= TOLERANCE_NS, "{known_ns} of {window_ns}: {sums}");
    assert!(ns(&sums, "runnable") > 0.0, "{sums}");
    sums
}
