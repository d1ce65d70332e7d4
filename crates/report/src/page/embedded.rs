//! What a page holds: the answer in bounds, the picture, and what each named cause was held against.
//!
//! The answer is the JSON of docs/json.md, in which long lists are cut at their less important end and long names in their middle, so that a
//! hostile or huge look makes no huge page. A command is never cut: whoever copies it runs it. What was left out is counted and said on
//! the page.
//!
//! Edit together: crates/reason/src/answer/picture/bounds.rs (the bounds of what is drawn).

use holdup_reason::answer::picture::Picture;
use holdup_reason::answer::{Finding, Link, Report, Victim};
use holdup_reason::rules;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Findings, worst first.
const FINDINGS: usize = 30;
/// Victims of a finding or an end, those that lose most first.
const VICTIMS: usize = 24;
/// Links of a chain.
const LINKS: usize = 16;
/// Functions of a link's stack.
const STACK: usize = 24;
/// Facts of a finding's evidence.
const EVIDENCE: usize = 30;
/// Lines of the kernel's log, of a finding and of none.
const LOG: usize = 20;
/// Caveats.
const CAVEATS: usize = 30;
/// Characters of a name or a sentence.
const TEXT: usize = 400;
/// Characters of a command; a longer one is left out.
const COMMAND: usize = 4_000;

/// The data of a page.
#[derive(Serialize)]
pub(super) struct Embedded<'a> {
    report: Value,
    picture: &'a Picture,
    /// By code: what a rule needs, and what would refute it.
    rules: BTreeMap<&'static str, Tested>,
    /// How many, and of what.
    left_out: Vec<(usize, &'static str)>,
}

/// What a named cause was held against.
#[derive(Serialize)]
struct Tested {
    needs: Vec<&'static str>,
    refuted_by: Vec<&'static str>,
}

impl<'a> Embedded<'a> {
    /// Of an answer and its picture.
    pub(super) fn of(report: &Report, picture: &'a Picture) -> Self {
        let mut left = LeftOut::default();
        let report = bounded(report, &mut left);
        let is_said = |code: &str| report.findings.iter().any(|finding| finding.code == code);
        let tested = rules::all().filter(|rule| is_said(rule.code)).map(|rule| {
            let refuted_by = rule.refuted_by.iter().map(|refutation| refutation.by).collect();
            (rule.code, Tested { needs: rule.needs.to_vec(), refuted_by })
        });
        let rules = tested.collect();
        let mut value = serde_json::to_value(&report).unwrap_or(Value::Null);
        clip(&mut value, "", &mut left);
        Self { report: value, picture, rules, left_out: left.said() }
    }
}

/// Counts of what was left out.
#[derive(Default)]
pub(super) struct LeftOut {
    findings: usize,
    victims: usize,
    details: usize,
    texts: usize,
    commands: usize,
}

impl LeftOut {
    /// How many, and of what.
    pub(super) fn said(&self) -> Vec<(usize, &'static str)> {
        let all = [
            (self.findings, "findings, less severe than those shown"),
            (self.victims, "victims that lose less than those shown"),
            (self.details, "links and stacks of chains, facts of evidence and caveats"),
            (self.texts, "names and sentences cut in their middle"),
            (self.commands, "commands too long to be copied"),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

/// Cuts a list, and counts what went.
pub(super) fn cut<T>(list: &mut Vec<T>, most: usize, left: &mut usize) {
    *left += list.len().saturating_sub(most);
    list.truncate(most);
}

fn bounded(report: &Report, left: &mut LeftOut) -> Report {
    let mut report = report.clone();
    // What the answer has left out already is missing here too.
    for gone in std::mem::take(&mut report.left_out) {
        match gone.list.rsplit('/').next() {
            Some("findings") => left.findings += gone.count,
            Some("victims") => left.victims += gone.count,
            _ => left.details += gone.count,
        }
    }
    cut(&mut report.findings, FINDINGS, &mut left.findings);
    cut(&mut report.caveats, CAVEATS, &mut left.details);
    let links = |chain: &mut Vec<Link>, left: &mut LeftOut| {
        cut(chain, LINKS, &mut left.details);
        chain.iter_mut().for_each(|link| cut(&mut link.stack, STACK, &mut left.details));
    };
    let people = |victims: &mut Vec<Victim>, left: &mut LeftOut| {
        cut(victims, VICTIMS, &mut left.victims);
    };
    cut(&mut report.kernel_log, LOG, &mut left.details);
    for Finding { victims, chain, evidence, kernel_log, .. } in &mut report.findings {
        cut(kernel_log, LOG, &mut left.details);
        people(victims, left);
        links(chain, left);
        cut(evidence, EVIDENCE, &mut left.details);
    }
    for end in &mut report.answer.ends {
        people(&mut end.victims, left);
        links(&mut end.chain, left);
        end.finding = end.finding.filter(|finding| *finding < FINDINGS);
    }
    report
}

/// Cuts long strings, wherever they are; `field` is what a value is called.
pub(super) fn clip(value: &mut Value, field: &str, left: &mut LeftOut) {
    match value {
        Value::String(text) if matches!(field, "command" | "undo" | "ask") => {
            if text.chars().count() > COMMAND {
                left.commands += 1;
                text.clear();
            }
        }
        Value::String(text) => {
            let count = text.chars().count();
            if count > TEXT {
                left.texts += 1;
                let head: String = text.chars().take(TEXT / 2).collect();
                let tail: String = text.chars().skip(count - TEXT / 2 + 1).collect();
                *text = format!("{head}…{tail}");
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| clip(one, field, left)),
        Value::Object(all) => all.iter_mut().for_each(|(name, one)| clip(one, name, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
