//! Pieces of text with their tones on the cells of a screen, with colours or without.
//!
//! Without colours tones are bold, faint and underlined, which no-color.org leaves alone; what must be told apart has letters of its own
//! beside them. Must not: know what is drawn.

use crate::text::page::{Piece, Tone};
use holdup_reason::answer::EndKind;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthChar;

/// Where and how to draw.
pub(super) struct Painter<'b> {
    /// The cells.
    pub cells: &'b mut Buffer,
    /// In colour.
    pub has_colour: bool,
}

impl Painter<'_> {
    /// How a tone looks.
    pub(super) fn style(&self, tone: Tone) -> Style {
        let style = Style::new();
        let coloured = |colour: Color| if self.has_colour { style.fg(colour) } else { style };
        match tone {
            Tone::Plain => style,
            Tone::Critical => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Warning => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Good => coloured(Color::Green),
            Tone::Heading => style.add_modifier(Modifier::BOLD),
            Tone::Faint => style.add_modifier(Modifier::DIM),
            Tone::Command if self.has_colour => style.fg(Color::Cyan),
            Tone::Command => style.add_modifier(Modifier::UNDERLINED),
        }
    }

    /// How a part of the bar looks: a ground of its own, or every other one reversed.
    pub(super) fn ground(&self, kind: Option<EndKind>, at: usize) -> Style {
        if !self.has_colour {
            let style = Style::new();
            return if at.is_multiple_of(2) {
                style.add_modifier(Modifier::REVERSED)
            } else {
                style
            };
        }
        let ground = match kind {
            Some(EndKind::Works) => Color::Green,
            Some(EndKind::Cpu) => Color::Yellow,
            Some(EndKind::Device) => Color::Magenta,
            Some(EndKind::Memory) => Color::LightMagenta,
            Some(EndKind::Link) => Color::LightBlue,
            Some(EndKind::Remote) => Color::Cyan,
            Some(EndKind::Lock | EndKind::Limit) => Color::Red,
            Some(EndKind::Sleep | EndKind::Idle) => Color::Gray,
            Some(EndKind::Person) => Color::LightYellow,
            Some(EndKind::Open) | None => Color::White,
        };
        Style::new().fg(Color::Black).bg(ground)
    }

    /// One line at a place, cut at `width`; the column behind it.
    pub(super) fn text(&mut self, x: u16, y: u16, text: &str, width: u16, style: Style) -> u16 {
        let area = *self.cells.area();
        if y >= area.bottom() || x >= area.right() {
            return x;
        }
        self.cells.set_stringn(x, y, text, usize::from(width), style).0
    }

    /// One line of pieces.
    pub(super) fn line(&mut self, x: u16, y: u16, pieces: &[Piece], width: u16) {
        let end = x.saturating_add(width);
        let mut x = x;
        for (tone, text) in pieces {
            let style = self.style(*tone);
            x = self.text(x, y, text, end.saturating_sub(x), style);
        }
    }

    /// Lines from one on; says at the foot how many more there are. How far they can be scrolled.
    pub(super) fn page(&mut self, area: Rect, lines: &[Vec<Piece>], from: usize) -> usize {
        let lines: Vec<Vec<Piece>> =
            lines.iter().flat_map(|line| broken(line, area.width.into())).collect();
        let all = usize::from(area.height);
        // The last row says that there is more: it hides no words.
        let rows = if lines.len() > all { all.saturating_sub(1) } else { all };
        let most = lines.len() - rows.min(lines.len());
        let from = from.min(most);
        for (at, line) in lines.iter().skip(from).take(rows).enumerate() {
            self.line(area.x, area.y + at as u16, line, area.width);
        }
        if rows < all {
            let text = match most - from {
                0 => "-- end --".to_string(),
                more => format!("-- {more} more lines: space --"),
            };
            let faint = self.style(Tone::Faint);
            self.text(area.x, area.bottom() - 1, &text, area.width, faint);
        }
        most
    }
}

/// A line that is too long, as a command may be, goes on in the next: nothing of it is hidden.
fn broken(line: &[Piece], width: usize) -> Vec<Vec<Piece>> {
    let mut lines: Vec<Vec<Piece>> = vec![Vec::new()];
    let mut used = 0;
    for (tone, text) in line {
        let mut part = String::new();
        for c in text.chars() {
            let columns = c.width().unwrap_or(0);
            if used + columns > width && used > 0 {
                push(&mut lines, *tone, std::mem::take(&mut part));
                lines.push(Vec::new());
                used = 0;
            }
            part.push(c);
            used += columns;
        }
        push(&mut lines, *tone, part);
    }
    lines
}

fn push(lines: &mut [Vec<Piece>], tone: Tone, text: String) {
    if let Some(line) = lines.last_mut().filter(|_| !text.is_empty()) {
        line.push((tone, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_long_line_is_hidden() {
        let line = [(Tone::Faint, "do ".to_string()), (Tone::Command, "abc日本語def".to_string())];
        let lines = broken(&line, 7);
        let text =
            |line: &Vec<Piece>| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
        assert_eq!(lines.iter().map(text).collect::<Vec<_>>(), ["do abc", "日本語d", "ef"]);
        assert_eq!(broken(&[], 7), [Vec::new()]);
    }
}
