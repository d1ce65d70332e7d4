//! fs.frozen: writers wait because their file system was frozen (fsfreeze, a snapshot that did not thaw).
//!
//! The witness is the stack (a writer that waits to start a write on the superblock), checked against the
//! superblock's own freeze state where a descriptor leads to it.

use super::{Case, Verdict, words};
use crate::causes::{Cause, Causes};
use crate::facts::{DeviceNumber, ObjectRef};
use crate::findings::{Culprit, Evidence, Finding, Remedy};
use crate::names;
use crate::waits::WaitClass;

/// The case.
pub static CASE: Case = Case {
    code: "fs.frozen",
    title: "Writers wait for a frozen file system",
    theory: "fsfreeze, and tools that take snapshots, stop all writes to a file system until it is thawed. Writers \
             sleep in state D without any I/O, which looks like a dead disk.",
    needs: &[
        "threads wait to begin a write on a file system (mnt_want_write, sb_start_write)",
        "its superblock is frozen, or nothing of it moves and nobody else writes to it",
    ],
    refuted_by: &["the superblock is not frozen and the writers go on"],
    remedies: &["thaw it", "make the snapshot tool thaw on failure"],
    stories: &["S3.3"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    causes.class(WaitClass::FrozenFs).map(|cause| finding(causes, cause)).collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause) -> Finding {
    let scene = causes.scene;
    let device = scene
        .waits()
        .filter(|w| w.class == WaitClass::FrozenFs && w.object == cause.object)
        .find_map(|w| match &w.place.object {
            Some(ObjectRef::File(file)) => Some((file.dev, file.frozen)),
            _ => None,
        });
    let frozen_seen = device.is_some_and(|(_, frozen)| frozen);
    let mount = mount_path(causes, cause, device.map(|(dev, _)| dev));
    let victim = causes.process_name(cause.first_victim());
    let verdict = Verdict {
        title: format!("{victim} is held up by {mount}, which is frozen"),
        text: format!(
            "{} cannot begin to write to {mount}: the file system is frozen, since {} or longer. The disk under it is \
             not the reason.",
            words::count(cause.victims.len(), "process", "processes"),
            words::seconds(cause.longest_seconds),
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
                cause.longest_seconds,
                "s",
                "sched_switch and the task iterator",
            ),
            Evidence::new("writers waiting", cause.victims.len() as f64, "1", "kernel stacks"),
        ],
        remedy: vec![Remedy {
            text: "thaw it".into(),
            command: format!("fsfreeze -u {}", words::shell(&mount)),
            undo: format!("fsfreeze -f {}", words::shell(&mount)),
        }],
    };
    CASE.finding(causes, cause, verdict)
}

fn mount_path(causes: &Causes<'_>, cause: &Cause, dev: Option<DeviceNumber>) -> String {
    dev.and_then(|dev| names::mount_of_device(causes.scene, dev))
        .map_or_else(|| cause.object.name.clone(), |mount| mount.path.clone())
}
