//! Network namespaces that processes are in, by /proc/PID/ns/net.
//!
//! Must not: enter one. Those without a process are found by their mounts (readers/netlink).

use super::links::namespace_at;
use super::stat::Stat;
use super::{Roots, is_refusal, refused_by, text};
use holdup_reason::facts::Body;
use std::collections::BTreeMap;

/// Every network namespace that a living process is in, with the least pid in it.
pub fn network_namespaces(roots: &Roots) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        if let Some(netns) = namespace_at(&roots.process(pid, "ns/net")) {
            found.entry(netns).or_insert(pid);
        }
    }
    found
}

/// Whether namespaces may have been missed, because processes of others cannot be asked.
pub fn namespaces_refused(roots: &Roots) -> Option<Body> {
    let refuses = |pid: &u32| {
        let target = std::fs::read_link(roots.process(*pid, "ns/net"));
        // Kernel threads refuse too, and are all in the initial one.
        let kernel = || Stat::read(&roots.process(*pid, "stat")).is_none_or(|stat| stat.kernel);
        target.is_err_and(|error| is_refusal(&error)) && !kernel()
    };
    let mut pids = text::ids(&roots.proc).unwrap_or_default();
    pids.retain(refuses);
    refused_by("netns", pids, "network namespaces of those processes are not looked at")
}
