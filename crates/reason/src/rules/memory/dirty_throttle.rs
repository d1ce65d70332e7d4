//! memory.dirty_throttle: writers are paused because too many written pages wait for a disk.
//!
//! Pages in memory that must still be written are limited for the whole host (vm.dirty_*), so one slow disk can pause
//! writers to every other. The pause is asked for by the kernel and has its own tracepoint, which is the
//! second fact beside the wait. Must not: make a finding of each file system, because those that wait for one disk have
//! one reason. Rejected: blaming the limit always; it mostly only decides when a slow disk is felt.

use crate::facts::{DeviceNumber, DirtyPause, Disk};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_queue;
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::action::Action;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Claim, Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        "no_pause_and_few_dirty_pages_refute_it",
    )],
    remedies: &[
        "write less, or to a quicker disk",
        "raise the limit to ride out bursts; lower it to keep other writers from waiting behind them",
    ],
    stories: &["S3.6"],
    thresholds: &[&DISK_BUSY_MIN, &OTHER_BUSIER_MIN, &PAUSED_PART_MIN, &FILLED_PART_MIN],
    finds: Finds::Look(find),
};

static DISK_BUSY_MIN: Threshold = Threshold::new(
    0.3,
    "1",
    "a disk with less to do does not hold pages back: then the limit itself is what is small",
    "chosen; lab, seeds 1 and 4402: 1.00 of disks that hold writers back",
);
static OTHER_BUSIER_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "another disk is what the pages wait for if it is so many times busier than the writers' own",
    "chosen",
);
static PAUSED_PART_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "the pauses that the kernel asked for are at least this part of the waiting",
    "identity: a wait in balance_dirty_pages is such a pause; half, because pauses are counted when they end",
);
static FILLED_PART_MIN: Threshold = Threshold::new(
    0.4,
    "1",
    "dirty pages that reach this part of the limit are near it",
    "kernel: pausing begins at the mean of the background limit (half by default) and the limit; a file system's own part \
     may be smaller",
);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    // The limit is the host's: whatever file systems the paused writers write to, those that wait for one disk have one
    // reason.
    let mut by_drain: BTreeMap<DeviceNumber, Vec<usize>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        if end.class == WaitClass::DirtyThrottle
            && end.seconds > 0.0
            && let Some(disk) = drain(measures, end)
        {
            by_drain.entry(disk.dev).or_default().push(at);
        }
    }
    by_drain.iter().filter_map(|(dev, of)| matched(measures, ends, *dev, of)).collect()
}

/// The kernel's pauses of the victims.
fn pauses<'a>(measures: &'a Measures<'_>, end: &End) -> Vec<&'a DirtyPause> {
    let all = measures.model.memory.dirty_pauses.iter();
    all.filter(|pause| end.victims.contains_key(&pause.thread.pid)).collect()
}

fn busy(measures: &Measures<'_>, disk: &Disk) -> f64 {
    disk_queue::disk(measures.model, disk.dev).map_or(0.0, |queue| queue.busy)
}

