//! How a fact comes into the index: each area has a place for each kind of fact that is its own.
//!
//! `Model::push` (mod.rs) matches every variant of `Body` by name and gives it to an area; an area that has no `Push` for it does
//! not compile, so no fact is taken in and dropped. Must not: have an implementation that takes any fact. Rejected: a `match` in
//! each area, which has to end in a wildcard.
//!
//! Edit together: facts/mod.rs (a new variant), mod.rs (its arm), the file of its area.

use crate::facts::Ns;

/// Counters of one thing over time.
pub type Series<T> = Vec<(Ns, T)>;

/// An area that has a place for a kind of fact.
pub(super) trait Push<F> {
    /// Takes it in, as it was observed at a moment.
    fn push(&mut self, at: Ns, fact: F);
}
