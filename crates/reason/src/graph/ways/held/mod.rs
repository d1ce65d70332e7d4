//! The ways of a wait for something that somebody has: where a table says who has it, that beats whoever ran at the wake-up.
//!
//! Lock tables, words of futexes, descriptors at the other end, children, the kernel's own services; then the waker; then what only leaves
//! one. Must not: follow a thread that waits for the next event (owed/).

mod bus_activation;
pub(in crate::graph) mod child;
mod connection;
mod core_dump;
mod dropped_datagram;
mod ended_thread;
mod file_leave;
mod fuse_server;
mod futex_word;
pub(in crate::graph) mod handed_work;
mod interpreter_lock;
mod job_token;
pub(in crate::graph) mod joined;
mod journal_thread;
mod kernel_lock_owner;
mod last_child;
mod lock_table;
mod loop_server;
mod monitor;
pub(in crate::graph) mod name_server;
mod nfs_lock;
mod only_other;
mod own_data;
pub(in crate::graph) mod pipe_end;
mod polled_lock;
pub(in crate::graph) mod process_end;
mod row_session;
pub(in crate::graph) mod session_table;
mod terminal;
mod tracer;
mod tun_program;
mod vfork_child;
mod waker;

use super::way::{Waiter, Way, first};
use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::waits::timeline::WaitSpan;

/// In order: the first that finds somebody is it.
pub static LADDER: &[&Way] = &[
    &nfs_lock::WAY,
    &bus_activation::WAY,
    &session_table::WAY,
    &lock_table::WAY,
    &polled_lock::WAY,
    &interpreter_lock::WITHIN,
    &monitor::WITHIN,
    &futex_word::WAY,
    &joined::WAY,
    &last_child::WAY,
    &core_dump::WAY,
    &job_token::WAY,
    &pipe_end::WAY,
    &tun_program::WAY,
    &own_data::WAY,
    &dropped_datagram::WAY,
    &connection::WAY,
    &child::WAY,
    &process_end::WAY,
    &vfork_child::WAY,
    &tracer::WAY,
    &ended_thread::WAY,
    &fuse_server::WAY,
    &loop_server::WAY,
    &file_leave::WAY,
    &name_server::WAY,
    &journal_thread::WAY,
    &terminal::WAY,
    &handed_work::WAY,
    &handed_work::BY_WORDS,
    &waker::WAY,
    &interpreter_lock::NEARBY,
    &monitor::NEARBY,
    &row_session::WAY,
    &only_other::WAY,
    &kernel_lock_owner::WAY,
];

/// Who holds what a wait is for, and the way to him. The first way that finds somebody decides, also where it leads back to the waiter: then
/// nobody holds it.
pub fn found(at: &Waiter<'_>) -> Option<(Next, &'static Way)> {
    let (next, way) = first(LADDER, at)?;
    let counts = match &next {
        Next::Thread(thread) => {
            thread.pid != 0 && !at.index.model.threads.is_same(thread, &at.wait.thread)
        }
        // Whoever else could be asked; or there is only room to be waited for.
        Next::Nobody | Next::Room(_) => true,
        _ => false,
    };
    counts.then_some((next, way))
}

/// Who is to be looked at next for a wait, by what it waits for.
pub fn holder(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    match found(&Waiter::of(index, wait))?.0 {
        Next::Thread(thread) => Some(thread),
        _ => None,
    }
}
