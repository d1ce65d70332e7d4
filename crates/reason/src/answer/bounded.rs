//! A report whose lists are within their bounds, with a count of what each lost.
//!
//! A fork storm has ten thousand victims: whoever reads an answer, a person or a program, must not be flooded by it. Lists are cut at
//! their less important end, after all that is computed from them, and each cut is counted by the JSON Pointer of its list. Must not:
//! bound what is computed, cut a sentence or a command, or cut what a comparison is made of.
//!
//! Edit together: bounds.rs (how long each may be), docs/json.md.

use super::bounds::{self, *};
use super::report::{AnswerEnd, Evidence, Finding, Link, LogLine, Remedy, Report, Victim};

/// A report within its bounds.
pub fn bounded(mut report: Report) -> Report {
    let mut cuts = Cuts::default();
    cuts.cut("/findings", &mut report.findings, FINDINGS_MAX);
    cuts.cut("/answer/ends", &mut report.answer.ends, ENDS_MAX);
    cuts.cut("/accounting/parts", &mut report.accounting.parts, PARTS_MAX);
    cuts.cut("/kernel_log", &mut report.kernel_log, LOG_LINES_MAX);
    cuts.cut("/caveats", &mut report.caveats, CAVEATS_MAX);
    for (at, finding) in report.findings.iter_mut().enumerate() {
        cuts.finding(&format!("/findings/{at}"), finding);
    }
    for (at, end) in report.answer.ends.iter_mut().enumerate() {
        let AnswerEnd { victims, chain, finding, .. } = end;
        cuts.victims(&format!("/answer/ends/{at}"), victims);
        cuts.chain(&format!("/answer/ends/{at}"), chain);
        *finding = finding.filter(|finding| *finding < FINDINGS_MAX);
    }
    if let Some(card) = &mut report.container {
        cuts.cut("/container/cgroups", &mut card.cgroups, CARD_MAX);
        cuts.cut("/container/disks", &mut card.disks, CARD_MAX);
        cuts.cut("/container/interfaces", &mut card.interfaces, CARD_MAX);
    }
    report.left_out = cuts.all;
    report
}

#[derive(Default)]
struct Cuts {
    all: Vec<LeftOut>,
}

impl Cuts {
    fn cut<T>(&mut self, pointer: &str, list: &mut Vec<T>, most: usize) {
        self.all.extend(bounds::cut(pointer, list, most));
    }

    fn victims(&mut self, of: &str, victims: &mut Vec<Victim>) {
        let rest = victims.iter().skip(VICTIMS_MAX);
        let lost: f64 = rest.map(|victim| victim.wait_seconds).sum();
        let before = self.all.len();
        self.cut(&format!("{of}/victims"), victims, VICTIMS_MAX);
        self.all[before..].iter_mut().for_each(|cut| cut.wait_seconds = Some(lost));
    }

    fn chain(&mut self, of: &str, chain: &mut Vec<Link>) {
        self.cut(&format!("{of}/chain"), chain, LINKS_MAX);
        for (at, link) in chain.iter_mut().enumerate() {
            self.cut(&format!("{of}/chain/{at}/stack"), &mut link.stack, STACK_MAX);
        }
    }

    fn finding(&mut self, of: &str, finding: &mut Finding) {
        self.victims(of, &mut finding.victims);
        self.chain(of, &mut finding.chain);
        self.cut::<Evidence>(&format!("{of}/evidence"), &mut finding.evidence, EVIDENCE_MAX);
        self.cut::<Remedy>(&format!("{of}/remedy"), &mut finding.remedy, REMEDIES_MAX);
        self.cut::<LogLine>(&format!("{of}/kernel_log"), &mut finding.kernel_log, LOG_LINES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{host, thread};

    const SECOND: Ns = 1_000_000_000;

    /// Ten thousand processes wait for one lock, and nobody is seen to have it.
    fn storm() -> Vec<Fact> {
        let mut facts = host();
        for pid in 0..10_000u32 {
            let file = FileRef { ino: 7, path: Some("/tmp/lock".into()), ..FileRef::default() };
            let place = Place {
                state: WaitState::Sleep,
                syscall: "flock".into(),
                object: Some(ObjectRef::File(file)),
                ..Place::default()
            };
            let who = thread(1_000 + pid, "worker");
            let wait = Wait {
                thread: who,
                begin_ns: SECOND,
                end_ns: 3 * SECOND,
                place,
                wake: Some(Wake { at_ns: 3 * SECOND, ..Wake::default() }),
                ..Wait::default()
            };
            facts.push(Fact { at_ns: 3 * SECOND, body: Body::Wait(wait) });
        }
        facts
    }

    #[test]
    fn a_storm_of_victims_is_cut_and_counted() {
        let report = crate::answer::explain(storm());
        let end = &report.answer.ends[0];
        assert_eq!(end.victims.len(), VICTIMS_MAX);
        let cut = report.left_out.iter().find(|cut| cut.list == "/answer/ends/0/victims");
        let cut = cut.unwrap();
        assert_eq!(cut.count, 10_000 - VICTIMS_MAX);
        let shown: f64 = end.victims.iter().map(|victim| victim.wait_seconds).sum();
        let all = shown + cut.wait_seconds.unwrap();
        assert!((all - end.seconds).abs() < 1e-6, "{all} {}", end.seconds);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.len() < 64 * 1024, "{} bytes", json.len());
    }

    #[test]
    fn what_is_short_is_left_as_it_is() {
        let report = crate::answer::explain(host());
        assert!(report.left_out.is_empty());
        assert!(!serde_json::to_string(&report).unwrap().contains("left_out"));
    }
}
