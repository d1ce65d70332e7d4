//! The figures of a run.
//!
//! Macro average over codes, so that a code with many scenarios does not outweigh the others; 95 %
//! interval by bootstrap over trials. Nothing is left out: refused injections, trials that broke and
//! misses are part of the text (`tables`). Pure. Rejected: averages over all trials alone (the lab has
//! more lock files than frozen file systems, hosts do not).
//!
//! Edit together: README.md (the figures as people read them).

pub mod confidence;
pub mod tables;
pub mod versus;

use crate::judgement::Judgement;
use crate::remedy::ENOUGH;
use crate::trial::{Outcome, Trial, Tried};
use std::collections::BTreeMap;

/// Mean over codes of the mean over trials.
pub(crate) fn macro_average(trials: &[(&str, bool)]) -> f64 {
    let mut by_code: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (code, right) in trials {
        let sums = by_code.entry(code).or_default();
        sums.0 += f64::from(u8::from(*right));
        sums.1 += 1.0;
    }
    if by_code.is_empty() {
        return f64::NAN;
    }
    by_code.values().map(|(right, all)| right / all).sum::<f64>() / by_code.len() as f64
}

/// 2.5 % and 97.5 % points of the macro average over resampled trials. The seed is fixed: the same
/// trials give the same interval.
pub(crate) fn bootstrap(trials: &[(&str, bool)]) -> (f64, f64) {
    if trials.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut rng = fastrand::Rng::with_seed(1);
    let mut means: Vec<f64> = (0..2000)
        .map(|_| {
            let sample: Vec<_> =
                (0..trials.len()).map(|_| trials[rng.usize(..trials.len())]).collect();
            macro_average(&sample)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    (means[means.len() / 40], means[means.len() - 1 - means.len() / 40])
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

pub(crate) fn percent(value: f64) -> String {
    if value.is_nan() { "-".into() } else { format!("{:.1} %", value * 100.0) }
}

/// Why a run does not reach a bar, in words; empty if it does. The bar is on strict top-1 (macro average, in
/// per cent); false alarms may be as many as it leaves room for, and a replay that differs is never right.
pub fn below(trials: &[Trial], bar_percent: f64) -> Vec<String> {
    let mut why = Vec::new();
    let trials: Vec<&Trial> = trials.iter().collect();
    let top1: Vec<_> = judged(&trials).iter().map(|(c, v)| (c.code.as_str(), v.top1)).collect();
    let reached = macro_average(&top1) * 100.0;
    if top1.is_empty() || reached < bar_percent {
        why.push(format!("strict top-1 is {reached:.0} %, the bar is {bar_percent:.0} %"));
    }
    let of_healthy: Vec<&[String]> = trials.iter().filter_map(|c| alarms_of_healthy(c)).collect();
    let healthy = of_healthy.len();
    let alarmed = of_healthy.iter().filter(|alarms| !alarms.is_empty()).count();
    if alarmed as f64 > healthy as f64 * (1.0 - bar_percent / 100.0) {
        why.push(format!("{alarmed} of {healthy} healthy trials alarmed"));
    }
    let differ = |c: &&&Trial| c.replay_differences.as_ref().is_some_and(|d| !d.is_empty());
    let differing = trials.iter().filter(differ).count();
    if differing > 0 {
        why.push(format!("{differing} replays differ from their live answer"));
    }
    why
}

/// The trials whose fault counts, with their judgements.
pub(crate) fn judged<'a>(trials: &[&'a Trial]) -> Vec<(&'a Trial, &'a Judgement)> {
    trials
        .iter()
        .filter_map(|trial| match &trial.outcome {
            Outcome::Faulted(judgement) => Some((*trial, judgement)),
            _ => None,
        })
        .collect()
}

/// The findings above note of a healthy trial; a fault that does not hurt makes one too.
pub(crate) fn alarms_of_healthy(trial: &Trial) -> Option<&[String]> {
    match &trial.outcome {
        Outcome::Healthy(alarms) | Outcome::Refused { alarms: Some(alarms), .. } => Some(alarms),
        _ => None,
    }
}

/// What became of the printed ways out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WaysOut {
    /// They were run, and there is a figure to tell by.
    pub applied: usize,
    /// At least half of the loss came back.
    pub helped: usize,
    /// They were run, and no figure tells.
    pub without_figure: usize,
    /// The lab refused to run them.
    pub not_applied: usize,
    /// Their commands only look.
    pub looks_only: usize,
    /// There is no command.
    pub no_command: usize,
    /// Undo commands that brought the state back.
    pub undone: usize,
    /// Undo commands that were run.
    pub undos: usize,
}

