//! A process all of whose threads wait for one another: the sentence of a look that would else call it idle.
//!
//! A pool whose workers wait for what only the pool could do, a main thread at a queue that nobody fills. A word of memory that is private to a
//! process is woken by its own threads alone; if each of them stands at such a word since before the look, and no clock ends that, nobody
//! is left. A process at rest has one thread at least that listens, for a socket, a file, a signal or the clock, and stays idle.
//!
//! Must not: call it a deadlock (a handler of a signal may be meant to wake it), or speak of a process with one thread (unwoken.rs). Rejected:
//! who waits for whom, which no lock of a language says; threads of Go's, where a goroutine is at another place than its thread.
//!
//! Edit together: unwoken.rs, standing.rs.

use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::waits::futex_value::is_private;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;
use crate::waits::{WaitClass, goroutines};
use std::collections::{BTreeMap, BTreeSet};

/// Places that are said one by one.
const PLACES_MAX: usize = 4;

/// Title and paragraph, if the process that was asked about stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref()?.pid;
    let waits = all_stand(measures, asked).filter(|_| !goroutines::are_known(model, asked))?;
    let who = model.threads.who(&model.threads.thread_ref(asked));
    let lasts = waits.iter().map(|wait| wait.end_ns.saturating_sub(wait.begin_ns)).min()?;
    Some((
        format!("{who} stands still: all its {} threads wait for one another.", waits.len()),
        format!(
            "They have stood for at least {}{}. What they wait at only a thread of their own process could end, and none runs; or a \
             handler of a signal.",
            words::seconds(lasts as f64 / 1e9),
            places(measures, &waits),
        ),
    ))
}

/// The standing wait of each thread of a process, if there are several and only they could end them.
fn all_stand<'m>(measures: &'m Measures<'m>, pid: u32) -> Option<Vec<&'m WaitSpan>> {
    let model = measures.model;
    let gone = model.threads.exits.iter().map(|(_, exit)| exit.thread.tid);
    let gone: BTreeSet<u32> = gone.collect();
    let of_times = model.threads.times.iter().map(|time| &time.thread);
    let of_waits = measures.waits().map(|wait| &wait.thread);
    let own = of_times.chain(of_waits).chain(model.threads.every_thread());
    let own = own.filter(|it: &&ThreadRef| it.pid == pid && !gone.contains(&it.tid));
    let threads: BTreeSet<u32> = own.map(|it| it.tid).collect();
    let mut by_thread: BTreeMap<u32, &WaitSpan> = BTreeMap::new();
    let its = measures.waits().filter(|wait| wait.thread.pid == pid);
    by_thread.extend(its.filter(|wait| is_own(measures, wait)).map(|wait| (wait.thread.tid, wait)));
    let all = threads.iter().map(|tid| by_thread.get(tid).copied());
    all.collect::<Option<Vec<&WaitSpan>>>().filter(|all| all.len() > 1)
}

/// Whether a wait has lasted all the look, and only a thread of the same process can end it.
fn is_own(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let place = &wait.place;
    let kind = || lock_kind_of(measures.model, &wait.thread, wait.begin_ns, wait.end_ns);
    wait.standing
        && measures.model.look.began_before(wait.begin_ns)
        && matches!(wait.class, WaitClass::FutexWait | WaitClass::FutexLock)
        // The second argument is not known without an address; the fourth is a time limit.
        && place.syscall == "futex"
        && place.args[0] != 0
        && place.args[3] == 0
        // The kernel ends the wait for a thread's end, by a word that is not private.
        && (is_private(place) || kind() == Some(LockKind::Join))
}

/// `: 2 in outer() of pool.py:4, 1 in main() of pool.py:7`.
fn places(measures: &Measures<'_>, waits: &[&WaitSpan]) -> String {
    let model = measures.model;
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    for wait in waits {
        if let Some(place) =
            stands_in(model, &wait.thread, (model.look.begin_ns, model.look.end_ns))
        {
            *at.entry(place).or_default() += 1;
        }
    }
    let mut at: Vec<(String, usize)> = at.into_iter().collect();
    at.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = at.iter().take(PLACES_MAX).map(|(place, count)| format!("{count} in {place}"));
    let said = said.collect::<Vec<String>>().join(", ");
    if said.is_empty() { said } else { format!(": {said}") }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// futex(2): FUTEX_WAIT_BITSET, with and without FUTEX_PRIVATE_FLAG.
    const PRIVATE: [u64; 6] = [0x7f00_0000_1000, 9 | 128, 0, 0, 0, 0];
    const SHARED: [u64; 6] = [0x7f00_0000_1000, 9, 0, 0, 0, 0];

    fn stands(tid: u32, syscall: &str, args: [u64; 6], function: &str) -> Vec<Fact> {
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        let mut wait = at_place(10, "app", place);
        if let Body::Blocked(wait) = &mut wait.body {
            wait.thread.tid = tid;
        }
        let thread = ThreadRef { tid, ..thread(10, "app") };
        let (function, module) = (function.to_string(), "pool.py".to_string());
        let frames = vec![UserFrame { function, module, line: 7 }];
        let stack = UserStack { thread, since_ns: 0, frames, complete: true };
        vec![wait, Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) }]
    }

    /// What is said of process 10, whose main thread stands in `main()`, and one more so.
    fn said(other: Vec<Fact>) -> (String, String) {
        let main = stands(10, "futex", PRIVATE, "main");
        let answer = explain([host(), vec![of_process(10, "app")], main, other].concat()).answer;
        (answer.title, answer.text)
    }

    #[test]
    fn who_only_waits_for_itself_is_said_where_each_thread_stands() {
        let (title, text) = said(stands(11, "futex", PRIVATE, "outer"));
        assert_eq!(title, "app 10 stands still: all its 2 threads wait for one another.");
        assert!(text.contains("1 in main() of pool.py:7, 1 in outer() of pool.py:7"), "{text}");
    }

    #[test]
    fn who_has_a_thread_that_listens_or_looks_at_the_clock_is_idle() {
        let timed = [PRIVATE[0], PRIVATE[1], 0, 0x7ffd_0000, 0, 0];
        for (syscall, args) in
            [("epoll_wait", [0; 6]), ("futex", timed), ("futex", SHARED), ("read", [0; 6])]
        {
            let (title, _) = said(stands(11, syscall, args, "serve"));
            assert!(title.contains(" is idle: "), "{syscall}: {title}");
        }
    }
}
