//! What an end is in every look at it: an identity without the numbers of one look.
//!
//! Process ids, inodes of pipes and sockets, addresses of futexes and numbers of devices are another in each look and on
//! each machine. What stays: a path, a disk's name, an address that is listened on, the program. What has no name of its own
//! (a pipe, an unnamed socket) is told apart by the program that would have to act; of work and sleep the program is all
//! there is. Must not: weigh anything, or make an identity out of words that were meant for a person.
//!
//! Rejected: the function in which a program works as a part of its identity. It is the place that most samples hit, so one
//! sample more or less would make the work of one program go and come anew. It is said beside the change instead.
//!
//! Edit together: model/object.rs (each object has its line here).

use crate::answer::report::{AnswerEnd, Culprit, Finding};
use crate::facts::{DeviceNumber, InetRef, TargetKind, ThreadRef};
use crate::graph::end::{End, EndKind};
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::{CgroupKey, FileKey, Object};
use crate::waits::WaitClass;
use std::net::SocketAddr;

/// An object, as far as it is the same in another look.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectIdentity {
    /// It holds no number of one look.
    Itself(Object),
    /// A disk, by the kernel's name for it.
    Disk(String),
    /// The journal on a disk of that name.
    Journal(String),
    /// A file system, by its mount point.
    Mounted(String),
    /// A file or socket, by its path.
    Path(String),
    /// A container by its name, or a cgroup by its path.
    Group(String),
    /// The cgroup of what was looked at itself: a service or session has another number each time.
    OwnGroup,
    /// Something of a program: its work, its sleep, a lock inside it, a child that runs it.
    Program(String),
    /// Whoever listens at an address.
    Peer(SocketAddr),
    /// A client of this host's own service at an address.
    Served(SocketAddr),
    /// A shared segment, by its name.
    Segment(String),
    /// One of many that have no name.
    Unnamed,
}

/// An end, as far as it is the same in another look.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndIdentity {
    /// Its kind.
    pub kind: EndKind,
    /// The class of wait; none for work and sleep, whatever was waited for until then.
    class: Option<WaitClass>,
    /// The object.
    pub object: ObjectIdentity,
    /// The program that would have to act, where the object has no name of its own.
    who: Option<String>,
}

impl EndIdentity {
    /// Of an end, and of what was said about it.
    pub fn of(measures: &Measures<'_>, end: &End, said: &AnswerEnd) -> Self {
        let program = || said.who.as_ref().map(|who| who.name.clone());
        if matches!(said.end, EndKind::Works | EndKind::Sleep) {
            let object = match program() {
                Some(name) => ObjectIdentity::Program(name),
                None => ObjectIdentity::of(measures, &end.object),
            };
            return Self { kind: said.end, class: None, object, who: None };
        }
        let object = ObjectIdentity::of(measures, &end.object);
        let who = if object == ObjectIdentity::Unnamed { program() } else { None };
        Self { kind: said.end, class: Some(end.class), object, who }
    }
}

impl ObjectIdentity {
    /// Of an object of a look.
    // LONG FUNCTION: one arm a kind of object, none of them more than a line or two.
    pub fn of(measures: &Measures<'_>, object: &Object) -> Self {
        let model = measures.model;
        let program = |pid: u32| Self::Program(model.threads.process_name(pid));
        match object {
            Object::Disk(Some(dev)) => Self::Disk(disk(model, *dev)),
            Object::Journal(Some(dev)) => Self::Journal(disk(model, *dev)),
            Object::File(Some(file)) => file_identity(model, *file),
            Object::FileSystem(Some(dev)) | Object::FuseFileSystem(Some(dev)) => {
                match model.disk.mount_of(*dev) {
                    Some(mount) => Self::Mounted(mount.path.clone()),
                    None => Self::Itself(object.clone()),
                }
            }
            Object::Cgroup(group) | Object::Memory(Some(group)) => group_identity(model, group),
            Object::Futex { pid, .. }
            | Object::Mutex { pid, .. }
            | Object::Inside(pid)
            | Object::Parked(pid)
            | Object::Child(Some(pid))
            | Object::Process(pid) => program(*pid),
            Object::Processes(comm) => Self::Program(comm.to_string()),
            Object::Program(_, path) => Self::Path(path.to_string()),
            Object::Path(path) => Self::Path(path.to_string()),
            // One server is asked many names.
            Object::DnsServer(Some(server), _) => Self::Peer(*server),
            Object::Inet(ino) => match model.called.socket(*ino) {
                Some(socket) => socket_identity(measures, socket),
                None => Self::Unnamed,
            },
            Object::Unix(ino) => {
                let far = || model.called.unix_path(model.called.unix_peer(*ino)?);
                let path = model.called.unix_path(*ino).or_else(far);
                path.map_or(Self::Unnamed, |path| Self::Path(path.to_string()))
            }
            Object::SharedMemory(ino) => {
                let segment = model.memory.segments.iter().find(|segment| segment.ino == *ino);
                segment.map_or(Self::Unnamed, |segment| Self::Segment(segment.name.clone()))
            }
            Object::PacketQueue { interface, handle, .. } => Self::Itself(Object::PacketQueue {
                netns: 0,
                interface: interface.clone(),
                handle: handle.clone(),
            }),
            Object::TrafficClass { interface, class, .. } => Self::Itself(Object::TrafficClass {
                netns: 0,
                interface: interface.clone(),
                class: class.clone(),
            }),
            Object::Pipe(_) | Object::Tty(_) | Object::FuseServer(_) | Object::Other(..) => {
                Self::Unnamed
            }
            _ => Self::Itself(object.clone()),
        }
    }
}

