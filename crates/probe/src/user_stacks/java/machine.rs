//! The threads of a Java machine and the monitors that they wait to enter, as HotSpot describes its own structures.
//!
//! HotSpot exports a table of its fields for debuggers (gHotSpotVMStructs, vmStructs.hpp): type, field, offset or address. So no
//! release has to be known; one in which a field is missing is not read. Who entered a monitor that nobody else wanted then is
//! known by the place of his lock record, which lies on his stack. Pure over whatever reads the process's memory, which may hold
//! anything and changes while it is read: lists are bounded, and a wait that is another when it is read again is dropped.
//! Must not: follow objects of the program.

use crate::user_stacks::called::Memory;
use crate::user_stacks::elf::{u32_at, u64_at};
use holdup_reason::facts::MonitorWait;
use std::collections::HashMap;

/// Bounds of what is believed: entries of the table, bytes of one, bytes of a name, threads.
const ENTRIES_MAX: u64 = 16_384;
const ENTRY_BYTES_MAX: u64 = 256;
const NAME_BYTES_MAX: usize = 64;
const THREADS_MAX: u32 = 4096;
/// Entries that are read at a time.
const AT_A_TIME: u64 = 64;
/// Owners without a name: the machine does not know yet who it is (objectMonitor.hpp).
const NAMELESS_MAX: u64 = 2;
/// Waits that are reported at a time.
const WAITS_MAX: usize = 256;

/// The table, and where its columns are.
const TABLE: &str = "gHotSpotVMStructs";
const COLUMNS: [&str; 5] = [
    "gHotSpotVMStructEntryTypeNameOffset",
    "gHotSpotVMStructEntryFieldNameOffset",
    "gHotSpotVMStructEntryOffsetOffset",
    "gHotSpotVMStructEntryAddressOffset",
    "gHotSpotVMStructEntryArrayStride",
];
/// Types that are of use here. Fields of every thread stand with one or the other by release.
const TYPES: [&str; 6] =
    ["ThreadsSMRSupport", "ThreadsList", "JavaThread", "Thread", "OSThread", "ObjectMonitor"];

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    /// Address of the pointer to the list of threads.
    list: u64,
    list_length: u64,
    list_threads: u64,
    pending_monitor: u64,
    os_thread: u64,
    stack_base: u64,
    stack_bytes: u64,
    /// The number by which releases from 24 on name an owner.
    owner_number: Option<u64>,
    thread_id: u64,
    owner: u64,
}

/// A Java machine in a process.
#[derive(Debug)]
pub struct Machine {
    layout: Layout,
}

fn number(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes)?;
    Some(u64::from_le_bytes(bytes))
}

/// A name of the table; none if it is not there, or too long.
fn name(at: u64, memory: &mut Memory<'_>) -> Option<String> {
    const STEP: usize = 8;
    let mut bytes = Vec::new();
    while bytes.len() < NAME_BYTES_MAX {
        let mut step = [0; STEP];
        memory(at.wrapping_add(bytes.len() as u64), &mut step)?;
        bytes.extend(step.iter().take_while(|byte| **byte != 0));
        if step.contains(&0) {
            return String::from_utf8(bytes).ok();
        }
    }
    None
}

