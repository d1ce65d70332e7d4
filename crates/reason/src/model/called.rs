//! What objects are called, as far as any sight of them reported: paths of files, addresses of sockets, names of terminals.
//!
//! A wait may see an object by its number alone while a descriptor elsewhere has its name. Must not: turn an object into words
//! (names.rs).

use super::object::FileKey;
use super::terminal::Terminal;
use super::translations::Translations;
use crate::facts::*;
use std::collections::HashMap;

/// Names of objects by their identity.
#[derive(Debug, Default)]
pub struct Called {
    files: HashMap<FileKey, String>,
    sockets: HashMap<u64, InetRef>,
    /// Peer and bound path of unix sockets, 0 and empty where not known.
    unix: HashMap<u64, (u64, String)>,
    terminals: HashMap<DeviceNumber, String>,
    /// What connections are called at their other ends.
    pub(crate) translations: Translations,
}

impl Called {
    /// Takes in what a sight of an object says.
    pub(super) fn learn(&mut self, object: &ObjectRef) {
        match object {
            ObjectRef::File(file) => {
                if let Some(path) = &file.path {
                    self.learn_path(file.into(), path);
                }
            }
            ObjectRef::Inet(socket) => {
                let known = self.sockets.entry(socket.ino).or_insert_with(|| socket.clone());
                if known.is_connecting() {
                    // It may be connected by now.
                    known.state = socket.state;
                }
            }
            ObjectRef::Unix { ino, peer_ino, path } => {
                let known = self.unix.entry(*ino).or_default();
                known.0 = if known.0 == 0 { *peer_ino } else { known.0 };
                if let Some(path) = path.as_ref().filter(|_| known.1.is_empty()) {
                    known.1.clone_from(path);
                }
            }
            ObjectRef::Tty { name, dev } if !Terminal::of(name).is_shown() => {
                self.terminals.entry(*dev).or_insert_with(|| name.clone());
            }
            _ => {}
        }
    }

    /// A path of a file; the first that is said stays.
    pub(super) fn learn_path(&mut self, file: FileKey, path: &str) {
        self.files.entry(file).or_insert_with(|| path.to_string());
    }

    /// The path that a unix socket is bound to.
    pub fn unix_path(&self, ino: u64) -> Option<&str> {
        self.unix.get(&ino).map(|(_, path)| path.as_str()).filter(|path| !path.is_empty())
    }

    /// The other end of a unix socket.
    pub fn unix_peer(&self, ino: u64) -> Option<u64> {
        self.unix.get(&ino).map(|(peer, _)| *peer).filter(|peer| *peer != 0)
    }

    /// An internet socket by its inode.
    pub fn socket(&self, ino: u64) -> Option<&InetRef> {
        self.sockets.get(&ino)
    }

    /// A path of a file.
    pub fn path_of(&self, file: FileKey) -> Option<&str> {
        self.files.get(&file).map(String::as_str)
    }

    /// The name of a terminal, `pts/3`.
    pub fn terminal_name(&self, dev: DeviceNumber) -> Option<&str> {
        self.terminals.get(&dev).map(String::as_str)
    }
}
