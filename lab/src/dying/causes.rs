//! What a host dies of: each of these leaves little of one thing, for as long as its guards live. Most are made of loads.
//!
//! All of them are bounded: by a count, by a cgroup, by a file system of their own; the lab's own work must go on. Must not:
//! take memory or disk space of the host itself, of which others live.

use crate::fault::{Ctx, Spawn};
use crate::faults;
use crate::faults::stage::{load, load_file, start, words};
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// One way to die.
pub(super) trait Cause: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// What it is, in words.
    fn about(&self) -> &'static str;
    /// Makes it.
    fn begin(&self, ctx: &mut Ctx) -> Result<Guards>;
    /// Where holdup is started.
    fn place(&self, _ctx: &Ctx, _command: &mut Command) -> Result<()> {
        Ok(())
    }
    /// Groups that holdup itself is in.
    fn cgroups(&self, _ctx: &Ctx) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// All of them, the quiet host first.
pub(super) const CAUSES: &[&dyn Cause] =
    &[&Quiet, &Hogs, &Forks, &Stuck, &Memory, &FullDisk, &Packets];

struct Quiet;

impl Cause for Quiet {
    fn name(&self) -> &'static str {
        "quiet"
    }

    fn about(&self) -> &'static str {
        "nothing else runs"
    }

    fn begin(&self, _: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }
}

struct Hogs;

impl Cause for Hogs {
    fn name(&self) -> &'static str {
        "hogs"
    }

    fn about(&self) -> &'static str {
        "100 processes compute"
    }

    fn begin(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let spawn = load(ctx, &["hog", "--threads", "1"]);
        for _ in 0..100 {
            guards.push(start(ctx, "hog", &spawn)?.guard);
        }
        Ok(guards)
    }
}

struct Forks;

impl Cause for Forks {
    fn name(&self) -> &'static str {
        "forks"
    }

    fn about(&self) -> &'static str {
        "60 shells begin processes as quickly as they can, below a limit of 300"
    }

    fn begin(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let name = ctx.draw.name();
        let (group, guard) = ctx.cgroup("pids", &name)?;
        guards.push(guard);
        fs::write(group.join("pids.max"), "300")?;
        const BOMB: &str = "for n in $(seq 60); do (while :; do /bin/true; done) & done; wait";
        let spawn = Spawn {
            program: "/bin/sh".into(),
            arguments: words(&["-c", BOMB]),
            cgroups: vec![group],
            ..Spawn::default()
        };
        guards.push(start(ctx, "bomb", &spawn)?.guard);
        Ok(guards)
    }
}

struct Stuck;

impl Cause for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn about(&self) -> &'static str {
        "5,000 threads wait without an end (D) for a frozen file system"
    }

    fn begin(&self, ctx: &mut Ctx) -> Result<Guards> {
        let frozen = faults::find("fs.frozen").context("no fault fs.frozen")?;
        let mut guards = frozen.set_up(ctx)?;
        let file = PathBuf::from(ctx.text("dir")?).join("file").to_string_lossy().into_owned();
        let spawn = load_file(ctx, "stuck.c", &["5000", &file])?;
        guards.push(start(ctx, "stuck", &spawn)?.guard);
        // Undone first: whoever waits for it cannot be ended before.
        guards.append(frozen.inject(ctx)?.guards);
        Ok(guards)
    }
}

struct Memory;

impl Cause for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "a group of 96 MiB, with holdup in it, in which 300 MiB are used; the rest is in swap"
    }

    fn begin(&self, ctx: &mut Ctx) -> Result<Guards> {
        ctx.set("swap_mib", 300);
        let swapped = faults::find("memory.swapped").context("no fault memory.swapped")?;
        let mut guards = swapped.set_up(ctx)?;
        let group = PathBuf::from(ctx.text("memory_group")?);
        fs::write(group.join("memory.limit_in_bytes"), (96 << 20).to_string())?;
        let spawn = load_file(ctx, "pages.c", &["300"])?;
        let spawn = Spawn { cgroups: vec![group], ..spawn };
        guards.push(start(ctx, "pages", &spawn)?.guard);
        Ok(guards)
    }

    fn cgroups(&self, ctx: &Ctx) -> Result<Vec<PathBuf>> {
        Ok(vec![ctx.text("memory_group")?.into()])
    }
}

struct FullDisk;

impl Cause for FullDisk {
    fn name(&self) -> &'static str {
        "full-disk"
    }

    fn about(&self) -> &'static str {
        "the folder that it is started in, its home and its temporary files lie on a full disk"
    }

    fn begin(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let dir = ctx.directory("full")?;
        guards.push(ctx.journal.guard(Undo::Mount { path: dir.clone() })?);
        ctx.tool("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", &dir.to_string_lossy()])?;
        // Refused at the end, when it is full.
        let _ = fs::write(dir.join("all"), vec![0_u8; 2 << 20]);
        ctx.set("full", dir.display());
        Ok(guards)
    }

    fn place(&self, ctx: &Ctx, command: &mut Command) -> Result<()> {
        let dir = ctx.text("full")?;
        command.current_dir(&dir).env("TMPDIR", &dir).env("HOME", &dir);
        Ok(())
    }
}

struct Packets;

impl Cause for Packets {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn about(&self) -> &'static str {
        "packets come in as quickly as one CPU sends them"
    }

    fn begin(&self, ctx: &mut Ctx) -> Result<Guards> {
        ctx.set("packets_per_second", 400_000);
        let packets = faults::find("net.packets").context("no fault net.packets")?;
        let mut guards = packets.set_up(ctx)?;
        guards.append(packets.inject(ctx)?.guards);
        Ok(guards)
    }
}
