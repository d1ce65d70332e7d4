//! The figures as tables of Markdown, which read as plain text too.
//!
//! Owns wording and columns; what a figure is, is in `score`, and the comparison with simple rules in
//! `versus`. Names from the host have been stripped of control characters before they come here.

use super::{Row, bootstrap, judged, macro_average, median, percent, rows, ways_out};
use crate::remedy::ENOUGH;
use crate::trial::{Outcome, Trial, Tried};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// All figures: a column for each seed, and one for all of them.
pub fn figures(trials: &[Trial]) -> String {
    let seeds: BTreeSet<u64> = trials.iter().map(|trial| trial.seed).collect();
    let mut columns: Vec<(String, Vec<Row>)> = Vec::new();
    if seeds.len() > 1 {
        for seed in &seeds {
            let of_seed: Vec<&Trial> = trials.iter().filter(|trial| trial.seed == *seed).collect();
            columns.push((format!("seed {seed}"), rows(&of_seed)));
        }
    }
    let all: Vec<&Trial> = trials.iter().collect();
    let last = if seeds.len() > 1 { "all" } else { "value" };
    columns.push((last.into(), rows(&all)));
    let mut out = String::from("| figure |");
    for (name, _) in &columns {
        let _ = write!(out, " {name} |");
    }
    let _ = writeln!(out, " of |\n| --- |{} --- |", " --- |".repeat(columns.len()));
    let total = &columns[columns.len() - 1].1;
    for (at, row) in total.iter().enumerate() {
        let _ = write!(out, "| {} |", row.name);
        for (_, rows) in &columns {
            let _ = write!(out, " {} |", rows[at].value);
        }
        let _ = writeln!(out, " {} |", row.of);
    }
    out
}

/// A line for each code.
pub fn codes(trials: &[Trial]) -> String {
    let mut by_code: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| !trial.code.is_empty()) {
        by_code.entry(&trial.code).or_default().push(trial);
    }
    let mut out = String::from(
        "| code | trials | top-1 | top-3 | size error, median | chain | remedy helps | refused |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (code, trials) in by_code {
        let judged = judged(&trials);
        let count = |right: usize| format!("{right} of {}", judged.len());
        let mut errors: Vec<f64> = judged.iter().filter_map(|(_, v)| v.quantity_error).collect();
        let links = judged.iter().fold((0, 0), |s, (_, v)| (s.0 + v.chain.0, s.1 + v.chain.1));
        let ways = ways_out(&trials);
        let refused =
            trials.iter().filter(|c| matches!(c.outcome, Outcome::Refused { .. })).count();
        let of = |part: usize, whole: usize| {
            if whole == 0 { "-".into() } else { format!("{part} of {whole}") }
        };
        let _ = writeln!(
            out,
            "| {code} | {} | {} | {} | {} | {} | {} | {refused} |",
            judged.len(),
            count(judged.iter().filter(|(_, v)| v.top1).count()),
            count(judged.iter().filter(|(_, v)| v.top3).count()),
            percent(median(&mut errors)),
            of(links.0, links.1),
            of(ways.helped, ways.applied),
        );
    }
    out
}

/// True code by first said code: what was taken for something else; the right ones are in one line.
pub fn confusion(trials: &[Trial]) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut right = 0;
    let mut total = 0;
    for trial in trials {
        let (truth, said) = match &trial.outcome {
            Outcome::Faulted(_) => (trial.code.as_str(), trial.said_first()),
            _ => match super::alarms_of_healthy(trial) {
                Some([]) => ("nothing", "nothing"),
                Some([first, ..]) => ("nothing", first.split(' ').next().unwrap_or_default()),
                None => continue,
            },
        };
        total += 1;
        if truth == said {
            right += 1;
        } else {
            *counts.entry((truth, said)).or_default() += 1;
        }
    }
    let mut out = String::from("| true | said | trials |\n| --- | --- | --- |\n");
    for ((truth, said), count) in counts {
        let _ = writeln!(out, "| {truth} | {said} | {count} |");
    }
    let _ = writeln!(out, "| the code itself | the same | {right} of {total} |");
    out
}

/// Everything that is not as it should be, one line each: the trial it is of, and what is wrong.
pub fn misses(trials: &[Trial]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for trial in trials {
        let name = format!("{} (seed {})", trial.scenario, trial.seed);
        lines.extend(wrong_with(trial).into_iter().map(|what| (name.clone(), what)));
    }
    lines
}

