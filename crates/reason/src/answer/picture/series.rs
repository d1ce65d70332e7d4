//! Curves over the window: pressure, CPUs, memory, disks, packet queues, as the samples have them.
//!
//! Counters are absolute, so that a curve of fewer points stays exact: what lies between two samples is a difference of sums, never a
//! mean of means. A counter that goes back (a device that came anew) breaks the curve. Must not: fill in what was not sampled.

use super::bounds::{CPUS, DEVICES, POINTS, rounded};
use super::gather::Gathered;
use crate::facts::{CpuSample, DeviceNumber, DiskSample, MemorySample, Ns, Pressure, QdiscSample};
use crate::measure::Measures;
use crate::model::Series as Samples;
use serde::Serialize;

/// One curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// `pressure`, `CPU`, `memory`, `disk` or `packets`.
    pub group: &'static str,
    /// What it is of.
    pub name: String,
    /// `share` (0 to 1), `requests`, `packets`, `bytes`, `s`.
    pub unit: &'static str,
    /// Begin of the first interval, microseconds from the window's begin.
    pub from_us: i64,
    /// End of each interval, and the value in it; no value where it could not be computed.
    pub points: Vec<(i64, Option<f64>)>,
}

/// All curves, and how many were left out.
pub(super) fn curves(measures: &Measures<'_>, gathered: &Gathered) -> (Vec<Curve>, usize) {
    let draw = Draw { begin_ns: gathered.begin_ns, end_ns: gathered.end_ns };
    let mut all = pressure(measures, &draw);
    let mut left_out = cpus(measures, &draw, &mut all);
    memory(measures, &draw, &mut all);
    left_out += disks(measures, &draw, &mut all);
    left_out += packets(measures, &draw, &mut all);
    (all, left_out)
}

/// Between which moments.
struct Draw {
    begin_ns: Ns,
    end_ns: Ns,
}

/// Means over less than this are noise: counters in ticks of 10 ms.
const SHORTEST_NS: Ns = 50_000_000;
/// A sample is of the window if it was taken so shortly before it, as the first one is; the last is the first behind it.
const AROUND_NS: Ns = 150_000_000;

impl Draw {
    /// A curve of what happened between samples; `value` gets both, and the seconds between them.
    fn between<T>(
        &self,
        group: &'static str,
        name: String,
        unit: &'static str,
        samples: &Samples<T>,
        value: impl Fn(&T, &T, f64) -> Option<f64>,
    ) -> Option<Curve> {
        let mut samples: Vec<&(Ns, T)> =
            samples.iter().filter(|(at, _)| *at + AROUND_NS >= self.begin_ns).collect();
        samples.sort_by_key(|(at, _)| *at);
        let inside = samples.partition_point(|(at, _)| *at < self.end_ns);
        samples.truncate(inside + 1);
        let least_ns = SHORTEST_NS.max((self.end_ns - self.begin_ns) / POINTS as Ns);
        let mut chosen: Vec<&(Ns, T)> = Vec::new();
        for sample in &samples {
            if chosen.last().is_none_or(|last| sample.0 >= last.0 + least_ns) {
                chosen.push(sample);
            }
        }
        // What is left at the end is too short for an interval of its own.
        if let Some(last) =
            samples.last().filter(|last| chosen.last().is_some_and(|it| it.0 < last.0))
        {
            if chosen.len() > 1 {
                chosen.pop();
            }
            chosen.push(last);
        }
        let us = |at: Ns| (at as i64 - self.begin_ns as i64) / 1_000;
        let from_us = us(chosen.first()?.0);
        let points: Vec<(i64, Option<f64>)> = chosen
            .windows(2)
            .filter(|pair| pair[1].0 > pair[0].0)
            .map(|pair| {
                let seconds = (pair[1].0 - pair[0].0) as f64 / 1e9;
                (us(pair[1].0), value(&pair[0].1, &pair[1].1, seconds).map(rounded))
            })
            .collect();
        (!points.is_empty()).then_some(Curve { group, name, unit, from_us, points })
    }
}

/// How much a counter grew; none if it went back.
fn grown(before: u64, after: u64) -> Option<f64> {
    after.checked_sub(before).map(|grown| grown as f64)
}

fn pressure(measures: &Measures<'_>, draw: &Draw) -> Vec<Curve> {
    type Field = fn(&Pressure) -> u64;
    let fields: [(&str, Field); 5] = [
        ("some wait for a CPU", |it| it.cpu_some_us),
        ("some wait for I/O", |it| it.io_some_us),
        ("all wait for I/O", |it| it.io_full_us),
        ("some wait for memory", |it| it.memory_some_us),
        ("all wait for memory", |it| it.memory_full_us),
    ];
    let curve = |(name, of): (&str, Field)| {
        draw.between(
            "pressure",
            name.into(),
            "share",
            &measures.model.memory.pressure,
            move |a, b, s| Some((grown(of(a), of(b))? / 1e6 / s).min(1.0)),
        )
    };
    fields.into_iter().filter_map(curve).collect()
}

