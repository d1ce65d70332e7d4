//! The neighbour entry of an address, and to which hosts a tunnel of VXLAN sends for one: RTM_GETNEIGH, parsed from RTM_NEWNEIGH
//! (include/uapi/linux/neighbour.h).
//!
//! Any bytes may come in; fuzzed. Must not: dump the table of neighbours. Of a tunnel the whole table is asked for: a frame that no entry of its own
//! has goes to all hosts that are entered for the rest, and one question gives only the first of them.

use super::attributes::*;
use super::exchange::dump;
use holdup_reason::facts::Ns;
use netlink_sys::Socket;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

/// An entry of the neighbour table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// NUD_*.
    pub state: u16,
    /// Age of that state.
    pub updated_ns: Ns,
    /// Its hardware address, as ip(8) writes it; empty if it has none.
    pub hardware: String,
}

/// struct ndmsg and its attribute: the entry of this one address on an interface.
pub(crate) fn neighbour_request(of: IpAddr, index: u32) -> Vec<u8> {
    let of = octets(of);
    let mut message = vec![family(&of), 0, 0, 0];
    message.extend(index.to_ne_bytes());
    message.extend([0; 4]);
    put_attribute(&mut message, NDA_DST, &of);
    message
}

/// RTM_GETNEIGH.
pub(crate) const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Whatever has no entry of its own.
const ALL_OTHERS: &str = "00:00:00:00:00:00";
/// Hosts of a tunnel that are asked about.
const TUNNEL_ENDS_MAX: usize = 16;

/// A RTM_NEWNEIGH message behind its netlink header.
pub(crate) fn neighbour(message: &[u8]) -> Option<Neighbour> {
    const NDA_CACHEINFO: u16 = 3;
    // Of the ages in it: USER_HZ, 100 but on Alpha.
    const TICK_NS: Ns = 10_000_000;
    let state = u16_at(message, 8)?;
    let found = attributes(message.get(12..)?);
    // confirmed, used, updated.
    let updated = found.get(&NDA_CACHEINFO).and_then(|ages| u32_at(ages, 8)).unwrap_or(0);
    let hardware = found.get(&NDA_LLADDR).map(|bytes| hardware_address(bytes)).unwrap_or_default();
    Some(Neighbour { state, updated_ns: Ns::from(updated) * TICK_NS, hardware })
}

/// A host that a tunnel sends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TunnelEnd {
    /// Its address.
    pub address: IpAddr,
    /// Index of the interface that the tunnel sends by, whatever the routes say; none: as the routes say.
    pub by: Option<u32>,
}

/// To which hosts a tunnel of VXLAN sends frames for some hardware addresses.
#[derive(Debug, Default)]
pub(crate) struct TunnelTable {
    /// Of the addresses that have entries of their own.
    own: BTreeMap<String, Vec<TunnelEnd>>,
    /// Of all others.
    others: Vec<TunnelEnd>,
}

