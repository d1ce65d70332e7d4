//! Conserved time: where the wall time of a target went, in parts that add up, and what is left over.
//!
//! For a command the parts are the leaves of its critical path. For a host, process or container they are
//! thread-seconds: each thread's sums (running, ready, asleep) from the scheduler, with the long waits reported
//! by class and object, and the rest of the sums as short waits. The residual is what the two sources
//! disagree about; it is shown, and a caveat says so if it is more than a thousandth.

use crate::answer::report::{Accounting, ObjectName, Part};
use crate::answer::{own_threads, unwoken};
use crate::facts::{Ns, TargetKind, ThreadTime};
use crate::graph::end::EndKind;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;
use std::collections::BTreeMap;

/// Parts reported one by one; the rest is summed by class.
const PARTS_MAX: usize = 24;

/// What a part's time was spent on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartObject {
    /// An object.
    Of(Object),
    /// Kind and name of what has no identity: why it was idle.
    Words(&'static str, &'static str),
}

impl PartObject {
    /// What a person calls it.
    pub fn name(&self, model: &Model) -> ObjectName {
        match self {
            Self::Of(object) => model.name_of(object),
            Self::Words(kind, words) => ObjectName::new(kind, *words),
        }
    }
}

/// What makes time one part: the word of its class, and what it was spent on.
pub type PartKey = (&'static str, PartObject);

/// Accounts for the target's time.
pub fn account(measures: &Measures<'_>) -> Accounting {
    let (wall_seconds, divided) = divided(measures);
    let mut parts: BTreeMap<(String, ObjectName), f64> = BTreeMap::new();
    for ((class, object), seconds) in divided {
        let name = object.name(measures.model);
        *parts.entry((class.to_string(), name)).or_default() += seconds;
    }
    let reported: f64 = parts.values().sum();
    Accounting { wall_seconds, parts: largest(parts), residual_seconds: wall_seconds - reported }
}

/// What the parts add up to, seconds, and every part of it.
pub fn divided(measures: &Measures<'_>) -> (f64, BTreeMap<PartKey, f64>) {
    let mut parts = BTreeMap::new();
    let wall_seconds = if measures.is_command() {
        critical_path(measures, &mut parts);
        measures.wall_seconds()
    } else {
        thread_seconds(measures, &mut parts)
    };
    (wall_seconds, parts)
}

fn critical_path(measures: &Measures<'_>, parts: &mut BTreeMap<PartKey, f64>) {
    for end in &measures.graph.ends {
        let part = path_part(measures.model, end.kind, end.class, &end.object);
        *parts.entry(part).or_default() += end.seconds;
    }
}

/// The part that a command's time at an end is of.
pub fn path_part(model: &Model, kind: EndKind, class: WaitClass, object: &Object) -> PartKey {
    // A script runs one program many times: together they are one part.
    let object = match object {
        Object::Process(pid) => Object::Processes(model.threads.process_name(*pid).as_str().into()),
        object => object.clone(),
    };
    let word = match (kind, class) {
        (EndKind::Open, _) => "open",
        (EndKind::Sleep, class) if !class.is_root() => WaitClass::Timer.word(),
        // An event or a shared word is how it waits, and not for what.
        (EndKind::Lock, WaitClass::Idle | WaitClass::FutexWait) => "lock",
        (EndKind::Person, WaitClass::Idle) => "person",
        (_, class) => class.word(),
    };
    (word, PartObject::Of(object))
}

/// A piece of a thread's time, as it is accounted for.
pub struct ThreadPart<'a> {
    /// Whose.
    pub time: &'a ThreadTime,
    /// The word of the part's class.
    pub class: &'static str,
    /// What it was spent on.
    pub object: PartObject,
    /// How long.
    pub ns: Ns,
    /// The wait that it is of, if it is of one that was seen.
    pub wait: Option<&'a WaitSpan>,
}

fn thread_seconds(measures: &Measures<'_>, parts: &mut BTreeMap<PartKey, f64>) -> f64 {
    each_thread_part(measures, &mut |part| {
        *parts.entry((part.class, part.object)).or_default() += part.ns as f64 / 1e9;
    })
}

/// Shows every piece of the time of what is looked at, of all but commands, and returns what they add up to, seconds.
pub fn each_thread_part<'a>(measures: &Measures<'a>, each: &mut dyn FnMut(ThreadPart<'a>)) -> f64 {
    let model = measures.model;
    let is_process = model.look.target.as_ref().is_some_and(|it| it.kind == TargetKind::Process);
    let is_unwoken =
        is_process && (unwoken::is_all_of_it(measures) || own_threads::said(measures).is_some());
    let mut wall = 0.0;
    for time in &model.threads.times {
        if time.kernel || !model.in_target(&time.thread) {
            continue;
        }
        let mut add = |class, object, ns: Ns, wait| {
            if ns > 0 {
                each(ThreadPart { time, class, object, ns, wait });
            }
        };
        wall += time.until_ns.saturating_sub(time.since_ns) as f64 / 1e9;
        add("running", PartObject::Words("CPU", "CPU"), time.run_ns, None);
        let quota = time.throttled_ns.min(time.runnable_ns);
        add("CPU quota", PartObject::Words("cgroup", ""), quota, None);
        add("run queue", PartObject::Words("run queue", "CPU"), time.runnable_ns - quota, None);
        let long = long_waits(measures, time, is_unwoken, &mut add);
        let asleep = time.sleep_ns + time.disk_sleep_ns;
        add("short waits", PartObject::Words("", ""), asleep.saturating_sub(long), None);
    }
    wall
}

