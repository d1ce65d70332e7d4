//! net.*: what has no more to give, however well it works: a link that is full, a bridge with all its ports, a listener's SYN queue, TCP's memory.
//!
//! The proof is the shaper's own count of bytes, the ports that the kernel lists, or its counters of TCP. Nothing here is broken, and nothing is dropped on
//! purpose: that is dropped.rs.

use super::stage::{load, load_file, net_counter, netns, pair, start, tcp_sink, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::load::switch;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&LineRate, &BridgeFull, &SynQueue, &SynQuarter, &SocketMemory];

/// Bytes of a full frame as a shaper counts it, and of payload in it with TCP's timestamps.
const FRAME: f64 = 1514.0;
const PAYLOAD: f64 = 1448.0;
/// More than the load sends.
const HEALTHY_MBIT: f64 = 900.0;

/// The shaper of the load's interface lets less through than the load has to send.
///
/// Parameters: `rate_mbit`. The load is `tcp-source {far_ip}:{port} --bytes-per-second ...` in `{near_ns}`. Variables: of [`pair`]; `port`;
/// `rate_bytes`, `payload_bytes` (what payload can be of it).
struct LineRate;

impl LineRate {
    fn shape(ctx: &Ctx, verb: &str, mbit: f64) -> Result<()> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let rate = format!("{:.0}kbit", mbit * 1e3);
        let head = ["-n", &ns, "qdisc", verb, "dev", &interface, "root", "handle", "7:"];
        let tbf = ["tbf", "rate", &rate, "burst", "128kb", "limit", "512kb"];
        ctx.tool("tc", &[&head[..], &tbf].concat()).map(drop)
    }

    /// Bytes that have left the shaper.
    fn sent(ctx: &Ctx) -> Result<f64> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let shown = ctx.tool("tc", &["-s", "-n", &ns, "qdisc", "show", "dev", &interface])?;
        let bytes = shown.split_once("Sent ").and_then(|(_, rest)| rest.split(' ').next());
        bytes.context("no count of bytes")?.parse().context("bytes sent")
    }
}

impl Fault for LineRate {
    fn name(&self) -> &'static str {
        "net.line_rate"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        Self::shape(ctx, "add", HEALTHY_MBIT)?;
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        guards.push(tcp_sink(ctx, port)?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mbit = ctx.number("rate_mbit")?;
        let bytes = mbit * 1e6 / 8.0;
        ctx.set("rate_bytes", format!("{bytes:.0}"));
        ctx.set("payload_bytes", format!("{:.0}", bytes * PAYLOAD / FRAME));
        // Nothing to take back: the interface goes with its namespace.
        Self::shape(ctx, "change", mbit)?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (before, from) = (Self::sent(ctx)?, switch::now());
        ctx.sleep(Duration::from_millis(500))?;
        let rate = (Self::sent(ctx)? - before) / (switch::now() - from);
        Ok(Some(rate > 0.97 * ctx.number("rate_bytes")?))
    }
}

/// A bridge has all the ports that it can have but the one that the load attaches and takes away, and then that one is taken too.
///
/// The load is `attach_port.py {port_if} {bridge} ...` in `{bridge_ns}`. Variables: `bridge_ns`, `bridge`, `port_if`.
struct BridgeFull;

/// Numbers of ports are 1 to 1,023.
const PORTS: usize = 1023;

impl BridgeFull {
    /// Interfaces that are ports.
    fn ports(ctx: &Ctx) -> Result<usize> {
        let (ns, bridge) = (ctx.text("bridge_ns")?, ctx.text("bridge")?);
        let shown = ctx.tool("ip", &["-n", &ns, "-o", "link", "show", "master", &bridge])?;
        Ok(shown.lines().count())
    }
}

impl Fault for BridgeFull {
    fn name(&self) -> &'static str {
        "net.bridge_full"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let (ns, guard) = netns(ctx)?;
        guards.push(guard);
        let bridge = format!("br{}", ctx.draw.index(90));
        let port = format!("guest{}", ctx.draw.index(90));
        let mut words = format!("link add {bridge} type bridge\n");
        words += &format!("link add {port} type veth peer name late\n");
        // Both ends, which are down and so are no circle.
        for at in 0..PORTS / 2 {
            words += &format!("link add tap{at} master {bridge} type veth peer name end{at}\n");
            words += &format!("link set end{at} master {bridge}\n");
        }
        let batch = ctx.scratch.join("ports");
        fs::write(&batch, words)?;
        ctx.tool("ip", &["-n", &ns, "-batch", &batch.to_string_lossy()])?;
        ctx.set("bridge_ns", ns);
        ctx.set("bridge", bridge);
        ctx.set("port_if", port);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (ns, bridge) = (ctx.text("bridge_ns")?, ctx.text("bridge")?);
        // The load has the last port half of the time. Nothing to take back: all goes with the namespace.
        ctx.wait_for("the last port", Duration::from_secs(10), || {
            ctx.tool("ip", &["-n", &ns, "link", "set", "late", "master", &bridge]).is_ok()
        })?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(Self::ports(ctx)? == PORTS))
    }
}

/// Requests that are never acknowledged fill the SYN queue of the load's server, in whose namespace cookies are off.
///
/// Parameters: `backlog`, `requests_per_second`. The load is `tcp-client {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`; `server`,
/// `server_pid`; `flood`, `flood_pid`.
struct SynQueue;

/// Addresses that nobody here has (RFC 2544).
const NOBODY: &str = "198.18.0.0/16";

