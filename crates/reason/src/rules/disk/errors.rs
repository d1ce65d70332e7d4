//! disk.errors: the device answers requests with errors, and the kernel tries again.
//!
//! Each failed request is retried by the driver or the file system before it is given up, so whoever asked waits
//! many times over, and may get an I/O error in the end. Where they fail at once there is no wait to find: the
//! errors that the block layer counts are then enough, and always worth a warning.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy, Severity};
use crate::facts::DiskUse;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::disk_queue;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, View, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.errors",
    title: "The disk answers requests with errors",
    theory: "A failing medium or path answers requests with an error status. The kernel retries, remaps or fails the \
             request; programs wait meanwhile, or see an I/O error and start again.",
    needs: &[
        "somebody uses the disk",
        "at least three of its requests, and 1 %, end with an error status (block_rq_complete)",
    ],
    refuted_by: &[Refutation::new("no request ends in an error", "")],
    remedies: &[
        "read the kernel log and the device's counters",
        "move the data off it, and replace it",
    ],
    stories: &["S3.2"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = disk::views(measures)
        .filter_map(|(end, view)| match &view.wrong {
            Some(Wrong::Errors(errors)) => Some(finding(measures, end, &view, *errors)),
            _ => None,
        })
        .collect();
    for one in &mut found {
        one.severity = one.severity.max(Severity::Warning);
    }
    found.extend(unwaited(measures, &found));
    found
}

/// A device that fails at once keeps nobody waiting, and its users have errors instead of waits.
fn unwaited(measures: &Measures<'_>, told: &[Finding]) -> Vec<Finding> {
    let model = measures.model;
    let mut found = Vec::new();
    for disk in model.disks.values() {
        let id = disk.dev.to_string();
        let Some(service) = disk_queue::service(model, disk.dev).filter(disk::has_errors) else {
            continue;
        };
        let users: Vec<&DiskUse> = model
            .disk_use
            .iter()
            .filter(|used| used.dev == disk.dev && used.reads + used.writes > 0)
            .filter(|used| crate::rules::old::cpu::concerns(measures, &used.process))
            .collect();
        let Some(most) = users.iter().max_by_key(|used| used.reads + used.writes) else { continue };
        if told.iter().any(|finding| finding.object.id == id) {
            continue;
        }
        let name = &disk.name;
        let who = words::who(&most.process);
        found.push(Finding {
            title: format!("disk {name} answers {who} with errors"),
            text: format!(
                "{} of {} requests to disk {name} ended in an error in {}. They fail at once, so nobody waits long \
                 for it: its users see I/O errors.",
                service.errors,
                service.count,
                words::seconds(measures.wall_seconds()),
            ),
            severity: Severity::Warning,
            confidence: 0.95,
            object: ObjectName::new("disk", name).with_id(id),
            culprit: Culprit::device(name),
            victims: users.iter().map(|used| crate::rules::old::cpu::victim(measures, &used.process, 0.0)).collect(),
            evidence: vec![errors_evidence(service.errors), requests_evidence(service.count)],
            remedy: remedy(name),
            ..RULE.blank()
        });
    }
    found
}

fn errors_evidence(errors: u64) -> Evidence {
    Evidence::new("requests that ended in an error", errors as f64, "1", "block_rq_complete")
}

fn requests_evidence(count: u64) -> Evidence {
    Evidence::new("requests", count as f64, "1", "block_rq_complete")
}

fn remedy(name: &str) -> Vec<Remedy> {
    vec![Remedy {
        text: "read what the kernel and the device say, and move the data off it".into(),
        command: format!("dmesg | grep -w {name}; smartctl -a /dev/{name}"),
        ..Remedy::default()
    }]
}

fn finding(measures: &Measures<'_>, end: &End, view: &View<'_>, errors: u64) -> Finding {
    let name = &view.disk.name;
    let service = view.service.clone().unwrap_or_default();
    let mut evidence = crate::rules::old::disk_device_cap::evidence(view, service.mean);
    evidence.insert(0, errors_evidence(errors));
    let victim = measures.process_name(end.first_victim());
    let verdict = Verdict {
        title: format!("{victim} is held up by disk {name}, which answers with errors"),
        text: format!(
            "{errors} of {} requests to disk {name} ended in an error; {} pass in waits for it.",
            service.count,
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        confidence: 0.95,
        culprit: Culprit::device(name),
        evidence,
        remedy: remedy(name),
    };
    RULE.finding(measures, end, verdict)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn failing(errors: u64) -> Vec<Fact> {
        let dev = DeviceNumber { major: 7, minor: 3 };
        let mut facts = host();
        facts.push(fact(Body::Disk(Disk { dev, name: "loop3".into(), ..Disk::default() })));
        facts.push(fact(Body::DiskLatency(DiskLatency {
            dev,
            count: 2000,
            errors,
            service_us_log2: vec![0, 2000],
            service_ns: 2000 * 1000,
            ..DiskLatency::default()
        })));
        facts.push(fact(Body::DiskUse(DiskUse {
            dev,
            process: thread(10, "app"),
            reads: 2000,
            ..DiskUse::default()
        })));
        facts
    }

    #[test]
    fn errors_that_keep_nobody_waiting_are_told() {
        let report = explain(failing(900));
        assert_eq!(report.findings[0].code, "disk.errors");
        assert_eq!(report.findings[0].severity, Severity::Warning);
    }

    #[test]
    fn a_single_error_among_thousands_is_not() {
        assert!(explain(failing(2)).findings.is_empty());
    }
}
