//! Questions that a loop has put over unix sockets. Those have no clocks: known is only how many connections it polls there, whose other ends do not
//! rest.
//!
//! Where a relay owes no more answers than it awaits by the clocks and may await there, each of its clients' questions is with somebody: it keeps none,
//! and what it asked before a question came is another client's. Must not: say which connection is whose, or count one to who rests (a pool keeps its
//! connections open).

use super::debts::Debt;
use super::index::Index;
use super::question::is_for_a_question;
use crate::facts::{Endpoint, Ns, ObjectRef, ThreadRef};
use crate::graph::conversation::asked_ns;
use crate::graph::next::{Asker, Until};
use crate::graph::relayed::CLOCKS_APART;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// Whether each question that a process owes an answer to may be with somebody whom it has asked, some over unix sockets.
pub(super) fn each_is_passed_on(index: &Index<'_>, pid: u32) -> bool {
    let end_ns = index.model.look.end_ns;
    let stand = |of: Option<&Vec<Debt>>| {
        of.into_iter().flatten().filter(|debt| debt.seen_ns >= end_ns).count()
    };
    let by_path = outstanding(index, pid);
    let awaited = stand(index.debts.awaits.get(&pid));
    by_path > 0 && stand(index.debts.owes.get(&pid)) <= awaited + by_path
}

/// When who waits for a process asked it, if whatever that process asked others before then was asked for somebody else.
pub(super) fn asked_anew(index: &Index<'_>, pid: u32, asker: Option<Asker<'_>>) -> Option<Ns> {
    let asker = asker.filter(|asker| asker.who.pid != pid)?;
    let Until::Wait(wait) = asker.until else { return None };
    each_is_passed_on(index, pid).then(|| asked_ns(index, wait))
}

/// Whether a process has asked on a connection before a time, and has no answer.
pub(super) fn is_asked_before(index: &Index<'_>, pid: u32, ino: u64, at_ns: Ns) -> bool {
    let debts = index.debts.awaits.get(&pid).into_iter().flatten();
    let before = |debt: &Debt| debt.since_ns.saturating_add(CLOCKS_APART.ns()) < at_ns;
    debts.filter(|debt| debt.ino == ino).any(|debt| debt.since_known && before(debt))
}

/// Connections that a process has made to somebody's path, and polls, whose other end does not rest.
fn outstanding(index: &Index<'_>, pid: u32) -> usize {
    let threads = index.families.threads_of(&[pid]);
    let polled = threads.iter().filter_map(|it| index.waits.of(it).last());
    let polled = polled.filter(|wait| wait.standing).flat_map(|wait| &wait.place.polled);
    let polled: Vec<u32> = polled.copied().collect();
    let ends = index.connections.of_process(pid, &polled);
    let far: BTreeMap<u64, u64> = ends.iter().filter_map(|end| asks(index, end)).collect();
    far.values().filter(|ino| is_at_work(index, pid, **ino)).count()
}

/// A connection that was made to somebody's path: both of its ends, or its own and the listener that has not accepted it.
fn asks(index: &Index<'_>, end: &Endpoint) -> Option<(u64, u64)> {
    let ObjectRef::Unix { ino, peer_ino, .. } = end.object else { return None };
    let is_named = |ino: u64| index.model.called.unix_path(ino).is_some();
    (!is_named(ino) && is_named(peer_ino)).then_some((ino, peer_ino))
}

