//! What can be used up and nobody else reads: space and inodes of file systems, descriptors of processes. At the end of each window of a
//! look that goes on; what there was before is the engine's.
//!
//! Space: statfs of local file systems, each once, by a helper that may be given up (a disk may hang), and never of a file system
//! whose answer somebody else gives (NFS, FUSE). Who has files open for writing there is looked for only if it grew within the window so
//! that it ends within a day: the open files of those who ran, by their links and fdinfo, which touch no file system.
//! Descriptors: of the processes that ran in the window, no walk of its own; their number is the size of /proc/PID/fd from 6.2 on, and
//! counted before. A process that has few of them costs that one stat.
//!
//! Must not: stat a file, or say that something ends. Rejected: the iterator of all open files (it walks what did not run); /proc/PID/io (what
//! was written since the process began, wherever).
//!
//! Edit together: reason/src/facts/usage.rs.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, guard, mounts, text};
use holdup_reason::facts::*;
use rustix::fs::{StatVfs, major, minor, stat, statvfs};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Local file systems, whose figures are in memory.
const LOCAL: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"];
/// Of these, those that say how many inodes there may be.
const WITH_INODES: [&str; 4] = ["ext2", "ext3", "ext4", "tmpfs"];
/// File systems that are read.
const FILE_SYSTEMS_MAX: usize = 64;
/// A process with fewer descriptors is asked for no limit.
const DESCRIPTORS_MIN: u64 = 32;
/// Processes that are asked for descriptors.
const PROCESSES_MAX: usize = 500;
/// Processes whose open files are looked at, and files of each, where a file system fills.
const WRITERS_MAX: usize = 200;
/// See [`WRITERS_MAX`].
const FILES_MAX: usize = 256;
/// Open files that are reported.
const WRITERS_REPORTED: usize = 200;
/// A file system that has room for longer at the window's rate is not looked into.
const DAY_SECONDS: f64 = 86_400.0;

/// See the head of the file.
pub(super) struct Usages {
    mounts: Vec<Mount>,
    /// File systems as the window began, which is as the one before ended.
    before: Vec<Usage>,
}

impl Reader for Usages {
    fn open(_: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let mounts = local(&opening.settings.mounts);
        Ok(Self { mounts, before: Vec::new() })
    }

    fn begin(&mut self, look: &mut Look) -> Result<(), SourceError> {
        if look.goes_on && self.before.is_empty() {
            self.before = file_systems(&look.roots, &self.mounts);
        }
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        if !look.goes_on {
            return Ok(());
        }
        let seconds = look.last.end_ns.saturating_sub(look.window.begin_ns) as f64 / 1e9;
        let ran = ran(facts);
        let at_ns = now();
        let mut all = file_systems(&look.roots, &self.mounts);
        let before = std::mem::replace(&mut self.before, all.clone());
        let mut open = None;
        for usage in all.iter_mut().filter(|usage| usage.of == Resource::Space) {
            let is_it = |it: &&Usage| it.of == usage.of && it.dev == usage.dev;
            let before = before.iter().find(is_it).map_or(usage.used, |it| it.used);
            let grown = usage.used.saturating_sub(before) as f64;
            let room = usage.limit.saturating_sub(usage.used) as f64;
            if grown > 0.0 && room * seconds < DAY_SECONDS * grown {
                let open = open.get_or_insert_with(|| open_files(&look.roots, &ran));
                for file in open.iter().filter(|file| file.dev == usage.dev) {
                    usage.writers.push(file.process.clone());
                    usage.files.push(file.path.clone());
                    usage.positions.push(file.position);
                }
            }
        }
        let of = |thread: &ThreadRef| descriptors(&look.roots, thread);
        all.extend(ran.iter().take(PROCESSES_MAX).filter_map(of));
        facts.extend(all.into_iter().map(|usage| Fact { at_ns, body: Body::Usage(usage) }));
        Ok(())
    }
}

/// Local file systems that can be written, each at the mount that is seen.
fn local(all: &[Mount]) -> Vec<Mount> {
    let is_local = |mount: &&Mount| {
        let may_write = !mount.options.split(',').any(|option| option == "ro");
        // Another file system may be mounted over it: its mount point then answers for a stranger.
        let is_seen = || mounts::mount_of(all, &mount.path).is_some_and(|top| top.dev == mount.dev);
        LOCAL.contains(&mount.fs_type.as_str()) && may_write && is_seen()
    };
    let rank = |mount: &Mount| (mount.root != "/", mount.path.len());
    let mut found: Vec<Mount> = Vec::new();
    for mount in all.iter().filter(is_local) {
        match found.iter_mut().find(|known| known.dev == mount.dev) {
            Some(known) if rank(mount) < rank(known) => known.clone_from(mount),
            Some(_) => {}
            None => found.push(mount.clone()),
        }
    }
    found.truncate(FILE_SYSTEMS_MAX);
    found
}

