//! DNS messages as they were seen on the wire: which name was asked, of whom, and what was answered.
//!
//! Any bytes may come in; a message that is cut or malformed gives nothing. Must not resolve anything, and reads no
//! more than the first question (RFC 1035, section 4). Edit together: bpf/net.bpf.c (what is copied).

use super::values::{address, thread_ref};
use crate::decode::wire::{wire_dns, wire_kind};
use holdup_reason::facts::{Body, DnsQuery, DnsReply, ObjectRef};

/// A question or an answer as a fact; none if the bytes are neither.
pub fn fact(record: &wire_dns, kind: wire_kind) -> Option<Body> {
    let message = &record.message[..usize::from(record.bytes).min(record.message.len())];
    let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    let id = word(0)?;
    let flags = word(2)?;
    let local = address(record.family, &record.local, record.local_port);
    let remote = address(record.family, &record.remote, record.remote_port);
    if kind == wire_kind::WIRE_DNS_REPLY {
        // On the way back the server is the source.
        let reply = DnsReply { server: local, local: remote, id, rcode: (flags & 0xf) as u8 };
        return Some(Body::DnsReply(reply));
    }
    let (name, question_type) = dns_question(message)?;
    Some(Body::DnsQuery(DnsQuery {
        thread: thread_ref(&record.thread),
        server: remote,
        local,
        id,
        name,
        question_type,
        socket_ino: record.socket_ino,
    }))
}

/// Whether this is a socket that is connected to a name server, or may be, as each of the process that is asked about: who has one does not
/// look for the way again.
pub fn asks_names(body: &Body, asked_about: Option<u32>) -> bool {
    let Body::Endpoint(endpoint) = body else { return false };
    let may_be_at = |port: u16| match port {
        0 => false,
        port => port == 53 || asked_about == Some(endpoint.process.pid),
    };
    matches!(&endpoint.object, ObjectRef::Inet(socket) if socket.protocol == "udp" && may_be_at(socket.remote.port()))
}

/// The first question (RFC 1035, 4.1.2): labels up to the root, then the type.
fn dns_question(message: &[u8]) -> Option<(String, u16)> {
    let mut at = 12;
    let mut name = String::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        if length > 63 {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(message.get(at..at + length)?));
        at += length;
    }
    let question_type = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
    Some((name, question_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Endpoint, InetRef, ThreadRef};

    #[test]
    fn any_connected_socket_of_whom_is_asked_about_may_be_one_to_a_name_server() {
        let asks = |protocol: &str, remote: &str, asked_about| {
            let object = ObjectRef::Inet(InetRef {
                ino: 5,
                netns: 7,
                protocol: protocol.into(),
                local: "10.0.0.1:4000".parse().unwrap(),
                remote: remote.parse().unwrap(),
                state: 1,
            });
            let endpoint = Endpoint {
                process: ThreadRef { pid: 10, tid: 10, ..ThreadRef::default() },
                fd: 3,
                readable: true,
                writable: true,
                nonblocking: true,
                object,
                unread: None,
                output_stopped: false,
                socket: None,
            };
            asks_names(&Body::Endpoint(endpoint), asked_about)
        };
        assert!(asks("udp", "10.0.0.2:53", None) && asks("udp", "10.0.0.2:5353", Some(10)));
        assert!(!asks("udp", "10.0.0.2:5353", None) && !asks("udp", "10.0.0.2:5353", Some(11)));
        assert!(!asks("udp", "0.0.0.0:0", Some(10)) && !asks("tcp", "10.0.0.2:53", Some(10)));
    }

    #[test]
    fn a_question_is_read_up_to_its_type() {
        let mut message = vec![0; 12];
        message.extend(b"\x011\x010\x03127\x07in-addr\x04arpa\x00\x00\x0c\x00\x01");
        assert_eq!(dns_question(&message), Some(("1.0.127.in-addr.arpa".into(), 12)));
        assert_eq!(dns_question(&message[..20]), None);
    }
}
