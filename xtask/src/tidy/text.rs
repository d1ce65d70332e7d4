//! Rules on what is written: paths of one machine, hosts, binaries, words, the changelog, links.
//!
//! Patterns here describe shapes and name no host, so that this file passes its own rules. What must
//! spell out a forbidden word in order to forbid it is this file alone, and it is left out of that one rule.

use super::Breach;
use crate::tree::{File, Tree};
use regex_lite::Regex;

const THIS_FILE: &str = "xtask/src/tidy/text.rs";
/// Written by cargo; the registry in it is cargo's own name for crates.io.
const LOCK_FILE: &str = "Cargo.lock";
/// A place for files that are not text.
const RECORDINGS: &str = "tests/recordings/";
/// The other one: screenshots of pages, small.
const PICTURES: &str = "docs/pictures/";
/// What a screenshot may weigh.
const PICTURE_BYTES_MAX: usize = 150 * 1024;
/// What a tracked file may weigh.
const FILE_BYTES_MAX: usize = 400 * 1024;

/// Words for which the field has others, and those.
const WORDS: &[(&str, &str)] = &[
    ("trace file", "recording"),
    ("capture file", "recording"),
    ("dump file", "recording"),
    ("detector", "rule"),
];

/// Private words, wherever they are written, and what says the same to everybody.
const PRIVATE: &[(&str, &str)] = &[
    ("heed", "observe, obey, take in"),
    ("heeds", "observes, obeys, takes in"),
    ("heeded", "observed, obeyed"),
    ("calm", "quiet"),
    ("dating", "what the time is of"),
    ("mend", "fix, repair"),
    ("mends", "fixes, repairs"),
];

/// Words that are fine in a sentence, and say nothing in a name.
const PRIVATE_NAMES: &[(&str, &str)] =
    &[("told", "reported, read, known"), ("tells", "says, reports, has")];

/// Each text file with a regular expression's first hit on each line.
fn hits<'tree>(
    tree: &'tree Tree,
    pattern: &str,
    left_out: &[&str],
) -> Vec<(&'tree File, usize, String)> {
    let Ok(pattern) = Regex::new(pattern) else { return Vec::new() };
    let mut found = Vec::new();
    for file in &tree.files {
        if file.is_binary() || left_out.contains(&file.path.as_str()) {
            continue;
        }
        for (index, line) in file.text().lines().enumerate() {
            if let Some(hit) = pattern.find(line) {
                found.push((file, index + 1, hit.as_str().to_owned()));
            }
        }
    }
    found
}

/// No path that exists on one developer's machine only.
pub(super) fn no_machine_paths(tree: &Tree) -> Vec<Breach> {
    let pattern = r"(?:^|[^\w.])/(?:work|farm)/[a-z]|/root[/]|/home/[a-z]+/(?:src|git|code|work)\b";
    let breach = |(file, line, hit): (&File, usize, String)| {
        let why = format!("a path of one machine: {}", hit.trim());
        Breach::at(file, line, why, "make it relative to the repository, or a parameter")
    };
    hits(tree, pattern, &[THIS_FILE]).into_iter().map(breach).collect()
}

/// No host of a package registry or mirror: builds use what the machine has configured.
pub(super) fn no_registry_hosts(tree: &Tree) -> Vec<Breach> {
    let pattern = r"\b(?:deb|ftp|security|snapshot|archive|index|static|registry|pypi|proxy|files|mirrors?|repo1?|artifacts?)\.[a-z0-9-]+\.(?:[a-z]+\.)?(?:org|io|com|net|dev)\b|\bpypi\.org\b";
    let breach = |(file, line, hit): (&File, usize, String)| {
        let why = format!("names a registry or mirror: {hit}");
        Breach::at(file, line, why, "use the machine's configuration (apt, cargo), whatever it is")
    };
    let example = |(_, _, hit): &(&File, usize, String)| !hit.contains(".example.");
    hits(tree, pattern, &[LOCK_FILE]).into_iter().filter(example).map(breach).collect()
}

