//! Threads from walk to walk: which wait stands, which has ended, who is new and who is gone.
//!
//! The kernel counts the slices that a thread has had, its time on CPUs and its time ready for one (schedstat). Without a new
//! slice it has not run. With one, the time that it ran and was ready lies between the two walks; where exactly is not known,
//! so the rest is halved between the end of the old wait and the begin of the new one. Must not: read what a wait is for
//! (place.rs), or name anybody's peer.

use super::descriptors::{self, Found, Wanted};
use super::place::{Detail, detail, own_sockets};
use super::seen::{Observed, Standing};
use super::sockets::{self, Sockets};
use crate::readers::scheduler_clock::SchedulerClock;
use crate::readers::threads::{Asked, threads_of};
use crate::readers::waits::wait_state;
use crate::system::clock::Clock;
use crate::system::stat::Stat;
use crate::system::{Roots, text};
use holdup_reason::facts::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Processes that are walked; a fork storm is not followed beyond.
const PROCESSES_MAX: usize = 512;
/// Servers of the user that are walked with the command.
const ADOPTED_MAX: usize = 64;
/// A wait that has stood so long is looked into.
const LOOKED_INTO_NS: Ns = 3_000_000;
/// Waits that are looked into in one walk.
const LOOKED_INTO_MAX: usize = 64;
/// A wait that has stood so long has its other end looked for.
const FOLLOWED_NS: Ns = 50_000_000;
/// The connections of who waits for whichever event comes first are looked at again after so long: whom it asks, and who asks
/// it, changes while its waits are short.
const AGAIN_NS: Ns = 400_000_000;
/// Searches of all descriptors in a look.
const SEARCHES_MAX: usize = 200;
const TCP_LISTEN: u8 = 10;

/// What the scheduler has counted of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    run_ns: Ns,
    runnable_ns: Ns,
    slices: u64,
}

/// A wait that stands.
#[derive(Debug, Clone, PartialEq)]
struct Waiting {
    begin_ns: Ns,
    detail: Option<Detail>,
    /// Its connection held a small piece back when it was last looked at.
    nagle: Option<Nagle>,
    /// The other ends of its object were looked for.
    followed: bool,
}

/// A thread as it was at the last walk.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    thread: ThreadRef,
    parent_pid: u32,
    at_ns: Ns,
    since_ns: Ns,
    first: Counts,
    last: Counts,
    wait: Option<Waiting>,
}

/// All that is walked.
pub(super) struct Watch {
    roots: Roots,
    clock: Clock,
    /// Of this walk; read where a thread is met that is older than the look.
    scheduler: Option<SchedulerClock>,
    begin_ns: Ns,
    family: BTreeSet<u32>,
    adopted: BTreeSet<u32>,
    threads: BTreeMap<u32, Seen>,
    identified: HashSet<u32>,
    asked: Asked,
    sockets: Sockets,
    sought: Wanted,
    /// When the connections of all who wait so were looked at.
    looked_at_ns: Ns,
    searches: usize,
}

impl Watch {
    pub(super) fn new(roots: Roots, command_pid: u32, begin_ns: Ns) -> Self {
        Self {
            roots,
            clock: Clock::now(),
            scheduler: None,
            begin_ns,
            family: BTreeSet::from([command_pid]),
            adopted: BTreeSet::new(),
            threads: BTreeMap::new(),
            identified: HashSet::new(),
            asked: Asked::default(),
            sockets: Sockets::default(),
            sought: Wanted::default(),
            looked_at_ns: begin_ns,
            searches: 0,
        }
    }

    /// Processes that are walked.
    pub(super) fn members(&self) -> BTreeSet<u32> {
        self.family.union(&self.adopted).copied().collect()
    }

    /// Looks at every thread once.
    pub(super) fn walk(&mut self, now_ns: Ns) -> Vec<Observed> {
        self.scheduler = None;
        let mut observed = Vec::new();
        let (mut there, mut alive) = (BTreeSet::new(), BTreeSet::new());
        let mut todo: Vec<u32> = self.members().into_iter().collect();
        let mut at = 0;
        while let Some(pid) = todo.get(at).copied() {
            at += 1;
            let task = self.roots.process(pid, "task");
            for tid in text::ids(&task).unwrap_or_default() {
                let folder = task.join(tid.to_string());
                for child in children(&folder) {
                    if self.takes_in(child, self.adopted.contains(&pid)) {
                        todo.push(child);
                    }
                }
                let Some(stat) = Stat::read(&folder.join("stat")) else { continue };
                let counts = counts(&folder).unwrap_or_default();
                if !matches!(stat.state, 'Z' | 'X') {
                    there.insert(tid);
                    alive.insert(pid);
                    self.take(pid, &stat, counts, now_ns, &mut observed);
                }
            }
        }
        self.bury(&there, now_ns, &mut observed);
        // Whoever ended takes no room, also if no thread of it was ever met.
        self.family.retain(|pid| alive.contains(pid));
        self.adopted.retain(|pid| alive.contains(pid));
        self.look_into(now_ns, &mut observed);
        self.identify(now_ns, &mut observed);
        observed
    }

