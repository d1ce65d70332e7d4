//! When something is used up, if it goes on as it did: an interval, or nothing where there is no trend.
//!
//! Theory: what will end has been used more and more, steadily, for a time that is worth something beside the time that is left, and has
//! not come down by itself from such a height before, nor fallen lately. So the latest stretch of the readings is sought in which all three thirds grow at
//! rates not far apart, and which is a quarter as long as what is left at its rate: what fills in three minutes is known within one, and what
//! fills in a day after some hours. The slowest and the quickest third give the interval.
//!
//! What is silent by this: a sawtooth (it was as high before and came down without having been full; its teeth are small beside the room
//! above them), a cache that fills and stays (its thirds grow less and less: what is still to come of that row is less than the room), a
//! step (two thirds stand still), a reading that was missed (a gap is no growth). What has become full stays found, with no time left, by how it became
//! so: whoever holds the readings holds those up to then.
//!
//! Pure. Must not: know where a reading is from, or who uses it. Rejected: a line of least squares through all readings (one step makes
//! a slope); a fixed length of the stretch (too long for what fills quickly, too short for what does not).
//!
//! Edit together: engine/src/foresight.rs (which readings are held), rules/trend.rs (its words).

use crate::facts::{Ns, Reading, Resource};
use crate::threshold::Threshold;

/// The shortest stretch, of what is used by nobody but for good.
pub(crate) static SEEN_MIN: Threshold = Threshold::new(
    10.0,
    "s",
    "the stretch in which it grew: what is written within a moment need not go on",
    "chosen: a few seconds of three spans each",
);
/// The shortest stretch, of what frees itself after a while.
pub(crate) static SEEN_LONG_MIN: Threshold = Threshold::new(
    180.0,
    "s",
    "the stretch in which it grew, of memory, entries of tables and ports: entries and connections that have ended stay for one \
     or two minutes, and a program that has begun fills its memory",
    "nf_conntrack_udp_timeout_stream, nf_conntrack_tcp_timeout_time_wait: 120 s; TCP_TIMEWAIT_LEN: 60 s",
);
/// How much was seen.
pub(crate) static SEEN_SHARE: Threshold = Threshold::new(
    0.25,
    "1",
    "the stretch in which it grew, to the time that is left at its rate",
    "chosen: a fifth of the whole time, and of the room, has gone by then",
);
/// A day.
pub(crate) static LEFT_MAX: Threshold = Threshold::new(
    86_400.0,
    "s",
    "the time that is left, at the latest: what is further away can be seen tomorrow",
    "chosen",
);
/// The slowest third to the quickest.
pub(crate) static STEADY_MIN: Threshold = Threshold::new(
    0.4,
    "1",
    "growth a second of the slowest third of the stretch to that of the quickest: else there is no one rate",
    "chosen",
);
/// Part of the stretch between two readings.
static GAP_MAX: Threshold = Threshold::new(
    0.4,
    "1",
    "time between two readings to the stretch: of a third without a reading nothing is known",
    "chosen: a third, and what readings may be late",
);
/// Units of growth.
static GROWTH_MIN: Threshold = Threshold::new(
    12.0,
    "1",
    "growth over the stretch, in what is counted: four in each third are more than one file opened by chance",
    "chosen",
);
/// Part of the limit that is no room.
pub(crate) static FULL_ROOM: Threshold = Threshold::new(
    0.005,
    "1",
    "room to the limit below which it counts as full, and growth is not asked for any more",
    "chosen",
);
/// How far the interval goes beyond what was seen, to either side.
static MARGIN: Threshold = Threshold::new(
    0.1,
    "1",
    "widening of the interval: readings have a time of their own, and three thirds are few",
    "chosen",
);

/// Part of the growth that it may fall by.
static FALL_MAX: Threshold = Threshold::new(
    0.25,
    "1",
    "the greatest fall from a height, in the stretch and in a time as long before it, to the growth of the stretch: what falls comes \
     and goes",
    "chosen: noise of a quarter of it does not hide a trend",
);

/// The spans in which it must grow.
const SPANS: usize = 3;
/// Readings of a stretch: of four that are drawn one in 24 rows rises.
const READINGS: usize = 5;

