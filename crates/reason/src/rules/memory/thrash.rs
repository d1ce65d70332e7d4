//! memory.thrash: a process reads again and again what a neighbour's stream has dropped from memory.
//!
//! The pages say it one by one: brought in by a reader, dropped in another process's reclaim, brought in again. The kernel's own
//! count of refaults is the second witness. Who evicts is to blame only if it needs its pages once: two working sets that
//! take memory from each other have too little of it, and that is memory.limit's or nobody's. Must not: claim what a
//! reader drops itself. Rejected: who reads most (a reader that is read again reads much too), and the groups' counters alone
//! (they say who reads again, and not who had it dropped).

use super::costs::{self, Cost, LOST_PART_MIN, LOST_PER_SECOND_MIN};
use super::neighbour_limit;
use super::streams::{
    self, AGAIN_PART_MIN, BY_ONE_MIN, COUNTED_MIN, SEEN_BYTES_MIN, SEEN_PART_MIN, Stream,
};
use crate::facts::{Cgroup, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cache_readers::Reader;
use crate::measure::memory_limits::Limited;
use crate::measure::memory_losses::Spent;
use crate::measure::memory_members::is_member;
use crate::model::object::{FileKey, Object};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, Step, culprit};
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.thrash",
    title: "A neighbour's stream drops from memory what a program reads again and again",
    theory: "Pages of files stay in memory until somebody else needs the room. A process that reads or writes a stream needs each \
             page once, and asks for room all the while. Inside one group the kernel keeps pages that were used twice \
             before such; between groups below one limit it takes from each by size, so that the working set of \
             the quiet one goes bit by bit, and comes back from the disk when it is next used.",
    needs: &[
        "much of what the victim brings into memory had been there in the look, and was dropped in one other process's reclaim",
        "that process reads hardly anything again itself",
        "the kernel counts its reading as refaults too (workingset_refault)",
        "reading again costs the victim a noticeable part of its time, waiting and CPU together",
    ],
    refuted_by: &[
        Refutation::new(
            "the reader drops its own pages: its working set is larger than its memory",
            "a_reader_that_drops_its_own_pages_has_too_little_memory",
        ),
        Refutation::new(
            "the other one reads again too: both need more than there is",
            "two_working_sets_are_no_stream",
        ),
        Refutation::new(
            "the stream passes, and nobody reads again what it drops",
            "a_stream_that_nobody_misses_pages_for_is_healthy",
        ),
        Refutation::new(
            "the kernel counts no refaults",
            "without_the_kernels_refaults_nothing_is_said",
        ),
    ],
    remedies: &[
        "give the stream a small memory limit of its own",
        "have it drop what it has read (POSIX_FADV_DONTNEED), or read past the cache (O_DIRECT)",
        "protect the working set (memory.low)",
    ],
    stories: &["S3.11"],
    thresholds: &[
        &SEEN_BYTES_MIN,
        &SEEN_PART_MIN,
        &COUNTED_MIN,
        &AGAIN_PART_MIN,
        &BY_ONE_MIN,
        &LOST_PER_SECOND_MIN,
        &LOST_PART_MIN,
    ],
    finds: Finds::Look(find),
};

/// A stream and those of its victims who are looked at.
struct Thrash<'m> {
    stream: Stream<'m>,
    /// What they spend.
    spent: Spent,
    /// The file that most of their reading again is of.
    file: Option<FileKey>,
    /// The smallest group that met its limit and has all of them.
    shared: Option<&'m Limited<'m>>,
}

impl<'m> Thrash<'m> {
    fn of(measures: &'m Measures<'m>, mut stream: Stream<'m>) -> Option<Self> {
        stream.readers.retain(|_, reader| measures.concerns(&reader.process));
        let pids: BTreeSet<u32> = stream.readers.keys().copied().collect();
        if pids.is_empty() {
            return None;
        }
        let mut spent = measures.spent_by(&pids);
        spent.retain(|_, loss| loss.seconds(true) > 0.0);
        let file = most_read(stream.readers.values().copied());
        let has_all = |one: &&Limited<'_>| {
            let inside = |who: &ThreadRef| is_in(measures, who, one.group);
            inside(&stream.by) && stream.readers.values().all(|reader| inside(&reader.process))
        };
        let shared =
            measures.memory.limited.iter().filter(has_all).min_by_key(|one| one.limit_bytes);
        Some(Self { stream, spent, file, shared })
    }

    fn object(&self) -> Object {
        Object::File(self.file)
    }

    /// The part of what was dropped within the look.
    fn share_by_stream(&self) -> f64 {
        let by = |reader: &Reader| reader.dropped_by.get(&self.stream.by.pid).copied();
        self.sum(|reader| by(reader).unwrap_or(0)) / self.sum(Reader::seen).max(1.0)
    }

    fn sum(&self, of: impl Fn(&Reader) -> u64) -> f64 {
        self.stream.readers.values().map(|reader| of(reader)).sum::<u64>() as f64
    }
}

