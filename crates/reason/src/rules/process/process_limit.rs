//! process.process_limit: a new process or thread is refused, and whoever wants it sleeps before it tries again.
//!
//! fork and clone return EAGAIN for three limits that look the same to the caller: pids.max of a cgroup, RLIMIT_NPROC of
//! the user, and what the host has room for. The kernel's own count of the group is read at the refusal; if no group is full,
//! RLIMIT_NPROC is left, which does not hold whoever has CAP_SYS_ADMIN or CAP_SYS_RESOURCE. Where no refused call was seen
//! (a host is not asked for them, and a caller may give up at once), the group's own count of refusals says that it is full,
//! and not who was refused. Must not: put time of anybody on a limit that was met by a caller without sleeps.

use super::raised_limit;
use crate::facts::{Cgroup, DeniedLimit, LimitKind, Thread};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::full_groups::{FullGroup, full_groups};
use crate::measure::refusals::Tries;
use crate::model::Model;
use crate::model::membership::belongs;
use crate::model::object::{CgroupKey, Object};
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::group_limits;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.process_limit",
    title: "New processes are refused for want of a number",
    theory: "Each process and each thread takes a number. pids.max of a cgroup limits how many the group and those below it \
             may have, RLIMIT_NPROC how many a user may have, kernel.threads-max and kernel.pid_max all of the host. fork \
             and clone return EAGAIN at once then. Shells try again after 1, 2, 4 and more seconds, others give up.",
    needs: &[
        "fork or clone returned EAGAIN, and the caller slept before it tried again; or a group's pids.events counted it",
        "the limit that was met: the kernel's count of a group is at its pids.max, or RLIMIT_NPROC is all that is left",
    ],
    refuted_by: &[
        Refutation::new(
            "the caller did not sleep after the refusal: it gave up, and no group counted it",
            "a_caller_that_gives_up_waits_for_nothing",
        ),
        Refutation::new(
            "the group's count was as high when the look began",
            "a_group_that_was_full_before_the_look_is_no_news",
        ),
        Refutation::new("another call was refused", "another_call_has_another_limit"),
    ],
    remedies: &[
        "end processes of the group or user that are not needed",
        "raise pids.max of the group, or RLIMIT_NPROC (ulimit -u)",
    ],
    stories: &[],
    thresholds: &[&refusal_words::SLEPT_MIN],
    finds: Finds::Look(find),
};

/// What was met.
enum Met<'m> {
    Group(&'m Cgroup),
    User,
    Host,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let open = ends.iter().enumerate().filter(|(_, end)| !end.victims.is_empty());
    let mut found: Vec<Match<'m>> =
        open.filter_map(|(at, end)| Some(of_end(measures, end)?.claiming(at, None))).collect();
    let is_said = |full: &FullGroup<'_>| {
        ends.iter().any(|end| match &end.object {
            Object::Cgroup(key) => {
                end.class == WaitClass::RefusedLimit && key.path == full.group.path
            }
            _ => false,
        })
    };
    let counted = full_groups(measures.model).into_iter().filter(|full| !is_said(full));
    found.extend(counted.filter_map(|full| of_count(measures, full)));
    found
}

/// A group that counted refusals, where nobody was seen to wait for it.
fn of_count<'m>(measures: &'m Measures<'m>, full: FullGroup<'m>) -> Option<Match<'m>> {
    let is_asked_about = |thread: &Thread| {
        belongs(thread, full.group, &["pids"]) && measures.concerns(&thread.thread)
    };
    if !measures.model.threads.by_id.values().any(is_asked_about) {
        return None;
    }
    let matched =
        Match::new(by(full.group), Proof::Read, move |_| of_count_in_words(measures, &full));
    Some(Match {
        object: Some(Object::Cgroup(CgroupKey::of(full.group))),
        losses: Some(Losses::new()),
        severity_min: Severity::Warning,
        severity_max: Severity::Warning,
        chain: Some(Vec::new()),
        ..matched
    })
}

