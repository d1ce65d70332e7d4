//! process.vfork_exec: a parent stands still until its vfork child has executed a program.
//!
//! The parent is in state D, which looks like a disk but is not: it waits for its child. What the child does
//! meanwhile (reads its program from a slow disk) is the real cause; where that has a finding of its own, this one
//! stands behind it. A child that waits for a CPU is the CPU's victim, and so is its parent: nothing is told here.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy, Severity};
use crate::facts::ThreadRef;
use crate::graph::chains::Leaf;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::rules::old::process;
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// Starting a program that is in the page cache takes well under a millisecond; ten times that is slow.
const SLOW_SECONDS: f64 = 0.005;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("the child executes at once", ""),
        Refutation::new("the child mostly waits for a CPU (then the CPU is what is short)", ""),
        Refutation::new("state D with a disk in the parent's own stack", ""),
    ],
    remedies: &[
        "make what the child waits for faster (see the finding before this one)",
        "start programs from a thread or helper of their own",
    ],
    stories: &["S4.6"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut by_parent: BTreeMap<u32, Vec<(Leaf, usize)>> = BTreeMap::new();
    for (leaf, at) in leaves(measures) {
        by_parent.entry(leaf.links[at].who.pid).or_default().push((leaf, at));
    }
    by_parent.into_values().filter_map(|leaves| finding(measures, &leaves)).collect()
}

/// Everything that passed below a vfork: on a command's critical path, or of the target's threads.
fn leaves(measures: &Measures<'_>) -> Vec<(Leaf, usize)> {
    let vfork = |leaf: &Leaf| leaf.links.iter().position(|link| link.class == WaitClass::Vfork);
    if measures.is_command() {
        return measures
            .graph
            .path
            .iter()
            .filter_map(|leaf| Some((leaf.clone(), vfork(leaf)?)))
            .collect();
    }
    let model = measures.model;
    measures
        .waits()
        .filter(|w| w.class == WaitClass::Vfork && !w.kernel && model.in_target(&w.thread))
        .flat_map(|w| measures.graph.chains.follow_wait(w, model.begin_ns, model.end_ns))
        .map(|leaf| (leaf, 0))
        .collect()
}

fn finding(measures: &Measures<'_>, leaves: &[(Leaf, usize)]) -> Option<Finding> {
    let (first, at) = leaves.first()?;
    let parent = process::main_thread(measures, first.links[*at].who.pid);
    // One wait is many leaves: what the child did in turn.
    let mut waits: Vec<(u32, u64)> =
        leaves.iter().map(|(l, at)| (l.links[*at].who.tid, l.links[*at].since_ns)).collect();
    waits.sort_unstable();
    waits.dedup();
    let child = child_of(leaves);
    let program = child.as_ref().and_then(|child| program(measures, child));
    let name = program.clone().or_else(|| child.as_ref().map(|c| c.comm.clone()));
    let object = Object::Program(
        child.as_ref().map_or(0, |child| child.pid),
        name.as_deref().unwrap_or("child").into(),
    );
    let end = End::gathered(WaitClass::Vfork, object, leaves)?;
    let mean = end.seconds / waits.len().max(1) as f64;
    if !is_slow(leaves, waits.len()) {
        return None;
    }
    let root = root(measures.model, leaves, end.seconds);
    let last = child.as_ref().map_or_else(|| "its child".to_string(), words::who);
    let what = name.unwrap_or_else(|| "a program".into());
    let verdict = Verdict {
        title: match waits.len() {
            1 => format!("{} waits for child {last} to exec {what}", words::who(&parent)),
            n => format!(
                "{} waits for its children to exec {what}: {n} times, {} each",
                words::who(&parent),
                words::seconds(mean)
            ),
        },
        text: format!(
            "It is waiting for child PID {} to exec, in state D but for no disk of its own: {}. For {} of that \
             time the child {}.",
            child.as_ref().map_or(0, |child| child.pid),
            words::of_window(end.seconds, measures.wall_seconds()),
            words::percent(root.share),
            root.words,
        ),
        confidence: if child.is_some() { 0.93 } else { 0.7 },
        culprit: match &root.object {
            Some(object @ Object::Disk(_)) => Culprit::device(measures.model.name_of(object).name),
            _ => child.as_ref().map_or_else(Culprit::default, |child| culprit(measures, child)),
        },
        evidence: vec![
            Evidence::new("time in vfork", end.seconds, "s", "sched_switch, kernel stack"),
            Evidence::new("vfork waits", waits.len() as f64, "1", "sched_switch, task_newtask"),
            Evidence::new("mean vfork wait", mean, "s", "sched_switch"),
            Evidence::new(
                format!("share of it in which the child {}", root.words),
                root.share,
                "1",
                "the child's own waits",
            ),
        ],
        remedy: vec![Remedy {
            text: format!(
                "make the start of {what} quick (keep it in memory or on a faster disk), or start it from a helper \
                 process so that {} need not stand still",
                parent.comm
            ),
            ..Remedy::default()
        }],
    };
    let mut finding = RULE.finding(measures, &end, verdict);
    if root.has_its_own_finding {
        finding.severity = finding.severity.min(Severity::Warning);
    }
    Some(finding)
}

