//! From frame to frame: what the registers were in the caller.
//!
//! Owns one step, by a row of the tables or by the frame pointer, and the few operations that rows compute places with.
//! An expression has no jumps here, so it ends. Pure over whatever reads a word of the stack. Must not: know files or
//! names (reader.rs). Registers have the numbers of DWARF.

use super::rows::{Frame, Row, Saved};

const COUNT: usize = 33;

#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(super) const FRAME: u16 = 6;
    pub(super) const STACK: u16 = 7;
    pub(super) const LINK: Option<u16> = None;
    pub(super) const INSTRUCTION: Option<u16> = Some(16);
}
#[cfg(not(target_arch = "x86_64"))]
mod numbers {
    pub const FRAME: u16 = 29;
    pub const STACK: u16 = 31;
    pub const LINK: Option<u16> = Some(30);
    pub const INSTRUCTION: Option<u16> = None;
}
use numbers::{FRAME, INSTRUCTION, LINK, STACK};

/// Bits of an address of user space: above them arm64 may sign it.
const ADDRESS_BITS: u64 = if cfg!(target_arch = "x86_64") { u64::MAX } else { (1 << 48) - 1 };

/// Registers, as far as they are known.
#[derive(Debug, Clone)]
pub struct Registers {
    /// Where the code goes on.
    pub instruction: u64,
    values: [Option<u64>; COUNT],
}

/// Reads a word of the stack.
pub type Words<'a> = dyn FnMut(u64) -> Option<u64> + 'a;

/// What came of a step.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one step; a box would be an allocation for each frame"
)]
pub enum Step {
    /// The caller.
    Caller(Registers),
    /// Nobody called.
    End,
    /// It is not known who did.
    Lost,
}

impl Registers {
    /// As a thread left user space with them; a frame pointer of 0 is not known.
    pub fn new(instruction: u64, stack: u64, frame: u64, link: u64) -> Self {
        let mut values = [None; COUNT];
        values[usize::from(STACK)] = Some(stack);
        values[usize::from(FRAME)] = (frame != 0).then_some(frame);
        if let Some(number) = LINK {
            values[usize::from(number)] = Some(link);
        }
        Self { instruction, values }
    }

    fn get(&self, number: u16) -> Option<u64> {
        if INSTRUCTION == Some(number) {
            return Some(self.instruction);
        }
        *self.values.get(usize::from(number))?
    }

    /// The stack pointer.
    pub fn stack(&self) -> u64 {
        self.get(STACK).unwrap_or(0)
    }

    /// The frame pointer, if it is known.
    pub fn frame_pointer(&self) -> Option<u64> {
        self.get(FRAME)
    }

    /// How far from the frame the frame pointer points, where that is all that is missing for a step.
    pub fn lacks_frame_pointer(&self, row: &Row) -> Option<i64> {
        match row.frame {
            Frame::Register(FRAME, offset) if self.get(FRAME).is_none() => Some(offset),
            _ => None,
        }
    }

    /// The same with a frame pointer.
    pub fn with_frame_pointer(&self, frame: u64) -> Self {
        let mut known = self.clone();
        known.values[usize::from(FRAME)] = Some(frame);
        known
    }

    /// To the caller by what the tables say.
    pub fn step(&self, row: &Row, words: &mut Words<'_>) -> Step {
        let Some(frame) = self.frame(row, words) else { return Step::Lost };
        let mut caller = self.clone();
        caller.values[usize::from(STACK)] = Some(frame);
        let mut returns_to =
            LINK.filter(|link| *link == row.returns_by).and_then(|link| self.get(link));
        for (register, how) in &row.saved {
            let value = self.saved(how, frame, words);
            if *register == row.returns_by {
                if *how == Saved::Gone {
                    return Step::End;
                }
                returns_to = value;
            }
            if let Some(place) = caller.values.get_mut(usize::from(*register)) {
                *place = value;
            }
        }
        // A signal may have come on a stack of its own, which lies anywhere.
        let advances = frame > self.stack() || row.is_signal;
        let leaf = frame == self.stack() && LINK.is_some();
        match returns_to.map(|to| to & ADDRESS_BITS) {
            Some(0) => Step::End,
            Some(to) if advances || leaf && to != self.instruction => {
                caller.instruction = to;
                Step::Caller(caller)
            }
            _ => Step::Lost,
        }
    }

