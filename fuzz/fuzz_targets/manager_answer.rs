//! libFuzzer's side of the target `manager_answer`; what must hold is in `src/lib.rs`.
//! Run: `cargo +nightly fuzz run manager_answer --features libfuzzer -- -max_total_time=60`.
//! A crash it finds becomes a case of `tests/`, so that every `cargo test` keeps it found.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::manager_answer(bytes));
