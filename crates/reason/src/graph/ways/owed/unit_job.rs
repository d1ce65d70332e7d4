//! A manager that waits for events while a client waits for a job, or who waits until all events of devices are done: the process that the job
//! waits for, by the manager's own word.
//!
//! A start or a stop lasts until that process has done something (said that it is ready, gone to the background, ended), and the manager does other things
//! meanwhile. Where the job waits for no process (a device that is to appear) the ladder ends. Over a bus the process is next to whoever hands the
//! question on. Must not: choose among jobs (waits/unit_job.rs), or lead to who came later.

use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::waits::unit_job;

/// The way.
pub(super) static WAY: Way = Way {
    name: "unit job",
    because: unit_job::BECAUSE,
    of: FOR_EVENTS,
    thresholds: &[&unit_job::READ_AGAIN_MAX],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (model, server) = (at.index.model, &at.wait.thread);
    let client = at.asker.map(|asker| asker.who);
    let awaited = unit_job::awaited(model, server, client, at.within)?;
    match awaited.process() {
        Some(process) => at.was_there(process).then(|| Next::Thread(process.clone())),
        None => (awaited.all.manager_pid == server.pid).then_some(Next::Inside),
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, identity, thread};

    /// Process 10 is a manager with these jobs, read at a time.
    fn manager(jobs: Vec<UnitJob>, at_ns: Ns) -> (&'static str, Option<u32>) {
        let all = UnitJobs { manager_pid: 10, jobs };
        led(vec![
            child(20, 10),
            child(30, 10),
            Fact { at_ns, body: Body::UnitJobs(all) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    fn running(main: Option<ThreadRef>) -> UnitJob {
        let (names, since_ns) = (vec!["hang.service".to_string()], Some(1));
        let processes = main.into_iter().collect();
        UnitJob { id: 7, names, is_running: true, since_ns, processes, ..UnitJob::default() }
    }

    #[test]
    fn the_process_of_the_job_is_next_and_not_one_that_came_later() {
        let hang = thread(30, "hang");
        let led_to = |main: &ThreadRef| manager(vec![running(Some(main.clone()))], LOOK_NS + 1);
        assert_eq!(led_to(&hang), ("unit job", Some(30)));
        let late = ThreadRef { start_ns: LOOK_NS / 5 * 4, ..hang };
        assert_ne!(led_to(&late).0, "unit job");
    }

    #[test]
    fn the_process_of_a_command_comes_before_the_main_one() {
        let processes = vec![thread(20, "check"), thread(30, "hang")];
        let job = UnitJob { processes, ..running(None) };
        assert_eq!(manager(vec![job], LOOK_NS / 2), ("unit job", Some(20)));
    }

    #[test]
    fn a_job_without_a_process_ends_the_ladder_and_without_jobs_it_goes_on() {
        assert_eq!(manager(vec![running(None)], LOOK_NS / 2), ("unit job", None));
        assert_ne!(manager(Vec::new(), LOOK_NS / 2).0, "unit job");
        let later = UnitJob { since_ns: Some(LOOK_NS + 1), ..running(None) };
        assert_ne!(manager(vec![later], LOOK_NS + 2).0, "unit job", "it began after the look");
    }

    /// Process 10 was called so, while worker 5 waits for a program.
    fn settling(command: &str, program: ThreadRef) -> (&'static str, Option<u32>) {
        let (thread, command) = (of_ten(10), command.to_string());
        let event = UnitJob { kind: "event".into(), ..running(Some(program)) };
        let all = UnitJobs { manager_pid: 5, jobs: vec![event] };
        led(vec![
            identity(Thread { thread, command, ..Thread::default() }),
            Fact { at_ns: LOOK_NS + 1, body: Body::UnitJobs(all) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn the_program_of_a_rule_is_waited_for_by_who_waits_for_all_events() {
        let program = || thread(30, "mdadm");
        assert_eq!(settling("udevadm settle --timeout=60", program()), ("unit job", Some(30)));
        assert_ne!(settling("udevadm monitor", program()).0, "unit job");
        let late = ThreadRef { start_ns: LOOK_NS / 5 * 4, ..program() };
        assert_ne!(settling("udevadm settle", late).0, "unit job");
    }
}
