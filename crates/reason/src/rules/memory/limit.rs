//! memory.limit: a group pays for its memory limit with reclaim, with reading again, or with killed processes.
//!
//! That the limit is met is one fact; what it costs (measure/memory_losses.rs) is the other: refaults beside disk reads, time
//! in reclaim, or a kill. A disk that is busy with refaults is an effect, so the waits for it are claimed here, before the
//! disk rules are asked. Rejected: usage near the limit (page cache fills every group that reads, and that is healthy).

use super::costs::{self, Cost, LOST_PART_MIN, LOST_PER_SECOND_MIN};
use super::{fillers, kill_words, streams};
use crate::facts::{Cgroup, TargetKind, ThreadRef};
use crate::graph::end::End;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::measure::memory_limits::Limited;
use crate::measure::memory_losses::{self, Spent};
use crate::measure::memory_members::is_member;
use crate::measure::oom_kills::Killed;
use crate::model::Model;
use crate::model::membership::is_below;
use crate::model::object::{CgroupKey, Object};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::group_limits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.limit",
    title: "A cgroup's memory limit is too small for what it does",
    theory: "Whatever a cgroup allocates beyond its limit must first be freed inside the group. File pages are dropped \
             and read from disk again when they are next needed, anonymous pages go to swap, both while the thread \
             that allocates waits; from a quick disk it hardly waits, and the price is its CPU time. When nothing can be freed, the kernel kills a process of the group (exit status \
             137). The host may have memory to spare all the while.",
    needs: &[
        "the group met its limit in the window (memory.failcnt, memory.events.local), or stands at it with its OOM killer off",
        "it reads back what it dropped (refaults), waits in reclaim or gets too little there, or had a process killed",
        "that costs its processes a noticeable part of their time, waiting and CPU together",
    ],
    refuted_by: &[
        Refutation::new(
            "the limit is met, but by page cache that nobody reads again: a stream fills any group",
            "page_cache_that_fills_a_group_is_healthy",
        ),
        Refutation::new(
            "one member's stream displaces what another reads: it would fill any limit",
            "what_a_stream_displaces_is_not_the_limits",
        ),
        Refutation::new(
            "who makes room takes up little, and a neighbour most of what both may: any limit would be filled",
            "who_makes_room_for_a_neighbour_is_not_held_up_by_the_limit",
        ),
        Refutation::new(
            "the group's limit is not met: it waits or is killed for want of the host's memory",
            "the_hosts_own_want_of_memory_refutes_it",
        ),
    ],
    remedies: &["raise the limit", "make the program need less: fewer workers, smaller caches"],
    stories: &["S0.3"],
    thresholds: &[
        &REFAULT_PART_MIN,
        &REFAULT_BYTES_MIN,
        &REFAULT_PER_HIT_MIN,
        &LOST_PER_SECOND_MIN,
        &LOST_PART_MIN,
        &PLENTY_MIN,
        &WORTH_RAISING,
    ],
    finds: Finds::Look(find),
};

static REFAULT_PART_MIN: Threshold = Threshold::new(
    0.3,
    "1",
    "share of what is read that is read again before the limit is to blame for the reading",
    "chosen; lab, seeds 1, 4402 and 54: 1.00 in each group that thrashes",
);
static REFAULT_BYTES_MIN: Threshold = Threshold::new(
    1_048_576.0,
    "bytes",
    "less that is read again is what any eviction gets wrong now and then",
    "chosen; lab, seed 4403: 180 KiB where the loss were kills",
);
static REFAULT_PER_HIT_MIN: Threshold = Threshold::new(
    1024.0,
    "bytes",
    "read again for each time that the limit was met; each frees 32 pages or more, so less is a stream that passes through",
    "lab, seeds 45307 and 49112: 6.4 KiB and more where a group thrashes, 93 bytes where one streams",
);
static PLENTY_MIN: Threshold = Threshold::new(
    8.0,
    "1",
    "a host with so many times the limit to spare can give four times as much, else twice",
    "chosen: the group then still takes no more than half of what is left",
);

static WORTH_RAISING: Threshold = Threshold::new(
    1.1,
    "1",
    "times the limit that half of what the host has left comes to, at least, for a higher limit to be a way out",
    "chosen: with less the group meets it again at once, and the host has nothing for the others",
);

