//! net.promiscuous: a process has an interface take every frame, also those for others.
//!
//! The kernel's own list says which packet socket asked for it (PACKET_MR_PROMISC), and the descriptors whose that is. A note: what it costs is said
//! by the interface's own count of frames for others. Must not: speak of a bridge's ports, which take all because that is what a bridge does, or of
//! a capture that asked for this host's frames alone. Rejected: the interface's promiscuity alone (a number that bridges and macvlans raise as well).
//!
//! Edit together: probe's readers/netlink/packet_sockets.rs.

use crate::facts::{Link, PacketSocket, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::of_namespace;
use crate::rules::net::losses::of_measure;
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use std::collections::BTreeMap;

/// Frames for others that cost something.
static OTHERS: Threshold = Threshold::new(
    1_000.0,
    "1/s",
    "frames for other hosts that come in because of it: each costs the CPU that receives it some microseconds",
    "chosen: below that it is less than a hundredth of one CPU",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.promiscuous",
    title: "A process has an interface take every frame, also those for others",
    theory: "An interface takes frames for its own addresses, and its adapter leaves the rest. Who captures asks it to take all (promiscuous): then the CPU \
             has to look at the frames of others as well, only to drop them behind the capture, and every frame is handed to the capture's \
             socket besides. Where a switch or a bridge floods, that is the traffic of all.",
    needs: &[
        "a packet socket has asked for all frames of the interface (PACKET_MR_PROMISC), and a process has it open",
    ],
    refuted_by: &[
        Refutation::new("no socket asked for it", "who_takes_its_own_frames_alone_is_not_said"),
        Refutation::new(
            "the process is none of whom is looked at",
            "a_capture_of_another_is_not_said_to_who_asks_about_one",
        ),
    ],
    remedies: &["end a capture that nobody needs", "capture without it (tcpdump -p)"],
    stories: &["S2.3"],
    thresholds: &[&OTHERS],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, u32, u32), &PacketSocket> = BTreeMap::new();
    for socket in &measures.model.net.drop_causes.packet_sockets {
        all.entry((socket.netns, socket.index, socket.process.pid)).or_insert(socket);
    }
    let own = measures.model.look.host.own_pid;
    let all = all.into_values().filter(|it| it.process.pid != own);
    all.filter(|it| measures.concerns(&it.process)).map(|it| matched(measures, it)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, socket: &'m PacketSocket) -> Match<'m> {
    let comm = socket.process.comm.clone();
    let process = ThreadRef { comm, ..measures.model.threads.thread_ref(socket.process.pid) };
    let wording = wording(measures, socket, &process);
    let by = culprit(measures.model, &process);
    let new = Match::new(by, Proof::Read, move |_| wording.clone());
    let object = Object::PacketQueue {
        netns: socket.netns,
        interface: socket.interface.as_str().into(),
        handle: "".into(),
    };
    let mut matched = of_measure(measures, new, object, Losses::new(), None);
    matched.severity_max = Severity::Note;
    matched
}

/// Growth of a counter of the interface, a second; none if it does not count so, or was not read twice.
fn rate(measures: &Measures<'_>, socket: &PacketSocket, name: &str) -> Option<f64> {
    let is_it = |link: &&Link| (link.netns, link.index) == (socket.netns, socket.index);
    let mut readings = measures.model.net.links.iter().filter(is_it);
    let first = readings.next()?.counters.get(name)?;
    let last = readings.next_back()?.counters.get(name)?;
    Some(last.saturating_sub(*first) as f64 / measures.wall_seconds().max(1e-9))
}

fn wording(measures: &Measures<'_>, socket: &PacketSocket, process: &ThreadRef) -> Wording {
    let interface = &socket.interface;
    let place = format!("{interface}{}", of_namespace(measures.model, socket.netns));
    let who = words::who(process);
    let others = rate(measures, socket, "rx_otherhost_dropped");
    let cost = match others {
        Some(others) if others >= OTHERS.value => format!(
            "{} frames a second came in that are for others: the kernel looks at each, and drops it.",
            words::thousands(others)
        ),
        Some(_) => {
            "Hardly any frame for others came in meanwhile, so that costs next to nothing.".into()
        }
        None => "How many frames for others came in so, this kernel does not count.".to_string(),
    };
    let taken = rate(measures, socket, "rx_packets");
    let mut evidence = vec![Evidence::new(
        format!("sockets of {who} that have {interface} take all"),
        1.0,
        "1",
        "sock_diag, PACKET_MR_PROMISC",
    )];
    let counted = [("frames for others", others), ("frames that came in", taken)];
    for (fact, rate) in counted {
        let source = "rtnetlink IFLA_STATS64";
        evidence.extend(rate.map(|rate| Evidence::new(fact, rate, "1/s", source)));
    }
    let ip = command_in(measures.model, socket.netns, "ip");
    let asks = Action::look(Question::State).through(ip.through.as_ref());
    Wording {
        title: format!("{who} has {place} take every frame, also those for others (promiscuous)"),
        text: format!(
            "It captures: each packet of {interface} is handed to its socket as well. {cost}"
        ),
        evidence,
        remedy: vec![
            Remedy {
                text: "see for how many it takes all (promiscuity)".into(),
                command: format!("{ip} -d link show dev {}", words::shell(interface)),
                action: Some(asks),
                ..Remedy::default()
            },
            Remedy::to("if nobody needs the capture, end it").end(process),
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::net::scenes::look_at;
    use crate::rules::scenes::*;
    use crate::rules::wording::Severity;
    use std::collections::BTreeMap;

    const CODE: &str = "net.promiscuous";

    /// A capture on eth0, to which so many frames of others come in five seconds.
    fn captures(asks: bool, others: u64, target: Fact) -> Vec<Finding> {
        let link = |frames: u64, at_ns| {
            let counters = BTreeMap::from([("rx_otherhost_dropped".to_string(), frames)]);
            let name = "eth0".to_string();
            let link = Link { netns: 1, index: 2, name, counters, ..Link::default() };
            Fact { at_ns, body: Body::Link(link) }
        };
        let process = thread(20, "tcpdump");
        let interface = "eth0".to_string();
        let socket = PacketSocket { netns: 1, interface, index: 2, ino: 9, process };
        let mut facts = host();
        facts.extend([of_process(20, "tcpdump"), link(7, 0), link(7 + others, LOOK_NS), target]);
        facts.extend(asks.then(|| fact(Body::PacketSocket(socket))));
        let found = explain(facts).findings;
        found.into_iter().filter(|it| it.code == CODE).collect()
    }

    fn of_host() -> Fact {
        look_at(TargetKind::Host, 0)
    }

    #[test]
    fn who_captures_all_is_a_note_with_what_it_costs() {
        let found = captures(true, 50_000, of_host());
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note), "{found:?}");
        assert_eq!(found[0].culprit.pid, Some(20));
        assert!(found[0].title.starts_with("tcpdump 20 has eth0 take"), "{}", found[0].title);
        assert!(found[0].text.contains("10,000 frames a second"), "{}", found[0].text);
        assert!(captures(true, 5, of_host())[0].text.contains("next to nothing"));
    }

    #[test]
    fn who_takes_its_own_frames_alone_is_not_said() {
        assert!(captures(false, 50_000, of_host()).is_empty());
    }

    #[test]
    fn a_capture_of_another_is_not_said_to_who_asks_about_one() {
        assert_eq!(captures(true, 0, look_at(TargetKind::Process, 20)).len(), 1);
        assert!(captures(true, 0, look_at(TargetKind::Process, 30)).is_empty());
    }
}
