//! The types of the running kernel that the programs read, with the kernel's others blanked.
//!
//! libbpf looks for each type that the programs read by comparing it with all types of the kernel, some 140,000 of them, a hundred
//! times: three quarters of what holdup itself computes in a look. It gets a BTF with those types alone instead, and with all that
//! lies in them; each has the number that it has in the kernel, since programs hand numbers on to the kernel (bpf_rdonly_cast), and
//! between them stand forward declarations without a name, which are compared with nothing. What cannot be read as a BTF is left to
//! libbpf, which goes through all.
//!
//! Must not: find offsets or judge what fits (libbpf does). Rejected: what is pointed at also, because through pointers half of the
//! kernel is reached, and each access through a pointer names its own type; new numbers without gaps (tried: the kernel then takes
//! them for other types, and the programs do not load). Edit together: build.rs (the names), bpf/kernel.h (whose types lie in a
//! module: [`MODULES`]). The format: Documentation/bpf/btf.rst in the kernel's sources.

use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Names of the types in the object that holdup ships, one a line; not all of them are the kernel's.
const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/type_names.txt"));
/// Modules with types of kernel.h, on kernels that do not have them built in.
const MODULES: [&str; 2] = ["fuse", "unix"];

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const FLOAT: u32 = 16;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

/// A file in memory with the types that the programs read, to be had by its path while it is open; none where the kernel's BTF
/// cannot be read as one, or where more than one module has types that are read: their numbers overlap.
pub(super) fn file(kernel: &Path) -> Option<File> {
    let base = std::fs::read(kernel).ok()?;
    let beside = |module: &str| std::fs::read(kernel.with_file_name(module)).ok();
    let modules: Vec<Vec<u8>> = MODULES.iter().copied().filter_map(beside).collect();
    let names: HashSet<&[u8]> = NAMES.lines().map(|name| essential(name.as_bytes())).collect();
    let types = match &modules[..] {
        [] => cut(&names, &base, None)?,
        [module] => cut(&names, &base, Some(module))?,
        _ => return None,
    };
    let mut file = File::from(memfd_create("holdup-types", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&types).ok()?;
    Some(file)
}

/// By which libbpf finds it.
pub(super) fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// A name without its flavor, as libbpf compares them: `task_struct` of `task_struct___old_state`.
fn essential(name: &[u8]) -> &[u8] {
    let separates = |at: &[u8]| at[0] != b'_' && at[1..4] == *b"___" && at[4] != b'_';
    let flavor = name.windows(5).rposition(separates);
    flavor.map_or(name, |before| &name[..=before])
}

/// One BTF: the kernel's own, or a module's, which goes on where that ends.
struct Btf<'a> {
    types: &'a [u8],
    /// Where each type begins, without the first, which is `void`.
    starts: Vec<usize>,
    strings: &'a [u8],
    first_type: u32,
    first_string: u32,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn kind(info: u32) -> u32 {
    (info >> 24) & 0x1f
}

fn members(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Bytes behind the three words that each type has.
fn bytes_behind(info: u32) -> Option<usize> {
    Some(match kind(info) {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => 12 * members(info),
        ENUM | FUNC_PROTO => 8 * members(info),
        PTR | FWD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => 0,
        _ => return None,
    })
}

impl<'a> Btf<'a> {
    fn read(bytes: &'a [u8], base: Option<&Btf<'_>>) -> Option<Self> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        if magic != MAGIC || *bytes.get(2)? != VERSION {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let part = |at: usize| {
            let begin = header.checked_add(word(bytes, at)? as usize)?;
            bytes.get(begin..begin.checked_add(word(bytes, at + 4)? as usize)?)
        };
        let (types, strings) = (part(8)?, part(16)?);
        let (mut starts, mut at) = (Vec::new(), 0);
        while at < types.len() {
            starts.push(at);
            at += TYPE_BYTES + bytes_behind(word(types, at + 4)?)?;
        }
        let (first_type, first_string) = match base {
            None => (1, 0),
            Some(base) => (
                base.first_type + base.starts.len() as u32,
                base.first_string + base.strings.len() as u32,
            ),
        };
        (at == types.len()).then_some(Self { types, starts, strings, first_type, first_string })
    }

    fn start(&self, id: u32) -> Option<usize> {
        self.starts.get(id.checked_sub(self.first_type)? as usize).copied()
    }

    fn string(&self, offset: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(offset.checked_sub(self.first_string)? as usize..)?;
        rest.split(|byte| *byte == 0).next()
    }
}

/// Which words behind the first three of a type of that kind are names, and which are numbers of types that lie in it: of entries
/// of so many words.
fn entry_words(info: u32) -> (usize, &'static [usize], &'static [usize]) {
    match kind(info) {
        ARRAY => (3, &[], &[0, 1]),
        STRUCT | UNION => (3, &[0], &[1]),
        ENUM => (2, &[0], &[]),
        ENUM64 => (3, &[0], &[]),
        _ => (1, &[], &[]),
    }
}

/// The kernel's types and a module's, as one.
struct Sources<'a> {
    of: Vec<Btf<'a>>,
}

impl<'a> Sources<'a> {
    fn count(&self) -> usize {
        self.of.iter().map(|of| of.starts.len()).sum()
    }

    /// The words of a type; none of `void`.
    fn words(&self, id: u32) -> Option<Vec<u32>> {
        let (of, at) = self.of.iter().rev().find_map(|of| Some((of, of.start(id)?)))?;
        let end = at + TYPE_BYTES + bytes_behind(word(of.types, at + 4)?)?;
        (at..end).step_by(4).map(|at| word(of.types, at)).collect()
    }

    fn string(&self, offset: u32) -> Option<&'a [u8]> {
        self.of.iter().rev().find_map(|of| of.string(offset))
    }

    /// Types of these names; as libbpf does, in a module only what the kernel itself has not.
    fn named(&self, names: &HashSet<&[u8]>) -> Option<Vec<u32>> {
        let (mut found, mut ids) = (HashSet::new(), Vec::new());
        for of in &self.of {
            let before = found.clone();
            for (index, at) in of.starts.iter().enumerate() {
                let (offset, info) = (word(of.types, *at)?, word(of.types, at + 4)?);
                if offset == 0
                    || !matches!(kind(info), INT | STRUCT | UNION | ENUM | TYPEDEF | FLOAT | ENUM64)
                {
                    continue;
                }
                let name = essential(self.string(offset)?);
                if names.contains(name) && !before.contains(name) {
                    found.insert(name);
                    ids.push(of.first_type + index as u32);
                }
            }
        }
        Some(ids)
    }

    /// For each number whether the type is one of these, or lies in one of them.
    fn with_what_lies_in(&self, mut to_do: Vec<u32>) -> Option<Vec<bool>> {
        let mut read = vec![false; self.count() + 1];
        while let Some(id) = to_do.pop() {
            if id == 0 || std::mem::replace(read.get_mut(id as usize)?, true) {
                continue;
            }
            let words = self.words(id)?;
            if matches!(kind(words[1]), TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG) {
                to_do.push(words[2]);
            }
            let (step, _, types) = entry_words(words[1]);
            for entry in words[3..].chunks_exact(step) {
                to_do.extend(types.iter().map(|at| entry[*at]));
            }
        }
        Some(read)
    }
}

