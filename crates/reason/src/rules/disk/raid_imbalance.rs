//! disk.raid_imbalance: a mirror reads from some of its members only, and those are at their limit.
//!
//! Every mirror could read from all of its members, and people count on the sum. But RAID-1, and RAID-10 with copies
//! side by side, keep a stream that reads on in order on the member where it is, so that platters need not seek;
//! layouts that lay the copies out in stripes do not. The first fact is the reads by member over the window; the
//! second, that the members which read are at their limit with a queue while the others have nothing to do.
//!
//! Members that are meant not to read (write-mostly, spare, faulty) are left out, and an array that is being
//! rebuilt is not judged.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy};
use crate::facts::*;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::disk_queue::{self, DiskQueue};
use crate::model::Model;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
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
            "",
        ),
        Refutation::new("no member has a queue (then another one would not be quicker)", ""),
        Refutation::new(
            "the idle members are write-mostly, spare or faulty, or the array is being rebuilt",
            "",
        ),
    ],
    remedies: &[
        "lay the copies out in stripes (RAID-10, far or offset)",
        "read with several streams",
    ],
    stories: &["S4.9"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// Fewer reads than this in a window may have fallen on one member by chance.
const READS_MIN: u64 = 50;
/// Below this part of an even share a member does not read.
const IDLE_SHARE: f64 = 0.1;
/// From here on a disk is at its limit.
const BUSY: f64 = 0.7;
/// A member that is busy for more than this part of the busiest one's time is not idle: it writes.
const WRITES: f64 = 0.5;

/// One member that may read.
struct Member<'a> {
    disk: &'a Disk,
    reads: u64,
    queue: DiskQueue,
}

/// An array over the window.
struct View<'a> {
    disk: &'a Disk,
    layout: u32,
    members: Vec<Member<'a>>,
    /// Requests in flight at the array itself; 0 where the kernel does not count them.
    in_flight: f64,
}

impl View<'_> {
    fn reads(&self) -> u64 {
        self.members.iter().map(|member| member.reads).sum()
    }

    fn share(&self, member: &Member<'_>) -> f64 {
        member.reads as f64 / self.reads().max(1) as f64
    }

    fn idle(&self) -> Vec<&Member<'_>> {
        let even = 1.0 / self.members.len().max(1) as f64;
        let busiest = self.busiest().map_or(0.0, |member| member.queue.busy);
        let idle = |member: &&Member<'_>| {
            self.share(member) < IDLE_SHARE * even && member.queue.busy <= WRITES * busiest
        };
        self.members.iter().filter(idle).collect()
    }

    fn busiest(&self) -> Option<&Member<'_>> {
        self.members.iter().max_by_key(|member| member.reads)
    }

    fn explains(&self) -> bool {
        let at_its_limit = self.busiest().is_some_and(|member| {
            let queue = &member.queue;
            // A member that takes one at a time has its queue in front of it, at the array.
            queue.busy >= BUSY
                && queue.in_flight.max(self.in_flight) >= disk::QUEUED_MIN
                && queue.seconds >= disk::SLOW_SECONDS
        });
        self.reads() >= READS_MIN && at_its_limit && !self.idle().is_empty()
    }

    /// `raid1`, or `raid10 n2` as mdadm names layouts.
    fn kind(&self) -> String {
        let level = self.disk.raid_level.as_deref().unwrap_or_default();
        let (near, far) = (self.layout & 0xff, self.layout >> 8 & 0xff);
        match (level, far) {
            ("raid10", 2..) if self.layout & 1 << 16 != 0 => format!("{level} o{far}"),
            ("raid10", 2..) => format!("{level} f{far}"),
            ("raid10", _) => format!("{level} n{near}"),
            _ => level.into(),
        }
    }
}

/// The array whose idle members explain the waiting for a disk: the array itself, one that stands on it, or a
/// member.
pub fn explaining(model: &Model, waited: &Disk) -> Option<DeviceNumber> {
    let concerned = |view: &View<'_>| {
        disk::stands_on(model, waited, view.disk.dev)
            || view.members.iter().any(|member| member.disk.dev == waited.dev)
    };
    let all = model.disks.values().filter_map(|disk| view(model, disk));
    all.filter(concerned).find(View::explains).map(|view| view.disk.dev)
}

