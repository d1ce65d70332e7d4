//! What is said of a client that reads what a process of this host sends at a pace of its own: part by part, with sleeps in between.
//!
//! A limit on a rate (a server's setting, a shaper in a program) looks to its client like a stream of news: nobody asked for the parts one by one, so none
//! of them is late. Whoever asks about the client gets the pace, and whose it is. Two facts make it one: the thread that brought the parts slept
//! between them for most of the look, and the connection counted bytes meanwhile. Must not: call it a fault, or take a
//! sleep of another thread for the sender's.

use crate::facts::{Endpoint, InetRef, Ns, ObjectRef, TargetKind, ThreadRef};
use crate::graph::wakers::carrier;
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, other_end};
use crate::model::figures;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// Who sleeps so often between parts keeps to a pace.
static PARTS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "sleeps of a sender in the look: fewer may be a retry, or a wait for something else",
    "chosen, as for subscriptions",
);
/// Part of the look that is most of it.
static MOST: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the look in which a sender sleeps: one that sleeps less is held up by something else for more",
    "chosen: the greater part",
);

/// Title and paragraph of an answer about such a client.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?;
    let changes = SocketChanges::of(model);
    let brought = |it: &Endpoint| match &it.object {
        ObjectRef::Inet(socket) if socket.is_tcp() && changes.has_earlier(it) => {
            Some((changes.of_endpoint(it)?.1.received_bytes, socket.clone()))
        }
        _ => None,
    };
    let own = model.held.endpoints.iter().filter(|it| it.process.pid == asked.pid);
    let (bytes, socket) = own.filter_map(brought).max_by_key(|(bytes, _)| *bytes)?;
    let sender = sender(measures, asked.pid, &socket).filter(|_| bytes > 0)?;
    let who = model.threads.who(&model.threads.thread_ref(sender.pid));
    let title = format!(
        "{} {} waits for what {who} sends, which sleeps between the parts.",
        asked.name, asked.pid
    );
    let text = format!(
        "{who} sleeps between the parts that it sends: {} came from {} in the look, {} a second.",
        figures::bytes(bytes as f64),
        socket.remote,
        figures::bytes(bytes as f64 / model.look.seconds().max(1e-9)),
    );
    Some((title, text))
}

/// An answer about such a client that says something else first, with that paragraph behind its own.
pub(super) fn beside(measures: &Measures<'_>, (title, text): (String, String)) -> (String, String) {
    let said = said(measures).map_or_else(String::new, |(_, said)| format!(" {said}"));
    (title, format!("{text}{said}"))
}

/// The thread of this host that brought what came over a connection, if it slept for most of the look.
fn sender(measures: &Measures<'_>, asked: u32, socket: &InetRef) -> Option<ThreadRef> {
    let far = other_end(measures.model, socket)?.process.pid;
    let (begin_ns, end_ns) = (measures.model.look.begin_ns, measures.model.look.end_ns);
    let reads = |wait: &&WaitSpan| {
        wait.thread.pid == asked
            && wait.class == WaitClass::SocketRead
            && wait.object == Object::Inet(socket.ino)
    };
    let mut by: BTreeMap<u32, (usize, &ThreadRef)> = BTreeMap::new();
    for thread in measures.waits().filter(reads).filter_map(carrier).filter(|by| by.pid == far) {
        by.entry(thread.tid).or_insert((0, thread)).0 += 1;
    }
    let (_, sender) = by.into_values().max_by_key(|(parts, _)| *parts)?;
    let sleeps = measures.graph.waits_of(sender).iter().filter(|it| it.class == WaitClass::Timer);
    let (count, ns) =
        sleeps.fold((0, 0), |(count, ns), it| (count + 1, ns + it.within_ns(begin_ns, end_ns)));
    let whole: Ns = end_ns.saturating_sub(begin_ns);
    let keeps_pace = count >= PARTS_MIN.count() && ns as f64 > MOST.value * whole as f64;
    keeps_pace.then(|| sender.clone())
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::{inet, look_at, wait, with_state};
    use crate::rules::scenes::{LOOK_NS, host, slept, thread};

    /// The title about client 10, to which server 20 sends a part every tenth of the look, and what that does in between; so many bytes
    /// came.
    fn title(syscall: &str, bytes: u64) -> String {
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let sight = |at_ns: Ns, received_bytes: u64| {
            let turn = TcpTurn { sent_jiffies: 900, jiffy_ns: 1_000_000, ..TcpTurn::default() };
            let (turn, acked_bytes, delivered) = (Some(turn), 80, 2);
            let state = SocketState {
                delivered,
                turn,
                acked_bytes,
                received_bytes,
                ..SocketState::default()
            };
            Fact { at_ns, ..with_state(10, "curl", near(), state) }
        };
        let listens = inet("tcp", 300, "127.0.0.1:80", "0.0.0.0:0", 10);
        let mut facts = vec![
            look_at(TargetKind::Process, 10),
            sight(1, 900),
            sight(LOOK_NS, 900 + bytes),
            with_state(20, "vsftpd", listens, SocketState::default()),
            with_state(20, "vsftpd", far(), SocketState::default()),
        ];
        let (tenth, tenths) = (LOOK_NS / 10, LOOK_NS / 100_000_000);
        for at in 0..10 {
            let mut part =
                wait(10, "curl", "recvfrom", near(), at * tenths / 10, (at + 1) * tenths / 10);
            if let Body::Wait(part) = &mut part.body {
                let (at_ns, by) = (part.end_ns, thread(20, "vsftpd"));
                part.wake = Some(Wake { at_ns, context: WakeContext::Task, by, ..Wake::default() });
            }
            let mut rest = slept(20, "vsftpd", at * tenth, (at + 1) * tenth);
            if let Body::Wait(rest) = &mut rest.body {
                rest.place.syscall = syscall.into();
            }
            facts.extend([part, rest]);
        }
        explain([host(), facts].concat()).answer.title
    }

    #[test]
    fn who_is_sent_parts_by_somebody_who_sleeps_in_between_reads_whose_pace_it_is() {
        let paced = title("clock_nanosleep", 1_000_000);
        assert!(paced.contains("vsftpd 20 sends, which sleeps between the parts"), "{paced}");
        let none = |title: String| !title.contains("between the parts");
        assert!(none(title("clock_nanosleep", 0)), "nothing came");
        assert!(none(title("epoll_wait", 1_000_000)), "it waits for what others bring");
    }
}
