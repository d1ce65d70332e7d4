//! cpu.saturated: somebody waits for a CPU because somebody else takes more than his fair part.
//!
//! Three things must come together: the CPUs that the victim may use are all busy, the victim gets less than
//! its fair part and stands in the run queue instead, and one other gets that much more. A host that is merely
//! busy has no victim; a program that is slowed by its own threads has no culprit; a client that waits while its
//! own server works is not held up by it.

use crate::answer::report::*;
use crate::facts::{Cgroup, TargetKind, Thread, ThreadRef, WakeContext};
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::model::Model;
use crate::rules::Refutation;
use crate::rules::old::cpu::{self, Competitor};
use crate::rules::old::{Rule, culprit, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
    code: "cpu.saturated",
    title: "Another process uses up the CPUs",
    theory: "When more threads are ready than there are CPUs, the scheduler deals out time by thread and group, not by \
             process: one process with many busy threads takes most of it. The others then wait in the run queue \
             after every sleep and at the end of every slice, and their requests take several times as long.",
    needs: &[
        "the CPUs that the victim may use are at least nine tenths busy",
        "the victim waits for a CPU for a noticeable part of its own running time, and gets less than its fair part",
        "one other process or job gets more than its fair part, and two fifths or more of all that is used or asked for",
    ],
    refuted_by: &[
        Refutation::new("CPUs that the victim may use are idle", ""),
        Refutation::new(
            "the threads that wait belong to the same job as those that run (use is not a fault)",
            "",
        ),
        Refutation::new("the victim's group is out of CPU quota", ""),
    ],
    remedies: &[
        "give the culprit a lower weight or a quota",
        "run it with a higher nice value",
        "move it elsewhere",
    ],
    stories: &["S0.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// Waiting that is a smaller part of a victim's own running is what sharing a CPU costs.
const WAIT_TO_RUN_MIN: f64 = 0.25;
/// Nobody is a victim who waits less, seconds a second.
const WAIT_PER_SECOND_MIN: f64 = 0.05;
/// On a host, nor who runs less and sleeps meanwhile: what only ticks is late on any busy host, and loses no work by
/// it.
const RUN_PER_SECOND_MIN: f64 = 0.05;
/// A thread that ran or was ready to for this part of the look does not tick: it has work all the time. That it ran
/// for little is then the harm itself, the greater the heavier the culprit's group is.
const WANTED_BY_ONE_MIN: f64 = 0.5;
/// But for so little as this, seconds a second, it has no work: a tick that comes seconds late is a tick.
const RUN_STARVED_PER_SECOND_MIN: f64 = 0.01;
/// The culprit has at least this part of what is taken beyond the fair parts.
const CULPRIT_PART_MIN: f64 = 0.4;
/// And has at least this part of all that is used (a heavier group), or of all that is asked for, running or ready
/// to (more threads): who has less of both is one of many.
const CULPRIT_OF_ALL_MIN: f64 = 0.4;
/// Two that end so many of each other's waits work together.
const PARTNER_PART: f64 = 0.3;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    found(measures).into_iter().collect()
}

fn found(measures: &Measures<'_>) -> Option<Finding> {
    let all = cpu::competitors(measures);
    let excess: f64 = all.iter().map(Competitor::excess).sum();
    let used: f64 = all.iter().map(|one| one.run).sum();
    let asked: f64 = all.iter().map(|one| one.run + one.ready).sum();
    let is_most = |one: &Competitor| {
        one.run >= CULPRIT_OF_ALL_MIN * used || one.run + one.ready >= CULPRIT_OF_ALL_MIN * asked
    };
    let greedy = all
        .iter()
        .filter(|one| !one.kernel)
        .max_by(|a, b| a.excess().total_cmp(&b.excess()))
        .filter(|one| one.excess() >= CULPRIT_PART_MIN * excess && one.excess() > 0.0)
        .filter(|one| is_most(one))?;
    let victims: Vec<&Competitor> =
        all.iter().filter(|one| is_victim(measures, one, greedy)).collect();
    let most = victims.iter().max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    let hurt = most.processes.values().max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    let by = &greedy.greatest()?.process;
    Some(finding(measures, &victims, greedy, &hurt.process, by))
}

fn is_victim(measures: &Measures<'_>, one: &Competitor, greedy: &Competitor) -> bool {
    let model = measures.model;
    let Some(process) = one.greatest().map(|used| &used.process) else { return false };
    let own = model.host.own_pid;
    let looked_at = if measures.is_command() {
        command_root(model).is_some_and(|root| one.processes.contains_key(&root.pid))
    } else {
        one.processes.values().any(|used| model.in_target(&used.process))
    };
    let allowed = model.identity(process).map_or(&[][..], |known| &known.cpus_allowed);
    let busy = cpu::mean_busy(&cpu::busy(model), allowed);
    let is_greedy = one.processes.keys().any(|pid| greedy.processes.contains_key(pid));
    let is_own = own != 0 && one.processes.contains_key(&own);
    if is_greedy || is_own || one.kernel || one.polite || cpu::is_real_time(model, process) {
        return false;
    }
    let is_asked_for = model.target.as_ref().is_some_and(|t| t.kind != TargetKind::Host);
    let starves = one.run >= RUN_STARVED_PER_SECOND_MIN * measures.wall_seconds()
        && one.wanted_by_one >= WANTED_BY_ONE_MIN * measures.wall_seconds();
    let ticks = one.run < RUN_PER_SECOND_MIN * measures.wall_seconds() && !starves;
    looked_at
        && (is_asked_for || !ticks)
        && busy.is_some_and(|busy| busy >= cpu::BUSY_MIN)
        && one.ready >= WAIT_PER_SECOND_MIN * measures.wall_seconds()
        && one.ready >= WAIT_TO_RUN_MIN * one.run
        && one.shortfall() > 0.0
        && one.run < greedy.run
        && !are_partners(measures, one, greedy)
}

/// One works for the other: a client and its server, two ends of a pipe.
fn are_partners(measures: &Measures<'_>, one: &Competitor, other: &Competitor) -> bool {
    let ended_by = |one: &Competitor, other: &Competitor| {
        let (mut all, mut by_other) = (0_u32, 0_u32);
        for wait in measures.waits() {
            let counts = one.processes.contains_key(&wait.thread.pid)
                && !matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota);
            let Some(wake) = wait.wake.as_ref().filter(|_| counts) else { continue };
            all += 1;
            // A timer's interrupt hits whoever runs, and that is mostly the culprit.
            let meant = wake.context == WakeContext::Task
                || wake.context == WakeContext::SoftInterrupt
                    && matches!(wait.class, WaitClass::SocketRead | WaitClass::SocketWrite);
            by_other += u32::from(meant && other.processes.contains_key(&wake.by.pid));
        }
        all > 0 && f64::from(by_other) >= PARTNER_PART * f64::from(all)
    };
    ended_by(one, other) || ended_by(other, one)
}

