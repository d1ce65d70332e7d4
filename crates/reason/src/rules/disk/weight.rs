//! disk.weight: a group with a bigger I/O weight gets the disk first.
//!
//! bfq and io.cost divide a busy disk by weights. That is what was asked for; it is told because the light group's
//! users see a slow disk, and because the weights are the way out.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::facts::{Cgroup, ThreadRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, View, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.weight",
    title: "A neighbour with a bigger I/O weight gets the disk first",
    theory: "Where the scheduler heeds weights (bfq, io.cost), a busy disk is divided by the weights of the groups that want \
             it. A light group then waits although it asks for little.",
    needs: &[
        "threads of a group wait for a busy disk whose scheduler heeds weights",
        "another group asks for most of the work and has at least twice the weight",
    ],
    refuted_by: &[
        Refutation::new("equal weights", ""),
        Refutation::new("a scheduler that does not heed weights", ""),
    ],
    remedies: &["raise the light group's weight, or lower the heavy one's"],
    stories: &["S3.7"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    disk::views(measures)
        .filter_map(|(end, view)| match &view.wrong {
            Some(Wrong::Weight(heavy, light, who)) => {
                Some(finding(measures, end, &view, heavy, light, who))
            }
            _ => None,
        })
        .collect()
}

fn finding(
    measures: &Measures<'_>,
    end: &End,
    view: &View<'_>,
    heavy: &Cgroup,
    light: &Cgroup,
    who: &ThreadRef,
) -> Finding {
    let name = &view.disk.name;
    let inside = view.service.as_ref().map_or(view.queue.seconds, |s| s.mean);
    let (more, less) = (heavy.io_weight.unwrap_or(0), light.io_weight.unwrap_or(0));
    let file = format!(
        "{}/{}",
        light.directory.trim_end_matches('/'),
        if light.controllers.is_empty() { "io.weight" } else { "blkio.bfq.weight" }
    );
    let mut evidence = crate::rules::old::disk_device_cap::evidence(view, inside);
    evidence.insert(
        0,
        Evidence::new(format!("weight of {}", heavy.path), more as f64, "1", "cgroup I/O weight"),
    );
    evidence.insert(
        1,
        Evidence::new(format!("weight of {}", light.path), less as f64, "1", "cgroup I/O weight"),
    );
    let victims = measures.victims(end);
    let victim =
        victims.iter().find(|v| v.pid != who.pid).map_or_else(String::new, |v| v.comm.clone());
    let verdict = Verdict {
        title: format!(
            "{victim} waits for disk {name}, which serves the heavier group {} first",
            heavy.path
        ),
        text: format!(
            "Group {} has weight {less}, group {} has {more} and asks for most ({}); {name} is {} busy, and {} \
             pass in waits for it.",
            light.path,
            heavy.path,
            words::who(who),
            words::percent(view.queue.busy),
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        confidence: 0.85,
        culprit: Culprit {
            container: Some(heavy.path.clone()),
            pid: Some(who.pid),
            ..Culprit::setting(heavy.path.clone(), file.clone())
        },
        evidence,
        remedy: vec![Remedy {
            text: "give the light group the same weight".into(),
            command: format!("echo {more} > {}", words::shell(&file)),
            undo: format!("echo {less} > {}", words::shell(&file)),
        }],
    };
    RULE.finding(measures, end, verdict)
}
