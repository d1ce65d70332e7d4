//! disk.errors: the device answers requests with errors, and the kernel tries again.
//!
//! Each failed request is retried by the driver or the file system before it is given up, so whoever asked waits
//! many times over, and may get an I/O error in the end.

use super::disk::{self, View, Wrong};
use super::{Case, Verdict, words};
use crate::causes::{Cause, Causes};
use crate::findings::{Culprit, Evidence, Finding, Remedy};

/// The case.
pub static CASE: Case = Case {
    code: "disk.errors",
    title: "The disk answers requests with errors",
    theory: "A failing medium or path answers requests with an error status. The kernel retries, remaps or fails the \
             request; programs wait meanwhile, or see an I/O error and start again.",
    needs: &[
        "threads wait for the disk",
        "at least 1 % of its requests end with an error status (block_rq_complete)",
    ],
    refuted_by: &["no request ends in an error"],
    remedies: &[
        "read the kernel log and the device's counters",
        "move the data off it, and replace it",
    ],
    stories: &["S3.2"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    disk::views(causes)
        .filter_map(|(cause, view)| match &view.wrong {
            Some(Wrong::Errors(errors)) => Some(finding(causes, cause, &view, *errors)),
            _ => None,
        })
        .collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause, view: &View<'_>, errors: u64) -> Finding {
    let name = &view.disk.name;
    let service = view.service.clone().unwrap_or_default();
    let mut evidence = super::disk_device_cap::evidence(view, service.mean);
    evidence.insert(
        0,
        Evidence::new("requests that ended in an error", errors as f64, "1", "block_rq_complete"),
    );
    let victim = causes.process_name(cause.first_victim());
    let verdict = Verdict {
        title: format!("{victim} is held up by disk {name}, which answers with errors"),
        text: format!(
            "{errors} of {} requests to disk {name} ended in an error in {}; {} pass in waits for it.",
            service.count,
            words::seconds(causes.wall_seconds()),
            words::seconds(cause.seconds),
        ),
        confidence: 0.95,
        culprit: Culprit::device(name),
        evidence,
        remedy: vec![Remedy {
            text: "read what the kernel and the device say, and move the data off it".into(),
            command: format!("dmesg | grep -w {name}; smartctl -a /dev/{name}"),
            ..Remedy::default()
        }],
    };
    CASE.finding(causes, cause, verdict)
}
