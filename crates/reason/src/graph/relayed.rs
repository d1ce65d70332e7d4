//! Which connection a relay used for whoever waits for it: it was asked, asked another at once, and serves others meanwhile.
//!
//! A proxy at full rate runs nearly all the time, and ends and begins waits for others' questions. What it does then is no work on an
//! answer that another owes it; its own disk, lock and sleep, and running that nothing interrupts, are. Which of its connections
//! the question went out on, the clocks of the sockets say: the first that it has spoken on and has no answer from, after the
//! question came and before it could have been for somebody else. A proxy asks at once: what goes out later than the clocks are
//! apart waited in the relay, or is another client's. Until when that stands is known at each reading of the sockets, and after the
//! last of them by what the other does. Unix sockets have no clocks: there it is the only one whom the relay set to work just
//! after the question came, and who was seen at it until the answer.
//!
//! Must not: choose where two clients' questions went out to different processes at one time, or believe a connection that was
//! asked before the question came, or on which nobody ever answers. Rejected: who woke the proxy last (its other clients do), and
//! how much it worked (a proxy that is the bottleneck has no answer outstanding).

use super::channels::waits_for_undelivered;
use super::conversation::{answered_ns, waited_since_ns};
use super::debts::Debt;
use super::index::Index;
use super::leaf::ChainLink;
use super::next::{Asker, Next, Until};
use super::question::{is_for_a_question, is_for_an_answer};
use super::serving::serving_since;
use crate::facts::{InetRef, Ns, ThreadRef};
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, Piece, WaitSpan};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Why whoever was asked for another is next.
pub(super) const BECAUSE: &str = "it was asked for this answer and has not answered";

/// From a question to the one that it makes a relay ask.
pub(super) static RELAYED_WITHIN: Threshold = Threshold::new(
    200.0,
    "ms",
    "from a client's question to a relay's own: a later one waited in the relay, or is somebody else's",
    "chosen: a relay that all CPUs are taken from gets its turn within a few tens of milliseconds",
);

/// Ages of data are counted in jiffies.
pub(super) static CLOCKS_APART: Threshold = Threshold::new(
    10.0,
    "ms",
    "between the clocks of two connections, where they count in jiffies",
    "a jiffy at 100 Hz, the longest of a kernel",
);

/// A question that a relay has passed on.
pub(super) struct Relayed {
    /// The connection that it went out on, or where whoever has it takes questions.
    pub on: Object,
    /// Who is to answer; nobody, if that is on another host.
    pub by: Option<ThreadRef>,
    /// When it went out.
    pub asked_ns: Ns,
    /// Until when no answer is known to have come.
    pub until_ns: Ns,
    /// It stands at the end of the look.
    pub standing: bool,
}

