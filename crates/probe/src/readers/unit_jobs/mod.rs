//! The jobs of those managers of units whose commands somebody waits for, and programs that the manager of devices has run, as a source.
//!
//! A command that asks a manager shows the way to it: over its own view of the files leads the manager's private socket, of the host or of a
//! container, of the system or of a user. It is read as soon as such a command was seen to wait, then less and less often while it lives, and as the
//! look ends; so is a manager that was asked about itself. A thread that is begun for each reading asks (manager.rs), since the manager may be what hangs:
//! one that does not come back is left behind, and nobody is asked any more. Must not: ask a manager that nobody waits for; follow a link
//! there, or connect to another user's socket, for whoever waits has chosen the way; start, stop or change anything.
//!
//! Rejected: the bus (it is asked by everybody, and may be what hangs), `systemctl list-jobs` (a program that is begun on a host that has no room).
//! Edit together: waits/unit_job.rs in reason, which goes by how often it is read.

#[doc(hidden)]
pub mod dbus;
mod devices;
mod manager;

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::links::link;
use crate::system::own::priority;
use crate::system::stat::Stat;
use crate::system::status::Status;
use crate::system::{Roots, blind, is_refusal, text};
use holdup_reason::facts::{Body, Fact, Ns};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Commands that wait for jobs, and a manager itself.
const CLIENTS: [&str; 2] = ["systemctl", "systemd-run"];
const MANAGER: &str = "systemd";
/// It waits for events of devices.
const SETTLES: &str = "udevadm";
/// What follows where a manager is not heard.
const UNKNOWN: &str = "for which job of a unit a command waits is not known";
/// Commands that are followed.
const CLIENTS_MAX: usize = 16;
/// Between two readings at least, and at most (reason goes by the latter).
const PERIOD_MIN_NS: Ns = 100_000_000;
const PERIOD_MAX_NS: Ns = 2_000_000_000;
/// How long the end of a look waits for a reading: what a manager is given to answer, and a little.
const LAST_WITHIN: Duration = Duration::from_millis(200);

/// See the head of the file.
#[derive(Default)]
pub(super) struct UnitJobs {
    /// Who shows the way to a manager.
    clients: BTreeSet<u32>,
    /// Somebody waits for events of devices.
    settles: bool,
    under_way: Option<Receiver<Vec<Body>>>,
    /// A reading did not come back.
    hangs: bool,
    /// Jobs were reported: that there are none any more is, too.
    had_jobs: bool,
    refused: bool,
    first_ns: Ns,
    next_ns: Ns,
}

impl Reader for UnitJobs {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::default())
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.see(look.pid, facts);
        self.take(look, facts, Duration::ZERO);
        if now() >= self.next_ns {
            self.begin(&look.roots);
        }
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        waits: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.see(look.pid, waits);
        self.take(look, facts, LAST_WITHIN);
        self.begin(&look.roots);
        self.take(look, facts, LAST_WITHIN);
        Ok(())
    }
}

impl UnitJobs {
    /// Remembers who shows the way to a manager.
    fn see(&mut self, asked_about: Option<u32>, facts: &[Fact]) {
        for fact in facts {
            let thread = match &fact.body {
                Body::Wait(wait) => &wait.thread,
                Body::Blocked(blocked) => &blocked.thread,
                _ => continue,
            };
            let comm = thread.comm.as_str();
            let is_manager = comm == MANAGER && Some(thread.pid) == asked_about;
            if (is_manager || CLIENTS.contains(&comm)) && self.clients.len() < CLIENTS_MAX {
                self.clients.insert(thread.pid);
            }
            self.settles |= comm == SETTLES;
        }
    }

    /// Begins a reading, if there is anybody to ask and none is under way.
    fn begin(&mut self, roots: &Roots) {
        let nobody = self.clients.is_empty() && !self.settles;
        if nobody || self.hangs || self.under_way.is_some() {
            return;
        }
        let at_ns = now();
        if self.first_ns == 0 {
            self.first_ns = at_ns;
        }
        let period_ns = (at_ns - self.first_ns) / 2;
        self.next_ns = at_ns + period_ns.clamp(PERIOD_MIN_NS, PERIOD_MAX_NS);
        let (send, receive) = channel();
        let (roots, clients, settles) = (roots.clone(), self.clients.clone(), self.settles);
        // Who began it may be gone by then.
        let read = move || drop(send.send(read(&roots, clients, settles)));
        self.under_way = priority::spawn("holdup-jobs", read).is_ok().then_some(receive);
    }

