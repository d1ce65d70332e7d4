//! The screen, from the state: frame, list, detail. Says where what was drawn, so that the mouse finds it.
//!
//! All letters are ASCII but for names, so that a console, a serial line and a picture of it read alike. Below 80 columns one pane at a
//! time; below 40 columns or 10 rows a sentence. Must not: change the state, or write to a terminal.
//!
//! Edit together: docs/top.md.

use super::bar;
use super::keys::Action;
use super::paint::Painter;
use super::quiet;
use super::rows::{self, Row, View};
use super::state::{From, Over, State};
use super::window::Mark;
use crate::text::escape;
use crate::text::page::{Page, Piece, Tone, wrap};
use holdup_reason::answer::Report;
use holdup_reason::model::figures;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

/// The narrowest screen.
const WIDTH_MIN: u16 = 40;
/// The lowest.
const HEIGHT_MIN: u16 = 10;
/// From so many columns on there are two panes.
const TWO_PANES: u16 = 80;
/// Columns of the list beside a detail.
const LIST_MIN: u16 = 36;
/// See [`LIST_MIN`].
const LIST_MAX: u16 = 56;
/// Rows of the frame above the panes.
const HEAD: u16 = 6;
/// Lines of a row of the list: figures and a sentence, which is wrapped where there is room.
const LINES_MIN: usize = 2;
/// See [`LINES_MIN`].
const LINES_MAX: usize = 4;
/// Columns of a verdict's sentence.
const TITLE: usize = 240;

/// What was drawn where.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    /// What a click on a place asks for; the last that has it counts.
    pub clicks: Vec<(Rect, Action)>,
    /// The detail.
    pub detail: Rect,
    /// How far it can be scrolled.
    pub scroll_max: usize,
}

impl Drawn {
    /// What a click asks for.
    pub(super) fn click(&self, x: u16, y: u16) -> Option<Action> {
        let is_there = |it: &&(Rect, Action)| it.0.contains(Position::new(x, y));
        self.clicks.iter().rev().find(is_there).map(|(_, action)| *action)
    }

    /// What the wheel asks for.
    pub(super) fn wheel(&self, x: u16, y: u16, by: isize) -> Action {
        match self.detail.contains(Position::new(x, y)) {
            true => Action::Scroll(3 * by),
            false => Action::Row(by),
        }
    }
}

/// Draws all of it.
pub(super) fn draw(state: &State, cells: &mut Buffer, has_colour: bool) -> Drawn {
    let area = *cells.area();
    let mut painter = Painter { cells, has_colour };
    let mut drawn = Drawn::default();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let (width, height) = (area.width, area.height);
        let text = format!(
            "{width} x {height} is too small: holdup top takes {WIDTH_MIN} columns and {HEIGHT_MIN} rows. q ends."
        );
        let lines: Vec<Vec<Piece>> =
            wrap(&text, width.into()).into_iter().map(|line| vec![(Tone::Plain, line)]).collect();
        painter.page(area, &lines, 0);
        return drawn;
    }
    head(state, area, &mut painter);
    strip(state, area, &mut painter, &mut drawn);
    tabs(state, area, &mut painter, &mut drawn);
    let body = Rect::new(area.x, area.y + HEAD, area.width, area.height - HEAD - 1);
    panes(state, body, &mut painter, &mut drawn);
    foot(state, area, &mut painter);
    drawn
}

