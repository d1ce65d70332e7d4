//! Own memory stays resident: what was touched once is not read from a disk again, however short the host is of memory.
//!
//! Only pages that were touched are locked (MCL_ONFAULT, Linux 4.4): rings, stacks and heaps are far larger than what is
//! used of them. Without CAP_IPC_LOCK nothing is locked: the limit of an ordinary user (RLIMIT_MEMLOCK) is below what a look
//! maps, and beyond it MCL_FUTURE lets allocations fail. A child of fork inherits no lock. What is freed goes back to the system, however
//! large it was. Must not: touch pages in advance.

use super::capabilities;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

const CAP_IPC_LOCK: u64 = 1 << 14;

/// Locks what is touched from now on, and what was touched before; whether that was granted.
pub fn lock() -> bool {
    if capabilities::effective() & CAP_IPC_LOCK == 0 {
        return false;
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_ok()
}

/// What is larger than this is mapped, and unmapped once it is freed: mallopt(3)'s own default, which it raises by itself to the size of whatever
/// was freed. The types of the kernel are megabytes and are read first; after them all that a look takes would lie in the heap and stay.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 128 << 10;

/// Has memory given back to the system as it is freed, from now on. Elsewhere than in the GNU C library nothing has to be asked for.
pub fn give_back_what_is_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes two numbers, and locks what it changes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
    }
}

/// Locks nothing any more.
pub fn unlock() {
    let _ = munlockall();
}
