//! Which methods a piece of compiled code is in at a call: its own, and those that were compiled into it.
//!
//! The compiler writes down for each call the scopes that it lies in, the innermost first (PcDesc, debugInfo.hpp): numbers of
//! one to five bytes, of which each scope begins with where its caller's is (0: it has none) and its method. Owns that
//! reading. The outermost has to be the method that the code was compiled for, else nothing is said: so it need not be known
//! either in which of its two forms a release writes numbers. Must not: read where values are.

use super::table::{Table, pointer, short};
use crate::called::Memory;

/// Methods that are in one another, and bytes of tables that are believed.
const SCOPES_MAX: usize = 32;
const TABLE_BYTES_MAX: u64 = 1 << 24;

/// Where things are in a piece of compiled code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    tables: Tables,
    /// Of an entry for a call.
    entry_bytes: u64,
    entry_place: u64,
    entry_scope: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tables {
    /// All of it lies behind the code: pointers to the code and the scopes, distances of methods, of calls, and of what is behind
    /// these.
    Behind { code: u64, scopes: u64, methods: u64, calls: u64, calls_end: u64 },
    /// What does not change lies in a place of its own, and so does what changes: distance of the code, pointers to both places,
    /// distances in the first of calls and scopes, and bytes before the methods in the second.
    Apart { code: u64, fixed: u64, calls: u64, scopes: u64, changing: u64, before: u64 },
}

/// The same of one piece.
struct Places {
    code: u64,
    methods: u64,
    calls: u64,
    calls_end: u64,
    scopes: u64,
}

impl Layout {
    /// By the table; none if a field is missing.
    pub(super) fn of(table: &Table) -> Option<Self> {
        let behind = || {
            Some(Tables::Behind {
                code: table.offset("CodeBlob", "_code_begin")?,
                scopes: table.offset("CompiledMethod", "_scopes_data_begin")?,
                methods: table.offset("nmethod", "_metadata_offset")?,
                calls: table.offset("nmethod", "_scopes_pcs_offset")?,
                calls_end: table.offset("nmethod", "_dependencies_offset")?,
            })
        };
        let apart = || {
            Some(Tables::Apart {
                code: table.offset("CodeBlob", "_code_offset")?,
                fixed: table.offset("nmethod", "_immutable_data")?,
                calls: table.offset("nmethod", "_scopes_pcs_offset")?,
                scopes: table.offset("nmethod", "_scopes_data_offset")?,
                changing: table.offset("CodeBlob", "_mutable_data")?,
                before: table.offset("CodeBlob", "_relocation_size")?,
            })
        };
        Some(Self {
            tables: behind().or_else(apart)?,
            entry_bytes: table.bytes("PcDesc")?,
            entry_place: table.offset("PcDesc", "_pc_offset")?,
            entry_scope: table.offset("PcDesc", "_scope_decode_offset")?,
        })
    }

    fn places(&self, piece: u64, memory: &mut Memory<'_>) -> Option<Places> {
        let mut to = |offset: u64| pointer(piece.wrapping_add(offset), memory);
        let pointers = match self.tables {
            Tables::Behind { code, scopes, .. } => [to(code)?, to(scopes)?],
            Tables::Apart { fixed, changing, .. } => [to(fixed)?, to(changing)?],
        };
        let mut distance = |offset: u64| {
            let distance = u64::from(short(piece.wrapping_add(offset), memory)?);
            (distance < TABLE_BYTES_MAX).then_some(distance)
        };
        Some(match self.tables {
            Tables::Behind { methods, calls, calls_end, .. } => Places {
                code: pointers[0],
                methods: piece.wrapping_add(distance(methods)?),
                calls: piece.wrapping_add(distance(calls)?),
                calls_end: piece.wrapping_add(distance(calls_end)?),
                scopes: pointers[1],
            },
            Tables::Apart { code, calls, scopes, before, .. } => Places {
                code: piece.wrapping_add(distance(code)?),
                methods: pointers[1].wrapping_add(distance(before)?),
                calls: pointers[0].wrapping_add(distance(calls)?),
                calls_end: pointers[0].wrapping_add(distance(scopes)?),
                scopes: pointers[0].wrapping_add(distance(scopes)?),
            },
        })
    }

    /// The methods of a piece of code that was compiled for one, at a return address in it, the innermost first; none if they
    /// are not written down there.
    pub(super) fn methods(
        &self,
        (piece, own): (u64, u64),
        at: u64,
        memory: &mut Memory<'_>,
    ) -> Option<Vec<u64>> {
        let places = self.places(piece, memory)?;
        let distance = u32::try_from(at.wrapping_sub(places.code)).ok()?;
        let scope = self.scope(&places, distance, memory)?;
        // The older form ends a row of scopes with a byte of 0, which the newer one has not.
        let row = [0, 1].into_iter().find_map(|least| row(&places, scope, least, memory));
        row.filter(|methods| methods.last() == Some(&own))
    }

    /// Where the innermost scope of a call is, whose entries stand in the order of their places.
    fn scope(&self, places: &Places, distance: u32, memory: &mut Memory<'_>) -> Option<u64> {
        let bytes = places.calls_end.checked_sub(places.calls)?;
        let (mut low, mut high) = (0, bytes.checked_div(self.entry_bytes)?);
        while low < high {
            let middle = low.midpoint(high);
            let entry = places.calls.wrapping_add(middle * self.entry_bytes);
            // Before the first place stands one below 0.
            let place = short(entry.wrapping_add(self.entry_place), memory)?.cast_signed();
            match i64::from(place).cmp(&i64::from(distance)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    return Some(u64::from(short(entry.wrapping_add(self.entry_scope), memory)?));
                }
            }
        }
        None
    }
}