/// Who, when, what it costs; the verdict; the bar, and the bar in words.
fn head(state: &State, area: Rect, painter: &mut Painter<'_>) {
    let Rect { x, y, width, .. } = area;
    let report = state.report();
    let whom = report.map_or_else(|| state.whom.clone(), crate::text::target);
    let (right, bold) = (standing(state, width), Style::new().add_modifier(Modifier::BOLD));
    let room = width.saturating_sub(right.width() as u16 + 1);
    painter.text(x, y, &escape::name(&whom, room.into()), room, bold);
    let right_x = area.right().saturating_sub(right.width() as u16);
    painter.text(right_x, y, &right, width, Style::new());
    let Some((window, report)) = state.window().zip(report) else { return };
    let (word, tone) = verdict(window.mark, report);
    let title = match window.mark {
        Mark::Unknown => "No time was seen.".into(),
        _ => escape::prose(&report.answer.title, TITLE),
    };
    let title = cut(&title, usize::from(width).saturating_sub(word.len() + 1));
    painter.line(x, y + 1, &[(tone, word.into()), (Tone::Plain, " ".into()), (tone, title)], width);
    let segments = bar::segments(report, width.into());
    let mut column = x;
    for (at, segment) in segments.iter().filter(|it| it.columns > 0).enumerate() {
        let label = format!(" {} {} ", segment.word(), figures::seconds(segment.seconds));
        let fits = label.len() + 2 <= segment.columns;
        let letter = segment.letter().to_string();
        let filled = letter.repeat(segment.columns);
        let text =
            if fits { format!("{letter}{label}{}", &filled[label.len() + 1..]) } else { filled };
        let style = painter.ground(segment.kind, at);
        column = painter.text(column, y + 2, &text, segment.columns as u16, style);
    }
    let words = bar::in_words(report, &segments, width.into());
    let faint = painter.style(Tone::Faint);
    painter.text(x, y + 3, &words, width, faint);
}

/// When the shown window ended, what looking cost, and whether more come.
fn standing(state: &State, width: u16) -> String {
    let Some(window) = state.window() else { return "looking".into() };
    let newer = state.windows.len() - 1 - state.at();
    let more = match (&state.ended, state.late_seconds, state.from, newer) {
        (Some(_), _, _, _) => "ENDED".to_string(),
        (None, Some(late), _, _) => format!("LATE by {late} s"),
        (None, None, From::Live(_), _) if state.is_following => "live".into(),
        (None, None, From::Live(_), newer) => format!("PAUSED, {newer} newer"),
        (None, None, From::Past, _) => {
            format!("PAST {} of {}", state.at() + 1, state.windows.len())
        }
    };
    // Of another day the day is said, too.
    let when = match state.from {
        From::Live(_) => quiet::clock(window.end_unix_ns(), state),
        From::Past => crate::watch::local_time::shown(window.end_unix_ns(), &state.zone),
    };
    let of = |report: &Report| {
        let spent = report.cost.cpu_seconds + report.cost.bpf_seconds.unwrap_or(0.0);
        format!("looking cost {} of a CPU   ", figures::share(spent, report.window.seconds))
    };
    let cost = match state.from {
        From::Live(_) => state.report().filter(|_| width >= TWO_PANES).map(of),
        // Nobody pays for it now, and who was looked at is not to be cut for it.
        From::Past => None,
    };
    let length = match width >= TWO_PANES {
        true => format!("{} to ", figures::seconds(window.seconds)),
        false => String::new(),
    };
    format!("{}{length}{when}  {more}", cost.unwrap_or_default())
}

/// A window's verdict as a word.
fn verdict(mark: Mark, report: &Report) -> (&'static str, Tone) {
    let tone = mark.drawn().1;
    match mark {
        Mark::Unknown => ("UNKNOWN", tone),
        Mark::Warning | Mark::Critical => ("HELD", tone),
        Mark::Waits => ("WAITS", tone),
        Mark::Works => ("WORKS", tone),
        Mark::Idle if crate::text::sees_less(report) => ("IDLE?", Tone::Warning),
        Mark::Idle => ("IDLE", tone),
    }
}

