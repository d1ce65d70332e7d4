//! holdup beside what a user has today, on the same trials.
//!
//! The simple rules name no culprit, so they are compared by area (`disk` of `disk.journal`), the kindest
//! measure for them; the knot names a process, and is compared by that as well. holdup claims nothing where
//! a rule lies inside its interval: the table says so itself. An area where every answer is right has an
//! interval of no width; how many trials it rests on stands beside it.
//!
//! Edit together: `baseline.rs` and `wait_graph_baseline.rs` (the rules), README.md.

use super::{alarms_of_healthy, bootstrap, judged, macro_average, percent};
use crate::trial::Trial;
use std::collections::BTreeMap;
use std::fmt::Write;

const HOLDUP: &str = "holdup";

fn area(code: &str) -> &str {
    code.split('.').next().unwrap_or_default()
}

/// Right or wrong by rule: (code, right).
type ByRule<'a> = BTreeMap<&'a str, Vec<(&'a str, bool)>>;

fn right_areas<'a>(trials: &[&'a Trial]) -> ByRule<'a> {
    let mut rules = ByRule::new();
    for (trial, _) in judged(trials) {
        let truth = area(&trial.code);
        let own = area(trial.said_first()) == truth;
        rules.entry(HOLDUP).or_default().push((&trial.code, own));
        for (rule, said) in &trial.baselines {
            let right = said.as_deref() == Some(truth);
            rules.entry(rule).or_default().push((&trial.code, right));
        }
    }
    rules
}

/// What may be claimed against each rule: it must lie below holdup's interval.
fn claim(rules: &ByRule<'_>) -> String {
    let low = rules.get(HOLDUP).map_or(f64::NAN, |own| bootstrap(own).0);
    let inside: Vec<&str> = rules
        .iter()
        .filter(|(rule, of)| **rule != HOLDUP && macro_average(of) >= low)
        .map(|(rule, _)| *rule)
        .collect();
    match inside.as_slice() {
        [] => "above all".into(),
        rules => format!("nothing: {}", rules.join(", ")),
    }
}

/// All rules over all areas.
pub fn overall(trials: &[Trial]) -> String {
    let all: Vec<&Trial> = trials.iter().collect();
    let rules = right_areas(&all);
    let mut out = String::from(
        "| rule | right area, macro average | 95 % interval | alarms on healthy trials |\n\
         | --- | --- | --- | --- |\n",
    );
    for (rule, right) in &rules {
        let (low, high) = bootstrap(right);
        let (mut alarmed, mut healthy) = (0, 0);
        for trial in trials {
            let Some(alarms) = alarms_of_healthy(trial) else { continue };
            let said = trial.baselines.iter().find(|(name, _)| name == rule);
            healthy += 1;
            alarmed += usize::from(match said {
                Some((_, area)) => area.is_some(),
                None => *rule == HOLDUP && !alarms.is_empty(),
            });
        }
        let _ = writeln!(
            out,
            "| {rule} | {} | {} to {} | {alarmed} of {healthy} |",
            percent(macro_average(right)),
            percent(low),
            percent(high)
        );
    }
    let _ = writeln!(out, "\nholdup claims: {}.", claim(&rules));
    out
}

/// The rules by area, and what may be claimed in each.
pub fn by_area(trials: &[Trial]) -> String {
    let mut areas: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| !trial.code.is_empty()) {
        areas.entry(area(&trial.code)).or_default().push(trial);
    }
    let all: Vec<&Trial> = trials.iter().collect();
    let names: Vec<&str> = right_areas(&all).into_keys().filter(|rule| *rule != HOLDUP).collect();
    let mut out = String::from("| area | trials | holdup (95 % interval) |");
    for name in &names {
        let _ = write!(out, " {name} |");
    }
    let _ = writeln!(
        out,
        " holdup claims |\n| --- | --- | --- |{} --- |",
        " --- |".repeat(names.len())
    );
    for (area, trials) in areas {
        let rules = right_areas(&trials);
        let Some(own) = rules.get(HOLDUP) else { continue };
        let (low, high) = bootstrap(own);
        let mean = percent(macro_average(own));
        let _ = write!(
            out,
            "| {area} | {} | {mean} ({} to {}) |",
            own.len(),
            percent(low),
            percent(high)
        );
        for name in &names {
            let of = rules.get(name).map_or(f64::NAN, |of| macro_average(of));
            let _ = write!(out, " {} |", percent(of));
        }
        let _ = writeln!(out, " {} |", claim(&rules));
    }
    out
}

