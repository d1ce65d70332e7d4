//! Where symbolic links of /proc point: executables, descriptors, namespaces.
//!
//! The kernel gives their text without a look at what they name. Must not: follow one.

use super::text;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where a symbolic link points, lossily.
pub fn link(path: &Path) -> Option<String> {
    Some(text::lossy(std::fs::read_link(path).ok()?.as_os_str().as_bytes()))
}

/// The inode of the namespace that a file of /proc/PID/ns stands for.
pub fn namespace_at(path: &Path) -> Option<u32> {
    namespace_inode(&link(path)?)
}

/// The inode in `net:[4026531840]`.
pub fn namespace_inode(target: &str) -> Option<u32> {
    target.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}
