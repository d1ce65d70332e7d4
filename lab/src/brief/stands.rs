//! Where brief faults are made: the stage and the load of a scenario, which stand all the time, and its fault, which stands for
//! a moment.
//!
//! The kinds are those of which somebody who comes later finds no trace: locks, a quota, a name server, a full pipe, a frozen file
//! system. Must not: judge, or make a fault that outlives its guards.

use super::{Made, Plan, now_unix_ns};
use crate::fault::{Ctx, Fault, Spawn};
use crate::faults;
use crate::judgement::Truth;
use crate::load::started::{self, Running};
use crate::procfs;
use crate::scenario::{Scenario, TruthSpec, Variables};
use crate::seeded_draw::Draw;
use crate::undo::Guards;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parameters that are not drawn; `{hold}` is the length of a fault in milliseconds.
type Set = &'static [(&'static str, &'static str)];

/// Scenarios whose fault is made briefly, with parameters that make it one moment.
const KINDS: &[(&str, Set)] = &[
    ("lock-file-hang", &[("holder_language", "rust")]),
    ("lock-futex-c", &[("hold_ms", "{hold}"), ("threads", "3"), ("meanwhile", "sleep")]),
    // The quota stands all the time; what is brief is the need for more (see Quota).
    (QUOTA, &[("quota_percent", "10"), ("period_ms", "{hold}"), ("threads", "1")]),
    ("net-dns-slow", &[("temper", "{hold}")]),
    ("process-pipe-slow", &[("how", "{hold}"), ("bytes", "3000")]),
    ("lock-file-shell", &[("holder_language", "sh")]),
    ("lock-futex-rust", &[("hold_ms", "{hold}"), ("threads", "4")]),
    ("fs-frozen", &[("threads", "1")]),
];

/// What an ordinary busy host does besides. Not all that it can: of a host whose CPUs are all taken that is the right thing to say.
const ORDINARY: &[(&str, Set)] = &[
    ("healthy-compile", &[("jobs", "1")]),
    ("healthy-pool", &[]),
    ("healthy-pipeline", &[]),
    ("healthy-daemons", &[]),
];

/// A group is limited all the time, and somebody in it wants more than it may have for a moment: a limit that is set and taken away
/// within a window is one that nobody has.
const QUOTA: &str = "cpu-quota";
/// CPU time that is wanted then, in parts of what the group may use in a period: one whole period is waited for, and a part of the one
/// in which it begins.
const WANTED: f64 = 2.5;

/// How long a load may take to do something, and a fault to show.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stage with its load, on which a fault may be made.
pub(super) struct Stand {
    scenario: Scenario,
    fault: Option<&'static dyn Fault>,
    ctx: Ctx,
    // Ended before what it stands on is taken down: fields are dropped in this order.
    _running: Running,
    _stage: Guards,
}

impl Stand {
    fn of(parent: &Ctx, scenario: Scenario, set: Set, seed: u64, hold: Duration) -> Result<Self> {
        let mut draw = Draw::new(seed, &scenario.name);
        let mut variables = scenario.draw(&mut draw);
        let hold = format!("{:.0}", hold.as_secs_f64() * 1e3);
        variables.extend(set.iter().map(|(k, v)| ((*k).into(), v.replace("{hold}", &hold))));
        let name = draw.name();
        let scratch = parent.scratch.join(&name);
        std::fs::create_dir_all(&scratch)?;
        let more = [("seed", seed.to_string()), ("load_name", name)];
        variables.extend(more.map(|(k, v)| (k.to_string(), v)));
        variables.insert("scratch".into(), scratch.to_string_lossy().into_owned());
        let mut ctx = Ctx {
            journal: Arc::clone(&parent.journal),
            draw,
            scratch,
            load_exe: parent.load_exe.clone(),
            variables,
            stop: Arc::clone(&parent.stop),
        };
        let fault = match &scenario.fault {
            Some(name) => Some(faults::find(name).with_context(|| format!("no fault {name}"))?),
            None => None,
        };
        let mut spec = scenario.load[ctx.draw.index(scenario.load.len())].clone();
        let mut stage = fault.map_or_else(|| Ok(Guards::new()), |fault| fault.set_up(&mut ctx))?;
        if let (QUOTA, Some(fault)) = (scenario.name.as_str(), fault) {
            stage.append(fault.inject(&mut ctx)?.guards);
            spec.kind = "daemon".into();
            spec.arguments.clear();
        }
        let running = started::start(&mut ctx, &spec)?;
        running.wait_ready(&ctx, PATIENCE)?;
        Ok(Self { scenario, fault, ctx, _running: running, _stage: stage })
    }

