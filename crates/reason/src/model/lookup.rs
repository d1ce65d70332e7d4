//! Questions that a look's facts answer by themselves: who a thread is, what stands behind a number.
//!
//! Owns no data: the index is mod.rs. Must not: conclude anything; what is not known is absent.

use super::membership::is_inside;
use super::object::FileKey;
use super::{CgroupEnds, Model, membership};
use crate::facts::*;

impl Model {
    /// Length of the window, seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }

    /// The best known name of a thread id.
    pub fn thread_ref(&self, tid: u32) -> ThreadRef {
        let unknown = || ThreadRef { tid, pid: tid, ..ThreadRef::default() };
        self.names.get(&tid).cloned().unwrap_or_else(unknown)
    }

    /// The path that a unix socket is bound to.
    pub fn unix_path(&self, ino: u64) -> Option<&str> {
        self.called.unix.get(&ino).map(|(_, path)| path.as_str()).filter(|path| !path.is_empty())
    }

    /// The other end of a unix socket.
    pub fn unix_peer(&self, ino: u64) -> Option<u64> {
        self.called.unix.get(&ino).map(|(peer, _)| *peer).filter(|peer| *peer != 0)
    }

    /// An internet socket by its inode.
    pub fn socket(&self, ino: u64) -> Option<&InetRef> {
        self.called.sockets.get(&ino)
    }

    /// A path of a file.
    pub fn path_of(&self, file: FileKey) -> Option<&str> {
        self.called.files.get(&file).map(String::as_str)
    }

    /// The name of a terminal, `pts/3`.
    pub fn terminal_name(&self, dev: DeviceNumber) -> Option<&str> {
        self.called.terminals.get(&dev).map(String::as_str)
    }

    /// The name of a process: that of its main thread.
    pub fn process_name(&self, pid: u32) -> String {
        self.names.get(&pid).map_or_else(String::new, |main| main.comm.clone())
    }

    /// The mount of a file system that a person would name: its root, shortest path.
    pub fn mount_of_device(&self, dev: DeviceNumber) -> Option<&Mount> {
        let mounts = self.mounts.iter().filter(|mount| mount.dev == dev);
        mounts.min_by_key(|mount| (mount.root != "/", mount.path.len()))
    }

    /// The kernel stack of an identity; empty if there is none.
    pub fn stack(&self, id: u32) -> &[String] {
        self.stacks.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The user stack of a wait: the last that was read while it lasted. Between `since_ns` and its reading the thread did
    /// not switch, so a stack is of each wait that touches this time.
    pub fn user_stack(&self, thread: &ThreadRef, from: Ns, to: Ns) -> Option<&UserStack> {
        let of_wait = |(at_ns, stack): &&(Ns, UserStack)| {
            stack.since_ns <= to && from <= *at_ns && self.is_same(&stack.thread, thread)
        };
        let all = self.user_stacks.get(&thread.tid)?;
        all.iter().rev().find(of_wait).map(|(_, stack)| stack)
    }

    /// Identity of a thread, or of its process.
    pub fn identity(&self, thread: &ThreadRef) -> Option<&Thread> {
        self.threads.get(&thread.tid).or_else(|| self.threads.get(&thread.pid))
    }

    /// Whether a thread belongs to what is looked at.
    pub fn in_target(&self, thread: &ThreadRef) -> bool {
        match &self.target {
            None => true,
            Some(target) => match target.kind {
                TargetKind::Host | TargetKind::Command => true,
                TargetKind::Process => thread.pid == target.pid,
                TargetKind::Container => self.identity(thread).is_some_and(|identity| {
                    identity.cgroups.iter().any(|membership| {
                        target.cgroups.iter().any(|path| is_inside(&membership.path, path))
                    })
                }),
            },
        }
    }

    /// The whole disk of a device number: the disk itself, or the one that a partition is on.
    pub fn disk(&self, dev: DeviceNumber) -> Option<&Disk> {
        self.disks
            .get(&dev)
            .or_else(|| self.disks.values().find(|disk| disk.partitions.contains(&dev)))
    }

    /// The disk under a file system's device number; by the mount's source where the number is
    /// anonymous (btrfs).
    pub fn disk_of_file_system(&self, dev: DeviceNumber) -> Option<&Disk> {
        if let Some(disk) = self.disk(dev) {
            return Some(disk);
        }
        let mount = self.mounts.iter().find(|mount| mount.dev == dev)?;
        let name = mount.source.strip_prefix("/dev/")?;
        self.disks.values().find(|disk| disk.name == name)
    }

    /// The cgroup of a controller that a thread is in: settings of the nearest group.
    pub fn cgroup_of<'a>(&'a self, thread: &ThreadRef, controller: &str) -> Option<&'a Cgroup> {
        let identity = self.identity(thread)?;
        let membership = membership::place(identity, controller)?;
        self.cgroups.iter().find(|group| {
            group.path == membership.path
                && (group.controllers.is_empty() == membership.controllers.is_empty())
                && (group.controllers.is_empty()
                    || group.controllers.iter().any(|c| c == controller))
        })
    }

    /// A cgroup's counters at both ends.
    pub fn cgroup_ends(&self, group: &Cgroup) -> Option<&CgroupEnds> {
        let key = (group.path.clone(), group.controllers.clone());
        self.cgroup_counters.get(&key).map(Box::as_ref)
    }

    /// First and last sample of a cgroup's counters.
    pub fn cgroup_change(&self, group: &Cgroup) -> Option<(&CgroupSample, &CgroupSample)> {
        let ends = self.cgroup_ends(group)?;
        Some((&ends.first, ends.last()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_of_the_wait_that_lasted_when_it_was_read() {
        let thread = ThreadRef { tid: 7, pid: 7, start_ns: 1, comm: "x".into() };
        let stack = UserStack { thread: thread.clone(), since_ns: 100, ..UserStack::default() };
        let facts = vec![Fact { at_ns: 150, body: Body::UserStack(stack) }];
        let model = Model::new(facts);
        let has = |from, to| model.user_stack(&thread, from, to).is_some();
        assert!(has(100, 200) && has(90, 120) && has(0, 100));
        assert!(!has(0, 99) && !has(151, 200), "before, and after");
        let other = ThreadRef { tid: 8, ..thread.clone() };
        assert!(model.user_stack(&other, 100, 200).is_none());
    }
}
