//! The goals, and whether a run met them. A goal that the run could not see is not met, it is unseen.
//!
//! A ratio is judged by the 95 % interval of its median (stats.rs): met if all of it keeps the goal, missed if none
//! of it does, else the ratio cannot tell, however good the median looks. The control, nobody again, has to hold 1;
//! by as much as its own interval misses that, every interval of the load is widened, because the method then errs by
//! as much. Where the ratio cannot tell, what was counted (counted.rs) decides, and the verdict says so; where it can,
//! the count is only shown beside it. The limits stand here and nowhere else. Edit together: docs.rs.

use crate::growth::exponent;
use crate::results::{Counted, Pair, Results};
use crate::stats::{Interval, median, of_both, of_median};

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At or below the limit.
    Met,
    /// The ratio cannot tell, and what was counted is at or below the limit.
    MetByCount,
    /// On both sides of it: the run is too small or too noisy.
    Undecided,
    /// The ratio cannot tell, and what was counted is above the limit.
    MissedByCount,
    /// Above it.
    Missed,
    /// Not measured in this run.
    Unseen,
}

impl Verdict {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::MetByCount => "met, by count",
            Self::Undecided => "cannot be decided",
            Self::MissedByCount => "MISSED, by count",
            Self::Missed => "MISSED",
            Self::Unseen => "not measured",
        }
    }
}

/// One goal and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Of what.
    pub what: String,
    /// The limit, in words.
    pub wanted: String,
    /// What was measured, in words.
    pub measured: String,
    /// The outcome.
    pub verdict: Verdict,
}

/// Largest ratio of each load, of the host look.
const RATIOS: &[(&str, f64)] =
    &[("messaging", 1.02), ("fio", 1.01), ("redis", 1.01), ("nginx", 1.01), ("compile", 1.01)];
/// How much of the floor's overhead the ping-pong may lose.
const FLOORS_MAX: f64 = 1.5;
/// Share of a core on an idle host.
const IDLE_SHARE_MAX: f64 = 0.002;
/// Resident on it.
const IDLE_BYTES_MAX: u64 = 30_000_000;
/// The same of a look that goes on, with its answers.
const WATCH_SHARE_MAX: f64 = 0.003;
const WATCH_BYTES_MAX: f64 = 40e6;
/// What it writes on a healthy host.
const WATCH_HOURLY_BYTES_MAX: f64 = 1e6;
/// Share of a CPU of reading user stacks, in the shortest looks that people take.
const STACKS_SHARE_MAX: f64 = 0.005;
/// From the end of the window to the first finding.
const ANSWER_SECONDS_MAX: f64 = 1.0;
/// Events a second that one core decodes.
const DECODE_MIN: f64 = 2e6;
/// Of a recording.
const BYTES_PER_EVENT_MAX: f64 = 16.0;
/// Of the shipped binary. 12 MB before it had exports, flame graphs, an agent's questions and the stacks of four runtimes.
const BINARY_BYTES_MAX: u64 = 13_000_000;
/// Linear, with room for noise.
const EXPONENT_MAX: f64 = 1.15;

/// All goals.
pub fn of(results: &Results) -> Vec<Goal> {
    let mut goals = vec![pingpong(results)];
    goals.extend(RATIOS.iter().map(|(load, limit)| ratio(results, load, *limit)));
    goals.extend(idle(results));
    goals.extend(watch(results));
    goals.extend(stacks(results));
    goals.extend([answer(results), decode(results), recording(results), binary(results)]);
    goals.extend(growth(results));
    goals.extend(floods(results));
    goals
}

fn find<'a>(results: &'a Results, load: &str, looker: &str) -> Option<&'a Pair> {
    results.pairs.iter().find(|pair| pair.load == load && pair.looker == looker)
}

/// By how much the control of a load misses 1.
fn bias(results: &Results, load: &str) -> f64 {
    let again = find(results, load, "nothing again").and_then(|pair| of_median(&pair.ratios));
    again.map_or(0.0, |interval| interval.misses(1.0))
}

fn goal(what: &str, wanted: String, measured: Option<(String, Verdict)>) -> Goal {
    let (measured, verdict) = measured.unwrap_or(("-".into(), Verdict::Unseen));
    Goal { what: what.into(), wanted, measured, verdict }
}

/// Of a figure that is as sure as it is shown.
fn judged(value: f64, limit: f64) -> Verdict {
    if value <= limit { Verdict::Met } else { Verdict::Missed }
}

