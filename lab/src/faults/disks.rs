//! Disks: a programmable one (a slow store under a loop device), and what can be wrong with it.
//!
//! The stage of every fault here is a quick disk with an ext4 on it; the fault changes the disk's
//! settings, limits the group, or adds a neighbour. The settings are put back before anything is
//! unmounted, so that undoing is quick too.

use crate::fault::{Ctx, Fault, Injected, Spawn};
use crate::load::slow::Settings;
use crate::undo::{Guard, Guards, Undo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&Throttle, &Rate, &FailSlow, &Neighbour, &Errors, &Weight];

/// Makes a disk and mounts an ext4 on it. Variables, with the prefix: `disk` (loop3), `dev` (7:3),
/// `node` (/dev/loop3), `dir` (the mount point), `settings` (the file), `store_pid`.
pub(super) fn make(ctx: &mut Ctx, prefix: &str, mib: u64, settings: Settings) -> Result<Guards> {
    let mut guards = Guards::new();
    let below = ctx.directory(&format!("{prefix}below"))?;
    let dir = ctx.directory(&format!("{prefix}data"))?;
    let file = ctx.scratch.join(format!("{prefix}settings"));
    fs::write(&file, serde_json::to_string(&settings)?)?;
    guards.append(mount_store(ctx, prefix, &below, &file, "image", mib)?);
    guards.append(mount_image(ctx, prefix, &below.join("image"), &dir, "--direct-io=on")?);
    ctx.set(&format!("{prefix}settings"), file.display());
    // Last in, first out: put back before the unmount has to write anything.
    guards.push(ctx.journal.guard(Undo::restore(&file)?)?);
    Ok(guards)
}

