//! Shared anonymous memory that no process's resident set shows (story S4.4).
//!
//! `Shmem` in meminfo counts tmpfs files and shared segments alike. Only when it exceeds what the
//! mounted tmpfs file systems use by more than 64 MiB are the processes' maps searched for segments
//! that live on the kernel's internal tmpfs: shared mappings of /dev/zero, memfds, System V
//! segments, and files of /dev/shm (deleted ones count nowhere else).
//!
//! What a segment really occupies is st_blocks of /proc/PID/map_files/A-B; that file lies on the
//! kernel's own tmpfs, so stat cannot hang on a foreign file system. Maps and smaps take the
//! memory lock: processes with a thread in D are left out, and the guard stands behind. What tmpfs file systems
//! use is asked through the guard, too: the way to one of them may lead over a dead file system.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::Clock;
use crate::system::clock::now;
use crate::system::guard::{self, Behind};
use crate::system::stat::{may_read_memory, stats};
use crate::system::{Roots, is_refusal, mounts, refused_by, text};
use holdup_reason::facts::{Blind, Body, Fact, Mount, SharedSegment, ThreadRef};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Shared memory below this is not searched for, nor a segment below it.
const UNEXPLAINED_BYTES_MIN: u64 = 64 << 20;

/// Which segment: its device and inode as maps tells them.
type Key = (String, u64);

/// Segments, if there is enough unexplained shared memory on the host to look for them.
pub fn shared_segments(roots: &Roots) -> Vec<Body> {
    let unexplained = shmem_bytes(roots).saturating_sub(tmpfs_bytes(roots));
    if unexplained <= UNEXPLAINED_BYTES_MIN {
        return Vec::new();
    }
    search(roots)
}

/// Searched for as the look ends.
pub struct SharedSegments;

impl Reader for SharedSegments {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let read = shared_segments(&look.roots);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// The search itself, whatever meminfo says.
pub(super) fn search(roots: &Roots) -> Vec<Body> {
    let clock = Clock::now();
    let mut processes: Vec<ThreadRef> = Vec::new();
    let mut left_out = Vec::new();
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        let stats = stats(roots, pid);
        let Some(main) = stats.first().filter(|main| !main.kernel) else { continue };
        match may_read_memory(&stats) {
            true => processes.push(clock.thread_ref(main, pid)),
            false => left_out.extend((main.state != 'Z').then_some(pid)),
        }
    }
    let folders: Vec<PathBuf> = processes.iter().map(|p| roots.process(p.pid, "")).collect();
    // Where the first reading hangs the second is not tried.
    let behind =
        |(process, folder): (&ThreadRef, &PathBuf)| (Behind::Process(process.pid), folder.clone());
    let all = processes.iter().zip(&folders).map(behind).collect();
    let mut found = guard::map_behind(all, |folder| segments_of(folder));
    retain_large(&mut found);
    // smaps walks page tables and is dear: only processes that map a large segment pay for it.
    let dear: Vec<(Behind, (PathBuf, HashSet<Key>))> = (processes.iter().zip(folders))
        .zip(&found)
        .map(|((process, folder), found)| {
            let keys =
                found.iter().flatten().flatten().map(|segment| segment.key.clone()).collect();
            (Behind::Process(process.pid), (folder, keys))
        })
        .collect();
    let shares = guard::map_behind(dear, |(folder, keys)| match keys.is_empty() {
        true => HashMap::new(),
        false => shares_of(folder, keys).unwrap_or_default(),
    });
    let mut merged: BTreeMap<Key, SharedSegment> = BTreeMap::new();
    let mut refusals = Vec::new();
    for ((process, found), shares) in processes.into_iter().zip(found).zip(shares) {
        match &found {
            None => left_out.push(process.pid),
            Some(Err(error)) if is_refusal(error) => refusals.push(process.pid),
            Some(_) => {}
        }
        for one in found.into_iter().flatten().flatten() {
            let segment = merged.entry(one.key.clone()).or_default();
            segment.name = one.name;
            segment.ino = one.key.1;
            segment.size_bytes = segment.size_bytes.max(one.size_bytes);
            segment.allocated_bytes = segment.allocated_bytes.max(one.allocated_bytes);
            let share = shares.as_ref().and_then(|shares| shares.get(&one.key));
            segment.mapped_bytes = segment.mapped_bytes.saturating_add(share.copied().unwrap_or(0));
            segment.mapped_by.push(process.clone());
        }
    }
    let mut facts: Vec<Body> = merged.into_values().map(Body::SharedSegment).collect();
    let therefore = "the shared segments of those processes are unknown";
    facts.extend(refused_by("proc.maps", refusals, therefore));
    if !left_out.is_empty() {
        facts.push(Body::Blind(Blind {
            what: "proc.maps".into(),
            why: format!(
                "{} processes may hold their memory lock and were left out",
                left_out.len()
            ),
            therefore: "their shared segments are unknown".into(),
            pids: left_out,
            ..Blind::default()
        }));
    }
    facts
}

/// Without segments that are too small in every process to be what is searched for.
fn retain_large(found: &mut [Option<io::Result<Vec<Found>>>]) {
    let each = || found.iter().flatten().flatten().flatten();
    let large = |it: &&Found| it.size_bytes.max(it.allocated_bytes) > UNEXPLAINED_BYTES_MIN;
    let large: HashSet<Key> = each().filter(large).map(|it| it.key.clone()).collect();
    for of_process in found.iter_mut().flatten().flatten() {
        of_process.retain(|it| large.contains(&it.key));
    }
}

