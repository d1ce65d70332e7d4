//! disk.cache_miss: a cache in front of a slow disk has little of what is asked, so the slow disk is waited for.
//!
//! A cache target that is there is thought to work. Its counters since boot are a mean over everything that ever
//! happened, and some versions print a ratio that is wrong, so hits and misses are counted over the window. They
//! prove nothing by themselves: a cache that misses what nobody waits for costs nothing. The second fact is where
//! the requests stand meanwhile: at the origin, which is the slower of the two.
//!
//! A cache that is full is too small (or what is read is read once); one that is not full has only not been
//! filled. The ways out differ, so the two are distinguished.

use super::waited::{self, SLOW};
use crate::facts::Disk;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_cache::{self, DiskCache};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::collections::BTreeSet;

static ASKED: Threshold = Threshold::new(
    100.0,
    "1",
    "fewer requests in a window are no ratio",
    "arithmetic: one more hit would change it by more than a percent",
);
static HITS: Threshold = Threshold::new(
    0.5,
    "1",
    "a cache that serves this part of what is asked does its work",
    "chosen: beyond it a request meets the fast disk more often than not",
);
static AT_ORIGIN: Threshold = Threshold::new(
    0.5,
    "1",
    "the part of the requests in flight that stands at the slow disk: most of the waiting must be there",
    "chosen: most",
);
static SLOWER: Threshold = Threshold::new(
    2.0,
    "1",
    "a slow disk that is not so many times slower than the cache would not be much quicker with a better one",
    "chosen: half of the time is saved at best",
);
static FULL: Threshold = Threshold::new(
    0.95,
    "1",
    "a cache with more of its blocks in use has no room to speak of",
    "dm-cache holds a few blocks free for promotions",
);
static UNUSED: Threshold = Threshold::new(
    0.1,
    "1",
    "what the fast disk has left is worth a word from this part of the cache's size on",
    "chosen: less would not be noticed",
);

/// So many times more sectors may be on the move at once, in the command that is advised.
const FASTER: u64 = 16;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.cache_miss",
    title: "The cache in front of a slow disk misses most of what is asked",
    theory: "A disk cache (dm-cache, LVM's cache) keeps the blocks of a slow disk that are asked for most on a fast \
             one. When what is asked for in turn is several times larger than the cache, blocks are gone before they \
             are asked for again, and nearly every request takes the slow disk's time, as without a cache.",
    needs: &[
        "threads wait for the cached disk, or for the slow disk below it",
        "at least half of the requests of the window are misses (device mapper status, read twice)",
        "at least half of the requests in flight at the cached disk stand at the slow disk, which takes long",
    ],
    refuted_by: &[
        Refutation::new(
            "most requests of the window are hits",
            "a_cache_that_serves_most_does_its_work_and_few_requests_are_no_ratio",
        ),
        Refutation::new(
            "the slow disk is not what is waited for, or answers about as fast as the cache does",
            "misses_that_nobody_waits_for_at_the_slow_disk_are_no_cause",
        ),
        Refutation::new(
            "a neighbour uses the disk up",
            "a_neighbour_that_uses_the_disk_up_is_the_bigger_cause",
        ),
    ],
    remedies: &[
        "make the cache larger",
        "let it be filled faster, if it is not full",
        "keep scans that read everything once away from it",
    ],
    stories: &["S0.7"],
    thresholds: &[&ASKED, &HITS, &AT_ORIGIN, &SLOWER, &SLOW, &FULL, &UNUSED],
    finds: Finds::Look(find),
};

/// The waiting for the cached disk itself, for one that stands on it, and for its origin.
fn find<'m>(measures: &'m Measures<'m>, open: &'m [End]) -> Vec<Match<'m>> {
    let mut found = Vec::new();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for cache in measures.disks.caches.iter().filter(|cache| misses(cache)) {
        let is_concerned = |end: &End| {
            waited::slow_disk(measures, end).is_some_and(|view| {
                view.disk.dev == cache.origin.dev
                    || measures.model.disk.stands_on(view.disk, cache.disk.dev)
            })
        };
        let ends: Vec<usize> =
            (0..open.len()).filter(|at| !taken.contains(at) && is_concerned(&open[*at])).collect();
        if ends.is_empty() {
            continue;
        }
        let proof =
            if cache.fast_seconds.is_some() { Proof::TwoWitnesses } else { Proof::Inferred };
        let left = disk_cache::unused(measures.model, cache)
            .filter(|(left, _)| *left >= UNUSED.value * cache.bytes());
        let explain = move |loss: &Loss<'_>| explain(cache, left, loss);
        let mut matched = Match::new(Culprit::device(named(cache.disk)), proof, explain)
            .on(Object::Disk(Some(cache.disk.dev)));
        for at in &ends {
            matched = matched.claiming(*at, None);
        }
        taken.extend(ends);
        found.push(matched);
    }
    found
}

