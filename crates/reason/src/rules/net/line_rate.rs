//! net.line_rate: a transfer is as fast as its link, or the shaper before it, lets payload be.
//!
//! Of each frame only a part is payload, so who compares his bytes with the speed of the link always misses some per cent. Two witnesses: what the
//! socket's peer acknowledged (or sent), brought up by its headers, and the bytes that the interface or its discipline counts.
//! The link's speed is its driver's word; a shaper's rate is what it is set to.
//!
//! Must not: fire for who is a minor part of what fills the link (he waits behind the others: local_queue.rs), or believe the speed of a device
//! made of software. On a host, where nobody asked, a full link is a note, and a queue that stands comes first. Rejected: the interface's counter
//! alone (some drivers count the headers of joined segments once, none counts the gap between frames).

use crate::facts::{Endpoint, ObjectRef};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, other_end};
use crate::model::figures::bits;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::net::full_frame::{ETHERNET, Frame, WIRE_ALONE, on_wire};
use crate::rules::net::line_limits::{Limit, growth, limit, link, speed};
use crate::rules::net::queue_commands::quicker;
use crate::rules::net::standing_queue::{passed, standing};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::net::writers::{BUSY, Peer, WINDOW_SHUT, Writer, window_is_shut, writers};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// Part of what a line carries that is a full one.
static FULL: Threshold = Threshold::new(
    0.95,
    "1",
    "part of what the line lets through, headers and gaps included, from which it is full",
    "chosen: readings at both edges of a look cost two per cent",
);
/// More than this cannot be.
static MORE: Threshold = Threshold::new(
    1.1,
    "1",
    "times what the line is said to let through: where more passes, that is not its limit",
    "arithmetic: nothing sends more than the line; readings at the edges cost two per cent",
);
/// Part of what passes that is the transfer's own.
static OWN: Threshold = Threshold::new(
    0.5,
    "1",
    "part of what passes that is the transfer's own: with less, it waits for others",
    "chosen: more than all others together",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.line_rate",
    title: "A transfer is as fast as the link lets it be",
    theory: "A link carries so many bits a second, and each frame has headers: of 1538 bytes that a full Ethernet frame takes on the wire \
             1460 are payload of TCP, 1448 with timestamps, so 0.941 of the link's speed is all that a program can see (0.990 with frames of \
             9000). A shaper (tbf) counts the frame without preamble, checksum and gap. An interface counts 14 of its 38 bytes, and \
             often the headers of joined segments (GSO) once. Speeds are powers of ten; a tool that counts in 2^30 shows 7 % less.",
    needs: &[
        "a writer waits for room in a TCP socket, or a command, process or container that is explained for what a peer sends",
        "its payload and the headers of its frames are half or more of what passes",
        "what passes is 95 % or more of the link's speed (its driver's word), or of the rate of the shaper on the interface",
    ],
    refuted_by: &[
        Refutation::new("the line has room left", "a_line_with_room_left_is_not_full"),
        Refutation::new("others fill it", "a_minor_part_of_a_full_line_waits_for_the_others"),
        Refutation::new(
            "more passes than it is said to let through",
            "a_line_that_carries_more_than_is_said_has_another_limit",
        ),
        Refutation::new(
            "the device is made of software, whose speed nothing keeps to",
            "the_speed_of_a_device_of_software_is_no_limit",
        ),
        Refutation::new("the peer's window is shut", "behind_a_shut_window_the_reader_is_slow"),
        Refutation::new(
            "a queue stands before it, and nobody asked about the transfer",
            "a_queue_that_stands_before_it_is_the_answer_of_a_host_and_the_full_line_of_who_asked",
        ),
    ],
    remedies: &[
        "send less: compress, send only what has changed",
        "a faster link, or a second one",
        "raise the shaper's rate, where the line behind it carries more",
        "larger frames (MTU 9000), where every host of the link takes them: 5 % more",
    ],
    stories: &["S4.8"],
    thresholds: &[&FULL, &MORE, &OWN, &BUSY, &WINDOW_SHUT],
    finds: Finds::Look(find),
};

/// Bits of a byte.
const BITS: f64 = 8.0;
/// The usual MTU: of a larger one nothing is said.
const USUAL_MTU: u32 = 1_500;

/// Which way it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// A line that is full of somebody's payload.
struct Line<'m> {
    limit: Limit<'m>,
    way: Way,
    frame: Frame,
    /// Bytes of payload a second that are the transfer's own.
    payload: f64,
    /// Bytes a second that passed, headers and gaps included, by whichever witness saw more.
    passed: f64,
}

