//! disk.own_throttle: the wait is before the device, at a limit that a cgroup was given.
//!
//! blk-throttle holds bios back so that the group stays under its configured rate. On 6.18 it does so before
//! block_bio_queue, so no request event shows the wait; the witness is the limit itself, met exactly, on a
//! device that has little to do. Rejected: measuring the gap between bio and request (it shows microseconds).

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::facts::IoLimit;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, OwnLimit, View, Wrong};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.own_throttle",
    title: "A cgroup's own I/O limit holds its requests back before the disk",
    theory: "A cgroup may be given a limit of operations or bytes a second on a device \
             (blkio.throttle.* in cgroup v1, io.max in v2). The kernel holds back what exceeds it \
             before it reaches the device, so the disk looks idle and quick while the group's \
             threads sleep in state D.",
    needs: &[
        "threads of the group wait for the disk",
        "a limit is set for the group, or for one above it, on this device",
        "what the group does meets the limit (60 % to 135 % of it, by its own counters)",
    ],
    refuted_by: &[
        Refutation::new("the group stays well under every limit", ""),
        Refutation::new("no limit is set on the device for the group or any group above it", ""),
    ],
    remedies: &["raise or remove the limit", "spread the work, or make fewer, larger requests"],
    stories: &["S1.1", "S0.6"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    disk::views(measures)
        .filter_map(|(end, view)| match &view.wrong {
            Some(Wrong::OwnThrottle(limit)) => Some(finding(measures, end, &view, limit)),
            _ => None,
        })
        .collect()
}

/// `5.0 write requests/s`, `1.0 MiB/s of reads`.
fn limit_text(kind: &str, per_second: f64) -> String {
    match kind {
        "read_iops" => format!("{} read requests/s", words::rate(per_second)),
        "write_iops" => format!("{} write requests/s", words::rate(per_second)),
        "read_bps" => format!("{}/s of reads", words::bytes(per_second)),
        _ => format!("{}/s of writes", words::bytes(per_second)),
    }
}

fn finding(measures: &Measures<'_>, end: &End, view: &View<'_>, own: &OwnLimit<'_>) -> Finding {
    let limit = own.limit;
    let file = format!("{}/{}", own.group.directory.trim_end_matches('/'), limit.file);
    let victim = measures.process_name(end.first_victim());
    let impact = measures.impact(end);
    let answers = view.service.as_ref().map_or(view.queue.seconds, |s| s.mean);
    let waiting = end.seconds / measures.wall_seconds().max(1e-9);
    let remedy = raise(limit, &file, growth(view, waiting));
    let verdict = Verdict {
        title: format!("{victim} is held up by its own I/O limit"),
        text: format!(
            "{} before disk {}, not inside it: cgroup {} may do {} \
             ({}) and does {}; {} itself answers in {} and is {} busy.",
            words::of_time(impact.share, end.seconds, measures.wall_seconds()),
            view.disk.name,
            own.group.path,
            limit_text(&limit.kind, limit.per_second as f64),
            limit.file,
            limit_text(&limit.kind, own.reached),
            view.disk.name,
            words::seconds(answers),
            words::percent(view.queue.busy),
        ),
        confidence: 0.97,
        culprit: Culprit {
            container: Some(own.group.path.clone()),
            ..Culprit::setting(own.group.path.clone(), file.clone())
        },
        evidence: vec![
            Evidence::new("limit set", limit.per_second as f64, unit(&limit.kind), file),
            Evidence::new(
                "reached by the group",
                own.reached,
                unit(&limit.kind),
                "cgroup I/O counters",
            ),
            Evidence::new("disk busy", view.queue.busy * 100.0, "%", "/proc/diskstats"),
            Evidence::new(
                "mean time inside the disk",
                answers * 1e3,
                "ms",
                "block_rq_issue to block_rq_complete",
            ),
        ],
        remedy: vec![remedy],
    };
    RULE.finding(measures, end, verdict)
}

fn unit(kind: &str) -> &'static str {
    if kind.ends_with("iops") { "1/s" } else { "bytes/s" }
}

/// What a group may take of a disk that has nothing else to do: the rest keeps others' requests from queueing.
const OF_THE_DISK: f64 = 0.8;
/// Less of a raise is not worth a command.
const GROWTH_MIN: f64 = 2.0;

/// How many times more the waiters would get through. As many as wait on average would be inside the disk instead,
/// where now only the time of those is spent that the limit lets through; the disk has not more than its own time
/// to give. By the requests' own times where they were seen: the busy time of a disk with little to do is counted in
/// ticks of the clock, and is several times too long for short requests.
fn growth(view: &View<'_>, waiting: f64) -> f64 {
    let by_requests = view.service.as_ref().map(|s| s.mean * view.queue.per_second);
    let inside = by_requests.map_or(view.queue.busy, |inside| inside.min(view.queue.busy));
    (waiting.min(OF_THE_DISK) / inside.max(1e-4)).max(GROWTH_MIN)
}

/// To what would be asked for without a limit.
fn raise(limit: &IoLimit, file: &str, times: f64) -> Remedy {
    let (dev, old) = (limit.dev, limit.per_second);
    let new = (old as f64 * times) as u64;
    let words = |rate: u64| match (limit.file.as_str(), limit.kind.as_str()) {
        ("io.max", "read_iops") => format!("{dev} riops={rate}"),
        ("io.max", "write_iops") => format!("{dev} wiops={rate}"),
        ("io.max", "read_bps") => format!("{dev} rbps={rate}"),
        ("io.max", _) => format!("{dev} wbps={rate}"),
        _ => format!("{dev} {rate}"),
    };
    let file = words::shell(file);
    Remedy {
        text: "raise the limit to about what the waiters would ask for, and the disk has to give"
            .into(),
        command: format!("echo \"{}\" > {file}", words(new)),
        undo: format!("echo \"{}\" > {file}", words(old)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DeviceNumber, Disk};
    use crate::measure::disk_queue::{DiskQueue, Service};

    fn grown(service: Option<f64>, waiting: f64) -> f64 {
        let disk = Disk::default();
        let queue = DiskQueue { per_second: 40.0, busy: 0.05, ..DiskQueue::default() };
        let service = service.map(|mean| Service { mean, ..Service::default() });
        growth(&View { disk: &disk, queue, service, wrong: None }, waiting)
    }

    #[test]
    fn the_limit_is_raised_to_what_waits_and_to_what_the_disk_gives() {
        // 40 requests of 0.1 ms take 0.4 % of the disk, whatever its clock says.
        assert!((grown(Some(1e-4), 3.0) - 200.0).abs() < 1e-6);
        assert!((grown(Some(1e-4), 0.4) - 100.0).abs() < 1e-6);
        assert!((grown(None, 1.0) - 16.0).abs() < 1e-6);
        assert!((grown(Some(1e-4), 0.001) - GROWTH_MIN).abs() < 1e-6);
    }

    #[test]
    fn the_command_and_its_undo_name_the_device_and_the_kind() {
        let limit = IoLimit {
            kind: "write_iops".into(),
            per_second: 40,
            file: "io.max".into(),
            dev: DeviceNumber::default(),
        };
        let way = raise(&limit, "/g/io.max", 200.0);
        assert_eq!(way.command, "echo \"0:0 wiops=8000\" > /g/io.max");
        assert_eq!(way.undo, "echo \"0:0 wiops=40\" > /g/io.max");
    }
}
