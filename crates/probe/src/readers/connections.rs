//! Open descriptors as a source: sockets at the begin, all that matter at the end, behind what was known of them before.
//! By those of the begin it is chosen whose refused calls are reported beside those of who is asked about.
//!
//! Which matter is endpoints.rs's to say. Must not: read them while the look goes on (standing_waits.rs does, where a wait asks for it).

use super::endpoints::{Ends, inodes, owing, relevant};
use super::look::Look;
use super::polled;
use super::reader::{Opening, Reader};
use super::waiter_memory::{Answer, Unread, answers};
use crate::SourceError;
use crate::decode::dns::asks_names;
use crate::decode::wire::wire_control;
use crate::system::Roots;
use crate::system::clock::now;
use holdup_reason::facts::*;
use std::collections::BTreeMap;
use std::iter;

/// See the head of the file.
pub(super) struct Connections;

impl Reader for Connections {
    fn open(look: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        if let Some(programs) = look.programs.as_mut() {
            let at_ns = now();
            let all = programs.endpoints()?;
            if let Some((pid, control)) = look.pid.zip(programs.control()) {
                watch(control, owing(&all, &[pid], control.watched_tgids.len()));
            }
            look.ends = Ends::at_begin(at_ns, all);
            let earlier = look.ends.earlier();
            let asked = look.stacks.process();
            programs.follow_names(earlier.values().any(|fact| asks_names(&fact.body, asked)))?;
            let stood = &mut programs.inbox.borrow_mut().facts;
            name_polled(&look.roots, stood, earlier, &mut look.waited.unread);
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

/// From here on the refused calls of these processes are reported, too.
pub(super) fn watch(control: &mut wire_control, pids: Vec<u32>) {
    let own = std::process::id();
    let others = pids.into_iter().filter(|pid| *pid != own).chain(iter::repeat(0));
    control.watched_tgids.iter_mut().zip(others).for_each(|(place, pid)| *place = pid);
}

/// Names the socket that a thread polls alone: from its memory, which says so only while it waits.
fn name_polled(
    roots: &Roots,
    facts: &mut [Fact],
    sockets: &BTreeMap<(u32, u32, u64), Fact>,
    unread: &mut Unread,
) {
    let mut questions = Vec::new();
    for (at, fact) in facts.iter().enumerate() {
        let Body::Blocked(blocked) = &fact.body else { continue };
        let pid = blocked.thread.pid;
        let has_sockets = sockets.range((pid, 0, 0)..=(pid, u32::MAX, u64::MAX)).next().is_some();
        if !blocked.kernel && has_sockets {
            // Not recent: of poll alone.
            let asked = polled::question(blocked, false, &polled::Ports::default());
            questions.extend(asked.map(|question| (at, question)));
        }
    }
    for (at, question, answer) in answers(roots, facts, &questions, unread) {
        let Body::Blocked(blocked) = &mut facts[at].body else { continue };
        let pid = blocked.thread.pid;
        if let Answer::Descriptors(all, _) = answer
            && let Some(fd) = polled::only(question, &all)
            && let Some((_, known)) = sockets.range((pid, fd, 0)..=(pid, fd, u64::MAX)).next()
            && let Body::Endpoint(endpoint) = &known.body
        {
            blocked.place.object = Some(endpoint.object.clone());
        }
    }
}
