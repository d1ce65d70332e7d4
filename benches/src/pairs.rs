//! Loads under lookers, finely interleaved.
//!
//! Those that goals compare (an empty pair of programs, holdup, and nobody again as the control) look by turns at
//! slices of the load, in rounds; before and after each comes a slice that nobody looks at, and a ratio is taken
//! against the mean of these two, so that a machine that drifts does not become a cost. Who comes first goes round.
//! A round in which one of them failed counts for none: what is compared shares its rounds. What comes of
//! the ratios is reported by stats.rs and judged by goals.rs; nothing is left out because it looks odd. The others look in a
//! few rounds. A load gets a share of the time; when it is used up, rounds are left out and the table
//! tells how many there were. Rejected: whole runs of the load by turns, seconds apart, whose pairs of equals differed by
//! 4 to 24 %.

use crate::child::{Ctx, first_words};
use crate::cut::Cut;
use crate::loads::{Kind, Load};
use crate::lookers::{CORE, LOOKERS, Looker, MORE, Observation, under_run};
use crate::results::Pair;
use crate::say;
use crate::stats::{median, of_median, range};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// Rounds, if nobody says otherwise.
pub const ROUNDS: usize = 17;
/// Seconds after which no further round begins.
pub const SECONDS_MAX: f64 = 13.0 * 60.0;
/// Seconds of a load, if nobody says otherwise.
pub const LOAD_SECONDS: f64 = 1.5;
/// Seconds of a slice of one.
pub const SLICE_SECONDS: f64 = 0.5;
/// Rounds of lookers that no goal compares.
pub const MORE_ROUNDS: usize = 2;

/// The ping-pong's goal compares two small losses: it has as many times the rounds, while its share of the time lasts.
const PINGPONG_TIMES: usize = 4;
/// Part of a load's time for what goals compare.
const CORE_SHARE: f64 = 0.75;
/// Rounds that may fail before the load is given up.
const FAILURES_MAX: usize = 2;

/// What was seen of one looker so far.
struct Seen {
    looker: Looker,
    ratios: Vec<f64>,
    all: Vec<Observation>,
    refusal: Option<String>,
}

impl Seen {
    fn of(looker: Looker) -> Self {
        Self { looker, ratios: Vec::new(), all: Vec::new(), refusal: None }
    }
}

/// What looked at a slice, and what a unit of work took when nobody did, before and after.
type Beside = ((Looker, Observation), f64);

/// All lookers on one load.
pub fn on_load(ctx: &Ctx, kind: &Kind, rounds: usize, share: Duration) -> Result<Vec<Pair>> {
    let began = Instant::now();
    let load = kind.make(ctx)?;
    let mut seen: Vec<Seen> = LOOKERS.iter().copied().map(Seen::of).collect();
    // First: a peer that is slow to end must not take their rounds.
    let times = if kind.name == "pingpong" { PINGPONG_TIMES } else { 1 };
    core(ctx, &load, rounds * times, began + share.mul_f64(CORE_SHARE), &mut seen)?;
    for round in 0..rounds.min(MORE_ROUNDS) {
        if round == 0 || began.elapsed() < share {
            others(ctx, &load, round, &mut seen)?;
        }
    }
    load.close()?;
    Ok(seen.into_iter().map(|seen| pair(kind.name, seen)).collect())
}

/// The order of those that goals compare: it goes round.
fn order(round: usize) -> Vec<Looker> {
    let mut order = CORE.to_vec();
    order.rotate_left(round % CORE.len());
    order
}

/// Rounds of those that goals compare.
fn core(ctx: &Ctx, load: &Load, rounds: usize, until: Instant, seen: &mut [Seen]) -> Result<()> {
    let cut = Cut::begin(ctx, load)?;
    let mut nothing = cut.seconds(ctx, 1)?;
    let (mut done, mut failures) = (0, 0);
    while done < rounds {
        if done > 0 && Instant::now() > until {
            say(&format!("  {}: time for {done} of {rounds} rounds", load.name));
            break;
        }
        match one_round(ctx, &cut, &order(done + failures), &mut nothing) {
            Ok(round) => {
                keep(seen, round);
                done += 1;
            }
            Err(error) if failures < FAILURES_MAX => {
                ctx.check_interrupted()?;
                say(&format!("  {}: a round that does not count: {error:#}", load.name));
                failures += 1;
                nothing = cut.seconds(ctx, 1)?;
            }
            Err(error) => return Err(error),
        }
    }
    let reported = seen.iter().filter(|seen| CORE.contains(&seen.looker)).map(|seen| {
        let interval = of_median(&seen.ratios);
        let ends = interval.map_or("too few rounds for an interval".into(), |it| {
            format!("95 %: {:.3} - {:.3}", it.low, it.high)
        });
        let middle = median(&seen.ratios).unwrap_or(f64::NAN);
        format!(" {} {middle:.3} ({ends})", seen.looker.name())
    });
    say(&format!("  {}, {done} rounds:{}", load.name, reported.collect::<Vec<_>>().join(",")));
    Ok(())
}

