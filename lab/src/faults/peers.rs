//! net.deaf_server, net.far_host, net.gone_host, net.dead_family: peers that say nothing, and that no process here is.
//!
//! The proof is the kernel's count of full receive buffers, or its neighbour table; who plays another host has no socket on
//! this one.

use super::stage::{load, name_switch, net_counter, pair, start, switch_on, wait_bound, words};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result};
use std::fs;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&DeafServer, &FarHost, &GoneHost, &DeadFamily];

/// The server that the load asks reads its socket no more, whose buffer fills with what others send all the time.
///
/// Parameters: `others_per_second`. The load is `udp-ping {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`];
/// `port`, `switch`; `server`, `server_pid`; `others`, `others_pid`.
struct DeafServer;

/// Longer than any look: it rests after the next datagram.
const DEAF_MS: &str = "600000";

impl Fault for DeafServer {
    fn name(&self) -> &'static str {
        "net.deaf_server"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let listen = format!("0.0.0.0:{port}");
        let words = ["udp-echo", &listen, "--switch", &switch, "--receive-buffer", "16384"];
        let mut spawn = load(ctx, &words);
        spawn.netns = Some(ctx.text("far_ns")?);
        let started = start(ctx, "server", &spawn)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", port)?;
        let to = format!("{}:{port}", ctx.text("far_ip")?);
        let rate = ctx.text("others_per_second")?;
        let mut spawn = load(ctx, &["udp-source", &to, "--bytes", "500", "--per-second", &rate]);
        spawn.netns = Some(ctx.text("near_ns")?);
        guards.push(start(ctx, "others", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let server = ctx.number("server_pid")? as i32;
        ctx.set("errors_before", net_counter(server, "Udp", "RcvbufErrors").unwrap_or(0));
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, DEAF_MS)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let server = ctx.number("server_pid")? as i32;
        let errors = net_counter(server, "Udp", "RcvbufErrors").context("no RcvbufErrors")? as f64;
        Ok(Some(errors > ctx.number("errors_before")? + 20.0))
    }
}

/// The load's peer is on another host (at the end of a wire, without a socket on this one), and takes its time.
///
/// Parameters: `answer_ms`. The load is `tcp-client {peer_ip}:{port} --keep` in `{near_ns}`. Variables: of [`pair`];
/// `peer_ip`, `port`, `switch`; `peer`, `peer_pid` (the process that plays the other host).
struct FarHost;

impl Fault for FarHost {
    fn name(&self) -> &'static str {
        "net.far_host"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let port = 2000 + ctx.draw.index(30_000);
        ctx.set("port", port);
        let (peer, far_if) = (wired(ctx)?, ctx.text("far_if")?);
        let far_ns = ctx.text("far_ns")?;
        let mut spawn = load(ctx, &["far-host", &far_if, "--switch", &switch]);
        spawn.netns = Some(far_ns);
        guards.push(start(ctx, "peer", &spawn)?.guard);
        ctx.set("peer_ip", peer);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("answer_ms")?)?);
        Ok(guards.into())
    }
}

/// The host at the other end of the load's wire is gone, or the gateway to it: nobody answers for its address any more.
///
/// Parameters: `hop` (`link`, `gateway`). The load is `tcp-client {peer_ip}:{port}` in `{near_ns}`. Variables: of [`pair`];
/// `peer_ip`, `port`, `neighbour` (the address that nobody answers for); `peer`, `peer_pid` (the process that plays the host).
struct GoneHost;

