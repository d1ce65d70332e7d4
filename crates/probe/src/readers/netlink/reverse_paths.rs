//! How strictly an interface asks whether a packet came by the way that leads back to its sender (rp_filter), and whether it passes on what is
//! for others: RTM_GETNETCONF, parsed from RTM_NEWNETCONF (include/uapi/linux/netconf.h).
//!
//! Read once, as the look ends, and only where packets were dropped for it. The kernel goes by the stricter number of `all` and the
//! interface's own (IN_DEV_RPFILTER, include/linux/inetdevice.h), so both are reported. Any bytes may come in; fuzzed. Must not: say
//! which way leads back (next_hops.rs).
//!
//! Rejected: /proc/sys of a process in that namespace (there may be none).

use super::Place;
use super::attributes::*;
use super::exchange::dump;
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader};
use crate::system::clock::now;
use holdup_reason::facts::{Body, Fact, NOT_PASSED_ON, REVERSE_PATH, ReversePath};
use std::io;

const RTM_GETNETCONF: u16 = 82;
const AF_INET: u8 = 2;
/// NETCONFA_IFINDEX_ALL.
const ALL: i32 = -1;

/// See the head of the file.
pub(crate) struct ReversePaths;

impl Reader for ReversePaths {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let dropped = look.last.sums.iter().filter_map(|body| match body {
            Body::PacketDrops(drops) => {
                let reason = drops.reason.as_str();
                let is_wanted = reason == REVERSE_PATH || NOT_PASSED_ON.contains(&reason);
                is_wanted.then_some((drops.netns, drops.index))
            }
            _ => None,
        });
        let wanted = dropped.collect();
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let at_ns = now();
        let read = netlink.ask_about(wanted, settings);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

fn settings(place: &mut Place, buffer: &mut Vec<u8>, here: &[u32]) -> io::Result<Vec<Body>> {
    let netns = place.namespace.netns;
    let (mut all, mut found) = (None, Vec::new());
    // struct netconfmsg: the family, and nothing else.
    dump(
        &place.socket,
        RTM_GETNETCONF,
        &[AF_INET, 0, 0, 0],
        buffer,
        |message| match reverse_path(message) {
            Some((ALL, mode, _)) => all = Some(mode),
            Some((index, mode, forwards)) => {
                found.extend(u32::try_from(index).ok().map(|it| (it, mode, forwards)));
            }
            None => {}
        },
    )?;
    let Some(of_all) = all else { return Ok(Vec::new()) };
    let found = found.into_iter().filter(|(index, ..)| here.contains(index));
    Ok(found
        .map(|(index, own, forwards)| {
            Body::ReversePath(ReversePath { netns, index, own, of_all, forwards })
        })
        .collect())
}

/// Of a RTM_NEWNETCONF message behind its netlink header: the interface, its mode, and whether it passes packets on.
pub(crate) fn reverse_path(message: &[u8]) -> Option<(i32, u32, Option<bool>)> {
    const NETCONFA_IFINDEX: u16 = 1;
    const NETCONFA_FORWARDING: u16 = 2;
    const NETCONFA_RP_FILTER: u16 = 3;
    let found = attributes(message.get(4..)?);
    let number = |kind| found.get(&kind).and_then(|value| u32_at(value, 0));
    let forwards = number(NETCONFA_FORWARDING).map(|value| value != 0);
    Some((number(NETCONFA_IFINDEX)?.cast_signed(), number(NETCONFA_RP_FILTER)?, forwards))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_all_is_not_taken_for_one_s() {
        let message = |index: i32, mode: i32| {
            let mut message = vec![AF_INET, 0, 0, 0];
            put_attribute(&mut message, 1, &index.to_ne_bytes());
            put_attribute(&mut message, 2, &1_i32.to_ne_bytes());
            put_attribute(&mut message, 3, &mode.to_ne_bytes());
            message
        };
        assert_eq!(reverse_path(&message(ALL, 0)), Some((ALL, 0, Some(true))));
        assert_eq!(reverse_path(&message(3, 1)), Some((3, 1, Some(true))));
        assert_eq!(reverse_path(&message(3, 1)[..12]), None, "cut short");
    }
}
