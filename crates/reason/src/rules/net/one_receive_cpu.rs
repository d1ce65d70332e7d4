//! net.one_receive_cpu: one CPU handles nearly all packets that come in, has no time left for more, and drops them while others are idle.
//!
//! Witnesses: the CPU's own counts (softnet_stat: handled, dropped), its time in interrupts and that of the others (/proc/stat), and the kernel's reason
//! for each packet that it dropped. A flow stays on one CPU so that its packets keep their order: of one flow there is nothing to spread, and that
//! is said. Several flows are spread by RPS, where the interface takes them by one queue.
//!
//! Must not: fire where all CPUs are busy (nothing is won by spreading), or where the CPU has time left (a burst: backlog_full.rs). Rejected: a CPU that is
//! full and drops nothing (who runs there loses, and is told by cpu.interrupts).

use crate::facts::{DroppedFlow, ReceiveSteering};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::cpu_backlog::{
    Alone, BUSY, COUNTED, Full, IDLE, MOST, OfCpu, flow_name, full, losing_or_concerned,
};
use crate::rules::net::dropped_packets::{
    DROPS, LOST_ONE, NOTICED, SERIOUS, losers, main_flow, matched,
};
use crate::rules::net::ways_out::{pause, sysfs_in};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

/// Part of what was dropped that is one flow's.
static ONE_FLOW: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the dropped packets that is one flow's, from which spreading flows would change nothing",
    "chosen: four of five",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.one_receive_cpu",
    title: "One CPU handles all packets that come in, and has no time left",
    theory: "Packets of one receive queue are handled on one CPU: the one that its interrupt, or a mask of RPS, chose. If they are more than that CPU \
             handles, its queue fills and the rest is dropped, however idle the other CPUs are. RPS hands flows on to other CPUs, each \
             flow to one, by a hash of its addresses, so that its packets keep their order: a single flow cannot be spread.",
    needs: &[
        "interrupts take nine tenths of one CPU, which handles four fifths of all packets and drops four fifths of those that are dropped",
        "packets were dropped for want of room in a CPU's queue (CPU_BACKLOG), ten a second or more",
        "another CPU is idle for a quarter of the time",
    ],
    refuted_by: &[
        Refutation::new("the CPU has time left", "a_cpu_with_time_left_has_a_short_queue"),
        Refutation::new("no other CPU is idle", "where_all_cpus_are_busy_nothing_can_be_spread"),
        Refutation::new(
            "others handle packets too",
            "packets_that_are_spread_already_are_too_many",
        ),
    ],
    remedies: &[
        "spread the flows over more CPUs by RPS (rps_cpus), or by more queues of the adapter (ethtool -L)",
        "of a single flow: send less, or larger packets",
    ],
    stories: &["S2.1"],
    thresholds: &[&BUSY, &MOST, &IDLE, &ONE_FLOW, &DROPS, &COUNTED, &SERIOUS, &LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let Some((full, alone)) = full(measures).and_then(|full| full.with_alone()) else {
        return Vec::new();
    };
    let Some(losing) = losing_or_concerned(measures, ends, &full) else { return Vec::new() };
    let (part, place) = (full.part(), full.places[0]);
    let waits = losers(measures, ends, &losing);
    let wording = wording(measures, &full, &alone, waits);
    let by = Culprit::device(place.interface.clone());
    let new = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    matched(measures, ends, new, &losing, place, part).into_iter().collect()
}

/// The flow that nearly all of it is, if it is one.
fn one_flow<'m>(full: &Full<'m>) -> Option<&'m DroppedFlow> {
    let (flow, part) = main_flow(&full.places)?;
    (part >= ONE_FLOW.value).then_some(flow)
}

