//! The ways of a thread that waits for whatever comes next while somebody waits for it: what it has asked others, who ended its wait, its
//! one child, the thread of its own process that is held up.
//!
//! A way may also find that nobody has to act (a person, the next question), and then the ladder ends there. Must not: be asked of a
//! thread that nobody waits for: it is idle.

mod answered_by;
mod awaited_task;
mod busiest_in_child;
mod child_output;
mod descriptors;
mod ended_with;
mod event_loop;
mod far_end;
mod forwarded;
mod full_pool;
mod handed_out;
mod held_sibling;
mod inside_server;
mod interrupts;
mod next_event;
mod next_question;
pub(in crate::graph) mod only_child;
mod open_question;
mod own_lock;
mod own_timeout;
mod person;
pub(in crate::graph) mod polled;
mod session_lock;
mod shown_terminal;
pub(in crate::graph) mod typed_session;
mod unanswered;
mod under_way;
mod unit_job;
mod woken_by;

use super::way::Way;

/// In order: the first that finds somebody is it.
pub(super) static LADDER: &[&Way] = &[
    &shown_terminal::WAY,
    &person::WAY,
    &typed_session::WAY,
    &under_way::WAY,
    &unit_job::WAY,
    &inside_server::WAY,
    &open_question::WAY,
    &forwarded::WAY,
    &handed_out::WAY,
    &woken_by::WAY,
    &answered_by::WAY,
    &awaited_task::WAY,
    &own_timeout::WAY,
    &full_pool::WAY,
    &session_lock::WAY,
    &own_lock::WAY,
    &event_loop::WAY,
    &typed_session::ITS_CHILD,
    &far_end::WAY,
    &unanswered::WAY,
    &next_question::WAY,
    &descriptors::WAY,
    &child_output::WAY,
    &next_event::WAY,
    &only_child::WAY,
    &busiest_in_child::WAY,
    &held_sibling::WAY,
    &ended_with::WAY,
    &polled::WAY,
];