/// The identity of a finding in words: what an alert that comes again is known by. A process is its program and the group that it
/// is in, a setting its short name.
pub(crate) fn key(measures: &Measures<'_>, finding: &Finding, object: &Object) -> String {
    let Culprit { name, container, workload, .. } = &finding.culprit;
    let object = ObjectIdentity::of(measures, object).words(measures.model, &finding.object.kind);
    let mut key = format!("{} on {object}", finding.code);
    if !name.is_empty() {
        key.push_str(&format!(" by {name}"));
    }
    // Not the whole name: where the group has none, what runs in it at the moment stands there.
    let group = match (&workload.pod, &workload.unit, container) {
        (Some(pod), ..) => {
            Some(format!("{}/{pod}", workload.namespace.as_deref().unwrap_or("default")))
        }
        (None, unit, container) => unit.as_ref().or(container.as_ref()).cloned(),
    };
    if let Some(group) = group.filter(|group| group != name) {
        key.push_str(&format!(" in {group}"));
    }
    key
}

impl ObjectIdentity {
    /// In words, with the kind of the object that it is of.
    fn words(&self, model: &Model, kind: &str) -> String {
        match self {
            Self::Itself(object) => {
                let name = model.name_of(object);
                format!("{} {}", name.kind, name.name)
            }
            Self::Disk(name) | Self::Journal(name) | Self::Mounted(name) | Self::Path(name) => {
                format!("{kind} {name}")
            }
            Self::Group(name) | Self::Segment(name) => format!("{kind} {name}"),
            Self::Program(name) => format!("{kind} of {name}"),
            Self::OwnGroup => format!("{kind} of its own"),
            Self::Peer(address) => format!("{kind} to {address}"),
            Self::Served(address) => format!("{kind} at {address}"),
            Self::Unnamed => kind.to_string(),
        }
    }
}

fn disk(model: &Model, dev: DeviceNumber) -> String {
    model.disk.of(dev).map_or_else(|| dev.to_string(), |disk| disk.name.clone())
}

fn file_identity(model: &Model, file: FileKey) -> ObjectIdentity {
    match model.called.path_of(file) {
        Some(path) => ObjectIdentity::Path(path.to_string()),
        None => ObjectIdentity::Itself(Object::File(Some(file))),
    }
}

fn group_identity(model: &Model, group: &CgroupKey) -> ObjectIdentity {
    if own_groups(model).any(|path| path == group.path) {
        return ObjectIdentity::OwnGroup;
    }
    let is_its = |paths: &[String]| paths.contains(&group.path);
    match model.containers.all.iter().find(|container| is_its(&container.cgroups)) {
        Some(container) => ObjectIdentity::Group(container.name.clone()),
        None => ObjectIdentity::Group(group.path.clone()),
    }
}

/// Paths of the groups that what is looked at is in.
fn own_groups(model: &Model) -> impl Iterator<Item = &str> {
    let target = model.look.target.as_ref();
    let of_container = target.into_iter().flat_map(|target| &target.cgroups);
    let process: Option<ThreadRef> = match target {
        Some(target) if target.kind == TargetKind::Process => {
            Some(model.threads.thread_ref(target.pid))
        }
        _ => command_root(model),
    };
    let identity = process.and_then(|process| model.threads.identity(&process));
    let of_process = identity.into_iter().flat_map(|identity| &identity.cgroups);
    of_container.map(String::as_str).chain(of_process.map(|own| own.path.as_str()))
}

/// A connection by the end that keeps its address: whoever listens.
fn socket_identity(measures: &Measures<'_>, socket: &InetRef) -> ObjectIdentity {
    let is_served = socket.remote.port() == 0 || measures.graph.is_accepted(socket);
    match is_served {
        true => ObjectIdentity::Served(socket.local),
        false => ObjectIdentity::Peer(socket.remote),
    }
}
