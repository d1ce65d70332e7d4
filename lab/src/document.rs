//! `docs/accuracy.md`: the whole score as a page, with the causes of its misses as people found them.
//!
//! The figures are worked out anew each time; the causes are written by hand in `lab/misses.md`, a line
//! `- SCENARIO: cause` or `- SCENARIO (seed N): cause` each (indented lines go on), and printed beside the
//! miss that they explain. A miss without one says so, and a cause whose miss is gone is left out. Rejected:
//! editing the page itself (the next run would have to tell its words from the lab's).
//!
//! Edit together: README.md, docs/lab.md.

use crate::case::Case;
use crate::score::{tables, versus};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Causes by scenario, or by scenario and seed.
pub fn causes(text: &str) -> BTreeMap<String, String> {
    let mut causes: BTreeMap<String, String> = BTreeMap::new();
    let mut last: Option<String> = None;
    for line in text.lines() {
        if let Some((name, cause)) = line.strip_prefix("- ").and_then(|l| l.split_once(": ")) {
            causes.insert(name.trim().into(), cause.trim().into());
            last = Some(name.trim().into());
        } else if line.starts_with("  ") && !line.trim().is_empty() {
            if let Some(cause) = last.as_ref().and_then(|name| causes.get_mut(name)) {
                *cause += &format!(" {}", line.trim());
            }
        } else {
            last = None;
        }
    }
    causes
}

/// The list of misses, each with its cause if one is known.
pub fn misses(cases: &[Case], causes: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    for (name, what) in tables::misses(cases) {
        let scenario = name.split(" (seed").next().unwrap_or_default();
        let cause = causes.get(&name).or_else(|| causes.get(scenario));
        let cause = cause.map_or("not looked into yet", String::as_str);
        let _ = writeln!(out, "- {name}: {what}\n  - cause: {cause}");
    }
    if out.is_empty() { "none\n".into() } else { out }
}

/// What the page says of where it comes from.
pub struct Origin {
    /// The day, as 2026-01-31.
    pub date: String,
    /// `uname -r`.
    pub kernel: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Version of holdup.
    pub version: String,
}

/// The page.
pub fn accuracy(cases: &[Case], causes: &BTreeMap<String, String>, origin: &Origin) -> String {
    let seeds: BTreeSet<u64> = cases.iter().map(|case| case.seed).collect();
    let words: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let options: Vec<String> = seeds.iter().map(|seed| format!("--seed {seed}")).collect();
    let Origin { date, kernel, cpus, version } = origin;
    let sections = [
        ("", tables::figures(cases)),
        ("Simple rules on the same cases", versus_text(cases)),
        ("By code", tables::codes(cases)),
        ("True and said", tables::confusion(cases)),
        ("What is wrong", misses(cases, causes)),
        ("Printed ways out that did not help, or could not be tried", tables::remedies(cases)),
        ("Refused injections, and faults admitted without a figure", tables::refused(cases)),
        ("Where the time went", tables::time(cases) + "\n"),
    ];
    let mut out = format!(
        "# Accuracy\n\nMeasured by the lab on {date} with kernel {kernel} on {cpus} CPUs, holdup {version}, \
         seeds {}. How it is scored: [lab.md](lab.md). To repeat it, as root:\n\n\
         ```console untested=takes-up-to-40-minutes-a-seed-as-root\n\
         $ make lab SEED=\"{}\"\n\
         $ cargo run --release -p holdup-lab -- run {} --write-docs\n```\n\n",
        words.join(", "),
        words.join(" "),
        options.join(" ")
    );
    for (title, text) in sections {
        if !title.is_empty() {
            let _ = writeln!(out, "## {title}\n");
        }
        let _ = writeln!(out, "{text}");
    }
    out.trim_end().to_string() + "\n"
}

/// holdup beside the simple rules, with a sentence on how they are compared.
pub fn versus_text(cases: &[Case]) -> String {
    format!(
        "Compared by area (`disk` of `disk.journal`), because most of them name neither cause nor culprit. \
         holdup claims nothing where a rule lies within its interval.\n\n{}\n{}\n{}",
        versus::overall(cases),
        versus::by_area(cases),
        versus::processes(cases)
    )
}

/// All of it as text for a terminal.
pub fn told(cases: &[Case], causes: &BTreeMap<String, String>) -> String {
    let parts = [
        tables::figures(cases),
        versus_text(cases),
        tables::codes(cases),
        tables::confusion(cases),
        format!("misses:\n{}", misses(cases, causes)),
        format!("ways out that did not help or were not run:\n{}", tables::remedies(cases)),
        format!("refused, or without a figure:\n{}", tables::refused(cases)),
        tables::time(cases),
        tables::summary(cases),
    ];
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Outcome;
    use crate::verdict::Verdict;

    fn missed(seed: u64) -> Case {
        let mut case = Case::new("disk-journal", seed);
        case.code = "disk.journal".into();
        case.outcome = Outcome::Faulted(Verdict::default());
        case
    }

    #[test]
    fn causes_are_read_with_what_goes_on_below() {
        let text = "# Misses\n\nprose - not: one\n\n- a: first\n  second\n- b (seed 3): other\n\n  not of it\n";
        let causes = causes(text);
        assert_eq!(causes["a"], "first second");
        assert_eq!(causes["b (seed 3)"], "other");
        assert_eq!(causes.len(), 2);
    }

    #[test]
    fn a_cause_stands_by_its_miss_the_seed_before_the_scenario() {
        let causes =
            causes("- disk-journal: in general\n- disk-journal (seed 2): of this one\n- gone: x\n");
        let told = misses(&[missed(1), missed(2)], &causes);
        assert!(
            told.contains("cause: in general") && told.contains("cause: of this one"),
            "{told}"
        );
        assert!(!told.contains("gone"));
        assert!(misses(&[missed(1)], &BTreeMap::new()).contains("not looked into yet"));
    }

    #[test]
    fn the_page_has_seeds_commands_and_all_sections() {
        let origin = Origin {
            date: "2026-01-31".into(),
            kernel: "6.18".into(),
            cpus: 2,
            version: "0.1".into(),
        };
        let page = accuracy(&[missed(1), missed(2)], &BTreeMap::new(), &origin);
        for word in [
            "kernel 6.18 on 2 CPUs",
            "--seed 1 --seed 2 --write-docs",
            "| figure | seed 1 | seed 2 | all | of |",
            "## By code",
            "## What is wrong",
            "holdup claims",
        ] {
            assert!(page.contains(word), "{word}");
        }
        assert!(page.ends_with('\n') && !page.ends_with("\n\n"));
    }
}
