//! The kernel's units on this machine: pages and ticks of /proc.
//!
//! By sysconf, which asks nobody else (rustix would read /proc/self/auxv on an older kernel). Must not: be taken for a fixture's; only the running machine has them.

/// Size of a page, bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Ticks of a second in /proc/PID/stat and /proc/stat.
pub fn ticks_per_second() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}
