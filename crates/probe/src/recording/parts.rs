//! Which parts of a fact differ from one to the next, and what each is expected to be: said once, for both ways.
//!
//! A fact of a frequent kind is taken apart into a template (all that many facts share: state, system call, stack,
//! cgroup) and parts (times, threads, arguments, the object), each of which goes to a column of its own as its
//! difference from a guess. Writer and reader walk the same function and remember the same things, so they guess
//! alike. What is not named here stays in the template: a field that is added to a fact needs no change here.
//!
//! Must not know bytes (columns.rs). What is guessed, and in which order, is the format: a change needs a new
//! [`super::FORMAT`]. Rejected: a function for each way (they drift apart).

use holdup_reason::facts::*;
use std::collections::HashMap;

/// Columns of a block. Their numbers are the format: only ever added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Column {
    /// Facts that are not taken apart, as JSON lines.
    Facts,
    /// Threads, objects and templates that the block is the first to name, as JSON lines.
    Threads,
    Objects,
    Templates,
    /// 0: the next of the facts; 1: the thread that was expected; else its number and 2.
    Thread,
    /// 0: the template that was expected; else its number and 1.
    Template,
    At,
    Begin,
    End,
    WokenAt,
    By,
    Before,
    Cpu,
    Object,
    Arg0,
    Arg1,
    Arg2,
    Arg3,
    Arg4,
    Arg5,
    Run,
    Runnable,
    Sleep,
    DiskSleep,
    IoWait,
    Switches,
    Preemptions,
    Throttled,
    Sector,
    Bytes,
    Inserted,
    Issued,
    Count,
    SameName,
    Asked,
    Reads,
    ReadBytes,
    Writes,
    WriteBytes,
    MinorFaults,
    MajorFaults,
    /// Of facts whose template has it alone: recordings from before it have neither.
    Executed,
}

/// How many there are.
pub(super) const COLUMNS: usize = Column::Executed as usize + 1;

const ARGS: [Column; 6] =
    [Column::Arg0, Column::Arg1, Column::Arg2, Column::Arg3, Column::Arg4, Column::Arg5];

/// Where parts go to, or come from.
pub(super) trait Exchange {
    /// What can go wrong.
    type Fault;
    /// Passes a number, and gives it; going out, zero is left in its place.
    fn number(&mut self, column: Column, guess: u64, it: &mut u64) -> Result<u64, Self::Fault>;
    /// Passes a thread, and gives its number; going out, nobody is left in its place.
    fn thread(
        &mut self,
        column: Column,
        guess: Option<u32>,
        it: &mut ThreadRef,
    ) -> Result<u32, Self::Fault>;
    /// The same for an object.
    fn object(&mut self, guess: Option<u32>, it: &mut ObjectRef) -> Result<u32, Self::Fault>;
}

/// What one thread was last seen at.
#[derive(Default)]
struct Track {
    seen_ns: Ns,
    /// When another took its CPU over.
    left_ns: Ns,
    template: u32,
    args: [u64; 6],
    cpu: u64,
}

/// What the facts so far let expect of the next.
#[derive(Default)]
pub(super) struct Memory {
    at_ns: Ns,
    since_ns: Ns,
    sector: u64,
    /// Thread and template of the fact before.
    last: (u32, u32),
    tracks: HashMap<u32, Track>,
    /// By the thread and template of the fact before.
    next_thread: HashMap<(u32, u32), u32>,
    /// By thread and template of the thread's fact before.
    next_template: HashMap<(u32, u32), u32>,
    /// By thread and template.
    wakers: HashMap<(u32, u32), u32>,
    /// Who got a CPU last, by its number.
    on_cpu: HashMap<u64, u32>,
    /// By thread and descriptor.
    objects: HashMap<(u32, u64), u32>,
}

/// The thread that a fact of a frequent kind is about.
pub(super) fn subject(body: &mut Body) -> Option<&mut ThreadRef> {
    Some(match body {
        Body::Wait(it) => &mut it.thread,
        Body::Ran(it) => &mut it.thread,
        Body::Blocked(it) => &mut it.thread,
        Body::ThreadTime(it) => &mut it.thread,
        Body::Exit(it) => &mut it.thread,
        Body::Fork(it) => &mut it.parent,
        Body::Request(it) => &mut it.by,
        Body::Samples(it) => &mut it.process,
        Body::Work(it) => &mut it.process,
        Body::Effort(it) => &mut it.thread,
        _ => return None,
    })
}

