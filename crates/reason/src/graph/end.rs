//! An end: where following waits stops, with everybody who waits for it, and who would have to act.
//!
//! The kinds are a closed list (design, section 4.3): a rule may give an end a name, but even without one it is said as what
//! it is. Seconds are conserved: what a victim loses to an end is in no other end of the same look. Must not: decide whether
//! an end is a finding (rules/), or name its object (model/names.rs).
//!
//! Edit together: ends.rs (which leaf makes which end), docs/json.md (the words).

use super::chains::{ChainLink, Leaf};
use super::when::When;
use crate::facts::{Ns, ThreadRef};
use crate::model::Model;
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::goroutines::{self, Waiting};
use crate::waits::user_stack;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What kind of thing an end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// A thread works.
    Works,
    /// No CPU: others have it, a quota, a real-time budget.
    Cpu,
    /// A disk, before or inside.
    Device,
    /// Memory: reclaim, a limit, swap, the dirty limit.
    Memory,
    /// A local queue, a ring, a full buffer.
    Link,
    /// A peer that owes an answer.
    Remote,
    /// A lock that somebody holds.
    Lock,
    /// Somebody sleeps: on purpose, between polls, before a retry.
    Sleep,
    /// A resource that is refused.
    Limit,
    /// A person: a terminal, a debugger, a stop signal.
    Person,
    /// The chain goes on, and was not seen further.
    Open,
    /// Nobody is owed anything.
    Idle,
}

impl EndKind {
    /// What kind of end a wait of this class is, where nobody is found who could be followed further.
    pub fn of(class: WaitClass) -> Self {
        use WaitClass::*;
        match class {
            Running => Self::Works,
            RunQueue | CpuQuota => Self::Cpu,
            Disk | Journal | PageFault => Self::Device,
            DirtyThrottle | Reclaim | SwapIn => Self::Memory,
            FileLock | PolledLock | FutexLock | FutexWait | KernelLock | FrozenFs => Self::Lock,
            SocketWrite | PipeWrite | UnixWrite | TtyWrite | Nagle => Self::Link,
            SocketRead | SocketConnect | Dns | UnixRead | FuseDaemon | FileLeave => Self::Remote,
            RefusedLimit | RefusedRight => Self::Limit,
            Timer | RefusedConnection | TakenAddress | NoAddress | NoRoute | FailedProgram
            | UnheededSignal => Self::Sleep,
            Stopped | Traced | FrozenCgroup | TtyStopped => Self::Person,
            PipeRead | Child | ProcessEnd | Vfork | Kernel | Unseen | Zombie => Self::Open,
            Idle | EndedThread => Self::Idle,
        }
    }
}

/// What makes leaves one end: kind, class and object; where somebody acts, the object is the actor.
pub type EndKey = (EndKind, WaitClass, Object);

/// A piece of demand as it is added to an end, for whoever wants more of it than the end's sums (answer/picture/).
pub struct Lost<'l> {
    /// Kind of the end.
    pub kind: EndKind,
    /// Class of the end.
    pub class: WaitClass,
    /// Object of the end.
    pub object: &'l Object,
    /// When, and by which chain.
    pub leaf: &'l Leaf,
    /// The link of the chain that names the end.
    pub named: usize,
    /// How much of the leaf it is, 0 to 1.
    pub part: f64,
    /// It adds to the end's seconds, and not to its list of victims alone.
    pub counted: bool,
    /// The leaf's times were seen. Else they are a length alone: work that the scheduler has counted.
    pub timed: bool,
}

