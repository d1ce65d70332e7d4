//! Packet queues: what stood in each queueing discipline, for how long, and by what it was held back.
//!
//! Two interfaces see a queue: rtnetlink reads its backlog each tenth of a second, and the packet events time every
//! packet in it. Both are here as figures; whether a queue stands is said by rules/net. A queue in which nothing was
//! timed and nothing was sent has no time, and is left out. A command does other things before and after it sends: its figures are of the
//! stretch in which something waited.
//!
//! Must not: compare with a limit of its own, or look at who waits (tcp_stream.rs).

use crate::facts::{Ns, QdiscFlow, QdiscSample, QdiscSojourn, TargetKind};
use crate::model::object::Object;
use crate::model::{Model, Series};
use std::collections::{BTreeMap, HashMap};

/// Readings that make a series: two ends and something between.
const READINGS_MIN: usize = 3;
/// A shorter stretch says nothing about what stands.
const STRETCH_MIN_NS: Ns = 1_000_000_000;
/// From one reading to the next.
const READ_EACH_NS: Ns = 100_000_000;

/// How fast a class sends, and how fast it may.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling<'a> {
    /// The class whose ceiling it is: a queue's own, or one above it.
    pub class: &'a QdiscSample,
    /// Bytes a second that it sent.
    pub sent: f64,
    /// Its ceiling, bytes a second.
    pub ceiling: f64,
}

/// A class in which something waited.
#[derive(Debug, Clone)]
pub struct Class<'a> {
    /// Readings in which something waited, part of all.
    pub occupied: f64,
    /// Mean bytes that waited.
    pub backlog: f64,
    /// Its ceiling and those of the classes above it, its own first.
    pub ceilings: Vec<Ceiling<'a>>,
}

/// A local packet queue.
#[derive(Debug)]
pub struct Queue<'a> {
    /// The last reading of its discipline.
    pub last: &'a QdiscSample,
    /// Time in it, by packet events.
    pub sojourn: Option<&'a QdiscSojourn>,
    /// Mean time in it, seconds.
    pub seconds: f64,
    /// Mean packets in it.
    pub packets: f64,
    /// Mean bytes in it.
    pub bytes: f64,
    /// Bytes a second that left it, by its own counter.
    pub sent: f64,
    /// Seconds of the look that these figures are of.
    pub of_seconds: f64,
    /// Readings in which something waited, part of all.
    pub occupied: f64,
    /// The classes of its interface in which something waited.
    pub classes: Vec<Class<'a>>,
    /// The discipline that holds every packet for a set time: netem, itself or below it.
    pub delay: Option<&'a QdiscSample>,
    /// Flows through it, most bytes first.
    pub flows: Vec<&'a QdiscFlow>,
}

impl Queue<'_> {
    /// Its identity.
    pub fn object(&self) -> Object {
        Object::PacketQueue {
            netns: self.last.netns,
            interface: self.last.interface.as_str().into(),
            handle: self.last.handle.as_str().into(),
        }
    }

    /// It is the outermost discipline of its interface.
    pub fn is_root(&self) -> bool {
        self.last.parent == "root"
    }

    /// Its interface, by network namespace and index.
    pub fn interface(&self) -> (u32, u32) {
        (self.last.netns, self.last.index)
    }

    /// The set time for which each packet is held, seconds.
    pub fn delay_seconds(&self) -> f64 {
        self.delay
            .and_then(|sample| sample.netem.as_ref())
            .map_or(0.0, |netem| netem.delay_ns as f64 / 1e9)
    }

    /// Its packets wait for a set time rather than for each other.
    pub fn is_delay(&self) -> bool {
        self.delay_seconds() > self.seconds / 2.0
    }

    /// Part of the tenths of a second in which even the quickest packet took longer; none if packets were not timed.
    pub fn tenths_above(&self, seconds: f64) -> Option<f64> {
        let tenths = &self.sojourn?.sojourn_ns_min_by_tenth;
        let above = tenths.iter().filter(|least| **least as f64 / 1e9 > seconds).count();
        // Only tenths with packets are there, those outside of the stretch too.
        let all = (tenths.len() as f64).min((self.of_seconds * 10.0).ceil()).max(1.0);
        Some((above as f64 / all).min(1.0))
    }

    /// Bytes a second of the flows that were seen to leave it.
    pub fn flow_rate(&self) -> f64 {
        let bytes = self.flows.iter().map(|flow| flow_bytes(flow)).sum::<u64>();
        bytes as f64 / self.of_seconds.max(1e-9)
    }
}

