//! Signs of life for systemd (sd_notify(3)): ready, alive, what it does, ends.
//!
//! The signs are the looking thread's, so that one which stands still gives none; they are sent by a thread of its own, because a
//! socket that nobody reads would hold up the look. Where nobody asks for signs nothing is sent. Must not: wait.

use sd_notify::NotifyState;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Between two signs of life; a unit's WatchdogSec is some times longer.
const EVERY: Duration = Duration::from_secs(2);
/// Signs that may wait to be sent.
const QUEUE: usize = 8;

enum Sign {
    Ready,
    Alive,
    ReadsSettings,
    Stops,
    Status(String),
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Alive {
    signs: Option<SyncSender<Sign>>,
    given: Option<Instant>,
    is_ready: bool,
}

impl Alive {
    /// It looks; whether for the first time.
    pub(super) fn ready(&mut self) -> bool {
        if self.signs.is_none() && std::env::var_os("NOTIFY_SOCKET").is_some() {
            self.signs = sender();
        }
        self.give(Sign::Ready);
        !std::mem::replace(&mut self.is_ready, true)
    }

    /// It goes on.
    pub(super) fn tick(&mut self) {
        if self.given.is_none_or(|at| at.elapsed() >= EVERY) {
            self.given = Some(Instant::now());
            self.give(Sign::Alive);
        }
    }

    /// It reads its settings again.
    pub(super) fn reads_settings(&self) {
        self.give(Sign::ReadsSettings);
    }

    /// It ends.
    pub(super) fn stops(&self) {
        self.give(Sign::Stops);
    }

    /// What it has found, in a line.
    pub(super) fn status(&self, line: String) {
        self.give(Sign::Status(line));
    }

    fn give(&self, sign: Sign) {
        if let Some(signs) = &self.signs {
            // If nobody reads them, no sign is what there is to give.
            let _ = signs.try_send(sign);
        }
    }
}

fn sender() -> Option<SyncSender<Sign>> {
    let (signs, given) = sync_channel(QUEUE);
    let send = move || {
        while let Ok(sign) = given.recv() {
            let _ = match &sign {
                Sign::Ready => sd_notify::notify(&[NotifyState::Ready]),
                Sign::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
                Sign::ReadsSettings => match NotifyState::monotonic_usec_now() {
                    Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
                    Err(error) => Err(error),
                },
                Sign::Stops => sd_notify::notify(&[NotifyState::Stopping]),
                Sign::Status(line) => sd_notify::notify(&[NotifyState::Status(line)]),
            };
        }
    };
    std::thread::Builder::new().name("holdup-alive".into()).spawn(send).ok().map(|_| signs)
}
