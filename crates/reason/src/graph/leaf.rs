//! A piece of an interval of somebody's life, with the chain of links that leads to what it was spent on.
//!
//! Must not: follow (chains.rs), or add up (ends.rs).

use super::ways::held::{handed_work, joined, session_table};
use super::ways::owed::only_child;
use super::worker_processes::program;
use crate::facts::{Ns, Place, ThreadRef};
use crate::model::object::Object;
use crate::waits::{WaitClass, unit_job};
use std::sync::Arc;

/// Why whoever is at the other end of what is polled is next (ways/owed/descriptors.rs).
pub(super) const BECAUSE_POLLED: &str = "of what is waited for nothing else leads on";
/// Why a worker that a broker has given a question to is next (ways/owed/handed_out.rs): it holds nothing of the broker's.
pub(super) const BECAUSE_HANDED_OUT: &str =
    "it was given something just as the question came, and reads nothing since";

/// One link: who did what, on what, when.
#[derive(Debug, Clone)]
pub struct ChainLink {
    /// Who.
    pub who: ThreadRef,
    /// Did what.
    pub class: WaitClass,
    /// On what.
    pub object: Object,
    /// From, within the interval that is explained.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// Since when it lasts; may be before the window.
    pub since_ns: Ns,
    /// It has not ended.
    pub standing: bool,
    /// Nothing but the clock ended it.
    pub by_clock: bool,
    /// It goes on until a time of its own, though others end its waits in between.
    pub own_clock: bool,
    /// It waits for the next question of somebody who connected to it, and for no answer: that process, 0 if it is not
    /// known which.
    pub question_of: Option<u32>,
    /// It waits for whoever of several comes first, as an event loop does.
    pub is_loop: bool,
    /// An event loop's: what it answers with was brought by the question of another client, who is the next link.
    pub is_brought: bool,
    /// Why it is the next link that was followed to, and nobody else: what the way there says.
    pub because: Option<&'static str>,
}

impl ChainLink {
    /// Somebody who did something for so long, and of whom no more is known.
    pub(super) fn of(
        who: ThreadRef,
        class: WaitClass,
        object: Object,
        (begin_ns, end_ns): (Ns, Ns),
    ) -> Self {
        Self {
            who,
            class,
            object,
            begin_ns,
            end_ns,
            since_ns: begin_ns,
            standing: false,
            by_clock: false,
            own_clock: false,
            question_of: None,
            is_loop: false,
            is_brought: false,
            because: None,
        }
    }

    /// Length, nanoseconds.
    pub fn ns(&self) -> Ns {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// What it waits for, where that is known better than by its wait alone.
    pub(super) fn is_for(&mut self, class: WaitClass, object: Object) {
        (self.class, self.object) = (class, object);
    }
}

/// Whether a wait is that of an event loop: for whichever of several comes first.
pub(super) fn is_loop(place: &Place) -> bool {
    place.syscall.starts_with("epoll_") || place.is_for_several() && place.polled.len() > 1
}

/// A piece of an interval, with the chain that leads to what it was spent on.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// From.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// From the victim to the root; never empty. Shared: a long wait is cut into many leaves.
    pub links: Vec<Arc<ChainLink>>,
    /// The last link's holder, if it is already in the chain: a circle.
    pub circle: Option<ThreadRef>,
}

impl Leaf {
    /// Length in nanoseconds.
    pub fn ns(&self) -> Ns {
        self.end_ns - self.begin_ns
    }

    /// The first link that waits for a word of somebody. Who joins a thread waits for all that it does, however small its parts.
    pub fn first_asker(&self) -> &ChainLink {
        let joins = |link: &&Arc<ChainLink>| link.because == Some(joined::BECAUSE);
        self.links.iter().find(|link| !joins(link)).map_or(self.root(), Arc::as_ref)
    }

    /// The link at the root.
    pub fn root(&self) -> &ChainLink {
        &self.links[self.links.len() - 1]
    }

    /// Whether the victim waits for work, as far as one wait tells: it, or whom it reads from, has asked a server that rests meanwhile, and that answers
    /// when another client has brought something, or at a time that was agreed.
    pub fn is_for_work(&self) -> bool {
        let rests =
            |at: usize| self.links.len() == at + 1 && self.links[at].class == WaitClass::Idle;
        self.asks_one(|at| rests(at) || self.is_brought(at))
    }

    /// Whether it waits so for what another client of that server brings.
    pub fn is_for_anothers_word(&self) -> bool {
        self.asks_one(|at| self.is_brought(at))
    }

