//! Frames of a Java thread on memory that is made up, as HotSpot lays them out: its anchor, an interpreter, a code cache with one
//! compiled method and the code that C++ calls Java by, classes with their constants.
//!
//! Must not: need a Java program, or know where a real release has its fields.

use super::frames::{Frames, Layout};
use super::tests::{FIELDS, Memory, java, stack, symbol, thread};

const STUBS_POINTER: u64 = 0xa000;
const STUBS: u64 = 0xa100;
const INTERPRETER: u64 = 0x50_0000;
const HEAPS_POINTER: u64 = 0xa200;
const HEAPS: u64 = 0xa300;
const HEAP: u64 = 0xa400;
const SEGMENTS: u64 = 0x60_0000;
const CODE: u64 = 0x70_0000;
const TYPE_TABLE: u64 = 0xb000;
const TYPE_NAMES: u64 = 0xb100;
const METHODS: u64 = 0x80_0000;
/// Bytes of the head of the constants.
const HEAD: u64 = 0x48;

const MORE_FIELDS: &[(&str, &str, u64, u64)] = &[
    ("JavaThread", "_anchor", 0x100, 0),
    ("JavaFrameAnchor", "_last_Java_sp", 0, 0),
    ("JavaFrameAnchor", "_last_Java_pc", 8, 0),
    ("JavaFrameAnchor", "_last_Java_fp", 16, 0),
    ("AbstractInterpreter", "_code", 0, STUBS_POINTER),
    ("StubQueue", "_stub_buffer", 8, 0),
    ("StubQueue", "_buffer_limit", 16, 0),
    ("CodeCache", "_heaps", 0, HEAPS_POINTER),
    ("GrowableArrayBase", "_len", 0, 0),
    ("GrowableArray<int>", "_data", 8, 0),
    ("CodeHeap", "_memory", 0, 0),
    ("CodeHeap", "_segmap", 0x40, 0),
    ("CodeHeap", "_log2_segment_size", 0x80, 0),
    ("VirtualSpace", "_low", 16, 0),
    ("VirtualSpace", "_high", 24, 0),
    ("CodeBlob", "_name", 8, 0),
    ("CodeBlob", "_frame_size", 16, 0),
    ("nmethod", "_method", 24, 0),
    ("Method", "_constMethod", 8, 0),
    ("ConstMethod", "_constants", 8, 0),
    ("ConstMethod", "_name_index", 34, 0),
    ("ConstantPool", "_pool_holder", 24, 0),
    ("ConstantPool", "_source_file_name_index", 54, 0),
    ("Klass", "_name", 24, 0),
    ("InstanceKlass", "_constants", 32, 0),
    ("Symbol", "_length", 4, 0),
    ("Symbol", "_body", 6, 0),
];

fn text(memory: &mut Memory, at: u64, text: &str) -> u64 {
    memory.put(at + 4, &(text.len() as u16).to_le_bytes());
    memory.put(at + 6, text.as_bytes());
    at
}

/// A method, its class and their names.
fn method(memory: &mut Memory, index: u64, class: &str, name: &str) -> u64 {
    let at = METHODS + index * 0x1000;
    let (fixed, constants, holder) = (at + 0x100, at + 0x200, at + 0x400);
    memory.word(at + 8, fixed);
    memory.word(fixed + 8, constants);
    memory.put(fixed + 34, &3_u16.to_le_bytes());
    memory.word(constants + 24, holder);
    memory.put(constants + 54, &4_u16.to_le_bytes());
    let name = text(memory, at + 0x500, name);
    let file = text(memory, at + 0x600, "Till.java");
    let class = text(memory, at + 0x700, class);
    memory.word(constants + HEAD + 3 * 8, name);
    memory.word(constants + HEAD + 4 * 8, file);
    memory.word(holder + 24, class);
    memory.word(holder + 32, constants);
    at
}

/// A piece of code of two segments of 64 bytes, the second of which says how far back the first is.
fn code(memory: &mut Memory, segment: u64, name: &str, frame_words: u32, method: u64) -> u64 {
    let head = CODE + segment * 64 + 16;
    let at = METHODS + 0x10_0000 + segment * 0x100;
    memory.put(at, &[0; 64]);
    memory.put(at, name.as_bytes());
    memory.word(head + 8, at);
    memory.put(head + 16, &frame_words.to_le_bytes());
    memory.word(head + 24, method);
    memory.put(SEGMENTS + segment, &[0, 1]);
    head + 70
}

