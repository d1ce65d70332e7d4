//! The machine's table and lists on memory that is made up, as HotSpot lays them out.
//!
//! Owns the layout of that memory: a table of fields, a list of three threads, one monitor. Must not: need a Java program, or
//! know where a real release has its fields; live looks at programs are the lab's and the field's.

use super::machine::Machine;
use super::may_be_java;
use holdup_reason::facts::MonitorWait;
use std::collections::HashMap;

const SYMBOLS: u64 = 0x1000;
const TYPE_SYMBOLS: u64 = 0x1100;
const TABLE: u64 = 0x2000;
const NAMES: u64 = 0x4000;
const LIST_POINTER: u64 = 0x8000;
const LIST: u64 = 0x8100;
const ARRAY: u64 = 0x8200;
const MONITOR: u64 = 0x9000;
const STRIDE: u64 = 48;

/// Of each thread 0x10000 bytes: what the machine keeps of it, of the system's thread, and its stack.
pub(super) const fn thread(index: u64) -> u64 {
    0x10_0000 + index * 0x1_0000
}

pub(super) const fn stack(index: u64) -> u64 {
    thread(index) + 0x8000
}

/// Where a symbol is: the tables, then their columns.
pub(super) fn symbol(name: &str) -> Option<u64> {
    let of_types = name.starts_with("gHotSpotVMType");
    let columns = match of_types {
        true => &["TypeN", "Size", "ArrayS"][..],
        false => &["TypeN", "Field", "OffsetO", "Address", "ArrayS"],
    };
    let column = columns.iter().position(|it| name.contains(&format!("Entry{it}")));
    let index = if name.ends_with('s') { 0 } else { 1 + column? as u64 };
    Some(if of_types { TYPE_SYMBOLS } else { SYMBOLS } + index * 8)
}

/// Memory byte by byte: what was never written cannot be read.
#[derive(Default)]
pub(super) struct Memory(HashMap<u64, u8>);

impl Memory {
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        self.0.extend((at..).zip(bytes.iter().copied()));
    }

    pub(super) fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        for (at, byte) in (at..).zip(into) {
            *byte = *self.0.get(&at)?;
        }
        Some(())
    }

    fn machine(&self) -> Option<Machine> {
        Machine::find(&mut symbol, &mut |at, into: &mut [u8]| self.read(at, into))
    }

    fn waits(&self) -> Option<Vec<MonitorWait>> {
        self.machine()?.waits(&mut |at, into: &mut [u8]| self.read(at, into))
    }
}

/// A machine with three threads, 101 to 103.
pub(super) fn java(fields: &[(&str, &str, u64, u64)]) -> Memory {
    let mut memory = Memory::default();
    // type, field, offset and address, in another order than the entries' own.
    for (index, value) in [TABLE, 0, 8, 32, 40, STRIDE].into_iter().enumerate() {
        memory.word(SYMBOLS + index as u64 * 8, value);
    }
    let mut names: HashMap<String, u64> = HashMap::new();
    let mut at = TABLE;
    for (kind, field, offset, address) in fields {
        memory.put(at, &[0; STRIDE as usize]);
        for (column, text) in [(0, kind), (8, field)] {
            let next = NAMES + names.len() as u64 * 64;
            let place = *names.entry((*text).into()).or_insert(next);
            memory.put(place, &[0; 64]);
            memory.put(place, text.as_bytes());
            memory.word(at + column, place);
        }
        memory.word(at + 32, *offset);
        memory.word(at + 40, *address);
        at += STRIDE;
    }
    memory.put(at, &[0; STRIDE as usize]);
    memory.word(LIST_POINTER, LIST);
    memory.put(LIST + 8, &3_u32.to_le_bytes());
    memory.word(LIST + 16, ARRAY);
    for index in 0..3 {
        let (own, system) = (thread(index), thread(index) + 0x1000);
        memory.word(ARRAY + index * 8, own);
        memory.word(own + 0x20, 0);
        memory.word(own + 0x28, system);
        memory.word(own + 0x30, stack(index) + 0x4000);
        memory.word(own + 0x38, 0x4000);
        memory.put(system + 4, &(101 + index as u32).to_le_bytes());
    }
    memory.word(MONITOR + 0x18, 0);
    memory
}

pub(super) const FIELDS: &[(&str, &str, u64, u64)] = &[
    ("Klass", "_length", 99, 0),
    ("ThreadsSMRSupport", "_java_thread_list", 0, LIST_POINTER),
    ("ThreadsList", "_length", 8, 0),
    ("ThreadsList", "_threads", 16, 0),
    ("JavaThread", "_current_pending_monitor", 0x20, 0),
    ("Thread", "_osthread", 0x28, 0),
    ("JavaThread", "_stack_base", 0x30, 0),
    ("JavaThread", "_stack_size", 0x38, 0),
    ("OSThread", "_thread_id", 4, 0),
    ("ObjectMonitor", "_owner", 0x18, 0),
];

#[test]
fn an_older_release_has_a_chain_of_threads() {
    let older = FIELDS.iter().filter(|(kind, ..)| !kind.starts_with("Threads")).copied();
    let chain = [("Threads", "_thread_list", 0, LIST_POINTER), ("JavaThread", "_next", 0x40, 0)];
    let fields: Vec<_> = older.chain(chain).collect();
    let mut memory = java(&fields);
    memory.word(LIST_POINTER, thread(0));
    for (at, next) in [(0, thread(1)), (1, thread(2)), (2, 0)] {
        memory.word(thread(at) + 0x40, next);
    }
    memory.word(thread(0) + 0x20, MONITOR);
    memory.word(MONITOR + 0x18, thread(2));
    assert_eq!(memory.waits(), Some(vec![wait(101, 103)]));
    memory.word(thread(2) + 0x40, thread(0));
    assert!(memory.waits().is_some(), "a circle ends");
}

fn wait(waiter_tid: u32, owner_tid: u32) -> MonitorWait {
    MonitorWait { waiter_tid, owner_tid, monitor: MONITOR }
}

#[test]
fn the_owner_of_a_monitor_is_named_by_its_own_thread_id() {
    let mut memory = java(FIELDS);
    assert_eq!(memory.waits(), Some(vec![]), "nobody waits");
    memory.word(thread(0) + 0x20, MONITOR);
    memory.word(thread(2) + 0x20, MONITOR);
    memory.word(MONITOR + 0x18, thread(1));
    assert_eq!(memory.waits(), Some(vec![wait(101, 102), wait(103, 102)]));
}

#[test]
fn an_owner_who_entered_alone_is_known_by_his_lock_record() {
    let mut memory = java(FIELDS);
    memory.word(thread(0) + 0x20, MONITOR);
    memory.word(MONITOR + 0x18, stack(2) + 0x3f00);
    assert_eq!(memory.waits(), Some(vec![wait(101, 103)]));
    memory.word(MONITOR + 0x18, 1);
    assert_eq!(memory.waits(), Some(vec![wait(101, 0)]), "an owner without a name");
}

#[test]
fn a_machine_without_these_fields_is_not_read() {
    assert!(java(FIELDS).machine().is_some());
    assert!(java(&FIELDS[..FIELDS.len() - 1]).machine().is_none());
    assert!(Memory::default().machine().is_none());
}

#[test]
fn a_java_program_is_known_by_its_path() {
    assert!(may_be_java("/usr/lib/jvm/java-17-openjdk-amd64/bin/java"));
    assert!(may_be_java("/opt/app/jre/bin/service") && !may_be_java("/usr/bin/node"));
}
