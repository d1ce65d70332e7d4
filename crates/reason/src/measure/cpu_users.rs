//! Who uses the CPUs, who waits for them, and what each may fairly have.
//!
//! Competitors are not threads: a build is one job however many compilers it starts, and a service is one
//! however many workers it has. Nor are they containers: a hog and its victim may live in one. Each gets at most its fair
//! part of what was used (max-min: who wants less than his part leaves the rest to the others). Who may use none of the CPUs
//! that another waits for takes nothing from it, so the same is to be had of some CPUs alone. Beside the jobs the
//! same use by the name of the program, which is how a person sees a crowd: `32 x sha256sum`.
//!
//! Must not: say that somebody takes too much. Use is not a fault; taking more than the fair part while somebody else
//! gets less than his is, and rules/cpu/ decides that. Rejected: the busiest process (a busy host is healthy), and
//! pressure totals (they do not say who).

use super::ancestry::Ancestry;
use super::cpu_quotas::{Quota, out_of_quota_ns, quotas};
use crate::facts::*;
use crate::model::Model;
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// From here on all CPUs count as in use.
pub static BUSY_MIN: Threshold = Threshold::new(
    0.9,
    "1",
    "the CPUs that the victim may use are in use for so much of the time; with less, somebody idles beside the queue",
    "chosen; lab, seeds 1, 4401 and 4402: 1.00 on each full host",
);

/// From here on a host has more to do than it can.
pub static READY_PER_CPU_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "threads that are ready and have no CPU, on average, for each CPU; with fewer, work takes less than half as long again",
    "chosen: three threads that always compute on two CPUs",
);

/// The users of the CPUs over a look.
#[derive(Debug)]
pub struct CpuUsers<'a> {
    /// Everybody who ran or wanted to, who ran most first.
    pub competitors: Vec<Competitor>,
    /// Share of the window that each CPU did something, from /proc/stat.
    pub busy: BTreeMap<u32, f64>,
    /// Over how long the threads' sums are, seconds. A little more than the window: from before a command is begun until it was seen to
    /// have ended. Of a command of some milliseconds that is half of it.
    pub counted_seconds: f64,
    /// Groups that ran out of their CPU quota.
    pub quotas: Vec<Quota<'a>>,
    model: &'a Model,
}

/// One who competes for CPUs: the processes of one job.
#[derive(Debug, Clone, Default)]
pub struct Competitor {
    /// Its processes: CPU used and waited for, seconds; the process as a thread.
    pub processes: BTreeMap<u32, Use>,
    /// CPU used, seconds.
    pub run: f64,
    /// Ready without a CPU, seconds; time out of quota not included.
    pub ready: f64,
    /// The longest that one thread of it ran or was ready to, seconds: near the whole look, it wants to run always.
    pub wanted_by_one: f64,
    /// What it might fairly have had, seconds.
    pub fair: f64,
    /// A kernel thread.
    pub kernel: bool,
    /// CPUs that its thread which waits most may use; none: all.
    pub cpus: Vec<u32>,
}

/// One process's use.
#[derive(Debug, Clone)]
pub struct Use {
    /// The process.
    pub process: ThreadRef,
    /// CPU used, seconds.
    pub run: f64,
    /// Ready without a CPU, seconds.
    pub ready: f64,
}

/// All processes of one name, and what they did with the CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The name of their main threads; of kernel threads without their numbers (`kworker`).
    pub name: String,
    /// Processes of that name that ran or wanted to.
    pub count: usize,
    /// How many of them there were at a time, on average.
    pub at_a_time: f64,
    /// The one that ran most.
    pub example: u32,
    /// CPU used, seconds.
    pub run: f64,
    /// Ready without a CPU, seconds; time out of quota not included.
    pub ready: f64,
    /// What they used of the time of the CPUs that the victims may use, 0 to 1.
    pub share: f64,
    /// Kernel threads.
    pub kernel: bool,
}

