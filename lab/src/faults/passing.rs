//! net.passing: a queue of a router, whose packets are of no process that can be named.
//!
//! The senders are processes of this host in the end, as all that the lab makes; but their sockets are not connected, so a packet that
//! comes from another namespace says its addresses alone. The proof is the queue's own backlog.

use super::stage::{load, load_file, netns, pair, start, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::Result;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Passing];

/// A bulk flow that passes through a router fills the queue of its shaped interface, before other packets that pass there.
///
/// Parameters: `rate_mbit`, `queue_packets`. The load is `icmp_ping.py {far_ip} ...` in `{side_ns}`, behind the router `{near_ns}`.
/// Variables: of [`pair`]; `side_ns`, `side_ip`, `port`, `bulk_port`.
struct Passing;

/// Bytes of an Ethernet frame that the bulk flow fills.
const FRAME: f64 = 1514.0;

impl Fault for Passing {
    fn name(&self) -> &'static str {
        "net.passing"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let (side, guard) = netns(ctx)?;
        guards.push(guard);
        let (near, near_if, near_ip) =
            (ctx.text("near_ns")?, ctx.text("near_if")?, ctx.text("near_ip")?);
        let far = ctx.text("far_ns")?;
        let net = format!("172.{}.{}", 16 + ctx.draw.index(15), ctx.draw.index(250));
        let (behind, own) = ("lan0", format!("{net}.2"));
        let ip = |words: &str| -> Result<()> {
            ctx.tool("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
        };
        ip(&format!("-n {near} link add {behind} type veth peer name eth0 netns {side}"))?;
        ip(&format!("-n {near} addr add {net}.1/24 dev {behind}"))?;
        ip(&format!("-n {side} addr add {own}/24 dev eth0"))?;
        ip(&format!("-n {near} link set {behind} up"))?;
        ip(&format!("-n {side} link set eth0 up"))?;
        ip(&format!("-n {side} route add default via {net}.1"))?;
        ip(&format!("-n {far} route add {net}.0/24 via {near_ip}"))?;
        let forward = "echo 1 >/proc/sys/net/ipv4/ip_forward";
        ctx.tool("ip", &["netns", "exec", &near, "sh", "-c", forward])?;
        let rate = format!("{}mbit", ctx.text("rate_mbit")?);
        // Room for a small packet beside whole frames, or the load would only see losses.
        let limit = format!("{}", ctx.number("queue_packets")? * FRAME + 700.0);
        let tbf = ["tbf", "rate", &rate, "burst", "1600", "limit", &limit];
        let add = ["-n", &near, "qdisc", "add", "dev", &near_if, "root"];
        ctx.tool("tc", &[&add[..], &tbf].concat())?;
        ctx.set("side_ns", side);
        ctx.set("side_ip", own);
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        ctx.set("bulk_port", u32::from(port) + 1);
        let mut echo = load(ctx, &["udp-echo", &format!("0.0.0.0:{port}")]);
        echo.netns = Some(far);
        let started = start(ctx, "echo", &echo)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let rate = ctx.number("rate_mbit")? * 1e6 / 8.0 / FRAME * 1.4;
        let (from, to, port) = (ctx.text("bulk_port")?, ctx.text("far_ip")?, ctx.text("port")?);
        let words = [&*from, &*to, &*port, "1472", &format!("{rate:.1}")];
        let mut bulk = load_file(ctx, "udp_scatter.py", &words)?;
        bulk.netns = Some(ctx.text("side_ns")?);
        let mut guards = Guards::new();
        guards.push(start(ctx, "bulk", &bulk)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let shown = ctx.tool("tc", &["-s", "-n", &ns, "qdisc", "show", "dev", &interface])?;
        let backlog = shown.split_once("backlog ").and_then(|(_, rest)| {
            rest.split_whitespace().nth(1)?.trim_end_matches('p').parse::<f64>().ok()
        });
        Ok(Some(backlog.unwrap_or(0.0) > ctx.number("queue_packets")? * 0.8))
    }
}
