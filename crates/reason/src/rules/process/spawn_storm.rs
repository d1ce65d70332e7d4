//! process.spawn_storm: a program does its work by processes that are gone at once, and starting them is most of it.
//!
//! Forks tell who began whom and how, exits that they are gone, the scheduler's sums what each has cost. A process that needs
//! no more CPU time than its own start takes did next to nothing else. Whoever began it is to blame, or, where that one is
//! such a process itself (a shell of system() or popen), whoever began that. What it spends inside fork and wait counts too.
//! Must not: count a process that worked (a compiler), or one that is still there. Rejected: the rate of forks alone (a
//! server that forks ten times a second is well).

use super::fork_cost;
use crate::facts::{Ns, ThreadRef};
use crate::graph::ends::{End, EndKind};
use crate::measure::Measures;
use crate::model::ThreadKey;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::own_time::Cost;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
/// Programs that are named one by one.
const NAMES_SHOWN_MAX: usize = 3;

static START_MAX: Threshold = Threshold::new(
    0.002,
    "s",
    "CPU time of a process, from its begin to its end: fork, exec, the dynamic linker and exit take about a millisecond; what \
     takes twice that did some work of its own",
    "reference machine: /bin/true from a shell, 0.6 ms; a shell of system(), 1.1 ms",
);
static COST_MIN: Threshold = Threshold::new(
    0.45,
    "s/s",
    "CPU time of all of them, and of who starts them in fork and wait; a program that runs a command now and then costs less, \
     and is well",
    "measured in the lab: a service that forks for each of 560 requests a second, 0.39; loops in a shell, 0.54 to 1.5",
);
static PART_MIN: Threshold = Threshold::new(
    0.4,
    "1",
    "of the CPU time of the starter and of all that it began; less is the price of how the work is done",
    "chosen: nearly half of it, as not all of what a start takes is seen (the page faults of the starter after a fork)",
);

static ALL_MIN: Threshold = Threshold::new(
    0.3,
    "s",
    "CPU time of all of them in the look; a script of some milliseconds that starts one program has a rate as well, and less \
     than this is no delay that a person notices",
    "chosen: as for what a command waits for a server (process.socket_peer)",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.spawn_storm",
    title: "A program spends its time on starting processes that are gone at once",
    theory: "To start a program takes one to two milliseconds of CPU time: an address space is made, the program mapped and \
             linked, and all of it torn down again. A loop in a shell that runs small programs, or a server that calls \
             system() for each request, spends more on this than on its work; each short process is too small to be seen \
             in a list of the busiest.",
    needs: &[
        "many processes a second of one starter that began and ended in the look (task_newtask, sched_process_exit)",
        "each used no more CPU time than a start takes, and together they used most of what the starter's job did",
    ],
    refuted_by: &[
        Refutation::new(
            "they work longer than a start takes: compilers",
            "compilers_are_short_lived_and_work",
        ),
        Refutation::new("they are few, or cost little together", "a_start_now_and_then_is_nothing"),
        Refutation::new(
            "all of them together take less than a person notices",
            "some_starts_of_a_short_script_are_nothing",
        ),
        Refutation::new(
            "they are a small part of what the job computes",
            "a_program_that_computes_beside_its_starts_is_at_work",
        ),
    ],
    remedies: &[
        "do it in the program itself: what the shell has built in, a library in place of a command",
        "start one program for all of the work (xargs, awk) or keep a helper running",
        "posix_spawn without a shell in place of system() and popen()",
    ],
    stories: &["S4.5", "S4.6"],
    thresholds: &[&START_MAX, &COST_MIN, &ALL_MIN, &PART_MIN],
    finds: Finds::Look(find),
};

/// What a starter began that is gone, or several processes of one program that one parent began: the workers of a server.
#[derive(Default)]
struct Storm {
    /// What each spends on it, seconds.
    starters: BTreeMap<u32, f64>,
    begun: BTreeSet<ThreadKey>,
    /// How many of them had which process id.
    pids: BTreeMap<u32, usize>,
    /// CPU time of what was begun, and of the starters inside fork and wait.
    seconds: f64,
    names: BTreeMap<String, usize>,
    /// Began with a copy of the starter's address space.
    copied: usize,
    /// Began by vfork, or posix_spawn on top of it.
    by_vfork: usize,
    /// Executed nothing: the starter went on in them.
    without_exec: usize,
}

