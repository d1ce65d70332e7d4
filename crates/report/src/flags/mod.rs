//! The command line: the list of commands, and of those that look or read a recording each flag with its help.
//!
//! Two layers, as ripgrep has them: what was typed ([`Cli`]) and what it means ([`Job`], job.rs). Only this
//! file knows that `-p 812` and `pid 812` are the same, and which flags do not go together; all other
//! code sees a `Job`. Rejected: clap's global flags (they would stand in the help of commands that
//! ignore them).
//!
//! Commands that are neither a look nor an answer from a recording are files of their own (surface.rs) and stand here as one line each;
//! what several share is in groups.rs.
//!
//! Edit together: docs/holdup.1 and the trycmd goldens (`holdup docs docs` writes the first,
//! `TRYCMD=overwrite cargo test -p holdup` the second).

pub(crate) mod groups;

use crate::delivery::Delivery;
use crate::export::Format;
use crate::failure::Failure;
use crate::job::{Aim, Job, Task};
use crate::surface::Surface;
use crate::text::escape;
use crate::{demo, diff, doctor, documents, mcp, net, top, wait, watch};
use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use groups::{AnswerFlags, FromFlag, LookFlags, TargetFlags, process_id};
use holdup_reason::answer::SCHEMA;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  holdup                          what holds up this host, in a look of 5 s
  holdup --for 30s -p 812         what holds up process 812, in a look of 30 s
  holdup container web-1          what holds up a container, by name or short id
  holdup run -- make -j4          where the wall time of a command goes
  holdup record slow.hup          look, answer, and keep the facts
  holdup --from slow.hup          the same answer again, anywhere, without root
  holdup net                      what the network lost, and who waits for it
  holdup diff fast.hup slow.hup   what changed between two recordings
  holdup page slow.hup -o w.html  the same answer drawn, for a browser
  holdup export folded slow.hup   the same for another tool
  holdup explain disk.journal     what a finding means and how it is proven
  holdup demo                     harmless faults, and how to read the answers

Exit status:
  0  nothing found, or found but --check was not given
  1  something above a note was found, with --check
  2  wrong usage
  3  could not look
  4  the kernel met a fault in a program that holdup had loaded into it
  run and record -- CMD pass the command's own status on (128 + N if signal N
  killed it); with --check, 1 stands for a command that succeeded but was held up.

Environment:
  NO_COLOR  if set and not empty, no colours";

const ABOUT: &str = "\
Says why a Linux host, container, process or command is slow: looks for a few \
seconds, follows each long wait to what ended it, and names the cause, who holds \
it up, and the way out.";

/// What `--version` says: which commit it is, and what is in it.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("HOLDUP_COMMIT").filter(|commit| !commit.is_empty());
    format!(
        "{}\ncommit    {}\nfeatures  kernel events (BPF), user stacks (native, Go, Java, JavaScript, Python), page\nJSON      version {SCHEMA}",
        env!("CARGO_PKG_VERSION"),
        commit.unwrap_or("not known: make did not build it"),
    )
});

