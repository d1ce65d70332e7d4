//! What is used up, from window to window: the readings of each thing so far, and those of them that show a trend.
//!
//! A window's facts say how much is used at its end; here stands how that was before. Of what shows a trend (measure/exhaustion.rs) the
//! readings go into the window's facts, and so into its recording: replayed alone it gives the same answer. Readings stand close together
//! for the last minutes and further apart the older they are, so that some sixty of them reach back as far as a trend to an end within a day
//! needs; the greatest height between two of them is held. Of what is full those of how it became so stay, however old. Pure.
//!
//! Must not: decide what a trend is, or read anything. Rejected: all readings in each recording (some hundred things, of which none ends); a
//! file of its own (the state of the watch has what is open).

use holdup_reason::facts::{DeviceNumber, Ns, Reading, Resource, Usage};
use holdup_reason::measure::exhaustion::{exhaustion, is_full};
use holdup_reason::measure::usages::usages;
use holdup_reason::model::Model;

/// Things that are followed at once; beyond them the first ones are.
const FOLLOWED_MAX: usize = 2_000;
/// A reading goes if those beside it stand no further apart than this part of their age.
const APART: u64 = 8;
/// A quarter of a day, and a little more.
const OLDEST_NS: Ns = 7 * 3600 * 1_000_000_000;
/// What was not seen for so many windows is forgotten: a process has ended, a file system is gone.
const MISSED_MAX: u32 = 3;

/// Which thing it is.
#[derive(Debug, PartialEq)]
struct Key {
    of: Resource,
    dev: DeviceNumber,
    path: String,
    process: Option<(u32, Ns)>,
    netns: u32,
}

impl Key {
    fn of(usage: &Usage) -> Self {
        let Usage { of, dev, path, process, netns, .. } = usage;
        let process = process.as_ref().map(|it| (it.pid, it.start_ns));
        Self { of: *of, dev: *dev, path: path.clone(), process, netns: *netns }
    }
}

/// What is known of one.
#[derive(Debug)]
struct History {
    of: Key,
    readings: Vec<Reading>,
    /// Of the last window.
    before: Usage,
    /// Windows since it was seen.
    missed: u32,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Foresight {
    /// Of which start of the host the readings are; empty if that is not known yet.
    boot_id: String,
    all: Vec<History>,
    /// As of the last window.
    trends: Vec<Usage>,
}

impl Foresight {
    /// With what was known of trends when a look of the same start of the host ended: what is open is not forgotten by a restart.
    pub fn with(trends: Vec<Usage>, boot_id: String) -> Self {
        let history = |usage: Usage| History {
            of: Key::of(&usage),
            readings: usage.readings(),
            before: usage,
            missed: 0,
        };
        Self { boot_id, all: trends.into_iter().map(history).collect(), trends: Vec::new() }
    }

    /// Of which start of the host that is.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// What shows a trend, as of the last window.
    pub fn trends(&self) -> &[Usage] {
        &self.trends
    }

