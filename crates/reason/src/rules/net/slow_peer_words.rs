//! What is said of a peer elsewhere that is waited for, and what one does about it.
//!
//! Owns the words of slow_peer.rs. Must not: decide whether it is a finding.

use super::address_family::{Instead, family, instead};
use super::neighbour_wrong::permanent_entry;
use super::ways_out::command_in;
use super::who_waits::who_waits;
use crate::facts::*;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::ask;
use crate::rules::wording::{Evidence, Remedy, Wording};
use std::net::SocketAddr;

/// Waits for what a peer elsewhere has to say.
pub(super) fn answering(
    measures: &Measures<'_>,
    address: SocketAddr,
    end: &End,
    again: Option<u64>,
) -> Wording {
    let waits = who_waits(measures, end);
    let nothing_lost = match is_here(address) || is_of_this_host(measures, end) {
        true => "",
        false => {
            " This host sent nothing twice meanwhile: the time passes at the peer or on the way from it."
        }
    };
    Wording {
        title: format!("{waits} for {address}, which takes its time to answer"),
        text: format!(
            "{} pass in waits for what it sends, {} the longest.{}{}{}",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::seconds(end.longest_seconds),
            translated(measures, end),
            if is_here(address) { UNSEEN } else { "" },
            match again {
                None => String::new(),
                Some(0) => nothing_lost.to_string(),
                Some(n) => format!(
                    " This host sent {} again meanwhile: the way may lose packets.",
                    words::count(n as usize, "segment", "segments")
                ),
            },
        ),
        evidence: [
            Evidence::new("time waited for data", end.seconds, "s", "sched_switch"),
            Evidence::new("longest wait for data", end.longest_seconds, "s", "sched_switch"),
        ]
        .into_iter()
        .chain(again.map(|again| {
            let source = "/proc/net/snmp Tcp.RetransSegs";
            Evidence::new("segments sent again", again as f64, "1", source)
        }))
        .collect(),
        remedy: ways_out(measures, address, end, "see how far away it is, and what it does"),
    }
}

/// Waits for what a peer elsewhere may say next, who has had the last word. `is_open`: that word may be the protocol's own, and no answer.
pub(super) fn may_send_more(
    measures: &Measures<'_>,
    address: SocketAddr,
    end: &End,
    is_open: bool,
) -> Wording {
    let last_word = if is_open {
        "What came last from that peer came right after what was sent last to it: it may be the answer, or no more than the protocol's own \
         (TLS session tickets, HTTP/2 settings), with the answer still to come."
    } else {
        "That peer has had the last word: it is late only if its answer, or a part of it, is still to come."
    };
    Wording {
        title: format!("{} for what {address} sends next", who_waits(measures, end)),
        text: format!(
            "{} pass in this wait.{}{} {last_word} Who listens for news or for work waits so all day.",
            words::of_window(end.seconds, measures.wall_seconds()),
            translated(measures, end),
            if is_here(address) { UNSEEN } else { "" },
        ),
        evidence: vec![Evidence::new("time waited for data", end.seconds, "s", "sched_switch")],
        remedy: ways_out(measures, address, end, "see how far away it is, if more is to come"),
    }
}

