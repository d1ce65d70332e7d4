//! The end of a look: what still stands, the sums, and whatever names the objects that were waited for.
//!
//! Reads most where a wait pointed: identities of threads that were named, endpoints of sockets and
//! pipes that were waited on and of connections (endpoints.rs), owners of futexes that are waited on. Must not reason
//! further. Edit together: live.rs.

use crate::endpoints::{ends_of, inodes, relevant};
use crate::files::{self, Family, family::Observed, threads::clock_ns};
use crate::live::{Live, now};
use crate::own::priority;
use crate::samples::Point;
use crate::user_stacks::Left;
use crate::{SourceError, memory, paths, polled};
use holdup_reason::facts::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;

/// The number of a stack that is known by its names; a new one is reported.
fn number_of(
    named: &mut Vec<Vec<String>>,
    frames: &[String],
    at_ns: Ns,
    facts: &mut Vec<Fact>,
) -> u32 {
    if frames.is_empty() {
        return 0;
    }
    if let Some(known) = named.iter().position(|old| old == frames) {
        return known as u32 + 1;
    }
    named.push(frames.to_vec());
    let id = named.len() as u32;
    facts.push(Fact { at_ns, body: Body::Stack(Stack { id, frames: frames.to_vec() }) });
    id
}

/// Whom a sum names, and so has to be known.
fn users(body: &Body) -> Vec<u32> {
    match body {
        Body::DiskUse(used) => vec![used.process.pid],
        Body::CacheFill(fill) if fill.evicted_by != 0 => vec![fill.process.pid, fill.evicted_by],
        _ => Vec::new(),
    }
}

/// CPU time for the names of a command's functions in any case: whom that would slow down has ended.
const NAMING_NS: Ns = 30_000_000;
impl Live {
    /// Tells what is blocked now, and who owns the futexes that are waited on.
    pub(crate) fn standing(
        &mut self,
        facts: &mut Vec<Fact>,
        only_traced: bool,
    ) -> Result<(), SourceError> {
        let at_ns = now();
        let mut waits = Vec::new();
        match self.programs.as_mut() {
            Some(programs) => {
                programs.threads(only_traced, |at_ns, record| {
                    waits.extend(record.blocked.map(|it| Fact { at_ns, body: Body::Blocked(it) }));
                })?;
            }
            None => {
                let named = &mut self.named_stacks;
                let mut intern = |frames: &[String]| number_of(named, frames, at_ns, facts);
                let mut reported = files::unprivileged_waits(&self.roots, at_ns, &mut intern);
                // Who is walked often is known better.
                let members = self.family.as_ref().map(Family::members).unwrap_or_default();
                reported.retain(
                    |body| !matches!(body, Body::Blocked(it) if members.contains(&it.thread.pid)),
                );
                waits.extend(reported.into_iter().map(|body| Fact { at_ns, body }));
                let unknown: Vec<u32> = waits
                    .iter()
                    .filter_map(|fact| match &fact.body {
                        Body::Blocked(blocked) => Some(blocked.thread.tid),
                        _ => None,
                    })
                    .filter(|tid| self.identified.insert(*tid))
                    .collect();
                let reported = files::threads_of(&self.roots, unknown);
                facts.extend(reported.into_iter().map(|t| Fact { at_ns, body: Body::Thread(t) }));
            }
        }
        self.complete(&mut waits, facts);
        self.follow_ends(&waits)?;
        facts.append(&mut waits);
        self.report_stacks(facts);
        Ok(())
    }

    /// Takes over what the walks over a command's family have seen.
    pub(crate) fn take_family(&mut self, seen: Vec<Observed>, facts: &mut Vec<Fact>) {
        let mut waits = Vec::new();
        for Observed { at_ns, mut body, frames } in seen {
            let named = &mut self.named_stacks;
            match &mut body {
                Body::Wait(wait) => wait.place.stack = number_of(named, &frames, at_ns, facts),
                Body::Blocked(it) => it.place.stack = number_of(named, &frames, at_ns, facts),
                _ => {}
            }
            match body {
                Body::Blocked(_) => waits.push(Fact { at_ns, body }),
                Body::Endpoint(endpoint) => {
                    let key = (endpoint.process.pid, endpoint.fd, endpoint.object_ino());
                    self.between.insert(key, Fact { at_ns, body: Body::Endpoint(endpoint) });
                }
                Body::Thread(thread) => {
                    self.identified.insert(thread.thread.tid);
                    facts.push(Fact { at_ns, body: Body::Thread(thread) });
                }
                body => facts.push(Fact { at_ns, body }),
            }
        }
        self.complete(&mut waits, facts);
        facts.append(&mut waits);
    }

