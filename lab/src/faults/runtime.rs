//! process.gc: the heap of a virtual machine is nearly full.
//!
//! The fault is a switch of the load itself, which keeps as much as it says; the same program with the same heap is the
//! healthy twin. The proof is the machine's own figure: seconds that it has spent on collections (jstat).

use super::stage::{name_switch, switch_on};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Heap];

/// The load (`Garbage.java {switch}`) keeps nearly as much as its heap holds.
///
/// Parameters: `keep_mb`. Variables: `switch`.
struct Heap;

/// Seconds that the load's machine has spent on collections.
fn collecting_seconds(ctx: &mut Ctx) -> Result<f64> {
    let pid = ctx.text("victim_pid")?;
    let table = ctx.tool("jstat", &["-gcutil", &pid])?;
    let last = table.lines().last().and_then(|line| line.split_whitespace().last());
    last.context("jstat printed nothing")?.parse().context("the last column of jstat -gcutil")
}

impl Fault for Heap {
    fn name(&self) -> &'static str {
        "process.full_heap"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let before = collecting_seconds(ctx)?;
        ctx.set("collecting_before", before);
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("keep_mb")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        const COLLECTING_SECONDS_MIN: f64 = 0.5;
        let spent = collecting_seconds(ctx)? - ctx.number("collecting_before")?;
        Ok(Some(spent >= COLLECTING_SECONDS_MIN))
    }
}
