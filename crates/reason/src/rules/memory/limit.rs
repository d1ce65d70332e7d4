//! memory.limit: a group pays for its memory limit with reclaim, with reading again, or with killed processes.
//!
//! That the limit is met is one fact; what it costs (memory_losses.rs) is the other: refaults beside disk reads, time
//! in reclaim, or a kill. Rejected: usage near the limit (page cache fills every group that reads, and that is healthy).

use crate::answer::report::*;
use crate::facts::{OomKill, TargetKind, ThreadRef};
use crate::measure::Measures;
use crate::rules::old::cpu;
use crate::rules::old::memory::{self, Limited};
use crate::rules::old::memory_losses::{self, Loss, Losses};
use crate::rules::old::{Rule, words};

const MIB: u64 = 1 << 20;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
    code: "memory.limit",
    title: "A cgroup's memory limit is too small for what it does",
    theory: "Whatever a cgroup allocates beyond its limit must first be freed inside the group. File pages are dropped \
             and read from disk again when they are next needed, anonymous pages go to swap, both while the thread \
             that allocates waits; from a quick disk it hardly waits, and the price is its CPU time. When nothing can be freed, the kernel kills a process of the group (exit status \
             137). The host may have memory to spare all the while.",
    needs: &[
        "the group met its limit in the window (memory.failcnt, memory.events)",
        "it reads back what it dropped (refaults), waits in reclaim or gets too little there, or had a process killed",
        "that costs its processes a noticeable part of their time, waiting and CPU together",
    ],
    refuted_by: &[
        Refutation::new(
            "the limit is met, but by page cache that nobody reads again: a stream fills any group",
            "",
        ),
        Refutation::new("the host itself is out of memory", ""),
    ],
    remedies: &["raise the limit", "make the program need less: fewer workers, smaller caches"],
    stories: &["S0.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let limited = memory::limited(measures.model);
    limited.iter().filter_map(|one| finding(measures, one)).collect()
}

/// Kills in the group, as far as they were seen.
fn kills<'a>(
    measures: &'a Measures<'_>,
    one: &'a Limited<'_>,
) -> impl Iterator<Item = &'a OomKill> {
    let model = measures.model;
    model.oom_kills.iter().map(|(_, kill)| kill).filter(move |kill| {
        kill.cgroup_id != 0 && kill.cgroup_id == one.group.id
            || memory::is_member(model, &kill.victim, one.group)
    })
}

/// Who was killed in the group.
fn killed(measures: &Measures<'_>, one: &Limited<'_>) -> Vec<ThreadRef> {
    let mut killed: Vec<ThreadRef> = kills(measures, one).map(|kill| kill.victim.clone()).collect();
    killed.dedup_by_key(|victim| victim.pid);
    killed
}

fn finding(measures: &Measures<'_>, one: &Limited<'_>) -> Option<Finding> {
    let losses = memory_losses::of(measures, one);
    let killed = killed(measures, one);
    let wall = measures.wall_seconds().max(1e-9);
    let looked_at = |victim: &ThreadRef| cpu::concerns(measures, victim);
    let any_killed = one.kills > 0 && (is_whole(measures, one) || killed.iter().any(looked_at));
    let seconds = if measures.is_command() {
        memory_losses::on_path(measures, one, &losses)
    } else {
        losses.values().map(Loss::seconds).sum()
    };
    let demand = memory_losses::demand(measures, &losses);
    let of = if measures.is_command() { wall } else { demand.max(seconds).max(1e-9) };
    let mut impact = Impact { wait_seconds_per_second: seconds / wall, share: seconds / of };
    impact.share = impact.share.clamp(0.0, 1.0);
    let severity = if any_killed { Severity::Critical } else { Severity::of(&impact) };
    if severity == Severity::Note {
        return None;
    }
    let most = losses.values().max_by(|a, b| a.seconds().total_cmp(&b.seconds()));
    let mut victims: Vec<Victim> =
        losses.values().map(|lost| cpu::victim(measures, &lost.process, lost.seconds())).collect();
    for victim in killed.iter().filter(|v| !losses.contains_key(&v.pid)) {
        victims.push(cpu::victim(measures, victim, 0.0));
    }
    victims.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    let object = ObjectName::new("memory", &one.group.path);
    let chain = most.map(|lost| Link {
        who: Who::thread(&lost.process),
        waits_on: object.clone(),
        seconds: lost.seconds(),
    });
    Some(Finding {
        title: title(measures, one, any_killed, &killed, most.map(|lost| &lost.process)),
        text: text(measures, one, &impact, &losses, any_killed),
        severity,
        confidence: 0.95,
        culprit: Culprit {
            container: Some(one.group.path.clone()),
            ..Culprit::setting(one.group.path.clone(), one.setting())
        },
        chain: chain.into_iter().collect(),
        object,
        victims,
        impact,
        evidence: evidence(one, &losses),
        remedy: vec![raise(
            one,
            available_bytes(measures),
            kills(measures, one).map(|kill| kill.private_bytes).max().unwrap_or(0),
        )],
        ..RULE.blank()
    })
}

