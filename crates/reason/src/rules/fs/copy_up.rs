//! fs.copy_up: the first write to a file of a lower layer copies the whole file.
//!
//! Overlay file systems copy within open(2): whoever opens for writing waits for the whole file to be read and
//! written. The functions that do it are in the stacks of both its waits and its samples; the path is the one that
//! the sampled open was given. The disk that it waits for meanwhile is an effect and not told beside
//! it, unless most of the waiting for it is for something else.

use crate::answer::report::{Evidence, Finding, ObjectName, Remedy, Severity};
use crate::facts::{ThreadRef, Work};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, words, work};
use std::collections::BTreeMap;

/// The case.
pub static RULE: Rule = Rule {
    code: "fs.copy_up",
    title: "The first write to a file of an image's layer copies the whole file",
    theory: "In an overlay (container images, live systems) the lower layers are never written. Who opens one of their \
             files for writing waits inside open() until the whole file has been copied to the upper layer, however \
             little it wants to write. The second open is quick.",
    needs: &[
        "waits or CPU samples whose kernel stack passes ovl_copy_up",
        "they take a tenth or more of the process's time",
    ],
    refuted_by: &[
        Refutation::new("the file is in the upper layer already", ""),
        Refutation::new("the file system is no overlay", ""),
    ],
    remedies: &[
        "keep files that are written on a volume, not in the image",
        "write to a new file instead of appending to the image's",
        "a file system under the layers that can share blocks (reflink)",
    ],
    stories: &["S0.5", "S1.5"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn copies_up(frame: &str) -> bool {
    frame.starts_with("ovl_copy_up") || frame.starts_with("ovl_do_copy_up")
}

/// Most of a disk's waiting is for copies that are told as such.
pub fn is_effect(measures: &Measures<'_>, end: &End) -> bool {
    let model = measures.model;
    let (mut all, mut copying) = (0, 0);
    for wait in measures.waits().filter(|w| w.object == end.object && !w.kernel) {
        let ns = wait.within_ns(model.begin_ns, model.end_ns);
        all += ns;
        if model.stack(wait.place.stack).iter().any(|f| copies_up(f)) {
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

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let model = measures.model;
    let mut copies: BTreeMap<u32, Copy> = BTreeMap::new();
    let concerned = |thread: &ThreadRef| crate::rules::old::cpu::concerns(measures, thread);
    for wait in measures.waits().filter(|w| !w.kernel && w.place.stack != 0) {
        if model.stack(wait.place.stack).iter().any(|f| copies_up(f)) && concerned(&wait.thread) {
            let copy = copies.entry(wait.thread.pid).or_default();
            copy.process = model.thread_ref(wait.thread.pid);
            copy.waited += wait.within_ns(model.begin_ns, model.end_ns) as f64 / 1e9;
            copy.waits += 1;
        }
    }
    for samples in model.samples.iter().filter(|s| s.stack != 0) {
        if model.stack(samples.stack).iter().any(|f| copies_up(f)) && concerned(&samples.process) {
            let copy = copies.entry(samples.process.pid).or_default();
            copy.process = model.thread_ref(samples.process.pid);
            copy.ran += samples.count as f64 / f64::from(samples.frequency_hz.max(1));
        }
    }
    let found = copies.into_values().map(|copy| finding(measures, &copy));
    found.filter(|finding| finding.severity > Severity::Note).collect()
}

/// The path that the process opened while it was sampled, if most samples agree on one.
fn opened(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let opens = |w: &&Work| {
        w.process.pid == pid
            && matches!(w.syscall.as_str(), "openat" | "open" | "openat2" | "truncate")
            && w.path.len() > 1
    };
    let most = measures.model.work.iter().filter(opens).max_by_key(|w| w.count)?;
    Some(most.path.clone())
}

fn finding(measures: &Measures<'_>, copy: &Copy) -> Finding {
    let model = measures.model;
    let pid = copy.process.pid;
    let seconds = copy.waited + copy.ran;
    let mut overlays = model.mounts.iter().filter(|mount| mount.fs_type == "overlay");
    let overlay = overlays.next().filter(|_| overlays.next().is_none());
    let path = opened(measures, pid);
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
        model.disk_use.iter().filter(|u| u.process.pid == pid).map(|u| u.write_bytes).sum();
    let who = words::who(&copy.process);
    let verdict = Verdict {
        title: format!("{who} waits until {file} is copied up from the image's layer"),
        text: format!(
            "{} pass inside open(): the file is in a read-only layer of an overlay, and is copied as a whole \
             before the first write{}. It happens once for each file.",
            words::of_window(seconds, measures.wall_seconds()),
            match written {
                0 => String::new(),
                bytes => format!(" ({} so far)", words::bytes(bytes as f64)),
            },
        ),
        confidence: 0.95,
        culprit: culprit(measures, &copy.process),
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
    work::finding(&RULE, measures, object.clone(), object, &lost, verdict)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::rules::old::work_tests::*;

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
