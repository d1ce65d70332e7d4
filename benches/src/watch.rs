//! What looking all the time takes on an idle host, beside what else is run all the time.
//!
//! `holdup watch` as shipped and its peers, one after another over the same 2,000 sleeping threads and 100 groups, each for as long, begin and
//! end left out. A peer's CPU time is that of its process and of all below it; its work in the kernel for others is not seen, holdup's is (BPF
//! statistics). node_exporter does nothing unless it is asked, so it is asked as often as a window of holdup's lasts. Must not: compare what
//! they say, which is not the same.
//!
//! Rejected: one that is quiet as it ends (a window is answered then). Edit together: goals.rs, table.rs.

use crate::child::{Ctx, Running, words};
use crate::counted::{Spent, busy_seconds};
use crate::growth::{cgroups, own_load};
use crate::kernel::{statistics, sum};
use crate::results::Daemon;
use crate::say;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Threads and groups of the host.
const THREADS: usize = 2_000;
const GROUPS: usize = 100;
/// Between two readings of a peer: a window of holdup's, as shipped.
const EVERY: Duration = Duration::from_secs(10);
/// As shipped, a window on a host that was quiet for a minute lasts three times as long: so many whole ones are measured, from then on.
const UNTIL_QUIET: Duration = Duration::from_secs(60);
/// Ticks a second of /proc/PID/stat (USER_HZ).
const TICKS: f64 = 100.0;
/// Where node_exporter is asked.
const EXPORTER: &str = "127.0.0.1:19100";

/// A program that is run all the time.
struct Peer {
    name: &'static str,
    /// As it is started; `FILE` stands for a file in the scratch folder.
    command: &'static [&'static str],
    /// It is asked here each time.
    asked_at: Option<&'static str>,
}

const PEERS: &[Peer] = &[
    Peer {
        name: "node_exporter",
        command: &["prometheus-node-exporter", "--web.listen-address=127.0.0.1:19100"],
        asked_at: Some(EXPORTER),
    },
    Peer { name: "atop -w", command: &["atop", "-w", "FILE", "10"], asked_at: None },
    Peer {
        name: "netdata",
        command: &["netdata", "-D", "-W", "set", "web", "mode", "none"],
        asked_at: None,
    },
];

/// Each of them on the same host, for so many windows.
pub fn all(ctx: &Ctx, windows: u32) -> Result<Vec<Daemon>> {
    let _groups = cgroups(ctx, GROUPS)?;
    let _load = own_load(ctx, &["sleepers", &THREADS.to_string()])?;
    let mut found = vec![
        holdup(ctx, "holdup watch", &[], (UNTIL_QUIET, windows))?,
        holdup(ctx, "holdup watch --window 10s", &["--window", "10s"], (EVERY, windows))?,
    ];
    for peer in PEERS {
        ctx.check_interrupted()?;
        found.push(of_peer(ctx, peer, windows).unwrap_or_else(|error| Daemon {
            name: peer.name.into(),
            refusal: Some(format!("{error:#}")),
            ..Daemon::default()
        }));
    }
    Ok(found)
}

fn holdup(ctx: &Ctx, name: &str, flags: &[&str], of: (Duration, u32)) -> Result<Daemon> {
    let (begins_after, windows) = of;
    let _on = statistics(ctx)?;
    let state = ctx.path(&format!("state{}", flags.concat()));
    let watch = [&*ctx.holdup.to_string_lossy(), "watch", "--state", &*state.to_string_lossy()];
    let running = ctx.start(&words(&[&watch[..], flags].concat()))?;
    // What loading takes is not of the first whole window.
    until_said(ctx, &running, "watching")?;
    ctx.sleep(begins_after + Duration::from_secs(2))?;
    let (spent, busy, written) =
        (Spent::since(running.pid)?, busy_seconds()?, written(running.pid)?);
    ctx.sleep(EVERY * windows)?;
    let (seconds, cpu_seconds, programs) = spent.until_now()?;
    let others = busy_seconds()? - busy - cpu_seconds;
    let written_bytes = self::written(running.pid)? - written;
    let said = running.output();
    let ended = running.interrupt(ctx, Duration::from_secs(30))?;
    let found = Daemon {
        name: name.into(),
        threads: THREADS,
        cgroups: GROUPS,
        seconds,
        cpu_seconds,
        bpf_seconds: sum(&programs).0,
        others_seconds: others.max(0.0),
        rss_bytes: ended.rss_bytes,
        written_bytes,
        alarms: said.lines().filter(|line| line.starts_with("BEGAN")).count() as u64,
        refusal: None,
    };
    report(&found);
    Ok(found)
}