/// Whom a process has asked for the sake of somebody who waits for its answer, if that is known. `asks`: the link of who waits, and
/// what ends it; `within`: the part of it that is looked at.
pub(super) fn passed_on(
    index: &Index<'_>,
    (asks, until): (&ChainLink, Until<'_>),
    relay: &ThreadRef,
    within: (Ns, Ns),
) -> Option<Relayed> {
    let Object::Inet(ino) = asks.object else { return None };
    if asks.who.pid == relay.pid || asks.question_of.is_some() {
        return None;
    }
    let socket = index.model.called.socket(ino)?;
    if !index.connections.far_processes(socket).iter().any(|far| far.pid == relay.pid) {
        return None;
    }
    let since_ns = match until {
        Until::Wait(wait) => waited_since_ns(index, wait),
        Until::At(_) => asks.since_ns,
    };
    let is_question =
        |debt: &&Debt| debt.ino == ino && debt.since_ns <= asks.end_ns && debt.seen_ns >= since_ns;
    let question =
        index.debts.asked_by(asks.who.pid).filter(is_question).max_by_key(|debt| debt.since_ns);
    let came_ns = question.map_or(since_ns, Debt::asked_ns);
    let on_connection = on_connection(index, (socket, question, came_ns), relay, within.1);
    on_connection.or_else(|| {
        let asker = Asker { who: &asks.who, until };
        let end_ns = index.model.look.end_ns;
        let answered_ns = answered_ns(index, asker, relay.pid).unwrap_or(end_ns).min(end_ns);
        let (by, asked_ns) =
            set_to_work(index, (asker.who, relay), (came_ns, answered_ns), within)?;
        let at = index.connections.listening(by.pid).next();
        let on = at.map_or(Object::Nothing, |end| Object::from(&end.object));
        let standing = answered_ns == end_ns;
        Some(Relayed { on, by: Some(by), asked_ns, until_ns: answered_ns, standing })
    })
}

/// The same, by the clocks of connections.
fn on_connection(
    index: &Index<'_>,
    (socket, question, came_ns): (&InetRef, Option<&Debt>, Ns),
    relay: &ThreadRef,
    to: Ns,
) -> Option<Relayed> {
    let exact = question.is_some_and(|debt| debt.sent_ns.is_some());
    let slack_ns = |debt: &Debt| match exact && debt.sent_ns.is_some() {
        true => 0,
        false => CLOCKS_APART.ns(),
    };
    let is_after = |debt: &&Debt| {
        let asked_ns = debt.asked_ns();
        debt.since_known
            && asked_ns + slack_ns(debt) >= came_ns
            && asked_ns <= came_ns + RELAYED_WITHIN.ns()
            && asked_ns < to
    };
    // Who has never sent a word, on a connection that was there before, is sent logs and counts, and answers nothing.
    let may_answer = |debt: &&Debt| {
        debt.silent_since_ns.is_none_or(|made_ns| made_ns + CLOCKS_APART.ns() >= came_ns)
    };
    let sent = index.debts.asked_by(relay.pid).filter(is_after).filter(may_answer);
    let mut sent: Vec<&Debt> = sent.collect();
    sent.sort_by_key(|debt| debt.asked_ns());
    let first = *sent.first()?;
    if first.asked_ns() > came_ns + CLOCKS_APART.ns() {
        return None;
    }
    let far = |debt: &Debt| far_pids(index, relay.pid, debt.ino);
    let pids = far(first);
    // A service that asks itself passes nothing on: which of its threads answers, the wait of the one that asked shows.
    let is_own = |socket: &InetRef| {
        let far = index.connections.far_processes(socket);
        !far.is_empty() && far.iter().all(|process| process.pid == relay.pid)
    };
    if index.model.called.socket(first.ino).is_some_and(is_own) {
        return None;
    }
    let own = (socket.local, socket.remote);
    let is_same = sent.iter().all(|debt| far(debt) == pids);
    if !is_same && !is_apart(index, (relay.pid, own), came_ns, &sent) {
        return None;
    }
    let by = serving_since(index, Some(relay.pid), &pids, (first.asked_ns(), to));
    // It was closed by the time at which the question was last seen to stand.
    let closed_ns = question.map(|debt| debt.seen_ns).filter(|at_ns| *at_ns > first.seen_ns);
    let until_ns = stood_until(index, first, by.as_ref(), closed_ns.map_or(to, |ns| ns.min(to)));
    let standing = first.seen_ns >= index.model.look.end_ns;
    let (on, asked_ns) = (Object::Inet(first.ino), first.asked_ns());
    Some(Relayed { on, by, asked_ns, until_ns, standing })
}

/// Where no clock of a connection says it: of those whose wait for a question a relay at work ended just after the question came, the
/// only server that was at something from then until the answer.
fn set_to_work(
    index: &Index<'_>,
    (asker, relay): (&ThreadRef, &ThreadRef),
    (came_ns, answered_ns): (Ns, Ns),
    within: (Ns, Ns),
) -> Option<(ThreadRef, Ns)> {
    // Who waits meanwhile, or sleeps, is followed by that.
    let waits = index.waits.within(relay, within.0, within.1).iter();
    let waits =
        waits.filter(|wait| !matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota));
    let waited_ns: Ns = waits.map(|wait| wait.within_ns(within.0, within.1)).sum();
    if waited_ns * 2 > within.1.saturating_sub(within.0) {
        return None;
    }
    let until_ns = answered_ns.saturating_sub(CLOCKS_APART.ns());
    let is_at_it = |(thread, since_ns): &(ThreadRef, Ns)| {
        let from = *since_ns.max(&(index.model.look.begin_ns + CLOCKS_APART.ns()));
        from < until_ns
            && rest_ns(index, thread, (from, until_ns)) == 0
            && is_seen_at_it(index, thread, (from, until_ns))
    };
    // Of whom the clocks say that he was asked something: what, on_connection has looked at.
    let is_dated = |pid: u32| {
        let asked = index.debts.asked_by(relay.pid).filter(|debt| debt.since_known);
        let mut asked = asked.filter(|it| it.answered_ns.unwrap_or(it.seen_ns) > came_ns);
        asked.any(|debt| far_pids(index, relay.pid, debt.ino).contains(&pid))
    };
    let by_path = index.connections.served_by_path(relay.pid);
    let takes = |pid: u32| {
        by_path.iter().any(|of| of.pid == pid) || index.connections.listening(pid).next().is_some()
    };
    let woken = index.woken.by(relay.pid, came_ns, came_ns + RELAYED_WITHIN.ns()).iter();
    // Of thousands that a busy relay wakes meanwhile each process is asked about once. A client whose wait an answer ended takes no questions.
    let mut known: HashMap<u32, bool> = HashMap::new();
    let mut may_serve =
        |pid: u32| *known.entry(pid).or_insert_with(|| takes(pid) && !is_dated(pid));
    let serves = |wait: &&&WaitSpan| {
        let pid = wait.thread.pid;
        ![asker.pid, relay.pid].contains(&pid) && may_serve(pid) && !is_for_an_answer(index, wait)
    };
    let woken = woken.filter(serves).map(|wait| (wait.thread.clone(), wait.end_ns));
    let mut at_it: Vec<(ThreadRef, Ns)> = woken.filter(is_at_it).collect();
    at_it.sort_by_key(|(thread, since_ns)| (thread.pid, thread.tid, std::cmp::Reverse(*since_ns)));
    at_it.dedup_by_key(|(thread, _)| thread.pid);
    match &at_it[..] {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// Whether it was seen that a thread without a known rest did not rest either: a wait that goes on may not be reported, but its end
/// is before the next one begins.
fn is_seen_at_it(index: &Index<'_>, thread: &ThreadRef, (from, to): (Ns, Ns)) -> bool {
    let began_another = index.waits.of(thread).last().is_some_and(|wait| wait.begin_ns > from);
    let pieces = index.timelines.pieces(index.model.threads.key(thread), from, to);
    let seen = pieces.iter().filter(|piece| !matches!(piece.doing, Doing::Unseen));
    let seen_ns: Ns = seen.map(|piece| piece.end_ns - piece.begin_ns).sum();
    began_another || seen_ns * 2 > to - from
}

/// What a relay did itself while another owes it an answer: waits that are for no other's question, and running that nothing but the turns of
/// others on its CPU interrupted for most of the time. Of several threads it may be another that asked: at what it stood before, it rests.
pub(super) fn own_times(
    index: &Index<'_>,
    thread: &ThreadRef,
    relayed: &Relayed,
    (from, to): (Ns, Ns),
) -> Vec<(Ns, Ns)> {
    let stood = index.waits.at(thread, relayed.asked_ns);
    let stood = stood.filter(|it| it.begin_ns + CLOCKS_APART.ns() < relayed.asked_ns);
    let rests_there = |wait: &WaitSpan| {
        wait.class.is_for_somebody()
            && stood.is_some_and(|it| it.class == wait.class && it.object == wait.object)
    };
    let is_for_cpu =
        |wait: &WaitSpan| matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota);
    let is_at_work = |piece: &Piece<'_>| match piece.doing {
        Doing::Running => true,
        Doing::Waiting(wait) => is_for_cpu(wait),
        Doing::Unseen => false,
    };
    // A pool's thread waits for another, and who has ended for nothing.
    let is_none = |class: WaitClass| {
        use WaitClass::{EndedThread, FutexWait, Idle, Kernel, Zombie};
        matches!(class, Idle | FutexWait | Kernel | Zombie | EndedThread)
    };
    let is_own_wait = |piece: &&Piece<'_>| {
        matches!(piece.doing, Doing::Waiting(wait)
            if !is_none(wait.class) && wait.object != relayed.on
                && !is_for_a_question(index, wait) && !rests_there(wait))
    };
    let pieces = index.timelines.pieces(index.model.threads.key(thread), from, to);
    let mut own = Vec::new();
    for run in pieces.chunk_by(|one, next| is_at_work(one) == is_at_work(next)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        if !is_at_work(first) {
            own.extend(run.iter().filter(is_own_wait).map(|it| (it.begin_ns, it.end_ns)));
            continue;
        }
        let ran = run.iter().any(|piece| matches!(piece.doing, Doing::Running));
        if ran && (last.end_ns - first.begin_ns) * 2 > to - from {
            own.push((first.begin_ns, last.end_ns));
        }
    }
    own
}