/// Counts ways out.
pub(crate) fn ways_out(trials: &[&Trial]) -> WaysOut {
    let mut ways = WaysOut::default();
    for (trial, _) in judged(trials) {
        match &trial.tried {
            Some(Tried::Applied { recovered, undone, .. }) => {
                match recovered {
                    Some(share) => {
                        ways.applied += 1;
                        ways.helped += usize::from(*share >= ENOUGH);
                    }
                    None => ways.without_figure += 1,
                }
                ways.undos += usize::from(undone.is_some());
                ways.undone += usize::from(*undone == Some(true));
            }
            Some(Tried::NotApplied { .. }) => ways.not_applied += 1,
            Some(Tried::LooksOnly { .. }) => ways.looks_only += 1,
            Some(Tried::NoCommand) => ways.no_command += 1,
            None => {}
        }
    }
    ways
}

/// One figure: its name, its value, and what it is an average of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: String,
    /// Of how many.
    pub of: String,
}

fn share(part: usize, whole: usize) -> String {
    percent(if whole == 0 { f64::NAN } else { part as f64 / whole as f64 })
}

/// All figures of some trials.
pub(crate) fn rows(trials: &[&Trial]) -> Vec<Row> {
    let mut rows = rows_of_answers(trials);
    rows.extend(rows_of_sizes(trials));
    rows.extend(rows_of_ways_out(trials));
    rows.extend(rows_beside(trials));
    rows.extend(rows_of_the_run(trials));
    rows
}

fn row(name: &'static str, value: String, of: String) -> Row {
    Row { name, value, of }
}

fn rows_of_answers(trials: &[&Trial]) -> Vec<Row> {
    let judged = judged(trials);
    let top1: Vec<_> = judged.iter().map(|(c, v)| (c.code.as_str(), v.top1)).collect();
    let top3: Vec<_> = judged.iter().map(|(c, v)| (c.code.as_str(), v.top3)).collect();
    let interval = |of: &[(&str, bool)]| {
        let (low, high) = bootstrap(of);
        format!("{} to {}", percent(low), percent(high))
    };
    let codes: std::collections::BTreeSet<_> = judged.iter().map(|(c, _)| &c.code).collect();
    let right = |of: &[(&str, bool)]| of.iter().filter(|(_, right)| *right).count();
    let healthy: Vec<&[String]> = trials.iter().filter_map(|c| alarms_of_healthy(c)).collect();
    let alarmed = healthy.iter().filter(|alarms| !alarms.is_empty()).count();
    vec![
        row(
            "strict top-1, macro average",
            percent(macro_average(&top1)),
            format!("{} of {} trials right, {} codes", right(&top1), top1.len(), codes.len()),
        ),
        row("95 % interval of it", interval(&top1), "bootstrap over trials".into()),
        row(
            "top-3, macro average",
            percent(macro_average(&top3)),
            format!("{} of {} trials right", right(&top3), top3.len()),
        ),
        row(
            "false alarms",
            share(alarmed, healthy.len()),
            format!("{alarmed} of {} healthy trials", healthy.len()),
        ),
    ]
}

fn rows_of_sizes(trials: &[&Trial]) -> Vec<Row> {
    let judged = judged(trials);
    let mut errors: Vec<f64> = judged.iter().filter_map(|(_, v)| v.quantity_error).collect();
    let asked = judged.iter().filter(|(_, v)| v.asks_quantity).count();
    let worst = errors.iter().copied().fold(f64::NAN, f64::max);
    let links = judged.iter().fold((0, 0), |s, (_, v)| (s.0 + v.chain.0, s.1 + v.chain.1));
    let found = errors.len();
    vec![
        row(
            "quantity error, median (worst)",
            format!("{} ({})", percent(median(&mut errors)), percent(worst)),
            format!("{found} of {asked} sizes said"),
        ),
        row("true chain links", share(links.0, links.1), format!("{} of {}", links.0, links.1)),
    ]
}

