//! Which lock of the kernel a wait is for.
//!
//! An inode's, a process's or a file system's lock is known by what it guards. Any other has no name of its own: it is called
//! after the function that asked for it, and where that takes one lock alone, by the lock's name in the kernel's source. Such a name
//! holds for all waits of the look for a lock at the same address. Must not: say who holds it (graph/holders.rs).

use super::lock_caller;
use crate::facts::{FileRef, Guards, KernelLock, KernelLockKind, ObjectRef, Place};
use crate::model::object::{FileKey, InodePart, Object};
use std::collections::HashMap;

/// Locks by name, with their kind and the functions that take them and sleep for no other of that kind.
const NAMED: &[(&str, KernelLockKind, &[&str])] = &[
    (
        "rtnl_mutex",
        KernelLockKind::Mutex,
        &[
            "rtnetlink_rcv_msg",
            "netlink_dump",
            "dev_ioctl",
            "devinet_ioctl",
            "inet_rtm_newaddr",
            "inet_rtm_deladdr",
            "inet6_rtm_newaddr",
            "inet6_rtm_deladdr",
            "register_netdev",
            "register_nexthop_notifier",
            "unregister_nexthop_notifier",
            "unregister_netdev",
            "netdev_run_todo",
            "cleanup_net",
            "default_device_exit_batch",
            "default_device_exit_net",
            "ops_undo_list",
            "addrconf_dad_work",
            "addrconf_verify_work",
            "linkwatch_event",
            "tc_ctl_tfilter",
            "tc_new_tfilter",
            "tc_modify_qdisc",
        ],
    ),
    (
        "cgroup_mutex",
        KernelLockKind::Mutex,
        &[
            "cgroup_kn_lock_live",
            "cgroup_lock_and_drain_offline",
            "cgroup_rmdir",
            "cgroup_attach_lock",
            "cgroup_procs_write_start",
            "cgroup1_procs_write",
            "proc_cgroup_show",
            "proc_cgroupstats_show",
            "css_release_work_fn",
            "css_killed_work_fn",
            "cgroup_css_set_fork",
        ],
    ),
    (
        "cgroup_threadgroup_rwsem",
        KernelLockKind::PercpuRwSemaphore,
        &[
            "cgroup_attach_lock",
            "cgroup_procs_write_start",
            "cgroup_can_fork",
            "copy_process",
            "exit_signals",
        ],
    ),
    (
        "pernet_ops_rwsem",
        KernelLockKind::RwSemaphore,
        &[
            "copy_net_ns",
            "setup_net",
            "cleanup_net",
            "register_pernet_subsys",
            "unregister_pernet_subsys",
        ],
    ),
    ("f_pos_lock", KernelLockKind::Mutex, &["fdget_pos", "__fdget_pos"]),
    ("rcu_state.barrier_mutex", KernelLockKind::Mutex, &["rcu_barrier"]),
    (
        "j_checkpoint_mutex",
        KernelLockKind::Mutex,
        &["__jbd2_log_wait_for_space", "jbd2_log_do_checkpoint", "jbd2_journal_flush"],
    ),
    ("s_orphan_lock", KernelLockKind::Mutex, &["ext4_orphan_add", "ext4_orphan_del"]),
    (
        "i_data_sem",
        KernelLockKind::RwSemaphore,
        &[
            "ext4_map_blocks",
            "ext4_map_create_blocks",
            "ext4_da_get_block_prep",
            "ext4_truncate",
            "ext4_da_map_blocks",
        ],
    ),
    (
        "alloc_sem of an ext4 group",
        KernelLockKind::RwSemaphore,
        &["ext4_mb_load_buddy_gfp", "ext4_mb_init_group", "ext4_mb_good_group_nolock"],
    ),
    (
        "s_vfs_rename_mutex",
        KernelLockKind::Mutex,
        &["lock_rename", "lock_rename_child", "do_renameat2", "__start_renaming"],
    ),
];

/// What a thread waits for that waits for a lock of the kernel.
pub(super) fn object(place: &Place, frames: &[String]) -> Object {
    let file = match &place.object {
        Some(ObjectRef::File(file)) => Some(file),
        _ => None,
    };
    let guarded = place.lock.as_deref().and_then(|lock| guarded(lock, file));
    guarded.unwrap_or_else(|| {
        let caller = lock_caller(frames).unwrap_or("unknown");
        let Some(lock) = &place.lock else { return Object::KernelLock(caller.into(), 0) };
        Object::KernelLock(named(lock.kind, caller).unwrap_or(caller).into(), lock.id)
    })
}

