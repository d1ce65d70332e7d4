//! net.address_duplicate where two network namespaces of this host have one address on one link: whoever asks for it gets the hardware address of
//! the one that answered last, and speaks to somebody who knows nothing of him.
//!
//! Both have it by their own tables, and frames come to both from where it is asked for. Must not: take two for it of which frames reach one alone, or
//! that share a hardware address on purpose (a gateway that is everywhere). Rejected: a neighbour entry that changes (a move of the address looks
//! the same).

use crate::facts::{AddressHere, InetRef, Link, NextHop};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::link_path::surely_passes;
use crate::model::words;
use crate::rules::Match;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{is_long, is_noticed, of_namespace};
use crate::rules::net::neighbour_failed::{For, next_hop};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Who has the address, and the ends that wait for it.
struct Twice<'m> {
    hop: &'m NextHop,
    has: Vec<&'m AddressHere>,
    remote: SocketAddr,
    what: For,
    ends: Vec<usize>,
}

/// Of each address that is waited for.
pub(super) fn found<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    // None of an address that one alone has: many may wait for it.
    let mut all: BTreeMap<(u32, u32, IpAddr), Option<Twice<'m>>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        let Some((what, socket, hop)) = next_hop(measures, end) else { continue };
        if !is_known(measures, hop) || !is_lost(measures, what, socket) {
            continue;
        }
        let key = (hop.netns, hop.index, hop.neighbour());
        if !all.contains_key(&key) && !is_long(measures, end) {
            continue;
        }
        let known = all.entry(key).or_insert_with(|| {
            let (has, remote) = (who_have(measures, hop), socket.remote);
            (has.len() > 1).then(|| Twice { hop, has, remote, what, ends: Vec::new() })
        });
        if let Some(known) = known {
            known.ends.push(at);
        }
    }
    all.into_values().flatten().filter_map(|twice| matched(measures, ends, twice)).collect()
}

/// Somebody here has the address of a next hop.
fn is_known(measures: &Measures<'_>, hop: &NextHop) -> bool {
    let here = &measures.model.net.drop_causes.addresses_here;
    here.contains_key(&(hop.netns, hop.neighbour()))
}

/// A connection is being made, or something was sent again: an answer that is merely slow comes from whoever of the two was asked (one of them may
/// well answer for the address alone, arp_ignore).
fn is_lost(measures: &Measures<'_>, what: For, socket: &InetRef) -> bool {
    let mut streams = measures.tcp_streams.iter().filter(|it| it.change.retransmits > 0);
    let is_of = |it: &InetRef| {
        it.ino == socket.ino || (it.local, it.remote) == (socket.remote, socket.local)
    };
    what == For::Connection || streams.any(|it| is_of(it.socket))
}

/// The interfaces of other namespaces that have the address of a next hop and that frames come to, one of each hardware address.
fn who_have<'m>(measures: &'m Measures<'_>, hop: &NextHop) -> Vec<&'m AddressHere> {
    let net = &measures.model.net;
    let here = net.drop_causes.addresses_here.get(&(hop.netns, hop.neighbour()));
    let others = here.into_iter().flatten().filter(|it| it.far_netns != hop.netns);
    let hardware: BTreeSet<&str> =
        others.clone().filter_map(|it| Some(it.hardware.first()?.as_str())).collect();
    // The way to each is walked only where there may be two.
    if hardware.len() < 2 {
        return Vec::new();
    }
    let mut by_hardware: BTreeMap<&str, &AddressHere> = BTreeMap::new();
    for it in others {
        let Some(hardware) = it.hardware.first() else { continue };
        if surely_passes(net, (hop.netns, hop.index), (it.far_netns, it.far_index)) {
            by_hardware.entry(hardware).or_insert(it);
        }
    }
    let first = by_hardware.values().next().map(|it| it.far_netns);
    let is_one = by_hardware.values().all(|it| Some(it.far_netns) == first);
    if is_one { Vec::new() } else { by_hardware.into_values().collect() }
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], twice: Twice<'m>) -> Option<Match<'m>> {
    let end = End::merged(twice.ends.iter().map(|at| &ends[*at]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let wording = wording(measures, &end, &twice);
    let address = twice.hop.neighbour().to_string();
    let by = Culprit::peer(address.clone(), address);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(twice.ends.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

/// `eth0 of network namespace blue`.
fn name(measures: &Measures<'_>, here: &AddressHere) -> String {
    let mut links = measures.model.net.links.iter().rev();
    let is_it = |it: &&Link| (it.netns, it.index) == (here.far_netns, here.far_index);
    let name = links.find(is_it).map_or("an interface", |it| it.name.as_str());
    format!("{name}{}", of_namespace(measures.model, here.far_netns))
}

fn wording(measures: &Measures<'_>, end: &End, twice: &Twice<'_>) -> Wording {
    let Twice { hop, has, .. } = twice;
    let (address, interface) = (hop.neighbour(), &hop.interface);
    let names: Vec<String> = has.iter().map(|it| name(measures, it)).collect();
    let both = names.join(" and ");
    let answered = has.iter().find(|it| it.hardware.first() == Some(&hop.hardware));
    let goes = answered.map_or_else(String::new, |it| {
        format!(" As the look ends that is {} ({}).", name(measures, it), hop.hardware)
    });
    let ip = command_in(measures.model, hop.netns, "ip");
    Wording {
        title: format!(
            "{} {}, whose {whose} {address} two have on one link: {both}",
            who_waits(measures, end),
            twice.what.words(&twice.remote.to_string()),
            whose = if hop.gateway.is_some() { "gateway's address" } else { "address" },
        ),
        text: format!(
            "{} pass so. Who asks for {address} on {interface} sends to whichever of them answered last.{goes} A connection that was made to the \
             other one is known to nobody there.",
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        evidence: vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("interfaces that have {address}, and that frames from {interface} come to"),
                has.len() as f64,
                "1",
                "rtnetlink RTM_GETADDR, RTM_GETLINK",
            ),
        ],
        remedy: vec![
            Remedy::to(format!("take {address} off the one that is not meant to have it")),
            Remedy {
                text: "see whose hardware address it is sent to now".into(),
                command: format!("{ip} neigh show {address} dev {}", words::shell(interface)),
                action: Some(Action::look(Question::State).through(ip.through.as_ref())),
                ..Remedy::default()
            },
        ],
    }
}