    /// The threads that stood at the last walk.
    pub(super) fn standing(&self) -> Vec<Standing> {
        let standing = |seen: &Seen| {
            let since_ns = seen.wait.as_ref()?.begin_ns;
            let own = self.family.contains(&seen.thread.pid);
            Some(Standing { thread: seen.thread.clone(), since_ns, own })
        };
        self.threads.values().filter_map(standing).collect()
    }

    /// Whether another process is walked from now on: one of the command, or one that belongs to a server.
    fn takes_in(&mut self, pid: u32, of_server: bool) -> bool {
        match of_server {
            true => {
                let room = self.adopted.len() < ADOPTED_MAX && !self.family.contains(&pid);
                room && pid != std::process::id() && self.adopted.insert(pid)
            }
            false => self.family.len() < PROCESSES_MAX && self.family.insert(pid),
        }
    }

    /// Of a server that was met, who began it, if he runs the same program: his other children (sessions, workers) may hold what
    /// this one waits for.
    fn take_in_parent(&mut self, pid: u32) {
        let of = |pid: u32| Stat::read(&self.roots.process(pid, "stat"));
        let Some(own) = of(pid) else { return };
        let is_same = of(own.parent_pid).is_some_and(|parent| parent.comm == own.comm);
        if is_same && own.parent_pid > 1 {
            self.takes_in(own.parent_pid, true);
        }
    }

    /// The waits that stand, once the walks are over.
    pub(super) fn end(&self, now_ns: Ns) -> Vec<Observed> {
        let wait = |seen: &Seen| {
            let wait = seen.wait.as_ref()?;
            Some(stands(&seen.thread, wait.begin_ns, wait.detail.as_ref()?, now_ns))
        };
        self.threads.values().filter_map(wait).collect()
    }

    /// Holds one thread's reading against the one before.
    fn take(
        &mut self,
        pid: u32,
        stat: &Stat,
        counts: Counts,
        now_ns: Ns,
        observed: &mut Vec<Observed>,
    ) {
        let thread = self.clock.thread_ref(stat, pid);
        let asleep = wait_state(stat.state).is_some();
        let standing = |begin_ns| Waiting { begin_ns, detail: None, nagle: None, followed: false };
        let known =
            self.threads.get_mut(&stat.tid).filter(|seen| seen.thread.start_ns == thread.start_ns);
        let Some(seen) = known else {
            // What stood before the look: an adopted server, or the command before its first step.
            let is_new = thread.start_ns >= self.begin_ns;
            let since_ns = thread.start_ns.max(self.begin_ns).min(now_ns);
            if is_new && self.family.contains(&pid) {
                observed.push(birth(&self.threads, &thread, stat.parent_pid, since_ns));
            }
            let first = if is_new { Counts::default() } else { counts };
            let busy_ns = (counts.run_ns + counts.runnable_ns) - (first.run_ns + first.runnable_ns);
            let begin_ns = match is_new {
                true => (since_ns + busy_ns).min(now_ns),
                false => {
                    let scheduler =
                        self.scheduler.get_or_insert_with(|| SchedulerClock::read(&self.roots));
                    stood_since(&self.roots, scheduler, (stat, &thread), now_ns)
                }
            };
            let parent_pid = stat.parent_pid;
            let wait = asleep.then(|| standing(begin_ns));
            let last = counts;
            let seen = Seen { thread, parent_pid, at_ns: now_ns, since_ns, first, last, wait };
            self.threads.insert(stat.tid, seen);
            return;
        };
        if seen.thread.comm != thread.comm && thread.tid == thread.pid {
            let path = crate::system::links::link(&self.roots.process(pid, "exe"));
            let body = Body::Exec(Exec {
                thread: thread.clone(),
                path: path.unwrap_or_default(),
                ..Exec::default()
            });
            observed.push(Observed { at_ns: now_ns, body, frames: Vec::new() });
        }
        seen.thread.comm = thread.comm;
        seen.parent_pid = stat.parent_pid;
        let ran = counts.slices != seen.last.slices;
        let busy_ns = (counts.run_ns + counts.runnable_ns)
            .saturating_sub(seen.last.run_ns + seen.last.runnable_ns);
        if ran || !asleep {
            let slack_ns = now_ns.saturating_sub(seen.at_ns).saturating_sub(busy_ns);
            let ended_ns = match asleep {
                true => seen.at_ns + slack_ns / 2,
                false => seen.at_ns + slack_ns,
            };
            if let Some(wait) = seen.wait.take() {
                observed.extend(ended(&seen.thread, &wait, ended_ns));
            }
            seen.wait = asleep.then(|| standing((ended_ns + busy_ns).min(now_ns)));
        } else if seen.wait.is_none() {
            seen.wait = Some(standing(now_ns));
        }
        (seen.at_ns, seen.last) = (now_ns, counts);
    }

