//! Threads, wire to fact: entries of the task iterator, and threads that end.
//!
//! Owns what the first walk leaves to compare with: since when a thread has waited, and what the scheduler had counted
//! of it by then. Must not: tell stacks and paths apart (mod.rs). Edit together: bpf/wire.h (`wire_thread`, `wire_exit`).

use super::lock::Locks;
use super::mounts::Mounts;
use super::place::{nagle, place};
use super::stacks::Stacks;
use super::values::{device, thread_ref};
use crate::decode::wire::{self, *};
use holdup_reason::facts::*;
use std::collections::HashMap;

/// What had been counted of a thread when the window began.
#[derive(Clone, Copy, Default)]
struct Counted {
    start_ns: Ns,
    /// Its time on a CPU since it began, by the scheduler.
    executed_ns: Ns,
    /// What the kernel programs had added up, if they stood before the window did.
    sums: Sums,
}

/// Sums of a thread until some moment; all zero of one whom nobody had seen by then.
#[derive(Clone, Copy, Default)]
struct Sums {
    until_ns: Ns,
    run_ns: Ns,
    runnable_ns: Ns,
    sleep_ns: Ns,
    disk_sleep_ns: Ns,
    iowait_ns: Ns,
    throttled_ns: Ns,
    switches: u64,
    preemptions: u64,
}

impl Sums {
    fn of(time: &ThreadTime) -> Self {
        Self {
            until_ns: time.until_ns,
            run_ns: time.run_ns,
            runnable_ns: time.runnable_ns,
            sleep_ns: time.sleep_ns,
            disk_sleep_ns: time.disk_sleep_ns,
            iowait_ns: time.iowait_ns,
            throttled_ns: time.throttled_ns,
            switches: time.switches,
            preemptions: time.preemptions,
        }
    }

    /// Leaves of a thread's time what was added since. What was counted as asleep may turn out to have been for a CPU (sums.bpf.h),
    /// so a part may be less than it was; the whole is not.
    fn leave_of(&self, time: &mut ThreadTime) {
        if time.since_ns == 0 || self.until_ns <= time.since_ns {
            return;
        }
        time.since_ns = self.until_ns;
        let wall_ns = time.until_ns.saturating_sub(time.since_ns);
        let less = |part: &mut Ns, before: Ns| *part = part.saturating_sub(before).min(wall_ns);
        less(&mut time.run_ns, self.run_ns);
        less(&mut time.runnable_ns, self.runnable_ns);
        less(&mut time.sleep_ns, self.sleep_ns);
        less(&mut time.disk_sleep_ns, self.disk_sleep_ns);
        less(&mut time.iowait_ns, self.iowait_ns);
        less(&mut time.throttled_ns, self.throttled_ns);
        time.switches = time.switches.saturating_sub(self.switches);
        time.preemptions = time.preemptions.saturating_sub(self.preemptions);
    }
}

/// What one entry of the task iterator says.
pub struct ThreadRecord {
    /// Sums since `since_ns`, the standing stretch included.
    pub time: ThreadTime,
    /// The standing wait, if it does not run.
    pub blocked: Option<Blocked>,
    /// Of a traced thread, the stretch on a CPU that it is in or was in last: no event has reported it yet.
    pub ran: Option<Ran>,
}

/// What all records of threads share: the names of stacks, locks and paths.
#[derive(Default)]
pub struct Names {
    /// Identities of kernel stacks.
    pub stacks: Stacks,
    /// Identities of locks of the kernel.
    pub locks: Locks,
    /// Mounts, to make paths absolute.
    pub mounts: Mounts,
}

/// What is known of threads from one record to the next.
#[derive(Default)]
pub struct Threads {
    /// Since when a thread was blocked before it was first seen, by thread id.
    pub begins: HashMap<u32, Ns>,
    /// The walk at the begin is under way.
    pub is_first_walk: bool,
    /// The walk at the end is under way, and another window begins with it.
    pub is_boundary_walk: bool,
    /// What had been counted of a thread when the window began, by thread id.
    counted: HashMap<u32, Counted>,
    /// The same of the next window.
    counted_next: HashMap<u32, Counted>,
    /// CLOCK_MONOTONIC minus the scheduler's clock, nanoseconds.
    clock_offset_ns: Option<i64>,
}

