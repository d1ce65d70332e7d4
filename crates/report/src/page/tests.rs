//! The page's promises that need no browser: it holds nothing that could act, adds up, and stays small whatever was recorded.
//!
//! What it does when it is opened is tested in tests/browser/.

use super::*;
use crate::job::Aim;
use crate::main_loop;
use crate::recorded_tests::{self as recorded, Recorded};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdup_reason::Beside;
use holdup_reason::answer::report::ObjectName;
use holdup_reason::facts::*;
use holdup_reason::model::Model;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::path::Path;

const DRAWN: Beside = Beside { picture: true, export: false, look: false };

/// What a page of a real look may weigh: it is mailed, and opened on phones.
const PAGE_BYTES_MAX: usize = 300_000;
/// What it may weigh whatever names and however many waits were recorded.
const HOSTILE_PAGE_BYTES_MAX: usize = 1_000_000;

fn page_of(report: &Report, picture: &Picture) -> String {
    String::from_utf8(render(report, picture).expect("a page")).expect("UTF-8")
}

/// What stands between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).expect(from);
    rest.split_once(to).expect(to).0
}

fn data_of(page: &str) -> serde_json::Value {
    let data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    serde_json::from_str(data).expect("JSON")
}

fn explained(facts: Vec<Fact>) -> (Report, Picture) {
    let explained = holdup_reason::explain_beside(&mut Model::new(facts), DRAWN);
    (explained.report, explained.picture.expect("drawn"))
}

#[test]
fn the_policy_allows_this_style_and_this_script_and_nothing_else() {
    let (report, picture) = explained(look(&[]));
    let page = page_of(&report, &picture);
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"");
    let style = hash(between(&page, "<style>", "</style>"));
    let script = hash(between(&page, "<script>", "</script>"));
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
        )
    );
    assert_eq!((page.matches("<script").count(), page.matches("<style").count()), (2, 1));
}

#[test]
fn the_template_loads_nothing_and_writes_no_markup() {
    // A name and no address: nothing is ever fetched from it.
    let plain = |text: &str| text.replace("http://www.w3.org/2000/svg", "");
    let template = plain(&format!("{PAGE}{STYLE}{LOOK}{COMPARED}"));
    for word in [
        "http:",
        "https:",
        "//cdn",
        "@import",
        "url(\"",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "import(",
        "setAttribute(\"style\"",
        "style=\"",
        "onclick=\"",
        "href",
    ] {
        assert!(!template.contains(word), "the template has {word}");
    }
    for (script, most) in [(LOOK, 90_000), (COMPARED, 60_000)] {
        let bytes = PAGE.len() + STYLE.len() + script.len();
        assert!(bytes < most, "the template has {bytes} bytes");
    }
}

