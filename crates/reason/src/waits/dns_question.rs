//! Which question to a name server a wait for a descriptor is for, and when a question was over.
//!
//! A program asks, and waits for the answer at once: by the thread and the time. Who has the address connects to it within
//! milliseconds and waits there, so the socket must be the question's where it is known, and the answer must not have come. A question
//! is over with its answer, and for its process where that asks it again, of whichever server: who has two name servers asks the
//! second one the same, and goes on with what that says. Who answers names itself keeps its own socket to a name server for all its life, and a
//! thread of it waits there without a timeout for whatever comes: for an answer only while a question is out by that socket, whoever asked it.
//! Must not: say who answers (graph/index/connections.rs), or for whom a question
//! stays open (graph/index/questions.rs, which reads what is found here).

use super::WaitClass;
use super::poll_intent::{DNS_PORT, TCP_LISTEN};
use super::span::WaitSpan;
use crate::facts::*;
use crate::model::Model;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

/// When a question was over; none: not within the look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Closing {
    /// Its answer came.
    answered_ns: Option<Ns>,
    /// Its process asked the same again.
    again_ns: Option<Ns>,
}

impl Closing {
    /// When its own answer came.
    pub fn answered_ns(self) -> Option<Ns> {
        self.answered_ns
    }

    /// Whichever came first.
    pub fn over_ns(self) -> Option<Ns> {
        self.answered_ns.into_iter().chain(self.again_ns).min()
    }
}

/// Answers, by the number of the question and the port that it was asked by.
pub struct Replies<'m> {
    all: HashMap<(u16, u16), Vec<&'m (Ns, DnsReply)>>,
    /// Number, server and asker of each question.
    asked: HashSet<(u16, SocketAddr, SocketAddr)>,
}

impl<'m> Replies<'m> {
    /// Of a model.
    pub fn of(model: &'m Model) -> Self {
        let mut all: HashMap<(u16, u16), Vec<&(Ns, DnsReply)>> = HashMap::new();
        for reply in &model.net.dns_replies {
            all.entry((reply.1.id, reply.1.local.port())).or_default().push(reply);
        }
        let queries = model.net.dns_queries.iter();
        let asked = queries.map(|(_, it)| (it.id, it.server, it.local)).collect();
        Self { all, asked }
    }

    /// The first answer to a question that was sent then. It comes from the server. One that was asked at a port of its own may be behind an address
    /// that is translated (Docker's 127.0.0.11:53), and its answer comes from that: then from whomever else was not asked the same.
    pub fn first(&self, at_ns: Ns, query: &DnsQuery) -> Option<(Ns, &'m DnsReply)> {
        let is_from = |reply: &DnsReply| {
            let is_translated = query.server.port() != DNS_PORT && reply.local == query.local;
            let was_asked = || self.asked.contains(&(reply.id, reply.server, reply.local));
            reply.server == query.server || is_translated && !was_asked()
        };
        let of_it = self.all.get(&(query.id, query.local.port()))?.iter();
        let later = of_it.filter(|(replied_ns, reply)| *replied_ns >= at_ns && is_from(reply));
        later.min_by_key(|(replied_ns, _)| *replied_ns).map(|(at_ns, reply)| (*at_ns, reply))
    }
}

/// Of each question of a model, in its order.
pub fn closings(model: &Model) -> Vec<Closing> {
    let replies = Replies::of(model);
    let mut again: HashMap<(u32, &str, u16), Ns> = HashMap::new();
    let closing = |(at_ns, query): &(Ns, DnsQuery)| replies.first(*at_ns, query).map(|it| it.0);
    let mut all = vec![Closing::default(); model.net.dns_queries.len()];
    for (of, asked) in all.iter_mut().zip(&model.net.dns_queries).rev() {
        let (at_ns, query) = asked;
        let subject = (query.thread.pid, query.name.as_str(), query.question_type);
        *of = Closing { answered_ns: closing(asked), again_ns: again.insert(subject, *at_ns) };
    }
    all
}

/// Whether a process is asked by others here: a proxy or a name server keeps its own socket to a name server open for all its life.
fn takes_questions(endpoint: &Endpoint) -> bool {
    let ObjectRef::Inet(socket) = &endpoint.object else { return false };
    let is_bound = socket.remote.port() == 0 && (1..GIVEN_PORTS).contains(&socket.local.port());
    socket.state == TCP_LISTEN || socket.protocol == "udp" && is_bound
}

/// The processes that are asked by others.
pub fn asked_by_others(model: &Model) -> HashSet<u32> {
    let all = model.held.endpoints.iter().filter(|it| takes_questions(it));
    all.map(|it| it.process.pid).collect()
}

