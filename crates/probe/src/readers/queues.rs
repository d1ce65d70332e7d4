//! Interfaces and their queueing disciplines, as a source: at both ends of a look with filters, and their counters at each tick.
//!
//! What waits in a queue is only seen at the moment; while nothing does, the last reading is reported again (standstill.rs). Interfaces on
//! which packets stand or are lost, adapters of many packets, and adapters that carry much while somebody's transfer is asked about, are named for
//! whoever asks their drivers. Must not: know how it is asked (netlink/).

use super::look::Look;
use super::netlink::links::links;
use super::netlink::qdiscs::qdiscs;
use super::netlink::{Netlink, Place};
use super::reader::{Opening, Reader, Tick};
use super::standstill::Standstill;
use crate::SourceError;
use crate::system::clock::now;
use holdup_reason::facts::{Blind, Body, Fact, Link, Ns};
use std::collections::BTreeMap;
use std::io;

/// Counters of IFLA_STATS64 that grow where an adapter finds no room for a packet that comes in.
const LOST: [&str; 2] = ["rx_missed_errors", "rx_fifo_errors"];

/// What it carries, both ways.
const CARRIED: [&str; 2] = ["rx_bytes", "tx_bytes"];

/// Bytes a second from which on an adapter may be full: a tenth of the slowest link that is still in use.
const MUCH: u64 = 100_000;

/// Packets, both ways.
const PACKETS: [&str; 2] = ["rx_packets", "tx_packets"];

/// Packets a second from which on an adapter may interrupt its CPU so often that little else is done there.
const MANY: u64 = 10_000;

/// What an interface has lost for want of room, and carried.
#[derive(Clone, Copy)]
struct Counted {
    lost: u64,
    /// Bytes, of an adapter; none of a device made of software, whose driver knows no speed.
    carried: Option<u64>,
    /// Packets, of an adapter.
    packets: Option<u64>,
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Queues {
    standstill: Standstill,
    /// What each interface had counted as the window began, by namespace and index.
    before: BTreeMap<(u32, u32), Counted>,
}

impl Reader for Queues {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        match Netlink::open(&look.roots) {
            Ok((mut netlink, reported)) => {
                reported.into_iter().for_each(|body| opening.put(body));
                let links = netlink.ask(all_links);
                let before = links.iter().filter_map(counted).collect();
                links.into_iter().for_each(|body| opening.put(body));
                netlink.ask(with_filters).into_iter().for_each(|body| opening.put(body));
                look.netlink = Some(netlink);
                return Ok(Self { before, ..Self::default() });
            }
            Err(error) => opening.put(Body::Blind(unopened(&error))),
        }
        Ok(Self::default())
    }

    fn slept(&mut self, at_ns: Ns, facts: &mut Vec<Fact>) {
        facts.extend(self.standstill.slept().into_iter().map(|body| Fact { at_ns, body }));
    }

    fn tick(
        &mut self,
        look: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let at_ns = now();
        let still = self.standstill.tick(tick.queued.packet, tick.again);
        let reported = still.unwrap_or_else(|| {
            let read = netlink.ask(without_filters);
            self.standstill.read(&read);
            read
        });
        look.waited.interfaces.see_queues(&reported);
        facts.extend(reported.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let seconds = look.lasted_ns().div_ceil(1_000_000_000);
        let (much, many) = (MUCH * seconds, MANY * seconds);
        let is_asked = look.scope.is_of_somebody();
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let at_ns = now();
        let (links, queues) = (netlink.ask(all_links), netlink.ask(with_filters));
        let interfaces = &mut look.waited.interfaces;
        for (of, is) in links.iter().filter_map(counted) {
            let Some(before) = self.before.get(&of) else { continue };
            let grew = |is: Option<u64>, before: Option<u64>, by: u64| {
                is.zip(before).is_some_and(|(is, before)| is.saturating_sub(before) >= by)
            };
            let carries = is_asked && grew(is.carried, before.carried, much);
            if is.lost > before.lost || carries || grew(is.packets, before.packets, many) {
                interfaces.add(of.0, of.1);
            }
        }
        interfaces.see_queues(&queues);
        facts.extend(links.into_iter().chain(queues).map(|body| Fact { at_ns, body }));
        Ok(())
    }

    fn is_still(&self) -> bool {
        self.standstill.is_still()
    }
}

fn counted(body: &Body) -> Option<((u32, u32), Counted)> {
    let Body::Link(Link { netns, index, kind, counters, .. }) = body else { return None };
    let sum = |names: [&str; 2]| names.iter().filter_map(|name| counters.get(*name)).sum();
    let of_adapter = |names| kind.is_empty().then(|| sum(names));
    let (carried, packets) = (of_adapter(CARRIED), of_adapter(PACKETS));
    Some(((*netns, *index), Counted { lost: sum(LOST), carried, packets }))
}

/// That there is no netlink at all.
pub fn unopened(error: &io::Error) -> Blind {
    Blind {
        what: "netlink".into(),
        why: error.to_string(),
        therefore: "queueing disciplines are not seen".into(),
        ..Blind::default()
    }
}

fn all_links(place: &mut Place, buffer: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    Ok(links(place, buffer)?.into_iter().map(Body::Link).collect())
}

fn with_filters(place: &mut Place, buffer: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    Ok(qdiscs(place, buffer, true)?.into_iter().map(Body::QdiscSample).collect())
}

fn without_filters(place: &mut Place, buffer: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    Ok(qdiscs(place, buffer, false)?.into_iter().map(Body::QdiscSample).collect())
}
