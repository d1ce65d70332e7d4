//! Whether somebody waits by the kernel's own count, while a long window goes on.
//!
//! A window is long where nobody was held up before, and its answer comes at its end. The totals of PSI, which are sampled anyway, say
//! before that whether CPUs, disks or memory are waited for; then the window ends as soon as an ordinary one would have. Locks,
//! networks and whoever stands are not among them: of those the answer comes at the long window's end. Pure. Must not: end the window
//! (mod.rs does), or know how long windows are. Rejected: the number of events (a host that answers requests has many, and holds
//! nobody up).

use holdup_reason::facts::{Body, Fact, Ns, Pressure};

/// Of the time between two samples, so much was lost to one resource: one part of so many.
const LOST_PART: u64 = 20;
/// Samples that are closer are compared with a later one: what a moment cost is no state of the host.
const APART_NS_MIN: Ns = 2_000_000_000;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    last: Option<(Ns, Pressure)>,
    are_seen: bool,
}

impl Stalls {
    /// Takes what was read at a tick.
    pub(super) fn take(&mut self, facts: &[Fact]) {
        for fact in facts {
            let Body::Pressure(is) = &fact.body else { continue };
            match &self.last {
                Some((at_ns, _)) if fact.at_ns < at_ns + APART_NS_MIN => {}
                Some((at_ns, before)) => {
                    let passed_us = (fact.at_ns - at_ns) / 1_000;
                    self.are_seen |= lost_us(before, is) * LOST_PART > passed_us;
                    self.last = Some((fact.at_ns, is.clone()));
                }
                None => self.last = Some((fact.at_ns, is.clone())),
            }
        }
    }

    /// Somebody waits, or did within this window.
    pub(super) fn are_seen(&self) -> bool {
        self.are_seen
    }
}

/// Of the resource that most was lost to, microseconds.
fn lost_us(before: &Pressure, is: &Pressure) -> u64 {
    let totals = |of: &Pressure| [of.cpu_some_us, of.io_some_us, of.memory_some_us];
    let grown = totals(is).into_iter().zip(totals(before)).map(|(is, was)| is.saturating_sub(was));
    grown.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether stalls are seen after samples of seconds and milliseconds lost to disks.
    fn seen(samples: &[(u64, u64)]) -> bool {
        let mut stalls = Stalls::default();
        for (at, lost) in samples {
            let pressure = Pressure { io_some_us: lost * 1_000, ..Pressure::default() };
            let body = Body::Pressure(pressure);
            stalls.take(&[Fact { at_ns: at * 1_000_000_000, body }]);
        }
        stalls.are_seen()
    }

    #[test]
    fn a_twentieth_of_the_time_is_a_stall() {
        assert!(!seen(&[(1, 7_000)]), "a total says nothing of now");
        assert!(!seen(&[(1, 7_000), (6, 7_250)]));
        assert!(seen(&[(1, 7_000), (6, 7_251)]));
        assert!(seen(&[(1, 7_000), (6, 8_000), (11, 8_000)]), "it is of the window");
        assert!(!seen(&[(1, 7_000), (6, 6_000)]), "a total that shrinks is another one");
    }

    #[test]
    fn samples_close_together_are_compared_with_a_later_one() {
        assert!(!seen(&[(1, 0), (2, 90), (3, 90), (4, 140)]));
        assert!(seen(&[(1, 0), (2, 90), (3, 110)]));
    }
}
