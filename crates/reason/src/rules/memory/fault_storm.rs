//! memory.fault_storm: a program takes memory from the kernel and gives it back, over and over.
//!
//! Three facts must agree: its CPU samples lie in page faults and in unmapping, the kernel counts its faults, and
//! the faulted pages are many times what it keeps (or unmapping shows in the samples). A program that only grows
//! faults each page once and keeps it: what it keeps is the most that its samples saw, not what it had when it was seen first. It claims the program's work where that is mostly this. Must not: advise settings of
//! malloc to a program that maps by itself. Rejected: the rate of faults alone (a compiler run has it too).

use crate::facts::ThreadRef;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::cpu_profile::{Spent, accounts_memory, is_in_fault};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Claim, Finds, Losses, Match, Refutation, Rule, Step, culprit};
use crate::threshold::Threshold;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.fault_storm",
    title: "A program gives its memory back and takes it again, page by page",
    theory: "Memory from the kernel arrives one page at a time, at the first touch: an exception, a free page, zeroing, a \
             page table entry, about half a microsecond each, and unmapping undoes it all. A program that maps a \
             buffer anew for each request (malloc does so above 128 KiB) pays that for every page, every time, and \
             all its threads share one lock for it.",
    needs: &[
        "a quarter or more of its CPU samples are in page faults and unmapping",
        "the kernel counts its faults: 200 a second or more",
        "it faulted in four times what it keeps, or unmapping has a tenth of those samples",
    ],
    refuted_by: &[
        Refutation::new(
            "it grows: every page is faulted once and stays",
            "a_program_that_grows_is_healthy",
        ),
        Refutation::new(
            "the faults read a disk (then it is the disk, or swap)",
            "faults_that_read_a_disk_refute_it",
        ),
        Refutation::new(
            "it forks: pages are faulted again because they were shared",
            "who_forks_faults_what_was_shared",
        ),
        Refutation::new(
            "the kernel counts few faults",
            "samples_without_counted_faults_are_no_proof",
        ),
    ],
    remedies: &[
        "keep and reuse the buffer",
        "let malloc keep freed memory (trim_threshold, mmap_max)",
        "huge pages for large buffers",
    ],
    stories: &["S3.1"],
    thresholds: &[
        &SHARE_MIN,
        &FAULTS_MIN,
        &AGAIN_MIN,
        &UNMAPPING_MIN,
        &FORKS_MIN,
        &MAJOR_MAX,
        &LOST_PER_SECOND_MIN,
        &LOST_PART_MIN,
        &CLAIM_MIN,
    ],
    finds: Finds::Look(find),
};

static SHARE_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "part of its CPU samples that are in page faults and unmapping: with less, three quarters of its work are something else",
    "chosen; lab, seed 4401: 0.77",
);
static FAULTS_MIN: Threshold = Threshold::new(
    200.0,
    "1/s",
    "faults that the kernel counts: with fewer the samples lie in something else",
    "chosen: low, because huge pages fault rarely and cost more each; lab, seed 4401: 493,000",
);
static AGAIN_MIN: Threshold = Threshold::new(
    4.0,
    "1",
    "it faulted in so many times what it keeps: growing is once",
    "chosen",
);
static UNMAPPING_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "else unmapping has this part of those samples: what only grows gives nothing back",
    "chosen",
);
static FORKS_MIN: Threshold = Threshold::new(
    3.0,
    "forks",
    "who copies its address space so often in a look faults what was shared",
    "chosen",
);
static MAJOR_MAX: Threshold = Threshold::new(
    0.5,
    "1",
    "part of its faults that read a disk or swap; with more it waits for those",
    "chosen",
);
static LOST_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "less CPU than this in a second is not worth a change to the program",
    "chosen: where a wait becomes a warning",
);
static LOST_PART_MIN: Threshold = Threshold::new(
    1.0 / 6.0,
    "1",
    "part of its time that was not idle; of a command, of its life",
    "chosen: where a wait becomes a warning",
);
static CLAIM_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "the program's work is this, and no other rule's, where so much of its samples are",
    "most of it",
);

const GIVES_BACK: &[&str] = &[
    "unmap_region",
    "unmap_page_range",
    "zap_page_range",
    "zap_page_range_single",
    "zap_page_range_single_batched",
    "__do_munmap",
    "do_vmi_munmap",
    "do_vmi_align_munmap",
];
/// Its whole image goes at its end, once.
const AT_ITS_END: &[&str] = &["exit_mmap", "exec_mmap", "mmput", "__mmput"];
/// The smallest page.
const PAGE_BYTES: f64 = 4096.0;
/// WORDING: a smaller part of the cost is not worth a clause.
const ACCOUNTING_PART: f64 = 0.05;
const CLONE_VM: u64 = 0x100;

