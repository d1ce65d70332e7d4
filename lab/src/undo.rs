//! Nothing that the lab makes outlives it: every change to the host is written to a journal before
//! it is made, and undone by a guard when the guard is dropped, whatever the reason.
//!
//! A journal is a file of JSON lines under [`JOURNAL_DIR`], one per run: an action to undo with a
//! number, and later `done` with that number. A run that was killed leaves lines that are not done;
//! [`clean`] undoes them, last first. Undoing must therefore bear that the thing is gone already,
//! or was never made. Rejected: scanning for things that look like the lab's (a pattern would one
//! day match somebody else's).
//!
//! The field, which is Python, writes journals of the same form and has `holdup-lab undo` take them back ([`undo_after`]).
//!
//! Edit together: README.md (what `clean` undoes), lab/field/harness/lab.py (who writes them too).

use crate::procfs;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where the journals lie.
pub const JOURNAL_DIR: &str = "/run/holdup-lab";

/// How to take one change back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "snake_case")]
pub enum Undo {
    /// End a process, if pid and start time are still the same one.
    Process {
        /// Its pid.
        pid: i32,
        /// Field 22 of /proc/PID/stat.
        start_time: u64,
    },
    /// End every process in whose environment a variable has a value: whatever a case of the field has started, and what that has.
    Marked {
        /// The variable.
        variable: String,
        /// Its value, of this run alone.
        value: String,
    },
    /// Unmount a path; lazily if it is busy.
    Mount {
        /// The mount point.
        path: PathBuf,
    },
    /// Detach the loop devices that stand on a backing file.
    Loop {
        /// The backing file.
        backing: PathBuf,
    },
    /// Move the members of a cgroup to its parent and remove it, with the groups in it.
    Cgroup {
        /// Its directory.
        path: PathBuf,
    },
    /// Write a value back: a sysctl, or a control file of a cgroup.
    Write {
        /// The file.
        path: PathBuf,
        /// What it held.
        value: String,
    },
    /// Thaw a frozen file system.
    Thaw {
        /// Where it is mounted.
        path: PathBuf,
    },
    /// Continue a stopped process.
    Continue {
        /// Its pid.
        pid: i32,
        /// Field 22 of /proc/PID/stat.
        start_time: u64,
    },
    /// Remove a file or a whole directory of the lab's own.
    Remove {
        /// The path.
        path: PathBuf,
    },
    /// Delete a network namespace by name.
    Netns {
        /// Its name.
        name: String,
    },
    /// Run a command, for what the others cannot say (a qdisc, a link, a route).
    Command {
        /// Program and arguments.
        words: Vec<String>,
    },
}

impl Undo {
    /// The action that ends this process.
    pub fn process(pid: i32) -> Self {
        Self::Process { pid, start_time: procfs::start_time(pid).unwrap_or(0) }
    }

    /// The action that writes back what a file holds now.
    pub fn restore(path: &Path) -> Result<Self> {
        let value = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self::Write { path: path.into(), value: value.trim_end().into() })
    }

    /// Takes the change back; that it is gone already is no error.
    pub fn apply(&self) -> Result<()> {
        match self {
            Self::Process { pid, start_time } => procfs::end(*pid, *start_time),
            Self::Marked { variable, value } => end_marked(variable, value),
            Self::Mount { path } => unmount(path),
            Self::Loop { backing } => detach_loops(backing),
            Self::Cgroup { path } => remove_cgroup(path),
            Self::Write { path, value } if path.exists() => {
                fs::write(path, value).with_context(|| format!("write {}", path.display()))
            }
            Self::Thaw { path } => quiet("fsfreeze", &["-u", &path.to_string_lossy()]),
            Self::Continue { pid, start_time } => {
                if procfs::start_time(*pid) == Some(*start_time) {
                    procfs::signal(*pid, nix::sys::signal::Signal::SIGCONT);
                }
                Ok(())
            }
            Self::Remove { path } if path.is_dir() => {
                fs::remove_dir_all(path).with_context(|| format!("remove {}", path.display()))
            }
            Self::Remove { path } if path.exists() => {
                fs::remove_file(path).with_context(|| format!("remove {}", path.display()))
            }
            Self::Netns { name } if Path::new("/run/netns").join(name).exists() => {
                quiet("ip", &["netns", "del", name])
            }
            Self::Command { words } => match words.split_first() {
                Some((program, arguments)) => {
                    quiet(program, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
                }
                None => Ok(()),
            },
            Self::Write { .. } | Self::Remove { .. } | Self::Netns { .. } => Ok(()),
        }
    }
}

