//! Debts: who was asked and has not answered, by the clocks of the sockets themselves.
//!
//! On a connection the order of the last question and the last answer says who owes the next word, also where nothing has
//! happened inside the window (last_word.rs). Who accepted a connection owes when the peer spoke last; who made it
//! awaits when it spoke last itself; the rest is quiet. UDP keeps no clocks: a socket connected to a name server is an open
//! question, unless its process is asked by others (a proxy keeps that socket for all its life), and so is a connection that is still
//! being made, and one on which nobody has said a word while who made it stands there and reads: he waits to be greeted, as a client of a mail server or
//! of MySQL does. What was closed within the look counts as it was last seen. What was owed as the look began and was answered within
//! it is owed until a thread of that process first ran: a lower bound, as nothing says when the answer went out.
//! Wrong by nature: half-answered pipelines, messages that want no answer but those of a connection on which this end only listens.
//!
//! Must not: follow a debt (chains.rs), or call one late: a long poll is a debt by design.

use super::clients_heard::ClientsHeard;
use super::last_word::{Spoke, ago, only_listens, only_speaker, spoke_last};
use crate::facts::*;
use crate::model::Model;
use crate::threshold::Threshold;
use crate::waits::dns_question::asked_by_others;
use crate::waits::poll_intent::DNS_PORT;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What was read so long before the end of the look was closed since: of the others it is read after the end.
static CLOSED_MIN: Threshold = Threshold::new(
    100.0,
    "ms",
    "from the reading of a socket to the end of the look: what was read so long before it was closed since",
    "chosen: all that is open is read again after the end",
);

/// The clocks of connections tick so.
pub(crate) static APART_MIN: Threshold = Threshold::new(
    20.0,
    "ms",
    "between what came on one connection and on another: less is within what the clocks of sockets tell apart",
    "two jiffies of the slowest clock that kernels are built with, 100 Hz",
);

/// Who was not greeted for longer is not waited for.
static GREETING_MAX: Threshold = Threshold::new(
    60_000.0,
    "ms",
    "from the making of a connection on which nobody has said a word: who reads there for longer has news to come, which may take hours",
    "chosen: clients of MySQL give up after 10 s, and a feed has none for most of its life",
);

/// One answer that is outstanding.
#[derive(Debug, Clone)]
pub struct Debt {
    /// The socket at this end, by inode.
    pub ino: u64,
    /// Since when; the begin of the look where that is not known.
    pub since_ns: Ns,
    /// Whether it is known.
    pub since_known: bool,
    /// When it was last seen to be outstanding: by the end of the look, or before the connection was closed.
    pub seen_ns: Ns,
    /// Of a question that was sent, when its last segment left, to the microsecond, if that is known.
    pub sent_ns: Option<Ns>,
    /// When it was answered, if a later reading of the connection says so. Where a further question followed the answer: when the
    /// first was last seen to stand.
    pub answered_ns: Option<Ns>,
    /// When the connection was made, if its other end was never seen to have sent anything on it.
    pub silent_since_ns: Option<Ns>,
}

impl Debt {
    /// Of a socket that has no clocks.
    fn without_clock(ino: u64, since_ns: Ns, seen_ns: Ns) -> Self {
        Self {
            ino,
            since_ns,
            since_known: false,
            seen_ns,
            sent_ns: None,
            answered_ns: None,
            silent_since_ns: None,
        }
    }

    /// When the question was sent or came, as exactly as it is known.
    pub fn asked_ns(&self) -> Ns {
        self.sent_ns.unwrap_or(self.since_ns)
    }
}

