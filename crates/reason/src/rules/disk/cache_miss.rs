//! disk.cache_miss: a cache in front of a slow disk has little of what is asked, so the slow disk is waited for.
//!
//! A cache target that is there is thought to work. Its counters since boot are a mean over everything that ever
//! happened, and some versions print a ratio that is wrong, so hits and misses are counted over the window. They
//! prove nothing by themselves: a cache that misses what nobody waits for costs nothing. The second fact is where
//! the requests stand meanwhile: at the origin, which is the slower of the two.
//!
//! A cache that is full is too small (or what is read is read once); one that is not full has only not been
//! filled. The ways out differ, so the two are told apart.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy};
use crate::facts::*;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::disk_queue::{self, DiskQueue};
use crate::model::Model;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("most requests of the window are hits", ""),
        Refutation::new(
            "the slow disk is not what is waited for, or answers about as fast as the cache does",
            "",
        ),
        Refutation::new("a neighbour uses the disk up", ""),
    ],
    remedies: &[
        "make the cache larger",
        "let it be filled faster, if it is not full",
        "keep scans that read everything once away from it",
    ],
    stories: &["S0.7"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// Fewer requests than this in a window are no ratio: one more hit would change it by more than a percent.
const ASKED_MIN: u64 = 100;
/// A cache that serves most of what is asked does its work.
const HITS_MAX: f64 = 0.5;
/// Most of the waiting must be at the origin.
const AT_ORIGIN_MIN: f64 = 0.5;
/// An origin that is not twice as slow as the cache would not be much quicker with a better one.
const SLOWER_MIN: f64 = 2.0;
/// With fewer free blocks than this a cache has no room to speak of.
const FULL: f64 = 0.95;

/// A cache over the window.
pub struct View<'a> {
    /// The cached disk.
    disk: &'a Disk,
    /// The slow disk below it.
    origin: &'a Disk,
    /// The fast one, if it is known.
    fast: Option<&'a Disk>,
    /// Its counters at the end.
    last: &'a DiskCacheSample,
    hits: u64,
    misses: u64,
    promotions: u64,
    demotions: u64,
    /// The origin as a queue.
    queue: DiskQueue,
    /// Mean time of a request in the fast disk, if it had any.
    fast_seconds: Option<f64>,
    /// Share of the requests in flight that stand at the origin.
    at_origin: f64,
}

impl View<'_> {
    fn hit_share(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    fn cache_bytes(&self) -> f64 {
        self.last.blocks as f64 * self.last.block_bytes as f64
    }

    /// Share of its blocks that are in use, if the target tells.
    fn used(&self) -> Option<f64> {
        Some(self.last.blocks_used? as f64 / self.last.blocks.max(1) as f64)
    }

    /// It has room that it does not use.
    fn has_room(&self) -> bool {
        self.used().is_some_and(|used| used < FULL)
    }

    /// Misses explain the waiting.
    fn explains(&self) -> bool {
        let slower = self.fast_seconds.is_none_or(|fast| self.queue.seconds >= SLOWER_MIN * fast);
        self.hits + self.misses >= ASKED_MIN
            && self.hit_share() < HITS_MAX
            && self.at_origin >= AT_ORIGIN_MIN
            && self.queue.seconds >= disk::SLOW_SECONDS
            && slower
    }
}

/// The cached disk whose misses explain the waiting for a disk: the cached disk itself, one that stands on it, or
/// its origin.
pub fn explaining(model: &Model, waited: &Disk) -> Option<DeviceNumber> {
    let all = model.disk_caches.keys().filter_map(|dev| view(model, *dev));
    let concerned = |view: &View<'_>| {
        disk::stands_on(model, waited, view.disk.dev) || waited.dev == view.origin.dev
    };
    all.filter(concerned).find(View::explains).map(|view| view.disk.dev)
}

fn view(model: &Model, dev: DeviceNumber) -> Option<View<'_>> {
    let series = model.disk_caches.get(&dev)?;
    let ((_, first), (_, last)) = (series.first()?, series.last()?);
    let disk = model.disks.get(&dev)?;
    let by_size = || {
        let below = disk.below.iter().filter_map(|dev| model.disk(*dev));
        below.max_by_key(|disk| disk.size_bytes)
    };
    let origin = last.origin.and_then(|dev| model.disk(dev)).or_else(by_size)?;
    let fast = last.fast.and_then(|dev| model.disk(dev));
    let (whole, queue) = (disk_queue::disk(model, dev)?, disk_queue::disk(model, origin.dev)?);
    let fast_queue = fast.and_then(|fast| disk_queue::disk(model, fast.dev));
    // A table that was loaded anew counts from zero.
    let grown = |of: fn(&DiskCacheSample) -> u64| of(last).checked_sub(of(first));
    Some(View {
        hits: grown(|s| s.hits)?,
        misses: grown(|s| s.misses)?,
        promotions: grown(|s| s.promotions)?,
        demotions: grown(|s| s.demotions)?,
        at_origin: (queue.in_flight / whole.in_flight.max(1e-9)).min(1.0),
        fast_seconds: fast_queue.filter(|queue| queue.seconds > 0.0).map(|queue| queue.seconds),
        disk,
        origin,
        fast,
        last,
        queue,
    })
}

