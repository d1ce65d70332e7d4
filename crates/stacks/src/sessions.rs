//! What processes of PostgreSQL wait for inside the server, and who is in their way: read some times a second of those that wait.
//!
//! Each session is a process. The kernel sees it wait for an event, whatever for. It writes down itself for which (event.rs), and of a lock
//! the server's table, which lies in memory that all of them share, says who has it (lock_table.rs). Owns which processes are such (asked once
//! of each) and how often each is read; a thread of its own reads (rounds.rs). As the look ends, those that stand then are asked for too: who waits for a lock all the
//! while has had no wait that ended. Must not: read a statement, or a process whose program has another name.
//!
//! Rejected: the titles of processes (they say who waits, and of three sessions in transactions not which one has the lock), and
//! asking the server (it takes a connection, which may be what is missing).

mod event;
mod lock_table;
#[cfg(test)]
mod tests;

use super::budget::cpu_ns;
use super::maps;
use super::modules::Modules;
use super::rounds::{Ask, FRESH_MAX, Pace, Rounds};
use holdup_reason::facts::{Body, Fact, Ns, SessionEvent, SessionWait, ThreadRef};
use holdup_system::status::Status;
use holdup_system::{memory, text};
use lock_table::{Places, Session};
use std::collections::HashSet;

/// The program, which is what the kernel calls its processes too.
const PROGRAM: &str = "postgres";
/// Processes that are asked for in a look.
const ASKED_MAX: usize = 256;
/// Of those, processes that have only begun: a server may begin one for each question, which has ended before it is read, and those that
/// wait are to have their part.
const BEGUN_MAX: usize = ASKED_MAX / 2;
/// Readings without an answer before a process is given up: it has ended, or is no session.
const UNREAD_MAX: u32 = 10;
/// Of the time that a look has lasted, what this takes of a CPU. Code that is not optimised takes some twenty times as long.
const PART_OF_CPU: u64 = if cfg!(debug_assertions) { 50 } else { 1000 };
/// Beside it, for finding the first server.
const FINDING_NS: Ns = if cfg!(debug_assertions) { 80_000_000 } else { 4_000_000 };

/// The sessions of a look.
#[derive(Default)]
pub struct Sessions {
    asked: HashSet<u32>,
    rounds: Rounds<u32>,
    spent_ns: Ns,
}

impl Sessions {
    /// Adds what was read since the last tick, and asks for more; gives the CPU time that reading it took.
    pub fn round(&mut self, facts: &mut Vec<Fact>, lasted_ns: Ns) -> Ns {
        self.want(facts);
        let Some(spent_ns) = self.rounds.take(facts) else { return 0 };
        self.spent_ns += spent_ns;
        if self.spent_ns <= FINDING_NS + lasted_ns / PART_OF_CPU {
            self.rounds.send("holdup-sessions", read_all);
        }
        spent_ns
    }

    /// Reads once more, as the look ends, also those of `standing` waits, which come first, and no more new ones than in any round; gives
    /// what that took of the CPU time that is allowed.
    pub fn last_round(&mut self, standing: &[Fact], facts: &mut Vec<Fact>, allowed_ns: Ns) -> Ns {
        self.want(standing);
        self.rounds.begin("holdup-sessions", read_all);
        let stand: HashSet<u32> =
            standing.iter().filter_map(of_session).map(|thread| thread.pid).collect();
        // The last is asked first.
        self.rounds.fresh.sort_by_key(|pid| stand.contains(pid));
        let rest = self.rounds.fresh.len().saturating_sub(FRESH_MAX);
        let fresh = self.rounds.fresh.split_off(rest);
        self.rounds.last(fresh, facts, allowed_ns)
    }

    fn want(&mut self, facts: &[Fact]) {
        for fact in facts {
            let Some(ThreadRef { pid, .. }) = of_session(fact) else { continue };
            let has_only_begun = matches!(fact.body, Body::Fork(_));
            let asked_max = if has_only_begun { BEGUN_MAX } else { ASKED_MAX };
            if self.asked.len() >= asked_max || !self.asked.insert(*pid) {
                continue;
            }
            // The last is asked first.
            match has_only_begun {
                true => self.rounds.fresh.insert(0, *pid),
                false => self.rounds.fresh.push(*pid),
            }
        }
    }
}

/// A process that may serve a session, as far as its name says: it waits, or has just begun.
fn of_session(fact: &Fact) -> Option<&ThreadRef> {
    let thread = match &fact.body {
        Body::Wait(wait) => &wait.thread,
        Body::Blocked(blocked) => &blocked.thread,
        Body::Fork(fork) => &fork.child,
        _ => return None,
    };
    (thread.comm == PROGRAM).then_some(thread)
}

