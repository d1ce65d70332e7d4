//! disk.errors: the device answers requests with errors, and the kernel tries again.
//!
//! Each failed request is retried by the driver or the file system before it is given up, so whoever asked waits
//! many times over, and may get an I/O error in the end. Where they fail at once there is no wait to find: the
//! errors that the block layer counts are then enough, and always worth a warning.

//! Must not: weigh how long a failed request took; a device that fails quickly fails no less. Rejected: the kernel log (it
//! is text, and needs a privilege that the counters do not).

use super::waited::disk_of;
use super::wording;
use crate::facts::{Disk, DiskUse};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_queue::Service;
use crate::measure::disk_view::DiskView;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};
use crate::threshold::Threshold;

static ERRORS: Threshold = Threshold::new(
    3.0,
    "1",
    "fewer errors in a look are stray ones: a medium that was just removed, a request that the device does not know",
    "chosen: a retry of one request makes two",
);
static SHARE: Threshold = Threshold::new(
    0.01,
    "1",
    "a smaller part of all requests costs nobody a noticeable time",
    "chosen: one request in a hundred",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.errors",
    title: "The disk answers requests with errors",
    theory: "A failing medium or path answers requests with an error status. The kernel retries, remaps or fails the \
             request; programs wait meanwhile, or see an I/O error and start again.",
    needs: &[
        "somebody uses the disk",
        "at least three of its requests, and 1 %, end with an error status (block_rq_complete)",
    ],
    refuted_by: &[
        Refutation::new("no request ends in an error", "requests_that_all_succeed_are_no_errors"),
        Refutation::new("a stray error among thousands", "a_single_error_among_thousands_is_not"),
    ],
    remedies: &[
        "read the kernel log and the device's counters",
        "move the data off it, and replace it",
    ],
    stories: &["S3.2"],
    thresholds: &[&ERRORS, &SHARE],
    finds: Finds::Look(find),
};

/// A device that fails at once keeps nobody waiting: its users have errors instead of waits.
fn find<'m>(measures: &'m Measures<'m>, open: &'m [End]) -> Vec<Match<'m>> {
    let mut found = Vec::new();
    for view in measures.disks.views.values() {
        let Some(service) = view.service.as_ref().filter(|service| has_errors(service)) else {
            continue;
        };
        let is_it =
            |end: &End| disk_of(measures, end).is_some_and(|of| of.disk.dev == view.disk.dev);
        let mut matched = match open.iter().position(is_it) {
            Some(at) => {
                let explain = move |loss: &Loss<'_>| waited_for(view, service, loss);
                Match::new(Culprit::device(&view.disk.name), Proof::Read, explain)
                    .claiming(at, None)
            }
            None => match unwaited(measures, view, service) {
                Some(matched) => matched,
                None => continue,
            },
        };
        matched.severity_min = Severity::Warning;
        found.push(matched);
    }
    found
}

/// More than a stray one.
fn has_errors(service: &Service) -> bool {
    let errors = service.errors as f64;
    errors >= ERRORS.value && errors >= SHARE.value * service.count as f64
}

fn unwaited<'m>(
    measures: &'m Measures<'m>,
    view: &'m DiskView<'m>,
    service: &'m Service,
) -> Option<Match<'m>> {
    let uses = |used: &&DiskUse| used.reads + used.writes > 0 && measures.concerns(&used.process);
    let users: Vec<&DiskUse> = view.users.iter().map(|user| user.used).filter(uses).collect();
    let most = users.iter().max_by_key(|used| used.reads + used.writes)?;
    let who = measures.model.who(&most.process);
    let explain = move |loss: &Loss<'_>| at_once(view, service, &who, loss);
    let by = Culprit::device(&view.disk.name);
    let mut matched = Match::new(by, Proof::Read, explain).on(Object::Disk(Some(view.disk.dev)));
    let lost = users.iter().map(|used| (used.process.pid, (used.process.clone(), 0.0)));
    matched.losses = Some(lost.collect::<Losses>());
    Some(matched)
}

fn waited_for(view: &DiskView<'_>, service: &Service, loss: &Loss<'_>) -> Wording {
    let name = &view.disk.name;
    let mut evidence = vec![errors_evidence(service.errors)];
    evidence.extend(wording::evidence(view));
    Wording {
        title: format!("{} is held up by disk {name}, which answers with errors", loss.victim),
        text: format!(
            "{} of {} requests to disk {name} ended in an error; {} pass in waits for it.",
            service.errors,
            service.count,
            words::of_window(loss.seconds, loss.wall_seconds),
        ),
        evidence,
        remedy: remedy(view.disk),
    }
}

fn at_once(view: &DiskView<'_>, service: &Service, who: &str, loss: &Loss<'_>) -> Wording {
    let name = &view.disk.name;
    let requests = Evidence::new("requests", service.count as f64, "1", "block_rq_complete");
    Wording {
        title: format!("disk {name} answers {who} with errors"),
        text: format!(
            "{} of {} requests to disk {name} ended in an error in {}. They fail at once, so nobody waits long \
             for it: its users see I/O errors.",
            service.errors,
            service.count,
            words::seconds(loss.wall_seconds),
        ),
        evidence: vec![errors_evidence(service.errors), requests],
        remedy: remedy(view.disk),
    }
}

fn errors_evidence(errors: u64) -> Evidence {
    Evidence::new("requests that ended in an error", errors as f64, "1", "block_rq_complete")
}

fn remedy(disk: &Disk) -> Vec<Remedy> {
    let read = Remedy {
        text: "read what the kernel says of it, and move the data off it".into(),
        command: format!("dmesg | grep -w {}", disk.name),
        action: Some(Action::look(Question::State)),
        ..Remedy::default()
    };
    let device = "read the device's own error counters, and plan its replacement";
    vec![read, wording::ask_the_device(disk, device)]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::disk::scenes::{Rate, disk, named, waiter};
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
    fn errors_that_keep_nobody_waiting_are_reported() {
        let report = explain(failing(900));
        assert_eq!(report.findings[0].code, "disk.errors");
        assert_eq!(report.findings[0].severity, Severity::Warning);
    }

    #[test]
    fn requests_that_all_succeed_are_no_errors() {
        assert!(explain(failing(0)).findings.is_empty());
    }

    #[test]
    fn a_single_error_among_thousands_is_not() {
        assert!(explain(failing(2)).findings.is_empty());
    }

    #[test]
    fn who_waits_for_a_disk_that_fails_is_held_up_by_its_errors() {
        let rate = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };
        let mut facts = disk(named("sda"), rate);
        for Fact { body, .. } in &mut facts {
            if let Body::DiskLatency(latency) = body {
                latency.errors = 60;
            }
        }
        facts.extend(waiter(10, "app", &[(0, 4_900)]));
        let found = explain(facts).findings;
        assert_eq!((found.len(), found[0].code.as_str()), (1, "disk.errors"));
        let says = "is held up by disk sda, which answers with errors";
        assert!(found[0].title.ends_with(says), "{}", found[0].title);
        assert_eq!(found[0].victims[0].pid, 10);
    }
}
