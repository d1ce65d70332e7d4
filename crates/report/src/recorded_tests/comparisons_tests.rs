//! Each recording compared with itself: nothing of it is worse, better or new.
//!
//! Owns the identities of ends across looks on real recordings. Must not: test how a comparison is typed (tests/compared.rs), or what differs
//! between two looks (the core's own tests). Rejected: the program itself on each recording, which replays it twice more.

use holdup_reason::answer::compare::{self, Change, Outcome};
use std::slice;

#[test]
fn every_recording_is_as_it_was() {
    for recorded in super::all() {
        let side = slice::from_ref(&recorded.look);
        let compared = compare::compare(side, side).expect("a comparison");
        let outcome = (compared.verdict, compared.is_worse, compared.first);
        assert_eq!(outcome, (Outcome::Same, false, None), "{}", recorded.path.display());
        let other = compared.ends.iter().find(|it| it.changed.change != Change::Same);
        assert!(other.is_none(), "{}: {other:?}", recorded.path.display());
    }
}
