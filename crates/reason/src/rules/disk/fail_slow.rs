//! disk.fail_slow: the device answers, but some requests (or all) take far longer than it should.
//!
//! A dying disk retries inside: most requests are quick, a few take a hundred times longer, and no queue explains
//! them. A tail is judged against the same device's median, so that a busy but healthy disk is left alone.
//!
//! What a queue explains: a request that finds n others in flight waits for them too, so its time is divided by n + 1
//! before it is compared with the median; and all bytes in flight, its own included, take their time at the best rate that
//! the disk showed. Requests of a queue that is merely long, or large, pass.
//!
//! It must be what is waited for, and it must come back: what ends at the same moment stood still for the same reason (a
//! host that paused its guest, a reset), however many requests it were, and one such moment is no failing device even if
//! others stumbled a little beside it. So several moments, none of which makes most of what is waited in them.
//!
//! Must not: advise to replace what nobody can replace: a virtual disk is somebody else's, a stacked one stands on others.
//! Rejected: the tail of the histogram alone (it cannot tell one stall with a full queue from many slow requests).

use super::waited::{self, CONSTANT_DEPTH, CONSTANT_PART, CONSTANT_REQUESTS, CONSTANT_TIME};
use super::wording;
use crate::facts::Ns;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::{DiskView, LongRequest, SLOW_BELOW};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::joined;

static FAR: Threshold = Threshold::new(
    10.0,
    "1",
    "a slow request takes at least so many times the median of its disk",
    "chosen: a queue or a seek makes a request slower by less",
);
static WORTH: Threshold = Threshold::new(
    0.03,
    "s",
    "a slow request takes at least this long, and half of all take less",
    "a drive's own retry takes a turn of the platter, 8 to 11 ms, and it retries more than once",
);
static REQUESTS: Threshold = Threshold::new(
    10.0,
    "1",
    "with fewer requests there is no median to speak of",
    "chosen: the median of ten is known to a slot of the histogram",
);
static FEW: Threshold = Threshold::new(
    0.3,
    "1",
    "slow requests are a smaller part than this, else the disk is slow as a whole",
    "lab: disk-fail-slow, seeds 4401-4403",
);
static MOMENTS: Threshold = Threshold::new(
    4.0,
    "1",
    "slow requests end at so many moments: a disk that stumbled once or twice is no failing one",
    "field: one request of 337 ms on a virtual disk",
);
static ONE_MOMENT: Threshold = Threshold::new(
    0.5,
    "1",
    "no single moment makes more than this part of what is waited in slow requests",
    "field: one request of 337 ms on a virtual disk",
);
static OF_WAITING: Threshold = Threshold::new(
    0.5,
    "1",
    "this part of the waiting for the disk passes while a slow request is inside it: a disk that stumbles below a flood of \
     writes is held up by the flood",
    "lab: disk-journal, disk-saturated",
);
static MULTIPLE: Threshold = Threshold::new(
    3.0,
    "1",
    "a request takes so many times what the bytes in flight need at the best rate that the disk showed",
    "chosen: a disk's rate halves where reads and writes mix",
);
static SLOW_ALONE: Threshold = Threshold::new(
    0.010,
    "s",
    "where every request takes the same time, it is at least this long: up to a turn of a platter is that kind of disk",
    "a turn of a platter at 5400/min and a seek",
);
static BUSY: Threshold = Threshold::new(
    0.7,
    "1",
    "where every request is slow, the device has work in flight nearly all the time",
    "lab: disk-fail-slow, seeds 4401-4403",
);

