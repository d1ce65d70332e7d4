//! net.local_queue: packets wait in a queue of this host that never empties.
//!
//! The first packet behind a full queue waits for all of it: 127 full frames at 5 Mbit/s are 303 ms. When a queue stands:
//! standing_queue.rs. To blame is whoever fills it; where everybody waits behind his own packets alone, the rate; and
//! where netem holds each packet for a set time that is most of what they wait, that setting, whoever sends.
//! The victims are found by their flows, because a program that waits for a reply looks like an idle one.
//!
//! Must not: fire where a class below the queue is at its own ceiling. Rejected: drops as a sign (a queue that stands may
//! never overflow, and one that overflows in bursts does not stand).

use crate::facts::{Link, QdiscFlow, QdiscSample, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::address_owner;
use crate::measure::packet_queue::{Queue, flow_bytes, flow_seconds};
use crate::model::words;
use crate::rules::net::losses::{self, in_target};
use crate::rules::net::queue_commands::{apart, shorter, sooner, undelayed};
use crate::rules::net::queue_senders::{Sender, carries_several, is_carried, senders};
use crate::rules::net::queued_answers::{Reader, add_to, ends_behind, readers};
use crate::rules::net::standing_queue::{
    ANSWER_BEHIND, FRAMES, MANAGED, MOST, Standing, TARGET, passed, standing,
};
use crate::rules::net::super_packets::{FRAME_HEADERS, SuperPackets, super_packets};
use crate::rules::net::ways_out::{bits, command_in, pause};
use crate::rules::net::writers::{BUSY, HEAVY_LOSS, LEAST_AGAIN, Writer, loses, writers};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

/// Part of the bytes with which a sender fills the queue.
static FILLS: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the bytes that leave the queue, from which one sender fills it",
    "chosen: more than all others together",
);
/// Time in the queue below which it is not critical.
static COPED: Threshold = Threshold::new(
    0.1,
    "s",
    "mean time of the victims' packets in the queue below which people and calls cope: a stream of packets overlaps its own \
     delays",
    "ITU-T G.114: 150 ms one way",
);

/// Part of the link's speed at which it is the link that lets no more through.
static LINE: Threshold = Threshold::new(
    0.9,
    "1",
    "part of the link's speed that leaves the queue, from which the link and not a shaper holds the rest",
    "Ethernet: frames of 1500 bytes have 95 % of the line for themselves, shorter ones less",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        Refutation::new("the queue empties now and then", "a_queue_that_empties_is_none"),
        Refutation::new(
            "a class below it is at its own ceiling",
            "a_queue_below_a_class_at_its_ceiling_is_the_classs",
        ),
        Refutation::new(
            "many segments are lost behind a set delay, which loses none",
            "losses_behind_a_set_delay_are_no_queue",
        ),
    ],
    remedies: &[
        "put fq_codel in place of the plain queue: flows no longer wait for each other",
        "send frame by frame (TSO and GSO off), where single packets are so long that one holds up the next",
        "slow the flow that fills it",
        "raise the shaper's rate",
        "take netem's delay away, if that is what they wait for",
    ],
    stories: &["S0.12", "S0.13", "S0.15"],
    thresholds: &[
        &TARGET,
        &MANAGED,
        &FRAMES,
        &MOST,
        &FILLS,
        &COPED,
        &ANSWER_BEHIND,
        &BUSY,
        &HEAVY_LOSS,
        &LEAST_AGAIN,
        &LINE,
        &FRAME_HEADERS,
    ],
    finds: Finds::Look(find),
};

/// Bytes of a megabit.
const BYTES_OF_MEGABIT: f64 = 125_000.0;

/// Packets from which on they are spoken of in the plural.
const SEVERAL: f64 = 1.5;

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let standing = standing(measures);
    let writers = writers(measures, ends);
    let plain = standing.iter().filter(|one| one.held_by.is_none());
    plain.filter_map(|one| matched(measures, ends, one, &standing, &writers)).collect()
}