/// Runs a command whose failure means that there was nothing left to undo.
fn quiet(program: &str, arguments: &[&str]) -> Result<()> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("run {program}"))?;
    Ok(())
}

/// Again and again, for one that is being ended may just have started another.
fn end_marked(variable: &str, value: &str) -> Result<()> {
    for _ in 0..20 {
        let left = procfs::with_variable(variable, value);
        if left.is_empty() {
            return Ok(());
        }
        for pid in left {
            procfs::end(pid, procfs::start_time(pid).unwrap_or(0))?;
        }
    }
    anyhow::bail!("processes with {variable}={value} do not end")
}

fn unmount(path: &Path) -> Result<()> {
    use nix::mount::{MntFlags, umount2};
    for _ in 0..40 {
        match umount2(path, MntFlags::empty()) {
            Ok(()) => {}
            Err(nix::errno::Errno::EBUSY) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => return Ok(()),
        }
    }
    // Still busy after two seconds: out of sight now, gone when the last user is.
    let _ = umount2(path, MntFlags::MNT_DETACH);
    Ok(())
}

fn detach_loops(backing: &Path) -> Result<()> {
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let named = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let named = named.trim_end().trim_end_matches(" (deleted)");
        if Path::new(named) == backing {
            let node = Path::new("/dev").join(entry.file_name());
            quiet("losetup", &["-d", &node.to_string_lossy()])?;
        }
    }
    Ok(())
}

fn remove_cgroup(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let frozen = path.join("freezer.state");
    if frozen.exists() {
        fs::write(&frozen, "THAWED").ok();
    }
    let parent = path.parent().unwrap_or(path).join("cgroup.procs");
    // Groups that a load made in it, and had no time to remove.
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    for group in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_cgroup(&group.path())?;
    }
    for _ in 0..40 {
        let members = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        for member in members.split_whitespace() {
            fs::write(&parent, member).ok();
        }
        if fs::remove_dir(path).is_ok() || !path.exists() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("{} still has members", path.display())
}

/// One line of a journal.
#[derive(Serialize, Deserialize)]
struct Line {
    number: u64,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    undo: Option<Undo>,
    #[serde(default)]
    done: bool,
}

/// The journal of this run.
pub struct Journal {
    path: PathBuf,
    file: Mutex<(fs::File, u64)>,
    standing: Mutex<BTreeMap<u64, Undo>>,
}

