//! process.pipe_peer: writers wait because a pipe is full and its reader does not read.
//!
//! A log collector that was stopped, a reader that sleeps between lines. A reader that is at work all the time is
//! no fault: then the pipe is only the place where a busy pipeline shows that it is busy, and a note says so.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy, Severity};
use crate::facts::{Endpoint, ObjectRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::Refutation;
use crate::rules::old::process::{self, Meanwhile};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("the reader is at work all the time (a pipeline that computes)", ""),
        Refutation::new("the reader itself waits for something with a name", ""),
    ],
    remedies: &[
        "continue or restart the reader",
        "write with O_NONBLOCK and drop, or buffer in a thread of its own",
        "make the pipe larger (F_SETPIPE_SZ) where the reader is late only now and then",
    ],
    stories: &["S0.5"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    measures.class(WaitClass::PipeWrite).map(|end| finding(measures, end)).collect()
}

fn finding(measures: &Measures<'_>, end: &End) -> Finding {
    let doing = process::meanwhile(end);
    let victim = measures.process_name(end.first_victim());
    let reader = end.holder();
    let by = reader.map_or_else(|| "a reader that is not known".to_string(), words::who);
    let pipe = name(measures, end);
    let verdict = Verdict {
        title: match reader {
            Some(_) if doing.at_work => {
                format!("{victim} writes to {pipe} faster than {by} can take it")
            }
            _ => format!("{victim} waits to write to {pipe}: its reader {by} {}", doing.does),
        },
        text: text(measures, end, &by, &doing),
        confidence: match (reader, doing.at_work) {
            (None, _) => 0.6,
            (Some(_), true) => 0.75,
            (Some(_), false) => 0.95,
        },
        culprit: reader.map_or_else(Culprit::default, |reader| culprit(measures, reader)),
        evidence: evidence(measures, end, &by, &doing),
        remedy: remedy(measures, end),
    };
    let mut finding = RULE.finding(measures, end, verdict);
    if doing.at_work {
        finding.severity = Severity::Note;
    }
    finding
}

/// A FIFO by its path where one end's descriptor tells it, else the pipe.
fn name(measures: &Measures<'_>, end: &End) -> String {
    let reads_standard_input = end.holder().is_some_and(|reader| {
        ends(measures, end).any(|end| end.readable && end.fd == 0 && end.process.pid == reader.pid)
    });
    match (&*measures.model.name_of(&end.object).kind, reads_standard_input) {
        ("pipe", true) => "the pipe into its reader's standard input".into(),
        ("pipe", false) => "a full pipe".into(),
        _ => measures.model.name_of(&end.object).name,
    }
}

fn ends<'a>(measures: &'a Measures<'_>, end: &End) -> impl Iterator<Item = &'a Endpoint> {
    let ino = match end.object {
        Object::Pipe(ino) => Some(ino),
        _ => None,
    };
    let all = measures.model.endpoints.iter();
    all.filter(move |end| matches!(&end.object, ObjectRef::Pipe { ino: own } if Some(*own) == ino))
}

fn text(measures: &Measures<'_>, end: &End, by: &str, doing: &Meanwhile) -> String {
    let passed = format!(
        "{} pass in {} for room in {} {}; the longest took {}.",
        words::of_window(end.seconds, measures.wall_seconds()),
        words::count(end.count as usize, "wait", "waits"),
        measures.model.name_of(&end.object).kind,
        measures.model.name_of(&end.object).name,
        words::seconds(end.longest_seconds),
    );
    if doing.at_work {
        return format!("{passed} {by} is at work meanwhile: the pipeline is as fast as it is.");
    }
    format!("{passed} Meanwhile {by} {} for {}.", doing.does, words::percent(doing.share))
}

fn evidence(measures: &Measures<'_>, end: &End, by: &str, doing: &Meanwhile) -> Vec<Evidence> {
    let mut evidence = process::wait_evidence(end, "room in the pipe");
    evidence.push(Evidence::new(
        format!("share of that time in which {by} {}", doing.does),
        doing.share,
        "1",
        "sched_switch and the task iterator",
    ));
    if let Some(reader) = end.holder() {
        let fds = ends(measures, end).filter(|e| e.readable && e.process.pid == reader.pid);
        evidence.push(Evidence::new(
            format!("reading descriptors of {by} on it"),
            fds.count() as f64,
            "1",
            "descriptor iterator",
        ));
    }
    evidence
}

fn remedy(measures: &Measures<'_>, end: &End) -> Vec<Remedy> {
    let Some(reader) = end.holder() else {
        return vec![Remedy {
            text: "find who has its reading end".into(),
            command: format!(
                "ls -l /proc/*/fd 2>/dev/null | grep {}",
                words::shell(&measures.model.name_of(&end.object).name)
            ),
            ..Remedy::default()
        }];
    };
    match end.holder_mostly() {
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
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

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
