//! A conversation with one manager of units: its jobs, the state of the units that they are for, and their processes.
//!
//! Over the private socket that it has for its own commands, so that no bus has to work for the answer. Two rounds: the list, then one call for each
//! thing that is wanted of each job, all at once; calls for single properties, because a manager computes hundreds of figures for all of
//! them. Whoever answers may say anything: sizes and numbers are bounded, there is one time by which all must be there, and a process
//! is reported only if it lives and belongs to whoever said so. Must not: be called by the thread that looks (mod.rs has one for it), or call
//! a method that changes something.

use super::dbus::{self, Arguments, Bytes, To, Value};
use crate::system::clock::{Clock, process};
use crate::system::links::link;
use crate::system::stat::Stat;
use crate::system::status::Status;
use crate::system::{Roots, text};
use holdup_reason::facts::{Ns, ThreadRef, UnitJob, UnitJobs};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// All answers are there by then, or none counts.
const DEADLINE: Duration = Duration::from_millis(150);
/// Bytes that are read of one manager.
const BYTES_MAX: usize = 4 << 20;
/// Jobs that are looked into.
const JOBS_MAX: usize = 48;
/// Ancestors between a process of a unit and its manager.
const GENERATIONS: usize = 8;
/// A manager writes this for what has no end.
const FOR_EVER_US: u64 = u64::MAX;

const MANAGER: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";

/// What is asked of a job, and where the answer goes.
#[derive(Clone, Copy)]
enum Wanted {
    Before,
    Names,
    Text(usize),
    Number(usize),
}

/// Texts and numbers of a job: state, detailed state, type; since when, processes, times (start, stop, job).
const TEXTS: usize = 3;
const NUMBERS: usize = 6;

/// Of each unit.
const OF_ALL: &[(&str, Wanted)] = &[("Names", Wanted::Names)];
/// Of a unit whose job is being done.
const OF_RUNNING: &[(&str, Wanted)] = &[
    ("ActiveState", Wanted::Text(0)),
    ("SubState", Wanted::Text(1)),
    ("StateChangeTimestampMonotonic", Wanted::Number(0)),
    ("JobRunningTimeoutUSec", Wanted::Number(5)),
];
/// Of a service besides.
const OF_SERVICE: &[(&str, Wanted)] = &[
    ("Type", Wanted::Text(2)),
    ("MainPID", Wanted::Number(1)),
    ("ControlPID", Wanted::Number(2)),
    ("TimeoutStartUSec", Wanted::Number(3)),
    ("TimeoutStopUSec", Wanted::Number(4)),
];
/// Of a mount and the like: one time for both.
const OF_COMMAND: &[(&str, Wanted)] = &[
    ("ControlPID", Wanted::Number(2)),
    ("TimeoutUSec", Wanted::Number(3)),
    ("TimeoutUSec", Wanted::Number(4)),
];

