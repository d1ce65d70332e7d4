//! What of a program file, or of a library, is needed to read a stack: segments, and where its unwinding index and its
//! symbols lie. Pure, over whatever gives bytes; fuzzed.
//!
//! Any bytes may come in: nothing is trusted to be in range, and counts are bounded before anything is read by them.
//! Only what this host can run in 64 bits is read: ELF64, low byte first. Segments are asked, not sections, as those may
//! be stripped; symbols have only sections. Rejected: mapping the file (whoever cuts a mapped file short ends its reader
//! by SIGBUS, and so does a disk that fails); object, whose ReadCache needs no mapping, but as of 0.40 removes nothing of what it has
//! read while anything that was parsed is in use, and grows beyond the file of one that is malformed (a browser's tables of symbols are hundreds of
//! megabytes, of which a look wants some dozens of entries).

use std::ops::Range;

/// Segments and sections that are looked at.
const HEADERS_MAX: u64 = 128;
const SEGMENT_LOAD: u32 = 1;
const SEGMENT_UNWIND_INDEX: u32 = 0x6474_e550;
const EXECUTABLE: u32 = 1;
const SECTION_SYMBOLS: u32 = 2;
const SECTION_DYNAMIC_SYMBOLS: u32 = 11;
const SECTION_EXPORTS: u32 = 0x6fff_fff6;
const SEGMENT_BYTES: u64 = 56;
const SECTION_BYTES: u64 = 64;
const PAGE: u64 = 4096;

/// Where bytes come from: a file, or the memory of a process.
pub trait Bytes {
    /// Reads as many as there are, at most as many as fit; gives how many.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize;
}

impl Bytes for Vec<u8> {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.as_slice().read_at(offset, into)
    }
}

impl Bytes for &[u8] {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        length
    }
}

/// So many bytes, or none.
pub fn exactly<const N: usize>(bytes: &dyn Bytes, offset: u64) -> Option<[u8; N]> {
    let mut into = [0; N];
    (bytes.read_at(offset, &mut into) == N).then_some(into)
}

fn word<const N: usize>(of: &[u8], at: usize) -> [u8; N] {
    let found = of.get(at..at + N).and_then(|part| part.try_into().ok());
    found.unwrap_or([0; N])
}

/// A number of two bytes.
pub fn u16_at(of: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(word(of, at))
}

/// A number of four bytes.
pub fn u32_at(of: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(word(of, at))
}

/// A number of eight bytes.
pub fn u64_at(of: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(word(of, at))
}

/// A part of the file that is mapped when the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
    executable: bool,
}

/// A table of symbols, and the text that their names are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbols {
    /// Where the table lies in the file.
    pub table: Range<u64>,
    /// Where the names do.
    pub names: Range<u64>,
}

/// A file's headers. Addresses are the file's own, before it was moved to where it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    segments: Vec<Segment>,
    /// Address of the index of the unwinding tables (`.eh_frame_hdr`).
    pub unwind_index: Option<u64>,
    /// Tables of symbols, the one that has the local ones too first.
    pub symbols: Vec<Symbols>,
    /// The index of what it exports (`.gnu.hash`), and the table that it is of.
    pub exports: Option<(Range<u64>, Symbols)>,
}

impl Elf {
    /// Reads the headers; none if it is no program for 64 bits.
    pub fn read(bytes: &dyn Bytes) -> Option<Self> {
        let head: [u8; 64] = exactly(bytes, 0)?;
        const MAGIC_64_LOW_FIRST: &[u8] = b"\x7fELF\x02\x01";
        if !head.starts_with(MAGIC_64_LOW_FIRST) {
            return None;
        }
        let mut elf = Self::default();
        let count = u64::from(u16_at(&head, 56)).min(HEADERS_MAX);
        if u64::from(u16_at(&head, 54)) == SEGMENT_BYTES {
            elf.read_segments(bytes, u64_at(&head, 32), count);
        }
        let count = u64::from(u16_at(&head, 60)).min(HEADERS_MAX);
        if u64::from(u16_at(&head, 58)) == SECTION_BYTES {
            elf.read_sections(bytes, u64_at(&head, 40), count);
        }
        (!elf.segments.is_empty()).then_some(elf)
    }

