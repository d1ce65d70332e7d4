//! process.signal_ignored: somebody waits for the end of a process that ignores the signal which asks it to end.
//!
//! `docker stop`, `lxc-stop`, `systemctl stop` and `timeout` send a signal, wait, and kill in the end if they kill at all. That it is
//! ignored the kernel says as it is sent; graph/ending.rs finds who waits. Must not: name who was asked and has a handler.

use crate::facts::{Ns, Signal, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::engine::{self, Loss};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, Step, culprit};
use crate::waits::WaitClass;
use std::collections::BTreeSet;

const SIGKILL: u32 = 9;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.signal_ignored",
    title: "A process ignores the signal that asks it to end",
    theory: "Whoever stops a service or a container sends a signal (SIGTERM mostly) and waits, ten seconds or ninety, before \
             it kills. The kernel drops a signal that a process ignores. It also drops one that the first process of a PID \
             namespace has no handler for: a program that ends at once outside of a container goes on in it, and so does a \
             shell that runs the program as its child.",
    needs: &[
        "SIGTERM, SIGINT, SIGQUIT, SIGPWR or SIGRTMIN+3 was sent within the look, and the kernel dropped it",
        "who sent it, or whoever it acts for, waits for the end of the process, or waited until then",
    ],
    refuted_by: &[
        Refutation::new(
            "the signal has a handler: what the process does until it ends is what is waited for",
            "one_that_obeys_the_signal_is_waited_for_by_what_it_does",
        ),
        Refutation::new(
            "the process was asked by somebody else, and the wait did not end with it",
            "a_signal_of_somebody_else_says_nothing_of_a_wait",
        ),
    ],
    remedies: &[
        "end it by SIGKILL",
        "start it behind an init that passes signals on (docker run --init)",
        "have the program, or the shell before it, obey the signal, or send one that it obeys (STOPSIGNAL, KillSignal, lxc.signal.halt)",
    ],
    stories: &["S0.3"],
    thresholds: &[],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::UnheededSignal {
        return None;
    }
    let who = end.links.last().map(|link| &link.who)?;
    let asked = Asked::of(measures, who)?;
    let by = match asked.count {
        1 => culprit(measures.model, who),
        _ => Culprit { kind: CulpritKind::Process, name: who.comm.clone(), ..Culprit::default() },
    };
    let links = end.links.iter().map(|link| engine::step(link));
    let mut chain: Vec<Step> = links.flatten().collect();
    if let Some(last) = chain.last_mut() {
        last.doing = Some(("ignores", signal_name(asked.signal.signal).into()));
        last.seconds = asked.went_on(measures);
    }
    let mut matched = Match::new(by, Proof::Read, move |loss| asked.explain(measures, end, loss));
    matched.chain = Some(chain);
    Some(matched)
}

/// A process that was asked to end.
struct Asked<'m> {
    who: &'m ThreadRef,
    at_ns: Ns,
    signal: &'m Signal,
    /// How it ended since, as wait(2) has it.
    ended: Option<(Ns, u32)>,
    /// It is the first of a PID namespace.
    is_init: bool,
    /// So many of its program were asked.
    count: usize,
}

impl<'m> Asked<'m> {
    fn of(measures: &'m Measures<'m>, who: &'m ThreadRef) -> Option<Self> {
        let model = measures.model;
        let dropped = || {
            model
                .threads
                .signals
                .iter()
                .filter(|(_, signal)| signal.ignored && signal.asks_to_end())
        };
        let (at_ns, signal) = dropped().find(|(_, signal)| signal.to.pid == who.pid)?;
        let mut exits = model
            .threads
            .exits
            .iter()
            .filter(|(at, exit)| at > at_ns && exit.thread.pid == who.pid);
        let ended = exits.next_back().map(|(at, exit)| (*at, exit.code.unwrap_or_default()));
        let of_program = dropped().filter(|(_, signal)| signal.to.comm == who.comm);
        let count = of_program.map(|(_, signal)| signal.to.pid).collect::<BTreeSet<_>>().len();
        let is_init = signal.inner_pid == Some(1);
        Some(Self { who, at_ns: *at_ns, signal, ended, is_init, count })
    }

