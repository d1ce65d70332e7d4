//! The peer of what ended, or will end, a wait for events: who is at the other end of that connection or pipe.
//!
//! Not if the asker is there: he waits for it, so it does not wait for him; nor if somebody connected just then, who may have been begun for that. Nor if it is another client, which has asked again and again since the asker
//! did: what it says has brought him no answer (who measures a server's delay, or reads its counters). Another client that says a word or two, and
//! that the server has sent nothing since the question on a word of the asker's, brings what the asker waits for, and is asked for nothing (who puts
//! jobs into a queue, and gets their results); a worker that takes its jobs there is sent one first. Must not: look among several descriptors (descriptors.rs).

use crate::facts::{Ns, ObjectRef, ThreadRef};
use crate::graph::channels::far_end;
use crate::graph::conversation::{WAITS_LOOKED_AT, asked_ns};
use crate::graph::next::{Next, Until};
use crate::graph::question::{is_asked_by, is_for_a_question};
use crate::graph::wakers::{carrier, waker};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;

/// From so many on what another client says brings the asker nothing.
static WORDS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "waits of a server that another client's words ended while one question stood: the answer may need one or two of them",
    "chosen, as for the loop's answers",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "far end",
    because: "it is at the other end of what is waited for",
    of: FOR_EVENTS,
    thresholds: &[&WORDS_MIN],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let may = at.is_on_a_channel()
        && !is_for_a_new_client(at)
        && !is_asked_by(at.index, at.wait, at.asker)
        && !only_asks(at)
        && !serves_all(at);
    let by = may.then(|| far_end(at.index, at.wait)).flatten()?;
    Some(match brings_his_own(at, &by) {
        true => Next::Brought(by, at.wait.end_ns),
        false => Next::Thread(by),
    })
}

/// Whether a wait was for whoever connects next: who has done so since was not there before, and has brought nobody's answer.
fn is_for_a_new_client(at: &Waiter<'_>) -> bool {
    match &at.wait.place.object {
        Some(ObjectRef::Inet(socket)) => socket.state == TCP_LISTEN,
        Some(ObjectRef::Unix { ino, peer_ino: 0, .. }) => {
            at.index.model.called.unix_path(*ino).is_some()
        }
        _ => false,
    }
}

/// Whether who ended a wait of a loop is another client with a word of his own, as far as the loop has sent his process nothing for the asker while the question stood.
fn brings_his_own(at: &Waiter<'_>, by: &ThreadRef) -> bool {
    let (index, wait) = (at.index, at.wait);
    let is_loop = wait.class == WaitClass::Idle;
    let is_word = !wait.standing && is_loop && is_for_a_question(index, wait);
    // A loop that has asked waits for whatever comes, since its wait began at the latest.
    let of_loop = || match at.asker.filter(|asker| asker.who.pid != wait.thread.pid)?.until {
        Until::Wait(asks) => Some(asks.begin_ns),
        Until::At(_) => None,
    };
    let asked_ns = || question(at).map(|(asked_ns, _)| asked_ns).or_else(of_loop);
    let Some(asked_ns) = is_word.then(asked_ns).flatten() else { return false };
    // What the loop says right after a word of his is the answer to that, and after one of a third it is nothing that the asker asked.
    let asker = at.asker.map(|asker| asker.who.pid).filter(|pid| *pid != wait.thread.pid);
    let is_another = |pid: u32| asker.is_some_and(|asker| asker != pid && pid != wait.thread.pid);
    let is_not_asked = |sent_ns: Ns| {
        let all = index.waits.of(&wait.thread);
        let before = all[..all.partition_point(|it| it.begin_ns <= sent_ns)].iter().rev();
        let mut ended = before.filter(|it| it.end_ns <= sent_ns && it.class == WaitClass::Idle);
        let from = ended.next().and_then(carrier);
        from.is_some_and(|from| from.pid == by.pid || is_another(from.pid))
    };
    let is_sent = |it: &WaitSpan| {
        let from = waker(index, it).or_else(|| carrier(it).cloned());
        let is_from = from.is_some_and(|from| from.pid == wait.thread.pid);
        let sent_ns = it.wake.as_ref().map(|wake| wake.at_ns).filter(|_| is_from);
        sent_ns.is_some_and(|ns| (asked_ns..wait.end_ns).contains(&ns) && !is_not_asked(ns))
    };
    let threads = index.families.threads_of(&[by.pid]);
    let mut its = threads.iter().flat_map(|it| index.waits.within(it, asked_ns, wait.end_ns));
    !its.any(is_sent)
}

