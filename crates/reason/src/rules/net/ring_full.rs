//! net.ring_full: an adapter finds no free descriptor for packets that come in, and drops them before the kernel sees them.
//!
//! The adapter's own count (rx_missed_errors; drivers that count it elsewhere use rx_fifo_errors) and, from its driver, how many
//! descriptors there are and could be. No packet of it is ever seen here, so nobody can be named who waits for one: it is said of the host.
//!
//! Must not: blame a ring that is as long as it can be (whoever empties it is too slow then), or a device made of software, which has
//! none. Rejected: rx_dropped (the kernel's own refusals), rx_errors (a bad cable).

use crate::facts::{Channels, Coalescing, Link, LinkSettings, Rings, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::action::Action;
use crate::rules::net::dropped_packets::{DROPS, SERIOUS};
use crate::rules::net::losses::of_measure;
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};

/// Counters of what found no descriptor. A driver that has both counts the same packets in them.
const LOST: [&str; 2] = ["rx_missed_errors", "rx_fifo_errors"];
const RECEIVED: &str = "rx_packets";

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.ring_full",
    title: "An adapter has no room for packets that come in, and drops them",
    theory: "An adapter puts each packet into memory that a descriptor of its receive ring points to. The CPU that handles its interrupt \
             empties the ring; if a burst is longer than the ring, or that CPU comes too late, the adapter has nowhere to put a packet \
             and drops it. No socket and no filter of this host ever sees it, and TCP sends it again; a datagram is gone.",
    needs: &[
        "the adapter counts packets that found no room (rx_missed_errors, rx_fifo_errors), ten a second or more",
        "its driver says how long the ring is",
    ],
    refuted_by: &[
        Refutation::new("the device is made of software", "a_device_made_of_software_has_no_ring"),
        Refutation::new("the losses are few", "a_loss_now_and_then_is_nothing"),
        Refutation::new("the ring's length is not known", "without_a_ring_nothing_is_said_of_it"),
        Refutation::new("nearly all packets get through", "a_few_of_many_packets_are_a_note"),
    ],
    remedies: &[
        "a longer ring (ethtool -G)",
        "more queues, each with a CPU of its own (ethtool -L)",
        "let the kernel join packets of a stream before it handles them (rx-gro)",
    ],
    stories: &["S2.1"],
    thresholds: &[&DROPS, &SERIOUS],
    finds: Finds::Look(find),
};

/// An adapter that lost packets.
#[derive(Clone, Copy)]
struct Full<'m> {
    link: &'m Link,
    settings: &'m LinkSettings,
    rings: Rings,
    counter: &'static str,
    lost: u64,
    received: u64,
}

impl Full<'_> {
    /// Part of what came in.
    fn part(&self) -> f64 {
        self.lost as f64 / (self.lost + self.received).max(1) as f64
    }
}

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    // Whose packets they were nobody can know: only of a host everybody is concerned.
    if !measures.concerns(&ThreadRef::default()) {
        return Vec::new();
    }
    let settings = measures.model.net.settings.values();
    settings.filter_map(|it| Some(matched(measures, full(measures, it)?))).collect()
}

fn full<'m>(measures: &'m Measures<'m>, settings: &'m LinkSettings) -> Option<Full<'m>> {
    let rings = settings.rings.filter(|rings| rings.rx > 0)?;
    let is_it = |link: &&Link| (link.netns, link.index) == (settings.netns, settings.index);
    let mut readings = measures.model.net.links.iter().filter(is_it);
    let first = readings.next()?;
    let link = readings.next_back()?;
    let growth =
        |name: &str| Some(link.counters.get(name)?.saturating_sub(*first.counters.get(name)?));
    let counted = LOST.iter().filter_map(|name| Some((growth(name)?, *name)));
    let (lost, counter) = counted.max_by_key(|(lost, _)| *lost)?;
    let is_hardware = link.kind.is_empty();
    let rate = lost as f64 / measures.wall_seconds().max(1e-9);
    (is_hardware && rate >= DROPS.value).then_some(Full {
        link,
        settings,
        rings,
        counter,
        lost,
        received: growth(RECEIVED).unwrap_or(0),
    })
}

