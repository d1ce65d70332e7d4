//! disk.saturated: a neighbour asks for most of what the disk does, and others queue behind it.
//!
//! Use is not a fault: a process that alone keeps a disk busy is not reported. It takes a victim that is not the main
//! user, and a user that does most of the work.

//! The neighbour's own waiting is no loss to be reported, and is claimed with the others': it is the price of what he asks.

use super::neighbour::{self, Neighbour, neighbour, victim_beside};
use super::{waited, wording};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::{DiskView, SLOW_BELOW};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

static BUSY: Threshold = Threshold::new(
    0.5,
    "1",
    "a disk that idles more than this has room for others",
    "chosen: below it a request meets another one less than every second time",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.saturated",
    title: "A neighbour uses the disk up",
    theory: "A device serves a limited amount of work at a time. When one process asks for most of it, the requests \
             of the others stand behind its own, in the scheduler or inside the device, although they ask for little.",
    needs: &[
        "threads wait for the disk that do not use it most",
        "one other process, or the processes of one job, ask for at least 60 % of the work (bytes, and requests as 64 KiB each), themselves or \
         by what the kernel writes back for them",
        "the disk has work in flight at least half of the time",
    ],
    refuted_by: &[
        Refutation::new(
            "the victims are the main users themselves",
            "who_keeps_a_disk_busy_alone_is_no_victim",
        ),
        Refutation::new("the disk has little to do", "a_disk_that_idles_is_not_used_up"),
        Refutation::new(
            "the main user works for those who wait",
            "a_server_that_reads_for_its_clients_is_no_neighbour",
        ),
    ],
    remedies: &[
        "give the neighbour a lower I/O priority or weight",
        "limit it with a cgroup",
        "move it to another disk",
    ],
    stories: &["S3.7", "S1.1"],
    thresholds: &[
        &BUSY,
        &neighbour::SHARE,
        &neighbour::SUFFERS,
        &neighbour::WRITTEN_BACK,
        &SLOW_BELOW,
    ],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let view = waited::slow_layer(measures, end)?;
    let by = neighbour(measures, end, view)?;
    if view.queue.busy < BUSY.value {
        return None;
    }
    let culprit = culprit(measures.model, by.who);
    let others = waited::part_of(measures, end, |pid| !by.is_one(pid));
    let explain = move |loss: &Loss<'_>| explain(measures, view, &by, loss);
    let matched = Match::new(culprit, Proof::Inferred, explain);
    let matched = waited::of_layer(measures, end, view, matched);
    Some(match others {
        Some(others) => waited::of_part(matched, others),
        None => matched,
    })
}

