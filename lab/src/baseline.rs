//! What a user would read off the counters today, on the same trials and over the same look: the
//! resource with the highest utilisation, the largest pressure, the disk with the longest await,
//! and the kernel function in which threads were seen longest off the CPU (uninterruptible ones: with
//! idle sleeps it would always name a daemon). The fifth, the knot of the wait graph, is in `wait_graph_baseline.rs`. The busiest
//! process, which `top` shows first, is seen too, and compared by the field, whose truths name processes. `holdup-lab watch` is the
//! same for whoever is not this program.
//!
//! None of them names a culprit, so they are compared by area only (`disk.` of `disk.journal`): the
//! kindest rule for them. On a healthy host a baseline that passes its usual threshold is an alarm.
//! Rejected: stacks by a tracer (it would load the very host that holdup is looking at).

use crate::procfs;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What each rule says: its name, and an area, or nothing.
pub type Sayings = Vec<(String, Option<String>)>;

/// What was seen over one look.
#[derive(Debug, Default)]
pub struct Watched {
    /// What the rules say.
    pub sayings: Sayings,
    /// Share of all CPUs that the hypervisor took, 0 to 1: steal in /proc/stat.
    pub stolen: f64,
    /// Who used most CPU time, if that was more than a tenth of a CPU.
    pub busiest: Option<(i32, String)>,
}

/// What `top` would not show in its first line: less than this part of one CPU.
const BUSY: f64 = 0.1;
/// Between two samples.
const SAMPLE: Duration = Duration::from_millis(200);
/// The CPU times of processes are read at each of so many samples: who ends in between is seen up to then.
const SAMPLES_OF_CPU: u32 = 3;

/// What the sampler saw: wait channels of uninterruptible threads, and CPU times.
#[derive(Default)]
struct Seen {
    channels: BTreeMap<String, u32>,
    cpu: BTreeMap<(i32, String), u64>,
}

/// Counters at one instant.
struct Counters {
    at: Instant,
    /// Busy and all ticks of all CPUs.
    cpu: (f64, f64),
    /// Ticks that the hypervisor took.
    stolen: f64,
    /// By disk: requests, milliseconds of requests, milliseconds busy.
    disks: BTreeMap<String, (f64, f64, f64)>,
    /// Microseconds that some tasks waited, by resource.
    pressure: BTreeMap<&'static str, f64>,
}

impl Counters {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = text("/proc/stat");
        let ticks: Vec<f64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .filter_map(|w| w.parse().ok())
            .collect();
        let all: f64 = ticks.iter().take(8).sum();
        let idle = ticks.get(3).unwrap_or(&0.0) + ticks.get(4).unwrap_or(&0.0);
        let stolen = ticks.get(7).copied().unwrap_or(0.0);
        let mut disks = BTreeMap::new();
        for line in text("/proc/diskstats").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number =
                |at: usize| words.get(at).and_then(|w| w.parse::<f64>().ok()).unwrap_or(0.0);
            if let Some(name) = words.get(2) {
                disks.insert(
                    (*name).into(),
                    (number(3) + number(7), number(6) + number(10), number(12)),
                );
            }
        }
        let mut pressure = BTreeMap::new();
        for resource in ["cpu", "io", "memory"] {
            let some = text(&format!("/proc/pressure/{resource}"));
            let total = some
                .lines()
                .next()
                .and_then(|l| l.rsplit_once("total="))
                .and_then(|(_, t)| t.parse().ok());
            pressure.insert(resource, total.unwrap_or(0.0));
        }
        Self { at: Instant::now(), cpu: (all - idle, all), stolen, disks, pressure }
    }
}

/// A watch over the look; ask it when the look is over.
pub struct Watch {
    begin: Counters,
    stop: Arc<AtomicBool>,
    sampler: JoinHandle<Seen>,
    cpu: BTreeMap<(i32, String), u64>,
}

