//! Open descriptors as a source: sockets at the begin, all that matter at the end, behind what was known of them before.
//!
//! Which matter is endpoints.rs's to say. Must not: read them while the look goes on (standing_waits.rs does, where a wait asks for it).

use super::endpoints::{Ends, inodes, relevant};
use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::decode::dns::asks_names;
use crate::system::clock::now;
use crate::system::memory;
use holdup_reason::facts::*;
use std::collections::BTreeMap;

/// See the head of the file.
pub(super) struct Connections;

impl Reader for Connections {
    fn open(look: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        if let Some(programs) = look.programs.as_mut() {
            let at_ns = now();
            look.ends = Ends::at_begin(at_ns, programs.endpoints()?);
            let earlier = look.ends.earlier();
            programs.follow_names(earlier.values().any(|fact| asks_names(&fact.body)))?;
            name_polled(&mut programs.inbox.borrow_mut().facts, earlier);
        }
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        look.read_endpoints()?;
        let (at_ns, endpoints) = look.last.endpoints.take().unwrap_or_default();
        let waited = &mut look.waited;
        // And their other ends.
        for endpoint in &endpoints {
            if waited.polled.contains_key(&(endpoint.process.pid, endpoint.fd)) {
                waited.objects.extend(inodes(&endpoint.object));
            }
        }
        let (endpoints, left_out) = relevant(endpoints, &waited.objects, &waited.polled);
        facts.extend(left_out.map(|blind| Fact { at_ns, body: Body::Blind(blind) }));
        for endpoint in endpoints {
            look.identities.want(endpoint.process.pid);
            look.ends.report(at_ns, endpoint, facts);
        }
        facts.extend(look.ends.take_between());
        Ok(())
    }
}

/// Names the socket that a thread polls alone: from its memory, which says so only while it waits.
fn name_polled(facts: &mut [Fact], sockets: &BTreeMap<(u32, u32, u64), Fact>) {
    for fact in facts {
        let Body::Blocked(blocked) = &mut fact.body else { continue };
        let polls = matches!(blocked.place.syscall.as_str(), "poll" | "ppoll");
        if !polls || blocked.place.object.is_some() || blocked.kernel {
            continue;
        }
        let [array, count, ..] = blocked.place.args;
        let pid = blocked.thread.pid;
        if let [fd] = memory::poll_descriptors(pid, array, count)[..]
            && let Some((_, known)) = sockets.range((pid, fd, 0)..=(pid, fd, u64::MAX)).next()
            && let Body::Endpoint(endpoint) = &known.body
        {
            blocked.place.object = Some(endpoint.object.clone());
        }
    }
}
