//! Whom a broker has given a client's question to: a worker that has connected to the broker itself, as services of NATS and workers of a queue
//! of tasks do.
//!
//! Nothing on the worker's connection says that it is at work for somebody: it made that connection, and the other end has had the last word there, as of
//! a client that has its answer. But that word came as the question of somebody came to the broker who has no answer yet, the worker had said nothing
//! right before it, and none of its threads would hear another. By the clocks of the connections: a unix socket has none. Must not: choose where two workers were sent something then (each
//! subscriber hears of it), or believe a word that came before the question. Rejected: whoever was sent something last and does something else since
//! (each client of a database).

use super::debts::Debt;
use super::index::Index;
use super::relayed::CLOCKS_APART;
use crate::facts::{Ns, ThreadRef};
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// The worker to whom a broker gave the question that a wait of its client is for.
pub(super) fn worker(index: &Index<'_>, asks: &WaitSpan, broker: u32) -> Option<ThreadRef> {
    let asked_ns = question(index, asks)?.asked_ns();
    let slack_ns = CLOCKS_APART.ns();
    let within = (asked_ns.saturating_sub(slack_ns), asked_ns.saturating_add(slack_ns));
    let is_given = |(pid, ino): &(u32, u64)| {
        let socket = index.model.called.socket(*ino);
        let far = socket.map(|socket| index.connections.far_processes(socket)).unwrap_or_default();
        *pid != asks.thread.pid
            && *pid != broker
            && far.iter().any(|it| it.pid == broker)
            && is_unasked(index, (*pid, *ino))
    };
    let given: BTreeMap<u32, u64> =
        index.debts.answered_within(within.0, within.1).filter(is_given).collect();
    let mut given = given.into_iter();
    let (Some((pid, ino)), None) = (given.next(), given.next()) else { return None };
    at_it(index, pid, ino)
}

/// Whether a process had said nothing right before the other end's last word on its connection: that is no answer to it.
fn is_unasked(index: &Index<'_>, (pid, ino): (u32, u64)) -> bool {
    let word = index.debts.last_answered(pid, ino);
    word.is_some_and(|it| it.since_ns.saturating_add(CLOCKS_APART.ns()) < it.seen_ns)
}

/// The workers to whom brokers gave questions that clients stand for, and from when to when within the look.
pub(super) fn times(index: &Index<'_>) -> Vec<(ThreadRef, Ns, Ns)> {
    let look = &index.model.look;
    let asked =
        index.debts.awaits.iter().flat_map(|(pid, all)| all.iter().map(move |it| (*pid, it)));
    let found = asked.filter_map(|(pid, debt)| {
        let far = index.connections.far_processes(index.model.called.socket(debt.ino)?);
        let [broker] = &far[..] else { return None };
        let threads = index.families.threads_of(&[pid]);
        let mut last = threads.iter().filter_map(|it| index.waits.of(it).last());
        let asks = last.find(|wait| wait.object == Object::Inet(debt.ino))?;
        let since_ns = debt.asked_ns().max(look.begin_ns);
        Some((worker(index, asks, broker.pid)?, since_ns, look.end_ns))
    });
    found.collect()
}

/// What a standing wait for an answer was asked.
fn question<'i>(index: &'i Index<'_>, asks: &WaitSpan) -> Option<&'i Debt> {
    let Object::Inet(ino) = asks.object else { return None };
    let awaits = index.debts.awaits.get(&asks.thread.pid).filter(|_| asks.standing)?;
    awaits.iter().find(|debt| debt.ino == ino && debt.since_known)
}