    /// From the signal until its end, or that of the look, seconds.
    fn went_on(&self, measures: &Measures<'_>) -> f64 {
        let until_ns = self.ended.map_or(measures.model.look.end_ns, |(at_ns, _)| at_ns);
        until_ns.saturating_sub(self.at_ns) as f64 / 1e9
    }

    fn explain(&self, measures: &Measures<'_>, end: &End, loss: &Loss<'_>) -> Wording {
        let (who, name) = (measures.model.threads.who(self.who), signal_name(self.signal.signal));
        let sender = measures.model.threads.who(&self.signal.from);
        let went_on = self.went_on(measures);
        let then = match self.ended {
            None => "and still goes on",
            Some((_, code)) if code & 0x7f == SIGKILL => "until SIGKILL ended it",
            Some(_) => "until it ended",
        };
        let why = match self.is_init {
            true => {
                "It is the first process of its PID namespace and has no handler for that signal: the kernel drops it there."
            }
            false => {
                "It ignores that signal, or was begun by somebody who does: the kernel drops it."
            }
        };
        let title = match self.count {
            1 => format!("{} waits for {who} to end, which ignores {name}", loss.victim),
            count => {
                let program = &self.who.comm;
                format!("{} waits for {count} x {program} to end, which ignore {name}", loss.victim)
            }
        };
        let which = if self.count == 1 { "it" } else { who.as_str() };
        Wording {
            title,
            text: format!(
                "{} pass after {sender} sent {which} {name}: it went on for {}, {then}. {why}",
                words::of_window(loss.seconds, loss.wall_seconds),
                words::seconds(went_on),
            ),
            evidence: vec![
                Evidence::new(
                    format!("{name} sent to {who} by {sender} and dropped"),
                    1.0,
                    "1",
                    "signal_generate",
                ),
                Evidence::new(
                    "from then until its end, or that of the look",
                    went_on,
                    "s",
                    "sched_process_exit",
                ),
                Evidence::new("time that is waited for it since", end.seconds, "s", "sched_switch"),
            ],
            remedy: self.remedy(),
        }
    }

