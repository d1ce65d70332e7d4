//! The goals, and whether a run met them. A goal that the run could not see is not met, it is unseen.
//!
//! A ratio above its goal by less than what two equal runs differ by (`nothing again`), or below it in a run that
//! is too noisy to see it, is told as such, neither as met nor as missed. The limits stand here and nowhere else. Edit together: docs.rs.

use crate::growth::exponent;
use crate::pairs::{median, range};
use crate::results::{Pair, Results};

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At or below the limit.
    Met,
    /// Above it, by less than the run can tell.
    InNoise,
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
            Self::InNoise => "within noise",
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
/// From the end of the window to the first finding.
const ANSWER_SECONDS_MAX: f64 = 1.0;
/// Events a second that one core decodes.
const DECODE_MIN: f64 = 2e6;
/// Of a recording.
const BYTES_PER_EVENT_MAX: f64 = 16.0;
/// Of the shipped binary.
const BINARY_BYTES_MAX: u64 = 8_000_000;
/// Noise with which a ratio still says something.
const NOISE_MAX: f64 = 0.02;
/// Linear, with room for noise.
const EXPONENT_MAX: f64 = 1.15;

/// All goals.
pub fn of(results: &Results) -> Vec<Goal> {
    let mut goals = vec![pingpong(results)];
    goals.extend(RATIOS.iter().map(|(load, limit)| ratio(results, load, *limit)));
    goals.extend(idle(results));
    goals.extend([answer(results), decode(results), recording(results), binary(results)]);
    goals.extend(growth(results));
    goals.extend(floods(results));
    goals
}

fn find<'a>(results: &'a Results, load: &str, looker: &str) -> Option<&'a Pair> {
    results.pairs.iter().find(|pair| pair.load == load && pair.looker == looker)
}

fn ratio_of(results: &Results, load: &str, looker: &str) -> Option<f64> {
    median(&find(results, load, looker)?.ratios)
}

/// Half of what the ratios of two equal runs spread over.
fn noise(results: &Results, load: &str) -> f64 {
    let again = find(results, load, "nothing again").and_then(|pair| range(&pair.ratios));
    again.map_or(0.0, |(low, high)| (high - low) / 2.0)
}

fn goal(what: &str, wanted: String, measured: Option<(String, Verdict)>) -> Goal {
    let (measured, verdict) = measured.unwrap_or(("-".into(), Verdict::Unseen));
    Goal { what: what.into(), wanted, measured, verdict }
}

fn judged(value: f64, limit: f64, noise: f64) -> Verdict {
    // With more noise than this, a small figure is luck.
    let seen = noise <= (limit - 1.0).max(NOISE_MAX);
    match value {
        value if value <= limit && seen => Verdict::Met,
        value if value - noise <= limit => Verdict::InNoise,
        _ => Verdict::Missed,
    }
}

fn pingpong(results: &Results) -> Goal {
    let measured = (|| {
        let floor = ratio_of(results, "pingpong", "empty programs")? - 1.0;
        let look = ratio_of(results, "pingpong", "holdup")? - 1.0;
        let noise = noise(results, "pingpong");
        let words = format!(
            "{:.1} % against the floor's {:.1} % (noise {:.1} %)",
            look * 100.0,
            floor * 100.0,
            noise * 100.0
        );
        // A floor that the run cannot see is no measure.
        let verdict = match floor > noise {
            true => judged(look, FLOORS_MAX * floor, noise),
            false if look <= noise => Verdict::InNoise,
            false => judged(look, FLOORS_MAX * floor.max(noise), noise),
        };
        Some((words, verdict))
    })();
    goal("ping-pong, overhead", format!("at most {FLOORS_MAX} times the floor's"), measured)
}

fn ratio(results: &Results, load: &str, limit: f64) -> Goal {
    let measured = ratio_of(results, load, "holdup").map(|value| {
        let noise = noise(results, load);
        (format!("{value:.3} (noise {noise:.3})"), judged(value, limit, noise))
    });
    goal(load, format!("ratio at most {limit}"), measured)
}

