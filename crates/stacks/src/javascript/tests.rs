//! An engine's tables, a frame and its function on memory that is made up, as V8 lays them out.
//!
//! Owns the layout of that memory, which is none of a real release's: what is read must come from the tables alone. Must not:
//! need a JavaScript program; live looks at some are the field's.

use super::tables::{FIRST, Tables};
use super::{BLOCK_BYTES, Blocks, JavaScript};
use holdup_reason::facts::UserFrame;
use std::collections::HashMap;

const FRAME: u64 = 0x7000;
const FUNCTION: u64 = 0x2_0000;
const SHARED: u64 = 0x2_1000;
const SCOPE: u64 = 0x2_2000;
const SCRIPT: u64 = 0x2_3000;
const CONTEXT: u64 = 0x2_4000;
const UNDEFINED: u64 = 0x2_5000;
/// Maps lie at their type times this, from here on; texts one after the other.
const MAPS: u64 = 0x10_0000;
const TEXTS: u64 = 0x80_0000;

const ONE_BYTE: u64 = 8;
const TWO_BYTES: u64 = 0;

const ENTRIES: &[(&str, i32)] = &[
    (FIRST, -24),
    ("v8dbg_off_fp_context", -16),
    ("v8dbg_TaggedSize", 8),
    ("v8dbg_SmiValueShift", 1),
    ("v8dbg_SmiShiftSize", 31),
    ("v8dbg_HeapObjectTag", 1),
    ("v8dbg_HeapObjectTagMask", 3),
    ("v8dbg_class_HeapObject__map__Map", 0),
    ("v8dbg_class_Map__instance_type__uint16_t", 4),
    ("v8dbg_type_JSFunction__JS_FUNCTION_TYPE", 2000),
    ("v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 300),
    ("v8dbg_type_Script__SCRIPT_TYPE", 301),
    ("v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", 302),
    ("v8dbg_type_Oddball__ODDBALL_TYPE", 131),
    ("v8dbg_class_JSFunction__shared__SharedFunctionInfo", 40),
    ("v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_", 48),
    ("v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_", 56),
    ("v8dbg_class_Script__name__Object", 24),
    ("v8dbg_class_Script__source__Object", 32),
    ("v8dbg_scopeinfo_idx_ncontextlocals", 2),
    ("v8dbg_scopeinfo_idx_first_vars", 3),
    ("v8dbg_FirstNonstringType", 128),
    ("v8dbg_StringRepresentationMask", 7),
    ("v8dbg_StringEncodingMask", 8),
    ("v8dbg_OneByteStringTag", 8),
    ("v8dbg_SeqStringTag", 0),
    ("v8dbg_ConsStringTag", 1),
    ("v8dbg_SlicedStringTag", 3),
    ("v8dbg_ThinStringTag", 5),
    ("v8dbg_class_String__length__int32_t", 12),
    ("v8dbg_class_SeqOneByteString__chars__char", 16),
    ("v8dbg_class_SeqTwoByteString__chars__char", 16),
    ("v8dbg_class_ConsString__first__String", 16),
    ("v8dbg_class_ConsString__second__String", 24),
    ("v8dbg_class_SlicedString__parent__String", 16),
    ("v8dbg_class_SlicedString__offset__SMI", 24),
    ("v8dbg_class_ThinString__actual__String", 16),
];

/// Memory byte by byte: what was never written cannot be read.
#[derive(Default)]
struct Memory {
    bytes: HashMap<u64, u8>,
    texts: u64,
}

fn number(value: u64) -> u64 {
    value << 32
}

impl Memory {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.bytes.extend((at..).zip(bytes.iter().copied()));
    }

    fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    fn pointer(&mut self, at: u64, to: u64) {
        self.word(at, to + 1);
    }

    /// An object of a type.
    fn object(&mut self, at: u64, kind: u64) -> u64 {
        let map = MAPS + kind * 16;
        self.put(map + 4, &(kind as u16).to_le_bytes());
        self.pointer(at, map);
        at
    }

    fn text_of(&mut self, form: u64, length: usize) -> u64 {
        self.texts += 1;
        let at = self.object(TEXTS + self.texts * 0x1000, form);
        self.put(at + 12, &(length as u32).to_le_bytes());
        at
    }

    fn text(&mut self, text: &str) -> u64 {
        let at = self.text_of(ONE_BYTE, text.len());
        self.put(at + 16, text.as_bytes());
        at
    }

    /// Slots of the scope from its first on.
    fn scope(&mut self, slots: &[u64]) {
        for (at, slot) in (0..).zip(slots) {
            self.word(SCOPE + 8 + at * 8, *slot);
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        for (at, byte) in (at..).zip(into) {
            *byte = *self.bytes.get(&at)?;
        }
        Some(())
    }

    fn tables(&self, entries: &[(&str, i32)]) -> Option<Tables> {
        let known = |name: &str| entries.iter().find(|(known, _)| *known == name);
        Tables::read(&mut |name| known(name).map(|(_, value)| *value))
    }

    fn function(&self) -> Option<UserFrame> {
        let mut engine = JavaScript::of(self.tables(ENTRIES).unwrap());
        engine.function(FRAME, &mut |at, into: &mut [u8]| self.read(at, into))
    }
}

fn named(function: &str, module: &str, line: u32) -> Option<UserFrame> {
    Some(UserFrame { function: function.into(), module: module.into(), line })
}

/// `readConfig` of /srv/app/server.js, which begins behind two ends of lines.
fn program() -> Memory {
    let mut memory = Memory::default();
    for (at, kind) in [
        (FUNCTION, 2000),
        (SHARED, 300),
        (SCOPE, 302),
        (SCRIPT, 301),
        (CONTEXT, 400),
        (UNDEFINED, 131),
    ] {
        memory.object(at, kind);
    }
    memory.pointer(FRAME - 24, FUNCTION);
    memory.pointer(FRAME - 16, CONTEXT);
    memory.pointer(FUNCTION + 40, SHARED);
    memory.pointer(SHARED + 48, SCOPE);
    memory.pointer(SHARED + 56, SCRIPT);
    let (path, source) =
        (memory.text("/srv/app/server.js"), memory.text("// a\n\nfunction readConfig() {}\n"));
    memory.pointer(SCRIPT + 24, path);
    memory.pointer(SCRIPT + 32, source);
    let name = memory.text("readConfig");
    // Flags, parameters, one variable: its name and what is known of it.
    let variable = memory.text("path");
    let slots = [0, number(1), number(1), variable + 1, 0, name + 1, !0 << 32, UNDEFINED + 1];
    memory.scope(&[&slots[..], &[number(16), number(30), SCOPE + 1]].concat());
    memory
}

#[test]
fn a_frame_is_named_after_its_function_its_script_and_the_line_that_it_begins_on() {
    assert_eq!(program().function(), named("readConfig", "server.js", 3));
}

#[test]
fn an_engine_that_lacks_an_entry_is_not_read() {
    let memory = program();
    assert!(memory.tables(ENTRIES).is_some());
    for missing in 0..ENTRIES.len() {
        let rest = [&ENTRIES[..missing], &ENTRIES[missing + 1..]].concat();
        assert!(memory.tables(&rest).is_none(), "{}", ENTRIES[missing].0);
    }
    let narrow = ENTRIES.iter().map(|(name, value)| match *name {
        "v8dbg_TaggedSize" => (*name, 4),
        _ => (*name, *value),
    });
    assert!(memory.tables(&narrow.collect::<Vec<_>>()).is_none(), "compressed pointers");
    let array = [ENTRIES, &[("v8dbg_parent_ScopeInfo__FixedArray", 0)]].concat();
    assert!(memory.tables(&array).is_none(), "an old release");
}

#[test]
fn what_has_another_type_is_no_function() {
    for (at, kind) in [(FUNCTION, 400), (SHARED, 400), (SCRIPT, 131)] {
        let mut memory = program();
        memory.object(at, kind);
        assert_eq!(memory.function(), None, "{at:x}");
    }
    let mut memory = program();
    memory.word(FRAME - 16, number(5));
    assert_eq!(memory.function(), None, "a frame of the engine's own");
    memory.pointer(FRAME - 16, CONTEXT);
    memory.word(FRAME - 24, 0x2_0001_0000);
    assert_eq!(memory.function(), None, "no pointer");
    memory.pointer(FRAME - 24, 0x6_0000);
    assert_eq!(memory.function(), None, "memory that is not there");
}

#[test]
fn functions_without_a_name_have_the_one_that_was_made_up_or_none() {
    let mut memory = program();
    let (empty, inferred) = (memory.text(""), memory.text("Server.handle"));
    memory.scope(&[0, 0, 0, empty + 1, !0 << 32, inferred + 1, number(16), number(20), SCOPE + 1]);
    assert_eq!(memory.function(), named("Server.handle", "server.js", 3));
    memory.scope(&[0, 0, 0, empty + 1, !0 << 32, UNDEFINED + 1, number(16), number(20), SCOPE + 1]);
    assert_eq!(memory.function(), named("<anonymous>", "server.js", 3));
    memory.scope(&[0, 0, 0, number(0), number(31), SCOPE + 1]);
    assert_eq!(memory.function(), named("<module>", "server.js", 1));
    memory.scope(&[0, 0, 0, SCOPE + 1]);
    assert_eq!(memory.function(), named("<anonymous>", "server.js", 0), "no place");
    memory.scope(&[0, 0, number(1 << 20), 0]);
    assert_eq!(memory.function(), named("<anonymous>", "server.js", 0), "no scope is so large");
    let name = memory.text("lazy");
    memory.pointer(SHARED + 48, name);
    assert_eq!(memory.function(), named("lazy", "server.js", 0), "a name alone");
}

#[test]
fn later_releases_have_the_place_before_the_variables() {
    let mut memory = program();
    let name = memory.text("readConfig");
    memory.scope(&[0, 0, 0, number(5), number(30), name + 1, !0 << 32, UNDEFINED + 1, SCOPE + 1]);
    let later = ENTRIES.iter().map(|(name, value)| match *name {
        "v8dbg_scopeinfo_idx_first_vars" => (*name, 5),
        _ => (*name, *value),
    });
    let tables = memory.tables(&later.collect::<Vec<_>>()).unwrap();
    let mut read = |at, into: &mut [u8]| memory.read(at, into);
    assert_eq!(
        JavaScript::of(tables).function(FRAME, &mut read),
        named("readConfig", "server.js", 2)
    );
}

#[test]
fn texts_are_read_in_every_form_that_has_an_end() {
    let mut memory = program();
    let (wide, folder, file) =
        (memory.text_of(TWO_BYTES, 2), memory.text("/srv/"), memory.text("xx-app.js-xx"));
    memory.put(wide + 16, &[0x17, 0x04, b'.', 0]);
    let slice = memory.text_of(ONE_BYTE | 3, 6);
    memory.pointer(slice + 16, file);
    memory.word(slice + 24, number(3));
    let thin = memory.text_of(ONE_BYTE | 5, 6);
    memory.pointer(thin + 16, slice);
    let inner = memory.text_of(1, 8);
    memory.pointer(inner + 16, wide);
    memory.pointer(inner + 24, thin);
    let cons = memory.text_of(1, 13);
    memory.pointer(cons + 16, folder);
    memory.pointer(cons + 24, inner);
    memory.pointer(SCRIPT + 24, cons);
    assert_eq!(memory.function(), named("readConfig", "\u{417}.app.js", 3));
    memory.word(slice + 24, number(9));
    assert_eq!(memory.function(), None, "a part beyond the end");
    memory.pointer(cons + 16, cons);
    assert_eq!(memory.function(), None, "a text of itself");
    let long = memory.text_of(ONE_BYTE, 1 << 30);
    memory.pointer(SCRIPT + 24, long);
    assert_eq!(memory.function(), None, "too long");
}

#[test]
fn a_script_that_is_too_long_has_no_lines() {
    let mut memory = program();
    memory.scope(&[0, 0, 0, number(1 << 30), number(1 << 30), SCOPE + 1]);
    assert_eq!(memory.function(), named("<anonymous>", "server.js", 0));
}

#[test]
fn scripts_of_nodes_own_stand_under_its_name() {
    let cases = [
        ("node:internal/fs/sync", "node:internal/fs/sync"),
        ("internal/modules/cjs/loader.js", "node:internal/modules/cjs/loader"),
        ("fs.js", "node:fs"),
        ("file:///srv/app/main.mjs", "main.mjs"),
        ("/srv/app/node_modules/pg/lib/client.js", "client.js"),
        ("[eval]", "[eval]"),
        ("evalmachine.<anonymous>", "evalmachine.<anonymous>"),
    ];
    for (path, wanted) in cases {
        assert_eq!(super::file_name(path), wanted);
    }
}

#[test]
fn memory_is_read_once_block_by_block_and_what_crosses_a_block_as_it_stands() {
    let mut memory = Memory::default();
    memory.put(0x4000, &[7; 2 * BLOCK_BYTES]);
    let (mut blocks, mut reads) = (Blocks::default(), 0);
    let mut read = |at: u64, length: usize| {
        let mut into = vec![0; length];
        let mut counted = |at: u64, into: &mut [u8]| {
            reads += 1;
            memory.read(at, into)
        };
        blocks.read(at, &mut into, &mut counted)?;
        Some((into, reads))
    };
    assert_eq!(read(0x4008, 8), Some((vec![7; 8], 1)));
    assert_eq!(read(0x43f8, 8), Some((vec![7; 8], 1)));
    assert_eq!(read(0x43fc, 8), Some((vec![7; 8], 2)));
    assert_eq!(read(0x4000, 2 * BLOCK_BYTES), Some((vec![7; 2 * BLOCK_BYTES], 3)));
    assert_eq!(read(0x9000, 8), None);
}
