//! Which goroutines of a Go program waited for a mutex, or slept, while somebody waited for the program.
//!
//! Any thread of such a program runs any goroutine, so what its threads wait for, and who woke them, says nothing of the
//! one that is waited for: the goroutines do, as they were read (facts/goroutine.rs). One that stands because of a question
//! began to stand soon after it. The runtime keeps no owner of a mutex. So whoever has it is named only if one goroutine
//! alone can have it: whose stack refers to it, or the only one beside those that wait for it. Must not: guess among several.
//!
//! Edit together: programs/go.rs (what a stack says), graph/chains.rs (who asks), rules/lock/goroutine.rs.

use super::user_stack;
use crate::facts::{Goroutine, Goroutines, Ns};
use crate::model::Model;
use crate::programs::go::{self, accepts, polls, sleeps};
use crate::programs::lock_kind::LockKind;

/// A reading is reported again after a second; what was read last may be believed for a little longer.
const REPORTED_AGAIN_NS: Ns = 1_300_000_000;
/// Another goroutine fits a question better only if it began so much nearer to it.
const NEARER_NS: Ns = 300_000_000;
/// Readings and questions are dated by two clocks' readings of one clock; and a question is on its way for a while.
const BEFORE_NS: Ns = 20_000_000;

/// What a goroutine that somebody waits for does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// It waits for the mutex at this address; 0: which is not known.
    ForMutex(u64),
    /// It sleeps on purpose.
    Asleep,
}

/// Goroutines that wait for one mutex, within a time.
#[derive(Debug)]
pub struct Waiting<'m> {
    /// The reading that shows it: the last of that time.
    pub reading: &'m Goroutines,
    /// The one that has waited longest.
    pub first: &'m Goroutine,
    /// How many wait for it.
    pub count: usize,
    /// Who has it, if one alone can.
    pub holder: Option<&'m Goroutine>,
}

/// The kind of lock that a goroutine waits for, if it waits for one that somebody has.
fn lock_kind(of: &Goroutine) -> Option<LockKind> {
    user_stack::kind(&of.frames).filter(|kind| matches!(kind, LockKind::Mutex | LockKind::Rwlock))
}

/// Goroutines that stood, each with the reading and until when what it says holds.
fn stood(model: &Model, pid: u32) -> impl Iterator<Item = (&Goroutines, &Goroutine, Ns)> {
    let all = model.stacks.goroutines.get(&pid).map_or(&[][..], Vec::as_slice);
    all.iter().enumerate().flat_map(move |(at, (at_ns, read))| {
        let next_ns = all.get(at + 1).map(|(next_ns, _)| *next_ns);
        let until_ns = next_ns.unwrap_or(Ns::MAX).min(at_ns.saturating_add(REPORTED_AGAIN_NS));
        read.standing.iter().map(move |one| (read, one, until_ns))
    })
}

/// Whether goroutines of a process were read at all.
pub fn are_known(model: &Model, pid: u32) -> bool {
    model.stacks.goroutines.contains_key(&pid)
}

/// Those of the last reading in a time that stood for half of it or more, the longest first; not those that wait for a
/// descriptor, nor the runtime's own.
pub fn standing(model: &Model, pid: u32, (from, to): (Ns, Ns)) -> Vec<&Goroutine> {
    let Some(all) = model.stacks.goroutines.get(&pid) else { return Vec::new() };
    let Some((at_ns, last)) = all.iter().rev().find(|(at_ns, _)| *at_ns <= to) else {
        return Vec::new();
    };
    let until_ns = at_ns.saturating_add(REPORTED_AGAIN_NS).min(to);
    let is_long = |one: &&Goroutine| {
        until_ns.saturating_sub(one.since_ns.max(from)) * 2 >= to.saturating_sub(from).max(1)
    };
    let is_own = |one: &&Goroutine| !is_runtimes(one);
    let mut standing: Vec<&Goroutine> =
        last.standing.iter().filter(is_long).filter(|one| !polls(one)).filter(is_own).collect();
    standing.sort_by_key(|one| (one.since_ns, one.id));
    standing
}

/// Whether no function of the program, or of its libraries, is on a goroutine's stack.
fn is_runtimes(one: &Goroutine) -> bool {
    function(one).is_none_or(go::is_runtimes)
}

/// The least wait that is looked up among goroutines.
const WAIT_NS_MIN: Ns = 1_000_000;