fn idle(results: &Results) -> [Goal; 2] {
    let idle = results.idle.as_ref();
    let share = idle.map(|idle| {
        let words = format!(
            "{:.2} % of a core while it lasts, and {:.2} s for begin and end",
            idle.steady_share() * 100.0,
            idle.fixed_seconds()
        );
        (words, judged(idle.steady_share(), IDLE_SHARE_MAX, 0.0))
    });
    let resident = idle.map(|idle| {
        let words = format!("{:.1} MB", idle.rss_bytes as f64 / 1e6);
        (words, judged(idle.rss_bytes as f64, IDLE_BYTES_MAX as f64, 0.0))
    });
    [
        goal("idle host, 2,000 threads, 100 cgroups", "at most 0.2 % of a core".into(), share),
        goal("the same, resident peak", "at most 30 MB".into(), resident),
    ]
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
        (format!("worst {seconds:.2} s ({whose})"), judged(seconds, ANSWER_SECONDS_MAX, 0.0))
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
    let told = results.recordings.iter().filter(|it| it.events > 0);
    let worst = told.max_by(|a, b| each(a).total_cmp(&each(b)));
    let measured = worst.map(|it| {
        let words = format!("{:.1} bytes ({})", each(it), it.load);
        (words, judged(each(it), BYTES_PER_EVENT_MAX, 0.0))
    });
    goal("recording of a command, per event", "at most 16 bytes".into(), measured)
}

fn binary(results: &Results) -> Goal {
    let bytes = results.binary_bytes;
    let measured = (bytes > 0).then(|| {
        (
            format!("{:.2} MB", bytes as f64 / 1e6),
            judged(bytes as f64, BINARY_BYTES_MAX as f64, 0.0),
        )
    });
    goal("static binary, stripped", "at most 8 MB".into(), measured)
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
            _ => judged(worst.unwrap_or(0.0), EXPONENT_MAX, 0.0),
        };
        goal(&format!("growth with {}", series.of), "linear at most".into(), Some((words, verdict)))
    };
    results.growth.iter().map(of).collect()
}

fn floods(results: &Results) -> Vec<Goal> {
    let of = |flood: &crate::results::Flood| {
        let words = format!(
            "{:.0} k/s, {} lost and told, author {}",
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

    fn pair(load: &str, looker: &str, ratios: &[f64]) -> Pair {
        let (load, looker) = (load.into(), looker.into());
        Pair { load, looker, ratios: ratios.into(), ..Pair::default() }
    }

    #[test]
    fn noise_is_neither_met_nor_missed() {
        assert_eq!(judged(1.00, 1.01, 0.02), Verdict::Met);
        assert_eq!(judged(0.60, 1.01, 0.3), Verdict::InNoise);
        assert_eq!(judged(1.02, 1.01, 0.02), Verdict::InNoise);
        assert_eq!(judged(1.04, 1.01, 0.02), Verdict::Missed);
    }

    #[test]
    fn the_floor_measures_the_ping_pong() {
        let with = |look: f64| Results {
            pairs: vec![
                pair("pingpong", "nothing again", &[0.995, 1.005]),
                pair("pingpong", "empty programs", &[1.08]),
                pair("pingpong", "holdup", &[look]),
            ],
            ..Results::default()
        };
        assert_eq!(pingpong(&with(1.11)).verdict, Verdict::Met);
        assert_eq!(pingpong(&with(1.122)).verdict, Verdict::InNoise);
        assert_eq!(pingpong(&with(1.30)).verdict, Verdict::Missed);
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let goals = of(&Results::default());
        assert!(goals.len() >= 12);
        assert!(goals.iter().all(|goal| goal.verdict == Verdict::Unseen), "{goals:#?}");
    }
}
