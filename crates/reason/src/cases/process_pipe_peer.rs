//! process.pipe_peer: writers wait because a pipe is full and its reader does not read.
//!
//! A log collector that was stopped, a reader that sleeps between lines. A reader that is at work all the time is
//! no fault: then the pipe is only the place where a busy pipeline shows that it is busy, and a note says so.

use super::process::{self, Meanwhile};
use super::{Case, Verdict, culprit, words};
use crate::causes::{Cause, Causes};
use crate::facts::{Endpoint, ObjectRef};
use crate::findings::{Culprit, Evidence, Finding, Remedy, Severity};
use crate::waits::WaitClass;

/// The case.
pub static CASE: Case = Case {
    code: "process.pipe_peer",
    title: "A pipe is full and its reader does not read",
    theory: "A pipe holds 64 KiB by default. When its reader stops reading, the writer sleeps in write(2) as soon as it \
             is full, whatever it wanted to do next: a service that logs through a pipe stands still with its log \
             collector.",
    needs: &[
        "a thread waits in write on a full pipe",
        "the process with the reading end is known by its descriptor, and is not at work: stopped, asleep, or waiting \
         for something else",
    ],
    refuted_by: &[
        "the reader is at work all the time (a pipeline that computes)",
        "the reader itself waits for something with a name",
    ],
    remedies: &[
        "continue or restart the reader",
        "write with O_NONBLOCK and drop, or buffer in a thread of its own",
        "make the pipe larger (F_SETPIPE_SZ) where the reader is late only now and then",
    ],
    stories: &["S0.5"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    causes.class(WaitClass::PipeWrite).map(|cause| finding(causes, cause)).collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause) -> Finding {
    let doing = process::meanwhile(cause);
    let victim = causes.process_name(cause.first_victim());
    let reader = cause.holder();
    let by = reader.map_or_else(|| "a reader that is not known".to_string(), words::who);
    let pipe = name(causes, cause);
    let verdict = Verdict {
        title: match reader {
            Some(_) if doing.at_work => {
                format!("{victim} writes to {pipe} faster than {by} can take it")
            }
            _ => format!("{victim} waits to write to {pipe}: its reader {by} {}", doing.does),
        },
        text: text(causes, cause, &by, &doing),
        confidence: match (reader, doing.at_work) {
            (None, _) => 0.6,
            (Some(_), true) => 0.75,
            (Some(_), false) => 0.95,
        },
        culprit: reader.map_or_else(Culprit::default, |reader| culprit(causes, reader)),
        evidence: evidence(causes, cause, &by, &doing),
        remedy: remedy(cause),
    };
    let mut finding = CASE.finding(causes, cause, verdict);
    if doing.at_work {
        finding.severity = Severity::Note;
    }
    finding
}

/// A FIFO by its path where one end's descriptor tells it, else the pipe.
fn name(causes: &Causes<'_>, cause: &Cause) -> String {
    let reads_standard_input = cause.holder().is_some_and(|reader| {
        ends(causes, cause).any(|end| end.readable && end.fd == 0 && end.process.pid == reader.pid)
    });
    match (&*cause.object.kind, reads_standard_input) {
        ("pipe", true) => "the pipe into its reader's standard input".into(),
        ("pipe", false) => "a full pipe".into(),
        _ => cause.object.name.clone(),
    }
}

fn ends<'a>(causes: &'a Causes<'_>, cause: &Cause) -> impl Iterator<Item = &'a Endpoint> {
    let ino: Option<u64> = cause.object.id.parse().ok();
    let all = causes.scene.endpoints.iter();
    all.filter(move |end| matches!(&end.object, ObjectRef::Pipe { ino: own } if Some(*own) == ino))
}

fn text(causes: &Causes<'_>, cause: &Cause, by: &str, doing: &Meanwhile) -> String {
    let passed = format!(
        "{} pass in {} for room in {} {}; the longest took {}.",
        words::of_window(cause.seconds, causes.wall_seconds()),
        words::count(cause.count as usize, "wait", "waits"),
        cause.object.kind,
        cause.object.name,
        words::seconds(cause.longest_seconds),
    );
    if doing.at_work {
        return format!("{passed} {by} is at work meanwhile: the pipeline is as fast as it is.");
    }
    format!("{passed} Meanwhile {by} {} for {}.", doing.does, words::percent(doing.share))
}

fn evidence(causes: &Causes<'_>, cause: &Cause, by: &str, doing: &Meanwhile) -> Vec<Evidence> {
    let mut evidence = process::wait_evidence(cause, "room in the pipe");
    evidence.push(Evidence::new(
        format!("share of that time in which {by} {}", doing.does),
        doing.share,
        "1",
        "sched_switch and the task iterator",
    ));
    if let Some(reader) = cause.holder() {
        let fds = ends(causes, cause).filter(|e| e.readable && e.process.pid == reader.pid);
        evidence.push(Evidence::new(
            format!("reading descriptors of {by} on it"),
            fds.count() as f64,
            "1",
            "descriptor iterator",
        ));
    }
    evidence
}

fn remedy(cause: &Cause) -> Vec<Remedy> {
    let Some(reader) = cause.holder() else {
        return vec![Remedy {
            text: "find who has its reading end".into(),
            command: format!(
                "ls -l /proc/*/fd 2>/dev/null | grep {}",
                words::shell(&cause.object.name)
            ),
            ..Remedy::default()
        }];
    };
    match cause.holder_mostly() {
        Some(WaitClass::Stopped) => vec![Remedy {
            text: "continue the reader".into(),
            command: format!("kill -CONT {}", reader.pid),
            undo: format!("kill -STOP {}", reader.pid),
        }],
        _ => vec![
            Remedy {
                text: format!("see why {} does not read", words::who(reader)),
                command: format!("cat /proc/{}/task/{}/stack", reader.pid, reader.tid),
                ..Remedy::default()
            },
            Remedy {
                text: "let the writer drop or buffer what the reader cannot take".into(),
                ..Remedy::default()
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::cases::process_tests::*;
    use crate::facts::*;
    use crate::findings::Severity;
    use crate::judge::explain;

    fn pipe(reader: Fact) -> Vec<Fact> {
        let pipe = ObjectRef::Pipe { ino: 77 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "write".into(),
            object: Some(pipe.clone()),
            ..Place::default()
        };
        let mut facts = host();
        let mut read = endpoint(20, "collector", pipe.clone());
        let mut write = endpoint(10, "service", pipe);
        if let Body::Endpoint(end) = &mut read.body {
            end.writable = false;
        }
        if let Body::Endpoint(end) = &mut write.body {
            end.readable = false;
        }
        facts.extend([read, write, at_place(10, "service", place), reader]);
        facts
    }

    #[test]
    fn a_stopped_reader_is_named_once() {
        let report = explain(pipe(blocked(20, "collector", WaitState::Stopped, "")));
        assert_eq!(report.findings.len(), 1, "the stopped process is not told again");
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.pipe_peer", Severity::Critical));
        assert_eq!(finding.culprit.pid, Some(20));
        assert_eq!(finding.remedy[0].command, "kill -CONT 20");
    }

    #[test]
    fn a_sleeping_reader_is_named() {
        let report = explain(pipe(blocked(20, "collector", WaitState::Sleep, "nanosleep")));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.pipe_peer", Severity::Critical));
        assert!(finding.title.contains("collector 20 sleeps"), "{}", finding.title);
    }

    #[test]
    fn a_reader_at_work_is_a_note() {
        let ran = Ran { thread: thread(20, "gzip"), begin_ns: 0, end_ns: LOOK_NS, cpu: 0 };
        let report = explain(pipe(fact(Body::Ran(ran))));
        assert!(report.findings.iter().all(|f| f.severity == Severity::Note));
    }
}
