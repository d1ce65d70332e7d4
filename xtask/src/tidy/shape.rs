//! Rules on the shape of source files, of whatever language: an opening theory, and lengths.
//!
//! Lengths are limits on what a reader has to hold in mind, not a style; an exception says why, in
//! words, after the marker: `LONG FILE: reason` within the opening theory, `LONG FUNCTION: reason`
//! in the comment above. Python is held to them in the field corpus and the browser's tests, which are code that is read, and not in the lab's
//! loads, which are a few lines each. C functions are found by their braces in the first column, as the kernel's
//! style writes them; Rust functions by syntax (`rust.rs`).

use super::Breach;
use crate::tree::{File, Tree};

/// Lines a source file may have.
const FILE_LINES_MAX: usize = 600;
/// Lines a function may have.
pub(super) const FUNCTION_LINES_MAX: usize = 70;
/// Lines of the opening theory, at least.
const THEORY_LINES_MIN: usize = 3;

const SOURCES: &[&str] = &[".rs", ".c", ".h", ".js", ".css", ".ts", ".tsx"];

/// What a docstring begins and ends with.
const DOCSTRING: &str = "\"\"\"";

/// Where Python is held to these rules.
const READ: &[&str] = &["lab/field/", "tests/browser/"];

fn is_read_python(file: &File) -> bool {
    READ.iter().any(|folder| file.path.starts_with(folder)) && file.has_extension(&[".py"])
}

fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.has_extension(SOURCES) || is_read_python(file))
}

/// Every source file opens with its theory.
pub(super) fn opens_with_its_theory(tree: &Tree) -> Vec<Breach> {
    let sources = sources(tree);
    let without = sources.filter(|file| theory(&file.text()).len() < THEORY_LINES_MIN);
    let breach = |file| {
        Breach::at(
            file,
            1,
            "no opening theory: the next reader cannot know what this file owns",
            "open with at least 3 lines (//!, /* */ or a docstring): what it owns, what it must not do, the \
             design that was rejected, what to edit together",
        )
    };
    without.map(breach).collect()
}

/// The lines of the comment that opens a file, after a licence line or that of the interpreter.
fn theory(text: &str) -> Vec<&str> {
    let before = |line: &&str| line.contains("SPDX-License-Identifier") || line.starts_with("#!/");
    let mut lines = text.lines().skip_while(before).peekable();
    let mut found = Vec::new();
    if lines.peek().is_some_and(|line| line.starts_with(DOCSTRING)) {
        let mut quotes = 0;
        for line in lines {
            found.push(line);
            quotes += line.matches(DOCSTRING).count();
            if quotes > 1 {
                break;
            }
        }
        return found;
    }
    let in_block = |line: &&str| line.starts_with("/*");
    if lines.peek().is_some_and(in_block) {
        for line in lines {
            found.push(line);
            if line.contains("*/") {
                break;
            }
        }
    } else {
        found.extend(lines.take_while(|line| line.starts_with("//")));
    }
    found
}

/// No source file past 600 lines without a reason.
pub(super) fn file_length(tree: &Tree) -> Vec<Breach> {
    let sources = sources(tree);
    let breach = |file: &File| {
        let text = file.text();
        let lines = text.lines().count();
        let excused = theory(&text).iter().any(|line| line.contains("LONG FILE:"));
        (lines > FILE_LINES_MAX && !excused).then(|| {
            Breach::at(
                file,
                0,
                format!("{lines} lines, more than {FILE_LINES_MAX}"),
                "part it by what it owns, or say in its opening theory: LONG FILE: why",
            )
        })
    };
    sources.filter_map(breach).collect()
}

/// No C function past 70 lines without a reason.
pub(super) fn c_function_length(tree: &Tree) -> Vec<Breach> {
    let sources = tree.files.iter().filter(|file| file.has_extension(&[".c", ".h"]));
    sources.flat_map(long_c_functions).collect()
}

fn long_c_functions(file: &File) -> Vec<Breach> {
    let text = file.text();
    let lines: Vec<&str> = text.lines().collect();
    let mut head = None;
    let mut breaches = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let column_one = line.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
        if column_one && line.contains('(') && !line.ends_with(';') {
            head = Some(index);
        } else if line.starts_with('}')
            && let Some(start) = head.take()
        {
            let length = index - start + 1;
            if length > FUNCTION_LINES_MAX && !excused_above(&lines, start) {
                breaches.push(too_long(file, start + 1, length));
            }
        }
    }
    breaches
}

/// No Python function past 70 lines without a reason.
pub(super) fn python_function_length(tree: &Tree) -> Vec<Breach> {
    tree.files.iter().filter(|file| is_read_python(file)).flat_map(long_python_functions).collect()
}

