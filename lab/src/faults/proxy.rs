//! net.proxy_limit: a proxy may ask its upstream only so much at a time, and keeps the other questions itself.
//!
//! The proof is the number of its connections there, in the kernel's table, once the load gets less done.
//! Edit together: lab/load/proxy.py.

use super::stage::{load, load_file, name_switch, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::Result;
use std::fs;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Limit];

/// The pool of a proxy becomes smaller than what its clients ask at a time.
///
/// Parameters: `answer_ms` (what the upstream takes for each answer), `limit`. The load is `tcp-client 127.0.0.1:{port} --keep` with
/// many threads. Variables: `port`, `upstream_port`, `switch`; `proxy`, `proxy_pid`; `server`, `server_pid`.
struct Limit;

impl Fault for Limit {
    fn name(&self) -> &'static str {
        "net.proxy_limit"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let [port, upstream] = [20_000, 30_000].map(|from| from + ctx.draw.index(2_000) as u16);
        ctx.set("port", port);
        ctx.set("upstream_port", upstream);
        // What an answer takes is the same with and without the fault.
        let pace = name_switch(ctx)?.to_string_lossy().into_owned();
        guards.push(switch_on(ctx, &ctx.text("answer_ms")?)?);
        let listen = format!("127.0.0.1:{upstream}");
        let spawn = load(ctx, &["tcp-server", &listen, "--parallel", "--answer-switch", &pace]);
        let server = start(ctx, "server", &spawn)?;
        guards.push(server.guard);
        wait_bound(ctx, server.pid, "tcp", upstream)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let words = [&port.to_string(), &upstream.to_string(), &switch];
        let spawn = load_file(ctx, "proxy.py", &words.map(String::as_str))?;
        let proxy = start(ctx, "proxy", &spawn)?;
        guards.push(proxy.guard);
        wait_bound(ctx, proxy.pid, "tcp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("limit")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let mark = format!(":{:04X}", ctx.number("upstream_port")? as u16);
        let table = fs::read_to_string("/proc/net/tcp")?;
        let is_upstream = |line: &&str| {
            let mut words = line.split_whitespace().skip(2);
            words.next().is_some_and(|remote| remote.ends_with(&mark)) && words.next() == Some("01")
        };
        let open = table.lines().filter(is_upstream).count();
        Ok(Some(open as f64 <= ctx.number("limit")?))
    }
}
