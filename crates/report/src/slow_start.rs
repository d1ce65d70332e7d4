//! What a user is told who waits for a look to begin.
//!
//! A look begins once the kernel has attached its programs. If some were detached shortly before, as by an earlier
//! look, it waits for an RCU grace period first, and where the thread that ends those is kept from the CPUs, that may
//! be a minute or two (docs/limits.md). Nothing can be done from here, and a signal is not heard there: so it is said,
//! once, on a terminal. Of a command nothing is said: the terminal is the command's.
//!
//! Rejected: to attach in a thread that is left behind after a deadline (the process cannot end before it).

use std::fs;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A begin takes a third of a second, and some more on a host with full CPUs.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Until this is dropped, the look is beginning.
pub(crate) struct SlowStart {
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl SlowStart {
    /// Counts from here. Where no thread can be had, nothing will be said.
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { waiting: None };
        }
        let (begun, waits) = mpsc::channel();
        let thread = std::thread::Builder::new().spawn(move || report_later(&waits));
        Self { waiting: thread.ok().map(|thread| (begun, thread)) }
    }
}

/// Nothing is written afterwards, so that no other line is written into.
impl Drop for SlowStart {
    fn drop(&mut self) {
        if let Some((begun, thread)) = self.waiting.take() {
            drop(begun);
            let _ = thread.join();
        }
    }
}

fn report_later(waits: &Receiver<()>) {
    if waits.recv_timeout(TIMEOUT) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let place = fs::read_to_string(format!("/proc/self/task/{}/wchan", std::process::id()));
    if waits.try_recv() == Err(TryRecvError::Empty) {
        let _ = writeln!(std::io::stderr(), "{}", text(place.as_deref().unwrap_or_default()));
    }
}

/// By what /proc/PID/wchan tells of the thread that begins.
fn text(wchan: &str) -> String {
    let place = if wchan.contains("rcu") {
        ": the kernel waits for an RCU grace period, and what ends those seems to be kept from the CPUs"
    } else {
        ""
    };
    format!("The look has not begun after {} s{place}.", TIMEOUT.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_reported_only_if_it_is_known() {
        assert!(text("synchronize_rcu_normal").contains("RCU grace period"));
        for unknown in ["", "0", "futex_do_wait"] {
            assert_eq!(text(unknown), "The look has not begun after 3 s.");
        }
    }
}
