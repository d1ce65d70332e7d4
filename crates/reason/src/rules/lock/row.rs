//! lock.row: a session of a server waits for what another session of it holds.
//!
//! A database gives a row, a table or an advisory lock to a session until its transaction ends. No table of the kernel knows of
//! it: the waiter sleeps on a semaphore, a latch or a condition of the program. Two facts make it such a lock: the waiter
//! serves a client that is owed an answer, and whoever let it go (or holds what it waits for) serves another client, whose next
//! word it waits for meanwhile: it is idle in its transaction. Or the server's own functions say which kind of lock it is: then
//! it is one even if nobody outside the server can tell who has it. Where the server's own table of locks was read, that says both, and how many
//! have it: of several to end one frees nothing by itself, so no end is offered. Must not: claim any other lock whose holder works or was not
//! seen. Rejected: the program's name (a server of one's own has locks too).

use crate::facts::ThreadRef;
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::measure::process_names::present;
use crate::model::object::Object;
use crate::model::words;
use crate::programs;
use crate::programs::lock_kind::LockKind;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::lock::let_go::{ask_for_prepared, held_until, is_advisory, let_go};
use crate::rules::lock::replica;
use crate::rules::lock::session::is_session;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, ask, culprit};
use crate::rules::{holder_doing, wait_words};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.row",
    title: "A session of a server waits for a lock that another session holds",
    theory: "A database gives a lock on a row, a table or a name to a session until its transaction ends. Whoever wants the \
             same meanwhile waits inside the server, with its client. A session whose client has begun a transaction and now does \
             something else holds what it has for as long as that takes: it is idle in its transaction, and uses no CPU and no disk.",
    needs: &[
        "a thread of a server waits inside the program while its client is owed an answer",
        "who holds it up serves another client, and waits for that client's next word meanwhile; or the functions in which \
         the thread waits are those of a database's locks",
    ],
    refuted_by: &[
        Refutation::new(
            "whoever let it go waited for no client: it handed on work",
            "who_hands_on_work_holds_no_row",
        ),
        Refutation::new(
            "the thread that waits serves nobody: it waits for work of its own process",
            "a_background_thread_waits_for_work",
        ),
        Refutation::new(
            "the thread that waits has no end of its client's connection: it listens for those that have",
            "who_only_listens_for_a_session_waits_for_no_row",
        ),
        Refutation::new(
            "whoever it was led to is of another program, which it asks and which has no lock of it",
            "who_is_asked_by_another_program_holds_no_row_of_it",
        ),
        Refutation::new(
            "nobody else was seen",
            "a_session_that_waits_for_nobody_known_is_not_named",
        ),
    ],
    remedies: &[
        "commit or roll back at the client that holds it, or end its session",
        "keep transactions short: no waiting for people or for other services inside of one",
        "let the server end sessions that are idle in a transaction (idle_in_transaction_session_timeout)",
    ],
    stories: &[],
    thresholds: &[],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let kind = end.lock_kind(measures.model);
    if kind.is_some_and(|kind| !kind.is_held()) {
        return None;
    }
    let kind = kind.filter(|kind| kind.is_of_a_session());
    let server = match end.object {
        Object::Inside(server) => server,
        Object::Futex { pid, .. } if kind.is_some() => pid,
        _ => return None,
    };
    if end.kind != EndKind::Lock || kind.is_none() && !is_session(measures, end) {
        return None;
    }
    let known = || kind.and_then(|_| end.links.get(end.named + 1)).map(|next| &**next);
    let Some(holder) = session(end).or_else(known) else {
        kind?;
        let explain = move |loss: &Loss<'_>| explain_unseen(measures, end, server, loss);
        return Some(Match::new(Culprit::default(), Proof::Read, explain));
    };
    let by = end.who.as_ref().unwrap_or(&holder.who);
    let by = present(measures.model, by);
    let blame = culprit(measures.model, &by);
    let explain = move |loss: &Loss<'_>| explain(measures, end, (server, &by), loss);
    Some(Match::new(blame, Proof::TwoWitnesses, explain))
}

/// The session that holds it: the link after the one that names the end, if it waits for its client's next question.
fn session(end: &End) -> Option<&ChainLink> {
    end.links.get(end.named + 1).map(|next| &**next).filter(|next| next.question_of.is_some())
}

