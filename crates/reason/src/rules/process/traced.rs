//! process.traced: a process stands still in the hands of a tracer.
//!
//! State t is the witness, the tracer's pid in /proc/PID/status the second fact. A debugger at a breakpoint, or a
//! tracer that went away from the keyboard; strace shows as many short stops and becomes a finding only when
//! they add up. Must not: blame a tracer that nobody waits for.

use super::standstill::{NOTICED, Standstill};
use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::rules::action::{Action, Question};
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;

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
    thresholds: &[&NOTICED],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let stands = Standstill::of(measures, end, WaitClass::Traced)?;
    let traced = stands.process(measures)?;
    let tracer = tracer(measures, &traced);
    let by = culprit(measures.model, tracer.as_ref().unwrap_or(&traced));
    let proof = if tracer.is_some() { Proof::Read } else { Proof::OneWitness };
    let words = explain(measures, &stands, &traced, tracer.as_ref());
    let matched = Match::new(by, proof, move |_| words.clone());
    Some(stands.weigh(measures, matched))
}

fn explain(
    measures: &Measures<'_>,
    stands: &Standstill<'_>,
    traced: &ThreadRef,
    tracer: Option<&ThreadRef>,
) -> Wording {
    let who = measures.model.threads.who(traced);
    let by = tracer.map_or_else(|| "its tracer".to_string(), |it| measures.model.threads.who(it));
    let title = match stands.has_victims() {
        false => format!("{who} is held by {by}, which traces it"),
        true => {
            format!(
                "{} waits for {who}, which is held by {by}, its tracer",
                stands.victim(measures)
            )
        }
    };
    let fact = format!("{who} is in state t (stopped by a tracer), longest");
    let mut evidence = wait_words::longest_evidence(&stands.longest, &fact);
    if let Some(tracer) = tracer {
        let pid = f64::from(tracer.pid);
        evidence.push(Evidence::new("TracerPid", pid, "pid", "/proc/PID/status"));
    }
    evidence.extend(stands.others_evidence(&who));
    let since = wait_words::duration(&stands.longest);
    Wording {
        title,
        text: format!("{by} has held {who} for {since}. {}", stands.who_waited(measures)),
        evidence,
        remedy: remedy(measures, traced, tracer),
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