fn view<'a>(model: &'a Model, disk: &'a Disk) -> Option<View<'a>> {
    let raid = disk.raid.as_ref()?;
    let mirrors = matches!(disk.raid_level.as_deref(), Some("raid1" | "raid10"));
    if !mirrors || !matches!(&*raid.action, "" | "idle") {
        return None;
    }
    let reads = |state: &str| {
        let mut words = state.split(',');
        words.clone().any(|word| word == "in_sync") && words.all(|word| word != "write_mostly")
    };
    let of = |member: &RaidMember| {
        let disk = model.disk(member.dev)?;
        let (_, first) = model.disk_samples.get(&disk.dev)?.first()?;
        let (_, last) = model.disk_samples.get(&disk.dev)?.last()?;
        let reads = last.reads.checked_sub(first.reads)?;
        Some(Member { disk, reads, queue: disk_queue::disk(model, disk.dev)? })
    };
    // A disk that has not moved since it came has no samples, so an unknown member is one that read nothing.
    let idle = |member: &RaidMember| {
        let disk = model.disk(member.dev)?;
        Some(Member { disk, reads: 0, queue: DiskQueue::default() })
    };
    let members = raid.members.iter().filter(|member| reads(&member.state));
    let members = members.filter_map(|member| of(member).or_else(|| idle(member))).collect();
    let in_flight = disk_queue::disk(model, disk.dev).map_or(0.0, |queue| queue.in_flight);
    Some(View { disk, layout: raid.layout, members, in_flight })
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let model = measures.model;
    model.disks.values().filter_map(|disk| finding(measures, &view(model, disk)?)).collect()
}

fn finding(measures: &Measures<'_>, view: &View<'_>) -> Option<Finding> {
    let dev = view.disk.dev;
    let mine =
        |wrong: &Option<Wrong<'_>>| matches!(wrong, Some(Wrong::Imbalance(of)) if *of == dev);
    let of_array = disk::views(measures).filter(|(_, seen)| mine(&seen.wrong)).map(|(end, _)| end);
    let end = End::merged(of_array)?;
    let (name, kind, busiest) = (&view.disk.name, view.kind(), view.busiest()?);
    let (idle, all) = (view.idle(), view.members.len());
    let names: Vec<&str> = idle.iter().map(|member| &*member.disk.name).collect();
    let victim = measures.victims(&end).into_iter().next().map(|most| most.comm)?;
    let queue = &busiest.queue;
    let verdict = Verdict {
        title: format!(
            "{victim} waits for {name} ({kind}), which leaves {} of {all} members idle",
            idle.len()
        ),
        text: format!(
            "{} for the array. Of {} reads in {}, {} did {}: it is busy {}, with {:.1} in flight \
             ({:.1} at the array) and {} a request, while {} had next to none.",
            words::of_time(measures.impact(&end).share, end.seconds, measures.wall_seconds()),
            view.reads(),
            words::seconds(measures.wall_seconds()),
            busiest.disk.name,
            words::percent(view.share(busiest)),
            words::percent(queue.busy),
            queue.in_flight,
            view.in_flight.max(queue.in_flight),
            words::seconds(queue.seconds),
            names.join(", "),
        ),
        confidence: 0.9,
        culprit: Culprit::setting(
            format!("{name} ({kind})"),
            format!("/sys/block/{name}/md/layout"),
        ),
        evidence: evidence(view, busiest),
        remedy: remedy(view),
    };
    let mut finding = RULE.finding(measures, &end, verdict);
    finding.object = ObjectName::new("disk", name).with_id(dev.to_string());
    Some(finding)
}

