//! Scenes of memory.limit: groups at their limit that pay for it, and such that do not.
//!
//! `at_the_limit` has the counters alone; `reading_again` a reader on a disk that is too quick to wait for, whose loss is
//! CPU time.

use super::limit::raise;
use crate::answer::explain;
use crate::answer::report::{Finding, Severity};
use crate::facts::*;
use crate::measure::Measures;
use crate::measure::cpu_users::tests::cpus;
use crate::waits::timeline::Observed;

const MIB: u64 = 1 << 20;

/// What memory.limit finds.
pub(super) fn of_limit(facts: Vec<Fact>) -> Vec<Finding> {
    let mut found = explain(facts).findings;
    found.retain(|finding| finding.code == "memory.limit");
    found
}

struct Made {
    hits: u64,
    kills: u64,
    refaults: u64,
    reclaim_seconds: f64,
    /// By 10,000 calls that ask for 32 each.
    freed: u64,
}

fn model(made: Made) -> Vec<Fact> {
    let controllers = vec!["memory".to_string()];
    let thread = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "db".into() };
    let end = 5_000_000_000;
    let mut facts = cpus([0.2, 0.2]);
    let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
    put(
        0,
        Body::Thread(Thread {
            thread: thread.clone(),
            cgroups: vec![Membership { controllers: controllers.clone(), path: "/pods/db".into() }],
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
    facts
}

#[test]
fn time_in_reclaim_at_the_limit_is_the_limits() {
    let model =
        model(Made { hits: 900, kills: 0, refaults: 0, reclaim_seconds: 1.5, freed: 9_000 });
    let found = of_limit(model);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].culprit.name, "/pods/db");
    assert_eq!(found[0].evidence[0].value, (256 * MIB) as f64);
    assert_eq!(found[0].victims[0].pid, 7);
}

#[test]
fn a_pause_above_memory_high_is_the_limits_without_any_reclaim() {
    let found = of_limit(paused_above_high());
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
    let mut facts = cpus([0.2, 0.2]);
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

/// A thread of the group that stands in a function of the kernel.
pub(super) fn standing(frame: &str, kills: u64) -> Vec<Fact> {
    let made = Made { hits: 0, kills, refaults: 0, reclaim_seconds: 0.0, freed: 320_000 };
    let frames = ["schedule", frame, "do_user_addr_fault"].map(String::from).to_vec();
    let wait = Wait {
        thread: ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "db".into() },
        begin_ns: 500_000_000,
        end_ns: 4_500_000_000,
        wake: Some(Wake { at_ns: 4_500_000_000, ..Wake::default() }),
        place: Place { state: WaitState::DiskSleep, stack: 3, ..Place::default() },
        ..Wait::default()
    };
    let mut facts = model(made);
    facts.push(Fact { at_ns: 0, body: Body::Stack(Stack { id: 3, frames }) });
    facts.push(Fact { at_ns: 4_500_000_000, body: Body::Wait(wait) });
    facts
}

/// The killer of a group is off: it met its limit before the look, and no counter moves.
#[test]
fn who_stands_because_nobody_is_killed_is_held_up_by_the_limit() {
    let found = |frame: &str| of_limit(standing(frame, 0));
    let standing = found("mem_cgroup_oom_synchronize");
    assert_eq!(standing[0].culprit.name, "/pods/db");
    assert!(standing[0].text.contains("nobody is killed for it"), "{}", standing[0].text);
    assert_eq!(found("try_to_free_pages"), [], "it makes room for the host");
}

/// Whose memory it is fills the groups above as well; and where somebody is killed the others stand for that.
#[test]
fn nobody_stands_at_the_limit_of_a_group_above_or_where_one_is_killed() {
    let found = |kills| {
        let mut facts = standing("mem_cgroup_oom_synchronize", kills);
        for fact in facts.clone() {
            let (path, at_ns) = ("/pods".to_string(), fact.at_ns);
            let body = match fact.body {
                Body::Cgroup(group) => Body::Cgroup(Cgroup { path, id: 70, ..group }),
                Body::CgroupSample(sample) => {
                    Body::CgroupSample(CgroupSample { path, oom_kills: Some(0), ..sample })
                }
                _ => continue,
            };
            facts.push(Fact { at_ns, body });
        }
        of_limit(facts)
    };
    let names: Vec<String> = found(0).into_iter().map(|it| it.culprit.name).collect();
    assert_eq!(names, ["/pods/db"]);
    assert!(found(1).iter().all(|it| !it.text.contains("nobody is killed")));
}