fn file_systems(roots: &Roots, mounts: &[Mount]) -> Vec<Usage> {
    let place = |mount: &Mount| Place {
        // What only holdup itself sees is not below the root of the host.
        paths: [roots.resolve(&mount.path), PathBuf::from(&mount.path)],
        // Its files have a device of their own for each subvolume.
        dev: (mount.fs_type != "btrfs").then_some(mount.dev),
    };
    let read = guard::map(mounts.iter().map(place).collect(), Place::read);
    let mut all = Vec::new();
    for (mount, stat) in mounts.iter().zip(read) {
        let Some(stat) = stat.flatten().filter(|stat| stat.f_blocks > 0) else { continue };
        let (dev, path) = (mount.dev, mount.path.clone());
        let usage = |of, used, room| Usage {
            of,
            dev,
            path: path.clone(),
            used,
            limit: room + used,
            ..Usage::default()
        };
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let used = bytes(stat.f_blocks.saturating_sub(stat.f_bfree));
        all.push(usage(Resource::Space, used, bytes(stat.f_bavail)));
        if stat.f_files > 0 && WITH_INODES.contains(&mount.fs_type.as_str()) {
            let used = stat.f_files.saturating_sub(stat.f_ffree);
            all.push(usage(Resource::Inodes, used, stat.f_favail));
        }
    }
    all
}

/// Where a file system is looked for, and its device.
struct Place {
    paths: [PathBuf; 2],
    dev: Option<DeviceNumber>,
}

impl Place {
    /// Its figures; none where another file system answers.
    fn read(&self) -> Option<StatVfs> {
        let is_it = |path: &&PathBuf| {
            let Some(dev) = self.dev else { return true };
            let seen = stat(*path).map(|it| (major(it.st_dev), minor(it.st_dev)));
            seen == Ok((dev.major, dev.minor))
        };
        statvfs(self.paths.iter().find(is_it)?).ok()
    }
}

/// Who ran in the window: a thread of each process, the main one if it ran. In the order of the walk, where those that have been there
/// for long are first.
fn ran(facts: &[Fact]) -> Vec<ThreadRef> {
    let mut at: BTreeMap<u32, u32> = BTreeMap::new();
    let mut all: Vec<ThreadRef> = Vec::new();
    for fact in facts {
        let Body::ThreadTime(ThreadTime { thread, run_ns, .. }) = &fact.body else { continue };
        if *run_ns == 0 || thread.pid == 0 {
            continue;
        }
        let known = *at.entry(thread.pid).or_insert(all.len() as u32) as usize;
        match all.get_mut(known) {
            None => all.push(thread.clone()),
            Some(known) if thread.tid == thread.pid => known.clone_from(thread),
            Some(_) => {}
        }
    }
    all
}

fn descriptors(roots: &Roots, thread: &ThreadRef) -> Option<Usage> {
    let folder = roots.process(thread.pid, "fd");
    let open = match std::fs::metadata(&folder).ok()?.len() {
        0 => text::ids(&folder).ok()?.len() as u64,
        open => open,
    };
    if open < DESCRIPTORS_MIN {
        return None;
    }
    let limit = soft_limit(&text::read(&roots.process(thread.pid, "limits")).ok()?)?;
    let process = Some(ThreadRef { tid: thread.pid, ..thread.clone() });
    Some(Usage { of: Resource::Descriptors, process, used: open, limit, ..Usage::default() })
}

/// The soft limit of `Max open files            1024                 1048576              files`.
fn soft_limit(bytes: &[u8]) -> Option<u64> {
    let line = text::lines(bytes).find_map(|line| line.strip_prefix(b"Max open files"))?;
    text::words(line).next().and_then(text::number)
}

/// A file that is open for writing.
struct OpenFile {
    dev: DeviceNumber,
    process: ThreadRef,
    path: String,
    position: u64,
}

/// Files that are open for writing, of those who ran, the latest begun first: what fills a disk is seldom what has been there all along. So many of each
/// file system.
fn open_files(roots: &Roots, ran: &[ThreadRef]) -> Vec<OpenFile> {
    let mut found = Vec::new();
    ran.iter().rev().take(WRITERS_MAX).for_each(|thread| writes(roots, thread, &mut found));
    let mut of_each: BTreeMap<DeviceNumber, usize> = BTreeMap::new();
    found.retain(|file| {
        let count = of_each.entry(file.dev).or_default();
        *count += 1;
        *count <= WRITERS_REPORTED
    });
    found
}

