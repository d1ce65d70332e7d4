//! What the screen is about: the windows, which of them is shown, and what was chosen on it. Keys and news change it, drawing reads it.
//!
//! Pure: no terminal, no clock, no file. Where an answer has to be made from its recording it says so (`wanted`), and somebody else
//! makes it. A choice is by key, so that it stays with the same trouble from one window to the next.
//!
//! Rejected: a screen that holds the last answer only (who comes at night wants to see what was before).

use super::keys::Action;
use super::rows::{self, Row, View};
use super::window::{Content, Window};
use crate::text::{self, escape};
use holdup_reason::answer::{Caveat, Report};
use jiff::tz::TimeZone;
use std::collections::{BTreeSet, VecDeque};

/// Live windows that are held with their answers: a quarter of an hour of the usual length, and the widest strip.
pub(super) const LIVE_MAX: usize = 200;
/// Answers of the ring that are held at once.
const MADE_MAX: usize = 40;
/// Columns of what is said at the foot of the screen.
const NOTICE: usize = 300;

/// Where the windows come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum From {
    /// A look that goes on; the length of its windows, seconds.
    Live(f64),
    /// Recordings.
    Past,
}

/// What lies over the two panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Nothing.
    Nothing,
    /// The chosen one in full.
    Whole,
    /// The keys.
    Help,
}

/// What is to be done next by whoever owns the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing more than to draw.
    Draw,
    /// End.
    End,
    /// Draw all of it anew.
    DrawAnew,
    /// Give the terminal back, and stop until somebody continues.
    Suspend,
    /// Take the mouse, or leave it to the terminal.
    Mouse,
}

/// What was chosen on the screen.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The view.
    pub view: View,
    /// Of each view the key of its row.
    keys: [Option<String>; 3],
    /// First line of the detail.
    pub scroll: usize,
    /// What lies over it.
    pub over: Over,
    /// Where nothing holds anybody up, the small losses are listed all the same.
    pub lists_small: bool,
    /// The mouse is the screen's.
    pub has_mouse: bool,
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct State {
    /// Who is looked at, until an answer says it.
    pub whom: String,
    /// Where the windows come from.
    pub from: From,
    /// Times are said in it.
    pub zone: TimeZone,
    /// The windows, the oldest first.
    pub windows: VecDeque<Window>,
    at: usize,
    /// The newest is shown, whatever comes.
    pub is_following: bool,
    /// What was chosen.
    pub chosen: Chosen,
    /// What is said at the foot.
    pub notice: Option<String>,
    /// Limits that were said already.
    said: BTreeSet<String>,
    /// Why no window comes any more.
    pub ended: Option<String>,
    /// Windows that came while the terminal took nothing.
    pub unseen: u64,
    /// For how long no window has come, seconds, if that is too long.
    pub late_seconds: Option<u64>,
    /// Rows of the detail, and how far it can be scrolled, as it was last drawn.
    pub page: (usize, usize),
}

impl State {
    /// Whether what is shown may be over by now.
    pub(super) fn is_past(&self) -> bool {
        self.from == From::Past || self.ended.is_some() || self.at + 1 < self.windows.len()
    }

    /// Before the first window.
    pub(super) fn new(whom: String, from: From, zone: TimeZone) -> Self {
        let chosen = Chosen {
            view: View::Answers,
            keys: [None, None, None],
            scroll: 0,
            over: Over::Nothing,
            lists_small: false,
            has_mouse: true,
        };
        Self {
            whom,
            from,
            zone,
            windows: VecDeque::new(),
            at: 0,
            is_following: matches!(from, From::Live(_)),
            chosen,
            notice: None,
            said: BTreeSet::new(),
            ended: None,
            unseen: 0,
            late_seconds: None,
            page: (0, 0),
        }
    }

    /// The next live window.
    pub(super) fn push(&mut self, report: Box<Report>) {
        self.say_limits(&report);
        self.late_seconds = None;
        self.windows.push_back(Window::of(report));
        if self.windows.len() > LIVE_MAX {
            self.windows.pop_front();
            self.at = self.at.saturating_sub(1);
        }
        if self.is_following {
            self.at = self.windows.len() - 1;
        }
    }

