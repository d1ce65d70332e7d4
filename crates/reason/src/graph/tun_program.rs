//! The program that has a tun device open: what goes into the device is in its hands.
//!
//! Must not: say what becomes of the packets (measure/tunnels.rs), or that the program is slow.

use crate::facts::{InetRef, NextHop, TapReader, ThreadRef};
use crate::model::Model;

/// The tun device that a socket's packets go into, and who has it open, as far as that is known.
pub fn into_tun<'m>(
    model: &'m Model,
    socket: &InetRef,
) -> Option<(&'m NextHop, Option<&'m ThreadRef>)> {
    let hop = model.net.next_hops.get(&(socket.netns, socket.remote.ip().to_canonical()))?;
    (hop.kind == "tun").then(|| (hop, of(model, hop)))
}

/// The program that has the tun device open by which a socket's packets go.
pub fn of<'m>(model: &'m Model, hop: &NextHop) -> Option<&'m ThreadRef> {
    let has_it = |it: &&TapReader| it.interface == hop.interface && it.netns == hop.netns;
    let mut readers = model.net.drop_causes.tap_readers.iter().filter(has_it);
    readers.next().map(|it| &it.process)
}
