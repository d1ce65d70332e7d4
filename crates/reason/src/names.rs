//! Objects by name: what a person calls the thing that is waited for.
//!
//! Names come from facts only. Two objects of one name differ in their id (device number, inode).
//! Must not escape: names are data until they are printed.

use crate::facts::*;
use crate::findings::ObjectName;
use crate::functions::STATD_FUNCTIONS;
use crate::scene::{Scene, within};
use crate::timeline::WaitSpan;
use crate::waits::{WaitClass, lock_caller};

/// The run queue, or the quota, that a thread waits in.
pub fn run_queue(scene: &Scene, span: &WaitSpan) -> ObjectName {
    if span.class == WaitClass::CpuQuota {
        let group = scene.cgroup_of(&span.thread, "cpu");
        let path = group.map_or_else(String::new, |group| group.path.clone());
        return ObjectName::new("cgroup", path);
    }
    ObjectName::new("run queue", "CPU")
}

/// A disk by its device number.
pub fn disk(scene: &Scene, dev: DeviceNumber) -> ObjectName {
    match scene.disk(dev) {
        Some(disk) => ObjectName::new("disk", &disk.name).with_id(disk.dev.to_string()),
        None => ObjectName::new("disk", dev.to_string()).with_id(dev.to_string()),
    }
}

/// A file by path, else by device and inode.
pub fn file(file: &FileRef) -> ObjectName {
    let id = format!("{}:{}", file.dev, file.ino);
    match &file.path {
        Some(path) => ObjectName::new("file", path).with_id(id),
        None => ObjectName::new("file", format!("inode {} on {}", file.ino, file.dev)).with_id(id),
    }
}

/// A socket by its other end, or by its own address if it has none.
pub fn socket(socket: &InetRef) -> ObjectName {
    let far = if socket.remote.port() == 0 { socket.local } else { socket.remote };
    ObjectName::new("socket", format!("{} {far}", socket.protocol)).with_id(socket.ino.to_string())
}

/// Any object behind a descriptor.
pub fn reference(scene: &Scene, object: &ObjectRef) -> ObjectName {
    match object {
        ObjectRef::File(f) => file(f),
        ObjectRef::Pipe { ino } => {
            ObjectName::new("pipe", format!("pipe:[{ino}]")).with_id(ino.to_string())
        }
        ObjectRef::Inet(s) => socket(s),
        ObjectRef::Unix { ino, peer_ino, path } => {
            // The accepted end has the server's path, the connecting end has none: its peer tells.
            let peer_path = || scene.unix_path(*peer_ino).map(String::from);
            let name = path.clone().or_else(peer_path);
            ObjectName::new("unix socket", name.unwrap_or_else(|| format!("socket:[{ino}]")))
                .with_id(ino.to_string())
        }
        ObjectRef::Tty { name, dev } => {
            ObjectName::new("terminal", format!("/dev/{name}")).with_id(dev.to_string())
        }
        ObjectRef::FuseServer { dev } => {
            ObjectName::new("FUSE device", dev.to_string()).with_id(dev.to_string())
        }
        ObjectRef::Other { what, ino } => ObjectName::new(what, format!("{what}:[{ino}]")),
    }
}

/// The disk that a wait is for: under the file, else the one last submitted to, else the one whose
/// completion ended it.
pub fn disk_of(scene: &Scene, span: &WaitSpan) -> Option<DeviceNumber> {
    if let Some(ObjectRef::File(file)) = &span.place.object {
        if file.rdev.major != 0
            && let Some(disk) = scene.disk(file.rdev)
        {
            return Some(disk.dev);
        }
        if let Some(disk) = scene.disk_of_file_system(file.dev) {
            return Some(disk.dev);
        }
    }
    let completed = span.wake.as_ref().and_then(|wake| wake.disk);
    let device = span.place.disk.or(completed)?;
    Some(scene.disk(device).map_or(device, |disk| disk.dev))
}

