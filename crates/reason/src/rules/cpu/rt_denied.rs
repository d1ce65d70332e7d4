//! cpu.rt_denied: a command asks for real-time priority and is refused.
//!
//! Two answers that look the same to the caller (EPERM): the cgroup has no real-time budget
//! (cpu.rt_runtime_us 0, the default of every new group where the kernel has CONFIG_RT_GROUP_SCHED), or the
//! caller lacks CAP_SYS_NICE. The kernel asks for the capability first, so it is looked at first.

use crate::answer::report::*;
use crate::facts::{Cgroup, Denied, Thread, ThreadRef};
use crate::measure::Measures;
use crate::model::Model;
use crate::rules::Refutation;
use crate::rules::old::{Rule, culprit, words};
use std::collections::HashMap;

/// The case.
pub static RULE: Rule = Rule {
    code: "cpu.rt_denied",
    title: "Real-time priority is refused",
    theory: "sched_setscheduler and sched_setattr refuse SCHED_FIFO and SCHED_RR with EPERM for two reasons. Without \
             CAP_SYS_NICE (and above RLIMIT_RTPRIO) nobody gets it. With it, a kernel with CONFIG_RT_GROUP_SCHED \
             still refuses if the CPU cgroup of the thread has no real-time budget: cpu.rt_runtime_us is 0 in every \
             new group until somebody writes to it, root or not. The program then goes on at ordinary priority, or \
             gives up.",
    needs: &[
        "a scheduling call of the command returned EPERM",
        "the caller's CPU cgroup has cpu.rt_runtime_us 0, or the caller lacks CAP_SYS_NICE",
    ],
    refuted_by: &[
        Refutation::new("the call succeeded", ""),
        Refutation::new("the group has a budget and the caller the capability", ""),
    ],
    remedies: &[
        "give the group (and each group above it) a real-time budget",
        "give the program CAP_SYS_NICE, or a higher RLIMIT_RTPRIO",
    ],
    stories: &["S1.4"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

const CAP_SYS_NICE: u64 = 1 << 23;
const EPERM: i32 = 1;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let model = measures.model;
    // One finding per reason, however often it was tried.
    let mut found: HashMap<String, (Finding, u32)> = HashMap::new();
    for (_, denied) in model.denied.iter().filter(|(_, denied)| asks_for_real_time(denied)) {
        let Some(finding) = finding(measures, denied) else { continue };
        let key = finding.culprit.setting.clone().unwrap_or_default();
        found.entry(key).or_insert((finding, 0)).1 += 1;
    }
    let mut found: Vec<Finding> = found
        .into_values()
        .map(|(mut finding, times)| {
            let fact = Evidence::new("times refused", f64::from(times), "1", "sys_exit");
            finding.evidence.push(fact);
            finding
        })
        .collect();
    found.sort_by(|a, b| a.culprit.setting.cmp(&b.culprit.setting));
    found
}

/// SCHED_FIFO or SCHED_RR; of sched_setattr the policy lies in memory that was not read.
fn asks_for_real_time(denied: &Denied) -> bool {
    const RESET_ON_FORK: u64 = 0x4000_0000;
    let policy = denied.args[1] & !RESET_ON_FORK;
    denied.errno == EPERM
        && match denied.syscall.as_str() {
            "sched_setscheduler" => policy == 1 || policy == 2,
            "sched_setattr" => true,
            _ => false,
        }
}

fn finding(measures: &Measures<'_>, denied: &Denied) -> Option<Finding> {
    let model = measures.model;
    let identity = identity(model, &denied.thread);
    let held = denied.capabilities.or(identity.and_then(|known| known.capabilities));
    let lacks = held.is_some_and(|held| held & CAP_SYS_NICE == 0);
    let call = Evidence::new(
        format!("{} of {} returned EPERM", denied.syscall, words::who(&denied.thread)),
        f64::from(denied.errno),
        "errno",
        "sys_exit",
    );
    if lacks {
        return Some(without_capability(measures, denied, call));
    }
    let group = group(model, &denied.thread, identity)?;
    if group.rt_runtime_us != Some(0) {
        return None;
    }
    Some(without_budget(measures, denied, call, group))
}

fn without_budget(
    measures: &Measures<'_>,
    denied: &Denied,
    call: Evidence,
    group: &Cgroup,
) -> Finding {
    let caller = measures.process_name(&denied.thread);
    let file = format!("{}/cpu.rt_runtime_us", group.directory.trim_end_matches('/'));
    Finding {
        title: format!(
            "{caller} may not have real-time priority: cgroup {} has no budget for it",
            group.path
        ),
        text: format!(
            "{} was refused, though the caller is allowed to ask: its CPU cgroup {} has cpu.rt_runtime_us 0, as every new \
             group has. Groups above it need a budget of at least the same size first.",
            denied.syscall, group.path
        ),
        severity: Severity::Warning,
        confidence: 0.96,
        object: ObjectName::new("system call", &denied.syscall),
        culprit: Culprit {
            container: Some(group.path.clone()),
            ..Culprit::setting(group.path.clone(), file.clone())
        },
        evidence: vec![
            call,
            Evidence::new("real-time budget of the group", 0.0, "us", file.clone()),
        ],
        remedy: vec![Remedy {
            text: "give the group a budget: 100 ms of each second".into(),
            command: format!("echo 100000 > {}", words::shell(&file)),
            undo: format!("echo 0 > {}", words::shell(&file)),
        }],
        ..RULE.blank()
    }
}

fn without_capability(measures: &Measures<'_>, denied: &Denied, call: Evidence) -> Finding {
    let caller = measures.process_name(&denied.thread);
    Finding {
        title: format!("{caller} may not have real-time priority: it lacks CAP_SYS_NICE"),
        text: format!(
            "{} was refused: the process has no CAP_SYS_NICE, and its RLIMIT_RTPRIO does not allow the priority. It goes \
             on at ordinary priority, or gives up.",
            denied.syscall
        ),
        severity: Severity::Warning,
        confidence: 0.9,
        object: ObjectName::new("system call", &denied.syscall),
        culprit: Culprit {
            kind: CulpritKind::Setting,
            setting: Some("CAP_SYS_NICE".into()),
            ..culprit(measures, &denied.thread)
        },
        evidence: vec![
            call,
            Evidence::new("CAP_SYS_NICE held", 0.0, "1", "effective capabilities of the caller"),
        ],
        remedy: vec![Remedy {
            text: "allow real-time priorities in the shell that starts it (as root)".into(),
            command: "ulimit -r 99".into(),
            undo: "ulimit -r 0".into(),
        }],
        ..RULE.blank()
    }
}

/// The caller, or the nearest known process that it comes from: a caller is often gone before it can be
/// asked, and what matters here is inherited.
fn identity<'a>(model: &'a Model, thread: &ThreadRef) -> Option<&'a Thread> {
    let mut at = thread.clone();
    for _ in 0..16 {
        if let Some(known) = model.identity(&at) {
            return Some(known);
        }
        let fork = model.forks.iter().find(|(_, fork)| fork.child.pid == at.pid);
        at = fork?.1.parent.clone();
    }
    None
}

