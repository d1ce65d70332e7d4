//! What the waits of a process were for that came too fast to be reported one by one.
//!
//! How long each thread slept is known from its sums, and so is how much of that was uninterruptible. Where not all waits
//! were reported (WindowEnd::traced_threshold_ns), those that were, now and then all of a tenth of a second, are a sample of the
//! rest: each short one stands for as much of the time that is left as its length is of the sample. Apart for the two kinds
//! of sleep, and for each thread. Only of a process that was asked about: of a host's threads the sample has the longest only.
//! Without kernel events a wait for a CPU is hardly ever sampled: how long the process was ready is known by its sums, and from a part of the
//! look on that is an end (ends.rs). Must not: guess from fewer than a few.
//!
//! Rejected: to leave that time out (a program that waits 80 % of its time, a third of a millisecond each, was said to work).
//!
//! Edit together: the probe's wait_threshold.rs, which decides what is reported; unseen.rs, which does the same for a command.

use crate::facts::{Ns, TargetKind, ThreadTime, WaitState};
use crate::model::{Model, ThreadKey};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{Timelines, WaitSpan};
use std::collections::HashMap;

/// Fewer waits are no sample.
static SAMPLE_MIN: Threshold = Threshold::new(
    10.0,
    "1",
    "short waits that were reported of a thread: fewer are no sample of the others",
    "chosen: of ten the share of a kind is known to a third",
);
/// A wait of so many times the threshold is none of the short ones.
static SHORT_TIMES: Threshold = Threshold::new(
    4.0,
    "1",
    "times the threshold that a short wait takes at most: a longer one was reported whatever it was for",
    "chosen: what is just above the threshold is like what is just below",
);
/// What is left of a thread's sleep is worth dividing from this part of it on.
static LEFT_MIN: Threshold = Threshold::new(
    0.02,
    "1",
    "part of a thread's sleep that no wait explains: less is what sums and events differ by",
    "chosen",
);
/// Ready time of a process that is worth an end of its own.
static READY_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "part of the look in which a process was ready by its sums alone: with less it is short of no CPU",
    "chosen",
);

/// For how much time each short wait stands.
#[derive(Default)]
pub(super) struct ShortWaits {
    /// By thread, and whether the sleep is uninterruptible.
    weights: HashMap<(ThreadKey, bool), f64>,
    short_ns: Ns,
}

/// The reported waits of a thread, of one kind of sleep.
#[derive(Default)]
pub(super) struct Reported<'t> {
    all_ns: Ns,
    short_ns: Ns,
    /// The short ones: a sample of those that were not reported.
    pub short: Vec<&'t WaitSpan>,
}

/// Of the interruptible and of the uninterruptible kind, each with what a thread slept beyond what was reported.
pub(super) fn reported<'t>(
    timelines: &'t Timelines,
    who: ThreadKey,
    time: &ThreadTime,
    short_ns: Ns,
) -> [(Reported<'t>, Ns); 2] {
    let mut reported = [Reported::default(), Reported::default()];
    for wait in timelines.of(who) {
        if is_for_cpu(wait) {
            continue;
        }
        let ns = wait.within_ns(time.since_ns, time.until_ns);
        let of = &mut reported[usize::from(is_uninterruptible(wait))];
        of.all_ns += ns;
        if is_short(wait, short_ns) {
            of.short_ns += ns;
            of.short.push(wait);
        }
    }
    let [sleep, disk_sleep] = reported;
    let left = |slept_ns: Ns, of: &Reported<'_>| slept_ns.saturating_sub(of.all_ns);
    let left_ns = [left(time.sleep_ns, &sleep), left(time.disk_sleep_ns, &disk_sleep)];
    [(sleep, left_ns[0]), (disk_sleep, left_ns[1])]
}

impl Reported<'_> {
    /// Whether the short ones are enough to stand for others.
    pub(super) fn is_sample(&self) -> bool {
        self.short.len() >= SAMPLE_MIN.count()
    }
}

/// The longest wait that is short, where not all were reported; none where they were.
pub(super) fn short_ns_max(model: &Model) -> Option<Ns> {
    let threshold_ns = model.look.window_end.traced_threshold_ns;
    (threshold_ns > 0).then_some(threshold_ns * SHORT_TIMES.whole())
}

