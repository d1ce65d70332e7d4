//! Network namespaces as a row names them.
//!
//! Names are those that interfaces were read with: of `ip netns`, or of a process in it; the host's own has none. Must not: take a
//! namespace that nothing was read of for the host's own.

use super::contract::Namespace;
use crate::model::Model;

/// A namespace by its inode; 0 is none.
pub(super) fn namespace(model: &Model, netns: u32) -> Namespace {
    let link = model.net.links.iter().find(|link| link.netns == netns);
    let namespace = match (netns, link) {
        (0, _) => "not known".into(),
        (_, Some(link)) => link.netns_name.clone(),
        (netns, None) => format!("net:[{netns}]"),
    };
    Namespace { netns, namespace }
}
