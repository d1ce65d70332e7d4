//! process.retry where a server takes each connection, and resets or ends it before a byte of it came.
//!
//! Connecting went well, so somebody listens: who wants no more clients, or not this one, another protocol, or a proxy without a backend. Which of
//! them only its log says. Must not: choose the sleeps (waits/retries.rs), or take a reset for the server's where a proxy between may have sent it.
//!
//! Edit together: bpf/refused.bpf.c of the probe, facts/denied.rs.

use crate::facts::{Endpoint, InetRef, ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::words;
use crate::programs::port_holders;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::net::ways_out::command_in;
use crate::rules::own_pace;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Remedy, Severity, Wording};
use crate::rules::{Match, culprit};
use crate::waits::poll_intent::TCP_LISTEN;

/// Of an end that is the sleeps between the tries.
pub(super) fn matched<'m>(
    measures: &'m Measures<'m>,
    end: &'m End,
    tries: Tries<'m>,
    ended: &'m InetRef,
) -> Match<'m> {
    let (server, listener) = (ended.remote, listener(measures, ended));
    let by = match listener {
        Some(process) => culprit(measures.model, process),
        None => Culprit::peer(server.to_string(), server.to_string()),
    };
    let is_own_pace = own_pace::is_at_own_pace(measures, end, &tries.last.thread);
    let proof = if tries.reported > 1 { Proof::TwoWitnesses } else { Proof::OneWitness };
    let matched =
        Match::new(by, proof, move |loss| explain(measures, &tries, (ended, listener), loss));
    let severity_max = if is_own_pace { Severity::Note } else { matched.severity_max };
    Match { severity_max, ..matched }
}

/// Whether the server is in the network namespace of who asks: one's own address is reached from itself. Each namespace has its own loopback, and may
/// have the addresses of another one.
fn is_beside(ended: &InetRef) -> bool {
    let (near, far) = (ended.local.ip().to_canonical(), ended.remote.ip().to_canonical());
    far.is_loopback() || far == near
}

/// The process that listens there, if the server is in the namespace of who asks. Nobody where the connection is known to be translated, where
/// several have the port that are no family, and of what only systemd has: who ended it is the service.
fn listener<'m>(measures: &'m Measures<'_>, ended: &InetRef) -> Option<&'m ThreadRef> {
    const INIT: u32 = 1;
    let translations = &measures.model.called.translations;
    let is_translated =
        translations.far_end(ended).is_some() || translations.behind(ended.remote).is_some();
    if !is_beside(ended) || is_translated {
        return None;
    }
    let ip = ended.remote.ip().to_canonical();
    let listens = |end: &&Endpoint| match &end.object {
        ObjectRef::Inet(own) => {
            let at = own.local.ip().to_canonical();
            let is_there = own.local.port() == ended.remote.port() && own.netns == ended.netns;
            own.is_tcp() && own.state == TCP_LISTEN && is_there && (at == ip || at.is_unspecified())
        }
        _ => false,
    };
    let ends = measures.model.held.endpoints.iter().filter(listens);
    let all: Vec<_> = ends.map(|end| &end.process).filter(|it| it.pid != INIT).collect();
    let first = *all.iter().min_by_key(|process| (process.start_ns, process.pid))?;
    // Forked servers share the socket: the first process of them has it.
    let is_its = |it: &&ThreadRef| {
        it.pid == first.pid || measures.graph.parent_of(it.pid) == Some(first.pid)
    };
    let is_one = all.iter().all(is_its) && !port_holders::hold_ports(&first.comm);
    is_one.then_some(first)
}