fn wrong_with(trial: &Trial) -> Vec<String> {
    let mut wrong = Vec::new();
    match &trial.outcome {
        Outcome::Faulted(v) if !v.top1 => {
            let said = if trial.said.is_empty() { "nothing".into() } else { trial.said.join("; ") };
            let (truth, what) = (&trial.truth, v.wrong.join(", "));
            wrong.push(format!("missed. Truth: {truth}. Wrong: {what}. Said: {said}"));
        }
        Outcome::Healthy(alarms) if !alarms.is_empty() => {
            wrong.push(format!("false alarm: {}", alarms.join("; ")));
        }
        Outcome::Refused { alarms: Some(alarms), .. } if !alarms.is_empty() => {
            wrong.push(format!("false alarm of a refused fault: {}", alarms.join("; ")));
        }
        Outcome::Broken(why) => wrong.push(format!("broken: {why}")),
        _ => {}
    }
    if let Outcome::Faulted(v) = &trial.outcome {
        if !v.forbidden.is_empty() {
            wrong.push(format!("forbidden beside it: {}", v.forbidden.join(", ")));
        }
        if v.top1 && v.asks_quantity && v.quantity_error.is_none_or(|e| e > 0.1) {
            wrong.push(format!("size: {}", v.quantity_error.map_or("not said".into(), percent)));
        }
    }
    if let (Some(neighbour), Some(code)) = (&trial.beside.neighbour, &trial.beside.neighbour_named)
    {
        wrong.push(format!("the harmless neighbour ({neighbour}) is named in {code}"));
    }
    if let Some(fields) = trial.replay_differences.as_ref().filter(|d| !d.is_empty()) {
        wrong.push(format!("replay differs in {}", fields[..fields.len().min(5)].join(", ")));
    }
    wrong
}

/// Injections that were refused, trials that prove nothing, and trials admitted without a figure.
pub fn refused(trials: &[Trial]) -> String {
    let mut out = String::new();
    for trial in trials {
        let name = format!("{} (seed {})", trial.scenario, trial.seed);
        match &trial.outcome {
            Outcome::Refused { why, alarms } => {
                let asked = if alarms.is_some() { "counted as healthy" } else { "not asked" };
                let _ = writeln!(out, "- {name}: {why}; {asked}");
            }
            Outcome::Disturbed(why) => {
                let _ = writeln!(out, "- {name}: {why}; not counted");
            }
            Outcome::Faulted(_) if !trial.has_figure => {
                let check = "no figure: admitted by the injector's own check alone";
                let _ = writeln!(out, "- {name}: {check}");
            }
            _ => {}
        }
    }
    if out.is_empty() { "none\n".into() } else { out }
}

/// Ways out that did not help, were not run, or cannot be decided. A path below a process's root is written as
/// `/proc/PID/root:/path`: as it was run, it would look like one of this machine's own.
pub fn remedies(trials: &[Trial]) -> String {
    let mut out = String::new();
    let below_root = ["", "root", ""].join("/");
    let all: Vec<&Trial> = trials.iter().collect();
    for (trial, _) in judged(&all) {
        let reported = match &trial.tried {
            Some(Tried::Applied { command, recovered, remark, undone }) => {
                let back = match recovered {
                    Some(share)
                        if *share >= ENOUGH && *undone != Some(false) && remark.is_empty() =>
                    {
                        continue;
                    }
                    Some(share) => format!("{} of the loss came back", percent(*share)),
                    None => "no figure tells whether it helped".into(),
                };
                let remark = if remark.is_empty() { String::new() } else { format!("; {remark}") };
                format!("`{command}`: {back}{remark}")
            }
            Some(Tried::NotApplied { command, why }) => format!("`{command}`: not run, {why}"),
            Some(Tried::LooksOnly { command }) => format!("`{command}` only looks"),
            Some(Tried::NoCommand) => "no command".into(),
            None => continue,
        };
        let reported = reported.replace(&below_root, "/root:/");
        let _ =
            writeln!(out, "- {}, {} (seed {}): {reported}", trial.code, trial.scenario, trial.seed);
    }
    if out.is_empty() { "none\n".into() } else { out }
}

/// Where the time of a run went.
pub fn time(trials: &[Trial]) -> String {
    let mut phases: BTreeMap<&str, f64> = BTreeMap::new();
    let mut slowest: Vec<(f64, &Trial)> = Vec::new();
    for trial in trials {
        for (phase, seconds) in &trial.spent {
            *phases.entry(phase).or_default() += seconds;
        }
        slowest.push((trial.spent.values().sum(), trial));
    }
    let total: f64 = phases.values().sum();
    let mut phases: Vec<_> = phases.into_iter().collect();
    phases.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<_> = phases
        .iter()
        .map(|(phase, s)| format!("{phase} {s:.0} s ({:.0} %)", s / total.max(1e-9) * 100.0))
        .collect();
    slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let longest: Vec<_> =
        slowest.iter().take(5).map(|(s, trial)| format!("{} {s:.0} s", trial.scenario)).collect();
    format!(
        "{} trials, {total:.0} s: {}. Longest: {}.",
        trials.len(),
        words.join(", "),
        longest.join(", ")
    )
}

