//! The entries of a map of the kernel programs, one after the other.
//!
//! For whoever makes facts of sums (sums.rs, net_sums.rs). Must not: say what an entry means.

use crate::decode::wire::{self, Wire};
use libbpf_rs::{MapCore, MapFlags};

/// Calls for each entry of a hash map.
pub fn each<K: Wire, V: Wire>(map: &impl MapCore, mut call: impl FnMut(K, V)) {
    let keys: Vec<Vec<u8>> = map.keys().collect();
    for key in keys {
        if let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) {
            call(wire::read(&key), wire::read(&value));
        }
    }
}