/// Text, but for small recordings and screenshots.
pub(super) fn no_binaries(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in &tree.files {
        let bytes = file.bytes.len();
        if bytes > FILE_BYTES_MAX {
            let why = format!("{} KB, more than {} KB", bytes / 1024, FILE_BYTES_MAX / 1024);
            let fix = "make it smaller (a shorter recording, fewer threads) or generate it";
            breaches.push(Breach::at(file, 0, why, fix));
        }
        let is_picture = file.path.starts_with(PICTURES) && file.has_extension(&[".png"]);
        if is_picture && bytes > PICTURE_BYTES_MAX {
            let why = format!(
                "{} KB, more than a picture's {} KB",
                bytes / 1024,
                PICTURE_BYTES_MAX / 1024
            );
            breaches.push(Breach::at(file, 0, why, "make it smaller, with fewer colours"));
        }
        if file.is_binary() && !file.path.starts_with(RECORDINGS) && !is_picture {
            let why = "a binary file: nobody can review it";
            let fix = format!(
                "generate it, or put it under {RECORDINGS} (a recording) or {PICTURES} (a screenshot, .png)"
            );
            breaches.push(Breach::at(file, 0, why, fix));
        }
    }
    breaches
}

/// The field's words, and no private ones: in sentences, in names, and in the names of files.
pub(super) fn words_of_the_field(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let spoken = |file: &&File| {
        file.has_extension(&[".rs", ".c", ".h", ".py", ".js", ".md", ".toml"])
            && file.path != THIS_FILE
    };
    for file in tree.files.iter().filter(spoken) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        for (word, instead) in private(name, true) {
            let why = format!("the file's name has \"{word}\", a private word");
            breaches.push(Breach::at(file, 0, why, format!("say: {instead}")));
        }
        for (index, line) in file.text().lines().enumerate() {
            let line = line.to_lowercase();
            for (word, instead) in WORDS.iter().filter(|(word, _)| line.contains(word)) {
                let why = format!("\"{word}\" is none of the field's words");
                breaches.push(Breach::at(file, index + 1, why, format!("say: {instead}")));
            }
            for (word, instead) in private(&line, false) {
                let why = format!("\"{word}\" is a private word");
                breaches.push(Breach::at(file, index + 1, why, format!("say: {instead}")));
            }
        }
    }
    breaches
}

/// The private words of a line, or of a name; those that only a name must not have where several words are one name.
fn private(line: &str, is_name: bool) -> Vec<(&'static str, &'static str)> {
    let names = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut found = Vec::new();
    for name in names {
        let is_name = is_name || name.contains('_');
        for word in name.split('_') {
            let of =
                |table: &'static [(&str, &str)]| table.iter().filter(move |(it, _)| *it == word);
            found.extend(of(PRIVATE));
            found.extend(of(PRIVATE_NAMES).filter(|_| is_name));
        }
    }
    found
}

/// CHANGELOG.md stands, is for users, and has a place for what comes next.
pub(super) fn changelog_begins_with_what_is_unreleased(tree: &Tree) -> Vec<Breach> {
    let fix =
        "keep `## [Unreleased]` first, with `### Added`, `### Changed`, `### Fixed`, .. below";
    let Some(file) = tree.file("CHANGELOG.md") else {
        return vec![Breach {
            path: "CHANGELOG.md".into(),
            line: 0,
            why: "missing: users cannot see what changed".into(),
            fix: fix.into(),
        }];
    };
    let text = file.text();
    let mut releases = text.lines().enumerate().filter(|(_, line)| line.starts_with("## "));
    match releases.next() {
        Some((_, first)) if first.starts_with("## [Unreleased]") => Vec::new(),
        Some((index, _)) => vec![Breach::at(file, index + 1, "no Unreleased section first", fix)],
        None => vec![Breach::at(file, 0, "no Unreleased section", fix)],
    }
}

