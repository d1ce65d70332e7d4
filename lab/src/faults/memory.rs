//! Memory: limits of the v1 memory controller, the dirty limit, memory that nobody is charged for.
//!
//! Limits are set on groups that the lab made, but the dirty limit is the host's own: it is read before, and
//! put back on every exit. Nothing here may drive the host itself out of memory.

use super::disks;
use crate::fault::{Ctx, Fault, Injected, Spawn};
use crate::load::slow::Settings;
use crate::procfs;
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&Limit, &StreamBeside, &WriterBeside, &Jobs, &Dirty, &Shared, &Swapped];

/// memory.limit: the load's group gets a limit below what it needs.
/// Parameters: `limit_mib`; of the disk that the file pages come from `base_latency_us`, or `quick_disk` for one that is
/// as quick as memory; `stage_limit_mib` for a group that has its limit from the begin.
/// Variables: `memory_group`, `memory_group_name`, `limit_bytes`, and those of a disk.
struct Limit;

impl Fault for Limit {
    fn name(&self) -> &'static str {
        "memory.limit"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mib = ctx.number_or("disk_mib", 640.0)? as u64;
        let latency_us = ctx.number_or("base_latency_us", 300.0)?;
        let mut guards = if ctx.variables.contains_key("quick_disk") {
            disks::make_quick(ctx, mib)?
        } else {
            disks::make(ctx, "", mib, Settings { latency_us, ..Settings::default() })?
        };
        let name = ctx.draw.name();
        let (group, guard) = ctx.cgroup("memory", &name)?;
        guards.push(guard);
        if ctx.variables.contains_key("stage_limit_mib") {
            let bytes = (ctx.number("stage_limit_mib")? as u64) << 20;
            fs::write(group.join("memory.limit_in_bytes"), bytes.to_string())?;
        }
        ctx.set("memory_group", group.display());
        ctx.set("memory_group_name", name);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let bytes = (ctx.number("limit_mib")? as u64) << 20;
        ctx.set("limit_bytes", bytes);
        let group = PathBuf::from(ctx.text("memory_group")?);
        let file = group.join("memory.limit_in_bytes");
        let mut guards = Guards::new();
        guards.push(ctx.journal.guard(Undo::Write { path: file.clone(), value: "-1".into() })?);
        // Refused while more than the limit cannot be reclaimed; a job's end makes room.
        ctx.wait_for("the memory limit to be taken", Duration::from_secs(5), || {
            fs::write(&file, bytes.to_string()).is_ok()
        })?;
        ctx.set("failures_before", failures(&group)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let group = PathBuf::from(ctx.text("memory_group")?);
        Ok(Some(failures(&group)? as f64 > ctx.number("failures_before")?))
    }
}

fn failures(group: &Path) -> Result<u64> {
    fs::read_to_string(group.join("memory.failcnt"))?.trim().parse().context("memory.failcnt")
}

/// memory.stream_beside: in a group whose limit the load fits into, a neighbour begins to read what it needs once. Each has a
/// group of its own below, where the kernel does not tell its pages from the load's by their use.
/// Parameters: `limit_mib`, `stream_rest_us`; of the disk `base_latency_us`.
/// Variables: `memory_group`, `stream_group`, `culprit`, `culprit_pid`, and those of a disk.
struct StreamBeside;

impl Fault for StreamBeside {
    fn name(&self) -> &'static str {
        "memory.stream_beside"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let latency_us = ctx.number_or("base_latency_us", 300.0)?;
        let mut guards = disks::make(ctx, "", 320, Settings { latency_us, ..Settings::default() })?;
        guards.append(groups_below_one(ctx, ["memory_group", "stream_group"])?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("refaults_before", refaults(&PathBuf::from(ctx.text("memory_group")?))?);
        let path = format!("{}/stream", ctx.text("dir")?);
        let words = ["stream", "--path", &path, "--rest-us", &ctx.text("stream_rest_us")?];
        neighbour(ctx, words.map(String::from).to_vec(), "stream_group")
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let group = PathBuf::from(ctx.text("memory_group")?);
        Ok(Some(refaults(&group)? as f64 > ctx.number("refaults_before")? + 1000.0))
    }
}

/// A neighbour in the group that a variable names; it is the culprit.
fn neighbour(ctx: &mut Ctx, arguments: Vec<String>, group: &str) -> Result<Injected> {
    let cgroups = vec![ctx.text(group)?.into()];
    let spawn = Spawn { name: ctx.draw.name(), arguments, cgroups, ..Spawn::default() };
    let neighbour = ctx.spawn(&spawn)?;
    ctx.set("culprit", &neighbour.name);
    ctx.set("culprit_pid", neighbour.pid);
    let mut guards = Guards::new();
    guards.push(neighbour.guard);
    Ok(guards.into())
}