impl Memory {
    /// How much it remembers.
    pub(super) fn entries(&self) -> usize {
        let pairs = [&self.next_thread, &self.next_template, &self.wakers];
        pairs.into_iter().map(HashMap::len).sum::<usize>() + self.objects.len() + self.on_cpu.len()
    }

    /// Whom the next fact is about.
    pub(super) fn thread(&self) -> Option<u32> {
        self.next_thread.get(&self.last).copied()
    }

    /// Its template, once the thread is known.
    pub(super) fn template(&self, thread: u32) -> Option<u32> {
        let before = self.tracks.get(&thread).map_or(u32::MAX, |track| track.template);
        self.next_template.get(&(thread, before)).copied()
    }

    /// Notes what the fact was.
    pub(super) fn remember(&mut self, thread: u32, template: u32) {
        self.next_thread.insert(self.last, thread);
        self.last = (thread, template);
        let before = match self.tracks.get_mut(&thread) {
            Some(track) => std::mem::replace(&mut track.template, template),
            None => {
                self.tracks.insert(thread, Track { template, ..Track::default() });
                u32::MAX
            }
        };
        self.next_template.insert((thread, before), template);
    }

    /// Passes all parts of a fact, its template apart.
    pub(super) fn pass<E: Exchange>(
        &mut self,
        fact: &mut Fact,
        key: Key,
        to: &mut E,
    ) -> Result<(), E::Fault> {
        let at_ns = to.number(Column::At, self.at_ns, &mut fact.at_ns)?;
        self.at_ns = at_ns;
        match &mut fact.body {
            Body::Wait(wait) => self.wait(wait, at_ns, key, to),
            Body::Ran(ran) => {
                let track = self.tracks.entry(key.thread).or_default();
                let begin_ns = to.number(Column::Begin, track.seen_or(at_ns), &mut ran.begin_ns)?;
                let guess = if track.left_ns > begin_ns { track.left_ns } else { at_ns };
                track.seen_ns = to.number(Column::End, guess, &mut ran.end_ns)?;
                small(to, Column::Cpu, &mut track.cpu, &mut ran.cpu)
            }
            Body::Blocked(blocked) => {
                to.number(Column::Begin, at_ns, &mut blocked.since_ns)?;
                self.place(&mut blocked.place, key, to).map(drop)
            }
            Body::ThreadTime(time) => self.time(time, at_ns, to),
            Body::Fork(fork) => to.thread(Column::By, None, &mut fork.child).map(drop),
            Body::Request(request) => self.request(request, at_ns, to),
            Body::Samples(samples) => to.number(Column::Count, 0, &mut samples.count).map(drop),
            Body::Work(work) => {
                let count = to.number(Column::Count, 0, &mut work.count)?;
                to.number(Column::SameName, count, &mut work.same_name)?;
                to.number(Column::Asked, 0, &mut work.asked_bytes).map(drop)
            }
            Body::Effort(effort) => effort_parts(effort, at_ns, to),
            _ => Ok(()),
        }
    }

    fn wait<E: Exchange>(
        &mut self,
        wait: &mut Wait,
        at_ns: Ns,
        key: Key,
        to: &mut E,
    ) -> Result<(), E::Fault> {
        let track = self.tracks.entry(key.thread).or_default();
        let guess = track.seen_or(at_ns).max(track.left_ns);
        to.number(Column::Begin, guess, &mut wait.begin_ns)?;
        track.seen_ns = to.number(Column::End, at_ns, &mut wait.end_ns)?;
        if let Some(wake) = &mut wait.wake {
            to.number(Column::WokenAt, at_ns, &mut wake.at_ns)?;
            let of = (key.thread, key.template);
            let by = to.thread(Column::By, self.wakers.get(&of).copied(), &mut wake.by)?;
            self.wakers.insert(of, by);
        }
        let cpu = self.place(&mut wait.place, key, to)?;
        let before = self.on_cpu.insert(cpu, key.thread);
        if let Some(who) = &mut wait.ran_before {
            let who = to.thread(Column::Before, before, who)?;
            self.tracks.entry(who).or_default().left_ns = at_ns;
        }
        Ok(())
    }

