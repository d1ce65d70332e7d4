//! How an end was named, and how sure that makes it.
//!
//! Confidence is never a rule's literal: it belongs to the kind of proof. The four numbers are chosen, not yet measured: a lab
//! run prints them next to the share of answers of each kind that were right, and they are to be taken from there.

/// The kinds of proof, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// Read from its owner: a lock table, a futex word, a setting that is met, a counter of the thing itself.
    Read,
    /// Two independent interfaces agree.
    TwoWitnesses,
    /// What remains when the other reasons are excluded.
    Inferred,
    /// One witness, and nothing that speaks against it.
    OneWitness,
}

impl Proof {
    /// How sure an answer proven so is said to be, 0 to 1; chosen.
    pub const fn confidence(self) -> f64 {
        match self {
            Self::Read => 0.97,
            Self::TwoWitnesses => 0.92,
            Self::Inferred => 0.85,
            Self::OneWitness => 0.75,
        }
    }

    /// The word of `holdup -v`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read from its owner",
            Self::TwoWitnesses => "two witnesses agree",
            Self::Inferred => "inferred: the other reasons are excluded",
            Self::OneWitness => "one witness",
        }
    }
}
