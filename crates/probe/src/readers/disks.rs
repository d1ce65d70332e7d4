//! Who the disks are: /sys/block (Documentation/ABI/stable/sysfs-block).
//!
//! Partitions are reported with their whole disk. What a stacked disk stands on (dm, md, a loop file)
//! comes from `slaves/` and, for loops, from the mount that the backing file lies on, found by its
//! path: the file itself is never touched, it may lie on a dead mount.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, blind, mounts, text};
use holdup_reason::facts::{Body, DeviceNumber, Disk, Fact, Mount, Raid, RaidMember};
use std::collections::HashMap;
use std::path::Path;

/// Whatever a disk's own sectors are, sysfs counts in these.
const SECTOR_BYTES: u64 = 512;

/// Read with the rest of what changes seldom as a look begins (settings.rs), and again as it ends.
pub(super) struct DiskSettings;

impl Reader for DiskSettings {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let mounts = mounts::mounts(&look.roots).unwrap_or_default();
        let read = disks(&look.roots, &mounts);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// All disks that have a size.
pub(super) fn disks(roots: &Roots, mounts: &[Mount]) -> Vec<Body> {
    let block = roots.sys.join("block");
    let entries = match std::fs::read_dir(&block) {
        Ok(_) => text::names(&block),
        Err(error) => {
            let therefore = "disks are known by number only";
            return vec![Body::Blind(blind("sys.block", &error, therefore))];
        }
    };
    let mut owners = Owners::default();
    let found: Vec<(String, Disk)> = entries
        .into_iter()
        .filter_map(|entry| {
            let disk = read_disk(&block.join(&entry), &entry, &mut owners)?;
            Some((entry, disk))
        })
        .collect();
    let stacked = found.into_iter().map(|(entry, mut disk)| {
        let slaves = text::names(&block.join(&entry).join("slaves"));
        disk.below = slaves.iter().filter_map(|slave| owners.by_name(slave)).collect();
        if disk.raid_level.is_some() {
            disk.raid = Some(raid(&block.join(&entry).join("md"), &owners));
        }
        if let Some(mount) = disk.backing_file.as_deref().and_then(|f| mounts::mount_of(mounts, f))
        {
            disk.backing_fs = Some(mount.fs_type.clone());
            disk.below.extend(owners.of_mount(mount));
        }
        disk.below.sort_unstable();
        disk.below.dedup();
        disk
    });
    stacked.map(Body::Disk).collect()
}

/// Which whole disk a name or a number belongs to.
#[derive(Default)]
struct Owners {
    name: HashMap<String, DeviceNumber>,
    number: HashMap<DeviceNumber, DeviceNumber>,
}

impl Owners {
    fn by_name(&self, name: &str) -> Option<DeviceNumber> {
        self.name.get(name).copied()
    }

