//! cpu.kernel_work_on_isolated: a thread has a CPU of its own, and the kernel interrupts it there all the same.
//!
//! Who isolates a CPU wants nothing on it but his thread. What still comes is the tick, counted by the CPU's own timer
//! (/proc/interrupts), and the kernel's threads for that CPU, of which the scheduler has sums. Both are small, so this is a note
//! with the figures. Must not: count holdup's own samples (the probe takes none on CPUs without a tick), or take other programs
//! that may run there for the kernel (they are named as what keeps the tick). Rejected: the trace of each timer, which would be
//! the loudest thing on a quiet CPU.

use super::cpu_waits::{Bound, by_mask, is_isolated};
use crate::facts::Ns;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::cmp::Reverse;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.kernel_work_on_isolated",
    title: "The kernel interrupts a thread on an isolated CPU",
    theory: "isolcpus keeps other programs off a CPU, not the kernel: each tick (CONFIG_HZ times a second) takes some microseconds and the \
             caches that go with them, until nohz_full stops it, and that only while one thread alone is ready there. Work that is bound to \
             a CPU (vmstat, writeback, RCU callbacks) is done there by the kernel's own threads, unless it may be done elsewhere.",
    needs: &[
        "a thread may use isolated CPUs only, and runs there",
        "the CPU's own timer interrupts it ten times a second or more, or kernel threads of that CPU ran there",
    ],
    refuted_by: &[
        Refutation::new(
            "the CPU is not isolated",
            "a_thread_that_is_pinned_elsewhere_is_not_meant",
        ),
        Refutation::new(
            "the tick is off, and no kernel thread ran",
            "a_quiet_isolated_cpu_is_nothing",
        ),
    ],
    remedies: &[
        "let the tick stop there: nohz_full and rcu_nocbs for these CPUs at boot, and one thread for each",
        "let unbound kernel work run elsewhere (/sys/devices/virtual/workqueue/cpumask), and vmstat more seldom (vm.stat_interval)",
    ],
    stories: &["S1.6", "S1.7"],
    thresholds: &[&RUN_MIN, &TICKS_MIN, &KERNEL_MIN],
    finds: Finds::Look(find),
};

static RUN_MIN: Threshold = Threshold::new(
    0.05,
    "1",
    "part of the look that the thread runs; who runs less has no CPU of its own",
    "chosen",
);
static TICKS_MIN: Threshold = Threshold::new(
    10.0,
    "1/s",
    "interrupts of a CPU's own timer; a CPU whose tick is off still has some",
    "story S1.6: 4 a second on an isolated CPU, 1,000 on others at CONFIG_HZ=1000; the least CONFIG_HZ is 100",
);
static KERNEL_MIN: Threshold = Threshold::new(
    0.0001,
    "1",
    "part of the look that the kernel's threads of these CPUs run there",
    "chosen: one wake-up of a worker a second is 20 us",
);

/// Kernel threads that are listed.
const LISTED_MAX: usize = 3;

/// A thread with CPUs of its own, and what the kernel does there.
struct Disturbed<'m> {
    of: Bound<'m>,
    cpus: Vec<u32>,
    /// Of the CPU that has most, a second.
    ticks: Option<f64>,
    /// Kernel threads of these CPUs with what they ran, most first.
    kernel: Vec<(String, u32, Ns)>,
    /// Another program that ran and may use these CPUs.
    neighbour: Option<String>,
    is_tickless: bool,
}

fn find<'m>(measures: &'m Measures<'m>, _ends: &'m [End]) -> Vec<Match<'m>> {
    let disturbed = by_mask(measures).into_iter().filter_map(|one| Disturbed::of(measures, one));
    disturbed.map(|one| matched(measures, one)).collect()
}

