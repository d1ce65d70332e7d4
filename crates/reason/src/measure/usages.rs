//! What is used of all that can be used up, as of the end of a window, whichever facts say it.
//!
//! A group's page cache is no use: it is dropped when room is wanted, so of memory only what cannot be dropped counts. Where a group may
//! swap, memory and swap end together. Of neighbours those that are never collected take no room. Must not: hold a window before this one (engine/src/foresight.rs does).

use crate::facts::{Cgroup, NetCounters, Ns, Resource, Usage};
use crate::model::Model;

/// All of them, each with the moment of its reading.
pub fn usages(model: &Model) -> Vec<(Ns, Usage)> {
    let mut all = model.limits.usages.clone();
    let mut add = |usage| all.push((model.look.end_ns, usage));
    for group in &model.containers.cgroups {
        add_group(model, group, &mut add);
    }
    for (at, (netns, series)) in model.net.counters.iter().enumerate() {
        if let Some((_, counters)) = series.last() {
            add_tables(model, counters, (at == 0, *netns), &mut add);
        }
    }
    for used in model.net.port_use.values() {
        add(Usage {
            of: Resource::Ports,
            path: used.remote.to_string(),
            netns: used.netns,
            used: u64::from(used.open) + u64::from(used.time_wait),
            limit: u64::from(used.ports()),
            ..Usage::default()
        });
    }
    all
}

fn add_group(model: &Model, group: &Cgroup, add: &mut dyn FnMut(Usage)) {
    let Some(last) = model.containers.ends(group).map(|ends| ends.last()) else { return };
    let path = || group.path.clone();
    if let (Some(used), Some(limit)) = (last.tasks, group.pids_limit) {
        add(Usage { of: Resource::Tasks, path: path(), used, limit, ..Usage::default() });
    }
    let (Some(held), Some(limit)) = (last.memory_anon_bytes, group.memory_limit_bytes) else {
        return;
    };
    let held = held + last.memory_shmem_bytes.unwrap_or(0);
    let swap = model.memory.samples.last().map_or(0, |(_, host)| host.swap_total_bytes);
    let swap = swap.min(group.swap_limit_bytes.unwrap_or(u64::MAX));
    // How much it has swapped is part of it, and unknown is not none.
    let swapped = if swap == 0 { Some(0) } else { last.swap_bytes };
    if let Some(swapped) = swapped {
        let (used, limit) = (held + swapped, limit.saturating_add(swap));
        add(Usage { of: Resource::Memory, path: path(), used, limit, ..Usage::default() });
    }
}

/// The tables of a network namespace: those of neighbours are the host's, whichever namespace is asked first.
fn add_tables(
    model: &Model,
    counters: &NetCounters,
    (is_first, netns): (bool, u32),
    add: &mut dyn FnMut(Usage),
) {
    const TABLES: [(Resource, &str, &str); 3] = [
        (Resource::Connections, "nf_conntrack.entries", "net.netfilter.nf_conntrack_max"),
        (Resource::NeighboursV4, "arp_cache.entries", "net.ipv4.neigh.default.gc_thresh3"),
        (Resource::NeighboursV6, "ndisc_cache.entries", "net.ipv6.neigh.default.gc_thresh3"),
    ];
    for (of, counter, limit) in TABLES {
        let is_hosts = of != Resource::Connections;
        let limit = model.net.sysctls.get(limit).and_then(|text| text.trim().parse().ok());
        if let (Some(used), Some(limit)) = (counters.counters.get(counter), limit)
            && (is_first || !is_hosts)
        {
            let netns = if is_hosts { 0 } else { netns };
            let used = used.saturating_sub(uncounted(model, of));
            add(Usage { of, netns, used, limit, ..Usage::default() });
        }
    }
}

