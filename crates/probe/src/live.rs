//! The live host as a source: one look, from its opening facts to its closing ones.
//!
//! A look is: read what changes seldom, attach, walk every thread (what already stands makes no event),
//! then each tenth of a second take what came and a sample of the counters, and at the end walk again,
//! detach, and read the sums and whatever names the objects that were waited for. The order of facts is
//! the order of arrival. While the host is quiet it sleeps through tenths of seconds that would find nothing (quiet_host.rs).
//!
//! Must not: reason about waits, beyond choosing whose identity is worth reading; block on what it looks
//! at (files/ sees to that); act on the host. Rejected: a thread per reader (order would be lost, and one
//! look costs little; only what changes seldom is read beside the loading of the programs, which takes longer); waking up for
//! each event (a tenth of a second is soon enough and costs nothing).
//!
//! Edit together: plan.rs (programs), look_end.rs (what stands, and the end).

use crate::attach::{
    Decoding, begin, completed, follow_names, load, open_netlink, purpose, set_thresholds, traced,
};
use crate::command::{Ended, Held};
use crate::container_counters::ContainerCounters;
use crate::endpoints::inodes;
use crate::expense::Expense;
use crate::files::{
    self, Cgroups, Family, LockTable, Roots, Sampler, ThreadTimes, threads::clock_ns,
};
use crate::host;
use crate::kernel::{Programs, Queued};
use crate::kernel_log::KernelLog;
use crate::look_end::LastWalk;
use crate::mapper::Mapper;
use crate::netlink::Netlink;
use crate::next_hops::Unanswered;
use crate::own;
use crate::own::placement::{self, InterruptTicks, Moved};
use crate::plan;
use crate::quiet_host::{QuietHost, Sleep};
use crate::stopping::{Stopper, Stopping};
use crate::user_stacks::{Functions, Goroutines, Interpreters, JavaMonitors, UserStacks};
use crate::wait_threshold::{Events, WaitThreshold};
use crate::{Source, SourceError, container, memory, view};
use holdup_reason::facts::*;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};

/// Ticks between two walks over the standing waits of a command, and readings of counters that stand still.
pub(crate) const STANDING_TICKS: u64 = 10;
/// Events of a tick that leave the host quiet.
const QUIET_EVENTS: u64 = 10;
/// Of the thread that reads files while the programs are loaded; locked memory is dear.
const READER_STACK_BYTES: usize = 512 << 10;
/// Sockets remembered from the begin.
const SOCKETS_MAX: usize = 50_000;
/// Identities read per tick, so that a fork storm does not become ours.
const IDENTITIES_PER_TICK: usize = 200;

/// At what to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// All of it.
    Host,
    /// One process.
    Process(u32),
    /// One container, by name, id or cgroup path.
    Container(String),
    /// A command to start.
    Command(Vec<OsString>),
}

/// One look.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// At what.
    pub what: What,
    /// How long; none: until it is stopped, or the command ends.
    pub seconds: Option<f64>,
}

/// The facts of the opening, piece by piece: of thousands of cgroups they take more room than all that is kept of them,
/// and so much of it as was reported is given back before the rest is.
#[derive(Default)]
struct Pieces(VecDeque<Vec<Fact>>);

impl Pieces {
    fn push(&mut self, fact: Fact) {
        const FACTS: usize = 300;
        match self.0.back_mut().filter(|piece| piece.len() < FACTS) {
            Some(piece) => piece.push(fact),
            None => self.0.push_back(vec![fact]),
        }
    }
}