/// All waits that come down to one thing.
#[derive(Debug, Clone)]
pub struct End {
    /// What kind of thing it is.
    pub kind: EndKind,
    /// The class of the link that names it.
    pub class: WaitClass,
    /// The object.
    pub object: Object,
    /// Who would have to act, as far as it is known: who works, sleeps, holds the lock, owes the answer.
    pub who: Option<ThreadRef>,
    /// Of a sleep for which several processes of that one's name slept a part each: how many. Else 0 or 1.
    pub of_its_name: usize,
    /// Demand wait on it within the window, seconds, summed over victims. For a command: its share of
    /// the critical path, seconds.
    pub seconds: f64,
    /// Who waits, directly or through others, by process: seconds.
    pub victims: BTreeMap<u32, (ThreadRef, f64)>,
    /// What of it counts, by process: not what was waited through others, who are victims themselves.
    counted: BTreeMap<u32, Counted>,
    /// The chain of the longest leaf, victim first, of those behind which the thread stands that most of it comes down to; the link
    /// that names the end is at `named`.
    pub links: Vec<Arc<ChainLink>>,
    /// Index into `links`.
    pub named: usize,
    /// Who holds it, by process of the next link: seconds.
    pub holders: BTreeMap<u32, (ThreadRef, f64)>,
    /// The same by thread.
    holding_threads: BTreeMap<(u32, u32), (ThreadRef, f64)>,
    /// What the holders did meanwhile: seconds by class.
    pub holder_doing: BTreeMap<WaitClass, f64>,
    /// What lay between the victims and the end: seconds by class of the links before it.
    pub via: BTreeMap<WaitClass, f64>,
    /// Leaves.
    pub count: u64,
    /// Greatest single wait, seconds, its time before the look included.
    pub longest_seconds: f64,
    /// It has not ended.
    pub standing: bool,
    /// A circle was met.
    pub circle: bool,
    /// It is owed, and not late by itself: a debt whose chain ends in nothing hard. On a host such an end is reported only if a
    /// rule finds more.
    pub owed: bool,
    longest_ns: (usize, Ns),
    /// The threads that chains beyond the named link come down to.
    roots: BTreeMap<(u32, u32), Root>,
    /// Which of them most comes down to, and how much, seconds.
    main_root: Option<((u32, u32), f64)>,
}

/// What counts of a victim's loss.
#[derive(Debug, Clone, Default)]
struct Counted {
    seconds: f64,
    /// When, as far as it was seen.
    when: When,
}

/// What comes down to one thread.
#[derive(Debug, Clone, Default)]
struct Root {
    seconds: f64,
    /// Links and length of the chain to show.
    longest_ns: (usize, Ns),
    links: Vec<Arc<ChainLink>>,
    named: usize,
}

static SHORT_PARTS: Threshold = Threshold::new(
    20.0,
    "1",
    "one part in so many of the length of another chain: a shorter one is not shown, however many links it has",
    "chosen",
);

/// A chain to show: the most links, and of those the longest; none that is short beside another, whichever came first.
fn is_better((links, ns): (usize, Ns), than: (usize, Ns)) -> bool {
    than.1 < ns / SHORT_PARTS.whole() || (links, ns) > than && ns >= than.1 / SHORT_PARTS.whole()
}

/// Of a wait that began before the look, as much of that counts for its moment.
const BEFORE_LOOK_NS: Ns = 1_000_000_000;

/// When the loss began: a wait that a look's begin has cut in two is as long as it is.
fn whole_begin_ns(leaf: &Leaf) -> Ns {
    let first = &leaf.links[0];
    match first.begin_ns == leaf.begin_ns {
        true => first.since_ns.clamp(leaf.begin_ns.saturating_sub(BEFORE_LOOK_NS), leaf.begin_ns),
        false => leaf.begin_ns,
    }
}

/// Whether a chain comes back to one who waits in it, and each there stands at a thing of the next one's. Whose event a loop waits for is a guess:
/// it may rest by the clock, or have no room itself for what it has read.
fn is_held_circle(leaf: &Leaf) -> bool {
    let Some(met) = &leaf.circle else { return false };
    let is_it = |link: &Arc<ChainLink>| (link.who.pid, link.who.tid) == (met.pid, met.tid);
    let from = leaf.links.iter().position(is_it).unwrap_or(leaf.links.len() - 1);
    let is_held = |class: WaitClass| !matches!(class, WaitClass::Idle | WaitClass::Timer);
    leaf.links[from..].iter().all(|link| is_held(link.class))
}

