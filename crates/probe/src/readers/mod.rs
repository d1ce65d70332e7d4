//! Sources of a look: one file each, behind one trait (reader.rs), in the one order in which every step of a look walks them.
//!
//! Every reader takes the roots as a parameter, so that tests run on small checked-in trees; what cannot be read becomes a `Blind`
//! fact with the reason, and one unreadable process never fails the rest. How files are reached without waiting for what is being
//! diagnosed: system/. Beside the readers stand the notions that several of them share (look.rs, endpoints.rs, waited.rs,
//! identities.rs, standstill.rs).
//!
//! The order is that of the facts, which is tested (session/order_tests.rs). What reads because of what another one has found stands
//! behind it; what is closed because of what another one will read, before it. A new source is its `mod` and its line in
//! [`READERS`], both in this file: a list of its own would be one more file for each source to visit.
//!
//! Must not: do anything else, or reason about what is read, beyond choosing whose identity or descriptors are worth reading.
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
pub mod open_log;
pub mod opened;
mod paths;
mod polled;
mod ports;
mod queues;
pub mod reader;
mod runtimes;
pub mod sampler;
mod scheduler_clock;
mod semaphores;
pub mod settings;
pub mod shared;
mod softirqs;
mod stack_numbers;
mod stacks;
mod standing_waits;
mod standstill;
#[cfg(test)]
mod tests;
pub mod thread_times;
pub mod threads;
#[doc(hidden)]
pub mod unit_jobs;
mod unrouted;
mod usages;
mod users;
mod waited;
mod waiter_memory;
pub mod waits;

pub use queues::unopened as no_netlink;

use crate::SourceError;
use holdup_stacks::{Functions, Goroutines, Interpreters, JavaMonitors, Sessions};
use look::Look;
use reader::{Opening, Reader, Turn};
use std::net::IpAddr;

/// Opens a reader.
type Open = fn(&mut Look, &mut Opening) -> Result<Box<dyn Reader>, SourceError>;

fn open<R: Reader + 'static>(
    look: &mut Look,
    opening: &mut Opening,
) -> Result<Box<dyn Reader>, SourceError> {
    Ok(Box::new(R::open(look, opening)?))
}

/// All of them. The programs are attached between what they do not concern and what goes by them.
pub const READERS: &[(Open, Turn)] = &[
    (open::<disks::DiskSettings>, Turn::Disks),
    (open::<cgroup_samples::CgroupCounters>, Turn::Groups),
    (open::<container_counters::ContainerCounters>, Turn::Groups),
    (open::<sampler::Sampler>, Turn::Counters),
    (open::<mapper::Mapper>, Turn::Disks),
    (open::<net_counters::NamespaceCounters>, Turn::Counters),
    (open::<softirqs::Softirqs>, Turn::Counters),
    (open::<frequencies::Frequencies>, Turn::Counters),
    (open::<shared::SharedSegments>, Turn::Counters),
    (open::<queues::Queues>, Turn::Links),
    (open::<kernel_log::KernelLog>, Turn::Log),
    (open::<events::Events>, Turn::Sums),
    (open::<thread_times::Times>, Turn::Times),
    (open::<family_walks::FamilyWalks>, Turn::Sampled),
    (open::<new_threads::NewThreads>, Turn::Identities),
    (open::<connections::Connections>, Turn::Ends),
    (open::<standing_waits::StandingWaits>, Turn::Sampled),
    (open::<semaphores::Semaphores>, Turn::Sampled),
    (open::<Interpreters>, Turn::Names),
    (open::<Goroutines>, Turn::Names),
    (open::<JavaMonitors>, Turn::Names),
    (open::<Sessions>, Turn::Names),
    (open::<unit_jobs::UnitJobs>, Turn::Names),
    (open::<stacks::Stacks>, Turn::Names),
    (open::<flows::Flows>, Turn::Names),
    (open::<Functions>, Turn::Names),
    (open::<kernel_stacks::KernelStacks>, Turn::Stacks),
    (open::<locks::LockTable>, Turn::Locks),
    (open::<next_hops::NextHops>, Turn::Ways),
    (open::<drop_causes::DropCauses>, Turn::Ways),
    (open::<netlink::reverse_paths::ReversePaths>, Turn::Ways),
    (open::<netlink::conntrack::Translations>, Turn::Ways),
    (open::<ports::Ports>, Turn::Ways),
    (open::<unrouted::RefusedAddresses>, Turn::Ways),
    (open::<netlink::addresses::Addresses>, Turn::Links),
    (open::<netlink::packet_sockets::PacketSockets>, Turn::Links),
    (open::<netlink::ethtool::Drivers>, Turn::Links),
    (open::<usages::Usages>, Turn::Counters),
    (open::<netlink::permanent_neighbours::Permanent>, Turn::Counters),
];

/// What reads bytes of the kernel, as each kind of message that is asked for: they are fuzzed.
#[doc(hidden)]
pub const NETLINK_PARSERS: &[fn(&[u8])] = &[
    |message| drop(netlink::addresses::address_of(message)),
    |message| {
        let _ = netlink::conntrack::tracked(message);
    },
    |message| drop(netlink::filters::filter(message)),
    |message| drop(netlink::links::link(message)),
    |message| {
        let _ = netlink::neighbours::neighbour(message);
    },
    |message| drop(netlink::nftables::chain(message)),
    |message| {
        let _ = netlink::permanent_neighbours::is_exempt(message);
    },
    |message| drop(netlink::nftables::rule(message)),
    |message| drop(netlink::packet_sockets::memberships(message)),
    |message| drop(netlink::qdiscs::qdisc(message, false)),
    |message| drop(netlink::qdiscs::qdisc(message, true)),
    |message| {
        let _ = netlink::refusing_rules::refusing_route(message, IpAddr::from([10, 0, 0, 1]));
    },
    |message| {
        let _ = netlink::refusing_rules::rule(message, IpAddr::from([10, 0, 0, 1]));
    },
    |message| {
        let _ = netlink::reverse_paths::reverse_path(message);
    },
    |message| {
        let _ = netlink::routes::route(message);
    },
    |message| {
        if let Some((command, answer)) = message.split_first() {
            drop(netlink::ethtool::read(*command, answer));
        }
    },
];
