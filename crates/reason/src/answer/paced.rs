//! What is said of a client that reads what a process of this host sends at a pace of its own: part by part, with sleeps in between.
//!
//! A limit on a rate (a server's setting, a shaper in a program) looks to its client like a stream of news: nobody asked for the parts one by one, so none
//! of them is late. Whoever asks about the client gets the pace, and whose it is. Two facts make it one: the thread that brought the parts slept
//! between them for most of the look, or its own timer ended the wait after which it brought each; and the connection counted bytes meanwhile.
//! Must not: call it a fault, or take a sleep of another thread for the sender's.

use super::report::AnswerEnd;
use super::whole::Whole;
use crate::facts::{Endpoint, InetRef, Ns, ObjectRef, TargetKind, ThreadRef};
use crate::graph::wakers::{carrier, is_by_clock, timeout_ns};
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, other_end};
use crate::model::figures;
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

/// From the end of a wait by the clock to the part that it was for.
static AT_ONCE_MAX: Threshold = Threshold::new(
    25.0,
    "ms",
    "from the end of a sender's own timeout to the part that it sends then: a later one may be for another event",
    "chosen: a turn on a crowded CPU, and what is written",
);

/// What a sender does between the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// It sleeps.
    Sleeps,
    /// It waits for whatever comes, and its own timer ends that.
    WaitsForTimer,
}

/// Title and paragraph of an answer about such a client.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?;
    let changes = SocketChanges::of(model);
    let brought = |it: &Endpoint| match &it.object {
        ObjectRef::Inet(socket) if socket.is_tcp() && changes.has_earlier(it) => {
            let change = changes.of_endpoint(it)?.1;
            // A client whose words are answered asks, and sends no parts.
            let is_answered = change.acked_bytes > 0 && measures.graph.is_accepted(socket);
            (!is_answered).then(|| ((change.received_bytes, change.acked_bytes), socket.clone()))
        }
        _ => None,
    };
    let own = model.held.endpoints.iter().filter(|it| it.process.pid == asked.pid);
    let ((bytes, sent_bytes), socket) = own.filter_map(brought).max_by_key(|(bytes, _)| *bytes)?;
    let (sender, between) = sender(measures, asked.pid, &socket).filter(|_| bytes > 0)?;
    // What comes to who asks meanwhile are answers: a server's timer may go off beside them.
    if between == Between::WaitsForTimer && sent_bytes > 0 {
        return None;
    }
    let who = model.threads.who(&model.threads.thread_ref(sender.pid));
    let does = match between {
        Between::Sleeps => "sleeps",
        Between::WaitsForTimer => "waits for a timer of its own",
    };
    let title = format!(
        "{} {} waits for what {who} sends, which {does} between the parts.",
        asked.name, asked.pid
    );
    let text = format!(
        "{who} {does} between the parts that it sends, as a limit on a rate has it: {} came from {} in the look, {} a second.",
        figures::bytes(bytes as f64),
        socket.remote,
        figures::bytes(bytes as f64 / model.look.seconds().max(1e-9)),
    );
    Some((title, text))
}

/// An answer about such a client that says something else first, with that paragraph behind its own. Of one that rests between the parts for most of the
/// look the parts come first: what little it does besides is not what it waits for.
pub(super) fn beside(
    measures: &Measures<'_>,
    ends: &[AnswerEnd],
    (title, text): (String, String),
) -> (String, String) {
    match said(measures) {
        Some((first, why)) if Whole::of(measures, ends).is_mostly_idle() => {
            (first, format!("{why} {title} {text}"))
        }
        Some((_, why)) => (title, format!("{text} {why}")),
        None => (title, text),
    }
}

