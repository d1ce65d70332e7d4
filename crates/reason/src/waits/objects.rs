//! What a wait is on: the identity of the object behind it.
//!
//! By the descriptor where there is one, else by the lock table, the name server that was asked, the disk that was last
//! submitted to, the only disk at work (disk_at_work.rs). Must not name anything (model/names.rs), nor say who is to blame (graph/).

use super::functions::{CORE_DUMP_FUNCTIONS, STATD_FUNCTIONS};
use super::span::WaitSpan;
use super::{WaitClass, disk_at_work, kernel_lock};
use crate::facts::*;
use crate::model::object::{CORE_DUMP, CgroupKey, FileKey, Object};
use crate::model::{Model, membership, overlay};
use std::collections::BTreeSet;

/// The run queue, or the quota, that a thread waits in.
pub fn run_queue(model: &Model, span: &WaitSpan) -> Object {
    if span.class == WaitClass::CpuQuota {
        let group = model.cgroup_of(&span.thread, "cpu");
        return Object::Cgroup(group.map_or_else(CgroupKey::unknown, CgroupKey::of));
    }
    Object::RunQueue(Vec::new())
}

/// Types of file systems whose files another host, or a program, has; by how they begin.
const NOT_ON_DISK: &[&str] =
    &["nfs", "cifs", "smb3", "ceph", "9p", "afs", "fuse", "virtiofs", "lustre", "gpfs"];

/// Serves nothing itself: what is waited for is the program that serves a layer of it.
const OVERLAY: &str = "overlay";

/// The disk that a wait is for: under the file, else the one whose completion ended it, else the one last submitted to, else the
/// only one that was at work all the while.
/// What the thread submitted last may have been read before this wait, and what it waits for be written by others.
pub fn disk_of(model: &Model, span: &WaitSpan) -> Option<DeviceNumber> {
    if let Some(ObjectRef::File(file)) = &span.place.object {
        if file.rdev.major != 0
            && let Some(disk) = model.disk.of(file.rdev)
        {
            return Some(disk.dev);
        }
        if let Some(disk) = model.disk.of_file_system(file.dev) {
            return Some(disk.dev);
        }
        // What comes from elsewhere is on no disk of this host, whatever the thread has read before.
        if NOT_ON_DISK.iter().any(|kind| file.fs_type.starts_with(kind)) {
            return None;
        }
    }
    if let Some(dev) = span.place.held_back.as_ref().and_then(|held| held.dev) {
        return Some(model.disk.of(dev).map_or(dev, |disk| disk.dev));
    }
    let completed = span.wake.as_ref().and_then(|wake| wake.disk);
    let seen = completed.or(span.place.disk);
    // The kernel's own threads wait for what they submitted themselves: of that the event is yet to come. A known file lies on a file
    // system of which no disk is known.
    let is_file = matches!(span.place.object, Some(ObjectRef::File(_)));
    let is_for_any = span.class == WaitClass::Disk && !span.kernel && !is_file;
    let at_work = || disk_at_work::only(model, span.begin_ns, span.end_ns);
    let device = seen.or_else(|| is_for_any.then(at_work).flatten())?;
    Some(model.disk.of(device).map_or(device, |disk| disk.dev))
}

/// What a blocked wait is on.
pub fn object(model: &Model, span: &WaitSpan) -> Object {
    use WaitClass::*;
    let behind = || span.place.object.as_ref().map(Object::from);
    match span.class {
        RunQueue | CpuQuota => run_queue(model, span),
        Disk | PageFault | SwapIn | DirtyThrottle => Object::Disk(disk_of(model, span)),
        Journal => Object::Journal(disk_of(model, span)),
        Reclaim => Object::Memory(None),
        FrozenFs => Object::FileSystem(file_of(span).map(|file| file.dev)),
        FuseDaemon => {
            let below = |file: &FileRef| match file.fs_type.as_str() {
                OVERLAY => overlay::served_layer(&model.disk, file.dev),
                _ => Some(file.dev),
            };
            let dev = file_of(span).map_or_else(|| only_fuse_mount(model), below);
            Object::FuseFileSystem(dev)
        }
        Dns => dns(model, span),
        // Its arguments name a set of semaphores, and no word.
        FutexWait if span.place.syscall != "futex" => Object::Inside(span.thread.pid),
        FutexLock | FutexWait => {
            let [address, ..] = span.place.args;
            Object::Futex { pid: span.thread.pid, address }
        }
        KernelLock => kernel_lock::object(&span.place, model.stacks.kernel(span.place.stack)),
        Child | Vfork => Object::Child(child(model, span)),
        FrozenCgroup => {
            let own = || model.cgroup_of(&span.thread, "freezer");
            let group = frozen_group(model, &span.thread).or_else(own);
            Object::Cgroup(group.map_or_else(CgroupKey::unknown, CgroupKey::of))
        }
        Timer => Object::Timer(span.place.syscall.as_str().into()),
        FileLock => behind().unwrap_or_else(|| locked_file(model, span)),
        // The call that it crashed in may name any descriptor.
        PipeWrite if dumps_core(model, span) => Object::Service(CORE_DUMP),
        Stopped | Traced | Zombie | EndedThread => Object::Process(span.thread.pid),
        _ => behind().unwrap_or_else(|| Object::Kernel(kernel_word(model, span).into())),
    }
}

