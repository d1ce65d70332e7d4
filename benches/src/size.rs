//! What each part of the shipped binary takes of its bytes.
//!
//! Code is counted by symbol, in the binary before it was stripped (profile.rs says where that lies), and by whose it is: a function of
//! the standard library that was compiled for a type of ours is ours. What has no symbol is known by its place (sections) or by what it
//! is (the kernel programs are whole ELF files, the page's parts are files of the repository). The parts add up to the shipped file:
//! what is left over is a row of its own. Must not: estimate. Rejected: cargo-bloat (it counts crates alone, ours would be one row, and
//! C and data none); building without each part in turn (the linker shares what two of them need).

use crate::profile::with_symbols;
use crate::results::SizePart;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Parts of our own crates that stand alone, deepest first.
const OWN: &[&str] = &[
    "holdup_reason::answer::export",
    "holdup_reason::answer::compare",
    "holdup_reason::answer::picture",
    "holdup_reason::answer",
    "holdup_reason::rules",
    "holdup_reason::measure",
    "holdup_reason::graph",
    "holdup_reason::waits",
    "holdup_reason::model",
    "holdup_reason::facts",
    "holdup_stacks",
    "holdup_system",
    "holdup_probe::readers",
    "holdup_probe::recording",
    "holdup_probe",
    "holdup::export",
    "holdup::mcp",
    "holdup::page",
    "holdup::text",
    "holdup::flags",
    "holdup",
];
/// Crates of others that stand alone; small ones are one row.
const OTHERS: &[(&str, &str)] = &[
    ("clap", "clap, its completions and man page"),
    ("roff", "clap, its completions and man page"),
    ("serde_json", "serde_json"),
    ("gimli", "gimli"),
    ("prost", "prost"),
    ("miniz_oxide", "flate2"),
    ("flate2", "flate2"),
];
/// C, by how functions begin, and by the files of those that do not.
const FOREIGN: &[(&str, &[&str], &[&str])] = &[
    (
        "zstd",
        &["ZSTD", "HUF_", "FSE_", "HIST_", "XXH", "COVER", "ZDICT", "FASTCOVER"],
        &["zstd", "huf", "fse", "divsufsort", "zdict"],
    ),
    (
        "libbpf, libelf, zlib",
        &[
            "bpf_",
            "btf_",
            "libbpf",
            "ring_buffer",
            "perf_buffer",
            "user_ring",
            "elf_",
            "gelf_",
            "elf32_",
            "elf64_",
            "__libelf",
            "__elf",
            "deflate",
            "inflate",
            "crc32",
            "adler32",
            "hashmap__",
            "strset__",
            "usdt_",
        ],
        &[
            "libbpf",
            "btf",
            "bpf",
            "ringbuf",
            "linker.c",
            "relo_core",
            "usdt",
            "elf",
            "gelf",
            "nlattr",
            "netlink.c",
            "hashmap",
            "strset",
            "features.c",
            "zip.c",
            "gen_loader",
            "deflate",
            "inflate",
            "inftrees",
            "inffast",
            "trees.c",
            "crc32",
            "adler32",
        ],
    ),
];
/// Below this a part is one of the rest, bytes.
const SHOWN_MIN: u64 = 25_000;

/// All parts, the largest first; they add up to the shipped file.
pub fn all(shipped: &Path, template: &Path) -> Result<Vec<SizePart>> {
    let symbols = with_symbols()?;
    let whole = std::fs::metadata(shipped)?.len();
    let mut parts = code(&run("readelf", &["--syms", "--wide"], &symbols)?);
    let counted: u64 = parts.values().sum();
    let sections = sections(&run("readelf", &["--sections", "--wide"], shipped)?);
    let of = |names: &[&str]| -> u64 {
        sections
            .iter()
            .filter(|(name, _)| names.iter().any(|it| name.starts_with(it)))
            .map(|(_, size)| *size)
            .sum()
    };
    let bytes = std::fs::read(shipped)?;
    let programs = kernel_programs(&bytes);
    let page = page(&bytes, template)?;
    let (text, constants) = (of(&[".text"]), of(&[".rodata"]));
    if counted > text || programs + page > constants {
        bail!(
            "{counted} bytes of code in {text}, {programs} and {page} of constants in {constants}: not the same binary"
        );
    }
    let unwinding = of(&[".eh_frame", ".gcc_except_table"]);
    let linked = of(&[".rela", ".relr", ".data", ".got", ".dyn", ".init", ".fini", ".tdata"]);
    let known = [
        ("kernel programs", programs),
        ("the page's template", page),
        ("constants: texts, tables of names", constants - programs - page),
        ("unwind tables", unwinding),
        ("tables of addresses, relocations", linked),
        ("between functions", text - counted),
    ];
    parts.extend(known.map(|(name, size)| (name.to_string(), size)));
    let rest = whole.saturating_sub(text + constants + unwinding + linked);
    *parts.entry("the rest, each below 25 kB".into()).or_default() += rest;
    Ok(shown(parts))
}