    fn read_segments(&mut self, bytes: &dyn Bytes, table: u64, count: u64) {
        for at in 0..count {
            let Some(offset) = table.checked_add(at * SEGMENT_BYTES) else { return };
            let Some(head) = exactly::<{ SEGMENT_BYTES as usize }>(bytes, offset) else { return };
            let address = u64_at(&head, 16);
            match u32_at(&head, 0) {
                SEGMENT_LOAD => self.segments.push(Segment {
                    offset: u64_at(&head, 8),
                    address,
                    bytes: u64_at(&head, 32),
                    executable: u32_at(&head, 4) & EXECUTABLE != 0,
                }),
                SEGMENT_UNWIND_INDEX => self.unwind_index = Some(address),
                _ => {}
            }
        }
    }

    fn read_sections(&mut self, bytes: &dyn Bytes, table: u64, count: u64) {
        let section = |at: u64| {
            let offset = table.checked_add(at.checked_mul(SECTION_BYTES)?)?;
            exactly::<{ SECTION_BYTES as usize }>(bytes, offset)
        };
        let range = |head: &[u8]| {
            let from = u64_at(head, 24);
            from..from.saturating_add(u64_at(head, 32))
        };
        for at in 0..count {
            let Some(head) = section(at) else { return };
            let linked = |head: &[u8]| section(u64::from(u32_at(head, 40)));
            let symbols =
                |table: &[u8]| Some(Symbols { table: range(table), names: range(&linked(table)?) });
            match u32_at(&head, 4) {
                SECTION_SYMBOLS => {
                    symbols(&head).into_iter().for_each(|it| self.symbols.insert(0, it));
                }
                SECTION_DYNAMIC_SYMBOLS => self.symbols.extend(symbols(&head)),
                SECTION_EXPORTS => {
                    let of = linked(&head).and_then(|table| symbols(&table));
                    self.exports = of.map(|of| (range(&head), of));
                }
                _ => {}
            }
        }
    }

    /// Where a byte that has an address lies in the file.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |it: &&Segment| address.wrapping_sub(it.address) < it.bytes;
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }

    /// The address of code that lies at an offset in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |it: &&Segment| it.executable && offset.wrapping_sub(it.offset) < it.bytes;
        let segment = self.segments.iter().find(holds)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// How far the file was moved: what to add to its own addresses. By the executable segment that a mapping is of;
    /// others may be moved apart from it by less than a page, which leads to plausible nonsense.
    pub fn moved_by(&self, mapped_at: u64, mapped_offset: u64) -> Option<u64> {
        let is_of = |it: &&Segment| {
            let begin = it.offset - it.offset % PAGE;
            it.executable && mapped_offset.wrapping_sub(begin) < it.bytes.saturating_add(PAGE)
        };
        let segment = self.segments.iter().find(is_of)?;
        let moved = mapped_at.wrapping_sub(mapped_offset).wrapping_add(segment.offset);
        Some(moved.wrapping_sub(segment.address))
    }

    /// The bytes from an address on, as many as there are.
    pub fn read_from(&self, bytes: &dyn Bytes, address: u64, into: &mut [u8]) -> usize {
        self.offset_of(address).map_or(0, |offset| bytes.read_at(offset, into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::program;

    #[test]
    fn a_file_is_moved_as_far_as_its_executable_segment_is() {
        let file = program(&[]);
        let elf = Elf::read(&file).unwrap();
        // The segment at 0x1000 of the file wants to be at 0x2000, and was mapped by its page.
        assert_eq!(elf.moved_by(0x7000_1000, 0x1000), Some(0x7000_1000 - 0x2000));
        assert_eq!(elf.moved_by(0x7000_0000, 0x9000), None, "of no executable segment");
        assert_eq!(elf.offset_of(0x2010), Some(0x1010));
        assert_eq!(elf.offset_of(0x9_0000), None);
    }

    #[test]
    fn what_is_no_program_for_64_bits_is_none() {
        let mut file = program(&[]);
        assert!(Elf::read(&&file[..63]).is_none());
        file[4] = 1;
        assert!(Elf::read(&file).is_none());
    }
}
