//! The fuzz targets as properties, on the stable compiler and in every `cargo test`.
//!
//! Random bytes alone never get past zstd and JSON, so inputs are good recordings that were damaged: cut,
//! flipped, spliced. What libFuzzer once found stands here as a test of its own.
//!
//! Edit together: `src/lib.rs`, `fuzz_targets/`.

#![allow(clippy::unwrap_used, reason = "tests")]

use holdup_fuzz::{packed, read, recording, recording_block, recording_lines};
use holdup_probe::recording::Writer;
use holdup_reason::facts::*;
use proptest::prelude::*;
use std::path::Path;

/// Some facts of each kind of shape: flat, nested, with names from outside.
fn facts() -> Vec<Fact> {
    let hostile = "\u{1b}[2J\n\"}\u{0}".to_owned();
    let bodies = [
        Body::Host(Host { hostname: hostile.clone(), ..Host::default() }),
        Body::Blind(Blind {
            what: "bpf".into(),
            why: hostile,
            therefore: String::new(),
            ..Blind::default()
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

/// The file that a writer makes of these facts, as many at a time.
fn written(facts: &[Fact], at_a_time: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.hup");
    let mut writer = Writer::create(&file).unwrap();
    facts.chunks(at_a_time).for_each(|facts| writer.write(facts).unwrap());
    writer.finish().unwrap();
    std::fs::read(file).unwrap()
}

/// What stands behind the header of a recording, unpacked.
fn inside(file: &[u8]) -> Vec<u8> {
    let plain = zstd::stream::decode_all(file).unwrap();
    let header = plain.iter().position(|byte| *byte == b'\n').unwrap();
    plain[header + 1..].to_vec()
}

fn house_recordings() -> Vec<Vec<Fact>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "rec"));
    files.map(|path| read(std::fs::read(path).unwrap()).unwrap()).collect()
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
    assert_eq!(read(packed(1, &lines())).unwrap(), facts());
    assert_eq!(read(written(&facts(), 3)).unwrap(), facts());
}

#[test]
fn the_recordings_of_the_house_come_through_the_writer_unchanged() {
    let looks = house_recordings();
    assert!(looks.len() > 10);
    for facts in looks {
        assert_eq!(read(written(&facts, 500)).unwrap(), facts);
    }
}

#[test]
fn a_recording_that_was_cut_short_gives_what_is_whole_and_says_so() {
    let says_so = |fact: &Fact| {
        assert!(matches!(&fact.body, Body::Lost(lost) if lost.source == "recording_cut_short"));
    };
    let text = lines();
    let cut = read(packed(1, &text[..text.len() - 5])).unwrap();
    assert_eq!(cut[..6], facts()[..6]);
    says_so(&cut[6]);
    let blocks = inside(&written(&facts(), 4));
    let cut = read(packed(2, &blocks[..blocks.len() - 5])).unwrap();
    assert_eq!(cut[..4], facts()[..4]);
    says_so(&cut[4]);
}

/// The recorder was killed: the stream of zstd itself has no end.
#[test]
fn what_a_killed_recorder_wrote_is_read_up_to_its_last_whole_block() {
    // The longest: three quarters of a short one may end within the first of zstd's own blocks.
    let facts = house_recordings().into_iter().max_by_key(Vec::len).unwrap();
    let mut file = written(&facts, 100);
    file.truncate(file.len() * 3 / 4);
    let cut = read(file).unwrap();
    let (last, whole) = cut.split_last().unwrap();
    assert!(whole.len() > 100 && whole.len() < facts.len());
    assert_eq!(whole, &facts[..whole.len()]);
    assert!(matches!(&last.body, Body::Lost(lost) if lost.source == "recording_cut_short"));
}

/// A block that says it has more facts than its columns do, and one that says it is longer than any.
#[test]
fn a_block_that_lies_is_refused() {
    let refused = |inside: &[u8]| read(packed(2, inside)).unwrap_err();
    assert!(refused(&[3, 0, 0, 0, 1, 1, 0]).contains("block 1: a column ends early"));
    assert!(refused(&[3, 0, 0, 0, 1, 1, 9]).contains("block 1: a column is too long"));
    assert!(refused(&[0xff; 4]).contains("block 1 is too long"));
}

/// One name of a megabyte, meant again and again.
#[test]
fn a_block_that_unpacks_to_gigabytes_is_refused_in_bounded_memory() {
    let long = "x".repeat(1 << 20);
    let who = ThreadRef { tid: 7, comm: long, ..ThreadRef::default() };
    let exit = |at_ns| Fact {
        at_ns,
        body: Body::Exit(Exit { thread: who.clone(), last: true, code: None }),
    };
    let facts: Vec<Fact> = (0..2).map(exit).collect();
    let few = inside(&written(&facts, 2));
    assert_eq!(read(packed(2, &few)).unwrap(), facts);
    // The same block with 16,000 facts: its columns of threads, templates and times are repeated.
    let before = resident_peak_bytes();
    let many = repeated(&few[4..], 16_000);
    let mut bytes = (many.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&many);
    assert!(read(packed(2, &bytes)).unwrap_err().contains("unpacks to more than"));
    let grown = resident_peak_bytes() - before;
    assert!(grown < 1 << 30, "reading grew by {} MiB", grown >> 20);
}

/// A block with the last byte of each column of numbers so often that it lasts for as many facts.
fn repeated(block: &[u8], facts: usize) -> Vec<u8> {
    let (_, rest) = number(block);
    let (columns, mut rest) = number(rest);
    let mut out = Vec::new();
    put(&mut out, facts);
    put(&mut out, columns);
    for column in 0..columns {
        let (length, after) = number(rest);
        let (body, after) = after.split_at(length);
        rest = after;
        // The first four are text.
        let more = if column < 4 || body.is_empty() { 0 } else { facts };
        put(&mut out, body.len() + more);
        out.extend_from_slice(body);
        out.extend(std::iter::repeat_n(body.last().copied().unwrap_or(0), more));
    }
    out
}

fn put(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(mut bytes: &[u8]) -> (usize, &[u8]) {
    let (mut value, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        bytes = rest;
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if *byte < 0x80 {
            break;
        }
    }
    (value, bytes)
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

/// libFuzzer's sides need a nightly compiler to run, so a wrong name in one of them would be seen by nobody.
#[test]
fn every_target_has_its_side_for_libfuzzer() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
    let (library, manifest) = (read("src/lib.rs"), read("Cargo.toml"));
    let targets = library.lines().filter_map(|line| {
        let (name, takes) = line.strip_prefix("pub fn ")?.split_once('(')?;
        takes.ends_with(": &[u8]) {").then_some(name)
    });
    let targets: Vec<&str> = targets.collect();
    assert!(targets.len() > 5, "{targets:?}");
    for name in targets {
        let file = format!("fuzz_targets/{name}.rs");
        assert!(manifest.contains(&format!("path = \"{file}\"")), "{name}");
        assert!(read(&file).ends_with(&format!("holdup_fuzz::{name}(bytes));\n")), "{name}");
    }
}

/// `VmHWM` of this process.
fn resident_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Who may be anybody: few enough that they come again.
fn who() -> impl Strategy<Value = ThreadRef> {
    let tid = prop_oneof![0_u32..5, any::<u32>()];
    (tid, any::<u64>(), "[ab]?").prop_map(|(tid, start_ns, comm)| ThreadRef {
        tid,
        pid: tid / 2,
        start_ns: start_ns % 3,
        comm,
    })
}

fn place() -> impl Strategy<Value = Place> {
    let arg = prop_oneof![0_u64..4, any::<u64>()];
    let object = prop_oneof![
        Just(None),
        any::<u64>().prop_map(|ino| Some(ObjectRef::Pipe { ino: ino % 7 })),
        "[a-z/\n]{0,9}".prop_map(|path| {
            Some(ObjectRef::File(FileRef { path: Some(path), ..FileRef::default() }))
        }),
    ];
    (proptest::array::uniform6(arg), object, any::<u32>(), 0_u32..3).prop_map(
        |(args, object, cpu, stack)| Place { args, object, cpu, stack, ..Place::default() },
    )
}

/// Any fact of the kinds that are taken apart, with times that need not make sense.
fn frequent() -> impl Strategy<Value = Fact> {
    let times = proptest::array::uniform4(prop_oneof![0_u64..9, any::<u64>()]);
    (0..9, times, who(), who(), place(), any::<bool>()).prop_map(
        |(kind, [at_ns, begin_ns, end_ns, count], thread, other, place, is)| {
            let cpu = place.cpu;
            let body = match kind {
                0 | 1 => Body::Wait(Wait {
                    begin_ns,
                    end_ns,
                    wake: is.then(|| Wake { at_ns: count, by: other.clone(), ..Wake::default() }),
                    ran_before: (kind == 0).then_some(other),
                    place,
                    thread,
                    ..Wait::default()
                }),
                2 => Body::Ran(Ran { thread, begin_ns, end_ns, cpu }),
                3 => {
                    Body::Blocked(Blocked { thread, since_ns: end_ns, place, ..Blocked::default() })
                }
                4 => Body::ThreadTime(ThreadTime {
                    thread,
                    since_ns: begin_ns,
                    until_ns: end_ns,
                    run_ns: count,
                    ..ThreadTime::default()
                }),
                5 => Body::Exit(Exit { thread, last: is, code: None }),
                6 => Body::Fork(Fork { parent: thread, child: other, flags: count }),
                7 => Body::Request(Request {
                    by: thread,
                    sector: count,
                    bytes: cpu,
                    ..Request::default()
                }),
                _ => Body::Effort(Effort {
                    thread,
                    reads: count,
                    since_ns: end_ns,
                    ..Effort::default()
                }),
            };
            Fact { at_ns, body }
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        recording(&bytes);
        recording_lines(&bytes);
        recording_block(&bytes);
    }

    #[test]
    fn frequent_facts_come_back_as_they_were(
        facts in proptest::collection::vec(frequent(), 0..60), at_a_time in 1_usize..20,
    ) {
        prop_assert_eq!(read(written(&facts, at_a_time)).unwrap(), facts);
    }

    #[test]
    fn a_damaged_recording_is_read_or_refused(bytes in damaged(packed(1, &lines()))) {
        recording(&bytes);
    }

    #[test]
    fn a_damaged_block_is_read_or_refused(
        bytes in proptest::collection::vec(frequent(), 1..20)
            .prop_flat_map(|facts| damaged(inside(&written(&facts, 20))[4..].to_vec())),
    ) {
        recording_block(&bytes);
    }

    #[test]
    fn damaged_lines_are_read_or_refused(text in damaged(lines())) {
        recording_lines(&text);
    }
}
