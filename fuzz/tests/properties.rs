//! The fuzz targets as properties, on the stable compiler and in every `cargo test`.
//!
//! Random bytes alone never get past zstd and JSON, so inputs are good recordings that were damaged: cut,
//! flipped, spliced. What libFuzzer once found stands here as a test of its own.
//!
//! Edit together: `src/lib.rs`, `fuzz_targets/`.

#![allow(clippy::unwrap_used, reason = "tests")]

use holdup_fuzz::{packed, read, recording, recording_lines};
use holdup_reason::facts::{Blind, Body, Disk, Fact, Host, Lost, Thread, ThreadTime, Wait};
use proptest::prelude::*;

/// Some facts of each kind of shape: flat, nested, with names from outside.
fn facts() -> Vec<Fact> {
    let hostile = "\u{1b}[2J\n\"}\u{0}".to_owned();
    let bodies = [
        Body::Host(Host { hostname: hostile.clone(), ..Host::default() }),
        Body::Blind(Blind {
            what: "bpf".into(),
            why: hostile,
            remedy: String::new(),
            therefore: String::new(),
        }),
        Body::Thread(Thread::default()),
        Body::ThreadTime(ThreadTime { run_ns: u64::MAX, ..ThreadTime::default() }),
        Body::Wait(Wait::default()),
        Body::Disk(Disk { mapped_name: Some("vg-x".into()), ..Disk::default() }),
        Body::Lost(Lost { source: "ring".into(), count: 3 }),
    ];
    bodies.into_iter().zip(1..).map(|(body, at_ns)| Fact { at_ns, body }).collect()
}

fn lines() -> Vec<u8> {
    let line = |fact: &Fact| serde_json::to_string(fact).unwrap() + "\n";
    facts().iter().map(line).collect::<String>().into_bytes()
}

/// Bytes with some of them overwritten, some cut away, and some put twice.
fn damaged(good: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = good.len();
    let flips = proptest::collection::vec((0..length, any::<u8>()), 0..8);
    (flips, 0..length, 0..length, any::<bool>()).prop_map(move |(flips, from, to, twice)| {
        let mut bytes = good.clone();
        for (at, byte) in flips {
            bytes[at] = byte;
        }
        let (from, to) = (from.min(to), from.max(to));
        if twice {
            bytes.extend_from_within(from..to);
        } else {
            bytes.drain(from..to);
        }
        bytes
    })
}

#[test]
fn a_whole_recording_gives_back_its_facts() {
    assert_eq!(read(packed(&lines())).unwrap(), facts());
}

#[test]
fn a_recording_that_was_cut_short_gives_what_is_whole_and_says_so() {
    let text = lines();
    let cut = read(packed(&text[..text.len() - 5])).unwrap();
    assert_eq!(cut[..6], facts()[..6]);
    assert!(matches!(&cut[6].body, Body::Lost(lost) if lost.source == "recording_cut_short"));
}

/// A few kilobytes that unpack to a gigabyte without a line's end.
#[test]
fn a_line_without_end_is_refused_in_bounded_memory() {
    let mut bomb = b"{\"holdup_recording\":1,\"tool\":\"fuzz\"}\n{\"t\":1,\"f\":\"".to_vec();
    bomb = {
        let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        std::io::Write::write_all(&mut packer, &bomb).unwrap();
        let nothing = vec![b'x'; 1 << 20];
        for _ in 0..1024 {
            std::io::Write::write_all(&mut packer, &nothing).unwrap();
        }
        packer.finish().unwrap()
    };
    assert!(bomb.len() < 1 << 20);
    let before = resident_peak_bytes();
    let refused = read(bomb);
    let grown = resident_peak_bytes() - before;
    assert!(grown < 256 << 20, "reading grew by {} MiB", grown >> 20);
    assert!(refused.unwrap_err().contains("line 2"));
}

/// `VmHWM` of this process.
fn resident_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        recording(&bytes);
        recording_lines(&bytes);
    }

    #[test]
    fn a_damaged_recording_is_read_or_refused(bytes in damaged(packed(&lines()))) {
        recording(&bytes);
    }

    #[test]
    fn damaged_lines_are_read_or_refused(text in damaged(lines())) {
        recording_lines(&text);
    }
}
