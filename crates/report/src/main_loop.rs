//! A look or a replay as the command line has it: signals, progress, a recording on the side, then a report.
//!
//! How facts become a report is the engine's; what a command line adds stands here. Must not: read facts.

use crate::export::{self, Format};
use crate::failure::Failure;
use crate::job::Aim;
use crate::output::{Beside, Output};
use crate::page;
use crate::progress::Progress;
use crate::signals;
use crate::slow_start::SlowStart;
use crate::text::escape;
use crate::watch::ring;
use crate::watch::settings;
use holdup_engine::{Collected, collect, narrow};
use holdup_probe::recording::{Reader, Writer};
use holdup_probe::session::Session;
use holdup_reason::Explained;
use holdup_reason::answer::export::Export;
use holdup_reason::answer::picture::Picture;
use holdup_reason::answer::{Report, compare};
use holdup_reason::model::Model;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a shell says of a command that it cannot find, or not start.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Columns of the name of a container that is looked at.
const NAME_WIDTH: usize = 40;

/// The answer, and what drawing it takes if it is to be drawn.
pub(crate) struct Answered {
    /// The answer.
    pub report: Report,
    picture: Option<Picture>,
    export: Option<Export>,
}

impl Answered {
    /// What drawing it takes, if it is to be drawn.
    #[cfg(test)]
    pub(crate) fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    /// What other tools can show of it, if that was wanted.
    #[cfg(test)]
    pub(crate) fn exported(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// Writes the page.
    pub(crate) fn draw(&self, to: Output) -> Result<(), Failure> {
        let Some(picture) = &self.picture else { return Ok(()) };
        to.raw(&page::render(&self.report, picture)?)
    }

    /// Writes a file for another tool.
    pub(crate) fn export(&self, format: Format, to: Output) -> Result<(), Failure> {
        let Some(export) = &self.export else { return Ok(()) };
        let parent = std::env::var("TRACEPARENT").ok();
        to.raw(&export::render(format, &self.report, export, parent.as_deref())?)
    }

    /// Writes what is wanted beside the answer.
    pub(crate) fn deliver(&self, beside: Beside) -> Result<(), Failure> {
        beside.page.map_or(Ok(()), |to| self.draw(to))?;
        beside.export.map_or(Ok(()), |(format, to)| self.export(format, to))
    }
}

/// What a live look gave.
pub(crate) struct Looked {
    /// The answer.
    pub answered: Answered,
    /// The command's own status as a shell reports it, if a command was looked at.
    pub command_status: Option<i32>,
    /// Why the recording could not be written to its end, if it could not: the look went on without it.
    pub unrecorded: Option<Failure>,
}

impl Looked {
    /// Says where the recording is, on a terminal only: it is no part of the report.
    pub(crate) fn remind(&self, recording: Option<&Path>) {
        if let Some(path) = recording
            && self.unrecorded.is_none()
            && std::io::stderr().is_terminal()
        {
            let word = escape::shell_word(&escape::line(&path.display().to_string()));
            let _ = writeln!(
                std::io::stderr(),
                "\nRecorded. The same answer again: holdup --from {word}"
            );
        }
    }
}

/// Looks at this host.
pub(crate) fn look(
    aim: Aim,
    seconds: Option<f64>,
    record: Option<&Path>,
    wanted: holdup_reason::Beside,
) -> Result<Looked, Failure> {
    let Observed { model, command_status, unrecorded } = observe(aim, seconds, record)?;
    Ok(Looked { answered: explain(model, wanted), command_status, unrecorded })
}

/// The facts of a look at this host.
pub(crate) fn facts_of_host(seconds: f64) -> Result<Model, Failure> {
    Ok(observe(Aim::Host, Some(seconds), None)?.model)
}

/// The facts of a look, and what came of the rest of it.
struct Observed {
    model: Model,
    command_status: Option<i32>,
    unrecorded: Option<Failure>,
}

fn observe(aim: Aim, seconds: Option<f64>, record: Option<&Path>) -> Result<Observed, Failure> {
    if let Aim::Command(words) = &aim {
        find_command(words)?;
    }
    let writer = record.map(Writer::create).transpose()?;
    let (whom, is_command) = (whom(&aim), matches!(aim, Aim::Command(_)));
    let slow_start = (!is_command).then(SlowStart::start);
    let session = Session::start(&aim, seconds).map_err(|error| {
        // It holds nothing but a header; what stood there before is gone in any case.
        if let Some(path) = record.filter(|path| path.is_file()) {
            let _ = std::fs::remove_file(path);
        }
        if is_command { not_executed(error.into()) } else { error.into() }
    })?;
    drop(slow_start);
    // Taking the kernel programs off may take longer than the answer: that is done when the process ends.
    let mut session = ManuallyDrop::new(session);
    let stop = session.stopper();
    if is_command {
        signals::outlive(&session.command_stopper())
    } else {
        signals::end_early(&stop)
    }
    .map_err(|error| Failure::look(format!("cannot catch signals: {error}"), ""))?;
    let mut progress = match seconds {
        Some(seconds) => Progress::start(&whom, seconds),
        None => Progress::none(),
    };
    let collected = collect(&mut *session, writer, &mut || progress.tick());
    let collected = collected.map_err(Failure::from);
    let collected = if is_command { collected.map_err(not_executed) } else { collected };
    drop(progress);
    let command_status = is_command.then(|| session.exit_status().unwrap_or(0));
    let Collected { model, recorded } = collected?;
    let unrecorded = recorded.and_then(Result::err).map(Failure::from);
    Ok(Observed { model, command_status, unrecorded })
}

/// Answers from a recording.
pub(crate) fn replay(
    file: &Path,
    aim: &Aim,
    wanted: holdup_reason::Beside,
) -> Result<Answered, Failure> {
    Ok(explain(facts_of(file, aim)?, wanted))
}

/// The answer of a recording. Unlike that of a look that ends the program, its facts are freed.
pub(crate) fn report_of(file: &Path, aim: &Aim) -> Result<Report, Failure> {
    Ok(holdup_reason::explain_model(&mut facts_of(file, aim)?))
}

/// Answers from a recording, ready to be compared with another.
pub(crate) fn look_again(file: &Path) -> Result<compare::Look, Failure> {
    Ok(holdup_reason::look_at_model(&mut facts_of(file, &Aim::Host)?))
}

/// The model is not freed piece by piece (of a host's threads it has some hundred thousand): the process ends once it
/// has answered, and the kernel takes all at once.
fn explain(model: Model, wanted: holdup_reason::Beside) -> Answered {
    let mut model = ManuallyDrop::new(model);
    let Explained { report, picture, export, .. } =
        holdup_reason::explain_beside(&mut model, wanted);
    Answered { report, picture, export }
}

/// Opens a recording, or of a time the one that was saved of it (`ring:21:14`).
pub(crate) fn open(file: &Path) -> Result<Reader, Failure> {
    match file.to_str().and_then(|name| name.strip_prefix("ring:")) {
        Some(time) => {
            let saved = ring::recording(&settings::state()?, time)?;
            Ok(holdup_engine::open(&saved)?)
        }
        None => Ok(holdup_engine::open(file)?),
    }
}

/// All facts of a recording, for whom it is to answer.
pub(crate) fn facts_of(file: &Path, aim: &Aim) -> Result<Model, Failure> {
    let mut reader = open(file)?;
    let mut model = collect::<File>(&mut reader, None, &mut || ())?.model;
    narrow(&mut model, aim).map_err(|why| not_in(file, &why.to_string()))?;
    Ok(model)
}

/// Why a recording does not answer for somebody.
pub(crate) fn not_in(file: &Path, why: &str) -> Failure {
    let file = file.display();
    let advice = "Without -p, -c, pid or container it answers for what was looked at.";
    Failure::look(format!("cannot answer from {file}: {why}"), advice)
}

/// Who is looked at, in words.
pub(crate) fn whom(aim: &Aim) -> String {
    match aim {
        Aim::Host => "this host".into(),
        Aim::Process(pid) => format!("process {pid}"),
        Aim::Container(name) => format!("container {}", escape::name(name, NAME_WIDTH)),
        Aim::Command(words) => {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        }
    }
}

/// A file that is found and executable, and yet is not executed: a script whose interpreter is missing,
/// a program of another machine. The kernel says so only when it is tried.
fn not_executed(failure: Failure) -> Failure {
    /// errno of execve on what is no program.
    const ENOEXEC: i32 = 8;
    let Some(error) = failure.cause() else { return failure };
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    match kinds.contains(&error.kind()) || error.raw_os_error() == Some(ENOEXEC) {
        true => failure
            .with_status(NOT_EXECUTABLE)
            .advise("Look at its first line: the interpreter must exist and be executable."),
        false => failure,
    }
}

/// Fails as a shell does, before anything is attached, if there is no such command.
fn find_command(words: &[OsString]) -> Result<(), Failure> {
    let Some(name) = words.first() else {
        return Err(Failure::usage("no command to run"));
    };
    let candidates: Vec<PathBuf> = if name.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        std::env::split_paths(&path).map(|folder| folder.join(name)).collect()
    };
    let modes: Vec<u32> = candidates
        .iter()
        .filter_map(|file| std::fs::metadata(file).ok())
        .filter(|meta| meta.is_file())
        .map(|meta| meta.permissions().mode())
        .collect();
    let shown = escape::shell_word(&name.to_string_lossy());
    if modes.iter().any(|mode| mode & 0o111 != 0) {
        return Ok(());
    }
    let (why, status) = match modes.is_empty() {
        true => ("there is no such command", NOT_FOUND),
        false => ("it is not executable", NOT_EXECUTABLE),
    };
    Err(Failure::look(format!("cannot run {shown}: {why}"), "").with_status(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_probe::SourceError;

    #[test]
    fn what_cannot_be_executed_is_reported_as_a_shell_reports_it() {
        let failed = |error| {
            let error = SourceError::System { doing: "execute x".into(), error };
            not_executed(error.into()).status
        };
        assert_eq!(failed(io::Error::from_raw_os_error(8)), NOT_EXECUTABLE);
        assert_eq!(failed(io::ErrorKind::NotFound.into()), NOT_EXECUTABLE);
        assert_eq!(failed(io::ErrorKind::OutOfMemory.into()), crate::failure::COULD_NOT_LOOK);
    }

    #[test]
    fn commands_are_found_as_a_shell_finds_them() {
        let status = |word: &str| find_command(&[word.into()]).err().map(|it| it.status);
        assert_eq!(status("sh"), None);
        assert_eq!(status("/no/such/command"), Some(NOT_FOUND));
        assert_eq!(status("/etc/passwd"), Some(NOT_EXECUTABLE));
        assert_eq!(status("/etc"), Some(NOT_FOUND));
    }
}
