//! net.no_route: a connection or a datagram is refused again and again because this host's own routes send nothing to its address.
//!
//! Two witnesses: the refused calls, and the kernel's answer about that address in the namespace of who was refused, with the rule and the route
//! that ended its search where it was one of those. Must not: speak where the routes lead there now (a router on the way, or a neighbour that does
//! not answer, gives EHOSTUNREACH too: process.retry). Rejected: the error alone (EACCES may come of a security module, EINVAL of a wrong call).
//!
//! Edit together: probe's readers/unrouted.rs, waits/retries.rs.

use crate::facts::*;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.no_route",
    title: "This host's own routes send nothing to an address",
    theory: "Before a connection is asked for, or a datagram is sent, the kernel looks for a route to its address: by the rules of routing, each of which leads to a table. \
             Where no table has one, or the first that fits is of type unreachable, prohibit or blackhole, the call fails at once, and not a packet \
             leaves. The errors (ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL) say neither the route nor the table. A container without a network, \
             an interface that is down and what a VPN or a policy has left behind look like this.",
    needs: &[
        "connections or datagrams to one address were refused again and again, with sleeps in between",
        "the routes of that network namespace say that nothing is sent there",
    ],
    refuted_by: &[
        Refutation::new(
            "the routes lead there: somebody else refuses it",
            "an_address_that_routes_lead_to_is_refused_by_somebody_else",
        ),
        Refutation::new(
            "it is another namespace that has no route",
            "the_routes_of_another_namespace_say_nothing",
        ),
    ],
    remedies: &[
        "give it a route, or bring the interface up that had one",
        "take the route or the rule away that refuses it, if it is not meant",
    ],
    stories: &[],
    thresholds: &[&refusal_words::SLEPT_MIN],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let (WaitClass::NoRoute, Object::Address(address)) = (end.class, &end.object) else {
        return None;
    };
    let tries = refusal_words::tries(measures, end)?;
    let unrouted = measures.model.unrouted(tries.last)?;
    let by = Culprit::setting(what(unrouted), String::new());
    let matched = Match::new(by, Proof::TwoWitnesses, move |loss| {
        let slept = refusal_words::between(&tries, loss.seconds, loss.wall_seconds);
        let (victim, by) = (&loss.victim, measures.model.threads.who(&tries.last.thread));
        Wording {
            title: format!("{victim} waits for a way to {address}: {}", clause(unrouted)),
            text: format!("{slept} {by} was the last to try. {}", said(measures, unrouted)),
            evidence: refusal_words::evidence(&tries, loss.seconds),
            remedy: vec![remedy(measures, unrouted, *address)],
        }
    });
    Some(matched)
}

/// A type of route, as ip-route(8) writes it.
fn kind(answer: NoRoute) -> &'static str {
    match answer {
        NoRoute::None | NoRoute::Unreachable => "unreachable",
        NoRoute::Blackhole => "blackhole",
        NoRoute::Prohibit => "prohibit",
    }
}

/// A table by its name (rt_tables of iproute2) or number.
fn table(number: u32) -> String {
    match number {
        253 => "default".into(),
        254 => "main".into(),
        255 => "local".into(),
        other => other.to_string(),
    }
}

/// `prohibit 10.71.2.0/24 table 100`: the route as it is given to `ip route`.
fn route_words(answer: NoRoute, route: &RefusingRoute) -> String {
    let metric = match route.metric {
        0 => String::new(),
        metric => format!(" metric {metric}"),
    };
    let RefusingRoute { prefix, bits, .. } = route;
    format!("{} {prefix}/{bits} table {}{metric}", kind(answer), table(route.table))
}

/// What has to be changed.
fn what(unrouted: &Unrouted) -> String {
    match &unrouted.by {
        Some(RefusingRule { route: Some(route), .. }) => {
            format!("route {}", route_words(unrouted.answer, route))
        }
        Some(RefusingRule { priority, route: None }) => format!("rule {priority} of the routes"),
        None => format!("route to {}", unrouted.address),
    }
}

