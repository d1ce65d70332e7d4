//! When /proc/locks is read: who holds and who waits for file locks (lock_carriers.rs says by which processes).
//!
//! The kernel begins such a reading by waiting until all CPUs have passed a quiet state (fs/locks.c takes its
//! per-CPU semaphore for writing): some ten milliseconds, on a host whose CPUs are taken seconds. So nobody reads until
//! somebody waits for a file lock: a kernel program saw him queue (lock.bpf.c), or a stack or system call tells
//! such a wait, by what reasoning knows one by. From then on a thread of its own reads: it is asked at one tick, and what
//! it read is taken at a later one, while the look goes on. A process cannot end while one of its threads is in there, so
//! after a slow reading none is begun for some time. Who holds a lock for a moment may be between two holds at the reading: as long
//! as somebody is refused a lock that nobody was seen to hold, the next tick reads again. Rejected: a child process that reads, which no end would wait
//! for (a process more on the host that is looked at, to be kept out of every fact, for the rare host that needs it).
//!
//! Edit together: lock_carriers.rs, bpf/lock.bpf.c, FILE_LOCK_FUNCTIONS of the facts.

use super::lock_carriers::{Known, Sought, resolved};
use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::own::priority;
use crate::system::{Roots, blind, guard};
use holdup_reason::facts::{Blocked, Body, DeviceNumber, FILE_LOCK_FUNCTIONS, Fact, Ns, ObjectRef};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};

/// Ticks between two readings.
const TICKS: u32 = 10;
/// How often a slow reading's length passes before the next: a host that makes this one wait has enough to do.
const REST_TIMES: Ns = 10;
/// A reading so long is slow.
const SLOW_NS: Ns = 1_000_000_000;

/// Files of refused locks that are remembered.
const REFUSED_MAX: usize = 64;
/// Readings of a look that are asked for before their time.
const EARLY_MAX: u32 = 30;

/// The lock table, read again and again: who carries its locks is looked up anew only if it has changed, or if
/// somebody waits.
#[derive(Default)]
pub struct LockTable {
    bytes: Vec<u8>,
    reported: Vec<Body>,
    reader: Option<Helper>,
    reported_late: bool,
    /// Somebody waits for a file lock, or did in this look.
    wanted: bool,
    /// Files of which somebody was refused a lock: nobody stands in the table for them but who holds them.
    refused: BTreeSet<(DeviceNumber, u64)>,
    /// Since the last tick somebody was refused a lock on a file that the last reading has no holder for.
    is_sought: bool,
    /// Ticks before the next reading.
    ticks_left: u32,
    /// Readings that were asked for before that.
    early: u32,
    /// Processes in whose open files the locked ones are looked for.
    askers: BTreeSet<u32>,
    /// Who carried the wanted locks.
    carriers: Known,
    /// Waits are reported by the kernel programs.
    kernel_events: bool,
}

/// The thread that reads, for the length of a look.
struct Helper {
    asks: Sender<()>,
    answers: Receiver<Answer>,
    /// It was asked and has not answered.
    owes: bool,
    /// It is not asked before this.
    rests_until_ns: Ns,
}

/// What was read, and between when and when.
struct Answer {
    begin_ns: Ns,
    end_ns: Ns,
    read: io::Result<Vec<u8>>,
}

impl Reader for LockTable {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let mut table = Self::new(look.programs.is_some());
        table.search(opening.facts.iter());
        Ok(table)
    }

    /// What was read since the tick before, if somebody waits for a lock, and from time to time another reading is asked for.
    fn tick(
        &mut self,
        look: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.wanted |= tick.queued.lock;
        self.search(facts.iter());
        if let Some(family) = &look.family {
            self.askers = family.askers();
        }
        self.go_on(&look.roots, facts);
        Ok(())
    }

    /// The table as it is now, if somebody waits for a lock; who is in it is to be named. Stacks of standing waits may be reported
    /// for the first time just before, and say whether one of them is for a file lock.
    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        self.search(facts.iter());
        if !self.wanted {
            return Ok(());
        }
        let at_ns = now();
        for body in self.read(&look.roots) {
            if let Body::FileLock(lock) = &body {
                match lock.blocked {
                    true => u32::try_from(lock.pid)
                        .into_iter()
                        .for_each(|pid| look.identities.want(pid)),
                    false => lock.carriers().iter().for_each(|it| look.identities.want(it.pid)),
                }
            }
            facts.push(Fact { at_ns, body });
        }
        Ok(())
    }

    fn is_still(&self) -> bool {
        !self.wanted
    }
}

impl LockTable {
    /// Of a look with kernel events or without.
    pub(super) fn new(kernel_events: bool) -> Self {
        Self { kernel_events, ..Self::default() }
    }