/// Misses explain the waiting.
fn misses(cache: &DiskCache<'_>) -> bool {
    let is_slower = |fast: f64| cache.queue.seconds >= SLOWER.value * fast;
    cache.asked() as f64 >= ASKED.value
        && cache.hit_share() < HITS.value
        && cache.at_origin >= AT_ORIGIN.value
        && cache.queue.seconds >= SLOW.value
        && cache.fast_seconds.is_none_or(is_slower)
}

/// It has room that it does not use.
fn has_room(cache: &DiskCache<'_>) -> bool {
    cache.used().is_some_and(|used| used < FULL.value)
}

fn explain(cache: &DiskCache<'_>, left: Option<(f64, &Disk)>, loss: &Loss<'_>) -> Wording {
    Wording {
        title: format!(
            "{} waits for {}, the slow part of disk {}: its cache has {} of what is asked",
            loss.victim,
            cache.origin.name,
            named(cache.disk),
            words::percent(cache.hit_share())
        ),
        text: text(cache, left, loss),
        evidence: evidence(cache, left),
        remedy: remedy(cache, left),
    }
}

/// The name that its owner gave it, with the kernel's.
fn named(disk: &Disk) -> String {
    match &disk.mapped_name {
        Some(name) => format!("{} ({name})", disk.name),
        None => disk.name.clone(),
    }
}

fn text(cache: &DiskCache<'_>, left: Option<(f64, &Disk)>, loss: &Loss<'_>) -> String {
    let (hits, asked) = (cache.hits, cache.asked());
    let quick = match cache.fast_seconds {
        Some(seconds) => format!(" ({} in the cache)", words::seconds(seconds)),
        None => String::new(),
    };
    let size = words::bytes(cache.bytes());
    let share = cache.bytes() / (cache.disk.size_bytes as f64).max(1.0);
    let room = match (cache.used(), left) {
        (Some(used), _) if has_room(cache) => {
            format!(", of which only {} is in use", words::percent(used))
        }
        (Some(_), Some((left, on))) => {
            format!(", and is full while {} of {} are unused", words::bytes(left), on.name)
        }
        (Some(_), None) => ", and is full".into(),
        (None, Some((left, on))) => {
            format!(", while {} of {} are unused", words::bytes(left), on.name)
        }
        (None, None) => String::new(),
    };
    format!(
        "{} for the disk. {hits} of {asked} requests in {} were hits ({}); the others take {} each at {}{quick}, where \
         {} of all requests in flight stand. The cache has {size}, {} of the disk{room}.",
        words::of_time(loss.impact.share, loss.seconds, loss.wall_seconds),
        words::seconds(loss.wall_seconds),
        words::percent(cache.hit_share()),
        words::seconds(cache.queue.seconds),
        cache.origin.name,
        words::percent(cache.at_origin),
        words::percent(share),
    )
}

fn evidence(cache: &DiskCache<'_>, left: Option<(f64, &Disk)>) -> Vec<Evidence> {
    let status = "DM_TABLE_STATUS";
    let counters = "/proc/diskstats";
    let mut all = vec![
        Evidence::new("hits", cache.hits as f64, "1", status),
        Evidence::new("misses", cache.misses as f64, "1", status),
        Evidence::new("share of hits", cache.hit_share() * 100.0, "%", status),
        Evidence::new("blocks moved into the cache", cache.promotions as f64, "1", status),
        Evidence::new("blocks moved out of it", cache.demotions as f64, "1", status),
        Evidence::new("size of the cache", cache.bytes(), "bytes", status),
        Evidence::new("size of the disk", cache.disk.size_bytes as f64, "bytes", "/sys/block"),
        Evidence::new(
            "requests in flight that stand at the slow disk",
            cache.at_origin * 100.0,
            "%",
            counters,
        ),
        Evidence::new("time in the slow disk", cache.queue.seconds * 1e3, "ms", counters),
    ];
    if let Some(used) = cache.used() {
        all.push(Evidence::new("part of the cache in use", used * 100.0, "%", status));
    }
    if let Some(seconds) = cache.fast_seconds {
        all.push(Evidence::new("time in the fast disk", seconds * 1e3, "ms", counters));
    }
    if let Some((left, on)) = left {
        let what = format!("part of {} that nothing uses", on.name);
        all.push(Evidence::new(what, left, "bytes", "/sys/block"));
    }
    all
}

