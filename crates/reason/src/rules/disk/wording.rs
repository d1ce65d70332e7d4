//! What several disk rules say alike: the figures of a disk, and how to make somebody come last on it.
//!
//! Must not: decide anything, or say what only one rule says. Figures come from the measure as they are.

use crate::facts::{Disk, ThreadRef};
use crate::measure::disk_view::DiskView;
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

/// The time of a request.
pub(super) fn inside(view: &DiskView<'_>) -> Evidence {
    let source = "block_rq_issue to block_rq_complete";
    Evidence::new("mean time inside the disk", view.inside_seconds() * 1e3, "ms", source)
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
