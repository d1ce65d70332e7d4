//! What holds network traffic back: queues and streams as all network cases see them, and the one decision
//! between their causes.
//!
//! The order is the order of proof. A queue of this host that never empties explains whatever passes it. A window
//! that the receiver keeps closed is counted by the sender's own kernel (chrono, as `ss -ti` shows it). Many
//! segments sent again are losses; the sender's own buffer is counted like the window. A round trip that has
//! grown while nothing waits here is a queue beyond this host; fewer losses come last, for it makes them too. A stream that nothing of this explains stays silent.
//!
//! Must not: claim a stream whose writer does not wait and which has nothing outstanding. Rejected: shares of
//! counters since the connection began, where the begin of the look is known.

pub(crate) mod accept_queue;
pub(crate) mod class_ceiling;
pub(crate) mod dns_timeout;
pub(crate) mod local_queue;
pub(crate) mod loss;
pub(crate) mod receiver_limited;
pub(crate) mod remote_queue;
pub(crate) mod sendbuf_limited;
pub(crate) mod slow_peer;
pub(crate) mod socket_full;
#[cfg(test)]
mod tests;
pub(crate) mod udp_flood;

use crate::answer::report::{
    Finding, Impact, Link as ChainLink, ObjectName, Remedy, Severity, Victim, Who,
};
use crate::facts::*;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{Model, Series};
use crate::rules::old::{Rule, Verdict};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// A good queue is empty now and then; one whose least time stays above this stands (CoDel, RFC 8289).
pub const TARGET_NS: f64 = 5e6;
/// Part of the readings that must agree.
const MOST: f64 = 0.8;
/// A limiter counts as met from here: buckets, headers and readings blur it.
const MET: f64 = 0.85;
/// Part of the window with data outstanding from which a stream without a waiting writer has demand.
const BUSY: f64 = 0.5;

/// A class of a queueing discipline that sends as fast as its ceiling allows, and has more to send.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling<'a> {
    /// The class whose ceiling it is: the queue's own, or one above it.
    pub class: &'a QdiscSample,
    /// Bytes a second that it sent.
    pub sent: f64,
    /// Its ceiling, bytes a second.
    pub ceiling: f64,
    /// Mean bytes that waited below it.
    pub backlog: f64,
}

/// A local packet queue that never empties.
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
    /// Readings in which something waited, part of all.
    pub occupied: f64,
    /// The class that holds it back, if it is one.
    pub ceiling: Option<Ceiling<'a>>,
    /// The discipline that holds every packet for a set time: netem, itself or below it.
    pub delay: Option<&'a QdiscSample>,
    /// Flows through it, most bytes first.
    pub flows: Vec<&'a QdiscFlow>,
}

impl Queue<'_> {
    /// Its interface.
    pub fn object(&self) -> ObjectName {
        ObjectName::new("interface", &self.last.interface).with_id(&*self.last.handle)
    }

    /// The set time for which each packet is held, seconds.
    pub fn delay_seconds(&self) -> f64 {
        delay_seconds(self.delay)
    }

    /// Its packets wait for a set time rather than for each other.
    pub fn is_delay(&self) -> bool {
        is_most(self.delay, self.seconds)
    }

    /// Bytes a second that left it.
    pub fn rate(&self, seconds: f64) -> f64 {
        self.flows.iter().map(|f| flow_bytes(f)).sum::<u64>() as f64 / seconds.max(1e-9)
    }
}

fn delay_seconds(delay: Option<&QdiscSample>) -> f64 {
    delay.and_then(|s| s.netem.as_ref()).map_or(0.0, |netem| netem.delay_ns as f64 / 1e9)
}

/// A set delay is most of the time that packets spend.
fn is_most(delay: Option<&QdiscSample>, seconds: f64) -> bool {
    delay_seconds(delay) > seconds / 2.0
}

/// Bytes of a flow, however its packets were seen.
pub fn flow_bytes(flow: &QdiscFlow) -> u64 {
    flow.bytes.saturating_add(flow.untimed_bytes)
}

/// Mean time of a flow's packets in its queue, seconds, if any was measured.
pub fn flow_seconds(flow: &QdiscFlow) -> Option<f64> {
    (flow.packets > 0).then(|| flow.sojourn_ns as f64 / flow.packets as f64 / 1e9)
}

