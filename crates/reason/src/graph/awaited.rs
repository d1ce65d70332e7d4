//! Whom a process waits for that somebody asked about, where it waits for whatever comes next and nobody can ask it anything.
//!
//! Its one child, as `sudo` and `npm run` have one: by events, by a pipe of its own in which its handler of signals writes (gdb), or by short
//! sleeps while the child has the terminal (vim `:!`). Who is in the foreground of a terminal that it shows. The session in which what is typed is
//! done, and who has the output of what has ended (typed_session.rs). The server of the one connection that a loop polls, where no clock says who spoke
//! last on it: docker, and whatever else asks over a unix socket. What is found is only where to look: whether somebody is held up there
//! is the chain's to say (demand.rs).
//!
//! Must not: choose among several, or take a worker of the same program for such a child.

use super::chains::Chains;
use super::index::Index;
use super::leaf::Leaf;
use super::ways::owed::{polled, typed_session};
use crate::facts::{Endpoint, Ns, ObjectRef, Target, ThreadRef};
use crate::model::terminal::Terminal;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::HashSet;

/// Whom the waits of the process that was asked about are for, and what was found there.
#[derive(Default)]
pub(super) struct Awaited {
    pid: u32,
    /// It takes connections: whoever makes one may ask it.
    is_asked: bool,
    /// Somebody there reads what is typed.
    pub at_prompt: bool,
    /// Waits at whose ends somebody is held up: thread and begin.
    counted: HashSet<(u32, Ns)>,
}

impl Awaited {
    /// Of a process, or what else was asked about.
    pub(super) fn of(index: &Index<'_>, target: Option<&Target>) -> Self {
        let Some(target) = target else { return Self::default() };
        let is_asked = index.connections.listening(target.pid).next().is_some();
        Self { pid: target.pid, is_asked, ..Self::default() }
    }

    /// Whom a wait is for.
    pub(super) fn by(&self, index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
        if wait.kernel || wait.thread.pid != self.pid {
            return None;
        }
        // In a terminal that it shows something may run, whoever asks it.
        if self.is_asked {
            return in_shown_terminal(index, wait);
        }
        let session = || {
            let main = Some(wait).filter(|wait| wait.thread.tid == wait.thread.pid)?;
            typed_session::doing(index, main).or_else(|| typed_session::left_behind(index, main))
        };
        let server = || server(index, wait).map(|(far, _)| far);
        child(index, wait).or_else(session).or_else(server)
    }

    /// Takes in where the chain of a wait leads. Whether it is to whom the wait is for, or to who began that one, and there to more than a rest: whom
    /// else the loop may have asked is not said of these, and who waits for work, or for a time of its own, holds nobody up. Nor is a worker of the
    /// same program waited for.
    pub(super) fn takes(&mut self, index: &Index<'_>, leaf: &Leaf, far: &ThreadRef) -> bool {
        let own = &leaf.links[0];
        let first = leaf.links.get(1).map(|link| link.who.pid).filter(|pid| *pid != own.who.pid);
        if !first.is_some_and(|first| index.families.descends(far.pid, first)) {
            return false;
        }
        self.at_prompt |= is_at_a_prompt(index, leaf);
        let name = |pid: u32| index.model.threads.process_name(pid);
        let waits = || rests(leaf) || leaf.root().class == WaitClass::FutexWait;
        let counts = name(far.pid) != name(own.who.pid) && (leaf.named().is_some() || !waits());
        if counts {
            self.counted.insert((own.who.tid, own.since_ns));
        }
        counts
    }

    /// Whether a chain begins with a wait that has been counted.
    pub(super) fn has(&self, leaf: &Leaf) -> bool {
        self.counted.contains(&(leaf.links[0].who.tid, leaf.links[0].since_ns))
    }
}

/// Whether a chain ends at somebody who waits for work or for the next question.
pub(super) fn rests(leaf: &Leaf) -> bool {
    let root = leaf.root();
    matches!(root.class, WaitClass::Idle | WaitClass::PipeRead) || root.question_of.is_some()
}

/// Whether a chain leads to who reads what is typed, and nothing else.
fn is_at_a_prompt(index: &Index<'_>, leaf: &Leaf) -> bool {
    let root = leaf.root();
    let is_it = |wait: &WaitSpan| {
        wait.begin_ns == root.since_ns
            && wait.class == WaitClass::Idle
            && wait.place.object.as_ref().is_some_and(is_keyboard)
    };
    index.waits.within(&root.who, root.begin_ns, root.end_ns).iter().any(is_it)
}

