//! memory.dirty_throttle: writers are paused because too many written pages wait for a disk.
//!
//! Pages in memory that must still be written are limited for the whole host (vm.dirty_*), so one slow disk can pause
//! writers to every other. The pause is asked for by the kernel and told by its own tracepoint, which is the
//! second fact beside the wait. Rejected: blaming the limit always; it mostly only decides when a slow disk is
//! felt.

use super::{Case, Verdict, words};
use crate::causes::{Cause, Causes};
use crate::facts::{DeviceNumber, DirtyPause, Disk};
use crate::findings::{Culprit, Evidence, Finding, Remedy};
use crate::queues;
use crate::waits::WaitClass;

/// The case.
pub static CASE: Case = Case {
    code: "memory.dirty_throttle",
    title: "Writers are paused at the dirty page limit",
    theory: "A buffered write goes into memory and is written to disk later. When the pages that wait for that (dirty, \
             and under writeback) come near the limit (vm.dirty_bytes or vm.dirty_ratio), the kernel puts every \
             writer to sleep (balance_dirty_pages) so that they dirty no faster than the disk takes it. The limit \
             is the host's, so a slow disk can fill it and pause writers to quick ones too.",
    needs: &[
        "threads sleep in balance_dirty_pages",
        "the kernel's own pauses add up to at least half of these waits, or the dirty pages are near the limit",
    ],
    refuted_by: &["no pause was asked for, and the dirty pages stay well below the limit"],
    remedies: &[
        "write less, or to a quicker disk",
        "raise the limit to ride out bursts; lower it to keep other writers from waiting behind them",
    ],
    stories: &["S3.6"],
    find,
};

/// A disk with less to do does not hold pages back.
const DISK_BUSY_MIN: f64 = 0.5;

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    causes.class(WaitClass::DirtyThrottle).filter_map(|cause| finding(causes, cause)).collect()
}

/// Dirty pages and pages under writeback, at most, and the limit: bytes.
fn fill(causes: &Causes<'_>) -> (u64, u64) {
    let samples = || causes.scene.memory.iter().map(|(_, sample)| sample);
    let most = samples().map(|s| s.dirty_bytes + s.writeback_bytes).max().unwrap_or(0);
    (most, causes.scene.memory.last().map_or(0, |(_, s)| s.dirty_threshold_bytes))
}

/// Where the pages wait: the disk that is busiest writing, or the one of the victims.
fn drain<'a>(
    causes: &'a Causes<'_>,
    cause: &Cause,
    pauses: &[&DirtyPause],
) -> Option<(&'a Disk, f64)> {
    let scene = causes.scene;
    let most = pauses.iter().max_by_key(|pause| pause.pause_ns).map(|pause| pause.dev);
    let own = scene
        .disks
        .values()
        .find(|disk| disk.dev.to_string() == cause.object.id)
        .or_else(|| scene.disk(most.filter(|dev| *dev != DeviceNumber::default())?));
    let busy = |disk: &Disk| queues::disk(scene, disk.dev).map_or(0.0, |queue| queue.busy);
    let writes = |disk: &Disk| {
        let series = scene.disk_samples.get(&disk.dev)?;
        let (first, last) = (&series.first()?.1, &series.last()?.1);
        Some(last.write_bytes.saturating_sub(first.write_bytes))
    };
    let busiest = scene
        .disks
        .values()
        .filter(|disk| writes(disk).unwrap_or(0) > 0)
        .max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let own_busy = own.map_or(0.0, busy);
    match (own, busiest) {
        // The victims' own disk has time: they wait for pages that another one does not take.
        (Some(own), Some(other))
            if own_busy < DISK_BUSY_MIN && busy(other) >= 0.8 && own.dev != other.dev =>
        {
            Some((other, busy(other)))
        }
        (Some(own), _) => Some((own, own_busy)),
        (None, Some(other)) => Some((other, busy(other))),
        (None, None) => None,
    }
}

/// Why the pages stay.
fn reason(causes: &Causes<'_>, cause: &Cause, disk: &Disk, (busy, takes): (f64, f64)) -> String {
    let (name, on) = (&disk.name, &cause.object);
    let (busy_text, takes) = (words::percent(busy), words::bytes(takes));
    if busy < DISK_BUSY_MIN {
        return format!("disk {name} is only {busy_text} busy: the limit is what is small");
    }
    if on.kind == "disk" && on.name != *name && on.name != "not known" {
        let victim = causes.process_name(cause.first_victim());
        return format!(
            "they wait for disk {name}, which takes {takes}/s and is {busy_text} busy, though {victim} writes to {}",
            on.name
        );
    }
    format!("disk {name} takes {takes}/s and is {busy_text} busy")
}