/// The command line as typed.
#[derive(Debug, Parser)]
#[command(name = "holdup", version, long_version = LONG_VERSION.as_str(), about = ABOUT, after_help = EXAMPLES, max_term_width = 80)]
#[command(subcommand_help_heading = "Commands", disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    look: LookFlags,
    #[command(flatten)]
    from: FromFlag,
    #[command(flatten)]
    answer: AnswerFlags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look at one process, as -p does
    #[command(after_help = "Example:\n  holdup pid 812 --for 30s")]
    Pid {
        /// Process id, as this shell's PID namespace counts
        #[arg(value_name = "PID", value_parser = process_id)]
        pid: u32,
        #[command(flatten)]
        look: LookFlags,
        #[command(flatten)]
        from: FromFlag,
        #[command(flatten)]
        answer: AnswerFlags,
    },
    /// Look at one container or cgroup, as -c does
    #[command(
        after_help = "Examples:\n  holdup container web-1\n  holdup container 3f2a9c\n  holdup container /system.slice/cron.service"
    )]
    Container {
        /// Name, id (a unique beginning is enough) or cgroup path
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        look: LookFlags,
        #[command(flatten)]
        from: FromFlag,
        #[command(flatten)]
        answer: AnswerFlags,
    },
    /// Run a command and explain its wall time
    #[command(
        after_help = "Examples:\n  holdup run -- make -j4\n  holdup run -o why.txt -- ./backup.sh /srv | gzip > backup.gz\n\nThe command's input, output and exit status stay its own; the report goes to standard\nerror, or to the file of -o. Ctrl-C goes to the command; holdup then reports."
    )]
    Run {
        #[command(flatten)]
        answer: AnswerFlags,
        /// The command and its arguments
        #[arg(
            value_name = "CMD",
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        command: Vec<OsString>,
    },
    /// Look, answer, and keep the facts in a file for --from
    #[command(
        after_help = "Examples:\n  holdup record slow.hup --for 30s\n  holdup record slow.hup -p 812\n  holdup record slow.hup -- make -j4\n  holdup --from slow.hup --json\n\nA recording holds names of processes, files, containers and addresses, no contents."
    )]
    Record {
        /// File to write; an existing one is replaced
        file: PathBuf,
        #[command(flatten)]
        target: TargetFlags,
        #[command(flatten)]
        look: LookFlags,
        #[command(flatten)]
        answer: AnswerFlags,
        /// A command to run and explain, as `run` does
        #[arg(value_name = "CMD", last = true, conflicts_with_all = ["pid", "container", "length"])]
        command: Vec<OsString>,
    },
    /// Compare two recordings, or several a side: what changed, and by how much
    Diff(diff::Flags),
    /// Make harmless faults, look at each, and explain the answers: half a minute
    Demo(demo::Flags),
    /// A process of the demonstration
    #[command(hide = true)]
    DemoPart(demo::PartFlags),
    /// Draw a recording as a page: one HTML file that needs nothing else
    #[command(
        after_help = "Examples:\n  holdup page slow.hup -o why.html\n  holdup page slow.hup -p 812 -o why.html"
    )]
    Page {
        /// The recording
        file: PathBuf,
        #[command(flatten)]
        target: TargetFlags,
        /// Write the page to a file
        #[arg(short, long, value_name = "PAGE")]
        output: Option<PathBuf>,
    },
    /// Write a recording for another tool: flame graphs, pprof, OpenTelemetry, Perfetto, JSON Lines
    #[command(
        after_help = "Examples:\n  holdup export speedscope slow.hup -o slow.speedscope.json\n  holdup export pprof slow.hup -p 812 -o slow.pb.gz\n  holdup run --export otlp:spans.json -- make -j4"
    )]
    Export {
        /// The tool's format
        format: Format,
        /// The recording
        file: PathBuf,
        #[command(flatten)]
        target: TargetFlags,
        /// Write it to a file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Look all the time: say what begins and ends, and keep the recordings of it
    Watch(watch::Flags),
    /// Have whoever watches write the last minutes to its ring now
    Keep(watch::KeepFlags),
    /// Say in one line and an exit status how this host is, for Nagios and Icinga
    Check(watch::check::Flags),
    /// List the windows that `holdup watch` has saved; `--from ring:21:14` answers from a time
    Ring(watch::ring::Flags),
    /// Show on this terminal what holds this host up, window after window; or the past
    Top(top::Flags),
    /// Show the network as tables: interfaces, drops, neighbours, sockets, counters, and who waits
    Net(net::Flags),
    /// Say when a process, a file or a command is done; and if it is not done by then, why
    Wait(wait::Flags),
    /// Answer an agent's questions on standard input and output (Model Context Protocol); reads only
    Mcp(mcp::Flags),
    /// Print the facts of a recording, a line of JSON each
    #[command(after_help = "Example:\n  holdup facts slow.hup | jq 'select(.f == \"wait\")'")]
    Facts {
        /// The recording
        file: PathBuf,
    },
    /// Say what can be seen here, what cannot, and how to change that
    Doctor(doctor::Flags),
    /// Tell what a finding means: theory, evidence, what refutes it, ways out
    Explain(documents::ExplainFlags),
    /// Print completions for a shell
    Completions(documents::CompletionsFlags),
    /// Print the man page
    Man(documents::ManFlags),
    /// Write codes.md and the man page into a directory
    #[command(hide = true)]
    Docs(documents::DocsFlags),
}