/// Large ones by size, all small ones together at the end.
fn shown(parts: BTreeMap<String, u64>) -> Vec<SizePart> {
    const REST: &str = "the rest, each below 25 kB";
    let (large, small): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|(name, size)| *size >= SHOWN_MIN && name != REST);
    let mut all: Vec<SizePart> =
        large.into_iter().map(|(name, bytes)| SizePart { name, bytes }).collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    all.push(SizePart { name: REST.into(), bytes: small.into_iter().map(|(_, size)| size).sum() });
    all
}

fn run(program: &str, arguments: &[&str], file: &Path) -> Result<String> {
    let done = Command::new(program).args(arguments).arg(file).output();
    let done = done.with_context(|| format!("{program} (binutils)"))?;
    if !done.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Bytes of code by part: lines of `readelf --syms`, where the local functions of a file follow its name.
fn code(text: &str) -> BTreeMap<String, u64> {
    let mut parts = BTreeMap::new();
    let mut file = "";
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, at, size, kind, bind, _, section, name @ ..] = words.as_slice() else { continue };
        match *kind {
            "FILE" => file = name.first().copied().unwrap_or_default(),
            // One function may have several names.
            "FUNC" | "IFUNC" if *section != "UND" && seen.insert(*at) => {
                let size = size
                    .strip_prefix("0x")
                    .map_or_else(|| size.parse(), |hex| u64::from_str_radix(hex, 16));
                let file = if *bind == "LOCAL" { file } else { "" };
                *parts
                    .entry(part_of(name.first().copied().unwrap_or_default(), file))
                    .or_default() += size.unwrap_or(0);
            }
            _ => {}
        }
    }
    parts
}

/// Whose a function is.
fn part_of(symbol: &str, file: &str) -> String {
    let Ok(demangled) = rustc_demangle::try_demangle(symbol) else {
        let found = FOREIGN.iter().find(|(_, begins, files)| {
            begins.iter().any(|begin| symbol.starts_with(begin))
                || (!file.is_empty() && files.iter().any(|it| file.starts_with(it)))
        });
        return found.map_or("the C library", |it| it.0).to_string();
    };
    let name = format!("{demangled:#}");
    let heads = heads(&name);
    let own = heads.iter().find(|head| head.starts_with("holdup"));
    if let Some(own) = own {
        let is_below = |part: &&&str| {
            own.strip_prefix(**part).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        return OWN
            .iter()
            .find(is_below)
            .map_or_else(|| (*own).to_string(), |part| (*part).to_string());
    }
    let of_std = |head: &str| {
        ["core", "alloc", "std", "hashbrown", "compiler_builtins"]
            .contains(&head.split("::").next().unwrap_or(head))
    };
    match heads.iter().find(|head| !of_std(head)) {
        Some(head) => {
            let head = head.split("::").next().unwrap_or(head);
            let named = OTHERS.iter().find(|(begin, _)| head.starts_with(begin));
            named.map_or("other crates", |it| it.1).to_string()
        }
        None => "Rust's standard library".into(),
    }
}

/// The paths that a name is made of: `<a::B as c::D<e::F>>::g` has those of a, c and e.
fn heads(name: &str) -> Vec<&str> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let paths = name.split(|c: char| !is_path(c));
    paths.filter(|path| path.contains("::") && !path.starts_with(':')).collect()
}

