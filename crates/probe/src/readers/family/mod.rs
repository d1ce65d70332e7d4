//! The command's own family without kernel events: what an ordinary user may read of his children, often enough to see
//! waits of some ten milliseconds.
//!
//! A thread of its own walks the command, all that it began, and the user's servers that these wait for; it compares each
//! thread's state and its count of time slices with the walk before (watch.rs). A thread that sleeps and has had no slice since
//! has slept all the while, so a long wait is seen whole, and its begin and end are off by one walk at most. What it waits for
//! is read once a wait (place.rs), who has the other end when a new object is met (descriptors.rs, sockets.rs). The walks are
//! further apart the longer one takes: they cost a twentieth of a CPU at most.
//!
//! Must not: trace or stop anybody, or read what belongs to others. Rejected: ptrace (it changes what is looked at), the whole
//! of /proc at this pace (a host has thousands of threads), taskstats (it needs a capability).

mod descriptors;
mod left;
mod place;
mod seen;
mod sockets;
mod watch;

use crate::system::Roots;
use crate::system::clock::{ClockId, clock_ns, now};
use crate::system::own::priority;
use holdup_reason::facts::Ns;
pub use left::left;
pub use seen::{Observed, Standing};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use watch::Watch;
pub use watch::slices;

/// Between two walks, at least.
const PERIOD: Duration = Duration::from_millis(4);
/// A walk may take this part of the time.
const PART: u32 = 20;
/// How long the end waits for a walk under way; one that hangs in the kernel is left behind.
const TIMEOUT: Duration = Duration::from_millis(500);

/// What the walks have seen and nobody has taken yet.
#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Observed>>,
    members: Mutex<BTreeSet<u32>>,
    standing: Mutex<Vec<Standing>>,
    stop: AtomicBool,
    over: AtomicBool,
}

/// Walks that go on.
pub struct Family {
    shared: Arc<Shared>,
}

impl Family {
    /// Begins with a command's process; the window begins now.
    pub fn begin(roots: &Roots, command_pid: u32, begin_ns: Ns) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (there, roots) = (Arc::clone(&shared), roots.clone());
        let walks = move || {
            let mut watch = Watch::new(roots, command_pid, begin_ns);
            while !there.stop.load(Ordering::Relaxed) {
                let took = there.walk(&mut watch);
                std::thread::sleep(PERIOD.max(took * PART));
            }
            there.walk(&mut watch);
            there.add(watch.end(now()));
            there.over.store(true, Ordering::Release);
        };
        priority::spawn("holdup-family", walks)?;
        Ok(Self { shared })
    }

    /// What was seen since the last time.
    pub fn take(&self) -> Vec<Observed> {
        std::mem::take(&mut *self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The processes that are walked: nobody else need read them.
    pub fn members(&self) -> BTreeSet<u32> {
        self.shared.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The threads that stood at the last walk.
    pub fn standing(&self) -> Vec<Standing> {
        self.shared.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The processes of the command and of what it began, or the one that was asked about, that stood at the last walk.
    pub fn askers(&self) -> BTreeSet<u32> {
        self.standing().iter().filter(|it| it.own).map(|it| it.thread.pid).collect()
    }

    /// The last walk, and what it saw.
    pub fn end(&self) -> Vec<Observed> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let begun = std::time::Instant::now();
        while !self.shared.over.load(Ordering::Acquire) && begun.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.take()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn add(&self, mut seen: Vec<Observed>) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).append(&mut seen);
    }

    /// One walk; the CPU time that it took. On a full host it takes longer, which is no reason to look seldom.
    fn walk(&self, watch: &mut Watch) -> Duration {
        let begun_ns = clock_ns(ClockId::ThreadCPUTime);
        self.add(watch.walk(now()));
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = watch.members();
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = watch.standing();
        Duration::from_nanos(clock_ns(ClockId::ThreadCPUTime).saturating_sub(begun_ns))
    }
}
