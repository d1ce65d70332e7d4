//! Who has an object open: all descriptors of all processes that may be read.
//!
//! For an ordinary user these are his own. Asked once for each new object that is waited for, so a look makes few such
//! searches. Of a connection the far end and the listener are looked for too, of a terminal whoever shows it. Must not: resolve a path.

use super::place::{is_master, numbered, shown, window_shown};
use super::sockets::{Known, Sockets};
use crate::readers::endpoints::inodes;
use crate::system::clock::Clock;
use crate::system::stat::Stat;
use crate::system::{Roots, text};
use holdup_reason::facts::{Endpoint, InetRef, ObjectRef, Place, ThreadRef};
use std::collections::{BTreeSet, HashMap};

const TCP_LISTEN: u8 = 10;

/// A descriptor on one of the objects.
pub(super) struct Found {
    pub(super) endpoint: Endpoint,
    /// It is the other end of what was asked for.
    pub(super) is_far: bool,
}

/// Whose descriptors are looked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Pipes and sockets, by inode.
    pub(super) inodes: BTreeSet<u64>,
    /// Terminals, by the number of the pair.
    pub(super) windows: BTreeSet<u32>,
}

impl Wanted {
    /// What a wait is on, and its other end; of a terminal only where somebody writes to it: what is read there a person types.
    pub(super) fn add(&mut self, place: &Place) {
        match &place.object {
            Some(ObjectRef::Tty { name, .. }) => {
                let is_written = place.syscall.starts_with("write") || place.polled_for_room;
                let index = name.strip_prefix("pts/").filter(|_| is_written);
                self.windows.extend(index.and_then(|index| index.parse::<u32>().ok()));
            }
            object => self.inodes.extend(object.iter().flat_map(inodes)),
        }
    }

    /// Without what was looked for before.
    pub(super) fn leave_out(&mut self, sought: &Self) {
        self.inodes.retain(|ino| *ino != 0 && !sought.inodes.contains(ino));
        self.windows.retain(|index| !sought.windows.contains(index));
    }

    /// And all of another.
    pub(super) fn extend(&mut self, other: &Self) {
        self.inodes.extend(&other.inodes);
        self.windows.extend(&other.windows);
    }

    /// Nothing is looked for.
    pub(super) fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.windows.is_empty()
    }
}

/// The descriptors on objects, and on the other ends of those that are connections or terminals.
pub(super) fn ends(roots: &Roots, sockets: &Sockets, clock: &Clock, wanted: &Wanted) -> Vec<Found> {
    let sockets = sockets.fresh();
    let far = far_ends(&sockets, &wanted.inodes);
    let mut found = Vec::new();
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        let folder = roots.process(pid, "fd");
        let Ok(fds) = text::ids(&folder) else { continue };
        let mut process: Option<ThreadRef> = None;
        for fd in fds {
            let Ok(link) = std::fs::read_link(folder.join(fd.to_string())) else { continue };
            let name = link.to_string_lossy();
            let (object, socket, is_far) = match numbered(&name, "socket:[") {
                Some(ino) if far.contains(&ino) || wanted.inodes.contains(&ino) => {
                    let Some(known) = sockets.get(&ino) else { continue };
                    (known.object.clone(), known.state.clone(), far.contains(&ino))
                }
                Some(_) => continue,
                None => match other(roots, (pid, fd), &name, wanted) {
                    Some(object) => (object, None, true),
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
                    socket,
                },
                is_far,
            });
        }
    }
    found
}

/// A pipe that is wanted, or the side from which a terminal that is wanted is shown.
fn other(roots: &Roots, (pid, fd): (u32, u32), path: &str, wanted: &Wanted) -> Option<ObjectRef> {
    if let Some(ino) = numbered(path, "pipe:[") {
        return wanted.inodes.contains(&ino).then_some(ObjectRef::Pipe { ino });
    }
    if wanted.windows.is_empty() || !is_master(path) {
        return None;
    }
    let index = window_shown(roots, pid, fd)?;
    wanted.windows.contains(&index).then(|| shown(index))
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
        let wanted = Wanted { inodes: BTreeSet::from([ino]), ..Wanted::default() };
        let found = ends(&Roots::default(), &Sockets::default(), &Clock::now(), &wanted);
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

    #[test]
    fn who_shows_a_terminal_is_looked_for_where_it_is_written_to() {
        let windows = |syscall: &str, name: &str| {
            let object = Some(ObjectRef::Tty { name: name.into(), dev: Default::default() });
            let mut wanted = Wanted::default();
            wanted.add(&Place { syscall: syscall.into(), object, ..Place::default() });
            wanted.windows.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(windows("write", "pts/3"), [3]);
        assert!(windows("read", "pts/3").is_empty(), "a person is to type");
        assert!(windows("write", "ptm/3").is_empty() && windows("write", "tty1").is_empty());
    }

    #[test]
    fn who_shows_a_terminal_is_found_by_its_number() {
        use std::os::fd::AsRawFd;
        let (roots, pid) = (Roots::default(), std::process::id());
        let masters = [(); 2].map(|()| std::fs::File::open("/dev/ptmx").expect("a master"));
        let [shown, another] = masters.each_ref().map(|master| {
            let fd = master.as_raw_fd() as u32;
            (fd, window_shown(&roots, pid, fd).expect("a number"))
        });
        let wanted = Wanted { windows: BTreeSet::from([shown.1]), ..Wanted::default() };
        let found = ends(&roots, &Sockets::default(), &Clock::now(), &wanted);
        let own = found.iter().filter(|it| it.endpoint.process.pid == pid);
        let own: Vec<_> = own.map(|it| (it.endpoint.fd, &it.endpoint.object, it.is_far)).collect();
        let object = super::shown(shown.1);
        assert_eq!(own, [(shown.0, &object, true)], "and not {}", another.1);
    }
}
