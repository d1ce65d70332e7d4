//! Interpreters as they lie in memory, one for each release, with one thread that is in `Cart.add` of /srv/shop.py.
//!
//! An image is written by the same layout that it is read by, so what these tests hold is the walk, not the offsets: those are
//! of each release's headers and were tried on the releases themselves. Must not need an interpreter.

use super::objects::file_name;
use super::*;

const RUNTIME: u64 = 0x1000;
const INTERPRETER: u64 = 0x10000;
const THREAD: u64 = 0x20000;
const DESCRIPTOR: u64 = 0x21000;
const BEHIND: u64 = 0x22000;
const FRAME: u64 = 0x23000;
const OUTER: u64 = 0x23800;
const CODE: u64 = 0x24000;
const NAME: u64 = 0x25000;
const FILE: u64 = 0x26000;
const LINES: u64 = 0x27000;
const LOCK: u64 = 0x28000;
const CODE_TYPE: u64 = 0x29000;
const TEXT_TYPE: u64 = 0x2a000;
const VERSION: u64 = 0x2b000;
const NUMBER: u32 = 77;

struct Image {
    bytes: Vec<u8>,
    layout: Layout,
    lock: u64,
}

impl Image {
    fn put(&mut self, at: u64, word: u64) {
        self.bytes[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let from = usize::try_from(at).ok()?;
        into.copy_from_slice(self.bytes.get(from..from.checked_add(into.len())?)?);
        Some(())
    }

    fn put_text(&mut self, at: u64, text: &str) {
        const COMPACT_PLAIN_OF_ONE_BYTE: u64 = 0b110_0100;
        self.put(at + OBJECT_TYPE, TEXT_TYPE);
        self.put(at + TEXT_LENGTH, text.len() as u64);
        self.put(at + TEXT_STATE, COMPACT_PLAIN_OF_ONE_BYTE);
        let begin = (at + self.layout.text_plain) as usize;
        self.bytes[begin..begin + text.len()].copy_from_slice(text.as_bytes());
    }

    fn of(layout: Layout) -> Self {
        let lock = match layout.lock {
            LockPlace::Runtime(offset) => RUNTIME + offset,
            LockPlace::Interpreter(_) => LOCK,
        };
        let mut image = Self { bytes: vec![0; 0x30000], layout, lock };
        image.put(RUNTIME + layout.interpreters, INTERPRETER);
        image.put(INTERPRETER + layout.interpreter_threads, THREAD);
        if let LockPlace::Interpreter(offset) = layout.lock {
            image.put(INTERPRETER + offset, LOCK);
        }
        image.put(lock + LOCK_LAST_HOLDER, THREAD);
        match layout.thread_number {
            Number::Kernel(offset) => image.put(THREAD + offset, u64::from(NUMBER)),
            Number::Library(offset) => {
                image.put(THREAD + offset, DESCRIPTOR);
                image.put(DESCRIPTOR + 16, DESCRIPTOR);
                let tid = if cfg!(target_arch = "x86_64") { 720 } else { 208 };
                image.put(DESCRIPTOR + tid, u64::from(NUMBER));
            }
        }
        match layout.thread_frame_in {
            Some(inside) => {
                image.put(THREAD + layout.thread_frame, BEHIND);
                image.put(BEHIND + inside, FRAME);
            }
            None => image.put(THREAD + layout.thread_frame, FRAME),
        }
        image.put(FRAME + layout.frame_code, CODE);
        if let Some(owner) = layout.frame_owner {
            // A frame of the interpreter's own lies between.
            image.put(FRAME + layout.frame_previous, OUTER);
            image.bytes[(OUTER + owner) as usize] = OWNED_BY_INTERPRETER;
        }
        let begin = if layout.lines == Lines::Places { CODE + layout.code_begin } else { 0 };
        let instruction = layout.frame_instruction as usize + FRAME as usize;
        let at = match layout.lines {
            Lines::Stretches => 1,
            _ => begin + 2,
        };
        image.bytes[instruction..instruction + 4].copy_from_slice(&(at as u32).to_le_bytes());
        image.put(CODE + OBJECT_TYPE, CODE_TYPE);
        let first = (CODE + layout.code_first_line) as usize;
        image.bytes[first] = 40;
        image.put(CODE + layout.code_name, NAME);
        image.put(CODE + layout.code_file, FILE);
        image.put(CODE + layout.code_lines, LINES);
        // From the second byte on it is the line after the first.
        let table: &[u8] = match layout.lines {
            Lines::Steps => &[2, 1],
            Lines::Stretches => &[2, 0, 8, 1],
            Lines::Places => &[0x80, 0, 0x80 | 11 << 3 | 3, 0, 0],
        };
        image.put(LINES + BYTES_LENGTH, table.len() as u64);
        let begin = (LINES + BYTES) as usize;
        image.bytes[begin..begin + table.len()].copy_from_slice(table);
        image.put_text(NAME, "Cart.add");
        image.put_text(FILE, "/srv/shop.py");
        image
    }

    fn runtime(&self) -> Runtime {
        Runtime { at: RUNTIME, layout: self.layout, code_type: CODE_TYPE, text_type: TEXT_TYPE }
    }

    fn frames(&self) -> Vec<UserFrame> {
        let mut memory = |at: u64, into: &mut [u8]| self.read(at, into);
        Python::read(self.runtime(), &mut memory).frames(NUMBER, &mut memory)
    }

    fn lock(&self) -> Option<Lock> {
        self.runtime().lock(&mut |at: u64, into: &mut [u8]| self.read(at, into))
    }
}

/// One of each release that is written down; 3.13 is as it describes itself.
fn all() -> Vec<Layout> {
    let mut all: Vec<Layout> = (9..=12).filter_map(layouts::of).collect();
    all.extend(layouts::described(&layouts::tests::description()));
    all
}

#[test]
fn a_thread_has_the_functions_of_its_program_in_each_release() {
    assert_eq!(all().len(), 5);
    for layout in all() {
        let frames = Image::of(layout).frames();
        let (function, module) = ("Cart.add".into(), "shop.py".into());
        assert_eq!(frames, [UserFrame { function, module, line: 41 }], "{layout:?}");
    }
    assert_eq!(file_name("/usr/lib/python3.11/threading.py"), "python3/threading.py");
    assert_eq!(file_name("/usr/lib/python3/dist-packages/gunicorn/app.py"), "app.py");
}

#[test]
fn the_lock_says_which_thread_has_it_in_each_release() {
    for layout in all() {
        let mut image = Image::of(layout);
        let (begin, end) = (image.lock + LOCK_WORDS, image.lock + LOCK_END);
        let free = Lock { begin, end, holder: None, is_collecting: false };
        assert_eq!(image.lock(), Some(free), "it had it before");
        image.put(image.lock + LOCK_TAKEN, 1);
        image.put(INTERPRETER + layout.interpreter_collecting, 1);
        let holder = Some((THREAD, NUMBER));
        assert_eq!(image.lock(), Some(Lock { begin, end, holder, is_collecting: true }));
        image.bytes.truncate(RUNTIME as usize);
        assert_eq!(image.lock(), None);
    }
}

#[test]
fn what_is_no_code_and_no_text_has_no_name() {
    for layout in all() {
        let mut image = Image::of(layout);
        image.put(CODE + OBJECT_TYPE, TEXT_TYPE);
        assert!(image.frames().is_empty(), "no code");
        let mut image = Image::of(layout);
        image.put(NAME + OBJECT_TYPE, CODE_TYPE);
        assert!(image.frames().is_empty(), "no text");
        image.put(NAME + OBJECT_TYPE, TEXT_TYPE);
        image.put(NAME + TEXT_LENGTH, 1 << 40);
        assert!(image.frames().is_empty(), "no length");
    }
}

#[test]
fn letters_of_all_languages_are_read() {
    let mut image = Image::of(all()[3]);
    const COMPACT_OF_TWO_BYTES: u64 = 0b010_1000;
    image.put(NAME + TEXT_STATE, COMPACT_OF_TWO_BYTES);
    image.put(NAME + TEXT_LENGTH, 2);
    image.put(NAME + image.layout.text_wide, 0x0434_0430);
    assert_eq!(image.frames()[0].function, "ад");
}

#[test]
fn lists_that_lead_back_to_themselves_end() {
    for layout in all() {
        let mut image = Image::of(layout);
        image.put(INTERPRETER + layout.interpreter_next, INTERPRETER);
        image.put(THREAD + layout.thread_next, THREAD);
        image.put(FRAME + layout.frame_previous, FRAME);
        assert_eq!(image.frames().len(), FRAMES_MAX);
        assert!(image.lock().is_some());
    }
}

#[test]
fn a_release_is_known_by_its_number_or_its_files_name() {
    let image = |version: u64| {
        let mut image = Image::of(all()[3]);
        image.put(VERSION, version);
        image
    };
    let symbols = [Some(RUNTIME), Some(CODE_TYPE), Some(TEXT_TYPE), Some(VERSION)];
    let minor = |version: u64, symbols: [Option<u64>; 4], by_name| {
        let image = image(version);
        let mut memory = |at: u64, into: &mut [u8]| image.read(at, into);
        Runtime::of(symbols, by_name, &mut memory).map(|runtime| runtime.layout.minor)
    };
    assert_eq!(minor(0x030c_01f0, symbols, None), Some(12));
    assert_eq!(minor(0x030c_01f0, symbols, Some(9)), Some(12), "what it says itself");
    assert_eq!(minor(0x030c_00a3, symbols, None), None, "before its release");
    assert_eq!(minor(0x030e_00f0, symbols, None), None, "a release that is not known");
    let [runtime, code, text, _] = symbols;
    assert_eq!(minor(0, [runtime, code, text, None], Some(10)), Some(10));
    assert_eq!(minor(0, [runtime, code, text, None], Some(12)), None, "it would say so");
    assert_eq!(minor(0x030c_01f0, [runtime, None, text, symbols[3]], None), None);
    let by_name =
        ["python3.9", "libpython3.10.so.1.0", "libpython3.so", "python3"].map(release_by_name);
    assert_eq!(by_name, [Some(9), Some(10), None, None]);
}