/// Processes that began and ended in the look, with the CPU time that each took, seconds. A process id is given again within
/// seconds where thousands begin.
fn small(measures: &Measures<'_>) -> HashMap<ThreadKey, f64> {
    let model = measures.model;
    let exits = model.threads.exits.iter().filter(|(_, exit)| exit.last);
    let ended: HashSet<ThreadKey> =
        exits.map(|(_, exit)| model.threads.key(&exit.thread)).collect();
    let begun = model
        .threads
        .forks
        .iter()
        .map(|(_, fork)| fork)
        .filter(|fork| fork.child.pid != fork.parent.pid);
    let mut all: HashMap<ThreadKey, f64> = begun
        .map(|fork| model.threads.key(&fork.child))
        .filter(|child| ended.contains(child))
        .map(|child| (child, 0.0))
        .collect();
    for time in &model.threads.times {
        let ran: Ns = time.run_ns.max(time.cpu_ns.unwrap_or(0));
        if let Some(seconds) = all.get_mut(&model.threads.key(&time.thread)) {
            *seconds += ran as f64 / 1e9;
        }
    }
    all.retain(|_, seconds| *seconds > 0.0 && *seconds <= START_MAX.value);
    all
}

/// By who began them.
fn storms(measures: &Measures<'_>, small: &HashMap<ThreadKey, f64>) -> BTreeMap<u32, Storm> {
    let model = measures.model;
    let executed: HashSet<ThreadKey> =
        model.threads.execs.iter().map(|(_, exec)| model.threads.key(&exec.thread)).collect();
    // Of a small process, who began the first of the line that it is in: each may begin the next.
    let mut starters: HashMap<u32, u32> = HashMap::new();
    // A process id may be that of children of several in turn.
    let mut had: HashMap<u32, usize> = HashMap::new();
    let mut storms: BTreeMap<u32, Storm> = BTreeMap::new();
    for (_, fork) in &model.threads.forks {
        let child = model.threads.key(&fork.child);
        if fork.parent.pid == fork.child.pid {
            continue;
        }
        let Some(seconds) = small.get(&child) else {
            starters.remove(&fork.child.pid);
            continue;
        };
        let starter = *starters.get(&fork.parent.pid).unwrap_or(&fork.parent.pid);
        starters.insert(fork.child.pid, starter);
        let storm = storms.entry(starter).or_default();
        if !storm.begun.insert(child) {
            continue;
        }
        *storm.pids.entry(fork.child.pid).or_default() += 1;
        *had.entry(fork.child.pid).or_default() += 1;
        storm.seconds += seconds;
        storm.copied += usize::from(fork.flags & CLONE_VM == 0);
        storm.by_vfork += usize::from(fork.flags & CLONE_VFORK != 0);
        storm.without_exec += usize::from(!executed.contains(&child));
        *storm.names.entry(measures.process_name(&fork.child)).or_default() += 1;
    }
    for (starter, storm) in &mut storms {
        let count = storm.begun.len() as f64;
        // The sums of a process end before its memory is given back; its samples go on.
        let sampled = storm.pids.iter().map(|(pid, count)| {
            let part = *count as f64 / had[pid] as f64;
            part * measures.profile.seconds_where(*pid, |_| true)
        });
        let sampled: f64 = sampled.sum();
        let own = measures.profile.seconds_where(*starter, is_in_start);
        // What is dear copies and gives back a big image, which is another finding.
        if sampled <= START_MAX.value * count {
            storm.seconds = storm.seconds.max(sampled);
        }
        if own < fork_cost::DEAR.value * count {
            storm.seconds += own;
        }
        storm.starters.insert(*starter, storm.seconds);
    }
    storms
}

/// Whether a process begins another one or takes leave of one (kernel/fork.c, kernel/exit.c).
fn is_in_start(frames: &[String]) -> bool {
    frames.iter().any(|frame| matches!(frame.as_str(), "kernel_clone" | "_do_fork" | "do_wait"))
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let small = small(measures);
    let mut found = Vec::new();
    for storm in of_one_program(measures, storms(measures, &small)) {
        found.extend(matched(measures, ends, storm));
    }
    found
}