impl<'m> Line<'m> {
    /// If it is full, and mostly of this.
    fn full(limit: Limit<'m>, way: Way, frame: Frame, payload: f64) -> Option<Self> {
        let own = payload / frame.part();
        let passed = limit.passed.max(own);
        let is_full = passed >= FULL.value * limit.rate && passed <= MORE.value * limit.rate;
        let is_own = own >= OWN.value * passed;
        (is_full && is_own).then_some(Self { limit, way, frame, payload, passed })
    }

    /// The most that payload can be, bytes a second.
    fn most(&self) -> f64 {
        self.limit.rate * self.frame.part()
    }

    fn proof(&self) -> Proof {
        let agrees = self.limit.passed >= FULL.value * self.limit.rate;
        if agrees { Proof::TwoWitnesses } else { Proof::OneWitness }
    }

    fn culprit(&self) -> Culprit {
        let interface = &self.limit.link.name;
        match self.limit.shaper.map(|queue| queue.last) {
            Some(last) => Culprit::setting(
                format!("{} of {interface}", last.kind),
                format!("tc qdisc {} dev {interface}", last.handle),
            ),
            None => Culprit::device(interface.clone()),
        }
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut found = sending(measures, ends);
    if measures.model.look.is_asked_about() {
        found.extend(receiving(measures, ends));
    }
    found
}

/// Transfers that wait to write, by the interface that they leave by.
fn sending<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let (standing, is_asked) = (standing(measures), measures.model.look.is_asked_about());
    let look = measures.model.look.seconds();
    let mut by_interface: BTreeMap<(u32, u32), (Limit<'m>, Vec<Writer<'m>>)> = BTreeMap::new();
    for writer in writers(measures, ends) {
        let is_limited_here = !window_is_shut(writer.stream)
            && writer.stream.busy_seconds() >= BUSY.value * look
            && (is_asked || passed(&standing, writer.stream).is_none());
        let queues = writer.stream.queues.iter().map(|at| &measures.packet_queues[*at]);
        // Of several that it passes the narrowest.
        let limits = queues.filter_map(|queue| limit(measures, queue));
        let narrowest = limits.min_by(|a, b| a.rate.total_cmp(&b.rate));
        if let Some(limit) = narrowest.filter(|_| is_limited_here) {
            let at = (limit.link.netns, limit.link.index);
            by_interface.entry(at).or_insert((limit, Vec::new())).1.push(writer);
        }
    }
    let all = by_interface.into_values();
    all.filter_map(|(limit, writers)| sender(measures, limit, writers, is_asked)).collect()
}

fn sender<'m>(
    measures: &'m Measures<'m>,
    limit: Limit<'m>,
    mut writers: Vec<Writer<'m>>,
    is_asked: bool,
) -> Option<Match<'m>> {
    writers.sort_by(|a, b| b.lost.total_cmp(&a.lost));
    let (look, first) = (measures.model.look.seconds(), writers.first()?.stream);
    let rate = |writer: &Writer<'_>| {
        let busy = writer.stream.busy_seconds().min(look);
        writer.stream.change.acked_bytes as f64 / busy.max(1e-9)
    };
    let of_link = if limit.shaper.is_some() { ETHERNET } else { ETHERNET + WIRE_ALONE };
    let frame = Frame::of(first.endpoint, first.socket, limit.link.mtu, of_link)?;
    let line = Line::full(limit, Way::Out, frame, writers.iter().map(rate).sum())?;
    let peer = Peer { address: first.socket.remote, writers, is_client: false };
    let waits = format!("{} waits", peer.writer());
    let wording = wording(measures, &line, &waits, peer.lost());
    let matched = Match::new(line.culprit(), line.proof(), move |_| wording.clone());
    let mut matched = peer.claim(measures, matched, false)?;
    if let Some(queue) = line.limit.shaper {
        matched = matched.on(queue.object());
    }
    // The link does what it can: who asks is told, and nobody else is alarmed.
    let most = if is_asked { Severity::Warning } else { Severity::Note };
    matched.severity_max = matched.severity_max.min(most);
    Some(matched)
}

/// Transfers of whoever was asked about that wait for what comes in.
fn receiving<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let model = measures.model;
    let waits_elsewhere = |end: &End| {
        end.kind == EndKind::Remote && end.class == WaitClass::SocketRead && !end.victims.is_empty()
    };
    let mut candidates = ends.iter().enumerate().filter(|(_, end)| waits_elsewhere(end)).peekable();
    if candidates.peek().is_none() {
        return Vec::new();
    }
    let changes = SocketChanges::of(model);
    candidates.filter_map(|(at, end)| receiver(measures, &changes, at, end)).collect()
}

