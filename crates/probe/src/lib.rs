//! KERNEL -> FACTS. The only place with libbpf, netlink and the tables of /proc and /sys; unsafe is here and in the crate below.
//!
//! The rooms, each of which names only those before it: source.rs < decode/ < refusal.rs < host.rs < plan.rs < kernel/ < readers/ <
//! recording/ < session/ < doctor.rs. `xtask tidy` holds them to it. Below them all are two crates: `system`, how the kernel's files are
//! reached, and `holdup_stacks`, which reads the stacks of threads that stand still.
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

pub use doctor::{doctor, offers};
pub use holdup_system as system;
pub use session::Stopper;
pub use source::{Source, SourceError};

#[allow(
    missing_docs,
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used,
    unreachable_pub,
    unused,
    non_camel_case_types,
    reason = "generated"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/holdup.skel.rs"));
}
