//! The kernel's own threads, by the names that it gives them.
//!
//! The only place that knows such a name: a journal's, of ext4 (`jbd2/sda1-8`: the device, and the number of the journal's inode); the
//! workers of its queues of work; a CPU's thread for soft interrupts. A program may take any name, so whoever can asks first whether a thread is
//! the kernel's. Must not: say whom such a thread works for (graph/).

use crate::facts::ThreadRef;

/// What a thread of the kernel is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelThread<'a> {
    /// Commits a journal; behind the prefix stand its device and the inode's number.
    Journal(&'a str),
    /// Works for whoever has queued something.
    Worker,
    /// Serves the soft interrupts of a CPU, when they are too many.
    SoftInterrupts(u32),
}

impl<'a> KernelThread<'a> {
    /// By a thread's name; none of a name that is none of these.
    pub fn of(thread: &'a ThreadRef) -> Option<Self> {
        let comm = thread.comm.as_str();
        if let Some(journal) = comm.strip_prefix("jbd2/") {
            return Some(Self::Journal(journal));
        }
        if comm.starts_with("kworker") {
            return Some(Self::Worker);
        }
        comm.strip_prefix("ksoftirqd/")?.parse().ok().map(Self::SoftInterrupts)
    }
}

/// Whether a thread commits a journal.
pub fn is_journal(thread: &ThreadRef) -> bool {
    matches!(KernelThread::of(thread), Some(KernelThread::Journal(_)))
}

/// Whether a thread is a worker.
pub fn is_worker(thread: &ThreadRef) -> bool {
    KernelThread::of(thread) == Some(KernelThread::Worker)
}

/// Whether a thread writes to disks what others have left to it: a worker that writes back, or a layer's own (dm-crypt's writer; of a loop device
/// before 5.14).
pub fn writes_for_others(thread: &ThreadRef) -> bool {
    let numbered = thread.comm.strip_prefix("loop");
    is_worker(thread)
        || thread.comm.starts_with("dmcrypt_write")
        || numbered.is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// Whether a thread commits the journal on a device by this name.
pub fn is_journal_of(thread: &ThreadRef, device: &str) -> bool {
    let Some(KernelThread::Journal(name)) = KernelThread::of(thread) else { return false };
    name.strip_prefix(device).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(comm: &str) -> ThreadRef {
        ThreadRef { comm: comm.into(), ..ThreadRef::default() }
    }

    #[test]
    fn a_name_says_what_a_thread_of_the_kernel_is_for() {
        let journal = named("jbd2/sda1-8");
        assert_eq!(KernelThread::of(&journal), Some(KernelThread::Journal("sda1-8")));
        assert!(is_journal_of(&journal, "sda1") && !is_journal_of(&journal, "sda"));
        assert!(is_worker(&named("kworker/0:1")) && !is_worker(&named("worker")));
        let for_others = ["kworker/u8:2", "dmcrypt_write/2", "loop12", "loop", "jbd2/sda1-8", "dd"];
        let writes = for_others.map(|name| writes_for_others(&named(name)));
        assert_eq!(writes, [true, true, true, false, false, false]);
        assert_eq!(
            KernelThread::of(&named("ksoftirqd/12")),
            Some(KernelThread::SoftInterrupts(12))
        );
        assert_eq!(KernelThread::of(&named("postgres")), None);
    }
}
