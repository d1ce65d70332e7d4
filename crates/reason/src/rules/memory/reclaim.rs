//! memory.reclaim: a process that needs little memory has to make room for what a neighbour takes.
//!
//! Whoever asks for a page where none is free makes room first, in its own time: the kernel does not ask who filled the memory.
//! That the victim stood in reclaim is one fact; that another process takes up most of what both share, and more of it in the
//! look, is the other. Must not: claim reading again (memory.thrash), or name a neighbour that fills as much as others do.
//! Rejected: allocation stalls of the host alone (they say that somebody waited, and neither who nor for whom).

use super::costs::{self, Cost, LOST_PART_MIN, LOST_PER_SECOND_MIN};
use super::fillers::{self, ALONE_MIN, BROUGHT_MIN, FILLS_MIN, Filler, SMALL_MAX};
use super::neighbour_limit;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::memory_losses::Spent;
use crate::model::object::{CgroupKey, Object};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, Step, culprit};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.reclaim",
    title: "A program has to make room for what a neighbour takes of the memory that both share",
    theory: "Where no page is free, whoever asks for one must free some first (direct reclaim): of the group whose limit is met, \
             or of the host. It is the turn of whoever asks, be it one page, and not of the one that filled the memory. If \
             what fills it cannot be dropped at once, as what is written and not on the disk yet, it waits until some of it can.",
    needs: &[
        "the victim stood in direct reclaim for a noticeable part of its time",
        "one other process takes up most of what both share (resident, or brought into the page cache in the look; or what is in \
         a group of its own)",
        "the victim takes up little of it",
    ],
    refuted_by: &[
        Refutation::new(
            "who makes room takes up much itself: its group's limit is too small, or the host's memory",
            "who_fills_memory_itself_makes_room_for_itself",
        ),
        Refutation::new(
            "several fill it together: none of them is the neighbour",
            "where_two_fill_it_none_is_named",
        ),
        Refutation::new(
            "making room costs next to nothing",
            "room_that_is_made_at_once_is_no_loss",
        ),
    ],
    remedies: &[
        "give the neighbour a memory limit of its own, below what both share",
        "have it write less at a time (sync_file_range, fdatasync, O_DIRECT), or to a quicker disk",
        "reserve what the victim needs (memory.min)",
    ],
    stories: &["S0.3"],
    thresholds: &[
        &FILLS_MIN,
        &BROUGHT_MIN,
        &ALONE_MIN,
        &SMALL_MAX,
        &LOST_PER_SECOND_MIN,
        &LOST_PART_MIN,
    ],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let all = fillers::fillers(measures).into_iter();
    all.filter_map(|filler| matched(measures, ends, filler)).collect()
}

fn object(filler: &Filler<'_>) -> Object {
    Object::Memory(filler.shared.map(|one| CgroupKey::of(one.group)))
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    mut filler: Filler<'m>,
) -> Option<Match<'m>> {
    filler.victims.retain(|pid| measures.concerns(&measures.model.threads.thread_ref(*pid)));
    let mut spent = measures.spent_by(&filler.victims);
    spent.retain(|_, loss| loss.waited_in_reclaim + loss.reclaimed > 0.0);
    let cost = Cost::of(measures, &spent, false);
    if !cost.matters(measures) {
        return None;
    }
    let losses: Losses = (spent.iter())
        .map(|(pid, loss)| (*pid, (loss.process.clone(), loss.seconds(false))))
        .collect();
    let most = losses.values().max_by(|a, b| a.1.total_cmp(&b.1));
    let chain = most.map(|(process, seconds)| Step {
        who: process.clone(),
        on: object(&filler),
        doing: None,
        seconds: *seconds,
        when: None,
        because: None,
    });
    Some(Match {
        object: Some(object(&filler)),
        claims: costs::claims(measures, ends, false, |who| filler.victims.contains(&who.pid)),
        path_seconds: cost.path_seconds,
        demand_seconds: Some(cost.demand_seconds),
        chain: Some(chain.into_iter().collect()),
        losses: Some(losses),
        ..Match::new(culprit(measures.model, &filler.by), Proof::TwoWitnesses, move |loss| {
            explain(measures, &filler, &spent, loss)
        })
    })
}

fn explain(
    measures: &Measures<'_>,
    filler: &Filler<'_>,
    spent: &Spent,
    loss: &Loss<'_>,
) -> Wording {
    let by = measures.model.who(&filler.by);
    let room = words::bytes(filler.room_bytes as f64);
    let shared = match filler.shared {
        Some(one) => {
            format!(
                "the {room} that {} may have",
                measures.model.containers.group_in_words(&one.group.path)
            )
        }
        None => format!("the {room} of the host"),
    };
    Wording {
        title: format!("{} waits for memory: {by} fills what both share", loss.victim),
        text: format!(
            "{} of its time ({}) goes into making room. Of {shared} {by} takes up {}, {} of it since the look began. What \
             cannot be dropped before it is written has to be waited for by whoever asks for a page.",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, loss.wall_seconds),
            words::bytes(filler.bytes.min(filler.room_bytes) as f64),
            words::bytes(filler.brought_bytes as f64),
        ),
        evidence: evidence(filler, spent),
        remedy: vec![remedy(measures, filler)],
    }
}

