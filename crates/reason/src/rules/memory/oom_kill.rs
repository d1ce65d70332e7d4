//! memory.oom_kill: a process was killed because the host, or a group that is gone by now, had no memory left.
//!
//! The kernel marks its victim (oom:mark_victim) and prints what was short (the constraint), who had how much, and who was
//! killed. Kills at the limit of a group that is still there are memory.limit's, which knows the setting and what it costs,
//! unless they are the last of a series of which each had a group of its own. A kill that SysRq asked for is said as that.
//! Must not: guess what was short where the log does not say.

use super::kill_words;
use crate::facts::{OomReport, ThreadRef};
use crate::measure::Measures;
use crate::measure::oom_kills::Killed;
use crate::model::object::{CgroupKey, Object};
use crate::model::words;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.oom_kill",
    title: "A process was killed for want of memory",
    theory: "Where an allocation must be met and nothing more can be freed, the kernel kills the process that has most memory \
             (weighted by its oom_score_adj), with exit status 137; shells print `Killed`. It is chosen among all of the host, \
             of a cgroup at its limit, or of the memory nodes that a cpuset allows. Who asked for the last page and who is \
             killed need not be who has grown. SysRq f has the same done by hand.",
    needs: &[
        "the kernel marked a process as the victim, or printed that it killed it",
        "what was short, by the constraint that it printed",
    ],
    refuted_by: &[Refutation::new(
        "it was the limit of a group that is still there: memory.limit",
        "a_kill_at_a_groups_limit_is_the_limits",
    )],
    remedies: &[
        "give whoever grows a memory limit of its own, so that it cannot take from others",
        "give the host memory or swap",
        "protect what must live (oom_score_adj -1000, memory.min)",
    ],
    stories: &["S0.3"],
    thresholds: &[],
    finds: Finds::Look(find),
};

/// What had no memory left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Short {
    Host,
    /// A cgroup.
    Group,
    /// The memory nodes of a cpuset or a policy.
    Nodes,
    /// Nothing: it was asked for.
    BySysRq,
    Unknown,
}

fn short(kill: &Killed<'_>) -> Short {
    let Some(report) = kill.report else { return Short::Unknown };
    match report.constraint.as_str() {
        _ if report.by_sysrq => Short::BySysRq,
        "CONSTRAINT_NONE" => Short::Host,
        "CONSTRAINT_MEMCG" => Short::Group,
        "CONSTRAINT_CPUSET" | "CONSTRAINT_MEMORY_POLICY" => Short::Nodes,
        _ => Short::Unknown,
    }
}

fn find<'m>(measures: &'m Measures<'m>, _ends: &'m [crate::graph::end::End]) -> Vec<Match<'m>> {
    let (model, ancestry) = (measures.model, &measures.ancestry);
    let at_a_limit = |kill: &Killed<'_>| {
        let mut limited = measures.memory.limited.iter().filter(|one| one.kills > 0);
        limited.any(|one| kill.is_at_limit_of(model, ancestry, one.group))
    };
    let mut by_cause: BTreeMap<(Short, &str), Vec<&Killed<'_>>> = BTreeMap::new();
    let kills = || measures.memory.oom_kills.iter().filter(|kill| measures.concerns(&kill.victim));
    let at_groups: BTreeSet<&str> =
        kills().filter(|it| short(it) == Short::Group).map(|it| it.victim.comm.as_str()).collect();
    for kill in kills() {
        // Of very many kills the log keeps some: the others of that name are of the same kind.
        let short = match short(kill) {
            Short::Unknown if at_groups.contains(kill.victim.comm.as_str()) => Short::Group,
            short => short,
        };
        // Where the log does not say what was short, a group that met its limit did; that the last group of a series still
        // stands is chance.
        let may_be_the_limits =
            matches!(short, Short::Group | Short::Unknown) && !kill.is_of_series;
        let is_the_limits = may_be_the_limits && at_a_limit(kill);
        if !is_the_limits {
            // Jobs that are started again each have a group of their own.
            let name = if short == Short::Group { kill.victim.comm.as_str() } else { "" };
            by_cause.entry((short, name)).or_default().push(kill);
        }
    }
    by_cause.into_iter().map(|((short, _), kills)| matched(measures, short, kills)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, short: Short, kills: Vec<&'m Killed<'m>>) -> Match<'m> {
    let losses: Losses =
        kills.iter().map(|kill| (kill.victim.pid, (kill.victim.clone(), 0.0))).collect();
    let report = kills.iter().rev().find_map(|kill| kill.report);
    let group = common_group(&kills);
    let key = |path: &String| CgroupKey { path: path.clone(), controllers: vec!["memory".into()] };
    let object = Object::Memory(group.as_ref().map(key));
    let proof = if short == Short::Unknown { Proof::OneWitness } else { Proof::Read };
    Match {
        object: Some(object),
        losses: Some(losses),
        severity_min: Severity::Critical,
        chain: Some(Vec::new()),
        ..Match::new(responsible(measures, &short, group.as_deref(), report), proof, move |_| {
            explain(measures, &short, &kills, group.as_deref())
        })
    }
}

