//! Kernel stacks: each distinct one gets an identity and is reported once, by function names.
//!
//! Names come from /proc/kallsyms, read once when the first stack is asked for and kept as one block of
//! names with an index: of the functions only, without what the compiler appended. Nothing here reads
//! user memory or binaries. Rejected: a stack in every event (they are nine tenths of the bytes); a
//! symboliser library (a string for each of 120,000 symbols is three times the memory, for what is a
//! search in a sorted list); asking only for addresses seen (each new one would cost a pass of the file).

use holdup_reason::facts::Stack;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{BufRead, BufReader, Read};

/// Addresses whose names are remembered from one window to the next.
const NAMES_MAX: usize = 20_000;

/// Stands for the functions of a stack that was not stored: no code is at this address.
const NOT_STORED: u64 = u64::MAX;

/// Identities of stacks, and names of functions already asked for.
#[derive(Default)]
pub struct Stacks {
    known: HashMap<Vec<u64>, u32, BuildHasherDefault<FrameHasher>>,
    names: HashMap<u64, String>,
    fresh: Vec<(u32, Vec<u64>)>,
    symbols: Option<Symbols>,
}

/// Folds frames into a number, two at a time. Without a secret: return addresses are the kernel's choice, not a
/// process's, so nobody can make them collide, and this runs for each event.
#[derive(Default)]
struct FrameHasher(u64);

impl FrameHasher {
    fn fold(&mut self, one: u64, other: u64) {
        // Any number with its bits spread will do: digits of pi. It keeps a frame that is zero from wiping out the rest.
        let product = u128::from(one ^ self.0) * u128::from(other ^ 0x243f_6a88_85a3_08d3);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for FrameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let (pairs, single) = words.as_chunks::<2>();
        for [one, other] in pairs {
            self.fold(u64::from_ne_bytes(*one), u64::from_ne_bytes(*other));
        }
        for word in single {
            self.fold(u64::from_ne_bytes(*word), 0);
        }
        for byte in rest {
            self.fold(u64::from(*byte), 0);
        }
    }

