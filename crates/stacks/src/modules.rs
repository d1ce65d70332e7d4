//! The files that code runs from, opened and remembered: headers, rows of their tables, names of their functions.
//!
//! A file is opened by /proc/PID/map_files, which finds it however it is called by now and wherever its process is rooted,
//! else below /proc/PID/root. It is held open for one batch only: an open file would keep its file system from being
//! unmounted. What was read of it stays for the look. The kernel's own little library has no file: it is read from a
//! process's memory. Must not: open what is no plain file, whose opening may do something.
//!
//! All of this may wait for a disk or a dead server: only the helper thread is here (reader.rs).

use super::budget::{Budget, cpu_ns};
use super::elf::{Bytes, Elf};
use super::exports;
use super::java::frames::Layout;
use super::maps::Mapping;
use super::names;
use super::rows::{self, Row};
use holdup_reason::facts::Ns;
use holdup_system::memory;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Files that are remembered, and of each the rows and names.
const MODULES_MAX: usize = 256;
const REMEMBERED_MAX: usize = 4096;
/// What a pass takes for each symbol, nanoseconds, until one has been made here.
const SYMBOL_NS: f64 = if cfg!(debug_assertions) { 300.0 } else { 15.0 };
/// What a Java machine's tables take, nanoseconds.
const MACHINE_NS: Ns = if cfg!(debug_assertions) { 30_000_000 } else { 1_500_000 };
/// A pass over so many tells what one takes.
const MEASURED_SYMBOLS: f64 = 10_000.0;

/// Where a module's bytes are.
enum Origin {
    File(File),
    Memory { pid: u32, start: u64 },
}

impl Bytes for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < into.len() {
            let at = offset.wrapping_add(filled as u64);
            match FileExt::read_at(self, &mut into[filled..], at) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        filled
    }
}

impl Bytes for Origin {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        match self {
            Self::File(file) => Bytes::read_at(file, offset, into),
            Self::Memory { pid, start } => {
                let at = start.wrapping_add(offset);
                memory::read(*pid, at, into).map_or(0, |()| into.len())
            }
        }
    }
}

/// One file, or the kernel's library.
struct Module {
    from: Option<Origin>,
    elf: Elf,
    rows: HashMap<u64, Option<Arc<Row>>>,
    names: HashMap<u64, Option<Arc<str>>>,
    symbols: HashMap<&'static str, Option<u64>>,
    constants: HashMap<&'static str, Option<i32>>,
    /// This batch has no time for its names.
    is_left_out: bool,
}

/// All of a look.
pub(crate) struct Modules {
    all: Vec<Option<Module>>,
    by_file: HashMap<(String, u64), usize>,
    /// Of Java's libraries, where they say that things are.
    machines: HashMap<usize, Option<Arc<Layout>>>,
    /// What the last pass took for each symbol.
    symbol_ns: f64,
}

impl Default for Modules {
    fn default() -> Self {
        let (all, by_file, machines) = Default::default();
        Self { all, by_file, machines, symbol_ns: SYMBOL_NS }
    }
}

impl Modules {
    /// The module of a mapping; none if there is nothing to read.
    pub(crate) fn of(&mut self, pid: u32, mapping: &Mapping) -> Option<usize> {
        let is_kernels = mapping.path == "[vdso]";
        if mapping.file.1 == 0 && !is_kernels {
            return None;
        }
        let at = match self.by_file.get(&mapping.file) {
            Some(at) => *at,
            None if self.all.len() >= MODULES_MAX => return None,
            None => {
                let module = open(pid, mapping).and_then(|from| {
                    let elf = Elf::read(&from)?;
                    let (rows, names, symbols, constants) = Default::default();
                    let (from, is_left_out) = (Some(from), false);
                    Some(Module { from, elf, rows, names, symbols, constants, is_left_out })
                });
                self.all.push(module);
                self.by_file.insert(mapping.file.clone(), self.all.len() - 1);
                self.all.len() - 1
            }
        };
        let module = self.all[at].as_mut()?;
        if module.from.is_none() {
            module.from = open(pid, mapping);
        }
        Some(at)
    }

    /// How far a module was moved to be at a mapping.
    pub(crate) fn moved_by(&self, at: usize, mapping: &Mapping) -> Option<u64> {
        self.all[at].as_ref()?.elf.moved_by(mapping.start, mapping.offset)
    }

    /// The address of a symbol of a module.
    pub(crate) fn address_of(&mut self, at: usize, symbol: &'static str) -> Option<u64> {
        let Module { from, elf, symbols, .. } = self.all[at].as_mut()?;
        if let Some(known) = symbols.get(symbol) {
            return *known;
        }
        let address = names::address_of(elf, from.as_ref()?, symbol);
        symbols.insert(symbol, address);
        address
    }

