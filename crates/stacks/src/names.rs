//! Names of functions: of all addresses of a file at once, by one pass over each of its tables of symbols.
//!
//! Owns which of several names of one function is taken (the one that a person knows: without leading underscores), and
//! what a linker's name is as people write it. Pure; fuzzed. Rejected: an index of the file's symbols (a look asks for some
//! dozens of addresses, and a file may have a million symbols), and a library for all of C++'s mangling (it is more code
//! than all the rest of this folder: of `_ZN` names the path alone is wanted, without arguments).

use super::elf::{Bytes, Elf, Symbols, u16_at, u32_at, u64_at};

const SYMBOL_BYTES: usize = 24;
/// Symbols of one table that are looked at.
const SYMBOLS_MAX: u64 = 1 << 20;
const NAME_BYTES_MAX: usize = 512;
/// Names of one address that are compared.
const NAMES_MAX: usize = 4;
const FUNCTION: u8 = 2;
const INDIRECT_FUNCTION: u8 = 10;

/// The functions that addresses lie in, in the addresses' order; none if there is no time for all.
pub fn of(
    elf: &Elf,
    bytes: &dyn Bytes,
    addresses: &[u64],
    has_time: &dyn Fn() -> bool,
) -> Option<Vec<Option<String>>> {
    let mut names = vec![None; addresses.len()];
    for symbols in &elf.symbols {
        let mut open: Vec<(u64, usize)> = (addresses.iter().zip(0..))
            .filter(|(_, at)| names[*at].is_none())
            .map(|(address, at)| (*address, at))
            .collect();
        if open.is_empty() {
            break;
        }
        open.sort_unstable();
        for ((_, at), found) in open.iter().zip(starts(symbols, bytes, &open, has_time)?) {
            let texts = found.iter().filter_map(|name| text(symbols, bytes, *name));
            let best = texts.min_by_key(|name| {
                let underscores = name.len() - name.trim_start_matches('_').len();
                (underscores, name.len(), name.clone())
            });
            names[*at] = best.map(|name| readable(&name));
        }
    }
    Some(names)
}

/// Symbols that a search may have to look at.
pub fn count(elf: &Elf) -> u64 {
    let of = |it: &Symbols| it.table.end.saturating_sub(it.table.start) / SYMBOL_BYTES as u64;
    elf.symbols.iter().map(|symbols| of(symbols).min(SYMBOLS_MAX)).sum()
}

/// The address of a symbol, of whatever kind, in a table that is not larger than a library's. What a file exports is asked
/// first: that table is the smaller one.
pub fn address_of(elf: &Elf, bytes: &dyn Bytes, name: &str) -> Option<u64> {
    const BYTES_MAX: u64 = 1 << 20;
    let read = |range: &std::ops::Range<u64>| {
        let length = range.end.saturating_sub(range.start).min(BYTES_MAX);
        let mut all = vec![0; length as usize];
        let read = bytes.read_at(range.start, &mut all);
        all.truncate(read);
        all
    };
    elf.symbols.iter().rev().find_map(|symbols| {
        let (names, table) = (read(&symbols.names), read(&symbols.table));
        let is_it = |symbol: &&[u8]| {
            let rest = names.get(u32_at(symbol, 0) as usize..).unwrap_or_default();
            let behind = rest.strip_prefix(name.as_bytes()).and_then(|behind| behind.first());
            u16_at(symbol, 6) != 0 && behind == Some(&0)
        };
        let symbol = table.chunks_exact(SYMBOL_BYTES).find(is_it)?;
        Some(u64_at(symbol, 8))
    })
}

/// Where the names of the functions begin that hold each address.
fn starts(
    symbols: &Symbols,
    bytes: &dyn Bytes,
    sorted: &[(u64, usize)],
    has_time: &dyn Fn() -> bool,
) -> Option<Vec<Vec<u32>>> {
    const CHUNK_SYMBOLS: u64 = 2048;
    let mut found = vec![Vec::new(); sorted.len()];
    let all = symbols.table.end.saturating_sub(symbols.table.start) / SYMBOL_BYTES as u64;
    let mut chunk = vec![0; CHUNK_SYMBOLS as usize * SYMBOL_BYTES];
    for first in (0..all.min(SYMBOLS_MAX)).step_by(CHUNK_SYMBOLS as usize) {
        if !has_time() {
            return None;
        }
        let count = (all - first).min(CHUNK_SYMBOLS) as usize * SYMBOL_BYTES;
        let Some(offset) = symbols.table.start.checked_add(first * SYMBOL_BYTES as u64) else {
            break;
        };
        let read = bytes.read_at(offset, &mut chunk[..count]);
        for symbol in chunk[..read].chunks_exact(SYMBOL_BYTES) {
            let kind = symbol[4] & 15;
            let (start, length) = (u64_at(symbol, 8), u64_at(symbol, 16));
            // Without a section it is somebody else's.
            if (kind != FUNCTION && kind != INDIRECT_FUNCTION) || u16_at(symbol, 6) == 0 {
                continue;
            }
            let end = start.saturating_add(length);
            let from = sorted.partition_point(|(address, _)| *address < start);
            let inside = sorted[from..].iter().take_while(|(address, _)| *address < end);
            let inside = inside.count();
            for names in &mut found[from..from + inside] {
                if names.len() < NAMES_MAX {
                    names.push(u32_at(symbol, 0));
                }
            }
        }
        if read < count {
            break;
        }
    }
    Some(found)
}

