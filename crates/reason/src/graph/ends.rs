//! Causes: all waits that come down to one thing, with who loses how much and the longest chain.
//!
//! For a host, process or container every demand wait of its threads is followed to its leaves, and the
//! leaves are grouped by what names them (class and object). For a command only its critical path counts.
//! Waits for somebody (a reply, a child) count only through what holds that somebody up: they lengthen the
//! chain and add to the victims, not to the waiting on the object itself.
//!
//! Must not: decide whether a cause is a finding; each case does, with its second fact.

use crate::facts::{Ns, TargetKind, ThreadRef};
use crate::graph::chains::{ChainLink, Chains, Leaf};
use crate::graph::responsible::is_stalled;
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::{Timelines, WaitSpan};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Chains kept per cause.
const EXAMPLES: usize = 1;

/// All waits that come down to one class and object.
#[derive(Debug, Clone)]
pub struct End {
    /// The class that names it.
    pub class: WaitClass,
    /// The object.
    pub object: Object,
    /// Demand wait on it within the window, seconds, summed over victims. For a command: its share of
    /// the critical path, seconds.
    pub seconds: f64,
    /// Who waits, directly or through others, by process: seconds.
    pub victims: BTreeMap<u32, (ThreadRef, f64)>,
    /// The chain of the longest leaf, victim first; the link that names the cause is at `named`.
    pub links: Vec<Arc<ChainLink>>,
    /// Index into `links`.
    pub named: usize,
    /// Who holds it, by process of the next link: seconds.
    pub holders: BTreeMap<u32, (ThreadRef, f64)>,
    /// What the holders did meanwhile: seconds by class.
    pub holder_doing: BTreeMap<WaitClass, f64>,
    /// What lay between the victims and the cause: seconds by class of the links before it.
    pub via: BTreeMap<WaitClass, f64>,
    /// Leaves.
    pub count: u64,
    /// Greatest single wait, seconds, its time before the window included.
    pub longest_seconds: f64,
    /// It has not ended.
    pub standing: bool,
    /// A circle was met.
    pub circle: bool,
    longest_ns: (usize, Ns),
}

impl End {
    /// The main holder: who holds it longest.
    pub fn holder(&self) -> Option<&ThreadRef> {
        let most = self.holders.values().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(&most.0)
    }

    /// What the holder mostly did.
    pub fn holder_mostly(&self) -> Option<WaitClass> {
        let most = self.holder_doing.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(*most.0)
    }

    /// Several causes told as one, named after the greatest: sockets of one peer, names of one server.
    pub fn merged<'c>(measures: impl IntoIterator<Item = &'c End>) -> Option<End> {
        fn add<K: Copy + Ord>(
            into: &mut BTreeMap<K, (ThreadRef, f64)>,
            from: &BTreeMap<K, (ThreadRef, f64)>,
        ) {
            for (key, (thread, seconds)) in from {
                into.entry(*key).or_insert_with(|| (thread.clone(), 0.0)).1 += seconds;
            }
        }
        let mut all: Vec<&End> = measures.into_iter().collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.object.cmp(&b.object)));
        let (first, rest) = all.split_first()?;
        let mut sum = (*first).clone();
        for end in rest {
            sum.seconds += end.seconds;
            sum.count += end.count;
            add(&mut sum.victims, &end.victims);
            add(&mut sum.holders, &end.holders);
            for (class, seconds) in &end.holder_doing {
                *sum.holder_doing.entry(*class).or_default() += seconds;
            }
            for (class, seconds) in &end.via {
                *sum.via.entry(*class).or_default() += seconds;
            }
            sum.longest_seconds = sum.longest_seconds.max(end.longest_seconds);
            sum.standing |= end.standing;
            sum.circle |= end.circle;
            if end.longest_ns > sum.longest_ns {
                sum.longest_ns = end.longest_ns;
                sum.links.clone_from(&end.links);
                sum.named = end.named;
            }
        }
        Some(sum)
    }

    /// The first victim of the chain.
    pub fn first_victim(&self) -> &ThreadRef {
        &self.links[0].who
    }
}

