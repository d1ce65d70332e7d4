//! libFuzzer's side of the target `recording_block`; what must hold is in `src/lib.rs`.
//! Run: `cargo +nightly fuzz run recording_block --features libfuzzer -- -max_total_time=60`.
//! A crash it finds becomes a case of `tests/properties.rs`, so that every `cargo test` keeps it found.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::recording_block(bytes));