impl Threads {
    /// Reads one entry of the task iterator. The first entries teach the scheduler clock's offset.
    pub fn thread(&mut self, names: &mut Names, bytes: &[u8], own_tid: u32) -> ThreadRecord {
        let record: wire_thread = wire::read(bytes);
        let now = record.head.at_ns;
        let mode = wire_mode(record.mode);
        if record.thread.tid == own_tid && mode == wire_mode::WIRE_MODE_RUNNING {
            self.clock_offset_ns
                .get_or_insert(record.mode_since_ns.wrapping_sub(record.last_arrival_clock) as i64);
        }
        let flag = |bit: wire_flag| record.flags & bit.0 != 0;
        let thread = thread_ref(&record.thread);
        let unseen = flag(wire_flag::WIRE_FLAG_BEGIN_UNSEEN);
        let mut since_ns = record.mode_since_ns;
        if unseen {
            let offset = self.clock_offset_ns.unwrap_or(0);
            let arrival = (record.last_arrival_clock as i64).saturating_add(offset);
            if self.clock_offset_ns.is_some() && record.last_arrival_clock != 0 && arrival > 0 {
                since_ns = since_ns.min(arrival as u64);
                self.begins.entry(thread.tid).or_insert(since_ns);
            }
            since_ns = self.begins.get(&thread.tid).copied().unwrap_or(since_ns).min(since_ns);
        }
        let mut time = sums(&record.sums, &thread, now);
        time.kernel = flag(wire_flag::WIRE_FLAG_KERNEL);
        time.cpu_cgroup_id = record.cpu_cgroup_id;
        time.cgroup_id = record.cgroup_id;
        time.parent_pid = record.parent_tgid;
        add_standing(&mut time, &record, now);
        if self.is_boundary_walk {
            let (start_ns, executed_ns) = (record.thread.start_ns, record.executed_ns);
            let counted = Counted { start_ns, executed_ns, sums: Sums::of(&time) };
            self.counted_next.insert(record.thread.tid, counted);
        }
        self.since_begin(&record.thread, record.executed_ns, &mut time);
        let waits = mode == wire_mode::WIRE_MODE_BLOCKED && record.place.state != 0;
        let path = part!(bytes, wire_thread, path);
        let path = names.mounts.path(thread.pid, path, record.path_bytes, record.place.object.dev);
        let ran = flag(wire_flag::WIRE_FLAG_TRACED).then(|| stretch(&record, &thread)).flatten();
        let object = &record.place.object;
        let stopped = wire_object_kind(u32::from(object.kind)) == wire_object_kind::WIRE_OBJECT_TTY
            && object.frozen != 0;
        let blocked = waits.then(|| Blocked {
            kernel: time.kernel,
            since_ns,
            since_estimated: unseen,
            woken: record.woken_ns != 0,
            place: Place {
                async_in_flight: u32::try_from(record.async_in_flight).ok(),
                held_back: held_back(&record),
                nagle: nagle(part!(bytes, wire_thread, place))
                    .filter(|it| it.unsent_bytes > 0 || it.sent_ns > since_ns),
                output_stopped: stopped,
                lock: names.locks.lock(part!(bytes, wire_thread, lock)).map(Box::new),
                ..place(
                    &mut names.stacks,
                    part!(bytes, wire_thread, place),
                    (flag(wire_flag::WIRE_FLAG_IOWAIT), flag(wire_flag::WIRE_FLAG_FROZEN)),
                    path,
                )
            },
            thread,
        });
        ThreadRecord { time, blocked, ran }
    }

    /// The next window begins where the last walk was.
    pub fn next_window(&mut self) {
        self.counted = std::mem::take(&mut self.counted_next);
        // Whoever is gone does not come back.
        self.begins.retain(|tid, _| self.counted.contains_key(tid));
    }

