//! Where each release of CPython keeps what is read of it: one table of byte offsets, and the way to read them of releases that
//! describe themselves.
//!
//! A release's structs are the same in all its patch releases. Those of 3.9 to 3.12 are written down here, by offsetof in
//! each release's own headers (Include/internal/pycore_runtime.h, pycore_interp.h, pycore_gil.h, pycore_frame.h, pycore_gc.h and
//! Include/cpython/code.h, pystate.h, frameobject.h, unicodeobject.h), on 64 bits. From 3.13 on `_PyRuntime` begins with a table
//! of its own (`_Py_DebugOffsets`), which is believed as far as it is a release's that is known here. A build without
//! the interpreter lock ("free-threaded") has other objects and is left out. Must not: read memory (mod.rs).

use crate::elf::u64_at;

/// How the line of an instruction is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// `co_lnotab`: steps of bytes and lines (Objects/lnotab_notes.txt).
    Steps,
    /// PEP 626: stretches of bytes with a step of lines; the frame counts instructions of two bytes.
    Stretches,
    /// PEP 657: places (Objects/locations.md); the frame has the instruction's address.
    Places,
}

/// How a thread is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// As the kernel numbers it.
    Kernel(u64),
    /// As the C library does: the address of its descriptor (`pthread_self`).
    Library(u64),
}

/// Where the lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockPlace {
    /// In the runtime.
    Runtime(u64),
    /// Behind a pointer of the interpreter's.
    Interpreter(u64),
}

/// Offsets of one release, bytes; those of structs that are reached by a pointer from their begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Minor release: 12 of 3.12.
    pub minor: u8,
    /// Of the runtime: the list of interpreters.
    pub interpreters: u64,
    /// The lock.
    pub lock: LockPlace,
    /// Of an interpreter: the next, its threads, and whether it collects garbage.
    pub interpreter_next: u64,
    /// See above.
    pub interpreter_threads: u64,
    /// See above.
    pub interpreter_collecting: u64,
    /// Of a thread: the next, its number, and its innermost frame.
    pub thread_next: u64,
    /// See above.
    pub thread_number: Number,
    /// See above.
    pub thread_frame: u64,
    /// The frame stands behind one more pointer, so far in what that leads to.
    pub thread_frame_in: Option<u64>,
    /// Of a frame: its code, its caller, where it is, and to whom it belongs.
    pub frame_code: u64,
    /// See above.
    pub frame_previous: u64,
    /// See above.
    pub frame_instruction: u64,
    /// See above; frames of the interpreter itself have no function.
    pub frame_owner: Option<u64>,
    /// Of code: file, name, table of lines, first line, and first instruction.
    pub code_file: u64,
    /// See above.
    pub code_name: u64,
    /// See above.
    pub code_lines: u64,
    /// See above.
    pub code_first_line: u64,
    /// See above.
    pub code_begin: u64,
    /// The form of its lines.
    pub lines: Lines,
    /// Of a text: bytes before letters that are plain, and before others.
    pub text_plain: u64,
    /// See above.
    pub text_wide: u64,
}

/// Any object: where its type is.
pub(super) const OBJECT_TYPE: u64 = 8;
/// A text: how many letters, and how they are kept.
pub(super) const TEXT_LENGTH: u64 = 16;
/// See above.
pub(super) const TEXT_STATE: u64 = 32;
/// A row of bytes: how many, and where they begin.
pub(super) const BYTES_LENGTH: u64 = 16;
/// See above.
pub(super) const BYTES: u64 = 32;
/// A frame that is the interpreter's own (FRAME_OWNED_BY_CSTACK).
pub(super) const OWNED_BY_INTERPRETER: u8 = 3;

/// The lock (`struct _gil_runtime_state`, the same in all releases): who had it last, and whether it is taken.
pub(super) const LOCK_LAST_HOLDER: u64 = 8;
/// See above.
pub(super) const LOCK_TAKEN: u64 = 16;
/// Its words that threads sleep on: two pairs of a condition and a mutex.
pub(super) const LOCK_WORDS: u64 = 32;
/// Behind them.
pub(super) const LOCK_END: u64 = LOCK_WORDS
    + 2 * (size_of::<libc::pthread_cond_t>() + size_of::<libc::pthread_mutex_t>()) as u64;

const OF_3_9: Layout = Layout {
    minor: 9,
    interpreters: 32,
    lock: LockPlace::Runtime(352),
    interpreter_next: 0,
    interpreter_threads: 8,
    interpreter_collecting: 616 + 200,
    thread_next: 8,
    thread_number: Number::Library(176),
    thread_frame: 24,
    thread_frame_in: None,
    frame_code: 32,
    frame_previous: 24,
    frame_instruction: 104,
    frame_owner: None,
    code_file: 104,
    code_name: 112,
    code_lines: 120,
    code_first_line: 40,
    code_begin: 0,
    lines: Lines::Steps,
    text_plain: 48,
    text_wide: 72,
};

const OF_3_10: Layout =
    Layout { minor: 10, frame_instruction: 96, lines: Lines::Stretches, ..OF_3_9 };

