//! A report whose lists are within their bounds, with a count of what each lost.
//!
//! A fork storm has ten thousand victims: whoever reads an answer, a person or a program, must not be flooded by it. Lists are cut at
//! their less important end, after all that is computed from them, and each cut is counted by the JSON Pointer of its list. Must not:
//! bound what is computed, cut a sentence or a command in its middle, or cut what a comparison is made of.
//!
//! Edit together: bounds.rs (how long each may be), docs/json.md.

use super::bounds::{self, *};
use super::report::{
    Action, ActionKind, AnswerEnd, Evidence, Finding, Link, LogLine, Remedy, Report, Victim,
};
use crate::rules::action::PROCESSES_MAX;

/// A report within its bounds.
pub(super) fn bounded(mut report: Report) -> Report {
    let mut cuts = Cuts::default();
    cuts.cut("/findings", &mut report.findings, FINDINGS_MAX);
    cuts.cut("/answer/ends", &mut report.answer.ends, ENDS_MAX);
    cuts.cut("/accounting/parts", &mut report.accounting.parts, PARTS_MAX);
    cuts.cut("/kernel_log", &mut report.kernel_log, LOG_LINES_MAX);
    cuts.cut("/caveats", &mut report.caveats, CAVEATS_MAX);
    if let Some(listening) = &mut report.host.listening {
        cuts.cut("/host/listening", listening, LISTENING_MAX);
    }
    cuts.all.extend(bounds::cut_text("/target/name", &mut report.target.name, WORDS_BYTES_MAX));
    for (at, finding) in report.findings.iter_mut().enumerate() {
        cuts.finding(&format!("/findings/{at}"), finding, victims_max(at));
    }
    for (at, end) in report.answer.ends.iter_mut().enumerate() {
        let AnswerEnd { victims, chain, finding, ask_action, .. } = end;
        cuts.victims(&format!("/answer/ends/{at}"), victims, victims_max(at));
        cuts.chain(&format!("/answer/ends/{at}"), chain);
        if let Some(action) = ask_action {
            cuts.processes(&format!("/answer/ends/{at}/ask_action"), action);
        }
        *finding = finding.filter(|finding| *finding < FINDINGS_MAX);
    }
    if let Some(card) = &mut report.container {
        cuts.cut("/container/cgroups", &mut card.cgroups, CARD_MAX);
        cuts.cut("/container/disks", &mut card.disks, CARD_MAX);
        cuts.cut("/container/interfaces", &mut card.interfaces, CARD_MAX);
    }
    if let Some(start) = &mut report.container_start {
        cuts.cut("/container_start/phases", &mut start.phases, PHASES_MAX);
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

    fn victims(&mut self, of: &str, victims: &mut Vec<Victim>, most: usize) {
        let rest = victims.iter().skip(most);
        let lost: f64 = rest.map(|victim| victim.wait_seconds).sum();
        let before = self.all.len();
        self.cut(&format!("{of}/victims"), victims, most);
        self.all[before..].iter_mut().for_each(|cut| cut.wait_seconds = Some(lost));
    }

    fn chain(&mut self, of: &str, chain: &mut Vec<Link>) {
        self.cut(&format!("{of}/chain"), chain, LINKS_MAX);
        for (at, link) in chain.iter_mut().enumerate() {
            self.cut(&format!("{of}/chain/{at}/stack"), &mut link.stack, STACK_MAX);
        }
    }

    fn finding(&mut self, of: &str, finding: &mut Finding, victims: usize) {
        self.victims(of, &mut finding.victims, victims);
        self.chain(of, &mut finding.chain);
        self.cut::<Evidence>(&format!("{of}/evidence"), &mut finding.evidence, EVIDENCE_MAX);
        self.cut::<Remedy>(&format!("{of}/remedy"), &mut finding.remedy, REMEDIES_MAX);
        for (at, way) in finding.remedy.iter_mut().enumerate() {
            self.way(&format!("{of}/remedy/{at}"), way);
        }
        self.cut::<LogLine>(&format!("{of}/kernel_log"), &mut finding.kernel_log, LOG_LINES_MAX);
        self.cut::<String>(&format!("{of}/stories"), &mut finding.stories, STORIES_MAX);
    }

    /// A command is for the processes that its action names.
    fn way(&mut self, of: &str, way: &mut Remedy) {
        let Some(action) = &mut way.action else { return };
        if self.processes(&format!("{of}/action"), action) && action.kind == ActionKind::Signal {
            (way.command, way.undo) = (action.signal_command(), action.signal_undo());
        }
    }

    /// Whether any is left out.
    fn processes(&mut self, of: &str, action: &mut Action) -> bool {
        let before = self.all.len();
        let pointer = format!("{of}/target/processes");
        self.cut(&pointer, &mut action.target.processes, PROCESSES_MAX);
        self.all.len() > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::container_card::{Card, CardDisk, CardInterface};
    use crate::facts::*;
    use crate::rules::scenes::{blocked, host, thread};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    const SECOND: Ns = 1_000_000_000;
    const WAITERS: u32 = 10_000;
    const HOLDER: u32 = 900;

    /// Ten thousand processes wait for so many locks, whose paths are so long. One has all of them.
    fn storm(locks: u32, path_bytes: usize) -> Vec<Fact> {
        let mut facts = host();
        facts.push(blocked(HOLDER, "holder", WaitState::Sleep, "clock_nanosleep"));
        for pid in 0..WAITERS {
            let lock = pid % locks;
            let path = format!("/tmp/{lock}/{}", "x".repeat(path_bytes));
            let file = FileRef { ino: 7 + u64::from(lock), path: Some(path), ..FileRef::default() };
            let place = Place {
                state: WaitState::Sleep,
                syscall: "flock".into(),
                object: Some(ObjectRef::File(file)),
                ..Place::default()
            };
            let by = thread(HOLDER, "holder");
            let wait = Wait {
                thread: thread(1_000 + pid, "worker"),
                begin_ns: SECOND,
                end_ns: 3 * SECOND,
                place,
                wake: Some(Wake { at_ns: 3 * SECOND, by, ..Wake::default() }),
                ..Wait::default()
            };
            facts.push(Fact { at_ns: 3 * SECOND, body: Body::Wait(wait) });
        }
        facts
    }

    #[test]
    fn a_storm_of_victims_is_cut_and_counted() {
        let report = crate::answer::explain(storm(1, 8));
        let end = &report.answer.ends[0];
        assert_eq!(end.victims.len(), VICTIMS_MAX);
        let cut = report.left_out.iter().find(|cut| cut.list == "/answer/ends/0/victims");
        let cut = cut.unwrap();
        assert_eq!(cut.count, WAITERS as usize - VICTIMS_MAX);
        let shown: f64 = end.victims.iter().map(|victim| victim.wait_seconds).sum();
        let all = shown + cut.wait_seconds.unwrap();
        assert!((all - end.seconds).abs() < 1e-6, "{all} {}", end.seconds);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.len() < 64 * 1024, "{} bytes", json.len());
    }

    #[test]
    fn a_host_with_too_much_of_everything_gives_an_answer_that_is_read_at_once() {
        // The longest paths that there can be are nine tenths of the second one.
        for (path_bytes, most) in [(100, 384 << 10), (4_000, 3 << 20)] {
            let mut facts = storm(500, path_bytes);
            let line = |at: u32| KernelLogLine {
                kind: KernelLogKind::HungTask,
                text: format!("{at} {}", "y".repeat(230)),
                ..KernelLogLine::default()
            };
            let logged = |at| Fact { at_ns: 2 * SECOND, body: Body::KernelLog(line(at)) };
            facts.extend((0..WAITERS).map(logged));
            let report = crate::answer::explain(facts);
            assert!(report.left_out_of("/kernel_log").is_some());
            assert_eq!(report.findings.len(), FINDINGS_MAX);
            let json = serde_json::to_string(&report).unwrap();
            assert!(json.len() < most, "{} bytes", json.len());
        }
    }

    /// A report with one of everything in each of its lists.
    fn one_of_everything() -> Value {
        let mut one = serde_json::to_value(crate::answer::explain(storm(1, 8))).unwrap();
        let line = json!({"seconds": 1.0, "level": "error", "text": "hung"});
        let disk = serde_json::to_value(CardDisk::default()).unwrap();
        let interface = serde_json::to_value(CardInterface::default()).unwrap();
        let mut card = serde_json::to_value(Card::default()).unwrap();
        card["cgroups"] = json!(["/a"]);
        (card["disks"], card["interfaces"]) = (json!([disk]), json!([interface]));
        one["container"] = card;
        let phases = json!([{"phase": "exec", "seconds": 1.0}]);
        one["container_start"] =
            json!({"program": "sh", "pid": 7, "seconds": 1.0, "phases": phases});
        one["caveats"] = json!([{"code": "blind.x", "text": "why"}]);
        one["kernel_log"] = json!([line]);
        one["accounting"]["parts"] = json!([{"class": "file lock", "object": {"kind": "file", "name": "/a"}, "seconds": 1.0}]);
        one.as_object_mut().unwrap().remove("left_out");
        let way = Remedy::to("end it").end(&thread(HOLDER, "holder"));
        let way = serde_json::to_value(way).unwrap();
        one["answer"]["ends"][0]["ask_action"] = way["action"].clone();
        one["findings"][0]["remedy"] = json!([way]);
        one["findings"][0]["kernel_log"] = json!([line]);
        for chain in ["/findings/0/chain", "/answer/ends/0/chain"] {
            one.pointer_mut(chain).unwrap()[0]["stack"] = json!(["main (app)"]);
        }
        one
    }

    /// Every list is made of its first, so often that no bound allows it.
    fn too_long(of: &mut Value) {
        let Value::Object(fields) = of else { return };
        for (name, value) in fields {
            let times = match &name[..] {
                "chain" => LINKS_MAX + 1,
                "stack" | "kernel_log" => STACK_MAX.max(LOG_LINES_MAX) + 1,
                _ => FINDINGS_MAX + 1,
            };
            too_long(value);
            if let Value::Array(list) = value {
                let mut first = list.first().unwrap_or_else(|| panic!("{name} is empty")).clone();
                too_long(&mut first);
                *list = vec![first; times];
            }
        }
    }

    /// Of every list its length, by its pointer.
    fn lengths(of: &Value, at: &str, all: &mut BTreeMap<String, usize>) {
        let mut inside = |name: &str, value| lengths(value, &format!("{at}/{name}"), all);
        match of {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| inside(name, value)),
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(index, it)| inside(&index.to_string(), it));
                all.insert(at.into(), list.len());
            }
            _ => {}
        }
    }

    /// Which lists there are is read from the schema of the answer, elsewhere (report/src/recorded_tests/schema_tests.rs).
    #[test]
    fn every_list_has_a_bound_and_what_it_lost_is_counted() {
        let mut long = one_of_everything();
        too_long(&mut long);
        let report = bounded(serde_json::from_value(long.clone()).unwrap());
        assert!(report.left_out.len() <= LEFT_OUT_MAX, "{} cuts", report.left_out.len());
        let way = &report.findings[0].remedy[0];
        assert_eq!(way.command.matches(' ').count(), PROCESSES_MAX, "{}", way.command);
        let mut short = serde_json::to_value(&report).unwrap();
        short.as_object_mut().unwrap().remove("left_out");
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        lengths(&long, "", &mut before);
        lengths(&short, "", &mut after);
        let cuts: BTreeMap<&str, usize> =
            report.left_out.iter().map(|cut| (&cut.list[..], cut.count)).collect();
        for (list, length) in &after {
            assert!(*length < before[list], "{list} has no bound");
            assert_eq!(cuts.get(&list[..]), Some(&(before[list] - length)), "{list}");
        }
        assert_eq!(cuts.len(), after.len());
    }

    #[test]
    fn the_words_of_a_command_are_cut_after_a_character_and_their_bytes_counted() {
        let mut report = crate::answer::explain(host());
        report.target.name = "é".repeat(WORDS_BYTES_MAX);
        let report = bounded(report);
        assert_eq!(report.target.name.len(), WORDS_BYTES_MAX);
        let cut = report.left_out_of("/target/name").unwrap();
        assert_eq!(cut.count, WORDS_BYTES_MAX);
    }

    #[test]
    fn what_is_short_is_left_as_it_is() {
        let report = crate::answer::explain(host());
        assert!(report.left_out.is_empty());
        assert!(!serde_json::to_string(&report).unwrap().contains("left_out"));
    }
}
