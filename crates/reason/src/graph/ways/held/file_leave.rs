//! A program that is asked before others may open, read or execute a file (fanotify's permission events): a scanner for viruses, a backup that
//! fetches what was moved away.
//!
//! The kernel does not say which of several such programs has not answered. Must not: guess among them.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "leave for a file",
    because: "it is asked before the file may be used (fanotify)",
    of: &[WaitClass::FileLeave],
    thresholds: &[],
    follow: |at| asked(at.index, at.wait).map(Next::Thread),
};

fn asked(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let ends = index.devices.asked_for_files().iter().map(|end| end.process.clone());
    let mut processes: Vec<ThreadRef> = ends.collect();
    processes.sort_by_key(|process| process.pid);
    processes.dedup_by_key(|process| process.pid);
    if processes.len() > 1 {
        return None;
    }
    chosen(index, wait, processes)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{endpoint, fact};

    /// Process 10 opens a file, and some are asked first.
    fn opens(asked: &[u32]) -> (&'static str, Option<u32>) {
        let frames = vec!["fanotify_handle_event".to_string(), "fsnotify".to_string()];
        let mut facts = vec![fact(Body::Stack(Stack { id: 1, frames }))];
        let scanner =
            |pid: &u32| endpoint(*pid, "clamd", ObjectRef::Other { what: FANOTIFY.into(), ino: 5 });
        facts.extend(asked.iter().map(scanner));
        let state = WaitState::DiskSleep;
        facts.push(stands(of_ten(10), Place { state, stack: 1, ..place("openat", NO_ARGS, None) }));
        led(facts)
    }

    #[test]
    fn who_is_asked_before_files_are_opened_is_next_and_of_several_nobody_knows() {
        assert_eq!(opens(&[20]), ("leave for a file", Some(20)));
        assert_eq!(opens(&[20, 20]), ("leave for a file", Some(20)), "by two descriptors");
        assert_eq!(opens(&[20, 21]).1, None);
        assert_eq!(opens(&[]).1, None);
    }
}
