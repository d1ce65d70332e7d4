//! cpu.*: too many who want a CPU, too few that may be used, and real time that is not granted.
//!
//! The quota is in `quota.rs`.

use super::stage::{load, start, start_contained};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Hogs, &Affinity, &Weight, &RtDenied, &RtThrottled];

/// A process with more threads than there are CPUs burns all of them.
///
/// Parameters: `hogs_per_cpu`, `container_kind`. Variables: `container`, `hog`, `hog_pid`, `hog_threads`.
struct Hogs;

impl Fault for Hogs {
    fn name(&self) -> &'static str {
        "cpu.hogs"
    }

    fn set_up(&self, _ctx: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let cpus = std::thread::available_parallelism()?.get() as f64;
        let threads = (ctx.number("hogs_per_cpu")? * cpus).ceil();
        ctx.set("hog_threads", threads);
        // A crowd: one process for each, all of one name.
        if ctx.number_or("hogs_apart", 0.0)? > 0.0 {
            let spawn = load(ctx, &["hog", "--threads", "1"]);
            let mut guards = Guards::new();
            for _ in 0..threads as usize {
                guards.push(start(ctx, "hog", &spawn)?.guard);
            }
            return Ok(guards.into());
        }
        let spawn = load(ctx, &["hog", "--threads", &format!("{threads}")]);
        Ok(start_contained(ctx, "hog", &spawn)?.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        waits_for_a_cpu(ctx)
    }
}

/// The load's threads waited 50 ms or more for CPUs since the last time this was asked.
fn waits_for_a_cpu(ctx: &mut Ctx) -> Result<Option<bool>> {
    // Fields of /proc/PID/schedstat: time on a CPU, time waited for one.
    let victim = ctx.text("victim_pid")?;
    let mut waited = 0_u64;
    for task in fs::read_dir(format!("/proc/{victim}/task"))?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let field = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
        waited += field.unwrap_or(0);
    }
    let before = ctx.number_or("waited_before_ns", waited as f64)?;
    ctx.set("waited_before_ns", waited);
    Ok(Some(waited as f64 > before + 5e7))
}

/// All threads of the load are pinned to one CPU while another idles.
///
/// Variables: `pinned_cpu`.
struct Affinity;

impl Fault for Affinity {
    fn name(&self) -> &'static str {
        "cpu.affinity"
    }

    fn set_up(&self, _ctx: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let cpus = std::thread::available_parallelism()?.get();
        let cpu = ctx.draw.index(cpus).to_string();
        ctx.set("pinned_cpu", &cpu);
        ctx.tool("taskset", &["-a", "-c", "-p", &cpu, &ctx.text("victim_pid")?])?;
        // Nothing to take back: the affinity goes with the process.
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let status = fs::read_to_string(format!("/proc/{}/status", ctx.text("victim_pid")?))?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(Some(list.context("no Cpus_allowed_list")?.trim() == ctx.text("pinned_cpu")?))
    }
}

/// The load comes last while another program has the CPUs: by its nice value, or by the weight of its group.
///
/// Parameters: `nice`, or `shares` for sibling groups. Variables: `slow_group`, `slow_group_name`, `hog`,
/// `hog_pid`.
struct Weight;

impl Fault for Weight {
    fn name(&self) -> &'static str {
        "cpu.weight"
    }

    /// Little weight alone costs nothing, so the group has it from the beginning.
    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let name = ctx.draw.name();
        let (slow, guard) = ctx.cgroup("cpu", &name)?;
        guards.push(guard);
        ctx.set("slow_group", slow.display());
        ctx.set("slow_group_name", name);
        ctx.set("hog_group", slow.display());
        let shares = ctx.number_or("shares", 0.0)?;
        if shares > 0.0 {
            let file = slow.join("cpu.shares");
            fs::write(&file, format!("{shares}"))
                .with_context(|| format!("write {}", file.display()))?;
            let name = ctx.draw.name();
            let (sibling, guard) = ctx.cgroup("cpu", &name)?;
            guards.push(guard);
            ctx.set("hog_group", sibling.display());
        }
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let nice = ctx.number_or("nice", 0.0)?;
        let tasks = format!("/proc/{}/task", ctx.text("victim_pid")?);
        for task in fs::read_dir(tasks)?.flatten().filter(|_| nice > 0.0) {
            // It goes with the process.
            let tid = task.file_name().to_string_lossy().into_owned();
            ctx.tool("renice", &["-n", &format!("{nice}"), "-p", &tid])?;
        }
        let cpus = std::thread::available_parallelism()?.get();
        let mut spawn = load(ctx, &["hog", "--threads", &cpus.to_string()]);
        spawn.cgroups = vec![PathBuf::from(ctx.text("hog_group")?)];
        let mut guards = Guards::new();
        guards.push(start(ctx, "hog", &spawn)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        waits_for_a_cpu(ctx)
    }
}

/// Sets `rt_group`, `rt_group_name`: a cpu group with a budget for real time.
fn rt_group(ctx: &mut Ctx, runtime_us: u32) -> Result<Guards> {
    let name = ctx.draw.name();
    let (path, guard) = ctx.cgroup("cpu", &name)?;
    let mut guards = Guards::new();
    guards.push(guard);
    let file = path.join("cpu.rt_runtime_us");
    // EINVAL while the budget of a group that was just removed still counts.
    let runtime = runtime_us.to_string();
    ctx.wait_for("cpu.rt_runtime_us", Duration::from_secs(10), || {
        fs::write(&file, &runtime).is_ok()
    })
    .with_context(|| file.display().to_string())?;
    ctx.set("rt_group", path.display());
    ctx.set("rt_group_name", name);
    Ok(guards)
}

/// The load's group has no real-time budget: sched_setscheduler(2) is refused.
///
/// Variables: `rt_group`, `rt_group_name`.
struct RtDenied;

impl Fault for RtDenied {
    fn name(&self) -> &'static str {
        "cpu.rt_denied"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        rt_group(ctx, 50_000)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let file = PathBuf::from(ctx.text("rt_group")?).join("cpu.rt_runtime_us");
        // EBUSY while a real-time task lives in the group; the load's are short.
        let mut guards = Guards::new();
        let mut last = None;
        ctx.wait_for("cpu.rt_runtime_us", Duration::from_secs(5), || {
            last = ctx.write_back_later(&file, "0").ok();
            last.is_some()
        })?;
        if let Some(guard) = last {
            guards.push(guard);
        }
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let errors = fs::read_to_string(ctx.scratch.join("stderr")).unwrap_or_default();
        Ok(Some(errors.contains("not permitted")))
    }
}

/// The load computes under SCHED_FIFO in a group with a small real-time budget.
///
/// Parameters: `runtime_percent`. Variables: `rt_group`, `rt_group_name`.
struct RtThrottled;

impl Fault for RtThrottled {
    fn name(&self) -> &'static str {
        "cpu.rt_throttled"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        rt_group(ctx, 900_000)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let file = PathBuf::from(ctx.text("rt_group")?).join("cpu.rt_runtime_us");
        let budget = (ctx.number("runtime_percent")? * 1e4).round();
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(&file, &format!("{budget}"))?);
        Ok(guards.into())
    }
}
