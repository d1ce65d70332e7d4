//! Ends: every wait that is demand, followed to where that stops, and added up by what it stops at.
//!
//! Of a command its critical path is demand. Of the rest: hard waits, what the target's threads do while their process owes or
//! awaits an answer, and, if one process or container was asked about, its waits for others and its own work. Waits for somebody
//! that end in a thing that is held add to the victims of that end, not to its seconds, which the holder's own wait has already.
//! Time that no event reports is divided by the scheduler's sums.
//!
//! Must not: decide whether an end is a finding (rules/), or who is responsible (ways/).

use super::awaited::Awaited;
use super::blamed::{self, Blamed, who_beyond};
use super::chains::{ChainLink, Chains, Leaf};
use super::conversation::asked_ns;
pub use super::end::{End, EndKey, EndKind, Lost};
use super::for_nobody;
use super::index::Index;
use super::short_waits::{ShortWaits, ready_by_sums};
use super::subscriptions;
use super::unseen::{self, unseen_parts};
use super::wakers::is_stalled;
use crate::facts::{Ns, TargetKind, ThreadRef, ThreadTime};
use crate::model::object::Object;
use crate::model::{Model, ThreadKey};
use crate::programs::lock_kind::LockKind;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{self, Timelines};
use crate::waits::{session_wait, user_stack};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

static READY_PART_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of the time in which nothing was reported of who has a lock, the part that it stood ready by the scheduler's sums: with less it \
     mostly worked, and the lock is what is waited for",
    "chosen",
);

/// holdup itself, and the thread that looks.
pub(super) fn is_own(model: &Model, thread: &ThreadRef) -> bool {
    thread.pid == model.look.host.own_pid && model.look.host.own_pid != 0
}

/// The command's main thread.
pub fn command_root(model: &Model) -> Option<ThreadRef> {
    let target = model.look.target.as_ref().filter(|t| t.kind == TargetKind::Command)?;
    let pid = model.look.command_end.as_ref().map_or(target.pid, |(_, end)| end.pid);
    (pid != 0).then(|| model.threads.thread_ref(pid))
}

/// When the command ended, or the look at it.
pub fn command_end_ns(model: &Model) -> Ns {
    let root = model.look.command_end.as_ref().map(|(_, end)| end.pid);
    let exit = model
        .threads
        .exits
        .iter()
        .filter(|(_, exit)| Some(exit.thread.pid) == root && exit.last)
        .map(|(at, _)| *at)
        .max();
    exit.or(model.look.command_end.as_ref().map(|(at, _)| *at)).unwrap_or(model.look.end_ns)
}

/// The end that a link names: what it waits for.
pub(super) fn named_key(link: &ChainLink) -> EndKey {
    // A page of a mapped file comes from the same disk as a page that is read.
    let class = match link.class {
        WaitClass::PageFault => WaitClass::Disk,
        class => class,
    };
    // An event or a shared word says nothing to a person: what is held is something inside the program.
    match class {
        WaitClass::Idle | WaitClass::FutexWait => {
            (EndKind::Lock, class, Object::Inside(link.who.pid))
        }
        class => (EndKind::of(class), class, link.object.clone()),
    }
}

/// Leaves by end.
pub(super) struct Found<'c, 'a> {
    model: &'a Model,
    timelines: &'a Timelines,
    chains: &'c Chains<'a>,
    is_command: bool,
    ends: HashMap<EndKey, End>,
    /// Behind how many seconds of an end who would have to act.
    blamed: HashMap<EndKey, HashMap<Blamed, f64>>,
    /// Processes that began inside the look, once they were asked for.
    begun: Option<HashSet<u32>>,
    /// How the unseen time of a thread divides.
    unseen: HashMap<ThreadKey, [(EndKind, WaitClass, f64); 3]>,
    /// What the unseen sleeps of a thread were for.
    sleeps: HashMap<ThreadKey, unseen::Parts>,
    /// For how much time a short wait stands.
    short_waits: ShortWaits,
    /// Sees each piece.
    watch: &'c mut dyn FnMut(&Lost<'_>),
}

