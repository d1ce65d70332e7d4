//! Where sockets that are not connected send to, as facts: the entries of one map, read once at the end.
//!
//! Pure, like messages.rs. Must not: say which socket it is, or whether it waits (the model finds it by process, protocol and port). Rejected: a
//! fact for a socket that sends to several, of which the last says nothing about what it waits for.
//! Edit together: bpf/sent.bpf.c, bpf/wire_net.h.

use super::values::{address, protocol_name};
use crate::decode::wire::*;
use holdup_reason::facts::SentTo;

/// Of one port of a process; none if it has sent to several.
pub fn sent_to(key: &wire_sent_key, value: &wire_sent) -> Option<SentTo> {
    let mut remote = [0; 16];
    for (bytes, word) in remote.chunks_exact_mut(8).zip(value.remote) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    (value.others == 0).then(|| SentTo {
        pid: key.tgid,
        protocol: protocol_name(key.protocol),
        local_port: key.local_port,
        remote: address(value.family, &remote, value.remote_port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_to_one_address_is_reported_with_it_and_who_sends_to_several_is_not() {
        let mut key: wire_sent_key = read(&[]);
        (key.tgid, key.protocol, key.local_port) = (10, 17, 40_000);
        let mut value: wire_sent = read(&[]);
        let mut first = [0; 8];
        first[..4].copy_from_slice(&[10, 0, 0, 5]);
        value.remote[0] = u64::from_ne_bytes(first);
        (value.remote_port, value.family) = (161, libc::AF_INET as u16);
        let found = sent_to(&key, &value).unwrap();
        assert_eq!((found.pid, &*found.protocol, found.local_port), (10, "udp", 40_000));
        assert_eq!(found.remote, "10.0.0.5:161".parse().unwrap());
        value.others = 1;
        assert_eq!(sent_to(&key, &value), None);
    }
}
