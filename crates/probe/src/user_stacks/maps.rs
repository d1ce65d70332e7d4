//! Which files a process runs code of, and where: the executable lines of /proc/PID/maps.
//!
//! Pure but for the read; a process may have as many mappings as it likes, so what is read of the list is bounded. Must
//! not: open what is mapped (files.rs).

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Bytes of the list that are read: some ten thousand lines.
const LIST_BYTES_MAX: usize = 1 << 20;

/// A stretch of executable memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
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

/// The executable memory of a process, by address; none if there was no time for all of it, which a process with very many
/// mappings may take.
pub fn executable(pid: u32, has_time: &dyn Fn() -> bool) -> Option<Vec<Mapping>> {
    const PIECE_BYTES: usize = 16 << 10;
    let Ok(mut file) = File::open(format!("/proc/{pid}/maps")) else { return Some(Vec::new()) };
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

/// The mapping that an address is in.
pub fn at(mappings: &[Mapping], address: u64) -> Option<usize> {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    let at = after.checked_sub(1)?;
    (address < mappings[at].end).then_some(at)
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
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        file: (device.to_string(), inode.parse().ok()?),
        path: path.to_string(),
        name: path.rsplit('/').next().unwrap_or_default().into(),
    })
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
        assert_eq!(at(&all, 0x7f2fff), Some(2));
        assert_eq!(at(&all, 0x7f3000), None);
        assert_eq!(at(&all, 0x3fffff), None);
        assert_eq!(all[0].path, "");
    }
}
