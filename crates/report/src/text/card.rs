//! The container's card as text: one labelled line for each resource, with its limit beside it.
//!
//! What was not read is left out; what is zero is said where a reader would ask (throttling under a quota, hits of a limit).
//! Must not: judge, which is the findings'.

use super::escape;
use super::page::{Page, Tone};
use holdup_reason::answer::{Card, CardCpu, CardDisk, CardMemory};
use holdup_reason::model::figures;

/// Columns of a name.
const NAME: usize = 40;
/// Columns of a pod with its namespace.
const POD: usize = 60;

/// The card.
pub(crate) fn render(card: &Card, window_seconds: f64, page: &mut Page) {
    let kind = match (card.runtime.as_str(), card.pod.as_deref()) {
        ("" | "cgroup", None) => String::new(),
        (runtime, None) => format!(" ({})", escape::name(runtime, NAME)),
        (runtime, Some(_)) => format!(" ({})", escape::name(runtime, NAME)),
    };
    // A pod's own card has its whole name, one of a container in it what is before the last slash.
    let name = match card.pod.as_deref() {
        Some(pod) if card.runtime == "kubernetes" => format!("pod {}", escape::name(pod, POD)),
        Some(pod) => format!("{}/{}", escape::name(pod, POD), escape::name(&card.name, NAME)),
        None => escape::name(&card.name, NAME),
    };
    page.verdict(&format!("What {name}{kind} used"), Tone::Heading);
    let mut line = |label: &str, parts: Vec<Option<String>>| {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            page.labelled(label, &parts.join("; "));
        }
    };
    line("cpu", cpu(&card.cpu, window_seconds));
    line("memory", memory(card));
    for disk in &card.disks {
        line("disk", vec![Some(disk_line(disk))]);
    }
    for it in &card.interfaces {
        let dropped = match it.dropped_packets {
            0 => String::new(),
            dropped => format!(", {} dropped", figures::count(dropped)),
        };
        let text = format!(
            "{}: {} in {} packets received, {} in {} packets sent{dropped}",
            escape::name(&it.name, NAME),
            figures::bytes(it.received_bytes as f64),
            figures::count(it.received_packets),
            figures::bytes(it.sent_bytes as f64),
            figures::count(it.sent_packets),
        );
        line("net", vec![Some(text)]);
    }
    if card.own_network == Some(false) {
        line("net", vec![Some("the host's own".into())]);
    }
    if let Some(stalls) = &card.pressure {
        let text = format!(
            "some of it stood still {} for a CPU, {} for memory, {} for I/O",
            figures::seconds(stalls.cpu_seconds),
            figures::seconds(stalls.memory_seconds),
            figures::seconds(stalls.io_seconds),
        );
        line("stalls", vec![Some(text)]);
    }
    if let Some(pids) = card.pids {
        let limit = card.pids_limit.map(|limit| format!(" of {}", figures::count(limit)));
        let text = format!(
            "{} {}{}",
            figures::count(pids),
            if pids == 1 { "process or thread" } else { "processes and threads" },
            limit.unwrap_or_else(|| ", no limit".into())
        );
        line("tasks", vec![Some(text)]);
    }
}

fn cpu(cpu: &CardCpu, window_seconds: f64) -> Vec<Option<String>> {
    let used = cpu.used_seconds.map(|used| {
        let cpus = used / window_seconds.max(1e-9);
        let quota = match (cpu.quota_cpus, &cpu.quota_group) {
            (Some(quota), Some(group)) => {
                format!(" of a quota of {quota:.2} (cgroup {})", escape::name(group, NAME))
            }
            _ => ", no quota".into(),
        };
        format!(
            "{} in {}: {cpus:.2} CPUs{quota}",
            figures::seconds(used),
            figures::seconds(window_seconds)
        )
    });
    let throttled = cpu.throttled_periods.zip(cpu.periods).filter(|(_, periods)| *periods > 0);
    let throttled = throttled.map(|(throttled, periods)| {
        let time = cpu.throttled_seconds.filter(|time| *time > 0.0);
        let summed = |time| format!(", {} summed over CPUs", figures::seconds(time));
        let time = time.map_or_else(String::new, summed);
        format!("throttled in {throttled} of {periods} periods{time}")
    });
    vec![used, throttled]
}

fn memory(card: &Card) -> Vec<Option<String>> {
    let memory = &card.memory;
    let bytes = |bytes: u64| figures::bytes(bytes as f64);
    let used = memory.used_bytes.map(|used| match (memory.limit_bytes, &memory.limit_group) {
        (Some(limit), Some(group)) => {
            format!("{} of {} (cgroup {})", bytes(used), bytes(limit), escape::name(group, NAME))
        }
        _ => format!("{}, no limit", bytes(used)),
    });
    let cache = memory.cache_bytes.map(|cache| {
        let shared = memory.shared_bytes.filter(|shared| *shared > 0);
        let shared = shared.map(|it| format!(" (of it {} shared memory)", bytes(it)));
        format!("{} page cache{}", bytes(cache), shared.unwrap_or_default())
    });
    let some = |value: Option<u64>| value.filter(|value| *value > 0);
    let [limit, high] = limits_met(card);
    vec![
        used,
        memory.anon_bytes.map(|anon| format!("{} anonymous", bytes(anon))),
        cache,
        memory.working_set_bytes.map(|set| format!("working set {}", bytes(set))),
        memory.peak_bytes.map(|peak| format!("at most {} so far", bytes(peak))),
        some(memory.swap_bytes).map(|swap| format!("{} in swap", bytes(swap))),
        limit,
        high,
        some(memory.killed).map(|killed| format!("{} processes killed", figures::count(killed))),
        some(memory.refault_bytes)
            .map(|it| format!("{} read again after being dropped", bytes(it))),
        some(memory.major_faults).map(|it| format!("{} major faults", figures::count(it))),
    ]
}

/// How often its limit of memory was met, which is counted at the group that sets it, and how often it was over memory.high.
fn limits_met(card: &Card) -> [Option<String>; 2] {
    let CardMemory { limit_group, met, high_bytes, .. } = &card.memory;
    let limit = match limit_group {
        Some(group) if !card.cgroups.contains(group) => {
            let hits = met.limit_group_hits;
            hits.map(|hits| format!("that limit was met {} times", figures::count(hits)))
        }
        Some(_) => {
            met.limit_hits.map(|hits| format!("met its limit {} times", figures::count(hits)))
        }
        None => None,
    };
    let high = met.high_hits.zip(*high_bytes).map(|(hits, high)| {
        let high = figures::bytes(high as f64);
        format!("over its memory.high of {high} {} times", figures::count(hits))
    });
    [limit, high]
}

fn disk_line(disk: &CardDisk) -> String {
    let mut text = format!(
        "{}: {} reads ({}), {} writes ({})",
        escape::name(&disk.name, NAME),
        figures::count(disk.reads),
        figures::bytes(disk.read_bytes as f64),
        figures::count(disk.writes),
        figures::bytes(disk.written_bytes as f64),
    );
    if disk.by_events {
        text.push_str(", as its processes were seen to ask");
    }
    for (kind, limit) in &disk.limits {
        let what = kind.split('_').next().unwrap_or_default();
        let limit = match kind.ends_with("_bps") {
            true => format!("{}/s", figures::bytes(*limit as f64)),
            false => format!("{}/s", figures::count(*limit)),
        };
        text.push_str(&format!("; {} limit {limit}", escape::name(what, NAME)));
    }
    text
}
