//! What a program that Go's linker wrote says of itself: its functions by address, its release, and where its goroutines are listed.
//!
//! The table of functions (`.gopclntab`, src/runtime/symtab.go) is in stripped programs too, as the runtime prints its own
//! stacks by it. Its layout is that of Go 1.18 and later, by its magic number; older ones are left alone. The list of goroutines
//! (`runtime.allgs`) has a symbol, and where symbols were stripped the function that walks it (`runtime.forEachGRace`) loads
//! its length and its address in its first instructions (x86-64). Whatever is found so is believed only once the list
//! itself has proved it (go_routines.rs). Pure over bytes and whatever reads the process's memory, which may hold anything.
//!
//! Must not: know how a goroutine is laid out. Rejected: DWARF (stripped programs have none, and it is megabytes).

use super::called::Memory;
use super::elf::{Bytes, Elf, exactly, u16_at, u32_at, u64_at};
use super::names;
use std::collections::HashMap;
use std::sync::Arc;

/// `pcHeader.magic` of Go 1.18 and 1.19, and of 1.20 and later.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
const HEADER_BYTES: usize = 72;
const HEADER_COUNT: usize = 8;
const HEADER_TEXT: usize = 24;
const HEADER_NAMES: usize = 32;
const HEADER_UNITS: usize = 40;
const HEADER_FUNCTIONS: usize = 64;
/// Of `moduledata`, since Go 1.26 in a section of its own: where the code begins, which the header no longer says.
const MODULE_TEXT: u64 = 176;
/// An entry of the table of functions: where the function begins, and where it is described.
const ENTRY_BYTES: u64 = 8;
const FUNCTION_NAME: u64 = 4;

const FUNCTIONS_MAX: u64 = 1 << 22;
const NAME_BYTES_MAX: usize = 256;
/// Of the names of functions, how much is searched for the one that walks the list.
const NAMES_BYTES_MAX: u64 = 16 << 20;
/// Functions among which that one is searched: the runtime's own come early.
const EARLY_FUNCTIONS_MAX: u64 = 40_000;
const SECTIONS_MAX: u64 = 128;
const SECTION_BYTES: u64 = 64;
/// Addresses whose functions are remembered.
const REMEMBERED_MAX: usize = 8192;

const WALKER: &[u8] = b"runtime.forEachGRace";
const LENGTH_SYMBOL: &str = "runtime.allglen";
const LIST_SYMBOL: &str = "runtime.allgptr";

/// A section: its address in the file's own numbering, and where it lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Section {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// Where the list of goroutines is: the words that hold its length and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    /// Address of the length.
    pub length: u64,
    /// Address of the address.
    pub first: u64,
}

/// A program that was written by Go's linker, as a process runs it.
pub(crate) struct Program {
    /// As the program says it: `go1.26.8`; empty if it does not.
    pub release: String,
    /// Where the list of goroutines may be.
    pub list: List,
    /// Address of the table of functions.
    table: u64,
    text: u64,
    count: u64,
    names: u64,
    functions: u64,
    known: HashMap<u64, Option<Arc<str>>>,
}

/// Whether a program file is Go's, by its sections.
pub(crate) fn is_go(file: &dyn Bytes) -> bool {
    table_section(file).is_some()
}

fn table_section(file: &dyn Bytes) -> Option<Section> {
    section(file, ".gopclntab").or_else(|| section(file, ".data.rel.ro.gopclntab"))
}

/// A section by its name.
fn section(file: &dyn Bytes, name: &str) -> Option<Section> {
    let head: [u8; 64] = exactly(file, 0)?;
    let (table, count) = (u64_at(&head, 40), u64::from(u16_at(&head, 60)).min(SECTIONS_MAX));
    if u64::from(u16_at(&head, 58)) != SECTION_BYTES {
        return None;
    }
    let header = |at: u64| {
        let offset = table.checked_add(at.checked_mul(SECTION_BYTES)?)?;
        exactly::<{ SECTION_BYTES as usize }>(file, offset)
    };
    let texts = u64_at(&header(u64::from(u16_at(&head, 62)))?, 24);
    let wanted = [name.as_bytes(), b"\0"].concat();
    let mut text = vec![0; wanted.len()];
    (0..count).filter_map(header).find_map(|header| {
        let at = texts.checked_add(u64::from(u32_at(&header, 0)))?;
        let is_it = file.read_at(at, &mut text) == text.len() && text == wanted;
        let (address, offset) = (u64_at(&header, 16), u64_at(&header, 24));
        is_it.then_some(Section { address, offset, bytes: u64_at(&header, 32) })
    })
}