fn in_window<'a>(model: &Model, series: &'a Series<QdiscSample>) -> Vec<&'a QdiscSample> {
    let inside = |at: &Ns| *at >= model.begin_ns && *at <= model.end_ns;
    series.iter().filter(|(at, _)| inside(at)).map(|(_, sample)| sample).collect()
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.map(|v| v as f64).sum::<f64>() / count
}

/// Every queue of the host that stands for the whole window.
pub fn standing_queues(model: &Model) -> Vec<Queue<'_>> {
    let roots = model.qdiscs.iter().filter(|(_, series)| {
        series.first().is_some_and(|(_, s)| !s.class && s.kind != "noqueue" && s.kind != "ingress")
    });
    let mut queues: Vec<Queue<'_>> =
        roots.filter_map(|(_, series)| standing(model, series)).collect();
    // The root's packets are counted at its leaves again: the outermost tells it.
    let outer: BTreeSet<(u32, u32)> = queues
        .iter()
        .filter(|q| q.last.parent == "root")
        .map(|q| (q.last.netns, q.last.index))
        .collect();
    queues.retain(|q| q.last.parent == "root" || !outer.contains(&(q.last.netns, q.last.index)));
    queues
}

fn standing<'a>(model: &'a Model, series: &'a Series<QdiscSample>) -> Option<Queue<'a>> {
    let samples = in_window(model, series);
    let (first, last) = (*samples.first()?, *samples.last()?);
    if samples.len() < 3 {
        return None;
    }
    let occupied =
        samples.iter().filter(|s| s.backlog_packets > 0).count() as f64 / samples.len() as f64;
    let bytes = mean(samples.iter().map(|s| s.backlog_bytes));
    let rate = last.bytes.saturating_sub(first.bytes) as f64 / model.seconds().max(1e-9);
    let sojourn = model.sojourns.iter().find(|s| {
        s.netns == last.netns && s.index == last.index && s.handle == last.handle && s.packets > 0
    });
    let seconds = match sojourn {
        Some(sojourn) => sojourn.sojourn_ns as f64 / sojourn.packets as f64 / 1e9,
        None if rate > 0.0 => bytes / rate,
        None => return None,
    };
    // Two full frames at the rate that it has always wait for each other,
    // and a discipline that manages its queue lets it stand for a while.
    let managed = matches!(&*last.kind, "fq_codel" | "codel" | "cake" | "fq_pie" | "pie");
    let least = if managed { 3.0 * TARGET_NS } else { TARGET_NS };
    let delay = delay(model, last);
    // What is held for a set time waits for no frame, however seldom one is sent.
    let is_held = sojourn.is_some() && is_most(delay, seconds);
    let frames = if is_held { 0.0 } else { 2.0 * 1514.0 / rate.max(1.0) * 1e9 };
    let target = frames.max(least);
    let never_empty = sojourn.is_none_or(|sojourn| {
        let tenths = &sojourn.sojourn_ns_min_by_tenth;
        let above = tenths.iter().filter(|least| **least as f64 > target).count() as f64;
        !tenths.is_empty() && above >= MOST * tenths.len() as f64
    });
    let ceiling = ceiling(model, last);
    // Below classes each flow has a queue of its own: the packets of the others come through at once.
    let stands = if ceiling.is_some() { seconds * 1e9 > TARGET_NS / 5.0 } else { never_empty };
    // Who sends seldom leaves it empty in between, and waits out the set time with each packet all the same.
    if (occupied < MOST && !is_held) || !stands || (ceiling.is_none() && seconds * 1e9 < target) {
        return None;
    }
    let mut flows: Vec<&QdiscFlow> = model
        .flows
        .iter()
        .filter(|f| {
            f.netns == last.netns && f.interface == last.interface && f.handle == last.handle
        })
        .collect();
    flows.sort_by_key(|f| std::cmp::Reverse(flow_bytes(f)));
    let packets = mean(samples.iter().map(|s| s.backlog_packets));
    Some(Queue { last, sojourn, seconds, packets, bytes, occupied, ceiling, delay, flows })
}

