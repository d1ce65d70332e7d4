//! process.vfork_exec: a parent stands still until its vfork child has executed a program.
//!
//! The parent is in state D, which looks like a disk but is not: it waits for its child. What the child does
//! meanwhile (reads its program from a slow disk) is the real cause; where a rule has named that, its part of the wait is
//! claimed and missing here. A child that waits for a CPU is the CPU's victim, and so is its parent.
//! Rejected: state D and the name of a shell (an init that is in vfork for weeks is just a container).

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::longest_wait::LongestWait;
use crate::measure::process_names::present;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeMap, BTreeSet};

static SLOW: Threshold = Threshold::new(
    0.005,
    "s",
    "mean wait without the child's waits for a CPU; starting a program that is in the page cache takes well under a \
     millisecond, and several times that is slow",
    "reference machine: vfork and exec of /bin/true",
);
static OWN_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of the parent's waits, the part that no other rule has named and that is no wait for a CPU",
    "chosen: most of it",
);
static PASSES: Threshold = Threshold::new(
    0.5,
    "1",
    "of what the parent loses to another end, the part that it loses through a vfork",
    "chosen: most of it, as an end does not part its victims' ways",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.vfork_exec",
    title: "A parent waits for its vfork child to execute a program",
    theory: "vfork, and posix_spawn on top of it, suspend the parent until the child has replaced its image. If exec is \
             slow (the program must be read from a slow disk), the parent stands in state D for as long, with all \
             its other work.",
    needs: &[
        "a thread waits in vfork (kernel_clone, state D)",
        "its child is known, and took longer than an exec from memory takes",
    ],
    refuted_by: &[
        Refutation::new("the child executes at once", "a_quick_exec_is_nothing"),
        Refutation::new(
            "the child mostly waits for a CPU (then the CPU is what is short)",
            "a_child_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
        Refutation::new(
            "state D with a disk in the parent's own stack",
            "a_parent_that_reads_a_disk_itself_waits_for_no_child",
        ),
    ],
    remedies: &[
        "make what the child waits for faster (see the finding before this one)",
        "start programs from a thread or helper of their own",
    ],
    stories: &["S4.6"],
    thresholds: &[&SLOW, &OWN_MIN, &PASSES],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut by_parent: BTreeMap<u32, Vec<&WaitSpan>> = BTreeMap::new();
    for wait in measures.waits().filter(|w| w.class == WaitClass::Vfork && !w.kernel) {
        if measures.model.in_target(&wait.thread) {
            by_parent.entry(wait.thread.pid).or_default().push(wait);
        }
    }
    let all = by_parent.into_values();
    all.filter_map(|waits| matched(measures, ends, &waits)).collect()
}

/// A parent's waits in vfork, and what of them nobody else has named.
struct Spawns {
    parent: ThreadRef,
    child: Option<ThreadRef>,
    /// The program, or the child's name.
    name: Option<String>,
    waits: usize,
    longest: LongestWait,
    /// All of it, seconds.
    all: f64,
    /// What is left, seconds.
    own: f64,
    root: Root,
}

/// What the children mostly did.
#[derive(Default)]
struct Root {
    words: String,
    share: f64,
    disk: Option<Object>,
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    waits: &[&WaitSpan],
) -> Option<Match<'m>> {
    let model = measures.model;
    let parent = wait_words::main_thread(measures, waits.first()?.thread.pid);
    let parts = parts(measures, ends, parent.pid);
    let within = |w: &&WaitSpan| w.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
    let all: f64 = waits.iter().map(within).sum();
    let own = parts.iter().map(|(_, seconds)| seconds).sum::<f64>().min(all);
    let count = waits.iter().filter(|w| within(w) > 0.0).count().max(1);
    if own / (count as f64) < SLOW.value || own < OWN_MIN.value * all {
        return None;
    }
    let child = child(measures, ends, &parts, parent.pid);
    let program = child.as_ref().and_then(|child| program(measures, child));
    let name = program.or_else(|| child.as_ref().map(|child| child.comm.clone()));
    let root = root(measures, ends, &parts, all);
    let by = match (&root.disk, &child) {
        (Some(disk), _) => Culprit::device(model.name_of(disk).name),
        (None, Some(child)) => culprit(model, child),
        (None, None) => Culprit::default(),
    };
    let object = Object::Program(
        child.as_ref().map_or(0, |child| child.pid),
        name.as_deref().unwrap_or("child").into(),
    );
    let proof = if child.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness };
    let longest = LongestWait::of(model, waits.iter().copied());
    let losses = Losses::from([(parent.pid, (parent.clone(), own))]);
    let pid = parent.pid;
    let spawns = Spawns { parent, child, name, waits: count, longest, all, own, root };
    let mut matched = Match::new(by, proof, move |loss| spawns.explain(loss)).on(object);
    if !measures.is_command() {
        matched.losses = Some(losses);
    }
    matched.path_seconds = Some(own);
    let victims = (!measures.is_command()).then(|| BTreeSet::from([pid]));
    for (at, _) in parts {
        matched = matched.claiming(at, victims.clone());
    }
    Some(matched)
}