fn group<'a>(model: &'a Model, thread: &ThreadRef, known: Option<&Thread>) -> Option<&'a Cgroup> {
    let id = model
        .times
        .iter()
        .find(|time| time.thread.tid == thread.tid && time.cpu_cgroup_id != 0)
        .map(|time| time.cpu_cgroup_id);
    let has_budget = |group: &&Cgroup| group.rt_runtime_us.is_some();
    if let Some(id) = id
        && let Some(group) = model.cgroups.iter().filter(has_budget).find(|group| group.id == id)
    {
        return Some(group);
    }
    model.cgroup_of(&known?.thread, "cpu")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::waits::timeline::Observed;

    fn model(budget_us: i64, capabilities: u64) -> Observed {
        let thread = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "chrt".into() };
        let controllers = vec!["cpu".to_string()];
        let membership = Membership { controllers: controllers.clone(), path: "/audio".into() };
        let bodies = [
            Body::Cgroup(Cgroup {
                path: "/audio".into(),
                controllers,
                directory: "/sys/fs/cgroup/cpu/audio".into(),
                rt_runtime_us: Some(budget_us),
                ..Cgroup::default()
            }),
            Body::Thread(Thread {
                thread: thread.clone(),
                cgroups: vec![membership],
                capabilities: Some(capabilities),
                ..Thread::default()
            }),
            Body::Denied(Denied {
                thread,
                syscall: "sched_setscheduler".into(),
                args: [0, 1, 0, 0, 0, 0],
                errno: 1,
                capabilities: None,
            }),
        ];
        Observed::new(bodies.into_iter().map(|body| Fact { at_ns: 1, body }).collect())
    }

    #[test]
    fn a_group_without_a_budget_is_the_reason_for_root_too() {
        let model = model(0, u64::MAX);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "/audio");
        assert!(found[0].remedy[0].undo.contains("/sys/fs/cgroup/cpu/audio/cpu.rt_runtime_us"));
    }

    #[test]
    fn without_the_capability_the_group_is_not_the_reason() {
        let model = model(0, 0);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found[0].culprit.setting.as_deref(), Some("CAP_SYS_NICE"));
    }

    #[test]
    fn a_budget_and_the_capability_leave_it_unexplained() {
        assert!(find(&Measures::of_observed(&model(100_000, u64::MAX))).is_empty());
    }
}