/// What a process loses: its writers' waits, or the time of its packets, never more than the look.
fn lost(
    measures: &Measures<'_>,
    queue: &Queue<'_>,
    senders: &[Sender<'_>],
    mine: &[&Writer<'_>],
    readers: &[Reader<'_>],
) -> Losses {
    let look = measures.model.look.seconds();
    let mut lost = Losses::new();
    for sender in senders {
        let Some(thread) = sender.thread else { continue };
        // A set delay loses nothing: who sends again behind one waits for what is lost.
        let loses_behind = queue.is_delay()
            && measures.tcp_streams.iter().any(|stream| {
                stream.endpoint.process.pid == thread.pid && loses(stream, &HEAVY_LOSS)
            });
        if !loses_behind {
            let waited: f64 = sender.flows.iter().map(|f| f.sojourn_ns as f64 / 1e9).sum();
            lost.insert(thread.pid, (thread.clone(), waited.min(look)));
        }
    }
    for writer in mine {
        let process = &writer.stream.endpoint.process;
        let loss = lost.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
        loss.1 = loss.1.max(writer.lost);
    }
    add_to(&mut lost, readers);
    lost
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    one: &Standing<'m>,
    standing: &[Standing<'m>],
    writers: &[Writer<'m>],
) -> Option<Match<'m>> {
    let queue = one.queue;
    let passes = |it: &&Writer<'m>| passed(standing, it.stream).is_some_and(|q| q.at == one.at);
    let mine: Vec<&Writer<'m>> = writers.iter().filter(passes).collect();
    let senders = senders(queue);
    let first = senders.first()?;
    let total: u64 = senders.iter().map(|s| s.bytes).sum();
    let share = first.bytes as f64 / total.max(1) as f64;
    let readers = readers(measures, queue, &mine);
    let reads = |pid: u32| readers.iter().filter(move |it| it.process.pid == pid);
    let mut lost = in_target(measures, lost(measures, queue, &senders, &mine, &readers));
    let mut others = lost.clone();
    // Who reads what fills the queue waits behind his own packets as well, and so does whose packets a tunnel's program carries.
    others.retain(|pid, _| {
        first.thread.is_none_or(|t| t.pid != *pid)
            && !reads(*pid).any(|it| it.reads_of(&first.flows))
            && !is_carried(measures, &mine, *pid, first.thread)
    });
    let neighbour = share >= FILLS.value && !others.is_empty() && !queue.is_delay();
    if neighbour {
        // Who waits for another within the tunnel loses as well, though the title is not of him.
        let is_within = |pid| carries_several(measures, &mine, pid, first.thread);
        lost.retain(|pid, _| others.contains_key(pid) || is_within(*pid));
    } else if !queue.is_delay() {
        // Behind his own packets nobody suffers who does not wait to write more.
        let writes = |pid: &u32| writers.iter().any(|w| w.stream.endpoint.process.pid == *pid);
        let is_read = |pid: &u32| reads(*pid).next().is_some();
        lost.retain(|pid, _| senders.len() > 1 || writes(pid) || is_read(pid));
    }
    let Some((victim, _)) = losses::most(if neighbour { &others } else { &lost }) else {
        return (share >= FILLS.value).then(|| passing(measures, queue, &senders, share)).flatten();
    };
    let suffering = flows_of(queue, &lost, &readers);
    let seconds = flow_seconds(&suffering).unwrap_or(queue.seconds);
    let mut waited = Waited::new(measures, queue, words::who(victim), seconds);
    let sends = |pid| senders.iter().any(|it| it.thread.is_some_and(|thread| thread.pid == pid));
    waited.is_read = !sends(victim.pid) && reads(victim.pid).next().is_some();
    waited.carrier = first.thread.filter(|by| is_carried(measures, &mine, victim.pid, Some(*by)));
    let read = reads(victim.pid).flat_map(|it| it.flows.iter().copied()).collect();
    let own = if waited.is_read { read } else { first.flows_of(measures, victim.pid) };
    waited.is_alone = is_only(&own, total);
    if !is_sent_here(measures, queue, first) {
        waited.joined = None;
    }
    let filler = neighbour.then_some(first);
    let (said, proof) = match (queue.delay.filter(|_| queue.is_delay()), filler) {
        (Some(held), _) => (waited.by_delay(held), Proof::Read),
        (None, Some(filler)) => (waited.by_neighbour(measures, filler, share), waited.proof()),
        (None, None) => (waited.by_rate(), waited.proof()),
    };
    let wording = Wording {
        title: said.title,
        text: said.text,
        evidence: waited.evidence(),
        remedy: remedy(measures, &waited, filler),
    };
    let matched = Match::new(said.blamed, proof, move |_| wording.clone());
    let mut matched = losses::of_measure(measures, matched, queue.object(), lost, None);
    if waited.seconds < COPED.value {
        matched.severity_max = matched.severity_max.min(Severity::Warning);
    }
    let claimed = claimed(measures, ends, queue, (&mine, &readers)).into_iter();
    Some(claimed.fold(matched, |matched, at| matched.claiming(at, None)))
}

/// Whether it is one flow that fills the queue: of several a small one waits behind a great one, whoever sends both.
fn is_only(own: &[&QdiscFlow], total: u64) -> bool {
    matches!(own, [it] if flow_bytes(it) as f64 >= FILLS.value * total as f64)
}

/// What those who lose send through a queue, and what is sent to them.
fn flows_of<'m>(queue: &Queue<'m>, lost: &Losses, readers: &[Reader<'m>]) -> Vec<&'m QdiscFlow> {
    let is_read = |flow: &'m QdiscFlow| {
        let mut his = readers.iter().filter(|it| lost.contains_key(&it.process.pid));
        his.any(|it| it.reads_of(&[flow]))
    };
    let is_sent = |flow: &QdiscFlow| {
        flow.process.as_ref().is_some_and(|process| lost.contains_key(&process.pid))
    };
    queue.flows.iter().copied().filter(|flow| is_sent(flow) || is_read(flow)).collect()
}

/// The ends that a queue explains: waits for room, for an answer whose question waits in it, and for what is read from it.
fn claimed(
    measures: &Measures<'_>,
    ends: &[End],
    queue: &Queue<'_>,
    (mine, readers): (&[&Writer<'_>], &[Reader<'_>]),
) -> Vec<usize> {
    let mut claimed: Vec<usize> =
        mine.iter().filter_map(|writer| writer.end.map(|(at, _)| at)).collect();
    claimed.extend(ends_behind(measures, ends, queue, readers));
    claimed.sort_unstable();
    claimed.dedup();
    claimed
}

/// Whether a process of the queue's own namespace sends it: what comes from elsewhere was joined where it came in, and this interface's
/// settings do not part it before the queue.
fn is_sent_here(measures: &Measures<'_>, queue: &Queue<'_>, sender: &Sender<'_>) -> bool {
    let known = |by| measures.model.threads.identity(by);
    sender
        .thread
        .is_some_and(|by| known(by).is_none_or(|it| it.netns == 0 || it.netns == queue.last.netns))
}

/// What passes through this host from elsewhere waits behind a flow of which no process is here either: nobody of this host loses
/// anything, so it is said of the host alone.
fn passing<'m>(
    measures: &'m Measures<'m>,
    queue: &'m Queue<'m>,
    senders: &[Sender<'m>],
    share: f64,
) -> Option<Match<'m>> {
    let (first, others) = senders.split_first()?;
    let behind = others.iter().find(|it| it.thread.is_none() && it.flows[0].packets > 0)?;
    let of_host = measures.concerns(&ThreadRef::default());
    if first.thread.is_some() || queue.is_delay() || !of_host {
        return None;
    }
    let seconds = flow_seconds(&behind.flows).unwrap_or(queue.seconds);
    let waited = Waited { joined: None, ..Waited::new(measures, queue, behind.name(), seconds) };
    let said = waited.by_neighbour(measures, first, share);
    let wording = Wording {
        title: said.title,
        text: said.text
            + " Neither is sent by a process that is seen here: they pass through."
            + &whose(measures, first)
            + &whose(measures, behind),
        evidence: waited.evidence(),
        remedy: remedy(measures, &waited, Some(first)),
    };
    let matched = Match::new(said.blamed, waited.proof(), move |_| wording.clone());
    let mut matched = losses::of_measure(measures, matched, queue.object(), Losses::new(), None);
    (matched.severity_min, matched.severity_max) = (Severity::Warning, Severity::Warning);
    Some(matched)
}

/// ` 10.88.0.5 is an address of container web.`, of a sender that a namespace of this host is.
fn whose(measures: &Measures<'_>, sender: &Sender<'_>) -> String {
    let ip = sender.flows[0].local.ip();
    let place = address_owner::place(measures.model, ip);
    place.map_or_else(String::new, |place| format!(" {ip} is an address of {place}."))
}

/// What is said of a queue, and who is to blame for it.
struct Said {
    title: String,
    text: String,
    blamed: Culprit,
}

/// How long whose packets wait in a queue.
struct Waited<'m> {
    queue: &'m Queue<'m>,
    victim: String,
    /// They are sent to him, and not by him.
    is_read: bool,
    /// He fills it himself, by one flow, and has no other there.
    is_alone: bool,
    /// The program of the tunnel in whose packets they go.
    carrier: Option<&'m ThreadRef>,
    seconds: f64,
    rate: f64,
    /// Its packets are joined segments.
    joined: Option<SuperPackets>,
    /// Bytes a second that its link carries, as its driver says.
    link_rate: Option<f64>,
}

impl<'m> Waited<'m> {
    fn new(measures: &'m Measures<'m>, queue: &'m Queue<'m>, victim: String, seconds: f64) -> Self {
        let model = measures.model;
        let rate = queue.flow_rate();
        let joined = super_packets(model, queue, rate).filter(|_| !queue.is_delay());
        let interface = queue.interface();
        // A device made of software says a speed that nothing keeps to.
        let is_it = |it: &&Link| (it.netns, it.index) == interface && it.kind.is_empty();
        let link = model.net.links.iter().find(is_it);
        let settings = model.net.settings.get(&interface).filter(|_| link.is_some());
        let megabits = settings.and_then(|it| it.speed_mbit);
        let link_rate = megabits.map(|it| f64::from(it) * BYTES_OF_MEGABIT);
        Self {
            queue,
            victim,
            is_read: false,
            is_alone: false,
            carrier: None,
            seconds,
            rate,
            joined,
            link_rate,
        }
    }

    fn sent(&self) -> String {
        match self.is_read {
            true => format!("what is sent to {}", self.victim),
            false => format!("what {} sends", self.victim),
        }
    }

    /// What else holds them: their length, and the link itself.
    fn besides(&self) -> String {
        let mut text = self.joined.as_ref().map_or_else(String::new, SuperPackets::text);
        if let Some(link_rate) = self.link_rate.filter(|it| self.rate >= LINE.value * it) {
            text += &format!(" Its link carries {}, and no more.", bits(link_rate));
        }
        text
    }

    /// Packet events and the kernel's backlog agree, or the backlog alone says so.
    fn proof(&self) -> Proof {
        if self.queue.sojourn.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness }
    }

    fn stands(&self) -> String {
        let queue = self.queue;
        format!(
            "{} ({}) {} in the {} of {}, which sends {}",
            words::count(queue.packets.round().max(1.0) as usize, "packet", "packets"),
            words::bytes(queue.bytes),
            if queue.packets < SEVERAL { "waits" } else { "wait" },
            queue.last.kind,
            queue.last.interface,
            bits(self.rate)
        )
    }

    /// netem holds each packet for as long as it is set to.
    fn by_delay(&self, held: &QdiscSample) -> Said {
        let (queue, interface) = (self.queue, &self.queue.last.interface);
        let delayed = delayed(queue, held);
        Said {
            title: format!(
                "{} is held for {} on {interface}: netem is set to delay it",
                self.sent(),
                words::seconds(self.seconds)
            ),
            // Of one who sends seldom, few stand there at a time: that number would read as no fault at all.
            text: match queue.packets {
                few if few < 1.0 => delayed,
                _ => format!("{}. {delayed}", self.stands()),
            },
            blamed: Culprit::setting(
                format!("netem delay {} of {interface}", words::seconds(queue.delay_seconds())),
                format!("tc qdisc {} dev {interface}", held.handle),
            ),
        }
    }

    /// Somebody else fills it.
    fn by_neighbour(&self, measures: &Measures<'_>, first: &Sender<'_>, share: f64) -> Said {
        let by = first.name();
        Said {
            title: format!(
                "packets {} {} wait {} behind {by} on {}",
                if self.is_read { "to" } else { "of" },
                self.victim,
                words::seconds(self.seconds),
                self.queue.last.interface
            ),
            text: format!(
                "{}; the queue never empties. {} of what leaves is {by}'s.{}",
                self.stands(),
                words::percent(share),
                self.besides()
            ),
            blamed: match first.thread {
                Some(thread) => culprit(measures.model, thread),
                None => Culprit::peer(by, first.flows[0].local.to_string()),
            },
        }
    }

    /// Everybody waits behind his own packets: more is sent than the rate lets through.
    fn by_rate(&self) -> Said {
        let (last, interface) = (self.queue.last, &self.queue.last.interface);
        Said {
            title: format!(
                "{} waits {} in the queue of {interface}",
                self.sent(),
                words::seconds(self.seconds)
            ),
            text: format!(
                "{}; the queue never empties. More is sent than its rate lets through.{}{}",
                self.stands(),
                self.carrier.map_or_else(String::new, |by| {
                    format!(" It goes there in the packets of the tunnel of {}.", words::who(by))
                }),
                self.besides()
            ),
            blamed: Culprit::setting(
                format!("{} of {interface}", last.kind),
                format!("tc qdisc {} dev {interface}", last.handle),
            ),
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        let queue = self.queue;
        let events = "qdisc_enqueue to qdisc_dequeue";
        let netlink = "rtnetlink, each tenth of a second";
        let timed = if queue.sojourn.is_some() { events } else { "backlog divided by rate" };
        let mean = self.seconds * 1e3;
        let mut evidence =
            vec![Evidence::new("mean time of those packets in the queue", mean, "ms", timed)];
        if let Some(least) = queue.sojourn.and_then(|s| s.sojourn_ns_min_by_tenth.iter().min()) {
            let least = *least as f64 / 1e6;
            evidence.push(Evidence::new("least time of any packet", least, "ms", events));
        }
        let occupied = queue.occupied * 100.0;
        evidence.extend([
            Evidence::new("mean backlog", queue.packets, "packets", netlink),
            Evidence::new("mean backlog", queue.bytes, "bytes", netlink),
            Evidence::new("readings that found a backlog", occupied, "%", netlink),
            Evidence::new("sent", self.rate, "bytes/s", events),
        ]);
        if let Some(set) = queue.last.rate_bytes {
            evidence.push(Evidence::new("rate set", set as f64, "bytes/s", "rtnetlink"));
        }
        if let Some(link_rate) = self.link_rate {
            let source = "ethtool: link modes";
            evidence.push(Evidence::new("speed of the link", link_rate, "bytes/s", source));
        }
        evidence.extend(self.joined.as_ref().map(SuperPackets::evidence));
        if queue.delay.is_some() {
            let delay = queue.delay_seconds() * 1e3;
            evidence.push(Evidence::new("delay set", delay, "ms", "rtnetlink"));
        }
        evidence
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
        "Every packet is held for {}{more_or_less}, because netem ({}) is set to; on an empty line it would be too.",
        words::seconds(queue.delay_seconds()),
        held.handle
    );
    let rest = queue.seconds - queue.delay_seconds();
    if rest > jitter + TARGET.value {
        text += &format!(" The other {} they wait for each other.", words::seconds(rest));
    }
    if held.limit.is_some_and(|limit| held.backlog_packets >= limit) {
        text += " It holds as many as it has room for, and drops the others.";
    }
    text
}

fn remedy(
    measures: &Measures<'_>,
    waited: &Waited<'_>,
    filler: Option<&Sender<'_>>,
) -> Vec<Remedy> {
    let queue = waited.queue;
    let tc = command_in(measures.model, queue.last.netns, "tc");
    if let Some(held) = queue.delay.filter(|_| queue.is_delay()) {
        return vec![undelayed(&tc, held)];
    }
    // Whose own bytes are all that stands there has them sent or read no sooner by a shorter queue.
    if filler.is_none() && waited.is_alone {
        let joined = waited.joined.as_ref().map(|it| it.remedy(measures.model));
        let sooner = sooner(&tc, queue, &waited.sent());
        return std::iter::once(sooner).chain(joined.filter(|_| !waited.is_read)).collect();
    }
    let mut remedy = Vec::new();
    if measures.model.look.host.fq_codel != Some(false) {
        remedy.extend(apart(&tc, queue.last));
    }
    remedy.extend(shorter(&tc, queue));
    remedy.extend(waited.joined.as_ref().map(|it| it.remedy(measures.model)));
    if let Some(thread) = filler.and_then(|sender| sender.thread) {
        remedy.push(pause(thread));
    }
    remedy
}
