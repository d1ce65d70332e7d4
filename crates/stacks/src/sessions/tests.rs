//! A server's shared memory, made by hand as release 15 has it: entries, one lock, a part for each session.
//!
//! Owns the scene and what is read of it, whole and broken. Must not: read a process.

use super::lock_table::{Lock, Places, Session};
use holdup_reason::facts::SessionEvent;
use std::collections::BTreeMap;

const OWN: u64 = 0x1000;
const EVENT: u64 = 0x1008;
const LOCK: u64 = 0x9000;
const SHARE: u32 = 1;
const EXCLUSIVE: u32 = 8;

/// Memory by address, a byte each.
#[derive(Default)]
struct Shared(BTreeMap<u64, u8>);

impl Shared {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.0.extend((at..).zip(bytes.iter().copied()));
    }

    fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    fn lock_of(&self, number: u32) -> Option<Lock> {
        let session = Session { places: Places { own: OWN, event: EVENT, standbys: 0 }, number };
        session.lock(&mut |at: u64, into: &mut [u8]| {
            for (at, byte) in (at..).zip(into) {
                *byte = *self.0.get(&at)?;
            }
            Some(())
        })
    }
}

/// Sessions 101, 102 and so on, in the order in which they came to a lock: the modes that each has, and the one that it waits for; the
/// memory as the `of`th sees it.
fn server(sessions: &[(u32, u32)], of: usize) -> Shared {
    let mut shared = Shared::default();
    let entry = |at: usize| 0x2_0000 + at as u64 * 0x400;
    let part = |at: usize| 0x8000 + at as u64 * 0x40;
    shared.word(OWN, entry(of));
    shared.word(EVENT, 0x1100);
    shared.put(LOCK, &[0; 64]);
    shared.put(LOCK + 14, &[10, 2]);
    let head = LOCK + 24;
    let mut last = head;
    for (at, (has, wants)) in sessions.iter().enumerate() {
        shared.put(entry(at), &[0; 256]);
        shared.put(entry(at) + 64, &(101 + at as u32).to_le_bytes());
        shared.put(part(at), &[0; 64]);
        shared.word(part(at), LOCK);
        shared.word(part(at) + 8, entry(at));
        shared.word(part(at) + 16, entry(at));
        shared.put(part(at) + 24, &(if *has == 0 { 0 } else { 1_u32 << has }).to_le_bytes());
        shared.word(last + 8, part(at) + 32);
        shared.word(part(at) + 32 + 8, head);
        last = part(at) + 32;
        if *wants != 0 {
            shared.word(entry(at) + 112, LOCK);
            shared.word(entry(at) + 120, part(at));
            shared.put(entry(at) + 128, &wants.to_le_bytes());
        }
    }
    shared
}

#[test]
fn who_has_a_mode_that_excludes_the_wanted_one_is_in_the_way() {
    let sessions = [(EXCLUSIVE, 0), (0, SHARE), (0, EXCLUSIVE)];
    let event = SessionEvent::AdvisoryLock;
    let found = || Some(Lock { event, holders: vec![101], without_process: false });
    assert_eq!(server(&sessions, 1).lock_of(102), found());
    assert_eq!(server(&sessions, 2).lock_of(103), found());
}

#[test]
fn who_came_before_and_waits_is_in_the_way_where_nobody_has_it_exclusively() {
    let sessions = [(SHARE, 0), (0, EXCLUSIVE), (0, SHARE), (0, EXCLUSIVE)];
    let holders = |of: usize| server(&sessions, of).lock_of(101 + of as u32).map(|it| it.holders);
    assert_eq!(holders(2), Some(vec![102]), "and not who comes behind it");
    assert_eq!(holders(1), Some(vec![101]));
}

#[test]
fn a_prepared_transaction_has_it_without_a_process_and_who_waits_before_has_not() {
    let prepared = |sessions: &[(u32, u32)], of: usize| {
        let mut shared = server(sessions, of);
        shared.put(0x2_0000 + 64, &[0; 4]);
        shared.lock_of(101 + of as u32).map(|it| (it.holders, it.without_process))
    };
    let alone = [(EXCLUSIVE, 0), (0, EXCLUSIVE), (0, SHARE)];
    assert_eq!(prepared(&alone, 2), Some((Vec::new(), true)));
    let with_another = [(SHARE, 0), (SHARE, 0), (0, EXCLUSIVE)];
    assert_eq!(prepared(&with_another, 2), Some((vec![102], true)));
}

#[test]
fn a_setting_is_one_that_was_read_whole_and_is_plain_text() {
    let own = std::process::id();
    let of = |text: &str| {
        let bytes = [text.as_bytes(), &[0]].concat();
        let pointer = bytes.as_ptr() as u64;
        let standbys = &raw const pointer as u64;
        let session = Session { places: Places { own: OWN, event: EVENT, standbys }, number: own };
        session.setting(own, SessionEvent::Replica)
    };
    let longest = "s".repeat(255);
    assert_eq!(of(&longest), Some(longest.clone()));
    assert_eq!(of(&"s".repeat(256)), None, "cut it is another value");
    assert_eq!(of("s1\x1b[2J"), None);
    assert_eq!(of(""), None);
}

#[test]
fn what_does_not_lead_back_is_no_answer() {
    let sessions = [(EXCLUSIVE, 0), (0, SHARE)];
    let broken = |change: &dyn Fn(&mut Shared)| {
        let mut shared = server(&sessions, 1);
        change(&mut shared);
        shared.lock_of(102)
    };
    assert_eq!(broken(&|shared| shared.word(0x8000, 0x7777)), None, "a part of another lock");
    assert_eq!(broken(&|shared| shared.word(0x8000 + 40, 0x8000 + 32)), None, "no end of the list");
    assert_eq!(broken(&|shared| shared.put(LOCK + 14, &[77, 2])), None, "no type");
    assert_eq!(broken(&|shared| shared.word(0x2_0400 + 120, 0x8000)), None, "another's part");
    assert_eq!(broken(&|shared| shared.word(OWN, 0)), None, "it is only just beginning");
    assert_eq!(broken(&|shared| shared.word(0x8008, u64::MAX - 8)), None, "an entry at the end");
    let ended = |shared: &mut Shared| shared.word(0x2_0400 + 112, 0);
    assert_eq!(broken(&ended), None, "it has it by now");
}
