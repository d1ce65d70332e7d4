//! Whether a server tries to connect at a pace of its own: as a proxy checks whether its backends are there. Then it is a note, whichever rule names it.
//!
//! Its event loop waits for its clients in the same call, or its main thread does while another one tries, so the tries hold nobody up as long as no
//! client waits for an answer. One that does may wait for just that, and then it is a wait like any other. Must not: say so of a
//! program whose main thread sleeps in between, or that nobody could ask: it may do nothing else until the try goes well; nor of a command, which
//! somebody waits for; nor of a process or container that somebody asked about and that was not seen to serve anybody: it may listen
//! already and not be ready. Rejected: the pace (who waits for a database tries as evenly).
//!
//! Edit together: engine.rs (the note), process/retry.rs (its words).

use crate::facts::{Endpoint, Ns, ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::programs;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;

/// How long a client may have waited.
pub(crate) static STANDS: Threshold = Threshold::new(
    100.0,
    "ms",
    "for which a client's question has stood unanswered, from which what its server tries may be for that client",
    "Nielsen 1993: up to a tenth of a second feels immediate",
);

/// Whether nobody waits for the connection that a process tries to make.
pub(crate) fn is_at_own_pace(measures: &Measures<'_>, end: &End, who: &ThreadRef) -> bool {
    if !is_for_a_connection(measures, end) || end.victims.keys().any(|pid| *pid != who.pid) {
        return false;
    }
    if measures.is_command() {
        return false;
    }
    if programs::checks_others(&measures.process_name(who)) {
        return true;
    }
    let listens = |it: &Endpoint| {
        let is_listener =
            |object: &ObjectRef| matches!(object, ObjectRef::Inet(own) if own.state == TCP_LISTEN);
        it.process.pid == who.pid && is_listener(&it.object)
    };
    let serves = main_serves(measures, who.pid);
    let is_beside = |wait: &WaitSpan| wait.thread.tid != wait.thread.pid && serves;
    let mut own = measures.waits().filter(|wait| {
        wait.thread.pid == who.pid && wait.class == end.class && wait.object == end.object
    });
    measures.model.held.endpoints.iter().any(listens)
        && own.all(|wait| wait.place.is_of_loop() || is_beside(wait))
        && !is_owing(measures, who.pid)
        && (!measures.model.look.is_asked_about() || has_served(measures, who.pid))
}

/// Whether the main thread of a process waited for clients for most of the look: a worker with a listener beside it, for those who count, does not.
fn main_serves(measures: &Measures<'_>, pid: u32) -> bool {
    let (model, look) = (measures.model, &measures.model.look);
    let waits = measures.graph.waits_of(&model.threads.thread_ref(pid)).iter();
    let is_for_clients = |wait: &&WaitSpan| {
        let place = &wait.place;
        wait.class == WaitClass::Idle
            && (place.is_for_several() || place.syscall.starts_with("accept"))
    };
    let all = waits.filter(is_for_clients);
    let ns: Ns = all.map(|wait| wait.within_ns(look.begin_ns, look.end_ns)).sum();
    ns * 2 > look.end_ns.saturating_sub(look.begin_ns)
}

/// Whether a process has sent something within the look on a connection that it accepted: the clock of what was sent last says so, by
/// the reading at the end or, of a connection that was closed, the last before.
fn has_served(measures: &Measures<'_>, pid: u32) -> bool {
    let (look, held) = (&measures.model.look, &measures.model.held);
    let has_sent = |(read_ns, it): (Ns, &Endpoint)| {
        let (ObjectRef::Inet(socket), Some(state)) = (&it.object, &it.socket) else { return false };
        let Some(turn) = &state.turn else { return false };
        let ago_ns = u64::from(turn.sent_jiffies) * u64::from(turn.jiffy_ns);
        it.process.pid == pid
            && state.acked_bytes > 0
            && read_ns.saturating_sub(ago_ns) > look.begin_ns
            && measures.graph.is_accepted(socket)
    };
    let at_end = held.endpoints_at.iter().copied().zip(&held.endpoints);
    let before = held.endpoints_before.iter().map(|(at_ns, it)| (*at_ns, it));
    at_end.chain(before).any(has_sent)
}

/// It is refused, or being made.
fn is_for_a_connection(measures: &Measures<'_>, end: &End) -> bool {
    match (end.class, &end.object) {
        (WaitClass::RefusedConnection | WaitClass::NoRoute | WaitClass::SocketConnect, _) => true,
        (WaitClass::SocketRead | WaitClass::SocketWrite, Object::Inet(ino)) => {
            let socket = measures.model.called.socket(*ino);
            socket.is_some_and(|it| it.is_tcp() && it.is_connecting())
        }
        _ => false,
    }
}

/// A question has stood unanswered with it for a while.
fn is_owing(measures: &Measures<'_>, pid: u32) -> bool {
    let debts = measures.graph.debts();
    let all = [&debts.owes, &debts.owed_before];
    let mut own = all.into_iter().filter_map(|of| of.get(&pid)).flatten();
    let stood = |since_ns: Ns, seen_ns: Ns| seen_ns.saturating_sub(since_ns) >= STANDS.ns();
    own.any(|debt| stood(debt.asked_ns(), debt.seen_ns))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;

    /// Whether it is more than a note that a thread of a server is refused each second, while the main thread is in this call.
    fn is_held_up(main_call: &str) -> bool {
        let helper = ThreadRef { tid: 11, ..thread(10, "server") };
        let at = |text: &str| text.parse().expect("an address");
        let listener = InetRef {
            ino: 7,
            netns: 1,
            protocol: "tcp".into(),
            local: at("0.0.0.0:80"),
            remote: at("0.0.0.0:0"),
            state: 10,
        };
        let mut facts = host();
        facts.push(endpoint(10, "server", ObjectRef::Inet(listener)));
        facts.push(blocked(10, "server", WaitState::Sleep, main_call));
        for at_ns in [SECOND, 2 * SECOND, 3 * SECOND] {
            let refused = Denied {
                thread: helper.clone(),
                errno: 111,
                address: Some(at("127.0.0.1:8126")),
                ..refusal(10, "server", "connect")
            };
            facts.push(Fact { at_ns, body: Body::Denied(refused) });
            let mut sleep = slept(10, "server", at_ns + 1_000, at_ns + SECOND - 1_000);
            if let Body::Wait(wait) = &mut sleep.body {
                wait.thread = helper.clone();
            }
            facts.push(sleep);
        }
        let found = explain(facts).findings.into_iter().find(|it| it.code == "process.retry");
        found.expect("the tries").severity > Severity::Note
    }

    #[test]
    fn a_thread_that_tries_beside_the_one_that_takes_clients_holds_nobody_up() {
        assert!(!is_held_up("accept4"));
        assert!(is_held_up("clock_nanosleep"), "the main thread does nothing else either");
    }
}