/// The ends that a parent reaches through a vfork, and the seconds that it loses to them there.
fn parts(measures: &Measures<'_>, ends: &[End], parent: u32) -> Vec<(usize, f64)> {
    let part = |(at, end): (usize, &End)| {
        if matches!(end.class, WaitClass::RunQueue | WaitClass::CpuQuota) {
            return None;
        }
        let lost = match measures.is_command() {
            true => {
                vfork_link(end).filter(|at| end.links[*at].who.pid == parent).map(|_| end.seconds)
            }
            false => end.victims.get(&parent).map(|(_, seconds)| *seconds),
        };
        let lost = lost.filter(|seconds| *seconds > 0.0)?;
        if end.class == WaitClass::Vfork {
            return Some((at, lost));
        }
        let through = end.via.get(&WaitClass::Vfork).copied().unwrap_or(0.0).min(lost);
        (through >= PASSES.value * lost).then_some((at, through))
    };
    let open = ends.iter().enumerate().filter(|(_, end)| !end.victims.is_empty());
    open.filter_map(part).collect()
}

/// Where in an end's chain somebody waits in vfork.
fn vfork_link(end: &End) -> Option<usize> {
    end.links.iter().position(|link| link.class == WaitClass::Vfork)
}

/// The child in the chain of the greatest part that shows one, else the last one that was forked.
fn child(
    measures: &Measures<'_>,
    ends: &[End],
    parts: &[(usize, f64)],
    parent: u32,
) -> Option<ThreadRef> {
    let model = measures.model;
    let in_chain = |(at, seconds): &(usize, f64)| {
        let links = &ends[*at].links;
        let vfork = vfork_link(&ends[*at]).filter(|at| links[*at].who.pid == parent)?;
        Some((links.get(vfork + 1)?.who.clone(), *seconds))
    };
    let seen = parts.iter().filter_map(in_chain).max_by(|a, b| a.1.total_cmp(&b.1));
    let forked = || {
        let own =
            |fork: &&crate::facts::Fork| fork.parent.pid == parent && fork.child.pid != parent;
        let last = model.threads.forks.iter().rev().map(|(_, fork)| fork).find(own)?;
        Some(model.threads.thread_ref(last.child.tid))
    };
    seen.map(|(child, _)| child).or_else(forked).map(|child| present(model, &child))
}

fn program(measures: &Measures<'_>, child: &ThreadRef) -> Option<String> {
    let executed = measures.model.threads.execs.iter().rev();
    let path = executed.map(|(_, exec)| exec).find(|exec| exec.thread.pid == child.pid)?;
    (!path.path.is_empty()).then(|| path.path.clone())
}

