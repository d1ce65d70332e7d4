//! The screens on cells without a terminal, of recordings made live and of reports made by hand, and what keys make of the state.
//!
//! Must not: hold whole screens to the letter (each better sentence would break them all); what must be readable is asked for.

use super::draw::{Drawn, draw};
use super::keys::Action;
use super::rows::{self, View};
use super::state::{From, LIVE_MAX, Over, State, Then};
use super::window::{Content, Mark, Window};
use holdup_reason::answer::{Report, Verdict};
use jiff::tz::TimeZone;
use ratatui_core::backend::TestBackend;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;
use std::path::{Path, PathBuf};

const SIZES: [(u16, u16); 4] = [(80, 24), (40, 20), (120, 40), (40, 10)];
const SECOND_NS: u64 = 1_000_000_000;

fn recorded(name: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    crate::main_loop::report_of(&folder.join(format!("{name}.rec")), &crate::job::Aim::Host)
        .expect("a recording")
}

fn made(name: &str) -> Report {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("kept");
    let mut report: Report = serde_json::from_str(&text).expect("a report");
    for finding in report.findings.iter_mut().filter(|it| it.key.is_empty()) {
        finding.key = format!("{} {}", finding.code, finding.title);
    }
    report
}

/// A live look with these windows, one after another without a gap.
fn live(reports: impl IntoIterator<Item = Report>) -> State {
    let mut state = State::new("this host".into(), From::Live(5.0), TimeZone::UTC);
    for (at, mut report) in reports.into_iter().enumerate() {
        report.window.seconds = 5.0;
        report.window.begin_unix_ns = (1_795_232_580 + 5 * at as u64) * SECOND_NS;
        state.push(Box::new(report));
    }
    state
}

struct Shown {
    terminal: Terminal<TestBackend>,
    drawn: Drawn,
}

