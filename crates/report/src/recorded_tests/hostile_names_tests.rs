//! No name can become a command: every way out of the recordings, with every name in them made hostile, keeps it in single quotes.
//!
//! Names of processes, files, cgroups, containers, units, interfaces and hosts come from whoever may make one. Each is given an end that would run
//! something, close a quote and begin a new line; then the same facts are explained again, and each command is read as a shell would. Must not:
//! know which rule quotes how.
//!
//! Rejected: a list of the rules (one that is added would be forgotten), and names of one kind at a time (what matters is where they end up).

use super::{Recorded, all, facts};
use holdup_reason::facts::Fact;
use holdup_reason::model::Model;
use serde_json::Value;
use std::collections::BTreeSet;

/// What each name ends in, and what a shell must see of that nowhere outside of single quotes.
const END: &str = ";zq1$(zq2)'zq3\"zq4\nzq5 zq6`zq7`";
const MARK: &str = "zq";

/// Fields that hold a name, or several.
const NAMES: &[&str] = &[
    "backing_file",
    "cgroups",
    "comm",
    "command",
    "directory",
    "executable",
    "hostname",
    "interface",
    "mapped_name",
    "names",
    "netns_name",
    "path",
    "words",
];
/// Facts whose `name` is one too; of others it is the kernel's own word.
const NAMED: &[&str] = &["container", "link", "dns_query", "target", "shared_memory"];

fn ended(value: &mut Value) {
    match value {
        Value::String(name) if !name.is_empty() => name.push_str(END),
        Value::Array(all) => all.iter_mut().for_each(|one| match one {
            Value::String(_) => ended(one),
            _ => hostile(one, false),
        }),
        _ => hostile(value, false),
    }
}

fn hostile(value: &mut Value, is_named: bool) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                let is_name = NAMES.contains(&&**key) || is_named && key == "name";
                match is_name {
                    true => ended(value),
                    false => hostile(value, false),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| hostile(one, is_named)),
        _ => {}
    }
}

/// A command without what stands in single quotes or behind a backslash, and what it gives to another shell.
fn bare(command: &str) -> (String, Vec<String>) {
    let (mut bare, mut words, mut word) = (String::new(), Vec::new(), String::new());
    let (mut in_single, mut in_double) = (false, false);
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' if !in_double => in_single = !in_single,
            _ if in_single => word.push(c),
            '\\' => word.extend(chars.next()),
            '"' => in_double = !in_double,
            _ => {
                bare.push(c);
                match c.is_whitespace() && !in_double {
                    true => words.push(std::mem::take(&mut word)),
                    false => word.push(c),
                }
            }
        }
    }
    words.push(word);
    let inner = words.windows(3).filter(|three| three[..2] == ["sh", "-c"]);
    let inner = inner.map(|three| three[2].clone()).collect();
    (bare, inner)
}

fn leaks(command: &str) -> bool {
    let (bare, inner) = bare(command);
    bare.contains(MARK) || inner.iter().any(|command| leaks(command))
}

#[test]
fn a_name_within_quotes_is_data_and_any_other_is_not() {
    let quoted = |name: &str| format!("'{}'", name.replace('\'', "'\\''"));
    assert!(!leaks(&format!("ls {}", quoted(END))));
    assert!(leaks(&format!("ls {END}")) && leaks(&format!("ls \"{END}\"")));
    let twice = quoted(&format!("ls {}", quoted(END)));
    assert!(!leaks(&format!("nsenter -t 7 -n sh -c {twice}")));
    assert!(leaks(&format!("nsenter -t 7 -n sh -c {}", quoted(&format!("ls {END}")))));
}

/// The smallest recordings that have each code between them.
fn chosen() -> Vec<&'static Recorded> {
    let mut seen = BTreeSet::new();
    let mut by_size: Vec<&Recorded> = all().iter().collect();
    by_size.sort_by_key(|it| std::fs::metadata(&it.path).map_or(0, |it| it.len()));
    by_size.retain(|it| {
        let before = seen.len();
        seen.extend(it.explained.report.findings.iter().map(|finding| finding.code.clone()));
        seen.len() > before
    });
    by_size
}

fn explained(facts: Vec<Fact>) -> Vec<String> {
    let report = holdup_reason::explain_model(&mut Model::new(facts));
    let ways = report.findings.iter().flat_map(|finding| &finding.remedy);
    let asks = report.answer.ends.iter().map(|end| end.ask.clone());
    ways.flat_map(|way| [way.command.clone(), way.undo.clone()]).chain(asks).collect()
}

/// The commands of a look whose names are hostile; those of processes as well, or only the others: rules know programs by theirs.
fn commands(facts: &[Fact], with_comm: bool) -> Vec<String> {
    let renamed = facts.iter().map(|fact| {
        let mut value = serde_json::to_value(fact).expect("JSON");
        let is_named = NAMED.iter().any(|kind| value["f"] == **kind);
        hostile(&mut value["v"], is_named);
        if !with_comm {
            restore(&mut value, &serde_json::to_value(fact).expect("JSON"));
        }
        serde_json::from_value(value).expect("a fact")
    });
    explained(renamed.collect())
}

/// Gives back the names of processes.
fn restore(value: &mut Value, before: &Value) {
    match (value, before) {
        (Value::Object(fields), Value::Object(before)) => {
            for (key, value) in fields.iter_mut() {
                let Some(old) = before.get(key) else { continue };
                match &**key {
                    "comm" | "command" | "executable" => *value = old.clone(),
                    _ => restore(value, old),
                }
            }
        }
        (Value::Array(all), Value::Array(before)) => {
            all.iter_mut().zip(before).for_each(|(one, old)| restore(one, old));
        }
        _ => {}
    }
}

#[test]
fn no_name_becomes_a_command() {
    let chosen = chosen();
    let half = chosen.len().div_ceil(2).max(1);
    let of = |part: &[&Recorded]| {
        let mut found = (0, BTreeSet::new());
        for recorded in part {
            let facts = facts(&recorded.path);
            for command in [true, false].into_iter().flat_map(|it| commands(&facts, it)) {
                found.0 += usize::from(command.contains(MARK));
                if leaks(&command) {
                    found.1.insert(command);
                }
            }
        }
        found
    };
    let found: Vec<(usize, BTreeSet<String>)> = std::thread::scope(|scope| {
        let parts: Vec<_> = chosen.chunks(half).map(|part| scope.spawn(move || of(part))).collect();
        parts.into_iter().map(|part| part.join().expect("explained")).collect()
    });
    let wrong: Vec<&String> = found.iter().flat_map(|(_, wrong)| wrong).collect();
    assert!(wrong.is_empty(), "{} commands:\n{wrong:#?}", wrong.len());
    let with_names: usize = found.iter().map(|(count, _)| count).sum();
    assert!(with_names > 30, "only {with_names} commands had a name in them");
}