fn rows_of_ways_out(trials: &[&Trial]) -> Vec<Row> {
    let ways = ways_out(trials);
    let right = judged(trials).iter().filter(|(_, v)| v.top1).count();
    vec![
        row(
            "remedy brings half the loss back",
            share(ways.helped, ways.applied),
            format!("{} of {} commands that were run", ways.helped, ways.applied),
        ),
        row(
            "the same, of all right answers",
            share(ways.helped, right),
            format!(
                "{right} right; {} only look, {} without a command, {} not applied, {} without a figure",
                ways.looks_only, ways.no_command, ways.not_applied, ways.without_figure
            ),
        ),
        row(
            "its undo brings the state back",
            share(ways.undone, ways.undos),
            format!("{} of {}", ways.undone, ways.undos),
        ),
    ]
}

fn rows_beside(trials: &[&Trial]) -> Vec<Row> {
    let with: Vec<_> = trials.iter().filter(|c| c.beside.neighbour.is_some()).collect();
    let named = with.iter().filter(|c| c.beside.neighbour_named.is_some()).count();
    let doubles: Vec<_> =
        judged(trials).into_iter().filter(|(c, _)| c.beside.second.is_some()).collect();
    let bigger_first = doubles.iter().filter(|(_, v)| v.top1).count();
    let smaller_first = doubles.iter().filter(|(c, _)| c.beside.second_place == Some(1)).count();
    let smaller_too =
        doubles.iter().filter(|(c, _)| c.beside.second_place.is_some_and(|at| at > 1)).count();
    vec![
        row(
            "harmless neighbour named",
            share(named, with.len()),
            format!("{named} of {} runs with one", with.len()),
        ),
        row(
            "two faults: the bigger one first",
            share(bigger_first, doubles.len()),
            format!(
                "{bigger_first} of {}; the smaller one first {smaller_first}, behind it {smaller_too}",
                doubles.len()
            ),
        ),
    ]
}

