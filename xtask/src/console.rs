//! Console blocks of Markdown, and the comparison of what they promise with what came out.
//!
//! A block that opens with "```console test" is a session: `$ ` lines are commands, `> ` lines
//! continue them, the rest is the output promised. In it, a line `...` stands for any lines, and
//! `[..]` within a line for any text. A session without promised output promises success alone.
//! A word `root` after `test` says that the block needs root; `exit=N` that its last command ends so;
//! `shape` that numbers, blanks and line ends may differ, so that a real session stands as it was. A block that cannot be run says why: "```console untested=it-takes-40-minutes".
//!
//! Pure: running is `docs.rs`. Rejected: trycmd, which knows no shell, so that no pipe of ours could
//! be tested as it stands in the README.

use std::collections::BTreeSet;

/// A command and what it promises to print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Line of the file, from 1.
    pub line: usize,
    /// For the shell.
    pub command: String,
    /// Lines promised; empty promises nothing.
    pub promised: Vec<String>,
}

/// A console block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Line of the opening fence, from 1.
    pub line: usize,
    /// Whether it needs root.
    pub root: bool,
    /// Whether only the shape of the output is promised.
    pub shape: bool,
    /// Exit status of its last command.
    pub exit: i32,
    /// Why it is not run, if it is not.
    pub untested: Option<String>,
    /// The commands.
    pub steps: Vec<Step>,
}

/// All console blocks of a Markdown text. An error is a line and what is wrong with it.
pub(crate) fn sessions(text: &str) -> Result<Vec<Session>, (usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<Session> = None;
    let mut other_fence = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(info) = line.strip_prefix("```") {
            if let Some(session) = open.take() {
                found.push(session);
            } else if other_fence {
                other_fence = false;
            } else if info.split_whitespace().next() == Some("console") {
                open = Some(opened(info, number)?);
            } else {
                other_fence = true;
            }
        } else if let Some(session) = &mut open {
            take_line(session, line, number)?;
        }
    }
    match open {
        Some(session) => Err((session.line, "a console block that does not end".into())),
        None => Ok(found),
    }
}

fn opened(info: &str, line: usize) -> Result<Session, (usize, String)> {
    let words: BTreeSet<&str> = info.split_whitespace().skip(1).collect();
    let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let untested = value("untested=").map(str::to_owned);
    if words.contains("test") == untested.is_some() {
        let wrong = "a console block says either `test`, or `untested=why-not`";
        return Err((line, wrong.into()));
    }
    let exit = match value("exit=").map(str::parse) {
        None => 0,
        Some(Ok(exit)) => exit,
        Some(Err(_)) => return Err((line, "exit= takes a number".into())),
    };
    let (root, shape) = (words.contains("root"), words.contains("shape"));
    Ok(Session { line, root, shape, exit, untested, steps: Vec::new() })
}

fn take_line(session: &mut Session, line: &str, number: usize) -> Result<(), (usize, String)> {
    if let Some(command) = line.strip_prefix("$ ").or(line.strip_prefix("# ")) {
        session.steps.push(Step { line: number, command: command.into(), promised: Vec::new() });
        return Ok(());
    }
    let Some(step) = session.steps.last_mut() else {
        return Err((number, "a console block begins with a command: `$ ...`".into()));
    };
    match line.strip_prefix("> ") {
        Some(more) if step.promised.is_empty() => {
            step.command.push('\n');
            step.command.push_str(more);
        }
        _ => step.promised.push(line.to_owned()),
    }
    Ok(())
}

/// Whether what came out is what was promised.
pub(crate) fn holds(promised: &[String], came: &[&str]) -> bool {
    match promised {
        [] => came.is_empty(),
        [dots, rest @ ..] if dots == "..." => {
            (0..=came.len()).any(|skip| holds(rest, &came[skip..]))
        }
        [line, rest @ ..] => {
            came.first().is_some_and(|first| like(line, first)) && holds(rest, &came[1..])
        }
    }
}

/// Whether what came out has the shape of what was promised: the same words in the same order, with
/// any numbers, however the lines break.
pub(crate) fn shape_holds(promised: &[String], came: &[&str]) -> bool {
    let came = shape(came);
    let mut rest = came.as_str();
    for (index, part) in promised.split(|line| line == "...").enumerate() {
        let part = shape(part);
        let found = rest.find(&part).filter(|at| index > 0 || *at == 0);
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    promised.last().is_some_and(|last| last == "...") || rest.is_empty()
}

/// Words with single blanks between them, `#` for each number.
fn shape<S: AsRef<str>>(lines: &[S]) -> String {
    let mut shape = String::new();
    for word in lines.iter().flat_map(|line| line.as_ref().split_whitespace()) {
        let mut number = false;
        for letter in word.chars() {
            let more = number && matches!(letter, '.' | ',');
            if !letter.is_ascii_digit() && !more {
                shape.push(letter);
            } else if !number {
                shape.push('#');
            }
            number = letter.is_ascii_digit() || more;
        }
        shape.push(' ');
    }
    shape
}

/// Whether a line fits a pattern in which `[..]` stands for any text.
fn like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.trim_end().split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| line.trim_end().strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_commands_and_promises() {
        let text = "x\n```console test root exit=1\n$ a \\\n> b\none\n...\n$ c\n```\n```sh\n$ not ours\n```\n";
        let all = sessions(text).unwrap();
        assert_eq!(all.len(), 1);
        assert!(all[0].root && all[0].exit == 1 && all[0].untested.is_none());
        assert_eq!(all[0].steps[0].command, "a \\\nb");
        assert_eq!(all[0].steps[0].promised, ["one", "..."]);
        assert_eq!((all[0].steps[1].line, all[0].steps[1].promised.len()), (7, 0));
    }

    #[test]
    fn a_block_that_is_neither_tested_nor_excused_is_refused() {
        assert_eq!(sessions("```console\n$ a\n```\n").unwrap_err().0, 1);
        assert_eq!(sessions("\n```console test untested=x\n```\n").unwrap_err().0, 2);
        assert!(sessions("```console untested=slow\n$ a\n```\n").unwrap()[0].untested.is_some());
        assert!(sessions("```console test\n$ a\n").is_err());
        assert!(sessions("```console test\noutput first\n```\n").is_err());
    }

    #[test]
    fn dots_stand_for_any_lines_and_brackets_for_any_text() {
        let promised = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(holds(&promised("a\n...\nd"), &["a", "b", "c", "d"]));
        assert!(holds(&promised("...\nd\n..."), &["d"]));
        assert!(!holds(&promised("a\n...\nd"), &["a", "b"]));
        assert!(holds(&promised("took [..] s, [..] events"), &["took 3.1 s, 12 events"]));
        assert!(!holds(&promised("took [..] s"), &["took 3.1 ms"]));
        assert!(!holds(&promised("a"), &["a", "b"]));
    }

    #[test]
    fn a_shape_has_any_numbers_but_no_other_words() {
        let promised = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let real = promised("sleep 812 holds it.\n  waits 4.50 s,\n  and more\n...");
        assert!(shape_holds(&real, &["sleep 9 holds it. waits", "11.2 s, and more", "tail"]));
        assert!(!shape_holds(&real, &["cat 9 holds it. waits", "11.2 s, and more", "tail"]));
        assert!(!shape_holds(&promised("a 1"), &["a 1", "b"]));
        assert!(!shape_holds(&promised("a 1\n...\nc"), &["a 1", "b"]));
    }
}