/// Strict top-1 in one line, for the end of a run.
pub fn summary(trials: &[Trial]) -> String {
    let all: Vec<&Trial> = trials.iter().collect();
    let top1: Vec<_> = judged(&all).iter().map(|(c, v)| (c.code.as_str(), v.top1)).collect();
    let (low, high) = bootstrap(&top1);
    let mean = percent(macro_average(&top1));
    format!("strict top-1 {mean} (95 % interval {} to {})", percent(low), percent(high))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{right, trial};
    use super::*;
    use crate::judgement::Judgement;

    #[test]
    fn seeds_stand_side_by_side_and_one_seed_alone() {
        let mut second = trial("fs.frozen", Outcome::Faulted(Judgement::default()));
        second.seed = 2;
        let one = figures(&[trial("fs.frozen", right())]);
        assert!(one.starts_with("| figure | value | of |\n| --- | --- | --- |\n"), "{one}");
        let both = figures(&[trial("fs.frozen", right()), second]);
        assert!(both.starts_with("| figure | seed 1 | seed 2 | all | of |\n"), "{both}");
        let first =
            "| strict top-1, macro average | 100.0 % | 0.0 % | 50.0 % | 1 of 2 trials right";
        assert!(both.contains(first), "{both}");
    }

    #[test]
    fn misses_tell_silence_alarms_sizes_and_neighbours() {
        let silent = Judgement { wrong: vec!["nothing was said".into()], ..Judgement::default() };
        let unsized_ = Judgement {
            top1: true,
            asks_quantity: true,
            quantity_error: None,
            ..Judgement::default()
        };
        let mut beside = trial("", Outcome::Healthy(vec!["cpu.saturated on".into()]));
        beside.beside.neighbour = Some("a pool".into());
        beside.beside.neighbour_named = Some("cpu.saturated".into());
        let refused =
            Outcome::Refused { why: "3 %".into(), alarms: Some(vec!["disk.errors on".into()]) };
        let trials = [
            trial("disk.journal", Outcome::Faulted(silent)),
            trial("disk.journal", Outcome::Faulted(unsized_)),
            beside,
            trial("fs.frozen", refused),
        ];
        let reported: Vec<String> = misses(&trials).into_iter().map(|(_, what)| what).collect();
        for word in ["missed", "not said", "false alarm: cpu", "neighbour", "refused fault"] {
            assert!(reported.iter().any(|what| what.contains(word)), "{word}: {reported:?}");
        }
        let matrix = confusion(&trials);
        assert!(matrix.contains("| disk.journal | nothing | 2 |"), "{matrix}");
        assert!(matrix.contains("| nothing | cpu.saturated | 1 |"), "{matrix}");
        assert!(codes(&trials).contains("| disk.journal | 2 | 1 of 2 | 0 of 2 |"));
    }

    #[test]
    fn refused_and_without_a_figure_are_printed() {
        let refused = Outcome::Refused { why: "3 %".into(), alarms: Some(vec![]) };
        let mut check = trial("cpu.rt_denied", right());
        check.has_figure = false;
        let reported =
            super::refused(&[trial("fs.frozen", refused), check, trial("fs.frozen", right())]);
        assert!(
            reported.contains("3 %; counted as healthy") && reported.contains("own check alone")
        );
        assert_eq!(reported.lines().count(), 2);
    }

    #[test]
    fn a_way_out_that_helps_is_not_listed() {
        let applied = |recovered, remark: &str| Tried::Applied {
            command: "kill 7".into(),
            recovered,
            remark: remark.into(),
            undone: None,
        };
        let of = |tried| Trial { tried: Some(tried), ..trial("a.b", right()) };
        let trials = [
            of(applied(Some(0.8), "")),
            of(applied(Some(0.2), "it failed: 1")),
            of(Tried::LooksOnly { command: ["cat /proc/7", "root", "etc/x"].join("/") }),
        ];
        let reported = remedies(&trials);
        assert!(reported.contains("/proc/7/root:/etc/x"), "{reported}");
        assert_eq!(reported.lines().count(), 2, "{reported}");
        assert!(reported.contains("20.0 % of the loss came back; it failed: 1"), "{reported}");
    }
}
