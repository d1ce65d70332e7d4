//! What must hold for any bytes: each target takes some, and panics if a reader breaks its promise.
//!
//! A target is a function here, called from two sides: `fuzz_targets/` (libFuzzer, which needs a nightly
//! compiler: `cargo +nightly fuzz run recording --features libfuzzer`) and `tests/properties.rs` (proptest, in
//! every `cargo test`). Must not know what right answers are, only that any bytes get one: facts or an error, in
//! bounded memory, and an end.
//!
//! Rejected: fuzzing through the binary (a process for each input).

use holdup_probe::Source;
use holdup_probe::recording::Reader;
use holdup_reason::facts::Fact;
use std::io::Cursor;

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
