//! Who ended a wait, beside what the waker itself says of it.
//!
//! A wake-up that seems to end a short wait keeps only who woke, where the next wake-up overwrites it, and the wait reads
//! it when it turns out to be long (bpf/wake.bpf.c): the waker of an earlier wait must never be named for a later one. So
//! one thread wakes a sleeper often, and then, while it rests, another does, once, after long; each notes when it wrote.
//! Rejected: what the sleeper read as the truth. A write first leaves its bytes and then wakes, so a sleeper that is just
//! awake may read them, sleep again, be woken by that write for nothing, and find the next writer's bytes.
//! Without root there are no waits of this kind, and the test says so.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::CommandInTime;
use serde_json::Value;
use std::io::{PipeWriter, Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Short waits before each long one.
const OFTEN: u32 = 60;
const BETWEEN: Duration = Duration::from_micros(100);
/// Long ones, of either waker.
const REST: Duration = Duration::from_millis(12);
const PAUSE: Duration = Duration::from_millis(3);
/// Waits below it may be of a sleeper that was about to sleep.
const LONG_NS: i64 = 500_000;
/// By what a wake-up may be dated too early: the clocks of two CPUs, which the probe compares now and then.
const EARLY_NS: i64 = 50_000;
/// And too late: a wake-up counts from the switch out, which another CPU may date later (bpf/switch_clock.bpf.h).
const LATE_NS: i64 = 500_000;

/// One write: by whom, and between which moments. By CLOCK_MONOTONIC, as the facts.
#[derive(Clone, Copy)]
struct Written {
    by: u64,
    begin_ns: i64,
    end_ns: i64,
}

fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// This thread's id, once it runs on this CPU.
fn placed(cpu: &str) -> u64 {
    let own = std::fs::read_link("/proc/thread-self").expect("procfs");
    let tid = own.file_name().and_then(|name| name.to_str()).expect("a number").to_owned();
    let placed =
        Command::new("taskset").args(["-cp", cpu, &tid]).output_in_time().expect("util-linux");
    assert!(placed.status.success(), "{placed:?}");
    tid.parse().expect("a number")
}

fn write(pipe: &mut PipeWriter, by: u64, all: &Mutex<Vec<Written>>) {
    let begin_ns = now_ns();
    pipe.write_all(&[0]).expect("somebody reads");
    let written = Written { by, begin_ns, end_ns: now_ns() };
    all.lock().expect("nobody failed").push(written);
}

/// A thread that reads until all writers are gone; its id.
fn sleeper(mut pipe: impl Read + Send + 'static, cpu: String) -> u64 {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        sender.send(placed(&cpu)).expect("heard");
        while pipe.read_exact(&mut [0]).is_ok() {}
    });
    receiver.recv().expect("it begins")
}

/// A thread that does its part whenever it is told to, and then tells the other.
fn waker(
    cpu: String,
    mut part: impl FnMut(u64) + Send + 'static,
    asked: mpsc::Receiver<()>,
    other: mpsc::Sender<()>,
    ended: Arc<AtomicBool>,
) {
    std::thread::spawn(move || {
        let tid = placed(&cpu);
        while asked.recv().is_ok() && !ended.load(Ordering::Relaxed) {
            part(tid);
            if other.send(()).is_err() {
                return;
            }
        }
    });
}

