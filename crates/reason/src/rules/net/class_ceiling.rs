//! net.class_ceiling: a class of a shaper sends as fast as its ceiling allows, and more waits.
//!
//! The wait is configured. The class's own counters give the rate that it reached; the ceiling may be its own or
//! that of a class above it. Must not fire for a class that borrows below its ceiling, or whose queue empties.
//! Rejected: the discipline's drops (a class whose senders slow down in time drops nothing).

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_queue::{Queue, flow_seconds};
use crate::measure::tunnels::carrier_of;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::losses::{self, in_target};
use crate::rules::net::queued_answers::{Reader, add_to, ends_behind, readers};
use crate::rules::net::standing_queue::{
    ANSWER_BEHIND, BELOW_CLASS, HeldBy, MET, MOST, Standing, TARGET, passed, standing,
};
use crate::rules::net::ways_out::{bits, command_in};
use crate::rules::net::writers::{BUSY, Writer, claim, writers};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};
use std::collections::BTreeSet;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.class_ceiling",
    title: "A traffic class is at its ceiling",
    theory: "A shaper such as HTB divides a link into classes; none may send more than its ceiling, even if the \
             link idles. What exceeds it waits in the class's queue, then in the socket, and then the program \
             sleeps until there is room.",
    needs: &[
        "packets wait in the class in four of five readings",
        "the class, or one above it, sends at least 85 % of its ceiling",
        "a process of the target waits to send through it, or reads what was sent to it through it",
    ],
    refuted_by: &[
        Refutation::new(
            "the class stays below its ceiling",
            "a_class_below_its_ceiling_is_not_the_reason",
        ),
        Refutation::new("its queue empties now and then", "a_class_that_empties_is_not_the_reason"),
        Refutation::new(
            "nobody of the target sends through it",
            "a_ceiling_that_nobody_of_the_target_meets_is_not_said",
        ),
    ],
    remedies: &["raise the ceiling", "move the flow to another class", "send less"],
    stories: &["S0.15"],
    thresholds: &[&MOST, &MET, &TARGET, &BELOW_CLASS, &ANSWER_BEHIND, &BUSY],
    finds: Finds::Look(find),
};

/// How many times the ceiling is proposed: how much more is wanted cannot be seen behind it, an order of magnitude shows.
const RAISED: f64 = 10.0;

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let standing = standing(measures);
    let writers = writers(measures, ends);
    let of = |one: &Standing<'m>| {
        let held_by = one.held_by?;
        let is_mine =
            |writer: &&Writer<'m>| passed(&standing, writer.stream).is_some_and(|q| q.at == one.at);
        let mine: Vec<Writer<'m>> = writers.iter().filter(is_mine).copied().collect();
        matched(measures, ends, one.queue, held_by, &mine)
    };
    standing.iter().filter_map(of).collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    queue: &'m Queue<'m>,
    held_by: HeldBy<'m>,
    mine: &[Writer<'m>],
) -> Option<Match<'m>> {
    let class = held_by.ceiling.class;
    let readers = slow_readers(measures, queue, mine);
    let lost = in_target(measures, delayed(measures, queue, &readers, mine));
    let most = mine.iter().max_by(|a, b| a.lost.total_cmp(&b.lost));
    let (victim, seconds) = match most {
        Some(writer) => (words::who(&writer.stream.endpoint.process), writer.lost),
        None => losses::most(&lost).map(|(who, seconds)| (sent(who, &readers), *seconds))?,
    };
    let set = bits(held_by.ceiling.ceiling);
    let blamed = Culprit::setting(
        format!("{} class {} of {}", class.kind, class.handle, class.interface),
        format!("tc class dev {} classid {} ceil {set}", class.interface, class.handle),
    );
    let wording = wording(measures, held_by, &victim, seconds);
    let matched = Match::new(blamed, Proof::Read, move |_| wording.clone());
    let object = Object::TrafficClass {
        netns: class.netns,
        interface: class.interface.as_str().into(),
        class: class.handle.as_str().into(),
    };
    if mine.iter().any(|writer| writer.end.is_some()) {
        return Some(claim(mine, matched, false).on(object));
    }
    if lost.is_empty() {
        return None;
    }
    let behind = ends_behind(measures, ends, queue, &readers);
    let matched = losses::of_measure(measures, matched, object, lost, None);
    Some(behind.into_iter().fold(matched, |matched, at| matched.claiming(at, None)))
}