fn of_peer(ctx: &Ctx, peer: &Peer, windows: u32) -> Result<Daemon> {
    let file = ctx.path(peer.name.split(' ').next().unwrap_or_default());
    let named = |word: &&str| match *word {
        "FILE" => file.to_string_lossy().into_owned(),
        word => word.to_string(),
    };
    let command: Vec<String> = peer.command.iter().map(named).collect();
    let running = ctx.start(&command)?;
    ctx.sleep(EVERY)?;
    ask(peer)?;
    let (began, busy) = (Tree::of(running.pid)?, busy_seconds()?);
    let since = std::time::Instant::now();
    for _ in 0..windows {
        ctx.sleep(EVERY)?;
        ask(peer)?;
    }
    let (seconds, now) = (since.elapsed().as_secs_f64(), Tree::of(running.pid)?);
    let cpu_seconds = now.cpu_seconds - began.cpu_seconds;
    let found = Daemon {
        name: peer.name.into(),
        threads: THREADS,
        cgroups: GROUPS,
        seconds,
        cpu_seconds,
        others_seconds: (busy_seconds()? - busy - cpu_seconds).max(0.0),
        rss_bytes: now.rss_bytes,
        written_bytes: now.written_bytes.saturating_sub(began.written_bytes),
        ..Daemon::default()
    };
    running.interrupt(ctx, Duration::from_secs(30))?;
    report(&found);
    Ok(found)
}

fn report(daemon: &Daemon) {
    say(&format!(
        "  {}: {:.3} % of a core, {:.1} MB",
        daemon.name,
        daemon.share() * 100.0,
        daemon.rss_bytes as f64 / 1e6
    ));
}

fn until_said(ctx: &Ctx, running: &Running, word: &str) -> Result<()> {
    const TRIES: u32 = 400;
    for _ in 0..TRIES {
        if running.output().contains(word) {
            return Ok(());
        }
        ctx.sleep(Duration::from_millis(50))?;
    }
    bail!("it does not say that it watches")
}

/// Has it read what it reads.
fn ask(peer: &Peer) -> Result<()> {
    let Some(address) = peer.asked_at else { return Ok(()) };
    let mut stream = TcpStream::connect(address).context("ask it")?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.0 200") {
        bail!("it answers {}", String::from_utf8_lossy(&answer[..answer.len().min(40)]));
    }
    Ok(())
}

/// Bytes that a process has given to write(2).
fn written(pid: i32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar:"));
    line.and_then(|word| word.trim().parse().ok()).context("/proc/PID/io has no wchar")
}

/// A process and all below it.
#[derive(Default)]
struct Tree {
    cpu_seconds: f64,
    rss_bytes: u64,
    written_bytes: u64,
}

impl Tree {
    fn of(pid: i32) -> Result<Self> {
        let mut parents = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Ok(of) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            parents.extend(numbers(&stat).and_then(|numbers| Some((of, *numbers.get(1)? as i32))));
        }
        let mut all = vec![pid];
        let mut at = 0;
        while let Some(of) = all.get(at).copied() {
            all.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(child, _)| child));
            at += 1;
        }
        let mut tree = Self::default();
        for of in all {
            tree.add(of);
        }
        if tree.cpu_seconds == 0.0 && !Path::new(&format!("/proc/{pid}")).exists() {
            bail!("it has ended");
        }
        Ok(tree)
    }

    fn add(&mut self, pid: i32) {
        let read =
            |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        // utime, stime and those of the children that it waited for.
        const TIMES: std::ops::Range<usize> = 11..15;
        if let Some(times) = numbers(&read("stat")).as_deref().and_then(|all| all.get(TIMES)) {
            self.cpu_seconds += times.iter().sum::<f64>() / TICKS;
        }
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            resident.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        self.rss_bytes += kilobytes.unwrap_or(0) * 1024;
        self.written_bytes += written(pid).unwrap_or(0);
    }
}

/// The numbers of /proc/PID/stat from the state on, which is none: the parent is at 1.
fn numbers(stat: &str) -> Option<Vec<f64>> {
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split(' ').map(|word| word.trim().parse().unwrap_or(0.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_what_its_children_took() {
        let stat = "7 (a b) c) S 3 7 7 0 -1 0 1 2 3 4 50 25 10 5 20 0 1 0 9 9 9";
        let all = numbers(stat).unwrap();
        assert_eq!((all[1], all[11..15].iter().sum::<f64>()), (3.0, 90.0));
        let own = std::process::id().cast_signed();
        let tree = Tree::of(own).unwrap();
        assert!(tree.rss_bytes > 0);
        assert!(Tree::of(i32::MAX).is_err());
    }
}
