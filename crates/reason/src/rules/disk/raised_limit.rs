//! The way out that raises what a group may do on a disk, with the groups above it that hold it too.
//!
//! One key of a line is set, and the others of that line stay. Must not: say by how much it helps, or which limit it is (own_throttle.rs).

use crate::facts::{Cgroup, IoLimit};
use crate::measure::disk_view::DiskView;
use crate::model::{Model, words};
use crate::rules::group_limits::{self, Key};
use crate::rules::wording::Remedy;

/// More at once is no limit any more: a step that somebody sets, looks at, and takes again.
/// WORDING: it chooses the value and the words of the way out.
pub(super) const GROWTH_MAX: f64 = 10.0;

/// What a group may take of a disk that has nothing else to do: the rest keeps others' requests from queueing.
const OF_THE_DISK: f64 = 0.8;
/// Less of a raise is not worth a command.
pub(super) const GROWTH_MIN: f64 = 2.0;
/// A disk is never less at work than this: what a raise divides by.
const INSIDE_MIN: f64 = 1e-4;

/// How many times more the waiters would get through. As many as wait on average would be inside the disk instead,
/// where now only the time of those is spent that the limit lets through; the disk has not more than its own time
/// to give. By the requests' own times where they were seen: the busy time of a disk with little to do is counted in
/// ticks of the clock, and is several times too long for short requests.
pub(super) fn growth(view: &DiskView<'_>, waiting: f64) -> f64 {
    let by_requests = view.service.as_ref().map(|s| s.mean * view.queue.per_second);
    let inside = by_requests.map_or(view.queue.busy, |inside| inside.min(view.queue.busy));
    (waiting.min(OF_THE_DISK) / inside.max(INSIDE_MIN)).clamp(GROWTH_MIN, GROWTH_MAX)
}

/// To what would be asked for without a limit. Of cgroup v2 a group above holds it too; of v1 each has its own.
pub(super) fn raise(model: &Model, (own, limit): (&Cgroup, &IoLimit), times: f64) -> Remedy {
    let (dev, old) = (limit.dev, limit.per_second);
    let new = words::rounded_up(old as f64 * times, limit.kind.ends_with("bps"));
    let words = |rate: u64| match (limit.file.as_str(), limit.kind.as_str()) {
        ("io.max", "read_iops") => format!("{dev} riops={rate}"),
        ("io.max", "write_iops") => format!("{dev} wiops={rate}"),
        ("io.max", "read_bps") => format!("{dev} rbps={rate}"),
        ("io.max", _) => format!("{dev} wbps={rate}"),
        _ => format!("{dev} {rate}"),
    };
    let what = match times < GROWTH_MAX {
        true => "raise the limit to about what the waiters would ask for, and the disk has to give",
        false => "raise the limit tenfold, and look again: the disk has more to give",
    };
    let key = |group: &Cgroup, old: u64| {
        let path = format!("{}/{}", group.directory.trim_end_matches('/'), limit.file);
        Key { path, new: words(new), old: words(old), is_stubborn: false }
    };
    let less = |group: &Cgroup| {
        let is_same = |it: &&IoLimit| (it.dev, &it.kind) == (dev, &limit.kind);
        let its = group.io_limits.iter().find(is_same).map(|it| it.per_second);
        its.filter(|its| *its < new && group.controllers.is_empty())
    };
    let above = group_limits::above(model, own);
    let holding: Vec<&Cgroup> = above.into_iter().filter(|it| less(it).is_some()).collect();
    let mut keys = vec![key(own, old)];
    keys.extend(holding.iter().filter_map(|group| Some(key(group, less(group)?))));
    group_limits::write_all(group_limits::with_above(what, &holding), &keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, DeviceNumber};
    use crate::rules::scenes::{fact, host};

    fn limited(path: &str, per_second: u64) -> Cgroup {
        let (kind, file) = ("write_iops".to_string(), "io.max".to_string());
        let limit = IoLimit { kind, per_second, file, dev: DeviceNumber::default() };
        let (path, directory) = (path.to_string(), path.to_string());
        Cgroup { path, directory, io_limits: vec![limit], ..Cgroup::default() }
    }

    fn way(above: u64) -> Remedy {
        let groups = [limited("/g", above), limited("/g/h", 40)];
        let facts = groups.iter().map(|group| fact(Body::Cgroup(group.clone())));
        let model = Model::new(host().into_iter().chain(facts).collect());
        raise(&model, (&groups[1], &groups[1].io_limits[0]), 200.0)
    }

    #[test]
    fn the_command_and_its_undo_name_the_device_and_the_kind() {
        let way = way(8_000);
        assert_eq!(way.command, "echo \"0:0 wiops=8000\" > /g/h/io.max");
        assert_eq!(way.undo, "echo \"0:0 wiops=40\" > /g/h/io.max");
    }

    #[test]
    fn a_limit_above_that_is_no_greater_is_raised_with_it() {
        let way = way(40);
        let both = "echo \"0:0 wiops=8000\" > /g/io.max && echo \"0:0 wiops=8000\" > /g/h/io.max";
        assert_eq!(way.command, both);
        assert!(way.text.ends_with("which have no more: /g"), "{}", way.text);
    }
}