/// Who had the CPUs while some processes waited for them; who ran most first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instead {
    /// All others.
    pub others: Vec<Program>,
    /// The waiting processes themselves: each of many has a CPU while the others wait.
    pub themselves: Vec<Program>,
    /// Time of the CPUs that the waiting processes may use, seconds.
    pub capacity: f64,
}

impl Competitor {
    /// The process that uses most.
    pub fn greatest(&self) -> Option<&Use> {
        self.processes.values().max_by(|a, b| a.run.total_cmp(&b.run))
    }

    /// How much less than its fair part it got, seconds.
    pub fn shortfall(&self) -> f64 {
        (self.fair - self.run).max(0.0)
    }

    /// How much more, seconds.
    pub fn excess(&self) -> f64 {
        (self.run - self.fair).max(0.0)
    }

    fn add(&mut self, model: &Model, time: &ThreadTime, run: f64, ready: f64) {
        self.run += run;
        self.ready += ready;
        self.wanted_by_one = self.wanted_by_one.max(run + ready);
        let process = self.processes.entry(time.thread.pid).or_insert_with(|| Use {
            process: model.threads.thread_ref(time.thread.pid),
            run: 0.0,
            ready: 0.0,
        });
        process.run += run;
        process.ready += ready;
    }
}

impl<'a> CpuUsers<'a> {
    /// Of a look.
    pub fn of(model: &'a Model, ancestry: &Ancestry) -> Self {
        let quotas = quotas(model);
        let (busy, counted_seconds) = (busy(model), counted_seconds(model));
        let competitors = Vec::new();
        let mut users = Self { competitors, busy, counted_seconds, quotas, model };
        users.competitors = users.compete(ancestry);
        users
    }

    /// How much of a thread's ready time its group was out of quota.
    pub fn out_of_quota_ns(&self, time: &ThreadTime) -> Ns {
        out_of_quota_ns(self.model, &self.quotas, time)
    }

    /// Mean of some CPUs' busy shares; of all if none is given.
    pub fn mean_busy(&self, of: &[u32]) -> Option<f64> {
        let of: Vec<f64> = self
            .busy
            .iter()
            .filter(|(cpu, _)| of.is_empty() || of.contains(cpu))
            .map(|(_, share)| *share)
            .collect();
        (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
    }

    /// Whether all CPUs were in use, as far as that is known.
    pub fn are_full(&self) -> bool {
        self.mean_busy(&[]).is_some_and(|busy| busy >= BUSY_MIN.value)
    }

    /// Whether a host has more to do than it can, by the threads that were ready without a CPU at a time.
    pub fn lack(&self, ready: f64) -> bool {
        ready >= READY_PER_CPU_MIN.value * self.busy.len().max(1) as f64
    }

    /// The job that a process is part of.
    pub fn job(&self, pid: u32) -> Option<&Competitor> {
        self.competitors.iter().find(|one| one.processes.contains_key(&pid))
    }

    /// CPUs that a thread may use; none: all, or not known.
    pub fn allowed(&self, thread: &ThreadRef) -> &'a [u32] {
        let known = self.model.threads.identity(thread);
        let allowed = known.map_or(&[][..], |known| &known.cpus_allowed);
        let is_all = allowed.len() >= self.busy.len()
            && self.busy.keys().all(|cpu| allowed.binary_search(cpu).is_ok());
        if is_all && !self.busy.is_empty() { &[] } else { allowed }
    }

    /// Everybody who ran or wanted to.
    fn compete(&self, ancestry: &Ancestry) -> Vec<Competitor> {
        let mut all: HashMap<Job, (Competitor, f64)> = HashMap::new();
        for time in self.model.threads.times.iter().filter(|time| time.thread.pid != 0) {
            let (of, waits_most) =
                all.entry(job(self.model, ancestry, &time.thread)).or_insert_with(|| {
                    (Competitor { kernel: time.kernel, ..Competitor::default() }, 0.0)
                });
            let (run, ready) = self.sums(time);
            of.add(self.model, time, run, ready);
            if ready > *waits_most {
                *waits_most = ready;
                of.cpus = self.allowed(&time.thread).to_vec();
            }
        }
        sorted(all.into_values().map(|(one, _)| one))
    }

