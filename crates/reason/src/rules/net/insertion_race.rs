//! Datagrams that may have lost a race to be entered into the table of connections, which look like those that a rule drops.
//!
//! Of two packets that begin one flow at once, as a name that is asked for both kinds of address by one socket, one is entered and the other is lost where
//! both are translated (nf_ct_resolve_clash, net/netfilter/nf_conntrack_core.c). The kernel says of it what it says of a rule, and counts it as an
//! entry that failed, of whichever flow. So where there may have been as many, no policy is named, and no more is said than that it may be.
//! Must not: say so of TCP, whose second packet is an answer, or against a rule that fits. Edit together: filter_drop.rs, conntrack_full.rs.

use crate::measure::net_counter::growth;
use crate::measure::packet_drops::Dropped;
use crate::model::Model;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::wording::Remedy;

/// Connections that could not be entered, as /proc/net/stat/nf_conntrack has it.
pub(super) const INSERT_FAILED: &str = "nf_conntrack.insert_failed";

/// What is said of them, a sentence with its stop.
pub(super) const WHY: &str = "as many or more could not be entered into the table of connections there meanwhile (insert_failed): of two packets that \
                              begin one flow at once the second is lost so, which looks the same as one that a rule drops. A resolver that asks one \
                              question after the other does not run into it (resolv.conf: options single-request-reopen).";

/// Whether as many could not be entered there as datagrams were dropped, whosoever they are.
pub(super) fn may_have_lost(model: &Model, dropped: &Dropped<'_>) -> bool {
    let netns = dropped.kind.netns;
    let lost = growth(model, netns, INSERT_FAILED).unwrap_or(0);
    let there =
        model.net.drops.iter().filter(|it| it.netns == netns && it.reason == dropped.kind.reason);
    let flows = there.flat_map(|it| &it.flows).filter(|flow| flow.protocol == "udp");
    let all: u64 = flows.map(|flow| flow.packets).sum();
    dropped.flow.protocol == "udp" && lost > 0 && lost >= all
}

/// What shows it.
pub(super) fn see(model: &Model, netns: u32) -> Remedy {
    let cat = command_in(model, netns, "cat");
    Remedy::to("see how many more are lost so: the column insert_failed, a line for each CPU")
        .command(format!("{cat} /proc/net/stat/nf_conntrack"))
        .acting(Action::look(Question::State).through(cat.through.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::INSERT_FAILED;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{fact, of_process, thread};

    #[test]
    fn of_a_datagram_that_lost_a_race_for_the_table_no_rule_is_named() {
        let found = |grown: u64| {
            let mut question =
                dropped("NETFILTER_DROP", "udp", "10.0.0.1:40000", "192.0.2.1:53", 1);
            if let Body::PacketDrops(drops) = &mut question.body {
                drops.flows[0].sender = Some(thread(10, "dig"));
                drops.flows[0].socket_ino = 100;
            }
            let object = inet("udp", 100, "10.0.0.1:40000", "192.0.2.1:53", 1);
            let policy = FilterRule {
                netns: 1,
                family: "ip".into(),
                hook: "output".into(),
                ..FilterRule::default()
            };
            let mut facts = vec![
                wait(10, "dig", "recvfrom", object, 0, 48),
                question,
                fact(Body::FilterRule(policy)),
                look_at(TargetKind::Process, 10),
                of_process(10, "dig"),
            ];
            facts.extend(counters(&[(INSERT_FAILED, 3, 3 + grown)]));
            findings(facts).into_iter().find(|it| it.code == "net.filter_drop").expect("found")
        };
        let (raced, other) = (found(1), found(0));
        assert_eq!(raced.culprit.name, "packet filter");
        assert!(raced.text.contains("insert_failed"), "{}", raced.text);
        assert_eq!(other.culprit.name, "policy drop");
    }
}
