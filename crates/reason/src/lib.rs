//! FACTS -> WAITS, QUEUES -> FINDINGS. Pure: no I/O, no clock, no environment.
//!
//! Flow: [`facts`] are pushed into a [`scene::Scene`], which indexes them; `waits` says what each
//! wait was for; `chains` follows what ended it; `cases` turn what they see into [`findings`].

pub mod accounting;
pub mod cases;
pub mod causes;
mod caveats;
pub mod chains;
pub mod facts;
pub mod findings;
mod functions;
mod handed;
mod judge;
pub mod names;
pub mod peers;
mod polls;
pub mod queues;
pub mod scene;
pub mod timeline;
pub mod waits;

pub use judge::{explain, explain_scene};
