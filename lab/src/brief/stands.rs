//! Where brief faults are made: the stage and the workload of a scenario, which stand all the time, and its fault, which stands for
//! a moment.
//!
//! The kinds are those of which somebody who comes later finds no trace: locks, a quota, a name server, a full pipe, a frozen file
//! system. Must not: judge, or make a fault that outlives its guards.

use super::{Made, Plan, now_unix_ns};
use crate::fault::{Ctx, Fault};
use crate::faults;
use crate::judgement::Truth;
use crate::scenario::{Scenario, TruthSpec, Variables};
use crate::seeded_draw::Draw;
use crate::undo::Guards;
use crate::workload::{self, Running};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A scenario whose fault is made briefly, with parameters that make it one moment; `{hold}` is its length in milliseconds.
const KINDS: &[(&str, &[(&str, &str)])] = &[
    ("lock-file-hang", &[("holder_language", "rust")]),
    ("lock-futex-c", &[("hold_ms", "{hold}"), ("threads", "3"), ("meanwhile", "sleep")]),
    ("cpu-quota", &[("quota_percent", "2"), ("period_ms", "1000"), ("threads", "1")]),
    ("net-dns-slow", &[("temper", "{hold}")]),
    ("process-pipe-slow", &[("how", "{hold}"), ("bytes", "3000")]),
    ("lock-file-shell", &[("holder_language", "sh")]),
    ("lock-futex-rust", &[("hold_ms", "{hold}"), ("threads", "4")]),
    ("fs-frozen", &[("threads", "1")]),
];

/// What an ordinary busy host does besides.
const ORDINARY: &[(&str, &[(&str, &str)])] = &[
    ("healthy-compile", &[("jobs", "1")]),
    ("healthy-kv", &[("clients", "2")]),
    ("healthy-pipeline", &[]),
    ("healthy-daemons", &[]),
];

/// How long a workload may take to do something, and a fault to show.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stage with its workload, on which a fault may be made.
pub(super) struct Stand {
    scenario: Scenario,
    fault: Option<&'static dyn Fault>,
    ctx: Ctx,
    // Ended before what it stands on is taken down: fields are dropped in this order.
    _running: Running,
    _stage: Guards,
}

impl Stand {
    fn of(
        parent: &Ctx,
        scenario: Scenario,
        set: &[(&str, &str)],
        seed: u64,
        hold: Duration,
    ) -> Result<Self> {
        let mut draw = Draw::new(seed, &scenario.name);
        let mut variables = scenario.draw(&mut draw);
        let hold = format!("{:.0}", hold.as_secs_f64() * 1e3);
        variables.extend(set.iter().map(|(k, v)| ((*k).into(), v.replace("{hold}", &hold))));
        let name = draw.name();
        let scratch = parent.scratch.join(&name);
        std::fs::create_dir_all(&scratch)?;
        let more = [("seed", seed.to_string()), ("workload_name", name)];
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
        let spec = scenario.workload[ctx.draw.index(scenario.workload.len())].clone();
        let stage = fault.map_or_else(|| Ok(Guards::new()), |fault| fault.set_up(&mut ctx))?;
        let running = workload::start(&mut ctx, &spec)?;
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
        Ok(Made {
            scenario: self.scenario.name.clone(),
            begin_unix_ns: before,
            end_unix_ns: now_unix_ns()?,
            truth,
        })
    }
}

/// What must be said of it: code, object and culprit.
fn of_moment(truth: &TruthSpec, variables: &Variables) -> Truth {
    Truth::new(&TruthSpec { size: None, ..truth.clone() }, variables)
}

/// The loads of an ordinary busy host.
pub(super) fn ordinary_loads(ctx: &Ctx, scenarios: &Path, seed: u64) -> Result<Vec<Stand>> {
    ORDINARY
        .iter()
        .map(|(name, set)| stand(ctx, scenarios, name, set, seed, Duration::ZERO))
        .collect()
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
    set: &[(&str, &str)],
    seed: u64,
    hold: Duration,
) -> Result<Stand> {
    let scenario = Scenario::read(&scenarios.join(name))?;
    Stand::of(ctx, scenario, set, seed, hold).with_context(|| name.to_string())
}
