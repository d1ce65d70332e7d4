//! What looks while a load runs: nothing, the floor, holdup in its three ways, and what a user would pick
//! instead.
//!
//! Each is attached and quiet before a slice of the load begins and asked to end after it has, so that the figure
//! holds the cost of being watched and nothing else: what beginning and ending take stands in the looker's own CPU
//! time. Only `holdup run` has the whole load under it, because it starts it. A peer that is not there, or fails,
//! is an answer (`refusal`), not an end of the bench.

use crate::child::{Ctx, Ended, first_words, words};
use crate::cut::Cut;
use crate::loads::Load;
use crate::skel::FloorSkelBuilder;
use anyhow::{Context, Result, bail};
use holdup_reason::answer::Report;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// How long anything may take to end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a peer, while the load goes on.
const PEER_PATIENCE: Duration = Duration::from_secs(25);

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looker {
    /// Nobody: what two equal runs differ by.
    Again,
    /// An empty pair of programs.
    Floor,
    /// `holdup`.
    Look,
    /// `holdup record`.
    Record,
    /// `holdup run`.
    Run,
    /// `holdup watch`.
    Watch,
    /// `perf sched record`.
    PerfSched,
    /// `perf trace -s`.
    PerfTrace,
    /// Off-CPU time by stack.
    Bpftrace,
}

/// Those that goals compare, and nobody again.
pub const CORE: &[Looker] = &[Looker::Again, Looker::Floor, Looker::Look];
/// Those that look at slices, but at few.
pub const MORE: &[Looker] =
    &[Looker::Record, Looker::Watch, Looker::PerfSched, Looker::PerfTrace, Looker::Bpftrace];

/// All, in the order of the table.
pub const LOOKERS: &[Looker] = &[
    Looker::Again,
    Looker::Floor,
    Looker::Look,
    Looker::Record,
    Looker::Run,
    Looker::Watch,
    Looker::PerfSched,
    Looker::PerfTrace,
    Looker::Bpftrace,
];

/// One run of a load under one looker.
#[derive(Debug, Default)]
pub struct Observation {
    /// Seconds for a unit of the load's work.
    pub seconds: f64,
    /// The looker's own CPU seconds.
    pub cpu_seconds: Option<f64>,
    /// Its largest resident set.
    pub rss_bytes: Option<u64>,
    /// What it wrote.
    pub bytes: Option<u64>,
    /// Events that it took.
    pub events: Option<u64>,
    /// Events that it says it lost.
    pub lost: Option<u64>,
    /// From the end of its window to its answer.
    pub answer_seconds: Option<f64>,
}

impl Looker {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Again => "nothing again",
            Self::Floor => "empty programs",
            Self::Look => "holdup",
            Self::Record => "holdup record",
            Self::Run => "holdup run",
            Self::Watch => "holdup watch",
            Self::PerfSched => "perf sched record",
            Self::PerfTrace => "perf trace -s",
            Self::Bpftrace => "bpftrace off-CPU",
        }
    }

    /// Slices that it looks at, at once: a look has work to do each second.
    fn slices(self) -> u32 {
        if matches!(self, Self::Look | Self::Record | Self::Watch) { 2 } else { 1 }
    }

    /// Has it look at the load.
    pub fn observe(self, ctx: &Ctx, cut: &Cut<'_>) -> Result<Observation> {
        let measure = || cut.seconds(ctx, self.slices());
        match self {
            Self::Again => Ok(Observation { seconds: measure()?, ..Observation::default() }),
            Self::Floor => under_floor(&measure),
            Self::Look => look(ctx, None, &measure),
            Self::Record => look(ctx, Some(ctx.path("look.hup")), &measure),
            Self::Run => bail!("it starts the load itself"),
            Self::Watch => watch(ctx, &measure),
            Self::PerfSched => perf_sched(ctx, &measure),
            Self::PerfTrace => perf_trace(ctx, &measure),
            Self::Bpftrace => bpftrace(ctx, &measure),
        }
    }
}

/// Seconds for a unit of the load's work.
type Measure<'a> = &'a dyn Fn() -> Result<f64>;

