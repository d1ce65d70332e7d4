//! By which tags the kernel names the loaded programs: in its log a function of one is `bpf_prog_TAG_NAME`.
//!
//! A tag is a hash of the instructions, so that of another's program differs. A function that the verifier keeps apart has a tag of its
//! own. Must not: decide what a line of the log says (readers/kernel_log/).

use libbpf_rs::libbpf_sys::{bpf_obj_get_info_by_fd, bpf_prog_info};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The hash of a program's instructions (BPF_TAG_SIZE).
pub(crate) type Tag = [u8; 8];

/// Functions of one program; the verifier allows fewer (BPF_MAX_SUBPROGS).
const FUNCTIONS_MAX: u32 = 256;

/// The tags of a program and of its functions; none of one that is not loaded.
pub(crate) fn of(program: BorrowedFd<'_>) -> Vec<Tag> {
    let mut tags = [Tag::default(); FUNCTIONS_MAX as usize];
    // SAFETY: all zeroes are a value of it, and ask for no arrays.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    info.nr_prog_tags = FUNCTIONS_MAX;
    info.prog_tags = tags.as_mut_ptr() as u64;
    let mut bytes = size_of::<bpf_prog_info>() as u32;
    // SAFETY: room for one bpf_prog_info of the size passed, and for as many tags as it says; both outlive the call.
    let failed =
        unsafe { bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &mut bytes) };
    if failed != 0 {
        return Vec::new();
    }
    let functions = info.nr_prog_tags.min(FUNCTIONS_MAX) as usize;
    [info.tag].into_iter().chain(tags.into_iter().take(functions)).collect()
}
