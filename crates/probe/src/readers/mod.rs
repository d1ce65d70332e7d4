//! Sources of a look: one file each, behind one trait (reader.rs), in one ordered list (list.rs).
//!
//! Every reader takes the roots as a parameter, so that tests run on small checked-in trees; what cannot be read becomes a `Blind`
//! fact with the reason, and one unreadable process never fails the rest. How files are reached without waiting for what is being
//! diagnosed: system/. Beside the readers stand the notions that several of them share (look.rs, endpoints.rs, waited.rs,
//! identities.rs, standstill.rs).
//!
//! Must not: reason about what is read, beyond choosing whose identity or descriptors are worth reading.
//!
//! Edit together: `reason/src/facts/*.rs` (the vocabulary), docs/adding-a-reader.md.

pub mod cgroup_samples;
pub mod cgroups;
mod connections;
mod container_counters;
pub mod containers;
mod disks;
mod drop_causes;
mod endpoints;
mod events;
pub mod family;
mod family_walks;
mod flows;
mod frequencies;
mod functions;
mod host;
mod host_identity;
mod identities;
#[doc(hidden)]
pub mod kernel_log;
mod kernel_stacks;
pub mod last_walk;
mod list;
mod lock_carriers;
pub mod locks;
pub mod look;
#[doc(hidden)]
pub mod mapper;
pub mod net_counters;
pub mod netlink;
mod new_threads;
mod next_hops;
mod open_files;
pub mod opened;
mod paths;
mod polled;
mod ports;
mod queues;
pub mod reader;
mod runtimes;
pub mod sampler;
mod scheduler_clock;
pub mod settings;
pub mod shared;
mod softirqs;
mod stack_numbers;
mod stacks;
mod standing_waits;
mod standstill;
pub mod thread_times;
pub mod threads;
mod users;
mod waited;
pub mod waits;

pub use list::READERS;
pub use queues::unopened as no_netlink;

#[cfg(test)]
mod tests;
