//! memory.dirty_throttle: writers are paused because too many written pages wait for a disk.
//!
//! Pages in memory that must still be written are limited for the whole host (vm.dirty_*), so one slow disk can pause
//! writers to every other. The pause is asked for by the kernel and told by its own tracepoint, which is the
//! second fact beside the wait. Rejected: blaming the limit always; it mostly only decides when a slow disk is
//! felt.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy};
use crate::facts::{DeviceNumber, DirtyPause, Disk};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::disk_queue;
use crate::model::object::Object;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
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
    refuted_by: &[Refutation::new(
        "no pause was asked for, and the dirty pages stay well below the limit",
        "",
    )],
    remedies: &[
        "write less, or to a quicker disk",
        "raise the limit to ride out bursts; lower it to keep other writers from waiting behind them",
    ],
    stories: &["S3.6"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// A disk with less to do does not hold pages back.
const DISK_BUSY_MIN: f64 = 0.3;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    // The limit is the host's: whatever file systems the paused writers write to, those that wait
    // for one disk have one reason.
    let mut by_drain: Vec<(DeviceNumber, End)> = Vec::new();
    for end in measures.class(WaitClass::DirtyThrottle) {
        let Some((disk, _)) = drain(measures, end) else { continue };
        match by_drain.iter_mut().find(|(dev, _)| *dev == disk.dev) {
            Some((_, known)) => fold(known, end),
            None => by_drain.push((disk.dev, end.clone())),
        }
    }
    by_drain.iter().filter_map(|(dev, end)| finding(measures, *dev, end)).collect()
}

/// Adds a cause to a greater one.
fn fold(known: &mut End, more: &End) {
    known.seconds += more.seconds;
    known.count += more.count;
    known.longest_seconds = known.longest_seconds.max(more.longest_seconds);
    for (pid, (thread, seconds)) in &more.victims {
        known.victims.entry(*pid).or_insert_with(|| (thread.clone(), 0.0)).1 += seconds;
    }
}

/// The writer itself, where others wait for it.
fn writer(measures: &Measures<'_>, end: &End) -> String {
    let link = end.links.get(end.named);
    measures.process_name(link.map_or(end.first_victim(), |link| &link.who))
}

/// Dirty pages and pages under writeback, at most, and the limit: bytes.
fn fill(measures: &Measures<'_>) -> (u64, u64) {
    let samples = || measures.model.memory.iter().map(|(_, sample)| sample);
    let most = samples().map(|s| s.dirty_bytes + s.writeback_bytes).max().unwrap_or(0);
    (most, measures.model.memory.last().map_or(0, |(_, s)| s.dirty_threshold_bytes))
}

/// The kernel's pauses of the victims.
fn pauses<'a>(measures: &'a Measures<'_>, end: &End) -> Vec<&'a DirtyPause> {
    let all = measures.model.dirty_pauses.iter();
    all.filter(|pause| end.victims.contains_key(&pause.thread.pid)).collect()
}

fn busy(measures: &Measures<'_>, disk: &Disk) -> f64 {
    disk_queue::disk(measures.model, disk.dev).map_or(0.0, |queue| queue.busy)
}

/// Where the pages wait: the disk of the victims, unless it has time and another that is written to has
/// not.
fn drain<'a>(measures: &'a Measures<'_>, end: &End) -> Option<(&'a Disk, f64)> {
    let model = measures.model;
    let most = pauses(measures, end).into_iter().max_by_key(|p| p.pause_ns).map(|p| p.dev);
    let own = model
        .disks
        .values()
        .find(|disk| Object::Disk(Some(disk.dev)) == end.object)
        .or_else(|| model.disk(most.filter(|dev| *dev != DeviceNumber::default())?))
        .map(|disk| (disk, busy(measures, disk)));
    let is_written = |disk: &&Disk| {
        let series = model.disk_samples.get(&disk.dev);
        let ends = series.and_then(|series| Some((series.first()?, series.last()?)));
        ends.is_some_and(|(first, last)| last.1.write_bytes > first.1.write_bytes)
    };
    let busiest = model
        .disks
        .values()
        .filter(is_written)
        .map(|disk| (disk, busy(measures, disk)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match (own, busiest) {
        (Some(own), Some(other)) if other.1 >= DISK_BUSY_MIN && other.1 > 3.0 * own.1 => {
            Some(other)
        }
        (Some(own), _) => Some(own),
        (None, other) => other,
    }
}

/// Why the pages stay.
fn reason(measures: &Measures<'_>, end: &End, disk: &Disk, (busy, takes): (f64, f64)) -> String {
    let (name, on) = (&disk.name, &measures.model.name_of(&end.object));
    let (busy_text, takes) = (words::percent(busy), words::bytes(takes));
    if busy < DISK_BUSY_MIN {
        return format!("disk {name} is only {busy_text} busy: the limit is what is small");
    }
    if on.kind == "disk" && on.name != *name && on.name != "not known" {
        let victim = writer(measures, end);
        return format!(
            "they wait for disk {name}, which takes {takes}/s and is {busy_text} busy, though {victim} writes to {}",
            on.name
        );
    }
    format!("disk {name} takes {takes}/s and is {busy_text} busy")
}

fn finding(measures: &Measures<'_>, drain: DeviceNumber, end: &End) -> Option<Finding> {
    let model = measures.model;
    let paused = pauses(measures, end).iter().map(|p| p.pause_ns as f64 / 1e9).sum::<f64>();
    let (filled, limit) = fill(measures);
    let near = limit > 0 && filled as f64 >= 0.4 * limit as f64;
    if paused < 0.5 * end.seconds && !near {
        return None;
    }
    let disk = model.disk(drain)?;
    let busy = busy(measures, disk);
    let queue = disk_queue::disk(model, disk.dev);
    let takes = queue.as_ref().map_or(0.0, |queue| queue.bytes_per_second);
    // A disk with time to spare does not hold pages back: then the limit itself is too small.
    let by_limit = busy < DISK_BUSY_MIN;
    let setting = setting(measures);
    let victim = writer(measures, end);
    let name = &disk.name;
    let reason = reason(measures, end, disk, (busy, takes));
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
            "{} of the writers' time ({}) passes in pauses: up to {} wait in memory to be written, and the host's limit \
             is {} ({setting}); {reason}.",
            words::percent(measures.impact(end).share),
            words::of_window(end.seconds, measures.wall_seconds()),
            words::bytes(filled as f64),
            words::bytes(limit as f64),
        ),
        confidence: if paused >= 0.5 * end.seconds && near { 0.96 } else { 0.85 },
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
            Evidence::new("waited in them", end.seconds, "s", "sched_switch"),
            Evidence::new(format!("disk {name} busy"), busy * 100.0, "%", "/proc/diskstats"),
            Evidence::new(format!("disk {name} takes"), takes, "bytes/s", "/proc/diskstats"),
        ],
        remedy: vec![remedy(measures, limit, by_limit)],
    };
    let object = ObjectName::new("disk", name).with_id(disk.dev.to_string());
    Some(Finding { object, ..RULE.finding(measures, end, verdict) })
}

