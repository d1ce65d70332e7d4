//! What a standing wait of a readable thread is for: its system call, its kernel function, the object of its descriptor.
//!
//! The system call and its arguments say which descriptor; the link in /proc/PID/fd says what that is. Of poll and select the
//! descriptors are read from the waiter's memory, of epoll from its fdinfo, and the object is given only where but one of them
//! can be meant. Must not: block (the exec lock is asked for through the guard; no path of the command's own is resolved).

use super::sockets::Sockets;
use crate::readers::waits::{kernel_function, syscall, wait_state};
use crate::system::clock::{ClockId, clock_ns, now};
use crate::system::memory;
use crate::system::stat::Stat;
use crate::system::{Roots, guard, mounts, text};
use holdup_reason::facts::{DeviceNumber, FileRef, Ns, ObjectRef, Place, ThreadRef};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::PathBuf;

/// Descriptors of one wait that are looked at.
const DESCRIPTORS_MAX: usize = 16;
/// Open descriptors of a process of which it is asked what they are.
const OPEN_MAX: usize = 256;

/// A wait in detail.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Detail {
    pub(super) place: Place,
    /// The kernel function that waits, where it may be read.
    pub(super) frames: Vec<String>,
}

/// Reads it, of a wait since a time; none if the thread does not wait any more, or hangs in the kernel where it cannot be read.
pub(super) fn detail(
    roots: &Roots,
    sockets: &Sockets,
    thread: &ThreadRef,
    since_ns: Ns,
) -> Option<Detail> {
    let folder = roots.process(thread.pid, "task").join(thread.tid.to_string());
    let stat = Stat::read(&folder.join("stat"))?;
    let state = wait_state(stat.state)?;
    let call = guard::map(vec![folder.join("syscall")], |path: &PathBuf| {
        text::read(path).ok().and_then(|bytes| syscall(&bytes))
    });
    let (syscall, args) = call.into_iter().next()??.unwrap_or_default();
    let frames: Vec<String> = kernel_function(&folder).into_iter().collect();
    let (object, polled_for_room) = match meant(roots, sockets, thread, &syscall, &args) {
        Some((fd, room)) => (object(roots, sockets, thread.pid, fd), room),
        None => (None, false),
    };
    let timeout_ns = timeout(thread.pid, &syscall, &args, since_ns);
    let place =
        Place { state, syscall, args, object, polled_for_room, timeout_ns, ..Place::default() };
    Some(Detail { place, frames })
}

/// How long a call that began at a time waits at most; none: for ever, or not known.
fn timeout(pid: u32, syscall: &str, args: &[u64; 6], since_ns: Ns) -> Option<Ns> {
    /// Commands of futex(2) that take a length of time, and those that take a point in time.
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_UNTIL: [u64; 2] = [9, 11];
    const CLOCK_REALTIME: u64 = 256;
    let ms = |at: usize| u64::try_from(args[at] as i32).ok().map(|ms| ms * 1_000_000);
    let length = |at: usize| memory::time_ns(pid, args[at]);
    let [_, operation, ..] = *args;
    match syscall {
        "epoll_wait" | "epoll_pwait" => ms(3),
        "poll" => ms(2),
        "ppoll" | "rt_sigtimedwait" => length(2),
        "pselect6" => length(4),
        "epoll_pwait2" => length(3),
        "futex" if operation & 127 == FUTEX_WAIT => length(3),
        "futex" if FUTEX_UNTIL.contains(&(operation & 127)) => {
            let clock = match operation & CLOCK_REALTIME {
                0 => ClockId::Monotonic,
                _ => ClockId::Realtime,
            };
            let left_ns = length(3)?.saturating_sub(clock_ns(clock));
            Some((now() + left_ns).saturating_sub(since_ns))
        }
        _ => None,
    }
}

