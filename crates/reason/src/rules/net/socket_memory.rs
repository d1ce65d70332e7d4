//! net.socket_memory: somebody's connection crawls because all TCP sockets together use more memory than they may.
//!
//! Two witnesses: the kernel's own sum of that memory (sockstat) lies above the pressure mark of net.ipv4.tcp_mem, and the waiter's very socket shows
//! what follows from it: packets dropped for want of room (PROTO_MEM), a send buffer below the size that a socket begins with, a wait for room
//! that the buffer has, or a window that is shut before a buffer with room. Must not: fire on the sum alone (a host may live at its mark), or on PROTO_MEM alone (the buffer of one
//! socket that is full is dropped for likewise). Rejected: TCPMemoryPressures (it counts that pressure began, not that it is there).
//!
//! Edit together: net_counters.rs of the readers (sockstat).

use crate::facts::{SocketState, ThreadRef};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::net_counter::growth_everywhere;
use crate::measure::packet_drops::of_socket;
use crate::measure::tcp_stream::{Stream, other_end};
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::action::Action;
use crate::rules::net::dropped_packets::{LOST_ONE, NOTICED, is_noticed, losing};
use crate::rules::net::who_waits::who_waits;
use crate::rules::net::writers::{WINDOW_SHUT, window_is_shut};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// Why a segment went no further (SKB_DROP_REASON_PROTO_MEM).
const REASON: &str = "PROTO_MEM";
const SETTING: &str = "net.ipv4.tcp_mem";
/// Room is made until the mark lies so many times above what is used.
const ROOMIER: u64 = 2;

/// Part of the memory that one process has.
static MOST: Threshold = Threshold::new(
    0.5,
    "1",
    "of the memory of TCP, what stands in the sockets of one process: it is who holds it",
    "chosen: more than all others together",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.socket_memory",
    title: "TCP has used up its memory, and a connection crawls",
    theory: "All TCP sockets of a host share one limit for what stands in their buffers: the three values of net.ipv4.tcp_mem, in pages. Above the \
             second the kernel cuts send buffers and windows; above the third it gives a socket no more than it needs for one segment, and drops \
             what comes in for others. Whoever leaves much unread, or unacknowledged, takes it from everybody.",
    needs: &[
        "TCP sockets use more memory than the second value of net.ipv4.tcp_mem as the look begins or ends",
        "a waiter's segments are dropped with PROTO_MEM; or it waits to write while its send buffer is smaller than a socket begins with, or has room, or \
         while its reader's buffer has room and the window is shut",
    ],
    refuted_by: &[
        Refutation::new("there is memory left", "a_full_buffer_with_memory_left_is_its_own"),
        Refutation::new(
            "the waiter's buffer is as large as ever, and nothing of it was dropped",
            "a_writer_with_a_large_buffer_waits_for_its_reader",
        ),
        Refutation::new(
            "its reader's buffer is full: he shuts the window",
            "a_shut_window_before_a_buffer_with_room_is_for_want_of_memory",
        ),
        Refutation::new(
            "what was dropped was another's",
            "drops_of_another_socket_are_not_its_own",
        ),
    ],
    remedies: &["see why the one who holds most does not read", "a higher net.ipv4.tcp_mem"],
    stories: &[],
    thresholds: &[&LOST_ONE, &NOTICED, &WINDOW_SHUT, &MOST],
    finds: Finds::Look(find),
};

/// What all TCP sockets use, beside their limits.
#[derive(Debug, Clone, Copy)]
struct Memory {
    used_bytes: u64,
    page_bytes: u64,
    /// The setting, pages: no pressure below the first, pressure above the second, no more above the third.
    marks: [u64; 3],
}

impl Memory {
    /// Where it is above the mark of pressure.
    fn short(model: &Model) -> Option<Self> {
        let value = model.net.sysctls.get(SETTING)?;
        let marks: Vec<u64> = value.split(' ').filter_map(|word| word.parse().ok()).collect();
        let marks: [u64; 3] = marks.try_into().ok()?;
        // One sum for all namespaces, at whichever end of the look it was higher.
        let readings = model.net.counters.values().flatten();
        let used = readings.filter_map(|(_, read)| read.counters.get("sockstat.TCP.mem")).max()?;
        let page_bytes = model.look.host.page_bytes;
        let used_bytes = used.saturating_mul(page_bytes);
        (*used > marks[1] && page_bytes > 0).then_some(Self { used_bytes, page_bytes, marks })
    }

