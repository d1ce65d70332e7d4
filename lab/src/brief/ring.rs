//! What whoever watched has left: the ring's recordings with their answers, its events, and its lines.
//!
//! Each recording is asked anew, so that what counts is what it says in the morning. Must not: judge.

use anyhow::{Context, Result, bail};
use holdup_reason::answer::{Finding, Report, Severity};
use std::path::Path;
use std::process::{Command, Stdio};

/// A window that was saved.
pub(super) struct Window {
    /// Its recording.
    pub file: String,
    pub begin_unix_ns: u64,
    pub end_unix_ns: u64,
    /// What its recording says, above a note.
    pub findings: Vec<Finding>,
}

/// Something that somebody was told.
pub(super) struct Alarm {
    pub event: String,
    pub title: String,
    pub since_unix_ns: u64,
    pub at_unix_ns: u64,
}

/// All of it.
pub(super) struct Saved {
    pub windows: Vec<Window>,
    pub alarms: Vec<Alarm>,
    /// Lines that are no event.
    pub said: Vec<String>,
}

impl Saved {
    /// Of a state folder, and of what was written to standard output.
    pub(super) fn read(program: &Path, state: &Path, said: &Path) -> Result<Self> {
        let mut windows = Vec::new();
        let ring = std::fs::read_dir(state.join("ring")).into_iter().flatten();
        for path in ring.flatten().map(|it| it.path()) {
            if path.extension().is_some_and(|it| it == "hup") {
                windows.push(window(program, &path)?);
            }
        }
        windows.sort_by_key(|it| it.begin_unix_ns);
        let said = std::fs::read_to_string(said)?;
        let is_event = |line: &&str| {
            ["BEGAN", "CHANGED", "ENDED", "COMES"].iter().any(|word| line.starts_with(word))
        };
        let said = said.lines().filter(|it| !is_event(it)).map(String::from).collect();
        Ok(Self { windows, alarms: alarms(state)?, said })
    }
}

fn window(program: &Path, recording: &Path) -> Result<Window> {
    let output = Command::new(program)
        .arg("--from")
        .arg(recording)
        .arg("--json")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    if !output.status.success() {
        bail!("{}: {}", recording.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    let report: Report = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the answer of {}", recording.display()))?;
    let begin_unix_ns = report.window.begin_unix_ns;
    Ok(Window {
        file: recording.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        begin_unix_ns,
        end_unix_ns: begin_unix_ns + (report.window.seconds * 1e9) as u64,
        findings: report.findings.into_iter().filter(|it| it.severity > Severity::Note).collect(),
    })
}

/// The events of `findings-DAY.jsonl` that say a trouble.
fn alarms(state: &Path) -> Result<Vec<Alarm>> {
    let mut alarms = Vec::new();
    let files = std::fs::read_dir(state)?.flatten().map(|it| it.path());
    for path in files.filter(|path| path.extension().is_some_and(|it| it == "jsonl")) {
        for line in std::fs::read_to_string(&path)?.lines() {
            let line: serde_json::Value = serde_json::from_str(line)?;
            let text = |at: &serde_json::Value| at.as_str().unwrap_or_default().to_string();
            let number = |name: &str| line[name].as_u64().unwrap_or(0);
            let event = text(&line["event"]);
            if event != "ended" {
                alarms.push(Alarm {
                    event,
                    title: text(&line["finding"]["title"]),
                    since_unix_ns: number("since_unix_ns"),
                    at_unix_ns: number("at_unix_ns"),
                });
            }
        }
    }
    alarms.sort_by_key(|it| it.at_unix_ns);
    Ok(alarms)
}
