//! How much shorter a command would be without an end or a finding, in the words of the contract.
//!
//! The bound and who sets it come from graph/what_if.rs; here it is cut to what the end has, and said why it is so much. Of
//! anything but a command nothing is said: a window has no end that could come earlier. Must not: compute a path.
//!
//! Edit together: docs/json.md, the report crate's text/finding.rs.

use super::report::{Impact, WithoutIt};
use crate::facts::ThreadRef;
use crate::graph::end::{End, EndKey, EndKind};
use crate::graph::what_if::{WhatIf, Without};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::Claim;
use std::collections::BTreeSet;

/// What is within this part of the whole is all of it: the clocks of two threads differ by as much.
const ALL: f64 = 0.98;

/// What can be saved of a command.
pub(super) struct Saved(Option<WhatIf>);

impl Saved {
    /// Of a look.
    pub(super) fn of(measures: &Measures<'_>) -> Self {
        Self(WhatIf::of(&measures.graph))
    }

    /// Without an end, or the part of it that is meant.
    pub(super) fn end(&self, measures: &Measures<'_>, end: &End) -> WithoutIt {
        // Whoever asks a person needs the answer: without it there is no command.
        if end.kind == EndKind::Person {
            return WithoutIt::default();
        }
        let mut without = self.together(&[end]);
        let several = matches!(end.object, Object::Processes(_));
        if let (Some(what_if), Some(who), true) = (&self.0, &end.who, several)
            && let Some(alone) = what_if.without_one(&end.key(), measures.model.threads.key(who))
        {
            let seconds_max = alone.seconds_max.min(end.seconds);
            without.who_seconds_max = Some(seconds_max);
            without.why = format!(
                "that is all of {}; {} alone up to {} less: {}",
                who.comm,
                measures.model.threads.who(who),
                words::seconds(seconds_max),
                why(&alone, end.seconds)
            );
        }
        without
    }

    /// Without several ends; of those too small to be asked about all that they have counts.
    fn together(&self, ends: &[&End]) -> WithoutIt {
        let Some(what_if) = &self.0 else { return WithoutIt::default() };
        let (asked, small): (Vec<&End>, Vec<&End>) =
            ends.iter().partition(|end| what_if.is_asked(&end.key()));
        let keys: Vec<EndKey> = asked.iter().map(|end| end.key()).collect();
        let Some(without) = what_if.without(&keys).filter(|_| !keys.is_empty()) else {
            return WithoutIt::default();
        };
        // The bound takes away the wait, and leaves the holder its time under the lock, which is what holds up; or whoever sleeps his time.
        let is_causes = |(who, _): &(ThreadRef, f64)| {
            asked.iter().any(|end| is_held_by(end, who) || is_slept_by(end, who))
        };
        if !without.is_needed || without.beside.as_ref().is_some_and(is_causes) {
            return WithoutIt::default();
        }
        let seconds = |ends: &[&End]| ends.iter().map(|end| end.seconds).sum::<f64>();
        // Threads that wait for each other in a circle take the time, and none of them needs it.
        if without.beside.is_none() && without.seconds_max < ALL * seconds(&asked) {
            return WithoutIt::default();
        }
        let seconds_max =
            without.seconds_max.min(seconds(&asked).max(0.0)) + seconds(&small).max(0.0);
        let why = why(&without, seconds(&asked));
        WithoutIt { seconds_max: Some(seconds_max), who_seconds_max: None, why }
    }

    /// Without what a finding claims, and not more than it says is lost; nothing is said where it claims a part of an end, or
    /// none.
    pub(super) fn by_claims(
        &self,
        measures: &Measures<'_>,
        claims: &[Claim],
        impact: &Impact,
    ) -> WithoutIt {
        let at: BTreeSet<usize> = claims.iter().map(|claim| claim.end).collect();
        let whole = claims.iter().all(|claim| {
            let end = &measures.graph.ends[claim.end];
            claim.victims.as_ref().is_none_or(|own| end.victims.keys().all(|pid| own.contains(pid)))
        });
        let ends: Vec<&End> = at.into_iter().map(|at| &measures.graph.ends[at]).collect();
        let mut without = match ends.as_slice() {
            _ if !whole => WithoutIt::default(),
            [] => WithoutIt::default(),
            [end] => self.end(measures, end),
            several => self.together(several),
        };
        let lost = impact.wait_seconds_per_second * measures.wall_seconds();
        without.seconds_max = without.seconds_max.map(|seconds| seconds.min(lost));
        without.who_seconds_max = without.who_seconds_max.map(|seconds| seconds.min(lost));
        without
    }
}

/// Whether somebody has the lock that an end's chain comes down to.
fn is_held_by(end: &End, who: &ThreadRef) -> bool {
    let is_lock = |class| EndKind::of(class) == EndKind::Lock;
    end.links.windows(2).any(|pair| is_lock(pair[0].class) && pair[1].who.tid == who.tid)
}

/// Whether an end's chain comes down to somebody who lets time pass, and is waited for by another.
fn is_slept_by(end: &End, who: &ThreadRef) -> bool {
    let is_rest = |class| matches!(EndKind::of(class), EndKind::Sleep | EndKind::Idle);
    let last = end.links.last().filter(|_| end.links.len() > 1);
    last.is_some_and(|last| is_rest(last.class) && last.who.tid == who.tid)
}

