//! The figures of a run, and how they are printed.
//!
//! Macro average over codes, so that a code with many scenarios does not outweigh the others; 95 %
//! interval by bootstrap over cases. Nothing is left out: refused injections, cases that broke and
//! misses are part of the text. Pure but for the clock-free formatting.

use crate::baseline::Sayings;
use crate::verdict::Verdict;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What became of one case.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A fault that hurt, and the answer judged.
    Faulted(Verdict),
    /// No fault (or one that should not hurt), and the findings above note.
    Healthy(Vec<String>),
    /// The fault did not hurt, or could not be made.
    Refused(String),
    /// holdup was not asked; what the lab itself saw.
    Unasked(String),
    /// The lab or holdup broke.
    Broken(String),
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Scenario.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// The true code; empty for healthy cases.
    pub code: String,
    /// The truth in one line.
    pub truth: String,
    /// The first findings, in one line each.
    pub said: Vec<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// Start of holdup to its answer, beyond the window that was asked for.
    pub answer_seconds: Option<f64>,
    /// Fields in which the replay of the recording differs; absent if it was not replayed.
    pub replay_differences: Option<Vec<String>>,
    /// Relative loss of the workload under the fault.
    pub loss: Option<f64>,
    /// What simple rules say of the same look.
    pub baselines: Sayings,
    /// Relative slowdown of the workload while holdup watched.
    pub watch_cost: Option<f64>,
}

/// Mean over codes of the mean over cases.
fn macro_average(cases: &[(&str, bool)]) -> f64 {
    let mut by_code: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (code, right) in cases {
        let sums = by_code.entry(code).or_default();
        sums.0 += f64::from(u8::from(*right));
        sums.1 += 1.0;
    }
    if by_code.is_empty() {
        return f64::NAN;
    }
    by_code.values().map(|(right, all)| right / all).sum::<f64>() / by_code.len() as f64
}

