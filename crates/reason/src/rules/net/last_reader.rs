//! Who is the last that does not read: from a process that leaves data unread for want of room at its own reader to whoever takes nothing there.
//!
//! A proxy or a pipeline reads no more than it can pass on. It is led on by the one output of its own that stands full: the write that its only
//! thread waits in, or the one connection whose peer's window is shut as well. What it reads and what it writes there must go at one pace, or both
//! stand: else its input waits for something else. Must not: choose between several outputs, or judge whoever is last.
//!
//! Rejected: the order in which the two stood still (a buffer of megabytes lies between them).

use crate::facts::{Endpoint, Ns, TcpTurn, ThreadRef};
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, Stream, other_end};
use crate::model::object::Object;
use crate::rules::net::writers::{BUSY, window_is_shut};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// How far apart what is read and what is written may be.
pub(super) static ONE_PACE: Threshold = Threshold::new(
    2.0,
    "1",
    "times as much read as written within the look, or the other way round, up to which the one goes into the other",
    "chosen: headers, encodings and what is buffered between them are less than half of it",
);

/// Readers that are followed: more than a chain of proxies has.
const MOST_READERS: usize = 8;

/// One who reads nothing for want of room, and the next reader.
#[derive(Debug, Clone)]
pub(super) struct Middleman {
    /// Who.
    pub who: ThreadRef,
    /// What it has no room in.
    pub on: Object,
    /// Who does not take it from there.
    pub next: ThreadRef,
    /// Something of it was taken within the look.
    pub is_taken: bool,
}

impl Middleman {
    fn of(who: ThreadRef, full: &Full<'_>) -> Self {
        Self { who, on: full.on.clone(), next: full.next.clone(), is_taken: full.is_taken }
    }
}

/// An output that stands full.
struct Full<'m> {
    on: Object,
    next: ThreadRef,
    is_taken: bool,
    /// The other end of it, where that is a TCP socket of this host.
    reader: Option<&'m Endpoint>,
}

/// Those from the reader of a stream on that have no room themselves, in order; nobody, if the reader itself is the last.
pub(super) fn middlemen<'m>(measures: &'m Measures<'m>, reader: &'m Endpoint) -> Vec<Middleman> {
    let changes = SocketChanges::of(measures.model);
    let mut all: Vec<Middleman> = Vec::new();
    let mut at = Some(reader);
    while let Some(input) = at.take().filter(|_| all.len() < MOST_READERS) {
        let who = &input.process;
        if stands_still(measures, who).is_some() {
            break;
        }
        let Some(full) = full_output(measures, &changes, input) else { break };
        let is_known = |pid: u32| pid == who.pid || all.iter().any(|it| it.who.pid == pid);
        if is_known(full.next.pid) {
            break;
        }
        all.push(Middleman::of(who.clone(), &full));
        at = full.reader;
    }
    followed_by_writes(measures, &mut all);
    all
}

/// Goes on from a reader of a pipe or a unix socket, by the writes that it waits in itself.
fn followed_by_writes(measures: &Measures<'_>, all: &mut Vec<Middleman>) {
    while let Some(last) = all.last().filter(|_| all.len() < MOST_READERS) {
        let who = last.next.clone();
        let known = |pid: u32| pid == who.pid || all.iter().any(|it| it.who.pid == pid);
        let next = awaited_room(measures, &who).filter(|full| !known(full.next.pid));
        let Some(full) = next.filter(|_| stands_still(measures, &who).is_none()) else { break };
        all.push(Middleman::of(who, &full));
    }
}

/// What a process does in a wait that stands as the look ends, if nothing moves it there: it is stopped, traced or frozen.
pub(super) fn stands_still(measures: &Measures<'_>, process: &ThreadRef) -> Option<WaitClass> {
    let is_one = |class: WaitClass| {
        matches!(class, WaitClass::Stopped | WaitClass::Traced | WaitClass::FrozenCgroup)
    };
    of_main(measures, process).filter(|class| is_one(*class))
}

/// What a process does in a wait that stood for most of the look and has not ended: what one of several threads waits for is not what keeps the others from
/// reading.
pub(super) fn doing(measures: &Measures<'_>, process: &ThreadRef) -> Option<WaitClass> {
    let is_alone = measures.graph.threads_of(&[process.pid]).len() <= 1;
    let alone = || is_alone.then(|| of_main(measures, process)).flatten();
    stands_still(measures, process).or_else(alone)
}

/// The same of its main thread.
fn of_main(measures: &Measures<'_>, process: &ThreadRef) -> Option<WaitClass> {
    let look = &measures.model.look;
    let main = measures.model.threads.thread_ref(process.pid);
    let last = measures.graph.waits_of(&main).last().filter(|wait| wait.standing)?;
    let ns = last.within_ns(look.begin_ns, look.end_ns);
    (ns * 2 > look.end_ns.saturating_sub(look.begin_ns)).then_some(last.class)
}

