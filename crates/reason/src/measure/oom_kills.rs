//! Processes that were killed for want of memory: each once, with what the kernel printed about it.
//!
//! The tracepoint says who and when, the kernel's log who asked, whose limit it was and who had how much. Either may be
//! missing: an ordinary user has the log alone, a host with a restricted log the tracepoint alone. Must not: say whose fault
//! a kill is (rules/memory does).

use super::ancestry::Ancestry;
use super::cgroups::change;
use super::memory_members::is_member;
use crate::facts::{Cgroup, CgroupSample, Ns, OomReport, ThreadRef};
use crate::model::Model;
use std::collections::BTreeSet;

/// One kill.
#[derive(Debug, Clone)]
pub struct Killed<'m> {
    /// When.
    pub at_ns: Ns,
    /// Who.
    pub victim: ThreadRef,
    /// Memory cgroup of the victim (kernfs id), 0 if unknown.
    pub cgroup_id: u64,
    /// Private writable memory that it had mapped, touched or not, bytes; 0 if unknown.
    pub private_bytes: u64,
    /// What the kernel printed about it.
    pub report: Option<&'m OomReport>,
    /// Others of its name were killed at the limits of groups that are gone: each time a group was made for it, and this
    /// one's is no more to blame than theirs.
    pub is_of_series: bool,
}

/// The constraint of a kill at a group's limit, as the kernel prints it.
pub(super) const AT_GROUP: &str = "CONSTRAINT_MEMCG";

impl Killed<'_> {
    /// Whether it happened at the limit of this group. Where the log does not say, the victim's membership does.
    pub fn is_at_limit_of(&self, model: &Model, ancestry: &Ancestry, group: &Cgroup) -> bool {
        match (self.group(), self.report.map(|report| report.constraint.as_str())) {
            (Some(path), _) => path == group.path,
            (None, Some("" | AT_GROUP) | None) => {
                self.cgroup_id != 0 && self.cgroup_id == group.id
                    || is_member(model, ancestry, &self.victim, group)
            }
            (None, Some(_)) => false,
        }
    }

    /// The group whose limit it was, as the log has it: of many kills in a row it has it of a few only.
    pub fn group(&self) -> Option<&str> {
        let report = self.report.filter(|report| report.constraint == AT_GROUP)?;
        Some(report.group.as_str()).filter(|path| !path.is_empty())
    }
}

/// Every kill of the window, the first first.
pub fn oom_kills<'m>(model: &'m Model, ancestry: &Ancestry) -> Vec<Killed<'m>> {
    let mut seen = BTreeSet::new();
    let mut kills: Vec<Killed<'_>> = (model.memory.oom_kills.iter())
        .filter(|(_, kill)| seen.insert(kill.victim.pid))
        .map(|(at_ns, kill)| Killed {
            at_ns: *at_ns,
            victim: kill.victim.clone(),
            cgroup_id: kill.cgroup_id,
            private_bytes: kill.private_bytes,
            report: None,
            is_of_series: false,
        })
        .collect();
    for (at_ns, report) in &model.memory.oom_reports {
        match kills.iter_mut().find(|kill| kill.victim.pid == report.pid) {
            Some(kill) => kill.report = Some(report),
            None => kills.push(Killed {
                at_ns: *at_ns,
                victim: named(model, report),
                cgroup_id: 0,
                private_bytes: 0,
                report: Some(report),
                is_of_series: false,
            }),
        }
    }
    if kills.is_empty() {
        kills.extend(command_killed(model, ancestry));
    }
    kills.sort_by_key(|kill| kill.at_ns);
    kills
}

/// An ordinary user sees neither the event nor the log: his command was ended by SIGKILL, and the kernel counted a kill in
/// the group that the command was in.
fn command_killed<'m>(model: &'m Model, ancestry: &Ancestry) -> Option<Killed<'m>> {
    const SIGKILL: i32 = 9;
    let (at_ns, end) = model.look.command_end.as_ref().filter(|(_, end)| end.signal == SIGKILL)?;
    let victim = model.threads.thread_ref(end.pid);
    let counts = |group: &Cgroup, of: fn(&CgroupSample) -> Option<u64>| {
        let ends = change(model, group).and_then(|(first, last)| of(&first).zip(of(&last)));
        ends.is_some_and(|(first, last)| last > first)
    };
    let has_killed = |group: &&Cgroup| {
        counts(group, |it| it.oom_kills) && is_member(model, ancestry, &victim, group)
    };
    // Of cgroup v2 the groups above count it too: whose limit it was, or else the nearest.
    let near = |group: &&Cgroup| (counts(group, |it| it.memory_ooms), group.path.len());
    let group = model.containers.cgroups.iter().filter(has_killed).max_by_key(near)?;
    Some(Killed {
        at_ns: *at_ns,
        victim,
        cgroup_id: group.id,
        private_bytes: 0,
        report: None,
        is_of_series: false,
    })
}

fn named(model: &Model, report: &OomReport) -> ThreadRef {
    let known = model.threads.thread_ref(report.pid);
    let comm = if known.comm.is_empty() { report.comm.clone() } else { known.comm.clone() };
    ThreadRef { comm, tid: report.pid, pid: report.pid, ..known }
}
