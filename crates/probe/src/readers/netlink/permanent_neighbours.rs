//! How many neighbour entries the limit of their table does not count: permanent ones, and those that a program has learnt for the kernel.
//!
//! /proc/net/stat counts every entry, and gc_thresh3 is compared with those alone that may be collected (neigh_alloc, net/core/neighbour.c). Asked for as a window
//! of a look that goes on ends, whose trends are judged by it, and of a table with so many entries that a trend may be seen, and not more than can be listed in some
//! milliseconds. Any bytes may come in; fuzzed. Must not: report an entry. Rejected: RTM_GETNEIGHTBL (it has the same count as the file); /proc/net/arp (IPv4, of one
//! namespace).
//!
//! Edit together: facts/usage.rs and measure/usages.rs of reason.

use super::Place;
use super::attributes::u16_at;
use super::exchange::dump;
use super::neighbours::RTM_GETNEIGH;
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader};
use crate::system::clock::now;
use holdup_reason::facts::{Body, Fact, PermanentNeighbours};
use std::io;
use std::ops::RangeInclusive;

/// Entries of a table that is asked for: up to the default of gc_thresh1 nothing is ever collected, and as many as the most take some 10 ms.
const ENTRIES: RangeInclusive<u64> = 128..=20_000;
/// The tables, as counters and by family.
const TABLES: [(&str, i32); 2] =
    [("arp_cache.entries", libc::AF_INET), ("ndisc_cache.entries", libc::AF_INET6)];

/// See the head of the file.
pub(crate) struct Permanent;

impl Reader for Permanent {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let Some(netlink) = look.netlink.as_mut().filter(|_| look.goes_on) else { return Ok(()) };
        let wanted = worth_asking(facts);
        if wanted.is_empty() {
            return Ok(());
        }
        let at_ns = now();
        let read = netlink.ask(move |place, buffer| permanent(place, &wanted, buffer));
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// Families whose table has so many entries, by the last that was read of it.
fn worth_asking(facts: &[Fact]) -> Vec<i32> {
    let entries = |counter: &str| {
        facts.iter().rev().find_map(|fact| match &fact.body {
            Body::NetCounters(it) => it.counters.get(counter).copied(),
            _ => None,
        })
    };
    let has_many = |(counter, family): &(&str, i32)| {
        entries(counter).filter(|count| ENTRIES.contains(count)).map(|_| *family)
    };
    TABLES.iter().filter_map(has_many).collect()
}

fn permanent(place: &mut Place, wanted: &[i32], buffer: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    let mut found = PermanentNeighbours { netns: place.namespace.netns, v4: 0, v6: 0 };
    for family in wanted {
        let count = if *family == libc::AF_INET { &mut found.v4 } else { &mut found.v6 };
        // struct ndmsg: every interface.
        let mut asked = [0; 12];
        asked[0] = *family as u8;
        dump(&place.socket, RTM_GETNEIGH, &asked, buffer, |message| {
            *count += u64::from(is_exempt(message));
        })?;
    }
    let has_some = found.v4 + found.v6 > 0;
    Ok(has_some.then_some(Body::PermanentNeighbours(found)).into_iter().collect())
}

/// Whether a RTM_NEWNEIGH message behind its netlink header is of an entry that is never collected (neigh_update_gc_list).
pub(crate) fn is_exempt(message: &[u8]) -> bool {
    const NUD_PERMANENT: u16 = 0x80;
    const NTF_EXT_LEARNED: u8 = 0x10;
    let is_permanent = u16_at(message, 8).is_some_and(|state| state & NUD_PERMANENT != 0);
    is_permanent || message.get(10).is_some_and(|flags| flags & NTF_EXT_LEARNED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::NetCounters;

    #[test]
    fn only_what_is_never_collected_is_exempt() {
        let of = |state: u8, flags: u8| is_exempt(&[2, 0, 0, 0, 3, 0, 0, 0, state, 0, flags, 1]);
        assert!(of(0x80, 0) && of(0x04, 0x10));
        assert!(!of(0x04, 0) && !of(0x20, 0x80) && !is_exempt(&[2, 0]));
    }

    #[test]
    fn a_table_is_asked_for_while_it_has_many_and_not_too_many() {
        let of = |entries: u64| {
            let counters = [("arp_cache.entries".to_string(), entries)].into();
            worth_asking(&[Fact {
                at_ns: 1,
                body: Body::NetCounters(NetCounters { netns: 1, counters }),
            }])
        };
        assert_eq!(of(500), [libc::AF_INET]);
        assert!(of(5).is_empty() && of(1_000_000).is_empty());
    }
}
