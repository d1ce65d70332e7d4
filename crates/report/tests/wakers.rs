//! Who ended a wait, beside what the waker itself says of it.
//!
//! A wake-up that seems to end a short wait keeps only who woke, where the next wake-up overwrites it, and the wait reads
//! it when it turns out to be long (bpf/wake.bpf.c): a word of an earlier wait must never be told for a later one. So one
//! thread wakes a sleeper often, and then, while it rests, another does, once, after long; each sends its own id along.
//! Without root there are no waits of this kind, and the test says so.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use serde_json::Value;
use std::io::{PipeWriter, Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Short waits before each long one.
const OFTEN: u32 = 60;
const BETWEEN: Duration = Duration::from_micros(100);
/// Long ones, of either waker.
const REST: Duration = Duration::from_millis(12);
const PAUSE: Duration = Duration::from_millis(3);
/// What a look's clock and the wall clock may differ by in a few seconds, and what no two long waits lie apart.
const TOLERANCE_NS: i64 = 1_000_000;

/// A message as it came: when, by whom, and when it was sent.
#[derive(Clone, Copy)]
struct Message {
    at_ns: i64,
    by: u64,
    sent_ns: i64,
}

fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262")
}

/// This thread's id, once it runs on this CPU.
fn placed(cpu: &str) -> u64 {
    let own = std::fs::read_link("/proc/thread-self").expect("procfs");
    let tid = own.file_name().and_then(|name| name.to_str()).expect("a number").to_owned();
    let placed = Command::new("taskset").args(["-cp", cpu, &tid]).output().expect("util-linux");
    assert!(placed.status.success(), "{placed:?}");
    tid.parse().expect("a number")
}

fn send(pipe: &mut PipeWriter, tid: u64) {
    let mut message = [0; 16];
    message[..8].copy_from_slice(&tid.to_ne_bytes());
    message[8..].copy_from_slice(&unix_ns().to_ne_bytes());
    pipe.write_all(&message).expect("somebody reads");
}

/// Reads until all writers are gone; tells its id, and what came.
fn sleeper(mut pipe: impl Read + Send + 'static, cpu: String) -> (u64, JoinHandle<Vec<Message>>) {
    let (sender, receiver) = mpsc::channel();
    let reads = std::thread::spawn(move || {
        sender.send(placed(&cpu)).expect("heard");
        let (mut message, mut all) = ([0; 16], Vec::new());
        while pipe.read_exact(&mut message).is_ok() {
            let at_ns = unix_ns();
            let (by, sent) = message.split_at(8);
            let by = u64::from_ne_bytes(by.try_into().expect("8"));
            let sent_ns = i64::from_ne_bytes(sent.try_into().expect("8"));
            all.push(Message { at_ns, by, sent_ns });
        }
        all
    });
    (receiver.recv().expect("it begins"), reads)
}

/// A thread that does its part whenever it is told to, and then tells the other.
fn waker(
    cpu: String,
    mut part: impl FnMut(u64) + Send + 'static,
    told: mpsc::Receiver<()>,
    other: mpsc::Sender<()>,
    ended: Arc<AtomicBool>,
) {
    std::thread::spawn(move || {
        let tid = placed(&cpu);
        while told.recv().is_ok() && !ended.load(Ordering::Relaxed) {
            part(tid);
            if other.send(()).is_err() {
                return;
            }
        }
    });
}

/// What a look tells of the sleeper's waits, and what the sleeper knows of them.
fn watch(often: &str, seldom: &str, asleep: &str) -> (Vec<Value>, i64, Vec<Message>) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let (tid, reads) = sleeper(reader, asleep.into());
    let ended = Arc::new(AtomicBool::new(false));
    let (begin, often_told) = mpsc::channel();
    let (to_seldom, seldom_told) = mpsc::channel();
    let mut pipe = writer.try_clone().expect("a descriptor");
    let bursts = move |tid| {
        for _ in 0..OFTEN {
            let since = Instant::now();
            while since.elapsed() < BETWEEN {}
            send(&mut pipe, tid);
        }
        std::thread::sleep(PAUSE);
        send(&mut pipe, tid);
    };
    waker(often.into(), bursts, often_told, to_seldom, ended.clone());
    let mut pipe = writer;
    let once = move |tid| {
        std::thread::sleep(REST);
        send(&mut pipe, tid);
    };
    waker(seldom.into(), once, seldom_told, begin.clone(), ended.clone());
    begin.send(()).expect("heard");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wakers.hup");
    let mut look = Command::new(env!("CARGO_BIN_EXE_holdup"));
    let told = look.args(["record", "--for", "3s"]).arg(&file).output().expect("holdup runs");
    assert!(told.status.success(), "{told:?}");
    ended.store(true, Ordering::Relaxed);
    drop(begin);
    let messages = reads.join().expect("it ends");
    let facts = Command::new(env!("CARGO_BIN_EXE_holdup")).arg("facts").arg(&file).output();
    let facts = String::from_utf8(facts.expect("holdup runs").stdout).expect("UTF-8");
    let facts: Vec<Value> =
        facts.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let host = facts.iter().find(|fact| fact["f"] == "host").expect("a host");
    let offset_ns = host["v"]["unix_offset_ns"].as_i64().expect("a number");
    let of_sleeper =
        |fact: &Value| fact["f"] == "wait" && fact["v"]["thread"]["tid"].as_u64() == Some(tid);
    let ended_by_somebody = |wait: &Value| !wait["wake"].is_null();
    let waits = facts.iter().filter(|fact| of_sleeper(fact)).map(|fact| fact["v"].clone());
    (waits.filter(ended_by_somebody).collect(), offset_ns, messages)
}

/// Whether holdup tells waits here, and the thread ids that it tells are ours.
fn is_seen() -> bool {
    let own = std::fs::metadata("/proc/self").expect("procfs");
    let root = std::os::unix::fs::MetadataExt::uid(&own) == 0;
    root && std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Of these, the long waits, each with the message that ended it: who sent it woke the sleeper, at that moment.
fn hold_against(waits: &[Value], offset_ns: i64, messages: &[Message]) -> usize {
    let number = |value: &Value| value.as_i64().expect("a number") + offset_ns;
    let mut seldom = 0;
    for wait in waits {
        let (begin_ns, end_ns) = (number(&wait["begin_ns"]), number(&wait["end_ns"]));
        let Some(message) = messages
            .iter()
            .filter(|message| message.at_ns > begin_ns + TOLERANCE_NS / 2)
            .find(|message| (message.at_ns - end_ns).abs() < TOLERANCE_NS)
        else {
            continue;
        };
        let (wake, told) = (&wait["wake"], number(&wait["wake"]["at_ns"]));
        assert_eq!(wake["by"]["tid"].as_u64(), Some(message.by), "{wait}");
        assert_eq!(wake["context"], "task", "{wait}");
        assert!(told >= message.sent_ns - TOLERANCE_NS && told <= end_ns, "{wait}");
        seldom += usize::from(
            messages.iter().filter(|it| it.by == message.by).count() < messages.len() / 2,
        );
    }
    seldom
}

#[test]
fn the_last_waker_is_told_and_not_the_usual_one() {
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
        let (waits, offset_ns, messages) = watch(often, seldom, asleep);
        let seldom = hold_against(&waits, offset_ns, &messages);
        // About 150 turns in 3 s; a busy machine has fewer.
        assert!(seldom >= 15, "{seldom} of {} waits, {} messages", waits.len(), messages.len());
    }
}
