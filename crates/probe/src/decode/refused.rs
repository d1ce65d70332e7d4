//! Refused system calls, wire to fact: which file, which path, which address, which limit.
//!
//! A path is made absolute by the folder that it begins in, as far as the table of mounts says where that is; nothing is
//! touched. Must not: say what a refusal is for. Edit together: bpf/refused.bpf.c, bpf/wire.h (`wire_denied`).

use super::mounts::Mounts;
use super::values::{address, object, syscall_name, thread_ref};
use crate::decode::wire::{self, *};
use holdup_reason::facts::*;
use std::net::SocketAddr;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EADDRINUSE: i32 = 98;
const ENOTCONN: i32 = 107;
const ECONNREFUSED: i32 = 111;
const ESTALE: i32 = 116;
const EDQUOT: i32 = 122;

/// A call that was refused.
pub(super) fn refused(mounts: &mut Mounts, bytes: &[u8]) -> Denied {
    let record: wire_denied = wire::read(bytes);
    let thread = thread_ref(&record.thread);
    let errno = record.result.wrapping_neg() as i32;
    let names = part!(bytes, wire_denied, path);
    let seen_at = mounts.path(thread.pid, names, record.path_bytes, record.object.dev);
    let given = given(&record);
    let mut denied = Denied {
        syscall: syscall_name(record.syscall),
        args: record.args,
        errno,
        capabilities: Some(record.capabilities),
        unreported: record.unreported,
        parent_pid: record.parent_tgid,
        limit: limit(&record),
        filtered: record.filtered != 0,
        ..Denied::default()
    };
    let is_address =
        matches!(errno, ECONNREFUSED | EADDRINUSE) || denied.syscall == "bind" || denied.is_sent();
    match errno {
        0 | ENOENT | ENOTCONN | ESTALE | EBUSY | EEXIST | EPERM | EACCES | EROFS | ENOSPC
        | EDQUOT
            if !given.is_empty() && !is_address && denied.syscall != "fcntl" =>
        {
            // The root of a file system has no name in it.
            let folder = match record.path_bytes {
                0 => mounts.mounted_at(&thread, record.object.dev),
                _ => seen_at,
            };
            denied.path = absolute(&given, folder.as_deref());
        }
        _ if is_address => {
            match peer(&given) {
                Some(Peer::Inet(address)) => denied.address = Some(address),
                Some(Peer::Unix(path)) => denied.path = Some(path),
                None => {}
            }
            denied.object = object(&record.object, seen_at);
        }
        _ if record.object.kind != 0 => {
            denied.object = object(&record.object, seen_at);
            denied.bytes = lock_bytes(&given).filter(|_| denied.syscall == "fcntl");
        }
        _ => {}
    }
    denied.thread = thread;
    denied
}

/// What the caller gave, a path without its NUL.
fn given(record: &wire_denied) -> Vec<u8> {
    let bytes = record.given.iter().map(|&byte| byte as u8);
    bytes.take(record.given_bytes as usize).collect()
}

/// First and last byte of a lock: of the begin of a `struct flock` that counts from the begin of the file.
fn lock_bytes(given: &[u8]) -> Option<(u64, u64)> {
    const SEEK_SET: u16 = 0;
    let number = |at: usize| Some(i64::from_ne_bytes(*given.get(at..)?.first_chunk()?));
    let whence = u16::from_ne_bytes(*given.get(2..)?.first_chunk()?);
    let (start, length) = (number(8)?, number(16)?);
    let bytes = match length {
        0 => (start, i64::MAX),
        1.. => (start, start.saturating_add(length - 1)),
        _ => (start.saturating_add(length), start.saturating_sub(1)),
    };
    let is_whole = whence == SEEK_SET && bytes.0 >= 0;
    is_whole.then_some((bytes.0 as u64, if length == 0 { u64::MAX } else { bytes.1 as u64 }))
}

/// A relative path without its folder says too little to be the same thing twice.
fn absolute(given: &[u8], folder: Option<&str>) -> Option<String> {
    let end = given.iter().position(|&byte| byte == 0).unwrap_or(given.len());
    let path = String::from_utf8_lossy(&given[..end]);
    let path = path.trim_end_matches('/');
    match (path.is_empty(), path.starts_with('/')) {
        (true, _) => None,
        (_, true) => Some(path.to_string()),
        _ => Some(format!("{}/{}", folder?.trim_end_matches('/'), path.trim_start_matches("./"))),
    }
}

enum Peer {
    Inet(SocketAddr),
    Unix(String),
}

