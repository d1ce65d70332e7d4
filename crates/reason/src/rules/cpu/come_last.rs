//! How to let one process come after another: by the weight of its group, by its session, or by its nice value.
//!
//! Nice values count within one group; between groups, and so between containers, their weights do. Where the kernel
//! makes a group of each session (autogroup, of the threads in no other group), the session has a nice value of its own.

use crate::facts::{Cgroup, Thread, ThreadRef};
use crate::model::membership::is_below;
use crate::model::{Model, words};
use crate::rules::action::{Action, ActionKind};
use crate::rules::wording::Remedy;

/// The least weights that the kernel takes, by the file's name (v2, v1).
const LEAST: [(&str, u64); 2] = [("cpu.weight", 1), ("cpu.shares", 2)];

/// The file of a group's weight, and the least that may be written there.
pub(super) fn least(group: &Cgroup) -> (&'static str, u64) {
    LEAST[usize::from(!group.controllers.is_empty())]
}

/// Lets a process come after another.
pub(super) fn come_last(model: &Model, hurt: &ThreadRef, by: &ThreadRef) -> Remedy {
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

/// Lets all processes of one name come after another: those that are there when the command is run.
pub(super) fn all(model: &Model, hurt: &ThreadRef, example: &ThreadRef, name: &str) -> Remedy {
    if let Some(group) = group_beside(model, hurt, example) {
        return of_group(model, group);
    }
    // pgrep takes a pattern; a hostile name is none.
    let escape = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\{c}") };
    let pattern: String = name.chars().map(escape).collect();
    let pids = format!("pgrep -x -- {}", words::shell(&pattern));
    if is_session_apart(model, hurt, example) {
        let write =
            |nice| format!("for pid in $({pids}); do echo {nice} > /proc/$pid/autogroup; done");
        return Remedy {
            text: "let their sessions come last, or run fewer of them at a time".into(),
            command: write(19),
            undo: write(0),
            ..Remedy::default()
        };
    }
    let nice = model.threads.identity(example).map_or(0, |known| known.nice);
    Remedy {
        text: "let them come last, or run fewer of them at a time".into(),
        command: format!("renice -n 19 -p $({pids})"),
        undo: format!("renice -n {nice} -p $({pids})"),
        ..Remedy::default()
    }
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
    let is_in_no_other = model.cgroup_of(by, "cpu").is_none_or(|group| group.path == "/");
    on && is_in_no_other && own.is_some() && session(hurt).is_some_and(|theirs| Some(theirs) != own)
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
            let model = Model::new(vec![autogroup(value), member(10, 7), member(20, session)]);
            let thread = |tid| ThreadRef { tid, pid: tid, ..ThreadRef::default() };
            come_last(&model, &thread(10), &thread(20)).command
        };
        assert_eq!(remedy("1", 8), "echo 19 > /proc/20/autogroup");
        let nice = "renice -n 19 -p $(ls /proc/20/task)";
        assert_eq!((remedy("1", 7), remedy("0", 8)), (nice.into(), nice.into()));
    }
}