/// Whether a group reads back what it has just dropped, beyond what a stream of one member has others read again: it would
/// with any limit.
fn reads_back(measures: &Measures<'_>, one: &Limited<'_>) -> bool {
    let streams = streams::streams(measures);
    let of_streams = streams.iter().map(|it| it.displaced_in(measures, one.group));
    let refault_bytes = one.refault_bytes.saturating_sub(of_streams.sum()) as f64;
    refault_bytes >= REFAULT_BYTES_MIN.value
        && refault_bytes >= REFAULT_PER_HIT_MIN.value * one.hits as f64
        && refault_bytes >= REFAULT_PART_MIN.value * one.read_bytes as f64
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let limited = measures.memory.limited.iter().zip(measures.memory_losses());
    limited.filter_map(|(one, spent)| matched(measures, ends, one, spent)).collect()
}

/// A group that pays for its limit.
struct Paid<'m> {
    one: &'m Limited<'m>,
    reads_back: bool,
    /// What its processes spend, seconds.
    spent: Spent,
    /// Who was killed in the group, as far as it was seen.
    killed: Vec<&'m Killed<'m>>,
    /// Somebody who is looked at was.
    any_killed: bool,
    /// What the host has left by its last reading, bytes.
    spare_bytes: Option<u64>,
}

impl<'m> Paid<'m> {
    fn of(measures: &'m Measures<'m>, one: &'m Limited<'m>, spent: &Spent) -> Self {
        let model = measures.model;
        let reads_back = reads_back(measures, one);
        let mut spent = spent.clone();
        // Who makes room for a neighbour would have to with any limit.
        let filler = fillers::of_group(measures, one);
        let for_another = |pid: &u32| filler.as_ref().is_some_and(|it| it.victims.contains(pid));
        spent.retain(|pid, loss| loss.seconds(reads_back) > 0.0 && !for_another(pid));
        let mut killed: Vec<&Killed<'_>> = measures.memory.oom_kills.iter().collect();
        killed.retain(|kill| kill.is_at_limit_of(model, &measures.ancestry, one.group));
        let seen = killed.len();
        killed.retain(|kill| !kill.is_of_series);
        // The log keeps some of very many kills: one that nobody saw is one more of the series beside it.
        let of_series = match seen == 0 && is_beside_a_series(measures, one.group) {
            true => one.kills,
            false => (seen - killed.len()) as u64,
        };
        let looked_at = killed.iter().any(|kill| is_asked_about(measures, &kill.victim));
        let any_killed = one.kills > of_series
            && (is_whole(measures, one) || looked_at)
            && !is_hosts(measures, one);
        let spare_bytes = model.memory.samples.last().map(|(_, sample)| sample.available_bytes);
        Self { one, reads_back, spent, killed, any_killed, spare_bytes }
    }

    fn sum(&self, of: impl Fn(&memory_losses::Loss) -> f64) -> f64 {
        self.spent.values().map(of).sum()
    }

    /// Who loses how much: those that spend, and those that were killed.
    fn losses(&self) -> Losses {
        let lost = |loss: &memory_losses::Loss| loss.seconds(self.reads_back);
        let mut losses: Losses = (self.spent.iter())
            .map(|(pid, loss)| (*pid, (loss.process.clone(), lost(loss))))
            .collect();
        for kill in self.killed.iter().filter(|_| self.any_killed) {
            losses.entry(kill.victim.pid).or_insert_with(|| (kill.victim.clone(), 0.0));
        }
        losses
    }

    /// The groups at their limit that whoever was killed is in, or else whoever loses most: another one's limit (a sidecar that page cache fills)
    /// holds nobody who is spoken of.
    fn above_victims(&self, measures: &Measures<'m>) -> Vec<Limited<'m>> {
        let killed = self.killed.iter().filter(|_| self.any_killed).map(|kill| &kill.victim);
        let mut victims: Vec<&ThreadRef> = killed.collect();
        if victims.is_empty() {
            let lost = |loss: &&memory_losses::Loss| loss.seconds(self.reads_back);
            let most = self.spent.values().max_by(|a, b| lost(a).total_cmp(&lost(b)));
            victims.extend(most.map(|loss| &loss.process));
        }
        let holds = |it: &&Limited<'m>| {
            let mut all = victims.iter();
            all.any(|who| is_member(measures.model, &measures.ancestry, who, it.group))
        };
        measures.memory.limited.iter().filter(holds).cloned().collect()
    }
}

