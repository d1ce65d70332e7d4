//! Facts to a report: the whole reasoning, in its order.
//!
//! Index, follow, ask every case, rank, account, tell what limits the answer. Must not know a single case.
//! Ranking: worse severity first, then more demand wait; an effect never stands beside its cause, because
//! waits are grouped by what names them (causes.rs).

use crate::accounting::account;
use crate::cases::CASES;
use crate::causes::Causes;
use crate::facts::{Blind, Disk, Fact, Ns, SWITCHES_UNTOLD, TargetKind, WindowEnd};
use crate::findings::*;
use crate::queues;
use crate::scene::Scene;
use std::collections::BTreeMap;

/// Explains a look.
pub fn explain(facts: Vec<Fact>) -> Report {
    judge(Scene::new(facts))
}

/// The same of facts that were taken in one by one and not kept beside it.
pub fn explain_scene(mut scene: Scene) -> Report {
    scene.finish();
    judge(scene)
}

fn judge(scene: Scene) -> Report {
    let causes = Causes::of(&scene);
    let mut findings: Vec<Finding> = CASES.iter().flat_map(|case| (case.find)(&causes)).collect();
    findings.retain(|f| f.severity > Severity::Note || matters(f));
    findings.sort_by(|a, b| {
        b.severity
            .cmp(&a.severity)
            .then_with(|| {
                b.impact.wait_seconds_per_second.total_cmp(&a.impact.wait_seconds_per_second)
            })
            .then_with(|| a.code.cmp(&b.code))
            .then_with(|| a.object.cmp(&b.object))
    });
    findings.iter_mut().for_each(|finding| add_inner_pids(&scene, finding));
    let accounting = account(&causes);
    let caveats = caveats(&scene, &accounting, &findings);
    Report {
        schema: SCHEMA,
        tool: Tool { name: "holdup".into(), version: scene.host.tool_version.clone() },
        target: target(&scene),
        window: Window { begin_unix_ns: scene.begin_unix_ns, seconds: causes.wall_seconds() },
        accounting,
        findings,
        caveats,
        cost: ReportCost {
            events_lost: (scene.lost.iter())
                .filter(|(source, _)| *source != SWITCHES_UNTOLD)
                .map(|(_, count)| count)
                .sum(),
            ..ReportCost::from(&scene.cost)
        },
    }
}

/// Inside a container a process has another number, which is the one that its own tools and logs show.
fn add_inner_pids(scene: &Scene, finding: &mut Finding) {
    let inner = |pid: u32| scene.threads.get(&pid)?.inner_pid.filter(|inner| *inner != pid);
    for victim in &mut finding.victims {
        victim.inner_pid = inner(victim.pid);
    }
    for link in &mut finding.chain {
        link.who.inner_pid = link.who.pid.and_then(inner);
    }
    finding.culprit.inner_pid = finding.culprit.pid.and_then(inner);
}

/// A note about a moment's wait is noise: every busy host has thousands.
fn matters(note: &Finding) -> bool {
    note.chain.is_empty() || note.impact.wait_seconds_per_second >= 0.05
}

fn target(scene: &Scene) -> ReportTarget {
    let Some(target) = &scene.target else {
        return ReportTarget {
            kind: TargetKind::Host,
            name: scene.host.hostname.clone(),
            pid: None,
            exit_status: None,
        };
    };
    let command = scene.command_end.as_ref().map(|(_, end)| end);
    let pid = command.map_or(target.pid, |end| end.pid);
    ReportTarget {
        kind: target.kind,
        name: target.name.clone(),
        pid: (pid != 0).then_some(pid),
        exit_status: command.map(|end| end.exit_status),
    }
}

/// Events came too fast to be told one by one: from which length on they were, and who made most.
fn thinned(end: &WindowEnd) -> Option<String> {
    /// From here on waits are told when they are few.
    const THRESHOLD_NS: Ns = 1_000_000;
    let (whose, threshold_ns) = match (end.traced_threshold_ns, end.threshold_ns) {
        (_, ns) if ns > THRESHOLD_NS => ("", ns),
        (0, _) => return None,
        (ns, _) => (" of the command", ns),
    };
    let by = end.flood_by.as_ref().map_or_else(String::new, |thread| {
        format!("; most came from {} (pid {})", thread.comm, thread.pid)
    });
    let milliseconds = threshold_ns as f64 / 1e6;
    Some(format!(
        "waits{whose} came too fast to be told one by one: those under {milliseconds} ms were at times only counted{by}"
    ))
}