    fn frame(&self, row: &Row, words: &mut Words<'_>) -> Option<u64> {
        match &row.frame {
            Frame::Register(register, offset) => {
                Some(self.get(*register)?.wrapping_add_signed(*offset))
            }
            Frame::Expression(code) => self.compute(code, None, words),
        }
    }

    fn saved(&self, how: &Saved, frame: u64, words: &mut Words<'_>) -> Option<u64> {
        match how {
            Saved::At(offset) => words(frame.wrapping_add_signed(*offset)),
            Saved::Is(offset) => Some(frame.wrapping_add_signed(*offset)),
            Saved::In(register) => self.get(*register),
            Saved::AtComputed(code) => {
                let at = self.compute(code, Some(frame), words)?;
                words(at)
            }
            Saved::Computed(code) => self.compute(code, Some(frame), words),
            Saved::Gone => None,
        }
    }

    /// To the caller by the frame pointer, where code has no tables: what is compiled at run time, Go.
    pub fn step_by_frame(&self, words: &mut Words<'_>) -> Step {
        let (Some(frame), stack) = (self.get(FRAME), self.stack()) else { return Step::Lost };
        if frame < stack || !frame.is_multiple_of(8) {
            return Step::Lost;
        }
        let Some(to) = words(frame.wrapping_add(8)) else { return Step::Lost };
        let mut caller = self.clone();
        caller.instruction = to & ADDRESS_BITS;
        caller.values[usize::from(FRAME)] = words(frame);
        caller.values[usize::from(STACK)] = Some(frame.wrapping_add(16));
        if caller.instruction == 0 { Step::End } else { Step::Caller(caller) }
    }

    /// To the caller of a function that saved nothing yet: the word on top of the stack, or the link register.
    pub fn step_by_top(&self, words: &mut Words<'_>) -> Step {
        let mut caller = self.clone();
        let to = match LINK {
            Some(link) => self.get(link),
            None => {
                caller.values[usize::from(STACK)] = Some(self.stack().wrapping_add(8));
                words(self.stack())
            }
        };
        match to.map(|to| to & ADDRESS_BITS).filter(|to| *to != 0 && *to != self.instruction) {
            Some(to) => {
                caller.instruction = to;
                Step::Caller(caller)
            }
            None => Step::Lost,
        }
    }

    /// What an expression comes to: those operations that compilers and linkers use in tables, none of which jumps.
    // LONG FUNCTION: one arm an operation.
    fn compute(&self, code: &[u8], first: Option<u64>, words: &mut Words<'_>) -> Option<u64> {
        const DEPTH_MAX: usize = 32;
        let mut stack: Vec<u64> = first.into_iter().collect();
        let mut rest = code;
        while let Some((operation, behind)) = rest.split_first() {
            rest = behind;
            let value = match *operation {
                // deref
                0x06 => {
                    let at = stack.pop()?;
                    words(at)?
                }
                // const1u, const1s, const2u, const2s, const4u, const4s, const8u and const8s
                0x08 => number(&mut rest, 1)?,
                0x09 => number(&mut rest, 1)? as u8 as i8 as u64,
                0x0a => number(&mut rest, 2)?,
                0x0b => number(&mut rest, 2)? as u16 as i16 as u64,
                0x0c => number(&mut rest, 4)?,
                0x0d => number(&mut rest, 4)? as u32 as i32 as u64,
                0x0e | 0x0f => number(&mut rest, 8)?,
                // constu, consts
                0x10 => leb(&mut rest)?.0,
                0x11 => signed_leb(&mut rest)? as u64,
                // dup, drop, over
                0x12 => *stack.last()?,
                0x13 => {
                    stack.pop()?;
                    continue;
                }
                0x14 => *stack.get(stack.len().checked_sub(2)?)?,
                0x23 => stack.pop()?.wrapping_add(leb(&mut rest)?.0),
                0x1a | 0x1c | 0x1e | 0x21 | 0x22 | 0x24 | 0x25 | 0x27 | 0x29..=0x2e => {
                    let (right, left) = (stack.pop()?, stack.pop()?);
                    combined(*operation, left, right)
                }
                literal @ 0x30..=0x4f => u64::from(literal - 0x30),
                register @ 0x70..=0x8f => {
                    let offset = signed_leb(&mut rest)?;
                    self.get(u16::from(register - 0x70))?.wrapping_add_signed(offset)
                }
                0x96 => continue,
                _ => return None,
            };
            if stack.len() >= DEPTH_MAX {
                return None;
            }
            stack.push(value);
        }
        stack.pop()
    }
}