/// Makes a disk that is as quick as memory, and mounts an ext4 on it: the variables of [`make`], without `settings`.
pub(super) fn make_quick(ctx: &mut Ctx, mib: u64) -> Result<Guards> {
    let mut guards = Guards::new();
    let (below, dir) = (ctx.directory("below")?, ctx.directory("data")?);
    guards.push(ctx.journal.guard(Undo::Mount { path: below.clone() })?);
    let size = format!("size={}m", mib + 1);
    ctx.tool("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &below.to_string_lossy()])?;
    let image = below.join("image");
    // What is written later would be memory of the group that writes.
    write_image(&image, mib)?;
    guards.append(mount_image(ctx, "", &image, &dir, "--direct-io=off")?);
    Ok(guards)
}

/// An image with all its blocks, whole from the begin.
fn write_image(image: &Path, mib: u64) -> Result<()> {
    let mut file = fs::File::create(image)?;
    let block = vec![0_u8; 1 << 20];
    for _ in 0..mib {
        file.write_all(&block).context("fill the image")?;
    }
    Ok(file.sync_all()?)
}

/// Makes a disk whose file lies on the disk of [`make`], and mounts an ext4 on it: `upper_disk`, `upper_dir` and so on.
fn make_upper(ctx: &mut Ctx) -> Result<Guards> {
    const MIB: u64 = 48;
    let image = PathBuf::from(ctx.text("dir")?).join("upper");
    write_image(&image, MIB)?;
    let dir = ctx.directory("upper")?;
    mount_image(ctx, "upper_", &image, &dir, "--direct-io=on")
}

fn mount_image(
    ctx: &mut Ctx,
    prefix: &str,
    image: &Path,
    dir: &Path,
    direct: &str,
) -> Result<Guards> {
    let mut guards = Guards::new();
    guards.push(ctx.journal.guard(Undo::Loop { backing: image.into() })?);
    let node = ctx.tool("losetup", &[direct, "--show", "-f", &image.to_string_lossy()])?;
    ctx.tool(
        "mkfs.ext4",
        &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0", "-J", "size=8", &node],
    )?;
    guards.push(ctx.journal.guard(Undo::Mount { path: dir.into() })?);
    ctx.tool("mount", &["-o", "noatime", &node, &dir.to_string_lossy()])?;
    let disk = node.trim_start_matches("/dev/").to_string();
    let dev = fs::read_to_string(format!("/sys/block/{disk}/dev"))?;
    ctx.set(&format!("{prefix}disk"), &disk);
    ctx.set(&format!("{prefix}dev"), dev.trim());
    ctx.set(&format!("{prefix}node"), &node);
    ctx.set(&format!("{prefix}dir"), dir.display());
    Ok(guards)
}

/// Mounts a slow store; sets `store_pid`, `store` (its comm).
pub(super) fn mount_store(
    ctx: &mut Ctx,
    prefix: &str,
    at: &Path,
    settings: &Path,
    names: &str,
    mib: u64,
) -> Result<Guards> {
    let mut guards = Guards::new();
    let text = |p: &Path| p.to_string_lossy().into_owned();
    let spawn = Spawn {
        name: ctx.draw.name(),
        arguments: ["slow-store", "--mount", &text(at), "--settings", &text(settings)]
            .into_iter()
            .chain(["--names", names, "--mib", &mib.to_string()])
            .map(String::from)
            .collect(),
        ..Spawn::default()
    };
    let store = ctx.spawn(&spawn)?;
    guards.push(store.guard);
    guards.push(ctx.journal.guard(Undo::Mount { path: at.into() })?);
    let first = at.join(names.split(',').next().unwrap_or(names));
    ctx.wait_for("the store's mount", Duration::from_secs(5), || first.exists())?;
    ctx.set(&format!("{prefix}store_pid"), store.pid);
    ctx.set(&format!("{prefix}store"), store.name);
    Ok(guards)
}

/// Changes the settings of a store from now on.
pub(super) fn change(ctx: &Ctx, prefix: &str, settings: Settings) -> Result<Guards> {
    let file = PathBuf::from(ctx.text(&format!("{prefix}settings"))?);
    let mut guards = Guards::new();
    guards.push(ctx.write_back_later(&file, &serde_json::to_string(&settings)?)?);
    ctx.sleep(Duration::from_millis(60))?;
    Ok(guards)
}

/// Sets how many bytes may be dirty on the host before they are written back (`dirty_background`), or before writers have to wait (`dirty`).
pub(super) fn set_dirty_limit(ctx: &Ctx, kind: &str, bytes: u64) -> Result<Guard> {
    const VM: &str = "/proc/sys/vm";
    // Writing the one makes the other 0, and 0 cannot be written to bytes: put back whichever was in force.
    let by_bytes = Path::new(VM).join(format!("{kind}_bytes"));
    let by_ratio = Path::new(VM).join(format!("{kind}_ratio"));
    let in_force = if fs::read_to_string(&by_bytes)?.trim() == "0" { &by_ratio } else { &by_bytes };
    let guard = ctx.journal.guard(Undo::restore(in_force)?)?;
    fs::write(&by_bytes, bytes.to_string())
        .with_context(|| format!("write {}", by_bytes.display()))?;
    Ok(guard)
}

/// What the stage's disk is like: parameters `base_latency_us`, `base_parallel`, `base_bytes_per_second`.
fn base(ctx: &Ctx) -> Result<Settings> {
    Ok(Settings {
        latency_us: ctx.number_or("base_latency_us", 200.0)?,
        parallel: ctx.number_or("base_parallel", 0.0)? as usize,
        bytes_per_second: ctx.number_or("base_bytes_per_second", 0.0)?,
        ..Settings::default()
    })
}

fn disk_mib(ctx: &Ctx) -> Result<u64> {
    Ok(ctx.number_or("disk_mib", 256.0)? as u64)
}

/// Times one direct read of 4 KiB from the device, past everything above it.
fn time_read(node: &str) -> Result<Duration> {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(node)?;
    let mut buffer = vec![0_u8; 8192];
    let at = buffer.as_ptr().align_offset(4096);
    let begin = Instant::now();
    file.read_exact_at(&mut buffer[at..at + 4096], 0).with_context(|| format!("read {node}"))?;
    Ok(begin.elapsed())
}

/// disk.throttle: a limit of the blkio controller on the load's own group.
/// Parameters: `limit` (iops or bps), `direction` (read or write), `rate` (operations per second),
/// `size` (bytes of an operation, for bps), `both` (1: the other direction has the same limit, which nobody meets), `above` (1: another disk is
/// made of the limited one). Variables: `blkio_group`, `blkio_group_name`, `throttle_file`, `throttle_value`, those of [`make`], and of the
/// disk above the same with `upper_`.
struct Throttle;

impl Fault for Throttle {
    fn name(&self) -> &'static str {
        "disk.throttle"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let (mib, settings) = (disk_mib(ctx)?, base(ctx)?);
        let mut guards = make(ctx, "", mib, settings)?;
        if ctx.number_or("above", 0.0)? > 0.0 {
            guards.append(make_upper(ctx)?);
        }
        let name = ctx.draw.name();
        let (group, guard) = ctx.cgroup("blkio", &name)?;
        guards.push(guard);
        ctx.set("blkio_group", group.display());
        ctx.set("blkio_group_name", name);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (limit, direction) = (ctx.text("limit")?, ctx.text("direction")?);
        let mut value = ctx.number("rate")?;
        if limit == "bps" {
            value *= ctx.number("size")?;
        }
        let value = value.round();
        let file = PathBuf::from(ctx.text("blkio_group")?)
            .join(format!("blkio.throttle.{direction}_{limit}_device"));
        let dev = ctx.text("dev")?;
        let mut guards = Guards::new();
        guards.push(
            ctx.journal.guard(Undo::Write { path: file.clone(), value: format!("{dev} 0") })?,
        );
        fs::write(&file, format!("{dev} {value}"))
            .with_context(|| format!("write {}", file.display()))?;
        if ctx.number_or("both", 0.0)? > 0.0 {
            let other = if direction == "read" { "write" } else { "read" };
            let path = file.with_file_name(format!("blkio.throttle.{other}_{limit}_device"));
            let undo = Undo::Write { path: path.clone(), value: format!("{dev} 0") };
            guards.push(ctx.journal.guard(undo)?);
            fs::write(&path, format!("{dev} {value}"))
                .with_context(|| format!("write {}", path.display()))?;
        }
        ctx.set("throttle_file", file.display());
        ctx.set("throttle_value", value);
        Ok(guards.into())
    }

    /// The disk itself stays quick: the limit stands before it.
    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let held = fs::read_to_string(ctx.text("throttle_file")?)?;
        Ok(Some(
            held.contains(&ctx.text("throttle_value")?)
                && time_read(&ctx.text("node")?)? < Duration::from_millis(5),
        ))
    }
}

