//! net.tap_full: a program that has a tun or tap device open does not read what is sent there, and the device drops it.
//!
//! Two witnesses: the kernel's reason for each packet (FULL_RING of a tun device), and the interface's own count of dropped packets.
//! Who is to read is whoever has the device open (fdinfo): a virtual machine, a VPN.
//!
//! Must not: blame the queue's length where its reader does not read. Rejected: full as such (it is full before the first is lost).

use crate::facts::{Link, PacketDrops, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_drops::of_reason;
use crate::model::words;
use crate::rules::net::dropped_packets::{
    DROPS, LOST_ONE, Losing, NOTICED, SERIOUS, losers, losing, matched, senders,
};
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

const REASON: &str = "FULL_RING";

/// Part of the packets that is read meanwhile.
static READS: Threshold = Threshold::new(
    0.01,
    "1",
    "packets read for each one dropped, from which the program reads on",
    "chosen, as for datagrams: one for each hundred",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.tap_full",
    title: "A tun or tap device drops what its program does not read",
    theory: "What is sent to a tun or tap device waits there, at most txqueuelen packets, until the program that has it open reads it: a \
             virtual machine, a VPN. When the queue is full each further packet is dropped without a word to whoever sent it, as on \
             a wire that is cut.",
    needs: &[
        "packets were dropped because the ring of a tun or tap device was full, ten a second or more",
        "the interface counts dropped packets as well",
    ],
    refuted_by: &[
        Refutation::new("it is another kind of device", "a_ring_of_another_device_is_no_tap"),
        Refutation::new(
            "the interface counts no drops",
            "drops_that_the_interface_does_not_count_are_anothers",
        ),
        Refutation::new("the drops are few", "a_drop_now_and_then_is_nothing"),
    ],
    remedies: &[
        "see what the program does instead of reading",
        "a longer queue only helps against bursts (txqueuelen)",
    ],
    stories: &["S2.10"],
    thresholds: &[&DROPS, &READS, &SERIOUS, &LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// A tap that is full.
struct Full<'m> {
    drops: &'m PacketDrops,
    link: &'m Link,
    /// What went out by the interface, to its program.
    read: u64,
    counted: u64,
    reader: Option<&'m ThreadRef>,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    of_reason(measures.model, REASON)
        .filter_map(|drops| one(measures, ends, full(measures, drops)?))
        .collect()
}

fn full<'m>(measures: &'m Measures<'m>, drops: &'m PacketDrops) -> Option<Full<'m>> {
    let model = measures.model;
    let is_it =
        |link: &&Link| link.netns == drops.netns && link.index == drops.index && link.kind == "tun";
    let mut readings = model.net.links.iter().filter(is_it);
    let first = readings.next()?;
    let link = readings.next_back()?;
    let growth =
        |name: &str| Some(link.counters.get(name)?.saturating_sub(*first.counters.get(name)?));
    let (counted, read) = (growth("tx_dropped")?, growth("tx_packets")?);
    let rate = drops.packets as f64 / measures.wall_seconds().max(1e-9);
    if rate < DROPS.value || counted == 0 {
        return None;
    }
    // The file may have been opened in another namespace than the one that the interface was moved to: who it is is known only if no
    // other interface has the name.
    let of_name =
        || model.net.drop_causes.tap_readers.iter().filter(|it| it.interface == drops.interface);
    let has_name = |it: &&Link| it.name == drops.interface && it.netns != drops.netns;
    let is_only = !model.net.links.iter().any(|it| has_name(&it)) && of_name().count() == 1;
    let elsewhere = || of_name().next().filter(|_| is_only);
    let within = of_name().find(|it| it.netns == drops.netns).or_else(elsewhere);
    let reader = within.map(|it| &it.process);
    Some(Full { drops, link, read, counted, reader })
}

