//! The faults of the demonstration: what is made, who is asked about it, what the answer must say, and how to read it.
//!
//! Each stage begins its processes (parts.rs) in the room that undo.rs made, and gives the command that holdup is to run. The
//! truth stands beside what makes it, and is written before anybody looks. Must not: look, print, or judge an answer.
//!
//! Edit together: parts.rs (what the processes do), docs/demo.md.

use super::undo::{LOCK, Room};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a fault lasts; a look that takes longer to begin sees less of it.
const FAULT: Duration = Duration::from_secs(6);
/// How late the server answers, and how often it is asked.
const LATE_MS: u64 = 1500;
const QUESTIONS: u32 = 3;
/// CPU time that is wanted of a group that may use a fifth of one CPU.
const COMPUTE_MS: u64 = 800;
/// How often the clock of a stage looks whether it is to end early.
const TICK: Duration = Duration::from_millis(20);

/// A fault that can be made.
pub(super) struct Stage {
    /// What it is, two or three words.
    pub title: &'static str,
    /// How to read the answer, some sentences.
    pub reading: &'static str,
    /// Makes it.
    pub make: fn(&Room) -> Result<Fault, NotMade>,
}

/// Why a fault is not made.
pub(super) enum NotMade {
    /// It cannot be made here; a clause.
    Here(String),
    /// The system refused.
    Failed(io::Error),
}

impl From<io::Error> for NotMade {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// A fault that is there.
pub(super) struct Fault {
    /// What was done, a sentence or two.
    pub made: String,
    /// The command to run.
    pub command: Vec<OsString>,
    /// What the answer must say.
    pub truth: Truth,
    processes: Vec<Process>,
    /// Whom to let go on once the fault has lasted long enough.
    stopped: Option<u32>,
    /// The file that lists the command's process, where it is in a group of its own.
    members: Option<PathBuf>,
    /// The end of a pipe that the command inherits.
    #[expect(dead_code, reason = "held open")]
    pipe: Option<io::PipeWriter>,
}

/// What was really done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Truth {
    /// The finding.
    pub code: &'static str,
    /// The process that is to blame; none if it is a setting.
    pub culprit: Option<u32>,
    /// The same in a clause, after "what was done is that".
    pub words: String,
}

/// The stages, in their order.
pub(super) static STAGES: &[Stage] = &[
    Stage {
        title: "a lock",
        reading: "The first line says who waits for what, and who holds it. The chain leads from who waits to who would have to \
                  act for it to end: `backup` sleeps. `without` is what the command would save at most, `do` is a way out. \
                  holdup never takes it itself.",
        make: lock,
    },
    Stage {
        title: "a pipe that nobody reads",
        reading: "A pipe holds 64 KiB. Once it is full, the writer hangs, in a write like any other, and nothing is wrong with \
                  it: the one to look at is at the end of the chain.",
        make: pipe,
    },
    Stage {
        title: "a slow server behind a proxy",
        reading: "`client` waits for `proxy`, and would blame it. But `proxy` waits as well, so holdup goes on to whom it has \
                  asked, and ends where nobody is waited for: `database` sleeps over each question.",
        make: proxy,
    },
    Stage {
        title: "a CPU quota",
        reading: "`encoder` wants to compute, CPUs may be idle, and yet it stands still most of the time: its group has used \
                  up what it may use in each tenth of a second. No process is to blame, a setting is.",
        make: quota,
    },
];

/// A process of the demonstration; it ends when this does.
struct Process(Child);

impl Process {
    /// Begins it, and reads the line that it says when it is ready.
    fn begin(room: &Room, name: &str, words: &[&str]) -> io::Result<(Self, String)> {
        Self::begin_with(room, name, words, Stdio::null())
    }

    fn begin_with(
        room: &Room,
        name: &str,
        words: &[&str],
        input: Stdio,
    ) -> io::Result<(Self, String)> {
        let mut child = Command::new(room.path(name))
            .args(part(words))
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take();
        let process = Self(child);
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line)?;
        }
        match line.trim_end() {
            "" => Err(io::Error::other(format!("{name} ended before it was ready"))),
            word => Ok((process, word.to_owned())),
        }
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The arguments of a part: the hidden command, who begins it, and what it is to do.
fn part(words: &[&str]) -> Vec<OsString> {
    let own = ["demo-part".to_owned(), id().to_string()];
    own.into_iter().chain(words.iter().map(|word| (*word).to_owned())).map(Into::into).collect()
}