    /// Where a Java machine's library says that things are: asked once, when there is time for it.
    pub(crate) fn machine(
        &mut self,
        at: usize,
        budget: &Budget,
        find: impl FnOnce(&mut Self) -> Option<Layout>,
    ) -> Option<Arc<Layout>> {
        if let Some(known) = self.machines.get(&at) {
            return known.clone();
        }
        if !budget.fits(MACHINE_NS) {
            return None;
        }
        let found = find(self).map(Arc::new);
        self.machines.insert(at, found.clone());
        found
    }

    /// A number that a module exports by this name and never changes: found by the loader's own index, and read from the file,
    /// which has no bytes for a zero.
    pub(crate) fn constant(&mut self, at: usize, symbol: &'static str) -> Option<i32> {
        let Module { from, elf, constants, .. } = self.all[at].as_mut()?;
        if let Some(known) = constants.get(symbol) {
            return *known;
        }
        let from = from.as_ref()?;
        let value = exports::address_of(elf, from, symbol).map(|address| {
            let mut bytes = [0; 4];
            elf.read_from(from, address, &mut bytes);
            i32::from_le_bytes(bytes)
        });
        constants.insert(symbol, value);
        value
    }

    /// How to leave the function at an address of a module.
    pub(crate) fn row(&mut self, at: usize, address: u64) -> Option<Arc<Row>> {
        let module = self.all[at].as_mut()?;
        if let Some(known) = module.rows.get(&address) {
            return known.clone();
        }
        let row = rows::row(&module.elf, module.from.as_ref()?, address).map(Arc::new);
        if module.rows.len() >= REMEMBERED_MAX {
            module.rows.clear();
        }
        module.rows.insert(address, row.clone());
        row
    }

    /// Finds the names of all these addresses, file by file, as far as the budget goes; each is asked for once.
    pub(crate) fn find_names(
        &mut self,
        addresses: impl Iterator<Item = (usize, u64)>,
        budget: &Budget,
    ) {
        let mut wanted: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (at, address) in addresses {
            let module = self.all[at].as_mut();
            if module.is_some_and(|module| !module.names.contains_key(&address)) {
                wanted.entry(at).or_default().push(address);
            }
        }
        // What gives most names for its symbols comes first: a compiler's library has a hundred thousand.
        let symbols = |at: usize| self.all[at].as_ref().map_or(0, |it| names::count(&it.elf));
        let mut wanted: Vec<(u64, usize, Vec<u64>)> =
            wanted.into_iter().map(|(at, of)| (symbols(at), at, of)).collect();
        wanted.sort_by_key(|(symbols, at, of)| (symbols / of.len().max(1) as u64, *at));
        for (symbols, at, mut addresses) in wanted {
            let Some(module) = self.all[at].as_mut() else { continue };
            let Some(from) = &module.from else { continue };
            let symbols = symbols as f64;
            // A large file is left out, and the small ones behind it are not.
            if module.is_left_out {
                continue;
            }
            if !budget.fits((symbols * self.symbol_ns) as u64) {
                module.is_left_out = true;
                continue;
            }
            addresses.sort_unstable();
            addresses.dedup();
            if module.names.len() >= REMEMBERED_MAX {
                module.names.clear();
            }
            let begin_ns = cpu_ns();
            let found = names::of(&module.elf, from, &addresses, &|| budget.has_time());
            let took_ns = cpu_ns().saturating_sub(begin_ns) as f64;
            let Some(found) = found else {
                // It was not even done: the next try needs more than that.
                self.symbol_ns = self.symbol_ns.max(2.0 * took_ns / symbols.max(1.0));
                budget.lacks(took_ns as u64);
                module.is_left_out = true;
                continue;
            };
            if symbols >= MEASURED_SYMBOLS {
                self.symbol_ns = took_ns / symbols;
            }
            let found = found.into_iter().map(|name| name.map(Arc::from));
            module.names.extend(addresses.into_iter().zip(found));
        }
    }

    /// The function at an address, if its name was found.
    pub(crate) fn name(&self, at: usize, address: u64) -> Option<Arc<str>> {
        self.all[at].as_ref()?.names.get(&address)?.clone()
    }

    /// Closes all files: the batch is over.
    pub(crate) fn close(&mut self) {
        for module in self.all.iter_mut().flatten() {
            (module.from, module.is_left_out) = (None, false);
        }
    }
}

fn open(pid: u32, mapping: &Mapping) -> Option<Origin> {
    if mapping.path == "[vdso]" {
        return Some(Origin::Memory { pid, start: mapping.start });
    }
    if mapping.path.starts_with("/dev/") || !mapping.path.starts_with('/') {
        return None;
    }
    let by_range = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let by_path = format!("/proc/{pid}/root{}", mapping.path);
    let plain = |path: &String| std::fs::metadata(path).is_ok_and(|found| found.is_file());
    [by_range, by_path]
        .into_iter()
        .filter(plain)
        .find_map(|path| File::open(path).ok())
        .map(Origin::File)
}
