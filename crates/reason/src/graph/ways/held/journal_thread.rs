//! The journal of a file system: the kernel thread that writes it.
//!
//! Must not: say who filled the journal (rules/disk).

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::wakers::waker;
use crate::graph::ways::way::Way;
use crate::model::kernel_threads::{KernelThread, is_journal};
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "journal thread",
    because: "it writes the file system's journal",
    of: &[WaitClass::Journal],
    thresholds: &[],
    follow: |at| journal_thread(at.index, at.wait).map(Next::Thread),
};

fn journal_thread(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    if let Some(waker) = waker(index, wait)
        && is_journal(&waker)
    {
        return Some(waker);
    }
    let Object::Journal(Some(dev)) = wait.object else { return None };
    let device = &index.model.disk.of(dev)?.name;
    let is_its = |thread: &&ThreadRef| match KernelThread::of(thread) {
        Some(KernelThread::Journal(name)) => name.starts_with(&**device),
        _ => false,
    };
    index.model.threads.names.values().find(is_its).cloned()
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{fact, thread};

    #[test]
    fn the_thread_of_the_disk_is_it() {
        let dev = DeviceNumber { major: 8, minor: 1 };
        let frames = vec!["jbd2_log_wait_commit".to_string()];
        let stack = fact(Body::Stack(Stack { id: 1, frames }));
        let disk = fact(Body::Disk(Disk { dev, name: "sda1".into(), ..Disk::default() }));
        let file = ObjectRef::File(FileRef { dev, ino: 5, ..FileRef::default() });
        let at =
            Place { stack: 1, state: WaitState::DiskSleep, ..place("fsync", NO_ARGS, Some(file)) };
        let writer = |name: &str| stands(thread(20, name), place("", NO_ARGS, None));
        let of = |name: &str| {
            led(vec![stack.clone(), disk.clone(), stands(of_ten(10), at.clone()), writer(name)])
        };
        assert_eq!(of("jbd2/sda1-8"), ("journal thread", Some(20)));
        assert_eq!(of("jbd2/sdb1-8"), ("", None));
    }
}