/// Bytes of a flow, however its packets were seen.
pub fn flow_bytes(flow: &QdiscFlow) -> u64 {
    flow.bytes.saturating_add(flow.untimed_bytes)
}

/// Mean time of packets of some flows in their queue, seconds, if any was measured.
pub fn flow_seconds(flows: &[&QdiscFlow]) -> Option<f64> {
    let packets: u64 = flows.iter().map(|flow| flow.packets).sum();
    let sum: u64 = flows.iter().map(|flow| flow.sojourn_ns).sum();
    (packets > 0).then(|| sum as f64 / packets as f64 / 1e9)
}

/// What was read of one interface.
type Interface<'a> = (u32, &'a str);

/// Readings and flows by where they belong.
struct Index<'a> {
    model: &'a Model,
    series: BTreeMap<Interface<'a>, Vec<Vec<&'a QdiscSample>>>,
    /// When something waited there, of a command.
    stretches: BTreeMap<Interface<'a>, (Ns, Ns)>,
    flows: HashMap<(Interface<'a>, &'a str), Vec<&'a QdiscFlow>>,
}

/// Every queue of the host, in order of namespace, interface and handle.
pub fn packet_queues(model: &Model) -> Vec<Queue<'_>> {
    let stretches = stretches(model);
    let mut index = Index { model, series: BTreeMap::new(), stretches, flows: HashMap::new() };
    for ((netns, interface, _), series) in &model.net.qdiscs {
        let at = (*netns, interface.as_str());
        let readings = within(series, index.stretch(at));
        index.series.entry(at).or_default().push(readings);
    }
    for flow in &model.net.flows {
        let place = ((flow.netns, &*flow.interface), &*flow.handle);
        index.flows.entry(place).or_default().push(flow);
    }
    for flows in index.flows.values_mut() {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow_bytes(flow)));
    }
    let all = index.series.iter().flat_map(|(at, series)| series.iter().map(move |one| (at, one)));
    all.filter_map(|(at, readings)| queue(&index, *at, readings)).collect()
}

impl<'a> Index<'a> {
    /// The times that the figures of an interface are of.
    fn stretch(&self, at: Interface<'a>) -> (Ns, Ns) {
        let look = &self.model.look;
        self.stretches.get(&at).copied().unwrap_or((look.begin_ns, look.end_ns))
    }

    fn seconds(&self, at: Interface<'a>) -> f64 {
        let (from, to) = self.stretch(at);
        to.saturating_sub(from) as f64 / 1e9
    }
}

/// Of a command, from when to when something waited at an interface, if that is long enough to say something.
fn stretches(model: &Model) -> BTreeMap<Interface<'_>, (Ns, Ns)> {
    let target = model.look.target.as_ref();
    if target.is_none_or(|target| target.kind != TargetKind::Command) {
        return BTreeMap::new();
    }
    let (begin_ns, end_ns) = (model.look.begin_ns, model.look.end_ns);
    let mut all: BTreeMap<Interface<'_>, (Ns, Ns)> = BTreeMap::new();
    for ((netns, interface, _), series) in &model.net.qdiscs {
        let waiting = series
            .iter()
            .filter(|(at, sample)| (begin_ns..=end_ns).contains(at) && sample.backlog_packets > 0);
        for (at_ns, _) in waiting {
            let stretch = all.entry((*netns, interface)).or_insert((*at_ns, *at_ns));
            *stretch = (stretch.0.min(*at_ns), stretch.1.max(*at_ns));
        }
    }
    all.retain(|_, (from, to)| *to - *from >= STRETCH_MIN_NS);
    for (from, to) in all.values_mut() {
        *from = from.saturating_sub(READ_EACH_NS).max(begin_ns);
        *to = to.saturating_add(READ_EACH_NS).min(end_ns);
    }
    all
}