/// Outstanding answers by process.
#[derive(Debug, Default)]
pub struct Debts {
    /// Questions that came and were not answered.
    pub owes: HashMap<u32, Vec<Debt>>,
    /// Questions that were sent and not answered.
    pub awaits: HashMap<u32, Vec<Debt>>,
    /// Questions that were sent, stood unanswered as the socket was read before the end of the look, and were answered by then: seen
    /// to stand until that reading.
    pub awaited_before: HashMap<u32, Vec<Debt>>,
    /// Questions that stood unanswered as the look began and were answered within it: until when nobody can have answered.
    pub owed_before: HashMap<u32, Vec<Debt>>,
    /// Of the connections that a process accepted: when something came on each, by every reading.
    pub(super) heard: ClientsHeard,
    /// Processes of whose connections the clocks were read.
    known: HashSet<u32>,
    /// Connections that a process made, and on which the other end has had the last word by the end of the look: the question before
    /// it, seen to stand until that came.
    answered: HashMap<(u32, u64), Debt>,
    /// The same by when that word came.
    answered_at: BTreeMap<Ns, Vec<(u32, u64)>>,
    /// Connections that a process made, and on which nobody has said a word by the end of the look: since when.
    unspoken: HashMap<(u32, u64), Ns>,
    /// Processes that made a connection.
    made: HashSet<u32>,
}

