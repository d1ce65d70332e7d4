//! The ladder of the lock rules.
//!
//! A circle has no way out but through one of its locks, so it comes first; a lease is the narrower lock on a file, and
//! a session's lock the narrower one of a word in memory. Must not:
//! hold anything but the ladder.

pub(crate) mod deadlock;
pub(crate) mod file;
mod file_words;
pub(crate) mod futex;
pub(crate) mod goroutine;
pub(crate) mod interpreter;
pub(crate) mod kernel;
pub(crate) mod kernel_spin;
mod kernel_words;
pub(crate) mod lease;
mod let_go;
pub(crate) mod monitor;
pub(crate) mod polled;
pub(crate) mod replica;
pub(crate) mod row;
mod session;
mod stuck;

/// The rules of this area; the first that matches claims an end.
pub(crate) static LADDER: &[&super::Rule] = &[
    &deadlock::RULE,
    &lease::RULE,
    &file::RULE,
    &polled::RULE,
    &interpreter::RULE,
    &monitor::RULE,
    &goroutine::RULE,
    &replica::RULE,
    &row::RULE,
    &futex::RULE,
    &kernel::RULE,
    &kernel_spin::RULE,
];