    /// Once: what cannot be seen here.
    fn say_limits(&mut self, report: &Report) {
        let is_blind = |it: &&Caveat| it.code.starts_with("blind.") && text::hides(it);
        let limits = report.caveats.iter().filter(is_blind);
        let new: Vec<String> = limits
            .filter(|it| self.said.insert(it.code.clone()))
            .map(|it| escape::prose(&it.text, NOTICE))
            .collect();
        if !new.is_empty() && matches!(self.from, From::Live(_)) {
            self.notice = Some(format!("Not all can be seen: {}", new.join(" ")));
        }
    }

    /// All windows of the past, and which of them is shown first.
    pub(super) fn fill(&mut self, windows: VecDeque<Window>, at: usize) {
        self.at = at.min(windows.len().saturating_sub(1));
        self.windows = windows;
    }

    /// Which answer is to be made now; it is asked for once, and one at a time, so that the one shown is never waited for behind others.
    pub(super) fn wanted(&mut self) -> Option<(usize, std::path::PathBuf)> {
        if self.windows.iter().any(|it| matches!(it.content, Content::Coming)) {
            return None;
        }
        let window = self.windows.get_mut(self.at)?;
        if !matches!(window.content, Content::Away) {
            return None;
        }
        window.content = Content::Coming;
        Some((self.at, window.file.clone()?))
    }

    /// An answer was made.
    pub(super) fn take(&mut self, place: usize, made: Result<Box<Report>, String>) {
        if let Ok(report) = &made {
            self.say_limits(report);
        }
        if let Some(window) = self.windows.get_mut(place) {
            window.take(made);
        }
        let made = |it: &(usize, &Window)| it.1.file.is_some() && it.1.report().is_some();
        let held: Vec<usize> =
            self.windows.iter().enumerate().filter(made).map(|(at, _)| at).collect();
        // The farthest is the last that is gone back to.
        let farthest = held.iter().max_by_key(|place| place.abs_diff(self.at)).copied();
        if held.len() > MADE_MAX
            && let Some(window) = farthest.and_then(|place| self.windows.get_mut(place))
        {
            window.content = Content::Away;
        }
    }

    /// The window that is shown, by its place.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The window that is shown.
    pub(super) fn window(&self) -> Option<&Window> {
        self.windows.get(self.at)
    }

    /// Its answer.
    pub(super) fn report(&self) -> Option<&Report> {
        self.window()?.report()
    }

