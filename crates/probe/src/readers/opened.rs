//! What was read of files as a look begins, as long as nobody has taken it yet: what several readers begin with.
//!
//! Must not: read (settings.rs).

use super::cgroups::Cgroups;
use super::containers::find;
use crate::plan::Scope;
use holdup_reason::facts::{Body, Container, Disk, Mount};
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