/// What the victims waited and ran for, seconds.
fn totals(victims: &[&Competitor]) -> (f64, f64) {
    victims.iter().fold((0.0, 0.0), |(ready, run), one| (ready + one.ready, run + one.run))
}

fn impact(measures: &Measures<'_>, ready: f64, told: &[Victim]) -> Impact {
    let wall = measures.wall_seconds().max(1e-9);
    let demand: f64 = told.iter().map(|victim| measures.demand_seconds(victim.pid)).sum();
    let on_path: f64 = measures.class(WaitClass::RunQueue).map(|end| end.seconds).sum();
    let (seconds, share) = if measures.is_command() {
        (on_path, on_path / wall)
    } else {
        (ready, ready / demand.max(1e-9))
    };
    Impact { wait_seconds_per_second: seconds / wall, share: share.clamp(0.0, 1.0) }
}

fn finding(
    measures: &Measures<'_>,
    victims: &[&Competitor],
    greedy: &Competitor,
    hurt: &ThreadRef,
    by: &ThreadRef,
) -> Finding {
    let model = measures.model;
    let wall = measures.wall_seconds().max(1e-9);
    let mut told: Vec<Victim> = victims
        .iter()
        .flat_map(|one| one.processes.values())
        .filter(|used| used.ready > 0.0)
        .map(|used| cpu::victim(measures, &used.process, used.ready))
        .collect();
    told.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    let (ready, run) = totals(victims);
    let impact = impact(measures, ready, &told);
    let seconds = impact.wait_seconds_per_second * wall;
    let one = told.len() == 1;
    let busy = cpu::mean_busy(&cpu::busy(model), &[]).unwrap_or(0.0);
    let name = measures.process_name(hurt);
    let who = culprit(measures, by);
    let place = who.container.as_ref().map_or_else(String::new, |name| format!(" of {name}"));
    let object = ObjectName::new("run queue", "CPU");
    let waits = told.first().map_or(0.0, |victim| victim.wait_seconds);
    Finding {
        title: format!("{name} waits for a CPU while {}{place} uses them up", words::who(by)),
        text: format!(
            "{} of {} time ({}) {} could run and {} no CPU; {} for {}. The CPUs are {} busy. {}{place} \
             uses {} CPUs, {} more than its fair part.",
            words::percent(impact.share),
            if one { "its" } else { "their" },
            words::of_window(seconds, wall),
            if one { "it" } else { "they" },
            if one { "has" } else { "have" },
            if one { "it runs" } else { "they run" },
            words::seconds(run),
            words::percent(busy),
            words::who(by),
            words::rate(greedy.run / wall),
            words::rate(greedy.excess() / wall),
        ),
        severity: Severity::of(&impact),
        confidence: 0.9,
        chain: vec![
            Link { who: Who::thread(hurt), waits_on: object.clone(), seconds: waits },
            Link {
                who: Who::thread(by),
                waits_on: ObjectName::new("CPU", "running"),
                seconds: greedy.run,
            },
        ],
        object,
        culprit: who,
        victims: told,
        impact,
        evidence: vec![
            Evidence::new("waited for a CPU by the victims", ready, "s", "sched_switch"),
            Evidence::new("CPU used by the victims", run, "s", "sched_switch"),
            Evidence::new("CPUs busy", busy * 100.0, "%", "/proc/stat"),
            Evidence::new("CPU used by the culprit", greedy.run, "s", "sched_switch"),
            Evidence::new("of that, beyond its fair part", greedy.excess(), "s", "sched_switch"),
        ],
        remedy: vec![come_last(measures.model, hurt, by)],
        ..RULE.blank()
    }
}

