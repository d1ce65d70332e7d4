//! net.narrow_link, net.not_forwarding, net.no_way_back, net.silent_host: packets that do not arrive, and the connection does not hear of it.
//!
//! The first three have a router between the load and its server, in a namespace of its own; the proof is its own count, or the server's. Whoever plays
//! the fourth, another host, has no socket on this one: that it hears nothing is its switch.

use super::peers::wired;
use super::stage::{load, name_switch, netns, pair, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&NarrowLink, &NotForwarding, &NoWayBack, &SilentHost];

/// `ip` with words in one text.
fn ip(ctx: &Ctx, words: &str) -> Result<()> {
    ctx.tool("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
}

/// A server behind a router: the near namespace, the far one, which is the router, and one behind it. Variables: of [`pair`]; `behind_ip`,
/// `behind_ns`, `port`, `out_if` (of the router, to the server); `server`, `server_pid`.
fn routed(ctx: &mut Ctx) -> Result<Guards> {
    let mut guards = pair(ctx)?;
    let (behind, guard) = netns(ctx)?;
    guards.push(guard);
    let (near, far) = (ctx.text("near_ns")?, ctx.text("far_ns")?);
    let net = format!("172.{}.{}", 16 + ctx.draw.index(12), ctx.draw.index(250));
    let out = format!("lan{}", ctx.draw.index(9));
    ip(ctx, &format!("-n {far} link add {out} type veth peer name eth0 netns {behind}"))?;
    for (ns, interface, last) in [(&far, &*out, 1), (&behind, "eth0", 2)] {
        ip(ctx, &format!("-n {ns} addr add {net}.{last}/24 dev {interface}"))?;
        ip(ctx, &format!("-n {ns} link set {interface} up"))?;
    }
    ip(ctx, &format!("-n {near} route add {net}.0/24 via {}", ctx.text("far_ip")?))?;
    ip(ctx, &format!("-n {behind} route add {}/32 via {net}.1", ctx.text("near_ip")?))?;
    ctx.set("behind_ns", &behind);
    set(ctx, &far, "ip_forward", 1)?;
    let port = 2000 + ctx.draw.index(30_000) as u16;
    let address = format!("{net}.2");
    let mut server = load(ctx, &["tcp-server", &format!("{address}:{port}"), "--parallel"]);
    server.netns = Some(behind);
    let started = start(ctx, "server", &server)?;
    guards.push(started.guard);
    wait_bound(ctx, started.pid, "tcp", port)?;
    ctx.set("behind_ip", address);
    ctx.set("port", port);
    ctx.set("out_if", out);
    Ok(guards)
}

/// Sets something of IPv4 in a namespace, which goes with it.
fn set(ctx: &Ctx, ns: &str, name: &str, value: u32) -> Result<()> {
    let words = format!("echo {value} >/proc/sys/net/ipv4/{name}");
    ctx.tool("ip", &["netns", "exec", ns, "sh", "-c", &words]).map(drop)
}

/// A count of IPv4 in the router's namespace, `far_ns`, or the server's, `behind_ns`.
fn counted(ctx: &Ctx, ns: &str, name: &str) -> Result<u64> {
    let shown = ctx.tool("ip", &["netns", "exec", &ctx.text(ns)?, "cat", "/proc/net/snmp"])?;
    let mut lines = shown.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let mut next = || lines.next().map(|line| line.split(' ').collect::<Vec<_>>());
    let (names, values) = (next().context("no names")?, next().context("no values")?);
    let at = names.iter().position(|known| *known == name).context("no such counter")?;
    values[at].parse().context("a count")
}

/// The router's link to the server takes only short packets, and what it says of that never arrives.
///
/// Parameters: `mtu`. The load is `tcp-client {behind_ip}:{port} --bytes ...` in `{near_ns}`. Variables: of [`routed`].
struct NarrowLink;

impl Fault for NarrowLink {
    fn name(&self) -> &'static str {
        "net.narrow_link"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let guards = routed(ctx)?;
        let far = ctx.text("far_ns")?;
        let rule = "iptables -A OUTPUT -p icmp -j DROP";
        ip(ctx, &format!("netns exec {far} {rule}"))?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (far, out, mtu) = (ctx.text("far_ns")?, ctx.text("out_if")?, ctx.text("mtu")?);
        ip(ctx, &format!("-n {far} link set {out} mtu {mtu}"))?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(counted(ctx, "far_ns", "FragFails")? > 0))
    }
}

/// The router passes nothing on any more.
///
/// The load is `tcp-client {behind_ip}:{port}` in `{near_ns}`. Variables: of [`routed`].
struct NotForwarding;

impl Fault for NotForwarding {
    fn name(&self) -> &'static str {
        "net.not_forwarding"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        routed(ctx)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (far, came_by) = (ctx.text("far_ns")?, ctx.text("far_if")?);
        set(ctx, &far, &format!("conf/{came_by}/forwarding"), 0)?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(counted(ctx, "far_ns", "InAddrErrors")? > 0))
    }
}

/// The server loses its route to the client, or has one that prohibits it.
///
/// Parameters: `route` (`gone`, `prohibit`, `unreachable`, `blackhole`). The load is `tcp-client {behind_ip}:{port}` in `{near_ns}`. Variables: of
/// [`routed`].
struct NoWayBack;

impl Fault for NoWayBack {
    fn name(&self) -> &'static str {
        "net.no_way_back"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        routed(ctx)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (behind, client) = (ctx.text("behind_ns")?, ctx.text("near_ip")?);
        match &*ctx.text("route")? {
            "gone" => ip(ctx, &format!("-n {behind} route del {client}/32"))?,
            kind => ip(ctx, &format!("-n {behind} route replace {kind} {client}/32"))?,
        }
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(counted(ctx, "behind_ns", "OutNoRoutes")? > 0))
    }
}

/// The load's peer is on another host, which is gone without a word while its connections stand.
///
/// The load is `tcp-client {peer_ip}:{port} --keep` in `{near_ns}`. Variables: of [`pair`]; `peer_ip`, `port`; `peer`, `peer_pid` (the process
/// that plays the other host).
struct SilentHost;

impl Fault for SilentHost {
    fn name(&self) -> &'static str {
        "net.silent_host"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let deaf = name_switch(ctx)?.to_string_lossy().into_owned();
        let port = 2000 + ctx.draw.index(30_000);
        ctx.set("port", port);
        let (peer, far_if) = (wired(ctx)?, ctx.text("far_if")?);
        let mut spawn = load(ctx, &["far-host", &far_if, "--deaf", &deaf]);
        spawn.netns = Some(ctx.text("far_ns")?);
        guards.push(start(ctx, "peer", &spawn)?.guard);
        ctx.set("peer_ip", peer);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "")?);
        Ok(guards.into())
    }
}
