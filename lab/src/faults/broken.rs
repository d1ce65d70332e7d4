//! net.broken_payload: a program that carries packets from one tun device to another changes a byte in some.
//!
//! The load's packets leave the kernel and come in again, so their checksums are made and checked; between namespaces that a veth joins they are
//! not. The proof is the server's own count of segments with a wrong checksum.
//! Edit together: lab/load/tun_relay.py.

use super::stage::{load_file, name_switch, net_counter, netns, start, switch_on, tcp_server};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&BrokenPayload];

/// A program between two tun devices changes the byte at a place of the payload, in every packet that has one there.
///
/// Parameters: `at`. The load is `tcp-client {far_ip}:{port} --bytes ...` in `{near_ns}`. Variables: `near_ns`, `far_ns`, `near_if`, `far_if`, `far_ip`,
/// `port`, `switch`; `relay`, `relay_pid`; `server`, `server_pid`.
struct BrokenPayload;

impl BrokenPayload {
    /// Two namespaces and the program between them: it opens both devices in the near one, and the far one is moved.
    fn joined(ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Guards::new();
        let (near, guard) = netns(ctx)?;
        guards.push(guard);
        let (far, guard) = netns(ctx)?;
        guards.push(guard);
        let at = ctx.draw.index(90);
        let devices = [format!("tun{at}"), format!("tun{}", at + 1)];
        for device in &devices {
            ctx.tool("ip", &["-n", &near, "tuntap", "add", device, "mode", "tun"])?;
            ctx.tool("ip", &["-n", &near, "link", "set", device, "up"])?;
        }
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let [near_if, far_if] = &devices;
        let mut spawn = load_file(ctx, "tun_relay.py", &[near_if, far_if, &switch])?;
        spawn.netns = Some(near.clone());
        guards.push(start(ctx, "relay", &spawn)?.guard);
        ctx.wait_for("both devices open", Duration::from_secs(10), || {
            let shown = ctx.tool("ip", &["-n", &near, "-o", "link", "show", "up"]);
            let is_open = |device: &String, shown: &str| {
                shown.lines().any(|it| it.contains(&**device) && !it.contains("NO-CARRIER"))
            };
            shown.is_ok_and(|shown| devices.iter().all(|device| is_open(device, &shown)))
        })?;
        ctx.tool("ip", &["-n", &near, "link", "set", far_if, "netns", &far])?;
        let net = format!("172.{}.{}", 16 + ctx.draw.index(15), ctx.draw.index(250));
        for (side, ns, device, last) in [("near", &near, near_if, 1), ("far", &far, far_if, 2)] {
            let address = format!("{net}.{last}");
            ctx.tool("ip", &["-n", ns, "addr", "add", &format!("{address}/24"), "dev", device])?;
            ctx.tool("ip", &["-n", ns, "link", "set", device, "up"])?;
            ctx.set(&format!("{side}_ns"), ns);
            ctx.set(&format!("{side}_if"), device);
            ctx.set(&format!("{side}_ip"), address);
        }
        Ok(guards)
    }

    fn refused(ctx: &Ctx) -> Result<u64> {
        let pid = ctx.number("server_pid")? as i32;
        net_counter(pid, "Tcp", "InCsumErrors").context("no such counter")
    }
}

impl Fault for BrokenPayload {
    fn name(&self) -> &'static str {
        "net.broken_payload"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = Self::joined(ctx)?;
        let address = ctx.text("far_ip")?;
        guards.append(tcp_server(ctx, &address)?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        let at = ctx.text("at")?;
        guards.push(switch_on(ctx, &at)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(Self::refused(ctx)? > 0))
    }
}
