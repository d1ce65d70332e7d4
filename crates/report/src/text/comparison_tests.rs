//! A comparison as people see it: each `tests/comparisons/*.json` is the JSON of one, and its text is kept under `snapshots/`.
//!
//! `hostile` has names that would move a cursor, sides that are not known and another unit. Must not: compare anything itself.

use super::*;
use unicode_width::UnicodeWidthStr;

fn comparisons() -> Vec<(String, Comparison)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/comparisons");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("folder").map(|file| file.expect("file").path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        (name, serde_json::from_str(&text).expect("a comparison"))
    };
    files.into_iter().map(read).collect()
}

fn rendered(comparison: &Comparison, verbose: bool, width: usize) -> String {
    let mut page = Page::new(width, false);
    render(comparison, verbose, &mut page);
    page.finish()
}

#[test]
fn texts_are_the_kept_ones() {
    for (name, comparison) in comparisons() {
        insta::assert_snapshot!(format!("diff_{name}"), rendered(&comparison, false, 80));
        insta::assert_snapshot!(format!("diff_{name}_verbose"), rendered(&comparison, true, 80));
    }
}

#[test]
fn names_stay_harmless_and_lines_fit() {
    for (name, comparison) in comparisons() {
        for (verbose, width) in [(false, 50), (false, 80), (true, 80)] {
            let text = rendered(&comparison, verbose, width);
            let hostile = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(hostile, None, "{name}");
            let command = |line: &&str| line.contains("--from") || line.contains("bbbbbbbb");
            let long = text.lines().find(|line| line.width() > width && !command(line));
            assert_eq!(long, None, "{name} at {width}");
            assert!(text.lines().count() < 120, "{name}: {text}");
        }
    }
}

#[test]
fn what_is_not_known_is_never_shown_as_nothing() {
    let (_, hostile) = comparisons().into_iter().find(|it| it.0 == "hostile").expect("kept");
    let text = rendered(&hostile, true, 80);
    assert!(text.contains("not known before"), "{text}");
    assert!(text.contains("Not known whether it changed"), "{text}");
    assert!(text.contains("(not seen before)") && text.contains(">+0.500 s/s"), "{text}");
}

/// docs/json.md is the contract: each field that can be printed stands in it.
#[test]
fn every_field_is_documented() {
    let docs = include_str!("../../../../docs/json.md");
    for (name, comparison) in comparisons() {
        let mut keys = Vec::new();
        crate::text::tests::keys_of(&serde_json::to_value(&comparison).expect("JSON"), &mut keys);
        for key in keys {
            let reported = ["`{}`", "`{}.", ".{}`", "\"{}\""].map(|it| it.replace("{}", &key));
            assert!(reported.iter().any(|it| docs.contains(it.as_str())), "{name}: {key}");
        }
    }
}
