//! A lock in PostgreSQL's table of locks that a session waits for, and which sessions are in its way.
//!
//! Two variables that the server exports say where a session's entry (PGPROC) is, and which kind of event it waits for. Of the entry,
//! whose fields move from release to release, two pointers that stand side by side are looked for: the lock, and the session's own
//! part in it (waitLock, waitProcLock), which points back to both; nothing else does. A lock and its parts (LOCK, PROCLOCK of
//! storage/lock.h) are alike from 9.6 to 18. The memory is read while others change it: every pointer must lead back, the list must
//! close, and the session must still wait for the same lock at the end; else there is no answer. Must not: read what is locked.

use crate::called::Memory;
use crate::elf::{u32_at, u64_at};
use holdup_reason::facts::SessionEvent;
use holdup_system::memory;

/// Of a session's entry, as much as the fields in question are within; of that, where its process number is within.
const ENTRY_BYTES: usize = 256;
const NUMBER_BYTES: usize = 96;
/// Bytes of a lock, and where in it are what it locks (type, then method), and its list of parts.
const LOCK_BYTES: usize = 40;
const TYPE_AT: usize = 14;
const LIST_AT: u64 = 24;
/// Bytes of a part, and where in it are the leader of its group of processes, the modes that it has, and its place in the list.
const PART_BYTES: usize = 48;
const LEADER_AT: usize = 16;
const MODES_AT: usize = 24;
const LINK_AT: u64 = 32;
/// Parts of a lock that are looked at.
const PARTS_MAX: usize = 256;
/// Behind the two pointers: the mode that is wanted.
const MODE_AT: usize = 16;
/// The modes that exclude each (LockConflicts of lmgr/lock.c), by bit.
const EXCLUDED_BY: [u32; 9] = [0, 0x100, 0x180, 0x1e0, 0x1f0, 0x1d8, 0x1f8, 0x1fc, 0x1fe];
/// Bytes of a setting that are read, with the NUL at its end.
const SETTING_BYTES_MAX: usize = 256;
/// The process number of a transaction that was prepared, and has no session any more (MarkAsPreparingGuts of twophase.c).
const WITHOUT_PROCESS: u32 = 0;
/// Types (LockTagType): those of a table, of a row or the transaction that has it, and a client's own.
const OF_TABLE: [u8; 2] = [0, 1];
const OF_ROW: [u8; 2] = [4, 5];
const ADVISORY: u8 = 10;
/// The greatest, and the methods (DEFAULT_LOCKMETHOD, USER_LOCKMETHOD).
const TYPE_MAX: u8 = 11;
const METHODS: [u8; 2] = [1, 2];

/// Where a server has what it exports: the same in all of its sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// MyProc: a pointer to the session's own entry.
    pub own: u64,
    /// my_wait_event_info: a pointer to the event that it waits for.
    pub event: u64,
    /// SyncRepStandbyNames: a pointer to the text of that setting; 0 if there is none.
    pub standbys: u64,
}

/// A session, by the number that the server knows its process by.
pub(super) struct Session {
    pub places: Places,
    pub number: u32,
}

/// A lock that a session waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub event: SessionEvent,
    /// The numbers of the processes in the way.
    pub holders: Vec<u32>,
    /// A transaction that was prepared is in the way too: it has no process.
    pub without_process: bool,
}

/// What a session waits to lock.
struct Wanted {
    entry: u64,
    /// Where in an entry are the process's number, and the two pointers.
    number_at: u64,
    pointers_at: u64,
    lock: u64,
    own_part: u64,
    excluded_by: u32,
}

impl Session {
    /// Whether it has its entry there.
    pub(super) fn is_it(&self, memory: &mut Memory<'_>) -> bool {
        let entry = word(self.places.own, memory).filter(|entry| *entry != 0);
        entry.is_some_and(|entry| self.number_at(&bytes(entry, memory)).is_some())
    }

    fn number_at(&self, entry: &Option<[u8; ENTRY_BYTES]>) -> Option<usize> {
        let entry = entry.as_ref()?;
        (0..NUMBER_BYTES).step_by(4).find(|at| u32_at(entry, *at) == self.number)
    }

    /// The number of the event that it waits for, 0 if it works; none if that cannot be read.
    pub(super) fn event(&self, memory: &mut Memory<'_>) -> Option<u32> {
        let event = word(self.places.event, memory)?;
        bytes(event, memory).map(u32::from_le_bytes)
    }

    /// The value of the setting that has it wait so; none if that is empty, cannot be read, or is no plain text that was read whole: it is
    /// printed as the value to go back to.
    pub(super) fn setting(&self, pid: u32, event: SessionEvent) -> Option<String> {
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let is_its = event == SessionEvent::Replica;
        let text = is_its.then(|| word(self.places.standbys, &mut memory)).flatten()?;
        // A text of that length was cut there: with a NUL within the limit it would be shorter.
        let is_whole = |text: &String| text.len() < SETTING_BYTES_MAX;
        let is_plain = |text: &String| !text.chars().any(char::is_control);
        memory::text(pid, text, SETTING_BYTES_MAX).filter(is_whole).filter(is_plain)
    }