#[test]
fn a_killed_process_is_named() {
    let model =
        model(Made { hits: 30, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 });
    let found = of_limit(model);
    assert!(found[0].title.starts_with("job 9 was killed"), "{}", found[0].title);
    assert_eq!(found[0].severity, Severity::Critical);
}

/// Job 9 was killed at its group's limit. One process is looked at, and so was begun who is in the line.
fn killed_beneath(looked_at: u32, line: &[u32], parent_pid: u32) -> Vec<Finding> {
    let mut facts =
        model(Made { hits: 30, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 });
    let thread = |pid| ThreadRef { tid: pid, pid, start_ns: 0, comm: "job".into() };
    let fork = |parent, child| Body::Fork(Fork { parent, child, flags: 0 });
    let forks = line.windows(2).map(|pair| fork(thread(pair[0]), thread(pair[1])));
    let job = Thread { thread: thread(9), parent_pid, ..Thread::default() };
    let (kind, name, pid) = (TargetKind::Process, "sh".to_string(), looked_at);
    let target = Target { kind, name, pid, cgroups: Vec::new(), words: Vec::new() };
    let bodies = forks.chain([Body::Thread(job), Body::Target(target)]);
    facts.extend(bodies.map(|body| Fact { at_ns: 0, body }));
    of_limit(facts)
}

/// A shell that begins its job anew whenever it was killed, and one that did not begin it.
#[test]
fn who_began_the_killed_learns_of_it() {
    let found = killed_beneath(8, &[], 8);
    assert!(found[0].title.starts_with("job 9 was killed"), "{}", found[0].title);
    assert_eq!(killed_beneath(8, &[], 1), [], "another one's");
}

/// A look at a service manager: what its services begin is theirs, and orphans are given to it.
#[test]
fn of_what_its_children_begin_a_process_hears_no_more_than_of_their_children() {
    let found =
        |looked_at, line: &[u32], parent| !killed_beneath(looked_at, line, parent).is_empty();
    assert!(found(8, &[8, 9], 0) && found(8, &[8, 20, 9], 20));
    assert!(!found(8, &[8, 20, 21, 9], 21), "of a service's");
    assert!(found(1, &[1, 9], 1), "its own");
    assert!(!found(1, &[], 1), "an orphan, or one that it began long ago");
}

/// The look of an ordinary user: no event, no log.
#[test]
fn a_command_that_was_killed_is_known_by_its_signal_and_the_groups_count() {
    let found = |signal, kills| {
        let made = Made { hits: 30, kills, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 };
        let mut facts = model(made);
        facts.retain(|fact| !matches!(fact.body, Body::OomKill(_)));
        let end = CommandEnd { pid: 7, exit_status: 128 + signal, signal };
        facts.push(Fact { at_ns: 5_000_000_000, body: Body::CommandEnd(end) });
        let (kind, name) = (TargetKind::Command, "db".to_string());
        let target = Target { kind, name, pid: 7, cgroups: Vec::new(), words: Vec::new() };
        facts.push(Fact { at_ns: 0, body: Body::Target(target) });
        of_limit(facts)
    };
    let seen = found(9, 1);
    assert!(seen[0].title.starts_with("the command was killed"), "{}", seen[0].title);
    assert_eq!(found(9, 0), [], "somebody else sent the signal");
    assert_eq!(found(15, 1), [], "it was another process of the group");
}

#[test]
fn page_cache_that_fills_a_group_is_healthy() {
    let none =
        model(Made { hits: 5000, kills: 0, refaults: 0, reclaim_seconds: 1.5, freed: 320_000 });
    assert_eq!(of_limit(none), []);
    // A few pages of the program itself are read again meanwhile.
    let (hits, refaults) = (11_302, 260);
    let few = model(Made { hits, kills: 0, refaults, reclaim_seconds: 1.5, freed: 320_000 });
    assert_eq!(of_limit(few), []);
}

#[test]
fn no_hit_no_finding() {
    let model =
        model(Made { hits: 0, kills: 0, refaults: 9_000, reclaim_seconds: 2.0, freed: 9_000 });
    assert_eq!(of_limit(model), []);
}

