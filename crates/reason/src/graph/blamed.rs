//! Who would have to act behind an end: of all to whom its leaves lead the one behind most of it, and how many are like that one.
//!
//! Must not: decide what an end is (ends.rs). Rejected: one process for all that several of a name did in turn (a child that lived for two seconds does
//! not sleep for eight).

use super::end::{End, EndKind};
use super::leaf::Leaf;
use crate::facts::ThreadRef;
use crate::model::Model;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeSet, HashMap};

/// One that did more of it is who did it.
static ALONE_MIN: Threshold = Threshold::new(
    0.9,
    "1",
    "part of an end that one process has slept for, from which on the others of its name are not counted",
    "chosen",
);

/// Who would have to act behind a leaf.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Blamed {
    /// Whoever holds it longest: of thousands of holders that one is looked for once, when all leaves are in.
    Holder,
    Nobody,
    Thread(ThreadRef),
}

impl Blamed {
    /// Of two behind the same time always the same one comes first.
    fn order(&self) -> (u32, u32) {
        match self {
            Self::Thread(who) => (who.pid, who.tid),
            Self::Holder | Self::Nobody => (0, 0),
        }
    }
}

/// Who is behind most of an end; and where several processes of that name have slept for it, each for a part, how many.
pub(super) fn most(end: &End, blamed: &HashMap<Blamed, f64>) -> (Option<ThreadRef>, usize) {
    let by_time = |one: &(&Blamed, &f64), other: &(&Blamed, &f64)| {
        one.1.total_cmp(other.1).then_with(|| other.0.order().cmp(&one.0.order()))
    };
    match blamed.iter().max_by(by_time) {
        Some((Blamed::Holder, _)) => (end.holder().cloned(), 0),
        Some((Blamed::Thread(who), own)) => {
            let whole: f64 = blamed.values().sum();
            let is_shared = end.kind == EndKind::Sleep && *own < ALONE_MIN.value * whole;
            let names = blamed.keys().filter_map(|it| match it {
                Blamed::Thread(it) if it.comm == who.comm => Some(it.pid),
                _ => None,
            });
            let pids: BTreeSet<u32> = names.filter(|_| is_shared).collect();
            (Some(who.clone()), pids.len())
        }
        Some((Blamed::Nobody, _)) | None => (None, 0),
    }
}

/// Who holds what names an end, where that is not the main holder: of a server that serves each client by a thread, the client
/// whose next word the holding thread waits for; of a traced process, its tracer, if it is known.
pub(super) fn who_beyond(model: &Model, leaf: &Leaf, named: usize) -> Blamed {
    let link = &leaf.links[named];
    if link.class == WaitClass::Traced {
        let tracer = model.threads.identity(&link.who).map(|known| known.tracer_pid);
        let tracer = tracer.filter(|pid| *pid != 0).map(|pid| model.threads.thread_ref(pid));
        return tracer.map_or(Blamed::Nobody, Blamed::Thread);
    }
    // Whoever sleeps before the next try ends it by trying.
    // A limit of the process's own is met by itself.
    let is_own_limit = matches!(link.object, Object::Limit(_));
    if EndKind::of(link.class) == EndKind::Sleep || is_own_limit {
        return Blamed::Thread(link.who.clone());
    }
    let client = leaf.links.get(named + 1).filter(|next| next.who.pid == link.who.pid);
    let client = client.and_then(|next| next.question_of).filter(|pid| *pid != 0);
    client.map_or(Blamed::Holder, |pid| Blamed::Thread(model.threads.thread_ref(pid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::leaf::ChainLink;
    use crate::rules::scenes::{LOOK_NS, thread};
    use std::sync::Arc;

    /// Who slept for an end, and how many of that name, if these processes slept for so many seconds each.
    fn slept(of: &[(u32, &str, f64)]) -> (Option<u32>, usize) {
        let timer = || Object::Timer("nanosleep".into());
        let link = ChainLink::of(thread(20, "sleep"), WaitClass::Timer, timer(), (0, LOOK_NS));
        let links = vec![Arc::new(link)];
        let leaf = Leaf { begin_ns: 0, end_ns: LOOK_NS, links, circle: None };
        let end = End::new(EndKind::Sleep, WaitClass::Timer, timer(), &leaf, 0);
        let blamed =
            of.iter().map(|(pid, comm, seconds)| (Blamed::Thread(thread(*pid, comm)), *seconds));
        let (who, many) = most(&end, &blamed.collect());
        (who.map(|it| it.pid), many)
    }

    #[test]
    fn several_that_slept_in_turn_are_counted_and_one_beside_others_is_not() {
        let all = [(20, "sleep", 2.0), (21, "sleep", 2.5), (22, "sleep", 2.0), (23, "cat", 2.0)];
        assert_eq!(slept(&all), (Some(21), 3));
        assert_eq!(slept(&[(20, "sleep", 9.5), (21, "sleep", 0.5)]), (Some(20), 0));
        assert_eq!(slept(&[(20, "sleep", 2.0)]), (Some(20), 0));
    }
}
