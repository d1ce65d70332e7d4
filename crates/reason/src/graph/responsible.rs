//! Who would have to act for a wait to end.
//!
//! The order is that of design 4.2: the owner where a table tells one (lock table, futex word, open descriptors), who stands
//! behind a kernel thread, the waker, who owes an answer, and last whoever did it before. A wake-up from an interrupt
//! names nobody, unless it carried a packet of somebody who is at the other end. No system call is idle by its name: a thread
//! that waits for events is followed like any other once somebody waits for it.
//!
//! Must not: judge, or say what an end is (ends.rs). Rejected: the waker alone (a stuck holder wakes nobody).

pub use super::peers::Peers;
pub use super::wakers::{carrier, is_stalled};

use super::debts::Debt;
use super::next::{Asker, Next, Until};
use super::wakers::{SAMPLES_APART_NS, by_kernel_thread, is_by_clock, is_unseen};
use crate::facts::*;
use crate::waits::lock_kind::LockKind;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, user_stack};

impl Peers<'_> {
    /// Who is responsible for a part of a wait. `owed`: somebody waits for this thread, so what it waits for matters even if
    /// it is only the next event; `asker`: who that is.
    pub fn responsible(
        &self,
        wait: &WaitSpan,
        (from, to): (Ns, Ns),
        owed: bool,
        asker: Option<Asker<'_>>,
    ) -> Next {
        if let Some(holder) = self.holder(wait) {
            return Next::Thread(holder);
        }
        if !owed {
            return Next::Nobody;
        }
        if matches!(&wait.place.object, Some(ObjectRef::Tty { name, .. }) if !name.starts_with("ptm/"))
        {
            return Next::Nobody;
        }
        match wait.class {
            WaitClass::Idle | WaitClass::FutexWait => self.behind_events(wait, (from, to), asker),
            // A socketpair or a pipe to itself: another of its threads is to answer.
            WaitClass::UnixRead | WaitClass::PipeRead => {
                self.behind_events(wait, (from, to), asker)
            }
            WaitClass::Timer => self.polled(wait).into(),
            _ => Next::Nobody,
        }
    }

    /// For a thread that waits for whatever comes next while somebody waits for it: what it has asked others, who ended it,
    /// the one child that it has, the thread of its own process that is held up.
    fn behind_events(
        &self,
        wait: &WaitSpan,
        (from, to): (Ns, Ns),
        asker: Option<Asker<'_>>,
    ) -> Next {
        if let Some(question) = self.open_question(wait.thread.pid, from, to) {
            return Next::Question(question);
        }
        // Who was not there for most of the time interrupts it, and is no reason for it.
        let was_there = |by: &ThreadRef| by.start_ns <= from + to.saturating_sub(from) / 2;
        let waker = self.last_of_several(wait).or_else(|| self.waker(wait));
        let waker = waker.filter(|_| !by_kernel_thread(wait));
        let did_it = |by: &ThreadRef| was_there(by) && !self.only_interrupts(wait, by, asker);
        if let Some(waker) = waker.filter(did_it) {
            return Next::Thread(waker);
        }
        if let Some(by) = self.answered_by(wait).filter(did_it) {
            return Next::Thread(by);
        }
        if self.lets_go_by_clock(wait, asker) {
            return Next::OwnClock;
        }
        // Its own functions, or its title, say that it waits for a lock, and not for one of its descriptors.
        let kind = user_stack::lock_kind_of(self.model, &wait.thread, wait.begin_ns, wait.end_ns);
        if kind.is_some_and(LockKind::is_of_a_session) || self.says_that_it_waits(wait) {
            return self.holds_for_a_session(wait, asker, was_there).into();
        }
        if kind.is_some_and(LockKind::holds_up) {
            return self.held_sibling(wait).into();
        }
        let after = self.after_others(wait, asker);
        let is_reason = |next: &Next| !matches!(next, Next::Later(by, _) | Next::Brought(by, _) if !was_there(by));
        if let Some(next) = after.filter(is_reason) {
            // The clock also ends a wait for somebody who never answers.
            let asked_ns = |until| match until {
                Until::Wait(of_asker) => self.asked_ns(of_asker),
                Until::At(_) => wait.begin_ns,
            };
            let gave_up = || self.awaited_since(wait, to, asked_ns(asker?.until));
            return (next == Next::OwnClock).then(gave_up).flatten().unwrap_or(next);
        }
        let is_asked = self.is_asked_by(wait, asker);
        if matches!(
            wait.place.object,
            Some(ObjectRef::Inet(_) | ObjectRef::Unix { .. } | ObjectRef::Pipe { .. })
        ) && !is_asked
            && let Some(peer) = self.far_end(wait)
        {
            return Next::Thread(peer);
        }
        if let Some(next) = self.awaited(wait, to) {
            return next;
        }
        if self.is_for_a_question(wait) && !is_asked {
            return Next::Nobody;
        }
        if let Some(next) = self.among_polled(wait, asker.map(|asker| asker.who.pid)) {
            return next;
        }
        if let Some(next) = self.after_the_clock(wait) {
            return next;
        }
        self.within_family(wait, (from, to), asker).into()
    }

    /// The one child that it has, whatever works in the process that somebody waits for, the thread of its own process that is
    /// held up or ended with it.
    fn within_family(
        &self,
        wait: &WaitSpan,
        (from, to): (Ns, Ns),
        asker: Option<Asker<'_>>,
    ) -> Option<ThreadRef> {
        let is_idle = wait.class == WaitClass::Idle;
        let child = is_idle.then(|| self.only_child(wait.thread.pid, from, to)).flatten();
        child
            .or_else(|| self.busiest_in_child(wait, (from, to), asker))
            .or_else(|| self.held_sibling(wait))
            .or_else(|| self.ended_with(wait))
    }

    /// Whether the clock ended a timed wait for a word, and the asker's wait ended at once, by it or by who had the lock in between: it
    /// needed nobody else. Of one that stands, whether the clock ended the one before it on that word.
    fn lets_go_by_clock(&self, wait: &WaitSpan, asker: Option<Asker<'_>>) -> bool {
        const AT_ONCE_NS: Ns = 2_000_000;
        if wait.class == WaitClass::FutexWait && wait.standing {
            let word = wait.timed_word();
            let before = self.waits_before(wait).iter().rev().find(|it| it.timed_word() == word);
            return word.is_some() && before.is_some_and(is_by_clock);
        }
        let Some(Until::Wait(of_asker)) = asker.map(|asker| asker.until) else { return false };
        let by = of_asker.wake.as_ref().map(|wake| &wake.by);
        wait.class == WaitClass::FutexWait
            && is_by_clock(wait)
            && by.is_some_and(|by| by.pid == wait.thread.pid)
            && of_asker.end_ns.checked_sub(wait.end_ns).is_some_and(|after| after <= AT_ONCE_NS)
    }

    /// Who has the lock that a session waits for: who lets go in the end, was there and does not only interrupt; or the one
    /// session, or thread, that can have it.
    fn holds_for_a_session(
        &self,
        wait: &WaitSpan,
        asker: Option<Asker<'_>>,
        was_there: impl Fn(&ThreadRef) -> bool,
    ) -> Option<ThreadRef> {
        let did_it = |(at, by): &(&WaitSpan, ThreadRef)| {
            was_there(by) && !self.only_interrupts(at, by, asker)
        };
        let later = self.lets_go_later(wait).filter(did_it).map(|(_, by)| by);
        later.or_else(|| self.session_that_holds(wait)).or_else(|| self.held_sibling(wait))
    }

    /// Whether the asker is at the other end of the connection that a wait is for: he waits for it, so it does not wait for him.
    fn is_asked_by(&self, wait: &WaitSpan, asker: Option<Asker<'_>>) -> bool {
        let (Some(asker), Some(ObjectRef::Inet(socket))) = (asker, self.subject(wait)) else {
            return false;
        };
        self.far_processes(socket).iter().any(|far| far.pid == asker.who.pid)
    }

    /// Whose packet ended a wait for events of which nobody knows what they were (select and the like): believed if the waiter
    /// had asked that process, that is, had ended a wait of its own not long before or meanwhile.
    fn answered_by(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        const LENGTH_NS_MIN: Ns = 1_000_000;
        if wait.place.object.is_some() || wait.end_ns - wait.begin_ns < LENGTH_NS_MIN {
            return None;
        }
        let by = carrier(wait).filter(|by| by.pid != wait.thread.pid)?;
        self.had_asked(wait, by).then(|| by.clone())
    }

    /// Whom its process has asked and has no answer from by the end of the look: of a wait that stands there the last one, of one
    /// that the clock ended before the last that was asked before it.
    fn awaited(&self, wait: &WaitSpan, to: Ns) -> Option<Next> {
        self.awaited_since(wait, to, 0)
    }

    /// The same, of what was asked from a time on.
    fn awaited_since(&self, wait: &WaitSpan, to: Ns, from: Ns) -> Option<Next> {
        const END_NS: Ns = 100_000_000;
        /// Data is dated by jiffies.
        const CLOCKS_APART_NS: Ns = 10_000_000;
        let stands = wait.end_ns.max(to) + END_NS >= self.model.look.end_ns;
        let debts = self.debts.awaits.get(&wait.thread.pid)?;
        let at_end = |debt: &&Debt| debt.seen_ns >= self.model.look.end_ns && stands;
        let before = |debt: &&Debt| {
            debt.since_ns <= wait.begin_ns.saturating_add(CLOCKS_APART_NS)
                && wait.begin_ns <= debt.seen_ns
        };
        let of_it = |debt: &&Debt| {
            !debt.since_known || debt.since_ns.saturating_add(CLOCKS_APART_NS) >= from
        };
        let outstanding = debts.iter().filter(of_it).filter(|debt| at_end(debt) || before(debt));
        let last = outstanding.max_by_key(|debt| debt.since_ns)?;
        let socket = self.model.called.socket(last.ino)?;
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
        let by = self.serving_since(&pids, last.since_ns, wait.end_ns);
        by.map(|by| Next::Answer(last.ino, by))
    }

    /// The peer of what ended, or will end, a wait for events.
    pub(super) fn far_end(&self, wait: &WaitSpan) -> Option<ThreadRef> {
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
        let polls = self.waits_of(&wait.thread).iter().filter(short).count();
        if polls < POLLS_MIN || !short(&wait) {
            return None;
        }
        let child = self.only_child(wait.thread.pid, wait.begin_ns, wait.end_ns);
        child.or_else(|| self.held_sibling(wait))
    }

    /// The one child that a process had for most of an interval.
    pub(super) fn only_child(&self, pid: u32, from: Ns, to: Ns) -> Option<ThreadRef> {
        let lived = |child: &&ThreadRef| {
            let who = self.model.threads.key(child);
            let since = self.births.get(&who).map_or(from, |at_ns| (*at_ns).max(from));
            let until = self.deaths.get(&who).map_or(to, |at_ns| (*at_ns).min(to));
            until.saturating_sub(since) * 2 >= to.saturating_sub(from)
        };
        let children = self.children_ever(pid);
        let alive: Vec<&ThreadRef> = children.iter().filter(lived).collect();
        match alive[..] {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// Who waits for a process waits for all that is in it. If its main thread only rests (pause, sigwait, a join), that is the
    /// thread of it, or of what it has begun, that rested least, and for less than half of the time.
    fn busiest_in_child(
        &self,
        wait: &WaitSpan,
        (from, to): (Ns, Ns),
        asker: Option<Asker<'_>>,
    ) -> Option<ThreadRef> {
        let Some(Until::Wait(of_asker)) = asker.map(|asker| asker.until) else { return None };
        let main = &wait.thread;
        if of_asker.class != WaitClass::Child || main.pid != main.tid {
            return None;
        }
        self.busiest_with(main, (from, to), 2)
    }

    /// The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be
    /// the waiter's.
    fn held_sibling(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let threads = self.held_outside.get(&wait.thread.pid).into_iter().flatten();
        let others = threads.filter(|other| !self.model.threads.is_same(other, &wait.thread));
        let outside = |thread: &ThreadRef| -> Ns {
            let waits = self.waits_within(thread, wait.begin_ns, wait.end_ns).iter();
            let waits = waits.filter(|w| w.class.is_outside());
            waits.map(|w| w.within_ns(wait.begin_ns, wait.end_ns)).sum()
        };
        others
            .map(|thread| (outside(thread), *thread))
            .filter(|(held, _)| *held * 2 >= wait.end_ns.saturating_sub(wait.begin_ns))
            .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)))
            .map(|(_, thread)| thread.clone())
    }

    /// Where no wake-up is seen: the one thread of the same process whose own wait, for the clock or for somebody else, lasted for
    /// most of this one and ended with it.
    fn ended_with(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        if !is_unseen(wait) {
            return None;
        }
        let ended_it = |other: &WaitSpan| {
            let for_events = matches!(other.class, WaitClass::FutexWait | WaitClass::Idle);
            (!for_events || is_by_clock(other))
                && !other.standing
                && other.end_ns.abs_diff(wait.end_ns) <= SAMPLES_APART_NS
                && other.within_ns(wait.begin_ns, wait.end_ns) * 2 >= wait.end_ns - wait.begin_ns
        };
        let threads = self.threads_of(&[wait.thread.pid]);
        let others =
            threads.into_iter().filter(|other| !self.model.threads.is_same(other, &wait.thread));
        let until_ns = wait.end_ns + SAMPLES_APART_NS;
        let near = |other: &ThreadRef| self.waits_within(other, wait.begin_ns, until_ns).iter();
        let mut by = others.filter(|other| near(other).any(ended_it));
        by.next().filter(|_| by.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    /// A command whose main thread waits for a word until a second before the end, and two threads of its own, one of which
    /// sleeps: until then, or until so long before. Nobody sees a wake-up.
    fn threads(earlier_ns: Ns, second_sleeps: bool) -> (EndKind, Option<u32>) {
        let end_ns = LOOK_NS - 1_000_000_000;
        let waits = |tid: u32, syscall: &str, end_ns: Ns| {
            let place =
                Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
            let wake = Wake { at_ns: end_ns, context: WakeContext::Unknown, ..Wake::default() };
            let thread = ThreadRef { tid, ..thread(10, "app") };
            let wait = Wait { thread, end_ns, place, wake: Some(wake), ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let second = if second_sleeps { "nanosleep" } else { "futex" };
        let mut facts = host();
        facts.extend([
            waits(10, "futex", end_ns),
            waits(11, "nanosleep", end_ns - earlier_ns),
            waits(12, second, end_ns),
        ]);
        let (kind, name) = (TargetKind::Command, "app".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let end = explain(facts).answer.ends.remove(0);
        (end.end, end.chain.last().and_then(|link| link.who.tid))
    }

    #[test]
    fn where_no_wake_up_is_seen_the_thread_whose_wait_ended_with_it_did_it() {
        assert_eq!(threads(1_000_000, false), (EndKind::Sleep, Some(11)));
        assert_ne!(threads(600_000_000, false).0, EndKind::Sleep, "long before");
        assert_ne!(threads(1_000_000, true).0, EndKind::Sleep, "one of two");
    }

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

    /// A launcher waits for a job whose main thread pauses; another thread of the job works, or waits for work.
    fn launcher(second: Fact) -> Option<EndKind> {
        let mut place =
            Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
        place.args[0] = 20;
        let mut facts = host();
        facts.extend([
            identity(Thread { thread: thread(20, "job"), parent_pid: 10, ..Thread::default() }),
            at_place(10, "launcher", place),
            blocked(20, "job", WaitState::Sleep, "pause"),
            second,
        ]);
        let (kind, name) = (TargetKind::Process, "launcher".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        explain(facts).answer.ends.first().map(|end| end.end)
    }

    #[test]
    fn who_waits_for_a_process_waits_for_the_thread_of_it_that_works() {
        let worker = || ThreadRef { tid: 21, ..thread(20, "job") };
        let works = ThreadTime {
            thread: worker(),
            until_ns: LOOK_NS,
            run_ns: LOOK_NS * 9 / 10,
            ..ThreadTime::default()
        };
        assert_eq!(launcher(fact(Body::ThreadTime(works))), Some(EndKind::Works));
        let place = Place { state: WaitState::Sleep, syscall: "futex".into(), ..Place::default() };
        let rests = Blocked { thread: worker(), place, ..Blocked::default() };
        let end = launcher(Fact { at_ns: LOOK_NS, body: Body::Blocked(rests) });
        assert_ne!(end, Some(EndKind::Works));
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
        let command = Target {
            kind: TargetKind::Command,
            name: "sh".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        facts.push(fact(Body::Target(command)));
        let parts = explain(facts).accounting.parts;
        let reported: Vec<(&str, &str)> =
            parts.iter().map(|part| (&*part.class, &*part.object.name)).collect();
        assert_eq!(reported, [("open", "any of its children")]);
    }

    #[test]
    fn who_waits_for_any_child_waits_for_the_stopped_ones_if_all_are() {
        let report = explain(shell(blocked(30, "job", WaitState::Stopped, "")));
        assert!(report.findings.iter().any(|finding| !finding.victims.is_empty()));
    }
}