/// The whole host, or the container of this very group, is looked at.
fn is_whole(measures: &Measures<'_>, one: &Limited<'_>) -> bool {
    measures.model.target.as_ref().is_none_or(|target| match target.kind {
        TargetKind::Host => true,
        TargetKind::Container => target.cgroups.contains(&one.group.path),
        TargetKind::Process | TargetKind::Command => false,
    })
}

fn title(
    measures: &Measures<'_>,
    one: &Limited<'_>,
    any_killed: bool,
    killed: &[ThreadRef],
    most: Option<&ThreadRef>,
) -> String {
    let limit = words::bytes(one.limit_bytes as f64);
    let path = &one.group.path;
    if any_killed {
        let root = crate::graph::ends::command_root(measures.model);
        return match killed.first() {
            _ if root.is_some_and(|root| killed.iter().any(|v| v.pid == root.pid)) => {
                format!(
                    "the command was killed: cgroup {path} may have no more than {limit} of memory"
                )
            }
            Some(victim) => format!(
                "{} was killed: cgroup {path} may have no more than {limit} of memory",
                words::who(victim)
            ),
            None => format!("processes of cgroup {path} are killed at its memory limit of {limit}"),
        };
    }
    let name = most.map_or_else(|| path.clone(), |process| measures.process_name(process));
    format!("{name} is held up by the memory limit of its cgroup {path} ({limit})")
}

fn text(
    measures: &Measures<'_>,
    one: &Limited<'_>,
    impact: &Impact,
    losses: &Losses,
    any_killed: bool,
) -> String {
    let mut text = String::new();
    if any_killed {
        text.push_str(&format!(
            "{} killed for want of memory within the group. ",
            words::count(one.kills as usize, "process was", "processes were")
        ));
    }
    if impact.share > 0.05 {
        let wall = measures.wall_seconds();
        let seconds = impact.wait_seconds_per_second * wall;
        let worked: f64 = losses.values().map(Loss::on_cpu).sum();
        let on_cpu = match worked.min(seconds) {
            some if some >= 0.05 * seconds => format!(", {} of it CPU", words::seconds(some)),
            _ => String::new(),
        };
        text.push_str(&format!(
            "{} of its time ({}{on_cpu}) goes into making room{}. ",
            words::percent(impact.share),
            words::of_window(seconds, wall),
            if one.thrashes() { " and reading back what was dropped" } else { "" },
        ));
    }
    text.push_str(&format!(
        "The group met its limit of {} {} times",
        words::bytes(one.limit_bytes as f64),
        words::thousands(one.hits as f64),
    ));
    if one.thrashes() {
        text.push_str(&format!(
            "; {} were read from disk again soon after they were dropped",
            words::bytes(one.refault_bytes as f64)
        ));
    }
    if let Some(free) = available_bytes(measures).filter(|free| *free > one.limit_bytes) {
        text.push_str(&format!(". The host has {} to spare", words::bytes(free as f64)));
    }
    text.push('.');
    text
}

fn evidence(one: &Limited<'_>, losses: &Losses) -> Vec<Evidence> {
    let counters = "memory controller";
    let sum = |of: fn(&Loss) -> f64| losses.values().map(of).sum::<f64>();
    let in_use = one.last.memory_bytes.unwrap_or(0) as f64;
    let mut evidence = vec![
        Evidence::new("memory limit of the group", one.limit_bytes as f64, "bytes", one.setting()),
        Evidence::new("times the limit was met", one.hits as f64, "1", counters),
        Evidence::new("memory in use", in_use, "bytes", counters),
        Evidence::new(
            "lost to reclaim, and to reading again",
            sum(Loss::seconds),
            "s",
            "sched_switch, mm_vmscan_memcg_reclaim, cpu-clock samples",
        ),
    ];
    if one.thrashes() {
        evidence.push(Evidence::new("of it waiting", sum(Loss::off_cpu), "s", "sched_switch"));
        let source = "mm_vmscan_memcg_reclaim";
        evidence.push(Evidence::new("of it in reclaim", sum(|l| l.reclaimed), "s", source));
        let source = "cpu-clock samples, kernel stacks";
        evidence.push(Evidence::new("of it CPU in reading", sum(|l| l.read_again), "s", source));
    }
    if one.kills > 0 {
        evidence.push(Evidence::new("processes killed", one.kills as f64, "1", "oom:mark_victim"));
    }
    if one.refault_bytes > 0 {
        let refaults = one.refault_bytes as f64;
        evidence.push(Evidence::new("read again after being dropped", refaults, "bytes", counters));
        let read = one.read_bytes as f64;
        evidence.push(Evidence::new(
            "read from disks by the group",
            read,
            "bytes",
            "block_bio_queue",
        ));
    }
    evidence
}

