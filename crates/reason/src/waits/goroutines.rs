//! Which goroutines of a Go program waited for a mutex, or slept, while somebody waited for the program.
//!
//! Any thread of such a program runs any goroutine, so what its threads wait for, and who woke them, says nothing of the
//! one that is waited for: the goroutines do, as they were read (facts/goroutine.rs). One that stands because of a question
//! began to stand soon after it. The runtime keeps no owner of a mutex. So whoever has it is named only if one goroutine
//! alone can have it: whose stack refers to it, or the only one beside those that wait for it. Must not: guess among several.
//!
//! Edit together: programs/go.rs (what a stack says), graph/chains.rs (who asks), rules/lock/goroutine.rs.

use super::user_stack;
use crate::facts::{
    GOROUTINE_FRAMES_MAX, GOROUTINES_QUEUED_MAX, GOROUTINES_STANDING_MAX, Goroutine, Goroutines, Ns,
};
use crate::model::{Model, words};
use crate::programs::go::{self, accepts, polls, sleeps};
use crate::programs::lock_kind::LockKind;
use std::cmp::Reverse;

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

/// Those of the last reading in a time that stood for half of it or more, as far as it was read, the longest first; not those that wait
/// for a descriptor, nor the runtime's own, nor those that were met there once, which may have come that instant.
pub fn standing(model: &Model, pid: u32, (from, to): (Ns, Ns)) -> Vec<&Goroutine> {
    let Some(all) = model.stacks.goroutines.get(&pid) else { return Vec::new() };
    let Some((at_ns, last)) = all.iter().rev().find(|(at_ns, _)| *at_ns <= to) else {
        return Vec::new();
    };
    let until_ns = at_ns.saturating_add(REPORTED_AGAIN_NS).min(to);
    // On a crowded host the first reading comes late.
    let read_ns = all.first().map_or(from, |(first_ns, _)| from.max(*first_ns));
    let is_half = |since_ns: Ns, from: Ns| {
        until_ns.saturating_sub(since_ns.max(from)) * 2 >= to.saturating_sub(from).max(1)
    };
    let is_long = |one: &&Goroutine| {
        one.since_ns < *at_ns && (is_half(one.since_ns, from) || is_half(one.since_ns, read_ns))
    };
    let is_own = |one: &&Goroutine| !is_runtimes(one);
    let mut standing: Vec<&Goroutine> =
        last.standing.iter().filter(is_long).filter(|one| !polls(one)).filter(is_own).collect();
    standing.sort_by_key(|one| (one.since_ns, one.id));
    standing
}

/// Groups of goroutines that are said.
const GROUPS_MAX: usize = 3;
/// The number of the goroutine that runs a program's main function.
const MAIN: u64 = 1;

/// Goroutines that do the same in the same function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'m> {
    /// That function.
    pub function: &'m str,
    /// How many there are.
    pub count: usize,
    /// There may be more: not all that stand were reported.
    pub is_part: bool,
    does: &'static str,
    asleep: bool,
    /// When the last of them began that may serve a question; 0: none may.
    served_ns: Ns,
}

impl Group<'_> {
    /// `wait for room in a channel in main.submit()`.
    pub fn does(&self) -> String {
        let (verb, rest) = self.does.split_at(self.does.find(' ').unwrap_or(self.does.len()));
        let verb = if self.count == 1 { verb } else { plural(verb) };
        format!("{verb}{rest} in {}()", self.function)
    }
}

/// Those that stand by what they do: those of the program's own functions first, who waits before who sleeps, then the most.
pub fn groups(model: &Model, pid: u32, within: (Ns, Ns)) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let all = model.stacks.goroutines.get(&pid).map_or(&[][..], Vec::as_slice);
    let any = |is: fn(&Goroutines) -> bool| all.iter().any(|(_, read)| is(read));
    let is_cut = any(|it| it.standing.len() >= GOROUTINES_STANDING_MAX || it.read < it.count);
    let has_more_queued =
        any(|it| it.standing.iter().filter(|one| queues(one)).count() >= GOROUTINES_QUEUED_MAX);
    for one in standing(model, pid, within) {
        let Some(function) = function(one) else { continue };
        let (does, asleep, served_ns) = (does(one), sleeps(one), served_ns(one));
        let is_part = is_cut || has_more_queued && queues(one);
        match groups.iter_mut().find(|it| it.function == function && it.does == does) {
            Some(group) => {
                group.count += 1;
                group.is_part |= is_part;
                group.served_ns = group.served_ns.max(served_ns);
            }
            None => groups.push(Group { function, count: 1, is_part, does, asleep, served_ns }),
        }
    }
    groups.sort_by_key(|it| (!go::is_of_a_program(it.function), it.asleep, Reverse(it.count)));
    groups
}