/// 2.5 % and 97.5 % points of the macro average over resampled cases. The seed is fixed: the same
/// cases give the same interval.
fn bootstrap(cases: &[(&str, bool)]) -> (f64, f64) {
    if cases.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut rng = fastrand::Rng::with_seed(1);
    let mut means: Vec<f64> = (0..2000)
        .map(|_| {
            let sample: Vec<_> =
                (0..cases.len()).map(|_| cases[rng.usize(..cases.len())]).collect();
            macro_average(&sample)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    (means[means.len() / 40], means[means.len() - 1 - means.len() / 40])
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

fn percent(value: f64) -> String {
    if value.is_nan() { "-".into() } else { format!("{:.1} %", value * 100.0) }
}

/// Why a run does not reach a bar, in words; empty if it does. The bar is on strict top-1 (macro average, in
/// per cent); false alarms may be as many as it leaves room for, and a replay that differs is never right.
pub fn below(cases: &[Case], bar_percent: f64) -> Vec<String> {
    let mut why = Vec::new();
    let top1: Vec<(&str, bool)> = cases
        .iter()
        .filter_map(|c| match &c.outcome {
            Outcome::Faulted(v) => Some((c.code.as_str(), v.top1)),
            _ => None,
        })
        .collect();
    let reached = macro_average(&top1) * 100.0;
    if top1.is_empty() || reached < bar_percent {
        why.push(format!("strict top-1 is {reached:.0} %, the bar is {bar_percent:.0} %"));
    }
    let healthy = cases.iter().filter(|c| matches!(c.outcome, Outcome::Healthy(_))).count();
    let alarmed = cases
        .iter()
        .filter(|c| matches!(&c.outcome, Outcome::Healthy(alarms) if !alarms.is_empty()))
        .count();
    if alarmed as f64 > healthy as f64 * (1.0 - bar_percent / 100.0) {
        why.push(format!("{alarmed} of {healthy} healthy cases alarmed"));
    }
    let differ = |c: &&Case| c.replay_differences.as_ref().is_some_and(|d| !d.is_empty());
    let differing = cases.iter().filter(differ).count();
    if differing > 0 {
        why.push(format!("{differing} replays differ from their live answer"));
    }
    why
}

/// The figures as a table of Markdown, which reads as plain text too.
// LONG FUNCTION: a row after the other, each with the count it is an average of.
pub fn table(cases: &[Case]) -> String {
    let judged: Vec<(&Case, &Verdict)> = cases
        .iter()
        .filter_map(|c| match &c.outcome {
            Outcome::Faulted(v) => Some((c, v)),
            _ => None,
        })
        .collect();
    let top1: Vec<_> = judged.iter().map(|(c, v)| (c.code.as_str(), v.top1)).collect();
    let top3: Vec<_> = judged.iter().map(|(c, v)| (c.code.as_str(), v.top3)).collect();
    let (low, high) = bootstrap(&top1);
    let healthy: Vec<_> = cases
        .iter()
        .filter_map(|c| match &c.outcome {
            Outcome::Healthy(alarms) => Some(!alarms.is_empty()),
            _ => None,
        })
        .collect();
    let alarmed = healthy.iter().filter(|a| **a).count();
    let mut errors: Vec<f64> = judged.iter().filter_map(|(_, v)| v.quantity_error).collect();
    let asked = judged.iter().filter(|(_, v)| v.asks_quantity).count();
    let worst = errors.iter().copied().fold(f64::NAN, f64::max);
    let links = judged.iter().fold((0, 0), |s, (_, v)| (s.0 + v.chain.0, s.1 + v.chain.1));
    let mut answers: Vec<f64> = cases.iter().filter_map(|c| c.answer_seconds).collect();
    let slowest = answers.iter().copied().fold(f64::NAN, f64::max);
    let replays: Vec<bool> =
        cases.iter().filter_map(|c| c.replay_differences.as_ref().map(Vec::is_empty)).collect();
    let mut costs: Vec<f64> = cases.iter().filter_map(|c| c.watch_cost).collect();
    let codes: std::collections::BTreeSet<_> = judged.iter().map(|(c, _)| &c.code).collect();
    let count = |wanted: fn(&Outcome) -> bool| cases.iter().filter(|c| wanted(&c.outcome)).count();

    let mut out = String::from("| figure | value | of |\n| --- | --- | --- |\n");
    let mut row = |name: &str, value: String, of: String| {
        let _ = writeln!(out, "| {name} | {value} | {of} |");
    };
    row(
        "strict top-1, macro average",
        percent(macro_average(&top1)),
        format!(
            "{} cases, {} codes; 95 % interval {} to {}",
            top1.len(),
            codes.len(),
            percent(low),
            percent(high)
        ),
    );
    row("top-3, macro average", percent(macro_average(&top3)), format!("{} cases", top3.len()));
    let share = if healthy.is_empty() { f64::NAN } else { alarmed as f64 / healthy.len() as f64 };
    row("false alarms", percent(share), format!("{alarmed} of {} healthy cases", healthy.len()));
    let found = errors.len();
    row(
        "quantity error, median (worst)",
        format!("{} ({})", percent(median(&mut errors)), percent(worst)),
        format!("{found} of {asked} sizes said"),
    );
    let chain = if links.1 == 0 { f64::NAN } else { links.0 as f64 / links.1 as f64 };
    row("true chain links", percent(chain), format!("{} of {}", links.0, links.1));
    row(
        "answer after the window, median (worst)",
        format!("{:.2} s ({slowest:.2} s)", median(&mut answers)),
        format!("{} answers", answers.len()),
    );
    let equal = replays.iter().filter(|e| **e).count();
    row("replay equals live", format!("{equal} of {}", replays.len()), "recordings".into());
    row(
        "workload slower while watched, median",
        percent(median(&mut costs)),
        format!("{} runs", costs.len()),
    );
    row(
        "refused injections",
        count(|o| matches!(o, Outcome::Refused(_))).to_string(),
        "listed below".into(),
    );
    row(
        "broken cases",
        count(|o| matches!(o, Outcome::Broken(_))).to_string(),
        "listed below".into(),
    );
    out
}

/// Everything that is not as it should be, one paragraph a case, and who was taken for whom.
pub fn misses(cases: &[Case]) -> String {
    let mut out = String::new();
    let mut line = |case: &Case, what: String| {
        let _ = writeln!(out, "- {} (seed {}): {what}", case.scenario, case.seed);
    };
    for case in cases {
        match &case.outcome {
            Outcome::Faulted(v) if !v.top1 => {
                let said =
                    if case.said.is_empty() { "nothing".into() } else { case.said.join("; ") };
                line(
                    case,
                    format!(
                        "missed. Truth: {}. Wrong: {}. Said: {said}",
                        case.truth,
                        v.wrong.join(", ")
                    ),
                );
            }
            Outcome::Healthy(alarms) if !alarms.is_empty() => {
                line(case, format!("false alarm: {}", alarms.join("; ")))
            }
            Outcome::Refused(why) => line(case, format!("refused: {why}")),
            Outcome::Broken(why) => line(case, format!("broken: {why}")),
            _ => {}
        }
        if let Outcome::Faulted(v) = &case.outcome {
            if !v.forbidden.is_empty() {
                line(case, format!("forbidden beside it: {}", v.forbidden.join(", ")));
            }
            if v.top1 && v.asks_quantity && v.quantity_error.is_none_or(|e| e > 0.1) {
                line(
                    case,
                    format!("size: {}", v.quantity_error.map_or("not said".into(), percent)),
                );
            }
        }
        if let Some(fields) = case.replay_differences.as_ref().filter(|d| !d.is_empty()) {
            line(case, format!("replay differs in {}", fields[..fields.len().min(5)].join(", ")));
        }
    }
    if out.is_empty() { "none\n".into() } else { out }
}

/// How one rule does.
#[derive(Default)]
struct Tally<'a> {
    /// True code, and whether the area was right.
    right: Vec<(&'a str, bool)>,
    alarmed: usize,
    healthy: usize,
}

/// holdup and the simple rules by area, on the same cases.
pub fn against_baselines(cases: &[Case]) -> String {
    let area = |code: &str| code.split('.').next().unwrap_or_default().to_string();
    let mut rules: BTreeMap<&str, Tally> = BTreeMap::new();
    for case in cases {
        let first = case.said.first().and_then(|s| s.split(' ').next()).map(area);
        let mut sayings: Vec<(&str, Option<String>)> =
            case.baselines.iter().map(|(rule, said)| (*rule, said.map(String::from))).collect();
        match &case.outcome {
            Outcome::Faulted(_) => {
                sayings.push(("holdup", first));
                for (rule, said) in sayings {
                    let right = said.as_deref() == Some(area(&case.code).as_str());
                    rules.entry(rule).or_default().right.push((case.code.as_str(), right));
                }
            }
            Outcome::Healthy(alarms) => {
                sayings.push(("holdup", (!alarms.is_empty()).then(String::new)));
                for (rule, said) in sayings {
                    let sums = rules.entry(rule).or_default();
                    sums.alarmed += usize::from(said.is_some());
                    sums.healthy += 1;
                }
            }
            _ => {}
        }
    }
    let mut out = String::from(
        "| rule | right area, macro average | 95 % interval | alarms on healthy cases |\n| --- | --- | --- | --- |\n",
    );
    for (rule, Tally { right, alarmed, healthy }) in rules {
        let (low, high) = bootstrap(&right);
        let mean = percent(macro_average(&right));
        let _ = writeln!(
            out,
            "| {rule} | {mean} | {} to {} | {alarmed} of {healthy} |",
            percent(low),
            percent(high)
        );
    }
    out
}

/// True code by first said code.
pub fn confusion(cases: &[Case]) -> String {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for case in cases {
        let code_said =
            || case.said.first().and_then(|s| s.split(' ').next()).unwrap_or("nothing").to_string();
        match &case.outcome {
            Outcome::Faulted(_) => {
                *counts.entry((case.code.clone(), code_said())).or_default() += 1
            }
            Outcome::Healthy(alarms) => {
                let said = if alarms.is_empty() { "nothing".into() } else { code_said() };
                *counts.entry(("nothing".into(), said)).or_default() += 1;
            }
            _ => {}
        }
    }
    let mut out = String::from("| true | said | cases |\n| --- | --- | --- |\n");
    for ((truth, said), count) in counts {
        let _ = writeln!(out, "| {truth} | {said} | {count} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(code: &str, outcome: Outcome) -> Case {
        Case {
            scenario: "s".into(),
            seed: 1,
            code: code.into(),
            truth: String::new(),
            said: vec![],
            outcome,
            answer_seconds: Some(0.2),
            replay_differences: None,
            loss: None,
            baselines: vec![("largest pressure", Some("disk"))],
            watch_cost: None,
        }
    }

    #[test]
    fn a_code_with_many_cases_does_not_outweigh_another() {
        let cases = [("a", true), ("a", true), ("a", true), ("b", false)];
        assert!((macro_average(&cases) - 0.5).abs() < 1e-9);
        let (low, high) = bootstrap(&cases);
        assert!(low <= 0.5 && high >= 0.5 && low < high);
    }

    #[test]
    fn table_and_misses_tell_refusals_alarms_and_silence() {
        let cases = [
            case(
                "disk.journal",
                Outcome::Faulted(Verdict {
                    wrong: vec!["nothing was said".into()],
                    ..Verdict::default()
                }),
            ),
            case("", Outcome::Healthy(vec!["disk.saturated".into()])),
            case("fs.frozen", Outcome::Refused("did not hurt".into())),
        ];
        let table = table(&cases);
        assert!(table.contains("1 of 1 healthy cases"), "{table}");
        assert!(table.contains("| strict top-1, macro average | 0.0 %"), "{table}");
        let misses = misses(&cases);
        assert!(
            misses.contains("false alarm")
                && misses.contains("refused")
                && misses.contains("missed")
        );
        let against = against_baselines(&cases);
        assert!(against.contains("| largest pressure | 100.0 % |"), "{against}");
        assert!(against.contains("| holdup | 0.0 % |") && against.contains("1 of 1"), "{against}");
        assert!(confusion(&cases).contains("| disk.journal | nothing | 1 |"));
    }

    #[test]
    fn median_of_even_and_odd() {
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&mut [4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