fn finding(causes: &Causes<'_>, cause: &Cause) -> Option<Finding> {
    let scene = causes.scene;
    let pauses: Vec<&DirtyPause> = scene
        .dirty_pauses
        .iter()
        .filter(|pause| cause.victims.contains_key(&pause.thread.pid))
        .collect();
    let paused: f64 = pauses.iter().map(|pause| pause.pause_ns as f64 / 1e9).sum();
    let (filled, limit) = fill(causes);
    let near = limit > 0 && filled as f64 >= 0.4 * limit as f64;
    if paused < 0.5 * cause.seconds && !near {
        return None;
    }
    let (disk, busy) = drain(causes, cause, &pauses)?;
    let queue = queues::disk(scene, disk.dev);
    let takes = queue.as_ref().map_or(0.0, |queue| queue.bytes_per_second);
    // A disk with time to spare does not hold pages back: then the limit itself is too small.
    let by_limit = busy < DISK_BUSY_MIN;
    let setting = setting(causes);
    let victim = causes.process_name(cause.first_victim());
    let name = &disk.name;
    let reason = reason(causes, cause, disk, (busy, takes));
    let verdict = Verdict {
        title: if by_limit {
            format!(
                "{victim} is paused at the host's limit of {} dirty memory",
                words::bytes(limit as f64)
            )
        } else {
            format!(
                "{victim} writes faster than disk {name} takes it, and is paused at the dirty limit"
            )
        },
        text: format!(
            "{} of its time ({} in {}) it is paused in write: up to {} wait in memory to be written, and the host's limit \
             is {} ({setting}); {reason}.",
            words::percent(causes.impact(cause).share),
            words::seconds(cause.seconds),
            words::seconds(causes.wall_seconds()),
            words::bytes(filled as f64),
            words::bytes(limit as f64),
        ),
        confidence: if paused >= 0.5 * cause.seconds && near { 0.96 } else { 0.85 },
        culprit: if by_limit {
            Culprit::setting("dirty limit", setting.clone())
        } else {
            Culprit { setting: Some(setting.clone()), ..Culprit::device(name.clone()) }
        },
        evidence: vec![
            Evidence::new("dirty limit of the host", limit as f64, "bytes", "/proc/vmstat"),
            Evidence::new(
                "dirty and under writeback, at most",
                filled as f64,
                "bytes",
                "/proc/vmstat",
            ),
            Evidence::new("pauses that the kernel asked for", paused, "s", "balance_dirty_pages"),
            Evidence::new("waited in them", cause.seconds, "s", "sched_switch"),
            Evidence::new(format!("disk {name} busy"), busy * 100.0, "%", "/proc/diskstats"),
            Evidence::new(format!("disk {name} takes"), takes, "bytes/s", "/proc/diskstats"),
        ],
        remedy: vec![remedy(causes, limit)],
    };
    Some(CASE.finding(causes, cause, verdict))
}

/// The sysctl that is in force.
fn setting(causes: &Causes<'_>) -> String {
    let bytes = causes.scene.sysctls.get("vm.dirty_bytes").map_or("0", String::as_str);
    if bytes == "0" { "vm.dirty_ratio" } else { "vm.dirty_bytes" }.to_string()
}

fn remedy(causes: &Causes<'_>, limit: u64) -> Remedy {
    let setting = setting(causes);
    let old = causes.scene.sysctls.get(&setting).cloned();
    let new = if setting == "vm.dirty_bytes" {
        limit.saturating_mul(4).to_string()
    } else {
        "40".to_string()
    };
    Remedy {
        text: "for bursts only: let more wait in memory (a slow disk stays slow)".into(),
        command: format!("sysctl -w {setting}={new}"),
        undo: old.map_or_else(String::new, |old| format!("sysctl -w {setting}={old}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::scene::Scene;

    const MIB: u64 = 1 << 20;
    const END: Ns = 5_000_000_000;

    fn dev(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 7, minor }
    }

    fn scene(paused_seconds: f64, filled: u64, busy: [u64; 2]) -> Scene {
        let writer = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "export".into() };
        let mut facts = Vec::new();
        let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
        put(0, Body::WindowBegin(WindowBegin { unix_ns: 0 }));
        put(0, Body::Stack(Stack { id: 1, frames: vec!["balance_dirty_pages".into()] }));
        for (minor, busy) in busy.into_iter().enumerate() {
            let dev = dev(minor as u32);
            put(0, Body::Disk(Disk { dev, name: format!("loop{minor}"), ..Disk::default() }));
            for tenth in 0..=50 {
                let sample = DiskSample {
                    dev,
                    writes: tenth,
                    write_bytes: tenth * MIB / 2,
                    busy_ms: tenth * busy,
                    ..DiskSample::default()
                };
                put(tenth * END / 50, Body::DiskSample(sample));
            }
        }
        put(
            END,
            Body::MemorySample(MemorySample {
                dirty_bytes: filled,
                dirty_threshold_bytes: 20 * MIB,
                ..MemorySample::default()
            }),
        );
        let place =
            Place { state: WaitState::DiskSleep, stack: 1, disk: Some(dev(0)), ..Place::default() };
        put(
            END,
            Body::Wait(Wait {
                thread: writer.clone(),
                begin_ns: 0,
                end_ns: END,
                place,
                wake: Some(Wake { at_ns: END, ..Wake::default() }),
                ..Wait::default()
            }),
        );
        put(
            END,
            Body::DirtyPause(DirtyPause {
                thread: writer,
                dev: dev(0),
                pause_ns: (paused_seconds * 1e9) as u64,
                ..DirtyPause::default()
            }),
        );
        put(END, Body::WindowEnd(WindowEnd::default()));
        Scene::new(facts)
    }

    #[test]
    fn a_slow_disk_that_fills_the_limit_is_the_culprit() {
        let scene = scene(4.8, 15 * MIB, [99, 1]);
        let found = find(&Causes::of(&scene));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "loop0");
        assert_eq!(found[0].evidence[0].value, (20 * MIB) as f64);
    }

    #[test]
    fn a_writer_to_a_quick_disk_waits_for_the_slow_one() {
        let scene = scene(4.8, 15 * MIB, [5, 99]);
        let found = find(&Causes::of(&scene));
        assert_eq!(found[0].culprit.name, "loop1");
    }

    #[test]
    fn without_a_slow_disk_the_limit_is_too_small() {
        let scene = scene(4.8, 15 * MIB, [5, 1]);
        let found = find(&Causes::of(&scene));
        assert_eq!(found[0].culprit.setting.as_deref(), Some("vm.dirty_ratio"));
    }

    #[test]
    fn no_pause_and_few_dirty_pages_refute_it() {
        assert!(find(&Causes::of(&scene(0.1, MIB, [99, 1]))).is_empty());
    }
}
