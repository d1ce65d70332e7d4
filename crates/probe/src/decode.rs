//! Wire to fact: the bytes of a kernel record become observations. Pure but for the names of kernel
//! functions and mounts, which it is given; fuzzed.
//!
//! Any bytes may come in: a record that is too short or of an unknown kind is counted, never trusted.
//! Edit together: bpf/wire.h, decode/thread.rs (threads of the iterator, and those that end), decode/refused.rs.

mod lock;
mod refused;
mod thread;

pub use thread::ThreadRecord;

use crate::stacks::Stacks;
use crate::wire::{self, field, part, *};
use holdup_reason::facts::*;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Frames of a stack: those of `wire.h`, where the array is the last of its struct.
const FRAMES_MAX: usize =
    (size_of::<wire_place>() - offset_of!(wire_place, frame)) / size_of::<u64>();

/// Turns records into facts. Keeps what makes a record readable: stacks, mounts, estimated begins.
#[derive(Default)]
pub struct Decoder {
    /// Identities of kernel stacks.
    pub stacks: Stacks,
    /// Identities of locks of the kernel, by address.
    locks: HashMap<u64, u32>,
    /// Mounts of the initial namespace, to make paths absolute.
    pub mounts: Vec<Mount>,
    /// Reads the mounts that a process sees, for file systems that only other mount namespaces have.
    pub mounts_of: Option<fn(u32) -> Vec<Mount>>,
    /// File systems that were looked for in the namespace of a process that has a file there.
    sought: HashSet<DeviceNumber>,
    /// Since when a thread was blocked before it was first seen, by thread id.
    pub begins: HashMap<u32, Ns>,
    /// The walk at the begin is under way.
    pub is_first_walk: bool,
    /// What the scheduler had counted of a thread by then, by thread id.
    counted: HashMap<u32, thread::Counted>,
    /// CLOCK_MONOTONIC minus the scheduler's clock, nanoseconds.
    pub clock_offset_ns: Option<i64>,
    /// Ticks a second of `chrono` in TCP sockets.
    pub hz: u32,
    /// Size of a page.
    pub page_bytes: u64,
    /// Records that could not be read.
    pub unreadable: u64,
    /// Records read.
    pub events: u64,
    /// Of those the waits of traced threads.
    pub traced_events: u64,
}

impl Decoder {
    /// One that reads no file: stacks are reported by their addresses.
    pub fn of_bytes_alone() -> Self {
        Self { stacks: Stacks::unnamed(), ..Self::default() }
    }

    /// Reads one record of the ring into facts.
    pub fn record(&mut self, bytes: &[u8], facts: &mut Vec<Fact>) {
        let head: wire_head = wire::read(bytes);
        let before = facts.len();
        let kind = wire_kind(head.kind);
        let mut push = |body| facts.push(Fact { at_ns: head.at_ns, body });
        match kind {
            wire_kind::WIRE_WAIT => self.wait(head.at_ns, bytes, facts),
            wire_kind::WIRE_FORK => {
                let fork: wire_fork = wire::read(bytes);
                push(Body::Fork(Fork {
                    parent: thread_ref(&fork.parent),
                    child: thread_ref(&fork.child),
                    flags: fork.flags,
                }));
            }
            wire_kind::WIRE_EXEC => {
                let exec: wire_exec = wire::read(bytes);
                push(Body::Exec(Exec {
                    thread: thread_ref(&exec.thread),
                    path: wire::text(&exec.path),
                    inner_pid: Some(exec.inner_pid).filter(|pid| *pid != 0),
                }));
            }
            wire_kind::WIRE_EXIT => self.exit(&wire::read(bytes), facts),
            wire_kind::WIRE_REQUEST => push(Body::Request(request(&wire::read(bytes)))),
            wire_kind::WIRE_OOM => {
                let oom: wire_oom = wire::read(bytes);
                push(Body::OomKill(OomKill {
                    victim: thread_ref(&oom.victim),
                    cgroup_id: oom.memory_cgroup_id,
                    private_bytes: oom.private_pages.saturating_mul(self.page_bytes),
                }));
            }
            wire_kind::WIRE_SIGNAL => {
                let signal: wire_signal = wire::read(bytes);
                push(Body::Signal(Signal {
                    from: thread_ref(&signal.from),
                    to: thread_ref(&signal.to),
                    signal: i32::from(signal.signal),
                    ignored: signal.ignored != 0,
                    inner_pid: Some(signal.inner_pid).filter(|pid| *pid != 0),
                }));
            }
            wire_kind::WIRE_DNS_QUERY | wire_kind::WIRE_DNS_REPLY => {
                if let Some(body) = crate::dns::fact(&wire::read(bytes), kind) {
                    push(body);
                }
            }
            wire_kind::WIRE_DENIED => {
                let denied = self.refused(bytes);
                facts.push(Fact { at_ns: head.at_ns, body: Body::Denied(denied) });
            }
            _ => {}
        }
        if facts.len() == before && kind != wire_kind::WIRE_DNS_REPLY {
            self.unreadable += 1;
        }
        self.events += 1;
        if self.stacks.has_new() {
            self.reported_stacks(head.at_ns, facts);
        }
    }

