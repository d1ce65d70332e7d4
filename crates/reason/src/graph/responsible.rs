//! Who would have to act for a wait to end.
//!
//! The order is that of design 4.2: the owner where a table tells one (lock table, futex word, open descriptors), who stands
//! behind a kernel thread, the waker, who owes an answer, and last whoever did it before. A wake-up from an interrupt
//! names nobody, unless it carried a packet of somebody who is at the other end. No system call is idle by its name: a thread
//! that waits for events is followed like any other once somebody waits for it.
//!
//! Must not: judge, or say what an end is (ends.rs). Rejected: the waker alone (a stuck holder wakes nobody).

pub use super::peers::Peers;
use crate::facts::*;
use crate::model::object::Object;
use crate::waits::timeline::{self, WaitSpan};
use crate::waits::{LOCKD_FUNCTIONS, STATD_FUNCTIONS, WaitClass};

/// Who, or what, is to be looked at next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A thread, for the same interval.
    Thread(ThreadRef),
    /// It waits for a name server: index of the question in the model.
    Question(usize),
    /// A peer that was asked on a connection and is not on this host: inode of the socket here.
    Peer(u64),
    /// Nobody that could be seen.
    Nobody,
}

impl From<Option<ThreadRef>> for Next {
    fn from(thread: Option<ThreadRef>) -> Self {
        thread.map_or(Self::Nobody, Self::Thread)
    }
}