/// Whether the times of its leaves say when something was lost: work is a length alone, and a turn on a CPU is what all share.
fn has_moments(kind: EndKind, class: WaitClass) -> bool {
    kind != EndKind::Works && class != WaitClass::RunQueue
}

impl End {
    /// The longest wait, or what one process waits altogether: a client that looks at the clock waits in pieces.
    pub fn of_one_seconds(&self) -> f64 {
        self.victims.values().map(|(_, seconds)| *seconds).fold(self.longest_seconds, f64::max)
    }

    /// Of a sleep: it was a wait for events or a condition, which its own timeout ended.
    pub fn is_timed(&self) -> bool {
        self.kind == EndKind::Sleep && matches!(self.class, WaitClass::Idle | WaitClass::FutexWait)
    }

    /// An end without time, with the chain of a leaf; `named` is the link that names it.
    pub fn new(kind: EndKind, class: WaitClass, object: Object, leaf: &Leaf, named: usize) -> Self {
        Self {
            kind,
            class,
            object,
            who: None,
            of_its_name: 0,
            seconds: 0.0,
            victims: BTreeMap::new(),
            counted: BTreeMap::new(),
            links: leaf.links.clone(),
            named,
            holders: BTreeMap::new(),
            holding_threads: BTreeMap::new(),
            holder_doing: BTreeMap::new(),
            via: BTreeMap::new(),
            count: 0,
            longest_seconds: 0.0,
            standing: false,
            circle: false,
            owed: false,
            longest_ns: (0, 0),
            roots: BTreeMap::new(),
            main_root: None,
        }
    }

    /// Leaves that a rule chose, as one end under an object of its own; `named` is the link that names
    /// each of them. None without leaves.
    pub fn gathered(class: WaitClass, object: Object, leaves: &[(Leaf, usize)]) -> Option<Self> {
        let (first, named) = leaves.first()?;
        let mut end = Self::new(EndKind::of(class), class, object, first, *named);
        for (leaf, named) in leaves {
            end.add(leaf, *named, 1.0, true);
        }
        Some(end)
    }

    /// Adds a leaf, or a part of it; one that does not count lengthens the list of victims and no more.
    pub fn add(&mut self, leaf: &Leaf, named: usize, part: f64, counted: bool) {
        let link = &leaf.links[named];
        let seconds = part * leaf.ns() as f64 / 1e9;
        let victim = &leaf.links[0].who;
        if counted {
            self.seconds += seconds;
            self.count += 1;
            let counted = self.counted.entry(victim.pid).or_default();
            counted.seconds += seconds;
            if has_moments(self.kind, self.class) {
                counted.when.add(whole_begin_ns(leaf), leaf.end_ns, part);
            }
        }
        let lost = self.victims.entry(victim.pid).or_insert_with(|| (victim.clone(), 0.0));
        lost.1 += seconds;
        let next = leaf.links.get(named + 1).map(|next| &next.who);
        if let Some(next) = next.or(leaf.circle.as_ref()) {
            let held = self.holders.entry(next.pid).or_insert_with(|| (next.clone(), 0.0));
            held.1 += seconds;
            let thread = self.holding_threads.entry((next.pid, next.tid));
            thread.or_insert_with(|| (next.clone(), 0.0)).1 += seconds;
        }
        *self.holder_doing.entry(leaf.root().class).or_default() += seconds;
        for before in &leaf.links[..named] {
            *self.via.entry(before.class).or_default() += seconds;
        }
        let whole = link.end_ns.saturating_sub(link.since_ns) as f64 / 1e9;
        self.longest_seconds = self.longest_seconds.max(whole);
        self.standing |= link.standing;
        self.circle |= is_held_circle(leaf);
        let weight = (leaf.links.len(), leaf.ns());
        if leaf.links.len() > named + 1 {
            self.add_root(leaf, named, seconds, weight);
        } else if self.roots.is_empty() && is_better(weight, self.longest_ns) {
            self.longest_ns = weight;
            self.links.clone_from(&leaf.links);
            self.named = named;
        }
    }

