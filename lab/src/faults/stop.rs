//! Processes that are held: stopped by a signal, or frozen by the freezer of v1 cgroups; and those that a signal does not end, or
//! for whose end nobody waits.
//!
//! Only processes that the lab started are held, and a frozen group is thawed before anything in it is
//! ended: a frozen process does not take its signal.

use super::stage::{children, load_file, name_switch, start, switch_on};
use crate::fault::{Ctx, Fault, Injected};
use crate::procfs;
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Stopped, &Frozen, &Ignored, &Zombie];

/// process.stopped: SIGSTOP to the load.
struct Stopped;

impl Fault for Stopped {
    fn name(&self) -> &'static str {
        "process.stopped"
    }

    fn set_up(&self, _: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let pid: i32 = ctx.text("victim_pid")?.parse()?;
        let start_time = procfs::start_time(pid).context("the load has ended")?;
        let mut guards = Guards::new();
        guards.push(ctx.journal.guard(Undo::Continue { pid, start_time })?);
        procfs::signal(pid, Signal::SIGSTOP);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(procfs::state(ctx.text("victim_pid")?.parse()?) == Some('T')))
    }
}

/// process.frozen: the load's freezer group is frozen.
/// Variables: `freezer_group`, `freezer_group_name`.
struct Frozen;

impl Fault for Frozen {
    fn name(&self) -> &'static str {
        "process.frozen"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let name = ctx.draw.name();
        let (group, guard) = ctx.cgroup("freezer", &name)?;
        ctx.set("freezer_group", group.display());
        ctx.set("freezer_group_name", name);
        let mut guards = Guards::new();
        guards.push(guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let state = PathBuf::from(ctx.text("freezer_group")?).join("freezer.state");
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(&state, "FROZEN")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let state = PathBuf::from(ctx.text("freezer_group")?).join("freezer.state");
        Ok(Some(fs::read_to_string(state)?.trim() == "FROZEN"))
    }
}

/// process.signal_ignored: what the load asks to end by SIGTERM does not honour it. It takes `{switch}`. Parameter: `how`, the
/// words of the switch. Variables: `switch`.
struct Ignored;

impl Fault for Ignored {
    fn name(&self) -> &'static str {
        "process.signal_ignored"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("how")?)?);
        Ok(guards.into())
    }

    /// Something that the load began lives for longer than it lets anything live.
    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let victim: i32 = ctx.text("victim_pid")?.parse()?;
        let begun = || -> BTreeSet<i32> {
            let near = children(victim);
            near.iter().flat_map(|pid| children(*pid)).chain(near.iter().copied()).collect()
        };
        for _ in 0..8 {
            let before = begun();
            ctx.sleep(Duration::from_millis(250))?;
            if begun().iter().any(|pid| before.contains(pid)) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }
}

/// process.zombie: a child ends for which its parent never waits.
/// Variables: `parent`, `parent_pid`; `child_pid`.
struct Zombie;

impl Fault for Zombie {
    fn name(&self) -> &'static str {
        "process.zombie"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let file = ctx.directory("run")?.join(ctx.draw.name());
        let spawn = load_file(ctx, "unreaped.py", &[&file.display().to_string()])?;
        let mut guards = Guards::new();
        guards.push(start(ctx, "parent", &spawn)?.guard);
        ctx.wait_for("child", Duration::from_secs(10), || file.exists())?;
        ctx.set("child_pid", fs::read_to_string(&file)?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        procfs::signal(ctx.text("child_pid")?.parse()?, Signal::SIGKILL);
        Ok(Guards::new().into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(procfs::state(ctx.text("child_pid")?.parse()?) == Some('Z')))
    }
}
