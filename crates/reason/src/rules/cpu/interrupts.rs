//! cpu.interrupts: threads lose the time of their CPUs to interrupts.
//!
//! Packets that come in are handled as soft interrupts on the CPU that their card, or a setting, chose. Most of it is done at
//! the end of the interrupt, in the time of whoever runs there, and counts as his running; what is left over goes to ksoftirqd,
//! which competes like a thread. The kernel's account of such time (/proc/stat) is one fact; that threads ran on these CPUs, or
//! waited while ksoftirqd did, is the other. Of what was done in others' time each has the part that he has of all time
//! there. An interrupt is nobody's will, so the interface that the packets come by is named, and not ksoftirqd.
//! Must not: claim the work itself, of which this is a part. Rejected: the busiest line of /proc/interrupts (what costs is what
//! follows the interrupt).

use super::cpu_waits::{Bound, bind, by_mask, claims, gathered, on_path, usable};
use super::interrupt_rate::{self, PACKETS_MAX, RATE_MIN, WAIT_US};
use crate::facts::Link;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::interrupts::{self, Interrupts, busiest_receiver};
use crate::model::kernel_threads::KernelThread;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, ActionKind, Question};
use crate::rules::engine::Loss;
use crate::rules::net::ways_out::sysfs_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// The soft interrupts that packets make.
const OF_PACKETS: [&str; 2] = ["NET_RX", "NET_TX"];
/// The device by which a host talks to itself.
const LOOPBACK: &str = "lo";
/// Kinds that are shown.
const KINDS_SHOWN_MAX: usize = 3;

static TAKEN_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "of the CPUs that the threads may use, what interrupts take; with less, a third more of them would hardly be felt",
    "chosen: a host that sends and receives at the full rate of a card is mostly below a tenth of all its CPUs",
);
static LOST_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "who loses less in a second does not feel it",
    "chosen: where a wait becomes a warning",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.interrupts",
    title: "Threads lose their CPUs to interrupts",
    theory: "What a card or a timer asks for is handled on the CPU that it interrupts, before any thread there. Packets \
             that come in are handled so, by one CPU for each receive queue: a card with one queue, or a veth whose sender is on one CPU, \
             keeps one CPU busy however many there are. What is too much at once goes to that CPU's ksoftirqd. Threads that may \
             use no other CPU, or find all of them taken, run slower than they seem to, or wait.",
    needs: &[
        "hard and soft interrupts take a quarter or more of the CPUs that the threads may use (/proc/stat)",
        "the threads ran on these CPUs, or waited for them while ksoftirqd ran",
    ],
    refuted_by: &[
        Refutation::new(
            "interrupts take little of these CPUs: somebody else has them",
            "a_cpu_that_another_program_has_is_not_taken_by_interrupts",
        ),
        Refutation::new(
            "the threads hardly run there",
            "who_hardly_runs_loses_nothing_by_interrupts",
        ),
    ],
    remedies: &[
        "spread the packets over more CPUs: more queues of the card (ethtool -L), RPS where it has one",
        "move the threads to CPUs that handle no interrupts",
        "fewer packets: larger ones, or stop who sends them for nothing",
        "fewer interrupts: let the adapter wait for more packets (ethtool -C)",
    ],
    stories: &["S1.6", "S1.7", "S2.5"],
    thresholds: &[&TAKEN_MIN, &LOST_PER_SECOND_MIN, &RATE_MIN, &PACKETS_MAX, &WAIT_US],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let wall = measures.wall_seconds();
    let all = by_mask(measures).into_iter().filter_map(|one| Taken::of(measures, one));
    let mut by_cause: BTreeMap<String, Vec<Taken<'_>>> = BTreeMap::new();
    for taken in all.filter(|taken| taken.is_enough(wall)) {
        by_cause.entry(culprit(measures, &taken).name).or_default().push(taken);
    }
    by_cause.into_values().filter_map(|taken| matched(measures, ends, taken)).collect()
}

