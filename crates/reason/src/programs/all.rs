//! All programs of which something is known, and what others ask over all of them.
//!
//! Owns the order: of two that know a function of one stack the first is believed, so a program stands before the language it is
//! written in, and that before the C library. Must not: hold a name itself.

use super::function_path::is_one_of;
use super::lock_kind::LockKind;
use super::program::{Collector, Program};
use super::session::Session;
use super::{
    command_line, cpython, cxx, erlang, git, go, guile, java, libc, mariadb, nginx, node, openmp,
    perl, pgbouncer, php, postgres, redis, ruby, rust, shell, systemd, tools, transfers,
};
use crate::facts::UserFrame;
use std::sync::LazyLock;

/// All of them.
pub(super) static ALL: [&Program; 24] = [
    &postgres::POSTGRES,
    &pgbouncer::PGBOUNCER,
    &mariadb::MARIADB,
    &mariadb::MYSQL,
    &redis::REDIS,
    &nginx::NGINX,
    &php::PHP,
    &java::JAVA,
    &cpython::CPYTHON,
    &ruby::RUBY,
    &perl::PERL,
    &guile::GUILE,
    &erlang::ERLANG,
    &node::NODE,
    &go::GO,
    &rust::RUST,
    &cxx::CXX,
    &openmp::OPENMP,
    &libc::LIBC,
    &git::GIT,
    &shell::SHELL,
    &systemd::SYSTEMD,
    &tools::TOOLS,
    &transfers::TRANSFERS,
];

/// What the names of scripts end in: each frame of each stack is held against them.
static SCRIPTS: LazyLock<Vec<&str>> =
    LazyLock::new(|| ALL.iter().flat_map(|it| it.files.scripts).copied().collect());

type Row = (LockKind, &'static [&'static str]);

/// Rows that say the kind wherever they are: of programs one after another; of libraries by kind, since whoever joins a thread, or
/// waits at a barrier, has taken a mutex on the way.
pub(super) static LOCKS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    use LockKind::*;
    let own = ALL.iter().flat_map(|it| it.functions.locks).copied();
    let of_libraries =
        by_kind(&[Join, Barrier, Once, Condition, Rwlock, Mutex], |it| it.functions.library_locks);
    own.chain(of_libraries).collect()
});

/// The plain ways to sleep, by kind: a channel sleeps in a condition.
pub(super) static PLAIN: LazyLock<Vec<Row>> = LazyLock::new(|| {
    use LockKind::*;
    by_kind(&[Semaphore, Message, MessageRoom, Channel, Condition, Park], |it| it.functions.plain)
});

fn by_kind(kinds: &[LockKind], rows: impl Fn(&Program) -> super::program::Rows) -> Vec<Row> {
    let of = |kind: &LockKind| {
        let all = ALL.iter().flat_map(|it| rows(it)).copied();
        all.filter(|(its, _)| its == kind).collect::<Vec<Row>>()
    };
    kinds.iter().flat_map(of).collect()
}

/// Functions on the way to a lock, those that say its kind, and idle ones: none that a person knows.
pub(super) fn plumbing() -> impl Iterator<Item = &'static [&'static str]> {
    let behind = ALL.iter().filter_map(|it| it.functions.behind).flat_map(|(_, rows)| rows);
    let rows = LOCKS.iter().chain(behind).chain(PLAIN.iter()).map(|(_, names)| *names);
    rows.chain(ALL.iter().flat_map(|it| [it.functions.plumbing, it.functions.idle]))
}

/// Every name of every table of functions.
pub(super) fn function_names() -> impl Iterator<Item = &'static str> {
    let alone = ALL.iter().flat_map(|it| {
        let its = &it.functions;
        let takes = its.takes_and_runs;
        [takes.0, takes.1, its.child, its.worker, its.sleeps, its.debugger]
    });
    let sleeps = ALL.iter().filter_map(|it| it.functions.behind).map(|(function, _)| function);
    plumbing().chain(alone).flatten().copied().chain(sleeps)
}

/// The program that a process by this name is.
pub fn of(process: &str) -> Option<&'static Program> {
    let is = |it: &&&Program| {
        it.names.contains(&process) || it.begins.iter().any(|begin| process.starts_with(begin))
    };
    ALL.iter().find(is).copied()
}

/// The program that an interpreter is, by its name with the release (`CPython 3.11`).
pub fn of_interpreter(name: &str) -> Option<&'static Program> {
    let is = |it: &&&Program| !it.interpreter.is_empty() && name.starts_with(it.interpreter);
    ALL.iter().find(is).copied()
}