/// The thread of a process that is at something else than a connection of it, if none of the others may hear what comes there.
fn at_it(index: &Index<'_>, pid: u32, ino: u64) -> Option<ThreadRef> {
    let threads = index.families.threads_of(&[pid]);
    let last = |thread: &ThreadRef| index.waits.of(thread).last().filter(|wait| wait.standing);
    let hears = |wait: &WaitSpan| wait.class == WaitClass::Idle || wait.object == Object::Inet(ino);
    if threads.iter().filter_map(last).any(hears) {
        return None;
    }
    let is_busy =
        |thread: &&ThreadRef| last(thread).is_none_or(|it| it.class != WaitClass::FutexWait);
    let mut busy = threads.iter().filter(is_busy);
    let first = busy.next()?;
    busy.next().is_none().then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use super::times;
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::scenes::{NO_ARGS, place, stands};
    use crate::rules::net::scenes::{inet, spoken};
    use crate::rules::scenes::{endpoint, host, thread};
    use crate::waits::timeline::Observed;

    const BROKER: &str = "127.0.0.1:80";

    /// A connection of a process to the broker, on which this was said last so many milliseconds ago.
    fn connected(pid: u32, ms: u32, by_it: bool) -> Vec<Fact> {
        let port = format!("127.0.0.1:{}", 5_000 + pid);
        let near = inet("tcp", u64::from(pid) * 10, &port, BROKER, 1);
        let far = inet("tcp", u64::from(pid) * 10 + 1, BROKER, &port, 1);
        let mut accepted = spoken(20, "broker", far, ms, !by_it);
        if let Body::Endpoint(end) = &mut accepted.body {
            end.fd = pid;
        }
        vec![spoken(pid, "app", near, ms, by_it), accepted]
    }

    /// The worker 30 that was sent something so long ago and does this since, seen beside a client that asked 2 s ago.
    fn found(ms: u32, does: &str, more: Vec<Fact>) -> Vec<u32> {
        let reads = inet("tcp", 100, "127.0.0.1:5010", BROKER, 1);
        let listens = inet("tcp", 1, BROKER, "0.0.0.0:0", 10);
        let facts = vec![
            endpoint(20, "broker", listens),
            stands(thread(20, "broker"), place("epoll_wait", NO_ARGS, None)),
            stands(thread(10, "client"), place("recvfrom", NO_ARGS, Some(reads))),
            stands(thread(30, "worker"), place(does, NO_ARGS, None)),
        ];
        let both = [connected(10, 2_000, true), connected(30, ms, false)].concat();
        let facts = [host(), facts, both, more].concat();
        let Observed { model, timelines } = Observed::new(facts);
        times(&Index::new(&model, &timelines)).into_iter().map(|(worker, ..)| worker.pid).collect()
    }

    #[test]
    fn who_was_sent_something_as_a_client_asked_is_at_work_for_it() {
        assert_eq!(found(2_000, "clock_nanosleep", Vec::new()), [30]);
        assert!(found(2_200, "clock_nanosleep", Vec::new()).is_empty(), "another's");
        assert!(found(1_000, "clock_nanosleep", Vec::new()).is_empty(), "it was later");
        assert!(found(2_000, "epoll_wait", Vec::new()).is_empty(), "it hears what comes next");
    }

    #[test]
    fn who_asked_right_before_has_its_own_answer() {
        let mut polls = connected(40, 2_000, false);
        for fact in &mut polls {
            let Body::Endpoint(end) = &mut fact.body else { continue };
            let turn = end.socket.as_mut().and_then(|it| it.turn.as_mut()).expect("it has clocks");
            let last = turn.sent_jiffies.min(turn.received_jiffies);
            (turn.sent_jiffies, turn.received_jiffies) = match end.process.pid {
                40 => (last + 1, last),
                _ => (last, last + 1),
            };
        }
        polls.push(stands(thread(40, "poller"), place("clock_nanosleep", NO_ARGS, None)));
        assert_eq!(found(2_000, "clock_nanosleep", polls), [30], "and it makes no second worker");
    }

    #[test]
    fn of_two_who_were_sent_something_then_nobody_knows_which() {
        let sleeps = stands(thread(40, "other"), place("clock_nanosleep", NO_ARGS, None));
        let mut other = connected(40, 2_000, false);
        other.push(sleeps);
        assert!(found(2_000, "clock_nanosleep", other).is_empty());
    }

    #[test]
    fn a_worker_of_several_threads_is_at_it_with_the_one_that_no_word_holds() {
        let beside = |does: &str| {
            let thread = ThreadRef { tid: 31, ..thread(30, "worker") };
            vec![stands(thread, place(does, [0x7000, 128, 0, 0, 0, 0], None))]
        };
        assert_eq!(found(2_000, "clock_nanosleep", beside("futex")), [30]);
        assert!(found(2_000, "clock_nanosleep", beside("epoll_wait")).is_empty());
        assert!(found(2_000, "clock_nanosleep", beside("clock_nanosleep")).is_empty(), "which?");
    }
}
