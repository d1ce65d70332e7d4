//! process.frozen: a cgroup was frozen, and with it everything in it.
//!
//! Paused containers, checkpoints, and scripts that froze and died. v1 says so in freezer.state, v2 in
//! cgroup.freeze; frozen threads sit in the refrigerator. The outermost frozen group is named, because thawing one
//! inside it does nothing. Must not: blame the container for a group around it that was frozen.

use super::standstill::{NOTICED, Standstill};
use crate::facts::{Cgroup, Container, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::programs;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::waits::WaitClass;
use crate::waits::objects;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.frozen",
    title: "A cgroup is frozen",
    theory: "The cgroup freezer holds every thread of a group until it is thawed: docker pause, checkpoints and \
             snapshots use it. Frozen processes keep their connections and locks, do not take signals (not even \
             SIGKILL on v1), and look like merely sleeping ones.",
    needs: &[
        "threads stand in the kernel's refrigerator",
        "their cgroup, or one above it, says that it is frozen",
        "others wait for them (else it is only a note), or they are the target",
    ],
    refuted_by: &[Refutation::new(
        "the group is thawed and its threads sleep or run",
        "a_sleeping_process_in_a_thawed_group_is_nothing",
    )],
    remedies: &["thaw the group", "unpause the container"],
    stories: &["S0.4"],
    thresholds: &[&NOTICED],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let model = measures.model;
    let stands = Standstill::of(measures, end, WaitClass::FrozenCgroup)?;
    let frozen = stands.process(measures)?;
    let group = objects::frozen_group(model, &frozen);
    let container = group.and_then(|group| container_of(measures, &frozen, group));
    let words = explain(measures, &stands, &frozen, group, container);
    let proof = if group.is_some() { Proof::Read } else { Proof::OneWitness };
    let matched = Match::new(culprit(group, container), proof, move |_| words.clone());
    Some(stands.weigh(measures, matched))
}

fn explain(
    measures: &Measures<'_>,
    stands: &Standstill<'_>,
    frozen: &ThreadRef,
    group: Option<&Cgroup>,
    container: Option<&Container>,
) -> Wording {
    let name = match (&container, group) {
        (Some(container), _) if !container.is_real() => format!("container {}", container.name),
        (_, Some(group)) => measures.model.containers.group_in_words(&group.path),
        (Some(container), None) => format!("container {}", container.full_name()),
        (None, None) => "its cgroup".into(),
    };
    let who = words::who(frozen);
    let title = match stands.has_victims() {
        false => format!(
            "{name} is frozen, with {}",
            words::count(stands.own.len(), "process", "processes")
        ),
        true => {
            format!("{} waits for {who}, which is frozen with {name}", stands.victim(measures))
        }
    };
    let waits = match stands.others.victims.len() {
        0 => "Nobody outside of it was seen to wait for it.".to_string(),
        n => format!(
            "{} outside of it waited {}.",
            words::count(n, "process", "processes"),
            words::of_window(stands.others.seconds, measures.wall_seconds())
        ),
    };
    // Of cgroup v1 not even SIGKILL gets through (Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze).
    let takes = match (stands.own.len() == 1, group.is_some_and(|it| it.controllers.is_empty())) {
        (true, true) => "stands still and takes no signal but SIGKILL",
        (false, true) => "stand still and take no signal but SIGKILL",
        (true, false) => "stands still and does not even take a signal",
        (false, false) => "stand still and do not even take a signal",
    };
    Wording {
        title,
        text: format!(
            "{name} has been frozen for {}: {} {takes}. {waits}",
            wait_words::duration(&stands.longest),
            wait_words::list(measures, &stands.own),
        ),
        evidence: evidence(stands, group),
        remedy: remedy(group, container),
    }
}

/// The container whose own group was frozen, rather than one around it.
fn container_of<'a>(
    measures: &'a Measures<'_>,
    frozen: &ThreadRef,
    group: &Cgroup,
) -> Option<&'a Container> {
    let container = measures.model.container_of(frozen)?;
    container.cgroups.contains(&group.path).then_some(container)
}

fn switch(group: &Cgroup) -> (String, &'static str, &'static str, &'static str) {
    match group.controllers.is_empty() {
        true => (format!("{}/cgroup.freeze", group.directory), "0", "1", "cgroup.freeze"),
        false => {
            (format!("{}/freezer.state", group.directory), "THAWED", "FROZEN", "freezer.state")
        }
    }
}

fn culprit(group: Option<&Cgroup>, container: Option<&Container>) -> Culprit {
    let setting = group.map(|group| switch(group).0);
    if let Some(container) = container {
        return Culprit {
            kind: CulpritKind::Container,
            name: container.name.clone(),
            container: group.map(|group| group.path.clone()),
            setting,
            ..Culprit::default()
        };
    }
    match group {
        Some(group) => Culprit::setting(group.path.clone(), setting.unwrap_or_default()),
        None => Culprit::setting("cgroup freezer", "freezer.state or cgroup.freeze"),
    }
}

