//! Sleeps between refusals: what a thread waits for that was refused it, sleeps, and asks again.
//!
//! A lock that is only tried, a file that must not be there yet, a process or a connection that is refused: the kernel makes
//! nobody wait, so the program does it by sleeping. Such a sleep is a wait for what was refused if the same was refused
//! before and after it, and most of the time between the two was slept. The last one counts if it follows its refusal at
//! once: after it comes the call that went well, which no fact says.
//!
//! A shell polls by its children: one is refused and ends badly, the next one sleeps. So what counts is whose refusals they
//! are: of the process itself, or of processes that it, or theirs, began (asked.rs).
//!
//! A right that is refused is often one that nobody needs: monitors look into what they may not, and programs for files that
//! they can do without. So it counts only if next to nothing lies between the refusal, the sleep and the next try; of a program
//! that is begun for it, if it ended badly at once; and if no more than a few things are refused a process.
//!
//! Must not: make a wait of a refusal that no sleep follows, or say who holds what was refused (graph/holders.rs). Rejected:
//! mkdir in a program's own calls, which most make to have the folder, be it there or not; refused IPv6 addresses, since
//! whoever is refused `::1` tries 127.0.0.1 next, and whether that went well is not reported; waits for events that anything but
//! the clock ended.
//!
//! Who asks again and again whether a process lives, and it does, waits for its end; who asks after several in turn watches over them. Where no refused call is known, the failures of a program that is begun again and again are (failing.rs), and sessions that a server ends at once (turned_away.rs).
//!
//! Edit together: probe/bpf/refused.bpf.c (what is reported), rules/lock/polled.rs and the rules on limits.

use crate::facts::*;
use crate::model::Model;
use crate::model::object::{CgroupKey, Object};
use crate::waits::asked::{Asked, Askers, RIGHT_WORK_NS};
use crate::waits::families::Families;
use crate::waits::span::WaitSpan;
use crate::waits::{WaitClass, failing, turned_away};
use std::collections::{HashMap, HashSet};

/// What was refused: the class of a wait for it, and the object.
pub type Refused = (WaitClass, Object);

/// A sleep: thread id and begin.
pub type Sleep = (u32, Ns);

/// The last sleep begins no later after its refusal: a shell begins another program in between.
const AT_ONCE_NS: Ns = 100_000_000;
/// Starts of processes may be rounded down by a tick.
const TICK_NS: Ns = 10_000_000;
/// Switches and refusals are dated by two clocks, which differ by less.
const SKEW_NS: Ns = 100_000;
/// Once refused may be by chance.
const REFUSALS_MIN: usize = 2;
/// Whoever is refused more rights than this looks around.
const RIGHTS_MAX: usize = 3;

const EPERM: i32 = 1;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EADDRINUSE: i32 = 98;
const EADDRNOTAVAIL: i32 = 99;
const ENETUNREACH: i32 = 101;
const ECONNRESET: i32 = 104;
const ENOTCONN: i32 = 107;
const ECONNREFUSED: i32 = 111;
const EHOSTUNREACH: i32 = 113;
const ESTALE: i32 = 116;
const EDQUOT: i32 = 122;

/// Whoever has one of them is not held by RLIMIT_NPROC: CAP_SYS_ADMIN, CAP_SYS_RESOURCE (kernel/fork.c).
const ABOVE_PROCESS_LIMIT: u64 = 1 << 21 | 1 << 24;