/// Who is looked at, or was begun by the process that is: it begins them anew, or loses its workers. No more than a child's
/// child: what the services of a service manager begin is theirs. Of who was there before the look init's children are
/// not meant, which takes in every orphan.
fn is_asked_about(measures: &Measures<'_>, victim: &ThreadRef) -> bool {
    let asked = measures.model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process);
    let parent = || measures.model.threads.identity(victim).map(|it| it.parent_pid);
    let began = |pid: u32| {
        let mut near = measures.ancestry.line(victim.pid).skip(1).take(2);
        // Whoever was there before the look has no fork in it.
        near.any(|above| above == pid) || (pid != 1 && parent() == Some(pid))
    };
    measures.concerns(victim) || asked.is_some_and(|target| began(target.pid))
}

/// Whether processes of one name were killed at the limits of several groups with the same parent as this one.
fn is_beside_a_series(measures: &Measures<'_>, group: &Cgroup) -> bool {
    fn parent(path: &str) -> Option<&str> {
        path.rsplit_once('/').map(|(parent, _)| parent)
    }
    let mut groups = measures.memory.oom_kills.iter().filter(|kill| kill.is_of_series);
    groups.any(|kill| kill.group().is_some_and(|path| parent(path) == parent(&group.path)))
}

/// The group never met its limit, and the host itself had to make room: whoever was killed was killed for that.
fn is_hosts(measures: &Measures<'_>, one: &Limited<'_>) -> bool {
    let memory = &measures.model.memory.samples;
    let stalls = memory
        .first()
        .zip(memory.last())
        .is_some_and(|((_, first), (_, last))| last.allocation_stalls > first.allocation_stalls);
    one.hits == 0 && stalls
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    one: &'m Limited<'m>,
    spent: &Spent,
) -> Option<Match<'m>> {
    let model = measures.model;
    let paid = Paid::of(measures, one, spent);
    let cost = Cost::of(measures, &paid.spent, paid.reads_back);
    if !cost.matters(measures) && !paid.any_killed {
        return None;
    }
    let object = Object::Memory(Some(CgroupKey::of(one.group)));
    let losses = paid.losses();
    let most = losses.values().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, lost)| *lost > 0.0);
    // Whom a chain leads to is known best by that chain.
    let is_led_to = most.is_some_and(|(process, _)| !model.in_target(process));
    let chain = most.map(|(process, seconds)| Step {
        who: process.clone(),
        on: object.clone(),
        doing: None,
        seconds: *seconds,
        when: None,
        because: None,
    });
    let culprit = Culprit {
        container: Some(one.group.path.clone()),
        ..Culprit::setting(one.group.path.clone(), one.setting())
    };
    Some(Match {
        object: Some(object),
        claims: costs::claims(measures, ends, paid.reads_back, |who| {
            is_member(model, &measures.ancestry, who, one.group)
        }),
        path_seconds: cost.path_seconds,
        demand_seconds: Some(cost.demand_seconds),
        severity_min: if paid.any_killed { Severity::Critical } else { Severity::Note },
        chain: (!is_led_to).then(|| chain.into_iter().collect()),
        losses: Some(losses),
        ..Match::new(
            culprit,
            if paid.any_killed { Proof::Read } else { Proof::TwoWitnesses },
            move |loss| explain(measures, &paid, loss),
        )
    })
}

/// The whole host, or the container of this very group, is looked at.
fn is_whole(measures: &Measures<'_>, one: &Limited<'_>) -> bool {
    measures.model.look.target.as_ref().is_none_or(|target| match target.kind {
        TargetKind::Host => true,
        TargetKind::Container => target.cgroups.contains(&one.group.path),
        TargetKind::Process | TargetKind::Command => false,
    })
}

fn explain(measures: &Measures<'_>, paid: &Paid<'_>, loss: &Loss<'_>) -> Wording {
    let killed_bytes = paid.killed.iter().map(|kill| kill.private_bytes).max().unwrap_or(0);
    Wording {
        title: title(measures, paid, loss),
        text: text(measures, paid, loss),
        evidence: evidence(paid),
        remedy: vec![raise(
            measures.model,
            (paid.one, &paid.above_victims(measures)),
            paid.spare_bytes,
            killed_bytes,
        )],
    }
}

