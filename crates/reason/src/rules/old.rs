//! The way that goes: rules that make whole findings. Removed with the last of them.

pub(crate) use super::disk::{
    cache_miss as disk_cache_miss, device_cap as disk_device_cap,
    raid_imbalance as disk_raid_imbalance, saturated as disk_saturated,
};
pub(crate) use super::fs::copy_up as fs_copy_up;
#[cfg(test)]
pub(crate) use super::scenes as process_tests;
use super::wording::*;
pub(crate) use super::{Rule, disk, net};
use crate::answer::report::{Finding, Impact, Link, ObjectName, Severity, Victim, Who};
use crate::facts::ThreadRef;
use crate::graph::chains::ChainLink;
use crate::graph::ends::End;
use crate::measure::Measures;
#[cfg(test)]
pub(crate) use crate::measure::cpu_profile_tests as work_tests;
use crate::model::Model;
pub use crate::model::words;
use crate::waits::WaitClass;

/// What rules of other areas still ask of the CPU's.
pub mod cpu {
    use crate::answer::report::Victim;
    use crate::facts::ThreadRef;
    use crate::measure::Measures;

    pub fn concerns(measures: &Measures<'_>, thread: &ThreadRef) -> bool {
        measures.concerns(thread)
    }

    pub fn victim(measures: &Measures<'_>, process: &ThreadRef, wait_seconds: f64) -> Victim {
        Victim {
            pid: process.pid,
            comm: measures.process_name(process),
            container: measures.model.container_of(process).map(|c| c.name.clone()),
            wait_seconds,
            ..Victim::default()
        }
    }
}

/// What the disk rules still ask of memory.limit; claims say it now.
pub mod memory {
    use crate::graph::ends::End;
    use crate::measure::Measures;
    use crate::measure::memory_limits::is_member;
    use crate::rules::memory::limit::reads_back;

    pub fn is_thrash(measures: &Measures<'_>, end: &End) -> bool {
        let model = measures.model;
        let (mut all, mut inside) = (0.0, 0.0);
        for (thread, seconds) in end.victims.values() {
            all += seconds;
            let member = measures.limited.iter().any(|one| {
                reads_back(one) && is_member(model, &measures.ancestry, thread, one.group)
            });
            inside += if member { *seconds } else { 0.0 };
        }
        inside > 0.0 && inside >= 0.5 * all
    }
}

/// What a rule adds to what its cause already tells.
pub struct Verdict {
    pub title: String,
    pub text: String,
    pub confidence: f64,
    pub culprit: Culprit,
    pub evidence: Vec<Evidence>,
    pub remedy: Vec<Remedy>,
}

pub fn culprit(measures: &Measures<'_>, thread: &ThreadRef) -> Culprit {
    super::culprit(measures.model, thread)
}

impl Rule {
    pub fn blank(&self) -> Finding {
        Finding {
            code: self.code.into(),
            title: String::new(),
            text: String::new(),
            severity: Severity::Note,
            confidence: 0.0,
            object: ObjectName::default(),
            culprit: Culprit::default(),
            victims: Vec::new(),
            impact: Impact::default(),
            chain: Vec::new(),
            evidence: Vec::new(),
            remedy: Vec::new(),
            stories: self.stories.iter().map(|s| (*s).to_string()).collect(),
        }
    }

    pub fn finding(&self, measures: &Measures<'_>, end: &End, verdict: Verdict) -> Finding {
        Finding {
            code: self.code.into(),
            title: verdict.title,
            text: verdict.text,
            severity: measures.severity(end),
            confidence: verdict.confidence,
            object: measures.model.name_of(&end.object),
            culprit: verdict.culprit,
            victims: measures.victims(end),
            impact: measures.impact(end),
            chain: measures.links(end),
            evidence: verdict.evidence,
            remedy: verdict.remedy,
            stories: self.stories.iter().map(|s| (*s).to_string()).collect(),
        }
    }
}

