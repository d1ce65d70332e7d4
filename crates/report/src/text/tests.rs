//! The report as people see it. Each `tests/reports/*.json` is a report made by hand, so these tests
//! also hold the JSON contract to what it reads; its text is kept beside it under `snapshots/`.
//! `INSTA_UPDATE=always cargo test -p holdup` writes the snapshots anew: read the difference.

use super::page::Page;
use holdup_reason::answer::{Report, Who};
use std::path::PathBuf;
use unicode_width::UnicodeWidthStr;

fn reports() -> Vec<(String, Report)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("folder").map(|file| file.expect("file").path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        (name, serde_json::from_str(&text).expect("a report"))
    };
    files.into_iter().map(read).collect()
}

fn rendered(report: &Report, verbose: bool, width: usize, colour: bool) -> String {
    let mut page = Page::new(width, colour);
    super::report(report, verbose, &mut page);
    page.finish()
}

#[test]
fn texts_are_the_kept_ones() {
    for (name, report) in reports() {
        insta::assert_snapshot!(name.clone(), rendered(&report, false, 80, false));
        insta::assert_snapshot!(format!("{name}_verbose"), rendered(&report, true, 80, false));
    }
}

#[test]
fn a_thread_with_a_name_of_its_own_is_found_by_its_program() {
    let thread = Who {
        name: "isc-net-0002".into(),
        program: Some("named".into()),
        pid: Some(123),
        tid: Some(124),
        ..Who::default()
    };
    assert_eq!(super::finding::who(&thread, 44), "named 123 thread 124 (isc-net-0002)");
    let like = Who { name: "named".into(), program: None, ..thread };
    assert_eq!(super::finding::who(&like, 44), "named 123 thread 124");
}

#[test]
fn no_control_character_leaves_but_line_feeds() {
    for (name, report) in reports() {
        for verbose in [false, true] {
            let text = rendered(&report, verbose, 80, false);
            let hostile = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(hostile, None, "{name}");
        }
    }
}

#[test]
fn stacks_that_were_left_out_are_counted_in_the_last_line() {
    use holdup_reason::answer::{ReportCost, UserStacksCost};
    let last = |left_out| {
        let stacks = UserStacksCost { read: 300, moved: 2, left_out, cpu_seconds: 0.0081 };
        super::cost(&ReportCost { user_stacks: Some(stacks), ..ReportCost::default() }, 2.0)
    };
    assert!(!last(0).contains("stacks"), "{}", last(0));
    assert!(
        last(70).contains("300 user stacks in 8.10 ms, 70 left out for want of time"),
        "{}",
        last(70)
    );
}

#[test]
fn colour_adds_colour_and_nothing_else() {
    for (name, report) in reports() {
        let plain = rendered(&report, true, 80, false);
        let coloured = rendered(&report, true, 80, true);
        assert_ne!(plain, coloured, "{name}");
        assert_eq!(plain, strip(&coloured), "{name}");
    }
}

/// Only what `anstyle` writes: `ESC [ digits m`.
fn strip(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('m').expect("a colour ends");
        let digits = &rest[at + 2..at + end];
        assert!(digits.chars().all(|c| c.is_ascii_digit() || c == ';'), "{digits:?}");
        rest = &rest[at + end + 1..];
    }
    out + rest
}

#[test]
fn lines_fit_the_width_but_for_words_of_commands() {
    for (name, report) in reports() {
        for width in [50, 80] {
            for line in rendered(&report, true, width, false).lines() {
                let quoted = line.trim_start().starts_with(['"', '\'']);
                let command = quoted || line.contains("/sys/fs/cgroup/");
                assert!(command || line.width() <= width, "{name} at {width}: {line:?}");
            }
        }
    }
}

#[test]
fn a_note_alone_is_no_finding() {
    for (name, report) in reports() {
        let expected = !report.findings.is_empty() && name != "idle_host_note";
        assert_eq!(super::found(&report), expected, "{name}");
    }
}

mod any_names {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn stay_harmless(name in any::<String>(), number in any::<f64>()) {
            let (_, mut report) = reports().into_iter().find(|(it, _)| it == "several").expect("kept");
            report.target.name = name.clone();
            report.accounting.wall_seconds = number;
            report.accounting.parts[0].object.name = name.clone();
            report.accounting.parts[1].class = name.clone();
            report.accounting.parts[1].seconds = number;
            report.window.seconds = number;
            report.caveats[0].text = name.clone();
            for finding in &mut report.findings {
                finding.title = name.clone();
                finding.text = name.clone();
                finding.code = name.clone();
                finding.culprit.name = name.clone();
                finding.culprit.program = Some(name.clone());
                finding.culprit.setting = Some(name.clone());
                finding.culprit.address = Some(name.clone());
                finding.culprit.container = Some(name.clone());
                for victim in &mut finding.victims {
                    victim.comm = name.clone();
                    victim.wait_seconds = number;
                }
                for link in &mut finding.chain {
                    link.who.name = name.clone();
                    link.who.program = Some(name.clone());
                    link.waits_on.kind = name.clone();
                    link.seconds = number;
                }
                for evidence in &mut finding.evidence {
                    evidence.fact = name.clone();
                    evidence.unit = name.clone();
                    evidence.value = number;
                }
                for remedy in &mut finding.remedy {
                    remedy.command = name.clone();
                    remedy.undo = name.clone();
                }
            }
            for verbose in [false, true] {
                let text = rendered(&report, verbose, 80, false);
                prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
                prop_assert!(text.lines().count() < 400);
            }
        }
    }
}

/// docs/json.md is the contract: each field that can be printed stands in it.
#[test]
fn every_field_is_documented() {
    let docs = include_str!("../../../../docs/json.md");
    for (name, report) in reports() {
        let mut keys = Vec::new();
        keys_of(&serde_json::to_value(&report).expect("JSON"), &mut keys);
        for key in keys {
            let reported = ["`{}`", "`{}.", ".{}`", "\"{}\""].map(|it| it.replace("{}", &key));
            assert!(reported.iter().any(|it| docs.contains(it.as_str())), "{name}: {key}");
        }
    }
}

pub(super) fn keys_of(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                keys.push(key.clone());
                keys_of(value, keys);
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| keys_of(value, keys)),
        _ => {}
    }
}