impl<'c, 'a> Found<'c, 'a> {
    pub(super) fn new(
        model: &'a Model,
        timelines: &'a Timelines,
        chains: &'c Chains<'a>,
        watch: &'c mut dyn FnMut(&Lost<'_>),
    ) -> Self {
        let is_command = command_root(model).is_some();
        Self {
            model,
            timelines,
            chains,
            is_command,
            ends: HashMap::new(),
            blamed: HashMap::new(),
            begun: None,
            unseen: HashMap::new(),
            sleeps: HashMap::new(),
            short_waits: ShortWaits::of(model, timelines),
            watch,
        }
    }

    pub(super) fn add(&mut self, leaf: &Leaf, counted: bool, owed: bool) {
        // A pool's threads that wait for work: nobody asked them.
        let is_unasked = leaf.links[0].class == WaitClass::FutexWait && !self.is_command && !owed;
        let weight = self.weight(leaf);
        match self.named(leaf) {
            Some(named) => {
                let ready = self.add_ready(leaf, weight, counted);
                self.add_named(leaf, named, weight * (1.0 - ready), counted);
            }
            None if is_unasked => {}
            None => {
                for (key, part) in self.unnamed_keys(leaf, owed) {
                    self.add_part(leaf, key, part * weight, counted);
                }
            }
        }
    }

    /// Who has what is waited for, and of whom nothing was reported, may have stood without a CPU nearly all of it: then that part of the leaf
    /// ends there. The part, 0 to 1.
    fn add_ready(&mut self, leaf: &Leaf, weight: f64, counted: bool) -> f64 {
        let root = leaf.root();
        if root.class != WaitClass::Unseen {
            return 0.0;
        }
        let [_, (kind, class, ready), _] = self.unseen_parts(&root.who);
        if ready < READY_PART_MIN.value {
            return 0.0;
        }
        let led = unseen::led_to(leaf, &(kind, class, Object::RunQueue(Vec::new())), None);
        self.add_named(&led, led.links.len() - 1, weight * ready, counted);
        ready
    }

    /// A part of a leaf that nothing in it names; its unseen sleep may have been for something with a name.
    fn add_part(&mut self, leaf: &Leaf, key: EndKey, part: f64, counted: bool) {
        if leaf.root().class != WaitClass::Unseen || key.1 == WaitClass::Unseen {
            return self.add_unnamed(leaf, key, part);
        }
        let actor = match &key.2 {
            Object::Process(pid) if *pid != leaf.root().who.pid => {
                Some(self.model.threads.thread_ref(*pid))
            }
            _ => None,
        };
        let led = unseen::led_to(leaf, &key, actor);
        match unseen::has_name(&key) {
            true => self.add_named(&led, led.links.len() - 1, part, counted),
            false => self.add_unnamed(&led, key, part),
        }
    }

    /// For how many times its own length the wait that a leaf begins with stands.
    fn weight(&self, leaf: &Leaf) -> f64 {
        if self.short_waits.is_empty() {
            return 1.0;
        }
        let wait = self.chains.index.waits.at(&leaf.links[0].who, leaf.begin_ns);
        wait.map_or(1.0, |wait| self.short_waits.weight(self.model, wait))
    }

    /// The ends that a leaf of a command is led to, each with its part of it.
    pub(super) fn keys(&mut self, leaf: &Leaf) -> Vec<(EndKey, f64)> {
        match self.named(leaf) {
            Some(named) => vec![(self.named_key(leaf, named), 1.0)],
            None => self.unnamed_keys(leaf, true),
        }
    }

    /// Whether a command waits for the turn of a thread of its own that computes: whoever has the interpreter's lock is on the
    /// command's path.
    fn is_its_own_work(&self, leaf: &Leaf, named: usize) -> bool {
        let works = matches!(leaf.root().class, WaitClass::Running | WaitClass::Unseen);
        let is_turn = matches!(leaf.links[named].object, Object::InterpreterLock(_));
        self.is_command && is_turn && works
    }

    /// The link that names the end.
    fn named(&self, leaf: &Leaf) -> Option<usize> {
        leaf.named().filter(|named| !self.is_its_own_work(leaf, *named))
    }

    fn named_key(&self, leaf: &Leaf, named: usize) -> EndKey {
        let link = &leaf.links[named];
        // Whether ctrl-S was typed there, or whoever shows the terminal does not read it: it is at a person's end.
        let is_last = named + 1 == leaf.links.len();
        if link.class == WaitClass::TtyWrite && is_last && is_window(self.model, link) {
            return (EndKind::Person, link.class, link.object.clone());
        }
        named_key(link)
    }

    /// What is waited for names the end: a disk, a lock that is held.
    fn add_named(&mut self, leaf: &Leaf, named: usize, part: f64, counted: bool) {
        let key = self.named_key(leaf, named);
        let (kind, class, object) = key.clone();
        let timed = true;
        (self.watch)(&Lost { kind, class, object: &object, leaf, named, part, counted, timed });
        self.blame(&key, who_beyond(self.model, leaf, named), part * leaf.ns() as f64);
        let end =
            (self.ends).entry(key).or_insert_with(|| End::new(kind, class, object, leaf, named));
        end.add(leaf, named, part, counted);
    }

    /// Of several behind one end it is the one behind most of it.
    fn blame(&mut self, key: &EndKey, who: Blamed, ns: f64) {
        let all = self.blamed.entry(key.clone()).or_default();
        *all.entry(who).or_default() += ns;
    }

    /// Nobody holds anything: somebody works, sleeps, owes an answer, or the chain was not seen further.
    fn add_unnamed(&mut self, leaf: &Leaf, key: EndKey, part: f64) {
        let (kind, class, object) = key.clone();
        let named = leaf.links.len() - 1;
        let (counted, timed) = (true, true);
        (self.watch)(&Lost { kind, class, object: &object, leaf, named, part, counted, timed });
        if matches!(kind, EndKind::Works | EndKind::Sleep | EndKind::Cpu) {
            let who = Blamed::Thread(leaf.root().who.clone());
            self.blame(&key, who, part * leaf.ns() as f64);
        }
        let end =
            (self.ends).entry(key).or_insert_with(|| End::new(kind, class, object, leaf, named));
        end.add(leaf, named, part, true);
        end.owed = !self.is_command;
    }

    fn unnamed_keys(&mut self, leaf: &Leaf, owed: bool) -> Vec<(EndKey, f64)> {
        let root = leaf.root();
        if root.class == WaitClass::FutexWait && self.is_inside_a_server(root) {
            return vec![((EndKind::Lock, root.class, Object::Inside(root.who.pid)), 1.0)];
        }
        if root.class == WaitClass::Unseen {
            return self.unseen_keys(root);
        }
        let kind = match EndKind::of(root.class) {
            EndKind::Remote if root.question_of.is_some() || is_askers_own(self.model, leaf) => {
                EndKind::Idle
            }
            kind => kind,
        };
        let kind = match kind {
            EndKind::Idle if is_terminal(&root.object) => EndKind::Person,
            EndKind::Idle if root.by_clock && !is_tick(&self.chains.index, leaf) => EndKind::Sleep,
            // A sleep of a virtual machine's, on a condition that nobody signals.
            EndKind::Lock if is_timed_out(root) && !is_tick(&self.chains.index, leaf) => {
                EndKind::Sleep
            }
            EndKind::Idle if self.is_command => EndKind::Open,
            // Who is owed something, and by whom, is known; what that one waits for is not.
            EndKind::Idle if owed && leaf.links.len() > 1 => EndKind::Open,
            // A thread that reads what another of its own process will write.
            EndKind::Open if reads_a_pipe(root) && !self.is_command => EndKind::Idle,
            kind => kind,
        };
        let key = match kind != EndKind::Sleep && self.is_inside(root) {
            true => (EndKind::Lock, WaitClass::FutexWait, Object::Inside(root.who.pid)),
            false => self.key(root, kind, root.class),
        };
        vec![(key, 1.0)]
    }

    /// Whether a server says itself that it waits for something inside of it, whatever ends each piece of that.
    fn is_inside_a_server(&self, root: &ChainLink) -> bool {
        let (from, to) = (root.since_ns, root.end_ns);
        let by_stack = || user_stack::lock_kind_of(self.model, &root.who, from, to);
        session_wait::kind_of(self.model, &root.who, from, to).is_some()
            || by_stack().is_some_and(LockKind::is_of_a_server)
    }

    /// Whether a process that owes an answer and has asked nobody stands waiting for something of its own: a lock, a
    /// connection of its pool, a turn. Who holds that only the program knows.
    fn is_inside(&self, root: &ChainLink) -> bool {
        if !matches!(root.class, WaitClass::Idle | WaitClass::FutexWait) {
            return false;
        }
        let debts = &self.chains.index.debts;
        let kind = user_stack::lock_kind_of(self.model, &root.who, root.since_ns, root.end_ns);
        let is_of_library =
            || user_stack::is_of_own_library(self.model, &root.who, root.since_ns, root.end_ns);
        // Its own functions say that it is a lock.
        if kind.is_some_and(LockKind::is_held) && !is_of_library() {
            return true;
        }
        root.question_of.is_none()
            && debts.owes.contains_key(&root.who.pid)
            && !debts.awaits.contains_key(&root.who.pid)
    }

    fn key(&mut self, root: &ChainLink, kind: EndKind, class: WaitClass) -> EndKey {
        let object = match kind {
            EndKind::Works | EndKind::Sleep => self.actor(&root.who, kind),
            EndKind::Cpu => Object::RunQueue(Vec::new()),
            EndKind::Open if is_of_a_client(&self.chains.index, root) => {
                let wait = self.chains.index.waits.at(&root.who, root.begin_ns);
                let call = wait.map_or("", |wait| wait.place.syscall.as_str());
                Object::Kernel(call.into())
            }
            _ => root.object.clone(),
        };
        (kind, class, object)
    }

    /// Who acts: a process, or of those that a command or a process began and that came and went, the program: a loop begins one `sleep` after
    /// another. On a host each is one of many. Of a container work is each process's own, as what it ran itself is added by its number (`add_work`):
    /// by the program's name too, one process's work would be two ends.
    fn actor(&mut self, who: &ThreadRef, kind: EndKind) -> Object {
        let model = self.model;
        let begun = self.begun.get_or_insert_with(|| {
            let own =
                model.threads.forks.iter().filter(|(_, fork)| fork.child.pid != fork.parent.pid);
            own.map(|(_, fork)| fork.child.pid).collect()
        });
        let is_grouped = match model.look.target.as_ref().map_or(TargetKind::Host, |it| it.kind) {
            TargetKind::Command | TargetKind::Process => true,
            TargetKind::Container => kind == EndKind::Sleep,
            TargetKind::Host => false,
        };
        match is_grouped && begun.contains(&who.pid) && !who.comm.is_empty() {
            true => Object::Processes(who.comm.as_str().into()),
            false => Object::Process(who.pid),
        }
    }

    /// Time of a thread that no event tells went into running, waiting for a CPU, and waits too short to be reported; the
    /// scheduler's sums say how much into each.
    fn unseen_parts(&mut self, thread: &ThreadRef) -> [(EndKind, WaitClass, f64); 3] {
        let (model, timelines) = (self.model, self.timelines);
        *self
            .unseen
            .entry(model.threads.key(thread))
            .or_insert_with(|| unseen_parts(model, timelines, thread))
    }

    /// The ends of unseen time, each with its part.
    fn unseen_keys(&mut self, root: &ChainLink) -> Vec<(EndKey, f64)> {
        let mut keys: BTreeMap<EndKey, f64> = BTreeMap::new();
        for (kind, class, part) in self.unseen_parts(&root.who) {
            let mut rest = part;
            if kind == EndKind::Open && part > 0.0 {
                for (key, share) in self.unseen_sleeps(&root.who).iter() {
                    *keys.entry(key.clone()).or_default() += share * part;
                    rest -= share * part;
                }
            }
            if rest > f64::EPSILON {
                *keys.entry(self.key(root, kind, class)).or_default() += rest;
            }
        }
        keys.into_iter().collect()
    }

    /// What the unseen sleep of a thread was for.
    fn unseen_sleeps(&mut self, thread: &ThreadRef) -> unseen::Parts {
        let who = self.model.threads.key(thread);
        if let Some(known) = self.sleeps.get(&who) {
            return known.clone();
        }
        // Whoever leads back here finds it unknown.
        self.sleeps.insert(who, unseen::Parts::default());
        if self.is_command {
            let (chains, timelines) = (self.chains, self.timelines);
            let parts = unseen::sleeps(self.model, timelines, chains, who, |leaf| self.keys(leaf));
            self.sleeps.insert(who, parts);
        }
        self.sleeps[&who].clone()
    }

    /// What a thread's wait is by itself, whatever its process was found to wait for: that is counted nowhere else.
    fn own_class(&self, link: &ChainLink) -> WaitClass {
        let wait = self.chains.index.waits.at(&link.who, link.begin_ns);
        wait.map_or(link.class, |wait| wait.class)
    }

    /// What the threads of the target do while it owes an answer, or awaits one, is demand, whatever they wait for.
    pub(super) fn add_owed(&mut self, awaited: &Awaited) {
        let chains = self.chains;
        // On a host only what ends in something that is held: a debt is not late by itself.
        let is_host = self.model.look.target.as_ref().is_none_or(|it| it.kind == TargetKind::Host);
        let mut owed: BTreeMap<ThreadKey, (ThreadRef, Vec<(Ns, Ns)>)> = BTreeMap::new();
        let wrapped = if is_host { Vec::new() } else { chains.wrapper_times() };
        for (thread, from, to) in chains.owed_times().into_iter().chain(wrapped) {
            if self.model.in_target(&thread) && !is_own(self.model, &thread) {
                let who = self.model.threads.key(&thread);
                let times = owed.entry(who).or_insert_with(|| (thread, Vec::new()));
                times.1.push((from, to));
            }
        }
        for (thread, times) in owed.into_values() {
            for (from, to) in timeline::joined(times) {
                let leaves = chains.follow(&thread, from, to);
                let rests = subscriptions::rests(&leaves);
                let is_rest = |leaf: &Leaf| {
                    rests && subscriptions::is_rest(leaf)
                        || subscriptions::is_of_master_at_rest(&chains.index, leaf)
                        || for_nobody::is_owed(chains, leaf)
                };
                for leaf in leaves.into_iter().filter(|leaf| !is_rest(leaf) && !awaited.has(leaf)) {
                    let first = self.own_class(&leaf.links[0]);
                    let counted = first.is_demand()
                        || first.is_for_somebody() && !asks_another(first, &leaf.links[0])
                        || is_stalled(first)
                        || matches!(first, WaitClass::Running | WaitClass::Unseen);
                    let wanted = !is_host || leaf.named().is_some();
                    if wanted && (!counted || first == WaitClass::FutexWait) {
                        self.add(&leaf, true, true);
                    }
                }
            }
        }
    }

    /// Outside of a command, what each process of the target ran itself is demand too.
    pub(super) fn add_work(&mut self) {
        let model = self.model;
        // By number, as the end's object is: processes that had it in turn are one end.
        let mut ran: BTreeMap<u32, Ns> = BTreeMap::new();
        let wanted =
            |time: &&ThreadTime| !time.kernel && time.run_ns > 0 && !is_own(model, &time.thread);
        for time in model.threads.times.iter().filter(wanted).filter(|t| model.in_target(&t.thread))
        {
            *ran.entry(time.thread.pid).or_default() += time.run_ns;
        }
        for (pid, ns) in ran {
            let who = model.threads.thread_ref(pid);
            let key = (EndKind::Works, WaitClass::Running, Object::Process(pid));
            self.add_sum(key, who, ns);
        }
        let target = model.look.target.as_ref().map(|it| model.threads.thread_ref(it.pid));
        if let Some((who, ns)) = target.zip(ready_by_sums(model, self.timelines)) {
            let key = (EndKind::Cpu, WaitClass::RunQueue, Object::RunQueue(Vec::new()));
            self.add_sum(key, who, ns);
        }
    }

    /// Time that is known by the sums of a process, and of which no wait tells when it was.
    fn add_sum(&mut self, key: EndKey, who: ThreadRef, ns: Ns) {
        let begin_ns = self.model.look.begin_ns;
        let (kind, class, object) = key.clone();
        self.blame(&key, Blamed::Thread(who.clone()), ns as f64);
        let end_ns = begin_ns + ns;
        let link = ChainLink::of(who, class, object.clone(), (begin_ns, end_ns));
        let leaf = Leaf { begin_ns, end_ns, links: vec![Arc::new(link)], circle: None };
        let (named, part, counted, timed) = (0, 1.0, true, false);
        let lost = Lost { kind, class, object: &object, leaf: &leaf, named, part, counted, timed };
        (self.watch)(&lost);
        let own = End::new(kind, class, object.clone(), &leaf, 0);
        let end = self.ends.entry(key).or_insert(own);
        end.add(&leaf, 0, 1.0, true);
    }

    pub(super) fn sorted(self) -> Vec<End> {
        let mut ends: Vec<(EndKey, End)> = self.ends.into_iter().collect();
        for (key, end) in &mut ends {
            if let Some(blamed) = self.blamed.get(key) {
                (end.who, end.of_its_name) = blamed::most(end, blamed);
            }
        }
        ends.sort_by(|(a_key, a), (b_key, b)| {
            b.seconds.total_cmp(&a.seconds).then_with(|| a_key.cmp(b_key))
        });
        ends.into_iter().map(|(_, end)| end).collect()
    }
}