/// Sections by name, with their bytes in the file.
fn sections(text: &str) -> Vec<(String, u64)> {
    let of = |line: &str| {
        let line = line.split_once(']')?.1;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, _, _, size, ..] = words.as_slice() else { return None };
        let in_file = !["NOBITS", "NULL"].contains(kind);
        in_file.then_some(((*name).to_string(), u64::from_str_radix(size, 16).ok()?))
    };
    text.lines().filter_map(of).collect()
}

/// Bytes of the ELF files for the kernel that stand in another file: from their head to the end of their table of sections.
fn kernel_programs(bytes: &[u8]) -> u64 {
    const MACHINE_BPF: u16 = 247;
    let number = |at: usize, length: usize| -> Option<u64> {
        let read = bytes.get(at..at + length)?;
        Some(read.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let heads = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\x7fELF\x02\x01"));
    heads
        .filter(|at| number(at + 18, 2) == Some(MACHINE_BPF.into()))
        .filter_map(|at| Some(number(at + 40, 8)? + number(at + 58, 2)? * number(at + 60, 2)?))
        .sum()
}

/// Bytes of the page's parts, as often as they are in.
fn page(bytes: &[u8], template: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(template)? {
        let part = std::fs::read(entry?.path())?;
        let first = *part.first().context("an empty part of the page")?;
        let found = bytes
            .iter()
            .enumerate()
            .filter(|(at, byte)| **byte == first && bytes[*at..].starts_with(&part));
        sum += found.count() as u64 * part.len() as u64;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_whose_type_it_was_compiled_for() {
        let of = |name: &str| heads(name).into_iter().map(String::from).collect::<Vec<_>>();
        assert_eq!(of("<a::B as c::D<e::F>>::g"), ["a::B", "c::D", "e::F"]);
        let text = "\
            Num: Value Size Type Bind Vis Ndx Name\n\
            1: 00 0 FILE LOCAL DEFAULT ABS libbpf.c\n\
            2: 10 100 FUNC LOCAL DEFAULT 15 parse_line\n\
            3: 20 0x200 FUNC GLOBAL DEFAULT 15 ZSTD_compress\n\
            4: 20 0x200 FUNC GLOBAL DEFAULT 15 ZSTD_other_name\n\
            5: 30 7 FUNC GLOBAL DEFAULT 15 _ZN4core3ptr48drop_in_place$LT$holdup_reason..rules..Match$GT$17h0123456789abcdefE\n\
            6: 40 9 FUNC GLOBAL DEFAULT 15 qsort\n\
            7: 50 8 OBJECT GLOBAL DEFAULT 16 table\n";
        let parts = code(text);
        let wanted = [
            ("holdup_reason::rules", 7),
            ("libbpf, libelf, zlib", 100),
            ("the C library", 9),
            ("zstd", 512),
        ];
        assert_eq!(parts.iter().map(|(name, size)| (&**name, *size)).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn what_stands_in_a_file_is_found_by_what_it_is() {
        let mut program = b"\x7fELF\x02\x01".to_vec();
        program.resize(64, 0);
        (program[18], program[40], program[58], program[60]) = (247, 100, 64, 2);
        let mut other = program.clone();
        other[18] = 62;
        let bytes = [vec![1; 9], program, vec![0; 5], other].concat();
        assert_eq!(kernel_programs(&bytes), 228);
        let table = "  [ 1] .text PROGBITS 0000 0100 00ff 00 AX 0 0 16\n  [ 2] .bss NOBITS 0000 0200 0fff 00 WA 0 0 8\n";
        assert_eq!(sections(table), [(".text".to_string(), 255)]);
    }

    #[test]
    fn small_parts_are_one_row_at_the_end() {
        let parts = [("a", 30_000), ("b", 90_000), ("c", 5), ("d", 6)];
        let rows = shown(parts.into_iter().map(|(name, size)| (name.to_string(), size)).collect());
        let rows: Vec<_> = rows.iter().map(|row| (&*row.name, row.bytes)).collect();
        assert_eq!(rows, [("b", 90_000), ("a", 30_000), ("the rest, each below 25 kB", 11)]);
    }
}