/// A look that is going on.
pub struct Live {
    pub(crate) roots: Roots,
    pub(crate) programs: Option<Programs>,
    pub(crate) cgroups: Cgroups,
    pub(crate) sampler: Sampler,
    pub(crate) locks: LockTable,
    pub(crate) mapper: Mapper,
    pub(crate) netlink: Option<Netlink>,
    pub(crate) kernel_log: Option<KernelLog>,
    pub(crate) container_counters: Option<ContainerCounters>,
    pub(crate) times: Option<ThreadTimes>,
    pub(crate) family: Option<Family>,
    /// The process whose family is walked where there are no kernel events.
    pub(crate) walked_pid: Option<u32>,
    pub(crate) identified: HashSet<u32>,
    pub(crate) objects: HashSet<u64>,
    pub(crate) polled: BTreeMap<(u32, u32), ThreadRef>,
    pub(crate) earlier: BTreeMap<(u32, u32, u64), Fact>,
    pub(crate) between: BTreeMap<(u32, u32, u64), Fact>,
    pub(crate) followed: HashSet<u64>,
    /// Addresses of which no answer comes.
    pub(crate) unanswered: Unanswered,
    /// How long the last reading of all descriptors took.
    pub(crate) reading_endpoints_ns: Ns,
    pub(crate) named_stacks: Vec<Vec<String>>,
    pub(crate) user_stacks: UserStacks,
    interpreters: Interpreters,
    pub(crate) functions: Functions,
    pub(crate) goroutines: Goroutines,
    pub(crate) java_monitors: JavaMonitors,
    pub(crate) own_pid: u32,
    pub(crate) wait_threshold: WaitThreshold,
    pub(crate) quiet: QuietHost,
    pub(crate) expense: Expense,
    pub(crate) is_command: bool,
    pub(crate) memory_locked: bool,
    pub(crate) held: Option<Held>,
    ended: Option<Ended>,
    pub(crate) ending: Option<LastWalk>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) stopping: Stopping,
    opening: Pieces,
    pub(crate) begin_ns: Ns,
    pub(crate) end_ns: Option<Ns>,
    pub(crate) ticks: u64,
    /// All events, and those of traced threads.
    events_seen: (u64, u64),
    braked_seen: u64,
    begun: bool,
    over: bool,
}

/// What of files does not have to be as old as the window.
struct Read {
    opening: files::Opening,
    containers: Vec<Container>,
    /// Inodes of network namespaces, each with a process in it.
    namespaces: BTreeMap<u32, u32>,
}

impl Read {
    fn of(roots: &Roots) -> Self {
        let opening = files::opening(roots);
        let containers = container::containers(roots, &opening.facts);
        Self { opening, containers, namespaces: files::network_namespaces(roots) }
    }
}

/// Does something long, which is the kernel's verifier, and reads files beside it; after it, where no thread may be begun. If it takes
/// so long, its thread is moved off CPUs that interrupts take.
fn while_it_reads<T>(roots: &Roots, load: impl FnOnce() -> T) -> (T, Read, Option<Moved>) {
    let looks = own::priority::own_tid();
    let (over, loads) = channel::<()>();
    std::thread::scope(|scope| {
        let read = move || {
            let read = Read::of(roots);
            let earlier = InterruptTicks::read();
            let is_loading =
                loads.recv_timeout(placement::BETWEEN) == Err(RecvTimeoutError::Timeout);
            let moved = is_loading.then(|| Moved::off_taken(looks, &earlier)).flatten();
            (read, moved)
        };
        let reader = std::thread::Builder::new().stack_size(READER_STACK_BYTES);
        let reader = reader.name("holdup-opening".into()).spawn_scoped(scope, read);
        own::priority::raise_helpers();
        let loaded = load();
        drop(over);
        match reader.map(|reader| reader.join()) {
            Ok(Ok((read, moved))) => (loaded, read, moved),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => (loaded, Read::of(roots), None),
        }
    })
}

pub(crate) fn system(doing: &str) -> impl Fn(std::io::Error) -> SourceError + '_ {
    move |error| SourceError::System { doing: doing.into(), error }
}

/// CLOCK_MONOTONIC now.
pub(crate) fn now() -> Ns {
    clock_ns(libc::CLOCK_MONOTONIC)
}

