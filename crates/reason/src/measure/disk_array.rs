//! Mirrors: what each member read over the window, and how long its queue was.
//!
//! Members that are meant not to read (write-mostly, spare, faulty) are left out, and an array that is being rebuilt is
//! not measured: what its members read then is not what was asked. Must not: say that a member idles for no reason
//! (rules/disk/raid_imbalance.rs).

use super::disk_queue::{self, DiskQueue};
use crate::facts::*;
use crate::model::Model;

/// One member that may read.
#[derive(Debug)]
pub struct ArrayMember<'a> {
    /// Who it is.
    pub disk: &'a Disk,
    /// Its reads in the window.
    pub reads: u64,
    /// As a queue.
    pub queue: DiskQueue,
}

/// An array over the window.
#[derive(Debug)]
pub struct DiskArray<'a> {
    /// Who it is.
    pub disk: &'a Disk,
    /// Layout as md numbers it.
    pub layout: u32,
    /// Its members that may read.
    pub members: Vec<ArrayMember<'a>>,
    /// Requests in flight at the array itself; 0 where the kernel does not count them.
    pub in_flight: f64,
}

impl DiskArray<'_> {
    /// Reads of all members.
    pub fn reads(&self) -> u64 {
        self.members.iter().map(|member| member.reads).sum()
    }

    /// A member's share of them.
    pub fn share(&self, member: &ArrayMember<'_>) -> f64 {
        member.reads as f64 / self.reads().max(1) as f64
    }

    /// The member that reads most.
    pub fn busiest(&self) -> Option<&ArrayMember<'_>> {
        self.members.iter().max_by_key(|member| member.reads)
    }

    /// Copies in stripes, each shifted: far or offset.
    pub fn striped_copies(&self) -> u32 {
        self.layout >> 8 & 0xff
    }

    /// `raid1`, or `raid10 n2` as mdadm names layouts.
    pub fn kind(&self) -> String {
        let level = self.disk.raid_level.as_deref().unwrap_or_default();
        let (near, far) = (self.layout & 0xff, self.striped_copies());
        match (level, far) {
            ("raid10", 2..) if self.layout & 1 << 16 != 0 => format!("{level} o{far}"),
            ("raid10", 2..) => format!("{level} f{far}"),
            ("raid10", _) => format!("{level} n{near}"),
            _ => level.into(),
        }
    }
}

/// All arrays of a look that have the same content on several members.
pub fn of(model: &Model) -> Vec<DiskArray<'_>> {
    model.disk.all.values().filter_map(|disk| array(model, disk)).collect()
}

fn array<'a>(model: &'a Model, disk: &'a Disk) -> Option<DiskArray<'a>> {
    let raid = disk.raid.as_ref()?;
    let mirrors = matches!(disk.raid_level.as_deref(), Some("raid1" | "raid10"));
    if !mirrors || !matches!(&*raid.action, "" | "idle") {
        return None;
    }
    let reads = |state: &str| {
        let mut words = state.split(',');
        words.clone().any(|word| word == "in_sync") && words.all(|word| word != "write_mostly")
    };
    let of = |member: &RaidMember| {
        let disk = model.disk.of(member.dev)?;
        let (_, first) = model.disk.samples.get(&disk.dev)?.first()?;
        let (_, last) = model.disk.samples.get(&disk.dev)?.last()?;
        let reads = last.reads.checked_sub(first.reads)?;
        Some(ArrayMember { disk, reads, queue: disk_queue::disk(model, disk.dev)? })
    };
    // A disk that has not moved since it came has no samples, so an unknown member is one that read nothing.
    let idle = |member: &RaidMember| {
        let disk = model.disk.of(member.dev)?;
        Some(ArrayMember { disk, reads: 0, queue: DiskQueue::default() })
    };
    let members = raid.members.iter().filter(|member| reads(&member.state));
    let members = members.filter_map(|member| of(member).or_else(|| idle(member))).collect();
    let in_flight = disk_queue::disk(model, disk.dev).map_or(0.0, |queue| queue.in_flight);
    Some(DiskArray { disk, layout: raid.layout, members, in_flight })
}
