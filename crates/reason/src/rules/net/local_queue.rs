//! net.local_queue: packets wait in a queue of this host that never empties.
//!
//! The first packet behind a full queue waits for all of it: 127 full frames at 5 Mbit/s are 303 ms. The queue
//! stands if its least time in (almost) every tenth of a second is above CoDel's target, and the kernel's own
//! backlog agrees. To blame is whoever fills it; where everybody waits behind his own packets alone, the rate; and
//! where netem holds each packet for a set time that is most of what they wait, that setting, whoever sends.
//! The victims are found by their flows, because a program that waits for a reply looks like an idle one.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy, Severity};
use crate::facts::{QdiscFlow, QdiscSample, ThreadRef};
use crate::measure::Measures;
use crate::rules::old::net::{self, Losses, Queue};
use crate::rules::old::{Rule, Verdict, culprit, words};

/// A flow with at least this part of the bytes fills the queue.
const FILLS: f64 = 0.5;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
    code: "net.local_queue",
    title: "A packet queue of this host never empties",
    theory: "What leaves by an interface passes its queueing discipline. If more is sent than the shaper or the \
             link lets through, the queue fills and stays full; every packet, also that of an interactive \
             program, then waits for all packets before it: length divided by rate (bufferbloat). netem, which plays a \
             slow line, holds each packet for a set time, however few they are.",
    needs: &[
        "in four of five tenths of a second even the quickest packet waited longer than 5 ms (CoDel's target) and \
         than two full frames take",
        "the kernel's backlog of the discipline is not zero in four of five readings",
        "a flow of the target waits in it",
    ],
    refuted_by: &[
        Refutation::new("the queue empties now and then", ""),
        Refutation::new("a class below it is at its own ceiling", ""),
    ],
    remedies: &[
        "put fq_codel in place of the plain queue: flows no longer wait for each other",
        "slow the flow that fills it",
        "raise the shaper's rate",
        "take netem's delay away, if that is what they wait for",
    ],
    stories: &["S0.12", "S0.13", "S0.15"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// Who sends how much through a queue.
struct Sender<'a> {
    thread: Option<ThreadRef>,
    bytes: u64,
    flows: Vec<&'a QdiscFlow>,
}

impl Sender<'_> {
    fn name(&self) -> String {
        match (&self.thread, self.flows.first()) {
            (Some(thread), _) => words::who(thread),
            (None, Some(flow)) => format!("{} {} to {}", flow.protocol, flow.local, flow.remote),
            _ => "nobody".into(),
        }
    }
}

fn senders<'a>(queue: &Queue<'a>) -> Vec<Sender<'a>> {
    let mut senders: Vec<Sender<'a>> = Vec::new();
    for flow in &queue.flows {
        let pid = flow.process.as_ref().map(|p| p.pid);
        let same = |s: &&mut Sender<'a>| pid.is_some() && s.thread.as_ref().map(|t| t.pid) == pid;
        let bytes = net::flow_bytes(flow);
        match senders.iter_mut().find(same) {
            Some(sender) => {
                sender.bytes += bytes;
                sender.flows.push(flow);
            }
            None => {
                senders.push(Sender { thread: flow.process.clone(), bytes, flows: vec![flow] });
            }
        }
    }
    senders.sort_by_key(|s| std::cmp::Reverse(s.bytes));
    senders
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let queues = net::standing_queues(measures.model);
    let streams = net::streams(measures, &queues);
    let plain = queues.iter().enumerate().filter(|(_, queue)| queue.ceiling.is_none());
    plain.filter_map(|(at, queue)| finding(measures, at, queue, &streams)).collect()
}

/// What a process loses: its writers' waits, or the time of its packets, never more than the look.
fn losses(
    measures: &Measures<'_>,
    at: usize,
    queue: &Queue<'_>,
    streams: &[net::Stream<'_>],
) -> Losses {
    let wall = measures.model.seconds();
    let mut losses = Losses::new();
    for sender in senders(queue) {
        let Some(thread) = sender.thread else { continue };
        // Behind a set delay whose segments are lost is told by the losses.
        let lossy = |s: &net::Stream<'_>| {
            s.endpoint.process.pid == thread.pid && s.wrong == Some(net::Wrong::Loss)
        };
        if streams.iter().any(lossy) {
            continue;
        }
        let waited: f64 = sender.flows.iter().map(|f| f.sojourn_ns as f64 / 1e9).sum();
        losses.insert(thread.pid, (thread, waited.min(wall)));
    }
    for stream in streams.iter().filter(|s| s.wrong == Some(net::Wrong::Queue(at))) {
        let process = &stream.endpoint.process;
        let loss = losses.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
        loss.1 = loss.1.max(stream.lost);
    }
    losses
}

