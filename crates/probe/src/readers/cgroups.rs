//! Cgroups: which hierarchies are mounted, which groups they have, and how each is set.
//!
//! A host may mount several v1 hierarchies (one or more controllers each), the v2 hierarchy, or
//! both. A group is reported once per hierarchy, because its path may differ in each.
//! A limit that is not set is absent, never a huge number. Documentation/admin-guide/cgroup-v1 and
//! cgroup-v2.rst.
//!
//! Cheap with thousands of groups: a group without children is known by its link count and not
//! listed, and only hierarchies with settings of interest are read.

use crate::system::{Roots, blind, mounts, text};
use holdup_reason::facts::{Body, Cgroup, DeviceNumber, IoLimit, Mount};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Groups beyond this many are not read; a `Blind` tells.
const GROUPS_MAX: usize = 100_000;

/// Most of a hierarchy's depth that is walked.
const DEPTH_MAX: u32 = 64;

/// v1 controllers whose settings or counters are read.
const OF_INTEREST: &[&str] = &["cpu", "cpuacct", "cpuset", "memory", "blkio", "freezer", "pids"];

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub struct Hierarchy {
    /// Controllers; empty for v2.
    pub controllers: Vec<String>,
    /// Where it can be read.
    pub directory: PathBuf,
    /// Where mountinfo says it is mounted.
    pub mount_path: String,
    /// Path of the mount's top inside the hierarchy, empty for its root.
    pub top: String,
}

impl Hierarchy {
    /// It is the v2 hierarchy.
    pub fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }

    /// It has this v1 controller.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|own| own == controller)
    }
}

/// One group of one hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub hierarchy: usize,
    pub path: String,
    pub directory: PathBuf,
    pub id: u64,
    /// Files that do not exist here, by their place in the list of counters: not tried again.
    pub missing: u32,
    pub has_limit: HasLimit,
}

/// Which limits of a group are set, so that counters that are of use beside them alone are read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HasLimit {
    pub tasks: bool,
    pub memory: bool,
}

impl Group {
    /// What makes it the same group: a number alone is used again.
    fn key(&self) -> (usize, u64, &str) {
        (self.hierarchy, self.id, &self.path)
    }
}

/// All cgroups of the host.
#[derive(Debug, Default)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    groups: Vec<Group>,
}

impl Cgroups {
    /// Finds all groups; the facts are their settings.
    pub fn scan(roots: &Roots) -> (Self, Vec<Body>) {
        let mut cgroups = Self { hierarchies: hierarchies(roots), groups: Vec::new() };
        let facts = cgroups.rescan();
        (cgroups, facts)
    }

    /// Looks for groups made since, forgets those that are gone; the facts are the settings of the
    /// new ones.
    pub fn rescan(&mut self) -> Vec<Body> {
        let mut found = Vec::new();
        let mut unread = 0;
        for (index, hierarchy) in self.hierarchies.iter().enumerate() {
            walk(index, hierarchy, &mut found, &mut unread);
        }
        let known: HashMap<_, _> = self
            .groups
            .iter()
            .map(|group| (group.key(), (group.missing, group.has_limit)))
            .collect();
        let mut facts = Vec::new();
        for group in &mut found {
            match known.get(&group.key()) {
                Some(known) => (group.missing, group.has_limit) = *known,
                None => {
                    let settings = read_settings(&self.hierarchies[group.hierarchy], group);
                    group.has_limit = HasLimit {
                        tasks: settings.pids_limit.is_some(),
                        memory: settings.memory_limit_bytes.is_some(),
                    };
                    facts.push(Body::Cgroup(settings));
                }
            }
        }
        drop(known);
        self.groups = found;
        if unread > 0 {
            let error = std::io::Error::other(format!("{unread} cgroups could not be listed"));
            let therefore = "limits of those cgroups are unknown";
            facts.push(Body::Blind(blind("cgroup", &error, therefore)));
        }
        facts
    }

    /// The hierarchies, and the groups with what is remembered of each.
    pub(super) fn parts(&mut self) -> (&[Hierarchy], &mut [Group]) {
        (&self.hierarchies, &mut self.groups)
    }

