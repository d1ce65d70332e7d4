//! What a process that serves one client of a server says of itself in its title.
//!
//! Must not: know how a program writes it (its own file reads it).

/// A session of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session<'a> {
    /// The database that it is in; empty if it does not say.
    pub database: &'a str,
    /// It waits for a lock.
    pub waits: bool,
    /// It has a transaction, and goes on with it, or its client is to.
    pub may_hold: bool,
    /// It waits for its client's next word, outside of any transaction.
    pub rests: bool,
}
