//! The container's card: what it used in the window, beside its limits, whether anything held it up or not.
//!
//! Figures are the kernel's counters, and their differences over the window; nothing is judged here. A limit may be set by a
//! group above the container: the tightest one is given, with its group. Where both versions of cgroups count the same thing
//! (a hybrid host), v1's controller is the one that acts. Must not: fill in a zero for what was not read.
//!
//! Edit together: docs/json.md, report's text/card.rs.

use super::report::{
    Card, CardCpu, CardDisk, CardInterface, CardLimitsMet, CardMemory, CardPressure,
};
use crate::facts::*;
use crate::model::{Model, membership};
use std::collections::BTreeMap;

/// The card of the container that is looked at, if one is.
pub(super) fn card(model: &Model) -> Option<Card> {
    let target = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Container)?;
    let groups: Vec<&Cgroup> = unique(model, |group| target.cgroups.contains(&group.path));
    let known = model.containers.all.iter().find(|it| it.cgroups == target.cgroups);
    let (first, last) = (model.containers.samples.first(), model.containers.samples.last());
    let samples = first.zip(last).map(|((_, first), (_, last))| (first, last));
    Some(Card {
        name: target.name.clone(),
        runtime: known.map_or_else(String::new, |it| it.runtime.clone()),
        id: known.map_or_else(String::new, |it| it.id.clone()),
        namespace: known.and_then(|it| model.containers.workload(it).namespace),
        pod: known.and_then(|it| it.pod.clone()),
        cgroups: target.cgroups.clone(),
        cpu: cpu(model, &groups),
        memory: memory(model, &groups, samples.map(|(_, last)| last)),
        disks: disks(model, &groups),
        own_network: samples.and_then(|(_, last)| last.own_network),
        interfaces: samples.map_or_else(Vec::new, |(first, last)| interfaces(first, last)),
        pressure: samples.and_then(|(first, last)| pressure(first, last)),
        pids: samples.and_then(|(_, last)| last.pids),
        // Kubernetes sets it for the pod, and systemd for a slice.
        pids_limit: line(model, &groups).iter().filter_map(|group| group.pids_limit).min(),
    })
}

/// Settings are read at both ends of a look: the last reading of each group counts.
fn unique(model: &Model, wanted: impl Fn(&Cgroup) -> bool) -> Vec<&Cgroup> {
    let mut found = BTreeMap::new();
    for group in model.containers.cgroups.iter().filter(|group| wanted(group)) {
        found.insert((&group.path, &group.controllers), group);
    }
    found.into_values().collect()
}

/// A counter before and after, summed over the container's groups of one version of cgroups.
fn figure(
    model: &Model,
    groups: &[&Cgroup],
    of: fn(&CgroupSample) -> Option<u64>,
) -> Option<(u64, u64)> {
    let of_version = |v2: bool| {
        let ends = groups.iter().filter(|group| group.controllers.is_empty() == v2);
        let ends = ends.filter_map(|group| {
            let ends = model.containers.ends(group)?;
            Some((of(&ends.first)?, of(ends.last())?))
        });
        ends.reduce(|a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)))
    };
    of_version(false).or_else(|| of_version(true))
}

fn change(ends: Option<(u64, u64)>) -> Option<u64> {
    ends.map(|(first, last)| last.saturating_sub(first))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The container's groups and those above them.
fn line<'m>(model: &'m Model, groups: &[&Cgroup]) -> Vec<&'m Cgroup> {
    unique(model, |group| {
        groups.iter().any(|own| {
            own.controllers == group.controllers && membership::is_below(&own.path, &group.path)
        })
    })
}

fn cpu(model: &Model, groups: &[&Cgroup]) -> CardCpu {
    let usage = figure(model, groups, |it| it.cpu_usage_ns);
    let quota = |group: &Cgroup| {
        let (quota, period) = (group.cpu_quota_us?, group.cpu_period_us?);
        (period > 0).then(|| quota as f64 / period as f64)
    };
    let tightest = line(model, groups)
        .into_iter()
        .filter_map(|group| Some((quota(group)?, group.path.clone())))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (quota_cpus, quota_group) = tightest.unzip();
    CardCpu {
        used_seconds: change(usage).map(seconds),
        total_seconds: usage.map(|(_, last)| seconds(last)),
        quota_cpus,
        quota_group,
        periods: change(figure(model, groups, |it| it.cpu_periods)),
        throttled_periods: change(figure(model, groups, |it| it.cpu_throttled_periods)),
        throttled_seconds: change(figure(model, groups, |it| it.cpu_throttled_ns)).map(seconds),
        weight: groups.iter().find_map(|group| group.cpu_weight),
        cpus_allowed: groups
            .iter()
            .filter_map(|group| group.cpus_allowed.as_ref())
            .map(|cpus| cpus.len() as u64)
            .min(),
    }
}

