//! Mounts of the initial namespace, from mountinfo (Documentation/filesystems/proc.rst, 3.5).
//!
//! Never touches a mount point: everything else that needs to know which file system a path lies
//! on compares it with these lines.

use super::{Roots, text};
use crate::view;
use holdup_reason::facts::{Blind, DeviceNumber, Mount};
use std::collections::HashSet;

/// Mounts as process 1 sees them, and those that only holdup itself sees, or the process through which it sees the host.
pub fn mounts(roots: &Roots) -> Result<Vec<Mount>, Blind> {
    let own = mounts_of(roots, &view::viewer(roots).to_string_lossy());
    let mut all = match (mounts_of(roots, "1"), &own) {
        (Ok(first), _) => first,
        (Err(_), Ok(_)) => Vec::new(),
        (Err(error), Err(_)) => {
            let therefore = "which disk a path lies on is unknown";
            return Err(super::blind("proc.mountinfo", &error, therefore));
        }
    };
    let known: HashSet<DeviceNumber> = all.iter().map(|mount| mount.dev).collect();
    all.extend(own.unwrap_or_default().into_iter().filter(|mount| !known.contains(&mount.dev)));
    Ok(all)
}

/// Mounts as a process sees them, by its folder in /proc.
pub fn mounts_of(roots: &Roots, who: &str) -> std::io::Result<Vec<Mount>> {
    // More mounts than fit in one small file are usual on container hosts.
    let bytes = std::fs::read(roots.proc.join(who).join("mountinfo"))?;
    Ok(text::lines(&bytes).filter_map(parse).collect())
}

/// Mounts as whoever's root is read sees them; empty if they cannot be read.
pub fn own_mounts(roots: &Roots) -> Vec<Mount> {
    mounts_of(roots, &view::viewer(roots).to_string_lossy()).unwrap_or_default()
}

/// The mount that an absolute path lies on: the longest mount point above it, the last one of
/// several on the same point.
pub fn mount_of<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    let above = |mount: &&Mount| {
        mount.path == "/"
            || path.strip_prefix(&*mount.path).is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    mounts.iter().filter(above).max_by_key(|mount| mount.path.len())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = text::words(line);
    let _id = fields.next()?;
    let _parent = fields.next()?;
    let dev = device(fields.next()?)?;
    let root = unescape(fields.next()?);
    let path = unescape(fields.next()?);
    let own_options = text::lossy(fields.next()?);
    fields.find(|field| *field == b"-")?;
    let fs_type = text::lossy(fields.next()?);
    let source = unescape(fields.next().unwrap_or_default());
    let super_options = text::lossy(fields.next().unwrap_or_default());
    let options = match super_options.is_empty() {
        true => own_options,
        false => format!("{own_options},{super_options}"),
    };
    Some(Mount { dev, path, root, fs_type, source, options })
}

/// `8:1` as a device number.
pub fn device(word: &[u8]) -> Option<DeviceNumber> {
    let (major, minor) = std::str::from_utf8(word.trim_ascii()).ok()?.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Undoes the octal escapes (`\040`) that the kernel puts for white space and backslashes.
pub fn unescape(word: &[u8]) -> String {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let digits = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let code = digits
            .filter(|digits| digits.iter().all(|digit| (b'0'..b'8').contains(digit)))
            .map(|d| d.iter().fold(0u32, |code, digit| code * 8 + u32::from(digit - b'0')))
            .and_then(|code| u8::try_from(code).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    text::lossy(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_everything() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.dev, DeviceNumber { major: 98, minor: 0 });
        assert_eq!(mount.root, "/mnt1");
        assert_eq!(mount.path, r"/mnt 2\x");
        assert_eq!(mount.fs_type, "ext3");
        assert_eq!(mount.source, "/dev/root");
        assert_eq!(mount.options, "rw,noatime,rw,errors=continue");
    }

    #[test]
    fn the_longest_and_last_mount_wins() {
        let at = |path: &str, minor| Mount {
            path: path.into(),
            dev: DeviceNumber { major: 0, minor },
            ..Mount::default()
        };
        let mounts = [at("/", 1), at("/var", 2), at("/variable", 3), at("/var", 4)];
        let minor = |path| mount_of(&mounts, path).unwrap().dev.minor;
        assert_eq!(minor("/var/lib/x"), 4);
        assert_eq!(minor("/variable"), 3);
        assert_eq!(minor("/varia"), 1);
    }

    #[test]
    fn odd_escapes_stay() {
        assert_eq!(unescape(br"a\9b\04"), r"a\9b\04");
        assert_eq!(unescape(b"\\012x"), "\nx");
        assert_eq!(unescape(br"\777"), r"\777");
    }
}