/// The thread of this host that brought what came over a connection, if it rested by the clock for most of the look.
fn sender(measures: &Measures<'_>, asked: u32, socket: &InetRef) -> Option<(ThreadRef, Between)> {
    let far = other_end(measures.model, socket)?.process.pid;
    let (begin_ns, end_ns) = (measures.model.look.begin_ns, measures.model.look.end_ns);
    let reads = |wait: &&WaitSpan| {
        let is_it =
            |object: &ObjectRef| matches!(object, ObjectRef::Inet(it) if it.ino == socket.ino);
        wait.thread.pid == asked && wait.place.object.as_ref().is_some_and(is_it)
    };
    let mut by: BTreeMap<u32, (Vec<Ns>, &ThreadRef)> = BTreeMap::new();
    for wait in measures.waits().filter(reads) {
        if let Some(thread) = carrier(wait).filter(|by| by.pid == far) {
            by.entry(thread.tid).or_insert_with(|| (Vec::new(), thread)).0.push(wait.end_ns);
        }
    }
    let (parts, sender) = by.into_values().max_by_key(|(parts, _)| parts.len())?;
    let waits = measures.graph.waits_of(sender);
    let keeps_pace = |rests: &mut dyn Iterator<Item = &WaitSpan>| {
        let (count, ns) =
            rests.fold((0, 0), |(count, ns), it| (count + 1, ns + it.within_ns(begin_ns, end_ns)));
        let whole: Ns = end_ns.saturating_sub(begin_ns);
        count >= PARTS_MIN.count() && ns as f64 > MOST.value * whole as f64
    };
    if keeps_pace(&mut waits.iter().filter(|it| it.class == WaitClass::Timer)) {
        return Some((sender.clone(), Between::Sleeps));
    }
    // The next part may stand out as the look ends.
    let is_before_part = |it: &WaitSpan| {
        let until_ns = it.end_ns.saturating_add(AT_ONCE_MAX.ns());
        parts.iter().any(|at_ns| (it.end_ns..=until_ns).contains(at_ns))
    };
    let has_timeout = |it: &WaitSpan| timeout_ns(&it.place).is_some_and(|ns| ns > 0);
    let is_timed =
        |it: &&WaitSpan| has_timeout(it) && (it.standing || is_by_clock(it) && is_before_part(it));
    let brings = waits.iter().filter(|it| !it.standing && is_timed(it)).count();
    let is_paced = brings * 2 > parts.len()
        && keeps_pace(&mut waits.iter().filter(|it| it.class == WaitClass::Idle).filter(is_timed));
    is_paced.then(|| (sender.clone(), Between::WaitsForTimer))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Answer;
    use crate::facts::*;
    use crate::rules::net::scenes::{inet, look_at, wait, with_state};
    use crate::rules::scenes::{LOOK_NS, host, slept, thread};

    /// The sender's call between the parts, the bytes that came and went, and which of the two listens where.
    type Sent<'s> = ((&'s str, [u64; 6]), (u64, u64), (u32, &'s str));

    /// The title about client 10, to which server 20 sends a part every tenth of the look, and what that does in between; so many bytes
    /// came.
    fn title(syscall: &str, bytes: u64) -> String {
        title_of(syscall, [0; 6], bytes)
    }

    /// The same, with the arguments of that call.
    fn title_of(syscall: &str, args: [u64; 6], bytes: u64) -> String {
        title_where((syscall, args), (bytes, 0), (20, "127.0.0.1:80"))
    }

    /// The same, with what 10 has sent meanwhile, and which of the two listens where.
    fn title_where(call: (&str, [u64; 6]), bytes: (u64, u64), listener: (u32, &str)) -> String {
        answer((call, bytes, listener), Vec::new()).title
    }

    /// The answer about it, with more facts.
    fn answer(
        ((syscall, args), (bytes, sent_bytes), (listener, at)): Sent<'_>,
        more: Vec<Fact>,
    ) -> Answer {
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let sight = |at_ns: Ns, received_bytes: u64, sent_bytes: u64| {
            let turn = TcpTurn { sent_jiffies: 900, jiffy_ns: 1_000_000, ..TcpTurn::default() };
            let (turn, acked_bytes, delivered) = (Some(turn), 80 + sent_bytes, 2);
            let state = SocketState {
                delivered,
                turn,
                acked_bytes,
                received_bytes,
                ..SocketState::default()
            };
            Fact { at_ns, ..with_state(10, "curl", near(), state) }
        };
        let listens = inet("tcp", 300, at, "0.0.0.0:0", 10);
        let mut facts = vec![
            look_at(TargetKind::Process, 10),
            sight(1, 900, 0),
            sight(LOOK_NS, 900 + bytes, sent_bytes),
            with_state(listener, "takes", listens, SocketState::default()),
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
                (rest.place.syscall, rest.place.args) = (syscall.into(), args);
            }
            facts.extend([part, rest]);
        }
        facts.extend(more);
        explain([host(), facts].concat()).answer
    }

    /// The client's threads ran for so long besides, in a look of five seconds.
    fn besides(run_ns: Ns, syscall: &str) -> Answer {
        let thread = ThreadRef { tid: 11, ..thread(10, "curl") };
        let times = ThreadTime { thread, until_ns: LOOK_NS, run_ns, ..ThreadTime::default() };
        let sent = ((syscall, [0; 6]), (1_000_000, 0), (20, "127.0.0.1:80"));
        answer(sent, vec![Fact { at_ns: LOOK_NS, body: Body::ThreadTime(times) }])
    }

    #[test]
    fn who_rests_between_parts_but_for_a_spinner_waits_for_the_parts() {
        let spins = besides(LOOK_NS / 20, "clock_nanosleep");
        assert!(spins.title.contains("sleeps between the parts"), "{}", spins.title);
        assert!(spins.text.contains("mostly idle"), "the rest is said behind: {}", spins.text);
        assert_eq!(spins.first, None, "no end is what the title is about");
        let works = besides(LOOK_NS / 10 * 9, "clock_nanosleep");
        assert!(works.title.contains("works"), "{}", works.title);
        assert!(works.text.contains("sleeps between the parts"), "{}", works.text);
        let others = besides(LOOK_NS / 20, "epoll_wait");
        assert!(others.title.contains("mostly idle"), "{}", others.title);
    }

    #[test]
    fn a_client_whose_words_are_answered_asks_and_sends_no_parts() {
        let title = |sent_bytes| {
            let sleeps = ("clock_nanosleep", [0; 6]);
            title_where(sleeps, (1_000_000, sent_bytes), (10, "127.0.0.1:40000"))
        };
        assert!(title(0).contains("sleeps between the parts"), "an upload: {}", title(0));
        assert!(!title(900).contains("between the parts"), "{}", title(900));
    }

    #[test]
    fn who_is_sent_parts_by_somebody_who_sleeps_in_between_reads_whose_pace_it_is() {
        let paced = title("clock_nanosleep", 1_000_000);
        assert!(paced.contains("vsftpd 20 sends, which sleeps between the parts"), "{paced}");
        let none = |title: String| !title.contains("between the parts");
        assert!(none(title("clock_nanosleep", 0)), "nothing came");
        assert!(none(title("epoll_wait", 1_000_000)), "it waits for what others bring");
    }

    #[test]
    fn who_is_sent_parts_by_a_loop_whose_own_timer_runs_out_in_between_reads_whose_pace_it_is() {
        let timed = [0, 0, 0, 500, 0, 0];
        let paced = title_of("epoll_wait", timed, 1_000_000);
        assert!(paced.contains("which waits for a timer of its own between the parts"), "{paced}");
        assert!(!title_of("epoll_wait", timed, 0).contains("between the parts"), "nothing came");
        let for_ever = [0, 0, 0, u64::from(u32::MAX), 0, 0];
        let others = title_of("epoll_wait", for_ever, 1_000_000);
        assert!(!others.contains("between the parts"), "it waits for what others bring");
    }
}
