//! The bench as a program, without measuring: what it lists, and tables from kept figures.
//!
//! Nothing here loads the machine or needs root, so that it belongs to `make test`. Measuring is `make bench`.

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let started =
        Command::new(env!("CARGO_BIN_EXE_holdup-bench")).args(arguments).current_dir(root).output();
    started.unwrap_or_else(|error| panic!("{error}"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_lists_what_it_measures() {
    let output = bench(&["--list"]);
    assert!(output.status.success());
    for name in ["pingpong", "messaging", "fio", "redis", "nginx", "compile", "idle", "flood"] {
        assert!(text(&output).contains(name), "{name}");
    }
}

#[test]
fn it_prints_kept_figures_again() {
    let output = bench(&["--from", "docs/cost.json"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for title in ["== LOADS UNDER LOOKERS", "== GOALS", "empty programs"] {
        assert!(text.contains(title), "{title}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn an_unknown_name_is_refused() {
    let output = bench(&["--only", "nothing-such"]);
    assert!(!output.status.success());
    assert!(text(&output).contains("nothing-such"));
}
