//! cpu.rt_denied: a command asks for real-time priority and is refused.
//!
//! Two answers that look the same to the caller (EPERM): the cgroup has no real-time budget
//! (cpu.rt_runtime_us 0, the default of every new group where the kernel has CONFIG_RT_GROUP_SCHED), or the
//! caller lacks CAP_SYS_NICE. The kernel asks for the capability first, so it is looked at first. Nobody waits for it, so it
//! claims no end. Must not: guess the priority of sched_setattr, which lies in memory that was not read.

use super::cpu_waits::{SCHED_FIFO, SCHED_RR};
use crate::facts::{Cgroup, Denied, Thread, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::group_limits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Severity, Wording};
use crate::rules::{Claim, Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        Refutation::new(
            "the call did not fail for want of a permission",
            "another_error_has_another_reason",
        ),
        Refutation::new(
            "the group has a budget and the caller the capability",
            "a_budget_and_the_capability_leave_it_unexplained",
        ),
    ],
    remedies: &[
        "give the group (and each group above it) a real-time budget",
        "give the program CAP_SYS_NICE, or a higher RLIMIT_RTPRIO",
    ],
    stories: &["S1.4"],
    thresholds: &[],
    finds: Finds::Look(find),
};

const CAP_SYS_NICE: u64 = 1 << 23;
const EPERM: i32 = 1;

/// Why real-time priority was refused.
enum Why<'m> {
    Budget(&'m Cgroup),
    Capability,
}

/// A refusal, and how often there was one for the same reason.
struct Refusal<'m> {
    denied: &'m Denied,
    why: Why<'m>,
    times: u64,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    // One finding a reason, however often it was tried.
    let mut found: BTreeMap<String, Refusal<'m>> = BTreeMap::new();
    let target = measures.model.look.target.as_ref();
    // Also refused calls of those whom it asks are reported.
    let is_own = |one: &Denied| {
        measures.concerns(&one.thread) || target.is_some_and(|it| it.pid == one.parent_pid)
    };
    let all = measures.model.threads.denied.iter().map(|(_, denied)| denied);
    for denied in all.filter(|one| asks_for_real_time(one) && is_own(one)) {
        let Some(why) = why(measures, denied) else { continue };
        let reason = match why {
            Why::Budget(group) => budget_file(group),
            Why::Capability => String::new(),
        };
        let refusal = || Refusal { denied, why, times: 0 };
        let times = &mut found.entry(reason).or_insert_with(refusal).times;
        *times = times.saturating_add(denied.unreported).saturating_add(1);
    }
    found.into_values().map(|refusal| matched(measures, ends, refusal)).collect()
}

/// SCHED_FIFO or SCHED_RR; of sched_setattr the policy lies in memory that was not read.
fn asks_for_real_time(denied: &Denied) -> bool {
    const RESET_ON_FORK: u64 = 0x4000_0000;
    let policy = denied.args[1] & !RESET_ON_FORK;
    denied.errno == EPERM
        && match denied.syscall.as_str() {
            "sched_setscheduler" => {
                policy == u64::from(SCHED_FIFO) || policy == u64::from(SCHED_RR)
            }
            "sched_setattr" => true,
            _ => false,
        }
}

fn why<'m>(measures: &'m Measures<'m>, denied: &Denied) -> Option<Why<'m>> {
    let identity = identity(measures, &denied.thread);
    let held = denied.capabilities.or(identity.and_then(|known| known.capabilities));
    if held.is_some_and(|held| held & CAP_SYS_NICE == 0) {
        return Some(Why::Capability);
    }
    let group = group(measures.model, &denied.thread, identity)?;
    (group.rt_runtime_us == Some(0)).then_some(Why::Budget(group))
}

fn budget_file(group: &Cgroup) -> String {
    format!("{}/cpu.rt_runtime_us", group.directory.trim_end_matches('/'))
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], refusal: Refusal<'m>) -> Match<'m> {
    let by = match refusal.why {
        Why::Budget(group) => Culprit {
            container: Some(group.path.clone()),
            ..Culprit::setting(group.path.clone(), budget_file(group))
        },
        Why::Capability => Culprit {
            kind: CulpritKind::Setting,
            setting: Some("CAP_SYS_NICE".into()),
            ..culprit(measures.model, &refusal.denied.thread)
        },
    };
    let object = Object::SystemCall(refusal.denied.syscall.as_str().into());
    // Who runs the program again and again, as it fails, waits for the same right.
    let program = Object::Processes(refusal.denied.thread.comm.as_str().into());
    let waits_for_it = |end: &End| end.class == WaitClass::FailedProgram && end.object == program;
    let claims = ends.iter().enumerate().filter(|(_, end)| waits_for_it(end));
    let claims = claims.map(|(end, _)| Claim { end, victims: None }).collect();
    Match {
        claims,
        severity_min: Severity::Warning,
        severity_max: Severity::Warning,
        ..Match::new(by, Proof::Read, move |_| explain(measures, &refusal)).on(object)
    }
}

fn explain(measures: &Measures<'_>, refusal: &Refusal<'_>) -> Wording {
    let mut wording = match refusal.why {
        Why::Budget(group) => without_budget(measures, refusal.denied, group),
        Why::Capability => without_capability(measures, refusal.denied),
    };
    let times = Evidence::new("times refused", refusal.times as f64, "1", "sys_exit");
    wording.evidence.push(times);
    wording
}