fn is_in(measures: &Measures<'_>, who: &ThreadRef, group: &Cgroup) -> bool {
    is_member(measures.model, &measures.ancestry, who, group)
}

fn most_read<'m>(readers: impl Iterator<Item = &'m Reader>) -> Option<FileKey> {
    let mut all: BTreeMap<FileKey, u64> = BTreeMap::new();
    for (file, bytes) in readers.flat_map(|reader| &reader.files) {
        *all.entry(*file).or_default() += bytes;
    }
    all.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(file, _)| file)
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let all = streams::streams(measures).into_iter();
    all.filter_map(|stream| matched(measures, ends, Thrash::of(measures, stream)?)).collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    thrash: Thrash<'m>,
) -> Option<Match<'m>> {
    let cost = Cost::of(measures, &thrash.spent, true);
    if !cost.matters(measures) {
        return None;
    }
    let losses: Losses = (thrash.spent.iter())
        .map(|(pid, loss)| (*pid, (loss.process.clone(), loss.seconds(true))))
        .collect();
    let most = losses.values().max_by(|a, b| a.1.total_cmp(&b.1));
    let chain = most.map(|(process, seconds)| Step {
        who: process.clone(),
        on: thrash.object(),
        doing: None,
        seconds: *seconds,
        when: None,
        because: None,
    });
    Some(Match {
        object: Some(thrash.object()),
        claims: costs::claims(measures, ends, true, |who| {
            thrash.stream.readers.contains_key(&who.pid)
        }),
        path_seconds: cost.path_seconds,
        demand_seconds: Some(cost.demand_seconds),
        chain: Some(chain.into_iter().collect()),
        losses: Some(losses),
        ..Match::new(culprit(measures.model, &thrash.stream.by), Proof::TwoWitnesses, move |loss| {
            explain(measures, &thrash, loss)
        })
    })
}

fn explain(measures: &Measures<'_>, thrash: &Thrash<'_>, loss: &Loss<'_>) -> Wording {
    let by = measures.model.who(&thrash.stream.by);
    let what = measures.model.name_of(&thrash.object()).name;
    Wording {
        title: format!(
            "{} reads {what} again and again: {by} has it dropped from memory",
            loss.victim
        ),
        text: text(measures, thrash, loss, &by),
        evidence: evidence(thrash),
        remedy: vec![remedy(measures, thrash)],
    }
}

fn text(measures: &Measures<'_>, thrash: &Thrash<'_>, loss: &Loss<'_>, by: &str) -> String {
    let stream = &thrash.stream;
    let together = match thrash.shared {
        Some(one) => format!(
            "They may have {} together, which is the limit of {}.",
            words::bytes(one.limit_bytes as f64),
            measures.model.containers.group_in_words(&one.group.path)
        ),
        None => "They share the memory of the host.".into(),
    };
    format!(
        "{} of its time ({}) goes into reading again. Of {} that it brought into memory {} had been there before; of \
         the {} that were dropped within the look {} made room for {by}, which brought in {} and of that {} again. {together}",
        words::percent(loss.impact.share),
        words::of_window(loss.seconds, loss.wall_seconds),
        words::bytes(thrash.sum(|reader| reader.brought_bytes)),
        words::bytes(thrash.sum(Reader::again)),
        words::bytes(thrash.sum(Reader::seen)),
        words::percent(thrash.share_by_stream()),
        words::bytes(stream.brought_bytes as f64),
        words::bytes(stream.again_bytes as f64),
    )
}