/// A process that takes memory and gives it back.
struct Storm {
    process: ThreadRef,
    /// CPU in page faults, and in unmapping, seconds.
    in_fault: f64,
    unmapping: f64,
    /// The part of both that is the memory cgroup's accounting, seconds.
    accounting: f64,
    /// Both, of its CPU samples.
    share: f64,
    /// Faults a second.
    faults: f64,
    rss_bytes: f64,
    /// It faulted in many times what it keeps.
    again: bool,
}

impl Storm {
    fn seconds(&self) -> f64 {
        self.in_fault + self.unmapping
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let sampled = measures.sampled();
    sampled.iter().filter_map(|spent| matched(measures, ends, spent)).collect()
}

fn storm(measures: &Measures<'_>, spent: &Spent) -> Option<Storm> {
    let pid = spent.process.pid;
    let in_fault = measures.profile.in_page_faults(pid);
    let unmapping = measures
        .profile
        .in_kernel(pid, |f| GIVES_BACK.contains(&f))
        .saturating_sub(measures.profile.in_kernel(pid, |f| AT_ITS_END.contains(&f)));
    let share = spent.share(in_fault + unmapping);
    let is_part = |f: &String| is_in_fault(f) || GIVES_BACK.contains(&f.as_str());
    let accounting = measures
        .profile
        .in_stacks(pid, |frames| accounts_memory(frames) && frames.iter().any(is_part));
    let faults = measures.profile.rates(pid)?.faults;
    if share < SHARE_MIN.value || faults < FAULTS_MIN.value {
        return None;
    }
    let rss_bytes = measures.profile.rss_bytes_max(&spent.process) as f64;
    let faulted = faults * PAGE_BYTES * measures.wall_seconds().max(1e-9);
    let again = rss_bytes > 0.0 && faulted >= AGAIN_MIN.value * rss_bytes;
    if !again && (unmapping as f64) < UNMAPPING_MIN.value * (in_fault + unmapping) as f64 {
        return None;
    }
    Some(Storm {
        process: spent.process.clone(),
        in_fault: spent.seconds(in_fault),
        unmapping: spent.seconds(unmapping),
        accounting: spent.seconds(accounting),
        share,
        faults,
        rss_bytes,
        again,
    })
}

/// It has its pages from somewhere else: from a disk, or from a parent that shares them until they are written.
fn has_another_reason(measures: &Measures<'_>, pid: u32) -> bool {
    let model = measures.model;
    let copying = model.threads.forks.iter().filter(|(_, fork)| {
        fork.parent.pid == pid && fork.child.pid != pid && fork.flags & CLONE_VM == 0
    });
    let efforts = model.cpu.efforts.iter().filter(|effort| effort.thread.pid == pid);
    let (minor, major) = efforts.fold((0, 0), |(minor, major), effort| {
        (minor + effort.minor_faults, major + effort.major_faults)
    });
    copying.count() >= FORKS_MIN.count() || major as f64 > MAJOR_MAX.value * (minor + major) as f64
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], spent: &Spent) -> Option<Match<'m>> {
    let storm = storm(measures, spent)?;
    let pid = storm.process.pid;
    let wall = measures.wall_seconds().max(1e-9);
    let on_path = || storm.seconds().min(measures.between_waits_on_path(pid));
    let path_seconds = measures.is_command().then(on_path);
    let lost = path_seconds.unwrap_or(storm.seconds());
    let of = if measures.is_command() { wall } else { measures.demand_seconds(pid) };
    let costs = lost >= LOST_PER_SECOND_MIN.value * wall && lost >= LOST_PART_MIN.value * of;
    if !costs || has_another_reason(measures, pid) {
        return None;
    }
    let is_its_work = |end: &End| end.kind == EndKind::Works && end.object == Object::Process(pid);
    let works = ends.iter().position(|end| is_its_work(end) && storm.share >= CLAIM_MIN.value);
    let chain = Step {
        who: storm.process.clone(),
        on: Object::Memory(None),
        doing: Some(("memory", "page faults and unmapping".into())),
        seconds: storm.seconds(),
        when: None,
        because: None,
    };
    let by = culprit(measures.model, &storm.process);
    let proof = if storm.again { Proof::TwoWitnesses } else { Proof::Inferred };
    Some(Match {
        object: Some(Object::Process(pid)),
        claims: works.map(|end| Claim { end, victims: None }).into_iter().collect(),
        losses: Some(Losses::from([(pid, (storm.process.clone(), storm.seconds()))])),
        path_seconds,
        chain: Some(vec![chain]),
        ..Match::new(by, proof, move |loss| explain(measures, &storm, loss))
    })
}

