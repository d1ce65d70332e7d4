//! What objects of V8 hold: read as they lie in memory, and believed by their type.
//!
//! Owns pointers and small numbers in slots, texts of every form that names have, what a scope says of its function, and the
//! number of a line. A collection may move objects while they are read, so every length and every way is bounded, and what does
//! not fit is none. Must not: know frames (mod.rs).

use super::tables::{Strings, Tables};
use crate::called::Memory;
use crate::elf::{u16_at, u32_at, u64_at};

/// Letters of a name or a path.
const LETTERS_MAX: u64 = 400;
/// Strings that one is made of, and steps to what it stands for.
const PIECES_MAX: usize = 16;
const SLOT_BYTES: u64 = 8;
/// Variables of a function's scope.
const LOCALS_MAX: u64 = 1 << 16;
/// Slots behind the variables in which a scope says who it is of.
const NAMING_SLOTS: u64 = 6;

/// The objects of an engine.
pub(super) struct Heap<'a, 'm> {
    pub tables: &'a Tables,
    pub memory: &'a mut Memory<'m>,
}

/// What a scope says of its function.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// None of a function without a name.
    pub name: Option<String>,
    /// Letters of the script before it.
    pub begins_at: Option<u64>,
}

/// A string in memory.
struct Text {
    form: u64,
    is_wide: bool,
    length: u64,
}