    /// Takes the readings of a window, and gives those that show a trend, with what was before.
    pub(crate) fn take(&mut self, model: &Model) -> Vec<Usage> {
        // Another start has another clock: what was read before it is of no use.
        let boot_id = model.look.boot_id();
        if self.boot_id != boot_id {
            self.all.clear();
            self.boot_id = boot_id.into();
        }
        self.all.iter_mut().for_each(|history| history.missed += 1);
        self.trends.clear();
        // They come in the same order again, but for a few.
        let mut next = 0;
        for (at_ns, usage) in usages(model) {
            let key = Key::of(&usage);
            let many = self.all.len();
            let at = (0..many).map(|at| (next + at) % many).find(|at| self.all[*at].of == key);
            if usage.limit == 0 || (many >= FOLLOWED_MAX && at.is_none()) {
                continue;
            }
            let at = at.unwrap_or_else(|| {
                let (readings, before) = (Vec::new(), Usage::default());
                self.all.push(History { of: key, readings, before, missed: 0 });
                many
            });
            next = at + 1;
            let history = &mut self.all[at];
            history.add(at_ns, usage.used, usage.limit);
            if exhaustion(usage.of, &history.readings, usage.limit).is_some() {
                let moved = history.moved(&usage);
                self.trends.push(Usage { moved, ..usage.clone() }.with(&history.readings));
            }
            history.before = usage;
        }
        self.all.retain(|history| history.missed <= MISSED_MAX);
        self.trends.clone()
    }
}

impl History {
    fn add(&mut self, at_ns: Ns, used: u64, limit: u64) {
        self.missed = 0;
        // Of a clock that went back nothing before it is of use.
        if self.readings.last().is_some_and(|last| last.at_ns >= at_ns) {
            self.readings.clear();
        }
        let mut reading = Reading { at_ns, used, peak: used };
        let full = self.readings.iter().rev().take_while(|it| is_full(it.used, limit)).count();
        if full > 0 && is_full(used, limit) {
            // The readings before show how it became full, which is what is found of it: only the latest is exchanged.
            if full > 1
                && let Some(last) = self.readings.pop()
            {
                reading.peak = used.max(last.peak);
            }
            self.readings.push(reading);
            return;
        }
        self.readings.push(reading);
        let mut at = 1;
        while at + 1 < self.readings.len() {
            let [one, it, next] = [at - 1, at, at + 1].map(|at| self.readings[at]);
            let is_flat = one.used == it.used && it.used == next.used;
            let age_ns = at_ns - next.at_ns;
            if is_flat || next.at_ns - one.at_ns <= age_ns / APART {
                self.readings.remove(at);
                self.readings[at].peak = next.peak.max(it.peak);
            } else {
                at += 1;
            }
        }
        while self.readings.get(1).is_some_and(|it| at_ns - it.at_ns > OLDEST_NS) {
            let peak = self.readings.remove(0).peak;
            self.readings[0].peak = self.readings[0].peak.max(peak);
        }
    }

    /// How far each of those who have files open there now has come since the window before.
    fn moved(&self, now: &Usage) -> Vec<u64> {
        let moved = |(pid, file, position): (u32, &str, u64)| {
            let known = open(&self.before).find(|it| (it.0, it.1) == (pid, file));
            known.map_or(0, |it| position.saturating_sub(it.2))
        };
        open(now).map(moved).collect()
    }
}

/// Who has which file open there, and where it writes next. A state that somebody wrote may have fewer of one than of another.
fn open(usage: &Usage) -> impl Iterator<Item = (u32, &str, u64)> {
    let files = usage.files.iter().zip(&usage.positions);
    let writers = usage.writers.iter().zip(files);
    writers.map(|(writer, (file, position))| (writer.pid, file.as_str(), *position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Body, Fact, ThreadRef, WindowBegin};

    const SECOND: Ns = 1_000_000_000;

    /// A window that ends with so much used of 100,000 bytes.
    fn window(at_ns: Ns, used: u64, position: u64) -> Model {
        let process = ThreadRef { tid: 7, pid: 7, ..ThreadRef::default() };
        let usage = Usage {
            path: "/x".into(),
            used,
            limit: 100_000,
            writers: vec![process],
            files: vec!["/x/y".into()],
            positions: vec![position],
            ..Usage::default()
        };
        Model::new(vec![
            Fact { at_ns, body: Body::WindowBegin(WindowBegin { unix_ns: 1 }) },
            Fact { at_ns, body: Body::Usage(usage) },
        ])
    }

    #[test]
    fn what_fills_is_known_after_a_few_windows_with_who_writes() {
        let mut foresight = Foresight::default();
        let mut seen = Vec::new();
        for at in 1..=6 {
            seen.push(foresight.take(&window(at * 10 * SECOND, at * 10_000, at * 9_000)));
        }
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1]);
        let last = &seen[5][0];
        assert_eq!((last.moved[0], last.readings().len()), (9_000, 6));
        assert_eq!(foresight.trends(), seen[5]);
    }