    /// Those that were there at the last walk and are not now: their waits, their sums and their end.
    fn bury(&mut self, there: &BTreeSet<u32>, now_ns: Ns, observed: &mut Vec<Observed>) {
        let gone: Vec<u32> =
            self.threads.keys().filter(|tid| !there.contains(tid)).copied().collect();
        for tid in gone {
            let Some(seen) = self.threads.remove(&tid) else { continue };
            let at_ns = seen.at_ns + now_ns.saturating_sub(seen.at_ns) / 2;
            observed.extend(seen.wait.as_ref().and_then(|wait| ended(&seen.thread, wait, at_ns)));
            let mut push = |body| observed.push(Observed { at_ns, body, frames: Vec::new() });
            push(Body::ThreadTime(time(&seen, at_ns)));
            let last = !self.threads.values().any(|other| other.thread.pid == seen.thread.pid);
            push(Body::Exit(Exit { thread: seen.thread, last, code: None }));
        }
    }

    /// Reads what the waits are for that have stood for a while, and who has the other ends.
    fn look_into(&mut self, now_ns: Ns, observed: &mut Vec<Observed>) {
        let mut left = LOOKED_INTO_MAX;
        let (mut wanted, mut again): (Wanted, BTreeSet<u64>) = Default::default();
        let is_due = now_ns.saturating_sub(self.looked_at_ns) >= AGAIN_NS;
        if is_due {
            self.looked_at_ns = now_ns;
        }
        for seen in self.threads.values_mut() {
            let Some(wait) = seen.wait.as_mut() else { continue };
            let stood_ns = now_ns.saturating_sub(wait.begin_ns);
            if wait.nagle.is_some() {
                // Until the last moment at which it was seen.
                wait.nagle = wait.held_back(now_ns).or(wait.nagle);
            }
            if wait.detail.is_none() && stood_ns >= LOOKED_INTO_NS && left > 0 {
                left -= 1;
                wait.detail = detail(&self.roots, &self.sockets, &seen.thread, wait.begin_ns);
                wait.nagle = wait.held_back(now_ns);
                if let Some(detail) = &wait.detail {
                    observed.push(stands(&seen.thread, wait.begin_ns, detail, now_ns));
                }
            }
            let Some(Detail { place, .. }) = &wait.detail else { continue };
            let is_long = stood_ns >= FOLLOWED_NS;
            match &place.object {
                Some(_) if is_long && !wait.followed => wanted.add(place),
                // For whichever comes first: who has been asked on any of its connections may be waited for.
                None if place.is_for_several() && (is_due || is_long && !wait.followed) => {
                    again.extend(own_sockets(&self.roots, seen.thread.pid));
                }
                _ => {}
            }
            wait.followed |= is_long;
        }
        wanted.leave_out(&self.sought);
        wanted.inodes.append(&mut again);
        if wanted.is_empty() || self.searches >= SEARCHES_MAX {
            return;
        }
        self.searches += 1;
        self.sought.extend(&wanted);
        for Found { endpoint, is_far } in
            descriptors::ends(&self.roots, &self.sockets, &self.clock, &wanted)
        {
            let pid = endpoint.process.pid;
            let listens =
                matches!(&endpoint.object, ObjectRef::Inet(own) if own.state == TCP_LISTEN);
            if (is_far || listens) && self.takes_in(pid, true) {
                self.take_in_parent(pid);
            }
            let body = Body::Endpoint(endpoint);
            observed.push(Observed { at_ns: now_ns, body, frames: Vec::new() });
        }
    }

