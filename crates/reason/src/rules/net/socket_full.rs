//! net.socket_full: a program does not read its datagrams, and its socket drops them.
//!
//! The socket's own count of drops and the namespace's RcvbufErrors both grow, and next to nothing is read.
//!
//! Must not: fire where the program reads, only slower than they come. Rejected: a full buffer alone (it is full before the
//! first datagram is lost, too).

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::datagram_drops::Dropping;
use crate::model::words;
use crate::rules::net::dropped_datagrams::{
    COUNTED, DROPS, READS, SERIOUS, dropping, matched, reads,
};
use crate::rules::wording::{Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.socket_full",
    title: "A socket drops what its program does not read",
    theory: "Datagrams wait in the receiving socket's buffer until the program reads them. When it is full, each \
             further one is dropped without a word to the sender, who may wait for an answer until he gives up.",
    needs: &[
        "the socket's own count of drops grows by ten a second or more",
        "the namespace's count of full receive buffers grows as well",
        "the program reads fewer than one datagram for each hundred dropped",
    ],
    refuted_by: &[
        Refutation::new("the program reads on", "a_program_that_reads_on_is_flooded"),
        Refutation::new(
            "the namespace counts no full buffers: a filter drops them",
            "drops_that_the_namespace_does_not_count_are_a_filters",
        ),
        Refutation::new("the drops are few", "a_drop_now_and_then_is_nothing"),
    ],
    remedies: &["see why the program does not read"],
    stories: &["S0.16", "S2.10"],
    thresholds: &[&DROPS, &COUNTED, &READS, &SERIOUS],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let unread = dropping(measures).filter(|one| !reads(one));
    let matches = unread.map(|one| {
        let by = culprit(measures.model, &one.endpoint.process);
        matched(measures, ends, one, by, wording(one))
    });
    matches.collect()
}

fn wording(one: &Dropping<'_>) -> Wording {
    let (server, place) = (words::who(&one.endpoint.process), one.socket.local);
    Wording {
        title: format!("{server} does not read its socket udp {place}, which drops"),
        text: format!(
            "{} datagrams a second are dropped there; {} wait unread, the buffer's room is {}.",
            words::rate(one.dropped),
            words::bytes(one.state.receive_queued_bytes as f64),
            words::bytes(one.state.receive_limit_bytes as f64),
        ),
        remedy: vec![Remedy::to("see what it does instead of reading").look(&one.endpoint.process)],
        ..Wording::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    const CODE: &str = "net.socket_full";

    #[test]
    fn who_does_not_read_is_to_blame() {
        let found = findings(datagrams(10_000, 10_000, 0));
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, Some(20)));
        assert_eq!(found[0].object.name, "udp 0.0.0.0:5000");
    }

    #[test]
    fn who_waits_for_an_answer_loses_to_it_and_to_no_slow_peer() {
        let mut facts = datagrams(10_000, 10_000, 0);
        let asked = from_outside(inet("udp", 500, "10.0.0.1:7000", "10.0.0.2:5000", 1));
        facts.push(wait(30, "asker", "recvfrom", asked, 0, 48));
        facts.push(look_at(TargetKind::Process, 30));
        let found = findings(facts);
        assert_eq!((found.len(), &*found[0].code), (1, CODE), "{found:?}");
        assert_eq!(found[0].victims[0].pid, 30);
    }

    #[test]
    fn a_program_that_reads_on_is_flooded() {
        assert_eq!(codes(datagrams(10_000, 10_000, 4_000)), ["net.udp_flood"]);
    }

    #[test]
    fn drops_that_the_namespace_does_not_count_are_a_filters() {
        assert!(codes(datagrams(10_000, 0, 0)).is_empty());
    }

    #[test]
    fn a_drop_now_and_then_is_nothing() {
        assert!(codes(datagrams(20, 20, 0)).is_empty());
    }
}
