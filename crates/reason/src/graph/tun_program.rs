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
    reader(model, hop.netns, &hop.interface)
}

/// The one at the other end of the tunnel that a socket's packets go into, where that is on this host: whose device has the address that they
/// are for. None where several have it: two tunnels of a host may use the same addresses.
pub fn at_the_far_end<'m>(model: &'m Model, socket: &InetRef) -> Option<&'m ThreadRef> {
    let (_, near) = into_tun(model, socket)?;
    let to = (socket.netns, socket.remote.ip().to_canonical());
    let here = model.net.drop_causes.addresses_here.get(&to)?;
    let mut ends = here.iter().filter(|it| !it.tunnel.is_empty());
    let (Some(end), None) = (ends.next(), ends.next()) else { return None };
    let far = reader(model, end.far_netns, &end.tunnel)?;
    near.is_none_or(|near| near.pid != far.pid).then_some(far)
}

fn reader<'m>(model: &'m Model, netns: u32, interface: &str) -> Option<&'m ThreadRef> {
    let has_it = |it: &&TapReader| it.interface == interface && it.netns == netns;
    model.net.drop_causes.tap_readers.iter().find(has_it).map(|it| &it.process)
}