/// What the children mostly did: other ends by what they are, the rest by what the child did.
fn root(measures: &Measures<'_>, ends: &[End], parts: &[(usize, f64)], all: f64) -> Root {
    let mut by: BTreeMap<(WaitClass, Object), f64> = BTreeMap::new();
    for (at, seconds) in parts {
        let end = &ends[*at];
        let key = match end.class {
            WaitClass::Vfork => match end.holder_mostly() {
                Some(WaitClass::Running | WaitClass::Unseen) => WaitClass::Running,
                Some(WaitClass::Vfork) | None => WaitClass::Unseen,
                Some(other) => other,
            },
            WaitClass::Running | WaitClass::Unseen => WaitClass::Running,
            other => other,
        };
        let object = match end.class {
            WaitClass::Vfork => {
                end.links.last().map_or(Object::Nothing, |link| link.object.clone())
            }
            _ => end.object.clone(),
        };
        *by.entry((key, object)).or_default() += seconds;
    }
    let most = by.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some(((class, object), seconds)) = most else { return Root::default() };
    let named = measures.model.name_of(&object);
    let words = match class {
        WaitClass::Disk => format!("waits for {} {} to read its program", named.kind, named.name),
        WaitClass::Running => "is at work".into(),
        WaitClass::Unseen => "was not seen".into(),
        WaitClass::Stopped => "is stopped".into(),
        WaitClass::Timer => "sleeps".into(),
        _ => format!("waits for {} {}", named.kind, named.name),
    };
    let disk = matches!(object, Object::Disk(_)).then_some(object);
    Root { words, share: (seconds / all.max(1e-9)).min(1.0), disk }
}

