//! A file that is waited for: to be there, or to have a text in it, whoever writes it.
//!
//! The folder is watched, because the file may not be there yet, or be replaced as a log is, and the file is looked at twice a second
//! all the same, because a network file system reports nothing. Of a file that grows only what is new is
//! read; one that was replaced or emptied is read from its begin. Must not: hold the file open, which would keep a disk full.

use crate::failure::Failure;
use crate::text::escape;
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Read at once.
const CHUNK: usize = 1 << 16;

/// See the head of the file.
pub(super) struct Awaited {
    watch: OwnedFd,
    path: PathBuf,
    contains: Option<Vec<u8>>,
    name: String,
    /// Device and inode of what was read, and how far.
    read: Option<(u64, u64, u64)>,
    /// The end of what was read: a text may stand across two chunks.
    tail: Vec<u8>,
}

impl Awaited {
    /// Watches its folder.
    pub(super) fn open(path: PathBuf, contains: Option<String>) -> Result<Self, Failure> {
        if contains.as_deref() == Some("") {
            return Err(Failure::usage("--contains needs a text"));
        }
        let folder = match path.parent() {
            None => return Err(Failure::usage("--file needs a file in a folder")),
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
        };
        let refused = |error: rustix::io::Errno| Failure::file("watch", folder, &error.into());
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(refused)?;
        let changes = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE;
        add_watch(&watch, folder, changes).map_err(refused)?;
        let name = escape::name(&path.display().to_string(), 60);
        let contains = contains.map(String::into_bytes);
        Ok(Self { watch, path, contains, name, read: None, tail: Vec::new() })
    }

    /// What becomes readable when something may have changed.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Its name, for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is as it is waited for; the sentence that says so.
    pub(super) fn is_there(&mut self) -> Result<Option<String>, Failure> {
        let mut events = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.watch, &mut events);
        while reader.next().is_ok() {}
        if self.contains.is_none() {
            return Ok(self.path.exists().then(|| format!("{} is there", self.name)));
        }
        match self.look_for_text() {
            Ok(true) => Ok(Some(format!("{} has the text in it", self.name))),
            Ok(false) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::file("read", &self.path, &error)),
        }
    }

    fn look_for_text(&mut self) -> std::io::Result<bool> {
        let text = self.contains.as_deref().unwrap_or_default();
        let mut file = File::open(&self.path)?;
        let of = file.metadata()?;
        let from = match self.read {
            Some((dev, inode, to)) if (dev, inode) == (of.dev(), of.ino()) && to <= of.size() => to,
            _ => {
                self.tail.clear();
                0
            }
        };
        file.seek(SeekFrom::Start(from))?;
        let (mut to, mut chunk) = (from, vec![0; CHUNK]);
        loop {
            let length = file.read(&mut chunk)?;
            to += length as u64;
            self.read = Some((of.dev(), of.ino(), to));
            if length == 0 {
                return Ok(false);
            }
            self.tail.extend_from_slice(&chunk[..length]);
            if self.tail.windows(text.len()).any(|it| it == text) {
                return Ok(true);
            }
            let surplus = self.tail.len().saturating_sub(text.len() - 1);
            self.tail.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_text_is_found_across_writes_and_in_a_file_that_was_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut awaited = Awaited::open(path.clone(), Some("all done".into())).expect("watched");
        assert_eq!(awaited.is_there().expect("asked"), None, "not there yet");
        let mut file = File::create(&path).expect("made");
        file.write_all(&[b'x'; CHUNK + 3]).expect("written");
        file.write_all(b"all ").expect("written");
        assert_eq!(awaited.is_there().expect("asked"), None);
        std::fs::write(folder.path().join("new"), b"nothing").expect("written");
        std::fs::rename(folder.path().join("new"), &path).expect("replaced");
        assert_eq!(awaited.is_there().expect("asked"), None);
        let mut file = File::options().append(true).open(&path).expect("opened");
        file.write_all(b" all").expect("written");
        assert_eq!(awaited.is_there().expect("asked"), None);
        file.write_all(b" done").expect("written");
        assert!(awaited.is_there().expect("asked").is_some());
    }
}
