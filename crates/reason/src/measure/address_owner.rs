//! Who has an address of this host: the process whose socket listens, or is bound, there; and the container or namespace in which it is
//! somebody's own.
//!
//! By the descriptors that were read at the end of the look. Of several network namespaces that of whoever asks counts where
//! it is known. Ports are taken for each protocol by itself: where that of who is refused is not known, and processes have it by several,
//! nobody is named. Must not: guess by a program's name or its arguments.

use crate::facts::{Endpoint, ObjectRef, ThreadRef};
use crate::model::Model;
use std::net::{IpAddr, SocketAddr};

/// The container that has an IP address, `container web`, its pod, or the named network namespace, `network namespace blue`: by a socket there
/// whose own address it is. None of an address that several namespaces have.
pub fn place(model: &Model, ip: IpAddr) -> Option<String> {
    let ip = ip.to_canonical();
    if ip.is_loopback() || ip.is_unspecified() {
        return None;
    }
    let mut ends = model.held.endpoints.iter().filter_map(|end| match &end.object {
        ObjectRef::Inet(socket) if socket.local.ip().to_canonical() == ip => {
            Some((socket.netns, &end.process))
        }
        _ => None,
    });
    let (netns, process) = ends.next()?;
    if !ends.all(|(other, _)| other == netns) {
        return None;
    }
    // In the host's own namespace an address is the host's, whoever listens there.
    let mut links = model.net.links.iter();
    if links.any(|link| link.netns == netns && link.netns_name.is_empty()) {
        return None;
    }
    if let Some(container) = model.container_of(process).filter(|known| known.is_real()) {
        return container.cgroups.first().map(|path| model.containers.group_in_words(path));
    }
    // One that only a process stands for has no name.
    let link = model.net.links.iter().find(|link| link.netns == netns)?;
    let is_named = !link.netns_name.is_empty() && !link.netns_name.starts_with("pid:");
    is_named.then(|| format!("network namespace {}", link.netns_name))
}

/// The process that has an address, by the protocol of this socket if it is known; `asker` would have it too.
pub fn owner<'m>(
    model: &'m Model,
    (address, by): (SocketAddr, Option<&ObjectRef>),
    asker: &ThreadRef,
) -> Option<&'m ThreadRef> {
    let is_tcp = match by {
        Some(ObjectRef::Inet(socket)) => Some(socket.is_tcp()),
        _ => None,
    };
    let netns = |thread: &ThreadRef| {
        model.threads.identity(thread).map(|known| known.netns).filter(|netns| *netns != 0)
    };
    let own = netns(asker);
    let has_it = |end: &'m Endpoint| match &end.object {
        ObjectRef::Inet(socket) => {
            let (ip, other) = (address.ip(), socket.local.ip());
            let is_there = socket.local.port() == address.port()
                && socket.remote.port() == 0
                && (ip == other || ip.is_unspecified() || other.is_unspecified())
                && own.is_none_or(|own| own == socket.netns)
                && is_tcp.is_none_or(|is_tcp| is_tcp == socket.is_tcp())
                && end.process.pid != asker.pid;
            is_there.then_some((socket.is_tcp(), &end.process))
        }
        _ => None,
    };
    let ends: Vec<_> = model.held.endpoints.iter().filter_map(has_it).collect();
    // Forked servers share the socket: the first process of them has it.
    let first = |tcp: bool| {
        let of = ends.iter().filter(|(is_tcp, _)| *is_tcp == tcp).map(|(_, process)| *process);
        of.min_by_key(|process| (process.start_ns, process.pid))
    };
    match (first(true), first(false)) {
        (Some(stream), Some(datagram)) => (stream.pid == datagram.pid).then_some(stream),
        (stream, datagram) => stream.or(datagram),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, InetRef, Link};
    use crate::rules::scenes::{endpoint, fact, host, thread};

    fn has(pid: u32, protocol: &str) -> Fact {
        let at = |text: &str| text.parse().expect("an address");
        let (local, remote) = (at("0.0.0.0:443"), at("0.0.0.0:0"));
        let ino = u64::from(pid);
        let of = InetRef { ino, netns: 1, protocol: protocol.into(), local, remote, state: 10 };
        endpoint(pid, "server", ObjectRef::Inet(of))
    }

    #[test]
    fn an_address_is_of_the_namespace_in_which_it_is_a_sockets_own() {
        let connection = |netns, local: &str| {
            let at = |text: &str| text.parse().expect("an address");
            let (local, remote) = (at(local), at("203.0.113.9:443"));
            let of = InetRef { ino: 7, netns, protocol: "tcp".into(), local, remote, state: 1 };
            endpoint(30, "web", ObjectRef::Inet(of))
        };
        let blue =
            || fact(Body::Link(Link { netns: 2, netns_name: "blue".into(), ..Link::default() }));
        let of = |facts: Vec<Fact>| {
            let model = Model::new([host(), vec![blue()], facts].concat());
            place(&model, IpAddr::from([10, 88, 0, 5]))
        };
        let named = Some("network namespace blue".to_string());
        assert_eq!(of(vec![connection(2, "10.88.0.5:4433")]), named);
        assert_eq!(of(vec![connection(2, "10.88.0.6:4433")]), None);
        let both = vec![connection(2, "10.88.0.5:4433"), connection(3, "10.88.0.5:4433")];
        assert_eq!(of(both), None, "each may have sent it");
    }

    #[test]
    fn of_two_that_have_a_port_by_different_protocols_nobody_knows_which_is_in_the_way() {
        let by = |by: Option<&ObjectRef>, facts: Vec<Fact>| {
            let model = Model::new([host(), facts].concat());
            let asked = SocketAddr::from(([10, 0, 0, 1], 443));
            owner(&model, (asked, by), &thread(10, "app")).map(|process| process.pid)
        };
        let of = |facts| by(None, facts);
        assert_eq!(of(vec![has(30, "tcp")]), Some(30));
        let unbound = |protocol: &str| {
            let at: SocketAddr = "0.0.0.0:0".parse().expect("an address");
            let (local, remote, protocol) = (at, at, protocol.into());
            ObjectRef::Inet(InetRef { ino: 9, netns: 1, protocol, local, remote, state: 7 })
        };
        let both = || vec![has(30, "tcp"), has(20, "udp")];
        assert_eq!(by(Some(&unbound("udp")), both()), Some(20));
        assert_eq!(by(Some(&unbound("tcp")), both()), Some(30));
        assert_eq!(by(Some(&unbound("udp")), vec![has(30, "tcp")]), None, "that bars no datagrams");
        assert_eq!(of(vec![has(30, "tcp"), has(20, "udp")]), None);
        assert_eq!(of(vec![has(30, "tcp"), has(30, "udp")]), Some(30), "it has both");
    }
}
