//! disk.device_cap: the device itself delivers a flat rate and no more; the wait is inside it.
//!
//! Cloud volumes, throttled virtual disks and worn devices answer as if behind a token bucket: however much is
//! asked, the rate stays flat while there is always work in flight, and time grows with the queue. The limit is
//! not on this host, so no file here raises it.

//! It is what remains: it stands last, so that limits of this host, slow requests, neighbours, caches and arrays have been
//! asked. Must not: call a disk capped that takes the same time for each request however many it has.

use super::neighbour::WRITTEN_BACK;
use super::waited::{self, QUEUED, SLOW};
use super::wording;
use crate::facts::Disk;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::{DiskView, SLOW_BELOW};
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

static SLOW_ALONE: Threshold = Threshold::new(
    0.010,
    "s",
    "without a queue a request takes the disk's own time; up to this it is just that kind of disk, and one reader at a \
     time gets no more from it",
    "a turn of a platter at 5400/min and a seek",
);
static BUSY: Threshold = Threshold::new(
    0.7,
    "1",
    "a device at its limit has work in flight nearly all the time",
    "lab: disk-device-cap, seeds 4401-4403",
);
static FLAT_RATE: Threshold = Threshold::new(
    0.35,
    "1",
    "spread of the operations a second over slices of the window, up to which the rate is flat",
    "lab: disk-device-cap, disk-device-cap-credit",
);
static FLAT_BYTES: Threshold = Threshold::new(
    0.25,
    "1",
    "the same of bytes a second, which vary less behind a limit of bytes",
    "lab: disk-device-cap, seeds 4401-4403",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        Refutation::new(
            "a cgroup limit that is waited for",
            "a_limit_of_this_host_is_no_cap_of_the_device",
        ),
        Refutation::new(
            "a few slow requests among quick ones (then the device fails slowly)",
            "quick_requests_are_not_capped",
        ),
        Refutation::new(
            "the same time for each request however many are in flight (slow, not capped)",
            "a_constant_time_is_no_cap",
        ),
        Refutation::new(
            "one neighbour that asks for most of what is done",
            "a_neighbour_that_asks_for_most_is_no_cap",
        ),
        Refutation::new("a rate that rises and falls", "a_rate_that_rises_and_falls_is_no_cap"),
    ],
    remedies: &[
        "provision more operations or bytes a second",
        "cut synchronous writes, batch them, or cache",
    ],
    stories: &["S1.1", "S0.6"],
    thresholds: &[
        &SLOW,
        &SLOW_ALONE,
        &QUEUED,
        &BUSY,
        &FLAT_RATE,
        &FLAT_BYTES,
        &waited::CONSTANT_REQUESTS,
        &SLOW_BELOW,
        &WRITTEN_BACK,
        &waited::CONSTANT_DEPTH,
        &waited::CONSTANT_PART,
        &waited::CONSTANT_TIME,
    ],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let view = waited::slow_layer(measures, end)?;
    let queue = &view.queue;
    let slow = if queue.in_flight >= QUEUED.value { SLOW.value } else { SLOW_ALONE.value };
    let is_slow = view.inside_seconds_max() >= slow && queue.busy >= BUSY.value;
    if !is_slow || waited::is_constant_time(view) {
        return None;
    }
    let is_flat = queue.rate_variation.is_some_and(|spread| spread <= FLAT_RATE.value)
        || queue.bytes_variation.is_some_and(|spread| spread <= FLAT_BYTES.value);
    // Too few completions have no spread, and are no rate to speak of either.
    let proof = match queue.rate_variation {
        Some(_) if is_flat => Proof::Inferred,
        Some(_) => return None,
        None => Proof::OneWitness,
    };
    // What a layer below writes for the one above need not come from the page cache.
    let writes_through = |upper: &DiskView<'_>| {
        upper.disk.below.contains(&view.disk.dev)
            && upper.users.iter().any(|user| user.used.write_bytes > 0)
    };
    let has_no_upper = !measures.disks.views.values().any(writes_through);
    let by = Culprit::device(&view.disk.name);
    let matched = Match::new(by, proof, move |loss| explain(view, has_no_upper, loss));
    Some(waited::of_layer(measures, end, view, matched))
}