/// What a call was refused, if that is something that one may wait for.
pub fn refused(model: &Model, denied: &Denied) -> Option<Refused> {
    let path = || denied.path.as_deref().map(|path| Object::Path(path.into()));
    let ender = || denied.ended_by_peer().map(|of| Object::Address(of.remote));
    Some(match (denied.errno, denied.syscall.as_str()) {
        (0, _) if denied.asked_after().is_some() => {
            (WaitClass::ProcessEnd, Object::Process(process(model, denied)?))
        }
        (0 | ECONNRESET, _) => (WaitClass::RefusedConnection, ender()?),
        (EAGAIN | EACCES, "fcntl" | "flock") => {
            (WaitClass::PolledLock, Object::from(denied.object.as_ref()?))
        }
        (EEXIST, _) => (WaitClass::PolledLock, path()?),
        (EAGAIN, "clone" | "clone3" | "fork" | "vfork") => {
            (WaitClass::RefusedLimit, process_limit(model, denied))
        }
        (ENOMEM, "clone" | "clone3" | "fork" | "vfork") => {
            (WaitClass::RefusedLimit, Object::Memory(None))
        }
        // Each user may have so many of them.
        (EMFILE, "inotify_init" | "inotify_init1") => {
            (WaitClass::RefusedLimit, Object::Limit("fs.inotify.max_user_instances"))
        }
        (EMFILE, "fanotify_init") => {
            (WaitClass::RefusedLimit, Object::Limit("fs.fanotify.max_user_groups"))
        }
        (EMFILE, _) => (WaitClass::RefusedLimit, Object::Limit("RLIMIT_NOFILE")),
        (ENFILE, _) => (WaitClass::RefusedLimit, Object::Limit("fs.file-max")),
        // cpu.rt_denied has a sentence for them, whether anybody sleeps or not.
        (EPERM, "sched_setscheduler" | "sched_setattr") => return None,
        // They say so of a file that has no events to wait for, and of a process that is a leader already or has executed.
        (EPERM | EACCES, "epoll_ctl" | "setpgid" | "setsid") => return None,
        _ if denied.is_sent() && model.unrouted(denied).is_some() => {
            return no_route(model, denied);
        }
        (EPERM | EACCES | EBUSY | EROFS | ENOTCONN | ESTALE, call) => {
            (WaitClass::RefusedRight, of_right(denied, call))
        }
        (EFBIG, call) => match denied.limit.is_some_and(|it| it.limit != u64::MAX) {
            true => (WaitClass::RefusedRight, Object::Limit("RLIMIT_FSIZE")),
            false => (WaitClass::RefusedRight, of_right(denied, call)),
        },
        (ENOSPC | EDQUOT, _) => (WaitClass::RefusedLimit, room(denied)?),
        (ECONNREFUSED, _) => match denied.address {
            Some(address) if address.is_ipv4() => {
                (WaitClass::RefusedConnection, Object::Address(address))
            }
            Some(_) => return None,
            None => (WaitClass::RefusedConnection, path()?),
        },
        (EADDRINUSE, _) => match denied.address {
            Some(address) => (WaitClass::TakenAddress, Object::Address(address)),
            None => (WaitClass::TakenAddress, path()?),
        },
        (EADDRNOTAVAIL, _) => (WaitClass::NoAddress, Object::Address(denied.address?)),
        (ENETUNREACH | EHOSTUNREACH, _) => return no_route(model, denied),
        _ => return None,
    })
}

/// Whoever sorts the addresses of a name tries each, IPv6 first, and takes another.
fn no_route(model: &Model, denied: &Denied) -> Option<(WaitClass, Object)> {
    let address = denied.address.filter(|address| address.is_ipv4())?;
    let has_another = model.held.has_connection(denied.thread.pid);
    (!has_another).then_some((WaitClass::NoRoute, Object::Address(address)))
}

/// The process that was asked after. In a PID namespace it has another number: the one of the caller's own group that has that.
fn process(model: &Model, denied: &Denied) -> Option<u32> {
    let asked = denied.asked_after().filter(|pid| *pid != denied.thread.pid)?;
    let caller = model.threads.identity(&denied.thread);
    let Some(caller) = caller.filter(|it| it.inner_pid.is_some()) else { return Some(asked) };
    let is_it = |it: &&Thread| {
        it.inner_pid == Some(asked)
            && it.thread.tid == it.thread.pid
            && it.cgroups == caller.cgroups
    };
    let known = model.threads.every_thread().filter_map(|it| model.threads.identity(it));
    let mut found = known.filter(is_it).map(|it| it.thread.pid);
    found.next().filter(|_| found.next().is_none())
}

/// What there is no right to: a path, an address, an open file, or the call itself.
fn of_right(denied: &Denied, call: &str) -> Object {
    match (&denied.path, denied.address, &denied.object) {
        (Some(path), ..) => Object::Path(path.as_str().into()),
        (_, Some(address), _) => Object::Address(address),
        (.., Some(object)) => Object::from(object),
        _ => Object::SystemCall(call.into()),
    }
}

