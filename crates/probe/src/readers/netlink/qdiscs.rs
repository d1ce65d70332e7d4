//! Queueing disciplines and classes: asked for by RTM_GETQDISC and RTM_GETTCLASS, parsed from what comes back.
//!
//! Any bytes may come in; fuzzed. Layouts: include/uapi/linux/{pkt_sched,gen_stats}.h. Must not: judge a rate or a backlog.
//! Edit together: filters.rs, which steer into them.

use super::Place;
use super::attributes::*;
use super::exchange::dump;
use super::filters::{Filter, filter};
use super::handles::{Header, TCA_KIND, TCA_OPTIONS, handle, parse_handle, request};
use super::links::links;
use holdup_reason::facts::{Netem, QdiscSample};
use std::collections::BTreeSet;
use std::io;

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;

/// Length of a psched tick, the unit of a token bucket's buffer: nanoseconds.
const PSCHED_TICK_NS: u64 = 64;

/// Kinds of qdiscs whose classes have rates and counters of their own.
const CLASSFUL: [&str; 6] = ["htb", "hfsc", "drr", "qfq", "ets", "cbq"];

/// Kinds that filters hang on.
const FILTERED: [&str; 9] =
    ["htb", "hfsc", "drr", "qfq", "ets", "cbq", "prio", "ingress", "clsact"];

/// All qdiscs and classes of a namespace, with the filters that steer into them if those are wanted.
pub fn qdiscs(
    place: &mut Place,
    buffer: &mut Vec<u8>,
    filters: bool,
) -> io::Result<Vec<QdiscSample>> {
    let mut found = Vec::new();
    dump(&place.socket, RTM_GETQDISC, &request(0, 0), buffer, |message| {
        found.extend(qdisc(message, false));
    })?;
    let with = |kinds: &[&str], found: &[QdiscSample]| -> BTreeSet<(u32, String)> {
        let of_kind = found.iter().filter(|qdisc| kinds.contains(&&*qdisc.kind));
        of_kind.map(|qdisc| (qdisc.index, qdisc.handle.clone())).collect()
    };
    let classful: BTreeSet<u32> = with(&CLASSFUL, &found).into_iter().map(|(i, _)| i).collect();
    let filtered = if filters { with(&FILTERED, &found) } else { BTreeSet::new() };
    for index in classful {
        dump(&place.socket, RTM_GETTCLASS, &request(index, 0), buffer, |message| {
            found.extend(qdisc(message, true));
        })?;
    }
    if found.iter().any(|qdisc| !place.interfaces.contains_key(&qdisc.index)) {
        links(place, buffer)?;
    }
    for (index, handle) in filtered {
        let Some(parent) = parse_handle(&handle) else { continue };
        let mut all = Vec::new();
        // An interface or a qdisc may go away meanwhile.
        let _ = dump(&place.socket, RTM_GETTFILTER, &request(index, parent), buffer, |message| {
            all.extend(filter(message));
        });
        all.into_iter().for_each(|filter| attach(filter, &mut found));
    }
    for sample in &mut found {
        sample.netns = place.namespace.netns;
        let Some(interface) = place.interfaces.get(&sample.index) else { continue };
        sample.interface.clone_from(&interface.name);
        if sample.kind == "pfifo_fast" {
            sample.limit = Some(interface.queue_length.into());
        }
    }
    Ok(found)
}

/// Writes a filter down at the class it steers into, at the qdisc that stands for that class
/// (prio), or else at the qdisc that it hangs on.
fn attach(filter: Filter, found: &mut [QdiscSample]) {
    let here = |qdisc: &&mut QdiscSample| qdisc.index == filter.index;
    let steered = |qdisc: &QdiscSample| {
        let class = filter.class.as_ref();
        class == Some(&qdisc.handle) || (!qdisc.class && class == Some(&qdisc.parent))
    };
    let mut candidates: Vec<&mut QdiscSample> = found.iter_mut().filter(here).collect();
    let place = candidates
        .iter()
        .position(|qdisc| qdisc.class && steered(qdisc))
        .or_else(|| candidates.iter().position(|qdisc| steered(qdisc)))
        .or_else(|| candidates.iter().position(|qdisc| qdisc.handle == filter.parent));
    if let Some(place) = place {
        candidates[place].filters.push(filter.text);
    }
}