/// Puts together what processes of one program do that one parent began.
fn of_one_program(measures: &Measures<'_>, storms: BTreeMap<u32, Storm>) -> Vec<Storm> {
    let mut all: BTreeMap<(u32, String), Storm> = BTreeMap::new();
    for (starter, storm) in storms {
        let process = measures.model.threads.thread_ref(starter);
        // Whose parent is not known stands alone.
        let parent = measures.graph.parent_of(starter).unwrap_or(starter);
        let whole = all.entry((parent, measures.process_name(&process))).or_default();
        whole.starters.extend(storm.starters);
        whole.begun.extend(storm.begun);
        for (pid, count) in storm.pids {
            *whole.pids.entry(pid).or_default() += count;
        }
        whole.seconds += storm.seconds;
        whole.copied += storm.copied;
        whole.by_vfork += storm.by_vfork;
        whole.without_exec += storm.without_exec;
        for (name, count) in storm.names {
            *whole.names.entry(name).or_default() += count;
        }
    }
    all.into_values().collect()
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], storm: Storm) -> Option<Match<'m>> {
    let model = measures.model;
    let wall = measures.wall_seconds().max(1e-9);
    let own_pid = model.look.host.own_pid;
    let is_own = own_pid != 0 && storm.starters.contains_key(&own_pid);
    let is_small = storm.seconds < ALL_MIN.value.max(COST_MIN.value * wall);
    if is_own || is_small || storm.seconds < PART_MIN.value * job_seconds(measures, &storm) {
        return None;
    }
    let is_theirs = |end: &(usize, &End)| is_work_of(measures, end.1, &storm);
    let claimed: Vec<(usize, &End)> = ends.iter().enumerate().filter(is_theirs).collect();
    let losses: Losses = storm
        .starters
        .iter()
        .map(|(pid, seconds)| (*pid, (model.threads.thread_ref(*pid), *seconds)))
        .collect();
    let cost = Cost::of(measures, losses, claimed.iter().map(|(_, end)| *end));
    if claimed.is_empty() || !cost.counts(measures, &crate::rules::own_time::PART_MIN) {
        return None;
    }
    let (starter, _) = storm.starters.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let process = model.threads.thread_ref(*starter);
    let on = Object::Process(*starter);
    let by = culprit(model, &process);
    let does = ("process", storm.shown());
    let mut matched =
        Match::new(by, Proof::TwoWitnesses, move |loss| explain(&process, &storm, loss));
    for (at, _) in claimed {
        matched = matched.claiming(at, None);
    }
    Some(cost.charge(matched.on(on), does))
}

/// What the starters and all that they began have used, seconds.
fn job_seconds(measures: &Measures<'_>, storm: &Storm) -> f64 {
    let is_of_job =
        |pid: u32| measures.ancestry.line(pid).any(|by| storm.starters.contains_key(&by));
    let times = measures.model.threads.times.iter().filter(|time| is_of_job(time.thread.pid));
    let (mut ran, mut pids) = (0.0, BTreeSet::new());
    for time in times {
        ran += time.run_ns as f64 / 1e9;
        pids.insert(time.thread.pid);
    }
    let sampled: f64 = pids.iter().map(|pid| measures.profile.seconds_where(*pid, |_| true)).sum();
    sampled.max(ran)
}

/// Whether an end is the work of processes of a storm.
fn is_work_of(measures: &Measures<'_>, end: &End, storm: &Storm) -> bool {
    if end.kind != EndKind::Works {
        return false;
    }
    match &end.object {
        Object::Process(pid) => storm.pids.contains_key(pid) || storm.is_most_of(measures, *pid),
        Object::Processes(comm) => {
            storm.names.contains_key(&**comm)
                || end.who.as_ref().is_some_and(|who| {
                    storm.pids.contains_key(&who.pid)
                        || measures.process_name(who) == **comm
                            && storm.names.contains_key(&who.comm)
                })
        }
        _ => false,
    }
}

impl Storm {
    fn each(&self) -> f64 {
        self.seconds / self.begun.len().max(1) as f64
    }

    /// Whether a starter's own work is for the most part to begin them.
    fn is_most_of(&self, measures: &Measures<'_>, starter: u32) -> bool {
        self.starters.contains_key(&starter)
            && measures.profile.seconds_where(starter, is_in_start) * 2.0
                >= measures.profile.seconds_where(starter, |_| true)
    }

    /// `tr, echo and 2 other programs`.
    fn shown(&self) -> String {
        let mut names: Vec<(&str, usize)> =
            self.names.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let shown: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(|(name, _)| *name).collect();
        match names.len().saturating_sub(NAMES_SHOWN_MAX) {
            0 => shown.join(", "),
            more => {
                let others = words::count(more, "other program", "other programs");
                format!("{} and {others}", shown.join(", "))
            }
        }
    }

