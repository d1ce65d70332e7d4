//! process.traced: a process stands still in the hands of a tracer.
//!
//! State t is the witness, the tracer's pid in /proc/PID/status the second fact. A debugger at a breakpoint, or a
//! tracer that went away from the keyboard. A tracer of calls (strace) shows as many short stops. Most of them are too short to
//! be seen one by one, and each costs its way off the CPU and back besides: so of it how often the process leaves
//! the CPU is said and how little it runs, and never the sum of the stops alone. A busy program leaves the CPU as often by itself, so that is said
//! only where stops were seen again and again: pstack and gcore stop each thread once. Of stops that are over and make less than half of the look
//! their number and their share are said: "held for" the longest of them would be said of the whole. Who began what it traces waits for that by design.
//! Must not: blame a tracer that nobody waits for.

use super::standstill::{NOTICED, Standstill};
use crate::facts::{Ns, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit, holder_doing};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{self, WaitSpan};
use std::collections::BTreeMap;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.traced",
    title: "A process is held by a tracer",
    theory: "A debugger or strace (ptrace) stops a process at each event until it lets it go on. At a breakpoint it \
             stands still for as long as the debugger's user thinks; whoever waits for the process waits for him.",
    needs: &[
        "threads of the process are in state t",
        "others wait for it (else it is only a note), or it is the target",
    ],
    refuted_by: &[Refutation::new(
        "state T without a tracer: it is stopped by a signal",
        "one_that_a_signal_stopped_is_not_traced",
    )],
    remedies: &[
        "let it go in the debugger (continue, detach)",
        "end the tracer, if it has attached to the process: it lets it go (what it started itself it kills)",
    ],
    stories: &["S0.4"],
    thresholds: &[&NOTICED, &STOP_MAX, &STOPS_MIN, &SEEN_MIN, &SPREAD_MIN, &HELD_MIN],
    finds: Finds::End(find),
};

static STOP_MAX: Threshold = Threshold::new(
    0.1,
    "s",
    "a tracer of calls lets go within less; whoever is held for longer stands at a person's word",
    "chosen: no person answers as quickly",
);
static STOPS_MIN: Threshold = Threshold::new(
    20.0,
    "1/s",
    "a process that its tracer holds for short times only, and that leaves the CPU so often, is stopped at its calls",
    "chosen: one call every 0.1 s, each with two stops",
);

static SEEN_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "stops that are seen of a process whose calls are traced; fewer are those of a snapshot",
    "chosen: a tool that looks once stops a thread as it attaches, and perhaps once more",
);
static SPREAD_MIN: Threshold = Threshold::new(
    0.5,
    "s/s",
    "the part of the look between the first and the last of these stops, from which on they are all over it",
    "chosen: a snapshot of many threads stops each of them, but all at one time",
);

/// Where a process's sums are from.
const SUMS: &str = "sched_switch";

static HELD_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of the look, the stops that are over together, from which the process is said to be held, and not only stopped now and then",
    "chosen: most of it",
);

/// What tracing each call makes of a process.
struct Stops {
    /// How often it left the CPU by itself, in a second.
    per_second: f64,
    /// What it ran, seconds.
    ran: f64,
    /// Of so many seconds.
    of: f64,
}

impl Stops {
    /// Of one that is held again and again, for short times: what a person holds is not more of the look than the rest, and goes on no longer.
    fn of(measures: &Measures<'_>, seen: &Seen, traced: &ThreadRef) -> Option<Self> {
        let of = measures.cpu.counted_seconds.max(1e-9);
        let (mut left, mut ran_ns) = (0, 0);
        for time in measures.times_of(traced.pid) {
            left += time.switches.saturating_sub(time.preemptions);
            ran_ns += time.run_ns;
        }
        let per_second = left as f64 / of;
        let is_it = !seen.stands
            && seen.long_seconds < HELD_MIN.value * of
            && per_second >= STOPS_MIN.value
            && seen.are_throughout(of);
        is_it.then_some(Self { per_second, ran: ran_ns as f64 / 1e9, of })
    }
}