/// Where the pages wait: the disk of the victims, unless it has time and another that is written to has
/// not.
fn drain<'a>(measures: &'a Measures<'_>, end: &End) -> Option<&'a Disk> {
    let model = measures.model;
    let most = pauses(measures, end).into_iter().max_by_key(|p| p.pause_ns).map(|p| p.dev);
    let own = model
        .disk
        .all
        .values()
        .find(|disk| Object::Disk(Some(disk.dev)) == end.object)
        .or_else(|| model.disk.of(most.filter(|dev| *dev != DeviceNumber::default())?));
    // Of a network file system or FUSE the pages wait for no disk of this host.
    let flusher = pauses(measures, end).into_iter().max_by_key(|it| it.pause_ns);
    let is_elsewhere = |name: &str| {
        let major = name.split_once(':').and_then(|(major, _)| major.parse::<u32>().ok());
        match major {
            Some(major) => major == 0 || name.contains("fuse"),
            None => !name.is_empty() && !name.starts_with("btrfs"),
        }
    };
    if own.is_none() && flusher.is_some_and(|it| is_elsewhere(&it.bdi)) {
        return None;
    }
    let is_written = |disk: &&Disk| {
        let series = model.disk.samples.get(&disk.dev);
        let ends = series.and_then(|series| Some((series.first()?, series.last()?)));
        ends.is_some_and(|(first, last)| last.1.write_bytes > first.1.write_bytes)
    };
    let busiest = model
        .disk
        .all
        .values()
        .filter(is_written)
        .map(|disk| (disk, busy(measures, disk)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match (own, busiest) {
        (Some(own), Some((other, its))) => {
            let far_busier = its > OTHER_BUSIER_MIN.value * busy(measures, own);
            // Another disk's pages count against the host's limit alone.
            let (filled, limit) = dirty(model);
            let is_hosts = is_near(filled, limit);
            let is_other = its >= DISK_BUSY_MIN.value && far_busier && is_hosts;
            Some(if is_other { other } else { own })
        }
        (Some(own), None) => Some(own),
        (None, other) => other.map(|(disk, _)| disk),
    }
}

/// Paused writers, and the disk that their pages wait for.
struct Paused<'m> {
    end: End,
    disk: &'m Disk,
    busy: f64,
    /// Bytes a second.
    takes: f64,
    /// The kernel's pauses, seconds.
    paused: f64,
    /// Dirty pages and pages under writeback, at most, bytes.
    filled: u64,
    /// The limit, bytes.
    limit: u64,
}

impl Paused<'_> {
    /// A disk with time to spare does not hold pages back: then the limit itself is too small.
    fn is_by_limit(&self) -> bool {
        self.busy < DISK_BUSY_MIN.value
    }

    /// Of cgroup v2 a group with a limit of memory has its part of the host's limit, and so has each file system.
    fn is_by_other_limit(&self) -> bool {
        self.is_by_limit() && !self.is_near()
    }

    fn is_asked_for(&self) -> bool {
        self.paused >= PAUSED_PART_MIN.value * self.end.seconds
    }

    fn is_near(&self) -> bool {
        is_near(self.filled, self.limit)
    }
}

/// Dirty pages and pages under writeback, at most, and the host's limit, bytes.
fn dirty(model: &Model) -> (u64, u64) {
    let samples = || model.memory.samples.iter().map(|(_, sample)| sample);
    let filled = samples().map(|it| it.dirty_bytes + it.writeback_bytes).max().unwrap_or(0);
    (filled, samples().next_back().map_or(0, |it| it.dirty_threshold_bytes))
}

fn is_near(filled: u64, limit: u64) -> bool {
    limit > 0 && filled as f64 >= FILLED_PART_MIN.value * limit as f64
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    drain: DeviceNumber,
    of: &[usize],
) -> Option<Match<'m>> {
    let model = measures.model;
    let end = End::merged(of.iter().map(|at| &ends[*at]))?;
    let disk = model.disk.of(drain)?;
    let (filled, limit) = dirty(model);
    let paused = Paused {
        disk,
        busy: busy(measures, disk),
        takes: disk_queue::disk(model, disk.dev).map_or(0.0, |queue| queue.bytes_per_second),
        paused: pauses(measures, &end).iter().map(|p| p.pause_ns as f64 / 1e9).sum(),
        filled,
        limit,
        end,
    };
    if !paused.is_asked_for() && !paused.is_near() {
        return None;
    }
    let setting = setting(measures);
    let culprit = if paused.is_by_other_limit() {
        let name = "dirty limit of its group or file system".into();
        Culprit { kind: CulpritKind::Setting, name, ..Culprit::default() }
    } else if paused.is_by_limit() {
        Culprit::setting("dirty limit", setting)
    } else {
        Culprit { setting: Some(setting), ..Culprit::device(disk.name.clone()) }
    };
    // The kernel says itself that it paused them; else the stacks and the counters agree.
    let proof = if paused.is_asked_for() { Proof::Read } else { Proof::TwoWitnesses };
    let explain = move |loss: &Loss<'_>| explain(measures, &paused, loss);
    Some(Match {
        claims: of.iter().map(|at| Claim { end: *at, victims: None }).collect(),
        ..Match::new(culprit, proof, explain).on(Object::Disk(Some(disk.dev)))
    })
}

/// The writer itself, where others wait for it.
fn writer(measures: &Measures<'_>, end: &End) -> String {
    let link = end.links.get(end.named);
    measures.process_name(link.map_or(end.first_victim(), |link| &link.who))
}