fn receiver<'m>(
    measures: &'m Measures<'m>,
    changes: &SocketChanges<'m>,
    at: usize,
    end: &'m End,
) -> Option<Match<'m>> {
    let model = measures.model;
    let Object::Inet(ino) = end.object else { return None };
    let socket = model.called.socket(ino).filter(|socket| socket.is_tcp())?;
    let is_its = |it: &&Endpoint| match &it.object {
        ObjectRef::Inet(its) => its.ino == ino,
        _ => false,
    };
    let endpoint = model.held.endpoints.iter().find(is_its)?;
    if other_end(model, socket).is_some() {
        return None;
    }
    let (_, change) = changes.of_endpoint(endpoint)?;
    let payload = change.received_bytes as f64 / model.look.seconds().max(1e-9);
    let here = model.net.settings.keys().filter(|(netns, _)| *netns == socket.netns);
    let mut lines = here.filter_map(|interface| {
        let link = link(model, *interface)?;
        let counted = growth(model, *interface, "rx_bytes")?;
        let wire = on_wire(link);
        let (rate, passed) = (speed(model, link)?, counted * wire);
        let limit = Limit { link, rate, passed, counted: Some(counted), shaper: None };
        let frame = Frame::of(endpoint, socket, link.mtu, ETHERNET + WIRE_ALONE)?;
        Line::full(limit, Way::In, frame, payload)
    });
    let line = lines.next()?;
    let wording = wording(measures, &line, &who_waits(measures, end), end.seconds);
    let mut matched = Match::new(line.culprit(), line.proof(), move |_| wording.clone());
    matched.severity_max = Severity::Warning;
    Some(matched.claiming(at, None))
}

/// In units of 1,024, as some tools show it.
fn binary(bits: f64) -> String {
    const GIBI: f64 = (1_u64 << 30) as f64;
    const MEBI: f64 = (1_u64 << 20) as f64;
    match bits / GIBI {
        gibi if gibi >= 1.0 => format!("{} Gibit/s", words::rate(gibi)),
        _ => format!("{} Mibit/s", words::rate(bits / MEBI)),
    }
}

fn wording(measures: &Measures<'_>, line: &Line<'_>, waits: &str, lost: f64) -> Wording {
    let Limit { link, rate, counted, shaper, .. } = line.limit;
    let (interface, own, most) = (&link.name, line.payload * BITS, line.most() * BITS);
    let all = bits(rate * BITS);
    let (carries, headers) = match shaper {
        Some(queue) => (
            format!("Its {} lets {all} through", queue.last.kind),
            "the others are headers of TCP, IP and Ethernet; what a wire has besides is not counted",
        ),
        None => (
            format!("Its link carries {all}"),
            "the others are headers of TCP, IP and Ethernet, checksum, preamble and gap",
        ),
    };
    let others = 1.0 - line.payload / line.frame.part() / line.passed.max(1e-9);
    let besides = match others {
        few if few < 1.0 - FULL.value => String::new(),
        part => format!(" {} of what passes is others'.", words::percent(part)),
    };
    let done = if line.way == Way::Out { "acknowledged" } else { "received" };
    Wording {
        title: format!(
            "{waits} for {interface}, which is full: {} of payload, of {} that {all} can carry",
            bits(own),
            bits(most)
        ),
        text: format!(
            "{} pass so. {carries}, and {} pass. Of each frame of {} bytes {} are payload ({headers}): payload can be {} of it, and {} \
             were {done} ({} in units of 1,024).{besides}",
            words::of_window(lost, measures.wall_seconds()),
            bits(line.passed * BITS),
            line.frame.bytes,
            line.frame.payload,
            words::percent(line.frame.part()),
            bits(own),
            binary(own),
        ),
        evidence: evidence(line, done, counted),
        remedy: remedies(measures, line),
    }
}

