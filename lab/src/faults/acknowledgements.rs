//! net.two_writes: the load writes its questions in two pieces, and the second waits for an acknowledgement.
//!
//! The proof is the kernel's count of acknowledgements that were put off, in the server's network namespace.

use super::stage::{load_file, name_switch, net_counter, pair, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&TwoWrites];

/// The load (`two_writes.py {far_ip} {port} {switch}` in `{near_ns}`) writes its questions in one call each, and in two
/// while the switch is there.
///
/// Variables: of [`pair`]; `port`, `switch`; `server`, `server_pid`.
struct TwoWrites;

impl Fault for TwoWrites {
    fn name(&self) -> &'static str {
        "net.two_writes"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        name_switch(ctx)?;
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let ip = ctx.text("far_ip")?;
        let mut spawn = load_file(ctx, "whole_questions.py", &[&ip, &port.to_string()])?;
        spawn.netns = Some(ctx.text("far_ns")?);
        let started = start(ctx, "server", &spawn)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "tcp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("put_off_before", put_off(ctx)?);
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "two")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(put_off(ctx)? as f64 > ctx.number("put_off_before")? + 5.0))
    }
}

fn put_off(ctx: &Ctx) -> Result<u64> {
    let server = ctx.number("server_pid")? as i32;
    net_counter(server, "TcpExt", "DelayedACKs").context("no DelayedACKs")
}
