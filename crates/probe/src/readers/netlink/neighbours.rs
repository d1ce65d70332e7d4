//! The neighbour entry of an address, and to which hosts a tunnel of VXLAN sends for one: RTM_GETNEIGH, parsed from RTM_NEWNEIGH
//! (include/uapi/linux/neighbour.h).
//!
//! Any bytes may come in; fuzzed. Must not: dump the table of neighbours. Of a tunnel the whole table is asked for: a frame that no entry of its own
//! has goes to all hosts that are entered for the rest, and one question gives only the first of them.

use super::attributes::*;
use super::exchange::dump;
use holdup_reason::facts::Ns;
use netlink_sys::Socket;
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

/// The hosts that a tunnel of VXLAN sends a frame for a hardware address to: those of its own entry, or those of all others.
pub(crate) fn tunnel_ends(
    socket: &Socket,
    (index, hardware): (u32, &str),
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<IpAddr>> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    // struct ifinfomsg: a dump of this table is asked for by it, with the interface.
    let mut asked = vec![libc::AF_BRIDGE as u8, 0, 0, 0];
    asked.extend(index.to_ne_bytes());
    asked.extend([0; 8]);
    dump(socket, RTM_GETNEIGH, &asked, buffer, |message| {
        let Some((of, to)) = forwarding(message, index) else { return };
        let all = if of == hardware { &mut own } else { &mut others };
        if (of == hardware || of == ALL_OTHERS) && all.len() < TUNNEL_ENDS_MAX {
            all.push(to);
        }
    })?;
    Ok(if own.is_empty() { others } else { own })
}

/// An entry of a tunnel's forwarding table: of which hardware address, and the host.
fn forwarding(message: &[u8], of: u32) -> Option<(String, IpAddr)> {
    // Of a tunnel that has several networks: its entry may be another network's.
    const NDA_SRC_VNI: u16 = 11;
    let index = u32_at(message, 4)?;
    let found = attributes(message.get(12..)?);
    let to = address(found.get(&NDA_DST)?)?;
    let is_it = index == of && !to.is_multicast() && !found.contains_key(&NDA_SRC_VNI);
    is_it.then(|| Some((hardware_address(found.get(&NDA_LLADDR)?), to)))?
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
        let to = "10.5.0.9".parse().unwrap();
        assert_eq!(forwarding(&message, 4), Some((ALL_OTHERS.into(), to)));
        assert_eq!(forwarding(&message, 5), None, "another interface's");
        put_attribute(&mut message, 11, &7_u32.to_ne_bytes());
        assert_eq!(forwarding(&message, 4), None, "one of several networks");
        let mut group = ENTRY.to_vec();
        put_attribute(&mut group, 2, &[0; 6]);
        put_attribute(&mut group, 1, &[239, 1, 1, 1]);
        assert_eq!(forwarding(&group, 4), None);
    }
}