/// A RTM_NEWQDISC or RTM_NEWTCLASS message behind its netlink header; namespace and interface name
/// are the caller's.
pub fn qdisc(message: &[u8], class: bool) -> Option<QdiscSample> {
    const TCA_STATS2: u16 = 7;
    const TCA_STATS_BASIC: u16 = 1;
    const TCA_STATS_QUEUE: u16 = 3;
    const TCA_STATS_PKT64: u16 = 8;
    let header = Header::parse(message)?;
    let found = attributes(message.get(Header::BYTES..)?);
    let stats = found.get(&TCA_STATS2).map(|stats| attributes(stats)).unwrap_or_default();
    let basic = stats.get(&TCA_STATS_BASIC).copied().unwrap_or_default();
    let queue = stats.get(&TCA_STATS_QUEUE).copied().unwrap_or_default();
    let queue = |place: usize| u32_at(queue, place * 4).map_or(0, u64::from);
    let wide = stats.get(&TCA_STATS_PKT64).and_then(|value| u64_at(value, 0));
    let mut sample = QdiscSample {
        index: header.index,
        kind: string(found.get(&TCA_KIND)?),
        handle: handle(header.handle),
        parent: handle(header.parent),
        class,
        bytes: u64_at(basic, 0).unwrap_or(0),
        packets: wide.or_else(|| u32_at(basic, 8).map(u64::from)).unwrap_or(0),
        backlog_packets: queue(0),
        backlog_bytes: queue(1),
        drops: queue(2),
        overlimits: queue(4),
        ..QdiscSample::default()
    };
    if let Some(options) = found.get(&TCA_OPTIONS) {
        read_options(options, &mut sample);
    }
    Some(sample)
}

/// Rate, bucket and limit of the kinds that have them.
fn read_options(options: &[u8], sample: &mut QdiscSample) {
    let nested = || attributes(options);
    let number = |kind| nested().get(&kind).and_then(|value| u32_at(value, 0)).map(u64::from);
    match sample.kind.as_str() {
        "tbf" => tbf(&nested(), sample),
        "htb" if sample.class => htb(&nested(), sample),
        "hfsc" if sample.class => {
            // Slope m2 of the upper limit, real-time and link-sharing curves.
            let slope =
                |kind| nested().get(&kind).and_then(|curve| u32_at(curve, 8)).map(u64::from);
            sample.rate_bytes = slope(3);
            sample.assured_rate_bytes = slope(1).or_else(|| slope(2));
        }
        "netem" => {
            sample.limit = u32_at(options, 4).map(u64::from);
            let behind = options.get(24..).map(attributes).unwrap_or_default();
            let wide = behind.get(&8).and_then(|value| u64_at(value, 0));
            let rate = wide.or_else(|| u32_at(behind.get(&6)?, 0).map(u64::from));
            // Without a rate the kernel gives one of zero.
            sample.rate_bytes = rate.filter(|rate| *rate > 0);
            sample.netem = netem(options, &behind);
        }
        "cake" => {
            let rate = nested().get(&2).and_then(|value| u64_at(value, 0));
            sample.rate_bytes = rate.filter(|rate| *rate > 0);
        }
        "pfifo" | "bfifo" | "pfifo_head_drop" => sample.limit = u32_at(options, 0).map(u64::from),
        "sfq" => sample.limit = u32_at(options, 8).map(u64::from),
        "fq" | "fq_pie" => sample.limit = number(1),
        "fq_codel" | "codel" | "pie" => sample.limit = number(2),
        _ => {}
    }
}

/// struct tc_netem_qopt (latency, limit, loss, gap, duplicate, jitter) and the attributes behind it.
fn netem(options: &[u8], behind: &Attributes<'_>) -> Option<Netem> {
    const TCA_NETEM_REORDER: u16 = 3;
    const TCA_NETEM_LOSS: u16 = 5;
    const TCA_NETEM_LATENCY64: u16 = 10;
    const TCA_NETEM_JITTER64: u16 = 11;
    let number = |place: usize| u32_at(options, place * 4);
    // The old fields count ticks and end at 275 s.
    let time = |wide: u16, ticks: Option<u32>| {
        let exact = behind.get(&wide).and_then(|value| u64_at(value, 0));
        exact.or_else(|| ticks.map(|ticks| u64::from(ticks) * PSCHED_TICK_NS))
    };
    let mut words = Vec::new();
    for (name, share) in [("loss", number(2)?), ("duplicate", number(4)?)] {
        if share > 0 {
            words.push(format!("{name} {}", percent(share)));
        }
    }
    let reorder = |gap| {
        let reorder = behind.get(&TCA_NETEM_REORDER)?;
        let (often, alike) = (u32_at(reorder, 0)?, u32_at(reorder, 4)?);
        Some(format!("reorder {} {} gap {gap}", percent(often), percent(alike)))
    };
    let gap = number(3).filter(|gap| *gap > 0);
    Some(Netem {
        delay_ns: time(TCA_NETEM_LATENCY64, number(0))?,
        jitter_ns: time(TCA_NETEM_JITTER64, number(5))?,
        reorder: gap.and_then(reorder).unwrap_or_default(),
        other: (!behind.contains_key(&TCA_NETEM_LOSS)).then(|| words.join(" ")),
    })
}

