//! Which file a process runs the code at an address of: the executable entries of /proc/PID/maps.
//!
//! Since Linux 6.11 the file answers questions (PROCMAP_QUERY), and is asked for the addresses that a stack has, which are in a
//! few mappings of the hundreds that a process has, or of the thousands if it has as many threads. Older kernels give
//! the text of all, once. A process may have as many mappings as it likes, so what is read is bounded. Must not: open what
//! is mapped (modules.rs), or ask the kernel itself (`holdup_system::procmap`).

use holdup_system::procmap::{Answer, Refused, executable_at, executable_from};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Bytes of the list that are read: some ten thousand lines.
const LIST_BYTES_MAX: usize = 1 << 20;

/// A stretch of executable memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Device and inode as the list has them; no inode: no file.
    pub file: (String, u64),
    /// The path as the list has it; empty of code that is made at run time.
    pub path: String,
    /// The last part of it.
    pub name: Arc<str>,
}

impl Mapping {
    /// Whether code was made there at run time.
    pub(crate) fn is_made(&self) -> bool {
        let is_nameless = self.file.1 == 0 && !self.path.starts_with("[v");
        is_nameless || self.path.starts_with("/memfd:")
    }
}

/// The executable memory of a process, as far as it was asked for.
pub(crate) struct Maps {
    /// None if it is read whole.
    asked: Option<File>,
    /// By address.
    known: Vec<Arc<Mapping>>,
}

impl Maps {
    /// Of a process; none if there was no time for all of a long text.
    pub(crate) fn open(pid: u32, has_time: &dyn Fn() -> bool) -> Option<Self> {
        let Ok(file) = File::open(format!("/proc/{pid}/maps")) else {
            return Some(Self { asked: None, known: Vec::new() });
        };
        match executable_from(&file, 0) {
            Ok(first) => {
                let known = first.map(|it| Arc::new(of_answer(it))).into_iter().collect();
                Some(Self { asked: Some(file), known })
            }
            Err(Refused) => {
                let known = read_whole(file, has_time)?.into_iter().map(Arc::new).collect();
                Some(Self { asked: None, known })
            }
        }
    }

    /// The mapping that an address is in.
    pub(crate) fn at(&mut self, address: u64) -> Option<Arc<Mapping>> {
        let after = self.known.partition_point(|mapping| mapping.start <= address);
        let before = after.checked_sub(1).map(|at| &self.known[at]);
        if let Some(known) = before.filter(|mapping| address < mapping.end) {
            return Some(Arc::clone(known));
        }
        let found = Arc::new(of_answer(executable_at(self.asked.as_ref()?, address).ok()??));
        self.known.insert(after, Arc::clone(&found));
        Some(found)
    }

    /// Those that are known by now.
    pub(crate) fn known(&self) -> &[Arc<Mapping>] {
        &self.known
    }
}

/// All executable memory of a process that the list has in its first part.
pub(crate) fn executable(pid: u32) -> Vec<Mapping> {
    let file = File::open(format!("/proc/{pid}/maps"));
    file.ok().and_then(|file| read_whole(file, &|| true)).unwrap_or_default()
}

/// The text of all; none if there was no time for it.
fn read_whole(mut file: File, has_time: &dyn Fn() -> bool) -> Option<Vec<Mapping>> {
    const PIECE_BYTES: usize = 16 << 10;
    let (mut text, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    while text.len() < LIST_BYTES_MAX {
        if !has_time() {
            return None;
        }
        // What was read before an error is as good as all of it.
        match file.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => text.extend_from_slice(&piece[..count]),
        }
    }
    Some(parse(&String::from_utf8_lossy(&text)))
}

fn of_answer(answer: Answer) -> Mapping {
    let device = format!("{:02x}:{:02x}", answer.device.0, answer.device.1);
    let place = (answer.start, answer.end, answer.offset);
    mapping(place, (device, answer.inode), &answer.path)
}

fn mapping((start, end, offset): (u64, u64, u64), file: (String, u64), path: &str) -> Mapping {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_string();
    let name = path.rsplit('/').next().unwrap_or_default().into();
    Mapping { start, end, offset, file, path, name }
}

fn parse(text: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = text.lines().filter_map(line).collect();
    all.sort_by_key(|mapping| mapping.start);
    all
}

/// `55d0-55e0 r-xp 00001000 fe:01 1234    /usr/bin/x (deleted)`
fn line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (range, rights) = (words.next()?, words.next()?);
    if rights.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let (offset, device, inode) = (words.next()?, words.next()?, words.next()?);
    let path = words.next().unwrap_or_default().trim_start();
    let place = (hex(start)?, hex(end)?, hex(offset)?);
    Some(mapping(place, (device.to_string(), inode.parse().ok()?), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_lines_are_read_and_found_by_address() {
        let text = "\
7f0000-7f1000 r--p 00000000 fe:01 12   /usr/lib/libc.so.6
7f1000-7f3000 r-xp 00001000 fe:01 12   /usr/lib/libc.so.6
400000-401000 r-xp 00000000 00:00 0 
500000-501000 r-xp 00002000 fe:01 9 /opt/a b (deleted)
garbage
7ffd-zz r-xp 0 0 0
";
        let all = parse(text);
        let names: Vec<&str> = all.iter().map(|mapping| &*mapping.name).collect();
        assert_eq!(names, ["", "a b", "libc.so.6"]);
        assert_eq!(all[2].file, ("fe:01".to_string(), 12));
        assert_eq!(all[0].path, "");
        let mut maps = Maps { asked: None, known: all.into_iter().map(Arc::new).collect() };
        assert_eq!(maps.at(0x7f2fff).map(|it| it.start), Some(0x7f1000));
        assert_eq!((maps.at(0x7f3000), maps.at(0x3fffff)), (None, None));
    }

    #[test]
    fn asked_for_and_read_are_the_same() {
        let pid = std::process::id();
        let file = || File::open(format!("/proc/{pid}/maps")).unwrap();
        let read = read_whole(file(), &|| true).unwrap();
        let mut asked = Maps::open(pid, &|| true).unwrap();
        // Other tests' threads map and unmap meanwhile, but no files.
        for mapping in read.iter().filter(|mapping| mapping.file.1 != 0) {
            for address in [mapping.end - 1, mapping.start] {
                assert_eq!(asked.at(address).as_deref(), Some(mapping));
            }
        }
        assert_eq!(asked.at(8), None);
        assert!(read_whole(file(), &|| false).is_none(), "no time");
    }
}
