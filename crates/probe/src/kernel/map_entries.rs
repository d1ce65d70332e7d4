//! The entries of a map of the kernel programs, one after the other, and what becomes of them.
//!
//! For whoever makes facts of sums (sums.rs, net_sums.rs). The programs go on adding: where another window follows, each entry is taken out
//! of its map in the call that reads it, so that it is in one window and no other; of what an array holds, what a CPU adds between its
//! reading and its clearing (a microsecond) is lost. Must not: say what an entry means.
//!
//! Rejected: to subtract what was there before (there is no difference of two maxima); two sets of maps, in turn (each program would
//! ask which of them at each event).

use crate::decode::wire::{self, Wire};
use libbpf_rs::{MapCore, MapFlags};

/// What becomes of a sum that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It stays: the look is over.
    Stays,
    /// It begins anew: another window follows.
    IsCleared,
}

impl After {
    /// Calls for each entry of a hash map.
    pub fn each<K: Wire, V: Wire>(self, map: &impl MapCore, mut call: impl FnMut(K, V)) {
        let keys: Vec<Vec<u8>> = map.keys().collect();
        for key in keys {
            if let Some(value) = self.value(map, &key) {
                call(wire::read(&key), wire::read(&value));
            }
        }
    }

    fn value(self, map: &impl MapCore, key: &[u8]) -> Option<Vec<u8>> {
        if self == Self::Stays {
            return map.lookup(key, MapFlags::ANY).ok().flatten();
        }
        // In one call since Linux 5.14; before, what is added between two is lost.
        match map.lookup_and_delete(key) {
            Ok(value) => value,
            Err(_) => {
                let value = map.lookup(key, MapFlags::ANY).ok().flatten()?;
                let _ = map.delete(key);
                Some(value)
            }
        }
    }

    /// All of a section of variables, which is a map of one entry.
    pub fn variable(self, map: &impl MapCore) -> Vec<u8> {
        let key = 0u32.to_ne_bytes();
        let value = map.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
        if self == Self::IsCleared && value.iter().any(|byte| *byte != 0) {
            // What cannot be cleared is reported once more, as it was before.
            let _ = map.update(&key, &vec![0; value.len()], MapFlags::ANY);
        }
        value
    }
}
