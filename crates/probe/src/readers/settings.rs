//! What changes seldom: the host, its mounts, disks, cgroups, containers and kernel settings, read once as a look begins.
//!
//! It takes as long as the kernel takes to load its programs, and does not have to be as old as the window: so it is read beside
//! that, on a thread of its own (session/opening.rs). What readers need of it to begin with stays here until they take it. Must not:
//! read what moves.

use super::cgroups::Cgroups;
use super::containers::{containers, find};
use super::net_counters::network_namespaces;
use super::{disks, host};
use crate::plan::Scope;
use crate::system::{Roots, mounts, root_helps};
use holdup_reason::facts::{Blind, Body, Container, Disk, Mount};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the files say when a look begins.
#[derive(Debug, Default)]
pub struct Settings {
    /// Host, mounts, disks, cgroup settings, sysctls, and what could not be read.
    pub facts: Vec<Body>,
    /// The cgroups that were found.
    pub cgroups: Cgroups,
    /// Containers, units and plain groups by name.
    pub containers: Vec<Container>,
    /// Inodes of network namespaces, each with a process in it.
    pub namespaces: BTreeMap<u32, u32>,
    /// The mounts.
    pub mounts: Vec<Mount>,
    /// The disks.
    pub disks: Vec<Disk>,
    /// Where the counters of the container lie that was asked about.
    pub directories: Vec<PathBuf>,
}

impl Settings {
    /// Reads all of it.
    pub fn read(roots: &Roots) -> Self {
        let mut facts = vec![Body::Host(host::host(roots))];
        let mounts = mounts::mounts(roots).unwrap_or_else(|blind| {
            facts.push(Body::Blind(blind));
            Vec::new()
        });
        facts.extend(hidden(roots));
        facts.extend(disks::disks(roots, &mounts));
        facts.extend(mounts.iter().cloned().map(Body::Mount));
        let (cgroups, settings) = Cgroups::scan(roots);
        facts.extend(settings);
        facts.extend(host::sysctls(roots).into_iter().map(Body::Sysctl));
        let containers = containers(roots, &facts);
        let disk = |body: &Body| match body {
            Body::Disk(disk) => Some(disk.clone()),
            _ => None,
        };
        let disks = facts.iter().filter_map(disk).collect();
        let namespaces = network_namespaces(roots);
        Self { facts, cgroups, containers, namespaces, mounts, disks, directories: Vec::new() }
    }

    /// Finds the directories of the container that was asked about, if one was.
    pub fn find_directories(&mut self, scope: &Scope) {
        let asked = scope.container.as_ref();
        let Some(found) = asked.and_then(|name| find(name, &self.containers).ok()) else { return };
        let directories = self.facts.iter().filter_map(|body| match body {
            Body::Cgroup(group) if found.cgroups.contains(&group.path) => {
                Some(PathBuf::from(&group.directory))
            }
            _ => None,
        });
        self.directories = directories.collect();
    }
}

/// /proc may be mounted so that it shows nobody else's processes.
fn hidden(roots: &Roots) -> Option<Body> {
    let hides = |mount: &Mount| {
        let option = mount.options.split(',').find_map(|option| option.strip_prefix("hidepid="));
        mount.path == "/proc" && option.is_some_and(|how| !matches!(how, "0" | "off"))
    };
    let hides = !root_helps().is_empty() && mounts::own_mounts(roots).iter().any(hides);
    hides.then(|| {
        Body::Blind(Blind {
            what: "proc.hidepid".into(),
            why: "/proc is mounted with hidepid".into(),
            remedy: root_helps().into(),
            therefore: "processes of others are not seen at all".into(),
            ..Blind::default()
        })
    })
}
