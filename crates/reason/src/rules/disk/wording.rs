//! What several disk rules say alike: the figures of a disk, and how to make somebody come last on it.
//!
//! Must not: decide anything, or say what only one rule says. Figures come from the measure as they are.

use super::neighbour::Neighbour;
use crate::facts::Disk;
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
    let who = by.who;
    let was = model.threads.by_id.get(&who.pid).and_then(|known| known.io_priority);
    let is_idle = was.is_some_and(|was| was >> CLASS_SHIFT == IDLE);
    if by.is_written_back {
        let text = "pause it until the others are done (the kernel writes its pages for it, so its own I/O class counts for nothing, and what it \
                    has written so far still goes to the disk)";
        return Remedy::to(text).pause(who);
    }
    if has_priorities != Some(true) || is_idle {
        let (name, scheduler) = (&disk.name, disk.scheduler.as_str());
        let why = match scheduler {
            _ if is_idle => "its I/O class is idle already".to_string(),
            "" => format!("{name} has no scheduler, and so no priorities"),
            // An older recording does not say it, nor does a kernel that shows nothing of it.
            _ if has_priorities.is_none() => {
                format!(
                    "it is not known whether the scheduler of {name}, {scheduler}, has priorities"
                )
            }
            _ => format!("the scheduler of {name}, {scheduler}, has no priorities"),
        };
        return Remedy::to(format!("pause it until the others are done ({why})")).pause(who);
    }
    let threads = format!("$(ls /proc/{}/task)", who.pid);
    let by = |class: &str| format!("ionice -c {class} -p {threads}");
    let back = was.map(|was| match (was >> CLASS_SHIFT, was & ((1 << CLASS_SHIFT) - 1)) {
        (0, _) => ("none".to_string(), by("0")),
        (class, level) => {
            let name = if class == 1 { "realtime" } else { "best-effort" };
            (format!("{name} {level}"), by(&format!("{class} -n {}", level & 7)))
        }
    });
    let mut action = Action::set(ActionKind::IoClass, who, "idle", "");
    action.undo = back.as_ref().map(|(class, _)| class.clone());
    Remedy::to(text).set(action, by("3"), back.map_or_else(String::new, |(_, back)| back))
}