fn wording(
    measures: &Measures<'_>,
    full: &Full<'_>,
    alone: &Alone,
    waits: Option<String>,
) -> Wording {
    let Alone { cpu: OfCpu { cpu, dropped, handled }, busy, idle, .. } = alone;
    let at = &full.places[0].interface;
    let lost = words::thousands(full.dropped as f64);
    let so = format!(
        "CPU {cpu} alone handles the packets that come in by {at}, and has no time left: {lost} were dropped"
    );
    let spread = match one_flow(full) {
        Some(flow) => format!(
            "Nearly all of them are one flow, {}: a flow stays on one CPU, so that its packets keep their order, and cannot be spread.",
            flow_name(flow)
        ),
        None => format!(
            "They are of several flows, which other CPUs could take: all that comes would keep {} CPUs busy, and {} have the time.",
            words::rate(wanted(full, alone)),
            words::rate(alone.busy + alone.idle_all),
        ),
    };
    let handled_part = *handled as f64 / full.handled.max(1) as f64;
    Wording {
        title: match waits {
            Some(waits) => format!("{waits}, but {so}"),
            None => so,
        },
        text: format!(
            "CPU {cpu} handles {} of all packets; interrupts take {} of its time, while CPU {} is idle for {} of it. {} of the packets found no room \
             in its queue. {spread}",
            words::percent(handled_part),
            words::percent(*busy),
            idle.0,
            words::percent(idle.1),
            words::percent(full.part()),
        ),
        evidence: vec![
            Evidence::new("packets dropped: CPU_BACKLOG", full.dropped as f64, "1", "kfree_skb"),
            Evidence::new(
                format!("packets that CPU {cpu} counts as dropped"),
                *dropped as f64,
                "1",
                "/proc/net/softnet_stat",
            ),
            Evidence::new(
                format!("of all packets, handled by CPU {cpu}"),
                handled_part * 100.0,
                "%",
                "/proc/net/softnet_stat",
            ),
            Evidence::new(
                format!("of CPU {cpu}, taken by interrupts"),
                busy * 100.0,
                "%",
                "/proc/stat irq, softirq",
            ),
            Evidence::new(
                format!("CPU {} is idle", idle.0),
                idle.1 * 100.0,
                "%",
                "/proc/stat idle",
            ),
        ],
        remedy: remedies(measures, full, alone),
    }
}

/// The CPUs online that packets may be handled on: those that are isolated are left alone.
fn others(measures: &Measures<'_>) -> Vec<u32> {
    let host = &measures.model.look.host;
    let mut online: Vec<u32> = measures.cpu.busy.keys().copied().collect();
    if online.is_empty() {
        online.extend(0..host.cpus);
    }
    online.retain(|cpu| !host.is_isolated(*cpu));
    online
}

/// A mask of CPUs, as the kernel writes it: hexadecimal, in pieces of 32 bits.
fn mask(cpus: &[u32]) -> String {
    const PIECE: u32 = 32;
    let most = cpus.iter().max().map_or(0, |cpu| cpu / PIECE);
    let pieces = (0..=most).rev().map(|piece| {
        let here = cpus.iter().filter(|cpu| **cpu / PIECE == piece);
        let bits = here.fold(0_u32, |bits, cpu| bits | 1 << (cpu % PIECE));
        match piece == most {
            true => format!("{bits:x}"),
            false => format!("{bits:08x}"),
        }
    });
    pieces.collect::<Vec<_>>().join(",")
}

/// CPUs that it would take to handle all that comes, as quickly as the one does.
fn wanted(full: &Full<'_>, alone: &Alone) -> f64 {
    alone.busy / (1.0 - full.part()).max(1e-9)
}

