//! What a holder does while others wait for it, and how an end is claimed whose holder stands still.
//!
//! Whoever holds a lock or reads a pipe may be stopped or traced itself: that is one thing, which is said once, by what the
//! others wait for. Must not: name codes, or decide whether it is a finding.

use crate::facts::{ThreadRef, ThreadTime};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::rules::Match;
use crate::rules::engine;
use crate::rules::wording::Remedy;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// A holder that computes all the while is slow only as work is.
pub(crate) static AT_WORK: Threshold = Threshold::new(
    0.5,
    "1",
    "of the time of those who wait, the part in which the holder is on a CPU or ready for one; then it is at work",
    "chosen: most of it",
);

/// What a holder does while others wait for it.
pub(crate) struct Meanwhile {
    /// As a verb: `is stopped`, `sleeps`.
    pub does: &'static str,
    /// It is at work (on a CPU, ready for one, or in waits too short to be reported) more than half of the time.
    pub at_work: bool,
    /// Share of the time that it does what `does` says.
    pub share: f64,
}

/// What the holder of an end mostly did, as far as anything was seen of it: of a thread of which there is no wait and no time on
/// a CPU, nobody knows that it works.
pub(crate) fn mostly(measures: &Measures<'_>, end: &End) -> Option<WaitClass> {
    let seen = |class: &WaitClass| *class != WaitClass::Unseen || is_seen(measures, end);
    end.holder_mostly().filter(seen)
}

fn is_seen(measures: &Measures<'_>, end: &End) -> bool {
    let Some(who) = end.links.last().map(|link| &link.who) else { return false };
    let mut own = measures.model.threads.times.iter().filter(|time| time.thread.tid == who.tid);
    measures.graph.is_seen(who) && !own.any(slept_on)
}

/// Whether a thread was in one sleep for most of the time, by the scheduler's sums: waits too short to be reported are many. Who was woken and has
/// not had a CPU as the look ends is in no wait that was reported.
fn slept_on(time: &ThreadTime) -> bool {
    let all_ns = time.until_ns.saturating_sub(time.since_ns);
    time.switches <= 1 && time.sleep_ns as f64 > AT_WORK.value * all_ns as f64
}

/// Whether a process ended within the look.
pub(crate) fn has_ended(model: &Model, process: &ThreadRef) -> bool {
    let mut exits = model.threads.exits.iter().filter(|(_, exit)| exit.last);
    exits.any(|(at_ns, exit)| exit.thread.pid == process.pid && *at_ns >= process.start_ns)
}

/// What somebody does who is in a wait.
pub(crate) fn in_wait(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Stopped => "is stopped by a signal",
        WaitClass::Traced => "is held by a tracer",
        WaitClass::FrozenCgroup => "is frozen",
        WaitClass::Timer => "sleeps",
        WaitClass::Idle => "waits for other events",
        WaitClass::Child => "waits for a child",
        WaitClass::FutexWait | WaitClass::FutexLock => "waits for another thread",
        WaitClass::Disk | WaitClass::PageFault => "waits for a disk",
        _ => "waits itself",
    }
}

/// What the holders of an end mostly do.
pub(crate) fn meanwhile(measures: &Measures<'_>, end: &End) -> Meanwhile {
    let total: f64 = end.holder_doing.values().sum();
    let seen = mostly(measures, end);
    let mostly = seen.or(end.holder_mostly()).unwrap_or(WaitClass::Unseen);
    let of = |class: WaitClass| end.holder_doing.get(&class).copied().unwrap_or(0.0);
    let work: f64 =
        [WaitClass::Running, WaitClass::Unseen, WaitClass::RunQueue, WaitClass::CpuQuota]
            .into_iter()
            .map(of)
            .sum();
    let at_work = total > 0.0 && work >= AT_WORK.value * total;
    let does = match seen {
        None => "was not seen itself",
        Some(_) if at_work => "is at work",
        Some(class) => in_wait(class),
    };
    let share = if total <= 0.0 {
        0.0
    } else if at_work {
        work / total
    } else {
        of(mostly) / total
    };
    Meanwhile { does, at_work, share }
}

/// Claims an end of a look, and with it that its holder stands still, where that is what it does meanwhile.
pub(crate) fn claim<'m>(matched: Match<'m>, ends: &[End], at: usize) -> Match<'m> {
    let end = &ends[at];
    let mut matched = matched.on(end.object.clone()).claiming(at, None);
    matched.losses = Some(end.victims.clone());
    matched.path_seconds = Some(end.seconds);
    matched.chain = Some(end.links.iter().filter_map(|link| engine::step(link)).collect());
    let stands = matches!(end.holder_mostly(), Some(WaitClass::Stopped | WaitClass::Traced));
    let Some(holder) = end.holder().filter(|_| stands) else { return matched };
    for (index, own) in ends.iter().enumerate() {
        if matches!(own.class, WaitClass::Stopped | WaitClass::Traced)
            && own.object == Object::Process(holder.pid)
        {
            matched = matched.claiming(index, Some(BTreeSet::from([holder.pid])));
        }
    }
    matched
}

/// The ends of a class that nobody has claimed yet, with their indices.
pub(crate) fn open(ends: &[End], class: WaitClass) -> impl Iterator<Item = (usize, &End)> {
    ends.iter().enumerate().filter(move |(_, end)| end.class == class && !end.victims.is_empty())
}

/// The way out that ends some processes. One that is number 1 of its own PID namespace hears no signal that it
/// does not ask for, but SIGKILL (pid_namespaces(7)).
pub(crate) fn end_all(model: &Model, text: &str, whom: &[ThreadRef]) -> Remedy {
    let is_init = |one: &ThreadRef| {
        let known = model.threads.by_id.get(&one.pid);
        one.pid != 1 && known.is_some_and(|thread| thread.inner_pid == Some(1))
    };
    match whom.iter().any(is_init) {
        true => Remedy::to(format!(
            "{text}; that kills all of the container whose first process it is, and nothing there can save anything"
        ))
        .signal("KILL", None, whom),
        false => Remedy::to(text).signal("TERM", None, whom),
    }
}

#[cfg(test)]
mod tests {
    use super::slept_on;
    use crate::facts::ThreadTime;

    #[test]
    fn who_slept_once_for_most_of_the_time_is_not_at_work_in_many_short_waits() {
        let time = |sleep_ns, switches| ThreadTime {
            until_ns: 1_000,
            sleep_ns,
            switches,
            ..ThreadTime::default()
        };
        assert!(slept_on(&time(990, 0)) && slept_on(&time(600, 1)));
        assert!(!slept_on(&time(990, 40)), "a loop that many events wake");
        assert!(!slept_on(&time(300, 1)), "it computes");
    }
}