fn explain(measures: &Measures<'_>, storm: &Storm, loss: &Loss<'_>) -> Wording {
    let faulted = storm.faults * PAGE_BYTES;
    let samples = "cpu-clock samples";
    let accounting =
        Evidence::new("CPU in the memory cgroup's accounting", storm.accounting, "s", samples);
    let clause = match storm.accounting >= ACCOUNTING_PART * storm.seconds() {
        true => format!(
            ", {} of it in the memory cgroup's accounting",
            words::seconds(storm.accounting)
        ),
        false => String::new(),
    };
    Wording {
        title: format!(
            "{} spends {} of its CPU time on taking memory and giving it back",
            words::who(&storm.process),
            words::percent(storm.share)
        ),
        text: format!(
            "{} of CPU in {} go into page faults ({} a second) and unmapping{clause}. It keeps {}, and faults in up to {} \
             a second: the same memory again and again.",
            words::seconds(storm.seconds()),
            words::seconds(loss.wall_seconds),
            words::thousands(storm.faults),
            words::bytes(storm.rss_bytes),
            words::bytes(faulted),
        ),
        evidence: vec![
            Evidence::new("CPU in page faults", storm.in_fault, "s", samples),
            Evidence::new("CPU in unmapping", storm.unmapping, "s", samples),
            accounting,
            Evidence::new("share of its CPU time", storm.share, "1", samples),
            Evidence::new("page faults", storm.faults, "1/s", "task_struct min_flt, maj_flt"),
            Evidence::new(
                "resident set",
                storm.rss_bytes,
                "bytes",
                "mm_struct rss_stat, /proc/PID/statm",
            ),
        ],
        remedy: remedy(maps_by_itself(measures, storm.process.pid)),
    }
}

/// How glibc's malloc takes what is large: it maps it, until one such buffer was freed; from then on what is not
/// larger than that comes from the heap. But for what is above this, which it maps anew each time (64 bits).
const ALWAYS_MAPPED_BYTES: f64 = 32.0 * 1024.0 * 1024.0;

/// The mean length of what a process unmaps by itself, again and again; none if malloc may have done it. By the
/// samples inside munmap: one that takes longer is hit more often.
fn maps_by_itself(measures: &Measures<'_>, pid: u32) -> Option<f64> {
    let calls = |name: &str| {
        let of_it =
            measures.model.cpu.work.iter().filter(|w| w.process.pid == pid && w.syscall == name);
        of_it.fold((0, 0), |sum, w| (sum.0 + w.count, sum.1 + w.asked_bytes))
    };
    let ((unmaps, bytes), (moves, _)) = (calls("munmap"), calls("brk"));
    let mean = bytes as f64 / unmaps.max(1) as f64;
    (unmaps > moves && mean > 0.0 && mean <= ALWAYS_MAPPED_BYTES).then_some(mean)
}

