//! Processes by pid and start time: the lab ends only what it started.
//!
//! A pid alone may have been given to somebody else meanwhile, so nothing is ended whose start time is not
//! the one that was noted when it was started. Nothing here ends a process by name.

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

/// Fields of /proc/PID/stat after the comm, which may itself hold blanks and brackets.
fn stat_fields(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = text.rsplit_once(')')?.1;
    Some(rest.split_whitespace().map(String::from).collect())
}

/// Start time in clock ticks since boot: field 22 of /proc/PID/stat.
pub fn start_time(pid: i32) -> Option<u64> {
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// The state letter of the main thread.
pub fn state(pid: i32) -> Option<char> {
    stat_fields(pid)?.first()?.chars().next()
}

/// Where the kernel says that the main thread sleeps.
pub fn wait_channel(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default()
}

/// State and wait channel of every thread of a process and of the group that it leads.
pub fn whereabouts(pid: i32) -> Vec<String> {
    let place = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let state = stat.rsplit_once(')')?.1.split_whitespace().next()?.to_string();
        let channel = fs::read_to_string(thread.path().join("wchan")).unwrap_or_default();
        Some(format!("{state} {channel}"))
    };
    let family = std::iter::once(pid).chain(group_members(pid));
    let threads = family.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten();
    threads.filter_map(|thread| place(thread.ok()?)).collect()
}

/// Wait channels of all threads of the host in uninterruptible sleep; kernel threads left out
/// (those of interest wait on behalf of somebody who waits too).
pub fn uninterruptible() -> Vec<String> {
    let pids = all().into_iter();
    // Kernel threads are children of kthreadd, pid 2.
    let of_users =
        pids.filter(|pid| stat_fields(*pid).is_some_and(|f| f.get(1).is_some_and(|p| p != "2")));
    let threads =
        of_users.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten();
    let channel = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let blocked = stat.rsplit_once(')')?.1.trim_start().starts_with('D');
        blocked.then(|| fs::read_to_string(thread.path().join("wchan")).unwrap_or_default())
    };
    threads.filter_map(|thread| channel(thread.ok()?)).collect()
}

/// The name of the main thread.
pub fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().into()
}

/// Its nice value: field 19 of /proc/PID/stat.
pub fn nice(pid: i32) -> Option<i32> {
    stat_fields(pid)?.get(16)?.parse().ok()
}

/// All processes that descend from one, itself left out.
pub fn offspring(ancestor: i32) -> BTreeSet<i32> {
    let pids = all().into_iter();
    let parents: Vec<(i32, i32)> =
        pids.filter_map(|pid| Some((pid, stat_fields(pid)?.get(1)?.parse().ok()?))).collect();
    let mut found = BTreeSet::from([ancestor]);
    loop {
        let more: Vec<i32> = parents
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            found.remove(&ancestor);
            return found;
        }
        found.extend(more);
    }
}

/// CPU time used so far by all threads, in clock ticks.
pub fn cpu_ticks(pid: i32) -> Option<u64> {
    let fields = stat_fields(pid)?;
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// CPU time used so far by every process, in clock ticks, by pid and name.
pub fn cpu_of_processes() -> BTreeMap<(i32, String), u64> {
    let of = |pid: i32| Some(((pid, comm(pid)), cpu_ticks(pid)?));
    all().into_iter().filter_map(of).collect()
}

/// Processes in whose environment a variable has a value, the lab itself left out.
pub fn with_variable(variable: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{variable}={value}");
    let has_it = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes())
    };
    let own = std::process::id().cast_signed();
    all().into_iter().filter(|pid| *pid != own).filter(has_it).collect()
}

/// Every process.
fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Sends a signal; a process that is gone is no error.
pub fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Members of the process group that a process leads, itself left out. A pid is not given out again
/// while a group bears its number, so they are its offspring.
pub fn group_members(leader: i32) -> Vec<i32> {
    let pids = all().into_iter();
    let of_group = |pid: &i32| {
        *pid != leader
            && stat_fields(*pid).is_some_and(|f| f.get(2).is_some_and(|g| *g == leader.to_string()))
    };
    pids.filter(of_group).collect()
}

/// Kills a process with the group that it leads and waits until it is gone; children of the lab
/// are reaped.
pub fn end(pid: i32, start: u64) -> Result<()> {
    if pid <= 1 || start_time(pid).is_some_and(|now| now != start) {
        return Ok(());
    }
    for member in group_members(pid) {
        signal(member, Signal::SIGKILL);
    }
    for round in 0..300 {
        if start_time(pid) != Some(start) {
            return Ok(());
        }
        if round % 50 == 0 {
            signal(pid, Signal::SIGKILL);
            for member in group_members(pid) {
                signal(member, Signal::SIGKILL);
            }
        }
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        if start_time(pid) != Some(start) || (state(pid) == Some('Z') && round > 20) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("process {pid} does not end (state {:?}, in {})", state(pid), wait_channel(pid))
}