fn wording(measures: &Measures<'_>, held_by: HeldBy<'_>, victim: &str, seconds: f64) -> Wording {
    let HeldBy { ceiling, backlog } = held_by;
    let (class, set) = (ceiling.class, bits(ceiling.ceiling));
    let drain = backlog / ceiling.sent.max(1.0);
    let steered = match class.filters.first() {
        Some(filter) => format!(" The filter \"{filter}\" steers it there."),
        None => String::new(),
    };
    let counted = "rtnetlink TCA_STATS2";
    Wording {
        title: format!(
            "{victim} is held back by class {} of {}, which may send {set}",
            class.handle, class.interface
        ),
        text: format!(
            "{} pass so. The class sends {} of its {set}; {} wait in it, {} worth of sending.{steered}",
            words::of_window(seconds, measures.wall_seconds()),
            bits(ceiling.sent),
            words::bytes(backlog),
            words::seconds(drain),
        ),
        evidence: vec![
            Evidence::new("ceiling set", ceiling.ceiling, "bytes/s", "rtnetlink"),
            Evidence::new("sent by the class", ceiling.sent, "bytes/s", counted),
            Evidence::new("mean backlog of the class", backlog, "bytes", counted),
            Evidence::new(
                "time to send that backlog",
                drain * 1e3,
                "ms",
                "backlog divided by rate",
            ),
        ],
        remedy: remedy(measures, held_by),
    }
}

/// Who reads what waits in the queue for longer than it would in a good one.
fn slow_readers<'m>(
    measures: &Measures<'m>,
    queue: &Queue<'m>,
    writers: &[Writer<'m>],
) -> Vec<Reader<'m>> {
    let writers: Vec<&Writer<'m>> = writers.iter().collect();
    let mut all = readers(measures, queue, &writers);
    all.retain(|it| flow_seconds(&it.flows).is_some_and(|seconds| seconds >= TARGET.value));
    all
}

