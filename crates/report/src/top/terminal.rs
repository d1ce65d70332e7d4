//! The terminal: taken for the screen, and given back on every way out, panics and signals included.
//!
//! Whoever ends the program gives the terminal back first: the normal way by `Screen`'s drop, a panic by its hook, a signal by the thread
//! that waits for signals, if the drawing thread stands in a write that nobody takes. Must not: know what is drawn.
//!
//! Rejected: signal handlers that write (a handler may do nearly nothing); to leave it to the shell (few of them give back raw mode).

use super::feed::News;
use crate::failure::Failure;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui_core::buffer::Buffer;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io::{self, IsTerminal, Read, Stdout};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// For so long the drawing thread may take to end once a signal asks for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the terminal is taken.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a screen can be drawn here; else what to do instead.
pub(super) fn fits() -> Result<(), Failure> {
    let instead = "`holdup` looks once, `holdup watch` says what begins and ends, a line each.";
    if !io::stdout().is_terminal() {
        return Err(Failure::look(
            "holdup top draws on a terminal, and standard output is none",
            instead,
        ));
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" {
        let what = match term.as_str() {
            "" => "holdup top does not know this terminal: TERM is not set".to_string(),
            _ => "holdup top draws on a whole screen, and this terminal says that it cannot (TERM=dumb)".into(),
        };
        return Err(Failure::look(what, instead));
    }
    Ok(())
}

/// The screen, until it is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take(has_mouse: bool) -> Result<Self, Failure> {
        let terminal = take(has_mouse).map_err(refused)?;
        Ok(Self { terminal, has_mouse })
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// Takes it anew: whatever stood on it is drawn over.
    pub(super) fn again(&mut self, has_mouse: bool) -> Result<(), Failure> {
        (self.terminal, self.has_mouse) = (take(has_mouse).map_err(refused)?, has_mouse);
        Ok(())
    }

    /// Takes the mouse, or leaves it to the terminal.
    pub(super) fn mouse(&mut self, has_mouse: bool) -> io::Result<()> {
        self.has_mouse = has_mouse;
        match has_mouse {
            true => execute!(io::stdout(), EnableMouseCapture),
            false => execute!(io::stdout(), DisableMouseCapture),
        }
    }

    /// Gives it back, stops as ctrl-Z does, and takes it again when somebody continues.
    pub(super) fn suspend(&mut self) -> Result<(), Failure> {
        give_back();
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::TSTP);
        self.again(self.has_mouse)
    }
}

fn take(has_mouse: bool) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, Hide, Clear(ClearType::All))?;
    if has_mouse {
        execute!(io::stdout(), EnableMouseCapture)?;
    }
    Terminal::new(CrosstermBackend::new(io::stdout()))
}

fn refused(error: io::Error) -> Failure {
    give_back();
    Failure::look(format!("cannot draw on this terminal: {error}"), "")
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back; the second time nothing happens.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    }
    let _ = disable_raw_mode();
}

/// A panic of any thread ends the program, with the terminal as it was before its words.
pub(super) fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
        std::process::exit(101);
    }));
}

/// Waits for signals in a thread of its own, and passes them on; if nobody ends then, it ends the program itself.
pub(super) fn wait_for_signals(news: SyncSender<News>) -> io::Result<()> {
    let (mut reader, writer) = UnixStream::pair()?;
    let asked = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        let number = usize::try_from(signal).unwrap_or_default();
        // In this order: who is woken must see the number.
        signal_hook::flag::register_usize(signal, Arc::clone(&asked), number)?;
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(SIGCONT, writer)?;
    let wait = move || {
        let mut byte = [0];
        while reader.read_exact(&mut byte).is_ok() {
            let signal = i32::try_from(asked.load(Ordering::SeqCst)).unwrap_or_default();
            if signal == 0 {
                let _ = news.try_send(News::Continued);
                continue;
            }
            let _ = news.try_send(News::Signal(signal));
            std::thread::sleep(PATIENCE);
            // It stands in a write: what the terminal shows cannot be changed, its modes can.
            let _ = disable_raw_mode();
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("holdup-signals".into()).spawn(wait).map(drop)
}
