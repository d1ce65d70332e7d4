//! Who asks for most of what a disk does while others wait for it: the journal, the weights and plain saturation each have
//! such a one, and differ in the way in which he is before the others.
//!
//! Use is no fault: whoever is mainly held up by himself is no neighbour, nor is who works for the victims.

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::DiskView;
use crate::rules::engine::Loss;
use crate::threshold::Threshold;

/// His share of the work.
pub(super) static SHARE: Threshold = Threshold::new(
    0.6,
    "1",
    "one process asks for at least this part of the disk's work before it is to blame",
    "chosen: clearly more than all others together",
);
/// What another one loses.
pub(super) static SUFFERS: Threshold = Threshold::new(
    0.1,
    "1",
    "somebody else waits for at least this part of the time, else the main user only waits for himself",
    "chosen: less is not noticed",
);

/// How much of that the kernel does for him.
pub(super) static WRITTEN_BACK: Threshold = Threshold::new(
    0.5,
    "1",
    "of what the main user asks for, the part that the kernel writes back for it, from which on it is the kernel's priority that counts",
    "chosen: most",
);

/// Somebody who is not (mainly) a victim and asks for most.
pub(super) struct Neighbour<'m> {
    /// Who.
    pub who: &'m ThreadRef,
    /// His share of the work.
    pub share: f64,
    /// Most of it is what the kernel writes back for him: his own I/O priority counts for nothing then.
    pub is_written_back: bool,
}

/// The neighbour of those who wait for a disk.
pub(super) fn neighbour<'m>(
    measures: &'m Measures<'m>,
    end: &End,
    view: &'m DiskView<'m>,
) -> Option<Neighbour<'m>> {
    let most = view.main_user()?;
    let pid = most.process.pid;
    let suffers = SUFFERS.value * measures.wall_seconds();
    let others_suffer =
        end.victims.iter().any(|(other, (_, seconds))| *other != pid && *seconds >= suffers);
    let serves =
        end.links[0].who.pid != pid && end.links[1..].iter().any(|link| link.who.pid == pid);
    let is_most = most.share >= SHARE.value && most.is_above_journal;
    let is_written_back = most.written_back > WRITTEN_BACK.value;
    (is_most && others_suffer && !serves).then_some(Neighbour {
        who: most.process,
        share: most.share,
        is_written_back,
    })
}

/// The name of whoever else loses most.
pub(super) fn victim_beside(measures: &Measures<'_>, loss: &Loss<'_>, who: &ThreadRef) -> String {
    let other = loss.victims.iter().find(|(victim, _)| victim.pid != who.pid);
    other.map_or_else(|| loss.victim.clone(), |(victim, _)| measures.subject(victim))
}
