//! The functions of a Python program: CPython 3.11 keeps a list of its threads, and each thread its frames.
//!
//! Owns where 3.11 has them, as that release lays its structs out (Include/cpython and Include/internal); they are the same in
//! all its patch releases. Other releases have others, and none is guessed: their stacks have the interpreter's own
//! functions only. Pure over whatever reads the process's memory, which may hold anything: every list is bounded, and
//! a name is taken only if it is plain text. Must not: read values of variables.

use super::called::Memory;
use holdup_reason::facts::UserFrame;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The symbol that all begins at.
pub const RUNTIME: &str = "_PyRuntime";
const INTERPRETERS: u64 = 40;
const INTERPRETER_NEXT: u64 = 0;
const INTERPRETER_THREADS: u64 = 16;
const THREAD_NEXT: u64 = 8;
const THREAD_CFRAME: u64 = 56;
const THREAD_ID: u64 = 160;
const CFRAME_CURRENT: u64 = 8;
const FRAME_CODE: u64 = 32;
const FRAME_PREVIOUS: u64 = 48;
const CODE_FILE: u64 = 112;
const CODE_NAME: u64 = 128;
const TEXT_LENGTH: usize = 16;
const TEXT_STATE: usize = 32;
const TEXT: u64 = 48;
/// Of a text's state: its letters follow at once, and are ASCII.
const PLAIN: u8 = 0b110_0000;

const INTERPRETERS_MAX: usize = 8;
const THREADS_MAX: usize = 1024;
const FRAMES_MAX: usize = 32;
const TEXT_BYTES_MAX: u64 = 400;

/// Whether a file holds an interpreter of this release.
pub fn is_interpreter(file: &str) -> bool {
    ["python3.11", "libpython3.11.so"].iter().any(|start| file.starts_with(start))
}

/// The threads of an interpreter, by the number that the kernel gave each inside its container.
#[derive(Default)]
pub struct Python {
    threads: HashMap<u32, u64>,
    functions: HashMap<u64, UserFrame>,
}

impl Python {
    /// Reads who there is.
    pub fn read(runtime: u64, memory: &mut Memory<'_>) -> Self {
        let mut threads = HashMap::new();
        let mut interpreter = word(runtime.wrapping_add(INTERPRETERS), memory);
        for _ in 0..INTERPRETERS_MAX {
            let Some(at) = interpreter else { break };
            let mut thread = word(at.wrapping_add(INTERPRETER_THREADS), memory);
            while let Some(at) = thread.filter(|_| threads.len() < THREADS_MAX) {
                let Some(id) = word(at.wrapping_add(THREAD_ID), memory) else { break };
                // Met again: the list changed while it was read.
                if threads.insert(id as u32, at).is_some() {
                    break;
                }
                thread = word(at.wrapping_add(THREAD_NEXT), memory);
            }
            interpreter = word(at.wrapping_add(INTERPRETER_NEXT), memory);
        }
        Self { threads, functions: HashMap::new() }
    }

    /// The functions that a thread is in, the innermost first.
    pub fn frames(&mut self, id: u32, memory: &mut Memory<'_>) -> Vec<UserFrame> {
        let Some(thread) = self.threads.get(&id) else { return Vec::new() };
        let mut frames = Vec::new();
        let mut at = word(thread.wrapping_add(THREAD_CFRAME), memory)
            .and_then(|cframe| word(cframe.wrapping_add(CFRAME_CURRENT), memory));
        while let Some(frame) = at.filter(|_| frames.len() < FRAMES_MAX) {
            let Some(code) = word(frame.wrapping_add(FRAME_CODE), memory) else { break };
            let known = match self.functions.entry(code) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match function(code, memory) {
                    Some(function) => place.insert(function),
                    None => break,
                },
            };
            frames.push(known.clone());
            at = word(frame.wrapping_add(FRAME_PREVIOUS), memory);
        }
        frames
    }
}