impl ShortWaits {
    pub(super) fn of(model: &Model, timelines: &Timelines) -> Self {
        let is_process =
            model.look.target.as_ref().is_some_and(|it| it.kind == TargetKind::Process);
        let Some(short_ns) = short_ns_max(model).filter(|_| is_process) else {
            return Self::default();
        };
        let mut weights = HashMap::new();
        for time in
            model.threads.times.iter().filter(|time| !time.kernel && model.in_target(&time.thread))
        {
            let who = model.threads.key_at(&time.thread, time.until_ns);
            for (at, (of, left_ns)) in
                reported(timelines, who, time, short_ns).into_iter().enumerate()
            {
                let slept_ns = of.all_ns + left_ns;
                if of.is_sample() && left_ns as f64 >= LEFT_MIN.value * slept_ns as f64 {
                    let weight = 1.0 + left_ns as f64 / of.short_ns.max(1) as f64;
                    weights.insert((who, at == 1), weight);
                }
            }
        }
        Self { weights, short_ns }
    }

    /// 1 of a wait that stands for itself alone.
    pub(super) fn weight(&self, model: &Model, wait: &WaitSpan) -> f64 {
        // Of the waits for a CPU none was left out.
        if self.weights.is_empty() || is_for_cpu(wait) || !is_short(wait, self.short_ns) {
            return 1.0;
        }
        let key = (model.threads.key(&wait.thread), is_uninterruptible(wait));
        self.weights.get(&key).copied().unwrap_or(1.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }
}

/// Time of the threads that were asked about which no wait explains, seconds: too short to be reported, and of a kind of which there is no
/// sample. Nobody knows whether it was idle.
pub(crate) fn unexplained_seconds(model: &Model, timelines: &Timelines) -> f64 {
    let is_process = model.look.target.as_ref().is_some_and(|it| it.kind == TargetKind::Process);
    let short_ns = short_ns_max(model).filter(|_| is_process);
    let is_ready_an_end = ready_by_sums(model, timelines).is_some();
    let own = |time: &&ThreadTime| !time.kernel && model.in_target(&time.thread);
    let of_thread = |time: &ThreadTime| {
        let who = model.threads.key_at(&time.thread, time.until_ns);
        let asleep = reported(timelines, who, time, short_ns.unwrap_or(0));
        let unknown = asleep.iter().filter(|(of, _)| short_ns.is_none() || !of.is_sample());
        let ready_ns = match is_ready_an_end {
            true => 0,
            false => unreported_ready_ns(model, timelines, time),
        };
        unknown.map(|(_, left_ns)| left_ns).sum::<Ns>() + ready_ns
    };
    model.threads.times.iter().filter(own).map(of_thread).sum::<Ns>() as f64 / 1e9
}

/// How long the process that was asked about was ready by its sums, beyond the waits for a CPU that were reported, if that is worth an end. Without
/// kernel events waits are sampled, and hardly ever one for a CPU.
pub(super) fn ready_by_sums(model: &Model, timelines: &Timelines) -> Option<Ns> {
    let is_process = model.look.target.as_ref().is_some_and(|it| it.kind == TargetKind::Process);
    if !is_process || model.look.host.kernel_events {
        return None;
    }
    let own = model.threads.times.iter().filter(|it| !it.kernel && model.in_target(&it.thread));
    let ns: Ns = own.map(|time| unreported_ready_ns(model, timelines, time)).sum();
    (ns as f64 / 1e9 >= READY_MIN.value * model.look.seconds()).then_some(ns)
}

/// How long a thread was ready by its sums, beyond the waits for a CPU that were reported.
fn unreported_ready_ns(model: &Model, timelines: &Timelines, time: &ThreadTime) -> Ns {
    let who = model.threads.key_at(&time.thread, time.until_ns);
    let reported = timelines.of(who).iter().filter(|wait| is_for_cpu(wait));
    let ready_ns: Ns = reported.map(|wait| wait.within_ns(time.since_ns, time.until_ns)).sum();
    time.runnable_ns.saturating_sub(ready_ns)
}

fn is_for_cpu(wait: &WaitSpan) -> bool {
    matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota)
}

fn is_uninterruptible(wait: &WaitSpan) -> bool {
    wait.place.state == WaitState::DiskSleep
}

fn is_short(wait: &WaitSpan, short_ns: Ns) -> bool {
    !wait.standing && wait.end_ns.saturating_sub(wait.begin_ns) <= short_ns
}

#[cfg(test)]
pub(super) mod tests {
    use crate::answer::{EndKind, Report, Verdict, explain};
    use crate::facts::*;
    use crate::graph::short_waits::ShortWaits;
    use crate::rules::scenes::*;
    use crate::waits::WaitClass;
    use crate::waits::timeline::{Observed, WaitSpan};

    fn syncing(reported: u64, traced_threshold_ns: Ns) -> Report {
        explain(syncing_as(TargetKind::Process, reported, traced_threshold_ns))
    }

