//! What must hold for any bytes: each target takes some, and panics if a reader breaks its promise.
//!
//! A target is a function here, called from two sides: `fuzz_targets/` (libFuzzer, which needs a nightly
//! compiler: `cargo +nightly fuzz run recording --features libfuzzer`) and `tests/properties.rs` (proptest, in
//! every `cargo test`). Must not know what right answers are, only that any bytes get one: facts or an error, in
//! bounded memory, and an end.
//!
//! Rejected: fuzzing through the binary (a process for each input).

use holdup_probe::Source;
use holdup_probe::decode::Decoder;
use holdup_probe::readers::NETLINK_PARSERS;
use holdup_probe::readers::unit_jobs::dbus;
use holdup_probe::readers::{kernel_log, mapper};
use holdup_probe::recording::Reader;
use holdup_reason::facts::{DeviceNumber, Fact};
use holdup_stacks::rows::{self, Frame, Row, Saved};
use holdup_stacks::unwind::Registers;
use holdup_stacks::{elf::Elf, exports, names};
use std::io::{self, Cursor, Read};

/// A recording as it lies on disk: bytes that may be no zstd, no header, or cut short.
pub fn recording(bytes: &[u8]) {
    drop(read(bytes.to_vec()));
}

/// The text inside a recording of format 1, behind a good header: lines that may be no facts.
pub fn recording_lines(text: &[u8]) {
    drop(read(packed(1, text)));
}

/// The same of format 2: a block, behind its length, that may claim anything.
pub fn recording_block(block: &[u8]) {
    let mut bytes = (block.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(block);
    drop(read(packed(2, &bytes)));
}

/// What the kernel programs hand over; the first byte says by which way: a record of the ring, an entry of the task
/// iterator, one of the descriptor iterator.
///
/// # Panics
/// If a record of the ring is neither reported nor counted.
pub fn kernel_record(bytes: &[u8]) {
    let Some((way, record)) = bytes.split_first() else { return };
    let mut decoder = Decoder::of_bytes_alone();
    let mut facts = Vec::new();
    match way % 3 {
        0 => {
            decoder.record(record, &mut facts);
            assert_eq!(decoder.events, 1);
            assert!(facts.len() <= 3, "a record of the ring is reported in three facts at most");
        }
        1 => {
            // Twice: the first of its own thread teaches the clock.
            drop(decoder.thread(record, 0));
            drop(decoder.thread(record, 0));
        }
        _ => drop(decoder.endpoint(record)),
    }
    decoder.reported_stacks(0, &mut facts);
}

/// A message of netlink behind its header, read as each kind that is asked for.
pub fn netlink_message(message: &[u8]) {
    NETLINK_PARSERS.iter().for_each(|parse| parse(message));
}

/// Two answers of the device mapper about one disk: its table, whose length the first two bytes say, and its status.
pub fn mapper_answers(bytes: &[u8]) {
    let Some((length, answers)) = bytes.split_first_chunk() else { return };
    let table = usize::from(u16::from_le_bytes(*length)).min(answers.len());
    let (table, status) = answers.split_at(table);
    drop(mapper::cache_sample(DeviceNumber::default(), table, status));
}

/// What whoever listens where a manager of units is asked writes, read as each kind of answer.
///
/// # Panics
/// If an answer is longer than what is there.
pub fn manager_answer(bytes: &[u8]) {
    let Some(length) = dbus::length(bytes) else { return };
    let message = bytes.get(..length).unwrap_or(bytes);
    let jobs = dbus::answer(message).and_then(|mut answer| dbus::jobs(&mut answer.body));
    let texts = |job: &dbus::Listed| job.unit.len() + job.kind.len() + job.state.len();
    let taken: usize = jobs.iter().flatten().map(texts).sum();
    assert!(taken <= bytes.len(), "no more is taken than was written");
    drop(dbus::answer(message).and_then(|mut answer| dbus::value(&mut answer.body)));
}

/// Lines of the kernel's log, of which processes choose the names: each as a record, in one window.
///
/// # Panics
/// If a fact is dated outside of the window, or more are reported than there are lines.
pub fn kernel_log(lines: &[u8]) {
    const WINDOW: (u64, u64) = (1_000, 2_000);
    let records: Vec<&[u8]> = lines.split(|byte| *byte == 0).collect();
    let most = 2 * records.len() + 1;
    let facts = kernel_log::excerpt(&mut Records(records.into_iter()), WINDOW.0, WINDOW.1);
    assert!(facts.len() <= most, "a line is reported at most twice, and what is missing once");
    assert!(facts.iter().all(|fact| (WINDOW.0..=WINDOW.1).contains(&fact.at_ns)));
}

/// Gives one record a reading, as /dev/kmsg does.
struct Records<'a, I: Iterator<Item = &'a [u8]>>(I);

impl<'a, I: Iterator<Item = &'a [u8]>> Read for Records<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Nothing at all would be the log's end.
        let Some(record) = self.0.find(|record| !record.is_empty()) else { return Ok(0) };
        let bytes = record.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&record[..bytes]);
        Ok(bytes)
    }
}

/// A program file that somebody else made, asked how to leave some of its functions and what they are called.
pub fn program_file(bytes: &[u8]) {
    let bytes = &bytes;
    let Some(elf) = Elf::read(bytes) else { return };
    let _ = elf.moved_by(0x5555_0000_0000, 0x1000);
    let addresses: Vec<u64> = (0..64).map(|at| at * 0x40).chain([u64::MAX, 1 << 40]).collect();
    for address in &addresses {
        drop(rows::row(&elf, bytes, *address));
    }
    drop(names::of(&elf, bytes, &addresses, &|| true));
    let _ = exports::address_of(&elf, bytes, "main");
}

/// A row whose places are computed by these bytes, on a stack where each word holds its own address.
pub fn unwind_row(bytes: &[u8]) {
    let computed = || Saved::Computed(bytes.into());
    let row = Row {
        frame: Frame::Expression(bytes.into()),
        saved: vec![(6, Saved::AtComputed(bytes.into())), (16, computed()), (30, computed())],
        returns_by: 16,
        is_signal: bytes.len().is_multiple_of(2),
        begins_at: 0,
    };
    let _ = Registers::new(1, 2, 3, 4).step(&row, &mut |at| Some(at));
}

/// A name in a table of symbols.
pub fn symbol(name: &str) {
    drop(names::readable(name));
}

/// A recording of a format, with this behind its header.
///
/// # Panics
/// If zstd cannot compress into memory.
#[must_use]
pub fn packed(format: u32, inside: &[u8]) -> Vec<u8> {
    let mut plain = format!("{{\"holdup_recording\":{format},\"tool\":\"fuzz\"}}\n").into_bytes();
    plain.extend_from_slice(inside);
    match zstd::stream::encode_all(Cursor::new(plain), 1) {
        Ok(packed) => packed,
        Err(error) => panic!("zstd into memory: {error}"),
    }
}

/// All facts of a recording, or what the reader said instead.
///
/// # Errors
/// The reader's own, as text.
pub fn read(bytes: Vec<u8>) -> Result<Vec<Fact>, String> {
    let mut reader =
        Reader::new(Cursor::new(bytes), "fuzz".into()).map_err(|error| error.to_string())?;
    let mut facts = Vec::new();
    while reader.drain(&mut facts).map_err(|error| error.to_string())? {}
    Ok(facts)
}