    /// The rows of the view.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.report().map_or_else(Vec::new, |report| rows::rows(self.chosen.view, report))
    }

    /// Whether the screen says that nothing holds anybody up, and no more.
    pub(super) fn is_quiet(&self) -> bool {
        let quiet = || self.report().is_some_and(rows::is_quiet);
        self.chosen.view == View::Answers && !self.chosen.lists_small && quiet()
    }

    /// The place of the chosen row; the first if the chosen one is not there.
    pub(super) fn row(&self, rows: &[Row]) -> usize {
        let key = self.chosen.keys[self.chosen.view as usize].as_deref();
        rows.iter().position(|row| Some(row.key.as_str()) == key).unwrap_or(0)
    }

    /// For how long a row is known without a gap, seconds, and whether it may be older: it was there in the first window, or its longest
    /// wait says so.
    pub(super) fn age(&self, row: &Row) -> (f64, bool) {
        let Some(shown) = self.window() else { return (0.0, false) };
        let mut first = self.at;
        while first > 0
            && self.windows[first].follows(&self.windows[first - 1])
            && self.windows[first - 1].keys.contains(&row.key)
        {
            first -= 1;
        }
        let since_ns = self.windows[first].begin_unix_ns;
        let seen_seconds = shown.end_unix_ns().saturating_sub(since_ns) as f64 / 1e9;
        let is_first = first == 0 || !self.windows[first].follows(&self.windows[first - 1]);
        match row.longest_seconds > seen_seconds {
            true => (row.longest_seconds, false),
            false => (seen_seconds, is_first),
        }
    }

    /// The detail was drawn so: rows of it, and how far it can be scrolled.
    pub(super) fn drawn(&mut self, rows: usize, scroll_max: usize) {
        self.page = (rows, scroll_max);
        self.chosen.scroll = self.chosen.scroll.min(scroll_max);
    }

    /// Does what a key or the mouse asks for.
    pub(super) fn act(&mut self, action: Action) -> Then {
        // Said until the next key.
        self.notice = None;
        self.unseen = 0;
        match action {
            Action::Quit if self.chosen.over == Over::Help => self.over(Over::Nothing),
            Action::Quit => return Then::End,
            Action::End => return Then::End,
            Action::Back => match (self.chosen.over, self.chosen.lists_small) {
                (Over::Nothing, false) => return Then::End,
                (Over::Nothing, true) => self.chosen.lists_small = false,
                _ => self.over(Over::Nothing),
            },
            Action::Help if self.chosen.over == Over::Help => self.over(Over::Nothing),
            Action::Help => self.over(Over::Help),
            Action::Enter if self.is_quiet() => self.chosen.lists_small = true,
            Action::Enter if self.chosen.over != Over::Nothing => self.over(Over::Nothing),
            Action::Enter if !self.rows().is_empty() => self.over(Over::Whole),
            Action::Enter => {}
            Action::View(view) => self.view(view),
            Action::NextView => self.view(View::ALL[(self.chosen.view as usize + 1) % 3]),
            Action::PreviousView => self.view(View::ALL[(self.chosen.view as usize + 2) % 3]),
            Action::Row(by) if self.has_one_pane() => self.scroll(by),
            Action::Row(by) => self.move_row(by),
            Action::Choose(place) => self.choose(place),
            Action::Scroll(by) => self.scroll(by),
            Action::Page(by) => self.scroll(by * self.page.0.saturating_sub(1).max(1) as isize),
            Action::First if self.has_one_pane() => self.chosen.scroll = 0,
            Action::First => self.choose(0),
            Action::Last if self.has_one_pane() => self.chosen.scroll = self.page.1,
            Action::Last => self.choose(usize::MAX),
            Action::Window(by) => self.go(self.at.saturating_add_signed(by)),
            Action::GoTo(place) => self.go(place),
            Action::Found(by) => self.go_to_found(by),
            Action::Pause => self.pause(),
            Action::Mouse => {
                self.chosen.has_mouse = !self.chosen.has_mouse;
                return Then::Mouse;
            }
            Action::Redraw => return Then::DrawAnew,
            Action::Suspend => return Then::Suspend,
        }
        Then::Draw
    }

    fn has_one_pane(&self) -> bool {
        self.chosen.over != Over::Nothing || self.is_quiet()
    }

    fn over(&mut self, over: Over) {
        (self.chosen.over, self.chosen.scroll) = (over, 0);
    }

    fn view(&mut self, view: View) {
        self.chosen.view = view;
        self.over(Over::Nothing);
    }

    fn scroll(&mut self, by: isize) {
        let scrolled = self.chosen.scroll.saturating_add_signed(by);
        self.chosen.scroll = scrolled.min(self.page.1);
    }

    fn move_row(&mut self, by: isize) {
        let place = self.row(&self.rows());
        self.choose(place.saturating_add_signed(by));
    }

    fn choose(&mut self, place: usize) {
        let rows = self.rows();
        let Some(row) = rows.get(place.min(rows.len().saturating_sub(1))) else { return };
        self.chosen.keys[self.chosen.view as usize] = Some(row.key.clone());
        self.chosen.scroll = 0;
    }

    fn go(&mut self, place: usize) {
        let last = self.windows.len().saturating_sub(1);
        self.at = place.min(last);
        self.chosen.scroll = 0;
        self.is_following = self.at == last && matches!(self.from, From::Live(_));
    }

    /// To the next window, or the one before, in which something was found.
    fn go_to_found(&mut self, by: isize) {
        let is_found = |place: &usize| self.windows[*place].mark.is_found();
        let found = match by > 0 {
            true => (self.at + 1..self.windows.len()).find(is_found),
            false => (0..self.at).rev().find(is_found),
        };
        match found {
            Some(place) => self.go(place),
            None => {
                let word = if by > 0 { "later" } else { "earlier" };
                self.notice = Some(format!("In no {word} window was anything found."));
            }
        }
    }

    fn pause(&mut self) {
        match (self.is_following, self.from) {
            (true, _) => self.is_following = false,
            (false, From::Live(_)) => self.go(self.windows.len()),
            (false, From::Past) => self.notice = Some("This is the past: it stands still.".into()),
        }
    }
}
