//! `holdup wait`: says within a second when something is done, and if it is not done by then, why.
//!
//! What is waited for is a descriptor that becomes readable (a pidfd, inotify), so nothing is asked again and again; a file is also looked
//! at once a second, because a network file system tells nobody. The look of `--why` is this very binary in a process of its own, so that
//! what is waited for is seen while it is looked at. Must not: end what is waited for; read typed what it passes on as text.
//!
//! Edit together: docs/wait.md.

mod file;

use crate::failure::Failure;
use crate::flags::groups::{duration, process_id};
use crate::surface::{Surface, Typed};
use crate::text::escape;
use crate::watch::outputs::settings::MailAddress;
use crate::watch::outputs::{hook, mail};
use clap::{ArgGroup, Args};
use file::Awaited;
use holdup_reason::model::figures;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// At least so often it is looked whether an answer is there, and at the file.
const TICK: Duration = Duration::from_millis(500);
/// Of why a hook or a mail failed, as much is said.
const FAILURE_CHARACTERS: usize = 200;

const EXAMPLES: &str = "\
Examples:
  holdup wait -p 812                                   says when process 812 has ended
  holdup wait --file /var/log/app.log --contains ready
  holdup wait --why 10m -- make -j4                    after 10 min without an end, why

The exit status is 0 once it is done, of a command its own. docs/wait.md.";

/// What to wait for.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["pid", "file", "command"])))]
pub(crate) struct Flags {
    /// Wait for the end of a process
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pid: Option<u32>,
    /// Wait until a file is there
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Wait until the file has this text in it
    #[arg(long, value_name = "TEXT", requires = "file", conflicts_with_all = ["pid", "command"])]
    contains: Option<String>,
    /// If it is not done after this time, look and say why
    #[arg(long, value_name = "TIME", value_parser = duration)]
    why: Option<Duration>,
    /// Start this program with the news as a line of JSON on its standard input
    #[arg(long, value_name = "PROGRAM")]
    hook: Option<String>,
    /// Send the news by this host's sendmail
    #[arg(long, value_name = "ADDRESS")]
    mail: Option<MailAddress>,
    /// A command to run and wait for
    #[arg(value_name = "CMD", last = true)]
    command: Vec<OsString>,
}

impl Surface for Flags {
    fn run(self: Box<Self>, _: Typed) -> Result<u8, Failure> {
        let Self { pid, file, contains, why, hook, mail, command } = *self;
        let what = match (pid, file) {
            (Some(pid), _) => What::Process(pid),
            (None, Some(path)) => What::File { path, contains },
            (None, None) => What::Command(command),
        };
        run(&Wanted { what, why, hook: hook.into_iter().collect(), mail })
    }
}

/// What is waited for.
#[derive(Debug)]
enum What {
    /// The end of a process.
    Process(u32),
    /// A file to be there, or to have a text in it.
    File {
        /// Its path.
        path: PathBuf,
        /// The text.
        contains: Option<String>,
    },
    /// A command, which is begun here.
    Command(Vec<OsString>),
}

/// What is waited for, and what is done then.
#[derive(Debug)]
struct Wanted {
    /// What.
    what: What,
    /// After how long it is looked why it is not done.
    why: Option<Duration>,
    /// A program that is started with the news, and its arguments.
    hook: Vec<String>,
    /// Who is sent the news.
    mail: Option<MailAddress>,
}

/// News for the hook, a line of JSON on its standard input.
#[derive(Debug, Serialize)]
struct News<'n> {
    /// `done` or `why`.
    event: &'n str,
    /// What it is, a sentence.
    text: &'n str,
    /// For how long it was waited for.
    seconds: f64,
    /// The exit status of a command that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<u8>,
}

enum Source {
    Process { fd: OwnedFd, name: String, pid: u32 },
    File(Awaited),
    Command { fd: OwnedFd, child: Child, name: String },
}

/// Waits; the exit status.
fn run(wanted: &Wanted) -> Result<u8, Failure> {
    let begin = Instant::now();
    let mut source = Source::open(&wanted.what)?;
    let mut why: Option<Receiver<String>> = None;
    let mut asks_why_after = wanted.why;
    loop {
        if let Some(done) = source.done()? {
            let seconds = begin.elapsed().as_secs_f64();
            let text = format!("{} after {}.", done.text, figures::seconds(seconds));
            source.say(&text);
            let status = done.exit_status;
            reach(
                wanted,
                &text,
                &News { event: "done", text: &text, seconds, exit_status: status },
            );
            return Ok(status.unwrap_or_default());
        }
        if asks_why_after.is_some_and(|after| begin.elapsed() >= after) {
            asks_why_after = None;
            why = Some(look(source.pid())?);
        }
        if let Some(text) = why.as_ref().and_then(|why| why.try_recv().ok()) {
            let seconds = begin.elapsed().as_secs_f64();
            let title =
                format!("{} is not done after {}", source.name(), figures::seconds(seconds));
            source.say(&format!("{title}:\n\n{text}"));
            reach(wanted, &title, &News { event: "why", text: &text, seconds, exit_status: None });
            why = None;
        }
        let left = asks_why_after.map_or(TICK, |after| after.saturating_sub(begin.elapsed()));
        source.wait(left.min(TICK))?;
    }
}

struct Done {
    text: String,
    exit_status: Option<u8>,
}

