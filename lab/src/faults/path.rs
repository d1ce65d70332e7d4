//! net.* beyond this host: a line that loses, delays or holds back packets.
//!
//! Two namespaces are joined by a program instead of a veth, so that nothing of the host's own is
//! to blame. The proof is TCP's own count of what it sent again, or its round-trip time.

use super::stage::{load, name_switch, net_counter, netns, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&BadLine];

/// The line between `{near_ns}` and `{far_ns}` becomes bad.
///
/// Parameters: `badness` (words of the load `link`, with variables). The load talks to
/// `{far_ip}:{port}`, where a `tcp-sink` listens, or a `tcp-server` at `{ask_port}`. Variables:
/// `near_ns`, `near_if`, `near_ip` and `far_*`; `switch`, `port`, `ask_port`.
struct BadLine;

impl Fault for BadLine {
    fn name(&self) -> &'static str {
        "net.bad_line"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let net = format!("10.{}.{}", 1 + ctx.draw.index(250), 1 + ctx.draw.index(250));
        let mut words = vec!["link".to_string()];
        for (side, last) in [("near", 1), ("far", 2)] {
            let (ns, guard) = netns(ctx)?;
            guards.push(guard);
            let interface = format!("wan{}", ctx.draw.index(9));
            words.extend([format!("/run/netns/{ns}"), interface.clone()]);
            ctx.set(&format!("{side}_ip"), format!("{net}.{last}"));
            ctx.set(&format!("{side}_ns"), ns);
            ctx.set(&format!("{side}_if"), interface);
        }
        words.extend(["--switch".into(), switch]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let spawn = load(ctx, &words);
        let line = start(ctx, "line", &spawn)?;
        guards.push(line.guard);
        for side in ["near", "far"] {
            let ns = ctx.text(&format!("{side}_ns"))?;
            let interface = ctx.text(&format!("{side}_if"))?;
            let address = format!("{}/24", ctx.text(&format!("{side}_ip"))?);
            // The namespace is known by a process in it only later; until then, by trying.
            ctx.wait_for("line", Duration::from_secs(10), || {
                ctx.tool("ip", &["-n", &ns, "link", "set", &interface, "up"]).is_ok()
            })?;
            ctx.tool("ip", &["-n", &ns, "addr", "add", &address, "dev", &interface])?;
        }
        for (role, kind, variable) in
            [("sink", "tcp-sink", "port"), ("server", "tcp-server", "ask_port")]
        {
            let port = 2000 + ctx.draw.index(30_000) as u16;
            ctx.set(variable, port);
            let listen = format!("{}:{port}", ctx.text("far_ip")?);
            let mut spawn = load(ctx, &[kind, &listen]);
            if kind == "tcp-server" {
                spawn.arguments.push("--parallel".into());
            }
            spawn.netns = Some(ctx.text("far_ns")?);
            let started = start(ctx, role, &spawn)?;
            guards.push(started.guard);
            wait_bound(ctx, started.pid, "tcp", port)?;
        }
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let victim = ctx.number("victim_pid")? as i32;
        ctx.set("resent_before", net_counter(victim, "Tcp", "RetransSegs").unwrap_or(0));
        let badness = ctx.fill(&ctx.text("badness")?)?;
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &badness)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let badness = ctx.fill(&ctx.text("badness")?)?;
        if badness.starts_with("loss") {
            let victim = ctx.number("victim_pid")? as i32;
            let resent = net_counter(victim, "Tcp", "RetransSegs").context("no RetransSegs")?;
            return Ok(Some(resent as f64 > ctx.number("resent_before")? + 5.0));
        }
        let shown = ctx.tool("ss", &["-N", &ctx.text("near_ns")?, "-tinH"])?;
        let rtt = shown.split_once(" rtt:").and_then(|(_, rest)| rest.split('/').next());
        let rtt: f64 = rtt.and_then(|text| text.parse().ok()).unwrap_or(0.0);
        ctx.set("rtt_ms", rtt);
        Ok(Some(rtt > 20.0))
    }
}