fn title(measures: &Measures<'_>, paid: &Paid<'_>, loss: &Loss<'_>) -> String {
    let limit = words::bytes(paid.one.limit_bytes as f64);
    let group = measures.model.containers.group_in_words(&paid.one.group.path);
    if !paid.any_killed {
        let name = &loss.name;
        return format!("{name} is held up by the memory limit of its {group} ({limit})");
    }
    let root = command_root(measures.model);
    if root.is_some_and(|root| paid.killed.iter().any(|kill| kill.victim.pid == root.pid)) {
        return format!("the command was killed: {group} may have no more than {limit} of memory");
    }
    match paid.killed.first() {
        Some(kill) => format!(
            "{} was killed: {group} may have no more than {limit} of memory",
            measures.model.who(&kill.victim)
        ),
        None => format!("processes of {group} are killed at its memory limit of {limit}"),
    }
}

/// WORDING: a smaller part of the time, or of a sum, is not worth a clause.
const WORTH_A_CLAUSE: f64 = 0.05;

fn text(measures: &Measures<'_>, paid: &Paid<'_>, loss: &Loss<'_>) -> String {
    let one = paid.one;
    let mut text = String::new();
    if paid.any_killed {
        text.push_str(&format!(
            "{} killed for want of memory within the group. ",
            words::count(one.kills as usize, "process was", "processes were")
        ));
        text.push_str(&kill_words::of_all(measures, &paid.killed));
    }
    if loss.impact.share > WORTH_A_CLAUSE {
        let worked = paid.sum(|loss| loss.on_cpu(paid.reads_back));
        let on_cpu = match worked.min(loss.seconds) {
            some if some >= WORTH_A_CLAUSE * loss.seconds => {
                format!(", {} of it CPU", words::seconds(some))
            }
            _ => String::new(),
        };
        text.push_str(&format!(
            "{} of its time ({}{on_cpu}) goes into making room{}. ",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, loss.wall_seconds),
            if paid.reads_back { " and reading back what was dropped" } else { "" },
        ));
    }
    let limit = words::bytes(one.limit_bytes as f64);
    let times = words::thousands(one.hits as f64);
    text.push_str(&match one.stands {
        true => format!(
            "The group has its {limit} in use, and nobody is killed for it (memory.oom_control): whoever wants more \
             stands until another of the group frees some"
        ),
        false => format!("The group met its limit of {limit} {times} times"),
    });
    if paid.reads_back {
        text.push_str(&format!(
            "; {} were read from disk again soon after they were dropped",
            words::bytes(one.refault_bytes as f64)
        ));
    }
    if let Some(free) = paid.spare_bytes.filter(|free| *free > one.limit_bytes) {
        text.push_str(&format!(". The host has {} to spare", words::bytes(free as f64)));
    }
    text.push('.');
    text
}

fn evidence(paid: &Paid<'_>) -> Vec<Evidence> {
    let (one, back) = (paid.one, paid.reads_back);
    let counters = "memory controller";
    let in_use = one.last.memory_bytes.unwrap_or(0) as f64;
    let mut evidence = vec![
        Evidence::new("memory limit of the group", one.limit_bytes as f64, "bytes", one.setting()),
        Evidence::new("times the limit was met", one.hits as f64, "1", counters),
        Evidence::new("memory in use", in_use, "bytes", counters),
        Evidence::new(
            "lost to reclaim, and to reading again",
            paid.sum(|loss| loss.seconds(back)),
            "s",
            "sched_switch, mm_vmscan_memcg_reclaim, cpu-clock samples",
        ),
    ];
    let mut add = |fact: &str, value: f64, unit: &str, source: &str| {
        evidence.push(Evidence::new(fact, value, unit, source));
    };
    if back {
        add("of it waiting", paid.sum(|loss| loss.off_cpu(back)), "s", "sched_switch");
        let in_reclaim = paid.sum(|loss| loss.in_reclaim(back));
        add("of it in reclaim", in_reclaim, "s", "mm_vmscan_memcg_reclaim");
        let in_reading = paid.sum(|loss| loss.in_reading(back));
        add("of it CPU in reading", in_reading, "s", "cpu-clock samples, kernel stacks");
    }
    if one.kills > 0 {
        add("processes killed", one.kills as f64, "1", "oom:mark_victim");
    }
    if paid.any_killed {
        evidence.extend(kill_words::evidence(&paid.killed));
    }
    let mut add = |fact: &str, value: f64, unit: &str, source: &str| {
        evidence.push(Evidence::new(fact, value, unit, source));
    };
    if one.refault_bytes > 0 {
        add("read again after being dropped", one.refault_bytes as f64, "bytes", counters);
        let read = one.read_bytes as f64;
        add("read from disks by the group", read, "bytes", "block_bio_queue");
    }
    evidence
}

