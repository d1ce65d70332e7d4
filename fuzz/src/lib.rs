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

/// The text inside a recording, behind a good header: lines that may be no facts.
pub fn recording_lines(text: &[u8]) {
    drop(read(packed(text)));
}

/// A recording with this text behind its header.
///
/// # Panics
/// If zstd cannot compress into memory.
#[must_use]
pub fn packed(text: &[u8]) -> Vec<u8> {
    let mut plain = b"{\"holdup_recording\":1,\"tool\":\"fuzz\"}\n".to_vec();
    plain.extend_from_slice(text);
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