    /// Takes over what the reading under way has brought, if it comes in time.
    fn take(&mut self, look: &mut Look, facts: &mut Vec<Fact>, within: Duration) {
        let Some(receive) = &self.under_way else { return };
        let heard = match within.is_zero() {
            true => match receive.try_recv() {
                Err(TryRecvError::Empty) => return,
                done => done.ok(),
            },
            false => receive.recv_timeout(within).ok(),
        };
        self.under_way = None;
        let Some(heard) = heard else {
            self.hangs = true;
            let late = blind("unit_jobs", &ErrorKind::TimedOut.into(), UNKNOWN);
            facts.push(Fact { at_ns: now(), body: Body::Blind(late) });
            return;
        };
        let is_there = |pid: &u32| Stat::read(&look.roots.process(*pid, "stat")).is_some();
        self.clients.retain(is_there);
        let at_ns = now();
        for body in heard {
            match &body {
                Body::UnitJobs(all) => {
                    if all.jobs.is_empty() && !self.had_jobs {
                        continue;
                    }
                    self.had_jobs = true;
                    for process in all.jobs.iter().flat_map(|job| &job.processes) {
                        look.identities.want(process.pid);
                    }
                    look.identities.want(all.manager_pid);
                    self.clients.iter().for_each(|pid| look.identities.want(*pid));
                }
                _ if std::mem::replace(&mut self.refused, true) => continue,
                _ => {}
            }
            facts.push(Fact { at_ns, body });
        }
    }
}

/// Asks each manager that these lead to once.
fn read(roots: &Roots, clients: BTreeSet<u32>, settles: bool) -> Vec<Body> {
    let mut found = Vec::new();
    let mut asked: Vec<String> = Vec::new();
    for door in clients.into_iter().filter_map(|client| Door::of(roots, client)) {
        if asked.contains(&door.key) {
            continue;
        }
        match door.ask(roots) {
            Ok(all) => found.push(Body::UnitJobs(all)),
            Err(error) if is_refusal(&error) => {
                found.push(Body::Blind(blind("unit_jobs", &error, UNKNOWN)));
            }
            Err(_) => {}
        }
        asked.push(door.key);
    }
    if settles {
        devices::events(roots, devices::workers(roots), &mut found);
    }
    found
}

/// Where a manager is asked.
struct Door {
    /// The root of the process that shows the way.
    root: PathBuf,
    /// The socket, below that.
    below: PathBuf,
    /// Whose it is to be: the user's whose manager it is.
    uid: u32,
    /// The same for all that see the same files and are of the same user, if it is the manager of one.
    key: String,
}

impl Door {
    /// The manager that a command asks; of a manager its own. None if the process is gone.
    fn of(roots: &Roots, pid: u32) -> Option<Self> {
        let stat = Stat::read(&roots.process(pid, "stat")).filter(|it| it.state != 'Z')?;
        let status = Status::parse(&text::read(&roots.process(pid, "status")).ok()?);
        let of_user = match stat.comm == MANAGER {
            true => status.inner_pid.unwrap_or(pid) != 1,
            false => {
                let line = text::read(&roots.process(pid, "cmdline")).unwrap_or_default();
                line.split(|byte| *byte == 0).any(|word| word == b"--user")
            }
        };
        let (folder, uid) = match of_user {
            true => {
                let usual = || Some(format!("/run/user/{}", status.uid?));
                (runtime_folder(roots, pid).or_else(usual)?, status.uid?)
            }
            false => ("/run".to_string(), 0),
        };
        let files = link(&roots.process(pid, "ns/mnt")).unwrap_or_default();
        Some(Self {
            root: roots.process(pid, "root"),
            below: PathBuf::from(folder.trim_start_matches('/')).join("systemd/private"),
            uid,
            key: format!("{files} {folder}"),
        })
    }

