//! process.zombie: a process has ended, and its parent has not waited for it.
//!
//! State Z of all that is left of it is the witness, and who its parent is; the only one who can do something is the parent, or
//! its tracer before that. Whoever asks about such a process thinks that it hangs: it holds nothing any more. Must not: say
//! anything of one that nobody asked about (every program has them for a moment), or of a process whose first thread alone has ended.

use super::standstill::{NOTICED, Standstill};
use crate::facts::{ThreadRef, ThreadTime};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::holder_doing::{end_all, in_wait};
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.zombie",
    title: "A process has ended, and its parent has not waited for it",
    theory: "A process that ends gives back its memory, files, locks and connections. Its PID and how it ended stay \
             until its parent asks for them (wait(2)): until then it is a zombie, which no signal reaches. If the parent \
             ends, whoever adopts the zombie asks at once.",
    needs: &[
        "all threads of the process are in state Z",
        "it is what was asked about, or somebody waits for it",
    ],
    refuted_by: &[
        Refutation::new(
            "other threads of the process live: its first thread alone has ended",
            "one_whose_other_threads_live_has_not_ended",
        ),
        Refutation::new("nobody asks about it", "one_that_nobody_asks_about_is_not_mentioned"),
    ],
    remedies: &[
        "continue its parent, if that is stopped",
        "have its parent look for children that have ended (SIGCHLD), as it should have",
        "end its parent: whoever adopts the zombie waits for it at once",
    ],
    stories: &["S0.4"],
    thresholds: &[&NOTICED],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let stands = Standstill::of(measures, end, WaitClass::Zombie).filter(Standstill::matters)?;
    let ended = stands.process(measures)?;
    let reaper = Reaper::of(measures, &ended);
    let by = culprit(measures.model, reaper.who.as_ref().unwrap_or(&ended));
    let proof = if reaper.who.is_some() { Proof::Read } else { Proof::OneWitness };
    let words = explain(measures, &stands, &ended, &reaper);
    let matched = Match::new(by, proof, move |_| words.clone());
    Some(stands.weigh(measures, matched))
}

/// Who has to wait for a zombie.
struct Reaper {
    /// None: it is in a PID namespace that is not seen from here.
    who: Option<ThreadRef>,
    /// It traces the zombie, and comes before the parent.
    traces: bool,
    /// What its first thread does.
    does: Option<WaitClass>,
    /// How many more zombies it has.
    others: usize,
}

impl Reaper {
    fn of(measures: &Measures<'_>, ended: &ThreadRef) -> Self {
        let model = measures.model;
        let tracer =
            model.threads.identity(ended).map(|known| known.tracer_pid).filter(|pid| *pid != 0);
        // Who began it may have ended, and another taken it in.
        let now = || {
            let of = |time: &&ThreadTime| time.thread.pid == ended.pid && time.parent_pid != 0;
            let last = model.threads.times.iter().filter(of).max_by_key(|time| time.until_ns);
            last.map(|time| time.parent_pid)
        };
        let began = || measures.graph.parent_of(ended.pid).filter(|pid| *pid != 0);
        let parent = || now().or_else(began);
        let who = tracer.or_else(parent).map(|pid| wait_words::main_thread(measures, pid));
        let last = who.as_ref().and_then(|who| {
            let waits = measures.timelines.of(model.threads.key(who));
            waits.last().filter(|wait| wait.standing).map(|wait| wait.class)
        });
        let all = who.as_ref().map_or(0, |who| measures.zombies_of(who.pid));
        Self { who, traces: tracer.is_some(), does: last, others: all.saturating_sub(1) }
    }

    fn relation(&self) -> &'static str {
        if self.traces { "tracer" } else { "parent" }
    }

    /// With its name, if it is known.
    fn named(&self) -> String {
        match &self.who {
            Some(who) => format!("its {} {}", self.relation(), words::who(who)),
            None => "its parent, which cannot be seen from here,".into(),
        }
    }
}

fn explain(
    measures: &Measures<'_>,
    stands: &Standstill<'_>,
    ended: &ThreadRef,
    reaper: &Reaper,
) -> Wording {
    let who = words::who(ended);
    let by = reaper.named();
    let title = match stands.has_victims() {
        false => format!("{who} has ended, and {by} has not waited for it: a zombie"),
        true => format!(
            "{} waits for {who}, which has ended, and for which {by} has not waited: a zombie",
            stands.victim(measures)
        ),
    };
    let longest = &stands.longest;
    let since = match longest.since_it_ran {
        Some(seconds) => format!("{who} last ran {} ago", words::seconds(seconds)),
        None => format!("{who} ended {} ago", wait_words::duration(longest)),
    };
    let does = reaper.does.map_or_else(String::new, |class| format!(" It {}.", in_wait(class)));
    let others = match reaper.others {
        0 => String::new(),
        _ if reaper.traces => String::new(),
        1 => " Another of its children has ended and is left so.".into(),
        some => format!(" {some} more of its children have ended and are left so."),
    };
    let fact = format!("{who} is in state Z (zombie), since");
    let mut evidence = wait_words::longest_evidence(longest, &fact);
    if let Some(parent) = &reaper.who {
        let pid = f64::from(parent.pid);
        let source = if reaper.traces { "/proc/PID/status" } else { "the task iterator" };
        evidence.push(Evidence::new(format!("its {}", reaper.relation()), pid, "pid", source));
    }
    evidence.extend(stands.others_evidence(&who));
    Wording {
        title,
        text: format!(
            "{since}. It has given back its memory, files, locks and connections: only its PID is left, which {by} has to \
             collect (wait(2)).{does}{others} {}",
            stands.who_waited(measures)
        ),
        evidence,
        remedy: remedy(measures, reaper),
    }
}