/// What is left of the fast disk, or of the one that it is a part of: bytes, and of which.
fn unused<'a>(model: &'a Model, view: &View<'a>) -> Option<(f64, &'a Disk)> {
    let fast = view.fast?;
    let part = view.last.fast.is_some_and(|dev| dev != fast.dev);
    let (on, taken) = if part {
        (fast, fast.partitioned_bytes)
    } else if let [below] = fast.below[..] {
        let on = model.disk(below)?;
        let volumes = || model.disks.values().filter(|disk| disk.below.contains(&on.dev));
        // A volume over several disks: how much of it lies on this one is not known.
        if volumes().any(|volume| volume.below.len() > 1 && volume.dev != view.disk.dev) {
            return None;
        }
        let volumes = volumes().filter(|volume| volume.dev != view.disk.dev);
        (on, volumes.map(|volume| volume.size_bytes).sum::<u64>().max(on.partitioned_bytes))
    } else {
        (fast, view.cache_bytes() as u64)
    };
    let left = on.size_bytes.checked_sub(taken)? as f64;
    // Less than a tenth more would not be noticed.
    (left >= 0.1 * view.cache_bytes()).then_some((left, on))
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let caches = measures.model.disk_caches.keys();
    caches.filter_map(|dev| finding(measures, *dev, &view(measures.model, *dev)?)).collect()
}

fn finding(measures: &Measures<'_>, dev: DeviceNumber, view: &View<'_>) -> Option<Finding> {
    let mine =
        |wrong: &Option<Wrong<'_>>| matches!(wrong, Some(Wrong::CacheMiss(of)) if *of == dev);
    let of_cache = disk::views(measures).filter(|(_, seen)| mine(&seen.wrong)).map(|(end, _)| end);
    let end = End::merged(of_cache)?;
    let name = named(view.disk);
    let (origin, left) = (&view.origin.name, unused(measures.model, view));
    let victim = measures.victims(&end).into_iter().next().map(|most| most.comm)?;
    let verdict = Verdict {
        title: format!(
            "{victim} waits for {origin}, the slow part of disk {name}: its cache has {} of what is asked",
            words::percent(view.hit_share())
        ),
        text: text(measures, &end, view, left),
        confidence: if view.fast_seconds.is_some() { 0.95 } else { 0.85 },
        culprit: Culprit::device(name.clone()),
        evidence: evidence(view, left),
        remedy: remedy(view, left),
    };
    let mut finding = RULE.finding(measures, &end, verdict);
    finding.object = ObjectName::new("disk", name).with_id(dev.to_string());
    Some(finding)
}

/// The name that its owner gave it, with the kernel's.
fn named(disk: &Disk) -> String {
    match &disk.mapped_name {
        Some(name) => format!("{} ({name})", disk.name),
        None => disk.name.clone(),
    }
}

