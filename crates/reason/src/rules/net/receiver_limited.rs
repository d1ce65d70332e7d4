//! net.receiver_limited: a TCP sender waits because the receiver reads too slowly.
//!
//! The sender's kernel counts the time in which the peer's window alone held it back (TCP_CHRONO_RWND_LIMITED).
//! Where the reader is on this host, in whatever namespace, he is found by the reversed pair of addresses, and
//! the bytes that wait unread at his socket are the second fact; else the peer's address is the culprit. Who does not read for want of room
//! at his own reader is led on to the last that takes nothing (last_reader.rs). A window that stands at zero as the look
//! ends is said with the time for which no data have gone out: probes of it carry none.
//!
//! Must not: fire for a stream that passes a standing queue of this host. Rejected: a small window by itself (it is no limit
//! if the sender has less to send).

use crate::facts::{Endpoint, SocketState, TcpTurn, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::{Stream, other_end};
use crate::model::words;
use crate::programs;
use crate::rules::action::{Action, Question};
use crate::rules::holder_doing::in_wait;
use crate::rules::net::last_reader::{self, Middleman, ONE_PACE};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::writers::{
    BUSY, MOST_HOSTS, Peer, SEVERAL_HOSTS, WINDOW_SHUT, by_peer, window_is_shut,
};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, Step, culprit, engine};
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
    thresholds: &[&WINDOW_SHUT, &BUSY, &ONE_PACE, &SEVERAL_HOSTS, &MOST_HOSTS],
    finds: Finds::Look(find),
};

/// Who reads at the other end of a stream, and who is the last that does not.
struct Readers<'m> {
    /// The other end, if it is on this host.
    first: Option<&'m Endpoint>,
    /// Those from there on that have no room themselves.
    middlemen: Vec<Middleman>,
    /// The thread that is to blame.
    last: Option<ThreadRef>,
    /// What that mostly does.
    doing: Option<WaitClass>,
}

