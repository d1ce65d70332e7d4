//! A bus that was asked for a service which did not run, and has begun it: the process that is to answer, and has not.
//!
//! The bus does other things until the service has taken its name: its own timeout is not what is waited for, nor is whoever speaks to it next, as
//! the client that gives up. So it stands above the other end of a connection. Of its children the one that was begun as the question came, or of the
//! process of its own between them the child; a service that was there before has a connection of its own. Must not: choose among several, or be asked
//! of other servers, whose children may be for anything.

use crate::graph::next::{Next, Until};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::programs::systemd;
use crate::threshold::Threshold;

/// A child may be older than the question.
static BORN_BEFORE_MAX: Threshold = Threshold::new(
    30.0,
    "ms",
    "from the begin of a service to the question that it was begun for",
    "/proc has the begin of a process in ticks of 10 ms; twice that, and one for a greeting",
);
/// Or younger.
static BORN_AFTER_MAX: Threshold = Threshold::new(
    200.0,
    "ms",
    "from a question to the begin of the service that is to answer it",
    "chosen: a bus begins it at once, by way of two processes of its own, and a crowded CPU delays that",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "bus activation",
    because: "the bus began it for the question, and it has not answered",
    of: FOR_EVENTS,
    thresholds: &[&BORN_BEFORE_MAX, &BORN_AFTER_MAX],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    if !systemd::is_bus(&at.wait.thread.comm) {
        return None;
    }
    let asked_ns = match at.asker?.until {
        Until::Wait(wait) => wait.begin_ns,
        Until::At(_) => return None,
    };
    let from = asked_ns.saturating_sub(BORN_BEFORE_MAX.ns());
    let then = from..=asked_ns.saturating_add(BORN_AFTER_MAX.ns());
    let mut begun = at.index.families.living_children(at.wait.thread.pid);
    begun.retain(|child| then.contains(&child.start_ns) && at.was_there(child));
    let [only] = &begun[..] else { return None };
    if !systemd::is_bus(&only.comm) {
        return Some(Next::Thread(only.clone()));
    }
    match &at.index.families.living_children(only.pid)[..] {
        [service] => Some(Next::Thread(service.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Client 10 has asked bus 20 since a second into the look; who is at the end of the chain, if these services were begun then, each by a process
    /// of the bus's own.
    fn at_the_end(children: &[(u32, Ns)]) -> Option<u32> {
        const ASKED_NS: Ns = 1_000_000_000;
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "dbus-daemon", WaitState::Sleep, "epoll_wait")));
        for fact in &mut facts {
            if let Body::Blocked(it) = &mut fact.body
                && it.thread.pid == 10
            {
                it.since_ns = ASKED_NS;
            }
        }
        facts.push(of_process(10, "client"));
        for (pid, begun_ns) in children {
            let of = |pid, comm: &str| ThreadRef { start_ns: *begun_ns, ..thread(pid, comm) };
            let (service, own) = (of(*pid, "service"), of(pid + 100, "dbus-daemon"));
            let place = Place {
                state: WaitState::Sleep,
                syscall: "clock_nanosleep".into(),
                ..Place::default()
            };
            let (thread, since_ns) = (service.clone(), *begun_ns);
            let waits = Blocked { thread, since_ns, place, ..Blocked::default() };
            facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(waits) });
            for (thread, parent_pid) in [(service, own.pid), (own, 20)] {
                facts.push(identity(Thread { thread, parent_pid, ..Thread::default() }));
            }
        }
        let end = explain(facts).answer.ends.into_iter().next()?;
        end.chain.last()?.who.pid
    }

    #[test]
    fn the_service_that_was_begun_for_the_question_is_waited_for() {
        assert_eq!(at_the_end(&[(30, 1_010_000_000)]), Some(30));
        assert_eq!(at_the_end(&[(30, 1_010_000_000), (31, 5)]), Some(30), "an older one is none");
        assert_ne!(at_the_end(&[(30, 1_010_000_000), (31, 1_020_000_000)]), Some(30));
    }
}