impl Fault for GoneHost {
    fn name(&self) -> &'static str {
        "net.gone_host"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let port = 2000 + ctx.draw.index(30_000);
        ctx.set("port", port);
        let neighbour = wired(ctx)?;
        let peer = match ctx.text("hop")?.as_str() {
            "gateway" => {
                let net = format!("172.{}.{}", 16 + ctx.draw.index(16), ctx.draw.index(250));
                let (near_ns, to) = (ctx.text("near_ns")?, format!("{net}.0/24"));
                ctx.tool("ip", &["-n", &near_ns, "route", "add", &to, "via", &neighbour])?;
                format!("{net}.{}", 1 + ctx.draw.index(250))
            }
            _ => neighbour.clone(),
        };
        ctx.set("peer_ip", peer);
        ctx.set("neighbour", neighbour);
        let mut spawn = load(ctx, &["far-host", &ctx.text("far_if")?]);
        spawn.netns = Some(ctx.text("far_ns")?);
        guards.push(start(ctx, "peer", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let neighbour = ctx.text("neighbour")?;
        let (near_ns, near_if) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let known = known_neighbour(ctx, &neighbour)?;
        let words = ["ip".to_string()].into_iter().chain(known).collect();
        let mut guards = Guards::new();
        guards.push(ctx.journal.guard(Undo::Command { words })?);
        ctx.tool("ip", &["-n", &near_ns, "neigh", "del", &neighbour, "dev", &near_if])?;
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (near_ns, neighbour) = (ctx.text("near_ns")?, ctx.text("neighbour")?);
        let shown = ctx.tool("ip", &["-n", &near_ns, "neigh", "show", &neighbour])?;
        Ok(Some(shown.contains("FAILED") || shown.contains("INCOMPLETE")))
    }
}

/// The name of the load's peer gets an address of IPv6, which nobody answers for, and the load tries it first.
///
/// Parameters: `answer_ms`. The load is `families.py {switch} {dead_ip} {peer_ip} {port} ...` in `{near_ns}`. Variables: of [`pair`]; `peer_ip`,
/// `dead_ip`, `port`, `switch`; `peer`, `peer_pid` (the process that plays the other host).
struct DeadFamily;

impl Fault for DeadFamily {
    fn name(&self) -> &'static str {
        "net.dead_family"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        name_switch(ctx)?;
        let port = 2000 + ctx.draw.index(30_000);
        ctx.set("port", port);
        let (peer, far_if) = (wired(ctx)?, ctx.text("far_if")?);
        // It answers by IPv4 alone, and late enough that somebody waits for it.
        let pace = ctx.directory("etc")?.join("pace");
        fs::write(&pace, ctx.text("answer_ms")?)?;
        let mut spawn = load(ctx, &["far-host", &far_if, "--switch", &pace.to_string_lossy()]);
        spawn.netns = Some(ctx.text("far_ns")?);
        guards.push(start(ctx, "peer", &spawn)?.guard);
        ctx.set("peer_ip", peer);
        let (near_ns, near_if) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let net = format!("fd00:{:x}", 1 + ctx.draw.index(60_000));
        let own = format!("{net}::1/64");
        ctx.tool("ip", &["-n", &near_ns, "addr", "add", &own, "dev", &near_if, "nodad"])?;
        let dead = format!("{net}::{:x}", 2 + ctx.draw.index(60_000));
        ctx.tool("ip", &known_neighbour(ctx, &dead)?)?;
        ctx.set("dead_ip", dead);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "1")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let to = format!("[{}]", ctx.text("dead_ip")?);
        let near_ns = ctx.text("near_ns")?;
        let shown = ctx.tool("ss", &["-N", &near_ns, "-tnH", "state", "syn-sent", "dst", &to])?;
        Ok(Some(!shown.is_empty()))
    }
}

/// An address at the far end of the wire that nobody here has: the kernel there does not answer for it, and the one here is
/// told whose it is, so that it need not ask.
pub(super) fn wired(ctx: &mut Ctx) -> Result<String> {
    let net = ctx.text("near_ip")?;
    let net = net.rsplit_once('.').context("an address")?.0.to_string();
    let peer = format!("{net}.{}", 3 + ctx.draw.index(250));
    ctx.tool("ip", &known_neighbour(ctx, &peer)?)?;
    Ok(peer)
}

/// Arguments of `ip` that tell the near end that an address is at the far one. Its hardware address is none that the far end has, as on a
/// wire with others: the kernel there leaves what comes in for it to whoever plays that host.
fn known_neighbour(ctx: &Ctx, address: &str) -> Result<Vec<String>> {
    const ANOTHER: &str = "02:00:5e:10:00:01";
    let (near_ns, near_if) = (ctx.text("near_ns")?, ctx.text("near_if")?);
    let entry =
        ["neigh", "replace", address, "lladdr", ANOTHER, "dev", &near_if, "nud", "permanent"];
    Ok(words(&[&["-n", near_ns.as_str()][..], &entry].concat()))
}
