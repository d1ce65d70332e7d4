//! What looking takes, counted instead of timed: runs of every kernel program times what a run takes, and holdup's own CPU
//! time, beside the CPU time that the machine was busy with the load.
//!
//! A load's pace drifts here by several percent from slice to slice, which hides a cost of one percent from
//! pairs.rs for hours. A count does not drift. A run is charged what BPF statistics say of it less what they say of an empty
//! program (that is their own clock), and the way to the program and back, which they do not see. That way is measured
//! where it can be: on a system call with a tracepoint and nothing else, a thread renaming itself, which an
//! empty program watches by turns. Not counted: what a program pushes out of the caches, the interrupt of the sampling
//! clock. So it stands beside the ratios and does not replace them: goals.rs asks it where they cannot tell.
//!
//! Rejected: samples of `perf record` (without a hardware counter they cannot fall where interrupts are off, and the
//! scheduler's programs run there). Edit together: bpf/floor.bpf.c, goals.rs.

use crate::child::Ctx;
use crate::cut::Cut;
use crate::kernel::{look_at, programs, statistics, sum};
use crate::loads::Kind;
use crate::results::{Counted, Program};
use crate::say;
use crate::skel::FloorSkelBuilder;
use crate::stats::median;
use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use nix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

/// The machine's pace drifts: so a load is counted in turns, each with slices under the empty programs and under holdup,
/// and the way to a program is measured before each load. A look tells most in its first second: so a turn is no shorter.
const TURNS: usize = 3;
const FLOOR_SLICES: u32 = 2;
const LOOK_SLICES: u32 = 6;
/// How often a thread renames itself in one measure of the way to a program, and how many measures there are.
const RENAMES: u32 = 20_000;
const MEASURES: usize = 61;
/// They run in holdup's own system calls, whose time is its own already.
const ITERATORS: &[&str] = &["threads", "endpoints"];
/// Ticks a second of /proc/stat (USER_HZ, the same on every architecture that Linux runs holdup on).
const TICKS: f64 = 100.0;

/// Each load, counted; what one refuses is trouble, and the others go on.
pub fn all(ctx: &Ctx, kinds: &[Kind], trouble: &mut Vec<String>) -> Result<Vec<Counted>> {
    let mut found = Vec::new();
    for kind in kinds {
        match on_load(ctx, kind) {
            Ok(counted) => found.push(counted),
            Err(error) => {
                ctx.check_interrupted()?;
                trouble.push(format!("{}, counted: {error:#}", kind.name));
            }
        }
    }
    Ok(found)
}

/// What a tracepoint with an empty program takes more than one with none, nanoseconds.
fn way_ns() -> Result<f64> {
    let mut storage = std::mem::MaybeUninit::uninit();
    let skel = FloorSkelBuilder::default().open(&mut storage)?.load()?;
    let mut more = Vec::new();
    let mut without = renames()?;
    for _ in 0..MEASURES {
        let link = skel.progs.floor_rename.attach()?;
        let with = renames()?;
        drop(link);
        let after = renames()?;
        more.push(with - (without + after) / 2.0);
        without = after;
    }
    median(&more).context("no measure")
}

/// Nanoseconds of its CPU time that a thread takes to rename itself.
fn renames() -> Result<f64> {
    let own = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(std::time::Duration::from);
    let since = own()?;
    for _ in 0..RENAMES {
        nix::sys::prctl::set_name(c"holdup-bench")?;
    }
    Ok((own()? - since).as_secs_f64() * 1e9 / f64::from(RENAMES))
}

fn on_load(ctx: &Ctx, kind: &Kind) -> Result<Counted> {
    // Before statistics are on, which lengthen it.
    let mut counted = Counted { load: kind.name.into(), way_ns: way_ns()?, ..Counted::default() };
    let load = kind.make(ctx)?;
    let on = statistics(ctx)?;
    let cut = Cut::begin(ctx, &load)?;
    let (mut empties, mut ran) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        empties.push(empty_ns(ctx, &cut)?);
        look_at(ctx, &[], |pid| {
            let (spent, busy) = (Spent::since(pid)?, busy_seconds()?);
            cut.seconds(ctx, LOOK_SLICES)?;
            counted.busy_seconds += busy_seconds()? - busy;
            let (_, own_seconds, programs) = spent.until_now()?;
            counted.own_seconds += own_seconds;
            ran.extend(programs);
            Ok(())
        })?;
    }
    drop((cut, on));
    load.close()?;
    counted.empty_ns = median(&empties).context("no turn")?;
    counted.programs = by_name(ran);
    say(&format!(
        "  {}, counted: {:.2} % ({:.2} % the programs); {:.1} ns to an empty program and back",
        kind.name,
        (counted.ratio() - 1.0) * 100.0,
        counted.programs_seconds() / counted.busy_seconds * 100.0,
        counted.way_ns,
    ));
    Ok(counted)
}

/// What BPF statistics say of an empty program under the load.
fn empty_ns(ctx: &Ctx, cut: &Cut) -> Result<f64> {
    let mut storage = std::mem::MaybeUninit::uninit();
    let skel = FloorSkelBuilder::default().open(&mut storage)?.load()?;
    let _links = [skel.progs.floor_switch.attach()?, skel.progs.floor_waking.attach()?];
    let before = of_process(std::process::id().cast_signed())?;
    cut.seconds(ctx, FLOOR_SLICES)?;
    let after = of_process(std::process::id().cast_signed())?;
    Ok(sum(&between(&before, &after)).1)
}