/// Whether interrupts take so much of these CPUs that who waits for them waits because of it.
pub(super) fn take(measures: &Measures<'_>, cpus: &[u32]) -> bool {
    interrupts::share_of(&measures.taken.interrupts, cpus) >= TAKEN_MIN.value
}

/// The CPUs that threads may use, and what interrupts take of them.
struct Taken<'m> {
    of: Bound<'m>,
    cpus: Vec<u32>,
    share: f64,
    /// What the threads lost: waiting while ksoftirqd ran, and in what was handled while they ran, seconds.
    waited: f64,
    interrupted: f64,
    /// The one that is taken most.
    most: (u32, &'m Interrupts),
}

impl<'m> Taken<'m> {
    fn of(measures: &'m Measures<'m>, of: Bound<'m>) -> Option<Self> {
        let allowed = &of.identity.cpus_allowed;
        let may_use = |cpu: &u32| allowed.is_empty() || allowed.contains(cpu);
        let its = || measures.taken.interrupts.iter().filter(|(cpu, _)| may_use(cpu));
        let most = its().max_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
        // What a program sends to this host itself is received in its own time: that is its own work.
        if busiest_receiver(measures.model).is_some_and(|(link, _)| link.name == LOOPBACK) {
            return None;
        }
        let cpus: Vec<u32> = its().map(|(cpu, _)| *cpu).collect();
        let share = interrupts::share_of(&measures.taken.interrupts, &cpus);
        let seconds = measures.model.look.seconds() * cpus.len() as f64;
        let daemons = ksoftirqd_seconds(measures, &cpus);
        let inline = (share * seconds - daemons).max(0.0);
        // Interrupts hit whoever runs, or nobody: his part of them is his part of all time.
        let part = (of.run / (seconds - daemons).max(1e-9)).min(1.0);
        let (waited, interrupted) = (of.ready.min(daemons), inline * part);
        Some(Self { of, cpus, share, waited, interrupted, most: (*most.0, most.1) })
    }

    fn lost(&self) -> f64 {
        self.waited + self.interrupted
    }

    fn is_enough(&self, wall: f64) -> bool {
        self.share >= TAKEN_MIN.value && self.lost() >= LOST_PER_SECOND_MIN.value * wall
    }

    /// Whether they are hard ones mostly: what raised them has no name among the soft ones (a disk's completions).
    fn is_hard(&self) -> bool {
        self.most.1.soft_share < self.most.1.share / 2.0
    }

    /// Whether they are for packets.
    fn is_of_packets(&self) -> bool {
        let kind = self.most.1.kinds.first().filter(|_| !self.is_hard());
        kind.is_some_and(|(kind, _)| OF_PACKETS.contains(&kind.as_str()))
    }

    /// `250,000 NET_RX, 250 TIMER`.
    fn kinds(&self) -> String {
        let kinds = self.most.1.kinds.iter().filter(|(_, rate)| *rate >= 1.0).take(KINDS_SHOWN_MAX);
        let one = |(kind, rate): &(String, f64)| format!("{} {kind}", words::thousands(*rate));
        kinds.map(one).collect::<Vec<_>>().join(", ")
    }
}

/// All that one cause takes from, with the one that loses most as the example.
fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    all: Vec<Taken<'m>>,
) -> Option<Match<'m>> {
    // What they wait for a CPU is this rule's only if ksoftirqd is what they wait for.
    let waiting = all.iter().filter(|taken| taken.waited >= taken.of.ready / 2.0);
    let waiting: BTreeSet<u32> = waiting.map(|taken| taken.of.process.pid).collect();
    let claims = claims(measures, ends, &waiting, &[WaitClass::RunQueue]);
    let (losses, chief) = gathered(all, |taken| (&taken.of.process, taken.lost()))?;
    let (process, lost) = (chief.of.process.clone(), chief.lost());
    let object = Object::RunQueue(chief.cpus.clone());
    let path_seconds = measures.is_command().then(|| {
        let waits = on_path(measures, ends, &claims).unwrap_or(0.0);
        lost.min(measures.between_waits_on_path(process.pid) + waits)
    });
    let chain = Step {
        who: process,
        on: object.clone(),
        doing: None,
        seconds: lost,
        when: None,
        because: None,
    };
    let by = culprit(measures, &chief);
    Some(Match {
        object: Some(object),
        claims,
        path_seconds,
        losses: Some(losses),
        chain: Some(vec![chain]),
        ..Match::new(by, Proof::TwoWitnesses, move |loss| explain(measures, &chief, loss))
    })
}