/// Two groups below one that has the limit `limit_mib`. Sets a variable for each, and `both_group_name`.
fn groups_below_one(ctx: &mut Ctx, variables: [&str; 2]) -> Result<Guards> {
    let mut guards = Guards::new();
    let both = ctx.draw.name();
    let (group, guard) = ctx.cgroup("memory", &both)?;
    guards.push(guard);
    let bytes = (ctx.number("limit_mib")? as u64) << 20;
    fs::write(group.join("memory.limit_in_bytes"), bytes.to_string())?;
    for variable in variables {
        let name = format!("{both}/{}", ctx.draw.name());
        let (below, guard) = ctx.cgroup("memory", &name)?;
        guards.push(guard);
        ctx.set(variable, below.display());
    }
    ctx.set("both_group_name", both);
    Ok(guards)
}

/// memory.writer_beside: below the limit that the load's group shares, a neighbour begins to write more than there is room for,
/// to a slow disk. Whoever asks for memory has to wait until some of it is written; the load itself needs little.
/// Parameters: `limit_mib`, `file_mib`, `bytes_per_second`.
/// Variables: `memory_group`, `writer_group`, `both_group_name`, `culprit`, `culprit_pid`, and those of a disk.
struct WriterBeside;

impl Fault for WriterBeside {
    fn name(&self) -> &'static str {
        "memory.writer_beside"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let bytes_per_second = ctx.number("bytes_per_second")?;
        let settings = Settings { latency_us: 150.0, bytes_per_second, ..Settings::default() };
        let mib = ctx.number("file_mib")? as u64 + 64;
        let mut guards = disks::make(ctx, "", mib, settings)?;
        guards.append(groups_below_one(ctx, ["memory_group", "writer_group"])?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let victims = PathBuf::from(ctx.text("memory_group")?);
        let both = victims.parent().context("the group has none above it")?.to_path_buf();
        ctx.set("failures_before", failures(&both)?);
        let path = format!("{}/copy", ctx.text("dir")?);
        let words = ["buffered-writer", "--path", &path, "--mib", &ctx.text("file_mib")?];
        neighbour(ctx, words.map(String::from).to_vec(), "writer_group")
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let group = PathBuf::from(ctx.text("memory_group")?);
        let both = group.parent().context("the group has none above it")?;
        Ok(Some(failures(both)? as f64 > ctx.number("failures_before")? + 100.0))
    }
}

/// Pages of files that a group has read again.
fn refaults(group: &Path) -> Result<u64> {
    let text = fs::read_to_string(group.join("memory.stat"))?;
    let pages = text.lines().find_map(|line| line.strip_prefix("workingset_refault_file "));
    pages.context("no workingset_refault_file in memory.stat")?.trim().parse().context("refaults")
}

/// memory.limit_of_jobs: each new group that the load makes gets a limit below what its job needs, and is gone when the job is.
/// Parameters: `limit_mib`. Variables: `jobs_group`, `jobs_group_name`, `jobs_limit_file`, `limit_bytes`.
struct Jobs;

impl Fault for Jobs {
    fn name(&self) -> &'static str {
        "memory.limit_of_jobs"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let name = ctx.draw.name();
        let (group, guard) = ctx.cgroup("memory", &name)?;
        ctx.set("jobs_group", group.display());
        ctx.set("jobs_group_name", name);
        ctx.set("jobs_limit_file", ctx.scratch.join("limit").display().to_string());
        let mut guards = Guards::new();
        guards.push(guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let bytes = (ctx.number("limit_mib")? as u64) << 20;
        ctx.set("limit_bytes", bytes);
        ctx.set("kills_before", kills()?);
        let file = PathBuf::from(ctx.text("jobs_limit_file")?);
        let mut guards = Guards::new();
        guards.push(ctx.journal.guard(Undo::Remove { path: file.clone() })?);
        fs::write(&file, bytes.to_string())?;
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(kills()? as f64 > ctx.number("kills_before")?))
    }
}

/// Processes that the host has killed for want of memory, whoever's limit it was.
fn kills() -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    kills.context("no oom_kill in /proc/vmstat")?.trim().parse().context("oom_kill")
}

/// memory.dirty: the host may hold only a few dirty bytes, and the disk below takes them slowly.
/// Parameters: `dirty_mib`, `bytes_per_second`.
struct Dirty;