    /// Appends the stacks that became known, after the facts that name them.
    pub fn reported_stacks(&mut self, at_ns: Ns, facts: &mut Vec<Fact>) {
        for stack in self.stacks.take_new() {
            facts.push(Fact { at_ns, body: Body::Stack(stack) });
        }
    }

    /// The record is read field by field, in place: see `wire::field`.
    fn wait(&mut self, at_ns: Ns, record: &[u8], facts: &mut Vec<Fact>) {
        let thread = thread_ref(&field!(record, wire_wait, thread));
        let flags = field!(record, wire_wait, flags);
        let flag = |bit: wire_flag| flags & bit.0 != 0;
        self.traced_events += u64::from(flag(wire_flag::WIRE_FLAG_TRACED));
        let left_ns = field!(record, wire_wait, begin_ns);
        let mut begin_ns = left_ns;
        let begin_estimated = flag(wire_flag::WIRE_FLAG_BEGIN_UNSEEN);
        if begin_estimated {
            // Once: a later wait whose begin was lost did not begin before the look.
            begin_ns = self.begins.remove(&thread.tid).unwrap_or(begin_ns).min(begin_ns);
        }
        let ran_since_ns = field!(record, wire_wait, ran_since_ns);
        if ran_since_ns != 0 && flag(wire_flag::WIRE_FLAG_TRACED) {
            let body = Body::Ran(Ran {
                thread: thread.clone(),
                begin_ns: ran_since_ns,
                end_ns: left_ns,
                cpu: field!(record, wire_wait, place.cpu),
            });
            facts.push(Fact { at_ns, body });
        }
        let ran_before = field!(record, wire_wait, ran_before);
        let place = part!(record, wire_wait, place);
        let path_bytes = field!(record, wire_wait, path_bytes);
        let names = part!(record, wire_wait, path);
        let path = self.path(thread.pid, names, path_bytes, field!(place, wire_place, object.dev));
        let nagle = nagle(place).filter(|it| it.sent_ns > begin_ns);
        let place = self.place(place, flag(wire_flag::WIRE_FLAG_IOWAIT), false, path);
        let lock = self.lock(part!(record, wire_wait, lock)).map(Box::new);
        let place = Place { nagle, lock, ..place };
        let wake = wake(record, flag(wire_flag::WIRE_FLAG_WAKER_KERNEL));
        facts.push(Fact {
            at_ns,
            body: Body::Wait(Wait {
                kernel: flag(wire_flag::WIRE_FLAG_KERNEL),
                begin_ns,
                end_ns: at_ns,
                place,
                wake,
                ran_before: (ran_before.tid != 0).then(|| thread_ref(&ran_before)),
                throttled: flag(wire_flag::WIRE_FLAG_THROTTLED),
                cpu_cgroup_id: field!(record, wire_wait, cpu_cgroup_id),
                cgroup_id: field!(record, wire_wait, cgroup_id),
                begin_estimated,
                thread,
            }),
        });
    }

