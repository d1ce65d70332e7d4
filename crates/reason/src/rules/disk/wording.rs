//! What several disk rules say alike: the figures of a disk, and how to make somebody come last on it.
//!
//! Must not: decide anything, or say what only one rule says. Figures come from the measure as they are.

use super::neighbour::Neighbour;
use crate::facts::{Disk, ThreadRef};
use crate::measure::disk_view::DiskView;
use crate::model::{Model, words};
use crate::rules::action::{Action, ActionKind};
use crate::rules::wording::{Evidence, Remedy};

const COUNTERS: &str = "/proc/diskstats";

/// The figures of a disk.
pub(super) fn evidence(view: &DiskView<'_>) -> Vec<Evidence> {
    let queue = &view.queue;
    let mut all = vec![
        Evidence::new("requests completed", queue.per_second, "1/s", COUNTERS),
        Evidence::new("data moved", queue.bytes_per_second, "bytes/s", COUNTERS),
        Evidence::new("mean in flight", queue.in_flight, "1", COUNTERS),
        Evidence::new("busy", queue.busy * 100.0, "%", COUNTERS),
        inside(view),
    ];
    if let Some(variation) = queue.rate_variation {
        all.push(Evidence::new("variation of the rate", variation * 100.0, "%", COUNTERS));
    }
    if let Some(residual) = queue.little_residual {
        all.push(Evidence::new("residual of Little's law", residual * 100.0, "%", COUNTERS));
    }
    all
}

/// Names of disks whose device is not in this machine.
const VIRTUAL: &[&str] = &["vd", "xvd", "nbd", "rbd", "drbd"];
/// Names of disks that stand on other disks, or on a file.
const STACKED: &[&str] = &["loop", "dm-", "md", "bcache", "zram"];

/// What to ask whoever knows more of a disk that answers badly: the device itself only where there is one. `of_its_own` is
/// the advice for that.
pub(super) fn ask_the_device(disk: &Disk, of_its_own: &str) -> Remedy {
    let name = &disk.name;
    let is_one_of = |names: &[&str]| {
        let rest = |prefix: &&str| name.strip_prefix(*prefix);
        names.iter().filter_map(rest).any(|rest| !rest.is_empty())
    };
    let (text, command) = if let Some(file) = &disk.backing_file {
        let below =
            "look at what its file lies on: the disk, the daemon or the server below is at fault";
        (below, format!("findmnt -T {}", words::shell(file)))
    } else if is_one_of(STACKED) || !disk.below.is_empty() {
        ("look at the disks below it: one of them is at fault", format!("lsblk -s /dev/{name}"))
    } else if is_one_of(VIRTUAL) {
        (
            "it is a virtual disk: ask whoever provides it (host, hypervisor, storage) what is wrong with it",
            String::new(),
        )
    } else {
        (of_its_own, format!("smartctl -a /dev/{name}"))
    };
    Remedy { text: text.into(), command, ..Remedy::default() }
}

/// The time of a request.
pub(super) fn inside(view: &DiskView<'_>) -> Evidence {
    let source = "block_rq_issue to block_rq_complete";
    Evidence::new("mean time inside the disk", view.inside_seconds() * 1e3, "ms", source)
}

/// The idle I/O class for all threads of a process (it is a thread's own), or a pause where the scheduler has no
/// priorities or is not known to have any, or it has that class already, or the kernel writes its pages for it. What is undone is the class
/// that was read.
pub(super) fn come_last(model: &Model, disk: &Disk, by: &Neighbour<'_>, text: &str) -> Remedy {
    const CLASS_SHIFT: u32 = 13;
    const IDLE: u32 = 3;
    let has_priorities = match disk.scheduler.as_str() {
        "bfq" => Some(true),
        "mq-deadline" => disk.has_deadline_priorities,
        _ => Some(false),
    };
    let whom = by.acted_on(model);
    if whom.is_empty() {
        return Remedy::to(
            "at the terminal where they are begun, wait with them until the others are done",
        );
    }
    let class = |of: &ThreadRef| model.threads.by_id.get(&of.pid).and_then(|it| it.io_priority);
    let is_idle = whom.iter().all(|of| class(of).is_some_and(|was| was >> CLASS_SHIFT == IDLE));
    let (them, their) = if by.is_several() { ("them", "their") } else { ("it", "its") };
    let pause = |text: String| Remedy::to(text).signal("STOP", Some("CONT"), &whom);
    if by.is_written_back {
        let have = if by.is_several() { "they have" } else { "it has" };
        return pause(format!(
            "pause {them} until the others are done (the kernel writes {their} pages for {them}, so {their} own I/O class counts for nothing, and \
             what {have} written so far still goes to the disk)"
        ));
    }
    if has_priorities != Some(true) || is_idle {
        let (name, scheduler) = (&disk.name, disk.scheduler.as_str());
        let why = match scheduler {
            _ if is_idle => format!("{their} I/O class is idle already"),
            "" => format!("{name} has no scheduler, and so no priorities"),
            // An older recording does not say it, nor does a kernel that shows nothing of it.
            _ if has_priorities.is_none() => {
                format!(
                    "it is not known whether the scheduler of {name}, {scheduler}, has priorities"
                )
            }
            _ => format!("the scheduler of {name}, {scheduler}, has no priorities"),
        };
        return pause(format!("pause {them} until the others are done ({why})"));
    }
    let set = |to: &str| {
        let threads = whom.iter().map(|of| format!("$(ls /proc/{}/task)", of.pid));
        format!("ionice -c {to} -p {}", threads.collect::<Vec<_>>().join(" "))
    };
    // What was read of the first: who is begun by another has its class, and equals of a job are alike.
    let back =
        class(by.who).map(|was| match (was >> CLASS_SHIFT, was & ((1 << CLASS_SHIFT) - 1)) {
            (0, _) => ("none".to_string(), set("0")),
            (class, level) => {
                let name = if class == 1 { "realtime" } else { "best-effort" };
                (format!("{name} {level}"), set(&format!("{class} -n {}", level & 7)))
            }
        });
    let action = Action {
        value: Some("idle".into()),
        undo: back.as_ref().map(|(class, _)| class.clone()),
        ..Action::on(ActionKind::IoClass, &whom)
    };
    let undo = back.map_or_else(String::new, |(_, back)| back);
    Remedy::to(text).set(action, set("3"), undo)
}