/// Whether another thread of the process waits for the one that is at its loop for all clients, by turns with it, and the client who came next comes
/// again and again: he brings his own words, and no answer to somebody else's.
fn serves_all(at: &Waiter<'_>) -> bool {
    let is_own = at.asker.is_some_and(|asker| asker.who.pid == at.wait.thread.pid);
    let is_loop = at.wait.place.syscall.starts_with("epoll_");
    is_own && is_loop && is_for_a_question(at.index, at.wait) && speaks_often(at, (0, Ns::MAX))
}

/// Whether who ended a wait is another client, which did so again and again while the question stood that is waited for.
fn only_asks(at: &Waiter<'_>) -> bool {
    let may = !at.wait.standing && is_for_a_question(at.index, at.wait);
    may && question(at).is_some_and(|stood| speaks_often(at, stood))
}

/// Whether what came on the connection that a wait is for ended waits of its thread again and again within a time.
fn speaks_often(at: &Waiter<'_>, (since_ns, until_ns): (Ns, Ns)) -> bool {
    let (index, wait) = (at.index, at.wait);
    let is_his = |it: &&WaitSpan| {
        !it.standing && it.object == wait.object && (since_ns..until_ns).contains(&it.end_ns)
    };
    let before = index.waits.before(wait).iter().rev().take(WAITS_LOOKED_AT);
    let after = index.waits.after(wait).iter().take(WAITS_LOOKED_AT);
    let his = before.chain([wait]).chain(after).filter(is_his);
    his.take(WORDS_MIN.count()).count() == WORDS_MIN.count()
}

/// Whether a wait for events is for the answer of the waiter's process.
fn asks_here(at: &Waiter<'_>, asks: &WaitSpan) -> bool {
    let Some(ObjectRef::Inet(socket)) = &asks.place.object else { return false };
    let far = at.index.connections.far_processes(socket);
    !is_for_a_question(at.index, asks) && far.iter().any(|it| it.pid == at.wait.thread.pid)
}

