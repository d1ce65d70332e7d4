//! The figures as tables of Markdown, which read as plain text too.
//!
//! Owns wording and columns; what a figure is, is in `score`, and the comparison with simple rules in
//! `versus`. Names from the host have been stripped of control characters before they come here.

use super::{Row, bootstrap, judged, macro_average, median, percent, rows, ways_out};
use crate::case::{Case, Outcome, Tried};
use crate::remedy::ENOUGH;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// All figures: a column for each seed, and one for all of them.
pub fn figures(cases: &[Case]) -> String {
    let seeds: BTreeSet<u64> = cases.iter().map(|case| case.seed).collect();
    let mut columns: Vec<(String, Vec<Row>)> = Vec::new();
    if seeds.len() > 1 {
        for seed in &seeds {
            let of_seed: Vec<&Case> = cases.iter().filter(|case| case.seed == *seed).collect();
            columns.push((format!("seed {seed}"), rows(&of_seed)));
        }
    }
    let all: Vec<&Case> = cases.iter().collect();
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
pub fn codes(cases: &[Case]) -> String {
    let mut by_code: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in cases.iter().filter(|case| !case.code.is_empty()) {
        by_code.entry(&case.code).or_default().push(case);
    }
    let mut out = String::from(
        "| code | cases | top-1 | top-3 | size error, median | chain | remedy helps | refused |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (code, cases) in by_code {
        let judged = judged(&cases);
        let count = |right: usize| format!("{right} of {}", judged.len());
        let mut errors: Vec<f64> = judged.iter().filter_map(|(_, v)| v.quantity_error).collect();
        let links = judged.iter().fold((0, 0), |s, (_, v)| (s.0 + v.chain.0, s.1 + v.chain.1));
        let ways = ways_out(&cases);
        let refused = cases.iter().filter(|c| matches!(c.outcome, Outcome::Refused { .. })).count();
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
pub fn confusion(cases: &[Case]) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut right = 0;
    let mut total = 0;
    for case in cases {
        let (truth, said) = match &case.outcome {
            Outcome::Faulted(_) => (case.code.as_str(), case.said_first()),
            _ => match super::alarms_of_healthy(case) {
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
    let mut out = String::from("| true | said | cases |\n| --- | --- | --- |\n");
    for ((truth, said), count) in counts {
        let _ = writeln!(out, "| {truth} | {said} | {count} |");
    }
    let _ = writeln!(out, "| the code itself | the same | {right} of {total} |");
    out
}

/// Everything that is not as it should be, one line each: the case it is of, and what is wrong.
pub fn misses(cases: &[Case]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for case in cases {
        let name = format!("{} (seed {})", case.scenario, case.seed);
        lines.extend(wrong_with(case).into_iter().map(|what| (name.clone(), what)));
    }
    lines
}

fn wrong_with(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    match &case.outcome {
        Outcome::Faulted(v) if !v.top1 => {
            let said = if case.said.is_empty() { "nothing".into() } else { case.said.join("; ") };
            let (truth, what) = (&case.truth, v.wrong.join(", "));
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
    if let Outcome::Faulted(v) = &case.outcome {
        if !v.forbidden.is_empty() {
            wrong.push(format!("forbidden beside it: {}", v.forbidden.join(", ")));
        }
        if v.top1 && v.asks_quantity && v.quantity_error.is_none_or(|e| e > 0.1) {
            wrong.push(format!("size: {}", v.quantity_error.map_or("not said".into(), percent)));
        }
    }
    if let (Some(neighbour), Some(code)) = (&case.beside.neighbour, &case.beside.neighbour_named) {
        wrong.push(format!("the harmless neighbour ({neighbour}) is named in {code}"));
    }
    if let Some(fields) = case.replay_differences.as_ref().filter(|d| !d.is_empty()) {
        wrong.push(format!("replay differs in {}", fields[..fields.len().min(5)].join(", ")));
    }
    wrong
}

/// Injections that were refused, and cases admitted without a figure.
pub fn refused(cases: &[Case]) -> String {
    let mut out = String::new();
    for case in cases {
        let name = format!("{} (seed {})", case.scenario, case.seed);
        match &case.outcome {
            Outcome::Refused { why, alarms } => {
                let asked = if alarms.is_some() { "counted as healthy" } else { "not asked" };
                let _ = writeln!(out, "- {name}: {why}; {asked}");
            }
            Outcome::Faulted(_) if !case.has_figure => {
                let check = "no figure: admitted by the injector's own check alone";
                let _ = writeln!(out, "- {name}: {check}");
            }
            _ => {}
        }
    }
    if out.is_empty() { "none\n".into() } else { out }
}

/// Ways out that did not help, were not run, or cannot be told. A path below a process's root is written as
/// `/proc/PID/root:/path`: as it was run, it would look like one of this machine's own.
pub fn remedies(cases: &[Case]) -> String {
    let mut out = String::new();
    let below_root = ["", "root", ""].join("/");
    let all: Vec<&Case> = cases.iter().collect();
    for (case, _) in judged(&all) {
        let told = match &case.tried {
            Some(Tried::Applied { command, recovered, note, undone }) => {
                let back = match recovered {
                    Some(share)
                        if *share >= ENOUGH && *undone != Some(false) && note.is_empty() =>
                    {
                        continue;
                    }
                    Some(share) => format!("{} of the loss came back", percent(*share)),
                    None => "no figure tells whether it helped".into(),
                };
                let note = if note.is_empty() { String::new() } else { format!("; {note}") };
                format!("`{command}`: {back}{note}")
            }
            Some(Tried::NotApplied { command, why }) => format!("`{command}`: not run, {why}"),
            Some(Tried::LooksOnly { command }) => format!("`{command}` only looks"),
            Some(Tried::NoCommand) => "no command".into(),
            None => continue,
        };
        let told = told.replace(&below_root, "/root:/");
        let _ = writeln!(out, "- {}, {} (seed {}): {told}", case.code, case.scenario, case.seed);
    }
    if out.is_empty() { "none\n".into() } else { out }
}

/// Where the time of a run went.
pub fn time(cases: &[Case]) -> String {
    let mut phases: BTreeMap<&str, f64> = BTreeMap::new();
    let mut slowest: Vec<(f64, &Case)> = Vec::new();
    for case in cases {
        for (phase, seconds) in &case.spent {
            *phases.entry(phase).or_default() += seconds;
        }
        slowest.push((case.spent.values().sum(), case));
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
        slowest.iter().take(5).map(|(s, case)| format!("{} {s:.0} s", case.scenario)).collect();
    format!(
        "{} cases, {total:.0} s: {}. Longest: {}.",
        cases.len(),
        words.join(", "),
        longest.join(", ")
    )
}

/// Strict top-1 in one line, for the end of a run.
pub fn summary(cases: &[Case]) -> String {
    let all: Vec<&Case> = cases.iter().collect();
    let top1: Vec<_> = judged(&all).iter().map(|(c, v)| (c.code.as_str(), v.top1)).collect();
    let (low, high) = bootstrap(&top1);
    let mean = percent(macro_average(&top1));
    format!("strict top-1 {mean} (95 % interval {} to {})", percent(low), percent(high))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{case, right};
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn seeds_stand_side_by_side_and_one_seed_alone() {
        let mut second = case("fs.frozen", Outcome::Faulted(Verdict::default()));
        second.seed = 2;
        let one = figures(&[case("fs.frozen", right())]);
        assert!(one.starts_with("| figure | value | of |\n| --- | --- | --- |\n"), "{one}");
        let both = figures(&[case("fs.frozen", right()), second]);
        assert!(both.starts_with("| figure | seed 1 | seed 2 | all | of |\n"), "{both}");
        let first = "| strict top-1, macro average | 100.0 % | 0.0 % | 50.0 % | 1 of 2 cases right";
        assert!(both.contains(first), "{both}");
    }

    #[test]
    fn misses_tell_silence_alarms_sizes_and_neighbours() {
        let silent = Verdict { wrong: vec!["nothing was said".into()], ..Verdict::default() };
        let unsized_ =
            Verdict { top1: true, asks_quantity: true, quantity_error: None, ..Verdict::default() };
        let mut beside = case("", Outcome::Healthy(vec!["cpu.saturated on".into()]));
        beside.beside.neighbour = Some("a pool".into());
        beside.beside.neighbour_named = Some("cpu.saturated".into());
        let refused =
            Outcome::Refused { why: "3 %".into(), alarms: Some(vec!["disk.errors on".into()]) };
        let cases = [
            case("disk.journal", Outcome::Faulted(silent)),
            case("disk.journal", Outcome::Faulted(unsized_)),
            beside,
            case("fs.frozen", refused),
        ];
        let told: Vec<String> = misses(&cases).into_iter().map(|(_, what)| what).collect();
        for word in ["missed", "not said", "false alarm: cpu", "neighbour", "refused fault"] {
            assert!(told.iter().any(|what| what.contains(word)), "{word}: {told:?}");
        }
        let matrix = confusion(&cases);
        assert!(matrix.contains("| disk.journal | nothing | 2 |"), "{matrix}");
        assert!(matrix.contains("| nothing | cpu.saturated | 1 |"), "{matrix}");
        assert!(codes(&cases).contains("| disk.journal | 2 | 1 of 2 | 0 of 2 |"));
    }

    #[test]
    fn refused_and_without_a_figure_are_printed() {
        let refused = Outcome::Refused { why: "3 %".into(), alarms: Some(vec![]) };
        let mut check = case("cpu.rt_denied", right());
        check.has_figure = false;
        let told = super::refused(&[case("fs.frozen", refused), check, case("fs.frozen", right())]);
        assert!(told.contains("3 %; counted as healthy") && told.contains("own check alone"));
        assert_eq!(told.lines().count(), 2);
    }

    #[test]
    fn a_way_out_that_helps_is_not_listed() {
        let applied = |recovered, note: &str| Tried::Applied {
            command: "kill 7".into(),
            recovered,
            note: note.into(),
            undone: None,
        };
        let of = |tried| Case { tried: Some(tried), ..case("a.b", right()) };
        let cases = [
            of(applied(Some(0.8), "")),
            of(applied(Some(0.2), "it failed: 1")),
            of(Tried::LooksOnly { command: ["cat /proc/7", "root", "etc/x"].join("/") }),
        ];
        let told = remedies(&cases);
        assert!(told.contains("/proc/7/root:/etc/x"), "{told}");
        assert_eq!(told.lines().count(), 2, "{told}");
        assert!(told.contains("20.0 % of the loss came back; it failed: 1"), "{told}");
    }
}
