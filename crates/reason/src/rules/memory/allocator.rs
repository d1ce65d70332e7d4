//! memory.allocator: the threads of a program stand before the lock of their memory allocator.
//!
//! malloc keeps its free memory in arenas with a lock each. Two facts: samples in the allocator's functions, and in those that
//! sleep and wake for its lock, or waits on a word that is an arena's by its address. What is counted is what the lock
//! costs: the calls to futex(2), the waits, the slow path; not the allocating, which is the program's own choice. Must not: take
//! another lock of the C library's (of a stream) for it. Rejected: a share of CPU time in malloc (a program that allocates
//! much works), and the name of the lock's holder (whoever has it has it for less than a microsecond, unless it lost its CPU).

use crate::facts::{Ns, Work};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::cpu_profile::Spent;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::span::WaitSpan;
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.allocator",
    title: "Threads wait for the lock of their memory allocator",
    theory: "malloc() and free() take memory from an arena, and an arena has one lock. With fewer arenas than threads \
             (MALLOC_ARENA_MAX, or more than eight threads for each CPU) the threads queue for it: each allocation may \
             then take a call into the kernel, and a thread that loses its CPU with the lock stops all others.",
    needs: &[
        "CPU samples in the functions of an allocator",
        "samples in what sleeps and wakes for its lock (__lll_lock_wait_private), or waits on a word that is an arena's by its \
         address",
        "the lock costs a sixth of the program's time or more, in calls to futex(2) and in waits",
    ],
    refuted_by: &[
        Refutation::new("it allocates, and no lock is waited for", "to_allocate_much_is_work"),
        Refutation::new(
            "it waits for a lock, and does not allocate",
            "a_lock_of_a_stream_is_no_arena",
        ),
        Refutation::new(
            "the lock costs next to nothing",
            "a_lock_that_is_met_now_and_then_is_healthy",
        ),
    ],
    remedies: &[
        "let it have more arenas (MALLOC_ARENA_MAX, glibc.malloc.arena_max), and larger caches of each thread's own \
         (glibc.malloc.tcache_count)",
        "use an allocator with caches for each thread or CPU (jemalloc, tcmalloc, mimalloc)",
        "allocate less: keep buffers, allocate in blocks",
    ],
    stories: &["S2.13"],
    thresholds: &[&COST_MIN, &PART_MIN, &SAMPLES_MIN, &WORD_PART_MIN],
    finds: Finds::Look(find),
};

static SAMPLES_MIN: Threshold = Threshold::new(
    5.0,
    "1",
    "samples in the allocator's functions; fewer are chance",
    "chosen: the program is seen with 97 samples a second and CPU",
);
static WORD_PART_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the process's waits for words of memory that are for the allocator's; with less its calls to futex(2) are for others",
    "chosen: most of them",
);

/// Functions that allocate, of glibc, musl, jemalloc, tcmalloc, mimalloc, C++ and Rust.
const ALLOCATES: &[&str] = &[
    "malloc",
    "__libc_malloc",
    "_int_malloc",
    "__libc_malloc_impl",
    "malloc_consolidate",
    "free",
    "cfree",
    "__libc_free",
    "_int_free",
    "calloc",
    "__libc_calloc",
    "realloc",
    "__libc_realloc",
    "_int_realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "sysmalloc",
    "systrim",
    "unlink_chunk",
    "arena_get2",
    "operator new(unsigned long)",
    "operator delete(void*)",
    "mi_malloc",
    "mi_free",
];
/// Beginnings of the names of those that have many.
const ALLOCATES_BEGIN: &[&str] = &["je_", "tcmalloc::", "tc_", "__rust_alloc", "__rdl_alloc"];
/// What sleeps and wakes for a lock within the C library, and the slow paths of other allocators' locks.
const LOCKS: &[&str] = &[
    "__lll_lock_wait_private",
    "__lll_lock_wake_private",
    "je_malloc_mutex_lock_slow",
    "SpinLock::SlowLock",
    "SpinLockDelay",
];

/// glibc's malloc/arena.c: a heap of an arena begins at a multiple of this (HEAP_MAX_SIZE on 64-bit machines, with the default
/// of mmap_threshold_max), and the arena with its lock stands behind the heap's header (`sizeof (heap_info)`).
const HEAP_BYTES: u64 = 64 << 20;
/// Before and since glibc 2.35.
const HEAP_HEADERS: &[u64] = &[0x20, 0x30];
/// glibc gives no more arenas than this for each CPU, unless it is set (malloc/arena.c, NARENAS_FROM_NCORES).
const ARENAS_PER_CPU: usize = 8;

