//! What connections are called at their other ends, where this host translates addresses on the way (NAT).
//!
//! Without an entry both ends have the same pair, the other way round. Must not: know who has an end (graph/index), or guess which of several
//! servers behind one address a question went to.

use crate::facts::{InetRef, Translation};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A connection as one of its ends has it: its own address, and the other's.
type Pair = (SocketAddr, SocketAddr);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FarEnd {
    /// As it has itself, and this end.
    pub pair: Pair,
    /// The network namespace of this host that has its address, where that is known.
    pub netns: Option<u32>,
}

/// Of each end what the other one is.
#[derive(Debug, Default)]
pub(crate) struct Translations(BTreeMap<Pair, FarEnd>);

impl Translations {
    /// Takes one in, for both of its ends.
    pub(super) fn learn(&mut self, it: &Translation) {
        let (near, far) = ((it.local, it.remote), (it.far_local, it.far_remote));
        self.0.insert(near, FarEnd { pair: far, netns: it.far_netns });
        self.0.insert(far, FarEnd { pair: near, netns: None });
    }

    /// The other end, if its addresses are translated.
    pub(crate) fn far_end(&self, of: &InetRef) -> Option<FarEnd> {
        self.0.get(&(of.local, of.remote)).copied()
    }

    /// A connection as its other end has it: the other end's own address, and this one's.
    pub(crate) fn other_end(&self, of: &InetRef) -> Pair {
        self.far_end(of).map_or((of.remote, of.local), |far| far.pair)
    }

    /// What an address that is asked stands for, if it is one for all whose questions to it are translated.
    pub(crate) fn behind(&self, address: SocketAddr) -> Option<FarEnd> {
        let to = |((_, remote), far): (&Pair, &FarEnd)| (*remote == address).then_some(*far);
        let mut all = self.0.iter().filter_map(to);
        let first = all.next()?;
        let is_one = all.all(|it| (it.pair.0, it.netns) == (first.pair.0, first.netns));
        is_one.then_some(first)
    }

    /// From and to where the packets are that a socket sends: as it has it, and behind a translation.
    pub(crate) fn ways(&self, socket: &InetRef) -> [Pair; 2] {
        let (far_local, far_remote) = self.other_end(socket);
        [(socket.local, socket.remote), (far_remote, far_local)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn socket(netns: u32, local: &str, remote: &str) -> InetRef {
        let (local, remote) = (at(local), at(remote));
        InetRef { ino: 1, netns, protocol: "tcp".into(), local, remote, state: 1 }
    }

    /// Clients of a service's address, each led to a server of its own.
    fn service(servers: &[&str]) -> Translations {
        let mut all = Translations::default();
        for (client, server) in servers.iter().enumerate() {
            let local = at(&format!("10.0.0.9:{}", 4_000 + client));
            all.learn(&Translation {
                netns: 1,
                local,
                remote: at("10.96.0.10:53"),
                far_local: at(server),
                far_remote: local,
                far_netns: Some(5),
            });
        }
        all
    }

    #[test]
    fn each_end_is_what_the_other_one_calls_it() {
        let all = service(&["10.244.0.2:5353"]);
        let client = socket(1, "10.0.0.9:4000", "10.96.0.10:53");
        let server = socket(5, "10.244.0.2:5353", "10.0.0.9:4000");
        assert_eq!(all.other_end(&client), (server.local, server.remote));
        assert_eq!(all.other_end(&server), (client.local, client.remote));
        let plain = socket(1, "10.0.0.9:1", "10.0.0.8:2");
        assert_eq!(all.other_end(&plain), (plain.remote, plain.local));
        assert_eq!(all.ways(&client)[1], (server.remote, server.local));
    }

    #[test]
    fn of_several_servers_behind_an_address_none_is_it() {
        let of = |servers| service(servers).behind(at("10.96.0.10:53")).map(|far| far.pair.0);
        assert_eq!(of(&["10.244.0.2:53", "10.244.0.2:53"]), Some(at("10.244.0.2:53")));
        assert_eq!(of(&["10.244.0.2:53", "10.244.0.3:53"]), None);
        assert_eq!(of(&[]), None);
    }
}