fn call(denied: &Denied) -> Evidence {
    Evidence::new(
        format!("{} of {} returned EPERM", denied.syscall, words::who(&denied.thread)),
        f64::from(denied.errno),
        "errno",
        "sys_exit",
    )
}

fn without_budget(measures: &Measures<'_>, denied: &Denied, group: &Cgroup) -> Wording {
    let caller = measures.process_name(&denied.thread);
    let file = budget_file(group);
    Wording {
        title: format!(
            "{caller} may not have real-time priority: {} has no budget for it",
            measures.model.containers.group_in_words(&group.path)
        ),
        text: format!(
            "{} was refused, though the caller is allowed to ask: its CPU cgroup {} has cpu.rt_runtime_us 0, as every new \
             group has. Groups above it need a budget of at least the same size first.",
            denied.syscall, group.path
        ),
        evidence: vec![
            call(denied),
            Evidence::new("real-time budget of the group", 0.0, "us", file.clone()),
        ],
        remedy: vec![group_limits::raise_budget(
            measures.model,
            group,
            "give the group a budget: 100 ms of each second",
            100_000,
        )],
    }
}

fn without_capability(measures: &Measures<'_>, denied: &Denied) -> Wording {
    let caller = measures.process_name(&denied.thread);
    Wording {
        title: format!("{caller} may not have real-time priority: it lacks CAP_SYS_NICE"),
        text: format!(
            "{} was refused: the process has no CAP_SYS_NICE, and its RLIMIT_RTPRIO does not allow the priority. It goes \
             on at ordinary priority, or gives up.",
            denied.syscall
        ),
        evidence: vec![
            call(denied),
            Evidence::new("CAP_SYS_NICE held", 0.0, "1", "effective capabilities of the caller"),
        ],
        remedy: vec![Remedy {
            text: "allow real-time priorities in the shell that starts it (as root)".into(),
            command: "ulimit -r 99".into(),
            undo: "ulimit -r 0".into(),
            ..Remedy::default()
        }],
    }
}

/// The caller, or the nearest known process that it comes from: a caller is often gone before it can be
/// asked, and what matters here is inherited.
fn identity<'m>(measures: &'m Measures<'m>, thread: &ThreadRef) -> Option<&'m Thread> {
    let model = measures.model;
    let line = || measures.ancestry.line(thread.pid).find_map(|pid| model.threads.by_id.get(&pid));
    model.threads.identity(thread).or_else(line)
}

fn group<'a>(model: &'a Model, thread: &ThreadRef, known: Option<&Thread>) -> Option<&'a Cgroup> {
    let id = model
        .threads
        .times
        .iter()
        .find(|time| time.cpu_cgroup_id != 0 && model.threads.is_same(&time.thread, thread))
        .map(|time| time.cpu_cgroup_id);
    let has_budget = |group: &&Cgroup| group.rt_runtime_us.is_some();
    if let Some(id) = id
        && let Some(group) =
            model.containers.cgroups.iter().filter(has_budget).find(|group| group.id == id)
    {
        return Some(group);
    }
    model.cgroup_of(&known?.thread, "cpu")
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn found(budget_us: i64, capabilities: u64, errno: i32) -> Vec<Finding> {
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
                errno,
                ..Denied::default()
            }),
        ];
        explain(bodies.into_iter().map(|body| Fact { at_ns: 1, body }).collect()).findings
    }

    #[test]
    fn a_group_without_a_budget_is_the_reason_for_root_too() {
        let found = found(0, u64::MAX, 1);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].code, found[0].severity), ("cpu.rt_denied", Severity::Warning));
        assert_eq!(
            (&*found[0].object.kind, &*found[0].object.name),
            ("system call", "sched_setscheduler")
        );
        assert_eq!(found[0].culprit.name, "/audio");
        assert!(found[0].remedy[0].undo.contains("/sys/fs/cgroup/cpu/audio/cpu.rt_runtime_us"));
    }

    #[test]
    fn without_the_capability_the_group_is_not_the_reason() {
        let found = found(0, 0, 1);
        assert_eq!(found[0].culprit.setting.as_deref(), Some("CAP_SYS_NICE"));
    }

    #[test]
    fn a_budget_and_the_capability_leave_it_unexplained() {
        assert_eq!(found(100_000, u64::MAX, 1), []);
    }

    #[test]
    fn a_script_that_tries_it_again_and_again_waits_for_that_right() {
        let denied = Denied {
            args: [0, 1, 0, 0, 0, 0],
            errno: 1,
            capabilities: Some(0),
            ..refusal(0, "chrt", "sched_setscheduler")
        };
        let report = explain(script_whose_children_are_refused(&denied, 256));
        let codes: Vec<&str> = report.findings.iter().map(|found| &*found.code).collect();
        assert_eq!(codes, ["cpu.rt_denied"]);
        assert!(report.findings[0].impact.share > 0.5, "{:?}", report.findings[0].impact);
    }

    #[test]
    fn another_error_has_another_reason() {
        const EINVAL: i32 = 22;
        assert_eq!(found(0, 0, EINVAL), []);
    }
}
