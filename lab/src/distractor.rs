//! What one run in four has beside its fault: a loud but harmless neighbour, or a second, smaller fault.
//!
//! The neighbour is there from before the baseline on, in the twin as well, so that it cannot be what
//! hurts; it must never be named. The second fault has processes of its own, comes after the first, and
//! makes somebody wait for about a tenth of the time: less than any first one for which it is allowed. Only
//! scenarios whose fault makes somebody wait may have it (`double = false` forbids it), and only when the
//! load lost at least half: else the order of the two would be a matter of taste. A draw of its own, so
//! that no number of the scenario depends on it. Rejected: two full faults at once (which is the bigger one
//! would be drawn, not known).
//!
//! Edit together: README.md (what may be there, and what must be said).

use crate::fault::{Ctx, Spawn};
use crate::faults::stage::{netns, words};
use crate::judgement::alarms;
use crate::scenario::Scenario;
use crate::seeded_draw::Draw;
use crate::trial::Beside;
use crate::undo::{Guards, Undo};
use anyhow::Result;
use holdup_reason::answer::{Finding, Report};
use std::fs;
use std::time::Duration;

/// The loss from which on a fault is surely bigger than a second one.
pub const BIG: f64 = 0.5;

/// What a run has beside its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distractor {
    /// Nothing.
    None,
    /// One of [`NEIGHBOURS`].
    Neighbour(usize),
    /// One of [`SECONDS`].
    Second(usize),
}

impl std::fmt::Display for Distractor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("nothing"),
            Self::Neighbour(number) => f.write_str(NEIGHBOURS[*number]),
            Self::Second(number) => write!(f, "a second fault, {}", SECONDS[*number]),
        }
    }
}

/// Neighbours, for people.
pub const NEIGHBOURS: [&str; 5] = [
    "a nice 19 loop in its own cgroup",
    "a pool of 500 sleeping threads",
    "a chatty UDP pair in its own network namespace",
    "a busy pair on a pipe",
    "a writer on another disk",
];

/// The one of [`NEIGHBOURS`] that never runs.
const SLEEPING: usize = 1;

/// Codes of the second faults.
pub const SECONDS: [&str; 3] = ["lock.file", "cpu.quota", "process.socket_peer"];

/// What the seed decides for a scenario.
pub fn drawn(scenario: &Scenario, seed: u64) -> Distractor {
    let mut draw = Draw::new(seed, &format!("{}/beside", scenario.name));
    if !draw.chance(0.25) {
        return Distractor::None;
    }
    let second = draw.chance(0.5);
    let (neighbour, code) = (draw.index(NEIGHBOURS.len()), draw.index(SECONDS.len()));
    if second && scenario.double && scenario.fault.is_some() {
        // A second fault of the first one's code would be the same finding twice.
        let of_truth = |at: usize| {
            let area = |code: &str| code.split('.').next().unwrap_or_default().to_string();
            let truth = scenario.truth.iter().map(|truth| &truth.code);
            truth.into_iter().any(|code| area(code) == area(SECONDS[at]))
        };
        let code = if of_truth(code) { (code + 1) % SECONDS.len() } else { code };
        return Distractor::Second(code);
    }
    // Where CPUs are what is short, a loop that takes what is left over would change the fault.
    let of_cpu = scenario.fault.as_deref().is_some_and(|fault| fault.starts_with("cpu."));
    // Where the load takes them all, fault or not, any neighbour that runs waits and is no harmless one.
    let runs = of_cpu && neighbour == 0 || scenario.fills_cpus;
    Distractor::Neighbour(if runs { SLEEPING } else { neighbour })
}

/// What stands beside the fault, and by what it would be named.
#[derive(Default)]
pub struct Standing {
    /// What takes it back.
    pub guards: Guards,
    /// Processes.
    pids: Vec<i32>,
    /// Groups, disks, files.
    names: Vec<String>,
}

impl Standing {
    fn start(&mut self, ctx: &mut Ctx, name: &str, spawn: Spawn) -> Result<i32> {
        let spawn = Spawn { name: name.into(), ..spawn };
        let started = ctx.spawn(&spawn)?;
        self.pids.push(started.pid);
        self.guards.push(started.guard);
        Ok(started.pid)
    }

    /// The finding has one of these as its culprit or object.
    fn is_named_by(&self, finding: &Finding) -> bool {
        let culprit = &finding.culprit;
        let texts = [
            Some(&culprit.name),
            culprit.container.as_ref(),
            culprit.setting.as_ref(),
            Some(&finding.object.name),
        ];
        let by_pid = self.pids.iter().any(|pid| culprit.pid == u32::try_from(*pid).ok());
        by_pid || self.names.iter().any(|n| texts.iter().flatten().any(|t| t.contains(n.as_str())))
    }
}

fn kind(arguments: &[&str]) -> Spawn {
    Spawn { arguments: words(arguments), ..Spawn::default() }
}

