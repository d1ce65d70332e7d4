//! Who has waited all the time for somebody else, where nothing that is known is late: the sentence of a look that is idle.
//!
//! A client that hangs and one that listens look alike. Whoever asks about such a process gets the other end of what it stands at: who
//! has the pipe open for writing, whose socket it is. Of a host the clients are said that have asked a process of it, or stand at
//! its named socket, since before the look. Must not: say that anybody is late (rules/), or follow (graph/). Rejected: event
//! loops that poll several things, which every session of a desktop has.

use crate::facts::{Ns, ObjectRef, TargetKind, ThreadRef};
use crate::graph::debts::Debt;
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::model::words;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// Processes that are named.
const NAMED: usize = 3;
/// The look's begin is read over so long.
const BEGIN_NS: Ns = 100_000_000;

/// Title and paragraph, if somebody stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let target = measures.model.look.target.as_ref();
    match target.map_or(TargetKind::Host, |target| target.kind) {
        TargetKind::Host => of_host(measures),
        TargetKind::Process => of_process(measures),
        TargetKind::Container | TargetKind::Command => None,
    }
}

/// Whether a wait lasted as long as the look, and is for what somebody else sends.
fn stands(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    use WaitClass::{PipeRead, SocketRead, UnixRead};
    let model = measures.model;
    wait.standing
        && !wait.kernel
        && wait.thread.pid != model.look.host.own_pid
        && matches!(wait.class, PipeRead | SocketRead | UnixRead)
        && wait.begin_ns <= model.look.begin_ns + BEGIN_NS
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

/// Processes but one, each once.
fn others(mut all: Vec<ThreadRef>, but: u32) -> Vec<ThreadRef> {
    all.retain(|process| process.pid != but);
    all.sort_by_key(|process| process.pid);
    all.dedup_by_key(|process| process.pid);
    all
}

/// The process that was asked about: what its main thread stands at, and who is at the other end.
fn of_process(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let pid = model.look.target.as_ref()?.pid;
    let is_its = |wait: &&WaitSpan| wait.thread.tid == pid && stands(measures, wait);
    let wait = measures.waits().find(is_its)?;
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
    let first = far.first()?;
    let place = stands_in(model, &wait.thread, (model.look.begin_ns, model.look.end_ns));
    let place = place.map_or_else(String::new, |place| format!("It stands in {place}. "));
    Some((
        format!("{} has waited all the time for what comes over {what}.", words::who(&wait.thread)),
        format!("{place}Nobody there is known to be late: holdup -p {} follows it.", first.pid),
    ))
}

/// The process of a host that most others have waited for all the time.
fn of_host(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let mut by_server: BTreeMap<u32, Vec<ThreadRef>> = BTreeMap::new();
    for wait in measures.waits().filter(|wait| stands(measures, wait) && has_asked(measures, wait))
    {
        let server = measures.graph.holder(wait);
        if let Some(server) = server.filter(|it| it.pid != model.look.host.own_pid) {
            let client = model.threads.thread_ref(wait.thread.pid);
            by_server.entry(server.pid).or_default().push(client);
        }
    }
    let clients = by_server.into_iter().map(|(pid, clients)| (pid, others(clients, pid)));
    let (pid, clients) = clients.max_by_key(|(pid, all)| (all.len(), std::cmp::Reverse(*pid)))?;
    let server = model.threads.thread_ref(pid);
    let title = match &clients[..] {
        [] => return None,
        [one] => format!(
            "{} has waited all the time for {}; nobody else here is owed anything.",
            words::who(one),
            words::who(&server)
        ),
        all => format!(
            "{} processes have waited all the time for {}; nobody else here is owed anything.",
            all.len(),
            words::who(&server)
        ),
    };
    let place = stands_in(model, &server, (model.look.begin_ns, model.look.end_ns));
    let place =
        place.map_or_else(String::new, |it| format!(" {} stands in {it}.", words::who(&server)));
    let who = if clients.len() > 1 { format!("{}: ", names(&clients)) } else { String::new() };
    Some((
        title,
        format!(
            "{who}an answer may be due later, as that of a long poll is.{place} holdup -p {pid} follows it."
        ),
    ))
}

/// Whether who waits is known to have asked, by the clocks of the connection, before the look; or stands at a server's named socket,
/// and waits for nothing else.
fn has_asked(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let graph = &measures.graph;
    match &wait.place.object {
        Some(ObjectRef::Inet(socket)) => {
            let debts = graph.debts().awaits.get(&wait.thread.pid).map_or(&[][..], Vec::as_slice);
            let is_old =
                |debt: &&Debt| debt.since_known && debt.since_ns <= measures.model.look.begin_ns;
            debts.iter().filter(is_old).any(|debt| debt.ino == socket.ino)
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
}
