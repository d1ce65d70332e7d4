//! Cases: each turns causes and facts into findings of one code, in a file of its own.
//!
//! A case holds its theory, what must also be true (the second fact), what would refute it, its text, its
//! tests, and is registered in [`CASES`], the one table. `holdup explain` and docs/codes.md are made from
//! it. A case must not print, keep state, or look at another case's findings; where two cases could claim
//! one wait, the predicates they share are in queues.rs or here.
//!
//! To add one: copy the nearest file, register it below, write its scenario in lab/scenarios first.

use crate::causes::{Cause, Causes};
use crate::findings::{Culprit, Evidence, Finding, Impact, ObjectName, Remedy, Severity};

pub mod words;

pub(crate) mod cpu;
mod cpu_affinity;
mod cpu_quota;
mod cpu_rt_denied;
mod cpu_rt_throttled;
mod cpu_saturated;
mod disk;
mod disk_cache_miss;
mod disk_device_cap;
mod disk_errors;
mod disk_fail_slow;
mod disk_journal;
mod disk_own_throttle;
mod disk_raid_imbalance;
mod disk_saturated;
mod disk_weight;
mod fs_copy_up;
mod fs_frozen;
mod fs_fuse_daemon;
mod lock_deadlock;
mod lock_file;
mod lock_futex;
mod lock_lease;
mod memory;
mod memory_dirty_throttle;
mod memory_fault_storm;
mod memory_limit;
mod memory_losses;
mod memory_shared_unaccounted;
mod net;
mod net_accept_queue;
mod net_class_ceiling;
mod net_dns_timeout;
mod net_local_queue;
mod net_loss;
mod net_receiver_limited;
mod net_remote_queue;
mod net_sendbuf_limited;
mod net_slow_peer;
mod net_socket_full;
#[cfg(test)]
mod net_tests;
mod net_udp_flood;
mod process;
mod process_crypto_bound;
mod process_fork_cost;
mod process_frozen;
mod process_pipe_peer;
mod process_small_io;
mod process_socket_peer;
mod process_stopped;
#[cfg(test)]
pub(crate) mod process_tests;
mod process_timezone_stat;
mod process_traced;
mod process_tty_blocked;
mod process_vfork_exec;
mod work;
#[cfg(test)]
mod work_tests;

/// One rule and everything a person should know of it.
pub struct Case {
    /// `area.cause`, stable for ever.
    pub code: &'static str,
    /// What it says, one line without names.
    pub title: &'static str,
    /// What happens in the kernel, and why that makes things slow.
    pub theory: &'static str,
    /// What must be seen before it is said.
    pub needs: &'static [&'static str],
    /// What would refute it.
    pub refuted_by: &'static [&'static str],
    /// The ways out.
    pub remedies: &'static [&'static str],
    /// Stories of the field that it answers.
    pub stories: &'static [&'static str],
    /// The rule.
    pub find: fn(&Causes<'_>) -> Vec<Finding>,
}

/// All cases, by area and code.
pub static CASES: &[&Case] = &[
    &cpu_affinity::CASE,
    &cpu_quota::CASE,
    &cpu_rt_denied::CASE,
    &cpu_rt_throttled::CASE,
    &cpu_saturated::CASE,
    &disk_cache_miss::CASE,
    &disk_device_cap::CASE,
    &disk_errors::CASE,
    &disk_fail_slow::CASE,
    &disk_journal::CASE,
    &disk_own_throttle::CASE,
    &disk_raid_imbalance::CASE,
    &disk_saturated::CASE,
    &disk_weight::CASE,
    &fs_copy_up::CASE,
    &fs_frozen::CASE,
    &fs_fuse_daemon::CASE,
    &lock_deadlock::CASE,
    &lock_file::CASE,
    &lock_futex::CASE,
    &lock_lease::CASE,
    &memory_dirty_throttle::CASE,
    &memory_fault_storm::CASE,
    &memory_limit::CASE,
    &memory_shared_unaccounted::CASE,
    &net_accept_queue::CASE,
    &net_class_ceiling::CASE,
    &net_dns_timeout::CASE,
    &net_local_queue::CASE,
    &net_loss::CASE,
    &net_receiver_limited::CASE,
    &net_remote_queue::CASE,
    &net_sendbuf_limited::CASE,
    &net_slow_peer::CASE,
    &net_socket_full::CASE,
    &net_udp_flood::CASE,
    &process_crypto_bound::CASE,
    &process_fork_cost::CASE,
    &process_frozen::CASE,
    &process_pipe_peer::CASE,
    &process_small_io::CASE,
    &process_socket_peer::CASE,
    &process_stopped::CASE,
    &process_timezone_stat::CASE,
    &process_traced::CASE,
    &process_tty_blocked::CASE,
    &process_vfork_exec::CASE,
];

/// The case of a code.
pub fn by_code(code: &str) -> Option<&'static Case> {
    CASES.iter().copied().find(|case| case.code == code)
}

/// What a rule adds to what its cause already tells.
pub struct Verdict {
    /// The one sentence.
    pub title: String,
    /// The paragraph.
    pub text: String,
    /// How well the other causes are excluded.
    pub confidence: f64,
    /// Who holds it up.
    pub culprit: Culprit,
    /// What was checked.
    pub evidence: Vec<Evidence>,
    /// The ways out.
    pub remedy: Vec<Remedy>,
}

impl Case {
    /// A finding of this case with nothing in it yet, for those that stand on no single cause.
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

    /// A finding of this case from a cause: impact, victims and chain are the cause's.
    pub fn finding(&self, causes: &Causes<'_>, cause: &Cause, verdict: Verdict) -> Finding {
        Finding {
            code: self.code.into(),
            title: verdict.title,
            text: verdict.text,
            severity: causes.severity(cause),
            confidence: verdict.confidence,
            object: cause.object.clone(),
            culprit: verdict.culprit,
            victims: causes.victims(cause),
            impact: causes.impact(cause),
            chain: causes.links(cause),
            evidence: verdict.evidence,
            remedy: verdict.remedy,
            stories: self.stories.iter().map(|s| (*s).to_string()).collect(),
        }
    }
}

/// A process with its container, as a culprit.
pub fn culprit(causes: &Causes<'_>, thread: &crate::facts::ThreadRef) -> Culprit {
    let mut culprit = Culprit::process(thread);
    culprit.container = causes.scene.container_of(thread).map(|c| c.name.clone());
    culprit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_lower_case_and_the_table_is_sorted() {
        let codes: Vec<&str> = CASES.iter().map(|case| case.code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(codes, sorted);
        for code in codes {
            let (area, cause) = code.split_once('.').expect("area.cause");
            let word =
                |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(word(area) && word(cause), "{code}");
        }
    }

    #[test]
    fn every_case_says_what_it_needs_and_what_refutes_it() {
        for case in CASES {
            assert!(!case.needs.is_empty() && !case.refuted_by.is_empty(), "{}", case.code);
            assert!(!case.remedies.is_empty() && case.theory.len() > 80, "{}", case.code);
        }
    }
}
