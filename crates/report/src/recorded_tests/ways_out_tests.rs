//! No way out of any recording acts on a process that is gone, or on another that has its number.
//!
//! Reads what a person would: every command, undo and sentence of the JSON, and the text with -v. Who is there at the end is decided here once
//! more, from the facts alone and not by the reasoning: whoever is not known to have ended, and is the last that had the number.
//!
//! Rejected: looking at typed actions only (a command without one would pass).

use crate::text;
use crate::text::page::Page;
use holdup_reason::answer::{Action, Report};
use holdup_reason::facts::{Body, Fact, Ns, ThreadRef};
use std::collections::{BTreeMap, BTreeSet};

/// By process id, the start of whoever has it last, as far as it is known.
#[derive(Default)]
pub(super) struct AtEnd {
    begun: BTreeMap<u32, Ns>,
    /// The same of every thread, by its own id.
    threads: BTreeMap<u32, Ns>,
    ended: BTreeSet<u32>,
}

impl AtEnd {
    pub(super) fn of(facts: &[Fact]) -> Self {
        let mut all = Self::default();
        let mut ends: Vec<(u32, Ns)> = Vec::new();
        for fact in facts {
            match &fact.body {
                Body::Exit(exit) => {
                    all.seen(&exit.thread);
                    let whole =
                        exit.last || exit.code.is_none() && exit.thread.tid == exit.thread.pid;
                    ends.extend(whole.then_some((exit.thread.pid, fact.at_ns)));
                }
                Body::CommandEnd(end) => ends.push((end.pid, fact.at_ns)),
                Body::Thread(thread) => all.seen(&thread.thread),
                Body::ThreadTime(time) => all.seen(&time.thread),
                Body::Wait(wait) => {
                    all.seen(&wait.thread);
                    wait.wake.iter().for_each(|wake| all.seen(&wake.by));
                }
                Body::Blocked(blocked) => all.seen(&blocked.thread),
                Body::Ran(ran) => all.seen(&ran.thread),
                Body::Exec(exec) => all.seen(&exec.thread),
                Body::Fork(fork) => {
                    all.seen(&fork.parent);
                    all.seen(&fork.child);
                }
                _ => {}
            }
        }
        for (pid, at_ns) in ends {
            // Whoever began after it is another.
            if all.begun.get(&pid).is_none_or(|begun| *begun <= at_ns) {
                all.ended.insert(pid);
            }
        }
        all
    }

    fn seen(&mut self, thread: &ThreadRef) {
        let own = self.threads.entry(thread.tid).or_default();
        *own = (*own).max(thread.start_ns);
        let begun = self.begun.entry(thread.pid).or_default();
        if thread.tid == thread.pid {
            *begun = (*begun).max(thread.start_ns);
        }
    }

    fn has(&self, pid: u32) -> bool {
        self.begun.contains_key(&pid) && !self.ended.contains(&pid)
    }
}

/// The processes that a command names: behind a word that takes them, and below /proc.
fn named(command: &str) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    for (at, _) in command.match_indices("/proc/") {
        let digits = command[at + 6..].chars().take_while(char::is_ascii_digit);
        all.extend(digits.collect::<String>().parse::<u32>());
    }
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || "();'\"`$|&".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let has = |any: &[&str]| any.iter().any(|it| words.contains(it));
    // To these -p is a port, or a list of CPUs or a priority, after which the process comes last.
    let is_port = has(&["psql", "redis-cli", "mariadb", "mysql", "dig"]);
    let is_last = has(&["taskset", "chrt"]);
    let takes = ["-p", "--pid", "-t", "pid", "attach", "jcmd"];
    let mut of_kill = false;
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let Ok(pid) = word.parse::<u32>() else {
            of_kill = *word == "kill" || (of_kill && word.starts_with('-'));
            let pid = word.strip_prefix("pid=").and_then(|pid| pid.parse::<u32>().ok());
            all.extend(pid);
            continue;
        };
        let behind = takes.contains(&before) && !is_port && !is_last;
        if of_kill || behind || (is_last && at + 1 == words.len()) {
            all.insert(pid);
        }
    }
    all
}

#[test]
fn commands_are_read_as_a_shell_would() {
    let of = |command: &str| Vec::from_iter(named(command));
    assert_eq!(of("strace -f -p 7 -e trace=read"), [7]);
    assert_eq!(of("kill -KILL 20 21"), [20, 21]);
    assert_eq!(of("cat /proc/7/task/8/stack"), [7]);
    assert_eq!(of("taskset -a -c -p 0-1 77"), [77]);
    assert_eq!(of("nsenter -t 9 -n tc qdisc replace dev lo root fq"), [9]);
    assert_eq!(of("prlimit --pid 10 --nofile=128:"), [10]);
    assert_eq!(of("renice -n 19 -p $(ls /proc/10/task)"), [10]);
    assert!(of("echo 60000 > /sys/fs/cgroup/a/cpu.max").is_empty());
    assert_eq!(of("ss -tlnp | grep pid=7   # then"), [7]);
}

/// What each way out says to do: its commands, with what a person calls them.
fn commands(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for finding in &report.findings {
        for way in &finding.remedy {
            all.extend([way.command.clone(), way.undo.clone()]);
        }
    }
    for end in &report.answer.ends {
        all.push(end.ask.clone());
        // A clause names a command in brackets.
        all.extend(end.why_open.iter().flat_map(|why| why.split('(').skip(1)).map(String::from));
    }
    all
}

fn actions(report: &Report) -> impl Iterator<Item = &Action> {
    let ways = report.findings.iter().flat_map(|finding| &finding.remedy);
    let ends = report.answer.ends.iter().filter_map(|end| end.ask_action.as_ref());
    ways.filter_map(|way| way.action.as_ref()).chain(ends)
}

/// The lines of the text that say what to do.
fn printed(report: &Report) -> Vec<String> {
    let mut page = Page::new(400, false);
    text::report(report, true, &mut page);
    let text = page.finish();
    let mut all = Vec::new();
    let mut within = false;
    for line in text.lines() {
        let label = line.trim_start().split("  ").next().unwrap_or_default();
        within = match label {
            "do" | "or" | "ask" | "undo" => true,
            _ => within && line.starts_with("       "),
        };
        if within {
            all.push(line.to_string());
        }
    }
    all
}

#[test]
fn no_way_out_acts_on_who_is_gone() {
    let mut wrong = Vec::new();
    let (mut checked, mut typed) = (0, 0);
    for recorded in super::all() {
        let (at_end, report) = (&recorded.at_end, &recorded.explained.report);
        let stem = recorded.path.file_stem().and_then(|name| name.to_str());
        let name = stem.expect("a name").to_string();
        for said in commands(report).into_iter().chain(printed(report)) {
            for pid in named(&said) {
                checked += 1;
                if !at_end.has(pid) {
                    wrong.push(format!("{name}: {pid} is gone: {}", said.trim()));
                }
            }
        }
        for process in actions(report).flat_map(|action| &action.target.processes) {
            typed += 1;
            let begun = match process.tid {
                Some(tid) => at_end.threads.get(&tid),
                None => at_end.begun.get(&process.pid),
            };
            let begun = begun.copied().unwrap_or_default();
            // /proc rounds a start down to a tick.
            let same = process.start_ns == 0 || process.start_ns.abs_diff(begun) < 20_000_000;
            if !at_end.has(process.pid) || !same {
                wrong.push(format!("{name}: an action on {process:?}"));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{} ways out:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 50 && typed > 20, "only {checked} commands and {typed} actions");
}
