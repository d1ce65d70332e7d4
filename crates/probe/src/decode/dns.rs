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

/// Whether this is a socket that is connected to a name server: who has one does not look for the way again.
pub fn asks_names(body: &Body) -> bool {
    let Body::Endpoint(endpoint) = body else { return false };
    matches!(&endpoint.object, ObjectRef::Inet(socket) if socket.protocol == "udp" && socket.remote.port() == 53)
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

    #[test]
    fn a_question_is_read_up_to_its_type() {
        let mut message = vec![0; 12];
        message.extend(b"\x011\x010\x03127\x07in-addr\x04arpa\x00\x00\x0c\x00\x01");
        assert_eq!(dns_question(&message), Some(("1.0.127.in-addr.arpa".into(), 12)));
        assert_eq!(dns_question(&message[..20]), None);
    }
}
