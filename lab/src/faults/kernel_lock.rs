//! lock.directory, lock.mappings: somebody works under a lock of the kernel that the workload wants.
//!
//! Whoever it is does the same work beforehand elsewhere, where nobody wants the lock: neither the work nor the CPU is
//! the fault. The proof is the function in which the workload stands.

use super::disks;
use super::stage::{load, name_switch, start, switch_on};
use crate::fault::{Ctx, Fault, Injected};
use crate::procfs;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The faults of this file.
pub const FAULTS: &[&dyn Fault] = &[&Directory, &Mappings];

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