impl Live {
    /// Begins a look. A command is forked; the first reading lets it go.
    // LONG FUNCTION: the opening facts, once, in the order in which they must be read.
    pub fn start(look: Look) -> Result<Self, SourceError> {
        let mut opening_facts = Pieces::default();
        let mut put = |body| opening_facts.push(Fact { at_ns: now(), body });
        // First: a child inherits neither what the scheduler grants from here on nor a lock on memory.
        let held = match &look.what {
            What::Command(words) => Some(Held::fork(words).map_err(system("start the command"))?),
            _ => None,
        };
        let (roots, hidden) = view::of_host();
        hidden.into_iter().map(Body::Blind).for_each(&mut put);
        own::priority::raise_if_crowded();
        let memory_locked = own::memory::lock();
        let (purpose, asked_about) = purpose(&look.what);
        let offer = host::look(&plan::tracepoints());
        // Until the look has begun.
        let ((mut programs, names, blind), read, _moved) =
            while_it_reads(&roots, || load(&offer, purpose));
        let Read { opening, containers, namespaces } = read;
        let disk = |body: &Body| match body {
            Body::Disk(disk) => Some(disk.clone()),
            _ => None,
        };
        let disks: Vec<Disk> = opening.facts.iter().filter_map(disk).collect();
        let mut mounts = Vec::new();
        let container_counters = ContainerCounters::of(&look.what, &containers, &opening.facts);
        for body in opening.facts {
            match body {
                Body::Host(host) => put(Body::Host(completed(host, programs.is_some()))),
                Body::Mount(mount) => {
                    mounts.push(mount.clone());
                    put(Body::Mount(mount));
                }
                other => put(other),
            }
        }
        blind.into_iter().for_each(|blind| put(Body::Blind(blind)));
        let target = crate::target::target(&look.what, &roots, &containers)?;
        containers.into_iter().map(Body::Container).for_each(&mut put);
        let pid = held.as_ref().map_or(target.pid, |held| held.pid);
        put(Body::Target(Target { pid, ..target }));
        let mut cgroups = opening.cgroups;
        cgroups.samples().for_each(&mut put);
        container_counters.iter().for_each(|it| put(it.sample(&roots)));
        let mut sampler = Sampler::new(&roots);
        sampler.sample().into_iter().for_each(&mut put);
        let (mapper, caches) = Mapper::open(&roots, &disks);
        caches.into_iter().for_each(&mut put);
        files::net_counters(&roots, &namespaces).into_iter().for_each(&mut put);
        files::softirqs::softirqs(&roots).into_iter().for_each(&mut put);
        files::frequencies::frequencies(&roots).into_iter().for_each(&mut put);
        let netlink = open_netlink(&roots, &mut put);
        let kernel_log = KernelLog::open().map_err(|blind| put(Body::Blind(blind))).ok();

        let walked_pid = match &look.what {
            What::Process(pid) => Some(*pid),
            _ => held.as_ref().map(|held| held.pid),
        };
        let mut times = None;
        let mut earlier = BTreeMap::new();
        let begin_ns = now();
        match programs.as_mut() {
            Some(programs) => {
                let decoder = Decoding { mounts, hz: offer.config_hz, asked_about };
                let command = held.as_ref().map(|held| held.pid);
                begin(programs, &names, decoder, &look.what, command, &mut put)?;
                earlier = sockets(programs)?;
                follow_names(
                    programs,
                    earlier.values().any(|fact| crate::dns::asks_names(&fact.body)),
                )?;
                memory::name_polled(&mut programs.inbox.borrow_mut().facts, &earlier);
            }
            None => {
                let (begun, reported) = ThreadTimes::begin(&roots, begin_ns);
                reported.into_iter().for_each(&mut put);
                times = Some(begun);
            }
        }
        let goroutines = Goroutines::of(&look.what, earlier.values());
        let mut live = Self {
            roots,
            programs,
            cgroups,
            sampler,
            locks: LockTable::default(),
            mapper,
            netlink,
            kernel_log,
            container_counters,
            times,
            family: None,
            walked_pid,
            identified: HashSet::new(),
            objects: HashSet::new(),
            polled: BTreeMap::new(),
            earlier,
            between: BTreeMap::new(),
            followed: HashSet::new(),
            unanswered: Unanswered::default(),
            reading_endpoints_ns: 0,
            named_stacks: Vec::new(),
            user_stacks: UserStacks::of(&look.what),
            interpreters: Interpreters::of(&look.what),
            functions: Functions::of(&look.what),
            goroutines,
            java_monitors: JavaMonitors::of(&look.what),
            own_pid: std::process::id(),
            wait_threshold: WaitThreshold::new(
                traced(&look.what),
                crate::cpu_clock::online_cpus().len(),
            ),
            quiet: QuietHost::default(),
            expense: Expense::default(),
            is_command: held.is_some(),
            memory_locked,
            held,
            ended: None,
            ending: None,
            stop: Arc::new(AtomicBool::new(false)),
            stopping: Stopping::default(),
            opening: opening_facts,
            begin_ns,
            end_ns: look.seconds.map(|seconds| begin_ns + (seconds.max(0.0) * 1e9) as Ns),
            ticks: 0,
            events_seen: (0, 0),
            braked_seen: 0,
            begun: false,
            over: false,
        };
        if live.programs.is_none() {
            let mut facts = Vec::new();
            live.standing(&mut facts, false)?;
            live.locks.heed(&facts, false);
            facts.into_iter().for_each(|fact| live.opening.push(fact));
        }
        Ok(live)
    }

