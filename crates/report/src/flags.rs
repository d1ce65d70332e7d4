//! The command line: every flag once, with its help and its examples.
//!
//! Two layers, as ripgrep has them: what was typed ([`Cli`]) and what it means ([`Job`], job.rs). Only this
//! file knows that `-p 812` and `pid 812` are the same, and which flags do not go together; all other
//! code sees a `Job`. Rejected: clap's global flags (they would stand in the help of commands that
//! ignore them).
//!
//! LONG FILE: a command line is one list, and whoever looks for a flag looks here.
//!
//! Edit together: docs/holdup.1 and the trycmd goldens (`holdup docs docs` writes the first,
//! `TRYCMD=overwrite cargo test -p holdup` the second).

use crate::diff::Sides;
use crate::export::{self, Format, Wanted};
use crate::failure::Failure;
use crate::job::{Aim, Answer, Job, Task};
use crate::text::escape;
use crate::top;
use crate::wait;
use crate::watch::Named;
use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use holdup_reason::answer::SCHEMA;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// The look of a bare `holdup`.
const LOOK_SECONDS: f64 = 5.0;
/// Below this, a window holds too few waits to reason on.
const SHORTEST: Duration = Duration::from_millis(100);
/// Above this, use a recording per hour: all facts of a look are held in memory until it ends.
const LONGEST: Duration = Duration::from_secs(3600);

const EXAMPLES: &str = "\
Examples:
  holdup                          what holds up this host, in a look of 5 s
  holdup --for 30s -p 812         what holds up process 812, in a look of 30 s
  holdup container web-1          what holds up a container, by name or short id
  holdup run -- make -j4          where the wall time of a command goes
  holdup record slow.hup          look, answer, and keep the facts
  holdup --from slow.hup          the same answer again, anywhere, without root
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

/// Whom to look at.
#[derive(Debug, Default, Args)]
struct TargetFlags {
    /// Look at one process, all its threads
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pid: Option<u32>,
    /// Look at one container or cgroup: name, id (a unique beginning is enough) or path
    #[arg(short, long, value_name = "NAME", conflicts_with = "pid")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    container: Option<String>,
}

/// How long to look.
#[derive(Debug, Default, Args)]
struct LookFlags {
    /// Length of the look: 500ms, 30s, 2m [default: 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
}

/// Where facts come from.
#[derive(Debug, Default, Args)]
struct FromFlag {
    /// Answer from a recording instead of this host; needs no privileges
    #[arg(long, value_name = "FILE", conflicts_with = "length")]
    from: Option<PathBuf>,
}

/// The same without `--for` beside it.
#[derive(Debug, Default, Args)]
struct FromOnlyFlag {
    /// Answer from a recording instead of this host
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Where and how to print.
#[derive(Debug, Default, Args)]
struct PrintFlags {
    /// Write the answer to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Answer in JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    /// No colours (they are only used on a terminal)
    #[arg(long)]
    no_color: bool,
}

/// How to answer.
#[derive(Debug, Default, Args)]
struct AnswerFlags {
    #[command(flatten)]
    print: PrintFlags,
    /// Draw the answer into a page as well: one HTML file
    #[arg(long, value_name = "PAGE")]
    page: Option<PathBuf>,
    /// Write it for another tool as well: folded, speedscope, pprof, otlp, perfetto, jsonl
    #[arg(long, value_name = "FORMAT:FILE", value_parser = export::wanted)]
    export: Option<Wanted>,
    /// Exit with 1 if something above a note is found
    #[arg(long)]
    check: bool,
    /// Show the evidence behind each finding, and all parts of the time
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
}

const WATCH_EXAMPLES: &str = "\
Examples:
  holdup watch                      windows of 10 s, until ctrl-C
  holdup watch --state ./state      with a state folder of one's own
  holdup watch --print-config > /etc/holdup/holdup.toml

docs/watch.md says how systemd runs it, and what it writes.";

/// How to watch.
#[derive(Debug, Default, Args)]
struct WatchFlags {
    /// File of the settings [default: /etc/holdup/holdup.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings with what they cost, and end
    #[arg(long)]
    print_config: bool,
    /// Length of a window: 10s, 1m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    window: Option<Duration>,
    #[command(flatten)]
    state: StateFlag,
}

impl WatchFlags {
    fn task(self) -> Task {
        let Self { config, print_config, window, state } = self;
        Task::Watch { named: Named { config, state: state.state, window }, print: print_config }
    }
}

const TOP_EXAMPLES: &str = "\
Examples:
  holdup top                        this host, in windows of 5 s
  holdup top -p 812                 one process
  holdup top --from ring            all that `holdup watch` has saved; left and right go through it
  holdup top --from ring:21:14      the same, beginning at a time

`?` shows the keys. It looks only: no key changes anything on the host. docs/top.md.";

/// What to show on a terminal.
#[derive(Debug, Default, Args)]
struct TopFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Length of a window: 2s, 10s [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "from")]
    window: Option<Duration>,
    /// Show a recording, or the saved windows: a file, ring, ring:21:14
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    state: StateFlag,
    /// No colours
    #[arg(long)]
    no_color: bool,
}