/// How long a thread waited for the next event or question within a time.
pub(super) fn rest_ns(index: &Index<'_>, thread: &ThreadRef, (from, to): (Ns, Ns)) -> Ns {
    let rests = |wait: &&WaitSpan| wait.class == WaitClass::Idle || is_for_a_question(index, wait);
    let waits = index.waits.within(thread, from, to).iter();
    waits.filter(rests).map(|wait| wait.within_ns(from, to)).sum()
}

/// Who is to answer on a connection that was asked on: whom it leads to, else who is to accept it. Empty: another host.
fn far_pids(index: &Index<'_>, own_pid: u32, ino: u64) -> Vec<u32> {
    let Some(socket) = index.model.called.socket(ino) else { return Vec::new() };
    let mut far = index.connections.far_processes(socket);
    if far.is_empty() {
        // Not accepted yet.
        far = index.connections.listeners(socket, None);
    }
    far.iter().map(|process| process.pid).filter(|pid| *pid != own_pid).collect()
}

/// Who owes an answer on a connection that a process has asked on.
pub(super) fn who_owes(index: &Index<'_>, own_pid: u32, debt: &Debt, to: Ns) -> Option<Next> {
    let pids = far_pids(index, own_pid, debt.ino);
    // Who has not heard the question owes nothing, nor whoever's answer does not arrive.
    let socket = index.model.called.socket(debt.ino);
    let is_lost = || socket.is_some_and(|it| waits_for_undelivered(index, debt.since_ns, to, it));
    if pids.is_empty() || is_lost() {
        return Some(Next::Peer(debt.ino));
    }
    let by = serving_since(index, Some(own_pid), &pids, (debt.since_ns, to));
    by.map(|by| Next::Answer(debt.ino, by))
}