    fn remedy(&self) -> Vec<Remedy> {
        let now = Remedy::to("end it now: it gets no chance to save anything").signal(
            "KILL",
            None,
            std::slice::from_ref(self.who),
        );
        let later = match self.is_init {
            true => {
                "next time start it behind an init that passes signals on (docker run --init), have it obey the signal (a \
                     shell before it: exec), or name one that it obeys (STOPSIGNAL, lxc.signal.halt)"
            }
            false => {
                "have it obey the signal, or send one that it obeys (KillSignal=, timeout -s; timeout -k kills later)"
            }
        };
        let later = Remedy { text: later.into(), ..Remedy::default() };
        let first = self.ended.is_none().then_some(now);
        first.into_iter().chain([later]).collect()
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => "SIGINT",
        3 => "SIGQUIT",
        15 => "SIGTERM",
        30 => "SIGPWR",
        _ => "SIGRTMIN+3",
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Report;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::wording::CulpritKind;

    const MS: Ns = 1_000_000;

    fn at(at_ms: Ns, body: Body) -> Fact {
        Fact { at_ns: at_ms * MS, body }
    }

    fn waits(who: ThreadRef, ms: (Ns, Ns), syscall: &str, by: ThreadRef) -> Fact {
        let place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
        let (begin_ns, end_ns) = (ms.0 * MS, ms.1 * MS);
        let context = if by.pid == 0 { WakeContext::HardInterrupt } else { WakeContext::Task };
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        at(ms.1, Body::Wait(Wait { thread: who, begin_ns, end_ns, place, wake, ..Wait::default() }))
    }

    fn asks(at_ms: Ns, from: ThreadRef, to: ThreadRef, ignored: bool, inner_pid: u32) -> Fact {
        let inner_pid = Some(inner_pid);
        at(at_ms, Body::Signal(Signal { from, to, signal: 15, ignored, inner_pid }))
    }

    fn exit(at_ms: Ns, thread: ThreadRef, code: u32) -> Fact {
        at(at_ms, Body::Exit(Exit { thread, last: true, code: Some(code) }))
    }

    /// A command, 10, with what happens in it until it ends.
    fn command(end_ms: Ns, all: Vec<Fact>) -> Report {
        let mut facts = host();
        let (kind, name) = (TargetKind::Command, "stop".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        facts.extend(all);
        let end = CommandEnd { pid: 10, exit_status: 0, signal: 0 };
        facts.push(at(end_ms, Body::CommandEnd(end)));
        facts.sort_by_key(|fact| fact.at_ns);
        explain(facts)
    }

    fn is_named(report: &Report) -> bool {
        report.findings.iter().any(|it| it.code == "process.signal_ignored")
    }

    /// A command, 10, asks its child, 20, to end after 500 ms, and waits until that is killed after 4 s.
    fn stopped(from: ThreadRef, ignored: bool) -> Report {
        let (stop, service) =
            (|| thread(10, "stop"), || ThreadRef { start_ns: 10, ..thread(20, "service") });
        let all = vec![
            at(1, Body::Fork(Fork { parent: stop(), child: service(), flags: 0 })),
            asks(500, from, service(), ignored, 7),
            waits(service(), (10, 4_000), "nanosleep", thread(0, "swapper")),
            exit(4_000, service(), 9),
            waits(stop(), (510, 4_000), "wait4", service()),
        ];
        command(4_500, all)
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_named_to_who_waits_for_its_end() {
        let report = stopped(thread(10, "stop"), true);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("process.signal_ignored", Some(20)));
        assert_eq!(finding.title, "stop waits for service 20 to end, which ignores SIGTERM");
        assert!(finding.text.contains("until SIGKILL ended it"), "{}", finding.text);
        let lost = report.answer.ends[0].seconds;
        assert!((3.4..3.6).contains(&lost), "{lost}");
    }

    #[test]
    fn of_several_that_ignore_it_the_program_is_named_and_none_of_them() {
        let stop = || thread(10, "stop");
        let service = |pid| ThreadRef { start_ns: 10, ..thread(pid, "service") };
        let mut all = Vec::new();
        for pid in [20, 21] {
            all.extend([
                at(1, Body::Fork(Fork { parent: stop(), child: service(pid), flags: 0 })),
                asks(500, stop(), service(pid), true, pid),
                waits(service(pid), (10, 4_000), "nanosleep", thread(0, "swapper")),
                exit(4_000, service(pid), 9),
            ]);
        }
        all.push(waits(stop(), (510, 4_000), "wait4", service(20)));
        let report = command(4_500, all);
        let finding = &report.findings[0];
        assert_eq!(finding.title, "stop waits for 2 x service to end, which ignore SIGTERM");
        let by = &finding.culprit;
        assert_eq!((by.kind, &*by.name, by.pid), (CulpritKind::Process, "service", None));
    }

    #[test]
    fn one_that_obeys_the_signal_is_waited_for_by_what_it_does() {
        let report = stopped(thread(10, "stop"), false);
        assert!(!is_named(&report));
        assert_eq!(report.answer.ends[0].object.name, "service");
    }

    #[test]
    fn a_signal_of_somebody_else_says_nothing_of_a_wait() {
        let report = stopped(thread(50, "other"), true);
        assert!(!is_named(&report));
    }

    /// A script, 10, asks its job, 20, to end, and waits for another, 21: as that ends the first has been gone for half a second.
    #[test]
    fn who_waits_for_another_of_his_processes_does_not_wait_for_the_first() {
        let (script, job) =
            (|| thread(10, "sh"), || ThreadRef { start_ns: 10, ..thread(20, "job") });
        let other = || ThreadRef { start_ns: 20, ..thread(21, "sleep") };
        let all = vec![
            at(1, Body::Fork(Fork { parent: script(), child: job(), flags: 0 })),
            asks(500, script(), job(), true, 20),
            at(505, Body::Fork(Fork { parent: script(), child: other(), flags: 0 })),
            waits(job(), (10, 3_500), "nanosleep", thread(0, "swapper")),
            exit(3_500, job(), 0),
            waits(other(), (510, 4_000), "nanosleep", thread(0, "swapper")),
            exit(4_000, other(), 0),
            waits(script(), (510, 4_000), "wait4", other()),
        ];
        let report = command(4_100, all);
        assert!(!is_named(&report));
        assert_eq!(report.answer.ends[0].object.name, "sleep");
    }

    /// A script, 10, asks a service, 20, to end, and looks each 300 ms whether it has, for 3 s; it is killed then. The script
    /// sleeps once more, or ends.
    fn polled(sleeps_on: bool) -> bool {
        let service = || thread(20, "service");
        let sleeps = |ms| waits(thread(10, "sh"), ms, "nanosleep", thread(0, "swapper"));
        let mut all = vec![asks(500, thread(10, "sh"), service(), true, 20)];
        all.extend((0..10).map(|n| sleeps((501 + n * 300, 800 + n * 300))));
        all.push(exit(3_505, service(), 9));
        all.extend(sleeps_on.then(|| sleeps((3_510, 3_810))));
        is_named(&command(3_900, all))
    }

    /// A daemon, 30, stops a service, 20, for a command; it has a handler, and sleeps in it until it ends by itself.
    #[test]
    fn one_that_takes_long_to_end_is_followed_through_the_daemon_that_asked_it() {
        let (daemon, stop) = (|| thread(30, "daemon"), || thread(10, "stop"));
        let service = || thread(20, "service");
        let all = vec![
            asks(150, daemon(), service(), false, 20),
            waits(daemon(), (151, 4_020), "nanosleep", thread(0, "swapper")),
            waits(service(), (160, 4_000), "clock_nanosleep", thread(0, "swapper")),
            exit(4_010, service(), 0),
            waits(stop(), (90, 4_050), "poll", daemon()),
        ];
        let report = command(4_100, all);
        let end = &report.answer.ends[0];
        assert_eq!(
            (&*end.object.name, end.chain.last().and_then(|it| it.who.pid)),
            ("service", Some(20))
        );
        assert!(end.seconds > 3.8, "{end:?}");
    }

    #[test]
    fn who_looks_again_and_again_whether_it_has_ended_waits_for_it() {
        assert!(polled(false));
        assert!(!polled(true), "it sleeps for something else");
    }

    /// The same through a daemon, 30, which sends the signal by a runtime, 40, of its own, and sleeps meanwhile.
    #[test]
    fn a_daemon_that_stops_it_for_somebody_is_followed_to_it() {
        let daemon = || thread(30, "daemon");
        let runtime = || ThreadRef { start_ns: 100 * MS, ..thread(40, "runtime") };
        let (stop, service) = (|| thread(10, "stop"), || thread(20, "service"));
        let all = vec![
            at(100, Body::Fork(Fork { parent: daemon(), child: runtime(), flags: 0 })),
            asks(150, runtime(), service(), true, 1),
            exit(200, runtime(), 0),
            waits(daemon(), (101, 200), "wait4", runtime()),
            waits(daemon(), (201, 4_000), "nanosleep", thread(0, "swapper")),
            exit(4_010, service(), 9),
            waits(stop(), (90, 4_050), "futex", daemon()),
        ];
        let report = command(4_100, all);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("process.signal_ignored", Some(20)));
        let chain: Vec<_> = finding.chain.iter().filter_map(|link| link.who.pid).collect();
        assert_eq!(chain, [10, 30, 20], "{:?}", finding.chain);
        assert!(
            finding.text.contains("the first process of its PID namespace"),
            "{}",
            finding.text
        );
    }
}
