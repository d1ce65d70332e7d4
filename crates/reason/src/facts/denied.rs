//! Facts of refused system calls: who was refused what, and which limit he met.
//!
//! A refusal is no wait by itself: what the sleeps after it are for is said in waits/retries.rs. Must not hold what the
//! kernel does not say, such as who made a file that is in the way.

use super::{InetRef, ObjectRef, ThreadRef};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A system call that was refused. Source: sys_exit, for the threads of a command, or of a process that was asked about
/// and its children. Of the same refusals of one thread, one in 5 ms. So are looks at a name by a thread that has taken none for
/// 20 ms ([`Denied::looked_at`]).
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
    /// Positive errno; 0 of an end: of a process that lives (kill), and of a connection that gave nothing; and of a name that is there.
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
    /// The file that a lock was asked of, or that was written to, the connection that was ended, or the socket that was to have an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// First and last byte of a file that a lock of fcntl was asked of; u64::MAX for the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<(u64, u64)>,
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
        let is_ended = self.errno == ECONNRESET || self.errno == 0 && self.asked_after().is_none();
        (is_ended && socket.is_tcp() && socket.remote.port() != 0).then_some(socket)
    }

    /// The folder in which a name was wanted.
    pub fn folder(&self) -> Option<&str> {
        let (folder, _) = self.path.as_deref()?.rsplit_once('/')?;
        Some(if folder.is_empty() { "/" } else { folder })
    }

    /// The name that was looked at, be it there or not (errno 0 or ENOENT): nothing was refused but that it changes. Not one that was opened to
    /// write to it, or to make it; but one that is only written to if nobody has to be waited for, and as it is: so a named pipe is opened to see
    /// whether somebody reads it.
    pub fn looked_at(&self) -> Option<&str> {
        const ENOENT: i32 = 2;
        /// O_ACCMODE and O_CREAT, include/uapi/asm-generic/fcntl.h.
        const WRITES: u64 = 0o3 | 0o100;
        /// O_WRONLY and O_NONBLOCK; beside them O_TRUNC and O_APPEND of the same file.
        const TRIES: u64 = 0o1 | 0o4000;
        const CHANGES: u64 = 0o1000 | 0o2000;
        const LOOKS: [&str; 9] = [
            "open",
            "openat",
            "stat",
            "lstat",
            "newfstatat",
            "statx",
            "access",
            "faccessat",
            "faccessat2",
        ];
        let flags = match self.syscall.as_str() {
            "open" => self.args[1],
            "openat" => self.args[2],
            _ => 0,
        };
        let writes = flags & WRITES != 0 && flags & (WRITES | TRIES | CHANGES) != TRIES;
        let is_look = matches!(self.errno, 0 | ENOENT) && LOOKS.contains(&self.syscall.as_str());
        self.path.as_deref().filter(|_| is_look && !writes)
    }

    /// The process that was asked after (`kill(pid, 0)`, `wait4` of one child without waiting, or a look at `/proc/PID`) and lives, as the
    /// caller numbers it: nothing was refused but its end.
    pub fn asked_after(&self) -> Option<u32> {
        if let Some(path) = self.looked_at().filter(|_| self.errno == 0) {
            // Who asks after the first process asks whether there is a /proc.
            return path.strip_prefix("/proc/")?.parse().ok().filter(|pid| *pid > 1);
        }
        let [pid, signal, ..] = self.args;
        let asks = match self.syscall.as_str() {
            "kill" => signal == 0,
            "wait4" => true,
            _ => false,
        };
        let is_it = self.errno == 0 && asks;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(path: &str, errno: i32) -> Denied {
        let (syscall, path) = ("newfstatat".to_string(), Some(path.to_string()));
        Denied { errno, path, syscall, ..Denied::default() }
    }

    #[test]
    fn who_looks_for_the_folder_of_a_process_asks_after_it() {
        assert_eq!(looked("/proc/20", 0).asked_after(), Some(20));
        assert_eq!(looked("/proc/20", 2).asked_after(), None, "it is gone");
        for path in ["/proc/1", "/proc/20/stat", "/proc/self"] {
            assert_eq!(looked(path, 0).asked_after(), None, "{path}");
        }
    }

    #[test]
    fn who_looks_for_the_end_of_one_child_asks_after_it_and_who_collects_any_does_not() {
        let reaps = |pid: i32| {
            let args = [pid.cast_unsigned().into(), 0, 1, 0, 0, 0];
            Denied { syscall: "wait4".into(), args, ..Denied::default() }.asked_after()
        };
        assert_eq!((reaps(20), reaps(-1), reaps(0)), (Some(20), None, None));
    }

    #[test]
    fn a_name_that_was_refused_was_not_only_looked_at() {
        const EACCES: i32 = 13;
        assert_eq!(looked("/srv/a", 2).looked_at(), Some("/srv/a"));
        assert_eq!(looked("/srv/a", EACCES).looked_at(), None);
        let made = Denied { syscall: "mkdir".into(), ..looked("/srv/a", 0) };
        assert_eq!(made.looked_at(), None);
        let opened = |flags: u64| {
            let args = [0, 0, flags, 0, 0, 0];
            Denied { syscall: "openat".into(), args, ..looked("/srv/a", 0) }.looked_at().is_some()
        };
        assert!(opened(0o2_000_000), "O_RDONLY | O_CLOEXEC");
        assert!(!opened(0o2001) && !opened(0o100), "a log that is written to, a file that is made");
        assert!(opened(0o4001), "whether a named pipe has a reader, as of a service's supervisor");
        for flags in [0o1, 0o4101, 0o6001, 0o5001, 0o4002] {
            assert!(!opened(flags), "{flags:o}");
        }
    }
}