/// How something comes to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exhaustion {
    /// Used now.
    pub used: u64,
    /// As many as there may be.
    pub limit: u64,
    /// Growth a second over the stretch.
    pub per_second: f64,
    /// The stretch, seconds.
    pub seen_seconds: f64,
    /// Until it is used up, from the last reading on, at the earliest; 0: it is.
    pub earliest_seconds: f64,
    /// The same at the latest.
    pub latest_seconds: f64,
}

/// When it is used up; none if there is no trend.
pub fn exhaustion(of: Resource, readings: &[Reading], limit: u64) -> Option<Exhaustion> {
    let used = readings.last()?.used;
    // What is full cannot grow: it is what it was when it became so.
    let full = readings.iter().rev().take_while(|it| is_full(it.used, limit)).count();
    let until = readings.len() - full.saturating_sub(1);
    let readings = &readings[..until];
    let seen_min = match of {
        Resource::Space | Resource::Inodes | Resource::Tasks | Resource::Descriptors => &SEEN_MIN,
        Resource::Memory
        | Resource::Connections
        | Resource::NeighboursV4
        | Resource::NeighboursV6
        | Resource::Ports => &SEEN_LONG_MIN,
    };
    let begins = (0..readings.len().saturating_sub(READINGS - 1)).rev();
    let found = begins
        .map(|at| Stretch { before: &readings[..=at], readings: &readings[at..] })
        .filter(|it| it.seconds() >= seen_min.value)
        .find_map(|it| it.ends(limit, full > 0))?;
    Some(Exhaustion { used, limit, ..found })
}

/// Whether so much of a limit counts as all of it.
pub fn is_full(used: u64, limit: u64) -> bool {
    room(used, limit) <= FULL_ROOM.value * limit as f64
}

fn room(used: u64, limit: u64) -> f64 {
    limit.saturating_sub(used) as f64
}

fn seconds(from: Ns, to: Ns) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

/// A stretch of the readings, up to the last one.
struct Stretch<'a> {
    /// Up to its first.
    before: &'a [Reading],
    readings: &'a [Reading],
}

impl Stretch<'_> {
    fn seconds(&self) -> f64 {
        seconds(self.readings[0].at_ns, self.readings[self.readings.len() - 1].at_ns)
    }

    /// When it ends at the rate of this stretch, if there is a trend in it.
    fn ends(&self, limit: u64, is_full: bool) -> Option<Exhaustion> {
        let (first, last) = (self.readings[0], self.readings[self.readings.len() - 1]);
        let seen = self.seconds();
        let is_gap =
            |pair: &[Reading]| seconds(pair[0].at_ns, pair[1].at_ns) > GAP_MAX.value * seen;
        if self.readings.windows(2).any(is_gap) {
            return None;
        }
        let at =
            |span: usize| self.at(first.at_ns as f64 + seen * 1e9 * span as f64 / SPANS as f64);
        let heights = [first.used as f64, at(1), at(2), last.used as f64];
        let grown: Vec<f64> = heights.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (least, most) = grown
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(*it), most.max(*it)));
        let whole: f64 = grown.iter().sum();
        if whole < GROWTH_MIN.value || least < STEADY_MIN.value * most {
            return None;
        }
        let room = room(last.used, limit);
        let new_ground = (heights[2] + heights[3]) / 2.0;
        if self.was_there(new_ground, limit) || self.fall(seen) > FALL_MAX.value * whole {
            return None;
        }
        if !is_full && still_to_come(&grown) < room {
            return None;
        }
        let rate = |grown: f64| grown * SPANS as f64 / seen;
        let earliest_seconds = room / rate(most) * (1.0 - MARGIN.value);
        let latest_seconds = room / rate(least) * (1.0 + MARGIN.value);
        let per_second = whole / seen;
        let is_seen = seen >= SEEN_SHARE.value * room / per_second;
        (is_seen && latest_seconds <= LEFT_MAX.value).then_some(Exhaustion {
            used: last.used,
            limit,
            per_second,
            seen_seconds: seen,
            earliest_seconds,
            latest_seconds,
        })
    }

    /// How much was used at a moment within it, between two readings on the line between them.
    fn at(&self, at_ns: f64) -> f64 {
        let after = self.readings.iter().position(|it| it.at_ns as f64 >= at_ns);
        let after = after.unwrap_or(self.readings.len() - 1).max(1);
        let (one, other) = (self.readings[after - 1], self.readings[after]);
        let part = (at_ns - one.at_ns as f64) / (other.at_ns as f64 - one.at_ns as f64).max(1.0);
        one.used as f64 + part * (other.used as f64 - one.used as f64)
    }

    /// Whether it was as high before the stretch, and came down by itself: who came down from the limit had met it, and may meet it again.
    fn was_there(&self, height: f64, limit: u64) -> bool {
        let peaks = self.before.iter().map(|it| it.peak.max(it.used));
        let peak = peaks.max().unwrap_or(0);
        peak as f64 >= height && !is_full(peak, limit)
    }

    /// The greatest fall from a height, in the stretch and as long before it.
    fn fall(&self, seen: f64) -> f64 {
        let first_ns = self.readings[0].at_ns;
        let is_near = |it: &&Reading| seconds(it.at_ns, first_ns) <= seen;
        let near = self.before.iter().filter(is_near).chain(&self.readings[1..]);
        let (mut height, mut most) = (0, 0);
        for it in near {
            height = height.max(it.peak);
            most = most.max(height.saturating_sub(it.used));
        }
        most as f64
    }
}