    /// Who holds the other ends of what a command waits for. With the command they may be gone before the end.
    fn follow_ends(&mut self, waits: &[Fact]) -> Result<(), SourceError> {
        let Some(programs) = self.programs.as_mut() else { return Ok(()) };
        let objects = waits.iter().filter_map(|fact| match &fact.body {
            Body::Blocked(blocked) => blocked.place.object.as_ref(),
            _ => None,
        });
        let objects = objects.collect::<Vec<_>>();
        let asks = self.is_command && self.reading_endpoints_ns < READING_NS_MAX;
        let fresh: HashSet<u64> = objects
            .iter()
            .copied()
            .flat_map(inodes)
            .filter(|ino| {
                *ino != 0 && self.followed.len() < FOLLOWED_MAX && self.followed.insert(*ino)
            })
            .collect();
        if fresh.is_empty() && !asks {
            return Ok(());
        }
        let at_ns = now();
        let all = programs.endpoints()?;
        self.reading_endpoints_ns = now().saturating_sub(at_ns);
        if let Some(control) = programs.control() {
            control.watched_tgid = not_accepting(&all, &objects).unwrap_or(control.watched_tgid);
        }
        // Also those of whom somebody asks on the way: their connections may be closed by the end, too.
        let connections: Vec<Endpoint> = match asks {
            true => all.iter().filter(|it| is_connection(it)).take(BETWEEN_MAX).cloned().collect(),
            false => Vec::new(),
        };
        for endpoint in connections.into_iter().chain(ends_of(all, &fresh)) {
            let key = (endpoint.process.pid, endpoint.fd, endpoint.object_ino());
            let is_known = self.between.contains_key(&key);
            if is_known || self.between.len() < BETWEEN_MAX {
                self.between.insert(key, Fact { at_ns, body: Body::Endpoint(endpoint) });
            }
        }
        Ok(())
    }

    /// The stacks that facts name and that were not reported yet.
    pub(crate) fn report_stacks(&mut self, facts: &mut Vec<Fact>) {
        if let Some(programs) = &self.programs {
            programs.inbox.borrow_mut().decoder.reported_stacks(now(), facts);
        }
    }

