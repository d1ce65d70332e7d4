//! What is known beside the call of a semaphore, or of a word that several processes share: who was at it last, the file of the memory and who else
//! has that mapped; as the parts of a sentence.
//!
//! A semaphore has no owner: the last one at it took it, gave it or set it up, and may give it back or not; of one in memory nobody knows even that.
//! So nobody is named as its holder. Must not: follow whoever it is (graph/). Edit together: unwoken.rs, inside.rs and sentences.rs, which say so; awaited_end.rs.

use super::naming::by_name;
use super::report::AnswerEnd;
use crate::facts::{SharedWord, SysvSemaphore, ThreadRef};
use crate::measure::Measures;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;

/// Processes that are named.
const NAMED: usize = 3;
/// How files of sem_open(3) begin.
const NAMED_SEMAPHORES: &str = "/dev/shm/sem.";

/// What is known of one.
pub(super) struct Known {
    /// It, as what is waited for.
    pub what: String,
    /// Who could give it, as a sentence.
    pub whose: String,
    /// Whoever could give it rests, or waits for it as well: a pool at rest looks so.
    pub may_rest: bool,
    /// It is known to be a semaphore.
    pub is_semaphore: bool,
}

/// Of the semaphore that a wait is for.
pub(super) fn of(measures: &Measures<'_>, wait: &WaitSpan) -> Option<Known> {
    let held = &measures.model.held;
    let [first, ..] = wait.place.args;
    let tid = wait.thread.tid;
    match wait.place.syscall.as_str() {
        "semop" | "semtimedop" => {
            let its =
                |it: &&SysvSemaphore| it.waiter.tid == tid && Ok(it.set) == i32::try_from(first);
            let mut all = held.semaphores.iter().map(|(_, it)| it).filter(its);
            all.next_back().and_then(|it| of_set(measures, wait, it))
        }
        "futex" => {
            let its = |it: &&SharedWord| it.waiter.tid == tid && it.address == first;
            let mut all = held.shared_words.iter().map(|(_, it)| it).filter(its);
            all.next_back().and_then(|it| of_memory(measures, wait, it))
        }
        _ => None,
    }
}

/// Who was at the semaphore last that the last of a chain waits for, as a clause.
pub(super) fn last_at(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    Some(match last_user(measures, end)? {
        LastUser::There(last) => {
            let does = does_main(measures, last.pid)
                .map_or_else(String::new, |it| format!(", which {it}"));
            format!("its last user was {}{does}", words::who(last))
        }
        LastUser::Gone(pid) => format!("its last user, process {pid}, is gone"),
    })
}

/// What a chain leads to that ends at such a semaphore, as a verb: who was at it last is known, and nobody is said to hold it.
pub(super) fn does(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let last = match last_user(measures, end)? {
        LastUser::There(last) => format!("whose last user was {}", words::who(last)),
        LastUser::Gone(pid) => format!("whose last user, process {pid}, is gone"),
    };
    let (who, waiters) = end.chain.split_last().filter(|_| end.who.is_none())?;
    Some(match waiters {
        [] => format!("waits for a semaphore, {last}"),
        _ => format!("waits for {}, which waits for a semaphore, {last}", by_name(&who.who)),
    })
}

/// Who was at a semaphore last.
enum LastUser<'m> {
    /// Another than who waits for it.
    There(&'m ThreadRef),
    /// It had this number, and is gone.
    Gone(u32),
}

/// Of the semaphore of System V that the last of a chain waits for.
fn last_user<'m>(measures: &Measures<'m>, end: &AnswerEnd) -> Option<LastUser<'m>> {
    let who = end.chain.last().filter(|_| end.lock_kind == Some(LockKind::Semaphore))?;
    let tid = who.who.tid.or(who.who.pid)?;
    let mut all = measures.model.held.semaphores.iter().map(|(_, it)| it).rev();
    let known = all.find(|it| it.waiter.tid == tid)?;
    match &known.last {
        Some(last) if last.pid != known.waiter.pid => Some(LastUser::There(last)),
        _ => (known.gone_pid != 0).then_some(LastUser::Gone(known.gone_pid)),
    }
}

