//! The one event loop: a source of facts, perhaps a recording on the side, then a report.
//!
//! Live and recorded facts take the same path from `collect` on, so what a scenario proves of one
//! holds for the other. Narrowing a recording of a host to one process or container is done here by
//! replacing its target, for the same reason. Rejected: all facts in a vector first (each takes the room of the
//! largest, twice over while they are indexed).

use crate::export::{self, Format};
use crate::failure::Failure;
use crate::job::Aim;
use crate::output::{Beside, Output};
use crate::page;
use crate::progress::Progress;
use crate::signals;
use crate::slow_start::SlowStart;
use crate::text::escape;
use holdup_probe::recording::{Reader, Writer};
use holdup_probe::session::Session;
use holdup_probe::{Source, SourceError};
use holdup_reason::Explained;
use holdup_reason::answer::export::Export;
use holdup_reason::answer::picture::Picture;
use holdup_reason::answer::{Report, compare};
use holdup_reason::facts::{Body, Fact, Lost, Ns, Target, TargetKind};
use holdup_reason::model::Model;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Facts held at once; a look of the default rate and the longest window stays far below. Beyond
/// it single events are dropped, and counted, while sums and readings go on.
const FACTS_MAX: usize = 4_000_000;

/// Room for the facts of a tick that is kept from one to the next; the first and the last have many more.
const BATCH_FACTS: usize = 1_000;

/// What a shell says of a command that it cannot find, or not start.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The answer, and what drawing it takes if it is to be drawn.
pub struct Answered {
    /// The answer.
    pub report: Report,
    picture: Option<Picture>,
    export: Option<Export>,
}

