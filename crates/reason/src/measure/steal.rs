//! What the hypervisor took of each CPU.
//!
//! A guest's scheduler does not see that its CPU stood still: whoever ran then seems to have run, whoever was ready waited. The
//! hypervisor says how long it was (steal in /proc/stat). Must not: say who is hurt.

use crate::model::Model;
use std::collections::BTreeMap;

/// Share of the window for which each CPU was not there though it was wanted, 0 to 1.
pub fn stolen(model: &Model) -> BTreeMap<u32, f64> {
    let seconds = model.look.seconds().max(1e-9);
    let mut all = BTreeMap::new();
    for (cpu, series) in &model.cpu.times {
        let (Some((_, first)), Some((_, last))) = (series.first(), series.last()) else { continue };
        let stolen = last.steal_ns.saturating_sub(first.steal_ns) as f64 / 1e9 / seconds;
        all.insert(*cpu, stolen.min(1.0));
    }
    all
}

/// Of these CPUs together; of all if none is given.
pub fn share_of(stolen: &BTreeMap<u32, f64>, cpus: &[u32]) -> f64 {
    let is_one = |cpu: &&u32| cpus.is_empty() || cpus.contains(cpu);
    let of: Vec<f64> = stolen.iter().filter(|(cpu, _)| is_one(cpu)).map(|(_, it)| *it).collect();
    of.iter().sum::<f64>() / of.len().max(1) as f64
}