/// A share of `u32::MAX` as tc reads it back: no more digits than that needs.
pub(super) fn percent(share: u32) -> String {
    let value = f64::from(share) / f64::from(u32::MAX) * 100.0;
    let exact = |digits: &usize| {
        let text = format!("{value:.digits$}").parse::<f64>().unwrap_or(value);
        (text / 100.0 * f64::from(u32::MAX)).round() as u32 == share
    };
    let digits = (0..9).find(exact).unwrap_or(9);
    format!("{value:.digits$}%")
}

/// Where `rate` stands in struct tc_ratespec, and how long that is.
const RATESPEC: (usize, usize) = (8, 12);

fn tbf(options: &Attributes<'_>, sample: &mut QdiscSample) {
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_RATE64: u16 = 4;
    let Some(parms) = options.get(&TCA_TBF_PARMS) else { return };
    sample.rate_bytes = rate(options.get(&TCA_TBF_RATE64), parms, RATESPEC.0);
    sample.limit = u32_at(parms, 2 * RATESPEC.1).map(u64::from);
    // With a peak rate, or an overhead or a least length for each packet, `change` would forget those.
    let (overhead, least) = (u16_at(parms, 2), u16_at(parms, 6));
    let is_plain = u32_at(parms, RATESPEC.1 + RATESPEC.0) == Some(0)
        && (overhead, least) == (Some(0), Some(0));
    let burst = bucket(sample.rate_bytes, u32_at(parms, 2 * RATESPEC.1 + 4));
    sample.burst_bytes = burst.filter(|_| is_plain);
}

fn htb(options: &Attributes<'_>, sample: &mut QdiscSample) {
    const TCA_HTB_PARMS: u16 = 1;
    const TCA_HTB_RATE64: u16 = 6;
    const TCA_HTB_CEIL64: u16 = 7;
    let Some(parms) = options.get(&TCA_HTB_PARMS) else { return };
    sample.assured_rate_bytes = rate(options.get(&TCA_HTB_RATE64), parms, RATESPEC.0);
    sample.rate_bytes = rate(options.get(&TCA_HTB_CEIL64), parms, RATESPEC.1 + RATESPEC.0);
    // struct tc_htb_opt behind the two rates: buffer, cbuffer, quantum, level, prio.
    let number = |place: usize| u32_at(parms, 2 * RATESPEC.1 + 4 * place);
    sample.burst_bytes = bucket(sample.rate_bytes, number(1));
    let words = || {
        let burst = bucket(sample.assured_rate_bytes, number(0))?;
        let ceil_burst = sample.burst_bytes?;
        let (quantum, priority) = (number(2)?, number(4)?);
        Some(format!("burst {burst}b cburst {ceil_burst}b quantum {quantum} prio {priority}"))
    };
    sample.class_words = words().unwrap_or_default();
}

/// Rates of 4 GiB/s and more have an attribute of their own.
fn rate(wide: Option<&&[u8]>, parms: &[u8], offset: usize) -> Option<u64> {
    wide.and_then(|value| u64_at(value, 0)).or_else(|| u32_at(parms, offset).map(u64::from))
}

/// A bucket is reported as the time that it takes to fill.
fn bucket(rate_bytes: Option<u64>, ticks: Option<u32>) -> Option<u64> {
    let filled = u128::from(rate_bytes?) * u128::from(ticks?) * u128::from(PSCHED_TICK_NS);
    // Rounded: the kernel rounds down the time.
    u64::try_from((filled + 500_000_000) / 1_000_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_goes_where_it_steers() {
        let qdisc = |handle: &str, parent: &str, class| QdiscSample {
            index: 2,
            handle: handle.into(),
            parent: parent.into(),
            class,
            ..QdiscSample::default()
        };
        let mut found =
            [qdisc("1:", "root", false), qdisc("1:20", "1:", true), qdisc("20:", "1:20", false)];
        let filter = |class: Option<&str>| Filter {
            index: 2,
            parent: "1:".into(),
            class: class.map(Into::into),
            text: "x".into(),
        };
        attach(filter(Some("1:20")), &mut found);
        attach(filter(None), &mut found);
        assert_eq!(found.map(|qdisc| qdisc.filters.len()), [1, 1, 0]);
    }
}
