//! The I/O class and level of a thread, which no file of /proc has (ioprio_get(2)).
//!
//! As it was set: a thread that nobody gave one has class 0, whatever its nice value makes of that. Must not: set one, or wait.

/// The argument that makes the number a thread's.
const WHO_PROCESS: libc::c_int = 1;

/// Class (from bit 13 on) and level; none if the thread is gone.
pub fn of(tid: u32) -> Option<u32> {
    // SAFETY: plain numbers; nothing is written.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, tid) };
    u32::try_from(found).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_has_one_and_who_is_gone_has_none() {
        assert!(super::of(std::process::id()).is_some());
        assert_eq!(super::of(u32::MAX >> 1), None);
    }
}
