//! What a process that was asked about leaves open while it rests: an answer that it has sent and that does not arrive, and a client's last word. Of a
//! host that is idle, the last word of a client on another host: that one's wait is seen nowhere else.
//!
//! An event loop that has written its answer waits for no one, and one that holds an answer back may wait by the clock: both look idle, while
//! somebody waits for them. Whoever asks about them hears it, with its age. A client speaks last as well without a question (HTTP/2 and MQTT
//! acknowledge, a log is sent): what follows a word of the server at once is none, so it counts where the server never said one, or long before.
//! Must not: call anybody late (rules/), or say that a word wants an answer. Edit together: standing.rs, which has the clients that stand and wait.

use super::report::AnswerEnd;
use super::sentences::subject;
use super::standing::{self, is_old};
use super::whole::Whole;
use super::{awaited_end, inside, looked_at, places};
use crate::facts::{Endpoint, InetRef, Ns, ObjectRef, TargetKind, ThreadRef};
use crate::graph::debts::Debt;
use crate::measure::Measures;
use crate::model::{figures, words};
use crate::threshold::Threshold;

/// A word that comes so long after one's own is no sign that this was taken.
static APART_MIN: Threshold = Threshold::new(
    1_000.0,
    "ms",
    "from a server's last word on a connection to its client's, if that is a question: what follows at once may acknowledge it",
    "chosen: long beside a round trip and the delays of acknowledgements",
);
/// TCP_ESTABLISHED, include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;

/// Title and paragraph about the process that was asked about, or about a host, if something is left open.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    match measures.model.look.target.as_ref().map(|it| (it.kind, it.pid)) {
        None | Some((TargetKind::Host, _)) => of_host(measures),
        Some((TargetKind::Process, asked)) => {
            undelivered(measures, asked).or_else(|| unanswered(measures, asked))
        }
        Some(_) => None,
    }
}

/// Of one that rests for most of the look and for the rest is held up by little: that first, or at whom it has stood all the time, and the limit on its
/// own pace that it was given.
pub(super) fn beside(
    measures: &Measures<'_>,
    ends: &[AnswerEnd],
    (title, text): (String, String),
) -> (String, String) {
    let target = measures.model.look.target.as_ref();
    let asked = target.filter(|it| it.kind == TargetKind::Process);
    let Some(asked) = asked.filter(|_| Whole::of(measures, ends).is_mostly_idle()) else {
        return (title, text);
    };
    let first = said(measures).or_else(|| standing::of_process(measures));
    let first = first.or_else(|| awaited_end::said(measures));
    match first.or_else(|| looked_at::said(measures)) {
        Some((first, why)) => (first, format!("{why} {title} {text}")),
        None => {
            let (pace, threads) = (places::pace(measures, asked.pid), inside::beside(measures));
            (title, format!("{text}{threads}{pace}"))
        }
    }
}

/// What it has sent and the other end does not acknowledge.
fn undelivered(measures: &Measures<'_>, pid: u32) -> Option<(String, String)> {
    let model = measures.model;
    let lost = |end: &Endpoint| {
        let ObjectRef::Inet(socket) = &end.object else { return None };
        let lost = Some(socket).filter(|it| it.is_tcp() && it.state == ESTABLISHED)?;
        let lost = measures.graph.undelivered(lost)?;
        (lost.sender.object_ino() == socket.ino).then(|| (socket.clone(), lost))
    };
    let own = model.held.endpoints.iter().filter(|end| end.process.pid == pid);
    let (socket, lost) = own.filter_map(lost).min_by_key(|(_, lost)| lost.heard_ns)?;
    let since_ns = model.look.end_ns.saturating_sub(lost.heard_ns);
    let title = format!(
        "{} rests, but what it has sent to {} does not arrive: nothing has been acknowledged for {}.",
        model.threads.who(&model.threads.thread_ref(pid)),
        socket.remote,
        words::seconds(since_ns as f64 / 1e9),
    );
    let far = far_end(measures, &socket, pid);
    let follows = far.map_or_else(String::new, |far| {
        format!(" holdup -p {} follows it from its other end, {}.", far.pid, words::who(&far))
    });
    let bytes = figures::bytes(f64::from(lost.bytes));
    let text = format!(
        "{bytes} are not acknowledged: packets are lost on the way there or back, or nobody is there any more.{}{follows}",
        dropped(measures, &socket)
    );
    Some((title, text))
}

