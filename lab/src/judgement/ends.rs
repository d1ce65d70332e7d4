//! Judges an answer about a case of the field: the largest end, and the first finding, each against the truth. Pure.
//!
//! There is one rule for all hosts and moments: a wrong answer on a busy machine is a wrong answer. Two judgements, as docs/lab.md has
//! them. Right end: the largest of `answer.ends` has the kind, the object and the responsible process of the truth, or names nobody
//! where nobody can be seen from outside. Named: the first finding above note has the code, the object and the culprit of
//! the truth.
//!
//! The answer is read as JSON and not as a `Report`: answers of earlier versions are judged anew (`--replay DIR --rejudge`).
//!
//! Edit together: lab/field/harness/truth.py (what a case writes down), lab/field/harness/score.py (what is made of it).

use super::marks::any_in;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a simple rule could say of each kind of end: they are compared by area only, the kindest rule for them.
const AREAS: [(&str, &str); 10] = [
    ("works", "cpu"),
    ("cpu", "cpu"),
    ("device", "disk"),
    ("memory", "memory"),
    ("lock", "lock"),
    ("link", "net"),
    ("remote", "net"),
    ("sleep", "process"),
    ("limit", "process"),
    ("person", "process"),
];

/// What is known beforehand of a question; lab/field/harness/truth.py has the meaning of each.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Truth {
    end: Vec<String>,
    object: Vec<Value>,
    who: Vec<Value>,
    unseen: bool,
    code: Vec<String>,
    culprit: Vec<Value>,
    victim: Vec<Value>,
    healthy: bool,
}

/// A question with its answer.
#[derive(Debug, Deserialize)]
pub struct Answered {
    /// What is true.
    pub truth: Truth,
    /// The report, of whatever version.
    pub report: Value,
    /// What the simple rules said over the same look.
    #[serde(default)]
    pub sayings: Value,
}

/// What was said, against the truth. None: not judged.
#[derive(Debug, Serialize)]
pub struct Judged {
    wall: f64,
    verdict: Value,
    title: Value,
    finding: String,
    end: String,
    /// Seconds of all ends, of idle ones, and of open ones without a reason, for each second of the wall time.
    sum: f64,
    idle: f64,
    open: f64,
    right: Option<bool>,
    strict: Option<bool>,
    named: Option<bool>,
    alarm: Option<bool>,
    /// What is wrong with the largest end.
    why: String,
    /// Areas that are right, and whether the largest end is of one.
    areas: BTreeSet<&'static str>,
    area: Option<bool>,
    /// Whether the busiest process is who would have to act.
    busiest: Option<bool>,
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn area(kind: &str) -> Option<&'static str> {
    AREAS.iter().find(|(of, _)| *of == kind).map(|(_, area)| *area)
}

/// What its chain ends on.
fn last_waited_on(of: &Value) -> Value {
    list(of, "chain").last().map_or(Value::Null, |link| link["waits_on"].clone())
}

