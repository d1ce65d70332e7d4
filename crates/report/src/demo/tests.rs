//! How an answer is held against what was done: right, nearly, or called wrong. No fault is made here.
//!
//! The demonstration itself is run by tests/demonstration.rs, as root and as an ordinary user.

use super::*;

fn report(name: &str) -> Report {
    let path = format!("{}/tests/reports/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("kept")).expect("a report")
}

fn truth(code: &'static str, culprit: Option<u32>) -> Truth {
    Truth { code, culprit, words: "backup 7 holds the lock".into() }
}

#[test]
fn an_answer_is_right_only_with_code_and_culprit() {
    let report = report("file_lock");
    let culprit = report.findings[0].culprit.pid;
    assert!(culprit.is_some());
    assert_eq!(judge(&report, &truth("lock.file", culprit)), Judged::Right);
    assert_eq!(judge(&report, &truth("lock.file", Some(1))), Judged::Other);
    assert_eq!(judge(&report, &truth("process.stopped", culprit)), Judged::Other);
}

#[test]
fn an_answer_without_a_name_is_nearly_right_if_it_leads_there() {
    let report = report("works_command");
    assert!(report.findings.is_empty());
    let first = report.answer.first.expect("one");
    let who = report.answer.ends[first].who.clone().and_then(|who| who.pid);
    assert!(who.is_some());
    assert_eq!(judge(&report, &truth("lock.file", who)), Judged::Led);
    assert_eq!(judge(&report, &truth("lock.file", Some(1))), Judged::Other);
    assert_eq!(judge(&report, &truth("cpu.quota", None)), Judged::Other);
}

#[test]
fn a_wrong_answer_is_called_that() {
    let mut page = Page::new(80, false);
    summary(&[Judged::Right, Judged::Other], 1, &mut page);
    let text = page.finish();
    assert!(text.contains("1 of 2 answers were what was done, 1 left out."), "{text}");
}
