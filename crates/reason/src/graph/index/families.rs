//! Who began whom, and when who was there.
//!
//! Must not: know what anybody waits for.

use crate::facts::{Exit, Fork, Ns, ThreadRef};
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use crate::waits::timeline::Timelines;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Ancestors that are gone through at most: no tree of processes is so deep that somebody waits along it.
const GENERATIONS: usize = 16;
/// The process that orphans belong to.
const INIT: u32 = 1;

/// When a child was there, as far as its begin and its end were seen.
struct Life<'a> {
    child: &'a ThreadRef,
    since_ns: Ns,
    until_ns: Ns,
    /// When the last ended of it and of those that came before it.
    latest_ns: Ns,
}

/// Processes and threads by who began them.
pub struct Families<'a> {
    model: &'a Model,
    children: HashMap<u32, Vec<&'a ThreadRef>>,
    /// The same by their begin.
    lives: HashMap<u32, Vec<Life<'a>>>,
    /// Of each process, who began it; several if its parent has ended meanwhile, or its number was given twice.
    parents: HashMap<u32, BTreeSet<u32>>,
    /// Of each process, by thread id.
    threads: HashMap<u32, Vec<&'a ThreadRef>>,
    /// What each thread has begun, in order of time.
    begun_by: HashMap<ThreadKey, Vec<&'a (Ns, Fork)>>,
    /// When who began inside the look.
    births: HashMap<ThreadKey, Ns>,
    /// When who ended inside the look.
    deaths: HashMap<ThreadKey, Ns>,
    /// Who that was, by who had the thread id when it ended.
    gone: HashSet<ThreadKey>,
    /// Threads that a signal ended, and when.
    killed: HashMap<ThreadKey, Ns>,
}

impl<'a> Families<'a> {
    /// Indexes a model.
    pub(super) fn new(model: &'a Model, timelines: &Timelines) -> Self {
        let mut families = Self {
            model,
            children: HashMap::new(),
            lives: HashMap::new(),
            parents: HashMap::new(),
            threads: HashMap::new(),
            begun_by: HashMap::new(),
            births: HashMap::new(),
            deaths: HashMap::new(),
            gone: HashSet::new(),
            killed: HashMap::new(),
        };
        // As wait(2) has it: the number of the signal.
        let by_signal = |exit: &Exit| exit.code.is_some_and(|code| code & 0x7f != 0);
        for (at_ns, exit) in model.threads.exits.iter().filter(|(_, exit)| by_signal(exit)) {
            families.killed.insert(model.threads.key_at(&exit.thread, *at_ns), *at_ns);
        }
        for thread in model.threads.every_thread() {
            families.threads.entry(thread.pid).or_default().push(thread);
        }
        families.add_children();
        families.add_lives(timelines);
        families.lives =
            families.children.iter().map(|(pid, all)| (*pid, families.lives_of(all))).collect();
        families
    }

    fn add_children(&mut self) {
        for (_, fork) in &self.model.threads.forks {
            if fork.child.pid != fork.parent.pid {
                self.children.entry(fork.parent.pid).or_default().push(&fork.child);
            }
        }
        let reported = self.model.threads.by_id.values().map(|it| (&it.thread, it.parent_pid));
        let walked = self.model.threads.times.iter().map(|time| (&time.thread, time.parent_pid));
        let model = self.model;
        let mut known: HashSet<(u32, ThreadKey)> = (self.children.iter())
            .flat_map(|(parent, all)| all.iter().map(|child| (*parent, model.threads.key(child))))
            .collect();
        for (thread, parent) in reported.chain(walked) {
            let is_main = thread.tid == thread.pid && parent != 0;
            if is_main && known.insert((parent, model.threads.key(thread))) {
                self.children.entry(parent).or_default().push(thread);
            }
        }
        for (parent, children) in &self.children {
            for child in children {
                self.parents.entry(child.pid).or_default().insert(*parent);
            }
        }
    }

    fn add_lives(&mut self, timelines: &Timelines) {
        let model = self.model;
        for fork in &model.threads.forks {
            self.begun_by.entry(model.threads.key(&fork.1.parent)).or_default().push(fork);
            self.births.entry(model.threads.key(&fork.1.child)).or_insert(fork.0);
        }
        for (at_ns, exit) in &model.threads.exits {
            self.deaths.entry(model.threads.key(&exit.thread)).or_insert(*at_ns);
            self.gone.insert(model.threads.key_at(&exit.thread, *at_ns));
        }
        // A zombie is no child that anything can be waited of.
        for wait in timelines.waits().filter(|wait| wait.class == WaitClass::Zombie) {
            let who = model.threads.key(&wait.thread);
            self.deaths.entry(who).or_insert(wait.begin_ns);
            self.gone.insert(who);
        }
    }