impl Source {
    fn open(what: &What) -> Result<Self, Failure> {
        match what {
            What::Process(pid) => {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                let name = format!("{} {pid}", escape::name(name.trim_end(), 40));
                Ok(Self::Process { fd: pidfd(*pid)?, name, pid: *pid })
            }
            What::File { path, contains } => {
                Ok(Self::File(Awaited::open(path.clone(), contains.clone())?))
            }
            What::Command(words) => {
                let (program, arguments) =
                    words.split_first().ok_or_else(|| Failure::usage("no command"))?;
                let name = escape::name(&program.to_string_lossy(), 40);
                // Both are typed at the command; holdup lives on to report.
                let unread = std::sync::Arc::default();
                for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
                    signal_hook::flag::register(signal, std::sync::Arc::clone(&unread)).map_err(
                        |error| Failure::look(format!("cannot catch signals: {error}"), ""),
                    )?;
                }
                let begun = Command::new(program).args(arguments).spawn();
                let child = begun.map_err(|error| {
                    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
                    let status = if is_missing { 127 } else { 126 };
                    Failure::look(format!("cannot start {name}: {error}"), "").with_status(status)
                })?;
                Ok(Self::Command { fd: pidfd(child.id())?, child, name })
            }
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Process { name, .. } | Self::Command { name, .. } => name,
            Self::File(awaited) => awaited.name(),
        }
    }

    /// Whom to look at; none is the host.
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Process { pid, .. } => Some(*pid),
            Self::Command { child, .. } => Some(child.id()),
            Self::File(_) => None,
        }
    }

    /// Sleeps until something may be done.
    fn wait(&self, at_most: Duration) -> Result<(), Failure> {
        let fd = match self {
            Self::Process { fd, .. } | Self::Command { fd, .. } => fd.as_fd(),
            Self::File(awaited) => awaited.as_fd(),
        };
        let timeout = Timespec::try_from(at_most).unwrap_or_default();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::look(format!("cannot wait: {error}"), "")),
        }
    }

    fn done(&mut self) -> Result<Option<Done>, Failure> {
        match self {
            Self::Process { fd, name, .. } => {
                let mut fds = [PollFd::new(fd, PollFlags::IN)];
                let ended = poll(&mut fds, Some(&Timespec::default())).unwrap_or(0) > 0;
                Ok(ended.then(|| Done { text: format!("{name} has ended"), exit_status: None }))
            }
            Self::File(awaited) => {
                Ok(awaited.is_there()?.map(|text| Done { text, exit_status: None }))
            }
            Self::Command { child, name, .. } => {
                let status = child
                    .try_wait()
                    .map_err(|error| Failure::look(format!("cannot wait: {error}"), ""))?;
                Ok(status.map(|status| {
                    let (text, status) = match (status.code(), status.signal()) {
                        (Some(code), _) => (format!("{name} has ended with status {code}"), code),
                        (None, signal) => {
                            let signal = signal.unwrap_or_default();
                            (format!("{name} was ended by signal {signal}"), 128 + signal)
                        }
                    };
                    Done { text, exit_status: Some(u8::try_from(status).unwrap_or(1)) }
                }))
            }
        }
    }

    /// Standard output is a command's own.
    fn say(&self, text: &str) {
        let line = format!("{}\n", text.trim_end());
        let _ = match self {
            Self::Command { .. } => std::io::stderr().write_all(line.as_bytes()),
            _ => std::io::stdout().write_all(line.as_bytes()),
        };
    }
}

fn pidfd(pid: u32) -> Result<OwnedFd, Failure> {
    let none = || {
        Failure::look(
            format!("there is no process {pid}"),
            "pgrep finds it by name; a thread's id is not one of a process.",
        )
    };
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(none)?;
    pidfd_open(raw, PidfdFlags::empty()).map_err(|error| match error {
        rustix::io::Errno::SRCH | rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => none(),
        error => Failure::look(format!("cannot wait for process {pid}: {error}"), ""),
    })
}

/// Looks in a process of its own, as whoever types `holdup -p PID` would; its answer comes by the channel.
fn look(pid: Option<u32>) -> Result<Receiver<String>, Failure> {
    let failed = |error: std::io::Error| Failure::look(format!("cannot look: {error}"), "");
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    if let Some(pid) = pid {
        command.arg("-p").arg(pid.to_string());
    }
    command.stdin(Stdio::null());
    let (sender, answer) = channel();
    let look = move || {
        let text = match command.output() {
            Ok(output) => [output.stdout, output.stderr].concat(),
            Err(error) => format!("cannot look: {error}").into_bytes(),
        };
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    };
    std::thread::Builder::new().name("holdup-why".into()).spawn(look).map_err(failed)?;
    Ok(answer)
}

/// To the hook, and by mail. That it failed is said, and changes nothing: a command's status stays its own.
fn reach(wanted: &Wanted, title: &str, news: &News<'_>) {
    let line = serde_json::to_string(news).map_err(|why| format!("cannot write JSON: {why}"));
    let by_hook = line.and_then(|line| hook::run(&wanted.hook, line));
    let by_mail = wanted.mail.as_ref().map_or(Ok(()), |to| mail::send(to, title, news.text));
    for why in [by_hook, by_mail].into_iter().filter_map(Result::err) {
        let _ = writeln!(std::io::stderr(), "holdup: {}", escape::prose(&why, FAILURE_CHARACTERS));
    }
}