/// What ends so soon after another ends at the same moment.
const SAME_MOMENT_NS: Ns = 10_000_000;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.fail_slow",
    title: "The disk answers some requests far too slowly",
    theory: "Almost-broken devices retry, remap and reset inside: a few requests take a hundred times longer than \
             the others without a queue that would explain it, and whoever issued them waits. Whole arrays are as \
             slow as their slowest member.",
    needs: &[
        "threads wait for the disk",
        "slow requests take at least ten times the median and at least 30 ms, with a quick median, at four moments or more",
        "most of the waiting for the disk passes while such a request is inside it, and no one moment makes most of that",
        "or every request is slow by the same time, however many are in flight",
    ],
    refuted_by: &[
        Refutation::new(
            "the disk stood still once, however many requests that held",
            "a_disk_that_stood_still_once_is_no_slow_disk",
        ),
        Refutation::new(
            "one request that took long beside a few that took a little longer",
            "one_request_that_took_most_of_the_time_is_no_slow_disk",
        ),
        Refutation::new(
            "a queue that slows all requests alike",
            "a_queue_before_a_request_explains_its_time",
        ),
        Refutation::new(
            "most of the waiting is for other requests",
            "slow_requests_that_are_little_of_the_waiting_are_no_cause",
        ),
        Refutation::new(
            "the kernel worker that serves a loop device has no CPU",
            "a_loop_device_whose_worker_has_no_cpu_is_no_slow_disk_and_that_is_said",
        ),
    ],
    remedies: &[
        "read a physical device's error counters (SMART), move the data off it and replace it",
        "ask whoever provides a virtual disk what it does",
        "look at the disks below one that is made of others",
    ],
    stories: &["S3.2"],
    thresholds: &[
        &FAR,
        &WORTH,
        &REQUESTS,
        &FEW,
        &MOMENTS,
        &ONE_MOMENT,
        &OF_WAITING,
        &MULTIPLE,
        &SLOW_ALONE,
        &BUSY,
        &CONSTANT_REQUESTS,
        &SLOW_BELOW,
        &CONSTANT_DEPTH,
        &CONSTANT_PART,
        &CONSTANT_TIME,
    ],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let view = waited::slow_layer(measures, end)?;
    if !has_slow_tail(measures, end, view) && !is_slow_as_a_whole(view) {
        return None;
    }
    let by = Culprit::device(&view.disk.name);
    let matched = Match::new(by, Proof::Inferred, move |loss| explain(view, loss));
    Some(waited::of_layer(measures, end, view, matched))
}

/// Every request takes about the same long time however many are in flight.
fn is_slow_as_a_whole(view: &DiskView<'_>) -> bool {
    view.inside_seconds_max() >= SLOW_ALONE.value
        && view.queue.busy >= BUSY.value
        && waited::is_constant_time(view)
}

/// Some requests take far longer than the queue in front of them explains, again and again, while most are quick.
fn has_slow_tail(measures: &Measures<'_>, end: &End, view: &DiskView<'_>) -> bool {
    let Some(service) = &view.service else { return false };
    if (service.count as f64) < REQUESTS.value || service.median >= WORTH.value {
        return false;
    }
    let limit = (service.median * FAR.value).max(WORTH.value);
    let best = view.best_bytes_per_second.max(1.0);
    let is_slow = |request: &&LongRequest| {
        request.seconds / (request.depth as f64 + 1.0) >= limit
            && request.seconds >= MULTIPLE.value * request.bytes_in_flight as f64 / best
    };
    let slow: Vec<&LongRequest> = view.requests.iter().filter(is_slow).collect();
    let moments = moments(&slow);
    if moments.len() < MOMENTS.count() || slow.len() as f64 >= FEW.value * service.count as f64 {
        return false;
    }
    let inside = waiting_inside(measures, end, moments.concat());
    let most = moments.into_iter().map(|one| waiting_inside(measures, end, one)).max();
    let all = waiting_inside(measures, end, vec![(0, Ns::MAX)]);
    inside as f64 >= OF_WAITING.value * all as f64
        && most.is_some_and(|most| most as f64 <= ONE_MOMENT.value * inside as f64)
}

/// When requests were inside the disk, those together that ended at the same moment.
fn moments(requests: &[&LongRequest]) -> Vec<Vec<(Ns, Ns)>> {
    let mut stretches: Vec<(Ns, Ns)> =
        requests.iter().map(|request| (request.complete_ns, request.issue_ns)).collect();
    stretches.sort_unstable();
    let mut moments: Vec<Vec<(Ns, Ns)>> = Vec::new();
    let mut last = None;
    for (complete, issue) in stretches {
        let is_same = last.is_some_and(|last| complete - last <= SAME_MOMENT_NS);
        last = Some(complete);
        match moments.last_mut().filter(|_| is_same) {
            Some(moment) => moment.push((issue, complete)),
            None => moments.push(vec![(issue, complete)]),
        }
    }
    moments
}

/// How much of all waiting for a disk passes within stretches, nanoseconds.
fn waiting_inside(measures: &Measures<'_>, end: &End, stretches: Vec<(Ns, Ns)>) -> Ns {
    let stretches = joined(stretches);
    let is_its = |class| matches!(class, WaitClass::Disk | WaitClass::PageFault);
    let waits = measures.waits().filter(|wait| is_its(wait.class) && wait.object == end.object);
    waits
        .map(|wait| stretches.iter().map(|(begin, end)| wait.within_ns(*begin, *end)).sum::<Ns>())
        .sum()
}

