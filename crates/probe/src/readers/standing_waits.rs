//! Waits that stand: what only the waiter's memory or files say of each, and who has the other ends of what it waits for.
//!
//! Of a command, and of everybody where there are no kernel programs, they are walked about once a second while the look goes on: with
//! the command they may be gone before the end. Those of the end are looked into once the window is over. Must not: choose what a
//! wait means. Edit together: polled.rs, paths.rs, waiter_memory.rs, endpoints.rs.

use super::connections::watch;
use super::endpoints::{inodes, owing};
use super::family::Family;
use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use super::waiter_memory::{Answer, Question, answers, report};
use super::waits::unprivileged_waits;
use super::{paths, polled};
use crate::SourceError;
use crate::system::Roots;
use crate::system::clock::now;
use crate::system::status::{Status, thread_inside};
use crate::system::text;
use holdup_reason::facts::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A reading of all descriptors that takes longer is not made again just to see connections come and go.
const READING_NS_MAX: Ns = 20_000_000;

/// What waitid(2) takes for whom it waits (include/uapi/linux/wait.h).
const P_PID: u64 = 1;
const P_PIDFD: u64 = 3;

/// Of a command also so long after its begin: from then on the refused calls of whom it asks are reported.
const EARLY_TICKS: u64 = 3;

/// See the head of the file.
#[derive(Default)]
pub(super) struct StandingWaits {
    /// How long the last reading of all descriptors took.
    reading_ns: Ns,
}

impl Reader for StandingWaits {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let mut all = Self::default();
        if look.programs.is_none() {
            let mut facts = Vec::new();
            all.walk(look, &mut facts)?;
            facts.into_iter().for_each(|fact| opening.facts.push(fact));
        }
        Ok(all)
    }

    fn tick(
        &mut self,
        look: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let are_sampled = look.scope.is_command() || look.programs.is_none();
        let is_early = look.scope.is_command() && tick.number == EARLY_TICKS;
        if are_sampled && (tick.again || is_early) && !tick.is_last && !look.is_overdue() {
            self.walk(look, facts)?;
        }
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        waits: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        complete(look, waits, facts);
        let unread = report(&mut look.waited.unread).into_iter();
        facts.extend(unread.map(|body| Fact { at_ns: now(), body }));
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        if look.programs.is_none() { self.walk(look, facts) } else { Ok(()) }
    }
}

impl StandingWaits {
    /// Reports what is blocked now, of a command what is traced, and who owns the futexes that are waited on.
    fn walk(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let mut waits = Vec::new();
        match look.programs.as_mut() {
            Some(programs) => {
                programs.threads(look.scope.is_command(), |at_ns, record| {
                    waits.extend(record.blocked.map(|it| Fact { at_ns, body: Body::Blocked(it) }));
                })?;
            }
            None => waits.extend(sampled(look, facts)),
        }
        complete(look, &mut waits, facts);
        self.follow_ends(look, &waits)?;
        facts.append(&mut waits);
        look.report_stacks(facts);
        Ok(())
    }

    /// Who has the other ends of what is waited for.
    fn follow_ends(&mut self, look: &mut Look, waits: &[Fact]) -> Result<(), SourceError> {
        let Some(programs) = look.programs.as_mut() else { return Ok(()) };
        let objects = waits.iter().filter_map(|fact| match &fact.body {
            Body::Blocked(blocked) => blocked.place.object.as_ref(),
            _ => None,
        });
        let objects = objects.collect::<Vec<_>>();
        let asks = look.scope.is_command() && self.reading_ns < READING_NS_MAX;
        let all_inodes = objects.iter().copied().flat_map(inodes);
        let mut fresh: HashSet<u64> = all_inodes.filter(|ino| look.ends.follows(*ino)).collect();
        if fresh.is_empty() && !asks {
            return Ok(());
        }
        let at_ns = now();
        let all = programs.endpoints()?;
        self.reading_ns = now().saturating_sub(at_ns);
        if let Some(control) = programs.control() {
            let mut watched: Vec<u32> = not_accepting(&all, &objects).into_iter().collect();
            watched.extend(owing(&all, &waiting(waits), control.watched_tgids.len()));
            if !watched.is_empty() {
                watch(control, watched);
            }
        }
        let own = |thread: &ThreadRef| {
            Some(thread.pid) == look.pid || thread.start_ns >= look.window.begin_ns
        };
        let polled = polled_sockets(&all, waits, own);
        fresh.extend(polled.into_iter().filter(|ino| look.ends.follows(*ino)));
        look.ends.see(at_ns, all, &fresh, asks);
        Ok(())
    }
}