fn memory(model: &Model, groups: &[&Cgroup], sample: Option<&ContainerSample>) -> CardMemory {
    let last = |of| figure(model, groups, of).map(|(_, last)| last);
    let tightest = line(model, groups)
        .into_iter()
        .filter_map(|group| Some((group.memory_limit_bytes?, group.path.clone())))
        .min_by_key(|(bytes, _)| *bytes);
    let (limit_bytes, limit_group) = tightest.unzip();
    let setter = line(model, groups)
        .into_iter()
        .find(|it| it.memory_limit_bytes.is_some() && Some(&it.path) == limit_group.as_ref());
    // The kernel counts a limit that is met where it is set, and not below.
    let at_limit = setter.map_or_else(Vec::new, |group| vec![group]);
    let used_bytes = last(|it| it.memory_bytes);
    let inactive = sample.and_then(|it| it.inactive_file_bytes);
    let page_bytes = model.look.host.page_bytes;
    let refaults = change(figure(model, groups, |it| it.memory_refaults));
    CardMemory {
        used_bytes,
        working_set_bytes: used_bytes.zip(inactive).map(|(used, it)| used.saturating_sub(it)),
        peak_bytes: sample.and_then(|it| it.memory_peak_bytes),
        anon_bytes: last(|it| it.memory_anon_bytes),
        cache_bytes: last(|it| it.memory_file_bytes),
        shared_bytes: last(|it| it.memory_shmem_bytes),
        swap_bytes: sample.and_then(|it| it.swap_bytes),
        limit_bytes,
        limit_group,
        high_bytes: groups.iter().filter_map(|group| group.memory_high_bytes).min(),
        met: CardLimitsMet {
            limit_hits: change(figure(model, groups, |it| it.memory_limit_hits)),
            limit_hits_total: last(|it| it.memory_limit_hits),
            limit_group_hits: change(figure(model, &at_limit, |it| it.memory_limit_hits)),
            high_hits: change(figure(model, groups, |it| it.memory_high_hits)),
        },
        killed: change(figure(model, groups, |it| it.oom_kills)),
        refault_bytes: refaults.map(|pages| pages.saturating_mul(page_bytes)),
        major_faults: change(figure(model, groups, |it| it.major_faults)),
    }
}

fn disks(model: &Model, groups: &[&Cgroup]) -> Vec<CardDisk> {
    let v1 = groups.iter().any(|group| group.controllers.iter().any(|it| it == "blkio"));
    let mut disks: BTreeMap<DeviceNumber, CardDisk> = BTreeMap::new();
    let name = |dev: DeviceNumber| {
        let disk = model.disk.of(dev);
        disk.map_or_else(|| format!("{}:{}", dev.major, dev.minor), |disk| disk.name.clone())
    };
    let fresh = |dev| CardDisk { name: name(dev), ..CardDisk::default() };
    for group in groups.iter().filter(|group| group.controllers.is_empty() != v1) {
        let Some(ends) = model.containers.ends(group) else { continue };
        for io in &ends.last().io {
            let zero = CgroupIo::default();
            let before = ends.first.io.iter().find(|it| it.dev == io.dev).unwrap_or(&zero);
            let disk = disks.entry(io.dev).or_insert_with(|| fresh(io.dev));
            disk.reads += io.reads.saturating_sub(before.reads);
            disk.read_bytes += io.read_bytes.saturating_sub(before.read_bytes);
            disk.writes += io.writes.saturating_sub(before.writes);
            disk.written_bytes += io.write_bytes.saturating_sub(before.write_bytes);
        }
    }
    for (group, limit) in
        groups.iter().flat_map(|group| group.io_limits.iter().map(move |limit| (group, limit)))
    {
        let disk = disks.entry(limit.dev).or_insert_with(|| fresh(limit.dev));
        disk.limits.insert(limit.kind.clone(), limit.per_second);
        disk.limit_group = Some(group.path.clone());
    }
    let used = |disk: &CardDisk| disk.reads + disk.writes > 0;
    // v1 counts for a group only once it has a limit: then what its processes were seen to ask for is what is known.
    if !disks.values().any(used) {
        let members = model.disk.used.iter().filter(|it| model.in_target(&it.process));
        for it in members {
            let disk = disks.entry(it.dev).or_insert_with(|| fresh(it.dev));
            disk.by_events = true;
            disk.reads += it.reads;
            disk.read_bytes += it.read_bytes;
            disk.writes += it.writes;
            disk.written_bytes += it.write_bytes;
        }
    }
    disks.into_values().filter(|disk| used(disk) || !disk.limits.is_empty()).collect()
}

