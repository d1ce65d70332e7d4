//! KERNEL -> FACTS. The only place with libbpf, /proc, /sys, netlink, ioctl and unsafe.
//!
//! Must not reason: it sees the vocabulary of facts and nothing of waits, chains or cases. What the host
//! does not offer, or refuses, becomes a fact with its reason; nothing here fails a look as a whole.

mod attach;
mod cache_sums;
pub mod command;
pub mod container;
mod container_counters;
mod container_state;
mod cpu_clock;
pub mod decode;
mod disk_sums;
mod dns;
mod doctor;
mod endpoints;
mod expense;
pub mod files;
mod fitting;
pub mod host;
mod iterators;
mod kernel;
#[doc(hidden)]
pub mod kernel_log;
pub mod live;
mod look_end;
#[doc(hidden)]
pub mod mapper;
mod memory;
pub mod netlink;
mod netlink_exchange;
#[doc(hidden)]
pub mod netlink_wire;
mod next_hops;
mod own;
mod paths;
pub mod plan;
mod polled;
mod quiet_host;
pub mod recording;
mod refusal;
mod samples;
mod sleeping;
mod socket;
mod source;
mod stacks;
mod standstill;
mod stopping;
mod target;
#[doc(hidden)]
pub mod user_stacks;
mod view;
mod wait_threshold;
#[doc(hidden)]
pub mod wire;

pub use doctor::{doctor, offers};
pub use source::{Source, SourceError};
pub use stopping::Stopper;

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
