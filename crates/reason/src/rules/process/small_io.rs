//! process.small_io: a program asks the kernel for a few bytes at a time.
//!
//! A system call costs a fixed part, whatever it moves. The samples show the time in read and write with the size
//! that was asked for, the task's own counters show calls and bytes: both must be small. Messages (sockets, pipes,
//! terminals) have the size that their sender gave them and are left out. Rejected: counting system calls of
//! everybody by tracing them, which costs more than many of them do.

use crate::facts::Work;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_profile::{Rates, Spent};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

static ON_A_FILE_MIN: Threshold = Threshold::new(
    0.2,
    "1",
    "of the samples in those calls, the part seen in functions of files; the rest is entering and leaving the kernel, \
     which is just what a call costs",
    "reference machine: a byte at a time into the page cache",
);
static SHARE_MIN: Threshold = Threshold::new(
    0.33,
    "1",
    "of a program's samples, those in read and write; below it a buffer changes little",
    "chosen: a third",
);
static SAMPLED_BYTES_MAX: Threshold = Threshold::new(
    128.0,
    "bytes",
    "asked for by a sampled call, on average; at this size the fixed part of a call is still ten times what copying \
     the bytes takes",
    "reference machine: read and write of 1 to 4096 bytes",
);
static COUNTED_BYTES_MAX: Threshold = Threshold::new(
    256.0,
    "bytes",
    "of a counted call, on average; the counters hold the larger calls in between, too",
    "chosen: twice what a sampled call may ask for",
);
static CALLS_MIN: Threshold = Threshold::new(
    10_000.0,
    "1/s",
    "calls of the read and write families; fewer cost no noticeable part of a CPU",
    "reference machine: some hundred nanoseconds a call",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.small_io",
    title: "A program reads or writes a few bytes at a time",
    theory: "A read or write of a file costs some hundred nanoseconds before the first byte moves: entering the kernel, \
             locks, times, the page cache. The bytes themselves cost next to nothing. A program without a buffer pays \
             the fixed part for every byte.",
    needs: &[
        "a third or more of its CPU samples are in read, write, pread or pwrite",
        "the calls that were sampled asked for 128 bytes or less on average",
        "a fifth of them or more is seen in functions of files, more than in those of pipes and sockets",
        "the kernel counted 10,000 calls a second or more, of 256 bytes or less on average",
    ],
    refuted_by: &[
        Refutation::new(
            "the calls are on sockets, pipes or terminals, where a message has its size",
            "small_messages_are_healthy",
        ),
        Refutation::new("the calls ask for blocks", "blocks_are_healthy"),
        Refutation::new(
            "most of its time goes elsewhere",
            "a_program_that_mostly_computes_is_healthy",
        ),
    ],
    remedies: &["buffer: fwrite, BufWriter, io.BufferedWriter", "map the file", "writev"],
    stories: &["S3.1", "S2.9"],
    thresholds: &[
        &SHARE_MIN,
        &SAMPLED_BYTES_MAX,
        &ON_A_FILE_MIN,
        &CALLS_MIN,
        &COUNTED_BYTES_MAX,
        &COST_MIN,
        &PART_MIN,
    ],
    finds: Finds::End(find),
};

const CALLS: &[&str] = &["read", "write", "pread64", "pwrite64"];
const MESSAGES: &[&str] = &[
    "sock_write_iter",
    "sock_read_iter",
    "pipe_write",
    "pipe_read",
    "anon_pipe_write",
    "anon_pipe_read",
    "fifo_pipe_write",
    "fifo_pipe_read",
    "file_tty_write",
    "tty_read",
    "eventfd_write",
    "eventfd_read",
];
/// The functions of file systems and the page cache that a read or write of a file passes.
fn on_a_file(frame: &str) -> bool {
    frame.ends_with("file_write_iter")
        || frame.ends_with("file_read_iter")
        || frame.starts_with("filemap_")
        || frame == "generic_perform_write"
}

/// What a program does with its calls.
struct Calls {
    spent: Spent,
    /// Samples in them.
    samples: u64,
    /// Mean of what the sampled ones asked for.
    asked: f64,
    rates: Rates,
    syscall: String,
}

