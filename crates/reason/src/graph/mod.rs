//! WAITS -> GRAPH: who would have to act for each wait to end, and where following that stops.
//!
//! peers.rs indexes who is at the other end of what; debts.rs reads who was asked and has not answered. holders.rs and
//! responsible.rs order the candidates (next.rs): among.rs picks the descriptor, event_loops.rs the event that counts,
//! lock_table.rs who has a file lock, parallel.rs the child, serving.rs the thread that matters and sessions.rs the session of a database. chains.rs follows them
//! through time, in leaves (leaf.rs), and with ending.rs to who was asked to end; ends.rs adds up where that stops (end.rs), each second once, and
//! short_waits.rs and unseen.rs how much of it each reported wait stands for; what_if.rs says what a command would save
//! without one of them. Must not: name a cause, or weigh one.

mod among;
pub mod chains;
pub mod debts;
pub mod end;
pub mod ending;
pub mod ends;
mod event_loops;
mod holders;
mod leaf;
mod lock_table;
mod next;
mod parallel;
mod peers;
pub mod responsible;
mod serving;
mod sessions;
mod short_waits;
mod subscriptions;
pub mod unseen;
mod wakers;
pub mod what_if;