    /// Leaves of a thread's time what belongs to this window.
    fn since_begin(&mut self, thread: &wire_ref, executed_ns: Ns, time: &mut ThreadTime) {
        let known = self.counted.get(&thread.tid).filter(|it| it.start_ns == thread.start_ns);
        if let Some(known) = known {
            known.sums.leave_of(time);
        }
        time.cpu_ns = self.cpu_ns(thread, executed_ns, time);
    }

    /// What the scheduler has counted of a thread since the window began, or since it began itself if it is younger.
    fn cpu_ns(&mut self, thread: &wire_ref, executed_ns: Ns, time: &ThreadTime) -> Option<Ns> {
        if executed_ns == 0 || time.since_ns == 0 {
            return None;
        }
        let (tid, start_ns) = (thread.tid, thread.start_ns);
        if self.is_first_walk {
            let counted = Counted { start_ns, executed_ns, ..Counted::default() };
            self.counted.insert(tid, counted);
        }
        let known = self.counted.get(&tid).filter(|known| known.start_ns == start_ns);
        let counted_ns = executed_ns.saturating_sub(known.map_or(0, |known| known.executed_ns));
        // One that the walk missed because it ended just then has all of its life counted.
        let most_ns = time.until_ns.saturating_sub(time.since_ns);
        (known.is_some() || counted_ns <= most_ns).then_some(counted_ns)
    }

    /// A thread that ends.
    pub fn exit(&mut self, record: &wire_exit, facts: &mut Vec<Fact>) {
        let at_ns = record.head.at_ns;
        let thread = thread_ref(&record.thread);
        let mut push = |body| facts.push(Fact { at_ns, body });
        if record.ran_since_ns != 0 && record.flags & wire_flag::WIRE_FLAG_TRACED.0 != 0 {
            push(Body::Ran(Ran {
                thread: thread.clone(),
                begin_ns: record.ran_since_ns,
                end_ns: at_ns,
                cpu: 0,
            }));
        }
        let mut time = sums(&record.sums, &thread, at_ns);
        self.since_begin(&record.thread, record.executed_ns, &mut time);
        time.kernel = record.flags & wire_flag::WIRE_FLAG_KERNEL.0 != 0;
        time.cpu_cgroup_id = record.cpu_cgroup_id;
        time.cgroup_id = record.cgroup_id;
        time.parent_pid = record.parent_tgid;
        if time.since_ns != 0 {
            push(Body::ThreadTime(time));
        }
        push(Body::Exit(Exit { thread, last: record.last != 0, code: Some(record.code) }));
    }
}

fn add_standing(time: &mut ThreadTime, record: &wire_thread, now: Ns) {
    let mode = wire_mode(record.mode);
    let standing = now.saturating_sub(record.mode_since_ns);
    if mode == wire_mode::WIRE_MODE_RUNNING {
        time.run_ns = time.run_ns.saturating_add(standing);
    } else if mode == wire_mode::WIRE_MODE_RUNNABLE {
        time.runnable_ns = time.runnable_ns.saturating_add(standing);
        if record.flags & wire_flag::WIRE_FLAG_THROTTLED.0 != 0 {
            time.throttled_ns = time.throttled_ns.saturating_add(standing);
        }
    } else if mode == wire_mode::WIRE_MODE_BLOCKED {
        let woken = if record.woken_ns != 0 { record.woken_ns } else { now };
        let blocked = woken.saturating_sub(record.mode_since_ns);
        time.runnable_ns = time.runnable_ns.saturating_add(now.saturating_sub(woken));
        if record.place.state & 2 != 0 {
            time.disk_sleep_ns = time.disk_sleep_ns.saturating_add(blocked);
        } else {
            time.sleep_ns = time.sleep_ns.saturating_add(blocked);
        }
        if record.flags & wire_flag::WIRE_FLAG_IOWAIT.0 != 0 {
            time.iowait_ns = time.iowait_ns.saturating_add(blocked);
        }
    }
}

fn sums(sums: &wire_sums, thread: &ThreadRef, until_ns: Ns) -> ThreadTime {
    ThreadTime {
        thread: thread.clone(),
        since_ns: sums.since_ns,
        until_ns,
        run_ns: sums.run_ns,
        runnable_ns: sums.runnable_ns,
        sleep_ns: sums.sleep_ns,
        disk_sleep_ns: sums.disk_sleep_ns,
        iowait_ns: sums.iowait_ns,
        switches: sums.switches,
        preemptions: sums.preemptions,
        throttled_ns: sums.throttled_ns,
        ..ThreadTime::default()
    }
}