fn guarded(lock: &KernelLock, file: Option<&FileRef>) -> Option<Object> {
    let inode = |part| file.map(|file| Object::Inode(FileKey::from(file), part));
    match lock.guards {
        Guards::Unknown => None,
        Guards::Directory => inode(InodePart::Directory),
        Guards::Inode => inode(InodePart::File),
        Guards::Mapping => inode(InodePart::Mappings),
        Guards::Memory => lock.process.as_ref().map(|process| Object::MemoryMap(process.pid)),
        Guards::FileSystem => lock.dev.map(Object::Superblock),
    }
}

/// The name of a lock that a function takes.
fn named(kind: KernelLockKind, caller: &str) -> Option<&'static str> {
    if kind == KernelLockKind::Mutex && caller.starts_with("rtnl_") {
        return Some("rtnl_mutex");
    }
    let takes = |(_, of, callers): &&(&str, KernelLockKind, &[&str])| {
        *of == kind && callers.contains(&caller)
    };
    NAMED.iter().find(takes).map(|(name, ..)| *name)
}

/// Names of the locks that the function of one who waits tells, by what stands for their addresses.
pub(super) fn names<'a>(objects: impl Iterator<Item = &'a Object>) -> HashMap<u32, &'static str> {
    let named = |object: &Object| match object {
        Object::KernelLock(name, id) if *id != 0 => {
            let known = NAMED.iter().find(|(known, ..)| **known == **name);
            known.map(|(known, ..)| (*id, *known))
        }
        _ => None,
    };
    objects.filter_map(named).collect()
}

/// Gives a lock the name that another wait for it tells.
pub(super) fn rename(names: &HashMap<u32, &'static str>, object: &mut Object) {
    if let Object::KernelLock(name, id) = object
        && let Some(known) = names.get(id)
    {
        *name = (*known).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DeviceNumber, ThreadRef, WaitState};

    fn of(lock: KernelLock, caller: &str) -> Object {
        let file =
            FileRef { dev: DeviceNumber { major: 8, minor: 1 }, ino: 9, ..FileRef::default() };
        let place = Place {
            state: WaitState::DiskSleep,
            object: Some(ObjectRef::File(file)),
            lock: Some(Box::new(lock)),
            ..Place::default()
        };
        object(&place, &[caller.into(), "do_syscall_64".into()])
    }

    #[test]
    fn what_it_guards_comes_before_who_asked_for_it() {
        let directory = KernelLock { guards: Guards::Directory, ..KernelLock::default() };
        let file = FileKey { dev: DeviceNumber { major: 8, minor: 1 }, ino: 9 };
        assert_eq!(of(directory, "path_openat"), Object::Inode(file, InodePart::Directory));
        let process = Some(ThreadRef { pid: 7, ..ThreadRef::default() });
        let memory = KernelLock { guards: Guards::Memory, process, ..KernelLock::default() };
        assert_eq!(of(memory, "vm_mmap_pgoff"), Object::MemoryMap(7));
    }

    #[test]
    fn a_name_holds_for_all_who_wait_for_the_lock_at_that_address() {
        let lock = |name: &str, id| Object::KernelLock(name.into(), id);
        let names = names([lock("rtnl_mutex", 2), lock("rtnl_mutex", 0), lock("other", 3)].iter());
        let renamed = |mut object: Object| {
            rename(&names, &mut object);
            object
        };
        let setup = "register_nexthop_notifier";
        assert_eq!(renamed(lock(setup, 2)), lock("rtnl_mutex", 2));
        for other in [lock(setup, 0), lock(setup, 3)] {
            assert_eq!(renamed(other.clone()), other);
        }
    }

    #[test]
    fn a_lock_without_an_object_is_called_by_its_name_or_by_who_asked_for_it() {
        let mutex = || KernelLock { kind: KernelLockKind::Mutex, ..KernelLock::default() };
        assert_eq!(of(mutex(), "rtnl_newlink"), Object::KernelLock("rtnl_mutex".into(), 0));
        assert_eq!(of(mutex(), "some_driver"), Object::KernelLock("some_driver".into(), 0));
        // A semaphore that the same function takes is another lock.
        assert_eq!(
            of(KernelLock::default(), "rtnl_newlink"),
            Object::KernelLock("rtnl_newlink".into(), 0)
        );
    }
}