/// What is left without the child's waits for a CPU is most of it, and longer than an exec from memory.
fn is_slow(leaves: &[(Leaf, usize)], waits: usize) -> bool {
    let (mut all, mut own) = (0.0, 0.0);
    for (leaf, _) in leaves {
        let seconds = leaf.ns() as f64 / 1e9;
        all += seconds;
        if !matches!(leaf.root().class, WaitClass::RunQueue | WaitClass::CpuQuota) {
            own += seconds;
        }
    }
    own / waits.max(1) as f64 >= SLOW_SECONDS && own >= 0.5 * all
}

/// The child of the longest leaf that has one.
fn child_of(leaves: &[(Leaf, usize)]) -> Option<ThreadRef> {
    let with_child = leaves.iter().filter_map(|(leaf, at)| Some((leaf, leaf.links.get(at + 1)?)));
    with_child.max_by_key(|(leaf, _)| leaf.ns()).map(|(_, link)| link.who.clone())
}

fn program(measures: &Measures<'_>, child: &ThreadRef) -> Option<String> {
    let executed = measures.model.execs.iter().rev();
    let path = executed.map(|(_, exec)| exec).find(|exec| exec.thread.pid == child.pid)?;
    (!path.path.is_empty()).then(|| path.path.clone())
}

struct Root {
    words: String,
    share: f64,
    object: Option<Object>,
    has_its_own_finding: bool,
}

/// What the children mostly did.
fn root(model: &Model, leaves: &[(Leaf, usize)], total: f64) -> Root {
    let mut by: BTreeMap<(WaitClass, Object), f64> = BTreeMap::new();
    for (leaf, at) in leaves {
        let last = leaf.root();
        let key = match leaf.links.len() > at + 1 && last.class != WaitClass::Vfork {
            true if matches!(last.class, WaitClass::Running | WaitClass::Unseen) => {
                (WaitClass::Running, Object::Nothing)
            }
            true => (last.class, last.object.clone()),
            false => (WaitClass::Unseen, Object::Nothing),
        };
        *by.entry(key).or_default() += leaf.ns() as f64 / 1e9;
    }
    let most = by.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some(((class, object), seconds)) = most else {
        return Root {
            words: "was not seen".into(),
            share: 0.0,
            object: None,
            has_its_own_finding: false,
        };
    };
    let named = model.name_of(&object);
    let words = match class {
        WaitClass::Disk | WaitClass::PageFault => {
            format!("waits for {} {} to read its program", named.kind, named.name)
        }
        WaitClass::Running => "is at work".into(),
        WaitClass::RunQueue => "is ready and waits for a CPU".into(),
        WaitClass::Unseen => "was not seen".into(),
        WaitClass::Stopped => "is stopped".into(),
        WaitClass::Timer => "sleeps".into(),
        _ => format!("waits for {} {}", named.kind, named.name),
    };
    Root {
        words,
        share: seconds / total.max(1e-9),
        object: class.is_root().then_some(object),
        has_its_own_finding: class.is_root(),
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
            let exec = Exec { thread: child.clone(), path: "/opt/job".into() };
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
    fn a_quick_exec_is_nothing() {
        assert!(explain(spawner(2)).findings.is_empty());
    }
}