fn rows_of_the_run(trials: &[&Trial]) -> Vec<Row> {
    let mut answers: Vec<f64> = trials.iter().filter_map(|c| c.answer_seconds).collect();
    let slowest = answers.iter().copied().fold(f64::NAN, f64::max);
    let mut costs: Vec<f64> = trials.iter().filter_map(|c| c.watch_cost).collect();
    let replays: Vec<bool> =
        trials.iter().filter_map(|c| c.replay_differences.as_ref().map(Vec::is_empty)).collect();
    let equal = replays.iter().filter(|equal| **equal).count();
    let count = |wanted: fn(&Trial) -> bool| trials.iter().filter(|c| wanted(c)).count();
    let refused = count(|c| matches!(c.outcome, Outcome::Refused { .. }));
    let broken = count(|c| matches!(c.outcome, Outcome::Broken(_)));
    let disturbed = count(|c| matches!(c.outcome, Outcome::Disturbed(_)));
    let by_check_alone = judged(trials).iter().filter(|(c, _)| !c.has_figure).count();
    vec![
        row(
            "answer after the window, median (worst)",
            format!("{:.2} s ({slowest:.2} s)", median(&mut answers)),
            format!("{} answers", answers.len()),
        ),
        row(
            "replay equals live",
            share(equal, replays.len()),
            format!("{equal} of {}", replays.len()),
        ),
        row(
            "load slower while watched, median",
            percent(median(&mut costs)),
            format!("{} runs", costs.len()),
        ),
        row("refused injections", refused.to_string(), "listed below".into()),
        row(
            "admitted without a figure",
            by_check_alone.to_string(),
            "by the injector's own check".into(),
        ),
        row(
            "not counted: the hypervisor took the CPUs, twice",
            disturbed.to_string(),
            "listed below".into(),
        ),
        row("broken trials", broken.to_string(), "listed below".into()),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn trial(code: &str, outcome: Outcome) -> Trial {
        Trial {
            code: code.into(),
            outcome,
            has_figure: true,
            answer_seconds: Some(0.2),
            baselines: vec![("largest pressure".into(), Some("disk".into()))],
            ..Trial::new("s", 1)
        }
    }

    pub(crate) fn right() -> Outcome {
        Outcome::Faulted(Judgement { top1: true, top3: true, ..Judgement::default() })
    }

    fn value(trials: &[Trial], name: &str) -> (String, String) {
        let all: Vec<&Trial> = trials.iter().collect();
        let row = rows(&all).into_iter().find(|row| row.name == name).unwrap();
        (row.value, row.of)
    }

    #[test]
    fn a_code_with_many_trials_does_not_outweigh_another() {
        let trials = [("a", true), ("a", true), ("a", true), ("b", false)];
        assert!((macro_average(&trials) - 0.5).abs() < 1e-9);
        let (low, high) = bootstrap(&trials);
        assert!(low <= 0.5 && high >= 0.5 && low < high);
    }

    #[test]
    fn median_of_even_and_odd() {
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&mut [4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_fault_that_does_not_hurt_is_a_healthy_trial() {
        let refused = |alarms: Option<Vec<String>>| {
            trial("disk.journal", Outcome::Refused { why: "3 %".into(), alarms })
        };
        let trials = [
            refused(Some(vec!["disk.journal on".into()])),
            refused(Some(vec![])),
            refused(None),
            trial("", Outcome::Healthy(vec![])),
        ];
        assert_eq!(value(&trials, "false alarms").1, "1 of 3 healthy trials");
        assert_eq!(value(&trials, "refused injections").0, "3");
        assert_eq!(value(&trials, "strict top-1, macro average").0, "-");
    }

    #[test]
    fn ways_out_are_counted_apart() {
        let applied = |recovered, undone| Tried::Applied {
            command: "kill 7".into(),
            recovered,
            remark: String::new(),
            undone,
        };
        let tried = [
            applied(Some(0.9), Some(true)),
            applied(Some(0.5), None),
            applied(Some(0.49), Some(false)),
            applied(None, None),
            Tried::LooksOnly { command: "cat x".into() },
            Tried::NotApplied { command: "reboot".into(), why: "no".into() },
            Tried::NoCommand,
        ];
        let trials = tried.map(|tried| Trial { tried: Some(tried), ..trial("a.b", right()) });
        let (helped, of) = value(&trials, "remedy brings half the loss back");
        assert_eq!((helped.as_str(), of.as_str()), ("66.7 %", "2 of 3 commands that were run"));
        assert_eq!(value(&trials, "the same, of all right answers").0, "28.6 %");
        assert_eq!(value(&trials, "its undo brings the state back").1, "1 of 2");
    }

    #[test]
    fn what_stands_beside_is_counted() {
        let mut named = trial("", Outcome::Healthy(vec!["cpu.saturated".into()]));
        named.beside.neighbour = Some("a pool".into());
        named.beside.neighbour_named = Some("cpu.saturated".into());
        let mut double = trial("disk.journal", right());
        double.beside.second = Some("lock.file".into());
        double.beside.second_place = Some(2);
        let mut wrong = trial("disk.journal", Outcome::Faulted(Judgement::default()));
        wrong.beside.second = Some("lock.file".into());
        wrong.beside.second_place = Some(1);
        let trials = [named, double, wrong];
        assert_eq!(value(&trials, "harmless neighbour named").1, "1 of 1 runs with one");
        let (first, of) = value(&trials, "two faults: the bigger one first");
        assert_eq!(first, "50.0 %");
        assert!(of.contains("first 1, behind it 1"), "{of}");
    }

    #[test]
    fn a_bar_is_missed_by_wrong_answers_and_by_alarms() {
        let wrong = trial("fs.frozen", Outcome::Faulted(Judgement::default()));
        assert!(below(&[trial("fs.frozen", right())], 80.0).is_empty());
        assert_eq!(below(&[wrong], 80.0).len(), 1);
        let alarm = trial("", Outcome::Healthy(vec!["x".into()]));
        assert_eq!(below(&[trial("fs.frozen", right()), alarm], 80.0).len(), 1);
    }
}
