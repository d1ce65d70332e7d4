//! GRAPH -> MEASURES: figures over the window that several rules need, each computed once.
//!
//! A measure is what a disk's queue, a CPU's users, a TCP stream or a group's memory did over the look. It is no verdict: what
//! a figure means is said by the rules. Must not: name a code, or read anything but the model and the graph.

pub mod address_owner;
pub mod ancestry;
pub mod cache_readers;
pub mod cgroups;
pub mod container_start;
pub mod cpu_profile;
#[cfg(test)]
pub(crate) mod cpu_profile_tests;
pub mod cpu_quotas;
pub mod cpu_users;
pub mod datagram_drops;
pub mod disk_array;
pub mod disk_cache;
pub mod disk_limits;
pub mod disk_queue;
mod disk_threads;
pub mod disk_view;
pub mod dns_answers;
pub mod doors;
pub mod exhaustion;
pub mod filter_rules;
pub mod full_groups;
pub mod interpreters;
pub mod interrupts;
pub mod link_path;
pub mod longest_wait;
pub mod memory_limits;
pub mod memory_losses;
pub mod memory_members;
pub mod moment;
pub mod net_counter;
pub mod oom_kills;
pub mod own_functions;
pub mod packet_drops;
pub mod packet_queue;
pub mod pools;
pub mod process_names;
pub mod refusals;
pub mod steal;
pub mod tcp_stream;
pub mod tunnels;
pub mod usages;
pub mod write_back;

use crate::facts::{DeviceNumber, ThreadRef, ThreadTime};
use crate::graph::demand::Graph;
use crate::graph::ends::{End, Lost, command_root};
use crate::model::Model;
use crate::model::words;
use crate::waits::WaitClass;
use crate::waits::timeline::{Observed, Timelines, WaitSpan};
use ancestry::Ancestry;
use cpu_users::{CpuUsers, Program};
use disk_view::{DiskView, Disks};
use memory_limits::Limited;
use memory_losses::Whose;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::OnceLock;

/// The model, the graph of its waits, and the figures.
pub struct Measures<'a> {
    /// What was observed.
    pub model: &'a Model,
    /// What each thread did when.
    pub timelines: &'a Timelines,
    /// Who waits for whom, and where that ends.
    pub graph: Graph<'a>,
    /// Who began whom.
    pub ancestry: Ancestry,
    /// Who uses the CPUs, and who waits for them.
    pub cpu: CpuUsers<'a>,
    /// What is taken from the CPUs by others than threads.
    pub taken: TakenFromCpus,
    /// Whom memory was short for.
    pub memory: ShortOfMemory<'a>,
    /// The packet queues of this host.
    pub packet_queues: Vec<packet_queue::Queue<'a>>,
    /// TCP streams with something outstanding.
    pub tcp_streams: Vec<tcp_stream::Stream<'a>>,
    /// UDP sockets that dropped something.
    pub datagram_drops: Vec<datagram_drops::Dropping<'a>>,
    /// DNS questions with their answers, by server.
    pub dns_answers: BTreeMap<SocketAddr, Vec<dns_answers::Question<'a>>>,
    /// What processes spend their CPU time on.
    pub profile: cpu_profile::CpuProfile<'a>,
    /// What each disk did, with the limits, caches and arrays on it.
    pub disks: Disks<'a>,
    /// Index into the model's.
    times_by_process: OnceLock<HashMap<u32, Vec<usize>>>,
    run_queues: OnceLock<Vec<usize>>,
}

/// What is taken from the CPUs by others than threads, by CPU.
pub struct TakenFromCpus {
    /// By interrupts.
    pub interrupts: BTreeMap<u32, interrupts::Interrupts>,
    /// By the hypervisor, 0 to 1.
    pub stolen: BTreeMap<u32, f64>,
}

/// Whom memory was short for, and who brings pages into it.
pub struct ShortOfMemory<'a> {
    /// Who brings pages of files into memory, and which of them again, by number.
    pub readers: BTreeMap<u32, cache_readers::Reader>,
    /// Groups that met their memory limit.
    pub limited: Vec<Limited<'a>>,
    /// Processes that were killed for want of memory.
    pub oom_kills: Vec<oom_kills::Killed<'a>>,
    losses: OnceLock<Vec<memory_losses::Spent>>,
}

impl<'a> ShortOfMemory<'a> {
    fn of(model: &'a Model, timelines: &Timelines, ancestry: &Ancestry) -> Self {
        let mut oom_kills = oom_kills::oom_kills(model, ancestry);
        let limited = memory_limits::limited(model, timelines, ancestry, &oom_kills);
        memory_limits::mark_series(&limited, &mut oom_kills);
        let readers = cache_readers::readers(model);
        Self { readers, limited, oom_kills, losses: OnceLock::new() }
    }
}

