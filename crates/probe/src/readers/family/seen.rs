//! What the walks over a family have seen: facts whose stacks have no number yet, and who stood at the last walk.
//!
//! Must not: be reported as it is; who numbers stacks is the look.

use holdup_reason::facts::{Body, Ns, ThreadRef};

/// Something that was seen, at a time. The kernel functions of a wait go with it: who numbers stacks is the look.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// When.
    pub at_ns: Ns,
    /// What; the stack of a wait has no number yet.
    pub body: Body,
    /// Functions of the kernel stack, innermost first, where `body` is a wait.
    pub frames: Vec<String>,
}

/// A thread that stood at the last walk.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Who.
    pub thread: ThreadRef,
    /// Since when.
    pub since_ns: Ns,
    /// Of the command and what it began, or of the process that was asked about: no server that these wait for.
    pub own: bool,
}