    /// Whoever waits has chosen the way there, so no link is followed, and nothing is connected to but a socket of that user's own. One that takes
    /// nobody at the moment is not waited for.
    fn connect(&self) -> std::io::Result<UnixStream> {
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let root = open(&self.root, path | OFlags::DIRECTORY, Mode::empty())?;
        let within =
            ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let socket = openat2(&root, &self.below, path, Mode::empty(), within)?;
        let stat = fstat(&socket)?;
        let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
        if !is_socket || stat.st_uid != self.uid {
            return Err(ErrorKind::NotFound.into());
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let there = format!("/proc/self/fd/{}", socket.as_raw_fd());
        connect(&stream, &SocketAddrUnix::new(there)?)?;
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// The jobs of whoever listens there, if that is a manager: anybody may have put the socket there.
    fn ask(&self, roots: &Roots) -> std::io::Result<holdup_reason::facts::UnitJobs> {
        let stream = self.connect()?;
        let is_manager = |pid: &u32| {
            Stat::read(&roots.process(*pid, "stat")).is_some_and(|stat| stat.comm == MANAGER)
        };
        let manager = manager::peer_pid(&stream).filter(is_manager).ok_or(ErrorKind::NotFound)?;
        manager::jobs(roots, stream, manager)
    }
}

/// Where a process has its user's sockets, by its environment, as the command itself goes by it.
fn runtime_folder(roots: &Roots, pid: u32) -> Option<String> {
    let environment = text::read(&roots.process(pid, "environ")).ok()?;
    let mut lines = environment.split(|byte| *byte == 0);
    lines.find_map(|line| line.strip_prefix(b"XDG_RUNTIME_DIR=")).map(text::lossy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Blocked, ThreadRef, Wait};

    fn waits(comm: &str, pid: u32) -> Fact {
        let thread = ThreadRef { tid: pid, pid, comm: comm.into(), ..ThreadRef::default() };
        Fact { at_ns: 1, body: Body::Wait(Wait { thread, ..Wait::default() }) }
    }

    #[test]
    fn a_command_shows_the_way_and_a_manager_only_where_it_was_asked_about() {
        let seen = |asked_about, facts: &[Fact]| {
            let mut reader = UnitJobs::default();
            reader.see(asked_about, facts);
            (reader.clients.into_iter().collect::<Vec<u32>>(), reader.settles)
        };
        let all = [waits("systemctl", 7), waits("systemd", 1), waits("udevadm", 9)];
        assert_eq!(seen(None, &all), (vec![7], true));
        assert_eq!(seen(Some(1), &all[..2]), (vec![1, 7], false));
        let thread = ThreadRef { tid: 8, pid: 8, comm: "systemctl".into(), start_ns: 0 };
        let blocked = Body::Blocked(Blocked { thread, ..Blocked::default() });
        assert_eq!(seen(None, &[Fact { at_ns: 1, body: blocked }]), (vec![8], false));
    }

    #[test]
    fn nobody_is_asked_where_nobody_waits() {
        let mut reader = UnitJobs::default();
        reader.begin(&Roots::default());
        assert!(reader.under_way.is_none());
    }

    #[test]
    fn no_link_and_no_socket_of_another_user_is_followed() {
        let folder = std::env::temp_dir().join(format!("holdup-door-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("private");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        std::os::unix::fs::symlink("private", folder.join("link")).expect("a link");
        let uid = rustix::process::geteuid().as_raw();
        let connects = |below: &str, uid: u32| {
            let root = folder.clone();
            Door { root, below: below.into(), uid, key: String::new() }.connect().is_ok()
        };
        let found = ["private", "link", "."].map(|below| connects(below, uid));
        let of_another = connects("private", uid + 1);
        std::fs::remove_dir_all(&folder).expect("it goes");
        assert_eq!((found, of_another), ([true, false, false], false));
    }

    #[test]
    fn a_process_leads_to_the_manager_of_its_own_files() {
        let own = std::process::id();
        let door = Door::of(&Roots::default(), own).expect("it lives");
        let roots = Roots::default();
        let path = (&*door.root, door.below.to_string_lossy(), door.uid);
        assert_eq!(path, (&*roots.process(own, "root"), "run/systemd/private".into(), 0));
        assert!(Door::of(&Roots::default(), u32::MAX).is_none());
    }
}
