//! A figure over the looks of two sides, and whether it changed: ranges that part by more than a floor.
//!
//! Of each look a figure is seen, or it is absent and then at most what that look may have missed. A side's range runs from
//! its least to its greatest possible value, and a change is called only where the two ranges do not overlap and the gap
//! between them is above the floor. With one recording a side the ranges are points, and the floor alone decides, so it is higher. Must not:
//! take what is absent for zero where the look could have missed it.
//!
//! Rejected: a test of means (Student's, Welch's): runs of one program have two or three modes and long tails, and nobody
//! records ten of them. The ranges of n and m looks part by chance alone in 2 of (n + m)! / (n! m!) orders, which is said.

use super::contract::{Change, Changed, Figure};
use crate::threshold::Threshold;

/// With one recording on a side: what differs by less of the whole is called no change.
pub(super) static FLOOR_SHARE_OF_ONE: Threshold = Threshold::new(
    0.1,
    "1",
    "the ends of a run that nobody touched differ from one run to the next: those of the CPUs by whatever else runs, the rest \
     by 1 to 10 % of the wall in the median",
    "measured: six runs each of grep -r, sqlite3, tar | gzip and a Python script on a loaded machine, all pairs",
);
/// With several on both sides, whose spread is measured.
pub(super) static FLOOR_SHARE_OF_SEVERAL: Threshold = Threshold::new(
    0.01,
    "1",
    "what parts by less is of no use to anybody, however well it parts",
    "chosen",
);
/// What differs by less is called no change however short the run is.
pub(super) static FLOOR_SECONDS: Threshold = Threshold::new(
    0.01,
    "s",
    "a few ticks of the scheduler: what else the machine does moves any short run by that much",
    "chosen",
);

/// What one look knows of a figure, in the unit of the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Known {
    /// So much, of a whole of that much.
    Seen(f64, f64),
    /// At least so much: the look ended before it did.
    AtLeast(f64),
    /// Not seen: at most so much; none if nothing bounds it.
    Absent(Option<f64>),
}

impl Known {
    fn low(self) -> f64 {
        match self {
            Self::Seen(value, _) | Self::AtLeast(value) => value,
            Self::Absent(_) => 0.0,
        }
    }

    fn high(self) -> f64 {
        match self {
            Self::Seen(value, _) => value,
            Self::AtLeast(_) | Self::Absent(None) => f64::INFINITY,
            Self::Absent(Some(most)) => most,
        }
    }
}

/// What is below this is called no change, by the looks of the smaller side and the whole of the greater.
pub(super) fn floor(looks: usize, whole: f64) -> f64 {
    (floor_share(looks).value * whole).max(FLOOR_SECONDS.value)
}

/// The part of the whole that is below the floor, by the looks of the smaller side.
pub fn floor_share(looks: usize) -> &'static Threshold {
    if looks > 1 { &FLOOR_SHARE_OF_SEVERAL } else { &FLOOR_SHARE_OF_ONE }
}

/// Compares a figure of two sides, each of at least one look.
pub(super) fn changed(before: &[Known], after: &[Known], floor: f64) -> Changed {
    let (was, is) = (range(before, Known::high), range(after, Known::high));
    let parted = grew(was, is, floor);
    // What it would be if all that is absent were nothing.
    let seemingly = grew(range(before, Known::low), range(after, Known::low), floor);
    let (figure_before, figure_after) = (figure(before, floor), figure(after, floor));
    let is_seen = |side: &[Known]| side.iter().any(|it| it.low() > 0.0);
    let change = match parted {
        Some(true) if !is_seen(before) => Change::New,
        Some(true) => Change::More,
        Some(false) if !is_seen(after) => Change::Gone,
        Some(false) => Change::Less,
        None if seemingly.is_some() => Change::Unknown,
        None if figure_before.is_none() || figure_after.is_none() => Change::Unknown,
        None => Change::Same,
    };
    let known = match (&figure_before, &figure_after) {
        (Some(before), Some(after)) => Some(after.mean - before.mean),
        _ => None,
    };
    let least = match parted {
        Some(true) => Some(is.0 - was.1),
        Some(false) => Some(is.1 - was.0),
        None => None,
    };
    let difference_is_least = known.is_none() && least.is_some();
    Changed {
        change,
        before: figure_before,
        after: figure_after,
        difference: known.or(least),
        difference_is_least,
    }
}

/// How likely the ranges of so many equal looks part by chance; none if no range is one.
pub(super) fn chance(before: usize, after: usize) -> Option<f64> {
    if before + after <= 2 {
        return None;
    }
    let small = before.min(after);
    let orders: f64 =
        (1..=small).map(|at| (before + after - small + at) as f64 / at as f64).product();
    Some((2.0 / orders).min(1.0))
}