/// What the host has left by its last reading, bytes.
fn available_bytes(measures: &Measures<'_>) -> Option<u64> {
    measures.model.memory.last().map(|(_, sample)| sample.available_bytes)
}

/// How much the group wants cannot be seen while it is held below it: twice as much, or four times where the host
/// has plenty. Who was killed tells more: what it had mapped to write to is the most that it would have used, beside
/// what the group may have now; that is given as long as the host keeps half of what it has left.
fn raise(one: &Limited<'_>, available_bytes: Option<u64>, killed_bytes: u64) -> Remedy {
    let file = words::shell(&one.setting());
    let spare = available_bytes.unwrap_or(0);
    let times = if spare / 8 > one.limit_bytes { 4 } else { 2 };
    let usual = one.limit_bytes.saturating_mul(times);
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
    let back = format!("echo {} > {file}", one.limit_bytes);
    Remedy {
        text,
        command: format!("echo {} > {file}", rounded.max(usual)),
        // cgroup v1 refuses a limit below what is used just then and cannot be freed; whoever really has come to need
        // more than that would be tried for ever.
        undo: match one.file {
            "memory.limit_in_bytes" => {
                format!("for try in $(seq 100); do {back} && break; sleep 0.1; done")
            }
            _ => back,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::waits::timeline::Observed;

    struct Made {
        hits: u64,
        kills: u64,
        refaults: u64,
        reclaim_seconds: f64,
        /// By 10,000 calls that ask for 32 each.
        freed: u64,
    }

    fn model(made: Made) -> Observed {
        let controllers = vec!["memory".to_string()];
        let thread = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "db".into() };
        let end = 5_000_000_000;
        let mut facts = crate::rules::old::cpu::tests::cpus([0.2, 0.2]);
        let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
        put(
            0,
            Body::Thread(Thread {
                thread: thread.clone(),
                cgroups: vec![Membership {
                    controllers: controllers.clone(),
                    path: "/pods/db".into(),
                }],
                ..Thread::default()
            }),
        );
        put(
            0,
            Body::Cgroup(Cgroup {
                path: "/pods/db".into(),
                controllers: controllers.clone(),
                directory: "/sys/fs/cgroup/memory/pods/db".into(),
                id: 77,
                memory_limit_bytes: Some(256 * MIB),
                ..Cgroup::default()
            }),
        );
        for (at_ns, part) in [(0, 0), (end, 1)] {
            put(
                at_ns,
                Body::CgroupSample(CgroupSample {
                    path: "/pods/db".into(),
                    controllers: controllers.clone(),
                    memory_bytes: Some(255 * MIB),
                    memory_limit_hits: Some(100 + part * made.hits),
                    oom_kills: Some(part * made.kills),
                    memory_refaults: Some(part * made.refaults),
                    ..CgroupSample::default()
                }),
            );
        }
        if made.kills > 0 {
            let victim = ThreadRef { tid: 9, pid: 9, start_ns: 0, comm: "job".into() };
            put(end, Body::OomKill(OomKill { victim, cgroup_id: 77, private_bytes: 0 }));
        }
        put(
            end,
            Body::Reclaim(Reclaim {
                thread: thread.clone(),
                memcg: true,
                total_ns: (made.reclaim_seconds * 1e9) as u64,
                count: 10_000,
                pages: made.freed,
                cgroup_id: 77,
            }),
        );
        put(
            end,
            Body::ThreadTime(ThreadTime { thread, run_ns: 2_000_000_000, ..ThreadTime::default() }),
        );
        Observed::new(facts)
    }

    #[test]
    fn time_in_reclaim_at_the_limit_is_the_limits() {
        let model =
            model(Made { hits: 900, kills: 0, refaults: 0, reclaim_seconds: 1.5, freed: 9_000 });
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "/pods/db");
        assert_eq!(found[0].evidence[0].value, (256 * MIB) as f64);
        assert_eq!(found[0].victims[0].pid, 7);
    }

    #[test]
    fn a_pause_above_memory_high_is_the_limits_without_any_reclaim() {
        let facts = paused_above_high();
        let model = Observed::new(facts);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        let setting = found[0].culprit.setting.as_deref();
        assert_eq!(setting, Some("/sys/fs/cgroup/report/memory.high"));
        assert_eq!(found[0].object.name, "/report");
        assert_eq!(found[0].victims[0].pid, 7);
    }

    /// Anonymous memory without swap: nothing can be freed, the thread is made to sleep on its way back.
    fn paused_above_high() -> Vec<Fact> {
        let thread = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "report".into() };
        let end = 5_000_000_000;
        let mut facts = crate::rules::old::cpu::tests::cpus([0.2, 0.2]);
        let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
        let path = || "/report".to_string();
        put(
            0,
            Body::Thread(Thread {
                thread: thread.clone(),
                cgroups: vec![Membership { controllers: Vec::new(), path: path() }],
                ..Thread::default()
            }),
        );
        put(
            0,
            Body::Cgroup(Cgroup {
                path: path(),
                directory: "/sys/fs/cgroup/report".into(),
                id: 77,
                memory_high_bytes: Some(48 * MIB),
                ..Cgroup::default()
            }),
        );
        for (at_ns, hits) in [(0, 4), (end, 45)] {
            put(
                at_ns,
                Body::CgroupSample(CgroupSample {
                    path: path(),
                    memory_bytes: Some(48 * MIB),
                    memory_high_hits: Some(hits),
                    ..CgroupSample::default()
                }),
            );
        }
        let stack = ["schedule_timeout_killable", "mem_cgroup_handle_over_high"];
        put(0, Body::Stack(Stack { id: 3, frames: stack.map(String::from).to_vec() }));
        put(
            end,
            Body::Wait(Wait {
                thread: thread.clone(),
                begin_ns: 500_000_000,
                end_ns: 2_500_000_000,
                wake: Some(Wake { at_ns: 2_500_000_000, ..Wake::default() }),
                place: Place { state: WaitState::DiskSleep, stack: 3, ..Place::default() },
                ..Wait::default()
            }),
        );
        let run_ns = 3_000_000_000;
        put(end, Body::ThreadTime(ThreadTime { thread, run_ns, ..ThreadTime::default() }));
        facts
    }

    #[test]
    fn a_killed_process_is_told_by_name() {
        let model =
            model(Made { hits: 30, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 });
        let found = find(&Measures::of_observed(&model));
        assert!(found[0].title.starts_with("job 9 was killed"), "{}", found[0].title);
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn page_cache_that_fills_a_group_is_healthy() {
        let model =
            model(Made { hits: 5000, kills: 0, refaults: 0, reclaim_seconds: 1.5, freed: 320_000 });
        assert!(find(&Measures::of_observed(&model)).is_empty());
    }

    #[test]
    fn no_hit_no_finding() {
        let model =
            model(Made { hits: 0, kills: 0, refaults: 9_000, reclaim_seconds: 2.0, freed: 9_000 });
        assert!(find(&Measures::of_observed(&model)).is_empty());
    }

    #[test]
    fn the_limit_is_raised_by_what_the_killed_had_mapped() {
        let model =
            model(Made { hits: 30, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 });
        let limited = memory::limited(&model.model);
        let to =
            |spare: u64, killed: u64| raise(&limited[0], Some(spare * MIB), killed * MIB).command;
        let file = "/sys/fs/cgroup/memory/pods/db/memory.limit_in_bytes";
        assert_eq!(to(8192, 1500), format!("echo {} > {file}", (256 + 1500) * MIB));
        let undo = raise(&limited[0], None, 0).undo;
        let back = format!("echo {} > {file}", 256 * MIB);
        assert_eq!(undo, format!("for try in $(seq 100); do {back} && break; sleep 0.1; done"));
        // Small: as without it. Unknown too.
        assert_eq!(to(8192, 300), format!("echo {} > {file}", 4 * 256 * MIB));
        assert_eq!(to(8192, 0), format!("echo {} > {file}", 4 * 256 * MIB));
        // More than the host can miss.
        assert_eq!(to(8192, 99_999), format!("echo {} > {file}", 4096 * MIB));
        assert_eq!(to(600, 99_999), format!("echo {} > {file}", 2 * 256 * MIB));
    }
}
