//! A store as slow as it is told: a FUSE file system whose replies are timed.
//!
//! Under a loop device it is a disk of any latency, tail, rate and credit; mounted as such it is a
//! file system whose daemon is slow or stuck. The session thread only reads requests and sets a due
//! time; one other thread replies in order of due time, so that requests overlap as on a real
//! device. The settings are a file of JSON, read anew when it changes; requests that are pending
//! then are re-timed, so that a stuck store can be freed. Rejected: sleeping in the request handler
//! (sixteen callers would share one slot), and a settings pipe (its reader would be one more wait).
//!
//! The data lie in untouched memory of this process and end with it.

use crate::load::{Load, Options};
use anyhow::{Context, Result};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[("slow-store", Load::Pairs(slow_store))];

/// How slow it is. All zero: as quick as FUSE is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Service time of a request, microseconds.
    pub latency_us: f64,
    /// Share of requests that take `tail_us` instead.
    pub tail_share: f64,
    /// See `tail_share`.
    pub tail_us: f64,
    /// Requests per second; 0 for no limit.
    pub ops_per_second: f64,
    /// Requests that may go at once before the rate binds.
    pub credit_ops: f64,
    /// Bytes per second; 0 for no limit.
    pub bytes_per_second: f64,
    /// Requests served at the same time; 0 for any number.
    pub parallel: usize,
    /// Share of reads that fail with EIO.
    pub error_share: f64,
    /// Nothing is answered at all.
    pub stuck: bool,
}

enum Reply {
    Data(ReplyData, usize, usize, usize),
    Written(ReplyWrite, u32),
    Empty(ReplyEmpty),
}

struct Pending {
    due: Option<Instant>,
    fails: bool,
    reply: Reply,
}

#[derive(Default)]
struct Queue {
    settings: Settings,
    pending: Vec<Pending>,
    /// When the operations bucket and the bytes bucket are empty again.
    operations_until: Option<Instant>,
    bytes_until: Option<Instant>,
    /// When each of `parallel` servers is free.
    servers: Vec<Instant>,
}

impl Queue {
    /// When a request of that many bytes, arriving now, is answered.
    fn due(&mut self, now: Instant, bytes: usize, chance: f64) -> Option<Instant> {
        let s = self.settings;
        if s.stuck {
            return None;
        }
        let mut start = now;
        if s.ops_per_second > 0.0 {
            let gap = Duration::from_secs_f64(1.0 / s.ops_per_second);
            let credit = gap.mul_f64(s.credit_ops.max(0.0));
            let until = self.operations_until.map_or(now, |u| u.max(now)) + gap;
            self.operations_until = Some(until);
            start = start.max(until.checked_sub(credit + gap).unwrap_or(now));
        }
        if s.bytes_per_second > 0.0 {
            let begin = self.bytes_until.map_or(now, |u| u.max(now));
            let end = begin + Duration::from_secs_f64(bytes as f64 / s.bytes_per_second);
            self.bytes_until = Some(end);
            start = start.max(end);
        }
        let service = Duration::from_secs_f64(
            if chance < s.tail_share { s.tail_us } else { s.latency_us } / 1e6,
        );
        if s.parallel > 0 {
            self.servers.resize(s.parallel, now);
            if let Some(server) = self.servers.iter_mut().min() {
                *server = (*server).max(start) + service;
                return Some(*server);
            }
        }
        Some(start + service)
    }
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    data: Mutex<Vec<Vec<u8>>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn submit(&self, bytes: usize, may_fail: bool, reply: Reply) {
        let mut queue = held(&self.queue);
        let due = queue.due(Instant::now(), bytes, fastrand::f64());
        let fails = may_fail && fastrand::f64() < queue.settings.error_share;
        queue.pending.push(Pending { due, fails, reply });
        self.wake.notify_one();
    }