    /// The disk under a mount: by st_dev, or for a file system with numbers of its own (btrfs) by
    /// the name of its source.
    fn of_mount(&self, mount: &Mount) -> Option<DeviceNumber> {
        let named = || {
            let source = mount.source.strip_prefix("/dev/")?;
            self.by_name(source.strip_prefix("mapper/").unwrap_or(source))
        };
        self.number.get(&mount.dev).copied().or_else(named)
    }
}

/// An array's members are folders `dev-NAME` beside its settings.
fn raid(folder: &Path, owners: &Owners) -> Raid {
    let member = |name: &String| {
        let dev = owners.by_name(name.strip_prefix("dev-")?)?;
        let state = text::read_text(&folder.join(name).join("state")).ok()?;
        Some(RaidMember { dev, state })
    };
    Raid {
        layout: text::read_number(&folder.join("layout")).unwrap_or(0) as u32,
        action: text::read_text(&folder.join("sync_action")).unwrap_or_default(),
        members: text::names(folder).iter().filter_map(member).collect(),
    }
}

fn read_disk(folder: &Path, entry: &str, owners: &mut Owners) -> Option<Disk> {
    let word = |name: &str| text::read_text(&folder.join(name)).ok().filter(|t| !t.is_empty());
    let number = |name: &str| text::read_number(&folder.join(name));
    let size_bytes = number("size").unwrap_or(0).saturating_mul(SECTOR_BYTES);
    if size_bytes == 0 {
        return None;
    }
    let dev = mounts::device(word("dev")?.as_bytes())?;
    let mut partitions = Vec::new();
    let mut partitioned_bytes = 0_u64;
    for part in text::names(folder).into_iter().filter(|part| part.starts_with(entry)) {
        let Ok(text) = text::read(&folder.join(&part).join("dev")) else { continue };
        if let Some(partition) = mounts::device(&text) {
            owners.number.insert(partition, dev);
            let sectors = text::read_number(&folder.join(&part).join("size")).unwrap_or(0);
            partitioned_bytes =
                partitioned_bytes.saturating_add(sectors.saturating_mul(SECTOR_BYTES));
            owners.name.insert(part, dev);
            partitions.push(partition);
        }
    }
    let mapped_name = word("dm/name");
    let scheduler = active_scheduler(&word("queue/scheduler").unwrap_or_default());
    owners.number.insert(dev, dev);
    owners.name.insert(entry.into(), dev);
    if let Some(name) = &mapped_name {
        owners.name.insert(name.clone(), dev);
    }
    Some(Disk {
        dev,
        // sysfs writes the slash of a name such as `cciss/c0d0` as an exclamation mark.
        name: entry.replace('!', "/"),
        size_bytes,
        partitions,
        partitioned_bytes,
        below: Vec::new(),
        backing_file: word("loop/backing_file"),
        backing_fs: None,
        rotational: number("queue/rotational") == Some(1),
        has_deadline_priorities: has_deadline_priorities(folder, &scheduler),
        scheduler,
        requests_max: number("queue/nr_requests").unwrap_or(0) as u32,
        write_cache: word("queue/write_cache").unwrap_or_default(),
        mapped_name,
        raid_level: word("md/level"),
        raid: None, // once its members are known
    })
}

/// Whether the scheduler of a disk is a mq-deadline with queues by I/O class; none of another one, and where it shows nothing of itself.
fn has_deadline_priorities(folder: &Path, scheduler: &str) -> Option<bool> {
    // The first came with those queues (5.14), and the newest kernels have it elsewhere; the second came two releases after them.
    const SHOW_IT: [&str; 2] = ["async_depth", "prio_aging_expire"];
    if scheduler != "mq-deadline" {
        return None;
    }
    let shown = text::names(&folder.join("queue/iosched"));
    (!shown.is_empty()).then(|| shown.iter().any(|name| SHOW_IT.contains(&name.as_str())))
}

/// The word in brackets of `mq-deadline [none]`, or the only word there is.
fn active_scheduler(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_a_scheduler_has_classes_is_seen_by_what_came_with_them() {
        let folder = std::env::temp_dir().join(format!("holdup-iosched-{}", std::process::id()));
        let shows = folder.join("queue/iosched");
        let seen = || has_deadline_priorities(&folder, "mq-deadline");
        assert_eq!(seen(), None, "it shows nothing");
        std::fs::create_dir_all(&shows).expect("a folder");
        let write = |name: &str| std::fs::write(shows.join(name), "1\n").expect("a file");
        write("fifo_batch");
        assert_eq!(seen(), Some(false), "before 5.14");
        write("async_depth");
        assert_eq!(seen(), Some(true), "5.14");
        std::fs::remove_file(shows.join("async_depth")).expect("it is there");
        write("prio_aging_expire");
        assert_eq!(seen(), Some(true), "the newest");
        assert_eq!(has_deadline_priorities(&folder, "kyber"), None, "another one");
        drop(std::fs::remove_dir_all(&folder));
    }
}