const MIB: u64 = 1 << 20;
/// How many times the limit is offered, and where the host has plenty.
const MORE: u64 = 2;
const MORE_OF_PLENTY: u64 = 4;

/// How much the group wants cannot be seen while it is held below it: twice as much, or four times where the host
/// has plenty. Who was killed says more: what it had mapped to write to is the most that it would have used, beside
/// what the group may have now; that is given as long as the host keeps half of what it has left. Where it would not keep that, it gets half of what
/// is left, and where that is next to nothing no limit is the cure.
pub(super) fn raise(
    model: &Model,
    (one, limited): (&Limited<'_>, &[Limited<'_>]),
    available_bytes: Option<u64>,
    killed_bytes: u64,
) -> Remedy {
    let spare = available_bytes.unwrap_or(0);
    let has_plenty = spare as f64 > PLENTY_MIN.value * one.limit_bytes as f64;
    let times = if has_plenty { MORE_OF_PLENTY } else { MORE };
    let most = available_bytes.map(|spare| one.limit_bytes.saturating_add(spare / 2) / MIB * MIB);
    let usual = one.limit_bytes.saturating_mul(times).min(most.unwrap_or(u64::MAX));
    if (usual as f64) < one.limit_bytes as f64 * WORTH_RAISING.value {
        return Remedy::to(format!(
            "make it need less, or move it to a host with more memory: this one has {} left for all",
            words::bytes(spare as f64)
        ));
    }
    let wanted = one.limit_bytes.saturating_add(killed_bytes).min(spare / 2);
    let rounded = wanted.next_multiple_of(MIB);
    let text = if rounded > usual {
        format!(
            "raise the limit by what was killed for: {} of its own",
            words::bytes(killed_bytes as f64)
        )
    } else {
        "raise the limit".into()
    };
    let (group, file) = innermost(one, limited);
    group_limits::raise_memory(model, group, file, (&text, rounded.max(usual)))
}

/// The group from which on upwards limits have to be raised: of those that hold the victims, one below that met a limit which is no greater would
/// go on holding them.
fn innermost<'m>(one: &Limited<'m>, limited: &[Limited<'m>]) -> (&'m Cgroup, &'static str) {
    let holds = |other: &&Limited<'_>| {
        other.group.controllers == one.group.controllers
            && is_below(&other.group.path, &one.group.path)
            && other.limit_bytes <= one.limit_bytes
    };
    let found = limited.iter().filter(holds).max_by_key(|it| it.group.path.len());
    found.map_or((one.group, one.file), |it| (it.group, it.file))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::memory::tests::{of_limit, standing};
    use crate::rules::scenes::behind_file_lock;

    /// Who waits for somebody that makes room was asked about: job 30, for a file lock that 7 has; or it waits for the lock of another.
    fn waits_for(holder: u32) -> Vec<Fact> {
        let holder = ThreadRef { tid: holder, pid: holder, start_ns: 0, comm: "db".into() };
        [standing("mem_cgroup_oom_synchronize", 0), behind_file_lock(30, &holder)].concat()
    }

    #[test]
    fn the_limit_of_who_has_a_lock_is_named_to_who_waits_for_it() {
        let found = of_limit(waits_for(7));
        assert_eq!(found[0].culprit.name, "/pods/db");
        assert!(found[0].title.starts_with("db is held up by the memory limit"), "{found:?}");
        assert_eq!(found[0].chain.first().and_then(|link| link.who.pid), Some(30));
        assert_eq!(of_limit(waits_for(8)), [], "another has it, and nobody asked about the group");
    }
}
