//! The one connection of a process that rests in a loop, over a unix socket: what is said of it in a look that else calls the process idle.
//!
//! Such a socket has no clock that says who spoke last: who polls it may listen, or hang. So it is said whose it is, and what that one does. A server
//! none of whose threads would hear a word there, as it waits for its next client or for a signal, is no listener's: what comes from it is then said
//! to be waited for. Must not: say that an answer is owed, or late; a server that is held up is the graph's to lead to.
//!
//! Edit together: graph/awaited.rs, standing.rs.

use super::places;
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::awaited::only_server;
use crate::measure::Measures;
use crate::model::words;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// A connection, and who is at its other end.
struct Connection {
    client: ThreadRef,
    server: ThreadRef,
    socket: String,
    /// What the server does.
    does: &'static str,
    /// A word there would be heard.
    is_heard: bool,
}

/// Title and paragraph, if nobody there would hear a word of the process that was asked about.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let Connection { client, server, socket, does, is_heard } = of(measures)?;
    let (who, far, pid) = (words::who(&client), words::who(&server), server.pid);
    let place = match places::of_idle(measures.model) {
        place if place.is_empty() => place,
        place => format!("{place} "),
    };
    let title = format!("{who} waits for what comes over the unix socket {socket} of {far}.");
    let text = format!(
        "{place}Whether an answer is owed there cannot be seen from outside: {far} {does}, and reads nothing there; holdup -p {pid} \
         looks at it."
    );
    (!is_heard).then_some((title, text))
}

/// A sentence with a space before it, of a connection on which a word would be heard; empty without one.
pub(super) fn sentence(measures: &Measures<'_>) -> String {
    let Some(Connection { server, socket, does, .. }) = of(measures) else { return String::new() };
    format!(
        " A loop of it waits at the unix socket {socket} of {}, which {does}: whether an answer is owed there cannot be seen from outside.",
        words::who(&server)
    )
}

/// The connection of the process that was asked about.
fn of(measures: &Measures<'_>) -> Option<Connection> {
    let (model, graph) = (measures.model, &measures.graph);
    let target = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?;
    let threads = graph.threads_of(&[target.pid]);
    let mut waits = threads.iter().filter_map(|it| standing(measures, it));
    let (server, ino) = waits.find_map(|wait| only_server(&graph.chains, wait))?;
    let socket = model.called.unix_path(ino)?.to_string();
    let (does, is_heard) = does(measures, server.pid)?;
    let client = model.threads.thread_ref(target.pid);
    Some(Connection { client, server, socket, does, is_heard })
}

/// What a thread waits for as the look ends.
fn standing<'m>(measures: &Measures<'m>, thread: &ThreadRef) -> Option<&'m WaitSpan> {
    measures.graph.waits_of(thread).last().filter(|wait| wait.standing)
}

/// What a server does all of whose threads rest, and whether one of them would hear a word of a client that it has accepted.
fn does(measures: &Measures<'_>, pid: u32) -> Option<(&'static str, bool)> {
    let threads = measures.graph.threads_of(&[pid]);
    let waits: Option<Vec<&WaitSpan>> = threads.iter().map(|it| standing(measures, it)).collect();
    let waits = waits.filter(|all| !all.is_empty())?;
    let reads =
        |wait: &WaitSpan| wait.class != WaitClass::Idle && measures.graph.is_for_a_question(wait);
    if !waits.iter().all(|wait| wait.class.is_rest() || reads(wait)) {
        return None;
    }
    let idle = || waits.iter().filter(|wait| wait.class == WaitClass::Idle);
    let hears = |wait: &WaitSpan| hears_no_client(wait).is_none();
    match waits.iter().any(|wait| reads(wait)) || idle().any(|wait| hears(wait)) {
        true => Some(("waits for its next event", true)),
        false => idle().find_map(|wait| hears_no_client(wait)).map(|does| (does, false)),
    }
}

/// What is waited for in a call in which no word is heard of a client that was accepted before.
fn hears_no_client(wait: &WaitSpan) -> Option<&'static str> {
    match wait.place.syscall.as_str() {
        "accept" | "accept4" => Some("waits for its next client"),
        "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => Some("waits for a signal"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::{Verdict, explain};
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    fn unix(ino: u64, path: Option<&str>) -> ObjectRef {
        ObjectRef::Unix { ino, peer_ino: ino ^ 1, path: path.map(Into::into) }
    }

    /// Title and text of process 10, which polls its one unix socket, while its server 20 is in this call.
    fn said(server: &str, more: Vec<Fact>) -> (String, String) {
        let (state, syscall) = (WaitState::Sleep, "epoll_pwait".into());
        let polls = Place { state, syscall, polled: vec![7, 5], ..Place::default() };
        let facts = vec![
            of_process(10, "app"),
            at_place(10, "app", polls),
            descriptor(10, 5, "app", unix(100, None)),
            descriptor(20, 5, "server", unix(101, Some("/run/server.sock"))),
            blocked(20, "server", WaitState::Sleep, server),
        ];
        let answer = explain([host(), facts, more].concat()).answer;
        assert_eq!(answer.verdict, Verdict::Idle, "{}", answer.title);
        (answer.title, answer.text)
    }

    const SOCKET: &str = "the unix socket /run/server.sock";
    const IDLE: &str = "app 10 is idle";

    #[test]
    fn what_comes_from_a_server_that_hears_nothing_there_is_waited_for() {
        for call in ["accept4", "pause"] {
            let (title, text) = said(call, vec![]);
            assert!(title.starts_with("app 10 waits for what comes over"), "{title}");
            assert!(title.contains(SOCKET) && title.contains("of server 20"), "{title}");
            assert!(text.contains("cannot be seen from outside"), "{text}");
        }
    }

    #[test]
    fn of_a_server_that_listens_it_is_said_that_nobody_knows() {
        let (title, text) = said("epoll_wait", vec![]);
        assert!(title.starts_with(IDLE), "{title}");
        assert!(text.contains(SOCKET) && text.contains("which waits for its next event"), "{text}");
    }

    #[test]
    fn a_server_one_of_whose_threads_reads_there_listens() {
        let thread = ThreadRef { tid: 21, ..thread(20, "server") };
        let syscall = "recvfrom".into();
        let object = Some(unix(101, Some("/run/server.sock")));
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let reads = Blocked { thread, place, ..Blocked::default() };
        let reads = Fact { at_ns: LOOK_NS, body: Body::Blocked(reads) };
        let (title, _) = said("accept4", vec![reads]);
        assert!(title.starts_with(IDLE), "{title}");
    }

    #[test]
    fn of_who_can_be_asked_or_has_two_nothing_is_said() {
        let listens = endpoint(10, "app", inet("tcp", 7, "0.0.0.0:80", "0.0.0.0:0", 10));
        let another = descriptor(10, 7, "app", unix(200, None));
        for more in [listens, another] {
            let (title, text) = said("accept4", vec![more]);
            assert!(title.starts_with(IDLE) && !text.contains(SOCKET), "{title} {text}");
        }
    }
}