/// Whether a wait on a socket to a name server, before which its own thread asked nothing, is for what may come one day: of a process that
/// is asked by others, without a timeout, and with no question out by that socket for most of it.
pub(super) fn is_for_whatever_comes(
    model: &Model,
    closings: &[Closing],
    asked: &HashSet<u32>,
    span: &WaitSpan,
) -> bool {
    let Some(ObjectRef::Inet(socket)) = &span.place.object else { return false };
    let has_timeout = match span.place.syscall.as_str() {
        "poll" => span.place.args[2] as i32 >= 0,
        "ppoll" => span.place.args[2] != 0,
        _ => false,
    };
    if has_timeout || !asked.contains(&span.thread.pid) {
        return false;
    }
    let all = model.net.dns_queries.iter().zip(closings);
    let by_it = all.filter(|((_, query), _)| {
        query.server == socket.remote && query.local.port() == socket.local.port()
    });
    let out_ns = by_it.map(|((at_ns, _), closing)| {
        let until_ns = closing.answered_ns.unwrap_or(span.end_ns).min(span.end_ns);
        until_ns.saturating_sub((*at_ns).max(span.begin_ns))
    });
    2 * out_ns.max().unwrap_or(0) < span.end_ns.saturating_sub(span.begin_ns)
}

/// The question that a thread sent just before it began to wait for a descriptor.
pub(super) fn of(model: &Model, closings: &[Closing], span: &WaitSpan) -> Option<usize> {
    const JUST_BEFORE_NS: Ns = 20_000_000;
    let waits_for_input = matches!(
        span.place.syscall.as_str(),
        "poll"
            | "ppoll"
            | "select"
            | "pselect6"
            | "recvfrom"
            | "recvmsg"
            | "recvmmsg"
            | "read"
            | "epoll_wait"
            | "epoll_pwait"
            | "epoll_pwait2"
    );
    // Who polls nothing sleeps.
    if !waits_for_input || span.class == WaitClass::Timer {
        return None;
    }
    // What is waited for is said to be another socket: who has an address connects to it within milliseconds, and waits there; and a socket
    // to one server is not asked what another server is.
    let is_elsewhere = |query: &DnsQuery| match &span.place.object {
        Some(ObjectRef::Inet(socket)) => {
            let is_its = query.socket_ino != 0 && query.socket_ino == socket.ino;
            let is_to = socket.remote == query.server;
            !is_its && !is_to && socket.local.port() != query.local.port()
        }
        object => object.is_some(),
    };
    // Whose answer had come before is over. A thread that asked twice by one socket waits for the second answer, and one that asks what
    // another of its process has asked too for its own.
    let is_over = |index: usize| {
        let closing = closings.get(index).and_then(|closing| closing.answered_ns);
        closing.is_some_and(|at_ns| at_ns <= span.begin_ns)
    };
    let after = model.net.dns_queries.partition_point(|(at, _)| *at <= span.begin_ns);
    let mine = |(index, (at_ns, query)): &(usize, &(Ns, DnsQuery))| {
        query.thread.tid == span.thread.tid
            && model.threads.key_at(&query.thread, *at_ns) == model.threads.key(&span.thread)
            && !is_elsewhere(query)
            && !is_over(*index)
    };
    let asked = model.net.dns_queries[..after]
        .iter()
        .enumerate()
        .rev()
        .take_while(|(_, (at, _))| span.begin_ns - at < JUST_BEFORE_NS)
        .find(mine);
    // A question from before the window was not seen; the same thread asking again right after a wait that
    // nothing but the clock ended tells what it was.
    let by_clock = span.wake.as_ref().is_some_and(|wake| {
        matches!(wake.context, WakeContext::HardInterrupt | WakeContext::SoftInterrupt)
    });
    let end = model.net.dns_queries.partition_point(|(at, _)| *at < span.end_ns);
    let asked_again = || {
        let next = model.net.dns_queries[end..].iter().enumerate().map(|(i, q)| (i + end, q));
        next.take_while(|(_, (at, _))| at - span.end_ns < JUST_BEFORE_NS).find(mine)
    };
    let unseen_begin = by_clock && span.begin_ns < model.look.begin_ns;
    asked.or_else(|| if unseen_begin { asked_again() } else { None }).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;

    /// A thread asks for a name at 100 ms, is answered at some time, and waits from 102 ms on in a call, on a socket with this peer.
    fn waits(syscall: &str, peer: Option<&str>, answered_ms: Option<u64>) -> WaitClass {
        let one_descriptor = [1, 1, 0, 0, 0, 0];
        waits_on(syscall, one_descriptor, peer, answered_ms)
    }

    fn waits_on(
        syscall: &str,
        args: [u64; 6],
        peer: Option<&str>,
        answered_ms: Option<u64>,
    ) -> WaitClass {
        observed(syscall, args, peer, answered_ms).0
    }

    fn observed(
        syscall: &str,
        args: [u64; 6],
        peer: Option<&str>,
        answered_ms: Option<u64>,
    ) -> (WaitClass, Option<usize>) {
        let (server, local) = (
            "10.0.0.2:53".parse().expect("an address"),
            "10.0.0.1:4000".parse().expect("an address"),
        );
        let thread = thread(10, "app");
        let query = DnsQuery {
            thread: thread.clone(),
            server,
            local,
            id: 7,
            name: "db".into(),
            question_type: 1,
            socket_ino: 0,
        };
        let reply = |ms: u64| Fact {
            at_ns: ms * MS,
            body: Body::DnsReply(DnsReply { server, local, id: 7, rcode: 0 }),
        };
        let object = peer.map(|peer| {
            ObjectRef::Inet(InetRef {
                ino: 5,
                netns: 1,
                protocol: if peer.ends_with(":53") { "udp" } else { "tcp" }.into(),
                local: if peer == "10.0.0.2:53" {
                    local
                } else {
                    "10.0.0.1:5000".parse().expect("an address")
                },
                remote: peer.parse().expect("an address"),
                state: 1,
            })
        });
        let place = Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            object,
            args,
            ..Place::default()
        };
        let wake = Some(Wake { at_ns: 900 * MS, ..Wake::default() });
        let wait =
            Wait { thread, begin_ns: 102 * MS, end_ns: 900 * MS, place, wake, ..Wait::default() };
        let mut facts = host();
        facts.push(Fact { at_ns: 100 * MS, body: Body::DnsQuery(query) });
        facts.extend(answered_ms.map(reply));
        facts.push(Fact { at_ns: 900 * MS, body: Body::Wait(wait) });
        facts.sort_by_key(|fact| fact.at_ns);
        let observed = Observed::new(facts);
        let wait = observed.timelines.waits().next().expect("it waits");
        (wait.class, wait.dns_query)
    }

    #[test]
    fn who_has_asked_waits_for_the_answer() {
        assert_eq!(waits("poll", Some("10.0.0.2:53"), None), WaitClass::Dns);
        assert_eq!(waits("poll", Some("10.0.0.2:53"), Some(899)), WaitClass::Dns);
        assert_eq!(waits("epoll_wait", None, Some(899)), WaitClass::Dns, "of what is not known");
    }

    #[test]
    fn who_was_answered_waits_for_whom_it_has_connected_to() {
        assert_eq!(waits("recvfrom", Some("10.0.0.9:80"), Some(101)), WaitClass::SocketRead);
        assert_eq!(waits("recvfrom", Some("10.0.0.9:80"), None), WaitClass::SocketRead);
    }

    #[test]
    fn a_socket_to_another_server_is_not_waited_on_for_the_answer() {
        let asked = |peer| waits("poll", Some(peer), None);
        assert_eq!(asked("10.0.0.9:80"), WaitClass::SocketRead);
        let waits = observed("poll", [1, 1, 0, 0, 0, 0], Some("10.0.0.7:53"), None);
        assert_eq!(waits, (WaitClass::Dns, None), "of that server, and of no question");
    }

    #[test]
    fn who_sleeps_by_a_call_that_polls_waits_for_no_answer() {
        assert_eq!(waits_on("select", [0, 0, 0, 0, 1, 0], None, None), WaitClass::Timer);
        assert_eq!(waits_on("poll", [1, 0, 500, 0, 0, 0], None, None), WaitClass::Timer);
        assert_eq!(waits_on("select", [4, 1, 0, 0, 1, 0], None, None), WaitClass::Dns);
    }

    #[test]
    fn who_forwards_questions_waits_for_an_answer_only_while_one_is_out() {
        let said = |serves: bool, asked: bool| {
            let inet = |ino, protocol: &str, local: &str, remote: &str| {
                ObjectRef::Inet(InetRef {
                    ino,
                    netns: 1,
                    protocol: protocol.into(),
                    local: local.parse().expect("an address"),
                    remote: remote.parse().expect("an address"),
                    state: 7,
                })
            };
            let kept = inet(5, "udp", "10.0.0.1:4000", "10.0.0.2:53");
            let mut facts = host();
            if serves {
                let own = inet(6, "udp", "10.0.0.1:53", "0.0.0.0:0");
                facts.push(crate::rules::scenes::endpoint(10, "forwarder", own));
            }
            if asked {
                let query = DnsQuery {
                    thread: ThreadRef { tid: 11, ..thread(10, "forwarder") },
                    server: "10.0.0.2:53".parse().expect("an address"),
                    local: "10.0.0.1:4000".parse().expect("an address"),
                    id: 7,
                    name: "db.test".into(),
                    question_type: 1,
                    socket_ino: 5,
                };
                facts.push(Fact { at_ns: 200 * MS, body: Body::DnsQuery(query) });
            }
            let place = Place {
                state: WaitState::Sleep,
                syscall: "recvfrom".into(),
                object: Some(kept),
                ..Place::default()
            };
            let thread = thread(10, "forwarder");
            let wake = Some(Wake { at_ns: 900 * MS, ..Wake::default() });
            let wait =
                Wait { thread, begin_ns: 0, end_ns: 900 * MS, place, wake, ..Wait::default() };
            facts.push(Fact { at_ns: 900 * MS, body: Body::Wait(wait) });
            Observed::new(facts).timelines.waits().next().expect("it waits").class
        };
        assert_eq!(said(true, false), WaitClass::Idle);
        assert_eq!(said(true, true), WaitClass::Dns);
        assert_eq!(said(false, false), WaitClass::Dns, "asked before the look");
    }

    #[test]
    fn an_event_loop_that_was_answered_waits_for_other_events() {
        assert_eq!(waits("epoll_wait", None, Some(101)), WaitClass::Idle);
    }
}
