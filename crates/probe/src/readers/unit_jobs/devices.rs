//! Programs that workers of the manager of devices have run for a device and wait for: children of a worker, with the device in their environment.
//!
//! Reads what a process in trouble may keep its reader waiting for: on the thread of mod.rs, which may be left behind. Must not: ask the manager (it answers when it is idle, which is what is waited for), or report a child that has no device in its environment.

use crate::system::clock::{Clock, process};
use crate::system::stat::Stat;
use crate::system::{Roots, text};
use holdup_reason::facts::{Body, ThreadRef, UnitJob, UnitJobs};

/// A worker by its own name, and the manager, which older releases have their workers called after.
const WORKERS: [&str; 2] = ["(udev-worker)", "systemd-udevd"];
/// Workers that are looked at: a host with more events at once has other cares.
const WORKERS_MAX: usize = 64;

/// The workers among all processes.
pub(super) fn workers(roots: &Roots) -> Vec<u32> {
    let is_worker = |pid: &u32| {
        let stat = Stat::read(&roots.process(*pid, "stat"));
        stat.is_some_and(|stat| WORKERS.contains(&stat.comm.as_str()))
    };
    let all = text::ids(&roots.proc).unwrap_or_default().into_iter();
    all.filter(is_worker).take(WORKERS_MAX).collect()
}

/// What some workers wait for, as a job each.
pub(super) fn events(roots: &Roots, workers: Vec<u32>, found: &mut Vec<Body>) {
    let clock = Clock::now();
    for worker in workers {
        let task = roots.process(worker, "task").join(worker.to_string());
        let bytes = text::read(&task.join("children")).unwrap_or_default();
        for pid in text::words(&bytes).filter_map(text::number) {
            // The manager's own children are its workers.
            let child = process(roots, pid as u32, &clock);
            let child = child.filter(|child| !WORKERS.contains(&child.comm.as_str()));
            let Some(program) = child else { continue };
            let environment = text::read(&roots.process(program.pid, "environ"));
            let job = event(program, &environment.unwrap_or_default());
            let jobs = job.into_iter().collect::<Vec<UnitJob>>();
            if !jobs.is_empty() {
                found.push(Body::UnitJobs(UnitJobs { manager_pid: worker, jobs }));
            }
        }
    }
}

/// By the environment of a program.
fn event(program: ThreadRef, environment: &[u8]) -> Option<UnitJob> {
    let value = |name: &str| {
        let mut all = environment.split(|byte| *byte == 0);
        let of = |line: &[u8]| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(text::lossy(value)).filter(|value| !value.is_empty())
        };
        all.find_map(of)
    };
    let in_sys = format!("/sys{}", value("DEVPATH")?);
    Some(UnitJob {
        id: program.pid,
        names: vec![value("DEVNAME").unwrap_or(in_sys)],
        kind: "event".into(),
        is_running: true,
        state: value("ACTION")?,
        since_ns: Some(program.start_ns),
        processes: vec![program],
        ..UnitJob::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_a_rule_has_its_device_in_its_environment() {
        let of = |environment: &[u8]| {
            let found = event(ThreadRef::default(), environment);
            found.map(|it| format!("{} {}", it.unit(), it.state))
        };
        let disk = b"ACTION=add\0DEVPATH=/devices/x/sdb\0DEVNAME=/dev/sdb\0SUBSYSTEM=block\0";
        assert_eq!(of(disk).as_deref(), Some("/dev/sdb add"));
        let link = b"DEVPATH=/devices/x/net/eth0\0ACTION=move\0DEVNAME=\0";
        assert_eq!(of(link).as_deref(), Some("/sys/devices/x/net/eth0 move"));
        assert_eq!(of(b"PATH=/bin\0HOME=/\0"), None, "somebody else's child");
        assert_eq!(of(b""), None);
    }

    #[test]
    fn who_has_no_children_waits_for_none() {
        let mut found = Vec::new();
        events(&Roots::default(), vec![u32::MAX], &mut found);
        assert!(found.is_empty());
    }
}