fn evidence(thrash: &Thrash<'_>) -> Vec<Evidence> {
    let pages = "mm_filemap_add_to_page_cache, mm_filemap_delete_from_page_cache";
    let bytes = |fact: &str, value: f64, source: &str| Evidence::new(fact, value, "bytes", source);
    let stream = &thrash.stream;
    let lost = thrash.spent.values().map(|loss| loss.seconds(true)).sum();
    let mut all = vec![
        bytes("read again", thrash.sum(Reader::again), "workingset_refault"),
        bytes("brought in by the readers", thrash.sum(|reader| reader.brought_bytes), pages),
        bytes("of it dropped within the look", thrash.sum(Reader::seen), pages),
        Evidence::new(
            "of that in the stream's reclaim",
            thrash.share_by_stream() * 100.0,
            "%",
            pages,
        ),
        bytes("brought in by the stream", stream.brought_bytes as f64, pages),
        bytes("of it dropped within the look, and read again", stream.again_bytes as f64, pages),
        Evidence::new("lost to reading again", lost, "s", "sched_switch, cpu-clock samples"),
    ];
    if let Some(one) = thrash.shared {
        let limit = one.limit_bytes as f64;
        all.push(bytes("memory limit of the group of both", limit, &one.setting()));
    }
    all
}