proptest! {
    #[test]
    fn no_string_leaves_the_data(text in any::<String>()) {
        let json = serde_json::to_string(&text).expect("JSON");
        let embedded = for_script(&json);
        prop_assert!(!embedded.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{embedded:?}");
        prop_assert!(!embedded.chars().any(char::is_control), "{embedded:?}");
        prop_assert_eq!(serde_json::from_str::<String>(&embedded).expect("JSON"), text);
    }
}

#[test]
fn every_recording_is_a_small_page_that_adds_up() {
    for Recorded { path, explained, .. } in recorded::all() {
        let (report, picture) = (&explained.report, explained.picture.as_ref().expect("a picture"));
        let page = page_of(report, picture);
        assert!(page.len() < PAGE_BYTES_MAX, "{}: {} bytes", path.display(), page.len());
        let data = data_of(&page);
        assert_eq!(data["report"]["schema"], 1);
        let ends = data["report"]["answer"]["ends"].as_array().expect("ends");
        assert_eq!(ends.len(), data["picture"]["ends"].as_array().expect("ends").len());
        adds_up(report, picture, path);
    }
}

/// The bar is the answer's ends; over time, and in the tree, they are the same seconds.
fn adds_up(report: &Report, picture: &Picture, path: &Path) {
    let ends: f64 = report.answer.ends.iter().map(|end| end.seconds).sum();
    let near = |one: f64, other: f64| (one - other).abs() <= 0.002 * one.max(other) + 1e-6;
    assert!(near(ends, report.answer.demand_seconds), "{}", path.display());
    let over_time: f64 =
        picture.over_time.ends.iter().flat_map(|end| &end.runs).flat_map(|(_, run)| run).sum();
    assert!(near(over_time, ends), "{}: {over_time} over time, {ends} in ends", path.display());
    for (end, tree) in report.answer.ends.iter().zip(&picture.trees) {
        // Those that wait behind others count in the tree alone.
        assert!(tree.seconds >= end.seconds * 0.998 - 1e-6, "{}: {end:?}", path.display());
    }
    if report.target.kind == TargetKind::Command {
        assert!(near(ends, report.accounting.wall_seconds), "{}", path.display());
        let behind: f64 = picture.trees.iter().map(|tree| tree.seconds).sum();
        assert!(near(behind, ends), "{}: {behind} in trees", path.display());
    }
}

#[test]
fn pieces_of_a_line_do_not_overlap_and_stay_in_the_window() {
    for Recorded { path, explained, .. } in recorded::all() {
        let picture = explained.picture.as_ref().expect("a picture");
        for line in &picture.lines {
            let mut until = 0;
            for piece in &line.pieces {
                // Both ends are cut to a microsecond.
                assert!(piece.0 + 1 >= until, "{}: {} {piece:?}", path.display(), line.who);
                until = piece.0 + piece.1;
                assert!(until <= picture.us + 1, "{}: {} {piece:?}", path.display(), line.who);
                assert!(picture.words.len() > piece.3);
            }
        }
        let lanes = picture.ends.iter().flat_map(|end| &end.lanes);
        assert!(lanes.into_iter().all(|lane| lane.line < picture.lines.len()));
    }
}

#[test]
fn lanes_go_from_the_victim_to_the_holder_and_know_who_wakes_whom() {
    let explained = &recorded::named("lock-file-convoy-4403.rec").explained;
    let (report, picture) = (&explained.report, explained.picture.as_ref().expect("a picture"));
    let end = &picture.ends[report.answer.first.expect("one end")];
    let [victim, holder] = &end.lanes[..] else { panic!("{:?}", end.lanes) };
    assert_eq!((victim.role, holder.role), ("victim", "holder"));
    assert!(holder.relation.as_ref().is_some_and(|it| it.starts_with("holds /run/holdup-lab/")));
    let (waits, sleeps) = (&picture.lines[victim.line], &picture.lines[holder.line]);
    let woken = waits.pieces.iter().filter(|piece| piece.5 == holder.line as i32).count();
    assert!(woken >= 3, "{:?}", waits.pieces);
    let words = |piece: &usize| picture.words[*piece].as_str();
    assert!(waits.pieces.iter().any(|it| words(&it.3).starts_with("waits for the lock on /run/")));
    assert!(sleeps.pieces.iter().any(|it| words(&it.3) == "sleeps"));
}

#[test]
fn a_page_is_the_same_twice() {
    let path = &recorded::all()[0].path;
    let page = || {
        let answered = main_loop::replay(path, &Aim::Host, DRAWN).expect("an answer");
        page_of(&answered.report, answered.picture().expect("a picture"))
    };
    assert_eq!(page(), page());
}

const SECOND: Ns = 1_000_000_000;
const NASTY: &str = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\u{2028}\u{202e}\x1b[31m\"'`${}\\";

fn at(at_ns: Ns, body: Body) -> Fact {
    Fact { at_ns, body }
}

/// A look of five seconds at a host, from one second on.
fn look(more: &[Fact]) -> Vec<Fact> {
    let host = Host { hostname: NASTY.into(), cpus: 2, kernel: NASTY.into(), ..Host::default() };
    let target = Target {
        kind: TargetKind::Host,
        name: NASTY.into(),
        pid: 0,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    let mut facts = vec![
        at(SECOND, Body::Host(host)),
        at(SECOND, Body::Target(target)),
        at(SECOND, Body::WindowBegin(WindowBegin { unix_ns: 1_795_232_580_000_000_000 })),
    ];
    facts.extend_from_slice(more);
    facts.push(at(6 * SECOND, Body::WindowEnd(WindowEnd::default())));
    facts
}

/// One of many waits for file locks: thread `who` waits for file `of`, whose path is long and hostile.
fn lock_wait(who: u32, of: u64, begin_ns: Ns, ns: Ns) -> Fact {
    let thread =
        |tid: u32| ThreadRef { tid, pid: tid, start_ns: 1, comm: format!("</script>{tid}") };
    let path = format!("/{}{NASTY}/{of}", "d".repeat(4000));
    let file = FileRef { ino: of, path: Some(path), ..FileRef::default() };
    let place = Place {
        state: WaitState::Sleep,
        syscall: "flock".into(),
        object: Some(ObjectRef::File(file)),
        ..Place::default()
    };
    let end_ns = begin_ns + ns;
    let by = thread(9_000 + (of % 50) as u32);
    let wake = Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() };
    let wait =
        Wait { thread: thread(who), begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
    at(end_ns, Body::Wait(wait))
}

#[test]
fn a_hundred_thousand_waits_with_hostile_names_make_a_page_of_bounded_size() {
    let waits: Vec<Fact> = (0..100_000u64)
        .map(|n| {
            lock_wait(
                1 + (n % 2_000) as u32,
                n % 700,
                SECOND + (n / 2_000) * 98_000_000,
                90_000_000,
            )
        })
        .collect();
    let (report, picture) = explained(look(&waits));
    assert!(report.answer.demand_seconds > 1000.0, "{}", report.answer.demand_seconds);
    let page = page_of(&report, &picture);
    assert!(page.len() < HOSTILE_PAGE_BYTES_MAX, "{} bytes", page.len());
    assert!(!picture.left_out.is_empty());
    adds_up(&report, &picture, Path::new("100,000 waits"));
    let data = between(&page, "<script type=\"application/json\" id=\"data\">", "</script>");
    assert!(!data.contains(['<', '>', '&', '\u{2028}', '\u{202e}', '\x1b']));
    assert_eq!(data_of(&page)["report"]["target"]["name"], NASTY);
}

#[test]
fn what_is_cut_is_said_and_commands_stay_whole() {
    let explained = &recorded::named("lock-file-run-4402.rec").explained;
    let mut report = explained.report.clone();
    let command = format!("kill -9 $(cat '/{}')", "x".repeat(1_000));
    report.findings[0].remedy[0].command.clone_from(&command);
    report.findings[0].object = ObjectName::new("file", "y".repeat(4_096));
    let victim = report.findings[0].victims[0].clone();
    report.findings[0].victims = vec![victim; 100];
    let data = data_of(&page_of(&report, explained.picture.as_ref().expect("a picture")));
    let finding = &data["report"]["findings"][0];
    assert_eq!(finding["remedy"][0]["command"], command);
    assert!(finding["object"]["name"].as_str().expect("a name").chars().count() <= 400);
    let left: Vec<(u64, String)> =
        serde_json::from_value(data["left_out"].clone()).expect("a list");
    assert!(
        left.iter().any(|(count, what)| *count == 76 && what.starts_with("victims")),
        "{left:?}"
    );
    assert!(left.iter().any(|(count, what)| *count == 1 && what.starts_with("names")), "{left:?}");
    let code = &report.findings[0].code;
    assert!(!data["rules"][code]["refuted_by"].as_array().expect("a rule").is_empty());
}