/// The interface of a kind of unit, with what is asked of it.
fn of_kind(unit: &str) -> Option<(&'static str, &'static [(&'static str, Wanted)])> {
    match unit.rsplit('.').next()? {
        "service" => Some(("org.freedesktop.systemd1.Service", OF_SERVICE)),
        "mount" => Some(("org.freedesktop.systemd1.Mount", OF_COMMAND)),
        "socket" => Some(("org.freedesktop.systemd1.Socket", OF_COMMAND)),
        "swap" => Some(("org.freedesktop.systemd1.Swap", OF_COMMAND)),
        _ => None,
    }
}

/// The jobs of a manager, which is at the other end.
pub(super) fn jobs(roots: &Roots, stream: UnixStream, manager_pid: u32) -> io::Result<UnitJobs> {
    let mut line = Line::open(stream)?;
    let mut listed = Vec::new();
    let list = [to(OBJECT, "org.freedesktop.systemd1.Manager", "ListJobs", Arguments::Nothing)];
    line.ask(&list, &mut |_, body| listed = dbus::jobs(body).unwrap_or_default())?;
    // Those that are being done are looked into first.
    let (mut jobs, mut paths) = (Vec::new(), Vec::new());
    for wanted in [true, false] {
        for it in &listed {
            let is_running = it.state == "running";
            if is_running == wanted && jobs.len() < JOBS_MAX {
                let (names, kind) = (vec![it.unit.clone()], it.kind.clone());
                jobs.push(UnitJob { id: it.id, names, kind, is_running, ..UnitJob::default() });
                paths.push(&*it.path);
            }
        }
    }
    let (mut calls, mut wanted) = (Vec::new(), Vec::new());
    for (at, job) in jobs.iter().enumerate() {
        let mut add = |interface, properties: &[(&'static str, Wanted)]| {
            for &(name, what) in properties {
                let arguments = Arguments::Texts(interface, name);
                calls.push(to(paths[at], "org.freedesktop.DBus.Properties", "Get", arguments));
                wanted.push((at, what));
            }
        };
        add("org.freedesktop.systemd1.Unit", OF_ALL);
        if job.is_running {
            add("org.freedesktop.systemd1.Unit", OF_RUNNING);
            if let Some((interface, properties)) = of_kind(job.unit()) {
                add(interface, properties);
            }
        } else {
            let arguments = Arguments::Number(job.id);
            let manager = "org.freedesktop.systemd1.Manager";
            // Those that have to be done before it; GetJobAfter gives those that wait for it.
            calls.push(to(OBJECT, manager, "GetJobBefore", arguments));
            wanted.push((at, Wanted::Before));
        }
    }
    let mut heard: Vec<Heard> = jobs.iter().map(|_| Heard::default()).collect();
    line.ask(&calls, &mut |at, body| {
        if let Some((job, what)) = wanted.get(at) {
            heard[*job].take(*what, body);
        }
    })?;
    let family = Family::of(roots, manager_pid);
    for (job, heard) in jobs.iter_mut().zip(heard) {
        heard.fill_in(job, &family);
    }
    Ok(UnitJobs { manager_pid, jobs })
}

/// What was heard of a job: texts and numbers by what was asked.
#[derive(Default)]
struct Heard {
    names: Vec<String>,
    before: Vec<u32>,
    texts: [String; TEXTS],
    numbers: [Option<u64>; NUMBERS],
}

impl Heard {
    fn take(&mut self, what: Wanted, body: &mut Bytes<'_>) {
        if let Wanted::Before = what {
            let all = dbus::jobs(body).unwrap_or_default();
            self.before = all.iter().take(JOBS_MAX).map(|it| it.id).collect();
            return;
        }
        match (what, dbus::value(body)) {
            (Wanted::Names, Some(Value::Texts(names))) => self.names = names,
            (Wanted::Text(at), Some(Value::Text(text))) => self.texts[at] = text,
            (Wanted::Number(at), Some(Value::Number(number))) => self.numbers[at] = Some(number),
            _ => {}
        }
    }

    fn fill_in(self, job: &mut UnitJob, family: &Family<'_>) {
        let [state, sub_state, service_type] = self.texts;
        let [since_us, main, control, start_us, stop_us, job_us] = self.numbers;
        for name in self.names {
            if job.names.len() < JOBS_MAX && !job.names.contains(&name) {
                job.names.push(name);
            }
        }
        // The setting that is for what it does now, or for the whole job.
        let stops = ["stop", "final", "unmounting", "deactivating"];
        let of_state = match stops.iter().any(|it| sub_state.starts_with(it)) {
            true => stop_us,
            false => start_us,
        };
        job.timeout_ns = of_state.or(job_us).map(time_ns);
        // In any other state it has been since before its job.
        let is_changing =
            matches!(&*state, "activating" | "deactivating" | "reloading" | "refreshing");
        job.since_ns = since_us.filter(|us| *us != 0 && is_changing).map(time_ns);
        // While there is a command of its own, that is what is waited for.
        let number = control.filter(|number| *number != 0).or(main);
        job.processes.extend(number.and_then(|number| family.process(number)));
        if job.is_running {
            job.state = format!("{state}/{sub_state}");
        }
        (job.after, job.service_type) = (self.before, service_type);
    }
}

fn time_ns(us: u64) -> Ns {
    if us == FOR_EVER_US { Ns::MAX } else { us.saturating_mul(1000) }
}

fn to<'t>(
    path: &'t str,
    interface: &'t str,
    member: &'t str,
    arguments: Arguments<'t>,
) -> (To<'t>, Arguments<'t>) {
    (To { destination: MANAGER, path, interface, member }, arguments)
}

/// The processes of a manager.
struct Family<'r> {
    roots: &'r Roots,
    manager: u32,
    clock: Clock,
    /// It numbers processes in a PID namespace of its own.
    is_inner: bool,
}

impl<'r> Family<'r> {
    fn of(roots: &'r Roots, manager: u32) -> Self {
        let namespace = |name: &str| link(&roots.proc.join(name).join("ns/pid"));
        let is_inner = namespace(&manager.to_string()) != namespace("self");
        Self { roots, manager, clock: Clock::now(), is_inner }
    }

    /// The process that the manager numbers so, if it lives and is one of its own.
    fn process(&self, number: u64) -> Option<ThreadRef> {
        let number = u32::try_from(number).ok().filter(|number| *number != 0)?;
        let pid = match self.is_inner {
            true => self.children().into_iter().find(|pid| self.is_numbered(*pid, number))?,
            false => number,
        };
        let known = process(self.roots, pid, &self.clock)?;
        self.is_own(pid).then_some(known)
    }

    fn children(&self) -> Vec<u32> {
        let task = self.roots.process(self.manager, "task").join(self.manager.to_string());
        let bytes = text::read(&task.join("children")).unwrap_or_default();
        let numbers = text::words(&bytes).filter_map(text::number);
        numbers.filter_map(|pid| u32::try_from(pid).ok()).collect()
    }

    fn is_numbered(&self, pid: u32, number: u32) -> bool {
        let status = text::read(&self.roots.process(pid, "status"));
        status.is_ok_and(|status| Status::parse(&status).inner_pid == Some(number))
    }

    fn is_own(&self, pid: u32) -> bool {
        let parent = |pid: &u32| Some(Stat::read(&self.roots.process(*pid, "stat"))?.parent_pid);
        let mut line = std::iter::successors(Some(pid), parent).skip(1).take(GENERATIONS);
        line.any(|above| above == self.manager)
    }
}

/// Who listens at the other end, as the kernel says; none of one in a PID namespace that is not seen from here.
pub(super) fn peer_pid(stream: &UnixStream) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `bytes`, which is the size of the struct that is passed.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    u32::try_from(peer.pid).ok().filter(|pid| done == 0 && *pid != 0)
}

