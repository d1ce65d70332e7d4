//! WAITS -> GRAPH: who would have to act for each wait to end, and where following that stops.
//!
//! index/ says who was connected with whom, and is read-only once it is built; debts.rs reads who was asked and has not answered.
//! ways/ is the ladder of ways from a waiter to whoever must act (next.rs), a file each; what several of them need stands beside:
//! wakers.rs (who ended a wait), question.rs and conversation.rs (what is asked and answered on a connection), channels.rs (the other
//! end of one), under_way.rs (what is written and still on its way), relayed.rs (which connection a proxy used for whom), handed_out.rs (to which worker a broker gave what), parallel.rs (of several children the one that counts), serving.rs (the thread of a process that matters), hands_on.rs (the one that takes what comes), worker_processes.rs (the workers of a server, if none is free), at_rest.rs (who rests and asks nobody), by_path.rs and upstreams.rs (what was asked over unix sockets), sessions.rs
//! (the session of a database). chains.rs follows the ways
//! through time, in leaves (leaf.rs), and with ending.rs to who was asked to end; awaited.rs says whom a process waits for that was asked about; ends.rs adds up where that stops (end.rs), by whom (blamed.rs) and when (when.rs), each second once, and
//! short_waits.rs and unseen.rs how much of it each reported wait stands for; demand.rs holds the whole, without waits for work and for nobody (subscriptions.rs, turns.rs, for_nobody.rs, of a command unasked.rs), and answers what rules ask of it; what_if.rs says what a
//! command would save without one of them. Must not: name a cause, or weigh one.

mod at_rest;
pub(crate) mod awaited;
mod blamed;
mod by_path;
pub mod chains;
mod channels;
mod clients_heard;
mod conversation;
pub mod debts;
pub mod demand;
pub mod end;
pub mod ending;
pub mod ends;
mod for_nobody;
mod handed_out;
mod hands_on;
pub mod index;
mod last_word;
mod leaf;
mod next;
mod own_time;
mod parallel;
mod question;
mod relayed;
mod serving;
mod sessions;
pub(crate) mod short_waits;
mod subscriptions;
mod taken;
pub mod tun_program;
mod turns;
mod unasked;
pub mod undelivered;
pub mod under_way;
pub mod unseen;
pub mod upstreams;
pub mod wakers;
pub mod ways;
pub mod what_if;
pub mod when;
pub mod worker_processes;
