//! fs.copy_up: the first write to a file of a lower layer copies the whole file.
//!
//! Overlay file systems copy within open(2): whoever opens for writing waits for the whole file to be read and
//! written. The functions that do it are in the stacks of both its waits and its samples; the path is the one that
//! the sampled open was given. The disk that it waits for meanwhile is an effect: where most of what a process waits for it
//! is for the copy, that part is claimed.
//!
//! Must not: claim what others wait for the same disk. Rejected: the size of the upper layer before and after (a copy that
//! is under way is in a hidden work directory).

use crate::facts::{ObjectRef, ThreadRef, Work};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::object::{FileKey, Object};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Claim, Finds, Losses, Match, Refutation, Rule, Step, culprit};
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeMap, BTreeSet};

static RATE: Threshold = Threshold::new(
    0.05,
    "1",
    "seconds a second that go into the copy; less is over before anybody looks",
    "the rate from which on a loss is worth a warning",
);
static SHARE: Threshold = Threshold::new(
    1.0 / 6.0,
    "1",
    "the part of the process's time that goes into the copy: its work takes a fifth longer",
    "the share from which on a loss is worth a warning",
);
static COPYING: Threshold = Threshold::new(
    0.5,
    "1",
    "the part of what a process waits for a disk that is for the copy, from which on that waiting is the copy's",
    "chosen: most",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "fs.copy_up",
    title: "The first write to a file of an image's layer copies the whole file",
    theory: "In an overlay (container images, live systems) the lower layers are never written. Who opens one of their \
             files for writing waits inside open() until the whole file has been copied to the upper layer, however \
             little it wants to write. The second open is quick.",
    needs: &[
        "waits or CPU samples whose kernel stack passes ovl_copy_up",
        "they take a sixth or more of the process's time",
    ],
    refuted_by: &[
        Refutation::new("the file is in the upper layer already", "other_opens_are_healthy"),
        Refutation::new(
            "the file system is no overlay",
            "a_copy_that_a_program_makes_is_its_own_work",
        ),
        Refutation::new(
            "the copy is a small part of what the process does",
            "a_copy_that_takes_a_moment_of_its_time_is_not_reported",
        ),
    ],
    remedies: &[
        "keep files that are written on a volume, not in the image",
        "write to a new file instead of appending to the image's",
        "a file system under the layers that can share blocks (reflink)",
    ],
    stories: &["S0.5", "S1.5"],
    thresholds: &[&RATE, &SHARE, &COPYING],
    finds: Finds::Look(find),
};

fn copies_up(frames: &[String]) -> bool {
    let names = ["ovl_copy_up", "ovl_do_copy_up"];
    frames.iter().any(|frame| names.iter().any(|name| frame.starts_with(name)))
}

#[derive(Default)]
struct Copy {
    process: ThreadRef,
    waited: f64,
    ran: f64,
    waits: u64,
    /// Files that it waited to open, seconds.
    files: BTreeMap<FileKey, f64>,
}

impl Copy {
    fn seconds(&self) -> f64 {
        self.waited + self.ran
    }

    fn file(&self) -> Option<FileKey> {
        let most = self.files.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(*most.0)
    }
}

fn find<'m>(measures: &'m Measures<'m>, open: &'m [End]) -> Vec<Match<'m>> {
    let copies = copies(measures).into_values().filter(|copy| matters(measures, copy));
    copies.map(|copy| matched(measures, open, copy)).collect()
}

/// What each process waited and worked within copies.
fn copies(measures: &Measures<'_>) -> BTreeMap<u32, Copy> {
    let model = measures.model;
    let mut copies: BTreeMap<u32, Copy> = BTreeMap::new();
    for wait in measures.waits().filter(|wait| is_copying(measures, wait)) {
        if !measures.concerns(&wait.thread) {
            continue;
        }
        let copy = copies.entry(wait.thread.pid).or_default();
        let seconds = wait.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
        copy.process = model.threads.thread_ref(wait.thread.pid);
        copy.waited += seconds;
        copy.waits += 1;
        if let Some(ObjectRef::File(file)) = &wait.place.object {
            *copy.files.entry(file.into()).or_default() += seconds;
        }
    }
    for samples in model.cpu.samples.iter().filter(|samples| samples.stack != 0) {
        if copies_up(model.stacks.kernel(samples.stack)) && measures.concerns(&samples.process) {
            let copy = copies.entry(samples.process.pid).or_default();
            copy.process = model.threads.thread_ref(samples.process.pid);
            copy.ran += samples.count as f64 / f64::from(samples.frequency_hz.max(1));
        }
    }
    copies
}

