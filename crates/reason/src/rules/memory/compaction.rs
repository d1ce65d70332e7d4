//! memory.compaction: a program moves other pages out of the way, because no free block of memory is long enough.
//!
//! Free memory in single pages is no use to whoever asks for a huge page or a large buffer: the kernel then moves pages that
//! are in use until a block is free, and the one that asked does it in its own time. Samples below the kernel's direct
//! compaction say who and how much, its own counter says that it happened. Must not: count kcompactd, which does so for
//! everybody in the background, or who asked for it by name (vm.compact_memory). Rejected: the counter alone, which says
//! neither who nor how long.

use crate::facts::Samples;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::engine::Loss;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Claim, Finds, Losses, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::collections::BTreeMap;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.compaction",
    title: "A program makes room for a long block of memory, because what is free lies in pieces",
    theory: "A huge page needs 512 free pages side by side, a jumbo frame or a large kernel buffer some. Where free memory lies \
             in pieces, the kernel moves pages that are in use to one end of a zone, and frees the other (compaction). Whoever \
             asked does that work itself before it goes on (direct compaction), up to milliseconds for each block; what \
             cannot be moved makes it look in vain.",
    needs: &[
        "a sixth of the time of a program, or more, lies below the kernel's direct compaction in its CPU samples",
        "the kernel counts such stalls in the look",
    ],
    refuted_by: &[
        Refutation::new("it costs next to nothing", "a_little_compaction_is_no_loss"),
        Refutation::new(
            "the kernel counts no stall",
            "samples_without_counted_stalls_are_no_proof",
        ),
        Refutation::new(
            "it is done in the background",
            "what_is_done_in_the_background_holds_nobody_up",
        ),
    ],
    remedies: &[
        "ask for huge pages without waiting for them (transparent_hugepage/defrag: defer)",
        "have the kernel keep long blocks free ahead of time (vm.compaction_proactiveness, vm.min_free_kbytes)",
        "reserve them at boot (hugetlb)",
    ],
    stories: &["S3.1"],
    thresholds: &[&COST_MIN, &PART_MIN, &CLAIM_MIN],
    finds: Finds::Look(find),
};

static CLAIM_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "the program's work is this, and no other rule's, where so much of its samples are",
    "most of it",
);

/// Where an allocation that may not fail at once begins to move pages.
const DIRECT: &[&str] = &["try_to_compact_pages", "__alloc_pages_direct_compact"];

/// What the block is for, by the functions that ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    HugePages,
    Reserve,
    Network,
    Other,
}

impl Asked {
    fn by(frames: &[String]) -> Option<Self> {
        let has = |names: &[&str]| {
            frames.iter().any(|frame| names.iter().any(|name| frame.contains(name)))
        };
        if !frames.iter().any(|frame| DIRECT.contains(&frame.as_str())) {
            return None;
        }
        Some(if has(&["hugetlb", "nr_hugepages"]) {
            Self::Reserve
        } else if has(&["huge_pmd", "alloc_anon_folio", "khugepaged", "madvise_collapse"]) {
            Self::HugePages
        } else if has(&["alloc_skb", "skb_page_frag", "sock_alloc_send"]) {
            Self::Network
        } else {
            Self::Other
        })
    }

    const fn words(self) -> &'static str {
        match self {
            Self::HugePages => "huge pages",
            Self::Reserve => "huge pages of the reserve",
            Self::Network => "network buffers",
            Self::Other => "long blocks of memory",
        }
    }
}

