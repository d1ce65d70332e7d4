//! Why nothing is sent to an address to which somebody was refused a connection or a datagram: what the routes of his namespace say of it.
//!
//! Whoever is refused may be gone as the look ends, and its namespace with it, so the namespace is noted when the refusal is seen. The question is asked
//! once, as the look ends, of a few addresses: a route that has come since then gives no fact, and the refusal alone is what is known.
//!
//! Must not: say that a route is wrong (rules/net/no_route.rs). Rejected: asking at each refusal (a loop is refused thousands of times a second).
//!
//! Edit together: bpf/refused.bpf.c (what is reported), netlink/routes.rs, netlink/refusing_rules.rs (what the answers say).

use super::look::Look;
use super::netlink::Place;
use super::netlink::refusing_rules::refusing_rule;
use super::netlink::routes::no_route;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::links::namespace_at;
use holdup_reason::facts::{Body, Fact, NO_WAY, Unrouted};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

/// Addresses that are asked about.
const ADDRESSES_MAX: usize = 16;

/// The addresses, by namespace.
#[derive(Default)]
pub(super) struct RefusedAddresses(BTreeSet<(u32, IpAddr)>);

impl Reader for RefusedAddresses {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::default())
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        for fact in facts.iter() {
            let Body::Denied(denied) = &fact.body else { continue };
            let Some(remote) = denied.address.filter(|_| denied.is_sent()) else {
                continue;
            };
            let to = remote.ip().to_canonical();
            if !NO_WAY.contains(&denied.errno) || self.0.len() >= ADDRESSES_MAX {
                continue;
            }
            // A program that was refused ends at once; who began it is there.
            let netns = [denied.thread.pid, denied.parent_pid]
                .into_iter()
                .find_map(|pid| namespace_at(&look.roots.process(pid, "ns/net")));
            self.0.extend(netns.map(|netns| (netns, to)));
        }
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let wanted = std::mem::take(&mut self.0);
        let Some(netlink) = look.netlink.as_mut().filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let at_ns = now();
        let read = netlink.ask(move |place, buffer| {
            let netns = place.namespace.netns;
            let here = wanted.iter().filter(|(of, _)| *of == netns).map(|(_, to)| *to);
            here.filter_map(|to| unrouted(place, to, buffer).transpose()).collect()
        });
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

fn unrouted(place: &Place, to: IpAddr, buffer: &mut Vec<u8>) -> io::Result<Option<Body>> {
    let anybody = IpAddr::from([0; 4]);
    let Some(answer) = no_route(&place.socket, (anybody, to), buffer) else { return Ok(None) };
    // The answer stands without it.
    let by = refusing_rule(place, to, answer, buffer).unwrap_or_default();
    let netns = place.namespace.netns;
    Ok(Some(Body::Unrouted(Unrouted { netns, address: to, answer, by })))
}