/// The looks of all turns as one.
fn by_name(ran: Vec<Program>) -> Vec<Program> {
    let mut found: BTreeMap<String, Program> = BTreeMap::new();
    for program in ran {
        let all =
            found.entry(program.name.clone()).or_insert(Program { runs: 0, ..program.clone() });
        all.ns = sum(&[all.clone(), program.clone()]).1;
        all.runs += program.runs;
    }
    let mut found: Vec<Program> = found.into_values().collect();
    dearest_first(&mut found);
    found
}

fn dearest_first(programs: &mut [Program]) {
    programs.sort_by(|a, b| (b.ns * b.runs as f64).total_cmp(&(a.ns * a.runs as f64)));
}

/// What a look took when a part of it began. BPF statistics are on.
pub struct Spent {
    pid: i32,
    at: Instant,
    own_seconds: f64,
    programs: BTreeMap<u32, Program>,
}

impl Spent {
    /// By its process.
    pub fn since(pid: i32) -> Result<Self> {
        let (own_seconds, programs) = (own_seconds(pid)?, of_process(pid)?);
        Ok(Self { pid, at: Instant::now(), own_seconds, programs })
    }

    /// Seconds since then, its process' CPU time in them, and what of its programs ran on others' time.
    pub fn until_now(&self) -> Result<(f64, f64, Vec<Program>)> {
        let mut programs = between(&self.programs, &of_process(self.pid)?);
        programs.retain(|program| !ITERATORS.contains(&program.name.as_str()));
        let own = own_seconds(self.pid)? - self.own_seconds;
        Ok((self.at.elapsed().as_secs_f64(), own, programs))
    }
}

/// The programs that a process holds, by id: others may look at the same time.
fn of_process(pid: i32) -> Result<BTreeMap<u32, Program>> {
    let mut found = programs();
    let mut held = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // A descriptor may be closed meanwhile.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let ids = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        held.extend(ids.filter_map(|id| id.trim().parse::<u32>().ok()));
    }
    found.retain(|id, _| held.contains(id));
    Ok(found)
}

/// What programs ran in between, dearest in sum first.
fn between(before: &BTreeMap<u32, Program>, after: &BTreeMap<u32, Program>) -> Vec<Program> {
    let fresh = |(id, now): (&u32, &Program)| {
        let (old_runs, old_ns) = before.get(id).map_or((0, 0.0), |it| (it.runs, it.ns));
        let runs = now.runs.checked_sub(old_runs).filter(|&runs| runs > 0)?;
        let ns = (now.ns * now.runs as f64 - old_ns * old_runs as f64) / runs as f64;
        Some(Program { runs, ns, ..now.clone() })
    };
    let mut found: Vec<Program> = after.iter().filter_map(fresh).collect();
    dearest_first(&mut found);
    found
}

/// CPU time of all threads of a process: the first word of their schedstat, nanoseconds.
fn own_seconds(pid: i32) -> Result<f64> {
    let mut all_ns = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        all_ns += text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(all_ns / 1e9)
}

/// Time that all CPUs were busy, of /proc/stat: not idle, not waiting for a disk, not taken by the hypervisor.
pub fn busy_seconds() -> Result<f64> {
    busy(&fs::read_to_string("/proc/stat")?).context("/proc/stat tells no CPU time")
}

fn busy(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let words: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, hard, soft, ..] = words[..] else { return None };
    Some((user + nice + system + hard + soft) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_cpu_is_not_idle() {
        let stat = "cpu  100 20 30 4000 500 6 7 80 9 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(busy(stat), Some(1.63));
        assert_eq!(busy("cpu0 1 2"), None);
    }

    #[test]
    fn only_what_ran_in_between_counts() {
        let program = |runs, ns| Program { runs, ns, ..Program::default() };
        let before = BTreeMap::from([(1, program(10, 100.0)), (2, program(5, 50.0))]);
        let after =
            BTreeMap::from([(1, program(30, 200.0)), (2, program(5, 50.0)), (3, program(1, 9.0))]);
        let found = between(&before, &after);
        assert_eq!(
            found.iter().map(|it| (it.runs, it.ns)).collect::<Vec<_>>(),
            [(20, 250.0), (1, 9.0)]
        );
    }

    #[test]
    fn turns_are_added_by_name() {
        let program =
            |name: &str, runs, ns| Program { name: name.into(), runs, ns, ..Program::default() };
        let found =
            by_name(vec![program("a", 10, 50.0), program("b", 1, 9.0), program("a", 30, 90.0)]);
        assert_eq!(found, [program("a", 40, 80.0), program("b", 1, 9.0)]);
    }

    #[test]
    fn own_time_grows() {
        let own = std::process::id().cast_signed();
        let before = own_seconds(own).unwrap();
        let until = Instant::now() + std::time::Duration::from_millis(30);
        while Instant::now() < until {}
        assert!(own_seconds(own).unwrap() > before);
    }
}
