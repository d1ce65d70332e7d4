//! Who has to do with a semaphore that a thread waits for: of System V's the process that was at it last, of a word in shared memory the
//! file behind it and the others that have it mapped.
//!
//! A semaphore has no owner, so neither is one. The kernel is asked about a set in some microseconds; of shared memory it has no way back from a file to
//! who has it mapped, so the maps of processes are read, those begun about when the waiter was first, until the time for that is used up: only for
//! who was asked about, and on a host for few that stand long. Maps take the memory lock: a process with a thread in D is left out, and the guard
//! stands behind. Must not: read a word (waiter_memory.rs), or say who has a semaphore. Rejected: the same numbers in another IPC namespace, which
//! are others.
//!
//! Edit together: crates/system/src/semaphores.rs, shared.rs (the lines of maps).

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use super::shared::Area;
use crate::SourceError;
use crate::system::clock::{Clock, now};
use crate::system::guard::{self, Behind};
use crate::system::stat::{Stat, may_read_memory, stats};
use crate::system::{Roots, semaphores, text};
use holdup_reason::facts::{Blocked, Body, Fact, Ns, SharedWord, SysvSemaphore, ThreadRef};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// Waits that are asked about at one reading.
const WAITS_MAX: usize = 64;
/// A wait is short below.
const LONG_NS: Ns = 1_000_000_000;
/// Processes whose maps are read at a time.
const BATCH: usize = 32;
/// For so long maps are read.
const READING_MAX: Duration = Duration::from_millis(80);
/// Readings of all maps in a look.
const READINGS_MAX: usize = 4;

/// A file as maps has it: device and inode.
type Key = (String, u64);

/// See the head of the file.
#[derive(Default)]
pub(super) struct Semaphores {
    /// Waits that were asked about, by thread and begin.
    asked: BTreeSet<(u32, Ns)>,
    readings: usize,
}

impl Reader for Semaphores {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::default())
    }

    /// With a command its waits may be gone before the end.
    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        if look.scope.is_command() && !look.is_overdue() {
            let waits = asked(facts, None);
            self.read(look, &waits, facts);
        }
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        waits: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        if !look.scope.is_command() {
            let all = asked(waits, look.pid);
            self.read(look, &all, facts);
        }
        Ok(())
    }
}

impl Semaphores {
    fn read(&mut self, look: &mut Look, waits: &[Blocked], facts: &mut Vec<Fact>) {
        let at_ns = now();
        let fresh = waits.iter().filter(|it| self.asked.insert((it.thread.tid, it.since_ns)));
        let (sets, words): (Vec<&Blocked>, Vec<&Blocked>) =
            fresh.partition(|it| it.place.syscall.starts_with("sem"));
        let mut found: Vec<Body> = Vec::new();
        found.extend(
            sets.into_iter().filter_map(|it| of_set(&look.roots, it)).map(Body::SysvSemaphore),
        );
        // Of windows of a host that follow each other the maps would be read again and again.
        let is_again = look.goes_on && look.pid.is_none();
        if !words.is_empty() && !is_again && self.readings < READINGS_MAX {
            self.readings += 1;
            found.extend(of_memory(&look.roots, &words).into_iter().map(Body::SharedWord));
        }
        for body in &found {
            let others: &[ThreadRef] = match body {
                Body::SysvSemaphore(it) => it.last.as_slice(),
                Body::SharedWord(it) => &it.users,
                _ => &[],
            };
            others.iter().for_each(|it| look.identities.want(it.pid));
        }
        facts.extend(found.into_iter().map(|body| Fact { at_ns, body }));
    }
}

/// Waits that are asked about, those of a process first: the others only if they stand long.
fn asked(facts: &[Fact], pid: Option<u32>) -> Vec<Blocked> {
    let at_ns = now();
    let blocked = facts.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(blocked) => Some(blocked),
        _ => None,
    });
    let counts = |it: &&Blocked| {
        let is_long = at_ns.saturating_sub(it.since_ns) >= LONG_NS;
        let is_own = pid.is_none_or(|pid| it.thread.pid == pid);
        !it.kernel && it.thread.pid != std::process::id() && is_long && is_own && is_shared(it)
    };
    blocked.filter(counts).take(WAITS_MAX).cloned().collect()
}