    /// Replies as requests fall due, for ever.
    fn serve(&self) {
        let mut queue = held(&self.queue);
        loop {
            let now = Instant::now();
            let mut at = 0;
            let mut ready = Vec::new();
            while at < queue.pending.len() {
                if queue.pending[at].due.is_some_and(|due| due <= now) {
                    ready.push(queue.pending.remove(at));
                } else {
                    at += 1;
                }
            }
            if !ready.is_empty() {
                drop(queue);
                ready.sort_by_key(|p| p.due);
                ready.into_iter().for_each(|p| self.answer(p));
                queue = held(&self.queue);
                continue;
            }
            let next = queue.pending.iter().filter_map(|p| p.due).min();
            queue = match next {
                Some(due) => {
                    let left = due.saturating_duration_since(now);
                    self.wake.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn answer(&self, pending: Pending) {
        match pending.reply {
            Reply::Data(reply, ..) if pending.fails => reply.error(Errno::EIO),
            Reply::Data(reply, file, offset, size) => {
                let data = held(&self.data);
                let bytes = data.get(file).map_or(&[][..], Vec::as_slice);
                let begin = offset.min(bytes.len());
                reply.data(&bytes[begin..(begin + size).min(bytes.len())]);
            }
            Reply::Written(reply, size) => reply.written(size),
            Reply::Empty(reply) => reply.ok(),
        }
    }

    /// Takes new settings; what is pending is timed anew, from now.
    fn set(&self, settings: Settings) {
        let mut queue = held(&self.queue);
        let pending = std::mem::take(&mut queue.pending);
        *queue = Queue { settings, ..Queue::default() };
        let now = Instant::now();
        for mut one in pending {
            one.due = queue.due(now, 0, 1.0);
            queue.pending.push(one);
        }
        self.wake.notify_one();
    }
}

struct Store {
    shared: Arc<Shared>,
    names: Vec<String>,
    size: u64,
}

/// Names and sizes never change while it is mounted.
const FOR_EVER: Duration = Duration::from_secs(3600);

impl Store {
    fn attributes(&self, ino: u64) -> Option<FileAttr> {
        let directory = ino == 1;
        if ino == 0 || ino > self.names.len() as u64 + 1 {
            return None;
        }
        let size = if directory { 0 } else { self.size };
        Some(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        })
    }
}

fn file_of(ino: INodeNo) -> usize {
    (u64::from(ino) as usize).wrapping_sub(2)
}

impl Filesystem for Store {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without it one direct request at a time per file.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).ok();
        config.set_max_background(256).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = self.names.iter().position(|n| OsStr::new(n) == name).map(|at| at as u64 + 2);
        match ino.and_then(|ino| self.attributes(ino)) {
            Some(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.into()) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the trait's signature")]
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.attributes(ino.into()) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let reply = Reply::Data(reply, file_of(ino), offset as usize, size as usize);
        self.shared.submit(size as usize, true, reply);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if let Some(file) = held(&self.shared.data).get_mut(file_of(ino)) {
            let begin = (offset as usize).min(file.len());
            let end = (begin + bytes.len()).min(file.len());
            file[begin..end].copy_from_slice(&bytes[..end - begin]);
        }
        self.shared.submit(bytes.len(), false, Reply::Written(reply, bytes.len() as u32));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.shared.submit(0, false, Reply::Empty(reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names =
            [".", ".."].into_iter().chain(self.names.iter().map(String::as_str)).enumerate();
        for (at, name) in names.skip(offset as usize) {
            let (ino, kind) =
                if at < 2 { (1, FileType::Directory) } else { (at as u64, FileType::RegularFile) };
            if reply.add(INodeNo(ino), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

/// `--mount DIR --settings FILE --names a,b --mib SIZE-OF-EACH`.
fn slow_store(options: &Options) -> Result<()> {
    let mount = PathBuf::from(options.text("mount")?);
    let settings = PathBuf::from(options.text("settings")?);
    let names: Vec<String> = options.text("names")?.split(',').map(String::from).collect();
    let size = options.whole("mib", 64)? << 20;
    let data = names.iter().map(|_| vec![0_u8; size as usize]).collect();
    let queue = Queue { settings: read_settings(&settings)?, ..Queue::default() };
    let shared =
        Arc::new(Shared { queue: Mutex::new(queue), wake: Condvar::new(), data: Mutex::new(data) });
    let server = Arc::clone(&shared);
    std::thread::spawn(move || server.serve());
    let watcher = Arc::clone(&shared);
    std::thread::spawn(move || watch_settings(&watcher, &settings));
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("store".into())];
    fuser::mount(Store { shared, names, size }, &mount, &config)
        .with_context(|| mount.display().to_string())
}

fn read_settings(path: &Path) -> Result<Settings> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn watch_settings(shared: &Shared, path: &Path) {
    let mut last = read_settings(path).unwrap_or_default();
    loop {
        std::thread::sleep(Duration::from_millis(25));
        // A file that is being written is read again the next time.
        if let Ok(now) = read_settings(path)
            && now != last
        {
            shared.set(now);
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(settings: Settings, count: usize, bytes: usize) -> Vec<f64> {
        let mut queue = Queue { settings, ..Queue::default() };
        let now = Instant::now();
        (0..count)
            .filter_map(|_| queue.due(now, bytes, 1.0))
            .map(|due| due.duration_since(now).as_secs_f64())
            .collect()
    }

    #[test]
    fn a_rate_spaces_requests_once_the_credit_is_gone() {
        let dues =
            dues(Settings { ops_per_second: 100.0, credit_ops: 5.0, ..Settings::default() }, 15, 0);
        assert!(dues[4] < 0.001, "{dues:?}");
        assert!((dues[14] - 0.09).abs() < 0.002, "{dues:?}");
    }

    #[test]
    fn servers_bound_what_is_served_at_once() {
        let dues = dues(Settings { latency_us: 4000.0, parallel: 4, ..Settings::default() }, 32, 0);
        assert!((dues[31] - 0.032).abs() < 0.001, "{dues:?}");
    }

    #[test]
    fn bytes_take_their_time_and_a_stuck_store_answers_never() {
        let slow = dues(Settings { bytes_per_second: 1e6, ..Settings::default() }, 2, 500_000);
        assert!((slow[1] - 1.0).abs() < 0.001, "{slow:?}");
        assert!(dues(Settings { stuck: true, ..Settings::default() }, 1, 0).is_empty());
    }
}
