//! Interfaces and their queueing disciplines, as a source: at both ends of a look with filters, and their counters at each tick.
//!
//! What waits in a queue is only seen at the moment; while nothing does, the last reading is reported again (standstill.rs). Interfaces on
//! which packets stand or are lost are named for whoever asks their drivers. Must not: know how it is asked (netlink/).

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

/// See the head of the file.
#[derive(Default)]
pub(super) struct Queues {
    standstill: Standstill,
    /// What each interface had lost as the window began, by namespace and index.
    lost: BTreeMap<(u32, u32), u64>,
}

impl Reader for Queues {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        match Netlink::open(&look.roots) {
            Ok((mut netlink, reported)) => {
                reported.into_iter().for_each(|body| opening.put(body));
                let links = netlink.ask(all_links);
                let lost = links.iter().filter_map(lost_by).collect();
                links.into_iter().for_each(|body| opening.put(body));
                netlink.ask(with_filters).into_iter().for_each(|body| opening.put(body));
                look.netlink = Some(netlink);
                return Ok(Self { lost, ..Self::default() });
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
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let at_ns = now();
        let (links, queues) = (netlink.ask(all_links), netlink.ask(with_filters));
        let interfaces = &mut look.waited.interfaces;
        for (of, lost) in links.iter().filter_map(lost_by) {
            if self.lost.get(&of).is_some_and(|before| lost > *before) {
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

/// What an interface has lost for want of room.
fn lost_by(body: &Body) -> Option<((u32, u32), u64)> {
    let Body::Link(Link { netns, index, counters, .. }) = body else { return None };
    Some(((*netns, *index), LOST.iter().filter_map(|name| counters.get(*name)).sum()))
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
