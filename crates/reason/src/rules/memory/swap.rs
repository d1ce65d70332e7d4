//! memory.swap: threads wait for memory of their own that was written to swap.
//!
//! A wait's stack says that a page is brought back from swap, and the kernel counts the pages that came in. Where memory is still being
//! taken from others, who has most of it is to blame; where enough is free, the shortage is over, and what was swapped out comes back as
//! it is touched, each page at the price of a request. Must not: judge the disk (memory on a quick one is slow memory as well), or take
//! what the limit of a group makes its members wait for (that rule stands before). Rejected: swap in use as a sign: what nobody
//! touches costs nothing there.

use crate::facts::{MemorySample, Thread};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

/// Processes that are named as those with most memory.
const NAMED_MAX: usize = 3;

static GOES_OUT_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "what goes out, of what comes in: while memory is short, each page that comes back takes the place of another; a few pages go out on \
     any host",
    "chosen; lab, seed 31007: a few pages went out after a shortage that was over",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.swap",
    title: "A program waits for memory that was swapped out",
    theory: "When memory is short, the kernel writes pages that were not used lately to swap. The first touch of such a page is a fault \
             that reads it back, and the thread sleeps until the disk has it. That takes as long as any read, where a touch takes less \
             than a microsecond otherwise. Pages come back only when they are touched, so a program that was swapped out at night is \
             slow in the morning, though memory is free again.",
    needs: &[
        "threads sleep in a fault that reads a page from swap (do_swap_page)",
        "the kernel counts pages that came in (pswpin)",
    ],
    refuted_by: &[
        Refutation::new(
            "no page came in from swap in the look",
            "without_pages_that_came_in_it_is_none",
        ),
        Refutation::new(
            "swap is in use and read, but not by whoever is looked at",
            "swap_that_nobody_waits_for_costs_nothing",
        ),
    ],
    remedies: &[
        "while memory is short: less of it for whoever has most (a limit of its own), or more memory for the host",
        "when it is free again: bring all back at once (swapoff, swapon)",
        "keep what must be quick in memory: mlock, memory.swap.max of its group, a lower vm.swappiness",
    ],
    stories: &[],
    thresholds: &[&GOES_OUT_MIN],
    finds: Finds::End(find),
};

/// What the host swapped in the look.
struct Swapped<'m> {
    /// Where to, if a disk is known.
    disk: Option<String>,
    /// Bytes that came in and went out.
    came_in: u64,
    went_out: u64,
    last: &'m MemorySample,
    /// Processes with most memory, the largest first.
    most: Vec<&'m Thread>,
    /// Of the thread that waits most, what is in swap; 0 if unknown.
    of_victim: u64,
}

impl<'m> Swapped<'m> {
    fn of(measures: &'m Measures<'m>, end: &'m End) -> Option<Self> {
        let model = measures.model;
        let ((_, first), (_, last)) = (model.memory.samples.first()?, model.memory.samples.last()?);
        let bytes = |from: u64, to: u64| {
            to.saturating_sub(from).saturating_mul(model.look.host.page_bytes.max(1))
        };
        let came_in = bytes(first.swap_in, last.swap_in);
        let disk = match end.object {
            Object::Disk(Some(_)) => Some(model.name_of(&end.object).name),
            _ => None,
        };
        let mut most: Vec<&Thread> = model
            .threads
            .by_id
            .values()
            .filter(|it| it.thread.tid == it.thread.pid && it.rss_bytes > 0)
            .collect();
        most.sort_by(|a, b| b.rss_bytes.cmp(&a.rss_bytes).then(a.thread.pid.cmp(&b.thread.pid)));
        most.truncate(NAMED_MAX);
        let of_victim = model.threads.identity(end.first_victim()).and_then(|it| it.swap_bytes);
        Some(Self {
            disk,
            came_in,
            went_out: bytes(first.swap_out, last.swap_out),
            last,
            most,
            of_victim: of_victim.unwrap_or(0),
        })
        .filter(|swapped| swapped.came_in > 0)
    }

    fn used(&self) -> u64 {
        self.last.swap_total_bytes.saturating_sub(self.last.swap_free_bytes)
    }

    /// Memory is being taken from somebody, or all that is in swap would not find room.
    fn is_short(&self) -> bool {
        let goes_out = self.went_out as f64 >= GOES_OUT_MIN.value * self.came_in as f64;
        goes_out || self.last.available_bytes <= self.used()
    }

    fn culprit(&self, measures: &Measures<'_>) -> Culprit {
        match (self.is_short(), self.most.first()) {
            (true, Some(most)) => culprit(measures.model, &most.thread),
            _ => Culprit::device(self.disk.as_deref().unwrap_or("swap")),
        }
    }