fn remedy(cache: &DiskCache<'_>, left: Option<(f64, &Disk)>) -> Vec<Remedy> {
    let name = cache.disk.mapped_name.as_deref().unwrap_or(&cache.disk.name);
    if has_room(cache) {
        let message = |sectors: u64| {
            format!("dmsetup message {} 0 migration_threshold {sectors}", words::shell(name))
        };
        let now = cache.last.migration_threshold;
        return vec![Remedy {
            text: "let more of what is asked for move into the cache at once".into(),
            command: now.map(|now| message(now.saturating_mul(FASTER))).unwrap_or_default(),
            undo: now.map(message).unwrap_or_default(),
            ..Remedy::default()
        }];
    }
    let larger = match left {
        Some((left, on)) => {
            format!("make the cache larger: {} of {} are unused", words::bytes(left), on.name)
        }
        None => "make the cache larger, on a larger fast disk".into(),
    };
    vec![
        Remedy { text: larger, ..Remedy::default() },
        Remedy {
            text: "ask for less in turn: see who reads everything once, and keep it away".into(),
            ..Remedy::default()
        },
    ]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const CACHED: DeviceNumber = DeviceNumber { major: 253, minor: 0 };
    const SLOW: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const FAST: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

    /// One look at process 10, which reads from a cached disk all the time.
    struct Look {
        hits: u64,
        misses: u64,
        used: Option<u64>,
        /// Mean time of a miss at the slow disk, milliseconds, and how many stand there.
        slow_ms: u64,
        at_slow: u64,
        /// Size of the fast disk, MiB.
        fast_mib: u64,
    }

    /// The story's sizes: 256 MiB of a 55 GiB disk in front of 10 GiB.
    const STORY: Look = Look {
        hits: 37,
        misses: 963,
        used: Some(65536),
        slow_ms: 20,
        at_slow: 4,
        fast_mib: 55 << 10,
    };

    fn samples(dev: DeviceNumber, requests: u64, ms: u64, in_flight: u64) -> Vec<Fact> {
        let sample = |tenth: u64| {
            let reads = requests * tenth / 50;
            let weighted_ms = in_flight * tenth * 100;
            let read_ms = reads * ms;
            let busy_ms = tenth * 100;
            DiskSample { dev, reads, read_ms, busy_ms, weighted_ms, ..DiskSample::default() }
        };
        let at = |tenth| tenth * LOOK_NS / 50;
        (0..=50).map(|t| Fact { at_ns: at(t), body: Body::DiskSample(sample(t)) }).collect()
    }

    fn facts(look: &Look) -> Vec<Fact> {
        let mut facts = host();
        let disk = |dev, name: &str, size_bytes, below: &[DeviceNumber]| {
            let (name, below) = (name.into(), below.to_vec());
            fact(Body::Disk(Disk { dev, name, size_bytes, below, ..Disk::default() }))
        };
        facts.push(disk(CACHED, "dm-0", 10 << 30, &[SLOW, FAST]));
        facts.push(disk(SLOW, "sda", 10 << 30, &[]));
        facts.push(disk(FAST, "sdb", look.fast_mib << 20, &[]));
        let asked = look.hits + look.misses;
        facts.extend(samples(CACHED, asked, look.slow_ms, 4));
        facts.extend(samples(SLOW, look.misses, look.slow_ms, look.at_slow));
        for (at_ns, share) in [(0, 0), (LOOK_NS, 1)] {
            // It has done better before: only what it does now counts.
            let body = Body::DiskCacheSample(DiskCacheSample {
                dev: CACHED,
                origin: Some(SLOW),
                fast: Some(FAST),
                hits: 1_000_000 + share * look.hits,
                misses: 9000 + share * look.misses,
                block_bytes: 4096,
                blocks: 65536,
                blocks_used: look.used,
                migration_threshold: Some(2048),
                ..DiskCacheSample::default()
            });
            facts.push(Fact { at_ns, body });
        }
        facts.push(at_place(10, "app", reads_from(CACHED)));
        facts
    }

    fn reported(look: &Look) -> Option<Finding> {
        let findings = explain(facts(look)).findings;
        findings.into_iter().find(|finding| finding.code == "disk.cache_miss")
    }

    #[test]
    fn a_small_cache_beside_an_unused_disk_is_reported_with_its_share_of_hits() {
        let finding = reported(&STORY).expect("found");
        assert!(finding.title.contains("sda") && finding.title.contains("3.7 %"), "{finding:?}");
        for words in ["256 MiB, 2.5 % of the disk", "54.8 GiB of sdb are unused", "100 %"] {
            assert!(finding.text.contains(words), "{words}: {}", finding.text);
        }
        assert!(finding.remedy[0].text.starts_with("make the cache larger"));
    }

    #[test]
    fn a_cache_that_is_not_full_is_filled_not_enlarged() {
        let finding = reported(&Look { used: Some(600), ..STORY }).expect("found");
        assert!(finding.text.contains("only 0.9 % is in use"), "{}", finding.text);
        let remedy = &finding.remedy[0];
        assert_eq!(remedy.command, "dmsetup message dm-0 0 migration_threshold 32768");
        assert_eq!(remedy.undo, "dmsetup message dm-0 0 migration_threshold 2048");
    }

    #[test]
    fn a_cache_that_does_not_tell_how_full_it_is_is_not_called_full() {
        let finding = reported(&Look { used: None, ..STORY }).expect("found");
        assert!(!finding.text.contains("full"), "{}", finding.text);
        assert!(finding.text.contains("while 54.8 GiB of sdb are unused"), "{}", finding.text);
        assert!(finding.evidence.iter().all(|one| one.fact != "part of the cache in use"));
    }

    #[test]
    fn misses_that_nobody_waits_for_at_the_slow_disk_are_no_cause() {
        assert!(reported(&Look { at_slow: 1, ..STORY }).is_none());
        assert!(reported(&Look { slow_ms: 1, ..STORY }).is_none());
    }

    #[test]
    fn a_cache_that_serves_most_does_its_work_and_few_requests_are_no_ratio() {
        assert!(reported(&Look { hits: 600, misses: 400, ..STORY }).is_none());
        assert!(reported(&Look { hits: 2, misses: 60, ..STORY }).is_none());
    }

    #[test]
    fn without_a_reading_of_the_cache_nothing_is_said_of_it() {
        let mut facts = facts(&STORY);
        facts.retain(|fact| !matches!(fact.body, Body::DiskCacheSample(_)));
        let findings = explain(facts).findings;
        assert!(findings.iter().all(|finding| finding.code != "disk.cache_miss"));
    }

    #[test]
    fn a_neighbour_that_uses_the_disk_up_is_the_bigger_cause() {
        let mut facts = facts(&STORY);
        for (pid, name, reads) in [(10, "app", 20), (20, "scan", 980)] {
            facts.push(fact(Body::DiskUse(DiskUse {
                dev: CACHED,
                process: thread(pid, name),
                reads,
                read_bytes: reads * 4096,
                ..DiskUse::default()
            })));
        }
        let codes: Vec<String> = explain(facts).findings.into_iter().map(|f| f.code).collect();
        assert_eq!(codes, ["disk.saturated"]);
    }

    #[test]
    fn what_the_fast_disk_has_left_is_offered_from_a_tenth_of_the_cache_on() {
        let way = |left_mib: u64| {
            let finding = reported(&Look { fast_mib: 256 + left_mib, ..STORY }).expect("found");
            finding.remedy[0].text.clone()
        };
        assert_eq!(way(100), "make the cache larger: 100 MiB of sdb are unused");
        assert_eq!(way(20), "make the cache larger, on a larger fast disk");
    }

    #[test]
    fn who_waits_for_the_slow_disk_itself_is_a_victim_and_who_waits_for_another_is_not() {
        let other = DeviceNumber { major: 8, minor: 32 };
        let mut facts = facts(&STORY);
        facts.push(fact(Body::Disk(Disk { dev: other, name: "sdc".into(), ..Disk::default() })));
        facts.extend(samples(other, 1000, 20, 4));
        facts.push(at_place(20, "check", reads_from(SLOW)));
        facts.push(at_place(30, "backup", reads_from(other)));
        let found = explain(facts).findings;
        let finding = found.iter().find(|it| it.code == "disk.cache_miss").expect("found");
        let victims: Vec<u32> = finding.victims.iter().map(|victim| victim.pid).collect();
        assert_eq!(victims, [10, 20]);
    }
}