impl Journal {
    /// Opens the journal of this process in `dir`.
    pub fn open(dir: &Path) -> Result<Arc<Self>> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let pid = std::process::id();
        let start = procfs::start_time(pid.cast_signed()).unwrap_or(0);
        let path = dir.join(format!("journal-{pid}-{start}"));
        let file = fs::File::create(&path).with_context(|| format!("make {}", path.display()))?;
        let standing = Mutex::default();
        Ok(Arc::new(Self { path, file: Mutex::new((file, 0)), standing }))
    }

    fn append(&self, line: impl FnOnce(u64) -> Line) -> Result<u64> {
        let mut held = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        held.1 += 1;
        let line = line(held.1);
        let number = line.number;
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        held.0.write_all(&text)?;
        Ok(number)
    }

    /// Notes how a change that is about to be made (or, for a process, was just made) is taken
    /// back, and gives the guard that will do so.
    pub fn guard(self: &Arc<Self>, undo: Undo) -> Result<Guard> {
        let number =
            self.append(|number| Line { number, undo: Some(undo.clone()), done: false })?;
        self.of_standing().insert(number, undo.clone());
        Ok(Guard { number, undo, journal: Arc::clone(self), armed: true })
    }

    fn of_standing(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Undo>> {
        self.standing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What is not undone yet, in the order in which it was made.
    pub fn standing(&self) -> Vec<Undo> {
        self.of_standing().values().cloned().collect()
    }

    /// Removes the journal's file; call it when every guard is gone. What would not go stays in it, for the next run.
    pub fn close(&self) {
        if self.standing().is_empty() {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Takes one change back when it is dropped.
#[must_use = "dropping a guard undoes the change at once"]
pub struct Guard {
    number: u64,
    undo: Undo,
    journal: Arc<Journal>,
    armed: bool,
}

impl Guard {
    /// Undoes now and says what went wrong.
    pub fn undo_now(mut self) -> Result<()> {
        self.run()
    }

    fn run(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.armed) {
            return Ok(());
        }
        self.undo.apply()?;
        let number = self.number;
        self.journal.of_standing().remove(&number);
        self.journal.append(|_| Line { number, undo: None, done: true })?;
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = self.run() {
            crate::warn(&format!("could not undo {:?}: {error:#}", self.undo));
        }
    }
}

/// Guards that are undone last first.
#[derive(Default)]
pub struct Guards(Vec<Guard>);

impl Guards {
    /// No guard yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one more.
    pub fn push(&mut self, guard: Guard) {
        self.0.push(guard);
    }

    /// Takes all of another, which are then undone first.
    pub fn append(&mut self, mut other: Guards) {
        self.0.append(&mut other.0);
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// Undoes what runs that are no more have left in `dir`; gives what was undone and what could not be.
pub fn clean(dir: &Path) -> Result<(Vec<Undo>, Vec<String>)> {
    let (mut undone, mut failed) = (Vec::new(), Vec::new());
    let Ok(entries) = fs::read_dir(dir) else { return Ok((undone, failed)) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(owner) = name.strip_prefix("journal-").and_then(|n| n.split_once('-')) else {
            continue;
        };
        let (pid, start) = (owner.0.parse::<i32>().unwrap_or(0), owner.1.parse::<u64>().ok());
        if start.is_some() && procfs::start_time(pid) == start && procfs::state(pid) != Some('Z') {
            continue;
        }
        let before = failed.len();
        for (_, undo) in left_open(&fs::read_to_string(&path)?) {
            match undo.apply() {
                Ok(()) => undone.push(undo),
                Err(error) => failed.push(format!("{undo:?}: {error:#}")),
            }
        }
        if failed.len() == before {
            fs::remove_file(&path)?;
        }
    }
    Ok((undone, failed))
}

/// Undoes what a journal has behind a number, last first, and writes down that it is done; gives what could not be undone.
pub fn undo_after(journal: &Path, after: u64) -> Result<Vec<String>> {
    let text = fs::read_to_string(journal).with_context(|| journal.display().to_string())?;
    let mut file = fs::File::options().append(true).open(journal)?;
    let mut failed = Vec::new();
    for (number, undo) in left_open(&text).into_iter().filter(|(number, _)| *number > after) {
        match undo.apply() {
            Ok(()) => {
                let line = serde_json::to_string(&Line { number, undo: None, done: true })?;
                file.write_all(format!("{line}\n").as_bytes())?;
            }
            Err(error) => failed.push(format!("{undo:?}: {error:#}")),
        }
    }
    Ok(failed)
}

/// The actions of a journal that were not done, with their numbers, last first. A last line that was cut is passed over.
fn left_open(text: &str) -> Vec<(u64, Undo)> {
    let lines: Vec<Line> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let done: std::collections::HashSet<u64> =
        lines.iter().filter(|l| l.done).map(|l| l.number).collect();
    lines
        .into_iter()
        .rev()
        .filter(|l| !l.done && !done.contains(&l.number))
        .filter_map(|l| Some((l.number, l.undo?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("holdup-lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn guards_undo_last_first_even_when_unwinding() {
        let dir = scratch("guards");
        let journal = Journal::open(&dir.join("j")).unwrap();
        let file = dir.join("value");
        fs::write(&file, "first\n").unwrap();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut guards = Guards::new();
            guards.push(journal.guard(Undo::restore(&file).unwrap()).unwrap());
            fs::write(&file, "second").unwrap();
            guards.push(journal.guard(Undo::restore(&file).unwrap()).unwrap());
            fs::write(&file, "third").unwrap();
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn clean_undoes_what_a_dead_run_left_and_spares_the_living() {
        let dir = scratch("clean");
        let (left, stays) = (dir.join("left"), dir.join("stays"));
        fs::write(&left, "").unwrap();
        fs::write(&stays, "").unwrap();
        let line = |n: u64, path: &Path| {
            serde_json::to_string(&Line {
                number: n,
                undo: Some(Undo::Remove { path: path.into() }),
                done: false,
            })
            .unwrap()
        };
        let journals = dir.join("j");
        let own = Journal::open(&journals).unwrap();
        let guard = own.guard(Undo::Remove { path: stays.clone() }).unwrap();
        assert_eq!(own.standing(), vec![Undo::Remove { path: stays.clone() }]);
        fs::write(
            journals.join("journal-1-999999999"),
            format!(
                "{}\n{}\n{{\"number\":2,\"done\":true}}\n{{\"numb",
                line(1, &left),
                line(2, &stays)
            ),
        )
        .unwrap();
        let (undone, failed) = clean(&journals).unwrap();
        assert_eq!(undone, vec![Undo::Remove { path: left.clone() }]);
        assert!(failed.is_empty());
        assert!(!left.exists() && stays.exists());
        drop(guard);
        assert!(!stays.exists() && own.standing().is_empty());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_journal_of_another_is_undone_from_a_number_on_and_remembers_it() {
        let dir = scratch("after");
        let (first, second) = (dir.join("first"), dir.join("second"));
        fs::write(&first, "").unwrap();
        fs::write(&second, "").unwrap();
        let journal = dir.join("journal");
        let line = |number: u64, path: &Path| {
            format!("{{\"number\": {number}, \"undo\": \"remove\", \"path\": {path:?}}}\n")
        };
        fs::write(&journal, line(1, &first) + &line(2, &second)).unwrap();
        assert!(undo_after(&journal, 1).unwrap().is_empty());
        assert!(first.exists() && !second.exists());
        fs::write(&second, "").unwrap();
        assert!(undo_after(&journal, 0).unwrap().is_empty());
        assert!(!first.exists() && second.exists(), "what is done is not done again");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_marked_process_is_ended_and_no_other() {
        let value = format!("of-test-{}", std::process::id());
        let start = |value: &str| {
            Command::new("sleep").arg("60").env("HOLDUP_LAB_MARK", value).spawn().unwrap()
        };
        let (mut marked, mut other) = (start(&value), start("another"));
        // posix_spawn returns within the execution of a program, whose environment can be read a little later (create_elf_tables).
        while procfs::with_variable("HOLDUP_LAB_MARK", &value).is_empty() {
            assert!(marked.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        Undo::Marked { variable: "HOLDUP_LAB_MARK".into(), value }.apply().unwrap();
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        // It may still be ending; and the lab reaps what it ends, so that there may be nothing left to wait for.
        let ended = marked.wait();
        assert!(ended.is_err() || ended.is_ok_and(|status| status.signal().is_some()));
    }
}
