//! How long the kernel programs run: the kernel's own statistics of them, switched on and read.
//!
//! Must not: leave them on (session/expense.rs says when), since they make each run of every program of the host slower.

use libbpf_rs::libbpf_sys;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Switches the kernel's statistics on (since 5.8); none if it refuses.
pub(crate) fn statistics() -> Option<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: a fresh descriptor that nobody else owns.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Time that one program has taken while statistics were on.
pub(crate) fn of(program: BorrowedFd<'_>) -> Option<u64> {
    let mut info = std::mem::MaybeUninit::<libbpf_sys::bpf_prog_info>::zeroed();
    let mut bytes = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: room for one bpf_prog_info of the size passed; all zeroes ask for no arrays.
    let info = unsafe {
        let failed = libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            info.as_mut_ptr().cast(),
            &mut bytes,
        );
        if failed != 0 {
            return None;
        }
        info.assume_init()
    };
    Some(info.run_time_ns)
}