/// Each looker once, between slices that nobody looks at; the last of these begins the next round.
fn one_round(ctx: &Ctx, cut: &Cut<'_>, order: &[Looker], nothing: &mut f64) -> Result<Vec<Beside>> {
    let mut round = Vec::new();
    for &looker in order {
        let observation = looker.observe(ctx, cut);
        let after = cut.seconds(ctx, 1)?;
        let before = std::mem::replace(nothing, after);
        match observation {
            Ok(observation) => round.push(((looker, observation), (before + after) / 2.0)),
            Err(error) => bail!("{}: {error:#}", looker.name()),
        }
    }
    Ok(round)
}

fn keep(seen: &mut [Seen], round: Vec<Beside>) {
    for ((looker, observation), nothing) in round {
        let Some(seen) = seen.iter_mut().find(|seen| seen.looker == looker) else { continue };
        seen.ratios.push(observation.seconds / nothing);
        seen.all.push(observation);
    }
}

/// One round of those that no goal compares; `holdup run` beside whole loads that nobody looks at.
fn others(ctx: &Ctx, load: &Load, round: usize, seen: &mut [Seen]) -> Result<()> {
    let mut order = MORE.to_vec();
    if round % 2 == 1 {
        order.reverse();
    }
    let mut taken = Vec::new();
    {
        let cut = Cut::begin(ctx, load)?;
        let mut nothing = cut.seconds(ctx, 1)?;
        for looker in order {
            if seen.iter().any(|seen| seen.looker == looker && seen.refusal.is_some()) {
                continue;
            }
            match one_round(ctx, &cut, &[looker], &mut nothing) {
                Ok(one) => taken.extend(one),
                Err(error) => {
                    refused(ctx, seen, looker, &error)?;
                    nothing = cut.seconds(ctx, 1)?;
                }
            }
        }
    }
    let first = load.run(ctx)?;
    match under_run(ctx, load) {
        Ok(run) => taken.push(((Looker::Run, run), (first + load.run(ctx)?) / 2.0)),
        Err(error) => refused(ctx, seen, Looker::Run, &error)?,
    }
    let reported = taken.iter().map(|((looker, observation), nothing)| {
        format!(" {} {:.3}", looker.name(), observation.seconds / nothing)
    });
    say(&format!("  {}, others:{}", load.name, reported.collect::<Vec<_>>().join(",")));
    keep(seen, taken);
    Ok(())
}

fn refused(ctx: &Ctx, seen: &mut [Seen], looker: Looker, error: &anyhow::Error) -> Result<()> {
    ctx.check_interrupted()?;
    if let Some(seen) = seen.iter_mut().find(|seen| seen.looker == looker) {
        seen.refusal = Some(first_words(&format!("{error:#}")));
    }
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
    fn nobody_looks_twice_beside_the_same_nothing() {
        let looks: Vec<Looker> = (0..7).flat_map(order).collect();
        assert!(looks.windows(2).all(|two| two[0] != two[1]), "{looks:?}");
        for looker in CORE {
            let first = (0..3).filter(|round| order(*round).first() == Some(looker)).count();
            assert_eq!(first, 1, "each comes first as often");
        }
    }

    #[test]
    fn a_round_counts_for_all_or_for_none() {
        let mut seen = vec![Seen::of(Looker::Floor), Seen::of(Looker::Look)];
        let run = |looker, seconds| (looker, Observation { seconds, ..Observation::default() });
        let round = vec![(run(Looker::Look, 2.2), 2.0), (run(Looker::Floor, 2.1), 2.0)];
        keep(&mut seen, round);
        assert!((seen[0].ratios[0] - 1.05).abs() < 1e-9 && (seen[1].ratios[0] - 1.1).abs() < 1e-9);
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
