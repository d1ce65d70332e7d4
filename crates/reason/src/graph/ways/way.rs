//! What a way is: from a wait to whoever must act for it to end, with its reason and the numbers that decide in it.
//!
//! As a rule names an end, a way names who is next: a file each, one ordered list (held/mod.rs, owed/mod.rs), and the first that finds
//! somebody is it. So the list can say why this one and not another. Must not: judge what an end is (ends.rs), or know which way
//! comes before it: precedence is order.
//!
//! Rejected: one function of early returns (nobody could say which of them had decided).

use crate::facts::{Ns, ObjectRef, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::{Asker, Next};
use crate::graph::wakers::is_stalled;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// One way from a waiter to whoever must act.
pub struct Way {
    /// What it is called.
    pub name: &'static str,
    /// Why it is whoever is found: the rest of "followed to postgres 417 because ...".
    pub because: &'static str,
    /// The classes of waits that it is for.
    pub of: &'static [WaitClass],
    /// The numbers that decide in it.
    pub thresholds: &'static [&'static Threshold],
    /// Who is next; nothing if this way does not find it, and then the next way is asked.
    pub follow: fn(&Waiter<'_>) -> Option<Next>,
}

/// Classes of a wait for whatever comes next: a thread that waits so is followed where somebody waits for it.
pub const FOR_EVENTS: &[WaitClass] =
    &[WaitClass::Idle, WaitClass::FutexWait, WaitClass::UnixRead, WaitClass::PipeRead];

/// A wait, as it is asked about.
#[derive(Clone, Copy)]
pub struct Waiter<'w> {
    /// Who was connected with whom.
    pub index: &'w Index<'w>,
    /// The wait.
    pub wait: &'w WaitSpan,
    /// The part of it that is asked about.
    pub within: (Ns, Ns),
    /// Who waits for this thread.
    pub asker: Option<Asker<'w>>,
}

impl<'w> Waiter<'w> {
    /// A whole wait, whoever waits for it.
    pub fn of(index: &'w Index<'w>, wait: &'w WaitSpan) -> Self {
        Self { index, wait, within: (wait.begin_ns, wait.end_ns), asker: None }
    }

    /// Who was not there for most of the time interrupts it, and is no reason for it.
    pub fn was_there(&self, by: &ThreadRef) -> bool {
        let (from, to) = self.within;
        by.start_ns <= from + to.saturating_sub(from) / 2
    }

    /// A program that is to act for it, where that stands still for most of the time: it was stopped, or waits for what somebody else has. Not where it waits
    /// for work or for a CPU, as all do now and then.
    pub fn standing_still(&self, program: &ThreadRef) -> Option<ThreadRef> {
        let (from, to) = self.within;
        let half = to.saturating_sub(from) / 2;
        // Who serves something was read from its descriptors, without the begin of its life.
        let program = self.index.model.threads.thread_ref(program.pid);
        let wait = self.index.waits.at(&program, from + half)?;
        let stands =
            is_stalled(wait.class) || wait.class.is_demand() && wait.class != WaitClass::RunQueue;
        (stands && wait.within_ns(from, to) >= half).then_some(program)
    }

    /// Whether it is for the lock of an interpreter.
    pub fn is_for_an_interpreter(&self) -> bool {
        self.wait.class == WaitClass::FutexLock
            && matches!(self.wait.object, Object::InterpreterLock(_))
    }

    /// Whether it is on a socket or a pipe.
    pub fn is_on_a_channel(&self) -> bool {
        matches!(
            self.wait.place.object,
            Some(ObjectRef::Inet(_) | ObjectRef::Unix { .. } | ObjectRef::Pipe { .. })
        )
    }
}

/// The first way of a ladder that finds who is next, and who that is.
pub fn first(ladder: &[&'static Way], at: &Waiter<'_>) -> Option<(Next, &'static Way)> {
    let fits = |way: &&&'static Way| way.of.contains(&at.wait.class);
    ladder.iter().filter(fits).find_map(|way| Some(((way.follow)(at)?, *way)))
}