    /// Whether the victim, or whom it reads from, has asked another process, at whose link this is so; and nothing is held.
    fn asks_one(&self, is_so: impl Fn(usize) -> bool) -> bool {
        let asks = |at: usize| {
            let (asks, asked) = (&self.links[at], &self.links[at + 1]);
            let reads = matches!(asks.class, WaitClass::SocketRead | WaitClass::UnixRead);
            reads && asked.who.pid != asks.who.pid
        };
        // Who reads from somebody has asked him, and nobody else.
        let reads = |at: usize| self.links[..at].iter().all(|it| it.class == WaitClass::PipeRead);
        let is_it = |at: usize| asks(at) && reads(at) && is_so(at + 1);
        self.named().is_none() && (0..self.links.len() - 1).any(is_it)
    }

    /// Whether a server waits at a link for what another of its clients brings: a loop, or a thread to which another hands over what its own client says.
    fn is_brought(&self, at: usize) -> bool {
        let link = &self.links[at];
        let asker = at.checked_sub(1).map(|at| self.links[at].who.pid);
        let of_other =
            |next: &Arc<ChainLink>| next.question_of.is_some_and(|pid| Some(pid) != asker);
        let is_handed = link.because == Some(handed_work::BECAUSE_OF_WORDS);
        link.class == WaitClass::Idle && link.is_brought
            || is_handed && self.links.get(at + 1).is_some_and(of_other)
    }

    /// Whether a thread of a server waits for the next event, and for nobody whom it asked.
    pub fn is_rest(&self) -> bool {
        let first = &self.links[0];
        let rests = first.class == WaitClass::Idle && self.links.len() == 1;
        (rests || self.is_brought(0)) && self.named().is_none()
    }

    /// The link that names the cause: the root if its class is a cause by itself, else the last link
    /// that somebody holds. None if nothing in the chain is a cause: somebody works, or is idle.
    pub fn named(&self) -> Option<usize> {
        let last = self.links.len() - 1;
        // A pipe, a terminal: the reader is the cause even if he is stopped or frozen.
        let stalled = matches!(self.links[last].class, WaitClass::Stopped | WaitClass::Traced);
        if stalled
            && last > 0
            && matches!(
                self.links[last - 1].class,
                WaitClass::PipeWrite
                    | WaitClass::TtyWrite
                    | WaitClass::FileLock
                    | WaitClass::PolledLock
                    | WaitClass::FutexLock
            )
        {
            return Some(last - 1);
        }
        if self.links[last].class.is_root() || self.is_in_a_queue(last) {
            return Some(last);
        }
        (0..=last).rev().find(|at| self.is_held(*at))
    }

    /// Whether the last of a chain is a session that waits inside its server as the one before does, which the server's table of locks says is behind
    /// it: it is the next to have the lock, and does not have it.
    fn is_in_a_queue(&self, last: usize) -> bool {
        let waits = |link: &ChainLink| {
            link.class == WaitClass::FutexWait && matches!(link.object, Object::Inside(_))
        };
        let before = last.checked_sub(1).map(|at| &self.links[at]);
        let is_next =
            |link: &ChainLink| waits(link) && link.because == Some(session_table::BECAUSE);
        before.is_some_and(|link| is_next(link)) && waits(&self.links[last])
    }

    /// Whether somebody holds what a link waits for. A condition, a semaphore or an event counts where whoever let go was
    /// waiting for its own client's next question meanwhile: it kept what it had (a row of a table), which only a session of the same server
    /// can. A semaphore counts too where whoever let go belongs to another process.
    fn is_held(&self, at: usize) -> bool {
        let link = &self.links[at];
        let Some(next) = self.links.get(at + 1) else { return link.class.is_held() };
        let keeps = next.question_of.is_some_and(|asker| asker != link.who.pid);
        let by_another = link.class == WaitClass::FutexWait
            && next.who.pid != link.who.pid
            && link.because != Some(BECAUSE_HANDED_OUT);
        // A process whose unit is to start may well wait for its own clients by then, and so may a worker whose master waits for its end, and who was asked
        // over a connection: of two scripts of one language both have its name.
        let holds_nothing = [
            unit_job::BECAUSE,
            handed_work::BECAUSE,
            handed_work::BECAUSE_OF_WORDS,
            only_child::BECAUSE,
            BECAUSE_POLLED,
        ];
        let inside = matches!(link.class, WaitClass::FutexWait | WaitClass::Idle)
            && keeps
            && may_be_sessions(&link.who, next)
            && link.because.is_none_or(|because| !holds_nothing.contains(&because));
        // Who reads as fast as he can is no holder: what he does with it is where the time goes; nor is a pager, which
        // reads on when its user wants more.
        let root = self.root();
        let reads = link.class.is_full()
            && (matches!(root.class, WaitClass::Running | WaitClass::Unseen)
                || root.class == WaitClass::Idle && matches!(root.object, Object::Tty(_)));
        link.class.is_held() && !reads || by_another || inside
    }
}