/// The descriptor that a wait is for, and whether it waits for room in it.
fn meant(
    roots: &Roots,
    sockets: &Sockets,
    thread: &ThreadRef,
    syscall: &str,
    args: &[u64; 6],
) -> Option<(u32, bool)> {
    let [first, second, third, ..] = *args;
    match syscall {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "recvfrom" | "recvmsg"
        | "recvmmsg" | "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto"
        | "sendmsg" | "sendmmsg" | "accept" | "accept4" | "connect" | "flock" | "fcntl"
        | "fsync" | "fdatasync" | "sync_file_range" | "fallocate" | "ftruncate" | "ioctl"
        | "getdents64" | "fstat" => Some((u32::try_from(first).ok()?, false)),
        "sendfile" => Some((u32::try_from(first).ok()?, false)),
        "poll" | "ppoll" => {
            let all = memory::polled(thread.pid, first, second);
            only(roots, sockets, thread.pid, &all)
        }
        "select" | "pselect6" => {
            let read = memory::descriptor_set(thread.pid, second, first);
            let write = memory::descriptor_set(thread.pid, third, first);
            let of = |set: Vec<u32>, room| set.into_iter().map(move |fd| (fd, room));
            let all: Vec<(u32, bool)> = of(read, false).chain(of(write, true)).collect();
            only(roots, sockets, thread.pid, &all)
        }
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => {
            let fdinfo = roots.process(thread.pid, "fdinfo").join(first.to_string());
            let bytes = text::read(&fdinfo).ok()?;
            let target = |line: &[u8]| {
                let mut words = text::words(line.strip_prefix(b"tfd:")?);
                Some((text::number(words.next()?)? as u32, false))
            };
            let all: Vec<(u32, bool)> = text::lines(&bytes).filter_map(target).collect();
            only(roots, sockets, thread.pid, &all)
        }
        _ => None,
    }
}

/// Of several descriptors the one connection among them, or a terminal or pipe if there is no socket.
fn only(roots: &Roots, sockets: &Sockets, pid: u32, all: &[(u32, bool)]) -> Option<(u32, bool)> {
    if let [only] = all {
        return Some(*only);
    }
    let all = all.get(..DESCRIPTORS_MAX.min(all.len()))?;
    let kinds: Vec<Option<ObjectRef>> =
        all.iter().map(|(fd, _)| object(roots, sockets, pid, *fd)).collect();
    let own = OnceCell::new();
    let is_connection = |object: &ObjectRef| match object {
        ObjectRef::Inet(socket) => socket.remote.port() != 0,
        // A process wakes itself by a pair whose two ends are its own.
        ObjectRef::Unix { peer_ino, .. } => {
            *peer_ino != 0 && !own.get_or_init(|| own_sockets(roots, pid)).contains(peer_ino)
        }
        _ => false,
    };
    let is_pipe = |object: &ObjectRef| matches!(object, ObjectRef::Pipe { .. });
    let among = |is: &dyn Fn(&ObjectRef) -> bool| {
        let mut fitting = all
            .iter()
            .zip(&kinds)
            .filter(|(_, kind)| kind.as_ref().is_some_and(is))
            .map(|(at, _)| *at);
        fitting.next().filter(|first| fitting.all(|other| other.0 == first.0))
    };
    let is_socket = |object: &ObjectRef| match object {
        ObjectRef::Inet(_) | ObjectRef::Unix { .. } => true,
        ObjectRef::Other { what, .. } => what == "socket",
        _ => false,
    };
    // Polled together with signals, events or listeners, a pipe mostly reports the end of the process that made it.
    let are_pipes = kinds.iter().all(|kind| kind.as_ref().is_some_and(is_pipe));
    let tty_at = kinds.iter().position(|kind| matches!(kind, Some(ObjectRef::Tty { .. })));
    match tty_at {
        Some(at) => (!kinds.iter().flatten().any(is_socket)).then(|| all[at]),
        None => among(&is_connection).or_else(|| among(&is_pipe).filter(|_| are_pipes)),
    }
}

/// The sockets that a process has open, by inode.
pub(super) fn own_sockets(roots: &Roots, pid: u32) -> HashSet<u64> {
    let Ok(folder) = std::fs::read_dir(roots.process(pid, "fd")) else { return HashSet::new() };
    let links = folder.flatten().take(OPEN_MAX).filter_map(|it| std::fs::read_link(it.path()).ok());
    links.filter_map(|link| numbered(&link.to_string_lossy(), "socket:[")).collect()
}

/// What is behind a descriptor.
pub(super) fn object(roots: &Roots, sockets: &Sockets, pid: u32, fd: u32) -> Option<ObjectRef> {
    let path = roots.process(pid, "fd").join(fd.to_string());
    let link = std::fs::read_link(&path).ok()?;
    let name = link.to_string_lossy();
    if let Some(ino) = numbered(&name, "pipe:[") {
        return Some(ObjectRef::Pipe { ino });
    }
    if let Some(ino) = numbered(&name, "socket:[") {
        return sockets.object(roots, pid, ino);
    }
    if let Some(what) = name.strip_prefix("anon_inode:") {
        return Some(ObjectRef::Other { what: what.trim_matches(['[', ']']).into(), ino: 0 });
    }
    terminal(roots, pid, fd, &name).or_else(|| file(roots, pid, fd, &name))
}