fn backlogged(samples: &[&QdiscSample]) -> bool {
    let with = samples.iter().filter(|s| s.backlog_packets > 0).count() as f64;
    with >= MOST * samples.len() as f64
}

/// The longest set delay that packets of an interface wait out.
fn delay<'a>(model: &'a Model, root: &QdiscSample) -> Option<&'a QdiscSample> {
    let here = |s: &QdiscSample| s.netns == root.netns && s.index == root.index && !s.class;
    let delays = model.qdiscs.values().filter_map(|series| {
        let samples = in_window(model, series);
        let last = samples.last().copied().filter(|s| here(s))?;
        samples.iter().find(|s| s.backlog_packets > 0)?;
        Some((last.netem.as_ref()?.delay_ns, last))
    });
    let longest = delays.max_by_key(|(delay_ns, _)| *delay_ns);
    longest.filter(|(delay_ns, _)| *delay_ns > 0).map(|(_, sample)| sample)
}

/// The class with a backlog whose own ceiling, or that of a class above it, is met: the greatest backlog's.
fn ceiling<'a>(model: &'a Model, root: &QdiscSample) -> Option<Ceiling<'a>> {
    let classes: BTreeMap<&str, Vec<&QdiscSample>> = model
        .qdiscs
        .iter()
        .filter(|((netns, interface, _), _)| *netns == root.netns && *interface == root.interface)
        .map(|((_, _, handle), series)| (handle.as_str(), in_window(model, series)))
        .filter(|(_, samples)| samples.len() >= 3 && samples[0].class)
        .collect();
    let sent = |samples: &[&QdiscSample]| {
        let bytes = samples[samples.len() - 1].bytes.saturating_sub(samples[0].bytes);
        bytes as f64 / model.seconds().max(1e-9)
    };
    let mut best: Option<Ceiling<'a>> = None;
    for samples in classes.values().filter(|samples| backlogged(samples)) {
        let backlog = mean(samples.iter().map(|s| s.backlog_bytes));
        let mut at = samples[samples.len() - 1];
        for _ in 0..classes.len() {
            let rate = sent(&classes[at.handle.as_str()]);
            let ceiling = at.rate_bytes.unwrap_or(0) as f64;
            if ceiling > 0.0 && rate >= MET * ceiling {
                if best.is_none_or(|b| backlog > b.backlog) {
                    best = Some(Ceiling { class: at, sent: rate, ceiling, backlog });
                }
                break;
            }
            let Some(above) = classes.get(at.parent.as_str()) else { break };
            at = above[above.len() - 1];
        }
    }
    best
}

/// What holds a stream back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// A queue of this host, by index into the standing queues.
    Queue(usize),
    /// The receiver's window.
    Receiver,
    /// A queue beyond this host.
    RemoteQueue,
    /// Segments are lost.
    Loss,
    /// The sender's own buffer.
    SendBuffer,
}

/// A TCP stream with something outstanding.
#[derive(Debug)]
pub struct Stream<'a> {
    /// The sending end.
    pub endpoint: &'a Endpoint,
    /// Its addresses.
    pub socket: &'a InetRef,
    /// Its state at the end.
    pub state: &'a SocketState,
    /// What its counters grew by within the look, or since it began if it began within.
    pub change: SocketState,
    /// Seconds that its writer lost.
    pub lost: f64,
    /// The waits of its writer, if they were seen.
    pub end: Option<&'a End>,
    /// The decision.
    pub wrong: Option<Wrong>,
}

fn change(before: Option<&SocketState>, now: &SocketState) -> SocketState {
    let zero = SocketState::default();
    let old = before.unwrap_or(&zero);
    SocketState {
        acked_bytes: now.acked_bytes.saturating_sub(old.acked_bytes),
        received_bytes: now.received_bytes.saturating_sub(old.received_bytes),
        retransmits: now.retransmits.saturating_sub(old.retransmits),
        delivered: now.delivered.saturating_sub(old.delivered),
        busy_us: now.busy_us.saturating_sub(old.busy_us),
        receiver_limited_us: now.receiver_limited_us.saturating_sub(old.receiver_limited_us),
        send_buffer_limited_us: now
            .send_buffer_limited_us
            .saturating_sub(old.send_buffer_limited_us),
        drops: now.drops.saturating_sub(old.drops),
        ..now.clone()
    }
}

