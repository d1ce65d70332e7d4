//! disk.fail_slow: the device answers, but some requests (or all) take far longer than it should.
//!
//! A dying disk retries inside: most requests are quick, a few take a hundred times longer, and no queue explains
//! them. A tail is judged against the same device's median, so that a busy but healthy disk is left alone.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, View, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.fail_slow",
    title: "The disk answers some requests far too slowly",
    theory: "Almost-broken devices retry, remap and reset inside: a few requests take a hundred times longer than \
             the others without a queue that would explain it, and whoever issued them waits. Whole arrays are as \
             slow as their slowest member.",
    needs: &[
        "threads wait for the disk",
        "slowest requests take at least ten times the median and at least 30 ms, with a quick median, at three moments",
        "most of the waiting for the disk passes while such a request is inside it",
        "or every request is slow by the same time, however many are in flight",
    ],
    refuted_by: &[
        Refutation::new("a queue that slows all requests alike", ""),
        Refutation::new("a cgroup limit that is met", ""),
    ],
    remedies: &[
        "look at the device's error counters (SMART) and replace it",
        "move the data off it first",
    ],
    stories: &["S3.2"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    disk::views(measures)
        .filter(|(_, view)| matches!(view.wrong, Some(Wrong::FailSlow)))
        .map(|(end, view)| finding(measures, end, &view))
        .collect()
}

fn finding(measures: &Measures<'_>, end: &End, view: &View<'_>) -> Finding {
    let name = &view.disk.name;
    let service = view.service.clone().unwrap_or_default();
    let mut evidence = crate::rules::old::disk_device_cap::evidence(view, service.mean);
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
    let victim = measures.process_name(end.first_victim());
    let verdict = Verdict {
        title: format!(
            "{victim} is held up by disk {name}, which answers some requests far too slowly"
        ),
        text: format!(
            "{} inside disk {name}: half of its {} requests take up to {}, the \
             slowest took {}, with {:.1} in flight on average; no queue explains that.",
            words::of_time(measures.impact(end).share, end.seconds, measures.wall_seconds()),
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
    RULE.finding(measures, end, verdict)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Report;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const DEV: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const MS: Ns = 1_000_000;

    /// A quick disk of which some requests take 200 ms, done at these times; a reader waits for each.
    fn facts(done_ms: &[Ns]) -> Vec<Fact> {
        let mut facts = host();
        facts.push(fact(Body::Disk(Disk { dev: DEV, name: "sda".into(), ..Disk::default() })));
        for tenth in 0..=50 {
            let reads = 40 * tenth;
            let sample = DiskSample {
                dev: DEV,
                reads,
                read_bytes: reads * 4096,
                read_ms: reads,
                busy_ms: 20 * tenth,
                weighted_ms: 30 * tenth,
                ..DiskSample::default()
            };
            facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
        }
        let mut service_us_log2 = vec![0; 20];
        (service_us_log2[8], service_us_log2[17]) = (2000, done_ms.len() as u64);
        facts.push(fact(Body::DiskLatency(DiskLatency {
            dev: DEV,
            count: 2000 + done_ms.len() as u64,
            service_ns: 2000 * 300_000 + done_ms.len() as u64 * 200 * MS,
            service_ns_max: 200 * MS,
            service_us_log2,
            ..DiskLatency::default()
        })));
        for (reader, done_ms) in (10..).zip(done_ms) {
            let (issue_ns, complete_ns) = ((done_ms - 200) * MS, done_ms * MS);
            facts.push(Fact {
                at_ns: complete_ns,
                body: Body::Request(Request {
                    dev: DEV,
                    bytes: 4096,
                    issue_ns,
                    complete_ns,
                    ..Request::default()
                }),
            });
            let place = reads_from(DEV);
            let thread = thread(reader, "store");
            let time = ThreadTime {
                thread: thread.clone(),
                until_ns: LOOK_NS,
                disk_sleep_ns: 200 * MS,
                sleep_ns: LOOK_NS - 200 * MS,
                ..ThreadTime::default()
            };
            facts.push(fact(Body::ThreadTime(time)));
            let wake = Wake {
                at_ns: complete_ns,
                context: WakeContext::HardInterrupt,
                disk: Some(DEV),
                ..Wake::default()
            };
            let (begin_ns, end_ns) = (issue_ns, complete_ns);
            let wait =
                Wait { thread, begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
            facts.push(Fact { at_ns: complete_ns, body: Body::Wait(wait) });
        }
        facts
    }

    fn codes(facts: Vec<Fact>) -> Vec<String> {
        explain(facts).findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn requests_that_are_slow_again_and_again_are_the_disks_own() {
        assert_eq!(codes(facts(&[500, 1_300, 2_100, 3_400])), ["disk.fail_slow"]);
    }

    #[test]
    fn a_disk_that_stood_still_once_is_no_slow_disk() {
        assert!(codes(facts(&[500, 500, 503, 504])).is_empty());
    }

    #[test]
    fn a_loop_device_whose_worker_has_no_cpu_is_no_slow_disk_and_that_is_told() {
        let of_a_loop = |worker_ready_ms: Ns| {
            let mut facts = facts(&[500, 1_300, 2_100, 3_400]);
            let (backing_file, name) = (Some("/srv/image".into()), "loop3".into());
            facts.push(fact(Body::Disk(Disk { dev: DEV, name, backing_file, ..Disk::default() })));
            facts.push(fact(Body::ThreadTime(ThreadTime {
                thread: thread(90, "kworker/u8:3"),
                kernel: true,
                runnable_ns: worker_ready_ms * MS,
                ..ThreadTime::default()
            })));
            facts
        };
        // The disk has requests for a fifth of the time, 1 s of 5.
        assert_eq!(codes(of_a_loop(20)), ["disk.fail_slow"]);
        let caveat = |report: Report| {
            let starved = report.caveats.into_iter().find(|it| it.code == "disk_starved");
            starved.map_or_else(String::new, |it| it.text)
        };
        let told = explain(of_a_loop(800));
        assert_eq!(told.findings, []);
        let text = caveat(told);
        assert!(text.contains("loop3") && text.contains("0.80 s"), "{text:?}");
        let mut unasked = of_a_loop(800);
        unasked.retain(|fact| !matches!(fact.body, Body::Wait(_)));
        assert_eq!(caveat(explain(unasked)), "");
    }
}
