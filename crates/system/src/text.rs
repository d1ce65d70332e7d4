//! Small pieces of reading and parsing that the readers share.
//!
//! Works on bytes, because names in these files belong to anybody: rejected were `read_to_string`
//! and `lines()`, which refuse a whole file for one byte that is not UTF-8. Nothing here stats a
//! file or follows a link on purpose, and no small file is read without a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Longest small file that is read whole; the rest of a longer one is cut.
const SMALL: usize = 1 << 20;

/// The whole of a small file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    // Nearly all of them fit, so that there are two reads: one of all, and one that tells the end.
    let mut bytes = vec![0; 4096];
    let mut filled = 0;
    while filled < SMALL {
        if filled == bytes.len() {
            bytes.resize((2 * filled).min(SMALL), 0);
        }
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// A small file as text without the white space around it; bytes that are not UTF-8 are replaced.
pub fn read_text(path: &Path) -> io::Result<String> {
    Ok(lossy(read(path)?.trim_ascii()))
}

/// A file with one number.
pub fn read_number(path: &Path) -> Option<u64> {
    number(&read(path).ok()?)
}

/// Text from bytes, with replacement characters.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A decimal number with white space around it; `None` for anything else (`max`, `-1`).
pub fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes.trim_ascii()).ok()?.parse().ok()
}

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The lines of a file.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The number behind a key in a file of `key value` lines (`cpu.stat`, `memory.events`).
pub fn keyed(bytes: &[u8], key: &str) -> Option<u64> {
    lines(bytes).find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?;
        let value = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b":"))?;
        number(words(value).next()?)
    })
}

/// The lines of a file such as meminfo (`Dirty:   12 kB`) or vmstat (`pgfault 12`): keys and their numbers.
pub fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    lines(bytes).filter_map(|line| {
        let mut words = words(line);
        let key = words.next()?;
        Some((key.strip_suffix(b":").unwrap_or(key), number(words.next()?)?))
    })
}

/// A list of CPUs such as `0-2,5`; empty when it is not one.
pub fn cpu_list(text: &str) -> Vec<u32> {
    const CPUS_MAX: u32 = 8192;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if last < CPUS_MAX => cpus.extend(first..=last),
            _ => return Vec::new(),
        }
    }
    cpus
}

/// Names in a folder; empty when it cannot be read. Never follows or stats an entry.
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Names in a folder that are numbers, in order: processes, threads, descriptors.
pub fn ids(folder: &Path) -> io::Result<Vec<u32>> {
    first_ids(folder, usize::MAX)
}

/// The first of them as the folder lists them, up to `max`. The kernel makes an inode for each thread that it lists:
/// who needs some of a process's threads must not ask for all.
pub fn first_ids(folder: &Path, max: usize) -> io::Result<Vec<u32>> {
    let mut ids: Vec<u32> = std::fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .take(max)
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(""), [] as [u32; 0]);
        assert_eq!(cpu_list("0-4294967295"), [] as [u32; 0]);
        assert_eq!(cpu_list("3-x"), [] as [u32; 0]);
    }

    #[test]
    fn keyed_matches_whole_keys_only() {
        let file = b"nr_periods_x 9\nnr_periods 7\nVmRSS:\t  12 kB\n";
        assert_eq!(keyed(file, "nr_periods"), Some(7));
        assert_eq!(keyed(file, "VmRSS"), Some(12));
        assert_eq!(keyed(file, "nr"), None);
    }

    #[test]
    fn pairs_of_both_kinds() {
        let found: Vec<_> = pairs(b"Dirty:  12 kB\nodd\npgfault 7\nx -1\n").collect();
        assert_eq!(found, [(&b"Dirty"[..], 12), (&b"pgfault"[..], 7)]);
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b" 12\n"), Some(12));
        assert_eq!(number(b"max\n"), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b"\xff"), None);
    }
}
