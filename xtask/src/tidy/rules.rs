//! House rule on the rules that name causes: what holdup says, the lab can provoke and the docs explain.
//!
//! A rule is a file crates/reason/src/rules/<area>/<cause>.rs that states its code (`code: "area.cause"`). Each code needs
//! a scenario of the lab, or a check of its virtual machines, whose truth is that code, and its page in docs/. What no machine
//! of the lab can have stands in docs/limits.md, which says that nobody has seen it be right.
//! Read as text, not linked: it must be possible to say that the table does not build. What a rule's numbers and
//! refutations must have is in rule_parts.rs.

use super::Breach;
use crate::tree::{File, Tree};
use regex_lite::Regex;

/// Where the rules are.
pub(super) const RULES: &str = "crates/reason/src/rules/";

/// Where a rule states its code.
const CODE: &str = r#"(?:code\s*[:=]|CODE:\s*&(?:'static )?str\s*=)\s*"((?:cpu|memory|disk|fs|net|lock|process|guest)\.[a-z0-9_]+)""#;

/// Every rule is in a file of its name, and has a scenario and docs.
pub(super) fn every_rule_has_its_file_scenario_and_docs(tree: &Tree) -> Vec<Breach> {
    let Ok(code) = Regex::new(CODE) else { return Vec::new() };
    let of_rules = |file: &&File| file.path.starts_with(RULES) && file.has_extension(&[".rs"]);
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(of_rules) {
        let text = file.text();
        let rule = text.split("#[cfg(test)]").next().unwrap_or_default();
        for found in code.captures_iter(rule) {
            let (Some(place), Some(name)) = (found.get(0), found.get(1)) else { continue };
            let line = rule[..place.start()].lines().count().max(1);
            let name = name.as_str();
            let own = format!("{RULES}{}.rs", name.replace('.', "/"));
            if file.path != own {
                let why = format!("rule {name} is not in a file of its name");
                breaches.push(Breach::at(file, line, why, format!("move it to {own}")));
            }
            if !mentioned(tree, "lab/scenarios/", &["scenario.toml"], name)
                && !mentioned(tree, "lab/src/vm/", &["checks.rs"], name)
                && !mentioned(tree, "docs/limits.md", &[".md"], name)
            {
                let why = format!("rule {name} has no scenario: nobody has seen it be right");
                let fix = format!(
                    "add lab/scenarios/<name>/scenario.toml whose truth is code = \"{name}\", or, for a kernel that \
                     only a guest has, a check to lab/src/vm/checks.rs; if no machine of the lab can have it, admit it \
                     in docs/limits.md"
                );
                breaches.push(Breach::at(file, line, why, fix));
            }
            if !mentioned(tree, "docs/codes.md", &[".md"], name) {
                let why = format!("rule {name} is not in docs/codes.md");
                let fix = "generate the docs of the codes again (docs/writing-a-rule.md says how)";
                breaches.push(Breach::at(file, line, why, fix));
            }
        }
    }
    breaches
}

/// Whether a file there holds the code as a whole word.
fn mentioned(tree: &Tree, below: &str, endings: &[&str], code: &str) -> bool {
    let there = |file: &&File| file.path.starts_with(below) && file.has_extension(endings);
    tree.files.iter().filter(there).any(|file| {
        let text = file.text();
        let mut rest = &*text;
        while let Some(start) = rest.find(code) {
            let end = start + code.len();
            let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if !part(rest[..start].chars().next_back()) && !part(rest[end..].chars().next()) {
                return true;
            }
            rest = &rest[end..];
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "//! A.\npub static RULE: Rule = Rule {\n    code: \"lock.file\",\n};\n#[cfg(test)]\nmod tests { /* code: \"lock.lease\" */ }\n";

    #[test]
    fn a_rule_without_scenario_and_docs_is_found() {
        let other = ("lab/scenarios/x/scenario.toml", "code = \"lock.file_other\"");
        let breaches = every_rule_has_its_file_scenario_and_docs(&Tree::imagined(&[
            ("crates/reason/src/rules/lock/file.rs", RULE),
            other,
        ]));
        assert_eq!(breaches.len(), 2);
        assert_eq!(breaches[0].line, 3);
    }

    #[test]
    fn a_rule_in_a_file_of_another_name_is_found() {
        for path in ["crates/reason/src/rules/lock/files.rs", "crates/reason/src/rules/file.rs"] {
            let tree = Tree::imagined(&[
                (path, RULE),
                ("lab/scenarios/x/scenario.toml", "code = \"lock.file\""),
                ("docs/codes.md", "## lock.file\n"),
            ]);
            let breaches = every_rule_has_its_file_scenario_and_docs(&tree);
            assert_eq!(breaches.len(), 1);
            assert!(breaches[0].fix.contains("rules/lock/file.rs"));
        }
    }

    #[test]
    fn a_rule_with_both_is_fine() {
        for lab in ["lab/scenarios/x/scenario.toml", "lab/src/vm/checks.rs", "docs/limits.md"] {
            let tree = Tree::imagined(&[
                ("crates/reason/src/rules/lock/file.rs", RULE),
                (lab, "code = \"lock.file\""),
                ("docs/codes.md", "## lock.file\n"),
            ]);
            assert_eq!(every_rule_has_its_file_scenario_and_docs(&tree), []);
        }
    }
}