    /// Begins the window, and lets the command go: not before the caller reads, and so has caught the signals that
    /// he and the command get from a terminal.
    fn open_window(&mut self) -> Result<(), SourceError> {
        // A command's time begins with its release, a look's with the first fact of its window.
        if self.is_command {
            self.begin_ns = now();
        }
        let at_ns = self.begin_ns;
        let unix_ns = clock_ns(libc::CLOCK_REALTIME) - (now() - at_ns);
        self.opening.push(Fact { at_ns, body: Body::WindowBegin(WindowBegin { unix_ns }) });
        if let Some(log) = self.kernel_log.as_mut() {
            log.begin();
        }
        if let Some(held) = self.held.as_mut() {
            held.release().map_err(system("release the command"))?;
        }
        if let Some(pid) = self.walked_pid.filter(|_| self.programs.is_none()) {
            let begun = Family::begin(&self.roots, pid, at_ns);
            self.family = Some(begun.map_err(system("walk the command's processes"))?);
        }
        Ok(())
    }

    /// Set it to end the look early.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// What the handlers of signals that end the look at a command write to.
    pub fn command_stopper(&self) -> Stopper {
        self.stopping.stopper.clone()
    }

    /// Exit status of the command as a shell reports it, once it has ended; if a signal ended the look before, that of one whom the
    /// signal killed.
    pub fn exit_status(&self) -> Option<i32> {
        let killed = || self.stopping.signal().map(|signal| 128 + signal);
        self.ended.map(|ended| ended.exit_status).or_else(killed)
    }

    pub(crate) fn command_ended(&mut self) -> Result<bool, SourceError> {
        match self.held.as_ref().and_then(Held::ended) {
            None => Ok(self.ended.is_some()),
            Some(Ok(ended)) => {
                self.ended = Some(ended);
                Ok(true)
            }
            Some(Err(error)) => Err(system("execute the command")(error)),
        }
    }

    /// What came in so many ticks, decoded; the threshold follows the rate. Gives the number of events.
    pub(crate) fn take_events(
        &mut self,
        facts: &mut Vec<Fact>,
        ticks: u64,
    ) -> Result<u64, SourceError> {
        let Some(programs) = self.programs.as_mut() else {
            let seen = self.family.as_ref().map_or_else(Vec::new, Family::take);
            self.take_family(seen, facts);
            return Ok(0);
        };
        programs.consume()?;
        follow_names(programs, false)?;
        let events = self.follow_rate(ticks);
        if let Some(programs) = &self.programs {
            facts.append(&mut programs.inbox.borrow_mut().facts);
        }
        Ok(events)
    }

    pub(crate) fn follow_rate(&mut self, ticks: u64) -> u64 {
        let Some(programs) = self.programs.as_mut() else { return 0 };
        let inbox = programs.inbox.borrow();
        let (all, traced) = (inbox.decoder.events, inbox.decoder.traced_events);
        let (all_before, traced_before) = std::mem::replace(&mut self.events_seen, (all, traced));
        let (fresh, traced) = (all - all_before, traced - traced_before);
        let events = Events { traced, others: fresh - traced };
        let braked = std::mem::replace(&mut self.braked_seen, programs.braked());
        if self.wait_threshold.observe(events, ticks, braked != self.braked_seen) {
            self.wait_threshold.blame(&inbox.facts);
        }
        drop(inbox);
        if let Some(control) = programs.control() {
            set_thresholds(control, &self.wait_threshold);
        }
        fresh
    }

    /// Reads who the threads are that new waits name, while they still live.
    fn identify_new(&mut self, facts: &mut Vec<Fact>) {
        let mut wanted = Vec::new();
        for fact in facts.iter() {
            if let Body::Wait(wait) = &fact.body {
                self.unanswered.heed(wait.place.object.as_ref());
                self.objects.extend(wait.place.object.iter().flat_map(inodes));
                wanted.push(wait.thread.tid);
                if let Some(wake) = &wait.wake
                    && wake.context == WakeContext::Task
                {
                    wanted.push(wake.by.tid);
                }
            }
        }
        if self.is_overdue() {
            return;
        }
        wanted.retain(|tid| *tid != 0 && self.identified.insert(*tid));
        wanted.truncate(IDENTITIES_PER_TICK);
        let reported = files::threads_of(&self.roots, wanted);
        facts.extend(reported.into_iter().map(|t| Fact { at_ns: now(), body: Body::Thread(t) }));
    }

