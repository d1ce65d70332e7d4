//! What is said of an end at which a process rests although somebody waits for it, where no rule named a cause.
//!
//! An event loop that owes an answer may hold it back on purpose, and a thread that waits for what another of its process brings about is helped by
//! that other. Must not: call anybody late (rules/), or say who holds a lock. Edit together: standing.rs, which says the same where nothing is late.

use super::naming::by_name;
use super::report::AnswerEnd;
use super::{open_transaction, standing};
use crate::facts::{ObjectRef, TargetKind, ThreadRef};
use crate::graph::end::EndKind;
use crate::measure::{Measures, pools};
use crate::waits::goroutines;

/// Whether whoever stands at the end of its chain is an event loop that rests.
pub(super) fn is_at_an_event(end: &AnswerEnd) -> bool {
    end.chain.last().is_some_and(|link| link.waits_on.kind == "event")
}

/// What the process that was asked about waits for where its chain stays within it, and ends at one of its own threads that rests: nobody waits for
/// himself.
pub(super) fn within_itself(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let target = measures.model.look.target.as_ref();
    let asked = target.filter(|it| it.kind == TargetKind::Process)?.pid;
    let is_within = end.chain.len() > 1 && end.chain.iter().all(|it| it.who.pid == Some(asked));
    match end.end {
        _ if !is_within => None,
        EndKind::Sleep if end.by_timeout => Some(end.sleeps().into()),
        EndKind::Sleep => Some("sleeps on purpose".into()),
        EndKind::Open if is_at_an_event(end) => Some("waits for its next event".into()),
        EndKind::Lock if end.who.is_none() && end.lock_kind.is_none() && is_at_an_event(end) => {
            Some("owes an answer, and waits for its next event".into())
        }
        _ => None,
    }
}

/// Of an event loop that rests while it owes an answer: to whom, if it was asked about, and that this may be no delay.
pub(super) fn may_be_due_later(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let rests = end.end == EndKind::Lock && end.lock_kind.is_none() && is_at_an_event(end);
    let last = &end.chain.last().filter(|_| rests)?.who;
    let later = "may be due later, as that of a long poll is";
    let upstream = upstream(measures, last.pid?);
    // Its goroutines say what it waits for.
    if goroutines::are_known(measures.model, last.pid?) {
        return upstream.strip_prefix(", and ").map(str::to_string);
    }
    if end.chain.len() > 1 {
        return Some(format!("the answer of {} {later}{upstream}", by_name(last)));
    }
    let to = standing::owed(measures, last.pid?);
    (!to.is_empty()).then(|| format!("its answer to {to} {later}{upstream}"))
}

/// Whom a process has asked before and does not ask now, as the rest of a clause: a pool whose connections others of its clients keep, or that was asked
/// to pause, and a program that keeps one to its database look so; and one that has got a part of an answer.
fn upstream(measures: &Measures<'_>, pid: u32) -> String {
    let (model, debts) = (measures.model, measures.graph.debts());
    if debts.awaits.contains_key(&pid) {
        return String::new();
    }
    let mut connections = 0;
    let mut far: Vec<ThreadRef> = Vec::new();
    for end in model.held.endpoints.iter().filter(|end| end.process.pid == pid) {
        let ObjectRef::Inet(socket) = &end.object else { continue };
        if debts.has_last_word_of_peer(pid, socket.ino) {
            connections += 1;
            far.extend(measures.graph.far_processes(socket).into_iter().next());
        }
    }
    let first = far.first();
    let whose = first.filter(|first| far.iter().all(|it| it.comm == first.comm));
    // Of an end on another host nobody knows whose it is.
    let whose = whose.filter(|_| far.len() == connections);
    let to = whose.map_or_else(String::new, |first| format!(" to {}", first.comm));
    if let Some(open) = open_transaction::of(measures, pid) {
        return format!(", and {open}");
    }
    // It may have more, on which nobody has spoken, or it did.
    match connections {
        0 => String::new(),
        1 => format!(", and on one of its connections{to} the other end spoke last"),
        many => format!(", and on {many} of its connections{to} the other ends spoke last"),
    }
}