/// The child of a process, or who is in the foreground of the terminal that it shows.
fn child(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let (families, pid) = (&index.families, wait.thread.pid);
    let at = (wait.begin_ns, wait.end_ns);
    let is_main = wait.thread.tid == pid;
    let only = || families.only_child(pid, at.0, at.1);
    match wait.class {
        WaitClass::Idle if is_main => families.in_shown_terminal(pid, at).or_else(only),
        // A thread of its own reads what is shown (Tcl's), and the main one waits for that.
        WaitClass::Idle => in_shown_terminal(index, wait),
        WaitClass::PipeRead if is_main && hears_itself(index, wait) => only(),
        WaitClass::Timer if is_main => {
            let child = only().filter(|child| families.has_terminal_of(child.pid, pid))?;
            (polled::child(index, wait)? == child).then_some(child)
        }
        _ => None,
    }
}

/// Who has the other end of the one unix socket that a loop of a process polls which nobody can ask anything, and that end.
pub(crate) fn only_server(chains: &Chains<'_>, wait: &WaitSpan) -> Option<(ThreadRef, u64)> {
    let is_asked = chains.index.connections.listening(wait.thread.pid).next().is_some();
    if is_asked { None } else { server(&chains.index, wait) }
}

/// Who has accepted the one unix socket that a loop has connected, and polls beside nothing of another process; and that end of it.
fn server(index: &Index<'_>, wait: &WaitSpan) -> Option<(ThreadRef, u64)> {
    let pid = wait.thread.pid;
    let polled = index.connections.of_process(pid, &wait.place.polled);
    let has_another =
        |ino: u64| index.connections.endpoints_on(ino).iter().any(|it| it.process.pid != pid);
    let is_of_others = |end: &&&Endpoint| match &end.object {
        ObjectRef::Pipe { ino } => has_another(*ino),
        // Of one whose other end was not seen nobody knows whose that is.
        ObjectRef::Unix { peer_ino, .. } => {
            has_another(*peer_ino) || index.connections.endpoints_on(*peer_ino).is_empty()
        }
        _ => true,
    };
    let mut all = polled.iter().filter(is_of_others).filter(|_| wait.class == WaitClass::Idle);
    let only = all.next().filter(|_| all.next().is_none())?;
    let ObjectRef::Unix { ino, peer_ino, .. } = &only.object else { return None };
    let name = |ino: u64| index.model.called.unix_path(ino);
    let far = index.connections.endpoints_on(*peer_ino).iter().map(|it| &it.process);
    let far: Vec<&ThreadRef> = far.filter(|it| it.pid != pid).collect();
    let is_one = far.first().is_some_and(|first| far.iter().all(|it| it.pid == first.pid));
    let is_client = name(*ino).is_none() && name(*peer_ino).is_some();
    (is_one && is_client).then(|| (far[0].clone(), *peer_ino))
}

/// Who is in the foreground of the terminal that a wait polls the other side of.
fn in_shown_terminal(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let pid = wait.thread.pid;
    let polled = || index.connections.of_process(pid, &wait.place.polled);
    let shows = wait.class == WaitClass::Idle && polled().iter().any(|end| is_shown(&end.object));
    shows.then(|| index.families.in_shown_terminal(pid, (wait.begin_ns, wait.end_ns)))?
}

/// Whether a loop waits for what it writes itself: nobody else has any of the pipes that it polls.
fn hears_itself(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let is_own = |end: &&Endpoint| match end.object {
        ObjectRef::Pipe { ino } => {
            let mut all = index.connections.endpoints_on(ino).iter();
            all.all(|it| it.process.pid == wait.thread.pid)
        }
        _ => false,
    };
    let polled = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    wait.place.is_for_several() && !polled.is_empty() && polled.iter().all(is_own)
}

fn is_shown(object: &ObjectRef) -> bool {
    matches!(object, ObjectRef::Tty { name, .. } if Terminal::of(name).is_shown())
}

fn is_keyboard(object: &ObjectRef) -> bool {
    matches!(object, ObjectRef::Tty { name, .. } if Terminal::of(name).is_keyboard())
}