    fn tick(
        &mut self,
        facts: &mut Vec<Fact>,
        sleep: Sleep,
        is_last: bool,
    ) -> Result<(), SourceError> {
        let ticks = sleep.ticks();
        let events = self.take_events(facts, ticks)?;
        self.identify_new(facts);
        sleep.slept_through().for_each(|at_ns| self.slept_tick(facts, at_ns));
        self.ticks += ticks;
        let again = self.ticks.is_multiple_of(STANDING_TICKS);
        let at_ns = now();
        let queued = self.programs.as_mut().map_or_else(Queued::default, Programs::queued);
        let counters = match is_last {
            true => self.sampler.sample(),
            false => self.sampler.tick(queued.bio, again),
        };
        facts.extend(counters.into_iter().map(|body| Fact { at_ns, body }));
        if let Some(netlink) = self.netlink.as_mut() {
            let samples = netlink.qdisc_samples(queued.packet, again);
            facts.extend(samples.into_iter().map(|body| Fact { at_ns, body }));
        }
        if let Some(programs) = &self.programs {
            self.expense.tick(self.ticks, programs);
        }
        if let Some(times) = self.times.as_mut() {
            times.observe();
        }
        let samples_waits = self.is_command || self.programs.is_none();
        if samples_waits && again && !is_last && !self.is_overdue() {
            self.standing(facts, self.is_command)?;
        }
        let lasted_ns = now().saturating_sub(self.begin_ns);
        if let Some(family) = self.family.as_ref().filter(|_| self.is_command) {
            self.interpreters.walked(family.members().into_iter());
        }
        let spent_ns = self.interpreters.tick(facts, lasted_ns) + self.goroutines.tick(facts);
        self.user_stacks.pay(spent_ns + self.java_monitors.tick(facts));
        // Behind the monitors: who waits for one comes first.
        self.user_stacks_between(facts, is_last)?;
        self.functions.tick(facts, self.ticks);
        if queued.lock {
            self.locks.want();
        }
        // What the walk at the begin found is reported here, however quiet the host.
        self.report_stacks(facts);
        self.locks.heed(facts, self.programs.is_some());
        if let Some(family) = &self.family {
            self.locks.look_into(family.askers());
        }
        self.locks.tick(&self.roots, facts);
        let still = self.sampler.still_ticks().is_some()
            && self.netlink.as_ref().is_none_or(Netlink::is_still)
            && !self.locks.is_wanted();
        // Every wait of a command is reported: its threads are to be read while they live.
        self.quiet.passed(ticks, still && events <= QUIET_EVENTS * ticks && !self.is_command);
        self.watch();
        Ok(())
    }
}

impl Source for Live {
    fn drain(&mut self, facts: &mut Vec<Fact>) -> Result<bool, SourceError> {
        if self.over {
            return Ok(false);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.open_window()?;
        }
        // Before what is left to be reported of the opening, which may take longer than the window on a host that is busy.
        self.end_if_over()?;
        if let Some(mut piece) = self.opening.0.pop_front() {
            facts.append(&mut piece);
            return Ok(true);
        }
        let sleep = match self.ending {
            None => self.sleep()?,
            Some(_) => Sleep::over(now()),
        };
        self.end_if_over()?;
        let Some(mut last) = self.ending.take() else {
            self.tick(facts, sleep, false)?;
            return Ok(true);
        };
        self.over = true;
        let mut late = Vec::new();
        self.tick(&mut late, sleep, true)?;
        facts.append(&mut last.without_repeats(late));
        if let (Some(ended), Some(held)) = (self.ended, &self.held) {
            let body = Body::CommandEnd(CommandEnd {
                pid: held.pid,
                exit_status: ended.exit_status,
                signal: ended.signal,
            });
            facts.push(Fact { at_ns: ended.at_ns, body });
        }
        self.close(facts, last)?;
        Ok(false)
    }
}

/// Sockets of the internet as they are now, by process, descriptor and inode: what they count since
/// they began means little without it. Reported at the end, of those that matter then.
fn sockets(programs: &mut Programs) -> Result<BTreeMap<(u32, u32, u64), Fact>, SourceError> {
    let at_ns = now();
    let counts = programs.endpoints()?.into_iter().take(SOCKETS_MAX).filter_map(|endpoint| {
        let ObjectRef::Inet(socket) = &endpoint.object else { return None };
        let key = (endpoint.process.pid, endpoint.fd, socket.ino);
        Some((key, Fact { at_ns, body: Body::Endpoint(endpoint) }))
    });
    Ok(counts.collect())
}
