//! The kernel's side: what its programs take, by the kernel's own BPF statistics.
//!
//! `kernel.bpf_stats_enabled` is switched on through the journal, so that it goes back to what it was on
//! every exit. The statistics cost some ten nanoseconds a run themselves, part of which they count: the empty
//! programs, measured the same way, are what to subtract. Rejected: BPF_ENABLE_STATS, which needs a
//! descriptor that only an unsafe call gives. Edit together: bpf/floor.bpf.c.

use crate::child::{Ctx, words};
use crate::loads;
use crate::lookers::Looked;
use crate::results::{Program, Recording};
use crate::skel::FloorSkelBuilder;
use anyhow::{Context, Result};
use holdup_lab::undo::{Guard, Undo};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Switches the statistics on until the guard is dropped.
pub fn statistics(ctx: &Ctx) -> Result<Guard> {
    let switch = Path::new(SWITCH);
    let guard = ctx.journal.guard(Undo::restore(switch)?)?;
    fs::write(switch, "1").context("switch BPF statistics on")?;
    Ok(guard)
}

/// Runs and nanoseconds of every loaded program, by id.
pub fn programs() -> BTreeMap<u32, Program> {
    let program = |info: libbpf_rs::query::ProgramInfo| {
        let runs = info.run_cnt;
        let ns = if runs == 0 { 0.0 } else { info.run_time_ns as f64 / runs as f64 };
        let name = info.name.to_string_lossy().into_owned();
        (info.id, Program { of: String::new(), name, runs, ns })
    };
    ProgInfoIter::default().map(program).collect()
}

/// Those that were not there before and have run, dearest in sum first.
pub fn since(before: &BTreeMap<u32, Program>, of: &str) -> Vec<Program> {
    let mut fresh: Vec<Program> = programs()
        .into_iter()
        .filter(|(id, program)| !before.contains_key(id) && program.runs > 0)
        .map(|(_, program)| Program { of: of.into(), ..program })
        .collect();
    fresh.sort_by(|a, b| (b.ns * b.runs as f64).total_cmp(&(a.ns * a.runs as f64)));
    fresh
}

/// Seconds that programs took in sum, and the mean nanoseconds of a run.
pub fn sum(programs: &[Program]) -> (f64, f64) {
    let ns: f64 = programs.iter().map(|program| program.ns * program.runs as f64).sum();
    let runs: u64 = programs.iter().map(|program| program.runs).sum();
    (ns / 1e9, if runs == 0 { 0.0 } else { ns / runs as f64 })
}

/// A look that lasts while `during` does, and what its programs took until then.
pub fn look_during(
    ctx: &Ctx,
    more: &[&str],
    during: impl FnOnce() -> Result<()>,
) -> Result<(Looked, Vec<Program>)> {
    let before = programs();
    let mut taken = Vec::new();
    let looked = look_at(ctx, more, |_| {
        during()?;
        taken = since(&before, "holdup");
        Ok(())
    })?;
    Ok((looked, taken))
}

/// A look that lasts while `during` does, which is given its process.
pub fn look_at(ctx: &Ctx, more: &[&str], during: impl FnOnce(i32) -> Result<()>) -> Result<Looked> {
    let answer = ctx.path("answer.json");
    let mut command = words(&[&ctx.holdup.to_string_lossy()]);
    command.extend(words(more));
    command.extend(words(&["--for", "300s", "--json", "-o", &answer.to_string_lossy()]));
    let tool = ctx.start(&command)?;
    tool.ready(ctx)?;
    during(tool.pid)?;
    Looked::read(&answer, tool.interrupt(ctx, Duration::from_secs(90))?)
}

/// Each program under the ping-pong: the floor and the single accesses together, then holdup's.
pub fn under_pingpong(ctx: &Ctx) -> Result<Vec<Program>> {
    let load = loads::KINDS[0].make(ctx)?;
    let _on = statistics(ctx)?;
    let before = programs();
    let mut found;
    {
        let mut storage = std::mem::MaybeUninit::uninit();
        let skel = FloorSkelBuilder::default().open(&mut storage)?.load()?;
        let all = &skel.progs;
        let _links = [
            all.floor_switch.attach()?,
            all.floor_waking.attach()?,
            all.with_clock.attach()?,
            all.with_runqueue_clock.attach()?,
            all.with_array.attach()?,
            all.with_hash.attach()?,
            all.with_storage.attach()?,
            all.with_ring.attach()?,
        ];
        load.run(ctx)?;
        found = since(&before, "floor");
    }
    for program in &mut found {
        if program.name.starts_with("with_") {
            program.of = "access".into();
        }
    }
    let (_, own) = look_during(ctx, &[], || load.run(ctx).map(drop))?;
    found.extend(own);
    Ok(found)
}

/// What a recording takes in which every wait of a command is reported.
pub fn recording(ctx: &Ctx, kind: &loads::Kind) -> Result<Recording> {
    let load = kind.make(ctx)?;
    let (file, answer) = (ctx.path("run.hup"), ctx.path("answer.json"));
    let mut command = words(&[
        &ctx.holdup.to_string_lossy(),
        "record",
        &file.to_string_lossy(),
        "--json",
        "-o",
        &answer.to_string_lossy(),
        "--",
    ]);
    command.extend(load.words.iter().cloned());
    let looked = Looked::read(&answer, ctx.complete(&command, Duration::from_secs(120))?)?;
    let cost = looked.report.cost;
    let bytes = fs::metadata(&file)?.len();
    fs::remove_file(&file)?;
    let load = kind.name.into();
    Ok(Recording { load, bytes, events: cost.events, lost: cost.events_lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_weigh_by_runs() {
        let program = |runs, ns| Program { runs, ns, ..Program::default() };
        let (seconds, mean) = sum(&[program(3_000_000, 100.0), program(1_000_000, 20.0)]);
        assert!((seconds - 0.32).abs() < 1e-9 && (mean - 80.0).abs() < 1e-9);
        assert_eq!(sum(&[]), (0.0, 0.0));
    }
}