impl Debts {
    /// From the sockets at the end of a look. `accepted`: this end is the listener's, none of a connection to itself; `far`: the clocks of the
    /// other end, if it is here.
    pub fn of<'m>(
        model: &'m Model,
        accepted: impl Fn(&InetRef) -> Option<bool>,
        far: impl Fn(&InetRef) -> Option<&'m TcpTurn>,
    ) -> Self {
        let mut debts = Self::default();
        let serves = asked_by_others(model);
        for (endpoint, at_ns) in model.held.endpoints.iter().zip(&model.held.endpoints_at) {
            let ObjectRef::Inet(socket) = &endpoint.object else { continue };
            let seen_ns = match at_ns.saturating_add(CLOSED_MIN.ns()) < model.look.end_ns {
                true => *at_ns,
                false => model.look.end_ns,
            };
            let pid = endpoint.process.pid;
            let is_kept = asks_a_name_server(socket) && serves.contains(&pid);
            if asks_a_name_server(socket) && !is_kept || is_being_made(socket) {
                let debt = Debt::without_clock(socket.ino, model.look.begin_ns, seen_ns);
                debts.awaits.entry(pid).or_default().push(debt);
                continue;
            }
            let Some(state) = &endpoint.socket else { continue };
            let Some(turn) = &state.turn else { continue };
            debts.known.insert(endpoint.process.pid);
            if state.acked_bytes + state.received_bytes == 0 {
                continue;
            }
            let Some(accepted) = accepted(socket) else { continue };
            if accepted {
                let pair = model.called.translations.other_end(socket);
                debts.heard.add((pid, pair), (*at_ns, state, turn));
            } else {
                debts.made.insert(pid);
            }
            if accepted && only_listens(state, turn) {
                continue;
            }
            if !accepted && is_unspoken(state, turn) {
                debts.unspoken.insert((pid, socket.ino), ago(*at_ns, turn.received_jiffies, turn));
                continue;
            }
            let spoke = only_speaker(state, turn, accepted);
            let spoke = spoke.unwrap_or_else(|| spoke_last(turn, far(socket)));
            let (of, jiffies) = match (spoke, accepted) {
                (Spoke::Peer, true) => (&mut debts.owes, turn.received_jiffies),
                (Spoke::Me, false) => (&mut debts.awaits, turn.sent_jiffies),
                (Spoke::Peer, false) if seen_ns == model.look.end_ns => {
                    let word = answered(socket.ino, *at_ns, turn);
                    debts.answered_at.entry(word.seen_ns).or_default().push((pid, socket.ino));
                    debts.answered.insert((pid, socket.ino), word);
                    continue;
                }
                _ => continue,
            };
            // The clocks are read a little after the end: what is younger stands at the end for the one before it.
            let since_ns = ago(*at_ns, jiffies, turn).min(seen_ns);
            let sent_ns = sent_ns(turn, since_ns).filter(|_| spoke == Spoke::Me);
            let debt = Debt {
                ino: socket.ino,
                since_ns,
                since_known: true,
                seen_ns,
                sent_ns,
                answered_ns: None,
                silent_since_ns: silent_since_ns(*at_ns, state, turn),
            };
            of.entry(endpoint.process.pid).or_default().push(debt);
        }
        debts
    }

    /// Adds that a word of greeting is outstanding, of the connections that somebody reads who has nothing else to wait for: `reads`, by process and inode.
    /// `far`: the same of the other end.
    pub fn add_greetings(
        &mut self,
        model: &Model,
        reads: impl Iterator<Item = (u32, u64)>,
        far: impl Fn(u64) -> Vec<(u32, u64)>,
    ) {
        let reads: BTreeSet<(u32, u64)> = reads.collect();
        let seen_ns = model.look.end_ns;
        for (pid, ino) in reads {
            let made_ns = self.unspoken.get(&(pid, ino)).copied();
            let is_young = |at_ns: &Ns| seen_ns.saturating_sub(*at_ns) <= GREETING_MAX.ns();
            let Some(made_ns) = made_ns.filter(is_young) else { continue };
            let greeting = |ino| Debt {
                since_known: true,
                silent_since_ns: Some(made_ns),
                ..Debt::without_clock(ino, made_ns, seen_ns)
            };
            self.awaits.entry(pid).or_default().push(greeting(ino));
            for (far_pid, far_ino) in far(ino) {
                self.owes.entry(far_pid).or_default().push(greeting(far_ino));
            }
        }
    }

    /// Adds what was owed as the look began and is answered by its end. When the answer went out is not recorded: nobody sent it
    /// before a thread of the process ran. `stood_until`: until when none did.
    pub fn add_owed_before(
        &mut self,
        model: &Model,
        accepted: impl Fn(&InetRef) -> Option<bool>,
        stood_until: impl Fn(u32) -> Ns,
    ) {
        for (at_ns, endpoint) in &model.held.endpoints_before {
            let ObjectRef::Inet(socket) = &endpoint.object else { continue };
            let Some((state, turn)) = talked(endpoint) else { continue };
            let spoke =
                || only_speaker(state, turn, true).unwrap_or_else(|| spoke_last(turn, None));
            if accepted(socket) != Some(true) || spoke() != Spoke::Peer {
                continue;
            }
            let pid = endpoint.process.pid;
            let age_ns = u64::from(turn.received_jiffies) * u64::from(turn.jiffy_ns);
            let debt = Debt {
                ino: socket.ino,
                since_ns: at_ns.saturating_sub(age_ns),
                since_known: true,
                seen_ns: stood_until(pid).min(model.look.end_ns),
                sent_ns: None,
                answered_ns: None,
                silent_since_ns: None,
            };
            let stands = |one: &Debt| one.ino == debt.ino && one.since_ns <= *at_ns;
            let is_counted = self.owes.get(&pid).is_some_and(|all| all.iter().any(stands));
            if debt.seen_ns > *at_ns && !is_counted {
                self.owed_before.entry(pid).or_default().push(debt);
            }
        }
    }

    /// Adds what was sent and stood unanswered as a socket was read before the end, if it is another question than the one that stands
    /// there at the end.
    pub fn add_awaited_before(
        &mut self,
        model: &Model,
        accepted: impl Fn(&InetRef) -> Option<bool>,
    ) {
        let place = |it: &Endpoint| (it.process.pid, it.fd, it.object_ino());
        let last = model.held.endpoints.iter().zip(&model.held.endpoints_at);
        let last: HashMap<_, _> = last.map(|(it, at_ns)| (place(it), (*at_ns, it))).collect();
        let before = &model.held.endpoints_before;
        for (index, (at_ns, endpoint)) in before.iter().enumerate() {
            let ObjectRef::Inet(socket) = &endpoint.object else { continue };
            let Some((state, turn)) = talked(endpoint) else { continue };
            let Some(is_accepted) = accepted(socket) else { continue };
            if is_accepted {
                let pair = model.called.translations.other_end(socket);
                self.heard.add((endpoint.process.pid, pair), (*at_ns, state, turn));
            }
            if is_accepted || spoke(state, turn) != Spoke::Me {
                continue;
            }
            let since_ns = ago(*at_ns, turn.sent_jiffies, turn);
            let again = before.get(index + 1).filter(|(_, it)| place(it) == place(endpoint));
            let last = last.get(&place(endpoint)).copied();
            let again = again.map(|(at_ns, it)| (*at_ns, it)).or(last);
            let answered_ns = again.and_then(|(read_ns, it)| {
                let (later, now) = talked(it)?;
                if later.received_bytes <= state.received_bytes {
                    return None;
                }
                // Of an answer that a further question followed neither clock says when it came.
                let is_dated = now.write_seq == turn.write_seq && spoke(later, now) == Spoke::Peer;
                let came_ns = || ago(read_ns, now.received_jiffies, now).max(*at_ns);
                Some(if is_dated { came_ns() } else { *at_ns })
            });
            let is_silent =
                last.and_then(|(_, it)| talked(it)).is_none_or(|(it, _)| it.received_bytes == 0);
            let ino = socket.ino;
            let debt = Debt {
                ino,
                since_ns,
                since_known: true,
                seen_ns: *at_ns,
                sent_ns: sent_ns(turn, since_ns),
                answered_ns,
                silent_since_ns: silent_since_ns(*at_ns, state, turn).filter(|_| is_silent),
            };
            let stands = |one: &Debt| one.ino == ino && one.since_ns <= *at_ns;
            let pid = endpoint.process.pid;
            if !self.awaits.get(&pid).is_some_and(|all| all.iter().any(stands)) {
                self.awaited_before.entry(pid).or_default().push(debt);
            }
        }
    }

    /// The questions of a process that were seen to stand unanswered, at the end or before.
    pub fn asked_by(&self, pid: u32) -> impl Iterator<Item = &Debt> {
        let all = [&self.awaits, &self.awaited_before];
        all.into_iter().filter_map(move |of| of.get(&pid)).flatten()
    }

    /// Whether a process has no question outstanding on a connection that it made, as its other end has had the last word there: what
    /// comes next is news, or a further part of an answer.
    pub fn has_last_word_of_peer(&self, pid: u32, ino: u64) -> bool {
        self.answered.contains_key(&(pid, ino))
    }

    /// When such a last word came.
    pub fn last_word_of_peer_ns(&self, pid: u32, ino: u64) -> Option<Ns> {
        self.last_answered(pid, ino)?.answered_ns
    }

    /// The question of a process on a connection that was answered, and that it has asked nothing after.
    pub fn last_answered(&self, pid: u32, ino: u64) -> Option<&Debt> {
        self.answered.get(&(pid, ino))
    }

    /// Processes with the connections that they made on which the other end's last word came within a time.
    pub fn answered_within(&self, from_ns: Ns, to_ns: Ns) -> impl Iterator<Item = (u32, u64)> {
        self.answered_at.range(from_ns..=to_ns).flat_map(|(_, all)| all.iter().copied())
    }

    /// The questions of a process that were answered since a time, and that nothing was asked after on their connections.
    pub fn answered_since(&self, pid: u32, from_ns: Ns) -> impl Iterator<Item = &Debt> {
        let own = self.answered.iter().filter(move |((by, _), _)| *by == pid);
        own.map(|(_, debt)| debt).filter(move |debt| debt.seen_ns >= from_ns)
    }

    /// Before when nothing was asked of what a process owes, by clocks that tell apart what lies between.
    pub fn owes_only_since(&self, pid: u32) -> Option<Ns> {
        let owed = self.owes.get(&pid).filter(|all| all.iter().all(|debt| debt.since_known))?;
        Some(owed.iter().map(|debt| debt.since_ns).min()?.saturating_sub(APART_MIN.ns()))
    }

    /// Whether a process is known to have asked nobody on a connection that it made.
    pub fn has_asked_nobody(&self, pid: u32) -> bool {
        self.knows(pid) && !self.made.contains(&pid) && self.asked_by(pid).next().is_none()
    }

    /// Whether the connections of a process were read, so that no debt means none.
    pub fn knows(&self, pid: u32) -> bool {
        self.known.contains(&pid)
    }
}

