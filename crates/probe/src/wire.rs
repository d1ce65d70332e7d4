//! The generated types of `bpf/wire.h`, and the one place where bytes become them.
//!
//! Rejected: a second definition in Rust; reading by pointer cast in place (alignment).

pub use crate::skel::types::*;

/// A plain struct of `wire.h`: any bytes are a value of it.
///
/// # Safety
/// Only integers and arrays of integers may be inside.
pub unsafe trait Wire: Copy {}

macro_rules! wire {
    ($($name:ident),*) => { $(
        // SAFETY: generated from wire.h, which holds integers and arrays of integers only.
        unsafe impl Wire for $name {}
    )* };
}
wire!(
    wire_head,
    wire_wait,
    wire_fork,
    wire_exec,
    wire_exit,
    wire_thread,
    wire_endpoint,
    wire_request,
    wire_oom,
    wire_signal,
    wire_dns,
    wire_denied,
    wire_disk_key,
    wire_disk_latency,
    wire_disk_use_key,
    wire_disk_use,
    wire_reclaim_key,
    wire_reclaim,
    wire_dirty_key,
    wire_dirty,
    wire_qdisc_key,
    wire_qdisc,
    wire_flow_key,
    wire_flow,
    wire_sample_key,
    wire_sample,
    wire_work_key,
    wire_work,
    wire_effort_key,
    wire_effort
);

/// Reads a record; bytes that a shorter record leaves out are zero.
pub fn read<T: Wire>(bytes: &[u8]) -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: `length` bytes are readable at the source and writable at the target, which do not
    // overlap; zero is a value of every Wire type, and so are any bytes copied over it.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), length);
        value.assume_init()
    }
}

/// A NUL-terminated name as text; what is not UTF-8 is replaced.
pub fn text<T: Copy + Into<i16>>(bytes: &[T]) -> String {
    let raw: Vec<u8> =
        bytes.iter().map(|&b| (b.into() & 0xff) as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&raw).into_owned()
}