/// Thread 102 waits in a native method that was interpreted; a compiled method called it, which C++ called.
fn program() -> Memory {
    let mut memory = java(&[FIELDS, MORE_FIELDS].concat());
    for (index, value) in [TYPE_TABLE, 0, 8, 16].into_iter().enumerate() {
        memory.word(0x1100 + index as u64 * 8, value);
    }
    for (index, (name, bytes)) in
        [("ConstantPool", HEAD), ("HeapBlock", 16)].into_iter().enumerate()
    {
        let place = TYPE_NAMES + index as u64 * 64;
        memory.put(place, &[0; 64]);
        memory.put(place, name.as_bytes());
        memory.word(TYPE_TABLE + index as u64 * 16, place);
        memory.word(TYPE_TABLE + index as u64 * 16 + 8, bytes);
    }
    memory.put(TYPE_TABLE + 32, &[0; 16]);
    memory.word(STUBS_POINTER, STUBS);
    memory.word(STUBS + 8, INTERPRETER);
    memory.put(STUBS + 16, &0x1000_u32.to_le_bytes());
    memory.word(HEAPS_POINTER, HEAPS);
    memory.put(HEAPS, &1_u32.to_le_bytes());
    memory.word(HEAPS + 8, HEAPS + 0x20);
    memory.word(HEAPS + 0x20, HEAP);
    memory.word(HEAP + 16, CODE);
    memory.word(HEAP + 24, CODE + 0x1000);
    memory.word(HEAP + 0x40 + 16, SEGMENTS);
    memory.put(HEAP + 0x80, &6_u32.to_le_bytes());
    memory.put(SEGMENTS, &[0xff; 64]);
    let inner = method(&mut memory, 0, "java/lang/Thread", "sleep");
    let outer = method(&mut memory, 1, "shop/Till", "take");
    let compiled = code(&mut memory, 4, "nmethod", 6, outer);
    let entry = code(&mut memory, 8, "StubRoutines (1)", 0, 0);
    let (first, second) = (stack(1) + 0x3000, stack(1) + 0x3080);
    let frame = first + 0x40;
    memory.word(thread(1) + 0x100, first);
    memory.word(thread(1) + 0x108, INTERPRETER + 0x20);
    memory.word(thread(1) + 0x110, frame);
    // Method, last and caller's stack pointer, frame pointer, return address.
    for (at, word) in [inner, 0, second, 0x7777, compiled].into_iter().enumerate() {
        memory.word(frame - 24 + at as u64 * 8, word);
    }
    memory.word(second + 6 * 8 - 16, 0x8888);
    memory.word(second + 6 * 8 - 8, entry);
    memory
}

fn methods(memory: &Memory, thread: u32) -> Option<Vec<String>> {
    let mut read = |at: u64, into: &mut [u8]| memory.read(at, into);
    let layout = Layout::find(0, &mut symbol, &mut read)?;
    let frames = Frames::open(&layout, 0, &mut read)?.of(thread, &mut read);
    let said =
        |frame: &holdup_reason::facts::UserFrame| format!("{} {}", frame.function, frame.module);
    Some(frames.iter().map(said).collect())
}

#[test]
fn interpreted_and_compiled_frames_are_followed_to_where_java_was_called() {
    let memory = program();
    let both = ["Thread.sleep jdk/Till.java", "shop.Till.take Till.java"].map(String::from);
    assert_eq!(methods(&memory, 102), Some(both.to_vec()));
    assert_eq!(methods(&memory, 101), Some(vec![]), "nothing is known of its stack");
    assert_eq!(methods(&memory, 999), Some(vec![]), "no thread of the machine");
}

#[test]
fn a_thread_that_runs_java_has_no_last_frame() {
    let mut memory = program();
    memory.word(thread(1) + 0x100, 0);
    assert_eq!(methods(&memory, 102), Some(vec![]));
}

#[test]
fn a_place_that_only_the_call_wrote_down_lies_below_the_stack_pointer() {
    let mut memory = program();
    let compiled = CODE + 4 * 64 + 16 + 70;
    let second = stack(1) + 0x3080;
    memory.word(thread(1) + 0x100, second);
    memory.word(thread(1) + 0x108, 0);
    memory.word(second - 8, compiled);
    assert_eq!(methods(&memory, 102), Some(vec!["shop.Till.take Till.java".to_string()]));
}

#[test]
fn what_leads_nowhere_is_not_named() {
    // The class does not lead back to the constants.
    let mut memory = program();
    memory.word(METHODS + 0x400 + 32, 0x1234);
    assert_eq!(methods(&memory, 102), Some(vec![]));
    // A name with a control character.
    let mut memory = program();
    text(&mut memory, METHODS + 0x1000 + 0x500, "ta\u{1b}e");
    assert_eq!(methods(&memory, 102), Some(vec!["Thread.sleep jdk/Till.java".to_string()]));
    // A frame that is its own caller.
    let mut memory = program();
    memory.word(stack(1) + 0x3040 - 8, stack(1) + 0x3000);
    assert_eq!(methods(&memory, 102), Some(vec!["Thread.sleep jdk/Till.java".to_string()]));
    // A part of the code cache where nothing is.
    let mut memory = program();
    memory.put(SEGMENTS, &[0xff; 64]);
    assert_eq!(methods(&memory, 102), Some(vec!["Thread.sleep jdk/Till.java".to_string()]));
}

#[test]
fn a_machine_whose_table_lacks_a_field_is_not_read() {
    let mut memory = program();
    assert!(methods(&memory, 102).is_some());
    memory.put(TYPE_NAMES, b"Other\0");
    assert_eq!(methods(&memory, 102), None, "the size of the constants");
    assert_eq!(methods(&java(FIELDS), 102), None);
}

#[test]
fn a_library_that_was_moved_is_read_by_the_same_layout() {
    let memory = program();
    let mut read = |at: u64, into: &mut [u8]| memory.read(at, into);
    // In its own process the library was 0x1000 further, where all that it points to was moved as well.
    let layout = Layout::find(0x1000, &mut symbol, &mut read).unwrap();
    assert!(Frames::open(&layout, 0, &mut read).is_none());
    assert!(Frames::open(&layout, 0x1000, &mut read).is_some());
}

#[test]
fn frames_of_a_thread_that_went_on_meanwhile_are_dropped() {
    let memory = program();
    let mut still = |at: u64, into: &mut [u8]| memory.read(at, into);
    let layout = Layout::find(0, &mut symbol, &mut still).unwrap();
    let mut frames = Frames::open(&layout, 0, &mut still).unwrap();
    let mut readings = 0;
    let mut moving = |at: u64, into: &mut [u8]| {
        memory.read(at, into)?;
        readings += usize::from(at == thread(1) + 0x100);
        into[0] ^= u8::from(at == thread(1) + 0x100 && readings > 1);
        Some(())
    };
    assert!(frames.of(102, &mut moving).is_empty());
    assert_eq!(frames.of(102, &mut still).len(), 2);
}