    /// A process, or a command, that sleeps uninterruptibly in fdatasync, half a millisecond each: so many of these waits were
    /// reported.
    pub(in crate::graph) fn syncing_as(
        kind: TargetKind,
        reported: u64,
        traced_threshold_ns: Ns,
    ) -> Vec<Fact> {
        let slept_ns = LOOK_NS / 5 * 4;
        let mut facts = host();
        facts.retain(|fact| !matches!(fact.body, Body::WindowEnd(_)));
        let name = "sqlite3".to_string();
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        for n in 0..reported {
            let begin_ns = 10_000_000 + n * 1_000_000;
            let place = Place {
                state: WaitState::DiskSleep,
                iowait: true,
                syscall: "fdatasync".into(),
                disk: Some(DeviceNumber { major: 8, minor: 0 }),
                ..Place::default()
            };
            let (thread, end_ns) = (thread(10, "sqlite3"), begin_ns + 500_000);
            let (at_ns, context) = (end_ns, WakeContext::HardInterrupt);
            let wake = Some(Wake { at_ns, context, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            facts.push(fact(Body::Wait(wait)));
        }
        facts.push(fact(Body::ThreadTime(ThreadTime {
            thread: thread(10, "sqlite3"),
            until_ns: LOOK_NS,
            run_ns: LOOK_NS - slept_ns,
            disk_sleep_ns: slept_ns,
            ..ThreadTime::default()
        })));
        let end =
            WindowEnd { traced_threshold_ns, threshold_ns: 1_000_000, ..WindowEnd::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::WindowEnd(end) });
        facts
    }

    pub(in crate::graph) fn device_share(report: &Report) -> f64 {
        let disk = report.answer.ends.iter().filter(|end| end.end == EndKind::Device);
        disk.map(|end| end.share).sum()
    }

    #[test]
    fn waits_that_were_reported_stand_for_those_that_were_not() {
        let report = syncing(100, 1_000_000);
        assert_eq!(report.answer.verdict, Verdict::Waits, "{:?}", report.answer);
        assert!((device_share(&report) - 0.8).abs() < 0.01, "{:?}", report.answer.ends);
    }

    #[test]
    fn where_all_were_reported_each_stands_for_itself() {
        assert!(device_share(&syncing(100, 0)) < 0.1);
    }

    #[test]
    fn a_few_are_no_sample() {
        assert!(device_share(&syncing(9, 1_000_000)) < 0.1);
    }

    #[test]
    fn a_wait_for_a_cpu_stands_for_itself_alone() {
        let mut facts = syncing_as(TargetKind::Process, 100, 1_000_000);
        let place = Place { state: WaitState::Runnable, ..Place::default() };
        let (begin_ns, end_ns) = (LOOK_NS - 3_000_000, LOOK_NS - 1_000_000);
        let thread = thread(10, "sqlite3");
        let wait = Wait { thread, begin_ns, end_ns, place, ..Wait::default() };
        facts.insert(facts.len() - 2, Fact { at_ns: end_ns, body: Body::Wait(wait) });
        let observed = Observed::new(facts);
        let (model, timelines) = (&observed.model, &observed.timelines);
        let short = ShortWaits::of(model, timelines);
        let weight = |of: fn(&&WaitSpan) -> bool| {
            timelines.waits().find(of).map(|wait| short.weight(model, wait))
        };
        assert_eq!(weight(|wait| wait.class == WaitClass::RunQueue), Some(1.0));
        assert!(
            weight(|wait| wait.class != WaitClass::RunQueue).is_some_and(|weight| weight > 2.0)
        );
    }

    #[test]
    fn who_was_ready_by_the_sums_alone_waits_for_a_cpu() {
        let title = |kernel_events: bool, part: u64| {
            let ran = |pid, comm, run_ns, runnable_ns| {
                let (thread, until_ns) = (thread(pid, comm), LOOK_NS);
                let time =
                    ThreadTime { thread, until_ns, run_ns, runnable_ns, ..ThreadTime::default() };
                fact(Body::ThreadTime(time))
            };
            let host_facts = fact(Body::Host(Host { kernel_events, ..Host::default() }));
            let own = ran(10, "sh", LOOK_NS / 5, LOOK_NS / part * 4);
            let other = ran(20, "yes", LOOK_NS / 5 * 4, 0);
            let facts = vec![host_facts, of_process(10, "sh"), own, other];
            let answer = explain([host(), facts].concat()).answer;
            (answer.title, answer.text)
        };
        let (said, text) = title(false, 5);
        assert!(said.contains("waits for a CPU"), "{said}");
        assert!(!text.contains("too short"), "{text}");
        assert!(title(true, 5).0.starts_with("sh 10 works"), "events would show it");
        let little = title(false, 50).0;
        assert!(!little.contains("CPU"), "{little}");
    }
}
