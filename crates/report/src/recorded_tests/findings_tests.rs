//! Every kept recording still comes to the finding that the lab judged right when it was made live.
//!
//! tests/recordings/NAME.rec with NAME.json beside it: code, object and culprit of the first finding above note,
//! or null for a healthy host; where a note was the answer, `note` has the same of it. Made by `holdup-lab run --keep-recordings DIR`, of which only right answers are
//! kept; those called `field-*` are of the field's cases, chosen alike. Replay needs no root, and is the same twice to the
//! last digit.
//!
//! Rejected: keeping whole reports (each better sentence would break them all).

use super::{facts, named};
use holdup_reason::answer::{Culprit, Finding, ObjectName, Severity};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    first: Option<First>,
    #[serde(default)]
    note: Option<First>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct First {
    code: String,
    object: ObjectName,
    culprit: Culprit,
}

impl First {
    /// Whose a culprit is (pod, unit) is said where an expectation says it.
    fn of(found: &Finding, expected: Option<&Self>) -> Self {
        let (code, object) = (found.code.clone(), found.object.clone());
        let mut culprit = found.culprit.clone();
        if expected.is_none_or(|it| it.culprit.workload == Default::default()) {
            culprit.workload = Default::default();
        }
        Self { code, object, culprit }
    }
}

#[test]
fn every_recording_comes_to_its_finding() {
    let all = super::all();
    let mut wrong = Vec::new();
    for recorded in all {
        let (path, report) = (&recorded.path, &recorded.explained.report);
        let text = std::fs::read(path.with_extension("json")).expect("its expectation");
        let expected: Expected = serde_json::from_slice(&text).expect("an expectation");
        let of = |is_it: &dyn Fn(&&Finding) -> bool, expected: Option<&First>| {
            report.findings.iter().find(is_it).map(|found| First::of(found, expected))
        };
        let first = of(&|it| it.severity > Severity::Note, expected.first.as_ref());
        if first != expected.first {
            wrong.push(format!("{}: expected {:?}, got {first:?}", path.display(), expected.first));
        }
        let note = of(&|it| it.severity == Severity::Note, expected.note.as_ref());
        if expected.note.is_some() && note != expected.note {
            wrong.push(format!("{}: expected {:?}, got {note:?}", path.display(), expected.note));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// What an alert that comes again is known by is the same in another look: no number of a process is in it.
#[test]
fn no_key_of_a_finding_has_a_number_of_one_look() {
    let mut keys = 0;
    for recorded in super::all() {
        for finding in &recorded.explained.report.findings {
            let numbers: Vec<&str> = finding.key.split(|c: char| !c.is_ascii_digit()).collect();
            let named = [Some(finding.culprit.name.as_str()), finding.culprit.container.as_deref()];
            let of_one_look =
                finding.culprit.pid.into_iter().chain(finding.victims.iter().map(|it| it.pid));
            for pid in of_one_look.map(|pid| pid.to_string()) {
                let is_a_name = named.iter().flatten().any(|name| name.contains(&pid))
                    || finding.object.name.contains(&pid);
                assert!(
                    is_a_name || !numbers.contains(&pid.as_str()),
                    "{}: {}",
                    recorded.path.display(),
                    finding.key
                );
            }
            assert!(finding.key.starts_with(&finding.code), "{}", finding.key);
            keys += 1;
        }
    }
    assert!(keys > 100, "only {keys} findings");
}

#[test]
fn a_replay_is_the_same_twice() {
    for recorded in super::all() {
        let once = serde_json::to_string(&recorded.explained.report).expect("JSON");
        let again = holdup_reason::explain(facts(&recorded.path));
        let twice = serde_json::to_string(&again).expect("JSON");
        assert_eq!(once, twice, "{}", recorded.path.display());
    }
}

/// No rule names them: a shell with `kill -0` in a loop, and `pg_ctl stop -m smart` while somebody is at psql's prompt.
#[test]
fn who_asks_again_and_again_whether_a_process_lives_is_led_to_it() {
    let answer = |name: &str| &named(name).explained.report.answer;
    let shell = answer("field-asked-after-1.rec");
    assert!(shell.title.starts_with("bash waits for sleep 2450, which sleeps"), "{}", shell.title);
    let server = answer("field-pg-smart-stop-1.rec");
    assert!(server.title.starts_with("pg_ctl waits for a person"), "{}", server.title);
    let through: Vec<&str> =
        server.ends[0].chain.iter().map(|link| link.who.name.as_str()).collect();
    assert_eq!(through, ["pg_ctl", "postgres", "postgres", "psql"]);
}

/// Of Debian's docker.io: the daemon begins the runtime, so nothing of the container descends from the command.
#[test]
fn a_container_that_a_daemon_starts_has_its_phases() {
    let report = &named("field-docker-run-1.rec").explained.report;
    let start = report.container_start.as_ref().expect("a start");
    assert_eq!(start.program, "true");
    assert!((0.2..0.4).contains(&start.seconds), "{start:?}");
    let sum: f64 = start.phases.iter().map(|it| it.seconds).sum();
    assert!((sum - start.seconds).abs() < 1e-6, "{start:?}");
    for phase in ["network", "cgroups", "files"] {
        assert!(start.phases.iter().any(|it| it.phase == phase), "{phase}: {start:?}");
    }
}