fn matched<'m>(measures: &'m Measures<'m>, full: Full<'m>) -> Match<'m> {
    let Rings { rx, .. } = full.rings;
    let name = &full.link.name;
    let by = Culprit::setting(
        format!("receive ring of {rx} of {name}"),
        format!("ethtool -g {}", words::shell(name)),
    );
    let object = Object::PacketQueue {
        netns: full.link.netns,
        interface: name.as_str().into(),
        handle: "".into(),
    };
    let matched = Match::new(by, Proof::Read, move |_| wording(measures.model, &full));
    let mut matched = of_measure(measures, matched, object, Losses::new(), None);
    if full.part() >= SERIOUS.value {
        matched.severity_min = Severity::Warning;
        matched.severity_max = matched.severity_max.max(Severity::Warning);
    }
    matched
}

fn wording(model: &Model, full: &Full<'_>) -> Wording {
    let Rings { rx, rx_max, .. } = full.rings;
    let name = &full.link.name;
    let room = words::count(rx as usize, "descriptor", "descriptors");
    let lost = words::thousands(full.lost as f64);
    let longest = match rx < rx_max {
        true => format!("It could have {rx_max}."),
        false => "It cannot have more, so that whoever empties it comes too late.".to_string(),
    };
    Wording {
        title: format!(
            "{name} has no room for packets that come in: {lost} were dropped by the adapter"
        ),
        text: format!(
            "{} of what came to {name} found none of its {room} free and is lost before this host sees it. {longest} TCP sends \
             it again; a datagram is gone.",
            words::percent(full.part()),
        ),
        evidence: evidence(full),
        remedy: remedy(model, full),
    }
}

fn evidence(full: &Full<'_>) -> Vec<Evidence> {
    let Rings { rx, rx_max, .. } = full.rings;
    let ring = "ethtool: rings";
    let mut evidence = vec![
        Evidence::new(
            format!("packets that {} counts as lost: {}", full.link.name, full.counter),
            full.lost as f64,
            "1",
            "rtnetlink IFLA_STATS64",
        ),
        Evidence::new("packets that came in", full.received as f64, "1", "rtnetlink IFLA_STATS64"),
        Evidence::new("descriptors of the receive ring", f64::from(rx), "1", ring),
        Evidence::new("descriptors that it could have", f64::from(rx_max), "1", ring),
    ];
    if let Some(Coalescing { rx_us: Some(us), .. }) = full.settings.coalescing {
        let said = "time that its interrupt may wait for more packets";
        evidence.push(Evidence::new(said, f64::from(us), "us", "ethtool: coalescing"));
    }
    if let Some(pause) = full.settings.pause {
        let asks = f64::from(u8::from(pause.tx));
        let said = "it asks its sender to pause (1) or not (0)";
        evidence.push(Evidence::new(said, asks, "1", "ethtool: pause"));
    }
    evidence
}