/// The last question on a connection that this end made, whose other end has had the last word.
fn answered(ino: u64, read_ns: Ns, turn: &TcpTurn) -> Debt {
    let came_ns = ago(read_ns, turn.received_jiffies, turn);
    let since_ns = ago(read_ns, turn.sent_jiffies, turn).min(came_ns);
    Debt {
        since_known: true,
        answered_ns: Some(came_ns),
        ..Debt::without_clock(ino, since_ns, came_ns)
    }
}

/// Whether nobody has said a word on a connection that this end made: its SYN alone was acknowledged.
fn is_unspoken(state: &SocketState, turn: &TcpTurn) -> bool {
    state.acked_bytes <= 1 && state.received_bytes == 0 && turn.write_seq == turn.snd_una
}

/// The state and the clocks of a connection on which something was said.
pub(super) fn talked(endpoint: &Endpoint) -> Option<(&SocketState, &TcpTurn)> {
    let state = endpoint.socket.as_ref()?;
    let turn = state.turn.as_ref()?;
    (state.acked_bytes + state.received_bytes > 0).then_some((state, turn))
}

/// Who spoke last on a connection that this end made, by its clocks alone.
pub(super) fn spoke(state: &SocketState, turn: &TcpTurn) -> Spoke {
    only_speaker(state, turn, false).unwrap_or_else(|| spoke_last(turn, None))
}

