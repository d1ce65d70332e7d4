//! The last windows in memory, and which of them are worth the disk: those before a finding, its own, and some after it.
//!
//! Windows in which nobody lost anything need no disk, so that a healthy host writes nothing. Pure. Must not: write.

use super::ring::Entry;
use super::settings::Settings;
use std::collections::VecDeque;
use std::sync::Arc;

/// A window in memory.
struct Held {
    entry: Entry,
    /// Its recording; none if it could not be held.
    bytes: Option<Arc<[u8]>>,
    is_written: bool,
}

/// See the head of the file.
pub(super) struct Recorder {
    held: VecDeque<Held>,
    held_max: usize,
    before: usize,
    after: usize,
    /// Windows that are still to be written after a finding.
    to_come: usize,
}

impl Recorder {
    /// As the settings say.
    pub(super) fn new(settings: &Settings) -> Self {
        let windows = |length: std::time::Duration| {
            (length.as_secs_f64() / settings.window.as_secs_f64()).ceil() as usize
        };
        Self {
            held: VecDeque::new(),
            held_max: windows(settings.memory).max(1),
            before: windows(settings.ring.before),
            after: windows(settings.ring.after),
            to_come: 0,
        }
    }

    /// Other settings; what is held stays, as far as there is room.
    pub(super) fn set(&mut self, settings: &Settings) {
        let Self { held_max, before, after, .. } = Self::new(settings);
        (self.held_max, self.before, self.after) = (held_max, before, after);
        self.forget();
    }

    /// Takes the window that has ended; what is to be written now, the oldest first.
    pub(super) fn take(
        &mut self,
        entry: Entry,
        bytes: Option<Arc<[u8]>>,
    ) -> Vec<(Entry, Arc<[u8]>)> {
        let is_pressing = !entry.findings.is_empty();
        self.held.push_back(Held { entry, bytes, is_written: false });
        self.forget();
        if is_pressing {
            self.to_come = self.after;
            return self.write(self.before + 1);
        }
        match self.to_come.checked_sub(1) {
            Some(left) => {
                self.to_come = left;
                self.write(1)
            }
            None => Vec::new(),
        }
    }

    /// All that are held, because somebody asks.
    pub(super) fn all(&mut self) -> Vec<(Entry, Arc<[u8]>)> {
        self.write(self.held.len())
    }

    /// Windows in memory, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let bytes = self.held.iter().filter_map(|it| it.bytes.as_ref()).map(|it| it.len()).sum();
        (self.held.len(), bytes)
    }

    fn forget(&mut self) {
        while self.held.len() > self.held_max {
            self.held.pop_front();
        }
    }

    /// The last of them that were not written yet.
    fn write(&mut self, last: usize) -> Vec<(Entry, Arc<[u8]>)> {
        let skipped = self.held.len().saturating_sub(last);
        let unwritten = self.held.iter_mut().skip(skipped).filter(|it| !it.is_written);
        unwritten
            .filter_map(|it| {
                it.is_written = true;
                Some((it.entry.clone(), it.bytes.clone()?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::EntryFinding;
    use super::*;
    use holdup_reason::answer::{Severity, Verdict};
    use std::time::Duration;

    fn recorder() -> Recorder {
        let mut settings = Settings { memory: Duration::from_secs(50), ..Settings::default() };
        (settings.ring.before, settings.ring.after) =
            (Duration::from_secs(20), Duration::from_secs(10));
        Recorder::new(&settings)
    }

    fn take(recorder: &mut Recorder, number: u64, is_pressing: bool) -> Vec<u64> {
        let finding =
            EntryFinding { key: "a".into(), severity: Severity::Warning, lost_per_second: 1.0 };
        let entry = Entry {
            file: String::new(),
            begin_unix_ns: number,
            seconds: 10.0,
            verdict: Verdict::Idle,
            title: String::new(),
            findings: if is_pressing { vec![finding] } else { Vec::new() },
            bytes: 1,
        };
        numbers(recorder.take(entry, Some(Arc::from(&[1][..]))))
    }

    fn numbers(written: Vec<(Entry, Arc<[u8]>)>) -> Vec<u64> {
        written.into_iter().map(|(entry, _)| entry.begin_unix_ns).collect()
    }

    #[test]
    fn a_finding_is_written_with_what_came_before_and_after_it() {
        let mut recorder = recorder();
        for number in 0..4 {
            assert!(take(&mut recorder, number, false).is_empty());
        }
        assert_eq!(take(&mut recorder, 4, true), [2, 3, 4]);
        assert_eq!(take(&mut recorder, 5, true), [5], "nothing twice");
        assert_eq!(take(&mut recorder, 6, false), [6]);
        assert!(take(&mut recorder, 7, false).is_empty());
    }

    #[test]
    fn who_asks_gets_all_that_is_held() {
        let mut recorder = recorder();
        for number in 0..9 {
            take(&mut recorder, number, false);
        }
        assert_eq!(recorder.size(), (5, 5));
        assert_eq!(numbers(recorder.all()), [4, 5, 6, 7, 8]);
        assert!(recorder.all().is_empty());
    }
}