impl Cli {
    /// What was typed, as what it means.
    // LONG FUNCTION: one arm a command, none of them more than a few lines.
    pub(crate) fn job(self) -> Result<Job, Failure> {
        let Self { target, look, from, answer, command } = self;
        let Some(command) = command else {
            return Ok(Job {
                task: look_or_replay(target.aim(), look, from.from),
                answer: answer.into(),
            });
        };
        if target.pid.is_some() || target.container.is_some() {
            return Err(Failure::usage(
                "-p and -c stand alone or after `record`; the command already says whom to look at",
            ));
        }
        let outer = Outer { length: look.length, from: from.from };
        if answer.page.is_some() && !command.answers() {
            return Err(Failure::usage(
                "--page goes with a look, with --from, or with `holdup diff`",
            ));
        }
        if answer.export.is_some() && !command.looks() {
            return Err(Failure::usage(
                "--export goes with a look or with --from; `holdup export FORMAT FILE` writes a recording",
            ));
        }
        Ok(match command {
            Command::Pid { pid, look, from, answer: own } => {
                let (look, from) = outer.merge(look, from.from)?;
                let task = look_or_replay(Aim::Process(pid), look, from);
                Job { task, answer: own.over(answer) }
            }
            Command::Container { name, look, from, answer: own } => {
                let (look, from) = outer.merge(look, from.from)?;
                let task = look_or_replay(Aim::Container(name), look, from);
                Job { task, answer: own.over(answer) }
            }
            Command::Run { answer: own, command } => {
                outer.refuse("run", true, true)?;
                let task = Task::Look { aim: Aim::Command(command), seconds: None, record: None };
                Job { task, answer: own.over(answer) }
            }
            Command::Record { file, target, look, answer: own, command } => {
                outer.refuse("record", !command.is_empty(), true)?;
                let (look, _) = outer.merge(look, None)?;
                let (aim, seconds) = if command.is_empty() {
                    (target.aim(), Some(look.seconds()))
                } else {
                    (Aim::Command(command), None)
                };
                let task = Task::Look { aim, seconds, record: Some(file) };
                Job { task, answer: own.over(answer) }
            }
            Command::Page { file, target, output } => {
                outer.refuse("page", true, true)?;
                let output = output.or(answer.print.output);
                let answer = Delivery { output, ..Delivery::default() };
                Job { task: Task::Page { file, aim: target.aim() }, answer }
            }
            Command::Export { format, file, target, output } => {
                outer.refuse("export", true, true)?;
                let output = output.or(answer.print.output);
                let answer = Delivery { output, ..Delivery::default() };
                Job { task: Task::Export { format, file, aim: target.aim() }, answer }
            }
            Command::Facts { file } => {
                outer.refuse("facts", true, true)?;
                Job { task: Task::Facts { file }, answer: answer.into() }
            }
            Command::Diff(it) => outer.alone("diff", it, answer)?,
            Command::Demo(it) => outer.alone("demo", it, answer)?,
            Command::DemoPart(it) => outer.alone("demo-part", it, answer)?,
            Command::Watch(it) => outer.alone("watch", it, answer)?,
            Command::Keep(it) => outer.alone("keep", it, answer)?,
            Command::Check(it) => outer.alone("check", it, answer)?,
            Command::Ring(it) => outer.alone("ring", it, answer)?,
            Command::Top(it) => outer.with_from("top", it, answer)?,
            Command::Net(it) => {
                let (look, from) = outer.merge(it.look, it.from.from)?;
                let it = net::Flags { look, from: FromFlag { from }, ..it };
                Outer { length: None, from: None }.with_from("net", it, answer)?
            }
            Command::Wait(it) => outer.alone("wait", it, answer)?,
            Command::Mcp(it) => outer.alone("mcp", it, answer)?,
            Command::Doctor(it) => outer.with_from("doctor", it, answer)?,
            Command::Explain(it) => outer.alone("explain", it, answer)?,
            Command::Completions(it) => outer.alone("completions", it, answer)?,
            Command::Man(it) => outer.alone("man", it, answer)?,
            Command::Docs(it) => outer.alone("docs", it, answer)?,
        })
    }
}