fn under_floor(measure: Measure<'_>) -> Result<Observation> {
    let mut storage = std::mem::MaybeUninit::uninit();
    let skel = FloorSkelBuilder::default().open(&mut storage)?.load()?;
    let _links = [skel.progs.floor_switch.attach()?, skel.progs.floor_waking.attach()?];
    Ok(Observation { seconds: measure()?, ..Observation::default() })
}

/// A finished look of holdup: what it said, and what it cost.
pub struct Looked {
    /// The report.
    pub report: Report,
    /// From the end of the window to the answer, seconds.
    pub answer_seconds: f64,
    /// The account of the process.
    pub ended: Ended,
}

impl Looked {
    /// Reads what stands in the file of `-o`.
    pub fn read(file: &Path, ended: Ended) -> Result<Self> {
        let text = fs::read(file).context("read holdup's answer")?;
        let report: Report = serde_json::from_slice(&text)
            .with_context(|| format!("holdup gave no report: {}", first_words(&ended.err)))?;
        let written = fs::metadata(file)?.modified()?.duration_since(UNIX_EPOCH)?.as_secs_f64();
        let end = report.window.begin_unix_ns as f64 / 1e9 + report.window.seconds;
        fs::remove_file(file).ok();
        Ok(Self { answer_seconds: (written - end).max(0.0), report, ended })
    }

    fn observation(&self, seconds: f64, bytes: Option<u64>) -> Observation {
        Observation {
            seconds,
            cpu_seconds: Some(self.report.cost.cpu_seconds),
            rss_bytes: Some(self.report.cost.rss_bytes),
            bytes,
            events: Some(self.report.cost.events),
            lost: Some(self.report.cost.events_lost),
            answer_seconds: Some(self.answer_seconds),
        }
    }
}

fn look(ctx: &Ctx, recording: Option<PathBuf>, measure: Measure<'_>) -> Result<Observation> {
    let answer = ctx.path("answer.json");
    let mut command = vec![ctx.holdup.to_string_lossy().into_owned()];
    if let Some(file) = &recording {
        command.extend(["record".into(), file.to_string_lossy().into_owned()]);
    }
    command.extend(words(&["--for", "300s", "--json", "-o", &answer.to_string_lossy()]));
    let tool = ctx.start(&command)?;
    // holdup attaches all at once, and slices settle.
    tool.ready_after(ctx, Duration::from_millis(120))?;
    let seconds = measure()?;
    let looked = Looked::read(&answer, tool.interrupt(ctx, TIMEOUT)?)?;
    let bytes = recording.map(|file| taken_away(&file));
    let mut observation = looked.observation(seconds, bytes);
    // Closing and writing are counted too: more than the report can know.
    observation.cpu_seconds = Some(looked.ended.cpu_seconds);
    observation.rss_bytes = Some(looked.ended.rss_bytes);
    Ok(observation)
}

/// Under the look that goes on, as shipped: windows of 10 s, of which a slice sees the end of one now and then.
fn watch(ctx: &Ctx, measure: Measure<'_>) -> Result<Observation> {
    let state = ctx.path("state");
    let command =
        words(&[&ctx.holdup.to_string_lossy(), "watch", "--state", &state.to_string_lossy()]);
    let tool = ctx.start(&command)?;
    tool.ready_after(ctx, Duration::from_millis(120))?;
    let seconds = measure()?;
    let ended = tool.interrupt(ctx, TIMEOUT)?;
    fs::remove_dir_all(&state).ok();
    Ok(Observation {
        seconds,
        cpu_seconds: Some(ended.cpu_seconds),
        rss_bytes: Some(ended.rss_bytes),
        ..Observation::default()
    })
}

/// A whole load under `holdup run`.
pub fn under_run(ctx: &Ctx, load: &Load) -> Result<Observation> {
    let answer = ctx.path("answer.json");
    let holdup = ctx.holdup.to_string_lossy();
    let mut command = words(&[&holdup, "run", "--json", "-o", &answer.to_string_lossy(), "--"]);
    command.extend(load.words.iter().cloned());
    let ended = ctx.complete(&command, TIMEOUT + TIMEOUT)?;
    let seconds = load.figure_of(&ended)?;
    let rss_read_bytes = ended.rss_read_bytes;
    let mut observation = Looked::read(&answer, ended)?.observation(seconds, None);
    // Its account by wait4 holds the command's too, so its own word and a reading are left.
    observation.rss_bytes = Some(rss_read_bytes);
    Ok(observation)
}

