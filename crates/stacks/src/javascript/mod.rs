//! The functions of a JavaScript program: V8 writes the function of each of its frames beside the frame pointer.
//!
//! Owns which frames are asked, and what a function is called: its name, its script, and the line on which it begins (the line
//! that it is at is not known, as V8 keeps no table of lines until somebody throws). Pure over whatever reads the process's memory,
//! which may hold anything and may change while it is read: an object is believed by its type, from the function to its script, so
//! of a pointer that has gone astray nothing is said. A function that was compiled into its caller has no frame. Must not: read
//! values of variables, or parts of a script's text other than its ends of lines.

mod objects;
mod tables;
#[cfg(test)]
mod tests;

use super::called::Memory;
use super::maps::Mapping;
use super::modules::Modules;
use holdup_reason::facts::UserFrame;
use objects::Heap;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tables::Tables;

/// Bytes of scripts that are read for their lines, in one batch.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// Never more than a page, which is there whole.
const BLOCK_BYTES: usize = 1024;
const BLOCKS_MAX: usize = 1024;

/// An engine of a process.
pub(crate) struct JavaScript {
    tables: Tables,
    bytes_left: u64,
}

/// Memory that is read block by block, each once: an engine keeps what belongs together together.
#[derive(Default)]
pub(crate) struct Blocks(HashMap<u64, Box<[u8; BLOCK_BYTES]>>);

impl Blocks {
    /// Reads what has no room in a block, or crosses from one to the next, as it stands.
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8], memory: &mut Memory<'_>) -> Option<()> {
        let (first, offset) = (at - at % BLOCK_BYTES as u64, at as usize % BLOCK_BYTES);
        let inside = offset..offset + into.len();
        if inside.end > BLOCK_BYTES || self.0.len() >= BLOCKS_MAX {
            return memory(at, into);
        }
        let block = match self.0.entry(first) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let mut block = Box::new([0; BLOCK_BYTES]);
                memory(first, &mut block[..])?;
                free.insert(block)
            }
        };
        into.copy_from_slice(&block[inside]);
        Some(())
    }
}

impl JavaScript {
    /// Among the files that a process runs code of.
    pub(crate) fn find(pid: u32, mappings: &[Arc<Mapping>], modules: &mut Modules) -> Option<Self> {
        let tables = mappings.iter().find_map(|mapping| {
            let module = modules.of(pid, mapping)?;
            Tables::read(&mut |name| modules.constant(module, name))
        });
        tables.map(Self::of)
    }

    fn of(tables: Tables) -> Self {
        Self { tables, bytes_left: SCRIPT_BYTES_MAX }
    }

    /// The function of a frame by its frame pointer; none if it is none of a script.
    pub(crate) fn function(&mut self, frame: u64, memory: &mut Memory<'_>) -> Option<UserFrame> {
        let Self { tables, bytes_left } = self;
        let mut heap = Heap { tables, memory };
        // A frame of the engine's own has a number there.
        heap.object_at(frame.wrapping_add_signed(tables.frame_context))?;
        let function = heap.object_at(frame.wrapping_add_signed(tables.frame_function))?;
        // Constructors have types of their own, behind that of functions.
        heap.kind(function).filter(|kind| *kind >= tables.function_type)?;
        let shared = heap.of_type(function, tables.function_shared, tables.shared_type)?;
        let script = heap.of_type(shared, tables.shared_script, tables.script_type)?;
        let path = heap.object_at(script.wrapping_add(tables.script_name));
        let path = path.and_then(|path| heap.text(path))?;
        let scope = heap.scope(shared);
        let module = file_name(&path);
        let line = scope
            .begins_at
            .filter(|_| !is_nodes(&module))
            .map_or(0, |begins_at| heap.line(script, begins_at, bytes_left).unwrap_or(0));
        let function = match (scope.name, scope.begins_at) {
            (Some(name), _) => name,
            (None, Some(0)) => "<module>".into(),
            (None, _) => "<anonymous>".into(),
        };
        Some(UserFrame { function, module, line })
    }
}

/// Whether it is a script of Node's own.
fn is_nodes(module: &str) -> bool {
    module.starts_with("node:")
}

/// The last part of a path or address; what belongs to Node itself stands under its name.
pub(crate) fn file_name(path: &str) -> String {
    if is_nodes(path) {
        return path.into();
    }
    // Before Node 16 its own scripts had no mark but a path without a root.
    let is_inside = !path.starts_with(['/', '[', '<']) && !path.contains(':');
    match path.strip_suffix(".js").filter(|_| is_inside) {
        Some(own) => format!("node:{own}"),
        None => path.rsplit('/').next().unwrap_or_default().to_string(),
    }
}