    /// How many groups there are, each hierarchy's counted.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// No hierarchy is mounted.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The hierarchies that are mounted, each once.
pub fn hierarchies(roots: &Roots) -> Vec<Hierarchy> {
    let mut seen = HashSet::new();
    let mut mounts = mounts::own_mounts(roots);
    // A mount of the whole hierarchy goes before a bind mount of a part of it.
    mounts.sort_by_key(|mount| mount.root.len());
    let mut found = Vec::new();
    for mount in &mounts {
        let v1 = mount.fs_type == "cgroup";
        if !(v1 || mount.fs_type == "cgroup2") || !seen.insert(mount.dev) {
            continue;
        }
        let controllers = if v1 { controllers(mount) } else { Vec::new() };
        if v1 && controllers.is_empty() {
            continue;
        }
        found.push(Hierarchy {
            controllers,
            directory: roots.resolve(&mount.path),
            mount_path: mount.path.clone(),
            // A mount made outside of holdup's cgroup namespace shows `/..`.
            top: Some(mount.root.as_str())
                .filter(|root| *root != "/" && !root.starts_with("/.."))
                .unwrap_or_default()
                .into(),
        });
    }
    found
}

fn controllers(mount: &Mount) -> Vec<String> {
    let of_interest = |option: &&str| OF_INTEREST.contains(option);
    mount.options.split(',').filter(of_interest).map(Into::into).collect()
}

fn walk(index: usize, hierarchy: &Hierarchy, found: &mut Vec<Group>, unread: &mut usize) {
    let mut pending = vec![(hierarchy.directory.clone(), hierarchy.top.clone(), 0)];
    while let Some((directory, path, depth)) = pending.pop() {
        let Ok(metadata) = std::fs::symlink_metadata(&directory) else {
            // Gone between the listing and here, unless it is the mount itself.
            *unread += usize::from(depth == 0);
            continue;
        };
        // A folder's link count is two and one for each folder in it, on kernfs as on ext4; file
        // systems that do not count say one.
        if metadata.nlink() != 2 && depth < DEPTH_MAX {
            let Ok(entries) = std::fs::read_dir(&directory) else {
                *unread += 1;
                continue;
            };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let name = entry.file_name();
                    let below = format!("{path}/{}", name.to_string_lossy());
                    pending.push((entry.path(), below, depth + 1));
                }
            }
        }
        if found.len() >= GROUPS_MAX {
            *unread += 1 + pending.len();
            return;
        }
        let path = if path.is_empty() { "/".to_string() } else { path };
        let id = metadata.ino();
        let has_limit = HasLimit::default();
        found.push(Group { hierarchy: index, path, directory, id, missing: 0, has_limit });
    }
}

fn read_settings(hierarchy: &Hierarchy, group: &Group) -> Cgroup {
    let inside = group.path.strip_prefix(&hierarchy.top).unwrap_or(&group.path);
    let mut cgroup = Cgroup {
        path: group.path.clone(),
        controllers: hierarchy.controllers.clone(),
        directory: format!("{}{}", hierarchy.mount_path, inside.trim_end_matches('/')),
        id: group.id,
        ..Cgroup::default()
    };
    if hierarchy.is_v2() {
        settings_v2(&group.directory, &mut cgroup);
        return cgroup;
    }
    for controller in &hierarchy.controllers {
        settings_v1(controller, &group.directory, &mut cgroup);
    }
    cgroup
}

fn settings_v1(controller: &str, folder: &Path, cgroup: &mut Cgroup) {
    let text = |name: &str| text::read_text(&folder.join(name)).ok();
    let number = |name: &str| text::read_number(&folder.join(name));
    match controller {
        "cpu" => {
            // The file says -1 without a quota.
            cgroup.cpu_quota_us = number("cpu.cfs_quota_us");
            cgroup.cpu_period_us = number("cpu.cfs_period_us");
            cgroup.cpu_weight = number("cpu.shares");
            // v2 says 0 of such a group; v1 says the weight that it has, which somebody may as well have set.
            if cgroup.cpu_weight == Some(IDLE_SHARES) && number("cpu.idle") == Some(1) {
                cgroup.cpu_weight = Some(0);
            }
            cgroup.rt_runtime_us = text("cpu.rt_runtime_us").and_then(|text| text.parse().ok());
        }
        "cpuset" => {
            let list = text("cpuset.effective_cpus").or_else(|| text("cpuset.cpus"));
            cgroup.cpus_allowed = list.map(|l| text::cpu_list(&l)).filter(|l| !l.is_empty());
        }
        "memory" => {
            cgroup.memory_limit_bytes = number("memory.limit_in_bytes").filter(is_set);
            let both = number("memory.memsw.limit_in_bytes").filter(is_set);
            cgroup.memory_and_swap_limit_bytes = both;
        }
        "blkio" => {
            for (kind, file) in THROTTLES {
                let Ok(bytes) = text::read(&folder.join(file)) else { continue };
                let limits = text::lines(&bytes).filter_map(|line| throttle(kind, file, line));
                cgroup.io_limits.extend(limits);
            }
            cgroup.io_weight = ["blkio.bfq.weight", "blkio.weight"].iter().find_map(|f| number(f));
        }
        "freezer" => cgroup.frozen = text("freezer.state").map(|state| state != "THAWED"),
        "pids" => cgroup.pids_limit = number("pids.max"),
        _ => {}
    }
}