/// The standing waits of everybody as files show them, but of those who are walked often and known better.
fn sampled(look: &mut Look, facts: &mut Vec<Fact>) -> Vec<Fact> {
    let at_ns = now();
    let numbers = &mut look.stack_numbers;
    let mut intern = |frames: &[String]| numbers.of(frames, at_ns, facts);
    let mut reported = unprivileged_waits(&look.roots, at_ns, &mut intern);
    let members = look.family.as_ref().map(Family::members).unwrap_or_default();
    reported.retain(|body| !matches!(body, Body::Blocked(it) if members.contains(&it.thread.pid)));
    let tids = reported.iter().filter_map(|body| match body {
        Body::Blocked(blocked) => Some(blocked.thread.tid),
        _ => None,
    });
    let threads = look.identities.read_new(&look.roots, tids.collect(), false);
    facts.extend(threads.into_iter().map(|it| Fact { at_ns, body: Body::Thread(it) }));
    reported.into_iter().map(|body| Fact { at_ns, body }).collect()
}

/// Adds what only the waiter's memory says, and its files: futex owners, the descriptor that is polled, the path of a call, the process of a
/// descriptor.
pub(super) fn complete(look: &mut Look, waits: &mut [Fact], facts: &mut Vec<Fact>) {
    let oldest_ns = look.pid.is_none().then(|| polled::oldest_begin_ns(waits));
    let is_recent =
        |blocked: &Blocked| oldest_ns.is_none_or(|oldest_ns| blocked.since_ns >= oldest_ns);
    let mut questions = Vec::new();
    let ports = polled::Ports::of(look.ends.seen());
    for (at, fact) in waits.iter().enumerate() {
        let Body::Blocked(blocked) = &fact.body else { continue };
        if blocked.kernel || blocked.thread.pid == std::process::id() {
            continue;
        }
        look.waited.add(blocked.place.object.as_ref());
        let asked = question(blocked, is_recent(blocked), &ports);
        questions.extend(asked.map(|question| (at, question)));
    }
    let answers = answers(&look.roots, waits, &questions, &mut look.waited.unread);
    let mut owners = Owners::default();
    for (at, question, answer) in answers {
        let Fact { at_ns, body: Body::Blocked(blocked) } = &mut waits[at] else { continue };
        match answer {
            Answer::Futex(word, beside) => {
                let owner = owners.of(blocked, (word, beside), &look.roots);
                facts.push(Fact { at_ns: *at_ns, body: Body::FutexOwner(owner) });
            }
            Answer::Descriptors(all, timer_ns) => {
                let waited_ns = at_ns.saturating_sub(blocked.since_ns);
                let timer_ns = timer_ns.map(|left_ns| waited_ns.saturating_add(left_ns));
                let known_ns = blocked.place.timeout_ns;
                blocked.place.timeout_ns = timer_ns.into_iter().chain(known_ns).min();
                let only = polled::only(question, &all);
                if is_recent(blocked) {
                    blocked.place.polled = polled::reported(question, all, blocked);
                }
                for fd in blocked.place.polled.iter().copied().chain(only) {
                    look.waited.polled.insert((blocked.thread.pid, fd), blocked.thread.clone());
                }
            }
            Answer::Path(word) => paths::name(blocked, &look.roots, word),
            // The same wait, as who has the number instead of a descriptor asks for it.
            Answer::Process(number) => {
                (blocked.place.args[0], blocked.place.args[1]) = (P_PID, number);
            }
        }
    }
}

/// Processes that wait for what has another end.
fn waiting(waits: &[Fact]) -> Vec<u32> {
    let waiting = waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(it) => {
            it.place.object.as_ref().filter(|object| !inodes(object).is_empty())?;
            Some(it.thread.pid)
        }
        _ => None,
    });
    let waiting: BTreeSet<u32> = waiting.collect();
    waiting.into_iter().collect()
}

/// What is asked of the memory of a waiter.
fn question(blocked: &Blocked, is_recent: bool, ports: &polled::Ports) -> Option<Question> {
    let [address, second, ..] = blocked.place.args;
    match blocked.place.syscall.as_str() {
        "futex" => Some(Question::Futex { address }),
        "waitid" if address == P_PIDFD => Some(Question::Process { fd: second }),
        _ => paths::question(blocked).or_else(|| polled::question(blocked, is_recent, ports)),
    }
}

/// Unix sockets that loops of the command poll, by the inodes of both ends: with the command they are gone by the end of the look.
fn polled_sockets(all: &[Endpoint], waits: &[Fact], own: impl Fn(&ThreadRef) -> bool) -> Vec<u64> {
    let loops = waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(it) if own(&it.thread) => Some(it),
        _ => None,
    });
    let polled: HashSet<(u32, u32)> =
        loops.flat_map(|it| it.place.polled.iter().map(|fd| (it.thread.pid, *fd))).collect();
    let is_polled = |it: &&Endpoint| {
        matches!(it.object, ObjectRef::Unix { .. }) && polled.contains(&(it.process.pid, it.fd))
    };
    all.iter().filter(is_polled).flat_map(|it| inodes(&it.object)).filter(|ino| *ino != 0).collect()
}