/// Who opens a file or asks for its times has no descriptor: then it is what the only server serves, if that is mounted here. Mounts of containers
/// are not among those that are known.
fn only_fuse_mount(model: &Model) -> Option<DeviceNumber> {
    let served = |end: &Endpoint| match &end.object {
        ObjectRef::FuseServer { dev } => Some((dev.major, dev.minor)),
        _ => None,
    };
    let served: BTreeSet<(u32, u32)> = model.held.endpoints.iter().filter_map(served).collect();
    let mut served = served.into_iter();
    let (Some((major, minor)), None) = (served.next(), served.next()) else { return None };
    let mut mounts = model.disk.mounts.iter();
    let is_it = |mount: &Mount| (mount.dev.major, mount.dev.minor) == (major, minor);
    mounts.any(is_it).then_some(DeviceNumber { major, minor })
}

fn file_of(span: &WaitSpan) -> Option<&FileRef> {
    match &span.place.object {
        Some(ObjectRef::File(file)) => Some(file),
        _ => None,
    }
}

/// It has crashed, and writes its core.
fn dumps_core(model: &Model, span: &WaitSpan) -> bool {
    let mut frames = model.stacks.kernel(span.place.stack).iter();
    frames.any(|frame| CORE_DUMP_FUNCTIONS.contains(&frame.as_str()))
}

/// A file lock without a descriptor: the kernel waits for the host's rpc.statd, or the lock table tells.
fn locked_file(model: &Model, span: &WaitSpan) -> Object {
    let mut frames = model.stacks.kernel(span.place.stack).iter();
    if frames.any(|frame| STATD_FUNCTIONS.contains(&frame.as_str())) {
        return Object::Service("rpc.statd");
    }
    Object::File(unseen_lock(model, span).map(|lease| FileKey { dev: lease.dev, ino: lease.ino }))
}

/// The lock that is waited for where no descriptor leads to it: by the waiter's own line in the lock table,
/// or by the one lease that is being broken.
pub fn unseen_lock<'a>(model: &'a Model, span: &WaitSpan) -> Option<&'a FileLock> {
    let pid = i64::from(span.thread.pid);
    let locks = || model.held.locks.iter().map(|(_, lock)| lock);
    let Some(waiting) = locks().find(|lock| lock.blocked && lock.pid == pid) else {
        return breaking_lease(model, span);
    };
    let same =
        |lock: &&FileLock| !lock.blocked && (lock.dev, lock.ino) == (waiting.dev, waiting.ino);
    locks().find(same).or(Some(waiting))
}

/// The lease that an open waits for. Whoever opens has no descriptor yet, so the lock table must tell; it
/// does if only one file's leases are being broken.
fn breaking_lease<'a>(model: &'a Model, span: &WaitSpan) -> Option<&'a FileLock> {
    let waits_for_lease =
        model.stacks.kernel(span.place.stack).iter().any(|frame| frame == "__break_lease");
    let mut leases = model
        .held
        .locks
        .iter()
        .filter(|(at, lock)| lock.breaking && *at >= span.begin_ns)
        .map(|(_, lock)| lock);
    let first = leases.next().filter(|_| waits_for_lease)?;
    leases.all(|other| (other.dev, other.ino) == (first.dev, first.ino)).then_some(first)
}

