//! The ladder of the process rules.
//!
//! Who stands still is claimed by what the others wait for, where that is a pipe or a terminal; what a program computes by
//! what it computes, before its clients are said to wait for a server that is at work. Limits that refuse a call have names of
//! their own; what else is refused is only tried again.

mod core_dump;
pub(crate) mod crypto_bound;
pub(crate) mod descriptor_limit;
pub(crate) mod descriptor_trend;
mod ended_connection;
mod failed_program;
#[cfg(test)]
mod failed_program_tests;
pub(crate) mod fork_cost;
pub(crate) mod frozen;
pub(crate) mod gc;
mod gc_interpreted;
mod gc_sampled;
#[cfg(test)]
mod gc_tests;
mod owing;
pub(crate) mod pipe_peer;
pub(crate) mod process_limit;
mod raised_limit;
mod refused_right;
pub(crate) mod retry;
pub(crate) mod signal_ignored;
pub(crate) mod small_io;
pub(crate) mod socket_peer;
#[cfg(test)]
mod socket_peer_tests;
pub(crate) mod spawn_storm;
pub(crate) mod spin;
pub(crate) mod standstill;
pub(crate) mod stopped;
pub(crate) mod tasks_trend;
pub(crate) mod timezone_stat;
pub(crate) mod traced;
pub(crate) mod tty_blocked;
mod turned_away;
#[cfg(test)]
mod turned_away_tests;
pub(crate) mod unit_job;
pub(crate) mod vfork_exec;
pub(crate) mod who_talks;
pub(crate) mod zombie;

/// The rules of this area; the first that matches claims an end.
pub(crate) static LADDER: &[&super::Rule] = &[
    &process_limit::RULE,
    &descriptor_limit::RULE,
    &retry::RULE,
    &pipe_peer::RULE,
    &tty_blocked::RULE,
    &frozen::RULE,
    &traced::RULE,
    &stopped::RULE,
    &zombie::RULE,
    &signal_ignored::RULE,
    &timezone_stat::RULE,
    &gc::RULE,
    &small_io::RULE,
    &fork_cost::RULE,
    &spawn_storm::RULE,
    &spin::RULE,
    &crypto_bound::RULE,
    &vfork_exec::RULE,
    &unit_job::RULE,
    &socket_peer::RULE,
    &tasks_trend::RULE,
    &descriptor_trend::RULE,
];
