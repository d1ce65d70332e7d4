//! net.ports_exhausted: a connection is refused because every port that it could come from is taken by others to the same address.
//!
//! Two witnesses: connect returns EADDRNOTAVAIL again and again, with sleeps in between, and the namespace's own list of connections
//! has one for nearly each port of its range to that address. Must not: fire on an address that the host does not have (bind; process.retry).
//! Rejected: the count of connections alone (a pair of addresses has its own ports).

use crate::facts::PortUse;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

const RANGE: &str = "net.ipv4.ip_local_port_range";
const REUSE: &str = "net.ipv4.tcp_tw_reuse";
/// The first port that is no program's own, and the last.
const WIDE: (u16, u16) = (1_024, u16::MAX);

/// Part of the range that is taken.
static TAKEN: Threshold = Threshold::new(
    0.9,
    "1",
    "connections to the address for each port of the range: some end between the refusal and the count",
    "chosen: connect is refused at 1",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.ports_exhausted",
    title: "No port is left for another connection to the same address",
    theory: "A connection is known by its two addresses and two ports. The port at this end is taken out of net.ipv4.ip_local_port_range, \
             and each may be used once for the same address and port at the other end: by connections that stand, and for a \
             minute longer by those that this end closed first (TIME-WAIT). When all are taken connect returns EADDRNOTAVAIL at \
             once, and the program can only try again.",
    needs: &[
        "connect was refused for want of a port again and again, with sleeps in between that take most of the time",
        "nine tenths of the range are taken by connections to that address",
    ],
    refuted_by: &[
        Refutation::new("ports are free", "a_range_with_free_ports_is_not_exhausted"),
        Refutation::new(
            "it was the host's own address that was asked for",
            "an_address_that_is_missing_is_no_port",
        ),
    ],
    remedies: &[
        "a wider range of ports (net.ipv4.ip_local_port_range)",
        "use ports of ended connections again (net.ipv4.tcp_tw_reuse)",
        "let the program use its connections again (keep-alive, a pool)",
    ],
    stories: &[],
    thresholds: &[&TAKEN],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let Object::Address(remote) = end.object else { return None };
    if end.class != WaitClass::NoAddress {
        return None;
    }
    let tries = refusal_words::of_end(measures, end)?;
    if tries.last.syscall != "connect" {
        return None;
    }
    // Each network namespace has ports of its own.
    let netns = measures.model.threads.identity(&tries.last.thread).map_or(0, |known| known.netns);
    let is_its = |used: &&PortUse| used.remote == remote && (netns == 0 || used.netns == netns);
    let all = measures.model.net.port_use.values().filter(is_its);
    let used = all.max_by_key(|used| used.open + used.time_wait)?;
    let taken = f64::from(used.open + used.time_wait);
    if taken < TAKEN.value * f64::from(used.ports()) {
        return None;
    }
    let (first, last) = used.range;
    let by = Culprit::setting(format!("ip_local_port_range {first} {last}"), RANGE);
    Some(Match::new(by, Proof::TwoWitnesses, move |loss| wording(measures, used, &tries, loss)))
}

fn wording(measures: &Measures<'_>, used: &PortUse, tries: &Tries<'_>, loss: &Loss<'_>) -> Wording {
    let (ports, remote) = (used.ports(), used.remote);
    let taken = used.open + used.time_wait;
    let by = measures.model.threads.who(&tries.last.thread);
    let stand = words::count(used.open as usize, "connection stands", "connections stand");
    let ended = match used.time_wait {
        0 => String::new(),
        n => format!(", and {n} have ended and keep theirs for a minute (TIME-WAIT)"),
    };
    Wording {
        title: format!(
            "{} waits for a port to connect to {remote} from: {taken} of {ports} are taken by connections to it",
            loss.victim
        ),
        text: format!(
            "{} pass in sleeps between tries; {} were refused, {by} was the last to try. {stand}{ended}. Another address, or another \
             port there, can still be connected to.",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(tries.times as usize, "connection", "connections"),
        ),
        evidence: vec![
            Evidence::new(
                "connections refused for want of a port",
                tries.times as f64,
                "1",
                "sys_exit",
            ),
            Evidence::new("slept between the tries", loss.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("connections to {remote} that stand"),
                f64::from(used.open),
                "1",
                "sock_diag",
            ),
            Evidence::new(
                format!("connections to {remote} that have ended"),
                f64::from(used.time_wait),
                "1",
                "sock_diag",
            ),
            Evidence::new("ports that connections are given", f64::from(ports), "1", RANGE),
        ],
        remedy: remedies(measures, used),
    }
}