/// The frozen group that holds a thread: the outermost one, because a group inside it is frozen with it.
pub fn frozen_group<'a>(model: &'a Model, thread: &ThreadRef) -> Option<&'a Cgroup> {
    let identity = model.threads.identity(thread)?;
    let holds = |group: &&Cgroup| {
        group.frozen == Some(true) && membership::belongs(identity, group, &["freezer"])
    };
    model.containers.cgroups.iter().filter(holds).min_by_key(|group| group.path.len())
}

fn child(model: &Model, span: &WaitSpan) -> Option<u32> {
    let place = &span.place;
    // A container's own numbers are not the host's.
    if model.threads.identity(&span.thread).is_some_and(|known| known.inner_pid.is_some()) {
        return None;
    }
    // The kernel takes an int: -1, any child, stands in the register as 4294967295.
    let pid = u32::try_from(place.args[0] as i32).ok()?;
    (pid > 0 && place.syscall == "wait4").then_some(pid)
}

fn kernel_word(model: &Model, span: &WaitSpan) -> String {
    let frames = model.stacks.kernel(span.place.stack);
    let outside = |f: &&String| !f.contains("schedule") && !f.starts_with("0x");
    match frames.iter().find(outside) {
        Some(frame) => frame.clone(),
        None => span.place.syscall.clone(),
    }
}

fn dns(model: &Model, span: &WaitSpan) -> Object {
    if let Some((_, query)) = span.dns_query.and_then(|index| model.net.dns_queries.get(index)) {
        return Object::DnsServer(Some(query.server), query.name.as_str().into());
    }
    match &span.place.object {
        Some(ObjectRef::Inet(socket)) => Object::DnsServer(Some(socket.remote), "".into()),
        _ => Object::DnsServer(None, "".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::{LOOK_NS, host, thread};
    use crate::waits::timeline::Observed;

    #[test]
    fn without_a_file_a_wait_is_for_the_disk_whose_completion_ended_it() {
        let (read_before, written) =
            (DeviceNumber { major: 8, minor: 0 }, DeviceNumber { major: 8, minor: 16 });
        let ended_by = |disk| {
            let (begin_ns, end_ns, thread) = (1_000, LOOK_NS / 2, thread(10, "sync"));
            let place = Place {
                state: WaitState::DiskSleep,
                iowait: true,
                disk: Some(read_before),
                ..Place::default()
            };
            let wake = Some(Wake { at_ns: end_ns, disk, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            let mut facts = host();
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
            let observed = Observed::new(facts);
            let mut waits = observed.timelines.waits().filter(|wait| wait.class == WaitClass::Disk);
            waits.next().and_then(|wait| disk_of(&observed.model, wait))
        };
        assert_eq!(ended_by(Some(written)), Some(written));
        assert_eq!(ended_by(None), Some(read_before), "nothing else is known");
    }

    #[test]
    fn a_file_of_another_host_or_of_a_program_is_on_no_disk_of_this_one() {
        let disk = DeviceNumber { major: 8, minor: 0 };
        let of = |fs_type: &str| {
            let dev = DeviceNumber { major: 0, minor: 52 };
            let file = FileRef { dev, fs_type: fs_type.into(), ..FileRef::default() };
            let place = Place {
                state: WaitState::DiskSleep,
                iowait: true,
                disk: Some(disk),
                object: Some(ObjectRef::File(file)),
                ..Place::default()
            };
            let (thread, end_ns) = (thread(10, "job"), LOOK_NS / 2);
            let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
            let wait = Wait { thread, begin_ns: 1_000, end_ns, place, wake, ..Wait::default() };
            let observed = Observed::new(
                [host(), vec![Fact { at_ns: end_ns, body: Body::Wait(wait) }]].concat(),
            );
            let wait = observed.timelines.waits().find(|wait| wait.thread.pid == 10);
            disk_of(&observed.model, wait.expect("it waits"))
        };
        for fs_type in ["nfs4", "cifs", "fuse.sshfs", "virtiofs", "9p"] {
            assert_eq!(of(fs_type), None, "{fs_type}");
        }
        // A page of tmpfs comes from swap.
        assert_eq!((of("ext4"), of("tmpfs")), (Some(disk), Some(disk)));
    }
}