/// A terminal by where its descriptor leads to: either side of a pair, a console, a line, or whichever one controls the process.
fn terminal(roots: &Roots, pid: u32, fd: u32, path: &str) -> Option<ObjectRef> {
    let is_used = |name: &&str| name.starts_with("pts/") || name.starts_with("tty");
    if is_master(path) {
        return window_shown(roots, pid, fd).map(shown);
    }
    let name = match path.strip_prefix("/dev/")? {
        "tty" => controlling(&Stat::read(&roots.process(pid, "stat"))?)?,
        name => Some(name).filter(is_used)?.to_string(),
    };
    Some(ObjectRef::Tty { dev: window(&name).unwrap_or_default(), name })
}

/// Whether a descriptor is on the side of whoever shows a terminal.
pub(super) fn is_master(path: &str) -> bool {
    matches!(path, "/dev/ptmx" | "/dev/pts/ptmx")
}

/// The number of the pair of which such a descriptor is the master (drivers/tty/pty.c, pty_show_fdinfo).
pub(super) fn window_shown(roots: &Roots, pid: u32, fd: u32) -> Option<u32> {
    let bytes = text::read(&roots.process(pid, "fdinfo").join(fd.to_string())).ok()?;
    let index = text::lines(&bytes).find_map(|line| line.strip_prefix(b"tty-index:"))?;
    u32::try_from(text::number(index.trim_ascii())?).ok()
}

/// The side of whoever shows it, of the pair of that number.
pub(super) fn shown(index: u32) -> ObjectRef {
    let name = format!("ptm/{index}");
    ObjectRef::Tty { dev: window(&name).unwrap_or_default(), name }
}

/// What `/dev/tty` stands for: the slave of a pair, a virtual console or a serial port (Documentation/admin-guide/devices.txt).
fn controlling(stat: &Stat) -> Option<String> {
    let (major, minor) =
        (stat.terminal >> 8 & 0xfff, stat.terminal & 0xff | stat.terminal >> 12 & 0xf_ff00);
    match (major, minor) {
        (136..=143, _) => Some(format!("pts/{}", (major - 136) * 256 + minor)),
        (4, 1..64) => Some(format!("tty{minor}")),
        (4, 64..) => Some(format!("ttyS{}", minor - 64)),
        _ => None,
    }
}

/// The device number of a pty's slave, for either side: major 136 and on, by its index (Documentation/admin-guide/devices.txt).
fn window(name: &str) -> Option<DeviceNumber> {
    let index = name.strip_prefix("pts/").or_else(|| name.strip_prefix("ptm/"));
    let index: u32 = index?.parse().ok()?;
    Some(DeviceNumber { major: 136 + index / 256, minor: index % 256 })
}

/// The number in `pipe:[77]`.
pub(super) fn numbered(name: &str, kind: &str) -> Option<u64> {
    name.strip_prefix(kind)?.strip_suffix(']')?.parse().ok()
}

