//! Tests of retries.rs: which sleeps are for the next try of what was refused, by facts as a look has them.
//!
//! Apart from it for its length. Must not: hold scenes that others need (rules/scenes.rs).

use super::*;
use crate::rules::scenes::{host, identity, refusal, slept, thread};
use crate::waits::timeline::Observed;

const SECOND: Ns = 1_000_000_000;

/// What the sleeps of a look are for in which process 10 is refused a lock at these times.
fn classes(refused_ns: &[Ns], sleeps: Vec<Fact>) -> Vec<WaitClass> {
    let file = FileRef { ino: 9, ..FileRef::default() };
    let object = Some(ObjectRef::File(file));
    let denied = Denied { errno: EAGAIN, object, ..refusal(10, "job", "flock") };
    let at = |at_ns: &Ns| Fact { at_ns: *at_ns, body: Body::Denied(denied.clone()) };
    let facts = [host(), refused_ns.iter().map(at).collect(), sleeps].concat();
    let Observed { timelines, .. } = Observed::new(facts);
    timelines.waits().map(|wait| wait.class).collect()
}

fn sleep(begin_ns: Ns, end_ns: Ns) -> Fact {
    slept(10, "job", begin_ns, end_ns)
}

#[test]
fn sleeps_between_refusals_and_at_once_after_the_last_are_for_the_lock() {
    use WaitClass::{PolledLock, Timer};
    let sleeps = vec![
        sleep(SECOND / 2, SECOND - 1),
        sleep(SECOND + 1, 2 * SECOND - 1),
        sleep(2 * SECOND + 1, 3 * SECOND),
        sleep(3 * SECOND + 1, 4 * SECOND),
    ];
    // The two are one wait: next to nothing was done between them.
    let classes = classes(&[SECOND, 2 * SECOND], sleeps);
    assert_eq!(classes, [Timer, PolledLock, Timer]);
}

#[test]
fn a_short_sleep_in_long_work_between_two_refusals_is_its_own() {
    let sleeps = vec![sleep(SECOND + 1, 2 * SECOND)];
    assert_eq!(classes(&[SECOND, 4 * SECOND], sleeps), [WaitClass::Timer]);
}

#[test]
fn another_thread_that_sleeps_meanwhile_waits_for_nothing() {
    let mut other = sleep(SECOND + 1, 2 * SECOND - 1);
    if let Body::Wait(wait) = &mut other.body {
        wait.thread = ThreadRef { tid: 11, ..thread(10, "job") };
    }
    assert_eq!(classes(&[SECOND, 2 * SECOND], vec![other]), [WaitClass::Timer]);
}

/// The same of a file that process 10 has no right to open.
fn rights(paths: &[&str], refused_ns: &[Ns], sleeps: Vec<Fact>) -> Vec<WaitClass> {
    let denied = |path: &&str| Denied {
        errno: EACCES,
        path: Some((*path).into()),
        ..refusal(10, "job", "openat")
    };
    let at = |at_ns: &Ns| {
        let of = |path| Fact { at_ns: *at_ns, body: Body::Denied(denied(path)) };
        paths.iter().map(of).collect::<Vec<_>>()
    };
    let facts = [host(), refused_ns.iter().flat_map(at).collect(), sleeps].concat();
    let Observed { timelines, .. } = Observed::new(facts);
    timelines.waits().map(|wait| wait.class).collect()
}

#[test]
fn a_right_that_is_refused_is_waited_for_if_nothing_else_is_done() {
    let tries = [SECOND, 2 * SECOND];
    let sleeps = || vec![sleep(SECOND + 1, 2 * SECOND - 1)];
    assert_eq!(rights(&["/etc/shadow"], &tries, sleeps()), [WaitClass::RefusedRight]);
    let works = vec![sleep(SECOND + RIGHT_WORK_NS + 1, 2 * SECOND - 1)];
    assert_eq!(rights(&["/etc/shadow"], &tries, works), [WaitClass::Timer]);
}

#[test]
fn of_inotify_it_is_its_user_s_limit_that_is_met() {
    let denied = |syscall: &str| Denied { errno: EMFILE, ..refusal(10, "job", syscall) };
    let met = |syscall| refused(&Model::new(host()), &denied(syscall)).map(|it| it.1);
    assert_eq!(met("inotify_init1"), Some(Object::Limit("fs.inotify.max_user_instances")));
    assert_eq!(met("openat"), Some(Object::Limit("RLIMIT_NOFILE")));
}

#[test]
fn what_is_made_among_devices_takes_no_room() {
    let made = |path: &str| {
        let path = Some(path.to_string());
        let denied = Denied { errno: ENOSPC, path, ..refusal(10, "job", "openat") };
        refused(&Model::new(host()), &denied).map(|it| it.1)
    };
    assert_eq!(made("/srv/a"), Some(Object::Path("/srv".into())));
    assert_eq!(made("/dev/shm/a"), Some(Object::Path("/dev/shm".into())));
    assert_eq!(made("/devel/a"), Some(Object::Path("/devel".into())));
    assert_eq!((made("/dev/ptmx"), made("/sys/fs/cgroup/a")), (None, None));
}