/// An allocator's lock, and what it costs.
struct Contended {
    spent: Spent,
    /// Shares of its samples.
    allocating: f64,
    in_futex: f64,
    in_lock: f64,
    /// Waits that were seen, and their time, seconds.
    waits: usize,
    waited: f64,
    threads: usize,
    arenas_max: usize,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let pid = worker(measures, end).filter(|_| !end.victims.is_empty())?;
        matched(measures, ends, at, pid)
    };
    ends.iter().enumerate().filter_map(of_end).collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    at: usize,
    pid: u32,
) -> Option<Match<'m>> {
    let spent = measures.profile.spent(pid)?;
    let work = measures.profile.work(pid);
    let allocating = hits(work, |name| {
        ALLOCATES.contains(&name) || ALLOCATES_BEGIN.iter().any(|begin| name.starts_with(begin))
    });
    if (allocating as f64) < SAMPLES_MIN.value {
        return None;
    }
    let in_lock = hits(work, |name| LOCKS.iter().any(|lock| name.ends_with(lock)));
    let waits: Vec<(&WaitSpan, u64)> = measures
        .waits()
        .filter(|wait| wait.thread.pid == pid && wait.place.syscall == "futex")
        .map(|wait| (wait, wait.place.args[0]))
        .collect();
    let words = words_of_allocator(&waits, in_lock > 0)?;
    let own = || waits.iter().filter(|(_, word)| words.contains(word));
    let part = own().count() as f64 / waits.len().max(1) as f64;
    if part < WORD_PART_MIN.value {
        return None;
    }
    let (begin, end_ns) = (measures.model.look.begin_ns, measures.model.look.end_ns);
    let waited_ns: Ns = own().map(|(wait, _)| wait.within_ns(begin, end_ns)).sum();
    let calls = work.iter().filter(|work| work.syscall == "futex").map(|work| work.count);
    let in_futex = calls.sum::<u64>();
    let waited = waited_ns as f64 / 1e9;
    let seconds = spent.seconds(in_futex) * part + spent.seconds(in_lock) + waited;
    let cost = Cost::of_one(measures, &spent.process, seconds, &ends[at]);
    if !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let by = culprit(measures.model, &spent.process);
    let threads = measures.model.threads.times.iter().filter(|time| time.thread.pid == pid).count();
    let is_its_lock = |end: &End| matches!(&end.object, Object::Futex { pid: of, address } if *of == pid && words.contains(address));
    let locks: Vec<usize> = ends
        .iter()
        .enumerate()
        .filter(|(_, end)| end.kind == EndKind::Lock && !end.victims.is_empty() && is_its_lock(end))
        .map(|(at, _)| at)
        .collect();
    let contended = Contended {
        allocating: spent.share(allocating),
        in_futex: spent.share(in_futex),
        in_lock: spent.share(in_lock),
        waits: own().count(),
        waited,
        threads,
        arenas_max: threads.max(ARENAS_PER_CPU * measures.model.look.host.cpus as usize),
        spent,
    };
    let matched =
        Match::new(by, Proof::TwoWitnesses, move |loss| contended.explain(loss.wall_seconds));
    let matched = locks
        .into_iter()
        .fold(matched.claiming(at, None), |matched, lock| matched.claiming(lock, None));
    Some(cost.charge(matched, ("allocator", "lock of malloc".to_string())))
}

/// Samples in functions of these names.
fn hits(work: &[&Work], is_one: impl Fn(&str) -> bool) -> u64 {
    let functions = work.iter().flat_map(|work| &work.functions);
    functions.filter(|function| is_one(&function.name)).map(|function| function.count).sum()
}

/// The words that are its locks: those of arenas by their address, else, where samples hit its slow path, the one that is waited
/// for most often (the main arena is a variable of the library's); none if neither is known.
fn words_of_allocator(waits: &[(&WaitSpan, u64)], is_slow: bool) -> Option<BTreeSet<u64>> {
    let arenas: BTreeSet<u64> =
        waits.iter().map(|(_, word)| *word).filter(|word| is_arena(*word)).collect();
    if !arenas.is_empty() {
        return Some(arenas);
    }
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, word) in waits {
        *times.entry(*word).or_default() += 1;
    }
    let most = times.into_iter().max_by_key(|(_, times)| *times).map(|(word, _)| word);
    most.filter(|_| is_slow).map(|word| BTreeSet::from([word]))
}

fn is_arena(word: u64) -> bool {
    HEAP_HEADERS.contains(&(word % HEAP_BYTES))
}

