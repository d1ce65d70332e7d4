//! What is waited for, as the kernel names it: files, pipes, sockets, terminals; and who has them open.
//!
//! Owns identities (inode and device, socket cookie and addresses), which must be the same
//! from whichever thread they were seen, because chains are linked by them. A path is decoration and may
//! be missing. Must not say what a wait for the object means: that is `waits`.

use super::{SocketState, ThreadRef};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A block or anonymous device number, as the kernel's internal dev_t splits: major, minor.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct DeviceNumber {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl std::fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What stands for a FIFO has this bit: the kernel numbers pipes from 1 on, and none comes so far.
const FIFO: u64 = 1 << 63;
/// And this one, if its inode has more bits than there is room for: then it stands for that FIFO, and can be read back as none.
const FIFO_MIXED: u64 = 1 << 62;
/// Its lower half is the inode; the device stands above it as the kernel numbers it.
const FIFO_INO_BITS: u32 = 32;
const DEV_MINOR_BITS: u32 = 20;

/// Whether it is a FIFO for which this number stands (`ObjectRef::fifo`), and no pipe.
pub fn is_fifo(ino: u64) -> bool {
    ino & FIFO != 0
}

/// Device and inode of a FIFO, by what stands for it; none of a pipe, or where the inode did not fit.
pub fn fifo_of(ino: u64) -> Option<(DeviceNumber, u64)> {
    let (dev, inode) = ((ino & !FIFO) >> FIFO_INO_BITS, ino & ((1 << FIFO_INO_BITS) - 1));
    let minor = dev & ((1 << DEV_MINOR_BITS) - 1);
    let dev = DeviceNumber { major: (dev >> DEV_MINOR_BITS) as u32, minor: minor as u32 };
    (is_fifo(ino) && ino & FIFO_MIXED == 0).then_some((dev, inode))
}

/// The object behind a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum ObjectRef {
    /// A regular file, directory or block device node.
    File(FileRef),
    /// A pipe or FIFO, by inode.
    Pipe {
        /// Inode on pipefs, or what stands for a FIFO (`ObjectRef::fifo`).
        ino: u64,
    },
    /// An internet socket.
    Inet(InetRef),
    /// A unix socket.
    Unix {
        /// Inode on sockfs.
        ino: u64,
        /// Inode of the connected peer, 0 if none; of a connection that nobody has accepted yet the listener's (Linux 6.10 and later).
        #[serde(default)]
        peer_ino: u64,
        /// The bound path, if any.
        #[serde(default)]
        path: Option<String>,
    },
    /// A terminal.
    Tty {
        /// `pts/3`, `ttyS0`, or `ptm/3` for the master side of pts/3.
        name: String,
        /// Device number of the terminal's node, or of the master's slave side.
        dev: DeviceNumber,
    },
    /// An open /dev/fuse: this process serves a file system.
    FuseServer {
        /// Device number of the mounted file system it serves.
        dev: DeviceNumber,
    },
    /// Anything else, by its kind: eventfd, epoll, netlink, char device.
    Other {
        /// File operations or socket family word.
        what: String,
        /// Inode.
        #[serde(default)]
        ino: u64,
    },
}

/// The word of a group of fanotify's that is asked before others may open, read or execute a file.
pub const FANOTIFY: &str = "fanotify";

impl ObjectRef {
    /// Inode of a socket; none of anything else.
    pub fn socket_ino(&self) -> Option<u64> {
        match self {
            Self::Inet(socket) => Some(socket.ino),
            Self::Unix { ino, .. } => Some(*ino),
            _ => None,
        }
    }

    /// A FIFO: two of one inode number on two file systems are two, and none is the pipe of that number.
    pub fn fifo(dev: DeviceNumber, ino: u64) -> Self {
        let dev = (u64::from(dev.major) << DEV_MINOR_BITS) | u64::from(dev.minor);
        let mixed = if ino >> FIFO_INO_BITS == 0 { 0 } else { FIFO_MIXED };
        let both = ((dev << FIFO_INO_BITS) ^ ino) & !(FIFO | FIFO_MIXED);
        Self::Pipe { ino: FIFO | mixed | both }
    }
}

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRef {
    /// Device of its file system (superblock).
    pub dev: DeviceNumber,
    /// Inode number.
    pub ino: u64,
    /// Absolute path in the initial mount namespace where it is known.
    pub path: Option<String>,
    /// The superblock is frozen (`s_writers.frozen` not 0).
    pub frozen: bool,
    /// File system type (`ext4`, `fuse`, `overlay`), if it was read.
    pub fs_type: String,
    /// For a block or character device node: the device it stands for.
    pub rdev: DeviceNumber,
}