fn evidence(line: &Line<'_>, done: &str, counted: Option<f64>) -> Vec<Evidence> {
    let limit = &line.limit;
    let (of_rate, of_passed) = match limit.shaper {
        Some(_) => ("rate set", "rtnetlink, its own counter"),
        None => ("speed of the link", "IFLA_STATS64 and the wire's own bytes"),
    };
    let from = if limit.shaper.is_some() { "rtnetlink" } else { "ethtool: link modes" };
    let part = line.frame.part() * 100.0;
    let mut evidence = vec![
        Evidence::new(of_rate, limit.rate, "bytes/s", from),
        Evidence::new("passed, headers included", limit.passed, "bytes/s", of_passed),
        Evidence::new(format!("payload {done}"), line.payload, "bytes/s", "tcp_sock"),
        Evidence::new("the most that payload can be", line.most(), "bytes/s", "arithmetic"),
        Evidence::new("part of a full frame that is payload", part, "%", "tcp_sock mss_cache"),
    ];
    // Headers of joined segments are counted once by some drivers, a veth among them.
    evidence.extend(counted.map(|counted| {
        Evidence::new("passed, as the interface counts it", counted, "bytes/s", "IFLA_STATS64")
    }));
    evidence
}

fn remedies(measures: &Measures<'_>, line: &Line<'_>) -> Vec<Remedy> {
    let link = line.limit.link;
    let mut all = Vec::new();
    if let Some(queue) = line.limit.shaper {
        let tc = command_in(measures.model, link.netns, "tc");
        all.extend(quicker(&tc, queue.last));
    }
    let less = match line.limit.shaper {
        Some(_) => "send less: compress, or send only what has changed",
        None => {
            "send less: compress, or send only what has changed; what is sent already fills the link, so only a faster one, or a second, \
             makes it faster"
        }
    };
    all.push(Remedy::to(less));
    if line.limit.shaper.is_none() && link.mtu == USUAL_MTU {
        all.push(Remedy::to(
            "larger frames (MTU 9000), if every host of the link takes them: 5 % more payload",
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact};

    const CODE: &str = "net.line_rate";
    /// 300 Mbit/s.
    const RATE: u64 = 37_500_000;

    /// What the interface is, with what it counted a second.
    fn eth0(kind: &str, counter: &str, rate: u64) -> Vec<Fact> {
        let at = |at_ns: u64, count: u64| {
            let counters = [(counter.to_string(), count)].into_iter().collect();
            let (kind, name) = (kind.to_string(), "eth0".to_string());
            let link =
                Link { netns: 1, index: 2, name, kind, mtu: 1_500, counters, ..Link::default() };
            Fact { at_ns, body: Body::Link(link) }
        };
        vec![at(0, 7), at(LOOK_NS, 7 + rate * 5)]
    }

    fn speed_of(megabits: u32) -> Fact {
        fact(Body::LinkSettings(LinkSettings {
            netns: 1,
            index: 2,
            interface: "eth0".into(),
            speed_mbit: Some(megabits),
            ..LinkSettings::default()
        }))
    }

    /// The socket's peer acknowledged so many bytes a second.
    fn acknowledged(rate: u64) -> SocketState {
        SocketState {
            busy_us: 4_900_000,
            acked_bytes: rate * 49 / 10,
            segment_bytes: 1_448,
            send_limit_bytes: 4_000_000,
            send_window_bytes: 4_000_000,
            send_queued_bytes: 3_900_000,
            rtt_us: 5_000,
            rtt_us_min: 4_000,
            ..SocketState::default()
        }
    }

    /// A writer at a shaper which lets RATE through, and whose queue is empty now and then.
    fn shaped(passed: u64, payload: u64) -> Vec<Fact> {
        let mut facts: Vec<Fact> =
            (1..50).map(|at| qdisc(false, "1:", at % 2, RATE, passed, at)).collect();
        facts.extend(stream(acknowledged(payload)));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 1)));
        facts.extend(eth0("veth", "tx_bytes", passed));
        facts.push(look_at(TargetKind::Process, 10));
        facts
    }

    fn full_payload() -> u64 {
        RATE * 1_448 / 1_514
    }

    #[test]
    fn a_transfer_at_the_rate_of_the_shaper_is_said_with_the_arithmetic() {
        let found = findings(shaped(RATE, full_payload()));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "tbf of eth0"));
        assert_eq!(
            found[0].title,
            "sender 10 waits for eth0, which is full: 287 Mbit/s of payload, of 287 Mbit/s that 300 Mbit/s can carry"
        );
        let text = &found[0].text;
        assert!(text.contains("Of each frame of 1514 bytes 1448 are payload"), "{text}");
        assert!(text.contains("payload can be 96 % of it"), "{text}");
        assert!(text.contains("(274 Mibit/s in units of 1,024)"), "{text}");
        let tbf = "tc qdisc change dev eth0 root handle 1: tbf rate";
        let way = &found[0].remedy[0];
        let command = format!("{tbf} 600000000bit burst 3201 limit {}", 254 * 1_514);
        assert_eq!(way.command, command);
        assert_eq!(way.undo, format!("{tbf} 300000000bit burst 1601 limit {}", 127 * 1_514));
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn on_a_host_where_nobody_asked_it_is_a_note() {
        let mut facts = shaped(RATE, full_payload());
        facts.pop();
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].severity), (CODE, Severity::Note));
    }

    #[test]
    fn a_line_with_room_left_is_not_full() {
        assert!(!says(CODE, shaped(RATE * 9 / 10, full_payload() * 9 / 10)));
        assert!(says(CODE, shaped(RATE * 96 / 100, full_payload() * 96 / 100)));
    }

    #[test]
    fn a_minor_part_of_a_full_line_waits_for_the_others() {
        assert!(!says(CODE, shaped(RATE, full_payload() * 4 / 10)));
        let found = findings(shaped(RATE, full_payload() * 7 / 10));
        assert!(found[0].text.ends_with("30 % of what passes is others'."), "{}", found[0].text);
    }

    #[test]
    fn a_line_that_carries_more_than_is_said_has_another_limit() {
        assert!(!says(CODE, shaped(RATE * 2, full_payload() * 2)));
    }

    #[test]
    fn behind_a_shut_window_the_reader_is_slow() {
        let mut facts = shaped(RATE, full_payload());
        for fact in &mut facts {
            if let Body::Endpoint(Endpoint { socket: Some(state), .. }) = &mut fact.body {
                state.receiver_limited_us = 4_000_000;
            }
        }
        assert_eq!(codes(facts), ["net.receiver_limited"]);
    }

    #[test]
    fn a_queue_that_stands_before_it_is_the_answer_of_a_host_and_the_full_line_of_who_asked() {
        let standing = |target| {
            let mut facts = shaped(625_000, 625_000 * 1_448 / 1_514);
            facts.retain(|fact| !matches!(fact.body, Body::QdiscSample(_) | Body::Target(_)));
            let queue = queue(290).into_iter();
            facts.extend(queue.filter(|fact| !matches!(fact.body, Body::QdiscFlow(_))));
            facts.extend(target);
            codes(facts)
        };
        assert_eq!(standing(None), ["net.local_queue"]);
        assert_eq!(standing(Some(look_at(TargetKind::Process, 10))), [CODE]);
    }

    /// A writer at a link of 1 Gbit/s, of which the interface counts all but checksum, preamble and gap.
    fn at_link(kind: &str) -> Vec<Fact> {
        let mut facts: Vec<Fact> =
            (1..50).map(|at| qdisc(false, "1:", at % 2, 0, 123_000_000, at)).collect();
        facts.extend(stream(acknowledged(125_000_000 * 1_448 / 1_538)));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 1)));
        facts.extend(eth0(kind, "tx_bytes", 125_000_000 * 1_514 / 1_538));
        facts.extend([speed_of(1_000), look_at(TargetKind::Process, 10)]);
        facts
    }

    #[test]
    fn a_transfer_at_the_speed_of_its_link_has_no_way_out_but_to_send_less() {
        let found = findings(at_link(""));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "eth0"));
        assert!(
            found[0]
                .title
                .ends_with("941 Mbit/s of payload, of 941 Mbit/s that 1.00 Gbit/s can carry"),
            "{}",
            found[0].title
        );
        assert!(found[0].remedy.iter().all(|way| way.command.is_empty()));
    }

    #[test]
    fn the_speed_of_a_device_of_software_is_no_limit() {
        assert!(!says(CODE, at_link("veth")));
    }

    /// A command that reads what a peer elsewhere sends, so much a second.
    fn download(received: u64, counted: u64) -> Vec<Fact> {
        let far = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let state = SocketState {
            received_bytes: received * 5,
            segment_bytes: 1_448,
            ..SocketState::default()
        };
        let mut facts = vec![
            with_state(10, "client", far.clone(), state),
            wait(10, "client", "recvfrom", far, 0, 48),
            speed_of(1_000),
            look_at(TargetKind::Process, 10),
        ];
        facts.extend(eth0("", "rx_bytes", counted));
        facts
    }

    #[test]
    fn a_download_at_the_speed_of_the_link_does_not_wait_for_a_slow_peer() {
        let full = 125_000_000 * 1_448 / 1_538;
        let found = findings(download(full, 125_000_000 * 1_514 / 1_538));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "eth0"));
        assert!(found[0].text.contains("were received"), "{}", found[0].text);
        assert_eq!(codes(download(full / 2, 60_000_000)), ["net.slow_peer"]);
        assert_eq!(codes(download(full / 4, 123_000_000)), ["net.slow_peer"], "others fill it");
    }
}