impl Program {
    /// Of a process whose file was moved by so much when it was mapped; none if it is no program that can be read.
    pub(crate) fn read(
        file: &dyn Bytes,
        elf: &Elf,
        moved_by: u64,
        memory: &mut Memory<'_>,
    ) -> Option<Self> {
        let section_of_table = table_section(file)?;
        let table = section_of_table.address.wrapping_add(moved_by);
        let mut header = [0; HEADER_BYTES];
        memory(table, &mut header)?;
        const POINTER_BYTES: u8 = 8;
        if !MAGICS.contains(&u32_at(&header, 0)) || header[7] != POINTER_BYTES {
            return None;
        }
        let text = match section(file, ".go.module") {
            Some(module) => {
                word(module.address.wrapping_add(moved_by).wrapping_add(MODULE_TEXT), memory)?
            }
            None => u64_at(&header, HEADER_TEXT),
        };
        let mut program = Self {
            release: release(file).unwrap_or_default(),
            list: List { length: 0, first: 0 },
            table,
            text,
            count: u64_at(&header, HEADER_COUNT).min(FUNCTIONS_MAX),
            names: u64_at(&header, HEADER_NAMES),
            functions: u64_at(&header, HEADER_FUNCTIONS),
            known: HashMap::new(),
        };
        let by_symbols = || {
            let at = |name| Some(names::address_of(elf, file, name)?.wrapping_add(moved_by));
            Some(List { length: at(LENGTH_SYMBOL)?, first: at(LIST_SYMBOL)? })
        };
        let names_end = u64_at(&header, HEADER_UNITS);
        let by_code = || program.list_by_code(file, section_of_table.offset, names_end, memory);
        program.list = by_symbols().or_else(by_code)?;
        Some(program)
    }

    /// The function that an address is in.
    pub(crate) fn function(&mut self, address: u64, memory: &mut Memory<'_>) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let found = self.find(address, memory).map(Arc::from);
        if self.known.len() >= REMEMBERED_MAX {
            self.known.clear();
        }
        self.known.insert(address, found.clone());
        found
    }

    fn find(&self, address: u64, memory: &mut Memory<'_>) -> Option<String> {
        let wanted = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let entry = |at: u64, memory: &mut Memory<'_>| {
            let mut bytes = [0; ENTRY_BYTES as usize];
            let place = self.table.wrapping_add(self.functions).wrapping_add(at * ENTRY_BYTES);
            memory(place, &mut bytes)?;
            Some((u32_at(&bytes, 0), u32_at(&bytes, 4)))
        };
        // Behind the last function the table has where it ends.
        if wanted >= entry(self.count, memory)?.0 || wanted < entry(0, memory)?.0 {
            return None;
        }
        let (mut low, mut high) = (0, self.count);
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            match entry(middle, memory)?.0 <= wanted {
                true => low = middle,
                false => high = middle,
            }
        }
        let (begin, described) = entry(low, memory)?;
        let at = self.table.wrapping_add(self.functions).wrapping_add(u64::from(described));
        let mut head = [0; 8];
        memory(at, &mut head)?;
        // Each function says again where it begins.
        if u32_at(&head, 0) != begin {
            return None;
        }
        let name = u64::from(u32_at(&head, FUNCTION_NAME as usize));
        text_at(self.table.wrapping_add(self.names).wrapping_add(name), memory)
    }

    /// The two words that the function which walks the list loads first: the length of the list, and where it is.
    fn list_by_code(
        &self,
        file: &dyn Bytes,
        table_offset: u64,
        names_end: u64,
        memory: &mut Memory<'_>,
    ) -> Option<List> {
        const CODE_BYTES: usize = 96;
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let name = name_at(
            file,
            table_offset.checked_add(self.names)?,
            names_end.checked_sub(self.names)?,
        )?;
        let begin = self.begin_of(file, table_offset, name)?;
        let code_at = self.text.wrapping_add(u64::from(begin));
        let mut code = [0; CODE_BYTES];
        memory(code_at, &mut code)?;
        let mut loads = loads(&code, code_at);
        let length = loads.next()?;
        let first = loads.find(|at| *at != length)?;
        Some(List { length, first })
    }

    /// Where the function of a name begins, in the code. Read of the file: pages of it that nobody needs stay where they are.
    fn begin_of(&self, file: &dyn Bytes, table_offset: u64, name: u64) -> Option<u32> {
        let functions = table_offset.checked_add(self.functions)?;
        for at in 0..self.count.min(EARLY_FUNCTIONS_MAX) {
            let entry: [u8; 8] = exactly(file, functions.checked_add(at * ENTRY_BYTES)?)?;
            let described = functions.checked_add(u64::from(u32_at(&entry, 4)))?;
            let own: [u8; 4] = exactly(file, described.checked_add(FUNCTION_NAME)?)?;
            if u64::from(u32::from_le_bytes(own)) == name {
                return Some(u32_at(&entry, 0));
            }
        }
        None
    }
}

