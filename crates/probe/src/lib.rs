//! KERNEL -> FACTS. The only place with libbpf, /proc, /sys, netlink, ioctl and unsafe.
//!
//! The rooms, each of which names only those before it: source.rs < system/ < decode/ < user_stacks/ < refusal.rs < host.rs < plan.rs <
//! kernel/ < readers/ < recording/ < session/ < doctor.rs. `xtask tidy` holds them to it.
//!
//! Must not reason: it sees the vocabulary of facts and nothing of waits, chains or rules. What the host does not offer, or refuses,
//! becomes a fact with its reason; nothing here fails a look as a whole.

pub mod decode;
mod doctor;
pub mod host;
mod kernel;
pub mod plan;
pub mod readers;
pub mod recording;
mod refusal;
pub mod session;
mod source;
pub mod system;
#[doc(hidden)]
pub mod user_stacks;

pub use doctor::{doctor, offers};
pub use session::Stopper;
pub use source::{Source, SourceError};

#[allow(
    missing_docs,
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used,
    unused,
    non_camel_case_types,
    reason = "generated"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/holdup.skel.rs"));
}
