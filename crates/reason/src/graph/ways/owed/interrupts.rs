//! Who only interrupts an event loop: he ended its wait, and has not done what somebody else waits for.
//!
//! The wait in which somebody is owed an answer is cut by questions of other clients, and by ticks. An answer that follows the end of a
//! wait, beside what the thread computed for it, makes that end the one that counted. Must not: choose who did it instead
//! (event_loop.rs).

use crate::facts::{Ns, ObjectRef, ThreadRef};
use crate::graph::conversation::{answered_ns, had_asked};
use crate::graph::index::Index;
use crate::graph::next::Asker;
use crate::graph::question::is_ended_by_a_question;
use crate::graph::wakers::{SAMPLES_APART, is_unseen};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, WaitSpan};

/// How long a loop may wait between an event and the answer to it.
pub(super) static FOLLOWS_MAX: Threshold = Threshold::new(
    5.0,
    "ms",
    "idle time of a loop between an event and the answer to it: after a longer rest something else led to the answer",
    "chosen: a loop answers in the round in which it hears of it, and a second round takes a few milliseconds",
);

/// Connections of a client that are looked at: a bound on the work.
const CONNECTIONS_LOOKED_AT: usize = 64;

/// Whether who ended a wait for events has not done what somebody else waits for: he came with a question of his own, or is
/// another process that was not asked, and no answer followed.
pub(super) fn only_interrupts(
    index: &Index<'_>,
    wait: &WaitSpan,
    by: &ThreadRef,
    asker: Option<Asker<'_>>,
) -> bool {
    let Some(asker) = outside(index, asker, wait).filter(|asker| asker.who.pid != by.pid) else {
        return false;
    };
    if wait.class != WaitClass::Idle || index.families.is_related(by, &wait.thread) {
        return false;
    }
    match answered_ns(index, asker, wait.thread.pid) {
        Some(answered_ns) => !follows(index, wait, answered_ns) && !had_asked(index, wait, by),
        None => {
            is_ended_by_a_question(index, wait)
                || is_a_client(index, by, wait.thread.pid) && !had_asked(index, wait, by)
        }
    }
}

/// Whether a process has connected to another: what it brings there is a question of its own.
fn is_a_client(index: &Index<'_>, by: &ThreadRef, server: u32) -> bool {
    let mut own = index.connections.all_of(by.pid).take(CONNECTIONS_LOOKED_AT);
    own.any(|end| match &end.object {
        ObjectRef::Inet(socket) => {
            socket.remote.port() != 0
                && !index.connections.is_accepted(socket)
                && index.connections.far_processes(socket).iter().any(|far| far.pid == server)
        }
        _ => false,
    })
}

/// Who asked by a connection. Who belongs to the same program waits for a thing of theirs, and whoever has that keeps it
/// until its own client lets it go.
pub(super) fn outside<'w>(
    index: &Index<'_>,
    asker: Option<Asker<'w>>,
    wait: &WaitSpan,
) -> Option<Asker<'w>> {
    asker.filter(|asker| !index.families.is_related(asker.who, &wait.thread))
}

/// Whether an answer followed the end of a wait, beside what the thread computed for it.
pub(super) fn follows(index: &Index<'_>, wait: &WaitSpan, answered_ns: Ns) -> bool {
    let slack_ns = if is_unseen(wait) { SAMPLES_APART.ns() } else { 0 };
    let Some(apart_ns) = (answered_ns + slack_ns).checked_sub(wait.end_ns) else {
        return false;
    };
    if apart_ns <= FOLLOWS_MAX.ns() + 2 * slack_ns {
        return true;
    }
    let key = index.model.threads.key(&wait.thread);
    let pieces = index.timelines.pieces(key, wait.end_ns, answered_ns);
    let is_idle =
        |doing: &Doing<'_>| matches!(doing, Doing::Waiting(it) if it.class == WaitClass::Idle);
    let idle = pieces.iter().filter(|piece| is_idle(&piece.doing));
    idle.map(|piece| piece.end_ns - piece.begin_ns).sum::<Ns>() <= FOLLOWS_MAX.ns()
}

#[cfg(test)]
mod tests {
    use super::only_interrupts;
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::next::{Asker, Until};
    use crate::graph::ways::scenes::{NO_ARGS, ended, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{descriptor, endpoint, host, thread};
    use crate::waits::timeline::Observed;

    /// Client 30 waits for loop 10 all the time; 20 ended a wait of that, and has connected to this port.
    fn interrupts(port: u16) -> bool {
        let near = inet("tcp", 5, "10.0.0.1:5000", "10.0.0.1:80", 1);
        let own = inet("tcp", 7, "10.0.0.1:6000", &format!("10.0.0.1:{port}"), 1);
        let far = inet("tcp", 8, "10.0.0.1:80", "10.0.0.1:6000", 1);
        let by = thread(20, "wrk");
        let facts = vec![
            endpoint(10, "proxy", inet("tcp", 1, "0.0.0.0:80", "0.0.0.0:0", 10)),
            descriptor(10, 4, "proxy", far),
            endpoint(20, "wrk", own),
            endpoint(30, "curl", near.clone()),
            stands(thread(30, "curl"), place("recvfrom", NO_ARGS, Some(near))),
            ended(of_ten(10), place("epoll_wait", NO_ARGS, None), by.clone(), WakeContext::Task),
        ];
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        let of = |tid| timelines.waits().find(|wait| wait.thread.tid == tid).expect("it waits");
        let asker = Asker { who: &thread(30, "curl"), until: Until::Wait(of(30)) };
        only_interrupts(&index, of(10), &by, Some(asker))
    }

    #[test]
    fn who_has_connected_to_a_loop_brings_it_a_question_where_it_has_not_answered_yet() {
        assert!(interrupts(80));
        assert!(!interrupts(81), "it is no client of the loop");
    }
}
