//! Programs that workers of the manager of devices have run for a device and wait for: children of a worker, with the device in their environment.
//!
//! Must not: ask the manager (it answers when it is idle, which is what is waited for), or report a child that has no device in its environment.

use crate::system::clock::{Clock, process};
use crate::system::stat::Stat;
use crate::system::{Roots, guard, text};
use holdup_reason::facts::{DeviceEvent, ThreadRef};
use std::path::PathBuf;

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

/// What some workers wait for.
pub(super) fn events(roots: &Roots, workers: Vec<u32>) -> Vec<DeviceEvent> {
    let clock = Clock::now();
    let mut all: Vec<(u32, ThreadRef)> = Vec::new();
    for worker in workers.into_iter().take(WORKERS_MAX) {
        let task = roots.process(worker, "task").join(worker.to_string());
        let bytes = text::read(&task.join("children")).unwrap_or_default();
        let children = text::words(&bytes).filter_map(text::number);
        let children = children.filter_map(|pid| process(roots, u32::try_from(pid).ok()?, &clock));
        // The manager's own children are its workers.
        let children = children.filter(|child| !WORKERS.contains(&child.comm.as_str()));
        all.extend(children.map(|child| (worker, child)));
    }
    let files = all.iter().map(|(_, child)| roots.process(child.pid, "environ")).collect();
    let read = guard::map(files, |path: &PathBuf| text::read(path).unwrap_or_default());
    let event = |((worker_pid, program), bytes): ((u32, ThreadRef), Option<Vec<u8>>)| {
        event(worker_pid, program, &bytes?)
    };
    all.into_iter().zip(read).filter_map(event).collect()
}

/// By the environment of a program.
fn event(worker_pid: u32, program: ThreadRef, environment: &[u8]) -> Option<DeviceEvent> {
    let value = |name: &str| {
        let mut all = environment.split(|byte| *byte == 0);
        let of = |line: &[u8]| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(text::lossy(value)).filter(|value| !value.is_empty())
        };
        all.find_map(of)
    };
    let in_sys = format!("/sys{}", value("DEVPATH")?);
    let (device, action) = (value("DEVNAME").unwrap_or(in_sys), value("ACTION")?);
    Some(DeviceEvent { worker_pid, program, device, action })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_a_rule_has_its_device_in_its_environment() {
        let of = |environment: &[u8]| {
            let found = event(5, ThreadRef::default(), environment);
            found.map(|it| format!("{} {}", it.device, it.action))
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
        assert!(events(&Roots::default(), vec![u32::MAX]).is_empty());
    }
}