/// In use, of the time between two readings of /proc/stat.
fn used(before: &CpuSample, after: &CpuSample) -> Option<f64> {
    let busy = |s: &CpuSample| s.user_ns + s.system_ns + s.irq_ns + s.softirq_ns + s.steal_ns;
    let idle = |s: &CpuSample| s.idle_ns + s.iowait_ns;
    let (busy, idle) = (grown(busy(before), busy(after))?, grown(idle(before), idle(after))?);
    (busy + idle > 0.0).then(|| busy / (busy + idle))
}

fn cpus(measures: &Measures<'_>, draw: &Draw, all: &mut Vec<Curve>) -> usize {
    let mut order: Vec<(u32, f64)> =
        measures.cpu.busy.iter().map(|(cpu, it)| (*cpu, *it)).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let left_out = order.len().saturating_sub(CPUS);
    order.truncate(CPUS);
    order.sort_by_key(|(cpu, _)| *cpu);
    for (cpu, _) in order {
        let Some(samples) = measures.model.cpu.times.get(&cpu) else { continue };
        all.extend(
            draw.between("CPU", format!("CPU {cpu}"), "share", samples, |a, b, _| used(a, b)),
        );
    }
    left_out
}

fn memory(measures: &Measures<'_>, draw: &Draw, all: &mut Vec<Curve>) {
    type Field = fn(&MemorySample) -> u64;
    let fields: [(&str, Field); 2] = [
        ("memory that can be had", |it| it.available_bytes),
        ("dirty, and being written back", |it| it.dirty_bytes + it.writeback_bytes),
    ];
    for (name, of) in fields {
        all.extend(draw.between(
            "memory",
            name.into(),
            "bytes",
            &measures.model.memory.samples,
            |_, b, _| Some(of(b) as f64),
        ));
    }
}

fn disks(measures: &Measures<'_>, draw: &Draw, all: &mut Vec<Curve>) -> usize {
    let model = measures.model;
    let mut busiest: Vec<(f64, DeviceNumber)> = measures
        .disks
        .views
        .iter()
        .filter(|(_, view)| view.is_counted && view.queue.busy > 0.0)
        .map(|(dev, view)| (view.queue.busy, *dev))
        .collect();
    busiest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, dev) in busiest.iter().take(DEVICES) {
        let Some(samples) = model.disk.samples.get(dev) else { continue };
        let name = model.disk.of(*dev).map_or_else(|| dev.to_string(), |disk| disk.name.clone());
        let done = |s: &DiskSample| s.reads + s.writes + s.flushes;
        let busy = format!("{name} has requests");
        all.extend(draw.between("disk", busy, "share", samples, |a, b, s| {
            Some((grown(a.busy_ms, b.busy_ms)? / 1e3 / s).min(1.0))
        }));
        let length = format!("{name} requests under way");
        all.extend(draw.between("disk", length, "requests", samples, |a, b, s| {
            Some(grown(a.weighted_ms, b.weighted_ms)? / 1e3 / s)
        }));
        let time = format!("{name} time of a request");
        all.extend(draw.between("disk", time, "s", samples, |a, b, _| {
            let requests = grown(done(a), done(b)).filter(|it| *it > 0.0)?;
            Some(grown(a.read_ms + a.write_ms, b.read_ms + b.write_ms)? / 1e3 / requests)
        }));
    }
    busiest.len().saturating_sub(DEVICES)
}

fn packets(measures: &Measures<'_>, draw: &Draw, all: &mut Vec<Curve>) -> usize {
    let mut queues: Vec<_> = measures.packet_queues.iter().filter(|it| it.packets > 0.0).collect();
    queues.sort_by(|a, b| b.packets.total_cmp(&a.packets));
    for queue in queues.iter().take(DEVICES) {
        let last = queue.last;
        let key = (last.netns, last.interface.clone(), last.handle.clone());
        let Some(samples) = measures.model.net.qdiscs.get(&key) else { continue };
        let name = format!("{} {} packets queued", last.interface, last.kind);
        let backlog = |_: &QdiscSample, b: &QdiscSample, _| Some(b.backlog_packets as f64);
        all.extend(draw.between("packets", name, "packets", samples, backlog));
    }
    queues.len().saturating_sub(DEVICES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_fewer_points_is_exact_and_a_counter_that_goes_back_is_a_gap() {
        let draw = Draw { begin_ns: 1_000_000_000, end_ns: 101_000_000_000 };
        let samples: Samples<u64> =
            (0..=1000).map(|at| (1_000_000_000 + at * 100_000_000, at * at)).collect();
        let curve = draw
            .between("disk", "x".into(), "share", &samples, |a, b, _| grown(*a, *b))
            .expect("a curve");
        assert!(curve.points.len() <= POINTS + 1, "{}", curve.points.len());
        let sum: f64 = curve.points.iter().filter_map(|(_, value)| *value).sum();
        assert!((sum - 1_000_000.0).abs() < 1_000.0, "{sum}");
        let back: Samples<u64> = vec![(1_000_000_000, 5), (2_000_000_000, 3), (3_000_000_000, 4)];
        let curve = draw.between("disk", "x".into(), "share", &back, |a, b, _| grown(*a, *b));
        let points = curve.expect("a curve").points;
        assert_eq!(points, [(1_000_000, None), (2_000_000, Some(1.0))]);
    }
}