fn of_end<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::RefusedLimit {
        return None;
    }
    let met = match &end.object {
        Object::Cgroup(key) => Met::Group(group(measures.model, key)?),
        Object::Limit("RLIMIT_NPROC") => Met::User,
        Object::Limit("kernel.threads-max" | "pids.max") => Met::Host,
        _ => return None,
    };
    let tries = refusal_words::tries(measures, end)?;
    let (by, proof) = match met {
        Met::Group(group) => (by(group), Proof::Read),
        Met::User => {
            let (kind, setting) = (CulpritKind::Setting, Some("RLIMIT_NPROC".into()));
            let by = culprit(measures.model, &tries.last.thread);
            (Culprit { kind, setting, ..by }, Proof::Inferred)
        }
        Met::Host => {
            (Culprit::setting("kernel.threads-max", "kernel.threads-max"), Proof::OneWitness)
        }
    };
    Some(Match::new(by, proof, move |loss| explain(measures, &met, &tries, loss)))
}

fn group<'m>(model: &'m Model, key: &CgroupKey) -> Option<&'m Cgroup> {
    let is_it = |group: &&Cgroup| group.path == key.path && group.controllers == key.controllers;
    model.containers.cgroups.iter().find(is_it)
}

fn by(group: &Cgroup) -> Culprit {
    let setting = Culprit::setting(group.path.clone(), file(group));
    Culprit { container: Some(group.path.clone()), ..setting }
}

fn of_count_in_words(measures: &Measures<'_>, full: &FullGroup<'_>) -> Wording {
    let FullGroup { group, limit, refused } = *full;
    let times = if refused == 1 { "once".into() } else { format!("{refused} times") };
    Wording {
        title: format!(
            "{} is full: a new process was refused {times}",
            measures.model.containers.group_in_words(&group.path)
        ),
        text: format!(
            "The group may have {limit} processes and threads, those of groups below it included. The kernel counts the \
             refusals and not who was refused; a shell tries again after 1, 2, 4 and more seconds, others give up."
        ),
        evidence: vec![
            Evidence::new("new processes or threads refused", refused as f64, "1", "pids.events"),
            Evidence::new("pids.max", limit as f64, "1", file(group)),
        ],
        remedy: vec![larger(measures.model, group, limit)],
    }
}

fn larger(model: &Model, group: &Cgroup, limit: u64) -> Remedy {
    let text = "end some of those that it has, or let the group have twice as many";
    group_limits::raise_processes(model, group, text, limit.saturating_mul(2))
}

fn file(group: &Cgroup) -> String {
    format!("{}/pids.max", group.directory.trim_end_matches('/'))
}

fn explain(measures: &Measures<'_>, met: &Met<'_>, tries: &Tries<'_>, loss: &Loss<'_>) -> Wording {
    let victim = refusal_words::subject(measures, tries, loss);
    let limit = tries.last.limit.map_or(0, |limit| limit.limit);
    let slept = refusal_words::between(tries, loss.seconds, loss.wall_seconds);
    let mut evidence = refusal_words::evidence(tries, loss.seconds);
    if let Some(met) = tries.last.limit.filter(|met| met.kind == LimitKind::PidsCgroup) {
        let count = "processes and threads of the group at the refusal";
        evidence.push(Evidence::new(count, met.used as f64, "1", "struct pids_cgroup"));
    }
    match met {
        Met::Group(group) => Wording {
            title: format!(
                "{victim} may not begin another process: {} is full",
                measures.model.containers.group_in_words(&group.path)
            ),
            text: format!(
                "{slept} The group may have {limit} processes and threads, those of groups below it included, and has as many. \
                 Whoever made the group set its pids.max."
            ),
            evidence: {
                evidence.push(Evidence::new("pids.max", limit as f64, "1", file(group)));
                evidence
            },
            remedy: vec![larger(measures.model, group, limit)],
        },
        Met::User => Wording {
            title: format!(
                "{victim} may not begin another process: its user has as many as RLIMIT_NPROC allows"
            ),
            text: format!(
                "{slept} RLIMIT_NPROC of the caller is {limit}; it counts all processes and threads of its user. No cgroup of \
                 it is full."
            ),
            evidence,
            remedy: tries.last.limit.iter().map(|met| of_user(measures, tries, met)).collect(),
        },
        Met::Host => Wording {
            title: format!("{victim} may not begin another process: the host has no room for it"),
            text: format!(
                "{slept} No cgroup of the caller is full, and RLIMIT_NPROC does not hold it: what is left is the host's own \
                 limit (kernel.threads-max, kernel.pid_max), or that of a PID namespace."
            ),
            evidence,
            remedy: vec![Remedy {
                text: "see how many there are, and how many there may be".into(),
                command:
                    "grep . /proc/sys/kernel/threads-max /proc/sys/kernel/pid_max /proc/loadavg"
                        .into(),
                action: Some(Action::look(Question::State)),
                ..Remedy::default()
            }],
        },
    }
}

