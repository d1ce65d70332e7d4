//! net.ports, net.overlay, net.overlay_unknown, net.overlay_gone, net.neighbour_entry, net.duplicate, net.promiscuous: ports, tunnels, addresses and
//! interfaces that are set or used so that nothing can come of it, or more than anybody needs.
//!
//! The proof is the kernel's list of connections, its neighbour table, its mark on the address, its count of who has an interface take all.

use super::stage::{load, load_file, pair, start, tcp_server};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Result, bail};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&Ports, &Overlay, &OverlayUnknown, &OverlayGone, &NeighbourEntry, &Duplicate, &Promiscuous];

/// Another uses up the ports from which the load's server can be connected to.
///
/// Parameters: `ports`; `kind` (`held`: connections that stand; `ended`: in TIME-WAIT). The load is `connect_ask.py {far_ip}
/// {port} ...` in `{near_ns}`. Variables: of [`pair`]; `port`, `first`, `last` (of the range); `holder`, `holder_pid`.
struct Ports;

impl Ports {
    /// Connections to the server, in whatever state.
    fn count(ctx: &Ctx) -> Result<f64> {
        let to = format!("{}:{}", ctx.text("far_ip")?, ctx.text("port")?);
        let shown = ctx.tool("ss", &["-N", &ctx.text("near_ns")?, "-tanH", "dst", &to])?;
        Ok(shown.lines().count() as f64)
    }
}

impl Fault for Ports {
    fn name(&self) -> &'static str {
        "net.ports"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        let first = 33_000 + ctx.draw.index(20_000);
        let last = first + ctx.number("ports")? as usize - 1;
        let set = format!("echo {first} {last} >/proc/sys/net/ipv4/ip_local_port_range");
        ctx.tool("ip", &["netns", "exec", &ctx.text("near_ns")?, "sh", "-c", &set])?;
        ctx.set("first", first);
        ctx.set("last", last);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let to = format!("{}:{}", ctx.text("far_ip")?, ctx.text("port")?);
        let ports = ctx.text("ports")?;
        let held = ["tcp-client", &to, "--keep", "--threads", &ports, "--every-ms", "1000"];
        let ended = ["tcp-client", &to, "--threads", "8", "--every-ms", "1"];
        let held = if ctx.text("kind")? == "held" { &held[..] } else { &ended[..] };
        let mut spawn = load(ctx, held);
        spawn.netns = Some(ctx.text("near_ns")?);
        let mut guards = Guards::new();
        guards.push(start(ctx, "holder", &spawn)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(Self::count(ctx)? >= ctx.number("ports")?))
    }
}

/// The near end of the tunnel that the load's server is behind is made anew with another port than the far one.
///
/// Parameters: `id`. The load is `tcp-client {behind_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`, `tunnel`,
/// `behind_ip`.
struct Overlay;

/// The standard's, and Linux's own.
const PORTS: [u16; 2] = [4_789, 8_472];

impl Overlay {
    /// A server, and what a tunnel to it is called: variables `port`, `tunnel`, `behind_ip`.
    fn named(ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        let behind = format!("192.168.{}", ctx.draw.index(250));
        let tunnel = format!("vx{}", ctx.draw.index(99));
        ctx.set("behind_ip", format!("{behind}.2"));
        ctx.set("behind", behind);
        ctx.set("tunnel", tunnel);
        Ok(guards)
    }

    /// Whether the near end's neighbour behind the tunnel does not answer.
    fn is_silent(ctx: &Ctx) -> Result<bool> {
        let (ns, behind) = (ctx.text("near_ns")?, ctx.text("behind_ip")?);
        let shown = ctx.tool("ip", &["-n", &ns, "neigh", "show", &behind])?;
        Ok(shown.contains("FAILED") || shown.contains("INCOMPLETE"))
    }

