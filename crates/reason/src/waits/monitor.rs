//! Which waits are for a monitor of a Java program, by the machine's own lists.
//!
//! Each of the machine's threads sleeps on a word of its own, whatever it waits for; its stack says it where there was time to read
//! one, and the list of who waits to enter a monitor says it besides. The machine's timer cuts such a wait into pieces, so one
//! that is shorter than the time between two readings goes by both of them: a thread that was met once in a monitor that is
//! held for a tenth of a millisecond does not wait for it till the next reading. Must not: say who has it (graph/holders.rs).

use crate::facts::{MonitorWait, MonitorWaits, Ns, ThreadRef};
use crate::model::Model;

/// How long a reading stands for what comes after it: while somebody waits the next one comes sooner.
const STANDS_NS: Ns = 1_000_000_000;

/// What the readings of a time say that a thread waits for, in order; where there is none, the last one before, if the next one
/// does not contradict it.
pub fn readings<'m>(
    model: &'m Model,
    thread: &ThreadRef,
    from: Ns,
    to: Ns,
) -> impl Iterator<Item = (Ns, MonitorWait)> + use<'m> {
    // What was read after the look's end is of what stood then.
    let to = if to >= model.look.end_ns { Ns::MAX } else { to };
    let all = model.stacks.monitor_waits.get(&thread.pid).map_or(&[][..], Vec::as_slice);
    let begin = all.partition_point(|(at_ns, _)| *at_ns < from);
    let end = all.partition_point(|(at_ns, _)| *at_ns <= to).max(begin);
    let tid = thread.tid;
    let its =
        move |read: &MonitorWaits| read.waits.iter().find(|wait| wait.waiter_tid == tid).copied();
    let agrees = || all.get(end).is_none_or(|(_, next)| its(next).is_some());
    let before = begin.checked_sub(1).filter(|before| from - all[*before].0 <= STANDS_NS);
    let first = before.filter(|_| begin == end && agrees()).unwrap_or(begin);
    all[first..end].iter().filter_map(move |(at_ns, read)| Some((*at_ns, its(read)?)))
}

/// Whether a thread was seen to wait to enter a monitor within a time.
pub fn is_waited_for(model: &Model, thread: &ThreadRef, from: Ns, to: Ns) -> bool {
    readings(model, thread, from, to).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, WindowEnd};

    const MS: Ns = 1_000_000;

    fn is_waited_for_within(from_ms: u64, to_ms: u64) -> bool {
        let wait = MonitorWait { waiter_tid: 7, owner_tid: 8, monitor: 1 };
        let read = |at_ms: u64, waits: Vec<MonitorWait>| Fact {
            at_ns: at_ms * MS,
            body: Body::MonitorWaits(MonitorWaits { pid: 5, waits }),
        };
        let end = Fact { at_ns: 3000 * MS, body: Body::WindowEnd(WindowEnd::default()) };
        let after = read(3020, vec![wait]);
        let of = [(1000, true), (1500, true), (1600, true), (2000, false), (2800, true)];
        let mut facts: Vec<Fact> =
            of.map(|(at_ms, waits)| read(at_ms, if waits { vec![wait] } else { vec![] })).into();
        facts.extend([end, after]);
        let model = Model::new(facts);
        let thread = ThreadRef { tid: 7, pid: 5, ..ThreadRef::default() };
        is_waited_for(&model, &thread, from_ms * MS, to_ms * MS)
    }

    #[test]
    fn a_short_piece_goes_by_the_readings_on_both_sides() {
        assert!(is_waited_for_within(900, 1100));
        assert!(is_waited_for_within(1510, 1590));
        assert!(!is_waited_for_within(1610, 1900), "it was waited for once, and is no more");
        assert!(!is_waited_for_within(100, 900), "nothing was read yet");
        assert!(!is_waited_for_within(2010, 2100), "nobody waited any more");
        assert!(!is_waited_for_within(1700, 2100), "a reading of its own goes before");
        assert!(is_waited_for_within(2900, 3000), "it was read as the look ended");
    }
}
