//! disk.fail_slow: the device answers, but some requests (or all) take far longer than it should.
//!
//! A dying disk retries inside: most requests are quick, a few take a hundred times longer, and no queue explains
//! them. A tail is judged against the same device's median, so that a busy but healthy disk is left alone.

use super::disk::{self, View, Wrong};
use super::{Case, Verdict, words};
use crate::causes::{Cause, Causes};
use crate::findings::{Culprit, Evidence, Finding, Remedy};

/// The case.
pub static CASE: Case = Case {
    code: "disk.fail_slow",
    title: "The disk answers some requests far too slowly",
    theory: "Almost-broken devices retry, remap and reset inside: a few requests take a hundred times longer than \
             the others without a queue that would explain it, and whoever issued them waits. Whole arrays are as \
             slow as their slowest member.",
    needs: &[
        "threads wait for the disk",
        "slowest requests take at least ten times the median and at least 50 ms, with a quick median",
        "or every request is slow by the same time, however many are in flight",
    ],
    refuted_by: &["a queue that slows all requests alike", "a cgroup limit that is met"],
    remedies: &[
        "look at the device's error counters (SMART) and replace it",
        "move the data off it first",
    ],
    stories: &["S3.2"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    disk::views(causes)
        .filter(|(_, view)| matches!(view.wrong, Some(Wrong::FailSlow)))
        .map(|(cause, view)| finding(causes, cause, &view))
        .collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause, view: &View<'_>) -> Finding {
    let name = &view.disk.name;
    let service = view.service.clone().unwrap_or_default();
    let mut evidence = super::disk_device_cap::evidence(view, service.mean);
    evidence.push(Evidence::new(
        "median time inside",
        service.median * 1e3,
        "ms",
        "request histogram, upper edge",
    ));
    evidence.push(Evidence::new(
        "p99 time inside",
        service.p99 * 1e3,
        "ms",
        "request histogram, upper edge",
    ));
    evidence.push(Evidence::new(
        "slowest request",
        service.max * 1e3,
        "ms",
        "block_rq_issue to block_rq_complete",
    ));
    let victim = causes.process_name(cause.first_victim());
    let verdict = Verdict {
        title: format!(
            "{victim} is held up by disk {name}, which answers some requests far too slowly"
        ),
        text: format!(
            "{} inside disk {name}: half of its {} requests take up to {}, the \
             slowest took {}, with {:.1} in flight on average; no queue explains that.",
            words::of_time(causes.impact(cause).share, cause.seconds, causes.wall_seconds()),
            service.count,
            words::seconds(service.median),
            words::seconds(service.max),
            view.queue.in_flight,
        ),
        confidence: 0.85,
        culprit: Culprit::device(name),
        evidence,
        remedy: vec![Remedy {
            text: "read the device's own error counters, and plan its replacement".into(),
            command: format!("smartctl -a /dev/{name}"),
            ..Remedy::default()
        }],
    };
    CASE.finding(causes, cause, verdict)
}