/// What some of those that stand wait for who do not wait for work, and how many: a lock, or else a connection of a pool.
pub fn held_up(model: &Model, pid: u32, within: (Ns, Ns)) -> Option<(usize, &'static str)> {
    let all = standing(model, pid, within);
    let locks = || all.iter().filter_map(|one| lock_kind(one));
    let pools = all.iter().filter(|one| go::awaits_connection(one)).count();
    match locks().next() {
        Some(kind) => Some((locks().filter(|it| *it == kind).count(), kind.phrase())),
        None => (pools > 0).then_some((pools, "a connection of a pool")),
    }
}

/// Whether one that may serve a question was seen to stand behind others: it waits for room in a channel, as for one of some places. Not where another that may
/// serve one sleeps: whose question that is nobody knows.
pub fn stands_behind(model: &Model, pid: u32) -> bool {
    let served = || stood(model, pid).map(|(_, one, _)| one).filter(|one| served_ns(one) != 0);
    served().any(go::awaits_room) && !served().any(sleeps)
}

/// Whether it is one of those of which only some are reported (stacks' go_routines.rs).
fn queues(one: &Goroutine) -> bool {
    one.frames.iter().any(|frame| frame.function.contains("Semacquire"))
}

/// Since when one may serve a question; 0: never. The main goroutine begins others for that. What stood there as it was first read may be
/// any worker of the program's, unless a server of Go's library began it.
fn served_ns(one: &Goroutine) -> Ns {
    let is_main = one.id == MAIN || root(one) == Some("runtime.main");
    let by_library = || root(one).is_some_and(|it| !go::is_of_a_program(it));
    let may_serve = !is_main && (one.absent_ns != 0 || by_library());
    if may_serve { one.since_ns } else { 0 }
}

/// The group of whom somebody has asked since then, as far as one can be it alone: none where others of the program's own wait in another function, and
/// none that sleeps, is the library's, or stood there before the question.
pub fn only_group<'g, 'm>(groups: &'g [Group<'m>], asked_ns: Ns) -> Option<&'g Group<'m>> {
    let (first, others) = groups.split_first()?;
    let waits = |it: &Group<'_>| !it.asleep && go::is_of_a_program(it.function);
    let is_another = |it: &Group<'_>| waits(it) && it.function != first.function;
    let is_asked = waits(first) && first.served_ns.saturating_add(BEFORE_NS) >= asked_ns;
    (first.served_ns != 0 && is_asked && !others.iter().any(is_another)).then_some(first)
}

/// The same as a clause: `3 goroutines wait for room in a channel in main.submit(), 2 sleep in main.worker()`.
pub fn summary(model: &Model, pid: u32, within: (Ns, Ns)) -> Option<String> {
    let groups = groups(model, pid, within);
    let (shown, rest) = groups.split_at(groups.len().min(GROUPS_MAX));
    let (first, others) = shown.split_first()?;
    let least = |is_part: bool| if is_part { "at least " } else { "" };
    let count = words::count(first.count, "goroutine", "goroutines");
    let mut said = vec![format!("{}{count} {}", least(first.is_part), first.does())];
    said.extend(others.iter().map(|it| format!("{}{} {}", least(it.is_part), it.count, it.does())));
    let more: usize = rest.iter().map(|it| it.count).sum();
    let stand = if more == 1 { "stands" } else { "stand" };
    let least = least(rest.iter().any(|it| it.is_part));
    said.extend((more > 0).then(|| format!("{least}{more} more {stand}")));
    Some(said.join(", "))
}