/// Why the pages stay.
fn reason(measures: &Measures<'_>, paused: &Paused<'_>) -> String {
    let name = &paused.disk.name;
    let (busy, takes) = (words::percent(paused.busy), words::bytes(paused.takes));
    if paused.is_by_other_limit() {
        return format!(
            "that is not met, and disk {name} is only {busy} busy: cgroup v2 gives each group with a limit of memory its part of it, and the \
             kernel each file system"
        );
    }
    if paused.is_by_limit() {
        return format!("disk {name} is only {busy} busy: the limit is what is small");
    }
    let own = match paused.end.object {
        Object::Disk(Some(dev)) => {
            measures.model.disk.of(dev).filter(|own| own.dev != paused.disk.dev)
        }
        _ => None,
    };
    if let Some(own) = own {
        let victim = writer(measures, &paused.end);
        return format!(
            "they wait for disk {name}, which takes {takes}/s and is {busy} busy, though {victim} writes to {}",
            own.name
        );
    }
    format!("disk {name} takes {takes}/s and is {busy} busy")
}

fn explain(measures: &Measures<'_>, paused: &Paused<'_>, loss: &Loss<'_>) -> Wording {
    let victim = writer(measures, &paused.end);
    let (name, limit) = (&paused.disk.name, words::bytes(paused.limit as f64));
    let of_limit =
        Evidence::new("dirty limit of the host", paused.limit as f64, "bytes", "/proc/vmstat");
    let filled = Evidence::new(
        "dirty and under writeback, at most",
        paused.filled as f64,
        "bytes",
        "/proc/vmstat",
    );
    let asked = Evidence::new(
        "pauses that the kernel asked for",
        paused.paused,
        "s",
        "balance_dirty_pages",
    );
    Wording {
        title: if paused.is_by_other_limit() {
            format!(
                "{victim} is paused at a limit of dirty memory that is below the host's: that of its group, or of its file system"
            )
        } else if paused.is_by_limit() {
            format!("{victim} is paused at the host's limit of {limit} dirty memory")
        } else {
            format!(
                "{victim} writes faster than disk {name} takes it, and is paused at the dirty limit"
            )
        },
        text: format!(
            "{} of the writers' time ({}) passes in pauses: up to {} wait in memory to be written, and the host's limit \
             is {limit} ({}); {}.",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, loss.wall_seconds),
            words::bytes(paused.filled as f64),
            setting(measures),
            reason(measures, paused),
        ),
        evidence: vec![
            of_limit,
            filled,
            asked,
            Evidence::new("waited in them", loss.seconds, "s", "sched_switch"),
            Evidence::new(format!("disk {name} busy"), paused.busy * 100.0, "%", "/proc/diskstats"),
            Evidence::new(format!("disk {name} takes"), paused.takes, "bytes/s", "/proc/diskstats"),
        ],
        remedy: vec![remedy(measures, paused)],
    }
}

/// The sysctl that is in force.
fn setting(measures: &Measures<'_>) -> String {
    let bytes = measures.model.net.sysctls.get("vm.dirty_bytes").map_or("0", String::as_str);
    if bytes == "0" { "vm.dirty_ratio" } else { "vm.dirty_bytes" }.to_string()
}

/// More dirty memory than this, in percent, leaves little for whoever needs memory at once.
const RATIO_MAX: u64 = 80;
/// The least that is offered instead of a ratio: twice the kernel's own.
const RATIO_OFFERED: u64 = 40;
/// What is offered instead of a limit in bytes, in times of it.
const MORE: u64 = 4;

