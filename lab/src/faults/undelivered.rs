//! net.narrow_link, net.narrow_underlay, net.not_forwarding, net.no_way_back, net.silent_host: packets that do not arrive, and the connection does
//! not hear of it.
//!
//! The first four have a router between the load and its server, in a namespace of its own; the proof is its own count, or the server's. Whoever plays
//! the fifth, another host, has no socket on this one: that it hears nothing is its switch.

use super::peers::wired;
use super::stage::{load, name_switch, netns, pair, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&NarrowLink, &NarrowUnderlay, &NotForwarding, &NoWayBack, &SilentHost];

/// `ip` with words in one text.
fn ip(ctx: &Ctx, words: &str) -> Result<()> {
    ctx.tool("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
}

/// A server behind a router. Variables: of [`router`] and [`serve`].
fn routed(ctx: &mut Ctx) -> Result<Guards> {
    let mut guards = router(ctx)?;
    let address = ctx.text("behind_ip")?;
    guards.append(serve(ctx, &address)?);
    Ok(guards)
}

/// The near namespace, the far one, which is the router, and one behind it. Variables: of [`pair`]; `behind_ip`, `behind_ns`, `out_if` (of
/// the router, to what is behind it).
fn router(ctx: &mut Ctx) -> Result<Guards> {
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
    ctx.set("behind_ip", format!("{net}.2"));
    ctx.set("out_if", out);
    Ok(guards)
}

/// A server in the namespace behind the router. Variables: `port`; `server`, `server_pid`.
fn serve(ctx: &mut Ctx, address: &str) -> Result<Guards> {
    let mut guards = Guards::new();
    let port = 2000 + ctx.draw.index(30_000) as u16;
    let mut server = load(ctx, &["tcp-server", &format!("{address}:{port}"), "--parallel"]);
    server.netns = Some(ctx.text("behind_ns")?);
    let started = start(ctx, "server", &server)?;
    guards.push(started.guard);
    wait_bound(ctx, started.pid, "tcp", port)?;
    ctx.set("port", port);
    Ok(guards)
}

/// The router says nothing to those whose packets it drops.
fn silence_router(ctx: &Ctx) -> Result<()> {
    let far = ctx.text("far_ns")?;
    ip(ctx, &format!("netns exec {far} iptables -A OUTPUT -p icmp -j DROP"))
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
        silence_router(ctx)?;
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

/// The router's link no longer takes what a tunnel's packets are with its headers, and what it says of that never arrives.
///
/// Parameters: `id`, `mtu`. The load is `tcp-client {inner_ip}:{port} --bytes ...` in `{near_ns}`. Variables: of [`router`]; of [`serve`]; `inner_ip`,
/// `tunnel`.
struct NarrowUnderlay;

/// So that what a tunnel adds to full packets of Ethernet fits.
const ROOMY: u32 = 1_600;
/// Of the tunnel's own interface.
const INNER: u32 = 1_500;

impl NarrowUnderlay {
    fn tunnel(ctx: &Ctx, ns: &str, (own, other): (&str, &str), address: &str) -> Result<()> {
        let (tunnel, id) = (ctx.text("tunnel")?, ctx.text("id")?);
        // Not cut into pieces on the way: so is what most networks take (DF).
        let ends = format!("id {id} dstport 4789 local {own} remote {other} df set");
        ip(ctx, &format!("-n {ns} link add {tunnel} mtu {INNER} type vxlan {ends}"))?;
        ip(ctx, &format!("-n {ns} addr add {address}/24 dev {tunnel}"))?;
        ip(ctx, &format!("-n {ns} link set {tunnel} up"))
    }
}

impl Fault for NarrowUnderlay {
    fn name(&self) -> &'static str {
        "net.narrow_underlay"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = router(ctx)?;
        let [near, far, behind] = ["near_ns", "far_ns", "behind_ns"].map(|name| ctx.text(name));
        let (near, far, behind) = (near?, far?, behind?);
        let out = [&near, &far].into_iter().zip(["near_if", "far_if"]);
        for (ns, name) in out.chain([(&far, "out_if")]) {
            let interface = ctx.text(name)?;
            ip(ctx, &format!("-n {ns} link set {interface} mtu {ROOMY}"))?;
        }
        ip(ctx, &format!("-n {behind} link set eth0 mtu {ROOMY}"))?;
        let net = format!("192.168.{}", ctx.draw.index(250));
        let tunnel = format!("vx{}", ctx.draw.index(99));
        ctx.set("tunnel", tunnel);
        let (own, other) = (ctx.text("near_ip")?, ctx.text("behind_ip")?);
        Self::tunnel(ctx, &near, (&own, &other), &format!("{net}.1"))?;
        Self::tunnel(ctx, &behind, (&other, &own), &format!("{net}.2"))?;
        let inner = format!("{net}.2");
        guards.append(serve(ctx, &inner)?);
        ctx.set("inner_ip", inner);
        silence_router(ctx)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        NarrowLink.inject(ctx)
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        NarrowLink.bites(ctx)
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