fn evidence(filler: &Filler<'_>, spent: &Spent) -> Vec<Evidence> {
    let bytes =
        |fact: &str, bytes: u64, source: &str| Evidence::new(fact, bytes as f64, "bytes", source);
    let limit = filler.shared.map_or("/proc/meminfo".into(), |one| one.setting());
    let reclaimed: f64 = spent.values().map(|loss| loss.reclaimed).sum();
    let waited: f64 = spent.values().map(|loss| loss.waited_in_reclaim).sum();
    let mut all = vec![
        Evidence::new(
            "in direct reclaim",
            reclaimed,
            "s",
            "mm_vmscan_direct_reclaim, _memcg_reclaim",
        ),
        Evidence::new("of it waiting", waited, "s", "sched_switch"),
        bytes(
            "taken up by the neighbour",
            filler.bytes,
            "resident set and mm_filemap_add_to_page_cache, or memory in use of its own group",
        ),
        bytes(
            "of it brought in within the look",
            filler.brought_bytes,
            "mm_filemap_add_to_page_cache",
        ),
        bytes("memory that both share", filler.room_bytes, &limit),
    ];
    if let Some(one) = filler.shared {
        all.push(Evidence::new(
            "times the limit was met",
            one.hits as f64,
            "1",
            "memory controller",
        ));
    }
    all
}

