//! process.timezone_stat: every local time stamp costs a look at /etc/localtime, because TZ is not set.
//!
//! The C library must notice when the system's zone changes; without TZ in the environment it asks for the file's
//! status at every conversion. The samples carry the path that the call was given, so the file needs no guessing.

use crate::answer::report::{Evidence, Finding, ObjectName, Remedy};
use crate::facts::Work;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, words, work};

/// The case.
pub static RULE: Rule = Rule {
    code: "process.timezone_stat",
    title: "A program asks for the status of /etc/localtime at every time stamp",
    theory: "localtime() of the GNU C library looks whether /etc/localtime has changed, at every call, unless TZ is set. \
             A program that stamps each line or request spends more on that than on the stamp.",
    needs: &[
        "a tenth or more of its CPU samples are in a stat call that was given the path /etc/localtime",
        "the kernel stacks of a tenth or more of its samples lie in the look-up of a path",
    ],
    refuted_by: &[
        Refutation::new("the calls are for other files", ""),
        Refutation::new("TZ is set", ""),
    ],
    remedies: &["start it with TZ=:/etc/localtime", "stamp once a second and keep the text"],
    stories: &["S4.2"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
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
const SHARE_MIN: f64 = 0.1;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    work::findings(measures, finding)
}

fn finding(measures: &Measures<'_>, spent: &work::Spent) -> Option<Finding> {
    let pid = spent.process.pid;
    let of_zone = |w: &&Work| {
        w.process.pid == pid && w.path == ZONE_FILE && CALLS.contains(&w.syscall.as_str())
    };
    // Each sample with another path takes one away, so what is left is a lower bound.
    let samples: u64 = measures.model.work.iter().filter(of_zone).map(|w| w.same_name).sum();
    let looked_up = work::in_kernel(measures, pid, |f| LOOK_UP.contains(&f));
    let share = spent.share(samples);
    if share < SHARE_MIN || spent.share(looked_up) < SHARE_MIN {
        return None;
    }
    let seconds = spent.seconds(samples);
    let who = words::who(&spent.process);
    let source = "cpu-clock samples, registers of the call";
    let verdict = Verdict {
        title: format!("{who} asks for the status of {ZONE_FILE} at every time stamp"),
        text: format!(
            "{} of its CPU time ({}) goes into stat calls of {ZONE_FILE}. The C library makes one for each local \
             time when TZ is not set.",
            words::percent(share),
            words::of_window(seconds, measures.wall_seconds()),
        ),
        confidence: 0.95,
        culprit: culprit(measures, &spent.process),
        evidence: vec![
            Evidence::new(
                format!("share of its CPU time in stat of {ZONE_FILE}"),
                share,
                "1",
                source,
            ),
            Evidence::new(
                "share of its CPU time in looking up paths",
                spent.share(looked_up),
                "1",
                "cpu-clock samples, kernel stacks",
            ),
        ],
        remedy: vec![Remedy {
            text: "set TZ where it is started (its unit, its shell)".into(),
            command: format!("export TZ=:{ZONE_FILE}"),
            undo: "unset TZ".into(),
        }],
    };
    let object = ObjectName::new("file", ZONE_FILE);
    let lost = vec![(spent.process.clone(), seconds)];
    Some(work::finding(&RULE, measures, object.clone(), object, &lost, verdict))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::old::work_tests::*;

    fn stamps(path: &str) -> Vec<Fact> {
        let mut facts = sampled(&[(&["filename_lookup", "vfs_statx"], 500), (&[], 300)]);
        facts.push(in_call("newfstatat", path, 500, 0));
        facts
    }

    #[test]
    fn stats_of_the_zone_file_are_told() {
        let report = explain(stamps("/etc/localtime"));
        assert_eq!(report.findings[0].code, "process.timezone_stat");
    }

    #[test]
    fn stats_of_other_files_are_healthy() {
        assert!(explain(stamps("/srv/www/index.html")).findings.is_empty());
    }
}