fn explain(view: &DiskView<'_>, loss: &Loss<'_>) -> Wording {
    let name = &view.disk.name;
    let service = view.service.clone().unwrap_or_default();
    let of_time =
        |fact: &str, seconds: f64, source: &str| Evidence::new(fact, seconds * 1e3, "ms", source);
    let mut evidence = wording::evidence(view);
    evidence.extend([
        of_time("median time inside", service.median, "request histogram, upper edge"),
        of_time("p99 time inside", service.p99, "request histogram, upper edge"),
        of_time("slowest request", service.max, "block_rq_issue to block_rq_complete"),
    ]);
    Wording {
        title: format!(
            "{} is held up by disk {name}, which answers some requests far too slowly",
            loss.victim
        ),
        text: format!(
            "{} inside disk {name}: half of its {} requests take up to {}, the \
             slowest took {}, with {:.1} in flight on average; no queue explains that.",
            words::of_time(loss.impact.share, loss.seconds, loss.wall_seconds),
            service.count,
            words::seconds(service.median),
            words::seconds(service.max),
            view.queue.in_flight,
        ),
        evidence,
        remedy: vec![wording::ask_the_device(
            view.disk,
            "read the device's own error counters, and plan its replacement",
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Report;
    use crate::facts::*;
    use crate::rules::disk::scenes;
    use crate::rules::disk::wording::ask_the_device;
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

    /// The same with other requests that are waited for.
    fn beside(done_ms: &[Ns], others_ms: &[(Ns, Ns)]) -> Vec<Fact> {
        let mut facts = facts(done_ms);
        for (pid, other) in (50..).zip(others_ms) {
            facts.extend(scenes::waiter(pid, "log", &[*other]));
            facts.push(scenes::request(other.0, other.1));
        }
        facts
    }

    #[test]
    fn one_request_that_took_most_of_the_time_is_no_slow_disk() {
        // 200 ms once, and three times a little more than a turn of the platter or two.
        let little = [(1_000, 1_035), (2_000, 2_035), (3_000, 3_035)];
        assert!(codes(beside(&[500], &little)).is_empty());
        // As long as the first, they are a tail.
        let long = [(1_000, 1_200), (2_000, 2_200), (3_000, 3_200)];
        assert_eq!(codes(beside(&[500], &long)), ["disk.fail_slow"]);
    }

    #[test]
    fn a_queue_before_a_request_explains_its_time() {
        let mut facts = facts(&[500, 1_300, 2_100, 3_400]);
        // Each of them met a full queue: 49 that went there just before it, and were done one after the other.
        for done in [500, 1_300, 2_100, 3_400] {
            facts.extend((0..49).map(|at| scenes::request(done - 201, done - 200 + 4 * at)));
        }
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn slow_requests_that_are_little_of_the_waiting_are_no_cause() {
        let mut facts = facts(&[500, 1_300, 2_100, 3_400]);
        facts.extend(scenes::waiter(60, "log", &[(0, 4_990)]));
        facts.extend(scenes::waiter(61, "log", &[(0, 4_990)]));
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn only_a_device_of_this_machine_is_to_be_replaced() {
        let advice = |disk: Disk| ask_the_device(&disk, "plan its replacement");
        assert!(advice(scenes::named("sda")).text.contains("replacement"));
        for name in ["vda", "xvdb", "nbd0", "loop3", "dm-1", "md0"] {
            let remedy = advice(scenes::named(name));
            assert!(
                !remedy.text.contains("replace") && !remedy.command.contains("smartctl"),
                "{name}"
            );
        }
        let backing_file = Some("/srv/an image".into());
        let of_a_file = advice(Disk { backing_file, ..scenes::named("loop3") });
        assert_eq!(of_a_file.command, "findmnt -T '/srv/an image'");
    }

    #[test]
    fn a_loop_device_whose_worker_has_no_cpu_is_no_slow_disk_and_that_is_said() {
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
        let reported = explain(of_a_loop(800));
        assert_eq!(reported.findings, []);
        let text = caveat(reported);
        assert!(text.contains("loop3") && text.contains("0.80 s"), "{text:?}");
        let mut unasked = of_a_loop(800);
        unasked.retain(|fact| !matches!(fact.body, Body::Wait(_)));
        assert_eq!(caveat(explain(unasked)), "");
    }
}
