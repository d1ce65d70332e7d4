//! Words and ways out of the rules on packet filters: a rule as nft writes it, where it stands, and how what it keeps is let pass.
//!
//! A rule that iptables made has one put before it, which the same words take away again; any other is shown with its number. Must not: say which rule it
//! was, or that it is wrong. Rejected: taking the rule away as the first way out (nothing here can put it back as it was).
//!
//! Edit together: filter_drop.rs, filter_reject.rs.

use crate::facts::{FilterRule, GIVEN_PORTS, ObjectRef};
use crate::measure::packet_drops::Dropped;
use crate::model::{Model, words};
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::wording::Remedy;
use std::net::IpAddr;

/// `tcp dport 8080 drop`, as nft writes it.
pub(super) fn what(rule: &FilterRule) -> String {
    if rule.handle == 0 {
        return "policy drop".into();
    }
    let mut parts = Vec::new();
    // A table of `inet` has rules of both.
    let mut address = |word: &str, it: Option<(IpAddr, u8)>| {
        if let Some((network, bits)) = it {
            let whole = if network.is_ipv4() { u32::BITS } else { u128::BITS };
            let length = if u32::from(bits) == whole { String::new() } else { format!("/{bits}") };
            let ip = if network.is_ipv4() { "ip" } else { "ip6" };
            if bits == 0 {
                parts.push(format!("meta nfproto ipv{}", if network.is_ipv4() { 4 } else { 6 }));
                return;
            }
            parts.push(format!("{ip} {word} {network}{length}"));
        }
    };
    address("saddr", rule.source);
    address("daddr", rule.destination);
    let protocol = rule.protocol.as_deref();
    let port = |word: &str, port: Option<u16>| {
        port.map(|port| format!("{} {word} {port}", protocol.unwrap_or("th")))
    };
    let ports = [port("sport", rule.source_port), port("dport", rule.destination_port)];
    if let (Some(protocol), [None, None]) = (protocol, &ports) {
        parts.push(format!("meta l4proto {protocol}"));
    }
    parts.extend(ports.into_iter().flatten());
    parts.extend(rule.rest.iter().map(|name| format!("({name})")));
    parts.push(if rule.rejects { "reject" } else { "drop" }.into());
    parts.join(" ")
}

/// `chain ip filter OUTPUT, handle 4`.
pub(super) fn place(rule: &FilterRule) -> String {
    let chain = format!("chain {} {} {}", rule.family, rule.table, rule.chain);
    match rule.handle {
        0 => chain,
        handle => format!("{chain}, handle {handle}"),
    }
}

/// How the packets of a flow are let pass by the filter of a namespace, and what there is to see.
pub(super) fn ways_out(
    model: &Model,
    netns: u32,
    rule: Option<&FilterRule>,
    dropped: &Dropped<'_>,
) -> Vec<Remedy> {
    let nft = command_in(model, netns, "nft");
    let see = |text: String, command: String| Remedy {
        text,
        command,
        action: Some(Action::look(Question::State).through(nft.through.as_ref())),
        ..Remedy::default()
    };
    let all = "see the rules there, with their counters and handles";
    let Some(rule) = rule else {
        return vec![see(all.into(), format!("{nft} -a list ruleset"))];
    };
    let (table, chain) = (words::shell(&rule.table), words::shell(&rule.chain));
    let text = match rule.handle {
        0 => all.to_string(),
        handle => format!(
            "take that rule away, if nobody meant it ({nft} delete rule {} {table} {chain} handle {handle}); {all}",
            rule.family
        ),
    };
    let list = format!("{nft} -a list chain {} {table} {chain}", rule.family);
    let_pass(model, netns, rule, dropped).into_iter().chain([see(text, list)]).collect()
}

/// Where FTP's servers listen (RFC 959, RFC 4217).
const FTP_CONTROL_PORTS: [u16; 2] = [21, 990];

/// A port that the other end was given for one transfer of FTP, the next of which has another: who uses it has a control connection to that
/// host as well. Many servers listen at ports as high as that for good.
fn is_given_for_once(model: &Model, dropped: &Dropped<'_>, port: u16) -> bool {
    let (own, far) = match dropped.is_outgoing {
        true => (&dropped.flow.sender, dropped.flow.to.ip()),
        false => (&dropped.flow.receiver, dropped.flow.from.ip()),
    };
    let Some(own) = own.as_ref().filter(|_| port >= GIVEN_PORTS) else { return false };
    model.held.endpoints.iter().any(|end| match &end.object {
        ObjectRef::Inet(it) => {
            let is_control = FTP_CONTROL_PORTS.contains(&it.remote.port());
            end.process.pid == own.pid && it.is_tcp() && is_control && it.remote.ip() == far
        }
        _ => false,
    })
}

