//! Mounts, by which names of a file system become paths: those of the initial namespace, and of others as files in them are met.
//!
//! Must not: read mount tables itself (it is given a function), or touch a path.

use super::values::device;
use holdup_reason::facts::{DeviceNumber, Mount, ThreadRef};
use std::collections::HashSet;

/// See the head of the file.
#[derive(Default)]
pub struct Mounts {
    /// Those that are known.
    pub known: Vec<Mount>,
    /// Reads the mounts that a process sees, for file systems that only other mount namespaces have.
    pub of: Option<fn(u32) -> Vec<Mount>>,
    /// File systems that were looked for in the namespace of a process that has a file there.
    sought: HashSet<DeviceNumber>,
}

impl Mounts {
    /// What is mounted now; what was looked for elsewhere is looked for again.
    pub fn replace(&mut self, known: Vec<Mount>) {
        self.known = known;
        self.sought.clear();
    }

    /// Dentry names, innermost first, to a path of the initial mount namespace, or as the process sees it
    /// if the file system is not mounted there.
    pub fn path(&mut self, pid: u32, names: &[u8], bytes: u32, dev: u32) -> Option<String> {
        if bytes == 0 {
            return None;
        }
        let names = &names[..names.len().min(bytes as usize)];
        let mut inside = String::with_capacity(names.len() + 1);
        for name in names.rsplit(|&b| b == 0).filter(|name| !name.is_empty()) {
            inside.push('/');
            inside.push_str(&String::from_utf8_lossy(name));
        }
        let dev = device(dev);
        self.seek_mounts(pid, dev);
        let mount = self
            .known
            .iter()
            .filter(|m| m.dev == dev)
            .filter(|m| m.root == "/" || inside.starts_with(&m.root))
            .min_by_key(|m| (m.root != "/", m.path.len()))?;
        let rest = if mount.root == "/" { &inside[..] } else { &inside[mount.root.len()..] };
        let path = format!("{}{rest}", mount.path.trim_end_matches('/'));
        Some(if path.is_empty() { "/".into() } else { path })
    }

    /// Looks once in the namespace of a process that has a file there.
    fn seek_mounts(&mut self, pid: u32, dev: DeviceNumber) {
        if !self.known.iter().any(|mount| mount.dev == dev) && self.sought.insert(dev) {
            let seen = self.of.map(|read| read(pid)).unwrap_or_default();
            self.known.extend(seen.into_iter().filter(|mount| mount.dev == dev));
        }
    }

    /// Where the root of a file system is mounted.
    pub fn mounted_at(&mut self, thread: &ThreadRef, dev: u32) -> Option<String> {
        let dev = device(dev);
        self.seek_mounts(thread.pid, dev);
        let mounts = self.known.iter().filter(|mount| mount.dev == dev && mount.root == "/");
        Some(mounts.min_by_key(|mount| mount.path.len())?.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dentry_names_become_a_path_below_their_mount() {
        let mut mounts = Mounts::default();
        let mount = |root: &str, path: &str| Mount {
            dev: DeviceNumber { major: 7, minor: 1 },
            root: root.into(),
            path: path.into(),
            ..Mount::default()
        };
        mounts.known = vec![mount("/sub", "/bind"), mount("/", "/mnt/disk")];
        let names = b"file\0sub\0";
        let dev = 7 << 20 | 1;
        assert_eq!(mounts.path(1, names, 9, dev).as_deref(), Some("/mnt/disk/sub/file"));
        assert_eq!(mounts.path(1, b"\0", 1, dev).as_deref(), Some("/mnt/disk"), "its root");
        mounts.known.pop();
        assert_eq!(mounts.path(1, names, 9, dev).as_deref(), Some("/bind/file"));
    }

    #[test]
    fn a_file_system_of_another_namespace_is_named_as_its_process_sees_it() {
        let seen = |pid: u32| {
            let dev = DeviceNumber { major: 0, minor: pid };
            vec![Mount { dev, root: "/".into(), path: "/tmp".into(), ..Mount::default() }]
        };
        let mut mounts = Mounts { of: Some(seen), ..Mounts::default() };
        let names = b"lock\0";
        assert_eq!(mounts.path(39, names, 5, 39).as_deref(), Some("/tmp/lock"));
        assert_eq!(mounts.path(39, names, 5, 40), None);
    }
}
