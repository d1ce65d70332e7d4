//! disk.journal: a small fsync waits for a commit that is large because of somebody else.
//!
//! A journal commits one transaction for the whole file system. In ordered mode it first writes out the data of
//! every file that grew in it, so a few bytes of one process wait for the megabytes of another.

use crate::answer::report::{Finding, ObjectName};
use crate::facts::ThreadRef;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::disk::{self, View, Wrong};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
    code: "disk.journal",
    title: "An fsync waits for a journal commit that carries somebody else's data",
    theory: "A journalling file system commits one transaction for everybody. With data=ordered (the default of ext4) the \
             data of all files in it is written first. A process that syncs a few bytes waits for all of it.",
    needs: &[
        "threads wait for the journal, which waits for the disk",
        "another process writes most of what the disk does",
    ],
    refuted_by: &[
        Refutation::new("the victims write most themselves", ""),
        Refutation::new("the disk is slow or capped even for a small commit", ""),
    ],
    remedies: &[
        "give the two their own file systems",
        "let the writer sync more often, in smaller pieces",
        "fast commits (tune2fs -O fast_commit)",
    ],
    stories: &["S3.6", "S1.1"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    disk::views(measures)
        .filter_map(|(end, view)| match &view.wrong {
            Some(Wrong::Journal(who)) => Some(finding(measures, end, &view, who)),
            _ => None,
        })
        .collect()
}

fn finding(measures: &Measures<'_>, end: &End, view: &View<'_>, who: &ThreadRef) -> Finding {
    let (name, queue) = (&view.disk.name, &view.queue);
    let inside = view.service.as_ref().map_or(queue.seconds, |s| s.mean);
    let victims = measures.victims(end);
    let victim =
        victims.iter().find(|v| v.pid != who.pid).map_or_else(String::new, |v| v.comm.clone());
    let journal = end.via.get(&WaitClass::Journal).copied().unwrap_or(0.0);
    let verdict = Verdict {
        title: format!(
            "{victim} waits for journal commits that carry the data of {}",
            words::who(who)
        ),
        text: format!(
            "{} pass in waits for the journal of {name}: each commit also writes out what {} wrote, most of the \
             {}/s that {name} does.",
            words::of_window(journal, measures.wall_seconds()),
            words::who(who),
            words::bytes(queue.bytes_per_second),
        ),
        confidence: 0.8,
        culprit: culprit(measures, who),
        evidence: crate::rules::old::disk_device_cap::evidence(view, inside),
        remedy: vec![crate::rules::old::disk_saturated::come_last(
            view.disk,
            who,
            "let the writer use the disk only when nobody else does; better, give it its own file system",
        )],
    };
    let mut finding = RULE.finding(measures, end, verdict);
    finding.object = ObjectName::new("journal", name).with_id(view.disk.dev.to_string());
    finding
}