/// Where there is no room: the file system, or of a name the folder for it.
fn room(denied: &Denied) -> Option<Object> {
    match &denied.object {
        Some(ObjectRef::File(file)) => Some(Object::FileSystem(Some(file.dev))),
        Some(_) => None,
        None => denied.folder().filter(has_room).map(|folder| Object::Path(folder.into())),
    }
}

/// What is made there takes room on a file system: of a terminal (/dev/ptmx) and of a control group it is their number that has a limit.
fn has_room(folder: &&str) -> bool {
    let is_below =
        |top: &str| folder.strip_prefix(top).is_some_and(|it| it.is_empty() || it.starts_with('/'));
    is_below("/dev/shm") || !["/dev", "/sys", "/proc"].into_iter().any(is_below)
}

/// The limit on processes that was met: a group's where the kernel's count says so.
fn process_limit(model: &Model, denied: &Denied) -> Object {
    match denied.limit {
        Some(limit) if limit.kind == LimitKind::PidsCgroup => {
            let sets = |group: &&Cgroup| group.id == limit.cgroup_id && group.pids_limit.is_some();
            let group = model.containers.cgroups.iter().find(sets);
            group.map_or(Object::Limit("pids.max"), |group| Object::Cgroup(CgroupKey::of(group)))
        }
        Some(limit) if limit.limit != u64::MAX => {
            let held = denied.capabilities.unwrap_or(0);
            let is_above = held & ABOVE_PROCESS_LIMIT != 0;
            Object::Limit(if is_above { "kernel.threads-max" } else { "RLIMIT_NPROC" })
        }
        _ => Object::Limit("kernel.threads-max"),
    }
}

/// Of all waits those that are sleeps before the next try, with what for.
pub fn reasons<'a>(
    model: &'a Model,
    waits: impl Iterator<Item = &'a WaitSpan> + Clone,
) -> HashMap<Sleep, Refused> {
    let may_fail = failing::may_be_asked(model);
    if model.threads.denied.is_empty() && !may_fail {
        return HashMap::new();
    }
    let families = Families::of(model);
    let mut found = of_series(&families, series(refusals(model, &families)), waits.clone());
    if may_fail {
        let turned = turned_away::all(model, waits.clone()).into_iter().map(|one| {
            let what = (WaitClass::FailedProgram, Object::Process(one.server.pid));
            Asked::in_vain(one.at_ns, one.client, what, families.line(one.client.pid))
        });
        for (sleep, what) in of_series(&families, series(turned.collect()), waits.clone()) {
            found.entry(sleep).or_insert(what);
        }
        let failures = failing::failures(model, &families);
        let runs = failing::runs(model, &families, &failures);
        let is_between =
            |wait: &&WaitSpan| !families.line(wait.thread.pid).iter().any(|pid| runs.contains(pid));
        let failed = failures.into_iter().map(|one| {
            let program = Object::Processes(one.thread.comm.as_str().into());
            Asked::in_vain(one.at_ns, one.thread, (WaitClass::FailedProgram, program), one.line)
        });
        // What was refused says more than that somebody failed for it.
        let between = waits.filter(is_between);
        for (sleep, what) in of_series(&families, series(failed.collect()), between) {
            found.entry(sleep).or_insert(what);
        }
    }
    found
}

/// Which sleeps are for which of the things that were asked for.
fn of_series<'a>(
    families: &Families,
    mut series: HashMap<u32, Vec<Series>>,
    waits: impl Iterator<Item = &'a WaitSpan>,
) -> HashMap<Sleep, Refused> {
    if series.is_empty() {
        return HashMap::new();
    }
    for wait in waits.filter(|wait| is_sleep(wait)) {
        for (level, pid) in families.line(wait.thread.pid).into_iter().enumerate() {
            for one in series.get_mut(&pid).into_iter().flatten() {
                one.take(wait, level == 0);
            }
        }
    }
    let mut found = Found::default();
    for one in series.values().flatten() {
        one.add_to(&mut found);
    }
    found.0.into_iter().map(|(sleep, (_, what))| (sleep, what)).collect()
}

/// By sleep what it is for, and when that was refused: of several things the last that was.
#[derive(Default)]
struct Found(HashMap<Sleep, (Ns, Refused)>);

