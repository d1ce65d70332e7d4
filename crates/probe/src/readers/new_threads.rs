//! Who the threads are that new waits name, read while they still live; and in the end whoever else was named.
//!
//! Must not: know what they wait for, but for the object, which is written down for those who name its other end.

use super::identities::named;
use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use holdup_reason::facts::{Body, Fact};

/// See the head of the file.
pub(super) struct NewThreads;

impl Reader for NewThreads {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn drain(&mut self, look: &mut Look, facts: &mut Vec<Fact>) {
        for fact in facts.iter() {
            if let Body::Wait(wait) = &fact.body {
                look.waited.add(wait.place.object.as_ref());
            }
        }
        if look.is_overdue() {
            return;
        }
        let read = look.identities.read_new(&look.roots, named(facts), true);
        facts.extend(read.into_iter().map(|it| Fact { at_ns: now(), body: Body::Thread(it) }));
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let read = look.identities.read_wanted(&look.roots);
        facts.extend(read.into_iter().map(|it| Fact { at_ns, body: Body::Thread(it) }));
        let unread = look.identities.unread().into_iter();
        facts.extend(unread.map(|body| Fact { at_ns, body }));
        Ok(())
    }
}