/// disk.rate: the device itself serves only so many operations or bytes per second.
/// Parameters: `ops_per_second`, `credit_ops`, `bytes_per_second`.
struct Rate;

impl Fault for Rate {
    fn name(&self) -> &'static str {
        "disk.rate"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let (mib, settings) = (disk_mib(ctx)?, base(ctx)?);
        make(ctx, "", mib, settings)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let settings = Settings {
            ops_per_second: ctx.number_or("ops_per_second", 0.0)?,
            credit_ops: ctx.number_or("credit_ops", 0.0)?,
            bytes_per_second: ctx.number_or("bytes_per_second", 0.0)?,
            latency_us: ctx.number_or("latency_us", base(ctx)?.latency_us)?,
            ..base(ctx)?
        };
        Ok(change(ctx, "", settings)?.into())
    }
}

/// disk.fail_slow: of `disks` disks one answers a share of its requests late.
/// Parameters: `disks`, `tail_share`, `tail_ms`. Variables: those of [`make`] with the prefixes `d0_`,
/// `d1_`, ...; `paths` (a file on each); `bad_disk`, `bad_dev`.
struct FailSlow;

impl Fault for FailSlow {
    fn name(&self) -> &'static str {
        "disk.fail_slow"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let (count, settings) = (ctx.number("disks")? as usize, base(ctx)?);
        let mut guards = Guards::new();
        let mut paths = Vec::new();
        for at in 0..count {
            let prefix = format!("d{at}_");
            guards.append(make(ctx, &prefix, 64, settings)?);
            paths.push(format!("{}/segment", ctx.text(&format!("{prefix}dir"))?));
        }
        ctx.set("paths", paths.join(","));
        let bad = ctx.draw.index(count);
        ctx.set("bad", bad);
        for what in ["disk", "dev", "node"] {
            let value = ctx.text(&format!("d{bad}_{what}"))?;
            ctx.set(&format!("bad_{what}"), value);
        }
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let settings = Settings {
            tail_share: ctx.number("tail_share")?,
            tail_us: ctx.number("tail_ms")? * 1000.0,
            ..base(ctx)?
        };
        let prefix = format!("d{}_", ctx.text("bad")?);
        Ok(change(ctx, &prefix, settings)?.into())
    }
}

/// disk.neighbour: a process that floods the disk the load uses. The stage's disk has limits
/// (`base_parallel`, `base_bytes_per_second`) that the load alone does not reach.
/// Parameters: `neighbour` (a kind of load), `neighbour_arguments` with variables, `background_mib` (so much may be dirty on the host
/// before it is written back; absent: what the host has).
/// Variables: `culprit`, `culprit_pid`.
struct Neighbour;

