//! fs.frozen: writers wait because their file system was frozen (fsfreeze, a snapshot that did not thaw).
//!
//! The witness is the stack (a writer that waits to start a write on the superblock), checked against the
//! superblock's own freeze state where a descriptor leads to it.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::facts::{DeviceNumber, ObjectRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::names;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
    code: "fs.frozen",
    title: "Writers wait for a frozen file system",
    theory: "fsfreeze, and tools that take snapshots, stop all writes to a file system until it is thawed. Writers \
             sleep in state D without any I/O, which looks like a dead disk.",
    needs: &[
        "threads wait to begin a write on a file system (mnt_want_write, sb_start_write)",
        "its superblock is frozen, or nothing of it moves and nobody else writes to it",
    ],
    refuted_by: &[Refutation::new("the superblock is not frozen and the writers go on", "")],
    remedies: &["thaw it", "make the snapshot tool thaw on failure"],
    stories: &["S3.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    measures.class(WaitClass::FrozenFs).map(|end| finding(measures, end)).collect()
}

fn finding(measures: &Measures<'_>, end: &End) -> Finding {
    let model = measures.model;
    let device = measures
        .waits()
        .filter(|w| w.class == WaitClass::FrozenFs && w.object == end.object)
        .find_map(|w| match &w.place.object {
            Some(ObjectRef::File(file)) => Some((file.dev, file.frozen)),
            _ => None,
        });
    let frozen_seen = device.is_some_and(|(_, frozen)| frozen);
    let mount = mount_path(measures, end, device.map(|(dev, _)| dev));
    let victim = measures.process_name(end.first_victim());
    let verdict = Verdict {
        title: format!("{victim} is held up by {mount}, which is frozen"),
        text: format!(
            "{} cannot begin to write to {mount}: the file system is frozen, since {} or longer. The disk under it is \
             not the reason.",
            words::count(end.victims.len(), "process", "processes"),
            words::seconds(end.longest_seconds),
        ),
        confidence: if frozen_seen { 0.98 } else { 0.85 },
        culprit: Culprit::setting(mount.clone(), "fsfreeze"),
        evidence: vec![
            Evidence::new(
                "superblock frozen",
                f64::from(u8::from(frozen_seen)),
                "1",
                "super_block::s_writers.frozen",
            ),
            Evidence::new(
                "longest wait",
                end.longest_seconds,
                "s",
                "sched_switch and the task iterator",
            ),
            Evidence::new("writers waiting", end.victims.len() as f64, "1", "kernel stacks"),
        ],
        remedy: vec![Remedy {
            text: "thaw it".into(),
            command: format!("fsfreeze -u {}", words::shell(&mount)),
            undo: format!("fsfreeze -f {}", words::shell(&mount)),
        }],
    };
    RULE.finding(measures, end, verdict)
}

fn mount_path(measures: &Measures<'_>, end: &End, dev: Option<DeviceNumber>) -> String {
    dev.and_then(|dev| measures.model.mount_of_device(dev))
        .map_or_else(|| measures.model.name_of(&end.object).name, |mount| mount.path.clone())
}
