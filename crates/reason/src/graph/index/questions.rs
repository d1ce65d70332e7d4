//! Questions to name servers, by who asks: which is open.
//!
//! Of a process, whichever of its threads asked: who is to answer it is asked for the whole of it. Must not: say who answers
//! (connections.rs), or when a question is over (waits/dns_question.rs).

use crate::facts::{DnsQuery, Ns};
use crate::model::Model;
use crate::waits::dns_question::closings;
use std::collections::{BTreeMap, HashMap};

/// Questions by process, in order of time.
pub struct Questions<'a> {
    by_process: HashMap<u32, Vec<Asked>>,
    /// The first answer to a question of a process for a name, by type, and when it was first asked.
    names: HashMap<(u32, &'a str), BTreeMap<u16, Name>>,
}

/// A name that a process asks for.
#[derive(Default)]
struct Name {
    asked_ns: Vec<Ns>,
    answered_ns: Option<Ns>,
}

/// A question.
struct Asked {
    /// Index into the model's.
    index: usize,
    at_ns: Ns,
    /// None: not within the look.
    over_ns: Option<Ns>,
}

impl<'a> Questions<'a> {
    /// Indexes a model.
    pub(super) fn new(model: &'a Model) -> Self {
        let mut all: HashMap<u32, Vec<Asked>> = HashMap::new();
        let mut names: HashMap<(u32, &str), BTreeMap<u16, Name>> = HashMap::new();
        let closings = closings(model);
        let asked = model.net.dns_queries.iter().zip(closings).enumerate();
        for (index, ((at_ns, query), closing)) in asked {
            let of_process = all.entry(query.thread.pid).or_default();
            let (over_ns, answered_ns) = (closing.over_ns(), closing.answered_ns());
            of_process.push(Asked { index, at_ns: *at_ns, over_ns });
            let types = names.entry((query.thread.pid, query.name.as_str())).or_default();
            let name = types.entry(query.question_type).or_default();
            name.asked_ns.push(*at_ns);
            name.answered_ns = name.answered_ns.into_iter().chain(answered_ns).min();
        }
        Self { by_process: all, names }
    }

    /// The questions that a process had sent before the end of an interval and that were not over before it began, the last first. Indexes
    /// into the model's questions.
    pub(in crate::graph) fn open(&self, pid: u32, from: Ns, to: Ns) -> impl Iterator<Item = usize> {
        let asked = self.by_process.get(&pid).map_or(&[][..], Vec::as_slice);
        let sent = &asked[..asked.partition_point(|it| it.at_ns < to)];
        let is_open = move |it: &&Asked| it.over_ns.is_none_or(|over_ns| over_ns > from);
        sent.iter().rev().filter(is_open).map(|it| it.index)
    }

    /// Whether a process had an answer by a time for a name, to a question of another type.
    pub(in crate::graph) fn has_other_address(&self, query: &DnsQuery, by_ns: Ns) -> bool {
        let types = self.names.get(&(query.thread.pid, query.name.as_str())).into_iter().flatten();
        let mut others = types.filter(|(question_type, _)| **question_type != query.question_type);
        others.any(|(_, name)| name.answered_ns.is_some_and(|at_ns| at_ns <= by_ns))
    }

    /// Whether a process has asked for a name and type between two times, the first time or again.
    pub(in crate::graph) fn was_asked(&self, query: &DnsQuery, (from, to): (Ns, Ns)) -> bool {
        let types = self.names.get(&(query.thread.pid, query.name.as_str()));
        let asked = types.and_then(|types| types.get(&query.question_type));
        asked.is_some_and(|name| {
            let at = name.asked_ns.partition_point(|at_ns| *at_ns < from);
            name.asked_ns.get(at).is_some_and(|at_ns| *at_ns <= to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::model::Model;
    use crate::rules::scenes::{host, thread};
    use std::net::SocketAddr;

    const SECOND: Ns = 1_000_000_000;

    /// Process 10 asks for a name: at so many seconds, a server, by a port of its own, with an id.
    fn asks(at: Ns, server: &str, port: u16, id: u16) -> Fact {
        let query = DnsQuery {
            thread: thread(10, "app"),
            server: server.parse().expect("an address"),
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            id,
            name: "db.test".into(),
            question_type: 1,
            socket_ino: 0,
        };
        Fact { at_ns: at * SECOND, body: Body::DnsQuery(query) }
    }

    fn answers(at: Ns, server: &str, port: u16, id: u16) -> Fact {
        let reply = DnsReply {
            server: server.parse().expect("an address"),
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            id,
            rcode: 0,
        };
        Fact { at_ns: at * SECOND, body: Body::DnsReply(reply) }
    }

    /// Which of the questions is open for a wait between two seconds.
    fn open(facts: Vec<Fact>, from: Ns, to: Ns) -> Option<usize> {
        let model = Model::new([host(), facts].concat());
        Questions::new(&model).open(10, from * SECOND, to * SECOND).next()
    }

    const DEAD: &str = "10.0.0.8:53";
    const ALIVE: &str = "10.0.0.9:53";

    #[test]
    fn a_question_that_another_server_was_asked_too_is_over_then() {
        let all =
            || vec![asks(1, DEAD, 4000, 7), asks(2, ALIVE, 4001, 7), answers(3, ALIVE, 4001, 7)];
        assert_eq!(open(all(), 1, 2), Some(0));
        assert_eq!(open(all(), 2, 3), Some(1), "the second one is waited for");
        assert_eq!(open(all(), 3, 5), None, "and has answered");
        assert_eq!(open(all()[..1].to_vec(), 3, 5), Some(0), "nobody else was asked");
    }

    #[test]
    fn an_answer_to_another_socket_is_another_ones() {
        let all = vec![asks(1, ALIVE, 4000, 7), answers(2, ALIVE, 4001, 7)];
        assert_eq!(open(all, 3, 5), Some(0));
    }
}
