//! The walks over the processes of whom was asked about, as a reader: where there are no kernel programs.
//!
//! Must not: walk itself (family/). Edit together: standing_waits.rs, which completes what was seen standing.

use super::family::{Family, Observed};
use super::look::Look;
use super::reader::{Opening, Reader};
use super::standing_waits::complete;
use crate::SourceError;
use crate::source::system;
use holdup_reason::facts::{Body, Fact};

/// See the head of the file.
pub(super) struct FamilyWalks;

impl Reader for FamilyWalks {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn begin(&mut self, look: &mut Look) -> Result<(), SourceError> {
        if let Some(pid) = look.pid.filter(|_| look.programs.is_none()) {
            let begun = Family::begin(&look.roots, pid, look.window.begin_ns);
            look.family = Some(begun.map_err(system("walk the command's processes"))?);
        }
        Ok(())
    }

    fn drain(&mut self, look: &mut Look, facts: &mut Vec<Fact>) {
        let seen = look.family.as_ref().map(Family::take).unwrap_or_default();
        take_over(look, seen, facts);
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let seen = look.family.as_ref().map(Family::end).unwrap_or_default();
        take_over(look, seen, facts);
        Ok(())
    }
}

/// Takes over what the walks have seen.
fn take_over(look: &mut Look, seen: Vec<Observed>, facts: &mut Vec<Fact>) {
    let mut waits = Vec::new();
    for Observed { at_ns, mut body, frames } in seen {
        let numbers = &mut look.stack_numbers;
        match &mut body {
            Body::Wait(wait) => wait.place.stack = numbers.of(&frames, at_ns, facts),
            Body::Blocked(it) => it.place.stack = numbers.of(&frames, at_ns, facts),
            _ => {}
        }
        match body {
            Body::Blocked(_) => waits.push(Fact { at_ns, body }),
            Body::Endpoint(endpoint) => look.ends.replace(at_ns, endpoint),
            Body::Thread(thread) => {
                look.identities.know(thread.thread.tid);
                facts.push(Fact { at_ns, body: Body::Thread(thread) });
            }
            body => facts.push(Fact { at_ns, body }),
        }
    }
    complete(look, &mut waits, facts);
    facts.append(&mut waits);
}