/// The stops of a process that were seen one by one; those of several threads at a time are one.
struct Seen {
    stops: usize,
    /// Times that one thread was stopped, of the thread that most were seen of: of many threads the stops touch each other all along.
    again: usize,
    /// All of them, seconds.
    seconds: f64,
    /// Those that a tracer of calls would not make, each by itself, seconds.
    long_seconds: f64,
    /// From the first to the last, seconds.
    spread: f64,
    /// The last one lasts, and is no tracer of calls'.
    stands: bool,
}

impl Seen {
    fn of(measures: &Measures<'_>, traced: &ThreadRef) -> Self {
        let look = &measures.model.look;
        let is_stop =
            |wait: &&WaitSpan| wait.class == WaitClass::Traced && wait.thread.pid == traced.pid;
        let stops: Vec<&WaitSpan> = measures.waits().filter(is_stop).collect();
        let long = |ns: Ns| ns as f64 / 1e9 >= STOP_MAX.value;
        let stands = stops.iter().any(|it| it.standing && long(it.end_ns - it.begin_ns));
        let within = |it: &&WaitSpan| (it.begin_ns.max(look.begin_ns), it.end_ns.min(look.end_ns));
        let times: Vec<(Ns, Ns)> =
            stops.iter().map(within).filter(|(from, to)| from <= to).collect();
        let sum = |times: &[(Ns, Ns)]| times.iter().map(|(from, to)| to - from).sum::<Ns>();
        let long_ones = times.iter().copied().filter(|(from, to)| long(to - from)).collect();
        let began = || times.iter().map(|(from, _)| *from);
        let spread = began().max().zip(began().min()).map_or(0, |(last, first)| last - first);
        let joined = timeline::joined(times);
        Self {
            stops: joined.len(),
            again: again(&stops),
            seconds: sum(&joined) as f64 / 1e9,
            long_seconds: sum(&timeline::joined(long_ones)) as f64 / 1e9,
            spread: spread as f64 / 1e9,
            stands,
        }
    }

    /// Again and again, all over a look of so many seconds: else the switches of the process are its own.
    fn are_throughout(&self, seconds: f64) -> bool {
        self.stops.max(self.again) as f64 >= SEEN_MIN.value
            && self.spread >= SPREAD_MIN.value * seconds
    }

    /// They are over, and were a small part of a look of so many seconds.
    fn is_now_and_then(&self, seconds: f64) -> bool {
        !self.stands && self.stops > 0 && self.seconds < HELD_MIN.value * seconds
    }
}

/// How often that thread was stopped of which most stops were seen.
fn again(stops: &[&WaitSpan]) -> usize {
    let mut by_thread: BTreeMap<u32, usize> = BTreeMap::new();
    for stop in stops {
        *by_thread.entry(stop.thread.tid).or_default() += 1;
    }
    by_thread.into_values().max().unwrap_or(0)
}

/// How a process is held.
enum Held {
    /// At each of its calls.
    Slowed(Stops),
    /// So many times, for so long together.
    NowAndThen(Seen),
    /// At a breakpoint, or for most of the look.
    Long,
}

impl Held {
    fn of(measures: &Measures<'_>, traced: &ThreadRef) -> Self {
        let seen = Seen::of(measures, traced);
        match Stops::of(measures, &seen, traced) {
            Some(stops) => Self::Slowed(stops),
            None if seen.is_now_and_then(measures.wall_seconds()) => Self::NowAndThen(seen),
            None => Self::Long,
        }
    }
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let stands = Standstill::of(measures, end, WaitClass::Traced)?;
    let traced = stands.process(measures)?;
    let tracer = tracer(measures, &traced);
    let stands = match &tracer {
        Some(tracer) if !measures.is_command() => stands.without(tracer.pid),
        _ => stands,
    };
    let by = culprit(measures.model, tracer.as_ref().unwrap_or(&traced));
    let proof = if tracer.is_some() { Proof::Read } else { Proof::OneWitness };
    let held = Held::of(measures, &traced);
    let is_slowed = matches!(held, Held::Slowed(_)) && stands.matters();
    let words = explain(measures, &stands, (&traced, held), tracer.as_ref());
    let matched = Match::new(by, proof, move |_| words.clone());
    let mut matched = stands.weigh(measures, matched);
    if is_slowed {
        // The stops that were seen are a small part of what it costs.
        matched.severity_min = Severity::Warning;
    }
    Some(matched)
}