fn within(series: &Series<QdiscSample>, (from, to): (Ns, Ns)) -> Vec<&QdiscSample> {
    let inside = |at: &Ns| *at >= from && *at <= to;
    series.iter().filter(|(at, _)| inside(at)).map(|(_, sample)| sample).collect()
}

fn queue<'a>(
    index: &Index<'a>,
    at: Interface<'a>,
    readings: &[&'a QdiscSample],
) -> Option<Queue<'a>> {
    let (first, last) = (*readings.first()?, *readings.last()?);
    let holds_packets = !first.class && first.kind != "noqueue" && first.kind != "ingress";
    if !holds_packets || readings.len() < READINGS_MIN {
        return None;
    }
    let model = index.model;
    let bytes = mean(readings.iter().map(|s| s.backlog_bytes));
    let of_seconds = index.seconds(at);
    let sent = sent(of_seconds, readings);
    let sojourn = model.net.sojourns.iter().find(|s| {
        s.netns == last.netns && s.index == last.index && s.handle == last.handle && s.packets > 0
    });
    let seconds = match sojourn {
        Some(sojourn) => sojourn.sojourn_ns as f64 / sojourn.packets as f64 / 1e9,
        None if sent > 0.0 => bytes / sent,
        None => return None,
    };
    Some(Queue {
        last,
        sojourn,
        seconds,
        packets: mean(readings.iter().map(|s| s.backlog_packets)),
        bytes,
        sent,
        of_seconds,
        occupied: occupied(readings),
        classes: classes(index, at),
        delay: delay(index, at, last.index),
        flows: index.flows.get(&(at, &*last.handle)).cloned().unwrap_or_default(),
    })
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.map(|v| v as f64).sum::<f64>() / count
}

fn sent(seconds: f64, readings: &[&QdiscSample]) -> f64 {
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return 0.0 };
    last.bytes.saturating_sub(first.bytes) as f64 / seconds.max(1e-9)
}

fn occupied(readings: &[&QdiscSample]) -> f64 {
    let with = readings.iter().filter(|s| s.backlog_packets > 0).count();
    with as f64 / readings.len().max(1) as f64
}

/// The longest set delay that packets of an interface wait out.
fn delay<'a>(index: &Index<'a>, at: Interface<'a>, interface: u32) -> Option<&'a QdiscSample> {
    let delays = index.series.get(&at)?.iter().filter_map(|readings| {
        let last = readings.last().copied().filter(|s| s.index == interface && !s.class)?;
        readings.iter().find(|s| s.backlog_packets > 0)?;
        Some((last.netem.as_ref()?.delay_ns, last))
    });
    let longest = delays.max_by_key(|(delay_ns, _)| *delay_ns);
    longest.filter(|(delay_ns, _)| *delay_ns > 0).map(|(_, sample)| sample)
}

/// The classes of an interface in which something waited, in order of their ids, with the ceilings above them.
fn classes<'a>(index: &Index<'a>, at: Interface<'a>) -> Vec<Class<'a>> {
    let all: BTreeMap<&str, &Vec<&'a QdiscSample>> = index
        .series
        .get(&at)
        .into_iter()
        .flatten()
        .filter(|readings| readings.len() >= READINGS_MIN && readings[0].class)
        .map(|readings| (readings[0].handle.as_str(), readings))
        .collect();
    let mut classes = Vec::new();
    for readings in all.values().filter(|readings| occupied(readings) > 0.0) {
        let backlog = mean(readings.iter().map(|s| s.backlog_bytes));
        let mut ceilings = Vec::new();
        let mut here = *readings;
        // Parents form no circle, but what was read may.
        for _ in 0..all.len() {
            let class = here[here.len() - 1];
            let ceiling = class.rate_bytes.unwrap_or(0) as f64;
            ceilings.push(Ceiling { class, sent: sent(index.seconds(at), here), ceiling });
            let Some(above) = all.get(class.parent.as_str()) else { break };
            here = *above;
        }
        classes.push(Class { occupied: occupied(readings), backlog, ceilings });
    }
    classes
}