/// A socket's state at the end, and what its counters grew by.
pub fn grown<'a>(model: &Model, endpoint: &'a Endpoint) -> Option<(&'a SocketState, SocketState)> {
    let state = endpoint.socket.as_ref()?;
    let before = model.endpoints_before.iter().find(|old| {
        old.process.pid == endpoint.process.pid
            && old.fd == endpoint.fd
            && old.object_ino() == endpoint.object_ino()
    });
    Some((state, change(before.and_then(|old| old.socket.as_ref()), state)))
}

/// Every TCP stream of the target that is held back, with the decision.
pub fn streams<'a>(measures: &'a Measures<'a>, queues: &[Queue<'_>]) -> Vec<Stream<'a>> {
    let model = measures.model;
    let by_ino: BTreeMap<&Object, &End> =
        measures.class(WaitClass::SocketWrite).map(|end| (&end.object, end)).collect();
    let mut seen = BTreeSet::new();
    let mut streams = Vec::new();
    for endpoint in &model.endpoints {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        if socket.protocol != "tcp" || socket.state == 10 || !seen.insert(socket.ino) {
            continue;
        }
        let Some((state, change)) = grown(model, endpoint) else { continue };
        let end = by_ino.get(&Object::Inet(socket.ino)).copied();
        let busy = change.busy_us as f64 / 1e6;
        let lost = match end {
            Some(end) => end.victims.values().map(|(_, s)| *s).fold(0.0, f64::max),
            // Written from an event loop: the loop waits for room while it waits for all else, so only
            // data that stands unsent shows the demand.
            None if endpoint.nonblocking
                && state.unsent_bytes > 0
                && busy >= BUSY * model.seconds()
                && model.in_target(&endpoint.process) =>
            {
                busy.min(model.seconds())
            }
            None => continue,
        };
        let mut stream = Stream { endpoint, socket, state, change, lost, end, wrong: None };
        stream.wrong = decide(&stream, queues, model.seconds().max(1e-9));
        streams.push(stream);
    }
    streams
}

fn decide(stream: &Stream<'_>, queues: &[Queue<'_>], seconds: f64) -> Option<Wrong> {
    let mine = |flow: &&QdiscFlow| {
        flow.socket_ino == stream.socket.ino
            || (flow.protocol == "tcp"
                && flow.local == stream.socket.local
                && flow.remote == stream.socket.remote)
    };
    let (state, change) = (stream.state, &stream.change);
    let busy = change.busy_us.max(1) as f64;
    let lossy = |share: f64| {
        change.retransmits >= 5
            && f64::from(change.retransmits) >= share * f64::from(change.delivered.max(1))
    };
    let queue = queues.iter().position(|queue| queue.flows.iter().any(mine));
    // A full queue makes losses; a set delay makes none, so they have another reason.
    if let Some(at) = queue.filter(|at| !queues[*at].is_delay() || !lossy(0.02)) {
        return Some(Wrong::Queue(at));
    }
    if change.receiver_limited_us as f64 >= 0.5 * busy {
        return Some(Wrong::Receiver);
    }
    // A queue that overflows now and then loses far less: CUBIC fills it for many round trips first.
    if lossy(0.02) {
        return Some(Wrong::Loss);
    }
    // A buffer that has room for no more than what is under way (rate times round trip): tuned by the
    // kernel it has twice that, and more. The kernel's own count (chrono) only begins at the next segment
    // sent, and misses most of it.
    let under_way = change.acked_bytes as f64 / seconds * f64::from(state.rtt_us) / 1e6;
    let all_under_way = stream.end.is_some()
        && (state.send_limit_bytes as f64) < under_way * 1.5
        && state.send_limit_bytes > 0;
    if all_under_way || change.send_buffer_limited_us as f64 >= 0.5 * busy {
        return Some(Wrong::SendBuffer);
    }
    // Three times the least and ten milliseconds: delayed acknowledgements and a busy CPU do less.
    if state.rtt_us_min > 0
        && f64::from(state.rtt_us) >= 3.0 * f64::from(state.rtt_us_min)
        && state.rtt_us - state.rtt_us_min >= 10_000
    {
        return Some(Wrong::RemoteQueue);
    }
    // From one in two hundred, loss and not the line sets the rate of Reno and CUBIC on any path of more
    // than a few milliseconds.
    if lossy(0.005) {
        return Some(Wrong::Loss);
    }
    None
}

