//! A lock in the memory of a process that has one thread, which waits for it: nobody is left to let it go.
//!
//! A child that was forked while another thread of its parent had a lock has that lock, and not the thread; and who takes a lock twice stands the same
//! way. A word that is private to a process is let go by its own threads alone. So the holder is not somebody who cannot be seen: there is none.
//!
//! Must not: speak of a word that other processes share, of a wait that ends by itself, or of a child that runs in its parent's memory until it runs a
//! program (vfork). Rejected: which of the two it was, which nothing outside says. Edit together: unwoken.rs (the same of what is no lock).

use super::naming::by_name;
use super::report::AnswerEnd;
use crate::graph::end::EndKind;
use crate::measure::Measures;
use crate::programs::lock_kind::LockKind;
use crate::waits::WaitClass;
use crate::waits::futex_value::is_private;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeSet;

/// What a chain leads to that ends at such a lock, as a verb.
pub(super) fn does(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    if !is_nobodys(measures, end) {
        return None;
    }
    let what = end.lock_kind.map_or("a lock", LockKind::phrase);
    let waits = format!("waits for {what} that nobody is left to let go");
    let (last, waiters) = end.chain.split_last()?;
    Some(match waiters {
        [] => waits,
        _ => format!("waits for {}, which {waits}", by_name(&last.who)),
    })
}

/// Why nobody is left, as a clause.
pub(super) fn reason(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    is_nobodys(measures, end).then(|| {
        "it has no other thread, and no other process shares that word of its memory: probably another thread of its parent had the lock as it was \
         forked, or it has taken the lock itself before"
            .into()
    })
}

fn is_nobodys(measures: &Measures<'_>, end: &AnswerEnd) -> bool {
    let is_held = end.lock_kind.is_none_or(LockKind::is_held);
    let ends_there = end.end == EndKind::Lock && end.who.is_none() && is_held;
    let last = end.chain.last().filter(|_| ends_there).and_then(|link| link.who.pid);
    last.is_some_and(|pid| stands_alone(measures, pid))
}

/// Whether the only thread of a process waits for a word that is its own alone, until it is let go.
fn stands_alone(measures: &Measures<'_>, pid: u32) -> bool {
    let model = measures.model;
    let is_own = |wait: &WaitSpan| {
        let place = &wait.place;
        // The second argument is not known without an address; the fourth is a time limit.
        wait.standing
            && place.syscall == "futex"
            && place.args[0] != 0
            && place.args[3] == 0
            && is_private(place)
    };
    let main = model.threads.thread_ref(pid);
    let last = measures.graph.waits_of(&main).last();
    let of_times = model.threads.times.iter().map(|time| &time.thread);
    let of_waits = measures.waits().map(|wait| &wait.thread);
    let all = of_times.chain(of_waits).chain(model.threads.every_thread());
    let threads: BTreeSet<u32> = all.filter(|it| it.pid == pid).map(|it| it.tid).collect();
    let in_memory_of = |wait: &WaitSpan| wait.class == WaitClass::Vfork;
    let parent = measures.graph.parent_of(pid).map(|parent| model.threads.thread_ref(parent));
    let parents = parent.and_then(|parent| measures.graph.waits_of(&parent).last());
    threads.len() == 1 && last.is_some_and(is_own) && !parents.is_some_and(in_memory_of)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// futex(2): FUTEX_WAIT_BITSET of this process alone.
    const OWN: [u64; 6] = [0x7f00_0000_1000, 9 | 128, 0, 0, 0, 0];

    /// What is said of process 10, which waits so for a lock of its program's, and more.
    fn said(args: [u64; 6], more: Vec<Fact>) -> (String, String) {
        let (state, syscall) = (WaitState::Sleep, "futex".to_string());
        let place = Place { state, syscall, args, ..Place::default() };
        let frame = |(function, module): (&str, &str)| UserFrame {
            function: function.into(),
            module: module.into(),
            line: 8,
        };
        let frames = [
            ("sem_wait", "libc.so.6"),
            ("PyThread_acquire_lock_timed", "python3.11"),
            ("<module>", "fk.py"),
        ];
        let frames = frames.map(frame).to_vec();
        let stack = UserStack { thread: thread(10, "app"), since_ns: 0, frames, complete: true };
        let parent = Thread { thread: thread(10, "app"), parent_pid: 9, ..Thread::default() };
        let own = vec![
            of_process(10, "app"),
            identity(parent),
            at_place(10, "app", place),
            Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) },
        ];
        let answer = explain([host(), own, more].concat()).answer;
        (answer.title, answer.text)
    }

    #[test]
    fn a_lock_in_the_memory_of_its_only_thread_is_nobodys() {
        let nobody = "waits for a lock that nobody is left to let go";
        let (title, text) = said(OWN, vec![blocked(9, "app", WaitState::Sleep, "wait4")]);
        assert!(title.contains(nobody), "{title}");
        assert!(text.contains("had the lock as it was forked"), "{text}");
        let shared = [OWN[0], 9, 0, 0, 0, 0];
        let timed = [OWN[0], OWN[1], 0, 0x7ffd_0000, 0, 0];
        let mut other = blocked(10, "app", WaitState::Sleep, "epoll_wait");
        if let Body::Blocked(wait) = &mut other.body {
            wait.thread.tid = 11;
        }
        let in_memory_of = blocked(9, "app", WaitState::Sleep, "vfork");
        for (args, more) in
            [(shared, vec![]), (timed, vec![]), (OWN, vec![other]), (OWN, vec![in_memory_of])]
        {
            let (title, text) = said(args, more);
            assert!(!title.contains("nobody is left"), "{title}");
            assert!(!text.contains("forked"), "{text}");
        }
    }
}