impl Measures<'_> {
    pub fn impact(&self, end: &End) -> Impact {
        let wall = self.wall_seconds().max(1e-9);
        let lost: f64 = end.victims.values().map(|(_, seconds)| seconds).sum();
        let demand: f64 = end
            .victims
            .iter()
            .map(|(pid, (_, seconds))| self.demand_seconds(*pid).max(*seconds))
            .sum();
        let share = if self.is_command() {
            end.seconds / wall
        } else if demand > 0.0 {
            lost / demand
        } else {
            0.0
        };
        Impact { wait_seconds_per_second: end.seconds / wall, share: share.clamp(0.0, 1.0) }
    }

    pub fn severity(&self, end: &End) -> Severity {
        Severity::of(&self.impact(end))
    }

    pub fn victims(&self, end: &End) -> Vec<Victim> {
        let mut victims: Vec<Victim> = end
            .victims
            .iter()
            .map(|(pid, (thread, seconds))| Victim {
                pid: *pid,
                inner_pid: None,
                comm: self.process_name(thread),
                container: self.model.container_of(thread).map(|c| c.name.clone()),
                wait_seconds: *seconds,
            })
            .collect();
        victims.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
        victims
    }

    pub fn links(&self, end: &End) -> Vec<Link> {
        end.links
            .iter()
            .filter(|link| link.class != WaitClass::Unseen)
            .map(|link| link_of(self.model, link))
            .collect()
    }
}

/// A link as the report prints it.
pub fn link_of(model: &Model, link: &ChainLink) -> Link {
    let waits_on = match link.class {
        WaitClass::Running => ObjectName::new("CPU", "running"),
        WaitClass::Idle => ObjectName::new("event", "event"),
        _ => model.name_of(&link.object),
    };
    Link {
        who: Who::thread(&link.who),
        waits_on,
        seconds: link.end_ns.saturating_sub(link.begin_ns) as f64 / 1e9,
    }
}

/// The on-CPU profile with the makers of whole findings.
pub mod work {
    pub use crate::measure::cpu_profile::*;

    use super::*;

    /// Processes as they lose time, seconds.
    pub type Lost = Vec<(ThreadRef, f64)>;

    /// What a case finds of processes one by one, if it costs them enough to be more than a note.
    pub fn findings(
        measures: &Measures<'_>,
        of: fn(&Measures<'_>, &Spent) -> Option<Finding>,
    ) -> Vec<Finding> {
        let spent = by_process(measures);
        let found = spent.iter().filter_map(|spent| of(measures, spent));
        found.filter(|finding| finding.severity > Severity::Note).collect()
    }

    /// A finding on CPU time: the processes that spend it are culprit and victims in one.
    pub fn finding(
        rule: &Rule,
        measures: &Measures<'_>,
        object: ObjectName,
        on: ObjectName,
        lost: &Lost,
        verdict: Verdict,
    ) -> Finding {
        let impact = impact(measures, lost);
        let mut chain = Vec::new();
        if let Some((process, seconds)) = lost.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            chain.push(Link { who: Who::thread(process), waits_on: on, seconds: *seconds });
        }
        Finding {
            title: verdict.title,
            text: verdict.text,
            severity: Severity::of(&impact),
            confidence: verdict.confidence,
            object,
            culprit: verdict.culprit,
            victims: lost.iter().map(|(p, seconds)| cpu::victim(measures, p, *seconds)).collect(),
            impact,
            chain,
            evidence: verdict.evidence,
            remedy: verdict.remedy,
            ..rule.blank()
        }
    }

    fn impact(measures: &Measures<'_>, lost: &Lost) -> Impact {
        let wall = measures.wall_seconds().max(1e-9);
        let seconds: f64 = lost.iter().map(|(_, seconds)| seconds).sum();
        let demand: f64 = lost.iter().map(|(p, s)| measures.demand_seconds(p.pid).max(*s)).sum();
        let share = if measures.is_command() { seconds / wall } else { seconds / demand.max(1e-9) };
        Impact { wait_seconds_per_second: seconds / wall, share: share.clamp(0.0, 1.0) }
    }
}