/// Entries of a table of neighbours, of all namespaces, that its limit does not count.
fn uncounted(model: &Model, of: Resource) -> u64 {
    let all = model.limits.permanent_neighbours.values();
    match of {
        Resource::NeighboursV4 => all.map(|it| it.v4).sum(),
        Resource::NeighboursV6 => all.map(|it| it.v6).sum(),
        Resource::Space
        | Resource::Inodes
        | Resource::Memory
        | Resource::Tasks
        | Resource::Descriptors
        | Resource::Connections
        | Resource::Ports => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{fact, host};

    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;

    fn of(facts: Vec<Fact>) -> Vec<(Resource, u64, u64)> {
        let model = Model::new([host(), facts].concat());
        usages(&model).into_iter().map(|(_, it)| (it.of, it.used, it.limit)).collect()
    }

    fn group(swap_bytes: Option<u64>) -> Vec<Fact> {
        let group = Cgroup {
            path: "/job".into(),
            memory_limit_bytes: Some(100 * MIB),
            pids_limit: Some(50),
            ..Cgroup::default()
        };
        let sample = CgroupSample {
            path: "/job".into(),
            memory_bytes: Some(90 * MIB),
            memory_file_bytes: Some(70 * MIB),
            memory_anon_bytes: Some(15 * MIB),
            memory_shmem_bytes: Some(5 * MIB),
            tasks: Some(7),
            swap_bytes,
            ..CgroupSample::default()
        };
        vec![fact(Body::Cgroup(group)), fact(Body::CgroupSample(sample))]
    }

    fn swap() -> Fact {
        let sample = MemorySample { swap_total_bytes: 30 * MIB, ..MemorySample::default() };
        fact(Body::MemorySample(sample))
    }

    #[test]
    fn a_groups_cache_is_no_use_of_its_memory() {
        let tasks = (Resource::Tasks, 7, 50);
        assert_eq!(of(group(None)), [tasks, (Resource::Memory, 20 * MIB, 100 * MIB)]);
    }

    #[test]
    fn memory_and_swap_end_together_and_what_is_swapped_must_be_known() {
        let with_swap = |swap_bytes| {
            let all = of([group(swap_bytes), vec![swap()]].concat());
            all.into_iter().find(|(of, ..)| *of == Resource::Memory)
        };
        assert_eq!(with_swap(Some(4 * MIB)), Some((Resource::Memory, 24 * MIB, 130 * MIB)));
        assert_eq!(with_swap(None), None);
    }

    #[test]
    fn neighbours_that_are_never_collected_take_no_room() {
        let counters = [("arp_cache.entries".to_string(), 1_000)].into();
        let name = "net.ipv4.neigh.default.gc_thresh3".to_string();
        let all = |permanent: &[(u32, u64)]| {
            let mut facts = vec![
                fact(Body::NetCounters(NetCounters {
                    netns: 1,
                    counters: BTreeMap::clone(&counters),
                })),
                fact(Body::Sysctl(Sysctl { name: name.clone(), value: "1024".into() })),
            ];
            facts.extend(permanent.iter().map(|(netns, v4)| {
                let found = PermanentNeighbours { netns: *netns, v4: *v4, v6: 70 };
                fact(Body::PermanentNeighbours(found))
            }));
            of(facts)
        };
        assert_eq!(all(&[]), [(Resource::NeighboursV4, 1_000, 1_024)]);
        assert_eq!(all(&[(1, 600), (2, 300)]), [(Resource::NeighboursV4, 100, 1_024)]);
    }

    #[test]
    fn tables_of_neighbours_are_the_hosts() {
        let counters = |netns, entries| {
            let named = [("arp_cache.entries", entries), ("nf_conntrack.entries", entries)];
            let counters = named.map(|(name, value)| (name.to_string(), value)).into();
            fact(Body::NetCounters(NetCounters { netns, counters }))
        };
        let sysctl = |name: &str, value: &str| {
            fact(Body::Sysctl(Sysctl { name: name.into(), value: value.into() }))
        };
        let all = of(vec![
            counters(1, 10),
            counters(2, 10),
            sysctl("net.ipv4.neigh.default.gc_thresh3", "1024"),
            sysctl("net.netfilter.nf_conntrack_max", "100"),
        ]);
        let connections = (Resource::Connections, 10, 100);
        assert_eq!(all, [connections, (Resource::NeighboursV4, 10, 1024), connections]);
    }
}