/// Of a figure whose truth lies in an interval; without one there were too few rounds.
fn decided(interval: Option<Interval>, limit: f64) -> Verdict {
    match interval {
        Some(interval) if interval.high <= limit => Verdict::Met,
        Some(interval) if interval.low > limit => Verdict::Missed,
        _ => Verdict::Undecided,
    }
}

/// The ratio's own verdict, or that of a count where it has none.
fn or_counted(verdict: Verdict, counted: Option<f64>, limit: f64) -> Verdict {
    match (verdict, counted) {
        (Verdict::Undecided, Some(counted)) if counted <= limit => Verdict::MetByCount,
        (Verdict::Undecided, Some(_)) => Verdict::MissedByCount,
        _ => verdict,
    }
}

fn counted<'a>(results: &'a Results, load: &str) -> Option<&'a Counted> {
    results.counted.iter().find(|counted| counted.load == load && counted.busy_seconds > 0.0)
}

/// An interval in words.
fn ends(interval: Option<Interval>, show: fn(f64) -> String) -> String {
    match interval {
        Some(interval) => format!("95 %: {} to {}", show(interval.low), show(interval.high)),
        None => "too few rounds for an interval".into(),
    }
}

/// What the control's error has made of an interval, in words.
fn widened(bias: f64) -> String {
    if bias > 0.0 { format!("; widened by the control's {bias:.3}") } else { String::new() }
}

fn pingpong(results: &Results) -> Goal {
    let measured = (|| {
        let floor = &find(results, "pingpong", "empty programs")?.ratios;
        let look = &find(results, "pingpong", "holdup")?.ratios;
        let (of_floor, of_look) = (median(floor)? - 1.0, median(look)? - 1.0);
        let bias = bias(results, "pingpong");
        // What the look loses beyond its goal: a quotient jumps where the floor's loss is near 0.
        let excess = of_both(look, floor, |look, floor| (look - 1.0) - FLOORS_MAX * (floor - 1.0));
        let excess = excess.map(|it| it.widened(bias * (1.0 + FLOORS_MAX)));
        let times = of_both(look, floor, |look, floor| match floor > 1.0 {
            true => (look - 1.0) / (floor - 1.0),
            false => f64::INFINITY,
        });
        let show = |value: f64| match value.is_finite() {
            true => format!("{value:.2}"),
            false => "any".into(),
        };
        let beyond = counted(results, "pingpong").map(Counted::beyond_empty);
        let by_count = beyond.zip(of_median(floor)).map(|(beyond, floor)| {
            let (floor, part) = (floor.widened(bias), FLOORS_MAX - 1.0);
            Interval {
                low: beyond - part * (floor.high - 1.0),
                high: beyond - part * (floor.low - 1.0),
            }
        });
        let words = format!(
            "{:.1} % against the floor's {:.1} %; of their quotient {}{}{}",
            of_look * 100.0,
            of_floor * 100.0,
            ends(times, show),
            widened(bias),
            beyond.map_or(String::new(), |it| format!(
                "; counted {:.1} % beyond empty programs, which with the floor's ratio is {}",
                it * 100.0,
                show(if of_floor > 0.0 { 1.0 + it / of_floor } else { f64::INFINITY })
            )),
        );
        let verdict = match (decided(excess, 0.0), decided(by_count, 0.0)) {
            (Verdict::Undecided, Verdict::Met) => Verdict::MetByCount,
            (Verdict::Undecided, Verdict::Missed) => Verdict::MissedByCount,
            (verdict, _) => verdict,
        };
        Some((words, verdict))
    })();
    goal("ping-pong, overhead", format!("at most {FLOORS_MAX} times the floor's"), measured)
}

fn ratio(results: &Results, load: &str, limit: f64) -> Goal {
    let measured = find(results, load, "holdup").and_then(|pair| {
        let bias = bias(results, load);
        let interval = of_median(&pair.ratios).map(|it| it.widened(bias));
        let ends = ends(interval, |value| format!("{value:.3}"));
        let counted = counted(results, load);
        let words = format!(
            "{:.3}; {ends}{}{}",
            median(&pair.ratios)?,
            widened(bias),
            counted.map_or(String::new(), |it| format!(
                "; counted {:.4}, with every program empty {:.4}",
                it.ratio(),
                it.ratio_empty()
            ))
        );
        Some((words, or_counted(decided(interval, limit), counted.map(Counted::ratio), limit)))
    });
    goal(load, format!("ratio at most {limit}"), measured)
}