/// Offsets by type and field, and for what is one of a kind its address.
type Fields = HashMap<(&'static str, String), (u64, u64)>;

fn fields(
    symbol: &mut dyn FnMut(&'static str) -> Option<u64>,
    memory: &mut Memory<'_>,
) -> Option<Fields> {
    let table = number(symbol(TABLE)?, memory)?;
    let mut columns = [0; COLUMNS.len()];
    for (column, of) in columns.iter_mut().zip(COLUMNS) {
        *column = number(symbol(of)?, memory)?;
    }
    let [type_at, field_at, offset_at, address_at, stride] = columns;
    let fits = |column: &u64| column.saturating_add(8) <= stride;
    if stride > ENTRY_BYTES_MAX || ![type_at, field_at, offset_at, address_at].iter().all(fits) {
        return None;
    }
    let (mut types, mut fields) = (HashMap::new(), Fields::new());
    for first in (0..ENTRIES_MAX).step_by(AT_A_TIME as usize) {
        let mut bytes = vec![0; (AT_A_TIME * stride) as usize];
        let at = table.wrapping_add(first * stride);
        // The end of the table may be the end of what can be read.
        if memory(at, &mut bytes).is_none() {
            let read = read_one_by_one(at, stride, &mut bytes, memory);
            bytes.truncate(read);
        }
        for entry in bytes.chunks_exact(stride as usize) {
            let column = |at: u64| u64_at(entry, at as usize);
            if column(type_at) == 0 {
                return Some(fields);
            }
            let of = *types.entry(column(type_at)).or_insert_with(|| {
                let name = name(column(type_at), memory)?;
                TYPES.into_iter().find(|known| *known == name)
            });
            let Some(of) = of else { continue };
            if let Some(field) = name(column(field_at), memory) {
                fields.insert((of, field), (column(offset_at), column(address_at)));
            }
        }
        if (bytes.len() as u64) < AT_A_TIME * stride {
            break;
        }
    }
    Some(fields)
}

/// How many bytes of entries could be read.
fn read_one_by_one(at: u64, stride: u64, into: &mut [u8], memory: &mut Memory<'_>) -> usize {
    let mut done = 0;
    for entry in into.chunks_exact_mut(stride as usize) {
        if memory(at.wrapping_add(done as u64), entry).is_none() {
            break;
        }
        done += entry.len();
    }
    done
}

impl Layout {
    fn of(fields: &Fields) -> Option<Self> {
        let of = |kind: &'static str, field: &str| fields.get(&(kind, field.to_string()));
        let offset = |kind, field| of(kind, field).map(|(offset, _)| *offset);
        let of_thread = |field| offset("JavaThread", field).or_else(|| offset("Thread", field));
        Some(Self {
            list: of("ThreadsSMRSupport", "_java_thread_list")?.1,
            list_length: offset("ThreadsList", "_length")?,
            list_threads: offset("ThreadsList", "_threads")?,
            pending_monitor: of_thread("_current_pending_monitor")?,
            os_thread: of_thread("_osthread")?,
            stack_base: of_thread("_stack_base")?,
            stack_bytes: of_thread("_stack_size")?,
            owner_number: of_thread("_monitor_owner_id"),
            thread_id: offset("OSThread", "_thread_id")?,
            owner: offset("ObjectMonitor", "_owner")?,
        })
    }
}

impl Machine {
    /// By the machine's own table; none if a field is missing.
    pub fn find(
        symbol: &mut dyn FnMut(&'static str) -> Option<u64>,
        memory: &mut Memory<'_>,
    ) -> Option<Self> {
        let layout = Layout::of(&fields(symbol, memory)?)?;
        Some(Self { layout })
    }

    /// Who waits to enter a monitor now, and who has it (0: not known); none if the memory is not there.
    pub fn waits(&self, memory: &mut Memory<'_>) -> Option<Vec<MonitorWait>> {
        let threads = self.threads(memory)?;
        let pending = |thread: u64, memory: &mut Memory<'_>| {
            number(thread.wrapping_add(self.layout.pending_monitor), memory)
        };
        let mut waiting = Vec::new();
        for thread in &threads {
            let monitor = pending(*thread, memory).filter(|monitor| *monitor != 0);
            waiting.extend(monitor.map(|monitor| (*thread, monitor)));
        }
        waiting.truncate(WAITS_MAX);
        let mut owners: HashMap<u64, Option<u64>> = HashMap::new();
        let mut waits = Vec::new();
        for (thread, monitor) in waiting {
            let owner =
                *owners.entry(monitor).or_insert_with(|| self.owner(monitor, &threads, memory));
            // Another one by now, or none: what was read as its owner may be anybody. Or it was just given to him.
            if pending(thread, memory) != Some(monitor) || owner == Some(thread) {
                continue;
            }
            let owner_tid = owner.and_then(|owner| self.id(owner, memory)).unwrap_or(0);
            if let Some(waiter_tid) = self.id(thread, memory) {
                waits.push(MonitorWait { waiter_tid, owner_tid, monitor });
            }
        }
        Some(waits)
    }

    fn threads(&self, memory: &mut Memory<'_>) -> Option<Vec<u64>> {
        let layout = &self.layout;
        let list = number(layout.list, memory).filter(|list| *list != 0)?;
        let mut length = [0; 4];
        memory(list.wrapping_add(layout.list_length), &mut length)?;
        let length = u32::from_le_bytes(length).min(THREADS_MAX);
        let first = number(list.wrapping_add(layout.list_threads), memory)?;
        let mut bytes = vec![0; length as usize * 8];
        memory(first, &mut bytes)?;
        Some(bytes.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
    }

    /// The thread that has a monitor: named itself, by its number, or by a lock record on its stack.
    fn owner(&self, monitor: u64, threads: &[u64], memory: &mut Memory<'_>) -> Option<u64> {
        let layout = &self.layout;
        let owner = number(monitor.wrapping_add(layout.owner), memory).filter(|it| *it != 0)?;
        if owner <= NAMELESS_MAX {
            return None;
        }
        if threads.contains(&owner) {
            return Some(owner);
        }
        threads.iter().copied().find(|thread| {
            let mut word = |offset: u64| number(thread.wrapping_add(offset), memory);
            let is_its_number =
                layout.owner_number.is_some_and(|offset| word(offset) == Some(owner));
            let base = word(layout.stack_base).unwrap_or(0);
            let bytes = word(layout.stack_bytes).unwrap_or(0);
            is_its_number || (base.saturating_sub(bytes)..base).contains(&owner)
        })
    }

    /// The thread id inside the process's own namespace. Read each time: places are used again by other threads.
    fn id(&self, thread: u64, memory: &mut Memory<'_>) -> Option<u32> {
        let os_thread = number(thread.wrapping_add(self.layout.os_thread), memory)?;
        let mut id = [0; 4];
        memory(os_thread.wrapping_add(self.layout.thread_id), &mut id)?;
        Some(u32_at(&id, 0))
    }
}
