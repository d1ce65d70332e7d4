//! One thread by /proc/PID/task/TID/status, and threads by their numbers inside a container.
//!
//! Must not: read more than the file of each thread that is asked about.

use super::{Roots, text};
use std::collections::HashMap;

/// The parts of /proc/PID/status that are used.
#[derive(Default)]
pub struct Status {
    /// Process id in the innermost namespace.
    pub inner_pid: Option<u32>,
    /// Thread id there.
    pub inner_tid: Option<u32>,
    /// Who traces it; 0: nobody.
    pub tracer_pid: u32,
    /// What of it is in swap; none of a kernel thread.
    pub swap_bytes: Option<u64>,
    /// Effective capabilities.
    pub capabilities: Option<u64>,
    /// Effective user.
    pub uid: Option<u32>,
    /// CPUs that it may use.
    pub cpus_allowed: Vec<u32>,
    /// Nodes that its memory may come from.
    pub memory_nodes_allowed: Vec<u32>,
}

impl Status {
    /// Reads what is there.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text::lines(bytes) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let value = line[colon + 1..].trim_ascii();
            match &line[..colon] {
                b"NStgid" => status.inner_pid = innermost(value),
                b"NSpid" => status.inner_tid = innermost(value),
                b"TracerPid" => status.tracer_pid = text::number(value).unwrap_or(0) as u32,
                b"VmSwap" => status.swap_bytes = kilobytes(value),
                // Real, effective, saved, and of the file system.
                b"Uid" => {
                    status.uid =
                        text::words(value).nth(1).and_then(text::number).map(|it| it as u32)
                }
                b"CapEff" => {
                    status.capabilities = u64::from_str_radix(&text::lossy(value), 16).ok();
                }
                b"Cpus_allowed_list" => status.cpus_allowed = text::cpu_list(&text::lossy(value)),
                b"Mems_allowed_list" => {
                    status.memory_nodes_allowed = text::cpu_list(&text::lossy(value));
                }
                _ => {}
            }
        }
        status
    }
}

/// `12 kB` in bytes.
fn kilobytes(value: &[u8]) -> Option<u64> {
    Some(text::words(value).next().and_then(text::number)?.saturating_mul(1024))
}

/// The last of several ids: the one in the innermost namespace.
fn innermost(value: &[u8]) -> Option<u32> {
    let ids: Vec<&[u8]> = text::words(value).collect();
    (ids.len() > 1)
        .then(|| ids.last().and_then(|id| text::number(id)))
        .flatten()
        .map(|id| id as u32)
}

/// The thread of a process that goes by `inner_tid` in its own PID namespace: its tid as /proc has it. The search is
/// over all threads of the process: who asks for many waiters must remember.
pub fn thread_inside(roots: &Roots, pid: u32, inner_tid: u32) -> Option<u32> {
    let task = roots.process(pid, "task");
    let inner = |tid: u32| {
        let status = text::read(&task.join(tid.to_string()).join("status")).ok()?;
        Some(Status::parse(&status).inner_tid.unwrap_or(tid))
    };
    // In the namespace of /proc both ids are one.
    if inner(inner_tid) == Some(inner_tid) {
        return Some(inner_tid);
    }
    text::ids(&task).ok()?.into_iter().find(|tid| inner(*tid) == Some(inner_tid))
}

/// The threads of a process as /proc has them, by their ids in its own PID namespace.
pub fn threads_by_inner_tid(roots: &Roots, pid: u32) -> HashMap<u32, u32> {
    let task = roots.process(pid, "task");
    let inner = |tid: u32| {
        let status = text::read(&task.join(tid.to_string()).join("status")).ok()?;
        Some((Status::parse(&status).inner_tid.unwrap_or(tid), tid))
    };
    text::ids(&task).unwrap_or_default().into_iter().filter_map(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_inside_a_namespace() {
        assert_eq!(innermost(b"120\t7\t1"), Some(1));
        assert_eq!(innermost(b"120"), None);
    }

    #[test]
    fn what_is_in_swap_is_bytes_and_a_kernel_thread_has_none() {
        let swap_bytes = |file: &[u8]| Status::parse(file).swap_bytes;
        assert_eq!(swap_bytes(b"Name:\tx\nVmSwap:\t      12 kB\n"), Some(12 << 10));
        assert_eq!(swap_bytes(b"Name:\tkswapd0\n"), None);
    }
}
