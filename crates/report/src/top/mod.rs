//! `holdup top`: the look that goes on, on a terminal; or the past, window by window.
//!
//! One loop: news come by a channel (feed.rs), change the state (state.rs), and what has changed is drawn (draw.rs). Nothing is drawn while
//! nothing changes. Must not: act on the host; no key here runs a way out.
//!
//! Rejected: an interval of drawing (a slow line would be behind it for ever); the watch's state folder (top looks for itself, so that
//! it works where nobody watches).
//!
//! Edit together: docs/top.md, keys.rs.

mod bar;
mod blockers;
mod draw;
mod feed;
mod groups;
mod keys;
mod paint;
mod quiet;
mod row;
mod rows;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod window;

use crate::failure::{Failure, OWN_FAULT};
use crate::flags::groups::{StateFlag, TargetFlags, duration};
use crate::job::Aim;
use crate::main_loop;
use crate::surface::{Surface, Typed};
use crate::text::escape;
use crate::watch::{ring, settings};
use clap::Args;
use crossterm::event::{Event, MouseButton, MouseEventKind};
use draw::Drawn;
use feed::News;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use state::{From, State, Then};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel};
use std::time::{Duration, Instant};
use terminal::Screen;
use window::Window;

/// Length of a window: that of a bare `holdup`, whose answers are measured at this length (docs/accuracy.md); with 2 s as much is
/// lost to the edges of windows as most faults take, and each window has its price.
const WINDOW: Duration = Duration::from_secs(5);
/// Length of the first window, so that somebody who has just typed it has an answer soon.
const FIRST_SECONDS: f64 = 2.0;
/// News that may wait while the terminal takes nothing.
const NEWS: usize = 64;
/// So often it is looked whether a window is late.
const TICK: Duration = Duration::from_secs(1);
/// A window may be so late before it is said.
const LATE: Duration = Duration::from_secs(5);

/// Length of the first of several windows, seconds.
pub(crate) fn first_seconds(seconds: f64) -> f64 {
    seconds.min(FIRST_SECONDS)
}

const EXAMPLES: &str = "\
Examples:
  holdup top                        this host, in windows of 5 s
  holdup top -p 812                 one process
  holdup top --from ring            all that `holdup watch` has saved; left and right go through it
  holdup top --from ring:21:14      the same, beginning at a time

`?` shows the keys. It looks only: no key changes anything on the host. docs/top.md.";

/// What to show on a terminal.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    target: TargetFlags,
    /// Length of a window: 2s, 10s [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "from")]
    window: Option<Duration>,
    /// Show a recording, or the saved windows: a file, ring, ring:21:14
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    state: StateFlag,
    /// No colours
    #[arg(long)]
    no_color: bool,
}

impl Surface for Flags {
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        let Self { target, window, from, state, no_color } = *self;
        run(Wanted {
            aim: target.aim(),
            from: from.or(typed.from),
            state: state.state,
            window: window.unwrap_or(WINDOW),
            no_color,
        })
    }
}

/// What is to be shown.
#[derive(Debug)]
struct Wanted {
    /// Whom to look at.
    aim: Aim,
    /// A recording, or `ring`, or `ring:TIME`; none for a look that goes on.
    from: Option<PathBuf>,
    /// The state folder that has the ring.
    state: Option<PathBuf>,
    /// Length of a window.
    window: Duration,
    /// Never in colour.
    no_color: bool,
}

/// Shows it until somebody ends it; the exit status.
fn run(wanted: Wanted) -> Result<u8, Failure> {
    terminal::fits()?;
    let has_colour = !wanted.no_color && !crate::output::no_color_wished();
    let thread =
        |error: std::io::Error| Failure::look(format!("cannot begin a thread: {error}"), "");
    let (sender, news) = sync_channel(NEWS);
    let stop = Arc::new(AtomicBool::new(false));
    let (state, replays) = match wanted.from.clone() {
        Some(from) => {
            let state = past(&wanted, &from)?;
            (state, Some(feed::replays(wanted.aim.clone(), sender.clone()).map_err(thread)?))
        }
        None => (
            State::new(
                main_loop::whom(&wanted.aim),
                From::Live(wanted.window.as_secs_f64()),
                TimeZone::system(),
            ),
            None,
        ),
    };
    terminal::give_back_on_panic();
    terminal::wait_for_signals(sender.clone()).map_err(thread)?;
    let screen = Screen::take(state.chosen.has_mouse)?;
    feed::keys(sender.clone()).map_err(thread)?;
    if replays.is_none() {
        let seconds = wanted.window.as_secs_f64();
        let first = first_seconds(seconds);
        feed::look(wanted.aim, first, seconds, Arc::clone(&stop), sender.clone())
            .map_err(thread)?;
    }
    let mut top =
        Top { state, screen, drawn: Drawn::default(), replays, has_colour, came: Instant::now() };
    let status = top.go_on(&news);
    // What the kernel programs take to be taken off is not waited for: the process ends.
    stop.store(true, Ordering::Relaxed);
    status
}

