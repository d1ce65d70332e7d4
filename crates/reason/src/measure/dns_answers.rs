//! DNS questions with their answers, by server: what each was asked, by whom, and when it answered.
//!
//! Must not: say what is late, who waits (graph/), or which answer is a question's (waits/dns_question.rs).

use crate::facts::DnsQuery;
use crate::model::Model;
use crate::waits::dns_question::Replies;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What was asked, and by whom.
    pub query: &'a DnsQuery,
    /// Its age when the look ended, seconds.
    pub age_seconds: f64,
    /// The answer; none if there was none until then.
    pub answer: Option<Answer>,
}

/// An answer.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// Time from the question to it.
    pub seconds: f64,
    /// Response code: 0 no error, 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED.
    pub rcode: u8,
}

/// What every server was asked, in order of time.
pub fn dns_answers(model: &Model) -> BTreeMap<SocketAddr, Vec<Question<'_>>> {
    let replies = Replies::of(model);
    let mut servers: BTreeMap<SocketAddr, Vec<Question<'_>>> = BTreeMap::new();
    for (at, query) in model.net.dns_queries.iter().filter(|(at, _)| *at <= model.look.end_ns) {
        let answer = replies.first(*at, query).map(|(replied, reply)| Answer {
            seconds: (replied - at) as f64 / 1e9,
            rcode: reply.rcode,
        });
        let age_seconds = (model.look.end_ns - at) as f64 / 1e9;
        servers.entry(query.server).or_default().push(Question { query, age_seconds, answer });
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, DnsReply, Fact};
    use crate::rules::scenes::{host, thread};

    /// Of a question with id 7 from one port to each of these servers, which are answered by a server, to a port, how many have an answer.
    fn answered(servers: &[&str], by: &str, local: &str) -> usize {
        let address = |text: &str| text.parse().expect("an address");
        let asks = |server: &&str| {
            let query = DnsQuery {
                thread: thread(10, "app"),
                server: address(server),
                local: address("127.0.0.1:4000"),
                id: 7,
                name: "db.test".into(),
                question_type: 1,
                socket_ino: 0,
            };
            Fact { at_ns: 1, body: Body::DnsQuery(query) }
        };
        let reply = DnsReply { server: address(by), local: address(local), id: 7, rcode: 0 };
        let mut facts = host();
        facts.extend(servers.iter().map(asks));
        facts.push(Fact { at_ns: 2, body: Body::DnsReply(reply) });
        let model = Model::new(facts);
        dns_answers(&model).values().flatten().filter(|it| it.answer.is_some()).count()
    }

    #[test]
    fn an_answer_that_comes_from_a_translated_address_is_the_questions() {
        let docker = ["127.0.0.11:37123"];
        assert_eq!(answered(&docker, "127.0.0.11:53", "127.0.0.1:4000"), 1);
        assert_eq!(answered(&docker, "127.0.0.11:53", "127.0.0.1:4001"), 0, "another asker's");
        assert_eq!(answered(&docker, "127.0.0.11:53", "127.0.0.2:4000"), 0, "another asker's");
        assert_eq!(
            answered(&["127.0.0.11:37123", "10.0.0.2:53"], "10.0.0.2:53", "127.0.0.1:4000"),
            1
        );
        assert_eq!(answered(&["10.0.0.8:53"], "10.0.0.2:53", "127.0.0.1:4000"), 0);
        assert_eq!(answered(&["10.0.0.2:53"], "10.0.0.2:53", "127.0.0.1:4000"), 1);
    }
}