/// Who is behind the holding session: its client, if it is on this host.
fn client<'m>(measures: &'m Measures<'_>, end: &'m End) -> Option<ThreadRef> {
    let asked = session(end)?.question_of.filter(|pid| *pid != 0)?;
    Some(present(measures.model, &measures.model.threads.thread_ref(asked)))
}

/// What the lock is called: by the server's own functions if they were seen.
fn named_lock(measures: &Measures<'_>, end: &End) -> &'static str {
    let kind = end.lock_kind(measures.model).filter(|kind| kind.is_of_a_session());
    kind.map_or("a lock", LockKind::phrase)
}

fn ask_the_server(measures: &Measures<'_>, program: &str, end: &End) -> Remedy {
    let server = &end.links[end.named].who;
    Remedy::to(format!("ask {program} which lock it is, and who has it")).ask(
        Question::Program,
        server,
        ask::question_about(measures.model, server.pid, end.lock_kind(measures.model)),
    )
}

/// How many the server's table names, transactions without a process among them; none if it was not read, or names nobody.
fn named_by_table(measures: &Measures<'_>, end: &End) -> Option<usize> {
    let read = replica::read(measures, end)?;
    let count = read.holders.len() + usize::from(read.held_without_process);
    (count > 0).then_some(count)
}

/// The kind of lock is known, and no session that has it.
fn explain_unseen(measures: &Measures<'_>, end: &End, server: u32, loss: &Loss<'_>) -> Wording {
    let program = measures.model.threads.process_name(server);
    let longest = wait_words::longest(measures, end);
    let lock = named_lock(measures, end);
    let place = end.function(measures.model).map_or_else(String::new, |it| format!(", in {it}()"));
    let count = end.count as usize;
    let read = replica::read(measures, end);
    // Where nobody read the server's table it may be either.
    let may_be_prepared = read.is_none()
        && !is_advisory(measures, end)
        && programs::of(&program).is_some_and(|it| it.prepared.is_some());
    let (who, held, remedy) = match read.is_some_and(|read| read.held_without_process) {
        true => (
            " that a prepared transaction holds",
            "A transaction that was prepared has the lock until it is committed or rolled back by its name; no session has it"
                .to_string(),
            vec![ask_for_prepared(measures, &program, end)],
        ),
        false => {
            let or = ", or a transaction that was prepared, which has no session,";
            let or = if may_be_prepared { or } else { "" };
            let held = format!(
                "Another session of it{or} has the lock until {}; nothing outside {program} says which",
                held_until(measures, end)
            );
            let asks = may_be_prepared.then(|| ask_for_prepared(measures, &program, end));
            let ways = std::iter::once(ask_the_server(measures, &program, end)).chain(asks);
            ("", held, ways.collect())
        }
    };
    Wording {
        title: format!("{} waits for {lock} inside {program}{who}", loss.victim),
        text: format!(
            "{} pass in {} inside {program}{place}; the longest {}. {held}.",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(count, "wait", "waits"),
            wait_words::lasted_of(&longest, loss.seconds),
        ),
        evidence: wait_words::wait_evidence(loss.seconds, count, &longest, "the lock"),
        remedy,
    }
}

/// Until when a session that waits for no word of its client has the lock, and what it does meanwhile.
fn does_itself(measures: &Measures<'_>, end: &End, by: &ThreadRef) -> String {
    let model = measures.model;
    let until = held_until(measures, end);
    let does = holder_doing::meanwhile(measures, end).does;
    let root = end.links.last().map(|root| &root.who).filter(|who| who.tid != by.tid);
    let does = match root {
        Some(root) => format!("waits for {}, which {does}", measures.model.threads.who(root)),
        None => {
            let place = stands_in(model, by, (model.look.begin_ns, model.look.end_ns));
            format!("{does}{}", place.map_or_else(String::new, |place| format!(", in {place}")))
        }
    };
    format!("holds it until {until}; meanwhile it {does}")
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    (server, by): (u32, &ThreadRef),
    loss: &Loss<'_>,
) -> Wording {
    let program = measures.model.threads.process_name(server);
    let who = measures.model.threads.who(by);
    let longest = wait_words::longest(measures, end);
    let client = client(measures, end);
    let held = match client.as_ref().filter(|client| client.pid != by.pid) {
        Some(client) => {
            format!(
                "holds it, and waits for the next word of its client {}",
                measures.model.threads.who(client)
            )
        }
        None if session(end).is_some() => {
            "holds it, and the server waits for the next word of that client".to_string()
        }
        None => does_itself(measures, end, by),
    };
    let idle = match session(end).is_some() {
        true if is_advisory(measures, end) => {
            ": it has the lock until it gives it back, or its session ends"
        }
        true => ": it is idle in its transaction",
        false => "",
    };
    // The table may name those who wait before.
    let (counted, holders, source) = match named_by_table(measures, end) {
        Some(count) => {
            ("transactions that hold it, or wait before it", count, "the server's table of locks")
        }
        None => {
            ("sessions that hold it", end.holders.len(), "sched_switch, TCP clocks of both ends")
        }
    };
    // Only the table says that others have it at the same time: else one may have followed another.
    let several = named_by_table(measures, end).filter(|count| *count > 1);
    let others = several.map_or_else(String::new, |count| {
        format!(" It is one of {count} that hold it, or wait before it: if it lets go, others are still in the way.")
    });
    let let_go = several
        .is_none()
        .then(|| let_go(measures, end, by, client, session(end).is_some()))
        .flatten();
    let mut evidence =
        wait_words::wait_evidence(loss.seconds, end.count as usize, &longest, "the lock");
    evidence.push(Evidence::new(counted, holders as f64, "1", source));
    let lock = named_lock(measures, end);
    Wording {
        title: format!("{} waits for {lock} inside {program} that {who} holds", loss.victim),
        text: format!(
            "{} pass in {} inside {program}; the longest {}. {who} {held}{idle}.{others}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(end.count as usize, "wait", "waits"),
            wait_words::lasted_of(&longest, loss.seconds),
        ),
        evidence,
        remedy: [Some(ask_the_server(measures, &program, end)), let_go]
            .into_iter()
            .flatten()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const SOCKET: &str = "/run/db.sock";
    const END_NS: Ns = 4_000_000_000;

    fn waits(pid: u32, comm: &str, syscall: &str, on: Option<ObjectRef>, by: Option<u32>) -> Fact {
        let place = Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            object: on,
            ..Place::default()
        };
        let wake = by.map(|pid| Wake {
            at_ns: END_NS,
            context: WakeContext::Task,
            by: thread(pid, "db"),
            ..Wake::default()
        });
        let wait =
            Wait { thread: thread(pid, comm), end_ns: END_NS, place, wake, ..Wait::default() };
        Fact { at_ns: END_NS, body: Body::Wait(wait) }
    }

    fn lock_frames() -> Vec<UserFrame> {
        let frame = |function: &str| UserFrame {
            function: function.into(),
            module: "db".into(),
            ..UserFrame::default()
        };
        ["WaitLatch", "ProcSleep", "LockAcquireExtended", "heap_update"].map(frame).to_vec()
    }

    /// The ends of a connection: the client's and the one that was accepted.
    fn ends(ino: u64) -> [ObjectRef; 2] {
        let near = ObjectRef::Unix { ino, peer_ino: ino + 1, path: None };
        let far = ObjectRef::Unix { ino: ino + 1, peer_ino: ino, path: Some(SOCKET.into()) };
        [near, far]
    }

    /// Client 10 waits for its session 20, which waits inside until `by` lets it go; session 30 does `holder`.
    fn facts(by: Option<u32>, holder: fn(ObjectRef) -> Fact) -> Vec<Fact> {
        let [waiter, session] = ends(100);
        let [other, holding] = ends(300);
        let mut facts = host();
        facts.extend([
            of_process(10, "psql"),
            endpoint(10, "psql", waiter.clone()),
            endpoint(20, "db", session),
            endpoint(40, "app", other),
            endpoint(30, "db", holding.clone()),
            waits(10, "psql", "recvfrom", Some(waiter), Some(20)),
            waits(20, "db", "epoll_wait", None, by),
            holder(holding),
            blocked(40, "app", WaitState::Sleep, "nanosleep"),
        ]);
        facts
    }

    fn found(by: Option<u32>, holder: fn(ObjectRef) -> Fact) -> Vec<Finding> {
        let mut found = explain(facts(by, holder)).findings;
        found.retain(|finding| finding.code == "lock.row");
        found
    }

    fn waits_for_its_client(on: ObjectRef) -> Fact {
        waits(30, "db", "recvfrom", Some(on), Some(40))
    }

    #[test]
    fn who_is_idle_in_its_transaction_holds_up_whoever_wants_the_row() {
        let found = found(Some(30), waits_for_its_client);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.pid, Some(30));
        assert_eq!(found[0].title, "psql waits for a lock inside db that db 30 holds");
        assert!(found[0].text.contains("its client app 40"), "{}", found[0].text);
        assert!(found[0].text.contains("the longest took 4 s"), "{}", found[0].text);
    }

    #[test]
    fn a_command_s_time_in_it_is_no_idleness() {
        let mut facts = facts(Some(30), waits_for_its_client);
        for fact in &mut facts {
            if let Body::Target(target) = &mut fact.body {
                target.kind = TargetKind::Command;
            }
        }
        let parts = explain(facts).accounting.parts;
        assert!(parts.iter().all(|part| part.class != "idle"), "{parts:?}");
        let lock = parts.iter().find(|part| part.class == "lock").map(|part| part.seconds);
        assert!(lock.is_some_and(|seconds| seconds >= 3.9), "{parts:?}");
    }

    #[test]
    fn who_hands_on_work_holds_no_row() {
        assert_eq!(found(Some(30), |_| waits(30, "db", "nanosleep", None, None)), []);
    }

    #[test]
    fn who_only_listens_for_a_session_waits_for_no_row() {
        let mut facts = facts(Some(30), waits_for_its_client);
        facts.retain(|fact| !matches!(&fact.body, Body::Endpoint(end) if end.process.pid == 20));
        let found = explain(facts).findings;
        assert!(found.iter().all(|finding| finding.code != "lock.row"), "{found:?}");
    }

    #[test]
    fn who_is_asked_by_another_program_holds_no_row_of_it() {
        let mut facts = facts(Some(30), waits_for_its_client);
        for fact in &mut facts {
            match &mut fact.body {
                Body::Wait(wait) if wait.thread.pid == 30 => wait.thread.comm = "stats".into(),
                Body::Endpoint(end) if end.process.pid == 30 => end.process.comm = "stats".into(),
                Body::Wait(wait) if wait.thread.pid == 20 => {
                    wait.wake.iter_mut().for_each(|wake| wake.by.comm = "stats".into());
                }
                _ => {}
            }
        }
        let found = explain(facts).findings;
        assert!(found.iter().all(|finding| finding.code != "lock.row"), "{found:?}");
    }

    #[test]
    fn a_session_that_waits_for_nobody_known_is_not_named() {
        assert_eq!(found(None, waits_for_its_client), []);
    }

    /// Session 20 of a server of this name waits for a lock of its table of locks.
    fn unseen(program: &str) -> Finding {
        let mut facts = facts(None, waits_for_its_client);
        facts.retain(|fact| !matches!(&fact.body, Body::Wait(wait) if wait.thread.pid == 20));
        let (thread, frames) = (thread(20, program), lock_frames());
        facts.push(identity(Thread { thread: thread.clone(), ..Thread::default() }));
        facts.push(blocked(20, program, WaitState::Sleep, "epoll_wait"));
        facts.push(fact(Body::UserStack(UserStack { thread, frames, ..UserStack::default() })));
        let found = explain(facts).findings.into_iter().find(|it| it.code == "lock.row");
        found.filter(|it| it.culprit.pid.is_none()).expect("nobody is known to have it")
    }

    #[test]
    fn a_lock_of_a_table_of_locks_is_one_whoever_has_it() {
        let (found, known) = (unseen("db"), unseen("mariadbd"));
        assert!(found.text.contains("nothing outside db says which"), "{}", found.text);
        assert!(known.text.contains("or a transaction that was prepared"), "{}", known.text);
        let asks =
            |found: &Finding| found.remedy.iter().any(|it| it.command.contains("xa recover"));
        assert!(asks(&known) && !asks(&found));
    }

    /// Session 20, of which the server's table says that 30 is in its way, which `holder` does.
    fn by_table(holder: fn(ObjectRef) -> Fact) -> Finding {
        said_by_table(SessionWait { holders: vec![30], ..SessionWait::default() }, holder)
    }

    fn said_by_table(read: SessionWait, holder: fn(ObjectRef) -> Fact) -> Finding {
        let mut facts = facts(None, holder);
        facts.retain(|fact| !matches!(&fact.body, Body::Wait(wait) if wait.thread.pid == 20));
        facts.push(blocked(20, "db", WaitState::Sleep, "epoll_wait"));
        facts.extend([20, 30].map(|pid| {
            let thread = thread(pid, "db");
            identity(Thread { thread, parent_pid: 5, ..Thread::default() })
        }));
        let event = Some(SessionEvent::AdvisoryLock);
        let read = SessionWait { pid: 20, event, ..read };
        facts.push(Fact { at_ns: END_NS / 2, body: Body::SessionWait(read) });
        let report = explain(facts);
        let row = |finding: &&Finding| finding.code == "lock.row";
        report.findings.iter().find(row).cloned().unwrap_or_else(|| panic!("{:#?}", report.answer))
    }

    #[test]
    fn whom_the_servers_table_says_has_it_whatever_he_does() {
        let found = by_table(|_| blocked(30, "db", WaitState::Sleep, "nanosleep"));
        assert_eq!(found.title, "psql waits for an advisory lock inside db that db 30 holds");
        assert!(found.text.contains("its session ends; meanwhile it sleeps"), "{}", found.text);
        assert_eq!((found.culprit.pid, found.remedy.len()), (Some(30), 2));
        let rests = by_table(waits_for_its_client);
        assert!(!rests.text.contains("transaction"), "no part of one: {}", rests.text);
    }

    #[test]
    fn of_several_that_hold_it_no_one_is_to_be_ended() {
        let read = SessionWait { holders: vec![30, 31], ..SessionWait::default() };
        let found = said_by_table(read, waits_for_its_client);
        assert_eq!((found.culprit.pid, found.remedy.len()), (Some(30), 1), "the question alone");
        assert!(found.text.contains("one of 2 that hold it"), "{}", found.text);
        let count = found.evidence.iter().find(|it| it.source == "the server's table of locks");
        assert_eq!(count.map(|it| it.value), Some(2.0));
    }

    #[test]
    fn a_prepared_transaction_holds_it_and_no_session_is_named() {
        let read = SessionWait { held_without_process: true, ..SessionWait::default() };
        let found = said_by_table(read, waits_for_its_client);
        assert_eq!((found.culprit.pid, found.remedy.len()), (None, 1));
        assert!(found.title.ends_with("that a prepared transaction holds"), "{}", found.title);
        assert!(found.remedy[0].text.contains("which transactions are prepared"));
    }

    #[test]
    fn a_look_for_a_deadlock_does_not_part_a_wait() {
        const LOOKS_NS: Ns = 1_000_000_000;
        let mut facts = facts(Some(30), waits_for_its_client);
        let is_main = |wait: &Wait| wait.thread.pid == 20;
        let mut first = None;
        for fact in &mut facts {
            if let Body::Wait(wait) = &mut fact.body
                && is_main(wait)
            {
                let by_clock = Wake {
                    at_ns: LOOKS_NS,
                    context: WakeContext::HardInterrupt,
                    ..Wake::default()
                };
                let cut = Wait { end_ns: LOOKS_NS, wake: Some(by_clock), ..wait.clone() };
                wait.begin_ns = LOOKS_NS + 1_000_000;
                first = Some(Fact { at_ns: LOOKS_NS, body: Body::Wait(cut) });
            }
        }
        let stack = UserStack {
            thread: thread(20, "db"),
            frames: lock_frames(),
            complete: true,
            ..UserStack::default()
        };
        facts.extend([Fact { at_ns: LOOKS_NS / 2, body: Body::UserStack(stack) }]);
        facts.extend(first);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "lock.row");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].culprit.pid, Some(30));
        assert!(found[0].text.starts_with("4.00 s of 5 s"), "{}", found[0].text);
    }

    #[test]
    fn a_background_thread_waits_for_work() {
        for syscall in ["futex", "semop"] {
            assert!(!is_said_inside(TargetKind::Process, syscall, (21, 30)), "{syscall}");
            // Of a command what its main thread waits for counts.
            assert!(!is_said_inside(TargetKind::Command, syscall, (30, 21)), "{syscall}");
        }
    }

    /// Of server 30, which has two clients: one thread waits so until another, which serves one of them, has work for it.
    fn is_said_inside(kind: TargetKind, syscall: &str, (waiting, serving): (u32, u32)) -> bool {
        let ([other, holding], [third, accepted]) = (ends(300), ends(500));
        let of_server = |tid| ThreadRef { tid, ..thread(30, "db") };
        let mut facts = host();
        facts.extend([
            of_process(30, "db"),
            endpoint(40, "app", other),
            endpoint(30, "db", holding.clone()),
            endpoint(41, "app", third),
            descriptor(30, 4, "db", accepted),
            waits(waiting, "db", syscall, None, Some(serving)),
            waits(serving, "db", "recvfrom", Some(holding), Some(40)),
        ]);
        for Fact { body, .. } in &mut facts {
            match body {
                Body::Target(target) => target.kind = kind,
                Body::Wait(wait) => {
                    wait.thread = of_server(wait.thread.tid);
                    if let Some(wake) = wait.wake.as_mut().filter(|wake| wake.by.tid != 40) {
                        wake.by = of_server(wake.by.tid);
                    }
                }
                _ => {}
            }
        }
        explain(facts).findings.iter().any(|finding| finding.code == "lock.row")
    }

    /// Server 20 has a thread for each session: 20 serves client 10 and waits by a futex until 22 lets go, which waits for the
    /// next word of client 40 meanwhile. With the functions in which 20 waits.
    fn of_one_process(frames: &[&str]) -> Vec<Finding> {
        let [waiter, session] = ends(100);
        let [other, holding] = ends(300);
        let of_server = |tid| ThreadRef { tid, ..thread(20, "db") };
        let with = |mut fact: Fact, change: &dyn Fn(&mut Wait)| {
            if let Body::Wait(wait) = &mut fact.body {
                change(wait);
            }
            fact
        };
        let mut facts = host();
        facts.extend([
            of_process(10, "psql"),
            endpoint(10, "psql", waiter.clone()),
            descriptor(20, 3, "db", session),
            endpoint(40, "app", other),
            descriptor(20, 4, "db", holding.clone()),
            waits(10, "psql", "recvfrom", Some(waiter), Some(20)),
            with(waits(20, "db", "futex", None, Some(20)), &|wait| {
                wait.place.args = [0x7000, 128, 2, 0, 0, 0];
                if let Some(wake) = &mut wait.wake {
                    wake.by = of_server(22);
                }
            }),
            with(waits(20, "db", "recvfrom", Some(holding), Some(40)), &|wait| {
                wait.thread = of_server(22);
            }),
            blocked(40, "app", WaitState::Sleep, "nanosleep"),
        ]);
        let frame = |function: &&str| UserFrame {
            function: (*function).into(),
            module: "db".into(),
            ..UserFrame::default()
        };
        let frames: Vec<UserFrame> = frames.iter().map(frame).collect();
        if !frames.is_empty() {
            let thread = thread(20, "db");
            facts.push(fact(Body::UserStack(UserStack { thread, frames, ..UserStack::default() })));
        }
        explain(facts).findings
    }

    #[test]
    fn a_session_that_is_a_thread_waits_for_a_row_by_a_word_of_memory() {
        let found = of_one_process(&["pthread_cond_wait", "lock_wait", "row_search_mvcc"]);
        assert_eq!((found.len(), found[0].code.as_str()), (1, "lock.row"));
        assert_eq!(found[0].title, "psql waits for a row lock inside db that app 40 holds");
        assert_eq!(found[0].culprit.pid, Some(40), "a thread of the server is nobody to end");
    }

    #[test]
    fn a_mutex_of_a_server_is_no_lock_of_a_session() {
        let found = of_one_process(&[]);
        assert_eq!((found.len(), found[0].code.as_str()), (1, "lock.futex"));
    }
}