fn text(symbols: &Symbols, bytes: &dyn Bytes, at: u32) -> Option<String> {
    let offset = symbols.names.start.checked_add(u64::from(at))?;
    let room = symbols.names.end.checked_sub(offset)?.min(NAME_BYTES_MAX as u64) as usize;
    let mut name = vec![0; room];
    let read = bytes.read_at(offset, &mut name);
    name.truncate(read);
    name.truncate(name.iter().position(|byte| *byte == 0)?);
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// A linker's name as people write it: of Rust and C++ the path, without hash, arguments and the suffixes of compilers.
pub fn readable(name: &str) -> String {
    let name = name.split('@').next().unwrap_or_default();
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let text = format!("{rust:#}");
        return text.chars().take(NAME_BYTES_MAX).collect();
    }
    if let Some(path) = path_of(name) {
        return path;
    }
    let suffixes = [".constprop", ".isra", ".part", ".cold", ".lto_priv", ".llvm"];
    let end = suffixes.iter().filter_map(|suffix| name.find(suffix)).min();
    name[..end.unwrap_or(name.len())].to_string()
}

/// The path in a C++ name (`_ZN4tpool11thread_poolE...`): its parts, without templates and arguments. Of `_Z4namev` the
/// one part.
fn path_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, nested) = match rest.strip_prefix('N') {
        Some(inside) => (inside.trim_start_matches(['K', 'V', 'r', 'R', 'O']), true),
        None => (rest.strip_prefix('L').unwrap_or(rest), false),
    };
    let mut parts: Vec<&str> = Vec::new();
    if let Some(inside) = rest.strip_prefix("St") {
        parts.push("std");
        rest = inside;
    }
    loop {
        rest = rest.strip_prefix('L').unwrap_or(rest);
        if let Some(inside) = rest.strip_prefix('I') {
            rest = behind_template(inside)?;
            continue;
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (Ok(length), true) = (rest[..digits].parse::<usize>(), digits > 0) else { break };
        let part = rest.get(digits..digits.checked_add(length)?)?;
        parts.push(if part.starts_with("_GLOBAL__N") { "(anonymous)" } else { part });
        rest = &rest[digits + length..];
        // `foo[abi:cxx11]`.
        while let Some(tag) = rest.strip_prefix('B') {
            let digits = tag.len() - tag.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let length = tag[..digits].parse::<usize>().ok()?;
            rest = tag.get(digits.checked_add(length)?..)?;
        }
        if !nested {
            break;
        }
    }
    let last = *parts.last()?;
    if nested && matches!(rest.get(..2), Some("C1" | "C2" | "D0" | "D1" | "D2")) {
        parts.push(last);
    }
    Some(parts.join("::"))
}

/// What stands behind the arguments of a template. Where they are more than names and plain types, nothing is known.
fn behind_template(inside: &str) -> Option<&str> {
    let bytes = inside.as_bytes();
    let (mut at, mut depth) = (0, 1_u32);
    while depth > 0 {
        match *bytes.get(at)? {
            // Names may hold any letter: they are passed over by their length.
            b'0'..=b'9' => {
                let digits = inside.get(at..)?.bytes().take_while(u8::is_ascii_digit).count();
                let length: usize = inside.get(at..at + digits)?.parse().ok()?;
                at = at.checked_add(digits)?.checked_add(length)?;
                continue;
            }
            b'I' | b'N' | b'J' | b'F' | b'X' => depth += 1,
            // A literal: its type and its digits, up to its own end.
            b'L' => {
                at += inside.get(at..)?.find('E')?;
            }
            b'S' => at += 1,
            b'E' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    inside.get(at..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::program;

    #[test]
    fn names_are_read_as_people_write_them() {
        let cases = [
            ("pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock"),
            ("do_wait.constprop.0", "do_wait"),
            ("_ZN13ObjectMonitor5enterEP10JavaThread", "ObjectMonitor::enter"),
            ("_ZNSt6thread4joinEv", "std::thread::join"),
            ("_ZNSt13__future_baseC2Ev", "std::__future_base::__future_base"),
            ("_ZN7handler12ha_write_rowEPKh", "handler::ha_write_row"),
            ("_Z10mysql_lockP3THD", "mysql_lock"),
            ("_ZN3BoxISt4pairIiiEE3putEv", "Box::put"),
            ("_ZN12_GLOBAL__N_13runEv", "(anonymous)::run"),
            ("_ZN3std4sync5mutex5Mutex4lock17h0123456789abcdefE", "std::sync::mutex::Mutex::lock"),
            ("_ZN", "_ZN"),
            ("_ZN99", "_ZN99"),
        ];
        for (linker, people) in cases {
            assert_eq!(readable(linker), people);
        }
    }

    #[test]
    fn an_address_is_named_after_the_function_that_holds_it() {
        let symbols = [("___wait", 0x2000, 16), ("wait", 0x2000, 16), ("next", 0x2010, 16)];
        let file = program(&symbols);
        let elf = Elf::read(&file).unwrap();
        let names = |time: bool| of(&elf, &file, &[0x2018, 0x2004, 0x2020], &|| time);
        assert_eq!(names(false), None, "no time");
        let names = names(true).unwrap();
        assert_eq!(names, [Some("next".to_string()), Some("wait".to_string()), None]);
        assert_eq!(address_of(&elf, &file, "next"), Some(0x2010));
        assert_eq!(address_of(&elf, &file, "nex"), None);
    }
}