    /// A chain that goes on behind the named link. Who holds it now and then by chance, or seems to, is not shown.
    fn add_root(&mut self, leaf: &Leaf, named: usize, seconds: f64, weight: (usize, Ns)) {
        let key = (leaf.root().who.pid, leaf.root().who.tid);
        let root = self.roots.entry(key).or_default();
        root.seconds += seconds;
        let is_longer = is_better(weight, root.longest_ns);
        if is_longer {
            (root.longest_ns, root.named) = (weight, named);
            root.links.clone_from(&leaf.links);
        }
        let before = self.main_root;
        if before.is_none_or(|(main, most)| main == key || root.seconds > most) {
            self.main_root = Some((key, root.seconds));
            if is_longer || before.is_none_or(|(main, _)| main != key) {
                self.links.clone_from(&root.links);
                (self.named, self.longest_ns) = (root.named, root.longest_ns);
            }
        }
    }

    /// What makes it one end.
    pub fn key(&self) -> EndKey {
        (self.kind, self.class, self.object.clone())
    }

    /// Of each victim the stretch of about that length in which it lost most: who, from when, and how much, seconds.
    pub fn moments(&self, length_ns: Ns) -> impl Iterator<Item = (&ThreadRef, Ns, f64)> {
        self.counted.iter().filter_map(move |(pid, counted)| {
            let (begin_ns, seconds) = counted.when.densest(length_ns)?;
            Some((&self.victims.get(pid)?.0, begin_ns, seconds))
        })
    }

    /// What counts of it of one process, seconds.
    pub fn counted_seconds(&self, pid: u32) -> f64 {
        self.counted.get(&pid).map_or(0.0, |counted| counted.seconds)
    }

    /// What kind of lock it is, if a stack was read of the wait that names it.
    pub fn lock_kind(&self, model: &Model) -> Option<LockKind> {
        if let Some(waiting) = self.goroutines(model) {
            return user_stack::kind(&waiting.first.frames);
        }
        let link = &self.links[self.named];
        let kind = user_stack::lock_kind_of(model, &link.who, link.since_ns, link.end_ns);
        kind.filter(|kind| *kind != LockKind::Idle)
    }

    /// Whether the wait that names it is one of a thread that is parked by a Java machine.
    pub fn is_parked_in_java(&self, model: &Model) -> bool {
        let link = &self.links[self.named];
        user_stack::parked_in_java(model, &link.who, link.since_ns, link.end_ns)
    }

