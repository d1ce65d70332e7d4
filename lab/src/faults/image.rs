//! Processes that are dear to start: an image that costs more than
//! it must, a child that does much before it executes its program, or more of them than the work needs.
//!
//! The cost lies in the start, not in the work: the load must be one that starts processes all the
//! time, or the injection does not hurt and is refused.

use super::stage::{name_switch, switch_on};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Image, &Exec, &Storm];

/// process.image: the load is started in another way than before (`start = "after"`): every
/// parameter `bad_X` takes the place of the variable `X`, which is the parameter `good_X` at first.
struct Image;

impl Fault for Image {
    fn name(&self) -> &'static str {
        "process.image"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        choose(ctx, "good_");
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        choose(ctx, "bad_");
        Ok(Injected::default())
    }
}

/// Sets the variables `X` of all `PREFIX_X`.
pub(super) fn choose(ctx: &mut Ctx, prefix: &str) {
    let chosen = |(name, value): (&String, &String)| {
        Some((name.strip_prefix(prefix)?.to_string(), value.clone()))
    };
    let pairs: Vec<_> = ctx.variables.iter().filter_map(chosen).collect();
    ctx.variables.extend(pairs);
}

/// process.exec: each child of the load does much between vfork and exec. The load takes `{switch}` and `{program}`.
/// Parameter: `closes`, how many descriptors it closes. Variables: `program`, `switch`.
struct Exec;

impl Fault for Exec {
    fn name(&self) -> &'static str {
        "process.exec"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        let program = ctx.directory("bin")?.join(ctx.draw.name());
        fs::copy("/bin/true", &program)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        ctx.set("program", program.display());
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("closes")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid: i32 = ctx.text("victim_pid")?.parse()?;
        for _ in 0..50 {
            if crate::procfs::wait_channel(pid).contains("kernel_clone") {
                return Ok(Some(true));
            }
            ctx.sleep(std::time::Duration::from_millis(10))?;
        }
        Ok(Some(false))
    }
}

/// process.spawn_storm: the load starts processes for what it did itself. It takes `{switch}`. Variables: `switch`.
struct Storm;

impl Fault for Storm {
    fn name(&self) -> &'static str {
        "process.spawn_storm"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "on")?);
        Ok(guards.into())
    }

    /// Most of the time passes in children that have ended.
    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid = ctx.text("victim_pid")?;
        let before = ticks_of_children(&pid)?;
        ctx.sleep(std::time::Duration::from_millis(500))?;
        Ok(Some(ticks_of_children(&pid)? >= before + 10))
    }
}

/// `cutime` and `cstime` of /proc/PID/stat, in hundredths of a second, of a process and of its workers.
fn ticks_of_children(pid: &str) -> Result<u64> {
    let mut sum = 0;
    let workers = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    for pid in workers.split_whitespace().chain([pid]) {
        // One that has ended meanwhile counts with its parent.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = after.split_whitespace().skip(13).take(2);
        sum += ticks.filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(sum)
}