/// What the goroutine does that somebody waits for, for half of a time or more. `asked_ns`: since when, if it was asked.
pub fn stands(
    model: &Model,
    pid: u32,
    asked_ns: Option<Ns>,
    (from, to): (Ns, Ns),
) -> Option<Stands> {
    // Goroutines are read some times a second: of so short a wait they say nothing.
    if to.saturating_sub(from) < WAIT_NS_MIN {
        return None;
    }
    let covers = |one: &Goroutine, until_ns: Ns| {
        let both = until_ns.min(to).saturating_sub(one.since_ns.max(from));
        both * 2 >= to.saturating_sub(from).max(1)
    };
    // How far from the question it began to stand, which was between two readings.
    let away = |one: &Goroutine| match asked_ns {
        Some(asked_ns) if one.since_ns + BEFORE_NS < asked_ns => None,
        Some(asked_ns) => Some(one.absent_ns.saturating_sub(asked_ns)),
        None => Some(0),
    };
    let there = stood(model, pid).filter(|(_, one, until_ns)| covers(one, *until_ns));
    let there = there.filter(|(_, one, _)| !polls(one));
    let fits: Vec<(Ns, &Goroutine)> =
        there.filter_map(|(_, one, _)| Some((away(one)?, one))).collect();
    let nearest = fits.iter().map(|(away, _)| *away).min()?;
    let near = || fits.iter().filter(|(away, _)| *away <= nearest + NEARER_NS).map(|it| it.1);
    if let Some(waits) =
        near().filter(|one| lock_kind(one).is_some()).min_by_key(|one| one.since_ns)
    {
        return Some(Stands::ForMutex(waits.lock));
    }
    // A program that has goroutines asleep for its own reasons owes nobody their end. Of those that stood there when they were
    // first read nobody knows which was asked, if some of them do not sleep.
    let first_ns = model.stacks.goroutines.get(&pid)?.first()?.0;
    let before = || near().filter(|one| one.since_ns == first_ns);
    let may_be_another = before().any(|one| !sleeps(one) && !is_runtimes(one));
    let is_asked = |one: &&Goroutine| sleeps(one) && (one.since_ns != first_ns || !may_be_another);
    asked_ns.and_then(|_| near().find(is_asked)).map(|_| Stands::Asleep)
}

/// Who waits for a mutex within a time, and who has it.
pub fn waiting(model: &Model, pid: u32, lock: u64, from: Ns, to: Ns) -> Option<Waiting<'_>> {
    let waits = |one: &Goroutine| one.lock == lock && lock_kind(one).is_some();
    let of_it = |(_, one, until_ns): &(&Goroutines, &Goroutine, Ns)| {
        waits(one) && one.since_ns <= to && from <= *until_ns
    };
    let (reading, ..) = stood(model, pid).filter(of_it).last()?;
    let all = || reading.standing.iter().filter(|one| waits(one));
    let first = all().min_by_key(|one| (one.since_ns, one.id))?;
    Some(Waiting { reading, first, count: all().count(), holder: holder(reading, lock) })
}

/// The one goroutine that can have a mutex which others wait for. Nobody has one without an address.
fn holder(reading: &Goroutines, lock: u64) -> Option<&Goroutine> {
    let others =
        || reading.standing.iter().filter(|one| one.lock != lock || lock_kind(one).is_none());
    // The address on a stack is what keeps the way back to it: whoever locked it unlocks it. It is that of the struct which begins with
    // it as well, so of several nobody knows which.
    let refers = || {
        let has_it = |one: &&Goroutine| lock != 0 && one.refers.contains(&lock);
        others().filter(has_it).filter(|one| !accepts(one))
    };
    if refers().next().is_some() {
        return only(refers());
    }
    // Of all that were read, the only one that does not wait for a descriptor.
    let is_whole = reading.read == reading.count;
    only(others().filter(|one| !polls(one))).filter(|_| is_whole)
}

fn only<'g>(mut all: impl Iterator<Item = &'g Goroutine>) -> Option<&'g Goroutine> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// The function of the program that a goroutine stands in: the first that is not of Go's own library, else the first that
/// is not of the runtime.
pub fn function(one: &Goroutine) -> Option<&str> {
    let mut functions = one.frames.iter().map(|frame| frame.function.as_str());
    functions
        .find(|function| go::is_of_a_program(function))
        .or_else(|| user_stack::function(&one.frames))
}