    /// When each of some children was there, by begin.
    fn lives_of(&self, children: &[&'a ThreadRef]) -> Vec<Life<'a>> {
        let life = |child: &'a ThreadRef| {
            let (since_ns, until_ns) = self.there(child, (0, Ns::MAX));
            Life { child, since_ns, until_ns, latest_ns: until_ns }
        };
        let mut lives: Vec<Life<'a>> = children.iter().copied().map(life).collect();
        lives.sort_by_key(|life| life.since_ns);
        let mut latest_ns = 0;
        for life in &mut lives {
            latest_ns = latest_ns.max(life.until_ns);
            life.latest_ns = latest_ns;
        }
        lives
    }

    /// Who began a process. Of several the greatest number: an orphan belongs to the first process of its namespace.
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        self.parents.get(&pid)?.last().copied()
    }

    /// Whether who began a process has ended: it belongs to the first process of its namespace.
    pub(in crate::graph) fn has_lost_its_parent(&self, pid: u32) -> bool {
        let threads = &self.model.threads;
        let is_gone = |parent: &u32| {
            *parent == INIT || self.gone.contains(&threads.key(&threads.thread_ref(*parent)))
        };
        self.parents.get(&pid).is_some_and(|all| all.iter().any(is_gone))
    }

    /// Every known thread of some processes, by thread id.
    pub fn threads_of(&self, pids: &[u32]) -> Vec<ThreadRef> {
        let mut threads: Vec<ThreadRef> = pids
            .iter()
            .filter_map(|pid| self.threads.get(pid))
            .flat_map(|threads| threads.iter().map(|thread| (*thread).clone()))
            .collect();
        threads.sort_by_key(|thread| thread.tid);
        threads.dedup();
        threads
    }

    /// The thread of a process that has a number as its own members know them: in a container that of its PID namespace.
    pub(in crate::graph) fn numbered(
        &self,
        member: &ThreadRef,
        tid: u32,
        at_ns: Ns,
    ) -> Option<ThreadRef> {
        let threads = &self.model.threads;
        let inner_of =
            |of: &ThreadRef| threads.by_id.get(&of.tid).and_then(|known| known.inner_tid);
        if inner_of(member).is_some() {
            let all = self.threads_of(&[member.pid]);
            return all.into_iter().find(|thread| inner_of(thread) == Some(tid));
        }
        threads.named_at(tid, at_ns).filter(|it| it.pid == member.pid).cloned()
    }

    /// Processes that a process has begun, ended or not.
    pub(in crate::graph) fn children_ever(&self, pid: u32) -> Vec<ThreadRef> {
        let children = self.children.get(&pid).map_or(&[][..], Vec::as_slice);
        children.iter().map(|child| self.model.threads.present(child)).collect()
    }

    /// Processes that a process has begun and that have not ended.
    pub(in crate::graph) fn living_children(&self, pid: u32) -> Vec<ThreadRef> {
        let model = self.model;
        let ended = |child: &ThreadRef| self.gone.contains(&model.threads.key(child));
        let children = self.children.get(&pid).map_or(&[][..], Vec::as_slice);
        let alive = children.iter().filter(|child| !ended(child));
        alive.map(|child| model.threads.present(child)).collect()
    }

    /// Whether a process is another, or was begun by it, by one that it began, and so on.
    pub(in crate::graph) fn descends(&self, pid: u32, from: u32) -> bool {
        // Upwards: a process has one parent, and perhaps thousands of children.
        let mut at: BTreeSet<u32> = BTreeSet::from([pid]);
        for _ in 0..GENERATIONS {
            if at.contains(&from) {
                return true;
            }
            if at.is_empty() {
                return false;
            }
            at = at.iter().filter_map(|pid| self.parents.get(pid)).flatten().copied().collect();
        }
        false
    }

    /// The children that a process had for most of an interval.
    pub(in crate::graph) fn children_within(&self, pid: u32, from: Ns, to: Ns) -> Vec<ThreadRef> {
        let lived = |child: &ThreadRef| {
            let (since, until) = self.there(child, (from, to));
            until.saturating_sub(since) * 2 >= to.saturating_sub(from)
        };
        let mut children = self.children_ever(pid);
        children.retain(lived);
        children
    }

    /// The one child that a process had for most of an interval. It was there in the middle: of thousands that came one after another
    /// few are looked at.
    pub(in crate::graph) fn only_child(&self, pid: u32, from: Ns, to: Ns) -> Option<ThreadRef> {
        let all = self.lives.get(&pid).map_or(&[][..], Vec::as_slice);
        let length_ns = to.saturating_sub(from);
        let middle_ns = from + length_ns / 2;
        let begun = &all[..all.partition_point(|life| life.since_ns <= middle_ns)];
        let may_live = begun.iter().rev().take_while(|life| life.latest_ns >= middle_ns);
        let mut lived = may_live.filter(|life| {
            let (since_ns, until_ns) = (life.since_ns.max(from), life.until_ns.min(to));
            until_ns.saturating_sub(since_ns) * 2 >= length_ns
        });
        let only = lived.next()?;
        lived.next().is_none().then(|| self.model.threads.present(only.child))
    }