/// A loopback address never leaves its host: whoever has the other end is a process here, which only root may see, or behind a translation.
fn is_here(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The peer's address is one of another network namespace of this host, or packets that it sent were dropped on this host: what that other end
/// sends again is not counted where it is waited for.
fn is_of_this_host(measures: &Measures<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else { return false };
    let Some(socket) = measures.model.called.socket(ino) else { return false };
    let net = &measures.model.net;
    let to = (socket.netns, socket.remote.ip().to_canonical());
    let mut flows = net.drops.iter().flat_map(|drops| &drops.flows);
    net.drop_causes.addresses_here.contains_key(&to)
        || flows.any(|it| {
            it.protocol == socket.protocol && (it.from, it.to) == (socket.remote, socket.local)
        })
}

/// What is said of such a peer.
const UNSEEN: &str = " The address is this host's own; who answers there could not be seen.";

/// Whom it is really, where its address stands for another.
fn translated(measures: &Measures<'_>, end: &End) -> String {
    let Object::Inet(ino) = end.object else { return String::new() };
    let Some(socket) = measures.model.called.socket(ino) else { return String::new() };
    match measures.model.called.translations.other_end(socket) {
        (far, _) if far == socket.remote => String::new(),
        (far, _) => format!(" That address stands for {far} here: this host translates it (NAT)."),
    }
}

/// This side of the connection, and the way to the peer.
fn ways_out(measures: &Measures<'_>, address: SocketAddr, end: &End, text: &str) -> Vec<Remedy> {
    let socket = match end.object {
        Object::Inet(ino) => measures.model.called.socket(ino),
        _ => None,
    };
    let see = "see what this side knows of the connection: what was not acknowledged, and since when nothing came";
    let own = socket.map(|socket| ask::of_socket(measures.model, socket, see));
    let netns = socket.map_or(0, |it| it.netns);
    if is_here(address) {
        let ss = command_in(measures.model, netns, "ss");
        let flags = if socket.is_none_or(InetRef::is_tcp) { "-tlnp" } else { "-ulnp" };
        let who = Remedy {
            text: "see who listens there (root sees every name, and is led to it)".into(),
            command: format!("{ss} {flags} 'sport = :{}'", address.port()),
            action: Some(Action::look(Question::State).through(ss.through.as_ref())),
            ..Remedy::default()
        };
        return own.into_iter().chain([who]).collect();
    }
    let mtr = command_in(measures.model, netns, "mtr");
    let by = if socket.is_none_or(InetRef::is_tcp) { "--tcp" } else { "--udp" };
    let way = Remedy {
        text: text.into(),
        command: format!("{mtr} -n {by} --port {} {}", address.port(), address.ip()),
        action: Some(Action::look(Question::State).through(mtr.through.as_ref())),
        ..Remedy::default()
    };
    own.into_iter().chain([way]).collect()
}

/// What is done about a family of addresses that is dead.
fn other_way(measures: &Measures<'_>, end: &End, address: SocketAddr, by: &str) -> Remedy {
    let netns = match end.object {
        Object::Inet(ino) => measures.model.called.socket(ino).map_or(0, |it| it.netns),
        _ => 0,
    };
    let ip = command_in(measures.model, netns, "ip");
    let tried = family(address);
    // gai.conf(5): the order of getaddrinfo alone.
    let (first, version) = match by {
        "IPv4" => {
            (" (or let names lead to IPv4 first: precedence ::ffff:0:0/96 100 in gai.conf)", 6)
        }
        _ => ("", 4),
    };
    Remedy {
        text: format!(
            "bring {tried} there in order (its route, or a filter that drops it), or take that address out of the name's{first}"
        ),
        command: format!("{ip} -{version} route get {}", address.ip().to_canonical()),
        action: Some(Action::look(Question::State).through(ip.through.as_ref())),
        ..Remedy::default()
    }
}

/// What an address does not do, and the other family does: for the title, and in a sentence.
fn by_the_other(other: Instead, tried: &str, seconds: f64) -> (String, String) {
    let (by, to) = (family(other.address), other.address.ip().to_canonical());
    match other.next {
        true => (
            format!("does not answer by {tried}: {by} is tried next, and does"),
            format!(
                " {} went to {tried}, which is dead there: the same thread gets through to {to} by {by} right after it.",
                words::seconds(seconds)
            ),
        ),
        false => (
            format!("does not answer by {tried}, while {by} does"),
            format!(" By {by}, and not by {tried}, it gets through to {to}."),
        ),
    }
}

/// Waits to be connected.
pub(super) fn connecting(
    measures: &Measures<'_>,
    address: SocketAddr,
    end: &End,
    again: Option<u64>,
) -> Wording {
    let waits = who_waits(measures, end);
    let other = instead(measures, end, address);
    let (does, then) = other.map_or_else(
        || ("does not answer".to_string(), String::new()),
        |other| by_the_other(other, family(address), end.seconds),
    );
    let mut ways = ways_out(measures, address, end, "see whether it can be reached at all");
    if let Some(other) = other {
        ways.insert(0, other_way(measures, end, address, family(other.address)));
    }
    Wording {
        title: format!("{waits} for a connection to {address}, which {does}"),
        text: format!(
            "{} pass in waits to be connected, {} the longest{}.{}{then}",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::seconds(end.longest_seconds),
            again.map_or_else(String::new, |n| format!(
                "; {}",
                words::count(n as usize, "attempt was repeated", "attempts were repeated")
            )),
            translated(measures, end),
        ),
        evidence: std::iter::once(Evidence::new(
            "longest wait to be connected",
            end.longest_seconds,
            "s",
            "sched_switch",
        ))
        .chain(again.map(|again| {
            let source = "/proc/net/netstat TcpExt.TCPSynRetrans";
            Evidence::new("attempts to connect that were repeated", again as f64, "1", source)
        }))
        .chain(permanent_entry(measures, end))
        .collect(),
        remedy: ways,
    }
}
