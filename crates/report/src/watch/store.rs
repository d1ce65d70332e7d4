//! The state folder: who watches, what is open, the findings of each day, and the ring, all written by one thread of its own.
//!
//! The thread that looks never waits for a disk: what it wants written it queues, and where the queue is full (a frozen or dead disk)
//! it goes on and counts. Windows and the state are written aside, synced and renamed; findings are a line each, and a line that a
//! crash tore is cut off at the next start. Of two watchers on one folder the second is refused (flock(2), which the kernel gives back
//! however a process ends).
//!
//! Must not: decide what is saved (recorder.rs), or what surplus is (ring.rs). Edit together: docs/watch.md.

use super::event_line::{Line, Numbered};
use super::ring::{self, Entry};
use super::settings::{RingSettings, Settings};
use crate::failure::Failure;
use holdup_engine::over_time::OverTime;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock, statvfs};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pieces of work that may wait: some minutes of a host on which all is wrong.
const QUEUE: usize = 256;
/// For how long the end of the process waits for what is queued: each piece is synced, and a busy disk takes tenths of a second for that.
const LAST_WRITE: Duration = Duration::from_secs(5);
const LOCK: &str = "watch.lock";
const LOCK_TRIES: u32 = 5;
const STATE: &str = "state.json";
/// Less is what whoever corrects a clock all the time does.
const CLOCK_SET_NS_MIN: u64 = 1_000_000_000;

/// What a restart needs to know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// Number of the last event that it takes account of.
    pub sequence: u64,
    /// The end of the last window that it takes account of, nanoseconds since 1970.
    pub looked_unix_ns: u64,
    /// What is open.
    pub over_time: OverTime,
    /// What was being used up, with how it was until then: facts as text, which whoever reads recordings can read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trends: Vec<String>,
    /// Of which start of the host that is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// What the wall clock was ahead of CLOCK_BOOTTIME, nanoseconds.
    pub unix_offset_ns: i64,
}

impl State {
    /// How old it is, nanoseconds: the clock may have been set back since.
    pub(super) fn age_ns(&self, now_unix_ns: u64) -> u64 {
        now_unix_ns.abs_diff(self.looked_unix_ns)
    }

    /// Takes the clock as a window has found it. If it was set: by how much, nanoseconds, and what is remembered has moved with it.
    pub(super) fn take_clock(&mut self, unix_offset_ns: i64, boot_id: &str) -> Option<i64> {
        let before_ns = std::mem::replace(&mut self.unix_offset_ns, unix_offset_ns);
        let by_ns = unix_offset_ns.saturating_sub(before_ns);
        // Of another start nothing is known of the time in between.
        if self.boot_id != boot_id || before_ns == 0 || by_ns.unsigned_abs() < CLOCK_SET_NS_MIN {
            return None;
        }
        self.looked_unix_ns = self.looked_unix_ns.saturating_add_signed(by_ns);
        self.over_time.clock_was_set(by_ns);
        Some(by_ns)
    }
}

enum Work {
    Window(Entry, Arc<[u8]>),
    Line(String),
    State(String),
}

/// See the head of the file.
pub(super) struct Store {
    queue: Option<SyncSender<Work>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<Mutex<Option<String>>>,
    /// What the ring holds, bytes.
    ring_bytes: Arc<AtomicU64>,
    /// Pieces that found the queue full.
    pub unwritten: u64,
    /// Pieces that the disk refused.
    refused: Arc<AtomicU64>,
    /// Holds the lock.
    _lock: File,
}

