//! File systems: frozen ones, ones whose daemon is slow or stuck, and layers that copy on write.
//!
//! Owns what makes a file system itself the one that is waited for, while the disk under it is idle. Frozen
//! is undone by thawing, a stuck daemon by its end: both are guarded before they are made.

use super::disks;
use crate::fault::{Ctx, Fault, Injected};
use crate::load::slow::Settings;
use crate::procfs;
use crate::undo::{Guards, Undo};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Frozen, &Daemon, &CopyUp];

/// fs.frozen: the load's file system is frozen for a backup and forgotten.
struct Frozen;

impl Fault for Frozen {
    fn name(&self) -> &'static str {
        "fs.frozen"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        disks::make(ctx, "", 128, Settings { latency_us: 150.0, ..Settings::default() })
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let dir = ctx.text("dir")?;
        let mut guards = Guards::new();
        guards.push(ctx.journal.guard(Undo::Thaw { path: dir.clone().into() })?);
        ctx.tool("fsfreeze", &["-f", &dir])?;
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid: i32 = ctx.text("victim_pid")?.parse()?;
        Ok(Some(
            procfs::whereabouts(pid)
                .iter()
                .any(|p| p.starts_with('D') && p.contains("percpu_rwsem")),
        ))
    }
}

/// fs.daemon: a FUSE file system whose daemon answers late or not at all.
/// Parameters: `how` (slow or stuck), `latency_ms`. Variables: `dir`, `files` (names in it),
/// `culprit`, `culprit_pid`, `fuse_dev`.
struct Daemon;

impl Fault for Daemon {
    fn name(&self) -> &'static str {
        "fs.daemon"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        use std::os::unix::fs::MetadataExt;
        let dir = ctx.directory("share")?;
        let settings = ctx.scratch.join("settings");
        fs::write(
            &settings,
            serde_json::to_string(&Settings { latency_us: 300.0, ..Settings::default() })?,
        )?;
        let mut guards = disks::mount_store(ctx, "", &dir, &settings, "alpha,beta,gamma", 8)?;
        let dev = fs::metadata(&dir)?.dev();
        ctx.set("fuse_dev", format!("{}:{}", libc::major(dev), libc::minor(dev)));
        ctx.set("dir", dir.display());
        ctx.set("settings", settings.display());
        for (to, from) in [("culprit", "store"), ("culprit_pid", "store_pid")] {
            let value = ctx.text(from)?;
            ctx.set(to, value);
        }
        guards.push(ctx.journal.guard(Undo::restore(&settings)?)?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let settings = Settings {
            latency_us: ctx.number_or("latency_ms", 100.0)? * 1000.0,
            stuck: ctx.text("how")? == "stuck",
            ..Settings::default()
        };
        Ok(disks::change(ctx, "", settings)?.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid: i32 = ctx.text("victim_pid")?.parse()?;
        Ok(Some(
            procfs::whereabouts(pid)
                .iter()
                .any(|p| p.contains("fuse") || p.contains("request_wait")),
        ))
    }
}

/// fs.copy_up: a file of an overlay's lower layer is big when it is first written to.
/// Parameters: `lower_mib`, `base_bytes_per_second`. Variables: `merged`, and those of a disk.
struct CopyUp;

/// Lays the overlay over a lower file of that size.
fn lay(ctx: &Ctx, bytes: usize) -> Result<()> {
    let (dir, merged) = (PathBuf::from(ctx.text("dir")?), PathBuf::from(ctx.text("merged")?));
    for layer in ["lower", "upper", "work"] {
        fs::remove_dir_all(dir.join(layer)).ok();
        fs::create_dir(dir.join(layer))?;
    }
    let data = dir.join("lower/data");
    fs::write(&data, vec![0x42_u8; bytes])?;
    let file = fs::File::open(&data)?;
    file.sync_all()?;
    crate::load::kinds::disk::forget(&file, 0, 0);
    let layers =
        ["lower", "upper", "work"].map(|l| format!("{l}dir={}/{l}", dir.display())).join(",");
    ctx.tool("mount", &["-t", "overlay", "overlay", "-o", &layers, &merged.to_string_lossy()])?;
    Ok(())
}

impl Fault for CopyUp {
    fn name(&self) -> &'static str {
        "fs.copy_up"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let bytes_per_second = ctx.number_or("base_bytes_per_second", 120e6)?;
        let settings = Settings { latency_us: 150.0, bytes_per_second, ..Settings::default() };
        let mut guards = disks::make(ctx, "", 640, settings)?;
        let merged = ctx.directory("merged")?;
        ctx.set("merged", merged.display());
        guards.push(ctx.journal.guard(Undo::Mount { path: merged })?);
        lay(ctx, 4096)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let merged = ctx.text("merged")?;
        ctx.tool("umount", &[&merged])?;
        lay(ctx, (ctx.number("lower_mib")? as usize) << 20)?;
        Ok(Injected::default())
    }
}