/// What the kernel's threads for soft interrupts ran on these CPUs, seconds.
fn ksoftirqd_seconds(measures: &Measures<'_>, cpus: &[u32]) -> f64 {
    let is_theirs = |thread: &crate::facts::ThreadRef| match KernelThread::of(thread) {
        Some(KernelThread::SoftInterrupts(cpu)) => cpus.contains(&cpu),
        _ => false,
    };
    let its = measures.model.threads.times.iter().filter(|it| it.kernel && is_theirs(&it.thread));
    its.map(|it| it.run_ns).sum::<u64>() as f64 / 1e9
}

fn culprit(measures: &Measures<'_>, taken: &Taken<'_>) -> Culprit {
    match busiest_receiver(measures.model).filter(|_| taken.is_of_packets()) {
        Some((link, _)) => Culprit::device(link.name.clone()),
        None => {
            let first = taken.most.1.kinds.first().filter(|_| !taken.is_hard());
            let unnamed = if taken.is_hard() { "hard interrupts" } else { "interrupts" };
            let name = first.map_or(unnamed, |(kind, _)| kind.as_str()).to_string();
            Culprit { kind: CulpritKind::Kernel, name, ..Culprit::default() }
        }
    }
}

fn explain(measures: &Measures<'_>, taken: &Taken<'_>, loss: &Loss<'_>) -> Wording {
    let list = words::cpus(&taken.cpus);
    let (cpu, most) = taken.most;
    let by = busiest_receiver(measures.model).filter(|_| taken.is_of_packets());
    let what = if by.is_some() { "packets that come in" } else { "interrupts" };
    let mut text = format!(
        "Interrupts take {} of CPU {list}: of its threads' time {}, which mostly looks like running.",
        words::percent(taken.share),
        words::of_window(loss.seconds, loss.wall_seconds),
    );
    if !most.kinds.is_empty() {
        text.push_str(&format!(" CPU {cpu} handles {} a second.", taken.kinds()));
    }
    let mut evidence = vec![
        Evidence::new(
            "interrupts take of these CPUs",
            taken.share * 100.0,
            "%",
            "/proc/stat irq, softirq",
        ),
        Evidence::new(
            "handled while its threads ran",
            taken.interrupted,
            "s",
            "/proc/stat, sched_switch",
        ),
        Evidence::new("its threads waited while ksoftirqd ran", taken.waited, "s", "sched_switch"),
        Evidence::new("its threads ran", taken.of.run, "s", "sched_switch"),
    ];
    for (kind, rate) in most.kinds.iter().take(KINDS_SHOWN_MAX) {
        evidence.push(Evidence::new(
            format!("{kind} on CPU {cpu}"),
            *rate,
            "1/s",
            "/proc/softirqs",
        ));
    }
    if let Some((link, packets)) = by {
        text.push_str(&format!(
            " Most packets come by {}: {} a second.",
            link.name,
            words::thousands(packets)
        ));
        evidence.push(Evidence::new(
            format!("packets received by {}", link.name),
            packets,
            "1/s",
            "IFLA_STATS64",
        ));
    }
    let mut wording = Wording {
        title: format!(
            "{} loses {} of CPU {list} to {what}",
            loss.victim,
            words::percent(taken.share)
        ),
        text,
        evidence,
        remedy: remedies(measures, taken, by.map(|(link, _)| link)),
    };
    if let Some((link, _)) = by {
        interrupt_rate::add(measures, link, cpu, &mut wording);
    }
    wording
}

