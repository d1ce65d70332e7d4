//! Everything that is generated: `explain`, docs/codes.md, the man page, the completions.
//!
//! One registry (the table of cases) and one description of the command line (clap's) feed them all;
//! `holdup docs docs` writes them, and a test compares what is checked in. Nothing here may be written
//! by hand elsewhere.

use crate::failure::Failure;
use crate::flags::Cli;
use crate::flags::groups::{AnswerFlags, PrintFlags};
use crate::output::Output;
use crate::surface::{Surface, Typed};
use crate::text::page::{Page, Tone};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use holdup_reason::graph::ways;
use holdup_reason::rules::{self, Rule};
use holdup_reason::threshold::Threshold;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What to explain.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holdup explain                   lists all codes\n  holdup explain disk              lists the codes of an area\n  holdup explain disk.own_throttle"
)]
pub(crate) struct ExplainFlags {
    /// A code (disk.journal) or an area (disk); all codes if left out
    code: Option<String>,
    #[command(flatten)]
    print: PrintFlags,
}

impl Surface for ExplainFlags {
    fn answer(&mut self) -> AnswerFlags {
        std::mem::take(&mut self.print).into()
    }

    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        let pages = lookup(self.code.as_deref())?;
        Output::open(&typed.answer, false, None)?
            .deliver(&pages, |page| render(&pages, self.code.is_some(), page))?;
        Ok(0)
    }
}

/// Completions for which shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  holdup completions bash > /etc/bash_completion.d/holdup")]
pub(crate) struct CompletionsFlags {
    /// The shell
    shell: Shell,
}

impl Surface for CompletionsFlags {
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        Output::open(&typed.answer, false, None)?.raw(&completions(self.shell))?;
        Ok(0)
    }
}

/// The man page.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  holdup man | man -l -")]
pub(crate) struct ManFlags {}

impl Surface for ManFlags {
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        Output::open(&typed.answer, false, None)?.raw(&man()?)?;
        Ok(0)
    }
}

/// Where to write what is generated.
#[derive(Debug, Args)]
pub(crate) struct DocsFlags {
    /// The directory
    directory: PathBuf,
}

impl Surface for DocsFlags {
    fn run(self: Box<Self>, _: Typed) -> Result<u8, Failure> {
        write(&self.directory).map(|()| 0)
    }
}

/// One code, as `explain --json` prints it.
#[derive(Debug, Serialize)]
struct Entry {
    code: &'static str,
    title: &'static str,
    theory: &'static str,
    needs: &'static [&'static str],
    refuted_by: Vec<&'static str>,
    remedies: &'static [&'static str],
    thresholds: Vec<String>,
    stories: &'static [&'static str],
}

impl From<&Rule> for Entry {
    fn from(rule: &Rule) -> Self {
        Self {
            code: rule.code,
            title: rule.title,
            theory: rule.theory,
            needs: rule.needs,
            refuted_by: rule.refuted_by.iter().map(|refutation| refutation.by).collect(),
            remedies: rule.remedies,
            thresholds: rule.thresholds.iter().map(|it| threshold(it)).collect(),
            stories: rule.stories,
        }
    }
}

/// A threshold in one line: value with unit, why, and where the value is from.
fn threshold(threshold: &Threshold) -> String {
    let unit = match threshold.unit {
        "1" => String::new(),
        unit => format!(" {unit}"),
    };
    format!("{}{unit}: {} ({})", threshold.value, threshold.why, threshold.source)
}

/// All codes, sorted.
fn all() -> Vec<Entry> {
    let mut entries: Vec<Entry> = rules::all().map(Entry::from).collect();
    entries.sort_by_key(|entry| entry.code);
    entries
}

/// The codes that `code` names: one, an area, or all.
fn lookup(code: Option<&str>) -> Result<Vec<Entry>, Failure> {
    find(all(), code)
}

fn find(all: Vec<Entry>, code: Option<&str>) -> Result<Vec<Entry>, Failure> {
    let Some(wanted) = code else { return Ok(all) };
    let area = format!("{}.", wanted.trim_end_matches('.'));
    let near: Vec<&str> =
        all.iter().map(|entry| entry.code).filter(|code| is_near(wanted, code)).take(3).collect();
    let advice = match near.is_empty() {
        true => "`holdup explain` lists them all.".to_owned(),
        false => format!("Is it {}?", near.join(" or ")),
    };
    let found: Vec<Entry> = all
        .into_iter()
        .filter(|entry| entry.code == wanted || entry.code.starts_with(&area))
        .collect();
    match found.is_empty() {
        true => Err(Failure::usage(format!("there is no code {wanted}")).advise(advice)),
        false => Ok(found),
    }
}