const OF_3_11: Layout = Layout {
    minor: 11,
    interpreters: 40,
    lock: LockPlace::Runtime(360),
    interpreter_next: 0,
    interpreter_threads: 16,
    interpreter_collecting: 648 + 200,
    thread_next: 8,
    thread_number: Number::Kernel(160),
    thread_frame: 56,
    thread_frame_in: Some(8),
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: 56,
    frame_owner: None,
    code_file: 112,
    code_name: 128,
    code_lines: 136,
    code_first_line: 72,
    code_begin: 184,
    lines: Lines::Places,
    text_plain: 48,
    text_wide: 72,
};

const OF_3_12: Layout = Layout {
    minor: 12,
    lock: LockPlace::Interpreter(384),
    interpreter_threads: 72,
    interpreter_collecting: 112 + 200,
    thread_number: Number::Kernel(144),
    thread_frame_in: Some(0),
    frame_code: 0,
    frame_previous: 8,
    frame_owner: Some(70),
    code_first_line: 68,
    code_begin: 192,
    text_plain: 40,
    text_wide: 56,
    ..OF_3_11
};

/// What the runtime of a self-describing release begins with.
pub(super) const DESCRIPTION_BYTES: usize = 584;
const COOKIE: &[u8] = b"xdebugpy";
/// No struct is larger.
const OFFSET_MAX: u64 = 1 << 20;

/// The layout of a release that is written down here.
pub(super) fn of(minor: u8) -> Option<Layout> {
    [OF_3_9, OF_3_10, OF_3_11, OF_3_12].into_iter().find(|layout| layout.minor == minor)
}

/// The layout that the runtime of 3.13 describes itself.
pub(super) fn described(runtime: &[u8]) -> Option<Layout> {
    const MINOR: u8 = 13;
    let at = |offset: usize| u64_at(runtime, offset);
    let (version, free_threaded) = (at(8), at(16));
    let is_its = runtime.len() >= DESCRIPTION_BYTES && runtime.starts_with(COOKIE);
    if !is_its || version >> 16 != 0x0300 | u64::from(MINOR) || free_threaded != 0 {
        return None;
    }
    // What is believed here without being described is the same: the kinds of texts and bytes.
    let fixed = [
        (360, OBJECT_TYPE),
        (520, BYTES_LENGTH),
        (528, BYTES),
        (544, TEXT_STATE),
        (552, TEXT_LENGTH),
        (560, OF_3_12.text_plain),
    ];
    if fixed.iter().any(|(offset, wanted)| at(*offset) != *wanted) {
        return None;
    }
    if (40..DESCRIPTION_BYTES).step_by(8).any(|offset| at(offset) > OFFSET_MAX) {
        return None;
    }
    Some(Layout {
        minor: MINOR,
        interpreters: at(40),
        interpreter_next: at(64),
        interpreter_threads: at(72),
        interpreter_collecting: at(80) + at(576),
        lock: LockPlace::Interpreter(at(112)),
        thread_next: at(168),
        thread_frame: at(184),
        thread_frame_in: None,
        thread_number: Number::Kernel(at(200)),
        frame_previous: at(232),
        frame_code: at(240),
        frame_instruction: at(248),
        frame_owner: Some(at(264)),
        code_file: at(280),
        code_name: at(296),
        code_lines: at(304),
        code_first_line: at(312),
        code_begin: at(344),
        ..OF_3_12
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As `_PyRuntime` of 3.13.0 begins, as far as it is read.
    pub(crate) fn description() -> Vec<u8> {
        let mut bytes = vec![0; DESCRIPTION_BYTES];
        bytes[..8].copy_from_slice(COOKIE);
        let words = [
            (8, 0x030d_00f0),
            (40, 632),
            (64, 7264),
            (72, 7344),
            (80, 7400),
            (112, 16),
            (168, 8),
            (184, 72),
            (200, 160),
            (232, 8),
            (240, 0),
            (248, 56),
            (264, 70),
            (280, 112),
            (296, 128),
            (304, 136),
            (312, 68),
            (344, 200),
            (360, 8),
            (520, 16),
            (528, 32),
            (544, 32),
            (552, 16),
            (560, 40),
            (576, 200),
        ];
        for (at, word) in words {
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
        }
        bytes
    }

    #[test]
    fn a_release_that_describes_itself_is_believed() {
        let layout = described(&description()).unwrap();
        assert_eq!((layout.minor, layout.interpreters, layout.thread_frame), (13, 632, 72));
        assert_eq!(layout.interpreter_collecting, 7600);
        assert_eq!((layout.code_name, layout.lock), (128, LockPlace::Interpreter(16)));
    }

    #[test]
    fn another_release_another_build_and_nonsense_are_not() {
        let with = |at: usize, word: u64| {
            let mut bytes = description();
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            described(&bytes)
        };
        assert!(with(0, 0).is_none(), "no description");
        assert!(with(8, 0x030e_00f0).is_none(), "3.14");
        assert!(with(16, 1).is_none(), "without the lock");
        assert!(with(184, u64::MAX).is_none(), "no offset");
        assert!(with(544, 40).is_none(), "other texts");
        assert!(described(&description()[..580]).is_none());
    }

    #[test]
    fn each_release_has_one_row() {
        let minors: Vec<u8> = (0..=20).filter_map(of).map(|layout| layout.minor).collect();
        assert_eq!(minors, [9, 10, 11, 12]);
    }
}