    /// The same of some CPUs alone: who may use one of them, with what of its running may have been there. Who may use others as well had no
    /// more of these than those left who may not.
    pub fn among(&self, cpus: &[u32]) -> Vec<Competitor> {
        if cpus.is_empty() {
            return self.competitors.clone();
        }
        let is_bound =
            |allowed: &[u32]| !allowed.is_empty() && allowed.iter().all(|cpu| cpus.contains(cpu));
        let times = self.model.threads.times.iter().filter(|time| time.thread.pid != 0);
        let all = times.map(|time| (time, self.allowed(&time.thread)));
        let here: Vec<(&ThreadTime, bool)> = all
            .filter(|(_, allowed)| meet(cpus, allowed))
            .map(|(time, allowed)| (time, is_bound(allowed)))
            .collect();
        let (mut bound, mut free) = (0.0, 0.0);
        for (time, is_bound) in &here {
            let of = if *is_bound { &mut bound } else { &mut free };
            *of += self.sums(time).0;
        }
        let left = (cpus.len() as f64 * self.counted_seconds - bound).max(0.0);
        let part = if free > left { left / free } else { 1.0 };
        let jobs = self.competitors.iter().enumerate();
        let jobs: HashMap<u32, usize> =
            jobs.flat_map(|(at, one)| one.processes.keys().map(move |pid| (*pid, at))).collect();
        let mut all: BTreeMap<usize, Competitor> = BTreeMap::new();
        for (time, is_bound) in here {
            let Some(at) = jobs.get(&time.thread.pid) else { continue };
            let (kernel, places) = (self.competitors[*at].kernel, &self.competitors[*at].cpus);
            let of = all.entry(*at).or_insert_with(|| Competitor {
                kernel,
                cpus: places.clone(),
                ..Competitor::default()
            });
            let part = if is_bound { 1.0 } else { part };
            let (run, ready) = self.sums(time);
            of.add(self.model, time, run * part, ready * part);
        }
        sorted(all.into_values())
    }

    /// What a thread ran, and was ready to without being out of quota, seconds.
    fn sums(&self, time: &ThreadTime) -> (f64, f64) {
        let waited_ns = time.runnable_ns.saturating_sub(self.out_of_quota_ns(time));
        (time.run_ns as f64 / 1e9, waited_ns as f64 / 1e9)
    }

    /// Who had the CPUs while these processes waited for them, by the name of the program. Whoever may use none of the
    /// CPUs that they may use took nothing from them.
    pub fn instead_of(&self, victims: &BTreeSet<u32>) -> Instead {
        let cpus = self.cpus_of(victims);
        let count = match (cpus.len(), self.busy.len()) {
            (0, 0) => self.model.look.host.cpus as usize,
            (0, all) => all,
            (some, _) => some,
        };
        let capacity = count as f64 * self.counted_seconds;
        let cpus: Vec<u32> = cpus.into_iter().collect();
        let meets = |thread: &ThreadRef| meet(&cpus, self.allowed(thread));
        let mut all: BTreeMap<u32, OfProcess> = BTreeMap::new();
        for time in
            self.model.threads.times.iter().filter(|t| t.thread.pid != 0 && meets(&t.thread))
        {
            all.entry(time.thread.pid).or_default().add(time, self.out_of_quota_ns(time));
        }
        let is_victim = |pid: &u32| victims.contains(pid);
        Instead {
            others: self.programs(all.iter().filter(|(pid, _)| !is_victim(pid)), capacity),
            themselves: self.programs(all.iter().filter(|(pid, _)| is_victim(pid)), capacity),
            capacity,
        }
    }

    /// The CPUs that some processes may use; none: all.
    fn cpus_of(&self, pids: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut cpus = BTreeSet::new();
        for pid in pids {
            match self.model.threads.by_id.get(pid).map(|known| &known.cpus_allowed[..]) {
                None | Some([]) => return BTreeSet::new(),
                Some(allowed) => cpus.extend(allowed.iter().copied()),
            }
        }
        cpus
    }