/// Same cause in another area, or nearly the same letters.
fn is_near(wanted: &str, code: &str) -> bool {
    let cause = |code: &str| code.rsplit('.').next().unwrap_or_default().to_owned();
    let wanted = wanted.to_lowercase();
    cause(code).contains(&cause(&wanted)) || distance(&wanted, code) <= 3
}

/// Levenshtein distance, on short ASCII words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// For a terminal: one code in full, several as a list.
fn render(entries: &[Entry], asked: bool, page: &mut Page) {
    let [only] = entries else {
        for entry in entries {
            page.row(&format!("{:<24}", entry.code), entry.title, Tone::Plain);
        }
        page.gap();
        page.verdict("`holdup explain CODE` tells more of one.", Tone::Faint);
        return;
    };
    if !asked {
        page.row(&format!("{:<24}", only.code), only.title, Tone::Plain);
        return;
    }
    page.verdict(&format!("{}: {}", only.code, only.title), Tone::Heading);
    page.gap();
    page.paragraph(&unwrapped(only.theory));
    for (heading, items) in [
        ("Said only if", only.needs.to_vec()),
        ("Not said if", only.refuted_by.clone()),
        ("Numbers that decide", only.thresholds.iter().map(String::as_str).collect()),
        ("Ways out", only.remedies.to_vec()),
    ] {
        if items.is_empty() {
            continue;
        }
        page.gap();
        page.verdict(heading, Tone::Heading);
        for item in items {
            page.item(&unwrapped(item));
        }
    }
    if !only.stories.is_empty() {
        page.gap();
        page.verdict(&format!("Stories: {}", only.stories.join(", ")), Tone::Faint);
    }
}

/// Source text is wrapped for editors; terminals wrap again.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// docs/codes.md.
fn codes() -> String {
    codes_of(&all()) + &ways()
}

/// The ways from a waiter to whoever must act, in their order.
fn ways() -> String {
    let mut out = String::from("\n## ways\n\n");
    out.push_str(&paragraph(
        "How a wait is followed to whoever must act for it to end: these ways are asked in this order, each of the waits that it is \
         for, and the first that finds somebody is it. `-v` says of each link of a chain which that was, as \
         `followed to postgres 417 because ...`.",
        "",
        "",
    ));
    out.push('\n');
    for way in ways::all() {
        out.push_str(&paragraph(&format!("**{}**: {}", way.name, way.because), "- ", "  "));
        for number in way.thresholds {
            out.push_str(&paragraph(&threshold(number), "  - ", "    "));
        }
    }
    out
}

fn codes_of(entries: &[Entry]) -> String {
    let mut out = String::from(
        "# Codes of findings\n\n\
         <!-- Generated by `holdup docs docs` from crates/reason/src/rules/: do not edit. -->\n\n\
         What each code means, the evidence without which it is not said, what would refute it, and\n\
         the ways out. `holdup explain CODE` prints the same. Codes are stable for ever once released.\n",
    );
    let mut area = "";
    for entry in entries {
        let own = entry.code.split('.').next().unwrap_or_default();
        if own != area {
            area = own;
            out.push_str(&format!("\n## {area}\n"));
        }
        out.push_str(&format!("\n### {}\n\n**{}**\n\n", entry.code, markdown(entry.title)));
        out.push_str(&paragraph(entry.theory, "", ""));
        for (heading, items) in [
            ("Said only if:", entry.needs.to_vec()),
            ("Not said if:", entry.refuted_by.clone()),
            ("Numbers that decide:", entry.thresholds.iter().map(String::as_str).collect()),
            ("Ways out:", entry.remedies.to_vec()),
        ] {
            if items.is_empty() {
                continue;
            }
            out.push_str(&format!("\n{heading}\n\n"));
            for item in items {
                out.push_str(&paragraph(item, "- ", "  "));
            }
        }
        if !entry.stories.is_empty() {
            out.push_str(&format!("\nStories: {}\n", entry.stories.join(", ")));
        }
    }
    out
}