/// With and without a stream of process 8, which had most of it dropped.
#[test]
fn what_a_stream_displaces_is_not_the_limits() {
    let found = |evicted_by| {
        let (hits, refaults) = (900, 9_000);
        let mut facts =
            model(Made { hits, kills: 0, refaults, reclaim_seconds: 1.5, freed: 320_000 });
        let mut put = |pid: u32, evicted_by, bytes| {
            let process = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
            let fill = CacheFill { process, evicted_by, bytes, cgroup_id: 0 };
            facts.push(Fact { at_ns: 0, body: Body::CacheFill(fill) });
        };
        put(7, evicted_by, 35 * MIB);
        put(8, 0, 900 * MIB);
        of_limit(facts)
    };
    assert_eq!(found(7).len(), 1);
    assert_eq!(found(8), []);
}

#[test]
fn a_kill_at_the_limit_of_a_group_below_is_not_this_group_s() {
    let kills_of = |ooms: Option<u64>| {
        let mut facts =
            model(Made { hits: 0, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 0 });
        for fact in &mut facts {
            match &mut fact.body {
                Body::CgroupSample(sample) if fact.at_ns > 0 => sample.memory_ooms = ooms,
                Body::CgroupSample(sample) => sample.memory_ooms = ooms.map(|_| 0),
                // Seen in the group below, whose limit it was.
                Body::OomKill(kill) => kill.cgroup_id = 78,
                _ => {}
            }
        }
        let observed = Observed::new(facts);
        Measures::of_observed(&observed).memory.limited.iter().map(|it| it.kills).sum::<u64>()
    };
    assert_eq!(kills_of(None), 1, "cgroup v1 counts where it was");
    assert_eq!(kills_of(Some(1)), 1);
    assert_eq!(kills_of(Some(0)), 0);
}

#[test]
fn the_limit_of_memory_and_swap_goes_up_before_that_of_memory() {
    let mut facts =
        model(Made { hits: 30, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 });
    for fact in &mut facts {
        if let Body::Cgroup(group) = &mut fact.body {
            group.memory_and_swap_limit_bytes = Some(512 * MIB);
        }
    }
    let observed = Observed::new(facts);
    let limited = Measures::of_observed(&observed).memory.limited;
    let way = |spare: u64| raise(&observed.model, (&limited[0], &limited), Some(spare * MIB), 0);
    let both = "/sys/fs/cgroup/memory/pods/db/memory.memsw.limit_in_bytes";
    let plenty = way(8192);
    assert!(plenty.command.starts_with(&format!("echo {} > {both} && ", 1024 * MIB)));
    let back = format!("echo {} > {both} && break; sleep 0.1; done", 512 * MIB);
    assert!(plenty.undo.ends_with(&back), "{}", plenty.undo);
    assert!(plenty.action.is_none(), "it says one write alone");
    assert!(!way(600).command.contains("memsw"), "it has room for twice as much");
}

#[test]
fn a_group_below_that_met_no_greater_a_limit_is_raised_with_it() {
    let mut facts =
        model(Made { hits: 30, kills: 0, refaults: 0, reclaim_seconds: 1.5, freed: 9_000 });
    let below: Vec<Fact> = facts.iter().filter_map(below).collect();
    facts.extend(below);
    let observed = Observed::new(facts);
    let limited = Measures::of_observed(&observed).memory.limited;
    let outer = limited.iter().find(|one| one.group.path == "/pods/db").expect("met");
    let way = raise(&observed.model, (outer, &limited), None, 0).command;
    let file = |group: &str| format!("/sys/fs/cgroup/memory/pods/db{group}/memory.limit_in_bytes");
    let write = |group: &str| format!("echo {} > {}", 512 * MIB, file(group));
    assert_eq!(way, format!("{} && {}", write(""), write("/job")));
}

/// The same of a group below.
fn below(fact: &Fact) -> Option<Fact> {
    let mut fact = fact.clone();
    match &mut fact.body {
        Body::Cgroup(group) => {
            group.path.push_str("/job");
            group.directory.push_str("/job");
        }
        Body::CgroupSample(sample) => sample.path.push_str("/job"),
        _ => return None,
    }
    Some(fact)
}

#[test]
fn a_group_below_in_which_nobody_waits_is_not_raised() {
    let way = |is_in: bool| {
        let mut facts =
            model(Made { hits: 30, kills: 0, refaults: 0, reclaim_seconds: 1.5, freed: 9_000 });
        let below: Vec<Fact> = facts.iter().filter_map(below).collect();
        facts.extend(below);
        for fact in &mut facts {
            if let Body::Thread(db) = &mut fact.body
                && is_in
            {
                db.cgroups[0].path.push_str("/job");
            }
        }
        let found = of_limit(facts);
        let outer = found.iter().find(|it| it.culprit.name == "/pods/db");
        outer.expect("it holds").remedy[0].command.clone()
    };
    assert!(!way(false).contains("/job/"), "{}", way(false));
    assert!(way(true).contains("/job/"), "{}", way(true));
}

