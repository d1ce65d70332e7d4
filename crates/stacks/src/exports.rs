//! One exported symbol of a file by its name, through the index that its loader uses (DT_GNU_HASH).
//!
//! Owns that search: some dozens of bytes of tables that may have megabytes (Node's names alone have five). Only what is
//! exported is in the index; what is not, names.rs finds by a pass. Pure over whatever gives bytes; any bytes may come in, so
//! every step is bounded. Must not: be asked for what a linker renames.

use super::elf::{Bytes, Elf, Symbols, exactly, u16_at, u32_at, u64_at};
use std::ops::Range;

const SYMBOL_BYTES: u64 = 24;
const NAME_BYTES_MAX: usize = 128;
/// Symbols of one chain; a linker makes chains of a few.
const CHAIN_MAX: u32 = 256;

/// The address of an exported symbol; none if the file has no such index, or not that symbol.
pub fn address_of(elf: &Elf, bytes: &dyn Bytes, name: &str) -> Option<u64> {
    let (index, symbols) = elf.exports.as_ref()?;
    find(index, symbols, bytes, name)
}

fn find(index: &Range<u64>, symbols: &Symbols, bytes: &dyn Bytes, name: &str) -> Option<u64> {
    let head: [u8; 16] = exactly(bytes, index.start)?;
    let [buckets, first, filter_words] = [0, 4, 8].map(|at| u64::from(u32_at(&head, at)));
    let wanted = hash(name);
    let number = |at: u64| {
        let offset = index.start.checked_add(at)?;
        (offset < index.end).then(|| exactly::<4>(bytes, offset))?.map(u32::from_le_bytes)
    };
    let buckets_at = 16 + filter_words * 8;
    let bucket = u64::from(wanted).checked_rem(buckets)?;
    let begin = number(buckets_at + bucket * 4)?;
    let chains_at = buckets_at + buckets * 4;
    for at in begin..begin.saturating_add(CHAIN_MAX) {
        let known = number(chains_at + u64::from(at).checked_sub(first)? * 4)?;
        if known | 1 == wanted | 1 {
            let offset = symbols.table.start.checked_add(u64::from(at) * SYMBOL_BYTES)?;
            let symbol: [u8; SYMBOL_BYTES as usize] = exactly(bytes, offset)?;
            let of_it = symbols.names.start.checked_add(u64::from(u32_at(&symbol, 0)))?;
            if u16_at(&symbol, 6) != 0 && is_at(bytes, of_it, name) {
                return Some(u64_at(&symbol, 8));
            }
        }
        if known & 1 != 0 {
            break;
        }
    }
    None
}

/// Whether just this name stands there.
fn is_at(bytes: &dyn Bytes, offset: u64, name: &str) -> bool {
    let mut found = [0; NAME_BYTES_MAX];
    let length = name.len() + 1;
    let Some(found) = found.get_mut(..length) else { return false };
    let whole = bytes.read_at(offset, found) == length;
    whole && found.strip_prefix(name.as_bytes()) == Some(&[0])
}

fn hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Index = (Range<u64>, Symbols);

    fn address(of: &Index, bytes: &[u8], name: &str) -> Option<u64> {
        find(&of.0, &of.1, &bytes, name)
    }

    /// An index with one bucket: header, one word of the filter, the bucket, a chain for each name; then symbols and names.
    fn file(names: &[(&str, u64)]) -> (Index, Vec<u8>) {
        let mut file = Vec::new();
        for number in [1_u32, 1, 1, 0, 0, 0, 1] {
            file.extend(number.to_le_bytes());
        }
        for (at, (name, _)) in (1..).zip(names) {
            let last = u32::from(at == names.len());
            file.extend((hash(name) & !1 | last).to_le_bytes());
        }
        let index_end = file.len() as u64;
        let mut texts = vec![0];
        file.extend([0; SYMBOL_BYTES as usize]);
        for (name, address) in names {
            file.extend((texts.len() as u32).to_le_bytes());
            file.extend([0x11, 0, 1, 0]);
            file.extend(address.to_le_bytes());
            file.extend([0; 8]);
            texts.extend(name.bytes());
            texts.push(0);
        }
        let names_at = file.len() as u64;
        file.extend(&texts);
        let symbols = Symbols { table: index_end..names_at, names: names_at..file.len() as u64 };
        ((0..index_end, symbols), file)
    }

    #[test]
    fn a_symbol_is_found_by_its_whole_name() {
        let (index, file) = file(&[("v8dbg_SmiTag", 0x10), ("v8dbg_SmiTagMask", 0x20)]);
        assert_eq!(address(&index, &file, "v8dbg_SmiTagMask"), Some(0x20));
        assert_eq!(address(&index, &file, "v8dbg_SmiTag"), Some(0x10));
        assert_eq!(address(&index, &file, "v8dbg_Smi"), None);
    }

    #[test]
    fn an_index_that_is_cut_or_lies_finds_nothing() {
        let (index, whole) = file(&[("one", 0x10)]);
        assert_eq!(address(&index, &whole[..20], "one"), None);
        let mut without_buckets = whole.clone();
        without_buckets[..4].fill(0);
        assert_eq!(address(&index, &without_buckets, "one"), None);
        let mut far = whole;
        far[24..28].fill(0xff);
        assert_eq!(address(&index, &far, "one"), None);
        assert_eq!(address(&index, &[], "one"), None);
    }
}
