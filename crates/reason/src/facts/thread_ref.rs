//! The name of a thread: what every fact about one carries.
//!
//! Apart from thread.rs, because objects name threads (who holds a lock, whose descriptor it is) and threads name objects
//! (what they wait for). Identity is (tid, start time), which facts have more
//! and less exactly: model/thread_key.rs says when two are one. The comm is decoration.

use super::Ns;
use serde::{Deserialize, Serialize};

/// Names one thread for the length of a look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadRef {
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// Process id (thread group) in the initial PID namespace.
    pub pid: u32,
    /// When the thread began (CLOCK_MONOTONIC); 0 if unknown.
    #[serde(default)]
    pub start_ns: Ns,
    /// Its name, lossily UTF-8, not escaped.
    #[serde(default)]
    pub comm: String,
}
