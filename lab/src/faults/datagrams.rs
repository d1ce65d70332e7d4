//! net.small_datagrams: the same data in many more datagrams than it needs, one a call.
//!
//! The load is started anew with another size, as in image.rs; what it sends goes to another namespace, whose sink takes many a call, so that nothing
//! is lost there. The proof is the kernel's own count of datagrams in the load's namespace, which nobody else sends from; how many calls it makes
//! is the load's own count. Rejected: a slower sink, which would drop, and be a fault of its own.

use super::image::choose;
use super::stage::{load, net_counter, pair, start, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::load::figure;
use crate::load::kinds::udp::packets_of_a_block;
use crate::load::switch;
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&SmallDatagrams];

/// The load sends datagrams of a few bytes, and its CPU has no time for as many as it would take.
///
/// Parameters: `good_bytes`, `bad_bytes`, of a datagram. The load is `udp-stream {far_ip}:{port} --bytes {bytes} ...` in `{near_ns}`, with
/// `start = "after"`. Variables: of [`pair`]; `port`, `sink_pid`, `bytes`; `calls_per_second`, by the load's own count.
struct SmallDatagrams;

/// Fewer are sent by whoever has time left.
const LEAST_PER_SECOND: f64 = 20_000.0;

impl SmallDatagrams {
    /// Datagrams that left the load's namespace, and operations that it counts.
    fn sent(ctx: &Ctx) -> Result<(f64, f64)> {
        let victim = ctx.number("victim_pid")? as i32;
        let datagrams = net_counter(victim, "Udp", "OutDatagrams").context("no OutDatagrams")?;
        Ok((datagrams as f64, figure::read(&ctx.scratch.join("figure")) as f64))
    }
}

impl Fault for SmallDatagrams {
    fn name(&self) -> &'static str {
        "net.small_datagrams"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let mut sink = load(ctx, &["udp-sink", &format!("0.0.0.0:{port}")]);
        sink.netns = Some(ctx.text("far_ns")?);
        let started = start(ctx, "sink", &sink)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", port)?;
        choose(ctx, "good_");
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        choose(ctx, "bad_");
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let ((datagrams, blocks), from) = (Self::sent(ctx)?, switch::now());
        ctx.sleep(Duration::from_secs(1))?;
        let ((more_datagrams, more_blocks), to) = (Self::sent(ctx)?, switch::now());
        let calls = packets_of_a_block(ctx.number("bytes")? as usize) as f64;
        ctx.set("calls_per_second", (more_blocks - blocks) * calls / (to - from));
        Ok(Some((more_datagrams - datagrams) / (to - from) >= LEAST_PER_SECOND))
    }
}