/// What is spent for one purpose, by process.
#[derive(Default)]
struct Moved {
    losses: Losses,
    /// Samples in direct compaction, and all samples of these processes.
    moving: u64,
    samples: u64,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let Some(stalls) = stalls(measures).filter(|stalls| *stalls > 0) else { return Vec::new() };
    let mut all: BTreeMap<Asked, Moved> = BTreeMap::new();
    for spent in measures.profile.all().filter(|spent| measures.concerns(&spent.process)) {
        let pid = spent.process.pid;
        let mut by_purpose: BTreeMap<Asked, u64> = BTreeMap::new();
        for Samples { stack, count, .. } in measures.profile.samples(pid) {
            if let Some(asked) = Asked::by(measures.model.stacks.kernel(*stack)) {
                *by_purpose.entry(asked).or_default() += count;
            }
        }
        let moving: u64 = by_purpose.values().sum();
        let Some((asked, _)) = by_purpose.into_iter().max_by_key(|(_, count)| *count) else {
            continue;
        };
        let moved = all.entry(asked).or_default();
        moved.losses.insert(pid, (spent.process.clone(), spent.seconds(moving)));
        moved.moving += moving;
        moved.samples += spent.samples;
    }
    let matched = |(asked, moved)| matched(measures, ends, asked, moved, stalls);
    all.into_iter().filter_map(matched).collect()
}

/// How often somebody had to compact before going on, in the look; none if it was not counted.
fn stalls(measures: &Measures<'_>) -> Option<u64> {
    let memory = &measures.model.memory.samples;
    let ((_, first), (_, last)) = memory.first().zip(memory.last())?;
    Some(last.compaction_stalls.saturating_sub(first.compaction_stalls))
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    asked: Asked,
    moved: Moved,
    stalls: u64,
) -> Option<Match<'m>> {
    let is_own = |end: &End| {
        end.kind == EndKind::Works
            && end.who.as_ref().is_some_and(|who| moved.losses.contains_key(&who.pid))
    };
    let cost = Cost::of(measures, moved.losses.clone(), ends.iter().filter(|end| is_own(end)));
    if !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let mostly = moved.moving as f64 >= CLAIM_MIN.value * moved.samples as f64;
    let claims = (0..ends.len())
        .filter(|end| mostly && is_own(&ends[*end]))
        .map(|end| Claim { end, victims: None })
        .collect();
    let (name, setting) = match asked {
        Asked::HugePages => ("transparent huge pages", DEFRAG),
        _ => ("free memory", "vm.min_free_kbytes"),
    };
    let explained = move |loss: &Loss<'_>| {
        explain(measures, asked, (moved.moving, moved.samples), stalls, loss)
    };
    let matched = Match {
        object: Some(Object::Memory(None)),
        claims,
        ..Match::new(Culprit::setting(name, setting), Proof::TwoWitnesses, explained)
    };
    Some(cost.charge(matched, ("memory", format!("moves pages for {}", asked.words()))))
}

fn explain(
    measures: &Measures<'_>,
    asked: Asked,
    (moving, samples): (u64, u64),
    stalls: u64,
    loss: &Loss<'_>,
) -> Wording {
    let share = moving as f64 / samples.max(1) as f64;
    let last = measures.model.memory.samples.last().map(|(_, last)| last);
    let free = last.map_or(String::new(), |last| {
        format!(" {} are free, in pieces.", words::bytes(last.free_bytes as f64))
    });
    Wording {
        title: format!(
            "{} makes room for {}: free memory lies in pieces",
            loss.victim,
            asked.words()
        ),
        text: format!(
            "{} of its CPU time, {} in {}, goes into moving pages that are in use, until enough free ones lie side by side.{free}",
            words::percent(share),
            words::seconds(loss.seconds),
            words::seconds(loss.wall_seconds),
        ),
        evidence: vec![
            Evidence::new(
                "share of its CPU time in direct compaction",
                share,
                "1",
                "cpu-clock samples, kernel stacks",
            ),
            Evidence::new(
                "allocations of the host that had to compact",
                stalls as f64,
                "1",
                "/proc/vmstat compact_stall",
            ),
        ],
        remedy: vec![remedy(measures, asked)],
    }
}

/// The setting by which a fault for a huge page waits for it or not.
const DEFRAG: &str = "transparent_hugepage.defrag";