/// Why nothing is sent there, after a colon.
fn clause(unrouted: &Unrouted) -> String {
    match (&unrouted.by, unrouted.answer) {
        (Some(RefusingRule { route: Some(route), .. }), answer) => {
            format!("the route {} refuses it", route_words(answer, route))
        }
        (Some(RefusingRule { priority, .. }), _) => {
            format!("rule {priority} of its routes refuses it")
        }
        (None, NoRoute::None) => "no route leads there".into(),
        (None, answer) => format!("a route of type {} refuses it", kind(answer)),
    }
}

/// The same in a sentence, with what else is known.
fn said(measures: &Measures<'_>, unrouted: &Unrouted) -> String {
    match (&unrouted.by, unrouted.answer) {
        (Some(RefusingRule { priority, route: Some(route) }), _) => format!(
            "Rule {priority} of its network namespace's routes leads to table {}, whose route to {}/{} is of type {}: no packet leaves.",
            table(route.table),
            route.prefix,
            route.bits,
            kind(unrouted.answer),
        ),
        (Some(RefusingRule { priority, route: None }), _) => format!(
            "Rule {priority} of its network namespace's routes refuses it: no packet leaves."
        ),
        (None, NoRoute::None) => format!(
            "The kernel finds none by the rules of its network namespace, nor a default route{}.",
            interfaces(measures, unrouted.netns)
        ),
        (None, answer) => format!(
            "A route of its network namespace that fits the address is of type {}: no packet leaves.",
            kind(answer)
        ),
    }
}

/// `: it has no interface but lo`; nothing if one of its interfaces carries packets.
fn interfaces(measures: &Measures<'_>, netns: u32) -> String {
    const LISTED_MAX: usize = 3;
    let of = measures.model.net.links.iter().filter(|link| link.netns == netns);
    let all: BTreeMap<u32, &Link> = of.map(|link| (link.index, link)).collect();
    if all.is_empty() {
        return String::new();
    }
    let others: Vec<&&Link> = all.values().filter(|link| link.name != "lo").collect();
    if others.iter().any(|link| link.carrier != Some(false)) {
        return String::new();
    }
    let names: Vec<&str> = others.iter().take(LISTED_MAX).map(|link| link.name.as_str()).collect();
    match names.len() {
        0 => ": it has no interface but lo".into(),
        _ if others.len() > LISTED_MAX => ": none of its interfaces is up with a carrier".into(),
        1 => format!(": {}, its only interface, is down or has no carrier", names[0]),
        _ => format!(": all of its interfaces, {}, are down or have no carrier", names.join(", ")),
    }
}

