//! Network: interfaces, queueing disciplines, packets that were dropped, name servers, protocol counters, next hops, settings.
//!
//! Sockets are what processes hold (held.rs), and what they are called (called.rs). Must not: compute a queue or a rate (measure/).

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// So long a packet stands before its next hop is given up: three questions, a second apart (mcast_solicit, retrans_time_ms).
pub const NEXT_HOP_GIVEN_UP_NS: Ns = 3_000_000_000;

/// What was observed of the network.
#[derive(Debug, Default)]
pub struct Net {
    /// Interfaces.
    pub(crate) links: Vec<Link>,
    /// When each of them was read.
    pub(crate) links_at: Vec<Ns>,
    /// Queueing disciplines over time, by namespace, interface and handle (classes: with the class id).
    pub(crate) qdiscs: BTreeMap<(u32, String, String), Series<QdiscSample>>,
    /// Time in queueing disciplines.
    pub(crate) sojourns: Vec<QdiscSojourn>,
    /// Flows in queueing disciplines.
    pub(crate) flows: Vec<QdiscFlow>,
    /// Packets that were dropped, by interface and reason.
    pub(crate) drops: Vec<PacketDrops>,
    /// What may be behind a drop.
    pub(crate) drop_causes: DropCauses,
    /// Connections by the namespace and the address that they go to.
    pub(crate) port_use: BTreeMap<(u32, SocketAddr), PortUse>,
    /// Addresses that cannot be used.
    pub(crate) unusable: Vec<UnusableAddress>,
    /// How drivers are set, by namespace and index of the interface.
    pub(crate) settings: BTreeMap<(u32, u32), LinkSettings>,
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

/// What may be behind a packet that was dropped, where its reason does not say it.
#[derive(Debug, Default)]
pub(crate) struct DropCauses {
    /// Rules of packet filters that drop.
    pub(crate) filter_rules: Vec<FilterRule>,
    /// Who has which tun or tap device open.
    pub(crate) tap_readers: Vec<TapReader>,
    /// Sockets that have an interface take every frame: why it drops those of others at all.
    pub(crate) packet_sockets: Vec<PacketSocket>,
    /// Which CPUs packets are handed on to.
    pub(crate) steering: Vec<ReceiveSteering>,
    /// By which interfaces packets are taken, by namespace and index of the interface.
    pub(crate) reverse_paths: BTreeMap<(u32, u32), ReversePath>,
    /// Who is asked and has no way back, by the namespace of who asks and the address that is asked.
    pub(crate) no_ways_back: BTreeMap<(u32, IpAddr), NoWayBack>,
    /// Which interfaces have an address that does not answer, by the namespace of who sends and the address: several namespaces may have it.
    pub(crate) addresses_here: BTreeMap<(u32, IpAddr), Vec<AddressHere>>,
    /// Where nothing is sent to, by namespace and address.
    pub(crate) unrouted: BTreeMap<(u32, IpAddr), Unrouted>,
}

impl Net {
    /// The other end of a veth; none if it is not the only one that may be it.
    pub(crate) fn peer(&self, of: &Link) -> Option<&Link> {
        let index = of.peer?;
        let ends = self.links.iter().filter(|it| (it.index, it.peer) == (index, Some(of.index)));
        let ends: BTreeMap<u32, &Link> = ends.map(|it| (it.netns, it)).collect();
        let mut others =
            ends.into_values().filter(|it| (it.netns, it.index) != (of.netns, of.index));
        let first = others.next();
        first.filter(|_| others.next().is_none())
    }

    /// What the routes of a namespace say of an address if they send nothing there; where the namespace is not known, as of a program that has
    /// ended at once, of the only one that was asked.
    pub(super) fn unrouted(&self, netns: Option<u32>, to: IpAddr) -> Option<&Unrouted> {
        let mut all = self.drop_causes.unrouted.values().filter(|it| it.address == to);
        match netns {
            Some(netns) => all.find(|it| it.netns == netns),
            None => all.next().filter(|_| all.next().is_none()),
        }
    }

    /// Once the last fact is in.
    pub(super) fn finish(&mut self) {
        self.dns_queries.sort_by_key(|(at, _)| *at);
    }
}

impl Push<Link> for Net {
    fn push(&mut self, at: Ns, link: Link) {
        self.links.push(link);
        self.links_at.push(at);
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

impl Push<FilterRule> for Net {
    fn push(&mut self, _: Ns, rule: FilterRule) {
        self.drop_causes.filter_rules.push(rule);
    }
}

impl Push<TapReader> for Net {
    fn push(&mut self, _: Ns, reader: TapReader) {
        self.drop_causes.tap_readers.push(reader);
    }
}

impl Push<PacketSocket> for Net {
    fn push(&mut self, _: Ns, socket: PacketSocket) {
        self.drop_causes.packet_sockets.push(socket);
    }
}

impl Push<ReceiveSteering> for Net {
    fn push(&mut self, _: Ns, steering: ReceiveSteering) {
        self.drop_causes.steering.push(steering);
    }
}

impl Push<PortUse> for Net {
    fn push(&mut self, _: Ns, used: PortUse) {
        self.port_use.insert((used.netns, used.remote), used);
    }
}

impl Push<UnusableAddress> for Net {
    fn push(&mut self, _: Ns, address: UnusableAddress) {
        self.unusable.push(address);
    }
}

impl Push<ReversePath> for Net {
    fn push(&mut self, _: Ns, path: ReversePath) {
        self.drop_causes.reverse_paths.insert((path.netns, path.index), path);
    }
}

impl Push<LinkSettings> for Net {
    fn push(&mut self, _: Ns, settings: LinkSettings) {
        self.settings.insert((settings.netns, settings.index), settings);
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

impl Push<NoWayBack> for Net {
    fn push(&mut self, _: Ns, way: NoWayBack) {
        self.drop_causes.no_ways_back.insert((way.netns, way.address), way);
    }
}

impl Push<AddressHere> for Net {
    fn push(&mut self, _: Ns, it: AddressHere) {
        self.drop_causes.addresses_here.entry((it.netns, it.address)).or_default().push(it);
    }
}

impl Push<Unrouted> for Net {
    fn push(&mut self, _: Ns, it: Unrouted) {
        self.drop_causes.unrouted.insert((it.netns, it.address), it);
    }
}

impl Push<Sysctl> for Net {
    fn push(&mut self, _: Ns, sysctl: Sysctl) {
        self.sysctls.insert(sysctl.name, sysctl.value);
    }
}
