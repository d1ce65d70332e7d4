//! net.backlog_full: packets come to a CPU faster than it handles them, and its queue of them is full.
//!
//! Two witnesses: the kernel's reason for each packet that it dropped (CPU_BACKLOG), and the CPU's own count (softnet_stat, second
//! column). Packets wait there between the interrupt and the protocols only where a CPU hands them to another (RPS), or to a device made of software
//! (veth, loopback, tunnels); an adapter's own ring is another thing.
//!
//! Must not: blame a ring, or a CPU that merely works (cpu.softirq). Rejected: time_squeeze (a busy CPU that drops nothing).

use crate::facts::DroppedFlow;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::net::cpu_backlog::{COUNTED, Full, MAX, flow_name, full, losing_or_concerned};
use crate::rules::net::dropped_packets::{
    DROPS, LOST_ONE, NOTICED, SERIOUS, losers, main_flow, matched,
};
use crate::rules::net::ways_out::pause;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

/// Part of the packets that is dropped, from which a longer queue fills as well.
static OVERLOAD: Threshold = Threshold::new(
    0.2,
    "1",
    "part of the packets that is dropped, from which more come than the CPU handles, and to slow the sender is the first way out: a \
     longer queue bears bursts, and fills as well",
    "lab, seeds 1-3: 0.03 of bursts, 0.6 of a flood, of which a queue of 1,000 brought nothing back",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.backlog_full",
    title: "A CPU's queue of packets is full, and drops them",
    theory: "A packet that comes in is put into a queue of the CPU that is to handle it, of at most net.core.netdev_max_backlog packets. A \
             CPU that is busy, or a burst that is longer than the queue, fills it, and each further packet is dropped, whoever sent \
             it. TCP sends it again after 200 ms at the earliest; who asks by UDP waits until it gives up.",
    needs: &[
        "packets were dropped for want of room in a CPU's queue (CPU_BACKLOG), ten a second or more",
        "the CPUs' own counts of dropped packets grew by as much",
    ],
    refuted_by: &[
        Refutation::new("the CPUs count no drops", "what_no_cpu_counts_is_no_full_queue"),
        Refutation::new("the drops are few", "a_drop_now_and_then_is_nothing"),
        Refutation::new(
            "one CPU has no time left for them while another is idle",
            "a_cpu_that_is_alone_with_the_packets_has_no_short_queue",
        ),
        Refutation::new(
            "nobody waits, and nearly all packets get through",
            "a_few_of_many_packets_are_a_note_at_most",
        ),
    ],
    remedies: &[
        "a longer queue (net.core.netdev_max_backlog)",
        "slow whoever floods",
        "spread the packets over more CPUs (RPS)",
    ],
    stories: &["S2.1"],
    thresholds: &[&DROPS, &COUNTED, &SERIOUS, &OVERLOAD, &LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let Some(full) = full(measures).filter(|full| full.alone.is_none()) else {
        return Vec::new();
    };
    let Some(losing) = losing_or_concerned(measures, ends, &full) else { return Vec::new() };
    let part = full.part();
    let room = measures.model.net.sysctls.get(MAX).map_or("", String::as_str);
    let by = Culprit::setting(format!("netdev_max_backlog {room}").trim().to_string(), MAX);
    let waits = losers(measures, ends, &losing);
    let wording = wording(measures, &full, part, waits);
    let new = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    matched(measures, ends, new, &losing, full.places[0], part).into_iter().collect()
}

fn wording(measures: &Measures<'_>, full: &Full<'_>, part: f64, waits: Option<String>) -> Wording {
    let model = measures.model;
    let cpu = full.cpu.as_ref().map_or(String::new(), |it| format!(" of CPU {}", it.cpu));
    let room = model.net.sysctls.get(MAX).and_then(|value| value.parse::<u64>().ok());
    let holds = room.map_or(String::new(), |room| {
        format!(" of {}", words::count(room as usize, "packet", "packets"))
    });
    let main = main_flow(&full.places);
    let whose = main.map_or(String::new(), |(flow, part)| {
        format!(" {} of them are {}.", words::percent(part), flow_name(flow))
    });
    let dropped = words::thousands(full.dropped as f64);
    let at = &full.places[0].interface;
    let title = match waits {
        Some(waits) => format!(
            "{waits}, but the queue of packets{cpu} is full and drops them: {dropped} packets, most on {at}"
        ),
        None => format!(
            "the queue of packets{cpu} is full: {dropped} packets that came in by {at} were dropped"
        ),
    };
    let mut evidence = vec![
        Evidence::new("packets dropped: CPU_BACKLOG", full.dropped as f64, "1", "kfree_skb"),
        Evidence::new(
            "packets that CPUs count as dropped",
            full.counted as f64,
            "1",
            "/proc/net/softnet_stat",
        ),
        Evidence::new(
            "packets that CPUs handled",
            full.handled as f64,
            "1",
            "/proc/net/softnet_stat",
        ),
    ];
    evidence.extend(
        room.map(|room| Evidence::new("room in the queue of each CPU", room as f64, "1", MAX)),
    );
    Wording {
        title,
        text: format!(
            "{} of the packets that the CPUs were to handle found no room in their queue{holds} and are lost.{whose} The queue is the \
             same for all that come in there, so it hits others too.",
            words::percent(part),
        ),
        evidence,
        remedy: remedies(room, main, part),
    }
}

fn remedies(room: Option<u64>, main: Option<(&DroppedFlow, f64)>, part: f64) -> Vec<Remedy> {
    /// As it is set by default, which holds a burst of an adapter's whole ring.
    const USUAL: u64 = 1_000;
    let longer = room.map(|room| {
        let raised = room.saturating_mul(2).max(USUAL);
        let set = |value: u64| format!("sysctl -w {MAX}={value}");
        Remedy::to(format!("a longer queue, of {raised} packets, bears longer bursts")).set(
            Action::sysctl(MAX, raised, room),
            set(raised),
            set(room),
        )
    });
    let sender = main.and_then(|(flow, _)| flow.sender.as_ref());
    let mut all: Vec<Remedy> = longer.into_iter().chain(sender.map(pause)).collect();
    if part >= OVERLOAD.value {
        all.reverse();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::cpu_backlog::REASON;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact, thread};

    const CODE: &str = "net.backlog_full";

    /// So many packets of a flood were dropped, counted, and handled.
    fn flooded(dropped_packets: u64, counted: u64, handled: u64) -> Vec<Fact> {
        let mut drops = dropped(REASON, "udp", "10.0.0.1:7000", "10.0.0.2:9", dropped_packets);
        if let Body::PacketDrops(drops) = &mut drops.body {
            drops.flows[0].sender = Some(thread(30, "flood"));
        }
        let room = Sysctl { name: MAX.into(), value: "5".into() };
        let mut facts = vec![drops, fact(Body::Sysctl(room))];
        facts.extend(counters(&[
            ("softnet.dropped", 7, 7 + counted),
            ("softnet.dropped.cpu0", 7, 7),
            ("softnet.dropped.cpu1", 0, counted),
            ("softnet.processed", 100, 100 + handled),
            ("softnet.processed.cpu1", 50, 50 + handled),
        ]));
        facts
    }

    #[test]
    fn a_queue_that_is_full_is_said_with_who_fills_it() {
        let found = findings(flooded(485, 485, 4_000));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "netdev_max_backlog 5"));
        assert_eq!(
            found[0].title,
            "the queue of packets of CPU 1 is full: 485 packets that came in by eth0 were dropped"
        );
        assert!(found[0].text.contains("sent by flood 30"), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, format!("sysctl -w {MAX}=1000"));
        assert_eq!(found[0].remedy[0].undo, format!("sysctl -w {MAX}=5"));
        assert_eq!(found[0].remedy[1].command, "kill -STOP 30");
    }

    #[test]
    fn who_waits_for_a_packet_that_was_dropped_loses_to_it() {
        let mut facts = flooded(485, 485, 4_000);
        let asked = inet("udp", 500, "10.0.0.1:7001", "10.0.0.2:5000", 1);
        facts.push(wait(30, "asker", "recvfrom", asked, 0, 48));
        facts.push(look_at(TargetKind::Process, 30));
        facts.push(dropped(REASON, "udp", "10.0.0.1:7001", "10.0.0.2:5000", 3));
        let found = findings(facts);
        assert_eq!((found.len(), &*found[0].code), (1, CODE), "{found:?}");
        assert_eq!(found[0].victims[0].pid, 30);
        assert!(found[0].title.starts_with("asker waits for an answer of 10.0.0.2:5000, but"));
    }

    #[test]
    fn where_more_comes_than_is_handled_its_sender_is_the_first_way_out() {
        let found = findings(flooded(4_850, 4_850, 4_000));
        assert_eq!(found[0].remedy[0].command, "kill -STOP 30");
        assert_eq!(found[0].remedy.len(), 2);
    }

    #[test]
    fn a_cpu_that_is_alone_with_the_packets_has_no_short_queue() {
        let busy = |softirq_share: f64| {
            let mut facts = flooded(4_850, 4_850, 4_000);
            for (cpu, softirq, idle) in [(0, 0.0, 0.9), (1, softirq_share, 0.0)] {
                for part in [0.0, LOOK_NS as f64] {
                    let (softirq_ns, idle_ns) = ((part * softirq) as u64, (part * idle) as u64);
                    let sample = CpuSample { cpu, softirq_ns, idle_ns, ..CpuSample::default() };
                    facts.push(Fact { at_ns: part as u64, body: Body::CpuSample(sample) });
                }
            }
            codes(facts)
        };
        assert_eq!(busy(0.6), [CODE]);
        assert_eq!(busy(0.95), ["net.one_receive_cpu"]);
    }

    #[test]
    fn what_no_cpu_counts_is_no_full_queue() {
        assert!(codes(flooded(485, 0, 4_000)).is_empty());
    }

    #[test]
    fn a_drop_now_and_then_is_nothing() {
        assert!(codes(flooded(20, 20, 20)).is_empty());
    }

    #[test]
    fn a_few_of_many_packets_are_a_note_at_most() {
        assert!(codes(flooded(485, 485, 400_000)).is_empty());
    }
}
