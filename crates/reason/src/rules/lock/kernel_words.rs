//! How locks of the kernel are said: which one it is, in which calls it is waited for, and the ways out.
//!
//! Must not: decide anything, or name codes.

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::{InodePart, Object};
use crate::model::{Model, words};
use crate::rules::wording::Remedy;
use std::collections::BTreeSet;

/// System calls that are named one by one.
const CALLS_SHOWN_MAX: usize = 3;

/// `the lock of directory /var/spool`.
pub(super) fn phrase(model: &Model, end: &End) -> String {
    let name = model.name_of(&end.object).name;
    match &end.object {
        Object::Inode(_, InodePart::Directory) => format!("the lock of directory {name}"),
        Object::Inode(_, InodePart::File) => format!("the inode lock of {name}"),
        Object::Inode(_, InodePart::Mappings) => format!("the lock of those who map {name}"),
        Object::MemoryMap(_) => format!("the lock of the memory mappings {name} (mmap_lock)"),
        Object::Superblock(_) => format!("the lock of file system {name} (s_umount)"),
        _ => format!("the kernel lock {name}"),
    }
}

/// The main holder, with how many of its name hold the lock beside it: a program that is run again and again.
pub(super) fn holders(measures: &Measures<'_>, end: &End, main: Option<&ThreadRef>) -> String {
    let Some(main) = main else { return "another thread".into() };
    let others =
        end.holders.keys().filter(|pid| **pid != main.pid && !end.victims.contains_key(pid));
    let same = others.filter(|pid| measures.model.threads.process_name(**pid) == main.comm).count();
    match same {
        0 => measures.model.threads.who(main),
        more => format!("{} and {more} more", measures.model.threads.who(main)),
    }
}

/// Whether the kernel reported which lock it is, and not the stack alone.
pub(super) fn is_reported(measures: &Measures<'_>, end: &End) -> bool {
    let mut waits = measures.waits();
    waits.any(|wait| {
        wait.class == end.class && wait.object == end.object && wait.place.lock.is_some()
    })
}

/// ` in openat, unlink`: the system calls that wait; nothing where it is none.
pub(super) fn calls(measures: &Measures<'_>, end: &End) -> String {
    let waits =
        measures.waits().filter(|wait| wait.class == end.class && wait.object == end.object);
    let named: BTreeSet<&str> =
        waits.map(|wait| wait.place.syscall.as_str()).filter(|call| !call.is_empty()).collect();
    let shown: Vec<&str> = named.into_iter().take(CALLS_SHOWN_MAX).collect();
    if shown.is_empty() { String::new() } else { format!(" in {}", shown.join(", ")) }
}

/// The ways out.
pub(super) fn ways_out(end: &End, holder: Option<&ThreadRef>) -> Vec<Remedy> {
    let mut ways = Vec::new();
    let text = match &end.object {
        Object::Inode(_, InodePart::Directory) => {
            "let the writers use a directory each, or many small ones by a hash of the name"
        }
        Object::Inode(..) => "let one writer append for all, or give each a file of its own",
        Object::MemoryMap(pid) if holder.is_none_or(|by| by.pid == *pid) => {
            "map and unmap less often in its threads, and change large mappings in parts"
        }
        Object::MemoryMap(_) => {
            "look at its memory less often, or by /proc/PID/statm, which takes no lock"
        }
        Object::KernelLock(name, _) if &**name == "rtnl_mutex" => {
            "make and remove network devices in fewer, larger steps"
        }
        _ => "",
    };
    if !text.is_empty() {
        ways.push(Remedy { text: text.into(), ..Remedy::default() });
    }
    if let Some(by) = holder {
        let text = format!("see what {} does while it holds the lock", words::who(by));
        ways.push(Remedy::to(text).kernel_stack(by));
    }
    ways
}