    /// From the bytes of a `wire_place`.
    fn place(&mut self, place: &[u8], iowait: bool, frozen: bool, path: Option<String>) -> Place {
        let disk = field!(place, wire_place, disk);
        Place {
            state: match wait_state(field!(place, wire_place, state)) {
                state if frozen => marked_frozen(state),
                state => state,
            },
            iowait,
            syscall: syscall_name(field!(place, wire_place, syscall)),
            args: field!(place, wire_place, args),
            stack: self.stack(place),
            object: match field!(place, wire_place, object.kind) {
                0 => None,
                _ => object(&field!(place, wire_place, object), path),
            },
            polled_for_room: field!(place, wire_place, object.polled_for_room) != 0,
            disk: (disk != 0).then(|| device(disk)),
            cpu: field!(place, wire_place, cpu),
            ..Place::default()
        }
    }

    /// Identity of a place's stack.
    fn stack(&mut self, place: &[u8]) -> u32 {
        let mut frames = [0; FRAMES_MAX];
        let reported = (field!(place, wire_place, frames) as usize).min(FRAMES_MAX);
        let words = part!(place, wire_place, frame).chunks(size_of::<u64>());
        for (frame, word) in frames[..reported].iter_mut().zip(words) {
            *frame = wire::read(word);
        }
        self.stacks.id_of(&frames[..reported])
    }

    /// Reads one entry of the descriptor iterator.
    pub fn endpoint(&mut self, bytes: &[u8]) -> Option<Endpoint> {
        let record: wire_endpoint = wire::read(bytes);
        let path = (record.path_bytes > 0).then(|| unix_path(&record.path, record.path_bytes));
        let object = object(&record.object, path)?;
        let socket =
            (record.has_socket != 0).then(|| crate::socket::state(&record.socket, self.hz));
        let unread = match (&object, &socket) {
            (ObjectRef::Inet(_), Some(socket)) => Some(socket.receive_queued_bytes),
            (ObjectRef::Unix { .. }, _) => Some(u64::from(record.unread)),
            _ => None,
        };
        Some(Endpoint {
            process: thread_ref(&record.process),
            fd: record.fd,
            readable: record.mode & 1 != 0,
            writable: record.mode & 2 != 0,
            nonblocking: record.file_flags & libc::O_NONBLOCK as u32 != 0,
            output_stopped: matches!(object, ObjectRef::Tty { .. }) && record.unread != 0,
            object,
            unread,
            socket,
        })
    }

    /// Dentry names, innermost first, to a path of the initial mount namespace, or as the process sees it
    /// if the file system is not mounted there.
    pub(crate) fn path(&mut self, pid: u32, names: &[u8], bytes: u32, dev: u32) -> Option<String> {
        if bytes == 0 {
            return None;
        }
        let names = &names[..names.len().min(bytes as usize)];
        let mut inside = String::with_capacity(names.len() + 1);
        for name in names.rsplit(|&b| b == 0).filter(|name| !name.is_empty()) {
            inside.push('/');
            inside.push_str(&String::from_utf8_lossy(name));
        }
        let dev = device(dev);
        self.seek_mounts(pid, dev);
        let mount = self
            .mounts
            .iter()
            .filter(|m| m.dev == dev)
            .filter(|m| m.root == "/" || inside.starts_with(&m.root))
            .min_by_key(|m| (m.root != "/", m.path.len()))?;
        let rest = if mount.root == "/" { &inside[..] } else { &inside[mount.root.len()..] };
        let path = format!("{}{rest}", mount.path.trim_end_matches('/'));
        Some(if path.is_empty() { "/".into() } else { path })
    }