fn long_python_functions(file: &File) -> Vec<Breach> {
    let text = file.text();
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut breaches = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        if !line.trim_start().starts_with("def ") {
            continue;
        }
        // The body is what is indented further; an empty line belongs to neither side.
        let body = lines[start + 1..]
            .iter()
            .take_while(|next| next.trim().is_empty() || indent(next) > indent(line));
        let length = 1 + body.filter(|next| !next.trim().is_empty()).count();
        if length > FUNCTION_LINES_MAX && !excused_above(&lines, start) {
            breaches.push(too_long(file, start + 1, length));
        }
    }
    breaches
}

/// The message for a function that is too long.
pub(super) fn too_long(file: &File, line: usize, length: usize) -> Breach {
    Breach::at(
        file,
        line,
        format!("a function of {length} lines, more than {FUNCTION_LINES_MAX}"),
        "part it by what its steps are called, or say above it: LONG FUNCTION: why",
    )
}

/// Whether the lines right above `start` (from 0), up to an empty one, excuse a long function.
pub(super) fn excused_above(lines: &[&str], start: usize) -> bool {
    let above = lines[..start.min(lines.len())].iter().rev();
    above.take_while(|line| !line.trim().is_empty()).any(|line| line.contains("LONG FUNCTION:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theories_of_both_languages_count_and_short_ones_do_not() {
        let good = [
            ("a.rs", "//! One.\n//! Two.\n//!\n//! Three.\nfn a() {}\n"),
            (
                "a.c",
                "// SPDX-License-Identifier: GPL-2.0\n/*\n * One.\n * Two.\n * Three.\n */\nint a;\n",
            ),
            ("a.txt", "no source"),
        ];
        assert_eq!(opens_with_its_theory(&Tree::imagined(&good)), []);
        let bad = [("a.rs", "//! One.\nfn a() {}\n"), ("b.h", "int a;\n"), ("c.rs", "")];
        assert_eq!(opens_with_its_theory(&Tree::imagined(&bad)).len(), 3);
    }

    #[test]
    fn python_is_held_to_it_in_the_field() {
        let good = "#!/usr/bin/env python3\n\"\"\"One.\n\nTwo.\n\"\"\"\nimport os\n";
        let bad = "\"\"\"One.\"\"\"\nimport os\n# a\n# b\n";
        let tree = Tree::imagined(&[
            ("lab/field/a.py", good),
            ("lab/field/b.py", bad),
            ("lab/field/c.py", "import os\n"),
            ("lab/load/d.py", bad),
        ]);
        let paths: Vec<_> = opens_with_its_theory(&tree).into_iter().map(|b| b.path).collect();
        assert_eq!(paths, ["lab/field/b.py", "lab/field/c.py"]);
    }

    #[test]
    fn long_python_functions_need_a_reason() {
        let long = format!("def a():\n{}\n\ndef b():\n    pass\n", "    x()\n".repeat(70));
        let excused = format!("# LONG FUNCTION: a list.\n{long}");
        let tree = Tree::imagined(&[("lab/field/a.py", &long), ("lab/field/b.py", &excused)]);
        let breaches = python_function_length(&tree);
        assert_eq!(breaches.len(), 1);
        assert_eq!((breaches[0].path.as_str(), breaches[0].line), ("lab/field/a.py", 1));
    }

    #[test]
    fn long_files_need_a_reason() {
        let long = format!("//! One.\n{}", "let a = 1;\n".repeat(600));
        let excused = long.replace("One.", "LONG FILE: a table.");
        let tree = Tree::imagined(&[("a.rs", &long), ("b.rs", &excused), ("c.md", &long)]);
        let breaches = file_length(&tree);
        assert_eq!(breaches.len(), 1);
        assert_eq!(breaches[0].path, "a.rs");
        assert!(breaches[0].why.contains("601"));
    }

    #[test]
    fn long_c_functions_need_a_reason() {
        let body = "\tx();\n".repeat(70);
        let long = format!("/* a */\nSEC(\"tp\")\nint f(void)\n{{\n{body}}}\n");
        let excused = long.replace("/* a */", "/* LONG FUNCTION: unrolled. */");
        let short = "struct a {\n\tint b;\n};\nint g(void)\n{\n\treturn 0;\n}\n";
        let tree = Tree::imagined(&[("a.c", &long), ("b.c", &excused), ("c.c", short)]);
        let breaches = c_function_length(&tree);
        assert_eq!(breaches.len(), 1);
        assert_eq!((breaches[0].path.as_str(), breaches[0].line), ("a.c", 3));
    }
}
