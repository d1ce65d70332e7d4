//! The worker to whom a broker that rests has given the question which somebody waits for.
//!
//! Must not: be asked of a broker that is at work, or of a wait that somebody has ended (who did that is known).
//!
//! Edit together: graph/handed_out.rs.

use crate::graph::handed_out::worker;
use crate::graph::leaf::BECAUSE_HANDED_OUT;
use crate::graph::next::{Next, Until};
use crate::graph::relayed::CLOCKS_APART;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "handed out",
    because: BECAUSE_HANDED_OUT,
    of: FOR_EVENTS,
    thresholds: &[&CLOCKS_APART],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let Until::Wait(asks) = at.asker.filter(|_| at.wait.standing)?.until else { return None };
    worker(at.index, asks, at.wait.thread.pid).map(Next::Thread)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::graph::ways::scenes::{CONDITION, NO_ARGS, place, stands};
    use crate::rules::net::scenes::{inet, spoken};
    use crate::rules::scenes::{endpoint, host, of_process, thread};

    #[test]
    fn a_client_of_a_broker_is_led_to_the_worker_that_was_given_its_question() {
        let loops = || place("epoll_wait", NO_ARGS, None);
        let rests = || place("futex", CONDITION, None);
        for at in [loops(), rests()] {
            let (kind, chain) = led(at);
            assert_eq!((kind, &chain[..]), (EndKind::Sleep, &[10, 20, 30][..]), "it holds nothing");
        }
    }

    /// What a client comes to, and by whom, of a broker that rests so.
    fn led(rests: Place) -> (EndKind, Vec<u32>) {
        let end = |ino, near, far| inet("tcp", ino, near, far, 1);
        let (broker, client, worker) = ("127.0.0.1:80", "127.0.0.1:5000", "127.0.0.1:5001");
        let at_fd = |fd: u32, mut fact: Fact| {
            if let Body::Endpoint(end) = &mut fact.body {
                end.fd = fd;
            }
            fact
        };
        let facts = vec![
            of_process(10, "client"),
            endpoint(20, "broker", inet("tcp", 1, broker, "0.0.0.0:0", 10)),
            spoken(10, "client", end(100, client, broker), 4_000, true),
            at_fd(5, spoken(20, "broker", end(101, broker, client), 4_000, false)),
            spoken(30, "worker", end(102, worker, broker), 4_000, false),
            at_fd(6, spoken(20, "broker", end(103, broker, worker), 4_000, true)),
            stands(
                thread(10, "client"),
                place("recvfrom", NO_ARGS, Some(end(100, client, broker))),
            ),
            stands(thread(20, "broker"), rests),
            stands(thread(30, "worker"), place("clock_nanosleep", NO_ARGS, None)),
        ];
        let ends = explain([host(), facts].concat()).answer.ends;
        (ends[0].end, ends[0].chain.iter().filter_map(|link| link.who.pid).collect())
    }
}