/// Least and greatest of a side.
fn range(side: &[Known], high: fn(Known) -> f64) -> (f64, f64) {
    let low = side.iter().map(|it| it.low()).fold(f64::INFINITY, f64::min);
    (low, side.iter().map(|it| high(*it)).fold(0.0, f64::max))
}

/// Whether the second range lies above the first, or below it; neither if they do not part by more than the floor.
fn grew(was: (f64, f64), is: (f64, f64), floor: f64) -> Option<bool> {
    if is.0 - was.1 > floor {
        return Some(true);
    }
    (was.0 - is.1 > floor).then_some(false)
}

/// Mean and range of what is known; what is absent and was at most as much as the floor counts as nothing.
fn figure(side: &[Known], floor: f64) -> Option<Figure> {
    let known = |it: &Known| match *it {
        Known::Seen(value, whole) => Some((value, value / whole.max(1e-9))),
        Known::AtLeast(_) => None,
        Known::Absent(Some(most)) if most <= floor => Some((0.0, 0.0)),
        Known::Absent(_) => None,
    };
    let all: Vec<(f64, f64)> = side.iter().filter_map(known).collect();
    let count = all.len() as f64;
    (!all.is_empty()).then(|| Figure {
        mean: all.iter().map(|it| it.0).sum::<f64>() / count,
        min: all.iter().map(|it| it.0).fold(f64::INFINITY, f64::min),
        max: all.iter().map(|it| it.0).fold(0.0, f64::max),
        share: all.iter().map(|it| it.1).sum::<f64>() / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[f64]) -> Vec<Known> {
        values.iter().map(|value| Known::Seen(*value, 10.0)).collect()
    }

    fn change(before: &[Known], after: &[Known]) -> Change {
        changed(before, after, 0.5).change
    }

    #[test]
    fn one_a_side_changes_by_more_than_the_floor() {
        assert_eq!(change(&seen(&[2.0]), &seen(&[2.4])), Change::Same);
        assert_eq!(change(&seen(&[2.0]), &seen(&[2.6])), Change::More);
        assert_eq!(change(&seen(&[2.6]), &seen(&[2.0])), Change::Less);
        let none = [Known::Absent(Some(0.0))];
        assert_eq!(change(&none, &seen(&[6.7])), Change::New);
        assert_eq!(change(&seen(&[6.7]), &none), Change::Gone);
        assert_eq!(change(&none, &none), Change::Same);
    }

    #[test]
    fn several_a_side_change_where_their_ranges_part() {
        assert_eq!(change(&seen(&[2.0, 4.0, 3.0]), &seen(&[3.9, 8.0, 9.0])), Change::Same);
        assert_eq!(change(&seen(&[2.0, 4.0, 3.0]), &seen(&[4.4, 8.0, 9.0])), Change::Same);
        assert_eq!(change(&seen(&[2.0, 4.0, 3.0]), &seen(&[4.6, 8.0, 9.0])), Change::More);
        let all = changed(&seen(&[2.0, 4.0, 3.0]), &seen(&[4.6, 8.0, 9.0]), 0.5);
        let before = all.before.expect("seen");
        assert_eq!((before.mean, before.min, before.max), (3.0, 2.0, 4.0));
        assert!((before.share - 0.3).abs() < 1e-9);
        assert!((all.difference.expect("both") - 4.2).abs() < 1e-9);
    }

    #[test]
    fn what_is_absent_is_zero_only_where_nothing_is_hidden() {
        let hidden = [Known::Absent(Some(3.0))];
        // It may have been there all the same.
        let unknown = changed(&hidden, &seen(&[3.2]), 0.5);
        assert_eq!(
            (unknown.change, unknown.before, unknown.difference),
            (Change::Unknown, None, None)
        );
        // More than was hidden: new, and by at least the rest.
        let new = changed(&hidden, &seen(&[6.7]), 0.5);
        assert_eq!(new.change, Change::New);
        assert!(new.difference_is_least && (new.difference.expect("least") - 3.7).abs() < 1e-9);
        assert_eq!(change(&[Known::Absent(None)], &seen(&[1e9])), Change::Unknown);
        assert_eq!(change(&seen(&[0.1]), &[Known::Absent(None)]), Change::Unknown);
    }

    #[test]
    fn a_command_that_was_cut_took_at_least_so_long() {
        assert_eq!(change(&seen(&[2.0]), &[Known::AtLeast(9.0)]), Change::More);
        assert_eq!(change(&seen(&[9.0]), &[Known::AtLeast(2.0)]), Change::Unknown);
    }

    #[test]
    fn chance_falls_with_the_number_of_looks() {
        assert_eq!((chance(1, 1), chance(1, 2)), (None, Some(2.0 / 3.0)));
        let three = chance(3, 3).expect("several");
        assert!((three - 0.1).abs() < 1e-9);
        assert!((chance(5, 5).expect("several") - 2.0 / 252.0).abs() < 1e-12);
    }
}