/// What the title of a process says of its session.
pub fn session(title: &str) -> Option<Session<'_>> {
    ALL.iter().filter_map(|it| it.session).find_map(|read| read(title))
}

/// Whether the title of a process says that it is the one of its server that brings about what others of it wait for.
pub fn brings_about(title: &str, wanted: Option<LockKind>) -> bool {
    wanted.is_some() && ALL.iter().any(|it| (it.brings_about)(title) == wanted)
}

/// Whether the title of a process says that it sends its server's log to another server: it waits for whoever writes to that log next.
pub fn sends_to_a_replica(title: &str) -> bool {
    let mut settings = ALL.iter().filter_map(|it| it.replica.as_ref());
    settings.any(|it| it.sender.is_some_and(|sends| sends(title)))
}

/// What a process of this name runs, by its command line, where the name does not say that.
pub fn runs(process: &str, words: &[&str]) -> Option<String> {
    let command = command_line::command(words.first()?);
    let lines = || ALL.iter().filter_map(|it| it.command_line.as_ref());
    let line = lines().find(|line| line.commands.contains(&command))?;
    // A program that named itself, or is named by its script, says it already.
    let what = (command_line::command(process) == command).then(|| line.runs(words))?;
    what.filter(|what| what != process)
}

/// The limit on its own pace that a program was given, by its command line: the option with its value.
pub fn own_limit(words: &[&str]) -> Option<String> {
    let command = command_line::command(words.first()?);
    let all = ALL.iter().flat_map(|it| it.own_limits);
    all.filter(|it| it.commands.contains(&command)).find_map(|it| it.set_by(words))
}

/// Collectors that are known by their functions.
pub fn collectors() -> impl Iterator<Item = &'static Collector> {
    ALL.iter().filter_map(|it| it.collector.as_ref())
}

/// The function of a stack that takes a connection of a pool. It makes one itself, too: what its thread waits for says which.
pub fn takes_connection(frames: &[UserFrame]) -> Option<&UserFrame> {
    let is_it = |frame: &&UserFrame| {
        let mut tables = ALL.iter().map(|it| it.functions.connections);
        !frame.function.is_empty() && tables.any(|names| is_one_of(&frame.function, names))
    };
    frames.iter().find(is_it)
}

/// The function of a stack in which a program that was started so waits for a debugger.
pub fn awaits_debugger(frames: &[UserFrame]) -> Option<&UserFrame> {
    let is_it = |frame: &&UserFrame| {
        let mut tables = ALL.iter().map(|it| it.functions.debugger);
        !frame.function.is_empty() && tables.any(|names| is_one_of(&frame.function, names))
    };
    frames.iter().find(is_it)
}

/// Whether it is a function of a script.
pub fn is_script(frame: &UserFrame) -> bool {
    !frame.function.is_empty() && SCRIPTS.iter().any(|end| frame.module.ends_with(end))
}

/// Whether it is a function of what extends a script's language.
pub fn is_extension(frame: &UserFrame) -> bool {
    ALL.iter().flat_map(|it| it.files.extensions).any(|part| frame.module.contains(part))
}

/// Whether its file is a script of a language's own library.
pub fn is_own_library(frame: &UserFrame) -> bool {
    ALL.iter().flat_map(|it| it.files.library).any(|start| frame.module.starts_with(start))
}

/// Whether its file or its path says that it is of a library or an interpreter, and says nothing about a program.
pub fn is_library(frame: &UserFrame) -> bool {
    let (name, file) = (frame.function.as_str(), frame.module.as_str());
    ALL.iter().map(|it| &it.files).any(|its| {
        its.plumbing_whole.contains(&file)
            || its.plumbing.iter().any(|start| file.starts_with(start))
            || its.plumbing_paths.iter().any(|start| name.starts_with(start))
    })
}

/// Whether it waits for a child in a function of its language's own library, where the program's have no names.
pub fn waits_for_child_in(frame: &UserFrame) -> bool {
    let its = (frame.function.as_str(), frame.module.as_str());
    ALL.iter().any(|it| it.files.child.contains(&its))
}

/// Whether it is an engine's function below a server's handler, which sleeps for a row of its own table of locks.
pub fn is_engine(frame: &UserFrame) -> bool {
    let mut begins = ALL.iter().map(|it| it.functions.engine_begins).filter(|it| !it.is_empty());
    begins.any(|begin| frame.function.starts_with(begin))
}