impl<'a> Measures<'a> {
    /// Computes them.
    pub fn of(model: &'a Model, timelines: &'a Timelines) -> Self {
        Self::watched(model, timelines, &mut |_| {})
    }

    /// The same, while `watch` sees each piece of demand as it is added to its end.
    pub fn watched(
        model: &'a Model,
        timelines: &'a Timelines,
        watch: &mut dyn FnMut(&Lost<'_>),
    ) -> Self {
        let graph = Graph::of(model, timelines, watch);
        let disks = Disks::of(model, timelines);
        let packet_queues = packet_queue::packet_queues(model);
        let changes = tcp_stream::SocketChanges::of(model);
        let tcp_streams = tcp_stream::tcp_streams(model, &graph, &packet_queues, &changes);
        let datagram_drops = datagram_drops::datagram_drops(model, timelines, &changes);
        let dns_answers = dns_answers::dns_answers(model);
        let profile = cpu_profile::CpuProfile::of(model);
        let ancestry = Ancestry::of(model);
        Self {
            model,
            timelines,
            graph,
            cpu: CpuUsers::of(model, &ancestry),
            taken: TakenFromCpus {
                interrupts: interrupts::interrupts(model),
                stolen: steal::stolen(model),
            },
            memory: ShortOfMemory::of(model, timelines, &ancestry),
            ancestry,
            packet_queues,
            tcp_streams,
            datagram_drops,
            dns_answers,
            profile,
            disks,
            times_by_process: OnceLock::new(),
            run_queues: OnceLock::new(),
        }
    }

    /// The same of a model with its timelines.
    pub fn of_observed(observed: &'a Observed) -> Self {
        Self::of(&observed.model, &observed.timelines)
    }

    /// It is a command that is explained.
    pub fn is_command(&self) -> bool {
        self.graph.is_command()
    }

    /// Seconds that are explained: the window, or the command's life.
    pub fn wall_seconds(&self) -> f64 {
        self.graph.wall_seconds()
    }

    /// Time that a process did not spend idle: running, ready, or in demand waits, seconds.
    pub fn demand_seconds(&self, pid: u32) -> f64 {
        self.graph.demand_seconds(pid)
    }

    /// The name of a thread's process: its own at the time of its wait, if it is the main thread.
    pub fn process_name(&self, thread: &ThreadRef) -> String {
        if thread.tid == thread.pid && !thread.comm.is_empty() {
            return thread.comm.clone();
        }
        let main = self.model.threads.names.get(&thread.pid).filter(|main| !main.comm.is_empty());
        process_names::present(self.model, main.unwrap_or(thread)).comm
    }

    /// The same as the subject of a sentence: `app of shop/web-0/main`.
    pub fn subject(&self, thread: &ThreadRef) -> String {
        format!("{}{}", self.process_name(thread), self.model.of_container(thread))
    }

    /// The sums of the threads of a process; of thousands that came and went each is asked about.
    pub fn times_of(&self, pid: u32) -> impl Iterator<Item = &'a ThreadTime> + use<'_, 'a> {
        let all = self.times_by_process.get_or_init(|| {
            let mut all: HashMap<u32, Vec<usize>> = HashMap::new();
            for (at, time) in self.model.threads.times.iter().enumerate() {
                all.entry(time.thread.pid).or_default().push(at);
            }
            all
        });
        let model = self.model;
        all.get(&pid).into_iter().flatten().map(|at| &model.threads.times[*at])
    }

    /// Children of a process that have ended and that it has not collected.
    pub fn zombies_of(&self, parent: u32) -> usize {
        let is_one = |wait: &&WaitSpan| wait.class == WaitClass::Zombie && wait.standing;
        let all: BTreeSet<u32> = self.waits().filter(is_one).map(|wait| wait.thread.pid).collect();
        all.into_iter().filter(|pid| self.graph.parent_of(*pid) == Some(parent)).count()
    }

    /// `6 x gzip`, or the one process.
    pub fn program_shown(&self, program: &Program) -> String {
        match program.at_a_time.round() as usize {
            0 | 1 if program.count == 1 => {
                words::who(&self.model.threads.thread_ref(program.example))
            }
            0 | 1 => program.name.clone(),
            some => format!("{some} x {}", program.name),
        }
    }