impl Watch {
    /// Begins.
    pub fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sampler = std::thread::spawn(move || {
            let mut seen = Seen::default();
            for turn in 1.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                for channel in procfs::uninterruptible() {
                    *seen.channels.entry(channel).or_default() += 1;
                }
                if turn % SAMPLES_OF_CPU == 0 {
                    seen.cpu.extend(procfs::cpu_of_processes());
                }
                std::thread::sleep(SAMPLE);
            }
            seen
        });
        Self { begin: Counters::read(), stop, sampler, cpu: procfs::cpu_of_processes() }
    }

    /// Ends, and says what was seen.
    pub fn end(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        let end = Counters::read();
        let Seen { channels, cpu: mut used } = self.sampler.join().unwrap_or_default();
        used.extend(procfs::cpu_of_processes());
        let seconds = end.at.duration_since(self.begin.at).as_secs_f64().max(0.001);
        let ticks = (end.cpu.1 - self.begin.cpu.1).max(1.0);
        let cpu = (end.cpu.0 - self.begin.cpu.0) / ticks;
        let stolen = (end.stolen - self.begin.stolen) / ticks;
        let mut busiest = 0.0_f64;
        let mut slowest = 0.0_f64;
        for (name, now) in &end.disks {
            let before = self.begin.disks.get(name).copied().unwrap_or_default();
            busiest = busiest.max((now.2 - before.2) / 1000.0 / seconds);
            if now.0 - before.0 >= 5.0 {
                slowest = slowest.max((now.1 - before.1) / (now.0 - before.0));
            }
        }
        let pressure = end.pressure.iter().map(|(resource, now)| {
            (*resource, (now - self.begin.pressure.get(resource).unwrap_or(&0.0)) / 1e6 / seconds)
        });
        let largest = pressure.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > 0.1);
        let longest =
            channels.iter().max_by_key(|(_, count)| **count).filter(|(_, count)| **count >= 5);
        let longest = longest.and_then(|(channel, _)| area_of_channel(channel));
        let sayings = [
            ("highest utilisation", utilisation(cpu, busiest)),
            ("largest pressure", largest.and_then(|(resource, _)| area_of_pressure(resource))),
            ("longest await", (slowest > 10.0).then_some("disk")),
            ("longest off-CPU stack", longest),
        ];
        let sayings = sayings.map(|(rule, area)| (rule.into(), area.map(String::from))).into();
        Watched { sayings, stolen, busiest: busiest_process(used, &self.cpu, seconds) }
    }
}

/// Who used most; neither holdup, nor who watches, nor who has it watch.
fn busiest_process(
    used: BTreeMap<(i32, String), u64>,
    before: &BTreeMap<(i32, String), u64>,
    seconds: f64,
) -> Option<(i32, String)> {
    let own = [nix::unistd::getpid().as_raw(), nix::unistd::getppid().as_raw()];
    let is_other = |who: &(i32, String)| who.1 != "holdup" && !own.contains(&who.0);
    let since = used.into_iter().filter(|(who, _)| is_other(who)).map(|(who, ticks)| {
        let before = before.get(&who).copied().unwrap_or(0);
        (who, ticks.saturating_sub(before))
    });
    let (who, ticks) = since.max_by_key(|(_, ticks)| *ticks)?;
    let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    (ticks as f64 / hertz as f64 / seconds >= BUSY).then_some(who)
}

/// The usual 80 % rule.
fn utilisation(cpu: f64, disk: f64) -> Option<&'static str> {
    match (cpu, disk) {
        _ if cpu.max(disk) < 0.8 => None,
        _ if cpu >= disk => Some("cpu"),
        _ => Some("disk"),
    }
}

fn area_of_pressure(resource: &str) -> Option<&'static str> {
    match resource {
        "cpu" => Some("cpu"),
        "io" => Some("disk"),
        "memory" => Some("memory"),
        _ => None,
    }
}

/// The area that the function's name suggests to somebody who knows the kernel.
fn area_of_channel(channel: &str) -> Option<&'static str> {
    let areas: [(&[&str], &str); 6] = [
        (&["dirty", "reclaim", "mem_cgroup", "compact"], "memory"),
        (&["fuse", "request_wait", "percpu_rwsem"], "fs"),
        (&["refrigerator", "signal_stop", "kernel_clone", "pipe"], "process"),
        (&["futex", "mutex", "flock", "rwsem"], "lock"),
        (&["sk_", "tcp", "inet", "unix"], "net"),
        (&["folio", "dio", "jbd2", "io_schedule", "blk", "wbt", "buffer"], "disk"),
    ];
    areas.iter().find(|(words, _)| words.iter().any(|w| channel.contains(w))).map(|(_, area)| *area)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_areas() {
        assert_eq!(utilisation(0.5, 0.99), Some("disk"));
        assert_eq!(utilisation(0.5, 0.6), None);
        assert_eq!(area_of_channel("balance_dirty_pages"), Some("memory"));
        assert_eq!(area_of_channel("folio_wait_bit_common"), Some("disk"));
        assert_eq!(area_of_channel("do_wait"), None);
    }

    #[test]
    fn the_busiest_process_is_whoever_used_most_since() {
        let of = |pairs: &[(i32, &str, u64)]| {
            pairs.iter().map(|(pid, name, ticks)| ((*pid, (*name).into()), *ticks)).collect()
        };
        let before = of(&[(900_001, "old", 5_000), (900_002, "job", 10)]);
        let after = of(&[(900_001, "old", 5_001), (900_002, "job", 110), (900_003, "holdup", 900)]);
        assert_eq!(busiest_process(after, &before, 1.0), Some((900_002, "job".into())));
        assert_eq!(busiest_process(of(&[(900_001, "old", 5_001)]), &before, 1.0), None);
    }

    #[test]
    fn a_watch_on_this_host_ends() {
        let watch = Watch::begin();
        std::thread::sleep(Duration::from_millis(50));
        let watched = watch.end();
        assert_eq!(watched.sayings.len(), 4);
        assert!((0.0..=1.0).contains(&watched.stolen));
    }
}