/// Whether a wait is for a semaphore of System V, or on a word that several processes may share.
fn is_shared(blocked: &Blocked) -> bool {
    const PRIVATE: u64 = 128;
    let [first, second, ..] = blocked.place.args;
    match blocked.place.syscall.as_str() {
        // Without an address the arguments are not known.
        "semop" | "semtimedop" => second != 0,
        "futex" => first != 0 && second & PRIVATE == 0,
        _ => false,
    }
}

fn of_set(roots: &Roots, blocked: &Blocked) -> Option<SysvSemaphore> {
    if !semaphores::is_in_own_namespaces(&roots.process(blocked.thread.pid, "")) {
        return None;
    }
    let set = i32::try_from(blocked.place.args[0]).ok()?;
    let all = semaphores::waited_for(set);
    // Of several only the waiter's memory says which is his.
    let [semaphore] = &all[..] else { return None };
    let stat = Stat::read(&roots.process(semaphore.last_pid, "stat"));
    let known = stat.filter(|stat| stat.state != 'Z');
    let known = known.map(|stat| Clock::now().thread_ref(&stat, semaphore.last_pid));
    let gone_pid = if known.is_none() { semaphore.last_pid } else { 0 };
    // One that began after the wait may be another one by that number.
    let last = known.filter(|it| it.start_ns <= blocked.since_ns);
    let (number, value) = (semaphore.number, semaphore.value);
    Some(SysvSemaphore { waiter: blocked.thread.clone(), set, number, value, last, gone_pid })
}

fn of_memory(roots: &Roots, waits: &[&Blocked]) -> Vec<SharedWord> {
    let folder = |pid: u32| roots.process(pid, "");
    let items = waits.iter().map(|it| {
        let pid = it.thread.pid;
        (Behind::Process(pid), (folder(pid), it.place.args[0]))
    });
    let areas = guard::map_behind(items.collect(), |(folder, address)| {
        areas(folder).find(|area| area.shared && area.ino != 0 && area.contains(*address))
    });
    let areas: Vec<(&Blocked, Area)> =
        waits.iter().zip(areas).filter_map(|(it, area)| Some((*it, area??))).collect();
    let wanted: BTreeSet<Key> = areas.iter().map(|(_, area)| area.key()).collect();
    let Some((first, _)) = areas.first().filter(|_| !wanted.is_empty()) else {
        return Vec::new();
    };
    let (users, is_whole) = users(roots, first.thread.pid, &wanted);
    let word = |(blocked, area): (&Blocked, Area)| {
        let all = users.get(&area.key()).into_iter().flatten();
        let users = all.filter(|it| it.pid != blocked.thread.pid).cloned().collect();
        let (waiter, address) = (blocked.thread.clone(), blocked.place.args[0]);
        SharedWord { waiter, address, path: area.name, users, is_whole }
    };
    areas.into_iter().map(word).collect()
}

/// Processes that have some files mapped, those with numbers near to `near` first; and whether all were read.
fn users(
    roots: &Roots,
    near: u32,
    wanted: &BTreeSet<Key>,
) -> (BTreeMap<Key, Vec<ThreadRef>>, bool) {
    let (clock, begun) = (Clock::now(), Instant::now());
    let mut pids = text::ids(&roots.proc).unwrap_or_default();
    pids.retain(|pid| *pid != std::process::id());
    pids.sort_by_key(|pid| pid.abs_diff(near));
    let mut found: BTreeMap<Key, Vec<ThreadRef>> = BTreeMap::new();
    let mut is_whole = true;
    for batch in pids.chunks(BATCH) {
        if begun.elapsed() > READING_MAX {
            return (found, false);
        }
        let mut processes: Vec<ThreadRef> = Vec::new();
        for pid in batch {
            let stats = stats(roots, *pid);
            let Some(main) = stats.first().filter(|main| !main.kernel) else { continue };
            match may_read_memory(&stats) {
                true => processes.push(clock.thread_ref(main, *pid)),
                false => is_whole &= main.state == 'Z',
            }
        }
        let items = processes.iter().map(|it| {
            let folder = roots.process(it.pid, "");
            (Behind::Process(it.pid), (folder, wanted.clone()))
        });
        let mapped = guard::map_behind(items.collect(), |(folder, wanted)| {
            let all = areas(folder).filter(|area| area.shared).map(|area| area.key());
            all.filter(|key| wanted.contains(key)).collect::<BTreeSet<Key>>()
        });
        for (process, keys) in processes.into_iter().zip(mapped) {
            is_whole &= keys.is_some();
            for key in keys.into_iter().flatten() {
                found.entry(key).or_default().push(process.clone());
            }
        }
    }
    (found, is_whole)
}

