//! `holdup net` on recordings of real faults: its figures are the facts' own, and its JSON is what docs/net.md says.
//!
//! The text is held in the crate's own tests (text/network_tests.rs). Must not: look at a host.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use holdup_reason::answer::network::{Interface, Network};
use holdup_reason::facts::{Body, Fact};
use in_time::CommandInTime;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/recordings/{name}.rec"))
}

fn holdup(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    let answer =
        command.args(arguments).arg("--from").arg(file).output_in_time().expect("holdup runs");
    assert_eq!(answer.status.code(), Some(0), "{answer:?}");
    answer
}

fn tables(name: &str) -> Network {
    let answer = holdup(&["net", "--json"], &recording(name));
    serde_json::from_slice(&answer.stdout).expect("the contract")
}

fn facts(name: &str) -> Vec<Fact> {
    let answer = Command::new(env!("CARGO_BIN_EXE_holdup"))
        .arg("facts")
        .arg(recording(name))
        .output_in_time()
        .expect("holdup runs");
    let text = String::from_utf8(answer.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a fact")).collect()
}

fn interface<'n>(net: &'n Network, name: &str) -> &'n Interface {
    let all = net.interfaces.as_ref().expect("interfaces were read");
    all.iter().find(|it| it.name == name).expect("it moved something")
}

#[test]
fn what_a_tap_lost_is_what_its_counter_and_the_drops_say() {
    let net = tables("net-tap-full-1");
    let counted: Vec<u64> = facts("net-tap-full-1")
        .iter()
        .filter_map(|fact| match &fact.body {
            Body::Link(link) if link.name == "tun1" => link.counters.get("tx_dropped").copied(),
            _ => None,
        })
        .collect();
    let grown = counted.last().zip(counted.first()).map(|(last, first)| last - first);
    let lost = interface(&net, "tun1").lost.iter().find(|it| it.counter == "tx_dropped");
    assert_eq!(lost.map(|it| it.packets), grown);
    let drops = net.drops.as_ref().expect("drops were counted");
    let full = drops.iter().find(|it| it.reason == "FULL_RING").expect("it is full");
    assert_eq!((full.packets, &*full.interface), (4588, "tun1"));
    let each = full.packets as f64 / net.window.seconds;
    assert!((full.per_second - each).abs() < 1e-9, "{full:?}");
    assert_eq!(net.findings.first().map(|it| &*it.code), Some("net.tap_full"));
}

#[test]
fn a_full_backlog_is_counted_by_cpu_as_well() {
    let net = tables("net-backlog-full-7");
    let counters = net.counters.as_ref().expect("counters were read");
    let of_cpu = counters.iter().find(|it| it.counter == "softnet.dropped.cpu1").expect("it grew");
    assert_eq!(of_cpu.count, 2_637_171 - 2_457_061);
    let drops = net.drops.as_ref().expect("drops were counted");
    let full: u64 = drops.iter().filter(|it| it.reason == "CPU_BACKLOG").map(|it| it.packets).sum();
    assert_eq!(full, 175_009 + 3);
}

#[test]
fn who_waits_for_a_packet_that_the_filter_dropped_is_named() {
    let net = tables("net-filter-drop-1");
    let drops = net.drops.as_ref().expect("drops were counted");
    let filtered = drops.iter().find(|it| it.reason == "NETFILTER_DROP").expect("it drops");
    assert!(filtered.waiting.iter().any(|it| it.wait_seconds > 1.0), "{filtered:#?}");
}

#[test]
fn an_option_of_the_look_and_a_recording_do_not_go_together() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    let answer =
        command.args(["--for", "1s", "net", "--from", "x"]).output_in_time().expect("holdup runs");
    assert_eq!(answer.status.code(), Some(2));
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    let answer = command.args(["net", "--from", "ring:21:10..21:14"]).output_in_time();
    let answer = answer.expect("holdup runs");
    assert_eq!(answer.status.code(), Some(2));
    let error = String::from_utf8_lossy(&answer.stderr);
    assert!(error.contains("not of a span of the ring"), "{error}");
}