impl<'m> Disturbed<'m> {
    fn of(measures: &'m Measures<'m>, of: Bound<'m>) -> Option<Self> {
        let model = measures.model;
        let cpus = of.identity.cpus_allowed.clone();
        let is_isolated = |cpu: &u32| is_isolated(model, *cpu);
        let wall = measures.wall_seconds().max(1e-9);
        if cpus.is_empty() || !cpus.iter().all(is_isolated) || of.run < RUN_MIN.value * wall {
            return None;
        }
        let ticks = cpus.iter().filter_map(|cpu| {
            let series = model.cpu.softirqs.get(cpu)?;
            let (first, last) = (series.first()?.local_timer?, series.last()?.local_timer?);
            Some(last.saturating_sub(first) as f64 / wall)
        });
        let ticks = ticks.max_by(f64::total_cmp);
        let kernel_threads =
            model.threads.times.iter().filter(|time| time.kernel && time.run_ns > 0);
        let its = kernel_threads
            .filter(|time| bound_to(&time.thread.comm).is_some_and(|cpu| cpus.contains(&cpu)));
        let mut kernel: Vec<(String, u32, Ns)> =
            its.map(|time| (time.thread.comm.clone(), time.thread.tid, time.run_ns)).collect();
        kernel.sort_by_key(|(_, tid, run_ns)| (Reverse(*run_ns), *tid));
        let ran: Ns = kernel.iter().map(|(_, _, run_ns)| run_ns).sum();
        let is_disturbed = ticks.is_some_and(|ticks| ticks >= TICKS_MIN.value)
            || ran as f64 / 1e9 >= KERNEL_MIN.value * wall;
        let others = model.threads.times.iter().filter(|time| {
            let identity = model.threads.identity(&time.thread);
            let may_use =
                |cpu: &u32| identity.is_some_and(|known| known.cpus_allowed.contains(cpu));
            !time.kernel
                && time.run_ns > 0
                && time.thread.pid != of.process.pid
                && cpus.iter().any(may_use)
                && identity.is_some_and(|known| known.cpus_allowed.iter().all(is_isolated))
        });
        let neighbour = others
            .max_by_key(|time| time.run_ns)
            .map(|time| measures.model.threads.who(&time.thread));
        let is_tickless = cpus.iter().all(|cpu| model.look.host.tickless_cpus.contains(cpu));
        is_disturbed.then_some(Self { of, cpus, ticks, kernel, neighbour, is_tickless })
    }

    /// Why the tick goes on.
    fn reason(&self) -> String {
        match (&self.neighbour, self.is_tickless) {
            (_, false) => {
                "the tick is never off there, as no nohz_full was given for it at boot".into()
            }
            (Some(other), true) => format!(
                "the tick is off only while one thread is ready, and {other} runs there too"
            ),
            (None, true) => {
                "something keeps the tick: a second thread, a CPU timer, a perf event, or RCU"
                    .into()
            }
        }
    }

    fn explain(&self, wall: f64) -> Wording {
        let who = words::who(&self.of.process);
        let list = words::cpus(&self.cpus);
        let ran: Ns = self.kernel.iter().map(|(_, _, run_ns)| run_ns).sum();
        let ticks = self.ticks.unwrap_or(0.0);
        let by_tick = ticks >= TICKS_MIN.value;
        let title = match by_tick {
            true => format!(
                "{who} is interrupted {} times a second on CPU {list}, which is isolated",
                words::rate(ticks)
            ),
            false => format!("kernel threads run on CPU {list}, which is isolated for {who}"),
        };
        let mut sentences = Vec::new();
        if by_tick {
            sentences.push(format!(
                "Its own timer interrupts that CPU {} times a second: {}.",
                words::rate(ticks),
                self.reason()
            ));
        }
        if ran > 0 {
            let listed = self.kernel.iter().take(LISTED_MAX);
            let listed: Vec<String> = listed
                .map(|(name, _, run_ns)| format!("{name} {}", words::seconds(*run_ns as f64 / 1e9)))
                .collect();
            sentences.push(format!(
                "Kernel threads of that CPU ran for {}: {}.",
                words::of_window(ran as f64 / 1e9, wall),
                listed.join(", ")
            ));
        }
        Wording {
            title,
            text: sentences.join(" "),
            evidence: self.evidence(ran),
            remedy: self.remedies(&list, by_tick),
        }
    }

    fn evidence(&self, ran: Ns) -> Vec<Evidence> {
        let ticks = self.ticks.map(|ticks| {
            Evidence::new("interrupts of the CPU's own timer", ticks, "1/s", "/proc/interrupts LOC")
        });
        let ran =
            Evidence::new("kernel threads of that CPU ran", ran as f64 / 1e9, "s", "sched_switch");
        ticks.into_iter().chain([ran]).collect()
    }

    fn remedies(&self, list: &str, by_tick: bool) -> Vec<Remedy> {
        let mut all = Vec::new();
        if by_tick && !self.is_tickless {
            let text =
                format!("boot with nohz_full={list} rcu_nocbs={list} beside isolcpus={list}");
            all.push(Remedy { text, ..Remedy::default() });
        }
        if !self.kernel.is_empty() {
            let files: Vec<String> = self
                .kernel
                .iter()
                .take(LISTED_MAX)
                .map(|(_, tid, _)| format!("/proc/{tid}/comm"))
                .collect();
            all.push(Remedy {
                text: "see for which queues its workers work, and where unbound work may run; keep that off the CPU".into(),
                command: format!("head {} /sys/devices/virtual/workqueue/cpumask", files.join(" ")),
                ..Remedy::default()
            });
        }
        all
    }
}

