//! One trait for the live host and for a recording: whatever reads facts reads both alike.
//!
//! Rejected: an async stream. Facts arrive in batches of a poll interval, and the one event loop
//! of the binary is a plain loop.

use holdup_reason::facts::Fact;

/// Why facts could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A recording that is not one, or is damaged.
    #[error("{path}: {what}")]
    Recording {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A recording that ends before its first facts are whole.
    #[error("{path}: cut off before its first facts")]
    CutShort {
        /// The file.
        path: String,
    },
    /// The kernel or the operating system refused.
    #[error("{doing}: {error}")]
    System {
        /// What was being done.
        doing: String,
        /// What came back.
        error: std::io::Error,
    },
    /// Libbpf refused.
    #[error("{doing}: {error}")]
    Bpf {
        /// What was being done.
        doing: String,
        /// What libbpf said.
        error: String,
    },
}

/// An error of the operating system while something was being done.
pub(crate) fn system(doing: &str) -> impl Fn(std::io::Error) -> SourceError + '_ {
    move |error| SourceError::System { doing: doing.into(), error }
}

/// Where facts come from.
pub trait Source {
    /// Appends the facts that have arrived since the last call; `false` when there will be no more.
    /// A live source waits up to its poll interval for the first of them.
    fn drain(&mut self, facts: &mut Vec<Fact>) -> Result<bool, SourceError>;
}
