//! Addresses that cannot be used, or not yet: asked for by RTM_GETADDR, parsed from RTM_NEWADDR (include/uapi/linux/if_addr.h).
//!
//! Read once, as the look ends: an address that failed stays so, and one that is still asked about is only worth a word if it is then. Any bytes
//! may come in; fuzzed. Must not: report the addresses that work, but to who asks for one (next_hops.rs).

use super::Place;
use super::attributes::*;
use super::exchange::dump;
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader};
use crate::system::clock::now;
use holdup_reason::facts::{Body, Fact, UnusableAddress};
use netlink_sys::Socket;
use std::io;
use std::net::IpAddr;

const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
/// Of IPv4 the interface's own, where the address is the other end's.
const IFA_LOCAL: u16 = 2;

/// See the head of the file.
pub(crate) struct Addresses;

impl Reader for Addresses {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let at_ns = now();
        facts.extend(netlink.ask(unusable).into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

fn unusable(place: &mut Place, buffer: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    let mut found = Vec::new();
    // struct ifaddrmsg, all zero: every family and interface.
    dump(&place.socket, RTM_GETADDR, &[0; 8], buffer, |message| found.extend(address_of(message)))?;
    for address in &mut found {
        address.netns = place.namespace.netns;
        if let Some(interface) = place.interfaces.get(&address.index) {
            address.interface.clone_from(&interface.name);
        }
    }
    Ok(found.into_iter().map(Body::UnusableAddress).collect())
}

/// All addresses of a namespace that the kernel uses, with the index of the interface.
pub(crate) fn own_addresses(
    socket: &Socket,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<(u32, IpAddr)>> {
    let mut found = Vec::new();
    dump(socket, RTM_GETADDR, &[0; 8], buffer, |message| found.extend(used_address(message)))?;
    Ok(found)
}

/// The same of one that the kernel answers for: it does so for none that failed or is not yet known to be free.
fn used_address(message: &[u8]) -> Option<(u32, IpAddr)> {
    own_address(message).filter(|_| state(message) == Some(State::Used))
}

/// The interface and the address of a RTM_NEWADDR message behind its netlink header.
fn own_address(message: &[u8]) -> Option<(u32, IpAddr)> {
    let found = attributes(message.get(8..)?);
    let own = found.get(&IFA_LOCAL).or_else(|| found.get(&IFA_ADDRESS))?;
    Some((u32_at(message, 4)?, address(own)?))
}

/// Whether the kernel uses an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Used,
    /// It is still asked whether another one has it.
    Tentative,
    /// Another one has it.
    Failed,
}

/// Of a RTM_NEWADDR message behind its netlink header.
fn state(message: &[u8]) -> Option<State> {
    const IFA_FLAGS: u16 = 8;
    const OPTIMISTIC: u32 = 0x04;
    const DADFAILED: u32 = 0x08;
    const TENTATIVE: u32 = 0x40;
    let found = attributes(message.get(8..)?);
    let flags = found.get(&IFA_FLAGS).and_then(|flags| u32_at(flags, 0));
    let flags = flags.unwrap_or_else(|| u32::from(message[2]));
    Some(match flags {
        _ if flags & DADFAILED != 0 => State::Failed,
        // An optimistic one is used meanwhile.
        _ if flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0 => State::Tentative,
        _ => State::Used,
    })
}

/// A RTM_NEWADDR message behind its netlink header; none of an address that works. The namespace and the name are the caller's.
pub(crate) fn address_of(message: &[u8]) -> Option<UnusableAddress> {
    let prefix = *message.get(1)?;
    let duplicate = match state(message)? {
        State::Used => return None,
        State::Tentative => false,
        State::Failed => true,
    };
    let (index, address) = own_address(message)?;
    Some(UnusableAddress { netns: 0, interface: String::new(), index, address, prefix, duplicate })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flags: u32) -> Vec<u8> {
        let mut message = vec![10, 64, 0, 0, 3, 0, 0, 0];
        put_attribute(&mut message, 1, &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        put_attribute(&mut message, 8, &flags.to_ne_bytes());
        message
    }

    #[test]
    fn only_addresses_that_do_not_work_are_reported() {
        let duplicate = |flags| address_of(&message(flags)).map(|it| it.duplicate);
        assert_eq!(duplicate(0x80), None);
        assert_eq!(duplicate(0x80 | 0x40), Some(false));
        assert_eq!(duplicate(0x80 | 0x40 | 0x08), Some(true));
        assert_eq!(duplicate(0x80 | 0x40 | 0x04), None, "it is used meanwhile");
        let found = address_of(&message(0x48)).unwrap();
        assert_eq!((found.index, found.prefix), (3, 64));
        assert_eq!(found.address.to_string(), "fd00::9");
    }

    #[test]
    fn an_address_that_the_kernel_does_not_use_is_nobody_s() {
        let is_used = |flags| used_address(&message(flags)).is_some();
        assert_eq!(used_address(&message(0x80)), Some((3, "fd00::9".parse().unwrap())));
        assert!(is_used(0x80 | 0x40 | 0x04), "an optimistic one answers");
        assert!(!is_used(0x80 | 0x40), "it is not known to be free");
        assert!(!is_used(0x80 | 0x40 | 0x08) && !is_used(0x08), "another one has it");
        assert_eq!(used_address(&[0; 3]), None);
    }
}