fn finding(
    measures: &Measures<'_>,
    at: usize,
    queue: &Queue<'_>,
    streams: &[net::Stream<'_>],
) -> Option<Finding> {
    let senders = senders(queue);
    let total: u64 = senders.iter().map(|s| s.bytes).sum();
    let first = senders.first()?;
    let share = first.bytes as f64 / total.max(1) as f64;
    let mut losses = net::in_target(measures, losses(measures, at, queue, streams));
    let others: Losses = losses
        .iter()
        .filter(|(pid, _)| first.thread.as_ref().is_none_or(|t| t.pid != **pid))
        .map(|(pid, loss)| (*pid, loss.clone()))
        .collect();
    let neighbour = share >= FILLS && !others.is_empty() && !queue.is_delay();
    if neighbour {
        losses = others;
    } else if !queue.is_delay() {
        // Behind his own packets nobody suffers who does not wait to write more.
        let writes = |pid: &u32| streams.iter().any(|s| s.endpoint.process.pid == *pid);
        losses.retain(|pid, _| senders.len() > 1 || writes(pid));
    }
    if losses.is_empty() {
        return None;
    }
    let suffering: Vec<&QdiscFlow> = queue
        .flows
        .iter()
        .copied()
        .filter(|f| f.process.as_ref().is_some_and(|p| losses.contains_key(&p.pid)))
        .collect();
    let seconds = mean_seconds(&suffering).unwrap_or(queue.seconds);
    let interface = &queue.last.interface;
    let (_, (victim, _)) = losses.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let rate = queue.rate(measures.model.seconds());
    let stands = format!(
        "{} ({}) {} in the {} of {interface}, which sends {}",
        words::count(queue.packets.round().max(1.0) as usize, "packet", "packets"),
        words::bytes(queue.bytes),
        if queue.packets < 1.5 { "waits" } else { "wait" },
        queue.last.kind,
        net::bits(rate)
    );
    let told = match queue.delay.filter(|_| queue.is_delay()) {
        Some(held) => by_delay(queue, held, victim, seconds, &stands),
        None if neighbour => by_neighbour(measures, queue, first, share, victim, seconds, &stands),
        None => by_rate(queue, victim, seconds, &stands),
    };
    let Told { title, text, blamed } = told;
    let verdict = Verdict {
        title,
        text,
        confidence: if queue.sojourn.is_some() { 0.97 } else { 0.85 },
        culprit: blamed,
        evidence: evidence(queue, seconds, rate),
        remedy: remedy(measures, queue, neighbour.then_some(first)),
    };
    let mut finding = net::finding(&RULE, measures, queue.object(), &losses, None, verdict);
    // A stream of packets overlaps its own delays: below a tenth of a second people and calls cope
    // (ITU-T G.114 allows 150 ms one way).
    if seconds < 0.1 && finding.severity == Severity::Critical {
        finding.severity = Severity::Warning;
    }
    Some(finding)
}

/// What is said of a queue, and who is to blame for it.
struct Told {
    title: String,
    text: String,
    blamed: Culprit,
}

/// netem holds each packet for as long as it is set to.
fn by_delay(
    queue: &Queue<'_>,
    held: &QdiscSample,
    victim: &ThreadRef,
    seconds: f64,
    stands: &str,
) -> Told {
    let interface = &queue.last.interface;
    let delayed = delayed(queue, held);
    Told {
        title: format!(
            "what {} sends is held for {} on {interface}: netem is set to delay it",
            words::who(victim),
            words::seconds(seconds)
        ),
        // Of one who sends seldom, few stand there at a time: that number would read as no fault at all.
        text: if queue.packets < 1.0 { delayed } else { format!("{stands}. {delayed}") },
        blamed: Culprit::setting(
            format!("netem delay {} of {interface}", words::seconds(queue.delay_seconds())),
            format!("tc qdisc {} dev {interface}", held.handle),
        ),
    }
}

/// Somebody else fills it.
fn by_neighbour(
    measures: &Measures<'_>,
    queue: &Queue<'_>,
    first: &Sender<'_>,
    share: f64,
    victim: &ThreadRef,
    seconds: f64,
    stands: &str,
) -> Told {
    let by = first.name();
    Told {
        title: format!(
            "packets of {} wait {} behind {by} on {}",
            words::who(victim),
            words::seconds(seconds),
            queue.last.interface
        ),
        text: format!(
            "{stands}; the queue never empties. {} of what leaves is {by}'s.",
            words::percent(share)
        ),
        blamed: match &first.thread {
            Some(thread) => culprit(measures, thread),
            None => Culprit::peer(by, first.flows[0].local.to_string()),
        },
    }
}

/// Everybody waits behind his own packets: more is sent than the rate lets through.
fn by_rate(queue: &Queue<'_>, victim: &ThreadRef, seconds: f64, stands: &str) -> Told {
    let (last, interface) = (queue.last, &queue.last.interface);
    Told {
        title: format!(
            "what {} sends waits {} in the queue of {interface}",
            words::who(victim),
            words::seconds(seconds)
        ),
        text: format!(
            "{stands}; the queue never empties. More is sent than its rate lets through."
        ),
        blamed: Culprit::setting(
            format!("{} of {interface}", last.kind),
            format!("tc qdisc {} dev {interface}", last.handle),
        ),
    }
}

/// What the setting does, and what is not due to it.
fn delayed(queue: &Queue<'_>, held: &QdiscSample) -> String {
    let jitter = held.netem.as_ref().map_or(0, |netem| netem.jitter_ns) as f64 / 1e9;
    let more_or_less = match jitter {
        0.0 => String::new(),
        jitter => format!(", {} more or less", words::seconds(jitter)),
    };
    let mut text = format!(
        "Every packet is held for {}{more_or_less}, because netem ({}) is told to; on an empty line it would be too.",
        words::seconds(queue.delay_seconds()),
        held.handle
    );
    let rest = queue.seconds - queue.delay_seconds();
    if rest > jitter + net::TARGET_NS / 1e9 {
        text += &format!(" The other {} they wait for each other.", words::seconds(rest));
    }
    if held.limit.is_some_and(|limit| held.backlog_packets >= limit) {
        text += " It holds as many as it has room for, and drops the others.";
    }
    text
}

fn mean_seconds(flows: &[&QdiscFlow]) -> Option<f64> {
    let packets: u64 = flows.iter().map(|f| f.packets).sum();
    let sum: u64 = flows.iter().map(|f| f.sojourn_ns).sum();
    (packets > 0).then(|| sum as f64 / packets as f64 / 1e9)
}

fn evidence(queue: &Queue<'_>, seconds: f64, rate: f64) -> Vec<Evidence> {
    let events = "qdisc_enqueue to qdisc_dequeue";
    let netlink = "rtnetlink, each tenth of a second";
    let timed = if queue.sojourn.is_some() { events } else { "backlog divided by rate" };
    let mut evidence =
        vec![Evidence::new("mean time of those packets in the queue", seconds * 1e3, "ms", timed)];
    if let Some(least) = queue.sojourn.and_then(|s| s.sojourn_ns_min_by_tenth.iter().min()) {
        let least = *least as f64 / 1e6;
        evidence.push(Evidence::new("least time of any packet", least, "ms", events));
    }
    evidence.push(Evidence::new("mean backlog", queue.packets, "packets", netlink));
    evidence.push(Evidence::new("mean backlog", queue.bytes, "bytes", netlink));
    let occupied = queue.occupied * 100.0;
    evidence.push(Evidence::new("readings that found a backlog", occupied, "%", netlink));
    evidence.push(Evidence::new("sent", rate, "bytes/s", events));
    if let Some(set) = queue.last.rate_bytes {
        evidence.push(Evidence::new("rate set", set as f64, "bytes/s", "rtnetlink"));
    }
    if queue.delay.is_some() {
        evidence.push(Evidence::new("delay set", queue.delay_seconds() * 1e3, "ms", "rtnetlink"));
    }
    evidence
}

fn remedy(measures: &Measures<'_>, queue: &Queue<'_>, filler: Option<&Sender<'_>>) -> Vec<Remedy> {
    let tc = net::command_in(measures.model, queue.last.netns, "tc");
    if let Some(held) = queue.delay.filter(|_| queue.is_delay()) {
        return vec![undelayed(&tc, held)];
    }
    let mut remedy = Vec::new();
    if measures.model.host.fq_codel != Some(false) {
        remedy.extend(apart(&tc, queue.last));
    }
    remedy.extend(shorter(&tc, queue, measures.model.seconds()));
    if let Some(thread) = filler.and_then(|sender| sender.thread.as_ref()) {
        remedy.push(net::pause(thread));
    }
    remedy
}

/// Where a discipline stands, as tc wants it.
fn place(last: &QdiscSample) -> String {
    if last.parent == "root" { "root".into() } else { format!("parent {}", last.parent) }
}

/// A queue for each flow in place of a plain one. Only what is put back whole can be replaced: with any other kind
/// its settings, classes or filters would be lost.
fn apart(tc: &str, last: &QdiscSample) -> Option<Remedy> {
    let device = words::shell(&last.interface);
    let limit = last.limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
    let (place, before) = match last.kind.as_str() {
        // The shaper stays; its packets queue below it.
        "tbf" => (format!("parent {}1", last.handle), format!("bfifo{limit}")),
        "pfifo_fast" => (place(last), "pfifo_fast".into()),
        "pfifo" | "bfifo" | "pfifo_head_drop" => (place(last), format!("{}{limit}", last.kind)),
        _ => return None,
    };
    Some(Remedy {
        text: "give each flow its own queue, so that a bulk flow delays only itself".into(),
        command: format!("{tc} qdisc replace dev {device} {place} fq_codel"),
        undo: format!("{tc} qdisc replace dev {device} {place} {before}"),
    })
}

/// The delay taken away. `change` keeps what it is not told, but for limit, delay, losses and duplicates.
fn undelayed(tc: &str, held: &QdiscSample) -> Remedy {
    let (Some(without), Some(with)) = (netem(tc, held, None, false), netem(tc, held, None, true))
    else {
        return Remedy {
            text: format!(
                "take netem's delay away with `tc qdisc change`, and give its loss model again, which that forgets (`{tc} \
                 qdisc show dev {}` tells it)",
                words::shell(&held.interface)
            ),
            ..Remedy::default()
        };
    };
    Remedy {
        text: "take the delay away; what else netem does stays".into(),
        command: without,
        undo: with,
    }
}

/// The command that sets netem to what it is, with another limit or without its delay. None where its words are not
/// enough.
fn netem(tc: &str, last: &QdiscSample, limit: Option<u64>, delay: bool) -> Option<String> {
    let netem = last.netem.as_ref()?;
    let time = |ns: u64| match ns {
        _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    };
    let mut command = format!(
        "{tc} qdisc change dev {} {} handle {} netem limit {}",
        words::shell(&last.interface),
        place(last),
        last.handle,
        limit.or(last.limit)?
    );
    if delay && netem.delay_ns > 0 {
        command += &format!(" delay {}", time(netem.delay_ns));
        if netem.jitter_ns > 0 {
            command += &format!(" {}", time(netem.jitter_ns));
        }
        // Without a delay nothing can overtake, and tc refuses it.
        if !netem.reorder.is_empty() {
            command += &format!(" {}", netem.reorder);
        }
    }
    let other = netem.other.as_ref()?;
    Some(if other.is_empty() { command } else { format!("{command} {other}") })
}

/// A full Ethernet frame, bytes.
const FRAME_BYTES: u64 = 1514;

/// Where flows cannot be kept apart, a queue no longer than a good one: two frames, or what leaves within CoDel's target,
/// and half a frame more, in which small packets still find room when a full one does not. netem counts packets, those
/// that it holds for its delay too.
fn shorter(tc: &str, queue: &Queue<'_>, seconds: f64) -> Option<Remedy> {
    let last = queue.last;
    let (rate, limit) = (last.rate_bytes?, last.limit?);
    let wanted = net::TARGET_NS / 1e9 + queue.delay_seconds();
    let frames = ((queue.rate(seconds) * wanted / FRAME_BYTES as f64).ceil() as u64).max(2);
    let bytes = frames * FRAME_BYTES + FRAME_BYTES / 2;
    let tbf = |bytes: u64| {
        Some(format!(
            "{tc} qdisc change dev {} {} handle {} tbf rate {}bit burst {} limit {bytes}",
            words::shell(&last.interface),
            place(last),
            last.handle,
            rate * 8,
            last.burst_bytes?
        ))
    };
    let (short, length, change): (u64, String, &dyn Fn(u64) -> Option<String>) =
        match last.kind.as_str() {
            "tbf" => (bytes, words::bytes(bytes as f64), &tbf),
            "netem" => {
                (frames, format!("{frames} packets"), &|limit| netem(tc, last, Some(limit), true))
            }
            _ => return None,
        };
    if short >= limit {
        return None;
    }
    Some(Remedy {
        text: format!(
            "or keep the queue short, {length}: nobody waits long in it, and what is sent too fast is dropped (TCP slows down by \
             that, a UDP flood loses packets)"
        ),
        command: change(short)?,
        undo: change(limit)?,
    })
}
