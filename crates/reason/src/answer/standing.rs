//! Who has waited all the time for somebody else, where nothing that is known is late: the sentence of a look that is idle, and of a host
//! that is not a caveat beside what is said.
//!
//! A client that hangs and one that listens look alike. Whoever asks about such a process gets the other end of what it stands at: who
//! has the pipe open for writing, whose socket it is. Of a host the clients are said that have asked a process of it, by the clocks of the
//! connection, or stand at its named socket, since before the look: also those that look at the time now and then. Must not: say that anybody is late (rules/), or follow (graph/). Rejected: event
//! loops that poll several things, which every session of a desktop has.

use super::report::AnswerEnd;
use super::{
    awaited_end, debugger, inside, left_pipe, looked_at, masters, only_server, open_transaction,
    own_threads, places, tried_lock, tried_once, unwoken,
};
use crate::facts::{Ns, ObjectRef, TargetKind, ThreadRef};
use crate::graph::debts::Debt;
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::measure::pools;
use crate::model::words;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// Processes that are named.
const NAMED: usize = 3;
/// Title and paragraph, if somebody stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let target = measures.model.look.target.as_ref();
    match target.map_or(TargetKind::Host, |target| target.kind) {
        TargetKind::Host => of_host(measures),
        TargetKind::Process => of_process(measures)
            .or_else(|| debugger::said(measures))
            .or_else(|| left_pipe::said(measures))
            .or_else(|| of_server(measures))
            .or_else(|| masters::said(measures))
            .or_else(|| unwoken::said(measures))
            .or_else(|| tried_lock::said(measures))
            .or_else(|| looked_at::said(measures))
            .or_else(|| awaited_end::said(measures))
            .or_else(|| tried_once::said(measures))
            .or_else(|| own_threads::said(measures))
            .or_else(|| inside::said(measures))
            .or_else(|| places::paced(measures))
            .or_else(|| only_server::said(measures)),
        TargetKind::Container | TargetKind::Command => None,
    }
}

/// Descriptors of one question: its socket, and what a library is woken by.
const POLLED_MAX: usize = 2;
/// Part of the look that is all of it, but for what a program does between its looks at the time.
const ALL_THE_TIME: f64 = 0.9;

/// Whether a wait lasted as long as the look, and is for what somebody else sends.
fn stands(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    measures.model.look.began_before(wait.begin_ns) && stands_at_the_end(measures, wait)
}

/// Whether a wait goes on, and is for what somebody else sends.
fn stands_at_the_end(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    use WaitClass::{PipeRead, SocketRead, UnixRead};
    let model = measures.model;
    wait.standing
        && !wait.kernel
        && wait.thread.pid != model.look.host.own_pid
        && matches!(wait.class, PipeRead | SocketRead | UnixRead)
        && !measures.graph.is_for_a_question(wait)
}

