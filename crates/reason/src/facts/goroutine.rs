//! Goroutines that stand: what the threads of a Go program run in turn, and which of them waits where.
//!
//! The kernel schedules threads, and any thread of a Go program runs any goroutine: what a thread waits for says nothing of
//! the goroutine that a client waits for. Names and addresses only, each checked against the runtime's own tables. Must not:
//! carry arguments or memory, which are the program's content.

use super::{Ns, UserFrame};
use serde::{Deserialize, Serialize};

/// Goroutines that are reported of a process.
pub const GOROUTINES_STANDING_MAX: usize = 32;
/// Of them, those that wait for a mutex or for one another.
pub const GOROUTINES_QUEUED_MAX: usize = 20;
/// Frames that are reported of one.
pub const GOROUTINE_FRAMES_MAX: usize = 40;

/// Goroutines of one process at one instant: those that stand, the ones that matter to a wait first. Reported when something has
/// changed, and each second. Source: the process's memory, process_vm_readv, by the tables that the Go linker writes
/// (runtime/symtab.go).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Goroutines {
    /// The process.
    pub pid: u32,
    /// Its release of Go: `go1.26.8`; empty if the program does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// How many places for goroutines it has, those of ended ones among them.
    pub count: u64,
    /// Of them, how many were read.
    pub read: u64,
    /// Some of those ran or were ready to: where they stand is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub some_run: bool,
    /// Those that stand, at most [`GOROUTINES_STANDING_MAX`].
    pub standing: Vec<Goroutine>,
}

/// A goroutine that stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Goroutine {
    /// Its number.
    pub id: u64,
    /// It was seen at this place at each reading since then.
    pub since_ns: Ns,
    /// When it was last seen elsewhere, or not at all; 0: it stood there at the first reading.
    #[serde(skip_serializing_if = "crate::facts::goroutine::is_zero")]
    pub absent_ns: Ns,
    /// Address of the mutex that it waits for; 0: it waits for none, or which is not known.
    #[serde(skip_serializing_if = "crate::facts::goroutine::is_zero")]
    pub lock: u64,
    /// Mutexes that others wait for and whose address, or that of what they are a part of, lies on its stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refers: Vec<u64>,
    /// The innermost first.
    pub frames: Vec<UserFrame>,
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use crate::facts::{Body, Fact, Goroutines};

    #[test]
    fn what_a_recording_does_not_have_is_left_open() {
        let read: Fact = serde_json::from_str(r#"{"t":1,"f":"goroutines","v":{}}"#).unwrap();
        assert_eq!(read.body, Body::Goroutines(Goroutines::default()));
        let text = r#"{"t":1,"f":"goroutines","v":{"standing":[{"id":7,"new":1}]}}"#;
        let read: Fact = serde_json::from_str(text).unwrap();
        let Body::Goroutines(all) = read.body else { panic!("another fact") };
        assert_eq!((all.standing[0].id, all.standing[0].lock), (7, 0));
    }
}
