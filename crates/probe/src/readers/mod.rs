//! Readers of files: /proc, /sys and the cgroup hierarchies become facts.
//!
//! x
//! x

pub mod cgroup_samples;
pub mod cgroups;
pub mod container_counters;
pub mod containers;
pub mod disks;
pub mod endpoints;
pub mod family;
pub mod frequencies;
pub mod host;
#[doc(hidden)]
pub mod kernel_log;
pub mod lock_carriers;
pub mod locks;
#[doc(hidden)]
pub mod mapper;
pub mod net_counters;
pub mod netlink;
pub mod next_hops;
pub mod open_files;
pub mod paths;
pub mod polled;
pub mod sampler;
pub mod scheduler_clock;
pub mod settings;
pub mod shared;
pub mod softirqs;
pub mod standstill;
pub mod thread_times;
pub mod threads;
pub mod users;
pub mod waits;

#[cfg(test)]
mod tests;