/// The one output of a reader that stands full, if it is that for which it does not read this input.
fn full_output<'m>(
    measures: &'m Measures<'m>,
    changes: &SocketChanges<'_>,
    input: &Endpoint,
) -> Option<Full<'m>> {
    let pid = input.process.pid;
    if let Some(full) = awaited_room(measures, &input.process) {
        return Some(full);
    }
    let mut all: Vec<Full<'m>> = Vec::new();
    let is_full = |stream: &&Stream<'_>| {
        stream.endpoint.process.pid == pid
            && stream.socket.ino != input.object_ino()
            && stands_full(measures, stream)
    };
    for stream in measures.tcp_streams.iter().filter(is_full) {
        // Of a reader on another host nothing more is known, and it may be the one.
        let reader = other_end(measures.model, stream.socket)?;
        // A proxy that asks itself reads its own answer.
        if reader.process.pid == pid {
            continue;
        }
        if !is_one_pace(measures, changes, input, stream) {
            return None;
        }
        let (on, next) = (Object::Inet(stream.socket.ino), reader.process.clone());
        let is_taken = stream.change.acked_bytes > 0;
        all.push(Full { on, next, is_taken, reader: Some(reader) });
    }
    let first = all.pop()?;
    all.is_empty().then_some(first)
}

/// The peer of a stream has left its window shut for most of the look, and something is to be sent.
fn stands_full(measures: &Measures<'_>, stream: &Stream<'_>) -> bool {
    stream.state.unsent_bytes > 0
        && window_is_shut(stream)
        && stream.busy_seconds() >= BUSY.value * measures.model.look.seconds()
}

/// Whether as much was read from a socket within the look as was written to a stream, or nothing of both.
fn is_one_pace(
    measures: &Measures<'_>,
    changes: &SocketChanges<'_>,
    input: &Endpoint,
    output: &Stream<'_>,
) -> bool {
    if !changes.has_earlier(input) || !changes.has_earlier(output.endpoint) {
        return false;
    }
    let (Some(read), Some(written)) = (
        grown(measures, input, |turn| turn.copied_seq),
        grown(measures, output.endpoint, |turn| turn.write_seq),
    ) else {
        return false;
    };
    let (less, more) = (f64::from(read.min(written)), f64::from(read.max(written)));
    more <= ONE_PACE.value * less
}

/// What a sequence number of a socket grew by within the look.
fn grown(
    measures: &Measures<'_>,
    endpoint: &Endpoint,
    of: impl Fn(&TcpTurn) -> u32,
) -> Option<u32> {
    let held = &measures.model.held;
    let is_it = |(_, before): &&(Ns, Endpoint)| {
        before.process.pid == endpoint.process.pid
            && before.fd == endpoint.fd
            && before.object_ino() == endpoint.object_ino()
    };
    let before = held.endpoints_before.iter().find(is_it);
    let turn = |end: &Endpoint| end.socket.as_ref()?.turn.as_ref().map(&of);
    Some(turn(endpoint)?.wrapping_sub(before.and_then(|(_, end)| turn(end))?))
}

/// What the only thread of a process waits to write to for most of the look, if one other process is to take it from there.
fn awaited_room<'m>(measures: &Measures<'_>, process: &ThreadRef) -> Option<Full<'m>> {
    let look = &measures.model.look;
    let threads = measures.graph.threads_of(&[process.pid]);
    let [only] = &threads[..] else { return None };
    // Whether a connection's peer or the way to it is slow, its own counters say.
    let is_one =
        |wait: &&WaitSpan| matches!(wait.class, WaitClass::PipeWrite | WaitClass::UnixWrite);
    let mut by_object: BTreeMap<Object, (Ns, &WaitSpan)> = BTreeMap::new();
    for wait in measures.graph.waits_of(only).iter().filter(is_one) {
        let of = by_object.entry(wait.object.clone()).or_insert((0, wait));
        *of = (of.0 + wait.within_ns(look.begin_ns, look.end_ns), wait);
    }
    let (ns, wait) = by_object.into_values().max_by_key(|(ns, _)| *ns)?;
    if ns * 2 < look.end_ns.saturating_sub(look.begin_ns) {
        return None;
    }
    let next = measures.graph.holder(wait).filter(|next| next.pid != process.pid)?;
    // Of one that stands since before the look nothing was taken.
    let is_taken = !(wait.standing && look.began_before(wait.begin_ns));
    Some(Full { on: wait.object.clone(), next, is_taken, reader: None })
}
