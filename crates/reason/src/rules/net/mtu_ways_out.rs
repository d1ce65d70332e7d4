//! Ways out of packets that are too long: the router's word let through, one MTU on the way, shorter segments.
//!
//! Theory: who is told sends shorter packets, so what keeps the word from him comes first. An MTU is raised only where nothing below the interface
//! is shorter (a veth), and lowered only of a tunnel whose headers are known. Segments are lowered where connections are routed, for those that are
//! made from then on. Must not: raise the MTU of what leads to another host, whose other end is not seen. Rejected: path MTU probing
//! (net.ipv4.tcp_mtu_probing: it hides the way that drops, and starts only after the same losses).
//!
//! Edit together: too_long.rs, mtu.rs.

use crate::facts::Link;
use crate::measure::filter_rules::suspects;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::too_long::TooLong;
use crate::rules::net::ways_out::command_in;
use crate::rules::wording::Remedy;

/// The reason that only who routes a packet gives.
const TOO_BIG: &str = "PKT_TOO_BIG";
/// The kind of an interface that hands a packet on in memory.
const VETH: &str = "veth";

/// Below this an interface has no IPv6 any more (RFC 8200, section 5).
const IPV6_BYTES_MIN: u32 = 1280;

/// Best first; where none is known, where to look.
pub(super) fn ways_out(of: &TooLong<'_, '_>) -> Vec<Remedy> {
    let all = [let_word_pass(of), lower_tunnel(of), raise(of), clamp(of)];
    let mut all: Vec<Remedy> = all.into_iter().flatten().collect();
    if all.is_empty() {
        all.extend(look(of));
    }
    all
}

/// Before the rule that drops the router's word; where that is none of iptables', its rules are shown.
fn let_word_pass(of: &TooLong<'_, '_>) -> Option<Remedy> {
    const BUILT_IN: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];
    let (word, model) = (of.word.as_ref()?, of.measures.model);
    let netns = word.kind.netns;
    // The router itself makes it.
    let is_own = netns == of.first().kind.netns;
    let (tool, protocol, kind) = match word.flow.to.ip().to_canonical().is_ipv4() {
        true => ("iptables", "icmp", "--icmp-type fragmentation-needed"),
        false => ("ip6tables", "icmpv6", "--icmpv6-type packet-too-big"),
    };
    let rule = suspects(model, word, is_own).rule;
    let is_of_tool = |table: &str, chain: &str| table == "filter" && BUILT_IN.contains(&chain);
    let Some(rule) = rule.filter(|it| is_of_tool(&it.table, &it.chain)) else {
        let nft = command_in(model, netns, "nft");
        return Some(Remedy {
            text: "let ICMP of type 3, code 4 (IPv6: type 2) pass there; see its rules".into(),
            command: format!("{nft} -a list ruleset"),
            action: Some(Action::look(Question::State).through(nft.through.as_ref())),
            ..Remedy::default()
        });
    };
    let tool = command_in(model, netns, tool);
    let command =
        |verb: &str| format!("{tool} {verb} {} -p {protocol} {kind} -j ACCEPT", rule.chain);
    Some(Remedy {
        text: "let the router's word pass, so that senders hear of it and send shorter packets"
            .into(),
        command: command("-I"),
        undo: command("-D"),
        ..Remedy::default()
    })
}

/// Sets an MTU, and sets it back.
fn set(of: &TooLong<'_, '_>, text: String, link: &Link, bytes: u32) -> Remedy {
    let ip = command_in(of.measures.model, link.netns, "ip");
    let name = words::shell(&link.name);
    let command = |bytes: u32| format!("{ip} link set dev {name} mtu {bytes}");
    Remedy { command: command(bytes), undo: command(link.mtu), ..Remedy::to(text) }
}

/// Of a tunnel of the kernel's: so much less as it adds.
fn lower_tunnel(of: &TooLong<'_, '_>) -> Option<Remedy> {
    let ((tunnel, carried), link) = (of.carried()?, of.link?);
    let bytes = link.mtu.checked_sub(carried - tunnel.mtu).filter(|it| *it >= IPV6_BYTES_MIN)?;
    let text =
        format!("have {} take only what fits into {} with its headers", tunnel.name, link.name);
    (bytes < tunnel.mtu).then(|| set(of, text, tunnel, bytes))
}

/// Of a veth: as much as the sender's interface and its other end have.
fn raise(of: &TooLong<'_, '_>) -> Option<Remedy> {
    let link = of.link.filter(|it| it.kind == VETH)?;
    let wanted = match of.tunnel() {
        Some(_) => of.carried()?.1,
        None => of.sender.as_ref()?.link?.mtu,
    };
    let peer = of.measures.model.net.peer(link)?;
    let text = format!("give {} the MTU that packets are sent with", link.name);
    (link.mtu < wanted && peer.mtu >= wanted).then(|| set(of, text, link, wanted))
}

/// Where connections are routed.
fn clamp(of: &TooLong<'_, '_>) -> Option<Remedy> {
    let (first, model) = (of.first(), of.measures.model);
    let waits_there = of.at.losing[0].netns == Some(first.kind.netns);
    let is_sent_there = match &of.sender {
        Some(sender) => sender.netns == first.kind.netns,
        None => first.is_outgoing && waits_there,
    };
    let is_routed = first.kind.reason == TOO_BIG && !is_sent_there;
    if !is_routed || first.flow.protocol != "tcp" || of.tunnel().is_some() {
        return None;
    }
    let is_v4 = first.flow.to.ip().to_canonical().is_ipv4();
    let tool = command_in(model, first.kind.netns, if is_v4 { "iptables" } else { "ip6tables" });
    let command = |verb: &str| {
        format!(
            "{tool} -t mangle {verb} FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu"
        )
    };
    Some(Remedy {
        text: "have connections that are made from now on send what fits through that router"
            .into(),
        command: command("-A"),
        undo: command("-D"),
        ..Remedy::default()
    })
}

fn look(of: &TooLong<'_, '_>) -> Option<Remedy> {
    let kind = of.first().kind;
    let (netns, name) = match of.link {
        Some(link) => (link.netns, &link.name),
        None => (kind.netns, &kind.interface),
    };
    let ip = command_in(of.measures.model, netns, "ip");
    if of.is_beyond {
        return Some(Remedy {
            text: format!(
                "see the MTU of the route there, and whether IPsec is on the way ({ip} xfrm state)"
            ),
            command: format!("{ip} route get {}", of.first().flow.to.ip().to_canonical()),
            action: Some(Action::look(Question::State).through(ip.through.as_ref())),
            ..Remedy::default()
        });
    }
    (!name.is_empty()).then(|| Remedy {
        text: "see the MTU there: what sends by it may have no greater one".into(),
        command: format!("{ip} -d link show dev {}", words::shell(name)),
        action: Some(Action::look(Question::State).through(ip.through.as_ref())),
        ..Remedy::default()
    })
}
