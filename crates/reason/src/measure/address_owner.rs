//! Who has an address of this host: the process whose socket listens, or is bound, there.
//!
//! By the descriptors that were read at the end of the look. Of several network namespaces that of whoever asks counts where
//! it is known. Must not: guess by a program's name or its arguments.

use crate::facts::{Endpoint, ObjectRef, ThreadRef};
use crate::model::Model;
use std::net::SocketAddr;

/// The process that has an address; `asker` would have it too.
pub fn owner<'m>(
    model: &'m Model,
    address: SocketAddr,
    asker: &ThreadRef,
) -> Option<&'m ThreadRef> {
    let netns = |thread: &ThreadRef| {
        model.threads.identity(thread).map(|known| known.netns).filter(|netns| *netns != 0)
    };
    let own = netns(asker);
    let has_it = |end: &&Endpoint| match &end.object {
        ObjectRef::Inet(socket) => {
            let (ip, other) = (address.ip(), socket.local.ip());
            socket.local.port() == address.port()
                && socket.remote.port() == 0
                && (ip == other || ip.is_unspecified() || other.is_unspecified())
                && own.is_none_or(|own| own == socket.netns)
                && end.process.pid != asker.pid
        }
        _ => false,
    };
    // Forked servers share the socket: the first process of them has it.
    let ends = model.held.endpoints.iter().filter(has_it);
    ends.map(|end| &end.process).min_by_key(|process| (process.start_ns, process.pid))
}
