//! What a frame, its code and a text of CPython hold: read as they lie in memory, and believed by their type.
//!
//! Owns what is remembered of code: its name and file, as long as the code at that address has the same ones (memory is used
//! again), and the line of each place in it. Must not: follow frames (mod.rs).

use super::layouts::*;
use super::lines;
use crate::called::Memory;
use crate::elf::{u32_at, u64_at};
use holdup_reason::facts::UserFrame;
use std::collections::HashMap;

/// Letters of a name or a path.
const LETTERS_MAX: u64 = 400;
/// Bytes of a table of lines; a longer one belongs to a module of thousands of lines, and has none.
const LINES_BYTES_MAX: u64 = 32 << 10;
/// Code that is remembered, and lines.
const REMEMBERED_MAX: usize = 4096;

/// A pointer; none if it is null or cannot be read.
pub(super) fn word(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes)?;
    Some(u64::from_le_bytes(bytes)).filter(|word| *word != 0)
}

/// A frame as it was found.
#[derive(Debug)]
pub(super) struct Frame {
    code: u64,
    instruction: u64,
    /// The frame that called it.
    pub previous: Option<u64>,
    /// It is none of the program's.
    pub is_the_interpreters: bool,
}

/// Reads a frame in one piece.
pub(super) fn frame(layout: &Layout, at: u64, memory: &mut Memory<'_>) -> Option<Frame> {
    let of_8 = [layout.frame_code, layout.frame_previous];
    let instruction_bytes = if layout.lines == Lines::Places { 8 } else { 4 };
    let ends = of_8.map(|offset| offset + 8).into_iter();
    let ends = ends.chain([layout.frame_instruction + instruction_bytes]);
    let end = ends.chain(layout.frame_owner.map(|offset| offset + 1)).max()?;
    let bytes = piece(at, end, memory)?;
    let word = |offset: u64| u64_at(&bytes, offset as usize);
    let instruction = match layout.lines {
        Lines::Places => word(layout.frame_instruction),
        Lines::Steps => u64::from(u32_at(&bytes, layout.frame_instruction as usize)),
        Lines::Stretches => u64::from(u32_at(&bytes, layout.frame_instruction as usize)) * 2,
    };
    let owner = layout.frame_owner.map(|offset| bytes[offset as usize]);
    Some(Frame {
        code: word(layout.frame_code),
        instruction,
        previous: Some(word(layout.frame_previous)).filter(|previous| *previous != 0),
        is_the_interpreters: owner == Some(OWNED_BY_INTERPRETER),
    })
}

/// Bytes in one piece; what is larger than any of these structs is none of them.
fn piece(at: u64, length: u64, memory: &mut Memory<'_>) -> Option<Vec<u8>> {
    const PIECE_BYTES_MAX: u64 = 4096;
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= PIECE_BYTES_MAX)?];
    memory(at, &mut bytes)?;
    Some(bytes)
}

/// Code that was met: where its name and file are, and what they say.
struct Known {
    texts: (u64, u64),
    frame: UserFrame,
}

/// The code of an interpreter, as far as it was met.
pub(super) struct Objects {
    layout: Layout,
    code_type: u64,
    text_type: u64,
    known: HashMap<u64, Known>,
    lines: HashMap<(u64, u64), u32>,
}

impl Objects {
    /// Of which nothing was met yet.
    pub(super) fn new(layout: Layout, code_type: u64, text_type: u64) -> Self {
        Self { layout, code_type, text_type, known: HashMap::new(), lines: HashMap::new() }
    }

