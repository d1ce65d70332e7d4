//! Scenes of disk.own_throttle in which bios are seen held back, and such in which others wait for a group's pages.
//!
//! Owns what the rule says of requests that pass in no reading of the counters; own_throttle.rs has the tests of its refutations beside itself. Must
//! not: make facts in a way of its own (scenes.rs does). Rejected: one file, which would have been past 600 lines.

use super::scenes::*;
use crate::answer::explain;
use crate::answer::report::Finding;
use crate::facts::*;
use crate::rules::scenes::{fact, reads_from, thread};

const IDLE: Rate = Rate { per_second: 40, ms: 1, in_flight: 0, busy: 5 };
const OFTEN: &[(Ns, Ns)] = &[(0, 1_200), (1_300, 2_500), (2_600, 3_800), (3_900, 4_990)];

/// Next to nothing of the group's limit of writes is used, and somebody of it waits in a call while so many bios are held back.
fn held_back(rate: Rate, bios: u32, syscall: &str, wrote: u64) -> Vec<Fact> {
    let held_back = Some(HeldBack { dev: Some(DEV), bios });
    let place = Place { held_back, syscall: syscall.into(), ..reads_from(DEV) };
    let mut facts = [disk(named("sda"), rate), group("/g", DEV, 8, wrote)].concat();
    facts.push(member(10, "app", "/g"));
    facts.extend(waits(thread(10, "app"), false, &place, OFTEN));
    facts
}

/// Another limit of the same group.
fn also_limited(mut facts: Vec<Fact>, kind: &str, file: &str) -> Vec<Fact> {
    for fact in &mut facts {
        if let Body::Cgroup(group) = &mut fact.body {
            let (kind, file) = (kind.into(), file.into());
            let more = IoLimit { kind, file, per_second: 1 << 20, ..group.io_limits[0].clone() };
            group.io_limits.insert(0, more);
        }
    }
    facts
}

/// Somebody outside of the group waits until pages are written.
fn waits_for_pages(pid: u32, syscall: &str, by: &str) -> Vec<Fact> {
    let frames = ["folio_wait_writeback", by].map(String::from).to_vec();
    let stack = fact(Body::Stack(Stack { id: 73, frames }));
    let place = Place { stack: 73, syscall: syscall.into(), ..reads_from(DEV) };
    [vec![stack], waits(thread(pid, "sync"), false, &place, OFTEN)].concat()
}

fn syncs(pid: u32) -> Vec<Fact> {
    waits_for_pages(pid, "syncfs", "sync_inodes_sb")
}

fn throttled(facts: Vec<Fact>) -> Option<Finding> {
    explain(facts).findings.into_iter().find(|found| found.code == "disk.own_throttle")
}

#[test]
fn a_request_that_no_slice_lets_through_is_seen_held_back() {
    let held = |bios| {
        let facts = [held_back(IDLE, bios, "fsync", 1), syncs(30)].concat();
        let findings = explain(facts).findings;
        findings.iter().map(|found| found.victims.len()).collect::<Vec<_>>()
    };
    assert_eq!(held(1), [2], "and who waits for its pages");
    assert!(held(0).is_empty());
}

#[test]
fn what_is_held_back_of_a_reader_is_not_held_by_a_limit_of_writes() {
    assert_eq!(throttled(held_back(IDLE, 1, "pread64", 1)), None);
    let read = "blkio.throttle.read_bps_device";
    let found = throttled(also_limited(held_back(IDLE, 1, "pread64", 1), "read_bps", read));
    let found = found.expect("the limit of reads");
    assert!(found.text.contains("may do 1 MiB/s of reads"), "{}", found.text);
    assert!(!found.text.contains("does 0"), "{}", found.text);
    assert_eq!(found.remedy.len(), 1);
}

#[test]
fn of_two_limits_of_which_little_is_used_none_is_named_alone() {
    let bytes = "blkio.throttle.write_bps_device";
    let both = also_limited(held_back(IDLE, 1, "fsync", 1), "write_bps", bytes);
    let found = throttled(both).expect("both");
    assert_eq!(found.title, "app is held up by its own I/O limits");
    assert!(found.text.contains("at which of these limits is not known"), "{}", found.text);
    for one in ["8.00 write requests/s (", "1 MiB/s of writes ("] {
        assert!(found.text.contains(one), "{one}: {}", found.text);
    }
    assert_eq!((found.remedy.len(), found.culprit.setting), (2, None));
    let met = also_limited(held_back(IDLE, 1, "fsync", 23), "write_bps", bytes);
    let met = throttled(met).expect("the one that is met");
    assert_eq!((&*met.title, met.remedy.len()), ("app is held up by its own I/O limit", 1));
}

#[test]
fn of_a_disk_without_a_request_no_time_is_said() {
    let none = Rate { per_second: 0, ms: 0, in_flight: 0, busy: 0 };
    let found = throttled(held_back(none, 1, "fsync", 0)).expect("the limit");
    assert!(found.text.ends_with("; sda itself is 0 % busy."), "{}", found.text);
    assert!(!found.text.contains("does"), "{}", found.text);
}

#[test]
fn who_waits_for_pages_of_the_group_to_be_written_is_held_up_by_its_limit() {
    // The group's own threads need not wait: where the flusher writes for them they do not.
    let flushed = [disk(named("sda"), IDLE), group("/g", DEV, 8, 23)].concat();
    let mut waited = flushed.clone();
    waited.push(member(10, "app", "/g"));
    waited.extend(waiter(10, "app", OFTEN));
    let of = |of_group: &[Fact], pages: Vec<Fact>| {
        let findings = explain([of_group.to_vec(), pages].concat()).findings;
        let found = findings.iter().find(|one| one.victims.iter().any(|it| it.pid == 30));
        found.map(|one| one.code.clone())
    };
    for of_group in [waited, flushed] {
        assert_eq!(of(&of_group, syncs(30)).as_deref(), Some("disk.own_throttle"));
        let own = waits_for_pages(30, "fsync", "file_write_and_wait_range");
        assert_ne!(of(&of_group, own).as_deref(), Some("disk.own_throttle"), "its own pages");
    }
}

#[test]
fn who_is_limited_himself_does_not_wait_for_anothers_pages() {
    let other = group("/other", DEV, 9_999, 0);
    let facts = [disk(named("sda"), IDLE), group("/g", DEV, 8, 23), other].concat();
    let found = throttled([facts, vec![member(30, "sync", "/other")], syncs(30)].concat());
    assert_eq!(found, None);
}

#[test]
fn pages_on_a_disk_that_works_all_the_time_are_not_held_before_it() {
    let slow = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };
    let found = |rate, wrote| {
        codes([disk(named("sda"), rate), group("/g", DEV, 8, wrote), syncs(30)].concat())
    };
    assert!(!found(slow, 23).contains(&"disk.own_throttle".to_string()));
    assert!(found(IDLE, 1).is_empty(), "little of the limit is used");
}