/// Growth that is still to come if each third grows by the same part less than the one before it; without end if it does not grow
/// less.
fn still_to_come(grown: &[f64]) -> f64 {
    let (first, last) = (grown[0], grown[SPANS - 1]);
    let ratio = (last / first).sqrt();
    if ratio >= 1.0 { f64::INFINITY } else { last * ratio / (1.0 - ratio) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ns = 1_000_000_000;

    fn readings(every_s: u64, used: impl IntoIterator<Item = u64>) -> Vec<Reading> {
        let at = |(at, used)| Reading { at_ns: at * every_s * SECOND, used, peak: used };
        (5..).zip(used).map(at).collect()
    }

    fn ends(readings: &[Reading], limit: u64) -> Option<Exhaustion> {
        exhaustion(Resource::Space, readings, limit)
    }

    /// At how many readings of a series something is found.
    fn found(readings: &[Reading], limit: u64) -> Vec<usize> {
        (1..=readings.len()).filter(|many| ends(&readings[..*many], limit).is_some()).collect()
    }

    #[test]
    fn what_grows_steadily_ends_within_the_interval_that_is_said() {
        // 1,000 a second, to the end after 180 s, in windows of 10 s.
        let all = readings(10, (0..=18).map(|at| at * 10_000));
        let first = *found(&all, 180_000).first().expect("found");
        assert_eq!(first, 5, "40 s were seen, 140 s are left");
        for many in first..all.len() {
            let end = ends(&all[..many], 180_000).expect("it goes on");
            let left = 180.0 - 10.0 * (many - 1) as f64;
            assert!(end.earliest_seconds <= left && left <= end.latest_seconds, "{end:?} {left}");
            assert_eq!(end.per_second, 1_000.0);
        }
    }

    #[test]
    fn what_ends_in_days_is_not_said() {
        // A hundredth of it a minute is left after 100 min; a millionth is not within a day.
        assert!(!found(&readings(60, (0..60).map(|at| at * 10_000)), 1_000_000).is_empty());
        assert!(found(&readings(60, (0..600).map(|at| at * 10)), 1_000_000).is_empty());
    }

    #[test]
    fn a_sawtooth_is_silent_also_while_it_rises() {
        let all = readings(10, (0..200).map(|at| 100_000 + at % 12 * 10_000));
        assert!(found(&all, 1_000_000).is_empty());
        // Teeth that are great beside the room: the first may be a trend, and those that come after it are none.
        let all = readings(10, (0..200).map(|at| 100_000 + at % 12 * 30_000));
        assert!(found(&all, 600_000).iter().all(|many| *many <= 12));
    }

    #[test]
    fn a_cache_that_fills_and_stays_is_silent() {
        let filled = |at: u64| (600_000.0 * (1.0 - (-(at as f64) / 20.0).exp())) as u64;
        let all = readings(10, (0..200).map(filled));
        assert!(found(&all, 1_000_000).is_empty());
    }

    #[test]
    fn what_fills_less_and_less_and_still_comes_to_its_end_is_found() {
        let filled = |at: u64| (4_000_000.0 * (1.0 - (-(at as f64) / 100.0).exp())) as u64;
        let all = readings(10, (0..28).map(filled));
        assert!(!found(&all, 1_000_000).is_empty());
    }

    #[test]
    fn a_step_and_a_build_that_stops_are_silent() {
        let step = readings(10, (0..60).map(|at| if at < 30 { 100 } else { 500_000 }));
        assert!(found(&step, 1_000_000).is_empty());
        // 2 GB within a minute, of 20 that are free.
        let build = readings(10, (0..60).map(|at: u64| at.min(6) * 333_000_000));
        assert!(found(&build, 20_000_000_000).is_empty());
    }

    #[test]
    fn a_time_without_readings_is_no_growth() {
        let mut all = readings(10, (0..4).map(|at| at * 10_000));
        all.push(Reading { at_ns: all[3].at_ns + 600 * SECOND, used: 640_000, peak: 640_000 });
        assert_eq!(ends(&all, 1_000_000), None);
    }

    #[test]
    fn a_limit_that_was_raised_counts_as_it_is_now() {
        let all = readings(10, (0..=8).map(|at| at * 10_000));
        assert!(ends(&all, 180_000).is_some());
        assert_eq!(ends(&all, 1_800_000), None);
    }

    #[test]
    fn what_began_anew_is_no_trend_until_it_is_higher_than_it_was_unless_it_had_met_its_limit() {
        let twice = |height: u64| {
            let up = (0..=height).map(|at| at * 10_000);
            readings(10, up.clone().chain(up))
        };
        let many = |height| {
            found(&twice(height), 180_000).into_iter().filter(move |it| *it > height as usize + 2)
        };
        assert_eq!(many(12).count(), 0, "from two thirds");
        assert_eq!(many(17).count(), 0, "from nine tenths and more");
        assert!(many(18).count() > 0, "from its limit");
    }

    #[test]
    fn a_sawtooth_just_below_its_limit_is_silent_after_its_first_tooth() {
        // From 90 to 95 % within half an hour: a log that is rotated, a heap that is collected.
        let all = readings(60, (0..300).map(|at| 900_000 + at % 30 * 1_700));
        let found = found(&all, 1_000_000);
        assert!(!found.is_empty() && found.iter().all(|many| *many <= 30), "{found:?}");
    }

    #[test]
    fn what_is_full_stays_found_and_has_no_time_left() {
        let all = readings(10, (0..40).map(|at: u64| at.min(18) * 10_000));
        let end = ends(&all, 180_000).expect("it is full");
        assert_eq!((end.earliest_seconds, end.latest_seconds, end.used), (0.0, 0.0, 180_000));
        let step = readings(10, (0..40).map(|at| if at < 30 { 100 } else { 180_000 }));
        assert_eq!(ends(&step, 180_000), None, "it did not fill: it was filled at once");
    }

    #[test]
    fn what_frees_itself_is_watched_for_longer() {
        let all = readings(10, (0..=17).map(|at| at * 10_000));
        assert!(exhaustion(Resource::Ports, &all, 180_000).is_none());
        let all = readings(10, (0..=18).map(|at| at * 10_000));
        assert!(exhaustion(Resource::Ports, &all, 190_000).is_some());
    }

    /// Numbers that look drawn, always the same.
    fn noise(at: u64) -> u64 {
        at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 33
    }

    #[test]
    fn noise_is_no_trend_and_does_not_hide_one() {
        let flat = readings(10, (0..500).map(|at| 500_000 + noise(at) % 200_000));
        assert!(found(&flat, 1_000_000).is_empty());
        let grows = readings(10, (0..50).map(|at| at * 20_000 + noise(at) % 4_000));
        let first = *found(&grows, 1_000_000).first().expect("found");
        assert!(first <= 25, "{first}");
    }

    #[test]
    fn any_series_is_taken() {
        for seed in 0..2_000_u64 {
            let many = noise(seed) % 40;
            let of = |at: u64| noise(seed * 1_000 + at);
            let mut all: Vec<Reading> = (0..many)
                .map(|at| Reading {
                    at_ns: of(at) % 100 * SECOND,
                    used: of(at + 50),
                    peak: of(at + 90),
                })
                .collect();
            all.sort_by_key(|it| it.at_ns);
            if let Some(end) = ends(&all, of(99)) {
                assert!(end.earliest_seconds <= end.latest_seconds, "{end:?}");
                assert!(end.latest_seconds <= LEFT_MAX.value && end.per_second > 0.0, "{end:?}");
            }
        }
    }
}