/// Flags that stood before the name of a command.
struct Outer {
    length: Option<Duration>,
    from: Option<PathBuf>,
}

impl Outer {
    fn merge(
        self,
        inner: LookFlags,
        from: Option<PathBuf>,
    ) -> Result<(LookFlags, Option<PathBuf>), Failure> {
        let length = inner.length.or(self.length);
        let from = from.or(self.from);
        if length.is_some() && from.is_some() {
            return Err(Failure::usage(
                "--for does not go with --from: a recording has the length it was recorded with",
            ));
        }
        Ok((LookFlags { length }, from))
    }

    /// A command with which neither `--for` nor `--from` goes.
    fn alone(
        self,
        name: &str,
        it: impl Surface + 'static,
        answer: AnswerFlags,
    ) -> Result<Job, Failure> {
        self.refuse(name, true, true)?;
        self.with_from(name, it, answer)
    }

    /// A command that takes `--from`.
    fn with_from(
        self,
        name: &str,
        mut it: impl Surface + 'static,
        answer: AnswerFlags,
    ) -> Result<Job, Failure> {
        self.refuse(name, true, false)?;
        let answer = it.answer().over(answer);
        Ok(Job { task: Task::Surface { surface: Box::new(it), from: self.from }, answer })
    }

    fn refuse(&self, command: &str, length: bool, from: bool) -> Result<(), Failure> {
        let flag = match (&self.length, &self.from) {
            (Some(_), _) if length => "--for",
            (_, Some(_)) if from => "--from",
            _ => return Ok(()),
        };
        Err(Failure::usage(format!("{flag} does not go with `holdup {command}`")))
    }
}

impl Command {
    /// Whether it ends in an answer about a look.
    fn looks(&self) -> bool {
        matches!(
            self,
            Self::Pid { .. } | Self::Container { .. } | Self::Run { .. } | Self::Record { .. }
        )
    }

    /// Whether it ends in something that can be drawn beside its text.
    fn answers(&self) -> bool {
        self.looks() || matches!(self, Self::Diff(_))
    }
}

impl AnswerFlags {
    fn over(self, outer: Self) -> Delivery {
        Delivery {
            output: self.print.output.or(outer.print.output),
            page: self.page.or(outer.page),
            export: self.export.or(outer.export),
            json: self.print.json || outer.print.json,
            check: self.check || outer.check,
            verbose: self.verbose || outer.verbose,
            no_color: self.print.no_color || outer.print.no_color,
        }
    }
}

impl From<AnswerFlags> for Delivery {
    fn from(flags: AnswerFlags) -> Self {
        flags.over(AnswerFlags::default())
    }
}

fn look_or_replay(aim: Aim, look: LookFlags, from: Option<PathBuf>) -> Task {
    match from {
        Some(file) => Task::Replay { file, aim },
        None => Task::Look { aim, seconds: Some(look.seconds()), record: None },
    }
}

/// Looks at what was typed, and exits with help where that was asked for.
pub(crate) fn read() -> Result<Job, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return cli.job(),
        Err(error) => error,
    };
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word)))
            if error.get(ContextKind::SuggestedSubcommand).is_none() =>
        {
            let shown = escape::shell_word(word);
            let advice = match word.parse::<u32>() {
                Ok(pid) => format!("For the process of that id: `holdup pid {pid}`."),
                Err(_) => format!(
                    "For a container of that name: `holdup container {shown}`; for a command: \
                     `holdup run -- {shown}`."
                ),
            };
            Err(Failure::usage(format!("there is no command {word} of holdup")).advise(advice))
        }
        _ => error.exit(),
    }
}

#[cfg(test)]
mod tests;