/// So many switches that their own cost is felt: how many, and whose. Nobody need be a victim of it, so it is
/// no finding, but who reads a report of such a host must know that most waits stand in the sums alone.
fn switch_flood(scene: &Scene) -> Option<String> {
    /// A switch of two processes over a pipe takes 2.5 us of CPU, both calls included (reference machine, getrusage,
    /// nobody watching): from here on an eighth of each CPU goes into it.
    const PER_CPU_SECOND: f64 = 50_000.0;
    let per_second = |switches: u64| switches as f64 / scene.seconds().max(1e-9);
    let mut by_name: BTreeMap<&str, (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
    for time in scene.times.iter().filter(|time| time.thread.pid != 0) {
        let of = by_name.entry(time.thread.comm.as_str()).or_default();
        of.0 += time.switches;
        *of.1.entry(time.thread.pid).or_default() += time.switches;
    }
    let all = per_second(by_name.values().map(|(switches, _)| switches).sum());
    if all < PER_CPU_SECOND * f64::from(scene.host.cpus.max(1)) {
        return None;
    }
    let (name, (switches, processes)) =
        by_name.iter().max_by_key(|(_, (switches, _))| *switches)?;
    let (pid, _) = processes.iter().max_by_key(|(_, switches)| **switches)?;
    let others = match processes.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more of that name"),
    };
    Some(format!(
        "{:.0} thousand switches a second, {:.0} % of them by {name} (pid {pid}{others}): their waits are too short \
         to be told one by one and stand in the sums",
        all / 1e3,
        100.0 * per_second(*switches) / all,
    ))
}

/// Loop devices that somebody waits for and whose workers have no CPU.
fn starved_disks(scene: &Scene, accounting: &Accounting) -> impl Iterator<Item = String> {
    let waited_for = |disk: &&Disk| {
        let is_it = |object: &ObjectName| object.kind == "disk" && object.name == disk.name;
        accounting.parts.iter().any(|part| is_it(&part.object))
    };
    scene.disks.values().filter(waited_for).filter_map(|disk| {
        let ready = queues::worker_ready_seconds(scene, disk)?;
        Some(format!(
            "disk {} is served by kernel workers, which could run and had no CPU for {ready:.2} s: it is slow for \
             want of a CPU",
            disk.name,
        ))
    })
}

/// Whether something unseen can be missed in this answer: it is not only about processes that are neither looked at
/// nor named.
fn concerns(scene: &Scene, findings: &[Finding], blind: &Blind) -> bool {
    let command = crate::causes::command_root(scene).map(|root| root.pid);
    let is_looked_at = |pid: u32| match command {
        Some(root) => pid == root || scene.forks.iter().any(|(_, fork)| fork.child.pid == pid),
        None => scene.in_target(&scene.thread_ref(pid)),
    };
    let is_named = |finding: &Finding, pid: u32| {
        finding.culprit.pid == Some(pid)
            || finding.victims.iter().any(|victim| victim.pid == pid)
            || finding.chain.iter().any(|link| link.who.pid == Some(pid))
    };
    let meets = |pid: &u32| is_looked_at(*pid) || findings.iter().any(|it| is_named(it, *pid));
    blind.pids.is_empty() || blind.pids.iter().any(meets)
}

