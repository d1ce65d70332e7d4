//! process.small_io: a program asks the kernel for a few bytes at a time.
//!
//! A system call costs a fixed part, whatever it moves. The samples show the time in read and write with the size
//! that was asked for, the task's own counters show calls and bytes: both must be small. Messages (sockets, pipes,
//! terminals) have the size that their sender gave them and are left out. Rejected: counting system calls of
//! everybody by tracing them, which costs more than many of them do.

use crate::answer::report::{Evidence, Finding, ObjectName, Remedy};
use crate::facts::Work;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, words, work};

/// The case.
pub static RULE: Rule = Rule {
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
            "",
        ),
        Refutation::new("most of its time goes elsewhere", ""),
    ],
    remedies: &["buffer: fwrite, BufWriter, io.BufferedWriter", "map the file", "writev"],
    stories: &["S3.1", "S2.9"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
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
/// Of the samples in those calls. The rest is entering and leaving the kernel, which is just what it costs.
const ON_A_FILE_MIN: f64 = 0.2;
const SHARE_MIN: f64 = 0.33;
/// At this size the fixed part of a call is still ten times what copying the bytes takes.
const SAMPLED_BYTES_MAX: f64 = 128.0;
/// The counters hold the larger calls between, too.
const COUNTED_BYTES_MAX: f64 = 256.0;
const CALLS_MIN: f64 = 10_000.0;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    work::findings(measures, finding)
}

fn finding(measures: &Measures<'_>, spent: &work::Spent) -> Option<Finding> {
    let pid = spent.process.pid;
    let of_process = |w: &&Work| w.process.pid == pid && CALLS.contains(&w.syscall.as_str());
    let calls: Vec<&Work> = measures.model.work.iter().filter(of_process).collect();
    let samples: u64 = calls.iter().map(|w| w.count).sum();
    let asked = calls.iter().map(|w| w.asked_bytes).sum::<u64>() as f64 / samples.max(1) as f64;
    let share = spent.share(samples);
    let messages = work::in_kernel(measures, pid, |f| MESSAGES.contains(&f));
    let files = work::in_kernel(measures, pid, on_a_file);
    let on_files = files as f64 >= ON_A_FILE_MIN * samples as f64 && files > messages;
    if share < SHARE_MIN || asked > SAMPLED_BYTES_MAX || !on_files {
        return None;
    }
    let rates = work::effort(measures, pid)?;
    let mean = rates.bytes / rates.calls.max(1.0);
    if rates.calls < CALLS_MIN || mean > COUNTED_BYTES_MAX {
        return None;
    }
    let most = calls.iter().max_by_key(|w| w.count)?;
    let does = if most.syscall.contains("read") { "reads" } else { "writes" };
    let wall = measures.wall_seconds();
    let seconds = spent.seconds(samples);
    let who = words::who(&spent.process);
    let verdict = Verdict {
        title: format!("{who} {does} {} at a time", words::bytes(mean.max(1.0))),
        text: format!(
            "{} of its CPU time ({}) is spent in {}: {} calls a second for {}/s. Each call costs the same for \
             one byte as for thousands.",
            words::percent(share),
            words::of_window(seconds, wall),
            most.syscall,
            words::thousands(rates.calls),
            words::bytes(rates.bytes),
        ),
        confidence: 0.93,
        culprit: culprit(measures, &spent.process),
        evidence: vec![
            Evidence::new(
                "share of its CPU time in read and write",
                share,
                "1",
                "cpu-clock samples",
            ),
            Evidence::new("bytes asked for by a sampled call", asked, "bytes", "cpu-clock samples"),
            Evidence::new("calls", rates.calls, "1/s", "task_struct ioac"),
            Evidence::new("bytes of a call", mean, "bytes", "task_struct ioac"),
        ],
        remedy: vec![Remedy {
            text: format!("buffer what it {does}; see which file it is"),
            command: format!("strace -f -y -p {pid} -e trace={} 2>&1 | head -3", most.syscall),
            ..Remedy::default()
        }],
    };
    let object = measures.model.name_of(&Object::Process(spent.process.pid));
    let on = ObjectName::new("system call", &most.syscall);
    let lost = vec![(spent.process.clone(), seconds)];
    Some(work::finding(&RULE, measures, object, on, &lost, verdict))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::old::work_tests::*;

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
    fn a_byte_at_a_time_is_told() {
        let report = explain(writer(&["generic_perform_write", "vfs_write"], 1));
        assert_eq!(report.findings[0].code, "process.small_io");
        assert!(report.findings[0].title.contains("writes 1 B at a time"));
    }

    #[test]
    fn blocks_are_healthy() {
        assert!(explain(writer(&["generic_perform_write", "vfs_write"], 4096)).findings.is_empty());
    }

    #[test]
    fn small_messages_are_healthy() {
        assert!(explain(writer(&["sock_write_iter", "vfs_write"], 20)).findings.is_empty());
        // Traced by another tool, the calls spend their time before they reach what they are on.
        assert!(explain(writer(&["perf_trace_sys_enter"], 4)).findings.is_empty());
    }
}
