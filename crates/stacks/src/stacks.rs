//! The user stacks of a look: when they are read, whose, and what became of each.
//!
//! Three times a second those of what was asked about are read, and at the end of what stands then. Of a command that has ended
//! nothing stands any more, so its servers are looked at while it runs. Owns the account of what may be spent on the memory of
//! others. Must not: choose whose (choose.rs), or read (reader.rs).

use super::budget::{Allowance, cpu_ns};
use super::choose::{self, Chosen, THREADS_AHEAD_OF_TIME_MAX, THREADS_MAX, Wanted};
use super::left::{Left, Walker, Whose};
use super::perf_map;
use super::reader::{self, Batch, Helper};
use holdup_reason::facts::*;
use holdup_system::clock::now;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Ticks between two readings while a look goes on.
const TICKS: u64 = 3;
/// Each so manyth reading of a command is of its servers too: of whoever began to wait since the command began.
const TURNS: u64 = 3;
/// Walks that a reading pays for once it is done: the one before it and the one after it.
const WALKS_MEANWHILE: u64 = 2;
/// How long a reading may take while a look goes on, and at its end.
const TIMEOUT: Duration = Duration::from_millis(50);
const TIMEOUT_AT_THE_END: Duration = Duration::from_millis(200);
/// What of the time that a look has lasted stacks are read for while it goes on, and at its end: the rest is for those
/// that stand at the end, and for the functions that the CPU clock hit (functions.rs).
const PART_BETWEEN: (u64, u64) = (3, 4);
const PART_AT_THE_END: (u64, u64) = (4, 5);

fn part(lasted_ns: Ns, (part, of): (u64, u64)) -> Ns {
    lasted_ns / of * part
}

/// A command and a process that was asked about have what a look of this length has, from the first reading on: the names of one large
/// program take the whole of what two seconds give, and without them a short command's only stack has none.
const ASKED_LASTED_NS_MIN: Ns = 5_000_000_000;

/// The same at the end of a look at a process: for the walk, before which it is not known whether the process waits for others, and for what is
/// read behind it if it does. Why they do not answer is in their stacks, and all that was to be had may have gone to its own.
const PARTNERS_LASTED_NS_MIN: Ns = 15_000_000_000;

/// Batches that hung before no more are tried.
const GIVEN_UP_MAX: u32 = 2;

/// What reads the stacks of a look.
pub struct UserStacks {
    /// Whose stacks are read while the look goes on.
    target: Option<Whose>,
    helper: Option<Helper>,
    given_up: u32,
    /// By thread id, the wait whose stack was read: by the count of switches.
    read: HashMap<u32, u64>,
    /// Threads that are known to have what others wait for, or to wait for what another has.
    known: HashSet<u32>,
    /// Threads with a wait for whose stack there was no time.
    left_out: HashSet<u32>,
    /// Processes of which it was said that their map is too long.
    too_long: HashSet<u32>,
    /// Processes of which it was said that they are of 32 bits.
    narrow: HashSet<u32>,
    allowance: Allowance,
    /// The time by which it is counted at least what reading may take.
    counted_ns_min: Ns,
    /// Stacks that were whole, and those whose thread had moved.
    whole: u64,
    torn: u64,
    next_tick: u64,
    turn: u64,
}

impl UserStacks {
    /// For a look in which the stacks of these are read while it goes on.
    pub fn of(target: Option<Whose>) -> Self {
        Self {
            target,
            helper: None,
            given_up: 0,
            read: HashMap::new(),
            known: HashSet::new(),
            left_out: HashSet::new(),
            too_long: HashSet::new(),
            narrow: HashSet::new(),
            allowance: Allowance::default(),
            counted_ns_min: if target.is_some() { ASKED_LASTED_NS_MIN } else { 0 },
            whole: 0,
            torn: 0,
            next_tick: 0,
            turn: 0,
        }
    }

    /// Writes down what it took and what came of it.
    pub fn count(&self, cost: &mut Cost) {
        cost.user_stacks = self.whole;
        cost.user_stacks_torn = self.torn;
        cost.user_stacks_left_out = self.left_out.len() as u64;
        cost.user_stacks_seconds = self.allowance.spent_ns() as f64 / 1e9;
    }

    /// CPU time that is left of what reading may take by now.
    pub fn rest_ns(&self, lasted_ns: Ns) -> Ns {
        self.allowance.rest_ns(self.counted_ns(lasted_ns))
    }

    /// The time by which it is counted what reading may take.
    fn counted_ns(&self, lasted_ns: Ns) -> Ns {
        lasted_ns.max(self.counted_ns_min)
    }

