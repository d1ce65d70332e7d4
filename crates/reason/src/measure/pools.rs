//! Pools that are full, in words: the threads of one inside a program, and the worker processes of a server.
//!
//! Who waits for a pool is mostly led to one of its members; that all of them are busy is why nobody else took it. Must not: say that a pool is
//! too small, or speak of one that nobody waits for: a pool may well be busy. Rejected: a finding of its own beside the one that names what
//! the members do.

use crate::facts::{Ns, ObjectRef, ThreadRef};
use crate::graph::upstreams;
use crate::graph::worker_processes::BusyWorkers;
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::model::{Model, words};
use crate::programs::{lock_kind::LockKind, workers_setting};
use crate::waits::pools;
use crate::waits::user_stack;
use std::collections::{BTreeMap, BTreeSet};

/// Places that are said one by one.
const PLACES_MAX: usize = 3;
/// Threads of a pool that can be full.
const THREADS_MIN: usize = 2;

/// Of processes that a chain leads through, in its order, what is said of the first full pool; with a space before it, empty if there is none.
pub fn sentence(measures: &Measures<'_>, pids: impl IntoIterator<Item = u32>) -> String {
    led_by_answers(measures, pids.into_iter().map(|pid| (pid, true)))
}

/// The same, with whether the link before led to a process for an answer or a queue: by a lock or a disk one comes to whoever has it, and not to
/// its pool. Nobody was led to the first of the chain, who may wait for something else altogether.
pub fn led_by_answers(
    measures: &Measures<'_>,
    chain: impl IntoIterator<Item = (u32, bool)>,
) -> String {
    let chain: Vec<(u32, bool)> = chain.into_iter().collect();
    let first = chain.first().map(|(pid, _)| *pid);
    let pids: BTreeSet<u32> = chain.iter().map(|(pid, _)| *pid).collect();
    let is_led_to = |pid: &u32| Some(*pid) != first && chain.contains(&(*pid, true));
    let said = pids.iter().find_map(|pid| {
        let of_threads = || is_led_to(pid).then(|| of_threads(measures.model, *pid)).flatten();
        of_workers(measures, *pid).or_else(of_threads)
    });
    let last = || chain.last().filter(|(pid, led)| *led && Some(*pid) != first);
    let said = said.or_else(|| of_upstream(measures, last()?.0));
    said.map_or_else(String::new, |said| format!(" {said}"))
}

fn of_process(measures: &Measures<'_>, pid: u32) -> Option<String> {
    of_workers(measures, pid).or_else(|| of_threads(measures.model, pid))
}

/// The worker processes of a server, if a connection waits for one of them.
fn of_workers(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let busy = measures.graph.busy_workers(pid).filter(|busy| busy.waiting > 0)?;
    Some(of_busy(&busy, ""))
}

/// Those of a server that a process asks over a unix socket: which of its clients' questions is there such a socket does not say.
fn of_upstream(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let busy = upstreams::busy(&measures.graph, pid).filter(|busy| busy.waiting > 0)?;
    let by = words::who(&measures.model.threads.thread_ref(pid));
    Some(of_busy(&busy, &format!(", which {by} asks,")))
}

/// That all workers are busy; `asked`: by whom, behind the server's name.
fn of_busy(busy: &BusyWorkers, asked: &str) -> String {
    let all = match busy.workers.len() {
        1 => "The only worker".to_string(),
        all => format!("All {all} workers"),
    };
    let are = if busy.workers.len() == 1 { "is" } else { "are" };
    let (connections, wait) = match busy.waiting {
        1 => ("1 connection".to_string(), "waits"),
        many => (format!("{many} connections"), "wait"),
    };
    let at = match &busy.listener {
        ObjectRef::Inet(socket) => format!(" at {}", socket.local),
        ObjectRef::Unix { path: Some(path), .. } => format!(" at {path}"),
        _ => String::new(),
    };
    let setting = workers_setting(&busy.master.comm);
    let setting =
        setting.map_or_else(String::new, |it| format!("; {it} says how many there may be"));
    format!(
        "{all} of {}{asked} {are} busy, and {connections} {wait}{at} until one is free{setting}.",
        words::who(&busy.master)
    )
}

/// The threads of a pool inside a program, all of which have a task in hand. One of a single thread says nothing: whatever polls for good runs so.
fn of_threads(model: &Model, pid: u32) -> Option<String> {
    let within = (model.look.begin_ns, model.look.end_ns);
    let all = pools::full(model, pid, |_| within);
    let pool = all.into_iter().max_by_key(|pool| pool.threads.len())?;
    let all = pool.threads.len();
    if all < THREADS_MIN {
        return None;
    }
    let process = model.threads.thread_ref(pid);
    let name = if pool.name == process.comm.trim_end_matches(|it: char| it.is_ascii_digit()) {
        String::new()
    } else {
        format!(" ({}*)", pool.name)
    };
    let places = places(model, pool.threads.iter().copied(), within);
    let who = model.threads.who(&process);
    let setting = match pool.kind.setting {
        "" => String::new(),
        setting => format!("; {setting} says how many there are"),
    };
    Some(format!(
        "All {all} threads of a pool of {who}{name} have a task in hand{places}{setting}."
    ))
}

/// Where threads stand, as the rest of a sentence: `: 2 in buy() of shop.py:4, 1 in pay() of shop.py:9`.
fn places<'t>(
    model: &Model,
    threads: impl Iterator<Item = &'t ThreadRef>,
    within: (Ns, Ns),
) -> String {
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    for place in threads.filter_map(|thread| stands_in(model, thread, within)) {
        *at.entry(place).or_default() += 1;
    }
    let mut at: Vec<(String, usize)> = at.into_iter().collect();
    at.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = at.iter().take(PLACES_MAX).map(|(place, count)| format!("{count} in {place}"));
    let said = said.collect::<Vec<String>>().join(", ");
    if said.is_empty() { said } else { format!(": {said}") }
}

