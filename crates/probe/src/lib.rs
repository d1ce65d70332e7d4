//! KERNEL -> FACTS. The only place with libbpf, /proc, /sys, netlink, ioctl and unsafe.

pub mod container;
mod container_state;
pub mod files;
pub mod netlink;
mod netlink_wire;
pub mod recording;
mod source;

pub use source::{Source, SourceError};
