//! HotSpot's own description of its structures, which it exports for debuggers (gHotSpotVMStructs and gHotSpotVMTypes of
//! vmStructs.hpp): type, field, offset or address; type and bytes.
//!
//! So no release has to be known; whoever misses a field reads nothing. Owns how the tables are read, with bounds, as the
//! memory may hold anything: their names are a few thousand short texts that lie in a megabyte or two, so they are read by blocks, and
//! one by one where a block is not there whole: each call to read costs more than what it reads. Must not: know what a field is for.

use crate::called::Memory;
use crate::elf::{u32_at, u64_at};
use std::collections::HashMap;

/// Bounds of what is believed: entries of a table, bytes of one, bytes of a name.
const ENTRIES_MAX: u64 = 16_384;
const ENTRY_BYTES_MAX: u64 = 256;
const NAME_BYTES_MAX: usize = 64;
/// Entries that are read at a time.
const AT_A_TIME: u64 = 512;
/// Bytes of a block of names, and blocks that are remembered.
const BLOCK_BYTES: u64 = 64 << 10;
const BLOCKS_MAX: usize = 64;

/// The tables, and where their columns are: names first, the length of an entry last.
const FIELDS: &str = "gHotSpotVMStructs";
const FIELD_COLUMNS: [&str; 5] = [
    "gHotSpotVMStructEntryTypeNameOffset",
    "gHotSpotVMStructEntryFieldNameOffset",
    "gHotSpotVMStructEntryOffsetOffset",
    "gHotSpotVMStructEntryAddressOffset",
    "gHotSpotVMStructEntryArrayStride",
];
const SIZES: &str = "gHotSpotVMTypes";
const SIZE_COLUMNS: [&str; 3] = [
    "gHotSpotVMTypeEntryTypeNameOffset",
    "gHotSpotVMTypeEntrySizeOffset",
    "gHotSpotVMTypeEntryArrayStride",
];

/// Finds a symbol of the machine's library.
pub(super) type Symbol<'a> = dyn FnMut(&'static str) -> Option<u64> + 'a;

/// A word; none if it cannot be read.
pub(super) fn number(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes)?;
    Some(u64::from_le_bytes(bytes))
}

/// A pointer; none if it is null or cannot be read.
pub(super) fn pointer(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    number(at, memory).filter(|to| *to != 0)
}

/// A number of 32 bits.
pub(super) fn short(at: u64, memory: &mut Memory<'_>) -> Option<u32> {
    let mut bytes = [0; 4];
    memory(at, &mut bytes)?;
    Some(u32_at(&bytes, 0))
}

/// Texts of the library, by blocks.
#[derive(Default)]
struct Names {
    blocks: HashMap<u64, Option<Vec<u8>>>,
}

impl Names {
    /// A name of the table; none if it is not there, or too long.
    fn at(&mut self, at: u64, memory: &mut Memory<'_>) -> Option<String> {
        if self.blocks.len() >= BLOCKS_MAX {
            self.blocks.clear();
        }
        let block = self.blocks.entry(at / BLOCK_BYTES).or_insert_with(|| {
            let mut bytes = vec![0; BLOCK_BYTES as usize];
            memory(at / BLOCK_BYTES * BLOCK_BYTES, &mut bytes).map(|()| bytes)
        });
        let inside = block.as_ref().and_then(|block| {
            let rest = &block[(at % BLOCK_BYTES) as usize..];
            let end = rest.iter().take(NAME_BYTES_MAX).position(|byte| *byte == 0)?;
            String::from_utf8(rest[..end].to_vec()).ok()
        });
        // Not there whole, or in two blocks.
        inside.or_else(|| name(at, memory))
    }
}

/// The same, step by step.
pub(super) fn name(at: u64, memory: &mut Memory<'_>) -> Option<String> {
    const STEP: usize = 8;
    let mut bytes = Vec::new();
    while bytes.len() < NAME_BYTES_MAX {
        let mut step = [0; STEP];
        memory(at.wrapping_add(bytes.len() as u64), &mut step)?;
        bytes.extend(step.iter().take_while(|byte| **byte != 0));
        if step.contains(&0) {
            return String::from_utf8(bytes).ok();
        }
    }
    None
}

