//! Floods: as many switches, and as many packets, as the machine makes. holdup must stay standing, count
//! what it could not take, and still say who floods.
//!
//! Switches come from ping-pongs pinned two to a CPU; waits from pairs of threads, each wait long enough to be
//! reported; packets run over the loopback of a network namespace made for them. The report is taken as it stands: what it named is printed, and whether the
//! author's name is among it is looked up, not judged.

use crate::child::{Ctx, Running, words};
use crate::growth;
use crate::kernel::look_during;
use crate::lookers::Looked;
use crate::results::Flood;
use anyhow::{Context, Result};
use holdup_lab::undo::{Guards, Undo};
use std::fs;
use std::time::{Duration, Instant};

/// Ping-pongs for each CPU.
const PER_CPU: usize = 2;

/// Pairs of threads that wait two milliseconds for each other.
const PAIRS: &str = "160";

/// All floods.
pub fn all(ctx: &Ctx, seconds: f64, trouble: &mut Vec<String>) -> Result<Vec<Flood>> {
    let mut found = Vec::new();
    let kinds = [switches, waits, packets];
    for make in kinds {
        match make(ctx, seconds) {
            Ok(flood) => found.push(flood),
            Err(error) => {
                ctx.check_interrupted()?;
                trouble.push(format!("flood: {error:#}"));
            }
        }
    }
    Ok(found)
}

fn switches(ctx: &Ctx, seconds: f64) -> Result<Flood> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut running: Vec<Running> = Vec::new();
    for number in 0..cpus * PER_CPU {
        let cpu = (number % cpus).to_string();
        let endless = ["taskset", "-c", &cpu, "perf", "bench", "sched", "pipe", "-l", "1000000000"];
        running.push(ctx.start(&words(&endless))?);
    }
    ctx.sleep(Duration::from_millis(300))?;
    measured(ctx, "switches", &["sched-pipe", "perf"], seconds, growth::switches)
}

fn waits(ctx: &Ctx, seconds: f64) -> Result<Flood> {
    let _load = growth::own_load(ctx, &["handovers", PAIRS])?;
    measured(ctx, "waits (switches counted)", &["bench-load"], seconds, growth::switches)
}

fn packets(ctx: &Ctx, seconds: f64) -> Result<Flood> {
    let name = format!("holdup-bench-{}", std::process::id());
    let mut guards = Guards::new();
    guards.push(ctx.journal.guard(Undo::Netns { name: name.clone() })?);
    crate::child::run(&["ip", "netns", "add", &name])?;
    crate::child::run(&["ip", "-n", &name, "link", "set", "lo", "up"])?;
    let inside = ["ip", "netns", "exec", &name, &ctx.own_load(), "packets"];
    let load = ctx.start(&words(&inside))?;
    let until = Instant::now() + Duration::from_secs(5);
    while !load.output().contains("ready") && Instant::now() < until {
        ctx.sleep(Duration::from_millis(20))?;
    }
    let pid = load.pid;
    let count = move || {
        let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"));
        let packets = line.and_then(|line| line.split_whitespace().nth(1));
        packets.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    let flood = measured(ctx, "packets", &["bench-load"], seconds, count);
    drop(load);
    flood
}

fn measured(
    ctx: &Ctx,
    of: &str,
    authors: &[&str],
    seconds: f64,
    count: impl Fn() -> u64,
) -> Result<Flood> {
    let mut per_second = 0.0;
    let (looked, _) = look_during(ctx, &[], || {
        let before = count();
        ctx.sleep(Duration::from_secs_f64(seconds))?;
        per_second = (count() - before) as f64 / seconds;
        Ok(())
    })
    .with_context(|| format!("a flood of {of}"))?;
    let named = named(&looked);
    let report = &looked.report;
    Ok(Flood {
        of: of.into(),
        author: authors.join(" or "),
        per_second,
        events: report.cost.events,
        lost: report.cost.events_lost,
        cpu_seconds: looked.ended.cpu_seconds,
        seconds: report.window.seconds,
        residual_share: report.accounting.residual_seconds.abs()
            / report.accounting.wall_seconds.max(1e-9),
        author_named: report
            .findings
            .iter()
            .map(|finding| &finding.culprit.name)
            .chain(report.caveats.iter().filter(|it| it.code == "switch_flood").map(|it| &it.text))
            .any(|text| authors.iter().any(|author| text.contains(author))),
        named,
    })
}

/// What the report says, a line for each finding: code, object, culprit, victims; and the caveat that names who
/// floods without anybody's harm.
fn named(looked: &Looked) -> Vec<String> {
    let line = |finding: &holdup_reason::answer::Finding| {
        let mut victims: Vec<&str> = finding.victims.iter().map(|it| it.comm.as_str()).collect();
        victims.dedup();
        victims.truncate(3);
        let victims = victims.join(", ");
        let (object, culprit) = (&finding.object.name, &finding.culprit.name);
        let line = format!("{}: {object}; culprit {culprit}; waiting: {victims}", finding.code);
        line.chars().filter(|c| !c.is_control()).take(200).collect()
    };
    let floods = looked.report.caveats.iter().filter(|caveat| caveat.code == "switch_flood");
    looked.report.findings.iter().map(line).chain(floods.map(|it| it.text.clone())).collect()
}