fn one<'m>(measures: &'m Measures<'m>, ends: &'m [End], full: Full<'m>) -> Option<Match<'m>> {
    let losing: Vec<Losing<'m>> = losing(measures, ends, REASON)
        .into_iter()
        .filter(|it| it.dropped.iter().any(|one| std::ptr::eq(one.kind, full.drops)))
        .collect();
    // Of a host everybody is.
    let anybody = ThreadRef::default();
    let concerned = || {
        senders(&[full.drops]).chain(full.reader).chain([&anybody]).any(|it| measures.concerns(it))
    };
    if losing.is_empty() && !concerned() {
        return None;
    }
    let part = full.drops.packets as f64 / (full.drops.packets + full.read).max(1) as f64;
    let by = match full.reader {
        Some(reader) => culprit(measures.model, &whole(measures, reader)),
        None => Culprit::device(&*full.drops.interface),
    };
    let wording = wording(measures, ends, &full, &losing, part);
    let new = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    matched(measures, ends, new, &losing, full.drops, part)
}

/// With the time when it began, which who reads its descriptors does not know.
fn whole(measures: &Measures<'_>, reader: &ThreadRef) -> ThreadRef {
    let comm = reader.comm.clone();
    ThreadRef { comm, ..measures.model.threads.thread_ref(reader.pid) }
}

