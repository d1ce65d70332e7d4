//! Questions to the kernel over a netlink socket: all objects of a kind, or one.
//!
//! Only the headers are read here; what a message says is for one file for each object. A socket has one question at a time. Must not
//! be called from the event loop: the kernel may hold the rtnl lock for ever (mod.rs).

use netlink_sys::Socket;
use std::io;
use std::ops::ControlFlow;

const HEADER: usize = 16;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Asks for all objects of a kind and gives each message, without its netlink header, to `each`.
pub fn dump(
    socket: &Socket,
    kind: u16,
    body: &[u8],
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    exchange(socket, kind, REQUEST | DUMP, body, buffer, |message| {
        each(message);
        ControlFlow::Continue(())
    })
}

/// Asks for one object, and gives its message without the netlink header to `read`.
pub fn ask<T>(
    socket: &Socket,
    kind: u16,
    body: &[u8],
    buffer: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut found = None;
    exchange(socket, kind, REQUEST, body, buffer, |message| {
        found = read(message);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn exchange(
    socket: &Socket,
    kind: u16,
    flags: u16,
    body: &[u8],
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    socket.send(&message, 0)?;
    loop {
        buffer.clear();
        buffer.reserve(64 * 1024);
        socket.recv(buffer, 0)?;
        let mut rest = buffer.as_slice();
        while let Some(header) = rest.get(..HEADER) {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let Some(payload) = rest.get(HEADER..length) else {
                return Err(io::Error::other("a netlink message was cut"));
            };
            match kind {
                DONE => return Ok(()),
                ERROR => {
                    let code = payload.get(..4).map_or([0; 4], |b| [b[0], b[1], b[2], b[3]]);
                    return Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(code)));
                }
                _ if each(payload).is_break() => return Ok(()),
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}