    fn tunnel(ctx: &Ctx, side: &str, other: &str, port: u16, last: u8) -> Result<()> {
        let (ns, id) = (ctx.text(&format!("{side}_ns"))?, ctx.text("id")?);
        let local = ctx.text(&format!("{side}_ip"))?;
        let (tunnel, net) = (ctx.text("tunnel")?, ctx.text("behind")?);
        let port = port.to_string();
        let ends = ["id", &id, "local", &local, "dstport", &port];
        // Without another end the table is to say where frames go.
        let remote = match other {
            "" => vec!["nolearning".to_string()],
            other => vec!["remote".to_string(), ctx.text(&format!("{other}_ip"))?],
        };
        let remote: Vec<&str> = remote.iter().map(String::as_str).collect();
        let add = ["-n", &ns, "link", "add", &tunnel, "type", "vxlan"];
        ctx.tool("ip", &[&add[..], &ends, &remote].concat())?;
        let address = format!("{net}.{last}/24");
        ctx.tool("ip", &["-n", &ns, "addr", "add", &address, "dev", &tunnel])?;
        ctx.tool("ip", &["-n", &ns, "link", "set", &tunnel, "up"])?;
        Ok(())
    }
}

impl Fault for Overlay {
    fn name(&self) -> &'static str {
        "net.overlay"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let guards = Self::named(ctx)?;
        let right = ctx.draw.index(2);
        ctx.set("wrong_port", PORTS[1 - right]);
        Self::tunnel(ctx, "near", "far", PORTS[right], 1)?;
        Self::tunnel(ctx, "far", "near", PORTS[right], 2)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (ns, tunnel) = (ctx.text("near_ns")?, ctx.text("tunnel")?);
        ctx.tool("ip", &["-n", &ns, "link", "del", &tunnel])?;
        Self::tunnel(ctx, "near", "far", ctx.number("wrong_port")? as u16, 1)?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Self::is_silent(ctx).map(Some)
    }
}

/// The near end of the tunnel that the load's server is behind loses the entry of its forwarding table that says where to send.
///
/// Parameters: `id`. The load is `tcp-client {behind_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`, `tunnel`, `behind_ip`.
struct OverlayUnknown;

impl OverlayUnknown {
    /// Adds the entry for every frame, or takes it away.
    fn entry(ctx: &Ctx, verb: &str) -> Result<()> {
        let (ns, tunnel, to) = (ctx.text("near_ns")?, ctx.text("tunnel")?, ctx.text("far_ip")?);
        let all = "00:00:00:00:00:00";
        ctx.tool("bridge", &["-n", &ns, "fdb", verb, all, "dev", &tunnel, "dst", &to]).map(drop)
    }
}

impl Fault for OverlayUnknown {
    fn name(&self) -> &'static str {
        "net.overlay_unknown"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let guards = Overlay::named(ctx)?;
        Overlay::tunnel(ctx, "near", "", PORTS[0], 1)?;
        Overlay::tunnel(ctx, "far", "near", PORTS[0], 2)?;
        Self::entry(ctx, "append")?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        Self::entry(ctx, "del")?;
        let (ns, tunnel) = (ctx.text("near_ns")?, ctx.text("tunnel")?);
        ctx.tool("ip", &["-n", &ns, "neigh", "flush", "dev", &tunnel])?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Overlay::is_silent(ctx).map(Some)
    }
}

/// The host that the near end of the tunnel sends to is gone: nobody on the wire answers for its address any more, and what it sends reaches
/// nobody. Its address stays, or its own kernel, which is this one, would drop what it sends and say why, as a host that is gone does not.
///
/// Parameters: `id`; `by` (`remote`: the tunnel has one other end; `entry`: its forwarding table says where to send). The load is `tcp-client
/// {behind_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`, `tunnel`, `behind_ip`.
struct OverlayGone;

impl Fault for OverlayGone {
    fn name(&self) -> &'static str {
        "net.overlay_gone"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let guards = Overlay::named(ctx)?;
        match &*ctx.text("by")? {
            "remote" => Overlay::tunnel(ctx, "near", "far", PORTS[0], 1)?,
            "entry" => {
                Overlay::tunnel(ctx, "near", "", PORTS[0], 1)?;
                OverlayUnknown::entry(ctx, "append")?;
            }
            other => bail!("no way to say where a tunnel sends: {other}"),
        }
        Overlay::tunnel(ctx, "far", "near", PORTS[0], 2)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (near, near_if) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let (far, far_if) = (ctx.text("far_ns")?, ctx.text("far_if")?);
        ctx.tool("ip", &["-n", &far, "link", "set", &far_if, "arp", "off"])?;
        ctx.tool("ip", &["-n", &near, "neigh", "flush", "dev", &near_if])?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, to) = (ctx.text("near_ns")?, ctx.text("far_ip")?);
        let shown = ctx.tool("ip", &["-n", &ns, "neigh", "show", &to])?;
        Ok(Some(shown.contains("FAILED") || shown.contains("INCOMPLETE")))
    }
}

