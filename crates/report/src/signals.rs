//! Signals that end a look.
//!
//! A look: the first ctrl-C (or SIGTERM, SIGHUP) ends the window and holdup answers with what it has;
//! the second aborts. A command: ctrl-C and ctrl-\ reach it from the terminal on their own, holdup
//! only survives them, to report; SIGTERM and SIGHUP are meant for holdup and end the look.
//! Signals are caught, never ignored: an ignored signal would be inherited by the command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// For looks that end by themselves.
pub fn end_early(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the abort must see the flag as it was before this signal.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// For looks at a command.
pub fn outlive(stop: &Arc<AtomicBool>) -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT] {
        flag::register(signal, Arc::clone(&unread))?;
    }
    for signal in [SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}
