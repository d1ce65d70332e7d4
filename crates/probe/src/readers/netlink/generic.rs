//! Generic netlink: families of messages that have a name, and a number that each boot of a kernel chooses anew
//! (include/uapi/linux/genetlink.h).
//!
//! A family is asked for by its name once for each socket. Behind the netlink header stands one of four bytes, then attributes. Must not: know
//! what a family's messages say.
//!
//! Rejected: netlink-packet-generic, whose parser of a family's description fails at any attribute that it does not know, and carries
//! operations, groups and policies along for the one number that is wanted; the crate ethtool, which brings an executor.

use super::Place;
use super::attributes::{attributes, put_attribute, u16_at};
use super::exchange;
use netlink_sys::{Socket, protocols::NETLINK_GENERIC};
use std::io;

/// GENL_ID_CTRL: the family that knows the others.
const CONTROL: u16 = 0x10;
/// CTRL_CMD_GETFAMILY.
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// struct genlmsghdr: command, version, two bytes that are zero.
const HEADER: usize = 4;

/// A family that can be asked, in one namespace.
pub(super) struct Family {
    socket: Socket,
    id: u16,
}

impl Family {
    /// Finds it; none if this kernel has none of that name.
    pub(super) fn open(
        place: &Place,
        name: &str,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<Self>> {
        let socket = place.socket_of(NETLINK_GENERIC)?;
        let mut body = vec![GET_FAMILY, 1, 0, 0];
        let mut word = name.as_bytes().to_vec();
        word.push(0);
        put_attribute(&mut body, FAMILY_NAME, &word);
        let found = exchange::ask(&socket, CONTROL, &body, buffer, family_id);
        match found {
            Ok(id) => Ok(id.map(|id| Self { socket, id })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks it one thing, and gives the answer's attributes to `read`.
    pub(super) fn ask<T>(
        &self,
        command: u8,
        body: &[u8],
        buffer: &mut Vec<u8>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let message = [&[command, 1, 0, 0], body].concat();
        exchange::ask(&self.socket, self.id, &message, buffer, |answer| read(answer.get(HEADER..)?))
    }
}

/// The number in a CTRL_CMD_NEWFAMILY message behind its netlink header.
fn family_id(message: &[u8]) -> Option<u16> {
    u16_at(attributes(message.get(HEADER..)?).get(&FAMILY_ID)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_a_number_among_other_attributes() {
        let mut message = vec![1, 2, 0, 0];
        put_attribute(&mut message, FAMILY_NAME, b"ethtool\0");
        put_attribute(&mut message, FAMILY_ID, &21_u16.to_ne_bytes());
        put_attribute(&mut message, 99, b"of a later kernel");
        assert_eq!(family_id(&message), Some(21));
        assert_eq!(family_id(&message[..10]), None);
        assert_eq!(family_id(&[]), None);
    }
}
