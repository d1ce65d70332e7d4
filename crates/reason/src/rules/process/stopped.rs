//! process.stopped: a process stands still because of a stop signal.
//!
//! SIGSTOP, ctrl-Z, or a background job that touched its terminal. The scheduler state T is the witness; who
//! sent the signal is told when it came within the look. A stopped process that nobody waits for is a note.

use crate::answer::report::{Evidence, Finding, Remedy};
use crate::facts::{Signal, ThreadRef};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::process::{self, Stalled};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
    code: "process.stopped",
    title: "A process is stopped by a signal",
    theory: "SIGSTOP, ctrl-Z (SIGTSTP), or reading the terminal from the background (SIGTTIN) stops every thread of a \
             process until SIGCONT. Its connections stay open and its locks stay held, so whoever talks to it waits as \
             if it were merely slow.",
    needs: &[
        "threads of the process are in state T",
        "others wait for its answer, its lock or its reading (else it is only a note), or it is the target",
    ],
    refuted_by: &[
        Refutation::new("the process runs or sleeps", ""),
        Refutation::new("state t: it is held by a tracer", ""),
        Refutation::new("its cgroup is frozen", ""),
    ],
    remedies: &["continue it (SIGCONT)", "end it"],
    stories: &["S0.4"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    process::stalled(measures, WaitClass::Stopped)
        .iter()
        .filter_map(|stalled| finding(measures, stalled))
        .collect()
}

fn finding(measures: &Measures<'_>, stalled: &Stalled<'_>) -> Option<Finding> {
    let stopped = stalled.process(measures)?;
    if !stalled.matters() && process::is_told_as_holder(measures, stopped.pid) {
        return None;
    }
    let weighed = stalled.weighed();
    let who = words::who(&stopped);
    let signal = stop_signal(measures, &stopped);
    let by = match signal {
        Some(signal) => {
            format!("{} sent it {}.", words::who(&signal.from), signal_name(signal.signal))
        }
        None => "Who stopped it is not known: it was before the look.".into(),
    };
    let title = match stalled.others.victims.is_empty() {
        true => format!("{who} is stopped by a signal"),
        false => {
            let victim = measures.process_name(weighed.first_victim());
            format!("{victim} waits for {who}, which is stopped by a signal")
        }
    };
    let waits = stalled.who_waited(measures);
    let since = stalled.seconds(measures);
    let mut evidence = vec![Evidence::new(
        format!("{who} is in state T (stopped), since"),
        since,
        "s",
        "task iterator",
    )];
    if let Some(signal) = signal {
        let sent = format!("{} sent by {}", signal_name(signal.signal), words::who(&signal.from));
        evidence.push(Evidence::new(sent, 1.0, "1", "signal_generate"));
    }
    if !stalled.others.victims.is_empty() {
        evidence.extend(process::wait_evidence(&stalled.others, &who));
    }
    let verdict = Verdict {
        title,
        text: format!("{who} has stood still for {}. {by} {waits}", words::seconds(since)),
        confidence: 0.98,
        culprit: culprit(measures, &stopped),
        evidence,
        remedy: vec![Remedy {
            text: "continue it".into(),
            command: format!("kill -CONT {}", stopped.pid),
            undo: format!("kill -STOP {}", stopped.pid),
        }],
    };
    let mut finding = RULE.finding(measures, weighed, verdict);
    stalled.weigh(measures, &mut finding);
    Some(finding)
}

fn stop_signal<'a>(measures: &'a Measures<'_>, stopped: &ThreadRef) -> Option<&'a Signal> {
    measures
        .model
        .signals
        .iter()
        .rev()
        .map(|(_, signal)| signal)
        .find(|signal| signal.to.pid == stopped.pid && (19..=22).contains(&signal.signal))
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        19 => "SIGSTOP",
        20 => "SIGTSTP (ctrl-Z)",
        21 => "SIGTTIN (it read the terminal from the background)",
        22 => "SIGTTOU (it wrote to the terminal from the background)",
        _ => "a stop signal",
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    #[test]
    fn a_stopped_server_is_named_to_its_client() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Stopped, "")));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.stopped", Severity::Critical));
        assert_eq!((finding.culprit.pid, &*finding.object.id), (Some(20), "20"));
        assert_eq!(finding.victims.len(), 1, "the stopped one is no victim");
        assert_eq!(finding.remedy[0].command, "kill -CONT 20");
        assert!(finding.title.starts_with("client waits for server 20"), "{}", finding.title);
    }

    #[test]
    fn a_job_that_nobody_waits_for_is_a_note_and_names_who_stopped_it() {
        let mut facts = host();
        facts.push(blocked(20, "vim", WaitState::Stopped, ""));
        let signal = Signal { from: thread(5, "bash"), to: thread(20, "vim"), signal: 19 };
        facts.push(Fact { at_ns: 1_000, body: Body::Signal(signal) });
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.stopped", Severity::Note));
        assert!(finding.text.contains("bash 5 sent it SIGSTOP"), "{}", finding.text);
    }

    #[test]
    fn asked_about_by_pid_it_is_a_warning() {
        let mut facts = host();
        facts.push(of_process(20, "vim"));
        facts.push(blocked(20, "vim", WaitState::Stopped, ""));
        let report = explain(facts);
        assert_eq!(report.findings[0].severity, Severity::Warning);
    }

    #[test]
    fn a_sleeping_server_is_not_stopped() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Sleep, "epoll_wait")));
        assert!(explain(facts).findings.is_empty());
    }
}