    fn write_usize(&mut self, length: usize) {
        self.fold(length as u64, 0);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Stacks {
    /// Asks no kernel for names: addresses are reported.
    pub fn unnamed() -> Self {
        Self { symbols: Some(Symbols::default()), ..Self::default() }
    }

    /// Identity of a stack, 0 for an empty one. A new stack is remembered for `take_new`.
    pub fn id_of(&mut self, frames: &[u64]) -> u32 {
        let end = frames.iter().position(|&frame| frame == 0).unwrap_or(frames.len());
        let frames = &frames[..end];
        if frames.is_empty() {
            return 0;
        }
        if let Some(&id) = self.known.get(frames) {
            return id;
        }
        let id = self.known.len() as u32 + 1;
        self.known.insert(frames.to_vec(), id);
        self.fresh.push((id, frames.to_vec()));
        id
    }

    /// Identity of a stack in the kernel of which no more is known, as the map of stacks had no room for it.
    pub fn not_stored(&mut self) -> u32 {
        self.id_of(&[NOT_STORED])
    }

    /// None is known any more, so that each is reported again; the names of functions stay.
    pub fn forget(&mut self) {
        self.known.clear();
        self.fresh.clear();
        if self.names.len() > NAMES_MAX {
            self.names.clear();
        }
    }

    /// Whether a stack is new since the last call of `take_new`.
    pub fn has_new(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// The stacks that are new since the last call, with names.
    pub fn take_new(&mut self) -> Vec<Stack> {
        let fresh = std::mem::take(&mut self.fresh);
        let reported = |(id, frames): (u32, Vec<u64>)| Stack {
            id,
            frames: frames.into_iter().map(|frame| self.name(frame)).collect(),
        };
        fresh.into_iter().map(reported).collect()
    }

    /// The name of an address in the kernel's code.
    pub fn name(&mut self, address: u64) -> String {
        if address == NOT_STORED {
            return "[unknown]".into();
        }
        if let Some(known) = self.names.get(&address) {
            return known.clone();
        }
        let symbols = self.symbols.get_or_insert_with(Symbols::of_kernel);
        let name = symbols.name(address).map_or_else(|| format!("{address:#x}"), str::to_string);
        self.names.insert(address, name.clone());
        name
    }
}

/// The functions of the kernel and its modules, by address.
#[derive(Default)]
struct Symbols {
    /// Where a function begins, and where its name does in `names`.
    starts: Vec<(u64, u32)>,
    /// All names, a byte of length before each.
    names: Vec<u8>,
}

/// Longer lines than this are no symbols (KSYM_NAME_LEN is 512).
const LINE_BYTES_MAX: u64 = 1024;

impl Symbols {
    fn of_kernel() -> Self {
        // An empty table names nothing, and addresses are reported instead.
        File::open("/proc/kallsyms").map(Self::read).unwrap_or_default()
    }

    /// Reads lines such as `ffffffff81000000 T _stext` and `ffffffffc0200000 t helper [module]`.
    fn read(from: impl Read) -> Self {
        let mut symbols = Self::default();
        let mut lines = BufReader::with_capacity(1 << 16, from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => symbols.add(&line),
            }
        }
        symbols.starts.sort_unstable();
        symbols.starts.shrink_to_fit();
        symbols.names.shrink_to_fit();
        symbols
    }

    /// Most lines are of no use, so the number is read last.
    fn add(&mut self, line: &[u8]) {
        let Some(space) = line.iter().position(|&byte| byte == b' ') else { return };
        let (start, rest) = line.split_at(space);
        let [_, b't' | b'T' | b'w' | b'W', b' ', name @ ..] = rest else { return };
        // The padding before each function (objtool's prefix symbols): nearly half of all names, and nothing
        // returns there.
        if name.starts_with(b"__pfx_") {
            return;
        }
        let start = str::from_utf8(start).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        // Addresses are zero where they are hidden (kptr_restrict).
        let Some(start @ 1..) = start else { return };
        // `folio_wait_bit.constprop.0`, `foo.isra.3`: the compiler's copies of one function.
        let end = name.iter().position(|&byte| byte == b'.' || byte.is_ascii_whitespace());
        let end = end.unwrap_or(name.len()).min(usize::from(u8::MAX));
        self.starts.push((start, self.names.len() as u32));
        self.names.push(end as u8);
        self.names.extend_from_slice(&name[..end]);
    }

    /// The function that an address lies in or after.
    fn name(&self, address: u64) -> Option<&str> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (_, at) = *self.starts.get(after.checked_sub(1)?)?;
        let at = at as usize;
        let length = usize::from(*self.names.get(at)?);
        str::from_utf8(self.names.get(at + 1..at + 1 + length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 t folio_wait_bit.constprop.0
ffffffff81000180 D some_data
ffffffff810001f0 t __pfx_schedule
ffffffff81000200 W schedule
ffffffffc0100000 t ext4_sync_file	[ext4]
ffffffffc0000000 t jbd2_log_wait_commit	[jbd2]
garbage
";

    #[test]
    fn an_address_is_named_after_the_function_before_it() {
        let symbols = Symbols::read(KALLSYMS.as_bytes());
        assert_eq!(symbols.name(0xffffffff81000000), Some("_stext"));
        assert_eq!(symbols.name(0xffffffff810001ff), Some("folio_wait_bit"));
        assert_eq!(symbols.name(0xffffffff81000204), Some("schedule"));
        assert_eq!(symbols.name(0xffffffffc0000010), Some("jbd2_log_wait_commit"));
        assert_eq!(symbols.name(0xffffffffc0100010), Some("ext4_sync_file"));
        assert_eq!(symbols.name(0xffffffff80ffffff), None);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = KALLSYMS.replace("ffffffff8", "000000000").replace("ffffffffc", "000000000");
        let hidden: String = hidden
            .lines()
            .map(|line| format!("{:016x}{}\n", 0, line.get(16..).unwrap_or_default()))
            .collect();
        assert_eq!(Symbols::read(hidden.as_bytes()).name(0xffffffff81000000), None);
    }

    #[test]
    fn the_same_frames_are_one_stack() {
        let mut stacks =
            Stacks { symbols: Some(Symbols::read(KALLSYMS.as_bytes())), ..Stacks::default() };
        let first = stacks.id_of(&[0xffffffff81000204, 0xffffffff81000001, 0, 7]);
        assert_eq!(stacks.id_of(&[0xffffffff81000204, 0xffffffff81000001]), first);
        assert_eq!(stacks.id_of(&[0, 1]), 0);
        let reported = stacks.take_new();
        assert_eq!(reported.len(), 1);
        assert_eq!(reported[0].frames, ["schedule", "_stext"]);
        assert!(stacks.take_new().is_empty());
    }

    #[test]
    fn a_stack_that_was_not_stored_is_one_of_the_kernels_without_names() {
        let symbols = Some(Symbols::read(KALLSYMS.as_bytes()));
        let mut stacks = Stacks { symbols, ..Stacks::default() };
        assert_ne!(stacks.not_stored(), 0, "0 is the program's own code");
        assert_eq!(stacks.take_new()[0].frames, ["[unknown]"]);
    }
}
