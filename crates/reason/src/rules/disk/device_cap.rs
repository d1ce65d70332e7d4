//! disk.device_cap: the device itself delivers a flat rate and no more; the wait is inside it.
//!
//! Cloud volumes, throttled virtual disks and worn devices answer as if behind a token bucket: however much is
//! asked, the rate stays flat while there is always work in flight, and time grows with the queue. The limit is
//! not on this host, so no file here raises it.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, View, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.device_cap",
    title: "The disk delivers a flat rate and no more",
    theory: "A device behind a limit (a cloud volume out of credits, a throttled virtual disk) completes a \
             flat number of operations or bytes a second. There is always work in flight, and the time of a \
             request grows with the queue. The limit lies below this host.",
    needs: &[
        "threads wait for the disk",
        "the disk has work in flight nearly all the time",
        "its rate is flat (little variation over slices of the window) and its requests are slow",
        "no limit of a cgroup on this host is met",
    ],
    refuted_by: &[
        Refutation::new("a cgroup limit that is met", ""),
        Refutation::new("a few slow requests among quick ones (then the device fails slowly)", ""),
        Refutation::new(
            "the same time for each request however many are in flight (slow, not capped)",
            "",
        ),
        Refutation::new("one neighbour that asks for most of what is done", ""),
    ],
    remedies: &[
        "provision more operations or bytes a second",
        "cut synchronous writes, batch them, or cache",
    ],
    stories: &["S1.1", "S0.6"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    disk::views(measures)
        .filter(|(_, view)| matches!(view.wrong, Some(Wrong::Cap)))
        .map(|(end, view)| finding(measures, end, &view))
        .collect()
}

fn finding(measures: &Measures<'_>, end: &End, view: &View<'_>) -> Finding {
    let (name, queue) = (&view.disk.name, &view.queue);
    let inside = view.service.as_ref().map_or(queue.seconds, |s| s.mean);
    let victim = measures.process_name(end.first_victim());
    let verdict = Verdict {
        title: format!(
            "{victim} is held up by disk {name}, which does {} requests/s and no more",
            words::rate(queue.per_second)
        ),
        text: format!(
            "{} inside disk {name}: it completes {} requests/s ({}/s), flat, \
             with {:.1} in flight and {} busy; a request takes {}. No limit of a cgroup here is met, so the \
             limit is the device's own or its provider's.",
            words::of_time(measures.impact(end).share, end.seconds, measures.wall_seconds()),
            words::rate(queue.per_second),
            words::bytes(queue.bytes_per_second),
            queue.in_flight,
            words::percent(queue.busy),
            words::seconds(inside),
        ),
        confidence: if queue.rate_variation.is_some() { 0.9 } else { 0.7 },
        culprit: Culprit::device(name),
        evidence: evidence(view, inside),
        remedy: vec![
            Remedy {
                text: format!(
                    "provision more operations for {name} where it is provided; nothing on this host limits it"
                ),
                ..Remedy::default()
            },
            Remedy {
                text: "see who writes synchronously, and batch it".into(),
                command: format!("holdup --for 30s -v   # the victims of {name}"),
                ..Remedy::default()
            },
        ],
    };
    RULE.finding(measures, end, verdict)
}

/// What every disk verdict shows.
pub fn evidence(view: &View<'_>, inside: f64) -> Vec<Evidence> {
    let queue = &view.queue;
    let mut all = vec![
        Evidence::new("requests completed", queue.per_second, "1/s", "/proc/diskstats"),
        Evidence::new("data moved", queue.bytes_per_second, "bytes/s", "/proc/diskstats"),
        Evidence::new("mean in flight", queue.in_flight, "1", "/proc/diskstats"),
        Evidence::new("busy", queue.busy * 100.0, "%", "/proc/diskstats"),
        Evidence::new(
            "mean time inside the disk",
            inside * 1e3,
            "ms",
            "block_rq_issue to block_rq_complete",
        ),
    ];
    if let Some(variation) = queue.rate_variation {
        all.push(Evidence::new("variation of the rate", variation * 100.0, "%", "/proc/diskstats"));
    }
    if let Some(residual) = queue.little_residual {
        all.push(Evidence::new(
            "residual of Little's law",
            residual * 100.0,
            "%",
            "/proc/diskstats",
        ));
    }
    all
}