fn remedy(model: &Model, full: &Full<'_>) -> Vec<Remedy> {
    let (netns, name) = (full.link.netns, &full.link.name);
    let ethtool = command_in(model, netns, "ethtool");
    let device = words::shell(name);
    let by = |text: String, set: String, undo: String| {
        let action = Action::ethtool(netns, name, &set, &undo).through(ethtool.through.as_ref());
        Remedy::to(text).set(action, format!("{ethtool} {set}"), format!("{ethtool} {undo}"))
    };
    let mut remedy = Vec::new();
    let Rings { rx, rx_max, .. } = full.rings;
    if rx < rx_max {
        let longer = rx.saturating_mul(2).min(rx_max);
        let set = |rx: u32| format!("-G {device} rx {rx}");
        let text = format!(
            "a ring of {longer} bears longer bursts; many drivers take the link down for a second while it is set"
        );
        remedy.push(by(text, set(longer), set(rx)));
    }
    // More queues than CPUs spread nothing.
    let most = |channels: &Channels| channels.combined_max.min(model.look.host.cpus);
    if let Some(channels) = full.settings.channels
        && (1..most(&channels)).contains(&channels.combined)
    {
        let set = |count: u32| format!("-L {device} combined {count}");
        let more = channels.combined.saturating_mul(2).min(most(&channels));
        let text =
            format!("{more} queues spread the streams over as many CPUs; one stream stays on one");
        remedy.push(by(text, set(more), set(channels.combined)));
    }
    if full.settings.features.get("rx-gro") == Some(&false) {
        let set = |on: &str| format!("-K {device} gro {on}");
        let text = "let the kernel join the packets of a stream, so that each costs its CPU less";
        remedy.push(by(text.into(), set("on"), set("off")));
    }
    remedy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact};

    const CODE: &str = "net.ring_full";

    fn link(kind: &str, lost: u64, received: u64, at_ns: u64) -> Fact {
        let counters =
            [("rx_missed_errors", lost), ("rx_fifo_errors", 0), ("rx_packets", received)];
        let link = Link {
            netns: 1,
            index: 2,
            name: "eth0".into(),
            kind: kind.into(),
            counters: counters.map(|(name, value)| (name.to_string(), value)).into(),
            ..Link::default()
        };
        Fact { at_ns, body: Body::Link(link) }
    }

    /// An adapter whose ring has so many descriptors of at most 4096.
    fn adapter(kind: &str, lost: u64, received: u64, rx: u32) -> Vec<Fact> {
        adapter_of(4, kind, lost, received, rx)
    }

    /// The same in a host of so many CPUs.
    fn adapter_of(cpus: u32, kind: &str, lost: u64, received: u64, rx: u32) -> Vec<Fact> {
        let settings = LinkSettings {
            netns: 1,
            interface: "eth0".into(),
            index: 2,
            rings: Some(Rings { rx, rx_max: 4_096, ..Rings::default() }),
            channels: Some(Channels { combined: 2, combined_max: 4, ..Channels::default() }),
            coalescing: Some(Coalescing { rx_us: Some(50), ..Coalescing::default() }),
            features: [("rx-gro".to_string(), false)].into(),
            ..LinkSettings::default()
        };
        vec![
            fact(Body::Host(Host { cpus, ..Host::default() })),
            link(kind, 7, 100, 0),
            link(kind, 7 + lost, 100 + received, LOOK_NS),
            fact(Body::LinkSettings(settings)),
        ]
    }

    #[test]
    fn a_ring_that_could_be_longer_is_made_so_and_back() {
        let found = findings(adapter("", 1_000, 9_000, 256));
        assert_eq!(
            (&*found[0].code, &*found[0].culprit.name),
            (CODE, "receive ring of 256 of eth0")
        );
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(
            found[0].title,
            "eth0 has no room for packets that come in: 1,000 were dropped by the adapter"
        );
        assert!(found[0].text.starts_with("10 % of what came to eth0"), "{}", found[0].text);
        let commands: Vec<&str> = found[0].remedy.iter().map(|it| &*it.command).collect();
        assert_eq!(
            commands,
            ["ethtool -G eth0 rx 512", "ethtool -L eth0 combined 4", "ethtool -K eth0 gro on"]
        );
        assert_eq!(found[0].remedy[0].undo, "ethtool -G eth0 rx 256");
        assert!(found[0].evidence.iter().any(|it| it.unit == "us" && it.value == 50.0));
    }

    #[test]
    fn a_ring_that_is_as_long_as_can_be_is_not_to_be_made_longer() {
        let found = findings(adapter("", 1_000, 9_000, 4_096));
        assert!(found[0].text.contains("whoever empties it comes too late"), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "ethtool -L eth0 combined 4");
    }

    #[test]
    fn more_queues_than_cpus_are_no_way_out() {
        let found = findings(adapter_of(2, "", 1_000, 9_000, 256));
        let commands: Vec<&str> = found[0].remedy.iter().map(|it| &*it.command).collect();
        assert_eq!(commands, ["ethtool -G eth0 rx 512", "ethtool -K eth0 gro on"]);
    }

    #[test]
    fn a_device_made_of_software_has_no_ring() {
        assert!(findings(adapter("veth", 1_000, 9_000, 256)).is_empty());
    }

    #[test]
    fn a_loss_now_and_then_is_nothing() {
        assert!(findings(adapter("", 20, 20, 256)).is_empty());
    }

    #[test]
    fn without_a_ring_nothing_is_said_of_it() {
        assert!(findings(adapter("", 1_000, 9_000, 0)).is_empty());
    }

    #[test]
    fn a_few_of_many_packets_are_a_note() {
        assert!(codes(adapter("", 1_000, 900_000, 256)).is_empty());
        assert_eq!(findings(adapter("", 1_000, 900_000, 256))[0].severity, Severity::Note);
    }

    #[test]
    fn of_a_process_it_is_not_said() {
        let mut facts = adapter("", 1_000, 9_000, 256);
        facts.push(look_at(TargetKind::Process, 30));
        assert!(findings(facts).is_empty());
    }
}