    /// What a disk did.
    pub fn disk(&self, dev: DeviceNumber) -> Option<&DiskView<'a>> {
        self.disks.views.get(&dev)
    }

    /// Which ends are waits for a CPU, by index; few of thousands.
    pub fn run_queues(&self) -> &[usize] {
        self.run_queues.get_or_init(|| {
            let all = self.graph.ends.iter().enumerate();
            all.filter(|(_, end)| end.class == WaitClass::RunQueue).map(|(at, _)| at).collect()
        })
    }

    /// The ends of one class.
    pub fn class(&self, class: WaitClass) -> impl Iterator<Item = &End> {
        self.graph.class(class)
    }

    /// Every wait of every thread.
    pub fn waits(&self) -> impl Iterator<Item = &'a WaitSpan> + use<'a> {
        self.timelines.waits()
    }

    /// Whether a thread is of what is looked at; for a command, of the processes that it began.
    pub fn concerns(&self, thread: &ThreadRef) -> bool {
        match command_root(self.model) {
            Some(root) => self.ancestry.line(thread.pid).any(|pid| pid == root.pid),
            None => self.model.in_target(thread),
        }
    }

    /// Of a command: how long its path lay in a process between the waits that were seen, seconds.
    pub fn between_waits_on_path(&self, pid: u32) -> f64 {
        let between = self.graph.path.iter().filter(|leaf| {
            matches!(leaf.root().class, WaitClass::Running | WaitClass::Unseen)
                && leaf.root().who.pid == pid
        });
        between.map(|leaf| leaf.ns()).sum::<u64>() as f64 / 1e9
    }

    /// What the processes of each group that met its memory limit spent on it, in the order of `limited`.
    pub fn memory_losses(&self) -> &[memory_losses::Spent] {
        self.memory.losses.get_or_init(|| {
            self.memory.limited.iter().map(|one| self.spent(Whose::Group(one))).collect()
        })
    }

    /// What these processes spent on reading again, and on room for it.
    pub fn spent_by(&self, readers: &BTreeSet<u32>) -> memory_losses::Spent {
        self.spent(Whose::Processes(readers))
    }

    /// Who is not looked at and makes room at the end of the chains of who is: what is waited for each, seconds.
    fn make_room_beyond(&self) -> BTreeMap<u32, f64> {
        let mut all = BTreeMap::new();
        for end in self.graph.ends.iter().filter(|end| memory_losses::is_of_memory(end, false)) {
            let who = end.links.get(end.named).map(|link| &link.who);
            if let Some(who) = who.filter(|who| !self.model.in_target(who)) {
                *all.entry(who.pid).or_insert(0.0) += end.seconds;
            }
        }
        all
    }

    fn spent(&self, whose: Whose<'_>) -> memory_losses::Spent {
        let inputs = memory_losses::Inputs {
            model: self.model,
            timelines: self.timelines,
            ancestry: &self.ancestry,
            profile: &self.profile,
            limited: &self.memory.limited,
            readers: &self.memory.readers,
            sampled: &self.sampled(),
            waited_for: &self.make_room_beyond(),
        };
        memory_losses::of(&inputs, whose)
    }

    /// Every process of what is looked at that was sampled often enough, without kernel threads and the looker.
    pub fn sampled(&self) -> Vec<cpu_profile::Spent> {
        self.profile.all().filter(|one| self.concerns(&one.process)).collect()
    }

    /// Time of these processes that was not idle, reads that were too short to be seen included, seconds.
    pub fn memory_demand_seconds(&self, spent: &memory_losses::Spent, reads_back: bool) -> f64 {
        let model = self.model;
        let of_one = |(pid, lost): (&u32, &memory_losses::Loss)| {
            let times = model.threads.times.iter().filter(|time| time.thread.pid == *pid);
            let ran: u64 = times.map(|time| time.run_ns + time.runnable_ns).sum();
            let (off_cpu, all) = (lost.off_cpu(reads_back), lost.seconds(reads_back));
            self.demand_seconds(*pid).max(ran as f64 / 1e9 + off_cpu).max(all)
        };
        spent.iter().map(of_one).sum()
    }

    /// The part that a command waited for: of the waiting and of the work, what lies on its path.
    pub fn memory_seconds_on_path(&self, spent: &memory_losses::Spent, reads_back: bool) -> f64 {
        let waits = self.graph.ends.iter().filter(|end| {
            memory_losses::is_of_memory(end, reads_back)
                && end.links.get(end.named).is_some_and(|link| spent.contains_key(&link.who.pid))
        });
        let waited: f64 = spent.values().map(|lost| lost.waited(reads_back)).sum();
        // Between the waits that are seen a thread ran or waited briefly: its path does not say which.
        let between = spent.iter().map(|(pid, lost)| {
            let brief = lost.on_cpu(reads_back) + lost.waited_briefly(reads_back);
            self.between_waits_on_path(*pid).min(brief)
        });
        waited.min(waits.map(|end| end.seconds).sum()) + between.sum::<f64>()
    }
}