fn evidence(view: &View<'_>, busiest: &Member<'_>) -> Vec<Evidence> {
    let counters = "/proc/diskstats";
    let queue = &busiest.queue;
    let mut all = vec![
        Evidence::new(
            "members in sync",
            view.members.len() as f64,
            "1",
            "/sys/block md/dev-*/state",
        ),
        Evidence::new("members that do not read", view.idle().len() as f64, "1", counters),
        Evidence::new("busy time of the busiest member", queue.busy * 100.0, "%", counters),
        Evidence::new("its mean in flight", queue.in_flight, "1", counters),
        Evidence::new("mean in flight at the array", view.in_flight, "1", counters),
        Evidence::new("its time for a request", queue.seconds * 1e3, "ms", counters),
    ];
    let shares = view.members.iter().map(|member| {
        let what = format!("share of the reads on {}", member.disk.name);
        Evidence::new(what, view.share(member) * 100.0, "%", counters)
    });
    all.extend(shares);
    all
}

fn remedy(view: &View<'_>) -> Vec<Remedy> {
    let striped = view.layout >> 8 & 0xff > 1;
    let mut all = Vec::new();
    if !striped {
        // No command: it would make a new array, and what is on its disks would be gone.
        all.push(Remedy {
            text: format!(
                "lay the copies out in stripes, so that one stream reads from all {}: RAID-10 with far copies (mdadm's \
                 layout f2), a new array that the data has to be copied to",
                view.members.len()
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
            let dev = member(n);
            let name = format!("sd{}", char::from(b'a' + n as u8));
            facts.push(fact(Body::Disk(Disk { dev, name, ..Disk::default() })));
            for tenth in 0..=50 {
                let reads = requests * tenth / 50;
                let sample = DiskSample {
                    dev,
                    reads,
                    read_ms: reads * 20,
                    busy_ms: (*in_flight).min(1) * tenth * 100,
                    weighted_ms: in_flight * tenth * 100,
                    ..DiskSample::default()
                };
                facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
            }
        }
        facts.push(at_place(10, "backup", reads_from(ARRAY)));
        facts
    }

    fn told(array: &Array) -> Option<Finding> {
        let findings = explain(facts(array)).findings;
        findings.into_iter().find(|finding| finding.code == "disk.raid_imbalance")
    }

    fn mirror(members: &[(u64, u64, &'static str)]) -> Array {
        Array { level: "raid1", layout: 0, action: "idle", members: members.to_vec() }
    }

    #[test]
    fn a_mirror_that_reads_from_one_of_its_members_is_told_with_the_others() {
        let array = mirror(&[(250, 3, "in_sync"), (0, 0, "in_sync"), (1, 0, "in_sync")]);
        let finding = told(&array).expect("found");
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
        let finding = told(&array).expect("found");
        assert!(finding.title.ends_with("md99 (raid10 o3), which leaves 5 of 15 members idle"));
        assert!(finding.remedy[0].text.starts_with("read with several streams"));
    }

    #[test]
    fn members_that_read_alike_or_wait_for_nothing_are_balanced() {
        assert!(told(&mirror(&[(130, 2, "in_sync"), (120, 2, "in_sync")])).is_none());
        // A mirror writes to all of its members, so one that reads nothing may be as busy.
        assert!(told(&mirror(&[(250, 3, "in_sync"), (0, 3, "in_sync")])).is_none());
        // One request after the other: a second member would be no quicker.
        assert!(told(&mirror(&[(250, 1, "in_sync"), (0, 0, "in_sync")])).is_none());
    }

    #[test]
    fn members_that_shall_not_read_and_arrays_that_are_rebuilt_are_left_out() {
        for state in ["in_sync,write_mostly", "spare", "faulty"] {
            assert!(told(&mirror(&[(250, 3, "in_sync"), (0, 0, state)])).is_none(), "{state}");
        }
        let mut rebuilt = mirror(&[(250, 3, "in_sync"), (0, 0, "in_sync")]);
        rebuilt.action = "recover";
        assert!(told(&rebuilt).is_none());
        rebuilt.action = "idle";
        rebuilt.level = "raid0";
        assert!(told(&rebuilt).is_none());
    }
}