fn remedies(measures: &Measures<'_>, used: &PortUse) -> Vec<Remedy> {
    let sysctl = command_in(measures.model, used.netns, "sysctl");
    let pair = |(first, last): (u16, u16)| format!("{first} {last}");
    let set = |range| format!("{sysctl} -w {RANGE}='{}'", pair(range));
    let mut all = Vec::new();
    let (first, last) = used.range;
    if u32::from(last - first) < u32::from(WIDE.1 - WIDE.0) {
        all.push(Remedy::to("give connections more ports").set(
            Action::sysctl(RANGE, pair(WIDE), pair(used.range)).through(sysctl.through.as_ref()),
            set(WIDE),
            set(used.range),
        ));
    }
    // Of loopback the kernel does so by itself (2).
    let is_useful = |old: u32| old == 0 || !used.remote.ip().is_loopback();
    if let (Some(old @ (0 | 2)), true) = (used.reuse, used.time_wait > used.open)
        && is_useful(old)
    {
        let set = |value: u32| format!("{sysctl} -w {REUSE}={value}");
        all.push(Remedy::to("use the ports of ended connections again, after a second").set(
            Action::sysctl(REUSE, 1, old).through(sysctl.through.as_ref()),
            set(1),
            set(old),
        ));
    }
    let ss = command_in(measures.model, used.netns, "ss");
    all.push(Remedy {
        text: "see whose they are; a program that uses its connections again (keep-alive, a pool) needs few".into(),
        command: format!("{ss} -tanp dst {}", words::shell(&used.remote.to_string())),
        action: Some(Action::look(Question::State).through(ss.through.as_ref())),
        ..Remedy::default()
    });
    all
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;
    const EADDRNOTAVAIL: i32 = 99;
    const REMOTE: &str = "10.0.0.7:80";

    /// A client that is refused a port three times, while so many connections stand or have ended.
    fn refused(syscall: &str, open: u32, time_wait: u32) -> Vec<Fact> {
        let mut facts = host();
        facts.push(of_process(10, "client"));
        let address = Some(REMOTE.parse().expect("an address"));
        let refusal = Denied { errno: EADDRNOTAVAIL, address, ..refusal(10, "client", syscall) };
        for at in 1..=3 {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refusal.clone()) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        facts.push(fact(Body::PortUse(PortUse {
            netns: 1,
            remote: REMOTE.parse().expect("an address"),
            range: (40_000, 40_031),
            reserved: 1,
            time_wait,
            open,
            reuse: Some(2),
        })));
        facts
    }

    #[test]
    fn a_range_of_ports_that_is_used_up_is_said_with_what_takes_it() {
        let found = explain(refused("connect", 3, 28)).findings;
        assert_eq!((&*found[0].code, found.len()), ("net.ports_exhausted", 1));
        assert_eq!(found[0].culprit.name, "ip_local_port_range 40000 40031");
        assert_eq!(
            found[0].title,
            "client waits for a port to connect to 10.0.0.7:80 from: 31 of 31 are taken by connections to it"
        );
        let ways: Vec<&str> = found[0].remedy.iter().map(|way| &*way.command).collect();
        assert_eq!(ways[0], "sysctl -w net.ipv4.ip_local_port_range='1024 65535'");
        assert_eq!(ways[1], "sysctl -w net.ipv4.tcp_tw_reuse=1");
        assert_eq!(found[0].remedy[0].undo, "sysctl -w net.ipv4.ip_local_port_range='40000 40031'");
    }

    #[test]
    fn a_range_with_free_ports_is_not_exhausted() {
        let found = explain(refused("connect", 3, 4)).findings;
        assert_eq!(found[0].code, "process.retry");
    }

    #[test]
    fn an_address_that_is_missing_is_no_port() {
        let found = explain(refused("bind", 3, 28)).findings;
        assert_eq!(found[0].code, "process.retry");
    }

    /// The connections to that address in another network namespace, or of another range.
    fn beside(mut facts: Vec<Fact>, change: impl Fn(&mut PortUse)) -> Vec<Fact> {
        let last = facts.last().cloned();
        if let Some(Fact { body: Body::PortUse(mut used), .. }) = last {
            change(&mut used);
            facts.push(fact(Body::PortUse(used)));
        }
        facts
    }

    fn code(facts: Vec<Fact>) -> String {
        explain(facts).findings.remove(0).code
    }

    #[test]
    fn ended_connections_alone_can_take_all_ports() {
        assert_eq!(code(refused("connect", 0, 31)), "net.ports_exhausted");
    }

    #[test]
    fn of_two_namespaces_the_one_that_has_no_port_left_is_meant() {
        let facts = beside(refused("connect", 3, 28), |used| {
            (used.netns, used.open, used.time_wait) = (2, 10, 10);
        });
        let found = explain(facts).findings;
        assert!(found[0].title.contains("31 of 31 are taken"), "{}", found[0].title);
    }

    #[test]
    fn it_takes_nine_tenths_of_the_ports() {
        let taken = |open| {
            code(beside(refused("connect", 0, 0), |used| (used.reserved, used.open) = (2, open)))
        };
        assert_eq!(taken(27), "net.ports_exhausted", "of 30");
        assert_eq!(taken(26), "process.retry");
    }
}
