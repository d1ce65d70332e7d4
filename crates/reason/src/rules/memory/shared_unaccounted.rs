//! memory.shared_unaccounted: shared memory that exists and is in nobody's resident set.
//!
//! A shared anonymous segment lives as long as one process maps it; what a child wrote into it stays when the child
//! ends, and no RSS or PSS shows it. What the segment occupies (st_blocks of its map_files entry) minus the sum of
//! the proportional shares is what is missing. The host's Shmem is the second fact.

use crate::answer::report::*;
use crate::facts::{SharedSegment, ThreadRef};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::{Rule, cpu, culprit, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "memory.shared_unaccounted",
    title: "Shared memory is held that no process's size shows",
    theory: "Shared anonymous memory (a shared mapping of /dev/zero, a memfd, System V or POSIX shared memory) belongs \
             to the segment, not to a process. It is freed when the last process unmaps it. Pages that a child \
             touched stay after the child has ended, and tools that add up processes do not see them: the memory is \
             gone, and nobody has it.",
    needs: &[
        "a segment occupies clearly more than the processes that map it have in their page tables",
        "the host counts at least as much shared memory (Shmem)",
    ],
    refuted_by: &[Refutation::new("the processes' shares add up to what the segment occupies", "")],
    remedies: &[
        "make the cache in it smaller (opcache.memory_consumption, shared_buffers)",
        "restart the process that holds it when it may be empty",
    ],
    stories: &["S4.4"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// Less than this is not worth a word, bytes.
const MISSING_MIN: u64 = 64 << 20;
/// Nor less than this part of the segment.
const MISSING_PART_MIN: f64 = 0.1;
/// From this part of the host's memory on it is more than a note.
const WARNING_PART: f64 = 0.02;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        measures.model.segments.iter().filter_map(|segment| finding(measures, segment)).collect();
    found.sort_by(|a, b| b.evidence[0].value.total_cmp(&a.evidence[0].value));
    found
}

fn finding(measures: &Measures<'_>, segment: &SharedSegment) -> Option<Finding> {
    let model = measures.model;
    let missing = segment.allocated_bytes.saturating_sub(segment.mapped_bytes);
    let holders: Vec<&ThreadRef> =
        segment.mapped_by.iter().filter(|process| cpu::concerns(measures, process)).collect();
    let oldest = *holders.iter().min_by_key(|process| (process.start_ns, process.pid))?;
    let shmem = model.memory.last().map_or(0, |(_, sample)| sample.shmem_bytes);
    let part = missing as f64 / segment.allocated_bytes.max(1) as f64;
    if missing < MISSING_MIN || part < MISSING_PART_MIN || shmem < missing {
        return None;
    }
    let of_host = missing as f64 / model.host.memory_bytes.max(1) as f64;
    let allocated = words::bytes(segment.allocated_bytes as f64);
    let smaps = "/proc/PID/smaps";
    Some(Finding {
        title: format!(
            "{} of shared memory that {} keeps is in no process's size",
            words::bytes(missing as f64),
            words::who(oldest)
        ),
        text: format!(
            "The segment {} (mapped with {}) occupies {allocated}; {} of it is in the page tables of {}. The rest was touched by \
             processes that have ended, and stays until {} or whoever else maps it lets go.",
            segment.name,
            words::bytes(segment.size_bytes as f64),
            words::bytes(segment.mapped_bytes as f64),
            words::count(segment.mapped_by.len(), "process", "processes"),
            words::who(oldest),
        ),
        severity: if of_host >= WARNING_PART { Severity::Warning } else { Severity::Note },
        confidence: 0.95,
        object: ObjectName::new("shared memory", &segment.name).with_id(segment.ino.to_string()),
        culprit: culprit(measures, oldest),
        evidence: vec![
            Evidence::new(
                "the segment occupies",
                segment.allocated_bytes as f64,
                "bytes",
                "st_blocks of /proc/PID/map_files",
            ),
            Evidence::new(
                "in the processes' page tables",
                segment.mapped_bytes as f64,
                "bytes",
                smaps,
            ),
            Evidence::new("in nobody's size", missing as f64, "bytes", "the difference"),
            Evidence::new(
                "shared memory of the host",
                shmem as f64,
                "bytes",
                "/proc/meminfo Shmem",
            ),
        ],
        remedy: vec![Remedy {
            text: "see how large it is, then make the cache in it smaller, or restart its owner"
                .into(),
            command: format!("grep -A 3 -F ':{}' /proc/{}/smaps | head", segment.ino, oldest.pid),
            ..Remedy::default()
        }],
        ..RULE.blank()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::waits::timeline::Observed;

    const MIB: u64 = 1 << 20;

    fn model(allocated: u64, mapped: u64, shmem: u64) -> Observed {
        let owner = ThreadRef { tid: 7, pid: 7, start_ns: 1, comm: "php-fpm".into() };
        let segment = SharedSegment {
            name: "/dev/zero (deleted)".into(),
            ino: 1047,
            size_bytes: 2000 * MIB,
            allocated_bytes: allocated * MIB,
            mapped_bytes: mapped * MIB,
            mapped_by: vec![owner],
        };
        let memory = MemorySample { shmem_bytes: shmem * MIB, ..MemorySample::default() };
        let host = Host { memory_bytes: 16_384 * MIB, ..Host::default() };
        let bodies = [Body::Host(host), Body::MemorySample(memory), Body::SharedSegment(segment)];
        Observed::new(bodies.into_iter().map(|body| Fact { at_ns: 1, body }).collect())
    }

    #[test]
    fn what_ended_children_left_behind_is_told_with_its_owner() {
        let model = model(1000, 1, 1012);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.pid, Some(7));
        assert_eq!(found[0].evidence[0].value, (1000 * MIB) as f64);
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn a_segment_that_is_mapped_whole_is_accounted_for() {
        assert!(find(&Measures::of_observed(&model(1000, 999, 1012))).is_empty());
    }

    #[test]
    fn the_host_must_count_it_too() {
        assert!(find(&Measures::of_observed(&model(1000, 1, 200))).is_empty());
    }
}