    fn mark_bytes(&self, mark: usize) -> u64 {
        self.marks[mark].saturating_mul(self.page_bytes)
    }

    /// The setting, so many times as high.
    fn value(&self, times: u64) -> String {
        let value = |mark: u64| mark.saturating_mul(times).to_string();
        self.marks.map(value).join(" ")
    }
}

/// What is seen of a lack of memory at waiters' own sockets.
#[derive(Debug, Default)]
struct Seen {
    /// Their ends.
    ends: BTreeSet<usize>,
    /// Their segments that were dropped.
    dropped: u64,
    /// The smallest send buffer that was cut, bytes.
    buffer_bytes: Option<u64>,
    /// The window of a reader of this host was shut, whose buffer has room.
    small_window: bool,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let found = || {
        let memory = Memory::short(measures.model)?;
        let seen = seen(measures, ends);
        let end = End::merged(seen.ends.iter().map(|at| &ends[*at]))?;
        if !is_noticed(measures, &end) {
            return None;
        }
        let holder = holder(measures.model, memory);
        let by = match &holder {
            Some((who, _)) => culprit(measures.model, who),
            None => Culprit::setting(format!("tcp_mem {}", memory.value(1)), SETTING),
        };
        let wording = wording(measures, &end, memory, &seen, holder);
        let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
        Some(seen.ends.into_iter().fold(matched, |matched, at| matched.claiming(at, None)))
    };
    found().into_iter().collect()
}

fn seen<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Seen {
    let mut seen = Seen::default();
    for waits in losing(measures, ends, REASON) {
        let of_tcp = waits.dropped.iter().filter(|it| it.flow.protocol == "tcp");
        let dropped: u64 = of_tcp.map(|it| it.flow.packets).sum();
        if dropped > 0 && seen.ends.insert(waits.end) {
            seen.dropped += dropped;
        }
    }
    for stream in &measures.tcp_streams {
        let own = ends_of(ends, stream);
        if own.is_empty() {
            continue;
        }
        let dropped = of_socket(measures.model, REASON, stream.socket);
        let dropped: u64 = dropped.iter().map(|it| it.flow.packets).sum();
        let has_small_window = window_is_shut(stream) && reader_has_room(measures.model, stream);
        // Behind a window that its reader shuts a small buffer costs nothing.
        let is_cut =
            is_cut(measures.model, stream.state) && (!window_is_shut(stream) || has_small_window);
        if dropped == 0 && !is_cut && !has_small_window && !waits_with_room(measures, stream) {
            continue;
        }
        seen.small_window |= has_small_window;
        if is_cut {
            let bytes = stream.state.send_limit_bytes;
            seen.buffer_bytes = Some(seen.buffer_bytes.map_or(bytes, |least| least.min(bytes)));
        }
        if own.iter().any(|at| !seen.ends.contains(at)) {
            seen.dropped += dropped;
        }
        seen.ends.extend(own);
    }
    seen
}

/// The ends of waits for room in a stream. Where its reader is of this host and waits for more, they are behind him.
fn ends_of(ends: &[End], stream: &Stream<'_>) -> Vec<usize> {
    let object = Object::Inet(stream.socket.ino);
    let is_there = |end: &End| {
        !end.victims.is_empty()
            && matches!(end.kind, EndKind::Link | EndKind::Remote | EndKind::Open | EndKind::Idle)
            && (end.links.iter())
                .any(|link| link.class == WaitClass::SocketWrite && link.object == object)
    };
    ends.iter().enumerate().filter(|(_, end)| is_there(end)).map(|(at, _)| at).collect()
}