fn evidence(stands: &Standstill<'_>, group: Option<&Cgroup>) -> Vec<Evidence> {
    let mut evidence = wait_words::longest_evidence(&stands.longest, "threads frozen, longest");
    let frozen = stands.own.len() as f64;
    evidence.push(Evidence::new("processes frozen", frozen, "1", "task iterator"));
    if let Some(group) = group {
        let said = format!("{} says frozen", switch(group).0);
        evidence.push(Evidence::new(said, 1.0, "1", switch(group).3));
    }
    evidence.extend(stands.others_evidence("what is frozen"));
    evidence
}

fn remedy(group: Option<&Cgroup>, container: Option<&Container>) -> Vec<Remedy> {
    let mut ways = Vec::new();
    if let Some(container) = container
        && let Some((unpause, pause)) = programs::freezer(&container.runtime)
    {
        let name = words::shell(&container.name);
        ways.push(Remedy {
            text: "unpause the container".into(),
            command: format!("{unpause} {name}"),
            undo: format!("{pause} {name}"),
            ..Remedy::default()
        });
    }
    if let Some(group) = group {
        let (file, thaw, freeze, _) = switch(group);
        ways.push(Remedy::to("thaw the group").write(&file, thaw, freeze));
    }
    ways
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{CulpritKind, Severity, Verdict};
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn frozen_server(controllers: &[&str]) -> Vec<Fact> {
        let controllers: Vec<String> = controllers.iter().map(|c| (*c).to_string()).collect();
        let group = |path: &str, frozen| Cgroup {
            path: path.into(),
            controllers: controllers.clone(),
            directory: format!("/sys/fs/cgroup/x{path}"),
            frozen: Some(frozen),
            ..Cgroup::default()
        };
        let inside = Membership { controllers: controllers.clone(), path: "/jobs/one".into() };
        let mut facts = host();
        facts.push(fact(Body::Cgroup(group("/", false))));
        facts.push(fact(Body::Cgroup(group("/jobs", true))));
        facts.push(fact(Body::Cgroup(group("/jobs/one", true))));
        facts.push(identity(Thread {
            thread: thread(20, "server"),
            cgroups: vec![inside],
            ..Thread::default()
        }));
        facts
    }

    #[test]
    fn the_outermost_frozen_group_of_v1_is_named_with_its_thaw_command() {
        let mut facts = frozen_server(&["freezer"]);
        facts.extend(client_and_server(blocked(20, "server", WaitState::Frozen, "")));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.frozen", Severity::Critical));
        assert_eq!(finding.object.name, "/jobs");
        assert_eq!(finding.culprit.kind, CulpritKind::Setting);
        let thaw = "echo THAWED > /sys/fs/cgroup/x/jobs/freezer.state";
        assert_eq!(finding.remedy[0].command, thaw);
        assert!(finding.text.contains("does not even take a signal"), "{}", finding.text);
    }

    #[test]
    fn v2_is_thawed_by_its_own_file_and_nobody_waiting_is_a_note() {
        let mut facts = frozen_server(&[]);
        facts.push(blocked(20, "server", WaitState::Frozen, ""));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.frozen", Severity::Note));
        let thaw = "echo 0 > /sys/fs/cgroup/x/jobs/cgroup.freeze";
        assert_eq!(finding.remedy[0].command, thaw);
        assert!(finding.text.contains("takes no signal but SIGKILL"), "{}", finding.text);
    }

    #[test]
    fn a_group_that_nobody_waits_for_is_no_loss_of_the_host() {
        let mut facts = frozen_server(&[]);
        facts.push(blocked(20, "server", WaitState::Frozen, "read"));
        let report = explain(facts);
        assert_eq!(report.answer.verdict, Verdict::Idle, "{}", report.answer.title);
        assert_eq!(report.findings[0].code, "process.frozen");
        let mut facts = frozen_server(&[]);
        facts.extend(client_and_server(blocked(20, "server", WaitState::Frozen, "read")));
        let answer = explain(facts).answer;
        assert_eq!((answer.verdict, answer.ends[0].finding), (Verdict::Held, Some(0)));
    }

    #[test]
    fn a_container_that_is_frozen_as_a_whole_is_a_warning_when_asked_about() {
        let mut facts = frozen_server(&["freezer"]);
        facts.push(fact(Body::Target(Target {
            kind: TargetKind::Container,
            name: "one".into(),
            pid: 0,
            cgroups: vec!["/jobs/one".into()],
            words: Vec::new(),
        })));
        let time = ThreadTime {
            thread: thread(20, "server"),
            until_ns: LOOK_NS,
            sleep_ns: LOOK_NS,
            ..ThreadTime::default()
        };
        facts.push(fact(Body::ThreadTime(time)));
        facts.push(blocked(20, "server", WaitState::Frozen, ""));
        assert_eq!(explain(facts).findings[0].severity, Severity::Warning);
    }

    #[test]
    fn a_sleeping_process_in_a_thawed_group_is_nothing() {
        let mut facts = host();
        facts.push(blocked(20, "server", WaitState::Sleep, "epoll_wait"));
        assert!(explain(facts).findings.is_empty());
    }
}