impl Fault for Neighbour {
    fn name(&self) -> &'static str {
        "disk.neighbour"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let (mib, settings) = (disk_mib(ctx)?, base(ctx)?);
        let mut guards = make(ctx, "", mib, settings)?;
        let background_mib = ctx.number_or("background_mib", 0.0)? as u64;
        if background_mib > 0 {
            guards.push(set_dirty_limit(ctx, "dirty_background", background_mib << 20)?);
        }
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut arguments = vec![ctx.text("neighbour")?];
        let words = ctx.fill(&ctx.text("neighbour_arguments")?)?;
        arguments.extend(words.split_whitespace().map(String::from));
        let spawn = Spawn { name: ctx.draw.name(), arguments, ..Spawn::default() };
        let neighbour = ctx.spawn(&spawn)?;
        ctx.set("culprit", &neighbour.name);
        ctx.set("culprit_pid", neighbour.pid);
        let mut guards = Guards::new();
        guards.push(neighbour.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid: i32 = ctx.text("culprit_pid")?.parse()?;
        match crate::procfs::state(pid) {
            None | Some('Z') => bail!(
                "the neighbour has ended: {}",
                fs::read_to_string(ctx.scratch.join("stderr"))?
            ),
            Some(_) => Ok(Some(true)),
        }
    }
}

/// disk.errors: a share of reads fails. Parameter: `error_share`.
struct Errors;

impl Fault for Errors {
    fn name(&self) -> &'static str {
        "disk.errors"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let (mib, settings) = (disk_mib(ctx)?, base(ctx)?);
        make(ctx, "", mib, settings)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let settings = Settings { error_share: ctx.number("error_share")?, ..base(ctx)? };
        Ok(change(ctx, "", settings)?.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let node = ctx.text("node")?;
        Ok(Some((0..40).any(|_| time_read(&node).is_err())))
    }
}

/// disk.weight: under bfq a neighbour of a heavier group gets the disk. In the baseline the same
/// neighbour runs with equal weights, so that what hurts is the weight.
/// Parameter: `threads` of the neighbour. Variables: `light_group`, `light_group_name`,
/// `heavy_group`, `heavy_group_name`, `culprit`, `culprit_pid`, and those of [`make`].
struct Weight;

impl Fault for Weight {
    fn name(&self) -> &'static str {
        "disk.weight"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let (mib, settings) = (disk_mib(ctx)?, base(ctx)?);
        let mut guards = make(ctx, "", mib, settings)?;
        let queue = PathBuf::from(format!("/sys/block/{}/queue", ctx.text("disk")?));
        // A loop device keeps its queue's settings after its file is gone.
        let scheduler = queue.join("scheduler");
        let offered = fs::read_to_string(&scheduler)?;
        let chosen = offered.split(['[', ']']).nth(1).unwrap_or("none").to_string();
        guards.push(ctx.journal.guard(Undo::Write { path: scheduler.clone(), value: chosen })?);
        fs::write(&scheduler, "bfq").context("choose bfq")?;
        // It would otherwise take all requests at once and leave bfq nothing to order; choosing the
        // old scheduler again sets the number back to that scheduler's own.
        fs::write(queue.join("nr_requests"), "8").context("set nr_requests")?;
        for which in ["light", "heavy"] {
            let name = ctx.draw.name();
            let (group, guard) = ctx.cgroup("blkio", &name)?;
            guards.push(guard);
            ctx.set(&format!("{which}_group"), group.display());
            ctx.set(&format!("{which}_group_name"), name);
        }
        let path = format!("{}/bulk", ctx.text("dir")?);
        let words =
            ["direct", "--path", &path, "--size", "4096", "--threads", &ctx.text("threads")?];
        let spawn = Spawn {
            name: ctx.draw.name(),
            arguments: words.map(String::from).to_vec(),
            cgroups: vec![ctx.text("heavy_group")?.into()],
            ..Spawn::default()
        };
        let neighbour = ctx.spawn(&spawn)?;
        guards.push(neighbour.guard);
        ctx.set("culprit", &neighbour.name);
        ctx.set("culprit_pid", neighbour.pid);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        for (which, weight) in [("light", "10"), ("heavy", "1000")] {
            let file = PathBuf::from(ctx.text(&format!("{which}_group"))?).join("blkio.bfq.weight");
            guards.push(ctx.write_back_later(&file, weight)?);
        }
        Ok(guards.into())
    }
}