/// A server in a namespace without cookies, which has to be reached, and the two limits of its SYN queue.
fn syn_server(ctx: &mut Ctx, backlog: &str, of_namespace: &str) -> Result<Guards> {
    let mut guards = pair(ctx)?;
    let (far, near_ip) = (ctx.text("far_ns")?, ctx.text("near_ip")?);
    ctx.tool("ip", &["-n", &far, "route", "add", NOBODY, "via", &near_ip])?;
    // Of whom it has been connected with it is to know nothing: the last quarter is for them.
    let set = format!(
        "cd /proc/sys/net/ipv4 && echo 0 >tcp_syncookies && echo 1 >tcp_no_metrics_save && echo {of_namespace} >tcp_max_syn_backlog"
    );
    ctx.tool("ip", &["netns", "exec", &far, "sh", "-c", &set])?;
    let port = 2000 + ctx.draw.index(30_000) as u16;
    ctx.set("port", port);
    let listen = format!("{}:{port}", ctx.text("far_ip")?);
    let mut server = load(ctx, &["tcp-server", &listen, "--parallel", "--backlog", backlog]);
    server.netns = Some(far);
    let started = start(ctx, "server", &server)?;
    guards.push(started.guard);
    wait_bound(ctx, started.pid, "tcp", port)?;
    Ok(guards)
}

/// Requests that are never acknowledged.
fn syn_flood(ctx: &mut Ctx) -> Result<Injected> {
    let (far_ip, port) = (ctx.text("far_ip")?, ctx.text("port")?);
    let rate = ctx.text("requests_per_second")?;
    let mut flood = load_file(ctx, "half_connect.py", &[&far_ip, &port, &rate])?;
    flood.netns = Some(ctx.text("near_ns")?);
    let mut guards = Guards::new();
    guards.push(start(ctx, "flood", &flood)?.guard);
    Ok(guards.into())
}

/// A counter of the server's namespace since that was made.
fn counted(ctx: &Ctx, name: &str) -> Result<f64> {
    let server = ctx.number("server_pid")? as i32;
    let count = net_counter(server, "TcpExt", name);
    Ok(count.with_context(|| format!("no {name}"))? as f64)
}

/// The same where the limit of the namespace is the lower one, whose last quarter is kept for hosts that are known.
///
/// Parameters: `requests_max` (that limit), `requests_per_second`. The load and the variables are those of [`SynQueue`].
struct SynQuarter;

impl Fault for SynQuarter {
    fn name(&self) -> &'static str {
        "net.syn_quarter"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let limit = ctx.text("requests_max")?;
        syn_server(ctx, "4096", &limit)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("dropped_before", counted(ctx, "ListenDrops")?);
        syn_flood(ctx)
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let has_dropped = counted(ctx, "ListenDrops")? > ctx.number("dropped_before")? + 20.0;
        Ok(Some(has_dropped && counted(ctx, "TCPReqQFullDrop")? == 0.0))
    }
}

impl Fault for SynQueue {
    fn name(&self) -> &'static str {
        "net.syn_queue"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let backlog = ctx.text("backlog")?;
        // The other limit, of which the last quarter is for whom the kernel knows, is to be far.
        syn_server(ctx, &backlog, "4096")
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("ignored_before", counted(ctx, "TCPReqQFullDrop")?);
        syn_flood(ctx)
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(counted(ctx, "TCPReqQFullDrop")? > ctx.number("ignored_before")? + 20.0))
    }
}

/// All TCP sockets together use more memory than they may: another leaves data unread in hundreds of them, and the limit is set below what is used.
///
/// Parameters: `connections`, `unread_bytes` (of each). The load is `tcp-source {far_ip}:{port} --bytes-per-second ...` in `{near_ns}`. The limit is the
/// whole host's: while it stands, every connection of the host is as slow. Variables: of [`pair`]; `port`; `hoard`, `hoard_pid`; `used_pages`.
struct SocketMemory;

const TCP_MEMORY: &str = "/proc/sys/net/ipv4/tcp_mem";

impl SocketMemory {
    /// Pages that all TCP sockets use.
    fn used() -> Result<u64> {
        let text = fs::read_to_string("/proc/net/sockstat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("TCP: "));
        let used = line.and_then(|line| line.split_once("mem ")?.1.split_whitespace().next());
        used.context("no memory of TCP in sockstat")?.parse().context("pages")
    }

    /// The third value of the limit.
    fn limit() -> Result<u64> {
        let text = fs::read_to_string(TCP_MEMORY)?;
        text.split_whitespace().nth(2).context("three values")?.parse().context("pages")
    }
}

impl Fault for SocketMemory {
    fn name(&self) -> &'static str {
        "net.socket_memory"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        guards.push(tcp_sink(ctx, port)?);
        // The hoard listens there once it has all that it is to have.
        let (ready, ns) = (1_000 + ctx.draw.index(900) as u16, ctx.text("far_ns")?);
        let (connections, bytes) = (ctx.text("connections")?, ctx.text("unread_bytes")?);
        let words = [connections.as_str(), &bytes, &ready.to_string()];
        let mut hoard = load_file(ctx, "unread.py", &words)?;
        hoard.netns = Some(ns);
        let started = start(ctx, "hoard", &hoard)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "tcp", ready)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let used = Self::used()?;
        ctx.set("used_pages", used);
        let marks = format!("{} {} {}", used / 4, used / 3, used / 2);
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(Path::new(TCP_MEMORY), &marks)?);
        Ok(guards.into())
    }

    fn bites(&self, _: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(Self::used()? > Self::limit()?))
    }
}
