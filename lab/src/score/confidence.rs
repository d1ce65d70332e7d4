//! How sure holdup said it was, beside how often it was right.
//!
//! All trials with a finding count: of a fault the first finding, which is right if code, object and culprit are; of a healthy
//! trial the first finding above note, which is wrong. They are sorted by what was said into the bins of the kinds of proof
//! (`rules/proof.rs` of reason: a kind gets its number from this table). Where the number lies outside the interval, the
//! table says so. Pure. Rejected: bins of equal width (nearly all said lies between 0.75 and 0.97, and a kind of
//! proof would be spread over several).
//!
//! Edit together: `rules/proof.rs` of reason (the numbers), lab/README.md.

use super::percent;
use crate::trial::{Outcome, Trial};
use std::fmt::Write;

/// The numbers of the kinds of proof, and their words: a bin reaches from its number up to the next.
const BINS: &[(f64, &str)] = &[
    (0.0, "less: something was lost on the way"),
    (0.75, "one witness"),
    (0.9, "inferred"),
    (0.94, "two witnesses"),
    (0.97, "read from its owner"),
];

/// What was said is a rounded number.
const ROUNDING: f64 = 0.005;

/// Quantile of the normal distribution for 95 %.
const Z: f64 = 1.96;

/// One bin.
#[derive(Debug, Clone, PartialEq)]
pub struct Bin {
    /// The number of its kind of proof.
    pub from: f64,
    /// The kind's words.
    pub word: &'static str,
    /// Trials in it.
    pub trials: usize,
    /// Those that were right.
    pub right: usize,
    /// Mean of what was said.
    pub said: f64,
}

impl Bin {
    /// 95 % interval of the share that is right (Wilson's: it holds for few trials and for shares near 1).
    pub fn interval(&self) -> (f64, f64) {
        if self.trials == 0 {
            return (f64::NAN, f64::NAN);
        }
        let n = self.trials as f64;
        let share = self.right as f64 / n;
        let middle = share + Z * Z / (2.0 * n);
        let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
    }

    fn remark(&self) -> &'static str {
        let (low, high) = self.interval();
        match self.said {
            said if said > high + ROUNDING => "too sure",
            said if said < low - ROUNDING => "surer than it says",
            _ => "agrees",
        }
    }
}

/// What was said of a trial, and whether it was right; none where nothing was said.
fn said_and_right(trial: &Trial) -> Option<(f64, bool)> {
    match &trial.outcome {
        Outcome::Faulted(judgement) => Some((*trial.confidence.first()?, judgement.top1)),
        Outcome::Healthy(_) | Outcome::Refused { alarms: Some(_), .. } => {
            Some((*trial.alarm_confidence.first()?, false))
        }
        _ => None,
    }
}

/// Trials by what was said, lowest first; bins that nothing is in are left out.
pub fn bins(trials: &[Trial]) -> Vec<Bin> {
    let mut bins: Vec<Bin> = (BINS.iter())
        .map(|(from, word)| Bin { from: *from, word, trials: 0, right: 0, said: 0.0 })
        .collect();
    for (said, right) in trials.iter().filter_map(said_and_right) {
        let at = BINS.iter().rposition(|(from, _)| said >= from - ROUNDING).unwrap_or(0);
        let bin = &mut bins[at];
        bin.trials += 1;
        bin.right += usize::from(right);
        bin.said += said;
    }
    bins.retain(|bin| bin.trials > 0);
    for bin in &mut bins {
        bin.said /= bin.trials as f64;
    }
    bins
}

/// The table, and a line for all of it.
pub fn table(trials: &[Trial]) -> String {
    let bins = bins(trials);
    let mut out = String::from(
        "| said | kind of proof | trials | said, mean | right | share | 95 % interval | |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for bin in &bins {
        let (low, high) = bin.interval();
        let _ = writeln!(
            out,
            "| {:.2} and up | {} | {} | {:.2} | {} | {} | {} to {} | {} |",
            bin.from,
            bin.word,
            bin.trials,
            bin.said,
            bin.right,
            percent(bin.right as f64 / bin.trials as f64),
            percent(low),
            percent(high),
            bin.remark(),
        );
    }
    let all: usize = bins.iter().map(|bin| bin.trials).sum();
    if all == 0 {
        return "no trial tells how sure holdup was\n".into();
    }
    let right: usize = bins.iter().map(|bin| bin.right).sum();
    let said: f64 = bins.iter().map(|bin| bin.said * bin.trials as f64).sum::<f64>() / all as f64;
    let share = percent(right as f64 / all as f64);
    let _ = writeln!(out, "| all | | {all} | {said:.2} | {right} | {share} | | |");
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{right, trial};
    use super::*;
    use crate::judgement::Judgement;

    fn said(confidence: f64, outcome: Outcome) -> Trial {
        Trial { confidence: vec![confidence], ..trial("disk.journal", outcome) }
    }

    fn wrong() -> Outcome {
        Outcome::Faulted(Judgement::default())
    }

    #[test]
    fn each_kind_of_proof_is_a_bin_with_its_share() {
        let mut trials: Vec<Trial> = (0..19).map(|_| said(0.97, right())).collect();
        trials.push(said(0.9699, wrong()));
        trials.extend([said(0.94, right()), said(0.9, wrong()), said(0.4, right())]);
        let bins = bins(&trials);
        let seen: Vec<_> = bins.iter().map(|bin| (bin.from, bin.trials, bin.right)).collect();
        assert_eq!(seen, vec![(0.0, 1, 1), (0.9, 1, 0), (0.94, 1, 1), (0.97, 20, 19)]);
        let (low, high) = bins[3].interval();
        assert!((low - 0.764).abs() < 0.002 && (high - 0.991).abs() < 0.002, "{low} {high}");
        let table = table(&trials);
        let line = "| 0.97 and up | read from its owner | 20 | 0.97 | 19 | 95.0 % | 76.4 % to 99.1 % | agrees |";
        assert!(table.contains(line), "{table}");
        assert!(table.contains("| all | | 23 | 0.94 | 21 | 91.3 % | | |"), "{table}");
    }

    #[test]
    fn an_alarm_of_a_healthy_trial_is_said_and_wrong_and_silence_says_nothing() {
        let alarm = Trial {
            confidence: vec![0.97],
            alarm_confidence: vec![0.9],
            ..trial("", Outcome::Healthy(vec!["cpu.saturated".into()]))
        };
        let trials = [alarm, trial("", Outcome::Healthy(vec![])), trial("disk.journal", wrong())];
        let bins = bins(&trials);
        assert_eq!((bins.len(), bins[0].from, bins[0].trials, bins[0].right), (1, 0.9, 1, 0));
        assert_eq!(table(&[]), "no trial tells how sure holdup was\n");
    }

    #[test]
    fn a_number_outside_the_interval_is_remarked() {
        let mut trials: Vec<Trial> = (0..50).map(|_| said(0.97, wrong())).collect();
        assert!(table(&trials).contains("too sure"));
        trials = (0..400).map(|_| said(0.75, right())).collect();
        assert!(table(&trials).contains("surer than it says"));
    }
}
