//! WAITS -> GRAPH: who would have to act for each wait to end, and where following that stops.
pub mod chains;
pub mod debts;
pub mod end;
pub mod ends;
mod peers;
pub mod responsible;