/// What the threads of a process are at that do not wait for work, as a sentence with a space before it: those of a full pool, or else wherever
/// the program's own functions stand.
pub fn at_hand(measures: &Measures<'_>, pid: u32) -> String {
    let said = of_process(measures, pid).map(|said| format!(" {said}"));
    said.unwrap_or_else(|| places_of(measures, pid))
}

/// The same of a process without a full pool, which is said beside every finding that leads through it.
pub fn beside_pools(measures: &Measures<'_>, pid: u32) -> String {
    match of_process(measures, pid) {
        Some(_) => String::new(),
        None => places_of(measures, pid),
    }
}

/// Where the threads of a process stand that do not wait for work.
fn places_of(measures: &Measures<'_>, pid: u32) -> String {
    let model = measures.model;
    let within = (model.look.begin_ns, model.look.end_ns);
    let threads = measures.graph.threads_of(&[pid]);
    let is_busy = |thread: &&ThreadRef| {
        thread.tid != pid
            && model.user_stack(thread, within.0, within.1).is_some_and(|stack| {
                let kind = user_stack::kind(&stack.frames);
                kind != Some(LockKind::Idle)
            })
    };
    let places = places(model, threads.iter().filter(is_busy), within);
    let places = places.strip_prefix(": ");
    places.map_or_else(String::new, |places| format!(" Its threads stand: {places}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{LOOK_NS, blocked, endpoint, host, identity, thread};
    use crate::waits::timeline::Observed;

    fn said(inner: &[&str]) -> String {
        sentence_of(inner, &[(9, true), (10, true)])
    }

    /// Of a chain by its processes, and whether the link before led to each for an answer.
    fn sentence_of(inner: &[&str], chain: &[(u32, bool)]) -> String {
        let named = |tid: u32, comm: &str| {
            let thread = ThreadRef { tid, pid: 10, start_ns: 1, comm: comm.into() };
            identity(Thread { thread, ..Thread::default() })
        };
        let stands = |tid: u32, inner: &str| {
            let comm = format!("pool-1-thread-{tid}");
            let thread = ThreadRef { tid, pid: 10, start_ns: 1, comm };
            let frame = |function: &str, module: &str| UserFrame {
                function: function.into(),
                module: module.into(),
                ..UserFrame::default()
            };
            let runs = frame("ThreadPoolExecutor.runWorker", "jdk/T.java");
            let frames = vec![frame(inner, "Shop.java"), runs];
            let stack = UserStack { thread, since_ns: 0, frames, complete: true };
            Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) }
        };
        let mut facts = host();
        facts.push(named(10, "java"));
        for (tid, inner) in (11..).zip(inner) {
            facts.extend([named(tid, &format!("pool-1-thread-{tid}")), stands(tid, inner)]);
        }
        let observed = Observed::new(facts);
        led_by_answers(&Measures::of_observed(&observed), chain.iter().copied())
    }

    /// What is said of nginx 20, which waits to be accepted at a unix socket of worker 31, by a chain that leads there for an answer or not.
    fn of_proxy(is_for_answer: bool, worker_does: &str) -> String {
        let path = || Some("/run/g.sock".to_string());
        let listens = || ObjectRef::Unix { ino: 200, peer_ino: 0, path: path() };
        let queued = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let of = |pid: u32, parent_pid: u32| {
            identity(Thread { thread: thread(pid, "gunicorn"), parent_pid, ..Thread::default() })
        };
        let mut facts = host();
        facts.extend([
            of(30, 1),
            of(31, 30),
            endpoint(30, "gunicorn", listens()),
            endpoint(31, "gunicorn", listens()),
            endpoint(20, "nginx", queued),
            blocked(30, "gunicorn", WaitState::Sleep, "clock_nanosleep"),
            blocked(31, "gunicorn", WaitState::Sleep, worker_does),
            blocked(20, "nginx", WaitState::Sleep, "epoll_wait"),
        ]);
        let observed = Observed::new(facts);
        led_by_answers(&Measures::of_observed(&observed), [(9, true), (20, is_for_answer)])
    }

    #[test]
    fn a_full_server_that_a_proxy_asks_over_a_unix_socket_is_said_with_the_proxy() {
        let said = of_proxy(true, "flock");
        let only = "The only worker of gunicorn 30, which nginx 20 asks, is busy, and 1 connection waits at /run/g.sock";
        assert!(said.contains(only), "{said}");
        assert_eq!(of_proxy(true, "epoll_wait"), "", "it rests");
        assert_eq!(of_proxy(false, "flock"), "", "it has a lock");
    }

    #[test]
    fn a_pool_that_nobody_was_led_to_for_an_answer_is_not_spoken_of() {
        let full = ["Shop.buy"; 2];
        assert_ne!(sentence_of(&full, &[(9, true), (10, true)]), "");
        assert_eq!(sentence_of(&full, &[(10, true)]), "", "its own disk is slow");
        assert_eq!(sentence_of(&full, &[(9, true), (10, false)]), "", "it has a lock");
        assert_eq!(said(&["Poller.run"]), "", "a single thread with an endless task");
    }

    #[test]
    fn a_full_pool_is_said_with_where_its_threads_stand_and_one_with_room_is_not() {
        assert_eq!(
            said(&["Shop.buy", "Shop.buy"]),
            " All 2 threads of a pool of java 10 (pool-1-thread-*) have a task in hand: 2 in Shop.buy()."
        );
        assert_eq!(said(&["Shop.buy", "ThreadPoolExecutor.getTask"]), "");
    }
}
