//! disk.raid_imbalance: a mirror reads from some of its members only, and those are at their limit.
//!
//! Every mirror could read from all of its members, and people count on the sum. But RAID-1, and RAID-10 with copies
//! side by side, keep a stream that reads on in order on the member where it is, so that platters need not seek;
//! layouts that lay the copies out in stripes do not. The first fact is the reads by member over the window; the
//! second, that the members which read are at their limit with a queue while the others have nothing to do.
//!
//! Members that are meant not to read (write-mostly, spare, faulty) are left out, and an array that is being
//! rebuilt is not judged.

use super::waited::{self, QUEUED, SLOW};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_array::{ArrayMember, DiskArray};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::collections::BTreeSet;

static READS: Threshold = Threshold::new(
    50.0,
    "1",
    "fewer reads in a window may have fallen on one member by chance",
    "arithmetic: of 50 reads over two members fewer than 3 fall on one of them once in 10^12 looks",
);
static IDLE_SHARE: Threshold = Threshold::new(
    0.1,
    "1",
    "below this part of an even share a member does not read",
    "chosen: metadata is read from any member",
);
static BUSY: Threshold = Threshold::new(
    0.7,
    "1",
    "a member that is busy for this part of the time is at its limit",
    "lab: disk-device-cap, the same for a disk alone",
);
static WRITES: Threshold = Threshold::new(
    0.5,
    "1",
    "a member that is busy for more than this part of the busiest one's time is not idle: it writes",
    "a mirror writes everything to all of its members",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.raid_imbalance",
    title: "A mirror reads from some of its members only",
    theory: "A mirror has every block on several disks, yet a stream that reads on in order stays on one of them: \
             RAID-1 and RAID-10 with near copies gain nothing from the others for it. The members that read are at \
             their limit while the others idle, so the array is as fast as one disk.",
    needs: &[
        "threads wait for the array, or for a member of it",
        "some members in sync get less than a tenth of an even share of the reads",
        "another one is busy at least 70 % of the time and slow, with a queue at it or at the array",
    ],
    refuted_by: &[
        Refutation::new(
            "the members read about alike, or those that do not read are busy with writes",
            "members_that_read_alike_or_wait_for_nothing_are_balanced",
        ),
        Refutation::new(
            "no member has a queue (then another one would not be quicker)",
            "members_that_read_alike_or_wait_for_nothing_are_balanced",
        ),
        Refutation::new(
            "the idle members are write-mostly, spare or faulty, or the array is being rebuilt",
            "members_that_shall_not_read_and_arrays_that_are_rebuilt_are_left_out",
        ),
    ],
    remedies: &[
        "lay the copies out in stripes (RAID-10, far or offset)",
        "read with several streams",
    ],
    stories: &["S4.9"],
    thresholds: &[&READS, &IDLE_SHARE, &BUSY, &WRITES, &QUEUED, &SLOW],
    finds: Finds::Look(find),
};

/// The waiting for the array itself, for one that stands on it, and for its members.
fn find<'m>(measures: &'m Measures<'m>, open: &'m [End]) -> Vec<Match<'m>> {
    let mut found = Vec::new();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for array in &measures.disks.arrays {
        let Some(busiest) = overloaded(array) else { continue };
        let is_concerned = |end: &End| {
            waited::slow_disk(measures, end).is_some_and(|view| {
                let is_member = |member: &ArrayMember<'_>| member.disk.dev == view.disk.dev;
                array.members.iter().any(is_member)
                    || measures.model.disk.stands_on(view.disk, array.disk.dev)
            })
        };
        let ends: Vec<usize> =
            (0..open.len()).filter(|at| !taken.contains(at) && is_concerned(&open[*at])).collect();
        if ends.is_empty() {
            continue;
        }
        let name = &array.disk.name;
        let by = Culprit::setting(
            format!("{name} ({})", array.kind()),
            format!("/sys/block/{name}/md/layout"),
        );
        let explain = move |loss: &Loss<'_>| explain(array, busiest, loss);
        let mut matched =
            Match::new(by, Proof::TwoWitnesses, explain).on(Object::Disk(Some(array.disk.dev)));
        for at in &ends {
            matched = matched.claiming(*at, None);
        }
        taken.extend(ends);
        found.push(matched);
    }
    found
}

/// Members that do not read.
fn idle<'m>(array: &'m DiskArray<'m>) -> Vec<&'m ArrayMember<'m>> {
    let even = 1.0 / array.members.len().max(1) as f64;
    let busiest = array.busiest().map_or(0.0, |member| member.queue.busy);
    let is_idle = |member: &&ArrayMember<'_>| {
        array.share(member) < IDLE_SHARE.value * even && member.queue.busy <= WRITES.value * busiest
    };
    array.members.iter().filter(is_idle).collect()
}