fn remedy(measures: &Measures<'_>, reaper: &Reaper) -> Vec<Remedy> {
    let Some(who) = &reaper.who else { return Vec::new() };
    let (name, pid) = (words::who(who), who.pid);
    if reaper.does == Some(WaitClass::Stopped) {
        return vec![Remedy::to(format!("continue {name}")).go_on(who)];
    }
    let remind = Remedy::to(format!(
        "have {name} look for children that have ended (SIGCHLD does nothing to a program that does not ask for it)"
    ))
    .signal("CHLD", None, std::slice::from_ref(who));
    let is_init =
        measures.model.threads.identity(who).is_some_and(|known| known.inner_pid == Some(1))
            || pid == 1;
    let instead = match is_init {
        true => Remedy::to(format!(
            "{name} is the first process of its container or host: run one there that waits for children \
             (docker run --init, tini)"
        )),
        false => {
            let text = format!(
                "restart {name}, which forgets its children: whoever adopts the zombie then waits for it"
            );
            end_all(measures.model, &text, std::slice::from_ref(who))
        }
    };
    match reaper.traces {
        true => vec![instead],
        false => vec![remind, instead],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Report, Severity};
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    /// A zombie, asked about, whose parent is in a state.
    fn zombie(parent: WaitState, syscall: &str) -> Vec<Fact> {
        let mut facts = host();
        for (pid, comm, parent_pid) in [(20, "job", 10), (10, "server", 1)] {
            let thread = thread(pid, comm);
            facts.push(identity(Thread { thread, parent_pid, ..Thread::default() }));
        }
        facts.extend([
            blocked(20, "job", WaitState::Ended, ""),
            blocked(10, "server", parent, syscall),
        ]);
        facts
    }

    fn asked(mut facts: Vec<Fact>) -> Report {
        facts.push(of_process(20, "job"));
        explain(facts)
    }

    /// A thread of the zombie's process that still is there at the end.
    fn lives(tid: u32) -> ThreadTime {
        let thread = ThreadRef { tid, ..thread(20, "job") };
        ThreadTime { thread, until_ns: LOOK_NS, sleep_ns: LOOK_NS, ..ThreadTime::default() }
    }

    #[test]
    fn who_asks_reads_whose_turn_it_is() {
        let report = asked(zombie(WaitState::Sleep, "clock_nanosleep"));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.zombie", Severity::Warning));
        assert_eq!((finding.culprit.pid, &*finding.object.id), (Some(10), "20"));
        assert_eq!(
            finding.title,
            "job 20 has ended, and its parent server 10 has not waited for it: a zombie"
        );
        assert!(
            finding
                .text
                .contains("which its parent server 10 has to collect (wait(2)). It sleeps.")
        );
        let commands: Vec<&str> = finding.remedy.iter().map(|it| &*it.command).collect();
        assert_eq!(commands, ["kill -CHLD 10", "kill 10"]);
        assert!(!report.answer.title.contains("idle"), "{}", report.answer.title);
        let why = report.answer.ends[0].why_open.as_deref();
        assert_eq!(why, Some("it has ended, and its parent has not waited for it"));
    }

    #[test]
    fn of_many_the_parent_that_collects_none_is_said_once() {
        let mut facts = zombie(WaitState::Sleep, "clock_nanosleep");
        for pid in 21..24 {
            let thread = thread(pid, "job");
            facts.push(identity(Thread { thread, parent_pid: 10, ..Thread::default() }));
            facts.push(blocked(pid, "job", WaitState::Ended, ""));
        }
        let of_parent = explain([facts.clone(), vec![of_process(10, "server")]].concat()).answer;
        assert!(of_parent.text.contains("4 of its children have ended"), "{}", of_parent.text);
        let text = asked(facts).findings[0].text.clone();
        assert!(text.contains("3 more of its children have ended"), "{text}");
    }

    #[test]
    fn of_a_parent_that_is_stopped_the_way_out_is_to_continue_it() {
        let report = asked(zombie(WaitState::Stopped, ""));
        let finding = report.findings.iter().find(|it| it.code == "process.zombie").unwrap();
        assert_eq!(finding.remedy[0].command, "kill -CONT 10");
    }

    #[test]
    fn one_that_nobody_asks_about_is_not_mentioned() {
        let report = explain(zombie(WaitState::Sleep, "epoll_wait"));
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        assert!(report.answer.ends.is_empty(), "{:#?}", report.answer.ends);
    }

    #[test]
    fn one_whose_other_threads_live_has_not_ended() {
        let mut facts = zombie(WaitState::Sleep, "clock_nanosleep");
        facts.extend([fact(Body::ThreadTime(lives(20))), fact(Body::ThreadTime(lives(21)))]);
        let report = asked(facts);
        assert!(report.findings.iter().all(|it| it.code != "process.zombie"));
    }

    #[test]
    fn who_waits_for_a_process_whose_first_thread_has_ended_waits_for_the_others() {
        let mut facts = host();
        let args = [20, 0, 0, 0, 0, 0];
        let waits =
            Place { state: WaitState::Sleep, syscall: "wait4".into(), args, ..Place::default() };
        for (pid, comm, parent_pid) in [(20, "job", 10), (10, "sh", 1)] {
            let thread = thread(pid, comm);
            facts.push(identity(Thread { thread, parent_pid, ..Thread::default() }));
        }
        let sleeps = Place {
            state: WaitState::Sleep,
            syscall: "clock_nanosleep".into(),
            ..Place::default()
        };
        let other = ThreadRef { tid: 21, ..thread(20, "job") };
        facts.extend([
            of_process(10, "sh"),
            at_place(10, "sh", waits),
            blocked(20, "job", WaitState::Ended, ""),
            fact(Body::ThreadTime(lives(20))),
            fact(Body::ThreadTime(lives(21))),
            Fact {
                at_ns: LOOK_NS,
                body: Body::Blocked(Blocked { thread: other, place: sleeps, ..Blocked::default() }),
            },
        ]);
        let end = &explain(facts).answer.ends[0];
        assert_eq!(end.end, EndKind::Sleep);
        let chain: Vec<_> = end.chain.iter().map(|it| (it.who.pid, it.who.tid)).collect();
        assert_eq!(
            chain,
            [(Some(10), None), (Some(20), None), (Some(20), Some(21))],
            "{:#?}",
            end.chain
        );
    }

    #[test]
    fn it_is_a_zombie_since_the_last_of_its_threads_has_ended() {
        let mut facts = zombie(WaitState::Sleep, "clock_nanosleep");
        let until_ns = LOOK_NS - 2_000_000_000;
        let last = ThreadTime { until_ns, ..lives(21) };
        facts.extend([fact(Body::ThreadTime(lives(20))), fact(Body::ThreadTime(last.clone()))]);
        let exit = Exit { thread: last.thread, last: false, code: Some(0) };
        facts.push(Fact { at_ns: until_ns, body: Body::Exit(exit) });
        let finding = &asked(facts).findings[0];
        assert!(finding.text.starts_with("job 20 ended 2 s ago."), "{}", finding.text);
    }

    #[test]
    fn a_zombie_that_is_asked_to_end_does_not_ignore_the_signal() {
        let mut facts = zombie(WaitState::Sleep, "wait4");
        let (from, to) = (thread(10, "server"), thread(20, "job"));
        let signal = Signal { from, to, signal: 15, ignored: true, inner_pid: None };
        facts.push(Fact { at_ns: 1_000, body: Body::Signal(signal) });
        let report = asked(facts);
        let codes: Vec<&str> = report.findings.iter().map(|it| &*it.code).collect();
        assert_eq!(codes, ["process.zombie"]);
    }

    #[test]
    fn a_zombie_is_not_the_child_that_somebody_waits_for() {
        let mut facts = zombie(WaitState::Sleep, "wait4");
        facts.push(identity(Thread {
            thread: thread(30, "job"),
            parent_pid: 10,
            ..Thread::default()
        }));
        facts.extend([
            blocked(30, "job", WaitState::Sleep, "clock_nanosleep"),
            of_process(10, "server"),
        ]);
        let end = &explain(facts).answer.ends[0];
        assert_eq!(end.end, EndKind::Sleep, "{end:#?}");
        assert_eq!(end.chain.last().and_then(|link| link.who.pid), Some(30));
    }

    #[test]
    fn who_has_taken_it_in_is_to_reap_it_and_not_who_began_it() {
        let mut facts = zombie(WaitState::Sleep, "clock_nanosleep");
        let fork = Fork { child: thread(20, "job"), parent: thread(40, "sh"), ..Fork::default() };
        facts.insert(2, fact(Body::Fork(fork)));
        let time = ThreadTime {
            thread: thread(20, "job"),
            until_ns: LOOK_NS,
            parent_pid: 10,
            ..ThreadTime::default()
        };
        facts.push(fact(Body::ThreadTime(time)));
        assert_eq!(asked(facts).findings[0].culprit.pid, Some(10));
    }
}