fn remedy(measures: &Measures<'_>, unrouted: &Unrouted, address: SocketAddr) -> Remedy {
    let ip = command_in(measures.model, unrouted.netns, "ip");
    let to = address.ip().to_canonical();
    let six = if to.is_ipv6() { " -6" } else { "" };
    let (text, command) = match &unrouted.by {
        Some(RefusingRule { route: Some(route), .. }) => (
            format!(
                "if it is not meant, take it away ({ip}{six} route del {}), or add a route to a part of it; what stands in that table",
                route_words(unrouted.answer, route)
            ),
            format!("{ip}{six} route show table {}", table(route.table)),
        ),
        Some(RefusingRule { priority, .. }) => (
            format!(
                "if it is not meant, take the rule away ({ip}{six} rule del pref {priority}); all rules"
            ),
            format!("{ip}{six} rule show"),
        ),
        None if unrouted.answer == NoRoute::None => (
            format!(
                "bring the interface up that leads there, or give it a route by its gateway ({ip} route add {to} via GATEWAY); the kernel's word on it"
            ),
            format!("{ip} route get {to}"),
        ),
        None => {
            ("see which route that is, and take it away or add a longer one; the kernel's word on it".into(), format!("{ip} route get {to}"))
        }
    };
    let action = Some(Action::look(Question::State).through(ip.through.as_ref()));
    Remedy { text, command, action, ..Remedy::default() }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;

    fn refused(errno: i32, more: Vec<Body>) -> Vec<Finding> {
        refused_at("10.9.9.9:80", errno, more)
    }

    /// A client of namespace 1 that is refused, and sleeps for a second each time.
    fn refused_at(to: &str, errno: i32, more: Vec<Body>) -> Vec<Finding> {
        let mut facts = host();
        facts.push(of_process(10, "client"));
        let identity = Thread { thread: thread(10, "client"), netns: 1, ..Thread::default() };
        facts.push(fact(Body::Thread(identity)));
        let address = Some(to.parse().expect("an address"));
        for at in 1..=3 {
            let refused = Denied { errno, address, ..refusal(10, "client", "connect") };
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refused) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        facts.extend(more.into_iter().map(fact));
        explain(facts).findings
    }

    fn unrouted(netns: u32, answer: NoRoute, by: Option<RefusingRule>) -> Body {
        let address = "10.9.9.9".parse().expect("an address");
        Body::Unrouted(Unrouted { netns, address, answer, by })
    }

    #[test]
    fn the_route_and_its_table_are_named() {
        let prefix = "10.9.0.0".parse().expect("an address");
        let route = Some(RefusingRoute { prefix, bits: 16, table: 100, metric: 0 });
        let by = Some(RefusingRule { priority: 500, route });
        let found = refused(13, vec![unrouted(1, NoRoute::Prohibit, by)]);
        assert_eq!(
            (&*found[0].code, &*found[0].culprit.name),
            ("net.no_route", "route prohibit 10.9.0.0/16 table 100")
        );
        assert!(found[0].text.contains("Rule 500"), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "ip route show table 100");
    }

    #[test]
    fn without_a_route_its_interfaces_are_said_if_none_is_up() {
        let down = Link {
            netns: 1,
            index: 2,
            name: "eth0".into(),
            carrier: Some(false),
            ..Link::default()
        };
        let of = |links: Vec<Link>| {
            let none = unrouted(1, NoRoute::None, None);
            let links = links.into_iter().map(Body::Link);
            refused(101, [none].into_iter().chain(links).collect()).remove(0)
        };
        let found = of(vec![down.clone()]);
        assert_eq!(found.title, "client waits for a way to 10.9.9.9:80: no route leads there");
        assert!(found.text.ends_with("eth0, its only interface, is down or has no carrier."));
        let up = Link { index: 3, carrier: Some(true), ..down.clone() };
        assert!(of(vec![down, up]).text.ends_with("nor a default route."));
    }

    #[test]
    fn a_datagram_that_no_route_takes_is_refused_as_well() {
        let mut facts = host();
        facts.push(of_process(10, "client"));
        let identity = Thread { thread: thread(10, "client"), netns: 1, ..Thread::default() };
        facts.push(fact(Body::Thread(identity)));
        let remote = "10.9.9.9:161".parse().expect("an address");
        let address = Some(remote);
        // That its socket has an address by what it sends is no connection.
        facts.push(endpoint(10, "client", inet("udp", 5, "0.0.0.0:40000", "0.0.0.0:0", 0)));
        let protocol = "udp".into();
        facts.push(fact(Body::SentTo(SentTo { pid: 10, protocol, local_port: 40_000, remote })));
        for at in 1..=3 {
            let refused = Denied { errno: 101, address, ..refusal(10, "client", "sendto") };
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refused) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        facts.push(fact(unrouted(1, NoRoute::None, None)));
        let found = explain(facts).findings;
        assert_eq!(found[0].code, "net.no_route");
        assert!(found[0].text.contains("(sendto: ENETUNREACH)"), "{}", found[0].text);
    }

    #[test]
    fn an_address_that_routes_lead_to_is_refused_by_somebody_else() {
        let code = |errno| refused(errno, Vec::new()).first().map(|it| it.code.clone());
        assert_eq!(code(113).as_deref(), Some("process.retry"));
        assert_eq!(code(22), None, "a wrong call");
        let prohibits = refused(113, vec![unrouted(1, NoRoute::Prohibit, None)]);
        assert_eq!(prohibits[0].code, "process.retry", "that would have been EACCES");
    }

    #[test]
    fn an_ipv6_address_may_not_be_the_last_that_was_tried() {
        let address = "fd00::9".parse().expect("an address");
        let none = Unrouted { netns: 1, address, answer: NoRoute::None, by: None };
        assert_eq!(refused_at("[fd00::9]:80", 101, vec![Body::Unrouted(none)]), []);
    }

    #[test]
    fn the_routes_of_another_namespace_say_nothing() {
        let found = refused(101, vec![unrouted(2, NoRoute::None, None)]);
        assert_eq!(found[0].code, "process.retry");
    }
}
