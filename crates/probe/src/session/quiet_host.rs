//! How long the reader may sleep: a tick, or while nothing happens that it must see soon, several.
//!
//! On a host that does little, waking up is most of what a look costs. So after some ticks without a disturbance the
//! kernel programs are asked to call the reader for whatever could make a sample at a tick differ from the one
//! before, or must be read while it lives: the first bio or packet, a thread that is born or waits for the first
//! time, records that pile up. From the next tick on it sleeps until something is due. The ticks that it slept
//! through are reported after it, to the byte as it would have read them; once called it is up at the very next tick. So
//! nobody who counts samples, or ticks, can tell a long sleep from a short one.
//!
//! Must not: sleep for long in the tick in which the programs are asked (one that has looked just before would not
//! call); know what a disturbance is (who reads says so). Rejected: longer ticks for a quiet host (a burst between two
//! of them would be averaged over both, and samples would stand thinner where nothing waits, and means with them).
//! Pure. Edit together: window.rs, readers/standstill.rs, `call_reader` of bpf/common.bpf.h.

use holdup_reason::facts::Ns;

/// Time between two readings of ring and counters.
pub(super) const TICK_NS: Ns = 100_000_000;
/// Ticks without a disturbance after which the programs are asked to call. Being called costs about as much as a
/// tick: what comes more often than these has them as ever, and at most one call in so many.
const QUIET_TICKS: u64 = 4;

/// Whether the host has been quiet for a while.
#[derive(Debug, Default)]
pub(super) struct QuietHost {
    ticks: u64,
}

impl QuietHost {
    /// Ticks have passed, in which nothing happened that must be seen soon, or something.
    pub(super) fn passed(&mut self, ticks: u64, undisturbed: bool) {
        self.ticks = if undisturbed { self.ticks + ticks } else { 0 };
    }

    /// The reader was called.
    pub(super) fn disturb(&mut self) {
        self.ticks = 0;
    }

    /// Whether the programs are to call the reader.
    pub(super) fn is_watched(&self) -> bool {
        self.ticks >= QUIET_TICKS
    }

    /// Ticks to sleep for if something is due in so many.
    pub(super) fn ticks(&self, due: u64) -> u64 {
        if self.ticks > QUIET_TICKS { due.max(1) } else { 1 }
    }
}

/// A sleep of one tick or several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sleep {
    begin_ns: Ns,
    until_ns: Ns,
}

impl Sleep {
    /// For so many ticks, unless the look ends before.
    pub(super) fn new(begin_ns: Ns, ticks: u64, end_ns: Option<Ns>) -> Self {
        let until_ns = begin_ns + ticks * TICK_NS;
        Self { begin_ns, until_ns: end_ns.map_or(until_ns, |end_ns| end_ns.min(until_ns)) }
    }

    /// None at all: what it is for is over.
    pub(super) fn over(now_ns: Ns) -> Self {
        Self { begin_ns: now_ns, until_ns: now_ns }
    }

    /// When it is over.
    pub(super) fn until_ns(&self) -> Ns {
        self.until_ns
    }

    /// It is over with the tick that is going on.
    pub(super) fn end_with_tick(&mut self, now_ns: Ns) {
        let passed = now_ns.saturating_sub(self.begin_ns) / TICK_NS;
        self.until_ns = self.until_ns.min(self.begin_ns + (passed + 1) * TICK_NS);
    }

    /// It is over.
    pub(super) fn end(&mut self, now_ns: Ns) {
        self.until_ns = self.until_ns.min(now_ns);
    }

    /// Ticks that it took, the last of which may be a short one.
    pub(super) fn ticks(&self) -> u64 {
        self.until_ns.saturating_sub(self.begin_ns).div_ceil(TICK_NS).max(1)
    }

    /// When the ticks were that it slept through: all but the last.
    pub(super) fn slept_through(self) -> impl Iterator<Item = Ns> {
        (1..self.ticks()).map(move |tick| self.begin_ns + tick * TICK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_at_a_tick_or_when_it_must() {
        let long = Sleep::new(7, 5, None);
        let (at, all) = (|ticks| 7 + ticks * TICK_NS, |sleep: Sleep| sleep.slept_through().count());
        assert_eq!((long.until_ns(), long.ticks(), all(long)), (at(5), 5, 4));
        assert_eq!(long.slept_through().last(), Some(at(4)));
        let mut called = long;
        called.end_with_tick(at(2) + 1);
        assert_eq!((called.until_ns(), all(called)), (at(3), 2), "up at the very next tick");
        called.end_with_tick(at(4));
        assert_eq!(called.until_ns(), at(3), "it never becomes longer");
        let mut cut = long;
        cut.end(at(2) - 1);
        assert_eq!((cut.ticks(), all(cut)), (2, 1));
        cut.end(7);
        assert_eq!((cut.ticks(), all(cut)), (1, 0));
        let last = Sleep::new(7, 1, Some(9));
        assert_eq!((last.until_ns(), last.ticks(), all(last)), (9, 1, 0));
    }

    #[test]
    fn a_long_sleep_needs_quiet_and_a_tick_in_which_the_programs_call() {
        let mut quiet = QuietHost::default();
        for _ in 0..QUIET_TICKS {
            assert!(!quiet.is_watched());
            assert_eq!(quiet.ticks(10), 1);
            quiet.passed(1, true);
        }
        assert!(quiet.is_watched());
        assert_eq!(
            quiet.ticks(10),
            1,
            "one that did not see that it is to call may be at work still"
        );
        quiet.passed(1, true);
        assert_eq!((quiet.ticks(10), quiet.ticks(0)), (10, 1));
        quiet.passed(10, true);
        assert_eq!(quiet.ticks(7), 7);
    }

    #[test]
    fn who_is_called_or_finds_something_is_awake_for_a_while() {
        for disturb in [
            |quiet: &mut QuietHost| quiet.disturb(),
            |quiet: &mut QuietHost| quiet.passed(1, false),
        ] {
            let mut quiet = QuietHost::default();
            quiet.passed(QUIET_TICKS + 1, true);
            assert_eq!(quiet.ticks(10), 10);
            disturb(&mut quiet);
            assert!(!quiet.is_watched());
            assert_eq!(quiet.ticks(10), 1);
        }
    }
}