/// A limit for the group of the stream, if no victim is in it too.
fn remedy(measures: &Measures<'_>, thrash: &Thrash<'_>) -> Remedy {
    let by = &thrash.stream.by;
    let group = measures.model.cgroup_of(by, "memory").filter(|group| group.path != "/");
    let is_shared = |group: &Cgroup| {
        thrash.stream.readers.values().any(|reader| is_in(measures, &reader.process, group))
    };
    let text = "give the stream a small memory limit of its own";
    let most = thrash.shared.map_or(u64::MAX, |one| neighbour_limit::most_of(one.limit_bytes));
    let own = group.filter(|group| !is_shared(group));
    own.and_then(|_| neighbour_limit::of(measures, by, (0, most), text)).unwrap_or_else(|| {
        Remedy::to(
            "run it in a group of its own with a small memory limit, or have it drop what it has read \
             (POSIX_FADV_DONTNEED)",
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MIB: u64 = 1 << 20;
    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    /// Process 10 reads a file and waits for the disk all the time; process 20 reads on. Each in a group of its own below
    /// one that is at its limit.
    struct Look {
        /// Of the reader: brought in anew, and again after these had it dropped, MiB.
        fresh: u64,
        again: Vec<(u32, u64)>,
        /// Of the stream: the same.
        stream_fresh: u64,
        stream_again: Vec<(u32, u64)>,
        /// What the kernel counts in each group, MiB.
        counted: [u64; 2],
    }

    fn thrashing() -> Look {
        let again = vec![(20, 45), (10, 2)];
        Look { fresh: 50, again, stream_fresh: 4000, stream_again: vec![], counted: [97, 0] }
    }

    fn group(path: &str, limit_mib: Option<u64>, refault_mib: u64) -> Vec<Fact> {
        let path = path.to_string();
        let memory_limit_bytes = limit_mib.map(|mib| mib * MIB);
        let directory = format!("/sys/fs/cgroup{path}");
        let mut facts = vec![fact(Body::Cgroup(Cgroup {
            path: path.clone(),
            directory,
            memory_limit_bytes,
            ..Cgroup::default()
        }))];
        for (at_ns, part) in [(0, 0), (LOOK_NS, 1)] {
            let sample = CgroupSample {
                path: path.clone(),
                memory_limit_hits: limit_mib.map(|_| 4000 * part),
                memory_refaults: Some(part * refault_mib * 256),
                memory_anon_bytes: Some(3 * MIB),
                memory_bytes: Some(150 * MIB),
                ..CgroupSample::default()
            };
            facts.push(Fact { at_ns, body: Body::CgroupSample(sample) });
        }
        facts
    }

    fn facts(look: &Look) -> Vec<Fact> {
        let mut facts = host();
        let name = "sda".to_string();
        facts.push(fact(Body::Disk(Disk { dev: DISK, name, ..Disk::default() })));
        facts.push(at_place(10, "app", reads_from(DISK)));
        facts.extend(group("/both", Some(192), look.counted.iter().sum()));
        facts.extend(group("/both/db", None, look.counted[0]));
        facts.extend(group("/both/backup", None, look.counted[1]));
        for (pid, comm, path) in [(10, "app", "/both/db"), (20, "tar", "/both/backup")] {
            let cgroups = vec![Membership { controllers: Vec::new(), path: path.into() }];
            let thread = thread(pid, comm);
            facts.push(identity(Thread { thread, cgroups, ..Thread::default() }));
        }
        let mut fill = |pid, comm, evicted_by, mib| {
            let (process, bytes) = (thread(pid, comm), mib * MIB);
            let fill = CacheFill { process, evicted_by, bytes, cgroup_id: 0 };
            facts.push(fact(Body::CacheFill(fill)));
        };
        fill(10, "app", 0, look.fresh);
        look.again.iter().for_each(|(by, mib)| fill(10, "app", *by, *mib));
        fill(20, "tar", 0, look.stream_fresh);
        look.stream_again.iter().for_each(|(by, mib)| fill(20, "tar", *by, *mib));
        let (dev, path) = (DISK, Some("/srv/data".to_string()));
        let file = FileRef { dev, ino: 12, path, ..FileRef::default() };
        facts.push(fact(Body::FileRefault(FileRefault { pid: 10, file, bytes: 47 * MIB })));
        facts.push(fact(Body::DiskUse(DiskUse {
            dev: DISK,
            process: thread(10, "app"),
            reads: 800,
            read_bytes: 97 * MIB,
            ..DiskUse::default()
        })));
        facts
    }

    fn found(facts: Vec<Fact>, code: &str) -> Option<Finding> {
        explain(facts).findings.into_iter().find(|finding| finding.code == code)
    }

    fn reported(look: &Look) -> Option<Finding> {
        found(facts(look), "memory.thrash")
    }

    #[test]
    fn a_stream_that_drops_a_neighbours_working_set_is_named_with_the_file() {
        let finding = reported(&thrashing()).expect("found");
        assert_eq!((finding.culprit.pid, &*finding.object.name), (Some(20), "/srv/data"));
        assert_eq!(finding.victims[0].pid, 10);
        assert!(finding.title.starts_with("app reads /srv/data again"), "{}", finding.title);
        assert!(finding.text.contains("192 MiB together"), "{}", finding.text);
        let remedy = &finding.remedy[0];
        let file = "/sys/fs/cgroup/both/backup/memory.high";
        assert_eq!(remedy.command, format!("echo {} > {file}", 35 * MIB));
        assert_eq!(remedy.undo, format!("echo max > {file}"));
    }

    #[test]
    fn a_stream_in_the_readers_own_group_gets_no_limit_there() {
        let mut facts = facts(&thrashing());
        for fact in &mut facts {
            if let Body::Thread(it) = &mut fact.body {
                it.cgroups[0].path = "/both".into();
            }
        }
        let finding = found(facts, "memory.thrash").expect("found");
        assert_eq!(finding.remedy[0].command, "");
    }

    #[test]
    fn a_reader_that_drops_its_own_pages_has_too_little_memory() {
        let look = Look { again: vec![(10, 45), (20, 2)], ..thrashing() };
        assert_eq!(reported(&look), None);
        assert!(found(facts(&look), "memory.limit").is_some(), "the limit is too small for it");
    }

    #[test]
    fn two_working_sets_are_no_stream() {
        let stream_again = vec![(10, 60), (20, 5)];
        let look = Look { stream_fresh: 60, stream_again, counted: [97, 120], ..thrashing() };
        assert_eq!(reported(&look), None);
        assert!(found(facts(&look), "memory.limit").is_some());
    }

    #[test]
    fn a_stream_that_nobody_misses_pages_for_is_healthy() {
        assert_eq!(reported(&Look { again: vec![(20, 1)], counted: [1, 0], ..thrashing() }), None);
        // It reads much more that was never there.
        assert_eq!(reported(&Look { fresh: 900, ..thrashing() }), None);
    }

    #[test]
    fn without_the_kernels_refaults_nothing_is_said() {
        assert_eq!(reported(&Look { counted: [0, 0], ..thrashing() }), None);
    }

    #[test]
    fn what_is_lost_to_a_stream_is_not_the_limits_or_the_disks_too() {
        let report = explain(facts(&thrashing()));
        let codes: Vec<&str> = report.findings.iter().map(|it| &*it.code).collect();
        assert_eq!(codes, ["memory.thrash"]);
    }

    #[test]
    fn of_a_command_that_is_the_reader_the_path_is_claimed() {
        let mut facts = facts(&thrashing());
        let (kind, name) = (TargetKind::Command, "app".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let finding = found(facts, "memory.thrash").expect("found");
        assert!(finding.impact.share > 0.9, "{}", finding.impact.share);
    }
}