/// Judges one.
pub fn judge(answered: &Answered) -> Judged {
    let Answered { truth, report, sayings } = answered;
    let findings = list(report, "findings");
    let pressing: Vec<&Value> =
        findings.iter().filter(|finding| text(finding, "severity") != "note").collect();
    let answer = &report["answer"];
    let ends = list(answer, "ends");
    let idle = json!({"end": "idle"});
    let largest = ends.first().or((text(answer, "verdict") == "idle").then_some(&idle));
    let wall = report["accounting"]["wall_seconds"].as_f64().filter(|it| *it > 0.0).unwrap_or(1e-9);
    let part = |is_it: &dyn Fn(&Value) -> bool| {
        let seconds =
            ends.iter().filter(|end| is_it(end)).filter_map(|end| end["seconds"].as_f64());
        seconds.fold(0.0, |sum, it| sum + it) / wall
    };
    let mut judged = Judged {
        wall,
        verdict: answer["verdict"].clone(),
        title: json!(text(answer, "title")),
        finding: pressing.first().map_or("-".into(), |it| {
            format!("{}@{}", text(it, "code"), text(&it["culprit"], "name"))
        }),
        end: largest.map_or("-".into(), |it| {
            let (object, who) = (text(&it["object"], "name"), text(&it["who"], "name"));
            format!("{}:{object}@{who}", text(it, "end"))
        }),
        sum: part(&|_| true),
        idle: part(&|end| text(end, "end") == "idle"),
        open: part(&|end| text(end, "end") == "open" && text(end, "why_open").is_empty()),
        right: None,
        strict: None,
        named: None,
        alarm: None,
        why: String::new(),
        areas: truth.end.iter().filter_map(|kind| area(kind)).collect(),
        area: None,
        busiest: None,
    };
    if truth.healthy {
        judged.alarm = Some(!pressing.is_empty());
    } else if !truth.end.is_empty() {
        let (wrong, is_strict) = wrong_with(truth, largest.unwrap_or(&Value::Null));
        (judged.right, judged.strict) =
            (Some(wrong.is_empty()), Some(wrong.is_empty() && is_strict));
        judged.why = wrong.join(" ");
        let said = largest.and_then(|end| area(text(end, "end")));
        judged.area = Some(said.is_some_and(|said| judged.areas.contains(said)));
        judged.named = (!truth.code.is_empty()).then(|| is_named(truth, pressing.first()));
        let busiest = &sayings["busiest process"];
        judged.busiest = Some(!busiest.is_null() && any_in(&truth.who, &[busiest]));
    }
    judged
}

/// What is wrong with the largest end, and whether its kind is the first of those that are right.
fn wrong_with(truth: &Truth, end: &Value) -> (Vec<&'static str>, bool) {
    let (kind, who) = (text(end, "end"), &end["who"]);
    let is_strict = truth.end.first().is_some_and(|first| first == kind);
    let is_kind = truth.end.iter().any(|one| one == kind);
    // The truth's object is that of the strict kind; a chain that was cut elsewhere is judged by who.
    let is_elsewhere = is_kind && !is_strict;
    let is_object = is_elsewhere || any_in(&truth.object, &[&end["object"], &last_waited_on(end)]);
    let named = if who.is_null() { &end["object"] } else { who };
    let is_by = any_in(&truth.who, &[named]) || truth.unseen && who.is_null() || kind == "idle";
    let is_victim = any_in(&truth.victim, &[&end["victims"], &end["chain"]]);
    let parts = [("kind", is_kind), ("object", is_object), ("who", is_by), ("victim", is_victim)];
    (parts.iter().filter(|(_, right)| !right).map(|(part, _)| *part).collect(), is_strict)
}