    /// Who the new processes are, while they live.
    fn identify(&mut self, now_ns: Ns, observed: &mut Vec<Observed>) {
        let ripe = |seen: &&Seen| now_ns.saturating_sub(seen.since_ns) >= LOOKED_INTO_NS;
        let new: Vec<u32> = (self.threads.values().filter(ripe).map(|seen| seen.thread.tid))
            .filter(|tid| !self.identified.contains(tid))
            .take(LOOKED_INTO_MAX)
            .collect();
        self.identified.extend(&new);
        let known = threads_of(&self.roots, new, &mut self.asked).into_iter().map(Body::Thread);
        observed.extend(known.map(|body| Observed { at_ns: now_ns, body, frames: Vec::new() }));
    }
}

impl Waiting {
    /// What its connection holds back now.
    fn held_back(&self, now_ns: Ns) -> Option<Nagle> {
        let Some(ObjectRef::Inet(socket)) = &self.detail.as_ref()?.place.object else {
            return None;
        };
        sockets::unsent(socket).map(|nagle| Nagle { sent_ns: now_ns, ..nagle })
    }
}

/// `/proc/PID/task/TID/children`; empty where the kernel has it not.
fn children(folder: &std::path::Path) -> Vec<u32> {
    let bytes = text::read(&folder.join("children")).unwrap_or_default();
    text::words(&bytes).filter_map(text::number).map(|pid| pid as u32).collect()
}

/// Since when a thread stands that is met asleep: since it last ran, as far as that is known.
fn stood_since(
    roots: &Roots,
    scheduler: &SchedulerClock,
    (stat, thread): (&Stat, &ThreadRef),
    now_ns: Ns,
) -> Ns {
    let folder = roots.process(thread.pid, "task").join(thread.tid.to_string());
    let since = scheduler.ran_ns(&folder, stat.cpu).unwrap_or(now_ns);
    since.clamp(thread.start_ns.min(now_ns), now_ns)
}

/// Time slices that the thread of a folder of /proc has had.
pub fn slices(folder: &std::path::Path) -> Option<u64> {
    Some(counts(folder)?.slices)
}

fn counts(folder: &std::path::Path) -> Option<Counts> {
    let bytes = text::read(&folder.join("schedstat")).ok()?;
    let mut words = text::words(&bytes).map(text::number);
    Some(Counts { run_ns: words.next()??, runnable_ns: words.next()??, slices: words.next()?? })
}

/// The begin of a thread of the command.
fn birth(
    threads: &BTreeMap<u32, Seen>,
    thread: &ThreadRef,
    parent_pid: u32,
    at_ns: Ns,
) -> Observed {
    let parent_pid = if thread.tid == thread.pid { parent_pid } else { thread.pid };
    let parent = threads.get(&parent_pid).map(|seen| seen.thread.clone());
    let unknown = ThreadRef { tid: parent_pid, pid: parent_pid, ..ThreadRef::default() };
    let parent = parent.unwrap_or(unknown);
    let body = Body::Fork(Fork { parent, child: thread.clone(), flags: 0 });
    Observed { at_ns, body, frames: Vec::new() }
}

/// A wait that has ended, if it was looked into; shorter ones are in the sums.
fn ended(thread: &ThreadRef, wait: &Waiting, end_ns: Ns) -> Option<Observed> {
    let detail = wait.detail.as_ref()?;
    let end_ns = end_ns.max(wait.begin_ns);
    let body = Body::Wait(Wait {
        thread: thread.clone(),
        begin_ns: wait.begin_ns,
        end_ns,
        place: Place { nagle: wait.nagle, ..detail.place.clone() },
        // It was blocked and was woken; by whom nobody saw.
        wake: Some(Wake { at_ns: end_ns, ..Wake::default() }),
        ..Wait::default()
    });
    Some(Observed { at_ns: end_ns, body, frames: detail.frames.clone() })
}

/// A wait that stands: what its thread's memory says of it is to be read now.
fn stands(thread: &ThreadRef, since_ns: Ns, detail: &Detail, at_ns: Ns) -> Observed {
    let place = detail.place.clone();
    let body =
        Body::Blocked(Blocked { thread: thread.clone(), since_ns, place, ..Blocked::default() });
    Observed { at_ns, body, frames: detail.frames.clone() }
}

