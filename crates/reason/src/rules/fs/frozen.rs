//! fs.frozen: writers wait because their file system was frozen (fsfreeze, a snapshot that did not thaw).
//!
//! The witness is the stack (a writer that waits to start a write on the superblock), checked against the
//! superblock's own freeze state where a descriptor leads to it.

//! Must not: call a file system frozen because its writers wait; they do on a full journal and on a slow disk as well.
//! Rejected: the freezer of the block layer (a suspended dm device), which holds the requests and not the writers.

use crate::facts::{DeviceNumber, ObjectRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "fs.frozen",
    title: "Writers wait for a frozen file system",
    theory: "fsfreeze, and tools that take snapshots, stop all writes to a file system until it is thawed. Writers \
             sleep in state D without any I/O, which looks like a dead disk.",
    needs: &[
        "threads wait to begin a write on a file system (mnt_want_write, sb_start_write)",
        "its superblock is frozen, where a descriptor leads to it",
    ],
    refuted_by: &[Refutation::new(
        "the writers have begun, and wait for the disk",
        "a_writer_that_waits_for_the_disk_is_not_held_by_a_freeze",
    )],
    remedies: &["thaw it", "make the snapshot tool thaw on failure"],
    stories: &["S3.3"],
    thresholds: &[],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::FrozenFs || end.victims.is_empty() {
        return None;
    }
    let seen = superblock(measures, end);
    let is_frozen = seen.is_some_and(|(_, frozen)| frozen);
    let path = mount_path(measures, seen.map(|(dev, _)| dev));
    let proof = if is_frozen { Proof::Read } else { Proof::Inferred };
    let unseen =
        || measures.model.name_of(&end.object).or("a file system that is mounted elsewhere");
    let mount = path.clone().unwrap_or_else(unseen);
    let by = Culprit::setting(mount.clone(), "fsfreeze");
    let thaw = thaw(path.as_deref());
    Some(Match::new(by, proof, move |loss| Wording {
        remedy: vec![thaw.clone()],
        ..explain(end, &mount, is_frozen, loss)
    }))
}

/// The file system behind the descriptor that somebody waits to write to, and whether it is frozen.
fn superblock(measures: &Measures<'_>, end: &End) -> Option<(DeviceNumber, bool)> {
    let own = |class, object| class == WaitClass::FrozenFs && object == &end.object;
    let waits = measures.waits().filter(|wait| own(wait.class, &wait.object));
    let files = waits.filter_map(|wait| match &wait.place.object {
        Some(ObjectRef::File(file)) => Some((file.dev, file.frozen)),
        _ => None,
    });
    files.max_by_key(|(_, frozen)| *frozen)
}

/// Where the host has it; one that only a container has mounted has no path here.
fn mount_path(measures: &Measures<'_>, dev: Option<DeviceNumber>) -> Option<String> {
    dev.and_then(|dev| measures.model.disk.mount_of(dev)).map(|mount| mount.path.clone())
}

fn explain(end: &End, mount: &str, is_frozen: bool, loss: &Loss<'_>) -> Wording {
    let freezes = f64::from(u8::from(is_frozen));
    let waits = "sched_switch and the task iterator";
    Wording {
        title: format!("{} is held up by {mount}, which is frozen", loss.victim),
        text: format!(
            "{} cannot begin to write to {mount}: the file system is frozen, since {} or longer. The disk under it is \
             not the reason.",
            words::count(end.victims.len(), "process", "processes"),
            words::seconds(end.longest_seconds),
        ),
        evidence: vec![
            Evidence::new("superblock frozen", freezes, "1", "super_block::s_writers.frozen"),
            Evidence::new("longest wait", end.longest_seconds, "s", waits),
            Evidence::new("writers waiting", end.victims.len() as f64, "1", "kernel stacks"),
        ],
        remedy: Vec::new(),
    }
}

fn thaw(path: Option<&str>) -> Remedy {
    let Some(path) = path.map(words::shell) else {
        return Remedy::to("thaw it where it is mounted (fsfreeze -u)");
    };
    Remedy {
        command: format!("fsfreeze -u {path}"),
        undo: format!("fsfreeze -f {path}"),
        ..Remedy::to("thaw it")
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const DATA: DeviceNumber = DeviceNumber { major: 8, minor: 17 };

    fn facts(frames: &[&str], frozen: bool) -> Vec<Fact> {
        let frames = frames.iter().map(|frame| (*frame).to_string()).collect();
        let file = FileRef { dev: DATA, ino: 7, frozen, ..FileRef::default() };
        let place = Place {
            state: WaitState::DiskSleep,
            syscall: "write".into(),
            stack: 1,
            object: Some(ObjectRef::File(file)),
            ..Place::default()
        };
        let mount = Mount { dev: DATA, path: "/data".into(), root: "/".into(), ..Mount::default() };
        let mut facts = host();
        facts.push(fact(Body::Stack(Stack { id: 1, frames })));
        facts.push(fact(Body::Mount(mount)));
        facts.push(at_place(10, "writer", place));
        facts
    }

    #[test]
    fn a_writer_that_cannot_begin_is_held_by_a_freeze_seen_or_not() {
        for (frozen, confidence) in [(true, 0.97), (false, 0.9)] {
            let frames = ["percpu_rwsem_wait", "__percpu_down_read", "vfs_write", "ksys_write"];
            let report = explain(facts(&frames, frozen));
            let finding = &report.findings[0];
            assert_eq!((&*finding.code, finding.confidence), ("fs.frozen", confidence));
            assert_eq!(finding.remedy[0].command, "fsfreeze -u /data");
        }
    }

    #[test]
    fn a_writer_that_waits_for_the_disk_is_not_held_by_a_freeze() {
        let frames = ["folio_wait_bit", "folio_wait_writeback", "ext4_write_begin", "vfs_write"];
        let report = explain(facts(&frames, false));
        assert!(report.findings.iter().all(|finding| finding.code != "fs.frozen"));
    }
}