fn remedy(measures: &Measures<'_>, paused: &Paused<'_>) -> Remedy {
    if paused.is_by_other_limit() {
        return Remedy::to(
            "raise memory.max or memory.high of the writer's group, or have it write less at a time",
        );
    }
    if !paused.is_by_limit() {
        // Who writes more than a disk takes meets a higher limit a little later, and is paused as before.
        return Remedy {
            text: "write less, or to a quicker disk; a higher limit only moves the pause, unless the writing is a burst \
                   that ends before it"
                .into(),
            ..Remedy::default()
        };
    }
    let setting = setting(measures);
    let old = measures.model.net.sysctls.get(&setting).cloned();
    let now = old.as_deref().and_then(|old| old.parse::<u64>().ok());
    let new = match now {
        _ if setting == "vm.dirty_bytes" => Some(paused.limit.saturating_mul(MORE)),
        Some(now) => {
            Some(now.saturating_mul(2).clamp(RATIO_OFFERED, RATIO_MAX)).filter(|new| *new > now)
        }
        None => None,
    };
    let set = |value: u64| format!("sysctl -w {setting}={value}");
    let action = new.zip(old.as_ref()).map(|(new, old)| Action::sysctl(&setting, new, old));
    Remedy {
        text: "let more wait in memory: the disk has time to write it".into(),
        command: new.map(set).unwrap_or_default(),
        undo: match (new, old) {
            (Some(_), Some(old)) => format!("sysctl -w {setting}={old}"),
            _ => String::new(),
        },
        action,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::{at_place, reads_from};

    const MIB: u64 = 1 << 20;
    const END: Ns = 5_000_000_000;

    fn dev(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 7, minor }
    }

    /// A writer to loop0, which is busy for so many ms of 100, beside loop1.
    fn scene(paused_seconds: f64, filled: u64, busy: [u64; 2]) -> Vec<Fact> {
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
        facts
    }

    fn found(paused_seconds: f64, filled: u64, busy: [u64; 2], more: Vec<Fact>) -> Vec<Finding> {
        let mut facts = scene(paused_seconds, filled, busy);
        facts.extend(more);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "memory.dirty_throttle");
        found
    }

    #[test]
    fn a_slow_disk_that_fills_the_limit_is_the_culprit() {
        let found = found(4.8, 15 * MIB, [99, 1], vec![]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "loop0");
        assert_eq!(found[0].evidence[0].value, (20 * MIB) as f64);
        assert!(found[0].remedy[0].command.is_empty(), "a higher limit fills as well");
    }

    #[test]
    fn a_writer_to_a_quick_disk_waits_for_the_slow_one() {
        let found = found(4.8, 15 * MIB, [5, 99], vec![]);
        assert_eq!(found[0].culprit.name, "loop1");
    }

    #[test]
    fn without_a_slow_disk_the_limit_is_too_small() {
        let offered = |ratio: Option<&str>| {
            let sysctl = ratio.map(|ratio| {
                let (name, value) = ("vm.dirty_ratio".into(), ratio.into());
                Fact { at_ns: 0, body: Body::Sysctl(Sysctl { name, value }) }
            });
            let found = found(4.8, 15 * MIB, [5, 1], sysctl.into_iter().collect()).remove(0);
            assert_eq!(found.culprit.setting.as_deref(), Some("vm.dirty_ratio"));
            (found.remedy[0].command.clone(), found.remedy[0].undo.clone())
        };
        let set = |ratio: u64| format!("sysctl -w vm.dirty_ratio={ratio}");
        assert_eq!(offered(Some("20")), (set(40), set(20)));
        assert_eq!(offered(Some("60")), (set(80), set(60)), "never less than it is");
        for none in [Some("90"), None] {
            assert_eq!(offered(none), (String::new(), String::new()), "{none:?}");
        }
    }

    #[test]
    fn a_limit_below_the_host_s_is_not_the_host_s() {
        let found = found(4.8, MIB, [5, 1], vec![]).remove(0);
        assert!(found.title.contains("below the host's"), "{}", found.title);
        assert!(found.text.contains("that is not met"), "{}", found.text);
        assert_eq!(found.remedy[0].command, "", "the host's is not to be raised");
    }

    #[test]
    fn the_pages_of_a_file_system_of_another_host_wait_for_no_disk_here() {
        let codes = |bdi: &str| {
            let mut facts = scene(4.8, 15 * MIB, [5, 99]);
            for fact in &mut facts {
                match &mut fact.body {
                    Body::DirtyPause(pause) => {
                        (pause.dev, pause.bdi) = (DeviceNumber::default(), bdi.into());
                    }
                    Body::Wait(wait) => wait.place.disk = None,
                    _ => {}
                }
            }
            explain(facts)
                .findings
                .into_iter()
                .filter(|it| it.code == "memory.dirty_throttle")
                .count()
        };
        assert_eq!(codes("btrfs-1"), 1);
        assert_eq!([codes("0:45"), codes("cifs-1"), codes("0:46-fuse")], [0; 3]);
    }

    #[test]
    fn no_pause_and_few_dirty_pages_refute_it() {
        assert_eq!(found(0.1, MIB, [99, 1], vec![]), []);
    }

    #[test]
    fn who_reads_from_that_disk_meanwhile_is_not_paused() {
        let reader = at_place(8, "report", reads_from(dev(0)));
        let found = found(4.8, 15 * MIB, [99, 1], vec![reader]);
        let victims: Vec<u32> = found[0].victims.iter().map(|victim| victim.pid).collect();
        assert_eq!(victims, [7]);
    }
}