fn text(measures: &Measures<'_>, end: &End, view: &View<'_>, left: Option<(f64, &Disk)>) -> String {
    let (hits, asked) = (view.hits, view.hits + view.misses);
    let quick = match view.fast_seconds {
        Some(seconds) => format!(" ({} in the cache)", words::seconds(seconds)),
        None => String::new(),
    };
    let size = words::bytes(view.cache_bytes());
    let share = view.cache_bytes() / (view.disk.size_bytes as f64).max(1.0);
    let room = match (view.used(), left) {
        (Some(used), _) if view.has_room() => {
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
        words::of_time(measures.impact(end).share, end.seconds, measures.wall_seconds()),
        words::seconds(measures.wall_seconds()),
        words::percent(view.hit_share()),
        words::seconds(view.queue.seconds),
        view.origin.name,
        words::percent(view.at_origin),
        words::percent(share),
    )
}

fn evidence(view: &View<'_>, left: Option<(f64, &Disk)>) -> Vec<Evidence> {
    let status = "DM_TABLE_STATUS";
    let counters = "/proc/diskstats";
    let mut all = vec![
        Evidence::new("hits", view.hits as f64, "1", status),
        Evidence::new("misses", view.misses as f64, "1", status),
        Evidence::new("share of hits", view.hit_share() * 100.0, "%", status),
        Evidence::new("blocks moved into the cache", view.promotions as f64, "1", status),
        Evidence::new("blocks moved out of it", view.demotions as f64, "1", status),
        Evidence::new("size of the cache", view.cache_bytes(), "bytes", status),
        Evidence::new("size of the disk", view.disk.size_bytes as f64, "bytes", "/sys/block"),
        Evidence::new(
            "requests in flight that stand at the slow disk",
            view.at_origin * 100.0,
            "%",
            counters,
        ),
        Evidence::new("time in the slow disk", view.queue.seconds * 1e3, "ms", counters),
    ];
    if let Some(used) = view.used() {
        all.push(Evidence::new("part of the cache in use", used * 100.0, "%", status));
    }
    if let Some(seconds) = view.fast_seconds {
        all.push(Evidence::new("time in the fast disk", seconds * 1e3, "ms", counters));
    }
    if let Some((left, on)) = left {
        let what = format!("part of {} that nothing uses", on.name);
        all.push(Evidence::new(what, left, "bytes", "/sys/block"));
    }
    all
}

fn remedy(view: &View<'_>, left: Option<(f64, &Disk)>) -> Vec<Remedy> {
    let name = view.disk.mapped_name.as_deref().unwrap_or(&view.disk.name);
    if view.has_room() {
        let message = |sectors: u64| {
            format!("dmsetup message {} 0 migration_threshold {sectors}", words::shell(name))
        };
        let now = view.last.migration_threshold;
        return vec![Remedy {
            text: "let more of what is asked for move into the cache at once".into(),
            command: now.map(|now| message(now.saturating_mul(16))).unwrap_or_default(),
            undo: now.map(message).unwrap_or_default(),
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
    }

    /// The story's sizes: 256 MiB of a 55 GiB disk in front of 10 GiB.
    const STORY: Look = Look { hits: 37, misses: 963, used: Some(65536), slow_ms: 20, at_slow: 4 };

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
        facts.push(disk(FAST, "sdb", 55 << 30, &[]));
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

    fn told(look: &Look) -> Option<Finding> {
        let findings = explain(facts(look)).findings;
        findings.into_iter().find(|finding| finding.code == "disk.cache_miss")
    }

    #[test]
    fn a_small_cache_beside_an_unused_disk_is_told_with_its_share_of_hits() {
        let finding = told(&STORY).expect("found");
        assert!(finding.title.contains("sda") && finding.title.contains("3.7 %"), "{finding:?}");
        for words in ["256 MiB, 2.5 % of the disk", "54.8 GiB of sdb are unused", "100 %"] {
            assert!(finding.text.contains(words), "{words}: {}", finding.text);
        }
        assert!(finding.remedy[0].text.starts_with("make the cache larger"));
    }

    #[test]
    fn a_cache_that_is_not_full_is_filled_not_enlarged() {
        let finding = told(&Look { used: Some(600), ..STORY }).expect("found");
        assert!(finding.text.contains("only 0.9 % is in use"), "{}", finding.text);
        let remedy = &finding.remedy[0];
        assert_eq!(remedy.command, "dmsetup message dm-0 0 migration_threshold 32768");
        assert_eq!(remedy.undo, "dmsetup message dm-0 0 migration_threshold 2048");
    }

    #[test]
    fn a_cache_that_does_not_tell_how_full_it_is_is_not_called_full() {
        let finding = told(&Look { used: None, ..STORY }).expect("found");
        assert!(!finding.text.contains("full"), "{}", finding.text);
        assert!(finding.text.contains("while 54.8 GiB of sdb are unused"), "{}", finding.text);
        assert!(finding.evidence.iter().all(|one| one.fact != "part of the cache in use"));
    }

    #[test]
    fn misses_that_nobody_waits_for_at_the_slow_disk_are_no_cause() {
        assert!(told(&Look { at_slow: 1, ..STORY }).is_none());
        assert!(told(&Look { slow_ms: 1, ..STORY }).is_none());
    }

    #[test]
    fn a_cache_that_serves_most_does_its_work_and_few_requests_are_no_ratio() {
        assert!(told(&Look { hits: 600, misses: 400, ..STORY }).is_none());
        assert!(told(&Look { hits: 2, misses: 60, ..STORY }).is_none());
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
}
