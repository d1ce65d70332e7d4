//! The line that runs on a terminal while a look lasts, and leaves nothing behind.
//!
//! Only on standard error and only if that is a terminal; never for a command, whose terminal it is.
//! It is moved by the event loop, not by a thread: a line that stands still then means a loop that
//! stands still.

use crate::text::{escape, units};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The line; hidden where there is no terminal.
pub struct Progress {
    bar: ProgressBar,
    begin: Instant,
    length: Duration,
}

impl Progress {
    /// Draws it.
    pub fn start(whom: &str, seconds: f64) -> Self {
        let length = Duration::from_secs_f64(seconds);
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), begin: Instant::now(), length };
        }
        let bar = ProgressBar::with_draw_target(
            Some(length.as_millis() as u64),
            ProgressDrawTarget::stderr(),
        );
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:20}] {prefix}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(format!("Looking at {}", escape::name(whom, 30)));
        let progress = Self { bar, begin: Instant::now(), length };
        progress.tick();
        progress
    }

    /// Hidden from the start.
    pub fn none() -> Self {
        Self { bar: ProgressBar::hidden(), begin: Instant::now(), length: Duration::ZERO }
    }

    /// Moves it to now.
    pub fn tick(&self) {
        let left = self.length.saturating_sub(self.begin.elapsed());
        self.bar.set_position((self.length - left).as_millis() as u64);
        self.bar.set_prefix(match left.is_zero() {
            true => "sorting it out".to_owned(),
            false => format!("{} left", units::seconds(left.as_secs_f64().ceil())),
        });
    }

    /// Wipes it.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