    /// The same while the look goes on: what is given beyond the time is for the first stacks, and not for walks of hundreds of threads, of which
    /// most find nothing new.
    fn counted_between_ns(&self, lasted_ns: Ns) -> Ns {
        let has_found = self.whole > 0 && self.allowance.is_walk_dear();
        part(if has_found { lasted_ns } else { self.counted_ns(lasted_ns) }, PART_BETWEEN)
    }

    /// Threads whose stacks are read at once.
    fn threads_max(&self, lasted_ns: Ns) -> usize {
        if lasted_ns < self.counted_ns(lasted_ns) { THREADS_AHEAD_OF_TIME_MAX } else { THREADS_MAX }
    }

    /// Pays for what was read of memory by others than the helper.
    pub fn pay(&mut self, spent_ns: Ns) {
        self.allowance.pay(spent_ns);
    }

    /// Says whose maps of code that was made at run time are too long to be read, of each once.
    pub fn say_too_long(&mut self, pids: &[u32], facts: &mut Vec<Fact>) {
        let fresh = pids.iter().filter(|pid| self.too_long.insert(**pid));
        facts.extend(fresh.map(|pid| perf_map::too_long(now(), *pid)));
    }

    /// Leaves out the threads of programs of 32 bits, whose words, registers and tables are others, and says so of each program once.
    fn leave_out_narrow(&mut self, left: &mut Vec<Left>) -> Vec<Fact> {
        let mut fresh = Vec::new();
        left.retain(|left| {
            let is_narrow = left.is_of_32_bits();
            if is_narrow && self.narrow.insert(left.thread.pid) {
                fresh.push(left.thread.pid);
            }
            !is_narrow
        });
        narrow(now(), fresh).into_iter().collect()
    }

    /// Reports the stacks of what was asked about, as far as it waits for long already, at some tick of a look that began then.
    /// `None`: nobody walks, or the window is to end.
    pub fn between<E>(
        &mut self,
        walker: Option<&mut dyn Walker<Error = E>>,
        (tick, begin_ns): (u64, Ns),
        facts: &mut Vec<Fact>,
    ) -> Result<(), E> {
        let Some(whose) = self.target else { return Ok(()) };
        self.known.extend(choose::known(facts));
        let Some(walker) = walker.filter(|_| tick >= self.next_tick) else { return Ok(()) };
        self.next_tick = tick + TICKS;
        let lasted_ns = now().saturating_sub(begin_ns);
        if !self.allowance.is_worth(self.counted_between_ns(lasted_ns)) {
            return Ok(());
        }
        let spent_before_ns = cpu_ns();
        let reported = self.stacks_of(walker, whose, begin_ns, lasted_ns);
        self.allowance.pay(cpu_ns().saturating_sub(spent_before_ns));
        facts.extend(reported?);
        Ok(())
    }

    fn stacks_of<E>(
        &mut self,
        walker: &mut dyn Walker<Error = E>,
        whose: Whose,
        begin_ns: Ns,
        lasted_ns: Ns,
    ) -> Result<Vec<Fact>, E> {
        self.turn += 1;
        let others = whose == Whose::Traced && self.turn.is_multiple_of(TURNS);
        let whose = if others { Whose::All } else { whose };
        let mut wanted = self.walk(walker, whose)?;
        // Whose wait is older than the command does not wait for its sake.
        wanted.retain(|left| !others || left.since_ns >= begin_ns);
        let counted_ns = self.counted_between_ns(lasted_ns);
        let allowed_ns = self.allowance.batch_ns(counted_ns, WALKS_MEANWHILE);
        let may = May { allowed_ns, timeout: TIMEOUT };
        // The rest is for the end.
        let threads_max = self.threads_max(lasted_ns) / 2;
        let chosen = choose::between(wanted, &self.known, threads_max);
        self.read(walker, whose, chosen, may)
    }

    /// A walk for all that there is to know of each thread took so long: no walk for less is dearer.
    pub fn expect_walk(&mut self, walk_ns: Ns) {
        self.allowance.expect_walk(walk_ns);
    }

    /// Where all threads stand at the end of a window that lasted so long, before their switches are no longer counted; none if
    /// to ask is dearer than there is time for.
    pub fn left_at_the_end<E>(
        &mut self,
        walker: &mut dyn Walker<Error = E>,
        lasted_ns: Ns,
    ) -> Result<Option<Vec<Left>>, E> {
        let counted_ns = match self.process() {
            Some(_) => lasted_ns.max(PARTNERS_LASTED_NS_MIN),
            None => self.counted_ns(lasted_ns),
        };
        if !self.allowance.is_worth_at_the_end(part(counted_ns, PART_AT_THE_END)) {
            return Ok(None);
        }
        let begin_ns = cpu_ns();
        let left = self.walk(walker, Whose::All);
        self.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        left.map(Some)
    }

