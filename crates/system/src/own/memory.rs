//! Own memory stays resident: what was touched once is not read from a disk again, however short the host is of memory.
//!
//! Only pages that were touched are locked (MCL_ONFAULT, Linux 4.4): rings, stacks and heaps are far larger than what is
//! used of them. Without CAP_IPC_LOCK nothing is locked: the limit of an ordinary user (RLIMIT_MEMLOCK) is below what a look
//! maps, and beyond it MCL_FUTURE lets allocations fail. A child of fork inherits no lock. Must not: touch pages in advance.

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

/// Locks nothing any more.
pub fn unlock() {
    let _ = munlockall();
}