fn explain(
    measures: &Measures<'_>,
    stands: &Standstill<'_>,
    (traced, held): (&ThreadRef, Held),
    tracer: Option<&ThreadRef>,
) -> Wording {
    let who = measures.model.threads.who(traced);
    let by = tracer.map_or_else(|| "its tracer".to_string(), |it| measures.model.threads.who(it));
    let fact = format!("{who} is in state t (stopped by a tracer), longest");
    let mut evidence = wait_words::longest_evidence(&stands.longest, &fact);
    if let Some(tracer) = tracer {
        let pid = f64::from(tracer.pid);
        evidence.push(Evidence::new("TracerPid", pid, "pid", "/proc/PID/status"));
    }
    evidence.extend(stands.others_evidence(&who));
    let since = wait_words::duration(&stands.longest);
    let wall = measures.wall_seconds();
    let text = match &held {
        Held::Slowed(stops) => {
            let off = Evidence::new("left the CPU by itself", stops.per_second, "1/s", SUMS);
            evidence.extend([off, Evidence::new("ran", stops.ran, "s", SUMS)]);
            format!(
                "{by} stops {who} at its calls. Each stop costs the way off the CPU and back, and a turn of the tracer: {who} \
                 ran for {} of {}. The longest stop that was seen took {since}; most are too short to be seen one by one.",
                words::seconds(stops.ran),
                words::seconds(stops.of)
            )
        }
        Held::NowAndThen(seen) => {
            let stops = Evidence::new("stops that were seen", seen.stops as f64, "1", SUMS);
            evidence.extend([stops, Evidence::new("they took", seen.seconds, "s", SUMS)]);
            format!(
                "{by} has stopped {who} {}, for {} together; the longest took {since}.",
                words::count(seen.stops, "time", "times"),
                words::of_window(seen.seconds, wall),
            )
        }
        Held::Long => format!("{by} has held {who} for {since}."),
    };
    Wording {
        title: title(measures, stands, (&who, &by), &held),
        text: format!("{text} {}", stands.who_waited(measures)),
        evidence,
        remedy: remedy(measures, traced, tracer),
    }
}

fn title(
    measures: &Measures<'_>,
    stands: &Standstill<'_>,
    (who, by): (&str, &str),
    held: &Held,
) -> String {
    if stands.has_victims() {
        let victim = stands.victim(measures);
        let does = match held {
            Held::Slowed(_) => "slowed",
            Held::NowAndThen(_) => "stopped now and then",
            Held::Long => "held",
        };
        return format!("{victim} waits for {who}, which is {does} by {by}, its tracer");
    }
    match held {
        Held::Slowed(stops) => format!(
            "{who} is slowed by {by}, which traces it: it leaves the CPU {} times a second",
            words::rate(stops.per_second)
        ),
        Held::NowAndThen(seen) => format!(
            "{who} was stopped {} by {by}, which traces it: {} of the time",
            words::count(seen.stops, "time", "times"),
            words::percent(seen.seconds / measures.wall_seconds().max(1e-9))
        ),
        Held::Long => format!("{who} is held by {by}, which traces it"),
    }
}

fn tracer(measures: &Measures<'_>, traced: &ThreadRef) -> Option<ThreadRef> {
    let threads = measures.model.threads.by_id.values().filter(|t| t.thread.pid == traced.pid);
    let pid = threads.map(|t| t.tracer_pid).find(|pid| *pid != 0)?;
    Some(wait_words::main_thread(measures, pid))
}