fn of_set(measures: &Measures<'_>, wait: &WaitSpan, known: &SysvSemaphore) -> Option<Known> {
    let set = known.set;
    let semaphore = format!("a semaphore of System V's set {set}");
    match &known.last {
        Some(last) if last.pid != wait.thread.pid => {
            let name = words::who(last);
            let whose = match does_main(measures, last.pid) {
                Some(does) => format!("{name} {does}: holdup -p {} follows it.", last.pid),
                None => format!("holdup -p {} follows it.", last.pid),
            };
            let whose = whose + &continued(measures, std::slice::from_ref(last));
            let may_rest = rests(measures, last.pid) || at_set(measures, last.pid, set);
            let what = format!("{semaphore}, whose last user was {name}");
            Some(Known { what, whose, may_rest, is_semaphore: true })
        }
        None if known.gone_pid != 0 => Some(Known {
            what: format!("{semaphore}, whose last user, process {}, is gone", known.gone_pid),
            whose: format!(
                "So somebody else who uses that set would have to give it: nsenter -t {} -i ipcs -s -i {set} shows it.",
                wait.thread.pid
            ),
            may_rest: false,
            is_semaphore: true,
        }),
        _ => None,
    }
}

fn of_memory(measures: &Measures<'_>, wait: &WaitSpan, known: &SharedWord) -> Option<Known> {
    let kind = lock_kind_of(measures.model, &wait.thread, wait.begin_ns, wait.end_ns);
    let path = known.path.strip_suffix(" (deleted)").unwrap_or(&known.path);
    let is_named = path.starts_with(NAMED_SEMAPHORES);
    let kind = kind.or(is_named.then_some(LockKind::Semaphore));
    let is_semaphore = kind == Some(LockKind::Semaphore);
    let kind = kind.map_or("a word", LockKind::phrase);
    let place = match path {
        "" | "/dev/zero" => "memory that it shares".to_string(),
        path if path.starts_with("/SYSV") => "System V's shared memory".to_string(),
        path => path.to_string(),
    };
    let users = &known.users;
    let what = match &users[..] {
        [] if known.is_whole => format!("{kind} in {place}, which nobody else has mapped"),
        [] => return None,
        [one] => format!("{kind} in {place}, which {} has mapped too", words::who(one)),
        all => format!("{kind} in {place}, which {} others have mapped too", all.len()),
    };
    let whose = match &users[..] {
        [] => "No other process could give it; one that starts, and maps that file, could.".into(),
        [one] => match does_main(measures, one.pid) {
            Some(does) => format!("{} {does}: holdup -p {} follows it.", words::who(one), one.pid),
            None => format!("holdup -p {} follows it.", one.pid),
        },
        all => format!("One of them could give it: {}.", doing(measures, all)),
    };
    let at_words = |it: &ThreadRef| stands_at(measures, it.pid) == Some(WaitClass::FutexWait);
    let may_rest = users.iter().any(|it| rests(measures, it.pid))
        || !users.is_empty() && users.iter().all(at_words);
    let whose = whose + &continued(measures, users);
    Some(Known { what, whose, may_rest, is_semaphore })
}

/// How those of them go on that are stopped, as a sentence with a space before it; empty if none is.
fn continued(measures: &Measures<'_>, all: &[ThreadRef]) -> String {
    let is_stopped = |it: &&ThreadRef| stands_at(measures, it.pid) == Some(WaitClass::Stopped);
    let pids: Vec<String> = all.iter().filter(is_stopped).map(|it| it.pid.to_string()).collect();
    match &pids[..] {
        [] => String::new(),
        [pid] => format!(" kill -CONT {pid} continues it."),
        all => format!(" kill -CONT {} continues them.", all.join(" ")),
    }
}

/// `app 12, which sleeps, app 13 and 4 more`.
fn doing(measures: &Measures<'_>, all: &[ThreadRef]) -> String {
    let one = |it: &ThreadRef| match does_main(measures, it.pid) {
        Some(does) => format!("{}, which {does}", words::who(it)),
        None => words::who(it),
    };
    let named: Vec<String> = all.iter().take(NAMED).map(one).collect();
    match all.len().saturating_sub(NAMED) {
        0 => named.join("; "),
        more => format!("{}; and {more} more", named.join("; ")),
    }
}