    /// Looks once in the namespace of a process that has a file there.
    fn seek_mounts(&mut self, pid: u32, dev: DeviceNumber) {
        if !self.mounts.iter().any(|mount| mount.dev == dev) && self.sought.insert(dev) {
            let seen = self.mounts_of.map(|read| read(pid)).unwrap_or_default();
            self.mounts.extend(seen.into_iter().filter(|mount| mount.dev == dev));
        }
    }

    /// Where the root of a file system is mounted.
    fn mounted_at(&mut self, thread: &ThreadRef, dev: u32) -> Option<String> {
        let dev = device(dev);
        self.seek_mounts(thread.pid, dev);
        let mounts = self.mounts.iter().filter(|mount| mount.dev == dev && mount.root == "/");
        Some(mounts.min_by_key(|mount| mount.path.len())?.path.clone())
    }
}

/// What a connection's own end had not sent when a wait on it began.
fn nagle(place: &[u8]) -> Option<Nagle> {
    let (sent_us, unsent_bytes) =
        (field!(place, wire_place, sent_us), field!(place, wire_place, unsent_bytes));
    let round_trip_us = u64::from(field!(place, wire_place, rtt_us_min));
    (sent_us != 0 || unsent_bytes != 0).then_some(Nagle {
        sent_ns: sent_us.saturating_mul(1_000),
        unsent_bytes,
        round_trip_ns_min: round_trip_us * 1_000,
    })
}

/// What ended a wait; nothing if the thread was never blocked.
fn wake(record: &[u8], by_kernel_thread: bool) -> Option<Wake> {
    let at_ns = field!(record, wire_wait, wake_ns);
    if at_ns == 0 {
        return None;
    }
    let disk = field!(record, wire_wait, wake_disk);
    Some(Wake {
        at_ns,
        context: match wire_context(field!(record, wire_wait, context)) {
            wire_context::WIRE_CONTEXT_TASK => WakeContext::Task,
            wire_context::WIRE_CONTEXT_SOFTIRQ => WakeContext::SoftInterrupt,
            wire_context::WIRE_CONTEXT_HARDIRQ => WakeContext::HardInterrupt,
            _ => WakeContext::Unknown,
        },
        by: thread_ref(&field!(record, wire_wait, waker)),
        by_kernel_thread,
        disk: (disk != 0).then(|| device(disk)),
    })
}

/// A name of the initial PID namespace.
pub fn thread_ref(record: &wire_ref) -> ThreadRef {
    ThreadRef {
        tid: record.tid,
        pid: record.tgid,
        start_ns: record.start_ns,
        comm: wire::text(&record.comm),
    }
}

/// The kernel's internal dev_t: 12 bits of major, 20 of minor.
pub fn device(dev: u32) -> DeviceNumber {
    DeviceNumber { major: dev >> 20, minor: dev & 0xf_ffff }
}

/// The state of who is marked as frozen (`task_struct.frozen`). Only the freezer's trap is an interruptible sleep: who is stopped,
/// traced or waits for a vfork is marked too, so that their group need not wait for them.
fn marked_frozen(state: WaitState) -> WaitState {
    if state == WaitState::Sleep { WaitState::Frozen } else { state }
}

/// Task state bits (include/linux/sched.h) to a state.
pub fn wait_state(state: u32) -> WaitState {
    match state {
        0 => WaitState::Runnable,
        s if s & 0x8000 != 0 => WaitState::Frozen,
        s if s & 0x400 != 0 => WaitState::Idle,
        s if s & 0x4 != 0 => WaitState::Stopped,
        s if s & 0x8 != 0 => WaitState::Traced,
        s if s & 0x2 != 0 => WaitState::DiskSleep,
        s if s & 0x1 != 0 => WaitState::Sleep,
        s if s & 0x80 != 0 => WaitState::Ended,
        _ => WaitState::Other,
    }
}