/// Whether a thread of another process that has a socket does something else than to wait for whatever comes next.
fn is_at_work(index: &Index<'_>, pid: u32, ino: u64) -> bool {
    let far = index.connections.endpoints_on(ino).iter().map(|end| end.process.pid);
    let far: Vec<u32> = far.filter(|far| *far != pid).collect();
    let rests = |thread: &ThreadRef| {
        let last = index.waits.of(thread).last().filter(|wait| wait.standing);
        last.is_some_and(|it| it.class == WaitClass::Idle || is_for_a_question(index, it))
    };
    index.families.threads_of(&far).iter().any(|thread| !rests(thread))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    const PROXY: u32 = 20;

    /// One end of a connection by its descriptor, on which its owner, or the other end, has asked so many milliseconds before the end.
    fn spoken(pid: u32, fd: u32, object: ObjectRef, ms: u32, by_me: bool) -> Fact {
        let mut fact = crate::rules::net::scenes::spoken(pid, "app", object, ms, by_me);
        if let Body::Endpoint(end) = &mut fact.body {
            end.fd = fd;
        }
        fact
    }

    fn polls(pid: u32, syscall: &str, object: Option<ObjectRef>, polled: &[u32]) -> Fact {
        let (state, syscall) = (WaitState::Sleep, syscall.into());
        let place = Place { state, syscall, object, polled: polled.to_vec(), ..Place::default() };
        at_place(pid, "app", place)
    }

    /// Client 10 waits for the answer since then.
    fn asks_since(since_ns: Ns, on: ObjectRef) -> Fact {
        let mut fact = polls(10, "recvfrom", Some(on), &[]);
        if let Body::Blocked(blocked) = &mut fact.body {
            blocked.since_ns = since_ns;
        }
        fact
    }

    /// Client 10 asks a proxy 20 one second before the end; another client asked it 4 s before, which it passed on to 30 at once, by TCP. By a
    /// unix socket it is connected to 40, or waits to be accepted there; that does this. Who is the client's reason?
    fn reason(accepted: bool, does: &str, more: Vec<Fact>) -> Vec<(EndKind, Option<u32>)> {
        let asks = |at: u16| {
            let (client, ino) = (format!("127.0.0.1:{at}"), u64::from(at) * 2);
            let near = inet("tcp", ino, &client, "127.0.0.1:80", 1);
            (near, inet("tcp", ino + 1, "127.0.0.1:80", &client, 1))
        };
        let ((mine, his), (other, others)) = (asks(5001), asks(5002));
        let up = inet("tcp", 901, "127.0.0.1:6001", "127.0.0.1:8080", 1);
        let down = inet("tcp", 902, "127.0.0.1:8080", "127.0.0.1:6001", 1);
        let path = || Some("/run/app".to_string());
        let listener = || ObjectRef::Unix { ino: 700, peer_ino: 0, path: path() };
        let far = ObjectRef::Unix { ino: 701, peer_ino: 702, path: path() };
        let peer_ino = if accepted { 701 } else { 700 };
        let near = ObjectRef::Unix { ino: 702, peer_ino, path: None };
        let mut facts = host();
        facts.extend([
            of_process(10, "app"),
            descriptor(PROXY, 3, "app", inet("tcp", 1, "127.0.0.1:80", "0.0.0.0:0", 10)),
            descriptor(30, 3, "app", inet("tcp", 2, "127.0.0.1:8080", "0.0.0.0:0", 10)),
            descriptor(40, 3, "app", listener()),
            spoken(10, 4, mine.clone(), 1_000, true),
            spoken(PROXY, 4, his, 1_000, false),
            spoken(11, 4, other, 4_000, true),
            spoken(PROXY, 5, others, 4_000, false),
            spoken(PROXY, 6, up, 4_000, true),
            spoken(30, 4, down, 4_000, false),
            descriptor(PROXY, 7, "app", near),
            asks_since(LOOK_NS - 1_000_000_000, mine),
            polls(PROXY, "epoll_wait", None, &[3, 4, 5, 6, 7]),
            slept(30, "app", 0, LOOK_NS),
            blocked(40, "app", WaitState::Sleep, does),
        ]);
        facts.extend(accepted.then(|| descriptor(40, 4, "app", far)));
        facts.extend(more);
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| (end.end, end.who.as_ref().and_then(|by| by.pid))).collect()
    }

    #[test]
    fn a_question_that_went_out_by_path_is_not_with_whom_the_proxy_asked_before() {
        for accepted in [true, false] {
            let ends = reason(accepted, "clock_nanosleep", Vec::new());
            assert!(ends.contains(&(EndKind::Sleep, Some(40))), "{accepted}: {ends:?}");
            assert!(!ends.iter().any(|(_, who)| *who == Some(30)), "{accepted}: {ends:?}");
        }
    }

    #[test]
    fn who_rests_by_path_has_no_question_of_the_proxys() {
        let ends = reason(true, "epoll_wait", Vec::new());
        assert!(!ends.iter().any(|(_, who)| *who == Some(40)), "{ends:?}");
    }

    #[test]
    fn a_proxy_that_owes_more_than_it_may_have_asked_for_keeps_the_rest() {
        let near = inet("tcp", 20_000, "127.0.0.1:5003", "127.0.0.1:80", 1);
        let far = inet("tcp", 20_001, "127.0.0.1:80", "127.0.0.1:5003", 1);
        let third = vec![spoken(12, 4, near, 3_000, true), spoken(PROXY, 8, far, 3_000, false)];
        let ends = reason(true, "clock_nanosleep", third);
        assert!(!ends.iter().any(|(_, who)| *who == Some(40)), "any of two: {ends:?}");
    }
}