impl Calls {
    /// Of a program that asks for little at a time.
    fn of(measures: &Measures<'_>, pid: u32) -> Option<Self> {
        let profile = &measures.profile;
        let spent = profile.spent(pid)?;
        let wanted = |w: &&&Work| CALLS.contains(&w.syscall.as_str());
        let calls: Vec<&&Work> = profile.work(pid).iter().filter(wanted).collect();
        let samples: u64 = calls.iter().map(|w| w.count).sum();
        let asked = calls.iter().map(|w| w.asked_bytes).sum::<u64>() as f64 / samples.max(1) as f64;
        let messages = profile.in_kernel(pid, |f| MESSAGES.contains(&f));
        let files = profile.in_kernel(pid, on_a_file);
        let on_files = files as f64 >= ON_A_FILE_MIN.value * samples as f64 && files > messages;
        let share = spent.share(samples);
        if share < SHARE_MIN.value || asked > SAMPLED_BYTES_MAX.value || !on_files {
            return None;
        }
        let rates = profile.rates(pid)?;
        let syscall = calls.iter().max_by_key(|w| w.count)?.syscall.clone();
        let calls = Self { spent, samples, asked, rates, syscall };
        let small = rates.calls >= CALLS_MIN.value && calls.mean() <= COUNTED_BYTES_MAX.value;
        small.then_some(calls)
    }

    /// Bytes of a counted call.
    fn mean(&self) -> f64 {
        self.rates.bytes / self.rates.calls.max(1.0)
    }

    fn explain(&self, wall: f64) -> Wording {
        let pid = self.spent.process.pid;
        let (share, seconds) = (self.spent.share(self.samples), self.spent.seconds(self.samples));
        let does = if self.syscall.contains("read") { "reads" } else { "writes" };
        let who = words::who(&self.spent.process);
        let sampled = "cpu-clock samples";
        Wording {
            title: format!("{who} {does} {} at a time", words::bytes(self.mean().max(1.0))),
            text: format!(
                "{} of its CPU time ({}) is spent in {}: {} calls a second for {}/s. Each call costs the same for \
                 one byte as for thousands.",
                words::percent(share),
                words::of_window(seconds, wall),
                self.syscall,
                words::thousands(self.rates.calls),
                words::bytes(self.rates.bytes),
            ),
            evidence: vec![
                Evidence::new("share of its CPU time in read and write", share, "1", sampled),
                Evidence::new("bytes asked for by a sampled call", self.asked, "bytes", sampled),
                Evidence::new("calls", self.rates.calls, "1/s", "task_struct ioac"),
                Evidence::new("bytes of a call", self.mean(), "bytes", "task_struct ioac"),
            ],
            remedy: vec![
                Remedy {
                    text: format!("buffer what it {does}; see which file it is"),
                    command: format!(
                        "strace -f -y -p {pid} -e trace={} 2>&1 | head -3",
                        self.syscall
                    ),
                    ..Remedy::default()
                }
                .acting(Action {
                    value: Some(self.syscall.clone()),
                    ..Action::ask(Question::Calls, &self.spent.process)
                }),
            ],
        }
    }
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end)?;
    let calls = Calls::of(measures, pid)?;
    let process = &calls.spent.process;
    let cost = Cost::of_one(measures, process, calls.spent.seconds(calls.samples), end);
    if !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let by = culprit(measures.model, process);
    let does = ("system call", calls.syscall.clone());
    let matched = Match::new(by, Proof::TwoWitnesses, move |loss| calls.explain(loss.wall_seconds));
    Some(cost.charge(matched.on(Object::Process(pid)), does))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    fn writer(frames: &[&str], size: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(frames, 600), (&[], 300)]);
        facts.push(in_call("write", "", 600, size * 600));
        facts.push(effort(Effort {
            writes: 5_000_000,
            write_bytes: 5_000_000 * size,
            ..Effort::default()
        }));
        facts
    }

    #[test]
    fn a_byte_at_a_time_is_reported() {
        let report = explain(writer(&["generic_perform_write", "vfs_write"], 1));
        assert_eq!(report.findings[0].code, "process.small_io");
        assert!(report.findings[0].title.contains("writes 1 byte at a time"));
    }

    #[test]
    fn blocks_are_healthy() {
        assert!(explain(writer(&["generic_perform_write", "vfs_write"], 4096)).findings.is_empty());
    }

    #[test]
    fn a_program_that_mostly_computes_is_healthy() {
        let mut facts = sampled(&[(&["generic_perform_write", "vfs_write"], 200), (&[], 700)]);
        facts.push(in_call("write", "", 200, 200));
        facts.push(effort(Effort {
            writes: 5_000_000,
            write_bytes: 5_000_000,
            ..Effort::default()
        }));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn small_messages_are_healthy() {
        assert!(explain(writer(&["sock_write_iter", "vfs_write"], 20)).findings.is_empty());
        // Traced by another tool, the calls spend their time before they reach what they are on.
        assert!(explain(writer(&["perf_trace_sys_enter"], 4)).findings.is_empty());
    }
}
