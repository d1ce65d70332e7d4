//! Between two ticks of a look: how long it sleeps, what wakes it, and what it slept through.
//!
//! Must not: decide when a host is quiet (quiet_host.rs), or read what a sample needs (live.rs).
//! Edit together: quiet_host.rs, live.rs, standstill.rs.

use crate::SourceError;
use crate::kernel::Programs;
use crate::kernel::load::follow_names;
use crate::readers::netlink::Netlink;
use crate::session::command::Held;
use crate::session::quiet_host::Sleep;
use crate::session::{Live, STANDING_TICKS, now};
use crate::system::own::priority;
use holdup_reason::facts::{Fact, Ns};

impl Live {
    /// Ticks to what must be read next if nothing happens.
    fn due_ticks(&self) -> u64 {
        let left = STANDING_TICKS - self.ticks % STANDING_TICKS;
        match self.sampler.still_ticks() {
            Some(ticks) if !self.expense.is_measuring() => ticks.min(left),
            _ => 1,
        }
    }

    /// Sleeps to the end of the tick, or for some ticks if the host is quiet, or to the end of the command or the window
    /// if that is sooner. A ring that fills up is emptied meanwhile.
    pub(crate) fn sleep(&mut self) -> Result<Sleep, SourceError> {
        let mut sleep = Sleep::new(now(), self.quiet.ticks(self.due_ticks()), self.end_ns);
        loop {
            let milliseconds = sleep.until_ns().saturating_sub(now()).div_ceil(1_000_000);
            let command = self.held.as_ref().map_or(-1, Held::end_fd);
            let alarm = self.programs.as_ref().map_or(-1, Programs::alarm_fd);
            let mut waits =
                [command, alarm].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: two valid pollfds; a negative descriptor is ignored by the kernel.
            let ready = unsafe { libc::poll(waits.as_mut_ptr(), 2, milliseconds as i32) };
            if ready <= 0 || waits[0].revents != 0 || now() >= sleep.until_ns() {
                priority::raise_if_late(now().saturating_sub(sleep.until_ns()));
                sleep.end(now());
                return Ok(sleep);
            }
            if let Some(programs) = self.programs.as_mut() {
                programs.answer_alarm()?;
                follow_names(programs, false)?;
                self.follow_rate(0);
            }
            self.quiet.disturb();
            self.watch();
            sleep.end_with_tick(now());
        }
    }

    /// Tells the programs whether to call.
    pub(crate) fn watch(&mut self) {
        let quiet = u32::from(self.quiet.is_watched());
        if let Some(control) = self.programs.as_mut().and_then(Programs::control) {
            control.quiet = quiet;
        }
    }

    /// The samples of a tick that was slept through.
    pub(crate) fn slept_tick(&mut self, facts: &mut Vec<Fact>, at_ns: Ns) {
        let qdiscs = self.netlink.as_mut().map(Netlink::slept).unwrap_or_default();
        let reported = self.sampler.slept().into_iter().chain(qdiscs);
        facts.extend(reported.map(|body| Fact { at_ns, body }));
    }
}