/// A debugger kills what it started itself as it ends, and lets go of what it attached to.
fn remedy(measures: &Measures<'_>, traced: &ThreadRef, tracer: Option<&ThreadRef>) -> Vec<Remedy> {
    let Some(tracer) = tracer else {
        return vec![Remedy {
            text: "find its tracer".into(),
            command: "grep -s 'TracerPid:.*[1-9]' /proc/[0-9]*/status".into(),
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        }];
    };
    if holder_doing::has_ended(measures.model, tracer) {
        // Nobody is left to be ended, or to be looked for by that number.
        return vec![Remedy::to("nothing is to be done: its tracer has ended, and lets it go")];
    }
    let known = measures.model.threads.identity(traced);
    if known.is_some_and(|it| it.parent_pid == tracer.pid) {
        return vec![Remedy::to(
            "let it go on in the debugger (continue, or detach before you leave it): a debugger that ends kills what it started itself",
        )];
    }
    vec![
        Remedy::to(
            "let it go on in the debugger, or end the tracer: it lets go of what it attached to",
        )
        .end(tracer),
    ]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    #[test]
    fn the_tracer_is_the_culprit() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Traced, "")));
        facts.push(identity(Thread {
            thread: thread(20, "server"),
            tracer_pid: 30,
            ..Thread::default()
        }));
        facts.push(identity(Thread { thread: thread(30, "gdb"), ..Thread::default() }));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.traced", Severity::Critical));
        assert_eq!((finding.culprit.pid, &*finding.culprit.name), (Some(30), "gdb"));
        assert_eq!(finding.remedy[0].command, "kill 30");
    }

    #[test]
    fn a_debugger_that_began_the_process_is_not_to_be_ended() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Traced, "")));
        let tracer_pid = 30;
        let parent_pid = 30;
        let thread = thread(20, "server");
        facts.push(identity(Thread { thread, tracer_pid, parent_pid, ..Thread::default() }));
        let finding = &explain(facts).findings[0];
        assert_eq!(finding.code, "process.traced");
        assert_eq!(finding.remedy[0].command, "", "{}", finding.remedy[0].text);
    }

    #[test]
    fn a_tracer_of_calls_is_said_to_slow_and_not_to_hold() {
        let of = |switches| traced_dd(0..50, switches, false).remove(0);
        let slowed = of(100_000);
        assert!(slowed.title.starts_with("dd 20 is slowed by strace 30"), "{}", slowed.title);
        assert!(slowed.text.contains("ran for 400 ms of 5 s"), "{}", slowed.text);
        let now_and_then = of(10);
        assert!(!now_and_then.title.contains("slowed"), "{}", now_and_then.title);
    }

    #[test]
    fn a_tracer_of_the_calls_of_many_threads_slows_them_and_holds_none() {
        let of = |threads: Ns| {
            // Each in a stop of 8 ms in 10 ms: of four threads those touch each other for the whole look.
            let of = |thread: Ns, n: Ns| stop(20 + thread as u32, 1 + n * 10 + thread * 2, 8);
            let stops = (0..490).flat_map(|n| (0..threads).map(move |thread| of(thread, n)));
            let mut facts: Vec<Fact> = stops.collect();
            facts.extend(traced(100_000, false));
            said(facts).remove(0)
        };
        for threads in [1, 4] {
            let slowed = of(threads);
            assert!(slowed.title.starts_with("dd 20 is slowed by strace 30"), "{}", slowed.title);
        }
    }

    #[test]
    fn the_switches_of_a_busy_one_that_was_stopped_for_a_snapshot_are_its_own() {
        for stops in [0..1, 0..2, 20..30] {
            let findings = traced_dd(stops, 100_000, false);
            let is_said = findings.iter().any(|it| it.title.contains("slowed"));
            assert!(!is_said, "{findings:?}");
        }
        let burst = &traced_dd(20..30, 100_000, false)[0];
        let is_so = burst.title.starts_with("dd 20 was stopped 10 times by strace 30");
        assert!(is_so && burst.title.ends_with("10 % of the time"), "{}", burst.title);
        assert!(burst.text.contains("for 500 ms of 5 s together"), "{}", burst.text);
    }

    #[test]
    fn who_stands_at_a_breakpoint_is_held_however_short_before_the_end() {
        let mut facts = host();
        let place = Place { state: WaitState::Traced, ..Place::default() };
        let since_ns = LOOK_NS - 300_000_000;
        let thread = thread_of_dd();
        let blocked = Blocked { thread: thread.clone(), since_ns, place, ..Blocked::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) });
        facts.push(of_process(20, "dd"));
        facts.push(identity(Thread { thread, tracer_pid: 30, ..Thread::default() }));
        facts.push(identity(Thread { thread: thread_of_tracer(), ..Thread::default() }));
        let findings = explain(facts).findings;
        let found = findings.iter().find(|it| it.code == "process.traced").expect("a finding");
        assert!(found.title.contains("held by strace 30"), "{}", found.title);
    }

    #[test]
    fn a_tracer_that_has_ended_is_not_to_be_ended() {
        for is_gone in [false, true] {
            let findings = traced_dd(0..50, 100_000, is_gone);
            let remedy = &findings[0].remedy;
            assert_eq!(remedy.iter().any(|way| way.command == "kill 30"), !is_gone, "{remedy:?}");
        }
    }

    /// Process 20 in stops of 50 ms, by their numbers of one in 90 ms, with switches of its own, and whether its tracer ends in the look.
    fn traced_dd(
        stops: std::ops::Range<Ns>,
        switches: u64,
        is_gone: bool,
    ) -> Vec<crate::answer::report::Finding> {
        let mut facts: Vec<Fact> = stops.map(|n| stop(20, 1 + n * 90, 50)).collect();
        facts.extend(traced(switches, is_gone));
        said(facts)
    }

    /// A thread of process 20 is stopped, all in milliseconds.
    fn stop(tid: u32, at: Ns, long: Ns) -> Fact {
        let (begin_ns, end_ns) = (at * 1_000_000, (at + long) * 1_000_000);
        let place = Place { state: WaitState::Traced, ..Place::default() };
        let thread = ThreadRef { tid, ..thread_of_dd() };
        let wake = Some(Wake { at_ns: end_ns, by: thread_of_tracer(), ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    /// Process 20 and its tracer.
    fn traced(switches: u64, is_gone: bool) -> Vec<Fact> {
        let (thread, until_ns) = (thread_of_dd(), LOOK_NS);
        let run_ns = 400_000_000;
        let time = ThreadTime { thread, until_ns, run_ns, switches, ..ThreadTime::default() };
        let mut facts = vec![fact(Body::ThreadTime(time)), of_process(20, "dd")];
        let thread = thread_of_dd();
        facts.push(identity(Thread { thread, tracer_pid: 30, ..Thread::default() }));
        facts.push(identity(Thread { thread: thread_of_tracer(), ..Thread::default() }));
        if is_gone {
            let exit = Exit { thread: thread_of_tracer(), last: true, code: Some(0) };
            facts.push(Fact { at_ns: LOOK_NS - 1, body: Body::Exit(exit) });
        }
        facts
    }

    fn said(facts: Vec<Fact>) -> Vec<crate::answer::report::Finding> {
        let mut findings = explain([host(), facts].concat()).findings;
        findings.retain(|it| it.code == "process.traced");
        findings
    }

    fn thread_of_tracer() -> ThreadRef {
        thread(30, "strace")
    }

    fn thread_of_dd() -> ThreadRef {
        thread(20, "dd")
    }

    #[test]
    fn one_that_a_signal_stopped_is_not_traced() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Stopped, "")));
        assert!(explain(facts).findings.iter().all(|f| f.code != "process.traced"));
    }

    #[test]
    fn a_process_at_a_breakpoint_that_nobody_waits_for_is_a_note() {
        let mut facts = host();
        facts.push(blocked(20, "server", WaitState::Traced, ""));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.traced", Severity::Note));
    }
}
