//! KERNEL -> FACTS. The only place with libbpf, /proc, /sys, netlink, ioctl and unsafe.
//!
//! Must not reason: it sees the vocabulary of facts and nothing of waits, chains or cases. What the host
//! does not offer, or refuses, becomes a fact with its reason; nothing here fails a look as a whole.

pub mod container;
mod container_state;
pub mod files;
pub mod netlink;
mod netlink_wire;
pub mod recording;
mod source;

pub use source::{Source, SourceError};