/// The group whose limit was met, or what holds all groups of which it is known.
fn common_group(kills: &[&Killed<'_>]) -> Option<String> {
    let mut groups = kills.iter().filter_map(|kill| kill.group());
    let mut common = groups.next()?.to_string();
    for group in groups {
        while group != common && !group.starts_with(&format!("{common}/")) {
            common.truncate(common.rfind('/')?);
        }
    }
    Some(common).filter(|path| !path.is_empty())
}

/// Of a host, who had most; of a group, the group; of SysRq, whoever asked is not known.
fn responsible(
    measures: &Measures<'_>,
    short: &Short,
    group: Option<&str>,
    report: Option<&OomReport>,
) -> Culprit {
    if let Some(path) = group {
        return Culprit {
            kind: CulpritKind::Container,
            name: path.into(),
            container: Some(path.into()),
            ..Culprit::default()
        };
    }
    match (short, report.and_then(|report| report.tasks.first())) {
        (Short::Host | Short::Nodes, Some(most)) => {
            let known = measures.model.threads.thread_ref(most.pid);
            let comm = most.comm.clone();
            culprit(measures.model, &ThreadRef { tid: most.pid, pid: most.pid, comm, ..known })
        }
        (Short::BySysRq, _) => {
            Culprit { kind: CulpritKind::Kernel, name: "SysRq f".into(), ..Culprit::default() }
        }
        _ => Culprit::default(),
    }
}

fn explain(
    measures: &Measures<'_>,
    short: &Short,
    kills: &[&Killed<'_>],
    group: Option<&str>,
) -> Wording {
    let others = match kills.len() {
        0 | 1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let who = kills.last().map_or_else(String::new, |kill| words::who(&kill.victim));
    let were = if kills.len() > 1 { "were" } else { "was" };
    let title = match short {
        Short::Host => format!("{who}{others} {were} killed: the host had no memory left"),
        Short::Group => {
            let cgroup = group.map_or_else(String::new, |path| format!(" {path}"));
            let met = if is_below(kills, group) { "a group in cgroup" } else { "cgroup" };
            let met = if group.is_none() { "its cgroup" } else { met };
            format!("{who}{others} {were} killed: {met}{cgroup} met its memory limit")
        }
        Short::Nodes => {
            format!("{who}{others} {were} killed: the memory nodes it may use were full")
        }
        Short::BySysRq => format!("{who}{others} {were} killed by SysRq f, as somebody asked"),
        Short::Unknown => format!("{who}{others} {were} killed for want of memory"),
    };
    let mut evidence =
        vec![Evidence::new("processes killed", kills.len() as f64, "1", "oom:mark_victim")];
    evidence.extend(kill_words::evidence(kills));
    let mut text = kill_words::of_all(measures, kills);
    match short {
        Short::Group => text.push_str(&of_group(kills)),
        Short::Unknown => {
            text.push_str("What was short is not known: the kernel's log does not say.")
        }
        Short::Host | Short::Nodes | Short::BySysRq => host(measures, &mut text, &mut evidence),
    }
    Wording { title, text: text.trim_end().into(), evidence, remedy: vec![remedy(short)] }
}

/// What is known of a group whose settings are not.
fn of_group(kills: &[&Killed<'_>]) -> String {
    const GONE: &str = "it is gone by now, or its settings could not be read";
    let reports = kills.iter().rev().filter_map(|kill| kill.report);
    match reports.map(|report| report.usage_bytes).find(|bytes| *bytes > 0) {
        Some(bytes) => {
            let had = words::bytes(bytes as f64);
            format!("The group had {had} then, as much as it may have; {GONE}.")
        }
        None => format!("What the limit of the group was is not known: {GONE}."),
    }
}

/// Whether the groups are known to lie below the one that is named.
fn is_below(kills: &[&Killed<'_>], group: Option<&str>) -> bool {
    kills.iter().filter_map(|kill| kill.group()).any(|path| Some(path) != group)
}

/// What the host has by its last reading.
fn host(measures: &Measures<'_>, text: &mut String, evidence: &mut Vec<Evidence>) {
    let Some((_, memory)) = measures.model.memory.samples.last() else { return };
    text.push_str(&format!(
        "The host has {} of memory and {} of swap; now {} are available.",
        words::bytes(memory.total_bytes as f64),
        words::bytes(memory.swap_total_bytes as f64),
        words::bytes(memory.available_bytes as f64),
    ));
    let available = memory.available_bytes as f64;
    evidence.push(Evidence::new("available at the end", available, "bytes", "/proc/meminfo"));
}

fn remedy(short: &Short) -> Remedy {
    let (text, command) = match short {
        Short::BySysRq => (
            "see who may ask for it",
            "cat /proc/sys/kernel/sysrq; journalctl -k | grep -i sysrq | tail",
        ),
        Short::Group => (
            "raise the memory limit with which the group is made, or make the program need less",
            "",
        ),
        Short::Host | Short::Nodes | Short::Unknown => (
            "see who has the memory, and give whoever grows a limit of its own",
            "ps -eo pid,rss,cgroup,comm --sort=-rss | head",
        ),
    };
    Remedy { text: text.into(), command: command.into(), ..Remedy::default() }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MIB: u64 = 1 << 20;

    fn killed(pid: u32, at_ns: Ns) -> Vec<Fact> {
        let child = thread(pid, "job");
        let kill = OomKill { victim: child.clone(), cgroup_id: 77, private_bytes: 0 };
        let fork = Fork { parent: thread(9, "keeper"), child, flags: 0 };
        vec![
            Fact { at_ns: at_ns - 400_000_000, body: Body::Fork(fork) },
            Fact { at_ns, body: Body::OomKill(kill) },
        ]
    }

    fn printed(pid: u32, at_ns: Ns, constraint: &str, group: &str) -> Fact {
        let task = |pid, comm: &str, mib: u64| OomTask {
            pid,
            comm: comm.into(),
            rss_bytes: mib * MIB,
            swap_bytes: 0,
        };
        let report = OomReport {
            pid,
            comm: "job".into(),
            anon_bytes: 40 * MIB,
            constraint: constraint.into(),
            group: group.into(),
            tasks: vec![task(4, "hoard", 900), task(pid, "job", 40)],
            task_count: 2,
            tasks_bytes: 940 * MIB,
            ..OomReport::default()
        };
        Fact { at_ns, body: Body::OomReport(report) }
    }

    fn found(facts: Vec<Fact>) -> Vec<Finding> {
        let mut found = explain([host(), facts].concat()).findings;
        found.retain(|finding| finding.code.starts_with("memory."));
        found
    }

    const AT: Ns = 2_000_000_000;

    #[test]
    fn a_kill_of_the_host_names_who_had_most() {
        let facts = [killed(20, AT), vec![printed(20, AT, "CONSTRAINT_NONE", "")]].concat();
        let found = found(facts);
        assert_eq!((found.len(), found[0].code.as_str()), (1, "memory.oom_kill"));
        assert_eq!(found[0].title, "job 20 was killed: the host had no memory left");
        assert_eq!((found[0].culprit.name.as_str(), found[0].culprit.pid), ("hoard", Some(4)));
        assert!(found[0].text.contains("40 MiB when it was killed, 400 ms after it began"));
        assert!(found[0].text.contains("the most of all had hoard 4 with 900 MiB"));
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn a_kill_is_known_by_the_log_alone() {
        let found = found(vec![printed(20, AT, "CONSTRAINT_MEMCG", "/gone")]);
        assert_eq!(found[0].title, "job 20 was killed: cgroup /gone met its memory limit");
        assert_eq!(found[0].culprit.container.as_deref(), Some("/gone"));
    }

    #[test]
    fn jobs_in_groups_of_their_own_are_one_finding_about_what_holds_the_groups() {
        let of = |pid, group: &str| {
            let at_ns = AT + u64::from(pid) * 1_000_000;
            [killed(pid, at_ns), vec![printed(pid, at_ns, "CONSTRAINT_MEMCG", group)]].concat()
        };
        // Of one the kernel did not print the group, and of the last one nothing was kept.
        let seen = [of(20, "/jobs/a-1"), of(21, "/jobs/a-2"), of(22, ""), killed(23, 2 * AT)];
        let found = found(seen.concat());
        assert_eq!(found.len(), 1);
        let says = "job 23 and 3 more were killed: a group in cgroup /jobs met its memory limit";
        assert_eq!(found[0].title, says);
        assert_eq!(found[0].victims.len(), 4);
    }

    /// A group with a limit at which so many were killed.
    fn limited(path: &str, kills: u64) -> Vec<Fact> {
        let settings = Cgroup {
            path: path.into(),
            controllers: vec!["memory".into()],
            directory: format!("/sys/fs/cgroup/memory{path}"),
            id: 5,
            memory_limit_bytes: Some(48 * MIB),
            ..Cgroup::default()
        };
        let sample = |kills: u64| CgroupSample {
            path: path.into(),
            controllers: vec!["memory".into()],
            memory_limit_hits: Some(kills * 3),
            // The counter of v1 counts at the victim's own group.
            oom_kills: Some(0),
            ..CgroupSample::default()
        };
        let sample = |kills, at_ns| Fact { at_ns, body: Body::CgroupSample(sample(kills)) };
        vec![fact(Body::Cgroup(settings)), sample(0, 0), sample(kills, LOOK_NS)]
    }

    #[test]
    fn that_the_last_group_of_a_series_still_stands_changes_nothing() {
        let of = |pid, group: &str| {
            let at_ns = AT + u64::from(pid) * 1_000_000;
            [killed(pid, at_ns), vec![printed(pid, at_ns, "CONSTRAINT_MEMCG", group)]].concat()
        };
        let series = [of(20, "/jobs/a-1"), of(21, "/jobs/a-2"), limited("/jobs/a-2", 1)];
        let found = found(series.concat());
        assert_eq!((found.len(), found[0].code.as_str()), (1, "memory.oom_kill"));
        assert_eq!(found[0].culprit.container.as_deref(), Some("/jobs"));
    }

    #[test]
    fn a_kill_that_the_log_lost_in_a_group_that_stands_is_one_more_of_the_series() {
        let of = |pid, group: &str| {
            let at_ns = AT + u64::from(pid) * 1_000_000;
            [killed(pid, at_ns), vec![printed(pid, at_ns, "CONSTRAINT_MEMCG", group)]].concat()
        };
        let mut standing = limited("/jobs/a-3", 1);
        if let Some(Fact { body: Body::CgroupSample(last), .. }) = standing.last_mut() {
            last.oom_kills = Some(1);
        }
        let lost = killed(22, AT + 30_000_000);
        let found = found([of(20, "/jobs/a-1"), of(21, "/jobs/a-2"), lost, standing].concat());
        assert_eq!((found.len(), found[0].code.as_str()), (1, "memory.oom_kill"));
        assert_eq!(found[0].victims.len(), 3);
    }

    #[test]
    fn what_was_short_is_not_guessed() {
        let found = found(killed(20, AT));
        assert_eq!(found[0].title, "job 20 was killed for want of memory");
        assert!(found[0].confidence < 0.8, "{}", found[0].confidence);
    }

    #[test]
    fn a_kill_that_was_asked_for_is_no_want_of_memory() {
        let Fact { at_ns, body: Body::OomReport(report) } = printed(20, AT, "CONSTRAINT_NONE", "")
        else {
            unreachable!()
        };
        let report = OomReport { by_sysrq: true, ..report };
        let found = found(vec![Fact { at_ns, body: Body::OomReport(report) }]);
        assert!(found[0].title.contains("by SysRq f"), "{}", found[0].title);
        assert_eq!(found[0].culprit.pid, None);
    }

    #[test]
    fn what_is_started_again_and_again_is_said_with_who_starts_it() {
        let facts = (0..4).flat_map(|round| {
            let (pid, at_ns) = (20 + round, AT + u64::from(round) * 700_000_000);
            [killed(pid, at_ns), vec![printed(pid, at_ns, "CONSTRAINT_NONE", "")]].concat()
        });
        let found = found(facts.collect());
        assert_eq!(found.len(), 1);
        let says = "4 processes named job were killed so in 2.10 s, each begun by keeper 9";
        assert!(found[0].text.contains(says), "{}", found[0].text);
    }

    #[test]
    fn a_kill_at_a_groups_limit_is_the_limits() {
        let mut facts = limited("/job", 1);
        facts.extend(killed(20, AT));
        facts.push(printed(20, AT, "CONSTRAINT_MEMCG", "/job"));
        let found = found(facts);
        assert_eq!((found.len(), found[0].code.as_str()), (1, "memory.limit"));
        assert_eq!(found[0].culprit.name, "/job");
        assert!(found[0].text.contains("job 20 had 40 MiB when it was killed"));
    }

    #[test]
    fn a_kill_in_a_group_that_met_its_limit_and_counts_none_is_said_all_the_same() {
        let cgroups =
            vec![Membership { controllers: vec!["memory".into()], path: "/job/inner".into() }];
        let mut facts = limited("/job", 1);
        facts.push(identity(Thread { thread: thread(20, "job"), cgroups, ..Thread::default() }));
        facts.extend(killed(20, AT));
        let found = found(facts);
        assert_eq!((found.len(), found[0].code.as_str()), (1, "memory.oom_kill"));
        assert_eq!(found[0].title, "job 20 was killed for want of memory");
    }

    #[test]
    fn kills_at_groups_are_parted_by_program_and_those_of_the_host_are_not() {
        let titles = |constraint: &str, groups: [&str; 2]| {
            let mut facts = Vec::new();
            for (pid, (comm, group)) in (20..).zip(["job", "cache"].into_iter().zip(groups)) {
                let at_ns = AT + u64::from(pid) * 1_000_000;
                let mut one = killed(pid, at_ns);
                for Fact { body, .. } in &mut one {
                    match body {
                        Body::OomKill(kill) => kill.victim.comm = comm.into(),
                        Body::Fork(fork) => fork.child.comm = comm.into(),
                        _ => {}
                    }
                }
                facts.extend(one);
                facts.push(printed(pid, at_ns, constraint, group));
            }
            let mut titles: Vec<String> = found(facts).into_iter().map(|it| it.title).collect();
            titles.sort();
            titles
        };
        let of_groups = [
            "cache 21 was killed: cgroup /web/cache met its memory limit",
            "job 20 was killed: cgroup /jobs/a met its memory limit",
        ];
        assert_eq!(titles("CONSTRAINT_MEMCG", ["/jobs/a", "/web/cache"]), of_groups);
        let of_host = ["cache 21 and 1 more were killed: the host had no memory left"];
        assert_eq!(titles("CONSTRAINT_NONE", ["", ""]), of_host);
    }
}