/// What a goroutine does, as a verb.
pub fn does(one: &Goroutine) -> &'static str {
    if lock_kind(one).is_some() {
        return "waits for another mutex";
    }
    go::does(one).unwrap_or("is in a system call")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, UserFrame};

    const SECOND: Ns = 1_000_000_000;

    fn goroutine(id: u64, since_ns: Ns, functions: &[&str]) -> Goroutine {
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "shop".into(),
            ..UserFrame::default()
        };
        let absent_ns = since_ns.saturating_sub(SECOND / 10);
        let frames = functions.iter().map(frame).collect();
        Goroutine { id, since_ns, absent_ns, frames, ..Goroutine::default() }
    }

    const LOCK: &[&str] =
        &["runtime.gopark", "internal/sync.(*Mutex).lockSlow", "main.(*Shop).Count"];
    const SLEEP: &[&str] = &["runtime.gopark", "time.Sleep", "main.(*Shop).Order"];
    const ACCEPT: &[&str] = &[
        "runtime.gopark",
        "internal/poll.runtime_pollWait",
        "internal/poll.(*FD).Accept",
        "main.main",
    ];

    /// Read each half of a second, from 1 s to 4 s.
    fn model(standing: Vec<Goroutine>) -> Model {
        let (count, read) = (20, 20);
        let all = Goroutines { pid: 20, count, read, standing, ..Goroutines::default() };
        let fact =
            |at: Ns| Fact { at_ns: SECOND + at * SECOND / 2, body: Body::Goroutines(all.clone()) };
        Model::new((0..7).map(fact).collect())
    }

    fn waits(since_ns: Ns, lock: u64) -> Goroutine {
        Goroutine { lock, ..goroutine(7, since_ns, LOCK) }
    }

    /// Both stood there at the first reading, a second after the look began and was asked.
    #[test]
    fn of_those_that_stood_there_at_first_one_that_sleeps_may_do_so_for_itself() {
        const SELECT: &[&str] = &["runtime.gopark", "runtime.selectgo", "main.(*Shop).Events"];
        let sleeper = || goroutine(8, SECOND, SLEEP);
        let asked = |standing| {
            let within = (SECOND, 3 * SECOND);
            stands(&model(standing), 20, Some(SECOND - SECOND / 20), within)
        };
        assert_eq!(asked(vec![sleeper()]), Some(Stands::Asleep));
        assert_eq!(asked(vec![sleeper(), goroutine(9, SECOND, SELECT)]), None);
    }

    #[test]
    fn who_began_to_stand_soon_after_the_question_is_who_was_asked() {
        let all = model(vec![waits(2 * SECOND, 9), goroutine(8, SECOND, SLEEP)]);
        let asked = |asked_ns| stands(&all, 20, asked_ns, (2 * SECOND, 3 * SECOND));
        assert_eq!(asked(Some(2 * SECOND - SECOND / 20)), Some(Stands::ForMutex(9)));
        // Who asked a second before that waits for the one who has it.
        assert_eq!(asked(Some(SECOND - SECOND / 20)), Some(Stands::Asleep));
        assert_eq!(asked(Some(3 * SECOND)), None, "both stood there before");
        assert_eq!(asked(None), Some(Stands::ForMutex(9)));
        assert_eq!(stands(&all, 20, None, (20 * SECOND, 21 * SECOND)), None, "not read then");
        assert_eq!(stands(&all, 21, None, (2 * SECOND, 3 * SECOND)), None, "another process");
    }

    #[test]
    fn one_whose_stack_refers_to_a_mutex_has_it_if_it_is_the_only_one() {
        let has = |more: Vec<Goroutine>| {
            let all = model([vec![waits(2 * SECOND, 9)], more].concat());
            let found = waiting(&all, 20, 9, 2 * SECOND, 3 * SECOND)?;
            found.holder.map(|one| one.id)
        };
        let refers =
            |id, functions| Goroutine { refers: vec![9], ..goroutine(id, SECOND, functions) };
        assert_eq!(has(vec![refers(1, ACCEPT), refers(3, SLEEP)]), Some(3));
        assert_eq!(has(vec![refers(3, SLEEP), refers(4, SLEEP)]), None, "either may have it");
        assert_eq!(has(vec![refers(3, SLEEP), goroutine(4, SECOND, SLEEP)]), Some(3));
        assert_eq!(has(vec![goroutine(4, SECOND, SLEEP)]), Some(4), "nobody else is there");
        assert_eq!(has(vec![refers(1, ACCEPT)]), None, "whoever has it runs");
    }

    #[test]
    fn a_list_that_was_read_in_part_leaves_room_for_another_holder() {
        let mut read = Goroutines { read: 10, count: 20, ..Goroutines::default() };
        read.standing = vec![waits(SECOND, 9), goroutine(4, SECOND, SLEEP)];
        assert_eq!(holder(&read, 9), None);
        read.read = 20;
        assert_eq!(holder(&read, 9).map(does), Some("sleeps"));
    }
}