impl Answered {
    /// What drawing it takes, if it is to be drawn.
    #[cfg(test)]
    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    /// What other tools can show of it, if that was wanted.
    #[cfg(test)]
    pub fn exported(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// Writes the page.
    pub fn draw(&self, to: Output) -> Result<(), Failure> {
        let Some(picture) = &self.picture else { return Ok(()) };
        to.raw(&page::render(&self.report, picture)?)
    }

    /// Writes a file for another tool.
    pub fn export(&self, format: Format, to: Output) -> Result<(), Failure> {
        let Some(export) = &self.export else { return Ok(()) };
        let parent = std::env::var("TRACEPARENT").ok();
        to.raw(&export::render(format, &self.report, export, parent.as_deref())?)
    }

    /// Writes what is wanted beside the answer.
    pub fn deliver(&self, beside: Beside) -> Result<(), Failure> {
        beside.page.map_or(Ok(()), |to| self.draw(to))?;
        beside.export.map_or(Ok(()), |(format, to)| self.export(format, to))
    }
}

/// What a live look gave.
pub struct Looked {
    /// The answer.
    pub answered: Answered,
    /// The command's own status as a shell reports it, if a command was looked at.
    pub command_status: Option<i32>,
    /// Why the recording could not be written to its end, if it could not: the look went on without it.
    pub unrecorded: Option<Failure>,
}

impl Looked {
    /// Says where the recording is, on a terminal only: it is no part of the report.
    pub fn remind(&self, recording: Option<&Path>) {
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
pub fn look(
    aim: Aim,
    seconds: Option<f64>,
    record: Option<&Path>,
    wanted: holdup_reason::Beside,
) -> Result<Looked, Failure> {
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
    let collected = collect(&mut *session, writer, &mut progress);
    let collected = if is_command { collected.map_err(not_executed) } else { collected };
    drop(progress);
    let command_status = is_command.then(|| session.exit_status().unwrap_or(0));
    let Collected { model, unrecorded } = collected?;
    Ok(Looked { answered: explain(model, wanted), command_status, unrecorded })
}

/// Answers from a recording.
pub fn replay(file: &Path, aim: &Aim, wanted: holdup_reason::Beside) -> Result<Answered, Failure> {
    let mut reader = open(file)?;
    let Collected { mut model, .. } = collect(&mut reader, None, &mut Progress::none())?;
    retarget(&mut model, aim, file)?;
    Ok(explain(model, wanted))
}

/// Answers from a recording, ready to be compared with another.
pub fn look_again(file: &Path) -> Result<compare::Look, Failure> {
    let mut reader = open(file)?;
    let Collected { mut model, .. } = collect(&mut reader, None, &mut Progress::none())?;
    Ok(holdup_reason::look_at_model(&mut model))
}

/// The model is not freed piece by piece (of a host's threads it has some hundred thousand): the process ends once it
/// has answered, and the kernel takes all at once.
fn explain(model: Model, wanted: holdup_reason::Beside) -> Answered {
    let mut model = ManuallyDrop::new(model);
    let Explained { report, picture, export } = holdup_reason::explain_beside(&mut model, wanted);
    Answered { report, picture, export }
}

/// Opens a recording, and says plainly what it cannot be.
pub fn open(file: &Path) -> Result<Reader, Failure> {
    let what = match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => "it is a directory",
        Ok(meta) if meta.is_file() && meta.len() == 0 => "it is empty",
        _ => return Ok(Reader::open(file)?),
    };
    let path = file.display().to_string();
    Err(SourceError::Recording { path, what: what.into() }.into())
}

/// The facts of a source.
struct Collected {
    model: Model,
    /// See [`Looked::unrecorded`].
    unrecorded: Option<Failure>,
}

/// All facts of a source, indexed and copied to a recording as they come. A full disk ends the recording, not the look.
fn collect(
    source: &mut dyn Source,
    mut writer: Option<Writer>,
    progress: &mut Progress,
) -> Result<Collected, Failure> {
    let mut gathered = Gathered::default();
    let mut batch = Vec::new();
    let mut unrecorded = None;
    loop {
        let more = source.drain(&mut batch)?;
        if let Some(open) = &mut writer
            && let Err(error) = open.write(&batch)
        {
            (writer, unrecorded) = (None, Some(error));
        }
        batch.drain(..).for_each(|fact| gathered.take(fact));
        batch.shrink_to(BATCH_FACTS);
        progress.tick();
        if !more {
            break;
        }
    }
    if let Some(writer) = writer {
        unrecorded = writer.finish().err();
    }
    Ok(Collected { model: gathered.model(), unrecorded: unrecorded.map(Failure::from) })
}

/// The facts that are held, up to a limit.
#[derive(Default)]
struct Gathered {
    model: Model,
    count: usize,
    dropped: u64,
    at_ns: Ns,
}

impl Gathered {
    fn take(&mut self, fact: Fact) {
        let single = matches!(fact.body, Body::Wait(_) | Body::Ran(_) | Body::Request(_));
        if self.count >= if single { FACTS_MAX } else { 2 * FACTS_MAX } {
            self.dropped += 1;
            return;
        }
        self.count += 1;
        self.at_ns = fact.at_ns;
        self.model.push(fact);
    }

