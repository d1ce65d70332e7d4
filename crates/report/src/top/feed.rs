//! Where news come from, a thread each: the look that goes on, recordings that are read, keys and mouse. All come by one channel, so that a
//! key is answered at once, whatever else is being done.
//!
//! The look never waits for the screen: what the channel does not take is counted, and said. Must not: draw.

use crate::failure::Failure;
use crate::job::Aim;
use crate::main_loop;
use crate::text::own_fault;
use crossterm::event::Event;
use holdup_engine::foresight::Foresight;
use holdup_engine::{Looked, Windows};
use holdup_reason::answer::Report;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError, channel};

/// Something that has happened.
pub(super) enum News {
    /// A key, the mouse, another size.
    Input(Event),
    /// Nothing can be read from the terminal any more.
    Gone,
    /// A window of the look that goes on, and how many before it were not taken.
    Window(Box<Report>, u64),
    /// The look has ended; why, if it should not have.
    Over(Option<Failure>),
    /// An answer was made from a recording, or why it was not.
    Made(usize, Result<Box<Report>, String>),
    /// A signal asks to end.
    Signal(i32),
    /// It was stopped, and goes on.
    Continued,
}

/// Looks on and on; the first window is shorter, because somebody waits for it.
pub(super) fn look(
    aim: Aim,
    first_seconds: f64,
    seconds: f64,
    stop: Arc<AtomicBool>,
    news: SyncSender<News>,
) -> std::io::Result<()> {
    let look = move || {
        let looked = windows(aim, first_seconds, seconds, &stop, &news);
        let _ = news.send(News::Over(looked.err()));
    };
    std::thread::Builder::new().name("holdup-look".into()).spawn(look).map(drop)
}

fn windows(
    aim: Aim,
    first_seconds: f64,
    seconds: f64,
    stop: &Arc<AtomicBool>,
    news: &SyncSender<News>,
) -> Result<(), Failure> {
    let mut windows = Windows::start(aim, first_seconds, Arc::clone(stop))?;
    windows.set_seconds(seconds);
    let (mut foresight, mut lost) = (Foresight::default(), 0);
    while let Some(Looked { report, .. }) = windows.next_window(&mut foresight, &mut || ())? {
        if let Some(fault) = &report.own_fault {
            return Err(own_fault::failure(fault));
        }
        match news.try_send(News::Window(Box::new(report), lost)) {
            Ok(()) => lost = 0,
            Err(TrySendError::Full(_)) => lost += 1,
            Err(TrySendError::Disconnected(_)) => stop.store(true, Ordering::Relaxed),
        }
    }
    Ok(())
}

/// Reads keys and mouse.
pub(super) fn keys(news: SyncSender<News>) -> std::io::Result<()> {
    let read = move || {
        while let Ok(event) = crossterm::event::read() {
            if news.send(News::Input(event)).is_err() {
                return;
            }
        }
        let _ = news.send(News::Gone);
    };
    std::thread::Builder::new().name("holdup-keys".into()).spawn(read).map(drop)
}

/// Makes answers from recordings, in the order that it is asked for them.
pub(super) fn replays(
    aim: Aim,
    news: SyncSender<News>,
) -> std::io::Result<Sender<(usize, PathBuf)>> {
    let (asked, asks) = channel::<(usize, PathBuf)>();
    let replay = move || {
        while let Ok((place, file)) = asks.recv() {
            let made = main_loop::report_of(&file, &aim).map(Box::new);
            let made = made.map_err(|failure| failure.message().trim_end().to_owned());
            if news.send(News::Made(place, made)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("holdup-replay".into()).spawn(replay).map(|_| asked)
}
