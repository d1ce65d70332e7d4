//! fs.copy_up: the first write to a file of a lower layer copies the whole file.
//!
//! Overlay file systems copy within open(2): whoever opens for writing waits for the whole file to be read and
//! written. The functions that do it are in the stacks of both its waits and its samples; the path is the one that
//! the sampled open was given. The disk that it waits for meanwhile is an effect and not told beside
//! it, unless most of the waiting for it is for something else.

use super::{Case, Verdict, culprit, words, work};
use crate::causes::{Cause, Causes};
use crate::facts::{ThreadRef, Work};
use crate::findings::{Evidence, Finding, ObjectName, Remedy, Severity};
use std::collections::BTreeMap;

/// The case.
pub static CASE: Case = Case {
    code: "fs.copy_up",
    title: "The first write to a file of an image's layer copies the whole file",
    theory: "In an overlay (container images, live systems) the lower layers are never written. Who opens one of their \
             files for writing waits inside open() until the whole file has been copied to the upper layer, however \
             little it wants to write. The second open is quick.",
    needs: &[
        "waits or CPU samples whose kernel stack passes ovl_copy_up",
        "they take a tenth or more of the process's time",
    ],
    refuted_by: &["the file is in the upper layer already", "the file system is no overlay"],
    remedies: &[
        "keep files that are written on a volume, not in the image",
        "write to a new file instead of appending to the image's",
        "a file system under the layers that can share blocks (reflink)",
    ],
    stories: &["S0.5", "S1.5"],
    find,
};

fn copies_up(frame: &str) -> bool {
    frame.starts_with("ovl_copy_up") || frame.starts_with("ovl_do_copy_up")
}

/// Most of a disk's waiting is for copies that are told as such.
pub fn is_effect(causes: &Causes<'_>, cause: &Cause) -> bool {
    let scene = causes.scene;
    let (mut all, mut copying) = (0, 0);
    for wait in scene.waits().filter(|w| w.object == cause.object && !w.kernel) {
        let ns = wait.within_ns(scene.begin_ns, scene.end_ns);
        all += ns;
        if scene.stack(wait.place.stack).iter().any(|f| copies_up(f)) {
            copying += ns;
        }
    }
    all > 0 && copying * 2 >= all
}

#[derive(Default)]
struct Copy {
    process: ThreadRef,
    waited: f64,
    ran: f64,
    waits: u64,
}

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    let scene = causes.scene;
    let mut copies: BTreeMap<u32, Copy> = BTreeMap::new();
    let concerned = |thread: &ThreadRef| super::cpu::concerns(causes, thread);
    for wait in scene.waits().filter(|w| !w.kernel && w.place.stack != 0) {
        if scene.stack(wait.place.stack).iter().any(|f| copies_up(f)) && concerned(&wait.thread) {
            let copy = copies.entry(wait.thread.pid).or_default();
            copy.process = scene.thread_ref(wait.thread.pid);
            copy.waited += wait.within_ns(scene.begin_ns, scene.end_ns) as f64 / 1e9;
            copy.waits += 1;
        }
    }
    for samples in scene.samples.iter().filter(|s| s.stack != 0) {
        if scene.stack(samples.stack).iter().any(|f| copies_up(f)) && concerned(&samples.process) {
            let copy = copies.entry(samples.process.pid).or_default();
            copy.process = scene.thread_ref(samples.process.pid);
            copy.ran += samples.count as f64 / f64::from(samples.frequency_hz.max(1));
        }
    }
    let found = copies.into_values().map(|copy| finding(causes, &copy));
    found.filter(|finding| finding.severity > Severity::Note).collect()
}

/// The path that the process opened while it was sampled, if most samples agree on one.
fn opened(causes: &Causes<'_>, pid: u32) -> Option<String> {
    let opens = |w: &&Work| {
        w.process.pid == pid
            && matches!(w.syscall.as_str(), "openat" | "open" | "openat2" | "truncate")
            && w.path.len() > 1
    };
    let most = causes.scene.work.iter().filter(opens).max_by_key(|w| w.count)?;
    Some(most.path.clone())
}

fn finding(causes: &Causes<'_>, copy: &Copy) -> Finding {
    let scene = causes.scene;
    let pid = copy.process.pid;
    let seconds = copy.waited + copy.ran;
    let mut overlays = scene.mounts.iter().filter(|mount| mount.fs_type == "overlay");
    let overlay = overlays.next().filter(|_| overlays.next().is_none());
    let path = opened(causes, pid);
    let file = match &path {
        Some(path) => path.clone(),
        None => "a file of the lower layer".into(),
    };
    let object = match (&path, overlay) {
        (Some(path), _) => ObjectName::new("file", path.clone()),
        (None, Some(mount)) => ObjectName::new("file system", mount.path.clone()),
        (None, None) => ObjectName::new("file system", "overlay"),
    };
    let written: u64 =
        scene.disk_use.iter().filter(|u| u.process.pid == pid).map(|u| u.write_bytes).sum();
    let who = words::who(&copy.process);
    let verdict = Verdict {
        title: format!("{who} waits until {file} is copied up from the image's layer"),
        text: format!(
            "{} pass inside open(): the file is in a read-only layer of an overlay, and is copied as a whole \
             before the first write{}. It happens once for each file.",
            words::of_window(seconds, causes.wall_seconds()),
            match written {
                0 => String::new(),
                bytes => format!(" ({} so far)", words::bytes(bytes as f64)),
            },
        ),
        confidence: 0.95,
        culprit: culprit(causes, &copy.process),
        evidence: vec![
            Evidence::new("waited inside ovl_copy_up", copy.waited, "s", "sched_switch, kernel stacks"),
            Evidence::new("CPU inside ovl_copy_up", copy.ran, "s", "cpu-clock samples, kernel stacks"),
            Evidence::new("waits", copy.waits as f64, "1", "sched_switch"),
            Evidence::new("bytes that it wrote", written as f64, "bytes", "block_bio_queue, writeback_dirty_folio"),
        ],
        remedy: vec![Remedy {
            text: "keep files that are written on a volume (docker run -v, a bind mount), not in the image".into(),
            ..Remedy::default()
        }],
    };
    let lost = vec![(copy.process.clone(), seconds)];
    work::finding(&CASE, causes, object.clone(), object, &lost, verdict)
}

#[cfg(test)]
mod tests {
    use super::super::work_tests::*;
    use crate::judge::explain;

    #[test]
    fn a_copy_up_is_told_with_its_file() {
        let mut facts =
            sampled(&[(&["copy_splice_read", "ovl_copy_up_file", "ovl_open"], 400), (&[], 20)]);
        facts.push(in_call("openat", "/srv/data", 400, 0));
        let report = explain(facts);
        assert_eq!(report.findings[0].code, "fs.copy_up");
        assert_eq!(report.findings[0].object.name, "/srv/data");
    }

    #[test]
    fn other_opens_are_healthy() {
        let mut facts = sampled(&[(&["path_openat", "do_filp_open"], 400)]);
        facts.push(in_call("openat", "/srv/data", 400, 0));
        assert!(explain(facts).findings.is_empty());
    }
}