impl Store {
    /// Opens the folder, makes it if it is not there, and gives what was known when somebody watched last.
    pub(super) fn open(settings: &Settings) -> Result<(Self, State), Failure> {
        let folder = settings.state.clone();
        let ring = folder.join(ring::FOLDER);
        for path in [&folder, &ring] {
            let advice = "`state = \"DIR\"` in the settings, or --state DIR, names another.";
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            let meta = made.and_then(|()| std::fs::metadata(path));
            let meta = meta.map_err(|error| {
                Failure::file("make the state folder", path, &error).advise(advice)
            })?;
            // Whoever may write there could have another file written in place of ours.
            if meta.mode() & 0o022 != 0 {
                let what = format!("others may write to the state folder {}", path.display());
                return Err(Failure::look(what, advice));
            }
        }
        let lock = lock(&folder)?;
        remove_torn(&ring);
        remove_old_days(&folder, settings.ring.days, Timestamp::now());
        let state = recover(&folder);
        let (queue, work) = sync_channel(QUEUE);
        let failed = Arc::new(Mutex::new(None));
        let ring_bytes = Arc::new(AtomicU64::new(0));
        let refused = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            held: ring::list(&folder).unwrap_or_default(),
            limits: settings.ring.clone(),
            failed: Arc::clone(&failed),
            ring_bytes: Arc::clone(&ring_bytes),
            refused: Arc::clone(&refused),
            folder,
        };
        writer.count();
        let thread = std::thread::Builder::new()
            .name("holdup-store".into())
            .spawn(move || writer.work(&work))
            .map_err(|error| Failure::look(format!("cannot start a thread: {error}"), ""))?;
        let store = Self {
            queue: Some(queue),
            thread: Some(thread),
            failed,
            ring_bytes,
            unwritten: 0,
            refused,
            _lock: lock,
        };
        Ok((store, state))
    }

    /// Has a window written.
    pub(super) fn window(&mut self, entry: Entry, bytes: Arc<[u8]>) {
        self.put(Work::Window(entry, bytes));
    }

    /// Has a line of the day's findings written.
    pub(super) fn line(&mut self, line: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(line) {
            self.put(Work::Line(text));
        }
    }

    /// Has the state written.
    pub(super) fn state(&mut self, state: &State) {
        if let Ok(text) = serde_json::to_string(state) {
            self.put(Work::State(text));
        }
    }

    fn put(&mut self, work: Work) {
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.try_send(work) {
            self.unwritten += 1;
        }
    }

    /// Pieces that were not written since the start.
    pub(super) fn lost(&self) -> u64 {
        self.unwritten + self.refused.load(Ordering::Relaxed)
    }

    /// What the ring holds, bytes.
    pub(super) fn ring_bytes(&self) -> u64 {
        self.ring_bytes.load(Ordering::Relaxed)
    }

    /// Why something could not be written since this was last asked.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().ok()?.take()
    }

    /// Writes what is queued, as long as that takes no longer than the end of a process may.
    pub(super) fn close(mut self) -> bool {
        drop(self.queue.take());
        let Some(thread) = self.thread.take() else { return true };
        let begin = Instant::now();
        while !thread.is_finished() {
            if begin.elapsed() > LAST_WRITE {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        thread.join().is_ok()
    }
}

/// The one who writes.
struct Writer {
    folder: PathBuf,
    /// What is in the ring: nobody else writes there, and to list it reads each file.
    held: Vec<Entry>,
    limits: RingSettings,
    failed: Arc<Mutex<Option<String>>>,
    ring_bytes: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl Writer {
    fn work(&mut self, work: &Receiver<Work>) {
        while let Ok(next) = work.recv() {
            let (doing, done) = match next {
                Work::Window(entry, bytes) => ("a window", self.window(&entry, &bytes)),
                Work::Line(line) => ("a finding", self.line(&line)),
                Work::State(text) => ("the state", aside(&self.folder, STATE, text.as_bytes())),
            };
            let Err(error) = done else { continue };
            self.refused.fetch_add(1, Ordering::Relaxed);
            if let Ok(mut failed) = self.failed.lock() {
                *failed = Some(format!("cannot write {doing}: {error}"));
            }
        }
    }

    fn window(&mut self, entry: &Entry, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(ring::FOLDER);
        self.make_room(&folder, bytes.len() as u64)?;
        aside(&folder, &entry.file, bytes)?;
        let sidecar = Path::new(&entry.file).with_extension("json");
        let name = sidecar.to_string_lossy();
        aside(&folder, &name, &serde_json::to_vec(entry)?)?;
        self.held.push(entry.clone());
        self.count();
        Ok(())
    }

    /// Says how much is there.
    fn count(&self) {
        let bytes = self.held.iter().map(|entry| entry.bytes).sum();
        self.ring_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Removes what is surplus once so many bytes more are there.
    fn make_room(&mut self, folder: &Path, more: u64) -> io::Result<()> {
        let disk = statvfs(folder)?;
        let reserve = disk.f_blocks / 100 * self.limits.free_percent;
        let spare = disk.f_bavail.saturating_sub(reserve).saturating_mul(disk.f_frsize);
        let held: u64 = self.held.iter().map(|entry| entry.bytes).sum();
        let room = (held + spare).saturating_sub(more);
        let limits = RingSettings {
            mebibytes: self.limits.mebibytes.saturating_sub(more.div_ceil(1 << 20)),
            ..self.limits.clone()
        };
        let now_ns = u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0);
        let gone = ring::surplus(&self.held, &limits, room, now_ns);
        for file in &gone {
            // What is listed first: no window is listed that cannot be replayed.
            let path = folder.join(file);
            let _ = std::fs::remove_file(path.with_extension("json"));
            let _ = std::fs::remove_file(path);
        }
        self.held.retain(|entry| !gone.contains(&entry.file));
        self.count();
        match more > spare + held {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    }

    fn line(&self, line: &str) -> io::Result<()> {
        let now = Timestamp::now();
        let path = self.folder.join(day_file(now));
        if !path.exists() {
            remove_old_days(&self.folder, self.limits.days, now);
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        // One call: what else is appended stands before or behind it.
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }
}

/// Writes a file whole, or not at all.
fn aside(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (path, torn) = (folder.join(name), folder.join(format!(".{name}.tmp")));
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&torn)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&torn, &path)?;
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&torn);
    }
    written
}