/// Streams of one decision, by the peer's address.
pub fn by_peer<'s, 'a>(
    streams: &'s [Stream<'a>],
    wrong: Wrong,
) -> BTreeMap<std::net::SocketAddr, Vec<&'s Stream<'a>>> {
    let mut peers: BTreeMap<_, Vec<&Stream<'a>>> = BTreeMap::new();
    for stream in streams.iter().filter(|s| s.wrong == Some(wrong)) {
        peers.entry(stream.socket.remote).or_default().push(stream);
    }
    peers
}

/// The process at the other end, if it is on this host.
pub fn reader<'a>(model: &'a Model, socket: &InetRef) -> Option<&'a Endpoint> {
    model.endpoints.iter().find(|endpoint| match &endpoint.object {
        ObjectRef::Inet(other) => other.local == socket.remote && other.remote == socket.local,
        _ => false,
    })
}

/// How a person runs a command where an interface is: `tc`, `tc -n NAME`, `nsenter -t PID -n tc`.
pub fn command_in(model: &Model, netns: u32, tool: &str) -> String {
    let name = model.links.iter().find(|l| l.netns == netns).map_or("", |l| &l.netns_name);
    match name.strip_prefix("pid:") {
        _ if name.is_empty() => tool.to_string(),
        Some(pid) => format!("nsenter -t {pid} -n {tool}"),
        None if matches!(tool, "tc" | "ip") => {
            format!("{tool} -n {}", crate::rules::old::words::shell(name))
        }
        None => format!("ip netns exec {} {tool}", crate::rules::old::words::shell(name)),
    }
}

/// A file as a process sees it: in another network namespace or a container it may have an /etc of its own.
pub fn file_of(model: &Model, thread: &ThreadRef, path: &str) -> String {
    let netns = model.identity(thread).map_or(0, |known| known.netns);
    let elsewhere = model.links.iter().any(|l| l.netns == netns && !l.netns_name.is_empty());
    if elsewhere || model.container_of(thread).is_some() {
        return format!("/proc/{}/root{path}", thread.pid);
    }
    path.to_string()
}

/// Stops a process until it is continued, for who is only too loud.
pub fn pause(who: &ThreadRef) -> Remedy {
    Remedy {
        text: format!(
            "pause {}: it sends nothing more, and does nothing else, until it is continued",
            crate::rules::old::words::who(who)
        ),
        command: format!("kill -STOP {}", who.pid),
        undo: format!("kill -CONT {}", who.pid),
    }
}

/// A rate as tc writes it.
pub fn bits(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    match bits {
        _ if bits >= 1e9 => {
            format!("{:.4}", bits / 1e9).trim_end_matches('0').trim_end_matches('.').to_string()
                + "gbit"
        }
        _ if bits >= 1e6 => {
            format!("{:.3}", bits / 1e6).trim_end_matches('0').trim_end_matches('.').to_string()
                + "mbit"
        }
        _ => format!("{:.0}kbit", bits / 1e3),
    }
}

/// Who loses how much, by process.
pub type Losses = BTreeMap<u32, (ThreadRef, f64)>;

/// Only those who belong to what is looked at; for a command, its own processes.
pub fn in_target(measures: &Measures<'_>, losses: Losses) -> Losses {
    let model = measures.model;
    let of_command: Option<BTreeSet<u32>> = measures.is_command().then(|| {
        measures
            .graph
            .path
            .iter()
            .flat_map(|leaf| leaf.links.iter().map(|link| link.who.pid))
            .collect()
    });
    losses
        .into_iter()
        .filter(|(pid, (thread, _))| match &of_command {
            Some(pids) => pids.contains(pid),
            None => model.in_target(thread) && *pid != model.host.own_pid,
        })
        .collect()
}

