//! What found no room in a CPU's queue of packets, by the kernel's reason for each and by the CPUs' own counts.
//!
//! Shared by the rules that say why: a queue that is short, or a CPU that handles what idle ones could, which is decided here once, since each
//! drop has one of the two causes. Must not: put it into words.

use crate::facts::{CpuSample, DroppedFlow, Ns, PacketDrops, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_drops::of_reason;
use crate::model::words;
use crate::rules::net::dropped_packets::{DROPS, Losing, losing, senders};
use crate::threshold::Threshold;

/// The kernel's word for it.
pub(super) const REASON: &str = "CPU_BACKLOG";
/// How many packets have room.
pub(super) const MAX: &str = "net.core.netdev_max_backlog";

/// Part of the drops that the CPUs must have counted.
pub(super) static COUNTED: Threshold = Threshold::new(
    0.5,
    "1",
    "packets that CPUs count as dropped, for each that was seen to be",
    "chosen: the greater part; both count the same packet, but are not read at the same moment",
);

/// Part of its time that a CPU which has none left spends on interrupts.
pub(super) static BUSY: Threshold = Threshold::new(
    0.9,
    "1",
    "part of a CPU's time that interrupts take, from which it has none left for more packets",
    "chosen: what is left goes to threads that the scheduler lets run beside ksoftirqd",
);
/// Part of all packets that are its.
pub(super) static MOST: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the packets of all CPUs that one handles, and of those that were dropped, from which it is alone with them",
    "chosen: four of five",
);
/// Part of another CPU's time that is idle.
pub(super) static IDLE: Threshold = Threshold::new(
    0.25,
    "1",
    "part of its time that another CPU is idle, which could take packets",
    "chosen: with less, what is moved there is soon dropped there",
);
/// What was dropped, everywhere.
pub(super) struct Full<'m> {
    /// By the kernel's reason.
    pub dropped: u64,
    /// By the CPUs' counts.
    pub counted: u64,
    /// That CPUs handled.
    pub handled: u64,
    /// The CPU that dropped most.
    pub cpu: Option<OfCpu>,
    /// Where, most first.
    pub places: Vec<&'m PacketDrops>,
    /// The CPU that is alone with the packets, if one is.
    pub alone: Option<Alone>,
}

/// A CPU that handles nearly all packets and has no time left for more, while another has.
pub(super) struct Alone {
    /// It.
    pub cpu: OfCpu,
    /// Of its time, what interrupts take.
    pub busy: f64,
    /// The CPU that is idle most, and for which part of its time.
    pub idle: (u32, f64),
    /// CPUs' worth of time that the others are idle.
    pub idle_all: f64,
}

/// What one CPU counts.
#[derive(Clone, Copy)]
pub(super) struct OfCpu {
    /// Its number.
    pub cpu: u32,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Packets that it handled.
    pub handled: u64,
}

impl<'m> Full<'m> {
    /// With the CPU that is alone with the packets; none where none is.
    pub(super) fn with_alone(mut self) -> Option<(Self, Alone)> {
        let alone = self.alone.take()?;
        Some((self, alone))
    }

    /// Part of the packets that is dropped.
    pub(super) fn part(&self) -> f64 {
        self.dropped as f64 / (self.dropped + self.handled).max(1) as f64
    }
}

/// If it is enough, and both witnesses agree.
pub(super) fn full<'m>(measures: &'m Measures<'m>) -> Option<Full<'m>> {
    let model = measures.model;
    let mut places: Vec<&PacketDrops> = of_reason(model, REASON).collect();
    places.sort_by_key(|it| std::cmp::Reverse(it.packets));
    let dropped: u64 = places.iter().map(|it| it.packets).sum();
    // They belong to CPUs, and stand with the initial namespace.
    let series = model.net.counters.values().find(|series| {
        series.last().is_some_and(|(_, it)| it.counters.contains_key("softnet.dropped"))
    })?;
    let (first, last) = (&series.first()?.1.counters, &series.last()?.1.counters);
    let growth = |name: &str| Some(last.get(name)?.saturating_sub(*first.get(name)?));
    let counted = growth("softnet.dropped")?;
    let rate = dropped as f64 / measures.wall_seconds().max(1e-9);
    if rate < DROPS.value || (counted as f64) < COUNTED.value * dropped as f64 {
        return None;
    }
    let by_cpu = last.keys().filter_map(|name| {
        let cpu = name.strip_prefix("softnet.dropped.cpu")?.parse().ok()?;
        let handled = growth(&format!("softnet.processed.cpu{cpu}")).unwrap_or(0);
        Some(OfCpu { cpu, dropped: growth(name)?, handled })
    });
    let cpu = by_cpu.max_by_key(|it| it.dropped);
    let handled = growth("softnet.processed")?;
    let alone = cpu.and_then(|cpu| alone(measures, cpu, handled, counted));
    Some(Full { dropped, counted, handled, cpu, places, alone })
}

/// The ends that lose by it; none if nobody does, and it is nobody's who was asked about.
pub(super) fn losing_or_concerned<'m>(
    measures: &'m Measures<'m>,
    ends: &[End],
    full: &Full<'_>,
) -> Option<Vec<Losing<'m>>> {
    let losing = losing(measures, ends, REASON);
    // Of a host everybody is.
    let anybody = ThreadRef::default();
    let is_concerned = || senders(&full.places).chain([&anybody]).any(|it| measures.concerns(it));
    (!losing.is_empty() || is_concerned()).then_some(losing)
}

fn alone(measures: &Measures<'_>, cpu: OfCpu, handled: u64, counted: u64) -> Option<Alone> {
    let busy = measures.taken.interrupts.get(&cpu.cpu)?.share;
    let is_most = |part: u64, all: u64| part as f64 >= MOST.value * all as f64;
    let is_alone = is_most(cpu.handled, handled) && is_most(cpu.dropped, counted);
    let others = measures.model.cpu.times.iter().filter(|(number, _)| **number != cpu.cpu);
    let idle = others.filter_map(|(number, series)| {
        let ((from_ns, first), (to_ns, last)) = (series.first()?, series.last()?);
        Some((*number, idle(first, last, to_ns.saturating_sub(*from_ns))))
    });
    let idle: Vec<(u32, f64)> = idle.collect();
    let idle_all = idle.iter().map(|(_, part)| part).sum();
    let idle = idle.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_it = busy >= BUSY.value && is_alone && idle.1 >= IDLE.value;
    is_it.then_some(Alone { cpu, busy, idle, idle_all })
}

/// Part of the time between two readings that a CPU was idle.
fn idle(first: &CpuSample, last: &CpuSample, between_ns: Ns) -> f64 {
    let of = |sample: &CpuSample| sample.idle_ns + sample.iowait_ns;
    of(last).saturating_sub(of(first)) as f64 / between_ns.max(1) as f64
}

/// `udp 10.0.0.1:40000 to 10.0.0.2:9, sent by flood 30`.
pub(super) fn flow_name(flow: &DroppedFlow) -> String {
    let by =
        flow.sender.as_ref().map_or(String::new(), |by| format!(", sent by {}", words::who(by)));
    format!("{} {} to {}{by}", flow.protocol, flow.from, flow.to)
}