/// The other end of the waiter's flow by its address, and a port of the flow that the next connection has as well: the other end's, or the
/// own one, where the other is a client that was given a port for this connection.
fn lasting_end(dropped: &Dropped<'_>) -> (String, &'static str, u16) {
    let flow = dropped.flow;
    let (far, (far_word, far_port), (own_word, own_port)) = match dropped.is_outgoing {
        true => ("-d", ("--dport", flow.to.port()), ("--sport", flow.from.port())),
        false => ("-s", ("--sport", flow.from.port()), ("--dport", flow.to.port())),
    };
    let ip = if dropped.is_outgoing { flow.to.ip() } else { flow.from.ip() };
    let is_client = far_port >= GIVEN_PORTS && (1..GIVEN_PORTS).contains(&own_port);
    let (word, port) = if is_client { (own_word, own_port) } else { (far_word, far_port) };
    (format!("{far} {ip}"), word, port)
}

/// Before a rule that iptables made another one can be put, and be taken away by the same words.
fn let_pass(model: &Model, netns: u32, rule: &FilterRule, dropped: &Dropped<'_>) -> Option<Remedy> {
    const BUILT_IN: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];
    let tool = match rule.family.as_str() {
        "ip" => "iptables",
        "ip6" => "ip6tables",
        _ => return None,
    };
    if rule.table != "filter" || !BUILT_IN.contains(&&*rule.chain) {
        return None;
    }
    let (end, word, port) = lasting_end(dropped);
    let is_given = rule.destination_port.is_none() && is_given_for_once(model, dropped, port);
    let port = if port == 0 || is_given { String::new() } else { format!(" {word} {port}") };
    let tool = command_in(model, netns, tool);
    let of = |verb: &str| {
        format!("{tool} {verb} {} -p {} {end}{port} -j ACCEPT", rule.chain, dropped.flow.protocol)
    };
    Some(Remedy {
        text: match is_given {
            false => "let them pass, if nobody meant to keep them from it".into(),
            true => "let them pass, if nobody meant to keep them from it: all ports of that host, because this one was given for this transfer \
                     alone; narrower is what belongs to a connection that passes already (-m conntrack --ctstate RELATED, with its protocol's helper)"
                .into(),
        },
        command: of("-I"),
        undo: of("-D"),
        ..Remedy::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DroppedFlow, PacketDrops};

    #[test]
    fn an_address_of_ipv6_is_written_so_in_a_table_of_both() {
        let to = |address: &str, bits| FilterRule {
            handle: 2,
            family: "inet".into(),
            destination: Some((address.parse().expect("an address"), bits)),
            ..FilterRule::default()
        };
        assert_eq!(what(&to("fd77::2", 128)), "ip6 daddr fd77::2 drop");
        assert_eq!(what(&to("10.0.0.0", 8)), "ip daddr 10.0.0.0/8 drop");
    }

    #[test]
    fn a_port_that_was_given_to_a_client_is_in_no_way_out() {
        let said = |from: &str, to: &str, is_outgoing: bool| {
            let flow = DroppedFlow {
                protocol: "tcp".into(),
                from: from.parse().expect("an address"),
                to: to.parse().expect("an address"),
                packets: 1,
                first_ns: 1,
                last_ns: 2,
                socket_ino: 0,
                sender: None,
                receiver: None,
            };
            let kind = PacketDrops::default();
            let (end, word, port) = lasting_end(&Dropped { kind: &kind, flow: &flow, is_outgoing });
            format!("{end} {word} {port}")
        };
        let (client, server) = ("10.0.0.1:40000", "10.0.0.2:80");
        assert_eq!(said(client, server, true), "-d 10.0.0.2 --dport 80", "a client's question");
        assert_eq!(said(server, client, false), "-s 10.0.0.2 --sport 80", "its answer");
        assert_eq!(said(server, client, true), "-d 10.0.0.1 --sport 80", "what a server sends");
        assert_eq!(said(client, server, false), "-s 10.0.0.1 --dport 80", "what it waits for");
        let high = said(client, "10.0.0.2:50000", true);
        assert_eq!(high, "-d 10.0.0.2 --dport 50000", "a server at such a port");
    }
}