    /// All of them, and what had to go.
    fn model(mut self) -> Model {
        if self.dropped > 0 {
            let lost = Lost { source: "too_many_facts".into(), count: self.dropped };
            self.model.push(Fact { at_ns: self.at_ns, body: Body::Lost(lost) });
        }
        self.model
    }
}

/// Lets a recording of a host answer for one of its processes or containers.
fn retarget(model: &mut Model, aim: &Aim, file: &Path) -> Result<(), Failure> {
    if *aim == Aim::Host {
        return Ok(());
    }
    let Some(recorded) = model.look.target.clone() else {
        return Err(not_in(file, "it does not say whom it looked at"));
    };
    let wanted = match aim {
        Aim::Process(pid) => process_in(model, *pid),
        Aim::Container(name) => container_in(model, name),
        Aim::Host | Aim::Command(_) => None,
    };
    let Some(wanted) = wanted else {
        return Err(not_in(file, &format!("{} is not in it", whom(aim))));
    };
    if recorded.kind != TargetKind::Host && recorded != wanted {
        let same = recorded.kind == wanted.kind && recorded.pid == wanted.pid;
        if same && (recorded.name == wanted.name || recorded.pid != 0) {
            return Ok(());
        }
        let kind = kind_word(recorded.kind);
        return Err(not_in(file, &format!("it looked at {kind} {} only", recorded.name)));
    }
    model.look.target = Some(wanted);
    Ok(())
}

fn process_in(model: &Model, pid: u32) -> Option<Target> {
    let sums =
        || model.threads.times.iter().map(|time| &time.thread).find(|thread| thread.tid == pid);
    let thread = model.threads.by_id.get(&pid).map(|it| &it.thread).or_else(sums)?;
    let name = thread.comm.clone();
    Some(Target { kind: TargetKind::Process, name, pid, cgroups: Vec::new(), words: Vec::new() })
}

fn container_in(model: &Model, name: &str) -> Option<Target> {
    let containers = || model.containers.all.iter();
    let exact = containers().find(|it| it.name == name || it.id == name);
    let mut by_id = containers().filter(|it| it.id.starts_with(name));
    // Reported at both ends of a look, it is still one.
    let first = by_id.next();
    let found = exact.or_else(|| first.filter(|it| by_id.all(|other| other.id == it.id)))?;
    Some(Target {
        kind: TargetKind::Container,
        name: found.name.clone(),
        pid: 0,
        cgroups: found.cgroups.clone(),
        words: Vec::new(),
    })
}

fn not_in(file: &Path, why: &str) -> Failure {
    let file = file.display();
    let advice = "Without -p, -c, pid or container it answers for what was looked at.";
    Failure::look(format!("cannot answer from {file}: {why}"), advice)
}

fn whom(aim: &Aim) -> String {
    match aim {
        Aim::Host => "this host".into(),
        Aim::Process(pid) => format!("process {pid}"),
        Aim::Container(name) => format!("container {name}"),
        Aim::Command(words) => {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        }
    }
}

fn kind_word(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Host => "host",
        TargetKind::Container => "container",
        TargetKind::Process => "process",
        TargetKind::Command => "command",
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
    use holdup_reason::facts::{Container, Thread, ThreadRef};

    fn host_recording() -> Model {
        let target = Target {
            kind: TargetKind::Host,
            name: "web".into(),
            pid: 0,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        let thread = Thread {
            thread: ThreadRef { tid: 812, pid: 812, start_ns: 1, comm: "nginx".into() },
            ..Thread::default()
        };
        let container = |name: &str, id: &str| {
            let cgroups = vec![format!("/docker/{id}")];
            Container { name: name.into(), id: id.into(), cgroups, ..Container::default() }
        };
        let mut model = Model::default();
        for body in [
            Body::Target(target),
            Body::Thread(thread),
            Body::Container(container("web-1", "3f2a9c")),
            Body::Container(container("web-2", "3f77aa")),
            Body::Container(container("web-1", "3f2a9c")),
        ] {
            model.push(Fact { at_ns: 0, body });
        }
        model
    }

    fn target(model: &Model) -> &Target {
        model.look.target.as_ref().expect("it has one")
    }

    #[test]
    fn a_recording_of_a_host_answers_for_its_parts() {
        let file = Path::new("x.hup");
        let mut model = host_recording();
        retarget(&mut model, &Aim::Process(812), file).expect("812 is in it");
        assert_eq!((target(&model).name.as_str(), target(&model).pid), ("nginx", 812));
        let mut model = host_recording();
        retarget(&mut model, &Aim::Container("3f2".into()), file).expect("3f2 is unique");
        assert_eq!(target(&model).cgroups, ["/docker/3f2a9c"]);
        for wrong in [Aim::Process(813), Aim::Container("3f".into())] {
            assert!(retarget(&mut host_recording(), &wrong, file).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_recording_of_a_process_answers_for_no_other() {
        let mut model = host_recording();
        let file = Path::new("x.hup");
        retarget(&mut model, &Aim::Process(812), file).expect("812 is in it");
        assert!(retarget(&mut model, &Aim::Container("web-1".into()), file).is_err());
        assert!(retarget(&mut model, &Aim::Process(812), file).is_ok());
    }

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