/// The CPU that a kernel thread is of, as the kernel names them: `kworker/3:1H`, `ksoftirqd/3`; none of `kworker/u8:2`.
fn bound_to(comm: &str) -> Option<u32> {
    let (_, of) = comm.split_once('/')?;
    of.split(':').next()?.parse().ok()
}

fn matched<'m>(measures: &'m Measures<'m>, disturbed: Disturbed<'m>) -> Match<'m> {
    let process = disturbed.of.process.clone();
    let object = Object::RunQueue(disturbed.cpus.clone());
    let lost = disturbed.of.ready;
    let by_tick = disturbed.ticks.is_some_and(|ticks| ticks >= TICKS_MIN.value);
    let first = disturbed.kernel.first().filter(|_| !by_tick).map(|(name, _, _)| name.clone());
    let name = first.unwrap_or_else(|| "tick".into());
    let by = Culprit { kind: CulpritKind::Kernel, name, ..Culprit::default() };
    let wall = measures.wall_seconds().max(1e-9);
    Match {
        object: Some(object),
        losses: Some(Losses::from([(process.pid, (process, lost))])),
        path_seconds: Some(lost),
        // What interrupts it is no wait.
        chain: Some(Vec::new()),
        severity_max: Severity::Note,
        ..Match::new(by, Proof::Read, move |_| disturbed.explain(wall))
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};

    /// A trader on CPU 1, which is isolated or not; so many interrupts of its timer in 5 s; and the kernel's threads.
    fn found(host: Host, ticks: u64, more: Vec<Fact>) -> Vec<Finding> {
        let mut facts = cpus([0.1, 1.0]);
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "trader".into() };
        let known = Thread { thread, cpus_allowed: vec![1], ..Thread::default() };
        facts.extend([Body::Host(host), Body::Thread(known)].map(|body| Fact { at_ns: 0, body }));
        for (at_ns, timer) in [(0, 1_000), (5_000_000_000, 1_000 + ticks)] {
            let sample =
                SoftirqSample { cpu: 1, local_timer: Some(timer), ..SoftirqSample::default() };
            facts.push(Fact { at_ns, body: Body::SoftirqSample(sample) });
        }
        facts.push(time(10, "trader", 4.9, 0.001));
        facts.extend(more);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.kernel_work_on_isolated");
        found
    }

    fn host(isolated: &[u32], tickless: &[u32]) -> Host {
        Host {
            isolated_cpus: isolated.to_vec(),
            tickless_cpus: tickless.to_vec(),
            ..Host::default()
        }
    }

    fn kernel(comm: &str, run: f64) -> Fact {
        let mut fact = time(40, comm, run, 0.0);
        if let Body::ThreadTime(time) = &mut fact.body {
            time.kernel = true;
        }
        fact
    }

    #[test]
    fn the_tick_on_an_isolated_cpu_is_named_with_why_it_goes_on() {
        let found = found(host(&[1], &[]), 1_250, vec![]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note));
        assert_eq!(
            found[0].title,
            "trader 10 is interrupted 250 times a second on CPU 1, which is isolated"
        );
        assert!(found[0].text.contains("no nohz_full was given"), "{}", found[0].text);
        assert!(found[0].remedy[0].text.contains("nohz_full=1 rcu_nocbs=1"));
    }

    #[test]
    fn a_worker_of_that_cpu_is_named_and_one_of_another_is_not() {
        let of = |comm| found(host(&[1], &[1]), 5, vec![kernel(comm, 0.01)]);
        assert_eq!(of("kworker/1:2")[0].culprit.name, "kworker/1:2");
        assert_eq!((of("kworker/0:2"), of("kworker/u8:1")), (vec![], vec![]));
    }

    #[test]
    fn a_thread_that_is_pinned_elsewhere_is_not_meant() {
        assert_eq!(found(host(&[], &[]), 1_250, vec![]), []);
        assert_eq!(found(host(&[2], &[]), 1_250, vec![]), []);
    }

    #[test]
    fn a_quiet_isolated_cpu_is_nothing() {
        assert_eq!(found(host(&[1], &[1]), 20, vec![]), []);
    }
}