/// A limit for the neighbour's group, if no victim is in it too: half of what both have, or what it needs if that is more.
fn remedy(measures: &Measures<'_>, filler: &Filler<'_>) -> Remedy {
    let model = measures.model;
    let is_in = |pid: &u32, group| {
        let who = model.threads.thread_ref(*pid);
        crate::measure::memory_members::is_member(model, &measures.ancestry, &who, group)
    };
    let own = model.cgroup_of(&filler.by, "memory").filter(|group| group.path != "/");
    if own.is_none_or(|group| filler.victims.iter().any(|pid| is_in(pid, group))) {
        return Remedy::to(
            "run it in a group of its own with a memory limit, or have it write less at a time",
        );
    }
    let text = "give the neighbour a memory limit of its own";
    let half = filler.room_bytes / 2;
    let most = neighbour_limit::most_of(filler.room_bytes);
    neighbour_limit::of(measures, &filler.by, (half, most), text).unwrap_or_else(|| {
        Remedy::to(
            "give both more room, or run the neighbour elsewhere: no limit is known that leaves it what it cannot drop, and the others more",
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MIB: u64 = 1 << 20;
    const LIMIT: u64 = 128 * MIB;

    /// Process 10 makes room for so many seconds; 20 writes. Each in a group of its own below one that is at its limit.
    pub(crate) struct Look {
        reclaim_seconds: f64,
        own_mib: u64,
        written_mib: [u64; 2],
        of_group: bool,
        /// What the group of the one who writes has at the end.
        group_mib: u64,
        /// Of it, what cannot be dropped; none if it was not read.
        kept_mib: Option<u64>,
    }

    pub(crate) fn filled() -> Look {
        Look {
            reclaim_seconds: 3.0,
            own_mib: 4,
            written_mib: [100, 0],
            of_group: true,
            group_mib: 101,
            kept_mib: None,
        }
    }

    fn facts(look: &Look) -> Vec<Fact> {
        let mut facts = host();
        let paths = ["/both", "/both/app", "/both/copy"];
        for (at, path) in paths.into_iter().enumerate() {
            facts.push(fact(Body::Cgroup(Cgroup {
                path: path.into(),
                directory: format!("/sys/fs/cgroup{path}"),
                memory_limit_bytes: (at == 0 && look.of_group).then_some(LIMIT),
                ..Cgroup::default()
            })));
            for (at_ns, hits) in [(0, 0), (LOOK_NS, 4000)] {
                let sample = CgroupSample {
                    path: path.into(),
                    memory_limit_hits: (at == 0).then_some(hits),
                    memory_bytes: (at == 2).then_some(look.group_mib * MIB),
                    memory_anon_bytes: look.kept_mib.map(|mib| mib * MIB),
                    ..CgroupSample::default()
                };
                facts.push(Fact { at_ns, body: Body::CgroupSample(sample) });
            }
        }
        let of = |pid, comm, path: &str, rss_bytes| {
            let cgroups = vec![Membership { controllers: Vec::new(), path: path.into() }];
            let thread = thread(pid, comm);
            identity(Thread { thread, cgroups, rss_bytes, ..Thread::default() })
        };
        facts.push(of(10, "app", "/both/app", look.own_mib * MIB));
        for (pid, mib) in [20, 21].into_iter().zip(look.written_mib) {
            facts.push(of(pid, "copy", "/both/copy", MIB));
            if mib == 0 {
                continue;
            }
            let fill = CacheFill {
                process: thread(pid, "copy"),
                bytes: mib * MIB,
                ..CacheFill::default()
            };
            facts.push(fact(Body::CacheFill(fill)));
        }
        let place = Place { state: WaitState::DiskSleep, stack: 1, ..Place::default() };
        let end_ns = (look.reclaim_seconds * 1e9) as u64;
        let context = WakeContext::HardInterrupt;
        let wake = Some(Wake { at_ns: end_ns, context, ..Wake::default() });
        let thread = thread(10, "app");
        let wait = Wait { thread, begin_ns: 0, end_ns, place, wake, ..Wait::default() };
        let frames = ["reclaim_throttle", "shrink_node", "do_try_to_free_pages"];
        let stack = Stack { id: 1, frames: frames.map(String::from).to_vec() };
        let reclaim = Reclaim {
            thread: wait.thread.clone(),
            memcg: look.of_group,
            count: 100,
            total_ns: wait.end_ns,
            pages: 3_200,
            cgroup_id: 0,
        };
        let sample = MemorySample { total_bytes: LIMIT, ..MemorySample::default() };
        let bodies = [
            Body::Stack(stack),
            Body::Wait(wait),
            Body::Reclaim(reclaim),
            Body::MemorySample(sample),
        ];
        facts.extend(bodies.map(|body| Fact { at_ns: LOOK_NS, body }));
        facts
    }

    pub(crate) fn found(look: &Look, code: &str) -> Option<Finding> {
        explain(facts(look)).findings.into_iter().find(|finding| finding.code == code)
    }

    #[test]
    fn who_fills_what_both_share_is_named_with_a_limit_for_it() {
        let finding = found(&filled(), "memory.reclaim").expect("found");
        assert_eq!((finding.culprit.pid, finding.victims[0].pid), (Some(20), 10));
        assert_eq!(finding.object.name, "/both");
        let file = "/sys/fs/cgroup/both/copy/memory.high";
        assert_eq!(finding.remedy[0].command, format!("echo {} > {file}", LIMIT / 2));
        assert_eq!(finding.remedy[0].undo, format!("echo max > {file}"));
    }

    #[test]
    fn the_neighbour_is_left_what_it_cannot_drop() {
        let command = |kept_mib| {
            let look = Look { kept_mib: Some(kept_mib), ..filled() };
            found(&look, "memory.reclaim").expect("found").remedy[0].command.clone()
        };
        let file = "/sys/fs/cgroup/both/copy/memory.high";
        assert_eq!(command(50), format!("echo {} > {file}", 82 * MIB));
        assert_eq!(command(90), "", "no limit below what it has leaves it that");
        assert_eq!(command(66), "", "the others would have no more than now");
    }

    #[test]
    fn of_the_hosts_memory_it_is_the_same() {
        let finding =
            found(&Look { of_group: false, ..filled() }, "memory.reclaim").expect("found");
        assert_eq!((finding.culprit.pid, finding.victims[0].pid), (Some(20), 10));
        assert!(finding.text.contains("of the host"), "{}", finding.text);
    }

    #[test]
    fn who_fills_memory_itself_makes_room_for_itself() {
        let look = Look { own_mib: 60, ..filled() };
        assert_eq!(found(&look, "memory.reclaim"), None);
        assert!(found(&look, "memory.limit").is_some(), "the limit is too small for it");
    }

    #[test]
    fn who_filled_it_before_the_look_is_known_by_its_group() {
        let slow = |group_mib| Look { written_mib: [40, 0], group_mib, ..filled() };
        let finding = found(&slow(110), "memory.reclaim").expect("found");
        assert_eq!((finding.culprit.pid, finding.victims[0].pid), (Some(20), 10));
        assert!(finding.text.contains("takes up 110 MiB, 40 MiB of it"), "{}", finding.text);
        assert_eq!(found(&slow(50), "memory.reclaim"), None, "the group has little");
        let both = Look { written_mib: [40, 20], ..slow(110) };
        assert_eq!(found(&both, "memory.reclaim"), None, "whose it is is not known");
    }

    #[test]
    fn where_two_fill_it_none_is_named() {
        assert_eq!(found(&Look { written_mib: [80, 80], ..filled() }, "memory.reclaim"), None);
        assert_eq!(found(&Look { written_mib: [40, 40], ..filled() }, "memory.reclaim"), None);
    }

    #[test]
    fn room_that_is_made_at_once_is_no_loss() {
        assert_eq!(found(&Look { reclaim_seconds: 0.1, ..filled() }, "memory.reclaim"), None);
    }
}
