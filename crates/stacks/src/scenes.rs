//! A small program file for the tests of this folder: headers, one executable segment, symbols.
//!
//! Owns bytes that a linker could have written, and no more: at 0x1000 of the file lies the segment, which wants to be
//! at 0x2000. No test of its own. Must not: be built into the binary.

/// A file with these functions: name, address, length.
pub(crate) fn program(functions: &[(&str, u64, u64)]) -> Vec<u8> {
    let mut names = vec![0_u8];
    let mut table = vec![0_u8; 24];
    for (name, address, length) in functions {
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([0x12, 0, 1, 0]);
        table.extend(address.to_le_bytes());
        table.extend(length.to_le_bytes());
        names.extend(name.as_bytes());
        names.push(0);
    }
    let (table_at, names_at) = (0x3000, 0x3000 + table.len());
    let sections_at = names_at + names.len();
    let mut file = vec![0_u8; sections_at + 3 * 64];
    put(&mut file, 0, b"\x7fELF\x02\x01\x01");
    put(&mut file, 32, &64_u64.to_le_bytes());
    put(&mut file, 40, &(sections_at as u64).to_le_bytes());
    put(&mut file, 54, &[56, 0, 1, 0, 64, 0, 3, 0]);
    put(&mut file, 64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    for (at, word) in [(72, 0x1000_u64), (80, 0x2000), (96, 0x1000)] {
        put(&mut file, at, &word.to_le_bytes());
    }
    put(&mut file, table_at, &table);
    put(&mut file, names_at, &names);
    section(&mut file, sections_at + 64, 2, (table_at, table.len()));
    section(&mut file, sections_at + 128, 3, (names_at, names.len()));
    file
}

fn section(file: &mut [u8], at: usize, kind: u32, (from, length): (usize, usize)) {
    put(file, at + 4, &kind.to_le_bytes());
    put(file, at + 24, &(from as u64).to_le_bytes());
    put(file, at + 32, &(length as u64).to_le_bytes());
    // The names of the symbols are in the section behind theirs.
    put(file, at + 40, &2_u32.to_le_bytes());
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}
