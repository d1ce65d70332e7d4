//! Is the printed way out one? It is run while the fault stands, and the load is asked.
//!
//! The first command of the right finding that changes something is run as root by a shell under a
//! timeout; half of the load's loss must come back. Then its own undo is run, and what it touched must
//! read as before. What may be touched is decided in [`plan`]. Whatever is written is journalled first, so
//! that a lab that is killed in between leaves nothing. Rejected: trying the second command when the first
//! does not help (the reader is told the first).
//!
//! Edit together: README.md (the rule as people read it).

pub mod plan;

use crate::fault::{Ctx, die_with_the_lab_in};
use crate::procfs;
use crate::trial::Tried;
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result, bail};
use holdup_reason::answer::Finding;
use plan::{Own, Plan, Touch};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The share of the loss that must come back.
pub const ENOUGH: f64 = 0.5;

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Variables that a load is started with.
pub type Variables = Vec<(String, String)>;

/// The command of a finding that is tried.
#[derive(Debug, PartialEq)]
pub struct Chosen {
    command: String,
    undo: String,
    /// What it changes; nothing if it holds only for what is started anew.
    touched: Vec<Touch>,
    /// What the load is then started anew with.
    variables: Variables,
}

/// Which command of a finding the lab runs, and what it touches; or what became of it otherwise.
pub fn choose(finding: &Finding) -> Result<Chosen, Tried> {
    let printed = || finding.remedy.iter().filter(|way| !way.command.is_empty());
    for way in printed() {
        match plan::plan(&way.command) {
            Plan::Acts(touched) => {
                let (command, undo) = (way.command.clone(), way.undo.clone());
                return Ok(Chosen { command, undo, touched, variables: Vec::new() });
            }
            Plan::StartsAnew(variables) => {
                let (command, undo) = (way.command.clone(), way.undo.clone());
                return Ok(Chosen { command, undo, touched: Vec::new(), variables });
            }
            Plan::LooksOnly => {}
            Plan::Unclear(why) => {
                return Err(Tried::NotApplied { command: way.command.clone(), why });
            }
        }
    }
    Err(match printed().next() {
        Some(way) => Tried::LooksOnly { command: way.command.clone() },
        None => Tried::NoCommand,
    })
}

/// Gives the share of the loss that has come back, if a figure tells, and a note.
/// The load is started anew if variables are given.
pub type Measure<'a> = &'a mut dyn FnMut(&mut Ctx, &Variables) -> Result<(Option<f64>, String)>;

/// Runs the way out of a finding while the fault stands. `measure` is called
/// once the command has ended.
pub fn attempt(ctx: &mut Ctx, finding: &Finding, measure: Measure<'_>) -> Result<Tried> {
    let Chosen { command, undo, touched, variables } = match choose(finding) {
        Ok(chosen) => chosen,
        Err(tried) => return Ok(tried),
    };
    if !variables.is_empty() {
        let (recovered, remark) = measure(ctx, &variables)?;
        return Ok(Tried::Applied { command, recovered, remark, undone: None });
    }
    let touched: Vec<Touch> = touched.into_iter().map(resolved).collect();
    let own = own(ctx);
    if let Some(why) = touched.iter().find_map(|touch| own.refuses(touch)) {
        return Ok(Tried::NotApplied { command, why });
    }
    let mut guards = Guards::new();
    for touch in &touched {
        if let Touch::File(path) = touch
            && path.exists()
        {
            guards.push(ctx.journal.guard(Undo::restore(path)?)?);
        }
    }
    let before: Vec<String> = touched.iter().map(state).collect();
    let mut remarks = Vec::new();
    if let Err(error) = run(ctx, &command) {
        remarks.push(format!("it failed: {error:#}"));
    }
    let (recovered, remark) = measure(ctx, &variables)?;
    remarks.push(remark);
    let mut undone = None;
    if !undo.is_empty() {
        if let Err(error) = run(ctx, &undo) {
            remarks.push(format!("its undo failed: {error:#}"));
        }
        let back = wait_until_back(ctx, &touched, &before)?;
        undone = Some(back.is_none());
        remarks.extend(back.map(|what| format!("after `{undo}` the state is not back: {what}")));
    }
    drop(guards);
    remarks.retain(|remark| !remark.is_empty());
    Ok(Tried::Applied { command, recovered, remark: remarks.join("; "), undone })
}

/// A path by its canonical name: hierarchies of cgroups go by several.
fn resolved(touch: Touch) -> Touch {
    let canonical = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    match touch {
        // The link of a process's root reads as "/", and would lead to the host's own.
        Touch::File(path) if plan::root_of(&path).is_some() => Touch::File(path),
        Touch::File(path) => Touch::File(canonical(path)),
        Touch::Mount(path) => Touch::Mount(canonical(path)),
        other => other,
    }
}

/// What the scenario made, by its journal: processes with their offspring, groups, mounts, namespaces.
fn own(ctx: &Ctx) -> Own {
    let mut own =
        Own { pids: procfs::offspring(std::process::id().cast_signed()), ..Own::default() };
    let mut leaders = Vec::new();
    for undo in ctx.journal.standing() {
        match undo {
            Undo::Process { pid, start_time } if procfs::start_time(pid) == Some(start_time) => {
                leaders.push(pid);
            }
            Undo::Cgroup { path } => own.cgroups.push(fs::canonicalize(&path).unwrap_or(path)),
            Undo::Mount { path } => own.mounts.push(fs::canonicalize(&path).unwrap_or(path)),
            Undo::Netns { name } => own.netns.push(name),
            _ => {}
        }
    }
    // Who has lost its parent is still of the group that the lab started.
    own.pids.extend(leaders.iter().flat_map(|leader| procfs::group_members(*leader)));
    own.pids.extend(leaders);
    own.terminals = own.pids.iter().flat_map(|pid| terminals(*pid)).collect();
    own.foreign = ["/etc/resolv.conf", "/etc/hosts"]
        .iter()
        .filter_map(|path| plan::identity(Path::new(path)))
        .collect();
    own
}