    /// What it waits to lock, and who is in its way; none if that cannot be read, or is over.
    pub(super) fn lock(&self, memory: &mut Memory<'_>) -> Option<Lock> {
        let wanted = self.wanted(memory)?;
        let lock: [u8; LOCK_BYTES] = bytes(wanted.lock, memory)?;
        let (of, method) = (lock[TYPE_AT], lock[TYPE_AT + 1]);
        if of > TYPE_MAX || !METHODS.contains(&method) {
            return None;
        }
        let first = u64_at(&lock, LIST_AT as usize + 8);
        let (holders, without_process) = wanted.in_its_way(first, memory)?;
        let still = self.wanted(memory)?;
        let event = match of {
            of if OF_TABLE.contains(&of) => SessionEvent::TableLock,
            of if OF_ROW.contains(&of) => SessionEvent::RowLock,
            ADVISORY => SessionEvent::AdvisoryLock,
            _ => SessionEvent::OtherLock,
        };
        (still.lock == wanted.lock).then_some(Lock { event, holders, without_process })
    }

    fn wanted(&self, memory: &mut Memory<'_>) -> Option<Wanted> {
        let entry = word(self.places.own, memory).filter(|entry| *entry != 0)?;
        let fields = bytes(entry, memory);
        let number_at = self.number_at(&fields)? as u64;
        let fields = fields?;
        let places = (0..=ENTRY_BYTES - MODE_AT - 4).step_by(8);
        places.into_iter().find_map(|at| {
            let (lock, own_part) = (u64_at(&fields, at), u64_at(&fields, at + 8));
            let excluded_by = *EXCLUDED_BY.get(u32_at(&fields, at + MODE_AT) as usize)?;
            if lock == 0 || own_part == 0 || excluded_by == 0 {
                return None;
            }
            let part: [u8; PART_BYTES] = bytes(own_part, memory)?;
            let is_it = (u64_at(&part, 0), u64_at(&part, 8)) == (lock, entry);
            let pointers_at = at as u64;
            is_it.then_some(Wanted { entry, number_at, pointers_at, lock, own_part, excluded_by })
        })
    }
}

impl Wanted {
    /// Who has a mode that excludes the wanted one, and whether somebody without a process has; if nobody has, who waits for such a one
    /// and came before.
    fn in_its_way(&self, first: u64, memory: &mut Memory<'_>) -> Option<(Vec<u32>, bool)> {
        let (mut holders, mut before, mut without_process) = (Vec::new(), Vec::new(), false);
        let own: [u8; PART_BYTES] = bytes(self.own_part, memory)?;
        let (head, mut link, mut came_before) = (self.lock.checked_add(LIST_AT)?, first, true);
        for _ in 0..PARTS_MAX {
            if link == head {
                let is_held = without_process || !holders.is_empty();
                return Some((if is_held { holders } else { before }, without_process));
            }
            let at = link.checked_sub(LINK_AT)?;
            let part: [u8; PART_BYTES] = bytes(at, memory)?;
            let (lock, entry) = (u64_at(&part, 0), u64_at(&part, 8));
            if lock != self.lock {
                return None;
            }
            came_before &= at != self.own_part;
            let is_other =
                entry != self.entry && part[LEADER_AT..MODES_AT] != own[LEADER_AT..MODES_AT];
            if is_other && u32_at(&part, MODES_AT) & self.excluded_by != 0 {
                match self.number(entry, memory)? {
                    WITHOUT_PROCESS => without_process = true,
                    number => holders.push(number),
                }
            } else if is_other && came_before && self.waits_too(entry, memory) {
                before.push(self.number(entry, memory)?);
            }
            link = u64_at(&part, LINK_AT as usize + 8);
        }
        None
    }

    /// Whether another session waits for the same lock, in a mode that excludes the wanted one.
    fn waits_too(&self, entry: u64, memory: &mut Memory<'_>) -> bool {
        let at = entry.checked_add(self.pointers_at);
        let fields: Option<[u8; MODE_AT + 4]> = at.and_then(|at| bytes(at, memory));
        fields.is_some_and(|fields| {
            let mode = 1_u32.checked_shl(u32_at(&fields, MODE_AT)).unwrap_or(0);
            u64_at(&fields, 0) == self.lock && mode & self.excluded_by != 0
        })
    }

    /// The process of an entry.
    fn number(&self, entry: u64, memory: &mut Memory<'_>) -> Option<u32> {
        bytes(entry.checked_add(self.number_at)?, memory).map(u32::from_le_bytes)
    }
}

fn bytes<const COUNT: usize>(at: u64, memory: &mut Memory<'_>) -> Option<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    memory(at, &mut bytes)?;
    Some(bytes)
}

fn word(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    bytes(at, memory).map(u64::from_le_bytes)
}
