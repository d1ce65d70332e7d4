//! How to leave a function: what the unwinding tables of its file say of one address.
//!
//! The index (`.eh_frame_hdr`) is searched where it lies and one entry with its common part is read, some dozens of bytes
//! of tables that may have millions; gimli reads the entry, which becomes a `Row` that owns its bytes and can be
//! remembered. Pure over whatever gives bytes; any bytes may come in, so lengths are bounded; fuzzed.
//!
//! Rejected: framehop, which was tried. It takes whole sections, falls back to frame pointers without saying so, and cannot
//! cross a signal's frame; and it runs the expressions of a file without a bound, so that a jump back to itself in
//! a file that somebody else made would keep a CPU busy for as long as the look lasts.

use super::elf::{Bytes, Elf, exactly, u32_at};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, EndianSlice, Expression, LittleEndian,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};

/// Bytes of one entry, of what all entries of a kind have in common, and of an expression.
const ENTRY_BYTES_MAX: u32 = 1 << 16;
const COMMON_BYTES_MAX: u32 = 1 << 12;
const EXPRESSION_BYTES_MAX: usize = 256;
/// Entries of the index that are read at once.
const BLOCK: u64 = 512;

/// A place, as an expression of bytes, or plainly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A register and what to add.
    Register(u16, i64),
    /// Computed.
    Expression(Box<[u8]>),
}

/// Where the caller's value of a register is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// In memory, so far from the frame.
    At(i64),
    /// So far from the frame, itself.
    Is(i64),
    /// In another register.
    In(u16),
    /// In memory, at a computed address.
    AtComputed(Box<[u8]>),
    /// Computed.
    Computed(Box<[u8]>),
    /// Nowhere: of the return address it means that nobody called.
    Gone,
}

/// How to get from a function to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where the frame is: the caller's stack pointer.
    pub frame: Frame,
    /// By register.
    pub saved: Vec<(u16, Saved)>,
    /// The register that stands for the return address.
    pub returns_by: u16,
    /// A signal came here: the address before it is no call.
    pub is_signal: bool,
    /// Where the function begins, or the part of it that the entry is of.
    pub begins_at: u64,
}

/// What the tables say of an address; none if they say nothing.
pub fn row(elf: &Elf, bytes: &dyn Bytes, address: u64) -> Option<Row> {
    let entry = entry_for(elf, bytes, address)?;
    let (own, common) = {
        let whole = piece(elf, bytes, entry, ENTRY_BYTES_MAX)?;
        // How far the common part lies before this number.
        let before = u64::from(u32_at(&whole, 4));
        let at = entry.wrapping_add(4).wrapping_sub(before);
        (whole, piece(elf, bytes, at, COMMON_BYTES_MAX)?)
    };
    read(entry, &own, common, address)
}

/// Of a table as one piece: the common part first, and the entry right behind it, as if it had always been there.
fn read(entry: u64, own: &[u8], mut table: Vec<u8>, address: u64) -> Option<Row> {
    let offset = table.len();
    table.extend_from_slice(own);
    let before = u32::try_from(offset + 4).ok()?.to_le_bytes();
    table.get_mut(offset + 4..offset + 8)?.copy_from_slice(&before);
    let bases = BaseAddresses::default().set_eh_frame(entry.wrapping_sub(offset as u64));
    let mut section = EhFrame::new(&table, LittleEndian);
    section.set_address_size(8);
    let at = EhFrameOffset(offset);
    let found = section.fde_from_offset(&bases, at, EhFrame::cie_from_offset).ok()?;
    if !found.contains(address) {
        return None;
    }
    let mut context = UnwindContext::new();
    let row = found.unwind_info_for_address(&section, &bases, &mut context, address).ok()?;
    let expression = |it: &UnwindExpression<usize>| expression(&section, it);
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Frame::Register(register.0, *offset),
        CfaRule::Expression(it) => Frame::Expression(expression(it)?),
    };
    let mut saved = Vec::new();
    for (register, rule) in row.registers() {
        let how = match rule {
            RegisterRule::Undefined => Saved::Gone,
            RegisterRule::SameValue => continue,
            RegisterRule::Offset(offset) => Saved::At(*offset),
            RegisterRule::ValOffset(offset) => Saved::Is(*offset),
            RegisterRule::Register(other) => Saved::In(other.0),
            RegisterRule::Expression(it) => Saved::AtComputed(expression(it)?),
            RegisterRule::ValExpression(it) => Saved::Computed(expression(it)?),
            _ => return None,
        };
        saved.push((register.0, how));
    }
    let returns_by = found.cie().return_address_register().0;
    let (is_signal, begins_at) = (found.is_signal_trampoline(), found.initial_address());
    Some(Row { frame, saved, returns_by, is_signal, begins_at })
}

fn expression(
    section: &EhFrame<EndianSlice<'_, LittleEndian>>,
    it: &UnwindExpression<usize>,
) -> Option<Box<[u8]>> {
    let found: Expression<EndianSlice<'_, LittleEndian>> = it.get(section).ok()?;
    let code = found.0.slice();
    (code.len() <= EXPRESSION_BYTES_MAX).then(|| code.into())
}

/// An entry whole, its length first.
fn piece(elf: &Elf, bytes: &dyn Bytes, address: u64, longest: u32) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(exactly(bytes, elf.offset_of(address)?)?);
    if length < 4 || length > longest {
        return None;
    }
    let mut whole = vec![0; length as usize + 4];
    (elf.read_from(bytes, address, &mut whole) == whole.len()).then_some(whole)
}

/// The address of the entry that may hold an address: the index is sorted.
fn entry_for(elf: &Elf, bytes: &dyn Bytes, address: u64) -> Option<u64> {
    let index = elf.unwind_index?;
    let offset = elf.offset_of(index)?;
    let head: [u8; 4] = exactly(bytes, offset)?;
    // As every linker writes it: pairs of four bytes, relative to the index, counted by four bytes.
    const COUNT_OF_4_BYTES: u8 = 0x03;
    const PAIRS_FROM_HERE: u8 = 0x3b;
    let first_at = match head {
        [1, tables, COUNT_OF_4_BYTES, PAIRS_FROM_HERE] => match tables & 15 {
            0x03 | 0x0b => 4 + 4,
            0x00 | 0x04 | 0x0c => 4 + 8,
            _ => return None,
        },
        _ => return None,
    };
    let count = u64::from(u32::from_le_bytes(exactly(bytes, offset.checked_add(first_at)?)?));
    let pairs = offset.checked_add(first_at + 4)?;
    let wanted = address.wrapping_sub(index) as i64;
    let (mut low, mut high) = (0, count);
    while high - low > BLOCK {
        let middle = low + (high - low) / 2;
        let start = i32::from_le_bytes(exactly(bytes, pairs.checked_add(middle * 8)?)?);
        match i64::from(start) <= wanted {
            true => low = middle,
            false => high = middle,
        }
    }
    let mut block = vec![0; ((high - low) * 8) as usize];
    let read = bytes.read_at(pairs.checked_add(low * 8)?, &mut block);
    let starts = |pair: &&[u8]| i64::from(u32_at(pair, 0) as i32) <= wanted;
    let pair = block[..read].chunks_exact(8).take_while(starts).last()?;
    Some(index.wrapping_add_signed(i64::from(u32_at(pair, 4) as i32)))
}