/// A `struct sockaddr` of the families that refuse.
fn peer(given: &[u8]) -> Option<Peer> {
    let (family, rest) = given.split_first_chunk::<2>()?;
    let family = u16::from_ne_bytes(*family);
    let port = || Some(u16::from_be_bytes(*rest.first_chunk::<2>()?));
    let mut ip = [0; 16];
    match i32::from(family) {
        libc::AF_INET => ip[..4].copy_from_slice(rest.get(2..6)?),
        // Behind the port the flow's label.
        libc::AF_INET6 => ip.copy_from_slice(rest.get(6..22)?),
        libc::AF_UNIX => {
            let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            let name = match rest.split_first()? {
                (0, name) => format!("@{}", String::from_utf8_lossy(name).trim_end_matches('\0')),
                _ => String::from_utf8_lossy(&rest[..end]).into_owned(),
            };
            return Some(Peer::Unix(name));
        }
        _ => return None,
    }
    Some(Peer::Inet(address(family, &ip, port()?)))
}

fn limit(record: &wire_denied) -> Option<DeniedLimit> {
    let kind = match wire_limit(record.limit_kind) {
        wire_limit::WIRE_LIMIT_PIDS_CGROUP => LimitKind::PidsCgroup,
        wire_limit::WIRE_LIMIT_NPROC => LimitKind::Processes,
        wire_limit::WIRE_LIMIT_NOFILE => LimitKind::Descriptors,
        wire_limit::WIRE_LIMIT_FSIZE => LimitKind::FileSize,
        _ => return None,
    };
    let (limit, hard, used) = (record.limit, record.hard, record.used);
    Some(DeniedLimit { kind, limit, hard, used, cgroup_id: record.limit_cgroup_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn made_by(call: i64, errno: i64, given: &[u8]) -> Denied {
        let mut bytes = vec![0; size_of::<wire_denied>()];
        let mut put = |at: usize, from: &[u8]| bytes[at..at + from.len()].copy_from_slice(from);
        put(offset_of!(wire_denied, result), &(-errno).to_ne_bytes());
        put(offset_of!(wire_denied, syscall), &call.to_ne_bytes());
        put(offset_of!(wire_denied, given_bytes), &(given.len() as u32).to_ne_bytes());
        put(offset_of!(wire_denied, given), given);
        refused(&mut Mounts::default(), &bytes)
    }

    fn made(errno: i64, given: &[u8]) -> Denied {
        made_by(0, errno, given)
    }

    #[test]
    fn a_path_ends_at_its_nul_and_a_relative_one_needs_its_folder() {
        assert_eq!(made(17, b"/run/l.d/\0rest").path.as_deref(), Some("/run/l.d"));
        assert_eq!(made(17, b"l.d\0").path, None);
        assert_eq!(made(28, b"/srv/new\0").path.as_deref(), Some("/srv/new"), "no inode is left");
        assert_eq!(absolute(b"./l.d\0", Some("/srv/")).as_deref(), Some("/srv/l.d"));
        assert_eq!(absolute(b"l.d", Some("")).as_deref(), Some("/l.d"));
        assert_eq!(made(17, b"/a\xff\x1b\0").path.as_deref(), Some("/a\u{fffd}\u{1b}"));
    }

    #[test]
    fn a_lock_is_asked_of_the_bytes_that_its_caller_gave() {
        let bytes = |whence: u16, start: i64, length: i64| {
            let words = [u64::from(whence) << 16, start as u64, length as u64];
            lock_bytes(&words.map(u64::to_ne_bytes).concat())
        };
        assert_eq!(bytes(0, 100, 10), Some((100, 109)));
        assert_eq!(bytes(0, 100, 0), Some((100, u64::MAX)), "to the end of the file");
        assert_eq!(bytes(0, 100, -10), Some((90, 99)));
        assert_eq!((bytes(1, 0, 10), bytes(0, 5, -10)), (None, None), "from where it stands");
        assert_eq!(lock_bytes(b"short"), None);
    }

    #[test]
    fn an_address_is_read_by_its_family_however_short() {
        let mut inet = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        inet.extend([0x15, 0x38, 127, 0, 0, 1]);
        let to = made(111, &inet).address;
        assert_eq!(to, Some("127.0.0.1:5432".parse().expect("an address")));
        assert_eq!(made(111, &inet[..5]).address, None);
        for call in [libc::SYS_connect, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg] {
            assert_eq!(made_by(call, 101, &inet).address, to, "it has no way");
        }
        assert_eq!(made_by(libc::SYS_sendto, 101, &[]).address, None, "it is connected");
        let unix = [&(libc::AF_UNIX as u16).to_ne_bytes()[..], b"/run/db\0"].concat();
        assert_eq!(made(111, &unix).path.as_deref(), Some("/run/db"));
        assert_eq!(made(111, &[]).address, None);
    }
}