fn why(without: &Without, seconds: f64) -> String {
    match &without.beside {
        _ if without.seconds_max >= ALL * seconds => "nothing else needs that time".into(),
        Some((who, took)) => {
            format!("{} needs {} of that time itself", words::who(who), words::seconds(*took))
        }
        None => "the rest of the command needs the time itself".into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::{descriptor, thread};

    const MS: Ns = 1_000_000;

    /// A wait of a thread between two times, in milliseconds, which somebody ended.
    fn waited(
        thread: ThreadRef,
        (from, to): (u64, u64),
        syscall: &str,
        args: [u64; 6],
        by: ThreadRef,
    ) -> Fact {
        let (begin_ns, end_ns) = (from * MS, to * MS);
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        let wake = Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    /// Why the time of the greatest end is needed all the same, of a command 10 that waits for its child 20, whose first thread waits for another one of it.
    /// That waits until this one wakes it.
    fn why(by: &ThreadRef) -> String {
        let (sh, main) = (thread(10, "sh"), thread(20, "client"));
        let other = ThreadRef { tid: 21, ..main.clone() };
        let target = Target {
            kind: TargetKind::Command,
            name: "sh".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        let at = |ms: u64, body| Fact { at_ns: ms * MS, body };
        let fork = |parent: &ThreadRef, child: &ThreadRef| {
            Body::Fork(Fork { parent: parent.clone(), child: child.clone(), flags: 0 })
        };
        let exit = |thread: &ThreadRef, last: bool| {
            Body::Exit(Exit { thread: thread.clone(), last, code: Some(0) })
        };
        let word = |address: u64| [address, 128, 0, 0, 0, 0];
        let facts = vec![
            at(0, Body::Target(target)),
            at(0, Body::WindowBegin(WindowBegin { unix_ns: 1 })),
            at(10, fork(&sh, &main)),
            at(20, fork(&main, &other)),
            waited(other.clone(), (20, 4890), "futex", word(0x8000), by.clone()),
            waited(main.clone(), (30, 4900), "futex", word(0x7000), other.clone()),
            at(4901, exit(&other, false)),
            at(4902, exit(&main, true)),
            waited(sh.clone(), (30, 4902), "wait4", [20, 0, 0, 0, 0, 0], main),
            at(4903, exit(&sh, true)),
            at(4903, Body::CommandEnd(CommandEnd { pid: 10, exit_status: 0, signal: 0 })),
            at(4903, Body::WindowEnd(WindowEnd::default())),
        ];
        explain(facts).answer.ends[0].without_it.why.clone()
    }

    /// What is found, and why its time is needed all the same: command 10 waits for its child 20, which waits for room in a pipe that its child 30 would have
    /// to read, which sleeps or works meanwhile.
    fn why_beside_reader(works: bool) -> String {
        let (sh, tee, reads) = (thread(10, "sh"), thread(20, "tee"), thread(30, "reader"));
        let (name, cgroups, words) = ("sh".to_string(), Vec::new(), Vec::new());
        let target = Target { kind: TargetKind::Command, name, pid: 10, cgroups, words };
        let at = |ms: u64, body| Fact { at_ns: ms * MS, body };
        let fork = |child: &ThreadRef| {
            Body::Fork(Fork { parent: sh.clone(), child: child.clone(), flags: 0 })
        };
        let exit = |thread: &ThreadRef| {
            Body::Exit(Exit { thread: thread.clone(), last: true, code: Some(0) })
        };
        let end = |of: &ThreadRef, writable: bool| {
            let mut end = descriptor(of.pid, 1, &of.comm, ObjectRef::Pipe { ino: 77 });
            if let Body::Endpoint(end) = &mut end.body {
                (end.readable, end.writable) = (!writable, writable);
            }
            end.body
        };
        let mut writes =
            waited(tee.clone(), (30, 4900), "write", [1, 0, 0, 0, 0, 0], reads.clone());
        if let Body::Wait(wait) = &mut writes.body {
            wait.place.object = Some(ObjectRef::Pipe { ino: 77 });
        }
        let mut slept = waited(reads.clone(), (20, 4890), "clock_nanosleep", [0; 6], sh.clone());
        if let Body::Wait(wait) = &mut slept.body {
            let (at_ns, context) = (4890 * MS, WakeContext::HardInterrupt);
            wait.wake = Some(Wake { at_ns, context, ..Wake::default() });
        }
        let ran = Ran { thread: reads.clone(), begin_ns: 20 * MS, end_ns: 4890 * MS, cpu: 1 };
        let facts = vec![
            at(0, Body::Target(target)),
            at(0, Body::WindowBegin(WindowBegin { unix_ns: 1 })),
            at(10, fork(&tee)),
            at(10, fork(&reads)),
            at(25, end(&tee, true)),
            at(25, end(&reads, false)),
            if works { at(4890, Body::Ran(ran)) } else { slept },
            writes,
            at(4891, exit(&reads)),
            at(4902, exit(&tee)),
            waited(sh.clone(), (20, 4902), "wait4", [20, 0, 0, 0, 0, 0], tee),
            at(4903, exit(&sh)),
            at(4903, Body::CommandEnd(CommandEnd { pid: 10, exit_status: 0, signal: 0 })),
            at(4903, Body::WindowEnd(WindowEnd::default())),
        ];
        let report = explain(facts);
        let finding = report.findings.first().map(|it| (&*it.code, &*it.without_it.why));
        format!("{finding:?}")
    }

    #[test]
    fn the_time_that_a_cause_sleeps_is_not_needed_without_it() {
        // Its work is the end itself, and no finding.
        assert_eq!(why_beside_reader(true), "None");
        let slept = why_beside_reader(false);
        assert_eq!(slept, "Some((\"process.pipe_peer\", \"\"))");
    }

    #[test]
    fn threads_that_wait_for_each_other_in_a_circle_need_no_time() {
        assert_eq!(why(&thread(10, "sh")), "", "the one who asked it to end");
        assert_eq!(why(&thread(40, "server")), "nothing else needs that time");
    }
}