/// Pseudo-terminals that a process holds open.
fn terminals(pid: i32) -> Vec<(u64, u64)> {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let paths = open.flatten().map(|entry| entry.path());
    paths
        .filter(|path| fs::read_link(path).is_ok_and(|to| to.starts_with("/dev/pts/")))
        .filter_map(|path| plan::identity(&path))
        .collect()
}

/// What a touched thing is like, in a text to compare.
fn state(touch: &Touch) -> String {
    match touch {
        Touch::Process(pid) => process_state(*pid),
        Touch::File(path) => fs::read_to_string(path).unwrap_or_default().trim().into(),
        // Whether a file system is frozen cannot be read; freezing what is frozen fails instead.
        Touch::Mount(_) => String::new(),
        Touch::Terminal(path) => {
            let mut command = Command::new("stty");
            command.arg("-F").arg(path).arg("-g");
            let output = command.stdin(Stdio::null()).output();
            output.map_or_else(|_| "unknown".into(), |o| String::from_utf8_lossy(&o.stdout).into())
        }
        Touch::Netns(name) => queues(&["-n", name]),
        Touch::NetnsOf(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["-t", &pid.to_string(), "-n", "tc", "qdisc", "show"]);
            queues_of(command)
        }
    }
}

fn process_state(pid: i32) -> String {
    let Some(letter) = procfs::state(pid) else { return "gone".into() };
    let stopped = if letter == 'T' { "stopped" } else { "not stopped" };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap_or("");
    // SAFETY: a plain system call that reads a number of a process; IOPRIO_WHO_PROCESS is 1.
    let io = unsafe { libc::syscall(libc::SYS_ioprio_get, 1, pid) };
    format!("{stopped}, nice {}, I/O {io:#x}, {allowed}", procfs::nice(pid).unwrap_or(0))
}

fn queues(place: &[&str]) -> String {
    let mut command = Command::new("tc");
    command.args(place).args(["qdisc", "show"]);
    queues_of(command)
}

/// Queues without the handles that the kernel draws, and without those that it adds by itself.
fn queues_of(mut command: Command) -> String {
    let Ok(output) = command.stdin(Stdio::null()).output() else { return "unknown".into() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let plain = |line: &str| {
        let words = line.split_whitespace().filter(|word| !word.ends_with(':'));
        words.filter(|word| *word != "refcnt" && *word != "2").collect::<Vec<_>>().join(" ")
    };
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// What is not as before within a second; none if all is.
fn wait_until_back(ctx: &Ctx, touched: &[Touch], before: &[String]) -> Result<Option<String>> {
    let until = Instant::now() + Duration::from_secs(1);
    loop {
        let now: Vec<String> = touched.iter().map(state).collect();
        let differs = now.iter().zip(before).find(|(now, before)| now != before);
        let Some((is, was)) = differs else { return Ok(None) };
        if Instant::now() > until {
            return Ok(Some(format!("it was [{was}], it is [{is}]")));
        }
        ctx.sleep(Duration::from_millis(50))?;
    }
}

/// Runs a command as a user would, in a shell, and waits for its end.
fn run(ctx: &Ctx, text: &str) -> Result<()> {
    let errors = ctx.scratch.join("remedy.err");
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors)?)
        .process_group(0);
    die_with_the_lab_in(&mut command, &[]);
    let mut child = command.spawn().context("start a shell")?;
    let until = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            let pid = child.id().cast_signed();
            procfs::end(pid, procfs::start_time(pid).unwrap_or(0))?;
            bail!("not over within {:.0} s", LIMIT.as_secs_f64());
        }
        ctx.sleep(Duration::from_millis(10))?;
    };
    if !status.success() {
        bail!("{status}: {}", last_line(&errors));
    }
    Ok(())
}

fn last_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().lines().last().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::answer::Remedy;

    fn finding(commands: &[&str]) -> Finding {
        let value = serde_json::json!({
            "code": "a.b", "title": "", "severity": "warning", "confidence": 1.0,
            "object": {"kind": "disk", "name": "x"}, "culprit": {"kind": "none", "name": ""},
            "victims": [], "impact": {"wait_seconds_per_second": 0.0, "share": 0.0}, "chain": [],
            "evidence": [], "remedy": [], "stories": []});
        let mut finding: Finding = serde_json::from_value(value).unwrap();
        finding.remedy =
            commands.iter().map(|c| Remedy { command: (*c).into(), ..Remedy::default() }).collect();
        finding
    }

    #[test]
    fn the_first_command_that_acts_is_chosen() {
        assert_eq!(choose(&finding(&["", ""])), Err(Tried::NoCommand));
        assert_eq!(
            choose(&finding(&["", "cat /x"])),
            Err(Tried::LooksOnly { command: "cat /x".into() })
        );
        assert_eq!(choose(&finding(&["cat /x", "kill 9", "kill 8"])).unwrap().command, "kill 9");
        let anew = choose(&finding(&["export A=b"])).unwrap();
        assert_eq!(anew.variables, [("A".to_string(), "b".to_string())]);
        assert!(matches!(choose(&finding(&["kill <pid>"])), Err(Tried::NotApplied { .. })));
    }

    #[test]
    fn this_process_is_as_it_was() {
        let own = process_state(std::process::id().cast_signed());
        assert!(own.starts_with("not stopped, nice "), "{own}");
        assert_eq!(process_state(i32::MAX), "gone");
    }
}
