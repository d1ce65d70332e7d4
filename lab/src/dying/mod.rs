//! A look while the host is dying: how soon it begins, how late its answer is, and what it takes of a host that has nothing left.
//!
//! Owns the trials and their table; what kills the host is in causes.rs. Each look is measured from outside, by the clock of the
//! lab, whose own wait for a CPU is in the figures: what it starts would inherit a priority of its own. The quiet host is the
//! first row, so that all others can be compared with it. Must not: judge what holdup says of it (the scenarios do).
//!
//! Edit together: docs/dying.md, which `--write-docs` writes, docs/lab.md.

mod causes;

use crate::document::Origin;
use crate::fault::{Ctx, Stopped, die_with_the_lab_in};
use crate::runner::Lab;
use crate::scenario::Variables;
use crate::seeded_draw::Draw;
use crate::undo::Journal;
use crate::{say, warn};
use anyhow::{Context, Result, bail};
use causes::{CAUSES, Cause};
use holdup_reason::answer::Report;
use holdup_reason::facts::OwnScheduling;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is asked for: a window of so many seconds.
const WINDOW_SECONDS: f64 = 2.0;
/// No answer after that is one that never comes.
const TIMEOUT: Duration = Duration::from_secs(120);
/// What the names of programs are drawn from: the same in each run.
const DRAWN_BY: u64 = 1;
/// What each cause is given to bite.
const BITE: Duration = Duration::from_secs(2);

/// One look.
#[derive(Debug, Clone)]
struct Look {
    /// From the start of the program to the begin of its window, seconds.
    begins_after: f64,
    /// From the window's end to the end of the program, seconds.
    late: f64,
    /// What the window was longer than asked for, seconds.
    longer: f64,
    /// Peak of its resident memory, bytes.
    resident_bytes: u64,
    locked: bool,
    events_lost: u64,
    /// How its own threads were scheduled.
    scheduling: &'static str,
    /// What it said first.
    said: String,
}

/// All looks during one cause.
struct Row {
    name: &'static str,
    about: &'static str,
    looks: Vec<Look>,
    /// What went wrong, one line each.
    failed: Vec<String>,
}

/// Makes each cause, or those whose name begins with one of `only`, looks `times` times, and gives the page.
pub fn run(lab: &Lab, only: &[String], times: usize) -> Result<String> {
    let wanted = |cause: &&&dyn Cause| {
        only.is_empty() || only.iter().any(|start| cause.name().starts_with(start.as_str()))
    };
    let program = lab.holdup.as_ref().context("no holdup to ask")?.program.clone();
    let mut rows = Vec::new();
    for cause in CAUSES.iter().filter(wanted) {
        say(&format!("{}: {}", cause.name(), cause.about()));
        rows.push(of_cause(lab, &program, *cause, times)?);
    }
    if rows.is_empty() {
        bail!("no such cause");
    }
    Ok(table(&rows))
}

fn of_cause(lab: &Lab, program: &Path, cause: &dyn Cause, times: usize) -> Result<Row> {
    let journal = Journal::open(&lab.dir)?;
    let row = under(lab, &journal, program, cause, times);
    journal.close();
    row
}

fn under(
    lab: &Lab,
    journal: &Arc<Journal>,
    program: &Path,
    cause: &dyn Cause,
    times: usize,
) -> Result<Row> {
    let mut row =
        Row { name: cause.name(), about: cause.about(), looks: Vec::new(), failed: Vec::new() };
    let draw = Draw::new(DRAWN_BY, cause.name());
    let (mut ctx, _scratch) = lab.open(journal, draw, Variables::default())?;
    let _guards = cause.begin(&mut ctx).with_context(|| cause.name().to_string())?;
    ctx.sleep(BITE)?;
    for _ in 0..times {
        match look(&ctx, program, cause) {
            Ok(look) => {
                say(&format!(
                    "  begins after {:.2} s, answers {:.2} s after its window, {:.1} MiB, {}: {}",
                    look.begins_after,
                    look.late,
                    mib(look.resident_bytes),
                    look.scheduling,
                    look.said,
                ));
                row.looks.push(look);
            }
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(error) => {
                warn(&format!("{}: {error:#}", cause.name()));
                row.failed.push(format!("{error:#}"));
            }
        }
    }
    Ok(row)
}