/// Whether the first finding names the cause.
fn is_named(truth: &Truth, first: Option<&&Value>) -> bool {
    let Some(finding) = first else { return false };
    let culprit = if truth.culprit.is_empty() { &truth.who } else { &truth.culprit };
    truth.code.iter().any(|code| code == text(finding, "code"))
        && any_in(&truth.object, &[&finding["object"], &last_waited_on(finding)])
        && any_in(culprit, &[&finding["culprit"]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of one end, and of one finding if it has a code.
    fn answer(
        kind: &str,
        object: &str,
        who: Option<u32>,
        code: Option<&str>,
        culprit: &str,
    ) -> Value {
        let link = json!({"who": {"kind": "process", "name": "sleep", "pid": 9},
                          "waits_on": {"kind": "timer", "name": "timer"}});
        let object = json!({"kind": "lock", "name": object, "id": "5"});
        let mut end =
            json!({"end": kind, "object": object, "seconds": 2.0, "victims": [], "chain": [link]});
        if let Some(pid) = who {
            end["who"] = json!({"kind": "process", "name": "postgres", "pid": pid});
        }
        let finding = code.map(|code| {
            json!({"code": code, "severity": "critical", "object": object, "chain": [],
                   "culprit": {"name": culprit, "pid": who}})
        });
        json!({"accounting": {"wall_seconds": 2.0}, "findings": finding.into_iter().collect::<Vec<_>>(),
               "answer": {"verdict": "held", "title": "", "ends": [end]}})
    }

    fn held_by(who: Option<u32>) -> Value {
        answer("lock", "inside postgres", who, None, "")
    }

    fn truth(more: Value) -> Truth {
        let mut truth = json!({"end": ["lock", "person"], "object": ["postgres"], "who": [41, 42], "code": ["lock.row"]});
        let fields = more.as_object().cloned().unwrap_or_default();
        fields.into_iter().for_each(|(name, value)| truth[name] = value);
        serde_json::from_value(truth).unwrap()
    }

    fn judged(truth: Truth, report: Value) -> Judged {
        judge(&Answered { truth, report, sayings: json!({"busiest process": [42, "x"]}) })
    }

    #[test]
    fn an_end_is_right_with_kind_object_and_who() {
        let right = judged(truth(json!({})), held_by(Some(42)));
        assert_eq!((right.strict, right.busiest), (Some(true), Some(true)));
        assert_eq!(judged(truth(json!({})), held_by(Some(43))).why, "who");
        let elsewhere = answer("lock", "file x", Some(42), None, "");
        assert_eq!(judged(truth(json!({})), elsewhere).why, "object");
        let other = answer("sleep", "inside postgres", Some(42), None, "");
        assert_eq!(judged(truth(json!({})), other).why, "kind");
        assert_eq!(judged(truth(json!({"victim": [9]})), held_by(Some(42))).why, "");
        assert_eq!(judged(truth(json!({"victim": [8]})), held_by(Some(42))).why, "victim");
    }

    #[test]
    fn another_true_kind_is_right_and_not_strict_and_is_judged_by_who() {
        let person =
            |who| judged(truth(json!({})), answer("person", "terminal", Some(who), None, ""));
        assert_eq!((person(41).right, person(41).strict), (Some(true), Some(false)));
        assert_eq!(person(43).right, Some(false));
    }

    #[test]
    fn nobody_is_right_only_where_nobody_can_be_seen() {
        let unseen = || truth(json!({"unseen": true}));
        assert_eq!(judged(truth(json!({})), held_by(None)).right, Some(false));
        assert_eq!(judged(unseen(), held_by(None)).right, Some(true));
        assert_eq!(judged(unseen(), held_by(Some(43))).right, Some(false));
    }

    #[test]
    fn a_finding_is_named_with_code_object_and_culprit() {
        let by = || truth(json!({"culprit": ["postgres"]}));
        let said = |code, culprit| answer("lock", "inside postgres", Some(42), code, culprit);
        assert_eq!(judged(by(), said(Some("lock.row"), "postgres")).named, Some(true));
        assert_eq!(judged(by(), said(Some("lock.futex"), "postgres")).named, Some(false));
        assert_eq!(judged(by(), said(Some("lock.row"), "bash")).named, Some(false));
        assert_eq!(judged(by(), said(None, "")).named, Some(false));
        assert_eq!(judged(truth(json!({"code": []})), said(None, "")).named, None);
    }

    #[test]
    fn whatever_is_found_above_note_is_an_alarm() {
        let healthy = || serde_json::from_value::<Truth>(json!({"healthy": true})).unwrap();
        let mut said = answer("lock", "x", None, Some("cpu.saturated"), "x");
        assert_eq!(judged(healthy(), said.clone()).alarm, Some(true));
        said["findings"][0]["severity"] = json!("note");
        assert_eq!(judged(healthy(), said.clone()).alarm, Some(false));
        assert_eq!(judged(healthy(), said).right, None);
    }

    #[test]
    fn a_look_without_an_end_is_wrong_and_an_idle_one_has_no_one_to_act() {
        let mut empty = held_by(Some(42));
        empty["answer"]["ends"] = json!([]);
        let wrong = judged(truth(json!({})), empty.clone());
        assert_eq!((wrong.right, wrong.sum), (Some(false), 0.0));
        empty["answer"]["verdict"] = json!("idle");
        assert_eq!(judged(truth(json!({})), empty).why, "kind object");
    }

    #[test]
    fn areas_are_those_of_all_true_kinds() {
        let right = judged(truth(json!({})), held_by(Some(42)));
        assert_eq!(right.areas, BTreeSet::from(["lock", "process"]));
        assert_eq!(right.area, Some(true));
    }
}