/// A finding that does not come from one cause.
pub fn finding(
    rule: &Rule,
    measures: &Measures<'_>,
    object: ObjectName,
    losses: &Losses,
    holder: Option<(&ThreadRef, ObjectName)>,
    verdict: Verdict,
) -> Finding {
    let wall = measures.wall_seconds().max(1e-9);
    let mut victims: Vec<Victim> = losses
        .iter()
        .map(|(pid, (thread, seconds))| Victim {
            pid: *pid,
            inner_pid: None,
            comm: measures.process_name(thread),
            container: measures.model.container_of(thread).map(|c| c.name.clone()),
            wait_seconds: *seconds,
        })
        .collect();
    victims.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    let lost: f64 = victims.iter().map(|v| v.wait_seconds).sum();
    let most = victims.first().map_or(0.0, |v| v.wait_seconds);
    let impact =
        Impact { wait_seconds_per_second: lost / wall, share: (most / wall).clamp(0.0, 1.0) };
    let mut chain = Vec::new();
    if let Some((thread, seconds)) = losses.values().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let waits_on = object.clone();
        chain.push(ChainLink { who: Who::thread(thread), waits_on, seconds: *seconds });
        if let Some((holder, on)) = holder {
            chain.push(ChainLink { who: Who::thread(holder), waits_on: on, seconds: *seconds });
        }
    }
    Finding {
        title: verdict.title,
        text: verdict.text,
        severity: Severity::of(&impact),
        confidence: verdict.confidence,
        object,
        culprit: verdict.culprit,
        victims,
        impact,
        chain,
        evidence: verdict.evidence,
        remedy: verdict.remedy,
        ..rule.blank()
    }
}

/// A finding on the streams to one peer: from their writers' waits where those were seen.
pub fn stream_finding(
    rule: &Rule,
    measures: &Measures<'_>,
    streams: &[&Stream<'_>],
    verdict: Verdict,
) -> Option<Finding> {
    if let Some(end) = End::merged(streams.iter().filter_map(|s| s.end)) {
        let mut finding = rule.finding(measures, &end, verdict);
        // Only where he is to blame does the reader belong to the chain: else he waits for this too.
        if streams.first().is_some_and(|s| s.wrong != Some(Wrong::Receiver)) {
            finding.chain.truncate(end.named + 1);
        }
        return Some(finding);
    }
    let mut losses = Losses::new();
    for stream in streams {
        let process = &stream.endpoint.process;
        let loss = losses.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
        loss.1 = loss.1.max(stream.lost);
    }
    let losses = in_target(measures, losses);
    let object =
        measures.model.name_of(&crate::model::object::Object::Inet(streams.first()?.socket.ino));
    (!losses.is_empty()).then(|| finding(rule, measures, object, &losses, None, verdict))
}

/// Who writes to a peer: `tcp-source 812`.
pub fn writer(streams: &[&Stream<'_>]) -> String {
    let most = streams.iter().max_by(|a, b| a.lost.total_cmp(&b.lost));
    most.map_or_else(String::new, |s| crate::rules::old::words::who(&s.endpoint.process))
}

/// Seconds lost to a peer by the one who loses most.
pub fn lost(streams: &[&Stream<'_>]) -> f64 {
    streams.iter().map(|s| s.lost).fold(0.0, f64::max)
}

/// Bytes a second that got through.
pub fn throughput(measures: &Measures<'_>, streams: &[&Stream<'_>]) -> f64 {
    let bytes: u64 = streams.iter().map(|s| s.change.acked_bytes).sum();
    bytes as f64 / measures.model.seconds().max(1e-9)
}

/// Growth of a protocol counter of a network namespace over the look.
pub fn counter_growth(model: &Model, netns: u32, name: &str) -> Option<u64> {
    let series = model.net_counters.get(&netns)?;
    let at = |counters: &NetCounters| counters.counters.get(name).copied();
    let (first, last) = (at(&series.first()?.1)?, at(&series.last()?.1)?);
    (series.len() > 1).then(|| last.saturating_sub(first))
}

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] = &[
    &accept_queue::RULE,
    &class_ceiling::RULE,
    &dns_timeout::RULE,
    &local_queue::RULE,
    &loss::RULE,
    &receiver_limited::RULE,
    &remote_queue::RULE,
    &sendbuf_limited::RULE,
    &slow_peer::RULE,
    &socket_full::RULE,
    &udp_flood::RULE,
];