    /// The process that was asked about, if one was.
    pub fn process(&self) -> Option<u32> {
        match self.target {
            Some(Whose::Process(pid)) => Some(pid),
            _ => None,
        }
    }

    /// Reports the stacks of standing waits. `facts` has who holds the futexes that they wait for, `partners` who may owe the
    /// process that was asked about an answer. `None`: nobody walks any more.
    pub fn at_the_end<E>(
        &mut self,
        walker: Option<&mut dyn Walker<Error = E>>,
        waits: &[Fact],
        left: Option<Vec<Left>>,
        partners: HashSet<u32>,
        lasted_ns: Ns,
        facts: &mut Vec<Fact>,
    ) -> Result<(), E> {
        self.known.extend(choose::known(facts));
        let Some(walker) = walker else { return Ok(()) };
        if !partners.is_empty() {
            self.counted_ns_min = PARTNERS_LASTED_NS_MIN;
        }
        let wanted = Wanted { target: self.process(), partners, known: self.known.clone() };
        let begin_ns = cpu_ns();
        let chosen = match left {
            Some(left) => choose::at_the_end(left, waits, &wanted, self.threads_max(lasted_ns)),
            None => Chosen { beyond: choose::standing(waits).collect(), ..Chosen::default() },
        };
        let lasted_ns = part(self.counted_ns(lasted_ns), PART_AT_THE_END);
        let allowed_ns = self.allowance.batch_ns(lasted_ns, 1);
        let may = May { allowed_ns, timeout: TIMEOUT_AT_THE_END };
        let reported = self.read(walker, Whose::All, chosen, may);
        self.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        facts.extend(reported?);
        Ok(())
    }

    /// Where blocked threads left user space.
    fn walk<E>(
        &mut self,
        walker: &mut dyn Walker<Error = E>,
        whose: Whose,
    ) -> Result<Vec<Left>, E> {
        let begin_ns = cpu_ns();
        let left = walker.left(whose);
        self.allowance.saw_walk(cpu_ns().saturating_sub(begin_ns));
        left
    }

    /// Reads the stacks of those who have not moved since; `whose` they are among.
    fn read<E>(
        &mut self,
        walker: &mut dyn Walker<Error = E>,
        whose: Whose,
        mut chosen: Chosen,
        may: May,
    ) -> Result<Vec<Fact>, E> {
        let is_read = |left: &Left| self.read.get(&left.thread.tid) == Some(&left.switches);
        chosen.left.retain(|left| !is_read(left));
        let mut facts = self.leave_out_narrow(&mut chosen.left);
        self.left_out.extend(&chosen.beyond);
        let missed = chosen.left.iter().map(|left| left.thread.tid);
        self.left_out.extend(missed.filter(|tid| !chosen.without_work.contains(tid)));
        let May { allowed_ns, timeout } = may;
        if chosen.left.is_empty() || allowed_ns == 0 || self.given_up >= GIVEN_UP_MAX {
            return Ok(facts);
        }
        if self.helper.is_none() {
            self.helper = Helper::start();
        }
        let batch = Batch { left: chosen.left.clone(), allowed_ns, timeout };
        let Some(read) = self.helper.as_ref().and_then(|helper| helper.read(batch)) else {
            self.helper = None;
            self.given_up += 1;
            // What it has taken is not known.
            self.allowance.pay(allowed_ns);
            facts.extend(hung(self.given_up));
            return Ok(facts);
        };
        self.allowance.pay(read.spent_ns);
        self.allowance.save_for(read.needed_ns);
        let again = self.walk(walker, whose)?;
        self.say_too_long(&read.too_long, &mut facts);
        facts.extend(self.unmoved(chosen.left, again, read));
        Ok(facts)
    }

    /// The stacks of those whose thread stood still all the time.
    fn unmoved(&mut self, wanted: Vec<Left>, again: Vec<Left>, read: reader::Read) -> Vec<Fact> {
        let again: HashMap<u32, &Left> = again.iter().map(|left| (left.thread.tid, left)).collect();
        let mut facts = Vec::new();
        for (left, stack) in wanted.into_iter().zip(read.stacks) {
            self.left_out.remove(&left.thread.tid);
            if !again.get(&left.thread.tid).is_some_and(|now| now.is_same(&left)) {
                self.torn += 1;
                continue;
            }
            // Also one without a name: it would have none the next time, unless there was no time for names.
            if read.needed_ns == 0 {
                self.read.insert(left.thread.tid, left.switches);
            }
            let Some(stack) = stack else {
                if read.needed_ns > 0 {
                    self.left_out.insert(left.thread.tid);
                }
                continue;
            };
            self.whole += 1;
            facts.extend(owner_of(&left, stack.owner_tid));
            let body = Body::UserStack(UserStack {
                thread: left.thread,
                since_ns: left.since_ns,
                frames: stack.frames,
                complete: stack.complete,
            });
            facts.push(Fact { at_ns: left.at_ns, body });
        }
        facts
    }
}