impl Found {
    fn put(&mut self, sleep: Sleep, refused_ns: Ns, what: &Refused) {
        let known = self.0.get(&sleep);
        if known.is_none_or(|known| (known.0, &known.1) < (refused_ns, what)) {
            self.0.insert(sleep, (refused_ns, what.clone()));
        }
    }
}

/// Nothing ends it but the clock, and a signal: a sleep by whatever call.
pub(super) fn is_sleep(wait: &WaitSpan) -> bool {
    let args = &wait.place.args;
    let by_clock = || {
        let wake = wait.wake.as_ref();
        wake.is_some_and(|wake| wake.context == WakeContext::HardInterrupt && wake.disk.is_none())
    };
    !wait.kernel
        && match (wait.class, wait.place.syscall.as_str()) {
            (WaitClass::Timer, _) => true,
            // An event loop's timer.
            (WaitClass::Idle, _) => wait.place.is_for_several() && by_clock(),
            (WaitClass::FutexWait, _) => args[3] != 0 && by_clock(),
            _ => false,
        }
}

/// One refusal.
struct Refusal {
    at_ns: Ns,
    tid: u32,
    pid: u32,
}

/// Refusals of one thing, of a process and of those that it began, in order of time; and the sleeps after each.
struct Series {
    what: Refused,
    refusals: Vec<Refusal>,
    sleeps: Vec<Vec<(Sleep, Ns)>>,
    /// One refusal is enough: nobody makes the call for another reason.
    one_is_enough: bool,
}

/// The refused calls.
fn refusals(model: &Model, families: &Families) -> Vec<Asked> {
    let askers = Askers::of(model, families);
    let asked = |(at_ns, denied): &(Ns, Denied)| {
        let what = refused(model, denied)?;
        let line = askers.line(*at_ns, denied, what.0 == WaitClass::RefusedRight);
        let (tid, pid) = (denied.thread.tid, denied.thread.pid);
        Some(Asked { at_ns: *at_ns, tid, pid, what, line, one_is_enough: is_enough(denied) })
    };
    let mut all: Vec<Asked> = model.threads.denied.iter().filter_map(asked).collect();
    let mut rights: HashMap<u32, HashSet<Object>> = HashMap::new();
    for one in all.iter().filter(|one| one.what.0 == WaitClass::RefusedRight) {
        rights.entry(one.pid).or_default().insert(one.what.1.clone());
    }
    rights.retain(|_, objects| objects.len() > RIGHTS_MAX);
    all.retain(|one| one.what.0 != WaitClass::RefusedRight || !rights.contains_key(&one.pid));
    without_watchers(&mut all);
    all
}

/// Leaves out those who ask after several processes in turn, or after who began them: to end with that, and not to go on.
fn without_watchers(all: &mut Vec<Asked>) {
    let ends = |pid: &u32| (WaitClass::ProcessEnd, Object::Process(*pid));
    all.retain(|one| !one.line.iter().any(|pid| one.what == ends(pid)));
    let mut spans: HashMap<u32, HashMap<Object, (Ns, Ns)>> = HashMap::new();
    for one in all.iter().filter(|one| one.what.0 == WaitClass::ProcessEnd) {
        let of_it = spans.entry(one.pid).or_default();
        let span = of_it.entry(one.what.1.clone()).or_insert((one.at_ns, one.at_ns));
        *span = (span.0.min(one.at_ns), span.1.max(one.at_ns));
    }
    let overlap = |spans: &HashMap<Object, (Ns, Ns)>| {
        let mut spans: Vec<&(Ns, Ns)> = spans.values().collect();
        spans.sort();
        spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
    };
    spans.retain(|_, spans| overlap(spans));
    all.retain(|one| one.what.0 != WaitClass::ProcessEnd || !spans.contains_key(&one.pid));
}