    fn programs<'p>(
        &self,
        of: impl Iterator<Item = (&'p u32, &'p OfProcess)>,
        capacity: f64,
    ) -> Vec<Program> {
        let mut programs: BTreeMap<String, (Program, f64)> = BTreeMap::new();
        for (pid, process) in of.filter(|(_, process)| process.run + process.ready > 0.0) {
            let name = match self.model.threads.process_name(*pid) {
                none if none.is_empty() => process.comm.clone(),
                name => name,
            };
            let name = match name.split_once('/') {
                Some((kind, _)) if process.kernel => kind.to_string(),
                _ => name,
            };
            let (program, most) = programs.entry(name.clone()).or_insert_with(|| {
                let kernel = process.kernel;
                let none = (0.0, 0.0, 0.0, 0.0);
                let (at_a_time, run, ready, share) = none;
                let example = *pid;
                (Program { name, count: 0, at_a_time, example, run, ready, share, kernel }, 0.0)
            });
            program.count += 1;
            program.at_a_time += process.alive_ns as f64 / 1e9 / self.counted_seconds.max(1e-9);
            program.run += process.run;
            program.ready += process.ready;
            program.share += process.run / capacity.max(1e-9);
            if process.run > *most {
                *most = process.run;
                program.example = *pid;
            }
        }
        let mut programs: Vec<Program> = programs.into_values().map(|(one, _)| one).collect();
        programs.sort_by(|a, b| b.run.total_cmp(&a.run).then_with(|| a.name.cmp(&b.name)));
        programs
    }
}

/// A process's sums.
#[derive(Default)]
struct OfProcess {
    comm: String,
    run: f64,
    ready: f64,
    alive_ns: Ns,
    kernel: bool,
}

impl OfProcess {
    fn add(&mut self, time: &ThreadTime, out_of_quota_ns: Ns) {
        if self.comm.is_empty() {
            self.comm.clone_from(&time.thread.comm);
        }
        self.run += time.run_ns as f64 / 1e9;
        self.ready += time.runnable_ns.saturating_sub(out_of_quota_ns) as f64 / 1e9;
        self.alive_ns = self.alive_ns.max(time.until_ns.saturating_sub(time.since_ns));
        self.kernel |= time.kernel;
    }
}

/// Whether two lists of CPUs have one in common; an empty list is all.
pub fn meet(one: &[u32], other: &[u32]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|cpu| other.contains(cpu))
}

/// From the first to the last moment that any thread's sums are of; at least the window.
fn counted_seconds(model: &Model) -> f64 {
    let counted = || model.threads.times.iter().filter(|time| time.since_ns != 0);
    let since_ns = counted().map(|time| time.since_ns).min().unwrap_or(0);
    let until_ns = counted().map(|time| time.until_ns).max().unwrap_or(0);
    (until_ns.saturating_sub(since_ns) as f64 / 1e9).max(model.look.seconds())
}

/// Who ran most first, each with its fair part.
fn sorted(all: impl Iterator<Item = Competitor>) -> Vec<Competitor> {
    let mut all: Vec<Competitor> = all.collect();
    all.sort_by(|a, b| {
        b.run.total_cmp(&a.run).then_with(|| a.processes.keys().cmp(b.processes.keys()))
    });
    share_out(&mut all);
    all
}

/// Max-min fairness: what was used altogether, dealt out equally, nobody given more than he wanted.
fn share_out(all: &mut [Competitor]) {
    let mut left: f64 = all.iter().map(|one| one.run).sum();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let wanted = |one: &Competitor| one.run + one.ready;
    order.sort_by(|a, b| wanted(&all[*a]).total_cmp(&wanted(&all[*b])));
    for (done, at) in order.iter().enumerate() {
        let part = left / (order.len() - done) as f64;
        all[*at].fair = wanted(&all[*at]).min(part);
        left -= all[*at].fair;
    }
}