/// The strings of the BTF that is being written.
struct Strings(Vec<u8>);

impl Strings {
    fn push(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.0.len() as u32;
        self.0.extend(text);
        self.0.push(0);
        at
    }
}

fn bytes(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let (types_bytes, strings_bytes) = (4 * types.len() as u32, strings.len() as u32);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 4 * types.len() + strings.len());
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend([VERSION, 0]);
    for word in [HEADER_BYTES as u32, 0, types_bytes, types_bytes, strings_bytes] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    bytes
}

/// A BTF with the types of these names, and with what lies in them but not behind pointers, each at its own number.
fn cut(names: &HashSet<&[u8]>, kernel: &[u8], module: Option<&[u8]>) -> Option<Vec<u8>> {
    let base = Btf::read(kernel, None)?;
    let of_module = module.and_then(|bytes| Btf::read(bytes, Some(&base)));
    let sources = Sources { of: [base].into_iter().chain(of_module).collect() };
    let read = sources.with_what_lies_in(sources.named(names)?)?;
    let last = read.iter().rposition(|it| *it)?;
    let (mut types, mut strings) = (Vec::new(), Strings(vec![0]));
    for (id, read) in read.iter().enumerate().take(last + 1).skip(1) {
        if !read {
            types.extend([0, FWD << 24, 0]);
            continue;
        }
        let mut words = sources.words(id as u32)?;
        let (step, named, _) = entry_words(words[1]);
        words[0] = strings.push(sources.string(words[0])?);
        if kind(words[1]) == PTR {
            words[2] = 0;
        }
        for entry in words[3..].chunks_exact_mut(step) {
            for at in named {
                entry[*at] = strings.push(sources.string(entry[*at])?);
            }
        }
        types.extend(words);
    }
    Some(bytes(&types, &strings.0))
}

#[cfg(test)]
#[path = "kernel_types_tests.rs"]
mod tests;