/// The send buffer is smaller than one begins with: the kernel makes it larger as a connection goes on, and smaller only for want of memory
/// (sk_stream_moderate_sndbuf).
fn is_cut(model: &Model, state: &SocketState) -> bool {
    let setting = model.net.sysctls.get("net.ipv4.tcp_wmem");
    let first = setting.and_then(|value| value.split(' ').nth(1)?.parse::<u64>().ok());
    state.send_limit_bytes > 0 && first.is_some_and(|first| state.send_limit_bytes < first)
}

/// Less than half of the reader's buffer is taken, where he is of this host: then the kernel lets no more in for want of memory
/// (tcp_under_memory_pressure in __tcp_select_window).
fn reader_has_room(model: &Model, stream: &Stream<'_>) -> bool {
    let reader = other_end(model, stream.socket).and_then(|reader| reader.socket.as_ref());
    reader.is_some_and(|it| {
        it.receive_limit_bytes > 0 && it.receive_queued_bytes < it.receive_limit_bytes / 2
    })
}

/// Somebody still waits to write as the look ends, though the kernel would let him by what is queued (sk_stream_is_writeable).
fn waits_with_room(measures: &Measures<'_>, stream: &Stream<'_>) -> bool {
    let (limit, queued) = (stream.state.send_limit_bytes, stream.state.send_queued_bytes);
    let object = Object::Inet(stream.socket.ino);
    let has_room = limit > queued && limit - queued >= queued / 2;
    // A program may have asked not to be woken before the rest of what it wrote is sent (tcp_notsent_lowat).
    let setting = measures.model.net.sysctls.get("net.ipv4.tcp_notsent_lowat");
    let unsent_max = setting.and_then(|value| value.parse::<u64>().ok()).unwrap_or(u64::MAX);
    let mut waits = measures.waits();
    has_room
        && stream.state.unsent_bytes < unsent_max
        && waits.any(|it| it.standing && it.class == WaitClass::SocketWrite && it.object == object)
}

/// What one process has in its TCP sockets.
#[derive(Debug, Clone, Copy, Default)]
struct Holds {
    bytes: u64,
    /// Of it, what was received and not read.
    received_bytes: u64,
    sockets: usize,
}

/// Who has most of the memory, if that is more than half.
fn holder(model: &Model, memory: Memory) -> Option<(&ThreadRef, Holds)> {
    let mut seen = BTreeSet::new();
    let mut by: BTreeMap<u32, (&ThreadRef, Holds)> = BTreeMap::new();
    for endpoint in &model.held.endpoints {
        let (Object::Inet(ino), Some(state)) = (Object::from(&endpoint.object), &endpoint.socket)
        else {
            continue;
        };
        let is_tcp = model.called.socket(ino).is_some_and(|socket| socket.is_tcp());
        if is_tcp && seen.insert(ino) {
            let none = (&endpoint.process, Holds::default());
            let holds = &mut by.entry(endpoint.process.pid).or_insert(none).1;
            holds.bytes += state.receive_queued_bytes + state.send_queued_bytes;
            holds.received_bytes += state.receive_queued_bytes;
            holds.sockets += 1;
        }
    }
    let most = by.into_values().max_by_key(|(_, holds)| holds.bytes)?;
    (most.1.bytes as f64 > MOST.value * memory.used_bytes as f64).then_some(most)
}

