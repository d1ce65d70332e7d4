//! `docs/accuracy.md`: the whole score as a page, with the causes of its misses as people found them.
//!
//! The figures are worked out anew each time; the causes are written by hand in `lab/misses.md`, a line
//! `- SCENARIO: cause` or `- SCENARIO (seed N): cause` each (indented lines go on), and printed beside the
//! miss that they explain. A miss without one says so, and a cause whose miss is gone is left out. Rejected:
//! editing the page itself (the next run would have to tell its words from the lab's). One section is not the lab's: that of
//! the field corpus, between its own markers, which is taken over as it stands.
//!
//! Edit together: README.md, docs/lab.md; lab/field/harness/page.py, which writes that section.

use crate::score::{confidence, tables, versus};
use crate::trial::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Where the section of the field corpus begins and ends.
const FIELD: [&str; 2] = ["<!-- field: begin -->", "<!-- field: end -->"];

/// The new page, with the field's section of the old one at its end.
pub fn with_field_section(page: String, old: &str) -> String {
    let [begin, end] = FIELD;
    let section = old.find(begin).and_then(|from| {
        let length = old[from..].find(end)? + end.len();
        Some(&old[from..from + length])
    });
    match section {
        Some(section) => format!("{page}\n{section}\n"),
        None => page,
    }
}

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
pub fn misses(trials: &[Trial], causes: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    for (name, what) in tables::misses(trials) {
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
pub fn accuracy(trials: &[Trial], causes: &BTreeMap<String, String>, origin: &Origin) -> String {
    let seeds: BTreeSet<u64> = trials.iter().map(|trial| trial.seed).collect();
    let words: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let options: Vec<String> = seeds.iter().map(|seed| format!("--seed {seed}")).collect();
    let Origin { date, kernel, cpus, version } = origin;
    let sections = [
        ("", tables::figures(trials)),
        ("Simple rules on the same trials", versus_text(trials)),
        ("By code", tables::codes(trials)),
        ("Confidence and outcome", confidence_text(trials)),
        ("True and said", tables::confusion(trials)),
        ("What is wrong", misses(trials, causes)),
        ("Printed ways out that did not help, or could not be tried", tables::remedies(trials)),
        ("Refused injections, and faults admitted without a figure", tables::refused(trials)),
        ("Where the time went", tables::time(trials) + "\n"),
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
pub fn versus_text(trials: &[Trial]) -> String {
    format!(
        "Compared by area (`disk` of `disk.journal`), because most of them name neither cause nor culprit. \
         holdup claims nothing where a rule lies within its interval.\n\n{}\n{}\n{}",
        versus::overall(trials),
        versus::by_area(trials),
        versus::processes(trials)
    )
}

/// How sure holdup said it was beside how often it was right, with a sentence on what is counted.
pub fn confidence_text(trials: &[Trial]) -> String {
    format!(
        "All trials with a finding, by the confidence of the first one: right is code, object and culprit; an alarm of a \
         healthy trial is wrong.\n\n{}",
        confidence::table(trials)
    )
}

/// All of it as text for a terminal.
pub fn text(trials: &[Trial], causes: &BTreeMap<String, String>) -> String {
    let parts = [
        tables::figures(trials),
        versus_text(trials),
        tables::codes(trials),
        confidence_text(trials),
        tables::confusion(trials),
        format!("misses:\n{}", misses(trials, causes)),
        format!("ways out that did not help or were not run:\n{}", tables::remedies(trials)),
        format!("refused, or without a figure:\n{}", tables::refused(trials)),
        tables::time(trials),
        tables::summary(trials),
    ];
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::Judgement;
    use crate::trial::Outcome;

    fn missed(seed: u64) -> Trial {
        let mut trial = Trial::new("disk-journal", seed);
        trial.code = "disk.journal".into();
        trial.outcome = Outcome::Faulted(Judgement::default());
        trial
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
        let reported = misses(&[missed(1), missed(2)], &causes);
        assert!(
            reported.contains("cause: in general") && reported.contains("cause: of this one"),
            "{reported}"
        );
        assert!(!reported.contains("gone"));
        assert!(misses(&[missed(1)], &BTreeMap::new()).contains("not looked into yet"));
    }

    #[test]
    fn the_fields_section_is_taken_over_as_it_stands() {
        let [begin, end] = FIELD;
        let old = format!("# Accuracy\n\nold\n\n{begin}\n\n## The field\n\n{end}\n");
        let new = with_field_section("# Accuracy\n\nnew\n".into(), &old);
        assert_eq!(new, format!("# Accuracy\n\nnew\n\n{begin}\n\n## The field\n\n{end}\n"));
        assert_eq!(with_field_section("new\n".into(), "old\n"), "new\n");
        assert_eq!(with_field_section("new\n".into(), begin), "new\n");
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
            "## Confidence and outcome",
            "## What is wrong",
            "holdup claims",
        ] {
            assert!(page.contains(word), "{word}");
        }
        assert!(page.ends_with('\n') && !page.ends_with("\n\n"));
    }
}