fn function(code: u64, memory: &mut Memory<'_>) -> Option<UserFrame> {
    let name = word(code.wrapping_add(CODE_NAME), memory)?;
    let file = word(code.wrapping_add(CODE_FILE), memory)?;
    Some(UserFrame { function: text(name, memory)?, module: file_name(&text(file, memory)?) })
}

/// The last part of a path; what belongs to Python itself stands under its name.
fn file_name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let own = path.starts_with("<frozen")
        || path.contains("/lib/python3") && !path.contains("-packages/");
    if own { format!("python3/{last}") } else { last.to_string() }
}

/// A text object, if it is plain.
fn text(object: u64, memory: &mut Memory<'_>) -> Option<String> {
    let mut head = [0; TEXT as usize];
    memory(object, &mut head)?;
    let length = super::elf::u64_at(&head, TEXT_LENGTH);
    if head[TEXT_STATE] & PLAIN != PLAIN || length == 0 || length > TEXT_BYTES_MAX {
        return None;
    }
    let mut letters = vec![0; length as usize];
    memory(object.wrapping_add(TEXT), &mut letters)?;
    String::from_utf8(letters).ok()
}

/// A pointer; none if it is null or cannot be read.
fn word(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes)?;
    Some(u64::from_le_bytes(bytes)).filter(|word| *word != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpreter with one thread, number 77, which is in `Cart.add` of /srv/shop.py.
    fn interpreter() -> Vec<u8> {
        let mut image = vec![0_u8; 0x1000];
        let words = [
            (0x100 + INTERPRETERS, 0x200),
            (0x200 + INTERPRETER_THREADS, 0x300),
            (0x300 + THREAD_ID, 77),
            (0x300 + THREAD_CFRAME, 0x400),
            (0x400 + CFRAME_CURRENT, 0x500),
            (0x500 + FRAME_CODE, 0x600),
            (0x600 + CODE_NAME, 0x700),
            (0x600 + CODE_FILE, 0x800),
            (0x700 + TEXT_LENGTH as u64, 8),
            (0x700 + TEXT_STATE as u64, 0x64),
            (0x800 + TEXT_LENGTH as u64, 12),
            (0x800 + TEXT_STATE as u64, 0x64),
        ];
        for (at, word) in words {
            image[at as usize..at as usize + 8].copy_from_slice(&u64::to_le_bytes(word));
        }
        image[0x730..0x738].copy_from_slice(b"Cart.add");
        image[0x830..0x83c].copy_from_slice(b"/srv/shop.py");
        image
    }

    fn frames(image: &[u8]) -> Vec<UserFrame> {
        let mut memory = |at: u64, into: &mut [u8]| {
            let from = usize::try_from(at).ok()?;
            into.copy_from_slice(image.get(from..from.checked_add(into.len())?)?);
            Some(())
        };
        Python::read(0x100, &mut memory).frames(77, &mut memory)
    }

    #[test]
    fn a_thread_has_the_functions_of_its_program() {
        let frames = frames(&interpreter());
        assert_eq!(frames.len(), 1);
        assert_eq!((&*frames[0].function, &*frames[0].module), ("Cart.add", "shop.py"));
        assert_eq!(file_name("/usr/lib/python3.11/threading.py"), "python3/threading.py");
        assert_eq!(file_name("/usr/lib/python3/dist-packages/gunicorn/app.py"), "app.py");
    }

    #[test]
    fn lists_that_lead_back_to_themselves_end() {
        let mut image = interpreter();
        let mut put = |at: u64, word: u64| {
            image[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
        };
        put(0x200 + INTERPRETER_NEXT, 0x200);
        put(0x300 + THREAD_NEXT, 0x300);
        put(0x500 + FRAME_PREVIOUS, 0x500);
        assert_eq!(frames(&image).len(), FRAMES_MAX);
        image[0x720] = 0;
        assert!(frames(&image).is_empty(), "a name that is no plain text");
    }
}