/// Where this host has dropped packets of it within the look, as a sentence; empty if it has not.
fn dropped(measures: &Measures<'_>, socket: &InetRef) -> String {
    let model = measures.model;
    let ways = model.called.translations.ways(socket);
    let of_it = |drops: &crate::facts::PacketDrops| -> u64 {
        let its = drops.flows.iter().filter(|flow| flow.protocol == "tcp");
        its.filter(|flow| ways.contains(&(flow.from, flow.to))).map(|flow| flow.packets).sum()
    };
    let all = model.net.drops.iter().map(|drops| (of_it(drops), drops));
    let most = all.filter(|(packets, _)| *packets > 0).max_by_key(|(packets, _)| *packets);
    most.map_or_else(String::new, |(packets, drops)| {
        let were = if packets == 1 { "was" } else { "were" };
        let at = match drops.interface.is_empty() {
            true => String::new(),
            false => format!(", at {}", drops.interface),
        };
        format!(
            " {} of it {were} dropped on this host{at} ({}).",
            words::count(packets as usize, "packet", "packets"),
            drops.reason
        )
    })
}

/// Words of clients that a process has not answered, by the clocks of its connections: the oldest, and how many there are.
struct Open<'m> {
    since_ns: Ns,
    socket: &'m InetRef,
    count: usize,
}

impl<'m> Open<'m> {
    /// Of some clients, by the server's end of the connection.
    fn of(measures: &Measures<'m>, pid: u32, counts: impl Fn(&InetRef) -> bool) -> Option<Self> {
        let model = measures.model;
        let owed = measures.graph.debts().owes.get(&pid)?;
        let open =
            owed.iter().filter(|debt| is_old(measures, debt) && is_question(measures, pid, debt));
        let open = open.filter_map(|debt| Some((debt.since_ns, model.called.socket(debt.ino)?)));
        let open: Vec<(Ns, &InetRef)> = open.filter(|(_, socket)| counts(socket)).collect();
        let (since_ns, socket) = *open.iter().min_by_key(|(since_ns, _)| *since_ns)?;
        Some(Self { since_ns, socket, count: open.len() })
    }

    /// Who has not been answered.
    fn whom(&self, measures: &Measures<'_>, pid: u32) -> String {
        let far = far_end(measures, self.socket, pid);
        let client = far.map_or_else(|| self.socket.remote.to_string(), |far| words::who(&far));
        let ns = measures.model.look.end_ns.saturating_sub(self.since_ns);
        let age = words::seconds(ns as f64 / 1e9);
        match self.count {
            1 => format!("{client}, which spoke last, {age} ago"),
            all => format!("{all} clients; of these {client} spoke first, {age} ago"),
        }
    }
}

/// What is not known of such a word.
const MAY_BE_LATER: &str = "Whether an answer is due is not known: it may be due later, as that of a long poll is, and not every message asks for one.";

/// The client that has waited longest for an answer.
fn unanswered(measures: &Measures<'_>, pid: u32) -> Option<(String, String)> {
    let model = measures.model;
    let whom = Open::of(measures, pid, |_| true)?.whom(measures, pid);
    let text = format!("{MAY_BE_LATER} {}", places::of_idle(model));
    let who = model.threads.who(&model.threads.thread_ref(pid));
    Some((format!("{who} rests, and has not answered {whom}."), text.trim_end().to_string()))
}

/// The same of the clients of another host, of whichever process of this one.
fn of_host(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let of = |pid: &u32| {
        let is_elsewhere = |socket: &InetRef| {
            let far = socket.remote.ip();
            let is_here = far.is_loopback() || far == socket.local.ip();
            !is_here && far_end(measures, socket, *pid).is_none()
        };
        Some((Open::of(measures, *pid, is_elsewhere)?, *pid))
    };
    let all = measures.graph.debts().owes.keys().filter_map(of);
    let (open, pid) = all.min_by_key(|(open, pid)| (open.since_ns, *pid))?;
    let who = model.threads.who(&model.threads.thread_ref(pid));
    let title = format!(
        "{} is idle, but {who} has not answered {}.",
        subject(measures),
        open.whom(measures, pid)
    );
    Some((title, format!("{MAY_BE_LATER} holdup -p {pid} follows it.")))
}

