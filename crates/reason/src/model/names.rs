//! What a wait is on, and what a person calls it.
//!
//! The first half finds the identity of what is waited for; the second turns an identity into words, which is the last
//! step: names come from facts only, and nothing parses one back. Two objects of one name differ in their id.
//! Must not escape: names are data until they are printed.

use super::Model;
use super::object::{CgroupKey, FileKey, InodePart, Object};
use super::words;
use crate::facts::*;
use serde::{Deserialize, Serialize};

/// What a list shows for the name of an object of which only the kind is known. In a sentence it stands for nothing.
const NOT_KNOWN: &str = "not known";
/// Whoever waits for a child without saying which.
const ANY_CHILD: &str = "any of its children";

/// An object by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectName {
    /// `disk`, `file`, `pipe`, `socket`, `run queue`, ...
    pub kind: String,
    /// `vda`, a path, an address.
    pub name: String,
    /// Device number, inode, cgroup id: what tells two objects of one name apart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

impl ObjectName {
    /// An object without a separate id.
    pub fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), id: String::new() }
    }

    /// An object of a kind of which it is not known which.
    fn unknown(kind: &str) -> Self {
        Self::new(kind, NOT_KNOWN)
    }

    /// The end of whichever child comes first.
    pub fn is_any_child(&self) -> bool {
        self.kind == "child" && self.name == ANY_CHILD
    }

    /// Its name, or these words where it is not known which it is.
    pub fn or(self, unknown: &str) -> String {
        match self.name.is_empty() || self.name == NOT_KNOWN && self.id.is_empty() {
            true => unknown.into(),
            false => self.name,
        }
    }

    /// The same with an id.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }
}

impl Model {
    /// What a person calls an object.
    // LONG FUNCTION: one arm a kind of object, none of them more than a line or two.
    pub fn name_of(&self, object: &Object) -> ObjectName {
        match object {
            Object::Nothing => ObjectName::default(),
            Object::Cpu => ObjectName::new("CPU", "running"),
            Object::RunQueue(cpus) if cpus.is_empty() => ObjectName::new("run queue", "CPU"),
            Object::RunQueue(cpus) => {
                let list = words::cpus(cpus);
                ObjectName::new("run queue", format!("CPU {list}")).with_id(list)
            }
            Object::Cgroup(group) => self.named_group("cgroup", &group.path),
            Object::Disk(None) => ObjectName::unknown("disk"),
            Object::Disk(Some(dev)) => self.disk_name(*dev),
            Object::Journal(None) => ObjectName::new("journal", "journal"),
            Object::Journal(Some(dev)) => {
                let on = self.disk_name(*dev);
                ObjectName::new("journal", on.name).with_id(on.id)
            }
            Object::Memory(None) => ObjectName::new("memory", "memory"),
            Object::Memory(Some(group)) => self.named_group("memory", &group.path),
            Object::File(None) => ObjectName::unknown("file"),
            Object::File(Some(file)) => self.file_name(*file),
            Object::FileSystem(dev) => self.file_system_name("file system", *dev),
            Object::FuseFileSystem(dev) => self.file_system_name("FUSE file system", *dev),
            Object::DnsServer(None, _) => ObjectName::unknown("DNS server"),
            Object::DnsServer(Some(server), name) => {
                ObjectName::new("DNS server", server.to_string()).with_id(&**name)
            }
            Object::Futex { pid, address } => {
                // Of the process: its threads may each have a name of their own, and wait for one lock.
                let comm = self.threads.process_name(*pid);
                ObjectName::new("futex", format!("{address:#x} of {comm}"))
                    .with_id(format!("{pid}:{address:#x}"))
            }
            Object::Mutex { pid, address: 0 } => {
                ObjectName::new("mutex", format!("of {}", self.threads.process_name(*pid)))
                    .with_id(pid.to_string())
            }
            Object::Mutex { pid, address } => {
                let comm = self.threads.process_name(*pid);
                ObjectName::new("mutex", format!("{address:#x} of {comm}"))
                    .with_id(format!("{pid}:{address:#x}"))
            }
            Object::InterpreterLock(pid) => ObjectName::new(
                "interpreter lock",
                format!("of {}", self.threads.process_name(*pid)),
            )
            .with_id(pid.to_string()),
            Object::Inside(pid) => {
                ObjectName::new("lock", format!("inside {}", self.threads.process_name(*pid)))
                    .with_id(pid.to_string())
            }
            Object::Parked(pid) => {
                let comm = self.threads.process_name(*pid);
                ObjectName::new("lock", format!("of java.util.concurrent inside {comm}"))
                    .with_id(pid.to_string())
            }
            Object::KernelLock(at, 0) => ObjectName::new("kernel lock", &**at),
            Object::KernelLock(at, id) => {
                ObjectName::new("kernel lock", &**at).with_id(id.to_string())
            }
            Object::Inode(file, part) => {
                let kind = match part {
                    InodePart::Directory => "directory lock",
                    InodePart::File => "inode lock",
                    InodePart::Mappings => "mapping lock",
                };
                ObjectName { kind: kind.into(), ..self.file_name(*file) }
            }
            Object::MemoryMap(pid) => {
                ObjectName::new("mmap_lock", format!("of {}", self.threads.process_name(*pid)))
                    .with_id(pid.to_string())
            }
            Object::Superblock(dev) => self.file_system_name("s_umount", Some(*dev)),
            Object::Child(Some(pid)) => ObjectName::new("child", format!("pid {pid}")),
            Object::Child(None) => ObjectName::new("child", "child"),
            Object::AnyChild => ObjectName::new("child", ANY_CHILD),
            Object::Program(0, path) => ObjectName::new("child", &**path),
            Object::Program(pid, path) => {
                ObjectName::new("child", &**path).with_id(pid.to_string())
            }
            Object::PacketQueue { interface, handle, .. } => {
                ObjectName::new("interface", &**interface).with_id(&**handle)
            }
            Object::TrafficClass { interface, class, .. } => {
                ObjectName::new("class", format!("{interface} {class}")).with_id(&**class)
            }
            Object::Timer(call) => ObjectName::new("timer", &**call),
            Object::Service(name) => ObjectName::new("service", *name),
            Object::SystemCall(name) => ObjectName::new("system call", &**name),
            Object::SharedMemory(ino) => {
                let segment = self.memory.segments.iter().find(|segment| segment.ino == *ino);
                let name = segment.map_or(NOT_KNOWN, |segment| segment.name.as_str());
                ObjectName::new("shared memory", name).with_id(ino.to_string())
            }
            Object::Process(pid) => {
                ObjectName::new("process", self.threads.process_name(*pid)).with_id(pid.to_string())
            }
            Object::Processes(comm) => ObjectName::new("process", &**comm),
            Object::Inet(ino) => self.socket_name(*ino),
            Object::Unix(ino) => self.unix_name(*ino),
            Object::Pipe(ino) => self.pipe_name(*ino),
            Object::Tty(dev) => {
                let name =
                    self.called.terminal_name(*dev).map_or_else(|| dev.to_string(), Into::into);
                ObjectName::new("terminal", format!("/dev/{name}")).with_id(dev.to_string())
            }
            Object::FuseServer(dev) => {
                ObjectName::new("FUSE device", dev.to_string()).with_id(dev.to_string())
            }
            Object::Other(what, ino) => ObjectName::new(what, format!("{what}:[{ino}]")),
            Object::Kernel(at) => ObjectName::new("kernel", &**at),
            Object::Path(path) => ObjectName::new("file", &**path),
            Object::Address(address) => ObjectName::new("address", address.to_string()),
            Object::Limit(name) => ObjectName::new("limit", *name),
        }
    }