    /// The process in the foreground of a terminal that only the one child of a process has: that child leads a session of its own, and whoever began it
    /// shows its terminal (sudo, su -P, script).
    pub(in crate::graph) fn in_shown_terminal(&self, pid: u32, at: (Ns, Ns)) -> Option<ThreadRef> {
        let known = |pid: u32| self.model.threads.by_id.get(&pid);
        let child = self.only_child(pid, at.0, at.1)?;
        let leader = known(child.pid).filter(|it| it.session == child.pid)?;
        let is_apart = known(pid).is_some_and(|own| ![0, child.pid].contains(&own.session));
        let job =
            leader.foreground_group.filter(|group| is_apart && self.descends(*group, child.pid))?;
        let job = &known(job).filter(|it| it.thread.tid == it.thread.pid)?.thread;
        let (since_ns, until_ns) = self.there(job, at);
        let was_there = until_ns.saturating_sub(since_ns) * 2 >= at.1.saturating_sub(at.0);
        was_there.then(|| self.model.threads.present(job))
    }

    /// Whether a process is in the foreground of the terminal that another one has.
    pub(in crate::graph) fn has_terminal_of(&self, pid: u32, other: u32) -> bool {
        let known = |pid: u32| self.model.threads.by_id.get(&pid);
        known(pid).zip(known(other)).is_some_and(|(own, other)| {
            own.foreground_group == Some(own.process_group)
                && own.session != 0
                && own.session == other.session
        })
    }

    /// One process, or one that the other began, or two of one program that a third one began: they work for each other.
    pub(in crate::graph) fn is_related(&self, one: &ThreadRef, other: &ThreadRef) -> bool {
        let are_siblings = || {
            let parent = self.parent_of(one.pid);
            parent.is_some_and(|pid| pid > 1 && self.parent_of(other.pid) == Some(pid))
                && self.model.threads.process_name(one.pid)
                    == self.model.threads.process_name(other.pid)
        };
        self.descends(one.pid, other.pid) || self.descends(other.pid, one.pid) || are_siblings()
    }

    /// The threads of a process, as they were named.
    pub(super) fn named_threads(&self, pid: u32) -> &[&'a ThreadRef] {
        self.threads.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// What a thread has begun, in order of time.
    pub(in crate::graph) fn begun_by(&self, thread: &ThreadRef) -> &[&'a (Ns, Fork)] {
        self.begun_by.get(&self.model.threads.key(thread)).map_or(&[], Vec::as_slice)
    }

    /// When a thread ended, if it did so inside the look.
    pub(in crate::graph) fn died_ns(&self, who: ThreadKey) -> Option<Ns> {
        self.deaths.get(&who).copied()
    }

    /// When a signal ended a thread.
    pub(in crate::graph) fn killed_ns(&self, who: ThreadKey) -> Option<Ns> {
        self.killed.get(&who).copied()
    }

    /// The part of an interval in which a thread was there, as far as its begin and its end were seen.
    pub(in crate::graph) fn there(&self, thread: &ThreadRef, (from, to): (Ns, Ns)) -> (Ns, Ns) {
        let who = self.model.threads.key(thread);
        let since_ns = self.births.get(&who).map_or(from, |at_ns| (*at_ns).max(from));
        let until_ns = self.deaths.get(&who).map_or(to, |at_ns| (*at_ns).min(to));
        (since_ns, until_ns)
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::rules::scenes::host;
    use crate::waits::timeline::Observed;

    #[test]
    fn a_child_lives_though_an_ended_one_had_its_number() {
        const SECOND: Ns = 1_000_000_000;
        let of = |start_ns| ThreadRef { tid: 20, pid: 20, start_ns, comm: "sh".into() };
        let parent = ThreadRef { tid: 10, pid: 10, ..ThreadRef::default() };
        let fork = |start_ns| {
            let fork = Fork { parent: parent.clone(), child: of(start_ns), flags: 0 };
            Fact { at_ns: start_ns, body: Body::Fork(fork) }
        };
        let exit = Body::Exit(Exit { thread: of(2 * SECOND), last: true, code: None });
        let exit = Fact { at_ns: 3 * SECOND, body: exit };
        let facts = [host(), vec![fork(2 * SECOND), exit, fork(4 * SECOND)]].concat();
        let Observed { model, timelines } = Observed::new(facts);
        assert_eq!(Index::new(&model, &timelines).families.living_children(10), [of(4 * SECOND)]);
    }
}