#[test]
fn what_no_right_would_change_is_not_waited_for() {
    let denied = |syscall: &str| Denied { errno: EPERM, ..refusal(10, "job", syscall) };
    let waited_for = |syscall| refused(&Model::new(host()), &denied(syscall)).is_some();
    assert!(waited_for("mount"));
    assert!(!waited_for("epoll_ctl"), "a file that has no events");
    assert!(!waited_for("setsid"), "it is a leader already");
}

/// What the sleeps of a look are for in which process 10 asks after these.
fn asked_after(asked: &[(u32, Ns)], sleeps: Vec<Fact>) -> Vec<(WaitClass, Object)> {
    let lives = |&(pid, at_ns): &(u32, Ns)| {
        let args = [u64::from(pid), 0, 0, 0, 0, 0];
        let body = Body::Denied(Denied { errno: 0, args, ..refusal(10, "sh", "kill") });
        Fact { at_ns, body }
    };
    let facts = [host(), asked.iter().map(lives).collect(), sleeps].concat();
    let Observed { timelines, .. } = Observed::new(facts);
    timelines.waits().map(|wait| (wait.class, wait.object.clone())).collect()
}

#[test]
fn who_asks_again_and_again_whether_a_process_lives_waits_for_its_end() {
    let sleeps = || vec![sleep(SECOND + 1, 2 * SECOND - 1), sleep(3 * SECOND + 1, 4 * SECOND - 1)];
    let (first, second) = (Object::Process(20), Object::Process(21));
    let one_by_one = [(20, SECOND), (20, 2 * SECOND), (21, 3 * SECOND), (21, 4 * SECOND)];
    let expected = [(WaitClass::ProcessEnd, first), (WaitClass::ProcessEnd, second)];
    assert_eq!(asked_after(&one_by_one, sleeps()), expected);
}

#[test]
fn who_asks_after_several_in_turn_or_after_its_parent_watches_over_them() {
    let mut facts = vec![sleep(SECOND + 2, 2 * SECOND - 1)];
    let in_turn = [(20, SECOND), (21, SECOND + 1), (20, 2 * SECOND), (21, 2 * SECOND + 1)];
    assert_eq!(asked_after(&in_turn, facts.clone())[0].0, WaitClass::Timer);
    let of_one = [(20, SECOND), (20, 2 * SECOND)];
    let known = Thread { thread: thread(10, "sh"), parent_pid: 20, ..Thread::default() };
    facts.push(identity(known));
    assert_eq!(asked_after(&of_one, facts)[0].0, WaitClass::Timer);
}

#[test]
fn who_sends_a_signal_asks_after_nobody() {
    let sent = |args| Denied { errno: 0, args, ..refusal(10, "sh", "kill") }.asked_after();
    assert_eq!(sent([20, 0, 0, 0, 0, 0]), Some(20));
    assert_eq!(sent([20, 15, 0, 0, 0, 0]), None);
    assert_eq!(sent([(-20_i32).cast_unsigned().into(), 0, 0, 0, 0, 0]), None, "a group");
}

#[test]
fn whoever_is_refused_many_rights_looks_around() {
    let tries = [SECOND, 2 * SECOND];
    let sleeps = vec![sleep(SECOND + 1, 2 * SECOND - 1)];
    let paths = ["/proc/1/io", "/proc/2/io", "/proc/3/io", "/proc/4/io"];
    assert_eq!(rights(&paths, &tries, sleeps), [WaitClass::Timer]);
}

#[test]
fn one_try_is_no_polling() {
    let sleeps = vec![sleep(SECOND + 1, 4 * SECOND)];
    assert_eq!(classes(&[SECOND], sleeps), [WaitClass::Timer]);
}

#[test]
fn a_child_that_sleeps_on_beyond_the_next_try_sleeps_for_itself() {
    let child = ThreadRef { start_ns: SECOND + 2, ..thread(20, "server") };
    let known = Thread { thread: child.clone(), parent_pid: 10, ..Thread::default() };
    let mut on = slept(20, "server", SECOND + 200_000, 2 * SECOND + SECOND / 2);
    if let Body::Wait(wait) = &mut on.body {
        wait.thread = child;
    }
    let sleeps = vec![identity(known), sleep(SECOND + 1, 2 * SECOND - 1), on];
    let found = asked_after(&[(30, SECOND), (30, 2 * SECOND), (30, 3 * SECOND)], sleeps);
    let mut classes: Vec<WaitClass> = found.into_iter().map(|(class, _)| class).collect();
    classes.sort_by_key(|class| *class == WaitClass::Timer);
    assert_eq!(classes, [WaitClass::ProcessEnd, WaitClass::Timer]);
}