/// The full pool that a chain leads through; or where threads of a process stand one of which waits for what another of them brings about, or for
/// something that was not seen. A sentence with a space before it, or nothing.
pub(super) fn pool_or_threads(measures: &Measures<'_>, end: &AnswerEnd) -> String {
    let led = end.chain.iter().filter_map(|link| link.who.pid);
    let pool = pools::sentence(measures, led);
    let is_brought = end.who.is_none() && end.lock_kind.is_none_or(|kind| !kind.is_held());
    let is_inside = is_brought && matches!(end.end, EndKind::Lock | EndKind::Open);
    let last = end.chain.last().filter(|_| is_inside && pool.is_empty());
    // A goroutine is at another place than its thread (places.rs).
    let pid = last.and_then(|link| link.who.pid);
    let known = pid.filter(|pid| !goroutines::are_known(measures.model, *pid));
    known.map_or(pool, |pid| pools::at_hand(measures, pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::report::{ObjectName, Who};
    use crate::answer::{Verdict, explain};
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    /// Process 10 has asked 20 over TCP long ago; 20 waits in that call. Who is asked about hears this.
    fn said(asked: (u32, &str), syscall: &str) -> String {
        said_beside(asked, syscall, Vec::new())
    }

    /// The same with what else is known.
    fn said_beside(asked: (u32, &str), syscall: &str, others: Vec<Fact>) -> String {
        let near = || inet("tcp", 100, "127.0.0.1:4000", "127.0.0.1:80", 1);
        let turn = |sent_jiffies, received_jiffies| {
            let (jiffy_ns, write_seq) = (4_000_000, 100);
            let clocks = TcpTurn {
                sent_jiffies,
                received_jiffies,
                jiffy_ns,
                write_seq,
                ..TcpTurn::default()
            };
            Some(TcpTurn { snd_una: 100, snd_nxt: 100, ..clocks })
        };
        let end = |pid: u32, comm: &str, object, state| {
            let mut fact = Fact { at_ns: LOOK_NS, ..endpoint(pid, comm, object) };
            if let Body::Endpoint(end) = &mut fact.body {
                end.socket = Some(state);
            }
            fact
        };
        let asks =
            SocketState { acked_bytes: 80, turn: turn(9_000, 9_500), ..SocketState::default() };
        let owes =
            SocketState { received_bytes: 79, turn: turn(9_500, 9_000), ..SocketState::default() };
        let rests = SocketState {
            acked_bytes: 80,
            received_bytes: 80,
            turn: turn(9_900, 9_800),
            ..SocketState::default()
        };
        let reads = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(near()),
            ..Place::default()
        };
        let facts = vec![
            end(10, "worker", near(), asks),
            end(20, "queue", inet("tcp", 101, "127.0.0.1:80", "127.0.0.1:4000", 1), owes),
            endpoint(20, "queue", inet("tcp", 99, "127.0.0.1:80", "0.0.0.0:0", 10)),
            at_place(10, "worker", reads),
            blocked(20, "queue", WaitState::Sleep, syscall),
            of_process(asked.0, asked.1),
            end(20, "queue", inet("tcp", 102, "127.0.0.1:6000", "127.0.0.1:5432", 1), rests),
            endpoint(30, "base", inet("tcp", 103, "127.0.0.1:5432", "127.0.0.1:6000", 1)),
            endpoint(30, "base", inet("tcp", 98, "127.0.0.1:5432", "0.0.0.0:0", 10)),
        ];
        let answer = explain([host(), facts, others].concat()).answer;
        assert_eq!(answer.verdict, Verdict::Waits, "{} {}", answer.title, answer.text);
        format!("{} {}", answer.title, answer.text)
    }

    /// Beside those a client 40 of the pool 20 that was answered, and what the session of the database calls itself.
    fn pooled(title: &str, others: Vec<Fact>) -> String {
        let server = || inet("tcp", 103, "127.0.0.1:5432", "127.0.0.1:6000", 1);
        let (near, far) = (
            inet("tcp", 104, "127.0.0.1:4100", "127.0.0.1:80", 1),
            inet("tcp", 105, "127.0.0.1:80", "127.0.0.1:4100", 1),
        );
        let reads = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(server()),
            ..Place::default()
        };
        let session =
            Thread { thread: thread(30, "base"), command: title.into(), ..Thread::default() };
        let known = vec![
            identity(session),
            at_place(30, "base", reads),
            endpoint(40, "idler", near),
            endpoint(20, "queue", far),
        ];
        said_beside((10, "worker"), "epoll_wait", [known, others].concat())
    }

    #[test]
    fn of_a_pool_of_one_connection_whoever_left_a_transaction_open_on_it_is_said() {
        const OPEN: &str = "postgres: app sales 127.0.0.1(6000) idle in transaction";
        let open = pooled(OPEN, Vec::new());
        let whose = "on its one connection to base a transaction of idler 40, which is to speak next, stands open";
        assert!(open.contains(whose), "{open}");
        let elsewhere = inet("tcp", 106, "127.0.0.1:80", "10.9.9.9:4200", 1);
        let either = pooled(OPEN, vec![endpoint(20, "queue", elsewhere)]);
        assert!(either.contains("a transaction stands open"), "it may be the other's: {either}");
        let free = pooled("postgres: app sales 127.0.0.1(6000) idle", Vec::new());
        assert!(!free.contains("transaction"), "{free}");
        assert!(free.contains("the other end spoke last"), "{free}");
    }

    #[test]
    fn a_queue_that_rests_owes_its_worker_no_answer_at_once() {
        let client = said((10, "worker"), "epoll_wait");
        assert!(client.contains("which waits for its next event and has not answered"), "{client}");
        assert!(client.contains("the answer of queue 20 may be due later"), "{client}");
        assert!(
            client.contains(" is, and on one of its connections to base the other end spoke last"),
            "{client}"
        );
        let server = said((20, "queue"), "epoll_wait");
        assert!(
            server.starts_with("queue 20 owes an answer, and waits for its next event"),
            "{server}"
        );
        assert!(server.contains("its answer to worker 10 may be due later"), "{server}");
        let stuck = said((20, "queue"), "futex");
        assert!(!stuck.contains("due later") && !stuck.contains("next event"), "{stuck}");
    }

    #[test]
    fn who_rests_at_the_end_of_a_commands_chain_is_said_whatever_the_connection() {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: Some("/run/agent".into()) };
        let said = |call: &str| {
            let (kind, name) = (TargetKind::Command, "ssh".to_string());
            let target = Target { kind, name, pid: 10, cgroups: Vec::new(), words: Vec::new() };
            let (state, object) = (WaitState::Sleep, Some(near.clone()));
            let reads = Place { state, syscall: "recvfrom".into(), object, ..Place::default() };
            let facts = vec![
                fact(Body::Target(target)),
                at_place(10, "ssh", reads),
                endpoint(20, "agent", far.clone()),
                blocked(20, "agent", WaitState::Sleep, call),
            ];
            explain([host(), facts].concat()).answer.title
        };
        let rests = said("epoll_wait");
        assert!(
            rests.starts_with("ssh waits for agent 20, which waits for its next event"),
            "{rests}"
        );
        let stopped = said("clock_nanosleep");
        assert!(!stopped.contains("next event"), "{stopped}");
    }

    #[test]
    fn a_relay_that_waits_on_the_connection_of_its_client_is_owed_no_answer_by_him() {
        let (kind, name) = (TargetKind::Command, "curl".to_string());
        let target = Target { kind, name, pid: 10, cgroups: Vec::new(), words: Vec::new() };
        let near = || inet("tcp", 100, "127.0.0.1:4000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 101, "127.0.0.1:80", "127.0.0.1:4000", 1);
        let waits = |syscall: &str, object| {
            let (state, syscall) = (WaitState::Sleep, syscall.to_string());
            Place { state, syscall, object: Some(object), ..Place::default() }
        };
        let facts = vec![
            fact(Body::Target(target)),
            at_place(10, "curl", waits("recvfrom", near())),
            endpoint(20, "nc", inet("tcp", 99, "127.0.0.1:80", "0.0.0.0:0", 10)),
            endpoint(20, "nc", far()),
            at_place(20, "nc", waits("poll", far())),
        ];
        let answer = explain([host(), facts].concat()).answer;
        assert!(!answer.title.contains("owes it an answer"), "{}", answer.title);
        assert_eq!(answer.verdict, Verdict::Waits, "{}", answer.title);
    }

    #[test]
    fn a_process_does_not_wait_for_itself() {
        let event = ObjectName::new("event", "event");
        let link = |pid: u32| {
            let who = Who { kind: "process".into(), pid: Some(pid), ..Who::default() };
            serde_json::json!({"who": who, "waits_on": &event, "seconds": 1.0})
        };
        let does = |end: &str, pids: [u32; 2]| {
            let chain = pids.map(link);
            let end = serde_json::json!({"end": end, "object": &event, "seconds": 1.0, "share": 1.0,
                "longest_seconds": 1.0, "victims": [], "chain": chain, "by_timeout": end == "sleep"});
            let end: AnswerEnd = serde_json::from_value(end).expect("an end");
            let facts = [host(), vec![of_process(10, "app")]].concat();
            let Observed { model, timelines } = Observed::new(facts);
            within_itself(&Measures::of(&model, &timelines), &end)
        };
        let said = does("sleep", [10, 10]).expect("its own");
        assert!(said.contains("a timeout of its own"), "{said}");
        assert_eq!(does("open", [10, 10]).as_deref(), Some("waits for its next event"));
        assert_eq!(does("open", [10, 20]), None, "another process");
        assert_eq!(does("works", [10, 10]), None, "a thread of its own that works");
    }
}