/// Where among the names that of the function stands which walks the list.
fn name_at(file: &dyn Bytes, names: u64, bytes: u64) -> Option<u64> {
    const PIECE_BYTES: usize = 256 << 10;
    let wanted = [b"\0", WALKER, b"\0"].concat();
    let mut piece = vec![0; PIECE_BYTES + wanted.len()];
    for from in (0..bytes.min(NAMES_BYTES_MAX)).step_by(PIECE_BYTES) {
        let read = file.read_at(names.checked_add(from)?, &mut piece);
        let found = piece[..read].windows(wanted.len()).position(|part| part == wanted);
        if let Some(at) = found {
            return Some(from + at as u64 + 1);
        }
    }
    None
}

/// Addresses that instructions load a word of eight bytes from, relative to themselves: `mov disp32(%rip), %reg`.
fn loads(code: &[u8], at: u64) -> impl Iterator<Item = u64> {
    code.windows(7).enumerate().filter_map(move |(offset, part)| {
        let is_load = matches!(part[0], 0x48 | 0x4c) && part[1] == 0x8b && part[2] & 0xc7 == 5;
        let distance = i64::from(u32_at(part, 3) as i32);
        let behind = at.wrapping_add(offset as u64 + 7);
        is_load.then(|| behind.wrapping_add_signed(distance))
    })
}

/// The release, as programs since Go 1.18 say it (`debug/buildinfo`).
fn release(file: &dyn Bytes) -> Option<String> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const INLINE: u8 = 2;
    const TEXT: usize = 32;
    const BYTES_MAX: usize = 64;
    let info = section(file, ".go.buildinfo")?;
    let mut head = vec![0; (info.bytes as usize).min(TEXT + 1 + BYTES_MAX)];
    let read = file.read_at(info.offset, &mut head);
    head.truncate(read);
    if !head.starts_with(MAGIC) || head.get(15)? & INLINE == 0 {
        return None;
    }
    // A length of one byte: none is longer than 127.
    let length = usize::from(*head.get(TEXT)?).min(BYTES_MAX);
    let text = std::str::from_utf8(head.get(TEXT + 1..TEXT + 1 + length)?).ok()?;
    let release = text.split_whitespace().next()?;
    is_plain(release).then(|| release.to_string())
}

/// A name that ends with a NUL, if it is plain text.
fn text_at(at: u64, memory: &mut Memory<'_>) -> Option<String> {
    const PIECE: usize = 64;
    let mut text = Vec::new();
    while text.len() < NAME_BYTES_MAX {
        let mut piece = [0; PIECE];
        memory(at.wrapping_add(text.len() as u64), &mut piece)?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend(&piece[..end]);
            let text = String::from_utf8(text).ok()?;
            return is_plain(&text).then_some(text);
        }
        text.extend(piece);
    }
    None
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// A word of eight bytes; none if it cannot be read, or is 0.
pub(crate) fn word(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes)?;
    Some(u64::from_le_bytes(bytes)).filter(|word| *word != 0)
}