fn held_back(record: &wire_thread) -> Option<HeldBack> {
    let dev = (record.held_disk != 0).then(|| device(record.held_disk));
    (record.held_bios != 0).then_some(HeldBack { dev, bios: record.held_bios })
}

/// The stretch on a CPU that a thread is in, or was in before it left.
fn stretch(record: &wire_thread, thread: &ThreadRef) -> Option<Ran> {
    let (begin_ns, end_ns) = match wire_mode(record.mode) {
        wire_mode::WIRE_MODE_RUNNING => (record.mode_since_ns, record.head.at_ns),
        _ => (record.ran_since_ns, record.mode_since_ns),
    };
    let is_known = begin_ns != 0 && begin_ns <= end_ns;
    is_known.then(|| Ran { thread: thread.clone(), begin_ns, end_ns, cpu: record.place.cpu.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scheduler_counts_is_since_the_first_walk_or_from_a_threads_begin() {
        let of = |tid, start_ns| wire_ref { tid, start_ns, ..wire::read(&[]) };
        let time = |since_ns, until_ns| ThreadTime { since_ns, until_ns, ..ThreadTime::default() };
        let mut threads = Threads { is_first_walk: true, ..Threads::default() };
        assert_eq!(threads.cpu_ns(&of(7, 1), 500, &time(100, 100)), Some(0));
        threads.is_first_walk = false;
        assert_eq!(threads.cpu_ns(&of(7, 1), 540, &time(100, 200)), Some(40));
        assert_eq!(
            threads.cpu_ns(&of(7, 150), 30, &time(150, 200)),
            Some(30),
            "another of that id"
        );
        assert_eq!(threads.cpu_ns(&of(8, 1), 900, &time(100, 120)), None, "missed by the walk");
        assert_eq!(threads.cpu_ns(&of(7, 1), 0, &time(100, 200)), None, "not counted");
    }

    #[test]
    fn of_the_next_window_is_what_came_after_the_boundary() {
        let who = wire_ref { tid: 7, start_ns: 1, ..wire::read(&[]) };
        let time = |until_ns, run_ns, sleep_ns| ThreadTime {
            since_ns: 100,
            until_ns,
            run_ns,
            sleep_ns,
            ..ThreadTime::default()
        };
        let mut threads = Threads::default();
        let sums = Sums::of(&time(200, 30, 70));
        threads.counted_next.insert(7, Counted { start_ns: 1, executed_ns: 900, sums });
        threads.begins = HashMap::from([(7, 5), (8, 6)]);
        threads.next_window();
        assert_eq!(threads.begins, HashMap::from([(7, 5)]));
        let mut later = time(300, 50, 150);
        threads.since_begin(&who, 920, &mut later);
        assert_eq!((later.since_ns, later.run_ns, later.sleep_ns), (200, 20, 80));
        assert_eq!(later.cpu_ns, Some(20));
        let mut another = time(300, 50, 150);
        threads.since_begin(&wire_ref { start_ns: 2, ..who }, 950, &mut another);
        assert_eq!((another.since_ns, another.run_ns), (100, 50));
    }

    #[test]
    fn the_latest_stretch_on_a_cpu_ends_with_the_walk_or_where_the_thread_left() {
        let mut record: wire_thread = wire::read(&[]);
        (record.head.at_ns, record.mode_since_ns, record.ran_since_ns) = (90, 40, 10);
        let ends = |record: &wire_thread| {
            stretch(record, &ThreadRef::default()).map(|ran| (ran.begin_ns, ran.end_ns))
        };
        record.mode = wire_mode::WIRE_MODE_RUNNING.0;
        assert_eq!(ends(&record), Some((40, 90)));
        record.mode = wire_mode::WIRE_MODE_BLOCKED.0;
        assert_eq!(ends(&record), Some((10, 40)));
        record.ran_since_ns = 0;
        assert_eq!(ends(&record), None);
    }
}
