//! DNS questions with their answers, by server: what each was asked, by whom, and when it answered.
//!
//! A question and its answer share transaction id, server and the asker's port. Must not: say what is late, or who waits
//! (graph/).

use crate::facts::{DnsQuery, DnsReply, Ns};
use crate::model::Model;
use std::collections::{BTreeMap, HashMap};
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
    type Key = (SocketAddr, u16, u16);
    let mut replies: HashMap<Key, Vec<(Ns, &DnsReply)>> = HashMap::new();
    for (at, reply) in &model.net.dns_replies {
        let key = (reply.server, reply.local.port(), reply.id);
        replies.entry(key).or_default().push((*at, reply));
    }
    let mut servers: BTreeMap<SocketAddr, Vec<Question<'_>>> = BTreeMap::new();
    for (at, query) in model.net.dns_queries.iter().filter(|(at, _)| *at <= model.look.end_ns) {
        let key = (query.server, query.local.port(), query.id);
        let of_it = replies.get(&key).into_iter().flatten();
        let first = of_it.filter(|(replied, _)| replied >= at).min_by_key(|(replied, _)| *replied);
        let answer = first.map(|(replied, reply)| Answer {
            seconds: (replied - at) as f64 / 1e9,
            rcode: reply.rcode,
        });
        let age_seconds = (model.look.end_ns - at) as f64 / 1e9;
        servers.entry(query.server).or_default().push(Question { query, age_seconds, answer });
    }
    servers
}
