//! memory.fault_storm: a program takes memory from the kernel and gives it back, over and over.
//!
//! Three facts must agree: its CPU samples lie in page faults and in unmapping, the kernel counts its faults, and
//! the faulted pages are many times what it keeps (or unmapping shows in the samples). A program that only grows
//! faults each page once and keeps it. Rejected: the rate of faults alone (a compiler run has it too).

use crate::answer::report::{Evidence, Finding, ObjectName, Remedy};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, words, work};

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("it grows: every page is faulted once and stays", ""),
        Refutation::new("the faults read a disk (then it is the disk, or swap)", ""),
        Refutation::new("it forks: pages are faulted again because they were shared", ""),
    ],
    remedies: &[
        "keep and reuse the buffer",
        "let malloc keep freed memory (trim_threshold, mmap_max)",
        "huge pages for large buffers",
    ],
    stories: &["S3.1"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

const IN_FAULT: &[&str] =
    &["handle_mm_fault", "__handle_mm_fault", "do_user_addr_fault", "do_page_fault"];
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
const PAGE_BYTES: f64 = 4096.0;
const SHARE_MIN: f64 = 0.25;
const FAULTS_MIN: f64 = 200.0;
const AGAIN_MIN: f64 = 4.0;
const CLONE_VM: u64 = 0x100;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    work::findings(measures, finding)
}

fn finding(measures: &Measures<'_>, spent: &work::Spent) -> Option<Finding> {
    let model = measures.model;
    let pid = spent.process.pid;
    let in_fault = work::in_kernel(measures, pid, |f| IN_FAULT.contains(&f));
    let back = work::in_kernel(measures, pid, |f| GIVES_BACK.contains(&f))
        .saturating_sub(work::in_kernel(measures, pid, |f| AT_ITS_END.contains(&f)));
    let share = spent.share(in_fault + back);
    let rates = work::effort(measures, pid)?;
    let copying = model.forks.iter().filter(|(_, fork)| {
        fork.parent.pid == pid && fork.child.pid != pid && fork.flags & CLONE_VM == 0
    });
    if share < SHARE_MIN || rates.faults < FAULTS_MIN || copying.count() >= 3 {
        return None;
    }
    let wall = measures.wall_seconds().max(1e-9);
    let rss = model.identity(&spent.process).map_or(0, |known| known.rss_bytes) as f64;
    let faulted = rates.faults * PAGE_BYTES;
    let again = rss > 0.0 && faulted * wall >= AGAIN_MIN * rss;
    if !again && (back as f64) < 0.1 * (in_fault + back) as f64 {
        return None;
    }
    let seconds = spent.seconds(in_fault + back);
    let who = words::who(&spent.process);
    let verdict = Verdict {
        title: format!(
            "{who} spends {} of its CPU time on taking memory and giving it back",
            words::percent(share)
        ),
        text: format!(
            "{} of CPU in {} go into page faults ({} a second) and unmapping. It keeps {}, and faults in up to {} \
             a second: the same memory again and again.",
            words::seconds(seconds),
            words::seconds(wall),
            words::thousands(rates.faults),
            words::bytes(rss),
            words::bytes(faulted),
        ),
        confidence: if again { 0.92 } else { 0.85 },
        culprit: culprit(measures, &spent.process),
        evidence: vec![
            Evidence::new("CPU in page faults", spent.seconds(in_fault), "s", "cpu-clock samples"),
            Evidence::new("CPU in unmapping", spent.seconds(back), "s", "cpu-clock samples"),
            Evidence::new("share of its CPU time", share, "1", "cpu-clock samples"),
            Evidence::new("page faults", rates.faults, "1/s", "task_struct min_flt, maj_flt"),
            Evidence::new("resident set", rss, "bytes", "/proc/PID/statm"),
        ],
        remedy: remedy(maps_by_itself(measures, pid)),
    };
    let object = measures.model.name_of(&Object::Process(spent.process.pid));
    let on = ObjectName::new("memory", "page faults and unmapping");
    let lost = vec![(spent.process.clone(), seconds)];
    Some(work::finding(&RULE, measures, object, on, &lost, verdict))
}

/// How glibc's malloc takes what is large: it maps it, until one such buffer was freed; from then on what is not
/// larger than that comes from the heap. But for what is above this, which it maps anew each time (64 bits).
const ALWAYS_MAPPED_BYTES: f64 = 32.0 * 1024.0 * 1024.0;

/// The mean length of what a process unmaps by itself, again and again; none if malloc may have done it. By the
/// samples inside munmap: one that takes longer is hit more often.
fn maps_by_itself(measures: &Measures<'_>, pid: u32) -> Option<f64> {
    let calls = |name: &str| {
        let of_it =
            measures.model.work.iter().filter(|w| w.process.pid == pid && w.syscall == name);
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
        },
    ]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::old::work_tests::*;

    const FAULT: &[&str] = &["clear_page_erms", "handle_mm_fault", "do_user_addr_fault"];

    fn program(faults_per_second: u64, rss_bytes: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(FAULT, 500), (&[], 300)]);
        facts.push(effort(Effort { minor_faults: faults_per_second * 5, ..Effort::default() }));
        facts.push(identity(Thread { thread: thread(10, "app"), rss_bytes, ..Thread::default() }));
        facts
    }

    #[test]
    fn the_same_memory_again_and_again_is_told() {
        let report = explain(program(80_000, 4 << 20));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("memory.fault_storm", Some(10)));
        assert!((finding.impact.share - 0.625).abs() < 0.01);
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
