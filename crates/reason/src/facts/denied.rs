//! Facts of refused system calls: who was refused what, and which limit he met.
//!
//! A refusal is no wait by itself: what the sleeps after it are for is said in waits/retries.rs. Must not hold what the
//! kernel does not say, such as who made a file that is in the way.

use super::{InetRef, ObjectRef, ThreadRef};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A system call that was refused. Source: sys_exit, for the threads of a command, or of a process that was asked about
/// and its children. Of the same refusals of one thread, one in 5 ms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Denied {
    /// Who asked.
    pub thread: ThreadRef,
    /// System call by name.
    pub syscall: String,
    /// Its raw arguments.
    pub args: [u64; 6],
    /// No call was seen to be refused, but a packet of it (model/refused_packets.rs): concluded from other facts, and in no recording.
    #[serde(skip)]
    pub by_packet: bool,
    /// Positive errno; 0 of an end: of a process that lives (kill), and of a connection that gave nothing.
    pub errno: i32,
    /// Effective capabilities of the caller, a mask; none if they were not read.
    pub capabilities: Option<u64>,
    /// Refusals of this thread since its last one that was reported, which were only counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreported: u64,
    /// Process that is its parent; 0 if it is not known.
    #[serde(skip_serializing_if = "is_no_process")]
    pub parent_pid: u32,
    /// A seccomp filter of the caller does not let this call pass whatever its arguments are.
    #[serde(skip_serializing_if = "is_false")]
    pub filtered: bool,
    /// The file that a lock was asked of, or that was written to, or the connection that was ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// What was to be made, and is there already, or what the caller had no right to: absolute where the folder is known. Of a connection, and of an address
    /// that is taken, the path of a unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where nobody takes connections, or nothing is sent to, or the address that was asked for and is taken, or that the caller has no right to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// The limit that stands in the way of a new process or descriptor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<DeniedLimit>,
}

impl Denied {
    /// Whether it was to send to an address, or to be connected to it: what a route or a filter may refuse.
    pub fn is_sent(&self) -> bool {
        matches!(self.syscall.as_str(), "connect" | "sendto" | "sendmsg" | "sendmmsg")
    }

    /// The connection whose server has made it, and reset or ended it before a byte of it came. That the caller asked for it is known by the kernel's
    /// own count of what was acknowledged (bpf/refused.bpf.c), so a server may have any port.
    pub fn ended_by_peer(&self) -> Option<&InetRef> {
        const ECONNRESET: i32 = 104;
        let ObjectRef::Inet(socket) = self.object.as_ref()? else { return None };
        let is_ended = self.errno == ECONNRESET || self.errno == 0 && self.syscall != "kill";
        (is_ended && socket.is_tcp() && socket.remote.port() != 0).then_some(socket)
    }

    /// The folder in which a name was wanted.
    pub fn folder(&self) -> Option<&str> {
        let (folder, _) = self.path.as_deref()?.rsplit_once('/')?;
        Some(if folder.is_empty() { "/" } else { folder })
    }

    /// The process that was asked after (`kill(pid, 0)`) and lives, as the caller numbers it: nothing was refused but its end.
    pub fn asked_after(&self) -> Option<u32> {
        let [pid, signal, ..] = self.args;
        let is_it = self.errno == 0 && self.syscall == "kill" && signal == 0;
        // A group of processes is a negative number, the own group 0.
        let pid = (pid as i32).cast_unsigned();
        (is_it && (1..=i32::MAX.cast_unsigned()).contains(&pid)).then_some(pid)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

fn is_no_process(pid: &u32) -> bool {
    *pid == 0
}

/// A limit that a call met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedLimit {
    /// Which.
    pub kind: LimitKind,
    /// How many there may be.
    pub limit: u64,
    /// Of a RLIMIT_* the hard limit, up to which it may be raised; 0 if it was not read.
    #[serde(default)]
    pub hard: u64,
    /// How many there were; 0 if it was not read.
    #[serde(default)]
    pub used: u64,
    /// The group that sets it (kernfs id), 0 for none.
    #[serde(default)]
    pub cgroup_id: u64,
}

/// The limits that a refused call may have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// pids.max of a cgroup, which is met.
    PidsCgroup,
    /// RLIMIT_NPROC as it is set: the only one of a process that no group refuses, unless the host has no room.
    Processes,
    /// RLIMIT_NOFILE as it is set.
    Descriptors,
    /// RLIMIT_FSIZE as it is set.
    FileSize,
}