/// All causes of a scene, and what the victims spent altogether.
pub struct Graph<'a> {
    /// What was observed.
    pub model: &'a Model,
    /// What each thread did when.
    pub timelines: &'a Timelines,
    /// Follows waits.
    pub chains: Chains<'a>,
    /// The causes, greatest first.
    pub ends: Vec<End>,
    /// For a command: the leaves of its critical path, in order of time.
    pub path: Vec<Leaf>,
    demand_seconds: HashMap<u32, f64>,
}

impl<'a> Graph<'a> {
    /// Finds the causes.
    pub fn of(model: &'a Model, timelines: &'a Timelines) -> Self {
        let chains = Chains::new(model, timelines);
        let mut groups: HashMap<(WaitClass, Object), End> = HashMap::new();
        let mut path = Vec::new();
        if let Some(root) = command_root(model) {
            path = chains.follow(&root, model.begin_ns, command_end_ns(model));
            for leaf in &path {
                add(&mut groups, leaf, true);
            }
        } else {
            for wait in timelines.waits() {
                let counted = wait.class.is_demand();
                let followed = counted || wait.class.is_for_somebody() || is_stalled(wait.class);
                // A kernel thread waits for somebody else's sake: it is a link, never a victim.
                if !followed
                    || wait.kernel
                    || is_own(model, &wait.thread)
                    || !model.in_target(&wait.thread)
                {
                    continue;
                }
                for leaf in chains.follow_wait(wait, model.begin_ns, model.end_ns) {
                    add(&mut groups, &leaf, counted || is_stalled(wait.class));
                }
            }
        }
        let mut ends: Vec<End> = groups.into_values().collect();
        ends.sort_by(|a, b| {
            b.seconds
                .total_cmp(&a.seconds)
                .then_with(|| (a.class, &a.object).cmp(&(b.class, &b.object)))
        });
        let demand_seconds = demand_by_process(model, timelines);
        Self { model, timelines, chains, ends, path, demand_seconds }
    }

    /// The causes of one class.
    pub fn class(&self, class: WaitClass) -> impl Iterator<Item = &End> {
        self.ends.iter().filter(move |end| end.class == class)
    }

    /// Every wait of every thread.
    pub fn waits(&self) -> impl Iterator<Item = &'a WaitSpan> + use<'a> {
        self.timelines.waits()
    }

    /// It is a command that is explained.
    pub fn is_command(&self) -> bool {
        self.model.target.as_ref().is_some_and(|t| t.kind == TargetKind::Command)
    }

    /// Seconds that are explained: the window, or the command's life.
    pub fn wall_seconds(&self) -> f64 {
        if self.is_command() {
            return command_end_ns(self.model).saturating_sub(self.model.begin_ns) as f64 / 1e9;
        }
        self.model.seconds()
    }

    /// Time that a process did not spend idle, seconds.
    pub fn demand_seconds_of(&self, pid: u32) -> f64 {
        self.demand_seconds.get(&pid).copied().unwrap_or(0.0)
    }

    /// Time that a process did not spend idle: running, ready, or in demand waits, seconds.
    pub fn demand_seconds(&self, pid: u32) -> f64 {
        self.demand_seconds.get(&pid).copied().unwrap_or(0.0)
    }

    /// The name of a thread's process.
    pub fn process_name(&self, thread: &ThreadRef) -> String {
        let main = self.model.names.get(&thread.pid);
        main.filter(|m| !m.comm.is_empty()).unwrap_or(thread).comm.clone()
    }
}

/// holdup itself, and the thread that looks.
fn is_own(model: &Model, thread: &ThreadRef) -> bool {
    thread.pid == model.host.own_pid && model.host.own_pid != 0
}

/// The command's main thread.
pub fn command_root(model: &Model) -> Option<ThreadRef> {
    let target = model.target.as_ref().filter(|t| t.kind == TargetKind::Command)?;
    let pid = model.command_end.as_ref().map_or(target.pid, |(_, end)| end.pid);
    (pid != 0).then(|| model.thread_ref(pid))
}