fn writes(roots: &Roots, thread: &ThreadRef, found: &mut Vec<OpenFile>) {
    let pid = thread.pid;
    let folder = roots.process(pid, "fd");
    let mut seen = None;
    for fd in text::first_ids(&folder, FILES_MAX).unwrap_or_default() {
        let Ok(link) = std::fs::read_link(folder.join(fd.to_string())) else { continue };
        let path = link.to_string_lossy();
        // Pipes and sockets have no path, and what is in these is no file.
        if !path.starts_with('/') || path.starts_with("/dev/") || path.starts_with("/proc/") {
            continue;
        }
        let info = text::read(&roots.process(pid, "fdinfo").join(fd.to_string()));
        let Some(position) = info.ok().and_then(|info| written_to(&info)) else { continue };
        let mounts = seen
            .get_or_insert_with(|| mounts::mounts_of(roots, &pid.to_string()).unwrap_or_default());
        let Some(mount) = mounts::mount_of(mounts, &path) else { continue };
        let process = ThreadRef { tid: pid, ..thread.clone() };
        found.push(OpenFile { dev: mount.dev, process, path: path.into_owned(), position });
    }
}

/// `pos:` of an fdinfo whose `flags:` (octal) let it write.
fn written_to(info: &[u8]) -> Option<u64> {
    let value = |key: &[u8]| text::lines(info).find_map(|line| line.strip_prefix(key));
    let flags = text::lossy(value(b"flags:")?.trim_ascii());
    let flags = i32::from_str_radix(&flags, 8).ok()?;
    let may_write = flags & libc::O_ACCMODE != libc::O_RDONLY;
    may_write.then(|| text::number(value(b"pos:")?.trim_ascii()))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn own() -> ThreadRef {
        let pid = std::process::id();
        ThreadRef { tid: pid, pid, start_ns: 1, comm: "own".into() }
    }

    #[test]
    fn the_limit_is_the_soft_one() {
        let line = b"Limit  Soft  Hard\nMax open files            1024                 1048576              files\n";
        assert_eq!(soft_limit(line), Some(1024));
        assert_eq!(
            soft_limit(
                b"Max open files            unlimited            unlimited            files\n"
            ),
            None
        );
    }

    #[test]
    fn only_what_may_be_written_is_a_writer() {
        assert_eq!(written_to(b"pos:\t4096\nflags:\t0100001\nmnt_id:\t29\n"), Some(4096));
        assert_eq!(written_to(b"pos:\t4096\nflags:\t0100000\nmnt_id:\t29\n"), None);
        assert_eq!(written_to(b"pos:\t0\nflags:\t02\n"), Some(0));
        assert_eq!(written_to(b"nothing"), None);
    }

    #[test]
    fn file_systems_of_others_those_that_cannot_be_written_and_hidden_ones_are_left_out() {
        let mount = |path: &str, fs_type: &str, options: &str, minor| Mount {
            path: path.into(),
            root: "/".into(),
            fs_type: fs_type.into(),
            options: options.into(),
            dev: DeviceNumber { major: 0, minor },
            ..Mount::default()
        };
        let all = [
            mount("/", "ext4", "rw", 1),
            mount("/data", "nfs4", "rw", 2),
            mount("/image", "ext4", "ro,relatime", 3),
            mount("/bind", "ext4", "rw", 1),
            mount("/tmp", "tmpfs", "rw", 4),
            mount("/tmp", "fuse.sshfs", "rw", 5),
            mount("/run", "tmpfs", "rw,nosuid", 6),
        ];
        let paths: Vec<String> = local(&all).into_iter().map(|mount| mount.path).collect();
        assert_eq!(paths, ["/", "/run"]);
    }

    #[test]
    fn descriptors_of_ones_own_and_a_file_that_grows_are_seen() {
        let roots = Roots::default();
        let name = format!("holdup-usages-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let files: Vec<std::fs::File> = (0..40)
            .map(|at| std::fs::File::create(folder.join(at.to_string())).expect("a file"))
            .collect();
        (&files[7]).write_all(&[1; 12_345]).expect("written");
        let usage = descriptors(&roots, &own()).expect("many are open");
        assert!(usage.used >= 40 && usage.limit >= usage.used, "{usage:?}");
        let mut seen = Vec::new();
        writes(&roots, &own(), &mut seen);
        let path = folder.join("7").display().to_string();
        std::fs::remove_dir_all(&folder).expect("removed");
        let writer = seen.iter().find(|it| it.path == path).expect("it is open");
        assert_eq!(writer.position, 12_345);
    }

    #[test]
    fn a_file_system_says_what_is_used_of_what_there_may_be() {
        let own = stat("/").expect("a root");
        let dev = DeviceNumber { major: major(own.st_dev), minor: minor(own.st_dev) };
        let mount = Mount { dev, path: "/".into(), fs_type: "ext4".into(), ..Mount::default() };
        let stranger =
            Mount { dev: DeviceNumber { major: dev.major, minor: dev.minor + 1 }, ..mount.clone() };
        assert_eq!(file_systems(&Roots::default(), &[stranger]), []);
        let read = file_systems(&Roots::default(), &[mount]);
        assert_eq!((read[0].of, read[0].path.as_str()), (Resource::Space, "/"));
        assert!(read[0].used > 0 && read[0].limit >= read[0].used, "{read:?}");
    }
}
