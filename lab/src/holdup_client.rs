//! holdup as a black box: a program that is started, prints JSON, and ends.
//!
//! It gets no hint: no label, no time, no baseline, and an environment without the lab's words.

use crate::fault::{Ctx, Stopped, die_with_the_lab_in};
use anyhow::{Context, Result, bail};
use holdup_reason::answer::Report;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Where the binary is.
#[derive(Debug, Clone)]
pub struct Holdup {
    /// The program.
    pub program: PathBuf,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What it printed, read.
    pub report: Report,
    /// From its start to its end (it prints once, at the end).
    pub seconds: f64,
}

impl Holdup {
    /// Runs holdup with `arguments`, and with a command for it to run if there is one. Waits at most
    /// `limit`. Nothing goes through a pipe of the lab: one that is read late would be a wait.
    pub fn ask(
        &self,
        ctx: &Ctx,
        arguments: &[String],
        command_line: &[String],
        environment: &[(String, String)],
        limit: Duration,
    ) -> Result<Answer> {
        let (out, err) = (ctx.scratch.join("answer.json"), ctx.scratch.join("answer.err"));
        std::fs::remove_file(&out).ok();
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--json", "-o"]).arg(&out);
        if !command_line.is_empty() {
            command.arg("--").args(command_line);
        }
        command
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&err)?)
            .process_group(0);
        die_with_the_lab_in(&mut command, &[]);
        let begin = Instant::now();
        let mut child =
            command.spawn().with_context(|| format!("start {}", self.program.display()))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let stopped = ctx.stop.load(Ordering::Relaxed);
            if stopped || begin.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                if stopped {
                    return Err(Stopped.into());
                }
                bail!("no answer within {:.0} s", limit.as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let seconds = begin.elapsed().as_secs_f64();
        let report = read_report(&out).with_context(|| {
            let errors = std::fs::read_to_string(&err).unwrap_or_default();
            format!("holdup {}: {status}: {}", arguments.join(" "), last_lines(&errors))
        })?;
        Ok(Answer { report, seconds })
    }

    /// Replays a recording.
    pub fn replay(&self, ctx: &Ctx, recording: &Path) -> Result<Answer> {
        let arguments = ["--from".into(), recording.to_string_lossy().into_owned()];
        self.ask(ctx, &arguments, &[], &[], Duration::from_secs(60))
    }
}

fn read_report(path: &Path) -> Result<Report> {
    let text = std::fs::read(path).context("it wrote no answer")?;
    serde_json::from_slice(&text).context("its JSON is not a report")
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

/// What differs between a live answer and its replay; empty if nothing does. Cost and tool are of
/// the observing run and are compared too: a recording must carry them.
pub fn differences(live: &Report, replayed: &Report) -> Result<Vec<String>> {
    let (live, replayed) = (serde_json::to_value(live)?, serde_json::to_value(replayed)?);
    let mut different = Vec::new();
    compare("", &live, &replayed, &mut different);
    Ok(different)
}

fn compare(path: &str, a: &serde_json::Value, b: &serde_json::Value, different: &mut Vec<String>) {
    use serde_json::Value::{Array, Object};
    match (a, b) {
        (Object(a), Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let null = serde_json::Value::Null;
                compare(
                    &format!("{path}.{key}"),
                    a.get(key).unwrap_or(&null),
                    b.get(key).unwrap_or(&null),
                    different,
                );
            }
        }
        (Array(a), Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{at}]"), a, b, different);
            }
        }
        _ if a == b => {}
        _ => different.push(path.trim_start_matches('.').into()),
    }
}
