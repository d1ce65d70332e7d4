//! The form of what is known of a program: each file of this folder fills in what there is.
//!
//! Owns the roles. A role that only one program has is a function of its file. Must not: name a program.

use super::command_line::CommandLine;
use super::doors::Doors;
use super::lock_kind::LockKind;
use super::session::Session;

/// Functions, and the kind of wait that they say; the narrow meaning first.
pub(super) type Rows = &'static [(LockKind, &'static [&'static str])];

/// A program, or the runtime and libraries of a language.
pub struct Program {
    /// Names of its processes.
    pub names: &'static [&'static str],
    /// How names of its processes begin, where releases and roles end them as they like.
    pub begins: &'static [&'static str],
    /// What its interpreter is called, without the release.
    pub interpreter: &'static str,
    /// Its functions.
    pub functions: Functions,
    /// Its files.
    pub files: Files,
    /// The command that asks a process of it what it waits for.
    pub question: Option<fn(&Doors, u32) -> String>,
    /// What the title of a process says of its session; none of one that serves no client.
    pub session: Option<for<'a> fn(&'a str) -> Option<Session<'a>>>,
    /// What others of a server wait for that its one process with this title brings about.
    pub brings_about: fn(&str) -> Option<LockKind>,
    /// The command that lists transactions that were prepared: they hold locks, and no process has them.
    pub prepared: Option<fn(&Doors) -> String>,
    /// The command that asks it about one kind of what it waits for inside, where that is another.
    pub question_about: fn(&Doors, LockKind) -> Option<String>,
    /// The command that asks it how many connections it may have, and who has them.
    pub connections: Option<fn(&Doors) -> String>,
    /// The setting by which its commits wait for a replica.
    pub replica: Option<ReplicaSetting>,
    /// How its command line says what it runs.
    pub command_line: Option<CommandLine>,
    /// How its command line says a limit that it keeps to by itself.
    pub own_limits: &'static [OwnLimit],
    /// Its collector of garbage, if that is known by its functions.
    pub collector: Option<Collector>,
}

/// Functions by what they say of a thread. A name matches whole, or as the end of a path.
pub struct Functions {
    /// They say the kind wherever they are: the program's own, asked before those of libraries.
    pub locks: Rows,
    /// The same of a language's library, asked by kind: who joins a thread has locked something on the way.
    pub library_locks: Rows,
    /// The plain ways to sleep: they say what nothing else did.
    pub plain: Rows,
    /// Behind the first, the others say the kind.
    pub behind: Option<(&'static str, Rows)>,
    /// They take a mutex, and also run what is done under it; and those that stand before them once it runs.
    pub takes_and_runs: (&'static [&'static str], &'static [&'static str]),
    /// How functions of engines begin that sleep in a condition for a row of their own table of locks.
    pub engine_begins: &'static str,
    /// A thread that waits for work: these, next to the wait.
    pub idle: &'static [&'static str],
    /// They run a loop of events of their own until a child that they began has ended.
    pub child: &'static [&'static str],
    /// Of a thread that a program began for work of its own: it may wait for work by whatever word it likes.
    pub worker: &'static [&'static str],
    /// They let time pass, where the kernel sees a condition.
    pub sleeps: &'static [&'static str],
    /// Threads of its pools.
    pub pools: &'static [PoolWorker],
    /// Where it waits for what another thread will have done.
    pub tasks: &'static [AwaitedTask],
    /// They wait for a connection of a pool all of which are in use.
    pub connections: &'static [&'static str],
    /// Where a program that was started so waits for the first debugger, before it begins.
    pub debugger: &'static [&'static str],
    /// On the way to a lock, and no function that a person knows.
    pub plumbing: &'static [&'static str],
}

/// How a thread of a pool is known, and one without a task.
pub struct PoolWorker {
    /// The function that takes tasks and runs them.
    pub runs: &'static str,
    /// What the path of its file ends in; empty: whichever.
    pub file: &'static str,
    /// What that function has called where it has no task; of several releases each.
    pub rests: &'static [&'static str],
    /// It is machine code, and none of a language's functions.
    pub is_native: bool,
    /// What says how many threads there are; empty: whoever makes the pool.
    pub setting: &'static str,
    /// Of a server: each task is a client's question, and each question waits for a thread of it.
    pub serves: bool,
}

