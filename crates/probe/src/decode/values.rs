//! Values that many records have: threads, devices, addresses, states, objects. Pure.
//!
//! What the kernel's number means stands here once. Any bytes may come in. Must not: remember anything.

use super::wire::{self, *};
use holdup_reason::facts::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
pub fn marked_frozen(state: WaitState) -> WaitState {
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

/// An object of the kernel, with the path that its file or socket has.
pub fn object(record: &wire_object, path: Option<String>) -> Option<ObjectRef> {
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
        wire_object_kind::WIRE_OBJECT_PIPE if record.state != 0 => {
            ObjectRef::fifo(device(record.dev), record.ino)
        }
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
    /// /dev/tty and /dev/console, which stand for another terminal (Documentation/admin-guide/devices.txt).
    const STAND_INS: [DeviceNumber; 2] =
        [DeviceNumber { major: 5, minor: 0 }, DeviceNumber { major: 5, minor: 1 }];
    let opened = device(record.rdev);
    let dev = Some(opened).filter(|dev| !STAND_INS.contains(dev)).or_else(|| node(&name));
    ObjectRef::Tty { name, dev: dev.unwrap_or(opened) }
}

/// The device number of a virtual console's own node, or of a serial port's.
fn node(name: &str) -> Option<DeviceNumber> {
    let number = |kind: &str| name.strip_prefix(kind)?.parse::<u32>().ok();
    let minor = number("tty").or_else(|| number("ttyS").map(|number| 64 + number))?;
    Some(DeviceNumber { major: 4, minor })
}

/// A socket's path.
pub fn unix_path(bytes: &[i8], length: u32) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    #[test]
    fn what_dev_tty_stands_for_is_one_terminal_whichever_way_it_was_opened() {
        let opened = |name: &str, index: u64, rdev: u32| {
            let mut record = wire_object { rdev, peer_ino: index, ..wire_object::default() };
            let bytes = name.bytes().map(|byte| byte as _);
            record.name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            match tty(&record) {
                ObjectRef::Tty { name, dev } => (name, dev.to_string()),
                _ => Default::default(),
            }
        };
        let controlling = 5 << 20;
        assert_eq!(opened("pts3", 3, controlling), ("pts/3".into(), "136:3".into()));
        assert_eq!(opened("tty2", 1, controlling), opened("tty2", 1, 4 << 20 | 2));
        assert_eq!(opened("ttyS1", 1, controlling), opened("ttyS1", 1, 4 << 20 | 65));
    }
}