/// What a blocked wait is on.
pub fn object(scene: &Scene, span: &WaitSpan) -> ObjectName {
    use WaitClass::*;
    let behind = span.place.object.as_ref().map(|object| reference(scene, object));
    match span.class {
        RunQueue | CpuQuota => run_queue(scene, span),
        Disk | PageFault | SwapIn | DirtyThrottle => match disk_of(scene, span) {
            Some(dev) => disk(scene, dev),
            None => ObjectName::new("disk", "not known"),
        },
        Journal => journal(scene, span),
        Reclaim => ObjectName::new("memory", "memory"),
        FrozenFs => frozen(scene, span, behind),
        FuseDaemon => fuse(scene, span, behind),
        Dns => dns(scene, span),
        FutexLock | FutexWait => {
            let [address, ..] = span.place.args;
            // Of the process: its threads may each have a name of their own, and wait for one lock.
            let process = scene.names.get(&span.thread.pid).filter(|main| !main.comm.is_empty());
            let comm = &process.unwrap_or(&span.thread).comm;
            ObjectName::new("futex", format!("{address:#x} of {comm}"))
                .with_id(format!("{}:{address:#x}", span.thread.pid))
        }
        KernelLock => {
            let at = lock_caller(scene.stack(span.place.stack)).unwrap_or("unknown");
            ObjectName::new("kernel lock", at)
        }
        Child | Vfork => ObjectName::new("child", child_word(&span.place)),
        FrozenCgroup => {
            let own = || scene.cgroup_of(&span.thread, "freezer");
            let group = frozen_group(scene, &span.thread).or_else(own);
            ObjectName::new("cgroup", group.map_or_else(String::new, |group| group.path.clone()))
        }
        Timer => ObjectName::new("timer", span.place.syscall.clone()),
        FileLock if behind.is_none() && monitors(scene, span) => {
            ObjectName::new("service", "rpc.statd")
        }
        FileLock if behind.is_none() => match unseen_lock(scene, span) {
            Some(lease) => file(&FileRef {
                dev: lease.dev,
                ino: lease.ino,
                path: lease.path.clone(),
                ..FileRef::default()
            }),
            None => ObjectName::new("file", "not known"),
        },
        Stopped | Traced => process(scene, &span.thread),
        _ => behind.unwrap_or_else(|| ObjectName::new("kernel", kernel_word(scene, span))),
    }
}

/// The kernel waits for the host's rpc.statd.
fn monitors(scene: &Scene, span: &WaitSpan) -> bool {
    let frames = scene.stack(span.place.stack);
    frames.iter().any(|frame| STATD_FUNCTIONS.contains(&frame.as_str()))
}

/// The lock that is waited for where no descriptor leads to it: by the waiter's own line in the lock table,
/// or by the one lease that is being broken.
pub fn unseen_lock<'a>(scene: &'a Scene, span: &WaitSpan) -> Option<&'a FileLock> {
    let pid = i64::from(span.thread.pid);
    let locks = || scene.locks.iter().map(|(_, lock)| lock);
    let Some(waiting) = locks().find(|lock| lock.blocked && lock.pid == pid) else {
        return breaking_lease(scene, span);
    };
    let same =
        |lock: &&FileLock| !lock.blocked && (lock.dev, lock.ino) == (waiting.dev, waiting.ino);
    locks().find(same).or(Some(waiting))
}

/// The lease that an open waits for. Whoever opens has no descriptor yet, so the lock table must tell; it
/// does if only one file's leases are being broken.
fn breaking_lease<'a>(scene: &'a Scene, span: &WaitSpan) -> Option<&'a FileLock> {
    let waits_for_lease =
        scene.stack(span.place.stack).iter().any(|frame| frame == "__break_lease");
    let mut leases = scene
        .locks
        .iter()
        .filter(|(at, lock)| lock.breaking && *at >= span.begin_ns)
        .map(|(_, lock)| lock);
    let first = leases.next().filter(|_| waits_for_lease)?;
    leases.all(|other| (other.dev, other.ino) == (first.dev, first.ino)).then_some(first)
}

