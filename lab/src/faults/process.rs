//! process.*: somebody else's process stands still, and the load waits for it.
//!
//! A stopped reader of a pipe, a terminal that nobody reads, a stopped, traced or frozen server.
//! The proof is the state of the one and the wait channel of the other.

use super::stage::{children, load, load_file, name_switch, start, stop, switch_on};
use crate::fault::{Ctx, Fault, Injected};
use crate::procfs;
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[
    &PipeReader,
    &PipeChild,
    &Terminal,
    &Server("process.stopped_server"),
    &Server("process.traced_server"),
    &Server("process.frozen_server"),
    &Server("process.slow_server"),
];

/// The reader of a FIFO that the load writes to (`{fifo}`) stops, or reads slowly.
///
/// Parameters: `reader_language` (rust, python), `how` (stop, or milliseconds between two reads of
/// 4 KiB). Variables: `fifo`, `switch`; `reader`, `reader_pid`.
struct PipeReader;

impl Fault for PipeReader {
    fn name(&self) -> &'static str {
        "process.pipe_reader"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let fifo = ctx.directory("run")?.join(format!("{}.pipe", ctx.draw.name()));
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
        nix::unistd::mkfifo(&fifo, mode).with_context(|| fifo.display().to_string())?;
        ctx.set("fifo", fifo.display());
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let fifo = fifo.to_string_lossy().into_owned();
        let spawn = if ctx.text("reader_language")? == "python" {
            load_file(ctx, "collect.py", &[&fifo, &switch])?
        } else {
            load(ctx, &["pipe-reader", &fifo, "--switch", &switch])
        };
        let mut guards = Guards::new();
        guards.push(start(ctx, "reader", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        let how = ctx.text("how")?;
        guards.push(match how.as_str() {
            "stop" => stop(ctx, ctx.number("reader_pid")? as i32)?,
            pause => switch_on(ctx, pause)?,
        });
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        Ok(Some(channel.contains("pipe_write")))
    }
}

/// The child that the load (`log_child.py ... CHILD`) logs to is stopped.
///
/// Variables: `reader`, `reader_pid`.
struct PipeChild;

impl Fault for PipeChild {
    fn name(&self) -> &'static str {
        "process.pipe_child"
    }

    fn set_up(&self, _ctx: &mut Ctx) -> Result<Guards> {
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let victim = ctx.number("victim_pid")? as i32;
        let child = *children(victim).first().context("the load has no child")?;
        ctx.set("reader_pid", child);
        ctx.set("reader", procfs::comm(child));
        let mut guards = Guards::new();
        guards.push(stop(ctx, child)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        Ok(Some(channel.contains("pipe_write")))
    }
}

/// The terminal that the load writes to (`{tty}`) takes no more.
///
/// Parameters: `how` (unread, ctrl-s). Variables: `tty`, `tty_name`, `switch`; `screen`,
/// `screen_pid` (who holds the master).
struct Terminal;

impl Fault for Terminal {
    fn name(&self) -> &'static str {
        "process.terminal"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let name = ctx.scratch.join("tty");
        let spawn = load(ctx, &["terminal", &name.to_string_lossy(), "--switch", &switch]);
        let mut guards = Guards::new();
        guards.push(start(ctx, "screen", &spawn)?.guard);
        ctx.wait_for("terminal", Duration::from_secs(10), || name.exists())?;
        let tty = fs::read_to_string(&name)?;
        ctx.set("tty_name", tty.trim_start_matches("/dev/"));
        ctx.set("tty", tty);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("how")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        // n_tty_write sleeps in wait_woken; only the stack tells which.
        let stack = fs::read_to_string(format!("/proc/{}/stack", ctx.text("victim_pid")?))?;
        Ok(Some(stack.contains("n_tty_write")))
    }
}

/// The server behind the unix socket that the load asks (`{socket}`) is stopped, traced, frozen
/// or slow.
///
/// Parameters: `answer_ms` (slow). Variables: `socket`, `switch`, `freezer_group`,
/// `freezer_group_name`; `server`, `server_pid`; `tracer`, `tracer_pid`.
struct Server(&'static str);

impl Server {
    fn freezer(&self, ctx: &mut Ctx) -> Result<(PathBuf, Guards)> {
        let mut guards = Guards::new();
        let name = ctx.draw.name();
        let (path, guard) = ctx.cgroup("freezer", &name)?;
        guards.push(guard);
        ctx.set("freezer_group", path.display());
        ctx.set("freezer_group_name", name);
        Ok((path, guards))
    }
}

impl Fault for Server {
    fn name(&self) -> &'static str {
        self.0
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let socket = ctx.directory("run")?.join(format!("{}.sock", ctx.draw.name()));
        let socket = socket.to_string_lossy().into_owned();
        ctx.set("socket", &socket);
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let mut guards = Guards::new();
        let mut spawn = load(ctx, &["unix-server", &socket, "--answer-switch", &switch]);
        if self.0 == "process.frozen_server" {
            let (group, guard) = self.freezer(ctx)?;
            guards.append(guard);
            spawn.cgroups.push(group);
        }
        guards.push(start(ctx, "server", &spawn)?.guard);
        ctx.wait_for("server", Duration::from_secs(10), || Path::new(&socket).exists())?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        let pid = ctx.number("server_pid")? as i32;
        match self.0 {
            "process.stopped_server" => guards.push(stop(ctx, pid)?),
            "process.slow_server" => guards.push(switch_on(ctx, &ctx.text("answer_ms")?)?),
            "process.frozen_server" => {
                let file = PathBuf::from(ctx.text("freezer_group")?).join("freezer.state");
                guards.push(
                    ctx.journal
                        .guard(Undo::Write { path: file.clone(), value: "THAWED".into() })?,
                );
                fs::write(&file, "FROZEN").with_context(|| file.display().to_string())?;
            }
            _ => {
                // All threads: the one that serves the connection is not the main one.
                let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
                let names: Vec<_> = tasks.flatten().map(|task| task.file_name()).collect();
                let mut spawn = load(ctx, &["tracer"]);
                spawn.arguments.extend(names.iter().map(|n| n.to_string_lossy().into_owned()));
                guards.push(start(ctx, "tracer", &spawn)?.guard);
            }
        }
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let pid = ctx.number("server_pid")? as i32;
        let state = procfs::state(pid);
        Ok(Some(match self.0 {
            "process.stopped_server" => state == Some('T'),
            "process.traced_server" => state == Some('t'),
            "process.frozen_server" => {
                let file = PathBuf::from(ctx.text("freezer_group")?).join("freezer.state");
                fs::read_to_string(file)?.trim() == "FROZEN"
            }
            "process.slow_server" => return Ok(None),
            other => bail!("no fault {other}"),
        }))
    }
}