/// Columns of a table.
fn columns<const N: usize>(
    names: [&'static str; N],
    symbol: &mut Symbol<'_>,
    memory: &mut Memory<'_>,
) -> Option<[u64; N]> {
    let mut columns = [0; N];
    for (column, of) in columns.iter_mut().zip(names) {
        *column = number(symbol(of)?, memory)?;
    }
    let (stride, places) = columns.split_last()?;
    let fits = |column: &u64| column.saturating_add(8) <= *stride;
    (*stride <= ENTRY_BYTES_MAX && places.iter().all(fits)).then_some(columns)
}

/// Calls for each entry until one says that it is the last; none if there was none that did.
fn entries(
    (table, stride): (u64, u64),
    memory: &mut Memory<'_>,
    entry: &mut dyn FnMut(&[u8], &mut Memory<'_>) -> Option<()>,
) {
    for first in (0..ENTRIES_MAX).step_by(AT_A_TIME as usize) {
        let mut bytes = vec![0; (AT_A_TIME * stride) as usize];
        let at = table.wrapping_add(first * stride);
        // The end of the table may be the end of what can be read.
        if memory(at, &mut bytes).is_none() {
            let read = read_one_by_one(at, stride, &mut bytes, memory);
            bytes.truncate(read);
        }
        for one in bytes.chunks_exact(stride as usize) {
            if entry(one, memory).is_none() {
                return;
            }
        }
        if (bytes.len() as u64) < AT_A_TIME * stride {
            return;
        }
    }
}

/// How many bytes of entries could be read.
fn read_one_by_one(at: u64, stride: u64, into: &mut [u8], memory: &mut Memory<'_>) -> usize {
    let mut done = 0;
    for entry in into.chunks_exact_mut(stride as usize) {
        if memory(at.wrapping_add(done as u64), entry).is_none() {
            break;
        }
        done += entry.len();
    }
    done
}

/// Offsets by type and field, for what is one of a kind its address, and bytes by type.
#[derive(Debug, Default)]
pub(super) struct Table {
    fields: HashMap<(&'static str, String), (u64, u64)>,
    sizes: HashMap<&'static str, u64>,
}

impl Table {
    /// The fields of these types; none if the library has no such table.
    pub(super) fn read(
        wanted: &[&'static str],
        symbol: &mut Symbol<'_>,
        memory: &mut Memory<'_>,
    ) -> Option<Self> {
        let table = number(symbol(FIELDS)?, memory)?;
        let [type_at, field_at, offset_at, address_at, stride] =
            columns(FIELD_COLUMNS, symbol, memory)?;
        let (mut read, mut types, mut names) = (Self::default(), HashMap::new(), Names::default());
        entries((table, stride), memory, &mut |entry, memory| {
            let column = |at: u64| u64_at(entry, at as usize);
            if column(type_at) == 0 {
                return None;
            }
            let of = *types.entry(column(type_at)).or_insert_with(|| {
                let name = names.at(column(type_at), memory)?;
                wanted.iter().copied().find(|known| *known == name)
            });
            let Some(of) = of else { return Some(()) };
            if let Some(field) = names.at(column(field_at), memory) {
                read.fields.insert((of, field), (column(offset_at), column(address_at)));
            }
            Some(())
        });
        Some(read)
    }

    /// Adds the bytes of these types, as far as the table has them.
    pub(super) fn read_sizes(
        &mut self,
        wanted: &[&'static str],
        symbol: &mut Symbol<'_>,
        memory: &mut Memory<'_>,
    ) -> Option<()> {
        let table = number(symbol(SIZES)?, memory)?;
        let [type_at, bytes_at, stride] = columns(SIZE_COLUMNS, symbol, memory)?;
        let mut names = Names::default();
        entries((table, stride), memory, &mut |entry, memory| {
            let column = |at: u64| u64_at(entry, at as usize);
            let of = column(type_at);
            let name = (of != 0).then(|| names.at(of, memory))?;
            let known = wanted.iter().find(|known| name.as_deref() == Some(**known));
            self.sizes.extend(known.map(|known| (*known, column(bytes_at))));
            (self.sizes.len() < wanted.len()).then_some(())
        });
        Some(())
    }

    /// Where in each of its kind a field is.
    pub(super) fn offset(&self, of: &'static str, field: &str) -> Option<u64> {
        self.fields.get(&(of, field.to_string())).map(|(offset, _)| *offset)
    }

    /// Where a field of which there is one is.
    pub(super) fn address(&self, of: &'static str, field: &str) -> Option<u64> {
        let (_, address) = self.fields.get(&(of, field.to_string()))?;
        Some(*address).filter(|address| *address != 0)
    }

    /// Where a field of every thread is: with one type or the other by release.
    pub(super) fn of_thread(&self, field: &str) -> Option<u64> {
        self.offset("JavaThread", field).or_else(|| self.offset("Thread", field))
    }

    /// Bytes of a type.
    pub(super) fn bytes(&self, of: &'static str) -> Option<u64> {
        self.sizes.get(of).copied()
    }
}