/// A verb of one, for several.
fn plural(verb: &'static str) -> &'static str {
    match verb {
        "is" => "are",
        verb => verb.strip_suffix('s').unwrap_or(verb),
    }
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
    let near: Vec<&Goroutine> =
        fits.iter().filter(|(away, _)| *away <= nearest + NEARER_NS).map(|(_, one)| *one).collect();
    let waiting = near.iter().filter(|one| lock_kind(one).is_some());
    if let Some(first) = waiting.min_by_key(|one| one.since_ns) {
        // Of a program that nobody is known to have asked, what some of it waits for is true as well.
        let lock = match asked_ns {
            Some(_) => awaited_lock(model, pid, &near, (from, to)),
            None => Some(first.lock),
        };
        return lock.map(Stands::ForMutex);
    }
    let near = || near.iter().copied();
    // A program that has goroutines asleep for its own reasons owes nobody their end. Of those that stood there when they were
    // first read nobody knows which was asked, if some of them do not sleep.
    let first_ns = model.stacks.goroutines.get(&pid)?.first()?.0;
    let before = || near().filter(|one| one.since_ns == first_ns);
    let may_be_another = before().any(|one| !sleeps(one) && !is_runtimes(one));
    let is_asked = |one: &&Goroutine| sleeps(one) && (one.since_ns != first_ns || !may_be_another);
    asked_ns.and_then(|_| near().find(is_asked)).map(|_| Stands::Asleep)
}

/// The mutex that the one of some goroutines waits for that was asked; 0: which it is is not known. Goroutines that one function began serve
/// alike: if one of them stands at a channel, a condition or in a sleep that is not the holder's, nobody knows which of them was asked. Of
/// several mutexes only the one counts whose waiters have all the others. Of each what was read last counts: it goes from lock to lock.
fn awaited_lock(model: &Model, pid: u32, near: &[&Goroutine], (from, to): (Ns, Ns)) -> Option<u64> {
    let last = |(at, one): (usize, &&Goroutine)| !near[at + 1..].iter().any(|it| it.id == one.id);
    let near: Vec<&Goroutine> =
        near.iter().enumerate().filter(|it| last(*it)).map(|(_, one)| *one).collect();
    let waiting: Vec<&Goroutine> =
        near.iter().copied().filter(|one| lock_kind(one).is_some()).collect();
    let has = |lock: u64, other: u64| {
        other == lock || waiting.iter().any(|one| one.lock == lock && one.refers.contains(&other))
    };
    let has_the_others = |lock: &u64| waiting.iter().all(|one| has(*lock, one.lock));
    let lock = waiting.iter().map(|one| one.lock).find(has_the_others)?;
    let found = self::waiting(model, pid, lock, from, to).and_then(|found| found.holder);
    // Of a stack that was not read to its end nobody knows who began it.
    let is_cut = |one: &Goroutine| one.frames.len() >= GOROUTINE_FRAMES_MAX;
    let begun_alike = |one: &Goroutine| {
        is_cut(one) || waiting.iter().any(|it| is_cut(it) || root(it) == root(one))
    };
    let may_be_asked = |one: &&Goroutine| match found {
        _ if lock_kind(one).is_some() || !begun_alike(one) => false,
        Some(holder) => one.id != holder.id,
        None => !sleeps(one),
    };
    (!near.iter().any(may_be_asked)).then_some(lock)
}

/// The function that a goroutine was begun with.
fn root(one: &Goroutine) -> Option<&str> {
    let mut functions = one.frames.iter().rev().map(|frame| frame.function.as_str());
    functions.find(|function| *function != "runtime.goexit")
}

/// Who waits for a mutex within a time, and who has it.
pub fn waiting(model: &Model, pid: u32, lock: u64, from: Ns, to: Ns) -> Option<Waiting<'_>> {
    let waits = |one: &Goroutine| one.lock == lock && lock_kind(one).is_some();
    let of_it = |(_, one, until_ns): &(&Goroutines, &Goroutine, Ns)| {
        waits(one) && one.since_ns <= to && from <= *until_ns
    };
    let readings = || stood(model, pid).filter(of_it).map(|(reading, ..)| reading);
    // One that runs may have it: nothing is known of where that stands.
    let whole = readings().filter(|reading| !reading.some_run).last();
    let reading = whole.or_else(|| readings().last())?;
    let all = || reading.standing.iter().filter(|one| waits(one));
    let first = all().min_by_key(|one| (one.since_ns, one.id))?;
    let holder = whole.and_then(|reading| holder(reading, lock));
    Some(Waiting { reading, first, count: all().count(), holder })
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

/// What the one does that has a mutex which others wait for, as a verb.
pub fn holder_does(one: &Goroutine) -> &'static str {
    if lock_kind(one).is_some() { "waits for another mutex" } else { does(one) }
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
fn does(one: &Goroutine) -> &'static str {
    if lock_kind(one).is_some() {
        return "waits for a mutex";
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

    /// Handlers of one server: those of the mutex and those of the channel were begun by one function.
    #[test]
    fn who_is_served_by_the_same_function_at_a_channel_does_not_wait_for_the_mutex_of_another() {
        const ROOT: &str = "net/http.(*conn).serve";
        let handler =
            |id, functions: &[&str]| goroutine(id, SECOND, &[functions, &[ROOT][..]].concat());
        const SEND: &[&str] = &["runtime.gopark", "runtime.chansend", "main.submit"];
        let at_mutex = || Goroutine { lock: 9, ..handler(7, LOCK) };
        let has_it = || Goroutine { refers: vec![9], ..handler(8, SLEEP) };
        let asked = |standing| {
            stands(&model(standing), 20, Some(SECOND - SECOND / 20), (SECOND, 3 * SECOND))
        };
        assert_eq!(asked(vec![at_mutex(), has_it()]), Some(Stands::ForMutex(9)));
        assert_eq!(asked(vec![at_mutex(), has_it(), handler(10, SEND)]), None);
        assert_eq!(asked(vec![at_mutex(), has_it(), handler(10, SLEEP)]), None, "its own sleep");
        let background = goroutine(11, SECOND, &[SEND, &["main.main"][..]].concat());
        assert_eq!(asked(vec![at_mutex(), has_it(), background]), Some(Stands::ForMutex(9)));
        let at_another = || Goroutine { lock: 17, ..handler(12, LOCK) };
        assert_eq!(asked(vec![at_mutex(), at_another()]), None, "either may have been asked");
        let has_the_first = Goroutine { refers: vec![9], ..at_another() };
        assert_eq!(asked(vec![at_mutex(), has_the_first]), Some(Stands::ForMutex(17)));
        let deep = [SEND, &["main.deep"; GOROUTINE_FRAMES_MAX][SEND.len()..]].concat();
        let unknown = goroutine(10, SECOND, &deep);
        assert_eq!(asked(vec![at_mutex(), has_it(), unknown]), None, "who began it is not known");
    }

    #[test]
    fn who_has_gone_on_to_another_mutex_waits_for_that_alone() {
        let model = model(Vec::new());
        let (before, now) = (waits(SECOND, 9), waits(2 * SECOND, 17));
        let lock = |near: &[&Goroutine]| awaited_lock(&model, 20, near, (SECOND, 3 * SECOND));
        assert_eq!(lock(&[&before, &now]), Some(17));
        let other = Goroutine { id: 8, ..waits(SECOND, 9) };
        assert_eq!(lock(&[&other, &now]), None, "either may have been asked");
    }

    #[test]
    fn what_goroutines_do_is_said_in_groups() {
        const SEND: &[&str] = &["runtime.gopark", "runtime.chansend", "main.submit"];
        const OPENER: &[&str] = &["runtime.selectgo", "database/sql.(*DB).connectionOpener"];
        let all = vec![
            goroutine(1, SECOND, OPENER),
            goroutine(2, SECOND, SLEEP),
            goroutine(3, SECOND, SEND),
            goroutine(4, SECOND, SEND),
            goroutine(5, SECOND, ACCEPT),
        ];
        assert_eq!(
            summary(&model(all), 20, (SECOND, 4 * SECOND)).as_deref(),
            Some(
                "2 goroutines wait for room in a channel in main.submit(), 1 sleeps in main.(*Shop).Order(), \
                 1 waits in select in database/sql.(*DB).connectionOpener()"
            )
        );
        let group = |function, asleep| Group {
            function,
            count: 1,
            is_part: false,
            does: "waits for a channel",
            asleep,
            served_ns: 2 * SECOND,
        };
        let (handler, other) = (group("main.submit", false), group("main.other", false));
        let sleeper = group("main.worker", true);
        assert_eq!(only_group(&[handler, sleeper], 2 * SECOND), Some(&handler));
        assert_eq!(only_group(&[handler, sleeper], 3 * SECOND), None, "it stood before");
        assert_eq!(only_group(&[handler, other], 2 * SECOND), None, "either may be it");
        assert_eq!(only_group(&[sleeper], 2 * SECOND), None);
        let opener = group("database/sql.(*DB).connectionOpener", false);
        assert_eq!(only_group(&[opener], 2 * SECOND), None);
        let of_main = Group { served_ns: 0, ..handler };
        assert_eq!(only_group(&[of_main], 0), None);
        // The first reading of a crowded host comes late: one reading says nothing of how long.
        let late = model(vec![goroutine(3, SECOND, SEND)]);
        assert_eq!(summary(&late, 20, (0, SECOND + SECOND / 10)), None);
        assert!(summary(&late, 20, (0, SECOND + SECOND * 3 / 5)).is_some());
        assert_eq!(summary(&model(Vec::new()), 20, (0, 4 * SECOND)), None);
    }

    #[test]
    fn who_serves_a_question_was_begun_for_it() {
        let served = |id, absent_ns, root: &str| {
            let functions = ["runtime.chansend", "main.submit", root, "runtime.goexit"];
            served_ns(&Goroutine { absent_ns, ..goroutine(id, SECOND, &functions) })
        };
        assert_eq!(served(7, SECOND / 2, "main.handle"), SECOND);
        assert_eq!(served(7, 0, "main.handle"), 0, "it may be any worker");
        assert_eq!(served(7, 0, "net/http.(*conn).serve"), SECOND);
        assert_eq!(served(7, SECOND / 2, "runtime.main"), 0);
        assert_eq!(served(MAIN, SECOND / 2, "main.handle"), 0);
    }

    #[test]
    fn of_many_that_queue_only_some_are_reported() {
        const QUEUE: &[&str] = &["runtime.gopark", "sync.runtime_SemacquireMutex", "main.add"];
        let said = |count, read: u64| {
            let queued = (0..count).map(|id| goroutine(id + 10, SECOND, QUEUE));
            let standing = queued.chain([goroutine(8, SECOND, SLEEP)]).collect();
            let all = Goroutines { pid: 20, count: 2000, read, standing, ..Goroutines::default() };
            let fact = |at| Fact { at_ns: at * SECOND, body: Body::Goroutines(all.clone()) };
            summary(&Model::new(vec![fact(1), fact(2)]), 20, (SECOND, 2 * SECOND)).expect("it is")
        };
        assert!(said(19, 2000).starts_with("19 goroutines wait for a mutex"), "{}", said(19, 2000));
        let full = said(20, 2000);
        assert!(
            full.starts_with("at least 20 goroutines") && full.contains(", 1 sleeps"),
            "{full}"
        );
        let part = said(3, 1000);
        assert!(part.starts_with("at least 3") && part.contains(", at least 1 sleeps"), "{part}");
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
    fn while_another_runs_nobody_knows_who_has_it() {
        let named = |some_run: [bool; 2]| {
            let standing = || vec![waits(SECOND, 9), goroutine(4, SECOND, SLEEP)];
            let of = |(at, some_run): (usize, bool)| {
                let whole = Goroutines { pid: 20, read: 2, count: 2, ..Goroutines::default() };
                let read = Goroutines { standing: standing(), some_run, ..whole };
                Fact { at_ns: (at as u64 + 2) * SECOND, body: Body::Goroutines(read) }
            };
            let model = Model::new(some_run.into_iter().enumerate().map(of).collect());
            let found = waiting(&model, 20, 9, 2 * SECOND, 4 * SECOND).expect("who waits");
            found.holder.map(|one| one.id)
        };
        assert_eq!(named([true, true]), None);
        assert_eq!(named([false, true]), Some(4), "by the reading in which all stood");
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
