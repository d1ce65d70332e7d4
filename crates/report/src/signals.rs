//! Signals that end a look.
//!
//! A look: the first ctrl-C (or SIGTERM, SIGHUP) ends the window and holdup answers with what it has;
//! the second aborts. A command: ctrl-C and ctrl-\ reach it from the terminal on their own, holdup
//! only survives them, to report; SIGTERM and SIGHUP are meant for holdup and end the look, and so is an interrupt where there
//! is no terminal (probe's stopping.rs passes them on). Another one then aborts only while the answer is being made.
//! Signals are caught, never ignored: an ignored signal would be inherited by the command.

use holdup_probe::Stopper;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// For looks that end by themselves.
pub(crate) fn end_early(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the abort must see the flag as it was before this signal.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// For looks at a command.
pub(crate) fn outlive(stopper: &Stopper) -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    flag::register(SIGQUIT, Arc::clone(&unread))?;
    let mut ending = vec![SIGTERM, SIGHUP];
    match has_terminal() {
        true => _ = flag::register(SIGINT, unread)?,
        false => ending.push(SIGINT),
    }
    for signal in ending {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stopper.is_over))?;
        let number = usize::try_from(signal).unwrap_or_default();
        flag::register_usize(signal, Arc::clone(&stopper.signal), number)?;
    }
    Ok(())
}

/// Whether ctrl-C can be typed to it: then the command gets it, too, and may go on, as a shell or an editor does.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}