/// What makes processes one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Job {
    Group(u32, String),
    Process(u32),
}

/// A process that began within the window is a piece of what began it; one that stood before is one with its equals
/// in the same process group.
fn job(model: &Model, ancestry: &Ancestry, thread: &ThreadRef) -> Job {
    let pid = ancestry.eldest(thread.pid);
    match model.threads.by_id.get(&pid) {
        Some(known) if known.process_group != 0 => {
            Job::Group(known.process_group, known.thread.comm.clone())
        }
        _ => Job::Process(pid),
    }
}

/// Share of the window that a CPU did something, from /proc/stat.
fn busy(model: &Model) -> BTreeMap<u32, f64> {
    let mut busy = BTreeMap::new();
    for (cpu, series) in &model.cpu.times {
        let (Some((_, first)), Some((_, last))) = (series.first(), series.last()) else { continue };
        let used = |s: &CpuSample| s.user_ns + s.system_ns + s.irq_ns + s.softirq_ns + s.steal_ns;
        let idle = |s: &CpuSample| s.idle_ns + s.iowait_ns;
        let used = used(last).saturating_sub(used(first)) as f64;
        let idle = idle(last).saturating_sub(idle(first)) as f64;
        if used + idle > 0.0 {
            busy.insert(*cpu, used / (used + idle));
        }
    }
    busy
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::Measures;
    use crate::waits::timeline::Observed;

    /// One thread's sums over a window of five seconds.
    pub(crate) fn time(pid: u32, comm: &str, run: f64, ready: f64) -> Fact {
        let thread = ThreadRef { tid: pid, pid, start_ns: 0, comm: comm.into() };
        let time = ThreadTime {
            thread,
            until_ns: 5_000_000_000,
            run_ns: (run * 1e9) as u64,
            runnable_ns: (ready * 1e9) as u64,
            ..ThreadTime::default()
        };
        Fact { at_ns: 5_000_000_000, body: Body::ThreadTime(time) }
    }

    /// Two CPUs that were used for these shares of five seconds.
    pub(crate) fn cpus(used: [f64; 2]) -> Vec<Fact> {
        let mut facts = vec![
            Fact { at_ns: 0, body: Body::WindowBegin(WindowBegin { unix_ns: 0 }) },
            Fact { at_ns: 5_000_000_000, body: Body::WindowEnd(WindowEnd::default()) },
        ];
        for (cpu, share) in used.into_iter().enumerate() {
            let cpu = cpu as u32;
            let sample = |part: f64| CpuSample {
                cpu,
                user_ns: (part * share * 5e9) as u64,
                idle_ns: (part * (1.0 - share) * 5e9) as u64,
                ..CpuSample::default()
            };
            facts.push(Fact { at_ns: 0, body: Body::CpuSample(sample(0.0)) });
            facts.push(Fact { at_ns: 5_000_000_000, body: Body::CpuSample(sample(1.0)) });
        }
        facts
    }

    #[test]
    fn who_wants_little_is_given_it_and_the_rest_is_shared() {
        let model = Observed::new(vec![
            time(1, "little", 0.5, 0.5),
            time(2, "much", 6.0, 20.0),
            time(3, "more", 3.5, 20.0),
        ]);
        let all = Measures::of_observed(&model).cpu.competitors;
        let fair: Vec<f64> = all.iter().map(|one| one.fair).collect();
        assert_eq!(fair, [4.5, 4.5, 1.0]);
        assert_eq!(all[0].excess(), 1.5);
        assert_eq!(all[2].shortfall(), 0.5);
    }

    #[test]
    fn what_a_build_begins_is_part_of_it() {
        let fork = Fork {
            parent: ThreadRef { tid: 1, pid: 1, ..ThreadRef::default() },
            child: ThreadRef { tid: 9, pid: 9, ..ThreadRef::default() },
            flags: 0,
        };
        let model = Observed::new(vec![
            time(1, "make", 0.1, 0.0),
            Fact { at_ns: 7, body: Body::Fork(fork) },
            time(9, "cc1", 2.0, 2.0),
        ]);
        let measures = Measures::of_observed(&model);
        assert_eq!(measures.cpu.competitors.len(), 1);
        assert_eq!(measures.cpu.job(9).map(|job| job.processes.len()), Some(2));
    }

    #[test]
    fn a_crowd_that_had_the_cpus_is_one_program_with_its_count() {
        let mut facts = cpus([1.0, 1.0]);
        facts.extend((0..32).map(|n| time(100 + n, "sha256sum", 0.3, 4.7)));
        facts.extend([time(10, "web", 0.2, 4.0), time(5, "kworker/0:1", 0.1, 0.0)]);
        let model = Observed::new(facts);
        let users = Measures::of_observed(&model).cpu;
        let had = users.instead_of(&BTreeSet::from([10]));
        let many = &had.others[0];
        assert_eq!((many.name.as_str(), many.count, many.example), ("sha256sum", 32, 100));
        assert!((many.run - 9.6).abs() < 1e-6 && (many.share - 0.96).abs() < 1e-6, "{many:?}");
        assert!((many.at_a_time - 32.0).abs() < 1e-6);
        assert_eq!(had.themselves.len(), 1);
        let all = users.instead_of(&(100..132).chain([10]).collect());
        assert_eq!(all.themselves[0].name, "sha256sum");
    }

    #[test]
    fn who_may_not_use_the_victims_cpu_took_nothing_from_it() {
        let on = |pid, cpu| {
            let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
            let known = Thread { thread, cpus_allowed: vec![cpu], ..Thread::default() };
            Fact { at_ns: 0, body: Body::Thread(known) }
        };
        let mut facts = cpus([1.0, 1.0]);
        facts.extend([on(10, 0), on(20, 0), on(30, 1)]);
        facts.extend([time(10, "web", 1.0, 4.0), time(20, "near", 4.0, 1.0)]);
        facts.push(time(30, "far", 5.0, 0.0));
        let model = Observed::new(facts);
        let had = Measures::of_observed(&model).cpu.instead_of(&BTreeSet::from([10]));
        assert_eq!(had.others.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["near"]);
        assert!((had.others[0].share - 0.8).abs() < 1e-6, "of one CPU");
    }
    #[test]
    fn of_one_cpu_who_may_use_others_had_what_those_left_that_are_bound_to_it() {
        let on = |pid, cpu| {
            let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
            let known = Thread { thread, cpus_allowed: vec![cpu], ..Thread::default() };
            Fact { at_ns: 0, body: Body::Thread(known) }
        };
        let mut facts = cpus([1.0, 1.0]);
        facts.extend([on(10, 1), on(20, 1), on(30, 0)]);
        facts.extend([time(10, "one", 2.5, 2.5), time(20, "other", 2.4, 2.5)]);
        facts.extend([time(30, "far", 4.9, 0.0), time(40, "anywhere", 4.0, 4.0)]);
        let model = Observed::new(facts);
        let measures = Measures::of_observed(&model);
        let ran = |pid: u32| {
            let all = measures.cpu.among(&[1]);
            let one = all.into_iter().find(|one| one.processes.contains_key(&pid));
            one.map(|one| (one.run * 10.0).round() / 10.0)
        };
        assert_eq!((ran(10), ran(30), ran(40)), (Some(2.5), None, Some(0.1)));
    }

    #[test]
    fn what_was_counted_for_longer_than_the_window_is_of_that_time() {
        let mut counted = time(10, "hog", 10.0, 0.0);
        if let Body::ThreadTime(time) = &mut counted.body {
            (time.since_ns, time.until_ns) = (1, 6_000_000_001);
        }
        let mut facts = cpus([1.0, 1.0]);
        facts.push(counted);
        let model = Observed::new(facts);
        assert_eq!(Measures::of_observed(&model).cpu.counted_seconds, 6.0);
    }
}