/// The kernel holds the count of all that the user has against the limit of whoever begins another.
fn of_user(measures: &Measures<'_>, tries: &Tries<'_>, met: &DeniedLimit) -> Remedy {
    let text =
        "let it, and what it begins, go on until its user has twice as many; or end some of those";
    let of = ("--nproc", "RLIMIT_NPROC");
    raised_limit::twice(measures, text, &tries.last.thread, of, met)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;
    const EAGAIN: i32 = 11;

    /// A shell that is refused a process, sleeps a second, and is refused again.
    fn found(syscall: &str, limit: DeniedLimit, sleeps: bool) -> Vec<Finding> {
        explain([host(), refused(syscall, limit, sleeps)].concat()).findings
    }

    fn refused(syscall: &str, limit: DeniedLimit, sleeps: bool) -> Vec<Fact> {
        let group = Cgroup {
            path: "/build".into(),
            controllers: vec!["pids".into()],
            directory: "/sys/fs/cgroup/pids/build".into(),
            id: 77,
            pids_limit: Some(3),
            ..Cgroup::default()
        };
        let mut facts = vec![of_process(10, "bash"), fact(Body::Cgroup(group))];
        for at in 1..4 {
            let refusal = Denied {
                errno: EAGAIN,
                capabilities: Some(0),
                limit: Some(limit),
                ..refusal(10, "bash", syscall)
            };
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refusal) });
            if sleeps {
                facts.push(slept(10, "bash", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
            }
        }
        facts
    }

    fn of_group() -> DeniedLimit {
        DeniedLimit { kind: LimitKind::PidsCgroup, limit: 3, hard: 0, used: 3, cgroup_id: 77 }
    }

    fn of_user(limit: u64) -> DeniedLimit {
        DeniedLimit {
            kind: LimitKind::Processes,
            limit,
            hard: limit.saturating_mul(2),
            used: 0,
            cgroup_id: 0,
        }
    }

    #[test]
    fn a_full_group_is_the_reason_and_can_be_made_larger() {
        let found = found("clone", of_group(), true);
        assert_eq!(
            (&*found[0].code, found[0].severity),
            ("process.process_limit", Severity::Critical)
        );
        assert_eq!((&*found[0].object.kind, &*found[0].object.name), ("cgroup", "/build"));
        assert_eq!(found[0].culprit.setting.as_deref(), Some("/sys/fs/cgroup/pids/build/pids.max"));
        assert_eq!(found[0].remedy[0].command, "echo 6 > /sys/fs/cgroup/pids/build/pids.max");
        assert_eq!(found[0].remedy[0].undo, "echo 3 > /sys/fs/cgroup/pids/build/pids.max");
    }

    #[test]
    fn without_a_full_group_the_users_limit_is_left_and_then_the_hosts() {
        let found_user = found("clone3", of_user(100), true);
        assert_eq!(found_user[0].culprit.setting.as_deref(), Some("RLIMIT_NPROC"));
        assert_eq!(found_user[0].remedy[0].command, "prlimit --pid 10 --nproc=200:");
        let found_host = found("vfork", of_user(u64::MAX), true);
        assert_eq!(found_host[0].culprit.name, "kernel.threads-max");
    }

    #[test]
    fn a_caller_that_gives_up_waits_for_nothing() {
        assert_eq!(found("clone", of_group(), false), []);
    }

    /// Groups with their limit and what pids.events said at the begin and at the end.
    fn counted(groups: &[(&str, Option<u64>, [u64; 2])]) -> Vec<Finding> {
        explain(counted_facts(groups)).findings
    }

    fn counted_facts(groups: &[(&str, Option<u64>, [u64; 2])]) -> Vec<Fact> {
        let controllers = || vec!["pids".to_string()];
        let mut facts = host();
        let member = Membership { controllers: controllers(), path: "/build/job".into() };
        facts.push(identity(Thread {
            thread: thread(10, "bash"),
            cgroups: vec![member],
            ..Thread::default()
        }));
        for (at, (path, pids_limit, counts)) in groups.iter().enumerate() {
            facts.push(fact(Body::Cgroup(Cgroup {
                path: path.to_string(),
                controllers: controllers(),
                directory: format!("/sys/fs/cgroup/pids{path}"),
                id: 70 + at as u64,
                pids_limit: *pids_limit,
                ..Cgroup::default()
            })));
            for (part, count) in counts.iter().enumerate() {
                let sample = CgroupSample {
                    path: path.to_string(),
                    controllers: controllers(),
                    processes_refused: Some(*count),
                    ..CgroupSample::default()
                };
                facts.push(Fact { at_ns: part as u64 * LOOK_NS, body: Body::CgroupSample(sample) });
            }
        }
        facts
    }

    #[test]
    fn a_group_that_counted_refusals_is_full_though_nobody_was_seen_to_wait() {
        // At the group that asked; the limit stands above it.
        let found = counted(&[("/build", Some(6), [0, 0]), ("/build/job", None, [2, 5])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(found[0].title, "cgroup /build is full: a new process was refused 3 times");
        assert_eq!(found[0].remedy[0].undo, "echo 6 > /sys/fs/cgroup/pids/build/pids.max");
        assert_eq!(found[0].victims, []);
    }

    #[test]
    fn a_refusal_that_is_counted_upwards_too_is_the_lower_groups() {
        let found = counted(&[("/build", Some(60), [0, 3]), ("/build/job", Some(6), [0, 3])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].object.name, found[0].evidence[0].value), ("/build/job", 3.0));
    }

    #[test]
    fn a_group_that_was_full_before_the_look_is_no_news() {
        assert_eq!(counted(&[("/build/job", Some(6), [7, 7])]), []);
    }

    #[test]
    fn another_call_has_another_limit() {
        let found = found("accept4", of_group(), true);
        assert!(found.iter().all(|one| one.code != "process.process_limit"), "{found:?}");
    }

    #[test]
    fn a_group_that_somebody_waits_for_is_said_once_and_another_beside_it() {
        let groups = [("/build", Some(3), [0, 3]), ("/build/job", Some(6), [0, 2])];
        let mut facts = counted_facts(&groups);
        let of_host = |fact: &Fact| !matches!(fact.body, Body::Target(_));
        facts.extend(refused("clone", of_group(), true).into_iter().filter(of_host));
        let found = explain(facts).findings;
        let names: Vec<_> = found.iter().map(|it| (&*it.code, &*it.object.name)).collect();
        let code = "process.process_limit";
        assert_eq!(names, [(code, "/build"), (code, "/build/job")]);
    }
}
