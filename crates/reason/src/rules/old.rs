//! The way that goes: rules that make whole findings. Removed with the last of them.

#[cfg(test)]
pub(crate) use super::scenes as process_tests;
use super::wording::*;
pub(crate) use super::{Rule, net};
use crate::answer::report::{Finding, Impact, Link, ObjectName, Severity, Victim, Who};
use crate::facts::ThreadRef;
use crate::graph::chains::ChainLink;
use crate::graph::ends::End;
use crate::measure::Measures;
#[cfg(test)]
pub(crate) use crate::measure::cpu_profile_tests as work_tests;
pub use crate::measure::{cpu_users as cpu, memory_limits as memory, memory_losses};
use crate::model::Model;
pub use crate::model::words;
use crate::waits::WaitClass;

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