    /// Looks for a wait for a file lock, and for refused ones.
    pub(super) fn search<'f>(&mut self, facts: impl Iterator<Item = &'f Fact> + Clone) {
        let waits = |fact: &Fact| {
            reports_wait(&fact.body) || (!self.kernel_events && may_be_wait(&fact.body))
        };
        self.wanted = self.wanted || facts.clone().any(waits);
        let mut fresh = facts.clone().filter_map(refused_file);
        self.is_sought = self.is_sought || fresh.any(|file| !self.is_held(file));
        let room = REFUSED_MAX.saturating_sub(self.refused.len());
        self.refused.extend(facts.filter_map(refused_file).take(room));
        self.wanted = self.wanted || !self.refused.is_empty();
    }

    /// Whether the last reading has a holder of it.
    fn is_held(&self, (dev, ino): (DeviceNumber, u64)) -> bool {
        let holds = |body: &Body| matches!(body, Body::FileLock(lock) if !lock.blocked && (lock.dev, lock.ino) == (dev, ino));
        self.reported.iter().any(holds)
    }

    pub(super) fn go_on(&mut self, roots: &Roots, facts: &mut Vec<Fact>) {
        if let Some((at_ns, reported)) = self.taken(roots) {
            facts.extend(reported.into_iter().map(|body| Fact { at_ns, body }));
        }
        if !self.wanted {
            return;
        }
        let is_sought = std::mem::take(&mut self.is_sought) && self.early < EARLY_MAX;
        let owes = self.reader.as_ref().is_some_and(|reader| reader.owes);
        if self.ticks_left > 0 && is_sought && !owes {
            (self.ticks_left, self.early) = (0, self.early + 1);
        }
        if self.ticks_left == 0 {
            self.ticks_left = TICKS;
            let at_ns = now();
            facts.extend(self.ask(roots).into_iter().map(|body| Fact { at_ns, body }));
        }
        self.ticks_left -= 1;
    }

    /// Asks for a reading, which `taken` gives once it is there. The facts say if the one before is still owed.
    pub fn ask(&mut self, roots: &Roots) -> Vec<Body> {
        match self.reader(roots).map(Helper::ask) {
            Ok(true) => Vec::new(),
            Ok(false) => self.late(),
            Err(error) => unread(&error),
        }
    }

    /// A reading that was asked for, if it has come since: when it was made, and the facts.
    pub fn taken(&mut self, roots: &Roots) -> Option<(Ns, Vec<Body>)> {
        let reader = self.reader.as_mut().filter(|reader| reader.owes)?;
        let (at_ns, read) = match reader.answers.try_recv() {
            Ok(answer) => reader.answered(answer),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => (now(), Err(ended())),
        };
        Some((at_ns, self.facts_of(roots, read)))
    }

    /// The table as it is now, if it comes in time.
    pub fn read(&mut self, roots: &Roots) -> Vec<Body> {
        let reader = match self.reader(roots) {
            Ok(reader) => reader,
            Err(error) => return unread(&error),
        };
        if !reader.owes && !reader.ask() {
            return self.late();
        }
        let read = match reader.answers.recv_timeout(guard::TIMEOUT) {
            Ok(answer) => reader.answered(answer).1,
            Err(RecvTimeoutError::Timeout) => return self.late(),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        };
        self.facts_of(roots, read)
    }

    fn facts_of(&mut self, roots: &Roots, read: io::Result<Vec<u8>>) -> Vec<Body> {
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => return unread(&error),
        };
        let waits = |body: &Body| matches!(body, Body::FileLock(lock) if lock.blocked);
        let seeks = !self.refused.is_empty() || !self.askers.is_empty();
        if bytes != self.bytes || self.reported.iter().any(waits) || seeks {
            let sought = Sought { refused: &self.refused, askers: &self.askers };
            self.reported = resolved(roots, &bytes, &sought, &mut self.carriers);
            self.bytes = bytes;
        }
        self.reported.clone()
    }

    /// Reported once: a reading takes longer than it may.
    fn late(&mut self) -> Vec<Body> {
        if std::mem::replace(&mut self.reported_late, true) {
            return Vec::new();
        }
        let error = io::Error::other("the kernel takes long to begin with it");
        let therefore = "holders of file locks are known for parts of the look only";
        vec![Body::Blind(blind("proc.locks", &error, therefore))]
    }

    fn reader(&mut self, roots: &Roots) -> io::Result<&mut Helper> {
        match &mut self.reader {
            Some(reader) => Ok(reader),
            none => Ok(none.insert(Helper::start(roots.proc.join("locks"))?)),
        }
    }
}

impl Helper {
    /// It ends when the other end of its channels goes, and is not waited for.
    fn start(path: PathBuf) -> io::Result<Self> {
        let (asks, asked) = channel();
        let (outbox, answers) = channel();
        let work = move || {
            let mut file = None;
            while asked.recv().is_ok() {
                let begin_ns = now();
                let read = again(&mut file, &path);
                let end_ns = now();
                if outbox.send(Answer { begin_ns, end_ns, read }).is_err() {
                    break;
                }
            }
        };
        priority::spawn("holdup-locks", work)?;
        Ok(Self { asks, answers, owes: false, rests_until_ns: 0 })
    }