/// cpu.shares of a group with cpu.idle 1 (kernel/sched/sched.h, WEIGHT_IDLEPRIO).
const IDLE_SHARES: u64 = 3;

/// v1 throttle files, with the kind of limit that each sets.
const THROTTLES: [(&str, &str); 4] = [
    ("read_bps", "blkio.throttle.read_bps_device"),
    ("write_bps", "blkio.throttle.write_bps_device"),
    ("read_iops", "blkio.throttle.read_iops_device"),
    ("write_iops", "blkio.throttle.write_iops_device"),
];

/// v1 says `no limit` with the greatest number of whole pages.
fn is_set(bytes: &u64) -> bool {
    *bytes < (i64::MAX as u64) & !0xffff
}

fn throttle(kind: &str, file: &str, line: &[u8]) -> Option<IoLimit> {
    let mut words = text::words(line);
    let dev = mounts::device(words.next()?)?;
    let per_second = text::number(words.next()?)?;
    Some(IoLimit { dev, kind: kind.into(), per_second, file: file.into() })
}

fn settings_v2(folder: &Path, cgroup: &mut Cgroup) {
    let bytes = |name: &str| text::read(&folder.join(name)).ok();
    let number = |name: &str| text::read_number(&folder.join(name));
    if let Some(max) = bytes("cpu.max") {
        let mut words = text::words(&max);
        cgroup.cpu_quota_us = words.next().and_then(text::number);
        cgroup.cpu_period_us = words.next().and_then(text::number);
    }
    cgroup.cpu_weight = number("cpu.weight");
    cgroup.cpus_allowed = text::read_text(&folder.join("cpuset.cpus.effective"))
        .ok()
        .map(|list| text::cpu_list(&list))
        .filter(|list| !list.is_empty());
    cgroup.memory_limit_bytes = number("memory.max");
    // "max" is no number, and no limit.
    let is_limited = cgroup.memory_limit_bytes.is_some();
    cgroup.swap_limit_bytes = is_limited.then(|| number("memory.swap.max")).flatten();
    cgroup.memory_high_bytes = number("memory.high");
    cgroup.io_limits = bytes("io.max").map(|max| io_max(&max)).unwrap_or_default();
    cgroup.io_weight = ["io.bfq.weight", "io.weight"]
        .iter()
        .find_map(|name| text::keyed(&bytes(name)?, "default"));
    cgroup.frozen = number("cgroup.freeze").map(|freeze| freeze == 1);
    cgroup.pids_limit = number("pids.max");
}

/// Lines such as `8:16 rbps=2097152 wbps=max riops=max wiops=120`.
fn io_max(bytes: &[u8]) -> Vec<IoLimit> {
    const KINDS: [(&str, &str); 4] = [
        ("rbps", "read_bps"),
        ("wbps", "write_bps"),
        ("riops", "read_iops"),
        ("wiops", "write_iops"),
    ];
    let limits = |line| {
        let mut words = text::words(line);
        let dev = words.next().and_then(mounts::device).unwrap_or_default();
        words.filter_map(move |word| limit(dev, word, &KINDS)).collect::<Vec<_>>()
    };
    text::lines(bytes).flat_map(limits).collect()
}

fn limit(dev: DeviceNumber, word: &[u8], kinds: &[(&str, &str)]) -> Option<IoLimit> {
    let text = text::lossy(word);
    let (key, value) = text.split_once('=')?;
    let (_, kind) = kinds.iter().find(|(short, _)| *short == key)?;
    let per_second = value.parse().ok()?;
    Some(IoLimit { dev, kind: (*kind).into(), per_second, file: "io.max".into() })
}