/// Bytes of a file that is then removed.
fn taken_away(file: &Path) -> u64 {
    let bytes = fs::metadata(file).map_or(0, |meta| meta.len());
    fs::remove_file(file).ok();
    bytes
}

/// Measures while a peer looks; gives its end and how long it took to come to it.
fn under_peer(ctx: &Ctx, command: &[String], measure: Measure<'_>) -> Result<(f64, Ended, f64)> {
    let tool = ctx.start(command)?;
    tool.ready(ctx)?;
    let seconds = measure()?;
    let asked = std::time::Instant::now();
    let ended = tool.interrupt(ctx, PEER_PATIENCE)?;
    let took = ended.at.duration_since(asked).as_secs_f64();
    Ok((seconds, ended, took))
}

fn of_peer(seconds: f64, ended: &Ended, bytes: u64) -> Observation {
    Observation {
        seconds,
        cpu_seconds: Some(ended.cpu_seconds),
        rss_bytes: Some(ended.rss_bytes),
        bytes: Some(bytes),
        ..Observation::default()
    }
}

fn perf_sched(ctx: &Ctx, measure: Measure<'_>) -> Result<Observation> {
    let file = ctx.path("perf.data");
    let command = words(&["perf", "sched", "record", "-o", &file.to_string_lossy()]);
    let (seconds, ended, _) = under_peer(ctx, &command, measure)?;
    let mut observation = of_peer(seconds, &ended, taken_away(&file));
    observation.events = before(&ended.err, " samples)");
    Ok(observation)
}

fn perf_trace(ctx: &Ctx, measure: Measure<'_>) -> Result<Observation> {
    let file = ctx.path("summary");
    let command = words(&["perf", "trace", "-a", "-s", "-o", &file.to_string_lossy()]);
    let (seconds, ended, took) = under_peer(ctx, &command, measure)?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut observation = of_peer(seconds, &ended, taken_away(&file));
    // ` sleep (24166), 218 events, 97.3%`
    let events = |line: &str| line.split_once("), ").and_then(|(_, rest)| before(rest, " events"));
    observation.events = Some(text.lines().filter_map(events).sum());
    observation.lost =
        Some(text.matches("LOST").count() as u64 + ended.err.matches("LOST").count() as u64);
    observation.answer_seconds = Some(took);
    Ok(observation)
}

/// Off-CPU time by the stack that left the CPU, as bcc's offcputime sums it.
const OFF_CPU: &str = "tracepoint:sched:sched_switch { @since[args->prev_pid] = nsecs; \
    @stack[args->prev_pid] = kstack; $since = @since[args->next_pid]; if ($since) { \
    @off[args->next_comm, @stack[args->next_pid]] = sum(nsecs - $since); \
    delete(@since[args->next_pid]); delete(@stack[args->next_pid]); } } \
    END { clear(@since); clear(@stack); }";

fn bpftrace(ctx: &Ctx, measure: Measure<'_>) -> Result<Observation> {
    let (seconds, ended, took) = under_peer(ctx, &words(&["bpftrace", "-e", OFF_CPU]), measure)?;
    let mut observation = of_peer(seconds, &ended, ended.out.len() as u64);
    let lost = ended.out.lines().chain(ended.err.lines()).filter(|line| line.contains("Lost"));
    observation.lost = Some(lost.count() as u64);
    observation.answer_seconds = Some(took);
    Ok(observation)
}

/// The number that stands before a word: `(3910 samples)`.
fn before(text: &str, word: &str) -> Option<u64> {
    let digits: String =
        text.split_once(word)?.0.chars().rev().take_while(char::is_ascii_digit).collect();
    digits.chars().rev().collect::<String>().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_before_words() {
        assert_eq!(before("perf.data (3910 samples) ]", " samples)"), Some(3910));
        assert_eq!(before("perf.data ]", " samples)"), None);
        assert_eq!(before("218 events, 97.3%", " events"), Some(218));
    }

    #[test]
    fn names_differ() {
        let names: std::collections::BTreeSet<_> = LOOKERS.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), LOOKERS.len());
    }
}