/// The windows of the ring, or the one of a recording.
fn past(wanted: &Wanted, from: &Path) -> Result<State, Failure> {
    let zone = TimeZone::system();
    let mut state = State::new(String::new(), From::Past, zone.clone());
    let name = from.to_str().unwrap_or_default();
    let time = if name == "ring" { Some("") } else { name.strip_prefix("ring:") };
    let Some(time) = time else {
        let mut window = Window::of(Box::new(main_loop::report_of(from, &wanted.aim)?));
        window.file = Some(from.to_owned());
        state.fill([window].into(), 0);
        return Ok(state);
    };
    let folder = wanted.state.clone().map_or_else(settings::state, Ok)?;
    let all = ring::list(&folder)?;
    let advice = "`holdup ring` lists what was saved; `holdup watch` saves it.";
    if all.is_empty() {
        let what =
            format!("cannot answer from the ring: nothing was saved in {}", folder.display());
        return Err(Failure::look(what, advice));
    }
    let at = match time {
        "" => all.len() - 1,
        time => {
            let found = ring::at(&all, time, &zone, Timestamp::now()).map_err(|why| {
                Failure::look(format!("cannot answer from ring:{time}: {why}"), advice)
            })?;
            all.iter().position(|entry| entry == found).unwrap_or_default()
        }
    };
    let folder = folder.join(ring::FOLDER);
    state.fill(all.into_iter().map(|entry| Window::saved(entry, &folder)).collect(), at);
    Ok(state)
}

/// See the head of the file.
struct Top {
    state: State,
    screen: Screen,
    drawn: Drawn,
    replays: Option<Sender<(usize, PathBuf)>>,
    has_colour: bool,
    /// When the last window came.
    came: Instant,
}

/// What news come to.
enum Come {
    Nothing,
    Changed,
    End(u8),
}

impl Top {
    fn go_on(&mut self, news: &Receiver<News>) -> Result<u8, Failure> {
        let mut is_changed = true;
        loop {
            if let Some(wanted) = self.state.wanted()
                && let Some(replays) = &self.replays
            {
                let _ = replays.send(wanted);
            }
            if std::mem::take(&mut is_changed) {
                self.draw()?;
            }
            // All that has come meanwhile, then one drawing.
            let mut next = match news.recv_timeout(TICK) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => {
                    is_changed |= self.tick();
                    None
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
            while let Some(one) = next {
                match self.take(one)? {
                    Come::Nothing => {}
                    Come::Changed => is_changed = true,
                    Come::End(status) => return Ok(status),
                }
                next = news.try_recv().ok();
            }
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let (state, has_colour) = (&self.state, self.has_colour);
        let mut drawn = Drawn::default();
        let done = self.screen.draw(|cells| drawn = draw::draw(state, cells, has_colour));
        self.state.drawn(drawn.detail.height.into(), drawn.scroll_max);
        self.drawn = drawn;
        done.map_err(lost)
    }

    fn take(&mut self, news: News) -> Result<Come, Failure> {
        match news {
            News::Input(event) => return self.input(event),
            News::Gone => return Ok(Come::End(crate::failure::COULD_NOT_LOOK)),
            News::Window(report, unseen) => {
                self.came = Instant::now();
                self.state.unseen += unseen;
                self.state.push(report);
            }
            // Before the first answer there is nothing to look back at.
            News::Over(Some(failure))
                if self.state.windows.is_empty() || failure.status == OWN_FAULT =>
            {
                return Err(failure);
            }
            News::Over(failure) => {
                let why = failure.map_or_else(String::new, |it| it.message());
                let why = why.trim_start_matches("holdup: ").lines().next().unwrap_or_default();
                self.state.ended = Some(format!("The look has ended: {}", escape::line(why)));
            }
            News::Made(place, made) => self.state.take(place, made),
            News::Signal(signal) => {
                return Ok(Come::End(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
            }
            News::Continued => self.screen.again(self.state.chosen.has_mouse)?,
        }
        Ok(Come::Changed)
    }

    fn input(&mut self, event: Event) -> Result<Come, Failure> {
        let action = match event {
            Event::Key(key) => keys::action(key),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => {
                    self.drawn.click(mouse.column, mouse.row)
                }
                MouseEventKind::ScrollDown => Some(self.drawn.wheel(mouse.column, mouse.row, 1)),
                MouseEventKind::ScrollUp => Some(self.drawn.wheel(mouse.column, mouse.row, -1)),
                _ => None,
            },
            Event::Resize(_, _) => return Ok(Come::Changed),
            _ => None,
        };
        let Some(action) = action else { return Ok(Come::Nothing) };
        match self.state.act(action) {
            Then::Draw => {}
            Then::End => return Ok(Come::End(0)),
            Then::DrawAnew => self.screen.again(self.state.chosen.has_mouse)?,
            Then::Suspend => self.screen.suspend()?,
            Then::Mouse => self.screen.mouse(self.state.chosen.has_mouse).map_err(lost)?,
        }
        Ok(Come::Changed)
    }

    /// Whether it has to be said, or said anew, that a window is late.
    fn tick(&mut self) -> bool {
        let From::Live(seconds) = self.state.from else { return false };
        if self.state.ended.is_some() {
            return std::mem::take(&mut self.state.late_seconds).is_some();
        }
        let due = Duration::from_secs_f64(seconds);
        let late = self.came.elapsed().checked_sub(due).filter(|late| *late >= LATE);
        let late = late.map(|late| late.as_secs());
        std::mem::replace(&mut self.state.late_seconds, late) != late
    }
}

fn lost(error: std::io::Error) -> Failure {
    Failure::look(format!("the terminal takes nothing more: {error}"), "")
}