    pub(super) fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Makes its fault, for so long from when it is seen on.
    pub(super) fn make(&mut self, hold: Duration) -> Result<Made> {
        let (Some(fault), Some(truth)) = (self.fault, &self.scenario.truth) else {
            bail!("{} has no fault", self.scenario.name);
        };
        let before = now_unix_ns()?;
        if self.scenario.name == QUOTA {
            want_more(&mut self.ctx)?;
            let truth = of_moment(truth, &self.ctx.variables);
            return self.made(before, truth);
        }
        let injected = fault.inject(&mut self.ctx)?;
        let until = Instant::now() + PATIENCE;
        while fault.bites(&mut self.ctx)? == Some(false) {
            if Instant::now() > until {
                bail!("the fault was not seen");
            }
            // As short as may be: a fault that stands unseen is a longer one.
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(hold);
        drop(injected);
        let truth = of_moment(truth, &self.ctx.variables);
        self.made(before, truth)
    }

    fn made(&self, begin_unix_ns: u64, truth: Truth) -> Result<Made> {
        let (scenario, end_unix_ns) = (self.scenario.name.clone(), now_unix_ns()?);
        Ok(Made { scenario, begin_unix_ns, end_unix_ns, truth })
    }
}

/// A job in the limited group that wants more than a period's time.
fn want_more(ctx: &mut Ctx) -> Result<()> {
    let may_us = ctx.number("period_ms")? * ctx.number("quota_percent")? * 10.0;
    let arguments = ["compute", "--count", "1", "--work-us", &format!("{:.0}", may_us * WANTED)];
    let spawn = Spawn {
        name: ctx.draw.name(),
        arguments: arguments.map(String::from).to_vec(),
        cgroups: vec![ctx.text("cpu_group")?.into()],
        ..Spawn::default()
    };
    let job = ctx.spawn(&spawn)?;
    ctx.wait_for("the job", PATIENCE, || procfs::state(job.pid).is_none_or(|it| it == 'Z'))
}

/// What must be said of it: code, object and culprit.
fn of_moment(truth: &TruthSpec, variables: &Variables) -> Truth {
    Truth::new(&TruthSpec { size: None, ..truth.clone() }, variables)
}

/// The loads of an ordinary busy host.
pub(super) fn ordinary_loads(ctx: &Ctx, scenarios: &Path, plan: &Plan) -> Result<Vec<Stand>> {
    let wanted = |name: &str| plan.beside.is_empty() || plan.beside.iter().any(|it| it == name);
    let loads = ORDINARY.iter().filter(|(name, _)| wanted(name));
    loads.map(|(name, set)| stand(ctx, scenarios, name, set, plan.seed, Duration::ZERO)).collect()
}

/// A stand for each kind of fault that is wanted.
pub(super) fn all(ctx: &Ctx, scenarios: &Path, plan: &Plan) -> Result<Vec<Stand>> {
    let wanted = |name: &str| {
        plan.only.is_empty() || plan.only.iter().any(|start| name.starts_with(start.as_str()))
    };
    let kinds = KINDS.iter().filter(|(name, _)| wanted(name));
    kinds.map(|(name, set)| stand(ctx, scenarios, name, set, plan.seed, plan.hold)).collect()
}

fn stand(
    ctx: &Ctx,
    scenarios: &Path,
    name: &str,
    set: Set,
    seed: u64,
    hold: Duration,
) -> Result<Stand> {
    let scenario = Scenario::read(&scenarios.join(name))?;
    Stand::of(ctx, scenario, set, seed, hold).with_context(|| name.to_string())
}
