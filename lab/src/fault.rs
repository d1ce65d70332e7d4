//! What a fault is to the lab, and what it is given to make one.
//!
//! A fault has two halves. `set_up` makes the stage, which the healthy twin and the baseline need
//! as well: disks, file systems, cgroups without limits, servers that answer. `inject` adds the
//! one thing that is wrong. Both set variables: the scenario's truth names its things by them.
//! Faults hold no state of their own; what lives between the calls is in the variables and guards.
//!
//! Always set: `scratch` (a directory of this trial), `seed`; after the load starts `victim_pid`,
//! `victim` (its comm).

use crate::procfs;
use crate::scenario::{Variables, fill};
use crate::seeded_draw::Draw;
use crate::undo::{Guard, Guards, Journal, Undo};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One way to make something wrong.
pub trait Fault: Sync {
    /// `area.what`, as scenarios name it.
    fn name(&self) -> &'static str;

    /// Makes the stage, with nothing wrong.
    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards>;

    /// Makes it wrong. The guards make it right again, while the stage still stands.
    fn inject(&self, ctx: &mut Ctx) -> Result<Injected>;

    /// Whether the fault is there, by the kernel's own word and without holdup: a wait channel, a
    /// counter, a request timed. `Ok(None)`: there is nothing to look at but the load's figure.
    /// Called repeatedly until it gives `Some(true)` or time is up.
    fn bites(&self, _ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(None)
    }
}

/// A fault that stands. Its truth is in the variables of the context.
#[derive(Default)]
pub struct Injected {
    /// What takes it back.
    pub guards: Guards,
}

impl From<Guards> for Injected {
    fn from(guards: Guards) -> Self {
        Self { guards }
    }
}

/// The user asked to stop.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped by a signal")
    }
}

impl std::error::Error for Stopped {}

/// What a fault is given.
pub struct Ctx {
    /// Where changes are noted before they are made.
    pub journal: Arc<Journal>,
    /// The seed's choices.
    pub draw: Draw,
    /// A directory of this trial, removed at its end.
    pub scratch: PathBuf,
    /// The multi-call load program.
    pub load_exe: PathBuf,
    /// Parameters, and names as really made.
    pub variables: Variables,
    /// Set by SIGINT and SIGTERM.
    pub stop: Arc<AtomicBool>,
}

/// How a process is started.
#[derive(Default)]
pub struct Spawn {
    /// Program; empty for holdup-lab-load.
    pub program: PathBuf,
    /// Name to run the program under (its comm); empty for the program's own.
    pub name: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Environment to add.
    pub environment: BTreeMap<String, String>,
    /// Directories of cgroups to join before it runs.
    pub cgroups: Vec<PathBuf>,
    /// Network namespace to enter, by name.
    pub netns: Option<String>,
}

/// A process that the lab started.
pub struct Started {
    /// Its pid.
    pub pid: i32,
    /// Its start time.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Ends it, and its process group.
    pub guard: Guard,
}

