//! A clock on each CPU that calls the sampling program, opened by perf_event_open(2).
//!
//! Owns the one struct that the call takes, written out here: libbpf attaches to such an
//! event but does not open it.
//! Must not: attach (mod.rs) or read what was sampled (decode/samples.rs). Edit together: bpf/sample.bpf.c.

use std::os::fd::{FromRawFd, OwnedFd};

/// Samples a second on each CPU. A prime, so that it does not march with timers.
pub(super) const SAMPLE_HZ: u32 = 97;

/// perf_event_open for a CPU clock on one CPU. The struct is perf_event_attr up to its second version.
pub(super) fn sampling_event(cpu: u32) -> std::io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_frequency: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        breakpoint_type: u32,
        config1: u64,
    }
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
    const FLAG_FREQUENCY: u64 = 1 << 10;
    // What a CPU does that does nothing is not counted: the kernel spares the program.
    const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
    let attributes = Attributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_frequency: u64::from(SAMPLE_HZ),
        flags: FLAG_FREQUENCY | FLAG_EXCLUDE_IDLE,
        ..Attributes::default()
    };
    // SAFETY: the struct is a valid perf_event_attr of the size it tells, and outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &attributes as *const Attributes,
            -1,
            cpu as libc::c_int,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel returned a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