fn remedy(by_itself: Option<f64>) -> Vec<Remedy> {
    if let Some(bytes) = by_itself {
        return vec![Remedy {
            text: format!(
                "keep the buffer and use it again: the program unmaps {} at a time, which malloc as it is set by default \
                 would have kept in its heap, so no setting of malloc helps",
                words::bytes(bytes)
            ),
            ..Remedy::default()
        }];
    }
    vec![
        Remedy {
            text: "keep the buffer and use it again; if malloc took it, let malloc keep what is freed (glibc, at the \
                   next start)"
                .into(),
            command: "export GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1073741824"
                .into(),
            undo: "unset GLIBC_TUNABLES".into(),
            ..Remedy::default()
        },
    ]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::Measures;
    use crate::measure::cpu_profile_tests::*;
    use crate::waits::timeline::Observed;

    const FAULT: &[&str] = &["clear_page_erms", "handle_mm_fault", "do_user_addr_fault"];

    fn program(faults_per_second: u64, rss_bytes: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(FAULT, 500), (&[], 300)]);
        facts.push(effort(Effort { minor_faults: faults_per_second * 5, ..Effort::default() }));
        facts.push(identity(Thread { thread: thread(10, "app"), rss_bytes, ..Thread::default() }));
        facts
    }

    #[test]
    fn faults_that_read_a_disk_refute_it() {
        let faults = |minor_faults, major_faults| {
            let mut facts = program(80_000, 4 << 20);
            facts.retain(|fact| !matches!(fact.body, Body::Effort(_)));
            facts.push(effort(Effort { minor_faults, major_faults, ..Effort::default() }));
            explain(facts).findings
        };
        assert_eq!(faults(100_000, 300_000), []);
        assert_eq!(faults(300_000, 100_000).len(), 1);
    }

    #[test]
    fn who_forks_faults_what_was_shared() {
        let forks = |count: u32| {
            let mut facts = program(80_000, 4 << 20);
            facts.extend((0..count).map(|n| {
                let (parent, child) = (thread(10, "app"), thread(100 + n, "app"));
                fact(Body::Fork(Fork { parent, child, flags: 0 }))
            }));
            let mut found = explain(facts).findings;
            found.retain(|finding| finding.code == "memory.fault_storm");
            found.len()
        };
        assert_eq!((forks(3), forks(1)), (0, 1));
    }

    #[test]
    fn the_programs_work_is_claimed_where_it_is_mostly_that() {
        let claimed = |own: u64| {
            let mut facts = sampled(&[(FAULT, 300), (&[], own)]);
            facts.push(effort(Effort { minor_faults: 400_000, ..Effort::default() }));
            let known =
                Thread { thread: thread(10, "app"), rss_bytes: 4 << 20, ..Thread::default() };
            facts.push(identity(known));
            let observed = Observed::new(facts);
            let named = crate::rules::engine::name(&Measures::of_observed(&observed));
            assert_eq!(named[0].rule.code, "memory.fault_storm");
            named[0].claimed.len()
        };
        assert_eq!((claimed(100), claimed(400)), (1, 0));
    }

    #[test]
    fn the_same_memory_again_and_again_is_seen() {
        let report = explain(program(80_000, 4 << 20));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("memory.fault_storm", Some(10)));
        assert!((finding.impact.share - 0.625).abs() < 0.01);
    }

    #[test]
    fn what_the_memory_cgroup_costs_is_a_part_of_it() {
        let charging: &[&str] = &["try_charge_memcg", "charge_memcg", "handle_mm_fault"];
        let reclaiming: &[&str] =
            &["shrink_node", "try_to_free_mem_cgroup_pages", "try_charge_memcg", "handle_mm_fault"];
        // Of memory that the kernel takes for its own in a call.
        let other: &[&str] = &["__memcg_slab_post_alloc_hook", "__x64_sys_open"];
        let mut facts =
            sampled(&[(FAULT, 400), (charging, 60), (reclaiming, 40), (other, 50), (&[], 300)]);
        facts.push(effort(Effort { minor_faults: 400_000, ..Effort::default() }));
        let (thread, rss_bytes) = (thread(10, "app"), 4 << 20);
        facts.push(identity(Thread { thread, rss_bytes, ..Thread::default() }));
        let text = &explain(facts).findings[0].text;
        assert!(
            text.contains("unmapping, 300 ms of it in the memory cgroup's accounting"),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_grows_from_little_is_healthy() {
        let mut facts = program(80_000, 4 << 20);
        assert_eq!(explain(facts.clone()).findings.len(), 1);
        let rss_bytes_max = Some(5 * 80_000 * 4096);
        facts.push(effort(Effort { rss_bytes_max, ..Effort::default() }));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn a_program_that_grows_is_healthy() {
        assert!(explain(program(80_000, 5 * 80_000 * 4096)).findings.is_empty());
    }

    #[test]
    fn samples_without_counted_faults_are_no_proof() {
        assert!(explain(program(10, 4 << 20)).findings.is_empty());
    }

    #[test]
    fn mallocs_settings_are_no_way_out_for_who_maps_by_himself() {
        let command = |calls: &[(&str, u64, u64)]| {
            let mut facts = program(80_000, 4 << 20);
            facts.extend(
                calls.iter().map(|(call, count, mib)| in_call(call, "", *count, mib << 20)),
            );
            explain(facts).findings[0].remedy[0].command.clone()
        };
        assert_eq!(command(&[("munmap", 50, 50)]), "");
        assert!(command(&[("munmap", 50, 50 * 48)]).starts_with("export GLIBC_TUNABLES="));
        assert!(command(&[("munmap", 5, 5), ("brk", 50, 0)]).starts_with("export GLIBC_TUNABLES="));
        assert!(command(&[]).starts_with("export GLIBC_TUNABLES="));
    }
}