fn paragraph(text: &str, first: &str, rest: &str) -> String {
    let lines = crate::text::page::wrap(&markdown(&unwrapped(text)), 98 - rest.len());
    let indented = lines.iter().enumerate().map(|(at, line)| {
        let indent = if at == 0 { first } else { rest };
        format!("{indent}{line}\n")
    });
    indented.collect()
}

/// Angle brackets outside code would be taken for tags.
fn markdown(text: &str) -> String {
    let mut code = false;
    text.chars()
        .map(|c| {
            code ^= c == '`';
            match c {
                '<' if !code => "&lt;".to_owned(),
                c => c.to_string(),
            }
        })
        .collect()
}

/// What `whatis holdup` prints.
const NAME: &str = "say why a Linux host, container, process or command is slow";

/// The man page, roff.
fn man() -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let command = Cli::command();
    let man = clap_mangen::Man::new(command.clone()).date("").manual("holdup");
    let mut write = || -> std::io::Result<()> {
        man.render_title(&mut page)?;
        clap_mangen::Man::new(command.clone().about(NAME)).render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            render_command(sub, &mut page)?;
        }
        man.render_extra_section(&mut page)
    };
    write().map_err(|error| Failure::look(format!("cannot write the man page: {error}"), ""))?;
    let page = String::from_utf8_lossy(&page);
    Ok(page.replace(" EXTRA\n", " EXAMPLES\n").into_bytes())
}

/// One command as a section of the one page: a page per command would scatter them.
fn render_command(command: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let qualified = command.clone().bin_name(format!("holdup {}", command.get_name()));
    let man = clap_mangen::Man::new(qualified);
    let mut part = Vec::new();
    man.render_synopsis_section(&mut part)?;
    man.render_description_section(&mut part)?;
    man.render_options_section(&mut part)?;
    man.render_extra_section(&mut part)?;
    let name = command.get_name();
    page.extend_from_slice(format!(".SH HOLDUP {}\n", name.to_uppercase()).as_bytes());
    let text = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
    page.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Completions for a shell.
fn completions(shell: Shell) -> Vec<u8> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdup", &mut out);
    out
}

/// Every generated document by its file name.
fn documents() -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
    Ok(vec![("codes.md", codes().into_bytes()), ("holdup.1", man()?)])
}

/// Writes all of them into a directory.
fn write(directory: &Path) -> Result<(), Failure> {
    for (name, bytes) in documents()? {
        let path = directory.join(name);
        std::fs::write(&path, bytes).map_err(|error| Failure::file("write", &path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(code: &'static str) -> Entry {
        Entry {
            code,
            title: "A disk is slow",
            theory: "It is\n  <slow>.",
            needs: &["it is slow"],
            refuted_by: Vec::new(),
            remedies: &["wait"],
            thresholds: Vec::new(),
            stories: &["S1.1"],
        }
    }

    #[test]
    fn checked_in_documents_are_the_generated_ones() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (name, bytes) in documents().expect("documents") {
            let written = std::fs::read(docs.join(name)).unwrap_or_default();
            assert!(
                written == bytes,
                "docs/{name} is stale: `cargo run -p holdup -- docs docs` writes it"
            );
        }
    }

    #[test]
    fn codes_are_found_by_code_and_by_area() {
        let all = || vec![entry("disk.journal"), entry("disk.slow"), entry("lock.file")];
        let codes = |code| {
            let found = find(all(), code).map_err(|failure| failure.message())?;
            Ok::<_, String>(found.into_iter().map(|entry| entry.code).collect::<Vec<_>>())
        };
        assert_eq!(codes(None).expect("all").len(), 3);
        assert_eq!(codes(Some("disk")).expect("an area"), ["disk.journal", "disk.slow"]);
        assert_eq!(codes(Some("lock.file")).expect("a code"), ["lock.file"]);
        assert!(codes(Some("disk.jornal")).expect_err("misspelt").contains("Is it disk.journal?"));
        assert!(codes(Some("fs.journal")).expect_err("other area").contains("Is it disk.journal?"));
        assert!(codes(Some("zzzzzzzz")).expect_err("nonsense").contains("lists them all"));
    }

    #[test]
    fn codes_page_holds_all_and_no_tags() {
        let page = codes_of(&[entry("disk.journal"), entry("lock.file")]);
        assert!(page.contains("\n## disk\n\n### disk.journal\n"), "{page}");
        assert!(page.contains("\nIt is &lt;slow>.\n"), "{page}");
        assert!(page.contains("\nWays out:\n\n- wait\n"), "{page}");
    }
}
