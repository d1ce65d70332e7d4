//! A load as a process of a trial: what is started for it in whatever language, and its figure while it runs.
//!
//! Owns how a file of `lab/load` becomes a process: compiled, or copied under a drawn name and given to its interpreter.
//! It is given the file of its figure by the environment and no other word of the lab.

use super::figure;
use crate::fault::{Ctx, Spawn, Started};
use crate::procfs;
use crate::scenario::{LoadSpec, fill_all};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A load that runs.
pub struct Running {
    /// The process.
    pub started: Started,
    figure: PathBuf,
}

/// What to start for a load.
pub fn command(ctx: &mut Ctx, spec: &LoadSpec, figure: &Path, finite: bool) -> Result<Spawn> {
    let mut arguments = fill_all(&spec.arguments, &ctx.variables)?;
    if finite {
        arguments.extend(fill_all(&spec.finite, &ctx.variables)?);
    }
    let mut spawn = Spawn {
        cgroups: fill_all(&spec.cgroups, &ctx.variables)?.into_iter().map(PathBuf::from).collect(),
        netns: spec.netns.as_deref().map(|name| ctx.fill(name)).transpose()?,
        ..Spawn::default()
    };
    spawn.environment.insert("FIGURE".into(), figure.to_string_lossy().into_owned());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("load").join(&spec.kind);
    match spec.language.as_str() {
        "rust" => {
            spawn.name = ctx.text("load_name")?;
            arguments.insert(0, spec.kind.clone());
        }
        "c" => {
            let binary = ctx.directory("bin")?.join(ctx.text("load_name")?);
            if !binary.exists() {
                let (source, target) = (file.to_string_lossy(), binary.to_string_lossy());
                ctx.tool("cc", &["-O1", "-g", "-pthread", "-o", &target, &source])?;
            }
            spawn.program = binary;
        }
        "go" => {
            let binary = ctx.directory("bin")?.join(ctx.text("load_name")?);
            if !binary.exists() {
                let (source, target) = (file.to_string_lossy(), binary.to_string_lossy());
                ctx.tool("go", &["build", "-o", &target, &source])?;
            }
            spawn.program = binary;
        }
        interpreter => {
            let script = ctx.directory("bin")?.join(ctx.text("load_name")?);
            fs::copy(&file, &script).with_context(|| format!("copy {}", file.display()))?;
            // Options of the machine come before the program.
            let options = arguments.iter().take_while(|it| it.starts_with('-')).count();
            let at = if interpreter == "java" { options } else { 0 };
            arguments.insert(at, script.to_string_lossy().into_owned());
            spawn.program = match interpreter {
                "java" => "/usr/bin/java".into(),
                "python" => "/usr/bin/python3".into(),
                other => PathBuf::from("/bin").join(other),
            };
        }
    }
    spawn.arguments = arguments;
    Ok(spawn)
}

/// Starts a load and sets `victim`, `victim_pid`.
pub fn start(ctx: &mut Ctx, spec: &LoadSpec) -> Result<Running> {
    start_with(ctx, spec, &[])
}

/// The same with more variables in its environment.
pub fn start_with(
    ctx: &mut Ctx,
    spec: &LoadSpec,
    variables: &[(String, String)],
) -> Result<Running> {
    let figure = ctx.scratch.join("figure");
    fs::remove_file(&figure).ok();
    let mut spawn = command(ctx, spec, &figure, false)?;
    spawn.environment.extend(variables.iter().cloned());
    let started = ctx.spawn(&spawn)?;
    ctx.set("victim", &started.name);
    ctx.set("victim_pid", started.pid);
    Ok(Running { started, figure })
}

/// The last of a long text.
fn last(text: &str) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(300)).collect()
}

impl Running {
    /// Operations done so far.
    pub fn done(&self) -> u64 {
        figure::read(&self.figure)
    }

    /// The process is there and no zombie.
    pub fn lives(&self) -> bool {
        procfs::start_time(self.started.pid) == Some(self.started.start_time)
            && procfs::state(self.started.pid) != Some('Z')
    }

    /// Ends it, and waits until it is gone.
    pub fn end(&self) -> Result<()> {
        procfs::end(self.started.pid, self.started.start_time)
    }

    /// Waits for the first operation.
    pub fn wait_ready(&self, ctx: &Ctx, limit: Duration) -> Result<()> {
        ctx.wait_for("first operation of the load", limit, || self.done() > 0).with_context(|| {
            format!("load {} ({}): {}", self.started.name, self.started.pid, self.errors(ctx))
        })
    }

    /// The last of what processes of this trial wrote to standard error.
    pub fn errors(&self, ctx: &Ctx) -> String {
        last(fs::read_to_string(ctx.scratch.join("stderr")).unwrap_or_default().trim())
    }

    /// Operations per second over a length of time.
    pub fn rate(&self, ctx: &Ctx, time: Duration) -> Result<f64> {
        let (begin, before) = (Instant::now(), self.done());
        ctx.sleep(time)?;
        let done = self.done().saturating_sub(before);
        Ok(done as f64 / begin.elapsed().as_secs_f64())
    }
}