impl Heap<'_, '_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.memory)(at, &mut bytes)?;
        Some(u64_at(&bytes, 0))
    }

    fn object(&self, word: u64) -> Option<u64> {
        let Tables { object_tag, object_tag_mask, .. } = *self.tables;
        let is_object = word & object_tag_mask == object_tag;
        is_object.then(|| word.wrapping_sub(object_tag)).filter(|at| *at != 0)
    }

    /// A small number, which is never negative where it is asked for.
    fn number(&self, word: u64) -> Option<u64> {
        let is_one = word & self.tables.object_tag == 0 && word >> 63 == 0;
        is_one.then(|| word >> self.tables.number_shift)
    }

    /// The object that a slot leads to.
    pub(super) fn object_at(&mut self, slot: u64) -> Option<u64> {
        let word = self.word(slot)?;
        self.object(word)
    }

    /// The type of an object.
    pub(super) fn kind(&mut self, object: u64) -> Option<u64> {
        let map = self.object_at(object.wrapping_add(self.tables.map))?;
        let mut bytes = [0; 2];
        (self.memory)(map.wrapping_add(self.tables.instance_type), &mut bytes)?;
        Some(u64::from(u16_at(&bytes, 0)))
    }

    /// The object in a slot of another, if it is of this type.
    pub(super) fn of_type(&mut self, object: u64, offset: u64, kind: u64) -> Option<u64> {
        let found = self.object_at(object.wrapping_add(offset))?;
        (self.kind(found)? == kind).then_some(found)
    }

    fn text_head(&mut self, object: u64) -> Option<Text> {
        let kind = self.kind(object)?;
        let strings = &self.tables.strings;
        if kind >= strings.first_other_type {
            return None;
        }
        let Strings { form_mask, width_mask, one_byte, length, .. } = *strings;
        let mut bytes = [0; 4];
        (self.memory)(object.wrapping_add(length), &mut bytes)?;
        let length = u64::from(u32_at(&bytes, 0));
        Some(Text { form: kind & form_mask, is_wide: kind & width_mask != one_byte, length })
    }

    /// A string; none if it is none, is kept outside of the heap, or is too long for a name.
    pub(super) fn text(&mut self, object: u64) -> Option<String> {
        let strings = &self.tables.strings;
        let (mut letters, mut open, mut passed): (Vec<u16>, _, _) = (Vec::new(), vec![object], 0);
        while let Some(at) = open.pop() {
            passed += 1;
            let text = self.text_head(at).filter(|_| passed <= PIECES_MAX)?;
            if text.length > LETTERS_MAX {
                return None;
            }
            let mut slot = |offset: u64| self.object_at(at.wrapping_add(offset));
            if text.form == strings.cons {
                let (first, second) = (slot(strings.cons_first)?, slot(strings.cons_second)?);
                open.extend([second, first]);
            } else if text.form == strings.thin {
                open.push(slot(strings.thin_actual)?);
            } else if text.form == strings.sliced {
                let (at, from) = self.parent(at)?;
                letters.extend(self.letters(at, from, text.length)?);
            } else {
                letters.extend(self.letters(at, 0, text.length)?);
            }
            if letters.len() as u64 > LETTERS_MAX {
                return None;
            }
        }
        String::from_utf16(&letters).ok()
    }

    /// Of a part of a string: the string, and where in it the part begins.
    fn parent(&mut self, object: u64) -> Option<(u64, u64)> {
        let Strings { sliced_parent, sliced_offset, .. } = self.tables.strings;
        let parent = self.object_at(object.wrapping_add(sliced_parent))?;
        let offset = self.word(object.wrapping_add(sliced_offset))?;
        Some((parent, self.number(offset)?))
    }

    /// Letters of a string that lies in one piece.
    fn letters(&mut self, object: u64, from: u64, count: u64) -> Option<Vec<u16>> {
        let text = self.text_head(object)?;
        let strings = &self.tables.strings;
        let is_inside = from.checked_add(count).is_some_and(|end| end <= text.length);
        if text.form != strings.sequential || !is_inside {
            return None;
        }
        let (begin, size) = match text.is_wide {
            true => (strings.two_byte_letters, 2),
            false => (strings.one_byte_letters, 1),
        };
        let mut bytes = vec![0; usize::try_from(count * size).ok()?];
        (self.memory)(object.wrapping_add(begin).wrapping_add(from * size), &mut bytes)?;
        let letters = bytes.chunks_exact(size as usize);
        Some(
            letters
                .map(|of| u16::from(of[0]) | of.get(1).map_or(0, |it| u16::from(*it) << 8))
                .collect(),
        )
    }

    /// Who a function is: its name, or what its scope says.
    pub(super) fn scope(&mut self, shared: u64) -> Scope {
        let at = self.object_at(shared.wrapping_add(self.tables.shared_name));
        let Some(at) = at else { return Scope::default() };
        match self.kind(at) {
            Some(kind) if kind == self.tables.scope_type => self.read_scope(at).unwrap_or_default(),
            _ => Scope { name: self.text(at).filter(|name| !name.is_empty()), begins_at: None },
        }
    }

    /// Behind the variables stand the name of the function and a number, if it has one; the name that was made up for it, if
    /// that was needed, or undefined; and up to V8 12 where it begins and ends, which later stands before the variables.
    fn read_scope(&mut self, scope: u64) -> Option<Scope> {
        const PLACE_SLOT: u64 = 3;
        let Tables { scope_locals, scope_first, no_value_type, ref strings, .. } = *self.tables;
        let slot = |index: u64| scope.wrapping_add(SLOT_BYTES + index * SLOT_BYTES);
        let count = self.word(slot(scope_locals))?;
        let count = self.number(count).filter(|count| *count <= LOCALS_MAX)?;
        // Names of many variables are in a table of their own.
        let first = self.object_at(slot(scope_first)).and_then(|first| self.text_head(first));
        let taken = if count == 0 || first.is_some() { 2 * count } else { 1 + count };
        let (mut name, mut numbers) = (None, Vec::new());
        for at in 0..NAMING_SLOTS {
            let Some(word) = self.word(slot(scope_first + taken + at)) else { break };
            match self.object(word) {
                None => numbers.push(self.number(word)),
                Some(object) => {
                    // A scope or another object stands behind all that.
                    let kind = self.kind(object).filter(|_| numbers.len() < 2);
                    let Some(kind) = kind
                        .filter(|kind| *kind < strings.first_other_type || *kind == no_value_type)
                    else {
                        break;
                    };
                    numbers.clear();
                    let text = (kind < strings.first_other_type).then(|| self.text(object));
                    name = name.or(text.flatten().filter(|text| !text.is_empty()));
                }
            }
        }
        let place = match scope_first > PLACE_SLOT {
            true => {
                let (begin, end) = (self.word(slot(PLACE_SLOT))?, self.word(slot(PLACE_SLOT + 1))?);
                Some((self.number(begin), self.number(end)))
            }
            false => numbers.last_chunk::<2>().map(|[begin, end]| (*begin, *end)),
        };
        let begins_at = match place {
            Some((Some(begin), Some(end))) if begin <= end => Some(begin),
            _ => None,
        };
        Some(Scope { name, begins_at })
    }

    /// The line of a script that a letter stands on; none if so much of it may not be read.
    pub(super) fn line(&mut self, script: u64, position: u64, bytes_left: &mut u64) -> Option<u32> {
        const PIECE_LETTERS: u64 = 16 << 10;
        let strings = &self.tables.strings;
        let mut source = self.object_at(script.wrapping_add(self.tables.script_source))?;
        let mut from = 0;
        // A string that was put together and then made one piece keeps its form.
        for _ in 0..PIECES_MAX {
            let form = self.text_head(source)?.form;
            if form == strings.cons {
                source = self.object_at(source.wrapping_add(strings.cons_first))?;
            } else if form == strings.thin {
                source = self.object_at(source.wrapping_add(strings.thin_actual))?;
            } else if form == strings.sliced {
                (source, from) = self.parent(source)?;
            } else {
                break;
            }
        }
        *bytes_left = bytes_left.checked_sub(position.checked_mul(2)?)?;
        let mut line = 1;
        for begin in (0..position).step_by(PIECE_LETTERS as usize) {
            let count = PIECE_LETTERS.min(position - begin);
            let letters = self.letters(source, from.checked_add(begin)?, count)?;
            line += letters.iter().filter(|letter| **letter == u16::from(b'\n')).count() as u32;
        }
        Some(line)
    }
}
