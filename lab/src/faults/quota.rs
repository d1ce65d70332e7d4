//! cpu.quota: a cgroup with a CPU bandwidth limit (v1 `cpu.cfs_quota_us`, `cpu.cfs_period_us`).
//!
//! The quota is set on a group that the lab made, with the load inside; the healthy twin runs in the
//! same group without the limit, so that the group itself is not what differs.

use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Quota];

/// Parameters: `quota_percent` of one CPU, `period_ms`.
/// Variables: `cpu_group` (directory), `cpu_group_name`.
struct Quota;

impl Fault for Quota {
    fn name(&self) -> &'static str {
        "cpu.quota"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let name = ctx.draw.name();
        let (path, guard) = ctx.cgroup("cpu", &name)?;
        ctx.set("cpu_group", path.display());
        ctx.set("cpu_group_name", name);
        let mut guards = Guards::new();
        guards.push(guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let group = PathBuf::from(ctx.text("cpu_group")?);
        let period = (ctx.number("period_ms")? * 1000.0).round();
        let quota = (period * ctx.number("quota_percent")? / 100.0).round();
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(&group.join("cpu.cfs_period_us"), &format!("{period}"))?);
        guards.push(ctx.write_back_later(&group.join("cpu.cfs_quota_us"), &format!("{quota}"))?);
        ctx.set("throttled_before", throttled(&group)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let group = PathBuf::from(ctx.text("cpu_group")?);
        Ok(Some(throttled(&group)? as f64 > ctx.number("throttled_before")?))
    }
}

fn throttled(group: &std::path::Path) -> Result<u64> {
    let stat = fs::read_to_string(group.join("cpu.stat"))?;
    let line = stat.lines().find_map(|l| l.strip_prefix("nr_throttled "));
    line.context("cpu.stat has no nr_throttled")?.trim().parse().context("nr_throttled")
}