/// The member that is at its limit while others do not read.
fn overloaded<'m>(array: &'m DiskArray<'m>) -> Option<&'m ArrayMember<'m>> {
    let busiest = array.busiest()?;
    let queue = &busiest.queue;
    // A member that takes one at a time has its queue in front of it, at the array.
    let at_its_limit = queue.busy >= BUSY.value
        && queue.in_flight.max(array.in_flight) >= QUEUED.value
        && queue.seconds >= SLOW.value;
    let is_seen = array.reads() as f64 >= READS.value;
    (is_seen && at_its_limit && !idle(array).is_empty()).then_some(busiest)
}

fn explain(array: &DiskArray<'_>, busiest: &ArrayMember<'_>, loss: &Loss<'_>) -> Wording {
    let (idle, queue) = (idle(array), &busiest.queue);
    let names: Vec<&str> = idle.iter().map(|member| &*member.disk.name).collect();
    Wording {
        title: format!(
            "{} waits for {} ({}), which leaves {} of {} members idle",
            loss.victim,
            array.disk.name,
            array.kind(),
            idle.len(),
            array.members.len()
        ),
        text: format!(
            "{} for the array. Of {} reads in {}, {} did {}: it is busy {}, with {:.1} in flight \
             ({:.1} at the array) and {} a request, while {} had next to none.",
            words::of_time(loss.impact.share, loss.seconds, loss.wall_seconds),
            array.reads(),
            words::seconds(loss.wall_seconds),
            busiest.disk.name,
            words::percent(array.share(busiest)),
            words::percent(queue.busy),
            queue.in_flight,
            array.in_flight.max(queue.in_flight),
            words::seconds(queue.seconds),
            names.join(", "),
        ),
        evidence: evidence(array, busiest),
        remedy: remedy(array),
    }
}

fn evidence(array: &DiskArray<'_>, busiest: &ArrayMember<'_>) -> Vec<Evidence> {
    let counters = "/proc/diskstats";
    let queue = &busiest.queue;
    let mut all = vec![
        Evidence::new(
            "members in sync",
            array.members.len() as f64,
            "1",
            "/sys/block md/dev-*/state",
        ),
        Evidence::new("members that do not read", idle(array).len() as f64, "1", counters),
        Evidence::new("busy time of the busiest member", queue.busy * 100.0, "%", counters),
        Evidence::new("its mean in flight", queue.in_flight, "1", counters),
        Evidence::new("mean in flight at the array", array.in_flight, "1", counters),
        Evidence::new("its time for a request", queue.seconds * 1e3, "ms", counters),
    ];
    let shares = array.members.iter().map(|member| {
        let what = format!("share of the reads on {}", member.disk.name);
        Evidence::new(what, array.share(member) * 100.0, "%", counters)
    });
    all.extend(shares);
    all
}