/// Who has what a thread waits for, by its runtime: no word of memory says it.
fn owner_of(left: &Left, owner_tid: u32) -> Option<Fact> {
    let waiter = left.thread.clone();
    let owner = FutexOwner { waiter, address: 0, word: 0, owner_tid, gone_tid: 0 };
    (owner_tid != 0).then_some(Fact { at_ns: left.at_ns, body: Body::FutexOwner(owner) })
}

/// What a reading may take: CPU time, and time on the clock.
#[derive(Debug, Clone, Copy)]
struct May {
    allowed_ns: Ns,
    timeout: Duration,
}

/// Said once for a process.
fn narrow(at_ns: Ns, pids: Vec<u32>) -> Option<Fact> {
    let first = pids.first()?;
    let whose = match pids.len() {
        1 => format!("process {first} is a program of 32 bits, whose stacks are not read"),
        several => {
            format!("{several} processes are programs of 32 bits, whose stacks are not read")
        }
    };
    let blind = Blind {
        what: "user_stacks".into(),
        why: whose,
        therefore: "which lock they wait for is said only as far as the kernel knows".into(),
        pids,
        ..Blind::default()
    };
    Some(Fact { at_ns, body: Body::Blind(blind) })
}

/// Said once, when no more is tried.
fn hung(times: u32) -> Vec<Fact> {
    let blind = Blind {
        what: "user_stacks".into(),
        why: "to read the memory of a process took too long, again".into(),
        therefore: "which lock a program waits for is said only as far as the kernel knows".into(),
        ..Blind::default()
    };
    let said = times >= GIVEN_UP_MAX;
    said.then(|| Fact { at_ns: now(), body: Body::Blind(blind) }).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_of_32_bits_is_not_read_as_one_of_64_and_that_is_said_once() {
        let thread = |tid, pid| ThreadRef { tid, pid, ..ThreadRef::default() };
        let left = |tid, pid, stack, instruction| {
            let thread = thread(tid, pid);
            Left { thread, stack, instruction, ..Left::default() }
        };
        let mut all = vec![
            left(10, 10, 0xfff0_1000, 0xf7f0_1000),
            left(11, 10, 0xf6f0_1000, 0xf7f0_1000),
            left(20, 20, 0x7ffd_54a3_e1c8, 0x40_1000),
            left(30, 30, 0, 0),
        ];
        let mut stacks = UserStacks::of(None);
        let said = stacks.leave_out_narrow(&mut all.clone());
        let again = stacks.leave_out_narrow(&mut all);
        assert_eq!(all.iter().map(|left| left.thread.tid).collect::<Vec<_>>(), [20, 30]);
        let Body::Blind(blind) = &said[0].body else { panic!("{said:?}") };
        assert_eq!((said.len(), &*blind.pids, again.len()), (1, &[10][..], 0));
    }

    #[test]
    fn what_was_asked_about_is_read_as_in_a_longer_look() {
        let (host, asked) = (UserStacks::of(None), UserStacks::of(Some(Whose::Process(1))));
        let second = 1_000_000_000;
        assert_eq!(asked.rest_ns(second), host.rest_ns(ASKED_LASTED_NS_MIN));
        assert!(host.rest_ns(second) < asked.rest_ns(second));
        let long = 4 * ASKED_LASTED_NS_MIN;
        assert_eq!(asked.rest_ns(long), host.rest_ns(long), "a long look has its own part");
    }

    #[test]
    fn once_stacks_were_found_dear_walks_are_paid_from_the_time_that_has_passed() {
        let second = 1_000_000_000;
        let counted = |whole, walk_ns| {
            let mut stacks = UserStacks::of(Some(Whose::Process(1)));
            stacks.whole = whole;
            stacks.allowance.saw_walk(walk_ns);
            stacks.counted_between_ns(second)
        };
        let ahead = part(ASKED_LASTED_NS_MIN, PART_BETWEEN);
        assert_eq!(counted(64, second), part(second, PART_BETWEEN));
        assert_eq!(counted(0, second), ahead, "the first stacks");
        assert_eq!(counted(64, 1_000), ahead, "a process of a few threads");
    }
}
