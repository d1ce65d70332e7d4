//! net.receiver_limited: a TCP sender waits because the receiver reads too slowly.
//!
//! The sender's kernel counts the time in which the peer's window alone held it back (TCP_CHRONO_RWND_LIMITED).
//! Where the reader is on this host, in whatever namespace, he is found by the reversed pair of addresses, and
//! the bytes that wait unread at his socket are the second fact; else the peer's address is the culprit. A window that stands at zero as the look
//! ends is said with the time for which no data have gone out: probes of it carry none.
//!
//! Must not: fire for a stream that passes a standing queue of this host. Rejected: a small window by itself (it is no limit
//! if the sender has less to send).

use crate::facts::{Endpoint, SocketState, TcpTurn, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::{Stream, other_end};
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::holder_doing::in_wait;
use crate::rules::net::ways_out::command_in;
use crate::rules::net::writers::{
    BUSY, MOST_HOSTS, Peer, SEVERAL_HOSTS, WINDOW_SHUT, by_peer, window_is_shut,
};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::net::SocketAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.receiver_limited",
    title: "A TCP sender waits for a slow reader",
    theory: "A receiver announces how much room its buffer has left. If its program reads slower than the sender \
             writes, the room shrinks to nothing, the sender's buffer fills too, and its program sleeps in write. \
             Neither the network nor the sender is to blame.",
    needs: &[
        "a writer waits for room in a TCP socket, or has data unsent most of the time",
        "half of the time with data outstanding was limited by the peer's window",
    ],
    refuted_by: &[
        Refutation::new(
            "the stream passes a queue of this host that stands",
            "a_stream_that_passes_a_standing_queue_waits_there",
        ),
        Refutation::new(
            "the window was open: the network or the send buffer limited it",
            "an_open_window_is_not_the_readers_fault",
        ),
        Refutation::new(
            "the window was shut before the look",
            "what_a_socket_counted_before_the_look_is_no_evidence",
        ),
    ],
    remedies: &["make the reader quicker", "give it more threads, or less to do per read"],
    stories: &["S0.16"],
    thresholds: &[&WINDOW_SHUT, &BUSY, &SEVERAL_HOSTS, &MOST_HOSTS],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let peers = by_peer(measures, ends, |writer| window_is_shut(writer.stream));
    peers.iter().filter_map(|peer| matched(measures, peer)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Match<'m>> {
    let first = peer.first();
    let reader = other_end(measures.model, first.stream.socket);
    let thread = reader.map(|reader| {
        let holder = first.end.and_then(|(_, end)| end.holder());
        holder.filter(|h| h.pid == reader.process.pid).unwrap_or(&reader.process)
    });
    let wording = wording(measures, peer, reader, thread);
    let by = blamed(measures, peer.address, thread);
    peer.claim(measures, Match::new(by, Proof::Read, move |_| wording.clone()), true)
}

fn wording(
    measures: &Measures<'_>,
    peer: &Peer<'_>,
    reader: Option<&Endpoint>,
    thread: Option<&ThreadRef>,
) -> Wording {
    let (address, first) = (peer.address, peer.first());
    let busy: u64 = peer.writers.iter().map(|one| one.stream.change.busy_us).sum();
    let limited: u64 = peer.writers.iter().map(|one| one.stream.change.receiver_limited_us).sum();
    let share = limited as f64 / busy.max(1) as f64;
    let by = thread
        .map_or_else(|| format!("the program at {address}"), |it| measures.model.threads.who(it));
    let rate = peer.throughput(measures);
    let is_shut = is_shut(first.stream.state);
    let reads = !is_shut || rate > 0.0;
    let (does_not, through) = match reads {
        false => ("does not read", "nothing gets through".to_string()),
        true => ("reads too slowly", format!("{} a second get through", words::bytes(rate))),
    };
    Wording {
        title: match peer.is_client {
            true => format!("{by} {does_not} what {} sends it", peer.writer()),
            false => format!("{} waits for {by}, which {does_not}", peer.writer()),
        },
        text: format!(
            "{} In {} of the time with data outstanding the \
             reader's window was shut; {through}.{}{}{}",
            peer.held_back(measures),
            words::percent(share),
            shut_since(first.stream.state).filter(|_| is_shut).unwrap_or_default(),
            unread(reader).unwrap_or_default(),
            doing(first.end.and_then(|(_, end)| end.holder_mostly()), reader.is_some(), reads),
        ),
        evidence: evidence(share, first.stream, reader, rate),
        remedy: remedy(measures, peer, thread),
    }
}

/// What the reader does meanwhile, in a sentence.
fn doing(mostly: Option<WaitClass>, is_here: bool, reads: bool) -> String {
    let when = if reads { "between its reads" } else { "instead of reading" };
    match mostly {
        Some(WaitClass::Timer) if is_here => format!(" It sleeps {when}."),
        Some(WaitClass::Stopped) => " It is stopped.".into(),
        Some(WaitClass::FrozenCgroup) => " It is frozen.".into(),
        Some(WaitClass::Running) if is_here => format!(" It is at work {when}."),
        Some(
            class @ (WaitClass::Disk
            | WaitClass::PageFault
            | WaitClass::FutexLock
            | WaitClass::FutexWait
            | WaitClass::Child
            | WaitClass::Idle),
        ) if is_here => format!(" It {} {when}.", in_wait(class)),
        _ => String::new(),
    }
}

/// The peer's window is zero as the look ends, and something is to be sent.
fn is_shut(state: &SocketState) -> bool {
    // Before a connection stands its peer has said no window.
    state.send_window_bytes == 0 && state.unsent_bytes > 0 && state.rtt_us > 0
}

/// Since when no data have gone out, in a sentence.
fn shut_since(state: &SocketState) -> Option<String> {
    let turn = state.turn.filter(|turn| turn.jiffy_ns > 0)?;
    let ns = u64::from(turn.sent_jiffies) * u64::from(turn.jiffy_ns);
    let since = words::seconds(ns as f64 / 1e9);
    Some(format!(" As the look ends it stands at 0 bytes, and for {since} no data have gone out."))
}

/// What waits unread at the reader's socket, in a sentence.
fn unread(reader: Option<&Endpoint>) -> Option<String> {
    let state = reader?.socket.as_ref()?;
    let bytes = unread_bytes(state.turn.as_ref()?);
    (bytes > 0).then(|| {
        format!(
            " {} wait unread in its socket, and take {} of its receive buffer's {}.",
            words::bytes(f64::from(bytes)),
            words::bytes(state.receive_queued_bytes as f64),
            words::bytes(state.receive_limit_bytes as f64),
        )
    })
}

/// What came in order and was not read.
fn unread_bytes(turn: &TcpTurn) -> u32 {
    turn.rcv_nxt.wrapping_sub(turn.copied_seq)
}

fn blamed(measures: &Measures<'_>, peer: SocketAddr, thread: Option<&ThreadRef>) -> Culprit {
    let Some(thread) = thread else {
        return Culprit::peer(format!("reader at {peer}"), peer.to_string());
    };
    Culprit { address: Some(peer.to_string()), ..culprit(measures.model, thread) }
}

fn evidence(
    share: f64,
    stream: &Stream<'_>,
    reader: Option<&Endpoint>,
    rate: f64,
) -> Vec<Evidence> {
    let unsent = stream.state.unsent_bytes as f64;
    let window = f64::from(stream.state.send_window_bytes);
    let mut evidence = vec![
        Evidence::new(
            "time with data outstanding that the peer's window limited",
            share * 100.0,
            "%",
            "tcp_sock.chrono_stat (tcpi_rwnd_limited)",
        ),
        Evidence::new("written and not yet sent", unsent, "bytes", "tcp_sock"),
        Evidence::new("the peer's window as the look ends", window, "bytes", "tcp_sock"),
        Evidence::new("acknowledged by the peer", rate, "bytes/s", "tcp_sock"),
    ];
    if let Some(state) = reader.and_then(|end| end.socket.as_ref()) {
        let unread = state.receive_queued_bytes as f64;
        let limit = state.receive_limit_bytes as f64;
        evidence.push(Evidence::new("wait unread at the reader's socket", unread, "bytes", "sock"));
        evidence.push(Evidence::new("room of the reader's socket", limit, "bytes", "sock"));
    }
    evidence
}

fn remedy(measures: &Measures<'_>, of: &Peer<'_>, thread: Option<&ThreadRef>) -> Vec<Remedy> {
    let peer = of.address;
    let ss = command_in(measures.model, of.first().stream.socket.netns, "ss");
    match thread {
        Some(thread) => vec![
            Remedy::to(format!(
                "see what {} does instead of reading",
                measures.model.threads.who(thread)
            ))
            .look(thread),
        ],
        None => vec![Remedy {
            text: format!("look at the reading program on {}", peer.ip()),
            command: format!("{ss} -tin dst {peer}"),
            action: Some(Action::look(Question::State).through(ss.through.as_ref())),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::blocked;

    fn shut() -> SocketState {
        SocketState {
            busy_us: 4_900_000,
            receiver_limited_us: 4_500_000,
            unsent_bytes: 100_000,
            ..SocketState::default()
        }
    }

    #[test]
    fn a_reader_whose_window_stays_shut_is_to_blame() {
        let found = findings(stream(shut()));
        assert_eq!(found[0].code, "net.receiver_limited");
        assert_eq!(found[0].culprit.address.as_deref(), Some("10.0.0.2:80"));
    }

    /// The reader is a process of this host, which sleeps with so much unread.
    fn reader_here(unread: u32) -> [Fact; 2] {
        let turn =
            TcpTurn { rcv_nxt: 5, copied_seq: 5_u32.wrapping_sub(unread), ..TcpTurn::default() };
        let state = SocketState {
            receive_queued_bytes: 300_000,
            receive_limit_bytes: 320_000,
            turn: Some(turn),
            ..SocketState::default()
        };
        let socket = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        [
            with_state(20, "reader", socket, state),
            blocked(20, "reader", WaitState::Sleep, "clock_nanosleep"),
        ]
    }

    /// The window stands at zero, and the last data were sent so many jiffies of 4 ms ago.
    fn zero(sent_jiffies: u32) -> SocketState {
        let turn = TcpTurn { sent_jiffies, jiffy_ns: 4_000_000, ..TcpTurn::default() };
        SocketState { rtt_us: 100, turn: Some(turn), ..shut() }
    }

    #[test]
    fn a_window_that_stands_at_zero_is_said_with_its_age_and_what_waits_unread() {
        let mut facts = stream(zero(3_000));
        facts.extend(reader_here(150_000));
        let found = findings(facts);
        assert_eq!(found[0].title, "sender 10 waits for reader 20, which does not read");
        let text = &found[0].text;
        assert!(text.contains("nothing gets through."), "{text}");
        assert!(
            text.contains("it stands at 0 bytes, and for 12 s no data have gone out."),
            "{text}"
        );
        assert!(text.contains("146 KiB wait unread in its socket, and take 293 KiB"), "{text}");
        assert!(
            text.ends_with("receive buffer's 313 KiB. It sleeps instead of reading."),
            "{text}"
        );
    }

    #[test]
    fn a_window_that_is_open_as_the_look_ends_is_not_said_to_stand() {
        let late = SocketState { send_window_bytes: 2_000, acked_bytes: 9_000, ..zero(3_000) };
        let mut facts = stream(late);
        facts.extend(reader_here(0));
        let found = findings(facts);
        assert!(found[0].title.ends_with("which reads too slowly"), "{}", found[0].title);
        assert!(!found[0].text.contains("stands at 0 bytes"), "{}", found[0].text);
        assert!(!found[0].text.contains("unread"), "{}", found[0].text);
    }

    #[test]
    fn an_event_loop_whose_data_stand_unsent_waits_for_the_reader_too() {
        let found = findings(event_loop(shut()));
        assert_eq!(found[0].code, "net.receiver_limited");
        assert_eq!((found[0].victims[0].pid, found[0].chain.len()), (10, 1));
        let idle = SocketState { busy_us: 900_000, receiver_limited_us: 900_000, ..shut() };
        assert!(codes(event_loop(idle)).is_empty());
    }

    #[test]
    fn what_a_socket_counted_before_the_look_is_no_evidence() {
        let old = SocketState {
            busy_us: 100_000_000,
            receiver_limited_us: 90_000_000,
            ..SocketState::default()
        };
        let now = SocketState { busy_us: 104_900_000, ..old.clone() };
        let mut facts = vec![with_state(10, "sender", near(), old)];
        facts.extend(stream(now));
        assert!(!says("net.receiver_limited", facts));
    }

    #[test]
    fn an_open_window_is_not_the_readers_fault() {
        let open = SocketState { receiver_limited_us: 400_000, ..shut() };
        assert!(!says("net.receiver_limited", stream(open)));
    }

    #[test]
    fn a_stream_that_passes_a_standing_queue_waits_there() {
        for writes in [stream(shut()), event_loop(shut())] {
            let mut facts = queue(290);
            facts.extend(writes);
            facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
            assert_eq!(codes(facts), ["net.local_queue"]);
        }
    }
}