fn idle(results: &Results) -> [Goal; 2] {
    let idle = results.idle.as_ref();
    let share = idle.map(|idle| {
        let mut words = format!(
            "{:.3} % of a core while it lasts, and {:.2} s for begin and end",
            idle.steady_share() * 100.0,
            idle.rest_seconds
        );
        let mut verdict = judged(idle.steady_share(), IDLE_SHARE_MAX);
        if let Some(share) = idle.disturbed() {
            words.push_str(&format!(
                "; not an idle host, others took {:.0} % of a core",
                share * 100.0
            ));
            verdict = Verdict::Undecided;
        }
        (words, verdict)
    });
    let resident = idle.map(|idle| {
        let words = format!("{:.1} MB", idle.rss_bytes as f64 / 1e6);
        (words, judged(idle.rss_bytes as f64, IDLE_BYTES_MAX as f64))
    });
    [
        goal("idle host, 2,000 threads, 100 cgroups", "at most 0.2 % of a core".into(), share),
        goal("the same, resident peak", "at most 30 MB".into(), resident),
    ]
}

fn watch(results: &Results) -> [Goal; 3] {
    let watch = results.daemons.iter().find(|it| it.name == "holdup watch");
    let share = watch.map(|it| {
        let words = format!(
            "{:.3} % of a core, over {:.0} s, {} said meanwhile",
            it.share() * 100.0,
            it.seconds,
            it.alarms
        );
        (words, judged(it.share(), WATCH_SHARE_MAX))
    });
    let resident = watch.map(|it| {
        let words = format!("{:.1} MB", it.rss_bytes as f64 / 1e6);
        (words, judged(it.rss_bytes as f64, WATCH_BYTES_MAX))
    });
    let written = watch.map(|it| {
        let words = format!("{:.2} MB an hour", it.hourly_bytes() / 1e6);
        (words, judged(it.hourly_bytes(), WATCH_HOURLY_BYTES_MAX))
    });
    [
        goal("watching the same all the time", "at most 0.3 % of a core".into(), share),
        goal("the same, resident peak", "at most 40 MB".into(), resident),
        goal("the same, written", "at most 1 MB an hour".into(), written),
    ]
}

fn stacks(results: &Results) -> Option<Goal> {
    let worst = results.stacks.iter().max_by(|a, b| a.share().total_cmp(&b.share()))?;
    let words = format!(
        "{:.2} % of a CPU (look at the {} of {:.0} s, {} threads wait: {} stacks read)",
        worst.share() * 100.0,
        worst.of,
        worst.seconds,
        worst.threads,
        worst.read
    );
    let measured = Some((words, judged(worst.share(), STACKS_SHARE_MAX)));
    Some(goal("reading user stacks", "at most 0.5 % of a CPU".into(), measured))
}

