//! disk.saturated: a neighbour asks for most of what the disk does, and others queue behind it.
//!
//! Use is not a fault: a process that alone keeps a disk busy is not told. It takes a victim that is not the main
//! user, and a user that does most of the work.

use crate::answer::report::{Evidence, Finding, Remedy};
use crate::facts::{Disk, ThreadRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, View, Wrong};
use crate::rules::old::{Rule, Verdict, culprit, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.saturated",
    title: "A neighbour uses the disk up",
    theory: "A device serves a limited amount of work at a time. When one process asks for most of it, the requests \
             of the others stand behind its own, in the scheduler or inside the device, although they ask for little.",
    needs: &[
        "threads wait for the disk that do not use it most",
        "one other process asks for at least 60 % of the work (bytes, and requests as 64 KiB each)",
        "the disk has work in flight at least half of the time",
    ],
    refuted_by: &[
        Refutation::new("the victims are the main users themselves", ""),
        Refutation::new("a cgroup limit that is met", ""),
    ],
    remedies: &[
        "give the neighbour a lower I/O priority or weight",
        "limit it with a cgroup",
        "move it to another disk",
    ],
    stories: &["S3.7", "S1.1"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    disk::views(measures)
        .filter_map(|(end, view)| match &view.wrong {
            Some(Wrong::Saturated(who, share)) => Some(finding(measures, end, &view, who, *share)),
            _ => None,
        })
        .collect()
}

fn finding(
    measures: &Measures<'_>,
    end: &End,
    view: &View<'_>,
    who: &ThreadRef,
    share: f64,
) -> Finding {
    let end = &disk::of_others(measures, end, who);
    let (name, queue) = (&view.disk.name, &view.queue);
    let inside = view.service.as_ref().map_or(queue.seconds, |s| s.mean);
    let victims = measures.victims(end);
    let victim =
        victims.iter().find(|v| v.pid != who.pid).map_or_else(String::new, |v| v.comm.clone());
    let mut evidence = crate::rules::old::disk_device_cap::evidence(view, inside);
    evidence.push(Evidence::new(
        format!("share of the work asked for by {}", words::who(who)),
        share * 100.0,
        "%",
        "block_bio_queue",
    ));
    let verdict = Verdict {
        title: format!("{victim} queues behind {} on disk {name}", words::who(who)),
        text: format!(
            "{} asks for {} of what disk {name} does ({} requests/s, {}/s, {:.1} in flight, {} busy); the others wait \
             {} for it, {} a request.",
            words::who(who),
            words::percent(share),
            words::rate(queue.per_second),
            words::bytes(queue.bytes_per_second),
            queue.in_flight,
            words::percent(queue.busy),
            words::of_window(end.seconds, measures.wall_seconds()),
            words::seconds(inside),
        ),
        confidence: 0.85,
        culprit: culprit(measures, who),
        evidence,
        remedy: vec![come_last(view.disk, who, "let it use the disk only when nobody else does")],
    };
    RULE.finding(measures, end, verdict)
}

/// The idle I/O class for all threads of a process (it is a thread's own), or a pause where the scheduler heeds no
/// priorities.
pub(super) fn come_last(disk: &Disk, who: &ThreadRef, text: &str) -> Remedy {
    let heeds = matches!(disk.scheduler.as_str(), "bfq" | "mq-deadline");
    if !heeds {
        return Remedy {
            text: format!(
                "pause it until the others are done (the scheduler of {}, {}, heeds no priorities)",
                disk.name, disk.scheduler
            ),
            command: format!("kill -STOP {}", who.pid),
            undo: format!("kill -CONT {}", who.pid),
        };
    }
    let threads = format!("$(ls /proc/{}/task)", who.pid);
    Remedy {
        text: text.into(),
        command: format!("ionice -c 3 -p {threads}"),
        undo: format!("ionice -c 0 -p {threads}"),
    }
}