/// Starts what is drawn, if it is a neighbour.
pub fn neighbour(ctx: &mut Ctx, seed: u64, distractor: Distractor) -> Result<Standing> {
    match distractor {
        Distractor::Neighbour(number) => {
            with_own_draw(ctx, seed, |ctx| start_neighbour(ctx, number))
        }
        _ => Ok(Standing::default()),
    }
}

/// Starts what is drawn, if it is a second fault.
pub fn second(ctx: &mut Ctx, seed: u64, distractor: Distractor) -> Result<Standing> {
    match distractor {
        Distractor::Second(number) => with_own_draw(ctx, seed, |ctx| start_second(ctx, number)),
        _ => Ok(Standing::default()),
    }
}

/// Names and ports come from a draw of their own, so that the scenario's stay what they were.
fn with_own_draw(
    ctx: &mut Ctx,
    seed: u64,
    start: impl FnOnce(&mut Ctx) -> Result<Standing>,
) -> Result<Standing> {
    let name = ctx.text("load_name")?;
    let before = std::mem::replace(&mut ctx.draw, Draw::new(seed, &format!("{name}/beside")));
    let standing = start(ctx);
    ctx.draw = before;
    standing
}

/// Starts the neighbour of that number.
fn start_neighbour(ctx: &mut Ctx, number: usize) -> Result<Standing> {
    let mut standing = Standing::default();
    let name = ctx.draw.name();
    match number {
        0 => {
            let group = ctx.draw.name();
            let (path, guard) = ctx.cgroup("cpu", &group)?;
            standing.guards.push(guard);
            // Between groups their shares count, not the nice values within.
            fs::write(path.join("cpu.shares"), "2")?;
            standing.names.push(group);
            let pid =
                standing.start(ctx, &name, Spawn { cgroups: vec![path], ..kind(&["hog"]) })?;
            ctx.tool("renice", &["-n", "19", "-g", &pid.to_string()])?;
        }
        1 => {
            let pool = ["pool", "--threads", "500", "--jobs-per-second", "40", "--work-us", "50"];
            standing.start(ctx, &name, kind(&pool))?;
        }
        2 => {
            let (space, guard) = netns(ctx)?;
            standing.guards.push(guard);
            let place = format!("127.0.0.1:{}", 2000 + ctx.draw.index(30_000));
            let inside = |spawn: Spawn| Spawn { netns: Some(space.clone()), ..spawn };
            standing.start(ctx, &name, inside(kind(&["udp-echo", &place])))?;
            let name = ctx.draw.name();
            standing.start(ctx, &name, inside(kind(&["udp-ping", &place, "--every-ms", "2"])))?;
        }
        3 => {
            let pipe = ["pipeline", "--path", "/dev/null", "--rest-us", "900"];
            standing.start(ctx, &name, kind(&pipe))?;
        }
        _ => write_elsewhere(ctx, &name, &mut standing)?,
    }
    Ok(standing)
}