/// A process by the name of its main thread: a thread's own name would make many of one.
pub fn process(scene: &Scene, thread: &ThreadRef) -> ObjectName {
    let main = scene.names.get(&thread.pid).filter(|main| !main.comm.is_empty());
    ObjectName::new("process", &*main.unwrap_or(thread).comm).with_id(thread.pid.to_string())
}

/// The frozen group that holds a thread: the outermost one, because a group inside it is frozen with it.
pub fn frozen_group<'a>(scene: &'a Scene, thread: &ThreadRef) -> Option<&'a Cgroup> {
    let identity = scene.identity(thread)?;
    let holds = |group: &&Cgroup| {
        group.frozen == Some(true)
            && identity.cgroups.iter().any(|own| {
                let same_hierarchy = match own.controllers.is_empty() {
                    true => group.controllers.is_empty(),
                    false => own.controllers.iter().any(|c| group.controllers.contains(c)),
                };
                same_hierarchy && within(&own.path, &group.path)
            })
    };
    scene.cgroups.iter().filter(holds).min_by_key(|group| group.path.len())
}

fn child_word(place: &Place) -> String {
    // The kernel takes an int: -1, any child, stands in the register as 4294967295.
    match place.args[0] as i32 {
        pid if pid > 0 && place.syscall == "wait4" => format!("pid {pid}"),
        _ => "child".into(),
    }
}

fn kernel_word(scene: &Scene, span: &WaitSpan) -> String {
    let frames = scene.stack(span.place.stack);
    let outside = |f: &&String| !f.contains("schedule") && !f.starts_with("0x");
    match frames.iter().find(outside) {
        Some(frame) => frame.clone(),
        None => span.place.syscall.clone(),
    }
}

fn journal(scene: &Scene, span: &WaitSpan) -> ObjectName {
    match disk_of(scene, span) {
        Some(dev) => {
            let on = disk(scene, dev);
            ObjectName::new("journal", on.name).with_id(on.id)
        }
        None => ObjectName::new("journal", "journal"),
    }
}

/// A frozen file system by its mount point.
fn frozen(scene: &Scene, span: &WaitSpan, behind: Option<ObjectName>) -> ObjectName {
    let mount = match &span.place.object {
        Some(ObjectRef::File(file)) => mount_of_device(scene, file.dev),
        _ => None,
    };
    match mount {
        Some(mount) => ObjectName::new("file system", &mount.path).with_id(mount.dev.to_string()),
        None => behind.unwrap_or_else(|| ObjectName::new("file system", "not known")),
    }
}

/// The mount of a file system that a person would name: its root, shortest path.
pub fn mount_of_device(scene: &Scene, dev: DeviceNumber) -> Option<&Mount> {
    let mounts = scene.mounts.iter().filter(|mount| mount.dev == dev);
    mounts.min_by_key(|mount| (mount.root != "/", mount.path.len()))
}

fn fuse(scene: &Scene, span: &WaitSpan, behind: Option<ObjectName>) -> ObjectName {
    if let Some(ObjectRef::File(file)) = &span.place.object
        && let Some(mount) = mount_of_device(scene, file.dev)
    {
        return ObjectName::new("FUSE file system", &mount.path).with_id(mount.dev.to_string());
    }
    behind.unwrap_or_else(|| ObjectName::new("FUSE file system", "not known"))
}

fn dns(scene: &Scene, span: &WaitSpan) -> ObjectName {
    if let Some((_, query)) = span.dns_query.and_then(|index| scene.dns_queries.get(index)) {
        return ObjectName::new("DNS server", query.server.to_string()).with_id(&*query.name);
    }
    match &span.place.object {
        Some(ObjectRef::Inet(socket)) => ObjectName::new("DNS server", socket.remote.to_string()),
        _ => ObjectName::new("DNS server", "not known"),
    }
}