impl Ctx {
    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.variables.insert(name.into(), value.to_string());
    }

    /// Reads a variable.
    pub fn text(&self, name: &str) -> Result<String> {
        self.variables.get(name).cloned().with_context(|| format!("{name} is not set"))
    }

    /// Reads a variable as a number.
    pub fn number(&self, name: &str) -> Result<f64> {
        let text = self.text(name)?;
        text.parse().with_context(|| format!("{name} is {text}, not a number"))
    }

    /// Reads a variable as a number, or gives another if it is not set.
    pub fn number_or(&self, name: &str, otherwise: f64) -> Result<f64> {
        if self.variables.contains_key(name) { self.number(name) } else { Ok(otherwise) }
    }

    /// Fills in a template.
    pub fn fill(&self, template: &str) -> Result<String> {
        fill(template, &self.variables)
    }

    /// Waits, unless the user asks to stop.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Stopped.into());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Waits until something is so; an error that names it if it does not become so in time.
    pub fn wait_for(
        &self,
        what: &str,
        limit: Duration,
        mut so: impl FnMut() -> bool,
    ) -> Result<()> {
        let until = Instant::now() + limit;
        while !so() {
            if Instant::now() > until {
                bail!("{what}: not within {:.1} s", limit.as_secs_f64());
            }
            self.sleep(Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// Runs a tool to its end and gives what it printed.
    pub fn tool<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Result<String> {
        let words = || {
            let args: Vec<_> = arguments.iter().map(|a| a.as_ref().to_string_lossy()).collect();
            format!("{program} {}", args.join(" "))
        };
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0)
            .output()
            .with_context(words)?;
        if !output.status.success() {
            bail!(
                "{}: {}: {}",
                words(),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    }

    /// Writes a value that is put back later.
    pub fn write_back_later(&self, path: &Path, value: &str) -> Result<Guard> {
        let guard = self.journal.guard(Undo::restore(path)?)?;
        fs::write(path, value).with_context(|| format!("write {value} to {}", path.display()))?;
        Ok(guard)
    }

    /// Makes a directory in the scratch directory (which is removed as a whole).
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.join(name);
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// Makes a cgroup of a v1 controller, below the root of its hierarchy.
    pub fn cgroup(&self, controller: &str, name: &str) -> Result<(PathBuf, Guard)> {
        let path = Path::new("/sys/fs/cgroup").join(controller).join(name);
        let guard = self.journal.guard(Undo::Cgroup { path: path.clone() })?;
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok((path, guard))
    }

    /// Starts a process in a process group of its own; it dies with the lab.
    pub fn spawn(&mut self, spawn: &Spawn) -> Result<Started> {
        let program = self.program_of(spawn)?;
        let mut command = match &spawn.netns {
            Some(netns) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", netns]).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        let errors =
            fs::OpenOptions::new().create(true).append(true).open(self.scratch.join("stderr"))?;
        command
            .args(&spawn.arguments)
            // The zone of who runs the lab is not the load's.
            .env_remove("TZ")
            .envs(&spawn.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .process_group(0);
        die_with_the_lab_in(&mut command, &spawn.cgroups);
        let child = start(&mut command).with_context(|| format!("start {}", program.display()))?;
        let pid = child.id().cast_signed();
        let start_time = procfs::start_time(pid).unwrap_or(0);
        let guard = self.journal.guard(Undo::Process { pid, start_time })?;
        let name =
            program.file_name().unwrap_or_default().to_string_lossy().chars().take(15).collect();
        Ok(Started { pid, start_time, name, guard })
    }

    /// The program under the name that was asked for: a link to it in the scratch directory.
    pub fn program_of(&self, spawn: &Spawn) -> Result<PathBuf> {
        let program = if spawn.program.as_os_str().is_empty() {
            self.load_exe.clone()
        } else {
            spawn.program.clone()
        };
        if spawn.name.is_empty() {
            return Ok(program);
        }
        let named = self.directory("bin")?.join(&spawn.name);
        if !named.exists() && fs::hard_link(&program, &named).is_err() {
            fs::copy(&program, &named).with_context(|| format!("copy {}", program.display()))?;
        }
        Ok(named)
    }
}

/// A program that was just copied is busy as long as somebody who forked meanwhile holds the copy open for writing.
fn start(command: &mut Command) -> std::io::Result<std::process::Child> {
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy
                    && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// In the child: ask for SIGKILL when the lab ends, and join the cgroups.
pub fn die_with_the_lab_in(command: &mut Command, cgroups: &[PathBuf]) {
    let files: Vec<PathBuf> = cgroups.iter().map(|c| c.join("cgroup.procs")).collect();
    // SAFETY: the closure runs between fork and exec of a process whose other threads (if any) hold
    // no lock that it takes: prctl is a bare system call, and writing a file needs no more than malloc.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            for file in &files {
                fs::write(file, "0")?;
            }
            Ok(())
        });
    }
}
