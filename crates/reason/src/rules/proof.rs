//! How an end was named, and how sure that makes it.
//!
//! Confidence is never a rule's literal: it belongs to the kind of proof. The numbers are those that the lab found, as low as the
//! 95 % interval of three seeds allows (docs/accuracy.md, "Confidence and outcome"): the lab and the rules come from the same
//! heads, so programs that nobody here wrote get no more. Of a single witness the lab has no answer to measure: chosen.

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
    /// How sure an answer proven so is said to be, 0 to 1.
    pub const fn confidence(self) -> f64 {
        match self {
            Self::Read => 0.97,
            Self::TwoWitnesses => 0.94,
            Self::Inferred => 0.9,
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