    /// The function of a frame, and its line; none if its code is no code.
    pub(super) fn function(&mut self, frame: &Frame, memory: &mut Memory<'_>) -> Option<UserFrame> {
        let layout = self.layout;
        let all = [layout.code_file, layout.code_name, layout.code_lines, layout.code_first_line];
        let code = piece(frame.code, all.into_iter().max()? + 8, memory)?;
        let word = |offset: u64| u64_at(&code, offset as usize);
        if word(OBJECT_TYPE) != self.code_type {
            return None;
        }
        let texts = (word(layout.code_name), word(layout.code_file));
        if self.known.get(&frame.code).is_none_or(|known| known.texts != texts) {
            let frame_of_it = UserFrame {
                function: self.text(texts.0, memory)?,
                module: file_name(&self.text(texts.1, memory)?),
                ..UserFrame::default()
            };
            if self.known.len() >= REMEMBERED_MAX {
                self.known.clear();
            }
            self.lines.retain(|(of, _), _| *of != frame.code);
            self.known.insert(frame.code, Known { texts, frame: frame_of_it });
        }
        let first = u32_at(&code, layout.code_first_line as usize);
        let line = self.line(frame, word(layout.code_lines), first, memory);
        let known = &self.known.get(&frame.code)?.frame;
        Some(UserFrame { line, ..known.clone() })
    }

    fn line(&mut self, frame: &Frame, table: u64, first: u32, memory: &mut Memory<'_>) -> u32 {
        let begin = match self.layout.lines {
            Lines::Places => frame.code.wrapping_add(self.layout.code_begin),
            Lines::Steps | Lines::Stretches => 0,
        };
        let at = frame.instruction.wrapping_sub(begin);
        if let Some(known) = self.lines.get(&(frame.code, at)) {
            return *known;
        }
        // What has not begun yet stands before its first instruction.
        const BYTES_MAX: u64 = 1 << 24;
        let line = match at < BYTES_MAX {
            true => {
                row(table, memory).map(|table| lines::line(self.layout.lines, &table, first, at))
            }
            false => Some(first),
        };
        if self.lines.len() >= REMEMBERED_MAX {
            self.lines.clear();
        }
        *self.lines.entry((frame.code, at)).or_insert(line.unwrap_or(0))
    }

    /// A text object, if it is compact, as names and paths are.
    fn text(&self, object: u64, memory: &mut Memory<'_>) -> Option<String> {
        const COMPACT: u8 = 1 << 5;
        const PLAIN: u8 = 1 << 6;
        let head = piece(object, TEXT_STATE + 4, memory)?;
        let length = u64_at(&head, TEXT_LENGTH as usize);
        let state = head[TEXT_STATE as usize];
        let is_one = u64_at(&head, OBJECT_TYPE as usize) == self.text_type;
        if !is_one || state & COMPACT == 0 || length == 0 || length > LETTERS_MAX {
            return None;
        }
        let (begin, size) = match (state & PLAIN != 0, state >> 2 & 7) {
            (true, _) => (self.layout.text_plain, 1),
            (false, size @ (1 | 2 | 4)) => (self.layout.text_wide, u64::from(size)),
            (false, _) => return None,
        };
        let bytes = piece(object.wrapping_add(begin), length * size, memory)?;
        let letter = |bytes: &[u8]| {
            let (low, high) = (bytes[0], bytes.get(1).copied().unwrap_or(0));
            let rest = bytes
                .get(2..4)
                .map_or(0, |rest| u32::from(rest[0]) << 16 | u32::from(rest[1]) << 24);
            char::from_u32(u32::from(low) | u32::from(high) << 8 | rest)
        };
        bytes.chunks_exact(size as usize).map(letter).collect()
    }
}

/// The bytes of a row of them.
fn row(object: u64, memory: &mut Memory<'_>) -> Option<Vec<u8>> {
    let length = word(object.wrapping_add(BYTES_LENGTH), memory)?;
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= LINES_BYTES_MAX)?];
    memory(object.wrapping_add(BYTES), &mut bytes)?;
    Some(bytes)
}

/// The last part of a path; what belongs to Python itself stands under its name.
pub(super) fn file_name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let own = path.starts_with("<frozen")
        || path.contains("/lib/python3") && !path.contains("-packages/");
    if own { format!("python3/{last}") } else { last.to_string() }
}