fn wording(
    measures: &Measures<'_>,
    end: &End,
    memory: Memory,
    seen: &Seen,
    holder: Option<(&ThreadRef, Holds)>,
) -> Wording {
    let bytes = |bytes: u64| words::bytes(bytes as f64);
    let used = bytes(memory.used_bytes);
    let pressure = bytes(memory.mark_bytes(1));
    let mut shows = String::new();
    if seen.dropped > 0 {
        let segments = words::count(seen.dropped as usize, "segment", "segments");
        shows += &format!(" {segments} of the connection were dropped for want of room.");
    }
    if let Some(buffer) = seen.buffer_bytes {
        shows += &format!(" Its send buffer is {}, less than one begins with.", bytes(buffer));
    }
    if seen.small_window {
        shows += " Its reader's window was shut, though more than half of his buffer is free.";
    }
    if let Some((who, holds)) = holder {
        shows += &format!(
            " {} stand in {} of {}, {} of them unread.",
            bytes(holds.bytes),
            words::count(holds.sockets, "socket", "sockets"),
            words::who(who),
            bytes(holds.received_bytes),
        );
    }
    let limit = bytes(memory.mark_bytes(2));
    Wording {
        title: format!("{} while TCP has used up its memory", who_waits(measures, end)),
        text: format!(
            "{} pass so. All TCP sockets of the host use {used}: buffers are cut above {pressure}, and {limit} is all they may \
             have.{shows}",
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        evidence: evidence(measures.model, memory, seen),
        remedy: remedies(memory, holder),
    }
}

fn evidence(model: &Model, memory: Memory, seen: &Seen) -> Vec<Evidence> {
    let mark = |mark| memory.mark_bytes(mark) as f64;
    let began = growth_everywhere(model, "TcpExt.TCPMemoryPressures") as f64;
    let mut evidence = vec![
        Evidence::new(
            "memory of all TCP sockets",
            memory.used_bytes as f64,
            "bytes",
            "/proc/net/sockstat",
        ),
        Evidence::new("mark of pressure", mark(1), "bytes", SETTING),
        Evidence::new("limit", mark(2), "bytes", SETTING),
        Evidence::new(format!("segments dropped: {REASON}"), seen.dropped as f64, "1", "kfree_skb"),
        Evidence::new(
            "times that pressure began in the look",
            began,
            "1",
            "/proc/net/netstat TcpExt.TCPMemoryPressures",
        ),
    ];
    if let Some(bytes) = seen.buffer_bytes {
        evidence.push(Evidence::new("send buffer", bytes as f64, "bytes", "sock.sk_sndbuf"));
    }
    evidence
}

fn remedies(memory: Memory, holder: Option<(&ThreadRef, Holds)>) -> Vec<Remedy> {
    let times = memory.used_bytes.div_ceil(memory.mark_bytes(1).max(1)).saturating_mul(ROOMIER);
    let (more, old) = (memory.value(times), memory.value(1));
    let set = |value: &str| format!("sysctl -w {SETTING}='{value}'");
    let mark = words::bytes(memory.mark_bytes(1).saturating_mul(times) as f64);
    let raise = Remedy::to(format!(
        "if the host has it to spare, let TCP of the whole host use more: no cuts up to {mark}"
    ))
    .set(Action::sysctl(SETTING, &more, &old), set(&more), set(&old));
    let look = holder.map(|(who, holds)| {
        let instead = match holds.received_bytes > holds.bytes / 2 {
            true => "does instead of reading",
            false => "waits for with what it has sent",
        };
        Remedy::to(format!("see what {} {instead}", words::who(who))).look(who)
    });
    [raise].into_iter().chain(look).collect()
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{blocked, descriptor, fact};

    const CODE: &str = "net.socket_memory";

    /// So many pages of 4 KiB are used, of a setting of 1,000, 2,000 and 3,000.
    fn used(pages: u64) -> Vec<Fact> {
        let sysctl = |name: &str, value: &str| {
            fact(Body::Sysctl(Sysctl { name: name.into(), value: value.into() }))
        };
        let host = Host { page_bytes: 4_096, ..Host::default() };
        let mut facts = vec![
            fact(Body::Host(host)),
            sysctl("net.ipv4.tcp_mem", "1000 2000 3000"),
            sysctl("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        ];
        facts.extend(counters(&[("sockstat.TCP.mem", pages, pages)]));
        facts
    }

    /// A writer waits; its send buffer is so large and full.
    fn writes(send_limit_bytes: u64) -> Vec<Fact> {
        let send_queued_bytes = send_limit_bytes + 1;
        stream(SocketState { send_limit_bytes, send_queued_bytes, ..SocketState::default() })
    }

    /// A process that leaves so much unread.
    fn hoards(bytes: u64) -> Fact {
        let state = SocketState { receive_queued_bytes: bytes, ..SocketState::default() };
        let object = inet("tcp", 900, "127.0.0.1:70", "127.0.0.1:71", 1);
        let mut fact = descriptor(30, 4, "hoard", object);
        if let Body::Endpoint(endpoint) = &mut fact.body {
            endpoint.socket = Some(state);
        }
        fact
    }

    fn with(pages: u64, more: Vec<Fact>) -> Vec<Fact> {
        [used(pages), more].concat()
    }

    #[test]
    fn a_writer_whose_buffer_was_cut_waits_for_memory() {
        let found = findings(with(2_500, writes(4_608)));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "tcp_mem 1000 2000 3000"));
        assert_eq!(found[0].victims[0].pid, 10);
        let text = &found[0].text;
        assert!(text.contains("use 9.77 MiB: buffers are cut above 7.81 MiB"), "{text}");
        assert!(text.contains("Its send buffer is 4.50 KiB, less than one begins with."), "{text}");
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "sysctl -w net.ipv4.tcp_mem='4000 8000 12000'");
        assert_eq!(way.undo, "sysctl -w net.ipv4.tcp_mem='1000 2000 3000'");
    }

    #[test]
    fn who_leaves_most_unread_is_named() {
        let mut facts = with(2_500, writes(4_608));
        facts.push(hoards(9_000_000));
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, Some(30)));
        assert!(
            found[0].text.contains("8.58 MiB stand in 1 socket of hoard 30"),
            "{}",
            found[0].text
        );
        assert_eq!(found[0].remedy[1].command, "holdup pid 30");
        let mut facts = with(2_500, writes(4_608));
        facts.push(hoards(1_000_000));
        assert_eq!(findings(facts)[0].culprit.pid, None, "a tenth of it is not most");
    }

    #[test]
    fn segments_that_are_dropped_for_want_of_memory_are_its_witness_too() {
        let mut facts = with(2_500, writes(400_000));
        facts.push(dropped("PROTO_MEM", "tcp", "10.0.0.1:40000", "10.0.0.2:80", 7));
        let found = findings(facts);
        assert_eq!(found[0].code, CODE);
        assert!(
            found[0].text.contains("7 segments of the connection were dropped"),
            "{}",
            found[0].text
        );
    }

    #[test]
    fn a_full_buffer_with_memory_left_is_its_own() {
        for pages in [0, 1_500, 2_000] {
            let mut facts = with(pages, writes(4_608));
            facts.push(dropped("PROTO_MEM", "tcp", "10.0.0.1:40000", "10.0.0.2:80", 7));
            assert!(!says(CODE, facts), "{pages}");
        }
    }

    #[test]
    fn a_writer_with_a_large_buffer_waits_for_its_reader() {
        assert!(!says(CODE, with(2_500, writes(400_000))));
    }

    #[test]
    fn a_shut_window_before_a_buffer_with_room_is_for_want_of_memory() {
        let found = |receive_queued_bytes| {
            let shut = SocketState {
                busy_us: 4_900_000,
                receiver_limited_us: 4_500_000,
                send_limit_bytes: 8_192,
                ..SocketState::default()
            };
            let reader = SocketState {
                receive_queued_bytes,
                receive_limit_bytes: 100_000,
                ..SocketState::default()
            };
            let mut facts = with(2_500, stream(shut));
            let far = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
            facts.push(with_state(20, "reader", far, reader));
            facts.push(blocked(20, "reader", WaitState::Sleep, "clock_nanosleep"));
            codes(facts)
        };
        assert_eq!(found(10_000), [CODE]);
        assert_eq!(found(90_000), ["net.receiver_limited"]);
    }

    #[test]
    fn a_reader_of_this_host_that_waits_for_more_hides_no_writer() {
        let far = || inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        let mut facts = with(2_500, writes(4_608));
        facts.push(with_state(20, "reader", far(), SocketState::default()));
        facts.push(wait(20, "reader", "recvfrom", far(), 0, 48));
        assert!(says(CODE, facts));
    }

    #[test]
    fn drops_of_another_socket_are_not_its_own() {
        let mut facts = with(2_500, writes(400_000));
        facts.push(dropped("PROTO_MEM", "tcp", "10.0.0.1:40007", "10.0.0.2:80", 7));
        assert!(!says(CODE, facts));
    }
}