impl TunnelTable {
    /// What the table of a tunnel says of these addresses: one dump, however many they are.
    pub(crate) fn read(
        socket: &Socket,
        index: u32,
        wanted: &BTreeSet<String>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Self> {
        let mut table = Self::default();
        // struct ifinfomsg: a dump of this table is asked for by it, with the interface.
        let mut asked = vec![libc::AF_BRIDGE as u8, 0, 0, 0];
        asked.extend(index.to_ne_bytes());
        asked.extend([0; 8]);
        dump(socket, RTM_GETNEIGH, &asked, buffer, |message| table.add(message, index, wanted))?;
        Ok(table)
    }

    fn add(&mut self, message: &[u8], index: u32, wanted: &BTreeSet<String>) {
        let Some((of, to)) = forwarding(message, index) else { return };
        let all = match of.as_str() {
            ALL_OTHERS => &mut self.others,
            _ if wanted.contains(&of) => self.own.entry(of).or_default(),
            _ => return,
        };
        if all.len() < TUNNEL_ENDS_MAX {
            all.push(to);
        }
    }

    /// The hosts that a frame for a hardware address is sent to: those of its own entry, or those of all others.
    pub(crate) fn ends(&self, hardware: &str) -> &[TunnelEnd] {
        self.own.get(hardware).unwrap_or(&self.others)
    }
}

/// An entry of a tunnel's forwarding table: of which hardware address, and the host.
fn forwarding(message: &[u8], of: u32) -> Option<(String, TunnelEnd)> {
    // The interface is the tunnel's own (its `dev`) where the entry is its default, and is absent where an entry was added without one: such a frame goes
    // by the routes (vxlan_xmit_one, drivers/net/vxlan/vxlan_core.c).
    const NDA_IFINDEX: u16 = 8;
    // Of a tunnel that has several networks: its entry may be another network's.
    const NDA_SRC_VNI: u16 = 11;
    let index = u32_at(message, 4)?;
    let found = attributes(message.get(12..)?);
    let address = address(found.get(&NDA_DST)?)?;
    let by = found.get(&NDA_IFINDEX).and_then(|bytes| u32_at(bytes, 0));
    let is_it = index == of && !address.is_multicast() && !found.contains_key(&NDA_SRC_VNI);
    let hardware = hardware_address(found.get(&NDA_LLADDR)?);
    is_it.then_some((hardware, TunnelEnd { address, by }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: [u8; 12] = [7, 0, 0, 0, 4, 0, 0, 0, 0xc0, 0, 2, 1];

    #[test]
    fn an_entry_says_its_state_and_hardware_address() {
        let mut message = vec![2, 0, 0, 0, 4, 0, 0, 0, 0x80, 0, 0, 1];
        assert_eq!(neighbour(&message).unwrap().hardware, "");
        put_attribute(&mut message, 2, &[2, 0, 0x0a, 0, 0, 0x99]);
        let found = neighbour(&message).unwrap();
        assert_eq!((found.state, &*found.hardware), (0x80, "02:00:0a:00:00:99"));
    }

    #[test]
    fn a_tunnel_says_to_which_host_it_sends() {
        let mut message = ENTRY.to_vec();
        put_attribute(&mut message, 2, &[0; 6]);
        assert_eq!(forwarding(&message, 4), None, "to nobody");
        put_attribute(&mut message, 1, &[10, 5, 0, 9]);
        let to = TunnelEnd { address: "10.5.0.9".parse().unwrap(), by: None };
        assert_eq!(forwarding(&message, 4), Some((ALL_OTHERS.into(), to)));
        assert_eq!(forwarding(&message, 5), None, "another interface's");
        put_attribute(&mut message, 11, &7_u32.to_ne_bytes());
        assert_eq!(forwarding(&message, 4), None, "one of several networks");
        let mut group = ENTRY.to_vec();
        put_attribute(&mut group, 2, &[0; 6]);
        put_attribute(&mut group, 1, &[239, 1, 1, 1]);
        assert_eq!(forwarding(&group, 4), None);
    }

    #[test]
    fn one_reading_of_a_tunnels_table_answers_for_all_its_neighbours() {
        let entry = |last: u8, host: u8, by: Option<u32>| {
            let mut message = ENTRY.to_vec();
            put_attribute(&mut message, 2, &[0, 0, 0, 0, 0, last]);
            put_attribute(&mut message, 1, &[10, 5, 0, host]);
            if let Some(by) = by {
                put_attribute(&mut message, 8, &by.to_ne_bytes());
            }
            message
        };
        let hardware = |last: u8| format!("00:00:00:00:00:{last:02x}");
        let wanted = [hardware(1), hardware(2)].into();
        let mut table = TunnelTable::default();
        for message in [entry(1, 11, None), entry(0, 10, Some(3)), entry(3, 13, None)] {
            table.add(&message, 4, &wanted);
        }
        let end = |host: u8, by| [TunnelEnd { address: IpAddr::from([10, 5, 0, host]), by }];
        assert_eq!(table.ends(&hardware(1)), end(11, None));
        assert_eq!(table.ends(&hardware(2)), end(10, Some(3)), "its default, by its own interface");
        assert!(!table.own.contains_key(&hardware(3)), "nobody asked");
    }
}
