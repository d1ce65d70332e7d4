//! Program files that somebody else made, as properties: a good file of this machine that was damaged or cut short, and bytes
//! that were never one.
//!
//! Headers are few of a file's bytes, so half of the damage is done to its first kilobyte. Edit together: `src/lib.rs`,
//! `fuzz_targets/`, `crates/stacks/`.

#![allow(clippy::unwrap_used, reason = "tests")]

use holdup_fuzz::{program_file, symbol, unwind_row};
use holdup_stacks::elf::Elf;
use proptest::collection::vec;
use proptest::prelude::*;

fn good() -> Vec<u8> {
    std::fs::read("/bin/true").unwrap()
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let good = good();
    let length = good.len();
    let place = prop_oneof![0..1024_usize, 0..length];
    (vec((place, any::<u8>()), 0..24), prop_oneof![3 => Just(length), 1 => 0..length]).prop_map(
        move |(flips, end)| {
            let mut bytes = good.clone();
            for (at, byte) in flips {
                bytes[at.min(length - 1)] = byte;
            }
            bytes.truncate(end);
            bytes
        },
    )
}

/// A good file whose index and tables of unwinding are garbage from somewhere on.
fn with_garbage() -> impl Strategy<Value = Vec<u8>> {
    let good = good();
    let index = Elf::read(&good).and_then(|elf| elf.offset_of(elf.unwind_index?)).unwrap();
    (0..64_usize, vec(any::<u8>(), 1..2048)).prop_map(move |(from, garbage)| {
        let mut bytes = good.clone();
        let at = index as usize + from;
        let end = (at + garbage.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&garbage[..end - at]);
        bytes
    })
}

proptest! {
    #[test]
    fn any_program_file_is_read_or_passed_over(bytes in prop_oneof![damaged(), with_garbage()]) {
        program_file(&bytes);
    }

    #[test]
    fn any_bytes_are_no_program_or_one(bytes in vec(any::<u8>(), 0..256)) {
        program_file(&bytes);
        unwind_row(&bytes);
    }

    #[test]
    fn any_symbol_has_a_name(name in "(_ZN|_Z|_R|_ZNSt)?[0-9A-Za-z_$.@]{0,60}", garbage in ".{0,40}") {
        symbol(&name);
        symbol(&garbage);
    }
}

/// The strategies do reach what they are for.
#[test]
fn a_good_file_says_how_to_leave_its_functions() {
    let good = good();
    let elf = Elf::read(&good).unwrap();
    let addresses = (0..good.len() as u64).step_by(16);
    let row = |address| holdup_stacks::rows::row(&elf, &good, address);
    assert!(addresses.filter(|address| row(*address).is_some()).count() > 100);
}