fn is_copying(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    !wait.kernel
        && wait.place.stack != 0
        && copies_up(measures.model.stacks.kernel(wait.place.stack))
}

fn matters(measures: &Measures<'_>, copy: &Copy) -> bool {
    let wall = measures.wall_seconds().max(1e-9);
    let own = match measures.is_command() {
        true => wall,
        false => measures.demand_seconds(copy.process.pid).max(copy.seconds()),
    };
    copy.seconds() >= RATE.value * wall && copy.seconds() >= SHARE.value * own
}

fn matched<'m>(measures: &'m Measures<'m>, open: &'m [End], copy: Copy) -> Match<'m> {
    let (process, seconds) = (copy.process.clone(), copy.seconds());
    let mounts = measures.model.disk.mounts.iter().filter(|mount| mount.fs_type == "overlay");
    let overlays: BTreeSet<_> = mounts.map(|mount| mount.dev).collect();
    let overlay = overlays.first().copied().filter(|_| overlays.len() == 1);
    let object = match copy.file() {
        Some(file) => Object::File(Some(file)),
        None => Object::FileSystem(overlay),
    };
    // The functions are the copy; that the clock hit them too is a second sight of it.
    let proof = match copy.waited > 0.0 && copy.ran > 0.0 {
        true => Proof::TwoWitnesses,
        false => Proof::OneWitness,
    };
    let claims = claims(measures, open, &copy);
    let by = culprit(measures.model, &process);
    let mut matched = Match::new(by, proof, move |loss| explain(measures, &copy, loss));
    matched.claims = claims;
    matched.losses = Some(Losses::from([(process.pid, (process.clone(), seconds))]));
    matched.chain = Some(vec![Step {
        who: process,
        on: object.clone(),
        doing: None,
        seconds,
        when: None,
        because: None,
    }]);
    matched.on(object)
}

/// Disks, journals and memory that the process waits for mostly because it copies.
fn claims(measures: &Measures<'_>, open: &[End], copy: &Copy) -> Vec<Claim> {
    let model = measures.model;
    let pid = copy.process.pid;
    let is_asked = |end: &End| {
        let kind = matches!(end.kind, EndKind::Device | EndKind::Memory);
        kind && (measures.is_command() && !end.victims.is_empty() || end.victims.contains_key(&pid))
    };
    let is_effect = |end: &End| {
        let (mut all, mut copying) = (0, 0);
        let own = |wait: &&WaitSpan| wait.thread.pid == pid && wait.object == end.object;
        for wait in measures.waits().filter(own) {
            let ns = wait.within_ns(model.look.begin_ns, model.look.end_ns);
            all += ns;
            copying += if is_copying(measures, wait) { ns } else { 0 };
        }
        copying > 0 && copying as f64 >= COPYING.value * all as f64
    };
    // Of a command everything is its first process's.
    let victims = (!measures.is_command()).then(|| BTreeSet::from([pid]));
    let ends = open.iter().enumerate().filter(|(_, end)| is_asked(end) && is_effect(end));
    ends.map(|(end, _)| Claim { end, victims: victims.clone() }).collect()
}

/// The path that the process opened while it was sampled, if most samples agree on one.
fn opened(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let opens = |w: &&Work| {
        w.process.pid == pid
            && matches!(w.syscall.as_str(), "openat" | "open" | "openat2" | "truncate")
            && w.path.len() > 1
    };
    let all = || measures.model.cpu.work.iter().filter(opens);
    let most = all().max_by_key(|work| work.count)?;
    (2 * most.count > all().map(|work| work.count).sum()).then(|| most.path.clone())
}

