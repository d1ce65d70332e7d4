//! What is waited for, as an identity: equal for whoever waits for the same thing, whatever it is called.
//!
//! Only what identifies is in here: inode and device, address of a word, number of a process. Paths, socket addresses and
//! names are looked up when a person is to read them (names.rs), because two threads may see one object by different
//! names, or by none. Must not: be parsed from text, or compared as text.
//!
//! Edit together: names.rs (what each is called).

use super::terminal::Terminal;
use crate::facts::{DeviceNumber, FileRef, ObjectRef};
use std::net::SocketAddr;
use std::sync::Arc;

/// A cgroup: its hierarchy and its path in it. The controllers of a v1 hierarchy; none for v2.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupKey {
    /// Controllers of the hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// Path inside the hierarchy.
    pub path: String,
}

/// A file: its file system's device and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Device of the file system.
    pub dev: DeviceNumber,
    /// Inode.
    pub ino: u64,
}

impl From<&FileRef> for FileKey {
    fn from(file: &FileRef) -> Self {
        Self { dev: file.dev, ino: file.ino }
    }
}

/// The program that takes core dumps (`Object::Service`), for whoever has crashed and writes one.
pub const CORE_DUMP: &str = "core dump";

/// What a lock of an inode guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InodePart {
    /// A directory's entries.
    Directory,
    /// A file's size and data.
    File,
    /// Who maps a file.
    Mappings,
}

/// An object that threads wait for, or that holds them up. None inside: of that kind, but which one is not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// Nothing beyond what the class of the wait says.
    Nothing,
    /// A CPU, by whoever runs on it.
    Cpu,
    /// The run queue of some CPUs; of all if none is named.
    RunQueue(Vec<u32>),
    /// A cgroup: its quota, its freezer.
    Cgroup(CgroupKey),
    /// A whole disk.
    Disk(Option<DeviceNumber>),
    /// The journal of the file system on a disk.
    Journal(Option<DeviceNumber>),
    /// Memory: the host's, or a group's.
    Memory(Option<CgroupKey>),
    /// A file.
    File(Option<FileKey>),
    /// A file system.
    FileSystem(Option<DeviceNumber>),
    /// A file system that a process serves.
    FuseFileSystem(Option<DeviceNumber>),
    /// A name server, and the name that it was asked.
    DnsServer(Option<SocketAddr>, Arc<str>),
    /// A word in a process's memory.
    Futex {
        /// The process.
        pid: u32,
        /// Address of the word.
        address: u64,
    },
    /// A mutex that goroutines of a Go program wait for.
    Mutex {
        /// The process.
        pid: u32,
        /// Its address; 0: which one is not known.
        address: u64,
    },
    /// The lock of the interpreter that a process is.
    InterpreterLock(u32),
    /// Something inside a program that only it knows by name: a row, a table, a connection of a pool.
    Inside(u32),
    /// A lock of java.util.concurrent: an object of the program, which is not read.
    Parked(u32),
    /// A lock inside the kernel, by its name or by the function that asked for it, and which of that name: 0 if it is not known.
    KernelLock(Arc<str>, u32),
    /// A lock of the kernel that an inode has.
    Inode(FileKey, InodePart),
    /// The lock of a process's mappings.
    MemoryMap(u32),
    /// The lock of a mounted file system.
    Superblock(DeviceNumber),
    /// A child process; none: whichever ends first, or one that was not named.
    Child(Option<u32>),
    /// Any of several children.
    AnyChild,
    /// A program that a child is to execute: the child, and the path.
    Program(u32, Arc<str>),
    /// A queueing discipline of an interface, by its handle.
    PacketQueue {
        /// Inode of the network namespace.
        netns: u32,
        /// Name of the interface, which is unique in it.
        interface: Arc<str>,
        /// Handle of the discipline.
        handle: Arc<str>,
    },
    /// A class of an interface's queueing discipline, by its id.
    TrafficClass {
        /// Inode of the network namespace.
        netns: u32,
        /// Name of the interface, which is unique in it.
        interface: Arc<str>,
        /// Id of the class.
        class: Arc<str>,
    },
    /// Time that passes, by the system call that lets it.
    Timer(Arc<str>),
    /// A service of the kernel's own name for it.
    Service(&'static str),
    /// A call of the kernel, by name.
    SystemCall(Arc<str>),
    /// A shared anonymous segment, by its inode.
    SharedMemory(u64),
    /// A process.
    Process(u32),
    /// Processes of one program that came and went: a script runs it many times.
    Processes(Arc<str>),
    /// An internet socket, by its inode.
    Inet(u64),
    /// A unix socket, by its inode.
    Unix(u64),
    /// A pipe, by its inode.
    Pipe(u64),
    /// A terminal, by the device number of its node.
    Tty(DeviceNumber),
    /// An open /dev/fuse of a file system.
    FuseServer(DeviceNumber),
    /// Anything else behind a descriptor, by its kind and inode.
    Other(Arc<str>, u64),
    /// A place in the kernel without an object: a function, or the system call.
    Kernel(Arc<str>),
    /// A file of which no more is known than the path that a call was given.
    Path(Arc<str>),
    /// An address on the network where nobody takes connections, or that somebody has.
    Address(SocketAddr),
    /// A limit of a process or of the host, by the kernel's name for it.
    Limit(&'static str),
}

impl From<&ObjectRef> for Object {
    fn from(object: &ObjectRef) -> Self {
        match object {
            ObjectRef::File(file) => Self::File(Some(file.into())),
            ObjectRef::Pipe { ino } => Self::Pipe(*ino),
            ObjectRef::Inet(socket) => Self::Inet(socket.ino),
            ObjectRef::Unix { ino, .. } => Self::Unix(*ino),
            // The side of whoever shows it: what comes there programs have written.
            ObjectRef::Tty { name, dev } if Terminal::of(name).is_shown() => {
                Self::Other("pty master".into(), u64::from(dev.minor))
            }
            ObjectRef::Tty { dev, .. } => Self::Tty(*dev),
            ObjectRef::FuseServer { dev } => Self::FuseServer(*dev),
            ObjectRef::Other { what, ino } => Self::Other(what.as_str().into(), *ino),
        }
    }
}