/// A column a window, around the one that is shown; a bar where windows are missing.
fn strip(state: &State, area: Rect, painter: &mut Painter<'_>, drawn: &mut Drawn) {
    let label = if area.width >= TWO_PANES { "windows " } else { "" };
    let y = area.y + 4;
    let faint = painter.style(Tone::Faint);
    let x = painter.text(area.x, y, label, area.width, faint);
    let columns = usize::from(area.right() - x);
    let mut all: Vec<Option<usize>> = Vec::new();
    // Columns left of the shown one, then right of it, until there is no more room.
    let (mut first, mut last) = (state.at(), state.at());
    if state.windows.is_empty() {
        return;
    }
    while last - first + 1 < columns && (first > 0 || last + 1 < state.windows.len()) {
        if last + 1 < state.windows.len() && (first == 0 || last - state.at() < columns / 4) {
            last += 1;
        } else if first > 0 {
            first -= 1;
        } else {
            last += 1;
        }
    }
    for place in first..=last {
        if place > first && !state.windows[place].follows(&state.windows[place - 1]) {
            all.push(None);
        }
        all.push(Some(place));
    }
    let shown = all.iter().position(|it| *it == Some(state.at())).unwrap_or(0);
    // Gaps took room: the shown one stays on the screen.
    let skipped = all.len().saturating_sub(columns).min(shown.saturating_sub(columns / 2));
    let mut column = x;
    for place in all.into_iter().skip(skipped).take(columns) {
        let Some(place) = place else {
            column = painter.text(column, y, "|", 1, faint);
            continue;
        };
        let (letter, tone) = state.windows[place].mark.drawn();
        let mut style = painter.style(tone);
        if place == state.at() {
            style = style.add_modifier(Modifier::REVERSED | Modifier::BOLD);
        }
        drawn.clicks.push((Rect::new(column, y, 1, 1), Action::GoTo(place)));
        column = painter.text(column, y, &letter.to_string(), 1, style);
    }
}

/// The views by number, the shown one in brackets.
fn tabs(state: &State, area: Rect, painter: &mut Painter<'_>, drawn: &mut Drawn) {
    let y = area.y + 5;
    let rule = "-".repeat(area.width.into());
    let faint = painter.style(Tone::Faint);
    painter.text(area.x, y, &rule, area.width, faint);
    let mut x = area.x + 1;
    for (at, view) in View::ALL.into_iter().enumerate() {
        let many = state.report().map_or(0, |report| rows::rows(view, report).len());
        let is_shown = view == state.chosen.view;
        let (open, close) = if is_shown { ('[', ']') } else { (' ', ' ') };
        let text = format!("{open}{} {} {many}{close}", at + 1, view.word());
        let style = if is_shown { painter.style(Tone::Heading) } else { Style::new() };
        let end = painter.text(x, y, &text, area.right().saturating_sub(x), style);
        drawn.clicks.push((Rect::new(x, y, end - x, 1), Action::View(view)));
        x = end + 1;
    }
}

/// List and detail, one of them, or a page.
fn panes(state: &State, body: Rect, painter: &mut Painter<'_>, drawn: &mut Drawn) {
    let width = usize::from(body.width);
    let rows = state.rows();
    let page = match (state.report(), state.chosen.over) {
        (_, Over::Help) => Some(quiet::help(state, width)),
        (None, _) => Some(quiet::no_answer(state, width)),
        (Some(report), _) if state.is_quiet() => Some(quiet::nothing(state, report, width)),
        (Some(report), _) if rows.is_empty() => Some(quiet::empty(state, report, width)),
        (Some(report), Over::Whole) => {
            Some(detail(state, &rows[state.row(&rows)], report, true, width))
        }
        (Some(_), Over::Nothing) => None,
    };
    if let Some(lines) = page {
        drawn.detail = body;
        drawn.scroll_max = painter.page(body, &lines, state.chosen.scroll);
        return;
    }
    let Some(report) = state.report() else { return };
    if body.width < TWO_PANES {
        list(state, &rows, body, painter, drawn);
        return;
    }
    let list_width = (body.width * 2 / 5).clamp(LIST_MIN, LIST_MAX);
    list(state, &rows, Rect { width: list_width, ..body }, painter, drawn);
    let faint = painter.style(Tone::Faint);
    for y in body.top()..body.bottom() {
        painter.text(body.x + list_width, y, "|", 1, faint);
    }
    let x = body.x + list_width + 2;
    let detail = Rect::new(x, body.y, body.right() - x, body.height);
    let lines = self::detail(state, &rows[state.row(&rows)], report, false, detail.width.into());
    drawn.detail = detail;
    drawn.scroll_max = painter.page(detail, &lines, state.chosen.scroll);
}

