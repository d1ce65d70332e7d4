//! net.udp_flood: more datagrams arrive than their program can read, and its socket drops the rest.
//!
//! The socket's own count of drops and the namespace's RcvbufErrors both grow while the program reads on. Where exactly one
//! process of this host sends to the socket without waiting for answers, it is to blame; else the reader, who at least can
//! be found.
//!
//! Must not: fire where the program does not read. Rejected: whoever is connected as the sender (a socket may stand connected
//! for days).

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::datagram_drops::Dropping;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_datagrams::{
    COUNTED, DROPS, READS, SERIOUS, dropping, matched, reads,
};
use crate::rules::net::ways_out::{command_in, pause};
use crate::rules::wording::{Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};

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
    thresholds: &[&DROPS, &COUNTED, &READS, &SERIOUS],
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

fn wording(measures: &Measures<'_>, one: &Dropping<'_>) -> Wording {
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
            command: format!("{tcpdump} -nn -c 20 udp dst port {}", place.port()),
            action: Some(asks.through(tcpdump.through.as_ref())),
            ..Remedy::default()
        },
    };
    let slow = Remedy {
        text: "slow the sender, or read with more threads (SO_REUSEPORT)".into(),
        ..Remedy::default()
    };
    Wording {
        title: format!("datagrams flood {server} on udp {place}{by}: it cannot read them all"),
        text: format!(
            "{} a second are dropped there; {} a second are read meanwhile from the UDP sockets of its network namespace. Whoever waits for an \
             answer waits in vain as often.",
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
    use crate::rules::scenes::{endpoint, fact, thread};

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
    fn drops_before_the_look_are_no_flood() {
        let mut facts = flooded();
        let before = facts[0].clone();
        facts.insert(0, before);
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn the_only_sender_that_waits_for_nothing_is_the_flood() {
        let mut facts = flooded();
        let to = |ino, from| inet("udp", ino, from, "10.0.0.2:5000", 1);
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
        facts.push(endpoint(30, "logger", inet("udp", 500, "10.0.0.1:7000", "10.0.0.2:5000", 1)));
        let ran = |run_ns| {
            let thread = thread(30, "logger");
            fact(Body::ThreadTime(ThreadTime { thread, run_ns, ..ThreadTime::default() }))
        };
        let blamed = |run_ns| findings([facts.clone(), vec![ran(run_ns)]].concat())[0].culprit.pid;
        assert_eq!((blamed(0), blamed(1_000_000)), (Some(20), Some(30)));
    }
}
