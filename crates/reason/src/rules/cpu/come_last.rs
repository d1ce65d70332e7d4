//! How to let one process come after another: by the weight of its group, by its session, or by its nice value.
//!
//! Nice values count within one group; between groups, and so between containers, their weights do. Where the kernel
//! makes a group of each session (autogroup, of the threads in no other group), the session has a nice value of its own.
//! None of the three counts for a thread under a real-time or deadline policy: that takes the usual policy first.
//! Must not: let whoever waits come last as well.

use super::cpu_waits::{SCHED_DEADLINE, SCHED_FIFO, has_real_time_policy};
use crate::facts::{Cgroup, Thread, ThreadRef};
use crate::model::membership::is_below;
use crate::model::{Model, words};
use crate::rules::action::{Action, ActionKind};
use crate::rules::group_limits::above;
use crate::rules::wording::Remedy;
use std::collections::BTreeSet;

/// The least weights that the kernel takes, by the file's name (v2, v1).
const LEAST: [(&str, u64); 2] = [("cpu.weight", 1), ("cpu.shares", 2)];

/// Waiting processes of the very name that a command leaves out one by one.
const LEFT_OUT_MAX: usize = 8;

/// The file of a group's weight, and the least that may be written there.
pub(super) fn least(group: &Cgroup) -> (&'static str, u64) {
    LEAST[usize::from(!group.controllers.is_empty())]
}

/// Lets a process come after another.
pub(super) fn come_last(model: &Model, hurt: &ThreadRef, by: &ThreadRef) -> Remedy {
    if let Some(usual) = usual_policy(model, by) {
        return usual;
    }
    if let Some(group) = group_beside(model, hurt, by) {
        return of_group(model, group);
    }
    if is_session_apart(model, hurt, by) {
        let file = format!("/proc/{}/autogroup", by.pid);
        let text = "let its session come last (a nice value counts within one)";
        let action = Action::write(&file, 19, 0).through(Some(by));
        return Remedy::to(text).write(&file, 19, 0).acting(action);
    }
    let nice = model.threads.identity(by).map_or(0, |known| known.nice);
    // The nice value is a thread's own: that of the first thread alone would change little.
    Remedy::to("let it come last").set(
        Action::set(ActionKind::Nice, by, 19, nice),
        format!("renice -n 19 -p $(ls /proc/{}/task)", by.pid),
        format!("renice -n {nice} -p $(ls /proc/{}/task)", by.pid),
    )
}

/// Gives the threads of a process that are under a real-time or deadline policy the usual one; none if there are none, or if others of
/// the process are who ran.
fn usual_policy(model: &Model, by: &ThreadRef) -> Option<Remedy> {
    let own = || model.threads.by_id.values().filter(|known| known.thread.pid == by.pid);
    let urgent: Vec<&Thread> = own().filter(|known| has_real_time_policy(known)).collect();
    let first = urgent.first()?;
    if !are_who_ran(model, by, &urgent) {
        return None;
    }
    let is_same = |it: &&&Thread| (it.policy, it.rt_priority) == (first.policy, first.rt_priority);
    let before = first.rt_priority.filter(|_| urgent.iter().all(|it| is_same(&it)));
    let (policy, option) = match first.policy {
        SCHED_FIFO => ("FIFO", "-f"),
        SCHED_DEADLINE => ("DEADLINE", "-d"),
        _ => ("RR", "-r"),
    };
    // One that is not urgent must not become so by the undo.
    let are_all = urgent.len() == own().count();
    let tids: Vec<String> = urgent.iter().map(|it| it.thread.tid.to_string()).collect();
    let set = |option: &str, priority: u32| match (are_all, &tids[..]) {
        (true, _) => format!("chrt -a {option} -p {priority} {}", by.pid),
        (false, [tid]) => format!("chrt {option} -p {priority} {tid}"),
        (false, _) => {
            format!("for tid in {}; do chrt {option} -p {priority} $tid; done", tids.join(" "))
        }
    };
    let text = format!(
        "give it the usual policy: under SCHED_{policy} it comes before all others, and no nice value or weight counts"
    );
    let mut action = Action::set(ActionKind::Policy, by, "other", policy.to_lowercase());
    if before.is_none() {
        action.undo = None;
    }
    let undo = before.map_or_else(String::new, |priority| set(option, priority));
    Some(Remedy::to(text).set(action, set("-o", 0), undo))
}

