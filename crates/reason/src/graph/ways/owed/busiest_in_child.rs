//! Who waits for a process waits for all that is in it: if its main thread only rests, the thread of it that rested least.
//!
//! Or of what it has begun, for more than half of the time at work (a launcher's job whose main thread pauses, waits for a signal or
//! joins). Must not: be asked where the asker does not wait for a process to end.

use crate::graph::next::{Next, Until};
use crate::graph::serving::busiest_with;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "busiest of the process",
    because: "of the process that is waited for it rested least",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    const HALF: u64 = 2;
    let Some(Until::Wait(of_asker)) = at.asker.map(|asker| asker.until) else { return None };
    let main = &at.wait.thread;
    if of_asker.class != WaitClass::Child || main.pid != main.tid {
        return None;
    }
    busiest_with(at.index, main, at.within, HALF).map(Next::Thread)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    /// A launcher waits for a job whose main thread pauses; another thread of the job works, or waits for work.
    fn launcher(second: Fact) -> Option<EndKind> {
        let mut place =
            Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
        place.args[0] = 20;
        let mut facts = host();
        facts.extend([
            identity(Thread { thread: thread(20, "job"), parent_pid: 10, ..Thread::default() }),
            at_place(10, "launcher", place),
            blocked(20, "job", WaitState::Sleep, "pause"),
            second,
        ]);
        let (kind, name) = (TargetKind::Process, "launcher".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        explain(facts).answer.ends.first().map(|end| end.end)
    }

    #[test]
    fn who_waits_for_a_process_waits_for_the_thread_of_it_that_works() {
        let worker = || ThreadRef { tid: 21, ..thread(20, "job") };
        let works = ThreadTime {
            thread: worker(),
            until_ns: LOOK_NS,
            run_ns: LOOK_NS * 9 / 10,
            ..ThreadTime::default()
        };
        assert_eq!(launcher(fact(Body::ThreadTime(works))), Some(EndKind::Works));
        let place = Place { state: WaitState::Sleep, syscall: "futex".into(), ..Place::default() };
        let rests = Blocked { thread: worker(), place, ..Blocked::default() };
        let end = launcher(Fact { at_ns: LOOK_NS, body: Body::Blocked(rests) });
        assert_ne!(end, Some(EndKind::Works));
    }
}
