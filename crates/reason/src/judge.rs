//! Facts to a report: the whole reasoning, in its order.
//!
//! Index, follow, ask every case, rank, account, tell what limits the answer. Must not know a single case.
//! Ranking: worse severity first, then more demand wait; an effect never stands beside its cause, because
//! waits are grouped by what names them (causes.rs).

use crate::accounting::account;
use crate::cases::CASES;
use crate::causes::Causes;
use crate::caveats::caveats;
use crate::facts::{Fact, SWITCHES_UNTOLD, TargetKind};
use crate::findings::*;
use crate::scene::Scene;

/// Explains a look.
pub fn explain(facts: Vec<Fact>) -> Report {
    judge(&Scene::new(facts))
}

/// The same of facts that were taken in one by one and not kept beside it.
pub fn explain_scene(scene: &mut Scene) -> Report {
    scene.finish();
    judge(scene)
}

fn judge(scene: &Scene) -> Report {
    let causes = Causes::of(scene);
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
    findings.iter_mut().for_each(|finding| add_inner_pids(scene, finding));
    let accounting = account(&causes);
    let caveats = caveats(&causes, &accounting, &findings);
    Report {
        schema: SCHEMA,
        tool: Tool { name: "holdup".into(), version: scene.host.tool_version.clone() },
        target: target(scene),
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