/// When the command ended, or the look at it.
pub fn command_end_ns(model: &Model) -> Ns {
    let root = model.command_end.as_ref().map(|(_, end)| end.pid);
    let exit = model
        .exits
        .iter()
        .filter(|(_, exit)| Some(exit.thread.pid) == root && exit.last)
        .map(|(at, _)| *at)
        .max();
    exit.or(model.command_end.as_ref().map(|(at, _)| *at)).unwrap_or(model.end_ns)
}

fn add(groups: &mut HashMap<(WaitClass, Object), End>, leaf: &Leaf, counted: bool) {
    let Some(named) = leaf.named() else { return };
    let link = &leaf.links[named];
    // A page of a mapped file comes from the same disk as a page that is read.
    let class = match link.class {
        WaitClass::PageFault => WaitClass::Disk,
        class => class,
    };
    groups
        .entry((class, link.object.clone()))
        .or_insert_with(|| End::of(class, link.object.clone(), leaf, named))
        .add(leaf, named, counted);
}

impl End {
    fn of(class: WaitClass, object: Object, leaf: &Leaf, named: usize) -> Self {
        Self {
            class,
            object,
            seconds: 0.0,
            victims: BTreeMap::new(),
            links: leaf.links.clone(),
            named,
            holders: BTreeMap::new(),
            holder_doing: BTreeMap::new(),
            via: BTreeMap::new(),
            count: 0,
            longest_seconds: 0.0,
            standing: false,
            circle: false,
            longest_ns: (0, 0),
        }
    }

    /// Leaves that a case chose, as one cause under a name of its own; `named` is the link that names
    /// each of them. None without leaves.
    pub fn gathered(class: WaitClass, object: Object, leaves: &[(Leaf, usize)]) -> Option<Self> {
        let (first, named) = leaves.first()?;
        let mut end = Self::of(class, object, first, *named);
        for (leaf, named) in leaves {
            end.add(leaf, *named, true);
        }
        Some(end)
    }

    /// The part of it that some processes lose.
    pub fn of_victims(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let mut part = self.clone();
        part.victims.retain(|pid, _| wanted(*pid));
        part.seconds = part.victims.values().map(|(_, seconds)| seconds).sum();
        part
    }

    fn add(&mut self, leaf: &Leaf, named: usize, counted: bool) {
        let link = &leaf.links[named];
        let seconds = leaf.ns() as f64 / 1e9;
        if counted {
            self.seconds += seconds;
            self.count += 1;
        }
        let victim = &leaf.links[0].who;
        let lost = self.victims.entry(victim.pid).or_insert_with(|| (victim.clone(), 0.0));
        lost.1 += seconds;
        if let Some(next) = leaf.links.get(named + 1) {
            let held = self.holders.entry(next.who.pid).or_insert_with(|| (next.who.clone(), 0.0));
            held.1 += seconds;
        }
        *self.holder_doing.entry(leaf.root().class).or_default() += seconds;
        for before in &leaf.links[..named] {
            *self.via.entry(before.class).or_default() += seconds;
        }
        let whole = link.end_ns.saturating_sub(link.since_ns) as f64 / 1e9;
        self.longest_seconds = self.longest_seconds.max(whole);
        self.standing |= link.standing;
        self.circle |= leaf.circle;
        // The chain to show: the most links, and of those the longest.
        let weight = (leaf.links.len(), leaf.ns());
        if weight > self.longest_ns && leaf.ns() * 20 >= self.longest_ns.1 * EXAMPLES as u64 {
            self.longest_ns = weight;
            self.links.clone_from(&leaf.links);
            self.named = named;
        }
    }
}

/// Time that each process did not spend idle: running, ready, or in demand waits.
fn demand_by_process(model: &Model, timelines: &Timelines) -> HashMap<u32, f64> {
    let mut seconds: HashMap<u32, f64> = HashMap::new();
    for time in &model.times {
        *seconds.entry(time.thread.pid).or_default() +=
            (time.run_ns + time.runnable_ns) as f64 / 1e9;
    }
    for wait in timelines.waits() {
        if wait.class.is_demand()
            && !matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota)
        {
            *seconds.entry(wait.thread.pid).or_default() +=
                wait.within_ns(model.begin_ns, model.end_ns) as f64 / 1e9;
        }
    }
    seconds
}
