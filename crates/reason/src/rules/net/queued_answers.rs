//! Who reads what stands in a queue of this host on its way to him, whoever sent it.
//!
//! A server that has written its answer and closed the connection is in no list of sockets: the kernel sends the rest alone, and nobody
//! waits for room. The packets have the reader's addresses all the same. What he waited for on that socket is lost to the queue
//! where his packets stood in it for that time. Must not: say that a queue stands (standing_queue.rs), or take a reader whose
//! sender waits for room himself (writers.rs).

use crate::facts::{Ns, QdiscFlow, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_queue::Queue;
use crate::model::object::Object;
use crate::rules::Losses;
use crate::rules::net::standing_queue::{ANSWER_BEHIND, answers_behind};
use crate::rules::net::writers::Writer;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// Who reads from a connection.
pub(super) struct Reader<'m> {
    /// His process.
    pub process: &'m ThreadRef,
    /// Inode of his socket.
    pub ino: u64,
    /// What he waited for on it within the look, seconds.
    pub lost: f64,
    /// What was sent to him through the queue; never empty.
    pub flows: Vec<&'m QdiscFlow>,
}

impl Reader<'_> {
    /// Whether one of some flows is to him.
    pub(super) fn reads_of(&self, flows: &[&QdiscFlow]) -> bool {
        self.flows.iter().any(|own| flows.iter().any(|flow| std::ptr::eq(*own, *flow)))
    }
}

/// What readers have lost to a queue, beside what others have; of a process the most.
pub(super) fn add_to(lost: &mut Losses, readers: &[Reader<'_>]) {
    for Reader { process, lost: waited, .. } in readers {
        let loss = lost.entry(process.pid).or_insert_with(|| ((*process).clone(), *waited));
        loss.1 = loss.1.max(*waited);
    }
}

/// The ends of those who wait for what stands in a queue, each once: its readers, and whoever waits behind its writers.
pub(super) fn ends_behind(
    measures: &Measures<'_>,
    ends: &[End],
    queue: &Queue<'_>,
    readers: &[Reader<'_>],
) -> Vec<usize> {
    let is_read = |end: &End| {
        let mut objects = readers.iter().map(|it| Object::Inet(it.ino));
        !end.victims.is_empty() && objects.any(|object| object == end.object)
    };
    let mut behind: Vec<usize> = (0..ends.len()).filter(|at| is_read(&ends[*at])).collect();
    behind.extend(answers_behind(measures, ends, queue));
    behind.sort_unstable();
    behind.dedup();
    behind
}

/// Whoever reads what waits in a queue, but of those whose sender is among these writers.
pub(super) fn readers<'m>(
    measures: &Measures<'m>,
    queue: &Queue<'m>,
    writers: &[&Writer<'m>],
) -> Vec<Reader<'m>> {
    let look = &measures.model.look;
    let mut waited: BTreeMap<(u32, u64), (&'m ThreadRef, Ns)> = BTreeMap::new();
    for wait in measures.waits().filter(|wait| wait.class == WaitClass::SocketRead) {
        if let Object::Inet(ino) = wait.object {
            let of = waited.entry((wait.thread.pid, ino)).or_insert((&wait.thread, 0));
            of.1 += wait.within_ns(look.begin_ns, look.end_ns);
        }
    }
    let called = &measures.model.called;
    let read = waited.into_iter().filter_map(|((_, ino), (process, waited_ns))| {
        let ways = called.translations.ways(called.socket(ino).filter(|it| it.is_tcp())?);
        let is_written = |flow: &QdiscFlow| {
            let mut streams = writers.iter().map(|writer| &writer.stream.socket);
            flow.socket_ino != 0 && streams.any(|socket| socket.ino == flow.socket_ino)
        };
        let is_to_him =
            |flow: &&QdiscFlow| ways.contains(&(flow.remote, flow.local)) && !is_written(flow);
        let flows: Vec<&QdiscFlow> = queue.flows.iter().copied().filter(is_to_him).collect();
        let queued: f64 = flows.iter().map(|flow| flow.sojourn_ns as f64 / 1e9).sum();
        let waited = (waited_ns as f64 / 1e9).min(look.seconds());
        // Who is sent little waits for more than for what stands there.
        let lost = waited.min(queued);
        let is_behind = lost > 0.0 && queued >= ANSWER_BEHIND.value * waited;
        is_behind.then_some(Reader { process, ino, lost, flows })
    });
    read.collect()
}
