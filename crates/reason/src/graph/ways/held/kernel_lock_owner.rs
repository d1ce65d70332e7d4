//! A lock of the kernel: who had it when somebody began to wait for it, as the lock itself says.
//!
//! Below the waker: who let go of it had it last. Must not: name holdup itself, which takes locks of the kernel as it looks.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "owner of a kernel lock",
    because: "the lock itself says that it has it",
    of: &[WaitClass::KernelLock],
    thresholds: &[],
    follow: |at| kernel_lock_owner(at.index, at.wait).map(Next::Thread),
};

/// Who had a lock of the kernel when somebody began to wait for it.
fn kernel_lock_owner(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let owner = wait.place.lock.as_ref()?.owner.as_ref()?;
    let own_pid = index.model.look.host.own_pid;
    let known = index.model.threads.present(owner);
    let owner = if known.comm.is_empty() { owner.clone() } else { known };
    (own_pid == 0 || owner.pid != own_pid).then_some(owner)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{fact, thread};

    #[test]
    fn who_has_it_by_its_own_word_is_it_and_holdup_is_nobody() {
        let owned = |own_pid| {
            let owner = Some(thread(20, "tar"));
            let lock = KernelLock { id: 1, owner, ..KernelLock::default() };
            let lock = Some(Box::new(lock));
            let at = Place { lock, state: WaitState::DiskSleep, ..place("unlink", NO_ARGS, None) };
            let host = fact(Body::Host(Host { own_pid, ..Host::default() }));
            led(vec![host, stands(of_ten(10), at)])
        };
        assert_eq!(owned(99), ("owner of a kernel lock", Some(20)));
        assert_eq!(owned(20), ("", None));
    }
}