    fn place<E: Exchange>(
        &mut self,
        place: &mut Place,
        key: Key,
        to: &mut E,
    ) -> Result<u64, E::Fault> {
        let track = self.tracks.entry(key.thread).or_default();
        small(to, Column::Cpu, &mut track.cpu, &mut place.cpu)?;
        let cpu = track.cpu;
        for ((column, guess), arg) in ARGS.into_iter().zip(&mut track.args).zip(&mut place.args) {
            *guess = to.number(column, *guess, arg)?;
        }
        if let Some(object) = &mut place.object {
            let of = (key.thread, track.args[0]);
            let number = to.object(self.objects.get(&of).copied(), object)?;
            self.objects.insert(of, number);
        }
        Ok(cpu)
    }

    fn time<E: Exchange>(
        &mut self,
        time: &mut ThreadTime,
        at_ns: Ns,
        to: &mut E,
    ) -> Result<(), E::Fault> {
        self.since_ns = to.number(Column::Begin, self.since_ns, &mut time.since_ns)?;
        let until_ns = to.number(Column::End, at_ns, &mut time.until_ns)?;
        let run_ns = to.number(Column::Run, 0, &mut time.run_ns)?;
        let mut left_ns = until_ns.wrapping_sub(self.since_ns).wrapping_sub(run_ns);
        for (column, part) in [
            (Column::Runnable, &mut time.runnable_ns),
            (Column::DiskSleep, &mut time.disk_sleep_ns),
        ] {
            left_ns = left_ns.wrapping_sub(to.number(column, 0, part)?);
        }
        // The parts add up to the whole.
        to.number(Column::Sleep, left_ns, &mut time.sleep_ns)?;
        to.number(Column::IoWait, 0, &mut time.iowait_ns)?;
        to.number(Column::Switches, 0, &mut time.switches)?;
        to.number(Column::Preemptions, 0, &mut time.preemptions)?;
        to.number(Column::Throttled, 0, &mut time.throttled_ns)?;
        if let Some(cpu_ns) = &mut time.cpu_ns {
            to.number(Column::Executed, run_ns, cpu_ns)?;
        }
        Ok(())
    }

    fn request<E: Exchange>(
        &mut self,
        request: &mut Request,
        at_ns: Ns,
        to: &mut E,
    ) -> Result<(), E::Fault> {
        self.sector = to.number(Column::Sector, self.sector, &mut request.sector)?;
        small(to, Column::Bytes, &mut 0, &mut request.bytes)?;
        let complete_ns = to.number(Column::End, at_ns, &mut request.complete_ns)?;
        let issue_ns = to.number(Column::Issued, complete_ns, &mut request.issue_ns)?;
        to.number(Column::Inserted, issue_ns, &mut request.insert_ns).map(drop)
    }
}

/// Names a kind of fact of one thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// The thread's number.
    pub(super) thread: u32,
    /// The template's.
    pub(super) template: u32,
}

impl Track {
    fn seen_or(&self, at_ns: Ns) -> Ns {
        if self.seen_ns == 0 { at_ns } else { self.seen_ns }
    }
}

/// Passes a number that is narrower than a column, and remembers it as the next guess.
fn small<E: Exchange>(
    to: &mut E,
    column: Column,
    guess: &mut u64,
    it: &mut u32,
) -> Result<(), E::Fault> {
    let mut wide = u64::from(*it);
    *guess = to.number(column, *guess, &mut wide)?;
    *it = wide as u32;
    Ok(())
}

fn effort_parts<E: Exchange>(effort: &mut Effort, at_ns: Ns, to: &mut E) -> Result<(), E::Fault> {
    to.number(Column::Begin, at_ns, &mut effort.since_ns)?;
    to.number(Column::End, at_ns, &mut effort.until_ns)?;
    for (column, part) in [
        (Column::Reads, &mut effort.reads),
        (Column::ReadBytes, &mut effort.read_bytes),
        (Column::Writes, &mut effort.writes),
        (Column::WriteBytes, &mut effort.write_bytes),
        (Column::MinorFaults, &mut effort.minor_faults),
        (Column::MajorFaults, &mut effort.major_faults),
    ] {
        to.number(column, 0, part)?;
    }
    // Recordings from before it have none.
    if let Some(rss_bytes) = &mut effort.rss_bytes_max {
        to.number(Column::Bytes, 0, rss_bytes)?;
    }
    Ok(())
}