/// The sleeper's waits as a look has them, and all writes.
fn watch(often: &str, seldom: &str, asleep: &str) -> (Vec<Value>, Vec<Written>) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let tid = sleeper(reader, asleep.into());
    let written = Arc::new(Mutex::new(Vec::new()));
    let ended = Arc::new(AtomicBool::new(false));
    let (begin, often_asked) = mpsc::channel();
    let (to_seldom, seldom_asked) = mpsc::channel();
    let (mut pipe, all) = (writer.try_clone().expect("a descriptor"), written.clone());
    let bursts = move |tid| {
        for _ in 0..OFTEN {
            let since = Instant::now();
            while since.elapsed() < BETWEEN {}
            write(&mut pipe, tid, &all);
        }
        std::thread::sleep(PAUSE);
        write(&mut pipe, tid, &all);
    };
    waker(often.into(), bursts, often_asked, to_seldom, ended.clone());
    let (mut pipe, all) = (writer, written.clone());
    let once = move |tid| {
        std::thread::sleep(REST);
        write(&mut pipe, tid, &all);
    };
    waker(seldom.into(), once, seldom_asked, begin.clone(), ended.clone());
    begin.send(()).expect("heard");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wakers.hup");
    let mut look = Command::new(env!("CARGO_BIN_EXE_holdup"));
    let reported =
        look.args(["record", "--for", "3s"]).arg(&file).output_in_time().expect("holdup runs");
    assert!(reported.status.success(), "{reported:?}");
    ended.store(true, Ordering::Relaxed);
    drop(begin);
    let facts = Command::new(env!("CARGO_BIN_EXE_holdup")).arg("facts").arg(&file).output_in_time();
    let facts = String::from_utf8(facts.expect("holdup runs").stdout).expect("UTF-8");
    let facts: Vec<Value> =
        facts.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_sleeper =
        |fact: &Value| fact["f"] == "wait" && fact["v"]["thread"]["tid"].as_u64() == Some(tid);
    let ended_by_somebody = |wait: &Value| !wait["wake"].is_null();
    let waits = facts.iter().filter(|fact| of_sleeper(fact)).map(|fact| fact["v"].clone());
    let waits = waits.filter(ended_by_somebody).collect();
    let written = written.lock().expect("nobody failed").clone();
    (waits, written)
}

/// Whether holdup tells waits here, and the thread ids that it tells are ours.
fn is_seen() -> bool {
    let own = std::fs::metadata("/proc/self").expect("procfs");
    let root = std::os::unix::fs::MetadataExt::uid(&own) == 0;
    root && std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Of these, the long ones, which name as waker who wrote at that moment: how many end by who seldom does.
///
/// Two of a hundred may not: a wake-up that the kernel programs took for one of a short wait is dated by when the scheduler
/// queued the thread, which on a machine whose CPU is taken away may be long after the write (wake.bpf.c), and rarely they cannot
/// read whom they remember. Whoever keeps an old waker, or the usual one, is wrong in half of them.
fn hold_against(waits: &[Value], written: &[Written]) -> usize {
    const STRANGE_PER_HUNDRED: usize = 2;
    let number = |value: &Value| value.as_i64().expect("a number");
    let (mut long, mut seldom, mut strange) = (0, 0, Vec::new());
    for wait in waits {
        let (begin_ns, end_ns) = (number(&wait["begin_ns"]), number(&wait["end_ns"]));
        if end_ns - begin_ns < LONG_NS || written.first().is_none_or(|it| it.begin_ns > begin_ns) {
            continue;
        }
        long += 1;
        let (wake, woken_ns) = (&wait["wake"], number(&wait["wake"]["at_ns"]));
        let by = wake["by"]["tid"].as_u64().expect("a waker");
        let mut at_that_moment = written
            .iter()
            .filter(|it| it.begin_ns - EARLY_NS <= woken_ns && woken_ns <= it.end_ns + LATE_NS);
        assert!(woken_ns <= end_ns, "{wait}");
        if wake["context"] != "task" || !at_that_moment.any(|it| it.by == by) {
            strange.push(wait);
            continue;
        }
        let writes = written.iter().filter(|it| it.by == by).count();
        seldom += usize::from(writes < written.len() / 2);
    }
    let first = strange.first();
    assert!(
        strange.len() * 100 <= long * STRANGE_PER_HUNDRED,
        "{} of {long}: {first:?}",
        strange.len()
    );
    seldom
}

#[test]
fn the_last_waker_is_named_and_not_the_usual_one() {
    if !is_seen() {
        println!("NOT tested: waits of single threads need root");
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let numbers = |list: &str| -> Vec<String> {
        let words = list.trim().split(['-', ',']);
        words.map(str::to_owned).collect()
    };
    let cpus = list.map(numbers).expect("CPUs");
    let (one, other) = (&cpus[0], cpus.get(1).unwrap_or(&cpus[0]));
    for (often, seldom, asleep) in [(one, other, other), (other, one, other), (one, one, other)] {
        let (waits, written) = watch(often, seldom, asleep);
        let seldom = hold_against(&waits, &written);
        // About 150 turns in 3 s; a busy machine has fewer.
        assert!(seldom >= 15, "{seldom} of {} waits, {} writes", waits.len(), written.len());
    }
}