fn explain(view: &DiskView<'_>, has_no_upper: bool, loss: &Loss<'_>) -> Wording {
    let (name, queue) = (&view.disk.name, &view.queue);
    let by_workers = has_no_upper && view.written_for_unknown() > WRITTEN_BACK.value;
    let for_whom = if by_workers {
        " Most of it the kernel's workers write, as they do with what goes through the page cache; for whom was not seen."
    } else {
        ""
    };
    let look = if by_workers {
        Remedy {
            text: "see who has written most since it began; what is in the page cache still has to be written (Dirty and Writeback of \
                   /proc/meminfo)"
                .into(),
            command: "grep -H ^write_bytes /proc/[0-9]*/io | sort -nk2 | tail -5".into(),
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        }
    } else {
        Remedy {
            text: "see who writes synchronously, and batch it".into(),
            command: format!("holdup --for 30s -v   # the victims of {name}"),
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        }
    };
    Wording {
        title: format!(
            "{} is held up by disk {name}, which does {} requests/s and no more",
            loss.victim,
            words::rate(queue.per_second)
        ),
        text: format!(
            "{} inside disk {name}: it completes {} requests/s ({}/s), flat, \
             with {:.1} in flight and {} busy; a request takes {}. No limit of a cgroup on {name} is met, so the \
             limit is {}.{for_whom}",
            words::of_time(loss.impact.share, loss.seconds, loss.wall_seconds),
            words::rate(queue.per_second),
            words::bytes(queue.bytes_per_second),
            queue.in_flight,
            words::percent(queue.busy),
            words::seconds(view.inside_seconds()),
            match view.disk.backing_file {
                Some(_) => "below the file that it lies in",
                None => "the device's own or its provider's",
            },
        ),
        evidence: wording::evidence(view),
        remedy: vec![more_operations(view.disk), look],
    }
}

