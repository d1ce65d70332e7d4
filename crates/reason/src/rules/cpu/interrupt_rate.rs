//! How often an adapter interrupts the CPU that interrupts take, how many packets come with each, and the setting that makes it rarer.
//!
//! Counts of /proc/interrupts, by the adapter's own interrupts; packets of IFLA_STATS64; when the adapter may wait, from its driver. It adds to
//! interrupts.rs, which has proved that threads lose by it. Rejected: a code of its own, which would name the same adapter for the same
//! lost seconds twice. Where each interrupt brings many packets, rarer ones win nothing, and nothing is added.
//!
//! Must not: judge an adapter that adapts by itself, or one whose name two namespaces have. Edit together: probe/src/readers/softirqs.rs.

use crate::facts::{Coalescing, Link, SoftirqSample};
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::net::ways_out::command_in;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::threshold::Threshold;

/// Interrupts of one adapter on one CPU.
pub(super) static RATE_MIN: Threshold = Threshold::new(
    10_000.0,
    "1/s",
    "interrupts of one adapter on one CPU, from which on what each costs by itself counts",
    "drivers that limit them by default allow 8,000 a second (one in 125 us)",
);
/// Packets for each of them.
pub(super) static PACKETS_MAX: Threshold = Threshold::new(
    4.0,
    "1",
    "packets, both ways, for each interrupt of an adapter: with more, most of the cost is the packets'",
    "chosen: a poll may take 64 (NAPI_POLL_WEIGHT)",
);
/// Time that an adapter may wait for more packets.
pub(super) static WAIT_US: Threshold = Threshold::new(
    125.0,
    "us",
    "time that an interrupt may wait for more packets, at most 8,000 a second of one queue; who waits longer already gets no more of it",
    "the usual limit of drivers",
);

/// What an adapter does to one CPU.
struct Rate<'m> {
    link: &'m Link,
    cpu: u32,
    interrupts: f64,
    packets_each: f64,
    coalescing: Coalescing,
}

/// Says it of the interface that most packets come by, and of the CPU that interrupts take most of.
pub(super) fn add(measures: &Measures<'_>, link: &Link, cpu: u32, wording: &mut Wording) {
    let Some(rate) = rate(measures, link, cpu) else { return };
    let Rate { interrupts, packets_each, .. } = rate;
    let name = &link.name;
    wording.text.push_str(&format!(
        " {name} interrupts CPU {cpu} {} times a second, with {packets_each:.1} packets each.",
        words::thousands(interrupts),
    ));
    wording.evidence.extend([
        Evidence::new(
            format!("interrupts of {name} on CPU {cpu}"),
            interrupts,
            "1/s",
            "/proc/interrupts",
        ),
        Evidence::new(
            format!("packets for each interrupt of {name}"),
            packets_each,
            "1",
            "IFLA_STATS64, /proc/interrupts",
        ),
    ]);
    if let Some(us) = rate.coalescing.rx_us {
        let said = "time that its interrupt may wait for more packets";
        wording.evidence.push(Evidence::new(said, f64::from(us), "us", "ethtool: coalescing"));
    }
    if let Some(remedy) = remedy(measures, &rate) {
        wording.remedy.insert(0, remedy);
    }
}

fn rate<'m>(measures: &Measures<'_>, link: &'m Link, cpu: u32) -> Option<Rate<'m>> {
    let net = &measures.model.net;
    let is_it = |other: &&Link| (other.netns, other.index) == (link.netns, link.index);
    // The interrupts are told by the interface's name alone.
    let has_namesake = net.links.iter().any(|it| it.name == link.name && !is_it(&it));
    if !link.kind.is_empty() || has_namesake {
        return None;
    }
    let seconds = measures.model.look.seconds().max(1e-9);
    let on = |cpu: &u32| {
        let series = measures.model.cpu.softirqs.get(cpu)?;
        let count = |at: Option<&SoftirqSample>| Some(*at?.adapters.get(&link.name)? as u32);
        // The kernel prints 32 bits.
        Some(f64::from(count(series.last())?.wrapping_sub(count(series.first())?)))
    };
    let all: f64 = measures.model.cpu.softirqs.keys().filter_map(on).sum();
    let interrupts = on(&cpu)? / seconds;
    let mut readings = net.links.iter().filter(is_it);
    let (first, last) = (readings.next()?, readings.next_back()?);
    let packets = |name: &str| {
        let at = |link: &Link| link.counters.get(name).copied().unwrap_or(0);
        at(last).saturating_sub(at(first)) as f64
    };
    let packets_each = (packets("rx_packets") + packets("tx_packets")) / all.max(1.0);
    let settings = net.settings.get(&(link.netns, link.index));
    let coalescing = settings.and_then(|it| it.coalescing).unwrap_or_default();
    let is_hot = interrupts >= RATE_MIN.value && packets_each <= PACKETS_MAX.value;
    is_hot.then_some(Rate { link, cpu, interrupts, packets_each, coalescing })
}

/// A longer wait, unless the driver finds it by itself or it is as long already.
fn remedy(measures: &Measures<'_>, rate: &Rate<'_>) -> Option<Remedy> {
    let us = rate.coalescing.rx_us?;
    if rate.coalescing.adaptive_rx == Some(true) || f64::from(us) >= WAIT_US.value {
        return None;
    }
    let Link { netns, name, .. } = rate.link;
    let ethtool = command_in(measures.model, *netns, "ethtool");
    let set = |us: f64| format!("-C {} rx-usecs {us}", words::shell(name));
    let (new, undo) = (set(WAIT_US.value), set(f64::from(us)));
    let action = Action::ethtool(*netns, name, &new, &undo).through(ethtool.through.as_ref());
    let text = format!(
        "fewer interrupts of CPU {}: let {name} wait up to {} us for more packets, which each answer may then take longer; some virtual \
         adapters refuse it",
        rate.cpu, WAIT_US.value,
    );
    Some(Remedy::to(text).set(action, format!("{ethtool} {new}"), format!("{ethtool} {undo}")))
}