#[cfg(test)]
mod tests {
    use super::Awaited;
    use crate::answer::explain;
    use crate::answer::report::Answer;
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::scenes::{NO_ARGS, child, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    /// Who is awaited in the first wait of thread 10.
    fn found(facts: Vec<Fact>) -> Option<u32> {
        found_by(10, facts)
    }

    fn found_by(tid: u32, facts: Vec<Fact>) -> Option<u32> {
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        let wait = timelines.waits().find(|wait| wait.thread.tid == tid).expect("it waits");
        let Body::Target(target) = of_process(10, "app").body else { return None };
        Awaited::of(&index, Some(&target)).by(&index, wait).map(|it| it.pid)
    }

    fn tty(name: &str) -> ObjectRef {
        ObjectRef::Tty { name: name.into(), dev: DeviceNumber { major: 136, minor: 3 } }
    }

    fn known(pid: u32, parent_pid: u32, session: u32, foreground: Option<u32>) -> Fact {
        let thread = thread(pid, if pid == 10 { "app" } else { "job" });
        let (process_group, foreground_group) = (pid, foreground);
        let own = Thread { thread, parent_pid, session, ..Thread::default() };
        identity(Thread { process_group, foreground_group, ..own })
    }

    #[test]
    fn a_loop_that_nobody_can_ask_waits_for_its_one_child() {
        let is_awaited = |more: Vec<Fact>| {
            let waits = vec![stands(of_ten(10), place("epoll_wait", NO_ARGS, None))];
            found([waits, more].concat()).is_some()
        };
        assert!(is_awaited(vec![child(20, 10)]));
        assert!(!is_awaited(vec![child(20, 10), child(21, 10)]), "which of them?");
        let listens = endpoint(10, "app", inet("tcp", 5, "0.0.0.0:80", "0.0.0.0:0", 10));
        assert!(!is_awaited(vec![child(20, 10), listens]), "it may be asked");
    }

    #[test]
    fn a_loop_with_one_connection_over_a_unix_socket_waits_for_its_server_if_that_is_held_up() {
        let unix = |ino: u64, path: Option<&str>| {
            let path = path.map(Into::into);
            ObjectRef::Unix { ino, peer_ino: ino ^ 1, path }
        };
        let ends = |does: Fact, more: Vec<Fact>| {
            let polls = Place { polled: vec![7, 5], ..place("epoll_pwait", NO_ARGS, None) };
            let facts = vec![
                of_process(10, "app"),
                stands(of_ten(10), polls),
                descriptor(10, 5, "app", unix(100, None)),
                descriptor(20, 5, "server", unix(101, Some("/run/server.sock"))),
                does,
            ];
            explain([host(), facts, more].concat()).answer.ends.len()
        };
        let held = || {
            let file = FileRef { path: Some("/srv/l".into()), ino: 9, ..FileRef::default() };
            let file = Some(ObjectRef::File(file));
            stands(thread(20, "server"), place("flock", NO_ARGS, file))
        };
        assert_eq!(ends(held(), vec![]), 1, "docker");
        let rests = stands(thread(20, "server"), place("epoll_wait", NO_ARGS, None));
        assert_eq!(ends(rests, vec![]), 0, "a bus");
        let listens = endpoint(10, "app", inet("tcp", 7, "0.0.0.0:80", "0.0.0.0:0", 10));
        assert_eq!(ends(held(), vec![listens]), 0, "it may be asked");
        let another = descriptor(10, 7, "app", unix(200, None));
        assert_eq!(ends(held(), vec![another]), 0, "which of them?");
    }

    #[test]
    fn a_server_that_waits_for_a_lock_is_waited_for_though_its_keeper_rests() {
        let unix = |ino: u64, path: Option<&str>| {
            let path = path.map(Into::into);
            ObjectRef::Unix { ino, peer_ino: ino ^ 1, path }
        };
        let title = |is_locked: bool| {
            let polls = Place { polled: vec![5], ..place("epoll_pwait", NO_ARGS, None) };
            // The server is asked about in this scene; here its client is.
            let mut server = behind_file_lock(20, &thread(30, "keeper"));
            server.retain(|fact| !matches!(fact.body, Body::Target(_)));
            if !is_locked {
                server = vec![blocked(20, "job", WaitState::Sleep, "epoll_wait")];
            }
            let facts = vec![
                of_process(10, "app"),
                stands(of_ten(10), polls),
                descriptor(10, 5, "app", unix(100, None)),
                descriptor(20, 5, "job", unix(101, Some("/run/server.sock"))),
                blocked(30, "keeper", WaitState::Sleep, "epoll_wait"),
            ];
            explain([host(), facts, server].concat()).answer.title
        };
        let held = title(true);
        assert!(held.contains("that keeper 30 holds"), "{held}");
        let pooled = title(false);
        assert!(pooled.contains("is idle"), "a connection of a pool: {pooled}");
    }

    #[test]
    fn a_worker_of_the_same_program_is_not_waited_for() {
        let ends = |name: &str| {
            let worker = Thread { thread: thread(20, name), parent_pid: 10, ..Thread::default() };
            let facts = vec![
                of_process(10, "app"),
                stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
                identity(worker),
                blocked(20, name, WaitState::Sleep, "clock_nanosleep"),
            ];
            explain([host(), facts].concat()).answer.ends.len()
        };
        assert_eq!((ends("job"), ends("app")), (1, 0));
    }

    #[test]
    fn a_loop_that_polls_its_own_pipes_alone_waits_for_its_child() {
        let pipe = |pid: u32, fd: u32| descriptor(pid, fd, "app", ObjectRef::Pipe { ino: 7 });
        let waits = |more: Vec<Fact>| {
            let object = Some(ObjectRef::Pipe { ino: 7 });
            let polls = Place { polled: vec![4], ..place("poll", NO_ARGS, object) };
            found([vec![stands(of_ten(10), polls), child(20, 10), pipe(10, 4)], more].concat())
        };
        assert_eq!(waits(vec![]), Some(20), "gdb");
        assert_eq!(waits(vec![pipe(30, 1)]), None, "another may write there");
    }

    #[test]
    fn who_sleeps_again_and_again_looks_after_the_child_that_has_its_terminal() {
        let waits = |foreground: Option<u32>| {
            let each = |at: u64| slept(10, "app", at * 20_000_000, at * 20_000_000 + 10_000_000);
            let family = vec![known(10, 5, 10, foreground), known(20, 10, 10, foreground)];
            found([family, (0..5).map(each).collect()].concat())
        };
        assert_eq!(waits(Some(20)), Some(20), "vim");
        assert_eq!(waits(Some(10)), None, "a job in the background");
        assert_eq!(waits(None), None, "a service that looks at the time");
    }

    #[test]
    fn a_thread_that_reads_a_shown_terminal_waits_for_who_is_in_its_foreground() {
        let waits = |terminal: &str, more: Vec<Fact>| {
            let polls = Place { polled: vec![3], ..place("pselect6", NO_ARGS, None) };
            let family = vec![known(10, 5, 10, None), known(20, 10, 20, Some(20))];
            let reads = vec![stands(of_ten(11), polls), descriptor(10, 3, "app", tty(terminal))];
            found_by(11, [family, reads, more].concat())
        };
        assert_eq!(waits("ptm/3", vec![]), Some(20), "expect");
        assert_eq!(waits("pts/3", vec![]), None, "a keyboard");
        assert_eq!(waits("ptm/3", vec![child(21, 10)]), None, "which of them?");
        let path = Some("/run/screen".into());
        let listens = descriptor(10, 9, "app", ObjectRef::Unix { ino: 5, peer_ino: 0, path });
        assert_eq!(waits("ptm/3", vec![listens]), Some(20), "whoever else attaches");
    }

    /// What is said of process 10, which polls its terminal and its connection to 20; that polls what it has accepted, and its child 21 does this.
    fn session(does: Fact, more: Vec<Fact>) -> Answer {
        let polls = |fds: &[u32]| Place { polled: fds.to_vec(), ..place("poll", NO_ARGS, None) };
        let facts = vec![
            of_process(10, "app"),
            known(10, 5, 10, Some(10)),
            descriptor(10, 3, "app", inet("tcp", 100, "127.0.0.1:4000", "127.0.0.1:22", 1)),
            descriptor(10, 4, "app", tty("pts/0")),
            stands(of_ten(10), polls(&[3, 3, 4])),
            descriptor(9, 3, "server", inet("tcp", 99, "127.0.0.1:22", "0.0.0.0:0", 10)),
            descriptor(20, 4, "job", inet("tcp", 101, "127.0.0.1:22", "127.0.0.1:4000", 1)),
            known(20, 9, 20, None),
            stands(thread(20, "job"), polls(&[4])),
            identity(Thread {
                thread: thread(21, "task"),
                parent_pid: 20,
                session: 21,
                ..Thread::default()
            }),
            does,
        ];
        explain([host(), facts, more].concat()).answer
    }

    fn locked() -> Fact {
        let file = FileRef { path: Some("/srv/l".into()), ino: 9, ..FileRef::default() };
        stands(thread(21, "task"), place("flock", NO_ARGS, Some(ObjectRef::File(file))))
    }

    #[test]
    fn beside_a_keyboard_the_session_at_the_other_end_is_followed() {
        let held = session(locked(), vec![]);
        assert!(held.ends.iter().any(|it| it.object.name == "/srv/l"), "{}", held.title);
        let another = inet("tcp", 102, "127.0.0.1:22", "127.0.0.1:4001", 1);
        let busy = session(locked(), vec![descriptor(20, 5, "job", another)]);
        assert!(busy.ends.is_empty(), "it may be for the other: {}", busy.title);
    }

    #[test]
    fn who_is_at_a_prompt_waits_for_its_user_wherever_that_is() {
        let prompt = stands(thread(21, "task"), place("pselect6", NO_ARGS, Some(tty("pts/1"))));
        let answer = session(prompt, vec![]);
        assert_eq!(answer.title, "app 10 waits for its user's input.");
        let rests = stands(thread(21, "task"), place("epoll_wait", NO_ARGS, None));
        let answer = session(rests, vec![]);
        assert!(answer.title.starts_with("app 10 is idle"), "{}", answer.title);
    }
}