fn caveats(scene: &Scene, accounting: &Accounting, findings: &[Finding]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let mut add = |code: &str, text: String| caveats.push(Caveat { code: code.into(), text });
    for blind in scene.blind.iter().filter(|blind| concerns(scene, findings, blind)) {
        let therefore = match blind.therefore.as_str() {
            "" => String::new(),
            therefore => format!(": {therefore}"),
        };
        add(
            &format!("blind.{}", blind.what),
            format!("cannot see {} ({}){therefore}", blind.what, blind.why),
        );
    }
    for (source, count) in scene.lost.iter().filter(|(source, _)| *source != SWITCHES_UNTOLD) {
        add(
            "events_lost",
            format!("{count} lost ({source}): figures that need them are lower bounds"),
        );
    }
    if let Some(text) = thinned(&scene.window_end) {
        add("events_thinned", text);
    }
    if let Some(text) = switch_flood(scene) {
        add("switch_flood", text);
    }
    for text in starved_disks(scene, accounting) {
        add("disk_starved", text);
    }
    if scene.window_end.interrupted {
        add("ended_early", "the look was ended early".into());
    }
    if accounting.residual_seconds.abs() > accounting.wall_seconds * 0.001 {
        let why = match scene.lost.get(SWITCHES_UNTOLD) {
            Some(count) => format!(": {count} switches to a thread were not told by the kernel"),
            None => String::new(),
        };
        add(
            "residual",
            format!(
                "{:.3} of {:.3} s are not accounted for{why}",
                accounting.residual_seconds, accounting.wall_seconds
            ),
        );
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;

    fn report(switches: &[(u32, &str, u64)]) -> Report {
        let host = Host { cpus: 2, ..Host::default() };
        let mut facts = vec![
            Fact { at_ns: 0, body: Body::Host(host) },
            Fact { at_ns: 0, body: Body::WindowBegin(WindowBegin { unix_ns: 0 }) },
            Fact { at_ns: 5_000_000_000, body: Body::WindowEnd(WindowEnd::default()) },
        ];
        for (pid, comm, switches) in switches {
            let thread = ThreadRef { tid: *pid, pid: *pid, start_ns: 0, comm: (*comm).into() };
            let time = ThreadTime { thread, switches: *switches, ..ThreadTime::default() };
            facts.push(Fact { at_ns: 5_000_000_000, body: Body::ThreadTime(time) });
        }
        explain(facts)
    }

    fn flood(report: &Report) -> Option<&str> {
        report.caveats.iter().find(|it| it.code == "switch_flood").map(|it| it.text.as_str())
    }

    #[test]
    fn who_floods_with_switches_is_told_with_his_part() {
        let told = report(&[(7, "pinger", 900_000), (8, "pinger", 600_000), (9, "web", 500_000)]);
        let text = flood(&told).expect("400,000 switches a second are a flood");
        assert!(
            text.starts_with("400 thousand switches a second, 75 % of them by pinger"),
            "{text}"
        );
        assert!(text.contains("(pid 7 and 1 more of that name)"), "{text}");
    }

    #[test]
    fn what_single_processes_hide_is_told_to_who_looks_at_them_or_is_led_to_them() {
        use crate::cases::process_tests::*;
        let told = |target: Fact, pids: Vec<u32>, server: WaitState| {
            let (what, why) = ("netns".into(), "permission denied".into());
            let hidden = Blind { what, why, pids, ..Blind::default() };
            let mut facts = host();
            facts.extend(client_and_server(blocked(20, "server", server, "")));
            facts.extend([target, fact(Body::Blind(hidden))]);
            explain(facts).caveats.iter().any(|caveat| caveat.code == "blind.netns")
        };
        let of_client = || of_process(10, "client");
        assert!(told(of_client(), vec![], WaitState::Sleep));
        assert!(told(of_client(), vec![1, 10], WaitState::Sleep));
        assert!(!told(of_client(), vec![1, 20], WaitState::Sleep));
        assert!(told(of_client(), vec![1, 20], WaitState::Stopped));
        let host =
            Target { kind: TargetKind::Host, name: "web".into(), pid: 0, cgroups: Vec::new() };
        assert!(told(fact(Body::Target(host)), vec![1], WaitState::Sleep));
        let command = Target {
            kind: TargetKind::Command,
            name: "client".into(),
            pid: 10,
            cgroups: Vec::new(),
        };
        assert!(!told(fact(Body::Target(command)), vec![1], WaitState::Sleep));
    }

    #[test]
    fn a_busy_host_is_no_flood() {
        assert_eq!(flood(&report(&[(7, "redis-server", 300_000), (9, "web", 100_000)])), None);
    }
}
