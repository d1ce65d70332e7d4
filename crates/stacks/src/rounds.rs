//! A thread that reads processes round by round: what is asked with one tick is answered with a later one.
//!
//! Memory and files of others may keep whoever reads them waiting, and the look must not wait with him. So one round is out
//! at a time, and a thread that hangs is not asked again; only the last round, as the look ends, is waited for, for TIMEOUT.
//! Owns the thread, which processes are asked for, and how long each is left alone between two readings; must not: know what is
//! read (interpreters.rs, goroutines.rs, java).

use super::budget::cpu_ns;
use holdup_reason::facts::{Body, Fact, Ns, Place, WaitState};
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Processes that are asked for in one round.
pub(crate) const FRESH_MAX: usize = 8;

/// How long the last round is waited for.
const TIMEOUT: Duration = Duration::from_millis(50);

/// A reading may take this part of the time until the next one.
pub(crate) const PART_OF_CPU: Ns = 1000;

/// When a process is read again: what is dear is read seldom.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Not before, but as the look ends.
    next_ns: Ns,
    /// CPU time that the last reading took.
    cost_ns: Ns,
}

impl Pace {
    /// Of a process that is left alone until then.
    pub(crate) fn from(next_ns: Ns) -> Self {
        Self { next_ns, cost_ns: 0 }
    }

    /// Whether it is time for a reading, or the last time (`last_ns`: what is left of it), and there is enough.
    pub(crate) fn is_due(&self, at_ns: Ns, last_ns: Option<Ns>) -> bool {
        at_ns >= self.next_ns || last_ns.is_some_and(|rest_ns| self.cost_ns <= rest_ns)
    }

    /// After a reading that began at a time and took so much.
    pub(crate) fn paid(&mut self, at_ns: Ns, cost_ns: Ns, last_ns: &mut Option<Ns>) {
        (self.cost_ns, self.next_ns) = (cost_ns, at_ns + cost_ns * PART_OF_CPU);
        *last_ns = last_ns.map(|rest_ns| rest_ns.saturating_sub(cost_ns));
    }
}

/// What is asked for in a round.
pub(crate) struct Ask<A> {
    /// Processes that were not asked for before.
    pub fresh: Vec<A>,
    /// As the look ends: the CPU time that is left, for which those are read too that rest from the reading before.
    pub last_ns: Option<Ns>,
}

/// What a round brings back.
struct Found {
    facts: Vec<Fact>,
    /// Processes that the thread goes on reading.
    count: usize,
    /// CPU time that it took.
    spent_ns: Ns,
}

/// The thread of one kind of reader, and what it is to be asked.
pub(crate) struct Rounds<A> {
    pub fresh: Vec<A>,
    helper: Option<(Sender<Ask<A>>, Receiver<Found>)>,
    pub is_away: bool,
    count: usize,
}

impl<A> Default for Rounds<A> {
    fn default() -> Self {
        Self { fresh: Vec::new(), helper: None, is_away: false, count: 0 }
    }
}

impl<A: Send + 'static> Rounds<A> {
    /// Adds what came back since the last tick; gives the CPU time that reading it took, or none while a round is out.
    pub(crate) fn take(&mut self, facts: &mut Vec<Fact>) -> Option<Ns> {
        if !self.is_away {
            return Some(0);
        }
        let (_, found) = self.helper.as_ref()?;
        let found = found.try_recv().ok()?;
        facts.extend(found.facts);
        (self.is_away, self.count) = (false, found.count);
        Some(found.spent_ns)
    }

    /// Starts the thread, if it is not there yet and there is anything to read.
    pub(crate) fn begin<S: Default + 'static>(
        &mut self,
        name: &str,
        round: fn(&mut S, Ask<A>, &mut Vec<Fact>) -> usize,
    ) {
        if self.helper.is_none() && !self.fresh.is_empty() {
            self.helper = start(name, round);
        }
    }

    /// Sends the next round, if there is anything to read. The thread has a state of its own, which a round gets with what is
    /// asked for and where facts go, and gives how many processes it goes on reading.
    pub(crate) fn send<S: Default + 'static>(
        &mut self,
        name: &str,
        round: fn(&mut S, Ask<A>, &mut Vec<Fact>) -> usize,
    ) {
        if self.fresh.is_empty() && self.count == 0 {
            return;
        }
        if self.helper.is_none() {
            self.helper = start(name, round);
        }
        let fresh = self.fresh.split_off(self.fresh.len().saturating_sub(FRESH_MAX));
        let asked = Ask { fresh, last_ns: None };
        let asked = self.helper.as_ref().map(|(ask, _)| ask.send(asked).is_ok());
        self.is_away = asked == Some(true);
    }

    /// Reads once more what is read already, and what is fresh, for no more than this of CPU time: what stands as the look ends may stand since the
    /// last reading only. Gives what it took; a round that is out is waited for as well.
    pub(crate) fn last(&mut self, fresh: Vec<A>, facts: &mut Vec<Fact>, allowed_ns: Ns) -> Ns {
        let Some((ask, answer)) = &self.helper else { return 0 };
        let mut spent_ns = 0;
        let mut take = |facts: &mut Vec<Fact>| {
            let found = answer.recv_timeout(TIMEOUT).ok()?;
            facts.extend(found.facts);
            spent_ns += found.spent_ns;
            Some(found.count)
        };
        if self.is_away {
            let Some(count) = take(facts) else { return 0 };
            (self.is_away, self.count) = (false, count);
        }
        let is_any = self.count > 0 || !fresh.is_empty();
        let asked = Ask { fresh, last_ns: Some(allowed_ns) };
        if is_any && ask.send(asked).is_ok() {
            self.is_away = take(facts).is_none();
        }
        spent_ns
    }
}