/// Links between documents lead somewhere, and so do paths of the tree in ARCHITECTURE.md.
pub(super) fn links_and_paths_exist(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let Ok(link) = Regex::new(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)") else { return breaches };
    let Ok(path) = Regex::new(r"`((?:crates|lab|xtask|docs|fuzz|tests|benches|\.ci)/[\w./-]*)`")
    else {
        return breaches;
    };
    for file in tree.files.iter().filter(|file| file.has_extension(&[".md"])) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in file.text().lines().enumerate() {
            let mut gone = Vec::new();
            for to in link.captures_iter(line).filter_map(|found| found.get(1)) {
                let to = joined(folder, to.as_str());
                gone.extend((!tree.has(&to)).then_some(to));
            }
            if file.path == "ARCHITECTURE.md" {
                for to in path.captures_iter(line).filter_map(|found| found.get(1)) {
                    gone.extend((!tree.has(to.as_str())).then(|| to.as_str().to_owned()));
                }
            }
            for to in gone {
                let why = format!("leads to {to}, which is not there");
                breaches.push(Breach::at(
                    file,
                    index + 1,
                    why,
                    "fix the path, or write what is missing",
                ));
            }
        }
    }
    breaches
}

/// `docs` and `../a/b.md` make `a/b.md`.
fn joined(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(breaches: &[Breach]) -> Vec<usize> {
        breaches.iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn machine_paths_are_found_and_other_paths_are_not() {
        let home = ["", "root", ".cargo"].join("/");
        let text = format!(
            "cd /work/tree\nrelative/work/here\n{home}/bin\n/var/lib/docker\nat /home/ann/src/x\n"
        );
        assert_eq!(lines_of(&no_machine_paths(&Tree::imagined(&[("a", &text)]))), [1, 3, 5]);
    }

    #[test]
    fn registry_hosts_are_found_by_shape() {
        let host = ["mirror", "somewhere", "org"].join(".");
        let text =
            format!("see docs.kernel.org\nget http://{host}/x\nmirror.example.org\nstatic.rs\n");
        assert_eq!(lines_of(&no_registry_hosts(&Tree::imagined(&[("a", &text)]))), [2]);
        let locked = Tree::imagined(&[("Cargo.lock", &text)]);
        assert_eq!(no_registry_hosts(&locked), []);
    }

    #[test]
    fn binaries_are_recordings_and_small() {
        let large = "x".repeat(FILE_BYTES_MAX + 1);
        let tree = Tree::imagined(&[
            ("a.png", "\0"),
            ("docs/pictures/a.png", "\0"),
            ("docs/pictures/b.bin", "\0"),
            ("tests/recordings/a.holdup", "\0"),
            ("tests/recordings/b.holdup", &large),
        ]);
        let paths: Vec<_> = no_binaries(&tree).into_iter().map(|breach| breach.path).collect();
        assert_eq!(paths, ["a.png", "docs/pictures/b.bin", "tests/recordings/b.holdup"]);
    }

    #[test]
    fn private_words_are_found_and_the_fields_own_are_not() {
        let text = "The bottleneck is the root cause.\nIt heeds it.\nlet calm_ticks = 1;\nNothing tells them apart.\nfn who_tells_it() {}\na Detector\n";
        let tree = Tree::imagined(&[
            ("a.md", text),
            ("b.png", "calm"),
            ("bpf/dating.bpf.h", "fine\n"),
            ("who_told.rs", "fine\n"),
        ]);
        assert_eq!(lines_of(&words_of_the_field(&tree)), [2, 3, 5, 6, 0, 0]);
    }

    #[test]
    fn the_changelog_has_an_unreleased_section_first() {
        let with = |text| {
            changelog_begins_with_what_is_unreleased(&Tree::imagined(&[("CHANGELOG.md", text)]))
        };
        assert_eq!(with("# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n"), []);
        assert_eq!(lines_of(&with("# Changelog\n\n## [0.1.0]\n## [Unreleased]\n")), [3]);
        assert_eq!(changelog_begins_with_what_is_unreleased(&Tree::imagined(&[])).len(), 1);
    }

    #[test]
    fn dead_links_and_paths_are_found() {
        let text = "[a](docs/a.md)\n[b](docs/b.md#x)\n[c](https://example.org/x)\n`docs/a.md` `crates/gone/`\n";
        let tree = Tree::imagined(&[
            ("ARCHITECTURE.md", text),
            ("docs/a.md", "[up](../ARCHITECTURE.md)\n"),
        ]);
        assert_eq!(lines_of(&links_and_paths_exist(&tree)), [2, 4]);
    }
}