/// A connection over which calls are made.
struct Line {
    stream: UnixStream,
    until: Instant,
    serial: u32,
    /// What has come and was not taken yet.
    unread: Vec<u8>,
    read: usize,
}

impl Line {
    /// Says who asks (SASL EXTERNAL: the kernel has said it already).
    fn open(stream: UnixStream) -> io::Result<Self> {
        const ACCEPTED: &[u8] = b"OK ";
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        let until = Instant::now() + DEADLINE;
        let mut line = Self { stream, until, serial: 0, unread: Vec::new(), read: 0 };
        let own = rustix::process::geteuid().as_raw().to_string();
        let own: String = own.bytes().map(|digit| format!("{digit:02x}")).collect();
        // At once, and calls only once it is accepted: what comes together with BEGIN is not looked at before more comes.
        line.stream.write_all(format!("\0AUTH EXTERNAL {own}\r\nBEGIN\r\n").as_bytes())?;
        let end = loop {
            match line.unread.windows(2).position(|pair| pair == b"\r\n") {
                Some(end) => break end,
                None => line.receive()?,
            }
        };
        if !line.unread.starts_with(ACCEPTED) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        line.unread.drain(..end + 2);
        Ok(line)
    }

    fn receive(&mut self) -> io::Result<()> {
        if Instant::now() >= self.until {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut buffer = [0; 16_384];
        let count = self.stream.read(&mut buffer)?;
        self.read += count;
        if count == 0 || self.read > BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        self.unread.extend_from_slice(&buffer[..count]);
        Ok(())
    }

    /// Makes all calls at once, and gives `take` what came back, by the place of the call among them.
    fn ask(
        &mut self,
        calls: &[(To<'_>, Arguments<'_>)],
        take: &mut dyn FnMut(usize, &mut Bytes<'_>),
    ) -> io::Result<()> {
        let first = self.serial + 1;
        let mut bytes = Vec::new();
        for (to, arguments) in calls {
            self.serial += 1;
            bytes.append(&mut dbus::call(self.serial, *to, *arguments));
        }
        self.stream.write_all(&bytes)?;
        let mut left = calls.len();
        while left > 0 {
            let length = dbus::length(&self.unread);
            if length.is_some_and(|length| length > dbus::MESSAGE_MAX) {
                return Err(ErrorKind::InvalidData.into());
            }
            let Some(length) = length.filter(|length| *length <= self.unread.len()) else {
                self.receive()?;
                continue;
            };
            let message: Vec<u8> = self.unread.drain(..length).collect();
            let Some(mut answer) = dbus::answer(&message) else { continue };
            let at = answer.to.checked_sub(first).map(|at| at as usize);
            if let Some(at) = at.filter(|at| *at < calls.len()) {
                left -= 1;
                if !answer.is_error {
                    take(at, &mut answer.body);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is heard of a manager that writes these bytes, whatever is asked.
    fn hears(answers: &'static [u8]) -> io::Result<UnitJobs> {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let manager = std::thread::spawn(move || {
            far.write_all(answers).expect("written");
            let mut asked = [0; 64];
            let count = far.read(&mut asked).expect("a question");
            // The line stands until the client hangs up.
            let _ = far.read_to_end(&mut Vec::new());
            asked[..count].to_vec()
        });
        let peer = peer_pid(&near).expect("a peer");
        let heard = jobs(&Roots::default(), near, peer);
        let asked = manager.join().expect("ended");
        assert!(asked.starts_with(b"\0AUTH EXTERNAL 3"), "{asked:?}");
        heard
    }

    /// An answer to call 1: no jobs.
    const NO_JOBS: &[u8] = b"OK 0123\r\nl\x02\x01\x01\x08\0\0\0\x01\0\0\0\x08\0\0\0\x05\x01u\0\x01\0\0\0\0\0\0\0\0\0\0\0";

    #[test]
    fn a_manager_without_jobs_is_heard_with_its_process() {
        let all = hears(NO_JOBS).expect("heard");
        assert_eq!((all.manager_pid, all.jobs.len()), (std::process::id(), 0));
    }

    #[test]
    fn one_that_says_nothing_or_no_or_nonsense_is_given_up() {
        let kind = |answers| hears(answers).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(kind(b"REJECTED EXTERNAL\r\n"), Err(ErrorKind::PermissionDenied));
        assert_eq!(
            kind(b"OK 1\r\nl\x02\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            Err(ErrorKind::InvalidData)
        );
        assert!(kind(b"OK 1\r\n").is_err(), "nothing more comes");
    }

    #[test]
    fn a_process_that_is_not_the_managers_own_is_not_reported() {
        let roots = Roots::default();
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let of = |manager: u32, pid: u32| {
            let family = Family { is_inner: false, ..Family::of(&roots, manager) };
            family.process(u64::from(pid)).map(|it| it.pid)
        };
        assert_eq!(of(own, child.id()), Some(child.id()));
        assert_eq!(of(child.id(), own), None, "its parent");
        assert_eq!(of(own, 0), None);
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert_eq!(of(own, child.id()), None, "it has ended");
    }
}
