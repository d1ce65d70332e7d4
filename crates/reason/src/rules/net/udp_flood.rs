//! net.udp_flood: more datagrams arrive than their program can read, and its socket drops the rest.
//!
//! The socket's own count of drops and the namespace's RcvbufErrors both grow while the program reads on. Where exactly one
//! process of this host sends to the socket without waiting for answers, it is to blame; else the reader, who at least can
//! be found. What a reader does between its reads is said of either.
//!
//! Must not: fire where the program does not read. Rejected: whoever is connected as the sender (a socket may stand connected
//! for days).

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::datagram_drops::{Away, Dropping};
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_datagrams::{
    COUNTED, DROPS, READS, SERIOUS, dropping, matched, reads,
};
use crate::rules::net::ways_out::{command_in, pause};
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

/// The least part of the look that a reader is away.
static AWAY: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the look that the only thread of the reader sleeps or waits for something else than datagrams: it could read twice as many without",
    "chosen: the greater part",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.udp_flood",
    title: "More datagrams arrive than their program can read",
    theory: "UDP has no back pressure: a sender that is quicker than the reader fills the reader's socket, and then \
             every further datagram is dropped, those of other senders too, in the order in which they come.",
    needs: &[
        "the socket's own count of drops grows by ten a second or more",
        "the namespace's count of full receive buffers grows as well",
        "the program reads on meanwhile",
    ],
    refuted_by: &[
        Refutation::new("the program does not read", "who_does_not_read_is_not_flooded"),
        Refutation::new("the drops stopped before the look", "drops_before_the_look_are_no_flood"),
    ],
    remedies: &[
        "slow the sender, or drop its packets before the socket",
        "read with more threads (SO_REUSEPORT), or more per call (recvmmsg)",
        "a larger buffer (net.core.rmem_max) only helps against bursts",
    ],
    stories: &["S0.16", "S2.10"],
    thresholds: &[&DROPS, &COUNTED, &READS, &SERIOUS, &AWAY],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let read = dropping(measures).filter(|one| reads(one));
    let matches = read.map(|one| {
        let by = match one.senders[..] {
            [only] => culprit(measures.model, only),
            _ => culprit(measures.model, &one.endpoint.process),
        };
        matched(measures, ends, one, by, wording(measures, one))
    });
    matches.collect()
}

/// What keeps the reader from reading for most of the look.
fn away<'m>(measures: &Measures<'_>, one: &'m Dropping<'_>) -> Option<&'m Away> {
    one.away.as_ref().filter(|away| away.seconds >= AWAY.value * measures.model.look.seconds())
}

fn does(measures: &Measures<'_>, away: &Away) -> String {
    match away.class {
        WaitClass::Timer => "sleeps".to_string(),
        WaitClass::RunQueue => "waits for a CPU".to_string(),
        _ => {
            let object = measures.model.name_of(&away.object);
            format!("waits for {}", object.or("something that was not seen"))
        }
    }
}

/// A reader that does something else between its reads.
fn read_too_seldom(measures: &Measures<'_>, one: &Dropping<'_>, away: &Away) -> Wording {
    let server = words::who(&one.endpoint.process);
    let does = does(measures, away);
    let evidence = Evidence::new("waited between its reads", away.seconds, "s", "sched_switch");
    Wording {
        title: format!(
            "{server} {does} between its reads of udp {}, which drops",
            one.socket.local
        ),
        text: format!(
            "{} datagrams a second are dropped there; {} a second are read meanwhile from the UDP sockets of its network namespace, and it {does} \
             for {} of {}. What comes while its buffer of {} is full is dropped.",
            words::rate(one.dropped),
            words::rate(one.read),
            words::seconds(away.seconds),
            words::seconds(measures.model.look.seconds()),
            words::bytes(one.state.receive_limit_bytes as f64),
        ),
        evidence: vec![evidence],
        remedy: vec![Remedy::to("see what it does between its reads").look(&one.endpoint.process)],
    }
}