    /// How they were begun.
    fn how(&self) -> String {
        let all = self.begun.len();
        let mut how = match (self.copied, self.by_vfork) {
            (copied, _) if copied == all => {
                "all by fork, which copies the starter's page tables".to_string()
            }
            (_, vfork) if vfork == all => "all by vfork or posix_spawn".to_string(),
            (copied, vfork) => format!("{copied} by fork, {vfork} by vfork or posix_spawn"),
        };
        match self.without_exec {
            0 => {}
            none if none == all => how.push_str("; none of them ran a program of its own"),
            some => how.push_str(&format!(
                "; {} ran no program of their own (a subshell)",
                words::thousands(some as f64)
            )),
        }
        how
    }
}

/// Where the CPU time is from.
const SECONDS_FROM: &str = "sched_switch, cpu-clock samples";

fn explain(process: &ThreadRef, storm: &Storm, loss: &Loss<'_>) -> Wording {
    let wall = loss.wall_seconds.max(1e-9);
    let rate = storm.begun.len() as f64 / wall;
    let who = match storm.starters.len() {
        1 => format!("{} starts", words::who(process)),
        several => format!("{several} x {} start", process.comm),
    };
    Wording {
        title: format!("{who} {} processes a second, each gone at once", words::rate(rate)),
        text: format!(
            "{} came and went in {} ({}), with {} of CPU each: about what a start and an end take. Together that is {}. \
             Of them {}.",
            words::thousands(storm.begun.len() as f64),
            words::seconds(wall),
            storm.shown(),
            words::seconds(storm.each()),
            words::of_window(storm.seconds, wall),
            storm.how(),
        ),
        evidence: vec![
            Evidence::new(
                "processes that came and went",
                rate,
                "1/s",
                "task_newtask, sched_process_exit",
            ),
            Evidence::new("CPU time of each", storm.each(), "s", SECONDS_FROM),
            Evidence::new("CPU time of all", storm.seconds, "s", SECONDS_FROM),
            Evidence::new(
                "begun with a copy of the address space",
                storm.copied as f64,
                "1",
                "clone flags",
            ),
            Evidence::new("begun by vfork", storm.by_vfork as f64, "1", "clone flags"),
            Evidence::new(
                "without a program of their own",
                storm.without_exec as f64,
                "1",
                "sched_process_exec",
            ),
        ],
        remedy: vec![remedy(process, storm)],
    }
}

fn remedy(process: &ThreadRef, storm: &Storm) -> Remedy {
    if storm.without_exec == storm.begun.len() {
        let text = "let processes that stay do the work (a pool), or threads: none of those that it starts runs a program";
        return Remedy { text: text.into(), ..Remedy::default() };
    }
    Remedy {
        text: "do it without a process each: what the shell has built in, one program for all lines, a library; see which \
               programs it starts"
            .into(),
        command: format!("strace -f -e trace=execve -p {} 2>&1 | head -20", process.pid),
        ..Remedy::default()
    }
    .acting(Action {
        value: Some("execve".into()),
        ..Action::ask(Question::Calls, process)
    })
}

#[cfg(test)]
mod tests {
    use crate::answer::{Report, explain};
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MS: Ns = 1_000_000;

    fn script(count: u32, each_ns: Ns, own_ns: Ns) -> Report {
        script_for(LOOK_NS, count, each_ns, own_ns)
    }

    /// A script, 10, that begins so many processes one after the other, each of which runs for so long; it runs itself as well.
    fn script_for(look_ns: Ns, count: u32, each_ns: Ns, own_ns: Ns) -> Report {
        let mut facts = host();
        facts[1].at_ns = look_ns;
        let ran = |thread: ThreadRef, since_ns, run_ns| ThreadTime {
            thread,
            since_ns,
            until_ns: since_ns + run_ns,
            run_ns,
            ..ThreadTime::default()
        };
        for at in 0..count {
            let begin_ns = u64::from(at) * look_ns / u64::from(count);
            let child = ThreadRef { start_ns: begin_ns, ..thread(1000 + at, "tr") };
            let end_ns = begin_ns + each_ns;
            let fork = Fork { parent: thread(10, "sh"), child: child.clone(), flags: 17 };
            facts.push(Fact { at_ns: begin_ns, body: Body::Fork(fork) });
            let exec =
                Exec { thread: child.clone(), path: "/usr/bin/tr".into(), ..Exec::default() };
            facts.push(Fact { at_ns: begin_ns + MS / 10, body: Body::Exec(exec) });
            facts.push(Fact {
                at_ns: end_ns,
                body: Body::ThreadTime(ran(child.clone(), begin_ns, each_ns)),
            });
            let exit = Exit { thread: child, last: true, code: Some(0) };
            facts.push(Fact { at_ns: end_ns, body: Body::Exit(exit) });
        }
        let own = ran(thread(10, "sh"), 0, own_ns);
        facts.push(Fact { at_ns: look_ns, body: Body::ThreadTime(own) });
        explain(facts)
    }