    #[test]
    fn a_restart_goes_on_with_what_was_open_and_knows_nothing_else() {
        let mut before = Foresight::default();
        for at in 1..=5 {
            before.take(&window(at * 10 * SECOND, at * 10_000, 0));
        }
        let mut after = Foresight::with(before.trends().to_vec(), String::new());
        assert_eq!(after.take(&window(61 * SECOND, 60_500, 0)).len(), 1);
        assert!(Foresight::default().take(&window(61 * SECOND, 60_500, 0)).is_empty());
        let mut booted = Foresight::with(before.trends().to_vec(), String::new());
        assert!(booted.take(&window(5 * SECOND, 60_500, 0)).is_empty());
        let mut booted = Foresight::with(before.trends().to_vec(), "another".into());
        assert!(booted.take(&window(61 * SECOND, 60_500, 0)).is_empty(), "however long ago");
    }

    #[test]
    fn a_state_that_lacks_files_or_positions_of_writers_is_taken_as_far_as_it_goes() {
        let mut before = Foresight::default();
        for at in 1..=5 {
            before.take(&window(at * 10 * SECOND, at * 10_000, 1_000));
        }
        let mut torn = before.trends().to_vec();
        (torn[0].files, torn[0].positions) = (Vec::new(), Vec::new());
        let moved =
            |known| Foresight::with(known, String::new()).take(&window(61 * SECOND, 60_500, 9_000));
        assert_eq!(moved(before.trends().to_vec())[0].moved, [8_000]);
        assert_eq!(moved(torn)[0].moved, [0]);
    }

    #[test]
    fn what_is_full_stays_found_across_a_restart_until_there_is_room() {
        let mut foresight = Foresight::default();
        for at in 1..=9 {
            foresight.take(&window(at * 10 * SECOND, at * 10_000, 0));
        }
        // More than an hour.
        for at in 10..=400 {
            let found = foresight.take(&window(at * 10 * SECOND, 100_000 - at % 3, 0));
            assert_eq!(found.len(), 1, "window {at}");
            // As whoever reads the recording of this window alone sees it.
            let end = exhaustion(found[0].of, &found[0].readings(), found[0].limit);
            let end = end.expect("it is full");
            assert!(is_full(end.used, end.limit) && end.latest_seconds < 1.0, "{end:?}");
            if at == 200 {
                foresight = Foresight::with(foresight.trends().to_vec(), String::new());
            }
        }
        assert_eq!(
            foresight.all[0].readings.len(),
            11,
            "those of how it became so, and the latest"
        );
        assert!(foresight.take(&window(4_010 * SECOND, 50_000, 0)).is_empty());
    }

    #[test]
    fn readings_reach_back_for_hours_and_are_few_and_no_height_is_lost() {
        let of = Key::of(&Usage::default());
        let mut history = History { of, readings: Vec::new(), before: Usage::default(), missed: 0 };
        let windows = 8 * 360;
        for at in 1..=windows {
            let used = if at == windows - 1_000 { 99_000 } else { at };
            history.add(at * 10 * SECOND, used, 100_000);
        }
        let readings = &history.readings;
        assert!((40..100).contains(&readings.len()), "{}", readings.len());
        assert!(readings.windows(2).all(|it| it[0].at_ns < it[1].at_ns));
        let reach = readings[readings.len() - 1].at_ns - readings[0].at_ns;
        assert!(reach > 6 * 3600 * SECOND && reach < 9 * 3600 * SECOND, "{}", reach / SECOND);
        let last = &readings[readings.len() - 6..];
        assert!(last.windows(2).all(|it| it[1].at_ns - it[0].at_ns <= 30 * SECOND), "{last:?}");
        assert_eq!(readings.iter().map(|it| it.peak).max(), Some(99_000));
    }

    #[test]
    fn what_stays_as_it_is_takes_no_room_and_what_is_gone_none_at_all() {
        let mut foresight = Foresight::default();
        for at in 1..=100 {
            foresight.take(&window(at * 10 * SECOND, 5, 0));
        }
        assert_eq!(foresight.all.iter().map(|it| it.readings.len()).sum::<usize>(), 2);
        for at in 101..=105 {
            foresight.take(&Model::new(vec![Fact {
                at_ns: at * 10 * SECOND,
                body: Body::WindowBegin(WindowBegin { unix_ns: 1 }),
            }]));
        }
        assert!(foresight.all.is_empty());
    }
}