/// A file by what the kernel shows of its descriptor: nothing on the way to it is touched, for its file system may be dead.
fn file(roots: &Roots, pid: u32, fd: u32, path: &str) -> Option<ObjectRef> {
    let bytes = text::read(&roots.process(pid, "fdinfo").join(fd.to_string())).ok()?;
    let mounts = mounts::mounts_of(roots, &pid.to_string()).ok()?;
    let mount = mounts::mount_of(&mounts, path)?;
    Some(ObjectRef::File(FileRef {
        dev: mount.dev,
        ino: text::keyed(&bytes, "ino").unwrap_or(0),
        path: Some(path.to_string()),
        fs_type: mount.fs_type.clone(),
        ..FileRef::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn how_long_a_call_waits_at_most_stands_in_its_arguments_or_behind_them() {
        let own = std::process::id();
        let length = libc::timespec { tv_sec: 2, tv_nsec: 5 };
        let at = std::ptr::from_ref(&length) as u64;
        let of = |call: &str, args: [u64; 6], since_ns| timeout(own, call, &args, since_ns);
        assert_eq!(of("epoll_wait", [3, 0, 64, 250, 0, 0], 0), Some(250_000_000));
        assert_eq!(of("epoll_wait", [3, 0, 64, u64::from(u32::MAX), 0, 0], 0), None);
        assert_eq!(of("ppoll", [0, 1, at, 0, 0, 0], 0), Some(2_000_000_005));
        assert_eq!(of("futex", [0, 128, 2, at, 0, 0], 0), Some(2_000_000_005));
        assert_eq!(of("futex", [0, 128, 2, 0, 0, 0], 0), None);
        assert_eq!(of("read", [at; 6], 0), None);
        // A point in time: what is left of it, counted from the begin of the wait.
        let until_ns = now() + 7_000_000_000;
        let until = libc::timespec {
            tv_sec: (until_ns / 1_000_000_000) as i64,
            tv_nsec: (until_ns % 1_000_000_000) as i64,
        };
        let at = std::ptr::from_ref(&until) as u64;
        let since_ns = until_ns - 9_000_000_000;
        let whole = of("futex", [0, 137, 2, at, 0, 0], since_ns).expect("a time");
        assert!(whole.abs_diff(9_000_000_000) < 1_000_000_000, "{whole}");
    }

    /// A new pair: its master, its slave, and that one's path.
    fn pair() -> (std::fs::File, std::fs::File, String) {
        use std::os::unix::fs::OpenOptionsExt;
        let open = |path: &str| {
            let mut how = std::fs::File::options();
            how.read(true).write(true).custom_flags(libc::O_NOCTTY);
            how.open(path).expect("opened")
        };
        let master = open("/dev/ptmx");
        let mut path = [0_u8; 64];
        // SAFETY: the descriptor is a master's; the buffer has the length that is given, and ends with a NUL then.
        let known = unsafe {
            let fd = master.as_raw_fd();
            libc::unlockpt(fd) | libc::ptsname_r(fd, path.as_mut_ptr().cast(), path.len())
        };
        assert_eq!(known, 0);
        let path = std::ffi::CStr::from_bytes_until_nul(&path).expect("a path");
        let path = path.to_string_lossy().into_owned();
        (master, open(&path), path)
    }

    #[test]
    fn both_sides_of_a_terminal_have_one_number() {
        let (master, slave, path) = pair();
        let (roots, sockets, own) = (Roots::default(), Sockets::default(), std::process::id());
        let of = |fd: i32| match object(&roots, &sockets, own, fd as u32) {
            Some(ObjectRef::Tty { name, dev }) => (name, dev),
            other => panic!("no terminal: {other:?}"),
        };
        let (shown, used) = (of(master.as_raw_fd()), of(slave.as_raw_fd()));
        let index = path.trim_start_matches("/dev/pts/");
        assert_eq!((shown.0, used.0), (format!("ptm/{index}"), format!("pts/{index}")));
        assert_eq!(shown.1, used.1);
    }

    #[test]
    fn what_controls_a_process_is_a_terminal_by_its_number() {
        let of = |terminal: u32| controlling(&Stat { terminal, ..Stat::default() });
        assert_eq!(of(136 << 8 | 3).as_deref(), Some("pts/3"));
        assert_eq!(of(137 << 8 | 1).as_deref(), Some("pts/257"));
        assert_eq!(of(4 << 8 | 1).as_deref(), Some("tty1"));
        assert_eq!(of(4 << 8 | 65).as_deref(), Some("ttyS1"));
        assert_eq!(of(0), None, "it has none");
    }

    #[test]
    fn a_pair_by_which_a_process_wakes_itself_is_not_what_it_waits_for() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let near = std::net::TcpStream::connect(address).expect("a connection");
        let another = std::net::TcpStream::connect(address).expect("a connection");
        let meant = |all: &[i32]| {
            let all: Vec<(u32, bool)> = all.iter().map(|fd| (*fd as u32, false)).collect();
            only(&Roots::default(), &Sockets::default(), std::process::id(), &all)
                .map(|(fd, _)| fd as i32)
        };
        let [pair, tcp] = [one.as_raw_fd(), near.as_raw_fd()];
        assert_eq!(meant(&[pair, tcp]), Some(tcp));
        assert_eq!(meant(&[tcp, another.as_raw_fd()]), None, "it may be either");
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(meant(&[pipe.as_raw_fd(), listener.as_raw_fd()]), None);
    }
}