/// Away from these CPUs, if there are others with less of it; and spreading the packets.
fn remedies(measures: &Measures<'_>, taken: &Taken<'_>, by: Option<&Link>) -> Vec<Remedy> {
    let is_free =
        |cpu: &u32| measures.taken.interrupts.get(cpu).is_some_and(|it| it.share < TAKEN_MIN.value);
    let others = usable(measures, &taken.of.process, |_| true);
    let free: Vec<u32> = others.into_iter().filter(is_free).collect();
    let mut remedies = Vec::new();
    let bound = &taken.of.identity.cpus_allowed;
    if !free.is_empty() && !bound.is_empty() && !free.iter().any(|cpu| bound.contains(cpu)) {
        let (to, back) = (words::cpus(&free), words::cpus(bound));
        let text = format!("let it use CPU {to}, which handles few interrupts");
        remedies.push(Remedy::to(text).set(
            Action::set(ActionKind::Affinity, &taken.of.process, &to, &back),
            bind(measures, &taken.of, &to),
            bind(measures, &taken.of, &back),
        ));
    }
    if let Some(link) = by {
        let queues = words::shell(&format!("/sys/class/net/{}/queues", link.name));
        let within =
            sysfs_in(measures.model, link.netns, &format!("grep . {queues}/rx-*/rps_cpus"));
        remedies.push(Remedy {
            text: "spread the packets over more CPUs: see how many queues there are, and which CPUs they use".into(),
            command: within.to_string(),
            action: Some(Action::look(Question::State).through(within.through.as_ref())),
            ..Remedy::default()
        });
    }
    remedies
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_users::tests::time;
    use crate::rules::scenes::*;

    /// A program, 10, that may use CPU 1 alone, of which soft interrupts take so much; it runs for so long, and CPU 0 is free.
    fn found(softirq_share: f64, run: f64) -> Vec<Finding> {
        found_of([softirq_share, 0.0], run)
    }

    /// The same of soft and of hard interrupts.
    fn found_of(shares: [f64; 2], run: f64) -> Vec<Finding> {
        found_at(shares, run, 0, Coalescing::default())
    }

    /// The same with so many interrupts of eth0, on CPU 1, and its setting.
    fn found_at(
        [softirq_share, irq_share]: [f64; 2],
        run: f64,
        interrupts: u64,
        coalescing: Coalescing,
    ) -> Vec<Finding> {
        let mut facts = host();
        let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
        let rest = 1.0 - softirq_share - irq_share;
        for (cpu, softirq, irq, user) in [(0, 0.0, 0.0, 0.0), (1, softirq_share, irq_share, rest)] {
            for (at_ns, part) in [(0, 0.0), (LOOK_NS, LOOK_NS as f64)] {
                let sample = CpuSample {
                    cpu,
                    user_ns: (part * user) as u64,
                    softirq_ns: (part * softirq) as u64,
                    irq_ns: (part * irq) as u64,
                    idle_ns: (part * (1.0 - user - softirq - irq)) as u64,
                    ..CpuSample::default()
                };
                put(at_ns, Body::CpuSample(sample));
                let counts = [("NET_RX", part * 2e-4), ("TIMER", part * 2.5e-7)];
                let counts =
                    counts.map(|(kind, count)| (kind.to_string(), count as u64 * u64::from(cpu)));
                let of_adapter = if (cpu, at_ns) == (1, LOOK_NS) { 9 + interrupts } else { 9 };
                let sample = SoftirqSample {
                    cpu,
                    counts: counts.into_iter().collect(),
                    adapters: [("eth0".to_string(), of_adapter)].into(),
                    ..SoftirqSample::default()
                };
                put(at_ns, Body::SoftirqSample(sample));
            }
        }
        for (at_ns, packets) in [(0, 7), (LOOK_NS, 1_000_007)] {
            let counters = [("rx_packets".to_string(), packets)].into_iter().collect();
            let link = Link { index: 3, name: "eth0".into(), counters, ..Link::default() };
            put(at_ns, Body::Link(link));
        }
        let settings = LinkSettings {
            index: 3,
            interface: "eth0".into(),
            coalescing: Some(coalescing),
            ..LinkSettings::default()
        };
        put(LOOK_NS, Body::LinkSettings(settings));
        facts.push(time(10, "encoder", run, 0.0));
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
        facts.push(identity(Thread { thread, cpus_allowed: vec![1], ..Thread::default() }));
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.interrupts");
        found
    }

    #[test]
    fn what_hard_interrupts_take_is_not_of_packets() {
        let by = |shares| found_of(shares, 4.0).remove(0).culprit.name;
        assert_eq!(by([0.6, 0.0]), "eth0");
        assert_eq!(by([0.1, 0.5]), "hard interrupts");
    }

    #[test]
    fn a_cpu_that_handles_packets_is_named_with_their_interface() {
        let found = found(0.6, 4.9);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].title, "encoder loses 60 % of CPU 1 to packets that come in");
        assert_eq!(found[0].culprit.name, "eth0");
        assert!(
            found[0]
                .text
                .contains("Interrupts take 60 % of CPU 1: of its threads' time 2.94 s of 5 s"),
            "{}",
            found[0].text
        );
        assert!(found[0].text.contains("eth0: 200,000 a second"), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "taskset -a -c -p 0 10");
        assert_eq!(found[0].remedy[0].undo, "taskset -a -c -p 1 10");
    }

    #[test]
    fn a_cpu_that_another_program_has_is_not_taken_by_interrupts() {
        assert_eq!(found(0.2, 4.9), []);
    }

    #[test]
    fn who_hardly_runs_loses_nothing_by_interrupts() {
        assert_eq!(found(0.6, 0.2), []);
    }

    /// Of an adapter with a million packets: what is said of so many interrupts, and the first command.
    fn said_of(interrupts: u64, rx_us: u32, adaptive: bool) -> (bool, String) {
        let rx_us = Some(rx_us);
        let coalescing = Coalescing { rx_us, adaptive_rx: Some(adaptive), ..Coalescing::default() };
        let found = found_at([0.6, 0.0], 4.9, interrupts, coalescing).remove(0);
        (found.text.contains("interrupts CPU 1"), found.remedy[0].command.clone())
    }

    #[test]
    fn an_adapter_that_interrupts_for_each_packet_is_to_wait_for_more_and_back() {
        let coalescing = Coalescing { rx_us: Some(3), ..Coalescing::default() };
        let found = found_at([0.6, 0.0], 4.9, 800_000, coalescing).remove(0);
        let said = "eth0 interrupts CPU 1 160,000 times a second, with 1.2 packets each.";
        assert!(found.text.ends_with(said), "{}", found.text);
        assert_eq!(found.remedy[0].command, "ethtool -C eth0 rx-usecs 125");
        assert_eq!(found.remedy[0].undo, "ethtool -C eth0 rx-usecs 3");
        assert!(found.evidence.iter().any(|it| it.unit == "us" && it.value == 3.0));
    }

    #[test]
    fn an_adapter_of_many_packets_an_interrupt_or_few_interrupts_is_left_as_it_is() {
        assert_eq!(said_of(100_000, 3, false), (false, "taskset -a -c -p 0 10".into()));
        assert_eq!(said_of(40_000, 3, false), (false, "taskset -a -c -p 0 10".into()));
    }

    #[test]
    fn an_adapter_that_waits_already_or_adapts_by_itself_is_not_set() {
        assert_eq!(said_of(800_000, 125, false), (true, "taskset -a -c -p 0 10".into()));
        assert_eq!(said_of(800_000, 3, true), (true, "taskset -a -c -p 0 10".into()));
    }
}
