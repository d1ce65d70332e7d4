//! lock.directory, lock.mappings, lock.devices: somebody works under a lock of the kernel that the workload wants.
//!
//! Whoever it is does the same work beforehand elsewhere, where nobody wants the lock: neither the work nor the CPU is
//! the fault. The proof is the function in which the workload stands.

use super::disks;
use super::stage::{load, name_switch, netns, start, switch_on, workload_file};
use crate::fault::{Ctx, Fault, Injected, Spawn};
use crate::procfs;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The faults of this file.
pub const FAULTS: &[&dyn Fault] = &[&Directory, &Mappings, &Devices];

/// Of the disk that is made, which has to hold the names of two directories.
const DISK_MIB: u64 = 64;

/// A neighbour lists the directory that the workload makes files in.
///
/// Parameters: `names` (entries of the directory). Variables: `spool`, `switch`; `lister`, `lister_pid`; those of a quick disk.
struct Directory;

impl Fault for Directory {
    fn name(&self) -> &'static str {
        "lock.directory"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let names = ctx.number("names")? as u64;
        let mut guards = disks::make_quick(ctx, DISK_MIB)?;
        let top = ctx.text("dir")?;
        let own = Path::new(&top).join(ctx.draw.name());
        let spool = Path::new(&top).join(ctx.draw.name());
        for dir in [&own, &spool] {
            fs::create_dir(dir).with_context(|| dir.display().to_string())?;
            fill(dir, names)?;
        }
        ctx.set("spool", spool.display());
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let words = ["directory-lister", "--dir", &own.to_string_lossy(), "--switch", &switch];
        let spawn = load(ctx, &words);
        guards.push(start(ctx, "lister", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("spool")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        Ok(Some(["path_openat", "open_last_lookups", "do_unlinkat"].contains(&&*channel)))
    }
}

/// Names of one file, which take no inode each.
fn fill(dir: &Path, names: u64) -> Result<()> {
    // A file has 65,000 names at most.
    const NAMES_MAX: u64 = 60_000;
    let first = |at: u64| dir.join(format!("message-{at:08}"));
    for at in 0..names {
        match at % NAMES_MAX {
            0 => drop(fs::File::create(first(at))?),
            _ => fs::hard_link(first(at - at % NAMES_MAX), first(at))?,
        }
    }
    Ok(())
}

/// A monitor reads the workload's mappings, page by page (/proc/PID/smaps).
///
/// Variables: `switch`; `monitor`, `monitor_pid`.
struct Mappings;

impl Fault for Mappings {
    fn name(&self) -> &'static str {
        "lock.mappings"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let spawn = load(ctx, &["memory-monitor", "--switch", &switch]);
        let mut guards = Guards::new();
        guards.push(start(ctx, "monitor", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("victim_pid")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        Ok(Some(["vm_mmap_pgoff", "__vm_munmap", "do_munmap", "vm_munmap"].contains(&&*channel)))
    }
}

/// Several processes make and remove network devices in a namespace of their own.
///
/// Parameters: `churners`. Variables: `links_ns` (the workload's namespace), `switch`; `churner`, `churner_pid` (of the last).
struct Devices;

impl Fault for Devices {
    fn name(&self) -> &'static str {
        "lock.devices"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let (own, guard) = netns(ctx)?;
        guards.push(guard);
        ctx.set("links_ns", own);
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let spawn = workload_file(ctx, "links.py", &["churn", &switch])?;
        for _ in 0..ctx.number("churners")? as usize {
            // A name in one namespace is taken; each has its own.
            let (other, guard) = netns(ctx)?;
            guards.push(guard);
            let arguments = spawn.arguments.clone();
            let netns = Some(other);
            let spawn = Spawn { program: spawn.program.clone(), arguments, netns, ..Spawn::default() };
            guards.push(start(ctx, "churner", &spawn)?.guard);
        }
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "on")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        Ok(Some(channel.contains("rtnl") || channel.contains("rtnetlink")))
    }
}