/// An internet socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InetRef {
    /// Inode on sockfs.
    pub ino: u64,
    /// Inode of the network namespace.
    #[serde(default)]
    pub netns: u32,
    /// `tcp`, `mptcp`, `udp`, `icmp`, `icmpv6`, or the protocol's number.
    pub protocol: String,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address; unspecified with port 0 if not connected.
    pub remote: SocketAddr,
    /// TCP state as the kernel numbers it (1 established, 10 listen), also of MPTCP; 0 for other protocols.
    #[serde(default)]
    pub state: u8,
}

/// Asks to be connected (include/net/tcp_states.h).
pub const TCP_SYN_SENT: u8 = 2;
/// State of a TCP socket that is no connection: closed, or not asked for yet.
pub const TCP_CLOSE: u8 = 7;

impl InetRef {
    /// It asks to be connected, and was not answered yet.
    pub fn is_connecting(&self) -> bool {
        self.state == TCP_SYN_SENT
    }

    /// It speaks TCP, on one path or on several: who listens by MPTCP accepts connections of TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self.protocol.as_str(), "tcp" | "mptcp")
    }
}

/// One process's open descriptor on an object, as it was last seen; before that, sockets as they were at the begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The process (its main thread).
    pub process: ThreadRef,
    /// Descriptor number.
    pub fd: u32,
    /// May be read from.
    pub readable: bool,
    /// May be written to.
    pub writable: bool,
    /// O_NONBLOCK is set.
    #[serde(default)]
    pub nonblocking: bool,
    /// What it is.
    pub object: ObjectRef,
    /// Bytes or packets that wait to be read from it: socket receive queue in bytes, pipe buffers
    /// in use, terminal output in bytes.
    #[serde(default)]
    pub unread: Option<u64>,
    /// The terminal's output is stopped (ctrl-S), reported for either side of it.
    #[serde(default)]
    pub output_stopped: bool,
    /// The socket's own state, for sockets.
    #[serde(default)]
    pub socket: Option<SocketState>,
}

impl Endpoint {
    /// Inode of the socket, pipe or file behind the descriptor, 0 where it has none.
    pub fn object_ino(&self) -> u64 {
        match &self.object {
            ObjectRef::File(file) => file.ino,
            ObjectRef::Pipe { ino }
            | ObjectRef::Unix { ino, .. }
            | ObjectRef::Other { ino, .. } => *ino,
            ObjectRef::Inet(socket) => socket.ino,
            ObjectRef::Tty { dev, .. } => u64::from(dev.minor),
            ObjectRef::FuseServer { dev } => u64::from(dev.minor),
        }
    }
}

/// One line of mountinfo of the initial namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// st_dev of files on it.
    pub dev: DeviceNumber,
    /// Where it is mounted.
    pub path: String,
    /// Which part of the file system is mounted there.
    pub root: String,
    /// File system type.
    pub fs_type: String,
    /// Source device or word.
    pub source: String,
    /// Per-mount and superblock options, joined by commas.
    pub options: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifos_of_one_inode_number_on_two_file_systems_are_two_and_none_is_a_pipe() {
        let on = |minor, ino| match ObjectRef::fifo(DeviceNumber { major: 254, minor }, ino) {
            ObjectRef::Pipe { ino } => ino,
            _ => 0,
        };
        assert_ne!(on(0, 77), on(1, 77));
        assert_eq!(fifo_of(on(3, 77)), Some((DeviceNumber { major: 254, minor: 3 }, 77)));
        let far = on(3, 77 << 40);
        assert!(is_fifo(far) && fifo_of(far).is_none() && far != on(4, 77 << 40));
        assert!(!is_fifo(77) && fifo_of(77).is_none());
    }
}