/// Nice values count within one group; between groups, and so between containers, their weights do. Where the kernel
/// makes a group of each session (autogroup, of the threads in no other group), the session has a nice value of its own.
fn come_last(model: &Model, hurt: &ThreadRef, by: &ThreadRef) -> Remedy {
    if let Some((group, weight)) = group_beside(model, hurt, by) {
        let v2 = group.controllers.is_empty();
        let (name, least) = if v2 { ("cpu.weight", 1) } else { ("cpu.shares", 2) };
        let file = words::shell(&format!("{}/{name}", group.directory.trim_end_matches('/')));
        return Remedy {
            text: format!("let its group {} come last", group.path),
            command: format!("echo {least} > {file}"),
            undo: format!("echo {weight} > {file}"),
        };
    }
    if is_session_apart(model, hurt, by) {
        let file = format!("/proc/{}/autogroup", by.pid);
        return Remedy {
            text: "let its session come last (a nice value counts within one)".into(),
            command: format!("echo 19 > {file}"),
            undo: format!("echo 0 > {file}"),
        };
    }
    let nice = model.identity(by).map_or(0, |known| known.nice);
    Remedy {
        text: "let it come last".into(),
        // The nice value is a thread's own: that of the first thread alone would change little.
        command: format!("renice -n 19 -p $(ls /proc/{}/task)", by.pid),
        undo: format!("renice -n {nice} -p $(ls /proc/{}/task)", by.pid),
    }
}

/// The culprit's session is a group of its own to the scheduler, and not the victim's (sched(7), "The autogroup
/// feature").
fn is_session_apart(model: &Model, hurt: &ThreadRef, by: &ThreadRef) -> bool {
    let on = model.sysctls.get("kernel.sched_autogroup_enabled").is_some_and(|value| value == "1");
    let session = |thread: &ThreadRef| model.identity(thread).map(|known| known.session);
    let own = session(by).filter(|session| *session != 0);
    let is_in_no_other = model.cgroup_of(by, "cpu").is_none_or(|group| group.path == "/");
    on && is_in_no_other && own.is_some() && session(hurt).is_some_and(|theirs| Some(theirs) != own)
}

