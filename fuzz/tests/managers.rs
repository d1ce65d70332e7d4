//! What may be written where a manager of units is asked, as properties on the stable compiler.
//!
//! Random bytes are no messages, so inputs are well-formed answers with foreign values, and the same damaged: cut, flipped. What libFuzzer once
//! found stands here as a test of its own.
//!
//! Edit together: `src/lib.rs`, `fuzz_targets/manager_answer.rs`, the probe's `unit_jobs/dbus.rs`.

use holdup_fuzz::manager_answer;
use holdup_probe::readers::unit_jobs::dbus;
use proptest::collection::vec;
use proptest::prelude::*;

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

fn number(bytes: &mut Vec<u8>, value: u32) {
    pad(bytes, 4);
    bytes.extend(value.to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    number(bytes, value.len() as u32);
    bytes.extend(value.bytes().chain([0]));
}

/// An answer with this body.
fn message(body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'l', 2, 1, 1];
    for value in [body.len() as u32, 9, 8] {
        number(&mut bytes, value);
    }
    bytes.extend(b"\x05\x01u\0\x01\0\0\0");
    bytes.extend(body);
    bytes
}

/// Jobs of units whose names anybody chose.
fn jobs() -> impl Strategy<Value = Vec<u8>> {
    vec((any::<u32>(), ".{0,20}"), 1..6).prop_map(|all| {
        let mut body = vec![0; 8];
        for (id, unit) in all {
            pad(&mut body, 8);
            number(&mut body, id);
            for word in [unit.as_str(), "start", "running", "/j", unit.as_str()] {
                text(&mut body, word);
            }
        }
        let length = body.len() as u32 - 8;
        body[..4].copy_from_slice(&length.to_le_bytes());
        message(&body)
    })
}

/// Values of properties.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let of_text = ".{0,20}".prop_map(|value| {
        let mut body = b"\x01s\0".to_vec();
        text(&mut body, &value);
        message(&body)
    });
    let of_texts = vec(".{0,9}", 0..5).prop_map(|values| {
        let mut array = Vec::new();
        values.iter().for_each(|value| text(&mut array, value));
        let mut body = b"\x02as\0".to_vec();
        number(&mut body, array.len() as u32);
        body.extend(array);
        message(&body)
    });
    prop_oneof![of_text, of_texts]
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_none(bytes in vec(any::<u8>(), 0..512)) {
        manager_answer(&bytes);
    }

    #[test]
    fn a_damaged_answer_is_read_or_passed_over(
        good in prop_oneof![jobs(), value()],
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in 0_usize..60,
    ) {
        let mut bytes = good;
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        manager_answer(&bytes);
    }

    #[test]
    fn what_was_written_is_read(jobs in jobs(), value in value()) {
        let mut answer = dbus::answer(&jobs).expect("an answer");
        prop_assert!(dbus::jobs(&mut answer.body).is_some_and(|all| !all.is_empty()));
        let mut answer = dbus::answer(&value).expect("an answer");
        prop_assert!(dbus::value(&mut answer.body).is_some());
    }
}