impl Peers<'_> {
    /// Who is responsible for a part of a wait. `owed`: somebody waits for this thread, so what it waits for matters even if
    /// it is only the next event.
    pub fn responsible(&self, wait: &WaitSpan, from: Ns, to: Ns, owed: bool) -> Next {
        if let Some(holder) = self.holder(wait) {
            return Next::Thread(holder);
        }
        if !owed {
            return Next::Nobody;
        }
        if matches!(wait.place.object, Some(ObjectRef::Tty { .. })) {
            return Next::Nobody;
        }
        match wait.class {
            WaitClass::Idle | WaitClass::FutexWait => self.behind_events(wait, from, to),
            // A socketpair or a pipe to itself: another of its threads is to answer.
            WaitClass::UnixRead | WaitClass::PipeRead => self.behind_events(wait, from, to),
            WaitClass::Timer => self.polled(wait).into(),
            _ => Next::Nobody,
        }
    }

    /// Who is to be looked at next for a wait, by what it waits for.
    pub fn holder(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        use WaitClass::*;
        let found = match wait.class {
            FileLock => {
                // A worker that wakes only brings the answer of somebody else.
                let waker = || self.waker(wait).filter(|by| !by.comm.starts_with("kworker"));
                self.lock_service(wait).or_else(|| self.lock_holder(wait)).or_else(waker)
            }
            FutexLock => self.futex_owner(wait).or_else(|| self.waker(wait)),
            FutexWait => self.joined(wait).or_else(|| self.waker(wait)),
            PipeWrite => self.pipe_end(wait, true),
            PipeRead => self.pipe_end(wait, false),
            UnixRead | UnixWrite | SocketRead | SocketWrite => self.socket_peer(wait),
            Child => self.child(wait),
            Vfork => self.vfork_child(wait),
            FuseDaemon => self.fuse_server(wait),
            Dns => self.dns_server(wait),
            Journal => self.journal_thread(wait),
            TtyWrite => self.terminal_master(wait),
            KernelLock => self.waker(wait),
            _ => None,
        };
        found.filter(|thread| thread.tid != wait.thread.tid && thread.pid != 0)
    }

    /// For a thread that waits for whatever comes next while somebody waits for it: what it has asked others, who ended it,
    /// the one child that it has, the thread of its own process that is held up.
    fn behind_events(&self, wait: &WaitSpan, from: Ns, to: Ns) -> Next {
        if let Some(question) = self.open_question(wait.thread.pid, from, to) {
            return Next::Question(question);
        }
        // Who was not there for most of the time interrupts it, and is no reason for it.
        let was_there = |by: &ThreadRef| by.start_ns <= from + to.saturating_sub(from) / 2;
        let waker = self.waker(wait).filter(|_| !by_kernel_thread(wait));
        if let Some(waker) = waker.filter(was_there) {
            return Next::Thread(waker);
        }
        if matches!(
            wait.place.object,
            Some(ObjectRef::Inet(_) | ObjectRef::Unix { .. } | ObjectRef::Pipe { .. })
        ) && let Some(peer) = self.far_end(wait)
        {
            return Next::Thread(peer);
        }
        if let Some(next) = self.awaited(wait, to) {
            return next;
        }
        if let Some(next) = self.after_the_clock(wait) {
            return next;
        }
        if wait.class == WaitClass::Idle
            && let Some(only) = self.only_child(wait.thread.pid, from, to)
        {
            return Next::Thread(only);
        }
        self.held_sibling(wait).into()
    }

    /// An event loop looks at the clock between events: what ends one of its next waits, after waits that only the clock ended,
    /// is what it waited for all the while.
    fn after_the_clock(&self, wait: &WaitSpan) -> Option<Next> {
        const PAUSE_NS_MAX: Ns = 50_000_000;
        let by_clock = |wait: &WaitSpan| {
            let context = wait.wake.as_ref().map(|wake| wake.context);
            context == Some(WakeContext::HardInterrupt)
        };
        if !by_clock(wait) {
            return None;
        }
        let later = self.timelines.of(wait.thread.tid).iter();
        let mut until = wait.end_ns;
        for other in later.skip_while(|other| other.begin_ns <= wait.begin_ns) {
            if other.class == WaitClass::RunQueue {
                until = other.end_ns;
                continue;
            }
            let goes_on = other.place.syscall == wait.place.syscall;
            if other.begin_ns > until + PAUSE_NS_MAX || !goes_on {
                return None;
            }
            until = other.end_ns;
            if !by_clock(other) {
                let holder = || self.holder(other).or_else(|| self.far_end(other));
                let waker = self.waker(other).filter(|_| !by_kernel_thread(other));
                return waker.or_else(holder).map(Next::Thread);
            }
        }
        None
    }

    /// Of a wait that stands at the end of the look: whom its process has asked last and has no answer from.
    fn awaited(&self, wait: &WaitSpan, to: Ns) -> Option<Next> {
        const END_NS: Ns = 100_000_000;
        if wait.end_ns.max(to) + END_NS < self.model.end_ns {
            return None;
        }
        let debts = self.debts.awaits.get(&wait.thread.pid)?;
        let last = debts.iter().max_by_key(|debt| debt.since_ns)?;
        let socket = self.model.socket(last.ino)?;
        let mut far = self.far_processes(socket);
        if far.is_empty() {
            // Not accepted yet.
            far = self.listeners(socket, None);
        }
        far.retain(|process| process.pid != wait.thread.pid);
        if far.is_empty() {
            return Some(Next::Peer(last.ino));
        }
        let pids: Vec<u32> = far.iter().map(|process| process.pid).collect();
        self.serving_since(&pids, last.since_ns, wait.end_ns).map(Next::Thread)
    }

    /// The thread of some processes that serves a question which came at a time and stands: the one that turned to something
    /// else then, that ran, that was held up, that waits for events; else the first.
    pub fn serving_since(&self, pids: &[u32], since_ns: Ns, to: Ns) -> Option<ThreadRef> {
        let threads = self.threads_of(pids);
        if let [only] = &threads[..] {
            return Some(only.clone());
        }
        let from = since_ns.max(self.model.begin_ns);
        let length = to.saturating_sub(from);
        let turned = self.turned_at(&threads, since_ns, to);
        let busiest = || {
            let ran = |thread: &&ThreadRef| self.ran_ns.get(&thread.tid).copied().unwrap_or(0);
            threads.iter().max_by_key(ran).filter(|thread| ran(thread) * 2 >= length).cloned()
        };
        let held = || {
            let held = |thread: &&ThreadRef| self.held_up(thread, from, to);
            threads.iter().max_by_key(held).filter(|thread| held(thread) * 2 >= length).cloned()
        };
        let loops = || {
            let waits = |thread: &&ThreadRef| {
                let last = self.timelines.of(thread.tid).last();
                last.is_some_and(|wait| wait.class == WaitClass::Idle)
            };
            threads.iter().find(waits).cloned()
        };
        turned.or_else(busiest).or_else(held).or_else(loops).or_else(|| threads.first().cloned())
    }

    /// The peer of what ended, or will end, a wait for events.
    fn far_end(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let found = match &wait.place.object {
            Some(ObjectRef::Pipe { .. }) => self.pipe_end(wait, wait.place.polled_for_room),
            _ => self.socket_peer(wait),
        };
        found.filter(|thread| thread.pid != wait.thread.pid)
    }

    /// Whom a thread asks after that sleeps for short times again and again: its one child, or the thread of its own process
    /// that was held up meanwhile.
    fn polled(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        const POLLS_MIN: usize = 3;
        const PERIOD_NS_MAX: Ns = 500_000_000;
        let short = |other: &&WaitSpan| {
            other.class == WaitClass::Timer && other.end_ns - other.begin_ns <= PERIOD_NS_MAX
        };
        let polls = self.timelines.of(wait.thread.tid).iter().filter(short).count();
        if polls < POLLS_MIN || !short(&wait) {
            return None;
        }
        let child = self.only_child(wait.thread.pid, wait.begin_ns, wait.end_ns);
        child.or_else(|| self.held_sibling(wait))
    }

    /// The one child that a process had for most of an interval.
    fn only_child(&self, pid: u32, from: Ns, to: Ns) -> Option<ThreadRef> {
        let exits = &self.model.exits;
        let forks = &self.model.forks;
        let lived = |child: &&ThreadRef| {
            let begun = forks.iter().find(|(_, fork)| fork.child.tid == child.tid);
            let ended = exits.iter().find(|(_, exit)| exit.thread.tid == child.tid);
            let since = begun.map_or(from, |(at, _)| (*at).max(from));
            let until = ended.map_or(to, |(at, _)| (*at).min(to));
            until.saturating_sub(since) * 2 >= to.saturating_sub(from)
        };
        let children = self.children_ever(pid);
        let alive: Vec<&ThreadRef> = children.iter().filter(lived).collect();
        match alive[..] {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be
    /// the waiter's.
    fn held_sibling(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let threads = self.threads_of(&[wait.thread.pid]);
        let others = threads.into_iter().filter(|thread| thread.tid != wait.thread.tid);
        let outside = |thread: &ThreadRef| -> Ns {
            let waits = self.timelines.of(thread.tid).iter().filter(|w| w.class.is_outside());
            waits.map(|w| w.within_ns(wait.begin_ns, wait.end_ns)).sum()
        };
        others
            .map(|thread| (outside(&thread), thread))
            .filter(|(held, _)| *held * 2 >= wait.end_ns.saturating_sub(wait.begin_ns))
            .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)))
            .map(|(_, thread)| thread)
    }

    /// The task that woke it, unless it was an interrupt or the idle task.
    pub fn waker(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let wake = wait.wake.as_ref()?;
        (wake.context == WakeContext::Task && wake.by.tid != 0 && wake.by.tid != wait.thread.tid)
            .then(|| wake.by.clone())
    }

    /// A lock on NFS (version 2 and 3) is asked for in steps, each of which somebody must answer before anybody can
    /// hold anything: the host's rpc.statd, which watches the other end for a restart, then the server's lock
    /// manager, a kernel thread that asks its own rpc.statd. The kernel asks over a socket that belongs to no
    /// process, so its functions tell the step, and the service's name the process.
    fn lock_service(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let stands_in = |wait: &WaitSpan, functions: &[&str]| {
            let mut frames = self.model.stack(wait.place.stack).iter();
            frames.any(|frame| functions.contains(&frame.as_str()))
        };
        if stands_in(wait, STATD_FUNCTIONS) {
            return self.chosen(wait, self.named(wait, "rpc.statd"));
        }
        if !stands_in(wait, LOCKD_FUNCTIONS) {
            return None;
        }
        let stuck = |manager: &ThreadRef| {
            let mut waits = self.timelines.of(manager.tid).iter();
            waits.any(|other| {
                stands_in(other, STATD_FUNCTIONS) && other.within_ns(wait.begin_ns, wait.end_ns) > 0
            })
        };
        self.named(wait, "lockd").into_iter().find(stuck)
    }

    /// The lock table: the holder of a lock on the same file, at a reading within the wait.
    fn lock_holder(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let file = match &wait.place.object {
            Some(ObjectRef::File(file)) => (file.dev, file.ino),
            _ => crate::waits::objects::unseen_lock(self.model, wait).map(|l| (l.dev, l.ino))?,
        };
        let waiter = i64::from(wait.thread.pid);
        let mut best: Option<(bool, &FileLock)> = None;
        for (at, lock) in &self.model.locks {
            let same = (lock.dev, lock.ino) == file;
            if lock.blocked || !same || lock.pid == waiter {
                continue;
            }
            let during = *at >= wait.begin_ns && *at <= wait.end_ns + 1_000_000;
            if best.is_none_or(|(known, _)| during && !known) {
                best = Some((during, lock));
            }
        }
        let (_, lock) = best?;
        let pid = match u32::try_from(lock.pid) {
            Ok(pid) if pid > 0 => pid,
            _ => lock.holders.first()?.pid,
        };
        let mut holder = self.model.thread_ref(pid);
        if holder.comm.is_empty() {
            holder.comm.clone_from(&lock.comm);
        }
        Some(holder)
    }

    fn futex_owner(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let [address, ..] = wait.place.args;
        let read = self.futexes.get(&wait.thread.tid)?;
        let owner = read.iter().rev().find(|(at, owner)| {
            owner.address == address
                && owner.owner_tid != 0
                && *at >= wait.begin_ns
                && *at <= wait.end_ns + 10_000_000
        })?;
        let tid = owner.1.owner_tid;
        let mut thread = self.model.thread_ref(tid);
        if thread.comm.is_empty() {
            thread = ThreadRef { tid, pid: wait.thread.pid, ..wait.thread.clone() };
        }
        Some(thread)
    }

    /// pthread_join waits on the joined thread's id in its own descriptor.
    fn joined(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let [_, _, expected, ..] = wait.place.args;
        let tid = u32::try_from(expected).ok().filter(|tid| *tid > 2)?;
        let thread = self.model.names.get(&tid)?;
        (thread.pid == wait.thread.pid).then(|| thread.clone())
    }

    fn pipe_end(&self, wait: &WaitSpan, reader: bool) -> Option<ThreadRef> {
        let Some(ObjectRef::Pipe { ino }) = &wait.place.object else { return self.waker(wait) };
        let ends = self.endpoints_on(*ino);
        let at_end: Vec<ThreadRef> = ends
            .iter()
            .filter(|end| if reader { end.readable } else { end.writable })
            .map(|end| end.process.clone())
            .filter(|process| process.pid != wait.thread.pid)
            .collect();
        if !at_end.is_empty() {
            return self.chosen(wait, at_end);
        }
        // Closed since: who waited at the other end meanwhile was there.
        let class = if reader { WaitClass::PipeRead } else { WaitClass::PipeWrite };
        let there = self
            .waits_on(*ino)
            .iter()
            .filter(|other| other.class == class && other.thread.pid != wait.thread.pid);
        let there = there.map(|other| self.model.thread_ref(other.thread.pid)).collect();
        self.chosen(wait, there)
    }

    fn socket_peer(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let is_other = |process: &ThreadRef| process.pid != wait.thread.pid;
        let mut processes: Vec<ThreadRef> = match &wait.place.object {
            Some(ObjectRef::Unix { peer_ino, .. }) => {
                let open = self.endpoints_on(*peer_ino).iter().map(|end| end.process.clone());
                let waited = self.waits_on(*peer_ino).iter();
                open.chain(waited.map(|other| self.model.thread_ref(other.thread.pid))).collect()
            }
            Some(ObjectRef::Inet(socket)) => self.far_processes(socket),
            _ => Vec::new(),
        };
        processes.retain(is_other);
        if let Some(ObjectRef::Inet(socket)) = &wait.place.object
            && processes.is_empty()
        {
            let by = carrier(wait).map(|thread| thread.pid);
            processes = self.listeners(socket, by);
            processes.retain(is_other);
            // Who accepts may hand the connection on to a child, which is gone with it.
            let child = by.filter(|by| processes.iter().any(|of| self.descends(*by, of.pid)));
            if let Some(child) = child {
                processes = vec![self.model.thread_ref(child)];
            }
        }
        self.chosen(wait, processes)
    }

    /// The process of this host that a question goes to.
    fn dns_server(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let Object::DnsServer(Some(server), _) = wait.object else { return None };
        let server = self.name_server(server)?;
        (server.pid != wait.thread.pid).then(|| self.chosen(wait, vec![server]))?
    }

    /// The process of this host that answers at a name server's address, by the thread that matters in a wait.
    pub fn answers_at(&self, server: std::net::SocketAddr, wait: &WaitSpan) -> Option<ThreadRef> {
        let process = self.name_server(server).filter(|process| process.pid != wait.thread.pid)?;
        self.chosen(wait, vec![process])
    }

    fn fuse_server(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let processes = match &wait.place.object {
            Some(ObjectRef::File(file)) => {
                let ends = self.servers.get(&file.dev).map_or(&[][..], Vec::as_slice);
                ends.iter().map(|end| end.process.clone()).collect()
            }
            // Without a descriptor (open, stat): the one server there is, if there is but one.
            _ if self.servers.len() == 1 => {
                self.servers.values().flatten().map(|end| end.process.clone()).collect()
            }
            _ => Vec::new(),
        };
        self.chosen(wait, processes)
    }

    fn terminal_master(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let Some(ObjectRef::Tty { name, .. }) = &wait.place.object else { return None };
        let ends = self.masters.get(name)?;
        self.chosen(wait, ends.iter().map(|end| end.process.clone()).collect())
    }

    fn journal_thread(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        if let Some(waker) = self.waker(wait)
            && waker.comm.starts_with("jbd2/")
        {
            return Some(waker);
        }
        let Object::Journal(Some(dev)) = wait.object else { return None };
        let prefix = format!("jbd2/{}", self.model.disk(dev)?.name);
        self.model.names.values().find(|thread| thread.comm.starts_with(&prefix)).cloned()
    }

    fn vfork_child(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let before = self.model.forks.iter().rev().find(|(at, fork)| {
            fork.parent.tid == wait.thread.tid && *at <= wait.begin_ns + 1_000_000
        });
        before
            .map(|(_, fork)| self.model.thread_ref(fork.child.tid))
            .or_else(|| self.waker(wait))
            .or_else(|| self.child(wait))
    }

    fn child(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        if let Some(waker) = self.waker(wait) {
            return Some(waker);
        }
        let asked = match wait.place.syscall.as_str() {
            "wait4" => u32::try_from(wait.place.args[0] as i32).ok().filter(|pid| *pid > 0),
            "waitid" if wait.place.args[0] == 1 => u32::try_from(wait.place.args[1]).ok(),
            _ => None,
        };
        if let Some(pid) = asked {
            return Some(self.model.thread_ref(pid));
        }
        // Any child's end would do: only if there is but one, or all are held up, is it known for whom.
        let alive = self.living_children(wait.thread.pid);
        if alive.len() > 1 && !self.hold_up_together(&alive, wait) {
            return None;
        }
        self.chosen(wait, alive)
    }

    /// For a wait of which [`Self::holder`] names nobody: it is for whichever child ends first, and nobody can say
    /// which that will be.
    pub fn waits_for_any_child(&self, wait: &WaitSpan) -> bool {
        wait.class == WaitClass::Child && self.living_children(wait.thread.pid).len() > 1
    }

    /// Whether all of some processes were held up at once for most of a wait, as far as the look has seen it. One that
    /// runs, or waits for input, may end at any time.
    fn hold_up_together(&self, processes: &[ThreadRef], wait: &WaitSpan) -> bool {
        let (from, to) =
            (wait.begin_ns.max(self.model.begin_ns), wait.end_ns.min(self.model.end_ns));
        let mut together = vec![(from, to)];
        for process in processes {
            let held = self.stretches(process.pid, from, to);
            together = timeline::common(&together, &held);
        }
        let all: Ns = together.iter().map(|(begin, end)| end - begin).sum();
        all > 0 && all >= to.saturating_sub(from) / 2
    }

    /// When a process was held up, in any of its threads: in order, without overlap.
    fn stretches(&self, pid: u32, from: Ns, to: Ns) -> Vec<(Ns, Ns)> {
        let threads = self.threads_of(&[pid]);
        let waits = threads.iter().flat_map(|thread| self.timelines.of(thread.tid));
        let held = waits.filter(|w| w.class.is_demand() || is_stalled(w.class));
        let within = held.map(|w| (w.begin_ns.max(from), w.end_ns.min(to)));
        timeline::joined(within.filter(|(begin, end)| begin < end).collect())
    }

    /// How long a thread was held up itself in an interval.
    fn held_up(&self, thread: &ThreadRef, from: Ns, to: Ns) -> Ns {
        let waits = self.timelines.of(thread.tid).iter();
        waits
            .filter(|w| {
                w.class.is_demand()
                    || w.class.is_for_somebody() && w.class != WaitClass::FutexWait
                    || is_stalled(w.class)
            })
            .map(|w| w.within_ns(from, to))
            .sum()
    }

    /// Of several processes, the thread that matters: the waker if it is one of them, else the one that carried the packet,
    /// else the one that last read what the waiter wrote to, else the one that itself is held up longest during the wait, else
    /// the one that ran most.
    fn chosen(&self, wait: &WaitSpan, processes: Vec<ThreadRef>) -> Option<ThreadRef> {
        if let Some(waker) = self.waker(wait)
            && (processes.is_empty() && !by_kernel_thread(wait)
                || processes.iter().any(|p| p.pid == waker.pid))
        {
            return Some(waker);
        }
        if let Some(by) = carrier(wait).filter(|by| processes.iter().any(|p| p.pid == by.pid)) {
            return Some(by.clone());
        }
        let known = self
            .answers_later(wait, &processes)
            .or_else(|| self.serving(wait, &processes))
            .or_else(|| self.turned_to_it(wait, &processes));
        if known.is_some() {
            return known;
        }
        let first = processes.first().cloned();
        let mut pids: Vec<u32> = processes.iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let threads = self.threads_of(&pids);
        let length = wait.end_ns.saturating_sub(wait.begin_ns);
        let held = threads
            .iter()
            .map(|thread| (self.held_up(thread, wait.begin_ns, wait.end_ns), thread))
            .filter(|(held, _)| *held > 0)
            .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)));
        let ran = threads
            .iter()
            .map(|thread| (self.ran_ns.get(&thread.tid).copied().unwrap_or(0), thread))
            .max_by_key(|(ran, thread)| (*ran, std::cmp::Reverse(thread.tid)));
        match (held, ran) {
            (Some((held, thread)), _) if held * 2 >= length => Some(thread.clone()),
            (_, Some((ran, thread))) if ran * 2 >= length => Some(thread.clone()),
            (Some((_, thread)), _) => Some(thread.clone()),
            (None, _) => first,
        }
    }

    /// The thread that answers later in the same conversation: of waits on the same thing by the same thread that go on right
    /// after this one (a client that looks at the clock now and then), the first that one of the processes ended.
    fn answers_later(&self, wait: &WaitSpan, processes: &[ThreadRef]) -> Option<ThreadRef> {
        const PAUSE_NS_MAX: Ns = 50_000_000;
        let later = self.timelines.of(wait.thread.tid).iter();
        let later = later.skip_while(|other| other.begin_ns <= wait.begin_ns);
        let mut until = wait.end_ns;
        for other in later.filter(|other| other.place.object == wait.place.object) {
            if other.begin_ns > until + PAUSE_NS_MAX {
                break;
            }
            until = other.end_ns;
            let by = self.waker(other).or_else(|| carrier(other).cloned());
            if let Some(by) = by.filter(|by| processes.iter().any(|p| p.pid == by.pid)) {
                return Some(by);
            }
        }
        None
    }

    /// The thread that turned to something else just as the question came, and still is at it: asleep, or in a wait that is
    /// not for the next event.
    fn turned_to_it(&self, wait: &WaitSpan, processes: &[ThreadRef]) -> Option<ThreadRef> {
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        self.turned_at(&self.threads_of(&pids), self.asked_ns(wait), wait.end_ns)
    }

    fn turned_at(&self, threads: &[ThreadRef], asked_ns: Ns, to: Ns) -> Option<ThreadRef> {
        const AFTER_NS_MAX: Ns = 200_000_000;
        const BEFORE_NS_MAX: Ns = 5_000_000;
        let mut best: Option<(Ns, &ThreadRef)> = None;
        for thread in threads {
            let turned = |other: &&WaitSpan| {
                !matches!(other.class, WaitClass::Idle | WaitClass::FutexWait)
                    && other.begin_ns + BEFORE_NS_MAX >= asked_ns
                    && other.begin_ns <= asked_ns + AFTER_NS_MAX
                    && other.end_ns + BEFORE_NS_MAX >= to
            };
            if let Some(turn) = self.timelines.of(thread.tid).iter().find(turned) {
                let after = turn.begin_ns.abs_diff(asked_ns);
                if best.as_ref().is_none_or(|(known, _)| after < *known) {
                    best = Some((after, thread));
                }
            }
        }
        best.map(|(_, thread)| thread.clone())
    }

    /// When the conversation that a wait belongs to began to wait: waits on the same thing that only the clock ended go on.
    fn asked_ns(&self, wait: &WaitSpan) -> Ns {
        const PAUSE_NS_MAX: Ns = 50_000_000;
        let mut asked_ns = wait.begin_ns;
        let waits = self.timelines.of(wait.thread.tid);
        let before = waits.iter().rev().skip_while(|other| other.begin_ns >= wait.begin_ns);
        for other in before.filter(|other| other.place.object == wait.place.object) {
            let by_clock = other.wake.as_ref().is_none_or(|wake| {
                matches!(wake.context, WakeContext::HardInterrupt | WakeContext::Unknown)
            });
            if other.end_ns + PAUSE_NS_MAX < asked_ns || !by_clock {
                break;
            }
            asked_ns = other.begin_ns;
        }
        asked_ns
    }

    /// The thread at the far end that has read from this very connection last before the wait, and so took the question.
    fn serving(&self, wait: &WaitSpan, processes: &[ThreadRef]) -> Option<ThreadRef> {
        let waits = match &wait.place.object {
            Some(ObjectRef::Unix { peer_ino, .. }) => self.waits_on(*peer_ino),
            Some(ObjectRef::Inet(socket)) => self.far_waits(socket),
            _ => return None,
        };
        let before = |other: &&&WaitSpan| {
            other.begin_ns < wait.end_ns && processes.iter().any(|p| p.pid == other.thread.pid)
        };
        let last = waits.iter().filter(before).max_by_key(|other| other.begin_ns)?;
        Some(last.thread.clone())
    }
}