/// Where the truth names a process: how often holdup's first finding, and the knot, name it.
pub fn processes(trials: &[Trial]) -> String {
    let all: Vec<&Trial> = trials.iter().collect();
    let mut own = Vec::new();
    let mut knot = Vec::new();
    for (trial, _) in judged(&all) {
        if let Some((by_holdup, by_knot)) = trial.process_named {
            own.push((trial.code.as_str(), by_holdup));
            knot.push((trial.code.as_str(), by_knot));
        }
    }
    let mut out = format!(
        "Where the truth names a process ({} trials):\n\n\
         | rule | names it, macro average | 95 % interval |\n| --- | --- | --- |\n",
        own.len()
    );
    for (rule, of) in [(HOLDUP, &own), ("raw wait-graph knot", &knot)] {
        let (low, high) = bootstrap(of);
        let mean = percent(macro_average(of));
        let _ = writeln!(out, "| {rule} | {mean} | {} to {} |", percent(low), percent(high));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::trial;
    use super::*;
    use crate::judgement::Judgement;
    use crate::trial::Outcome;

    fn faulted(code: &str, said: &str, pressure: Option<&str>) -> Trial {
        let mut trial = trial(code, Outcome::Faulted(Judgement::default()));
        trial.said = vec![format!("{said} on x by y")];
        trial.baselines = vec![("largest pressure".into(), pressure.map(String::from))];
        trial
    }

    #[test]
    fn a_rule_inside_the_interval_forbids_the_claim() {
        let even = [
            faulted("disk.journal", "disk.saturated", Some("disk")),
            faulted("disk.errors", "disk.errors", Some("disk")),
        ];
        assert!(overall(&even).contains("holdup claims: nothing: largest pressure."));
        assert!(by_area(&even).contains("| disk | 2 | 100.0 % (100.0 % to 100.0 %) | 100.0 % |"));
        let ahead = [
            faulted("lock.file", "lock.file", Some("disk")),
            faulted("lock.futex", "lock.futex", None),
        ];
        assert!(overall(&ahead).contains("holdup claims: above all."), "{}", overall(&ahead));
        let both: Vec<Trial> = even.into_iter().chain(ahead).collect();
        let table = by_area(&both);
        assert!(
            table.contains("| lock | 2 |") && table.contains("| 0.0 % | above all |"),
            "{table}"
        );
        assert!(table.contains("| nothing: largest pressure |"), "{table}");
    }

    #[test]
    fn alarms_of_rules_on_healthy_trials_are_counted() {
        let mut healthy = trial("", Outcome::Healthy(vec![]));
        healthy.baselines = vec![("largest pressure".into(), Some("cpu".into()))];
        let table = overall(&[faulted("lock.file", "lock.file", None), healthy]);
        assert!(table.contains("| holdup | 100.0 % | 100.0 % to 100.0 % | 0 of 1 |"), "{table}");
        assert!(
            table.contains("| largest pressure | 0.0 % | 0.0 % to 0.0 % | 1 of 1 |"),
            "{table}"
        );
    }

    #[test]
    fn processes_are_compared_where_the_truth_names_one() {
        let mut knotted = faulted("lock.file", "lock.file", None);
        knotted.process_named = Some((true, false));
        let table = processes(&[knotted, faulted("disk.errors", "disk.errors", None)]);
        assert!(table.contains("(1 trials)") && table.contains("| raw wait-graph knot | 0.0 % |"));
    }
}
