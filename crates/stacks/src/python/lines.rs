//! The line of a Python function that it is in: by the table that its code has for that, in the three forms of 3.9 to 3.13.
//!
//! Pure; the bytes are another process's and may be anything, so each step moves on or ends. A line that the table does not
//! give, or gives as none, is 0. Sources: Objects/lnotab_notes.txt of 3.9, PEP 626, Objects/locations.md of 3.11.

use super::layouts::Lines;

/// The line of the instruction at this byte of the code, whose first line is `first`; 0 if it is not known.
pub(super) fn line(form: Lines, table: &[u8], first: u32, at: u64) -> u32 {
    let found = match form {
        Lines::Steps => by_steps(table, first, at),
        Lines::Stretches => by_stretches(table, first, at),
        Lines::Places => by_places(table, first, at),
    };
    found.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

fn by_steps(table: &[u8], first: u32, at: u64) -> Option<i64> {
    let (mut begin, mut line) = (0, i64::from(first));
    for step in table.chunks_exact(2) {
        begin += u64::from(step[0]);
        if begin > at {
            break;
        }
        line += i64::from(step[1] as i8);
    }
    Some(line)
}

fn by_stretches(table: &[u8], first: u32, at: u64) -> Option<i64> {
    const NO_LINE: u8 = 0x80;
    let (mut end, mut line) = (0, i64::from(first));
    for stretch in table.chunks_exact(2) {
        end += u64::from(stretch[0]);
        let has_line = stretch[1] != NO_LINE;
        if has_line {
            line += i64::from(stretch[1] as i8);
        }
        if end > at {
            return has_line.then_some(line);
        }
    }
    None
}

fn by_places(table: &[u8], first: u32, at: u64) -> Option<i64> {
    const INSTRUCTION_BYTES: u64 = 2;
    let (mut end, mut line) = (0, i64::from(first));
    let mut bytes = table.iter().copied();
    loop {
        let head = bytes.next()?;
        end += (u64::from(head & 7) + 1) * INSTRUCTION_BYTES;
        let has_line = match head >> 3 & 15 {
            15 => false,
            14 => {
                line = line.checked_add(signed(&mut bytes)?)?;
                for _ in 0..3 {
                    number(&mut bytes)?;
                }
                true
            }
            13 => {
                line = line.checked_add(signed(&mut bytes)?)?;
                true
            }
            kind @ 10..=12 => {
                line += i64::from(kind - 10);
                bytes.nth(1)?;
                true
            }
            _ => {
                bytes.next()?;
                true
            }
        };
        if end > at {
            return has_line.then_some(line);
        }
    }
}

/// Six bits in each byte, the lowest first.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut all = 0;
    for shift in (0..60).step_by(6) {
        let byte = bytes.next()?;
        all |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(all);
        }
    }
    None
}

fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let all = number(bytes)?;
    let size = i64::try_from(all >> 1).ok()?;
    Some(if all & 1 == 1 { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables as the releases themselves wrote them (`f.__code__.co_lnotab`, `co_linetable`) of a function that begins at line 3:
    /// `def f(x):`, a comment, `y = x + 1`, an empty line, `g(y)`, `return y`.
    #[test]
    fn tables_of_each_form_give_the_line() {
        let steps = [0, 2, 8, 2, 8, 1];
        let line_of = |at| line(Lines::Steps, &steps, 3, at);
        assert_eq!((line_of(0), line_of(6), line_of(8), line_of(17)), (5, 5, 7, 8));
        let stretches = [8, 2, 8, 2, 4, 1];
        let line_of = |at| line(Lines::Stretches, &stretches, 3, at);
        assert_eq!((line_of(6), line_of(8), line_of(18), line_of(20)), (5, 7, 8, 0));
        assert_eq!(line(Lines::Stretches, &[4, 0x80, 4, 1], 3, 2), 0, "a stretch without a line");
    }

    #[test]
    fn places_as_a_release_writes_them_give_the_line() {
        // The same function, of 3.12.
        let table = [
            128, 0, 224, 8, 9, 136, 65, 137, 5, 128, 65, 228, 4, 5, 128, 97, 132, 68, 216, 11, 12,
            128, 72,
        ];
        let line_of = |at| line(Lines::Places, &table, 3, at);
        assert_eq!([0, 2, 10, 12, 20, 36, 38].map(line_of), [3, 5, 5, 7, 7, 8, 0]);
    }

    #[test]
    fn places_of_all_kinds_move_the_line() {
        // Two instructions without a place; one with a short one; one a line further; one five lines back, in full.
        let table =
            [0x80 | 15 << 3 | 1, 0x80, 0x15, 0x80 | 11 << 3, 1, 2, 0x80 | 14 << 3, 11, 0, 1, 1];
        let line_of = |at| line(Lines::Places, &table, 30, at);
        assert_eq!([0, 4, 6, 8, 10].map(line_of), [0, 30, 31, 26, 0]);
        // Code 13 has a line and no column; numbers go on behind six bits.
        let far = [0x80 | 13 << 3, 0x40 | 2, 3];
        assert_eq!(line(Lines::Places, &far, 30, 0), 30 + 97);
    }

    #[test]
    fn nonsense_has_no_line() {
        for form in [Lines::Stretches, Lines::Places] {
            assert_eq!(line(form, &[], 3, 0), 0);
            assert_eq!(line(form, &[0xff; 3], 3, 900), 0);
        }
        assert_eq!(line(Lines::Places, &[0xf0, 0x7f, 0x7f], 3, 0), 0);
        assert_eq!(line(Lines::Steps, &[0, 0x80, 0, 0x80], 3, 0), 0, "before the first");
    }
}
