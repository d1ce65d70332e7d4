//! lock.directory, lock.mappings, lock.rtnl: somebody works under a lock of the kernel that the load wants.
//!
//! Whoever it is does the same work beforehand elsewhere, where nobody wants the lock: neither the work nor the CPU is
//! the fault. But rtnl_mutex is one for the host: there is no elsewhere. The proof is the function in which the load stands.

use super::disks;
use super::stage::{load, name_switch, netns, start, switch_on};
use crate::fault::{Ctx, Fault, Injected};
use crate::procfs;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Directory, &Mappings, &Rtnl];

/// Of the disk that is made, which has to hold the names of two directories.
const DISK_MIB: u64 = 64;

/// A neighbour lists the directory that the load makes files in.
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

/// A monitor reads the load's mappings, page by page (/proc/PID/smaps).
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

/// A neighbour makes, brings up and down, and removes network devices in a namespace of its own.
///
/// Parameters: `link_kind`, `links` (how many are there at a time), `times` (up and down). Variables: `own_ns` (of the load), `switch`; `maker`,
/// `maker_pid`.
struct Rtnl;

impl Fault for Rtnl {
    fn name(&self) -> &'static str {
        "lock.rtnl"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let (own, guard) = netns(ctx)?;
        guards.push(guard);
        ctx.set("own_ns", own);
        let (makers, guard) = netns(ctx)?;
        guards.push(guard);
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let [kind, links, times] = ["link_kind", "links", "times"].map(|name| ctx.text(name));
        let sizes = ["link-maker", "--kind", &kind?, "--links", &links?, "--times", &times?];
        let mut spawn = load(ctx, &[&sizes[..], &["--switch", &switch]].concat());
        spawn.netns = Some(makers);
        guards.push(start(ctx, "maker", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        Ok(Some(
            ["rtnetlink_rcv_msg", "dev_ioctl", "rtnl_lock", "rtnl_getlink"].contains(&&*channel),
        ))
    }
}
