//! A pool of connections that owes an answer and has nothing to ask on: the client whose transaction keeps its connections.
//!
//! That client has to end its transaction, or its connection: the pool itself and the server wait for its next word. Must not: be asked of a
//! pool that owes the asker nothing, or lead to the asker himself (index/pooled.rs says who is certain).

use crate::facts::ThreadRef;
use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "pooled session",
    because: "its transaction, in which it rests, has the pool's connections to the server",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| client(at).map(Next::Thread),
};

fn client(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, pool) = (at.index, at.wait.thread.pid);
    let asker = at.asker?.who.pid;
    let client = index.pooled.client(pool).filter(|client| client.pid != asker)?;
    let owed =
        index.debts.owes.get(&pool)?.iter().filter_map(|debt| index.model.called.socket(debt.ino));
    let mut askers = owed.flat_map(|socket| index.connections.far_processes(socket));
    askers.any(|far| far.pid == asker).then(|| client.clone())
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    const POOL: u32 = 20;
    const CLIENT: u32 = 30;
    const JIFFY_NS: u32 = 4_000_000;

    /// One end of a connection, which last sent and received so many milliseconds before the end.
    fn spoken(
        pid: u32,
        ino: u64,
        (local, remote): (u16, u16),
        (sent, received): (u32, u32),
    ) -> Fact {
        let at = |port: u16| format!("127.0.0.1:{port}");
        let object = inet("tcp", ino, &at(local), &at(remote), 1);
        let turn = TcpTurn {
            sent_jiffies: sent / 4,
            received_jiffies: received / 4,
            heard_jiffies: sent.min(received) / 4,
            jiffy_ns: JIFFY_NS,
            ..TcpTurn::default()
        };
        let mut end = Fact { at_ns: LOOK_NS, ..descriptor(pid, ino as u32, "job", object) };
        if let Body::Endpoint(end) = &mut end.body {
            let (acked_bytes, received_bytes) = (80, 80);
            end.socket = Some(SocketState {
                acked_bytes,
                received_bytes,
                turn: Some(turn),
                ..SocketState::default()
            });
        }
        end
    }

    fn listens(pid: u32, ino: u64, port: u16) -> Fact {
        let on = inet("tcp", ino, &format!("127.0.0.1:{port}"), "0.0.0.0:0", 10);
        descriptor(pid, ino as u32, "job", on)
    }

    /// Process 10 has asked a pool three seconds ago, whose connection is a session's with this title; client 30 was answered last, four
    /// seconds ago. Whether following 10 leads to the client, who waits for what a person types.
    fn leads_to_the_client(title: &str, more: Vec<Fact>) -> bool {
        let title = format!("postgres: app sales 127.0.0.1(5010) {title}");
        let session =
            Thread { thread: thread(40, "postgres"), command: title, ..Thread::default() };
        let tty =
            ObjectRef::Tty { name: "pts/3".into(), dev: DeviceNumber { major: 136, minor: 3 } };
        let reads = |object: ObjectRef| Place {
            state: WaitState::Sleep,
            syscall: "read".into(),
            object: Some(object),
            ..Place::default()
        };
        let own = inet("tcp", 100, "127.0.0.1:5000", "127.0.0.1:6432", 1);
        let facts = vec![
            of_process(10, "psql"),
            identity(session),
            listens(POOL, 90, 6432),
            listens(39, 91, 5432),
            spoken(10, 100, (5000, 6432), (3_000, 3_500)),
            spoken(POOL, 101, (6432, 5000), (3_500, 3_000)),
            spoken(CLIENT, 102, (5001, 6432), (4_008, 4_000)),
            spoken(POOL, 103, (6432, 5001), (4_000, 4_008)),
            spoken(POOL, 104, (5010, 5432), (4_008, 4_000)),
            spoken(40, 105, (5432, 5010), (4_000, 4_008)),
            at_place(10, "psql", reads(own)),
            blocked(POOL, "pgbouncer", WaitState::Sleep, "epoll_wait"),
            at_place(CLIENT, "psql", reads(tty)),
            blocked(40, "postgres", WaitState::Sleep, "epoll_wait"),
        ];
        let answer = explain([host(), facts, more].concat()).answer;
        answer.ends.first().is_some_and(|end| {
            end.end == EndKind::Person && end.chain.iter().any(|link| link.who.pid == Some(CLIENT))
        })
    }

    #[test]
    fn the_client_whose_transaction_has_the_only_connection_is_followed() {
        assert!(leads_to_the_client("idle in transaction", Vec::new()));
        assert!(!leads_to_the_client("idle", Vec::new()), "the connection is free");
    }

    #[test]
    fn of_two_clients_that_may_have_it_and_beside_a_free_connection_nobody_is_blamed() {
        let twin = vec![
            spoken(31, 112, (5002, 6432), (4_008, 4_000)),
            spoken(POOL, 113, (6432, 5002), (4_000, 4_008)),
        ];
        assert!(!leads_to_the_client("idle in transaction", twin), "both fit the clocks");
        let title = "postgres: app sales 127.0.0.1(5011) idle".to_string();
        let session =
            Thread { thread: thread(41, "postgres"), command: title, ..Thread::default() };
        let free = vec![
            identity(session),
            spoken(POOL, 114, (5011, 5432), (9_008, 9_000)),
            spoken(41, 115, (5432, 5011), (9_000, 9_008)),
        ];
        assert!(!leads_to_the_client("idle in transaction", free), "another is free");
    }
}