/// Methods from a scope to the outermost; none if the row does not end.
fn row(places: &Places, mut scope: u64, least: u8, memory: &mut Memory<'_>) -> Option<Vec<u64>> {
    let mut methods = Vec::new();
    while scope != 0 && methods.len() < SCOPES_MAX {
        // Two numbers; behind the last scope is at least its place.
        let mut bytes = [0; 10];
        memory(places.scopes.wrapping_add(scope), &mut bytes)?;
        let (caller, length) = number(&bytes, least)?;
        let (method, _) = number(&bytes[length..], least)?;
        let slot = u64::from(method.checked_sub(1)?) * 8;
        methods.push(pointer(places.methods.wrapping_add(slot), memory)?);
        scope = u64::from(caller);
    }
    (scope == 0).then_some(methods)
}

/// A number of one to five bytes (unsigned5.hpp), and how many they are. Bytes of which the least is 1 came in between.
fn number(bytes: &[u8], least: u8) -> Option<(u32, usize)> {
    const BYTES_MAX: usize = 5;
    const BITS: u32 = 6;
    const MORE: u32 = 64;
    let last = 256 - MORE - u32::from(least);
    let mut sum = 0_u32;
    for (at, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        let digit = u32::from(byte.checked_sub(least)?);
        sum = sum.wrapping_add(digit << (BITS * at as u32));
        if digit < last || at == BYTES_MAX - 1 {
            return Some((sum, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_both_forms() {
        assert_eq!(number(&[0], 0), Some((0, 1)));
        assert_eq!(number(&[191], 0), Some((191, 1)));
        assert_eq!(number(&[192, 0], 0), Some((192, 2)));
        assert_eq!(number(&[200, 3, 9], 0), Some((392, 2)));
        assert_eq!(number(&[1], 1), Some((0, 1)));
        assert_eq!(number(&[191], 1), Some((190, 1)));
        assert_eq!(number(&[192, 1], 1), Some((191, 2)));
        assert_eq!(number(&[0], 1), None, "no byte of the newer form");
        assert_eq!(number(&[255; 4], 0), None, "cut off");
    }

    const PIECE: u64 = 0x1000;
    const BEHIND: Layout = Layout {
        tables: Tables::Behind { code: 0, scopes: 8, methods: 16, calls: 20, calls_end: 24 },
        entry_bytes: 16,
        entry_place: 0,
        entry_scope: 4,
    };

    /// Code at 0x1100, three methods, calls at 0x20 and 0x40; the second lies in the third method, which is in the first.
    fn piece() -> Vec<u8> {
        let mut bytes = vec![0_u8; 0x400];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, &0x1100_u64.to_le_bytes());
        put(8, &0x1300_u64.to_le_bytes());
        for (at, distance) in [(16, 0x200_u32), (20, 0x240), (24, 0x280)] {
            put(at, &distance.to_le_bytes());
        }
        for (index, method) in [0xa0_u64, 0xb0, 0xc0].into_iter().enumerate() {
            put(0x200 + index * 8, &method.to_le_bytes());
        }
        for (index, (place, scope)) in
            [(-1, 0), (0x20, 1), (0x40, 9), (0x7fff, 0)].iter().enumerate()
        {
            put(0x240 + index * 16, &i32::to_le_bytes(*place));
            put(0x244 + index * 16, &i32::to_le_bytes(*scope));
        }
        put(0x301, &[0, 1, 5]);
        put(0x309, &[1, 3, 7]);
        bytes
    }

    fn methods(bytes: &[u8], own: u64, at: u64) -> Option<Vec<u64>> {
        let mut memory = |at: u64, into: &mut [u8]| {
            let from = usize::try_from(at.checked_sub(PIECE)?).ok()?;
            into.copy_from_slice(bytes.get(from..from.checked_add(into.len())?)?);
            Some(())
        };
        BEHIND.methods((PIECE, own), at, &mut memory)
    }

    #[test]
    fn a_call_lies_in_the_methods_that_were_compiled_into_the_first() {
        let bytes = piece();
        assert_eq!(methods(&bytes, 0xa0, 0x1140), Some(vec![0xc0, 0xa0]));
        assert_eq!(methods(&bytes, 0xa0, 0x1120), Some(vec![0xa0]));
        assert_eq!(methods(&bytes, 0xa0, 0x1130), None, "no call");
        assert_eq!(methods(&bytes, 0xb0, 0x1140), None, "another method's code");
    }

    #[test]
    fn the_newer_form_is_known_by_the_end_of_its_row() {
        let mut bytes = piece();
        bytes[0x301..0x304].copy_from_slice(&[1, 2, 6]);
        bytes[0x309..0x30c].copy_from_slice(&[2, 4, 8]);
        assert_eq!(methods(&bytes, 0xa0, 0x1140), Some(vec![0xc0, 0xa0]));
    }

    #[test]
    fn a_row_that_runs_in_a_circle_ends() {
        let mut bytes = piece();
        bytes[0x309..0x30c].copy_from_slice(&[9, 3, 7]);
        assert_eq!(methods(&bytes, 0xa0, 0x1140), None);
    }
}