#[test]
fn the_limit_is_raised_by_what_the_killed_had_mapped() {
    let model =
        model(Made { hits: 30, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 });
    let observed = Observed::new(model);
    let limited = Measures::of_observed(&observed).memory.limited;
    let to = |spare: u64, killed: u64| {
        raise(&observed.model, (&limited[0], &limited), Some(spare * MIB), killed * MIB).command
    };
    let file = "/sys/fs/cgroup/memory/pods/db/memory.limit_in_bytes";
    assert_eq!(to(8192, 1500), format!("echo {} > {file}", (256 + 1500) * MIB));
    let undo = raise(&observed.model, (&limited[0], &limited), None, 0).undo;
    let back = format!("echo {} > {file}", 256 * MIB);
    assert_eq!(undo, format!("for try in $(seq 100); do {back} && break; sleep 0.1; done"));
    // Small: as without it. Unknown too.
    assert_eq!(to(8192, 300), format!("echo {} > {file}", 4 * 256 * MIB));
    assert_eq!(to(8192, 0), format!("echo {} > {file}", 4 * 256 * MIB));
    // More than the host can miss.
    assert_eq!(to(8192, 99_999), format!("echo {} > {file}", 4096 * MIB));
    assert_eq!(to(600, 99_999), format!("echo {} > {file}", 2 * 256 * MIB));
    // Half of what is left, and none of next to nothing.
    assert_eq!(to(200, 0), format!("echo {} > {file}", (256 + 100) * MIB));
    assert_eq!(to(20, 0), "");
}

#[test]
fn the_hosts_own_want_of_memory_refutes_it() {
    let killed = |hits: u64, stalls: u64| {
        let made = Made { hits, kills: 1, refaults: 0, reclaim_seconds: 0.01, freed: 320_000 };
        let mut facts = model(made);
        for (at_ns, part) in [(0, 0), (5_000_000_000, 1)] {
            let allocation_stalls = 100 + part * stalls;
            let sample = MemorySample { allocation_stalls, ..MemorySample::default() };
            facts.push(Fact { at_ns, body: Body::MemorySample(sample) });
        }
        of_limit(facts)
    };
    assert_eq!(killed(0, 40), []);
    assert_eq!(killed(30, 40).len(), 1, "it met its limit too");
    assert_eq!(killed(0, 0).len(), 1, "a group that is gone: its counter was not read again");
}

mod reading_again {
    use super::*;
    use crate::measure::cpu_profile_tests::*;

    /// SWAP_CLUSTER_MAX pages for each of the calls below: all that was asked for.
    const ALL: u64 = 32 * CALLS;
    const CALLS: u64 = 1000;
    const FILLS: &[&str] = &["clear_page", "page_cache_ra_unbounded", "filemap_get_pages"];
    const FREES: &[&str] =
        &["shrink_node", "try_to_free_mem_cgroup_pages", "page_cache_ra_unbounded"];
    const COPIES: &[&str] = &["_copy_to_iter", "filemap_read"];

    struct Made {
        /// Samples of 5 ms: filling the cache, in reclaim, copying to the reader.
        samples: [u64; 3],
        refault_mib: u64,
        read_mib: u64,
        reclaim_ms: u64,
        freed: u64,
    }

    /// Process 10 reads from a disk that is too quick to wait for, in a group that is at its limit.
    fn found(made: &Made) -> Vec<Finding> {
        explain(facts(made)).findings
    }

    fn facts(made: &Made) -> Vec<Fact> {
        let [fills, frees, copies] = made.samples;
        let mut facts = sampled(&[(FILLS, fills), (FREES, frees), (COPIES, copies)]);
        let path = || "/cache".to_string();
        let cgroups = vec![Membership { controllers: Vec::new(), path: path() }];
        facts.push(identity(Thread { thread: thread(10, "app"), cgroups, ..Thread::default() }));
        facts.push(fact(Body::Cgroup(Cgroup {
            path: path(),
            id: 77,
            memory_limit_bytes: Some(24 * MIB),
            ..Cgroup::default()
        })));
        for (at_ns, part) in [(0, 0), (LOOK_NS, 1)] {
            let sample = CgroupSample {
                path: path(),
                memory_limit_hits: Some(part * CALLS),
                memory_refaults: Some(part * made.refault_mib * 256),
                ..CgroupSample::default()
            };
            facts.push(Fact { at_ns, body: Body::CgroupSample(sample) });
        }
        facts.push(fact(Body::DiskUse(DiskUse {
            dev: DeviceNumber { major: 7, minor: 0 },
            process: thread(10, "app"),
            reads: 100,
            read_bytes: made.read_mib * MIB,
            writes: 0,
            write_bytes: 0,
            cgroup_id: 77,
        })));
        facts.push(fact(Body::Reclaim(Reclaim {
            thread: thread(10, "app"),
            memcg: true,
            count: CALLS,
            total_ns: made.reclaim_ms * 1_000_000,
            pages: made.freed,
            cgroup_id: 77,
        })));
        facts
    }