    /// Adds what only the waiter's memory tells: futex owners, the descriptor that is polled, the path of a call.
    fn complete(&mut self, waits: &mut [Fact], facts: &mut Vec<Fact>) {
        let mut owners = Owners::default();
        let oldest_ns = self.walked_pid.is_none().then(|| polled::oldest_begin_ns(waits));
        for fact in waits {
            let Body::Blocked(blocked) = &mut fact.body else { continue };
            if blocked.kernel || blocked.thread.pid == self.own_pid {
                continue;
            }
            self.objects.extend(blocked.place.object.iter().flat_map(inodes));
            self.unanswered.heed(blocked.place.object.as_ref());
            if blocked.place.state == WaitState::DiskSleep || paths::opens(blocked) {
                paths::name(blocked, &self.roots);
            }
            let is_recent = oldest_ns.is_none_or(|oldest_ns| blocked.since_ns >= oldest_ns);
            if is_recent && blocked.place.object.is_none() {
                blocked.place.polled = polled::descriptors(&self.roots, blocked);
                for fd in &blocked.place.polled {
                    self.polled.insert((blocked.thread.pid, *fd), blocked.thread.clone());
                }
            }
            match blocked.place.syscall.as_str() {
                "futex" => {
                    if let Some(owner) = owners.of(blocked, &self.roots) {
                        facts.push(Fact { at_ns: fact.at_ns, body: Body::FutexOwner(owner) });
                    }
                }
                "poll" | "ppoll" if blocked.place.object.is_none() => {
                    let [array, count, ..] = blocked.place.args;
                    let polled = memory::poll_descriptors(blocked.thread.pid, array, count);
                    if let [only] = polled[..] {
                        self.polled.insert((blocked.thread.pid, only), blocked.thread.clone());
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the window if the command has ended, somebody wants it, or its time is over.
    pub(crate) fn end_if_over(&mut self) -> Result<(), SourceError> {
        let ended = self.command_ended()?;
        let stopped = match self.is_command {
            true => self.stopping.is_due(now(), self.held.as_ref()),
            false => self.stop.load(Ordering::Relaxed),
        };
        let due = self.is_overdue();
        if self.ending.is_none() && (ended || stopped || due) {
            self.stopping.stopper.is_over.store(true, Ordering::Relaxed);
            self.ending = Some(self.end_window(stopped && !ended && !due)?);
        }
        Ok(())
    }

    /// The window is to end: what takes time and may be left out only delays it.
    pub(crate) fn is_overdue(&self) -> bool {
        self.end_ns.is_some_and(|end_ns| now() >= end_ns)
    }

    /// Ends the window now: every thread once more, and the sums. What came before is read after it, and all
    /// that takes time.
    pub(crate) fn end_window(&mut self, interrupted: bool) -> Result<LastWalk, SourceError> {
        let end_ns = now();
        priority::raise_if_crowded();
        let mut last = LastWalk { end_ns, interrupted, ..LastWalk::default() };
        if let Some(times) = &self.times {
            let at_ns = now();
            last.times.extend(times.end(at_ns).into_iter().map(|body| Fact { at_ns, body }));
        }
        let mut resting = Resting { begin_ns: self.begin_ns, by_process: BTreeMap::new() };
        let Some(programs) = self.programs.as_mut() else { return Ok(last) };
        let walk_begin_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        programs.threads(false, |at_ns, record| {
            if record.time.run_ns > 0 || record.blocked.is_none() {
                last.wanted.insert(record.time.thread.pid);
            }
            if let Some(blocked) = record.blocked {
                if !blocked.kernel {
                    last.wanted.insert(resting.identity(&blocked));
                }
                last.waits.push(Fact { at_ns, body: Body::Blocked(blocked) });
            }
            last.stretches.extend(record.ran.map(|ran| (at_ns, ran)));
            last.reported.insert((record.time.thread.tid, record.time.thread.start_ns), at_ns);
            last.times.push(Fact { at_ns, body: Body::ThreadTime(record.time) });
        })?;
        let walk_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(walk_begin_ns);
        // What they add up goes on.
        last.sums = programs.sums();
        last.points = programs.points();
        last.lost = programs.lost();
        last.left = self.left_at_the_end(walk_ns)?;
        Ok(last)
    }

    /// Everything that is read once the window is over.
    pub(crate) fn close(
        &mut self,
        facts: &mut Vec<Fact>,
        last: LastWalk,
    ) -> Result<(), SourceError> {
        if let Some(programs) = self.programs.as_mut() {
            programs.report_no_more();
        }
        let (traced_threshold_ns, threshold_ns) = self.wait_threshold.highest_ns();
        let flood_by = self.wait_threshold.author().cloned();
        let LastWalk {
            end_ns,
            interrupted,
            mut times,
            mut waits,
            mut wanted,
            mut sums,
            points,
            lost,
            left,
            ..
        } = last;
        let end = WindowEnd { interrupted, threshold_ns, traced_threshold_ns, flood_by };
        facts.push(Fact { at_ns: end_ns, body: Body::WindowEnd(end) });
        if let Some(log) = self.kernel_log.as_mut() {
            facts.extend(log.since(self.begin_ns, end_ns));
        }
        facts.append(&mut times);
        if self.times.is_some() {
            let seen = self.family.as_ref().map_or_else(Vec::new, Family::end);
            self.take_family(seen, facts);
            self.standing(facts, false)?;
        }
        self.complete(&mut waits, facts);
        self.locks_at_the_end(facts);
        let endpoints_ns = now();
        let endpoints = match self.programs.as_mut() {
            Some(programs) => programs.endpoints()?,
            None => Vec::new(),
        };
        self.user_stacks_at_the_end(&waits, left, &endpoints, facts)?;
        facts.append(&mut waits);
        // Their stacks, which may be reported here for the first time, tell whether one of them is for a file lock.
        self.report_stacks(facts);
        self.locks.heed(facts, self.programs.is_some());
        let at_ns = now();
        self.report_locks(facts, &mut wanted);
        self.next_hops(&endpoints, facts);
        self.name_flows(&mut sums, &endpoints);
        self.name_functions(points, &mut sums, facts);
        self.report_endpoints(endpoints, endpoints_ns, facts, &mut wanted);
        let mut put = |body| facts.push(Fact { at_ns, body });
        for body in sums {
            wanted.extend(users(&body));
            put(body);
        }
        lost.into_iter().for_each(|lost| put(Body::Lost(lost)));
        self.counters(facts);
        let mut put = |body| facts.push(Fact { at_ns, body });
        let unknown: Vec<u32> = wanted.difference(&self.identified).copied().collect();
        files::threads_of(&self.roots, unknown).into_iter().map(Body::Thread).for_each(&mut put);
        self.report_stacks(facts);
        let cost = self.cost(end_ns);
        facts.push(Fact { at_ns: now(), body: Body::Cost(cost) });
        priority::leave();
        Ok(())
    }

    /// What the look cost until now.
    fn cost(&mut self, end_ns: Ns) -> Cost {
        let events = self.programs.as_ref().map_or(0, |p| p.inbox.borrow().decoder.events);
        let mut cost = Cost {
            scheduling: Some(priority::had()),
            memory_locked: Some(self.memory_locked),
            ..self.expense.cost(events, end_ns.saturating_sub(self.begin_ns))
        };
        self.user_stacks.count(&mut cost);
        cost
    }

    /// The table of file locks, if somebody waits for one, and who is to be named because of it.
    fn report_locks(&mut self, facts: &mut Vec<Fact>, wanted: &mut HashSet<u32>) {
        if !self.locks.is_wanted() {
            return;
        }
        let at_ns = now();
        for body in self.locks.read(&self.roots) {
            if let Body::FileLock(lock) = &body {
                match lock.blocked {
                    true => wanted.extend(u32::try_from(lock.pid).ok()),
                    false => wanted.extend(lock.carriers().iter().map(|process| process.pid)),
                }
            }
            facts.push(Fact { at_ns, body });
        }
    }

    /// The endpoints that matter, with what was known of them before, and who is to be named because of them.
    fn report_endpoints(
        &mut self,
        endpoints: Vec<Endpoint>,
        at_ns: Ns,
        facts: &mut Vec<Fact>,
        wanted: &mut HashSet<u32>,
    ) {
        // And their other ends.
        for endpoint in &endpoints {
            if self.polled.contains_key(&(endpoint.process.pid, endpoint.fd)) {
                self.objects.extend(inodes(&endpoint.object));
            }
        }
        let (endpoints, left_out) = relevant(endpoints, &self.objects, &self.polled);
        facts.extend(left_out.map(|blind| Fact { at_ns, body: Body::Blind(blind) }));
        for endpoint in endpoints {
            self.between.remove(&(endpoint.process.pid, endpoint.fd, endpoint.object_ino()));
            wanted.insert(endpoint.process.pid);
            if let ObjectRef::Inet(socket) = &endpoint.object
                && let Some(before) =
                    self.earlier.remove(&(endpoint.process.pid, endpoint.fd, socket.ino))
            {
                facts.push(before);
            }
            facts.push(Fact { at_ns, body: Body::Endpoint(endpoint) });
        }
        facts.extend(std::mem::take(&mut self.between).into_values());
    }

    /// Settings and counters once more, and what appeared while the look went on.
    fn counters(&mut self, facts: &mut Vec<Fact>) {
        let at_ns = now();
        let mut put = |body| facts.push(Fact { at_ns, body });
        let mounts = files::mounts::mounts(&self.roots).unwrap_or_default();
        files::disks::disks(&self.roots, &mounts).into_iter().for_each(&mut put);
        self.mapper.samples().into_iter().for_each(&mut put);
        let settings = self.cgroups.rescan();
        for container in crate::container::containers(&self.roots, &settings) {
            put(Body::Container(container));
        }
        settings.into_iter().for_each(&mut put);
        self.cgroups.samples().for_each(&mut put);
        self.container_counters.iter().for_each(|it| put(it.sample(&self.roots)));
        if let Some(netlink) = self.netlink.as_mut() {
            netlink.links().into_iter().for_each(&mut put);
            netlink.qdiscs().into_iter().for_each(&mut put);
        }
        let namespaces = files::network_namespaces(&self.roots);
        files::net_counters(&self.roots, &namespaces).into_iter().for_each(&mut put);
        files::softirqs::softirqs(&self.roots).into_iter().for_each(&mut put);
        files::frequencies::frequencies(&self.roots).into_iter().for_each(&mut put);
        files::shared_segments(&self.roots).into_iter().for_each(&mut put);
    }
}

impl Live {
    /// Who has the locks of Go's and Java's programs that are waited for as the look ends, as far as there is time.
    fn locks_at_the_end(&mut self, facts: &mut Vec<Fact>) {
        if self.is_command {
            return;
        }
        let lasted_ns = now().saturating_sub(self.begin_ns);
        let spent_ns = self.goroutines.last(facts, self.user_stacks.rest_ns(lasted_ns));
        self.user_stacks.pay(spent_ns);
        let spent_ns = self.java_monitors.last(facts, self.user_stacks.rest_ns(lasted_ns));
        self.user_stacks.pay(spent_ns);
    }

    /// Names the functions that the CPU clock hit, as far as there is time.
    fn name_functions(
        &mut self,
        points: Vec<(Point, String)>,
        sums: &mut [Body],
        facts: &mut Vec<Fact>,
    ) {
        let rest_ns = self.user_stacks.rest_ns(now().saturating_sub(self.begin_ns));
        let allowed_ns = if self.is_command { rest_ns.max(NAMING_NS) } else { rest_ns };
        let (spent_ns, too_long) = self.functions.name(points, sums, allowed_ns);
        self.user_stacks.pay(spent_ns);
        self.user_stacks.say_too_long(&too_long, facts);
    }

    /// Names the process behind each flow by its socket, and wants those sockets reported.
    fn name_flows(&mut self, sums: &mut [Body], endpoints: &[Endpoint]) {
        let seen = self.earlier.values().chain(self.between.values());
        let earlier = seen.filter_map(|fact| match &fact.body {
            Body::Endpoint(endpoint) => Some(endpoint),
            _ => None,
        });
        let mut by_ino = BTreeMap::new();
        let mut by_pair = BTreeMap::new();
        for endpoint in earlier.chain(endpoints) {
            if let ObjectRef::Inet(socket) = &endpoint.object {
                by_ino.insert(socket.ino, endpoint);
                by_pair.insert((socket.protocol.clone(), socket.local, socket.remote), endpoint);
            }
        }
        for body in sums {
            let Body::QdiscFlow(flow) = body else { continue };
            // A packet from another namespace has lost its socket; its addresses still tell it, unless
            // they were translated.
            let pair = (flow.protocol.clone(), flow.local, flow.remote);
            let found = by_ino.get(&flow.socket_ino).or_else(|| by_pair.get(&pair));
            if let Some(endpoint) = found {
                flow.process = Some(endpoint.process.clone());
                self.objects.extend(inodes(&endpoint.object));
            }
        }
    }
}

/// The end of the window, and what the last walk found.
#[derive(Default)]
pub(crate) struct LastWalk {
    end_ns: Ns,
    interrupted: bool,
    /// Sums of all threads.
    times: Vec<Fact>,
    /// Standing waits.
    waits: Vec<Fact>,
    /// Where blocked threads left user space, if there was time to ask.
    left: Option<Vec<Left>>,
    /// The latest stretches of traced threads on a CPU.
    stretches: Vec<(Ns, Ran)>,
    /// Whose time was reported, by thread id and begin, and until when.
    reported: HashMap<(u32, Ns), Ns>,
    /// Whose identity to read.
    wanted: HashSet<u32>,
    /// What the kernel programs have added up.
    sums: Vec<Body>,
    /// Where the CPU clock hit code, and of which file.
    points: Vec<(Point, String)>,
    /// What they had no room for.
    lost: Vec<Lost>,
}

impl LastWalk {
    /// Events that came since some time before the walk, and the stretches that none of them reported. Of a thread that
    /// ended between the walk and the end of all events, the time that was reported by the walk is the window's.
    pub(crate) fn without_repeats(&mut self, mut events: Vec<Fact>) -> Vec<Fact> {
        events.retain(|fact| match &fact.body {
            Body::ThreadTime(time) => {
                let reported = self.reported.get(&(time.thread.tid, time.thread.start_ns));
                reported.is_none_or(|until_ns| time.until_ns <= *until_ns)
            }
            _ => true,
        });
        let known: HashSet<(u32, Ns)> = events
            .iter()
            .filter_map(|fact| match &fact.body {
                Body::Ran(ran) => Some((ran.thread.tid, ran.begin_ns)),
                _ => None,
            })
            .collect();
        self.stretches.retain(|(_, ran)| !known.contains(&(ran.thread.tid, ran.begin_ns)));
        let missing = self.stretches.drain(..);
        events.extend(missing.map(|(at_ns, ran)| Fact { at_ns, body: Body::Ran(ran) }));
        events
    }
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

/// A TCP connection, made or being made.
fn is_connection(endpoint: &Endpoint) -> bool {
    matches!(&endpoint.object, ObjectRef::Inet(socket) if socket.is_tcp() && socket.remote.port() != 0)
}

/// Connections of which a sight from within the look is kept.
const BETWEEN_MAX: usize = 5_000;
/// A reading of all descriptors that takes longer is not made again just to see connections come and go.
const READING_NS_MAX: Ns = 20_000_000;
/// Objects of a command whose other ends are looked for while it runs.
const FOLLOWED_MAX: usize = 10_000;
/// Threads of one process that rest and are still looked at one by one.
const RESTING_MAX: u32 = 16;

/// Pools of hundreds of threads that sleep all the time: for most of them their process speaks.
struct Resting {
    begin_ns: Ns,
    by_process: BTreeMap<u32, u32>,
}

impl Resting {
    /// Whose identity to read for a standing wait.
    fn identity(&mut self, blocked: &Blocked) -> u32 {
        if blocked.since_ns > self.begin_ns || blocked.place.state != WaitState::Sleep {
            return blocked.thread.tid;
        }
        let count = self.by_process.entry(blocked.thread.pid).or_default();
        *count += 1;
        if *count > RESTING_MAX { blocked.thread.pid } else { blocked.thread.tid }
    }
}

/// Owners of futexes, by process and thread id inside it: hundreds may wait for one, and to find it reads all threads.
#[derive(Default)]
struct Owners(BTreeMap<(u32, u32), u32>);

impl Owners {
    /// The owner of the futex that a thread waits on, if its word or glibc's field beside it tells one.
    fn of(&mut self, blocked: &Blocked, roots: &files::Roots) -> Option<FutexOwner> {
        const WAIT: u64 = 0;
        const LOCK_PI: u64 = 6;
        const WAIT_BITSET: u64 = 9;
        const LOCK_PI2: u64 = 13;
        const COMMAND: u64 = 127;
        const TID: u32 = 0x3fff_ffff;
        let [address, operation, ..] = blocked.place.args;
        let command = operation & COMMAND;
        let pid = blocked.thread.pid;
        let (word, beside) = memory::futex_words(pid, address)?;
        let inner = match command {
            LOCK_PI | LOCK_PI2 => word & TID,
            WAIT | WAIT_BITSET if word == 1 || word == 2 => beside.unwrap_or(0),
            _ => 0,
        };
        let owner_tid = match inner {
            0 => 0,
            _ => *(self.0.entry((pid, inner)))
                .or_insert_with(|| files::thread_inside(roots, pid, inner).unwrap_or(0)),
        };
        Some(FutexOwner { waiter: blocked.thread.clone(), address, word, owner_tid })
    }
}