/// The sysctl that is in force.
fn setting(measures: &Measures<'_>) -> String {
    let bytes = measures.model.sysctls.get("vm.dirty_bytes").map_or("0", String::as_str);
    if bytes == "0" { "vm.dirty_ratio" } else { "vm.dirty_bytes" }.to_string()
}

/// More dirty memory than this leaves little for whoever needs memory at once.
const RATIO_MAX: u64 = 80;

fn remedy(measures: &Measures<'_>, limit: u64, by_limit: bool) -> Remedy {
    if !by_limit {
        // Who writes more than a disk takes meets a higher limit a little later, and is paused as before.
        return Remedy {
            text: "write less, or to a quicker disk; a higher limit only moves the pause, unless the writing is a burst \
                   that ends before it"
                .into(),
            ..Remedy::default()
        };
    }
    let setting = setting(measures);
    let old = measures.model.sysctls.get(&setting).cloned();
    let now = old.as_deref().and_then(|old| old.parse::<u64>().ok());
    let new = match now {
        _ if setting == "vm.dirty_bytes" => Some(limit.saturating_mul(4)),
        // In percent of what is available; the kernel's own is 20.
        Some(now) => Some(now.saturating_mul(2).clamp(40, RATIO_MAX)).filter(|new| *new > now),
        None => None,
    };
    let set = |value: u64| format!("sysctl -w {setting}={value}");
    Remedy {
        text: "let more wait in memory: the disk has time to write it".into(),
        command: new.map(set).unwrap_or_default(),
        undo: match (new, old) {
            (Some(_), Some(old)) => format!("sysctl -w {setting}={old}"),
            _ => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::waits::timeline::Observed;

    const MIB: u64 = 1 << 20;
    const END: Ns = 5_000_000_000;

    fn dev(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 7, minor }
    }

    fn model(paused_seconds: f64, filled: u64, busy: [u64; 2]) -> Observed {
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
        Observed::new(facts)
    }

    #[test]
    fn a_slow_disk_that_fills_the_limit_is_the_culprit() {
        let model = model(4.8, 15 * MIB, [99, 1]);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "loop0");
        assert_eq!(found[0].evidence[0].value, (20 * MIB) as f64);
        assert!(found[0].remedy[0].command.is_empty(), "a higher limit fills as well");
    }

    #[test]
    fn a_writer_to_a_quick_disk_waits_for_the_slow_one() {
        let model = model(4.8, 15 * MIB, [5, 99]);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found[0].culprit.name, "loop1");
    }

    #[test]
    fn without_a_slow_disk_the_limit_is_too_small() {
        let told = |ratio: Option<&str>| {
            let mut model = model(4.8, 15 * MIB, [5, 1]);
            model.model.sysctls.extend(ratio.map(|ratio| ("vm.dirty_ratio".into(), ratio.into())));
            let found = find(&Measures::of_observed(&model)).remove(0);
            assert_eq!(found.culprit.setting.as_deref(), Some("vm.dirty_ratio"));
            (found.remedy[0].command.clone(), found.remedy[0].undo.clone())
        };
        let set = |ratio: u64| format!("sysctl -w vm.dirty_ratio={ratio}");
        assert_eq!(told(Some("20")), (set(40), set(20)));
        assert_eq!(told(Some("60")), (set(80), set(60)), "never less than it is");
        for none in [Some("90"), None] {
            assert_eq!(told(none), (String::new(), String::new()), "{none:?}");
        }
    }

    #[test]
    fn no_pause_and_few_dirty_pages_refute_it() {
        assert!(find(&Measures::of_observed(&model(0.1, MIB, [99, 1]))).is_empty());
    }
}
