//! Who holds what is waited for, by the class of the wait: where a table tells the owner it beats whoever ran at the wake-up.
//!
//! Lock tables, futex words, descriptors at the other end, children, the kernel's own services. Must not: follow a thread that
//! waits for the next event (responsible.rs), or choose among a process's threads (serving.rs).

use super::debts::Debt;
use super::peers::Peers;
use super::wakers::{by_kernel_thread, carrier, is_stalled};
use crate::facts::*;
use crate::model::object::Object;
use crate::waits::timeline::{self, WaitSpan};
use crate::waits::{LOCKD_FUNCTIONS, STATD_FUNCTIONS, WaitClass, monitor, user_stack};

/// Locks of interpreters and monitors are read so often.
const READ_AWAY_NS_MAX: Ns = 150_000_000;

impl Peers<'_> {
    /// Who is to be looked at next for a wait, by what it waits for.
    pub fn holder(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        use WaitClass::*;
        let found = match wait.class {
            FileLock => {
                // A worker that wakes only brings the answer of somebody else.
                let waker = || self.waker(wait).filter(|by| !by.comm.starts_with("kworker"));
                self.lock_service(wait).or_else(|| self.lock_holder(wait)).or_else(waker)
            }
            PolledLock => self.polled_holder(wait),
            FutexLock if matches!(wait.object, Object::InterpreterLock(_)) => {
                let met = |away_ns| self.interpreter_holder(wait, away_ns);
                met(0).or_else(|| self.waker(wait)).or_else(|| met(READ_AWAY_NS_MAX))
            }
            FutexLock => {
                let read = self.monitor_owner(wait, 0).or_else(|| self.futex_owner(wait));
                let known = read.or_else(|| self.waker(wait));
                let known = known.or_else(|| self.monitor_owner(wait, READ_AWAY_NS_MAX));
                known.or_else(|| self.session_of_row(wait)).or_else(|| self.only_other(wait))
            }
            FutexWait => {
                let known = self.monitor_owner(wait, 0).or_else(|| self.joined(wait));
                known.or_else(|| self.waker(wait))
            }
            PipeWrite => self.pipe_end(wait, true),
            PipeRead => self.last_of_several(wait).or_else(|| self.pipe_end(wait, false)),
            UnixRead | UnixWrite | SocketRead | SocketWrite => self.socket_peer(wait),
            Child => self.last_of_several(wait).or_else(|| self.child(wait)),
            Vfork => self.vfork_child(wait),
            EndedThread => self.outliving(wait),
            FuseDaemon => self.fuse_server(wait),
            Dns => self.dns_server(wait),
            Journal => self.journal_thread(wait),
            TtyWrite => self.terminal_master(wait),
            // Who let go of it had it last; the lock itself says who has it as long as it is held.
            KernelLock => self.waker(wait).or_else(|| self.kernel_lock_owner(wait)),
            _ => None,
        };
        found.filter(|thread| thread.pid != 0 && !self.model.threads.is_same(thread, &wait.thread))
    }

    /// Who of a process whose first thread has ended is waited for: whichever of the others matters.
    fn outliving(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let lives = |thread: &ThreadRef| {
            let last = self.waits_of(thread).last();
            last.is_none_or(|last| last.class != WaitClass::EndedThread)
                && !self.deaths.contains_key(&self.model.threads.key(thread))
        };
        let mut others = self.threads_of(&[wait.thread.pid]);
        others.retain(lives);
        let busiest = |thread: &&ThreadRef| {
            let held_ns = self.held_up(thread, wait.begin_ns, wait.end_ns);
            (held_ns.max(self.ran_ns(thread)), std::cmp::Reverse(thread.tid))
        };
        others.iter().max_by_key(busiest).cloned()
    }

    /// A lock on NFS (version 2 and 3) is asked for in steps, each of which somebody must answer before anybody can
    /// hold anything: the host's rpc.statd, which watches the other end for a restart, then the server's lock
    /// manager, a kernel thread that asks its own rpc.statd. The kernel asks over a socket that belongs to no
    /// process, so its functions tell the step, and the service's name the process.
    pub(super) fn lock_service(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let stands_in = |wait: &WaitSpan, functions: &[&str]| {
            let mut frames = self.model.stacks.kernel(wait.place.stack).iter();
            frames.any(|frame| functions.contains(&frame.as_str()))
        };
        if stands_in(wait, STATD_FUNCTIONS) {
            return self.chosen(wait, self.named(wait, "rpc.statd"));
        }
        if !stands_in(wait, LOCKD_FUNCTIONS) {
            return None;
        }
        let stuck = |manager: &ThreadRef| {
            let mut waits = self.waits_of(manager).iter();
            waits.any(|other| {
                stands_in(other, STATD_FUNCTIONS) && other.within_ns(wait.begin_ns, wait.end_ns) > 0
            })
        };
        self.named(wait, "lockd").into_iter().find(stuck)
    }

    pub(super) fn futex_owner(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let [address, ..] = wait.place.args;
        let read = self.futexes.get(&self.model.threads.key(&wait.thread))?;
        let owner = read.iter().rev().find(|(at, owner)| {
            owner.address == address
                && owner.owner_tid != 0
                && *at >= wait.begin_ns
                && *at <= wait.end_ns + 10_000_000
        })?;
        let tid = owner.1.owner_tid;
        let mut thread = self.model.threads.thread_ref_at(tid, owner.0);
        if thread.comm.is_empty() {
            thread = ThreadRef { tid, start_ns: thread.start_ns, ..wait.thread.clone() };
        }
        Some(thread)
    }

    /// Of a lock inside a process, by the waiter's own functions, which is still waited for: the one other thread that there is, if
    /// it does something else than to wait for the next event or for others of its process. A thread that rests may well not
    /// have it: a lock also is a signal, and whoever took it may be gone.
    pub(super) fn only_other(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let stack = self.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns)?;
        let is_timed = wait.timed_word().is_some();
        if !wait.standing || !user_stack::is_held_up(&stack.frames, is_timed) {
            return None;
        }
        let threads = self.threads_of(&[wait.thread.pid]);
        let mut others = threads.iter().filter(|it| !self.model.threads.is_same(it, &wait.thread));
        let only = others.next()?;
        let rests = self.waits_of(only).last().is_some_and(|it| it.standing && self.may_rest(it));
        (others.next().is_none() && !rests).then(|| only.clone())
    }

    /// Whether a thread may wait for work: for the next event, for a lock or a word of its own process, for what nobody but its own
    /// process will send, or for the next question.
    fn may_rest(&self, wait: &WaitSpan) -> bool {
        use WaitClass::{FutexLock, FutexWait, Idle, PipeRead, SocketRead, UnixRead};
        match wait.class {
            Idle | FutexWait | FutexLock => true,
            PipeRead | UnixRead | SocketRead => {
                self.is_for_a_question(wait) || self.holder(wait).is_none()
            }
            _ => false,
        }
    }

    /// Another thread that had the interpreter's lock when it was read within the wait, or not longer before or after it; of
    /// several readings by the nearest to the end.
    pub(super) fn interpreter_holder(&self, wait: &WaitSpan, away_ns: Ns) -> Option<ThreadRef> {
        let read = self.model.stacks.interpreter_locks.get(&wait.thread.pid)?;
        let within = wait.begin_ns.saturating_sub(away_ns)..=wait.end_ns.saturating_add(away_ns);
        let others = read.iter().filter(|(at_ns, lock)| {
            let is_other = lock.holder_tid != 0 && lock.holder_tid != wait.thread.tid;
            is_other && within.contains(at_ns)
        });
        let (at_ns, lock) = others.min_by_key(|(at_ns, _)| at_ns.abs_diff(wait.end_ns))?;
        let holder = self.model.threads.thread_ref_at(lock.holder_tid, *at_ns);
        let is_known = !holder.comm.is_empty() && holder.pid == wait.thread.pid;
        let of_it = ThreadRef { tid: lock.holder_tid, start_ns: 0, ..wait.thread.clone() };
        Some(if is_known { holder } else { of_it })
    }

    /// For a word of a database of which its own functions say that a session has it until its transaction ends.
    fn session_of_row(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let kind = user_stack::lock_kind_of(self.model, &wait.thread, wait.begin_ns, wait.end_ns);
        kind.filter(|kind| kind.is_of_a_session()).and_then(|_| self.session_that_holds(wait))
    }

    /// Who had the monitor of a Java program that a thread waits to enter: the machine's timer cuts such a wait into pieces,
    /// and some are shorter than the time between two readings.
    fn monitor_owner(&self, wait: &WaitSpan, away_ns: Ns) -> Option<ThreadRef> {
        let from = wait.begin_ns.saturating_sub(away_ns);
        let to = wait.end_ns.saturating_add(away_ns);
        let (at_ns, owner_tid) = monitor::readings(self.model, &wait.thread, from, to)
            .map(|(at_ns, read)| (at_ns, read.owner_tid))
            .filter(|(_, owner_tid)| *owner_tid != 0 && *owner_tid != wait.thread.tid)
            .min_by_key(|(at_ns, _)| at_ns.abs_diff(wait.end_ns))?;
        let owner = self.model.threads.thread_ref_at(owner_tid, at_ns);
        let is_known = !owner.comm.is_empty() && owner.pid == wait.thread.pid;
        let of_it = ThreadRef { tid: owner_tid, start_ns: 0, ..wait.thread.clone() };
        Some(if is_known { owner } else { of_it })
    }

    /// Who had a lock of the kernel when somebody began to wait for it.
    pub(super) fn kernel_lock_owner(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let owner = wait.place.lock.as_ref()?.owner.as_ref()?;
        let own_pid = self.model.look.host.own_pid;
        let known = self.model.threads.present(owner);
        let owner = if known.comm.is_empty() { owner.clone() } else { known };
        (own_pid == 0 || owner.pid != own_pid).then_some(owner)
    }

    /// pthread_join waits on the joined thread's id in its own descriptor.
    pub(super) fn joined(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let [_, _, expected, ..] = wait.place.args;
        let tid = u32::try_from(expected).ok().filter(|tid| *tid > 2)?;
        let thread = self.model.threads.named_at(tid, wait.begin_ns)?;
        (thread.pid == wait.thread.pid).then(|| thread.clone())
    }

    pub(super) fn pipe_end(&self, wait: &WaitSpan, reader: bool) -> Option<ThreadRef> {
        let Some(ObjectRef::Pipe { ino }) = &wait.place.object else {
            // A signal or a terminal may end it too, by way of a kernel thread.
            return self.waker(wait).filter(|_| !by_kernel_thread(wait));
        };
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
        let there = there.map(|other| self.process_of(other)).collect();
        self.chosen(wait, there)
    }

    pub(super) fn socket_peer(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let is_other = |process: &ThreadRef| process.pid != wait.thread.pid;
        // Who listened gave the connection to the process itself.
        let is_own = |all: &[ThreadRef]| !all.is_empty() && !all.iter().any(is_other);
        let mut processes: Vec<ThreadRef> = match &wait.place.object {
            Some(ObjectRef::Unix { peer_ino, .. }) => {
                let open = self.endpoints_on(*peer_ino).iter().map(|end| end.process.clone());
                let waited = self.waits_on(*peer_ino).iter();
                open.chain(waited.map(|other| self.process_of(other))).collect()
            }
            Some(ObjectRef::Inet(socket)) => self.far_processes(socket),
            _ => Vec::new(),
        };
        if is_own(&processes) {
            return None;
        }
        processes.retain(is_other);
        if let Some(ObjectRef::Inet(socket)) = &wait.place.object
            && processes.is_empty()
        {
            let by = carrier(wait).map(|thread| thread.pid);
            let awaits = self.debts.awaits.get(&wait.thread.pid).map_or(&[][..], Vec::as_slice);
            let at_end =
                |debt: &Debt| debt.ino == socket.ino && debt.seen_ns >= self.model.look.end_ns;
            processes = match by.is_none() && awaits.iter().any(at_end) {
                true => self.may_accept(socket),
                false => self.listeners(socket, by),
            };
            processes.retain(is_other);
            // Who accepts may hand the connection on to a child, which is gone with it.
            let child = by.filter(|by| processes.iter().any(|of| self.descends(*by, of.pid)));
            if let Some(child) = child {
                processes = vec![self.model.threads.thread_ref_at(child, wait.end_ns)];
            }
        }
        self.chosen(wait, processes)
    }

    /// The process of this host that a question goes to.
    pub(super) fn dns_server(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let Object::DnsServer(Some(server), _) = wait.object else { return None };
        let server = self.name_server(server)?;
        (server.pid != wait.thread.pid).then(|| self.chosen(wait, vec![server]))?
    }

    /// The process of this host that answers at a name server's address, by the thread that matters in a wait.
    pub fn answers_at(&self, server: std::net::SocketAddr, wait: &WaitSpan) -> Option<ThreadRef> {
        let process = self.name_server(server).filter(|process| process.pid != wait.thread.pid)?;
        self.chosen(wait, vec![process])
    }

    pub(super) fn fuse_server(&self, wait: &WaitSpan) -> Option<ThreadRef> {
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

    pub(super) fn terminal_master(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let Some(ObjectRef::Tty { name, .. }) = &wait.place.object else { return None };
        let ends = self.masters.get(name)?;
        self.chosen(wait, ends.iter().map(|end| end.process.clone()).collect())
    }

    pub(super) fn journal_thread(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        if let Some(waker) = self.waker(wait)
            && waker.comm.starts_with("jbd2/")
        {
            return Some(waker);
        }
        let Object::Journal(Some(dev)) = wait.object else { return None };
        let prefix = format!("jbd2/{}", self.model.disk.of(dev)?.name);
        self.model.threads.names.values().find(|thread| thread.comm.starts_with(&prefix)).cloned()
    }

    pub(super) fn vfork_child(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let begun =
            self.begun_by.get(&self.model.threads.key(&wait.thread)).map_or(&[][..], Vec::as_slice);
        let until = begun.partition_point(|(at_ns, _)| *at_ns <= wait.begin_ns + 1_000_000);
        let before = begun[..until].last();
        before
            .map(|(_, fork)| self.model.threads.present(&fork.child))
            .or_else(|| self.waker(wait))
            .or_else(|| self.child(wait))
    }

    pub(super) fn child(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        // A signal ends it too.
        let is_child = |by: &ThreadRef| self.descends(by.pid, wait.thread.pid);
        if let Some(waker) = self.waker(wait).filter(is_child) {
            return Some(waker);
        }
        let asked = match wait.place.syscall.as_str() {
            "wait4" => u32::try_from(wait.place.args[0] as i32).ok().filter(|pid| *pid > 0),
            "waitid" if wait.place.args[0] == 1 => u32::try_from(wait.place.args[1]).ok(),
            _ => None,
        };
        if let Some(pid) = asked {
            return Some(self.model.threads.thread_ref_at(pid, wait.begin_ns));
        }
        if let Some(ended) = self.child_that_ended_with(wait) {
            return Some(ended);
        }
        if self.is_killed(wait) {
            // Its children were mostly killed with it.
            return self.only_child(wait.thread.pid, wait.begin_ns, wait.end_ns);
        }
        let alive = self.living_children(wait.thread.pid);
        // By its own functions it waits for the one that it has just begun.
        if wait.place.syscall.starts_with("epoll") {
            return alive.into_iter().max_by_key(|child| child.start_ns);
        }
        // Any child's end would do: only if there is but one, or all are held up, is it known for whom.
        if alive.len() > 1 && !self.hold_up_together(&alive, wait) {
            return None;
        }
        self.chosen(wait, alive)
    }

    /// Where no wake-up was seen: the child whose end was seen as the wait ended, within what sampling leaves open.
    fn child_that_ended_with(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        const SAMPLES_APART_NS: Ns = 25_000_000;
        let is_seen = |wake: &Wake| wake.context != WakeContext::Unknown;
        if wait.standing || wait.wake.as_ref().is_some_and(is_seen) {
            return None;
        }
        let children = self.children_ever(wait.thread.pid);
        let ended = self.model.threads.exits.iter().filter(|(at_ns, exit)| {
            at_ns.abs_diff(wait.end_ns) <= SAMPLES_APART_NS
                && children.iter().any(|child| self.model.threads.is_same(child, &exit.thread))
        });
        // Of several that sampling cannot tell apart a shell waits for the one that it began last.
        let last = ended.max_by_key(|(_, exit)| exit.thread.start_ns)?;
        Some(last.1.thread.clone())
    }

    /// For a wait of which [`Self::holder`] names nobody: it is for whichever child ends first, and nobody can say
    /// which that will be.
    pub fn waits_for_any_child(&self, wait: &WaitSpan) -> bool {
        wait.class == WaitClass::Child && self.living_children(wait.thread.pid).len() > 1
    }

    /// Whether all of some processes were held up at once for most of a wait, as far as the look has seen it. One that
    /// runs, or waits for input, may end at any time.
    pub(super) fn hold_up_together(&self, processes: &[ThreadRef], wait: &WaitSpan) -> bool {
        let (from, to) =
            (wait.begin_ns.max(self.model.look.begin_ns), wait.end_ns.min(self.model.look.end_ns));
        let mut together = vec![(from, to)];
        for process in processes {
            let held = self.stretches(process.pid, from, to);
            together = timeline::common(&together, &held);
        }
        let all: Ns = together.iter().map(|(begin, end)| end - begin).sum();
        all > 0 && all >= to.saturating_sub(from) / 2
    }

    /// When a process was held up, in any of its threads: in order, without overlap.
    pub(super) fn stretches(&self, pid: u32, from: Ns, to: Ns) -> Vec<(Ns, Ns)> {
        let threads = self.threads_of(&[pid]);
        let waits = threads.iter().flat_map(|thread| self.waits_of(thread));
        let held = waits.filter(|w| w.class.is_demand() || is_stalled(w.class));
        let within = held.map(|w| (w.begin_ns.max(from), w.end_ns.min(to)));
        timeline::joined(within.filter(|(begin, end)| begin < end).collect())
    }
}