/// By the process that asks, itself or through others.
fn series(asked: Vec<Asked>) -> HashMap<u32, Vec<Series>> {
    let mut times: HashMap<(u32, Refused), usize> = HashMap::new();
    for one in &asked {
        for pid in &one.line {
            *times.entry((*pid, one.what.clone())).or_default() += 1;
        }
    }
    let mut all: HashMap<u32, Vec<Series>> = HashMap::new();
    for Asked { at_ns, tid, pid: refused_pid, what, line, one_is_enough } in asked {
        let again =
            |pid: &&u32| times.get(&(**pid, what.clone())).is_some_and(|n| *n >= REFUSALS_MIN);
        let first = line.first().filter(|_| one_is_enough);
        let Some(pid) = line.iter().find(again).or(first) else { continue };
        let of_it = all.entry(*pid).or_default();
        let at = of_it.iter().position(|one| one.what == what).unwrap_or_else(|| {
            of_it.push(Series { what, refusals: Vec::new(), sleeps: Vec::new(), one_is_enough });
            of_it.len() - 1
        });
        let refusal = Refusal { at_ns, tid, pid: refused_pid };
        of_it[at].refusals.push(refusal);
    }
    for one in all.values_mut().flatten() {
        one.refusals.sort_by_key(|refusal| refusal.at_ns);
        one.sleeps.resize_with(one.refusals.len(), Vec::new);
    }
    all
}

fn is_enough(denied: &Denied) -> bool {
    matches!(
        (denied.errno, denied.syscall.as_str()),
        (EEXIST, "link" | "linkat") | (EAGAIN, "clone" | "clone3" | "fork" | "vfork")
    )
}

impl Series {
    /// Takes in a sleep that follows one of the refusals: of the thread that was refused, of the process whose children
    /// are refused, or of a process that was begun since.
    fn take(&mut self, wait: &WaitSpan, is_asker: bool) {
        let after = self
            .refusals
            .partition_point(|refusal| refusal.at_ns <= wait.begin_ns.saturating_add(SKEW_NS));
        let Some(at) = after.checked_sub(1) else { return };
        let (before, thread) = (&self.refusals[at], &wait.thread);
        // Whose end is asked after sleeps for itself, also where who asks began it.
        if self.what == (WaitClass::ProcessEnd, Object::Process(thread.pid)) {
            return;
        }
        let is_its = match is_asker {
            true if before.pid == thread.pid => before.tid == thread.tid,
            true => thread.tid == thread.pid,
            false => {
                thread.start_ns != 0 && thread.start_ns.saturating_add(TICK_NS) >= before.at_ns
            }
        };
        if is_its {
            self.sleeps[at].push(((thread.tid, wait.begin_ns), wait.end_ns));
        }
    }

    /// Which sleeps are before the next try.
    fn add_to(&self, found: &mut Found) {
        let mut is_polled = self.one_is_enough;
        for (pair, sleeps) in self.refusals.windows(2).zip(&self.sleeps) {
            let [before, next] = pair else { continue };
            // What lasts beyond the next try was not for it, but another child's of who tries.
            let is_between = |(_, end_ns): &&(Sleep, Ns)| *end_ns <= next.at_ns + SKEW_NS;
            let sleeps = || sleeps.iter().filter(is_between);
            let slept_ns = sleeps().fold(0, |all: Ns, ((_, begin_ns), end_ns)| {
                all.saturating_add((*end_ns).min(next.at_ns).saturating_sub(*begin_ns))
            });
            let between_ns = next.at_ns - before.at_ns;
            let is_of_process = before.pid == next.pid;
            let worked_ns = between_ns.saturating_sub(slept_ns);
            let is_right = self.what.0 == WaitClass::RefusedRight;
            if is_right && is_of_process && worked_ns > RIGHT_WORK_NS {
                continue;
            }
            if slept_ns > 0 && slept_ns >= between_ns / 2 {
                is_polled = true;
                sleeps().for_each(|(sleep, _)| found.put(*sleep, before.at_ns, &self.what));
            }
        }
        let last = self.refusals.last().zip(self.sleeps.last()).filter(|_| is_polled);
        let Some((refusal, sleeps)) = last else { return };
        let next = sleeps.iter().map(|(sleep, _)| *sleep).min_by_key(|(_, begin_ns)| *begin_ns);
        if let Some(next) = next.filter(|it| it.1.saturating_sub(refusal.at_ns) <= AT_ONCE_NS) {
            found.put(next, refusal.at_ns, &self.what);
        }
    }
}

#[cfg(test)]
#[path = "retries_tests.rs"]
mod tests;
