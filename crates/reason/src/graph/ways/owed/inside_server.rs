//! A process of a server that waits for something of the server's own (a replica's confirmation, a checkpoint, an archived log): nobody else has
//! to act. Nor has anybody who wakes a process that sends its server's log to a replica, as he has written to that log; or a session that rests by its
//! title, which listens to him (NOTIFY).
//!
//! It is woken now and then by whom it does not wait for, and gives up by the clock. Who brings it about, if that is a process of the server,
//! is found before (held/session_table.rs), which knows of a lock that no process has, too. Must not: be asked of another lock, whose holder may be known by other ways.

use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::programs::{self, lock_kind::LockKind};
use crate::waits::{WaitClass, user_stack};

/// The way.
pub(super) static WAY: Way = Way {
    name: "inside a server",
    because: "the server itself says what it waits for",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| {
        let (model, wait) = (at.index.model, at.wait);
        let kind = user_stack::lock_kind_of(model, &wait.thread, wait.begin_ns, wait.end_ns);
        let title = model.threads.by_id.get(&wait.thread.pid).map(|known| &known.command);
        let listens = |title: &String| {
            programs::sends_to_a_replica(title)
                || programs::session(title).is_some_and(|session| session.rests)
        };
        let may_be_news = wait.class == WaitClass::Idle && !kind.is_some_and(LockKind::is_held);
        let is_for_news = || may_be_news && title.is_some_and(listens);
        (kind.is_some_and(LockKind::is_of_a_server) || is_for_news()).then_some(Next::Nobody)
    },
};

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, ended, led, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, identity, thread};

    fn led_by(event: Option<SessionEvent>) -> (&'static str, Option<u32>) {
        let read = SessionWait { pid: 10, event, ..SessionWait::default() };
        led(vec![
            child(10, 5),
            child(20, 10),
            Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(read) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn who_writes_to_a_log_that_is_sent_or_notifies_a_listener_holds_nothing() {
        let woken = |title: &str| {
            let command = format!("postgres: app {title}");
            let command = command.replace("app walsender", "walsender");
            let own = thread(10, "postgres");
            let by = thread(30, "postgres");
            led(vec![
                identity(Thread { thread: own, parent_pid: 5, command, ..Thread::default() }),
                ended(of_ten(10), place("epoll_wait", NO_ARGS, None), by, WakeContext::Task),
            ])
        };
        let sender = woken("walsender app 10.0.0.9(4000) streaming 0/3000148");
        assert_eq!(sender, ("inside a server", None));
        assert_eq!(woken("sales [local] idle"), ("inside a server", None), "it listens");
        for works in ["UPDATE", "idle in transaction", "startup"] {
            assert_eq!(woken(&format!("sales [local] {works}")).1, Some(30), "{works}");
        }
    }

    #[test]
    fn what_a_server_waits_for_by_its_own_word_is_not_looked_for_among_its_children() {
        assert_eq!(led_by(Some(SessionEvent::Replica)), ("inside a server", None));
        assert_ne!(led_by(None).0, "inside a server");
    }
}