fn wording(measures: &Measures<'_>, one: &Dropping<'_>) -> Wording {
    let away = away(measures, one);
    if let Some(away) = away.filter(|_| one.senders.len() != 1) {
        return read_too_seldom(measures, one, away);
    }
    let server = words::who(&one.endpoint.process);
    let place = one.socket.local;
    let by = match one.senders[..] {
        [only] => format!(" from {}", words::who(only)),
        _ => String::new(),
    };
    let tcpdump = command_in(measures.model, one.socket.netns, "tcpdump");
    let asks = Action::look(Question::State);
    let quieten = match one.senders[..] {
        [only] => pause(only),
        _ => Remedy {
            text: "see who sends".into(),
            // By itself it listens at the first interface, and never at a loopback.
            command: format!("{tcpdump} -i any -nn -c 20 udp dst port {}", place.port()),
            action: Some(asks.through(tcpdump.through.as_ref())),
            ..Remedy::default()
        },
    };
    let slow = Remedy {
        text: "slow the sender, or read with more threads (SO_REUSEPORT)".into(),
        ..Remedy::default()
    };
    let rests = away.map_or_else(String::new, |away| {
        format!(
            " The reader {} for {} in between.",
            does(measures, away),
            words::seconds(away.seconds)
        )
    });
    Wording {
        title: format!("datagrams flood {server} on udp {place}{by}: it cannot read them all"),
        text: format!(
            "{} a second are dropped there; {} a second are read meanwhile from the UDP sockets of its network namespace. Whoever waits for an \
             answer waits in vain as often.{rests}",
            words::rate(one.dropped),
            words::rate(one.read),
        ),
        remedy: vec![quieten, slow],
        ..Wording::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, endpoint, fact, thread};

    const CODE: &str = "net.udp_flood";

    fn flooded() -> Vec<Fact> {
        datagrams(10_000, 10_000, 4_000)
    }

    #[test]
    fn drops_beside_a_program_that_reads_are_a_flood() {
        assert_eq!(codes(flooded()), [CODE]);
    }

    #[test]
    fn who_does_not_read_is_not_flooded() {
        assert_eq!(codes(datagrams(10_000, 10_000, 0)), ["net.socket_full"]);
        // Others of its namespace read theirs.
        let mut beside = datagrams(10_000, 10_000, 20_000);
        let thread = crate::rules::scenes::thread(20, "server");
        let idle =
            ThreadTime { thread, until_ns: crate::rules::scenes::LOOK_NS, ..ThreadTime::default() };
        beside.push(fact(Body::ThreadTime(idle)));
        assert_eq!(codes(beside), ["net.socket_full"]);
    }

    #[test]
    fn who_sleeps_between_his_reads_is_said_to_and_is_late_where_nobody_is_seen_to_send() {
        let sleeps = |part| crate::rules::scenes::slept(20, "server", 0, LOOK_NS / part);
        let found = |part| findings([flooded(), vec![sleeps(part)]].concat());
        let often = found(1);
        assert_eq!((&*often[0].code, often[0].culprit.pid), (CODE, Some(20)));
        assert!(often[0].title.contains("sleeps between its reads of udp"), "{}", often[0].title);
        assert_eq!(often[0].remedy[0].command, "holdup pid 20");
        assert!(found(4)[0].title.starts_with("datagrams flood"), "it reads for most of the look");
        let to = from_outside(inet("udp", 500, "10.0.0.1:7000", "10.0.0.2:5000", 1));
        let sender = endpoint(30, "sender", to);
        let sent = findings([flooded(), vec![sleeps(1), sender]].concat());
        assert_eq!(sent[0].culprit.pid, Some(30));
        assert!(sent[0].text.contains("The reader sleeps for 5 s in between"), "{}", sent[0].text);
    }

    #[test]
    fn drops_before_the_look_are_no_flood() {
        let mut facts = flooded();
        let before = facts[0].clone();
        facts.insert(0, before);
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn the_only_sender_that_waits_for_nothing_is_the_flood() {
        let mut facts = flooded();
        let to = |ino, from| from_outside(inet("udp", ino, from, "10.0.0.2:5000", 1));
        facts.push(endpoint(30, "flood", to(500, "10.0.0.1:7000")));
        facts.push(endpoint(31, "asker", to(501, "10.0.0.1:7001")));
        facts.push(wait(31, "asker", "recvfrom", to(501, "10.0.0.1:7001"), 0, 40));
        let found = findings(facts);
        assert_eq!(found[0].culprit.pid, Some(30));
        assert_eq!(found[0].remedy[0].command, "kill -STOP 30");
    }

    #[test]
    fn who_is_only_connected_to_a_flooded_socket_is_not_the_flood() {
        let mut facts = flooded();
        let to = |netns: fn(ObjectRef) -> ObjectRef| {
            endpoint(30, "logger", netns(inet("udp", 500, "10.0.0.1:7000", "10.0.0.2:5000", 1)))
        };
        let elsewhere = [facts.clone(), vec![to(|same| same)]].concat();
        assert_eq!(findings(elsewhere)[0].culprit.pid, Some(20), "to another host's port");
        facts.push(to(from_outside));
        let ran = |run_ns| {
            let thread = thread(30, "logger");
            fact(Body::ThreadTime(ThreadTime { thread, run_ns, ..ThreadTime::default() }))
        };
        let blamed = |run_ns| findings([facts.clone(), vec![ran(run_ns)]].concat())[0].culprit.pid;
        assert_eq!((blamed(0), blamed(1_000_000)), (Some(20), Some(30)));
    }
}
