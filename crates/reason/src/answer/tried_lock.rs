//! A lock that a process tries to take again and again, where no try fell into the look: the sentence of a look that would else say that it sleeps on
//! purpose.
//!
//! A try shows what is tried, and rules/lock/polled.rs names it. Between two of them nothing but the functions on its stack says so, and a pause may last
//! a minute. Must not: say which lock it is, or who has it.

use crate::facts::TargetKind;
use crate::measure::Measures;
use crate::model::words;
use crate::programs::takes_lock_by_trying;
use crate::waits::WaitClass;

/// Title and paragraph, if the main thread of the process that was asked about sleeps so as the look ends.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?;
    let main = model.threads.thread_ref(asked.pid);
    let last = measures.graph.waits_of(&main).last()?;
    let sleeps = last.standing && last.class == WaitClass::Timer;
    let stack = model.user_stack(&main, last.begin_ns, last.end_ns).filter(|_| sleeps)?;
    let frame = stack.frames.iter().find(|frame| takes_lock_by_trying(frame))?;
    let who = words::who(&main);
    let place = format!("{}() of {}", frame.function, frame.place());
    Some((
        format!("{who} waits for a lock that it tries to take between sleeps."),
        format!(
            "It stands in {place}. What it tries and who has that was not seen: a look that lasts longer than its sleep sees it try."
        ),
    ))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Answer;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// What is said of process 10, which sleeps in this function.
    fn sleeping_in(function: &str, syscall: &str) -> Answer {
        let frame = |function: &str, module: &str, line| UserFrame {
            function: function.into(),
            module: module.into(),
            line,
        };
        let frames = vec![
            frame("clock_nanosleep", "libc.so.6", 0),
            frame("Timer.sleep", "locking.py", 57),
            frame(function, "locking.py", 147),
            frame("main", "app.py", 5),
        ];
        let thread = thread(10, "app");
        let stack = UserStack { thread, frames, complete: true, ..UserStack::default() };
        let stands = blocked(10, "app", WaitState::Sleep, syscall);
        let stack = Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) };
        explain([host(), vec![of_process(10, "app"), stands, stack]].concat()).answer
    }

    #[test]
    fn who_sleeps_between_tries_for_a_lock_is_not_called_idle() {
        let answer = sleeping_in("ExclusiveLock.acquire", "clock_nanosleep");
        assert_eq!(answer.title, "app 10 waits for a lock that it tries to take between sleeps.");
        let place = "It stands in ExclusiveLock.acquire() of locking.py:147.";
        assert!(answer.text.starts_with(place), "{}", answer.text);
    }

    #[test]
    fn who_only_sleeps_or_waits_for_work_is() {
        let sleeps = sleeping_in("Backup.run", "clock_nanosleep");
        assert!(sleeps.title.starts_with("app 10 is idle"), "{}", sleeps.title);
        let waits = sleeping_in("ExclusiveLock.acquire", "epoll_wait");
        assert!(waits.title.starts_with("app 10 is idle"), "{}", waits.title);
    }
}