fn start<A: Send + 'static, S: Default + 'static>(
    name: &str,
    round: fn(&mut S, Ask<A>, &mut Vec<Fact>) -> usize,
) -> Option<(Sender<Ask<A>>, Receiver<Found>)> {
    let (ask, asked) = channel::<Ask<A>>();
    let (answered, answer) = channel();
    let work = move || {
        let mut state = S::default();
        for asked in asked {
            let begin_ns = cpu_ns();
            let mut facts = Vec::new();
            let count = round(&mut state, asked, &mut facts);
            let spent_ns = cpu_ns().saturating_sub(begin_ns);
            if answered.send(Found { facts, count, spent_ns }).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(work).ok()?;
    Some((ask, answer))
}

/// Processes that are asked for in a look.
const ASKED_MAX: usize = 256;

/// Processes of which each is asked for once: those of threads that wait for a word of memory, and whoever else is wanted.
#[derive(Default)]
pub(crate) struct Once {
    asked: HashSet<u32>,
    rounds: Rounds<u32>,
}

impl Once {
    /// To be read from the first round on; the first of them is asked first.
    pub(crate) fn of(wanted: impl Iterator<Item = u32>) -> Self {
        let mut once = Self::default();
        once.rounds.fresh = wanted.filter(|pid| once.asked.insert(*pid)).collect();
        // The last is asked first.
        once.rounds.fresh.reverse();
        once
    }

    /// Adds what was read since the last tick, and asks for more; gives the CPU time that reading it took.
    pub(crate) fn round<S: Default + 'static>(
        &mut self,
        facts: &mut Vec<Fact>,
        name: &str,
        read_all: fn(&mut S, Ask<u32>, &mut Vec<Fact>) -> usize,
    ) -> Ns {
        for pid in facts.iter().filter_map(waits_for_a_word) {
            if self.asked.len() < ASKED_MAX && self.asked.insert(pid) {
                self.rounds.fresh.push(pid);
            }
        }
        let Some(spent_ns) = self.rounds.take(facts) else { return 0 };
        self.rounds.send(name, read_all);
        spent_ns
    }

    /// See [`Rounds::last`].
    pub(crate) fn last(&mut self, facts: &mut Vec<Fact>, allowed_ns: Ns) -> Ns {
        self.rounds.last(Vec::new(), facts, allowed_ns)
    }
}

/// The process of a thread that waits for a word of memory.
pub(crate) fn waits_for_a_word(fact: &Fact) -> Option<u32> {
    let waits = |place: &Place| place.syscall == "futex" && place.state == WaitState::Sleep;
    let (thread, place, is_kernel) = match &fact.body {
        Body::Wait(wait) => (&wait.thread, &wait.place, wait.kernel),
        Body::Blocked(blocked) => (&blocked.thread, &blocked.place, blocked.kernel),
        _ => return None,
    };
    (waits(place) && !is_kernel && thread.pid != std::process::id()).then_some(thread.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::Lost;

    #[test]
    fn what_is_dear_rests_and_is_read_once_more_at_the_end_if_there_is_time() {
        let mut pace = Pace::default();
        assert!(pace.is_due(5, None));
        pace.paid(5, 300, &mut None);
        assert!(!pace.is_due(5 + 299 * PART_OF_CPU, None));
        assert!(pace.is_due(5 + 300 * PART_OF_CPU, None));
        assert!(!pace.is_due(6, Some(299)));
        let mut rest_ns = Some(700);
        assert!(pace.is_due(6, rest_ns));
        pace.paid(6, 450, &mut rest_ns);
        assert_eq!(rest_ns, Some(250));
    }

    /// What it is asked for it brings back as processes that wait.
    fn echo(known: &mut Vec<u32>, asked: Ask<u32>, facts: &mut Vec<Fact>) -> usize {
        known.extend(asked.fresh);
        if asked.last_ns.is_some() {
            let body =
                |pid: &u32| Body::Lost(Lost { source: "last".into(), count: u64::from(*pid) });
            facts.extend(known.iter().map(|pid| Fact { at_ns: 0, body: body(pid) }));
        }
        known.len()
    }

    #[test]
    fn the_last_round_reads_what_is_known_and_waits_for_the_one_before() {
        let mut once = Once::of([7, 8].into_iter());
        let mut facts = Vec::new();
        once.last(&mut facts, 1_000_000);
        assert!(facts.is_empty(), "nothing was read yet");
        once.round(&mut facts, "holdup-test", echo);
        once.last(&mut facts, 1_000_000);
        assert_eq!(facts.len(), 2);
    }
}