/// Whether threads had more than half of the time that their process ran: an idle one that is urgent holds up nobody, and the others come
/// last by their nice values. True where no time is known.
fn are_who_ran(model: &Model, by: &ThreadRef, threads: &[&Thread]) -> bool {
    let (mut all_ns, mut own_ns) = (0u64, 0u64);
    for time in model.threads.times.iter().filter(|time| time.thread.pid == by.pid) {
        all_ns = all_ns.saturating_add(time.run_ns);
        if threads.iter().any(|it| it.thread.tid == time.thread.tid) {
            own_ns = own_ns.saturating_add(time.run_ns);
        }
    }
    all_ns == 0 || own_ns > all_ns / 2
}

/// Lets all processes of one name come after others: those that are there when the command is run, but for these that wait.
pub(super) fn all(
    model: &Model,
    waiting: &BTreeSet<u32>,
    hurt: &ThreadRef,
    example: &ThreadRef,
    name: &str,
) -> Remedy {
    let is_of_it = |pid: &u32| model.threads.process_name(*pid) == name;
    let same: Vec<String> =
        waiting.iter().filter(|pid| is_of_it(pid)).map(u32::to_string).collect();
    let known = || model.threads.by_id.values().map(|known| &known.thread);
    let ran = || model.threads.times.iter().map(|time| &time.thread);
    let mut all = known().chain(ran()).map(|thread| thread.pid);
    let is_other_left = all.any(|pid| is_of_it(&pid) && !waiting.contains(&pid));
    // Where whoever would come last is who waits, none of them gains by it.
    let fewer = || Remedy::to("run fewer of them at a time");
    if !is_other_left {
        return fewer();
    }
    if let Some(group) = group_beside(model, hurt, example) {
        return of_group(model, group);
    }
    if same.len() > LEFT_OUT_MAX {
        return fewer();
    }
    // pgrep takes a pattern; a hostile name is none.
    let escape = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\{c}") };
    let pattern: String = name.chars().map(escape).collect();
    let all = format!("pgrep -x -- {}", words::shell(&pattern));
    let pids = match same.is_empty() {
        true => all,
        false => format!("{all} | grep -vxE '{}'", same.join("|")),
    };
    if is_session_apart(model, hurt, example) && !shares_session(model, waiting, name) {
        let write =
            |nice| format!("for pid in $({pids}); do echo {nice} > /proc/$pid/autogroup; done");
        return Remedy {
            text: "let their sessions come last, or run fewer of them at a time".into(),
            command: write(19),
            undo: write(0),
            ..Remedy::default()
        };
    }
    let of_it = model.threads.by_id.values().filter(|known| is_of_it(&known.thread.pid));
    let nices: BTreeSet<_> = of_it.map(|known| known.nice).collect();
    // renice takes threads: a process's number is that of its first one alone.
    let threads = format!("$(for pid in $({pids}); do ls /proc/$pid/task; done)");
    let set = |nice| format!("renice -n {nice} -p {threads}");
    Remedy {
        text: "let them come last, or run fewer of them at a time".into(),
        command: set(19),
        undo: match nices.first().filter(|_| nices.len() == 1) {
            Some(nice) => set(*nice),
            None => String::new(),
        },
        ..Remedy::default()
    }
}

/// Whether some process of a name is in a session with one that waits: its session is not to come last.
fn shares_session(model: &Model, waiting: &BTreeSet<u32>, name: &str) -> bool {
    let session = |pid: &u32| model.threads.by_id.get(pid).map(|known| known.session);
    let theirs: BTreeSet<u32> = waiting.iter().filter_map(session).collect();
    let all = model.threads.by_id.values().filter(|known| known.thread.tid == known.thread.pid);
    let mut of_it = all.filter(|known| known.thread.comm == name);
    of_it.any(|known| theirs.contains(&known.session))
}

/// Lets a group come last, whose weight is known.
fn of_group(model: &Model, (group, weight): (&Cgroup, u64)) -> Remedy {
    if weight == 0 {
        let of = model.containers.group_in_words(&group.path);
        return Remedy::to(format!(
            "its {of} comes last already (cpu.idle): run it at another time"
        ));
    }
    let (name, least) = least(group);
    let file = format!("{}/{name}", group.directory.trim_end_matches('/'));
    let text = format!("let its {} come last", model.containers.group_in_words(&group.path));
    Remedy::to(text).write(&file, least, weight)
}