fn interfaces(first: &ContainerSample, last: &ContainerSample) -> Vec<CardInterface> {
    let zero = InterfaceSample::default();
    let interface = |after: &InterfaceSample| {
        let before = first.interfaces.iter().find(|it| it.name == after.name).unwrap_or(&zero);
        CardInterface {
            name: after.name.clone(),
            received_bytes: after.rx_bytes.saturating_sub(before.rx_bytes),
            received_packets: after.rx_packets.saturating_sub(before.rx_packets),
            sent_bytes: after.tx_bytes.saturating_sub(before.tx_bytes),
            sent_packets: after.tx_packets.saturating_sub(before.tx_packets),
            dropped_packets: (after.rx_dropped + after.tx_dropped)
                .saturating_sub(before.rx_dropped + before.tx_dropped),
        }
    };
    last.interfaces.iter().map(interface).collect()
}

fn pressure(first: &ContainerSample, last: &ContainerSample) -> Option<CardPressure> {
    let (before, after) = (first.pressure.as_ref()?, last.pressure.as_ref()?);
    let part = |of: fn(&Pressure) -> u64| of(after).saturating_sub(of(before)) as f64 / 1e6;
    Some(CardPressure {
        cpu_seconds: part(|it| it.cpu_some_us),
        memory_seconds: part(|it| it.memory_some_us),
        memory_full_seconds: part(|it| it.memory_full_us),
        io_seconds: part(|it| it.io_some_us),
        io_full_seconds: part(|it| it.io_full_us),
    })
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const PATH: &str = "/pods/web";

    fn group(path: &str, controllers: &[&str], make: impl Fn(&mut Cgroup)) -> Fact {
        let controllers = controllers.iter().map(|it| (*it).to_string()).collect();
        let mut group = Cgroup { path: path.into(), controllers, ..Cgroup::default() };
        make(&mut group);
        fact(Body::Cgroup(group))
    }

    fn sample(at_ns: Ns, controllers: &[&str], make: impl Fn(&mut CgroupSample)) -> Fact {
        let controllers = controllers.iter().map(|it| (*it).to_string()).collect();
        let mut sample = CgroupSample { path: PATH.into(), controllers, ..CgroupSample::default() };
        make(&mut sample);
        Fact { at_ns, body: Body::CgroupSample(sample) }
    }

    fn looked_at(kind: TargetKind) -> Vec<Fact> {
        let cgroups = vec![PATH.to_string()];
        let target = Target {
            kind,
            name: "web".into(),
            pid: 0,
            cgroups: cgroups.clone(),
            words: Vec::new(),
        };
        let (name, runtime) = ("web".to_string(), "docker".to_string());
        let container = Container { name, runtime, cgroups, ..Container::default() };
        [host(), vec![fact(Body::Target(target)), fact(Body::Container(container))]].concat()
    }

    #[test]
    fn figures_are_changes_over_the_window_and_what_is_not_read_is_absent() {
        let mut facts = looked_at(TargetKind::Container);
        facts.push(group(PATH, &["cpuacct"], |_| ()));
        facts.push(group(PATH, &["memory"], |it| it.memory_limit_bytes = Some(900)));
        facts.push(group("/pods", &["memory"], |it| it.memory_limit_bytes = Some(500)));
        for (at_ns, ns, bytes) in [(0, 1_000_000_000, 100), (LOOK_NS, 3_500_000_000, 180)] {
            facts.push(sample(at_ns, &["cpuacct"], |it| it.cpu_usage_ns = Some(ns)));
            facts.push(sample(at_ns, &["memory"], |it| it.memory_bytes = Some(bytes)));
            // A hybrid host counts the same in the other hierarchy.
            facts.push(sample(at_ns, &[], |it| it.cpu_usage_ns = Some(ns)));
        }
        facts.push(group(PATH, &[], |_| ()));
        let card = explain(facts).container.expect("a card");
        assert_eq!((card.cpu.used_seconds, card.cpu.total_seconds), (Some(2.5), Some(3.5)));
        assert_eq!(card.memory.used_bytes, Some(180));
        assert_eq!(card.memory.limit_bytes, Some(500), "the group above is tighter");
        assert_eq!(card.memory.limit_group.as_deref(), Some("/pods"));
        assert_eq!(
            (card.cpu.throttled_seconds, card.memory.cache_bytes, card.pids),
            (None, None, None)
        );
        assert_eq!(card.runtime, "docker");
    }

    #[test]
    fn the_least_quota_and_task_limit_of_the_group_and_those_above_count() {
        let mut facts = looked_at(TargetKind::Container);
        let limited = |path: &str, quota_us: Option<u64>, pids: Option<u64>| {
            group(path, &[], |it| {
                (it.cpu_quota_us, it.cpu_period_us) = (quota_us, Some(100_000));
                it.pids_limit = pids;
            })
        };
        facts.push(limited(PATH, Some(200_000), Some(1000)));
        facts.push(limited("/pods", Some(50_000), Some(64)));
        facts.push(limited("/", None, None));
        facts.push(limited("/pods/webs", Some(1_000), Some(2)));
        let card = explain(facts).container.expect("a card");
        assert_eq!(card.cpu.quota_cpus, Some(0.5));
        assert_eq!(card.cpu.quota_group.as_deref(), Some("/pods"));
        assert_eq!(card.pids_limit, Some(64), "and not that of a sibling");
    }

    #[test]
    fn a_limit_that_is_met_is_counted_where_it_is_set() {
        let memory = |sampled: bool| {
            let mut facts = looked_at(TargetKind::Container);
            facts.push(group(PATH, &[], |it| it.memory_high_bytes = Some(900)));
            facts.push(group("/pods", &[], |it| it.memory_limit_bytes = Some(500)));
            for (at_ns, hits) in [(0, 100), (LOOK_NS, 107)] {
                facts.push(sample(at_ns, &[], |it| {
                    (it.memory_limit_hits, it.memory_high_hits) = (Some(0), Some(hits - 100));
                }));
                facts.extend(sampled.then(|| {
                    sample(at_ns, &[], |it| {
                        (it.path, it.memory_limit_hits) = ("/pods".into(), Some(hits));
                    })
                }));
            }
            explain(facts).container.expect("a card").memory.met
        };
        let met = memory(true);
        assert_eq!(
            (met.limit_hits, met.limit_group_hits, met.high_hits),
            (Some(0), Some(7), Some(7))
        );
        assert_eq!(memory(false).limit_group_hits, None, "nobody read it");
    }

    #[test]
    fn disks_are_counted_by_events_only_where_the_group_does_not_count() {
        let dev = DeviceNumber { major: 8, minor: 0 };
        let used = |io: &[CgroupIo]| {
            let mut facts = looked_at(TargetKind::Container);
            facts.push(group(PATH, &["blkio"], |_| ()));
            facts.push(sample(0, &["blkio"], |_| ()));
            facts.push(sample(LOOK_NS, &["blkio"], |it| it.io = io.to_vec()));
            let cgroups = vec![Membership { controllers: vec!["blkio".into()], path: PATH.into() }];
            for (pid, cgroups) in [(10, cgroups), (11, Vec::new())] {
                let thread = thread(pid, "app");
                facts.push(identity(Thread {
                    thread: thread.clone(),
                    cgroups,
                    ..Thread::default()
                }));
                facts.push(fact(Body::DiskUse(DiskUse {
                    dev,
                    process: thread,
                    reads: 3,
                    read_bytes: 4096,
                    writes: 0,
                    write_bytes: 0,
                    cgroup_id: 0,
                })));
            }
            explain(facts).container.expect("a card").disks
        };
        let seen = used(&[]);
        assert_eq!((seen[0].reads, seen[0].read_bytes, seen[0].by_events), (3, 4096, true));
        let seen = used(&[CgroupIo { dev, reads: 7, read_bytes: 9, ..CgroupIo::default() }]);
        assert_eq!((seen[0].reads, seen[0].read_bytes, seen[0].by_events), (7, 9, false));
    }

    #[test]
    fn only_a_look_at_a_container_has_a_card() {
        assert!(explain(looked_at(TargetKind::Host)).container.is_none());
    }
}
