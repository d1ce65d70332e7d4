//! net.*: what has no more to give, however well it works: a link that is full, a bridge with all its ports.
//!
//! The proof is the shaper's own count of bytes, or the ports that the kernel lists. Nothing here is broken, and nothing is dropped on
//! purpose: that is dropped.rs.

use super::stage::{netns, pair, tcp_sink};
use crate::fault::{Ctx, Fault, Injected};
use crate::load::switch;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&LineRate, &BridgeFull];

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