impl Shown {
    fn text(&self) -> String {
        let cells = self.terminal.backend().buffer();
        let area = *cells.area();
        let line = |y| (0..area.width).map(|x| cells[(x, y)].symbol()).collect::<String>();
        (0..area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    /// All of it in a line, for sentences that are wrapped.
    fn words(&self) -> String {
        self.text().split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn show(state: &mut State, (width, height): (u16, u16), has_colour: bool) -> Shown {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("cells");
    let mut drawn = Drawn::default();
    terminal.draw(|frame| drawn = draw(state, frame.buffer_mut(), has_colour)).expect("drawn");
    state.drawn(drawn.detail.height.into(), drawn.scroll_max);
    Shown { terminal, drawn }
}

/// All pages of the detail.
fn read(state: &mut State, size: (u16, u16)) -> String {
    let mut all = String::new();
    state.chosen.scroll = 0;
    loop {
        let shown = show(state, size, false);
        all.push_str(&shown.text());
        let before = state.chosen.scroll;
        assert_eq!(state.act(Action::Scroll(1)), Then::Draw);
        if state.chosen.scroll == before {
            return all;
        }
    }
}

#[test]
fn a_finding_is_read_with_its_way_out_at_80_by_24() {
    let report = recorded("disk-own-throttle-iops-1");
    let finding = report.findings[0].clone();
    let mut state = live([report]);
    let shown = show(&mut state, (80, 24), false);
    let text = shown.text();
    assert!(text.contains("HELD"), "{text}");
    assert!(text.contains(&finding.code), "{text}");
    assert!(text.contains("s/s"), "{text}");
    let all = read(&mut state, (80, 24));
    for label in ["chain", "do ", "seen", "holdup explain"] {
        assert!(all.contains(label), "{label}: {all}");
    }
    let row = &state.rows()[0];
    assert_eq!(row.key, finding.key);
    assert!((row.lost_per_second - finding.impact.wait_seconds_per_second).abs() < 1e-12);
}

#[test]
fn every_view_of_every_kind_of_answer_fits_every_screen() {
    let names = [
        "disk-own-throttle-iops-1",
        "lock-deadlock-files-4401",
        "cpu-saturated-docker-1",
        "chain-five-links-1",
    ];
    let reports = names.map(recorded).into_iter().chain(
        ["several", "idle_host_note", "idle_unseen", "no_time", "works_host", "long_chain"]
            .map(made),
    );
    for report in reports {
        let mut state = live([report]);
        for size in SIZES {
            for view in View::ALL {
                for over in [Over::Nothing, Over::Whole, Over::Help] {
                    state.act(Action::View(view));
                    state.chosen.over = over;
                    for has_colour in [false, true] {
                        let shown = show(&mut state, size, has_colour);
                        let text = shown.text();
                        assert!(
                            text.contains("q end")
                                || text.contains("Esc")
                                || text.contains("Not all"),
                            "{size:?} {text}"
                        );
                        let inside = Rect::new(0, 0, size.0, size.1);
                        for (area, action) in &shown.drawn.clicks {
                            assert_eq!(area.intersection(inside), *area, "{action:?} {size:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn without_colour_no_cell_has_one_and_every_mark_is_still_another() {
    let mut state = live([made("idle_host_note"), made("several"), made("works_host")]);
    let shown = show(&mut state, (80, 24), false);
    let cells = shown.terminal.backend().buffer();
    for cell in cells.content() {
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
    }
    let marks: Vec<char> = state.windows.iter().map(|it| it.mark.drawn().0).collect();
    assert_eq!(marks, ['.', '#', '-']);
    let strip = shown.text().lines().nth(4).expect("a strip").to_owned();
    assert!(strip.contains(".#-"), "{strip}");
    let chosen = (0..80).find(|x| cells[(*x, 4)].modifier.contains(Modifier::REVERSED));
    assert_eq!(chosen.map(|x| cells[(x, 4)].symbol().to_owned()).as_deref(), Some("-"));
    let coloured = show(&mut state, (80, 24), true);
    assert_eq!(coloured.text(), shown.text(), "colour adds colour and nothing else");
}

#[test]
fn a_hostile_name_acts_on_no_terminal() {
    let report = made("hostile");
    for size in SIZES {
        let mut state = live([report.clone()]);
        for view in View::ALL {
            state.act(Action::View(view));
            for over in [Over::Nothing, Over::Whole] {
                state.chosen.over = over;
                let text = read(&mut state, size);
                let hostile =
                    text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
                assert_eq!(hostile, None, "{size:?} {view:?}");
            }
        }
    }
}

#[test]
fn nothing_is_said_with_what_was_looked_at_and_what_was_not_seen() {
    let mut state = live([made("several"), made("idle_host_note"), made("idle_host_note")]);
    let words = show(&mut state, (80, 24), false).words();
    assert!(words.contains("Nothing holds anybody up."), "{words}");
    for said in [
        "looked at",
        "threads",
        "the last of 3 without a gap",
        "in 1 of those windows something was found",
        "unseen",
    ] {
        assert!(words.contains(said), "{said}: {words}");
    }
    let mut state = live([made("idle_unseen")]);
    let words = show(&mut state, (80, 24), false).words();
    assert!(words.contains("Nothing holds anybody up, as far as holdup could see."), "{words}");
    assert!(words.contains("Not all can be seen"), "said once at the foot: {words}");
    state.act(Action::Page(1));
    state.push(Box::new(made("idle_unseen")));
    let words = show(&mut state, (80, 24), false).words();
    assert!(!words.contains("Not all can be seen"), "only once: {words}");
}

#[test]
fn a_deadlock_is_drawn_as_a_ring() {
    for name in ["lock-deadlock-files-4401", "lock-deadlock-threads-1"] {
        let mut state = live([recorded(name)]);
        state.act(Action::View(View::Blockers));
        let links = state.report().expect("it is here").findings[0].chain.clone();
        // Nobody waits for what it has itself.
        for row in state.rows().iter().take(links.len()) {
            let super::rows::About::Blocker(blocker) = &row.about else { panic!("{row:?}") };
            assert!(!blocker.waiters().any(|it| it.starts_with(&row.short)), "{row:?}");
        }
        for size in [(80, 24), (120, 40)] {
            let text = read(&mut state, size);
            assert!(text.contains("a deadlock"), "{text}");
            assert!(text.contains("They wait for each other:"), "{text}");
            for drawn in [".->", "'--'"] {
                assert!(text.contains(drawn), "{drawn}: {text}");
            }
            for link in &links {
                let name = link.who.called();
                assert!(text.contains(&name), "{name}: {text}");
                if let Some(tid) = link.who.tid {
                    assert!(text.contains(&format!("thread {tid}")), "{tid}: {text}");
                }
            }
        }
    }
}

#[test]
fn who_holds_a_lock_is_a_blocker_and_who_waits_is_said() {
    let mut state = live([recorded("chain-five-links-1")]);
    state.act(Action::View(View::Blockers));
    let rows = state.rows();
    let report = state.report().expect("it is here");
    // The disk first, which would have to act; behind it everybody whom somebody waits for.
    assert!(rows[0].short.contains("loop0") && rows[0].sentence.contains("wait"), "{rows:?}");
    for link in &report.findings[0].chain[1..] {
        let name = link.who.called();
        assert!(rows.iter().any(|row| row.short.starts_with(&name)), "{name}: {rows:?}");
    }
}

#[test]
fn groups_lose_what_their_members_lose() {
    let report = recorded("cpu-saturated-docker-1");
    let rows = rows::rows(View::Groups, &report);
    assert!(rows.iter().any(|row| row.short == "container"), "{rows:?}");
    let lost: f64 = rows.iter().map(|row| row.lost_per_second * report.window.seconds).sum();
    let victims = report.answer.ends.iter().flat_map(|end| &end.victims);
    let of_groups: f64 = victims
        .filter(|it| it.container.is_some() || it.workload.name.is_some())
        .map(|it| it.wait_seconds)
        .sum();
    assert!(lost > 0.0 && lost <= of_groups + 1e-9, "{lost} of {of_groups}");
}

#[test]
fn the_bar_is_conserved() {
    for name in ["disk-own-throttle-iops-1", "cpu-saturated-docker-1"] {
        let report = recorded(name);
        let segments = super::bar::segments(&report, 78);
        let seconds: f64 = segments.iter().map(|it| it.seconds).sum();
        assert!((seconds - report.answer.demand_seconds).abs() < 1e-6, "{seconds}");
        assert_eq!(segments.iter().map(|it| it.columns).sum::<usize>(), 78);
    }
}

#[test]
fn a_choice_stays_with_its_trouble_and_ages() {
    let two = made("several");
    let mut other = two.clone();
    other.findings.reverse();
    other.answer.ends.clear();
    let mut state = live([two]);
    state.act(Action::Row(1));
    let key = state.rows()[1].key.clone();
    assert_eq!(state.row(&state.rows()), 1);
    let mut next = other;
    next.window.seconds = 5.0;
    next.window.begin_unix_ns = state.windows[0].end_unix_ns();
    state.push(Box::new(next));
    let rows = state.rows();
    assert_eq!(rows[state.row(&rows)].key, key);
    let (age, is_older) = state.age(&rows[state.row(&rows)]);
    assert!((age - 10.0).abs() < 1e-6 && is_older, "{age}");
}

#[test]
fn keys_go_through_windows_and_the_look_goes_on() {
    let idle = || made("idle_host_note");
    let mut state = live([idle(), made("several"), idle()]);
    assert!(state.is_following && state.at() == 2);
    state.act(Action::Window(-1));
    assert!(!state.is_following && state.at() == 1);
    state.push(Box::new(idle()));
    assert_eq!(state.at(), 1, "who looks back stays there");
    state.act(Action::GoTo(usize::MAX));
    assert!(state.is_following);
    state.act(Action::Found(-1));
    assert_eq!(state.at(), 1);
    state.act(Action::Found(-1));
    assert!(state.notice.as_deref().is_some_and(|it| it.contains("earlier")));
    state.act(Action::Pause);
    assert!(state.is_following && state.at() == 3);
    for _ in 0..LIVE_MAX + 5 {
        state.push(Box::new(idle()));
    }
    assert_eq!((state.windows.len(), state.at()), (LIVE_MAX, LIVE_MAX - 1));
}

#[test]
fn escape_goes_back_and_then_ends() {
    let mut state = live([made("several")]);
    state.act(Action::Enter);
    assert_eq!(state.chosen.over, Over::Whole);
    state.act(Action::Help);
    assert_eq!(state.act(Action::Quit), Then::Draw, "of the keys it goes back");
    assert_eq!(state.act(Action::Back), Then::End);
    state.act(Action::Help);
    assert_eq!(state.act(Action::End), Then::End);
    let mut quiet = live([made("idle_host_note")]);
    quiet.act(Action::Enter);
    assert!(!quiet.is_quiet());
    assert_eq!(quiet.act(Action::Back), Then::Draw);
    assert!(quiet.is_quiet());
}

#[test]
fn a_click_chooses_and_the_wheel_scrolls() {
    let mut state = live([made("idle_host_note"), made("several")]);
    let shown = show(&mut state, (80, 24), false);
    let second = shown.drawn.clicks.iter().find(|it| it.1 == Action::Choose(1)).expect("a row").0;
    for y in second.top()..second.bottom() {
        assert_eq!(shown.drawn.click(3, y), Some(Action::Choose(1)));
    }
    let sentence = state.rows()[1].sentence.split(' ').next().expect("a word").to_owned();
    let line = shown.text().lines().nth(usize::from(second.y + 1)).expect("a line").to_owned();
    assert!(line.contains(&sentence), "{sentence}: {line}");
    assert_eq!(shown.drawn.wheel(3, 8, 1), Action::Row(1));
    assert_eq!(shown.drawn.wheel(60, 10, -1), Action::Scroll(-3));
    let strip = shown.text().lines().nth(4).expect("a strip").to_owned();
    let first = strip.find(".#").expect("two windows") as u16;
    assert_eq!(shown.drawn.click(first, 4), Some(Action::GoTo(0)));
    let tabs = shown.text().lines().nth(5).expect("tabs").to_owned();
    let blockers = tabs.find("2 blockers").expect("a tab") as u16;
    assert_eq!(shown.drawn.click(blockers, 5), Some(Action::View(View::Blockers)));
}

#[test]
fn a_screen_that_is_too_small_says_so() {
    for size in [(39, 24), (80, 9), (12, 3), (1, 1), (0, 0)] {
        let mut state = live([made("several")]);
        let words = show(&mut state, size, false).words();
        if size.0 >= 30 {
            assert!(
                words.contains("is too small: holdup top takes 40 columns and 10 rows"),
                "{words}"
            );
        }
    }
}

#[test]
fn answers_of_the_past_are_made_when_somebody_goes_there() {
    let saved = |at: u64| {
        let mut window = Window::of(Box::new(made("several")));
        window.begin_unix_ns = at * 5 * SECOND_NS;
        (window.content, window.file) = (Content::Away, Some(PathBuf::from(format!("{at}.hup"))));
        window
    };
    let mut state = State::new(String::new(), From::Past, TimeZone::UTC);
    state.fill((0..100).map(saved).collect(), 99);
    assert_eq!(state.wanted(), Some((99, PathBuf::from("99.hup"))));
    assert_eq!(state.wanted(), None, "one at a time");
    let words = show(&mut state, (80, 24), false).words();
    assert!(words.contains("Reading 99.hup"), "{words}");
    state.take(99, Ok(Box::new(made("several"))));
    assert!(show(&mut state, (80, 24), false).words().contains("PAST 100 of 100"));
    for at in (0..99).rev() {
        state.act(Action::Window(-1));
        assert_eq!(state.wanted().map(|it| it.0), Some(at));
        state.take(at, Ok(Box::new(made("several"))));
    }
    let held = state.windows.iter().filter(|it| it.report().is_some()).count();
    assert!((2..60).contains(&held), "{held}");
    assert!(state.report().is_some(), "the one that is shown is never given up");
    state.act(Action::GoTo(usize::MAX));
    state.wanted().expect("it was given up");
    state.take(99, Err("it is gone".into()));
    let words = show(&mut state, (80, 24), false).words();
    assert!(words.contains("cannot be answered from") && words.contains("it is gone"), "{words}");
}

#[test]
fn a_gap_in_the_past_is_drawn() {
    let mut first = Window::of(Box::new(made("several")));
    first.begin_unix_ns = 0;
    let mut later = Window::of(Box::new(made("several")));
    later.begin_unix_ns = 60 * SECOND_NS;
    let mut state = State::new(String::new(), From::Past, TimeZone::UTC);
    state.fill([first, later].into(), 0);
    let strip =
        show(&mut state, (80, 24), false).text().lines().nth(4).expect("a strip").to_owned();
    assert!(strip.contains("#|#"), "{strip}");
}

#[test]
fn before_the_first_answer_it_says_when_it_comes() {
    let mut state = live([]);
    let words = show(&mut state, (80, 24), false).words();
    assert!(
        words.contains("Looking at this host") && words.contains("after 2 s, then one each 5 s"),
        "{words}"
    );
    assert_eq!(state.act(Action::Row(1)), Then::Draw);
    assert_eq!(state.act(Action::Window(-1)), Then::Draw);
    assert_eq!(state.act(Action::Enter), Then::Draw);
}

#[test]
fn marks_are_the_verdicts() {
    for (name, mark) in
        [("several", Mark::Critical), ("works_host", Mark::Works), ("idle_host_note", Mark::Idle)]
    {
        assert_eq!(Window::of(Box::new(made(name))).mark, mark, "{name}");
    }
    let mut waits = made("idle_host_note");
    waits.answer.verdict = Verdict::Waits;
    assert_eq!(Window::of(Box::new(waits)).mark, Mark::Waits);
}