impl<'m> Readers<'m> {
    fn of(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Self {
        let writer = peer.first();
        let end = writer.end.map(|(_, end)| end);
        let first = other_end(measures.model, writer.stream.socket);
        let middlemen = first.map_or_else(Vec::new, |it| last_reader::middlemen(measures, it));
        if let Some(last) = middlemen.last().map(|it| it.next.clone()) {
            let doing = last_reader::doing(measures, &last);
            return Self { first, middlemen, last: Some(last), doing };
        }
        let last = first.map(|reader| {
            let holder = end.and_then(End::holder);
            holder.filter(|h| h.pid == reader.process.pid).unwrap_or(&reader.process).clone()
        });
        let stands = last.as_ref().and_then(|it| last_reader::stands_still(measures, it));
        let doing = end.and_then(End::holder_mostly).or(stands);
        Self { first, middlemen, last, doing }
    }

    /// A process sends to itself what another does not take from it: that is said of the connection to that other.
    fn is_said_elsewhere(&self, peer: &Peer<'_>) -> bool {
        let own = peer.first().stream.endpoint.process.pid;
        peer.first().end.is_none() && self.middlemen.first().is_some_and(|it| it.who.pid == own)
    }

    /// Why the first of them does not read, in a sentence.
    fn have_no_room(&self, measures: &Measures<'_>) -> Option<String> {
        let threads = &measures.model.threads;
        let (first, last) = (self.middlemen.first()?, self.last.as_ref()?);
        let others: Vec<String> =
            self.middlemen[1..].iter().map(|it| threads.who(&it.who)).collect();
        let through = match others.is_empty() {
            true => String::new(),
            false => format!(", by way of {},", others.join(" and ")),
        };
        Some(format!(
            " {} has no room itself for what it would read: it passes it on{through} to {}.",
            threads.who(&first.who),
            threads.who(last)
        ))
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let peers = by_peer(measures, ends, |writer| window_is_shut(writer.stream));
    peers.iter().filter_map(|peer| matched(measures, peer)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Match<'m>> {
    let readers = Readers::of(measures, peer);
    if readers.is_said_elsewhere(peer) {
        return None;
    }
    let wording = wording(measures, peer, &readers);
    let by = blamed(measures, peer.address, &readers);
    let matched = Match::new(by, Proof::Read, move |_| wording.clone());
    let mut matched = peer.claim(measures, matched, true)?;
    if !readers.middlemen.is_empty() {
        matched.chain = Some(chain(peer, &readers, matched.chain.take()));
    }
    Some(matched)
}

/// The chain up to the stream, and on through those that have no room themselves.
fn chain(peer: &Peer<'_>, readers: &Readers<'_>, before: Option<Vec<Step>>) -> Vec<Step> {
    let mut steps = match peer.first().end {
        Some((_, end)) => {
            let to_stream = end.links.iter().take(end.named + 1);
            to_stream.filter_map(|link| engine::step(link)).collect()
        }
        None => before.unwrap_or_default(),
    };
    let seconds = peer.lost();
    steps.extend(readers.middlemen.iter().map(|it| Step {
        who: it.who.clone(),
        on: it.on.clone(),
        doing: None,
        seconds,
        when: None,
        because: None,
    }));
    steps
}

fn wording(measures: &Measures<'_>, peer: &Peer<'_>, readers: &Readers<'_>) -> Wording {
    let (address, first) = (peer.address, peer.first());
    let busy: u64 = peer.writers.iter().map(|one| one.stream.change.busy_us).sum();
    let limited: u64 = peer.writers.iter().map(|one| one.stream.change.receiver_limited_us).sum();
    let share = limited as f64 / busy.max(1) as f64;
    let last = readers.last.as_ref();
    let by = last
        .map_or_else(|| format!("the program at {address}"), |it| measures.model.threads.who(it));
    let rate = peer.throughput(measures);
    let is_shut = is_shut(first.stream.state);
    // What is buffered on the way lets the last of several read on while nothing comes from the first.
    let reads = readers.middlemen.last().map_or(!is_shut || rate > 0.0, |it| it.is_taken);
    let does_not = if reads { "reads too slowly" } else { "does not read" };
    let through = match !is_shut || rate > 0.0 {
        true => format!("{} a second get through", words::bytes(rate)),
        false => "nothing gets through".to_string(),
    };
    Wording {
        title: match peer.is_client {
            true => format!("{by} {does_not} what {} sends it", peer.writer()),
            false => format!("{} waits for {by}, which {does_not}", peer.writer()),
        },
        text: format!(
            "{} In {} of the time with data outstanding the \
             reader's window was shut; {through}.{}{}{}{}{}",
            peer.held_back(measures),
            words::percent(share),
            shut_since(first.stream.state).filter(|_| is_shut).unwrap_or_default(),
            unread(measures, readers).unwrap_or_default(),
            readers.have_no_room(measures).unwrap_or_default(),
            doing(readers, &by, reads),
            own_limit(measures, readers, &by).unwrap_or_default(),
        ),
        evidence: evidence(share, first.stream, readers.first, rate),
        remedy: remedy(measures, peer, readers),
    }
}

/// What the reader does meanwhile, in a sentence.
fn doing(readers: &Readers<'_>, by: &str, reads: bool) -> String {
    let (is_here, is_led) = (readers.first.is_some(), !readers.middlemen.is_empty());
    let when = if reads { "between its reads" } else { "instead of reading" };
    let it = if is_led { by } else { "It" };
    match readers.doing {
        Some(WaitClass::Timer) if is_here => format!(" {it} sleeps {when}."),
        Some(WaitClass::Stopped) => format!(" {it} is stopped."),
        Some(WaitClass::FrozenCgroup) => format!(" {it} is frozen."),
        Some(WaitClass::Running) if is_here => format!(" {it} is at work {when}."),
        Some(
            class @ (WaitClass::Disk
            | WaitClass::PageFault
            | WaitClass::FutexLock
            | WaitClass::FutexWait
            | WaitClass::Child
            | WaitClass::Idle),
        ) if is_here => format!(" {it} {} {when}.", in_wait(class)),
        _ => String::new(),
    }
}

/// The limit on its own pace that the reader was given, in a sentence.
fn own_limit(measures: &Measures<'_>, readers: &Readers<'_>, by: &str) -> Option<String> {
    let threads = &measures.model.threads;
    if readers.doing == Some(WaitClass::Stopped) {
        return None;
    }
    let last = threads.thread_ref(readers.last.as_ref()?.pid);
    let limit = programs::own_limit(&threads.words(&last))?;
    Some(format!(" {by} was given a limit on its own pace, {limit}."))
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
fn unread(measures: &Measures<'_>, readers: &Readers<'_>) -> Option<String> {
    let reader = readers.first?;
    let state = reader.socket.as_ref()?;
    let bytes = unread_bytes(state.turn.as_ref()?);
    let at = match readers.middlemen.first() {
        Some(first) => format!("at the socket of {}", measures.model.threads.who(&first.who)),
        None => "in its socket".to_string(),
    };
    (bytes > 0).then(|| {
        format!(
            " {} wait unread {at}, and take {} of its receive buffer's {}.",
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

fn blamed(measures: &Measures<'_>, peer: SocketAddr, readers: &Readers<'_>) -> Culprit {
    let Some(thread) = &readers.last else {
        return Culprit::peer(format!("reader at {peer}"), peer.to_string());
    };
    let address = readers.middlemen.is_empty().then(|| peer.to_string());
    Culprit { address, ..culprit(measures.model, thread) }
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

fn remedy(measures: &Measures<'_>, of: &Peer<'_>, readers: &Readers<'_>) -> Vec<Remedy> {
    let peer = of.address;
    let ss = command_in(measures.model, of.first().stream.socket.netns, "ss");
    match &readers.last {
        Some(thread) if readers.doing == Some(WaitClass::Stopped) => {
            vec![Remedy::to("continue the reader").go_on(thread)]
        }
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
    use crate::rules::scenes::{LOOK_NS, at_place, blocked, endpoint, identity, thread};

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
    fn a_reader_that_was_given_a_limit_on_its_own_pace_is_said_with_it() {
        let text = |command: &str| {
            let late = SocketState { send_window_bytes: 2_000, acked_bytes: 9_000, ..zero(3_000) };
            let known = Thread {
                thread: thread(20, "reader"),
                command: command.into(),
                ..Thread::default()
            };
            let mut facts = stream(late);
            facts.extend(reader_here(9_000));
            facts.push(identity(known));
            findings(facts)[0].text.clone()
        };
        let limited = text("wget --limit-rate=300k http://10.0.0.1");
        let said = "reader 20 was given a limit on its own pace, --limit-rate=300k.";
        assert!(limited.ends_with(said), "{limited}");
        let free = text("wget http://10.0.0.1");
        assert!(!free.contains("limit on its own"), "{free}");
    }

    /// The reader is a proxy whose own reader takes nothing either, and what the proxy has read meanwhile.
    fn behind_a_proxy(read: u32, last: Fact) -> Vec<Fact> {
        let sight = |at_ns, read: u32| {
            let turn = |written, copied_seq| {
                let turn = TcpTurn { write_seq: written, copied_seq, ..TcpTurn::default() };
                TcpTurn { jiffy_ns: 4_000_000, sent_jiffies: 3_000, ..turn }
            };
            let input = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
            let output = inet("tcp", 300, "10.0.0.2:81", "10.0.0.3:41000", 1);
            let of = |pid, comm, fd, object, turn, state| {
                let state = SocketState { turn: Some(turn), ..state };
                let mut fact = with_state(pid, comm, object, state);
                if let Body::Endpoint(end) = &mut fact.body {
                    end.fd = fd;
                }
                Fact { at_ns, ..fact }
            };
            let counted = SocketState {
                busy_us: 4_900_000 * at_ns / LOOK_NS,
                receiver_limited_us: 4_900_000 * at_ns / LOOK_NS,
                unsent_bytes: 9_000,
                ..SocketState::default()
            };
            let full = SocketState { receive_queued_bytes: 300_000, ..SocketState::default() };
            [
                of(20, "proxy", 5, input, turn(0, 70 + read), full),
                of(20, "proxy", 6, output, turn(500, 0), counted),
            ]
        };
        let far = inet("tcp", 400, "10.0.0.3:41000", "10.0.0.2:81", 1);
        let mut facts = stream(zero(3_000));
        // Sights of one descriptor follow each other.
        for (before, after) in sight(0, 0).into_iter().zip(sight(LOOK_NS, read)) {
            facts.extend([before, after]);
        }
        facts.extend([
            endpoint(30, "client", far),
            blocked(20, "proxy", WaitState::Sleep, "epoll_wait"),
            last,
        ]);
        facts
    }

    #[test]
    fn a_proxy_that_has_no_room_at_its_own_reader_is_led_on_to_that() {
        let stopped = blocked(30, "client", WaitState::Stopped, "poll");
        let found = findings(behind_a_proxy(0, stopped));
        let found = found.iter().find(|it| it.victims.iter().any(|by| by.pid == 10));
        let found = found.expect("the sender waits");
        assert_eq!(found.title, "sender 10 waits for client 30, which does not read");
        assert_eq!((found.culprit.pid, &*found.remedy[0].command), (Some(30), "kill -CONT 30"));
        let text = &found.text;
        assert!(text.contains("proxy 20 has no room itself"), "{text}");
        assert!(text.ends_with("client 30 is stopped."), "{text}");
        let chain: Vec<_> = found.chain.iter().filter_map(|link| link.who.pid).collect();
        assert_eq!(chain, [10, 20]);
    }

    #[test]
    fn the_last_reader_that_takes_what_is_buffered_before_it_reads_too_slowly() {
        let mut facts = behind_a_proxy(0, blocked(30, "client", WaitState::Sleep, "epoll_wait"));
        for fact in facts.iter_mut().filter(|fact| fact.at_ns == LOOK_NS) {
            if let Body::Endpoint(Endpoint { fd: 6, socket: Some(state), .. }) = &mut fact.body {
                state.acked_bytes = 9_000;
            }
        }
        let found = findings(facts);
        let found = found.iter().find(|it| it.victims.iter().any(|by| by.pid == 10));
        let title = found.map(|it| it.title.clone()).unwrap_or_default();
        assert_eq!(title, "sender 10 waits for client 30, which reads too slowly");
    }

    #[test]
    fn a_proxy_that_reads_on_while_its_reader_takes_nothing_is_the_last_itself() {
        let stopped = blocked(30, "client", WaitState::Stopped, "poll");
        let found = findings(behind_a_proxy(9_000, stopped));
        let found = found.iter().find(|it| it.victims.iter().any(|by| by.pid == 10));
        assert_eq!(found.expect("the sender waits").culprit.pid, Some(20));
    }

    /// The reader's only thread writes to a pipe that another is to read.
    #[test]
    fn a_reader_that_waits_for_room_in_a_pipe_is_led_on_to_who_reads_that() {
        let pipe = ObjectRef::Pipe { ino: 77 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "write".into(),
            object: Some(pipe.clone()),
            ..Place::default()
        };
        let (mut write, mut read) =
            (endpoint(20, "curl", pipe.clone()), endpoint(30, "sleep", pipe));
        if let (Body::Endpoint(write), Body::Endpoint(read)) = (&mut write.body, &mut read.body) {
            (write.readable, read.writable) = (false, false);
        }
        let socket = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        let mut facts = event_loop(zero(3_000));
        facts.extend([
            endpoint(20, "curl", socket),
            write,
            read,
            at_place(20, "curl", place),
            blocked(30, "sleep", WaitState::Sleep, "clock_nanosleep"),
        ]);
        let found = findings(facts);
        let found = found.iter().find(|it| it.code == "net.receiver_limited");
        let found = found.expect("the sender waits");
        assert_eq!(found.culprit.pid, Some(30), "{found:#?}");
        assert!(found.text.ends_with("sleep 30 sleeps instead of reading."), "{}", found.text);
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
