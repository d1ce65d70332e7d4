//! Locks of the kernel, wire to fact.
//!
//! Owns their identities: an address is the kernel's secret and says nothing to a person, so it stays here. Must not: say what
//! a lock is called (reason). Edit together: bpf/wire.h (`wire_lock`), bpf/contention.bpf.h (its flags).

use super::values::{device, thread_ref};
use crate::decode::wire::{self, *};
use holdup_reason::facts::*;
use std::collections::HashMap;

/// LCB_F_* of include/trace/events/lock.h.
const READ: u32 = 2;
const WRITE: u32 = 4;
const RT: u32 = 8;
const PERCPU: u32 = 16;
const MUTEX: u32 = 32;

/// The locks that were met, by address.
#[derive(Default)]
pub struct Locks(HashMap<u64, u32>);

impl Locks {
    /// None is known any more: the next window counts its own.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// From the bytes of a `wire_lock`; none if it names no lock.
    pub fn lock(&mut self, bytes: &[u8]) -> Option<KernelLock> {
        let record: wire_lock = wire::read(bytes);
        if record.address == 0 {
            return None;
        }
        let fresh = self.0.len() as u32 + 1;
        let id = *self.0.entry(record.address).or_insert(fresh);
        let known = |who: &wire_ref| (who.tid != 0).then(|| thread_ref(who));
        let guards = guards(wire_lock_guards(record.guards));
        Some(KernelLock {
            id,
            kind: kind(record.flags),
            shared: record.flags & READ != 0,
            guards,
            process: known(&record.process),
            dev: (guards == Guards::FileSystem).then(|| device(record.dev)),
            owner: known(&record.owner),
            owner_reads: record.owner_reads != 0,
        })
    }
}

fn kind(flags: u32) -> KernelLockKind {
    match flags {
        it if it & MUTEX != 0 => KernelLockKind::Mutex,
        it if it & PERCPU != 0 => KernelLockKind::PercpuRwSemaphore,
        it if it & RT != 0 => KernelLockKind::RtMutex,
        it if it & (READ | WRITE) != 0 => KernelLockKind::RwSemaphore,
        _ => KernelLockKind::Semaphore,
    }
}

fn guards(of: wire_lock_guards) -> Guards {
    match of {
        wire_lock_guards::WIRE_LOCK_DIRECTORY => Guards::Directory,
        wire_lock_guards::WIRE_LOCK_INODE => Guards::Inode,
        wire_lock_guards::WIRE_LOCK_MAPPING => Guards::Mapping,
        wire_lock_guards::WIRE_LOCK_MEMORY => Guards::Memory,
        wire_lock_guards::WIRE_LOCK_FILE_SYSTEM => Guards::FileSystem,
        _ => Guards::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(address: u64, flags: u32) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<wire_lock>()];
        bytes[..8].copy_from_slice(&address.to_ne_bytes());
        bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
        bytes
    }

    #[test]
    fn one_address_is_one_lock_and_none_is_no_lock() {
        let mut locks = Locks::default();
        assert_eq!(locks.lock(&bytes(0, MUTEX)), None);
        let of = |locks: &mut Locks, address, flags| {
            let lock = locks.lock(&bytes(address, flags)).unwrap();
            (lock.id, lock.kind, lock.shared)
        };
        assert_eq!(of(&mut locks, 64, MUTEX), (1, KernelLockKind::Mutex, false));
        assert_eq!(of(&mut locks, 128, READ), (2, KernelLockKind::RwSemaphore, true));
        assert_eq!(of(&mut locks, 128, WRITE), (2, KernelLockKind::RwSemaphore, false));
        assert_eq!(of(&mut locks, 64, MUTEX).0, 1);
        let percpu = of(&mut locks, 192, PERCPU | READ);
        assert_eq!(percpu.1, KernelLockKind::PercpuRwSemaphore);
    }
}