impl Contended {
    fn explain(&self, wall: f64) -> Wording {
        let who = words::who(&self.spent.process);
        let evidence = |fact: &str, value: f64, unit: &str, source: &str| {
            Evidence::new(fact, value, unit, source)
        };
        let samples = "cpu-clock samples";
        let cpu = self.spent.seconds(self.spent.samples) * (self.in_futex + self.in_lock);
        Wording {
            title: format!("the threads of {who} wait for the lock of their memory allocator"),
            text: format!(
                "{} of its CPU time goes into taking and handing on that lock (futex), {} in {}, and its {} threads waited {} \
                 for it beside that. They share an arena of malloc: one of them may allocate at a time.",
                words::percent(self.in_futex + self.in_lock),
                words::seconds(cpu),
                words::seconds(wall),
                self.threads,
                words::seconds(self.waited),
            ),
            evidence: vec![
                evidence("share of its CPU time in futex()", self.in_futex, "1", samples),
                evidence("share in the allocator's functions", self.allocating, "1", "cpu-clock samples, user functions"),
                evidence("share in the slow path of the lock", self.in_lock, "1", "cpu-clock samples, user functions"),
                evidence("waits for the lock that were seen", self.waits as f64, "1", "sched_switch, arguments of futex"),
                evidence("waited for the lock", self.waited, "s", "sched_switch, arguments of futex"),
            ],
            remedy: vec![Remedy {
                text: "start it with as many arenas as threads (of glibc), or with an allocator that has caches for each thread \
                       (jemalloc, tcmalloc); see whether something limits them"
                    .into(),
                command: format!("export GLIBC_TUNABLES=glibc.malloc.arena_max={}", self.arenas_max),
                undo: "unset GLIBC_TUNABLES".into(),
                ..Remedy::default()
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    /// A program with so many samples in futex(), and in functions of its C library; and how often it waited for a word.
    fn found(in_futex: u64, functions: &[(&str, u64)], word: u64, waits: u64) -> Vec<Finding> {
        let mut facts = sampled(&[(&[], 800)]);
        facts.push(in_call("futex", "", in_futex, 0));
        let mut code = in_code("libc.so.6", functions.iter().map(|(_, count)| count).sum());
        if let Body::Work(work) = &mut code.body {
            let named = |(name, count): &(&str, u64)| Function {
                name: (*name).into(),
                count: *count,
                ..Function::default()
            };
            work.functions = functions.iter().map(named).collect();
        }
        facts.push(code);
        for n in 0..waits {
            let thread = ThreadRef { tid: 11, pid: 10, start_ns: 0, comm: "app".into() };
            let place = Place {
                state: WaitState::Sleep,
                syscall: "futex".into(),
                args: [word, 128, 2, 0, 0, 0],
                ..Place::default()
            };
            let begin_ns = 1_000_000 + n * 10_000_000;
            let wait =
                Wait { thread, begin_ns, end_ns: begin_ns + 5_000_000, place, ..Wait::default() };
            facts.push(Fact { at_ns: wait.end_ns, body: Body::Wait(wait) });
        }
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "memory.allocator");
        found
    }

    const MAIN_ARENA: u64 = 0x7f9c_6a2c_bc60;
    const ARENA: u64 = 0x7f9c_5400_0030;

    #[test]
    fn threads_that_share_the_main_arena_are_named_by_the_locks_slow_path() {
        let found = found(300, &[("malloc", 40), ("__lll_lock_wait_private", 30)], MAIN_ARENA, 20);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].title,
            "the threads of app 10 wait for the lock of their memory allocator"
        );
        assert!(found[0].text.starts_with("41 % of its CPU time"), "{}", found[0].text);
        assert!(found[0].remedy[0].command.starts_with("export GLIBC_TUNABLES="));
    }

    #[test]
    fn an_arena_is_known_by_its_address() {
        assert_eq!(found(300, &[("free", 40)], ARENA, 20).len(), 1);
        assert_eq!(found(300, &[("free", 40)], ARENA + 8, 20), []);
    }

    #[test]
    fn to_allocate_much_is_work() {
        assert_eq!(found(0, &[("malloc", 400), ("free", 300)], ARENA, 0), []);
    }

    #[test]
    fn a_lock_of_a_stream_is_no_arena() {
        let of_a_stream = [("fwrite", 40), ("__lll_lock_wait_private", 30)];
        assert_eq!(found(300, &of_a_stream, MAIN_ARENA, 20), []);
    }

    #[test]
    fn a_lock_that_is_met_now_and_then_is_healthy() {
        assert_eq!(found(20, &[("malloc", 300), ("__lll_lock_wait_private", 3)], ARENA, 1), []);
    }
}
