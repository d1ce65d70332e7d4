//! chain.*: a wait that leads through a socket and a mutex down to a disk.
//!
//! client -> unix socket -> server's thread -> mutex -> flusher -> disk. The stage is the whole
//! chain on a quick disk; the fault is that the disk becomes slow, nothing else. The proof is the
//! flusher's wait channel together with the client's.

use super::disks;
use super::stage::{load, load_file, name_switch, start, switch_on, thread_named, words};
use crate::fault::{Ctx, Fault, Injected};
use crate::load::slow::Settings;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&FiveLinks];

/// The disk below the server's flusher becomes slow.
///
/// Parameters: `ops_per_second`; `server_language` (c, rust), `writes` (per flush). The load asks
/// `{socket}`. Variables: of [`disks::make`]; `socket`, `switch`, `flusher`; `server`, `server_pid`;
/// `flusher_tid`.
struct FiveLinks;

impl Fault for FiveLinks {
    fn name(&self) -> &'static str {
        "chain.five_links"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let quick = Settings { latency_us: 150.0, ..Settings::default() };
        let mut guards = disks::make(ctx, "", 128, quick)?;
        let socket = ctx.directory("run")?.join(format!("{}.sock", ctx.draw.name()));
        let socket = socket.to_string_lossy().into_owned();
        ctx.set("socket", &socket);
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        // The flusher syncs with and without the fault, for a few milliseconds each time.
        guards.push(switch_on(ctx, "3")?);
        let file = format!("{}/{}", ctx.text("dir")?, ctx.draw.name());
        let flusher = ctx.draw.name();
        ctx.set("flusher", &flusher);
        let spawn = if ctx.text("server_language")? == "c" {
            let writes = ctx.text("writes")?;
            load_file(ctx, "chain.c", &[&socket, &file, &writes, "15", &flusher, &switch])?
        } else {
            let mut spawn = load(ctx, &["unix-server", &socket, "--flush", "io"]);
            let more = ["--file", &file, "--flush-switch", &switch, "--flusher", &flusher];
            spawn.arguments.extend(words(&more));
            spawn
        };
        guards.push(start(ctx, "server", &spawn)?.guard);
        ctx.wait_for("server", Duration::from_secs(10), || Path::new(&socket).exists())?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let server = ctx.number("server_pid")? as i32;
        let flusher = ctx.text("flusher")?;
        let tid = thread_named(server, &flusher).with_context(|| format!("no thread {flusher}"))?;
        ctx.set("flusher_tid", tid);
        let slow = Settings {
            latency_us: 150.0,
            ops_per_second: ctx.number("ops_per_second")?,
            ..Settings::default()
        };
        Ok(disks::change(ctx, "", slow)?.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let channel = |pid: &str, tid: &str| {
            fs::read_to_string(format!("/proc/{pid}/task/{tid}/wchan")).unwrap_or_default()
        };
        let (server, victim) = (ctx.text("server_pid")?, ctx.text("victim_pid")?);
        let flusher = channel(&server, &ctx.text("flusher_tid")?);
        let client = channel(&victim, &victim);
        // In fsync it waits for a page, a buffer or the journal.
        let syncs = ["folio", "buffer", "io_schedule", "jbd2"].iter().any(|w| flusher.contains(w));
        Ok(Some(syncs && client.contains("unix_stream")))
    }
}