impl TopFlags {
    fn task(self, outer_from: Option<PathBuf>) -> Task {
        let Self { target, window, from, state, no_color } = self;
        Task::Top(top::Wanted {
            aim: target.aim(),
            from: from.or(outer_from),
            state: state.state,
            window: window.unwrap_or(top::WINDOW),
            no_color,
        })
    }
}

const WAIT_EXAMPLES: &str = "\
Examples:
  holdup wait -p 812                                   says when process 812 has ended
  holdup wait --file /var/log/app.log --contains ready
  holdup wait --why 10m -- make -j4                    after 10 min without an end, why

The exit status is 0 once it is done, of a command its own. docs/wait.md.";

/// What to wait for.
#[derive(Debug, Default, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["pid", "file", "command"])))]
struct WaitFlags {
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
    /// A command to run and wait for
    #[arg(value_name = "CMD", last = true)]
    command: Vec<OsString>,
}

impl WaitFlags {
    fn task(self) -> Task {
        let Self { pid, file, contains, why, hook, command } = self;
        let what = match (pid, file) {
            (Some(pid), _) => wait::What::Process(pid),
            (None, Some(path)) => wait::What::File { path, contains },
            (None, None) => wait::What::Command(command),
        };
        Task::Wait(wait::Wanted { what, why, hook: hook.into_iter().collect() })
    }
}