/// From when to when the question stood that is waited for: the asker's, or where nobody asks here the oldest of another client's.
fn question(at: &Waiter<'_>) -> Option<(Ns, Ns)> {
    let reads = |class| matches!(class, WaitClass::SocketRead | WaitClass::UnixRead);
    match at.asker.map(|asker| asker.until) {
        Some(Until::Wait(asks)) if reads(asks.class) || asks_here(at, asks) => {
            Some((asked_ns(at.index, asks), asks.end_ns))
        }
        Some(_) => None,
        None => {
            let own = match &at.wait.place.object {
                Some(ObjectRef::Inet(socket)) => socket.ino,
                _ => 0,
            };
            let owed = at.index.debts.owes.get(&at.wait.thread.pid)?.iter();
            let others = owed.filter(|debt| debt.ino != own);
            others.map(|debt| (debt.asked_ns(), Ns::MAX)).min()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::next::{Asker, Next, Until};
    use crate::graph::ways::responsible;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place, stands};
    use crate::graph::ways::way::Waiter;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, descriptor, endpoint, host, thread};
    use crate::waits::timeline::Observed;

    /// Process 20 waits all the look for an answer of the loop of process 10, which client 30 asks so often meanwhile. Whether 30 is who is
    /// waited for in the loop's waits that it ended; by 20, or by another thread of the server.
    fn other_client(times: u64, is_own: bool) -> Vec<bool> {
        let is_his = |next: &Next| matches!(next, Next::Thread(by) | Next::Later(by, _) | Next::Brought(by, _) if by.pid == 30);
        followed(times, is_own, None).iter().map(is_his).collect()
    }

    /// The same, with who is followed; 30 may be sent something itself before it says a word, right after a word of this process.
    fn followed(times: u64, is_own: bool, sent_after: Option<u32>) -> Vec<Next> {
        let of = |local: &str, remote: &str, ino| inet("tcp", ino, local, remote, 1);
        let server = "127.0.0.1:80";
        let ends = |port: u16, ino| {
            let at = format!("127.0.0.1:{port}");
            (of(&at, server, ino), of(server, &at, ino + 1))
        };
        let (asks, talks) = (ends(5000, 500), ends(6000, 600));
        let mut facts = vec![
            descriptor(10, 3, "app", inet("tcp", 9, server, "0.0.0.0:0", 10)),
            descriptor(10, 4, "app", asks.1.clone()),
            descriptor(10, 5, "app", talks.1.clone()),
            endpoint(20, "client", asks.0.clone()),
            endpoint(30, "monitor", talks.0.clone()),
            stands(thread(20, "client"), place("recvfrom", NO_ARGS, Some(asks.0.clone()))),
            stands(of_ten(12), place("futex", NO_ARGS, None)),
        ];
        let by_packet = |(begin_ns, end_ns), by: u32| {
            let (context, by) = (WakeContext::SoftInterrupt, thread(by, "client"));
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let place = place("epoll_wait", NO_ARGS, Some(talks.1.clone()));
            let thread = of_ten(10);
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let sent_ns = sent_after.map_or(0, |_| LOOK_NS / 10);
        if let Some(after) = sent_after {
            let (end_ns, by) = (sent_ns, of_ten(10));
            let wake =
                Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
            let (thread, place) =
                (thread(30, "monitor"), place("recvfrom", NO_ARGS, Some(talks.0.clone())));
            let given = Wait { thread, begin_ns: 1, end_ns, place, wake, ..Wait::default() };
            facts.push(by_packet((1, end_ns - 1_000), after));
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(given) });
        }
        let each = LOOK_NS / (times + 1);
        for at in 0..times {
            let within = ((at * each).max(sent_ns) + 1, (at + 1) * each);
            facts.push(by_packet(within, 30));
        }
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        let asks = if is_own { 12 } else { 20 };
        let asking = timelines.waits().find(|it| it.thread.tid == asks).expect("it asks");
        let asker = Some(Asker { who: &asking.thread, until: Until::Wait(asking) });
        let of_loop = timelines.waits().filter(|it| it.thread.tid == 10 && it.begin_ns > sent_ns);
        of_loop.map(|it| responsible(&Waiter { asker, ..Waiter::of(&index, it) }, true).0).collect()
    }

    #[test]
    fn another_client_brings_its_own_words_unless_the_server_has_sent_it_something() {
        let is_brought = |next: &Next| matches!(next, Next::Brought(by, _) if by.pid == 30);
        let brought = |after| followed(1, false, after).iter().map(is_brought).collect::<Vec<_>>();
        assert_eq!(brought(None), [true], "it puts a job into a queue");
        assert_eq!(brought(Some(20)), [false], "it answers what it was given to do");
        assert_eq!(brought(Some(40)), [true], "it gets the result of an earlier job");
    }

    #[test]
    fn who_asks_a_server_again_and_again_meanwhile_is_not_who_another_client_waits_for() {
        assert_eq!(other_client(5, false), [false; 5]);
        assert_eq!(other_client(2, false), [true; 2], "that may bring the answer");
    }

    #[test]
    fn a_thread_that_waits_for_the_one_at_the_loop_waits_for_none_of_its_clients() {
        assert_eq!(other_client(5, true), [false; 5]);
    }

    #[test]
    fn who_connects_next_has_brought_nobodys_answer() {
        let listens = || ObjectRef::Unix { ino: 5, peer_ino: 0, path: Some("/run/bus".into()) };
        let at = place("epoll_wait", NO_ARGS, Some(listens()));
        let by = ThreadRef { start_ns: LOOK_NS / 4 * 3, ..thread(30, "client") };
        let waits = ended(of_ten(10), at, by, WakeContext::Task);
        let own = descriptor(10, 3, "app", listens());
        assert_eq!(led(vec![own, waits]), ("next question", None));
    }

    #[test]
    fn who_is_at_the_other_end_of_what_is_waited_for_is_next() {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: Some("/run/s".into()) };
        let waits = || stands(of_ten(10), place("epoll_wait", NO_ARGS, Some(near.clone())));
        let poll =
            |facts: Vec<Fact>| led([facts, vec![endpoint(20, "server", far.clone())]].concat());
        let (name, to) = poll(vec![waits()]);
        assert!(matches!(name, "far end" | "end of a connection"), "{name}");
        assert_eq!(to, Some(20));
    }
}