/// The near end's neighbour entry of the far one is made permanent, with a hardware address that nobody has.
///
/// The load is `tcp-client {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`, `wrong`.
struct NeighbourEntry;

impl Fault for NeighbourEntry {
    fn name(&self) -> &'static str {
        "net.neighbour_entry"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        let wrong = format!("0a:00:00:00:{:02x}:{:02x}", ctx.draw.index(256), ctx.draw.index(256));
        ctx.set("wrong", wrong);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let (to, wrong) = (ctx.text("far_ip")?, ctx.text("wrong")?);
        let entry = ["neigh", "replace", &to, "lladdr", &wrong, "dev", &interface];
        ctx.tool("ip", &[&["-n", &ns][..], &entry, &["nud", "permanent"]].concat())?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, to) = (ctx.text("near_ns")?, ctx.text("far_ip")?);
        let shown = ctx.tool("ip", &["-n", &ns, "neigh", "show", &to])?;
        Ok(Some(shown.contains(&ctx.text("wrong")?) && shown.contains("PERMANENT")))
    }
}

/// Both ends of a wire are given the same address of IPv6, and the near one, which comes second, may not use it.
///
/// The load is `bind_wait.py {address} {port} ...` in `{near_ns}`. Variables: of [`pair`]; `address`, `port`.
struct Duplicate;

impl Duplicate {
    fn give(ctx: &Ctx, side: &str) -> Result<()> {
        let (ns, interface) = (ctx.text(&format!("{side}_ns"))?, ctx.text(&format!("{side}_if"))?);
        let address = format!("{}/64", ctx.text("address")?);
        ctx.tool("ip", &["-n", &ns, "addr", "add", &address, "dev", &interface])?;
        Ok(())
    }

    fn take(ctx: &Ctx, side: &str) -> Result<()> {
        let (ns, interface) = (ctx.text(&format!("{side}_ns"))?, ctx.text(&format!("{side}_if"))?);
        let address = format!("{}/64", ctx.text("address")?);
        ctx.tool("ip", &["-n", &ns, "addr", "del", &address, "dev", &interface])?;
        Ok(())
    }
}

impl Fault for Duplicate {
    fn name(&self) -> &'static str {
        "net.duplicate"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let guards = pair(ctx)?;
        let address = format!("fd{:02x}::{:x}", ctx.draw.index(200), 2 + ctx.draw.index(60_000));
        ctx.set("address", address);
        let port = 2000 + ctx.draw.index(30_000);
        ctx.set("port", port);
        Self::give(ctx, "near")?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        Self::take(ctx, "near")?;
        Self::give(ctx, "far")?;
        // Until the far end's is its own, it does not answer for it.
        ctx.sleep(std::time::Duration::from_millis(2_500))?;
        Self::give(ctx, "near")?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let ns = ctx.text("near_ns")?;
        let shown = ctx.tool("ip", &["-n", &ns, "-6", "addr", "show", "dadfailed"])?;
        Ok(Some(shown.contains(&ctx.text("address")?)))
    }
}

/// A process captures all that the load's interface sees, also what is for others.
///
/// The load is `tcp-client {far_ip}:{port} ...` in `{near_ns}`. Variables: of [`pair`]; `port`; `capture`, `capture_pid`.
struct Promiscuous;

impl Fault for Promiscuous {
    fn name(&self) -> &'static str {
        "net.promiscuous"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut capture = load_file(ctx, "capture.py", &[&ctx.text("near_if")?])?;
        capture.netns = Some(ctx.text("near_ns")?);
        let mut guards = Guards::new();
        guards.push(start(ctx, "capture", &capture)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let shown = ctx.tool("ip", &["-n", &ns, "-d", "link", "show", "dev", &interface])?;
        Ok(Some(shown.contains("promiscuity 1 ")))
    }
}