fn time(seen: &Seen, until_ns: Ns) -> ThreadTime {
    let wall_ns = until_ns.saturating_sub(seen.since_ns);
    let run_ns = seen.last.run_ns.saturating_sub(seen.first.run_ns).min(wall_ns);
    let runnable_ns =
        seen.last.runnable_ns.saturating_sub(seen.first.runnable_ns).min(wall_ns - run_ns);
    ThreadTime {
        thread: seen.thread.clone(),
        since_ns: seen.since_ns,
        until_ns,
        run_ns,
        runnable_ns,
        sleep_ns: wall_ns - run_ns - runnable_ns,
        switches: seen.last.slices.saturating_sub(seen.first.slices),
        parent_pid: seen.parent_pid,
        ..ThreadTime::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    fn stat(state: char) -> Stat {
        let comm = "job".to_string();
        Stat { tid: 10, comm, state, parent_pid: 1, ..Stat::default() }
    }

    fn watch() -> Watch {
        Watch::new(Roots::under(std::path::Path::new("/nonexistent")), 10, 0)
    }

    fn counts(run_ms: u64, slices: u64) -> Counts {
        Counts { run_ns: run_ms * MS, runnable_ns: 0, slices }
    }

    fn waits(observed: &[Observed]) -> Vec<(Ns, Ns)> {
        let wait = |one: &Observed| match &one.body {
            Body::Wait(wait) => Some((wait.begin_ns / MS, wait.end_ns / MS)),
            _ => None,
        };
        observed.iter().filter_map(wait).collect()
    }

    /// A thread that is seen at these times, in this state, with these slices and run time; its waits are looked into.
    fn seen(steps: &[(Ns, char, u64, u64)]) -> Vec<(Ns, Ns)> {
        let (mut watch, mut observed) = (watch(), Vec::new());
        for (at_ms, state, slices, run_ms) in steps {
            watch.take(10, &stat(*state), counts(*run_ms, *slices), at_ms * MS, &mut observed);
            if let Some(wait) = watch.threads.get_mut(&10).and_then(|seen| seen.wait.as_mut()) {
                wait.detail = Some(Detail::default());
            }
        }
        waits(&observed)
    }

    #[test]
    fn who_had_no_slice_has_slept_all_the_while() {
        assert_eq!(seen(&[(10, 'S', 1, 0), (20, 'S', 1, 0), (900, 'R', 2, 0)]), [(0, 900)]);
    }

    #[test]
    fn a_slice_between_two_sleeps_ends_the_one_and_begins_the_other() {
        // 4 ms of running lie somewhere between 100 and 110 ms.
        let observed = seen(&[(100, 'S', 1, 0), (110, 'S', 2, 4), (200, 'R', 3, 4)]);
        assert_eq!(observed, [(0, 103), (107, 200)]);
    }

    #[test]
    fn who_runs_waits_for_nothing() {
        assert_eq!(seen(&[(10, 'R', 1, 10), (20, 'R', 1, 20)]), []);
    }

    #[test]
    fn a_process_ends_with_its_last_thread_and_not_with_its_first() {
        let (mut watch, mut observed) = (watch(), Vec::new());
        watch.take(10, &stat('S'), counts(5, 1), 10 * MS, &mut observed);
        watch.take(10, &Stat { tid: 11, ..stat('S') }, counts(5, 1), 10 * MS, &mut observed);
        watch.bury(&BTreeSet::from([11]), 20 * MS, &mut observed);
        watch.bury(&BTreeSet::new(), 30 * MS, &mut observed);
        let last = observed.iter().filter_map(|one| match &one.body {
            Body::Exit(exit) => Some((exit.thread.tid, exit.last)),
            _ => None,
        });
        assert!(last.eq([(10, false), (11, true)]));
    }

    #[test]
    fn whoever_ended_takes_no_room() {
        let mut watch = watch();
        watch.walk(MS);
        assert!(watch.members().is_empty(), "there is no such process");
    }

    #[test]
    fn who_is_gone_leaves_its_wait_its_sums_and_its_end() {
        let (mut watch, mut observed) = (watch(), Vec::new());
        watch.take(10, &stat('S'), counts(5, 1), 10 * MS, &mut observed);
        watch.bury(&BTreeSet::new(), 30 * MS, &mut observed);
        let time = observed.iter().find_map(|one| match &one.body {
            Body::ThreadTime(time) => Some((time.run_ns / MS, time.until_ns / MS)),
            _ => None,
        });
        assert_eq!(time, Some((5, 20)));
        assert!(observed.iter().any(|one| matches!(&one.body, Body::Exit(exit) if exit.last)));
    }
}