    /// Asks, unless it owes an answer or rests; whether it was asked.
    fn ask(&mut self) -> bool {
        if self.owes || now() < self.rests_until_ns {
            return false;
        }
        // One that has ended owes too: that is noticed when its answer is taken.
        let _ = self.asks.send(());
        self.owes = true;
        true
    }

    /// An answer has come: when it was made, and what was read.
    fn answered(&mut self, answer: Answer) -> (Ns, io::Result<Vec<u8>>) {
        self.owes = false;
        let took_ns = answer.end_ns.saturating_sub(answer.begin_ns);
        if took_ns >= SLOW_NS {
            self.rests_until_ns = answer.end_ns + REST_TIMES * took_ns;
        }
        (answer.end_ns, answer.read)
    }
}

/// A stack is reported once, for the first wait in it.
fn reports_wait(body: &Body) -> bool {
    const SYSCALL: &str = "flock";
    match body {
        Body::Stack(stack) => {
            stack.frames.iter().any(|frame| FILE_LOCK_FUNCTIONS.contains(&frame.as_str()))
        }
        Body::Wait(wait) => wait.place.syscall == SYSCALL,
        Body::Blocked(blocked) => blocked.place.syscall == SYSCALL,
        _ => false,
    }
}

/// The file of a lock that was refused.
fn refused_file(fact: &Fact) -> Option<(DeviceNumber, u64)> {
    let Body::Denied(denied) = &fact.body else { return None };
    match &denied.object {
        Some(ObjectRef::File(file)) if matches!(denied.syscall.as_str(), "fcntl" | "flock") => {
            Some((file.dev, file.ino))
        }
        _ => None,
    }
}

/// Without privileges nothing is reported of where the threads of others wait, nor of one that has just been woken; and of a
/// lock that is tried and refused only the sleep after it.
fn may_be_wait(body: &Body) -> bool {
    let Body::Blocked(Blocked { kernel: false, place, .. }) = body else { return false };
    let sleeps = match place.syscall.as_str() {
        "nanosleep" | "clock_nanosleep" => true,
        "select" | "pselect6" => place.args[0] == 0,
        "poll" | "ppoll" => place.args[1] == 0,
        _ => false,
    };
    sleeps || place.stack == 0 && place.syscall.is_empty()
}

/// The file from its start; opened once, since the kernel makes the text anew for each reading.
fn again(open: &mut Option<File>, path: &Path) -> io::Result<Vec<u8>> {
    let file = match open {
        Some(file) => file,
        none => none.insert(File::open(path)?),
    };
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn ended() -> io::Error {
    io::Error::other("its reader has ended")
}

fn unread(error: &io::Error) -> Vec<Body> {
    vec![Body::Blind(blind("proc.locks", error, "holders of file locks are unknown"))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Denied, FileRef};

    #[test]
    fn after_a_slow_reading_none_is_begun_for_some_time() {
        let (asks, asked) = channel();
        let (_outbox, answers) = channel();
        let mut reader = Helper { asks, answers, owes: false, rests_until_ns: 0 };
        let now = now();
        let answer =
            |took_ns| Answer { begin_ns: now - took_ns, end_ns: now, read: Ok(Vec::new()) };
        assert!(reader.ask() && !reader.ask(), "one at a time");
        assert_eq!(reader.answered(answer(SLOW_NS / 2)).0, now);
        assert!(reader.ask());
        assert_eq!(reader.answered(answer(2 * SLOW_NS)).0, now);
        assert!(!reader.ask());
        assert_eq!(reader.rests_until_ns, now + REST_TIMES * 2 * SLOW_NS);
        assert_eq!(asked.try_iter().count(), 2);
    }

    #[test]
    fn a_refused_lock_that_nobody_was_seen_to_hold_is_looked_for_again() {
        let file = ObjectRef::File(FileRef { ino: 7, ..FileRef::default() });
        let denied = Denied { syscall: "flock".into(), object: Some(file), ..Denied::default() };
        let refusal = [Fact { at_ns: 1, body: Body::Denied(denied) }];
        let roots = Roots::default();
        let mut table = LockTable::new(true);
        let (asks, asked) = channel();
        let (outbox, answers) = channel();
        table.reader = Some(Helper { asks, answers, owes: false, rests_until_ns: 0 });
        let mut tick = |facts: &[Fact], answers: bool| {
            if answers {
                outbox.send(Answer { begin_ns: 1, end_ns: 2, read: Ok(Vec::new()) }).unwrap();
            }
            table.search(facts.iter());
            table.go_on(&roots, &mut Vec::new());
            asked.try_iter().count()
        };
        assert_eq!(tick(&refusal, false), 1, "somebody waits");
        assert_eq!(tick(&refusal, false), 0, "the answer is still owed");
        assert_eq!(tick(&refusal, true), 1, "nobody holds it in that one");
        assert_eq!(tick(&[], true), 0, "nobody was refused since");
    }
}