    /// A group, or its memory, by the name of what it is; its path is the id where that is another.
    fn named_group(&self, kind: &str, path: &str) -> ObjectName {
        match self.containers.group_called(path) {
            (_, name) if name == path => ObjectName::new(kind, path),
            (what, name) if kind == "cgroup" => ObjectName::new(what, name).with_id(path),
            (what, name) => ObjectName::new(kind, format!("of {what} {name}")).with_id(path),
        }
    }

    fn disk_name(&self, dev: DeviceNumber) -> ObjectName {
        match self.disk.of(dev) {
            Some(disk) => ObjectName::new("disk", &disk.name).with_id(disk.dev.to_string()),
            None => ObjectName::new("disk", dev.to_string()).with_id(dev.to_string()),
        }
    }

    /// A file by path, else by device and inode.
    fn file_name(&self, file: FileKey) -> ObjectName {
        let id = format!("{}:{}", file.dev, file.ino);
        match self.called.path_of(file) {
            Some(path) => ObjectName::new("file", path).with_id(id),
            None => {
                ObjectName::new("file", format!("inode {} on {}", file.ino, file.dev)).with_id(id)
            }
        }
    }

    /// A file system by its mount point.
    fn file_system_name(&self, kind: &str, dev: Option<DeviceNumber>) -> ObjectName {
        match dev.and_then(|dev| self.disk.mount_of(dev)) {
            Some(mount) => ObjectName::new(kind, &mount.path).with_id(mount.dev.to_string()),
            None => ObjectName::unknown(kind),
        }
    }

    /// A pipe by its number, a FIFO by its inode and where that is.
    fn pipe_name(&self, ino: u64) -> ObjectName {
        if is_fifo(ino) && fifo_of(ino).is_none() {
            return ObjectName::unknown("FIFO").with_id(ino.to_string());
        }
        let Some((dev, inode)) = fifo_of(ino) else {
            return ObjectName::new("pipe", format!("pipe:[{ino}]")).with_id(ino.to_string());
        };
        let place = match self.disk.mount_of(dev) {
            Some(mount) => format!("inode {inode} below {}", mount.path),
            None => format!("inode {inode} on {dev}"),
        };
        ObjectName::new("FIFO", place).with_id(format!("{dev}:{inode}"))
    }

    /// A socket by its other end, or by its own address if it has none.
    fn socket_name(&self, ino: u64) -> ObjectName {
        let name = match self.called.socket(ino) {
            Some(socket) => {
                let far = if socket.remote.port() == 0 { socket.local } else { socket.remote };
                format!("{} {far}", socket.protocol)
            }
            None => format!("socket:[{ino}]"),
        };
        ObjectName::new("socket", name).with_id(ino.to_string())
    }

    /// The accepted end has the server's path, the connecting end has none: its peer tells.
    fn unix_name(&self, ino: u64) -> ObjectName {
        let peer = || self.called.unix_path(self.called.unix_peer(ino)?);
        let path = self.called.unix_path(ino).or_else(peer);
        let name = path.map_or_else(|| format!("socket:[{ino}]"), Into::into);
        ObjectName::new("unix socket", name).with_id(ino.to_string())
    }
}

impl CgroupKey {
    /// The key of a group.
    pub fn of(group: &Cgroup) -> Self {
        Self { controllers: group.controllers.clone(), path: group.path.clone() }
    }

    /// A group that could not be reported.
    pub fn unknown() -> Self {
        Self { controllers: Vec::new(), path: String::new() }
    }
}