/// Since when nothing has come on a connection on which nothing ever came: until then the clock of what comes shows its making.
fn silent_since_ns(read_ns: Ns, state: &SocketState, turn: &TcpTurn) -> Option<Ns> {
    (state.received_bytes == 0).then(|| ago(read_ns, turn.received_jiffies, turn))
}

/// When the last segment that the other end has was sent, if that agrees with the age of what was sent last.
fn sent_ns(turn: &TcpTurn, since_ns: Ns) -> Option<Ns> {
    let apart_ns = turn.first_tx_ns.abs_diff(since_ns);
    (turn.first_tx_ns != 0 && apart_ns <= 2 * u64::from(turn.jiffy_ns)).then_some(turn.first_tx_ns)
}

/// A resolver connects a socket for its question and closes it with the answer: one that is open awaits an answer, since when
/// is not known.
pub(super) fn asks_a_name_server(socket: &InetRef) -> bool {
    socket.protocol == "udp" && socket.remote.port() == DNS_PORT
}

/// It was asked for, and the other end has said nothing.
fn is_being_made(socket: &InetRef) -> bool {
    socket.is_tcp() && socket.is_connecting() && socket.remote.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::last_word::tests::turn;
    use crate::waits::poll_intent::TCP_LISTEN;

    fn connection(local: &str, remote: &str) -> InetRef {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        InetRef { ino: 5, netns: 1, protocol: "tcp".into(), local, remote, state: 1 }
    }

    fn endpoint(socket: InetRef, state: SocketState) -> Endpoint {
        Endpoint {
            process: ThreadRef { tid: 10, pid: 10, start_ns: 1, comm: "shop".into() },
            fd: 3,
            readable: true,
            writable: true,
            nonblocking: false,
            object: ObjectRef::Inet(socket),
            unread: None,
            output_stopped: false,
            socket: Some(state),
        }
    }

    #[test]
    fn how_long_ago_a_question_was_sent_counts_from_the_reading() {
        const SECOND: Ns = 1_000_000_000;
        let socket = connection("127.0.0.1:5000", "127.0.0.1:80");
        let sent = turn(250, 500);
        let state = SocketState { acked_bytes: 9, turn: Some(sent), ..SocketState::default() };
        let fact = |at_ns, body| Fact { at_ns, body };
        let model = Model::new(vec![
            fact(0, Body::WindowBegin(WindowBegin { unix_ns: 1 })),
            fact(4 * SECOND, Body::Endpoint(endpoint(socket, state))),
            fact(4 * SECOND + 40_000_000, Body::WindowEnd(WindowEnd::default())),
        ]);
        let debts = Debts::of(&model, |_| Some(false), |_| None);
        let debt = &debts.awaits[&10][0];
        // 250 jiffies of 4 ms before the reading, which was a little before the end.
        assert_eq!(debt.since_ns, 3 * SECOND);
        assert_eq!(debt.seen_ns, model.look.end_ns, "it was open as the look ended");
    }

    #[test]
    fn who_reads_a_connection_without_a_word_waits_to_be_greeted_and_who_does_not_has_a_spare_one()
    {
        let socket = connection("127.0.0.1:5000", "127.0.0.1:3306");
        let read = |acked_bytes, at_s: u32| {
            let made = turn(250 * (at_s - 3), 250 * (at_s - 3));
            let state = SocketState { acked_bytes, turn: Some(made), ..SocketState::default() };
            let at_ns = u64::from(at_s) * 1_000_000_000;
            let begins = Fact { at_ns: 0, body: Body::WindowBegin(WindowBegin { unix_ns: 1 }) };
            let end = Body::Endpoint(endpoint(socket.clone(), state));
            let ends = Body::WindowEnd(WindowEnd::default());
            Model::new(vec![begins, Fact { at_ns, body: end }, Fact { at_ns, body: ends }])
        };
        let owed = |acked_bytes, reads: &[(u32, u64)], at_s| {
            let model = read(acked_bytes, at_s);
            let mut debts = Debts::of(&model, |_| Some(false), |_| None);
            debts.add_greetings(&model, reads.iter().copied(), |_| vec![(20, 6)]);
            let of = |all: &HashMap<u32, Vec<Debt>>, pid| {
                all.get(&pid).map_or(0, |all: &Vec<Debt>| all.len())
            };
            (of(&debts.awaits, 10), of(&debts.owes, 20))
        };
        assert_eq!(owed(1, &[(10, 5), (10, 5)], 4), (1, 1));
        assert_eq!(owed(1, &[(10, 7)], 4), (0, 0), "nobody reads it");
        assert_eq!(owed(1, &[(10, 5)], 90), (0, 0), "a feed");
        assert_eq!(owed(80, &[(10, 5)], 4).1, 0, "it has asked: what it awaits is an answer");
    }

    #[test]
    fn what_was_owed_at_the_begin_stands_until_a_thread_of_the_process_ran() {
        const SECOND: Ns = 1_000_000_000;
        let socket = connection("127.0.0.1:80", "127.0.0.1:5000");
        let read = |turn: TcpTurn| {
            let (acked_bytes, received_bytes, turn) = (9, 9, Some(turn));
            let state = SocketState { acked_bytes, received_bytes, turn, ..SocketState::default() };
            Body::Endpoint(endpoint(socket.clone(), state))
        };
        let owed = |then: TcpTurn, at_end: TcpTurn, until: Ns| {
            let fact = |at_ns, body| Fact { at_ns, body };
            let model = Model::new(vec![
                fact(2 * SECOND, Body::WindowBegin(WindowBegin { unix_ns: 1 })),
                fact(2 * SECOND, read(then)),
                fact(6 * SECOND, read(at_end)),
                fact(6 * SECOND, Body::WindowEnd(WindowEnd::default())),
            ]);
            let mut debts = Debts::of(&model, |_| Some(true), |_| None);
            debts.add_owed_before(&model, |_| Some(true), |_| until);
            let all = debts.owed_before.remove(&10).unwrap_or_default();
            all.iter().map(|debt| (debt.since_ns, debt.seen_ns)).collect::<Vec<_>>()
        };
        // The question came 250 jiffies of 4 ms before the begin; the last word at the end is the answer.
        let (asked, answered) = (turn(500, 250), turn(10, 900));
        assert_eq!(owed(asked, answered, 5 * SECOND), [(SECOND, 5 * SECOND)]);
        assert!(owed(asked, answered, 2 * SECOND).is_empty(), "it ran at once");
        assert!(owed(answered, answered, 5 * SECOND).is_empty(), "nothing was owed");
        // The same question stands at the end as well: it is counted there.
        assert!(owed(asked, turn(1500, 1250), 5 * SECOND).is_empty());
    }

    #[test]
    fn what_nothing_came_after_is_not_answered_and_a_further_question_dates_no_answer() {
        const SECOND: Ns = 1_000_000_000;
        let socket = connection("127.0.0.1:5000", "127.0.0.1:80");
        let read = |received_bytes, turn: TcpTurn| {
            let (acked_bytes, turn) = (9, Some(turn));
            let state = SocketState { acked_bytes, received_bytes, turn, ..SocketState::default() };
            Body::Endpoint(endpoint(socket.clone(), state))
        };
        // Asked half a second before the first reading, at two seconds; and read again at six.
        let answered = |received_bytes, at_end: TcpTurn| {
            let fact = |at_ns, body| Fact { at_ns, body };
            let model = Model::new(vec![
                fact(0, Body::WindowBegin(WindowBegin { unix_ns: 1 })),
                fact(2 * SECOND, read(9, turn(125, 250))),
                fact(6 * SECOND, read(received_bytes, at_end)),
                fact(6 * SECOND, Body::WindowEnd(WindowEnd::default())),
            ]);
            let mut debts = Debts::of(&model, |_| Some(false), |_| None);
            debts.add_awaited_before(&model, |_| Some(false));
            let all = debts.awaited_before.remove(&10).unwrap_or_default();
            all.iter().map(|debt| debt.answered_ns).collect::<Vec<_>>()
        };
        let more = |of: TcpTurn| TcpTurn { write_seq: 150, snd_nxt: 150, snd_una: 150, ..of };
        assert_eq!(answered(18, turn(1_125, 250)), [Some(5 * SECOND)]);
        assert_eq!(answered(9, more(turn(250, 1_250))), [None], "more was sent, and nothing came");
        assert_eq!(answered(18, more(turn(250, 500))), [Some(2 * SECOND)], "the next question");
        assert_eq!(answered(27, more(turn(500, 250))), [Some(2 * SECOND)], "the next answer");
    }

    #[test]
    fn a_socket_to_a_name_server_is_a_question_unless_its_process_is_asked_itself() {
        let socket = |local: &str, remote: &str, protocol: &str, state| InetRef {
            protocol: protocol.into(),
            state,
            ..connection(local, remote)
        };
        let awaits = |bound: InetRef| {
            let asks = socket("10.0.0.1:5000", "10.0.0.2:53", "udp", 1);
            let open = |fd, socket| {
                Body::Endpoint(Endpoint { fd, ..endpoint(socket, SocketState::default()) })
            };
            let all = [open(3, asks), open(4, bound)].into_iter();
            let facts = all.map(|body| Fact { at_ns: 9, body }).collect();
            Debts::of(&Model::new(facts), |_| Some(false), |_| None).awaits.len()
        };
        assert_eq!(awaits(socket("10.0.0.1:5001", "10.0.0.3:80", "tcp", 1)), 1);
        assert_eq!(awaits(socket("0.0.0.0:80", "0.0.0.0:0", "tcp", TCP_LISTEN)), 0, "a proxy");
        assert_eq!(awaits(socket("0.0.0.0:53", "0.0.0.0:0", "udp", 7)), 0, "a name server");
        assert_eq!(
            awaits(socket("0.0.0.0:40000", "0.0.0.0:0", "udp", 7)),
            1,
            "a port that it was given"
        );
    }
}