    fn explain(&self, loss: &Loss<'_>) -> Wording {
        let size = |bytes: u64| words::bytes(bytes as f64);
        let wall = loss.wall_seconds.max(1e-9);
        let to = self.disk.as_ref().map_or(String::new(), |disk| format!(" to disk {disk}"));
        let mut text = format!(
            "{} of its time ({}) passes in page faults that read swap: {}/s came in, {}/s went out. ",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, wall),
            words::bytes(self.came_in as f64 / wall),
            words::bytes(self.went_out as f64 / wall),
        );
        if self.of_victim > 0 {
            text.push_str(&format!(
                "{} had {} there at the begin. ",
                loss.victim,
                size(self.of_victim)
            ));
        }
        text.push_str(&format!(
            "Swap holds {} of {}; {} of {} of memory are available",
            size(self.used()),
            size(self.last.swap_total_bytes),
            size(self.last.available_bytes),
            size(self.last.total_bytes),
        ));
        text.push_str(&match self.is_short() {
            true => format!(". Who has most memory: {}.", self.shown()),
            false => ": the shortage is over, and each page comes back when it is touched.".into(),
        });
        Wording {
            title: format!("{} waits for its memory, which was swapped out{to}", loss.victim),
            text,
            evidence: vec![
                Evidence::new(
                    "came in from swap",
                    self.came_in as f64 / wall,
                    "bytes/s",
                    "/proc/vmstat pswpin",
                ),
                Evidence::new(
                    "went out to swap",
                    self.went_out as f64 / wall,
                    "bytes/s",
                    "/proc/vmstat pswpout",
                ),
                Evidence::new("waited for pages from swap", loss.seconds, "s", "sched_switch"),
                Evidence::new("swap in use", self.used() as f64, "bytes", "/proc/meminfo"),
                Evidence::new(
                    "memory available",
                    self.last.available_bytes as f64,
                    "bytes",
                    "/proc/meminfo",
                ),
            ],
            remedy: vec![self.remedy()],
        }
    }

    /// `java 12 with 3 GiB, db 10 with 2.0 GiB`.
    fn shown(&self) -> String {
        let one = |it: &&Thread| {
            format!("{} with {}", words::who(&it.thread), words::bytes(it.rss_bytes as f64))
        };
        self.most.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn remedy(&self) -> Remedy {
        match (self.is_short(), self.most.first()) {
            (true, Some(most)) => Remedy {
                text: format!(
                    "let {} have less memory, or give the host more; see who has what, and how much of it is in swap",
                    words::who(&most.thread)
                ),
                command: "grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail".into(),
                action: Some(Action::look(Question::State)),
                ..Remedy::default()
            },
            _ => Remedy {
                text: "memory is free again: read all of swap back at once, while it may take its time; each is switched on again with \
                       its priority"
                    .into(),
                command: BACK.into(),
                ..Remedy::default()
            },
        }
    }
}

/// Each area off and on by what the kernel lists: `swapon -a` knows those of /etc/fstab alone, and zram is none of them. A priority below 0 is the
/// kernel's own choice.
const BACK: &str = "tail -n +2 /proc/swaps | while read -r area _ _ _ priority; do swapoff \"$area\" && swapon $([ \"$priority\" -ge 0 ] && \
                    echo \"-p $priority\") \"$area\"; done";

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::SwapIn {
        return None;
    }
    let swapped = Swapped::of(measures, end)?;
    let by = swapped.culprit(measures);
    Some(Match::new(by, Proof::TwoWitnesses, move |loss| swapped.explain(loss)))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const GIB: u64 = 1 << 30;
    const DEV: DeviceNumber = DeviceNumber { major: 7, minor: 3 };

    /// A database, 10, that sleeps four seconds in such a function, beside a program with more memory, 20; so many pages came in
    /// and went out, and so much memory is available.
    fn found(function: &str, came_in: u64, went_out: u64, available_bytes: u64) -> Vec<Finding> {
        let mut facts = host();
        let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
        put(0, Body::Host(Host { page_bytes: 4096, ..Host::default() }));
        put(
            0,
            Body::Stack(Stack { id: 1, frames: vec![function.into(), "handle_mm_fault".into()] }),
        );
        put(0, Body::Disk(Disk { dev: DEV, name: "loop3".into(), ..Disk::default() }));
        let process = |pid, comm, rss_bytes, swap_bytes| {
            let thread = thread(pid, comm);
            Body::Thread(Thread { thread, rss_bytes, swap_bytes, ..Thread::default() })
        };
        put(0, process(10, "db", GIB / 4, Some(GIB / 8)));
        put(0, process(20, "backup", 3 * GIB, None));
        let memory = |swap_in, swap_out| {
            Body::MemorySample(MemorySample {
                total_bytes: 8 * GIB,
                available_bytes,
                swap_total_bytes: 2 * GIB,
                swap_free_bytes: GIB,
                swap_in,
                swap_out,
                ..MemorySample::default()
            })
        };
        put(0, memory(1_000, 9_000));
        put(LOOK_NS, memory(1_000 + came_in, 9_000 + went_out));
        let place =
            Place { state: WaitState::DiskSleep, stack: 1, disk: Some(DEV), ..Place::default() };
        let (thread, end_ns) = (thread(10, "db"), 4_000_000_000);
        let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
        put(end_ns, Body::Wait(Wait { thread, end_ns, place, wake, ..Wait::default() }));
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "memory.swap");
        found
    }

    #[test]
    fn after_a_shortage_it_is_the_disk_that_memory_comes_back_from() {
        let found = found("do_swap_page", 500, 20, 6 * GIB);
        assert_eq!(found[0].title, "db waits for its memory, which was swapped out to disk loop3");
        assert_eq!(found[0].culprit.name, "loop3");
        assert!(found[0].remedy[0].command.contains("swapoff \"$area\" && swapon"));
        for words in ["400 KiB/s came in", "db had 128 MiB there", "the shortage is over"] {
            assert!(found[0].text.contains(words), "{}", found[0].text);
        }
    }

    #[test]
    fn while_memory_is_short_it_is_who_has_most() {
        for (went_out, available) in [(700, 6 * GIB), (0, GIB / 2)] {
            let found = found("do_swap_page", 500, went_out, available);
            assert_eq!(found[0].culprit.pid, Some(20));
            let words = "Who has most memory: backup 20 with 3 GiB, db 10 with 256 MiB.";
            assert!(found[0].text.contains(words), "{}", found[0].text);
        }
    }

    #[test]
    fn without_pages_that_came_in_it_is_none() {
        assert_eq!(found("do_swap_page", 0, 700, 6 * GIB), []);
    }

    #[test]
    fn swap_that_nobody_waits_for_costs_nothing() {
        assert_eq!(found("filemap_fault", 500, 700, 6 * GIB), []);
    }
}