/// Whether the first of several questions has no other near it in time, and no other client's can have come then, answered since or
/// not. `own`: the addresses of the client's connection.
fn is_apart(
    index: &Index<'_>,
    (relay, own): (u32, (SocketAddr, SocketAddr)),
    came_ns: Ns,
    sent: &[&Debt],
) -> bool {
    let near_ns = CLOCKS_APART.ns();
    let first_ns = sent[0].asked_ns();
    let within = (came_ns.saturating_sub(near_ns), first_ns + near_ns);
    sent[1].asked_ns() > within.1 && !index.debts.heard.may_ask_besides(relay, own, within)
}

/// Until when a question that was seen to stand was not answered: who was at work then was so until it waited for the next question;
/// of who waits for events that is not known, and whoever asked has no answer yet.
fn stood_until(index: &Index<'_>, debt: &Debt, by: Option<&ThreadRef>, to: Ns) -> Ns {
    if let Some(at_ns) = debt.answered_ns {
        return at_ns.min(to);
    }
    let Some(by) = by.filter(|_| debt.seen_ns < to) else { return to };
    let pieces = index.timelines.pieces(index.model.threads.key(by), debt.seen_ns, to);
    let rests = |piece: &&Piece<'_>| matches!(piece.doing, Doing::Waiting(it) if it.class == WaitClass::Idle);
    let rested = pieces.iter().find(rests).map_or(to, |piece| piece.begin_ns);
    if rested > debt.seen_ns { rested } else { to }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::chains::Chains;
    use crate::model::object::Object;
    use crate::rules::scenes::{LOOK_NS, endpoint, host, thread};
    use crate::waits::WaitClass;
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;
    const CLIENT: u32 = 10;
    const PROXY: u32 = 20;
    const SERVER: u32 = 30;
    const OTHER: u32 = 40;
    const ASKED_MS: Ns = 1_000;

    fn socket(ino: u64, local: u16, remote: u16) -> ObjectRef {
        let at = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let (local, remote) = (at(local), at(remote));
        let state = if remote.port() == 0 { 10 } else { 1 };
        ObjectRef::Inet(InetRef { ino, netns: 1, protocol: "tcp".into(), local, remote, state })
    }

    /// A connection as it was read then, on which its owner asked at a time, or had an answer since.
    fn asked(pid: u32, object: ObjectRef, read_ms: Ns, (asked_ms, answered): (Ns, bool)) -> Fact {
        let jiffies = ((read_ms - asked_ms) / 4) as u32;
        let turn = TcpTurn {
            sent_jiffies: jiffies,
            received_jiffies: jiffies,
            heard_jiffies: jiffies,
            jiffy_ns: 4_000_000,
            first_tx_ns: asked_ms * MS,
            ..TcpTurn::default()
        };
        let received_bytes = u64::from(answered) * 9;
        let turn = TcpTurn { snd_wl1: u32::MAX - u32::from(answered), rcv_nxt: u32::MAX, ..turn };
        let turn = TcpTurn { received_jiffies: if answered { 0 } else { jiffies }, ..turn };
        let state = SocketState {
            acked_bytes: 80,
            received_bytes,
            turn: Some(turn),
            ..SocketState::default()
        };
        let mut fact = Fact { at_ns: read_ms * MS, ..endpoint(pid, "job", object) };
        if let Body::Endpoint(end) = &mut fact.body {
            end.socket = Some(state);
        }
        fact
    }

    fn wait(pid: u32, syscall: &str, object: Option<ObjectRef>, (from, to): (Ns, Ns)) -> Fact {
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), object, ..Place::default() };
        let (begin_ns, end_ns) = (from * MS, to * MS);
        let wake = Wake { at_ns: end_ns, context: WakeContext::HardInterrupt, ..Wake::default() };
        let thread = thread(pid, "job");
        let wait = Wait { thread, begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    /// Process 10 asks 20 at one second and waits until three; 20 is never seen to wait. Where the time goes from then on, in ms.
    fn spent(more: Vec<Fact>) -> Vec<(u32, WaitClass, Ns)> {
        let own = || socket(5, 5000, 80);
        let mut facts = host();
        facts.extend([
            endpoint(PROXY, "proxy", socket(1, 80, 0)),
            endpoint(SERVER, "server", socket(2, 81, 0)),
            endpoint(OTHER, "other", socket(3, 82, 0)),
            endpoint(PROXY, "proxy", socket(6, 80, 5000)),
            asked(CLIENT, own(), LOOK_NS / MS, (ASKED_MS, false)),
            wait(CLIENT, "recvfrom", Some(own()), (ASKED_MS, 3_000)),
            wait(SERVER, "clock_nanosleep", None, (ASKED_MS + 1, 2_500)),
            wait(SERVER, "epoll_wait", None, (2_500, 4_000)),
        ]);
        facts.extend(more);
        let Observed { model, timelines } = Observed::new(facts);
        let chains = Chains::new(&model, &timelines);
        let leaves = chains.follow(&thread(CLIENT, "job"), ASKED_MS * MS, 3_000 * MS);
        let mut spent: Vec<(u32, WaitClass, Ns)> = Vec::new();
        for leaf in &leaves {
            let root = leaf.root();
            assert!(leaf.links.len() < 3 || leaf.links[1].object != Object::Nothing);
            match spent.last_mut().filter(|last| (last.0, last.1) == (root.who.pid, root.class)) {
                Some(last) => last.2 += leaf.ns() / MS,
                None => spent.push((root.who.pid, root.class, leaf.ns() / MS)),
            }
        }
        spent
    }

    fn upstream(ino: u64, port: u16) -> ObjectRef {
        socket(ino, 6000 + port, port)
    }

    /// All of it is the proxy's own.
    fn is_its_own(more: Vec<Fact>) -> bool {
        spent(more) == [(PROXY, WaitClass::Unseen, 2_000)]
    }

    #[test]
    fn who_was_asked_for_the_answer_is_waited_for_whatever_the_proxy_does_for_others() {
        // Read at two seconds, while the server slept over it; it is closed by the end.
        let sent = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, false));
        let (asleep, own) = ((SERVER, WaitClass::Timer, 1_499), (PROXY, WaitClass::Unseen, 500));
        let ready = (SERVER, WaitClass::Unseen, 1);
        assert_eq!(spent(vec![sent]), [ready, asleep, own]);
    }

    #[test]
    fn a_proxy_that_has_asked_nobody_for_it_is_at_work_itself() {
        assert!(is_its_own(Vec::new()));
        let early = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS - 40, false));
        assert!(is_its_own(vec![early]), "it was asked before the question came");
        let late = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS + 300, false));
        assert!(is_its_own(vec![late]), "that is for somebody else");
        let held_back = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS + 50, false));
        assert!(is_its_own(vec![held_back]), "a proxy asks at once");
        let answered = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, true));
        assert!(is_its_own(vec![answered]), "it has its answer");
        let itself = asked(PROXY, socket(7, 6080, 80), 2_000, (ASKED_MS, false));
        let far = endpoint(PROXY, "proxy", socket(8, 80, 6080));
        assert!(is_its_own(vec![itself, far]), "it has asked itself");
    }

    #[test]
    fn of_two_that_were_asked_at_one_time_neither_is_blamed() {
        let both = |apart_ms| {
            vec![
                asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, false)),
                asked(PROXY, upstream(8, 82), 2_000, (ASKED_MS + apart_ms, false)),
            ]
        };
        assert!(is_its_own(both(4)));
        assert!(!is_its_own(both(40)), "the later one is for a later question");
        let other = asked(PROXY, socket(9, 80, 5001), LOOK_NS / MS, (ASKED_MS, true));
        assert!(is_its_own([vec![other], both(40)].concat()), "another client may have asked then");
    }

    #[test]
    fn who_never_answers_on_a_connection_is_not_asked() {
        let mut sent = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, false));
        let Body::Endpoint(end) = &mut sent.body else { panic!("an endpoint") };
        let turn = end.socket.as_mut().and_then(|state| state.turn.as_mut()).expect("clocks");
        // It was made a second before.
        turn.received_jiffies += 250;
        assert!(is_its_own(vec![sent]));
    }

    #[test]
    fn what_a_relay_does_itself_meanwhile_is_its_own() {
        let sent = || asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, false));
        let ready = (SERVER, WaitClass::Unseen, 1);
        let slept = wait(PROXY, "clock_nanosleep", None, (1_500, 1_700));
        let asleep = |ms| (SERVER, WaitClass::Timer, ms);
        let own = (PROXY, WaitClass::Unseen, 500);
        let sleeps = [ready, asleep(499), (PROXY, WaitClass::Timer, 200), asleep(800), own];
        assert_eq!(spent(vec![sent(), slept]), sleeps);
        let ran = |from: Ns, to: Ns| {
            let (thread, end_ns) = (thread(PROXY, "job"), to * MS);
            let ran = Ran { thread, begin_ns: from * MS, end_ns, cpu: 0 };
            Fact { at_ns: end_ns, body: Body::Ran(ran) }
        };
        let computes = [ready, asleep(99), (PROXY, WaitClass::Running, 1_900)];
        assert_eq!(spent(vec![sent(), ran(1_100, 3_000)]), computes);
        let rested = wait(PROXY, "epoll_wait", None, (1_600, 1_700));
        let cut_up = vec![sent(), ran(1_100, 1_600), rested, ran(1_700, 2_100)];
        assert_eq!(spent(cut_up), [ready, asleep(1_499), own]);
    }

    #[test]
    fn at_what_another_of_its_threads_stood_before_the_question_it_rests() {
        let sent = || asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, false));
        let reads = |from, to| wait(PROXY, "read", Some(ObjectRef::Pipe { ino: 9 }), (from, to));
        let (ready, asleep) = ((SERVER, WaitClass::Unseen, 1), (SERVER, WaitClass::Timer, 1_499));
        let orders = spent(vec![sent(), reads(0, 1_700), reads(1_701, 3_000)]);
        assert_eq!(orders[..2], [ready, asleep], "{orders:?}");
    }

    #[test]
    fn what_was_answered_by_the_end_stood_when_it_was_read_before() {
        let then = asked(PROXY, upstream(7, 81), 2_000, (ASKED_MS, false));
        let last = asked(PROXY, upstream(7, 81), 2_200, (ASKED_MS, true));
        let all = spent(vec![then, last]);
        let own: Ns = all.iter().filter(|part| part.0 == PROXY).map(|part| part.2).sum();
        assert_eq!(own, 800, "it was answered at 2,200 ms: {all:?}");
    }

    #[test]
    fn where_no_clock_says_it_the_only_server_that_was_set_to_work_until_the_answer_is_it() {
        let woken = |pid: u32, by: u32| {
            let mut fact = wait(pid, "epoll_wait", None, (0, ASKED_MS + 1));
            if let Body::Wait(wait) = &mut fact.body {
                let (context, by) = (WakeContext::Task, thread(by, "job"));
                wait.wake = Some(Wake { at_ns: wait.end_ns, context, by, ..Wake::default() });
            }
            fact
        };
        let until_ms = LOOK_NS / MS - 1;
        let at_it = |by: u32, from_ms: Ns| {
            vec![woken(OTHER, by), wait(OTHER, "clock_nanosleep", None, (from_ms, until_ms))]
        };
        let passes_on = (PROXY, WaitClass::Unseen, 1);
        let asleep = (OTHER, WaitClass::Timer, 1_998);
        let at_once = (OTHER, WaitClass::Unseen, 1);
        assert_eq!(spent(at_it(PROXY, ASKED_MS + 2)), [passes_on, at_once, asleep]);
        assert!(is_its_own(at_it(CLIENT, ASKED_MS + 2)), "somebody else set it to work");
        let rested = wait(OTHER, "epoll_wait", None, (ASKED_MS + 3, 1_500));
        assert!(is_its_own([vec![rested], at_it(PROXY, 1_500)].concat()), "it rested since");
        assert!(is_its_own(vec![woken(OTHER, PROXY)]), "nobody saw what it did then");
        let path = |ino, peer_ino, path: Option<&str>| {
            let path = path.map(Into::into);
            ObjectRef::Unix { ino, peer_ino, path }
        };
        let by_path = vec![
            endpoint(PROXY, "proxy", path(50, 51, None)),
            endpoint(OTHER, "other", path(51, 50, Some("/run/s"))),
            wait(OTHER, "clock_nanosleep", None, (0, 500)),
        ];
        assert!(is_its_own(by_path), "a connection says nothing of a question on it");
        let both = [vec![woken(SERVER, PROXY)], at_it(PROXY, ASKED_MS + 2)].concat();
        assert!(!is_its_own(both), "the other rested again");
    }
}
