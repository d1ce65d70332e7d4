//! The journal of a file system: the kernel thread that writes it.
//!
//! Must not: say who filled the journal (rules/disk).

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::wakers::waker;
use crate::graph::ways::way::Way;
use crate::model::kernel_threads::{KernelThread, is_journal, is_journal_of};
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
    let all = || index.model.threads.names.values();
    if let Some(exact) = all().find(|thread| is_journal_of(thread, device)) {
        return Some(exact.clone());
    }
    // Of the partitions of a disk it is known which only if there is but one.
    let mut of_partitions = all().filter(|thread| is_of_partition(thread, device));
    let only = of_partitions.next()?;
    of_partitions.next().is_none().then(|| only.clone())
}

/// Whether a thread commits the journal on a partition of a disk: `sda1`, `nvme0n1p1`.
fn is_of_partition(thread: &ThreadRef, disk: &str) -> bool {
    let Some(KernelThread::Journal(name)) = KernelThread::of(thread) else { return false };
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let number = match disk.ends_with(|last: char| last.is_ascii_digit()) {
        true => rest.strip_prefix('p'),
        false => Some(rest),
    };
    number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
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
        assert_eq!(of("jbd2/sda12-8"), ("", None), "another partition");
    }

    #[test]
    fn a_disk_with_several_partitions_does_not_say_which() {
        let dev = DeviceNumber { major: 8, minor: 0 };
        let frames = vec!["jbd2_log_wait_commit".to_string()];
        let stack = fact(Body::Stack(Stack { id: 1, frames }));
        let disk = fact(Body::Disk(Disk { dev, name: "sda".into(), ..Disk::default() }));
        let file = ObjectRef::File(FileRef { dev, ino: 5, ..FileRef::default() });
        let at =
            Place { stack: 1, state: WaitState::DiskSleep, ..place("fsync", NO_ARGS, Some(file)) };
        let of = |names: &[&str]| {
            let writer =
                |(tid, name): (u32, &&str)| stands(thread(tid, name), place("", NO_ARGS, None));
            let mut facts = vec![stack.clone(), disk.clone(), stands(of_ten(10), at.clone())];
            facts.extend((20..).zip(names).map(writer));
            led(facts)
        };
        assert_eq!(of(&["jbd2/sda1-8", "jbd2/sdaa1-8"]), ("journal thread", Some(20)));
        assert_eq!(of(&["jbd2/sda1-8", "jbd2/sda2-8"]), ("", None), "which?");
    }
}
