//! Who has an object open: all descriptors of all processes that may be read.
//!
//! For an ordinary user these are his own. Asked once for each new object that is waited for, so a look makes few such
//! searches. Of a connection the far end and the listener are looked for too. Must not: resolve a path.

use super::place::numbered;
use super::sockets::{Known, Sockets};
use crate::system::clock::Clock;
use crate::system::stat::Stat;
use crate::system::{Roots, text};
use holdup_reason::facts::{Endpoint, InetRef, ObjectRef, ThreadRef};
use std::collections::{BTreeSet, HashMap};

const TCP_LISTEN: u8 = 10;

/// A descriptor on one of the objects.
pub(super) struct Found {
    pub(super) endpoint: Endpoint,
    /// It is the other end of what was asked for.
    pub(super) is_far: bool,
}

/// The descriptors on objects, by inode, and on the other ends of those that are connections.
pub(super) fn ends(
    roots: &Roots,
    sockets: &Sockets,
    clock: &Clock,
    wanted: &BTreeSet<u64>,
) -> Vec<Found> {
    let sockets = sockets.fresh();
    let far = far_ends(&sockets, wanted);
    let mut found = Vec::new();
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        let folder = roots.process(pid, "fd");
        let Ok(fds) = text::ids(&folder) else { continue };
        let mut process: Option<ThreadRef> = None;
        for fd in fds {
            let Ok(link) = std::fs::read_link(folder.join(fd.to_string())) else { continue };
            let name = link.to_string_lossy();
            let pipe = numbered(&name, "pipe:[");
            let Some(ino) = pipe.or_else(|| numbered(&name, "socket:[")) else { continue };
            let is_far = far.contains(&ino);
            if !is_far && !wanted.contains(&ino) {
                continue;
            }
            let object = match pipe {
                Some(ino) => ObjectRef::Pipe { ino },
                None => match sockets.get(&ino) {
                    Some(known) => known.object.clone(),
                    None => continue,
                },
            };
            let process =
                process.get_or_insert_with(|| main_thread(roots, clock, pid).unwrap_or_default());
            let access = access(roots, pid, fd);
            found.push(Found {
                endpoint: Endpoint {
                    process: process.clone(),
                    fd,
                    readable: access.readable,
                    writable: access.writable,
                    nonblocking: access.nonblocking,
                    object,
                    unread: None,
                    output_stopped: false,
                    socket: sockets.get(&ino).and_then(|known| known.state.clone()),
                },
                is_far: is_far || pipe.is_some(),
            });
        }
    }
    found
}

/// Inodes of the other ends and of the listeners of connections.
fn far_ends(sockets: &HashMap<u64, Known>, wanted: &BTreeSet<u64>) -> BTreeSet<u64> {
    let mut far = BTreeSet::new();
    for known in wanted.iter().filter_map(|ino| sockets.get(ino)) {
        match &known.object {
            ObjectRef::Unix { peer_ino, .. } => {
                far.insert(*peer_ino);
            }
            ObjectRef::Inet(near) => {
                let is_other = |socket: &InetRef| {
                    socket.protocol == near.protocol
                        && (socket.local == near.remote && socket.remote == near.local
                            || socket.state == TCP_LISTEN
                                && socket.local.port() == near.remote.port())
                };
                let others = sockets.iter().filter(|(_, known)| {
                    matches!(&known.object, ObjectRef::Inet(socket) if is_other(socket))
                });
                far.extend(others.map(|(ino, _)| *ino));
            }
            _ => {}
        }
    }
    far.remove(&0);
    far
}

fn main_thread(roots: &Roots, clock: &Clock, pid: u32) -> Option<ThreadRef> {
    let stat = Stat::read(&roots.process(pid, "stat"))?;
    Some(clock.thread_ref(&stat, pid))
}

/// How a descriptor was opened.
struct Access {
    readable: bool,
    writable: bool,
    nonblocking: bool,
}

/// From `flags:` of /proc/PID/fdinfo/FD, which is octal.
fn access(roots: &Roots, pid: u32, fd: u32) -> Access {
    let path = roots.process(pid, "fdinfo").join(fd.to_string());
    let bytes = text::read(&path).unwrap_or_default();
    let flags = text::lines(&bytes).find_map(|line| line.strip_prefix(b"flags:"));
    let flags = flags.map(|word| text::lossy(word.trim_ascii()));
    let flags = flags.and_then(|word| i32::from_str_radix(&word, 8).ok()).unwrap_or(libc::O_RDWR);
    let mode = flags & libc::O_ACCMODE;
    Access {
        readable: mode != libc::O_WRONLY,
        writable: mode != libc::O_RDONLY,
        nonblocking: flags & libc::O_NONBLOCK != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::clock::now;

    #[test]
    fn both_ends_of_a_pipe_of_ones_own_are_found_with_their_directions() {
        use std::os::fd::AsRawFd;
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let link = std::fs::read_link(path).expect("a link");
        let ino = numbered(&link.to_string_lossy(), "pipe:[").expect("its inode");
        let found =
            ends(&Roots::default(), &Sockets::default(), &Clock::now(), &BTreeSet::from([ino]));
        let own: Vec<(u32, bool, bool)> = found
            .iter()
            .map(|one| &one.endpoint)
            .filter(|end| end.process.pid == std::process::id())
            .map(|end| (end.fd, end.readable, end.writable))
            .collect();
        assert!(own.contains(&(reader.as_raw_fd() as u32, true, false)), "{own:?}");
        assert!(own.contains(&(writer.as_raw_fd() as u32, false, true)), "{own:?}");
        let now = now();
        assert!(found.iter().all(|one| one.endpoint.process.start_ns <= now));
    }
}
