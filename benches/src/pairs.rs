//! Loads under lookers, interleaved: in each round every looker once, beside nothing.
//!
//! A ratio is taken within its round only, against the mean of nothing at the round's begin and at its end,
//! so that a machine that drifts does not become a cost; every second round goes backwards. `nothing again`
//! is the pair of equals, and its spread is the smallest difference that the run can see. Peers, which are
//! slow to end, run in the first rounds only. A load gets a share of the time; when it is used up,
//! rounds are left out and the table tells how many there were.

use crate::child::{Ctx, first_words};
use crate::loads::Kind;
use crate::lookers::{LOOKERS, Looker, Observation};
use crate::results::Pair;
use crate::say;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Rounds, if nobody says otherwise.
pub const ROUNDS: usize = 5;
/// Seconds of a load, if nobody says otherwise.
pub const LOAD_SECONDS: f64 = 2.2;
/// Rounds in which peers run.
pub const PEER_ROUNDS: usize = 2;

/// A peer that makes a load this much longer is clear after one round.
const PEER_RATIO_MAX: f64 = 4.0;

/// Median; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Smallest and largest.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// What was seen of one looker so far.
struct Seen {
    looker: Looker,
    ratios: Vec<f64>,
    all: Vec<Observation>,
    refusal: Option<String>,
}

/// All lookers on one load.
pub fn on_load(ctx: &Ctx, kind: &Kind, rounds: usize, share: Duration) -> Result<Vec<Pair>> {
    let began = Instant::now();
    let load = kind.make(ctx)?;
    let mut seen: Vec<Seen> = LOOKERS
        .iter()
        .map(|&looker| Seen { looker, ratios: Vec::new(), all: Vec::new(), refusal: None })
        .collect();
    // One run that nobody counts: caches, CPU frequency, lazily started threads.
    load.run(ctx)?;
    for round in 0..rounds {
        let each = began.elapsed() / (round.max(1) as u32);
        if round >= 1 && began.elapsed() + each / 2 > share {
            say(&format!("  {}: time for {round} of {rounds} rounds", kind.name));
            break;
        }
        one_round(ctx, &load, round, &mut seen)?;
    }
    load.close()?;
    Ok(seen.into_iter().map(|seen| pair(kind.name, seen)).collect())
}

fn one_round(ctx: &Ctx, load: &crate::loads::Load, round: usize, seen: &mut [Seen]) -> Result<()> {
    let first = load.run(ctx)?;
    let mut taken: Vec<(usize, Observation)> = Vec::new();
    let mut order: Vec<usize> = (0..seen.len()).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    for index in order {
        let looker = seen[index].looker;
        let enough = seen[index].ratios.iter().any(|ratio| *ratio > PEER_RATIO_MAX);
        let skipped =
            looker.is_peer() && (round >= PEER_ROUNDS || enough || seen[index].refusal.is_some());
        if skipped || looker == Looker::Again {
            continue;
        }
        match looker.observe(ctx, load) {
            Ok(observation) => taken.push((index, observation)),
            Err(error) => {
                ctx.heed()?;
                seen[index].refusal = Some(first_words(&format!("{error:#}")));
            }
        }
    }
    let last = load.run(ctx)?;
    let nothing = (first + last) / 2.0;
    let mut line = format!("  {} round {}: {:.3e} s a unit;", load.name, round + 1, nothing);
    for (index, observation) in taken {
        let ratio = observation.seconds / nothing;
        line.push_str(&format!(" {} {ratio:.3}", seen[index].looker.name()));
        seen[index].ratios.push(ratio);
        seen[index].all.push(observation);
    }
    if let Some(again) = seen.iter_mut().find(|seen| seen.looker == Looker::Again) {
        again.ratios.push(last / first);
    }
    say(&line);
    Ok(())
}

fn pair(load: &str, seen: Seen) -> Pair {
    let of = |get: fn(&Observation) -> Option<f64>| {
        median(&seen.all.iter().filter_map(get).collect::<Vec<_>>())
    };
    let lost: Vec<u64> = seen.all.iter().filter_map(|it| it.lost).collect();
    let answers: Vec<f64> = seen.all.iter().filter_map(|it| it.answer_seconds).collect();
    Pair {
        load: load.into(),
        looker: seen.looker.name().into(),
        cpu_seconds: of(|it| it.cpu_seconds),
        rss_bytes: seen.all.iter().filter_map(|it| it.rss_bytes).max(),
        bytes: of(|it| it.bytes.map(|bytes| bytes as f64)),
        events: of(|it| it.events.map(|events| events as f64)),
        lost: (!lost.is_empty()).then(|| lost.iter().sum()),
        answer_seconds: range(&answers).map(|(_, worst)| worst),
        ratios: seen.ratios,
        refusal: seen.refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_range_bears_what_is_no_number() {
        assert_eq!(range(&[2.0, f64::NAN, 1.0]), Some((1.0, 2.0)));
        assert_eq!(range(&[]), None);
    }

    #[test]
    fn a_pair_keeps_the_worst_and_the_median() {
        let observation = |lost, answer_seconds, cpu| Observation {
            lost: Some(lost),
            answer_seconds: Some(answer_seconds),
            cpu_seconds: Some(cpu),
            ..Observation::default()
        };
        let all =
            vec![observation(1, 0.2, 1.0), observation(2, 0.9, 3.0), observation(0, 0.1, 2.0)];
        let seen = Seen { looker: Looker::Look, ratios: vec![1.0], all, refusal: None };
        let pair = pair("x", seen);
        assert_eq!((pair.lost, pair.answer_seconds), (Some(3), Some(0.9)));
        assert_eq!(pair.cpu_seconds, Some(2.0));
        assert_eq!(pair.rss_bytes, None);
    }
}