/// Whether a link's waiter and the next one may be sessions of one server: threads of one process, or processes of one program. Whom another
/// program asks holds nothing of that one's, and the loop of its own process that serves many clients hands on what they bring.
fn may_be_sessions(who: &ThreadRef, next: &ChainLink) -> bool {
    match who.pid == next.who.pid {
        true => !next.is_loop,
        false => program(&who.comm) == program(&next.who.comm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::thread;

    /// Whether somebody who waits for events is held up by the next one, who waits for the next question of 40.
    fn is_held(who: (u32, &str), next: (u32, &str), is_loop: bool) -> bool {
        let link = |(pid, comm): (u32, &str)| {
            ChainLink::of(thread(pid, comm), WaitClass::Idle, Object::Nothing, (0, 1))
        };
        let next = ChainLink { question_of: Some(40), is_loop, ..link(next) };
        let links = vec![Arc::new(link(who)), Arc::new(next)];
        Leaf { begin_ns: 0, end_ns: 1, links, circle: None }.named() == Some(0)
    }

    #[test]
    fn a_worker_that_serves_clients_holds_nothing_of_its_masters() {
        let of = |because| {
            let link =
                |pid| ChainLink::of(thread(pid, "web"), WaitClass::Idle, Object::Nothing, (0, 1));
            let links = vec![
                Arc::new(ChainLink { because, ..link(20) }),
                Arc::new(ChainLink { question_of: Some(40), ..link(21) }),
            ];
            Leaf { begin_ns: 0, end_ns: 1, links, circle: None }.named()
        };
        assert_eq!(of(Some(only_child::BECAUSE)), None);
        assert_eq!(of(Some(BECAUSE_POLLED)), None, "it was asked over a connection");
        assert_eq!(of(Some(session_table::BECAUSE)), Some(0), "a session of the same server");
    }

    #[test]
    fn only_a_session_of_the_same_server_holds_something_inside_it() {
        assert!(is_held((20, "db"), (20, "db"), false), "a thread for each session");
        assert!(!is_held((20, "db"), (20, "db"), true), "the loop that serves all clients");
        assert!(is_held((20, "db"), (30, "db"), true), "a process for each session");
        assert!(is_held((20, "app: one"), (30, "app: two"), true), "by their titles");
        assert!(!is_held((20, "imap"), (30, "stats"), true), "another program that it asks");
    }

    /// Whether 10, or who reads from it, waits for work at server 20, whose links these are, while 30 does something.
    fn is_for_work(piped: bool, server: &[ChainLink]) -> bool {
        let link = |pid, class| ChainLink::of(thread(pid, "job"), class, Object::Nothing, (0, 1));
        let mut links = vec![link(10, WaitClass::SocketRead)];
        links.splice(0..0, piped.then(|| link(9, WaitClass::PipeRead)));
        links.extend_from_slice(server);
        links.push(link(30, WaitClass::Timer));
        let links = links.into_iter().map(Arc::new).collect();
        Leaf { begin_ns: 0, end_ns: 1, links, circle: None }.is_for_work()
    }

    #[test]
    fn who_waits_for_what_another_client_brings_waits_for_work() {
        let link = |class| ChainLink::of(thread(20, "server"), class, Object::Nothing, (0, 1));
        let of_loop = ChainLink { is_brought: true, ..link(WaitClass::Idle) };
        let given = ChainLink { question_of: Some(30), ..link(WaitClass::Idle) };
        let handed = ChainLink {
            because: Some(handed_work::BECAUSE_OF_WORDS),
            ..link(WaitClass::FutexWait)
        };
        let serves = ChainLink { question_of: Some(30), ..link(WaitClass::SocketRead) };
        assert!(is_for_work(false, std::slice::from_ref(&of_loop)));
        assert!(is_for_work(true, std::slice::from_ref(&of_loop)), "a worker's child");
        assert!(is_for_work(false, &[handed, serves.clone()]));
        assert!(!is_for_work(false, &[given]), "a worker that the server has given something");
        assert!(!is_for_work(false, &[link(WaitClass::Idle)]), "a server that asks another");
        assert!(!is_for_work(false, &[serves]), "one that serves one client at a time");
    }
}