/// Whether a client's last word is no sign that it has taken what the server said: that never said a word, or long before.
fn is_question(measures: &Measures<'_>, pid: u32, debt: &Debt) -> bool {
    let mut own = measures.model.held.endpoints.iter();
    let end = own.find(|end| end.process.pid == pid && end.object_ino() == debt.ino);
    let Some(state) = end.and_then(|end| end.socket.as_ref()) else { return false };
    let Some(turn) = &state.turn else { return false };
    let apart_ns = u64::from(turn.sent_jiffies.saturating_sub(turn.received_jiffies))
        * u64::from(turn.jiffy_ns);
    state.acked_bytes == 0 || apart_ns >= APART_MIN.ns()
}

/// The process of this host at the other end.
fn far_end(measures: &Measures<'_>, socket: &InetRef, pid: u32) -> Option<ThreadRef> {
    measures.graph.far_processes(socket).into_iter().find(|far| far.pid != pid)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Answer;
    use crate::facts::*;
    use crate::rules::net::scenes::{inet, look_at, with_state};
    use crate::rules::scenes::{LOOK_NS, at_place, blocked, endpoint, host, slept, thread};

    /// Server 20 looks at the clock now and then, with such clocks of the one connection that it has accepted: ages in milliseconds.
    fn rests(state: SocketState, turn: TcpTurn) -> Answer {
        const EACH_NS: Ns = LOOK_NS / 10;
        let listens = inet("tcp", 300, "10.0.0.1:80", "0.0.0.0:0", 10);
        let served = inet("tcp", 200, "10.0.0.1:80", "10.0.0.9:40000", 1);
        let turn = TcpTurn { jiffy_ns: 1_000_000, ..turn };
        let state = SocketState { turn: Some(turn), send_window_bytes: 9_000, ..state };
        let end = with_state(20, "server", served, state);
        let mut facts = vec![
            look_at(TargetKind::Process, 20),
            with_state(20, "server", listens, SocketState::default()),
            Fact { at_ns: LOOK_NS, ..end },
        ];
        facts.extend((0..10).map(|at| {
            let mut tick = slept(20, "server", at * EACH_NS, (at + 1) * EACH_NS - 9);
            if let Body::Wait(tick) = &mut tick.body {
                tick.place.syscall = "epoll_wait".into();
                tick.place.args = [5, 0, 64, 500, 0, 0];
            }
            tick
        }));
        explain([host(), facts].concat()).answer
    }

    fn spoken(acked_bytes: u64, sent_jiffies: u32, received_jiffies: u32) -> Answer {
        let state = SocketState { acked_bytes, received_bytes: 80, ..SocketState::default() };
        rests(state, TcpTurn { sent_jiffies, received_jiffies, ..TcpTurn::default() })
    }

    #[test]
    fn a_client_that_spoke_last_is_said_of_a_server_that_rests() {
        let never = spoken(0, 8_000, 8_000);
        assert!(never.title.contains("has not answered 10.0.0.9:40000"), "{}", never.title);
        assert!(never.title.contains("which spoke last, 5 s ago"), "{}", never.title);
        let again = spoken(900, 19_000, 8_000);
        assert!(again.title.contains("has not answered"), "{}", again.title);
    }

    #[test]
    fn of_an_idle_host_it_is_said_if_the_client_is_elsewhere() {
        let title = |client: &str, more: Vec<Fact>| {
            let served = inet("tcp", 200, "10.0.0.1:80", client, 1);
            let turn = TcpTurn {
                sent_jiffies: 8_000,
                received_jiffies: 8_000,
                jiffy_ns: 1_000_000,
                ..TcpTurn::default()
            };
            let state =
                SocketState { received_bytes: 80, turn: Some(turn), ..SocketState::default() };
            let end = with_state(20, "server", served, state);
            let listens = inet("tcp", 300, "10.0.0.1:80", "0.0.0.0:0", 10);
            let facts = vec![
                with_state(20, "server", listens, SocketState::default()),
                Fact { at_ns: LOOK_NS, ..end },
                blocked(20, "server", WaitState::Sleep, "epoll_wait"),
            ];
            explain([host(), facts, more].concat()).answer.title
        };
        let elsewhere = title("10.0.0.9:40000", vec![]);
        assert!(
            elsewhere.ends_with(
                "is idle, but server 20 has not answered 10.0.0.9:40000, which spoke last, 5 s ago."
            ),
            "{elsewhere}"
        );
        let client = inet("tcp", 201, "10.0.0.9:40000", "10.0.0.1:80", 1);
        let here = title("10.0.0.9:40000", vec![endpoint(10, "client", client)]);
        assert!(!here.contains("has not answered"), "its wait is seen here: {here}");
        let hidden = title("10.0.0.1:40000", vec![]);
        assert!(!hidden.contains("has not answered"), "of another user's: {hidden}");
    }

    /// Client 10 reads from the socket of server 20, which waits for events, before and after 100 ms in which it has no CPU; before, of this object.
    fn stands(before: ObjectRef) -> Answer {
        let near = || ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let (from, to) = (LOOK_NS / 2, LOOK_NS / 2 + 100_000_000);
        let place = |object: Option<ObjectRef>, state: WaitState| {
            let syscall = if object.is_some() { "read" } else { "" };
            Place { state, syscall: syscall.into(), object, ..Place::default() }
        };
        let wait = |place: Place, begin_ns: Ns, end_ns: Ns, context: WakeContext| {
            let wake = Some(Wake { at_ns: end_ns, context, ..Wake::default() });
            let thread = thread(10, "client");
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let mut again = at_place(10, "client", place(Some(near()), WaitState::Sleep));
        if let Body::Blocked(again) = &mut again.body {
            again.since_ns = to;
        }
        let clock = WakeContext::HardInterrupt;
        let facts = vec![
            look_at(TargetKind::Process, 10),
            endpoint(10, "client", near()),
            endpoint(20, "server", ObjectRef::Unix { ino: 200, peer_ino: 100, path: None }),
            blocked(20, "server", WaitState::Sleep, "epoll_wait"),
            wait(place(Some(before), WaitState::Sleep), 0, from, clock),
            wait(place(None, WaitState::Runnable), from, to, clock),
            again,
        ];
        explain([host(), facts].concat()).answer
    }

    #[test]
    fn who_has_stood_at_somebody_all_the_time_is_not_called_idle_for_a_moment_without_a_cpu() {
        let same = stands(ObjectRef::Unix { ino: 100, peer_ino: 200, path: None });
        let title =
            "client 10 has waited all the time for what comes over the unix socket of server 20";
        assert!(same.title.starts_with(title), "{}", same.title);
        assert!(same.text.contains("is mostly idle"), "{}", same.text);
        let other = stands(ObjectRef::Pipe { ino: 7 });
        assert!(other.title.contains("is mostly idle"), "half of it: {}", other.title);
    }

    #[test]
    fn what_follows_a_word_of_the_server_at_once_is_no_question() {
        for answer in [spoken(900, 8_100, 8_000), spoken(900, 8_000, 19_000)] {
            assert!(!answer.title.contains("has not answered"), "{}", answer.title);
        }
        let of_look = spoken(0, 1_000, 1_000);
        assert!(!of_look.title.contains("has not answered"), "{}", of_look.title);
    }

    #[test]
    fn an_answer_that_is_sent_again_and_not_acknowledged_is_said_of_a_server_that_rests() {
        let of = |retransmits: u32| {
            let state = SocketState {
                acked_bytes: 100,
                received_bytes: 80,
                retransmits,
                ..SocketState::default()
            };
            let turn = TcpTurn {
                write_seq: 900,
                snd_nxt: 900,
                packets_out: 1,
                sent_jiffies: 6_000,
                received_jiffies: 8_000,
                heard_jiffies: 8_000,
                ..TcpTurn::default()
            };
            rests(state, turn).title
        };
        let lost = of(4);
        assert!(lost.contains("sent to 10.0.0.9:40000 does not arrive"), "{lost}");
        assert!(lost.ends_with("acknowledged for 5 s."), "{lost}");
        assert!(!of(0).contains("does not arrive"), "it was not sent again");
    }
}