/// Whoever listens where a connection that is waited on has not been accepted.
fn not_accepting(all: &[Endpoint], waited_on: &[&ObjectRef]) -> Option<u32> {
    let ports: HashSet<u16> = (waited_on.iter())
        .filter_map(|object| match object {
            ObjectRef::Inet(socket) if socket.is_tcp() => Some(socket.remote.port()),
            _ => None,
        })
        .collect();
    let has_queue = |end: &&Endpoint| {
        let stands = end.socket.as_ref().is_some_and(|state| state.accept_queue > 0);
        matches!(&end.object, ObjectRef::Inet(own) if own.remote.port() == 0 && ports.contains(&own.local.port()))
            && stands
    };
    // Of a master and its workers the last is a worker.
    all.iter().filter(has_queue).map(|end| end.process.pid).max()
}

/// Owners of futexes, by process, thread id inside it, and whether the word is its alone: hundreds may wait for one, and to find it
/// reads all threads.
#[derive(Default)]
struct Owners(BTreeMap<(u32, u32, bool), Owner>);

/// Who has a number in a word.
#[derive(Clone, Copy, Default)]
struct Owner {
    /// The thread; 0 if none of the process has it.
    tid: u32,
    /// No thread of any process has it.
    is_gone: bool,
}

impl Owner {
    fn of(roots: &Roots, pid: u32, inner: u32, is_private: bool) -> Self {
        let tid = thread_inside(roots, pid, inner).unwrap_or(0);
        // In a PID namespace a number says nothing of the threads that /proc has here.
        let is_inside = |pid: u32| {
            let status = text::read(&roots.process(pid, "status")).ok()?;
            Some(Status::parse(&status).inner_tid.is_some())
        };
        // What is in shared memory may be owned by a thread of another namespace, by its number there.
        let is_elsewhere = || {
            let all = text::ids(&roots.proc).unwrap_or_default();
            let mut inside = all.into_iter().filter(|pid| is_inside(*pid) == Some(true));
            inside.any(|pid| thread_inside(roots, pid, inner).is_some())
        };
        let is_gone = tid == 0
            && is_inside(pid) == Some(false)
            && !roots.process(inner, "stat").exists()
            && (is_private || !is_elsewhere());
        Self { tid, is_gone }
    }
}

impl Owners {
    /// The owner of the futex that a thread waits on, if its word or glibc's field beside it tells one.
    fn of(
        &mut self,
        blocked: &Blocked,
        (word, beside): (u32, Option<u32>),
        roots: &Roots,
    ) -> FutexOwner {
        const WAIT: u64 = 0;
        const LOCK_PI: u64 = 6;
        const WAIT_BITSET: u64 = 9;
        const LOCK_PI2: u64 = 13;
        const COMMAND: u64 = 127;
        const PRIVATE: u64 = 128;
        const TID: u32 = 0x3fff_ffff;
        let [address, operation, ..] = blocked.place.args;
        let command = operation & COMMAND;
        let pid = blocked.thread.pid;
        let inner = match command {
            LOCK_PI | LOCK_PI2 => word & TID,
            WAIT | WAIT_BITSET if word == 1 || word == 2 => beside.unwrap_or(0),
            _ => 0,
        };
        let owner = match inner {
            0 => Owner::default(),
            _ => {
                let is_private = operation & PRIVATE != 0;
                let known = self.0.entry((pid, inner, is_private));
                *known.or_insert_with(|| Owner::of(roots, pid, inner, is_private))
            }
        };
        let (owner_tid, gone_tid) = (owner.tid, if owner.is_gone { inner } else { 0 });
        FutexOwner { waiter: blocked.thread.clone(), address, word, owner_tid, gone_tid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn whom_a_loop_of_the_command_polls_over_a_unix_socket_is_looked_for() {
        let thread = |pid: u32, start_ns| ThreadRef { tid: pid, pid, start_ns, comm: "app".into() };
        let end = |pid: u32, fd: u32, object| Endpoint {
            process: thread(pid, 1),
            fd,
            readable: true,
            writable: true,
            nonblocking: false,
            object,
            unread: None,
            output_stopped: false,
            socket: None,
        };
        let unix = |ino| ObjectRef::Unix { ino, peer_ino: ino ^ 1, path: None };
        let all = [
            end(10, 5, unix(100)),
            end(10, 6, ObjectRef::Pipe { ino: 7 }),
            end(10, 8, unix(200)),
            end(20, 5, unix(300)),
        ];
        let polls = |pid: u32, start_ns| {
            let place = Place { polled: vec![5, 6], ..Place::default() };
            let thread = thread(pid, start_ns);
            let body = Body::Blocked(Blocked { thread, place, ..Blocked::default() });
            Fact { at_ns: 9, body }
        };
        let waits = [polls(10, 5), polls(20, 1)];
        assert_eq!(polled_sockets(&all, &waits, |it| it.start_ns >= 3), [100, 101]);
        assert!(polled_sockets(&all, &waits, |_| false).is_empty(), "none of the command's");
    }

    #[test]
    fn the_owner_of_a_shared_word_may_live_in_another_namespace() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
        let is_gone =
            |inner, is_private| Owner::of(&Roots::under(&folder), 1, inner, is_private).is_gone;
        // Thread 510 goes by 9 in its container.
        assert!(!is_gone(9, false));
        assert!(is_gone(9, true), "no other process has a part in the word");
        assert!(is_gone(77, false), "no thread anywhere has that number");
    }
}