/// Some lines a row, the chosen one in view.
fn list(state: &State, rows: &[Row], area: Rect, painter: &mut Painter<'_>, drawn: &mut Drawn) {
    let (room, height) = (usize::from(area.width), usize::from(area.height));
    let lines = (height / rows.len().max(1)).clamp(LINES_MIN, LINES_MAX);
    let chosen = state.row(rows);
    let shown = (height / lines).max(1);
    let first = (chosen + 1).saturating_sub(shown);
    for (at, row) in rows.iter().enumerate().skip(first).take(shown) {
        let y = area.y + ((at - first) * lines) as u16;
        let mut style = painter.style(row.tone);
        if at == chosen {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let line = figures_of(row, state.age(row), at == chosen, room);
        painter.text(area.x, y, &line, area.width, style);
        let mut sentence = wrap(&row.sentence, room.saturating_sub(3));
        if sentence.len() > lines - 1 {
            let rest = sentence.split_off(lines - 2).join(" ");
            sentence.push(cut(&rest, room.saturating_sub(3)));
        }
        for (at, line) in sentence.iter().enumerate() {
            painter.text(area.x + 2, y + 1 + at as u16, line, area.width - 2, Style::new());
        }
        drawn.clicks.push((Rect::new(area.x, y, area.width, lines as u16), Action::Choose(at)));
    }
    let below = rows.len().saturating_sub(first + shown);
    if below > 0 && height > shown * lines {
        let faint = painter.style(Tone::Faint);
        let text = format!("  {below} more below");
        painter.text(area.x, area.bottom() - 1, &text, area.width, faint);
    }
}

/// A row's first line: its short name, and at the right what is lost and since when.
fn figures_of(
    row: &Row,
    (age_seconds, is_older): (f64, bool),
    is_chosen: bool,
    room: usize,
) -> String {
    let older = if is_older { "+" } else { "" };
    let age = format!("{}{older}", whole(age_seconds));
    let figures = format!("{:>4} s/s {age:>6}", figures::rate(row.lost_per_second));
    let mark = if is_chosen { '>' } else { ' ' };
    let short = escape::name(&row.short, room.saturating_sub(figures.len() + 3));
    let gap = room.saturating_sub(2 + short.width() + figures.len());
    format!("{mark} {short}{}{figures}", " ".repeat(gap))
}

/// A length of time in one unit: `47 s`, `12 min`, `3 h`, `2 d`.
fn whole(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3_600.0 => format!("{} min", (s / 60.0) as u64),
        s if s < 86_400.0 => format!("{} h", (s / 3_600.0) as u64),
        s => format!("{} d", (s / 86_400.0) as u64),
    }
}

/// What there is to say, or the keys that matter.
/// Of the chosen row; of the past it says that a command may meet another process by now.
fn detail(
    state: &State,
    row: &Row,
    report: &Report,
    is_whole: bool,
    width: usize,
) -> Vec<Vec<Piece>> {
    let mut page = Page::new(width, false);
    if state.is_past() {
        page.paragraph(
            "Of the past: before a command is run, see whether its process is still the same.",
        );
    }
    let mut lines = page.lines();
    lines.append(&mut rows::detail(row, report, is_whole, width));
    lines
}

fn foot(state: &State, area: Rect, painter: &mut Painter<'_>) {
    let y = area.bottom() - 1;
    let unseen = (state.unseen > 0).then(|| {
        let many = figures::count(state.unseen);
        format!("{many} windows are not shown: this terminal took nothing meanwhile.")
    });
    let said = state.notice.as_ref().or(state.ended.as_ref()).or(unseen.as_ref());
    if let Some(said) = said {
        let style = painter.style(Tone::Warning);
        let text = cut(said, area.width.into());
        painter.text(area.x, y, &text, area.width, style);
        return;
    }
    let keys = match (state.chosen.over, area.width >= TWO_PANES) {
        (Over::Nothing, true) => {
            "Enter whole  space read on  left right windows  N n found  ? all keys  q end"
        }
        (Over::Nothing, false) => "Enter read  left right  ? keys  q end",
        (_, true) => "Esc back  space read on  left right windows  ? keys  q end",
        (_, false) => "Esc back  space read on  ? keys",
    };
    let faint = painter.style(Tone::Faint);
    painter.text(area.x, y, keys, area.width, faint);
}

/// Cut at the end, and it says so.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut head = String::new();
    for c in text.chars() {
        head.push(c);
        if head.width() + 3 > width {
            head.pop();
            break;
        }
    }
    format!("{head}...")
}
