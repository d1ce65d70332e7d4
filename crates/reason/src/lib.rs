//! FACTS -> WAITS, QUEUES -> FINDINGS. Pure: no I/O, no clock, no environment.
//!
//! Flow: [`facts`] are pushed into a [`scene::Scene`], which indexes them; `waits` says what each
//! wait was for; `chains` follows what ended it; `cases` turn what they see into [`findings`].

pub mod facts;
pub mod findings;
