//! Ports at which the host answers, for whoever reads an answer that has left it.
//!
//! They come with the descriptors that a look reads as it ends anyway, so they cost nothing of their own, in a look that goes on as
//! well. Those of the host's own network namespace: a container's port is reached by another address, or by a proxy that
//! has a port here. Must not: say who may reach them (a filter may stand before), or judge them. Rejected: /proc/net/tcp, which names no
//! process.
//!
//! Edit together: endpoints.rs of the probe (which bound sockets are reported), docs/json.md.

use super::report::Listening;
use crate::facts::{Endpoint, GIVEN_PORTS, InetRef, ObjectRef};
use crate::model::Model;
use std::collections::BTreeMap;

/// TCP_LISTEN.
const LISTEN: u8 = 10;

/// All of them, by port; none where descriptors were not read, or the host's namespace is not known.
pub(super) fn listening(model: &Model) -> Option<Vec<Listening>> {
    // Without kernel events only descriptors of whom was asked about are known.
    let was_read = model.look.host.kernel_events && !model.held.endpoints.is_empty();
    let own = model.net.links.iter().find(|link| link.netns_name.is_empty())?.netns;
    let mut by_place: BTreeMap<_, &Endpoint> = BTreeMap::new();
    for endpoint in &model.held.endpoints {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        if socket.netns != own || !answers(socket) {
            continue;
        }
        let place = (socket.local.port(), socket.protocol.as_str(), socket.local.ip());
        // Forked servers share the socket: the first process of them has it.
        let begun = |it: &Endpoint| (it.process.start_ns, it.process.pid);
        let known = by_place.entry(place).or_insert(endpoint);
        if begun(endpoint) < begun(known) {
            *known = endpoint;
        }
    }
    let all = by_place.into_iter().map(|((port, protocol, address), endpoint)| {
        let process = &endpoint.process;
        let named = model.threads.process_name(process.pid);
        Listening {
            port,
            protocol: protocol.into(),
            address: address.to_string(),
            program: if named.is_empty() { process.comm.clone() } else { named },
            pid: process.pid,
        }
    });
    was_read.then(|| all.collect())
}

/// It waits for connections, or for datagrams of anybody.
fn answers(socket: &InetRef) -> bool {
    match socket.protocol.as_str() {
        "udp" => (1..GIVEN_PORTS).contains(&socket.local.port()) && socket.remote.port() == 0,
        _ => socket.state == LISTEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::bounds::LISTENING_MAX;
    use crate::facts::{Body, Fact, Host, Link, Ns};
    use crate::rules::scenes::{endpoint, fact, host};

    const OWN: u32 = 4026531840;

    fn socket(netns: u32, protocol: &str, local: &str, remote: &str, state: u8) -> ObjectRef {
        let local: std::net::SocketAddr = local.parse().unwrap();
        ObjectRef::Inet(InetRef {
            ino: u64::from(local.port()),
            netns,
            protocol: protocol.into(),
            local,
            remote: remote.parse().unwrap(),
            state,
        })
    }

    fn look(kernel_events: bool, more: Vec<Fact>) -> Vec<Fact> {
        let seen = Host { kernel_events, ..Host::default() };
        let link = Link { netns: OWN, index: 1, name: "lo".into(), ..Link::default() };
        let mut facts = host();
        facts.extend([fact(Body::Host(seen)), fact(Body::Link(link))]);
        facts.extend(more);
        facts
    }

    fn said(facts: Vec<Fact>) -> Option<Vec<(u16, String, String)>> {
        let all = crate::answer::explain(facts).host.listening?;
        Some(all.into_iter().map(|it| (it.port, it.protocol, it.program)).collect())
    }

    #[test]
    fn a_port_is_named_once_with_the_first_process_that_has_it() {
        let tcp = |local| socket(OWN, "tcp", local, "0.0.0.0:0", LISTEN);
        let mut later = endpoint(31, "worker", tcp("0.0.0.0:80"));
        if let Body::Endpoint(end) = &mut later.body {
            end.process.start_ns = 9 as Ns;
        }
        let facts = look(
            true,
            vec![
                later,
                endpoint(30, "nginx", tcp("0.0.0.0:80")),
                endpoint(40, "named", socket(OWN, "udp", "10.0.0.1:53", "0.0.0.0:0", 7)),
                endpoint(41, "curl", socket(OWN, "tcp", "10.0.0.1:4000", "10.0.0.2:80", 1)),
                endpoint(42, "dig", socket(OWN, "udp", "10.0.0.1:4001", "10.0.0.2:53", 1)),
                endpoint(44, "asker", socket(OWN, "udp", "0.0.0.0:40001", "0.0.0.0:0", 7)),
                endpoint(43, "other", socket(7, "tcp", "0.0.0.0:81", "0.0.0.0:0", LISTEN)),
            ],
        );
        let expected = [(53, "udp", "named"), (80, "tcp", "nginx")];
        assert_eq!(
            said(facts),
            Some(expected.map(|(p, by, who)| (p, by.into(), who.into())).into())
        );
    }

    #[test]
    fn where_descriptors_were_not_read_nothing_is_said() {
        let end = || endpoint(30, "nginx", socket(OWN, "tcp", "0.0.0.0:80", "0.0.0.0:0", LISTEN));
        assert_eq!(said(look(false, vec![end()])), None);
        assert_eq!(said(look(true, vec![])), None);
        let connected = endpoint(41, "curl", socket(OWN, "tcp", "10.0.0.1:4000", "10.0.0.2:80", 1));
        assert_eq!(said(look(true, vec![connected])), Some(vec![]));
    }

    #[test]
    fn of_many_the_lowest_are_said_and_the_rest_counted() {
        let end = |port: u16| {
            let local = format!("0.0.0.0:{port}");
            endpoint(30, "many", socket(OWN, "tcp", &local, "0.0.0.0:0", LISTEN))
        };
        let report = crate::answer::explain(look(true, (1..=100).map(end).collect()));
        let listening = report.host.listening.unwrap();
        assert_eq!((listening.len(), listening[63].port), (LISTENING_MAX, 64));
        let cut = report.left_out.iter().find(|cut| cut.list == "/host/listening").unwrap();
        assert_eq!(cut.count, 36);
    }
}