/// Tells a thread's long blocked waits, and returns how much of its sleep they are; never more than
/// the scheduler counted. Of a process that stands still (`is_unwoken`) what it waits at is no rest.
fn long_waits<'a>(
    measures: &Measures<'a>,
    time: &'a ThreadTime,
    is_unwoken: bool,
    add: &mut impl FnMut(&'static str, PartObject, Ns, Option<&'a WaitSpan>),
) -> Ns {
    let mut left = time.sleep_ns + time.disk_sleep_ns;
    let before = left;
    let model = measures.model;
    for wait in measures.timelines.of(model.threads.key_at(&time.thread, time.until_ns)) {
        if matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota) {
            continue;
        }
        let ns = wait.within_ns(time.since_ns, time.until_ns).min(left);
        left -= ns;
        let (class, object) = match wait.class {
            // An event or a shared word is how it waits, and not for what.
            WaitClass::FutexWait | WaitClass::Idle if is_inside_a_server(measures, wait) => {
                ("lock", PartObject::Of(Object::Inside(wait.thread.pid)))
            }
            _ if measures.graph.is_for_a_turn(wait, (time.since_ns, time.until_ns)) => {
                ("idle", PartObject::Words("work", "waits for work"))
            }
            // The answer says that it stands there, and nobody woke it.
            WaitClass::FutexWait if is_unwoken => {
                (wait.class.word(), PartObject::Words("thread", "not woken"))
            }
            WaitClass::Timer => ("idle", PartObject::Words("timer", "sleeps on purpose")),
            WaitClass::FutexWait => ("idle", PartObject::Words("thread", "waits for a thread")),
            WaitClass::Idle => ("idle", PartObject::Words("work", "waits for work")),
            // Waiting for somebody is no waiting on the pipe or the child: the object would mislead.
            class if class.is_for_somebody() => (class.word(), PartObject::Words("", "")),
            class => (class.word(), PartObject::Of(wait.object.clone())),
        };
        add(class, object, ns, Some(wait));
    }
    before - left
}

/// Whether a session of a server waits for what other sessions have, or processes of the server bring about: by its functions, or its own
/// table. That is never work.
fn is_inside_a_server(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let kind = lock_kind_of(measures.model, &wait.thread, wait.begin_ns, wait.end_ns);
    kind.is_some_and(|kind| kind.is_of_a_session() || kind.is_of_a_server())
}

fn largest(parts: BTreeMap<(String, ObjectName), f64>) -> Vec<Part> {
    let mut all: Vec<Part> = parts
        .into_iter()
        .map(|((class, object), seconds)| Part { class, object, seconds })
        .collect();
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.object.cmp(&b.object)));
    if all.len() > PARTS_MAX {
        let mut rest: BTreeMap<String, f64> = BTreeMap::new();
        for part in all.drain(PARTS_MAX..) {
            *rest.entry(part.class).or_default() += part.seconds;
        }
        all.extend(rest.into_iter().map(|(class, seconds)| Part {
            class,
            object: ObjectName::new("", "others"),
            seconds,
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// The words of the parts of process 10's time, which waits for an event in these functions all the look.
    fn classes(functions: &[&str]) -> Vec<String> {
        let frame = |function: &&str| UserFrame {
            function: (*function).into(),
            module: "db".into(),
            ..UserFrame::default()
        };
        let (thread, sleep_ns) = (thread(10, "db"), LOOK_NS);
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: thread.clone(), since_ns: 0, frames, complete: true };
        let time = ThreadTime { thread, until_ns: LOOK_NS, sleep_ns, ..ThreadTime::default() };
        let mut facts = host();
        facts.extend([
            of_process(10, "db"),
            blocked(10, "db", WaitState::Sleep, "epoll_wait"),
            Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) },
            fact(Body::ThreadTime(time)),
        ]);
        explain(facts).accounting.parts.into_iter().map(|part| part.class).collect()
    }

    #[test]
    fn a_session_that_waits_for_another_s_lock_is_not_idle_in_the_table() {
        assert_eq!(classes(&["WaitLatch", "ProcSleep", "XactLockTableWait"]), ["lock"]);
        assert_eq!(classes(&["WaitEventSetWait", "secure_read"]), ["idle"]);
    }
}