fn explain(
    measures: &Measures<'_>,
    view: &DiskView<'_>,
    by: &Neighbour<'_>,
    loss: &Loss<'_>,
) -> Wording {
    let (name, queue) = (&view.disk.name, &view.queue);
    let (who, share) = (by.name(measures.model), by.share);
    let asks = if by.is_several() { "ask" } else { "asks" };
    let (by_cache, source) = match (by.is_written_back, by.is_several()) {
        (true, false) => (
            " It writes to the page cache, and the kernel's workers write that to the disk for it.",
            "block_bio_queue, writeback_dirty_folio",
        ),
        (true, true) => (
            " They write to the page cache, and the kernel's workers write that to the disk for them.",
            "block_bio_queue, writeback_dirty_folio",
        ),
        (false, _) => ("", "block_bio_queue"),
    };
    let mut evidence = wording::evidence(view);
    evidence.push(Evidence::new(
        format!("share of the work asked for by {who}"),
        share * 100.0,
        "%",
        source,
    ));
    Wording {
        title: format!("{} queues behind {who} on disk {name}", victim_beside(measures, loss, by)),
        text: format!(
            "{who} {asks} for {} of what disk {name} does ({} requests/s, {}/s, {:.1} in flight, {} busy); the others \
             wait {} for it, {} a request.{by_cache}",
            words::percent(share),
            words::rate(queue.per_second),
            words::bytes(queue.bytes_per_second),
            queue.in_flight,
            words::percent(queue.busy),
            words::of_window(loss.seconds, loss.wall_seconds),
            words::seconds(view.inside_seconds()),
        ),
        evidence,
        remedy: vec![wording::come_last(
            measures.model,
            view.disk,
            by,
            match by.is_several() {
                true => "let them use the disk only when nobody else does",
                false => "let it use the disk only when nobody else does",
            },
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::disk::scenes::*;
    use crate::rules::remedy::Remedy;
    use crate::rules::scenes::*;

    const FULL: Rate = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };

    fn facts(rate: Rate) -> Vec<Fact> {
        let mut facts = disk(named("sda"), rate);
        facts.extend(waiter(20, "copy", &[(0, 5_000)]));
        facts.push(used(20, "copy", 240, 1));
        facts
    }

    fn beside(rate: Rate) -> Vec<Fact> {
        let mut facts = facts(rate);
        facts.extend(waiter(10, "app", &[(0, 4_900)]));
        facts.push(used(10, "app", 10, 1));
        facts
    }

    #[test]
    fn who_asks_for_most_is_reported_with_those_beside_him() {
        let report = explain(beside(FULL));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("disk.saturated", Some(20)));
        let victims: Vec<u32> = finding.victims.iter().map(|victim| victim.pid).collect();
        assert_eq!(victims, [10], "his own waiting is the price of what he asks");
        assert_eq!(finding.chain[0].who.pid, Some(10));
        assert!((finding.impact.wait_seconds_per_second - 0.98).abs() < 0.01);
        assert_eq!(report.findings.len(), 1);
    }

    /// How the neighbour comes last on a disk with this scheduler, who has this class; and back.
    fn way(
        scheduler: &str,
        has_deadline_priorities: Option<bool>,
        class: Option<u32>,
    ) -> [String; 2] {
        let way = remedy(scheduler, has_deadline_priorities, class);
        [way.command, way.undo]
    }

    fn remedy(
        scheduler: &str,
        has_deadline_priorities: Option<bool>,
        class: Option<u32>,
    ) -> Remedy {
        let mut facts = beside(FULL);
        let thread = thread(20, "copy");
        facts.push(identity(Thread { thread, io_priority: class, ..Thread::default() }));
        for fact in &mut facts {
            if let Body::Disk(disk) = &mut fact.body {
                disk.scheduler = scheduler.into();
                disk.has_deadline_priorities = has_deadline_priorities;
            }
        }
        explain(facts).findings.remove(0).remedy.remove(0)
    }

    #[test]
    fn a_class_is_given_where_it_counts_and_the_one_that_was_read_comes_back() {
        let by = |class: &str| format!("ionice -c {class} -p $(ls /proc/20/task)");
        assert_eq!(way("bfq", None, Some(4)), [by("3"), by("0")], "none, as the kernel says it");
        assert_eq!(way("mq-deadline", Some(true), Some(2 << 13 | 7)), [by("3"), by("2 -n 7")]);
        assert_eq!(way("bfq", None, None), [by("3"), String::new()], "it was not read");
    }

    #[test]
    fn where_a_class_counts_for_nothing_the_neighbour_is_paused() {
        let pause = ["kill -STOP 20".to_string(), "kill -CONT 20".to_string()];
        assert_eq!(way("mq-deadline", Some(false), Some(0)), pause, "before 5.14");
        assert_eq!(way("mq-deadline", None, Some(0)), pause, "an older recording");
        assert_eq!(way("kyber", None, Some(0)), pause);
        assert_eq!(way("none", None, Some(0)), pause);
        assert_eq!(way("bfq", None, Some(3 << 13)), pause, "it has it already");
    }

    #[test]
    fn that_a_scheduler_has_no_priorities_is_said_only_where_it_is_known() {
        let says = |known| remedy("mq-deadline", known, Some(0)).text;
        let why = "(it is not known whether the scheduler of sda, mq-deadline, has priorities)";
        assert!(says(None).ends_with(why), "{}", says(None));
        let why = "(the scheduler of sda, mq-deadline, has no priorities)";
        assert!(says(Some(false)).ends_with(why), "{}", says(Some(false)));
    }

    /// A worker writes most of what the disk does, and a process makes so much dirty meanwhile.
    fn written_back(dirtied: u64) -> Vec<Fact> {
        let mut facts = disk(named("sda"), FULL);
        facts.extend(waiter(10, "app", &[(0, 4_900)]));
        facts.extend([used(10, "app", 10, 1), used(7, "kworker/u8:2", 240, 1)]);
        let (process, bytes) = (thread(20, "copy"), dirtied * 4096);
        facts.push(fact(Body::Dirtied(Dirtied { dev: DEV, process, bytes })));
        facts
    }

    #[test]
    fn who_fills_the_page_cache_is_the_neighbour_and_not_the_worker_that_writes_it_back() {
        let finding = explain(written_back(600)).findings.remove(0);
        assert_eq!((&*finding.code, finding.culprit.pid), ("disk.saturated", Some(20)));
        assert!(finding.text.contains("the kernel's workers write that"), "{}", finding.text);
        assert_eq!(finding.remedy[0].command, "kill -STOP 20");
        assert!(finding.remedy[0].text.contains("counts for nothing"));
        let little = codes(written_back(100));
        assert!(!little.contains(&"disk.saturated".to_string()), "most is from before: {little:?}");
    }

    /// Three that ask for a third each while somebody else reads a little, in these process groups.
    fn three(groups: [u32; 3]) -> Vec<Fact> {
        let mut facts = disk(named("sda"), FULL);
        facts.extend(waiter(10, "app", &[(0, 4_900)]));
        facts.push(used(10, "app", 10, 1));
        for (pid, process_group) in (20..).zip(groups) {
            facts.extend(waiter(pid, "fio", &[(0, 5_000)]));
            facts.push(used(pid, "fio", 80 - u64::from(pid), 1));
            let thread = thread(pid, "fio");
            facts.push(identity(Thread { thread, process_group, ..Thread::default() }));
        }
        facts
    }

    #[test]
    fn the_processes_of_one_job_are_one_neighbour() {
        let report = explain(three([20; 3]));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("disk.saturated", Some(20)));
        assert_eq!(finding.title, "app queues behind 3 x fio on disk sda");
        assert!(finding.text.starts_with("3 x fio ask for "), "{}", finding.text);
        let victims: Vec<u32> = finding.victims.iter().map(|victim| victim.pid).collect();
        assert_eq!(victims, [10], "what the three wait for is the price of what they ask");
        assert_eq!(finding.remedy[0].command, "kill -STOP 20 21 22");
        let apart = codes(three([20, 21, 22]));
        assert!(!apart.contains(&"disk.saturated".to_string()), "no job: {apart:?}");
    }

    #[test]
    fn the_children_of_one_process_that_have_one_name_are_one_neighbour() {
        let with_parents = |parents: [u32; 3]| {
            let mut facts = three([20, 21, 22]);
            for (pid, parent_pid) in (20..).zip(parents) {
                for fact in &mut facts {
                    if let Body::Thread(known) = &mut fact.body
                        && known.thread.pid == pid
                    {
                        known.parent_pid = parent_pid;
                    }
                }
            }
            // Whoever began them waits for them, and is no victim.
            let place =
                Place { args: [20, 0, 0, 0, 0, 0], syscall: "wait4".into(), ..Place::default() };
            facts.push(at_place(15, "fio", Place { state: WaitState::Sleep, ..place }));
            let findings = explain(facts).findings;
            findings.iter().any(|it| it.title == "app queues behind 3 x fio on disk sda")
        };
        assert!(with_parents([15; 3]), "each leads a session of its own");
        assert!(!with_parents([15, 16, 17]));
        assert!(!with_parents([1; 3]), "services");
    }

    #[test]
    fn who_begins_one_after_the_other_is_the_neighbour_and_not_one_that_is_gone() {
        let mut facts = three([20, 21, 22]);
        facts.extend(waiter(30, "sh", &[]));
        for (at_ns, pid) in [(1, 20), (2, 21), (3, 22)] {
            let (parent, child) = (thread(30, "sh"), thread(pid, "fio"));
            let fork = Body::Fork(Fork { parent, child: child.clone(), flags: 0 });
            facts.push(Fact { at_ns: at_ns * MS, body: fork });
            let exit = Exit { thread: child, last: true, code: Some(0) };
            facts.push(Fact { at_ns: at_ns * 1_000 * MS, body: Body::Exit(exit) });
        }
        let in_session = |pid, comm: &str, session| {
            identity(Thread { thread: thread(pid, comm), session, ..Thread::default() })
        };
        let elsewhere = [in_session(30, "sh", 30), in_session(20, "fio", 20)];
        let apart = codes([facts.clone(), elsewhere.to_vec()].concat());
        assert!(!apart.contains(&"disk.saturated".to_string()), "it begins sessions: {apart:?}");
        let finding = explain(facts).findings.remove(0);
        assert_eq!((&*finding.code, finding.culprit.pid), ("disk.saturated", Some(30)));
        assert_eq!(finding.title, "app queues behind 3 x fio of sh 30 on disk sda");
        assert_eq!(finding.remedy[0].command, "kill -STOP 30");
    }

    #[test]
    fn who_keeps_a_disk_busy_alone_is_no_victim() {
        assert!(!codes(facts(FULL)).contains(&"disk.saturated".to_string()));
    }

    #[test]
    fn a_disk_that_idles_is_not_used_up() {
        let says = |rate| codes(beside(rate)).contains(&"disk.saturated".to_string());
        assert!(!says(Rate { per_second: 50, ms: 1, in_flight: 0, busy: 5 }));
        let busy = |busy| says(Rate { busy, ..FULL });
        assert_eq!((busy(50), busy(49)), (true, false), "it takes half of the time");
    }

    #[test]
    fn a_server_that_reads_for_its_clients_is_no_neighbour() {
        let mut facts = facts(FULL);
        facts.extend(client_and_server(at_place(20, "copy", reads_from(DEV))));
        assert!(!codes(facts).contains(&"disk.saturated".to_string()));
    }
}