fn remedy(measures: &Measures<'_>, asked: Asked) -> Remedy {
    let set = |name: &str| measures.model.net.sysctls.get(name).map(String::as_str);
    match (asked, set(DEFRAG), set("vm.min_free_kbytes").and_then(|kib| kib.parse::<u64>().ok())) {
        (Asked::HugePages, Some(now), _) if now != "defer" && now != "never" => Remedy {
            text: "do not wait for huge pages: small ones at once, and khugepaged joins them later"
                .into(),
            command: "echo defer >/sys/kernel/mm/transparent_hugepage/defrag".into(),
            undo: format!("echo {now} >/sys/kernel/mm/transparent_hugepage/defrag"),
            action: Some(Action::write("/sys/kernel/mm/transparent_hugepage/defrag", "defer", now)),
        },
        (Asked::Reserve, ..) => Remedy {
            text: "reserve huge pages at boot (hugepages=), before memory is in pieces".into(),
            ..Remedy::default()
        },
        (_, _, Some(kib)) => Remedy {
            text: "keep more memory free, so that long blocks last longer".into(),
            command: format!("sysctl -w vm.min_free_kbytes={}", kib.saturating_mul(2)),
            undo: format!("sysctl -w vm.min_free_kbytes={kib}"),
            action: Some(Action::sysctl("vm.min_free_kbytes", kib.saturating_mul(2), kib)),
        },
        _ => Remedy {
            text: "keep more memory free (vm.min_free_kbytes)".into(),
            ..Remedy::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    const MOVES: &[&str] = &[
        "isolate_migratepages_block",
        "compact_zone",
        "try_to_compact_pages",
        "__alloc_pages_direct_compact",
        "do_huge_pmd_anonymous_page",
        "handle_mm_fault",
    ];

    fn found(frames: &[&str], moving: u64, stalls: u64, defrag: &str) -> Vec<Finding> {
        let mut facts = sampled(&[(frames, moving), (&[], 800 - moving)]);
        for (at_ns, compaction_stalls) in [(0, 50), (LOOK_NS, 50 + stalls)] {
            let free_bytes = 2 << 30;
            let sample = MemorySample { free_bytes, compaction_stalls, ..MemorySample::default() };
            facts.push(Fact { at_ns, body: Body::MemorySample(sample) });
        }
        let name = super::DEFRAG.to_string();
        facts.push(fact(Body::Sysctl(Sysctl { name, value: defrag.into() })));
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "memory.compaction");
        found
    }

    #[test]
    fn who_moves_pages_for_huge_ones_is_named_with_the_setting() {
        let found = found(MOVES, 400, 300, "madvise");
        assert_eq!(found[0].title, "app makes room for huge pages: free memory lies in pieces");
        assert!(found[0].text.starts_with("50 % of its CPU time, 2 s in 5 s"), "{}", found[0].text);
        assert!(found[0].text.contains("2 GiB are free"), "{}", found[0].text);
        let undo = "echo madvise >/sys/kernel/mm/transparent_hugepage/defrag";
        assert_eq!(found[0].remedy[0].undo, undo);
    }

    #[test]
    fn where_nobody_would_wait_anyway_more_is_to_be_kept_free() {
        let found = found(MOVES, 400, 300, "defer");
        assert_eq!(found[0].remedy[0].command, "");
    }

    #[test]
    fn other_long_blocks_are_called_so() {
        let found = found(&MOVES[..4], 400, 300, "madvise");
        assert!(found[0].title.starts_with("app makes room for long blocks"));
    }

    #[test]
    fn a_little_compaction_is_no_loss() {
        assert_eq!(found(MOVES, 40, 300, "madvise"), []);
    }

    #[test]
    fn samples_without_counted_stalls_are_no_proof() {
        assert_eq!(found(MOVES, 400, 0, "madvise"), []);
    }

    #[test]
    fn what_is_done_in_the_background_holds_nobody_up() {
        assert_eq!(found(&["compact_zone", "compact_node", "kcompactd"], 400, 300, "madvise"), []);
    }
}