fn shmem_bytes(roots: &Roots) -> u64 {
    let meminfo = text::read(&roots.proc.join("meminfo")).unwrap_or_default();
    text::keyed(&meminfo, "Shmem").unwrap_or(0).saturating_mul(1024)
}

/// Space used on mounted tmpfs file systems, each counted once; those to which the way hangs are left out.
fn tmpfs_bytes(roots: &Roots) -> u64 {
    let mut seen = HashSet::new();
    let mounts = mounts::own_mounts(roots);
    let tmpfs = mounts.iter().filter(|mount| mount.fs_type == "tmpfs" && seen.insert(mount.dev));
    // Another file system may be mounted over it: its mount point then answers for a stranger.
    let open = tmpfs.filter(|mount| {
        mounts::mount_of(&mounts, &mount.path).is_some_and(|top| top.dev == mount.dev)
    });
    let of = |mount: &Mount| (Behind::Mount(mount.dev), roots.resolve(&mount.path));
    let used = guard::map_behind(open.map(of).collect(), used_bytes);
    used.into_iter().flatten().flatten().sum()
}

fn used_bytes(path: &PathBuf) -> Option<u64> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let stat = rustix::fs::statfs(path).ok()?;
    let is_tmpfs = stat.f_type as i64 == TMPFS_MAGIC;
    is_tmpfs.then(|| (stat.f_blocks - stat.f_bfree) * stat.f_bsize as u64)
}

struct Found {
    key: Key,
    name: String,
    size_bytes: u64,
    allocated_bytes: u64,
}

/// The shared segments that one process maps, each once.
fn segments_of(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found: BTreeMap<Key, Found> = BTreeMap::new();
    let file = File::open(folder.join("maps"))?;
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        let Some(area) = Area::parse(&line).filter(Area::is_segment) else { continue };
        let entry = found.entry(area.key()).or_insert_with(|| Found {
            key: area.key(),
            name: area.name.clone(),
            size_bytes: 0,
            allocated_bytes: std::fs::metadata(folder.join("map_files").join(&area.range))
                .map_or(0, |metadata| metadata.blocks() * 512),
        });
        entry.size_bytes = entry.size_bytes.saturating_add(area.bytes);
    }
    Ok(found.into_values().collect())
}

/// Proportional share of each wanted segment, from smaps.
fn shares_of(folder: &Path, wanted: &HashSet<Key>) -> Option<HashMap<Key, u64>> {
    let mut shares = HashMap::new();
    let mut current = None;
    let smaps = BufReader::new(File::open(folder.join("smaps")).ok()?);
    for line in smaps.split(b'\n').map_while(Result::ok) {
        // A key of smaps begins with a capital, an address does not.
        if !line.first().is_some_and(u8::is_ascii_uppercase) {
            let area = Area::parse(&line).map(|area| area.key());
            current = area.filter(|key| wanted.contains(key));
        } else if let (Some(key), Some(kib)) = (&current, text::keyed(&line, "Pss")) {
            let share: &mut u64 = shares.entry(key.clone()).or_insert(0);
            *share = share.saturating_add(kib.saturating_mul(1024));
        }
    }
    Some(shares)
}

/// A line of maps: `7f052ea9b000-7f05aba9b000 rw-s 00000000 00:01 1047 /dev/zero (deleted)`.
pub(super) struct Area {
    range: String,
    begin: u64,
    bytes: u64,
    pub(super) shared: bool,
    dev: String,
    pub(super) ino: u64,
    pub(super) name: String,
}

impl Area {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line = text::lossy(line);
        let mut rest = line.as_str();
        let mut word = || {
            rest = rest.trim_start();
            let end = rest.find(' ').unwrap_or(rest.len());
            let word;
            (word, rest) = rest.split_at(end);
            word
        };
        let (range, permissions, _offset, dev, ino) = (word(), word(), word(), word(), word());
        let (begin, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let begin = address(begin)?;
        Some(Self {
            begin,
            bytes: address(end)?.checked_sub(begin)?,
            range: range.into(),
            shared: permissions.ends_with('s'),
            dev: dev.into(),
            ino: ino.parse().ok()?,
            name: rest.trim_start().into(),
        })
    }

    /// Its file.
    pub(super) fn key(&self) -> Key {
        (self.dev.clone(), self.ino)
    }

    /// Whether an address lies in it.
    pub(super) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.begin).is_some_and(|offset| offset < self.bytes)
    }

    fn is_segment(&self) -> bool {
        const NAMES: [&str; 4] = ["/memfd:", "/SYSV", "/dev/shm/", "/dev/zero (deleted)"];
        self.shared && NAMES.iter().any(|name| self.name.starts_with(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas() {
        let zero = b"7f052ea9b000-7f05aba9b000 rw-s 00000000 00:01 1047      /dev/zero (deleted)";
        let area = Area::parse(zero).unwrap();
        assert_eq!((area.bytes, area.ino, &*area.dev), (2_097_152_000, 1047, "00:01"));
        assert!(area.is_segment());
        let private = b"7f05-7f06 rw-p 00000000 00:01 1047   /dev/zero (deleted)";
        assert!(!Area::parse(private).unwrap().is_segment());
        let device = b"7f05-7f06 rw-s 00000000 00:05 5   /dev/zero";
        assert!(!Area::parse(device).unwrap().is_segment());
        assert!(Area::parse(b"Pss:   12 kB").is_none());
        assert!(Area::parse(b"8-4 rw-s 0 00:05 5 /dev/zero").is_none());
    }
}