impl Fault for Dirty {
    fn name(&self) -> &'static str {
        "memory.dirty"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        disks::make(ctx, "", 320, Settings { latency_us: 150.0, ..Settings::default() })
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let bytes = (ctx.number("dirty_mib")? * 1048576.0) as u64;
        ctx.set("dirty_bytes", bytes);
        let settings = Settings {
            latency_us: 150.0,
            bytes_per_second: ctx.number("bytes_per_second")?,
            ..Settings::default()
        };
        let mut guards = disks::change(ctx, "", settings)?;
        for (kind, bytes) in [("dirty_background", bytes / 2), ("dirty", bytes)] {
            guards.push(disks::set_dirty_limit(ctx, kind, bytes)?);
        }
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid: i32 = ctx.text("victim_pid")?.parse()?;
        let held = |place: &String| place.contains("balance_dirty_pages");
        for _ in 0..20 {
            if procfs::whereabouts(pid).iter().any(held) {
                return Ok(Some(true));
            }
            ctx.sleep(Duration::from_millis(10))?;
        }
        Ok(Some(false))
    }
}

/// memory.shared: a master whose child filled shared anonymous memory and ended.
/// Parameters: `segment_mib`, `fill_mib`. Variables: `culprit`, `culprit_pid`, `fill_bytes`.
struct Shared;

impl Fault for Shared {
    fn name(&self) -> &'static str {
        "memory.shared"
    }

    fn set_up(&self, _: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("fill_bytes", (ctx.number("fill_mib")? as u64) << 20);
        ctx.set("shmem_before", shmem_bytes()?);
        let words = [
            "shared-segment",
            "--mib",
            &ctx.text("segment_mib")?,
            "--fill",
            &ctx.text("fill_mib")?,
        ];
        let arguments = words.map(String::from).to_vec();
        let spawn = Spawn { name: ctx.draw.name(), arguments, ..Spawn::default() };
        let master = ctx.spawn(&spawn)?;
        ctx.set("culprit", &master.name);
        ctx.set("culprit_pid", master.pid);
        let mut guards = Guards::new();
        guards.push(master.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let more = shmem_bytes()? as f64 - ctx.number("shmem_before")?;
        Ok(Some(more > ctx.number("fill_bytes")? * 0.98))
    }
}

fn shmem_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line =
        text.lines().find_map(|l| l.strip_prefix("Shmem:")).context("no Shmem in meminfo")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// memory.swapped: the load's memory is written to swap while it stands still, and the disk with the swap is slow from then on.
/// Parameters: `swap_mib` (what the load has), `latency_us`. Variables: `memory_group`, and those of a disk.
///
/// By a group, which has no limit: emptying it (v1) also drops the pages that are written already, where MADV_PAGEOUT leaves
/// them in the swap cache, and no touch would have to read.
struct Swapped;

impl Fault for Swapped {
    fn name(&self) -> &'static str {
        "memory.swapped"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mib = 2 * ctx.number("swap_mib")? as u64;
        let mut guards = disks::make(ctx, "", mib + 64, Settings::default())?;
        let file = Path::new(&ctx.text("dir")?).join("swap").to_string_lossy().into_owned();
        ctx.tool("fallocate", &["-l", &format!("{mib}M"), &file])?;
        ctx.tool("chmod", &["600", &file])?;
        ctx.tool("mkswap", &[&file])?;
        let words = ["swapoff", &file].map(String::from).to_vec();
        guards.push(ctx.journal.guard(Undo::Command { words })?);
        // Before any other swap that the host may have.
        ctx.tool("swapon", &["--priority", "32767", &file])?;
        let name = ctx.draw.name();
        let (group, guard) = ctx.cgroup("memory", &name)?;
        guards.push(guard);
        ctx.set("memory_group", group.display());
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let pid: i32 = ctx.text("victim_pid")?.parse()?;
        let settings = Settings { latency_us: ctx.number("latency_us")?, ..Settings::default() };
        let start_time = procfs::start_time(pid).context("the load has ended")?;
        // Stopped, or it would bring its pages back as quickly as they go.
        let stopped = ctx.journal.guard(Undo::Continue { pid, start_time })?;
        procfs::signal(pid, nix::sys::signal::Signal::SIGSTOP);
        let group = PathBuf::from(ctx.text("memory_group")?);
        let most = ctx.number("swap_mib")? as u64 * (1 << 20) / 10;
        ctx.wait_for("the memory to be in swap", Duration::from_secs(10), || {
            // It says so if some of it is still being written.
            let _ = fs::write(group.join("memory.force_empty"), "0");
            let left = fs::read_to_string(group.join("memory.usage_in_bytes"));
            left.is_ok_and(|left| left.trim().parse::<u64>().is_ok_and(|bytes| bytes < most))
        })?;
        let guards = disks::change(ctx, "", settings)?;
        drop(stopped);
        ctx.set("swapped_in_before", swapped_in()?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(swapped_in()? as f64 > ctx.number("swapped_in_before")?))
    }
}

/// Pages that the host has read from swap.
fn swapped_in() -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let pages = text.lines().find_map(|line| line.strip_prefix("pswpin "));
    pages.context("no pswpin in /proc/vmstat")?.trim().parse().context("pswpin")
}