/// What a crash left half written.
fn remove_torn(ring: &Path) {
    for file in std::fs::read_dir(ring).into_iter().flatten().flatten() {
        let name = file.file_name();
        let name = name.to_string_lossy();
        let is_alone = name.ends_with(".hup") && !file.path().with_extension("json").exists();
        if name.starts_with('.') && name.ends_with(".tmp") || is_alone {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

fn lock(folder: &Path) -> Result<File, Failure> {
    let path = folder.join(LOCK);
    let system = |error: io::Error| Failure::file("lock", &path, &error);
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(system)?;
    // Who asks whether somebody watches has it for a moment, too.
    let is_locked = (0..LOCK_TRIES).any(|tried| {
        if tried > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
    if !is_locked {
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let what = format!("process {} watches already, with {}", text.trim(), folder.display());
        return Err(Failure::look(
            what,
            "One is enough; --state DIR gives another one its folder.",
        ));
    }
    let written = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    written.map_err(system)?;
    Ok(file)
}

/// The process that watches with this folder; none if nobody does.
pub(super) fn watcher(folder: &Path) -> Result<Option<u32>, Failure> {
    let path = folder.join(LOCK);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file("read", &path, &error)),
    };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| Failure::file("read", &path, &error))?;
    Ok(text.trim().parse().ok())
}

/// The state as it was written last; none if there is none that can be read.
pub(super) fn read_state(folder: &Path) -> Option<State> {
    serde_json::from_slice(&std::fs::read(folder.join(STATE)).ok()?).ok()
}

/// What was known at the end: the state, and what was said after it was written. A line that was torn is cut off.
fn recover(folder: &Path) -> State {
    let mut state = read_state(folder).unwrap_or_default();
    // Of two days, because a state may be of the evening before.
    for day in days(folder).iter().rev().take(2).rev() {
        for line in whole_lines(day).unwrap_or_default() {
            let read = serde_json::from_slice::<Numbered>(line.as_bytes()).ok();
            let Some(Numbered { sequence }) = read.filter(|it| it.sequence > state.sequence) else {
                continue;
            };
            state.sequence = sequence;
            // Lines about outputs have a number too, and nothing else to be known again.
            if let Some(event) =
                serde_json::from_slice::<Line>(line.as_bytes()).ok().and_then(Line::event)
            {
                state.over_time.said(&event);
            }
        }
    }
    state
}

/// The file of a day's findings, by its beginning.
fn day_file(at: Timestamp) -> String {
    format!("findings-{}.jsonl", at.strftime("%Y%m%d"))
}

/// The files of all days, the oldest first.
fn days(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_day = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("findings-") && name.ends_with(".jsonl")
    };
    let mut days: Vec<PathBuf> = files.map(|file| file.path()).filter(is_day).collect();
    days.sort();
    days
}

/// Removes the findings of days of which the ring has no window any more.
fn remove_old_days(folder: &Path, ring_days: u64, now: Timestamp) {
    let seconds = i64::try_from(ring_days.saturating_mul(24 * 3600)).unwrap_or(i64::MAX);
    // Days without end are before all times.
    let Ok(oldest) = Timestamp::from_second(now.as_second().saturating_sub(seconds)) else {
        return;
    };
    let oldest = folder.join(day_file(oldest));
    days(folder).into_iter().filter(|day| *day < oldest).for_each(|day| {
        let _ = std::fs::remove_file(day);
    });
}

fn whole_lines(path: &Path) -> io::Result<Vec<String>> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
        file.seek(io::SeekFrom::End(0))?;
    }
    Ok(String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::super::event_line::OutputLine;
    use super::*;
    use holdup_engine::over_time::{Event, Happened, Said};
    use holdup_reason::answer::{Report, SCHEMA};

    fn report() -> Report {
        serde_json::from_str(include_str!("../../tests/reports/file_lock.json")).expect("a report")
    }

    fn line(sequence: u64, event: Happened) -> Line {
        let report = report();
        let event = Event {
            event,
            key: "a".into(),
            at_unix_ns: 7,
            since_unix_ns: 5,
            until_unix_ns: 7,
            windows: 2,
            was: None,
            said: Said::of(&report.findings[0]),
        };
        Line::of(sequence, &event, report.host, None)
    }

    /// However full the disk is that the tests run on.
    fn settings(folder: &Path) -> Settings {
        let ring = RingSettings { free_percent: 0, ..RingSettings::default() };
        Settings { state: folder.join("state"), ring, ..Settings::default() }
    }

    #[test]
    fn a_state_goes_with_a_clock_that_is_set() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let mut state = State { looked_unix_ns: 9 * HOUR_NS as u64, ..State::default() };
        // The first window of all knows of no clock before it.
        assert_eq!(state.take_clock(HOUR_NS, "one"), None);
        state.boot_id = "one".into();
        assert_eq!(state.take_clock(HOUR_NS + 1_000_000, "one"), None);
        assert_eq!(state.take_clock(-6 * HOUR_NS, "one"), Some(-7 * HOUR_NS - 1_000_000));
        assert_eq!(state.looked_unix_ns, 2 * HOUR_NS as u64 - 1_000_000);
        assert_eq!(state.age_ns(HOUR_NS as u64), HOUR_NS as u64 - 1_000_000);
        // Of another start of the host its monotonic clock says nothing.
        assert_eq!(state.take_clock(HOUR_NS, "two"), None);
    }

    #[test]
    fn what_is_written_is_whole_and_a_second_watcher_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        assert!(matches!(watcher(&settings.state), Ok(None)));
        let (mut store, state) = Store::open(&settings).expect("opened");
        assert_eq!(state, State::default());
        assert_eq!(watcher(&settings.state).ok().flatten(), Some(std::process::id()));
        let second = Store::open(&settings).err().expect("refused").message();
        assert!(second.contains("watches already"), "{second}");
        let entry = Entry::of(&report(), 3);
        store.window(entry.clone(), Arc::from(&b"abc"[..]));
        store.line(&line(1, Happened::Began));
        store.state(&State { sequence: 1, ..State::default() });
        assert_eq!(store.failure(), None);
        assert!(store.close());
        assert_eq!(ring::list(&settings.state).expect("listed"), std::slice::from_ref(&entry));
        let recording = settings.state.join(ring::FOLDER).join(&entry.file);
        assert_eq!(std::fs::read(&recording).expect("read"), b"abc");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&recording), mode(&settings.state)), (0o600, 0o700));
        assert!(matches!(watcher(&settings.state), Ok(None)));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let of_all = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::create_dir(&settings.state).expect("made");
        std::fs::set_permissions(&settings.state, of_all).expect("set");
        let refused = Store::open(&settings).err().expect("refused").message();
        assert!(refused.contains("others may write"), "{refused}");
        let mode = std::fs::metadata(&settings.state).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }

    #[test]
    fn what_was_said_after_the_state_is_not_said_again_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let (mut store, mut state) = Store::open(&settings).expect("opened");
        store.state(&State::default());
        store.line(&line(1, Happened::Began));
        store.line(&OutputLine {
            schema: SCHEMA,
            sequence: 2,
            event: "output_failed",
            output: "mail",
            text: "it does not answer",
            at_unix_ns: 7,
            host: &report().host,
        });
        assert!(store.close());
        let find = || {
            let files = std::fs::read_dir(&settings.state).expect("there").flatten();
            let is = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
            files.map(|it| it.path()).find(is).expect("a day")
        };
        let mut torn = OpenOptions::new().append(true).open(find()).expect("opened");
        torn.write_all(b"{\"schema\":1,\"seq").expect("written");
        let ring = settings.state.join(ring::FOLDER);
        std::fs::write(ring.join(".x.hup.tmp"), b"half").expect("written");
        std::fs::write(ring.join("20261126T211410.250Z.hup"), b"no sidecar").expect("written");
        let (store, recovered) = Store::open(&settings).expect("opened");
        assert_eq!(recovered.sequence, 2, "a line about an output has its number, too");
        let open: Vec<&str> = recovered.over_time.open().map(|(key, _)| key).collect();
        assert_eq!(open, ["a"]);
        assert!(std::fs::read_to_string(find()).expect("read").ends_with("}\n"));
        assert_eq!(std::fs::read_dir(&ring).expect("there").count(), 0);
        state.over_time.said(&line(3, Happened::Ended).event().expect("an event"));
        assert!(state.over_time.open().next().is_none());
        drop(store);
    }

    #[test]
    fn findings_go_with_the_days_of_the_ring() {
        let folder = tempfile::tempdir().expect("a folder");
        let now: Timestamp = "2026-11-26T10:00:00Z".parse().expect("a time");
        let names = ["20251126", "20261118", "20261119", "20261126"];
        for name in names {
            std::fs::write(folder.path().join(format!("findings-{name}.jsonl")), "").expect("made");
        }
        std::fs::write(folder.path().join("findings-of-mine.txt"), "").expect("made");
        remove_old_days(folder.path(), u64::MAX, now);
        assert_eq!(days(folder.path()).len(), names.len());
        remove_old_days(folder.path(), 7, now);
        let left = names[2..].iter().map(|it| format!("findings-{it}.jsonl"));
        let left: Vec<PathBuf> = left.map(|it| folder.path().join(it)).collect();
        assert_eq!(days(folder.path()), left);
        assert!(folder.path().join("findings-of-mine.txt").exists());
    }

    #[test]
    fn a_disk_without_room_is_said_and_nothing_torn_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path());
        settings.ring.free_percent = 90;
        settings.ring.mebibytes = 0;
        let (mut store, _) = Store::open(&settings).expect("opened");
        store.window(Entry::of(&report(), 3), Arc::from(&b"abc"[..]));
        let begin = Instant::now();
        let why = loop {
            match store.failure() {
                Some(why) => break Some(why),
                None if begin.elapsed() > Duration::from_secs(5) => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        // Less than nine tenths of this disk are free, or the window is written: both are right, and nothing is half there.
        let listed = ring::list(&settings.state).expect("listed").len();
        assert_eq!(listed, usize::from(why.is_none()), "{why:?}");
        assert!(store.close());
    }
}
