//! What is known of concrete programs and of the runtimes of languages: one file each.
//!
//! The names of their processes and threads, the functions that say what a thread waits for, their collectors, what their sessions
//! write into their titles, and the question that each answers about itself. Others ask by role ("which question does it answer",
//! "is this thread the machine's own"), over all of them (all.rs), and know no program by its name: tidy refuses such a name as a text
//! outside this folder. A row was read of the real program where it could be had, and else is that of its sources.
//!
//! Must not: decide what a wait means (waits/), who has a lock (graph/), or what is a finding (rules/). Rejected: a table for each role,
//! with all programs in it: what changes together is what is known of one program.
//!
//! Edit together: a new file needs its `mod` here and its line in all.rs.

mod all;
mod bridge_port;
mod checkers;
mod command_line;
mod cpython;
mod cxx;
mod doors;
mod erlang;
mod function_names;
mod function_path;
mod git;
pub mod go;
mod guile;
pub mod java;
mod libc;
pub mod lock_kind;
mod lock_methods;
mod mariadb;
mod nginx;
mod node;
mod openmp;
mod perl;
mod pgbouncer;
mod php;
mod pools;
pub mod port_holders;
mod postgres;
mod program;
mod questions;
mod redis;
mod ruby;
mod runtimes;
mod rust;
mod session;
mod shell;
pub mod systemd;
mod tools;
mod transfers;

pub use all::{
    awaits_debugger, brings_about, collectors, is_engine, is_extension, is_library, is_own_library,
    is_script, of, of_interpreter, own_limit, runs, sends_to_a_replica, session, takes_connection,
    waits_for_child_in,
};
pub use bridge_port::BridgePort;
pub use checkers::checks_others;
pub use doors::{Doors, Place};
pub use function_names::{NamedFrames, is_known};
pub use lock_methods::takes_lock_by_trying;
pub use php::workers_setting;
pub use pools::{InPool, awaited_task, does_task, ends_unseen, in_pool, takes_next_task};
pub use program::{
    AwaitedTask, Collector, PoolWorker, Program, ReplicaSetting, stacks, stacks_with_warning,
};
pub use questions::{is_of_local_state, says_no};
pub use runtimes::freezer;
pub use session::Session;