/// The same as a command to run.
fn command(room: &Room, name: &str, words: &[&str]) -> Vec<OsString> {
    std::iter::once(room.path(name).into_os_string()).chain(part(words)).collect()
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

fn lock(room: &Room) -> Result<Fault, NotMade> {
    let (file, length) = (text(room.path(LOCK)), FAULT.as_millis().to_string());
    let (backup, _) = Process::begin(room, "backup", &["hold", &file, &length])?;
    let pid = backup.pid();
    Ok(Fault {
        made: format!(
            "Process {pid}, called `backup`, has locked {file} and sleeps for {} s. `report` wants the same lock.",
            FAULT.as_secs()
        ),
        command: command(room, "report", &["want", &file]),
        truth: Truth {
            code: "lock.file",
            culprit: Some(pid),
            words: format!("backup {pid} holds the lock"),
        },
        processes: vec![backup],
        stopped: None,
        members: None,
        pipe: None,
    })
}

fn pipe(room: &Room) -> Result<Fault, NotMade> {
    let (out, into) = io::pipe()?;
    let (reader, _) = Process::begin_with(room, "log-shipper", &["read"], out.into())?;
    let pid = reader.pid();
    send(pid, Signal::STOP)?;
    // `app` inherits this end, and nobody else: it is begun next.
    rustix::io::fcntl_setfd(&into, rustix::io::FdFlags::empty()).map_err(io::Error::from)?;
    let number = into.as_raw_fd().to_string();
    Ok(Fault {
        made: format!(
            "As in `app | log-shipper`: process {pid}, called `log-shipper`, reads a pipe and was stopped (SIGSTOP), to go on \
             after {} s. `app` writes 1 MiB into the pipe.",
            FAULT.as_secs()
        ),
        command: command(room, "app", &["write", &number]),
        truth: Truth {
            code: "process.pipe_peer",
            culprit: Some(pid),
            words: format!("log-shipper {pid} is stopped"),
        },
        processes: vec![reader],
        stopped: Some(pid),
        members: None,
        pipe: Some(into),
    })
}

fn proxy(room: &Room) -> Result<Fault, NotMade> {
    let late = LATE_MS.to_string();
    let (database, port) = Process::begin(room, "database", &["serve", &late])?;
    let (proxy, own_port) = Process::begin(room, "proxy", &["forward", &port])?;
    let pid = database.pid();
    Ok(Fault {
        made: format!(
            "Process {pid}, called `database`, sleeps for {LATE_MS} ms before each answer. `proxy` (process {}) hands questions \
             on to it. `client` asks `proxy` {QUESTIONS} times, one question after the other.",
            proxy.pid()
        ),
        command: command(room, "client", &["ask", &own_port, &QUESTIONS.to_string()]),
        truth: Truth {
            code: "process.socket_peer",
            culprit: Some(pid),
            words: format!("database {pid} sleeps over each question"),
        },
        processes: vec![proxy, database],
        stopped: None,
        members: None,
        pipe: None,
    })
}

fn quota(room: &Room) -> Result<Fault, NotMade> {
    let group = room.group.as_ref().map_err(|why| NotMade::Here(why.clone()))?;
    let list = group.join("cgroup.procs");
    let members = text(list.clone());
    Ok(Fault {
        made: format!(
            "`encoder` wants {COMPUTE_MS} ms of CPU time, in the cgroup {}, which may use a fifth of one CPU.",
            group.display()
        ),
        command: command(room, "encoder", &["compute", &members, &COMPUTE_MS.to_string()]),
        truth: Truth {
            code: "cpu.quota",
            culprit: None,
            words: "the quota of its cgroup is used up".into(),
        },
        processes: Vec::new(),
        stopped: None,
        members: Some(list),
        pipe: None,
    })
}

fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(kill_process(pid, signal)?)
}

/// Ends a fault in time, or at once when the demonstration is interrupted.
pub(super) struct Clock {
    over: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Fault {
    /// Counts from here. Without a thread the fault would not end: then it cannot be made.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn clock(&self, interrupted: &Arc<AtomicBool>) -> io::Result<Clock> {
        let pids: Vec<u32> = self.processes.iter().map(Process::pid).collect();
        let (stopped, members) = (self.stopped, self.members.clone());
        let interrupted = Arc::clone(interrupted);
        let (over, ends) = mpsc::channel();
        let count = move || {
            let began = Instant::now();
            let mut goes_on = stopped.is_none();
            while ends.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                if interrupted.load(Ordering::Relaxed) {
                    // Whoever waits for them goes on, and the look ends.
                    let members =
                        members.as_ref().and_then(|list| std::fs::read_to_string(list).ok());
                    let members = members.as_deref().unwrap_or_default().lines();
                    let all =
                        pids.iter().copied().chain(members.filter_map(|pid| pid.parse().ok()));
                    all.for_each(|pid| drop(send(pid, Signal::KILL)));
                    return;
                }
                if let Some(pid) = stopped.filter(|_| !goes_on && began.elapsed() >= FAULT) {
                    goes_on = true;
                    let _ = send(pid, Signal::CONT);
                }
            }
        };
        let thread = std::thread::Builder::new().name("demo clock".into()).spawn(count)?;
        Ok(Clock { over: Some((over, thread)) })
    }
}

/// Before the processes are waited for: their numbers must still be theirs.
impl Drop for Clock {
    fn drop(&mut self) {
        if let Some((over, thread)) = self.over.take() {
            drop(over);
            let _ = thread.join();
        }
    }
}
