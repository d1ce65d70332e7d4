//! process.timezone_stat: every local time stamp costs a look at /etc/localtime, because TZ is not set.
//!
//! The C library must notice when the system's zone changes; without TZ in the environment it asks for the file's
//! status at every conversion. The samples carry the path that the call was given, so the file needs no guessing.
//! Rejected: the environment of the process (it may have set TZ itself since).

use crate::facts::Work;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_profile::Spent;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

static SHARE_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "of a program's samples, those in stat calls of the file, and those in looking up paths; below it the stamp is not what \
     costs",
    "chosen: a tenth of the CPU time is worth one line in a unit file",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.timezone_stat",
    title: "A program asks for the status of /etc/localtime at every time stamp",
    theory: "localtime() of the GNU C library looks whether /etc/localtime has changed, at every call, unless TZ is set. \
             A program that stamps each line or request spends more on that than on the stamp.",
    needs: &[
        "a tenth or more of its CPU samples are in a stat call that was given the path /etc/localtime",
        "the kernel stacks of a tenth or more of its samples lie in the look-up of a path",
    ],
    refuted_by: &[
        Refutation::new("the calls are for other files", "stats_of_other_files_are_healthy"),
        Refutation::new(
            "its samples are not in the look-up of paths",
            "calls_that_look_nothing_up_are_healthy",
        ),
    ],
    remedies: &["start it with TZ=:/etc/localtime", "stamp once a second and keep the text"],
    stories: &["S4.2"],
    thresholds: &[&SHARE_MIN, &COST_MIN, &PART_MIN],
    finds: Finds::End(find),
};

const CALLS: &[&str] = &["newfstatat", "statx", "stat", "lstat", "fstatat64", "stat64"];
const LOOK_UP: &[&str] = &[
    "vfs_statx",
    "vfs_fstatat",
    "__do_sys_newfstatat",
    "do_statx",
    "filename_lookup",
    "path_lookupat",
    "user_path_at",
    "getname_flags",
    "cp_new_stat",
];
const ZONE_FILE: &str = "/etc/localtime";

/// Shares of a program's samples.
struct Stamps {
    spent: Spent,
    share: f64,
    looked_up: f64,
    seconds: f64,
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end)?;
    let profile = &measures.profile;
    let spent = profile.spent(pid)?;
    let of_zone = |w: &&&Work| w.path == ZONE_FILE && CALLS.contains(&w.syscall.as_str());
    // Each sample with another path takes one away, so what is left is a lower bound.
    let samples: u64 = profile.work(pid).iter().filter(of_zone).map(|w| w.same_name).sum();
    let looked_up = spent.share(profile.in_kernel(pid, |f| LOOK_UP.contains(&f)));
    let (share, seconds) = (spent.share(samples), spent.seconds(samples));
    if share < SHARE_MIN.value || looked_up < SHARE_MIN.value {
        return None;
    }
    let cost = Cost::of_one(measures, &spent.process, seconds, end);
    if !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let by = culprit(measures.model, &spent.process);
    let stamps = Stamps { spent, share, looked_up, seconds };
    let matched =
        Match::new(by, Proof::TwoWitnesses, move |loss| stamps.explain(loss.wall_seconds))
            .on(Object::Path(ZONE_FILE.into()));
    Some(cost.charge(matched, ("file", ZONE_FILE.into())))
}

impl Stamps {
    fn explain(&self, wall: f64) -> Wording {
        let who = words::who(&self.spent.process);
        Wording {
            title: format!("{who} asks for the status of {ZONE_FILE} at every time stamp"),
            text: format!(
                "{} of its CPU time ({}) goes into stat calls of {ZONE_FILE}. The C library makes one for each local \
                 time when TZ is not set.",
                words::percent(self.share),
                words::of_window(self.seconds, wall),
            ),
            evidence: vec![
                Evidence::new(
                    format!("share of its CPU time in stat of {ZONE_FILE}"),
                    self.share,
                    "1",
                    "cpu-clock samples, registers of the call",
                ),
                Evidence::new(
                    "share of its CPU time in looking up paths",
                    self.looked_up,
                    "1",
                    "cpu-clock samples, kernel stacks",
                ),
            ],
            remedy: vec![Remedy {
                text: "set TZ where it is started (its unit, its shell)".into(),
                command: format!("export TZ=:{ZONE_FILE}"),
                undo: "unset TZ".into(),
                ..Remedy::default()
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    fn stamps(path: &str) -> Vec<Fact> {
        let mut facts = sampled(&[(&["filename_lookup", "vfs_statx"], 500), (&[], 300)]);
        facts.push(in_call("newfstatat", path, 500, 0));
        facts
    }

    #[test]
    fn stats_of_the_zone_file_are_reported() {
        let report = explain(stamps("/etc/localtime"));
        assert_eq!(report.findings[0].code, "process.timezone_stat");
    }

    #[test]
    fn calls_that_look_nothing_up_are_healthy() {
        let mut facts = sampled(&[(&["perf_trace_sys_enter"], 500), (&[], 300)]);
        facts.push(in_call("newfstatat", "/etc/localtime", 500, 0));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn stats_of_other_files_are_healthy() {
        assert!(explain(stamps("/srv/www/index.html")).findings.is_empty());
    }

    fn says(facts: Vec<Fact>) -> bool {
        explain(facts).findings.iter().any(|it| it.code == "process.timezone_stat")
    }

    #[test]
    fn it_takes_a_tenth_of_the_samples_in_looking_up_paths() {
        let with = |looks_up: u64| {
            let stacks: &[(&[&str], u64)] =
                &[(&["filename_lookup", "vfs_statx"], looks_up), (&[], 800 - looks_up)];
            let mut facts = sampled(stacks);
            facts.push(in_call("newfstatat", "/etc/localtime", 500, 0));
            says(facts)
        };
        assert_eq!((with(80), with(79)), (true, false));
    }

    /// A command that works on eight CPUs for four seconds, and stamps in so many of its 6400 samples.
    fn on_many_cpus(stamps: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(&["filename_lookup", "vfs_statx"], 800)]);
        let process = thread(10, "app");
        let samples = Samples { process, stack: 0, count: 5600, frequency_hz: 200 };
        facts.push(fact(Body::Samples(samples)));
        for tid in 11..18 {
            facts.push(fact(Body::ThreadTime(ThreadTime {
                thread: ThreadRef { tid, ..thread(10, "app") },
                until_ns: LOOK_NS,
                run_ns: 4_000_000_000,
                sleep_ns: 1_000_000_000,
                ..ThreadTime::default()
            })));
        }
        facts.push(in_call("newfstatat", "/etc/localtime", stamps, 0));
        facts.push(fact(Body::Target(Target {
            kind: TargetKind::Command,
            name: "app".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        facts
    }

    #[test]
    fn stamps_are_a_small_part_of_what_many_cpus_do_though_one_would_be_busy_with_them() {
        assert!(says(on_many_cpus(640)), "a tenth");
        assert!(
            !says(on_many_cpus(600)),
            "more than half of one CPU, and less than a tenth of all"
        );
    }
}