/// A writer on a disk of its own, which lies in memory.
fn write_elsewhere(ctx: &mut Ctx, name: &str, standing: &mut Standing) -> Result<()> {
    let (below, data) = (ctx.directory("spare")?, ctx.directory("spool")?);
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    standing.guards.push(ctx.journal.guard(Undo::Mount { path: below.clone() })?);
    ctx.tool("mount", &["-t", "tmpfs", "-o", "size=64m", "tmpfs", &text(&below)])?;
    let image = below.join("image");
    fs::File::create(&image)?.set_len(48 << 20)?;
    standing.guards.push(ctx.journal.guard(Undo::Loop { backing: image.clone() })?);
    let node = ctx.tool("losetup", &["--show", "-f", &text(&image)])?;
    ctx.tool("mkfs.ext4", &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0", &node])?;
    standing.guards.push(ctx.journal.guard(Undo::Mount { path: data.clone() })?);
    ctx.tool("mount", &["-o", "noatime", &node, &text(&data)])?;
    standing.names.push(node.trim_start_matches("/dev/").into());
    standing.names.push(text(&data));
    let file = data.join("log");
    let writer = ["sync-writer", "--path", &text(&file), "--size", "16384", "--rest-us", "8000"];
    standing.start(ctx, name, kind(&writer))?;
    Ok(())
}

/// Makes the second fault of that number. Each makes one process wait for about a tenth of the time.
fn start_second(ctx: &mut Ctx, number: usize) -> Result<Standing> {
    let mut standing = Standing::default();
    let (one, other) = (ctx.draw.name(), ctx.draw.name());
    let dir = ctx.directory("var")?;
    let path = dir.join(ctx.draw.name()).to_string_lossy().into_owned();
    match number {
        0 => {
            // Held for 40 of each 240 ms; who comes every 15 ms waits for the rest of it, once.
            let holder = ["file-lock", &path, "--hold-ms", "40", "--again-ms", "200"];
            standing.start(ctx, &one, kind(&holder))?;
            let waiter = ["file-lock", &path, "--hold-ms", "1", "--again-ms", "15"];
            standing.start(ctx, &other, kind(&waiter))?;
        }
        1 => {
            // Computes for 3 ms at a stretch, may have 2 of each 10.
            let group = ctx.draw.name();
            let (directory, guard) = ctx.cgroup("cpu", &group)?;
            standing.guards.push(guard);
            fs::write(directory.join("cpu.cfs_period_us"), "10000")?;
            fs::write(directory.join("cpu.cfs_quota_us"), "2000")?;
            standing.names.push(group);
            let work = ["compute", "--work-us", "3000", "--rest-us", "47000"];
            let spawn = Spawn { cgroups: vec![directory], ..kind(&work) };
            standing.start(ctx, &one, spawn)?;
        }
        _ => {
            // Each answer takes 8 ms, asked for every 72.
            let pace = dir.join(format!("{}.conf", ctx.draw.name()));
            fs::write(&pace, "8")?;
            let pace = pace.to_string_lossy().into_owned();
            standing.start(ctx, &one, kind(&["unix-server", &path, "--answer-switch", &pace]))?;
            ctx.wait_for("the second server", Duration::from_secs(5), || {
                fs::metadata(&path).is_ok()
            })?;
            standing.start(ctx, &other, kind(&["unix-client", &path, "--every-ms", "64"]))?;
        }
    }
    Ok(standing)
}

/// What the answer says of what stands beside.
pub fn judge(distractor: Distractor, standing: &Standing, report: &Report) -> Beside {
    let mut beside = Beside::default();
    let named =
        || alarms(report).into_iter().find(|f| standing.is_named_by(f)).map(|f| f.code.clone());
    match distractor {
        Distractor::None => {}
        Distractor::Neighbour(number) => {
            beside.neighbour = Some(NEIGHBOURS[number].into());
            beside.neighbour_named = named();
        }
        Distractor::Second(number) => {
            beside.second = Some(SECONDS[number].into());
            let place = report.findings.iter().position(|f| standing.is_named_by(f));
            beside.second_place = place.map(|at| at + 1);
        }
    }
    beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn scenarios() -> Vec<Scenario> {
        Scenario::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")).unwrap()
    }

    #[test]
    fn one_run_in_four_has_something_beside_and_seeds_differ() {
        let all = scenarios();
        let (mut neighbours, mut seconds, mut runs) = (0, 0, 0);
        for scenario in &all {
            for seed in 1..=20 {
                runs += 1;
                match drawn(scenario, seed) {
                    Distractor::None => {}
                    Distractor::Neighbour(_) => neighbours += 1,
                    Distractor::Second(_) => seconds += 1,
                }
            }
        }
        let share = f64::from(neighbours + seconds) / f64::from(runs);
        assert!((0.2..0.3).contains(&share), "{share}");
        assert!(seconds > runs / 20 && neighbours > runs / 20, "{seconds}, {neighbours}");
    }

    #[test]
    fn a_second_fault_is_of_another_area_and_never_where_it_is_forbidden() {
        for scenario in scenarios() {
            for seed in 1..=40 {
                if let Distractor::Second(number) = drawn(&scenario, seed) {
                    let area = SECONDS[number].split('.').next().unwrap();
                    let truth = scenario.truth.as_ref().unwrap();
                    assert!(scenario.double, "{}", scenario.name);
                    assert!(!truth.code.starts_with(area));
                }
            }
        }
    }

    #[test]
    fn beside_a_load_that_takes_all_cpus_only_sleepers_stand() {
        let filling: Vec<_> = scenarios().into_iter().filter(|s| s.fills_cpus).collect();
        assert!(!filling.is_empty());
        for scenario in filling {
            let drawn = (1..=40).map(|seed| drawn(&scenario, seed));
            let neighbours: Vec<_> =
                drawn.filter(|beside| matches!(beside, Distractor::Neighbour(_))).collect();
            assert!(neighbours.iter().all(|n| *n == Distractor::Neighbour(SLEEPING)));
        }
        assert_eq!(NEIGHBOURS[SLEEPING], "a pool of 500 sleeping threads");
    }

    #[test]
    fn a_neighbour_is_named_by_pid_group_or_disk() {
        let standing =
            Standing { pids: vec![7], names: vec!["loop9".into()], guards: Guards::new() };
        let finding = |pid: u32, object: &str| -> Finding {
            serde_json::from_value(serde_json::json!({
                "code": "a.b", "title": "", "severity": "warning", "confidence": 1.0,
                "object": {"kind": "disk", "name": object},
                "culprit": {"kind": "process", "name": "x", "pid": pid},
                "victims": [], "impact": {"wait_seconds_per_second": 0.0, "share": 0.0},
                "chain": [], "evidence": [], "remedy": [], "stories": []}))
            .unwrap()
        };
        assert!(standing.is_named_by(&finding(7, "vda")));
        assert!(standing.is_named_by(&finding(8, "loop9")));
        assert!(!standing.is_named_by(&finding(8, "loop1")));
    }
}