    /// Goroutines that wait for the mutex that names it, if it is one.
    pub fn goroutines<'m>(&self, model: &'m Model) -> Option<Waiting<'m>> {
        let Object::Mutex { pid, address } = self.object else { return None };
        let link = &self.links[self.named];
        goroutines::waiting(model, pid, address, link.since_ns, link.end_ns)
    }

    /// The function of its program in which that wait stands.
    pub fn function<'m>(&self, model: &'m Model) -> Option<&'m str> {
        let link = &self.links[self.named];
        user_stack::function_of(model, &link.who, link.since_ns, link.end_ns)
    }

    /// The main holder: of the process that holds it longest the thread that does.
    pub fn holder(&self) -> Option<&ThreadRef> {
        let (pid, _) = self.holders.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        let threads = self.holding_threads.range((*pid, 0)..=(*pid, u32::MAX));
        let (_, most) = threads.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        Some(&most.0)
    }

    /// What the holder mostly did.
    pub fn holder_mostly(&self) -> Option<WaitClass> {
        let most = self.holder_doing.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(*most.0)
    }

    /// The first victim of the chain.
    pub fn first_victim(&self) -> &ThreadRef {
        &self.links[0].who
    }

    /// The part of it that some processes lose.
    pub fn of_victims(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let mut part = self.clone();
        part.victims.retain(|pid, _| wanted(*pid));
        part.counted.retain(|pid, _| wanted(*pid));
        part.seconds = part.victims.values().map(|(_, seconds)| seconds).sum::<f64>().max(0.0);
        part
    }

    /// The same, with what counts of it alone: parts of an end add up to it.
    pub fn counted_of(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let mut part = self.of_victims(wanted);
        part.seconds = part.counted.values().map(|it| it.seconds).sum::<f64>().max(0.0);
        part
    }

    /// Several ends as one, named after the greatest: sockets of one peer, names of one server.
    pub fn merged<'e>(ends: impl IntoIterator<Item = &'e End>) -> Option<End> {
        let mut all: Vec<&End> = ends.into_iter().collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.object.cmp(&b.object)));
        let (first, rest) = all.split_first()?;
        let mut sum = (*first).clone();
        for end in rest {
            sum.take_in(end);
        }
        Some(sum)
    }

    fn take_in(&mut self, end: &End) {
        fn add<K: Copy + Ord>(
            into: &mut BTreeMap<K, (ThreadRef, f64)>,
            from: &BTreeMap<K, (ThreadRef, f64)>,
        ) {
            for (key, (thread, seconds)) in from {
                into.entry(*key).or_insert_with(|| (thread.clone(), 0.0)).1 += seconds;
            }
        }
        self.seconds += end.seconds;
        self.count += end.count;
        add(&mut self.victims, &end.victims);
        for (pid, more) in &end.counted {
            let counted = self.counted.entry(*pid).or_default();
            counted.seconds += more.seconds;
            counted.when.take_in(&more.when);
        }
        add(&mut self.holders, &end.holders);
        add(&mut self.holding_threads, &end.holding_threads);
        for (class, seconds) in &end.holder_doing {
            *self.holder_doing.entry(*class).or_default() += seconds;
        }
        for (class, seconds) in &end.via {
            *self.via.entry(*class).or_default() += seconds;
        }
        self.longest_seconds = self.longest_seconds.max(end.longest_seconds);
        self.standing |= end.standing;
        self.circle |= end.circle;
        // A chain that goes on behind what is named says who has it, however long another is.
        let goes_on = |of: &Self| of.main_root.is_some();
        let is_shown = goes_on(end) == goes_on(self) && is_better(end.longest_ns, self.longest_ns);
        if is_shown || goes_on(end) && !goes_on(self) {
            self.longest_ns = end.longest_ns;
            self.links.clone_from(&end.links);
            self.named = end.named;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChainLink, End, Leaf};
    use crate::answer::report::Finding;
    use crate::answer::{EndKind, explain};
    use crate::facts::*;
    use crate::model::object::Object;
    use crate::programs::lock_kind::LockKind;
    use crate::rules::scenes::*;
    use crate::waits::WaitClass;
    use std::sync::Arc;

    /// A leaf of so many links from thread 11 on, and so long.
    fn leaf(links: u32, ns: Ns) -> Leaf {
        let link = |tid: u32| {
            Arc::new(ChainLink::of(of(tid), WaitClass::FutexLock, Object::Nothing, (0, ns)))
        };
        let links = (11..11 + links).map(link).collect();
        Leaf { begin_ns: 0, end_ns: ns, links, circle: None }
    }

    #[test]
    fn of_several_ends_as_one_the_chain_that_says_who_has_it_is_shown() {
        const SECOND: Ns = 1_000_000_000;
        let end = |of: Leaf| {
            End::gathered(WaitClass::FutexLock, Object::Nothing, &[(of, 0)]).expect("an end")
        };
        let (followed, open) = (end(leaf(3, 2 * SECOND)), end(leaf(1, SECOND)));
        let shown = |ends: [&End; 2]| End::merged(ends).expect("one").links.len();
        assert_eq!(shown([&followed, &open]), 3);
        let longer = end(leaf(1, 3 * SECOND));
        assert_eq!(shown([&followed, &longer]), 3, "the longer one was followed to nobody");
    }

    #[test]
    fn a_chain_of_a_moment_is_not_shown_whichever_came_first() {
        let (deep, long) = ((9, 100), (3, 1_000_000));
        assert!(super::is_better(long, deep) && !super::is_better(deep, long));
        assert!(super::is_better((4, 900_000), long) && !super::is_better((2, 1_500_000), long));
    }

    fn of(tid: u32) -> ThreadRef {
        ThreadRef { tid, ..thread(10, "app") }
    }

    /// A thread of process 10 waits for a word, which another ends: that of a lock where the lowest digit is 0, else of a condition.
    fn waits(who: u32, word: u64, by: u32, (from_ms, to_ms): (u64, u64)) -> Fact {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: if word & 0xf == 0 { [word, 128, 2, 0, 0, 0] } else { [word, 137, 0, 0, 0, 0] },
            ..Place::default()
        };
        let (thread, begin_ns, end_ns) = (of(who), from_ms * 1_000_000, to_ms * 1_000_000);
        let wake =
            Some(Wake { at_ns: end_ns, context: WakeContext::Task, by: of(by), ..Wake::default() });
        fact(Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() }))
    }

    #[test]
    fn of_several_threads_that_held_it_the_one_that_did_longest_is_the_holder() {
        let mut facts = host();
        let held = [waits(11, 0x1000, 12, (100, 200)), waits(11, 0x1000, 13, (300, 3_000))];
        facts.extend([vec![of_process(10, "app")], held.to_vec()].concat());
        let found = explain(facts).findings;
        assert!(found[0].title.ends_with("a lock that app 10/13 holds"), "{}", found[0].title);
    }

    #[test]
    fn the_chain_to_show_is_one_to_whom_most_comes_down_and_not_the_longest() {
        let mut facts = host();
        // While 12 had it for a short time it waited for 14, and that for another: the longer chain.
        facts.extend([
            of_process(10, "app"),
            waits(11, 0x1000, 12, (100, 500)),
            waits(12, 0x2008, 14, (100, 500)),
            waits(14, 0x4008, 16, (100, 500)),
            waits(11, 0x1000, 13, (600, 3_000)),
            waits(13, 0x3008, 15, (600, 3_000)),
        ]);
        let found = explain(facts).findings;
        let with_11 =
            |finding: &&Finding| finding.chain.iter().any(|link| link.who.tid == Some(11));
        let chain = &found.iter().find(with_11).expect("what 11 waits for is found").chain;
        let who: Vec<_> = chain.iter().filter_map(|link| link.who.tid).collect();
        assert_eq!(who, [11, 13], "{chain:#?}");
    }

    /// A client of a server whose thread waits for events, with these functions on its stack.
    fn server(functions: &[&str]) -> Vec<Fact> {
        let waits = blocked(20, "postgres", WaitState::Sleep, "epoll_wait");
        let mut facts = host();
        facts.extend(client_and_server(waits));
        facts.push(of_process(10, "client"));
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "postgres".into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: thread(20, "postgres"), frames, ..UserStack::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) });
        facts
    }

    #[test]
    fn a_wait_for_events_is_one_for_a_lock_if_the_stack_says_so() {
        let row = ["WaitLatch", "ProcSleep", "LockAcquire", "XactLockTableWait", "heap_update"];
        let answer = explain(server(&row)).answer;
        let end = &answer.ends[0];
        assert_eq!((end.end, end.lock_kind), (EndKind::Lock, Some(LockKind::RowLock)));
        assert!(answer.title.contains("a row lock"), "{}", answer.title);
        let mut archived = server(&[]);
        let event = Some(SessionEvent::Archive);
        let read = SessionWait { pid: 20, event, ..SessionWait::default() };
        archived.push(Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(read) });
        let answer = explain(archived).answer;
        assert!(answer.title.contains("the archiving of its log"), "{}", answer.title);
        assert!(answer.ends[0].ask.contains("show archive_command"), "{}", answer.ends[0].ask);
        let idle = explain(server(&["secure_read", "PostgresMain"])).answer;
        assert!(idle.ends.iter().all(|end| end.end != EndKind::Lock && end.lock_kind.is_none()));
    }
}