/// Who sends it, or what is sent to him.
fn sent(who: &ThreadRef, readers: &[Reader<'_>]) -> String {
    match readers.iter().any(|it| it.process.pid == who.pid) {
        true => format!("what is sent to {}", words::who(who)),
        false => words::who(who),
    }
}

/// Who has packets in the queue for longer than they would wait in a good one, and who reads such; and event loops whose data stand before it, in
/// whoever's packets they go (a tunnel's).
fn delayed(
    measures: &Measures<'_>,
    queue: &Queue<'_>,
    readers: &[Reader<'_>],
    writers: &[Writer<'_>],
) -> Losses {
    let mut lost = Losses::new();
    add_to(&mut lost, readers);
    // What a tunnel's program sends for them are the same data, and they wait once.
    let mut carriers = BTreeSet::new();
    for writer in writers.iter().filter(|writer| writer.end.is_none()) {
        let process = &writer.stream.endpoint.process;
        let loss = lost.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
        loss.1 = loss.1.max(writer.lost);
        carriers.extend(carrier_of(measures.model, writer.stream.socket).map(|by| by.pid));
    }
    for flow in &queue.flows {
        let slow = flow_seconds(&[*flow]).is_some_and(|seconds| seconds >= TARGET.value);
        let own = flow.process.as_ref().filter(|by| !carriers.contains(&by.pid));
        if let (Some(process), true) = (own, slow) {
            let waited = (flow.sojourn_ns as f64 / 1e9).min(measures.model.look.seconds());
            let loss = lost.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
            loss.1 = loss.1.max(waited);
        }
    }
    lost
}

fn remedy(measures: &Measures<'_>, held_by: HeldBy<'_>) -> Vec<Remedy> {
    let (class, ceiling) = (held_by.ceiling.class, held_by.ceiling.ceiling);
    let tc = command_in(measures.model, class.netns, "tc");
    if class.kind != "htb" {
        return vec![Remedy {
            text: "raise its ceiling (of hfsc: ul) with `tc class change`, if the link has room; what is not named again there is reset"
                .into(),
            command: format!("{tc} -d class show dev {}", words::shell(&class.interface)),
            action: Some(Action::look(Question::State).through(tc.through.as_ref())),
            ..Remedy::default()
        }];
    }
    let assured = class.assured_rate_bytes.map_or(ceiling, |rate| rate as f64);
    // Without a parent class there is nobody to borrow from: the assured rate is the ceiling.
    let lends = class.parent != "root";
    let change = |rate: f64, ceil: f64| {
        format!(
            "class change dev {} parent {} classid {} {} rate {} ceil {}{}",
            words::shell(&class.interface),
            if lends {
                class.parent.clone()
            } else {
                class.handle.split(':').next().map_or_else(String::new, |major| format!("{major}:"))
            },
            class.handle,
            class.kind,
            bits(rate),
            bits(ceil),
            match class.class_words.is_empty() {
                true => String::new(),
                false => format!(" {}", class.class_words),
            },
        )
    };
    let raised = ceiling * RAISED;
    let (value, undo) =
        (change(if lends { assured } else { raised }, raised), change(assured, ceiling));
    let action = Action::tc(class.netns, &class.interface, &value, &undo);
    vec![Remedy::to("raise the ceiling, if the link has room").set(
        action.through(tc.through.as_ref()),
        format!("{tc} {value}"),
        format!("{tc} {undo}"),
    )]
}

#[cfg(test)]
mod tests {
    use crate::answer::report::CulpritKind;
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    /// The queue of the scenes with a class whose ceiling is 5 Mbit/s.
    fn class(backlog: u64, sent: u64) -> Vec<Fact> {
        let mut facts = queue(290);
        facts.extend((1..50).map(|at| qdisc(true, "1:20", backlog, 625_000, sent, at)));
        facts
    }

    #[test]
    fn a_class_at_its_ceiling_is_a_setting_and_not_a_queue() {
        let found = findings(class(90, 620_000));
        assert_eq!(found[0].code, "net.class_ceiling");
        assert_eq!(found[0].culprit.kind, CulpritKind::Setting);
        assert_eq!(found[0].object.name, "eth0 1:20");
        assert!(found.iter().all(|f| f.code != "net.local_queue"));
    }

    #[test]
    fn who_writes_through_the_class_is_named_with_his_wait() {
        let mut facts = class(90, 620_000);
        facts.extend(stream(SocketState::default()));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].victims[0].pid), ("net.class_ceiling", 10));
        assert!((found[0].victims[0].wait_seconds - 4.8).abs() < 0.1, "{:?}", found[0].victims);
    }

    /// The server that sent it has closed the connection, and is no process of the flow.
    #[test]
    fn who_reads_what_waits_in_the_class_is_held_back_by_it() {
        let read = |backlog: u64| {
            let mut facts = class(backlog, 620_000);
            facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(_)));
            let mut rest = flow(0, "", 80, 900, 900_000, 303);
            if let Body::QdiscFlow(flow) = &mut rest.body {
                (flow.process, flow.socket_ino) = (None, 0);
                (flow.protocol, flow.remote) = ("tcp".into(), address("10.0.0.2:40000"));
            }
            let near = inet("tcp", 100, "10.0.0.2:40000", "10.0.0.1:80", 1);
            facts.extend([rest, look_at(TargetKind::Process, 10)]);
            facts.push(wait(10, "client", "recvfrom", near, 0, 48));
            findings(facts)
        };
        let found = read(90);
        assert_eq!((&*found[0].code, found[0].victims[0].pid), ("net.class_ceiling", 10));
        assert!(found[0].title.starts_with("what is sent to client 10 is held"), "{found:?}");
        assert!(read(0).iter().all(|it| it.code != "net.class_ceiling"));
    }

    #[test]
    fn whose_data_a_tunnel_carries_through_the_class_is_held_back_by_it() {
        let through = |kind: &str, look: TargetKind| {
            let mut facts = class(90, 620_000);
            let process = crate::rules::scenes::thread(20, "upload");
            let tap = TapReader { netns: 1, interface: "tun0".into(), process };
            let busy = |busy_us| event_loop(SocketState { busy_us, ..SocketState::default() });
            facts.extend(busy(4_900_000));
            let mut other = busy(3_000_000);
            if let Body::Endpoint(end) = &mut other[0].body
                && let ObjectRef::Inet(socket) = &mut end.object
            {
                socket.ino = 101;
                socket.local.set_port(40_001);
            }
            facts.extend(other);
            facts.push(next_hop("10.0.0.2", ("tun0", kind, 5), 0));
            facts.push(crate::rules::scenes::fact(Body::TapReader(tap)));
            facts.retain(|fact| {
                !matches!(&fact.body, Body::QdiscFlow(flow)
                    if flow.process.as_ref().is_some_and(|it| it.pid == 10))
            });
            facts.push(look_at(look, 10));
            findings(facts)
        };
        for look in [TargetKind::Process, TargetKind::Host] {
            let found = through("tun", look);
            assert_eq!((&*found[0].code, found[0].victims[0].pid), ("net.class_ceiling", 10));
            let waited = found[0].victims[0].wait_seconds;
            assert!((waited - 4.9).abs() < 0.1, "of two streams the longer one: {waited}");
            assert!(found[0].victims.iter().all(|it| it.pid != 20), "{:?}", found[0].victims);
        }
        let past = through("veth", TargetKind::Process);
        assert!(past.iter().all(|it| it.code != "net.class_ceiling"));
    }

    #[test]
    fn a_class_below_its_ceiling_is_not_the_reason() {
        assert_eq!(codes(class(90, 100_000)), ["net.local_queue"]);
    }

    #[test]
    fn a_class_that_empties_is_not_the_reason() {
        assert_eq!(codes(class(0, 620_000)), ["net.local_queue"]);
    }

    #[test]
    fn a_ceiling_that_nobody_of_the_target_meets_is_not_said() {
        let mut facts = class(90, 620_000);
        facts.push(look_at(TargetKind::Process, 99));
        assert!(codes(facts).is_empty());
    }
}
