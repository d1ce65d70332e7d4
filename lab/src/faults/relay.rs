//! net.far_relay: a relay of this host whose far side is a long way off, while whoever asks it is near.
//!
//! The far side is played at the end of a wire (peers.rs), so that no process here has its socket; the way there becomes long by the
//! switch, acknowledgements too, and TCP measures it. The proof is the round trip that `ss` shows of the relay's outer connection.
//! Edit together: lab/load/relay.py.

use super::peers::wired;
use super::stage::{load, load_file, name_switch, pair, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::Result;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&FarRelay];

/// The way between a relay and its far side becomes long.
///
/// Parameters: `away_ms`. The load is `tcp-client 127.0.0.1:{port} --keep` in `{near_ns}`. Variables: of [`pair`]; `peer_ip`, `peer_port`,
/// `port`, `switch`; `peer`, `peer_pid` (the process that plays the other host); `relay`, `relay_pid`.
struct FarRelay;

/// A load that rests between its questions has a round trip that lags behind: half of the way is the fault.
const BITES: f64 = 0.5;

impl Fault for FarRelay {
    fn name(&self) -> &'static str {
        "net.far_relay"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let [port, peer_port] = [20_000, 30_000].map(|from| from + ctx.draw.index(2_000) as u16);
        let (peer, far_if) = (wired(ctx)?, ctx.text("far_if")?);
        let mut spawn = load(ctx, &["far-host", &far_if, "--away", &switch]);
        spawn.netns = Some(ctx.text("far_ns")?);
        guards.push(start(ctx, "peer", &spawn)?.guard);
        let words = [&port.to_string(), &peer, &peer_port.to_string()];
        let mut spawn = load_file(ctx, "relay.py", &words.map(String::as_str))?;
        spawn.netns = Some(ctx.text("near_ns")?);
        let relay = start(ctx, "relay", &spawn)?;
        guards.push(relay.guard);
        wait_bound(ctx, relay.pid, "tcp", port)?;
        ctx.set("peer_ip", peer);
        ctx.set("peer_port", peer_port);
        ctx.set("port", port);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("away_ms")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (near_ns, peer) = (ctx.text("near_ns")?, ctx.text("peer_ip")?);
        let shown = ctx.tool("ss", &["-N", &near_ns, "-tinH", "dst", &peer])?;
        let rtt = shown.split_once(" rtt:").and_then(|(_, rest)| rest.split('/').next());
        let rtt_ms: f64 = rtt.and_then(|text| text.parse().ok()).unwrap_or(0.0);
        ctx.set("rtt_ms", rtt_ms);
        Ok(Some(rtt_ms >= BITES * ctx.number("away_ms")?))
    }
}