/// What the main thread of a process does, as a verb.
pub(super) fn does_main(measures: &Measures<'_>, pid: u32) -> Option<&'static str> {
    match stands_at(measures, pid)? {
        WaitClass::Timer => Some("sleeps"),
        WaitClass::Child => Some("waits for a child"),
        class if is_for_input(class) => Some("waits for what comes next"),
        WaitClass::FutexWait => Some("waits for a word of memory as well"),
        WaitClass::Stopped => Some("is stopped by a signal"),
        _ => None,
    }
}

/// What the main thread of a process stands at in the end.
pub(super) fn stands_at(measures: &Measures<'_>, pid: u32) -> Option<WaitClass> {
    let main = measures.model.threads.thread_ref(pid);
    let last = measures.graph.waits_of(&main).last();
    last.filter(|wait| wait.standing).map(|wait| wait.class)
}

/// Whether a wait is for a connection, a message or an event.
pub(super) fn is_for_input(class: WaitClass) -> bool {
    use WaitClass::{Idle, PipeRead, SocketRead, UnixRead};
    matches!(class, Idle | PipeRead | SocketRead | UnixRead)
}

fn rests(measures: &Measures<'_>, pid: u32) -> bool {
    stands_at(measures, pid).is_some_and(is_for_input)
}

/// Whether a process waits for a semaphore of a set itself.
fn at_set(measures: &Measures<'_>, pid: u32, set: i32) -> bool {
    let main = measures.model.threads.thread_ref(pid);
    let last = measures.graph.waits_of(&main).last().filter(|wait| wait.standing);
    let is_at = |wait: &WaitSpan| {
        wait.place.syscall.starts_with("sem") && i32::try_from(wait.place.args[0]) == Ok(set)
    };
    last.is_some_and(is_at)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// semop(2): set 5, whose operations are somewhere. futex(2): FUTEX_WAIT_BITSET of a word that is shared.
    const SEMOP: [u64; 6] = [5, 0x7ffd_0000, 1, 0, 0, 0];
    const SHARED: [u64; 6] = [0x7f00_0000_1000, 9 | 256, 0, 0, 0, 0];

    /// A process that a shell began, in a call.
    fn stands(pid: u32, syscall: &str, args: [u64; 6]) -> Vec<Fact> {
        let (state, syscall) = (WaitState::Sleep, syscall.to_string());
        let place = Place { state, syscall, args, ..Place::default() };
        let thread = thread(pid, "app");
        vec![
            identity(Thread { thread, parent_pid: 9, ..Thread::default() }),
            at_place(pid, "app", place),
        ]
    }

    /// What is said of process 10 in such a call, with process 20 in another, and this known.
    fn said(own: (&str, [u64; 6]), other: (&str, [u64; 6]), known: Body) -> String {
        let of = |(call, args): (&str, [u64; 6]), pid| stands(pid, call, args);
        let facts = [
            host(),
            vec![
                of_process(10, "app"),
                identity(Thread { thread: thread(9, "sh"), parent_pid: 1, ..Thread::default() }),
            ],
            of(own, 10),
            of(other, 20),
            vec![Fact { at_ns: LOOK_NS, body: known }],
        ];
        let answer = explain(facts.concat()).answer;
        format!("{} {}", answer.title, answer.text)
    }

    fn semaphore(last: Option<u32>, gone_pid: u32) -> Body {
        let last = last.map(|pid| thread(pid, "app"));
        let waiter = thread(10, "app");
        Body::SysvSemaphore(SysvSemaphore { waiter, set: 5, last, gone_pid, ..Default::default() })
    }

    const SLEEPS: (&str, [u64; 6]) = ("clock_nanosleep", [0; 6]);
    const ACCEPTS: (&str, [u64; 6]) = ("accept4", [3, 0, 0, 0, 0, 0]);

    #[test]
    fn who_was_at_a_semaphore_last_is_said_and_that_he_is_gone() {
        let there = said(("semop", SEMOP), SLEEPS, semaphore(Some(20), 0));
        let title = "app 10 has waited all the time for a semaphore of System V's set 5, whose last user was app 20, and was not woken.";
        assert!(there.starts_with(title), "{there}");
        assert!(there.contains("app 20 sleeps: holdup -p 20 follows it."), "{there}");
        let gone = said(("semop", SEMOP), ACCEPTS, semaphore(None, 77));
        assert!(gone.contains("whose last user, process 77, is gone, and was not woken"), "{gone}");
        assert!(!gone.contains("holdup -p 77"), "{gone}");
    }

    #[test]
    fn a_pool_whose_turn_another_has_who_rests_is_idle() {
        for other in [ACCEPTS, ("semop", SEMOP)] {
            let rests = said(("semop", SEMOP), other, semaphore(Some(20), 0));
            assert!(rests.contains(" is idle: "), "{rests}");
        }
    }

    #[test]
    fn who_has_the_memory_of_a_word_mapped_is_said_with_its_file() {
        let word = |users: &[u32], is_whole| {
            let users = users.iter().map(|pid| thread(*pid, "app")).collect();
            let path = "/dev/shm/sem.mp-x (deleted)".to_string();
            let (waiter, address) = (thread(10, "app"), SHARED[0]);
            Body::SharedWord(SharedWord { waiter, address, path, users, is_whole })
        };
        let one = said(("futex", SHARED), SLEEPS, word(&[20], true));
        let what = "for a semaphore in /dev/shm/sem.mp-x, which app 20 has mapped too, and was not";
        assert!(one.contains(what) && one.contains("app 20 sleeps: holdup -p 20"), "{one}");
        let nobody = said(("futex", SHARED), SLEEPS, word(&[], true));
        assert!(nobody.contains("which nobody else has mapped"), "{nobody}");
        let unknown = said(("futex", SHARED), SLEEPS, word(&[], false));
        assert!(unknown.contains("which other processes may share"), "{unknown}");
        let rests = said(("futex", SHARED), ACCEPTS, word(&[20], true));
        assert!(rests.contains(" is idle: "), "{rests}");
    }

    #[test]
    fn who_could_give_it_and_is_stopped_is_said_so_with_how_it_goes_on() {
        let said_while = |state: WaitState| {
            let mut other = at_place(20, "app", Place { state, ..Place::default() });
            if let Body::Blocked(wait) = &mut other.body {
                wait.place.syscall = "clock_nanosleep".into();
            }
            let (waiter, users) = (thread(10, "app"), vec![thread(20, "app"), thread(9, "sh")]);
            let path = "/dev/shm/sem.mp-x".to_string();
            let word = SharedWord { waiter, address: SHARED[0], path, users, is_whole: true };
            let facts = [
                host(),
                vec![of_process(10, "app")],
                stands(10, "futex", SHARED),
                vec![other, blocked(9, "sh", WaitState::Sleep, "wait4")],
                vec![Fact { at_ns: LOOK_NS, body: Body::SharedWord(word) }],
            ];
            explain(facts.concat()).answer.text
        };
        let stopped = said_while(WaitState::Stopped);
        assert!(stopped.contains("app 20, which is stopped by a signal; sh 9"), "{stopped}");
        assert!(stopped.contains(" kill -CONT 20 continues it."), "{stopped}");
        let sleeps = said_while(WaitState::Sleep);
        assert!(sleeps.contains("app 20, which sleeps") && !sleeps.contains("kill"), "{sleeps}");
    }

    #[test]
    fn of_a_host_who_waits_for_a_semaphore_is_said_unless_the_others_rest() {
        let caveats = |other: (&str, [u64; 6])| {
            let shell = Thread { thread: thread(9, "sh"), parent_pid: 1, ..Thread::default() };
            let facts = [
                host(),
                vec![identity(shell)],
                stands(10, "semop", SEMOP),
                stands(20, other.0, other.1),
                vec![Fact { at_ns: LOOK_NS, body: semaphore(Some(20), 0) }],
            ];
            let all = explain(facts.concat()).caveats;
            all.iter().map(|it| it.text.clone()).collect::<Vec<String>>().join("\n")
        };
        let said = "app 10 has waited all the time for a semaphore of System V's set 5, whose last user was app 20; holdup -p 10 follows it.";
        assert!(caveats(SLEEPS).contains(said), "{}", caveats(SLEEPS));
        assert!(!caveats(ACCEPTS).contains("semaphore"), "{}", caveats(ACCEPTS));
    }

    #[test]
    fn of_a_command_who_was_at_it_last_is_said_beside_the_end() {
        let target = Target { kind: TargetKind::Command, name: "app".into(), pid: 10, ..target() };
        let frame =
            UserFrame { function: "semtimedop".into(), module: "libc.so.6".into(), line: 0 };
        let read =
            UserStack { thread: thread(10, "app"), frames: vec![frame], ..UserStack::default() };
        let said = |known: Option<Body>| {
            let facts = [
                host(),
                vec![fact(Body::Target(target.clone())), fact(Body::UserStack(read.clone()))],
                stands(10, "semtimedop", SEMOP),
                stands(20, SLEEPS.0, SLEEPS.1),
                known.map(|body| Fact { at_ns: LOOK_NS, body }).into_iter().collect(),
            ];
            let answer = explain(facts.concat()).answer;
            (answer.title, answer.text)
        };
        let unseen = "who would have to act cannot be seen from outside";
        let (title, text) = said(Some(semaphore(Some(20), 0)));
        assert!(title.contains("a semaphore, whose last user was app 20: "), "{title}");
        assert!(!title.contains(unseen) && !title.contains("holds"), "{title}");
        assert!(text.contains("its last user was app 20, which sleeps"), "{text}");
        let (title, _) = said(Some(semaphore(None, 77)));
        assert!(title.contains("whose last user, process 77, is gone: "), "{title}");
        for known in [None, Some(semaphore(Some(10), 0))] {
            let (title, _) = said(known);
            assert!(title.contains(unseen), "nobody else is known: {title}");
        }
    }

    fn target() -> Target {
        let (kind, name) = (TargetKind::Command, String::new());
        Target { kind, name, pid: 0, cgroups: Vec::new(), words: Vec::new() }
    }
}