    fn says_it(report: &Report) -> bool {
        report.findings.iter().any(|finding| finding.code == "process.spawn_storm")
    }

    #[test]
    fn a_loop_that_runs_a_small_program_for_each_line_is_named_with_its_starter() {
        let report = script(1600, 1_500_000, 500 * MS);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("process.spawn_storm", Some(10)));
        assert!(finding.title.contains("starts 320 processes a second"), "{}", finding.title);
        assert!(finding.text.contains("1.50 ms of CPU each"), "{}", finding.text);
        assert!(finding.text.contains("all by fork"), "{}", finding.text);
    }

    /// Four workers of one master, each of which forks 500 times a second and spends a third of a CPU on it.
    #[test]
    fn workers_that_fork_all_day_are_named_together() {
        let mut facts = host();
        let ran = |thread: ThreadRef, run_ns| {
            let time = ThreadTime { thread, until_ns: LOOK_NS, run_ns, ..ThreadTime::default() };
            Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) }
        };
        facts.push(fact(Body::Stack(Stack { id: 1, frames: vec!["kernel_clone".into()] })));
        for worker in 10..14 {
            let starter = thread(worker, "forker");
            let known = Thread { thread: starter.clone(), parent_pid: 9, ..Thread::default() };
            facts.push(identity(known));
            let process = starter.clone();
            let samples = Samples { process, stack: 1, count: 100, frequency_hz: 100 };
            facts.push(fact(Body::Samples(samples)));
            for at in 0..2500 {
                // Process ids are given again.
                let begin_ns = u64::from(at) * 2 * MS;
                let child = thread(1000 + worker * 500 + at % 500, "forker");
                let child = ThreadRef { start_ns: begin_ns + 1, ..child };
                let fork = Fork { parent: starter.clone(), child: child.clone(), flags: 17 };
                facts.push(Fact { at_ns: begin_ns + 1, body: Body::Fork(fork) });
                let end_ns = begin_ns + MS;
                facts.push(Fact { at_ns: end_ns, ..ran(child.clone(), MS / 5) });
                let exit = Exit { thread: child, last: true, code: Some(0) };
                facts.push(Fact { at_ns: end_ns, body: Body::Exit(exit) });
            }
            facts.push(ran(starter, 1_200 * MS));
        }
        facts.sort_by_key(|fact| fact.at_ns);
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!(finding.code, "process.spawn_storm");
        assert!(finding.title.starts_with("4 x forker start 2000 processes"), "{}", finding.title);
        // Each has 200 us of its own, and a 2,500th of the second that its starter spends in fork.
        assert!(finding.text.contains("600 us of CPU each"), "{}", finding.text);
        assert!(finding.text.contains("none of them ran a program"), "{}", finding.text);
    }

    #[test]
    fn compilers_are_short_lived_and_work() {
        assert!(!says_it(&script(150, 30 * MS, 100 * MS)));
    }

    #[test]
    fn a_start_now_and_then_is_nothing() {
        assert!(says_it(&script(1130, 2 * MS, 10 * MS)));
        assert!(!says_it(&script(1120, 2 * MS, 10 * MS)));
    }

    #[test]
    fn some_starts_of_a_short_script_are_nothing() {
        assert!(says_it(&script_for(500 * MS, 160, 2 * MS, 10 * MS)));
        assert!(!says_it(&script_for(500 * MS, 140, 2 * MS, 10 * MS)));
    }

    #[test]
    fn a_program_that_computes_beside_its_starts_is_at_work() {
        assert!(!says_it(&script(1200, 2 * MS, 4000 * MS)));
    }
}