fn answer(results: &Results) -> Goal {
    let own = |pair: &&Pair| pair.looker.starts_with("holdup");
    let worst = results
        .pairs
        .iter()
        .filter(own)
        .filter_map(|pair| {
            Some((pair.answer_seconds?, format!("{} on {}", pair.looker, pair.load)))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let measured = worst.map(|(seconds, whose)| {
        (format!("worst {seconds:.2} s ({whose})"), judged(seconds, ANSWER_SECONDS_MAX))
    });
    goal("window's end to the answer", "at most 1 s".into(), measured)
}

fn decode(results: &Results) -> Goal {
    let rate = results.micro.iter().find(|row| row.name == "decode").map(|row| row.per_second);
    let measured = rate.map(|rate| {
        let verdict = if rate >= DECODE_MIN { Verdict::Met } else { Verdict::Missed };
        (format!("{:.2} million events/s", rate / 1e6), verdict)
    });
    goal("decode, one core", "at least 2 million events/s".into(), measured)
}

fn recording(results: &Results) -> Goal {
    let each = |it: &crate::results::Recording| it.bytes as f64 / it.events as f64;
    let reported = results.recordings.iter().filter(|it| it.events > 0);
    let worst = reported.max_by(|a, b| each(a).total_cmp(&each(b)));
    let measured = worst.map(|it| {
        let words = format!("{:.1} bytes ({})", each(it), it.load);
        (words, judged(each(it), BYTES_PER_EVENT_MAX))
    });
    goal("recording of a command, per event", "at most 16 bytes".into(), measured)
}

fn binary(results: &Results) -> Goal {
    let bytes = results.binary_bytes;
    let measured = (bytes > 0).then(|| {
        (format!("{:.2} MB", bytes as f64 / 1e6), judged(bytes as f64, BINARY_BYTES_MAX as f64))
    });
    goal("static binary, stripped", "at most 13 MB".into(), measured)
}

fn growth(results: &Results) -> Vec<Goal> {
    let of = |series: &crate::results::Series| {
        let cpu = exponent(&series.points, |p| p.cpu_seconds + p.bpf_seconds, 0.02);
        let memory = exponent(&series.points, |p| p.rss_bytes as f64, 1e6);
        let worst = [cpu, memory].into_iter().flatten().reduce(f64::max);
        let word = |value: Option<f64>| value.map_or("flat".into(), |it| format!("{it:.2}"));
        let words = format!("exponent: CPU {}, memory {}", word(cpu), word(memory));
        let verdict = match series.points.len() {
            0..=2 => Verdict::Unseen,
            _ => judged(worst.unwrap_or(0.0), EXPONENT_MAX),
        };
        goal(&format!("growth with {}", series.of), "linear at most".into(), Some((words, verdict)))
    };
    results.growth.iter().map(of).collect()
}

fn floods(results: &Results) -> Vec<Goal> {
    let of = |flood: &crate::results::Flood| {
        let words = format!(
            "{:.0} k/s, {} lost and reported, author {}",
            flood.per_second / 1e3,
            flood.lost,
            if flood.author_named { "named" } else { "not named" }
        );
        let verdict = if flood.author_named { Verdict::Met } else { Verdict::Missed };
        goal(
            &format!("flood of {}", flood.of),
            "its author is named".into(),
            Some((words, verdict)),
        )
    };
    results.floods.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Idle, Program};

    fn pair(load: &str, looker: &str, ratios: &[f64]) -> Pair {
        let (load, looker) = (load.into(), looker.into());
        Pair { load, looker, ratios: ratios.into(), ..Pair::default() }
    }

    /// Ratios around a middle, by turns a little above and below it.
    fn around(middle: f64, spread: f64) -> Vec<f64> {
        (0..20).map(|at| middle + spread * (f64::from(at % 5) - 2.0) / 2.0).collect()
    }

    fn of_ratio(ratios: &[f64], again: &[f64]) -> Verdict {
        let pairs = vec![pair("fio", "nothing again", again), pair("fio", "holdup", ratios)];
        ratio(&Results { pairs, ..Results::default() }, "fio", 1.01).verdict
    }

    #[test]
    fn an_interval_says_met_missed_and_neither() {
        let equal = around(1.0, 0.002);
        assert_eq!(of_ratio(&around(1.003, 0.004), &equal), Verdict::Met);
        assert_eq!(of_ratio(&around(1.03, 0.004), &equal), Verdict::Missed);
        // Medians on either side of the goal, and neither is decided.
        assert_eq!(of_ratio(&around(1.005, 0.05), &equal), Verdict::Undecided);
        assert_eq!(of_ratio(&around(1.03, 0.09), &equal), Verdict::Undecided);
        // However good: five values are no interval.
        assert_eq!(of_ratio(&[0.9; 5], &equal), Verdict::Undecided);
    }

    #[test]
    fn a_control_that_errs_takes_the_verdict_back() {
        let (good, bad) = (around(1.003, 0.004), around(1.02, 0.004));
        assert_eq!(of_ratio(&good, &around(1.02, 0.002)), Verdict::Undecided);
        assert_eq!(of_ratio(&bad, &around(0.98, 0.002)), Verdict::Undecided);
        assert_eq!(of_ratio(&good, &around(1.0, 0.01)), Verdict::Met);
    }

    #[test]
    fn a_host_at_work_says_nothing_of_an_idle_one() {
        let verdict = |own_seconds, others_seconds| {
            let idle = Idle { seconds: 20.0, own_seconds, others_seconds, ..Idle::default() };
            super::idle(&Results { idle: Some(idle), ..Results::default() })[0].verdict
        };
        assert_eq!(verdict(0.02, Some(0.8)), Verdict::Met);
        assert_eq!(verdict(0.1, Some(0.8)), Verdict::Missed);
        assert_eq!(verdict(0.1, Some(18.0)), Verdict::Undecided);
        assert_eq!(verdict(0.02, Some(18.0)), Verdict::Undecided);
        assert_eq!(verdict(0.1, None), Verdict::Missed, "results of before");
    }

    #[test]
    fn a_count_decides_where_the_ratio_cannot() {
        let equal = around(1.0, 0.001);
        let with = |values: &[f64], own_seconds: f64| {
            let pairs =
                vec![pair("redis", "holdup", values), pair("redis", "nothing again", &equal)];
            let counted = Counted {
                load: "redis".into(),
                busy_seconds: 1.0 + own_seconds,
                own_seconds,
                ..Counted::default()
            };
            let results = Results { pairs, counted: vec![counted], ..Results::default() };
            ratio(&results, "redis", 1.01).verdict
        };
        let noisy = around(1.01, 0.05);
        assert_eq!(with(&noisy, 0.008), Verdict::MetByCount);
        assert_eq!(with(&noisy, 0.012), Verdict::MissedByCount);
        assert_eq!(with(&around(1.05, 0.004), 0.001), Verdict::Missed);
        assert_eq!(with(&around(1.003, 0.004), 0.1), Verdict::Met);
        // Nothing was measured that a count could stand beside.
        assert_eq!(with(&[], 0.001), Verdict::Unseen);
    }

    #[test]
    fn empty_programs_still_cost_the_way_to_them() {
        let program = Program { runs: 10_000_000, ns: 150.0, ..Program::default() };
        let (busy_seconds, way_ns, empty_ns) = (10.0, 20.0, 50.0);
        let programs = vec![program];
        let counted = Counted { busy_seconds, way_ns, empty_ns, programs, ..Counted::default() };
        // Ten million runs of 120 ns, of which 20 are the way.
        assert!((counted.ratio() - 10.0 / 8.8).abs() < 1e-9);
        assert!((counted.ratio_empty() - 9.0 / 8.8).abs() < 1e-9);
    }

    #[test]
    fn the_floor_measures_the_ping_pong() {
        let with = |floor: f64, look: f64, spread: f64| {
            let pairs = vec![
                pair("pingpong", "nothing again", &around(1.0, 0.001)),
                pair("pingpong", "empty programs", &around(floor, spread)),
                pair("pingpong", "holdup", &around(look, spread)),
            ];
            pingpong(&Results { pairs, ..Results::default() }).verdict
        };
        assert_eq!(with(1.08, 1.11, 0.004), Verdict::Met);
        assert_eq!(with(1.08, 1.122, 0.02), Verdict::Undecided);
        assert_eq!(with(1.08, 1.30, 0.02), Verdict::Missed);
        // A floor that costs nothing leaves nothing to lose.
        assert_eq!(with(1.0, 1.05, 0.002), Verdict::Missed);
    }

    #[test]
    fn where_the_ping_pong_s_ratio_cannot_tell_a_count_may() {
        let with = |beyond_ns: f64, spread: f64| {
            let pairs = vec![
                pair("pingpong", "nothing again", &around(1.0, 0.001)),
                pair("pingpong", "empty programs", &around(1.08, spread)),
                pair("pingpong", "holdup", &around(1.122, 0.08)),
            ];
            let (way_ns, empty_ns) = (10.0, 40.0);
            let program = Program { runs: 10_000_000, ns: 40.0 + beyond_ns, ..Program::default() };
            let counted = Counted {
                load: "pingpong".into(),
                busy_seconds: 10.0,
                way_ns,
                empty_ns,
                programs: vec![program],
                ..Counted::default()
            };
            let counted = vec![counted];
            pingpong(&Results { pairs, counted, ..Results::default() }).verdict
        };
        // 2, 6 and 4 % beyond, where half of the floor's 8 % may be.
        assert_eq!(with(20.0, 0.004), Verdict::MetByCount);
        assert_eq!(with(60.0, 0.004), Verdict::MissedByCount);
        assert_eq!(with(38.0, 0.004), Verdict::Undecided);
        // A floor that is not known well leaves it open.
        assert_eq!(with(20.0, 0.2), Verdict::Undecided);
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let goals = of(&Results::default());
        assert!(goals.len() >= 12);
        assert!(goals.iter().all(|goal| goal.verdict == Verdict::Unseen), "{goals:#?}");
    }
}