fn explain(
    measures: &Measures<'_>,
    tries: &Tries<'_>,
    (ended, listener): (&InetRef, Option<&ThreadRef>),
    loss: &Loss<'_>,
) -> Wording {
    let (server, threads) = (ended.remote, &measures.model.threads);
    let who = listener.map(|process| threads.who(process));
    let (ends, how) = match tries.last.errno {
        0 => ("ends", "was ended before a word of it came"),
        _ => ("resets", "was reset"),
    };
    let subject = refusal_words::subject(measures, tries, loss);
    let by = who.as_ref().map_or_else(|| server.to_string(), |who| format!("{who} at {server}"));
    let title = format!("{subject} is turned away by {by}, which {ends} each connection");
    let slept = words::of_window(loss.seconds, loss.wall_seconds);
    // Another host, or another namespace, has its own.
    let ss = is_beside(ended).then(|| command_in(measures.model, ended.netns, "ss"));
    let through = ss.as_ref().and_then(|ss| ss.through.as_ref());
    let ss = ss.as_ref().map_or_else(|| "ss".to_string(), ToString::to_string);
    let (look, command) = match &who {
        Some(who) => {
            (format!("read why in the log of {who}, or ask it once by hand"), String::new())
        }
        None => (
            "see who listens there, on the host that has the address; its log says why".to_string(),
            format!("{ss} -ltnp 'sport = :{}'", server.port()),
        ),
    };
    let action = (!command.is_empty()).then(|| Action::look(Question::State).through(through));
    Wording {
        title,
        text: format!(
            "{slept} pass in sleeps between {}: each connection was made, and {how}. {} was the last to try. Why, only who listens there \
             can say: it may have no room, want another protocol, or be a proxy without a server behind it.",
            words::count(tries.times as usize, "try", "tries"),
            threads.who(&tries.last.thread),
        ),
        evidence: refusal_words::evidence(tries, loss.seconds),
        remedy: vec![Remedy { text: look, command, action, ..Remedy::default() }],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;

    /// A client of 10.0.0.1 whose connection to this address is read from, and ended, once a second.
    fn turned_away(
        errno: i32,
        remote: &str,
        times: u64,
        listeners: Vec<Fact>,
    ) -> Vec<(String, Option<u32>, String, String)> {
        let mut facts = [host(), vec![of_process(10, "client")], listeners].concat();
        let object = Some(inet("tcp", 5, "10.0.0.1:40000", remote, 7));
        let ended = Denied { errno, object, ..refusal(10, "client", "recvfrom") };
        for at in 1..=times {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(ended.clone()) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        let found = explain(facts).findings.into_iter().filter(|it| it.code == "process.retry");
        let command = |it: &Finding| it.remedy[0].command.clone();
        found.map(|it| (command(&it), it.culprit.pid, it.object.name, it.title)).collect()
    }

    fn listens(pid: u32, comm: &str, at: &str, netns: u32) -> Fact {
        let ObjectRef::Inet(own) = inet("tcp", pid.into(), at, "0.0.0.0:0", 10) else {
            unreachable!("it is one")
        };
        endpoint(pid, comm, ObjectRef::Inet(InetRef { netns, ..own }))
    }

    #[test]
    fn whose_connections_are_ended_each_time_is_turned_away() {
        let found = &turned_away(104, "10.0.0.7:6379", 3, vec![])[0];
        assert_eq!((&*found.0, &*found.2), ("ss -ltnp 'sport = :6379'", "10.0.0.7:6379"));
        assert!(found.3.ends_with("away by 10.0.0.7:6379, which resets each connection"));
        let broker = listens(20, "broker", "10.0.0.1:6379", 1);
        let found = &turned_away(0, "10.0.0.1:6379", 3, vec![broker])[0];
        assert_eq!(found.1, Some(20));
        assert!(found.3.contains("by broker 20 at 10.0.0.1:6379, which ends each"), "{found:?}");
        assert_eq!(turned_away(0, "10.0.0.7:50051", 3, vec![]).len(), 1, "a server of any port");
    }

    #[test]
    fn who_listens_there_is_named_where_it_can_be_nobody_else() {
        let by = |remote: &str, listeners| turned_away(104, remote, 3, listeners)[0].1;
        let (own, other) = ("10.0.0.1:6379", "10.0.0.7:6379");
        let broker = |netns| listens(20, "broker", "0.0.0.0:6379", netns);
        assert_eq!(by(own, vec![broker(1)]), Some(20), "bound to all addresses");
        assert_eq!(by("127.0.0.1:6379", vec![broker(1)]), Some(20));
        assert_eq!(by(own, vec![broker(2)]), None, "another namespace");
        assert_eq!(by(other, vec![broker(1)]), None, "another host");
        assert_eq!(by(own, vec![broker(1), listens(30, "other", own, 1)]), None, "either");
        assert_eq!(by(own, vec![listens(20, "docker-proxy", "0.0.0.0:6379", 1)]), None);
        let worker = Thread { thread: thread(21, "broker"), parent_pid: 20, ..Thread::default() };
        let family = vec![broker(1), listens(21, "broker", "0.0.0.0:6379", 1), identity(worker)];
        assert_eq!(by(own, family), Some(20), "its worker has the socket too");
    }

    #[test]
    fn one_that_ended_once_turns_nobody_away() {
        assert!(turned_away(104, "10.0.0.7:6379", 1, vec![]).is_empty());
    }
}