fn look(ctx: &Ctx, program: &Path, cause: &dyn Cause) -> Result<Look> {
    let (out, err) = (ctx.scratch.join("answer.json"), ctx.scratch.join("answer.err"));
    let mut command = Command::new(program);
    command
        .args(["--for", &format!("{WINDOW_SECONDS}s"), "--json"])
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .process_group(0);
    cause.place(ctx, &mut command)?;
    die_with_the_lab_in(&mut command, &cause.cgroups(ctx)?);
    let (begin, begin_unix) = (Instant::now(), unix_seconds()?);
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    loop {
        if child.try_wait()?.is_some() {
            break;
        }
        let stopped = ctx.stop.load(Ordering::Relaxed);
        if stopped || begin.elapsed() > TIMEOUT {
            child.kill()?;
            child.wait()?;
            if stopped {
                return Err(Stopped.into());
            }
            bail!("no answer within {:.0} s", TIMEOUT.as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let text = std::fs::read(&out)?;
    let report: Report = serde_json::from_slice(&text).with_context(|| {
        let errors = std::fs::read_to_string(&err).unwrap_or_default();
        format!("no report: {}", errors.lines().last().unwrap_or("it said nothing"))
    })?;
    Ok(measured(&report, begin_unix, seconds))
}

/// By the report's window and the lab's clock.
fn measured(report: &Report, begin_unix: f64, seconds: f64) -> Look {
    let begins_after = report.window.begin_unix_ns as f64 / 1e9 - begin_unix;
    let scheduling = report.cost.scheduling.as_ref();
    Look {
        begins_after,
        late: seconds - begins_after - report.window.seconds,
        longer: report.window.seconds - WINDOW_SECONDS,
        resident_bytes: report.cost.rss_bytes,
        locked: report.cost.memory_locked == Some(true),
        events_lost: report.cost.events_lost,
        scheduling: scheduling.map_or("not known", scheduled),
        said: report.findings.first().map_or_else(
            || "no finding".into(),
            |finding| format!("{}: {}", finding.code, finding.title),
        ),
    }
}

fn scheduled(scheduling: &OwnScheduling) -> &'static str {
    match scheduling {
        OwnScheduling::Ordinary => "like all others",
        OwnScheduling::RoundRobin => "SCHED_RR",
        OwnScheduling::Deadline => "SCHED_DEADLINE",
        OwnScheduling::Nice => "nice -20",
        OwnScheduling::GivenBack => "priority given back",
    }
}

fn unix_seconds() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Median and worst of one figure.
fn median_and_worst(looks: &[Look], of: impl Fn(&Look) -> f64) -> (f64, f64) {
    let mut all: Vec<f64> = looks.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    let median = all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
    (median, all.last().copied().unwrap_or(f64::NAN))
}

/// docs/dying.md.
pub fn page(table: &str, origin: &Origin) -> String {
    format!(
        "# A look while the host is dying\n\nMeasured by the lab on {} with kernel {} on {} CPUs, holdup {}. Each look is asked \
         for {WINDOW_SECONDS} s. To repeat it, as root (some minutes, and the machine is hard to use meanwhile):\n\n\
         ```console untested=makes-the-machine-unusable-for-minutes\n\
         $ cargo run --release -p holdup-lab -- dying --write-docs\n```\n\n{table}",
        origin.date, origin.kernel, origin.cpus, origin.version,
    )
}

/// The table, and what was said.
fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| the host | looks | begins after, median (worst) | answers after its window | window longer by | resident, peak | \
         locked | events lost |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let looks = &row.looks;
        let seconds = |of: fn(&Look) -> f64| {
            let (median, worst) = median_and_worst(looks, of);
            format!("{median:.2} s ({worst:.2} s)")
        };
        let _ = writeln!(
            out,
            "| {}: {} | {} of {} | {} | {} | {} | {:.1} MiB | {} of {} | {} |",
            row.name,
            row.about,
            looks.len(),
            looks.len() + row.failed.len(),
            seconds(|look| look.begins_after),
            seconds(|look| look.late),
            seconds(|look| look.longer),
            mib(looks.iter().map(|look| look.resident_bytes).max().unwrap_or(0)),
            looks.iter().filter(|look| look.locked).count(),
            looks.len(),
            looks.iter().map(|look| look.events_lost).sum::<u64>(),
        );
    }
    out.push_str("\nWhat it said first, and how its own threads were scheduled:\n\n");
    for row in rows {
        let mut said: Vec<String> =
            row.looks.iter().map(|look| format!("{} ({})", look.said, look.scheduling)).collect();
        said.dedup();
        let first = said.first().map_or("nothing", String::as_str);
        let _ = writeln!(out, "- {}: {first}", row.name);
        for failed in &row.failed {
            let _ = writeln!(out, "- {}, without an answer: {failed}", row.name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(late: f64) -> Look {
        Look {
            begins_after: 0.3,
            late,
            longer: 0.0,
            resident_bytes: 26 << 20,
            locked: true,
            events_lost: 7,
            scheduling: "SCHED_RR",
            said: "no finding".into(),
        }
    }

    #[test]
    fn the_table_has_median_and_worst_and_names_what_failed() {
        let row = Row {
            name: "hogs",
            about: "100 processes compute",
            looks: vec![look(0.2), look(0.9), look(0.4)],
            failed: vec!["no answer within 120 s".into()],
        };
        let page = table(&[row]);
        let line = "| hogs: 100 processes compute | 3 of 4 | 0.30 s (0.30 s) | 0.40 s (0.90 s) | 0.00 s (0.00 s) | 26.0 MiB | \
                    3 of 3 | 21 |";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("- hogs, without an answer: no answer within 120 s"), "{page}");
    }
}
