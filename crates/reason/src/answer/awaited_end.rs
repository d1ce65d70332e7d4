//! A process that was asked about and waits for the end of another, or asks again and again whether that has ended, where that one rests: the sentence of
//! a look that would else call it idle.
//!
//! Whoever stops a server so waits for its clients, its own work or a person, and nothing of that is late for all that is known: so it is said for whose end
//! it is, and that one is what to look at. Must not: follow it (graph/), or say that it is late. Who only watches over another looks the same, so of a wait
//! between two looks no more is said than that. Edit together: waits/retries.rs (which sleeps are for that), standing.rs.

use super::semaphores::does_main;
use crate::facts::{Ns, TargetKind};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{lifetimes, words};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Part of the look that is most of it.
const MOST: f64 = 0.5;

/// Title and paragraph, if the main thread of the process that was asked about has waited so for most of the look.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?.pid;
    let main = model.threads.thread_ref(asked);
    let waits = measures.graph.waits_of(&main);
    let is_it = |wait: &&WaitSpan| wait.class == WaitClass::ProcessEnd;
    let last = waits.iter().rfind(is_it)?;
    let Object::Process(pid) = last.object else { return None };
    let of_it = waits.iter().filter(is_it).filter(|wait| wait.object == last.object);
    let waited: Ns = of_it.map(|it| it.within_ns(model.look.begin_ns, model.look.end_ns)).sum();
    let other = model.threads.thread_ref(pid);
    let is_most = waited as f64 / 1e9 >= MOST * measures.wall_seconds();
    if pid == asked || !is_most || !lifetimes::is_there_at_end(model, &other) {
        return None;
    }
    let mut denied = model.threads.denied.iter().map(|(_, it)| it);
    let asks = denied.any(|it| it.thread.pid == asked && it.asked_after().is_some());
    let (who, whose) = (model.threads.who(&main), words::who(&other));
    let title = match asks {
        true => format!("{who} asks again and again whether {whose} has ended, which has not."),
        false => format!("{who} waits for the end of {whose}."),
    };
    let does = does_main(measures, pid).unwrap_or("goes on");
    Some((title, format!("{whose} {does}: holdup -p {pid} follows it.")))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Answer;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const HALF: Ns = 500_000_000;

    /// What is said of process 10, which sleeps between two calls of this kind each; process 20 waits for events.
    fn asks(call: &str, signal: u64, parent_pid: u32) -> Answer {
        let mut facts = vec![
            of_process(10, "pg_ctl"),
            identity(Thread { thread: thread(10, "pg_ctl"), parent_pid, ..Thread::default() }),
            identity(Thread { thread: thread(20, "postgres"), ..Thread::default() }),
            blocked(20, "postgres", WaitState::Sleep, "epoll_wait"),
        ];
        for at in 0..10 {
            let at_ns = at * HALF;
            let args = [20, signal, 0, 0, 0, 0];
            let denied = Denied { args, parent_pid, ..refusal(10, "pg_ctl", call) };
            facts.push(Fact { at_ns, body: Body::Denied(denied) });
            facts.push(slept(10, "pg_ctl", at_ns + 1_000, at_ns + HALF - 1_000));
        }
        explain([host(), facts].concat()).answer
    }

    #[test]
    fn who_asks_whether_another_has_ended_which_rests_is_not_idle() {
        let said = asks("kill", 0, 9);
        assert_eq!(
            said.title,
            "pg_ctl 10 asks again and again whether postgres 20 has ended, which has not."
        );
        assert_eq!(said.text, "postgres 20 waits for what comes next: holdup -p 20 follows it.");
    }

    #[test]
    fn who_asks_after_nobody_or_after_who_began_it_rests_as_before() {
        for (call, signal, parent_pid) in [("getpid", 0, 9), ("kill", 0, 20)] {
            let said = asks(call, signal, parent_pid);
            assert!(!said.title.contains("again and again"), "{}", said.title);
        }
    }
}