fn explain(measures: &Measures<'_>, copy: &Copy, loss: &Loss<'_>) -> Wording {
    let model = measures.model;
    let pid = copy.process.pid;
    let waited = || Some(model.called.path_of(copy.file()?)?.to_string());
    let file = waited().or_else(|| opened(measures, pid));
    let file = file.unwrap_or_else(|| "a file of the lower layer".into());
    let used = model.disk.used.iter().filter(|used| used.process.pid == pid);
    let written: u64 = used.map(|used| model.disk.asked_here(used, |it| it.write_bytes)).sum();
    let so_far = match written {
        0 => String::new(),
        bytes => format!(" ({} so far)", words::bytes(bytes as f64)),
    };
    let disks = "block_bio_queue, writeback_dirty_folio";
    Wording {
        title: format!(
            "{} waits until {file} is copied up from the image's layer",
            words::who(&copy.process)
        ),
        text: format!(
            "{} pass in copying it: the file is in a read-only layer of an overlay, and is copied as a whole before it is first \
             changed (opened for writing, or given another owner or mode){so_far}. It happens once for each file.",
            words::of_window(loss.seconds, loss.wall_seconds),
        ),
        evidence: vec![
            Evidence::new("waited inside ovl_copy_up", copy.waited, "s", "sched_switch, kernel stacks"),
            Evidence::new("CPU inside ovl_copy_up", copy.ran, "s", "cpu-clock samples, kernel stacks"),
            Evidence::new("waits", copy.waits as f64, "1", "sched_switch"),
            Evidence::new("bytes that it wrote", written as f64, "bytes", disks),
        ],
        remedy: vec![Remedy {
            text: "keep files that are written on a volume (docker run -v, a bind mount), not in the image".into(),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    #[test]
    fn a_copy_up_is_reported_with_its_file() {
        let mut facts =
            sampled(&[(&["copy_splice_read", "ovl_copy_up_file", "ovl_open"], 400), (&[], 20)]);
        facts.push(in_call("openat", "/srv/data", 400, 0));
        let report = explain(facts);
        assert_eq!(report.findings[0].code, "fs.copy_up");
        assert!(report.findings[0].title.contains(" /srv/data "), "{:?}", report.findings[0]);
    }

    #[test]
    fn other_opens_are_healthy() {
        let mut facts = sampled(&[(&["path_openat", "do_filp_open"], 400)]);
        facts.push(in_call("openat", "/srv/data", 400, 0));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn a_copy_that_a_program_makes_is_its_own_work() {
        let facts =
            sampled(&[(&["copy_splice_read", "ext4_file_read_iter", "vfs_copy_file_range"], 400)]);
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn a_copy_that_takes_a_moment_of_its_time_is_not_reported() {
        let facts =
            sampled(&[(&["copy_splice_read", "ovl_copy_up_file", "ovl_open"], 30), (&[], 400)]);
        assert!(explain(facts).findings.iter().all(|finding| finding.code != "fs.copy_up"));
    }

    #[test]
    fn the_disk_that_the_copy_waits_for_is_its_effect_and_others_waits_are_not() {
        const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
        let stack = |id, frames: &[&str]| {
            let frames = frames.iter().map(|frame| (*frame).to_string()).collect();
            fact(Body::Stack(Stack { id, frames }))
        };
        let mut facts = host();
        facts.push(stack(1, &["folio_wait_bit", "ovl_copy_up_data", "ovl_open"]));
        facts.push(fact(Body::Disk(Disk { dev: DISK, name: "vda".into(), ..Disk::default() })));
        for tenth in 0..=50 {
            let sample = DiskSample {
                dev: DISK,
                reads: tenth * 5,
                read_bytes: tenth * 5 * 4096,
                read_ms: tenth * 5 * 40,
                busy_ms: tenth * 100,
                weighted_ms: tenth * 200,
                ..DiskSample::default()
            };
            facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
        }
        facts.push(at_place(10, "app", Place { stack: 1, ..reads_from(DISK) }));
        let codes = |facts: Vec<Fact>| -> Vec<String> {
            explain(facts).findings.into_iter().map(|finding| finding.code).collect()
        };
        assert_eq!(codes(facts.clone()), ["fs.copy_up"]);
        facts.push(at_place(20, "other", reads_from(DISK)));
        assert_eq!(codes(facts), ["disk.device_cap", "fs.copy_up"]);
    }
}