/// `redis-server 12, sh 13 and 2 more`.
fn names(all: &[ThreadRef]) -> String {
    let named: Vec<String> = all.iter().take(NAMED).map(words::who).collect();
    let more = all.len().saturating_sub(named.len());
    match named.split_last() {
        _ if more > 0 => format!("{} and {more} more", named.join(", ")),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Those here whose questions a process has not answered.
pub(super) fn owed(measures: &Measures<'_>, pid: u32) -> String {
    let debts = measures.graph.debts().owes.get(&pid).map_or(&[][..], Vec::as_slice);
    let sockets = debts.iter().filter_map(|debt| measures.model.called.socket(debt.ino));
    let far = sockets.flat_map(|socket| measures.graph.far_processes(socket)).collect();
    names(&others(far, pid))
}

/// Processes but one, each once.
fn others(mut all: Vec<ThreadRef>, but: u32) -> Vec<ThreadRef> {
    all.retain(|process| process.pid != but);
    all.sort_by_key(|process| process.pid);
    all.dedup_by_key(|process| process.pid);
    all
}

/// Children of children that are followed.
const GENERATIONS: usize = 8;

/// The process that was asked about: what its main thread stands at, and who is at the other end; of one that waits for its child, what that
/// stands at.
pub(super) fn of_process(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref()?.pid;
    let children = children_waited_for(measures, asked);
    let last = children.last().map_or(asked, |child| child.pid);
    let who = words::who(&model.threads.thread_ref(asked));
    let begins = match &children[..] {
        [] => format!("{who} has waited all the time"),
        [child] => format!(
            "{who} has waited all the time for its child {}, which waits",
            words::who(child)
        ),
        [.., child] => {
            format!(
                "{who} has waited all the time for a child, and that for {}, which waits",
                words::who(child)
            )
        }
    };
    let Some(stood) = stood_at(measures, last) else {
        let child = children.last()?;
        return Some((
            format!("{begins} for nobody that is known."),
            format!("Nobody there is known to be late: holdup -p {} looks at it.", child.pid),
        ));
    };
    let place = stands_in(model, &stood.thread, (model.look.begin_ns, model.look.end_ns));
    let place = place.map_or_else(String::new, |place| match &children[..] {
        [] => format!("It stands in {place}. "),
        _ => format!("{} stands in {place}. ", model.threads.who(&stood.thread)),
    });
    let (what, far) = (stood.what, stood.far.pid);
    let late = match open_transaction::of(measures, far) {
        Some(open) => format!("{}: {open}", words::who(&stood.far)),
        None => left_pipe::of(measures, far)
            .unwrap_or_else(|| "Nobody there is known to be late".to_string()),
    };
    Some((
        format!("{begins} for what comes over {what}."),
        format!("{place}{late}: holdup -p {far} follows it."),
    ))
}

/// The child whose end a process has waited for all the time, that one's, and so on.
fn children_waited_for(measures: &Measures<'_>, asked: u32) -> Vec<ThreadRef> {
    let mut all: Vec<ThreadRef> = Vec::new();
    while all.len() < GENERATIONS {
        let pid = all.last().map_or(asked, |child| child.pid);
        let is_its = |wait: &&WaitSpan| {
            wait.thread.tid == pid
                && wait.class == WaitClass::Child
                && wait.standing
                && measures.model.look.began_before(wait.begin_ns)
        };
        let child = measures.waits().find(is_its).and_then(|wait| measures.graph.holder(wait));
        match child.filter(|child| child.pid != pid) {
            Some(child) => all.push(measures.model.threads.thread_ref(child.pid)),
            None => break,
        }
    }
    all
}

/// What a process has stood at all the time.
struct Stood {
    thread: ThreadRef,
    what: String,
    /// The first of who is at the other end.
    far: ThreadRef,
}

/// What the main thread of a process stands at, and who is at the other end.
fn stood_at(measures: &Measures<'_>, pid: u32) -> Option<Stood> {
    let model = measures.model;
    let is_its = |wait: &&WaitSpan| wait.thread.tid == pid && stands_at_the_end(measures, wait);
    let wait = measures.waits().find(is_its).filter(|wait| is_all_the_time(measures, wait))?;
    let graph = &measures.graph;
    let on = |ino: u64, writes: bool| {
        let ends = graph.endpoints_on(ino).iter().filter(|end| !writes || end.writable);
        others(ends.map(|end| end.process.clone()).collect(), pid)
    };
    let (far, what) = match wait.place.object.as_ref()? {
        ObjectRef::Pipe { ino } => {
            let writers = on(*ino, true);
            let have = if writers.len() == 1 { "has" } else { "have" };
            let what = format!("a pipe that {} {have} open for writing", names(&writers));
            (writers, what)
        }
        ObjectRef::Unix { peer_ino, .. } => {
            let far = on(*peer_ino, false);
            let path =
                model.called.unix_path(*peer_ino).map_or_else(String::new, |it| format!(" {it}"));
            let what = format!("the unix socket{path} of {}", names(&far));
            (far, what)
        }
        ObjectRef::Inet(socket) => {
            let far = others(graph.far_processes(socket), pid);
            let what = format!("its connection to {} at {}", names(&far), socket.remote);
            (far, what)
        }
        _ => return None,
    };
    let far = far.into_iter().next()?;
    Some(Stood { thread: wait.thread.clone(), what, far })
}

/// The process of a host that most others have waited for all the time, and those.
struct Awaited {
    server: ThreadRef,
    clients: Vec<ThreadRef>,
}

impl Awaited {
    fn of(measures: &Measures<'_>) -> Option<Self> {
        let all = Self::all(measures, |_| true).into_iter();
        all.max_by_key(|one| (one.clients.len(), std::cmp::Reverse(one.server.pid)))
    }

    /// Each process that others have waited for, by number; of waits without a clock only those that count.
    fn all(measures: &Measures<'_>, counts: impl Fn(&WaitSpan) -> bool) -> Vec<Self> {
        let model = measures.model;
        let mut by_server: BTreeMap<u32, Vec<ThreadRef>> = BTreeMap::new();
        let mut add = |server: u32, client: u32| {
            if server != model.look.host.own_pid && client != model.look.host.own_pid {
                by_server.entry(server).or_default().push(model.threads.thread_ref(client));
            }
        };
        let standing = measures.waits().filter(|wait| stands(measures, wait));
        for wait in standing.filter(|wait| counts(wait) && has_asked(measures, wait)) {
            if let Some(server) = measures.graph.holder(wait) {
                add(server.pid, wait.thread.pid);
            }
        }
        for (client, debts) in &measures.graph.debts().awaits {
            for debt in debts.iter().filter(|debt| is_old(measures, debt)) {
                let socket = model.called.socket(debt.ino);
                if !is_at(measures, *client, debt.ino) {
                    continue;
                }
                let far = socket.map(|socket| measures.graph.far_processes(socket));
                // One that several processes have open is a listener's child's: whoever answers is not known.
                if let Some([server]) = far.as_deref() {
                    add(server.pid, *client);
                }
            }
        }
        let clients = by_server.into_iter().map(|(pid, clients)| (pid, others(clients, pid)));
        let known = clients.filter(|(_, clients)| !clients.is_empty());
        let server = |pid| model.threads.thread_ref(pid);
        known.map(|(pid, clients)| Self { server: server(pid), clients }).collect()
    }

    fn title(&self) -> String {
        let server = words::who(&self.server);
        match &self.clients[..] {
            [one] => format!("{} has waited all the time for {server}", words::who(one)),
            all => format!("{} processes have waited all the time for {server}", all.len()),
        }
    }

    fn text(&self, measures: &Measures<'_>) -> String {
        let model = measures.model;
        let who = match self.clients.len() {
            1 => String::new(),
            _ => format!("{}: ", names(&self.clients)),
        };
        let place = stands_in(model, &self.server, (model.look.begin_ns, model.look.end_ns));
        let place = place.map_or_else(String::new, |it| {
            format!(" {} stands in {it}.", model.threads.who(&self.server))
        });
        let place = place + &pools::at_hand(measures, self.server.pid);
        format!(
            "{who}an answer may be due later, as that of a long poll is.{place} holdup -p {} follows it.",
            self.server.pid
        )
    }
}

/// The sentence of a host that is idle but for that.
fn of_host(measures: &Measures<'_>) -> Option<(String, String)> {
    let awaited = Awaited::of(measures)?;
    let title = format!("{}; nobody else here is owed anything.", awaited.title());
    Some((title, awaited.text(measures)))
}

/// Whether a thread of a process waits for whatever comes next: what has come it has taken.
fn is_free(measures: &Measures<'_>, pid: u32) -> bool {
    let rests = |thread: &ThreadRef| {
        let last = measures.graph.waits_of(thread).last();
        last.is_some_and(|wait| wait.standing && wait.class == WaitClass::Idle)
    };
    measures.graph.threads_of(&[pid]).iter().any(rests)
}

/// The process that was asked about, if others have waited for it all the time: not idle for all that anybody knows. A unix socket has no clock that
/// says who spoke last: who stands there may listen (to events of hardware, of a display) as well as ask, and of a server that is free he listens.
fn of_server(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref()?.pid;
    let rests = is_free(measures, asked);
    let is_unix = |wait: &WaitSpan| matches!(wait.place.object, Some(ObjectRef::Unix { .. }));
    let all = Awaited::all(measures, |wait| !(rests && is_unix(wait)));
    let awaited = all.into_iter().find(|one| one.server.pid == asked)?;
    let place = stands_in(model, &awaited.server, (model.look.begin_ns, model.look.end_ns));
    let place = place.map_or_else(String::new, |place| format!(" It stands in {place}."));
    if let Some(open) = open_transaction::of(measures, asked) {
        let title = format!("{}; {open}.", awaited.title());
        let text =
            "Whoever else asks waits until that ends, or until the pool has more connections.";
        return Some((title, format!("{text}{place}")));
    }
    Some((
        format!("{}; what that waits for was not seen.", awaited.title()),
        format!(
            "{}: an answer may be due later, as that of a long poll is.{place}{}",
            names(&awaited.clients),
            pools::at_hand(measures, asked)
        ),
    ))
}

/// The same of a host of which something else is said, unless one of its ends leads through that process.
pub(super) fn beside(measures: &Measures<'_>, ends: &[AnswerEnd]) -> Option<String> {
    let target = measures.model.look.target.as_ref();
    let awaited = Awaited::of(measures)
        .filter(|_| target.is_none_or(|target| target.kind == TargetKind::Host))?;
    let is_said = |end: &AnswerEnd| {
        let links = end.chain.iter().filter_map(|link| link.who.pid);
        links.chain(end.who.as_ref().and_then(|who| who.pid)).any(|pid| pid == awaited.server.pid)
    };
    let text = awaited.text(measures);
    (!ends.is_empty() && !ends.iter().any(is_said)).then(|| format!("{}; {text}", awaited.title()))
}

/// Whether the thread of a wait was at its object all the time, or had only looked at the time meanwhile.
fn is_all_the_time(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let is_it = |it: &WaitSpan| it.thread.tid == wait.thread.tid && it.object == wait.object;
    stands(measures, wait) || fill_the_look(measures, is_it)
}

/// Whether a process was at a socket all the time, and at hardly anything else: a client that asks and looks at the time meanwhile. One that logs to a
/// collector has sent last as well, and waits for nothing.
fn is_at(measures: &Measures<'_>, client: u32, ino: u64) -> bool {
    fill_the_look(measures, |wait| {
        let is_it = matches!(&wait.place.object, Some(ObjectRef::Inet(it)) if it.ino == ino);
        let is_loop = wait.place.is_for_several() && wait.place.polled.len() > POLLED_MAX;
        wait.thread.pid == client && is_it && !is_loop
    })
}

/// Whether such waits took all of the look, but for what a program does between its looks at the time.
fn fill_the_look(measures: &Measures<'_>, are: impl Fn(&WaitSpan) -> bool) -> bool {
    let look = &measures.model.look;
    let waits = measures.waits().filter(|wait| are(wait));
    let spent: Ns = waits.map(|wait| wait.within_ns(look.begin_ns, look.end_ns)).sum();
    spent as f64 / 1e9 >= ALL_THE_TIME * measures.wall_seconds()
}

/// Whether a question is older than the look, and has no answer by its end.
pub(super) fn is_old(measures: &Measures<'_>, debt: &Debt) -> bool {
    let look = &measures.model.look;
    debt.since_known && debt.since_ns <= look.begin_ns && debt.seen_ns >= look.end_ns
}

/// Whether who waits is known to have asked, by the clocks of the connection, before the look; or stands at a server's named socket,
/// and waits for nothing else.
fn has_asked(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let graph = &measures.graph;
    match &wait.place.object {
        Some(ObjectRef::Inet(socket)) => {
            let debts = graph.debts().awaits.get(&wait.thread.pid).map_or(&[][..], Vec::as_slice);
            debts.iter().any(|debt| debt.ino == socket.ino && is_old(measures, debt))
        }
        Some(ObjectRef::Unix { peer_ino, .. }) => {
            let is_alone = !wait.place.is_for_several() || wait.place.polled.len() == 1;
            is_alone && measures.model.called.unix_path(*peer_ino).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::{Verdict, explain};
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    fn reads(object: ObjectRef) -> Place {
        let syscall = "read".into();
        Place { state: WaitState::Sleep, syscall, object: Some(object), ..Place::default() }
    }

    fn asked_about(pid: u32, comm: &str) -> Fact {
        let (kind, name) = (TargetKind::Process, comm.to_string());
        fact(Body::Target(Target { kind, name, pid, cgroups: Vec::new(), words: Vec::new() }))
    }

    #[test]
    fn a_reader_of_a_pipe_is_said_who_could_write_to_it() {
        let pipe = ObjectRef::Pipe { ino: 7 };
        let end = |pid: u32, comm: &str, writable: bool| {
            let mut fact = endpoint(pid, comm, pipe.clone());
            if let Body::Endpoint(end) = &mut fact.body {
                (end.readable, end.writable) = (!writable, writable);
            }
            fact
        };
        let title = |writers: &[(u32, &str)]| {
            let mut facts = host();
            facts.extend([asked_about(10, "sh"), end(10, "sh", false)]);
            facts.push(at_place(10, "sh", reads(pipe.clone())));
            for (pid, comm) in writers {
                facts.push(end(*pid, comm, true));
                facts.push(blocked(*pid, comm, WaitState::Sleep, "epoll_wait"));
            }
            let answer = explain(facts).answer;
            assert_eq!(answer.verdict, Verdict::Idle, "{}", answer.title);
            answer.title
        };
        let both = title(&[(20, "daemon"), (30, "helper")]);
        assert!(
            both.contains("a pipe that daemon 20 and helper 30 have open for writing"),
            "{both}"
        );
        assert!(!title(&[]).contains("open for writing"), "nobody has it");
    }

    /// Process 10 reads from the unix socket of 20, which waits for events.
    fn client(path: Option<&str>) -> Vec<Fact> {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: path.map(Into::into) };
        let mut facts = host();
        facts.extend([
            endpoint(10, "client", near.clone()),
            endpoint(20, "server", far),
            at_place(10, "client", reads(near)),
            blocked(20, "server", WaitState::Sleep, "epoll_wait"),
        ]);
        facts
    }

    #[test]
    fn a_client_of_a_unix_socket_is_said_its_server_and_its_path() {
        let mut facts = client(Some("/run/shop.sock"));
        facts.push(asked_about(10, "client"));
        let title = explain(facts).answer.title;
        assert!(title.contains("the unix socket /run/shop.sock of server 20"), "{title}");
    }

    #[test]
    fn a_server_for_which_somebody_waits_all_the_time_is_not_said_to_be_waited_for_by_nobody() {
        let title = |place: Place| {
            let mut facts = client(Some("/run/shop.sock"));
            facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if it.thread.pid == 20));
            facts.extend([at_place(20, "server", place), asked_about(20, "server")]);
            explain(facts).answer.title
        };
        let said =
            "client 10 has waited all the time for server 20; what that waits for was not seen.";
        let busy = title(reads(ObjectRef::Pipe { ino: 7 }));
        assert_eq!(busy, said);
        // As acpid is, to whose events somebody listens.
        let (state, syscall) = (WaitState::Sleep, "epoll_wait".into());
        let free = title(Place { state, syscall, ..Place::default() });
        assert!(!free.contains("has waited all the time"), "{free}");
    }

    #[test]
    fn a_client_that_looks_at_the_time_meanwhile_is_said_the_same() {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let half = LOOK_NS / 2;
        let title = |object: ObjectRef| {
            let mut facts = client(None);
            facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if it.thread.pid == 10));
            let place = reads(object);
            let wake = Wake { at_ns: half, context: WakeContext::HardInterrupt, ..Wake::default() };
            let (thread, end_ns, wake) = (thread(10, "client"), half, Some(wake));
            let wait = Wait { thread, end_ns, place, wake, ..Wait::default() };
            facts.push(Fact { at_ns: half, body: Body::Wait(wait) });
            let mut again = at_place(10, "client", reads(near.clone()));
            if let Body::Blocked(blocked) = &mut again.body {
                blocked.since_ns = half + 1;
            }
            facts.extend([again, asked_about(10, "client")]);
            explain(facts).answer.title
        };
        let same = title(near.clone());
        assert!(same.contains("the unix socket of server 20"), "{same}");
        let other = title(ObjectRef::Pipe { ino: 7 });
        assert!(!other.contains("all the time"), "half of it: {other}");
    }

    #[test]
    fn a_host_on_which_somebody_waits_all_the_time_is_not_said_to_owe_nothing() {
        let answer = explain(client(Some("/run/shop.sock"))).answer;
        assert_eq!(answer.verdict, Verdict::Idle);
        assert!(
            answer.title.starts_with("client 10 has waited all the time for server 20"),
            "{}",
            answer.title
        );
        let pair = explain(client(None)).answer.title;
        assert!(pair.contains("nobody here is owed anything"), "a pair that two share: {pair}");
    }

    /// Four clients have asked a server over TCP long ago, and look at the time meanwhile.
    #[test]
    fn clients_that_look_at_the_time_while_they_wait_are_counted_beside_what_else_is_said() {
        let mut facts = Vec::new();
        for at in 0..4_u32 {
            let (near, ino) = (format!("127.0.0.1:{}", 4000 + at), u64::from(100 + 2 * at));
            let own = inet("tcp", ino, &near, "127.0.0.1:80", 1);
            let turn = TcpTurn { sent_jiffies: 9_000, jiffy_ns: 4_000_000, ..TcpTurn::default() };
            let mut own = Fact { at_ns: LOOK_NS, ..endpoint(10 + at, "curl", own) };
            if let Body::Endpoint(own) = &mut own.body {
                own.socket = Some(SocketState {
                    acked_bytes: 80,
                    turn: Some(turn),
                    ..SocketState::default()
                });
            }
            let far = inet("tcp", ino + 1, "127.0.0.1:80", &near, 1);
            facts.extend([own, endpoint(50, "java", far)]);
            // A second at a time, as curl does.
            for second in 0..5 {
                let mut poll =
                    slept(10 + at, "curl", second * 1_000_000_000, (second + 1) * 1_000_000_000);
                if let Body::Wait(poll) = &mut poll.body {
                    let object = Some(inet("tcp", ino, &near, "127.0.0.1:80", 1));
                    poll.place = Place { syscall: "poll".into(), object, ..poll.place.clone() };
                }
                facts.push(poll);
            }
        }
        facts.push(endpoint(50, "java", inet("tcp", 99, "127.0.0.1:80", "0.0.0.0:0", 10)));
        facts.push(blocked(50, "java", WaitState::Sleep, "epoll_wait"));
        let alone = explain([host(), facts.clone()].concat());
        assert!(
            alone.answer.title.starts_with("4 processes have waited all the time for java 50"),
            "{}",
            alone.answer.title
        );
        let caveat = |report: &crate::answer::Report| {
            report.caveats.iter().any(|it| it.code == "awaited" && it.text.contains("java 50"))
        };
        assert!(!caveat(&alone), "it is the answer");
        let asked = [host(), facts.clone(), vec![asked_about(50, "java")]].concat();
        let asked = explain(asked).answer.title;
        assert!(asked.starts_with("4 processes have waited all the time for java 50"), "{asked}");
        let busy = [host(), facts, vec![blocked(80, "job", WaitState::Sleep, "flock")]].concat();
        let busy = explain(busy);
        assert!(caveat(&busy), "{:#?} {:#?}", busy.answer, busy.caveats);
    }

    #[test]
    fn who_waits_for_its_child_hears_what_that_waits_for() {
        let waits_for = |child: u32| {
            let mut place =
                Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
            place.args[0] = u64::from(child);
            place
        };
        let child = |pid: u32, parent_pid: u32| {
            identity(Thread { thread: thread(pid, "job"), parent_pid, ..Thread::default() })
        };
        let title = |of_child: Place| {
            let mut facts = client(Some("/run/db.sock"));
            facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if it.thread.pid == 10));
            facts.retain(|fact| !matches!(fact.body, Body::Target(_)));
            facts.extend([
                asked_about(8, "sh"),
                child(10, 8),
                at_place(8, "sh", waits_for(10)),
                at_place(10, "app", of_child),
            ]);
            let answer = explain(facts).answer;
            assert_eq!(answer.verdict, Verdict::Idle, "{}", answer.title);
            answer.title
        };
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let reads = title(reads(near));
        assert!(reads.starts_with("sh 8 has waited all the time for its child"), "{reads}");
        assert!(
            reads.contains("which waits for what comes over the unix socket /run/db.sock of"),
            "{reads}"
        );
        let rests = title(Place {
            state: WaitState::Sleep,
            syscall: "epoll_wait".into(),
            ..Place::default()
        });
        assert!(rests.ends_with("which waits for nobody that is known."), "{rests}");
    }
}
