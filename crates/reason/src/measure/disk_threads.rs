//! The kernel's own threads among those who use a disk.
//!
//! What they ask for is somebody else's work: a commit of the journal, pages that are written back. Must not: follow them to
//! whom they work for (graph/).

use crate::facts::ThreadRef;
use crate::model::Model;
use crate::model::kernel_threads::{is_journal, is_worker};

/// A thread of the kernel, by what is known of it or by its name.
pub fn is_kernel(model: &Model, thread: &ThreadRef) -> bool {
    model.threads.by_id.get(&thread.pid).is_some_and(|known| known.kernel)
        || is_worker(thread)
        || is_journal(thread)
}
