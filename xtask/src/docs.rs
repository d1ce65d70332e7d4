//! Runs the console blocks of README.md and docs/, as a reader would paste them.
//!
//! Each block runs in a shell of its own at the root of the repository, with the shipped binary's folder
//! first on the PATH, and an empty folder as HOLDUP_DOCS for files that it writes. `make build` comes
//! first: a block that uses holdup without one fails, rather than testing another holdup. What a block
//! is: `console.rs`. A program that a block has cargo build and run is run as it lies beside this one, if it does: of its package
//! alone, with the features that this asks for and without the flags of the lints, cargo would compile all of it once more. It must
//! not change the machine: blocks that do say `untested=`.

use crate::console::{Session, Step, holds, sessions, shape_holds};
use crate::tree::Tree;
use anyhow::Context;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs them all; false if a promise was not kept.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let tree = Tree::read(root)?;
    let as_root = running_as_root();
    let (mut ran, mut left_out, mut broken) = (0, 0, 0);
    for file in tree.files.iter().filter(|file| is_doc(&file.path)) {
        let blocks = match sessions(&file.text()) {
            Ok(blocks) => blocks,
            Err((line, why)) => {
                println!("{}:{line}: {why}", file.path);
                broken += 1;
                continue;
            }
        };
        for session in &blocks {
            let why_not = match (&session.untested, session.root && !as_root) {
                (Some(why), _) => Some(why.as_str()),
                (None, true) => Some("needs root"),
                (None, false) => None,
            };
            if let Some(why) = why_not {
                println!("docs: {}:{} not run: {why}", file.path, session.line);
                left_out += 1;
                continue;
            }
            ran += 1;
            if let Err(complaint) = run_session(root, session) {
                println!("{}:{complaint}", file.path);
                broken += 1;
            }
        }
    }
    println!("docs: {ran} sessions run, {left_out} not run, {broken} broken");
    Ok(broken == 0)
}

fn is_doc(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'))
}

fn running_as_root() -> bool {
    let asked = Command::new("id").arg("-u").output();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

fn run_session(root: &Path, session: &Session) -> Result<(), String> {
    static SESSIONS: AtomicU32 = AtomicU32::new(0);
    let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let own = root.join(format!("target/docs/{}-{number}", std::process::id()));
    let answer = std::fs::create_dir_all(&own)
        .map_err(|error| format!("{}: {error}", session.line))
        .and_then(|()| {
            // What came before is shown with what broke: it is where the cause stands.
            let mut before = String::new();
            for (index, step) in session.steps.iter().enumerate() {
                let last = index + 1 == session.steps.len();
                let exit = if last { session.exit } else { 0 };
                let text = run_step(root, &own, step, session.shape, exit)
                    .map_err(|complaint| format!("{}: {complaint}{before}", step.line))?;
                before.push_str(&format!("\n--- `{}` before it printed\n{text}", step.command));
            }
            Ok(())
        });
    // Left for the next `make clean` if it cannot be removed; it is below target/.
    drop(std::fs::remove_dir_all(&own));
    answer
}

/// A command as it is run: `DIR/NAME ...` for `cargo run -p NAME -- ...`, where that is there.
fn as_built(dir: &Path, command: &str) -> String {
    let built = || {
        let (cargo, rest) = command.strip_prefix("cargo run ")?.split_once(" -- ")?;
        let mut words = cargo.split_whitespace().skip_while(|word| *word != "-p").skip(1);
        let program = dir.join(words.next()?);
        program.exists().then(|| format!("{} {rest}", program.display()))
    };
    built().unwrap_or_else(|| command.to_string())
}

/// Runs a step; what it printed.
fn run_step(
    root: &Path,
    own: &Path,
    step: &Step,
    shape: bool,
    exit: i32,
) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let own_program = std::env::current_exe().unwrap_or_default();
    let command = as_built(own_program.parent().unwrap_or(root), &step.command);
    let output = Command::new("bash")
        .args(["-c", &format!("set -o pipefail\nexec 2>&1\n{command}")])
        .current_dir(root)
        .env("PATH", format!("{}:{path}", root.join("target").display()))
        .env("HOLDUP_DOCS", own)
        // Or a `make` in a session writes that it is one within another.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .stdin(Stdio::null())
        .output()
        .context("bash")
        .map_err(|error| format!("{error:#}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    if output.status.code() != Some(exit) {
        return Err(format!(
            "`{}` ended with {}, not {exit}:\n{text}",
            step.command, output.status
        ));
    }
    let compare = if shape { shape_holds } else { holds };
    if !step.promised.is_empty() && !compare(&step.promised, &lines) {
        let promised = step.promised.join("\n");
        return Err(format!("`{}` promised\n{promised}\n--- but printed\n{text}", step.command));
    }
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Result<(), String> {
        let blocks = sessions(text).unwrap();
        run_session(crate::root(), &blocks[0])
    }

    #[test]
    fn promises_that_hold_and_those_that_do_not() {
        assert_eq!(ran("```console test\n$ echo one; echo two\n...\ntwo\n```\n"), Ok(()));
        assert_eq!(ran("```console test exit=3\n$ exit 3\n```\n"), Ok(()));
        assert!(ran("```console test\n$ echo one\ntwo\n```\n").unwrap_err().starts_with("2: "));
        assert!(ran("```console test\n$ false\n```\n").is_err());
        assert!(ran("```console test\n$ false | true\n```\n").is_err());
        let after = ran("```console test\n$ echo cause\n$ false\n```\n").unwrap_err();
        assert!(after.ends_with("`echo cause` before it printed\ncause\n"), "{after}");
    }

    #[test]
    fn a_session_has_a_folder_of_its_own_and_leaves_nothing() {
        let reported = std::env::temp_dir().join(format!("xtask-docs-{}", std::process::id()));
        let command = format!("touch $HOLDUP_DOCS/x && echo $HOLDUP_DOCS > {}", reported.display());
        assert_eq!(ran(&format!("```console test\n$ {command}\n```\n")), Ok(()));
        let own = std::fs::read_to_string(&reported).unwrap();
        std::fs::remove_file(&reported).unwrap();
        assert!(own.contains("target/docs/") && !Path::new(own.trim()).exists(), "{own}");
    }

    #[test]
    fn a_program_that_is_there_is_not_built_again() {
        let dir = std::env::temp_dir().join(format!("xtask-built-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("app")).unwrap();
        let run = |command: &str| as_built(&dir, command);
        let app = dir.join("app").display().to_string();
        assert_eq!(run("cargo run --quiet -p app -- list --all"), format!("{app} list --all"));
        for other in ["cargo run -p none -- list", "cargo test -p app -- list", "app list"] {
            assert_eq!(run(other), other);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Every block of the real documents is either run or says why not.
    #[test]
    fn the_documents_parse() {
        let tree = Tree::read(crate::root()).unwrap();
        for file in tree.files.iter().filter(|file| is_doc(&file.path)) {
            let parsed = sessions(&file.text());
            assert!(parsed.is_ok(), "{}:{parsed:?}", file.path);
        }
    }
}