/// The outermost group of the culprit that the victim is not in, with its weight: there the two compete.
fn group_beside<'a>(
    model: &'a Model,
    hurt: &ThreadRef,
    by: &ThreadRef,
) -> Option<(&'a Cgroup, u64)> {
    let own = model.cgroup_of(by, "cpu")?;
    let member = |known: &'a Thread| {
        known.cgroups.iter().find(|m| m.controllers == own.controllers).map(|m| m.path.as_str())
    };
    let of_victim = model.identity(hurt).and_then(member).unwrap_or("/");
    let within = |path: &str, group: &str| {
        path.strip_prefix(group.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let beside = model.cgroups.iter().filter(|group| {
        group.controllers == own.controllers
            && within(&own.path, &group.path)
            && !within(of_victim, &group.path)
    });
    let outermost = beside.min_by_key(|group| group.path.len())?;
    Some((outermost, outermost.cpu_weight?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::old::cpu::tests::{cpus, time};
    use crate::waits::timeline::Observed;

    fn with(used: [f64; 2], more: Vec<Fact>) -> Observed {
        let mut facts = cpus(used);
        facts.extend(more);
        Observed::new(facts)
    }

    fn hogged(used: [f64; 2]) -> Observed {
        with(used, vec![time(10, "web", 1.6, 2.0), time(20, "miner", 8.2, 11.0)])
    }

    #[test]
    fn a_service_that_waits_while_a_hog_runs_is_held_up_by_it() {
        let model = hogged([1.0, 0.99]);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.pid, Some(20));
        assert_eq!(found[0].victims[0].pid, 10);
        assert!(found[0].severity >= Severity::Warning);
    }

    #[test]
    fn a_hog_in_a_group_of_its_own_is_held_back_by_the_weight_of_the_outermost() {
        let member = |tid, path: &str| {
            let thread = ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            let cgroups = vec![Membership { controllers: vec!["cpu".into()], path: path.into() }];
            Fact { at_ns: 0, body: Body::Thread(Thread { thread, cgroups, ..Thread::default() }) }
        };
        let group = |path: &str| {
            let group = Cgroup {
                path: path.into(),
                controllers: vec!["cpu".into()],
                directory: format!("/sys/fs/cgroup/cpu{path}"),
                cpu_weight: Some(512),
                ..Cgroup::default()
            };
            Fact { at_ns: 0, body: Body::Cgroup(group) }
        };
        let remedy = |victim: &str| {
            let facts = vec![
                group("/"),
                group("/docker"),
                group("/docker/4b1d"),
                member(10, victim),
                member(20, "/docker/4b1d"),
            ];
            let (hurt, by) = (ThreadRef { tid: 10, pid: 10, ..ThreadRef::default() }, 20);
            let by = ThreadRef { tid: by, pid: by, ..ThreadRef::default() };
            come_last(&Model::new(facts), &hurt, &by)
        };
        let of_host = remedy("/");
        assert_eq!(of_host.command, "echo 2 > /sys/fs/cgroup/cpu/docker/cpu.shares");
        assert_eq!(of_host.undo, "echo 512 > /sys/fs/cgroup/cpu/docker/cpu.shares");
        let of_neighbour = remedy("/docker/77aa");
        assert_eq!(of_neighbour.command, "echo 2 > /sys/fs/cgroup/cpu/docker/4b1d/cpu.shares");
        assert_eq!(remedy("/docker/4b1d").command, "renice -n 19 -p $(ls /proc/20/task)");
    }

    #[test]
    fn a_hog_of_another_session_is_held_back_as_a_session() {
        let member = |tid, session| {
            let thread = ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            let body = Body::Thread(Thread { thread, session, ..Thread::default() });
            Fact { at_ns: 0, body }
        };
        let autogroup = |value: &str| {
            let name = "kernel.sched_autogroup_enabled".into();
            Fact { at_ns: 0, body: Body::Sysctl(Sysctl { name, value: value.into() }) }
        };
        let remedy = |value: &str, session| {
            let model = Observed::new(vec![autogroup(value), member(10, 7), member(20, session)]);
            let thread = |tid| ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            come_last(&model.model, &thread(10), &thread(20)).command
        };
        assert_eq!(remedy("1", 8), "echo 19 > /proc/20/autogroup");
        let nice = "renice -n 19 -p $(ls /proc/20/task)";
        assert_eq!((remedy("1", 7), remedy("0", 8)), (nice.into(), nice.into()));
    }

    #[test]
    fn idle_cpus_refute_it() {
        assert!(find(&Measures::of_observed(&hogged([0.99, 0.4]))).is_empty());
    }

    #[test]
    fn one_busy_program_alone_is_use_not_a_fault() {
        let model =
            with([1.0, 1.0], vec![time(20, "solver", 9.8, 10.0), time(2, "sshd", 0.02, 0.01)]);
        assert!(find(&Measures::of_observed(&model)).is_empty());
    }

    #[test]
    fn a_poller_that_is_late_beside_a_busy_program_is_no_victim() {
        let model =
            with([1.0, 1.0], vec![time(20, "solver", 9.8, 10.0), time(2, "poller", 0.06, 0.7)]);
        assert!(find(&Measures::of_observed(&model)).is_empty());
    }

    #[test]
    fn who_is_starved_by_a_heavy_group_is_a_victim_however_little_he_runs() {
        let model = with([1.0, 1.0], vec![time(20, "miner", 9.7, 9.8), time(10, "web", 0.12, 4.7)]);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found[0].culprit.pid, Some(20));
        assert_eq!(found[0].victims[0].pid, 10);
    }

    #[test]
    fn equals_that_share_have_no_culprit() {
        let four = (0..4).map(|n| time(30 + n, "worker", 2.5, 2.5)).collect();
        assert!(find(&Measures::of_observed(&with([1.0, 1.0], four))).is_empty());
    }

    #[test]
    fn a_client_is_not_held_up_by_its_own_server() {
        let client = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "web".into() };
        let server = ThreadRef { tid: 20, pid: 20, start_ns: 0, comm: "miner".into() };
        let wait = Wait {
            thread: client,
            begin_ns: 1_000_000,
            end_ns: 9_000_000,
            place: Place { state: WaitState::Sleep, syscall: "read".into(), ..Place::default() },
            wake: Some(Wake {
                at_ns: 8_000_000,
                context: WakeContext::Task,
                by: server,
                ..Wake::default()
            }),
            ..Wait::default()
        };
        let facts = vec![
            time(10, "web", 1.6, 2.0),
            time(20, "miner", 8.2, 11.0),
            Fact { at_ns: 9_000_000, body: Body::Wait(wait) },
        ];
        assert!(find(&Measures::of_observed(&with([1.0, 1.0], facts))).is_empty());
    }

    #[test]
    fn a_heavy_group_among_many_is_named_by_what_it_gets() {
        let mut jobs: Vec<Fact> = (0..12).map(|n| time(30 + n, "cc1", 0.22, 4.7)).collect();
        jobs.extend([time(20, "miner", 7.2, 12.8), time(10, "web", 0.3, 3.0)]);
        let found = find(&Measures::of_observed(&with([1.0, 1.0], jobs)));
        assert_eq!(found[0].culprit.pid, Some(20));
    }

    #[test]
    fn one_of_many_jobs_does_not_use_the_cpus_up() {
        let mut jobs: Vec<Fact> = (0..5).map(|n| time(30 + n, "cc1", 1.4, 6.0)).collect();
        jobs.extend([time(20, "rustc", 2.6, 2.0), time(10, "web", 0.4, 3.0)]);
        assert!(find(&Measures::of_observed(&with([1.0, 1.0], jobs))).is_empty());
    }

    #[test]
    fn who_asked_to_come_last_is_no_victim() {
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "web".into() };
        let facts = vec![
            time(10, "web", 1.6, 2.0),
            time(20, "miner", 8.2, 11.0),
            Fact { at_ns: 0, body: Body::Thread(Thread { thread, nice: 19, ..Thread::default() }) },
        ];
        assert!(find(&Measures::of_observed(&with([1.0, 1.0], facts))).is_empty());
    }
}