/// What the thread keeps from round to round.
#[derive(Default)]
struct Known {
    modules: Modules,
    /// Servers: their sessions are copies of one process, so all have everything at one place.
    servers: Vec<Places>,
    sessions: Vec<One>,
}

/// A process that serves a session, or is about to.
struct One {
    session: Session,
    pid: u32,
    /// The release of the server, 0 if it cannot be read; none if it was not asked for.
    release: Option<u32>,
    /// What it waited for at the last reading.
    last: Option<SessionEvent>,
    /// Readings in a row without an answer.
    unread: u32,
    pace: Pace,
}

fn read_all(known: &mut Known, asked: Ask<u32>, facts: &mut Vec<Fact>) -> usize {
    let Ask { fresh, mut last_ns } = asked;
    let Known { modules, servers, sessions } = known;
    for pid in fresh.into_iter().rev() {
        if last_ns == Some(0) {
            break;
        }
        let begin_ns = cpu_ns();
        sessions.extend(One::find(pid, servers, modules));
        last_ns = last_ns.map(|rest_ns| rest_ns.saturating_sub(cpu_ns().saturating_sub(begin_ns)));
    }
    sessions.retain_mut(|one| {
        one.unread = one.read(facts, &mut last_ns).map_or(one.unread + 1, |()| 0);
        one.unread < UNREAD_MAX
    });
    modules.close();
    sessions.len()
}

impl One {
    fn find(pid: u32, servers: &mut Vec<Places>, modules: &mut Modules) -> Option<Self> {
        let status =
            text::read(&std::path::Path::new("/proc").join(pid.to_string()).join("status"));
        let number = Status::parse(&status.ok()?).inner_pid.unwrap_or(pid);
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let is_of = |places: &&Places| Session { places: **places, number }.is_it(&mut memory);
        let places = match servers.iter().find(is_of) {
            Some(places) => *places,
            None => {
                let found = find_places(pid, modules)?;
                servers.push(found);
                found
            }
        };
        let (session, pace) = (Session { places, number }, Pace::default());
        Some(Self { session, pid, release: None, last: None, unread: 0, pace })
    }

    /// Reports what it waits for, if it is time, or the last time and there is enough of it, and there is something to report;
    /// none if it could not be read.
    fn read(&mut self, facts: &mut Vec<Fact>, last_ns: &mut Option<Ns>) -> Option<()> {
        let at_ns = holdup_system::clock::now();
        if !self.pace.is_due(at_ns, *last_ns) {
            return Some(());
        }
        let (begin_ns, pid) = (cpu_ns(), self.pid);
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let number = self.session.event(&mut memory)?;
        let lock = match event::is_lock(number) {
            true => Some(self.session.lock(&mut memory)?),
            false => None,
        };
        // A file of whoever calls itself so is opened only where its memory says that it is a session.
        let is_asked = self.release.is_none() && event::is_of_a_release(number);
        if is_asked && self.session.is_it(&mut memory) {
            self.release = Some(event::release(pid));
        }
        let other = || event::of(number, self.release.unwrap_or(0));
        let event = lock.as_ref().map_or_else(other, |lock| Some(lock.event));
        self.pace.paid(at_ns, cpu_ns().saturating_sub(begin_ns), last_ns);
        // The waits of a process without work are all alike, and it has one after another as long as its server runs.
        let is_still_without_work = event == Some(SessionEvent::Work) && self.last == event;
        if (event.is_some() || self.last.is_some()) && !is_still_without_work {
            let setting = event.and_then(|event| self.session.setting(pid, event));
            let held = lock.map(|lock| (lock.holders, lock.without_process));
            let (holders, held_without_process) = held.unwrap_or_default();
            let wait = SessionWait { pid, event, holders, held_without_process, setting };
            facts.push(Fact { at_ns, body: Body::SessionWait(wait) });
        }
        self.last = event;
        Some(())
    }
}

/// Where a server's program has what is read of each session.
fn find_places(pid: u32, modules: &mut Modules) -> Option<Places> {
    let mappings = maps::executable(pid);
    let program = mappings.iter().find(|mapping| &*mapping.name == PROGRAM)?;
    let module = modules.of(pid, program)?;
    let moved_by = modules.moved_by(module, program)?;
    let mut symbol = |name| Some(modules.address_of(module, name)?.wrapping_add(moved_by));
    let standbys = symbol("SyncRepStandbyNames").unwrap_or(0);
    Some(Places { own: symbol("MyProc")?, event: symbol("my_wait_event_info")?, standbys })
}
