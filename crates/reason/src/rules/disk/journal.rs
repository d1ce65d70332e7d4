//! disk.journal: a small fsync waits for a commit that is large because of somebody else.
//!
//! A journal commits one transaction for the whole file system. In ordered mode it first writes out the data of
//! every file that grew in it, so a few bytes of one process wait for the megabytes of another.

//! Must not: speak for a disk that is slow even for a small commit; the rules below it in the ladder do. Rejected: the size
//! of a commit as the journal counts it (/proc/fs/jbd2 knows blocks, not whose data went with them).

use super::neighbour::{self, Neighbour, neighbour, victim_beside};
use super::{waited, wording};
use crate::facts::Ns;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::DiskView;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

static THROUGH_JOURNAL: Threshold = Threshold::new(
    0.25,
    "1",
    "at least this part of what the others wait for the disk passes in waits for a commit, else the journal is a detail",
    "lab: disk-journal, seeds 4401-4403",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.journal",
    title: "An fsync waits for a journal commit that carries somebody else's data",
    theory: "A journalling file system commits one transaction for everybody. With data=ordered (the default of ext4) the \
             data of all files in it is written first. A process that syncs a few bytes waits for all of it.",
    needs: &[
        "threads wait for the journal, which waits for the disk",
        "another process writes most of what the disk does",
    ],
    refuted_by: &[
        Refutation::new(
            "the victims write most themselves",
            "who_writes_most_himself_is_no_victim",
        ),
        Refutation::new(
            "nobody waits for the journal",
            "others_who_do_not_wait_for_a_commit_queue_for_the_disk",
        ),
    ],
    remedies: &[
        "give the two their own file systems",
        "let the writer sync more often, in smaller pieces",
        "fast commits (tune2fs -O fast_commit)",
    ],
    stories: &["S3.6", "S1.1"],
    thresholds: &[&THROUGH_JOURNAL, &neighbour::SHARE, &neighbour::SUFFERS],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let view = waited::slow_disk(measures, end)?;
    let writer = neighbour(measures, end, view)?;
    let journal = through_journal(measures, end, view, &writer);
    let others = end.victims.iter().filter(|(pid, _)| !writer.is_one(**pid));
    let others: f64 = others.map(|(_, (_, seconds))| seconds).sum();
    if journal <= 0.0 || journal < THROUGH_JOURNAL.value * others {
        return None;
    }
    let by = culprit(measures.model, writer.who);
    let explain = move |loss: &Loss<'_>| explain(measures, view, &writer, journal, loss);
    Some(Match::new(by, Proof::Inferred, explain).on(Object::Journal(Some(view.disk.dev))))
}

/// What others than the writer wait for commits that wait for the disk, seconds. Of a command, what its path does.
fn through_journal(
    measures: &Measures<'_>,
    end: &End,
    view: &DiskView<'_>,
    writer: &Neighbour<'_>,
) -> f64 {
    if measures.is_command() {
        return end.via.get(&WaitClass::Journal).copied().unwrap_or(0.0);
    }
    let (model, journal) = (measures.model, Object::Journal(Some(view.disk.dev)));
    let others = measures.waits().filter(|wait| {
        let pid = wait.thread.pid;
        wait.class == WaitClass::Journal
            && wait.object == journal
            && !writer.is_one(pid)
            && end.victims.contains_key(&pid)
    });
    let ns: Ns = others.map(|wait| wait.within_ns(model.look.begin_ns, model.look.end_ns)).sum();
    // A commit also waits for other things than the disk.
    (ns as f64 / 1e9).min(end.via.get(&WaitClass::Journal).copied().unwrap_or(0.0))
}

fn explain(
    measures: &Measures<'_>,
    view: &DiskView<'_>,
    writer: &Neighbour<'_>,
    journal: f64,
    loss: &Loss<'_>,
) -> Wording {
    let name = &view.disk.name;
    let victim = victim_beside(measures, loss, writer);
    let who_writes = writer.name(measures.model);
    Wording {
        title: format!("{victim} waits for journal commits that carry the data of {who_writes}"),
        text: format!(
            "{} pass in waits for the journal of {name}: each commit also writes out what {who_writes} wrote, most of \
             the {}/s that {name} does.",
            words::of_window(journal, loss.wall_seconds),
            words::bytes(view.queue.bytes_per_second),
        ),
        evidence: wording::evidence(view),
        // The kernel writes its pages for it, so its own I/O priority counts for nothing.
        remedy: vec![match &writer.acted_on(measures.model)[..] {
            [] => Remedy::to("give the writer its own file system"),
            whom => Remedy::to(
                "pause the writer until the others are done; better, give it its own file system",
            )
            .signal("STOP", Some("CONT"), whom),
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::disk::scenes::*;

    const BUSY: Rate = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };
    const ALWAYS: &[(Ns, Ns)] = &[(0, 4_900)];

    fn facts(app_writes: u64, app: Vec<Fact>) -> Vec<Fact> {
        let mut facts = disk(named("sda"), BUSY);
        facts.extend(waiter(20, "copy", ALWAYS));
        facts.extend(app);
        facts.extend([used(10, "app", app_writes, 1), used(20, "copy", 240, 1)]);
        facts
    }

    #[test]
    fn a_commit_that_carries_the_data_of_another_is_his() {
        let report = crate::answer::explain(facts(10, committer(10, "app", ALWAYS)));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, &*finding.object.kind), ("disk.journal", "journal"));
        assert_eq!(finding.culprit.pid, Some(20));
        assert!(finding.title.starts_with("app waits"), "{}", finding.title);
    }

    #[test]
    fn who_writes_most_himself_is_no_victim() {
        let codes = codes(facts(900, committer(10, "app", ALWAYS)));
        assert!(!codes.contains(&"disk.journal".to_string()), "{codes:?}");
    }

    #[test]
    fn others_who_do_not_wait_for_a_commit_queue_for_the_disk() {
        assert_eq!(codes(facts(10, waiter(10, "app", ALWAYS))), ["disk.saturated"]);
    }

    #[test]
    fn a_commit_is_a_detail_where_others_wait_for_the_disk_itself() {
        let with_reader = |until_ms| {
            let mut facts = facts(10, committer(10, "app", &[(0, 900)]));
            facts.extend(waiter(30, "db", &[(0, until_ms)]));
            facts.push(used(30, "db", 10, 1));
            codes(facts).contains(&"disk.journal".to_string())
        };
        assert!(!with_reader(4_900), "0.9 s of 5.8 s");
        assert!(with_reader(900), "who writes most is none of them");
    }
}
