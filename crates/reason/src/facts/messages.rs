//! Facts of messages: what a thread sends and receives by the system calls of sockets.
//!
//! Counted by the kernel programs at the exit of each call, of the threads of a command or of a process that was asked about; of a whole host
//! nothing is counted. Must not: say which protocol a socket speaks (the samples do), or what is too small. Rejected: a fact for each socket (a
//! server has ten thousand).
//!
//! Edit together: decode/messages.rs of the probe.

use super::ThreadRef;
use serde::{Deserialize, Serialize};

/// What one thread sent and received over the window, of any socket. Source: sys_exit. Not `read` and `write`, which [`super::Effort`] has, and
/// not what io_uring does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Messages {
    /// The thread.
    pub thread: ThreadRef,
    /// By sendto and sendmsg, one message a call.
    pub sent: MessageCalls,
    /// By sendmmsg, several a call.
    pub sent_joined: MessageCalls,
    /// By recvfrom and recvmsg.
    pub received: MessageCalls,
    /// By recvmmsg.
    pub received_joined: MessageCalls,
}

/// Sums of one kind of call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageCalls {
    /// Calls that sent or received something.
    pub calls: u64,
    /// Messages that they moved.
    pub messages: u64,
    /// Bytes of those; of several a call as if each were as long as the first.
    pub bytes: u64,
    /// Of the calls, those on the same socket as the one before, between which the thread did not sleep: the next message was ready.
    pub ready_calls: u64,
}

impl std::ops::AddAssign for MessageCalls {
    fn add_assign(&mut self, more: Self) {
        self.calls += more.calls;
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.ready_calls += more.ready_calls;
    }
}
