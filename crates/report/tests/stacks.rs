//! Where a program waits, and what kind of lock it is, live: this test's own threads want a mutex that another one holds.
//!
//! The look is at this process, whose functions are known by name. It goes on meanwhile: nobody is stopped. Without root
//! there are no user stacks, and the test says so.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::CommandInTime;
use serde_json::Value;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

#[inline(never)]
fn wants_the_ledger(ledger: &Mutex<u64>) -> u64 {
    let mut sum = ledger.lock().expect("nobody panics");
    *sum += 1;
    std::hint::black_box(*sum)
}

fn is_seen() -> bool {
    let own = std::fs::metadata("/proc/self").expect("procfs");
    let root = std::os::unix::fs::MetadataExt::uid(&own) == 0;
    root && std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

fn holdup(arguments: &[&str]) -> String {
    let reported = Command::new(env!("CARGO_BIN_EXE_holdup")).args(arguments).output_in_time();
    let reported = reported.expect("holdup runs");
    assert!(reported.status.success(), "{reported:?}");
    String::from_utf8(reported.stdout).expect("UTF-8")
}

/// What holdup records of this process, while three of its threads want what is held.
fn recorded(file: &str) -> Vec<u64> {
    let ledger = Arc::new(Mutex::new(0));
    let held = ledger.lock().expect("nobody panics");
    let (sender, tids) = mpsc::channel();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (ledger, sender) = (Arc::clone(&ledger), sender.clone());
            std::thread::spawn(move || {
                let own = std::fs::read_link("/proc/thread-self").expect("procfs");
                let tid = own.file_name().and_then(|name| name.to_str()?.parse().ok());
                sender.send(tid.expect("a number")).expect("heard");
                wants_the_ledger(&ledger)
            })
        })
        .collect();
    let tids = tids.iter().take(3).collect();
    let pid = std::process::id().to_string();
    holdup(&["record", "--for", "2s", "-p", &pid, "--json", file]);
    drop(held);
    for waiter in waiters {
        waiter.join().expect("it ends");
    }
    tids
}

#[test]
fn a_mutex_is_named_as_one_and_by_who_wants_it() {
    if !is_seen() {
        println!("NOT tested: user stacks need root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stacks.hup");
    let file = file.to_str().expect("UTF-8");
    let tids = recorded(file);
    let facts = holdup(&["facts", file]);
    let facts: Vec<Value> =
        facts.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let stacks = facts.iter().filter(|fact| fact["f"] == "user_stack").map(|fact| &fact["v"]);
    let whole = stacks.filter(|stack| {
        let tid = stack["thread"]["tid"].as_u64();
        let frames = stack["frames"].as_array().expect("frames");
        let own = |frame: &Value| {
            frame["function"].as_str().is_some_and(|name| name.ends_with("wants_the_ledger"))
        };
        tid.is_some_and(|tid| tids.contains(&tid))
            && stack["complete"] == true
            && frames.iter().any(own)
    });
    assert_eq!(whole.count(), 3, "each of the waits, once");
    let report: Value = serde_json::from_str(&holdup(&["--from", file, "--json"])).expect("JSON");
    let first = &report["findings"][0];
    assert_eq!(first["code"], "lock.futex", "{report}");
    assert!(first["title"].as_str().is_some_and(|it| it.contains("a mutex")), "{first}");
    let link = &first["chain"][0];
    assert_eq!(link["lock_kind"], "mutex", "{first}");
    let function = link["who"]["function"].as_str().expect("a function");
    assert!(function.ends_with("wants_the_ledger"), "{function}");
    let reported = holdup(&["--from", file, "-v"]);
    assert!(reported.contains("stack ") && reported.contains("wants_the_ledger"), "{reported}");
}