impl Spawns {
    fn explain(&self, loss: &Loss<'_>) -> Wording {
        let parent = words::who(&self.parent);
        let child = self.child.as_ref().map_or_else(|| "its child".to_string(), words::who);
        let what = self.name.as_deref().unwrap_or("a program");
        let mean = self.all / self.waits.max(1) as f64;
        let source = "sched_switch";
        let mut evidence = vec![
            Evidence::new("time in vfork", self.all, "s", "sched_switch, kernel stack"),
            Evidence::new("vfork waits", self.waits as f64, "1", "sched_switch, task_newtask"),
            Evidence::new("mean vfork wait", mean, "s", source),
            Evidence::new(
                format!("share of it in which the child {}", self.root.words),
                self.root.share,
                "1",
                "the child's own waits",
            ),
        ];
        evidence.extend(wait_words::longest_evidence(&self.longest, "longest vfork wait"));
        Wording {
            title: match self.waits {
                1 => format!("{parent} waits for child {child} to exec {what}"),
                n => format!(
                    "{parent} waits for its children to exec {what}: {n} times, {} each",
                    words::seconds(mean)
                ),
            },
            text: format!(
                "It is waiting for child PID {} to exec, in state D but for no disk of its own: {}. For {} of that \
                 time the child {}.",
                self.child.as_ref().map_or(0, |child| child.pid),
                words::of_window(self.own, loss.wall_seconds),
                words::percent(self.root.share),
                self.root.words,
            ),
            evidence,
            remedy: vec![Remedy {
                text: format!(
                    "make the start of {what} quick (keep it in memory or on a faster disk), or start it from a \
                     helper process so that {} need not stand still",
                    self.parent.comm
                ),
                ..Remedy::default()
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn spawner(ms: u64) -> Vec<Fact> {
        let mut facts = host();
        for at in 0..10u64 {
            let begin_ns = at * 500_000_000;
            let child = thread(100 + at as u32, "job");
            let fork = Fork { parent: thread(10, "runner"), child: child.clone(), flags: 0x4100 };
            facts.push(Fact { at_ns: begin_ns, body: Body::Fork(fork) });
            let exec = Exec { thread: child.clone(), path: "/opt/job".into(), ..Exec::default() };
            let end_ns = begin_ns + ms * 1_000_000;
            facts.push(Fact { at_ns: end_ns, body: Body::Exec(exec) });
            let place =
                Place { state: WaitState::DiskSleep, syscall: "vfork".into(), ..Place::default() };
            let wake = Wake {
                at_ns: end_ns,
                context: WakeContext::Task,
                by: child.clone(),
                ..Wake::default()
            };
            facts.push(fact(Body::Wait(Wait {
                thread: thread(10, "runner"),
                begin_ns,
                end_ns,
                place,
                wake: Some(wake),
                ..Wait::default()
            })));
            facts.push(fact(Body::Wait(Wait {
                thread: child,
                begin_ns,
                end_ns,
                place: Place {
                    state: WaitState::Sleep,
                    syscall: "nanosleep".into(),
                    ..Place::default()
                },
                wake: Some(Wake { at_ns: end_ns, ..Wake::default() }),
                ..Wait::default()
            })));
        }
        facts
    }

    #[test]
    fn the_parent_waits_for_a_child_to_exec() {
        let report = explain(spawner(200));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "process.vfork_exec");
        assert!(finding.title.contains("10 times, 200 ms each"), "{}", finding.title);
        assert!(finding.text.contains("the child sleeps"), "{}", finding.text);
        assert_eq!(finding.object.name, "/opt/job");
    }

    #[test]
    fn a_child_that_waits_for_a_cpu_is_the_cpus_victim() {
        let mut facts = spawner(200);
        for fact in &mut facts {
            if let Body::Wait(wait) = &mut fact.body
                && wait.thread.comm == "job"
            {
                wait.place = Place::default();
                wait.wake = None;
            }
        }
        let report = explain(facts);
        assert!(report.findings.iter().all(|f| f.code != "process.vfork_exec"));
    }

    #[test]
    fn a_parent_that_reads_a_disk_itself_waits_for_no_child() {
        let disk = DeviceNumber { major: 254, minor: 0 };
        let mut facts = host();
        facts.push(at_place(10, "runner", reads_from(disk)));
        assert!(explain(facts).findings.iter().all(|f| f.code != "process.vfork_exec"));
    }

    #[test]
    fn a_child_that_reads_its_program_from_a_disk_has_the_disk_blamed() {
        let disk = DeviceNumber { major: 254, minor: 0 };
        let mut facts = spawner(200);
        facts.push(fact(Body::Disk(Disk { dev: disk, name: "vda".into(), ..Disk::default() })));
        for fact in &mut facts {
            if let Body::Wait(wait) = &mut fact.body
                && wait.thread.comm == "job"
            {
                wait.place = Place { disk: Some(disk), ..reads_from(disk) };
            }
        }
        let report = explain(facts);
        let finding = report.findings.iter().find(|f| f.code == "process.vfork_exec");
        let finding = finding.expect("no rule of disks has anything against this one");
        assert_eq!(finding.culprit.name, "vda");
        assert!(
            finding.text.contains("waits for disk vda to read its program"),
            "{}",
            finding.text
        );
        assert!(finding.victims.iter().all(|victim| victim.pid == 10));
    }

    #[test]
    fn a_quick_exec_is_nothing() {
        assert!(explain(spawner(2)).findings.is_empty());
    }

    #[test]
    fn what_the_parent_waits_for_besides_is_no_time_in_vfork() {
        const MS: Ns = 1_000_000;
        let mut facts = spawner(200);
        for at in 0..10 {
            facts.push(slept(10, "runner", (at * 500 + 201) * MS, (at * 500 + 499) * MS));
        }
        let report = explain(facts);
        let finding = report.findings.iter().find(|it| it.code == "process.vfork_exec");
        let finding = finding.expect("it loses two seconds to them");
        assert!(finding.title.contains("10 times, 200 ms each"), "{}", finding.title);
    }
}
