//! What threads sent and received by the system calls of sockets, as facts: the values of one map, read once at the end.
//!
//! Pure, like samples.rs. Must not: add threads up to processes, or say what is too small (rules). Rejected: one sum for calls of one message and
//! of several, which would hide who joins its messages already.
//! Edit together: bpf/messages.bpf.h, bpf/wire_net.h.

use super::values::thread_ref;
use crate::decode::wire::*;
use holdup_reason::facts::{MessageCalls, Messages};

/// Of one thread.
pub fn messages(value: &wire_messages) -> Messages {
    let of = |call: wire_message_call| {
        let sum = &value.sums[call.0 as usize];
        MessageCalls {
            calls: sum.calls,
            messages: sum.messages,
            bytes: sum.bytes,
            ready_calls: sum.ready_calls,
        }
    };
    Messages {
        thread: thread_ref(&value.thread),
        sent: of(wire_message_call::WIRE_MESSAGE_SEND),
        sent_joined: of(wire_message_call::WIRE_MESSAGE_SEND_MANY),
        received: of(wire_message_call::WIRE_MESSAGE_RECEIVE),
        received_joined: of(wire_message_call::WIRE_MESSAGE_RECEIVE_MANY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_call_stands_in_its_own_sum() {
        let mut value: wire_messages = read(&[]);
        for (at, sum) in value.sums.iter_mut().enumerate() {
            let at = at as u64 + 1;
            (sum.calls, sum.messages, sum.bytes, sum.ready_calls) = (at, at * 10, at * 100, at - 1);
        }
        let found = messages(&value);
        let sums = [found.sent, found.sent_joined, found.received, found.received_joined];
        assert_eq!(sums.map(|sum| sum.calls), [1, 2, 3, 4]);
        assert_eq!((sums[3].messages, sums[3].bytes, sums[3].ready_calls), (40, 400, 3));
    }
}