/// Whether the root's sleep is a small part of what is waited for: an event loop that looks at the clock now and then does not
/// sleep over an answer. Whoever waits may do so in pieces too.
fn is_tick(index: &Index<'_>, leaf: &Leaf) -> bool {
    let (root, first) = (leaf.root(), leaf.first_asker());
    if root.own_clock || root.ns() * 2 < first.ns() {
        return !root.own_clock;
    }
    let wait = index.waits.at(&root.who, root.begin_ns);
    let whole_ns = wait.map_or(root.ns(), |wait| wait.end_ns - wait.begin_ns);
    asked_for_ns(index, first).is_some_and(|ns| whole_ns * 2 < ns)
}

/// Whether the root waits on the connection of one who waits for it: of him it awaits nothing, it owes him.
fn is_askers_own(model: &Model, leaf: &Leaf) -> bool {
    let ends = |link: &ChainLink| {
        let Object::Inet(ino) = link.object else { return None };
        model.called.socket(ino).map(|it| (it.local, it.remote))
    };
    let Some((local, remote)) = ends(leaf.root()) else { return false };
    leaf.links.iter().any(|link| ends(link) == Some((remote, local)))
}

/// Whether a thread that waits for the next question was led to the name server that it asks itself: by itself that wait is for nobody.
fn asks_another(class: WaitClass, link: &ChainLink) -> bool {
    class == WaitClass::SocketRead && link.class == WaitClass::Dns
}