/// What a process has mapped.
fn areas(folder: &std::path::Path) -> impl Iterator<Item = Area> + use<> {
    let lines = File::open(folder.join("maps")).ok().map(|file| BufReader::new(file).split(b'\n'));
    lines.into_iter().flatten().map_while(Result::ok).filter_map(|line| Area::parse(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Place, WaitState};

    fn stands(pid: u32, syscall: &str, args: [u64; 6]) -> Blocked {
        let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        Blocked { thread, place, ..Blocked::default() }
    }

    #[test]
    fn only_words_that_may_be_shared_are_asked_about() {
        let is = |syscall, args| is_shared(&stands(7, syscall, args));
        assert!(is("futex", [0x7000, 9 | 256, 0, 0, 0, 0]));
        assert!(!is("futex", [0x7000, 9 | 128, 0, 0, 0, 0]), "of this process alone");
        assert!(is("semop", [5, 0x7000, 1, 0, 0, 0]));
        assert!(!is("semop", [5, 0, 0, 0, 0, 0]) && !is("read", [5, 0x7000, 1, 0, 0, 0]));
        let all =
            [stands(7, "semop", [5, 0x7000, 1, 0, 0, 0]), stands(8, "semop", [5, 1, 1, 0, 0, 0])];
        let facts = all.map(|it| Fact { at_ns: 0, body: Body::Blocked(it) });
        assert_eq!(asked(&facts, Some(8)).len(), 1);
        assert_eq!(asked(&facts, None).len(), 2);
    }

    #[test]
    fn who_else_has_a_files_memory_mapped_is_found_by_its_maps() {
        let root = std::env::temp_dir().join(format!("holdup-words-{}", std::process::id()));
        let roots = Roots::under(&root);
        let maps = |pid: u32, lines: &str| {
            let folder = roots.process(pid, "");
            let task = folder.join(format!("task/{pid}"));
            std::fs::create_dir_all(&task).expect("a folder");
            let zeros = "0 ".repeat(48);
            let stat = format!("{pid} (app) S 1 1 1 0 -1 4194560 {zeros}\n");
            std::fs::write(task.join("stat"), stat).expect("a file");
            std::fs::write(folder.join("maps"), lines).expect("a file");
        };
        let area = |range: &str, rights: &str, ino: u32, name: &str| {
            format!("{range} {rights} 00000000 00:19 {ino}    {name}\n")
        };
        let name = "/dev/shm/sem.mp-x (deleted)";
        maps(41, &area("7000-8000", "rw-s", 9, name));
        maps(42, &area("a000-b000", "rw-s", 9, name));
        maps(43, &area("7000-8000", "rw-p", 9, name));
        maps(44, &area("7000-8000", "rw-s", 10, name));
        let waits = stands(41, "futex", [0x7010, 9 | 256, 0, 0, 0, 0]);
        let found = of_memory(&roots, &[&waits]);
        let users = |word: &SharedWord| word.users.iter().map(|it| it.pid).collect::<Vec<u32>>();
        let [word] = &found[..] else { panic!("{found:?}") };
        assert_eq!((word.path.as_str(), &users(word)[..], word.is_whole), (name, &[42][..], true));
        let elsewhere = stands(41, "futex", [0x8010, 9 | 256, 0, 0, 0, 0]);
        assert_eq!(of_memory(&roots, &[&elsewhere]), []);
        std::fs::remove_dir_all(&root).expect("gone");
    }
}
