//! What a thread of a command does in the time that it takes for itself: whether the command is known to need it.
//!
//! A thread that works needs its time, whatever else is taken away. One that lets time pass needs it if somebody waits for its end; and of a wait whose
//! reason was not seen, or that a person or a tracer may end, nobody knows. Must not: find who waits for whom (what_if.rs). Rejected: all time that is
//! not waited for another thread of the command as work (a runtime's helper that sleeps was what the command "needs").
//!
//! Edit together: what_if.rs.

use super::end::{EndKey, EndKind};
use crate::facts::ThreadRef;
use crate::waits::WaitClass;

/// See the head of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnTime {
    /// It works, or waits for what the command needs.
    Needed,
    /// It lets time pass.
    Slept,
    /// Nobody knows what for, or somebody holds it who may let it go on.
    Unknown,
}

impl OwnTime {
    /// Of a chain of its own: the ends that it comes to, and the class of its last link.
    pub(super) fn of(ends: &[(EndKey, f64)], class: WaitClass) -> Self {
        use EndKind::{Idle, Open, Person, Sleep};
        let has = |kinds: &[EndKind]| ends.iter().any(|(key, _)| kinds.contains(&key.0));
        // A word of memory that nobody is known to have is how a runtime's threads rest.
        match class == WaitClass::FutexWait || has(&[Open, Idle, Person]) {
            true => Self::Unknown,
            false if has(&[Sleep]) => Self::Slept,
            false => Self::Needed,
        }
    }
}

/// Who takes time beside an end.
pub(super) struct Beside {
    pub who: ThreadRef,
    pub seconds: f64,
    /// The command is known to need most of it.
    pub is_needed: bool,
}

impl Beside {
    /// Of what it did, with seconds; none if that is nothing. `surely`: nobody was seen to wait for its end.
    pub(super) fn of(who: ThreadRef, did: &[(OwnTime, f64)], surely: bool) -> Option<Self> {
        // A shell takes the end of a child without a wait that is seen; a runtime's thread that sleeps is mostly nobody's to wait for.
        let is_helper = surely && who.tid != who.pid;
        let counts = |it: &OwnTime| match it {
            OwnTime::Needed => true,
            OwnTime::Slept => !is_helper,
            OwnTime::Unknown => false,
        };
        let seconds = all(did);
        let needed: f64 = did.iter().filter(|(it, _)| counts(it)).map(|(_, seconds)| seconds).sum();
        let is_needed = 2.0 * needed > seconds;
        (seconds > 0.0).then_some(Self { who, seconds, is_needed })
    }
}

/// How long all of it took.
pub(super) fn all(did: &[(OwnTime, f64)]) -> f64 {
    did.iter().map(|(_, seconds)| seconds).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::thread;

    #[test]
    fn who_works_is_needed_and_a_helper_that_sleeps_if_somebody_waits_for_it() {
        let needed = |tid: u32, did: OwnTime, surely| {
            let who = ThreadRef { tid, ..thread(10, "app") };
            Beside::of(who, &[(did, 2.0), (OwnTime::Needed, 1.0)], surely).map(|it| it.is_needed)
        };
        assert_eq!(needed(11, OwnTime::Needed, true), Some(true));
        assert_eq!(needed(11, OwnTime::Slept, false), Some(true), "somebody waits for its end");
        assert_eq!(needed(11, OwnTime::Slept, true), Some(false));
        assert_eq!(needed(10, OwnTime::Slept, true), Some(true), "a child");
        assert_eq!(needed(10, OwnTime::Unknown, false), Some(false));
        assert!(Beside::of(thread(10, "app"), &[(OwnTime::Needed, 0.0)], false).is_none());
    }
}
