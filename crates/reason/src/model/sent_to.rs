//! Where sockets that are not connected send to: such a socket is treated as if it were connected there.
//!
//! Whoever sends all its datagrams to one address and waits in a call that receives on that socket, or polls it alone, waits for an answer of that
//! address, as one does that has called connect(2) before. Done once, before anything is concluded. Must not: do so for a group of hosts (multicast,
//! broadcast), of which nobody in particular owes an answer, for a socket that has an other end of its own, or for one among several that are
//! polled: an event loop polls the sockets of what it reports one way, too (statsd, syslog), and epoll says only what woke it. Rejected: completing the descriptors as well (whoever
//! has a port, and whether a process has a connection, is read from them as they are); a second kind of object beside `InetRef`.
//!
//! Edit together: facts/sent_to.rs.

use crate::facts::*;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// By process, protocol and own port.
#[derive(Debug, Default)]
pub(super) struct Destinations(HashMap<(u32, String, u16), SocketAddr>);

impl Destinations {
    /// Takes in what was seen.
    pub(super) fn learn(&mut self, sent: &SentTo) {
        if !is_of_many(sent.remote.ip()) {
            let key = (sent.pid, sent.protocol.clone(), sent.local_port);
            self.0.insert(key, sent.remote);
        }
    }

    /// Nobody was seen to send so: no wait need be looked at.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives the socket that a process waits on in a call that receives the other end that it sends to, and returns it, if that is known.
    pub(super) fn complete<'p>(&self, pid: u32, place: &'p mut Place) -> Option<&'p ObjectRef> {
        let object = receives(place)?;
        let ObjectRef::Inet(socket) = object else { return None };
        if socket.remote.port() != 0 || !socket.remote.ip().is_unspecified() {
            return None;
        }
        socket.remote = *self.0.get(&(pid, socket.protocol.clone(), socket.local.port()))?;
        Some(object)
    }
}

fn is_of_many(ip: IpAddr) -> bool {
    // 255 at the end is a subnet's broadcast nearly always; where it is a host, it stays unnamed.
    ip.is_multicast() || matches!(ip, IpAddr::V4(it) if it.octets()[3] == u8::MAX)
}

/// Calls that wait for the next datagram of one socket. Of a call that polls, the kernel's side names one that is not connected only if it is
/// polled alone (bpf/poll.bpf.h).
const RECEIVES: [&str; 9] =
    ["recvfrom", "recvmsg", "recvmmsg", "read", "readv", "poll", "ppoll", "select", "pselect6"];

fn receives(place: &mut Place) -> Option<&mut ObjectRef> {
    let is_for_room = place.polled_for_room;
    place.object.as_mut().filter(|_| !is_for_room && RECEIVES.contains(&&*place.syscall))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::{at_place, blocked, endpoint, fact, host, of_process};

    fn socket(ino: u64, protocol: &str, local: &str) -> ObjectRef {
        let at = |text: &str| text.parse().expect("an address");
        let (local, remote) = (at(local), at("0.0.0.0:0"));
        ObjectRef::Inet(InetRef {
            ino,
            netns: 1,
            protocol: protocol.into(),
            local,
            remote,
            state: 0,
        })
    }

    fn asks(protocol: &str, local: &str, sent: Option<&str>) -> Vec<Fact> {
        let near = socket(100, protocol, local);
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(near.clone()),
            ..Place::default()
        };
        let mut facts = vec![endpoint(10, "client", near), at_place(10, "client", place)];
        facts.extend(sent.map(|remote| {
            fact(Body::SentTo(SentTo {
                pid: 10,
                protocol: protocol.into(),
                local_port: 40_000,
                remote: remote.parse().expect("an address"),
            }))
        }));
        [host(), vec![of_process(10, "client")], facts].concat()
    }

    fn waits_for(facts: Vec<Fact>) -> String {
        explain(facts).answer.ends[0].object.name.clone()
    }

    #[test]
    fn a_socket_that_is_not_connected_waits_for_the_address_that_it_sends_to() {
        let asks = |sent| waits_for(asks("udp", "0.0.0.0:40000", sent));
        assert_eq!(asks(Some("10.0.0.5:161")), "udp 10.0.0.5:161");
        assert_eq!(asks(None), "udp 0.0.0.0:40000");
        for group in ["239.0.0.1:1900", "10.0.0.255:137"] {
            assert_eq!(asks(Some(group)), "udp 0.0.0.0:40000", "of nobody in particular");
        }
    }

    #[test]
    fn who_polls_several_is_not_taken_to_ask() {
        let remote = "10.0.0.5:8125".parse().unwrap();
        let mut sent = super::Destinations::default();
        sent.learn(&SentTo { pid: 10, protocol: "udp".into(), local_port: 40_000, remote });
        let in_call = |syscall: &str| {
            let object = Some(socket(100, "udp", "0.0.0.0:40000"));
            let mut place = Place { syscall: syscall.into(), object, ..Place::default() };
            sent.complete(10, &mut place).is_some()
        };
        assert!(in_call("recvfrom") && in_call("poll"), "it alone");
        assert!(!in_call("epoll_wait"));
    }

    #[test]
    fn a_server_of_this_host_that_is_asked_so_is_followed() {
        let led = |sent| {
            let mut facts = asks("udp", "0.0.0.0:40000", sent);
            facts.push(endpoint(20, "named", socket(200, "udp", "127.0.0.1:5354")));
            facts.push(blocked(20, "named", WaitState::Sleep, "nanosleep"));
            explain(facts).answer.ends[0].who.as_ref().and_then(|who| who.pid)
        };
        assert_eq!(led(Some("127.0.0.1:5354")), Some(20));
        assert_ne!(led(Some("127.0.0.1:5355")), Some(20));
        assert_ne!(led(None), Some(20));
    }
}