fn remedy(array: &DiskArray<'_>) -> Vec<Remedy> {
    let striped = array.striped_copies() > 1;
    let mut all = Vec::new();
    if !striped {
        // No command: it would make a new array, and what is on its disks would be gone.
        all.push(Remedy {
            text: format!(
                "lay the copies out in stripes, so that one stream reads from all {}: RAID-10 with far copies (mdadm's \
                 layout f2), a new array that the data has to be copied to",
                array.members.len()
            ),
            ..Remedy::default()
        });
    }
    all.push(Remedy {
        text: "read with several streams at once: each may go to another member".into(),
        ..Remedy::default()
    });
    all
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn dev(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 8, minor }
    }

    const ARRAY: DeviceNumber = DeviceNumber { major: 9, minor: 99 };

    struct Array {
        level: &'static str,
        layout: u32,
        action: &'static str,
        /// Reads in the look, requests in flight, and state by member.
        members: Vec<(u64, u64, &'static str)>,
    }

    fn facts(array: &Array) -> Vec<Fact> {
        let mut facts = host();
        let member = |minor: usize| dev(16 * minor as u32);
        let raid = Raid {
            layout: array.layout,
            action: array.action.into(),
            members: (0..)
                .zip(&array.members)
                .map(|(n, of)| RaidMember { dev: member(n), state: of.2.into() })
                .collect(),
        };
        let below = raid.members.iter().map(|member| member.dev).collect();
        facts.push(fact(Body::Disk(Disk {
            dev: ARRAY,
            name: "md99".into(),
            raid_level: Some(array.level.into()),
            raid: Some(raid),
            below,
            ..Disk::default()
        })));
        facts.push(fact(Body::DiskSample(DiskSample {
            dev: ARRAY,
            reads: 1,
            ..DiskSample::default()
        })));
        facts.push(Fact {
            at_ns: LOOK_NS,
            body: Body::DiskSample(DiskSample { dev: ARRAY, reads: 2, ..DiskSample::default() }),
        });
        for (n, (requests, in_flight, _)) in array.members.iter().enumerate() {
            let name = format!("sd{}", char::from(b'a' + n as u8));
            facts.extend(disk(member(n), name, *requests, *in_flight));
        }
        facts.push(at_place(10, "backup", reads_from(ARRAY)));
        facts
    }

    /// A disk that does so many reads in the look, of 20 ms each, and has so many in flight.
    fn disk(dev: DeviceNumber, name: String, requests: u64, in_flight: u64) -> Vec<Fact> {
        let mut facts = vec![fact(Body::Disk(Disk { dev, name, ..Disk::default() }))];
        for tenth in 0..=50 {
            let reads = requests * tenth / 50;
            let sample = DiskSample {
                dev,
                reads,
                read_ms: reads * 20,
                busy_ms: in_flight.min(1) * tenth * 100,
                weighted_ms: in_flight * tenth * 100,
                ..DiskSample::default()
            };
            facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
        }
        facts
    }

    fn reported(array: &Array) -> Option<Finding> {
        let findings = explain(facts(array)).findings;
        findings.into_iter().find(|finding| finding.code == "disk.raid_imbalance")
    }

    fn mirror(members: &[(u64, u64, &'static str)]) -> Array {
        Array { level: "raid1", layout: 0, action: "idle", members: members.to_vec() }
    }

    #[test]
    fn a_mirror_that_reads_from_one_of_its_members_is_reported_with_the_others() {
        let array = mirror(&[(250, 3, "in_sync"), (0, 0, "in_sync"), (1, 0, "in_sync")]);
        let finding = reported(&array).expect("found");
        assert!(
            finding.title.ends_with("md99 (raid1), which leaves 2 of 3 members idle"),
            "{finding:?}"
        );
        assert!(finding.text.contains("while sdb, sdc had"), "{}", finding.text);
        assert!(finding.remedy[0].text.contains("reads from all 3"));
        assert!(finding.remedy[0].command.is_empty(), "nothing that destroys data is offered");
    }

    #[test]
    fn five_idle_members_of_fifteen_in_a_striped_layout_are_a_matter_of_streams() {
        let mut members = vec![(250, 3, "in_sync"); 10];
        members.extend([(0, 0, "in_sync"); 5]);
        let array =
            Array { level: "raid10", layout: 1 | 3 << 8 | 1 << 16, action: "idle", members };
        let finding = reported(&array).expect("found");
        assert!(finding.title.ends_with("md99 (raid10 o3), which leaves 5 of 15 members idle"));
        assert!(finding.remedy[0].text.starts_with("read with several streams"));
    }

    #[test]
    fn members_that_read_alike_or_wait_for_nothing_are_balanced() {
        assert!(reported(&mirror(&[(130, 2, "in_sync"), (120, 2, "in_sync")])).is_none());
        // A mirror writes to all of its members, so one that reads nothing may be as busy.
        assert!(reported(&mirror(&[(250, 3, "in_sync"), (0, 3, "in_sync")])).is_none());
        // One request after the other: a second member would be no quicker.
        assert!(reported(&mirror(&[(250, 1, "in_sync"), (0, 0, "in_sync")])).is_none());
    }

    #[test]
    fn members_that_shall_not_read_and_arrays_that_are_rebuilt_are_left_out() {
        for state in ["in_sync,write_mostly", "spare", "faulty"] {
            assert!(reported(&mirror(&[(250, 3, "in_sync"), (0, 0, state)])).is_none(), "{state}");
        }
        let mut rebuilt = mirror(&[(250, 3, "in_sync"), (0, 0, "in_sync")]);
        rebuilt.action = "recover";
        assert!(reported(&rebuilt).is_none());
        rebuilt.action = "idle";
        rebuilt.level = "raid0";
        assert!(reported(&rebuilt).is_none());
    }

    #[test]
    fn who_waits_for_a_member_is_a_victim_and_who_waits_for_another_disk_is_not() {
        let mut facts = facts(&mirror(&[(250, 3, "in_sync"), (0, 0, "in_sync")]));
        facts.extend(disk(dev(128), "sdi".into(), 250, 3));
        facts.push(at_place(20, "check", reads_from(dev(0))));
        facts.push(at_place(30, "app", reads_from(dev(128))));
        let found = explain(facts).findings;
        let finding = found.iter().find(|it| it.code == "disk.raid_imbalance").expect("found");
        let victims: Vec<u32> = finding.victims.iter().map(|victim| victim.pid).collect();
        assert_eq!(victims, [10, 20]);
    }
}
