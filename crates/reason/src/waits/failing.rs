//! Programs that fail and are begun again: what a script asks by running a program whose refusal is no refused call.
//!
//! `until psql ...; do sleep 1; done`: the server has answered, and its answer was no. What is seen from outside is that the
//! program ended badly, again and again, and that somebody sleeps before it is begun the next time. One that ends well and
//! is begun again all the same is run now and then, and nobody waits for it. Only where a command or a process was asked
//! about: what the scripts of a host do is their business.
//!
//! Must not: choose the sleeps (retries.rs). Rejected: programs that are begun often as such.

use super::families::Families;
use crate::facts::{Exit, Ns, TargetKind, ThreadRef};
use crate::model::Model;
use std::collections::{HashMap, HashSet};

/// Whoever ends badly so soon after a child that did passes on its failure: a wrapper.
const PASSED_ON_NS: Ns = 100_000_000;

/// A program that ended badly.
pub(super) struct Failure<'m> {
    /// When.
    pub(super) at_ns: Ns,
    /// Its main thread.
    pub(super) thread: &'m ThreadRef,
    /// Who began it, and who began that.
    pub(super) line: Vec<u32>,
}

/// Whether somebody asked about those who might do so.
pub(super) fn may_be_asked(model: &Model) -> bool {
    let kind = model.look.target.as_ref().map(|target| target.kind);
    matches!(kind, Some(TargetKind::Command | TargetKind::Process))
        && !model.threads.exits.is_empty()
}

/// Programs that ended badly each time that they were begun, but for the last.
pub(super) fn failures<'m>(model: &'m Model, families: &Families) -> Vec<Failure<'m>> {
    let ends = model.threads.exits.iter().filter(|(_, exit)| exit.thread.tid == exit.thread.pid);
    let ends: Vec<(Ns, &Exit, Vec<u32>)> = ends
        .filter_map(|(at_ns, exit)| {
            let line = families.line(exit.thread.pid).split_off(1);
            (!line.is_empty()).then_some((*at_ns, exit, line))
        })
        .collect();
    let by_whom = |exit: &'m Exit, line: &[u32]| (line[0], exit.thread.comm.as_str());
    let mut last: HashMap<(u32, &str), Ns> = HashMap::new();
    for (at_ns, exit, line) in &ends {
        let known = last.entry(by_whom(exit, line)).or_default();
        *known = (*at_ns).max(*known);
    }
    // Begun again after it had ended well.
    let now_and_then: HashSet<(u32, &str)> = (ends.iter())
        .filter(|(_, exit, _)| exit.code == Some(0))
        .map(|(at_ns, exit, line)| (*at_ns, by_whom(exit, line)))
        .filter(|(at_ns, whom)| last.get(whom).is_some_and(|last_ns| last_ns > at_ns))
        .map(|(_, whom)| whom)
        .collect();
    let fails = |exit: &Exit| exit.code.is_some_and(|code| code != 0);
    // By whom a failure may be passed on, and when it came.
    let below: HashMap<u32, Ns> = (ends.iter())
        .filter(|(_, exit, _)| fails(exit))
        .map(|(at_ns, _, line)| (line[0], *at_ns))
        .collect();
    let passes_on = |pid: u32, at_ns: Ns| {
        below.get(&pid).is_some_and(|child_ns| at_ns.abs_diff(*child_ns) <= PASSED_ON_NS)
    };
    ends.into_iter()
        .filter(|(_, exit, line)| fails(exit) && !now_and_then.contains(&by_whom(exit, line)))
        .filter(|(at_ns, exit, _)| !passes_on(exit.thread.pid, *at_ns))
        .map(|(at_ns, exit, line)| Failure { at_ns, thread: &exit.thread, line })
        .collect()
}

/// All runs of the programs that fail, by process id: whoever sleeps within a run does not sleep between two.
pub(super) fn runs(model: &Model, families: &Families, failures: &[Failure<'_>]) -> HashSet<u32> {
    let programs: HashSet<(u32, &str)> =
        failures.iter().map(|failure| (failure.line[0], failure.thread.comm.as_str())).collect();
    let of_one = |exit: &&Exit| {
        let by = families.line(exit.thread.pid).get(1).copied();
        by.is_some_and(|by| programs.contains(&(by, exit.thread.comm.as_str())))
    };
    model
        .threads
        .exits
        .iter()
        .map(|(_, exit)| exit)
        .filter(of_one)
        .map(|exit| exit.thread.pid)
        .collect()
}