/// Where whoever watches writes.
#[derive(Debug, Default, Args)]
struct StateFlag {
    /// State folder [default: /var/lib/holdup]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
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
    #[command(
        after_help = "Examples:\n  holdup diff yesterday.hup today.hup\n  holdup diff yesterday.hup today.hup --page diff.html\n  holdup diff --before a.hup b.hup c.hup --after d.hup e.hup f.hup\n\nA recording is made with `holdup record FILE`."
    )]
    Diff {
        #[command(flatten)]
        sides: Sides,
        #[command(flatten)]
        print: PrintFlags,
        /// Draw the comparison into a page as well: one HTML file
        #[arg(long, value_name = "PAGE")]
        page: Option<PathBuf>,
        /// Exit with 1 if something above a note became worse
        #[arg(long)]
        check: bool,
        /// Show every change with its range, and the parts of the time
        #[arg(short, long, conflicts_with = "json")]
        verbose: bool,
    },
    /// Make harmless faults, look at each, and explain the answers: half a minute
    #[command(
        after_help = "Locks, a pipe, servers and a CPU quota, made by processes of its own and undone on every way\nout. Works without root, and leaves out what needs it. Exits with 1 if an answer was not\nwhat was done."
    )]
    Demo {
        /// No colours (they are only used on a terminal)
        #[arg(long)]
        no_color: bool,
    },
    /// A process of the demonstration
    #[command(hide = true)]
    DemoPart {
        /// Who began it, what it does, with what
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<String>,
    },
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
    #[command(after_help = WATCH_EXAMPLES)]
    Watch {
        #[command(flatten)]
        flags: WatchFlags,
    },
    /// Have whoever watches write the last minutes to its ring now
    #[command(after_help = "Example:\n  holdup keep && holdup ring")]
    Keep {
        #[command(flatten)]
        state: StateFlag,
    },
    /// Say in one line and an exit status how this host is, for Nagios and Icinga
    #[command(
        after_help = "Exit status: 0 well, 1 warning, 2 critical, 3 not known. Asks whoever watches, if its state\nis fresh, else looks for 2 s.\n\nExample:\n  holdup check"
    )]
    Check {
        #[command(flatten)]
        state: StateFlag,
    },
    /// List the windows that `holdup watch` has saved; `--from ring:21:14` answers from a time
    #[command(
        after_help = "Examples:\n  holdup ring\n  holdup --from ring:21:14\n  holdup --from ring:2026-11-26T21:14:05 -v\n  holdup --from ring:21:10..21:14"
    )]
    Ring {
        #[command(flatten)]
        state: StateFlag,
        #[command(flatten)]
        print: PrintFlags,
    },
    /// Show on this terminal what holds this host up, window after window; or the past
    #[command(after_help = TOP_EXAMPLES)]
    Top {
        #[command(flatten)]
        flags: TopFlags,
    },
    /// Say when a process, a file or a command is done; and if it is not done by then, why
    #[command(after_help = WAIT_EXAMPLES)]
    Wait {
        #[command(flatten)]
        flags: WaitFlags,
    },
    /// Answer an agent's questions on standard input and output (Model Context Protocol); reads only
    #[command(after_help = "An agent starts it: docs/agents.md says how, and when to look.")]
    Mcp,
    /// Print the facts of a recording, a line of JSON each
    #[command(after_help = "Example:\n  holdup facts slow.hup | jq 'select(.f == \"wait\")'")]
    Facts {
        /// The recording
        file: PathBuf,
    },
    /// Say what can be seen here, what cannot, and how to change that
    #[command(
        after_help = "Examples:\n  holdup doctor\n  holdup doctor --check   exits with 1 if something cannot be seen"
    )]
    Doctor {
        #[command(flatten)]
        from: FromOnlyFlag,
        #[command(flatten)]
        print: PrintFlags,
        /// Exit with 1 if something cannot be seen
        #[arg(long)]
        check: bool,
    },
    /// Tell what a finding means: theory, evidence, what refutes it, ways out
    #[command(
        after_help = "Examples:\n  holdup explain                   lists all codes\n  holdup explain disk              lists the codes of an area\n  holdup explain disk.own_throttle"
    )]
    Explain {
        /// A code (disk.journal) or an area (disk); all codes if left out
        code: Option<String>,
        #[command(flatten)]
        print: PrintFlags,
    },
    /// Print completions for a shell
    #[command(after_help = "Example:\n  holdup completions bash > /etc/bash_completion.d/holdup")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page
    #[command(after_help = "Example:\n  holdup man | man -l -")]
    Man,
    /// Write codes.md and the man page into a directory
    #[command(hide = true)]
    Docs {
        /// The directory
        directory: PathBuf,
    },
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
            Command::Diff { sides, print, page, check, verbose } => {
                outer.refuse("diff", true, true)?;
                let own = AnswerFlags { print, check, verbose, page, export: None };
                Job { task: Task::Diff(sides), answer: own.over(answer) }
            }
            Command::Demo { no_color } => {
                outer.refuse("demo", true, true)?;
                let own = AnswerFlags {
                    print: PrintFlags { no_color, ..PrintFlags::default() },
                    ..AnswerFlags::default()
                };
                Job { task: Task::Demo, answer: own.over(answer) }
            }
            Command::DemoPart { words } => {
                Job { task: Task::DemoPart { words }, answer: answer.into() }
            }
            Command::Page { file, target, output } => {
                outer.refuse("page", true, true)?;
                let output = output.or(answer.print.output);
                let answer = Answer { output, ..Answer::default() };
                Job { task: Task::Page { file, aim: target.aim() }, answer }
            }
            Command::Export { format, file, target, output } => {
                outer.refuse("export", true, true)?;
                let output = output.or(answer.print.output);
                let answer = Answer { output, ..Answer::default() };
                Job { task: Task::Export { format, file, aim: target.aim() }, answer }
            }
            Command::Watch { flags } => {
                outer.refuse("watch", true, true)?;
                Job { task: flags.task(), answer: answer.into() }
            }
            Command::Keep { state } => {
                outer.refuse("keep", true, true)?;
                Job { task: Task::Keep { state: state.state }, answer: answer.into() }
            }
            Command::Check { state } => {
                outer.refuse("check", true, true)?;
                Job { task: Task::Check { state: state.state }, answer: answer.into() }
            }
            Command::Ring { state, print } => {
                outer.refuse("ring", true, true)?;
                let own = AnswerFlags { print, ..AnswerFlags::default() };
                Job { task: Task::Ring { state: state.state }, answer: own.over(answer) }
            }
            Command::Top { flags } => {
                outer.refuse("top", true, false)?;
                Job { task: flags.task(outer.from), answer: Answer::default() }
            }
            Command::Wait { flags } => {
                outer.refuse("wait", true, true)?;
                Job { task: flags.task(), answer: Answer::default() }
            }
            Command::Mcp => {
                outer.refuse("mcp", true, true)?;
                Job { task: Task::Mcp, answer: answer.into() }
            }
            Command::Facts { file } => {
                outer.refuse("facts", true, true)?;
                Job { task: Task::Facts { file }, answer: answer.into() }
            }
            Command::Doctor { from, print, check } => {
                outer.refuse("doctor", true, false)?;
                let (_, file) = outer.merge(LookFlags::default(), from.from)?;
                let own = AnswerFlags { print, check, ..AnswerFlags::default() };
                Job { task: Task::Doctor { file }, answer: own.over(answer) }
            }
            Command::Explain { code, print } => {
                outer.refuse("explain", true, true)?;
                let own = AnswerFlags { print, ..AnswerFlags::default() };
                Job { task: Task::Explain { code }, answer: own.over(answer) }
            }
            Command::Completions { shell } => {
                outer.refuse("completions", true, true)?;
                Job { task: Task::Completions { shell }, answer: answer.into() }
            }
            Command::Man => {
                outer.refuse("man", true, true)?;
                Job { task: Task::Man, answer: answer.into() }
            }
            Command::Docs { directory } => {
                Job { task: Task::Docs { directory }, answer: answer.into() }
            }
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
        self.looks() || matches!(self, Self::Diff { .. })
    }
}

impl TargetFlags {
    fn aim(self) -> Aim {
        match (self.pid, self.container) {
            (Some(pid), _) => Aim::Process(pid),
            (None, Some(name)) => Aim::Container(name),
            (None, None) => Aim::Host,
        }
    }
}

impl LookFlags {
    fn seconds(&self) -> f64 {
        self.length.map_or(LOOK_SECONDS, |length| length.as_secs_f64())
    }
}

impl AnswerFlags {
    fn over(self, outer: Self) -> Answer {
        Answer {
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

impl From<AnswerFlags> for Answer {
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

/// A number above 0.
fn process_id(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("a process id is a number above 0 (pgrep finds it by name)".into()),
    }
}

/// `500ms`, `30s`, `1m 30s`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let length = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| "not a length of time; try 500ms, 30s or 2m".to_owned())?,
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| "not a length of time; try 500ms, 30s or 2m".to_owned())?,
    };
    if length < SHORTEST {
        return Err("too short: a look needs at least 100ms".into());
    }
    if length > LONGEST {
        return Err("too long: a look takes at most 1h; record several in turn".into());
    }
    Ok(length)
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
