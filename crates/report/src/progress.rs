//! The line that runs on a terminal while a look lasts, and leaves nothing behind.
//!
//! Only on standard error and only if that is a terminal; never for a command, whose terminal it is.
//! It is moved by the event loop, not by a thread: a line that stands still then means a loop that
//! stands still. Rejected: indicatif, which fills the line to the terminal's edge, so that the `^C`
//! that a terminal echoes goes to the next line and the bar above it stays for ever.

use crate::text::escape;
use holdup_reason::model::figures;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Redrawing more often than this is flicker.
const EVERY: Duration = Duration::from_millis(100);
/// Columns of the bar.
const BAR: usize = 20;

/// The line; without a terminal it does nothing.
pub(crate) struct Progress {
    line: Option<Line>,
}

struct Line {
    whom: String,
    begin: Instant,
    length: Duration,
    drawn: Option<Instant>,
    columns: usize,
}

impl Progress {
    /// Draws it.
    pub(crate) fn start(whom: &str, seconds: f64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::none();
        }
        let columns = terminal_size::terminal_size().map_or(80, |(columns, _)| columns.0.into());
        let mut progress = Self {
            line: Some(Line {
                whom: escape::name(whom, 30),
                begin: Instant::now(),
                length: Duration::from_secs_f64(seconds),
                drawn: None,
                columns,
            }),
        };
        progress.tick();
        progress
    }

    /// Nothing.
    pub(crate) fn none() -> Self {
        Self { line: None }
    }

    /// Moves it to now.
    pub(crate) fn tick(&mut self) {
        let Some(line) = &mut self.line else { return };
        if line.drawn.is_some_and(|drawn| drawn.elapsed() < EVERY) {
            return;
        }
        line.drawn = Some(Instant::now());
        let text = escape::name(&line.text(line.begin.elapsed()), line.columns.saturating_sub(4));
        draw(&format!("\r\x1b[K{text}"));
    }
}

/// However the look ends, the line goes.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.line.is_some() {
            draw("\r\x1b[K");
        }
    }
}

impl Line {
    fn text(&self, passed: Duration) -> String {
        let left = self.length.saturating_sub(passed);
        let done = 1.0 - left.as_secs_f64() / self.length.as_secs_f64();
        let bar = "=".repeat((done * BAR as f64) as usize);
        let left = match left.is_zero() {
            true => "sorting it out".to_owned(),
            false => format!("{} left", figures::seconds(left.as_secs_f64().ceil())),
        };
        format!("Looking at {} [{bar:<BAR$}] {left}", self.whom)
    }
}

/// A line that cannot be drawn is no reason to end a look.
fn draw(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_left() {
        let line = Line {
            whom: "this host".into(),
            begin: Instant::now(),
            length: Duration::from_secs(4),
            drawn: None,
            columns: 80,
        };
        let reported = |seconds| line.text(Duration::from_secs(seconds));
        assert_eq!(reported(0), "Looking at this host [                    ] 4 s left");
        assert_eq!(reported(3), "Looking at this host [===============     ] 1 s left");
        assert_eq!(reported(9), "Looking at this host [====================] sorting it out");
    }
}
