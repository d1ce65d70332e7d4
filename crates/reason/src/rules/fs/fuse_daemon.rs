//! fs.fuse_daemon: a file system's server process is the one that does not answer.
//!
//! Every operation on a FUSE mount is a message to a process. If that process is slow, stuck or stopped, its
//! clients sleep in the kernel; the disk has nothing to do with it. If the daemon itself waits for something that
//! has a name, that is the finding and the daemon a link of the chain.
//!
//! A message and its answer are two switches and two copies: a daemon that answers as quickly as that allows is not slow,
//! and is a note until those who wait for it lose a good part of their time. Rejected: the share alone, which many quick
//! answers reach on a slow host.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy, Severity};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;

/// A round trip takes some tenths of a millisecond where its switches wait for a CPU. Seconds.
const ROUND_TRIP_SECONDS: f64 = 1e-3;
/// From here on quick answers are too many. Seconds waited per second.
const QUICK_RATE: f64 = 0.25;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
    code: "fs.fuse_daemon",
    title: "A FUSE file system's daemon does not answer",
    theory: "Operations on a FUSE mount are requests to a user process. Whoever opens, reads or locks a file there \
             waits for its answer; a slow or stuck daemon looks like a slow disk.",
    needs: &[
        "threads wait for an answer of a FUSE connection",
        "the process that has this connection's device open is known",
    ],
    refuted_by: &[
        Refutation::new("the daemon is itself held up by something with a name", ""),
        Refutation::new("it answers within a millisecond, and little time is lost to it", ""),
    ],
    remedies: &[
        "look at what the daemon does; restart it",
        "abort the connection (/sys/fs/fuse/connections/N/abort)",
    ],
    stories: &["S4.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    measures.class(WaitClass::FuseDaemon).map(|end| finding(measures, end)).collect()
}

fn finding(measures: &Measures<'_>, end: &End) -> Finding {
    let daemon = end.holder();
    let by = daemon.map_or_else(|| "its daemon".to_string(), words::who);
    let victim = measures.process_name(end.first_victim());
    let doing = match end.holder_mostly() {
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::FrozenCgroup) => "is frozen",
        Some(WaitClass::Timer) => "sleeps",
        Some(WaitClass::Running | WaitClass::Unseen) => "is at work",
        _ => "waits itself",
    };
    let stopped = end.holder_mostly() == Some(WaitClass::Stopped);
    let mut remedy = vec![Remedy {
        text: format!("see what {by} does"),
        command: daemon.map_or_else(String::new, |d| format!("cat /proc/{}/task/*/stack", d.pid)),
        ..Remedy::default()
    }];
    if let (true, Some(daemon)) = (stopped, daemon) {
        remedy = vec![Remedy {
            text: "continue the daemon".into(),
            command: format!("kill -CONT {}", daemon.pid),
            undo: format!("kill -STOP {}", daemon.pid),
        }];
    }
    let verdict = Verdict {
        title: format!(
            "{victim} waits for {by}, the daemon of {}",
            measures.model.name_of(&end.object).name
        ),
        text: format!(
            "{} pass in {} requests to the daemon of {}; the longest took {}. The daemon {doing}.",
            words::of_window(end.seconds, measures.wall_seconds()),
            end.count,
            measures.model.name_of(&end.object).name,
            words::seconds(end.longest_seconds),
        ),
        confidence: if daemon.is_some() { 0.92 } else { 0.6 },
        culprit: daemon.map_or_else(Culprit::default, |daemon| culprit(measures, daemon)),
        evidence: vec![
            Evidence::new("wait for the daemon", end.seconds, "s", "kernel stacks (FUSE request)"),
            Evidence::new("requests waited for", end.count as f64, "1", "sched_switch"),
            Evidence::new(
                "daemon known by its open device",
                f64::from(u8::from(daemon.is_some())),
                "1",
                "descriptor iterator",
            ),
        ],
        remedy,
    };
    let mut finding = RULE.finding(measures, end, verdict);
    if answers_quickly(measures, end) {
        finding.severity = Severity::Note;
    }
    finding
}

fn answers_quickly(measures: &Measures<'_>, end: &End) -> bool {
    // Where events came too fast, the quickest answers were only counted, and the mean is of the others.
    let told_seconds = measures.model.window_end.threshold_ns as f64 / 1e9;
    end.seconds < ROUND_TRIP_SECONDS.max(told_seconds) * end.count as f64
        && measures.impact(end).wait_seconds_per_second < QUICK_RATE
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// A client that waits for the daemon so often, so long each time.
    fn severity(count: u64, length_us: u64) -> Severity {
        severity_of_told(count, length_us, 0)
    }

    /// The same where shorter waits than this were at times not told.
    fn severity_of_told(count: u64, length_us: u64, threshold_ns: u64) -> Severity {
        let frames = ["request_wait_answer", "__fuse_simple_request", "fuse_file_read_iter"];
        let frames = frames.iter().map(|f| (*f).to_string()).collect();
        let dev = DeviceNumber { major: 0, minor: 51 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "pread64".into(),
            stack: 1,
            object: Some(ObjectRef::File(FileRef { dev, ..FileRef::default() })),
            ..Place::default()
        };
        let mut facts = host();
        let end = WindowEnd { threshold_ns, ..WindowEnd::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::WindowEnd(end) });
        facts.push(fact(Body::Stack(Stack { id: 1, frames })));
        facts.push(endpoint(20, "archived", ObjectRef::FuseServer { dev }));
        facts.extend((0..count).map(|at| {
            let begin_ns = at * (LOOK_NS / count);
            let end_ns = begin_ns + length_us * 1000;
            let (thread, place) = (thread(10, "reader"), place.clone());
            let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        }));
        let report = explain(facts);
        let finding = report.findings.iter().find(|f| f.code == "fs.fuse_daemon");
        let finding = finding.expect("the daemon");
        assert_eq!(finding.culprit.pid, Some(20));
        finding.severity
    }

    #[test]
    fn a_daemon_that_answers_late_is_told() {
        assert!(severity(7, 40_000) >= Severity::Warning);
        assert!(severity(100, 3_000) >= Severity::Warning);
    }

    #[test]
    fn one_that_answers_at_once_is_a_note_unless_much_time_goes_there() {
        assert_eq!(severity(586, 430), Severity::Note);
        assert!(severity(5_000, 430) >= Severity::Warning);
    }

    #[test]
    fn quick_answers_that_were_only_counted_are_thought_of() {
        assert!(severity_of_told(493, 1_036, 0) >= Severity::Warning);
        assert_eq!(severity_of_told(493, 1_036, 2_000_000), Severity::Note);
        assert!(severity_of_told(100, 3_000, 2_000_000) >= Severity::Warning);
    }
}