impl PoolWorker {
    /// Of which nothing is known: what a row leaves out.
    pub const UNKNOWN: Self =
        Self { runs: "", file: "", rests: &[], is_native: false, setting: "", serves: false };
}

/// Where a thread waits for a task that it gave away; functions with what the paths of their files end in.
pub struct AwaitedTask {
    /// It stands in one of these.
    pub waits: &'static [(&'static str, &'static str)],
    /// Who does the task, or brings its result, is in one of these.
    pub by: &'static [(&'static str, &'static str)],
    /// A thread in one of these ends such waits as well, of tasks that no stack shows.
    pub ended_in: &'static [(&'static str, &'static str)],
    /// Anything may end it: the answer of another host, or a timer.
    pub is_anybodys: bool,
}

/// Files by what their functions say.
pub struct Files {
    /// How names of those begin whose functions say nothing about a program.
    pub plumbing: &'static [&'static str],
    /// Whole names of such files, as a script's own may well begin with them.
    pub plumbing_whole: &'static [&'static str],
    /// Paths of functions that say as little.
    pub plumbing_paths: &'static [&'static str],
    /// What names of a program's own scripts end in.
    pub scripts: &'static [&'static str],
    /// What names of files have that extend a script's language: a person knows the script that called them.
    pub extensions: &'static [&'static str],
    /// How those of the language's own library begin.
    pub library: &'static [&'static str],
    /// Functions of that library that wait for a child that they began: name and file.
    pub child: &'static [(&'static str, &'static str)],
}

/// A limit on its own pace that a program can be given.
pub struct OwnLimit {
    /// Names of its commands.
    pub commands: &'static [&'static str],
    /// The options that set it; their value is behind `=`, in the next word, or of one letter in the same word.
    pub options: &'static [&'static str],
}

/// A setting by which commits wait for the confirmation of a replica, and the commands around it.
pub struct ReplicaSetting {
    /// What it is called.
    pub name: &'static str,
    /// Whether a process with this title sends to a replica, of a server that has one for each.
    pub sender: Option<fn(&str) -> bool>,
    /// Asks which replicas there are, and which count.
    pub question: fn(&Doors) -> String,
    /// Has commits wait for nobody, and keeps what takes that back.
    pub off: fn(&Doors) -> String,
    /// Takes that back.
    pub on: fn(&Doors) -> String,
}

/// A collector of garbage that runs on the program's own threads.
pub struct Collector {
    /// Whose it is.
    pub name: &'static str,
    /// What its functions begin with.
    pub functions: &'static [&'static str],
    /// It takes a part of the CPUs by design whenever it runs.
    pub has_its_part: bool,
    /// What helps.
    pub advice: &'static str,
}

impl Program {
    /// Of which nothing is known: what a file leaves out.
    pub const UNKNOWN: Self = Self {
        names: &[],
        begins: &[],
        interpreter: "",
        functions: Functions::NONE,
        files: Files::NONE,
        question: None,
        session: None,
        brings_about: |_| None,
        prepared: None,
        question_about: |_, _| None,
        connections: None,
        replica: None,
        command_line: None,
        own_limits: &[],
        collector: None,
    };

    /// The question to a process of it; of one that answers none, the stacks of its threads.
    pub fn question(&self, doors: &Doors, pid: u32) -> String {
        self.question.map_or_else(|| stacks_with_warning(pid), |ask| ask(doors, pid))
    }
}

impl Functions {
    /// None are known.
    pub const NONE: Self = Self {
        locks: &[],
        library_locks: &[],
        plain: &[],
        behind: None,
        takes_and_runs: (&[], &[]),
        engine_begins: "",
        idle: &[],
        child: &[],
        worker: &[],
        sleeps: &[],
        pools: &[],
        tasks: &[],
        connections: &[],
        debugger: &[],
        plumbing: &[],
    };
}

impl Files {
    /// None are known.
    pub const NONE: Self = Self {
        plumbing: &[],
        plumbing_whole: &[],
        plumbing_paths: &[],
        scripts: &[],
        extensions: &[],
        library: &[],
        child: &[],
    };
}

/// The command that prints the stacks of a process's threads.
pub fn stacks(pid: u32) -> String {
    format!("gdb -p {pid} -batch -ex 'thread apply all bt'")
}

/// The same, with what it does to the process.
pub fn stacks_with_warning(pid: u32) -> String {
    format!("{}   # stops it for a moment", stacks(pid))
}