/// A system call's name; empty if it has none.
pub fn syscall_name(number: i64) -> String {
    usize::try_from(number)
        .ok()
        .and_then(syscalls::Sysno::new)
        .map(|s| s.name().to_string())
        .unwrap_or_default()
}

/// An address of the given family.
pub fn address(family: u16, bytes: &[u8; 16], port: u16) -> SocketAddr {
    let ip = if family == libc::AF_INET as u16 {
        IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
    } else {
        IpAddr::V6(Ipv6Addr::from(*bytes)).to_canonical()
    };
    SocketAddr::new(ip, port)
}

/// A protocol's word.
pub fn protocol_name(protocol: u16) -> String {
    match i32::from(protocol) {
        libc::IPPROTO_TCP => "tcp".into(),
        libc::IPPROTO_MPTCP => "mptcp".into(),
        libc::IPPROTO_UDP => "udp".into(),
        libc::IPPROTO_ICMP => "icmp".into(),
        libc::IPPROTO_ICMPV6 => "icmpv6".into(),
        other => other.to_string(),
    }
}

/// Servers of Go listen on a socket of MPTCP, which has the states of TCP (net/mptcp/protocol.c).
fn has_tcp_state(protocol: u16) -> bool {
    matches!(i32::from(protocol), libc::IPPROTO_TCP | libc::IPPROTO_MPTCP)
}

fn object(record: &wire_object, path: Option<String>) -> Option<ObjectRef> {
    let kind = wire_object_kind(u32::from(record.kind));
    Some(match kind {
        wire_object_kind::WIRE_OBJECT_FILE => ObjectRef::File(FileRef {
            dev: device(record.dev),
            ino: record.ino,
            path,
            frozen: record.frozen != 0,
            fs_type: wire::text(&record.name),
            rdev: device(record.rdev),
        }),
        wire_object_kind::WIRE_OBJECT_PIPE => ObjectRef::Pipe { ino: record.ino },
        wire_object_kind::WIRE_OBJECT_INET => ObjectRef::Inet(InetRef {
            ino: record.ino,
            netns: record.netns,
            protocol: protocol_name(record.protocol),
            local: address(record.family, &record.local, record.local_port),
            remote: address(record.family, &record.remote, record.remote_port),
            state: if has_tcp_state(record.protocol) { record.state } else { 0 },
        }),
        wire_object_kind::WIRE_OBJECT_UNIX => {
            ObjectRef::Unix { ino: record.ino, peer_ino: record.peer_ino, path }
        }
        wire_object_kind::WIRE_OBJECT_TTY => tty(record),
        wire_object_kind::WIRE_OBJECT_FUSE => ObjectRef::FuseServer { dev: device(record.dev) },
        wire_object_kind::WIRE_OBJECT_OTHER => {
            ObjectRef::Other { what: wire::text(&record.name), ino: record.ino }
        }
        _ => return None,
    })
}

/// Both sides of a pty are named by the device number of the slave's node: major 136, by index.
fn tty(record: &wire_object) -> ObjectRef {
    let name = wire::text(&record.name);
    // The two sides of a pty are named ptm0 and pts0.
    let master = name.starts_with("ptm");
    if master || name.starts_with("pts") {
        let index = record.peer_ino as u32;
        let dev = DeviceNumber { major: 136 + index / 256, minor: index % 256 };
        let side = if master { "ptm" } else { "pts" };
        return ObjectRef::Tty { name: format!("{side}/{index}"), dev };
    }
    ObjectRef::Tty { name, dev: device(record.rdev) }
}

fn unix_path(bytes: &[i8], length: u32) -> String {
    let raw: Vec<u8> = bytes.iter().take(length as usize).map(|&b| b as u8).collect();
    match raw.split_first() {
        // An abstract name begins with a NUL; by custom it is shown with an @.
        Some((0, rest)) => format!("@{}", String::from_utf8_lossy(rest).trim_end_matches('\0')),
        _ => String::from_utf8_lossy(&raw).trim_end_matches('\0').to_string(),
    }
}