/// Of a disk that is a file here, what limits it may be on this host: below the file.
fn more_operations(disk: &Disk) -> Remedy {
    if disk.backing_file.is_some() {
        return wording::ask_the_device(disk, "");
    }
    let text = format!(
        "provision more operations for {} where it is provided; nothing on this host limits it",
        disk.name
    );
    Remedy { text, ..Remedy::default() }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::disk::scenes::*;
    use crate::rules::scenes::*;

    const CAPPED: Rate = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };

    fn with_waiter(mut facts: Vec<Fact>) -> Vec<Fact> {
        facts.extend(waiter(10, "app", &[(0, 4_900)]));
        facts
    }

    fn facts() -> Vec<Fact> {
        with_waiter(disk(named("vda"), CAPPED))
    }

    #[test]
    fn a_flat_rate_with_work_in_flight_all_the_time_is_a_cap() {
        assert_eq!(codes(facts()), ["disk.device_cap"]);
    }

    #[test]
    fn a_limit_of_this_host_is_no_cap_of_the_device() {
        let mut facts = facts();
        facts.extend(group("/g", DEV, 3, 15));
        facts.push(member(10, "app", "/g"));
        assert_eq!(codes(facts), ["disk.own_throttle"]);
    }

    #[test]
    fn what_workers_write_for_nobody_who_is_known_is_said_to_be() {
        let mut facts = facts();
        facts.extend([used(10, "app", 10, 1), used(7, "kworker/u8:2", 240, 1)]);
        let finding = explain(facts).findings.remove(0);
        assert_eq!(finding.code, "disk.device_cap");
        assert!(finding.text.contains("for whom was not seen"), "{}", finding.text);
        assert!(finding.remedy[1].command.contains("write_bytes"));
    }

    #[test]
    fn quick_requests_are_not_capped() {
        assert!(codes(with_waiter(disk(named("vda"), Rate { ms: 2, ..CAPPED }))).is_empty());
        let alone = Rate { ms: 9, in_flight: 1, ..CAPPED };
        assert!(codes(with_waiter(disk(named("vda"), alone))).is_empty(), "a platter's own time");
    }

    /// A disk of so many requests a second, of which thirty were reported: each takes the same, alone or beside two others.
    fn of_one_time(per_second: u64) -> Vec<Fact> {
        let mut facts = with_waiter(disk(named("vda"), Rate { per_second, ..CAPPED }));
        for at in 0..10 {
            facts.extend([0, 5, 9].map(|more| request(at * 400 + more, at * 400 + more + 40)));
        }
        facts
    }

    #[test]
    fn a_constant_time_is_no_cap() {
        assert_eq!(codes(of_one_time(6)), ["disk.fail_slow"]);
    }

    #[test]
    fn the_longest_of_many_requests_are_no_constant_time() {
        assert_eq!(codes(of_one_time(50)), ["disk.device_cap"]);
    }

    #[test]
    fn a_neighbour_that_asks_for_most_is_no_cap() {
        let mut facts = facts();
        facts.extend([used(10, "app", 10, 1), used(20, "copy", 240, 1)]);
        assert_eq!(codes(facts), ["disk.saturated"]);
    }

    /// Requests that are done by each tenth of a second: some, and then none for a while.
    fn bursts(tenth: u64) -> u64 {
        100 * (tenth / 20) + (tenth % 20).min(4) * 25
    }

    #[test]
    fn a_flat_number_of_bytes_is_a_cap_whatever_the_size_of_the_requests() {
        let mut facts = disk_of(named("vda"), CAPPED, bursts);
        for Fact { at_ns, body } in &mut facts {
            if let Body::DiskSample(sample) = body {
                sample.write_bytes = *at_ns / 1000;
            }
        }
        assert_eq!(codes(with_waiter(facts)), ["disk.device_cap"]);
    }

    #[test]
    fn a_rate_that_rises_and_falls_is_no_cap() {
        assert!(codes(with_waiter(disk_of(named("vda"), CAPPED, bursts))).is_empty());
    }

    /// An app writes to a file system on a loop device, whose file lies on a disk that does so much.
    fn on_a_file(below: Rate) -> Vec<Fact> {
        let dev = DeviceNumber { major: 7, minor: 1 };
        let loop_device = Disk {
            dev,
            below: vec![DEV],
            backing_file: Some("/srv/image".into()),
            ..named("loop1")
        };
        let mut facts = disk(named("vda"), below);
        let upper = disk(named("loop1"), CAPPED).into_iter().filter_map(|mut fact| {
            match &mut fact.body {
                Body::Disk(it) => *it = loop_device.clone(),
                Body::DiskSample(sample) => sample.dev = dev,
                Body::DiskLatency(latency) => latency.dev = dev,
                _ => return None,
            }
            Some(fact)
        });
        facts.extend(upper);
        facts.extend(waits(thread(10, "app"), false, &reads_from(dev), &[(0, 4_900)]));
        facts
    }

    #[test]
    fn of_a_disk_that_lies_on_a_slow_one_the_slow_one_is_named() {
        let report = explain(on_a_file(CAPPED));
        let finding = &report.findings[0];
        assert_eq!(
            (finding.code.as_str(), finding.object.name.as_str()),
            ("disk.device_cap", "vda")
        );
        assert!(
            finding.text.contains("Disk loop1, which is waited for, lies on it, in /srv/image."),
            "{}",
            finding.text
        );
    }

    #[test]
    fn a_quick_disk_below_a_slow_one_is_not_blamed() {
        let report = explain(on_a_file(Rate { ms: 1, in_flight: 0, busy: 60, ..CAPPED }));
        assert_eq!(report.findings[0].object.name, "loop1");
    }
}
