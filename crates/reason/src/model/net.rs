//! Network: interfaces, queueing disciplines, packets that were dropped, name servers, protocol counters, next hops, settings.
//!
//! Sockets are what processes hold (held.rs), and what they are called (called.rs). Must not: compute a queue or a rate (measure/).

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What was observed of the network.
#[derive(Debug, Default)]
pub struct Net {
    /// Interfaces.
    pub(crate) links: Vec<Link>,
    /// Queueing disciplines over time, by namespace, interface and handle (classes: with the class id).
    pub(crate) qdiscs: BTreeMap<(u32, String, String), Series<QdiscSample>>,
    /// Time in queueing disciplines.
    pub(crate) sojourns: Vec<QdiscSojourn>,
    /// Flows in queueing disciplines.
    pub(crate) flows: Vec<QdiscFlow>,
    /// Packets that were dropped, by interface and reason.
    pub(crate) drops: Vec<PacketDrops>,
    /// DNS questions.
    pub(crate) dns_queries: Series<DnsQuery>,
    /// DNS answers.
    pub(crate) dns_replies: Series<DnsReply>,
    /// Protocol counters by namespace.
    pub(crate) counters: BTreeMap<u32, Series<NetCounters>>,
    /// Next hops by namespace and by the address that is sent to.
    pub(crate) next_hops: BTreeMap<(u32, IpAddr), NextHop>,
    /// Kernel settings.
    pub(crate) sysctls: BTreeMap<String, String>,
}

impl Net {
    /// Once the last fact is in.
    pub(super) fn finish(&mut self) {
        self.dns_queries.sort_by_key(|(at, _)| *at);
    }
}

impl Push<Link> for Net {
    fn push(&mut self, _: Ns, link: Link) {
        self.links.push(link);
    }
}

impl Push<QdiscSample> for Net {
    fn push(&mut self, at: Ns, sample: QdiscSample) {
        let key = (sample.netns, sample.interface.clone(), sample.handle.clone());
        self.qdiscs.entry(key).or_default().push((at, sample));
    }
}

impl Push<QdiscSojourn> for Net {
    fn push(&mut self, _: Ns, sojourn: QdiscSojourn) {
        self.sojourns.push(sojourn);
    }
}

impl Push<QdiscFlow> for Net {
    fn push(&mut self, _: Ns, flow: QdiscFlow) {
        self.flows.push(flow);
    }
}

impl Push<PacketDrops> for Net {
    fn push(&mut self, _: Ns, drops: PacketDrops) {
        self.drops.push(drops);
    }
}

impl Push<DnsQuery> for Net {
    fn push(&mut self, at: Ns, query: DnsQuery) {
        self.dns_queries.push((at, query));
    }
}

impl Push<DnsReply> for Net {
    fn push(&mut self, at: Ns, reply: DnsReply) {
        self.dns_replies.push((at, reply));
    }
}

impl Push<NetCounters> for Net {
    fn push(&mut self, at: Ns, counters: NetCounters) {
        self.counters.entry(counters.netns).or_default().push((at, counters));
    }
}

impl Push<NextHop> for Net {
    fn push(&mut self, _: Ns, hop: NextHop) {
        self.next_hops.insert((hop.netns, hop.destination), hop);
    }
}

impl Push<Sysctl> for Net {
    fn push(&mut self, _: Ns, sysctl: Sysctl) {
        self.sysctls.insert(sysctl.name, sysctl.value);
    }
}
