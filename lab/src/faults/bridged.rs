//! net.bridge_port: two ends of this host that a bridge joins, until a port, the bridge or an interface passes nothing any more.
//!
//! The load is in one namespace, its server in another, the bridge in a third, as of two containers of a host. The proof is the load's own neighbour
//! table.

use super::stage::{netns, tcp_server};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Result, bail};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Port];

/// What is between the load and its server stops passing.
///
/// Parameters: `by` (`state`: the server's port only listens; `isolated`: both ports; `down`: the bridge is switched off; `left`: the server's port is
/// taken from the bridge). The load is `tcp-client {far_ip}:{port}` in `{near_ns}`. Variables: `near_ns`, `near_if`, `near_ip`, `far_*`; `bridge_ns`, `bridge`;
/// `near_port`, `far_port`; `blocked` (what does not pass); `port`; `server`, `server_pid`.
struct Port;

/// `ip` with words in one text.
fn ip(ctx: &Ctx, words: &str) -> Result<()> {
    ctx.tool("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
}

impl Fault for Port {
    fn name(&self) -> &'static str {
        "net.bridge_port"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let (middle, guard) = netns(ctx)?;
        guards.push(guard);
        let bridge = format!("br{}", ctx.draw.index(99));
        ip(ctx, &format!("-n {middle} link add {bridge} type bridge"))?;
        ip(ctx, &format!("-n {middle} link set {bridge} up"))?;
        let net = format!("10.{}.{}", 1 + ctx.draw.index(250), 1 + ctx.draw.index(250));
        for (side, last) in [("near", 1), ("far", 2)] {
            let (ns, guard) = netns(ctx)?;
            guards.push(guard);
            let interface = format!("eth{}", ctx.draw.index(9));
            let port = format!("veth{last}{}", ctx.draw.index(999));
            ip(
                ctx,
                &format!("-n {ns} link add {interface} type veth peer name {port} netns {middle}"),
            )?;
            ip(ctx, &format!("-n {middle} link set {port} master {bridge} up"))?;
            ip(ctx, &format!("-n {ns} addr add {net}.{last}/24 dev {interface}"))?;
            ip(ctx, &format!("-n {ns} link set {interface} up"))?;
            ctx.set(&format!("{side}_ns"), ns);
            ctx.set(&format!("{side}_if"), interface);
            ctx.set(&format!("{side}_ip"), format!("{net}.{last}"));
            ctx.set(&format!("{side}_port"), port);
        }
        ctx.set("bridge_ns", middle);
        ctx.set("bridge", bridge);
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (ns, bridge) = (ctx.text("bridge_ns")?, ctx.text("bridge")?);
        let (near_port, far_port) = (ctx.text("near_port")?, ctx.text("far_port")?);
        let set = |port: &str, what: [&str; 2]| {
            let words = ["-n", &ns, "link", "set", "dev", port, what[0], what[1]];
            ctx.tool("bridge", &words).map(drop)
        };
        let blocked = match &*ctx.text("by")? {
            "state" => {
                set(&far_port, ["state", "1"])?;
                format!("port {far_port}")
            }
            "isolated" => {
                set(&near_port, ["isolated", "on"])?;
                set(&far_port, ["isolated", "on"])?;
                format!("port {far_port}")
            }
            "down" => {
                ip(ctx, &format!("-n {ns} link set {bridge} down"))?;
                bridge
            }
            "left" => {
                ip(ctx, &format!("-n {ns} link set {far_port} nomaster"))?;
                far_port
            }
            other => bail!("no way to block a bridge: {other}"),
        };
        ctx.set("blocked", blocked);
        let (near, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        ip(ctx, &format!("-n {near} neigh flush dev {interface}"))?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, to) = (ctx.text("near_ns")?, ctx.text("far_ip")?);
        let shown = ctx.tool("ip", &["-n", &ns, "neigh", "show", &to])?;
        Ok(Some(shown.contains("FAILED") || shown.contains("INCOMPLETE")))
    }
}
