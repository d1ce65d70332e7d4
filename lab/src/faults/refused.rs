//! Calls that are refused, and programs that sleep before they try again: locks, processes, descriptors, connections, rights.
//!
//! The kernel makes nobody wait here, so the proof is what refuses: the lock table, the group's count of refusals, the limit
//! of the process, the port that nobody listens on, the mount's own options, the mode of the folder. Edit together: lab/load (poll_lock.py, fork_retry.py,
//! open_retry.py, connect_retry.py, write_retry.py, listen.py).

use super::lock::Holder;
use super::stage::{load_file, name_switch, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Polled, &Processes, &Descriptors, &Listener, &ReadOnly];

/// Another process holds a file lock that the load only tries.
///
/// Parameters and variables: as of `lock.file_holder`.
struct Polled;

impl Fault for Polled {
    fn name(&self) -> &'static str {
        "lock.file_polled"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        Holder.set_up(ctx)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        Holder.inject(ctx)
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let inode = format!(":{} ", fs::metadata(ctx.text("lock_path")?)?.ino());
        let locks = fs::read_to_string("/proc/locks")?;
        Ok(Some(locks.lines().any(|line| line.contains(&inode))))
    }
}

/// The load's group may have fewer processes than the load wants at a time.
///
/// Parameters: `limit`. Variables: `pids_group`, `pids_group_name`.
struct Processes;

impl Fault for Processes {
    fn name(&self) -> &'static str {
        "process.pids_max"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let name = ctx.draw.name();
        let (path, guard) = ctx.cgroup("pids", &name)?;
        ctx.set("pids_group", path.display());
        ctx.set("pids_group_name", name);
        let mut guards = Guards::new();
        guards.push(guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let group = PathBuf::from(ctx.text("pids_group")?);
        ctx.set("refused_before", refused(&group)?);
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(&group.join("pids.max"), &ctx.text("limit")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let group = PathBuf::from(ctx.text("pids_group")?);
        Ok(Some(refused(&group)? as f64 > ctx.number("refused_before")?))
    }
}

/// How often the group refused a process.
fn refused(group: &Path) -> Result<u64> {
    let events = fs::read_to_string(group.join("pids.events"))?;
    let line = events.lines().find_map(|line| line.strip_prefix("max "));
    line.context("pids.events has no max")?.trim().parse().context("pids.events")
}

/// The load may have fewer descriptors than it wants at a time.
///
/// Parameters: `limit`.
struct Descriptors;

impl Fault for Descriptors {
    fn name(&self) -> &'static str {
        "process.nofile"
    }

    fn set_up(&self, _: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        // The limit ends with the process.
        let (pid, limit) = (ctx.text("victim_pid")?, ctx.text("limit")?);
        ctx.tool("prlimit", &["--pid", &pid, &format!("--nofile={limit}:")])?;
        Ok(Guards::new().into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (pid, limit) = (ctx.text("victim_pid")?, ctx.number("limit")?);
        let open = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        Ok(Some(open as f64 >= limit))
    }
}

/// The server that the load connects to has closed its port.
///
/// Variables: `port`, `switch`; `server`, `server_pid`.
struct Listener;

impl Fault for Listener {
    fn name(&self) -> &'static str {
        "process.listener_gone"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let port = 20_000 + ctx.draw.index(10_000);
        ctx.set("port", port);
        let spawn = load_file(ctx, "listen.py", &[&port.to_string(), &switch])?;
        let server = start(ctx, "server", &spawn)?;
        let pid = server.pid;
        let mut guards = Guards::new();
        guards.push(server.guard);
        wait_bound(ctx, pid, "tcp", port as u16)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "closed")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let mark = format!(":{:04X} ", ctx.number("port")? as u16);
        let table = fs::read_to_string("/proc/net/tcp")?;
        let listens = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().is_some_and(|at| format!("{at} ").ends_with(&mark));
            local && words.nth(1) == Some("0A")
        };
        Ok(Some(!table.lines().any(listens)))
    }
}

/// The file system that the load makes its files in is mounted read-only.
///
/// Variables: `dir`, `report` (what it makes there).
struct ReadOnly;

impl Fault for ReadOnly {
    fn name(&self) -> &'static str {
        "process.read_only"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let dir = ctx.directory("data")?;
        guards.push(ctx.journal.guard(Undo::Mount { path: dir.clone() })?);
        ctx.tool("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", &dir.to_string_lossy()])?;
        let report = dir.join(ctx.draw.name());
        ctx.set("report", report.display());
        ctx.set("dir", dir.display());
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let dir = ctx.text("dir")?;
        let again = ["mount", "-o", "remount,rw", &dir].map(String::from).to_vec();
        let mut guards = Guards::new();
        guards.push(ctx.journal.guard(Undo::Command { words: again })?);
        ctx.tool("mount", &["-o", "remount,ro", &dir])?;
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let dir = ctx.text("dir")?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let of_it = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&*dir));
        let options = of_it.and_then(|line| line.split(' ').nth(3)).context("it is not mounted")?;
        Ok(Some(options.split(',').any(|option| option == "ro")))
    }
}
