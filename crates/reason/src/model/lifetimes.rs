//! Which processes are there when the look ends: whom a way out may act on.
//!
//! Between the end of a look and the moment somebody reads the answer a number may be given to another process; before that, and for all
//! that is in the facts, it is decided here. A process is there if it was seen, if none of its ends was seen, and if nobody else has its
//! number since. A number that only a table of the kernel has (/proc/locks says who called, not who lives) was never seen. Must not: say
//! who is to blame, or what to do instead.
//!
//! Edit together: thread_key.rs (which of the processes of one number), rules/lasting.rs (who asks).

use super::Model;
use crate::facts::{Exit, Ns, ThreadRef};

/// Without events the end of a thread is only known to be before the reading that missed it.
const READING_NS: Ns = 100_000_000;

/// Whether a process, by any of its threads, is there and the same at the window's end.
pub fn is_there_at_end(model: &Model, process: &ThreadRef) -> bool {
    let pid = process.pid;
    // Only who was seen as a process or its descriptors has a start: a number alone is nobody.
    let Some(last) = model.threads.named_at(pid, Ns::MAX) else {
        return process.start_ns != 0 && !has_ended(model, process);
    };
    // Which of several it is nobody knows.
    if process.start_ns == 0 && model.threads.lives.all(pid).is_some() {
        return false;
    }
    // A thread begins after its process: the last that had the number by then.
    let own = match process.tid == pid || process.start_ns == 0 {
        true => ThreadRef { tid: pid, ..process.clone() },
        false => model.threads.thread_ref_at(pid, process.start_ns),
    };
    model.threads.key(&own) == model.threads.key(last) && !has_ended(model, last)
}

fn has_ended(model: &Model, process: &ThreadRef) -> bool {
    let pid = process.pid;
    let by_event = |(at, exit): &(Ns, Exit)| {
        // Recordings without the code say of no thread that it was the last.
        let whole = exit.last || (exit.code.is_none() && exit.thread.tid == pid);
        let leader = ThreadRef { tid: pid, ..exit.thread.clone() };
        let same = match exit.thread.tid == pid {
            true => model.threads.key_at(&leader, *at),
            false => model.threads.key_of(pid, 0, *at),
        };
        exit.thread.pid == pid && whole && same == model.threads.key(process)
    };
    let command = model.look.command_end.as_ref().is_some_and(|(_, end)| end.pid == pid);
    command || model.threads.exits.iter().any(by_event) || was_missed(model, process)
}

/// Whether its main thread's time stops before the look does, where no event says so.
fn was_missed(model: &Model, process: &ThreadRef) -> bool {
    let own = |tid: u32, thread: &ThreadRef| {
        tid == process.pid && model.threads.key(thread) == model.threads.key(process)
    };
    let times = model.threads.times.iter().filter(|time| own(time.thread.tid, &time.thread));
    let until = times.map(|time| time.until_ns).max();
    model.threads.exits.is_empty()
        && until.is_some_and(|until| until + READING_NS < model.look.end_ns)
}

#[cfg(test)]
mod tests {
    use super::is_there_at_end;
    use crate::facts::*;
    use crate::model::Model;
    use crate::rules::scenes::{LOOK_NS, host, thread};

    const SECOND: Ns = 1_000_000_000;

    fn seen(thread: ThreadRef) -> Fact {
        Fact { at_ns: 0, body: Body::Thread(Thread { thread, ..Thread::default() }) }
    }

    fn ended(thread: ThreadRef, at_ns: Ns, last: bool) -> Fact {
        Fact { at_ns, body: Body::Exit(Exit { thread, last, code: Some(0) }) }
    }

    fn is_there(facts: Vec<Fact>, of: &ThreadRef) -> bool {
        let mut model = Model::new([host(), facts].concat());
        model.finish();
        is_there_at_end(&model, of)
    }

    #[test]
    fn whose_end_was_not_seen_is_there() {
        let one = thread(10, "app");
        assert!(is_there(vec![seen(one.clone())], &one));
        let number = ThreadRef { start_ns: 0, ..one };
        assert!(!is_there(Vec::new(), &number), "a number that nobody was seen to have");
    }

    #[test]
    fn whose_last_thread_ended_is_gone_and_one_of_several_is_not_the_last() {
        let one = thread(10, "app");
        let worker = ThreadRef { tid: 11, ..one.clone() };
        let all = |last| vec![seen(one.clone()), ended(worker.clone(), SECOND, last)];
        assert!(is_there(all(false), &one));
        assert!(!is_there(all(true), &one));
    }

    #[test]
    fn who_has_the_number_of_one_that_ended_is_not_it() {
        let old = ThreadRef { start_ns: SECOND / 2, ..thread(10, "old") };
        let new = ThreadRef { start_ns: 3 * SECOND, ..thread(10, "new") };
        let facts = vec![seen(old.clone()), ended(old.clone(), SECOND, true), seen(new.clone())];
        assert!(!is_there(facts.clone(), &old));
        assert!(is_there(facts, &new));
    }

    #[test]
    fn the_command_of_run_is_gone_and_its_child_is_there() {
        let (one, child) = (thread(10, "sh"), thread(11, "daemon"));
        let end = CommandEnd { pid: 10, exit_status: 0, signal: 0 };
        let end = Fact { at_ns: LOOK_NS, body: Body::CommandEnd(end) };
        let facts = vec![seen(one.clone()), seen(child.clone()), end];
        assert!(!is_there(facts.clone(), &one));
        assert!(is_there(facts, &child));
    }

    #[test]
    fn whose_time_stops_early_is_gone_where_no_ends_are_seen() {
        let one = thread(10, "app");
        let until = |until_ns| {
            let time = ThreadTime { thread: one.clone(), until_ns, ..ThreadTime::default() };
            vec![Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) }]
        };
        assert!(is_there(until(LOOK_NS), &one));
        assert!(!is_there(until(LOOK_NS / 2), &one));
    }
}