/// Operation of a request's or bio's flags (REQ_OP_*).
pub fn operation(flags: u32) -> DiskOperation {
    match flags & 0xff {
        0 => DiskOperation::Read,
        1 => DiskOperation::Write,
        2 => DiskOperation::Flush,
        _ => DiskOperation::Other,
    }
}

fn request(record: &wire_request) -> Request {
    // __REQ_SYNC and __REQ_META: bits 11 and 12 since 4.10, stable since.
    Request {
        dev: device(record.dev),
        operation: operation(record.operation),
        sector: record.sector,
        bytes: record.bytes,
        insert_ns: record.insert_ns,
        issue_ns: record.issue_ns,
        complete_ns: record.head.at_ns,
        by: thread_ref(&record.by),
        metadata: record.operation & (1 << 12) != 0,
        sync: record.operation & (1 << 11) != 0,
        error: record.error != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dentry_names_become_a_path_below_their_mount() {
        let mut decoder = Decoder::default();
        let mount = |root: &str, path: &str| Mount {
            dev: DeviceNumber { major: 7, minor: 1 },
            root: root.into(),
            path: path.into(),
            ..Mount::default()
        };
        decoder.mounts = vec![mount("/sub", "/bind"), mount("/", "/mnt/disk")];
        let names = b"file\0sub\0";
        let dev = 7 << 20 | 1;
        assert_eq!(decoder.path(1, names, 9, dev).as_deref(), Some("/mnt/disk/sub/file"));
        assert_eq!(decoder.path(1, b"\0", 1, dev).as_deref(), Some("/mnt/disk"), "its root");
        decoder.mounts.pop();
        assert_eq!(decoder.path(1, names, 9, dev).as_deref(), Some("/bind/file"));
    }

    #[test]
    fn a_file_system_of_another_namespace_is_named_as_its_process_sees_it() {
        let seen = |pid: u32| {
            let dev = DeviceNumber { major: 0, minor: pid };
            vec![Mount { dev, root: "/".into(), path: "/tmp".into(), ..Mount::default() }]
        };
        let mut decoder = Decoder { mounts_of: Some(seen), ..Decoder::default() };
        let names = b"lock\0";
        assert_eq!(decoder.path(39, names, 5, 39).as_deref(), Some("/tmp/lock"));
        assert_eq!(decoder.path(39, names, 5, 40), None);
    }

    #[test]
    fn any_bytes_are_counted_and_do_no_harm() {
        let mut decoder = Decoder::default();
        let mut facts = Vec::new();
        decoder.record(&[], &mut facts);
        decoder.record(&[0xff; 7], &mut facts);
        assert!(facts.is_empty());
        assert_eq!(decoder.unreadable, 2);
    }

    #[test]
    fn states_are_read_as_the_kernel_writes_them() {
        assert_eq!(wait_state(0x402), WaitState::Idle);
        assert_eq!(wait_state(0x104), WaitState::Stopped);
        assert_eq!(wait_state(0x102), WaitState::DiskSleep);
        assert_eq!(wait_state(1), WaitState::Sleep);
        assert_eq!(wait_state(0x80), WaitState::Ended);
    }

    #[test]
    fn who_waits_for_a_vfork_is_marked_as_frozen_and_is_not() {
        // TASK_KILLABLE and TASK_FREEZABLE, as wait_for_vfork_done has them.
        assert_eq!(marked_frozen(wait_state(0x2102)), WaitState::DiskSleep);
        assert_eq!(marked_frozen(wait_state(0x104)), WaitState::Stopped);
        assert_eq!(marked_frozen(wait_state(0x2001)), WaitState::Frozen);
    }
}
