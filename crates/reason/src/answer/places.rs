//! Where in its program's own functions a wait stands: a clause of an answer where no rule named a cause.
//!
//! Of a thread its user stack says it; of a Go program, whose threads run any goroutine, the goroutines that stood. One
//! function that a person knows, not a stack. Must not: decide whose wait it is (verdict.rs), or name who holds a lock.

use super::child_looked_for;
use super::naming::by_name;
use super::nobodys_lock;
use super::report::{AnswerEnd, Link};
use super::semaphores;
use super::whole::Rest;
use crate::facts::{Endpoint, Ns, ObjectRef, TargetKind};
use crate::graph::debts::Debt;
use crate::graph::end::EndKind;
use crate::graph::wakers::timeout_ns;
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::model::{Model, words};
use crate::programs;
use crate::waits::goroutines;
use crate::waits::timeline::WaitSpan;

/// Where the wait of an end stands, and who was at the semaphore last that it is for.
pub(super) fn of_end(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let last = end.chain.last().and_then(|link| link.who.pid);
    let goroutines = || of_goroutines(measures.model, last?);
    let place = of_links(end).or_else(|| goroutines().filter(|_| waits(end)));
    let place = place.or_else(|| child_looked_for::clause(measures, end));
    let more = semaphores::last_at(measures, end).or_else(|| nobodys_lock::reason(measures, end));
    let said: Vec<String> = place.into_iter().chain(more).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Of a wait that leads to nobody: when a timeout of its own ends it at the latest. That is no reason for it, but says how long it may last.
pub(super) fn own_timeout(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let leads_nowhere = end.who.is_none()
        && end.lock_kind.is_none()
        && matches!(end.end, EndKind::Lock | EndKind::Open);
    let who = end.chain.last().filter(|_| leads_nowhere).map(|link| &link.who)?;
    let tid = who.tid.or(who.pid)?;
    let stands = |wait: &&WaitSpan| wait.standing && wait.thread.tid == tid;
    // One that began within the look may be a tick, and be followed by the next.
    let wait = measures.waits().filter(stands).last()?;
    if wait.begin_ns > measures.model.look.begin_ns {
        return None;
    }
    let due_ns = wait.begin_ns.saturating_add(timeout_ns(&wait.place)?);
    let left_ns = due_ns.checked_sub(measures.model.look.end_ns).filter(|ns| *ns > 0)?;
    let left = words::seconds(left_ns as f64 / 1e9);
    let whose = match end.chain.len() {
        1 => "its own".to_string(),
        _ => format!("{}'s own", by_name(who)),
    };
    Some(format!("a timeout of {whose} ends that {left} after the look at the latest"))
}

/// Of a sleep: the limit on its own pace that the program was given; of an end that leads no further, as a daemon's own queue, that it was given one.
pub(super) fn own_limit(model: &Model, end: &AnswerEnd) -> Option<String> {
    let last = end.chain.last().map(|link| &link.who);
    let pid = end.who.as_ref().or(last)?.pid?;
    let limit = programs::own_limit(&model.threads.words(&model.threads.thread_ref(pid)))?;
    match end.end {
        EndKind::Sleep => Some(format!("it keeps to a limit of its own, {limit}")),
        EndKind::Open => {
            let who = last.map_or_else(String::new, by_name);
            Some(format!("{who} was given a limit on its own pace, {limit}"))
        }
        _ => None,
    }
}

/// What is waited for of a program that is asked before a file may be used: no other end at somebody who owes an answer is a file.
pub(super) fn leave(end: &AnswerEnd, by: &str) -> Option<String> {
    let name = &end.object.name;
    (end.object.kind == "file")
        .then(|| format!("waits for leave to use {name}, for which {by} is asked (fanotify)"))
}

/// Of a process that rests, as a sentence: the limit on its own pace that it was given.
pub(super) fn pace(measures: &Measures<'_>, pid: u32) -> String {
    own_pace(measures, pid).map_or_else(String::new, |(limit, keeps)| match keeps {
        true => format!(" It keeps to a limit of its own, {limit}."),
        false => format!(" It was given a limit on its own pace, {limit}."),
    })
}

/// Title and paragraph about the process that was asked about, if it rests because it keeps to such a limit.
pub(super) fn paced(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?.pid;
    let (limit, _) = own_pace(measures, asked).filter(|(_, keeps)| *keeps)?;
    let who = model.threads.who(&model.threads.thread_ref(asked));
    Some((format!("{who} keeps to a limit of its own, {limit}."), of_idle(model)))
}

/// The limit on its own pace that a process was given, and whether it keeps to that now: it sleeps, or leaves unread what has come.
fn own_pace(measures: &Measures<'_>, pid: u32) -> Option<(String, bool)> {
    let model = measures.model;
    let limit = programs::own_limit(&model.threads.words(&model.threads.thread_ref(pid)))?;
    let has_unread = |end: &Endpoint| {
        matches!(end.object, ObjectRef::Inet(_))
            && end.process.pid == pid
            && end.unread.is_some_and(|bytes| bytes > 0)
    };
    let keeps = Rest::of(measures) == Rest::Sleep || model.held.endpoints.iter().any(has_unread);
    Some((limit, keeps))
}

fn waits(end: &AnswerEnd) -> bool {
    !matches!(end.end, EndKind::Works | EndKind::Cpu | EndKind::Idle)
}

/// By the functions of its chain: that of the lock, that of the last, or else the first of a script, which a person will know.
fn of_links(end: &AnswerEnd) -> Option<String> {
    let all = || end.chain.iter().enumerate();
    let is_last = |at: usize| at + 1 == end.chain.len();
    let of_lock = || all().find(|(_, link)| link.lock_kind.is_some());
    let of_last = || all().next_back().filter(|(_, link)| link.who.function.is_some());
    let (at, link) = match end.end {
        // Where it was stopped or frozen is nothing that it waits for.
        EndKind::Person if end.object.kind != "terminal" => return None,
        _ if !waits(end) => return None,
        EndKind::Lock if of_lock().is_some() => of_lock()?,
        _ => of_last().or_else(|| all().find(|(_, link)| link.who.place.is_some()))?,
    };
    let who = if at == 0 { "it".to_string() } else { by_name(&link.who) };
    let does = match end.end {
        EndKind::Sleep if is_last(at) => end.sleeps(),
        _ => "waits",
    };
    Some(format!("{who} {does} in {}", place(link)?))
}

/// `take() of shop.py:12`.
fn place(link: &Link) -> Option<String> {
    let function = link.who.function.as_ref()?;
    let file = link.who.place.as_ref().map_or_else(String::new, |place| format!(" of {place}"));
    Some(format!("{function}(){file}"))
}

/// Where a process stands that was asked about and has nothing to do, as a sentence; empty if that is not known.
pub(super) fn of_idle(model: &Model) -> String {
    let Some(target) = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)
    else {
        return String::new();
    };
    if let Some(all) = of_goroutines(model, target.pid) {
        return capitalised(&format!("{all}."));
    }
    let main = model.threads.thread_ref(target.pid);
    let place = stands_in(model, &main, (model.look.begin_ns, model.look.end_ns));
    place.map_or_else(String::new, |place| format!("It stands in {place}."))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What goroutines of a program do that stood for most of the window.
fn of_goroutines(model: &Model, pid: u32) -> Option<String> {
    goroutines::summary(model, pid, (model.look.begin_ns, model.look.end_ns))
}

/// Whether whoever stands at the end of a chain waits for something inside of its process, and nobody is known who would have to act.
fn is_inside(end: &AnswerEnd) -> bool {
    let is_unseen = matches!(end.end, EndKind::Lock | EndKind::Open) && end.lock_kind.is_none();
    let is_shared = !matches!(end.object.kind.as_str(), "" | "futex" | "lock" | "event");
    is_unseen && end.who.is_none() && !is_shared
}

/// What a chain leads to that ends at a Go program which owes an answer and waits for something inside of it, as a verb: most of its goroutines.
pub(super) fn does_in_go(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let who = end.chain.last().map(|link| &link.who).filter(|_| is_inside(end))?;
    let (model, pid) = (measures.model, who.pid?);
    let groups = goroutines::groups(model, pid, (model.look.begin_ns, model.look.end_ns));
    let first = goroutines::only_group(&groups, asked_ns(measures, end, pid)?)?;
    let least = if first.is_part { "at least " } else { "" };
    let count = first.count;
    Some(match (end.chain.iter().any(|link| link.who.pid != Some(pid)), count) {
        (true, 1) => format!("waits for {}, a goroutine of which {}", by_name(who), first.does()),
        (true, _) => {
            let (who, does) = (by_name(who), first.does());
            format!("waits for {who}, {least}{count} goroutines of which {does}")
        }
        (false, 1) => format!("has a goroutine that {}", first.does()),
        (false, _) => format!("has {least}{count} goroutines that {}", first.does()),
    })
}

/// Since when somebody waits for an answer of a process; without a question its goroutines wait for whatever is their own.
fn asked_ns(measures: &Measures<'_>, end: &AnswerEnd, pid: u32) -> Option<Ns> {
    let owed = measures.graph.debts().owes.get(&pid).into_iter().flatten();
    owed.map(Debt::asked_ns).min().or_else(|| {
        let asks = end.chain.iter().rev().find(|link| link.who.pid != Some(pid))?;
        let tid = asks.who.tid.or(asks.who.pid)?;
        let waits = measures.waits().filter(|wait| wait.thread.tid == tid);
        let longest = waits.max_by_key(|wait| wait.end_ns.saturating_sub(wait.begin_ns));
        longest.map(|wait| wait.begin_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::of_links;
    use crate::answer::report::{Link, ObjectName, Who};
    use crate::answer::{Verdict, explain};
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    /// An end of `app 10`, then `node 20`, which stand in these functions.
    fn waits(end: &str, functions: [&str; 2]) -> Option<String> {
        let link = |(name, pid, function): (&str, u32, &str)| {
            let (function, place) = function.split_once('@').unwrap_or((function, ""));
            let who = serde_json::json!({"kind": "process", "name": name, "pid": pid});
            let mut who: Who = serde_json::from_value(who).unwrap();
            who.function = Some(function.to_string()).filter(|it| !it.is_empty());
            who.place = Some(place.to_string()).filter(|it| !it.is_empty());
            let (waits_on, stack) = (ObjectName::new("pipe", "pipe:[1]"), Vec::new());
            Link { who, waits_on, seconds: 1.0, lock_kind: None, stack, because: None }
        };
        let chain = [("app", 10, functions[0]), ("node", 20, functions[1])].map(link);
        let end = serde_json::json!({"end": end, "object": chain[0].waits_on, "seconds": 1.0, "share": 1.0,
            "longest_seconds": 1.0, "victims": [], "chain": chain});
        of_links(&serde_json::from_value(end).unwrap())
    }

    #[test]
    fn the_function_of_a_script_is_said_wherever_the_wait_leads() {
        let said = waits("sleep", ["load@server.js:5", ""]);
        assert_eq!(said.as_deref(), Some("it waits in load() of server.js:5"));
        let said = waits("device", ["", "load@server.js:5"]);
        assert_eq!(said.as_deref(), Some("node 20 waits in load() of server.js:5"));
        assert_eq!(
            waits("sleep", ["uv_fs_read", ""]),
            None,
            "a library's says nothing to a person"
        );
        assert_eq!(waits("works", ["load@server.js:5", ""]), None);
        assert_eq!(waits("person", ["", "load@server.js:5"]), None, "it was stopped there");
    }

    #[test]
    fn how_long_a_wait_that_leads_nowhere_may_last_is_said_by_its_own_timeout() {
        let waits = |timeout_ms: u64| {
            let args = [3, 0, 64, timeout_ms, 0, 0];
            let syscall = "epoll_wait".into();
            let place = Place { state: WaitState::Sleep, syscall, args, ..Place::default() };
            let mut facts = host();
            facts.extend(client_and_server(at_place(20, "server", place)));
            let (kind, name, cgroups, words) =
                (TargetKind::Command, "client".into(), Vec::new(), Vec::new());
            let target = Target { kind, name, pid: 10, cgroups, words };
            facts.push(fact(Body::Target(target)));
            explain(facts).answer
        };
        let said = "a timeout of server 20's own ends that 5 s after the look at the latest";
        let timed = waits(LOOK_NS / 1_000_000 + 5_000);
        assert!(timed.text.contains(said), "{} {}", timed.title, timed.text);
        assert!(!waits(u64::from(u32::MAX)).text.contains("timeout"), "it waits for ever");
    }

    fn frame(function: &str, module: &str, line: u32) -> UserFrame {
        UserFrame { function: function.into(), module: module.into(), line }
    }

    fn target() -> Fact {
        of_process(10, "shop")
    }

    /// A thread that stood with these functions all the time.
    fn stack(frames: Vec<UserFrame>) -> Fact {
        let thread = thread(10, "shop");
        let stack = UserStack { thread, since_ns: 0, frames, complete: true };
        Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) }
    }

    fn goroutines(all: &[(u64, &[&str])]) -> Fact {
        let one = |(id, functions): &(u64, &[&str])| Goroutine {
            id: *id,
            frames: functions.iter().map(|name| frame(name, "shop", 0)).collect(),
            ..Goroutine::default()
        };
        let standing = all.iter().map(one).collect();
        let all = Goroutines { pid: 10, standing, ..Goroutines::default() };
        Fact { at_ns: LOOK_NS, body: Body::Goroutines(all) }
    }

    const SLEEPS: &[&str] = &["runtime.gopark", "time.Sleep", "main.refill"];
    const WAITS: &[&str] = &["runtime.gopark", "runtime.chanrecv", "main.main"];
    const POLLS: &[&str] = &["runtime.gopark", "internal/poll.runtime_pollWait", "main.serve"];
    const COLLECTS: &[&str] = &["runtime.gopark", "runtime.bgsweep"];

    #[test]
    fn of_an_idle_program_it_is_said_where_it_stands() {
        let asleep = blocked(10, "shop", WaitState::Sleep, "clock_nanosleep");
        let frames = vec![frame("clock_nanosleep", "libc.so.6", 0), frame("take", "shop.py", 12)];
        let facts = [host(), vec![target(), asleep.clone(), stack(frames)]].concat();
        let answer = explain(facts).answer;
        assert_eq!(answer.verdict, Verdict::Idle);
        assert_eq!(answer.text, "It stands in take() of shop.py:12.");
        let unread = explain([host(), vec![target(), asleep]].concat());
        assert_eq!(unread.answer.text, "");
    }

    #[test]
    fn who_rests_for_a_limit_that_it_was_given_is_not_idle() {
        let said = |command: &str, syscall: &str, unread: u64| {
            let known =
                Thread { thread: thread(10, "curl"), command: command.into(), ..Thread::default() };
            let socket = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
            let mut end = endpoint(10, "curl", socket);
            if let Body::Endpoint(end) = &mut end.body {
                end.unread = Some(unread);
            }
            let rests = blocked(10, "curl", WaitState::Sleep, syscall);
            let facts = vec![of_process(10, "curl"), identity(known), end, rests];
            explain([host(), facts].concat()).answer.title
        };
        let limited = "curl --limit-rate 100k http://x";
        let keeps = "curl 10 keeps to a limit of its own, --limit-rate 100k.";
        assert_eq!(said(limited, "clock_nanosleep", 0), keeps);
        assert_eq!(said(limited, "epoll_wait", 5_000), keeps, "it leaves unread what has come");
        for (command, syscall) in [("curl http://x", "clock_nanosleep"), (limited, "epoll_wait")] {
            let rests = said(command, syscall, 0);
            assert!(rests.starts_with("curl 10 is idle"), "{command} {syscall}: {rests}");
        }
    }

    #[test]
    fn of_a_go_program_its_goroutines_say_it() {
        let idle = blocked(10, "shop", WaitState::Sleep, "futex");
        let all = goroutines(&[(1, WAITS), (6, SLEEPS), (7, POLLS), (2, COLLECTS)]);
        let facts = [host(), vec![target(), idle, all]].concat();
        let said = "1 goroutine waits for a channel in main.main(), 1 sleeps in main.refill().";
        assert_eq!(explain(facts).answer.text, said);
    }

    /// A client waits for a Go program one of whose goroutines stands so.
    #[test]
    fn a_title_names_the_goroutine_that_may_serve_the_question() {
        let title = |id, functions: &[&str]| {
            let mut all = goroutines(&[(id, functions)]);
            if let Body::Goroutines(all) = &mut all.body {
                (all.pid, all.standing[0].since_ns) = (20, LOOK_NS / 100);
            }
            let idle = blocked(20, "server", WaitState::Sleep, "futex");
            let who = vec![of_process(10, "client"), all];
            explain([host(), client_and_server(idle), who].concat()).answer.title
        };
        const SERVES: &[&str] =
            &["runtime.gopark", "runtime.chansend", "main.submit", "net/http.(*conn).serve"];
        const SELECTS: &str = "runtime.selectgo";
        let said = title(7, SERVES);
        assert!(said.contains("a goroutine of which waits for room in a channel"), "{said}");
        let of_main = title(1, &["runtime.chanrecv", "main.main", "runtime.main"]);
        assert!(!of_main.contains("goroutine"), "{of_main}");
        let opener = title(7, &[SELECTS, "database/sql.(*DB).connectionOpener"]);
        assert!(!opener.contains("goroutine"), "{opener}");
        let worker = title(7, &[SELECTS, "go.opencensus.io/stats/view.(*worker).start"]);
        assert!(!worker.contains("goroutine"), "{worker}");
    }

    #[test]
    fn who_sleeps_over_an_answer_does_it_in_a_function() {
        let asleep = blocked(20, "server", WaitState::Sleep, "clock_nanosleep");
        let thread = thread(20, "server");
        let frames = vec![frame("clock_nanosleep", "libc.so.6", 0), frame("price", "shop.py", 7)];
        let stack = UserStack { thread, since_ns: 0, frames, complete: true };
        let stack = Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) };
        let facts =
            [host(), client_and_server(asleep), vec![of_process(10, "client"), stack]].concat();
        let report = explain(facts);
        let ends = &report.answer.ends;
        let who = ends[0].chain.last().and_then(|link| link.who.function.clone());
        assert_eq!(who.as_deref(), Some("price"), "{ends:?}");
    }
}
