//! process.traced: a process stands still in the hands of a tracer.
//!
//! State t is the witness, the tracer's pid in /proc/PID/status the second fact. A debugger at a breakpoint, or a
//! tracer that went away from the keyboard; strace shows as many short stops and becomes a finding only when
//! they add up.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::process::{self, Stalled};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
    code: "process.traced",
    title: "A process is held by a tracer",
    theory: "A debugger or strace (ptrace) stops a process at each event until it is told to go on. At a breakpoint it \
             stands still for as long as the debugger's user thinks; whoever waits for the process waits for him.",
    needs: &[
        "threads of the process are in state t",
        "others wait for it (else it is only a note), or it is the target",
    ],
    refuted_by: &[Refutation::new("state T without a tracer: it is stopped by a signal", "")],
    remedies: &[
        "let it go in the debugger (continue, detach)",
        "end the tracer: the kernel lets the process go",
    ],
    stories: &["S0.4"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    process::stalled(measures, WaitClass::Traced)
        .iter()
        .filter_map(|stalled| finding(measures, stalled))
        .collect()
}

fn finding(measures: &Measures<'_>, stalled: &Stalled<'_>) -> Option<Finding> {
    let traced = stalled.process(measures)?;
    if !stalled.matters() && process::is_told_as_holder(measures, traced.pid) {
        return None;
    }
    let weighed = stalled.weighed();
    let tracer = tracer(measures, &traced);
    let who = words::who(&traced);
    let by = tracer.as_ref().map_or_else(|| "its tracer".to_string(), words::who);
    let longest = stalled.seconds(measures);
    let title = match stalled.others.victims.is_empty() {
        true => format!("{who} is held by {by}, which traces it"),
        false => {
            let victim = measures.process_name(weighed.first_victim());
            format!("{victim} waits for {who}, which is held by {by}, its tracer")
        }
    };
    let waits = stalled.who_waited(measures);
    let mut evidence = vec![Evidence::new(
        format!("{who} is in state t (stopped by a tracer), longest"),
        longest,
        "s",
        "task iterator",
    )];
    if let Some(tracer) = &tracer {
        let pid = f64::from(tracer.pid);
        evidence.push(Evidence::new("TracerPid", pid, "pid", "/proc/PID/status"));
    }
    if !stalled.others.victims.is_empty() {
        evidence.extend(process::wait_evidence(&stalled.others, &who));
    }
    let verdict = Verdict {
        title,
        text: format!("{by} has held {who} for {}. {waits}", words::seconds(longest)),
        confidence: if tracer.is_some() { 0.97 } else { 0.85 },
        culprit: match &tracer {
            Some(tracer) => culprit(measures, tracer),
            None => culprit(measures, &traced),
        },
        evidence,
        remedy: remedy(tracer.as_ref()),
    };
    let mut finding = RULE.finding(measures, weighed, verdict);
    stalled.weigh(measures, &mut finding);
    if finding.culprit == Culprit::default() {
        finding.culprit = culprit(measures, &traced);
    }
    Some(finding)
}

fn tracer(measures: &Measures<'_>, traced: &ThreadRef) -> Option<ThreadRef> {
    let threads = measures.model.threads.values().filter(|t| t.thread.pid == traced.pid);
    let pid = threads.map(|t| t.tracer_pid).find(|pid| *pid != 0)?;
    Some(process::main_thread(measures, pid))
}

fn remedy(tracer: Option<&ThreadRef>) -> Vec<Remedy> {
    let Some(tracer) = tracer else {
        return vec![Remedy {
            text: "find its tracer".into(),
            command: "grep -s 'TracerPid:.*[1-9]' /proc/[0-9]*/status".into(),
            ..Remedy::default()
        }];
    };
    vec![Remedy {
        text:
            "let it go on in the debugger, or end the tracer (the kernel then lets the process go)"
                .into(),
        command: format!("kill {}", tracer.pid),
        ..Remedy::default()
    }]
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
    fn a_process_at_a_breakpoint_that_nobody_waits_for_is_a_note() {
        let mut facts = host();
        facts.push(blocked(20, "server", WaitState::Traced, ""));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.traced", Severity::Note));
    }
}
