//! What changes seldom: the host, its mounts, disks, cgroups, containers and kernel settings, read once as a look begins.
//!
//! It takes as long as the kernel takes to load its programs, and does not have to be as old as the window: so it is read beside
//! that, on a thread of its own (session/opening.rs). Must not:
//! read what moves.

use super::cgroups::Cgroups;
use super::containers::containers;
use super::opened::Settings;
use super::{disks, host};
use crate::system::namespaces::network_namespaces;
use crate::system::{Roots, mounts, root_helps};
use holdup_reason::facts::{Blind, Body, Mount};

/// Reads all of it.
pub fn read(roots: &Roots) -> Settings {
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
    Settings { facts, cgroups, containers, namespaces, mounts, disks, directories: Vec::new() }
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