/// Whether a kernel thread ended a wait, for somebody who was not seen.
fn by_kernel_thread(wait: &WaitSpan) -> bool {
    wait.wake.as_ref().is_some_and(|wake| wake.by_kernel_thread)
}

/// Whose thread carried the packet that ended a wait: on one host the sender's own, in a soft interrupt. It may
/// be a bystander: only somebody at the other end is to be believed.
pub fn carrier(wait: &WaitSpan) -> Option<&ThreadRef> {
    let wake = wait.wake.as_ref()?;
    let carries = matches!(wake.context, WakeContext::Task | WakeContext::SoftInterrupt);
    (carries && wake.by.tid != 0 && !wake.by_kernel_thread).then_some(&wake.by)
}

/// It stands still, whoever made it.
pub fn is_stalled(class: WaitClass) -> bool {
    matches!(class, WaitClass::Stopped | WaitClass::Traced | WaitClass::FrozenCgroup)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn shell(second: Fact) -> Vec<Fact> {
        let mut facts = host();
        for pid in [20, 30] {
            let child = thread(pid, "job");
            facts.push(identity(Thread { thread: child, parent_pid: 10, ..Thread::default() }));
        }
        let mut place =
            Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
        place.args[0] = u64::MAX;
        facts.push(at_place(10, "sh", place));
        facts.push(blocked(20, "job", WaitState::Stopped, ""));
        facts.push(second);
        facts
    }

    /// Process 10 locks a file on NFS; rpc.statd polls a name server that is silent. `stacks` are those of process
    /// 10 and of the kernel's lock manager.
    fn nfs_lock(stacks: [&[&str]; 2]) -> Vec<Fact> {
        let mut facts = host();
        for (id, frames) in (1..).zip(stacks) {
            let frames = frames.iter().map(|frame| (*frame).to_string()).collect();
            facts.push(fact(Body::Stack(Stack { id, frames })));
        }
        let dev = DeviceNumber { major: 0, minor: 40 };
        let path = Some("/mnt/nfs/file".into());
        let place = |syscall: &str, object, stack| Place {
            state: WaitState::DiskSleep,
            syscall: syscall.into(),
            object,
            stack,
            ..Place::default()
        };
        let file = ObjectRef::File(FileRef { dev, ino: 9, path, ..FileRef::default() });
        facts.push(at_place(10, "flock", place("flock", Some(file), 1)));
        let lockd = Blocked {
            thread: thread(20, "lockd"),
            kernel: true,
            place: place("", None, 2),
            ..Blocked::default()
        };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(lockd) });
        let question = ObjectRef::Inet(InetRef {
            ino: 7,
            netns: 1,
            protocol: "udp".into(),
            local: "127.0.0.1:40000".parse().expect("address"),
            remote: "127.0.0.1:53".parse().expect("address"),
            state: 0,
        });
        let mut asks = place("poll", Some(question), 0);
        asks.state = WaitState::Sleep;
        facts.push(at_place(30, "rpc.statd", asks));
        facts
    }

    fn chain(facts: Vec<Fact>) -> (String, Vec<String>) {
        let first = explain(facts).findings.remove(0);
        (first.code, first.chain.into_iter().map(|link| link.who.name).collect())
    }

    const MONITORS: &[&str] = &["rpc_wait_bit_killable", "rpc_call_sync", "nsm_mon_unmon"];
    const SERVES: &[&str] = &["svc_recv", "lockd"];

    #[test]
    fn a_lock_on_nfs_waits_for_the_hosts_statd_and_whom_that_waits_for() {
        let (code, chain) = chain(nfs_lock([MONITORS, SERVES]));
        assert_eq!((&*code, chain), ("net.dns_timeout", vec!["flock".into(), "rpc.statd".into()]));
    }

    #[test]
    fn a_lock_manager_on_this_host_is_a_link_if_it_waits_for_statd_itself() {
        let asks: &[&str] = &["rpc_wait_bit_killable", "nlmclnt_call", "nlmclnt_proc"];
        let (code, through) = chain(nfs_lock([asks, MONITORS]));
        assert_eq!(
            (&*code, through),
            ("net.dns_timeout", vec!["flock".into(), "lockd".into(), "rpc.statd".into()])
        );
        let (code, through) = chain(nfs_lock([asks, SERVES]));
        assert_eq!((&*code, through), ("lock.file", vec!["flock".into()]));
    }

    #[test]
    fn who_waits_for_any_child_does_not_wait_for_the_stopped_one() {
        let report = explain(shell(blocked(30, "job", WaitState::Sleep, "nanosleep")));
        assert!(report.findings.iter().all(|finding| finding.victims.is_empty()));
    }

    /// Two children in turn on one CPU: each is held up for half of the time, and one always runs.
    #[test]
    fn who_waits_for_any_child_is_not_held_up_by_one_while_another_runs() {
        let waits = |pid: u32, second: u64| {
            let (begin_ns, end_ns) = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
            let place = Place { state: WaitState::Runnable, ..Place::default() };
            let thread = thread(pid, "job");
            let wait = Wait { thread, begin_ns, end_ns, place, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let mut facts = shell(waits(30, 1));
        facts.retain(|fact| !matches!(&fact.body, Body::Blocked(at) if at.thread.pid == 20));
        facts.extend([waits(20, 0), waits(20, 2), waits(30, 3), waits(20, 4)]);
        let command =
            Target { kind: TargetKind::Command, name: "sh".into(), pid: 10, cgroups: Vec::new() };
        facts.push(fact(Body::Target(command)));
        let parts = explain(facts).accounting.parts;
        let told: Vec<(&str, &str)> =
            parts.iter().map(|part| (&*part.class, &*part.object.name)).collect();
        assert_eq!(told, [("open", "any of its children")]);
    }

    #[test]
    fn who_waits_for_any_child_waits_for_the_stopped_ones_if_all_are() {
        let report = explain(shell(blocked(30, "job", WaitState::Stopped, "")));
        assert!(report.findings.iter().any(|finding| !finding.victims.is_empty()));
    }
}