fn remedies(measures: &Measures<'_>, full: &Full<'_>, alone: &Alone) -> Vec<Remedy> {
    let (model, place) = (measures.model, full.places[0]);
    let sender = main_flow(&full.places).and_then(|(flow, _)| flow.sender.as_ref());
    if one_flow(full).is_some() {
        let mut all: Vec<Remedy> = sender.map(pause).into_iter().collect();
        all.push(Remedy::to(
            "send less, or larger packets: what a packet costs hardly grows with it",
        ));
        return all;
    }
    let known = &model.net.drop_causes.steering;
    let steering = known.iter().find(|it| (it.netns, it.index) == (place.netns, place.index));
    let name = words::shell(&place.interface);
    let spread = "spread the flows over all CPUs (RPS)";
    let mut all = Vec::new();
    match steering {
        Some(ReceiveSteering { masks, folder, .. }) if masks.len() == 1 && !folder.is_empty() => {
            let path = format!("{folder}/rx-0/rps_cpus");
            let new = mask(&others(measures));
            all.push(Remedy::to(spread).write(&path, new, &masks[0]));
        }
        _ => {
            let command = format!("grep . /sys/class/net/{name}/queues/rx-*/rps_cpus");
            let within = sysfs_in(model, place.netns, &command);
            all.push(Remedy {
                text: format!("{spread}: see which CPUs its queues use"),
                command: within.to_string(),
                action: Some(Action::look(Question::State).through(within.through.as_ref())),
                ..Remedy::default()
            });
        }
    }
    // Spread over all, it would still be too much.
    let less =
        Remedy::to("let less come: fewer and larger packets, or a limit at whoever sends them");
    let at = if wanted(full, alone) > alone.busy + alone.idle_all { 0 } else { all.len() };
    all.insert(at, sender.map_or(less, pause));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::cpu_backlog::REASON;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact, thread};

    const CODE: &str = "net.one_receive_cpu";

    /// CPU 1 handles so many of 100,000 packets and spends so much of its time on it, while CPU 0 is idle for so much; floods drop 40,000.
    fn flooded(handled: u64, busy: f64, idle: f64, flows: u64) -> Vec<Fact> {
        let mut facts = Vec::new();
        for at in 0..flows {
            let from = format!("10.0.0.1:{}", 7_000 + at);
            let mut drops = dropped(REASON, "udp", &from, "10.0.0.2:9", 40_000 / flows);
            if let Body::PacketDrops(drops) = &mut drops.body {
                drops.flows[0].sender = Some(thread(30, "flood"));
            }
            facts.push(drops);
        }
        facts.extend(counters(&[
            ("softnet.dropped", 0, 40_000),
            ("softnet.dropped.cpu0", 0, 0),
            ("softnet.dropped.cpu1", 0, 40_000),
            ("softnet.processed", 0, 100_000),
            ("softnet.processed.cpu0", 0, 100_000 - handled),
            ("softnet.processed.cpu1", 0, handled),
        ]));
        for (cpu, softirq, idle) in [(0, 0.0, idle), (1, busy, 0.0)] {
            for (at_ns, part) in [(0, 0.0), (LOOK_NS, LOOK_NS as f64)] {
                let of = |share: f64| (part * share) as u64;
                let (softirq_ns, idle_ns) = (of(softirq), of(idle));
                let sample = CpuSample { cpu, softirq_ns, idle_ns, ..CpuSample::default() };
                facts.push(Fact { at_ns, body: Body::CpuSample(sample) });
            }
        }
        facts.push(fact(Body::Host(Host { cpus: 2, ..Host::default() })));
        let (interface, masks) = ("eth0".into(), vec!["2".into()]);
        let folder = "/sys/class/net/eth0/queues".into();
        let steering = ReceiveSteering { netns: 1, interface, index: 2, masks, folder };
        facts.push(fact(Body::ReceiveSteering(steering)));
        facts
    }

    #[test]
    fn one_cpu_that_drops_what_others_could_handle_is_named_with_the_mask_that_spreads_it() {
        let found = findings(flooded(98_000, 0.97, 0.6, 4));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "eth0"));
        assert_eq!(
            found[0].title,
            "CPU 1 alone handles the packets that come in by eth0, and has no time left: 40,000 were dropped"
        );
        assert!(found[0].text.contains("CPU 0 is idle for 60 % of it"), "{}", found[0].text);
        let path = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
        assert_eq!(found[0].remedy[0].command, format!("echo 3 > {path}"));
        assert_eq!(found[0].remedy[0].undo, format!("echo 2 > {path}"));
    }

    #[test]
    fn what_all_cpus_together_could_not_handle_is_to_be_less() {
        let mut facts = flooded(98_000, 0.97, 0.6, 4);
        for fact in &mut facts {
            match &mut fact.body {
                Body::PacketDrops(drops) => drops.packets *= 10,
                Body::NetCounters(it) => it
                    .counters
                    .iter_mut()
                    .filter(|(name, _)| name.starts_with("softnet.dropped"))
                    .for_each(|(_, count)| *count *= 10),
                _ => {}
            }
        }
        let found = findings(facts);
        assert!(found[0].text.ends_with("busy, and 1.57 have the time."), "{}", found[0].text);
        assert!(found[0].remedy[0].text.starts_with("let less come"), "{:?}", found[0].remedy);
        assert!(found[0].remedy[1].command.starts_with("echo 3"), "{:?}", found[0].remedy);
    }

    #[test]
    fn a_single_flow_is_said_not_to_spread() {
        let found = findings(flooded(98_000, 0.97, 0.6, 1));
        assert_eq!(found[0].code, CODE);
        assert!(found[0].text.ends_with("keep their order, and cannot be spread."));
        assert_eq!(found[0].remedy[0].command, "kill -STOP 30");
        assert!(found[0].remedy.iter().all(|way| !way.command.contains("rps_cpus")));
    }

    #[test]
    fn a_cpu_with_time_left_has_a_short_queue() {
        assert_eq!(codes(flooded(98_000, 0.7, 0.6, 4)), ["net.backlog_full"]);
    }

    #[test]
    fn where_all_cpus_are_busy_nothing_can_be_spread() {
        assert_eq!(codes(flooded(98_000, 0.97, 0.1, 4)), ["net.backlog_full"]);
    }

    #[test]
    fn packets_that_are_spread_already_are_too_many() {
        assert_eq!(codes(flooded(60_000, 0.97, 0.6, 4)), ["net.backlog_full"]);
    }

    #[test]
    fn a_mask_is_written_in_pieces_of_32_cpus() {
        assert_eq!(
            (mask(&[0, 1]), mask(&Vec::from_iter(0..32)), mask(&[1, 2, 39])),
            ("3".into(), "ffffffff".into(), "80,00000006".into())
        );
    }
}
