//! process.retry of a program that is run again and again and ends with a status: its scenes.
//!
//! Beside failed_program.rs, which words it: the rule's refutation names a test of here.

use crate::answer::explain;
use crate::answer::report::Severity;
use crate::facts::*;
use crate::rules::scenes::*;

/// What is said of a script that runs this program each second, which ends with this status.
fn said(program: &str, status: u32) -> (Severity, String, String) {
    said_with(program, status, Vec::new())
}

/// The same with what else is known.
fn said_with(program: &str, status: u32, others: Vec<Fact>) -> (Severity, String, String) {
    let address = Some("[::1]:80".parse().expect("an address"));
    let refused = Denied { errno: 111, address, ..refusal(10, program, "connect") };
    let facts = [script_whose_children_are_refused(&refused, status * 256), others].concat();
    let findings = explain(facts).findings;
    let found = findings.iter().find(|it| it.code == "process.retry").expect("it is said");
    (found.severity, found.title.clone(), found.remedy[0].text.clone())
}

#[test]
fn an_answer_is_no_failure_and_who_dies_each_time_stays_found() {
    let (severity, title, _) = said("pgrep", 1);
    assert_eq!(severity, Severity::Note, "{title}");
    assert!(title.contains("whose answer is no (status 1)"), "{title}");
    for (program, status) in [("pgrep", 2), ("worker", 1)] {
        let (severity, title, _) = said(program, status);
        assert_ne!(severity, Severity::Note, "{title}");
        assert!(title.contains("which fails with status"), "{title}");
    }
}

#[test]
fn a_no_of_another_host_or_on_a_command_s_path_is_more_than_a_note() {
    for (program, status) in [("ping", 1), ("nc", 1), ("pg_isready", 2)] {
        let (severity, title, _) = said(program, status);
        assert!(severity > Severity::Note, "{title}");
        assert!(title.contains("whose answer is no"), "{title}");
    }
    let look = Target {
        kind: TargetKind::Command,
        name: "sh".into(),
        pid: 10,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    let (severity, title, _) = said_with("pgrep", 1, vec![fact(Body::Target(look))]);
    assert!(severity > Severity::Note, "{title}");
}

#[test]
fn who_runs_it_is_the_script_and_not_the_sleep_beside_it() {
    let (_, title, way) = said("worker", 1);
    assert!(title.starts_with("sh runs worker again"), "{title}");
    assert!(way.contains(", as sh"), "{way}");
}
