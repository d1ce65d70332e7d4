//! The readers of a look, in the one order in which every step of it walks them, and at whose turn each is closed.
//!
//! The order is that of the facts, which is tested (session/order_tests.rs). What reads because of what another one has found stands
//! behind it; what is closed because of what another one will read, before it. A new source is one line here.
//!
//! Must not: do anything else.

use super::cgroup_samples::CgroupCounters;
use super::connections::Connections;
use super::container_counters::ContainerCounters;
use super::disks::DiskSettings;
use super::drop_causes::DropCauses;
use super::events::Events;
use super::family_walks::FamilyWalks;
use super::flows::Flows;
use super::frequencies::Frequencies;
use super::kernel_log::KernelLog;
use super::kernel_stacks::KernelStacks;
use super::locks::LockTable;
use super::look::Look;
use super::mapper::Mapper;
use super::net_counters::NamespaceCounters;
use super::netlink::addresses::Addresses;
use super::new_threads::NewThreads;
use super::next_hops::NextHops;
use super::ports::Ports;
use super::queues::Queues;
use super::reader::{Opening, Reader, Turn};
use super::sampler::Sampler;
use super::shared::SharedSegments;
use super::softirqs::Softirqs;
use super::stacks::Stacks;
use super::standing_waits::StandingWaits;
use super::thread_times::Times;
use crate::SourceError;
use holdup_stacks::{Functions, Goroutines, Interpreters, JavaMonitors};

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
    (open::<DiskSettings>, Turn::Disks),
    (open::<CgroupCounters>, Turn::Groups),
    (open::<ContainerCounters>, Turn::Groups),
    (open::<Sampler>, Turn::Counters),
    (open::<Mapper>, Turn::Disks),
    (open::<NamespaceCounters>, Turn::Counters),
    (open::<Softirqs>, Turn::Counters),
    (open::<Frequencies>, Turn::Counters),
    (open::<SharedSegments>, Turn::Counters),
    (open::<Queues>, Turn::Links),
    (open::<KernelLog>, Turn::Log),
    (open::<Events>, Turn::Sums),
    (open::<Times>, Turn::Times),
    (open::<FamilyWalks>, Turn::Sampled),
    (open::<NewThreads>, Turn::Identities),
    (open::<Connections>, Turn::Ends),
    (open::<StandingWaits>, Turn::Sampled),
    (open::<Interpreters>, Turn::Names),
    (open::<Goroutines>, Turn::Names),
    (open::<JavaMonitors>, Turn::Names),
    (open::<Stacks>, Turn::Names),
    (open::<Flows>, Turn::Names),
    (open::<Functions>, Turn::Names),
    (open::<KernelStacks>, Turn::Stacks),
    (open::<LockTable>, Turn::Locks),
    (open::<NextHops>, Turn::Ways),
    (open::<DropCauses>, Turn::Ways),
    (open::<Ports>, Turn::Ways),
    (open::<Addresses>, Turn::Links),
];