fn wording(
    measures: &Measures<'_>,
    ends: &[End],
    full: &Full<'_>,
    losing: &[Losing<'_>],
    part: f64,
) -> Wording {
    let tap = &full.drops.interface;
    let reader = full.reader.map(|it| whole(measures, it));
    let stopped = reader.as_ref().and_then(|it| stopped(measures, it));
    let reads_on = full.read as f64 >= READS.value * full.drops.packets as f64;
    let who = reader.as_ref().map_or("whoever has it open".to_string(), words::who);
    let does = match (stopped, reads_on) {
        (Some(stopped), _) => format!("{who} {stopped} and does not read {tap}"),
        (None, true) => format!("{who} does not read {tap} as fast as it is sent to"),
        (None, false) => format!("{who} does not read {tap}"),
    };
    let dropped = words::thousands(full.drops.packets as f64);
    let title = match losers(measures, ends, losing) {
        Some(waits) => format!("{waits}, but {does}, which drops it: {dropped} packets"),
        None => format!("{does}: its queue is full, and {dropped} packets were dropped"),
    };
    let length = full.link.queue_length;
    let evidence = vec![
        Evidence::new("packets dropped: FULL_RING", full.drops.packets as f64, "1", "kfree_skb"),
        Evidence::new(
            format!("packets that {tap} counts as dropped"),
            full.counted as f64,
            "1",
            "rtnetlink tx_dropped",
        ),
        Evidence::new(
            "packets that were read from it",
            full.read as f64,
            "1",
            "rtnetlink tx_packets",
        ),
        Evidence::new(
            "packets that wait for their reader at most",
            f64::from(length),
            "1",
            "txqueuelen",
        ),
    ];
    let mut remedy: Vec<Remedy> = reader
        .iter()
        .map(|it| match stopped {
            Some(IS_STOPPED) => Remedy::to("continue it").go_on(it),
            _ => {
                Remedy::to(format!("see what {} does instead of reading", words::who(it))).look(it)
            }
        })
        .collect();
    if reads_on && stopped.is_none() {
        remedy.push(longer(measures, full, length));
    }
    Wording {
        title,
        text: format!(
            "{} of what is sent to {tap} is lost there: {} wait for the program that has it open, and that is all it holds.",
            words::percent(part),
            words::count(length as usize, "packet", "packets"),
        ),
        evidence,
        remedy,
    }
}

const IS_STOPPED: &str = "is stopped";

/// How a process is kept from running at all, as the look ends.
fn stopped(measures: &Measures<'_>, process: &ThreadRef) -> Option<&'static str> {
    let main = wait_words::main_thread(measures, process.pid);
    let stands = measures.graph.waits_of(&main).last().filter(|wait| wait.standing)?;
    match stands.class {
        WaitClass::Stopped => Some(IS_STOPPED),
        WaitClass::Traced => Some("is stopped by a debugger"),
        WaitClass::FrozenCgroup => Some("is frozen"),
        _ => None,
    }
}

fn longer(measures: &Measures<'_>, full: &Full<'_>, length: u32) -> Remedy {
    let ip = command_in(measures.model, full.drops.netns, "ip");
    let device = words::shell(&full.drops.interface);
    let set = |length: u32| format!("{ip} link set {device} txqueuelen {length}");
    Remedy {
        text: "a longer queue bears longer bursts".into(),
        command: set(length.saturating_mul(2)),
        undo: set(length),
        ..Remedy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, blocked, fact, of_process, thread};

    const CODE: &str = "net.tap_full";

    fn link(kind: &str, dropped: u64, sent: u64, at_ns: u64) -> Fact {
        let counters = [("tx_dropped", dropped), ("tx_packets", sent)];
        let link = Link {
            netns: 1,
            index: 2,
            name: "eth0".into(),
            kind: kind.into(),
            queue_length: 1_000,
            counters: counters.map(|(name, value)| (name.to_string(), value)).into(),
            ..Link::default()
        };
        Fact { at_ns, body: Body::Link(link) }
    }

    fn full(kind: &str, dropped_packets: u64, counted: u64, read: u64) -> Vec<Fact> {
        let process = thread(20, "guest");
        let reader = TapReader { netns: 1, interface: "eth0".into(), process };
        vec![
            dropped(REASON, "udp", "10.0.0.1:7000", "10.0.0.2:9", dropped_packets),
            link(kind, 7, 100, 0),
            link(kind, 7 + counted, 100 + read, LOOK_NS),
            fact(Body::TapReader(reader)),
            of_process(20, "guest"),
        ]
    }

    #[test]
    fn who_has_a_tap_open_and_does_not_read_it_is_to_blame() {
        let found = findings(full("tun", 142, 142, 0));
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, Some(20)));
        assert_eq!(
            found[0].title,
            "guest 20 does not read eth0: its queue is full, and 142 packets were dropped"
        );
        // Of who is not seen as the look ends: the next that is called so.
        assert_eq!(found[0].remedy[0].command, "holdup -p $(pgrep -n -x -- guest)");
        assert_eq!(found[0].remedy.len(), 1, "a longer queue fills as well");
    }

    #[test]
    fn a_reader_that_is_stopped_is_said_to_be() {
        let mut facts = full("tun", 142, 142, 300);
        facts.push(blocked(20, "guest", WaitState::Stopped, ""));
        let found = findings(facts);
        let found = found.iter().find(|it| it.code == CODE).expect("a finding");
        assert!(
            found.title.starts_with("guest 20 is stopped and does not read eth0"),
            "{}",
            found.title
        );
        assert!(found.remedy[0].command.contains("kill -CONT"), "{}", found.remedy[0].command);
        assert_eq!(found.remedy.len(), 1, "a longer queue fills as well");
    }

    #[test]
    fn who_reads_too_slowly_may_have_a_longer_queue() {
        let found = findings(full("tun", 142, 142, 300));
        assert_eq!(found[0].remedy[1].command, "ip link set eth0 txqueuelen 2000");
        assert_eq!(found[0].remedy[1].undo, "ip link set eth0 txqueuelen 1000");
    }

    #[test]
    fn who_has_another_tap_of_that_name_open_is_not_to_blame() {
        let moved = |facts: &mut Vec<Fact>| {
            for fact in facts {
                if let Body::TapReader(reader) = &mut fact.body {
                    reader.netns = 2;
                }
            }
        };
        let mut facts = full("tun", 142, 142, 0);
        moved(&mut facts);
        assert_eq!(findings(facts.clone())[0].culprit.pid, Some(20), "the interface was moved");
        let twin = Link { netns: 2, index: 7, name: "eth0".into(), ..Link::default() };
        facts.extend([fact(Body::Link(twin)), look_at(TargetKind::Host, 0)]);
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, None));
        assert!(found[0].title.starts_with("whoever has it open"), "{}", found[0].title);
    }

    #[test]
    fn a_ring_of_another_device_is_no_tap() {
        assert!(codes(full("", 142, 142, 0)).is_empty());
    }

    #[test]
    fn drops_that_the_interface_does_not_count_are_anothers() {
        assert!(codes(full("tun", 142, 0, 0)).is_empty());
    }

    #[test]
    fn a_drop_now_and_then_is_nothing() {
        assert!(codes(full("tun", 20, 20, 0)).is_empty());
    }
}