fn combined(operation: u8, left: u64, right: u64) -> u64 {
    let (signed_left, signed_right) = (left as i64, right as i64);
    let is = |yes: bool| u64::from(yes);
    match operation {
        0x1a => left & right,
        0x1c => left.wrapping_sub(right),
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(right as u32).unwrap_or(0),
        0x25 => left.checked_shr(right as u32).unwrap_or(0),
        0x27 => left ^ right,
        0x29 => is(left == right),
        0x2a => is(signed_left >= signed_right),
        0x2b => is(signed_left > signed_right),
        0x2c => is(signed_left <= signed_right),
        0x2d => is(signed_left < signed_right),
        _ => is(left != right),
    }
}

fn number(rest: &mut &[u8], length: usize) -> Option<u64> {
    let whole = *rest;
    let (own, behind) = whole.split_at_checked(length)?;
    *rest = behind;
    let mut word = [0; 8];
    word[..length].copy_from_slice(own);
    Some(u64::from_le_bytes(word))
}

/// A number of seven bits a byte, and how many bits it had.
fn leb(rest: &mut &[u8]) -> Option<(u64, u32)> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let whole = *rest;
        let (byte, behind) = whole.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((value, shift));
        }
    }
}

fn signed_leb(rest: &mut &[u8]) -> Option<i64> {
    let (value, bits) = leb(rest)?;
    let unused = 64_u32.saturating_sub(bits);
    Some(((value << unused) as i64) >> unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(code: &[u8]) -> Option<u64> {
        let registers = Registers::new(0x400_00b, 0x1000, 0x1100, 0);
        registers.compute(code, None, &mut |at| Some(at + 1))
    }

    #[test]
    fn places_are_computed_and_what_is_unknown_is_none() {
        // What linkers write for a stub: the stack pointer and 8, and 8 more behind its first instructions.
        let stack = 0x70 + STACK as u8;
        assert_eq!(
            computed(&[stack, 8, 0x3b, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]),
            Some(0x1010)
        );
        // A stack that was aligned: the frame is where a word below the frame pointer says.
        let frame = 0x70 + FRAME as u8;
        assert_eq!(computed(&[frame, 0x78, 0x06]), Some(0x1100 - 8 + 1));
        assert_eq!(computed(&[0x2f, 0xfd, 0xff]), None, "a jump");
        assert_eq!(computed(&[0x22]), None, "nothing to add");
        assert_eq!(computed(&[0x10, 0x80]), None, "cut short");
        assert_eq!(computed(&[0x31; 100]), None, "deep");
    }

    #[test]
    fn a_stack_that_does_not_advance_is_lost_and_one_that_nobody_called_ends() {
        let registers = Registers::new(0x4000, 0x1000, 0, 0);
        let row = |offset, saved| Row {
            frame: Frame::Register(STACK, offset),
            saved: vec![(16, saved)],
            returns_by: 16,
            is_signal: false,
            begins_at: 0,
        };
        let mut words = |at| Some(at);
        let back = registers.step(&row(-8, Saved::At(-8)), &mut words);
        assert!(matches!(back, Step::Lost));
        let up = registers.step(&row(16, Saved::At(-8)), &mut words);
        assert!(matches!(up, Step::Caller(caller) if caller.instruction == 0x1008));
        assert!(matches!(registers.step(&row(16, Saved::Gone), &mut words), Step::End));
        assert!(matches!(registers.step_by_frame(&mut words), Step::Lost), "no frame pointer");
    }
}
