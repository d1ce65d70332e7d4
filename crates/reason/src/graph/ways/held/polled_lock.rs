//! A file lock that is tried again and again: who held one on that file at the nearest reading of the lock table.
//!
//! One lets go between the reading of the table and of his descriptors, and has it again at the next. Of several holders one
//! that keeps all others out, and none of a lock that the waiter has too, unless there is no other. A lock of flock(2) is not in the way of one of
//! fcntl(2), nor one of other bytes. Must not: take a reading that knows nobody for one that says that nobody has it.

use super::lock_table::{acting, others_with};
use crate::facts::{Denied, FileLock, Ns, ObjectRef, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::model::object::{FileKey, Object};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "polled lock",
    because: "the lock belonged to an open file description that it had, at the reading nearest to the try",
    of: &[WaitClass::PolledLock],
    thresholds: &[],
    follow: |at| polled_holder(at.index, at.wait).map(Next::Thread),
};

/// Of a lock that is tried again and again: who held one on that file at the nearest reading of the table that knows who has
/// it. One lets go between the reading of the table and of his descriptors, and has it again at the next. Of several
/// holders one that keeps all others out.
fn polled_holder(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let Object::File(Some(file)) = wait.object else { return None };
    let away = |at_ns: Ns| wait.begin_ns.saturating_sub(at_ns) + at_ns.saturating_sub(wait.end_ns);
    let locks = index.model.held.locks.iter();
    let held = locks.filter(|(_, it)| !it.blocked && (it.dev, it.ino) == (file.dev, file.ino));
    let tried = tried(index, file, wait);
    let bars = |lock: &FileLock| tried.is_none_or(|tried| is_in_the_way(lock, tried));
    let known = held.filter(|(_, lock)| bars(lock)).filter_map(|(at_ns, lock)| {
        let others = others_with(index, wait, lock);
        let is_shared = index.model.held.is_shared_with(lock, wait.thread.pid);
        let order = (away(*at_ns), is_shared, lock.access != "WRITE");
        (!others.is_empty()).then_some((order, others))
    });
    let (_, others) = known.min_by_key(|(order, _)| *order)?;
    acting(index, wait, others)
}

/// How long before the begin of a sleep the try for which it is may be dated: two clocks, and what a shell does between.
const TRIED_NS: Ns = 100_000_000;

/// The last try for a lock of a file before a sleep, or at its begin: of whoever sleeps, or else of another, as where a shell's children try.
fn tried<'a>(index: &Index<'a>, file: FileKey, wait: &WaitSpan) -> Option<&'a Denied> {
    let is_it = |denied: &&Denied| match &denied.object {
        Some(ObjectRef::File(of)) => (of.dev, of.ino) == (file.dev, file.ino),
        _ => false,
    };
    let until_ns = wait.begin_ns.saturating_add(TRIED_NS);
    let all = || {
        let all = index.model.threads.denied.iter();
        all.take_while(|(at_ns, _)| *at_ns <= until_ns).map(|(_, it)| it).filter(is_it)
    };
    let own = all().filter(|it| it.thread.pid == wait.thread.pid).last();
    own.or_else(|| all().last())
}

/// Whether a lock keeps a try out: by the kind of the call, and by the bytes where they are known.
fn is_in_the_way(lock: &FileLock, tried: &Denied) -> bool {
    let is_of_kind = match tried.syscall.as_str() {
        "flock" => lock.kind == "FLOCK",
        "fcntl" => matches!(lock.kind.as_str(), "POSIX" | "OFDLCK"),
        _ => true,
    };
    let overlaps = |(first, last): (u64, u64)| lock.start <= last && first <= lock.end;
    is_of_kind && tried.bytes.is_none_or(overlaps)
}

#[cfg(test)]
mod tests {
    use super::polled_holder;
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::model::object::{FileKey, Object};
    use crate::rules::scenes::{LOOK_NS, file_lock, host, refusal, slept, thread};
    use crate::waits::timeline::Observed;

    const DEV: DeviceNumber = DeviceNumber { major: 8, minor: 1 };

    fn read(at_ns: Ns, holder: u32, access: &str) -> Fact {
        let lock = file_lock(1, (DEV, 9), &[thread(holder, "job")]);
        let lock = FileLock { access: access.into(), comm: String::new(), ..lock };
        Fact { at_ns, body: Body::FileLock(lock) }
    }

    /// Of a wait in the middle of the look who had the lock, by these readings of the table.
    fn holder(readings: Vec<Fact>) -> Option<u32> {
        let Observed { model, timelines } = Observed::new(
            [host(), vec![slept(10, "app", LOOK_NS / 2, LOOK_NS)], readings].concat(),
        );
        let mut wait = timelines.waits().next().expect("it waits").clone();
        wait.object = Object::File(Some(FileKey { dev: DEV, ino: 9 }));
        let index = Index::new(&model, &timelines);
        polled_holder(&index, &wait).map(|by| by.tid)
    }

    #[test]
    fn a_lock_that_the_waiter_has_too_is_in_its_way_only_where_there_is_no_other() {
        let part = |pid: u32, byte: u64| {
            let mut fact = read(1, pid, "READ");
            if let Body::FileLock(lock) = &mut fact.body {
                (lock.start, lock.end, lock.kind) = (byte, byte, "POSIX".into());
            }
            fact
        };
        let open = || vec![part(20, 128), part(10, 128), part(21, 128)];
        assert_eq!(holder([open(), vec![part(21, 124)]].concat()), Some(21));
        assert_eq!(holder(open()), Some(20), "it wants to write what all of them read");
    }

    /// Who holds a lock of a kind and of these bytes.
    fn of_kind(pid: u32, kind: &str, bytes: (u64, u64)) -> Fact {
        let mut fact = read(1, pid, "WRITE");
        if let Body::FileLock(lock) = &mut fact.body {
            (lock.start, lock.end, lock.kind) = (bytes.0, bytes.1, kind.into());
        }
        fact
    }

    #[test]
    fn a_lock_of_another_kind_or_of_other_bytes_is_not_in_the_way() {
        let tries = |syscall: &str, bytes| {
            let object = Some(ObjectRef::File(FileRef { dev: DEV, ino: 9, ..FileRef::default() }));
            let denied = Denied { errno: 11, bytes, object, ..refusal(10, "app", syscall) };
            Fact { at_ns: LOOK_NS / 2 - 1_000, body: Body::Denied(denied) }
        };
        let all = (0, u64::MAX);
        let held = || {
            vec![
                of_kind(20, "FLOCK", all),
                of_kind(21, "POSIX", (0, 9)),
                of_kind(22, "POSIX", (100, 109)),
            ]
        };
        let by = |syscall, bytes| holder([held(), vec![tries(syscall, bytes)]].concat());
        assert_eq!(by("flock", None), Some(20));
        assert_eq!(
            (by("fcntl", Some((5, 5))), by("fcntl", Some((100, 100)))),
            (Some(21), Some(22))
        );
        assert_eq!(by("fcntl", Some((50, 60))), None, "whoever had those let go");
    }

    #[test]
    fn the_nearest_reading_counts_and_of_one_moment_who_keeps_all_out() {
        let (early, late) = (read(1, 20, "WRITE"), read(LOOK_NS - 1, 21, "WRITE"));
        assert_eq!(holder(vec![early.clone(), late.clone()]), Some(21));
        assert_eq!(holder(vec![early]), Some(20));
        assert_eq!(holder(vec![read(LOOK_NS - 1, 22, "READ"), late]), Some(21));
        assert_eq!(holder(vec![read(1, 10, "WRITE")]), None, "its own");
    }
}