/// The culprit's session is a group of its own to the scheduler, and not the victim's (sched(7), "The autogroup
/// feature").
pub(super) fn is_session_apart(model: &Model, hurt: &ThreadRef, by: &ThreadRef) -> bool {
    let on =
        model.net.sysctls.get("kernel.sched_autogroup_enabled").is_some_and(|value| value == "1");
    let session = |thread: &ThreadRef| model.threads.identity(thread).map(|known| known.session);
    let own = session(by).filter(|session| *session != 0);
    on && is_in_no_other_group(model, by)
        && own.is_some()
        && session(hurt).is_some_and(|theirs| Some(theirs) != own)
}

/// The scheduler's own group of a thread is the root: of cgroup v2 the nearest above that has the controller for it counts, which may be none.
fn is_in_no_other_group(model: &Model, by: &ThreadRef) -> bool {
    let has_no_weight = |own: &Cgroup| {
        let mut all = above(model, own).into_iter().chain([own]);
        all.all(|group| group.path == "/" || group.cpu_weight.is_none())
    };
    model
        .cgroup_of(by, "cpu")
        .is_none_or(|own| own.path == "/" || own.controllers.is_empty() && has_no_weight(own))
}

/// The outermost group of the culprit that the victim is not in, with its weight: there the two compete.
pub(super) fn group_beside<'a>(
    model: &'a Model,
    hurt: &ThreadRef,
    by: &ThreadRef,
) -> Option<(&'a Cgroup, u64)> {
    let own = model.cgroup_of(by, "cpu")?;
    let member = |known: &'a Thread| {
        known.cgroups.iter().find(|m| m.controllers == own.controllers).map(|m| m.path.as_str())
    };
    let of_victim = model.threads.identity(hurt).and_then(member).unwrap_or("/");
    let beside = model.containers.cgroups.iter().filter(|group| {
        group.controllers == own.controllers
            && is_below(&own.path, &group.path)
            && !is_below(of_victim, &group.path)
    });
    let outermost = beside.min_by_key(|group| group.path.len())?;
    Some((outermost, outermost.cpu_weight?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;

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
    fn one_under_a_real_time_policy_gets_the_usual_one_and_only_where_it_has_it() {
        let member = |tid, policy, rt_priority| {
            let thread = ThreadRef { tid, pid: 20, ..ThreadRef::default() };
            let body = Body::Thread(Thread { thread, policy, rt_priority, ..Thread::default() });
            Fact { at_ns: 0, body }
        };
        let remedy = |threads: Vec<Fact>| {
            let thread = |tid| ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            let way = come_last(&Model::new(threads), &thread(10), &thread(20));
            (way.command, way.undo)
        };
        let both = |command: &str, undo: &str| (command.to_string(), undo.to_string());
        let all = remedy(vec![member(20, 1, Some(50)), member(21, 1, Some(50))]);
        assert_eq!(all, both("chrt -a -o -p 0 20", "chrt -a -f -p 50 20"));
        let one = remedy(vec![member(20, 0, None), member(21, 2, Some(7))]);
        assert_eq!(one, both("chrt -o -p 0 21", "chrt -r -p 7 21"));
        let several = vec![member(20, 0, None), member(21, 2, Some(7)), member(22, 1, Some(9))];
        let command = "for tid in 21 22; do chrt -o -p 0 $tid; done";
        assert_eq!(remedy(several), both(command, ""));
        assert_eq!(remedy(vec![member(20, 6, None)]), both("chrt -a -o -p 0 20", ""));
        assert!(remedy(vec![member(20, 3, None)]).0.starts_with("renice"));
    }

    #[test]
    fn an_idle_thread_under_a_real_time_policy_does_not_stand_for_the_others_that_run() {
        let command = |usual_ns, urgent_ns| {
            let thread = |tid| ThreadRef { tid, pid: 20, ..ThreadRef::default() };
            let member = |tid, policy, rt_priority| {
                let thread = thread(tid);
                let body =
                    Body::Thread(Thread { thread, policy, rt_priority, ..Thread::default() });
                Fact { at_ns: 0, body }
            };
            let ran = |tid, run_ns| {
                let thread = thread(tid);
                let time = ThreadTime { thread, run_ns, ..ThreadTime::default() };
                Fact { at_ns: 0, body: Body::ThreadTime(time) }
            };
            let facts = vec![
                member(20, 0, None),
                member(21, 2, Some(7)),
                ran(20, usual_ns),
                ran(21, urgent_ns),
            ];
            let hurt = ThreadRef { tid: 10, pid: 10, ..ThreadRef::default() };
            come_last(&Model::new(facts), &hurt, &thread(20)).command
        };
        assert!(command(1_000, 1).starts_with("renice"));
        assert_eq!(command(1, 1_000), "chrt -o -p 0 21");
        assert_eq!(command(0, 0), "chrt -o -p 0 21", "who ran is not known");
    }

    #[test]
    fn whoever_waits_is_left_out_of_those_of_its_name() {
        let member = |pid| {
            let thread = ThreadRef { tid: pid, pid, comm: "gzip".into(), ..ThreadRef::default() };
            Fact { at_ns: 0, body: Body::Thread(Thread { thread, ..Thread::default() }) }
        };
        let model = Model::new((10..42).map(member).collect());
        let of = |waiting: std::ops::Range<u32>, hurt: u32| {
            let waiting: BTreeSet<u32> = waiting.collect();
            let thread = |pid| model.threads.thread_ref(pid);
            all(&model, &waiting, &thread(hurt), &thread(41), "gzip").command
        };
        let renice = |pids: &str| {
            format!("renice -n 19 -p $(for pid in $({pids}); do ls /proc/$pid/task; done)")
        };
        assert_eq!(of(10..11, 10), renice("pgrep -x -- gzip | grep -vxE '10'"));
        assert_eq!(of(5..6, 5), renice("pgrep -x -- gzip"));
        assert_eq!(of(10..42, 10), "", "of equals none gains");
    }

    fn member(tid: u32, session: u32, group: &str) -> Fact {
        let thread = ThreadRef { tid, pid: tid, ..ThreadRef::default() };
        let cgroups = vec![Membership { controllers: Vec::new(), path: group.into() }];
        let body = Body::Thread(Thread { thread, session, cgroups, ..Thread::default() });
        Fact { at_ns: 0, body }
    }

    fn autogroup(value: &str) -> Fact {
        let name = "kernel.sched_autogroup_enabled".into();
        Fact { at_ns: 0, body: Body::Sysctl(Sysctl { name, value: value.into() }) }
    }

    #[test]
    fn a_group_without_a_weight_is_none_to_the_scheduler_and_the_session_counts() {
        let remedy = |cpu_weight: [Option<u64>; 2]| {
            let paths = ["/user.slice", "/user.slice/session-1.scope"];
            let group = |at: usize| Cgroup {
                path: paths[at].into(),
                directory: format!("/sys/fs/cgroup{}", paths[at]),
                cpu_weight: cpu_weight[at],
                ..Cgroup::default()
            };
            let group = |at| Fact { at_ns: 0, body: Body::Cgroup(group(at)) };
            let members = [member(10, 7, "/user.slice"), member(20, 8, paths[1])];
            let facts = [autogroup("1"), group(0), group(1)].into_iter().chain(members);
            let thread = |tid| ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            come_last(&Model::new(facts.collect()), &thread(10), &thread(20)).command
        };
        assert_eq!(remedy([None, None]), "echo 19 > /proc/20/autogroup");
        assert_eq!(remedy([Some(100), None]), "renice -n 19 -p $(ls /proc/20/task)");
        let weight = "echo 1 > /sys/fs/cgroup/user.slice/session-1.scope/cpu.weight";
        assert_eq!(remedy([Some(100), Some(100)]), weight);
    }

    #[test]
    fn a_hog_of_another_session_is_held_back_as_a_session() {
        let remedy = |value: &str, session| {
            let model =
                Model::new(vec![autogroup(value), member(10, 7, "/"), member(20, session, "/")]);
            let thread = |tid| ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            come_last(&model, &thread(10), &thread(20)).command
        };
        assert_eq!(remedy("1", 8), "echo 19 > /proc/20/autogroup");
        let nice = "renice -n 19 -p $(ls /proc/20/task)";
        assert_eq!((remedy("1", 7), remedy("0", 8)), (nice.into(), nice.into()));
    }
}