    fn figure(found: &[Finding], fact: &str) -> f64 {
        found[0].evidence.iter().find(|e| e.fact == fact).expect("a fact").value
    }

    #[test]
    fn reading_again_from_a_quick_disk_is_lost_cpu() {
        let samples = [200, 40, 160];
        let made = Made { samples, refault_mib: 400, read_mib: 400, reclaim_ms: 200, freed: ALL };
        let seen = found(&made);
        assert_eq!(seen[0].code, "memory.limit");
        assert_eq!(seen[0].severity, Severity::Warning);
        // 200 samples are 1 s; the 40 in reclaim are in its events.
        assert!((figure(&seen, "of it CPU in reading") - 1.0).abs() < 0.01);
        assert!((figure(&seen, "of it in reclaim") - 0.2).abs() < 0.01);
        assert!((seen[0].impact.share - 0.6).abs() < 0.01, "{}", seen[0].impact.share);
        // Half of what is read was never there: that is not the limit's.
        let half = found(&Made { read_mib: 800, ..made });
        assert!((figure(&half, "of it CPU in reading") - 0.5).abs() < 0.01);
    }

    #[test]
    fn of_a_command_the_work_on_its_path_counts() {
        let samples = [200, 40, 160];
        let made = Made { samples, refault_mib: 400, read_mib: 400, reclaim_ms: 200, freed: ALL };
        let mut facts = facts(&made);
        let target = Target {
            kind: TargetKind::Command,
            name: "app".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        facts.push(fact(Body::Target(target)));
        let seen = explain(facts).findings;
        assert_eq!(seen[0].code, "memory.limit");
        // 1.2 s of a command that took 5 s.
        assert!((seen[0].impact.share - 0.24).abs() < 0.01, "{}", seen[0].impact.share);
    }

    #[test]
    fn a_stream_through_a_full_group_is_healthy() {
        let samples = [160, 100, 140];
        let made = Made { samples, refault_mib: 0, read_mib: 4000, reclaim_ms: 500, freed: ALL };
        assert!(found(&made).is_empty());
        let seen = found(&Made { freed: ALL / 8, ..made });
        assert_eq!(seen[0].code, "memory.limit", "reclaim finds nothing to free");
    }

    #[test]
    fn copying_what_is_still_there_is_no_loss() {
        let samples = [20, 4, 376];
        let made = Made { samples, refault_mib: 40, read_mib: 40, reclaim_ms: 20, freed: ALL };
        assert!(found(&made).is_empty());
    }

    /// The group reads from a disk that is slow, and waits for it.
    #[test]
    fn a_disk_that_is_read_again_is_the_limits_and_no_disks() {
        let samples = [10, 4, 16];
        let made = Made { samples, refault_mib: 400, read_mib: 400, reclaim_ms: 20, freed: ALL };
        let disk = DeviceNumber { major: 8, minor: 0 };
        let mut facts = facts(&made);
        facts.push(fact(Body::Disk(Disk { dev: disk, name: "sda".into(), ..Disk::default() })));
        facts.push(at_place(10, "app", reads_from(disk)));
        let observed = Observed::new(facts);
        let named = crate::rules::engine::name(&Measures::of_observed(&observed));
        assert_eq!(named[0].rule.code, "memory.limit");
        assert_eq!(named[0].claimed.len(), 1, "the end of the disk");
        assert_eq!(named[0].severity, Severity::Critical);
    }
}

#[test]
fn who_makes_room_for_a_neighbour_is_not_held_up_by_the_limit() {
    use super::reclaim::tests::{filled, found};
    assert!(found(&filled(), "memory.reclaim").is_some());
    assert_eq!(found(&filled(), "memory.limit"), None);
}
