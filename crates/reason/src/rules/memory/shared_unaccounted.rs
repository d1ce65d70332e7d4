//! memory.shared_unaccounted: shared memory that exists and is in nobody's resident set.
//!
//! A shared anonymous segment lives as long as one process maps it; what a child wrote into it stays when the child
//! ends, and no RSS or PSS shows it. What the segment occupies (st_blocks of its map_files entry) minus the sum of
//! the proportional shares is what is missing. The host's Shmem is the second fact. Nobody waits for it, so it claims no
//! end. Must not: call a cache a leak; the way out is to make it smaller. Rejected: Shmem minus the sum of all RSS (a
//! file on tmpfs is in neither).

use crate::facts::{SharedSegment, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::Question;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
    refuted_by: &[
        Refutation::new(
            "the processes' shares add up to what the segment occupies",
            "a_segment_that_is_mapped_whole_is_accounted_for",
        ),
        Refutation::new(
            "the host counts less shared memory than is missing",
            "the_host_must_count_it_too",
        ),
    ],
    remedies: &[
        "make the cache in it smaller (opcache.memory_consumption, shared_buffers)",
        "restart the process that holds it when it may be empty",
    ],
    stories: &["S4.4"],
    thresholds: &[&MISSING_MIN, &MISSING_PART_MIN, &OF_HOST_MIN],
    finds: Finds::Look(find),
};

static MISSING_MIN: Threshold = Threshold::new(
    67_108_864.0,
    "bytes",
    "less that is in nobody's size is not worth a word",
    "chosen",
);
static MISSING_PART_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "nor less than this part of the segment: page tables are read one process after the other, and change meanwhile",
    "chosen",
);
static OF_HOST_MIN: Threshold = Threshold::new(
    0.02,
    "1",
    "from this part of the host's memory on it is more than a note",
    "chosen",
);

/// A segment, and what of it is in nobody's size.
struct Missing<'m> {
    segment: &'m SharedSegment,
    bytes: u64,
    shmem_bytes: u64,
    /// Who has mapped it longest, of those that are looked at.
    oldest: &'m ThreadRef,
}

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let segments = measures.model.memory.segments.iter();
    segments.filter_map(|segment| matched(measures, segment)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, segment: &'m SharedSegment) -> Option<Match<'m>> {
    let model = measures.model;
    let bytes = segment.allocated_bytes.saturating_sub(segment.mapped_bytes);
    let holders = segment.mapped_by.iter().filter(|process| measures.concerns(process));
    let oldest = holders.min_by_key(|process| (process.start_ns, process.pid))?;
    let shmem_bytes = model.memory.samples.last().map_or(0, |(_, sample)| sample.shmem_bytes);
    let part = bytes as f64 / segment.allocated_bytes.max(1) as f64;
    if (bytes as f64) < MISSING_MIN.value || part < MISSING_PART_MIN.value || shmem_bytes < bytes {
        return None;
    }
    let of_host = bytes as f64 / model.look.host.memory_bytes.max(1) as f64;
    let severity = if of_host >= OF_HOST_MIN.value { Severity::Warning } else { Severity::Note };
    let missing = Missing { segment, bytes, shmem_bytes, oldest };
    Some(Match {
        severity_min: severity,
        severity_max: severity,
        ..Match::new(culprit(model, oldest), Proof::Read, move |_| explain(&missing))
            .on(Object::SharedMemory(segment.ino))
    })
}

fn explain(missing: &Missing<'_>) -> Wording {
    let Missing { segment, oldest, .. } = missing;
    let allocated = words::bytes(segment.allocated_bytes as f64);
    let unseen = missing.bytes as f64;
    let bytes = |fact: &str, value: f64, source: &str| Evidence::new(fact, value, "bytes", source);
    Wording {
        title: format!(
            "{} of shared memory that {} keeps is in no process's size",
            words::bytes(unseen),
            words::who(oldest)
        ),
        text: format!(
            "The segment {} (mapped with {}) occupies {allocated}; {} of it is in the page tables of {}. The rest is in no page \
             table: it was touched by processes that have ended, was written through a descriptor, or is in swap; it stays until {} or \
             whoever else maps it lets go.",
            segment.name,
            words::bytes(segment.size_bytes as f64),
            words::bytes(segment.mapped_bytes as f64),
            words::count(segment.mapped_by.len(), "process", "processes"),
            words::who(oldest),
        ),
        evidence: vec![
            bytes(
                "the segment occupies",
                segment.allocated_bytes as f64,
                "st_blocks of /proc/PID/map_files",
            ),
            bytes("in the processes' page tables", segment.mapped_bytes as f64, "/proc/PID/smaps"),
            bytes("in nobody's size", unseen, "the difference"),
            bytes("shared memory of the host", missing.shmem_bytes as f64, "/proc/meminfo Shmem"),
        ],
        remedy: vec![
            Remedy {
                text:
                    "see how large it is, then make the cache in it smaller, or restart its owner"
                        .into(),
                ..Remedy::default()
            }
            .ask(
                Question::State,
                oldest,
                format!("grep -A 3 -F ':{}' /proc/{}/smaps | head", segment.ino, oldest.pid),
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;

    const MIB: u64 = 1 << 20;

    fn found(allocated: u64, mapped: u64, shmem: u64) -> Vec<Finding> {
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
        explain(bodies.into_iter().map(|body| Fact { at_ns: 1, body }).collect()).findings
    }

    #[test]
    fn what_ended_children_left_behind_is_shown_with_its_owner() {
        let found = found(1000, 1, 1012);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, "memory.shared_unaccounted");
        assert_eq!((&*found[0].object.kind, &*found[0].object.id), ("shared memory", "1047"));
        assert_eq!(found[0].culprit.pid, Some(7));
        assert_eq!(found[0].evidence[0].value, (1000 * MIB) as f64);
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn a_segment_that_is_mapped_whole_is_accounted_for() {
        assert_eq!(found(1000, 999, 1012), []);
    }

    #[test]
    fn the_host_must_count_it_too() {
        assert_eq!(found(1000, 1, 200), []);
    }
}
