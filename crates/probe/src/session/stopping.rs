//! How the look at a command ends before the command does: holdup was sent a signal.
//!
//! Whoever ends a wrapper means what it wraps. So the command gets the signal too, if it has not ended by itself soon after
//! (a supervisor mostly sends it to the whole group), and a second after the signal there is an answer in any case: with the
//! command as it stands, if it still does. Only once the answer is being made does another signal end holdup at once.
//!
//! Must not: decide which signals are meant so (signals.rs of the report crate). Edit together: watched.rs, command.rs.

use crate::session::command::Held;
use holdup_reason::facts::Ns;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The command has so long to end by itself.
const BY_ITSELF_NS: Ns = 200_000_000;
/// So long after the signal the look is over.
const PATIENCE_NS: Ns = 1_000_000_000;

/// What signal handlers write to.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    /// The number of the last signal; 0: none yet.
    pub signal: Arc<AtomicUsize>,
    /// The look is over, and the answer is being made.
    pub is_over: Arc<AtomicBool>,
}

/// The signal that holdup was sent, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    pub(crate) stopper: Stopper,
    sent_ns: Option<Ns>,
    passed_on: bool,
}

impl Stopping {
    /// The signal that holdup was sent, if it was.
    pub(crate) fn signal(&self) -> Option<i32> {
        let signal = self.stopper.signal.load(Ordering::Relaxed);
        i32::try_from(signal).ok().filter(|signal| *signal > 0)
    }

    /// Whether the look is over for it.
    pub(crate) fn is_due(&mut self, now_ns: Ns, held: Option<&Held>) -> bool {
        let Some(signal) = self.signal() else { return false };
        let since_ns = now_ns.saturating_sub(*self.sent_ns.get_or_insert(now_ns));
        if since_ns >= BY_ITSELF_NS
            && !std::mem::replace(&mut self.passed_on, true)
            && let Some(held) = held
        {
            held.send(signal);
        }
        since_ns >= PATIENCE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_after_the_signal_the_look_is_over() {
        let mut stopping = Stopping::default();
        assert!(!stopping.is_due(5 * PATIENCE_NS, None), "nobody sent one");
        stopping.stopper.signal.store(15, Ordering::Relaxed);
        assert!(!stopping.is_due(6 * PATIENCE_NS, None));
        assert!(!stopping.is_due(6 * PATIENCE_NS + BY_ITSELF_NS, None));
        assert!(stopping.passed_on);
        assert!(stopping.is_due(7 * PATIENCE_NS, None));
    }
}