/// For how long an answer was seen to stand out that a link waits for.
fn asked_for_ns(index: &Index<'_>, link: &ChainLink) -> Option<Ns> {
    let wait = index.waits.at(&link.who, link.begin_ns)?;
    let asked = index.debts.asked_by(link.who.pid);
    let seen_ns = asked.filter(|it| Object::Inet(it.ino) == wait.object).map(|it| it.seen_ns);
    Some(seen_ns.max()?.saturating_sub(asked_ns(index, wait)))
}

/// Whether a link is a terminal window, a login, a pane: another program holds its other side.
fn is_window(model: &Model, link: &ChainLink) -> bool {
    let Object::Tty(dev) = link.object else { return false };
    model.called.terminal_name(dev).is_some_and(|name| name.starts_with("pts/"))
}

/// Whether a wait for a condition, a semaphore or a join had a timeout, and nothing else ended it.
fn is_timed_out(root: &ChainLink) -> bool {
    root.class == WaitClass::FutexWait && root.by_clock
}

/// Whether a pipe is read that is open at both ends; a FIFO that is being opened is a file.
fn reads_a_pipe(root: &ChainLink) -> bool {
    root.class == WaitClass::PipeRead && !matches!(root.object, Object::File(_))
}

/// Whether somebody's input is waited for.
fn is_terminal(object: &Object) -> bool {
    matches!(object, Object::Tty(_))
}

/// Whether what ended a loop's wait came from a client that it has accepted: for that one it did not wait while it owed an answer.
fn is_of_a_client(index: &Index<'_>, root: &ChainLink) -> bool {
    let Object::Inet(ino) = root.object else { return false };
    let socket = index.model.called.socket(ino).filter(|_| root.class == WaitClass::Idle);
    socket.is_some_and(|socket| index.connections.is_accepted(socket))
}

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
