//! Kernel stacks: each distinct one gets an identity and is told once, by function names.
//!
//! Names come from /proc/kallsyms by blazesym, loaded when the first stack is asked for. Nothing here
//! reads user memory or binaries. Rejected: a stack in every event (they are nine tenths of the bytes).

use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{Addr, MaybeDefault};
use holdup_reason::facts::Stack;
use std::collections::HashMap;

/// Identities of stacks, and names of functions already asked for.
#[derive(Default)]
pub struct Stacks {
    known: HashMap<Vec<u64>, u32>,
    names: HashMap<u64, String>,
    fresh: Vec<(u32, Vec<u64>)>,
    symbolizer: Option<Symbolizer>,
}

impl Stacks {
    /// Identity of a stack, 0 for an empty one. A new stack is remembered for `take_new`.
    pub fn id_of(&mut self, frames: &[u64]) -> u32 {
        let frames: Vec<u64> = frames.iter().copied().take_while(|&f| f != 0).collect();
        if frames.is_empty() {
            return 0;
        }
        if let Some(&id) = self.known.get(&frames) {
            return id;
        }
        let id = self.known.len() as u32 + 1;
        self.known.insert(frames.clone(), id);
        self.fresh.push((id, frames));
        id
    }

    /// The stacks that are new since the last call, with names.
    pub fn take_new(&mut self) -> Vec<Stack> {
        let fresh = std::mem::take(&mut self.fresh);
        let mut unknown: Vec<u64> = fresh
            .iter()
            .flat_map(|(_, frames)| frames.iter().copied())
            .filter(|frame| !self.names.contains_key(frame))
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        self.name(&unknown);
        fresh
            .into_iter()
            .map(|(id, frames)| Stack {
                id,
                frames: frames
                    .iter()
                    .map(|f| self.names.get(f).cloned().unwrap_or_else(|| format!("{f:#x}")))
                    .collect(),
            })
            .collect()
    }

    fn name(&mut self, addresses: &[Addr]) {
        if addresses.is_empty() {
            return;
        }
        let symbolizer = self.symbolizer.get_or_insert_with(Symbolizer::new);
        let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
        let Ok(found) = symbolizer.symbolize(&source, Input::AbsAddr(addresses)) else { return };
        for (address, symbol) in addresses.iter().zip(found) {
            if let Symbolized::Sym(symbol) = symbol {
                // `folio_wait_bit.constprop.0`, `foo.isra.3`: the compiler's copies of one function.
                let name = symbol.name.split('.').next().unwrap_or(&symbol.name);
                self.names.insert(*address, name.to_string());
            }
        }
    }
}
